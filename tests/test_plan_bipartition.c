/* Bi-Partition against brute force on random instances, the paper's worked example, and published profiles. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "plan/planners/bipartition.h"

extern const struct planner planner_bipartition, planner_bipartition_order, planner_bipartition_paper;

struct instance {
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct stage_slots slots[8];
    struct planner_problem problem;
};

static int64_t some_bytes(struct random_key key, uint64_t *n) { return 64 * (int64_t)random_below(key, (*n)++, 4); }

/* A stash holds at least the value that the layer before made, and a layer's own output that it keeps is part of what it made.
 */
static void make_layer(struct cost_table *table, int l, struct random_key key, uint64_t *n) {
    struct layer_cost *layer = &table->layers[l];
    const bool last = l == table->layer_count - 1;
    layer->time.forward_s = 1e-6 * (double)random_below(key, (*n)++, 9);
    layer->time.backward_input_s = 1e-6 * (double)random_below(key, (*n)++, 9);
    layer->time.backward_weight_s = 1e-6 * (double)(1 + random_below(key, (*n)++, 3));
    layer->time.update_s = 1e-6 * (double)random_below(key, (*n)++, 5);
    layer->size.parameter_bytes = some_bytes(key, n);
    layer->size.statistics_bytes = some_bytes(key, n);
    layer->size.fixed_bytes = some_bytes(key, n);
    layer->size.output_bytes = last ? 0 : some_bytes(key, n);
    layer->size.value_bytes = random_below(key, (*n)++, 3) ? layer->size.output_bytes : layer->size.output_bytes / 2;
    layer->size.tail_bytes = random_below(key, (*n)++, 2) ? layer->size.value_bytes : 0;
    layer->size.stash_bytes = some_bytes(key, n) + (l > 0 ? layer[-1].size.value_bytes : table->input_bytes);
    layer->size.workspace_bytes = some_bytes(key, n);
}

/* The first and the last layer share weights, as large as both have. */
static void tie_ends(struct ps_profile *profile) {
    for (struct ps_profile *type = profile; type; type = type->other_device) {
        struct cost_table *table = &type->tables[0];
        struct layer_sizes *first = &table->layers[0].size, *last = &table->layers[table->layer_count - 1].size;
        if (table->layer_count > 1)
            first->tied_bytes = last->tied_bytes = number_smaller(first->parameter_bytes, last->parameter_bytes);
    }
}

/* The same layers' costs on another type of device, and workers of either. */
static void add_type(struct instance *instance, struct random_key key, uint64_t *n) {
    struct ps_profile *other;
    int layers = instance->profile->tables[0].layer_count;
    assert_ok(profile_create(1, layers, &other, &test_error));
    snprintf(other->device, sizeof other->device, "other");
    other->tables[0].input_bytes = 64;
    for (int l = 0; l < layers; l++) make_layer(&other->tables[0], l, key, n);
    assert_ok(profile_add_device(instance->profile, other, &test_error));
    for (int w = 0; w < instance->cluster->workers; w++)
        if (random_below(key, (*n)++, 2)) snprintf(instance->cluster->devices[w].type, sizeof "other", "other");
}

static void make_instance(struct instance *instance, uint64_t number) {
    struct random_key key = test_key(number);
    uint64_t n = 0;
    int layers = 1 + (int)random_below(key, n++, 6), workers = 1 + (int)random_below(key, n++, 4);
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
    bool transfers = random_below(key, n++, 2), speeds = random_below(key, n++, 2), memory = random_below(key, n++, 2);
    if (transfers) options.bandwidth_bytes_per_s = 64e6;
    if (random_below(key, n++, 4) == 0) options.latency_s = 1e-6;
    assert_ok(ps_cluster_uniform(&options, &instance->cluster, &test_error));
    assert_ok(profile_create(1, layers, &instance->profile, &test_error));
    struct cost_table *table = &instance->profile->tables[0];
    table->input_bytes = 64;
    for (int l = 0; l < layers; l++) make_layer(table, l, key, &n);
    for (int w = 0; w < workers; w++) {
        instance->slots[w] =
            (struct stage_slots){workers - w, workers - w, workers - w, w < workers - 1, w<workers - 1, w> 0, 0, {0}, false};
        if (speeds) instance->cluster->devices[w].speed = 0.5 * (double)(1 + random_below(key, n++, 4));
        if (memory) instance->cluster->devices[w].memory_bytes = 64 * (int64_t)random_below(key, n++, (uint64_t)(60 * layers));
    }
    int moments = (int)random_below(key, n++, 3);
    instance->problem = (struct planner_problem){.costs = table,
                                                 .cluster = instance->cluster,
                                                 .workers = workers,
                                                 .slots = memory ? instance->slots : NULL,
                                                 .moments = moments,
                                                 .update_share = 0.5 * (double)random_below(key, n++, 3),
                                                 .paper_cost = random_below(key, n++, 2)};
    if (random_below(key, n++, 3) == 0) add_type(instance, key, &n);
    if (random_below(key, n++, 3) == 0) tie_ends(instance->profile);
}

