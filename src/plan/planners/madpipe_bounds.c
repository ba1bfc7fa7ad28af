/* Costs of MadPipe's stages in constant time, and the search for the least period that both classes of plans share. */
#include "plan/planners/madpipe.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"

void madpipe_close(struct madpipe *data) { arena_release(&data->arena); }

/* Paper's formula: two versions of the weights and a gradient, g inputs of each layer, two buffers at each cut. Otherwise the
 * memory of a stage in a run: two buffers on either side as in its program, an input received ahead of its forward, and as many
 * copies of the weights as the first worker's. */
static void fill_memory(struct madpipe *data) {
    const struct cost_table *costs = data->problem->costs;
    for (int last = 0; last < data->layers; last++) {
        struct stage_walk walk = stage_walk_start(costs, last);
        int64_t inputs = 0;
        for (;; stage_walk_grow(&walk)) {
            struct stage_cost cost = stage_walk_cost(&walk);
            size_t place = (size_t)walk.first * (size_t)data->layers + (size_t)last;
            int64_t arriving = walk.first > 0 ? costs->layers[walk.first - 1].size.output_bytes : 0;
            inputs += arriving;
            if (data->problem->paper_cost) {
                data->base_bytes[place] = 3 * cost.size.parameter_bytes + 2 * (arriving + cost.size.output_bytes);
                data->copy_bytes[place] = inputs;
            } else {
                struct stage_slots slots = {.weights = data->problem->slots[0].weights,
                                            .input = walk.first > 0,
                                            .output = 2,
                                            .output_gradient = 2,
                                            .input_gradient = walk.first > 0 ? 2 : 0};
                struct worker_memory memory = stage_memory(&cost.size, &slots, data->problem->moments);
                data->base_bytes[place] = worker_memory_total(&memory);
                data->copy_bytes[place] = cost.size.stash_bytes + cost.size.input_bytes;
            }
            if (walk.first == 0) break;
        }
    }
}

static enum ps_status check_alike(const struct planner_problem *problem, struct ps_error *error) {
    const struct cluster_device *devices = problem->cluster->devices;
    for (int w = 1; w < problem->workers; w++)
        if (devices[w].speed != devices[0].speed || devices[w].memory_bytes != devices[0].memory_bytes)
            return error_set(error, PS_USAGE, "madpipe requires equal workers, but '%s' and '%s' differ", devices[0].name,
                             devices[w].name);
    return PS_OK;
}

enum ps_status madpipe_open(const struct planner_problem *problem, struct madpipe *data, struct ps_error *error) {
    const struct cost_table *costs = problem->costs;
    size_t count = (size_t)costs->layer_count + 1, places = (count - 1) * (count - 1);
    TRY(check_alike(problem, error));
    double speed = problem->cluster->devices[0].speed;
    int64_t limit = problem->cluster->devices[0].memory_bytes;
    bool memory = limit > 0 && (problem->slots || problem->paper_cost);
    const struct cluster_link *link = cluster_link_between(problem->cluster, 0, 1);
    *data = (struct madpipe){.problem = problem,
                             .layers = costs->layer_count,
                             .workers = problem->workers,
                             .limit_bytes = memory ? limit : INT64_MAX,
                             .one_link = problem->paper_cost || (link && (link->half_duplex || link->shared_link[0])),
                             .fixed = !problem->paper_cost,
                             .budget = 100000000,
                             .tolerance_ns = 1};
    data->time_ns = arena_take(&data->arena, count, sizeof(int64_t));
    data->forward_ns = arena_take(&data->arena, count, sizeof(int64_t));
    data->transfer_ns = arena_take(&data->arena, count, sizeof(int64_t));
    if (memory) data->base_bytes = arena_take(&data->arena, places, sizeof(int64_t));
    if (memory) data->copy_bytes = arena_take(&data->arena, places, sizeof(int64_t));
    TRY(arena_check(&data->arena, "the tables of the planner", error));
    for (int l = 0; l < data->layers; l++) {
        const struct layer_cost *layer = &costs->layers[l];
        int64_t forward = llround(1e9 * layer->time.forward_s / speed);
        double update_s = problem->paper_cost ? 0 : problem->update_share * layer->time.update_s;
        int64_t backward = llround(1e9 * (layer->time.backward_input_s + layer->time.backward_weight_s + update_s) / speed);
        data->forward_ns[l + 1] = data->forward_ns[l] + forward;
        data->time_ns[l + 1] = data->time_ns[l] + forward + backward;
        if (l + 1 < data->layers && problem->workers > 1)
            data->transfer_ns[l + 1] = llround(1e9 * (cluster_transfer_s(problem->cluster, 0, 1, layer->size.output_bytes) +
                                                      cluster_transfer_s(problem->cluster, 1, 0, layer->size.output_bytes)));
    }
    if (memory) fill_memory(data);
    return PS_OK;
}

