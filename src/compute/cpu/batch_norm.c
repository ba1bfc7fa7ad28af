/*
 * Batch normalisation (Ioffe and Szegedy, 2015), in loops of its own: oneDNN's are slow on images with the channels last. An
 * activation is a matrix of R = N H W rows (N for vectors) and C columns; all vectors below have C elements, and all loops run
 * along C.
 *
 *     y = (x - mean) inverse gamma + beta,   inverse = 1 / sqrt(variance + epsilon)
 *     dgamma = inverse sum dy (x - mean),  dbeta = sum dy
 *     dx = gamma inverse (dy - dbeta / R - (x - mean) inverse dgamma / R)
 *
 * Statistics take one pass over memory: rows are read in blocks that fit in the cache, a block is read once for its mean and
 * again for its squared distances, and blocks are merged in double precision by the formula of Chan, Golub and LeVeque (1979).
 * Threads take equal parts of the rows, and their results are merged in order.
 *
 * Inner memory holds mean and inverse, and the two sums of the backward, which the half of the backward that runs first leaves
 * for the other.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"

/* Rows of a block: about 128 KiB of x; with short sums few, where few channels would make it thousands of rows. A thread takes
 * its rows by the grain. */
enum { BLOCK_FLOATS = 32768, BLOCK_ROWS_MIN = 8, BLOCK_ROWS_MANY = 2048, BLOCK_ROWS_FEW = 64, ROWS_GRAIN = 64 };

enum sums_state { SUMS_MISSING, SUMS_BY_INPUT, SUMS_BY_WEIGHT };

struct inner {
    float *mean, *inverse, *sum_dy, *sum_dyx; /* sum_dyx: of dy (x - mean) */
    int32_t *state;                           /* enum sums_state */
};

/* The sums of a thread over its rows, and memory for those of a block. */
struct partial {
    double *first, *second; /* forward: mean, sum of squared distances; backward: sum_dy, sum_dyx */
    float *block_first, *block_second;
    size_t *rows; /* number of those rows; 0: the thread had none */
};

struct norm {
    const struct kernel_call *call;
    size_t channels, block_rows;
    struct inner inner;
    const float *scale, *shift, *dy_mean, *dyx_factor; /* vectors for the second pass over the rows */
    bool relu;
};

static size_t vector_bytes(size_t channels) { return memory_align(channels * sizeof(float)); }

static struct inner inner_of(const struct kernel_call *call, size_t channels) {
    char *base = (char *)call->inner;
    size_t step = vector_bytes(channels);
    void *vectors[] = {base, base + step, base + 2 * step, base + 3 * step, base + 4 * step};
    return (struct inner){vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]};
}

static size_t partial_bytes(size_t channels) {
    return 2 * memory_align(channels * sizeof(double)) + 2 * vector_bytes(channels) + memory_align(sizeof(size_t));
}

static struct partial partial_of(const struct kernel_call *call, int part, size_t channels) {
    size_t wide = memory_align(channels * sizeof(double)), step = vector_bytes(channels);
    char *base = (char *)call->workspace + (size_t)part * partial_bytes(channels);
    void *vectors[] = {base, base + wide, base + 2 * wide, base + 2 * wide + step, base + 2 * wide + 2 * step};
    return (struct partial){vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]};
}

static void set_sizes(struct kernel *kernel) {
    size_t channels = kernel_features(kernel);
    kernel->inner_bytes = (int64_t)(4 * vector_bytes(channels) + memory_align(sizeof(int32_t)));
    kernel->workspace_bytes = kernel->device->threads * (int64_t)partial_bytes(channels);
    kernel->fuses_relu = kernel->relu_follows;
}

static size_t block_rows(const struct kernel *kernel, size_t channels) {
    size_t rows = BLOCK_FLOATS / channels;
    if (kernel->node->attributes.short_sums && rows > BLOCK_ROWS_MANY) return BLOCK_ROWS_FEW;
    return rows < BLOCK_ROWS_MIN ? BLOCK_ROWS_MIN : rows;
}

static struct norm norm_of(const struct kernel *kernel, const struct kernel_call *call) {
    size_t channels = kernel_features(kernel);
    return (struct norm){.call = call,
                         .channels = channels,
                         .block_rows = block_rows(kernel, channels),
                         .inner = inner_of(call, channels),
                         .relu = kernel->fuses_relu};
}

/* Sums of the rows [first, end) into a partial that is zero. */
typedef void sum_function(const struct norm *norm, const struct partial *partial, size_t first, size_t end);
struct summing {
    const struct norm *norm;
    sum_function *sum;
    size_t rows, share; /* of all partials, of one */
};

static void sum_partials(const void *context, size_t first, size_t end) {
    const struct summing *s = context;
    for (size_t i = first; i < end; i++) {
        size_t row = i * s->share, channels = s->norm->channels;
        struct partial p = partial_of(s->norm->call, (int)i, channels);
        *p.rows = row >= s->rows ? 0 : s->rows - row < s->share ? s->rows - row : s->share;
        memset(p.first, 0, channels * sizeof *p.first);
        memset(p.second, 0, channels * sizeof *p.second);
        s->sum(s->norm, &p, row, row + *p.rows);
    }
}

