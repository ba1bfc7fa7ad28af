/*
 * The transports `threads` and `serial`: transfers without copying. The first post waits in the channel's queue; the second one
 * swaps the two table entries: the full block moves to the receiver, the empty one to the sender. All blocks of a cut are
 * equally large, so it does not matter whose memory they came from.
 */
#include "comm/transports/within_process.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/emulation.h"
#include "comm/transports/gradient_sum.h"
#include "program/routes.h"

enum { SENDER, RECEIVER };

/* One slot of one kind of one instance. */
struct pending {
    /* Where it was last posted to; NULL: never. Used by its owner only; the rest is guarded by the channel's lock. */
    struct channel *channel;
    float **block; /* the poster's table entry */
    bool pending;
    struct moment when; /* of its post; once settled, the other end's, at the later of both times or when its emulated
                           transfer is over */
};

struct channel {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Posts that wait for the other end, in order: a ring. Never of both ends at once. */
    struct pending **queue;
    int capacity, first, waiting;
    int queued_end;
    bool stopped;
};

/* A reduce group: the instances (programs_sum_group) whose gradients are summed. The last one to arrive computes the sum for
 * all. */
struct reduce_group {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct transport_share *shares; /* by stage and replica, of those that have arrived */
    struct sum_stage *stages;
    int stage_count, size, came;
    const struct tied_parameter *tied; /* the transport's */
    int tied_count;
    struct moment settled_at; /* the last sum */
    int64_t over;             /* sums done */
    bool stopped;
};

/* An instance in its reduce group; used by its worker only. */
struct reduce_member {
    struct reduce_group *group;
    int index;
    int64_t offered; /* sums that it took part in */
    struct moment settled_at;
};

struct channels {
    struct transport transport;
    struct arena arena; /* of all that follows */
    struct routes routes;
    struct emulation *emulation;                    /* NULL: none */
    struct channel *channel;                        /* per route */
    struct pending *(*pending_posts)[BLOCK_PLACES]; /* by instance, kind and slot */
    struct reduce_group *reduce_groups;             /* per stage; of a group's stages the first one's is used */
    int stages;
    bool started;                  /* the locks and conditions of channels and reduce groups exist */
    struct reduce_member *members; /* per instance */
};

static struct pending *pending_of(const struct transport *transport, int instance, enum block_kind kind, int slot) {
    const struct channels *channels = (const struct channels *)transport;
    return &channels->pending_posts[instance][kind][slot];
}

static void make_channel(struct channels *channels, const struct transport_options *options, int route) {
    const struct route *of = &channels->routes.list[route];
    struct channel *channel = &channels->channel[route];
    int senders = stage_slots_of(&options->slots[of->from], traffic_table[of->traffic].sent);
    int receivers = stage_slots_of(&options->slots[of->to], traffic_table[of->traffic].received);
    channel->capacity = senders > receivers ? senders : receivers;
    channel->queue = arena_take(&channels->arena, (size_t)channel->capacity, sizeof(*channel->queue));
}

static void make_places(struct channels *channels, const struct transport_options *options) {
    struct arena *arena = &channels->arena;
    const size_t instances = (size_t)options->programs->instance_count;
    channels->pending_posts = arena_take(arena, instances, sizeof *channels->pending_posts);
    for (size_t instance = 0; channels->pending_posts && instance < instances; instance++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++)
            channels->pending_posts[instance][kind] =
                arena_take(arena, (size_t)stage_slots_of(&options->slots[instance], (enum block_kind)kind),
                           sizeof **channels->pending_posts[instance]);
}

/* A group of several stages is that of the first of them. */
static void make_reduce_group(struct channels *channels, const struct transport_options *options, int stage) {
    struct reduce_group *group = &channels->reduce_groups[stage];
    const struct sum_group of_stage = programs_sum_group(options->programs, stage);
    *group =
        (struct reduce_group){.stage_count = of_stage.stage_count, .tied = options->tied, .tied_count = options->tied_count};
    group->stages = arena_take(&channels->arena, (size_t)of_stage.stage_count, sizeof *group->stages);
    group->shares = arena_take(&channels->arena, (size_t)of_stage.size, sizeof *group->shares);
    for (int s = 0; s < of_stage.stage_count && group->stages; s++) {
        const int replicas = programs_replicas(options->programs, of_stage.stages[s]);
        group->stages[s] = (struct sum_stage){.number = of_stage.stages[s], .first = group->size, .replicas = replicas};
        group->size += replicas;
    }
}

static void join_group(struct channels *channels, const struct ps_programs *programs, int instance) {
    const struct instance *of = &programs->instances[instance];
    struct reduce_group *group = &channels->reduce_groups[programs_sum_group(programs, of->stage).number];
    const struct sum_stage *stage = group->stages;
    while (stage->number != of->stage) stage++;
    channels->members[instance] = (struct reduce_member){.group = group, .index = stage->first + of->replica};
}

