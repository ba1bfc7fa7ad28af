/*
 * A segment: every worker steps through its program, each on a thread of its own, in turns on a thread per core (turns.h), or
 * all in the caller's thread; the caller meanwhile watches over them. See crew.h.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "run/crew.h"

#define WATCH_EVERY_S 0.05
/* After a loss, until a thread that is still at its instruction is abandoned. */
#define END_WITHIN_S 2.0

/* ------------------------------------------------------------------- records */

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

/* ------------------------------------------------------------------ stepping */

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
 * go to are about to be exchanged. Finds such a slot; false: all have arrived. */
static bool weights_travel(const struct crew *crew, int number, int *part, int *slot) {
    const struct worker *worker = &crew->workers[number];
    for (int i = 0; i < worker->stage_count; i++) {
        const struct worker_stage *stage = &worker->stages[i];
        if (!programs_split(crew->segment.programs, stage->number)) continue;
        *part = stage->part;
        for (*slot = 0; *slot < stage->slots.weights; ++*slot)
            if (!crew->transport_class->settled(crew->transport, *part, BLOCK_WEIGHTS, *slot)) return true;
    }
    return false;
}

/* In one thread they have arrived: both ends are posted before any worker's list ends. */
static void settle_weights(const struct crew *crew, int number) {
    int part, slot;
    while (crew->transport_class->wait && weights_travel(crew, number, &part, &slot))
        if (!crew->transport_class->wait(crew->transport, part, BLOCK_WEIGHTS, slot)) return;
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

/* What a thread does in a segment where each worker has its own. */
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

/* One computation of the worker and the transfers that follow it, as far as it gets. */
static enum turn take_turn(struct crew *crew, int number) {
    struct interpreter *interpreter = &crew->interpreters[number];
    struct ps_error error = {0};
    enum step step = STEP_DONE;
    bool came_on = false, computed = false;
    int part, slot;
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
    if (step == STEP_FINISHED && !weights_travel(crew, number, &part, &slot)) {
        worker_end_segment(&crew->workers[number]);
        note_place(crew, number, PLACE_AT_END);
        return TURN_FINISHED;
    }
    if (came_on) note_place(crew, number, PLACE_WAITING);
    return came_on ? TURN_CAME_ON : TURN_WAITS;
}

/* What a thread does in a segment where workers take turns. */
static void run_turns(struct crew *crew) {
    for (int number; (number = turns_take(crew->turns)) >= 0;) {
        struct device *device = crew->workers[number].device;
        if (device->class->attach) device->class->attach(device);
        turns_give(crew->turns, number, take_turn(crew, number));
    }
}

void *crew_thread(void *argument) {
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

/* ------------------------------------------------------------------- watching */

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

/* ----------------------------------------------------------------- the segment */

enum ps_status crew_run(struct crew *crew, const struct segment *segment,
                        enum ps_status (*watch)(void *context, struct ps_error *error), void *context, struct ps_error *error) {
    crew->segment = *segment;
    if (segment->training) {
        crew->recorded_batches = segment->programs->batches;
        crew->recorded_micro_batches = segment->programs->micro_batches;
    }
    /* A segment ends with its epoch. */
    if (segment->training && crew->lengths)
        sample_order_turn(&crew->order, segment->first_step / sample_order_batches(&crew->order));
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
