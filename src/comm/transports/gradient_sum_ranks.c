/* A sum by messages is a sequence of pieces, each of which is sent, summed and returned; see gradient_sum_ranks.h. */
#include "comm/transports/gradient_sum_ranks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "comm/transports/gradient_sum.h"

/* Floats in a piece, at most: whole groups of a codec. */
enum { PIECE = 256 * WIRE_GROUP };

/* A piece in transfer: so many values for each use of the parameter, one use after the other; or encoded. */
struct piece {
    float empty; /* not 0: this instance has no gradients of the update */
    float values[];
};

/* The other end of an instance's sum. */
struct member {
    int rank, in_tag, out_tag; /* of messages to the adding instance, and of those from it */
    int uses;                  /* of the parameter that sends or gets them: 1 but for shared ones */
    struct message *message;
    struct piece *piece;
    float *decoded; /* of a piece that the adding instance gets encoded; NULL: none is */
};

enum phase { IDLE, IN, OUT, COMING, ADDED };

/* The staged share of an instance whose device has memory of its own, on the host: gradients, then statistics. */
struct staging {
    struct transport_share share; /* the share on the device */
    struct moment copied;         /* when the copy to the host is done */
    float *floats;                /* NULL: nothing is staged */
    float **tied;                 /* share.tied there */
    int tied_count;
};

struct rank_sum {
    int size;            /* instances whose gradients are summed; 0: there is no such sum */
    int wave;            /* sums of one wave run at the same time; a wave begins when the one before it is done */
    int slice;           /* of the gradients and statistics, so many of `size` equal ones; -1: all */
    bool adds;           /* for all of them; else it sends its share */
    bool brings;         /* to a tied parameter: its gradients count, else it only receives the sum */
    int uses, first_use; /* of a tied parameter by the instance's stage, and where they are in share.tied; else 1 and 0 */
    bool tied;
    size_t count;           /* elements of that parameter */
    struct rank_sum *next;  /* of the instance, of the same wave or a later one; NULL: none */
    struct member *members; /* its partners: the other instances in their order, or the one that adds */
    int member_count;
    struct transport_share share;
    struct transport_share *shares; /* of one piece, by instance and use */
    size_t piece;                   /* floats in one */
    enum phase phase;
    bool begun; /* its first piece: there is one even where nothing is added, so that all wait for all */
    size_t at;  /* floats that are done, of each use: gradients, then statistics */
    double settled_at;
    /* In shared memory: the replicas' records, in their order; NULL: by messages. */
    struct peer_descriptor **notes;
    int first_instance, replica;
    uint64_t number; /* sums begun */
};

/* Of an instance: the sums over the replicas of its stage, one for each slice, as wave 0; then, one after the other, that of
 * each parameter that stages share. */
struct instance_sums {
    struct rank_sum *first;  /* NULL: it takes part in none */
    struct staging *staging; /* NULL: the share lies in the host's memory */
    bool fetching;           /* the staged copy is being made */
};

struct rank_sums {
    struct arena arena; /* of all that it points to but messages */
    const struct processes_class *class;
    const struct shared_peers *peers;
    struct instance_sums *of;
    int instance_count;
};

static bool sums_idle(const struct rank_sums *sums, int instance) {
    const struct instance_sums *of = &sums->of[instance];
    bool idle = !of->fetching;
    for (const struct rank_sum *sum = of->first; sum; sum = sum->next) idle = idle && sum->phase == IDLE;
    return idle;
}

/* ------------------------------------------------------------------------ pieces */

/* How long the next piece of each use is: no piece holds gradients and statistics. */
static size_t piece_length(const struct rank_sum *sum) {
    const struct transport_share *share = &sum->share;
    const size_t all = share->gradient_count + (sum->at < share->gradient_count ? 0 : share->statistics_count);
    return all - sum->at < sum->piece ? all - sum->at : sum->piece;
}

/* Where the next piece of a use begins. */
static float *piece_place(const struct rank_sum *sum, int use) {
    const struct transport_share *share = &sum->share;
    if (sum->tied) return share->tied[sum->first_use + use] + sum->at;
    if (sum->at < share->gradient_count) return share->gradients + sum->at;
    return share->statistics + (sum->at - share->gradient_count);
}

/* How the next piece travels: as a share, or as a sum. */
static const struct wire *piece_wire(const struct rank_sum *sum) {
    static const struct wire none;
    if (!sum->share.wire || sum->tied || sum->at >= sum->share.gradient_count) return &none;
    return sum->phase == IN ? &sum->share.wire->share : &sum->share.wire->sum;
}

