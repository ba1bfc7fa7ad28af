/*
 * Can PipeOptim's prediction be improved? A pipeline in one loop, small enough to try many ways over many seeds.
 *
 * A network of one linear layer to the stage (14 x 14 grey images, ReLU between the stages) is trained as asynchronous 1F1B
 * trains it. Which version of its weights a stage reads for a micro-batch, and how many updates come before its backward,
 * follow from the order of computations alone (docs/methods.md), so no pipeline is needed to get the same gradients: stage p
 * of P runs s = P-1-p forwards ahead. Predictions are made the moment that the version they start from is there, with what the
 * optimizer knows then.
 *
 *     beyond IDX_DIRECTORY [KEY=VALUE...]      prints a row for each way; `keys` has the keys, only=A;B chooses ways
 *
 * A row: validation accuracy and loss at the end and the mean training loss, each with its deviation over the seeds; the mean
 * difference of that training loss from pipeoptim's, seed by seed, with its standard error; the relative distance of predicted
 * and of newest from actual weights, over all stages that predict. `diverged` where a seed ends without a number.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/vector.h"
#include "data/dataset.h"

enum {
    STAGES_MAX = 16,
    LAYER_MAX = 64, /* units of a hidden layer, and samples of a mini-batch */
    RING = 32,      /* micro-batches in flight, at most */
    CLASSES = 10,
    SIDE = 14,
    INPUT = SIDE * SIDE,
    TRAIN = 20000,
    VALID = 2000,
    SEEDS_MAX = 32,
};

enum backward { NEWEST, SAME, HALFWAY, PREDICTED }; /* SAME: as the forward; HALFWAY: between that and the newest */
enum direction {
    BY_RULE,    /* the optimizer's: momentum, or bias-corrected moments */
    FITTED,     /* that, times what would have been best for the predictions so far (least squares over the stage) */
    FITTED_TWO, /* of that and the last gradient, by the same rule, the best sum */
    BY_PAST,    /* as far as the weights went in as many updates before */
};

/* One way to choose weights and to use gradients. */
struct way {
    const char *name;
    bool synchronous; /* one device */
    double scale;     /* of the predicted displacement; 0: the newest weights */
    double kept;      /* of the direction after a step: all (1), or what momentum keeps of it without gradients (0) */
    enum backward backward;
    enum direction direction;
    bool past_rate;    /* the rate of the step that was done last, not those of the steps to come */
    bool fixed_s;      /* P-1-p also while the pipeline fills */
    bool one_more;     /* s + 1 */
    double slope;      /* the forward (backward PREDICTED: both passes) look floor(slope p) updates past the own backward, */
    int further;       /* and so many on every stage */
    double delay;      /* lambda of g += lambda g g (newest - read) (DC-ASGD) */
    double spike;      /* a delayed gradient at once moves weights as it would have done by now, for a delay of spike s */
    double feedback;   /* of the running mean of the errors, added element by element */
    double anneal;     /* the rate is divided by s at first, less and less over this part of the training (PipeMare) */
    int micro_batches; /* to the mini-batch; 0: 1 */
};

