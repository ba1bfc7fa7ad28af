/* A sum by messages is a row of pieces, each of which goes in and comes back; see rank_sums.h. */
#include "run/transports/rank_sums.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/transports/sum.h"

/* Floats in a piece, at most. */
enum { PIECE = 1 << 18 };
/* Tags of sums follow those of routes. */
enum { SUM_TAG = 20000 };

/* A piece on its way. */
struct piece {
    float empty; /* not 0: this replica has no gradients of the update */
    float values[];
};

/* The other end of a replica's sum. */
struct member {
    int rank;
    struct message *message;
    struct piece *piece;
};

enum phase { IDLE, IN, OUT, COMING, ADDED };

struct rank_sum {
    int stage, replicas;
    bool adds;              /* for all replicas; else it is one of those that send */
    struct member *members; /* whom it talks to: the other replicas in their order, or the one that adds */
    int member_count;
    struct transport_share share;
    struct transport_share *shares; /* of one piece, by replica */
    size_t piece;                   /* floats in one */
    enum phase phase;
    bool begun; /* its first piece: there is one even where nothing is to be added, so that all wait for all */
    size_t at;  /* floats that are done: gradients, then statistics */
    double settled_at;
    /* In shared memory: the replicas' notes, in their order; NULL: by messages. */
    struct neighbour_note **notes;
    int first_part, replica;
    uint64_t number; /* sums begun */
};

struct rank_sums {
    const struct processes_class *class;
    const struct neighbours *neighbours;
    struct rank_sum *parts; /* by part; replicas 0 where the part is elsewhere or alone */
    int part_count;
};

/* ------------------------------------------------------------------------ pieces */

/* Where the piece begins in the share, and how long it is: no piece holds gradients and statistics. */
static float *piece_place(const struct rank_sum *sum, size_t *length) {
    const struct transport_share *share = &sum->share;
    bool gradients = sum->at < share->gradient_count;
    size_t at = gradients ? sum->at : sum->at - share->gradient_count;
    size_t left = (gradients ? share->gradient_count : share->statistics_count) - at;
    *length = left < sum->piece ? left : sum->piece;
    float *block = gradients ? share->gradients : share->statistics;
    return *length > 0 ? block + at : block;
}

static void start_messages(const struct rank_sums *sums, struct rank_sum *sum, bool outgoing) {
    for (int m = 0; m < sum->member_count; m++)
        sums->class->message_start(sum->members[m].message, sum->members[m].rank, SUM_TAG + sum->stage, outgoing,
                                   sum->members[m].piece);
}

/* Takes up the next piece, or ends the sum. Replicas send first, who adds receives first. */
static void begin_piece(const struct rank_sums *sums, struct rank_sum *sum) {
    if (sum->begun && sum->at == sum->share.gradient_count + sum->share.statistics_count) {
        sum->phase = IDLE;
        sum->settled_at = clock_now();
        return;
    }
    sum->begun = true;
    sum->phase = IN;
    if (!sum->adds) {
        size_t length;
        const float *values = piece_place(sum, &length);
        if (length > 0) memcpy(sum->members[0].piece->values, values, length * sizeof *values);
        sum->members[0].piece->empty = sum->share.empty;
    }
    start_messages(sums, sum, !sum->adds);
}

/* All pieces have come: adds them up, in place. */
static void add_piece(struct rank_sum *sum) {
    size_t length;
    float *own = piece_place(sum, &length);
    bool gradients = sum->at < sum->share.gradient_count;
    for (int r = 0; r < sum->replicas; r++) {
        struct piece *piece = r > 0 ? sum->members[r - 1].piece : NULL;
        float *values = piece ? piece->values : own;
        sum->shares[r] = (struct transport_share){.gradients = values,
                                                  .gradient_count = gradients ? length : 0,
                                                  .empty = piece ? piece->empty != 0 : sum->share.empty,
                                                  .scale = sum->share.scale,
                                                  .statistics = values,
                                                  .statistics_count = gradients ? 0 : length};
    }
    sum_shares(sum->shares, sum->replicas);
}

static bool messages_done(const struct rank_sums *sums, const struct rank_sum *sum) {
    for (int m = 0; m < sum->member_count; m++)
        if (!sums->class->message_done(sum->members[m].message)) return false;
    return true;
}

static void move_along(const struct rank_sums *sums, struct rank_sum *sum) {
    while (sum->phase != IDLE && messages_done(sums, sum)) {
        size_t length;
        float *own = piece_place(sum, &length);
        if (sum->phase == IN) {
            if (sum->adds && length > 0) add_piece(sum);
            sum->phase = OUT;
            start_messages(sums, sum, sum->adds);
            continue;
        }
        if (!sum->adds && length > 0) memcpy(own, sum->members[0].piece->values, length * sizeof *own);
        sum->at += length;
        begin_piece(sums, sum);
    }
}

