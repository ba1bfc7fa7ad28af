/* Listings of programs that say more than the usual ones: codecs, replicas whose sums have one, stages that share parameters.
 * Each reads back as it was printed, and a wrong word of it is refused in a line that says what may stand there. */
#include <string.h>

#include "plan/plan.h"
#include "program_support.h"

/* Stage 0 on workers 0 and 1, which sum in bf16; behind it int8 and topk, and a stage that recomputes; then a last one. */
static struct ps_programs *encoded_programs(void) {
    static const int both[] = {0, 1};
    struct ps_plan *plan;
    struct ps_programs *programs;
    assert_ok(plan_create(4, 3, &plan, &test_error));
    strcpy(plan->schedule, "1f1b");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 4;
    assert_ok(plan_stage_workers(plan, 0, both, 2, both, 2, &test_error));
    plan->stages[0].first = plan->stages[0].last = 0;
    assert_ok(plan_stage_set(plan, 1, 1, 1, 2, &test_error));
    assert_ok(plan_stage_set(plan, 2, 2, 2, 3, &test_error));
    plan->stages[0].sum_wire.codec = WIRE_BF16;
    plan->stages[0].wire = (struct cut_wire){{.codec = WIRE_INT8}, {.codec = WIRE_TOPK, .share = 0.25}};
    plan->stages[1].wire.gradient.codec = WIRE_BF16;
    plan->stages[1].recompute = true;
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    ps_plan_destroy(plan);
    return programs;
}

/* The text with its first `what` replaced; to be freed. */
static char *replaced(const char *text, const char *what, const char *by) {
    const char *at = strstr(text, what);
    if (!at) fail_msg("no '%s' in:\n%s", what, text);
    const size_t before = (size_t)(at - text), size = strlen(text) + strlen(by) + 1;
    char *made = malloc(size);
    assert_non_null(made);
    snprintf(made, size, "%.*s%s%s", (int)before, text, by, at + strlen(what));
    return made;
}

