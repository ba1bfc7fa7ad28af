/*
 * Hanayo (Liu et al., 2023): stages in waves, from the first worker to the last and back again, w times. The last worker of one
 * way is the first of the way back, so a micro-batch turns around without a transfer. It is designed for M = P.
 *
 * The paper shows its orders in figures. Here they are found by a greedy search in which a backward takes as long as two
 * forwards, with at most 2P micro-batches in flight, each with stages that are half as large as those of 1F1B. For M = P it is
 * best to run backwards as soon as possible. For more micro-batches, where forwards have to keep the pipeline full, it is best
 * if the forwards of the next P or 3P/2 micro-batches precede a backward. All variants are tried. The resulting bubble is no
 * larger than that of interleaved 1F1B with as many stages per worker.
 */
#include "program/schedules/orders.h"

static bool accepts(int stages, int workers) { return stages % (2 * workers) == 0; }

static const struct placement waves = {
    .usual = 2, .worker_of = wave_worker, .accepts = accepts, .accepted = "an even number on each worker"};

static enum ps_status write_all(struct ps_programs *programs, struct ps_error *error) {
    int workers = 0; /* workers before the first wave turns around */
    while (workers < programs->stages && straight_stage(programs, programs_worker(programs, workers)) == workers) workers++;
    const int patience[] = {-programs->micro_batches, workers, workers + workers / 2};
    struct greedy_rules rules[6];
    for (int i = 0; i < 6; i++)
        rules[i] = (struct greedy_rules){
            .forward = 1, .backward = 2, .under_way = 2 * workers - 1 + i / 3, .patience = patience[i % 3]};
    return greedy_write(programs, rules, 6, error);
}

const struct schedule schedule_hanayo = {
    .name = "hanayo",
    .summary = "stages in waves over the workers and back (Hanayo)",
    .flush = true,
    .placement = &waves,
    .micro_batches = straight_micro_batches,
    .write_all = write_all,
};