/* --------------------------------------------------------------- in shared memory */

static void ring_others(const struct rank_sums *sums, const struct rank_sum *sum) {
    for (int r = 0; r < sum->replicas; r++)
        if (r != sum->replica) neighbours_ring(sums->neighbours, sum->first_part + r);
}

static void come(const struct rank_sums *sums, struct rank_sum *sum) {
    struct neighbour_note *note = sum->notes[sum->replica];
    const struct transport_share *share = &sum->share;
    note->gradients = share->gradient_count > 0 ? neighbours_offset(sums->neighbours, share->gradients) : 0;
    note->statistics = share->statistics_count > 0 ? neighbours_offset(sums->neighbours, share->statistics) : 0;
    note->empty = share->empty;
    sum->phase = COMING;
    atomic_store_explicit(&note->come, ++sum->number, memory_order_release);
    ring_others(sums, sum);
}

static bool all_come(const struct rank_sum *sum) {
    for (int r = 0; r < sum->replicas; r++)
        if (atomic_load_explicit(&sum->notes[r]->come, memory_order_acquire) < sum->number) return false;
    return true;
}

static bool all_done(const struct rank_sum *sum) {
    for (int r = 0; r < sum->replicas; r++)
        if (atomic_load_explicit(&sum->notes[r]->done, memory_order_acquire) < sum->number) return false;
    return true;
}

/* Where the slice of a replica begins; those of all are as long, to a line of the cache. */
static size_t slice_begin(const struct rank_sum *sum, size_t count, int replica) {
    enum { LINE = MEMORY_ALIGNMENT / sizeof(float) };
    if (replica == sum->replicas) return count;
    return count / (size_t)sum->replicas * (size_t)replica / LINE * LINE;
}

/* Adds up its own slice of everybody's blocks. */
static void add_slice(const struct rank_sums *sums, struct rank_sum *sum) {
    const struct transport_share *own = &sum->share;
    size_t gradients = slice_begin(sum, own->gradient_count, sum->replica);
    size_t statistics = slice_begin(sum, own->statistics_count, sum->replica);
    for (int r = 0; r < sum->replicas; r++) {
        const struct neighbour_note *note = sum->notes[r];
        struct transport_share *share = &sum->shares[r];
        *share = (struct transport_share){.empty = note->empty != 0, .scale = own->scale};
        share->gradient_count = slice_begin(sum, own->gradient_count, sum->replica + 1) - gradients;
        share->statistics_count = slice_begin(sum, own->statistics_count, sum->replica + 1) - statistics;
        if (share->gradient_count > 0)
            share->gradients = neighbours_block(sums->neighbours, sum->first_part + r, note->gradients) + gradients;
        if (share->statistics_count > 0)
            share->statistics = neighbours_block(sums->neighbours, sum->first_part + r, note->statistics) + statistics;
    }
    sum_shares(sum->shares, sum->replicas);
}

static void move_shared(const struct rank_sums *sums, struct rank_sum *sum) {
    if (sum->phase == COMING && all_come(sum)) {
        add_slice(sums, sum);
        sum->phase = ADDED;
        atomic_store_explicit(&sum->notes[sum->replica]->done, sum->number, memory_order_release);
        ring_others(sums, sum);
    }
    if (sum->phase != ADDED || !all_done(sum)) return;
    sum->phase = IDLE;
    sum->settled_at = clock_now();
}

/* ------------------------------------------------------------------------- sums */

void rank_sums_look(struct rank_sums *sums) {
    for (int part = 0; part < sums->part_count; part++) {
        struct rank_sum *sum = &sums->parts[part];
        if (sum->phase == IDLE) continue;
        if (sum->notes)
            move_shared(sums, sum);
        else
            move_along(sums, sum);
    }
}

void rank_sums_start(struct rank_sums *sums, int part, const struct transport_share *share) {
    struct rank_sum *sum = &sums->parts[part];
    assert(sum->replicas > 1 && sum->phase == IDLE);
    sum->share = *share;
    if (sum->notes) {
        come(sums, sum);
        move_shared(sums, sum);
        return;
    }
    sum->at = 0;
    sum->begun = false;
    begin_piece(sums, sum);
    move_along(sums, sum);
}

bool rank_sums_idle(const struct rank_sums *sums) {
    for (int part = 0; part < sums->part_count; part++)
        if (sums->parts[part].phase != IDLE && !sums->parts[part].notes) return false;
    return true;
}

