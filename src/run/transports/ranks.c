/*
 * Blocks between processes: a post starts a message on its route, whose number is the message's tag, and whoever asks whether
 * it is over moves all messages along. The n-th block of one end meets the n-th of the other because messages of one route keep
 * their order. Nothing changes places: contents are copied into the receiver's block. Between ranks that share memory there are
 * no messages: there blocks change places (neighbours.h).
 *
 * Where the cluster's description names a medium that several links share, say the one cable of a host, a worker sends over it
 * one block at a time, as the simulator has it: the first arrives early and the second no later than if both had shared the
 * cable. Their receivers first say, by a word, that they are ready. A block that waited on the cable for its receiver could
 * keep back the very one that the receiver waits for.
 *
 * A route between two parts of one worker has both ends here and is the channels' matter.
 */
#include "run/transports/ranks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "program/routes.h"
#include "run/emulation.h"
#include "run/transports/channels.h"
#include "run/transports/neighbours.h"
#include "run/transports/rank_sums.h"
#include "run/worker.h"

/* Who waits sleeps between two looks, for a twentieth of the time that it has waited so far: so a look comes little later than
 * it could have, and ranks that wait long leave the cores to those that compute. */
#define LOOK_SHARE 0.05
#define LOOK_LEAST_S 2e-6
#define LOOK_MOST_S 5e-4
/* Between operators, messages are moved along no more often than this. */
#define PROGRESS_S 2e-4
/* The words' tags: a route's number behind this. */
enum { WORD_TAG = 10000 };

/* One slot of one kind of one part of this process's worker; used by its thread alone. */
struct place {
    struct message *message;
    struct message *word; /* that the receiver is ready, where turns are taken; NULL: they never are */
    char said;            /* by the word; it does not matter */
    bool travels;         /* it was last posted to another process */
    bool pending;         /* the post is not over */
    bool incoming;        /* it is empty */
    bool changes;         /* places with a neighbour's; else its message is under way, or waits for its turn */
    bool waits;           /* for its turn */
    int route, peer;
    float **block;      /* its table entry */
    uint64_t number;    /* of the post on a neighbour's route */
    double when;        /* it was over, or would be by the emulated link */
    struct place *next; /* of those that are pending */
};

struct ranks {
    struct transport transport;
    struct processes *processes; /* NULL: all parts are here */
    struct transport *inside;    /* channels, for routes within this process */
    struct routes routes;
    int *part_worker;
    int part_count;
    struct place *(*places)[BLOCK_PLACES]; /* by part, kind and slot; NULL of parts that are elsewhere */
    struct place *pending, **pending_end;  /* all whose posts are not over, by age */
    int messages;                          /* of them that are messages */
    int *medium;                           /* per route: the first that shares its medium; NO_ROUTE: it has its own */
    struct place **sending;                /* per route: what is on that medium from here; NULL: nothing */
    struct neighbours *neighbours;         /* NULL: none */
    struct emulation *emulation;           /* of the links that come here; NULL: none */
    struct rank_sums *sums;
    atomic_bool stopped;
    double progressed_at;
};

static struct place *find(const struct transport *transport, int part, enum block_kind kind, int slot) {
    const struct ranks *ranks = (const struct ranks *)transport;
    return ranks->processes && ranks->places[part][kind] ? &ranks->places[part][kind][slot] : NULL;
}

static enum ps_status make_places(struct ranks *ranks, const struct transport_options *options, int part, enum block_kind kind,
                                  struct ps_error *error) {
    int slots = stage_slots_of(&options->slots[part], kind);
    int64_t bytes = worker_block_bytes(&options->sizes[options->programs->parts[part].stage], kind);
    struct place *places = calloc((size_t)slots + 1, sizeof *places);
    if (!places) return error_memory(error, "transport", (size_t)slots * sizeof *places);
    ranks->places[part][kind] = places;
    for (int slot = 0; slot < slots; slot++) {
        TRY(ranks->transport.class->processes->message_create((size_t)bytes, &places[slot].message, error));
        if (options->cluster) TRY(ranks->transport.class->processes->message_create(1, &places[slot].word, error));
    }
    return PS_OK;
}

