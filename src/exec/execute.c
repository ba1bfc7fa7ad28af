/*
 * The environment that computes: what each instruction does to a worker's blocks. It knows no schedule and no weight policy;
 * slots, versions and predictions are given in the instructions.
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "exec/executor.h"

/* While the host waits for a device, transfers progress this often. */
#define TRANSFERS_S 2e-4

/* An instruction, and what it works on. */
struct call {
    struct executor *executor;
    struct worker *worker;
    struct worker_stage *stage;
    const struct instruction *instruction;
    struct work *work; /* of a computation: its place in the run-ahead window */
};

static struct call call_of(void *context, int number, const struct instruction *instruction) {
    struct executor *executor = context;
    struct worker *worker = &executor->workers[number];
    return (struct call){executor, worker, worker_stage_find(worker, instruction->stage), instruction, NULL};
}

/* --------------------------------------------------------------------- blocks */

static float *block_of(const struct call *call, enum block_kind kind) {
    const int slot = call->instruction->block[kind];
    return slot == NO_SLOT ? NULL : call->stage->block[kind][slot];
}

static struct stage_blocks blocks_of(const struct call *call) {
    return (struct stage_blocks){
        .weights = call->stage->weights[call->instruction->slot],
        .gradients = call->stage->gradients,
        .statistics = call->stage->statistics,
        .input = block_of(call, BLOCK_INPUT),
        .output = block_of(call, BLOCK_OUTPUT),
        .stash = block_of(call, BLOCK_STASH),
        .delta = block_of(call, BLOCK_DELTA),
        .output_gradient = block_of(call, BLOCK_OUTPUT_GRADIENT),
        .input_gradient = block_of(call, BLOCK_INPUT_GRADIENT),
        .workspace = call->worker->workspace,
    };
}

static struct stage *stage_of(const struct call *call) {
    return worker_stage_at(call->stage, executor_length(call->executor, call->instruction->micro_batch));
}

static bool on_last_stage(const struct call *call) {
    return call->instruction->stage == call->executor->segment.programs->stages - 1;
}

/* Lets messages of other processes progress while this one computes. */
static void move_transfers(void *context) {
    const struct executor *executor = context;
    executor->transport_class->progress(executor->transport);
}

static void move_transfers_between(void *context, int layer) {
    (void)layer;
    move_transfers(context);
}

/* Everything that a micro-batch's forward, recomputation and backward have in common. */
static struct stage_step step_of(const struct call *call) {
    struct executor *executor = call->executor;
    const struct worker_stage *stage = call->stage;
    const int micro_batch = call->instruction->micro_batch, input = call->instruction->block[BLOCK_INPUT];
    return (struct stage_step){
        .seed = executor->seed,
        .step = (uint64_t)executor_batch_number(executor, micro_batch),
        .micro_batch = micro_batch % executor->segment.programs->micro_batches,
        .target = stage->targets ? stage->targets[input] : NULL,
        .gradient_scale = stage->targets ? stage->loss_scale[input] : 0,
        .training = executor->segment.training,
        .between = executor->transport_class->progress ? move_transfers_between : NULL,
        .between_context = executor,
    };
}

/* The device's next work waits for the moment at which the block was settled, which is returned. */
static struct moment wait_for_block(const struct call *call, enum block_kind kind, int slot) {
    const struct executor *executor = call->executor;
    struct moment settled = executor->transport_class->settled_at(executor->transport, call->stage->instance, kind, slot);
    device_after(call->worker->device, &settled);
    return settled;
}

/* Lets the next work of a device with a queue, or with a time of its own, wait until the instruction's blocks have arrived.
 */
static void wait_for_blocks(const struct call *call) {
    if (!call->worker->device->type->after) return;
    for (int kind = BLOCK_STASH; kind < BLOCK_KINDS; kind++)
        if (call->instruction->block[kind] != NO_SLOT)
            wait_for_block(call, (enum block_kind)kind, call->instruction->block[kind]);
    const int weights = instruction_transfer_slot(call->instruction);
    if (programs_split(call->executor->segment.programs, call->instruction->stage) && weights != NO_SLOT)
        wait_for_block(call, BLOCK_WEIGHTS, weights);
}

