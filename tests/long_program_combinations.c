/*
 * Every schedule with every weight policy, 1 to 16 workers and 1 to 64 micro-batches: the programs pass the verifier (which
 * lowering runs), or the combination is one that must be refused. Numbers of mini-batches and recomputation vary with them.
 */
#include "program_support.h"

enum { WORKERS = 16, MICRO_BATCHES = 64, BATCHES = 3 };

struct counts {
    int verified, refused;
};

static void check(const struct schedule *schedule, const struct weight_policy *policy, int workers, int micro_batches,
                  struct counts *counts) {
    struct ps_programs *programs;
    int batches = 1 + (micro_batches + workers) % BATCHES;
    bool recompute = (micro_batches / BATCHES + workers) % 2;
    enum ps_status status = lower_straight(&(struct straight){.schedule = schedule->name,
                                                              .policy = policy->name,
                                                              .workers = workers,
                                                              .micro_batches = micro_batches,
                                                              .batches = batches,
                                                              .recompute = recompute},
                                           &programs, &test_error);
    bool possible = combination_possible(schedule, policy, workers, micro_batches);
    if (status != (possible ? PS_OK : PS_USAGE))
        fail_msg("%s, %s, %d workers, %d micro-batches, %d mini-batches%s: %s", schedule->name, policy->name, workers,
                 micro_batches, batches, recompute ? ", recomputed" : "",
                 status == PS_OK ? "was not refused" : test_error.message);
    counts->verified += possible;
    counts->refused += !possible;
    if (status == PS_OK) ps_programs_destroy(programs);
}

static void test_all_combinations(void **state) {
    (void)state;
    struct counts all = {0};
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++) {
            struct counts counts = {0};
            for (int workers = 1; workers <= WORKERS; workers++)
                for (int m = 1; m <= MICRO_BATCHES; m++) check(schedule_table[s], policy_table[p], workers, m, &counts);
            print_message("%-12s %-10s %5d verified, %5d refused\n", schedule_table[s]->name, policy_table[p]->name,
                          counts.verified, counts.refused);
            assert_true(counts.verified > 0 || policy_table[p]->needs_flush);
            all.verified += counts.verified;
            all.refused += counts.refused;
        }
    print_message("in all %d verified, %d refused\n", all.verified, all.refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_combinations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
