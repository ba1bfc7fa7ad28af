/*
 * Discrete events: each event lets one worker continue its program until it computes, waits or ends, at one simulated time. A
 * computation is an event at its end; blocks that arrive wake the workers that wait for them (transfer.c).
 */
#include "simulate/engine.h"

#include <assert.h>
#include <math.h>

/* --------------------------------------------------------------------- events */

static bool earlier(const struct event *a, const struct event *b) {
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

/* Moves the event up from `index` to its position. */
static void rise(struct event_heap *heap, int index, struct event event) {
    while (index > 0 && earlier(&event, &heap->events[(index - 1) / 2])) {
        heap->events[index] = heap->events[(index - 1) / 2];
        index = (index - 1) / 2;
    }
    heap->events[index] = event;
}

/* Moves the event down from `index` to its position. */
static void sink(struct event_heap *heap, int index, struct event event) {
    for (;;) {
        int child = 2 * index + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && earlier(&heap->events[child + 1], &heap->events[child])) child++;
        if (earlier(&event, &heap->events[child])) break;
        heap->events[index] = heap->events[child];
        index = child;
    }
    heap->events[index] = event;
}

void event_push(struct event_heap *heap, int64_t time, int subject) {
    assert(heap->count < heap->capacity);
    rise(heap, heap->count++, (struct event){.time = time, .order = heap->pushed++, .subject = subject});
}

bool event_pop(struct event_heap *heap, struct event *event) {
    if (heap->count == 0) return false;
    *event = heap->events[0];
    heap->count--;
    sink(heap, 0, heap->events[heap->count]);
    return true;
}

void event_remove(struct event_heap *heap, int subject) {
    int index = 0;
    while (index < heap->count && heap->events[index].subject != subject) index++;
    if (index == heap->count) return;
    struct event last = heap->events[--heap->count];
    if (index > 0 && earlier(&last, &heap->events[(index - 1) / 2]))
        rise(heap, index, last);
    else
        sink(heap, index, last);
}

/* --------------------------------------------------------------------- engine */

static const char *const block_names[] = {[BLOCK_STASH] = "stash",
                                          [BLOCK_DELTA] = "delta",
                                          [BLOCK_INPUT] = "input",
                                          [BLOCK_OUTPUT] = "output",
                                          [BLOCK_OUTPUT_GRADIENT] = "output gradient",
                                          [BLOCK_INPUT_GRADIENT] = "input gradient",
                                          [BLOCK_WIRE + WIRE_ACTIVATION_SENT] = "sent encoded activation",
                                          [BLOCK_WIRE + WIRE_ACTIVATION_RECEIVED] = "received encoded activation",
                                          [BLOCK_WIRE + WIRE_GRADIENT_SENT] = "sent encoded gradient",
                                          [BLOCK_WIRE + WIRE_GRADIENT_RECEIVED] = "received encoded gradient",
                                          [BLOCK_KINDS] = "no",
                                          [BLOCK_WEIGHT_GRADIENTS] = "the sum of the weight gradients,"};

/* Computations on data take times in proportion to the length of their mini-batch. */
static int64_t by_length(const struct engine *engine, const struct instruction *instruction, int64_t duration) {
    const double *factors = engine->work->batch_factors;
    const enum action action = opcode_table[instruction->op].action;
    if (!factors || action == ACTION_PREDICT || action == ACTION_ROUND) return duration;
    return llround(factors[programs_batch(engine->work->programs, instruction->micro_batch)] * (double)duration);
}

/* What a device that computes all layers of a stage at the same time loses when it turns from one direction to the other. */
static int64_t turning(struct engine_worker *worker, const struct engine_instance *instance, enum action action,
                       int64_t duration) {
    if (instance->fill == 0 || (action != ACTION_FORWARD && action != ACTION_BACKWARD)) return 0;
    bool turns = worker->direction != action && worker->direction != ACTION_COUNT;
    worker->direction = action;
    return turns ? llround(instance->fill * (double)duration) : 0;
}

