/*
 * Hand-over without copying. Who posts first waits in the channel's queue; who posts second swaps the two table entries: the
 * full block moves to the receiver, the empty one to the sender. All blocks of a cut are equally large, so it does not matter
 * whose memory they came from.
 */
#include "run/transports/channels.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "program/routes.h"
#include "run/emulation.h"
#include "run/transports/sum.h"

enum { SENDER, RECEIVER };

/* One slot of one kind of one part. */
struct place {
    /* It was last posted to; NULL: never. Its owner's alone; the rest is guarded by the channel's lock. */
    struct channel *channel;
    float **block; /* the poster's table entry */
    bool pending;
    double when; /* it was posted; once settled, the later of both ends', or when its emulated transfer is over */
};

struct channel {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Posts that wait for the other end, in order: a ring. Never of both ends at once. */
    struct place **queue;
    int capacity, first, waiting;
    int queued_end;
    bool stopped;
};

/* Where a group of parts (programs_sum_group) meets to add up its gradients: the last to come does it for all. */
struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct transport_share *shares; /* by stage and replica, of those that have come */
    int size, first, came;          /* `first`: parts of the first stage */
    double when;                    /* of the last to come so far, by the posters' devices */
    double settled_at;              /* the same of the sum that was made last */
    int64_t over;                   /* sums made */
    bool stopped;
};

/* A part at its group's meeting; its worker's alone. */
struct attendance {
    struct meeting *meeting;
    int seat;
    int64_t offered; /* times that it came */
    double settled_at;
};

struct channels {
    struct transport transport;
    struct routes routes;
    struct emulation *emulation; /* NULL: none */
    struct channel *channel;     /* per route */
    int started;                 /* channels whose lock and condition exist */
    int part_count;
    struct place *(*places)[BLOCK_PLACES]; /* by part, kind and slot */
    struct meeting *meetings;              /* per stage; of a group's stages the first one's is used */
    int stages;
    struct attendance *attendances; /* per part */
};

static struct place *place_of(const struct transport *transport, int part, enum block_kind kind, int slot) {
    const struct channels *channels = (const struct channels *)transport;
    return &channels->places[part][kind][slot];
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
    for (int part = 0; part < channels->part_count; part++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) {
            size_t slots = (size_t)stage_slots_of(&options->slots[part], (enum block_kind)kind);
            channels->places[part][kind] = calloc(slots + 1, sizeof **channels->places[part]);
            if (!channels->places[part][kind]) return error_memory(error, "transport", slots * sizeof **channels->places[part]);
        }
    return PS_OK;
}

static enum ps_status make_meetings(struct channels *channels, const struct ps_programs *programs, struct ps_error *error) {
    channels->meetings = calloc((size_t)programs->stages, sizeof *channels->meetings);
    channels->attendances = calloc((size_t)programs->part_count, sizeof *channels->attendances);
    if (!channels->meetings || !channels->attendances)
        return error_memory(error, "transport", (size_t)programs->part_count * sizeof *channels->attendances);
    for (; channels->stages < programs->stages; channels->stages++) {
        struct meeting *meeting = &channels->meetings[channels->stages];
        struct sum_group group = programs_sum_group(programs, channels->stages);
        meeting->size = group.size;
        meeting->first = programs_replicas(programs, group.stages[0]);
        pthread_mutex_init(&meeting->lock, NULL);
        pthread_cond_init(&meeting->changed, NULL);
        meeting->shares = calloc((size_t)meeting->size, sizeof *meeting->shares);
        if (!meeting->shares) {
            channels->stages++;
            return error_memory(error, "transport", (size_t)meeting->size * sizeof *meeting->shares);
        }
    }
    for (int part = 0; part < programs->part_count; part++) {
        const struct part *of = &programs->parts[part];
        struct sum_group group = programs_sum_group(programs, of->stage);
        struct meeting *meeting = &channels->meetings[group.number];
        int seat = of->stage == group.number ? of->replica : meeting->first + of->replica;
        channels->attendances[part] = (struct attendance){.meeting = meeting, .seat = seat};
    }
    return PS_OK;
}

enum ps_status channels_create(const struct transport_class *class, const struct transport_options *options,
                               struct transport **out, struct ps_error *error) {
    struct channels *channels = calloc(1, sizeof *channels);
    if (!channels) return error_memory(error, "transport", sizeof *channels);
    channels->transport.class = class;
    channels->part_count = options->programs->part_count;
    channels->places = calloc((size_t)channels->part_count, sizeof *channels->places);
    enum ps_status status = routes_create(options->programs, &channels->routes, error);
    if (status == PS_OK) channels->channel = calloc((size_t)channels->routes.count + 1, sizeof *channels->channel);
    if (status == PS_OK && (!channels->places || !channels->channel))
        status = error_memory(error, "transport", (size_t)channels->routes.count * sizeof *channels->channel);
    if (status == PS_OK) status = make_places(channels, options, error);
    for (int route = 0; status == PS_OK && route < channels->routes.count; route++)
        status = start_channel(channels, options, route, error);
    if (status == PS_OK && options->emulated)
        status = emulation_create(options->emulated, options->programs, &channels->routes, options->sizes, &channels->emulation,
                                  error);
    if (status == PS_OK) status = make_meetings(channels, options->programs, error);
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
    for (int part = 0; channels->places && part < channels->part_count; part++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) free(channels->places[part][kind]);
    for (int stage = 0; stage < channels->stages; stage++) {
        pthread_mutex_destroy(&channels->meetings[stage].lock);
        pthread_cond_destroy(&channels->meetings[stage].changed);
        free(channels->meetings[stage].shares);
    }
    free(channels->meetings);
    free(channels->attendances);
    free(channels->places);
    free(channels->channel);
    emulation_destroy(channels->emulation);
    routes_free(&channels->routes);
    free(channels);
}

