/* Beginning and end of the account; see verify_account.h. What instructions do to it stands in verify_rules.c. */
#include "program/verify_account.h"

#include <stdlib.h>

static void part_free(struct part_account *part) {
    for (int kind = 0; kind < BLOCK_KINDS; kind++) free(part->blocks[kind]);
    free(part->weights);
    free(part->forward);
}

static bool part_start(struct part_account *part, const struct stage_slots *slots, int micro_batches) {
    bool ok = true;
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        int count = stage_slots_of(slots, (enum block_kind)kind);
        part->blocks[kind] = malloc(((size_t)count + 1) * sizeof *part->blocks[kind]);
        for (int slot = 0; part->blocks[kind] && slot < count; slot++)
            part->blocks[kind][slot] = (struct block_content){.micro_batch = ACCOUNT_EMPTY};
        ok = ok && part->blocks[kind];
    }
    part->weights = malloc(((size_t)slots->weights + 1) * sizeof *part->weights);
    for (int slot = 0; part->weights && slot < slots->weights; slot++)
        part->weights[slot] = (struct weight_content){.version = slot == 0 ? 0 : ACCOUNT_EMPTY};
    part->forward = calloc((size_t)micro_batches, sizeof *part->forward);
    return ok && part->weights && part->forward;
}

/* False: memory ran out. */
static bool make_parts(struct account *account) {
    const struct ps_programs *programs = account->programs;
    int micro_batches = programs_micro_batches(programs);
    account->parts = calloc((size_t)programs->part_count, sizeof *account->parts);
    account->channels = calloc((size_t)account->routes.count + 1, sizeof *account->channels);
    account->offered = calloc((size_t)programs->stages, sizeof *account->offered);
    bool ok = account->parts && account->channels && account->offered;
    for (int part = 0; account->parts && part < programs->part_count; part++)
        ok = part_start(&account->parts[part], &programs->slots[part], micro_batches) && ok;
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
    return make_parts(account) ? PS_OK : error_memory(error, "verifier", sizeof *account->parts);
}

void account_free(struct account *account) {
    for (int part = 0; account->parts && part < account->programs->part_count; part++) part_free(&account->parts[part]);
    for (int route = 0; account->channels && route < account->routes.count; route++) free(account->channels[route].waiting);
    free(account->parts);
    free(account->channels);
    free(account->offered);
    routes_free(&account->routes);
    version_table_free(&account->versions);
}
