/* Costs of Bi-Partition's workers and boundaries in constant time, from sums over the layers. */
#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "plan/planners/bipartition.h"

void bipartition_close(struct bipartition *data) {
    for (int t = 0; t < data->type_count; t++) {
        free(data->types[t].forward_ns);
        free(data->types[t].workspace_bytes);
    }
    free(data->types);
    free(data->worker);
    free(data->forward_ns);
}

static void fill_workspace(struct bipartition_sums *sums, int layers) {
    for (int last = 0; last < layers; last++) {
        struct stage_walk walk = stage_walk_start(sums->costs, last);
        for (;; stage_walk_grow(&walk)) {
            sums->workspace_bytes[walk.first * layers + last] = stage_walk_cost(&walk).size.workspace_bytes;
            if (walk.first == 0) break;
        }
    }
}

/* A backward takes its share of an update along, but in the paper. */
static enum ps_status fill_sums(const struct planner_problem *problem, struct bipartition_sums *sums,
                                const struct cost_table *costs, struct ps_error *error) {
    double update_share = problem->paper_cost ? 0 : problem->update_share;
    size_t layers = (size_t)costs->layer_count, count = layers + 1;
    *sums = (struct bipartition_sums){.costs = costs, .forward_ns = calloc(7 * count, sizeof(int64_t))};
    if (!sums->forward_ns) return error_memory(error, "the sums of a profile", 7 * count * sizeof(int64_t));
    int64_t **parts[] = {&sums->backward_ns, &sums->parameter_bytes, &sums->statistics_bytes,
                         &sums->stash_bytes, &sums->moved_bytes,     &sums->cut_bytes};
    for (size_t p = 0; p < 6; p++) *parts[p] = sums->forward_ns + (p + 1) * count;
    for (size_t l = 0; l < layers; l++) {
        const struct layer_cost *layer = &costs->layers[l];
        sums->forward_ns[l + 1] = sums->forward_ns[l] + llround(1e9 * layer->time.forward_s);
        double backward_s = layer->time.backward_input_s + layer->time.backward_weight_s + update_share * layer->time.update_s;
        sums->backward_ns[l + 1] = sums->backward_ns[l] + llround(1e9 * backward_s);
        sums->parameter_bytes[l + 1] = sums->parameter_bytes[l] + layer->size.parameter_bytes;
        sums->statistics_bytes[l + 1] = sums->statistics_bytes[l] + layer->size.statistics_bytes;
        sums->stash_bytes[l + 1] = sums->stash_bytes[l] + layer->size.stash_bytes;
        sums->moved_bytes[l + 1] = sums->moved_bytes[l] + layer->size.stash_bytes + layer->size.parameter_bytes;
        sums->cut_bytes[l + 1] = l + 1 < layers ? layer->size.output_bytes : 0;
    }
    if (!problem->slots) return PS_OK;
    sums->workspace_bytes = malloc(layers * layers * sizeof *sums->workspace_bytes);
    if (!sums->workspace_bytes) return error_memory(error, "the sums of a profile", layers * layers * sizeof(int64_t));
    fill_workspace(sums, costs->layer_count);
    return PS_OK;
}

/* The sums of each worker's type, each type's once. */
static enum ps_status fill_types(struct bipartition *data, struct ps_error *error) {
    const struct planner_problem *problem = data->problem;
    for (int k = 0; k < data->workers; k++) {
        const struct cost_table *costs = cost_table_on(problem->costs, problem->cluster->devices[k].type);
        int t = 0;
        while (t < data->type_count && data->types[t].costs != costs) t++;
        data->worker[k] = &data->types[t];
        if (t == data->type_count) TRY(fill_sums(problem, &data->types[data->type_count++], costs, error));
    }
    return PS_OK;
}

static int64_t least_of(const struct bipartition *data, int l, bool backward) {
    int64_t least = INT64_MAX;
    for (int t = 0; t < data->type_count; t++) {
        const int64_t *sums = backward ? data->types[t].backward_ns : data->types[t].forward_ns;
        least = number_smaller(least, sums[l + 1] - sums[l]);
    }
    return least;
}

enum ps_status bipartition_open(const struct planner_problem *problem, struct bipartition *data, struct ps_error *error) {
    int layers = problem->costs->layer_count;
    size_t count = (size_t)layers + 1, workers = (size_t)problem->workers;
    *data = (struct bipartition){.problem = problem,
                                 .layers = layers,
                                 .workers = problem->workers,
                                 .types = calloc(workers, sizeof *data->types),
                                 .worker = calloc(workers, sizeof *data->worker),
                                 .forward_ns = calloc(2 * count, sizeof(int64_t))};
    enum ps_status status = data->types && data->worker && data->forward_ns
                                ? fill_types(data, error)
                                : error_memory(error, "the sums of a profile", 2 * count * sizeof(int64_t));
    if (status != PS_OK) {
        bipartition_close(data);
        return status;
    }
    data->backward_ns = data->forward_ns + count;
    for (int l = 0; l < data->layers; l++) {
        data->forward_ns[l + 1] = data->forward_ns[l] + least_of(data, l, false);
        data->backward_ns[l + 1] = data->backward_ns[l] + least_of(data, l, true);
    }
    return PS_OK;
}