#define PREDICTS .scale = 1, .kept = 1
static const struct way ways[] = {
    {.name = "sync", .synchronous = true},
    {.name = "latest"},
    {.name = "stash", .backward = SAME},
    {.name = "spectrain/xpipe", PREDICTS, .slope = 0.5, .backward = PREDICTED},
    {.name = "pipeoptim", PREDICTS},
    {.name = "fixed s in the fill", PREDICTS, .fixed_s = true},
    {.name = "s one too large", PREDICTS, .one_more = true},
    {.name = "rate of the past step", PREDICTS, .past_rate = true},
    {.name = "scaled by 0.5", .scale = 0.5, .kept = 1},
    {.name = "scaled by 0.75", .scale = 0.75, .kept = 1},
    {.name = "scaled by 1.25", .scale = 1.25, .kept = 1},
    {.name = "scaled by 1.5", .scale = 1.5, .kept = 1},
    {.name = "scaled by 2", .scale = 2, .kept = 1},
    {.name = "momentum decays", .scale = 1, .kept = 0},
    {.name = "momentum half decays", .scale = 1, .kept = 0.5},
    {.name = "scale fitted", PREDICTS, .direction = FITTED},
    {.name = "scale of two fitted", PREDICTS, .direction = FITTED_TWO},
    {.name = "past displacement", PREDICTS, .direction = BY_PAST},
    {.name = "error fed back 0.3", PREDICTS, .feedback = 0.3},
    {.name = "error fed back 1", PREDICTS, .feedback = 1},
    {.name = "backward reads the same", PREDICTS, .backward = SAME},
    {.name = "backward reads halfway", PREDICTS, .backward = HALFWAY},
    {.name = "delay compensated 0.1", PREDICTS, .delay = 0.1},
    {.name = "delay compensated 1", PREDICTS, .delay = 1},
    {.name = "delay compensated 10", PREDICTS, .delay = 10},
    {.name = "latest, delay comp. 1", .delay = 1},
    {.name = "latest, spike", .spike = 1},
    {.name = "spike 0.15", PREDICTS, .spike = 0.15},
    {.name = "spike 0.5", PREDICTS, .spike = 0.5},
    {.name = "spike", PREDICTS, .spike = 1},
    {.name = "decays, spike", .scale = 1, .kept = 0, .spike = 1},
    {.name = "rate annealed", PREDICTS, .anneal = 0.25},
    {.name = "1 further", PREDICTS, .further = 1, .backward = PREDICTED},
    {.name = "2 further", PREDICTS, .further = 2, .backward = PREDICTED},
    {.name = "4 further", PREDICTS, .further = 4, .backward = PREDICTED},
    {.name = "8 further", PREDICTS, .further = 8, .backward = PREDICTED},
    {.name = "slope 0.25", PREDICTS, .slope = 0.25, .backward = PREDICTED},
    {.name = "slope 1", PREDICTS, .slope = 1, .backward = PREDICTED},
    {.name = "slope 0.5, forward only", PREDICTS, .slope = 0.5},
    {.name = "slope 1, forward only", PREDICTS, .slope = 1},
    {.name = "slope 2, forward only", PREDICTS, .slope = 2},
    {.name = "slope 0.5, decays", .scale = 1, .kept = 0, .slope = 0.5, .backward = PREDICTED},
    {.name = "slope 1, decays", .scale = 1, .kept = 0, .slope = 1, .backward = PREDICTED},
    {.name = "slope 0.5, two fitted", PREDICTS, .slope = 0.5, .backward = PREDICTED, .direction = FITTED_TWO},
    {.name = "sync, 2 further", PREDICTS, .synchronous = true, .further = 2, .backward = PREDICTED},
    {.name = "sync, 4 further", PREDICTS, .synchronous = true, .further = 4, .backward = PREDICTED},
    {.name = "M = 2", PREDICTS, .micro_batches = 2},
    {.name = "M = 4", PREDICTS, .micro_batches = 4},
    {.name = "latest, M = 2", .micro_batches = 2},
    {.name = "latest, M = 4", .micro_batches = 4},
};

static struct {
    double stages, width, batch, steps, seeds, segment, warmup, cosine, lr, adam; /* whole numbers but for lr */
} given = {.stages = 8, .width = 32, .batch = 16, .steps = 800, .seeds = 8, .warmup = 50, .cosine = 1, .lr = 0.003};
static const struct {
    const char *name;
    double *value, low, high;
} keys[] = {
    {"stages", &given.stages, 2, STAGES_MAX},
    {"width", &given.width, 1, LAYER_MAX},
    {"batch", &given.batch, 4, LAYER_MAX},
    {"steps", &given.steps, 1, 1e6},
    {"seeds", &given.seeds, 1, SEEDS_MAX},
    {"segment", &given.segment, 0, 1e6},
    {"warmup", &given.warmup, 0, 1e6},
    {"cosine", &given.cosine, 0, 1},
    {"lr", &given.lr, 0, 1e3},
    {"adam", &given.adam, 0, 1},
};
static const double momentum = 0.9, beta2 = 0.999, epsilon = 1e-8; /* momentum is Adam's beta1, too */
static int stage_count, batch_size, steps;
static bool adam;

static float images[TRAIN][INPUT], valid_images[VALID][INPUT];
static int32_t labels[TRAIN], valid_labels[VALID];