/* Under the lock: both ends have come. */
static void hand_over(struct channels *channels, struct channel *channel, struct place *one, struct place *other) {
    float *block = *one->block;
    *one->block = *other->block;
    *other->block = block;
    one->pending = other->pending = false;
    double met = one->when > other->when ? one->when : other->when;
    one->when = other->when = emulation_carry(channels->emulation, (int)(channel - channels->channel), met);
    pthread_cond_broadcast(&channel->changed);
}

void channels_post(struct transport *transport, int part, enum block_kind kind, int slot, int other, float **block,
                   double when) {
    struct channels *channels = (struct channels *)transport;
    bool sends = false;
    int route = routes_between(&channels->routes, part, other, kind, &sends), end = sends ? SENDER : RECEIVER;
    struct place *place = place_of(transport, part, kind, slot);
    assert(route != NO_ROUTE && !place->pending);
    struct channel *channel = &channels->channel[route];
    pthread_mutex_lock(&channel->lock);
    *place = (struct place){.channel = channel, .block = block, .pending = true, .when = when};
    if (channel->waiting > 0 && channel->queued_end != end) {
        struct place *first = channel->queue[channel->first];
        channel->first = (channel->first + 1) % channel->capacity;
        channel->waiting--;
        hand_over(channels, channel, place, first);
    } else {
        channel->queued_end = end;
        channel->queue[(channel->first + channel->waiting++) % channel->capacity] = place;
    }
    pthread_mutex_unlock(&channel->lock);
}

/* Under the lock: has the block changed hands while its emulated transfer goes on? */
static bool still_travels(const struct transport *transport, const struct place *place) {
    return ((const struct channels *)transport)->emulation && place->when > clock_now();
}

void channels_reduce(struct transport *transport, int part, const struct transport_share *share, double when) {
    struct attendance *own = &((struct channels *)transport)->attendances[part];
    struct meeting *meeting = own->meeting;
    pthread_mutex_lock(&meeting->lock);
    assert(own->offered == meeting->over);
    own->offered++;
    meeting->shares[own->seat] = *share;
    if (meeting->came == 0 || when > meeting->when) meeting->when = when;
    if (++meeting->came == meeting->size) {
        sum_stages(meeting->shares, meeting->first, meeting->size);
        meeting->came = 0;
        meeting->settled_at = meeting->when + share->takes_s;
        meeting->over++;
        pthread_cond_broadcast(&meeting->changed);
    }
    pthread_mutex_unlock(&meeting->lock);
}

/* Has the last sum that the part came for been made? No other is made before it comes again. */
static bool sum_settled(struct attendance *own, bool wait) {
    struct meeting *meeting = own->meeting;
    if (meeting->size == 1) return true;
    pthread_mutex_lock(&meeting->lock);
    while (wait && own->offered > meeting->over && !meeting->stopped) pthread_cond_wait(&meeting->changed, &meeting->lock);
    bool settled = own->offered <= meeting->over;
    if (settled) own->settled_at = meeting->settled_at;
    pthread_mutex_unlock(&meeting->lock);
    return settled;
}

bool channels_settled(struct transport *transport, int part, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return sum_settled(&((struct channels *)transport)->attendances[part], false);
    const struct place *place = place_of(transport, part, kind, slot);
    if (!place->channel) return true;
    pthread_mutex_lock(&place->channel->lock);
    bool settled = !place->pending && !still_travels(transport, place);
    pthread_mutex_unlock(&place->channel->lock);
    return settled;
}

double channels_settled_at(struct transport *transport, int part, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return ((struct channels *)transport)->attendances[part].settled_at;
    const struct place *place = place_of(transport, part, kind, slot);
    if (!place->channel) return 0;
    pthread_mutex_lock(&place->channel->lock);
    double time = place->when;
    pthread_mutex_unlock(&place->channel->lock);
    return time;
}

bool channels_wait(struct transport *transport, int part, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS) return sum_settled(&((struct channels *)transport)->attendances[part], true);
    const struct place *place = place_of(transport, part, kind, slot);
    struct channel *channel = place->channel;
    if (!channel) return true;
    pthread_mutex_lock(&channel->lock);
    while (place->pending && !channel->stopped) pthread_cond_wait(&channel->changed, &channel->lock);
    bool settled = !place->pending;
    double travels_until = settled && still_travels(transport, place) ? place->when : 0;
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
        pthread_mutex_lock(&channels->meetings[stage].lock);
        channels->meetings[stage].stopped = true;
        pthread_cond_broadcast(&channels->meetings[stage].changed);
        pthread_mutex_unlock(&channels->meetings[stage].lock);
    }
}