int64_t madpipe_memory(const struct madpipe *data, int first, int end, int64_t copies) {
    if (!data->base_bytes) return 0;
    size_t place = (size_t)first * (size_t)data->layers + (size_t)end - 1;
    return data->base_bytes[place] + copies * data->copy_bytes[place];
}

int64_t madpipe_copy_bytes(const struct madpipe *data, int first, int end) {
    return data->base_bytes ? data->copy_bytes[(size_t)first * (size_t)data->layers + (size_t)end - 1] : 0;
}

typedef enum ps_status test_function(const struct madpipe *data, int64_t period_ns, struct madpipe_stage *stages, int *count,
                                     bool *found, struct ps_error *error);

static enum ps_status no_plan(const struct madpipe *data, struct ps_error *error) {
    int worst = 0;
    for (int l = 1; l < data->layers; l++)
        if (madpipe_memory(data, l, l + 1, 1) > madpipe_memory(data, worst, worst + 1, 1)) worst = l;
    char needs[32], limit[32];
    int64_t alone = madpipe_memory(data, worst, worst + 1, 1);
    error_set(error, PS_NO_PLAN, "no plan for %d worker%s fits their memory of %s", data->workers, text_plural(data->workers),
              text_bytes(data->limit_bytes, limit));
    if (alone > data->limit_bytes)
        return error_set(error, PS_NO_PLAN,
                         "no plan for %d worker%s fits their memory of %s; layer %d ('%s') needs %s by itself "
                         "with one activation",
                         data->workers, text_plural(data->workers), limit, cost_table_last(data->problem->costs, worst) + 1,
                         data->problem->costs->layers[worst].name, text_bytes(alone, needs));
    return PS_NO_PLAN;
}

/* A period with all of the work is never too short, so the search ends there. */
static enum ps_status find_least(const struct madpipe *data, test_function *test, int64_t known, struct madpipe_stage *stages,
                                 int *count, int64_t *period_ns, struct ps_error *error) {
    int64_t total = data->time_ns[data->layers], low = (total + data->workers - 1) / data->workers - 1, high = -1,
            top = total + 1;
    bool found;
    if (low < 0) low = 0;
    for (int l = 0; l < data->layers; l++) {
        if (madpipe_time_ns(data, l, l + 1) > low) low = madpipe_time_ns(data, l, l + 1) - 1;
        top += data->transfer_ns[l];
    }
    if (known > 0 && known < top) top = known;
    if (low >= top) low = top - 1;
    for (int64_t step = low / 64 + 1, period = low + 1; high < 0; period += step, step *= 2) {
        if (period > top) period = top;
        TRY(test(data, period, stages, count, &found, error));
        if (found)
            high = period;
        else if (period == top)
            return no_plan(data, error);
        else
            low = period;
    }
    while (high - low > data->tolerance_ns) {
        int64_t middle = low + (high - low) / 2;
        TRY(test(data, middle, stages, count, &found, error));
        *(found ? &high : &low) = middle;
    }
    if (!found) TRY(test(data, high, stages, count, &found, error));
    *period_ns = low + 1;
    return PS_OK;
}

