/*
 * Interleaved 1F1B (Megatron-LM; Narayanan et al. 2021): v stages on each worker, stage s of S = v P on worker s mod P. Filling
 * the pipeline takes the time of P stages instead of that of P workers, so the bubble is v times smaller.
 *
 * Worker p walks virtual micro-batches: P micro-batches through its first stage, the same P through its second, and so on, then
 * the next P; backwards likewise from the last stage on. It runs 2 (P-1-p) + (v-1) P warm-up forwards. If M is no multiple of
 * P, the order is that of the next multiple without the missing micro-batches: leaving out whole micro-batches cannot make
 * other computations wait for each other.
 */
#include "program/schedules/orders.h"

static int worker_of(int stage, int stages, int workers) {
    (void)stages;
    return stage % workers;
}

static bool accepts(int stages, int workers) { return stages % workers == 0; }

static const struct placement around = {
    .usual = 2, .worker_of = worker_of, .accepts = accepts, .accepted = "a multiple of the workers"};

/* The position of a worker, and one mini-batch. */
struct walk {
    int workers, per_worker, place;
    int first, micro_batches;
};

static enum ps_status append(const struct walk *walk, enum opcode op, int number, struct program *program,
                             struct ps_error *error) {
    int round = walk->workers * walk->per_worker, turn = number % round / walk->workers;
    int k = number / round * walk->workers + number % walk->workers;
    if (k >= walk->micro_batches) return PS_OK;
    int stage = (op == OP_F ? turn : walk->per_worker - 1 - turn) * walk->workers + walk->place;
    return straight_compute(program, op, stage, walk->first + k, error);
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int place = straight_stage(programs, worker);
    if (place < 0) return PS_OK;
    int per_worker = 0;
    for (int stage = 0; stage < programs->stages; stage++) per_worker += programs_worker(programs, stage) == worker;
    int workers = programs->stages / per_worker;
    int total = (programs->micro_batches + workers - 1) / workers * workers * per_worker;
    int ahead = 2 * (workers - 1 - place) + (per_worker - 1) * workers;
    for (int batch = 0; batch < programs->batches; batch++) {
        struct walk walk = {.workers = workers,
                            .per_worker = per_worker,
                            .place = place,
                            .first = batch * programs->micro_batches,
                            .micro_batches = programs->micro_batches};
        for (int i = 0; i < total + ahead; i++) {
            TRY(append(&walk, OP_F, i, program, error));
            if (i >= ahead) TRY(append(&walk, OP_B, i - ahead, program, error));
        }
    }
    return PS_OK;
}

const struct schedule schedule_interleaved = {
    .name = "interleaved",
    .summary = "1f1b with several stages per worker, assigned round robin (Megatron-LM)",
    .flush = true,
    .placement = &around,
    .micro_batches = straight_micro_batches,
    .write = write,
};