/* Of the worker's next computation. */
static int64_t take_duration(struct engine *engine, int worker, const struct instruction *instruction) {
    struct engine_instance *instance = engine_instance_of(engine, worker, instruction->stage);
    enum action action = opcode_table[instruction->op].action;
    if (action == ACTION_UPDATE) instance->accumulating = false;
    if (action == ACTION_UPDATE && instruction->predict_to != NO_SLOT) return instance->update_and_predict;
    if (action == ACTION_UPDATE && instruction->to != instruction->slot) return instance->update_out_of_place;
    if (action == ACTION_UPDATE) return instance->duration[action];
    if (action == ACTION_ENCODE || action == ACTION_DECODE)
        return by_length(engine, instruction, instance->wire[instruction_wire_block(instruction)]);
    int64_t duration = by_length(engine, instruction, instance->duration[action]);
    duration += turning(&engine->workers[worker], instance, action, duration);
    if (!instruction_adds_gradients(instruction)) return duration;
    if (instance->accumulating) duration += instance->accumulate;
    instance->accumulating = true;
    return duration;
}

static void start_computing(struct engine *engine, int index) {
    struct engine_worker *worker = &engine->workers[index];
    if (!lanes_other_runs(engine, index)) engine->free_cores--;
    worker->running = true;
    worker->started = engine->now;
    worker->dependency += worker->started - worker->requested;
    enum action action = opcode_table[worker->computing->op].action;
    if (action == ACTION_FORWARD && worker->computing->stage == 0) engine->last_entry = engine->now;
    if (engine->lanes == 1) {
        event_push(&engine->heap, engine->now + worker->duration, index);
        return;
    }
    worker->left = (double)worker->duration;
    worker->rated = engine->now;
    lanes_share(engine, index);
}

static enum ps_status execute_computation(void *context, int index, const struct instruction *instruction,
                                          struct ps_error *error) {
    struct engine *engine = context;
    (void)error;
    struct engine_worker *worker = &engine->workers[index];
    worker->computing = instruction;
    worker->requested = engine->now;
    worker->duration = take_duration(engine, index, instruction);
    enum action action = opcode_table[instruction->op].action;
    if (action == ACTION_FORWARD && worker->forwards == worker->window) worker->forwards = worker->backwards = 0;
    worker->forwards += action == ACTION_FORWARD;
    worker->backwards += instruction_takes_gradient(instruction);
    if (engine->free_cores > 0 || lanes_other_runs(engine, index))
        start_computing(engine, index);
    else
        engine->queue[(engine->queue_first + engine->queue_count++) % engine->worker_count] = index;
    return PS_OK;
}

static void give_core_to_next(struct engine *engine) {
    engine->free_cores++;
    if (engine->queue_count == 0) return;
    int next = engine->queue[engine->queue_first];
    engine->queue_first = (engine->queue_first + 1) % engine->worker_count;
    engine->queue_count--;
    start_computing(engine, next);
}

/* The mini-batch that an instruction works for; the first one of a round. */
static int batch_of(const struct engine *engine, const struct instruction *instruction) {
    const struct ps_programs *programs = engine->work->programs;
    const enum action action = opcode_table[instruction->op].action;
    if (action != ACTION_UPDATE && action != ACTION_ROUND) return programs_batch(programs, instruction->micro_batch);
    return instruction->micro_batch * programs_round(programs, instruction->stage);
}

static void note_completion(struct engine *engine, const struct instruction *instruction, int first) {
    bool adds = instruction_adds_gradients(instruction);
    if (!adds && opcode_table[instruction->op].action != ACTION_UPDATE) return;
    const struct ps_programs *programs = engine->work->programs;
    int last = adds ? first : first + programs_round(programs, instruction->stage) - 1;
    for (int batch = first; batch <= last && batch < programs->batches; batch++)
        if (engine->completed[batch] < engine->now) engine->completed[batch] = engine->now;
}

static void record(struct engine *engine, int index) {
    struct engine_worker *worker = &engine->workers[index];
    if (!engine->recording) return;
    struct engine_worker *row = &engine->workers[index - index % engine->lanes];
    engine->timeline.events[row->event_first + row->event_count++] = (struct timeline_event){
        .instruction = *worker->computing,
        .worker = engine_owner(engine, index),
        .start_s = engine_seconds(engine, worker->started),
        .end_s = engine_seconds(engine, engine->now),
    };
}

static void finish_computing(struct engine *engine, int index) {
    struct engine_worker *worker = &engine->workers[index];
    record(engine, index);
    int batch = batch_of(engine, worker->computing);
    worker->busy += worker->duration;
    if (batch >= engine->typical && batch < engine->typical + engine->typical_count) worker->typical_busy += worker->duration;
    note_completion(engine, worker->computing, batch);
    worker->computing = NULL;
    worker->running = false;
    if (engine->lanes > 1) lanes_share(engine, index);
    if (!lanes_other_runs(engine, index)) give_core_to_next(engine);
}