/* Copies of some layers' weights are bf16 as a whole or in part, of others not at all. */
static void narrow_layers(struct ps_profile *profile, struct random_key key) {
    uint64_t n = 0;
    for (struct ps_profile *type = profile; type; type = type->other_device)
        for (int l = 0; l < type->tables[0].layer_count; l++) {
            struct layer_sizes *size = &type->tables[0].layers[l].size;
            size->narrow_bytes = 64 * (int64_t)random_below(key, n++, 1 + (uint64_t)size->parameter_bytes / 64);
            size->delta_bytes = 64 * (int64_t)random_below(key, n++, 3);
        }
}

static void free_instance(struct instance *instance) {
    ps_profile_destroy(instance->profile);
    ps_cluster_destroy(instance->cluster);
}

static bool worker_fits(const struct bipartition *data, int k, const int *i, const int *j) {
    int64_t limit = data->problem->cluster->devices[k].memory_bytes;
    return !data->problem->slots || limit == 0 || bipartition_memory(data, k, i[k], i[k + 1], j[k], j[k + 1], false) <= limit;
}

static double brute_force(const struct bipartition *data, int k, int *i, int *j) {
    if (k == data->workers - 1) {
        i[k + 1] = j[k + 1] = data->layers;
        return worker_fits(data, k, i, j) ? bipartition_period_ns(data, i, j) : INFINITY;
    }
    double best = INFINITY;
    for (i[k + 1] = i[k]; i[k + 1] <= data->layers; i[k + 1]++)
        for (j[k + 1] = j[k]; j[k + 1] <= data->layers; j[k + 1]++)
            if (worker_fits(data, k, i, j)) best = fmin(best, brute_force(data, k + 1, i, j));
    return best;
}

/* The cuts of an answer, and that it is whole. */
static void read_answer(const struct planner_answer *answer, int layers, int workers, int *i, int *j) {
    int forward = 0, backward = 0;
    for (int k = 0; k <= workers; k++) i[k] = j[k] = k == 0 ? 0 : layers;
    assert_int_equal(answer->stages[0].first, 0);
    assert_int_equal(answer->stages[answer->stage_count - 1].last, layers - 1);
    for (int s = 0; s < answer->stage_count; s++) {
        const struct planned_stage *stage = &answer->stages[s];
        assert_true(stage->first <= stage->last && (s == 0 || stage->first == answer->stages[s - 1].last + 1));
        assert_true(stage->forward >= forward && stage->forward < workers && stage->backward >= backward &&
                    stage->backward < workers);
        for (; forward < stage->forward; forward++) i[forward + 1] = stage->first;
        for (; backward < stage->backward; backward++) j[backward + 1] = stage->first;
    }
}

