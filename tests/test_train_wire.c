/*
 * Training with what crosses the cuts encoded: programs of every schedule and policy are proved and read back, all transports
 * and devices come to the same bits, memory is as planned, and a number that is not finite still ends the run.
 */
#include "program_support.h"
#include "run_support.h"

static const char *const codecs[] = {"bf16", "int8", "topk:0.3", "int8/topk:0.1", "none/bf16"};
enum { CODECS = sizeof codecs / sizeof *codecs };

static const struct {
    const char *schedule, *weights, *optimizer, *model;
    int workers, micro_batches, replicas[6];
    bool recompute;
} cases[] = {
    {"1f1b", "sync", "sgdm", NULL, 3, 4, {0}, false},
    {"1f1b-async", "pipeoptim", "adam", NULL, 4, 1, {0}, false},
    {"1f1b-async", "stash", "sgdm", NULL, 3, 2, {0}, true},
    {"interleaved", "sync", "sgdm", NULL, 2, 4, {0}, false},
    {"zb-v", "sync", "adam", NULL, 2, 4, {0}, false},
    {"1f1b", "sync", "adam", NULL, 0, 4, {2, 1, 2}, false},
    {"1f1b-async", "pipeoptim", "sgdm", NULL, 0, 1, {3}, false},
    {"1f1b", "sync", "sgdm", NULL, 0, 6, {3, 3}, false},
    {"chimera", "sync", "sgdm", NULL, 2, 4, {0}, false},
    {"1f1b", "sync", "adam", "gpt2,layers=1,width=8,heads=2,seq=6,vocab=9,tied=1", 0, 4, {2}, false},
    {"gpipe", "sync", "sgdm", "gnmt8,seq=6,vocab=11,hidden=8", 3, 2, {0}, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct run_case case_of(int c, const char *wire) {
    struct run_case wanted = {.schedule = cases[c].schedule,
                              .weights = cases[c].weights,
                              .optimizer = cases[c].optimizer,
                              .model = cases[c].model,
                              .workers = cases[c].workers,
                              .micro_batches = cases[c].micro_batches,
                              .recompute = cases[c].recompute,
                              .wire = wire,
                              .steps = 6,
                              .evaluate_every = 3,
                              .lr = 0.01,
                              .data = cases[c].model ? "synthetic:tokens,samples=48" : "synthetic:images,samples=192",
                              .valid = cases[c].model ? "synthetic:tokens,samples=8" : "synthetic:images,samples=8"};
    memcpy(wanted.replicas, cases[c].replicas, sizeof wanted.replicas);
    return run_case_complete(wanted);
}

static void test_same_bits_everywhere(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int w = c % 2; w < CODECS; w += 2) {
            struct run_case threads = case_of(c, codecs[w]), serial = threads, far = threads, plain = threads;
            print_message("%s, %s, %s\n", cases[c].schedule, cases[c].weights, codecs[w]);
            serial.transport = "serial";
            plain.wire = NULL;
            struct trained a = run_case_weights(threads), b = run_case_weights(serial), d = run_case_weights(plain);
            assert_true(trained_equal(&a, &b));
            assert_true(memcmp(a.values, d.values, a.count * sizeof *a.values) != 0);
            trained_free(&b);
            trained_free(&d);
            trained_free(&a);
            if (w != c % 2) continue;
            far.device = "far";
            threads.device = "cpu";
            assert_same_weights(threads, far);
        }
}

static void test_programs_are_proved(void **state) {
    (void)state;
    int lowered = 0;
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++)
            for (int recompute = 0; recompute < 2; recompute++) {
                struct run_case wanted = {.schedule = schedule_table[s]->name,
                                          .weights = policy_table[p]->name,
                                          .workers = 4,
                                          .micro_batches = 8,
                                          .recompute = recompute,
                                          .wire = codecs[lowered % CODECS]};
                struct ps_programs *programs;
                if (!combination_possible(schedule_table[s], policy_table[p], 4, 8) || schedule_table[s]->in_flight ||
                    strcmp(schedule_table[s]->name, "pattern") == 0)
                    continue;
                wanted.model = "resnet,input=16,classes=4";
                wanted = run_case_complete(wanted);
                struct ps_plan *plan = run_case_plan(&wanted);
                assert_ok(lower_plan(plan, 3, &programs, &test_error));
                check_round_trip(programs);
                ps_programs_destroy(programs);
                ps_plan_destroy(plan);
                lowered++;
            }
    print_message("%d programs\n", lowered);
    assert_true(lowered > 40);
}

static struct ps_programs *lower_case(int c) {
    struct run_case wanted = case_of(c, "int8");
    struct ps_plan *plan = run_case_plan(&wanted);
    struct ps_programs *programs;
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    ps_plan_destroy(plan);
    return programs;
}