static void codecs_read_back(void **state) {
    (void)state;
    struct ps_programs *programs = encoded_programs(), *again;
    assert_ok(ps_programs_verify(programs, &test_error));
    check_round_trip(programs);
    char *text = ps_programs_print(programs);
    assert_non_null(strstr(text, "\nworkers 4\n"));
    assert_non_null(strstr(text, "\nstage 0 worker 1 replica 1/2 slots "));
    assert_non_null(strstr(text, " wire int8 topk:0.25 sum bf16\n"));
    assert_non_null(strstr(text, " recompute wire none bf16\n"));
    assert_ok(ps_programs_parse(text, &again, &test_error));
    assert_int_equal(again->wire[0].activation.codec, WIRE_INT8);
    assert_true(again->wire[0].gradient.codec == WIRE_TOPK && again->wire[0].gradient.share == 0.25);
    assert_int_equal(again->wire[1].activation.codec, WIRE_NONE);
    assert_int_equal(again->wire[1].gradient.codec, WIRE_BF16);
    assert_int_equal(again->sum_wire[0].share.codec, WIRE_BF16);
    assert_int_equal(again->sum_wire[0].sum.codec, programs->sum_wire[0].sum.codec);
    assert_int_equal(again->sum_wire[1].share.codec, WIRE_NONE);
    assert_true(again->recompute[1] && !again->recompute[0] && !again->recompute[2]);
    ps_programs_destroy(again);

    static const struct {
        const char *what, *by, *reason;
    } wrong[] = {
        {"wire int8 topk:0.25", "wire int4 topk:0.25", "line 7: wire: 'int4' is not none, bf16, int8 or topk:SHARE"},
        {"wire int8 topk:0.25", "wire int8 topk:2", "line 7: wire: 'topk:2' is not none, bf16, int8 or topk:SHARE"},
        {"wire int8 topk:0.25", "wire int8", "line 7: wire: 'sum' is not none, bf16, int8 or topk:SHARE"},
        {"sum bf16", "sum f16", "line 7: sum: 'f16' is not none, bf16, int8 or topk:SHARE"},
        {"sum bf16", "sum bf16 more", "line 7: stage: 'more' is not 'recompute', 'wire', of replicas 'sum', or the end"},
        {"wire none bf16", "wire none bf16 sum bf16",
         "line 9: stage: 'sum' is not 'recompute', 'wire', of replicas 'sum', or the end"},
        {"replica 1/2", "replica 2/2", "line 8: replica: '2/2' is not of the form 0/2"},
        {"replica 1/2", "replica 1-2", "line 8: replica: '1-2' is not of the form 0/2"},
        {"replica 1/2", "replica 1/2/", "line 8: replica: '1/2/' is not of the form 0/2"},
        {"replica 1/2 slots", "replica 1/2 blocks", "line 8: stage: 'blocks' is not 'slots'"},
        {"slots @", "slots s", "line 7: slots: 's"},
        {"stage 0 worker 1", "stage 0 worker 4", "line 8: worker: '4' is not a number from 0 to 3"},
        {"stage 1 worker", "stage 3 worker", "line 9: stage: '3' is not a number from 0 to 1"},
        {"stage 0 worker 0", "stage 1 worker 0", "line 7: stage: '1' is not a number from 0 to 0"},
        {"stage 2 worker", "stage 0 worker", "line 9: stage: '1' is not a number from 0 to 0"},
        {"schedule 1f1b", "schedule 1f1c", "line 2: schedule: '1f1c' is not known; did you mean '1f1b'?"},
        {"weights sync", "weights sink", "line 3: weights: 'sink' is not known; did you mean 'sync'?"},
        {"micro-batches 4", "micro-batches 0", "line 4: micro-batches: '0' is not a number from 1 to 16777216"},
        {"micro-batches 4", "micro-batches 4x", "line 4: micro-batches: '4x' is not a number from 1 to 16777216"},
        {"\nbatches 2", "\nbatches 4194305", "line 5: batches: '4194305' is not a number from 1 to 4194304"},
        {"workers 4", "workers 32768", "line 6: workers: '32768' is not a number from 1 to 32767"},
        {"workers 4", "workers 4 bound", "line 6: workers: 'bound' is not 'tied'"},
        {"worker 1:", "worker 2:", "line 12: program: '2:' is not '1:'"},
        {"0F0@", "0Q0@", "line 11: instruction: '0Q0@"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *broken = replaced(text, wrong[i].what, wrong[i].by);
        assert_int_equal(ps_programs_parse(broken, &again, &test_error), PS_BAD_INPUT);
        if (!strstr(test_error.message, wrong[i].reason))
            fail_msg("'%s' instead of '%s': %s", wrong[i].by, wrong[i].what, test_error.message);
        test_error = (struct ps_error){0};
        free(broken);
    }
    char *longer = replaced(text, "\nworker 0:", " \t\r# what is behind this counts not: wire\n\n  # nor this\nworker 0:");
    assert_ok(ps_programs_parse(longer, &again, &test_error));
    ps_programs_destroy(again);
    free(longer);
    longer = malloc(strlen(text) + 32);
    assert_non_null(longer);
    sprintf(longer, "%s\nmore\n", text);
    assert_status(ps_programs_parse(longer, &again, &test_error), PS_BAD_INPUT, "is not the end of the text");
    free(longer);
    free(text);
    ps_programs_destroy(programs);
}

/* Stages that share parameters: "tied" alone where these are the first and the last. */
static void ties_read_back(void **state) {
    (void)state;
    struct ps_programs *programs, *again;
    assert_ok(lower_plain("gpipe", "sync", 4, 2, 1, &programs));
    char *plain = ps_programs_print(programs);
    static const struct {
        const char *ties, *printed;
        int group[4];
    } ties[] = {
        {" tied", " tied", {0, 1, 2, 0}},
        {" tied 0,3", " tied", {0, 1, 2, 0}},
        {" tied 1,2", " tied 1,2", {0, 1, 1, 3}},
        {" tied 0,2 1,3", " tied 0,2 1,3", {0, 1, 0, 1}},
        {" tied 0,3 0,1", " tied 0,1 0,3", {0, 0, 2, 0}},
        {" tied 0,3 1,2", " tied 1,2 0,3", {0, 1, 1, 0}},
        {"", "", {0, 1, 2, 3}},
    };
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
        char line[64];
        snprintf(line, sizeof line, "\nworkers 4%s\n", ties[i].ties);
        char *text = replaced(plain, "\nworkers 4\n", line);
        assert_ok(ps_programs_parse(text, &again, &test_error));
        for (int s = 0; s < 4; s++) assert_int_equal(again->groups[s].number, ties[i].group[s]);
        free(text);
        text = ps_programs_print(again);
        snprintf(line, sizeof line, "\nworkers 4%s\n", ties[i].printed);
        if (!strstr(text, line)) fail_msg("%s: %.120s", line, text);
        free(text);
        ps_programs_destroy(again);
    }
    static const char *const wrong[] = {"0,4", "2,1", "1,1", "0", "0,2,", "0;2", "a,2", "0,", "-1,2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[64], reason[160];
        snprintf(line, sizeof line, "workers 4 tied %s", wrong[i]);
        snprintf(reason, sizeof reason,
                 "line 6: tied: '%s' is not of the form 0,2: the first of the stages that share, and one of the others",
                 wrong[i]);
        char *text = replaced(plain, "workers 4", line);
        assert_status(ps_programs_parse(text, &again, &test_error), PS_BAD_INPUT, reason);
        free(text);
    }
    /* 2 shares already, and so it is neither the first of others nor shares once more. */
    static const char *const twice[] = {"0,2 2,3", "0,2 1,2", "0,2 0,2"};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        char line[64];
        snprintf(line, sizeof line, "workers 4 tied %s", twice[i]);
        char *text = replaced(plain, "workers 4", line);
        assert_status(ps_programs_parse(text, &again, &test_error), PS_BAD_INPUT, strchr(twice[i], ' ') + 1);
        free(text);
    }
    free(plain);
    ps_programs_destroy(programs);
}

