/*
 * A segment: every worker steps through its program, each on a thread of its own, through the run queue on a thread per core
 * (run_queue.h), or all in the caller's thread. The caller monitors them meanwhile. See executor.h.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "exec/executor.h"

#define WATCH_EVERY_S 0.05
/* After a loss, the time until a thread that has not finished its instruction is abandoned. */
#define END_WITHIN_S 2.0

/* ------------------------------------------------------------------- records */

static void clear_records(struct executor *executor) {
    for (int r = 0; r < executor->record_count; r++) {
        struct replica_record *record = &executor->records[r];
        memset(record->steps, 0, (size_t)executor->step_capacity * sizeof *record->steps);
        record->forwards = 0;
        atomic_store(&record->losses_done, 0);
        atomic_store(&record->updates_done, 0);
        record->evaluation = (struct stage_result){0};
    }
}

int executor_steps_done(const struct executor *executor) {
    int done = replica_record_done(&executor->records[0]);
    for (int r = 1; r < executor->record_count; r++) {
        int other = replica_record_done(&executor->records[r]);
        if (other < done) done = other;
    }
    return done;
}

struct step_record executor_step(const struct executor *executor, int step) {
    struct step_record sum = {0};
    for (int r = 0; r < executor->record_count; r++) {
        const struct step_record *record = &executor->records[r].steps[step];
        stage_result_add(&sum.sum, &record->sum);
        if (record->done_at > sum.done_at) sum.done_at = record->done_at;
    }
    return sum;
}

struct stage_result executor_evaluation(const struct executor *executor) {
    struct stage_result sum = {0};
    for (int r = 0; r < executor->record_count; r++) stage_result_add(&sum, &executor->records[r].evaluation);
    return sum;
}

/* ------------------------------------------------------------------ stepping */

/* The first error is kept; the other workers are stopped. */
static void executor_fail(struct executor *executor, enum ps_status status, const struct ps_error *error) {
    pthread_mutex_lock(&executor->lock);
    if (executor->status == PS_OK) {
        executor->status = status;
        executor->error = *error;
    }
    pthread_mutex_unlock(&executor->lock);
    atomic_store(&executor->failed, true);
    executor->transport_class->stop(executor->transport);
    if (executor->turns) run_queue_stop(executor->turns);
}

static void note_progress(struct executor *executor, int number, enum progress_kind kind) {
    progress_note(&executor->progress[number], executor->interpreters[number].next, kind);
}

struct process_state executor_state_of(const struct executor *executor, int number) {
    const struct progress *progress = &executor->progress[number];
    return (struct process_state){.segment = executor->segment_number,
                                  .next = progress_next(progress),
                                  .waiting = progress_kind(progress) == PROGRESS_WAITING,
                                  .evaluating = !executor->segment.training};
}

/* For the other processes. */
static void report_progress(const struct executor *executor) {
    struct process_state state = executor_state_of(executor, executor->processes->rank);
    processes_set_state(executor->processes, &state);
}

/* The last weights of a split stage may still be in transfer when a worker's program ends, and their slots are about to be
 * exchanged. Finds such a slot; false: all have arrived. */
static bool weights_travel(const struct executor *executor, int number, int *instance, int *slot) {
    const struct worker *worker = &executor->workers[number];
    for (int i = 0; i < worker->stage_count; i++) {
        const struct worker_stage *stage = &worker->stages[i];
        if (!programs_split(executor->segment.programs, stage->number)) continue;
        *instance = stage->instance;
        for (*slot = 0; *slot < stage->slots.weights; ++*slot)
            if (!executor->transport_class->settled(executor->transport, *instance, BLOCK_WEIGHTS, *slot)) return true;
    }
    return false;
}

/* In one thread they have arrived: both ends are posted before any worker's program ends. */
static void settle_weights(const struct executor *executor, int number) {
    int instance, slot;
    while (executor->transport_class->wait && weights_travel(executor, number, &instance, &slot))
        if (!executor->transport_class->wait(executor->transport, instance, BLOCK_WEIGHTS, slot)) return;
}

/* All weights have arrived: the newest move to slot 0. A device's next work on them, which may not be a computation, waits for
 * the transfers. */
static void end_segment(const struct executor *executor, int number) {
    struct worker *worker = &executor->workers[number];
    for (int i = 0; i < worker->stage_count && !device_in_host(worker->device); i++) {
        const struct worker_stage *stage = &worker->stages[i];
        if (!programs_split(executor->segment.programs, stage->number)) continue;
        for (int slot = 0; slot < stage->slots.weights; slot++) {
            struct moment settled =
                executor->transport_class->settled_at(executor->transport, stage->instance, BLOCK_WEIGHTS, slot);
            device_after(worker->device, &settled);
        }
    }
    worker_end_segment(worker);
}