/* Of the message of a piece. */
static size_t piece_bytes(const struct member *member, const struct wire *wire, size_t length) {
    const struct wire_numbers numbers = {{[TYPE_F32] = (int64_t)length}};
    const size_t bytes = wire->codec != WIRE_NONE ? (size_t)wire_bytes(wire, &numbers)
                                                  : (size_t)member->uses * length * sizeof member->piece->values[0];
    return sizeof *member->piece + bytes;
}

static void start_messages(const struct rank_sums *sums, struct rank_sum *sum, bool outgoing) {
    for (int m = 0; m < sum->member_count; m++) {
        struct member *member = &sum->members[m];
        int tag = sum->phase == IN ? member->in_tag : member->out_tag;
        sums->class->message_start(member->message, member->rank, tag, outgoing, member->piece,
                                   piece_bytes(member, piece_wire(sum), piece_length(sum)));
    }
}

/* Copies a share to its staging memory, or back. */
static void move_staged(const struct staging *staging, bool back) {
    const struct transport_share *share = &staging->share;
    float *staged = staging->floats;
    const size_t gradient_bytes = share->gradient_count * sizeof *staged;
    const size_t statistics_bytes = share->statistics_count * sizeof *staged;
    device_copy(share->device, back ? share->gradients : staged, back ? staged : share->gradients, gradient_bytes);
    staged += share->gradient_count;
    device_copy(share->device, back ? share->statistics : staged, back ? staged : share->statistics, statistics_bytes);
}

/* Copies the next piece of one use to a message, or back. */
static void copy_piece(const struct rank_sum *sum, float *own, float *sent, bool sends) {
    const struct wire *wire = piece_wire(sum);
    const struct wire_run run = {.count = piece_length(sum), .type = TYPE_F32};
    if (wire->codec == WIRE_NONE)
        memcpy(sends ? sent : own, sends ? own : sent, run.count * sizeof *own);
    else if (sends)
        wire_encode(wire, &run, 1, own, NULL, sent);
    else
        wire_decode(wire, &run, 1, sent, own);
}

/* The same of each use, in its place. */
static void move_piece(const struct rank_sum *sum, const struct member *member, bool sends) {
    const size_t length = piece_length(sum);
    for (int use = 0; use < sum->uses && length > 0; use++)
        copy_piece(sum, piece_place(sum, use), member->piece->values + (size_t)use * length, sends);
}

/* Starts the next piece, or ends the sum. The adding instance receives first, all others send first. */
static void begin_piece(const struct rank_sums *sums, struct rank_sum *sum) {
    if (sum->begun && sum->at == sum->share.gradient_count + sum->share.statistics_count) {
        sum->phase = IDLE;
        sum->settled_at = clock_now() + sum->share.takes_s;
        return;
    }
    sum->begun = true;
    sum->phase = IN;
    if (!sum->adds) {
        move_piece(sum, &sum->members[0], true);
        sum->members[0].piece->empty = sum->share.empty;
    }
    start_messages(sums, sum, !sum->adds);
}

/* What the pieces of a member of the sum, or its own, hold of each use. */
static struct transport_share *list_shares(const struct rank_sum *sum, const struct member *member,
                                           struct transport_share *share) {
    const bool gradients = sum->at < sum->share.gradient_count;
    const size_t length = piece_length(sum);
    for (int use = 0; use < (member ? member->uses : sum->uses); use++) {
        float *values = !member           ? piece_place(sum, use)
                        : member->decoded ? member->decoded
                                          : member->piece->values + (size_t)use * length;
        *share++ = (struct transport_share){.gradients = values,
                                            .gradient_count = gradients ? length : 0,
                                            .empty = member ? member->piece->empty != 0 : sum->share.empty,
                                            .scale = sum->share.scale,
                                            .wire = sum->tied ? NULL : sum->share.wire,
                                            .statistics = values,
                                            .statistics_count = gradients ? 0 : length};
    }
    return share;
}

/* All pieces have arrived: sums them in the order of the instances, its own among them. */
static void add_piece(struct rank_sum *sum) {
    struct transport_share *share = sum->shares;
    for (int m = 0; m <= sum->member_count && piece_length(sum) > 0; m++) {
        if (m == sum->replica) share = list_shares(sum, NULL, share);
        if (m == sum->member_count) break;
        if (sum->members[m].decoded) copy_piece(sum, sum->members[m].decoded, sum->members[m].piece->values, false);
        share = list_shares(sum, &sum->members[m], share);
    }
    if (share > sum->shares) sum_shares(NULL, sum->shares, (int)(share - sum->shares));
}