/* Which routes share a medium with others of the same sender. */
static enum ps_status find_media(struct ranks *ranks, const struct ps_cluster *cluster, struct ps_error *error) {
    const struct routes *routes = &ranks->routes;
    size_t count = (size_t)routes->count + 1;
    ranks->medium = malloc(count * sizeof *ranks->medium);
    ranks->sending = calloc(count, sizeof(*ranks->sending));
    if (!ranks->medium || !ranks->sending) return error_memory(error, "transport", count * sizeof(*ranks->sending));
    for (int route = 0; route < routes->count; route++) {
        int from = ranks->part_worker[routes->list[route].from], to = ranks->part_worker[routes->list[route].to];
        const struct cluster_link *link = cluster ? cluster_link_between(cluster, from, to) : NULL;
        int *medium = &ranks->medium[route];
        *medium = link && link->medium[0] ? route : NO_ROUTE;
        for (int other = 0; *medium == route && other < route; other++) {
            int other_from = ranks->part_worker[routes->list[other].from],
                other_to = ranks->part_worker[routes->list[other].to];
            if (other_from == from && cluster_share_link(cluster, from, to, other_from, other_to))
                *medium = ranks->medium[other];
        }
    }
    return PS_OK;
}

static enum ps_status make_roads(struct ranks *ranks, const struct transport_options *options, struct ps_error *error) {
    size_t parts = (size_t)ranks->part_count;
    TRY(routes_create(options->programs, &ranks->routes, error));
    ranks->part_worker = calloc(parts + 1, sizeof *ranks->part_worker);
    ranks->places = calloc(parts + 1, sizeof *ranks->places);
    if (!ranks->part_worker || !ranks->places) return error_memory(error, "transport", parts * sizeof *ranks->places);
    for (int part = 0; part < ranks->part_count; part++) ranks->part_worker[part] = options->programs->parts[part].worker;
    TRY(find_media(ranks, options->cluster, error));
    for (int part = 0; part < ranks->part_count; part++)
        for (int kind = 0; kind < BLOCK_PLACES && ranks->part_worker[part] == ranks->processes->rank; kind++)
            if (kind != BLOCK_WEIGHT_GRADIENTS &&
                (kind != BLOCK_WEIGHTS || programs_split(options->programs, options->programs->parts[part].stage)))
                TRY(make_places(ranks, options, part, (enum block_kind)kind, error));
    if (ranks->transport.class->shares_memory) TRY(neighbours_create(options, &ranks->routes, &ranks->neighbours, error));
    TRY(rank_sums_create(ranks->transport.class->processes, ranks->neighbours, options, &ranks->sums, error));
    if (!options->emulated) return PS_OK;
    return emulation_create(options->emulated, options->programs, &ranks->routes, options->sizes, &ranks->emulation, error);
}

enum ps_status ranks_create(const struct transport_class *class, const struct transport_options *options,
                            struct transport **out, struct ps_error *error) {
    struct ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks) return error_memory(error, "transport", sizeof *ranks);
    *ranks = (struct ranks){.transport.class = class, .part_count = options->programs->part_count};
    ranks->pending_end = &ranks->pending;
    if (options->processes && options->processes->count > 1) ranks->processes = options->processes;
    enum ps_status status = channels_create(class, options, &ranks->inside, error);
    if (status == PS_OK && ranks->processes) status = make_roads(ranks, options, error);
    if (status != PS_OK) {
        ranks_destroy(&ranks->transport);
        return status;
    }
    *out = &ranks->transport;
    return PS_OK;
}

static void free_places(const struct transport_class *class, struct place *places) {
    for (struct place *place = places; places && place->message; place++) {
        class->processes->message_destroy(place->message);
        class->processes->message_destroy(place->word);
    }
    free(places);
}

