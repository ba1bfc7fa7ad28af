/* Exchanging the boards, and the lists on them; see shared_peers.h. */
#include "comm/transports/shared_peers.h"

#include <assert.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/shared_block.h"

/* Who would sleep without a limit wakes up once in so many seconds. */
#define SLEEP_MOST_S 1e6

/* A post: a block by the rank whose memory it lies in, and where there. */
struct entry {
    uint64_t rank, offset;
    double when;
};

/* What one end of a route has posted: a ring. Its owner writes, the other end reads. */
struct list {
    atomic_uint_fast64_t count; /* posts so far; entries before it are complete */
    struct entry entries[];
};

/* Lists follow, by route. */
struct mailbox {
    uint64_t key; /* as the rank has sent it, to check the process */
    sem_t doorbell;
};

/* A route to a shared-memory peer; used by the worker's thread only. */
struct lane {
    struct list *own, *other;
    sem_t *doorbell; /* the other end's */
    size_t capacity; /* of both lists: all that can be posted at once, of both ends */
    uint64_t posted;
};

/* What a rank sends to the others about its memory. */
struct offer {
    uint64_t key, mailbox_bytes, blocks_bytes;
    int32_t mailbox, blocks; /* files; -1: it has none */
    int32_t backed;
    int32_t unused;
};

struct member {
    struct memory_block mailbox, blocks; /* base NULL: not open */
};

struct shared_peers {
    struct arena arena;     /* of the tables */
    int rank, count;        /* of the run */
    struct member *members; /* by rank */
    struct shared_block mailbox;
    size_t *mailbox_bytes;       /* by rank */
    size_t *list_from, *list_to; /* by route: where it is on the board of the rank that it comes from, goes to */
    struct lane *lanes;          /* by route; own NULL: it goes elsewhere */
    size_t *descriptor_at;       /* by instance with replicas: where its record is on the board of its worker */
    int *instance_worker;
};

/* ------------------------------------------------------------------------ boards */

static int worker_of(const struct transport_options *options, int instance) {
    return options->programs->instances[instance].worker;
}

/* An entry may be read until its own end has taken the block; until then the other end posts no more than both have slots. */
static size_t capacity_of(const struct transport_options *options, const struct route *route) {
    int senders = stage_slots_of(&options->slots[route->from], traffic_table[route->traffic].sent);
    int receivers = stage_slots_of(&options->slots[route->to], traffic_table[route->traffic].received);
    return (size_t)(senders + receivers);
}

static size_t list_bytes(size_t capacity) { return memory_align(sizeof(struct list) + capacity * sizeof(struct entry)); }

/* Where each list is: all ranks find the same. */
static enum ps_status lay_out(struct shared_peers *peers, const struct transport_options *options, const struct routes *routes,
                              struct ps_error *error) {
    struct arena *arena = &peers->arena;
    const size_t route_count = (size_t)routes->count, ranks = (size_t)peers->count;
    const size_t instances = (size_t)options->programs->instance_count;
    peers->members = arena_take(arena, ranks, sizeof *peers->members);
    peers->mailbox_bytes = arena_take(arena, ranks, sizeof *peers->mailbox_bytes);
    peers->list_from = arena_take(arena, route_count, sizeof *peers->list_from);
    peers->list_to = arena_take(arena, route_count, sizeof *peers->list_to);
    peers->lanes = arena_take(arena, route_count, sizeof *peers->lanes);
    peers->descriptor_at = arena_take(arena, instances, sizeof *peers->descriptor_at);
    peers->instance_worker = arena_take(arena, instances, sizeof *peers->instance_worker);
    TRY(arena_status(arena, "a board", error));
    for (size_t rank = 0; rank < ranks; rank++) peers->mailbox_bytes[rank] = memory_align(sizeof(struct mailbox));
    for (int r = 0; r < routes->count; r++) {
        const struct route *route = &routes->list[r];
        int from = worker_of(options, route->from), to = worker_of(options, route->to);
        size_t bytes = list_bytes(capacity_of(options, route));
        peers->list_from[r] = peers->mailbox_bytes[from];
        peers->mailbox_bytes[from] += bytes;
        peers->list_to[r] = peers->mailbox_bytes[to];
        peers->mailbox_bytes[to] += bytes;
    }
    for (size_t instance = 0; instance < instances; instance++) {
        int worker = peers->instance_worker[instance] = worker_of(options, (int)instance);
        if (options->programs->instances[instance].replicas < 2) continue;
        peers->descriptor_at[instance] = peers->mailbox_bytes[worker];
        peers->mailbox_bytes[worker] += memory_align(sizeof(struct peer_descriptor));
    }
    return PS_OK;
}

