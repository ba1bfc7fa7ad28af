/*
 * What instructions cost in the simulator, down to what a profile need not say: gradients that are added up, halves of a
 * backward that run separately, predictions that were measured. One worker's makespan is then a sum.
 */
#include <math.h>
#include <string.h>

#include "simulate/simulate.h"
#include "support.h"

static const struct layer_times measured = {.forward_s = 1,
                                            .backward_input_s = 0.5,
                                            .backward_weight_s = 0.75,
                                            .update_s = 0.25,
                                            .accumulate_s = 0.125,
                                            .split_input_s = 0.015625,
                                            .split_s = 0.0625,
                                            .update_predict_s = 0.375,
                                            .predict_s = 0.03125,
                                            .update_out_of_place_s = 0.4375};

/* Takes all three. */
static struct ps_simulation_info simulated(struct ps_plan *plan, struct ps_profile *profile, struct ps_cluster *cluster,
                                           int batches) {
    struct ps_simulation *simulation;
    assert_ok(ps_simulate(plan, profile, cluster, batches, &simulation, &test_error));
    struct ps_simulation_info info = ps_simulation_info(simulation);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    return info;
}

static struct ps_simulation_info simulate(const struct layer_times *times, const char *schedule, const char *weights,
                                          int workers, int micro_batches, int batches) {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
    assert_ok(profile_create(1, workers, &profile, &test_error));
    for (int l = 0; l < workers; l++) profile->tables[0].layers[l].time = *times;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(plan_create(workers, workers, &plan, &test_error));
    strcpy(plan->schedule, schedule);
    strcpy(plan->weights, weights);
    plan->micro_batches = micro_batches;
    for (int s = 0; s < workers; s++) assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
    return simulated(plan, profile, cluster, batches);
}

static void assert_seconds(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-9)) fail_msg("%.12g s are not %.12g s", value, wanted);
}

/* The first backward of each mini-batch writes the gradients, those after it add to them. */
static void test_gradients_are_added(void **state) {
    (void)state;
    const struct layer_times *t = &measured;
    double backward_s = t->backward_input_s + t->backward_weight_s;
    for (int m = 1; m <= 5; m++) {
        double batch_s = m * (t->forward_s + backward_s) + (m - 1) * t->accumulate_s + t->update_s;
        assert_seconds(simulate(t, "gpipe", "sync", 1, m, 3).makespan_s, 3 * batch_s);
        assert_seconds(simulate(t, "1f1b", "sync", 1, m, 3).makespan_s, 3 * batch_s);
        assert_seconds(simulate(t, "zb-h1", "sync", 1, m, 3).makespan_s, 3 * (batch_s + m * (t->split_input_s + t->split_s)));
    }
}

/* What a mini-batch more takes in the middle of a run of two workers. */
static double steady_s(const struct layer_times *times, const char *weights) {
    enum { BATCHES = 20 };
    double once = simulate(times, "1f1b-async", weights, 2, 1, BATCHES).makespan_s;
    return (simulate(times, "1f1b-async", weights, 2, 1, 2 * BATCHES).makespan_s - once) / BATCHES;
}

/* The first worker predicts in the pass of each update. */
static void test_predictions(void **state) {
    (void)state;
    struct layer_times assumed = measured;
    assumed.update_predict_s = assumed.predict_s = 0;
    double work_s = measured.forward_s + measured.backward_input_s + measured.backward_weight_s;
    assert_seconds(steady_s(&measured, "pipeoptim"), work_s + measured.update_predict_s);
    assert_seconds(steady_s(&assumed, "pipeoptim"), work_s + LAYER_UPDATE_PREDICT_COST * measured.update_s);
    assert_seconds(steady_s(&measured, "latest"), work_s + measured.update_s);
    /* The first worker keeps old versions, so that its updates write into other blocks. */
    assert_seconds(steady_s(&measured, "stash"), work_s + measured.update_out_of_place_s);
    assumed.update_out_of_place_s = 0;
    assert_seconds(steady_s(&assumed, "stash"), work_s + measured.update_s);
}

