/* Finds the pairs of instances between which blocks are transferred; see routes.h. */
#include "program/routes.h"
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"

const struct traffic_info traffic_table[TRAFFICS] = {
    [TRAFFIC_ACTIVATION] = {"activation", 1, true, true, BLOCK_OUTPUT, BLOCK_INPUT},
    [TRAFFIC_GRADIENT] = {"gradient", -1, false, false, BLOCK_INPUT_GRADIENT, BLOCK_OUTPUT_GRADIENT},
    [TRAFFIC_STASH] = {"stash", 0, true, false, BLOCK_STASH, BLOCK_STASH},
    [TRAFFIC_KEPT_INPUT] = {"input of a stash", 0, true, false, BLOCK_INPUT, BLOCK_INPUT},
    [TRAFFIC_WEIGHTS] = {"weights", 0, false, true, BLOCK_WEIGHTS, BLOCK_WEIGHTS},
    [TRAFFIC_ENCODED_ACTIVATION] = {"encoded activation", 1, true, true, BLOCK_WIRE + WIRE_ACTIVATION_SENT,
                                    BLOCK_WIRE + WIRE_ACTIVATION_RECEIVED},
    [TRAFFIC_ENCODED_GRADIENT] = {"encoded gradient", -1, false, false, BLOCK_WIRE + WIRE_GRADIENT_SENT,
                                  BLOCK_WIRE + WIRE_GRADIENT_RECEIVED},
};

int64_t transfer_bytes(const struct stage_sizes *size, enum block_kind kind) { return stage_block_bytes(size, kind); }

int64_t traffic_bytes(enum traffic traffic, const struct stage_sizes *from) {
    return transfer_bytes(from, traffic_table[traffic].sent);
}

void traffic_count_add(struct traffic_count *count, const struct ps_programs *programs, int worker,
                       const struct instruction *instruction, const struct stage_sizes *size) {
    const enum action action = opcode_table[instruction->op].action;
    if (action == ACTION_REDUCE) {
        double bytes;
        programs_sum_shares(programs, instruction->stage, size, &bytes);
        count->sent += llround(bytes);
        count->received += llround(bytes);
    }
    if ((action != ACTION_SEND && action != ACTION_RECEIVE) || instruction->peer == worker) return;
    int64_t *bytes = action == ACTION_SEND ? &count->sent : &count->received;
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        if (instruction->block[kind] != NO_SLOT) *bytes += transfer_bytes(size, (enum block_kind)kind);
    if (instruction_moves_weights(instruction)) *bytes += transfer_bytes(size, BLOCK_WEIGHTS);
}

/* Is the traffic from a stage to its neighbour encoded? */
static bool encodes(const struct ps_programs *programs, int stage, enum traffic traffic) {
    return traffic == TRAFFIC_ENCODED_ACTIVATION ? programs->wire[stage].activation.codec != WIRE_NONE
                                                 : programs->wire[stage - 1].gradient.codec != WIRE_NONE;
}

/* All routes from an instance across one cut. Replicas a and b have a micro-batch in common if a - b is a multiple of the
 * greatest common divisor of the two numbers of replicas. */
static enum ps_status add_leaving(const struct ps_programs *programs, int instance, enum traffic traffic, struct routes *routes,
                                  size_t *capacity, struct ps_error *error) {
    const struct traffic_info *info = &traffic_table[traffic];
    const struct instance *from = &programs->instances[instance];
    int other = from->stage + info->step;
    const bool encoded = traffic == TRAFFIC_ENCODED_ACTIVATION || traffic == TRAFFIC_ENCODED_GRADIENT;
    if (other < 0 || other >= programs->stages || !(info->from_forward ? from->forward : from->backward)) return PS_OK;
    if (encoded && !encodes(programs, from->stage, traffic)) return PS_OK;
    for (int i = programs->first_instance[other]; i < programs->first_instance[other + 1]; i++) {
        const struct instance *to = &programs->instances[i];
        bool meet = (from->replica - to->replica) % number_common_divisor(from->replicas, to->replicas) == 0;
        if (i == instance || !meet || !(info->to_forward ? to->forward : to->backward)) continue;
        if (info->step == 0 && !programs_split(programs, other)) continue;
        if (encoded && to->worker == from->worker) continue;
        TRY(memory_grow(&routes->list, capacity, routes->count + 1, "routes", error));
        routes->list[routes->count++] = (struct route){instance, i, traffic};
    }
    return PS_OK;
}

enum ps_status routes_create(const struct ps_programs *programs, struct routes *out, struct ps_error *error) {
    struct routes routes = {0};
    size_t capacity = 0;
    enum ps_status status = memory_new(&routes.first, programs->instance_count + 1, "routes", error);
    for (int instance = 0; status == PS_OK && instance < programs->instance_count; instance++) {
        for (int traffic = 0; status == PS_OK && traffic < TRAFFICS; traffic++)
            status = add_leaving(programs, instance, (enum traffic)traffic, &routes, &capacity, error);
        routes.first[instance + 1] = routes.count;
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

int routes_between(const struct routes *routes, int instance, int other, enum block_kind kind, bool *sends) {
    for (int traffic = 0; traffic < TRAFFICS; traffic++)
        for (int out = 0; out < 2; out++) {
            if ((out ? traffic_table[traffic].sent : traffic_table[traffic].received) != kind) continue;
            int route = routes_find(routes, out ? instance : other, out ? other : instance, (enum traffic)traffic);
            if (route == NO_ROUTE) continue;
            *sends = out;
            return route;
        }
    return NO_ROUTE;
}

int routes_of(const struct routes *routes, const struct ps_programs *programs, int worker,
              const struct instruction *instruction, enum block_kind kind) {
    int own = programs_instance(programs, worker, instruction->stage);
    int other = programs_instance(programs, instruction->peer, instruction_other_stage(instruction));
    bool sends;
    if (own == NO_INSTANCE || other == NO_INSTANCE) return NO_ROUTE;
    int route = routes_between(routes, own, other, kind, &sends);
    return route != NO_ROUTE && sends == (opcode_table[instruction->op].action == ACTION_SEND) ? route : NO_ROUTE;
}
