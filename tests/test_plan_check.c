/* What no plan may say, and what no program can be made of, each at both sides of its limit: refused in a line that names it.
 */
#include <string.h>

#include "plan/plan.h"
#include "program_support.h"

/* Three stages of two layers each, on workers 0 to 2. */
static struct ps_plan *sample_plan(const char *schedule, const char *weights) {
    struct ps_plan *plan;
    assert_ok(plan_create(3, 3, &plan, &test_error));
    strcpy(plan->schedule, schedule);
    strcpy(plan->weights, weights);
    for (int s = 0; s < 3; s++) assert_ok(plan_stage_set(plan, s, 2 * s, 2 * s + 1, s, &test_error));
    return plan;
}

static void refused(const struct ps_plan *plan, int layers, const char *message) {
    assert_int_equal(plan_check(plan, layers, &test_error), PS_BAD_INPUT);
    assert_string_equal(test_error.message, message);
    test_error = (struct ps_error){0};
}

static void numbers(void **state) {
    (void)state;
    struct ps_plan *plan = sample_plan("1f1b", "sync");
    assert_ok(plan_check(plan, 6, &test_error));
    assert_ok(plan_check(plan, 0, &test_error)); /* the network is not known */
    refused(plan, 5, "stages[2].layers: 6 is past the model's last layer 5");
    refused(plan, 7, "stages[2].layers: ends with layer 6, but the model's last is 7");
    plan->workers = 0;
    refused(plan, 6, "workers: 0 is not from 1 to 4096");
    plan->workers = PLAN_WORKERS_MAX + 1;
    refused(plan, 6, "workers: 4097 is not from 1 to 4096");
    plan->workers = PLAN_WORKERS_MAX;
    assert_ok(plan_check(plan, 6, &test_error));
    plan->workers = 2;
    refused(plan, 6, "stages[2].forward: 2 is no worker; they are 0 to 1");
    plan->workers = 3;
    plan->micro_batch = -1;
    refused(plan, 6, "micro_batch: -1 is negative");
    plan->micro_batch = 0;
    plan->micro_batches = 0;
    refused(plan, 6, "micro_batches: 0 is not from 1 to 65536");
    plan->micro_batches = PLAN_MICRO_BATCHES_MAX + 1;
    refused(plan, 6, "micro_batches: 65537 is not from 1 to 65536");
    plan->micro_batches = PLAN_MICRO_BATCHES_MAX;
    assert_ok(plan_check(plan, 6, &test_error));
    plan->micro_batches = 1;
    plan->stage_count = 0;
    refused(plan, 6, "stages: there must be at least one");
    plan->stage_count = 3;
    ps_plan_destroy(plan);
}

static void stages(void **state) {
    (void)state;
    struct ps_plan *plan = sample_plan("1f1b", "sync");
    plan->stages[0].first = 1;
    refused(plan, 6, "stages[0].layers: begins with layer 2, but the first is layer 1");
    plan->stages[0].first = 0;
    plan->stages[1].first = 3;
    refused(plan, 6, "stages[1].layers: begins with layer 4, but the stage before ends with layer 2");
    plan->stages[1].first = 2;
    plan->stages[1].last = 1;
    refused(plan, 6, "stages[1].layers: [3, 2] has no layer");
    plan->stages[1].last = plan->stages[2].first = 2;
    refused(plan, 6, "stages[2].layers: begins with layer 3, but the stage before ends with layer 3");
    plan->stages[2].first = 3;
    assert_ok(plan_check(plan, 6, &test_error));
    plan->stages[1].forward[0] = -1;
    refused(plan, 6, "stages[1].forward: -1 is no worker; they are 0 to 2");
    plan->stages[1].forward[0] = 1;
    plan->stages[1].backward[0] = 3;
    refused(plan, 6, "stages[1].backward: 3 is no worker; they are 0 to 2");
    plan->stages[1].backward_count = 0;
    refused(plan, 6, "stages[1].backward: needs a worker");
    static const int twice[] = {0, 2, 0}, pair[] = {0, 2};
    assert_ok(plan_stage_workers(plan, 1, pair, 2, twice, 3, &test_error));
    refused(plan, 6, "stages[1].backward: worker 0 is given twice");
    assert_ok(plan_stage_workers(plan, 1, pair, 2, pair, 2, &test_error));
    assert_ok(plan_check(plan, 6, &test_error));
    static const char *const order[] = {"a", "b", "c", "d", "e"};
    assert_ok(plan_order_set(plan, order, 5, &test_error));
    refused(plan, 6, "order: names 5 layers, but the stages have 6");
    ps_plan_destroy(plan);
    /* As many stages and micro-batches as there may be operations, and one more. */
    enum { STAGES = 1 << 12 };
    assert_ok(plan_create(STAGES, STAGES, &plan, &test_error));
    for (int s = 0; s < STAGES; s++) assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
    plan->micro_batches = PLAN_OPERATIONS_MAX / STAGES;
    assert_ok(plan_check(plan, STAGES, &test_error));
    plan->micro_batches++;
    refused(plan, STAGES, "micro_batches: 65 for 4096 stages; their product may be 262144 at most");
    ps_plan_destroy(plan);
}

