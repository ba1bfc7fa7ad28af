/*
 * Blocks between processes: a post starts a message on its route, whose number is the message's tag, and each poll lets all
 * messages progress. The n-th block of one end is paired with the n-th of the other because messages of one route keep their
 * order. Contents are copied into the receiver's block. Between ranks that share memory there are no messages: there blocks are
 * exchanged (shared_peers.h).
 *
 * Where the cluster's description names a shared link, for example the one cable of a host, a worker sends one block at a time
 * over it, as in the simulator: the first arrives early and the second no later than if both had shared the cable. The
 * receivers first announce, by a short message, that they are ready. Otherwise a block that waits on the cable for its receiver
 * could hold back the very one that the receiver waits for.
 *
 * A route between two instances of one worker has both ends in this process and uses the channels.
 */
#include "comm/transports/between_processes.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/emulation.h"
#include "comm/transports/gradient_sum_ranks.h"
#include "comm/transports/shared_peers.h"
#include "comm/transports/within_process.h"
#include "program/routes.h"

/* A waiting rank sleeps between two polls for a twentieth of the time that it has waited so far: so a poll is late by little,
 * and ranks that wait long leave the cores to those that compute. */
#define LOOK_SHARE 0.05
#define LOOK_LEAST_S 2e-6
#define LOOK_MOST_S 5e-4
/* Between operators, messages are polled no more often than this. */
#define PROGRESS_S 2e-4

/* One slot of one kind of one instance of this process's worker; used by its thread only. */
struct pending {
    struct message *message;
    struct message *word; /* that the receiver is ready, on a shared link; NULL: on other links */
    size_t bytes;         /* of the block */
    char said;            /* the ready message's content; it is not used */
    bool travels;         /* it was last posted to another process */
    bool pending;         /* the post is not complete */
    bool incoming;        /* it is empty */
    bool changes;         /* exchanged with a shared-memory peer; else its message is in transfer, or waits for the link */
    bool waits;           /* for its turn */
    int route, peer;
    float **block;        /* its table entry */
    uint64_t number;      /* of the post on a peer's route */
    struct moment when;   /* when it was complete, or will be by the emulated link */
    char *staging;        /* staged copy of a device's block on the host; NULL: the block itself is sent */
    struct moment staged; /* outgoing: when the staged copy is done */
    bool fetched;         /* the staged copy is done, and its message was started or waits for the link */
    struct pending *next; /* of those that are pending */
};

struct ranks {
    struct transport transport;
    struct arena arena;          /* of the tables and of staged blocks */
    struct processes *processes; /* NULL: all instances are in this process */
    struct device *device;       /* of the worker here */
    struct transport *inside;    /* channels, for routes within this process */
    struct routes routes;
    int *instance_worker;
    int instance_count;
    struct pending *(*pending_posts)[BLOCK_PLACES]; /* by instance, kind and slot; NULL for instances in other processes */
    struct pending *pending, **pending_end;         /* all whose posts are not complete, by age */
    int messages;                                   /* of them that are messages */
    int *shared_link;                               /* per route: the first that shares its link; NO_ROUTE: it has its own */
    struct pending **sending;                       /* per route: what this process is sending over that link; NULL: nothing */
    struct shared_peers *peers;                     /* NULL: none */
    struct emulation *emulation;                    /* of the links that come here; NULL: none */
    struct rank_sums *sums;
    atomic_bool stopped;
    double progressed_at;
};

static struct pending *find(const struct transport *transport, int instance, enum block_kind kind, int slot) {
    const struct ranks *ranks = (const struct ranks *)transport;
    return ranks->processes && ranks->pending_posts[instance][kind] ? &ranks->pending_posts[instance][kind][slot] : NULL;
}

/* The places of one kind of an instance's blocks, which end with one without a message. */
static enum ps_status make_places(struct ranks *ranks, const struct transport_options *options, int instance,
                                  enum block_kind kind, struct ps_error *error) {
    const struct processes_class *processes = ranks->transport.class->processes;
    const int slots = stage_slots_of(&options->slots[instance], kind);
    const size_t bytes = (size_t)stage_block_bytes(&options->sizes[options->programs->instances[instance].stage], kind);
    struct pending *places = arena_take(&ranks->arena, (size_t)slots + 1, sizeof *places);
    ranks->pending_posts[instance][kind] = places;
    for (int slot = 0; slot < slots && places; slot++) {
        places[slot].bytes = bytes;
        TRY(processes->message_create(bytes, &places[slot].message, error));
        if (!device_in_host(options->device)) places[slot].staging = arena_take(&ranks->arena, bytes, 1);
        if (options->cluster) TRY(processes->message_create(1, &places[slot].word, error));
    }
    return PS_OK;
}

