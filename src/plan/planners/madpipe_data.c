/* Costs of MadPipe's stages in constant time, and the search for the least period that both classes of plans share. */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "plan/planners/madpipe.h"

void madpipe_close(struct madpipe *data) {
    free(data->time_ns);
    free(data->base_bytes);
}

/* The published formula: two versions of the weights and a gradient, g inputs of each layer, two buffers at each cut. Otherwise
 * what a stage takes in a run, with two buffers on either side as its program has them, a received input ahead of its forward,
 * and as many copies of the weights as the first worker's. */
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
            return error_set(error, PS_USAGE, "madpipe takes workers to be alike, but '%s' and '%s' differ", devices[0].name,
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
                             .time_ns = calloc(3 * count, sizeof(int64_t)),
                             .base_bytes = memory ? calloc(2 * places, sizeof(int64_t)) : NULL,
                             .limit_bytes = memory ? limit : INT64_MAX,
                             .one_link = problem->paper_cost || (link && (link->half_duplex || link->shared_link[0])),
                             .fixed = !problem->paper_cost,
                             .budget = 100000000,
                             .tolerance_ns = 1};
    if (!data->time_ns || (memory && !data->base_bytes)) {
        madpipe_close(data);
        return error_memory(error, "the tables of the planner", 2 * places * sizeof(int64_t));
    }
    data->forward_ns = data->time_ns + count;
    data->transfer_ns = data->time_ns + 2 * count;
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
    if (memory) data->copy_bytes = data->base_bytes + places;
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
    error_set(error, PS_NO_PLAN, "no plan for %d workers fits their memory of %s", data->workers,
              text_bytes(data->limit_bytes, limit));
    if (alone > data->limit_bytes)
        return error_set(error, PS_NO_PLAN,
                         "no plan for %d workers fits their memory of %s; layer %d ('%s') needs %s by itself "
                         "with one activation",
                         data->workers, limit, worst + 1, data->problem->costs->layers[worst].name, text_bytes(alone, needs));
    return PS_NO_PLAN;
}

/* With all of the work in one period nothing more is gained by a longer one, so the search ends there. */
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

enum ps_status madpipe_contiguous(const struct madpipe *data, struct madpipe_stage *stages, int *count, int64_t *period_ns,
                                  struct ps_error *error) {
    return find_least(data, madpipe_contiguous_at, 0, stages, count, period_ns, error);
}

enum ps_status madpipe_special(const struct madpipe *data, int64_t known, struct madpipe_stage *stages, int *count,
                               int64_t *period_ns, struct ps_error *error) {
    return find_least(data, madpipe_special_at, known, stages, count, period_ns, error);
}