/* Three stages that run one after the other, each on a worker of its own or all on one. */
static double handed_over_s(int workers, const char *schedule) {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
    assert_ok(profile_create(1, 3, &profile, &test_error));
    for (int l = 0; l < 3; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time = (struct layer_times){.forward_s = 1, .backward_input_s = 1};
        layer->core_transfer_s = 0.25; /* the last one's counts nowhere: nothing crosses there */
        layer->take_over_s = l == 0 ? 0.0625 : 0.03125;
    }
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(plan_create(workers, 3, &plan, &test_error));
    strcpy(plan->schedule, schedule);
    strcpy(plan->weights, "sync");
    for (int s = 0; s < 3; s++) assert_ok(plan_stage_set(plan, s, s, s, s < workers ? s : 0, &test_error));
    return simulated(plan, profile, cluster, 1).makespan_s;
}

/* Each cut's value is copied once; on other cores its receiver's forward and both backwards take longer. */
static void test_cuts(void **state) {
    (void)state;
    const double taken_s = 3 * (0.0625 + 0.03125);
    assert_seconds(handed_over_s(1, "interleaved"), 6 + 2 * 0.25);
    assert_seconds(handed_over_s(3, "naive"), 6 + 2 * 0.25 + taken_s);
    /* Where backwards by input and by weights are halves, the first ones take it. */
    assert_seconds(handed_over_s(3, "zb-h1"), 6 + 2 * 0.25 + taken_s);
}

/* One stage on two workers, a micro-batch each: over a link of its own, or in the memory that they share. */
static double summed_s(double bandwidth_bytes_per_s) {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = 2, .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
    const int workers[] = {0, 1};
    assert_ok(profile_create(1, 1, &profile, &test_error));
    struct layer_cost *layer = &profile->tables[0].layers[0];
    layer->time = (struct layer_times){.forward_s = 1, .backward_weight_s = 2, .update_s = 0.25};
    layer->sum_s = 0.125;
    layer->size.parameter_bytes = 1000;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(plan_create(2, 1, &plan, &test_error));
    strcpy(plan->schedule, "gpipe");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 2;
    assert_ok(plan_stage_workers(plan, 0, workers, 2, workers, 2, &test_error));
    plan->stages[0].first = plan->stages[0].last = 0;
    return simulated(plan, profile, cluster, 1).makespan_s;
}

static void test_sums(void **state) {
    (void)state;
    assert_seconds(summed_s(0), 3 + 2 * 0.125 + 0.25);
    assert_seconds(summed_s(1000), 3 + 2 * 0.5 + 0.25);
}

/* Chimera with a micro-batch in each direction: both workers come to the sum of stage 1 after 1 + 1 + 2. The one that makes it
 * begins its last backward only then, and the sum of stage 0 follows that. */
static void test_sums_take_their_makers_time(void **state) {
    (void)state;
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2};
    const int down[] = {0, 1}, up[] = {1, 0};
    assert_ok(profile_create(1, 2, &profile, &test_error));
    for (int l = 0; l < 2; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time = (struct layer_times){.forward_s = 1, .backward_weight_s = 2};
        layer->sum_s = 0.125;
        layer->size.parameter_bytes = 1000;
    }
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(plan_create(2, 2, &plan, &test_error));
    strcpy(plan->schedule, "chimera");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 2;
    for (int s = 0; s < 2; s++) {
        const int *workers = s == 0 ? down : up;
        assert_ok(plan_stage_workers(plan, s, workers, 2, workers, 2, &test_error));
        plan->stages[s].first = plan->stages[s].last = s;
    }
    assert_seconds(simulated(plan, profile, cluster, 1).makespan_s, 1 + 1 + 2 + 2 * 0.125 + 2 + 2 * 0.125);
}

/* Two stages on one worker, each a layer of 8 bytes of parameters, with as many of gradients. */
static double two_stages_s(int64_t fast_memory_bytes) {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 1};
    assert_ok(profile_create(1, 2, &profile, &test_error));
    profile->tables[0].fast_memory_bytes = fast_memory_bytes;
    for (int l = 0; l < 2; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time = (struct layer_times){.forward_s = 1, .backward_weight_s = 2, .update_s = 0.25};
        layer->spill = (struct layer_times){.forward_s = 0.5, .update_s = 0.125};
        layer->size.parameter_bytes = 8;
    }
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(plan_create(1, 2, &plan, &test_error));
    strcpy(plan->schedule, "interleaved");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 2;
    for (int s = 0; s < 2; s++) assert_ok(plan_stage_set(plan, s, s, s, 0, &test_error));
    return simulated(plan, profile, cluster, 1).makespan_s;
}

