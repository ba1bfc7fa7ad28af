/* Starting, driving and stopping the workers; see crew.h. */
#include "run/crew.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cores.h"

#define WATCH_EVERY_S 0.05
/* After a loss, until a thread that is still at its instruction is abandoned. */
#define END_WITHIN_S 2.0

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

static void clear_records(struct crew *crew) {
    for (int r = 0; r < crew->record_count; r++) {
        struct replica_record *record = &crew->records[r];
        memset(record->steps, 0, (size_t)crew->step_capacity * sizeof *record->steps);
        atomic_store(&record->steps_done, 0);
        record->evaluation = (struct stage_result){0};
    }
}

int crew_steps_done(const struct crew *crew) {
    int done = atomic_load_explicit(&crew->records[0].steps_done, memory_order_acquire);
    for (int r = 1; r < crew->record_count; r++) {
        int other = atomic_load_explicit(&crew->records[r].steps_done, memory_order_acquire);
        if (other < done) done = other;
    }
    return done;
}

struct step_record crew_step(const struct crew *crew, int step) {
    struct step_record sum = {0};
    for (int r = 0; r < crew->record_count; r++) {
        const struct step_record *record = &crew->records[r].steps[step];
        sum.loss += record->loss;
        sum.correct += record->correct;
        sum.correct5 += record->correct5;
        sum.counted += record->counted;
        if (record->done_at > sum.done_at) sum.done_at = record->done_at;
    }
    return sum;
}

struct stage_result crew_evaluation(const struct crew *crew) {
    struct stage_result sum = {0};
    for (int r = 0; r < crew->record_count; r++) {
        sum.loss += crew->records[r].evaluation.loss;
        sum.correct += crew->records[r].evaluation.correct;
        sum.correct5 += crew->records[r].evaluation.correct5;
        sum.counted += crew->records[r].evaluation.counted;
    }
    return sum;
}

enum ps_status crew_create(const struct crew_options *options, struct crew **out, struct ps_error *error) {
    struct crew *crew = calloc(1, sizeof *crew);
    if (!crew) return error_memory(error, "a crew", sizeof *crew);
    size_t count = (size_t)options->worker->plan->workers;
    crew->rule = options->rule;
    crew->transport_class = options->transport;
    crew->processes = options->processes;
    crew->end_here = (int)count;
    if (options->processes->count > 1) {
        crew->first_here = options->processes->rank;
        crew->end_here = options->processes->rank + 1;
    }
    crew->seed = options->seed;
    crew->real = options->worker->device->real;
    crew->samples = options->worker->samples;
    crew->labels = (int)graph_labels(options->worker->graph);
    crew->step_capacity = options->step_capacity;
    crew->stalled = -1;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begin, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    crew->workers = calloc(count, sizeof *crew->workers);
    crew->members = calloc(count, sizeof *crew->members);
    crew->interpreters = calloc(count, sizeof *crew->interpreters);
    crew->places = calloc(count, sizeof *crew->places);
    crew->sizes = calloc((size_t)options->worker->plan->stage_count, sizeof *crew->sizes);
    enum ps_status status = make_records(crew, options->worker->programs, error);
    if (status == PS_OK && (!crew->workers || !crew->sizes || !crew->members || !crew->interpreters || !crew->places))
        status = error_memory(error, "a crew", count * sizeof *crew->workers);
    if (status == PS_OK) status = watchdog_create((int)count, options->patience_s, &crew->watchdog, error);
    while (status == PS_OK && crew->worker_count < (int)count) {
        struct worker_options worker = *options->worker;
        worker.number = crew->worker_count;
        crew->workers[worker.number].number = worker.number;
        if (crew_has(crew, worker.number)) status = worker_create(&worker, &crew->workers[worker.number], error);
        if (status == PS_OK) crew->worker_count++;
    }
    if (status != PS_OK) {
        crew_destroy(crew);
        return status;
    }
    *out = crew;
    return PS_OK;
}