static bool messages_done(const struct rank_sums *sums, const struct rank_sum *sum) {
    for (int m = 0; m < sum->member_count; m++)
        if (!sums->class->message_done(sum->members[m].message)) return false;
    return true;
}

static void move_along(const struct rank_sums *sums, struct rank_sum *sum) {
    while (sum->phase != IDLE && messages_done(sums, sum)) {
        if (sum->phase == IN) {
            if (sum->adds) add_piece(sum);
            sum->phase = OUT;
            for (int m = 0; m < sum->member_count && sum->adds && sum->members[m].decoded; m++)
                move_piece(sum, &sum->members[m], true);
            start_messages(sums, sum, sum->adds);
            continue;
        }
        if (!sum->adds) move_piece(sum, &sum->members[0], false);
        sum->at += piece_length(sum);
        begin_piece(sums, sum);
    }
}

/* --------------------------------------------------------------- in shared memory */

static void ring_others(const struct rank_sums *sums, const struct rank_sum *sum) {
    for (int r = 0; r < sum->size; r++)
        if (r != sum->replica) shared_peers_ring(sums->peers, sum->first_instance + r);
}

static void come(const struct rank_sums *sums, struct rank_sum *sum) {
    struct peer_descriptor *note = sum->notes[sum->replica];
    const struct transport_share *share = &sum->share;
    note->gradients = share->gradient_count > 0 ? shared_peers_offset(sums->peers, share->gradients) : 0;
    note->statistics = share->statistics_count > 0 ? shared_peers_offset(sums->peers, share->statistics) : 0;
    note->empty = share->empty;
    sum->phase = COMING;
    atomic_store_explicit(&note->come, ++sum->number, memory_order_release);
    ring_others(sums, sum);
}

static bool all_come(const struct rank_sum *sum) {
    for (int r = 0; r < sum->size; r++)
        if (atomic_load_explicit(&sum->notes[r]->come, memory_order_acquire) < sum->number) return false;
    return true;
}

static bool all_done(const struct rank_sum *sum) {
    for (int r = 0; r < sum->size; r++)
        if (atomic_load_explicit(&sum->notes[r]->done, memory_order_acquire) < sum->number) return false;
    return true;
}

/* Where the slice of a replica begins; all have about the same length, of whole groups of a codec. */
static size_t slice_begin(const struct rank_sum *sum, size_t count, int replica) {
    if (replica == sum->size) return count;
    return count / (size_t)sum->size * (size_t)replica / WIRE_GROUP * WIRE_GROUP;
}

/* Sums its own slice over the blocks of all. */
static void add_slice(const struct rank_sums *sums, struct rank_sum *sum) {
    const struct transport_share *own = &sum->share;
    size_t gradients = slice_begin(sum, own->gradient_count, sum->replica);
    size_t statistics = slice_begin(sum, own->statistics_count, sum->replica);
    for (int r = 0; r < sum->size; r++) {
        const struct peer_descriptor *note = sum->notes[r];
        struct transport_share *share = &sum->shares[r];
        *share = (struct transport_share){.empty = note->empty != 0, .scale = own->scale, .wire = own->wire};
        share->gradient_count = slice_begin(sum, own->gradient_count, sum->replica + 1) - gradients;
        share->statistics_count = slice_begin(sum, own->statistics_count, sum->replica + 1) - statistics;
        if (share->gradient_count > 0)
            share->gradients = shared_peers_block(sums->peers, sum->first_instance + r, note->gradients) + gradients;
        if (share->statistics_count > 0)
            share->statistics = shared_peers_block(sums->peers, sum->first_instance + r, note->statistics) + statistics;
    }
    sum_shares(NULL, sum->shares, sum->size);
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
    sum->settled_at = clock_now() + sum->share.takes_s;
}

/* ------------------------------------------------------------------------- sums */

static void begin(const struct rank_sums *sums, struct rank_sum *sum) {
    sum->at = 0;
    sum->begun = false;
    if (sum->notes)
        come(sums, sum);
    else
        begin_piece(sums, sum);
}