/* Sums over all rows: each thread has a partial. */
static void add_up(const struct kernel *kernel, const struct norm *norm, sum_function *sum) {
    size_t threads = (size_t)kernel->device->threads, rows = kernel_rows(kernel), share = (rows + threads - 1) / threads;
    share = (share + ROWS_GRAIN - 1) / ROWS_GRAIN * ROWS_GRAIN;
    device_parallel(kernel->device, threads, 1, sum_partials, &(struct summing){norm, sum, rows, share});
}

/* ------------------------------------------------------------------- forward */

/* Mean and sum of squared distances of a block's rows. */
static VECTOR_CLONES void measure_block(size_t rows, size_t channels, const float *restrict x, float *restrict mean,
                                        float *restrict distance) {
    for (size_t c = 0; c < channels; c++) mean[c] = distance[c] = 0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) mean[c] += x[r * channels + c];
    }
    float factor = 1 / (float)rows;
    for (size_t c = 0; c < channels; c++) mean[c] *= factor;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            float d = x[r * channels + c] - mean[c];
            distance[c] += d * d;
        }
    }
}

/* Merges the mean and the sum of squared distances of `count` rows into those of `total` rows. */
static inline void join(double total, double *mean, double *distance, double count, double other_mean, double other_distance) {
    double d = other_mean - *mean, share = count / (total + count);
    *mean += d * share;
    *distance += other_distance + d * d * total * share;
}

static void measure_rows(const struct norm *norm, const struct partial *p, size_t first, size_t end) {
    size_t channels = norm->channels, step = norm->block_rows;
    for (size_t row = first; row < end; row += step) {
        size_t rows = end - row < step ? end - row : step;
        measure_block(rows, channels, norm->call->input[0] + row * channels, p->block_first, p->block_second);
        for (size_t c = 0; c < channels; c++) {
            join((double)(row - first), &p->first[c], &p->second[c], (double)rows, (double)p->block_first[c],
                 (double)p->block_second[c]);
        }
    }
}

static void move_statistics(const struct kernel *kernel, const struct kernel_call *call, size_t c, double mean,
                            double distance) {
    double momentum = (double)kernel->node->attributes.momentum, rows = (double)kernel_rows(kernel);
    double unbiased = distance / (rows > 1 ? rows - 1 : 1);
    float *running_mean = &call->statistics[2][c], *running_variance = &call->statistics[3][c];
    *running_mean = (float)((1 - momentum) * (double)*running_mean + momentum * mean);
    *running_variance = (float)((1 - momentum) * (double)*running_variance + momentum * unbiased);
}

/* Fills inner mean and inverse from the micro-batch. */
static void measure(const struct kernel *kernel, const struct norm *norm) {
    add_up(kernel, norm, measure_rows);
    double epsilon = (double)kernel->node->attributes.epsilon, rows = (double)kernel_rows(kernel);
    struct partial all = partial_of(norm->call, 0, norm->channels);
    double total = (double)*all.rows;
    for (int part = 1; part < kernel->device->threads; part++) {
        struct partial p = partial_of(norm->call, part, norm->channels);
        double count = (double)*p.rows;
        if (count == 0) break;
        for (size_t c = 0; c < norm->channels; c++) join(total, &all.first[c], &all.second[c], count, p.first[c], p.second[c]);
        total += count;
    }
    for (size_t c = 0; c < norm->channels; c++) {
        norm->inner.mean[c] = (float)all.first[c];
        norm->inner.inverse[c] = (float)(1 / sqrt(all.second[c] / rows + epsilon));
        if (norm->call->update_statistics) move_statistics(kernel, norm->call, c, all.first[c], all.second[c]);
    }
}

static VECTOR_CLONES void normalise(size_t rows, size_t channels, const float *restrict x, const float *restrict mean,
                                    const float *restrict scale, const float *restrict shift, bool relu, float *restrict y) {
    for (size_t r = 0; r < rows; r++) {
        const float *from = x + r * channels;
        float *to = y + r * channels;
        if (relu) {
            for (size_t c = 0; c < channels; c++) {
                float value = (from[c] - mean[c]) * scale[c] + shift[c];
                to[c] = value < 0 ? 0 : value;
            }
        } else {
            for (size_t c = 0; c < channels; c++) to[c] = (from[c] - mean[c]) * scale[c] + shift[c];
        }
    }
}

static void normalise_part(const void *context, size_t first, size_t end) {
    const struct norm *norm = context;
    size_t channels = norm->channels;
    normalise(end - first, channels, norm->call->input[0] + first * channels, norm->inner.mean, norm->scale, norm->shift,
              norm->relu, norm->call->output + first * channels);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct norm norm = norm_of(kernel, call);
    *norm.inner.state = SUMS_MISSING;
    if (call->training) {
        measure(kernel, &norm);
    } else {
        float epsilon = kernel->node->attributes.epsilon;
        memcpy(norm.inner.mean, call->statistics[2], norm.channels * sizeof(float));
        for (size_t c = 0; c < norm.channels; c++) norm.inner.inverse[c] = 1 / sqrtf(call->statistics[3][c] + epsilon);
    }
    float *scale = partial_of(call, 0, norm.channels).block_first;
    for (size_t c = 0; c < norm.channels; c++) scale[c] = call->weights[0][c] * norm.inner.inverse[c];
    norm.scale = scale;
    norm.shift = call->weights[1];
    device_parallel(kernel->device, kernel_rows(kernel), ROWS_GRAIN, normalise_part, &norm);
    return PS_OK;
}