/* Everything that is allocated, in the arena, and then the locks and conditions. */
static enum ps_status make_tables(struct channels *channels, const struct transport_options *options, struct ps_error *error) {
    struct arena *arena = &channels->arena;
    const struct ps_programs *programs = options->programs;
    channels->stages = programs->stages;
    channels->channel = arena_take(arena, (size_t)channels->routes.count, sizeof *channels->channel);
    channels->reduce_groups = arena_take(arena, (size_t)programs->stages, sizeof *channels->reduce_groups);
    channels->members = arena_take(arena, (size_t)programs->instance_count, sizeof *channels->members);
    make_places(channels, options);
    TRY(arena_check(arena, "transport", error));
    for (int route = 0; route < channels->routes.count; route++) make_channel(channels, options, route);
    for (int stage = 0; stage < programs->stages; stage++) make_reduce_group(channels, options, stage);
    TRY(arena_check(arena, "transport", error));
    for (int instance = 0; instance < programs->instance_count; instance++) join_group(channels, programs, instance);
    for (int route = 0; route < channels->routes.count; route++) {
        pthread_mutex_init(&channels->channel[route].lock, NULL);
        pthread_cond_init(&channels->channel[route].changed, NULL);
    }
    for (int stage = 0; stage < programs->stages; stage++) {
        pthread_mutex_init(&channels->reduce_groups[stage].lock, NULL);
        pthread_cond_init(&channels->reduce_groups[stage].changed, NULL);
    }
    channels->started = true;
    return PS_OK;
}

enum ps_status within_process_create(const struct transport_class *class, const struct transport_options *options,
                                     struct transport **out, struct ps_error *error) {
    struct channels *channels;
    TRY(memory_new(&channels, 1, "transport", error));
    channels->transport.class = class;
    enum ps_status status = routes_create(options->programs, &channels->routes, error);
    if (status == PS_OK) status = make_tables(channels, options, error);
    if (status == PS_OK && options->emulated)
        status = emulation_create(options->emulated, options->programs, &channels->routes, options->sizes, &channels->emulation,
                                  error);
    if (status != PS_OK) {
        within_process_destroy(&channels->transport);
        return status;
    }
    *out = &channels->transport;
    return PS_OK;
}

void within_process_destroy(struct transport *transport) {
    struct channels *channels = (struct channels *)transport;
    if (!channels) return;
    for (int route = 0; channels->started && route < channels->routes.count; route++) {
        pthread_mutex_destroy(&channels->channel[route].lock);
        pthread_cond_destroy(&channels->channel[route].changed);
    }
    for (int stage = 0; channels->started && stage < channels->stages; stage++) {
        pthread_mutex_destroy(&channels->reduce_groups[stage].lock);
        pthread_cond_destroy(&channels->reduce_groups[stage].changed);
    }
    arena_release(&channels->arena);
    emulation_destroy(channels->emulation);
    routes_free(&channels->routes);
    free(channels);
}

/* Under the lock: both ends have posted. */
static void exchange(struct channels *channels, struct channel *channel, struct pending *one, struct pending *other) {
    float *block = *one->block;
    *one->block = *other->block;
    *other->block = block;
    one->pending = other->pending = false;
    double met = fmax(one->when.time, other->when.time);
    struct moment when = one->when;
    one->when = other->when;
    other->when = when;
    one->when.time = other->when.time = emulation_carry(channels->emulation, (int)(channel - channels->channel), met);
    pthread_cond_broadcast(&channel->changed);
}

void within_process_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                         const struct moment *when) {
    struct channels *channels = (struct channels *)transport;
    bool sends = false;
    int route = routes_between(&channels->routes, instance, other, kind, &sends), end = sends ? SENDER : RECEIVER;
    struct pending *pending = pending_of(transport, instance, kind, slot);
    assert(route != NO_ROUTE && !pending->pending);
    struct channel *channel = &channels->channel[route];
    pthread_mutex_lock(&channel->lock);
    *pending = (struct pending){.channel = channel, .block = block, .pending = true, .when = *when};
    if (channel->waiting > 0 && channel->queued_end != end) {
        struct pending *first = channel->queue[channel->first];
        channel->first = (channel->first + 1) % channel->capacity;
        channel->waiting--;
        exchange(channels, channel, pending, first);
    } else {
        channel->queued_end = end;
        channel->queue[(channel->first + channel->waiting++) % channel->capacity] = pending;
    }
    pthread_mutex_unlock(&channel->lock);
}

/* Under the lock: have the entries been swapped while the emulated transfer is not over? */
static bool still_travels(const struct transport *transport, const struct pending *pending) {
    return ((const struct channels *)transport)->emulation && pending->when.time > clock_now();
}

