/*
 * ZB-V (Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, 2023): two stages on each worker, in a V: p and 2P-1-p on
 * worker p, so that a micro-batch turns around on the last worker and ends on the first. Backwards are split. Where forward,
 * input's and weights' gradient take the same time there is no bubble (from M = 2P on), and a worker holds at most 2P
 * micro-batches of a stage, which is half as large as a stage of 1F1B: as much as 1F1B's first worker.
 *
 * The paper finds its order by search. Here it is given in closed form. With F, I, W for the computations of the stage on the
 * way down and f, i, w for those on the way back, worker p runs
 *
 *     F 2(P-1-p) times    (F f) p+1 times    (i w f) P-1-p times    (i w F I W f) until all F are done
 *     (i w I W f) P-1-p times    (i I) p+1 times    (W I) P-1-p times    W 2(p+1) times
 *
 * where, from the last line's (i I) on, weights follow in the order of their inputs. Fewer than 2P micro-batches run in the
 * order of 2P, without the missing ones.
 */
#include "program/schedules/orders.h"

static bool accepts(int stages, int workers) { return stages == 2 * workers; }

static const struct placement vee = {
    .usual = 2, .worker_of = wave_worker, .accepts = accepts, .accepted = "two on each worker"};

/* Writes one mini-batch of one worker. */
struct writer {
    struct program *program;
    int down, back; /* stages */
    int next[2][2]; /* next micro-batch, by way back and backward */
    int weights;    /* where to begin the search for the next I whose W is to come */
};

static enum ps_status write_weights(struct writer *writer, struct ps_error *error) {
    const struct program *program = writer->program;
    while (program->code[writer->weights].op != OP_I) writer->weights++;
    const struct instruction *input = &program->code[writer->weights++];
    return straight_compute(writer->program, OP_W, input->stage, input->micro_batch, error);
}

/* Appends `letters` `times` times: F f I i as above, W for the next of either stage. */
static enum ps_status put(struct writer *writer, const char *letters, int times, struct ps_error *error) {
    for (int i = 0; i < times; i++)
        for (const char *letter = letters; *letter; letter++) {
            if (*letter == 'W') {
                TRY(write_weights(writer, error));
                continue;
            }
            bool back = *letter == 'f' || *letter == 'i', backward = *letter == 'I' || *letter == 'i';
            int k = writer->next[back][backward]++;
            TRY(straight_compute(writer->program, backward ? OP_I : OP_F, back ? writer->back : writer->down, k, error));
        }
    return PS_OK;
}

static enum ps_status write_batch(struct writer *writer, int workers, int micro_batches, struct ps_error *error) {
    int place = writer->down, after = workers - 1 - place;
    TRY(put(writer, "F", 2 * after, error));
    TRY(put(writer, "Ff", place + 1, error));
    TRY(put(writer, "iWf", after, error));
    TRY(put(writer, "iWFIWf", micro_batches - workers - after, error));
    TRY(put(writer, "iWIWf", after, error));
    TRY(put(writer, "iI", place + 1, error));
    TRY(put(writer, "WI", after, error));
    return put(writer, "W", 2 * (place + 1), error);
}

/* Drops the missing micro-batches from the instructions from `begin` on, and numbers the others through the segment. */
static void keep_real(struct program *program, int begin, int first, int micro_batches) {
    int kept = begin;
    for (int i = begin; i < program->count; i++) {
        if (program->code[i].micro_batch >= micro_batches) continue;
        program->code[kept] = program->code[i];
        program->code[kept++].micro_batch += first;
    }
    program->count = kept;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int workers = programs->stages / 2, m = programs->micro_batches, stage = straight_stage(programs, worker);
    for (int batch = 0; stage >= 0 && batch < programs->batches; batch++) {
        struct writer writer = {
            .program = program, .down = stage, .back = programs->stages - 1 - stage, .weights = program->count};
        int begin = program->count;
        TRY(write_batch(&writer, workers, m < 2 * workers ? 2 * workers : m, error));
        keep_real(program, begin, batch * m, m);
    }
    return PS_OK;
}

const struct schedule schedule_zb_v = {
    .name = "zb-v",
    .summary = "two stages per worker in a V and the backward split: no bubble in 1f1b's memory (ZB-V)",
    .flush = true,
    .placement = &vee,
    .micro_batches = straight_micro_batches,
    .write = write,
};
