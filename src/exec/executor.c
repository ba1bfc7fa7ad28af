/* Making the workers, starting their threads and stopping them; see executor.h. How they run is in executor_run.c. */
#include "exec/executor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/processor.h"
#include "base/thread.h"
#include "comm/transports/gradient_sum.h"

/* ------------------------------------------------------------------ creation */

/* Locks and conditions; timed waits for `over` use the monotonic clock. */
static void make_locks(struct executor *executor) {
    pthread_condattr_t monotonic;
    pthread_mutex_init(&executor->lock, NULL);
    pthread_cond_init(&executor->begin, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&executor->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* The tables per worker, per stage and per replica of the last stage. */
static enum ps_status make_tables(struct executor *executor, const struct ps_plan *plan, const struct ps_programs *programs,
                                  struct ps_error *error) {
    struct arena *arena = &executor->arena;
    const size_t workers = (size_t)plan->workers, replicas = (size_t)programs_replicas(programs, programs->stages - 1);
    executor->workers = arena_take(arena, workers, sizeof *executor->workers);
    executor->members = arena_take(arena, workers, sizeof *executor->members);
    executor->interpreters = arena_take(arena, workers, sizeof *executor->interpreters);
    executor->progress = arena_take(arena, workers, sizeof *executor->progress);
    executor->sizes = arena_take(arena, (size_t)plan->stage_count, sizeof *executor->sizes);
    executor->records = arena_take(arena, replicas, sizeof *executor->records);
    executor->record_count = (int)replicas;
    for (size_t r = 0; r < replicas && executor->records; r++)
        executor->records[r].steps = arena_take(arena, (size_t)executor->step_capacity + 1, sizeof *executor->records[r].steps);
    return arena_check(arena, "an executor", error);
}

static enum ps_status make_workers(struct executor *executor, const struct worker_options *options, struct ps_error *error) {
    for (int number = 0; number < options->plan->workers; number++, executor->worker_count++) {
        struct worker_options worker = *options;
        worker.number = executor->workers[number].number = number;
        if (executor_has(executor, number)) TRY(worker_create(&worker, &executor->workers[number], error));
    }
    return PS_OK;
}

enum ps_status executor_create(const struct executor_options *options, struct executor **out, struct ps_error *error) {
    const struct worker_options *worker = options->worker;
    const struct processes *processes = options->processes;
    bool several = processes->count > 1;
    struct executor *executor;
    TRY(memory_new(&executor, 1, "an executor", error));
    executor->rule = options->rule;
    executor->transport_class = options->transport;
    executor->processes = options->processes;
    executor->first_here = several ? processes->rank : 0;
    executor->end_here = several ? processes->rank + 1 : worker->plan->workers;
    executor->seed = options->seed;
    executor->lengths = options->lengths;
    executor->real = worker->device->real;
    executor->samples = worker->samples;
    const struct shape target = graph_target(worker->graph);
    executor->target_bytes = (size_t)shape_bytes(&target);
    executor->step_capacity = options->step_capacity;
    executor->stalled = -1;
    make_locks(executor);
    enum ps_status status = make_tables(executor, worker->plan, worker->programs, error);
    if (status == PS_OK) status = watchdog_create(worker->plan->workers, options->patience_s, &executor->watchdog, error);
    if (status == PS_OK && executor->lengths)
        status = sample_order_create(executor->lengths->samples, options->batch, executor->seed, executor->lengths,
                                     &executor->order, error);
    if (status == PS_OK) status = make_workers(executor, worker, error);
    if (status != PS_OK) {
        executor_destroy(executor);
        return status;
    }
    *out = executor;
    return PS_OK;
}

/* ---------------------------------------------------------------- start and end */

static enum ps_status start_threads(struct executor *executor, struct ps_error *error) {
    int end = executor->turns ? executor->first_here + executor->cores : executor->end_here;
    for (int number = executor->first_here; number < end; number++) {
        struct executor_thread *member = &executor->members[executor->threads];
        *member = (struct executor_thread){.executor = executor, .number = number};
        int code = thread_start(&member->thread, executor_thread_main, member);
        if (code) return error_set(error, PS_FAILED, "cannot start a thread for worker %d: %s", number, strerror(code));
        executor->threads++;
    }
    return PS_OK;
}

/* Of this run, on the host of this process. */
static int workers_on_host(const struct executor *executor) {
    const struct processes *processes = executor->processes;
    return processes->count > 1 ? processes_on_host(processes, processes->rank) : executor->worker_count;
}

/* A device that only waits needs no core, and an emulated slower one should not occupy a core while it waits. */
static enum ps_status share_cores(struct executor *executor, const struct worker_options *worker, struct ps_error *error) {
    const struct processes *processes = executor->processes;
    const int usable = processes->count > 1 ? processes->info[processes->rank].cores : cores_usable();
    int workers = workers_on_host(executor), cores = usable / worker->threads;
    executor->cores = cores > 1 ? cores : 1;
    executor->spins = executor->real && workers <= cores;
    bool share = executor->real && workers > cores && executor->transport_class->own_threads;
    return share && executor->processes->count == 1 && !worker->emulated ? run_queue_create(workers, &executor->turns, error)
                                                                         : PS_OK;
}

static enum ps_status initialize_weights(struct executor *executor, struct ps_error *error) {
    for (int number = 0; number < executor->worker_count; number++)
        for (int i = 0; i < executor->workers[number].stage_count; i++) {
            struct worker_stage *stage = &executor->workers[number].stages[i];
            TRY(stage_initialize(stage->stage, executor->seed, stage->update.master, stage->weights[0], stage->statistics,
                                 error));
        }
    return PS_OK;
}

/* What several stages share: of a device that computes nothing, as the plan says, since its graph is one of costs. */
static enum ps_status find_tied(struct executor *executor, const struct worker_options *worker, struct ties *ties,
                                struct ps_error *error) {
    struct arena *arena = &executor->arena;
    const struct ps_plan *plan = worker->plan;
    *ties = plan->ties;
    if (executor->real) TRY(ties_find(worker->graph, arena, ties, error));
    if (!executor->real && plan->tied) TRY(ties_ends(worker->graph->layer_count, 0, arena, ties, error));
    executor->tied = arena_take(arena, (size_t)ties->count, sizeof *executor->tied);
    for (int t = 0; t < ties->count && arena->refused == 0; t++) {
        const struct tie *tie = &ties->list[t];
        int *stages = arena_take(arena, (size_t)tie->uses, sizeof *stages);
        for (int u = 0; u < tie->uses && stages; u++) stages[u] = plan_stage_of(plan, tie->layers[u]);
        /* Of a stage's own alone the uses count as none. */
        const bool several = stages && stages[0] != stages[tie->uses - 1];
        executor->tied[executor->tied_count++] =
            (struct tied_parameter){.count = tie->parameter ? (size_t)shape_elements(&tie->parameter->shape) : 0,
                                    .stages = stages,
                                    .uses = several ? tie->uses : 0};
    }
    return arena_status(arena, "shared parameters", error);
}

/* Where the gradients of the stage's uses of these lie. */
static enum ps_status point_to_tied(struct executor *executor, const struct ties *ties, struct worker_stage *stage,
                                    struct ps_error *error) {
    const int count = tied_position(executor->tied, executor->tied_count, stage->number);
    float **next = stage->tied = arena_take(&executor->arena, (size_t)count, sizeof(*stage->tied));
    TRY(arena_status(&executor->arena, "shared parameters", error));
    for (int t = 0; t < executor->tied_count && stage->gradients; t++) {
        const int uses = tied_uses_in(&executor->tied[t], stage->number);
        const struct stage_tie *tie = executor->real ? stage->update.ties : NULL;
        while (uses > 0 && tie && strcmp(tie->parameter->name, ties->list[t].parameter->name) != 0) tie++;
        for (int u = 0; u < uses; u++) *next++ = stage->gradients + (tie ? tie->gradients[u] : 0);
    }
    return PS_OK;
}

enum ps_status executor_start(struct executor *executor, const struct worker_options *worker, struct ps_error *error) {
    struct ties ties;
    TRY(find_tied(executor, worker, &ties, error));
    for (int number = executor->first_here; number < executor->end_here; number++) {
        struct worker_options options = *worker;
        options.number = number;
        options.shared = executor->transport_class->shares_memory && processes_has_shared_peers(executor->processes, number);
        TRY(worker_take_memory(&executor->workers[number], &options, error));
        for (int i = 0; i < executor->workers[number].stage_count; i++) {
            struct worker_stage *stage = &executor->workers[number].stages[i];
            executor->sizes[stage->number] = stage->sizes;
            TRY(point_to_tied(executor, &ties, stage, error));
        }
    }
    TRY(share_cores(executor, worker, error));
    if (executor->real) TRY(initialize_weights(executor, error));
    /* Backs all pages, so that no step of training has page faults. It is done only now, so that the temporary memory of the
     * initial weights does not add to the plan. A clock's blocks, of any size, are never read or written. */
    for (int number = executor->first_here; executor->real && number < executor->end_here; number++)
        if (device_in_host(executor->workers[number].device)) memory_block_touch(&executor->workers[number].memory);
    struct transport_options options = {.programs = worker->programs,
                                        .tied = executor->tied,
                                        .tied_count = executor->tied_count,
                                        .slots = worker->slots,
                                        .processes = executor->processes,
                                        .sizes = executor->sizes,
                                        .emulated = worker->emulated,
                                        .cluster = worker->cluster,
                                        .shared_backed = executor->real};
    const struct worker *here = &executor->workers[executor->first_here];
    options.device = here->device;
    if (here->shared.memory.base) options.shared = &here->shared;
    TRY(executor->transport_class->create(executor->transport_class, &options, &executor->transport, error));
    executor->environment = executor_environment(executor);
    return executor->transport_class->own_threads ? start_threads(executor, error) : PS_OK;
}

void executor_destroy(struct executor *executor) {
    if (!executor) return;
    for (int number = 0; number < executor->worker_count; number++) worker_stop_reading(&executor->workers[number]);
    if (executor->abandoned) return;
    pthread_mutex_lock(&executor->lock);
    executor->leave = true;
    pthread_cond_broadcast(&executor->begin);
    pthread_mutex_unlock(&executor->lock);
    for (int thread = 0; thread < executor->threads; thread++) pthread_join(executor->members[thread].thread, NULL);
    run_queue_destroy(executor->turns);
    /* Their queues wait for each other, and copy to and from memory that is freed next. */
    for (int number = 0; number < executor->worker_count; number++)
        if (executor->workers[number].device && !device_in_host(executor->workers[number].device))
            device_finish(executor->workers[number].device);
    if (executor->transport) executor->transport_class->destroy(executor->transport);
    for (int number = 0; number < executor->worker_count; number++) worker_destroy(&executor->workers[number]);
    pthread_cond_destroy(&executor->over);
    pthread_cond_destroy(&executor->begin);
    pthread_mutex_destroy(&executor->lock);
    sample_order_free(&executor->order);
    watchdog_free(&executor->watchdog);
    memory_block_release(&executor->travelling);
    arena_release(&executor->arena);
    free(executor);
}