static void test_wrong_programs_are_refused(void **state) {
    (void)state;
    struct ps_programs *programs = lower_case(0);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_EA, 1));
    expect_refused(programs, "its encoded activation is not that of this micro-batch");
    programs = lower_case(0);
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_DA, 0));
    expect_refused(programs, "its input block does not hold this micro-batch");
    programs = lower_case(0);
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_DG, 0));
    expect_refused(programs, "its output-gradient block does not hold this micro-batch");
    programs = lower_case(0);
    struct instruction *instruction = nth(programs, 0, OP_SA, 0);
    instruction->block[BLOCK_OUTPUT] = 0;
    instruction->block[BLOCK_WIRE + WIRE_ACTIVATION_SENT] = NO_SLOT;
    expect_refused(programs, "transfers what its cut's codec must encode");
    programs = lower_case(0);
    struct instruction *one = nth(programs, 1, OP_DA, 0), copy = *one, *other = one;
    while (other->op != OP_F) other++;
    *one = *other; /* the forward before its input is decoded */
    *other = copy;
    expect_refused(programs, "its input block does not hold this micro-batch");
}

/* Encoded blocks; the others: test_program_broken.c. */
static void test_encoded_blocks_are_named(void **state) {
    (void)state;
    static const struct {
        int worker;
        enum opcode removed, changed;
        enum wire_block kind;
        const char *reason;
    } wrong[] = {
        {0, OP_EA, OPCODE_COUNT, WIRE_ACTIVATION_SENT, ": its encoded activation is not that of this micro-batch"},
        {1, OPCODE_COUNT, OP_DA, WIRE_ACTIVATION_RECEIVED,
         "the encoded activation that it received is not that of this micro-batch"},
        {1, OP_EG, OPCODE_COUNT, WIRE_GRADIENT_SENT, ": its encoded gradient is not that of this micro-batch"},
        {1, OPCODE_COUNT, OP_DG, WIRE_GRADIENT_RECEIVED,
         "the encoded gradient that it received is not that of this micro-batch"},
        {0, OP_SA, OP_EA, WIRE_ACTIVATION_SENT, "overwrites an encoded activation that was not sent"},
        {1, OPCODE_COUNT, OP_RA, WIRE_ACTIVATION_RECEIVED, "overwrites an encoded activation that is still needed"},
        {1, OP_SG, OP_EG, WIRE_GRADIENT_SENT, "overwrites an encoded gradient that was not sent"},
        {0, OP_DG, OP_RG, WIRE_GRADIENT_RECEIVED, "overwrites an encoded gradient that is still needed"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        expect_wrong_block(lower_case(0),
                           &(struct wrong_block){wrong[w].worker, wrong[w].removed, wrong[w].changed,
                                                 (enum block_kind)(BLOCK_WIRE + (int)wrong[w].kind), wrong[w].reason});
}

static void test_wrong_programs_of_sums_are_refused(void **state) {
    enum { DATA_PARALLEL = 6 };
    (void)state;
    struct ps_programs *programs = lower_case(DATA_PARALLEL);
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_ES, 0));
    expect_refused(programs, "the gradients are not rounded to the codec of the sum");
    programs = lower_case(DATA_PARALLEL);
    programs->sum_wire[0] = (struct sum_wire){0};
    expect_refused(programs, "the stage's sum has no codec");
    programs = lower_case(DATA_PARALLEL);
    struct instruction *rounding = nth(programs, 0, OP_ES, 0), copy = *rounding, *before = rounding - 1;
    assert_int_equal(before->op, OP_B);
    *rounding = *before; /* before all gradients are there */
    *before = copy;
    expect_refused(programs, "the mini-batch's gradients are not complete");
    programs = lower_case(DATA_PARALLEL);
    rounding = nth(programs, 0, OP_AR, 0);
    *rounding = *nth(programs, 0, OP_ES, 0);
    expect_refused(programs, "the gradients are rounded a second time");
}

static void test_memory_is_as_planned(void **state) {
    static const char *const wires[] = {"bf16", "int8", "topk:0.1", "auto:int8"};
    (void)state;
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        struct worker_memory memory;
        struct run_case wanted = {.workers = 3, .micro_batches = 4, .device = "cpu", .wire = wires[w]};
        wanted.model = "resnet,input=16,classes=4";
        run_case_memory(wanted, &memory);
    }
}

static void test_loss_that_is_not_finite_ends_the_run(void **state) {
    (void)state;
    for (int w = 0; w < CODECS; w++) {
        char directory[4096], plan_path[4096];
        struct run_case wanted = case_of(2, codecs[w]);
        wanted.lr = 1e5;
        wanted.steps = 20;
        struct training options = run_case_planned(&wanted, directory, plan_path);
        struct ps_run *run = NULL;
        struct ps_error error = {0};
        assert_int_equal(training_run(&options, &run, &error), PS_FAILED);
        assert_non_null(strstr(error.message, "the loss became"));
        test_directory_remove(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_programs_are_proved),
        cmocka_unit_test(test_wrong_programs_are_refused),
        cmocka_unit_test(test_encoded_blocks_are_named),
        cmocka_unit_test(test_wrong_programs_of_sums_are_refused),
        cmocka_unit_test(test_memory_is_as_planned),
        cmocka_unit_test(test_loss_that_is_not_finite_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