double bipartition_boundary_ns(const struct bipartition *data, int k, int i, int j) {
    const struct ps_cluster *cluster = data->problem->cluster;
    const struct bipartition_sums *sums = data->worker[k];
    int64_t onward = sums->cut_bytes[i], back = data->worker[k + 1]->cut_bytes[j];
    if (!data->problem->paper_cost && i != j) onward += llabs(sums->moved_bytes[i] - sums->moved_bytes[j]);
    return 1e9 * (cluster_transfer_s(cluster, k, k + 1, onward) + cluster_transfer_s(cluster, k + 1, k, back));
}

double bipartition_load_ns(const struct bipartition *data, int k, int i, int i2, int j, int j2) {
    const struct bipartition_sums *sums = data->worker[k];
    int64_t load = sums->forward_ns[i2] - sums->forward_ns[i] + sums->backward_ns[j2] - sums->backward_ns[j];
    return (double)load / data->problem->cluster->devices[k].speed;
}

int64_t bipartition_room_ns(const struct bipartition *data, int k, double period_ns) {
    return (int64_t)floor(period_ns * data->problem->cluster->devices[k].speed);
}

static int64_t workspace(const struct bipartition_sums *sums, int layers, int first, int end) {
    return end > first ? sums->workspace_bytes[first * layers + end - 1] : 0;
}

/* Block that arrives at a range that begins after i layers; the part of it that the layer before made. */
static int64_t arriving(const struct bipartition_sums *sums, int i) {
    return i > 0 ? sums->cut_bytes[i] : sums->costs->input_bytes;
}
static int64_t arriving_value(const struct bipartition_sums *sums, int i) {
    return i > 0 ? sums->costs->layers[i - 1].size.value_bytes : sums->costs->input_bytes;
}

int64_t bipartition_kept_once(const struct bipartition *data, int k) {
    const struct stage_slots *slots = &data->problem->slots[k];
    const struct layer_sizes *end = &data->worker[k]->costs->layers[data->layers - 1].size;
    return (slots->weights + data->problem->moments) * stage_sizes_twice(end, data->layers, 0, data->layers - 1);
}

int64_t bipartition_memory(const struct bipartition *data, int k, int i, int i2, int j, int j2, bool rising) {
    const struct stage_slots *slots = &data->problem->slots[k];
    const struct bipartition_sums *sums = data->worker[k];
    int both = (int)number_larger(i, j), both_end = (int)number_smaller(i2, j2);
    if (both_end < both) both = both_end = i;
    int64_t backward_weights = sums->parameter_bytes[j2] - sums->parameter_bytes[j];
    int64_t forward_weights =
        sums->parameter_bytes[i2] - sums->parameter_bytes[i] - (sums->parameter_bytes[both_end] - sums->parameter_bytes[both]);
    int64_t sent_stash = sums->stash_bytes[i2] - sums->stash_bytes[i] - (sums->stash_bytes[both_end] - sums->stash_bytes[both]);
    int64_t bytes = (slots->weights + 1 + data->problem->moments) * backward_weights + forward_weights +
                    sums->statistics_bytes[i2] - sums->statistics_bytes[i] + sent_stash;
    if (j2 > j) {
        int64_t tail = rising ? 0 : sums->costs->layers[j2 - 1].size.tail_bytes;
        bytes += slots->stash * number_larger(0, sums->stash_bytes[j2] - sums->stash_bytes[j] - arriving_value(sums, j) + tail);
        bytes += (slots->input + slots->input_gradient) * arriving(sums, j);
        if (!rising) bytes += slots->output_gradient * sums->cut_bytes[j2];
    }
    if (i2 > i) {
        if (i != j || j2 == j) bytes += arriving(sums, i);
        if (!rising) bytes += slots->output * sums->cut_bytes[i2];
    }
    if (i == 0 && j == 0 && (rising || (i2 == data->layers && j2 == data->layers))) bytes -= bipartition_kept_once(data, k);
    return bytes + number_larger(workspace(sums, data->layers, i, i2), workspace(sums, data->layers, j, j2));
}

double bipartition_longest_load_ns(const struct bipartition *data, const int *i, const int *j) {
    double load_ns = 0;
    for (int k = 0; k < data->workers; k++)
        load_ns = fmax(load_ns, bipartition_load_ns(data, k, i[k], i[k + 1], j[k], j[k + 1]));
    return load_ns;
}

double bipartition_period_ns(const struct bipartition *data, const int *i, const int *j) {
    double period_ns = bipartition_longest_load_ns(data, i, j);
    for (int k = 1; k < data->workers; k++) period_ns = fmax(period_ns, bipartition_boundary_ns(data, k - 1, i[k], j[k]));
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
        int end = (int)number_smaller(i[forward + 1], j[backward + 1]);
        answer->stages[answer->stage_count++] = (struct planned_stage){first, end - 1, forward, backward, 1, 0};
        first = end;
    }
    answer->objective_s = bipartition_period_ns(data, i, j) / 1e9;
    return PS_OK;
}