/* The first route that shares the link of `route`, with the same sender; whether others of them lead to another receiver. */
static int find_medium(const struct ranks *ranks, const struct ps_cluster *cluster, int route, bool *several) {
    const struct route *list = ranks->routes.list;
    const int *worker = ranks->instance_worker, from = worker[list[route].from], to = worker[list[route].to];
    int first = NO_ROUTE;
    *several = false;
    for (int other = 0; cluster && other < ranks->routes.count; other++) {
        int other_from = worker[list[other].from], other_to = worker[list[other].to];
        if (other_from != from || !cluster_share_link(cluster, from, to, other_from, other_to)) continue;
        if (first == NO_ROUTE) first = other;
        if (other_to != to) *several = true;
    }
    return first;
}

/* Which routes take turns: those that share a link with others of the same sender. Those to one receiver alone need none: its
 * messages keep their order, and a ready message would come late, behind the blocks that go the other way through the same
 * connection. But where a sender has several routes to that receiver (of a split stage), the words for which the other way
 * waits would come behind all of their blocks; with turns behind one. */
static void find_media(struct ranks *ranks, const struct ps_cluster *cluster) {
    const struct route *list = ranks->routes.list;
    const int *worker = ranks->instance_worker;
    for (int route = 0; route < ranks->routes.count; route++) {
        bool several, back_waits = false;
        int first = find_medium(ranks, cluster, route, &several), alike = 0;
        for (int other = 0; other < ranks->routes.count && !several; other++) {
            bool back;
            if (worker[list[other].from] == worker[list[route].from] && worker[list[other].to] == worker[list[route].to])
                alike++;
            if (worker[list[other].from] != worker[list[route].to] || worker[list[other].to] != worker[list[route].from])
                continue;
            find_medium(ranks, cluster, other, &back);
            back_waits = back_waits || back;
        }
        ranks->shared_link[route] = several || (alike > 1 && back_waits) ? first : NO_ROUTE;
    }
}

static enum ps_status make_roads(struct ranks *ranks, const struct transport_options *options, struct ps_error *error) {
    const struct instance *instances = options->programs->instances;
    struct arena *arena = &ranks->arena;
    TRY(routes_create(options->programs, &ranks->routes, error));
    const size_t routes = (size_t)ranks->routes.count, count = (size_t)ranks->instance_count;
    ranks->instance_worker = arena_take(arena, count, sizeof *ranks->instance_worker);
    ranks->pending_posts = arena_take(arena, count, sizeof *ranks->pending_posts);
    ranks->shared_link = arena_take(arena, routes, sizeof *ranks->shared_link);
    ranks->sending = arena_take(arena, routes, sizeof(*ranks->sending));
    TRY(arena_status(arena, "transport", error));
    for (int instance = 0; instance < ranks->instance_count; instance++)
        ranks->instance_worker[instance] = instances[instance].worker;
    find_media(ranks, options->cluster);
    for (int instance = 0; instance < ranks->instance_count; instance++)
        for (int kind = 0; kind < BLOCK_PLACES && instances[instance].worker == ranks->processes->rank; kind++)
            if (kind != BLOCK_WEIGHT_GRADIENTS &&
                (kind != BLOCK_WEIGHTS || programs_split(options->programs, instances[instance].stage)))
                TRY(make_places(ranks, options, instance, (enum block_kind)kind, error));
    TRY(arena_status(arena, "transport", error));
    if (ranks->transport.class->shares_memory) TRY(shared_peers_create(options, &ranks->routes, &ranks->peers, error));
    TRY(rank_sums_create(ranks->transport.class->processes, ranks->peers, options, &ranks->sums, error));
    if (!options->emulated) return PS_OK;
    return emulation_create(options->emulated, options->programs, &ranks->routes, options->sizes, &ranks->emulation, error);
}

enum ps_status between_processes_create(const struct transport_class *class, const struct transport_options *options,
                                        struct transport **out, struct ps_error *error) {
    struct ranks *ranks;
    TRY(memory_new(&ranks, 1, "transport", error));
    *ranks = (struct ranks){.transport.class = class, .instance_count = options->programs->instance_count};
    ranks->device = options->device;
    ranks->pending_end = &ranks->pending;
    if (options->processes && options->processes->count > 1) ranks->processes = options->processes;
    enum ps_status status = within_process_create(class, options, &ranks->inside, error);
    if (status == PS_OK && ranks->processes) status = make_roads(ranks, options, error);
    if (status != PS_OK) {
        between_processes_destroy(&ranks->transport);
        return status;
    }
    *out = &ranks->transport;
    return PS_OK;
}

