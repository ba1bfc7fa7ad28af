/* Running a stage: each action of the plan with the addresses of this call's blocks. */
#include <assert.h>
#include <string.h>

#include "base/processor.h"
#include "compute/stage_plan.h"

struct stage_run {
    const struct stage *stage;
    const struct stage_step *step;
    struct stage_result *result;
    enum stage_half half; /* requested */
    char *base[BUFFER_COUNT];
    struct ps_error *error;
};

static void *at(const struct stage_run *run, struct buffer buffer) {
    char *base = run->base[buffer.block];
    return base != NULL ? base + buffer.offset : NULL;
}

/* A parameter's place in the copy of the weights that is read. */
static void *weights_at(const struct stage_run *run, struct buffer buffer) {
    if (buffer.block == BUFFER_WEIGHTS) buffer.offset = stage_copy_offset(&run->stage->sizes, buffer.offset);
    return at(run, buffer);
}

static int counted_samples(const struct stage_run *run) {
    assert(run->step->samples <= run->stage->samples);
    return run->step->samples > 0 ? run->step->samples : run->stage->samples;
}

static struct kernel_call prepare(const struct stage_run *run, const struct stage_node *node) {
    const struct stage_step *step = run->step;
    struct kernel_call call = {
        .inner = at(run, node->inner),
        .workspace = at(run, (struct buffer){BUFFER_WORKSPACE, stage_kernel_workspace(run->stage)}),
        .state = at(run, node->state),
        .target = run->stage->target != NULL ? run->stage->target : step->target,
        .counted = counted_samples(run),
        .gradient_scale = step->gradient_scale,
        .training = step->training,
        .update_statistics = step->update_statistics,
        .loss = &run->result->loss,
        .correct = &run->result->correct,
        .correct5 = &run->result->correct5,
        .error = run->error,
    };
    for (int p = 0; p < node->node->parameter_count; p++) {
        call.weights[p] = weights_at(run, node->weights[p]);
        call.statistics[p] = at(run, node->statistics[p]);
    }
    if (node->node->flags & OPERATOR_RANDOM) {
        uint64_t number = (uint64_t)node->node->random_number;
        call.key = random_key(step->seed, RANDOM_DROPOUT, step->step, (uint64_t)step->micro_batch << 32 | number);
    }
    return call;
}

enum ps_status action_forward(const struct stage_run *run, const struct action *action) {
    const struct stage_node *node = action->node;
    struct kernel_call call = prepare(run, node);
    for (int i = 0; i < node->node->input_count; i++) call.input[i] = at(run, node->input[i]);
    call.output = at(run, node->output);
    return kernel_run(node->kernel, KERNEL_FORWARD, &call);
}

/* A backward may read only what its operator's flags name: the rest may have been overwritten. */
static struct kernel_call prepare_backward(const struct stage_run *run, const struct action *action) {
    const struct stage_node *node = action->node;
    struct kernel_call call = prepare(run, node);
    for (int i = 0; i < node->node->input_count; i++)
        if (node_keeps_input(run->stage->graph, node->node, i)) call.input[i] = at(run, node->input[i]);
    if (node->node->flags & OPERATOR_USES_OUTPUT) call.output = at(run, node->output);
    call.output_gradient = at(run, action->from);
    return call;
}

enum ps_status action_backward_shared(const struct stage_run *run, const struct action *action) {
    struct kernel_call call = prepare_backward(run, action);
    return kernel_run(action->node->kernel, KERNEL_BACKWARD_SHARED, &call);
}

enum ps_status action_backward_input(const struct stage_run *run, const struct action *action) {
    const struct stage_node *node = action->node;
    struct kernel_call call = prepare_backward(run, action);
    for (int i = 0; i < node->node->input_count; i++) call.input_gradient[i] = at(run, node->input_gradient[i]);
    call.split = run->half == STAGE_INPUT_SPLIT;
    return kernel_run(node->kernel, KERNEL_BACKWARD_INPUT, &call);
}

