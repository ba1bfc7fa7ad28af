/*
 * Stages with replicas: every schedule that has them with every policy, over random numbers of stages, replicas, micro-batches
 * and mini-batches, gives programs that the verifier accepts; listings read back; what cannot be is refused; programs that
 * break a rule of replicas are found out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "program/lower.h"
#include "program/program.h"
#include "program_support.h"
#include "support.h"

enum { STAGES_MAX = 4, REPLICAS_MAX = 4 };

static struct ps_programs *lower_ok(const char *schedule, const char *policy, const int *replicas, int stages,
                                    int micro_batches, int batches) {
    struct ps_programs *programs;
    struct ps_plan *plan = replicated_plan(schedule, policy, replicas, stages, micro_batches);
    assert_ok(lower_plan(plan, batches, &programs, &test_error));
    ps_plan_destroy(plan);
    return programs;
}

/* What must be refused, and with which word. */
static const char *refusal(const struct schedule *schedule, const struct weight_policy *policy, const int *replicas, int stages,
                           int micro_batches) {
    int most = 1;
    for (int s = 0; s < stages; s++)
        if (replicas[s] > most) most = replicas[s];
    if (policy->needs_flush && !schedule->flush) return "flush";
    if (policy->group_of_workers && micro_batches < stages) return "micro-batches";
    if (most > 1 && !schedule->replicas) return schedule->name;
    if (most > 1 && schedule->flush && micro_batches < most) return "micro-batches";
    return most > 1 && !schedule->flush && policy->group_of_workers ? "whole mini-batches" : NULL;
}

static void test_every_combination_verifies(void **state) {
    (void)state;
    struct random_key key = test_key(1);
    uint64_t drawn = 0;
    int lowered = 0, refused = 0;
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++)
            for (int trial = 0; trial < 60; trial++) {
                int replicas[STAGES_MAX], stages = 1 + (int)random_below(key, drawn++, STAGES_MAX);
                for (int i = 0; i < stages; i++) replicas[i] = 1 + (int)random_below(key, drawn++, REPLICAS_MAX);
                int micro_batches = 1 + (int)random_below(key, drawn++, 8), batches = 1 + (int)random_below(key, drawn++, 11);
                if (schedule_table[s]->placement) continue;
                struct ps_plan *plan =
                    replicated_plan(schedule_table[s]->name, policy_table[p]->name, replicas, stages, micro_batches);
                for (int i = 0; i < stages; i++) plan->stages[i].recompute = trial % 3 == 0;
                plan->slack = combination_slack(schedule_table[s], policy_table[p], stages, micro_batches, trial);
                struct ps_programs *programs, *evaluation;
                const char *reason = refusal(schedule_table[s], policy_table[p], replicas, stages, micro_batches);
                if (reason) {
                    assert_status(lower_plan(plan, batches, &programs, &test_error), PS_USAGE, reason);
                    ps_plan_destroy(plan);
                    refused++;
                    continue;
                }
                enum ps_status status = lower_plan(plan, batches, &programs, &test_error);
                if (status != PS_OK)
                    print_message("%s %s replicas %d %d %d %d (%d stages), M %d, %d batches: %s\n", plan->schedule,
                                  plan->weights, replicas[0], replicas[1], replicas[2], replicas[3], stages, micro_batches,
                                  batches, test_error.message);
                assert_int_equal(status, PS_OK);
                if (trial % 5 == 0) check_round_trip(programs);
                assert_ok(lower_evaluation(programs, 1 + trial % 9, &evaluation, &test_error));
                ps_programs_destroy(evaluation);
                ps_programs_destroy(programs);
                ps_plan_destroy(plan);
                lowered++;
            }
    print_message("%d combinations verified, %d refused\n", lowered, refused);
    assert_true(lowered > 800);
}

static void test_broken_programs_are_refused(void **state) {
    (void)state;
    static const int replicas[3] = {1, 2, 1};
    struct ps_programs *programs = lower_ok("1f1b-async", "latest", replicas, 3, 1, 8);
    remove_instruction(&programs->worker[2], nth(programs, 2, OP_AR, 1));
    expect_refused(programs, "1U1@0:0: the gradients of the replicas are not added up");

    programs = lower_ok("1f1b-async", "latest", replicas, 3, 1, 8);
    nth(programs, 1, OP_AR, 2)->micro_batch = 1;
    expect_refused(programs, "1AR1: sums are not in the order");

    programs = lower_ok("1f1b-async", "latest", replicas, 3, 1, 8);
    nth(programs, 1, OP_F, 1)->micro_batch = 3;
    expect_refused(programs, "belongs to another replica");

    programs = lower_ok("1f1b-async", "latest", replicas, 3, 1, 8);
    nth(programs, 0, OP_SA, 1)->peer = 1;
    expect_refused(programs, "another micro-batch");

    programs = lower_ok("1f1b-async", "latest", replicas, 3, 1, 8);
    programs->instances[2].replica = 0;
    expect_refused(programs, "replica 0 is on workers 1 and 2");

    programs = lower_ok("1f1b", "sync", replicas, 3, 4, 2);
    struct instruction *sum = nth(programs, 2, OP_AR, 0), keep = *sum;
    *sum = sum[1];
    sum[1] = keep;
    expect_refused(programs, "1U0");

    /* All replicas stop until the last has come: one that wants something of the others first waits for ever. */
    programs = lower_ok("1f1b-async", "latest", replicas, 3, 1, 8);
    struct instruction late = *nth(programs, 2, OP_SG, 0);
    remove_instruction(&programs->worker[2], nth(programs, 2, OP_SG, 0));
    assert_ok(program_append(&programs->worker[2], &late, &test_error));
    expect_refused(programs, "worker");
}

/* A round of mini-batches makes an update, an incomplete one too; staleness is counted in updates. */
static void test_rounds(void **state) {
    (void)state;
    static const int replicas[2] = {3, 1};
    int staleness;
    struct ps_programs *programs = lower_ok("1f1b-async", "stash", replicas, 2, 2, 7);
    for (int w = 0; w < 3; w++) {
        assert_int_equal(nth(programs, w, OP_U, 2)->micro_batch, 2);
        assert_int_equal(programs_updates(programs, 0), 3);
    }
    assert_int_equal(nth(programs, 3, OP_U, 6)->micro_batch, 6);
    assert_int_equal(programs_taken(programs, 0), 6);
    assert_int_equal(programs_taken(programs, 2), 4);
    assert_int_equal(programs_nth(programs, 1, 3), 9);
    assert_ok(programs_staleness(programs, 0, &staleness, &test_error));
    /* The third mini-batch enters before the first has left, and so before any update. */
    assert_int_equal(staleness, 2);
    assert_int_equal(programs->slots[0].weights, 3);
    ps_programs_destroy(programs);
}

static void test_refusals(void **state) {
    (void)state;
    static const int replicas[2] = {2, 1};
    struct ps_programs *programs;
    struct ps_plan *plan = replicated_plan("1f1b", "sync", replicas, 2, 4);
    int both[2] = {0, 2};
    assert_ok(plan_stage_workers(plan, 1, both, 2, both, 2, &test_error));
    assert_status(lower_plan(plan, 1, &programs, &test_error), PS_USAGE, "stages[1].forward: worker 0 holds stage 0 as well");
    assert_ok(plan_stage_workers(plan, 1, both, 2, both, 1, &test_error));
    assert_status(lower_plan(plan, 1, &programs, &test_error), PS_USAGE, "stages[1].backward: 1 workers, but 2");
    ps_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_combination_verifies),
                                       cmocka_unit_test(test_broken_programs_are_refused), cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