void between_processes_destroy(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!ranks) return;
    within_process_destroy(ranks->inside);
    for (int instance = 0; ranks->pending_posts && instance < ranks->instance_count; instance++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) {
            const struct pending *places = ranks->pending_posts[instance][kind];
            for (const struct pending *place = places; place && place->message; place++) {
                transport->class->processes->message_destroy(place->message);
                transport->class->processes->message_destroy(place->word);
            }
        }
    arena_release(&ranks->arena);
    emulation_destroy(ranks->emulation);
    rank_sums_destroy(ranks->sums);
    shared_peers_destroy(ranks->peers);
    routes_free(&ranks->routes);
    free(ranks);
}

/* Has an older one of the same route not begun? It is sent first, whichever ready message or staged copy came first: the other
 * end receives them in order. */
static bool has_older(const struct ranks *ranks, const struct pending *pending) {
    for (const struct pending *older = ranks->pending; older != pending; older = older->next)
        if (older->route == pending->route && !older->changes && (older->waits || !older->fetched)) return true;
    return false;
}

/* The memory that a message is sent from or received into. */
static void *contents(const struct pending *pending) { return pending->staging ? pending->staging : (void *)*pending->block; }

/* Starts the next messages: on each shared link the oldest one whose receiver is ready. */
static void begin_next(struct ranks *ranks) {
    const struct processes_class *processes = ranks->transport.class->processes;
    for (struct pending *pending = ranks->pending; pending; pending = pending->next) {
        if (!pending->waits || ranks->sending[ranks->shared_link[pending->route]] || has_older(ranks, pending)) continue;
        if (!processes->message_done(pending->word)) continue;
        pending->waits = false;
        ranks->sending[ranks->shared_link[pending->route]] = pending;
        processes->message_start(pending->message, pending->peer, message_tag(TAG_BLOCK, pending->route), true,
                                 contents(pending), pending->bytes);
    }
}

/* Starts a post's message, or lets it wait for the link. A device's block must first have been copied to the host. */
static void start(struct ranks *ranks, struct pending *pending) {
    const struct processes_class *processes = ranks->transport.class->processes;
    bool turns = ranks->shared_link[pending->route] != NO_ROUTE;
    if (pending->fetched || !device_reached(&pending->staged)) return;
    if (!device_in_host(ranks->device) && has_older(ranks, pending)) return;
    pending->fetched = true;
    pending->waits = turns && !pending->incoming;
    if (!pending->waits)
        processes->message_start(pending->message, pending->peer, message_tag(TAG_BLOCK, pending->route), !pending->incoming,
                                 contents(pending), pending->bytes);
    if (turns)
        processes->message_start(pending->word, pending->peer, message_tag(TAG_READY, pending->route), pending->incoming,
                                 &pending->said, 1);
    if (pending->waits) begin_next(ranks);
}

void between_processes_post(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                            const struct moment *when) {
    struct ranks *ranks = (struct ranks *)transport;
    struct pending *pending = find(transport, instance, kind, slot);
    int peer = pending ? ranks->instance_worker[other] : 0;
    if (!pending || peer == ranks->processes->rank) {
        if (pending) pending->travels = false;
        within_process_post(ranks->inside, instance, kind, slot, other, block, when);
        return;
    }
    assert(!pending->pending);
    bool outgoing = false;
    int route = routes_between(&ranks->routes, instance, other, kind, &outgoing);
    assert(route != NO_ROUTE);
    *pending = (struct pending){.message = pending->message,
                                .word = pending->word,
                                .bytes = pending->bytes,
                                .staging = pending->staging,
                                .travels = true,
                                .pending = true,
                                .incoming = !outgoing,
                                .changes = shared_peers_on(ranks->peers, route),
                                .route = route,
                                .peer = peer,
                                .block = block};
    *ranks->pending_end = pending;
    ranks->pending_end = &pending->next;
    if (pending->changes) {
        pending->number = shared_peers_post(ranks->peers, route, *block, when->time);
        return;
    }
    if (pending->staging && outgoing) {
        device_copy(ranks->device, pending->staging, *block, pending->bytes);
        pending->staged = device_mark(ranks->device);
    }
    ranks->messages++;
    start(ranks, pending);
}

/* Is the post's message complete? */
static bool end_message(struct ranks *ranks, const struct pending *pending) {
    const struct processes_class *processes = ranks->transport.class->processes;
    int shared_link = ranks->shared_link[pending->route];
    if (!pending->fetched || pending->waits || !processes->message_done(pending->message)) return false;
    if (shared_link == NO_ROUTE) return true;
    if (!pending->incoming) ranks->sending[shared_link] = NULL;
    return processes->message_done(pending->word);
}