/* Begins the sums of the first wave from this one on that has any; else the share is done. */
static void begin_wave(const struct rank_sums *sums, struct instance_sums *of, int wave) {
    const struct rank_sum *sum = of->first;
    while (sum && sum->wave < wave) sum = sum->next;
    if (!sum && of->staging) move_staged(of->staging, true);
    wave = sum ? sum->wave : wave;
    for (struct rank_sum *next = of->first; next; next = next->next)
        if (next->wave == wave) begin(sums, next);
}

static void move_instance(const struct rank_sums *sums, struct instance_sums *of) {
    if (of->fetching) {
        if (!device_reached(&of->staging->copied)) return;
        of->fetching = false;
        begin_wave(sums, of, 0);
    }
    int wave = -1;
    bool idle = true;
    for (struct rank_sum *sum = of->first; sum; sum = sum->next) {
        if (sum->phase == IDLE) continue;
        wave = sum->wave;
        if (sum->notes)
            move_shared(sums, sum);
        else
            move_along(sums, sum);
        idle = idle && sum->phase == IDLE;
    }
    if (wave >= 0 && idle) begin_wave(sums, of, wave + 1);
}

void rank_sums_look(struct rank_sums *sums) {
    for (int instance = 0; instance < sums->instance_count; instance++) move_instance(sums, &sums->of[instance]);
}

/* Enqueues the copy of the share to the host's memory, and returns the staged share. */
static struct transport_share stage(struct staging *staging, const struct transport_share *share) {
    struct transport_share staged = *share;
    staging->share = *share;
    move_staged(staging, false);
    staging->copied = device_mark(share->device);
    staged.gradients = staging->floats;
    staged.statistics = staging->floats + share->gradient_count;
    for (int use = 0; use < staging->tied_count; use++)
        staging->tied[use] = staging->floats + (share->tied[use] - share->gradients);
    staged.tied = staging->tied;
    return staged;
}

/* A part of the share, of so many. */
static struct transport_share slice_of(const struct rank_sum *sum, const struct transport_share *share) {
    struct transport_share slice = *share;
    if (sum->slice < 0) return slice;
    const size_t gradients = slice_begin(sum, share->gradient_count, sum->slice);
    const size_t statistics = slice_begin(sum, share->statistics_count, sum->slice);
    slice.gradients = share->gradients + gradients;
    slice.gradient_count = slice_begin(sum, share->gradient_count, sum->slice + 1) - gradients;
    slice.statistics = share->statistics + statistics;
    slice.statistics_count = slice_begin(sum, share->statistics_count, sum->slice + 1) - statistics;
    return slice;
}

/* A tied parameter is summed after the sum of each stage, which all its replicas have: one of them takes part. */
void rank_sums_start(struct rank_sums *sums, int instance, const struct transport_share *share) {
    struct instance_sums *of = &sums->of[instance];
    assert(sums_idle(sums, instance));
    const struct transport_share all = of->staging ? stage(of->staging, share) : *share;
    for (struct rank_sum *sum = of->first; sum; sum = sum->next) {
        sum->share = slice_of(sum, &all);
        if (sum->tied)
            sum->share =
                (struct transport_share){.tied = all.tied, .gradient_count = sum->count, .empty = !sum->brings, .scale = 1};
    }
    of->fetching = of->staging != NULL;
    if (!of->fetching) begin_wave(sums, of, 0);
    move_instance(sums, of);
}

bool rank_sums_idle(const struct rank_sums *sums) {
    for (int instance = 0; instance < sums->instance_count; instance++) {
        if (sums->of[instance].fetching) return false;
        for (const struct rank_sum *sum = sums->of[instance].first; sum; sum = sum->next)
            if (sum->phase != IDLE && !sum->notes) return false;
    }
    return true;
}

bool rank_sums_settled(const struct rank_sums *sums, int instance) { return sums_idle(sums, instance); }

double rank_sums_settled_at(const struct rank_sums *sums, int instance) {
    double last = 0;
    for (const struct rank_sum *sum = sums->of[instance].first; sum; sum = sum->next) last = fmax(last, sum->settled_at);
    return last;
}

/* ---------------------------------------------------------------- begin and end */

/* The other end of the sum, with room for `uses` pieces. */
static enum ps_status add_member(struct rank_sums *sums, struct rank_sum *sum, const struct member *other, bool decodes,
                                 struct ps_error *error) {
    struct member *member = &sum->members[sum->member_count];
    const struct wire none = {.codec = WIRE_NONE};
    /* A codec may take more than the one number of a last group. */
    const size_t size = piece_bytes(other, &none, sum->piece) + 2 * MEMORY_ALIGNMENT;
    *member = *other;
    member->piece = arena_take(&sums->arena, 1, size);
    if (decodes) member->decoded = arena_take(&sums->arena, sum->piece, sizeof *member->decoded);
    TRY(arena_status(&sums->arena, "a sum of gradients", error));
    sum->member_count++;
    return sums->class->message_create(size, &member->message, error);
}

