/*
 * What a transfer costs the computation beside it: two workers compute the stages of a plan again and again, every other time
 * while a block of the cut goes from each to the other, through the same transport, worker memory and stages as in training.
 *
 *     transfer PLAN TRANSPORT [ROUNDS]
 *
 * alone, or under mpirun with a transport over MPI. For each round and worker it prints a line: MiB of the block, milliseconds
 * of a computation alone, of one beside a transfer, and of this one with the time that the worker then still waits.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/transport.h"
#include "exec/worker.h"
#include "graph/model.h"

enum { WORKERS = 2, WARMUP = 3, ROUNDS_MAX = 1000 };
/* Slots: what is computed on, and what travels. */
enum { OWN, GUEST, SLOTS };

static const struct stage_slots slots[WORKERS] = {
    {.weights = 1, .stash = 1, .input = SLOTS, .output = SLOTS, .output_gradient = SLOTS, .input_gradient = SLOTS},
    {.weights = 1, .stash = 1, .input = SLOTS, .output = SLOTS, .output_gradient = SLOTS, .input_gradient = SLOTS},
};

/* Of one round. */
struct figures {
    double alone_s, beside_s, with_wait_s;
};

struct bench {
    const struct transport_class *class;
    struct transport *transport;
    struct worker workers[WORKERS];
    struct stage_sizes sizes[WORKERS];
    int rounds;
    struct figures figures[WORKERS][ROUNDS_MAX];
};

/* A worker's argument. */
struct turn {
    struct bench *bench;
    int number;
};

static void check(enum ps_status status, const struct ps_error *error) {
    if (status == PS_OK) return;
    fprintf(stderr, "transfer: %s\n", error->message);
    exit(status);
}

/* ---------------------------------------------------------------------- transfers */

static enum block_kind sent_by(int number) { return number == 0 ? BLOCK_OUTPUT : BLOCK_INPUT_GRADIENT; }
static enum block_kind received_by(int number) { return number == 0 ? BLOCK_OUTPUT_GRADIENT : BLOCK_INPUT; }

static void post(struct bench *bench, int number) {
    struct worker_stage *stage = &bench->workers[number].stages[0];
    enum block_kind kinds[] = {received_by(number), sent_by(number)};
    for (int k = 0; k < 2; k++)
        bench->class->post(bench->transport, number, kinds[k], GUEST, 1 - number, &stage->block[kinds[k]][GUEST],
                           &(struct moment){.time = clock_now()});
}

static void settle(struct bench *bench, int number) {
    bench->class->wait(bench->transport, number, received_by(number), GUEST);
    bench->class->wait(bench->transport, number, sent_by(number), GUEST);
}

static void move_along(void *context, int layer) {
    const struct bench *bench = context;
    (void)layer;
    bench->class->progress(bench->transport);
}

/* -------------------------------------------------------------------- computation */

static float *own_block(const struct worker_stage *stage, enum block_kind kind) { return stage->block[kind][OWN]; }

/* A forward and its backward. */
static void compute(struct bench *bench, int number, int round) {
    struct ps_error error = {0};
    struct worker *worker = &bench->workers[number];
    struct worker_stage *stage = &worker->stages[0];
    bool first = number == 0, last = number == WORKERS - 1;
    struct stage_blocks blocks = {.weights = stage->weights[0],
                                  .gradients = stage->gradients,
                                  .statistics = stage->statistics,
                                  .input = own_block(stage, BLOCK_INPUT),
                                  .output = last ? NULL : own_block(stage, BLOCK_OUTPUT),
                                  .stash = own_block(stage, BLOCK_STASH),
                                  .output_gradient = last ? NULL : own_block(stage, BLOCK_OUTPUT_GRADIENT),
                                  .input_gradient = first ? NULL : own_block(stage, BLOCK_INPUT_GRADIENT),
                                  .workspace = worker->workspace};
    struct stage_step step = {.step = (uint64_t)round,
                              .target = stage->targets ? stage->targets[OWN] : NULL,
                              .gradient_scale = 1,
                              .training = true,
                              .between = bench->class->progress ? move_along : NULL,
                              .between_context = bench};
    struct stage_result result = {0};
    check(stage_forward(stage->stage, &blocks, &step, &result, &error), &error);
    check(stage_backward(stage->stage, &blocks, &step, STAGE_BOTH, &error), &error);
}

/* A block as if it had just been made. */
static void make_block(const struct bench *bench, int number) {
    const struct worker_stage *stage = &bench->workers[number].stages[0];
    memset(stage->block[sent_by(number)][GUEST], 0, (size_t)stage_block_bytes(&stage->sizes, sent_by(number)));
}