/* ------------------------------------------------------------------ backward */

static VECTOR_CLONES void sum_block(size_t rows, size_t channels, const float *restrict x, const float *restrict dy,
                                    const float *restrict mean, float *restrict sum_dy, float *restrict sum_dyx) {
    for (size_t c = 0; c < channels; c++) sum_dy[c] = sum_dyx[c] = 0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            float gradient = dy[r * channels + c];
            sum_dy[c] += gradient;
            sum_dyx[c] += gradient * (x[r * channels + c] - mean[c]);
        }
    }
}

static void sum_rows(const struct norm *norm, const struct partial *p, size_t first, size_t end) {
    size_t channels = norm->channels, step = norm->block_rows;
    for (size_t row = first; row < end; row += step) {
        size_t rows = end - row < step ? end - row : step;
        sum_block(rows, channels, norm->call->input[0] + row * channels, norm->call->output_gradient + row * channels,
                  norm->inner.mean, p->block_first, p->block_second);
        for (size_t c = 0; c < channels; c++) {
            p->first[c] += (double)p->block_first[c];
            p->second[c] += (double)p->block_second[c];
        }
    }
}

/* Computes the sums into inner memory unless the other half of the backward has done so. */
static void find_sums(const struct kernel *kernel, const struct norm *norm, enum sums_state mine, enum sums_state others) {
    if (*norm->inner.state == (int32_t)others) {
        *norm->inner.state = SUMS_MISSING;
        return;
    }
    add_up(kernel, norm, sum_rows);
    struct partial all = partial_of(norm->call, 0, norm->channels);
    for (int part = 1; part < kernel->device->threads; part++) {
        struct partial p = partial_of(norm->call, part, norm->channels);
        if (*p.rows == 0) break;
        for (size_t c = 0; c < norm->channels; c++) {
            all.first[c] += p.first[c];
            all.second[c] += p.second[c];
        }
    }
    for (size_t c = 0; c < norm->channels; c++) {
        norm->inner.sum_dy[c] = (float)all.first[c];
        norm->inner.sum_dyx[c] = (float)all.second[c];
    }
    *norm->inner.state = (int32_t)mine;
}

static VECTOR_CLONES void differentiate(size_t rows, size_t channels, const float *restrict x, const float *restrict dy,
                                        const float *restrict mean, const float *restrict scale, const float *restrict dy_mean,
                                        const float *restrict dyx_factor, float *restrict dx) {
    for (size_t r = 0; r < rows; r++) {
        size_t row = r * channels;
        for (size_t c = 0; c < channels; c++) {
            dx[row + c] = scale[c] * (dy[row + c] - dy_mean[c] - (x[row + c] - mean[c]) * dyx_factor[c]);
        }
    }
}

static void differentiate_part(const void *context, size_t first, size_t end) {
    const struct norm *norm = context;
    size_t at = first * norm->channels;
    differentiate(end - first, norm->channels, norm->call->input[0] + at, norm->call->output_gradient + at, norm->inner.mean,
                  norm->scale, norm->dy_mean, norm->dyx_factor, norm->call->input_gradient[0] + at);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct norm norm = norm_of(kernel, call);
    find_sums(kernel, &norm, SUMS_BY_INPUT, SUMS_BY_WEIGHT);
    struct partial room = partial_of(call, 0, norm.channels);
    float *dy_mean = (float *)room.first, *dyx_factor = (float *)room.second, *scale = room.block_first;
    /* With running statistics (outside of training) mean and variance do not depend on x. */
    float factor = call->training ? 1 / (float)kernel_rows(kernel) : 0;
    for (size_t c = 0; c < norm.channels; c++) {
        float inverse = norm.inner.inverse[c];
        scale[c] = call->weights[0][c] * inverse;
        dy_mean[c] = norm.inner.sum_dy[c] * factor;
        dyx_factor[c] = norm.inner.sum_dyx[c] * inverse * inverse * factor;
    }
    norm.scale = scale;
    norm.dy_mean = dy_mean;
    norm.dyx_factor = dyx_factor;
    device_parallel(kernel->device, kernel_rows(kernel), ROWS_GRAIN, differentiate_part, &norm);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct norm norm = norm_of(kernel, call);
    find_sums(kernel, &norm, SUMS_BY_WEIGHT, SUMS_BY_INPUT);
    for (size_t c = 0; c < norm.channels; c++) {
        call->gradients[0][c] = norm.inner.sum_dyx[c] * norm.inner.inverse[c];
        call->gradients[1][c] = norm.inner.sum_dy[c];
    }
    return PS_OK;
}

const struct kernel_class cpu_batch_norm = {
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