struct stage {
    int in, out, count;
    float *w, *g, *last, *m, *v, *error; /* last: the last mini-batch's gradient */
    /* By micro-batch: what its forward reads, the newest weights then, displacements by the optimizer and the last gradient. */
    float *read[RING], *from[RING], *one[RING], *two[RING];
    int ahead[RING];
    double fit[5]; /* running means of the normal equations of actual ~ a one + b two */
    bool fitted;
};

static struct stage stages[STAGES_MAX];
static float act[STAGES_MAX + 1][LAYER_MAX][INPUT], delta[2][LAYER_MAX][INPUT];

static float *floats(int count) {
    float *block = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);
    memset(block, 0, (size_t)count * sizeof(float));
    return block;
}

static double rate(int step) {
    if (step < given.warmup) return given.lr * (double)(step + 1) / given.warmup;
    if (given.cosine == 0) return given.lr;
    double progress = (double)(step - given.warmup) / (steps - given.warmup);
    return given.lr * (progress < 1 ? (1 + cos(3.14159265358979 * progress)) / 2 : 0);
}

static VECTOR_CLONES void forward(const struct stage *s, const float *w, int n, float (*x)[INPUT], float (*y)[INPUT],
                                  bool relu) {
    for (int b = 0; b < n; b++) {
        const float *bias = w + s->in * s->out;
        float sum[LAYER_MAX];
        for (int j = 0; j < s->out; j++) sum[j] = bias[j];
        for (int i = 0; i < s->in; i++) {
            const float a = x[b][i];
            if (a == 0) continue;
#pragma omp simd
            for (int j = 0; j < s->out; j++) sum[j] += a * w[i * s->out + j];
        }
        for (int j = 0; j < s->out; j++) y[b][j] = relu && sum[j] < 0 ? 0 : sum[j];
    }
}

static VECTOR_CLONES void backward(struct stage *s, const float *w, int n, float (*x)[INPUT], float (*dy)[INPUT],
                                   float (*dx)[INPUT]) {
    for (int b = 0; b < n; b++) {
#pragma omp simd
        for (int j = 0; j < s->out; j++) s->g[s->in * s->out + j] += dy[b][j];
        for (int i = 0; i < s->in; i++) {
            const float a = x[b][i];
            if (a != 0) {
#pragma omp simd
                for (int j = 0; j < s->out; j++) s->g[i * s->out + j] += a * dy[b][j];
            }
            if (!dx) continue;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int j = 0; j < s->out; j++) sum += dy[b][j] * w[i * s->out + j];
            dx[b][i] = a > 0 ? sum : 0;
        }
    }
}

/* Mean loss; the gradient of the mini-batch's mean loss into `d` (may be NULL). */
static double softmax_loss(int n, float (*y)[INPUT], const int32_t *label, float (*d)[INPUT], float weight, int *right) {
    double loss = 0;
    for (int b = 0; b < n; b++) {
        float top = y[b][0], sum = 0, e[CLASSES];
        int best = 0;
        for (int j = 1; j < CLASSES; j++)
            if (y[b][j] > top) top = y[b][j], best = j;
        for (int j = 0; j < CLASSES; j++) sum += e[j] = expf(y[b][j] - top);
        loss += log(sum) + top - y[b][label[b]];
        if (right) *right += best == label[b];
        if (d)
            for (int j = 0; j < CLASSES; j++) d[b][j] = weight * (e[j] / sum - (j == label[b]));
    }
    return loss / n;
}

static void create(void) {
    for (int p = 0; p < stage_count; p++) {
        struct stage *s = &stages[p];
        s->in = p ? (int)given.width : INPUT, s->out = p == stage_count - 1 ? CLASSES : (int)given.width,
        s->count = (s->in + 1) * s->out;
        float **blocks[] = {&s->w, &s->g, &s->last, &s->m, &s->v, &s->error};
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) *blocks[i] = floats(s->count);
        for (int r = 0; r < RING; r++)
            s->read[r] = floats(s->count), s->from[r] = floats(s->count), s->one[r] = floats(s->count),
            s->two[r] = floats(s->count);
    }
}

static void start(uint64_t seed) {
    for (int p = 0; p < stage_count; p++) {
        struct stage *s = &stages[p];
        float *blocks[] = {s->w, s->g, s->last, s->m, s->v, s->error};
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) memset(blocks[i], 0, (size_t)s->count * sizeof(float));
        const float scale = sqrtf(2.f / (float)s->in);
        struct random_key key = random_key(seed, RANDOM_TEST, (uint64_t)p, 0);
        for (int i = 0; i < s->in * s->out; i++) s->w[i] = scale * random_normal(key, (uint64_t)i);
        memset(s->fit, 0, sizeof s->fit);
        s->fitted = false;
    }
}