static void against_brute_force(void **state) {
    (void)state;
    int feasible = 0, infeasible = 0, split = 0;
    for (uint64_t number = 0; number < 1500; number++) {
        struct instance instance;
        struct bipartition data;
        int i[8] = {0}, j[8] = {0};
        struct planner_answer answer = {0};
        make_instance(&instance, number);
        if (number % 3 == 0) narrow_layers(instance.profile, test_key(number));
        assert_ok(bipartition_open(&instance.problem, &data, &test_error));
        double best_ns = brute_force(&data, 0, i, j);
        enum ps_status status = planner_bipartition.solve(&instance.problem, &answer, &test_error);
        if (best_ns < INFINITY) {
            assert_ok(status);
            feasible++;
            read_answer(&answer, data.layers, data.workers, i, j);
            for (int k = 0; k < data.workers; k++) {
                assert_true(worker_fits(&data, k, i, j));
                split += i[k] != j[k];
            }
            assert_true(fabs(1e9 * answer.objective_s - best_ns) <= 1e-9 * best_ns);
            assert_true(fabs(1e9 * answer.objective_s - bipartition_period_ns(&data, i, j)) <= 1e-9 * best_ns);
        } else {
            assert_status(status, PS_NO_PLAN, "no bi-partition");
            infeasible++;
        }
        planner_answer_free(&answer);
        bipartition_close(&data);
        free_instance(&instance);
    }
    assert_true(feasible > 700 && infeasible > 20 && split > 300);
}

/* With more or fewer blocks for deltas, and every other one with weights in bf16. */
static void make_varied(struct instance *instance, uint64_t first, uint64_t number) {
    make_instance(instance, first + number);
    instance->problem.slots = instance->slots;
    for (int k = 0; k < instance->problem.workers; k++) instance->slots[k].delta = (int)(number % 3);
    if (number % 2) narrow_layers(instance->profile, test_key(number));
}

/* Equal ranges are a stage, and take the memory of one: with weights in f32, in bf16 (odd numbers), and shared ones. */
static void layer_wise_memory(void **state) {
    (void)state;
    int tied_instances = 0;
    for (uint64_t number = 0; number < 300; number++) {
        struct instance instance;
        struct bipartition data;
        make_varied(&instance, 5000, number);
        struct cost_table *table = &instance.profile->tables[0];
        int shared[] = {0, 0, table->layer_count - 1};
        struct tie tie = {.bytes = 64, .narrow = true, .layers = shared, .uses = 3};
        struct ties ties = {.list = &tie, .count = 1};
        const bool tied = number % 4 == 3 && !instance.profile->other_device && table->layers[0].size.narrow_bytes >= 128 &&
                          table->layers[table->layer_count - 1].size.narrow_bytes >= (table->layer_count > 1 ? 64 : 192);
        if (tied) table->ties = &ties;
        tied_instances += tied;
        assert_ok(bipartition_open(&instance.problem, &data, &test_error));
        for (int first = 0; first < data.layers; first++)
            for (int last = first; last < data.layers; last++)
                for (int k = 0; k < data.workers; k++) {
                    const char *type = instance.cluster->devices[k].type;
                    struct stage_cost cost = stage_cost(cost_table_on(instance.problem.costs, type), first, last);
                    struct worker_memory memory = stage_memory(&cost.size, &instance.slots[k], instance.problem.moments);
                    assert_int_equal(bipartition_memory(&data, k, first, last + 1, first, last + 1, false),
                                     worker_memory_total(&memory));
                }
        table->ties = NULL;
        bipartition_close(&data);
        free_instance(&instance);
    }
    assert_true(tied_instances > 0);
}

/* The memory of worker k, counted layer by layer: of its backward's layers as in any stage; of those that it only runs forward
 * one copy of the weights and one stash. */