/* The same for an update's gradients, where they were summed over instances. */
static void wait_for_sum(const struct call *call) {
    const struct worker_stage *stage = call->stage;
    if (!programs_sums(call->executor->segment.programs, stage->number)) return;
    const struct moment settled = wait_for_block(call, BLOCK_WEIGHT_GRADIENTS, 0);
    call->work->sum_from_s = stage->sum_from_s;
    call->work->sum_until_s = fmax(settled.time, stage->sum_until_s);
}

static void record_event(struct worker *worker, const struct timeline_event *event) {
    struct recorder *recorder = &worker->recorder;
    if (recorder->events) recorder->events[recorder->count++ % recorder->capacity] = *event;
}

/* Records the sum of the update's gradients: from the time at which the worker offered its share until the sum was done. */
static void record_sum(struct executor *executor, struct worker *worker, const struct work *update, double started_s) {
    if (!programs_sums(executor->segment.programs, update->stage->number)) return;
    record_event(worker,
                 &(struct timeline_event){
                     .instruction = instruction_make(OP_AR, update->instruction.stage, update->instruction.micro_batch),
                     .worker = worker->number,
                     .start_s = update->sum_from_s - executor->segment_started_s,
                     .end_s = fmax(fmin(update->sum_until_s, started_s), update->sum_from_s) - executor->segment_started_s,
                 });
}

/* Notes which of the recorded blocks have arrived since this was called last. */
static void record_arrivals(const struct executor *executor, struct worker *worker) {
    const struct transport_class *class = executor->transport_class;
    struct recorder *recorder = &worker->recorder;
    bool all = true;
    if (!recorder->transfers || !executor->segment.training) return;
    if (recorder->arrived < recorder->transfer_count - recorder->transfer_capacity)
        recorder->arrived = recorder->transfer_count - recorder->transfer_capacity;
    for (int64_t i = recorder->arrived; i < recorder->transfer_count; i++) {
        struct recorded_transfer *one = &recorder->transfers[i % recorder->transfer_capacity];
        const enum block_kind kind = (enum block_kind)one->kind;
        if (isnan(one->transfer.end_s) && class->settled(executor->transport, one->instance, kind, one->slot))
            one->transfer.end_s =
                fmax(class->settled_at(executor->transport, one->instance, kind, one->slot).time - executor->segment_started_s,
                     one->transfer.start_s);
        all = all && !isnan(one->transfer.end_s);
        if (all) recorder->arrived = i + 1;
    }
}

/* Records a block that is posted now. */
static void record_transfer(const struct call *call, enum block_kind kind, int slot, double posted_s) {
    const struct executor *executor = call->executor;
    const struct instruction *instruction = call->instruction;
    struct recorder *recorder = &call->worker->recorder;
    const bool sent = opcode_table[instruction->op].action == ACTION_SEND;
    const int own = call->worker->number, other = instruction_other_stage(instruction);
    const int from = sent ? instruction->stage : other, step = sent ? other - from : instruction->stage - from;
    int traffic = 0;
    if (!recorder->transfers || !executor->segment.training || instruction->peer == own) return;
    while (traffic_table[traffic].step != step ||
           (sent ? traffic_table[traffic].sent : traffic_table[traffic].received) != kind)
        if (++traffic == TRAFFICS) return;
    posted_s -= executor->segment_started_s;
    recorder->transfers[recorder->transfer_count++ % recorder->transfer_capacity] = (struct recorded_transfer){
        .transfer = {.from = sent ? own : instruction->peer,
                     .to = sent ? instruction->peer : own,
                     .stage = from,
                     .micro_batch = instruction->micro_batch,
                     .traffic = traffic,
                     .bytes = transfer_bytes(&call->stage->sizes, kind),
                     .start_s = posted_s,
                     .end_s = sent ? posted_s : NAN},
        .instance = call->stage->instance,
        .kind = (int)kind,
        .slot = slot,
        .sent = sent,
    };
}

