/*
 * Hand-over without copying. Who posts first waits in the channel's queue; who posts second swaps the two table entries: the
 * full block moves to the receiver, the empty one to the sender. All blocks of a cut are equally large, so it does not matter
 * whose memory they came from.
 */
#include "run/transports/channels.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { SENDER, RECEIVER, ENDS };

/* One slot of one end. */
struct place {
    float **block; /* the poster's table entry */
    bool pending;
    double when; /* it was posted; once settled, the later of both ends' */
};

struct channel {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct place *place[ENDS];
    int slots[ENDS];
    /* Posts that wait for the other end, in order: a ring of slot numbers. Never of both ends at once. */
    int *queue, capacity, first, waiting;
    int queued_end;
    bool stopped;
};

struct channels {
    struct transport transport;
    int count; /* two per cut: activations, gradients */
    struct channel *channel;
};

/* The channel of a block and which end of it the block is; NULL where the block never travels. */
static struct channel *find(struct transport *transport, int stage, enum block_kind kind, int *end) {
    struct channels *channels = (struct channels *)transport;
    bool after = kind == BLOCK_OUTPUT || kind == BLOCK_OUTPUT_GRADIENT;
    int index = 2 * (after ? stage : stage - 1) + (kind == BLOCK_OUTPUT_GRADIENT || kind == BLOCK_INPUT_GRADIENT);
    *end = kind == BLOCK_OUTPUT || kind == BLOCK_INPUT_GRADIENT ? SENDER : RECEIVER;
    if (kind < BLOCK_INPUT || index < 0 || index >= channels->count) return NULL;
    return &channels->channel[index];
}

static enum ps_status channel_start(struct channel *channel, int sender_slots, int receiver_slots, struct ps_error *error) {
    channel->slots[SENDER] = sender_slots;
    channel->slots[RECEIVER] = receiver_slots;
    channel->capacity = (sender_slots > receiver_slots ? sender_slots : receiver_slots) + 1;
    channel->queue = calloc((size_t)channel->capacity, sizeof *channel->queue);
    for (int end = 0; end < ENDS; end++) channel->place[end] = calloc((size_t)channel->capacity, sizeof *channel->place[end]);
    if (!channel->queue || !channel->place[SENDER] || !channel->place[RECEIVER])
        return error_memory(error, "transport", (size_t)channel->capacity * sizeof *channel->place[0]);
    return PS_OK;
}

enum ps_status channels_create(const struct transport_class *class, const struct transport_options *options,
                               struct transport **out, struct ps_error *error) {
    struct channels *channels = calloc(1, sizeof *channels);
    int count = 2 * (options->stages - 1);
    struct channel *channel = calloc((size_t)count + 1, sizeof *channel);
    if (!channels || !channel) {
        free(channels);
        free(channel);
        return error_memory(error, "transport", (size_t)count * sizeof *channel);
    }
    *channels = (struct channels){.transport.class = class, .count = count, .channel = channel};
    enum ps_status status = PS_OK;
    for (int i = 0; i < count; i++) {
        pthread_mutex_init(&channel[i].lock, NULL);
        pthread_cond_init(&channel[i].changed, NULL);
        const struct stage_slots *before = &options->slots[i / 2], *after = &options->slots[i / 2 + 1];
        bool gradients = i % 2 == 1;
        if (status == PS_OK)
            status = channel_start(&channel[i], gradients ? after->input_gradient : before->output,
                                   gradients ? before->output_gradient : after->input, error);
    }
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
    for (int i = 0; i < channels->count; i++) {
        struct channel *channel = &channels->channel[i];
        pthread_mutex_destroy(&channel->lock);
        pthread_cond_destroy(&channel->changed);
        free(channel->queue);
        for (int end = 0; end < ENDS; end++) free(channel->place[end]);
    }
    free(channels->channel);
    free(channels);
}

/* Under the lock: both ends have come. */
static void hand_over(struct channel *channel, struct place *one, struct place *other) {
    float *block = *one->block;
    *one->block = *other->block;
    *other->block = block;
    one->pending = other->pending = false;
    one->when = other->when = one->when > other->when ? one->when : other->when;
    pthread_cond_broadcast(&channel->changed);
}

void channels_post(struct transport *transport, int stage, enum block_kind kind, int slot, float **block, double when) {
    int end;
    struct channel *channel = find(transport, stage, kind, &end);
    assert(channel && slot >= 0 && slot < channel->slots[end]);
    struct place *place = &channel->place[end][slot];
    pthread_mutex_lock(&channel->lock);
    assert(!place->pending);
    *place = (struct place){.block = block, .pending = true, .when = when};
    if (channel->waiting > 0 && channel->queued_end != end) {
        struct place *other = &channel->place[1 - end][channel->queue[channel->first]];
        channel->first = (channel->first + 1) % channel->capacity;
        channel->waiting--;
        hand_over(channel, place, other);
    } else {
        channel->queued_end = end;
        channel->queue[(channel->first + channel->waiting++) % channel->capacity] = slot;
    }
    pthread_mutex_unlock(&channel->lock);
}

bool channels_settled(struct transport *transport, int stage, enum block_kind kind, int slot) {
    int end;
    struct channel *channel = find(transport, stage, kind, &end);
    if (!channel) return true;
    pthread_mutex_lock(&channel->lock);
    bool settled = !channel->place[end][slot].pending;
    pthread_mutex_unlock(&channel->lock);
    return settled;
}

double channels_settled_at(struct transport *transport, int stage, enum block_kind kind, int slot) {
    int end;
    struct channel *channel = find(transport, stage, kind, &end);
    if (!channel) return 0;
    pthread_mutex_lock(&channel->lock);
    double time = channel->place[end][slot].when;
    pthread_mutex_unlock(&channel->lock);
    return time;
}

bool channels_wait(struct transport *transport, int stage, enum block_kind kind, int slot) {
    int end;
    struct channel *channel = find(transport, stage, kind, &end);
    if (!channel) return true;
    pthread_mutex_lock(&channel->lock);
    while (channel->place[end][slot].pending && !channel->stopped) pthread_cond_wait(&channel->changed, &channel->lock);
    bool settled = !channel->place[end][slot].pending;
    pthread_mutex_unlock(&channel->lock);
    return settled;
}

void channels_stop(struct transport *transport) {
    struct channels *channels = (struct channels *)transport;
    for (int i = 0; i < channels->count; i++) {
        pthread_mutex_lock(&channels->channel[i].lock);
        channels->channel[i].stopped = true;
        pthread_cond_broadcast(&channels->channel[i].changed);
        pthread_mutex_unlock(&channels->channel[i].lock);
    }
}