static void *run(void *argument) {
    const struct turn *turn = argument;
    struct bench *bench = turn->bench;
    for (int round = -WARMUP; round < bench->rounds; round++) {
        double computed_s[2], whole_s[2];
        for (int i = 0; i < 2; i++) {
            /* Which comes first alternates. */
            bool beside = i != (round & 1);
            /* Both begin together. */
            post(bench, turn->number);
            settle(bench, turn->number);
            make_block(bench, turn->number);
            double begin = clock_now();
            if (beside) post(bench, turn->number);
            compute(bench, turn->number, round + WARMUP);
            computed_s[beside] = clock_now() - begin;
            settle(bench, turn->number);
            whole_s[beside] = clock_now() - begin;
        }
        if (round >= 0)
            bench->figures[turn->number][round] = (struct figures){computed_s[false], computed_s[true], whole_s[true]};
    }
    return NULL;
}

/* ------------------------------------------------------------------- start and end */

static struct ps_programs *make_programs(void) {
    struct ps_error error = {0};
    struct ps_programs *programs;
    struct instance parts[WORKERS];
    for (int w = 0; w < WORKERS; w++)
        parts[w] = (struct instance){.stage = w, .worker = w, .forward = true, .backward = true, .replicas = 1};
    check(programs_create(WORKERS, WORKERS, &programs, &error), &error);
    check(programs_set_instances(programs, parts, WORKERS, &error), &error);
    return programs;
}

static void start_worker(struct bench *bench, const struct worker_options *options) {
    struct ps_error error = {0};
    struct worker *worker = &bench->workers[options->number];
    check(worker_create(options, worker, &error), &error);
    check(worker_take_memory(worker, options, &error), &error);
    struct worker_stage *stage = &worker->stages[0];
    check(stage_initialize(stage->stage, 0, stage->update.master, stage->weights[0], stage->statistics, &error), &error);
    bench->sizes[stage->number] = stage->sizes;
}

/* Both workers' threads, or this process's worker. */
static void measure(struct bench *bench, int first, int end) {
    struct turn turns[WORKERS];
    pthread_t threads[WORKERS];
    for (int w = first; w < end; w++) {
        turns[w] = (struct turn){bench, w};
        if (pthread_create(&threads[w], NULL, run, &turns[w]) != 0) exit(PS_FAILED);
    }
    for (int w = first; w < end; w++) pthread_join(threads[w], NULL);
}

static void print(const struct bench *bench) {
    double mib = (double)stage_block_bytes(&bench->sizes[0], BLOCK_OUTPUT) / (1 << 20);
    for (int w = 0; w < WORKERS; w++)
        for (int r = 0; r < bench->rounds; r++) {
            const struct figures *of = &bench->figures[w][r];
            printf("%s %d %.1f %.3f %.3f %.3f\n", bench->class->name, w, mib, 1e3 * of->alone_s, 1e3 * of->beside_s,
                   1e3 * of->with_wait_s);
        }
}

int main(int argc, char **argv) {
    struct ps_error error = {0};
    static struct bench bench;
    bench.rounds = argc > 3 ? atoi(argv[3]) : 100;
    struct ps_plan *plan;
    struct ps_network *model;
    struct processes *processes;
    const struct device_class *device;
    if (argc < 3 || bench.rounds < 1 || bench.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: transfer PLAN TRANSPORT [ROUNDS]\n");
        return PS_USAGE;
    }
    check(ps_plan_read(argv[1], &plan, &error), &error);
    check(ps_network_open(plan->model, &model, &error), &error);
    check(transport_find(argv[2], &bench.class, &error), &error);
    check(device_find("cpu", &device, &error), &error);
    check(processes_join(bench.class->processes, &processes, &error), &error);
    bool apart = processes->count > 1;
    int first = apart ? processes->rank : 0, end = apart ? first + 1 : WORKERS;
    struct ps_programs *programs = make_programs();
    struct worker_options options = {.device = device,
                                     .threads = 1,
                                     .graph = model->graph,
                                     .plan = plan,
                                     .samples = plan->micro_batch,
                                     .slots = slots,
                                     .programs = programs,
                                     .shared = bench.class->shares_memory && processes_has_shared_peers(processes, first)};
    for (options.number = first; options.number < end; options.number++) start_worker(&bench, &options);
    struct transport_options transport = {
        .programs = programs, .slots = slots, .processes = processes, .sizes = bench.sizes, .shared_backed = true};
    if (bench.workers[first].shared.memory.base) transport.shared = &bench.workers[first].shared;
    check(bench.class->create(bench.class, &transport, &bench.transport, &error), &error);
    measure(&bench, first, end);
    if (apart) check(processes_gather(processes, bench.figures[first], sizeof *bench.figures, bench.figures, &error), &error);
    if (first == 0) print(&bench);
    bench.class->destroy(bench.transport);
    check(processes_leave(processes, PS_OK, &error), &error);
    for (int w = first; w < end; w++) worker_destroy(&bench.workers[w]);
    ps_programs_destroy(programs);
    ps_network_destroy(model);
    ps_plan_destroy(plan);
    return 0;
}
