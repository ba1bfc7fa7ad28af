/* Which schedules and weight policies go together where the user leaves them open. */
#include <string.h>

#include "program/lower.h"
#include "search/search.h"

#define SCHEDULE_ASYNCHRONOUS "1f1b-async"
#define SCHEDULE_SYNCHRONOUS "1f1b"
#define POLICY_ASYNCHRONOUS "pipeoptim"
#define POLICY_SYNCHRONOUS "sync"

bool search_is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

static bool says_auto(const char *name) { return name && search_is_auto(name); }

enum ps_status search_choose(const struct ps_plan_options *options, int workers, struct search_choice *choice,
                             struct ps_error *error) {
    const char *schedule = search_is_auto(options->schedule) ? SCHEDULE_ASYNCHRONOUS : options->schedule;
    const char *policy = search_is_auto(options->weights) ? POLICY_ASYNCHRONOUS : options->weights;
    struct search_choice made = {0};
    TRY(schedule_find(schedule, &made.schedule, error));
    TRY(policy_find(policy, &made.policy, error));
    if (search_is_auto(options->weights) && made.schedule->flush) TRY(policy_find(POLICY_SYNCHRONOUS, &made.policy, error));
    if (search_is_auto(options->schedule) && made.policy->needs_flush)
        TRY(schedule_find(SCHEDULE_SYNCHRONOUS, &made.schedule, error));
    int stages = schedule_stages(made.schedule, workers);
    made.micro_batches = options->micro_batches;
    if (made.micro_batches == 0) {
        made.micro_batches = made.schedule->micro_batches(workers);
        if (made.policy->group_of_workers && made.micro_batches < stages) made.micro_batches = stages;
    }
    TRY(lower_check(made.schedule->name, made.policy->name, stages, made.micro_batches, error));
    *choice = made;
    return PS_OK;
}

struct straight search_straight(const struct search_choice *choice, int workers) {
    return (struct straight){.schedule = choice->schedule->name,
                             .policy = choice->policy->name,
                             .workers = workers,
                             .micro_batches = choice->micro_batches,
                             .batches = simulate_enough_batches(choice->schedule, workers, choice->micro_batches)};
}

struct ps_plan_options search_tied(const struct ps_plan_options *options, bool tied, int workers) {
    struct ps_plan_options chosen = *options;
    if (tied && workers > 1 && search_is_auto(options->schedule) && !options->weights) chosen.weights = POLICY_SYNCHRONOUS;
    return chosen;
}

enum ps_status search_pairs(const struct ps_plan_options *options, int workers, struct search_pair *pairs, int *count,
                            struct ps_error *error) {
    struct search_choice first;
    struct search_pair synchronous;
    TRY(search_choose(options, workers, &first, error));
    TRY(policy_find(POLICY_SYNCHRONOUS, &synchronous.policy, error));
    pairs[0] = (struct search_pair){first.schedule, first.policy};
    *count = 1;
    bool both = says_auto(options->weights);
    if (!says_auto(options->schedule) && !(both && !options->schedule)) return PS_OK;
    for (int s = 0; schedule_table[s] && *count < SEARCH_PAIRS_MAX; s++) {
        const struct schedule *schedule = schedule_table[s];
        if (schedule == first.schedule || (!both && schedule->flush != first.policy->needs_flush)) continue;
        pairs[(*count)++] = (struct search_pair){schedule, both && schedule->flush ? synchronous.policy : first.policy};
    }
    return PS_OK;
}