/* All that a worker holds shares its fast memory. */
static void test_fast_memory_is_the_workers(void **state) {
    (void)state;
    double fits_s = 2 * 2 * (1 + 2) + 2 * 0.25, spills_s = fits_s + 2 * 2 * 0.5 + 2 * 0.125;
    assert_seconds(two_stages_s(0), fits_s);
    assert_seconds(two_stages_s(32), fits_s);
    assert_seconds(two_stages_s(31), spills_s); /* each would fit alone */
    assert_seconds(two_stages_s(15), spills_s);
}

static bool is_forward(const struct timeline_event *event) {
    enum opcode op = event->instruction.op;
    return op == OP_F || op == OP_EA || op == OP_DA;
}

/* When what the event works on is there: 0 for what no other event makes. */
static double ready_s(const struct timeline *timeline, const struct timeline_event *event, int stages) {
    const int stage = event->instruction.stage;
    const enum opcode op = event->instruction.op, last = stage == stages - 1 ? OP_F : OP_DG;
    const enum opcode maker = op == OP_DA   ? OP_EA
                              : op == OP_DG ? OP_EG
                              : op == OP_EG ? OP_B
                              : op == OP_B  ? last
                              : op == OP_EA ? OP_F
                                            : OP_DA;
    const int from = stage + (op == OP_DG) - (op == OP_DA);
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *other = &timeline->events[i];
        if (other->instruction.op == maker && other->instruction.stage == from &&
            other->instruction.micro_batch == event->instruction.micro_batch)
            return other->end_s;
    }
    return 0;
}

/* With FBP-AS an activation is encoded and decoded by the lane of the forwards, a gradient by that of the backwards: one
 * follows the other in a lane as soon as what it works on is there, and never waits for the other lane. */
static void test_lanes_encode(void **state) {
    (void)state;
    enum { STAGES = 3, NUMBERS = 1 << 10 };
    static const double forward_s[STAGES] = {1, 0.375, 0.75}, backward_s[STAGES] = {0.5, 1.5, 0.25};
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    struct ps_simulation *simulation;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = STAGES};
    assert_ok(profile_create(1, STAGES, &profile, &test_error));
    for (int way = 0; way < 2; way++) profile->tables[0].wire_s[WIRE_INT8][way] = 0.25 / NUMBERS;
    for (int l = 0; l < STAGES; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time = (struct layer_times){.forward_s = forward_s[l], .backward_input_s = backward_s[l]};
        layer->size.output_bytes = layer->size.value_bytes = NUMBERS * (int64_t)sizeof(float);
    }
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(plan_create(STAGES, STAGES, &plan, &test_error));
    strcpy(plan->schedule, "fbp-as");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 4;
    for (int s = 0; s < STAGES; s++) {
        assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
        if (s + 1 < STAGES) plan->stages[s].wire.activation.codec = plan->stages[s].wire.gradient.codec = WIRE_INT8;
    }
    assert_ok(ps_simulate(plan, profile, cluster, 1, &simulation, &test_error));
    const struct timeline *timeline = &simulation->timeline;
    int computed = 0, beside = 0;
    for (int a = 0; a < timeline->event_count; a++) {
        const struct timeline_event *one = &timeline->events[a];
        double begins = ready_s(timeline, one, STAGES);
        for (int b = 0; b < timeline->event_count; b++) {
            const struct timeline_event *other = &timeline->events[b];
            if (a == b || one->worker != other->worker || other->start_s > one->start_s) continue;
            if (is_forward(one) == is_forward(other)) begins = fmax(begins, other->end_s);
            beside += is_forward(one) != is_forward(other) && other->end_s > one->start_s;
        }
        assert_seconds(one->start_s, begins);
        computed += one->instruction.op != OP_U;
    }
    assert_true(computed == 4 * (2 * STAGES + 4 * (STAGES - 1)) && beside > 0);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_are_added),
                                       cmocka_unit_test(test_predictions),
                                       cmocka_unit_test(test_cuts),
                                       cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_sums_take_their_makers_time),
                                       cmocka_unit_test(test_lanes_encode),
                                       cmocka_unit_test(test_fast_memory_is_the_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
