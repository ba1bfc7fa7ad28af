/* A sum by messages is a sequence of pieces, each of which is sent, summed and returned; see rank_sums.h. */
#include "comm/transports/rank_sums.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "comm/transports/sum.h"

/* Floats in a piece, at most. */
enum { PIECE = 1 << 18 };
/* Tags of sums follow those of routes: of a stage's one for all; of what stages share, whose instances may be on one rank, one
 * for each instance that sends and one for what it gets back. */
enum { SUM_TAG = 20000, TIE_TAG = 18000 };

/* A piece in transfer. */
struct piece {
    float empty; /* not 0: this instance has no gradients of the update */
    float values[];
};

/* The other end of an instance's sum. */
struct member {
    int rank, in_tag, out_tag; /* of messages to the adding instance, and of those from it */
    struct message *message;
    struct piece *piece;
};

enum phase { IDLE, FETCHING, IN, OUT, COMING, ADDED };

/* The staged share of an instance whose device has memory of its own, on the host: gradients, then statistics. */
struct staging {
    struct transport_share share; /* the share on the device */
    struct moment copied;         /* when the copy to the host is done */
    float *floats;                /* NULL: nothing is staged */
};

struct rank_sum {
    int size;               /* instances whose gradients are summed; 0: there is no such sum */
    bool adds;              /* for all of them; else it sends its share */
    bool brings;            /* to a tied parameter: its gradients count, else it only receives the sum */
    struct rank_sum *next;  /* that begins when this one is done; NULL: none */
    struct member *members; /* its partners: the other instances in their order, or the one that adds */
    int member_count;
    struct transport_share share;
    struct transport_share *shares; /* of one piece, by instance */
    size_t piece;                   /* floats in one */
    enum phase phase;
    bool begun; /* its first piece: there is one even where nothing is added, so that all wait for all */
    size_t at;  /* floats that are done: gradients, then statistics */
    double settled_at;
    struct staging *staging; /* NULL: the share lies in the host's memory */
    /* In shared memory: the replicas' records, in their order; NULL: by messages. */
    struct peer_descriptor **notes;
    int first_instance, replica;
    uint64_t number; /* sums begun */
};

struct rank_sums {
    struct staging *staging; /* by instance */
    const struct processes_class *class;
    const struct shared_peers *peers;
    struct rank_sum *sums; /* by instance, over the replicas of its stage; then by instance, of what two stages share */
    int instance_count;
};

static struct rank_sum *own_sum(const struct rank_sums *sums, int instance) { return &sums->sums[instance]; }
static struct rank_sum *tied_sum(const struct rank_sums *sums, int instance) {
    return &sums->sums[sums->instance_count + instance];
}

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
    for (int m = 0; m < sum->member_count; m++) {
        struct member *member = &sum->members[m];
        int tag = sum->phase == IN ? member->in_tag : member->out_tag;
        sums->class->message_start(member->message, member->rank, tag, outgoing, member->piece);
    }
}

static void begin_piece(const struct rank_sums *sums, struct rank_sum *sum);