/* First error wins; the others are woken up. */
static void crew_fail(struct crew *crew, enum ps_status status, const struct ps_error *error) {
    pthread_mutex_lock(&crew->lock);
    if (crew->status == PS_OK) {
        crew->status = status;
        crew->error = *error;
    }
    pthread_mutex_unlock(&crew->lock);
    atomic_store(&crew->failed, true);
    crew->transport_class->stop(crew->transport);
    if (crew->turns) turns_stop(crew->turns);
}

/* ------------------------------------------------------------------- segments */

static void note_place(struct crew *crew, int number, enum place_kind kind) {
    place_note(&crew->places[number], crew->interpreters[number].next, kind);
}

struct process_state crew_state_of(const struct crew *crew, int number) {
    const struct place *place = &crew->places[number];
    return (struct process_state){.segment = crew->segment_number,
                                  .next = place_next(place),
                                  .waiting = place_kind(place) == PLACE_WAITING,
                                  .evaluating = !crew->segment.training};
}

/* For the other processes. */
static void tell_place(const struct crew *crew) {
    struct process_state state = crew_state_of(crew, crew->processes->rank);
    processes_set_state(crew->processes, &state);
}

/* The last weights of a split stage may still be on their way when a worker's list ends, and the slots that they come from or
 * go to are about to be exchanged. In one thread they never are: both ends are posted before any worker's list ends. */
static void settle_weights(struct crew *crew, int number) {
    const struct worker *worker = &crew->workers[number];
    for (int i = 0; i < worker->stage_count && crew->transport_class->wait; i++) {
        const struct worker_stage *stage = &worker->stages[i];
        bool split = programs_split(crew->segment.programs, stage->number);
        for (int slot = 0; split && slot < stage->slots.weights; slot++)
            crew->transport_class->wait(crew->transport, stage->part, BLOCK_WEIGHTS, slot);
    }
}

/* Steps one worker until it has finished (again and again, if asked), has failed, or must wait. */
static enum step run_until_waiting(struct crew *crew, int number) {
    struct ps_error error = {0};
    enum step step;
    do {
        if (atomic_load_explicit(&crew->failed, memory_order_relaxed)) return STEP_FAILED;
        note_place(crew, number, PLACE_AT_WORK);
        step = interpreter_step(&crew->interpreters[number], &error);
    } while (step == STEP_DONE);
    if (step == STEP_WAITING || step == STEP_FINISHED) note_place(crew, number, PLACE_WAITING);
    if (step == STEP_FAILED) crew_fail(crew, error.status, &error);
    if (step == STEP_FINISHED) settle_weights(crew, number);
    if (step == STEP_FINISHED) worker_end_segment(&crew->workers[number]);
    return step;
}

/* Waits for the block without sleeping, up to a limit: who sleeps wakes up late, and a block that is nearly there is the usual
 * case. */
static void look_on(const struct crew *crew, int part, enum block_kind kind, int slot) {
    double until = clock_now() + LOOK_ON_S;
    while (!crew->transport_class->settled(crew->transport, part, kind, slot) && clock_now() < until &&
           !atomic_load_explicit(&crew->failed, memory_order_relaxed))
        clock_pause();
}

static void run_on_own_thread(struct crew *crew, int number) {
    const struct interpreter *interpreter = &crew->interpreters[number];
    while (run_until_waiting(crew, number) == STEP_WAITING) {
        int part = programs_part(crew->segment.programs, number, interpreter->program->code[interpreter->next].stage);
        if (crew->looks_on) look_on(crew, part, interpreter->waiting_kind, interpreter->waiting_slot);
        if (!crew->transport_class->wait(crew->transport, part, interpreter->waiting_kind, interpreter->waiting_slot)) return;
    }
    if (crew->transport_class->drain) crew->transport_class->drain(crew->transport);
    note_place(crew, number, PLACE_AT_END);
}

