/*
 * Transfers without copying. The first post waits in the channel's queue; the second one swaps the two table entries: the full
 * block moves to the receiver, the empty one to the sender. All blocks of a cut are equally large, so it does not matter whose
 * memory they came from.
 */
#include "comm/transports/channels.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/emulation.h"
#include "comm/transports/sum.h"
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
    int size, first, came;          /* `first`: instances of the first stage */
    struct moment settled_at;       /* the last sum */
    int64_t over;                   /* sums done */
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
    struct routes routes;
    struct emulation *emulation; /* NULL: none */
    struct channel *channel;     /* per route */
    int started;                 /* channels whose lock and condition exist */
    int instance_count;
    struct pending *(*pending_posts)[BLOCK_PLACES]; /* by instance, kind and slot */
    struct reduce_group *reduce_groups;             /* per stage; of a group's stages the first one's is used */
    int stages;
    struct reduce_member *members; /* per instance */
};

static struct pending *pending_of(const struct transport *transport, int instance, enum block_kind kind, int slot) {
    const struct channels *channels = (const struct channels *)transport;
    return &channels->pending_posts[instance][kind][slot];
}

static enum ps_status start_channel(struct channels *channels, const struct transport_options *options, int route,
                                    struct ps_error *error) {
    const struct route *of = &channels->routes.list[route];
    struct channel *channel = &channels->channel[route];
    pthread_mutex_init(&channel->lock, NULL);
    pthread_cond_init(&channel->changed, NULL);
    channels->started++;
    int senders = stage_slots_of(&options->slots[of->from], traffic_table[of->traffic].sent);
    int receivers = stage_slots_of(&options->slots[of->to], traffic_table[of->traffic].received);
    channel->capacity = (senders > receivers ? senders : receivers) + 1;
    channel->queue = calloc((size_t)channel->capacity, sizeof(*channel->queue));
    return channel->queue ? PS_OK : error_memory(error, "transport", (size_t)channel->capacity * sizeof(*channel->queue));
}

static enum ps_status make_places(struct channels *channels, const struct transport_options *options, struct ps_error *error) {
    for (int instance = 0; instance < channels->instance_count; instance++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) {
            size_t slots = (size_t)stage_slots_of(&options->slots[instance], (enum block_kind)kind);
            channels->pending_posts[instance][kind] = calloc(slots + 1, sizeof **channels->pending_posts[instance]);
            if (!channels->pending_posts[instance][kind])
                return error_memory(error, "transport", slots * sizeof **channels->pending_posts[instance]);
        }
    return PS_OK;
}

static enum ps_status make_reduce_groups(struct channels *channels, const struct ps_programs *programs,
                                         struct ps_error *error) {
    channels->reduce_groups = calloc((size_t)programs->stages, sizeof *channels->reduce_groups);
    channels->members = calloc((size_t)programs->instance_count, sizeof *channels->members);
    if (!channels->reduce_groups || !channels->members)
        return error_memory(error, "transport", (size_t)programs->instance_count * sizeof *channels->members);
    for (; channels->stages < programs->stages; channels->stages++) {
        struct reduce_group *group = &channels->reduce_groups[channels->stages];
        struct sum_group of_stage = programs_sum_group(programs, channels->stages);
        group->size = of_stage.size;
        group->first = programs_replicas(programs, of_stage.stages[0]);
        pthread_mutex_init(&group->lock, NULL);
        pthread_cond_init(&group->changed, NULL);
        group->shares = calloc((size_t)group->size, sizeof *group->shares);
        if (!group->shares) {
            channels->stages++;
            return error_memory(error, "transport", (size_t)group->size * sizeof *group->shares);
        }
    }
    for (int instance = 0; instance < programs->instance_count; instance++) {
        const struct instance *of = &programs->instances[instance];
        struct sum_group of_stage = programs_sum_group(programs, of->stage);
        struct reduce_group *group = &channels->reduce_groups[of_stage.number];
        int index = of->stage == of_stage.number ? of->replica : group->first + of->replica;
        channels->members[instance] = (struct reduce_member){.group = group, .index = index};
    }
    return PS_OK;
}

enum ps_status channels_create(const struct transport_class *class, const struct transport_options *options,
                               struct transport **out, struct ps_error *error) {
    struct channels *channels = calloc(1, sizeof *channels);
    if (!channels) return error_memory(error, "transport", sizeof *channels);
    channels->transport.class = class;
    channels->instance_count = options->programs->instance_count;
    channels->pending_posts = calloc((size_t)channels->instance_count, sizeof *channels->pending_posts);
    enum ps_status status = routes_create(options->programs, &channels->routes, error);
    if (status == PS_OK) channels->channel = calloc((size_t)channels->routes.count + 1, sizeof *channels->channel);
    if (status == PS_OK && (!channels->pending_posts || !channels->channel))
        status = error_memory(error, "transport", (size_t)channels->routes.count * sizeof *channels->channel);
    if (status == PS_OK) status = make_places(channels, options, error);
    for (int route = 0; status == PS_OK && route < channels->routes.count; route++)
        status = start_channel(channels, options, route, error);
    if (status == PS_OK && options->emulated)
        status = emulation_create(options->emulated, options->programs, &channels->routes, options->sizes, &channels->emulation,
                                  error);
    if (status == PS_OK) status = make_reduce_groups(channels, options->programs, error);
    if (status != PS_OK) {
        channels_destroy(&channels->transport);
        return status;
    }
    *out = &channels->transport;
    return PS_OK;
}

void channels_destroy(struct transport *transport) {
    struct channels *channels = (struct channels *)transport;
    if (!channels) return;
    for (int i = 0; i < channels->started; i++) {
        struct channel *channel = &channels->channel[i];
        pthread_mutex_destroy(&channel->lock);
        pthread_cond_destroy(&channel->changed);
        free(channel->queue);
    }
    for (int instance = 0; channels->pending_posts && instance < channels->instance_count; instance++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) free(channels->pending_posts[instance][kind]);
    for (int stage = 0; stage < channels->stages; stage++) {
        pthread_mutex_destroy(&channels->reduce_groups[stage].lock);
        pthread_cond_destroy(&channels->reduce_groups[stage].changed);
        free(channels->reduce_groups[stage].shares);
    }
    free(channels->reduce_groups);
    free(channels->members);
    free(channels->pending_posts);
    free(channels->channel);
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

void channels_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
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
    sum_stages(last->device, group->shares, group->first, group->size);
    group->settled_at = device_mark(last->device);
    group->settled_at.time = came + last->takes_s;
}

void channels_reduce(struct transport *transport, int instance, const struct transport_share *share) {
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

bool channels_settled(struct transport *transport, int instance, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return sum_settled(&((struct channels *)transport)->members[instance], false);
    const struct pending *pending = pending_of(transport, instance, kind, slot);
    if (!pending->channel) return true;
    pthread_mutex_lock(&pending->channel->lock);
    bool settled = !pending->pending && !still_travels(transport, pending);
    pthread_mutex_unlock(&pending->channel->lock);
    return settled;
}

struct moment channels_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return ((struct channels *)transport)->members[instance].settled_at;
    const struct pending *pending = pending_of(transport, instance, kind, slot);
    if (!pending->channel) return (struct moment){0};
    pthread_mutex_lock(&pending->channel->lock);
    struct moment when = pending->when;
    pthread_mutex_unlock(&pending->channel->lock);
    return when;
}

bool channels_wait(struct transport *transport, int instance, enum block_kind kind, int slot) {
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

void channels_stop(struct transport *transport) {
    struct channels *channels = (struct channels *)transport;
    for (int i = 0; i < channels->started; i++) {
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
