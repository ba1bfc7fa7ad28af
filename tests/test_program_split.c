/*
 * Stages whose forwards and backwards run on different workers: every schedule that knows them with every policy, over random
 * cuts of the two directions, gives programs that the verifier accepts and that read back; each forward reads what its policy
 * asks for; what cannot be is refused, and broken programs are found out.
 */
#include <stdlib.h>
#include <string.h>

#include "program/lower.h"
#include "program/program.h"
#include "program_support.h"
#include "split_support.h"

static const char *refusal(const struct schedule *schedule, const struct weight_policy *policy, const struct ps_plan *plan) {
    if (policy->needs_flush && !schedule->flush) return "flush";
    if (policy->group_of_workers && plan->micro_batches < plan->stage_count) return "micro-batches";
    return schedule->split ? NULL : "no such stages";
}

static void test_every_combination_verifies(void **state) {
    (void)state;
    struct random_key key = test_key(1);
    uint64_t drawn = 0;
    int lowered = 0, refused = 0;
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++)
            for (int trial = 0; trial < 80; trial++) {
                struct split_case split = split_draw(key, &drawn, 9, 5);
                struct ps_plan *plan =
                    split_plan(&split, schedule_table[s]->name, policy_table[p]->name, 1 + (int)random_below(key, drawn++, 12));
                int batches = 1 + (int)random_below(key, drawn++, 9);
                for (int i = 0; i < plan->stage_count; i++) plan->stages[i].recompute = trial % 3 == 0;
                plan->slack =
                    combination_slack(schedule_table[s], policy_table[p], plan->stage_count, plan->micro_batches, trial);
                struct ps_programs *programs, *evaluation;
                const char *reason = refusal(schedule_table[s], policy_table[p], plan);
                if (!split_any(plan)) {
                    ps_plan_destroy(plan);
                    continue;
                }
                enum ps_status status = lower_plan(plan, batches, &programs, &test_error);
                if (reason) {
                    assert_int_equal(status, PS_USAGE);
                    refused++;
                } else {
                    if (status != PS_OK) {
                        for (int l = 0; l < split.layers; l++) print_message("%d/%d ", split.forward[l], split.backward[l]);
                        print_message("%s %s M %d, slack %d, %d batches: %s\n", plan->schedule, plan->weights,
                                      plan->micro_batches, plan->slack, batches, test_error.message);
                    }
                    assert_int_equal(status, PS_OK);
                    if (trial % 5 == 0) check_round_trip(programs);
                    assert_ok(lower_evaluation(programs, 1 + trial % 9, &evaluation, &test_error));
                    ps_programs_destroy(evaluation);
                    ps_programs_destroy(programs);
                    lowered++;
                }
                ps_plan_destroy(plan);
            }
    print_message("%d combinations verified, %d refused\n", lowered, refused);
    assert_true(lowered > 800);
}

/* Workers that run only forwards, far from those that update their weights: these fill blocks with the weights of coming
 * forwards, and wait until earlier ones have been received, while stashes come in. */