/* Takes this rank's board. Without it, or without blocks to share, the offer says so. */
static struct offer make_offer(struct shared_peers *peers, const struct transport_options *options) {
    struct ps_error error = {0};
    const struct shared_block *blocks = options->shared;
    size_t bytes = peers->mailbox_bytes[peers->rank];
    struct offer offer = {.mailbox = -1, .blocks = -1};
    if (!blocks || getrandom(&offer.key, sizeof offer.key, 0) != sizeof offer.key) return offer;
    if (shared_block_take(&peers->mailbox, bytes, true, "a board", &error) != PS_OK) {
        log_warn("%s", error.message);
        return offer;
    }
    struct mailbox *mailbox = (struct mailbox *)peers->mailbox.memory.base;
    mailbox->key = offer.key;
    sem_init(&mailbox->doorbell, 1, 0);
    offer.mailbox_bytes = bytes;
    offer.mailbox = peers->mailbox.file;
    offer.blocks_bytes = blocks->memory.size;
    offer.blocks = blocks->file;
    offer.backed = options->shared_backed;
    return offer;
}

/* Does a block move directly from one of them to the other, or do they sum the gradients of one stage? */
static bool meet(const struct transport_options *options, const struct routes *routes, int rank, int other) {
    for (int r = 0; r < routes->count; r++) {
        int from = worker_of(options, routes->list[r].from), to = worker_of(options, routes->list[r].to);
        if ((from == rank && to == other) || (from == other && to == rank)) return true;
    }
    for (int stage = 0; stage < options->programs->stages; stage++) {
        int members = 0;
        for (int p = options->programs->first_instance[stage]; p < options->programs->first_instance[stage + 1]; p++)
            members += worker_of(options, p) == rank || worker_of(options, p) == other;
        if (members == 2 && programs_replicas(options->programs, stage) > 1) return true;
    }
    return false;
}

/* Blocks move on: a block received from one rank is passed to the next. So each rank opens the memory of all, and maps in
 * advance what it is certain to use. */
static enum ps_status open_member(struct shared_peers *peers, const struct transport_options *options,
                                  const struct routes *routes, int rank, const struct offer *offer, struct ps_error *error) {
    struct member *member = &peers->members[rank];
    int32_t process = options->processes->info[rank].process;
    if (rank == peers->rank) {
        member->mailbox = peers->mailbox.memory;
        member->blocks = options->shared->memory;
        return PS_OK;
    }
    bool mapped = offer->backed && meet(options, routes, peers->rank, rank);
    TRY(shared_block_open(process, offer->mailbox, (size_t)offer->mailbox_bytes, true, &member->mailbox, error));
    if (((const struct mailbox *)member->mailbox.base)->key != offer->key)
        return error_set(error, PS_FAILED, "process %d is another one here", (int)process);
    return shared_block_open(process, offer->blocks, (size_t)offer->blocks_bytes, mapped, &member->blocks, error);
}