/*
 * Contiguous stages under 1F1B*, than which no periodic schedule of the same period needs less memory: whether a period is
 * possible.
 *
 * delay[p][l] is the least delay between the forward and the backward of the first l layers when p workers hold the rest. x (+)
 * y never falls when x grows, and neither do the activations to keep, so only the least delay of the later stages matters:
 *
 *     delay[p+1][k] = min over l of (delay[p][l] (+) U(k, l)) (+) C(k)
 *
 * over the stages k..l-1 with U <= T, C <= T that fit their worker with ceil((delay[p][l] + U) / T) activations. O(P L^2).
 */

#define NEVER INT64_MAX

struct cell {
    int64_t delay;
    int end; /* of the stage that begins here */
};

/* Tries all stages that end with layer `end` - 1 on the worker number `used` from the end. */
static void try_stages(const struct madpipe *data, int64_t period, const struct cell *behind, int end, struct cell *before) {
    if (behind[end].delay == NEVER) return;
    for (int first = end - 1; first >= 0; first--) {
        int64_t time = madpipe_time_ns(data, first, end);
        if (time > period) return;
        if (madpipe_link_ns(data, first) > period) continue;
        int64_t copies = madpipe_periods(behind[end].delay + time, period);
        if (madpipe_memory(data, first, end, copies) > data->limit_bytes) continue;
        int64_t delay = madpipe_lengthen(behind[end].delay, time, period);
        delay = madpipe_cross(data, delay, first, period);
        if (delay < before[first].delay) before[first] = (struct cell){delay, end};
    }
}

static enum ps_status contiguous_at(const struct madpipe *data, int64_t period_ns, struct madpipe_stage *stages, int *count,
                                    bool *found, struct ps_error *error) {
    size_t side = (size_t)data->layers + 1, size = side * ((size_t)data->workers + 1);
    struct cell *cells;
    TRY(memory_new(&cells, size, "the table of the planner", error));
    for (size_t c = 0; c < size; c++) cells[c].delay = NEVER;
    cells[data->layers].delay = 0;
    int used = 0;
    while (used < data->workers && cells[(size_t)used * side].delay == NEVER) {
        const struct cell *behind = &cells[(size_t)used++ * side];
        for (int end = data->layers; end > 0; end--) try_stages(data, period_ns, behind, end, &cells[(size_t)used * side]);
    }
    *found = cells[(size_t)used * side].delay < NEVER;
    *count = 0;
    for (int first = 0; *found && used > 0; used--) {
        int end = cells[(size_t)used * side + (size_t)first].end;
        stages[(*count)++] = (struct madpipe_stage){first, end, false};
        first = end;
    }
    free(cells);
    return PS_OK;
}

/*
 * The least load and memory of the layers that are not yet placed on the special worker, however they are placed: the bound
 * that ends a search for plans of MadPipe's class early, as in shortest paths with limited resources.
 *
 * Stages are placed from the last layer back. So the first layers remain, with some normal workers and a delay after them. The
 * delay is at least the time of the later layers. Its excess over that time hardly changes from stage to stage, and only the
 * excess is rounded (down, so that the bound stays valid). For each (layers left, normal workers left, kind of the later stage,
 * excess) a shortest path gives the least of a weighted sum of the special worker's load and memory: of load alone, of memory
 * alone, and of both as fractions of their limits. A normal worker takes only what fits its memory at that delay.
 */

/* The excess is counted in fractions of a period, up to this many. */
enum { PARTS = 32, BUCKETS = 64 };

/* Weights of load and memory, which are fractions of what the special worker has. */
static const struct madpipe_completion_cell weights[2] = {{{1, 0, 1, 1}}, {{0, 1, 1, 0.5f}}};