/* Waits until a time of the host's clock and lets transfers progress meanwhile. */
static void wait_until(struct executor *executor, double time_s) {
    while (executor->transport_class->progress && clock_now() < time_s - TRANSFERS_S) {
        clock_sleep(TRANSFERS_S);
        move_transfers(executor);
    }
    clock_wait_until(time_s);
}

/* The same for the device. */
static void wait_on_host(struct executor *executor, const struct moment *moment) {
    if (moment->device && device_in_host(moment->device) && !device_reached(moment)) wait_until(executor, moment->time);
    while (executor->transport_class->progress && !device_reached(moment)) {
        clock_sleep(TRANSFERS_S);
        move_transfers(executor);
    }
    device_wait(moment);
}

/* ------------------------------------------------------------- run-ahead window */

static enum ps_status not_finite(int64_t step, const char *what, struct ps_error *error) {
    error_set(error, PS_FAILED, "step %lld: %s", (long long)step, what);
    error_hint(error, "a smaller learning rate (`lr`) or a warm-up (`warmup_steps`) may help");
    return PS_FAILED;
}

/* Adds the last stage's loss and hits to the mini-batch's record. */
static enum ps_status record_loss(struct executor *executor, const struct worker_stage *stage,
                                  const struct instruction *instruction, const struct stage_result *result,
                                  struct ps_error *error) {
    struct replica_record *seen = &executor->records[stage->replica];
    if (!executor->segment.training) {
        stage_result_add(&seen->evaluation, result);
        return PS_OK;
    }
    struct step_record *record = &seen->steps[programs_batch(executor->segment.programs, instruction->micro_batch)];
    stage_result_add(&record->sum, result);
    if (isfinite(record->sum.loss)) return PS_OK;
    return not_finite(executor_batch_number(executor, instruction->micro_batch) + 1,
                      isnan(record->sum.loss) ? "the loss became not a number" : "the loss became infinite", error);
}

/* Numbers that are none may vanish on their way to the loss, in a ReLU or a maximum: weights keep them. */
static enum ps_status check_weights(const struct executor *executor, const struct worker_stage *stage,
                                    const struct device *device, int update, struct ps_error *error) {
    const struct ps_programs *programs = executor->segment.programs;
    int64_t batches = (int64_t)(update + 1) * programs_round(programs, stage->number);
    if (!device_is_spoilt(device)) return PS_OK;
    if (batches > programs->batches) batches = programs->batches;
    return not_finite(executor->segment.first_step + batches, "a weight became infinite or not a number", error);
}

/* Of a stage that another worker updates: mini-batches whose losses are all recorded. */
static void record_forward(struct executor *executor, const struct worker_stage *stage) {
    struct replica_record *seen = &executor->records[stage->replica];
    int done = ++seen->forwards / executor->segment.programs->micro_batches;
    atomic_store_explicit(&seen->losses_done, done, memory_order_release);
}

/* Marks the mini-batches of an update of the last stage as done. A worker that runs the forwards, too, has recorded their
 * losses before. */
static void record_update(struct executor *executor, const struct worker_stage *stage, int update, double done_s) {
    const struct ps_programs *programs = executor->segment.programs;
    struct replica_record *seen = &executor->records[stage->replica];
    int round = programs_round(programs, stage->number), end = (update + 1) * round;
    if (end > programs->batches) end = programs->batches;
    for (int batch = update * round; batch < end; batch++) seen->steps[batch].done_at = done_s;
    if (stage->forward) atomic_store_explicit(&seen->losses_done, end, memory_order_release);
    atomic_store_explicit(&seen->updates_done, end, memory_order_release);
}

/* What the device found wrong, with the last instruction that it is known to have reached: the work in its queue that failed
 * belongs to that instruction or to a later one. */
static enum ps_status check_device(const struct worker *worker, const struct work *work, struct ps_error *error) {
    char text[96];
    const enum ps_status status = device_check(worker->device, error);
    if (status == PS_OK) return PS_OK;
    return error_set(error, status, "%s (device %s of worker %d; last instruction reached: %s)", error->message,
                     worker->device->type->name, worker->number, instruction_text(&work->instruction, text));
}