/* ------------------------------------------------------------------ one run */

struct run {
    const struct way *way;
    int m;      /* micro-batches to the mini-batch */
    int done;   /* updates since training began */
    int begun;  /* those before this segment */
    int length; /* micro-batches in the segment */
};

/* Updates in the segment before the backward and before the forward of micro-batch j on a stage that runs s forwards ahead. */
static int version_backward(const struct run *r, int j) { return (j < r->length ? j : r->length) / r->m; }
static int version_forward(const struct run *r, int s, int j) {
    return r->way->synchronous ? j / r->m : j > s ? (j - s) / r->m : 0;
}

static int further(const struct run *r, int p) { return r->way->further + (int)(p * r->way->slope); }

static int look(const struct run *r, int p, int j) {
    const int s = stage_count - 1 - p;
    if (r->way->scale == 0) return 0;
    if (r->way->slope > 0 || r->way->further > 0) return version_backward(r, j) - version_forward(r, s, j) + further(r, p);
    if (r->way->fixed_s) return (s + r->m - 1) / r->m;
    int ahead = version_backward(r, j) - version_forward(r, s, j);
    return ahead > 0 && r->way->one_more ? ahead + 1 : ahead;
}

/* The direction of the optimizer (one), and that of the last gradient alone (two), times -(sum of rates). */
static VECTOR_CLONES void directions(const struct stage *s, const struct run *r, double sum, float *one, float *two) {
    if (!adam) {
        const float f = (float)-sum;
#pragma omp simd
        for (int i = 0; i < s->count; i++) one[i] = f * s->m[i], two[i] = f * s->last[i];
        return;
    }
    const float c1 = (float)(1 - pow(momentum, (double)r->done)), c2 = (float)(1 / sqrt(1 - pow(beta2, (double)r->done)));
    const float f = (float)-sum, eps = (float)epsilon;
#pragma omp simd
    for (int i = 0; i < s->count; i++) {
        const float q = f / (sqrtf(s->v[i]) * c2 + eps);
        one[i] = q * s->m[i] / c1, two[i] = q * s->last[i];
    }
}

static double rates_ahead(const struct run *r, int ahead) {
    const double mu = momentum, factor = mu + (1 - mu) * r->way->kept;
    double sum = 0, left = 1;
    for (int i = 0; i < ahead; i++) {
        left *= factor;
        sum += left * (r->way->past_rate ? rate(r->done - 1) : rate(r->done + i));
    }
    return sum;
}

static void solve(const struct stage *s, enum direction kind, double *a, double *b) {
    const double *f = s->fit; /* one.one, one.two, two.two, one.actual, two.actual */
    *a = 1, *b = 0;
    if (!s->fitted || f[0] <= 0) return;
    const double det = f[0] * f[2] - f[1] * f[1];
    if (kind == FITTED || det <= 1e-9 * f[0] * f[2]) {
        *a = f[3] / f[0];
    } else {
        *a = (f[3] * f[2] - f[4] * f[1]) / det, *b = (f[4] * f[0] - f[3] * f[1]) / det;
    }
}

static void predict(struct stage *s, const struct run *r, int ahead, float *to, float *one, float *two) {
    const struct way *way = r->way;
    double a = way->scale, b = 0;
    if (ahead == 0 || r->done == 0) {
        memcpy(to, s->w, (size_t)s->count * sizeof(float));
        memset(one, 0, (size_t)s->count * sizeof(float));
        memset(two, 0, (size_t)s->count * sizeof(float));
        return;
    }
    directions(s, r, rates_ahead(r, ahead), one, two);
    if (way->direction == FITTED || way->direction == FITTED_TWO) solve(s, way->direction, &a, &b);
    const float fa = (float)a, fb = (float)b, fe = (float)way->feedback;
#pragma omp simd
    for (int i = 0; i < s->count; i++) to[i] = s->w[i] + fa * one[i] + fb * two[i] + fe * s->error[i];
}

