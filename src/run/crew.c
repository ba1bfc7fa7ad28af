/* Making the workers, starting their threads and stopping them; see crew.h. How they run is in crew_run.c. */
#include "run/crew.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cores.h"

/* ------------------------------------------------------------------ creation */

static enum ps_status make_records(struct crew *crew, const struct ps_programs *programs, struct ps_error *error) {
    int replicas = programs_replicas(programs, programs->stages - 1);
    crew->records = calloc((size_t)replicas, sizeof *crew->records);
    if (!crew->records) return error_memory(error, "a crew", (size_t)replicas * sizeof *crew->records);
    for (; crew->record_count < replicas; crew->record_count++) {
        struct replica_record *record = &crew->records[crew->record_count];
        record->steps = calloc((size_t)crew->step_capacity + 1, sizeof *record->steps);
        if (!record->steps) return error_memory(error, "a crew", (size_t)crew->step_capacity * sizeof *record->steps);
    }
    return PS_OK;
}

/* Locks and conditions; `over` is waited for until a time by the clock that nobody sets. */
static void make_locks(struct crew *crew) {
    pthread_condattr_t monotonic;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begin, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* What there is for each worker and each stage. */
static enum ps_status make_arrays(struct crew *crew, const struct ps_plan *plan, struct ps_error *error) {
    size_t workers = (size_t)plan->workers;
    crew->workers = calloc(workers, sizeof *crew->workers);
    crew->members = calloc(workers, sizeof *crew->members);
    crew->interpreters = calloc(workers, sizeof *crew->interpreters);
    crew->places = calloc(workers, sizeof *crew->places);
    crew->sizes = calloc((size_t)plan->stage_count, sizeof *crew->sizes);
    bool made = crew->workers && crew->members && crew->interpreters && crew->places && crew->sizes;
    return made ? PS_OK : error_memory(error, "a crew", workers * sizeof *crew->workers);
}

static enum ps_status make_workers(struct crew *crew, const struct worker_options *options, struct ps_error *error) {
    for (int number = 0; number < options->plan->workers; number++, crew->worker_count++) {
        struct worker_options worker = *options;
        worker.number = crew->workers[number].number = number;
        if (crew_has(crew, number)) TRY(worker_create(&worker, &crew->workers[number], error));
    }
    return PS_OK;
}

enum ps_status crew_create(const struct crew_options *options, struct crew **out, struct ps_error *error) {
    const struct worker_options *worker = options->worker;
    const struct processes *processes = options->processes;
    bool several = processes->count > 1;
    struct crew *crew = calloc(1, sizeof *crew);
    if (!crew) return error_memory(error, "a crew", sizeof *crew);
    crew->rule = options->rule;
    crew->transport_class = options->transport;
    crew->processes = options->processes;
    crew->first_here = several ? processes->rank : 0;
    crew->end_here = several ? processes->rank + 1 : worker->plan->workers;
    crew->seed = options->seed;
    crew->lengths = options->lengths;
    crew->real = worker->device->real;
    crew->samples = worker->samples;
    crew->labels = (int)graph_labels(worker->graph);
    crew->step_capacity = options->step_capacity;
    crew->stalled = -1;
    make_locks(crew);
    enum ps_status status = make_arrays(crew, worker->plan, error);
    if (status == PS_OK) status = make_records(crew, worker->programs, error);
    if (status == PS_OK) status = watchdog_create(worker->plan->workers, options->patience_s, &crew->watchdog, error);
    if (status == PS_OK && crew->lengths)
        status = sample_order_create(crew->lengths->samples, options->batch, crew->seed, crew->lengths, &crew->order, error);
    if (status == PS_OK) status = make_workers(crew, worker, error);
    if (status != PS_OK) {
        crew_destroy(crew);
        return status;
    }
    *out = crew;
    return PS_OK;
}

/* ---------------------------------------------------------------- start and end */

static enum ps_status start_threads(struct crew *crew, struct ps_error *error) {
    int end = crew->turns ? crew->first_here + crew->cores : crew->end_here;
    for (int number = crew->first_here; number < end; number++) {
        struct crew_member *member = &crew->members[crew->threads];
        *member = (struct crew_member){.crew = crew, .number = number};
        int code = pthread_create(&member->thread, NULL, crew_thread, member);
        if (code) return error_set(error, PS_FAILED, "cannot start a thread for worker %d: %s", number, strerror(code));
        crew->threads++;
    }
    return PS_OK;
}

/* Of this run, on the host of this process. */
static int workers_on_host(const struct crew *crew) {
    const struct processes *processes = crew->processes;
    return processes->count > 1 ? processes_on_host(processes, processes->rank) : crew->worker_count;
}

/* A device that only waits needs no core, and one that waits to seem slower should not have one meanwhile. */
static enum ps_status share_cores(struct crew *crew, const struct worker_options *worker, struct ps_error *error) {
    int workers = workers_on_host(crew), cores = cores_usable() / worker->threads;
    crew->cores = cores > 1 ? cores : 1;
    crew->looks_on = crew->real && workers <= cores;
    bool share = crew->real && workers > cores && crew->transport_class->own_threads;
    return share && crew->processes->count == 1 && !worker->emulated ? turns_create(workers, &crew->turns, error) : PS_OK;
}

static enum ps_status initialize_weights(struct crew *crew, struct ps_error *error) {
    for (int number = 0; number < crew->worker_count; number++)
        for (int i = 0; i < crew->workers[number].stage_count; i++) {
            struct worker_stage *stage = &crew->workers[number].stages[i];
            TRY(stage_initialize(stage->stage, crew->seed, stage->weights[0], stage->statistics, error));
        }
    return PS_OK;
}

enum ps_status crew_start(struct crew *crew, const struct worker_options *worker, struct ps_error *error) {
    for (int number = crew->first_here; number < crew->end_here; number++) {
        struct worker_options options = *worker;
        options.number = number;
        options.shared = crew->transport_class->shares_memory && processes_has_neighbours(crew->processes, number);
        TRY(worker_take_memory(&crew->workers[number], &options, error));
        for (int i = 0; i < crew->workers[number].stage_count; i++)
            crew->sizes[crew->workers[number].stages[i].number] = crew->workers[number].stages[i].sizes;
    }
    TRY(share_cores(crew, worker, error));
    if (crew->real) TRY(initialize_weights(crew, error));
    /* Page faults belong to no step of training. Only now, so that what the weights' making took for a while and gave back does
     * not come on top of the plan. A clock's blocks, of any size, are never read or written. */
    for (int number = crew->first_here; crew->real && number < crew->end_here; number++)
        memory_block_touch(&crew->workers[number].memory);
    struct transport_options options = {.programs = worker->programs,
                                        .slots = worker->slots,
                                        .processes = crew->processes,
                                        .sizes = crew->sizes,
                                        .emulated = worker->emulated,
                                        .cluster = worker->cluster,
                                        .shared_backed = crew->real};
    const struct worker *here = &crew->workers[crew->first_here];
    if (here->shared.memory.base) options.shared = &here->shared;
    for (int stage = 0; stage < worker->programs->stages; stage++)
        if (programs_sums(worker->programs, stage) && !crew->transport_class->reduce)
            return error_set(error, PS_USAGE, "--transport: %s cannot add up the gradients of stage %d over %d workers",
                             crew->transport_class->name, stage, programs_sum_group(worker->programs, stage).size);
    TRY(crew->transport_class->create(&options, &crew->transport, error));
    crew->environment = crew_environment(crew);
    return crew->transport_class->own_threads ? start_threads(crew, error) : PS_OK;
}

void crew_destroy(struct crew *crew) {
    if (!crew || crew->abandoned) return;
    pthread_mutex_lock(&crew->lock);
    crew->leave = true;
    pthread_cond_broadcast(&crew->begin);
    pthread_mutex_unlock(&crew->lock);
    for (int thread = 0; thread < crew->threads; thread++) pthread_join(crew->members[thread].thread, NULL);
    turns_destroy(crew->turns);
    if (crew->transport) crew->transport_class->destroy(crew->transport);
    for (int number = 0; number < crew->worker_count; number++) worker_destroy(&crew->workers[number]);
    pthread_cond_destroy(&crew->over);
    pthread_cond_destroy(&crew->begin);
    pthread_mutex_destroy(&crew->lock);
    for (int r = 0; r < crew->record_count; r++) free(crew->records[r].steps);
    free(crew->records);
    sample_order_free(&crew->order);
    watchdog_free(&crew->watchdog);
    memory_block_release(&crew->travelling);
    free(crew->places);
    free(crew->interpreters);
    free(crew->members);
    free(crew->workers);
    free(crew->sizes);
    free(crew);
}