/* Records a computation that is done. */
static enum ps_status record_work(struct executor *executor, struct worker *worker, const struct work *work,
                                  struct ps_error *error) {
    const struct instruction *instruction = &work->instruction;
    const bool last = instruction->stage == executor->segment.programs->stages - 1, queued = work->started.device != NULL;
    const enum action action = opcode_table[instruction->op].action;
    double (*time_of)(const struct moment *) = worker->device->type->time_of;
    const double started_s = queued && time_of ? time_of(&work->started) : work->started_s;
    const double done_s = queued && time_of ? time_of(&work->done) : clock_now();
    TRY(check_device(worker, work, error));
    if (action == ACTION_FORWARD && last && executor->real && !executor->segment.decoding)
        TRY(record_loss(executor, work->stage, instruction, &work->result, error));
    if (!executor->segment.training) return PS_OK;
    if (action == ACTION_FORWARD && last && !executor->segment.programs->instances[work->stage->instance].backward)
        record_forward(executor, work->stage);
    if (action == ACTION_UPDATE) record_sum(executor, worker, work, started_s);
    if (action == ACTION_UPDATE && last) record_update(executor, work->stage, instruction->micro_batch, done_s);
    worker->totals.busy_s += done_s - started_s;
    record_event(worker, &(struct timeline_event){
                             .instruction = *instruction,
                             .worker = worker->number,
                             .start_s = started_s - executor->segment_started_s,
                             .end_s = done_s - executor->segment_started_s,
                         });
    return PS_OK;
}

/* Records computations that are done; waits where more than `ahead` are not. */
static enum ps_status settle(struct executor *executor, struct worker *worker, int ahead, struct ps_error *error) {
    while (worker->settled < worker->enqueued) {
        const struct work *work = &worker->work[worker->settled % (RUN_AHEAD + 1)];
        if (worker->enqueued - worker->settled > ahead) wait_on_host(executor, &work->done);
        if (!device_reached(&work->done)) break;
        if (worker->slower > 1) wait_until(executor, work->started_s + (clock_now() - work->started_s) * worker->slower);
        worker->settled++;
        TRY(record_work(executor, worker, work, error));
    }
    return PS_OK;
}

enum ps_status executor_settle(struct executor *executor, int number, struct ps_error *error) {
    record_arrivals(executor, &executor->workers[number]);
    return settle(executor, &executor->workers[number], 0, error);
}

/* Before a computation is enqueued: it takes the next place in the run-ahead window, and its work waits until the instruction's
 * blocks have arrived. */
static struct call begin_work(void *context, int number, const struct instruction *instruction) {
    struct call call = call_of(context, number, instruction);
    struct worker *worker = call.worker;
    call.work = &worker->work[worker->enqueued % (RUN_AHEAD + 1)];
    *call.work = (struct work){.instruction = *instruction, .stage = call.stage, .started_s = clock_now()};
    record_arrivals(call.executor, worker);
    if (opcode_table[instruction->op].action == ACTION_UPDATE) wait_for_sum(&call);
    wait_for_blocks(&call);
    if (worker->device->type->time_of) call.work->started = device_mark(worker->device);
    return call;
}

/* After the computation was enqueued. Waits for a device whose times are needed at once. */
static enum ps_status end_work(const struct call *call, struct ps_error *error) {
    struct worker *worker = call->worker;
    call->work->done = device_mark(worker->device);
    worker->enqueued++;
    return settle(call->executor, worker, device_in_host(worker->device) || worker->slower > 1 ? 0 : RUN_AHEAD, error);
}

/* ----------------------------------------------------------------- computation */

/* Loads the last stage's targets where its forward ran on another worker; a recomputation, if any, runs first. */
static enum ps_status fetch_targets(const struct call *call, struct ps_error *error) {
    const struct instruction *instruction = call->instruction;
    const bool first = (instruction->op == OP_R) == call->executor->segment.programs->recompute[instruction->stage];
    int counted;
    if (!call->executor->real || call->stage->forward || !on_last_stage(call) || !first) return PS_OK;
    return executor_load_targets(call->executor, call->worker, call->stage, instruction, &counted, error);
}