static void test_weights_far_away(void **state) {
    (void)state;
    static const struct split_case cases[] = {
        {12, 12, {2, 6, 6, 7, 8, 8, 9, 9, 10, 10, 11, 11}, {0, 0, 1, 1, 2, 3, 4, 5, 5, 7, 7, 11}},
        {9, 13, {0, 1, 2, 4, 5, 7, 8, 12, 12}, {3, 4, 6, 7, 9, 10, 11, 11, 12}},
        {6, 9, {3, 4, 5, 6, 7, 8}, {0, 0, 0, 1, 2, 8}}};
    static const char *const policies[] = {"latest", "stash", "spectrain", "xpipe", "pipeoptim", "horizon"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
            for (int batches = 1; batches <= 40; batches += batches < 12 ? 1 : 14) {
                struct ps_programs *programs;
                struct ps_plan *plan = split_plan(&cases[c], "1f1b-async", policies[p], 1);
                plan->slack = batches % 3;
                assert_ok(lower_plan(plan, batches, &programs, &test_error));
                ps_programs_destroy(programs);
                ps_plan_destroy(plan);
            }
}

static int count(const struct ps_programs *programs, int worker, enum opcode op) {
    int found = 0;
    for (int i = 0; i < programs->worker[worker].count; i++) found += programs->worker[worker].code[i].op == op;
    return found;
}

static struct ps_programs *lower_ok(const char *schedule, const char *policy, int micro_batches, int batches) {
    /* The middle layer goes forwards on worker 0 and backwards on worker 1. */
    static const struct split_case split = {.layers = 3, .workers = 2, .forward = {0, 0, 1}, .backward = {0, 1, 1}};
    struct ps_programs *programs;
    struct ps_plan *plan = split_plan(&split, schedule, policy, micro_batches);
    assert_int_equal(plan->stage_count, 3);
    assert_ok(lower_plan(plan, batches, &programs, &test_error));
    ps_plan_destroy(plan);
    return programs;
}

/* The forward's worker holds one copy and nothing that an optimizer needs; the backward's two more than it would alone, from
 * which weights travel. With a flush they travel once a mini-batch. */
static void test_what_is_held(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("1f1b", "sync", 4, 5);
    int forward = programs_forward_instance(programs, 1, 0), backward = programs_backward_instance(programs, 1, 0);
    assert_int_not_equal(forward, backward);
    assert_int_equal(programs->slots[forward].weights, 1);
    assert_true(programs->slots[forward].forward_only);
    assert_true(programs->slots[backward].weights <= 3);
    assert_false(programs->slots[backward].forward_only);
    assert_int_equal(count(programs, 1, OP_SW), 5);
    assert_int_equal(count(programs, 0, OP_RW), 5);
    assert_int_equal(count(programs, 0, OP_SS), 20);
    ps_programs_destroy(programs);
}

static void test_broken_programs_are_refused(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("1f1b-async", "pipeoptim", 1, 8);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_RW, 1));
    expect_refused(programs, "worker");

    programs = lower_ok("1f1b-async", "pipeoptim", 1, 8);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_SS, 2));
    expect_refused(programs, "another micro-batch");

    programs = lower_ok("1f1b", "sync", 2, 3);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_RW, 2));
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_SW, 2));
    expect_refused(programs, "stage 1: worker 0 does not end with the newest weights");

    programs = lower_ok("1f1b", "sync", 2, 3);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_RW, 0));
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_SW, 0));
    expect_refused(programs, "an update falls between");

    programs = lower_ok("1f1b-async", "latest", 1, 8);
    nth(programs, 1, OP_SW, 1)->slot = 0;
    expect_refused(programs, "worker 1");

    programs = lower_ok("1f1b-async", "latest", 1, 8);
    struct instruction *forward = nth(programs, 1, OP_F, 3);
    forward->stage = 1;
    expect_refused(programs, "runs only the stage's backwards");
}

static void test_refusals(void **state) {
    (void)state;
    static const struct split_case split = {.layers = 3, .workers = 2, .forward = {0, 0, 1}, .backward = {0, 1, 1}};
    struct ps_programs *programs;
    struct ps_plan *plan = split_plan(&split, "hanayo", "sync", 4);
    assert_status(lower_plan(plan, 2, &programs, &test_error), PS_USAGE,
                  "stages[1].backward: runs on another worker than the forward");
    ps_plan_destroy(plan);
}

/* The stashes of a single stage are received in time, not all at once: no more than two have room, however long the run. */
static void test_one_stage(void **state) {
    (void)state;
    static const struct split_case split = {.layers = 2, .workers = 2, .forward = {0, 0}, .backward = {1, 1}};
    static const char *const policies[] = {"latest", "stash", "pipeoptim"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (int batches = 4; batches <= 16; batches *= 2) {
            struct ps_programs *programs;
            struct ps_plan *plan = split_plan(&split, "1f1b-async", policies[p], 1);
            assert_ok(lower_plan(plan, batches, &programs, &test_error));
            for (int i = 0; i < 2; i++) {
                assert_in_range(programs->slots[i].stash, 1, 2);
                assert_in_range(programs->slots[i].input, 1, 2);
            }
            assert_int_equal(count(programs, 1, OP_RS), batches);
            ps_programs_destroy(programs);
            ps_plan_destroy(plan);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stage),
        cmocka_unit_test(test_every_combination_verifies),
        cmocka_unit_test(test_weights_far_away),
        cmocka_unit_test(test_what_is_held),
        cmocka_unit_test(test_broken_programs_are_refused),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