/* The cells after the first `first` layers: [special][workers]. */
static struct madpipe_completion_cell *cells_of(const struct madpipe_completion *rest, int first, int bucket) {
    return rest->cells + ((size_t)first * BUCKETS + (size_t)bucket) * 2 * (size_t)rest->data->workers;
}

static int bucket_of(const struct madpipe_completion *rest, int first, int64_t delay) {
    int64_t bucket = (delay - madpipe_time_ns(rest->data, first, rest->data->layers)) / rest->width;
    return bucket < BUCKETS ? (int)bucket : BUCKETS - 1;
}

static void lower(struct madpipe_completion_cell *cell, const struct madpipe_completion_cell *other, float load, float memory) {
    for (int k = 0; k < MADPIPE_COMPLETION_SUMS; k++) {
        float least = other->least[k] + weights[0].least[k] * load + weights[1].least[k] * memory;
        cell->least[k] = least < cell->least[k] ? least : cell->least[k];
    }
}

/* Lowers the bounds after a stage first..end-1, for every delay there, with the stage on a normal worker and on the special
 * one. */
static void try_stage(struct madpipe_completion *rest, int first, int end) {
    const struct madpipe *data = rest->data;
    int workers = data->workers;
    int64_t time = madpipe_time_ns(data, first, end), period = rest->period, behind = madpipe_time_ns(data, end, data->layers);
    int64_t base = madpipe_memory(data, first, end, 0), copy = madpipe_copy_bytes(data, first, end);
    float load = (float)time / (float)period;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        int64_t delay = behind + bucket * rest->width, copies = madpipe_periods(delay + time, period);
        int64_t next = madpipe_cross(data, madpipe_lengthen(delay, time, period), first, period);
        double kept = data->fixed ? (double)copies : (double)(delay + time) / (double)period;
        float memory = (float)(((double)base + kept * (double)copy) / (double)data->limit_bytes);
        bool fits = base + copies * copy <= data->limit_bytes;
        if (!fits && memory > 1) return; /* nor with a longer delay */
        struct madpipe_completion_cell *here = cells_of(rest, end, bucket);
        const struct madpipe_completion_cell *there = cells_of(rest, first, bucket_of(rest, first, next));
        for (int w = 1; w < workers && fits; w++) {
            lower(&here[w], &there[w - 1], 0, 0);
            lower(&here[workers + w], &there[w - 1], 0, 0);
        }
        for (int w = 0; w < workers && memory <= 1; w++) lower(&here[w], &there[workers + w], load, memory);
    }
}

static void fill_rest_behind(struct madpipe_completion *rest, int end) {
    const struct madpipe *data = rest->data;
    struct madpipe_completion_cell *cells = cells_of(rest, end, 0), *behind = cells_of(rest, end + 1, 0);
    for (; cells < behind; cells++)
        for (int k = 0; k < MADPIPE_COMPLETION_SUMS; k++) cells->least[k] = end > 0 ? INFINITY : 0;
    for (int first = end - 1; first >= 0 && madpipe_time_ns(data, first, end) <= rest->period; first--)
        if (madpipe_link_ns(data, first) <= rest->period && (!data->cuts || data->cuts[first])) try_stage(rest, first, end);
}

void madpipe_completion_open(const struct madpipe *data, int64_t period_ns, struct madpipe_completion *rest,
                             struct arena *arena) {
    size_t count = ((size_t)data->layers + 1) * BUCKETS * 2 * (size_t)data->workers;
    *rest = (struct madpipe_completion){.data = data, .period = period_ns, .width = period_ns / PARTS + 1};
    if (data->limit_bytes < INT64_MAX) rest->cells = arena_take(arena, count, sizeof *rest->cells);
}

void madpipe_completion_fill(struct madpipe_completion *rest) {
    const struct madpipe *data = rest->data;
    for (int end = 0; rest->cells && end <= data->layers; end++)
        if (!data->cuts || data->cuts[end] || end == data->layers) fill_rest_behind(rest, end);
}