/* Steps one worker until it has finished, has failed, or must wait. */
static enum step run_until_waiting(struct executor *executor, int number) {
    struct ps_error error = {0};
    enum step step;
    do {
        if (atomic_load_explicit(&executor->failed, memory_order_relaxed)) return STEP_FAILED;
        note_progress(executor, number, PROGRESS_WORKING);
        step = interpreter_step(&executor->interpreters[number], &error);
    } while (step == STEP_DONE);
    if (step == STEP_WAITING || step == STEP_FINISHED) note_progress(executor, number, PROGRESS_WAITING);
    if (step == STEP_FINISHED && executor_settle(executor, number, &error) != PS_OK) step = STEP_FAILED;
    if (step == STEP_FAILED) executor_fail(executor, error.status, &error);
    if (step == STEP_FINISHED) settle_weights(executor, number);
    if (step == STEP_FINISHED) end_segment(executor, number);
    return step;
}

/* Spins for the block, up to a limit: a sleeping thread wakes up late, and usually the block arrives soon. */
static void spin(const struct executor *executor, int instance, enum block_kind kind, int slot) {
    double until = clock_now() + SPIN_S;
    while (!executor->transport_class->settled(executor->transport, instance, kind, slot) &&
           !atomic_load_explicit(&executor->failed, memory_order_relaxed) && clock_spin(until))
        continue;
}

/* The work of a thread in a segment with one thread per worker. */
static void run_on_own_thread(struct executor *executor, int number) {
    const struct interpreter *interpreter = &executor->interpreters[number];
    while (run_until_waiting(executor, number) == STEP_WAITING) {
        int instance =
            programs_instance(executor->segment.programs, number, interpreter->program->code[interpreter->next].stage);
        if (executor->spins) spin(executor, instance, interpreter->waiting_kind, interpreter->waiting_slot);
        if (!executor->transport_class->wait(executor->transport, instance, interpreter->waiting_kind,
                                             interpreter->waiting_slot))
            return;
    }
    if (executor->transport_class->drain) executor->transport_class->drain(executor->transport);
    note_progress(executor, number, PROGRESS_DONE);
}

/* One computation of the worker and the transfers that follow it, as far as they can run. */
static enum slice run_slice(struct executor *executor, int number) {
    struct interpreter *interpreter = &executor->interpreters[number];
    struct ps_error error = {0};
    enum step step = STEP_DONE;
    bool came_on = false, computed = false;
    int instance, slot;
    while (step == STEP_DONE && !atomic_load_explicit(&executor->failed, memory_order_relaxed)) {
        bool ends = interpreter->next == interpreter->program->count;
        bool computes = !ends && instruction_computes(&interpreter->program->code[interpreter->next]);
        if (computed && computes) break;
        if (came_on) note_progress(executor, number, PROGRESS_WORKING);
        step = interpreter_step(interpreter, &error);
        came_on = came_on || step == STEP_DONE;
        computed = computed || computes;
    }
    if (step == STEP_FINISHED && executor_settle(executor, number, &error) != PS_OK) step = STEP_FAILED;
    if (step == STEP_FAILED) executor_fail(executor, error.status, &error);
    if (step == STEP_FINISHED && !weights_travel(executor, number, &instance, &slot)) {
        end_segment(executor, number);
        note_progress(executor, number, PROGRESS_DONE);
        return SLICE_FINISHED;
    }
    if (came_on) note_progress(executor, number, PROGRESS_WAITING);
    return came_on ? SLICE_PROGRESSED : SLICE_WAITS;
}

/* The work of a thread in a segment with a run queue. */
static void run_from_queue(struct executor *executor) {
    for (int number; (number = run_queue_take(executor->turns)) >= 0;) {
        run_queue_give(executor->turns, number, run_slice(executor, number));
    }
}