/* The next tokens of the sentences that are being decoded. */
static enum ps_status take_tokens(const struct call *call, const struct stage_blocks *blocks, struct ps_error *error) {
    struct device *device = call->worker->device;
    const struct decoding *decoding = call->executor->segment.decoding;
    const int samples = call->executor->samples;
    const int64_t first = (int64_t)call->instruction->micro_batch * samples;
    const size_t bytes = (size_t)samples * (size_t)decoding->positions * (size_t)decoding->classes * sizeof(float);
    const float *probabilities = stage_probabilities(call->stage->stage, blocks);
    float *copy = NULL;
    if (!device_in_host(device)) {
        copy = malloc(bytes);
        if (!copy) return error_memory(error, "probabilities", bytes);
        device_copy(device, copy, probabilities, bytes);
        device_finish(device);
    }
    decoding_take(decoding, first, samples, copy ? copy : probabilities);
    free(copy);
    return PS_OK;
}

/* What the network computed of the micro-batch. */
static void take_outputs(const struct call *call, const struct stage_blocks *blocks) {
    const struct executor *executor = call->executor;
    const int64_t count = executor->samples * stage_output_elements(call->stage->stage);
    stage_take_output(call->stage->stage, blocks, executor->segment.outputs + call->instruction->micro_batch * count);
}

static enum ps_status forward(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    const struct call call = begin_work(context, number, instruction);
    struct executor *executor = call.executor;
    const bool last = on_last_stage(&call);
    int counted = 0;
    if (executor->real && instruction->stage == 0)
        TRY(executor_load_inputs(executor, call.worker, call.stage, instruction, error));
    if (executor->real && last) TRY(executor_load_targets(executor, call.worker, call.stage, instruction, &counted, error));
    struct stage_blocks blocks = blocks_of(&call);
    struct stage_step step = step_of(&call);
    step.update_statistics = executor->segment.training;
    step.samples = counted;
    TRY(stage_forward(stage_of(&call), &blocks, &step, &call.work->result, error));
    if (executor->segment.decoding && last) TRY(take_tokens(&call, &blocks, error));
    if (executor->segment.outputs && last) take_outputs(&call, &blocks);
    return end_work(&call, error);
}

static enum ps_status recompute(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    const struct call call = begin_work(context, number, instruction);
    TRY(fetch_targets(&call, error));
    struct stage_blocks blocks = blocks_of(&call);
    struct stage_step step = step_of(&call);
    /* The loss was recorded in the forward. */
    TRY(stage_forward(stage_of(&call), &blocks, &step, NULL, error));
    return end_work(&call, error);
}

static enum ps_status backward(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    static const enum stage_half half_of[] = {[ACTION_BACKWARD] = STAGE_BOTH,
                                              [ACTION_BACKWARD_INPUT] = STAGE_INPUT_SPLIT,
                                              [ACTION_BACKWARD_WEIGHT] = STAGE_WEIGHTS_SPLIT};
    const struct call call = begin_work(context, number, instruction);
    TRY(fetch_targets(&call, error));
    struct stage_blocks blocks = blocks_of(&call);
    struct stage_step step = step_of(&call);
    step.accumulate = call.stage->accumulating;
    TRY(stage_backward(stage_of(&call), &blocks, &step, half_of[opcode_table[instruction->op].action], error));
    if (instruction_adds_gradients(instruction)) call.stage->accumulating = true;
    return end_work(&call, error);
}

static void watch_prediction(const struct call *call, int newest) {
    const struct worker_stage *stage = call->stage;
    struct update_state *state = &call->stage->update;
    const int predicted = call->instruction->predict_to;
    const struct watched_weights of = {
        .first = state->master ? state->wide : 0, .count = state->count, .type = state->master ? TYPE_BF16 : TYPE_F32};
    if (!call->executor->real) return;
    prediction_watch_check(&state->watch, call->worker->device, &of, stage->weights[newest], state->done);
    if (predicted == NO_SLOT) return;
    prediction_watch_note(&state->watch, call->worker->device, &of, stage->weights[newest], stage->weights[predicted],
                          state->done, call->instruction->ahead);
}