static void patterns(void **state) {
    (void)state;
    struct ps_plan *plan = sample_plan("pattern", "latest");
    struct ps_programs *programs;
    struct plan_operation pattern[7];
    for (int s = 0; s < 3; s++) {
        pattern[s] = (struct plan_operation){.stage = s, .shift = s};
        pattern[5 - s] = (struct plan_operation){.backward = true, .stage = s, .shift = 5 - s};
    }
    assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
    assert_ok(plan_check(plan, 6, &test_error));
    assert_ok(lower_plan(plan, 8, &programs, &test_error));
    ps_programs_destroy(programs);
    assert_ok(plan_pattern_set(plan, pattern, 5, &test_error));
    assert_status(lower_plan(plan, 8, &programs, &test_error), PS_USAGE,
                  "pattern: has 5 computations; 3 stages have a forward and a backward each, 6");
    pattern[1].stage = 3;
    assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
    refused(plan, 6, "pattern[1]: 3 is no stage; they are 0 to 2");
    pattern[1].stage = -1;
    assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
    refused(plan, 6, "pattern[1]: -1 is no stage; they are 0 to 2");
    pattern[1].stage = 1;
    pattern[5].shift = PLAN_SHIFT_MAX + 1;
    assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
    refused(plan, 6, "pattern[5]: the shift 65537 is not from 0 to 65536");
    pattern[5].shift = -1;
    assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
    refused(plan, 6, "pattern[5]: the shift -1 is not from 0 to 65536");
    pattern[5].shift = PLAN_SHIFT_MAX;
    assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
    assert_ok(plan_check(plan, 6, &test_error));
    ps_plan_destroy(plan);
}

static void not_lowered(const struct ps_plan *plan, const char *message) {
    struct ps_programs *programs;
    if (lower_plan(plan, 2, &programs, &test_error) != PS_USAGE || strcmp(test_error.message, message) != 0)
        fail_msg("not '%s', but '%s'", message, test_error.message);
    test_error = (struct ps_error){0};
}