enum ps_status action_backward_weight(const struct stage_run *run, const struct action *action) {
    const struct stage_node *node = action->node;
    struct kernel_call call = prepare_backward(run, action);
    bool add = run->step->accumulate;
    call.adds = add;
    call.split = action->half == STAGE_WEIGHTS_SPLIT;
    for (int p = 0; p < node->node->parameter_count; p++) {
        call.gradients[p] = at(run, add ? node->added_gradients[p] : node->gradients[p]);
    }
    TRY(kernel_run(node->kernel, KERNEL_BACKWARD_WEIGHT, &call));
    for (int p = 0; p < node->node->parameter_count && add && run->stage->device->type->real; p++) {
        if (node->gradients[p].block != BUFFER_GRADIENTS) continue;
        size_t count = (size_t)node->kernel->parameter_bytes[p] / sizeof(float);
        device_add(run->stage->device, TYPE_F32, count, at(run, node->gradients[p]), call.gradients[p]);
    }
    return PS_OK;
}

enum ps_status action_copy(const struct stage_run *run, const struct action *action) {
    device_copy(run->stage->device, at(run, action->to), at(run, action->from),
                (size_t)action->count * number_types[action->type].bytes);
    return PS_OK;
}

enum ps_status action_add(const struct stage_run *run, const struct action *action) {
    device_add(run->stage->device, action->type, (size_t)action->count, at(run, action->to), at(run, action->from));
    return PS_OK;
}

/* Gradients of weights that are added to those of earlier micro-batches stay. */
enum ps_status action_zero(const struct stage_run *run, const struct action *action) {
    if (action->to.block == BUFFER_GRADIENTS && run->step->accumulate) return PS_OK;
    device_zero(run->stage->device, at(run, action->to), (size_t)action->count * number_types[action->type].bytes);
    return PS_OK;
}

/* Blocks that are only read lose their const in the common table of addresses; no written value has its place in them. */
static struct stage_run start(const struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                              struct stage_result *result, struct ps_error *error) {
    return (struct stage_run){
        .stage = stage,
        .step = step,
        .result = result,
        .base = {[BUFFER_INPUT] = blocks->input,
                 [BUFFER_OUTPUT] = blocks->output,
                 [BUFFER_STASH] = blocks->stash,
                 [BUFFER_DELTA] = blocks->delta,
                 [BUFFER_WORKSPACE] = blocks->workspace,
                 [BUFFER_WEIGHTS] = (char *)blocks->weights,
                 [BUFFER_GRADIENTS] = (char *)blocks->gradients,
                 [BUFFER_STATISTICS] = (char *)blocks->statistics,
                 [BUFFER_INPUT_GRADIENT] = blocks->input_gradient,
                 [BUFFER_OUTPUT_GRADIENT] = blocks->output_gradient,
                 [BUFFER_STATE] = (char *)blocks->state},
        .error = error,
    };
}

/* `kept`: layers to skip; NULL: none. */
static enum ps_status run_list(const struct stage_run *run, const struct action_list *list, enum stage_half half,
                               const bool *kept) {
    enum ps_status status = PS_OK;
    uint64_t mode = denormals_flush();
    for (int i = 0; i < list->count && status == PS_OK; i++) {
        const struct action *action = &list->actions[i];
        if (!(action->half & half) || (kept && action->node && kept[action->node->node->layer])) continue;
        status = action->run(run, action);
        if (run->step->between) run->step->between(run->step->between_context, action->layer);
    }
    denormals_restore(mode);
    return status;
}

/* Notes what counts. Refuses a label that is no class, with which a kernel would read outside of the logits. */
static enum ps_status check_target(const struct stage_run *run, struct stage_result *result) {
    const struct stage *stage = run->stage;
    const struct node *end = stage->nodes[stage->node_count - 1].node;
    if (!stage->device->type->real || !(end->flags & OPERATOR_LOSS)) return PS_OK;
    const struct shape target = graph_target(stage->graph);
    const int64_t each = shape_elements(&target), classes = end->shape.dim[0], count = counted_samples(run) * each;
    if (target.type != TYPE_I32) {
        result->counted = count;
        result->weight = (double)count;
        return PS_OK;
    }
    const int32_t *labels = run->step->target;
    for (int64_t n = 0; n < count; n++) {
        const int32_t label = labels[n];
        const bool known = label >= -1 && label < classes;
        result->counted += label >= 0;
        if (known) result->weight += graph_label_weight(stage->graph, label);
        if (known) continue;
        return error_set(run->error, PS_BAD_INPUT, "label %d of sample %lld: the network has the classes 0 to %lld", label,
                         (long long)(n / each), (long long)classes - 1);
    }
    return PS_OK;
}