void *executor_thread_main(void *argument) {
    const struct executor_thread *member = argument;
    struct executor *executor = member->executor;
    int64_t done = 0;
    pthread_mutex_lock(&executor->lock);
    for (;;) {
        while (executor->segments == done && !executor->leave) pthread_cond_wait(&executor->begin, &executor->lock);
        if (executor->leave) break;
        done = executor->segments;
        pthread_mutex_unlock(&executor->lock);
        if (executor->turns)
            run_from_queue(executor);
        else
            run_on_own_thread(executor, member->number);
        pthread_mutex_lock(&executor->lock);
        if (--executor->running == 0) pthread_cond_signal(&executor->over);
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

/* ------------------------------------------------------------------- watching */

/* Has a worker of this process stalled? Then the run ends, for the other processes, too. */
static enum ps_status look_for_stall(struct executor *executor, struct ps_error *error) {
    if (atomic_load(&executor->failed)) return PS_OK;
    bool alone = executor->processes->count == 1;
    int worker = watchdog_look(&executor->watchdog, executor->progress, executor->first_here, executor->end_here, alone);
    if (worker < 0) return PS_OK;
    executor->stalled = worker;
    executor->stalled_s = executor->watchdog.still_s;
    struct process_loss loss = {.rank = executor->processes->rank, .kind = LOSS_STALLED, .seconds = executor->stalled_s};
    processes_lose(executor->processes, &loss);
    return error_set(error, PS_WORKER_LOST, "worker %d has made no progress for %.0f s", worker, executor->stalled_s);
}

static void look(struct executor *executor, enum ps_status (*watch)(void *context, struct ps_error *error), void *context) {
    struct ps_error error = {0};
    report_progress(executor);
    enum ps_status status = processes_check(executor->processes, &error);
    if (status == PS_OK) status = look_for_stall(executor, &error);
    if (status == PS_OK && watch) status = watch(context, &error);
    if (status != PS_OK) executor_fail(executor, status, &error);
}

static void wait_for_threads(struct executor *executor, enum ps_status (*watch)(void *context, struct ps_error *error),
                             void *context) {
    double lost_at = 0;
    pthread_mutex_lock(&executor->lock);
    while (executor->running > 0) {
        if (executor->status == PS_WORKER_LOST && lost_at == 0) lost_at = clock_now();
        executor->abandoned = lost_at > 0 && clock_now() - lost_at > END_WITHIN_S;
        if (executor->abandoned) break;
        double until = clock_now() + WATCH_EVERY_S;
        struct timespec time = {.tv_sec = (time_t)until};
        time.tv_nsec = (long)((until - (double)time.tv_sec) * 1e9);
        pthread_cond_timedwait(&executor->over, &executor->lock, &time);
        pthread_mutex_unlock(&executor->lock);
        look(executor, watch, context);
        pthread_mutex_lock(&executor->lock);
    }
    pthread_mutex_unlock(&executor->lock);
}

/* All workers in turn, each as far as it can run. */
static void run_in_turn(struct executor *executor, enum ps_status (*watch)(void *context, struct ps_error *error),
                        void *context) {
    int finished = 0;
    while (finished < executor->worker_count) {
        int before = 0, after = 0;
        finished = 0;
        for (int number = 0; number < executor->worker_count; number++) {
            before += executor->interpreters[number].next;
            enum step step = run_until_waiting(executor, number);
            if (step == STEP_FAILED) return;
            finished += step == STEP_FINISHED;
            after += executor->interpreters[number].next;
        }
        look(executor, watch, context);
        if (finished == executor->worker_count || before != after) continue;
        struct ps_error error = {0};
        error_set(&error, PS_FAILED, "internal error: deadlock: no worker can continue its program");
        executor_fail(executor, PS_FAILED, &error);
    }
}

/* ----------------------------------------------------------------- the segment */

enum ps_status executor_run(struct executor *executor, const struct segment *segment,
                            enum ps_status (*watch)(void *context, struct ps_error *error), void *context,
                            struct ps_error *error) {
    executor->segment = *segment;
    if (segment->training) {
        executor->recorded_batches = segment->programs->batches;
        executor->recorded_micro_batches = segment->programs->micro_batches;
    }
    /* A segment lies within one epoch. */
    if (segment->training && executor->lengths)
        sample_order_turn(&executor->order, segment->first_step / sample_order_batches(&executor->order));
    int kind = segment->training ? WORKER_DATA_TRAIN : WORKER_DATA_VALID;
    executor->segment_number++;
    clear_records(executor);
    watchdog_start(&executor->watchdog);
    for (int number = executor->first_here; number < executor->end_here; number++) {
        if (segment->training) worker_start_segment(&executor->workers[number], segment->programs, segment->first_step);
        TRY(worker_seek_data(&executor->workers[number], kind, segment->first_step, error));
        interpreter_start(&executor->interpreters[number], &segment->programs->worker[number], &executor->environment, number);
        note_progress(executor, number, PROGRESS_WORKING);
    }
    executor->segment_started_s = clock_now();
    for (int number = executor->first_here; number < executor->end_here; number++) {
        struct moment started = {.time = executor->segment_started_s};
        device_after(executor->workers[number].device, &started);
    }
    if (executor->turns) run_queue_start(executor->turns, executor->first_here, executor->end_here);
    if (executor->transport_class->own_threads) {
        pthread_mutex_lock(&executor->lock);
        executor->segments++;
        executor->running = executor->threads;
        pthread_cond_broadcast(&executor->begin);
        pthread_mutex_unlock(&executor->lock);
        wait_for_threads(executor, watch, context);
    } else {
        run_in_turn(executor, watch, context);
    }
    /* The last position. */
    if (executor->status != PS_OK) report_progress(executor);
    if (executor->status != PS_OK && error) *error = executor->error;
    return executor->status;
}