bool madpipe_completion_fits(const struct madpipe_completion *rest, int first, int workers, bool special, int64_t delay,
                             int64_t load, int64_t held) {
    const struct madpipe *data = rest->data;
    if (data->time_ns[first] > (workers + 1) * rest->period - load) return false;
    if (!rest->cells) return true;
    const struct madpipe_completion_cell *cell =
        cells_of(rest, first, bucket_of(rest, first, delay)) + special * data->workers + workers;
    double time_left = 1 - (double)load / (double)rest->period, memory_left = 1 - (double)held / (double)data->limit_bytes;
    for (int k = 0; k < MADPIPE_COMPLETION_SUMS; k++)
        if (cell->least[k] > 1e-5 + weights[0].least[k] * time_left + weights[1].least[k] * memory_left) return false;
    return true;
}

/*
 * MadPipe's class with one special worker, exactly (the paper uses a grid): whether a period is possible.
 *
 * Labels represent ways to place the layers from `first` on. A label has the delay at its front, the load and memory of the
 * special worker (for a stage there at least g - 1 activations, and g for one stage at a time: the largest of them is added,
 * which the paper omits), its average memory over a period, which is at most its maximum (a batch that stays for 1.9 T counts
 * 1.9 times), and the transfer that is already on the link between a normal worker and the special one, if the later stage is
 * on the special worker, too: such a link carries both ends of the normal stage.
 *
 * A label is dropped if another, with at least as many normal workers left, dominates it, or if the remaining layers cannot be
 * placed (madpipe_completion_fits). The result is a lower bound for the class: a schedule may need more, never less.
 */

struct label {
    int64_t delay, load, memory, copy; /* of the special worker: load, memory, largest activation */
    int64_t average;                   /* its average memory over a period */
    int64_t pending;                   /* on the link of the normal stage at the front; PENDING_SPECIAL: the front is special */
    int first, workers;                /* first layer placed; normal workers left */
    int parent;                        /* label of the later stages, or -1 */
};

#define PENDING_SPECIAL INT64_MAX

struct labels {
    const struct madpipe *data;
    int64_t period;
    struct label *all;
    int count;
    size_t capacity, next_capacity;
    int *list; /* per (first, workers): the newest label, or -1 */
    int *next; /* per label: the next of its list */
    int64_t compared;
    struct madpipe_completion rest;
};

static bool no_worse(const struct label *a, const struct label *b) {
    return a->delay <= b->delay && a->load <= b->load && a->memory <= b->memory && a->copy <= b->copy &&
           a->pending <= b->pending && a->average <= b->average;
}

static int *list_of(struct labels *labels, int first, int workers) {
    return &labels->list[first * labels->data->workers + workers];
}

/* A label that has dominated once often does so again soon. */
static void move_to_front(struct labels *labels, int *list, int *link) {
    int l = *link;
    *link = labels->next[l];
    labels->next[l] = *list;
    *list = l;
}

/* Returns true if the label is dominated; else drops the labels in its own list that it dominates. */
static bool dominated(struct labels *labels, const struct label *label) {
    for (int w = label->workers; w < labels->data->workers; w++)
        for (int *list = list_of(labels, label->first, w), *link = list; *link >= 0; link = &labels->next[*link]) {
            labels->compared++;
            if (!no_worse(&labels->all[*link], label)) continue;
            move_to_front(labels, list, link);
            return true;
        }
    for (int *link = list_of(labels, label->first, label->workers); *link >= 0;) {
        if (no_worse(label, &labels->all[*link])) {
            *link = labels->next[*link];
        } else {
            link = &labels->next[*link];
        }
    }
    return false;
}

static bool rest_fits(const struct labels *labels, const struct label *label) {
    int64_t held = labels->data->fixed ? label->memory : label->average;
    return madpipe_completion_fits(&labels->rest, label->first, label->workers, label->pending == PENDING_SPECIAL, label->delay,
                                   label->load, held);
}