/* Copies the targets to a device that cannot read the host's memory. */
static void copy_target(const struct stage_run *run) {
    const struct stage *stage = run->stage;
    const struct shape target = graph_target(stage->graph);
    if (stage->target != NULL && run->step->target != NULL)
        device_copy(stage->device, stage->target, run->step->target, (size_t)(counted_samples(run) * shape_bytes(&target)));
}

enum ps_status stage_forward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                             struct stage_result *result, struct ps_error *error) {
    return stage_forward_again(stage, blocks, step, NULL, result, error);
}

enum ps_status stage_forward_again(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                                   const bool *kept, struct stage_result *result, struct ps_error *error) {
    struct stage_result made = {0};
    struct stage_run run = start(stage, blocks, step, stage->result != NULL ? stage->result : &made, error);
    TRY(check_target(&run, &made));
    copy_target(&run);
    if (stage->result != NULL) device_copy(stage->device, stage->result, &made, sizeof made);
    TRY(run_list(&run, &stage->forward, STAGE_BOTH, kept));
    if (result != NULL && stage->result != NULL) device_copy(stage->device, result, stage->result, sizeof *result);
    if (result != NULL && stage->result == NULL) *result = made;
    return PS_OK;
}

enum ps_status stage_backward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                              enum stage_half half, struct ps_error *error) {
    struct stage_result unused = {0};
    struct stage_run run = start(stage, blocks, step, &unused, error);
    run.half = half;
    copy_target(&run);
    return run_list(&run, &stage->backward, half, NULL);
}

void stage_take_output(const struct stage *stage, const struct stage_blocks *blocks, float *output) {
    struct stage_run run = start(stage, blocks, NULL, NULL, NULL);
    const struct stage_node *end = &stage->nodes[stage->node_count - 1];
    const struct shape *shape = &stage->graph->nodes[end->node->inputs[0]].shape;
    const size_t count = (size_t)(stage->samples * shape_elements(shape));
    /* Behind the numbers that they become, from which each is read before its place is written. */
    char *narrow = (char *)output + count * (sizeof *output - number_types[shape->type].bytes);
    device_copy(stage->device, narrow, at(&run, end->input[0]), count * number_types[shape->type].bytes);
    device_finish(stage->device);
    for (size_t i = 0; i < count && shape->type == TYPE_BF16; i++) {
        uint16_t number;
        memcpy(&number, narrow + i * sizeof number, sizeof number);
        output[i] = bf16_value(number);
    }
}

int64_t stage_output_elements(const struct stage *stage) {
    return shape_elements(&stage->graph->nodes[stage->nodes[stage->node_count - 1].node->inputs[0]].shape);
}

const float *stage_probabilities(const struct stage *stage, const struct stage_blocks *blocks) {
    struct stage_run run = start(stage, blocks, NULL, NULL, NULL);
    const struct stage_node *end = &stage->nodes[stage->node_count - 1];
    assert(end->node->flags & OPERATOR_LOSS);
    return at(&run, end->output);
}

int64_t stage_state_bytes(const struct stage *stage) { return stage->state_bytes; }

void stage_state_take(const struct stage *stage, const float *from, const int *rows, float *to) {
    for (int i = 0; i < stage->node_count; i++) {
        const struct stage_node *node = &stage->nodes[i];
        if (node->state.block == BUFFER_NONE) continue;
        const struct kernel *kernel = node->kernel;
        size_t each = (size_t)(kernel->state_floats * (kernel->samples / stage->samples)),
               start = (size_t)node->state.offset / sizeof(float);
        for (int n = 0; n < stage->samples; n++)
            device_copy(stage->device, to + start + (size_t)n * each, from + start + (size_t)rows[n] * each,
                        each * sizeof(float));
    }
}