/* What the forwards of all micro-batches read that find the version there which has just come to be. */
static void predict_all(const struct run *r) {
    const int version = (int)(r->done - r->begun);
    for (int p = 0; p < stage_count; p++) {
        struct stage *s = &stages[p];
        const int ahead = stage_count - 1 - p;
        for (int j = version ? version * r->m : 0; j < r->length && version_forward(r, ahead, j) <= version; j++) {
            if (version_forward(r, ahead, j) < version) continue;
            const int slot = j % RING;
            s->ahead[slot] = look(r, p, j);
            memcpy(s->from[slot], s->w, (size_t)s->count * sizeof(float));
            if (r->way->direction == BY_PAST && version > s->ahead[slot]) {
                /* The micro-batch whose forward read the version that many updates ago has the distance since then. */
                const float *then = s->from[(j - s->ahead[slot] * r->m) % RING];
                for (int i = 0; i < s->count; i++) s->read[slot][i] = 2 * s->w[i] - then[i];
                continue;
            }
            predict(s, r, s->ahead[slot], s->read[slot], s->one[slot], s->two[slot]);
        }
    }
}

struct errors {
    double predicted, newest, size;
};

/* The moment of micro-batch j's backward on a stage: its prediction has come true, or not. */
static void judge(struct stage *s, const struct run *r, int j, struct errors *errors) {
    const int slot = j % RING;
    if (s->ahead[slot] == 0) return;
    double sums[5] = {0};
    for (int i = 0; i < s->count; i++) {
        const double w = (double)s->w[i], off = (double)s->read[slot][i] - w, moved = w - (double)s->from[slot][i];
        const double one = (double)s->one[slot][i], two = (double)s->two[slot][i];
        errors->predicted += off * off, errors->newest += moved * moved, errors->size += w * w;
        sums[0] += one * one, sums[1] += one * two, sums[2] += two * two, sums[3] += one * moved, sums[4] += two * moved;
    }
    if (r->way->feedback != 0)
        for (int i = 0; i < s->count; i++) s->error[i] = 0.9f * s->error[i] + 0.1f * (s->w[i] - s->read[slot][i]);
    if (sums[0] == 0) return;
    for (int i = 0; i < 5; i++) s->fit[i] = s->fitted ? 0.95 * s->fit[i] + 0.05 * sums[i] : sums[i];
    s->fitted = true;
}

static const float *backward_weights(struct stage *s, const struct run *r, int p, int j) {
    static float other[(INPUT + 1) * LAYER_MAX], one[(INPUT + 1) * LAYER_MAX], two[(INPUT + 1) * LAYER_MAX];
    const float *read = s->read[j % RING];
    switch (r->way->backward) {
    case SAME:
        return read;
    case NEWEST:
        return s->w;
    case HALFWAY:
        for (int i = 0; i < s->count; i++) other[i] = (read[i] + s->w[i]) / 2;
        return other;
    case PREDICTED:
        predict(s, r, further(r, p), other, one, two);
        return other;
    }
    return s->w;
}

static void update(struct stage *s, const struct run *r, int p, int j) {
    const struct way *way = r->way;
    const int slot = j % RING,
              stale = way->synchronous ? 0 : version_backward(r, j) - version_forward(r, stage_count - 1 - p, j);
    double lr = rate(r->done);
    if (way->anneal > 0 && stale > 1) {
        const double left = 1 - (double)r->done / (way->anneal * steps);
        if (left > 0) lr *= pow(stale, -left);
    }
    if (way->delay != 0 && stale > 0)
        for (int i = 0; i < s->count; i++) s->g[i] += (float)way->delay * s->g[i] * s->g[i] * (s->w[i] - s->read[slot][i]);
    const double mu = momentum, old = pow(mu, way->spike * stale);
    if (!adam) {
        const float keep = (float)mu, a = (float)(lr * old), b = (float)(lr * (1 - old) / (1 - mu));
#pragma omp simd
        for (int i = 0; i < s->count; i++) {
            s->m[i] = keep * s->m[i] + s->g[i];
            s->w[i] -= a * s->m[i] + b * s->g[i];
        }
    } else {
        const double t = (double)(r->done + 1), c1 = 1 - pow(momentum, t);
        const float c2 = (float)(1 / sqrt(1 - pow(beta2, t))), b1 = (float)momentum, b2 = (float)beta2, eps = (float)epsilon;
        const float a = (float)(lr * old / c1), b = (float)(lr * (1 - old) / c1);
#pragma omp simd
        for (int i = 0; i < s->count; i++) {
            s->m[i] = b1 * s->m[i] + (1 - b1) * s->g[i];
            s->v[i] = b2 * s->v[i] + (1 - b2) * s->g[i] * s->g[i];
            s->w[i] -= (a * s->m[i] + b * s->g[i]) / (sqrtf(s->v[i]) * c2 + eps);
        }
    }
    memcpy(s->last, s->g, (size_t)s->count * sizeof(float));
    memset(s->g, 0, (size_t)s->count * sizeof(float));
}