static size_t piece_floats(size_t floats) { return floats < PIECE ? floats : PIECE; }

/* The next sum of the instance, with room for so many instances and, in all, so many uses. */
static enum ps_status add_sum(struct rank_sums *sums, int instance, const struct rank_sum *sum, int uses, struct rank_sum **out,
                              struct ps_error *error) {
    struct rank_sum *made = arena_copy(&sums->arena, sum, 1, sizeof *sum), **end = &sums->of[instance].first;
    struct member *members = arena_take(&sums->arena, (size_t)sum->size, sizeof *members);
    struct transport_share *shares = arena_take(&sums->arena, (size_t)uses, sizeof *shares);
    TRY(arena_status(&sums->arena, "a sum of gradients", error));
    made->members = members;
    made->shares = shares;
    while (*end) end = &(*end)->next;
    *end = *out = made;
    return PS_OK;
}

/* sum->notes stays NULL where not all replicas are shared-memory peers. */
static enum ps_status find_notes(struct rank_sums *sums, struct rank_sum *sum, struct ps_error *error) {
    for (int r = 0; r < sum->size; r++)
        if (!shared_peers_note(sums->peers, sum->first_instance + r)) return PS_OK;
    /* Places among the instances of a stage are the replicas' numbers (program/program.c). */
    sum->notes = arena_take(&sums->arena, (size_t)sum->size, sizeof(*sum->notes));
    TRY(arena_status(&sums->arena, "a sum of gradients", error));
    for (int r = 0; r < sum->size; r++) sum->notes[r] = shared_peers_note(sums->peers, sum->first_instance + r);
    return PS_OK;
}

/* A slice of the sum over the replicas of the instance's stage: the replica of that number adds it. */
static enum ps_status open_slice(struct rank_sums *sums, const struct transport_options *options, int instance, int slice,
                                 struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    const struct instance *own = &programs->instances[instance];
    const struct stage_sizes *sizes = &options->sizes[own->stage];
    const size_t most = (size_t)number_larger(stage_gradient_bytes(sizes), sizes->statistics_bytes) / sizeof(float);
    const int first = programs->first_instance[own->stage];
    struct rank_sum *sum;
    TRY(add_sum(sums, instance,
                &(struct rank_sum){.size = own->replicas,
                                   .slice = slice,
                                   .adds = own->replica == slice,
                                   .uses = 1,
                                   .piece = piece_floats(most / (size_t)own->replicas + (size_t)own->replicas + WIRE_GROUP),
                                   .first_instance = first,
                                   .replica = own->replica},
                own->replicas, &sum, error));
    if (slice == 0) TRY(find_notes(sums, sum, error));
    if (sum->notes) { /* slices are taken there */
        sum->slice = -1;
        return PS_OK;
    }
    const int tag = message_tag(TAG_SUM, first + slice);
    const bool encodes = programs->sum_wire[own->stage].share.codec != WIRE_NONE;
    for (int r = 0; r < own->replicas; r++) {
        if (r == own->replica || !(sum->adds || r == slice)) continue;
        const struct member member = {.rank = programs->instances[first + r].worker, .in_tag = tag, .out_tag = tag, .uses = 1};
        TRY(add_member(sums, sum, &member, sum->adds && encodes, error));
    }
    return PS_OK;
}

/* The first of a stage's instances that updates it. */
static int backward_instance(const struct ps_programs *programs, int stage) {
    int instance = programs->first_instance[stage];
    while (!programs->instances[instance].backward) instance++;
    return instance;
}

/* The sum of a parameter that stages of the instance's group share, of which the instance's stage may have no use; the first
 * instance of the group's first stage adds. */