/* Opens the boards and blocks of all ranks of this host. A rank without any has logged why. */
static bool open_members(struct shared_peers *peers, const struct transport_options *options, const struct routes *routes,
                         const struct offer *offers) {
    struct ps_error error = {0};
    if (offers[peers->rank].mailbox < 0) return false;
    for (int rank = 0; rank < peers->count; rank++) {
        if (!processes_share_memory(options->processes, peers->rank, rank)) continue;
        if (offers[rank].mailbox < 0) return false;
        if (open_member(peers, options, routes, rank, &offers[rank], &error) == PS_OK) continue;
        log_warn("blocks between the ranks of %s go by messages: the memory of rank %d cannot be shared: %s",
                 options->processes->info[rank].host, rank, error.message);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------- lanes */

static struct list *list_on(const struct shared_peers *peers, int rank, size_t at) {
    return (struct list *)(peers->members[rank].mailbox.base + at);
}

static void make_lanes(struct shared_peers *peers, const struct transport_options *options, const struct routes *routes) {
    for (int r = 0; r < routes->count; r++) {
        int from = worker_of(options, routes->list[r].from), to = worker_of(options, routes->list[r].to);
        if (from == to || (from != peers->rank && to != peers->rank)) continue;
        int other = from == peers->rank ? to : from;
        if (!peers->members[other].mailbox.base) continue;
        struct list *sender = list_on(peers, from, peers->list_from[r]);
        struct list *receiver = list_on(peers, to, peers->list_to[r]);
        peers->lanes[r] = (struct lane){.own = from == peers->rank ? sender : receiver,
                                        .other = from == peers->rank ? receiver : sender,
                                        .doorbell = &((struct mailbox *)peers->members[other].mailbox.base)->doorbell,
                                        .capacity = capacity_of(options, &routes->list[r])};
    }
}

/* Do all ranks of this host say yes? */
static bool all_agree(const struct transport_options *options, const int32_t *opened) {
    const struct processes *processes = options->processes;
    for (int rank = 0; rank < processes->count; rank++)
        if (processes_share_memory(processes, processes->rank, rank) && !opened[rank]) return false;
    return true;
}

/* All send what they offer, open what they can, and send the result. */
static enum ps_status join(struct shared_peers *peers, const struct transport_options *options, const struct routes *routes,
                           bool *joined, struct ps_error *error) {
    struct processes *processes = options->processes;
    struct arena arena = {0};
    struct offer *offers = arena_take(&arena, (size_t)processes->count, sizeof *offers);
    int32_t *opened = arena_take(&arena, (size_t)processes->count, sizeof *opened), own = 0;
    enum ps_status status = arena_check(&arena, "a board", error);
    struct offer offer = make_offer(peers, options);
    if (status == PS_OK) status = processes_all_gather(processes, &offer, sizeof offer, offers, error);
    if (status == PS_OK) {
        own = open_members(peers, options, routes, offers);
        status = processes_all_gather(processes, &own, sizeof own, opened, error);
    }
    *joined = status == PS_OK && all_agree(options, opened);
    arena_release(&arena);
    return status;
}

enum ps_status shared_peers_create(const struct transport_options *options, const struct routes *routes,
                                   struct shared_peers **out, struct ps_error *error) {
    struct processes *processes = options->processes;
    *out = NULL;
    bool any = false;
    for (int rank = 0; rank < processes->count; rank++) any = any || processes_has_shared_peers(processes, rank);
    if (!any) return PS_OK;
    struct shared_peers *peers;
    TRY(memory_new(&peers, 1, "a board", error));
    *peers = (struct shared_peers){.rank = processes->rank, .count = processes->count};
    bool joined = false;
    enum ps_status status = lay_out(peers, options, routes, error);
    if (status == PS_OK) status = join(peers, options, routes, &joined, error);
    shared_block_close(&peers->mailbox);
    if (!joined) {
        shared_peers_destroy(peers);
        return status;
    }
    make_lanes(peers, options, routes);
    if (processes->info[processes->rank].host_leader == processes->rank)
        log_info("the ranks of %s share memory: blocks change places between them", processes->info[processes->rank].host);
    *out = peers;
    return PS_OK;
}

void shared_peers_destroy(struct shared_peers *peers) {
    if (!peers) return;
    for (int rank = 0; peers->members && rank < peers->count; rank++) {
        if (rank == peers->rank) continue;
        memory_block_release(&peers->members[rank].mailbox);
        memory_block_release(&peers->members[rank].blocks);
    }
    shared_block_release(&peers->mailbox);
    arena_release(&peers->arena);
    free(peers);
}

/* ------------------------------------------------------------------------- blocks */

bool shared_peers_on(const struct shared_peers *peers, int route) { return peers && peers->lanes[route].own; }

static bool lies_in(const struct memory_block *blocks, const char *address) {
    return blocks->base && address >= blocks->base && address < blocks->base + blocks->size;
}

/* A block's name for all ranks: it lies in the memory of one of them. */
static struct entry entry_of(const struct shared_peers *peers, const float *block, double when) {
    const char *address = (const char *)block;
    int rank = 0;
    while (rank < peers->count && !lies_in(&peers->members[rank].blocks, address)) rank++;
    assert(rank < peers->count);
    return (struct entry){(uint64_t)rank, (uint64_t)(address - peers->members[rank].blocks.base), when};
}

uint64_t shared_peers_post(struct shared_peers *peers, int route, const float *block, double when) {
    struct lane *lane = &peers->lanes[route];
    lane->own->entries[lane->posted % lane->capacity] = entry_of(peers, block, when);
    atomic_store_explicit(&lane->own->count, lane->posted + 1, memory_order_release);
    sem_post(lane->doorbell);
    return lane->posted++;
}

bool shared_peers_take(struct shared_peers *peers, int route, uint64_t number, float **block, double *when) {
    const struct lane *lane = &peers->lanes[route];
    if (atomic_load_explicit(&lane->other->count, memory_order_acquire) <= number) return false;
    const struct entry *other = &lane->other->entries[number % lane->capacity];
    *block = (float *)(peers->members[other->rank].blocks.base + other->offset);
    *when = fmax(other->when, lane->own->entries[number % lane->capacity].when);
    return true;
}

/* -------------------------------------------------------------------------- notes */

struct peer_descriptor *shared_peers_note(const struct shared_peers *peers, int instance) {
    if (!peers || peers->descriptor_at[instance] == 0) return NULL;
    char *mailbox = peers->members[peers->instance_worker[instance]].mailbox.base;
    return mailbox ? (struct peer_descriptor *)(mailbox + peers->descriptor_at[instance]) : NULL;
}

uint64_t shared_peers_offset(const struct shared_peers *peers, const float *block) { return entry_of(peers, block, 0).offset; }

float *shared_peers_block(const struct shared_peers *peers, int instance, uint64_t offset) {
    return (float *)(peers->members[peers->instance_worker[instance]].blocks.base + offset);
}

void shared_peers_ring(const struct shared_peers *peers, int instance) {
    sem_post(&((struct mailbox *)peers->members[peers->instance_worker[instance]].mailbox.base)->doorbell);
}

/* --------------------------------------------------------------------------- bell */

static sem_t *own_doorbell(struct shared_peers *peers) { return &((struct mailbox *)peers->mailbox.memory.base)->doorbell; }

void shared_peers_forget(struct shared_peers *peers) {
    while (sem_trywait(own_doorbell(peers)) == 0) {
    }
}

void shared_peers_sleep(struct shared_peers *peers, double seconds) {
    double until = clock_now() + fmin(seconds, SLEEP_MOST_S);
    struct timespec time = {.tv_sec = (time_t)until};
    time.tv_nsec = (long)((until - (double)time.tv_sec) * 1e9);
    sem_clockwait(own_doorbell(peers), CLOCK_MONOTONIC, &time);
}

void shared_peers_wake(struct shared_peers *peers) { sem_post(own_doorbell(peers)); }