static int64_t counted_memory(const struct instance *instance, int k, int i, int i2, int j, int j2) {
    const struct cost_table *table = cost_table_on(instance->problem.costs, instance->cluster->devices[k].type);
    struct stage_slots slots = instance->slots[k],
                       sent_slots = {.weights = 1,
                                     .stash = 1,
                                     .input = i != j || j2 == j, /* the backward's holds it where both begin there */
                                     .output = slots.output,
                                     .forward_only = true};
    struct stage_sizes kept = {0}, sent = {0};
    slots.output = 0;
    if (j2 > j) kept = stage_cost(table, j, j2 - 1).size;
    if (i2 > i) {
        const struct stage_sizes forward = stage_cost(table, i, i2 - 1).size;
        sent.input_bytes = forward.input_bytes;
        sent.output_bytes = forward.output_bytes;
        sent.workspace_bytes = forward.workspace_bytes;
    }
    for (int l = i; l < i2; l++) {
        const struct layer_sizes *size = &table->layers[l].size;
        if (l >= j && l < j2) continue;
        sent.parameter_bytes += size->parameter_bytes;
        sent.narrow_bytes += size->narrow_bytes;
        sent.statistics_bytes += size->statistics_bytes;
        sent.fixed_bytes += size->fixed_bytes;
        sent.stash_bytes += size->stash_bytes;
    }
    const struct worker_memory memory = stage_memory(&kept, &slots, instance->problem.moments),
                               sent_memory = stage_memory(&sent, &sent_slots, instance->problem.moments);
    struct worker_memory all = memory;
    worker_memory_add(&all, &sent_memory);
    return worker_memory_total(&all);
}

/* Any two ranges, and that none which end later take less than what must grow. */
static void split_memory(void **state) {
    (void)state;
    for (uint64_t number = 0; number < 60; number++) {
        struct instance instance;
        struct bipartition data;
        make_varied(&instance, 11000, number);
        assert_ok(bipartition_open(&instance.problem, &data, &test_error));
        const int end = data.layers + 1, ranges = end * end;
        for (int r = 0; r < ranges * ranges; r++) {
            const int i = r % end, i2 = r / end % end, j = r / ranges % end, j2 = r / ranges / end, k = r % data.workers;
            if (i2 < i || j2 < j) continue;
            assert_int_equal(bipartition_memory(&data, k, i, i2, j, j2, false), counted_memory(&instance, k, i, i2, j, j2));
            const int64_t least = bipartition_memory(&data, k, i, i2, j, j2, true);
            for (int later = 0; later < ranges; later++) {
                const int i3 = later % end, j3 = later / end;
                if (i3 >= i2 && j3 >= j2) assert_true(bipartition_memory(&data, k, i, i3, j, j3, false) >= least);
            }
        }
        bipartition_close(&data);
        free_instance(&instance);
    }
}

/* On one worker a plan is found with the memory of the stage, and with a byte less there is none. */
static void limits_at_the_boundary(void **state) {
    (void)state;
    int larger = 0, smaller = 0;
    for (uint64_t number = 0; number < 100; number++) {
        struct instance instance;
        make_instance(&instance, 7000 + number);
        instance.problem.slots = instance.slots;
        instance.problem.workers = 1;
        int64_t *limit = &instance.cluster->devices[0].memory_bytes, f32_bytes = 0;
        for (int narrow = 0; narrow < 2; narrow++) {
            if (narrow) narrow_layers(instance.profile, test_key(number));
            const struct cost_table *table = cost_table_on(instance.problem.costs, instance.cluster->devices[0].type);
            struct stage_cost cost = stage_cost(table, 0, table->layer_count - 1);
            struct worker_memory memory = stage_memory(&cost.size, &instance.slots[0], instance.problem.moments);
            struct planner_answer answer = {0};
            *limit = worker_memory_total(&memory);
            assert_ok(planner_bipartition.solve(&instance.problem, &answer, &test_error));
            planner_answer_free(&answer);
            if (--*limit > 0)
                assert_status(planner_bipartition.solve(&instance.problem, &answer, &test_error), PS_NO_PLAN, "no bi-");
            if (narrow == 0) f32_bytes = *limit;
            larger += *limit > f32_bytes;
            smaller += narrow && *limit < f32_bytes;
        }
        free_instance(&instance);
    }
    assert_true(larger > 0 && smaller > 0);
}

/* A worker with all layers keeps once what the first and the last share: that much memory is enough where others have none, and
 * a byte less is not. */