/* Have all weights that travel arrived? */
static bool weights_settled(const struct crew *crew, int number) {
    const struct worker *worker = &crew->workers[number];
    for (int i = 0; i < worker->stage_count; i++) {
        const struct worker_stage *stage = &worker->stages[i];
        bool split = programs_split(crew->segment.programs, stage->number);
        for (int slot = 0; split && slot < stage->slots.weights; slot++)
            if (!crew->transport_class->settled(crew->transport, stage->part, BLOCK_WEIGHTS, slot)) return false;
    }
    return true;
}

/* One computation of the worker and the transfers that follow it, as far as it gets. */
static enum turn take_turn(struct crew *crew, int number) {
    struct interpreter *interpreter = &crew->interpreters[number];
    struct ps_error error = {0};
    enum step step = STEP_DONE;
    bool came_on = false, computed = false;
    while (step == STEP_DONE && !atomic_load_explicit(&crew->failed, memory_order_relaxed)) {
        bool ends = interpreter->next == interpreter->program->count;
        bool computes = !ends && instruction_computes(&interpreter->program->code[interpreter->next]);
        if (computed && computes) break;
        if (came_on) note_place(crew, number, PLACE_AT_WORK);
        step = interpreter_step(interpreter, &error);
        came_on = came_on || step == STEP_DONE;
        computed = computed || computes;
    }
    if (step == STEP_FAILED) crew_fail(crew, error.status, &error);
    if (step == STEP_FINISHED && weights_settled(crew, number)) {
        worker_end_segment(&crew->workers[number]);
        note_place(crew, number, PLACE_AT_END);
        return TURN_FINISHED;
    }
    if (came_on) note_place(crew, number, PLACE_WAITING);
    return came_on ? TURN_CAME_ON : TURN_WAITS;
}

static void run_turns(struct crew *crew) {
    for (int number; (number = turns_take(crew->turns)) >= 0;) {
        struct device *device = crew->workers[number].device;
        if (device->class->attach) device->class->attach(device);
        turns_give(crew->turns, number, take_turn(crew, number));
    }
}

