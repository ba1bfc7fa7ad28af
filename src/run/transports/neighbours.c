/* Making the boards known to each other, and the lists on them; see neighbours.h. */
#include "run/transports/neighbours.h"

#include <assert.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_block.h"

/* A post: a block by the rank whose memory it lies in, and where there. */
struct entry {
    uint64_t rank, offset;
    double when;
};

/* What one end of a route has posted: a ring. Its owner writes, the other end reads. */
struct list {
    atomic_uint_fast64_t count; /* posts so far; those before are whole */
    struct entry entries[];
};

/* Lists follow, by route. */
struct board {
    uint64_t key; /* that the rank has told: the right process's */
    sem_t bell;
};

/* A route that goes to a neighbour; used by the worker's thread alone. */
struct lane {
    struct list *own, *other;
    sem_t *bell;     /* the other end's */
    size_t capacity; /* of both lists: all that can be posted at once, of both ends */
    uint64_t posted;
};

/* What a rank tells the others of itself. */
struct offer {
    uint64_t key, board_bytes, blocks_bytes;
    int32_t board, blocks; /* files; -1: it has none */
    int32_t backed;
    int32_t unused;
};

struct member {
    struct memory_block board, blocks; /* base NULL: not open */
};

struct neighbours {
    int rank, count;        /* of the run */
    struct member *members; /* by rank */
    struct shared_block board;
    size_t *board_bytes;         /* by rank */
    size_t *list_from, *list_to; /* by route: where it is on the board of the rank that it comes from, goes to */
    struct lane *lanes;          /* by route; own NULL: it goes elsewhere */
    size_t *note_at;             /* by part with replicas: where its note is on the board of its worker */
    int *part_worker;
};

/* ------------------------------------------------------------------------ boards */

static int worker_of(const struct transport_options *options, int part) { return options->programs->parts[part].worker; }

/* An entry is read until its own end is taken; so long the other end posts no more than both have slots. */
static size_t capacity_of(const struct transport_options *options, const struct route *route) {
    int senders = stage_slots_of(&options->slots[route->from], traffic_table[route->traffic].sent);
    int receivers = stage_slots_of(&options->slots[route->to], traffic_table[route->traffic].received);
    return (size_t)(senders + receivers) + 1;
}

static size_t list_bytes(size_t capacity) { return memory_align(sizeof(struct list) + capacity * sizeof(struct entry)); }

/* Where each list is: all ranks find the same. */
static enum ps_status lay_out(struct neighbours *neighbours, const struct transport_options *options,
                              const struct routes *routes, struct ps_error *error) {
    size_t routes_and_one = (size_t)routes->count + 1, ranks = (size_t)neighbours->count;
    neighbours->members = calloc(ranks, sizeof *neighbours->members);
    neighbours->board_bytes = calloc(ranks, sizeof *neighbours->board_bytes);
    neighbours->list_from = calloc(routes_and_one, sizeof *neighbours->list_from);
    neighbours->list_to = calloc(routes_and_one, sizeof *neighbours->list_to);
    neighbours->lanes = calloc(routes_and_one, sizeof *neighbours->lanes);
    size_t parts = (size_t)options->programs->part_count;
    neighbours->note_at = calloc(parts + 1, sizeof *neighbours->note_at);
    neighbours->part_worker = calloc(parts + 1, sizeof *neighbours->part_worker);
    if (!neighbours->members || !neighbours->board_bytes || !neighbours->list_from || !neighbours->list_to ||
        !neighbours->lanes || !neighbours->note_at || !neighbours->part_worker)
        return error_memory(error, "a board", (ranks + routes_and_one) * sizeof *neighbours->lanes);
    for (size_t rank = 0; rank < ranks; rank++) neighbours->board_bytes[rank] = memory_align(sizeof(struct board));
    for (int r = 0; r < routes->count; r++) {
        const struct route *route = &routes->list[r];
        int from = worker_of(options, route->from), to = worker_of(options, route->to);
        size_t bytes = list_bytes(capacity_of(options, route));
        neighbours->list_from[r] = neighbours->board_bytes[from];
        neighbours->board_bytes[from] += bytes;
        neighbours->list_to[r] = neighbours->board_bytes[to];
        neighbours->board_bytes[to] += bytes;
    }
    for (size_t part = 0; part < parts; part++) {
        int worker = neighbours->part_worker[part] = worker_of(options, (int)part);
        if (options->programs->parts[part].replicas < 2) continue;
        neighbours->note_at[part] = neighbours->board_bytes[worker];
        neighbours->board_bytes[worker] += memory_align(sizeof(struct neighbour_note));
    }
    return PS_OK;
}

