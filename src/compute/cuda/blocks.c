/*
 * Work on the GPU's blocks that belongs to no node: adding, converting, scaling, clipping, and the optimizers' updates. The
 * rules of compute/optimizers/ get their coefficients here; the kernel (sources/optimizer.cu) is compiled for a rule and for
 * what is wanted.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/blocks.h"

extern const struct optimizer optimizer_sgd, optimizer_sgdm, optimizer_adam, optimizer_adamw;

/* The first error of a device is kept. */
static void keep(struct cuda_device *device, enum ps_status status, const struct ps_error *error) {
    if (status == PS_OK || device->status != PS_OK) return;
    device->status = status;
    device->error = *error;
}

static void run(struct cuda_device *device, const char *source, const char *name, const char *defines, bool fours,
                const struct call *call) {
    struct ps_error error = {0};
    const struct cuda_module *module;
    const int64_t each = fours ? (int64_t)4 * CUDA_BLOCK : CUDA_BLOCK, most = (int64_t)device->gpu->multiprocessors * 32;
    char text[512];
    cuda_enter(device);
    snprintf(text, sizeof text, "%s#define CALL_INPUTS 1\n#define TEAM %d\n", defines, CUDA_BLOCK);
    enum ps_status status = cuda_compile(device, source, text, &module, &error);
    if (status == PS_OK)
        status = cuda_launch(device, cuda_function(module, name), number_smaller((call->count + each - 1) / each, most),
                             CUDA_BLOCK, call, &error);
    keep(device, status, &error);
}

void cuda_block_add(struct device *device, enum number_type type, size_t count, void *y, const void *x) {
    char defines[64];
    snprintf(defines, sizeof defines, "#define X0 %s\n#define Y f32\n", number_types[type].name);
    run((struct cuda_device *)device, "memory", "add", defines, true,
        &(struct call){.count = (int64_t)count, .output = y, .input = {{.value = x}}});
}

void cuda_block_convert(struct cuda_device *device, size_t count, enum number_type to_type, void *to,
                        enum number_type from_type, const void *from) {
    char defines[64];
    snprintf(defines, sizeof defines, "#define X0 %s\n#define Y %s\n", number_types[from_type].name,
             number_types[to_type].name);
    run(device, "memory", "convert", defines, true,
        &(struct call){.count = (int64_t)count, .output = to, .input = {{.value = from}}});
}

void cuda_block_repitch(struct cuda_device *device, int64_t rows, int64_t columns, enum number_type to_type, void *to,
                        int64_t to_pitch, enum number_type from_type, const void *from, int64_t from_pitch) {
    char defines[256];
    if (to_pitch == columns && from_pitch == columns) {
        cuda_block_convert(device, (size_t)(rows * columns), to_type, to, from_type, from);
        return;
    }
    snprintf(defines, sizeof defines, "#define X0 %s\n#define Y %s\n#define COLUMNS %lld\n#define FOURS %lld\n",
             number_types[from_type].name, number_types[to_type].name, (long long)columns, (long long)(columns + 3) / 4);
    run(device, "repitch", "repitch", defines, false,
        &(struct call){.count = rows * ((columns + 3) / 4),
                       .output = to,
                       .number = {from_pitch, to_pitch},
                       .input = {{.value = from}}});
}

#define FLOATS "#define X0 f32\n#define Y f32\n"

void cuda_block_scale(struct device *device, size_t count, float *y, float factor, float divisor) {
    run((struct cuda_device *)device, "memory", "scale", FLOATS, true,
        &(struct call){.count = (int64_t)count, .output = y, .factor = {factor, divisor}});
}

/* Blocks of a range that are added up one by one. */
static int64_t squares_of(const struct cuda_device *device, size_t count) {
    return number_smaller(((int64_t)count + CUDA_BLOCK - 1) / CUDA_BLOCK, (int64_t)device->gpu->multiprocessors * 32);
}