static enum ps_status update(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    const struct call call = begin_work(context, number, instruction);
    struct worker_stage *stage = call.stage;
    float *predicted = instruction->predict_to == NO_SLOT ? NULL : stage->weights[instruction->predict_to];
    update_rule_apply(call.executor->rule, call.worker->device, &stage->update, stage->weights[instruction->slot],
                      stage->weights[instruction->to], stage->gradients, predicted, instruction->ahead);
    stage->newest = instruction->to;
    stage->accumulating = false;
    TRY(end_work(&call, error));
    TRY(check_weights(call.executor, stage, call.worker->device, instruction->micro_batch, error));
    watch_prediction(&call, instruction->to);
    return PS_OK;
}

static enum ps_status predict(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    const struct call call = begin_work(context, number, instruction);
    struct worker_stage *stage = call.stage;
    update_rule_predict(call.executor->rule, call.worker->device, &stage->update, stage->weights[instruction->slot],
                        stage->weights[instruction->predict_to], instruction->ahead);
    TRY(end_work(&call, error));
    watch_prediction(&call, instruction->slot);
    return PS_OK;
}

/* An encoding or a decoding of what crosses one of the stage's cuts. */
static enum ps_status code(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    const struct call call = begin_work(context, number, instruction);
    const enum wire_block which = instruction_wire_block(instruction);
    const struct ps_programs *programs = call.executor->segment.programs;
    const bool decode = opcode_table[instruction->op].action == ACTION_DECODE;
    struct wire_call wire = {
        .wire = programs_wire(programs, number, instruction),
        .decode = decode,
        .block = block_of(&call, operand_block(opcode_table[instruction->op].operands[decode])),
        .encoded = block_of(&call, (enum block_kind)(BLOCK_WIRE + (int)which)),
        .feedback = call.stage->feedback[which],
        .seconds = call.stage->wire_s[which],
    };
    wire.runs = stage_runs(stage_of(&call), which == WIRE_ACTIVATION_SENT || which == WIRE_GRADIENT_RECEIVED, &wire.run_count);
    device_code(call.worker->device, &wire);
    return end_work(&call, error);
}

/* Rounds the gradients that the stage's replicas sum to what the codec of the sum keeps. A replica without a mini-batch of the
 * update brings none. */
static enum ps_status round_gradients(void *context, int number, const struct instruction *instruction,
                                      struct ps_error *error) {
    const struct call call = begin_work(context, number, instruction);
    const struct wire_call wire = {
        .wire = &call.executor->segment.programs->sum_wire[instruction->stage].share,
        .runs = &call.stage->sum_run,
        .run_count = 1,
        .block = call.stage->gradients,
        .feedback = call.stage->feedback[WIRE_SUM],
        .seconds = call.stage->wire_s[WIRE_SUM],
    };
    if (call.stage->accumulating) device_code(call.worker->device, &wire);
    return end_work(&call, error);
}

/* -------------------------------------------------------------- sums, transfers */

/* Where workers share memory, the last to arrive computes the sum in its own time. Only a device that keeps its own time must
 * be given it. */
static void wait_for_own_sum(const struct call *call, const struct transport_share *share) {
    const struct transport_class *class = call->executor->transport_class;
    struct transport *transport = call->executor->transport;
    const int instance = call->stage->instance;
    if (!call->worker->device->type->after || share->takes_s == 0) return;
    if (!class->settled(transport, instance, BLOCK_WEIGHT_GRADIENTS, 0)) return;
    struct moment settled = class->settled_at(transport, instance, BLOCK_WEIGHT_GRADIENTS, 0);
    if (settled.time <= share->when.time + share->takes_s) device_after(call->worker->device, &settled);
}

static void count_traffic(const struct call *call) {
    const struct executor *executor = call->executor;
    if (executor->segment.training)
        traffic_count_add(&call->worker->totals.traffic, executor->segment.programs, call->worker->number, call->instruction,
                          &call->stage->sizes);
}

/* Sums the gradients of the stage's replicas: the sum over replicas of one mini-batch, the mean over whole mini-batches. Also
 * sums the gradients of parameters that the stage shares with others. */
