/* Finding the pairs of parts between which something travels; see routes.h. */
#include "program/routes.h"

#include <stdlib.h>

static int common(int a, int b) { return b == 0 ? a : common(b, a % b); }

static enum ps_status add(struct routes *routes, int *capacity, struct route route, struct ps_error *error) {
    if (routes->count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 32;
        struct route *list = realloc(routes->list, (size_t)*capacity * sizeof *list);
        if (!list) return error_memory(error, "routes", (size_t)*capacity * sizeof *list);
        routes->list = list;
    }
    routes->list[routes->count++] = route;
    return PS_OK;
}

/* All routes that leave a part over one cut: replicas a and b work on the same micro-batch, one time or another, where a - b is a
 * multiple of what divides the numbers of both. */
static enum ps_status add_leaving(const struct ps_programs *programs, int part, enum traffic traffic, struct routes *routes,
                                  int *capacity, struct ps_error *error) {
    bool onward = traffic == TRAFFIC_ACTIVATION;
    const struct part *from = &programs->parts[part];
    int other = from->stage + (onward ? 1 : -1);
    if (other < 0 || other >= programs->stages || !(onward ? from->forward : from->backward)) return PS_OK;
    for (int i = programs->first_part[other]; i < programs->first_part[other + 1]; i++) {
        const struct part *to = &programs->parts[i];
        bool meet = (from->replica - to->replica) % common(from->replicas, to->replicas) == 0;
        if (meet && (onward ? to->forward : to->backward)) TRY(add(routes, capacity, (struct route){part, i, traffic}, error));
    }
    return PS_OK;
}

enum ps_status routes_create(const struct ps_programs *programs, struct routes *out, struct ps_error *error) {
    struct routes routes = {.first = calloc((size_t)programs->part_count + 1, sizeof *routes.first)};
    int capacity = 0;
    enum ps_status status = routes.first ? PS_OK : error_memory(error, "routes", (size_t)programs->part_count * sizeof *routes.first);
    for (int part = 0; status == PS_OK && part < programs->part_count; part++) {
        status = add_leaving(programs, part, TRAFFIC_ACTIVATION, &routes, &capacity, error);
        if (status == PS_OK) status = add_leaving(programs, part, TRAFFIC_GRADIENT, &routes, &capacity, error);
        routes.first[part + 1] = routes.count;
    }
    if (status != PS_OK) {
        routes_free(&routes);
        return status;
    }
    *out = routes;
    return PS_OK;
}

void routes_free(struct routes *routes) {
    free(routes->list);
    free(routes->first);
    *routes = (struct routes){0};
}

int routes_find(const struct routes *routes, int from, int to, enum traffic traffic) {
    for (int route = routes->first[from]; route < routes->first[from + 1]; route++)
        if (routes->list[route].to == to && routes->list[route].traffic == traffic) return route;
    return NO_ROUTE;
}

int routes_of(const struct routes *routes, const struct ps_programs *programs, int worker, const struct instruction *instruction) {
    int own = programs_part(programs, worker, instruction->stage);
    int other = programs_part(programs, instruction->peer, instruction_other_stage(instruction));
    bool sends = opcode_table[instruction->op].action == ACTION_SEND;
    enum traffic traffic = instruction->op == OP_SA || instruction->op == OP_RA ? TRAFFIC_ACTIVATION : TRAFFIC_GRADIENT;
    if (own == NO_PART || other == NO_PART) return NO_ROUTE;
    return routes_find(routes, sends ? own : other, sends ? other : own, traffic);
}