/* Unrolls the next page of a rolled program; *more false: there is none. No pointer into the old page is left. */
static enum ps_status turn_page(struct engine *engine, int index, bool *more, struct ps_error *error) {
    struct engine_worker *worker = &engine->workers[index];
    *more = false;
    if (!engine->work->rolled) return PS_OK;
    struct program *page = &worker->page;
    page->count = rolled_next(engine->work->rolled, index, &worker->cursor, page->code, page->capacity);
    for (int i = 0; i < page->count; i++)
        TRY(allocation_next(engine->allocation, engine->work->programs, index, &page->code[i], error));
    worker->interpreter.next = 0;
    *more = page->count > 0;
    return PS_OK;
}

static enum ps_status go_on(struct engine *engine, int index, struct ps_error *error) {
    struct engine_worker *worker = &engine->workers[index];
    struct interpreter *interpreter = &worker->interpreter;
    bool more;
    if (worker->computing) {
        finish_computing(engine, index);
        lanes_release(engine, index);
    }
    worker->transferring = false;
    while (!worker->computing && !worker->transferring) {
        if (lanes_hold(engine, index)) {
            worker->held = true;
            worker->waiting_since = engine->now;
            return PS_OK;
        }
        switch (interpreter_step(interpreter, error)) {
        case STEP_DONE:
            lanes_release(engine, index);
            break;
        case STEP_FINISHED:
            TRY(turn_page(engine, index, &more, error));
            if (more) break;
            return PS_OK;
        case STEP_FAILED:
            return error ? error->status : PS_FAILED;
        case STEP_WAITING: {
            const struct instruction *instruction = &interpreter->program->code[interpreter->next];
            const struct engine_instance *instance = engine_instance_of(engine, index, instruction->stage);
            bool sum = interpreter->waiting_kind == BLOCK_WEIGHT_GRADIENTS;
            transfer_awaited(engine, index,
                             sum ? instance->sum_block
                                 : instance->first_block[interpreter->waiting_kind] + interpreter->waiting_slot);
            return PS_OK;
        }
        }
    }
    return PS_OK;
}

/* Programs that were not verified may deadlock. */
static enum ps_status check_finished(const struct engine *engine, struct ps_error *error) {
    for (int w = 0; w < engine->worker_count; w++) {
        const struct interpreter *interpreter = &engine->workers[w].interpreter;
        if (interpreter->next == interpreter->program->count) continue;
        char text[96];
        instruction_text(&interpreter->program->code[interpreter->next], text);
        return error_set(error, PS_FAILED, "the programs deadlock: worker %d waits at %s for %s block %d",
                         engine_owner(engine, w), text, block_names[interpreter->waiting_kind], interpreter->waiting_slot);
    }
    return PS_OK;
}

enum ps_status engine_run(struct engine *engine, struct ps_error *error) {
    const struct ps_programs *programs = engine->work->programs;
    const struct environment environment = {
        .context = engine,
        .settled = transfer_settled,
        .execute = {[ACTION_FORWARD] = execute_computation,
                    [ACTION_BACKWARD] = execute_computation,
                    [ACTION_BACKWARD_INPUT] = execute_computation,
                    [ACTION_BACKWARD_WEIGHT] = execute_computation,
                    [ACTION_RECOMPUTE] = execute_computation,
                    [ACTION_UPDATE] = execute_computation,
                    [ACTION_PREDICT] = execute_computation,
                    [ACTION_SEND] = transfer_execute,
                    [ACTION_RECEIVE] = transfer_execute,
                    [ACTION_REDUCE] = transfer_reduce,
                    [ACTION_ENCODE] = execute_computation,
                    [ACTION_DECODE] = execute_computation,
                    [ACTION_ROUND] = execute_computation},
    };
    for (int w = 0; w < engine->worker_count; w++) {
        struct engine_worker *worker = &engine->workers[w];
        bool own_page = engine->work->rolled || engine->lanes > 1;
        interpreter_start(&worker->interpreter, own_page ? &worker->page : &programs->worker[w], &environment, w);
        event_push(&engine->heap, 0, w);
    }
    struct event event;
    while (event_pop(&engine->heap, &event)) {
        engine->now = event.time;
        if (event.subject >= engine->worker_count)
            transfer_end(engine, event.subject - engine->worker_count);
        else
            TRY(go_on(engine, event.subject, error));
    }
    engine->end = engine->now;
    return check_finished(engine, error);
}
