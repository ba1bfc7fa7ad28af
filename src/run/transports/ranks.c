/*
 * Blocks between processes: a post starts a message of the road that its cut and direction make, and whoever asks whether it is
 * over moves all messages along. The n-th block of one end meets the n-th of the other because messages of one road keep their
 * order. Nothing changes places: contents are copied into the receiver's block.
 *
 * A cut between two stages of one worker has both ends here and is the channels' matter.
 */
#include "run/transports/ranks.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "run/transports/channels.h"

/* Who waits sleeps between two looks; longer and longer, since what does not come soon may come late. */
#define LOOK_FIRST_S 2e-6
#define LOOK_MOST_S 1e-4
/* Between operators, messages are moved along no more often than this. */
#define PROGRESS_S 2e-4

/* One slot of one end. */
struct place {
    struct message *message; /* NULL: the other end is here, too */
    bool pending;            /* used by the worker's thread alone */
    double when;
};

struct ranks {
    struct transport transport;
    struct processes *processes;
    struct transport *inside; /* channels, for cuts within this process */
    int stages;
    struct place **places[BLOCK_KINDS]; /* by stage: its slots; NULL where the block does not travel from here */
    atomic_bool stopped;
    double progressed_at;
};

static bool leaves(enum block_kind kind) { return kind == BLOCK_OUTPUT || kind == BLOCK_INPUT_GRADIENT; }

/* The stage at the other end; -1: the block never travels. */
static int other_stage(const struct transport_options *options, int stage, enum block_kind kind) {
    if (kind == BLOCK_STASH) return -1;
    int other = kind == BLOCK_OUTPUT || kind == BLOCK_OUTPUT_GRADIENT ? stage + 1 : stage - 1;
    return other < options->stages ? other : -1;
}

static struct place *find(struct transport *transport, int stage, enum block_kind kind, int slot) {
    const struct ranks *ranks = (struct ranks *)transport;
    struct place *slots = ranks->places[kind] ? ranks->places[kind][stage] : NULL;
    return slots ? &slots[slot] : NULL;
}

static enum ps_status open_road(struct ranks *ranks, const struct transport_options *options, int stage, enum block_kind kind,
                                struct ps_error *error) {
    int other = other_stage(options, stage, kind), slots = stage_slots_of(&options->slots[stage], kind);
    if (other < 0 || options->stage_worker[stage] != ranks->processes->rank) return PS_OK;
    int peer = options->stage_worker[other];
    if (peer == ranks->processes->rank) return PS_OK;
    bool before = other < stage, gradient = kind == BLOCK_INPUT_GRADIENT || kind == BLOCK_OUTPUT_GRADIENT;
    int64_t bytes = before ? options->sizes[stage].input_bytes : options->sizes[stage].output_bytes;
    int tag = 2 * (before ? other : stage) + gradient;
    struct place *places = calloc((size_t)slots + 1, sizeof *places);
    if (!places) return error_memory(error, "transport", (size_t)slots * sizeof *places);
    ranks->places[kind][stage] = places;
    for (int slot = 0; slot < slots; slot++)
        TRY(ranks->transport.class->processes->message_create(peer, tag, leaves(kind), (size_t)bytes, &places[slot].message,
                                                              error));
    return PS_OK;
}

static enum ps_status open_roads(struct ranks *ranks, const struct transport_options *options, struct ps_error *error) {
    for (int kind = 0; kind < BLOCK_KINDS && ranks->processes; kind++) {
        ranks->places[kind] = calloc((size_t)ranks->stages, sizeof *ranks->places[kind]);
        if (!ranks->places[kind]) return error_memory(error, "transport", (size_t)ranks->stages * sizeof *ranks->places[kind]);
        for (int stage = 0; stage < ranks->stages; stage++) TRY(open_road(ranks, options, stage, (enum block_kind)kind, error));
    }
    return PS_OK;
}

enum ps_status ranks_create(const struct transport_class *class, const struct transport_options *options,
                            struct transport **out, struct ps_error *error) {
    struct ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks) return error_memory(error, "transport", sizeof *ranks);
    *ranks = (struct ranks){.transport.class = class, .stages = options->stages};
    if (options->processes && options->processes->count > 1) ranks->processes = options->processes;
    enum ps_status status = channels_create(class, options, &ranks->inside, error);
    if (status == PS_OK) status = open_roads(ranks, options, error);
    if (status != PS_OK) {
        ranks_destroy(&ranks->transport);
        return status;
    }
    *out = &ranks->transport;
    return PS_OK;
}

static void close_road(const struct transport_class *class, struct place *places) {
    for (struct place *place = places; places && place->message; place++) class->processes->message_destroy(place->message);
    free(places);
}

void ranks_destroy(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!ranks) return;
    channels_destroy(ranks->inside);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        for (int stage = 0; ranks->places[kind] && stage < ranks->stages; stage++)
            close_road(transport->class, ranks->places[kind][stage]);
        free(ranks->places[kind]);
    }
    free(ranks);
}

void ranks_post(struct transport *transport, int stage, enum block_kind kind, int slot, float **block, double when) {
    struct place *place = find(transport, stage, kind, slot);
    if (!place) {
        channels_post(((struct ranks *)transport)->inside, stage, kind, slot, block, when);
        return;
    }
    assert(!place->pending && place->message);
    place->pending = true;
    transport->class->processes->message_start(place->message, *block);
}

bool ranks_settled(struct transport *transport, int stage, enum block_kind kind, int slot) {
    struct place *place = find(transport, stage, kind, slot);
    if (!place) return channels_settled(((struct ranks *)transport)->inside, stage, kind, slot);
    if (!place->pending) return true;
    if (!transport->class->processes->message_done(place->message)) return false;
    place->pending = false;
    place->when = clock_now();
    return true;
}

double ranks_settled_at(struct transport *transport, int stage, enum block_kind kind, int slot) {
    const struct place *place = find(transport, stage, kind, slot);
    return place ? place->when : channels_settled_at(((struct ranks *)transport)->inside, stage, kind, slot);
}

/* Within a process only its one worker could settle what it waits for. */
bool ranks_wait(struct transport *transport, int stage, enum block_kind kind, int slot) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!find(transport, stage, kind, slot)) return channels_wait(ranks->inside, stage, kind, slot);
    double sleep_s = LOOK_FIRST_S;
    while (!ranks_settled(transport, stage, kind, slot)) {
        if (atomic_load_explicit(&ranks->stopped, memory_order_relaxed)) return false;
        clock_sleep(sleep_s);
        if (sleep_s < LOOK_MOST_S) sleep_s *= 1.5;
    }
    return true;
}

void ranks_stop(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    atomic_store(&ranks->stopped, true);
    channels_stop(ranks->inside);
}

void ranks_progress(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!ranks->processes) return;
    double now = clock_now();
    if (now - ranks->progressed_at < PROGRESS_S) return;
    ranks->progressed_at = now;
    transport->class->processes->progress();
}