/* Takes the own board. Without it, or without blocks to share, the offer says so. */
static struct offer make_offer(struct neighbours *neighbours, const struct transport_options *options) {
    struct ps_error error = {0};
    const struct shared_block *blocks = options->shared;
    size_t bytes = neighbours->board_bytes[neighbours->rank];
    struct offer offer = {.board = -1, .blocks = -1};
    if (!blocks || getrandom(&offer.key, sizeof offer.key, 0) != sizeof offer.key) return offer;
    if (shared_block_take(&neighbours->board, bytes, true, "a board", &error) != PS_OK) {
        log_warn("%s", error.message);
        return offer;
    }
    struct board *board = (struct board *)neighbours->board.memory.base;
    board->key = offer.key;
    sem_init(&board->bell, 1, 0);
    offer.board_bytes = bytes;
    offer.board = neighbours->board.file;
    offer.blocks_bytes = blocks->memory.size;
    offer.blocks = blocks->file;
    offer.backed = options->shared_backed;
    return offer;
}

/* Does a block go from one of them to the other without a third, or do they add up what both have? */
static bool meet(const struct transport_options *options, const struct routes *routes, int rank, int other) {
    for (int r = 0; r < routes->count; r++) {
        int from = worker_of(options, routes->list[r].from), to = worker_of(options, routes->list[r].to);
        if ((from == rank && to == other) || (from == other && to == rank)) return true;
    }
    for (int stage = 0; stage < options->programs->stages; stage++) {
        int members = 0;
        for (int p = options->programs->first_part[stage]; p < options->programs->first_part[stage + 1]; p++)
            members += worker_of(options, p) == rank || worker_of(options, p) == other;
        if (members == 2 && programs_replicas(options->programs, stage) > 1) return true;
    }
    return false;
}

/* Blocks wander: what was taken from one rank is given to the next. So each opens the memory of all, and maps beforehand what
 * it is sure to see. */
static enum ps_status open_member(struct neighbours *neighbours, const struct transport_options *options,
                                  const struct routes *routes, int rank, const struct offer *offer, struct ps_error *error) {
    struct member *member = &neighbours->members[rank];
    int32_t process = options->processes->info[rank].process;
    if (rank == neighbours->rank) {
        member->board = neighbours->board.memory;
        member->blocks = options->shared->memory;
        return PS_OK;
    }
    bool mapped = offer->backed && meet(options, routes, neighbours->rank, rank);
    TRY(shared_block_open(process, offer->board, (size_t)offer->board_bytes, true, &member->board, error));
    if (((const struct board *)member->board.base)->key != offer->key)
        return error_set(error, PS_FAILED, "process %d is another one here", (int)process);
    return shared_block_open(process, offer->blocks, (size_t)offer->blocks_bytes, mapped, &member->blocks, error);
}