/* What PyTorch's schedules cannot say of a plan; the rest of the reasons are in test_program_lower.c. */
static void torch_refuses(void **state) {
    (void)state;
    enum { STAGES = 3 };
    enum what { ACTIVATION, GRADIENT, RECOMPUTE, REPLICAS, IDLE, KINDS };
    static const char *const said[KINDS] = {
        [ACTIVATION] = "the cut after stage %d encodes what it sends; PyTorch's schedules cannot say it: plan with --wire none",
        [GRADIENT] = "the cut after stage %d encodes what it sends; PyTorch's schedules cannot say it: plan with --wire none",
        [RECOMPUTE] = "stage %d recomputes its forward; PyTorch's schedules cannot say it: plan without, and use "
                      "torch.utils.checkpoint in the module",
        [REPLICAS] =
            "stage %d is on 2 workers (schedule 1f1b); PyTorch's schedules cannot say it, where a stage is on one rank",
        [IDLE] = "worker %d of 4 has no stage; PyTorch needs one on each rank"};
    for (enum what what = ACTIVATION; what < KINDS; what++)
        for (int which = 0; which < (what == IDLE ? STAGES + 1 : what > GRADIENT ? STAGES : STAGES - 1); which++) {
            struct ps_plan *plan;
            struct ps_programs *programs;
            char *csv, expected[200];
            assert_ok(plan_create(what >= REPLICAS ? STAGES + 1 : STAGES, STAGES, &plan, &test_error));
            strcpy(plan->schedule, "1f1b");
            strcpy(plan->weights, "sync");
            plan->micro_batches = 2;
            for (int s = 0, worker = 0; s < STAGES; s++, worker++) {
                if (what == IDLE && worker == which) worker++;
                assert_ok(plan_stage_set(plan, s, s, s, worker, &test_error));
                if (what != REPLICAS || s != which) continue;
                const int both[] = {worker, worker + 1};
                assert_ok(plan_stage_workers(plan, s, both, 2, both, 2, &test_error));
                worker++;
            }
            if (what == ACTIVATION) plan->stages[which].wire.activation.codec = WIRE_INT8;
            if (what == GRADIENT) plan->stages[which].wire.gradient.codec = WIRE_INT8;
            if (what == RECOMPUTE) plan->stages[which].recompute = true;
            assert_ok(lower_plan(plan, 1, &programs, &test_error));
            snprintf(expected, sizeof expected, said[what], which);
            assert_int_equal(ps_programs_torch_csv(programs, &csv, &test_error), PS_USAGE);
            assert_string_equal(test_error.message, expected);
            ps_programs_destroy(programs);
            ps_plan_destroy(plan);
        }
}

/* One encoded block of each kind is as much of a listing as several. */
static void single_blocks_read_back(void **state) {
    (void)state;
    struct ps_plan *plan;
    struct ps_programs *programs;
    assert_ok(plan_create(2, 2, &plan, &test_error));
    strcpy(plan->schedule, "naive");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 1;
    for (int s = 0; s < 2; s++) assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
    plan->stages[0].wire = (struct cut_wire){{.codec = WIRE_INT8}, {.codec = WIRE_BF16}};
    assert_ok(lower_plan(plan, 1, &programs, &test_error));
    for (int b = 0; b < WIRE_BLOCKS; b++) assert_int_equal(programs->slots[0].wire[b] + programs->slots[1].wire[b], 1);
    check_round_trip(programs);
    ps_programs_destroy(programs);
    ps_plan_destroy(plan);
}

/* Instances of a stage that do not make whole replicas, each on a worker of its own. */
static void instances_are_checked(void **state) {
    (void)state;
    static const char *const said[] = {"stage 0: is given 2 replicas and 3", "stage 0: worker 0 holds two instances of it",
                                       "stage 0: replica 0 is on workers 0 and 1",
                                       "stage 0: 2 replicas, but instances for 1 forwards and 2 backwards",
                                       "stage 0: 2 replicas, but instances for 2 forwards and 1 backwards"};
    for (int which = 0; which < 5; which++) {
        struct ps_programs *programs = encoded_programs();
        struct instance *instances = programs->instances;
        if (which == 0) instances[1].replicas = 3;
        if (which == 1) instances[1].worker = 0;
        if (which == 2) instances[1].replica = 0;
        if (which == 3) instances[0].forward = false;
        if (which == 4) instances[1].backward = false;
        assert_int_equal(ps_programs_verify(programs, &test_error), PS_BAD_INPUT);
        assert_string_equal(test_error.message, said[which]);
        ps_programs_destroy(programs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codecs_read_back),      cmocka_unit_test(ties_read_back),          cmocka_unit_test(torch_refuses),
        cmocka_unit_test(instances_are_checked), cmocka_unit_test(single_blocks_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