static enum ps_status reduce(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    (void)error;
    const struct call call = call_of(context, number, instruction);
    const struct executor *executor = call.executor;
    const struct ps_programs *programs = executor->segment.programs;
    struct worker_stage *stage = call.stage;
    int round = programs_round(programs, instruction->stage), left = programs->batches - instruction->micro_batch * round;
    struct transport_share share = {
        .device = call.worker->device,
        .when = device_mark(call.worker->device),
        .tied = stage->tied,
        .gradients = stage->gradients,
        .gradient_count = executor->real ? (size_t)stage_gradient_bytes(&stage->sizes) / sizeof(float) : 0,
        .empty = !stage->accumulating,
        .scale = 1.0f / (float)(left < round ? left : round),
        .wire = &programs->sum_wire[stage->number],
        .run = &stage->sum_run,
        .takes_s = stage->update.times.sum_s * programs_sum_shares(programs, stage->number, &stage->sizes, NULL) +
                   stage->wire_s[WIRE_SUM],
        .statistics = stage->statistics,
        .statistics_count = executor->real ? (size_t)stage->sizes.statistics_bytes / sizeof(float) : 0,
    };
    count_traffic(&call);
    stage->sum_from_s = clock_now();
    executor->transport_class->reduce(executor->transport, stage->instance, &share);
    stage->sum_until_s = clock_now();
    wait_for_own_sum(&call, &share);
    return PS_OK;
}

static enum ps_status transfer(void *context, int number, const struct instruction *instruction, struct ps_error *error) {
    (void)error;
    const struct call call = call_of(context, number, instruction);
    const struct executor *executor = call.executor;
    struct worker_stage *stage = call.stage;
    int other = programs_instance(executor->segment.programs, instruction->peer, instruction_other_stage(instruction));
    /* A block may be passed on before the worker that sent it has finished its work on it. */
    if (!device_in_host(call.worker->device)) wait_for_blocks(&call);
    if (!device_in_host(call.worker->device) && instruction_moves_weights(instruction))
        wait_for_block(&call, BLOCK_WEIGHTS, instruction->slot);
    struct moment when = device_mark(call.worker->device);
    count_traffic(&call);
    record_arrivals(executor, call.worker); /* before their places are posted again */
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        int slot = instruction->block[kind];
        if (slot == NO_SLOT) continue;
        record_transfer(&call, (enum block_kind)kind, slot, when.time);
        executor->transport_class->post(executor->transport, stage->instance, (enum block_kind)kind, slot, other,
                                        &stage->block[kind][slot], &when);
    }
    if (!instruction_moves_weights(instruction)) return PS_OK;
    record_transfer(&call, BLOCK_WEIGHTS, instruction->slot, when.time);
    executor->transport_class->post(executor->transport, stage->instance, BLOCK_WEIGHTS, instruction->slot, other,
                                    &stage->weights[instruction->slot], &when);
    return PS_OK;
}

static bool settled(void *context, int number, int stage, enum block_kind kind, int slot) {
    const struct executor *executor = context;
    const struct ps_programs *programs = executor->segment.programs;
    if (kind == BLOCK_WEIGHT_GRADIENTS && !programs_sums(programs, stage)) return true;
    if (kind == BLOCK_WEIGHTS && !programs_split(programs, stage)) return true;
    return executor->transport_class->settled(executor->transport, programs_instance(programs, number, stage), kind, slot);
}

struct environment executor_environment(struct executor *executor) {
    return (struct environment){
        .context = executor,
        .settled = settled,
        .execute =
            {
                [ACTION_FORWARD] = forward,
                [ACTION_BACKWARD] = backward,
                [ACTION_BACKWARD_INPUT] = backward,
                [ACTION_BACKWARD_WEIGHT] = backward,
                [ACTION_RECOMPUTE] = recompute,
                [ACTION_UPDATE] = update,
                [ACTION_PREDICT] = predict,
                [ACTION_SEND] = transfer,
                [ACTION_RECEIVE] = transfer,
                [ACTION_REDUCE] = reduce,
                [ACTION_ENCODE] = code,
                [ACTION_DECODE] = code,
                [ACTION_ROUND] = round_gradients,
            },
    };
}