/* Is it complete? Then records when both ends had posted, or the message's end was seen. */
static bool end_post(struct ranks *ranks, struct pending *pending) {
    if (pending->changes) {
        if (!shared_peers_take(ranks->peers, pending->route, pending->number, pending->block, &pending->when.time))
            return false;
    } else {
        start(ranks, pending);
        if (!end_message(ranks, pending)) return false;
        if (pending->staging && pending->incoming)
            device_copy(ranks->device, *pending->block, pending->staging, pending->bytes);
        pending->when.time = clock_now();
        ranks->messages--;
    }
    if (pending->incoming) pending->when.time = emulation_carry(ranks->emulation, pending->route, pending->when.time);
    pending->pending = false;
    return true;
}

static void look(struct ranks *ranks) {
    struct pending **next = &ranks->pending;
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

void between_processes_reduce(struct transport *transport, int instance, const struct transport_share *share) {
    struct ranks *ranks = (struct ranks *)transport;
    if (ranks->processes)
        rank_sums_start(ranks->sums, instance, share);
    else
        within_process_reduce(ranks->inside, instance, share);
}

/* Is the last sum done? */
static bool sum_settled(struct ranks *ranks, int instance) {
    if (!rank_sums_settled(ranks->sums, instance)) look(ranks);
    return rank_sums_settled(ranks->sums, instance);
}

bool between_processes_settled(struct transport *transport, int instance, enum block_kind kind, int slot) {
    if (kind == BLOCK_WEIGHT_GRADIENTS && ((struct ranks *)transport)->processes)
        return sum_settled((struct ranks *)transport, instance);
    struct pending *pending = find(transport, instance, kind, slot);
    if (!pending || !pending->travels) return within_process_settled(((struct ranks *)transport)->inside, instance, kind, slot);
    if (pending->pending) look((struct ranks *)transport);
    return !pending->pending && (!((struct ranks *)transport)->emulation || pending->when.time <= clock_now());
}

struct moment between_processes_settled_at(struct transport *transport, int instance, enum block_kind kind, int slot) {
    const struct ranks *ranks = (const struct ranks *)transport;
    if (kind == BLOCK_WEIGHT_GRADIENTS && ranks->processes)
        return (struct moment){.time = rank_sums_settled_at(ranks->sums, instance)};
    const struct pending *pending = find(transport, instance, kind, slot);
    if (!pending || !pending->travels)
        return within_process_settled_at(((struct ranks *)transport)->inside, instance, kind, slot);
    return pending->when;
}

/* Before a poll that may be followed by a sleep. */
static void prepare_to_pause(struct ranks *ranks) {
    if (ranks->peers) shared_peers_forget(ranks->peers);
}

/* Sleeps in a wait that began at `since`. False: there is nothing to wait for any more. Shared-memory peers ring the bell;
 * messages and emulated links must be polled. */
static bool pause_before_look(struct ranks *ranks, double since) {
    if (atomic_load(&ranks->stopped)) return false;
    bool rung = ranks->messages == 0 && !ranks->emulation && rank_sums_idle(ranks->sums);
    double pause = fmin(fmax(LOOK_SHARE * (clock_now() - since), LOOK_LEAST_S), LOOK_MOST_S);
    if (ranks->peers)
        shared_peers_sleep(ranks->peers, rung ? INFINITY : pause);
    else
        clock_sleep(pause);
    return true;
}

/* Within a process only its one worker could settle the post that it waits for. */
bool between_processes_wait(struct transport *transport, int instance, enum block_kind kind, int slot) {
    struct ranks *ranks = (struct ranks *)transport;
    const struct pending *pending = find(transport, instance, kind, slot);
    bool sum = kind == BLOCK_WEIGHT_GRADIENTS && ranks->processes;
    if (!sum && (!pending || !pending->travels)) return within_process_wait(ranks->inside, instance, kind, slot);
    double since = clock_now();
    for (;;) {
        prepare_to_pause(ranks);
        if (between_processes_settled(transport, instance, kind, slot)) return true;
        if (!pause_before_look(ranks, since)) return false;
    }
}

/* Otherwise a block that the other end takes late would never be sent, since nothing here would poll any more. */
bool between_processes_drain(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    double since = clock_now();
    for (;;) {
        prepare_to_pause(ranks);
        look(ranks);
        if (!ranks->pending) return true;
        if (!pause_before_look(ranks, since)) return false;
    }
}

void between_processes_stop(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    atomic_store(&ranks->stopped, true);
    if (ranks->peers) shared_peers_wake(ranks->peers);
    within_process_stop(ranks->inside);
}

void between_processes_progress(struct transport *transport) {
    struct ranks *ranks = (struct ranks *)transport;
    if (!ranks->processes) return;
    double now = clock_now();
    if (now - ranks->progressed_at < PROGRESS_S) return;
    ranks->progressed_at = now;
    look(ranks);
}