struct outcome {
    double accuracy, loss, training;
    struct errors errors;
};

static double micro_batch(struct run *r, int j, const uint32_t *order, struct errors *errors) {
    const int n = batch_size / r->m;
    int32_t label[LAYER_MAX];
    for (int b = 0; b < n; b++) {
        const uint32_t sample = order[((r->begun * r->m + j) * n + b) % TRAIN];
        memcpy(act[0][b], images[sample], sizeof images[0]);
        label[b] = labels[sample];
    }
    for (int p = 0; p < stage_count; p++)
        forward(&stages[p], stages[p].read[j % RING], n, act[p], act[p + 1], p < stage_count - 1);
    const double loss = softmax_loss(n, act[stage_count], label, delta[0], 1.f / (float)batch_size, NULL);
    for (int p = stage_count - 1, side = 0; p >= 0; p--, side ^= 1) {
        judge(&stages[p], r, j, errors);
        backward(&stages[p], backward_weights(&stages[p], r, p, j), n, act[p], delta[side], p ? delta[side ^ 1] : NULL);
    }
    return loss;
}

static struct outcome train(const struct way *way, uint64_t seed) {
    static uint32_t order[TRAIN];
    struct outcome outcome = {0};
    struct run r = {.way = way, .m = way->micro_batches ? way->micro_batches : 1};
    start(seed);
    random_permutation(random_key(seed, RANDOM_ORDER, 0, 0), order, TRAIN);
    const int segment = given.segment > 0 ? (int)given.segment : steps;
    double training = 0;
    while (r.done < steps) {
        r.begun = r.done, r.length = r.m * (int)(steps - r.done < segment ? steps - r.done : segment);
        predict_all(&r);
        for (int j = 0; j < r.length; j++) {
            training += micro_batch(&r, j, order, &outcome.errors) / r.m;
            if ((j + 1) % r.m) continue;
            for (int p = 0; p < stage_count; p++) update(&stages[p], &r, p, j);
            r.done++;
            predict_all(&r);
        }
    }
    outcome.training = training / steps;
    int right = 0;
    for (int first = 0; first < VALID; first += 50) {
        for (int b = 0; b < 50; b++) memcpy(act[0][b], valid_images[first + b], sizeof images[0]);
        for (int p = 0; p < stage_count; p++) forward(&stages[p], stages[p].w, 50, act[p], act[p + 1], p < stage_count - 1);
        outcome.loss += softmax_loss(50, act[stage_count], valid_labels + first, NULL, 0, &right) * 50 / VALID;
    }
    outcome.accuracy = 100.0 * right / VALID;
    return outcome;
}

/* ------------------------------------------------------------------ data, options, rows */

static void read_images(const char *directory, const char *part, int count, float (*to)[INPUT], int32_t *label) {
    char spec[4096];
    struct samples samples;
    struct ps_error error = {0};
    float image[28 * 28];
    const struct dataset_shape shape = {.channels = 1, .height = 28, .width = 28, .classes = CLASSES};
    snprintf(spec, sizeof spec, "idx:%s#%s", directory, part);
    enum ps_status status = samples_open(spec, DATASET_TRAIN, &shape, &samples, &error);
    for (int n = 0; status == PS_OK && n < count; n++) {
        status = samples.dataset->class->read(samples.dataset, n, image, &label[n], &error);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const float *at = image + 56 * y + 2 * x;
                to[n][SIDE * y + x] = (at[0] + at[1] + at[28] + at[29]) / 4;
            }
    }
    if (status != PS_OK) {
        fprintf(stderr, "beyond: %s\n", error.message);
        exit(status);
    }
    samples_close(&samples);
    double sum = 0, squares = 0;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < INPUT; i++) sum += (double)to[n][i], squares += (double)(to[n][i] * to[n][i]);
    const double mean = sum / count / INPUT, deviation = sqrt(squares / count / INPUT - mean * mean);
    for (int n = 0; n < count; n++)
        for (int i = 0; i < INPUT; i++) to[n][i] = (to[n][i] - (float)mean) / (float)deviation;
}