/* All have arrived: the caller's device computes the sum after the work of all, and the work of all others waits for it. */
static void make_sum(struct reduce_group *group, const struct transport_share *last) {
    double came = 0;
    for (int s = 0; s < group->size; s++) {
        came = fmax(came, group->shares[s].when.time);
        if (!device_in_host(last->device)) device_after(last->device, &group->shares[s].when);
    }
    sum_stages(last->device, group->shares, group->stages, group->stage_count, group->tied, group->tied_count);
    group->settled_at = device_mark(last->device);
    group->settled_at.time = came + last->takes_s;
}

void within_process_reduce(struct transport *transport, int instance, const struct transport_share *share) {
    struct reduce_member *own = &((struct channels *)transport)->members[instance];
    struct reduce_group *group = own->group;
    pthread_mutex_lock(&group->lock);
    assert(own->offered == group->over);
    own->offered++;
    group->shares[own->index] = *share;
    if (++group->came == group->size) {
        make_sum(group, share);
        group->came = 0;
        group->over++;
        pthread_cond_broadcast(&group->changed);
    }
    pthread_mutex_unlock(&group->lock);
}

/* Is the last sum that the instance took part in done? No other sum can be done before it arrives again. */
static bool sum_settled(struct reduce_member *own, bool wait) {
    struct reduce_group *group = own->group;
    if (group->size == 1) return true;
    pthread_mutex_lock(&group->lock);
    while (wait && own->offered > group->over && !group->stopped) pthread_cond_wait(&group->changed, &group->lock);
    bool settled = own->offered <= group->over;
    if (settled) own->settled_at = group->settled_at;
    pthread_mutex_unlock(&group->lock);
    return settled;
}

bool within_process_settled(struct transport *transport, int instance, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return sum_settled(&((struct channels *)transport)->members[instance], false);
    const struct pending *pending = pending_of(transport, instance, kind, slot);
    if (!pending->channel) return true;
    pthread_mutex_lock(&pending->channel->lock);
    bool settled = !pending->pending && !still_travels(transport, pending);
    pthread_mutex_unlock(&pending->channel->lock);
    return settled;
}

struct moment within_process_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return ((struct channels *)transport)->members[instance].settled_at;
    const struct pending *pending = pending_of(transport, instance, kind, slot);
    if (!pending->channel) return (struct moment){0};
    pthread_mutex_lock(&pending->channel->lock);
    struct moment when = pending->when;
    pthread_mutex_unlock(&pending->channel->lock);
    return when;
}

bool within_process_wait(struct transport *transport, int instance, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return sum_settled(&((struct channels *)transport)->members[instance], true);
    const struct pending *pending = pending_of(transport, instance, kind, slot);
    struct channel *channel = pending->channel;
    if (!channel) return true;
    pthread_mutex_lock(&channel->lock);
    while (pending->pending && !channel->stopped) pthread_cond_wait(&channel->changed, &channel->lock);
    bool settled = !pending->pending;
    double travels_until = settled && still_travels(transport, pending) ? pending->when.time : 0;
    pthread_mutex_unlock(&channel->lock);
    if (travels_until > 0) clock_wait_until(travels_until);
    return settled;
}

void within_process_stop(struct transport *transport) {
    struct channels *channels = (struct channels *)transport;
    for (int i = 0; i < channels->routes.count; i++) {
        pthread_mutex_lock(&channels->channel[i].lock);
        channels->channel[i].stopped = true;
        pthread_cond_broadcast(&channels->channel[i].changed);
        pthread_mutex_unlock(&channels->channel[i].lock);
    }
    for (int stage = 0; stage < channels->stages; stage++) {
        pthread_mutex_lock(&channels->reduce_groups[stage].lock);
        channels->reduce_groups[stage].stopped = true;
        pthread_cond_broadcast(&channels->reduce_groups[stage].changed);
        pthread_mutex_unlock(&channels->reduce_groups[stage].lock);
    }
}

extern const struct transport_class transport_threads, transport_serial;

#define WITHIN_PROCESS                                                                                                         \
    .create = within_process_create, .destroy = within_process_destroy, .post = within_process_post,                           \
    .reduce = within_process_reduce, .settled = within_process_settled, .settled_at = within_process_settled_at,               \
    .stop = within_process_stop
const struct transport_class transport_threads = {.name = "threads",
                                                  .summary = "every worker is a thread of this process",
                                                  .own_threads = true,
                                                  .wait = within_process_wait,
                                                  WITHIN_PROCESS};

/* Slow and deterministic: tests compare other transports with it. */
const struct transport_class transport_serial = {
    .name = "serial", .summary = "one thread runs all workers in turn", WITHIN_PROCESS};