bool rank_sums_settled(const struct rank_sums *sums, int part) { return sums->parts[part].phase == IDLE; }

double rank_sums_settled_at(const struct rank_sums *sums, int part) { return sums->parts[part].settled_at; }

/* ---------------------------------------------------------------- begin and end */

static enum ps_status add_member(const struct rank_sums *sums, struct rank_sum *sum, int rank, struct ps_error *error) {
    struct member *member = &sum->members[sum->member_count];
    size_t size = sizeof *member->piece + sum->piece * sizeof member->piece->values[0];
    member->rank = rank;
    member->piece = calloc(1, size);
    if (!member->piece) return error_memory(error, "a sum over replicas", size);
    sum->member_count++;
    return sums->class->message_create(size, &member->message, error);
}

static size_t piece_floats(const struct stage_sizes *sizes) {
    int64_t most = sizes->parameter_bytes > sizes->statistics_bytes ? sizes->parameter_bytes : sizes->statistics_bytes;
    size_t floats = (size_t)most / sizeof(float);
    return floats < PIECE ? floats : PIECE;
}

/* *notes stays NULL where not all replicas are neighbours. */
static enum ps_status find_notes(const struct rank_sums *sums, struct rank_sum *sum, struct ps_error *error) {
    for (int r = 0; r < sum->replicas; r++)
        if (!neighbours_note(sums->neighbours, sum->first_part + r)) return PS_OK;
    /* Places among the parts of a stage are the replicas' numbers (program/parts.c). */
    sum->notes = calloc((size_t)sum->replicas, sizeof(*sum->notes));
    if (!sum->notes) return error_memory(error, "a sum over replicas", (size_t)sum->replicas * sizeof(*sum->notes));
    for (int r = 0; r < sum->replicas; r++) sum->notes[r] = neighbours_note(sums->neighbours, sum->first_part + r);
    return PS_OK;
}

static enum ps_status open_sum(struct rank_sums *sums, const struct transport_options *options, int part,
                               struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    const struct part *own = &programs->parts[part];
    struct rank_sum *sum = &sums->parts[part];
    *sum = (struct rank_sum){.stage = own->stage,
                             .replicas = own->replicas,
                             .adds = own->replica == 0,
                             .replica = own->replica,
                             .first_part = programs->first_part[own->stage],
                             .piece = piece_floats(&options->sizes[own->stage])};
    sum->members = calloc((size_t)own->replicas, sizeof *sum->members);
    sum->shares = calloc((size_t)own->replicas, sizeof *sum->shares);
    if (!sum->members || !sum->shares)
        return error_memory(error, "a sum over replicas", (size_t)own->replicas * sizeof *sum->shares);
    TRY(find_notes(sums, sum, error));
    if (sum->notes) return PS_OK;
    for (int other = programs->first_part[own->stage]; other < programs->first_part[own->stage + 1]; other++) {
        const struct part *of = &programs->parts[other];
        if (other == part || !of->backward || !(sum->adds || of->replica == 0)) continue;
        TRY(add_member(sums, sum, of->worker, error));
    }
    return PS_OK;
}

enum ps_status rank_sums_create(const struct processes_class *class, const struct neighbours *neighbours,
                                const struct transport_options *options, struct rank_sums **out, struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    struct rank_sums *sums = calloc(1, sizeof *sums);
    enum ps_status status = sums ? PS_OK : error_memory(error, "sums over replicas", sizeof *sums);
    if (sums) {
        *sums = (struct rank_sums){.class = class, .neighbours = neighbours, .part_count = programs->part_count};
        sums->parts = calloc((size_t)programs->part_count, sizeof *sums->parts);
        if (!sums->parts)
            status = error_memory(error, "sums over replicas", (size_t)programs->part_count * sizeof *sums->parts);
    }
    for (int part = 0; status == PS_OK && part < programs->part_count; part++) {
        const struct part *of = &programs->parts[part];
        if (of->worker == options->processes->rank && of->backward && of->replicas > 1)
            status = open_sum(sums, options, part, error);
    }
    if (status != PS_OK) {
        rank_sums_destroy(sums);
        return status;
    }
    *out = sums;
    return PS_OK;
}

void rank_sums_destroy(struct rank_sums *sums) {
    if (!sums) return;
    for (int part = 0; sums->parts && part < sums->part_count; part++) {
        struct rank_sum *sum = &sums->parts[part];
        for (int m = 0; m < sum->member_count; m++) {
            sums->class->message_destroy(sum->members[m].message);
            free(sum->members[m].piece);
        }
        free(sum->members);
        free(sum->notes);
        free(sum->shares);
    }
    free(sums->parts);
    free(sums);
}