/* Plans that their schedule or their weights cannot run. */
static void programs_that_cannot_be(void **state) {
    (void)state;
    static const int pair[] = {0, 1}, turned[] = {1, 0}, others[] = {1, 2};
    struct ps_programs *programs;
    struct ps_plan *plan = sample_plan("1f1b-star", "latest");
    for (int s = 0; s < 3; s++) plan->stages[s].in_flight = 3 - s;
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    ps_programs_destroy(programs);
    plan->stages[1].in_flight = 3;
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    ps_programs_destroy(programs);
    plan->stages[1].in_flight = 4;
    not_lowered(plan, "stages[1].in_flight: 4, but the previous stage holds only 3");
    ps_plan_destroy(plan);

    plan = sample_plan("1f1b-async", "latest");
    assert_ok(plan_stage_workers(plan, 1, pair, 2, turned, 1, &test_error));
    not_lowered(plan, "stages[1].backward: 1 workers, but 2 in forward");
    assert_ok(plan_stage_workers(plan, 1, turned, 1, pair, 2, &test_error));
    not_lowered(plan, "stages[1].backward: 2 workers, but 1 in forward");
    assert_ok(plan_stage_workers(plan, 1, pair, 2, turned, 2, &test_error));
    not_lowered(plan, "stages[1].backward: worker 1 is not the forward's worker 0; replicas run both");
    assert_ok(plan_stage_workers(plan, 1, pair + 1, 1, pair, 1, &test_error));
    assert_ok(plan_stage_workers(plan, 0, others, 2, others, 2, &test_error));
    not_lowered(plan,
                "stages[0].forward: has replicas, and stage 1 runs its two directions on different workers; a plan may have "
                "one or the other");
    strcpy(plan->schedule, "interleaved");
    not_lowered(plan,
                "stages[1].backward: runs on another worker than the forward; schedule interleaved does not support split "
                "stages");
    assert_ok(plan_stage_set(plan, 1, 2, 3, 0, &test_error));
    not_lowered(plan, "stages[0].forward: 2 workers; schedule interleaved has no replicas");
    strcpy(plan->schedule, "1f1b-async");
    not_lowered(plan, "stages[2].forward: worker 2 holds stage 0 as well; schedule 1f1b-async needs one on each");
    ps_plan_destroy(plan);

    /* The two replicas of Chimera's stages are on mirrored workers, and the first ones on different ones. */
    assert_ok(plan_create(2, 2, &plan, &test_error));
    strcpy(plan->schedule, "chimera");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 2;
    assert_ok(plan_stage_workers(plan, 0, pair, 2, pair, 2, &test_error));
    assert_ok(plan_stage_workers(plan, 1, turned, 2, turned, 2, &test_error));
    plan->stages[0].first = plan->stages[0].last = 0;
    plan->stages[1].first = plan->stages[1].last = 1;
    assert_ok(lower_plan(plan, 1, &programs, &test_error));
    ps_programs_destroy(programs);
    plan->micro_batches = 1;
    not_lowered(plan, "micro-batches: 1; the 2 replicas of stage 0 need at least one each");
    plan->micro_batches = 2;
    assert_ok(plan_stage_workers(plan, 1, pair, 2, pair, 2, &test_error));
    not_lowered(plan, "stages[0].forward: replica 1 on worker 1; schedule chimera has it on worker 0");
    assert_ok(plan_stage_set(plan, 1, 1, 1, 1, &test_error));
    not_lowered(plan, "stages[1].forward: 1 workers; schedule chimera needs 2");
    ps_plan_destroy(plan);

    static const int crowded[4][2] = {{0, 3}, {0, 2}, {2, 0}, {3, 0}};
    assert_ok(plan_create(4, 4, &plan, &test_error));
    strcpy(plan->schedule, "chimera");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 4;
    for (int s = 0; s < 4; s++) {
        assert_ok(plan_stage_workers(plan, s, crowded[s], 2, crowded[s], 2, &test_error));
        plan->stages[s].first = plan->stages[s].last = s;
    }
    not_lowered(plan, "stages[1].forward: worker 0 has the first replica of stage 0");
    ps_plan_destroy(plan);

    /* As many stages as numbers have room for. */
    assert_status(lower_plain("1f1b", "sync", 0, 1, 1, &programs), PS_USAGE, "stages: 0 is outside 1 to 16384");
    assert_status(lower_plain("1f1b", "sync", (1 << 14) + 1, 1, 1, &programs), PS_USAGE, "stages: 16385 is outside 1 to 16384");
    assert_status(lower_check("1f1b", "sync", 0, 1, &test_error), PS_USAGE, "stages: 0 is outside 1 to 16384");
    assert_status(lower_check("1f1b", "sync", (1 << 14) + 1, 1, &test_error), PS_USAGE, "stages: 16385 is outside 1 to 16384");
    assert_status(lower_check("1f1b", "sync", 1, 0, &test_error), PS_USAGE, "micro-batches: 0 is outside 1 to 16777216");
    assert_status(lower_check("1f1b", "sync", 1, (1 << 24) + 1, &test_error), PS_USAGE,
                  "micro-batches: 16777217 is outside 1 to 16777216");
    assert_ok(lower_check("1f1b", "sync", 1 << 14, 1 << 24, &test_error));
    assert_ok(lower_check("1f1b", "sync", 1, 1, &test_error));

    /* Stages that share weights wait for each other's gradients. */
    const struct straight tied = {
        .schedule = "1f1b-async", .policy = "latest", .workers = 3, .micro_batches = 1, .batches = 4, .tied = true};
    assert_status(lower_straight(&tied, &programs, &test_error), PS_USAGE,
                  "schedule 1f1b-async does not flush, and stages 0 and 2 share weights (tied)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(stages),
        cmocka_unit_test(patterns),
        cmocka_unit_test(programs_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