static void tied_ends(void **state) {
    (void)state;
    int tried = 0;
    for (uint64_t number = 0; number < 300; number++) {
        struct instance instance;
        make_instance(&instance, 9000 + number);
        tie_ends(instance.profile);
        instance.problem.slots = instance.slots;
        for (int k = 1; k < instance.problem.workers; k++) instance.cluster->devices[k].memory_bytes = 1;
        if (instance.profile->tables[0].layers[0].size.tied_bytes > 0) {
            struct bipartition data;
            struct planner_answer answer = {0};
            assert_ok(bipartition_open(&instance.problem, &data, &test_error));
            int64_t *limit = &instance.cluster->devices[0].memory_bytes;
            *limit = bipartition_memory(&data, 0, 0, data.layers, 0, data.layers, false);
            assert_ok(planner_bipartition.solve(&instance.problem, &answer, &test_error));
            planner_answer_free(&answer);
            --*limit;
            if (instance.problem.workers == 1)
                assert_status(planner_bipartition.solve(&instance.problem, &answer, &test_error), PS_NO_PLAN, "no bi-");
            bipartition_close(&data);
            tried++;
        }
        free_instance(&instance);
    }
    assert_true(tried > 10);
}

/* The last worker has room for the last layer and nothing more: as a stage that is less than what its forward alone would take
 * there, whose stash holds the input once more. */
static void room_for_a_stage(void **state) {
    (void)state;
    struct instance instance;
    struct planner_answer answer = {0};
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2};
    assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
    assert_ok(profile_create(1, 3, &instance.profile, &test_error));
    struct cost_table *table = &instance.profile->tables[0];
    table->input_bytes = 64;
    for (int l = 0; l < 3; l++)
        table->layers[l] = (struct layer_cost){
            .time = {.forward_s = 1, .backward_input_s = 1},
            .size = {.output_bytes = l < 2 ? 64 : 0, .value_bytes = l < 2 ? 64 : 0, .stash_bytes = 64 + 640 * (l == 1)}};
    for (int w = 0; w < 2; w++)
        instance.slots[w] = (struct stage_slots){.weights = 2 - w, .stash = 2 - w, .input = 2 - w, .output = 1 - w};
    instance.problem =
        (struct planner_problem){.costs = table, .cluster = instance.cluster, .workers = 2, .slots = instance.slots};
    const struct stage_sizes last = stage_cost(table, 2, 2).size;
    const struct worker_memory memory = stage_memory(&last, &instance.slots[1], 0);
    instance.cluster->devices[1].memory_bytes = worker_memory_total(&memory);
    assert_ok(planner_bipartition.solve(&instance.problem, &answer, &test_error));
    assert_true(answer.objective_s == 4);
    planner_answer_free(&answer);
    free_instance(&instance);
}

static void worked_example(void **state) {
    (void)state;
    static const double forward_s[] = {1, 3, 2, 3}, backward_s[] = {2, 6, 4, 6};
    struct instance instance;
    struct planner_answer answer = {0};
    int i[4], j[4];
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = 3},
                                 &instance.cluster, &test_error));
    assert_ok(profile_create(1, 4, &instance.profile, &test_error));
    for (int l = 0; l < 4; l++)
        instance.profile->tables[0].layers[l].time =
            (struct layer_times){.forward_s = forward_s[l], .backward_input_s = backward_s[l]};
    instance.problem =
        (struct planner_problem){.costs = &instance.profile->tables[0], .cluster = instance.cluster, .workers = 3};
    assert_ok(planner_bipartition.solve(&instance.problem, &answer, &test_error));
    assert_true(answer.objective_s == 9);
    read_answer(&answer, 4, 3, i, j);
    static const int forward_cuts[] = {0, 1, 3, 4}, backward_cuts[] = {0, 2, 3, 4};
    assert_memory_equal(i, forward_cuts, sizeof i);
    assert_memory_equal(j, backward_cuts, sizeof j);
    planner_answer_free(&answer);
    assert_ok(planner_bipartition_paper.solve(&instance.problem, &answer, &test_error));
    assert_true(answer.objective_s == 9);
    planner_answer_free(&answer);
    free_instance(&instance);
}

/* The published algorithm: right on its example, never better than the optimum of its own cost, and with transfers often
 * worse. */