static double mean_of(const double *x, int n, double *deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    for (int i = 0; i < n; i++) squares += (x[i] - sum / n) * (x[i] - sum / n);
    *deviation = n > 1 ? sqrt(squares / (n - 1)) : 0;
    return sum / n;
}

static void row(const struct way *way, const double *base) {
    const int seeds = (int)given.seeds;
    double accuracy[SEEDS_MAX], loss[SEEDS_MAX], training[SEEDS_MAX], less[SEEDS_MAX], deviation[4];
    struct errors errors = {0};
    for (int i = 0; i < seeds; i++) {
        const struct outcome got = train(way, (uint64_t)i);
        accuracy[i] = got.accuracy, loss[i] = got.loss, training[i] = got.training, less[i] = got.training - base[i];
        errors.predicted += got.errors.predicted, errors.newest += got.errors.newest, errors.size += got.errors.size;
    }
    const double a = mean_of(accuracy, seeds, &deviation[0]), l = mean_of(loss, seeds, &deviation[1]);
    const double t = mean_of(training, seeds, &deviation[2]), d = mean_of(less, seeds, &deviation[3]);
    if (isfinite(t) && isfinite(l))
        printf("%-24s %6.2f +- %5.2f  %7.4f +- %6.4f  %7.4f +- %6.4f  %+8.4f +- %6.4f  %7.4f %7.4f\n", way->name, a,
               deviation[0], l, deviation[1], t, deviation[2], d, deviation[3] / sqrt(seeds),
               errors.size > 0 ? sqrt(errors.predicted / errors.size) : 0,
               errors.size > 0 ? sqrt(errors.newest / errors.size) : 0);
    else
        printf("%-24s diverged\n", way->name);
    fflush(stdout);
}

/* Is the name one of those between the semicolons? */
static bool chosen(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ';' || at[length] == 0)) return true;
    return false;
}

/* Sets the key that KEY=VALUE names; false where there is none, or the value is out of its range. */
static bool take_key(const char *text) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t length = strlen(keys[i].name);
        if (strncmp(text, keys[i].name, length) != 0 || text[length] != '=') continue;
        char *end;
        *keys[i].value = strtod(text + length + 1, &end);
        return end != text + length + 1 && *end == 0 && *keys[i].value >= keys[i].low && *keys[i].value <= keys[i].high;
    }
    return false;
}

int main(int count, char **argument) {
    const char *only = NULL;
    if (count < 2) return fprintf(stderr, "usage: beyond IDX_DIRECTORY [KEY=VALUE...]\n"), 2;
    for (int i = 2; i < count; i++) {
        if (strncmp(argument[i], "only=", 5) == 0)
            only = argument[i] + 5;
        else if (!take_key(argument[i]))
            return fprintf(stderr, "beyond: %s: no such key, or out of its range\n", argument[i]), 2;
    }
    stage_count = (int)given.stages, batch_size = (int)given.batch, steps = (int)given.steps, adam = given.adam != 0;
    if (batch_size % 4 != 0) return fprintf(stderr, "beyond: batch=%d: 4 micro-batches must divide it\n", batch_size), 2;
    read_images(argument[1], "train", TRAIN, images, labels);
    read_images(argument[1], "test", VALID, valid_images, valid_labels);
    create();
    const struct way *pipeoptim = ways;
    while (strcmp(pipeoptim->name, "pipeoptim") != 0) pipeoptim++;
    double base[SEEDS_MAX];
    for (int i = 0; i < (int)given.seeds; i++) base[i] = train(pipeoptim, (uint64_t)i).training;
    printf("%-24s %15s  %17s  %17s  %18s  %7s %7s\n", "way", "accuracy", "validation loss", "training loss", "less pipeoptim's",
           "off", "newest");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!only || chosen(only, ways[i].name)) row(&ways[i], base);
    return 0;
}