/* Opens the boards and blocks of all ranks of this host. One that has none has said why. */
static bool open_members(struct neighbours *neighbours, const struct transport_options *options, const struct routes *routes,
                         const struct offer *offers) {
    struct ps_error error = {0};
    if (offers[neighbours->rank].board < 0) return false;
    for (int rank = 0; rank < neighbours->count; rank++) {
        if (!processes_share_memory(options->processes, neighbours->rank, rank)) continue;
        if (offers[rank].board < 0) return false;
        if (open_member(neighbours, options, routes, rank, &offers[rank], &error) == PS_OK) continue;
        log_warn("blocks between the ranks of %s go by messages: the memory of rank %d cannot be shared: %s",
                 options->processes->info[rank].host, rank, error.message);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------- lanes */

static struct list *list_on(const struct neighbours *neighbours, int rank, size_t at) {
    return (struct list *)(neighbours->members[rank].board.base + at);
}

static void make_lanes(struct neighbours *neighbours, const struct transport_options *options, const struct routes *routes) {
    for (int r = 0; r < routes->count; r++) {
        int from = worker_of(options, routes->list[r].from), to = worker_of(options, routes->list[r].to);
        if (from == to || (from != neighbours->rank && to != neighbours->rank)) continue;
        int other = from == neighbours->rank ? to : from;
        if (!neighbours->members[other].board.base) continue;
        struct list *sender = list_on(neighbours, from, neighbours->list_from[r]);
        struct list *receiver = list_on(neighbours, to, neighbours->list_to[r]);
        neighbours->lanes[r] = (struct lane){.own = from == neighbours->rank ? sender : receiver,
                                             .other = from == neighbours->rank ? receiver : sender,
                                             .bell = &((struct board *)neighbours->members[other].board.base)->bell,
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

/* All tell of their memory, open what they can, and tell that. */
static enum ps_status join(struct neighbours *neighbours, const struct transport_options *options, const struct routes *routes,
                           bool *joined, struct ps_error *error) {
    struct processes *processes = options->processes;
    struct offer *offers = calloc((size_t)processes->count, sizeof *offers);
    int32_t *opened = calloc((size_t)processes->count, sizeof *opened), own = 0;
    enum ps_status status = offers && opened ? PS_OK : error_memory(error, "a board", sizeof *offers);
    struct offer offer = make_offer(neighbours, options);
    if (status == PS_OK) status = processes_share(processes, &offer, sizeof offer, offers, error);
    if (status == PS_OK) {
        own = open_members(neighbours, options, routes, offers);
        status = processes_share(processes, &own, sizeof own, opened, error);
    }
    *joined = status == PS_OK && all_agree(options, opened);
    free(offers);
    free(opened);
    return status;
}

enum ps_status neighbours_create(const struct transport_options *options, const struct routes *routes, struct neighbours **out,
                                 struct ps_error *error) {
    struct processes *processes = options->processes;
    *out = NULL;
    bool any = false;
    for (int rank = 0; rank < processes->count; rank++) any = any || processes_has_neighbours(processes, rank);
    if (!any) return PS_OK;
    struct neighbours *neighbours = calloc(1, sizeof *neighbours);
    if (!neighbours) return error_memory(error, "a board", sizeof *neighbours);
    *neighbours = (struct neighbours){.rank = processes->rank, .count = processes->count};
    bool joined = false;
    enum ps_status status = lay_out(neighbours, options, routes, error);
    if (status == PS_OK) status = join(neighbours, options, routes, &joined, error);
    shared_block_close(&neighbours->board);
    if (!joined) {
        neighbours_destroy(neighbours);
        return status;
    }
    make_lanes(neighbours, options, routes);
    if (processes->info[processes->rank].beside == processes->rank)
        log_info("the ranks of %s share memory: blocks change places between them", processes->info[processes->rank].host);
    *out = neighbours;
    return PS_OK;
}

void neighbours_destroy(struct neighbours *neighbours) {
    if (!neighbours) return;
    for (int rank = 0; neighbours->members && rank < neighbours->count; rank++) {
        if (rank == neighbours->rank) continue;
        memory_block_release(&neighbours->members[rank].board);
        memory_block_release(&neighbours->members[rank].blocks);
    }
    shared_block_release(&neighbours->board);
    free(neighbours->members);
    free(neighbours->board_bytes);
    free(neighbours->list_from);
    free(neighbours->list_to);
    free(neighbours->lanes);
    free(neighbours->note_at);
    free(neighbours->part_worker);
    free(neighbours);
}

/* ------------------------------------------------------------------------- blocks */

bool neighbours_on(const struct neighbours *neighbours, int route) { return neighbours && neighbours->lanes[route].own; }

static bool lies_in(const struct memory_block *blocks, const char *address) {
    return blocks->base && address >= blocks->base && address < blocks->base + blocks->size;
}

/* A block's name for all ranks: it lies in the memory of one of them. */
static struct entry entry_of(const struct neighbours *neighbours, const float *block, double when) {
    const char *address = (const char *)block;
    int rank = 0;
    while (rank < neighbours->count && !lies_in(&neighbours->members[rank].blocks, address)) rank++;
    assert(rank < neighbours->count);
    return (struct entry){(uint64_t)rank, (uint64_t)(address - neighbours->members[rank].blocks.base), when};
}

uint64_t neighbours_post(struct neighbours *neighbours, int route, const float *block, double when) {
    struct lane *lane = &neighbours->lanes[route];
    lane->own->entries[lane->posted % lane->capacity] = entry_of(neighbours, block, when);
    atomic_store_explicit(&lane->own->count, lane->posted + 1, memory_order_release);
    sem_post(lane->bell);
    return lane->posted++;
}

bool neighbours_take(struct neighbours *neighbours, int route, uint64_t number, float **block, double *when) {
    const struct lane *lane = &neighbours->lanes[route];
    if (atomic_load_explicit(&lane->other->count, memory_order_acquire) <= number) return false;
    const struct entry *other = &lane->other->entries[number % lane->capacity];
    *block = (float *)(neighbours->members[other->rank].blocks.base + other->offset);
    *when = fmax(other->when, lane->own->entries[number % lane->capacity].when);
    return true;
}

/* -------------------------------------------------------------------------- notes */

struct neighbour_note *neighbours_note(const struct neighbours *neighbours, int part) {
    if (!neighbours || neighbours->note_at[part] == 0) return NULL;
    char *board = neighbours->members[neighbours->part_worker[part]].board.base;
    return board ? (struct neighbour_note *)(board + neighbours->note_at[part]) : NULL;
}

uint64_t neighbours_offset(const struct neighbours *neighbours, const float *block) {
    return entry_of(neighbours, block, 0).offset;
}

float *neighbours_block(const struct neighbours *neighbours, int part, uint64_t offset) {
    return (float *)(neighbours->members[neighbours->part_worker[part]].blocks.base + offset);
}

void neighbours_ring(const struct neighbours *neighbours, int part) {
    sem_post(&((struct board *)neighbours->members[neighbours->part_worker[part]].board.base)->bell);
}

/* --------------------------------------------------------------------------- bell */

static sem_t *own_bell(struct neighbours *neighbours) { return &((struct board *)neighbours->board.memory.base)->bell; }

void neighbours_forget(struct neighbours *neighbours) {
    while (sem_trywait(own_bell(neighbours)) == 0) {
    }
}

void neighbours_sleep(struct neighbours *neighbours, double seconds) {
    if (isinf(seconds)) {
        sem_wait(own_bell(neighbours));
        return;
    }
    double until = clock_now() + seconds;
    struct timespec time = {.tv_sec = (time_t)until};
    time.tv_nsec = (long)((until - (double)time.tv_sec) * 1e9);
    sem_clockwait(own_bell(neighbours), CLOCK_MONOTONIC, &time);
}

void neighbours_wake(struct neighbours *neighbours) { sem_post(own_bell(neighbours)); }