static void published_algorithm(void **state) {
    (void)state;
    int same = 0, worse = 0;
    for (uint64_t number = 0; number < 400; number++) {
        struct instance instance;
        struct bipartition data;
        struct planner_answer exact = {0}, paper = {0};
        int i[8], j[8];
        make_instance(&instance, 20000 + number);
        instance.problem.slots = NULL;
        instance.problem.paper_cost = true;
        for (int w = 0; w < instance.problem.workers; w++) instance.cluster->devices[w] = (struct cluster_device){.speed = 1};
        if (instance.cluster->link_count > 0) instance.cluster->links[0].bandwidth_bytes_per_s = 8e6;
        assert_ok(bipartition_open(&instance.problem, &data, &test_error));
        assert_ok(planner_bipartition.solve(&instance.problem, &exact, &test_error));
        enum ps_status status = planner_bipartition_paper.solve(&instance.problem, &paper, &test_error);
        if (status == PS_OK) {
            read_answer(&paper, data.layers, data.workers, i, j);
            assert_true(fabs(1e9 * paper.objective_s - bipartition_period_ns(&data, i, j)) < 1e-3);
            assert_true(paper.objective_s >= exact.objective_s * (1 - 1e-12));
            if (paper.objective_s > exact.objective_s * (1 + 1e-12))
                worse++;
            else
                same++;
        } else {
            assert_status(status, PS_NO_PLAN, "no bi-partition"); /* more workers than layers, forward and backward */
        }
        planner_answer_free(&exact);
        planner_answer_free(&paper);
        bipartition_close(&data);
        free_instance(&instance);
    }
    assert_true(same > 100 && worse > 2);
}

static void published(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int workers;
        double period_ms;
    } cases[] = {{"vgg16", 8, 113.330}, {"alexnet", 4, 22.316}, {"gnmt", 8, 15.883}, {"densenet121", 8, 40.772}};
    for (int c = 0; c < 4; c++) {
        char name[128], path[4096];
        struct instance instance;
        struct planner_answer answer = {0};
        snprintf(name, sizeof name, "profiles/pipedream/%s.graph.txt", cases[c].name);
        assert_ok(ps_profile_read(test_data(name, path), &instance.profile, &test_error));
        assert_ok(ps_cluster_uniform(
            &(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = cases[c].workers},
            &instance.cluster, &test_error));
        instance.problem = (struct planner_problem){
            .costs = &instance.profile->tables[0], .cluster = instance.cluster, .workers = cases[c].workers};
        assert_ok(planner_bipartition.solve(&instance.problem, &answer, &test_error));
        assert_true(fabs(1e3 * answer.objective_s - cases[c].period_ms) < 1e-9);
        planner_answer_free(&answer);
        free_instance(&instance);
    }
}

/* The least objective over all orders of the devices from `place` on; infinity where nothing fits. */
static double best_order(struct instance *instance, int place) {
    struct cluster_device *devices = instance->cluster->devices;
    double best = INFINITY;
    if (place == instance->problem.workers) {
        struct planner_answer answer = {0};
        struct ps_error refusal = {0};
        if (planner_bipartition.solve(&instance->problem, &answer, &refusal) == PS_OK) best = answer.objective_s;
        planner_answer_free(&answer);
    }
    for (int w = place; w < instance->problem.workers; w++) {
        struct cluster_device kept = devices[place];
        devices[place] = devices[w];
        devices[w] = kept;
        best = fmin(best, best_order(instance, place + 1));
        devices[w] = devices[place];
        devices[place] = kept;
    }
    return best;
}

/* The best of all orders; and the workers that the plan names do no more than it says, except by the paper's cost with their
 * share of the updates. */
