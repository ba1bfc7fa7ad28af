/*
 * Hanayo (Liu et al., 2023): stages in waves, from the first worker to the last and back again, w times; so the last worker of
 * one way is the first of the way back, and a micro-batch turns around without a transfer. Computations go in the order of a
 * greedy search that takes a backward for two forwards; at most 2P-1 micro-batches are under way, each with stages that are
 * half as large as those of 1F1B. It is made for M = P; with more the greedy order came out somewhat worse than 1F1B.
 */
#include "program/schedules/greedy.h"
#include "program/schedules/straight.h"

static bool accepts(int stages, int workers) { return stages % (2 * workers) == 0; }

static const struct placement waves = {
    .usual = 2, .worker_of = wave_worker, .accepts = accepts, .accepted = "an even number on each worker"};

static enum ps_status write_all(struct ps_programs *programs, struct ps_error *error) {
    int workers = 0; /* up to where the first wave turns around */
    while (workers < programs->stages && straight_stage(programs, programs_worker(programs, workers)) == workers) workers++;
    struct greedy_rules rules = {.forward = 1, .backward = 2, .under_way = 2 * workers - 1};
    return greedy_write(programs, &rules, error);
}

const struct schedule schedule_hanayo = {
    .name = "hanayo",
    .summary = "stages in waves over the workers and back (Hanayo)",
    .flush = true,
    .placement = &waves,
    .micro_batches = straight_micro_batches,
    .write_all = write_all,
};
