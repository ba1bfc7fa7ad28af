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
 *
 * With the attribute `double_precision` all of this is double, and what is written is rounded once: the sums are of x - k and
 * (x - k)^2 with k the first row, both passes over the rows are y = a x + b and dx = a dy + b x + c, and no error grows with
 * the number of rows. Deep networks with few samples amplify errors of a norm's mean from layer to layer.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"

/* Rows of a block: about 128 KiB of x. A thread takes its rows by the grain. */
enum { BLOCK_FLOATS = 32768, BLOCK_ROWS_MIN = 8, ROWS_GRAIN = 64 };

enum sums_state { SUMS_MISSING, SUMS_BY_INPUT, SUMS_BY_WEIGHT };

struct inner {
    float *mean, *inverse, *sum_dy, *sum_dyx; /* sum_dyx: of dy (x - mean) */
    int32_t *state;                           /* enum sums_state */
    double *wide[4];                          /* double_precision: the four vectors instead */
};
enum { MEAN, INVERSE, SUM_DY, SUM_DYX };

/* The sums of a thread over its rows, and memory for those of a block. */
struct partial {
    double *first, *second; /* forward: mean, sum of squared distances; backward: sum_dy, sum_dyx */
    float *block_first, *block_second;
    size_t *rows; /* number of those rows; 0: the thread had none */
};

struct norm {
    const struct kernel *kernel;
    const struct kernel_call *call;
    size_t channels, block_rows;
    struct inner inner;
    const float *scale, *shift, *dy_mean, *dyx_factor; /* vectors for the second pass over the rows */
    const double *factors[3];                          /* double_precision: instead */
    bool relu, wide;
};

static size_t vector_bytes(size_t channels) { return memory_align(channels * sizeof(float)); }

static struct inner inner_of(const struct kernel_call *call, size_t channels, bool wide) {
    char *base = (char *)call->inner;
    size_t step = wide ? memory_align(channels * sizeof(double)) : vector_bytes(channels);
    void *vectors[] = {base, base + step, base + 2 * step, base + 3 * step, base + 4 * step};
    if (wide) return (struct inner){.state = vectors[4], .wide = {vectors[0], vectors[1], vectors[2], vectors[3]}};
    return (struct inner){vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], {NULL}};
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

static bool is_wide(const struct kernel *kernel) { return kernel->node->attributes.double_precision; }

static size_t block_rows(size_t channels) {
    size_t rows = BLOCK_FLOATS / channels;
    return rows < BLOCK_ROWS_MIN ? BLOCK_ROWS_MIN : rows;
}

static void set_sizes(struct kernel *kernel) {
    size_t channels = kernel_features(kernel);
    size_t vector = is_wide(kernel) ? memory_align(channels * sizeof(double)) : vector_bytes(channels);
    kernel->inner_bytes = (int64_t)(4 * vector + memory_align(sizeof(int32_t)));
    kernel->workspace_bytes = kernel->device->threads * (int64_t)partial_bytes(channels);
    kernel->fuses_relu = kernel->relu_follows;
    kernel->piece_floats = (int64_t)(block_rows(channels) * channels);
}

static struct norm norm_of(const struct kernel *kernel, const struct kernel_call *call) {
    size_t channels = kernel_features(kernel);
    return (struct norm){.kernel = kernel,
                         .call = call,
                         .channels = channels,
                         .block_rows = block_rows(channels),
                         .inner = inner_of(call, channels, is_wide(kernel)),
                         .relu = kernel->fuses_relu,
                         .wide = is_wide(kernel)};
}

/* Sums of the rows [first, end), whole blocks, into a partial that has the rows from `start` on. */
struct summing;
typedef void sum_function(const struct summing *s, const struct kernel_call *call, size_t first, size_t end);
struct summing {
    const struct norm *norm;
    sum_function *sum;
    struct partial partial;
    size_t rows, share, start; /* of all partials, of one, where this one begins */
};

static void sum_piece(const void *context, const struct kernel_call *call, size_t first, size_t end) {
    const struct summing *s = context;
    s->sum(s, call, first, end);
}