void ranks_destroy(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!ranks) return;
    channels_destroy(ranks->inside);
    for (int part = 0; ranks->places && part < ranks->part_count; part++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) free_places(transport->class, ranks->places[part][kind]);
    free(ranks->places);
    free(ranks->part_worker);
    free(ranks->medium);
    free(ranks->sending);
    emulation_destroy(ranks->emulation);
    rank_sums_destroy(ranks->sums);
    neighbours_destroy(ranks->neighbours);
    routes_free(&ranks->routes);
    free(ranks);
}

/* Is an older one of the same route still to begin? It goes first, whichever of their words was seen first: the other end takes
 * them in their order. */
static bool has_older(const struct ranks *ranks, const struct place *place) {
    for (const struct place *older = ranks->pending; older != place; older = older->next)
        if (older->waits && older->route == place->route) return true;
    return false;
}

/* Starts those whose turn it is: on each medium the first posted of those whose receivers are ready. */
static void begin_next(struct ranks *ranks) {
    const struct processes_class *processes = ranks->transport.class->processes;
    for (struct place *place = ranks->pending; place; place = place->next) {
        if (!place->waits || ranks->sending[ranks->medium[place->route]] || has_older(ranks, place)) continue;
        if (!processes->message_done(place->word)) continue;
        place->waits = false;
        ranks->sending[ranks->medium[place->route]] = place;
        processes->message_start(place->message, place->peer, place->route, true, *place->block);
    }
}

/* Starts a post's message, or has it wait for its turn. */
static void start(struct ranks *ranks, struct place *place) {
    const struct processes_class *processes = ranks->transport.class->processes;
    bool turns = ranks->medium[place->route] != NO_ROUTE;
    place->waits = turns && !place->incoming;
    if (!place->waits) processes->message_start(place->message, place->peer, place->route, !place->incoming, *place->block);
    if (turns) processes->message_start(place->word, place->peer, WORD_TAG + place->route, place->incoming, &place->said);
    if (place->waits) begin_next(ranks);
}

void ranks_post(struct transport *transport, int part, enum block_kind kind, int slot, int other, float **block, double when) {
    struct ranks *ranks = (struct ranks *)transport;
    struct place *place = find(transport, part, kind, slot);
    int peer = place ? ranks->part_worker[other] : 0;
    if (!place || peer == ranks->processes->rank) {
        if (place) place->travels = false;
        channels_post(ranks->inside, part, kind, slot, other, block, when);
        return;
    }
    assert(!place->pending);
    bool outgoing = false;
    int route = routes_between(&ranks->routes, part, other, kind, &outgoing);
    assert(route != NO_ROUTE);
    *place = (struct place){.message = place->message,
                            .word = place->word,
                            .travels = true,
                            .pending = true,
                            .incoming = !outgoing,
                            .changes = neighbours_on(ranks->neighbours, route),
                            .route = route,
                            .peer = peer,
                            .block = block};
    *ranks->pending_end = place;
    ranks->pending_end = &place->next;
    if (place->changes) {
        place->number = neighbours_post(ranks->neighbours, route, *block, when);
    } else {
        ranks->messages++;
        start(ranks, place);
    }
}

/* Is the post's message over? */
static bool end_message(struct ranks *ranks, const struct place *place) {
    const struct processes_class *processes = ranks->transport.class->processes;
    int medium = ranks->medium[place->route];
    if (place->waits || !processes->message_done(place->message)) return false;
    if (medium == NO_ROUTE) return true;
    if (!place->incoming) ranks->sending[medium] = NULL;
    return processes->message_done(place->word);
}

/* Is it over? Then notes when both ends had come, or a message's end was seen. */
static bool end_post(struct ranks *ranks, struct place *place) {
    if (place->changes) {
        if (!neighbours_take(ranks->neighbours, place->route, place->number, place->block, &place->when)) return false;
    } else {
        if (!end_message(ranks, place)) return false;
        place->when = clock_now();
        ranks->messages--;
    }
    if (place->incoming) place->when = emulation_carry(ranks->emulation, place->route, place->when);
    place->pending = false;
    return true;
}