static enum ps_status add(struct labels *labels, const struct label *label, struct ps_error *error) {
    if (labels->compared >= labels->data->budget) return PS_OK;
    if (!rest_fits(labels, label) || dominated(labels, label)) return PS_OK;
    TRY(memory_grow(&labels->all, &labels->capacity, labels->count + 1, "the labels of the planner", error));
    TRY(memory_grow(&labels->next, &labels->next_capacity, labels->count + 1, "the labels of the planner", error));
    int *list = list_of(labels, label->first, label->workers);
    labels->all[labels->count] = *label;
    labels->next[labels->count] = *list;
    *list = labels->count++;
    return PS_OK;
}

/* For a stage in which a batch stays for `stay`. */
void madpipe_special_memory(const struct madpipe *data, int first, int end, int64_t stay, int64_t period, int64_t *memory,
                            int64_t *largest, int64_t *average) {
    int64_t copies = madpipe_periods(stay, period), copy = madpipe_copy_bytes(data, first, end);
    if (data->fixed) {
        *memory += madpipe_memory(data, first, end, copies);
        return;
    }
    int64_t sure = copy * data->safety_factor / SAFETY_FACTOR_MAX;
    *memory += madpipe_memory(data, first, end, copies - 1) + sure;
    if (copy - sure > *largest) *largest = copy - sure;
    *average += madpipe_memory(data, first, end, 0) + (int64_t)floor((double)copy * ((double)stay / (double)period));
}

/* Places the layers first..behind.first-1 before a label, on a normal worker or on the special one. */
static enum ps_status extend(struct labels *labels, int parent, int first, bool special, struct ps_error *error) {
    const struct madpipe *data = labels->data;
    struct label label = labels->all[parent];
    int end = label.first;
    int64_t time = madpipe_time_ns(data, first, end), period = labels->period;
    int64_t copies = madpipe_periods(label.delay + time, period);
    bool behind_special = label.pending == PENDING_SPECIAL;
    if (special) {
        int64_t behind = label.pending;
        label.load += time;
        madpipe_special_memory(data, first, end, label.delay + time, period, &label.memory, &label.copy, &label.average);
        if (label.load > period || label.memory + label.copy > data->limit_bytes || label.average > data->limit_bytes)
            return PS_OK;
        if (behind > 0 && behind + madpipe_link_ns(data, end) > period) return PS_OK;
        label.pending = PENDING_SPECIAL;
    } else {
        if (madpipe_memory(data, first, end, copies) > data->limit_bytes) return PS_OK;
        label.pending = behind_special ? madpipe_link_ns(data, end) : 0;
        label.workers--;
    }
    label.delay = madpipe_cross(data, madpipe_lengthen(label.delay, time, period), first, period);
    label.first = first;
    label.parent = parent;
    return add(labels, &label, error);
}

static enum ps_status extend_all(struct labels *labels, int parent, struct ps_error *error) {
    const struct madpipe *data = labels->data;
    struct label label = labels->all[parent];
    for (int first = label.first - 1; first >= 0; first--) {
        if (madpipe_time_ns(data, first, label.first) > labels->period) break;
        if (madpipe_link_ns(data, first) > labels->period || (data->cuts && !data->cuts[first])) continue;
        if (label.workers > 0) TRY(extend(labels, parent, first, false, error));
        if (label.pending != PENDING_SPECIAL) TRY(extend(labels, parent, first, true, error));
    }
    return PS_OK;
}

static enum ps_status fill(struct labels *labels, struct ps_error *error) {
    const struct madpipe *data = labels->data;
    struct label start = {.first = data->layers, .workers = data->workers - 1, .parent = -1};
    TRY(add(labels, &start, error));
    for (int first = data->layers; first > 0 && labels->compared < labels->data->budget; first--)
        for (int w = data->workers - 1; w >= 0; w--)
            for (int l = *list_of(labels, first, w); l >= 0; l = labels->next[l]) TRY(extend_all(labels, l, error));
    return PS_OK;
}