static void sum_partials(const void *context, size_t first, size_t end) {
    struct summing s = *(const struct summing *)context;
    struct kernel_call reads = *s.norm->call;
    reads.output = reads.input_gradient[0] = NULL;
    for (size_t i = first; i < end; i++) {
        size_t channels = s.norm->channels;
        s.start = i * s.share;
        s.partial = partial_of(s.norm->call, (int)i, channels);
        *s.partial.rows = s.start >= s.rows ? 0 : s.rows - s.start < s.share ? s.rows - s.start : s.share;
        memset(s.partial.first, 0, channels * sizeof *s.partial.first);
        memset(s.partial.second, 0, channels * sizeof *s.partial.second);
        kernel_pieces(s.norm->kernel, &reads, s.rows, s.start, s.start + *s.partial.rows, s.norm->block_rows, sum_piece, &s);
    }
}

/* Sums over all rows: each thread has a partial. */
static void add_up(const struct kernel *kernel, const struct norm *norm, sum_function *sum) {
    size_t threads = (size_t)kernel->device->threads, rows = kernel_rows(kernel), share = (rows + threads - 1) / threads;
    share = (share + ROWS_GRAIN - 1) / ROWS_GRAIN * ROWS_GRAIN;
    device_parallel(kernel->device, threads, 1, sum_partials,
                    &(struct summing){.norm = norm, .sum = sum, .rows = rows, .share = share});
}

/* Adds the sums of all parts to those of part 0, which it returns. */
static struct partial join_sums(const struct kernel *kernel, const struct norm *norm) {
    struct partial all = partial_of(norm->call, 0, norm->channels);
    for (int part = 1; part < kernel->device->threads; part++) {
        struct partial p = partial_of(norm->call, part, norm->channels);
        if (*p.rows == 0) break;
        for (size_t c = 0; c < norm->channels; c++) {
            all.first[c] += p.first[c];
            all.second[c] += p.second[c];
        }
    }
    return all;
}

/* ---------------------------------------------------------- double precision */

static VECTOR_CLONES void measure_wide(size_t rows, size_t channels, const float *restrict x, const float *restrict shift,
                                       double *restrict sum, double *restrict squares) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            double d = (double)x[r * channels + c] - (double)shift[c];
            sum[c] += d;
            squares[c] += d * d;
        }
    }
}

static void measure_rows_wide(const struct summing *s, const struct kernel_call *call, size_t first, size_t end) {
    const size_t channels = s->norm->channels;
    measure_wide(end - first, channels, call->input[0] + first * channels, s->norm->shift, s->partial.first, s->partial.second);
}

static VECTOR_CLONES void sum_wide(size_t rows, size_t channels, const float *restrict x, const float *restrict dy,
                                   const double *restrict mean, double *restrict sum_dy, double *restrict sum_dyx) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            double gradient = (double)dy[r * channels + c];
            sum_dy[c] += gradient;
            sum_dyx[c] += gradient * ((double)x[r * channels + c] - mean[c]);
        }
    }
}

static void sum_rows_wide(const struct summing *s, const struct kernel_call *call, size_t first, size_t end) {
    const size_t channels = s->norm->channels, at = first * channels;
    sum_wide(end - first, channels, call->input[0] + at, call->output_gradient + at, s->norm->inner.wide[MEAN],
             s->partial.first, s->partial.second);
}

static VECTOR_CLONES void normalise_wide(size_t rows, size_t channels, const float *restrict x, const double *restrict a,
                                         const double *restrict b, bool relu, float *restrict y) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            float value = (float)(a[c] * (double)x[r * channels + c] + b[c]);
            y[r * channels + c] = relu && value < 0 ? 0 : value;
        }
    }
}

static VECTOR_CLONES void differentiate_wide(size_t rows, size_t channels, const float *restrict x, const float *restrict dy,
                                             const double *restrict a, const double *restrict b, const double *restrict k,
                                             float *restrict dx) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < channels; c++) {
            size_t i = r * channels + c;
            dx[i] = (float)(a[c] * (double)dy[i] + b[c] * (double)x[i] + k[c]);
        }
    }
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

