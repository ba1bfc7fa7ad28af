/* What the tests of programs share: listings that read back, and programs that are broken on purpose. */
#ifndef PENSTOCK_TESTS_PROGRAM_SUPPORT_H
#define PENSTOCK_TESTS_PROGRAM_SUPPORT_H

#include <stdlib.h>
#include <string.h>

#include "program/lower.h"
#include "program/program.h"
#include "support.h"

/* lower_straight, nothing recomputed. */
static inline enum ps_status lower_plain(const char *schedule, const char *policy, int workers, int micro_batches, int batches,
                                         struct ps_programs **programs) {
    struct straight straight = {
        .schedule = schedule, .policy = policy, .workers = workers, .micro_batches = micro_batches, .batches = batches};
    return lower_straight(&straight, programs, &test_error);
}

/* Whether a schedule runs with a policy on so many workers: everything else must be refused. */
static inline bool combination_possible(const struct schedule *schedule, const struct weight_policy *policy, int workers,
                                        int micro_batches) {
    if (policy->needs_flush && !schedule->flush) return false;
    if (schedule_replicas(schedule) > 1 && (workers % 2 == 1 || micro_batches < schedule_replicas(schedule))) return false;
    return !policy->group_of_workers || micro_batches >= schedule_stages(schedule, workers);
}

/* A slack that the combination can have, from 0 to 3. */
static inline int combination_slack(const struct schedule *schedule, const struct weight_policy *policy, int workers,
                                    int micro_batches, int number) {
    const bool enough = !policy->group_of_workers || micro_batches >= workers + 3 * (workers - 1);
    return schedule->slack && enough ? number % 4 : 0;
}

/* Stage s has one layer and replicas[s] workers (16 at most), in order. */
static inline struct ps_plan *replicated_plan(const char *schedule, const char *policy, const int *replicas, int stages,
                                              int micro_batches) {
    int workers = 0, list[16];
    struct ps_plan *plan;
    for (int s = 0; s < stages; s++) workers += replicas[s];
    assert_ok(plan_create(workers, stages, &plan, &test_error));
    snprintf(plan->schedule, sizeof plan->schedule, "%s", schedule);
    snprintf(plan->weights, sizeof plan->weights, "%s", policy);
    plan->micro_batches = micro_batches;
    for (int s = 0, worker = 0; s < stages; s++) {
        for (int r = 0; r < replicas[s]; r++) list[r] = worker++;
        assert_ok(plan_stage_workers(plan, s, list, replicas[s], list, replicas[s], &test_error));
        plan->stages[s].first = plan->stages[s].last = s;
    }
    return plan;
}

static inline void check_round_trip(const struct ps_programs *programs) {
    struct ps_programs *again;
    char *text = ps_programs_print(programs);
    assert_non_null(text);
    assert_ok(ps_programs_parse(text, &again, &test_error));
    assert_ok(ps_programs_verify(again, &test_error));
    char *second = ps_programs_print(again);
    assert_string_equal(text, second);
    free(text);
    free(second);
    ps_programs_destroy(again);
}

static inline struct instruction *nth(struct ps_programs *programs, int worker, enum opcode op, int n) {
    struct program *program = &programs->worker[worker];
    for (int i = 0; i < program->count; i++)
        if (program->code[i].op == op && n-- == 0) return &program->code[i];
    fail_msg("no such instruction");
    return NULL;
}

static inline void remove_instruction(struct program *program, struct instruction *instruction) {
    ptrdiff_t index = instruction - program->code;
    memmove(instruction, instruction + 1, (size_t)(program->count - index - 1) * sizeof *instruction);
    program->count--;
}

/* The verifier must name what was broken, in its message. */
static inline void expect_refused(struct ps_programs *programs, const char *part) {
    struct ps_error error;
    assert_int_equal(ps_programs_verify(programs, &error), PS_BAD_INPUT);
    if (!strstr(error.message, part)) print_message("got: %s\n", error.message);
    assert_non_null(strstr(error.message, part));
    ps_programs_destroy(programs);
}

/* One thing that is missing or in the wrong place, of a worker, and what the verifier says of it: of the instruction `removed`
 * there is one less, the first, and the second `changed` has the first one's block of that kind. OPCODE_COUNT: none. */
struct wrong_block {
    int worker;
    enum opcode removed, changed;
    enum block_kind kind;
    const char *reason;
};

static inline void expect_wrong_block(struct ps_programs *programs, const struct wrong_block *wrong) {
    if (wrong->removed != OPCODE_COUNT)
        remove_instruction(&programs->worker[wrong->worker], nth(programs, wrong->worker, wrong->removed, 0));
    if (wrong->changed != OPCODE_COUNT)
        nth(programs, wrong->worker, wrong->changed, 1)->block[wrong->kind] =
            nth(programs, wrong->worker, wrong->changed, 0)->block[wrong->kind];
    expect_refused(programs, wrong->reason);
}

#endif