/* The stages of a label that has placed all layers, in order; returns how many. */
static int read_stages(const struct labels *labels, int label, struct madpipe_stage *stages) {
    int count = 0;
    for (int l = label; labels->all[l].parent >= 0; l = labels->all[l].parent) {
        int end = labels->all[labels->all[l].parent].first;
        stages[count++] = (struct madpipe_stage){labels->all[l].first, end, labels->all[l].pending == PENDING_SPECIAL};
    }
    return count;
}

enum ps_status madpipe_special_some(const struct madpipe *data, int64_t period_ns, int most, struct madpipe_stage *stages,
                                    int *counts, int *found, bool *complete, struct ps_error *error) {
    struct labels labels = {.data = data, .period = period_ns};
    size_t lists = ((size_t)data->layers + 1) * (size_t)data->workers;
    struct arena arena = {0};
    enum ps_status status;
    *found = 0;
    labels.list = arena_take(&arena, lists, sizeof *labels.list);
    madpipe_completion_open(data, period_ns, &labels.rest, &arena);
    TRY_OUT(arena_check(&arena, "the labels of the planner", error));
    for (size_t l = 0; l < lists; l++) labels.list[l] = -1;
    madpipe_completion_fill(&labels.rest);
    TRY_OUT(fill(&labels, error));
    for (int w = data->workers - 1; w >= 0; w--)
        for (int l = labels.list[w]; l >= 0 && *found < most; l = labels.next[l], ++*found)
            counts[*found] = read_stages(&labels, l, stages + (size_t)*found * (size_t)data->layers);
    *complete = labels.compared < data->budget;
out:
    free(labels.all);
    free(labels.next);
    arena_release(&arena);
    return status;
}

static enum ps_status special_at(const struct madpipe *data, int64_t period_ns, struct madpipe_stage *stages, int *count,
                                 bool *found, struct ps_error *error) {
    int plans;
    bool complete;
    *count = 0;
    TRY(madpipe_special_some(data, period_ns, 1, stages, count, &plans, &complete, error));
    *found = plans > 0 || !complete;
    return PS_OK;
}

enum ps_status madpipe_contiguous(const struct madpipe *data, struct madpipe_stage *stages, int *count, int64_t *period_ns,
                                  struct ps_error *error) {
    return find_least(data, contiguous_at, 0, stages, count, period_ns, error);
}

enum ps_status madpipe_special(const struct madpipe *data, int64_t known, struct madpipe_stage *stages, int *count,
                               int64_t *period_ns, struct ps_error *error) {
    return find_least(data, special_at, known, stages, count, period_ns, error);
}

/* Groups of 1F1B*, from the last stage on. */

/* A sum that exceeds the period by rounding alone counts as equal. */
#define ROUNDING (1 + 1e-12)

double groups_period_s(int stages, const double *stage_s, const double *transfer_s) {
    double period_s = 0;
    for (int s = 0; s < stages; s++) {
        if (stage_s[s] > period_s) period_s = stage_s[s];
        if (s + 1 < stages && transfer_s[s] > period_s) period_s = transfer_s[s];
    }
    return period_s;
}

struct group {
    int number;
    double load_s, period_s;
};

static void join(struct group *group, double time_s) {
    if (group->load_s + time_s > group->period_s * ROUNDING) {
        group->number++;
        group->load_s = 0;
    }
    group->load_s += time_s;
}

void groups_find(int stages, const double *stage_s, const double *transfer_s, double period_s, int *in_flight) {
    struct group group = {.number = 1, .period_s = period_s};
    for (int s = stages - 1; s >= 0; s--) {
        if (s + 1 < stages) join(&group, transfer_s[s]);
        join(&group, stage_s[s]);
        in_flight[s] = group.number;
    }
}
