/* Beginning and end of the account; see verify_account.h. What instructions do to it stands in verify_rules.c. */
#include "program/verify_account.h"

#include <stdlib.h>

static void instance_free(struct instance_account *instance) {
    for (int kind = 0; kind < BLOCK_KINDS; kind++) free(instance->blocks[kind]);
    free(instance->weights);
    free(instance->forward);
}

static bool instance_start(struct instance_account *instance, const struct stage_slots *slots, int micro_batches) {
    bool ok = true;
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        int count = stage_slots_of(slots, (enum block_kind)kind);
        instance->blocks[kind] = malloc(((size_t)count + 1) * sizeof *instance->blocks[kind]);
        for (int slot = 0; instance->blocks[kind] && slot < count; slot++)
            instance->blocks[kind][slot] = (struct block_content){.micro_batch = ACCOUNT_EMPTY};
        ok = ok && instance->blocks[kind];
    }
    instance->weights = malloc(((size_t)slots->weights + 1) * sizeof *instance->weights);
    for (int slot = 0; instance->weights && slot < slots->weights; slot++)
        instance->weights[slot] = (struct weight_content){.version = slot == 0 ? 0 : ACCOUNT_EMPTY};
    instance->forward = calloc((size_t)micro_batches, sizeof *instance->forward);
    return ok && instance->weights && instance->forward;
}

/* False: memory ran out. */
static bool make_instances(struct account *account) {
    const struct ps_programs *programs = account->programs;
    int micro_batches = programs_micro_batches(programs);
    account->instances = calloc((size_t)programs->instance_count, sizeof *account->instances);
    account->channels = calloc((size_t)account->routes.count + 1, sizeof *account->channels);
    account->offered = calloc((size_t)programs->stages, sizeof *account->offered);
    bool ok = account->instances && account->channels && account->offered;
    for (int instance = 0; account->instances && instance < programs->instance_count; instance++)
        ok = instance_start(&account->instances[instance], &programs->slots[instance], micro_batches) && ok;
    for (int route = 0; account->channels && route < account->routes.count; route++) {
        struct channel *channel = &account->channels[route];
        channel->capacity = micro_batches + 1;
        channel->waiting = malloc((size_t)channel->capacity * sizeof *channel->waiting);
        ok = ok && channel->waiting;
    }
    return ok;
}

enum ps_status account_start(const struct ps_programs *programs, struct account *account, struct ps_error *error) {
    const struct schedule *schedule;
    *account = (struct account){.programs = programs};
    TRY(schedule_find(programs->schedule, &schedule, error));
    TRY(policy_find(programs->policy, &account->policy, error));
    account->flush = schedule->flush;
    TRY(routes_create(programs, &account->routes, error));
    TRY(version_table_count(programs, &account->versions, error));
    return make_instances(account) ? PS_OK : error_memory(error, "verifier", sizeof *account->instances);
}

void account_free(struct account *account) {
    for (int instance = 0; account->instances && instance < account->programs->instance_count; instance++)
        instance_free(&account->instances[instance]);
    for (int route = 0; account->channels && route < account->routes.count; route++) free(account->channels[route].waiting);
    free(account->instances);
    free(account->channels);
    free(account->offered);
    routes_free(&account->routes);
    version_table_free(&account->versions);
}