static void look(struct ranks *ranks) {
    struct place **next = &ranks->pending;
    if (ranks->sums) rank_sums_look(ranks->sums);
    while (*next) {
        if (end_post(ranks, *next))
            *next = (*next)->next;
        else
            next = &(*next)->next;
    }
    ranks->pending_end = next;
    begin_next(ranks);
}

void ranks_reduce(struct transport *transport, int part, const struct transport_share *share, double when) {
    struct ranks *ranks = (struct ranks *)transport;
    if (ranks->processes)
        rank_sums_start(ranks->sums, part, share);
    else
        channels_reduce(ranks->inside, part, share, when);
}

/* Has the sum been made that was started last? */
static bool sum_settled(struct ranks *ranks, int part) {
    if (!rank_sums_settled(ranks->sums, part)) look(ranks);
    return rank_sums_settled(ranks->sums, part);
}

bool ranks_settled(struct transport *transport, int part, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS && ((struct ranks *)transport)->processes)
        return sum_settled((struct ranks *)transport, part);
    struct place *place = find(transport, part, kind, slot);
    if (!place || !place->travels) return channels_settled(((struct ranks *)transport)->inside, part, kind, slot);
    if (place->pending) look((struct ranks *)transport);
    return !place->pending && (!((struct ranks *)transport)->emulation || place->when <= clock_now());
}

double ranks_settled_at(struct transport *transport, int part, enum block_kind kind, int slot) {
    const struct ranks *ranks = (const struct ranks *)transport;
    if (kind == BLOCK_WEIGHT_GRADIENTS && ranks->processes) return rank_sums_settled_at(ranks->sums, part);
    const struct place *place = find(transport, part, kind, slot);
    if (!place || !place->travels) return channels_settled_at(((struct ranks *)transport)->inside, part, kind, slot);
    return place->when;
}

/* Before a look after which one may pause. */
static void prepare_to_pause(struct ranks *ranks) {
    if (ranks->neighbours) neighbours_forget(ranks->neighbours);
}

/* Of somebody who waits since then. False: there is nothing to wait for any more. Neighbours ring; messages and emulated links
 * do not. */
static bool pause_before_look(struct ranks *ranks, double since) {
    if (atomic_load(&ranks->stopped)) return false;
    bool rung = ranks->messages == 0 && !ranks->emulation && rank_sums_idle(ranks->sums);
    double pause = fmin(fmax(LOOK_SHARE * (clock_now() - since), LOOK_LEAST_S), LOOK_MOST_S);
    if (ranks->neighbours)
        neighbours_sleep(ranks->neighbours, rung ? INFINITY : pause);
    else
        clock_sleep(pause);
    return true;
}

/* Within a process only its one worker could settle what it waits for. */
bool ranks_wait(struct transport *transport, int part, enum block_kind kind, int slot) {
    struct ranks *ranks = (struct ranks *)transport;
    const struct place *place = find(transport, part, kind, slot);
    bool sum = kind == BLOCK_WEIGHT_GRADIENTS && ranks->processes;
    if (!sum && (!place || !place->travels)) return channels_wait(ranks->inside, part, kind, slot);
    double since = clock_now();
    for (;;) {
        prepare_to_pause(ranks);
        if (ranks_settled(transport, part, kind, slot)) return true;
        if (!pause_before_look(ranks, since)) return false;
    }
}

/* Without it a block that the other end takes late would never leave: nobody here would call any more. */
bool ranks_drain(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    double since = clock_now();
    for (;;) {
        prepare_to_pause(ranks);
        look(ranks);
        if (!ranks->pending) return true;
        if (!pause_before_look(ranks, since)) return false;
    }
}

void ranks_stop(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    atomic_store(&ranks->stopped, true);
    if (ranks->neighbours) neighbours_wake(ranks->neighbours);
    channels_stop(ranks->inside);
}

void ranks_progress(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!ranks->processes) return;
    double now = clock_now();
    if (now - ranks->progressed_at < PROGRESS_S) return;
    ranks->progressed_at = now;
    look(ranks);
}