static enum ps_status open_tied(struct rank_sums *sums, const struct transport_options *options, int instance, int parameter,
                                struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    const struct instance *own = &programs->instances[instance];
    const struct sum_group group = programs_sum_group(programs, own->stage);
    const struct tied_parameter *tied = &options->tied[parameter];
    const int adder = backward_instance(programs, group.number);
    int all = 0;
    for (int s = 0; s < group.stage_count; s++)
        all += tied_uses_in(tied, group.stages[s]) * programs_replicas(programs, group.stages[s]);
    struct rank_sum *sum;
    if (all == 0 || (instance != adder && tied_uses_in(tied, own->stage) == 0)) return PS_OK;
    TRY(add_sum(sums, instance,
                &(struct rank_sum){.size = group.size,
                                   .wave = 1 + parameter,
                                   .slice = -1,
                                   .adds = instance == adder,
                                   .brings = own->replica == 0,
                                   .tied = true,
                                   .count = tied->count,
                                   .uses = tied_uses_in(tied, own->stage),
                                   .first_use = tied_position(options->tied, parameter, own->stage),
                                   .piece = piece_floats(tied->count)},
                all, &sum, error));
    for (int s = 0; s < group.stage_count; s++)
        for (int other = programs->first_instance[group.stages[s]]; other < programs->first_instance[group.stages[s] + 1];
             other++) {
            const struct instance *of = &programs->instances[other];
            if (!of->backward) continue;
            if (sum->adds == (other == instance) || tied_uses_in(tied, of->stage) == 0) continue;
            const struct member member = {
                .rank = sum->adds ? of->worker : programs->instances[adder].worker,
                .in_tag = message_tag(TAG_TIED_IN, other), /* instances of several stages may be on one rank */
                .out_tag = message_tag(TAG_TIED_OUT, other),
                .uses = tied_uses_in(tied, of->stage)};
            TRY(add_member(sums, sum, &member, false, error));
        }
    return PS_OK;
}

static enum ps_status open_staging(struct rank_sums *sums, const struct transport_options *options, int instance,
                                   struct ps_error *error) {
    const int stage = options->programs->instances[instance].stage;
    const struct stage_sizes *sizes = &options->sizes[stage];
    if (device_in_host(options->device)) return PS_OK;
    struct staging *staging;
    staging = sums->of[instance].staging = arena_take(&sums->arena, 1, sizeof *staging);
    TRY(arena_status(&sums->arena, "a sum of gradients", error));
    staging->tied_count = tied_position(options->tied, options->tied_count, stage);
    staging->tied = arena_take(&sums->arena, (size_t)staging->tied_count, sizeof(*staging->tied));
    staging->floats = arena_take(&sums->arena, (size_t)(stage_gradient_bytes(sizes) + sizes->statistics_bytes), 1);
    return arena_status(&sums->arena, "a sum of gradients", error);
}

static enum ps_status open_instance(struct rank_sums *sums, const struct transport_options *options, int instance,
                                    struct ps_error *error) {
    const struct instance *of = &options->programs->instances[instance];
    if (of->worker != options->processes->rank || !of->backward || !programs_sums(options->programs, of->stage)) return PS_OK;
    const struct rank_sum *first = NULL;
    for (int slice = 0; of->replicas > 1 && slice < of->replicas && !(first && first->notes); slice++) {
        TRY(open_slice(sums, options, instance, slice, error));
        first = sums->of[instance].first;
    }
    for (int t = 0; t < options->tied_count; t++) TRY(open_tied(sums, options, instance, t, error));
    return open_staging(sums, options, instance, error);
}

enum ps_status rank_sums_create(const struct processes_class *class, const struct shared_peers *peers,
                                const struct transport_options *options, struct rank_sums **out, struct ps_error *error) {
    const size_t instances = (size_t)options->programs->instance_count;
    struct rank_sums *sums;
    TRY(memory_new(&sums, 1, "sums of gradients", error));
    *sums = (struct rank_sums){.class = class, .peers = peers};
    sums->of = arena_take(&sums->arena, instances, sizeof *sums->of);
    enum ps_status status = arena_check(&sums->arena, "sums of gradients", error);
    if (status == PS_OK) sums->instance_count = (int)instances;
    for (int instance = 0; status == PS_OK && instance < sums->instance_count; instance++)
        status = open_instance(sums, options, instance, error);
    if (status != PS_OK) {
        rank_sums_destroy(sums);
        return status;
    }
    *out = sums;
    return PS_OK;
}

void rank_sums_destroy(struct rank_sums *sums) {
    if (!sums) return;
    for (int instance = 0; instance < sums->instance_count; instance++)
        for (const struct rank_sum *sum = sums->of[instance].first; sum; sum = sum->next)
            for (int m = 0; m < sum->member_count; m++) sums->class->message_destroy(sum->members[m].message);
    arena_release(&sums->arena);
    free(sums);
}