static void measure_rows(const struct summing *s, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = s->norm->channels, step = s->norm->block_rows;
    const struct partial *p = &s->partial;
    for (size_t row = first; row < end; row += step) {
        size_t rows = end - row < step ? end - row : step;
        measure_block(rows, channels, call->input[0] + row * channels, p->block_first, p->block_second);
        for (size_t c = 0; c < channels; c++) {
            join((double)(row - s->start), &p->first[c], &p->second[c], (double)rows, (double)p->block_first[c],
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

static void normalise_piece(const void *context, const struct kernel_call *call, size_t first, size_t end) {
    const struct norm *norm = context;
    size_t channels = norm->channels;
    if (norm->wide)
        normalise_wide(end - first, channels, call->input[0] + first * channels, norm->factors[0], norm->factors[1], norm->relu,
                       call->output + first * channels);
    else
        normalise(end - first, channels, call->input[0] + first * channels, norm->inner.mean, norm->scale, norm->shift,
                  norm->relu, call->output + first * channels);
}

static void normalise_part(const void *context, size_t first, size_t end) {
    const struct norm *norm = context;
    kernel_pieces(norm->kernel, norm->call, kernel_rows(norm->kernel), first, end, 1, normalise_piece, norm);
}

/* Fills the wide mean and inverse, from the micro-batch or from the running statistics. */
static void measure_all_wide(const struct kernel *kernel, struct norm *norm) {
    const struct kernel_call *call = norm->call;
    const double rows = (double)kernel_rows(kernel), epsilon = (double)kernel->node->attributes.epsilon;
    struct partial all = {0};
    if (call->training) {
        float *first_row = partial_of(call, 0, norm->channels).block_first;
        numbers_convert(norm->channels, TYPE_F32, first_row, kernel_input(kernel, 0)->type, call->input[0]);
        norm->shift = first_row;
        add_up(kernel, norm, measure_rows_wide);
        all = join_sums(kernel, norm);
    }
    for (size_t c = 0; c < norm->channels; c++) {
        double mean = (double)call->statistics[2][c], variance = (double)call->statistics[3][c];
        if (call->training) {
            const double distance = fmax(all.second[c] - all.first[c] * all.first[c] / rows, 0);
            mean = (double)norm->shift[c] + all.first[c] / rows;
            variance = distance / rows;
            if (call->update_statistics) move_statistics(kernel, call, c, mean, distance);
        }
        norm->inner.wide[MEAN][c] = mean;
        norm->inner.wide[INVERSE][c] = 1 / sqrt(variance + epsilon);
    }
}

/* y = a x + b */
static void forward_wide(const struct kernel *kernel, struct norm *norm) {
    const struct partial room = partial_of(norm->call, 0, norm->channels);
    measure_all_wide(kernel, norm);
    for (size_t c = 0; c < norm->channels; c++) {
        room.first[c] = (double)norm->call->weights[0][c] * norm->inner.wide[INVERSE][c];
        room.second[c] = (double)norm->call->weights[1][c] - room.first[c] * norm->inner.wide[MEAN][c];
    }
    norm->factors[0] = room.first;
    norm->factors[1] = room.second;
}

static void forward_narrow(const struct kernel *kernel, struct norm *norm) {
    const struct kernel_call *call = norm->call;
    if (call->training) {
        measure(kernel, norm);
    } else {
        float epsilon = kernel->node->attributes.epsilon;
        memcpy(norm->inner.mean, call->statistics[2], norm->channels * sizeof(float));
        for (size_t c = 0; c < norm->channels; c++) norm->inner.inverse[c] = 1 / sqrtf(call->statistics[3][c] + epsilon);
    }
    float *scale = partial_of(call, 0, norm->channels).block_first;
    for (size_t c = 0; c < norm->channels; c++) scale[c] = call->weights[0][c] * norm->inner.inverse[c];
    norm->scale = scale;
    norm->shift = call->weights[1];
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct norm norm = norm_of(kernel, call);
    *norm.inner.state = SUMS_MISSING;
    if (norm.wide)
        forward_wide(kernel, &norm);
    else
        forward_narrow(kernel, &norm);
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

static void sum_rows(const struct summing *s, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = s->norm->channels, step = s->norm->block_rows;
    const struct partial *p = &s->partial;
    for (size_t row = first; row < end; row += step) {
        size_t rows = end - row < step ? end - row : step;
        sum_block(rows, channels, call->input[0] + row * channels, call->output_gradient + row * channels, s->norm->inner.mean,
                  p->block_first, p->block_second);
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
    add_up(kernel, norm, norm->wide ? sum_rows_wide : sum_rows);
    struct partial all = join_sums(kernel, norm);
    for (size_t c = 0; c < norm->channels; c++) {
        if (norm->wide) {
            norm->inner.wide[SUM_DY][c] = all.first[c];
            norm->inner.wide[SUM_DYX][c] = all.second[c];
        } else {
            norm->inner.sum_dy[c] = (float)all.first[c];
            norm->inner.sum_dyx[c] = (float)all.second[c];
        }
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

static void differentiate_piece(const void *context, const struct kernel_call *call, size_t first, size_t end) {
    const struct norm *norm = context;
    size_t at = first * norm->channels;
    if (norm->wide)
        differentiate_wide(end - first, norm->channels, call->input[0] + at, call->output_gradient + at, norm->factors[0],
                           norm->factors[1], norm->factors[2], call->input_gradient[0] + at);
    else
        differentiate(end - first, norm->channels, call->input[0] + at, call->output_gradient + at, norm->inner.mean,
                      norm->scale, norm->dy_mean, norm->dyx_factor, call->input_gradient[0] + at);
}

static void differentiate_part(const void *context, size_t first, size_t end) {
    const struct norm *norm = context;
    kernel_pieces(norm->kernel, norm->call, kernel_rows(norm->kernel), first, end, 1, differentiate_piece, norm);
}

/* dx = a dy + b x + c. With running statistics (outside of training) mean and variance do not depend on x. */
static void backward_wide(const struct kernel *kernel, struct norm *norm) {
    const struct partial room = partial_of(norm->call, 0, norm->channels);
    double *third = (double *)(void *)room.block_first; /* and block_second */
    const double factor = norm->call->training ? 1 / (double)kernel_rows(kernel) : 0;
    for (size_t c = 0; c < norm->channels; c++) {
        const double mean = norm->inner.wide[MEAN][c], inverse = norm->inner.wide[INVERSE][c];
        const double a = (double)norm->call->weights[0][c] * inverse;
        const double b = -a * norm->inner.wide[SUM_DYX][c] * inverse * inverse * factor;
        room.first[c] = a;
        room.second[c] = b;
        third[c] = -a * norm->inner.wide[SUM_DY][c] * factor - b * mean;
    }
    norm->factors[0] = room.first;
    norm->factors[1] = room.second;
    norm->factors[2] = third;
}

static void backward_narrow(const struct kernel *kernel, struct norm *norm) {
    struct partial room = partial_of(norm->call, 0, norm->channels);
    float *dy_mean = (float *)room.first, *dyx_factor = (float *)room.second, *scale = room.block_first;
    float factor = norm->call->training ? 1 / (float)kernel_rows(kernel) : 0;
    for (size_t c = 0; c < norm->channels; c++) {
        float inverse = norm->inner.inverse[c];
        scale[c] = norm->call->weights[0][c] * inverse;
        dy_mean[c] = norm->inner.sum_dy[c] * factor;
        dyx_factor[c] = norm->inner.sum_dyx[c] * inverse * inverse * factor;
    }
    norm->scale = scale;
    norm->dy_mean = dy_mean;
    norm->dyx_factor = dyx_factor;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct norm norm = norm_of(kernel, call);
    find_sums(kernel, &norm, SUMS_BY_INPUT, SUMS_BY_WEIGHT);
    if (norm.wide)
        backward_wide(kernel, &norm);
    else
        backward_narrow(kernel, &norm);
    device_parallel(kernel->device, kernel_rows(kernel), ROWS_GRAIN, differentiate_part, &norm);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct norm norm = norm_of(kernel, call);
    find_sums(kernel, &norm, SUMS_BY_WEIGHT, SUMS_BY_INPUT);
    for (size_t c = 0; c < norm.channels; c++) {
        if (norm.wide) {
            call->gradients[0][c] = (float)(norm.inner.wide[SUM_DYX][c] * norm.inner.wide[INVERSE][c]);
            call->gradients[1][c] = (float)norm.inner.wide[SUM_DY][c];
        } else {
            call->gradients[0][c] = norm.inner.sum_dyx[c] * norm.inner.inverse[c];
            call->gradients[1][c] = norm.inner.sum_dy[c];
        }
    }
    return PS_OK;
}

const struct kernel_class cpu_batch_norm = {
    .piecewise = true,
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
