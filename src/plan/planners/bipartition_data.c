/* Costs of Bi-Partition's workers and boundaries in constant time, from sums over the layers. */
#include <math.h>
#include <stdlib.h>

#include "plan/planners/bipartition.h"

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

void bipartition_close(struct bipartition *data) {
    free(data->forward_ns);
    free(data->workspace_bytes);
}

static void fill_workspace(struct bipartition *data, const struct cost_table *costs) {
    for (int last = 0; last < data->layers; last++) {
        struct stage_walk walk = stage_walk_start(costs, last);
        for (;; stage_walk_grow(&walk)) {
            data->workspace_bytes[walk.first * data->layers + last] = stage_walk_cost(&walk).size.workspace_bytes;
            if (walk.first == 0) break;
        }
    }
}

enum ps_status bipartition_open(const struct planner_problem *problem, struct bipartition *data, struct ps_error *error) {
    const struct cost_table *costs = problem->costs;
    size_t count = (size_t)costs->layer_count + 1;
    int64_t *sums = calloc(7 * count, sizeof *sums);
    *data =
        (struct bipartition){.problem = problem, .layers = costs->layer_count, .workers = problem->workers, .forward_ns = sums};
    if (!sums) return error_memory(error, "the sums of a profile", 7 * count * sizeof *sums);
    int64_t **parts[] = {&data->backward_ns,     &data->moved_bytes,      &data->cut_bytes,
                         &data->parameter_bytes, &data->statistics_bytes, &data->stash_bytes};
    for (size_t p = 0; p < 6; p++) *parts[p] = sums + (p + 1) * count;
    for (int l = 0; l < data->layers; l++) {
        const struct layer_cost *layer = &costs->layers[l];
        const struct layer_sizes *size = &layer->size;
        data->forward_ns[l + 1] = data->forward_ns[l] + llround(1e9 * layer->time.forward_s);
        data->backward_ns[l + 1] =
            data->backward_ns[l] + llround(1e9 * (layer->time.backward_input_s + layer->time.backward_weight_s));
        data->moved_bytes[l + 1] = data->moved_bytes[l] + size->stash_bytes + size->parameter_bytes;
        data->cut_bytes[l + 1] = l + 1 < data->layers ? size->output_bytes : 0;
        data->parameter_bytes[l + 1] = data->parameter_bytes[l] + size->parameter_bytes;
        data->statistics_bytes[l + 1] = data->statistics_bytes[l] + size->statistics_bytes;
        data->stash_bytes[l + 1] = data->stash_bytes[l] + size->stash_bytes;
    }
    if (!problem->slots) return PS_OK;
    data->workspace_bytes = malloc((count - 1) * (count - 1) * sizeof *data->workspace_bytes);
    if (!data->workspace_bytes) {
        bipartition_close(data);
        return error_memory(error, "the sums of a profile", (count - 1) * (count - 1) * sizeof *data->workspace_bytes);
    }
    fill_workspace(data, costs);
    return PS_OK;
}

double bipartition_boundary_ns(const struct bipartition *data, int k, int i, int j) {
    const struct ps_cluster *cluster = data->problem->cluster;
    int64_t onward = data->cut_bytes[i], back = data->cut_bytes[j];
    if (!data->problem->paper_cost && i != j) onward += llabs(data->moved_bytes[i] - data->moved_bytes[j]);
    return 1e9 * (cluster_transfer_s(cluster, k, k + 1, onward) + cluster_transfer_s(cluster, k + 1, k, back));
}

double bipartition_load_ns(const struct bipartition *data, int k, int i, int i2, int j, int j2) {
    int64_t load = data->forward_ns[i2] - data->forward_ns[i] + data->backward_ns[j2] - data->backward_ns[j];
    return (double)load / data->problem->cluster->devices[k].speed;
}

static int64_t workspace(const struct bipartition *data, int first, int end) {
    return end > first ? data->workspace_bytes[first * data->layers + end - 1] : 0;
}

/* Block that arrives at a range that begins after i layers; the part of it that the layer before made. */
static int64_t arriving(const struct bipartition *data, int i) {
    return i > 0 ? data->cut_bytes[i] : data->problem->costs->input_bytes;
}
static int64_t arriving_value(const struct bipartition *data, int i) {
    const struct cost_table *costs = data->problem->costs;
    return i > 0 ? costs->layers[i - 1].size.value_bytes : costs->input_bytes;
}

int64_t bipartition_memory(const struct bipartition *data, int k, int i, int i2, int j, int j2, bool rising) {
    const struct stage_slots *slots = &data->problem->slots[k];
    int both = (int)larger(i, j), both_end = (int)smaller(i2, j2);
    if (both_end < both) both = both_end = i;
    int64_t backward_weights = data->parameter_bytes[j2] - data->parameter_bytes[j];
    int64_t forward_weights =
        data->parameter_bytes[i2] - data->parameter_bytes[i] - (data->parameter_bytes[both_end] - data->parameter_bytes[both]);
    int64_t sent_stash = data->stash_bytes[i2] - data->stash_bytes[i] - (data->stash_bytes[both_end] - data->stash_bytes[both]);
    int64_t bytes = (slots->weights + 1 + data->problem->moments) * backward_weights + forward_weights +
                    data->statistics_bytes[i2] - data->statistics_bytes[i] + sent_stash;
    if (j2 > j) {
        int64_t tail = rising ? 0 : data->problem->costs->layers[j2 - 1].size.tail_bytes;
        bytes += slots->stash * larger(0, data->stash_bytes[j2] - data->stash_bytes[j] - arriving_value(data, j) + tail);
        bytes += (slots->input + slots->input_gradient) * arriving(data, j);
        if (!rising) bytes += slots->output_gradient * data->cut_bytes[j2];
    }
    if (i2 > i) {
        if (i != j || j2 == j) bytes += arriving(data, i);
        if (!rising) bytes += slots->output * data->cut_bytes[i2];
    }
    return bytes + larger(workspace(data, i, i2), workspace(data, j, j2));
}

double bipartition_period_ns(const struct bipartition *data, const int *i, const int *j) {
    double period_ns = 0;
    for (int k = 0; k < data->workers; k++) {
        period_ns = fmax(period_ns, bipartition_load_ns(data, k, i[k], i[k + 1], j[k], j[k + 1]));
        if (k + 1 < data->workers) period_ns = fmax(period_ns, bipartition_boundary_ns(data, k, i[k + 1], j[k + 1]));
    }
    return period_ns;
}

/* A stage ends wherever a forward or a backward range does. */
enum ps_status bipartition_answer(const struct bipartition *data, const int *i, const int *j, struct planner_answer *answer,
                                  struct ps_error *error) {
    answer->stages = calloc(2 * (size_t)data->workers, sizeof *answer->stages);
    if (!answer->stages) return error_memory(error, "a plan", 2 * (size_t)data->workers * sizeof *answer->stages);
    int forward = 0, backward = 0, first = 0;
    while (first < data->layers) {
        while (i[forward + 1] <= first) forward++;
        while (j[backward + 1] <= first) backward++;
        int end = (int)smaller(i[forward + 1], j[backward + 1]);
        answer->stages[answer->stage_count++] = (struct planned_stage){first, end - 1, forward, backward, 1, 0};
        first = end;
    }
    answer->objective_s = bipartition_period_ns(data, i, j) / 1e9;
    return PS_OK;
}