static void orders(void **state) {
    (void)state;
    int shorter = 0, plans = 0;
    for (uint64_t number = 0; number < 300; number++) {
        struct instance instance;
        struct planner_answer answer = {0}, given = {0};
        struct ps_error refusal = {0};
        make_instance(&instance, 90000 + number);
        double best = best_order(&instance, 0);
        enum ps_status status = planner_bipartition_order.solve(&instance.problem, &answer, &test_error);
        if (isinf(best)) {
            assert_status(status, PS_NO_PLAN, "no bi-partition");
        } else {
            double load_s[8] = {0};
            const double update_share = instance.problem.paper_cost ? 0 : instance.problem.update_share;
            assert_ok(status);
            assert_true(answer.objective_s == best);
            for (int s = 0; s < answer.stage_count; s++) {
                const struct planned_stage *stage = &answer.stages[s];
                const struct cluster_device *devices = instance.cluster->devices;
                const struct cost_table *forward = cost_table_on(instance.problem.costs, devices[stage->forward].type),
                                        *backward = cost_table_on(instance.problem.costs, devices[stage->backward].type);
                struct layer_times time = stage_cost(backward, stage->first, stage->last).time;
                load_s[stage->forward] += stage_cost(forward, stage->first, stage->last).time.forward_s;
                load_s[stage->backward] += time.backward_input_s + time.backward_weight_s + update_share * time.update_s;
            }
            for (int w = 0; w < instance.problem.workers; w++)
                assert_true(load_s[w] / instance.cluster->devices[w].speed <= best * (1 + 1e-9));
            plans++;
            shorter += planner_bipartition.solve(&instance.problem, &given, &refusal) != PS_OK || given.objective_s > best;
        }
        planner_answer_free(&answer);
        planner_answer_free(&given);
        free_instance(&instance);
    }
    assert_true(plans > 150 && shorter > 20);
}

/* What is too much for those who look at every order, or at every state. */
static void refusals(void **state) {
    (void)state;
    for (int workers = 6; workers <= 7; workers++) { /* 720 orders, and 5040 */
        struct instance instance;
        struct planner_answer answer = {0};
        struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
        assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
        assert_ok(profile_create(1, 3, &instance.profile, &test_error));
        for (int l = 0; l < 3; l++) instance.profile->tables[0].layers[l].time.forward_s = 1e-6;
        for (int w = 0; w < workers; w++) instance.cluster->devices[w].speed = 1 + w;
        instance.problem =
            (struct planner_problem){.costs = &instance.profile->tables[0], .cluster = instance.cluster, .workers = workers};
        if (workers > 6) {
            assert_status(planner_bipartition_order.solve(&instance.problem, &answer, &test_error), PS_USAGE,
                          "bipartition-order: more than 5000 orders of the workers; it is for few kinds of devices");
            instance.cluster->devices[1].speed = 1; /* 2520, which may be too long to look at, but is not refused */
            instance.cluster->devices[2].speed = instance.cluster->devices[3].speed = instance.cluster->devices[4].speed = 3;
        }
        assert_ok(planner_bipartition_order.solve(&instance.problem, &answer, &test_error));
        planner_answer_free(&answer);
        free_instance(&instance);
    }
    struct instance instance;
    struct planner_answer answer = {0};
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2};
    assert_ok(cluster_create(2, 2, &instance.cluster, &test_error));
    for (int l = 0; l < 2; l++) instance.cluster->links[l].bandwidth_bytes_per_s = 1e9;
    assert_ok(profile_create(1, 180, &instance.profile, &test_error));
    for (int l = 0; l < 180; l++) instance.profile->tables[0].layers[l].time.forward_s = 1e-6;
    instance.problem =
        (struct planner_problem){.costs = &instance.profile->tables[0], .cluster = instance.cluster, .workers = 2};
    assert_status(planner_bipartition_order.solve(&instance.problem, &answer, &test_error), PS_USAGE,
                  "bipartition-order requires equal links: one entry from '*' to '*'");
    ps_cluster_destroy(instance.cluster);
    assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
    instance.problem.cluster = instance.cluster;
    assert_status(
        planner_bipartition_paper.solve(&instance.problem, &answer, &test_error), PS_NO_PLAN,
        "180 layers on 2 workers: the published algorithm tabulates 542587682 states, at most 268435456 are accepted");
    free_instance(&instance);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(refusals),
        cmocka_unit_test(against_brute_force),
        cmocka_unit_test(layer_wise_memory),
        cmocka_unit_test(split_memory),
        cmocka_unit_test(limits_at_the_boundary),
        cmocka_unit_test(tied_ends),
        cmocka_unit_test(room_for_a_stage),
        cmocka_unit_test(worked_example),
        cmocka_unit_test(published_algorithm),
        cmocka_unit_test(published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