void cuda_block_clip(struct device *base, const struct stretch *stretches, int count, double limit) {
    struct cuda_device *device = (struct cuda_device *)base;
    struct ps_error error = {0};
    int64_t sums = 0;
    void *room;
    for (int s = 0; s < count; s++) sums += squares_of(device, stretches[s].count);
    keep(device, cuda_room(device, (size_t)sums * sizeof(double), &room, &error), &error);
    if (device->status != PS_OK) return;
    int64_t at = 0;
    for (int s = 0; s < count; s++) {
        run(device, "memory", "squares", FLOATS, false,
            &(struct call){.count = (int64_t)stretches[s].count, .output = stretches[s].at, .more = {room}, .number = {at}});
        at += squares_of(device, stretches[s].count);
    }
    for (int s = 0; s < count; s++)
        run(device, "memory", "clip", FLOATS, false,
            &(struct call){.count = (int64_t)stretches[s].count,
                           .output = stretches[s].at,
                           .more = {room},
                           .number = {sums},
                           .factor = {(float)limit}});
}

/* ------------------------------------------------------------------------ optimizers */

/* In the order of call.factor (sources/optimizer.cu). */
struct coefficients {
    float keep, take, keep2, take2, decay, root, epsilon, shrink, step, ahead_shrink, ahead_step;
};

static struct coefficients adam_coefficients(const struct optimizer_settings *s, const struct optimizer_call *call,
                                             bool decoupled) {
    const double correction1 = 1 - pow(s->beta1, (double)call->step), correction2 = 1 - pow(s->beta2, (double)call->step);
    return (struct coefficients){
        .keep = (float)s->beta1,
        .take = (float)(1 - s->beta1),
        .keep2 = (float)s->beta2,
        .take2 = (float)(1 - s->beta2),
        .decay = decoupled ? 0 : (float)s->weight_decay,
        .root = (float)(1 / sqrt(correction2)),
        .epsilon = (float)s->eps,
        .shrink = decoupled ? (float)(1 - call->lr * s->weight_decay) : 1,
        .step = (float)(call->lr / correction1),
        .ahead_shrink = decoupled ? (float)call->ahead.decay_product : 1,
        .ahead_step = (float)(call->ahead.lr_sum / correction1),
    };
}

static struct coefficients descent_coefficients(const struct optimizer_settings *s, const struct optimizer_call *call) {
    const bool fresh = call->step == 1 || s->momentum == 0;
    return (struct coefficients){
        .keep = fresh ? 0 : (float)s->momentum,
        .take = fresh ? 1 : (float)(1 - s->dampening),
        .decay = (float)s->weight_decay,
        .step = (float)call->lr,
        .ahead_step = (float)call->ahead.lr_sum,
    };
}

void cuda_update(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                 const struct optimizer_call *call, bool predict_only, double seconds) {
    const bool observes = rule->observe != NULL && rule->update == rule->observe, decoupled = strcmp(rule->name, "adamw") == 0;
    const int number = rule->moments == 0 ? 0 : rule->moments;
    struct coefficients k =
        rule->adam_settings ? adam_coefficients(settings, call, decoupled) : descent_coefficients(settings, call);
    char defines[256];
    struct call argument = {.count = (int64_t)call->count,
                            .output = call->updated,
                            .output_gradient = call->gradient,
                            .more = {call->moment[0], call->moment[1], call->predicted, call->copy}};
    (void)seconds;
    if (call->count == 0) return;
    argument.input[0].value = call->weights;
    if (predict_only && call->step == 0) {
        cuda_block_convert((struct cuda_device *)device, call->count, call->type, call->predicted, TYPE_F32, call->weights);
        return;
    }
    memcpy(argument.factor, &k, sizeof k);
    snprintf(defines, sizeof defines,
             "#define RULE %d\n#define UPDATES %d\n#define MOVES %d\n#define PREDICTS %d\n#define COPIES %d\n#define Y %s\n",
             number, !predict_only && !observes, !predict_only, call->predicted != NULL && !observes,
             call->copy != NULL && !observes, number_types[call->type].name);
    run((struct cuda_device *)device, "optimizer", "optimizer", defines, true, &argument);
}