static void *thread_main(void *argument) {
    const struct crew_member *member = argument;
    struct crew *crew = member->crew;
    struct device *device = crew->workers[member->number].device;
    if (device->class->attach) device->class->attach(device);
    int64_t done = 0;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (crew->segments == done && !crew->leave) pthread_cond_wait(&crew->begin, &crew->lock);
        if (crew->leave) break;
        done = crew->segments;
        pthread_mutex_unlock(&crew->lock);
        if (crew->turns)
            run_turns(crew);
        else
            run_on_own_thread(crew, member->number);
        pthread_mutex_lock(&crew->lock);
        if (--crew->running == 0) pthread_cond_signal(&crew->over);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* Has a worker here stalled? Then the run is over, for the other processes, too. */
static enum ps_status look_for_stall(struct crew *crew, struct ps_error *error) {
    if (atomic_load(&crew->failed)) return PS_OK;
    bool alone = crew->processes->count == 1;
    int worker = watchdog_look(&crew->watchdog, crew->places, crew->first_here, crew->end_here, alone);
    if (worker < 0) return PS_OK;
    crew->stalled = worker;
    crew->stalled_s = crew->watchdog.still_s;
    struct process_loss loss = {.rank = crew->processes->rank, .kind = LOSS_STALLED, .seconds = crew->stalled_s};
    processes_lose(crew->processes, &loss);
    return error_set(error, PS_WORKER_LOST, "worker %d has got nowhere for %.0f s", worker, crew->stalled_s);
}

static void look(struct crew *crew, enum ps_status (*watch)(void *context, struct ps_error *error), void *context) {
    struct ps_error error = {0};
    tell_place(crew);
    enum ps_status status = processes_check(crew->processes, &error);
    if (status == PS_OK) status = look_for_stall(crew, &error);
    if (status == PS_OK && watch) status = watch(context, &error);
    if (status != PS_OK) crew_fail(crew, status, &error);
}

static void wait_for_threads(struct crew *crew, enum ps_status (*watch)(void *context, struct ps_error *error), void *context) {
    double lost_at = 0;
    pthread_mutex_lock(&crew->lock);
    while (crew->running > 0) {
        if (crew->status == PS_WORKER_LOST && lost_at == 0) lost_at = clock_now();
        crew->abandoned = lost_at > 0 && clock_now() - lost_at > END_WITHIN_S;
        if (crew->abandoned) break;
        double until = clock_now() + WATCH_EVERY_S;
        struct timespec time = {.tv_sec = (time_t)until};
        time.tv_nsec = (long)((until - (double)time.tv_sec) * 1e9);
        pthread_cond_timedwait(&crew->over, &crew->lock, &time);
        pthread_mutex_unlock(&crew->lock);
        look(crew, watch, context);
        pthread_mutex_lock(&crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
}

/* All workers in turn, each as far as it gets. */
static void run_in_turn(struct crew *crew, enum ps_status (*watch)(void *context, struct ps_error *error), void *context) {
    int finished = 0;
    while (finished < crew->worker_count) {
        int before = 0, after = 0;
        finished = 0;
        for (int number = 0; number < crew->worker_count; number++) {
            before += crew->interpreters[number].next;
            enum step step = run_until_waiting(crew, number);
            if (step == STEP_FAILED) return;
            finished += step == STEP_FINISHED;
            after += crew->interpreters[number].next;
        }
        look(crew, watch, context);
        if (finished == crew->worker_count || before != after) continue;
        struct ps_error error = {0};
        error_set(&error, PS_FAILED, "internal error: no worker can go on with its program");
        crew_fail(crew, PS_FAILED, &error);
    }
}

enum ps_status crew_run(struct crew *crew, const struct segment *segment,
                        enum ps_status (*watch)(void *context, struct ps_error *error), void *context, struct ps_error *error) {
    crew->segment = *segment;
    if (segment->training) {
        crew->recorded_batches = segment->programs->batches;
        crew->recorded_micro_batches = segment->programs->micro_batches;
    }
    int kind = segment->training ? WORKER_DATA_TRAIN : WORKER_DATA_VALID;
    crew->segment_number++;
    clear_records(crew);
    watchdog_start(&crew->watchdog);
    for (int number = crew->first_here; number < crew->end_here; number++) {
        if (segment->training) worker_start_segment(&crew->workers[number], segment->programs, segment->first_step);
        TRY(worker_seek_data(&crew->workers[number], kind, segment->first_step, error));
        interpreter_start(&crew->interpreters[number], &segment->programs->worker[number], &crew->environment, number);
        note_place(crew, number, PLACE_AT_WORK);
    }
    crew->segment_started_s = clock_now();
    for (int number = crew->first_here; number < crew->end_here; number++) {
        struct device *device = crew->workers[number].device;
        if (device->class->not_before) device->class->not_before(device, crew->segment_started_s);
    }
    if (crew->turns) turns_start(crew->turns, crew->first_here, crew->end_here);
    if (crew->transport_class->own_threads) {
        pthread_mutex_lock(&crew->lock);
        crew->segments++;
        crew->running = crew->threads;
        pthread_cond_broadcast(&crew->begin);
        pthread_mutex_unlock(&crew->lock);
        wait_for_threads(crew, watch, context);
    } else {
        run_in_turn(crew, watch, context);
    }
    /* Where it stands at last. */
    if (crew->status != PS_OK) tell_place(crew);
    if (crew->status != PS_OK && error) *error = crew->error;
    return crew->status;
}

/* ---------------------------------------------------------------- start and end */

static enum ps_status start_threads(struct crew *crew, struct ps_error *error) {
    int end = crew->turns ? crew->first_here + crew->cores : crew->end_here;
    for (int number = crew->first_here; number < end; number++) {
        struct crew_member *member = &crew->members[crew->threads];
        *member = (struct crew_member){.crew = crew, .number = number};
        int code = pthread_create(&member->thread, NULL, thread_main, member);
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
    watchdog_free(&crew->watchdog);
    memory_block_release(&crew->travelling);
    free(crew->places);
    free(crew->interpreters);
    free(crew->members);
    free(crew->workers);
    free(crew->sizes);
    free(crew);
}