static void begin(const struct rank_sums *sums, struct rank_sum *sum) {
    assert(sum->phase == IDLE);
    sum->at = 0;
    sum->begun = false;
    begin_piece(sums, sum);
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

static void end_sum(const struct rank_sums *sums, struct rank_sum *sum) {
    sum->phase = IDLE;
    sum->settled_at = clock_now() + sum->share.takes_s;
    if (sum->next)
        begin(sums, sum->next);
    else if (sum->staging)
        move_staged(sum->staging, true);
}

/* Starts the next piece, or ends the sum. The adding instance receives first, all others send first. */
static void begin_piece(const struct rank_sums *sums, struct rank_sum *sum) {
    if (sum->begun && sum->at == sum->share.gradient_count + sum->share.statistics_count) {
        end_sum(sums, sum);
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

/* All pieces have arrived: sums them in place. */
static void add_piece(struct rank_sum *sum) {
    size_t length;
    float *own = piece_place(sum, &length);
    bool gradients = sum->at < sum->share.gradient_count;
    for (int r = 0; r < sum->size; r++) {
        struct piece *piece = r > 0 ? sum->members[r - 1].piece : NULL;
        float *values = piece ? piece->values : own;
        sum->shares[r] = (struct transport_share){.gradients = values,
                                                  .gradient_count = gradients ? length : 0,
                                                  .empty = piece ? piece->empty != 0 : sum->share.empty,
                                                  .scale = sum->share.scale,
                                                  .statistics = values,
                                                  .statistics_count = gradients ? 0 : length};
    }
    sum_shares(NULL, sum->shares, sum->size);
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

/* Where the slice of a replica begins; all have the same length, rounded to cache lines. */
static size_t slice_begin(const struct rank_sum *sum, size_t count, int replica) {
    enum { LINE = MEMORY_ALIGNMENT / sizeof(float) };
    if (replica == sum->size) return count;
    return count / (size_t)sum->size * (size_t)replica / LINE * LINE;
}

/* Sums its own slice over the blocks of all. */
static void add_slice(const struct rank_sums *sums, struct rank_sum *sum) {
    const struct transport_share *own = &sum->share;
    size_t gradients = slice_begin(sum, own->gradient_count, sum->replica);
    size_t statistics = slice_begin(sum, own->statistics_count, sum->replica);
    for (int r = 0; r < sum->size; r++) {
        const struct peer_descriptor *note = sum->notes[r];
        struct transport_share *share = &sum->shares[r];
        *share = (struct transport_share){.empty = note->empty != 0, .scale = own->scale};
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
    end_sum(sums, sum);
}

/* ------------------------------------------------------------------------- sums */

static void move_sum(const struct rank_sums *sums, struct rank_sum *sum) {
    if (sum->phase == FETCHING) {
        if (!device_reached(&sum->staging->copied)) return;
        sum->phase = IDLE;
        begin(sums, sum);
    }
    if (sum->notes && sum->phase != IDLE)
        move_shared(sums, sum);
    else
        move_along(sums, sum);
}

void rank_sums_look(struct rank_sums *sums) {
    for (int s = 0; s < 2 * sums->instance_count; s++) move_sum(sums, &sums->sums[s]);
}

/* Enqueues the copy of the share to the host's memory, and returns the staged share. */
static struct transport_share stage(struct staging *staging, const struct transport_share *share) {
    struct transport_share staged = *share;
    staging->share = *share;
    move_staged(staging, false);
    staging->copied = device_mark(share->device);
    staged.gradients = staging->floats;
    staged.statistics = staging->floats + share->gradient_count;
    if (share->tied) staged.tied = staged.gradients + (share->tied - share->gradients);
    return staged;
}

/* A tied parameter is summed after the sum of each stage, which all its replicas have: one of them takes part. */
void rank_sums_start(struct rank_sums *sums, int instance, const struct transport_share *share) {
    struct rank_sum *own = own_sum(sums, instance), *tied = tied_sum(sums, instance);
    struct rank_sum *first = own->size > 0 ? own : tied;
    assert(first->size > 1 && own->phase == IDLE && tied->phase == IDLE);
    own->share = first->staging ? stage(first->staging, share) : *share;
    tied->share = (struct transport_share){
        .gradients = own->share.tied, .gradient_count = share->tied_count, .empty = !tied->brings, .scale = 1};
    if (first->staging)
        first->phase = FETCHING;
    else if (first->notes)
        come(sums, first);
    else
        begin(sums, first);
    move_sum(sums, first);
}

bool rank_sums_idle(const struct rank_sums *sums) {
    for (int s = 0; s < 2 * sums->instance_count; s++)
        if (sums->sums[s].phase != IDLE && !sums->sums[s].notes) return false;
    return true;
}

bool rank_sums_settled(const struct rank_sums *sums, int instance) {
    return own_sum(sums, instance)->phase == IDLE && tied_sum(sums, instance)->phase == IDLE;
}

double rank_sums_settled_at(const struct rank_sums *sums, int instance) {
    return fmax(own_sum(sums, instance)->settled_at, tied_sum(sums, instance)->settled_at);
}

/* ---------------------------------------------------------------- begin and end */

static enum ps_status add_member(const struct rank_sums *sums, struct rank_sum *sum, int rank, int in_tag, int out_tag,
                                 struct ps_error *error) {
    struct member *member = &sum->members[sum->member_count];
    size_t size = sizeof *member->piece + sum->piece * sizeof member->piece->values[0];
    member->rank = rank;
    member->in_tag = in_tag;
    member->out_tag = out_tag;
    member->piece = calloc(1, size);
    if (!member->piece) return error_memory(error, "a sum of gradients", size);
    sum->member_count++;
    return sums->class->message_create(size, &member->message, error);
}

static size_t piece_floats(int64_t bytes) {
    size_t floats = (size_t)bytes / sizeof(float);
    return floats < PIECE ? floats : PIECE;
}

static enum ps_status take_members(struct rank_sum *sum, struct ps_error *error) {
    sum->members = calloc((size_t)sum->size, sizeof *sum->members);
    sum->shares = calloc((size_t)sum->size, sizeof *sum->shares);
    return sum->members && sum->shares ? PS_OK
                                       : error_memory(error, "a sum of gradients", (size_t)sum->size * sizeof *sum->shares);
}

/* sum->notes stays NULL where not all replicas are shared-memory peers. */
static enum ps_status find_notes(const struct rank_sums *sums, struct rank_sum *sum, struct ps_error *error) {
    for (int r = 0; r < sum->size; r++)
        if (!shared_peers_note(sums->peers, sum->first_instance + r)) return PS_OK;
    /* Places among the instances of a stage are the replicas' numbers (program/program.c). */
    sum->notes = calloc((size_t)sum->size, sizeof(*sum->notes));
    if (!sum->notes) return error_memory(error, "a sum of gradients", (size_t)sum->size * sizeof(*sum->notes));
    for (int r = 0; r < sum->size; r++) sum->notes[r] = shared_peers_note(sums->peers, sum->first_instance + r);
    return PS_OK;
}

/* Over the replicas of the instance's stage. */
static enum ps_status open_own(struct rank_sums *sums, const struct transport_options *options, int instance,
                               struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    const struct instance *own = &programs->instances[instance];
    const struct stage_sizes *sizes = &options->sizes[own->stage];
    int64_t most = number_larger(stage_gradient_bytes(sizes), sizes->statistics_bytes);
    struct rank_sum *sum = own_sum(sums, instance);
    *sum = (struct rank_sum){.size = own->replicas,
                             .adds = own->replica == 0,
                             .piece = piece_floats(most),
                             .first_instance = programs->first_instance[own->stage],
                             .replica = own->replica};
    TRY(take_members(sum, error));
    TRY(find_notes(sums, sum, error));
    if (sum->notes) return PS_OK;
    for (int other = programs->first_instance[own->stage]; other < programs->first_instance[own->stage + 1]; other++) {
        const struct instance *of = &programs->instances[other];
        if (other == instance || !of->backward || !(sum->adds || of->replica == 0)) continue;
        TRY(add_member(sums, sum, of->worker, SUM_TAG + own->stage, SUM_TAG + own->stage, error));
    }
    return PS_OK;
}

/* The first of a stage's instances that updates it. */
static int backward_instance(const struct ps_programs *programs, int stage) {
    int instance = programs->first_instance[stage];
    while (!programs->instances[instance].backward) instance++;
    return instance;
}

/* The sum of the parameter that the instance's stage shares with another, over both; the first instance of the first stage
 * adds. */
static enum ps_status open_tied(struct rank_sums *sums, const struct transport_options *options, int instance,
                                struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    const struct instance *own = &programs->instances[instance];
    struct sum_group group = programs_sum_group(programs, own->stage);
    struct rank_sum *sum = tied_sum(sums, instance);
    *sum = (struct rank_sum){.size = group.size,
                             .adds = own->stage == group.number && own->replica == 0,
                             .brings = own->replica == 0,
                             .piece = piece_floats(options->sizes[own->stage].tied_bytes)};
    own_sum(sums, instance)->next = sum;
    TRY(take_members(sum, error));
    int first_rank = programs->instances[backward_instance(programs, group.number)].worker, seat = 0;
    for (int s = 0; s < group.stage_count; s++)
        for (int other = programs->first_instance[group.stages[s]]; other < programs->first_instance[group.stages[s] + 1];
             other++) {
            const struct instance *of = &programs->instances[other];
            if (!of->backward) continue;
            int in_tag = TIE_TAG + 2 * seat++;
            if (sum->adds != (other == instance))
                TRY(add_member(sums, sum, sum->adds ? of->worker : first_rank, in_tag, in_tag + 1, error));
        }
    return PS_OK;
}

static enum ps_status open_staging(struct rank_sums *sums, const struct transport_options *options, int instance,
                                   struct ps_error *error) {
    const struct stage_sizes *sizes = &options->sizes[options->programs->instances[instance].stage];
    const size_t bytes = (size_t)(stage_gradient_bytes(sizes) + sizes->statistics_bytes) + 1;
    if (device_in_host(options->device)) return PS_OK;
    struct staging *staging = &sums->staging[instance];
    staging->floats = malloc(bytes);
    if (!staging->floats) return error_memory(error, "a sum of gradients", bytes);
    own_sum(sums, instance)->staging = tied_sum(sums, instance)->staging = staging;
    return PS_OK;
}

enum ps_status rank_sums_create(const struct processes_class *class, const struct shared_peers *peers,
                                const struct transport_options *options, struct rank_sums **out, struct ps_error *error) {
    const struct ps_programs *programs = options->programs;
    struct rank_sums *sums = calloc(1, sizeof *sums);
    enum ps_status status = sums ? PS_OK : error_memory(error, "sums of gradients", sizeof *sums);
    if (sums) {
        *sums = (struct rank_sums){.class = class, .peers = peers, .instance_count = programs->instance_count};
        sums->sums = calloc(2 * (size_t)programs->instance_count, sizeof *sums->sums);
        sums->staging = calloc((size_t)programs->instance_count, sizeof *sums->staging);
        if (!sums->sums || !sums->staging)
            status = error_memory(error, "sums of gradients", 2 * (size_t)programs->instance_count * sizeof *sums->sums);
    }
    for (int instance = 0; status == PS_OK && instance < programs->instance_count; instance++) {
        const struct instance *of = &programs->instances[instance];
        if (of->worker != options->processes->rank || !of->backward) continue;
        if (of->replicas > 1) status = open_own(sums, options, instance, error);
        if (status == PS_OK && programs_sum_group(programs, of->stage).stage_count > 1)
            status = open_tied(sums, options, instance, error);
        if (status == PS_OK && programs_sums(programs, of->stage)) status = open_staging(sums, options, instance, error);
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
    for (int s = 0; sums->sums && s < 2 * sums->instance_count; s++) {
        struct rank_sum *sum = &sums->sums[s];
        for (int m = 0; m < sum->member_count; m++) {
            sums->class->message_destroy(sum->members[m].message);
            free(sum->members[m].piece);
        }
        free(sum->members);
        free(sum->notes);
        free(sum->shares);
    }
    for (int instance = 0; sums->staging && instance < sums->instance_count; instance++) free(sums->staging[instance].floats);
    free(sums->staging);
    free(sums->sums);
    free(sums);
}
