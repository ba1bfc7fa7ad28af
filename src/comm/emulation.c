/* See emulation.h. */
#include "comm/emulation.h"

#include <math.h>
#include <pthread.h>

#include "base/arena.h"

struct emulation {
    struct arena arena; /* holds this struct, too */
    pthread_mutex_t lock;
    struct cluster_pair *pairs; /* per route */
    double *duration;           /* per route */
    double *free_at;            /* per link */
};

/* The size of a route's blocks; if one end is in another process, the other end's sizes have it. */
static int64_t route_bytes(const struct ps_programs *programs, const struct route *route, const struct stage_sizes *sizes) {
    const struct stage_sizes *to = &sizes[programs->instances[route->to].stage];
    int64_t sent = traffic_bytes(route->traffic, &sizes[programs->instances[route->from].stage]), taken = sent;
    if (route->traffic == TRAFFIC_ACTIVATION) taken = to->input_bytes;
    if (route->traffic == TRAFFIC_GRADIENT) taken = to->output_bytes;
    if (route->traffic == TRAFFIC_ENCODED_ACTIVATION) taken = to->wire_bytes[WIRE_ACTIVATION_RECEIVED];
    if (route->traffic == TRAFFIC_ENCODED_GRADIENT) taken = to->wire_bytes[WIRE_GRADIENT_RECEIVED];
    return sent > taken ? sent : taken;
}

static void add_route(struct emulation *emulation, const struct ps_cluster *cluster, const struct ps_programs *programs,
                      const struct routes *routes, const struct stage_sizes *sizes, int index) {
    const struct instance *instances = programs->instances;
    const struct route *route = &routes->list[index];
    int from = instances[route->from].worker, to = instances[route->to].worker;
    emulation->pairs[index] = (struct cluster_pair){.from = from, .to = to};
    cluster_pair_links(cluster, emulation->pairs, index);
    emulation->duration[index] = cluster_transfer_s(cluster, from, to, route_bytes(programs, route, sizes));
}

enum ps_status emulation_create(const struct ps_cluster *cluster, const struct ps_programs *programs,
                                const struct routes *routes, const struct stage_sizes *sizes, struct emulation **out,
                                struct ps_error *error) {
    struct arena arena = {0};
    struct emulation *emulation = arena_take(&arena, 1, sizeof *emulation);
    struct cluster_pair *pairs = arena_take(&arena, (size_t)routes->count, sizeof *pairs);
    double *duration = arena_take(&arena, (size_t)routes->count, sizeof *duration);
    double *free_at = arena_take(&arena, 2 * (size_t)routes->count, sizeof *free_at);
    TRY(arena_check(&arena, "emulated links", error));
    *emulation = (struct emulation){.arena = arena, .pairs = pairs, .duration = duration, .free_at = free_at};
    pthread_mutex_init(&emulation->lock, NULL);
    for (int route = 0; route < routes->count; route++) add_route(emulation, cluster, programs, routes, sizes, route);
    *out = emulation;
    return PS_OK;
}

void emulation_destroy(struct emulation *emulation) {
    if (!emulation) return;
    pthread_mutex_destroy(&emulation->lock);
    struct arena arena = emulation->arena;
    arena_release(&arena);
}

double emulation_carry(struct emulation *emulation, int route, double when) {
    if (!emulation || emulation->duration[route] == 0) return when;
    pthread_mutex_lock(&emulation->lock);
    double *own = &emulation->free_at[emulation->pairs[route].link[0]],
           *shared = &emulation->free_at[emulation->pairs[route].link[1]];
    const double end = fmax(when, fmax(*own, *shared)) + emulation->duration[route];
    *own = *shared = end;
    pthread_mutex_unlock(&emulation->lock);
    return end;
}
