/* ps_simulate: a plan, a profile and a cluster in; figures, table, JSON, picture and trace out. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"

enum { LAYERS = 6, MIB = 1 << 20 };

/* Six equal layers of 0.25 s forward and 0.5 s backward with 1 MiB of parameters each. */
static struct ps_profile *make_profile(void) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, LAYERS, &profile, &test_error));
    strcpy(profile->model, "six");
    profile->tables[0].micro_batch = 16;
    profile->tables[0].input_bytes = 1024;
    for (int l = 0; l < LAYERS; l++)
        profile->tables[0].layers[l] = (struct layer_cost){
            .kind = "linear",
            .time = {.forward_s = 0.25, .backward_input_s = 0.25, .backward_weight_s = 0.25},
            .size = {.parameter_bytes = MIB, .output_bytes = 1024, .value_bytes = 1024, .stash_bytes = 1024},
        };
    return profile;
}

static struct ps_plan *make_plan(const char *schedule, const char *weights, int micro_batches, int first_cut, int second_cut) {
    struct ps_plan *plan;
    assert_ok(plan_create(3, 3, &plan, &test_error));
    strcpy(plan->model, "six");
    strcpy(plan->schedule, schedule);
    strcpy(plan->weights, weights);
    plan->micro_batch = 16;
    plan->micro_batches = micro_batches;
    assert_ok(plan_stage_set(plan, 0, 0, first_cut, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, first_cut + 1, second_cut, 1, &test_error));
    assert_ok(plan_stage_set(plan, 2, second_cut + 1, LAYERS - 1, 2, &test_error));
    return plan;
}

static struct ps_cluster *make_cluster(int workers) {
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    return cluster;
}

static void test_figures(void **state) {
    (void)state;
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster = make_cluster(3);
    struct ps_simulation *simulation;

    struct ps_plan *plan = make_plan("1f1b", "sync", 4, 1, 3);
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    struct ps_simulation_info info = ps_simulation_info(simulation);
    assert_true(info.period_s == 6 * 1.5); /* (M + P - 1)(F + B) */
    assert_true(info.throughput_samples_per_s == 4 * 16 / 9.0);
    assert_true(fabs(info.bubble - 2.0 / 6) <= 1e-12);
    assert_int_equal(info.workers, 3);
    assert_int_equal(info.batches, 3);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);

    /* Asynchronously the stage of three layers sets the period; sgdm and two copies of the weights at the first two stages. */
    plan = make_plan("1f1b-async", "pipeoptim", 1, 0, 2);
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    assert_true(ps_simulation_info(simulation).period_s == 3 * 0.75);
    static const int layers[] = {1, 2, 3}, copies[] = {2, 2, 1};
    for (int w = 0; w < 3; w++) {
        assert_int_equal(ps_simulation_worker(simulation, w).weight_copies, copies[w]);
        assert_int_equal(simulation->memory[w].weights, copies[w] * layers[w] * MIB);
        assert_int_equal(simulation->memory[w].optimizer, layers[w] * MIB);
    }
    ps_simulation_destroy(simulation);

    /* The last stage on the first worker. */
    for (int s = 0; s < 3; s++)
        assert_ok(plan_stage_set(plan, s, plan->stages[s].first, plan->stages[s].last, 2 - s, &test_error));
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    for (int w = 0; w < 3; w++) assert_int_equal(ps_simulation_worker(simulation, w).weight_copies, copies[2 - w]);
    ps_simulation_destroy(simulation);
    for (int s = 0; s < 3; s++) assert_ok(plan_stage_set(plan, s, plan->stages[s].first, plan->stages[s].last, s, &test_error));

    /* Adam has two moments; recomputation runs every forward twice. */
    strcpy(plan->optimizer, "adam");
    for (int s = 0; s < 3; s++) plan->stages[s].recompute = true;
    assert_ok(ps_simulate(plan, profile, cluster, 20, &simulation, &test_error));
    assert_int_equal(ps_simulation_info(simulation).batches, 20);
    assert_true(ps_simulation_info(simulation).period_s == 3 * 1.0);
    assert_int_equal(simulation->memory[2].optimizer, 2 * 3 * MIB);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* More batches change the makespan, not the period: neither the last mini-batch, which none follows, nor the predictions while
 * the pipeline fills, which cost more than those beside an update, are counted. */
static void test_period_does_not_depend_on_the_length(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *weights;
        int micro_batches;
    } all[] = {
        {"1f1b-async", "stash", 1}, {"1f1b-async", "pipeoptim", 1}, {"1f1b", "sync", 4},
        {"zb-h1", "sync", 4},       {"zb-h2", "sync", 5},
    };
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster = make_cluster(3);
    for (int l = 0; l < LAYERS; l++) {
        struct layer_times *time = &profile->tables[0].layers[l].time;
        time->update_s = time->predict_s = 0.25;
        time->update_predict_s = 0.375;
    }
    for (int i = 0; i < 3 * (int)(sizeof all / sizeof *all); i++) {
        int cut = i % 3;
        struct ps_plan *plan =
            make_plan(all[i / 3].schedule, all[i / 3].weights, all[i / 3].micro_batches, cut, 3 + (cut + 1) / 2);
        double usual_s = 0;
        for (int batches = 0; batches <= 40; batches += batches < 12 ? 12 : 7) {
            struct ps_simulation *simulation;
            assert_ok(ps_simulate(plan, profile, cluster, batches, &simulation, &test_error));
            if (batches == 0) usual_s = ps_simulation_info(simulation).period_s;
            assert_true(ps_simulation_info(simulation).period_s == usual_s);
            ps_simulation_destroy(simulation);
        }
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void check_fields(json_t *object, const char *const *names, size_t count) {
    assert_int_equal(json_object_size(object), count);
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(object, names[i])) fail_msg("no field %s", names[i]);
}

static void test_what_is_shown(void **state) {
    (void)state;
    static const char *const fields[] = {"period_s", "makespan_s",    "throughput_samples_per_s",
                                         "bubble",   "batches",       "instructions",
                                         "workers",  "critical_path", "advice"};
    static const char *const worker_fields[] = {"busy_s",        "idle_s",     "memory_bytes",
                                                "weight_copies", "sent_bytes", "received_bytes"};
    static const char *const idle_fields[] = {"fill_drain", "dependency", "communication", "imbalance"};
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster = make_cluster(3);
    struct ps_plan *plan = make_plan("1f1b-async", "pipeoptim", 1, 0, 2);
    struct ps_simulation *simulation;
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));

    char *text = ps_simulation_json(simulation);
    json_t *root = json_loads(text, 0, NULL), *worker;
    assert_non_null(root);
    check_fields(root, fields, 9);
    assert_int_equal(json_array_size(json_object_get(root, "workers")), 3);
    size_t w;
    json_array_foreach(json_object_get(root, "workers"), w, worker) {
        check_fields(worker, worker_fields, 6);
        json_t *idle = json_object_get(worker, "idle_s");
        check_fields(idle, idle_fields, 4);
        double sum_s = json_number_value(json_object_get(worker, "busy_s"));
        for (int i = 0; i < 4; i++) sum_s += json_number_value(json_object_get(idle, idle_fields[i]));
        assert_true(sum_s == json_number_value(json_object_get(root, "makespan_s")));
    }
    json_decref(root);
    free(text);

    text = ps_simulation_table(simulation);
    assert_non_null(strstr(text, "six: 1f1b-async, pipeoptim, 3 workers"));
    assert_non_null(strstr(text, "period      2.25 s for a mini-batch"));
    assert_non_null(strstr(text, "throughput  7.11 samples/s"));
    free(text);

    char directory[4096], path[4096], *data;
    size_t size;
    test_directory_make(directory);
    assert_ok(ps_simulation_write_svg(simulation, file_join(path, directory, "a.svg"), &test_error));
    assert_ok(file_read(path, MIB, &data, &size, &test_error));
    assert_non_null(strstr(data, "% busy, "));
    free(data);
    assert_ok(ps_simulation_write_trace(simulation, file_join(path, directory, "a.json"), &test_error));
    assert_ok(file_read(path, MIB, &data, &size, &test_error));
    json_t *trace = json_loads(data, 0, NULL);
    assert_non_null(json_object_get(trace, "traceEvents"));
    json_decref(trace);
    free(data);
    assert_int_equal(ps_simulation_write_svg(simulation, file_join(path, directory, "no/such/a.svg"), &test_error), PS_IO);
    test_directory_remove(directory);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Too long to keep a timeline of: the programs are rolled, the figures the same, and what needs a timeline says so. */
static void test_long_run(void **state) {
    (void)state;
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster = make_cluster(3);
    struct ps_plan *plan = make_plan("1f1b-async", "pipeoptim", 1, 1, 3);
    struct ps_simulation *simulation;
    enum { BATCHES = SIMULATE_EVENTS_MAX / 6 + 1 };
    assert_ok(ps_simulate(plan, profile, cluster, BATCHES, &simulation, &test_error));
    assert_true(ps_simulation_info(simulation).period_s == 1.5);
    assert_true(ps_simulation_info(simulation).makespan_s == (BATCHES + 2) * 1.5);
    assert_int_equal(simulation->timeline.event_count, 0);
    assert_status(ps_simulation_write_svg(simulation, "no.svg", &test_error), PS_USAGE,
                  "is too long to draw; take fewer mini-batches");
    char *json = ps_simulation_json(simulation), *timeline = ps_simulation_timeline(simulation, 80, false);
    assert_non_null(strstr(json, "\"critical_path\": null"));
    assert_string_equal(timeline, "");
    free(timeline);
    free(json);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void test_refusals(void **state) {
    (void)state;
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster = make_cluster(2);
    struct ps_plan *plan = make_plan("1f1b-async", "pipeoptim", 1, 0, 2);
    struct ps_simulation *simulation = NULL;
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_USAGE,
                  "cluster: has 2 of the 3 workers that the plan needs");
    assert_status(ps_simulate(plan, profile, cluster, -1, &simulation, &test_error), PS_USAGE,
                  "batches: -1 is not between 1 and ");
    plan->micro_batches = 1 << 17;
    assert_status(ps_simulate(plan, profile, cluster, 1, &simulation, &test_error), PS_BAD_INPUT,
                  "micro_batches: 131072 is not");
    plan->micro_batches = 1 << 16;
    assert_status(ps_simulate(plan, profile, cluster, 1000, &simulation, &test_error), PS_USAGE, "batches: 1000");
    plan->micro_batches = 1;
    plan->micro_batch = 3;
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_USAGE, "3");
    plan->micro_batch = 16;
    strcpy(plan->network, "0123456789abcdef");
    strcpy(profile->network, "fedcba9876543210");
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_USAGE,
                  "the plan is for the network six (0123");
    plan->network[0] = '\0';
    strcpy(plan->weights, "spectrain");
    strcpy(plan->optimizer, "adam");
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_USAGE, "spectrain");
    strcpy(plan->optimizer, "sgdn");
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_USAGE, "did you mean 'sgd");
    plan->stages[2].last = LAYERS;
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_BAD_INPUT,
                  "past the model's last layer");
    assert_null(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* The instruction that does not fit, for every limit from nothing to all that is needed: never further back with more memory,
 * and the bytes that are named are above the limit. */
static void test_memory_limits(void **state) {
    (void)state;
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster = make_cluster(3);
    struct ps_plan *plan = make_plan("1f1b", "sync", 4, 1, 3);
    struct ps_simulation *simulation;
    struct ps_programs *programs;
    assert_ok(ps_simulate(plan, profile, cluster, 2, &simulation, &test_error));
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    int64_t all = ps_simulation_worker(simulation, 1).memory_bytes;
    cluster->devices[1].memory_bytes = all;
    assert_ok(ps_programs_check_memory(programs, plan, profile, cluster, &test_error));
    assert_ok(ps_simulation_check_memory(simulation, plan, profile, cluster, &test_error));
    /* Worker 1 holds two micro-batches, and a third input arrives beside them. */
    cluster->devices[1].memory_bytes = all - 1;
    assert_status(ps_programs_check_memory(programs, plan, profile, cluster, &test_error), PS_NO_PLAN, "worker 1: 1");
    cluster->devices[1].memory_bytes = 8 * 2 * MIB; /* two layers' weights, gradients and momentum are 6 MiB */
    assert_ok(ps_programs_check_memory(programs, plan, profile, cluster, &test_error));
    int last = 0;
    for (int64_t limit = 6 * MIB; limit < all; limit += 512) {
        char text[128];
        int at = 0;
        cluster->devices[1].memory_bytes = limit;
        struct ps_error error;
        assert_int_equal(ps_simulation_check_memory(simulation, plan, profile, cluster, &error), PS_NO_PLAN);
        const struct program *program = &programs->worker[1];
        for (; at < program->count; at++) {
            char name[96];
            snprintf(text, sizeof text, "worker 1: %.90s ", instruction_text(&program->code[at], name));
            if (strncmp(error.message, text, strlen(text)) == 0) break;
        }
        if (at == program->count) fail_msg("%s", error.message);
        assert_in_range(at, last, program->count - 1);
        last = at;
    }
    assert_true(last > 0);
    /* With weights alone too large it is the first. */
    cluster->devices[1].memory_bytes = MIB;
    char first[96], wanted[128];
    snprintf(wanted, sizeof wanted, "worker 1: %.90s ", instruction_text(&programs->worker[1].code[0], first));
    assert_status(ps_programs_check_memory(programs, plan, profile, cluster, &test_error), PS_NO_PLAN, wanted);
    /* Where types of devices have profiles of their own, each type needs one. */
    struct ps_profile *other = make_profile();
    strcpy(other->device, "other");
    assert_ok(profile_add_device(profile, other, &test_error));
    cluster->devices[1].memory_bytes = 0;
    assert_ok(ps_programs_check_memory(programs, plan, profile, cluster, &test_error));
    strcpy(cluster->devices[2].type, "another");
    assert_status(ps_programs_check_memory(programs, plan, profile, cluster, &test_error), PS_USAGE,
                  "devices[2].type: 'another' has no profile");
    ps_programs_destroy(programs);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* A stage takes what the profile of its own worker's type says: here stage 0 is on worker 2, whose type needs a workspace. */
static void test_memory_limits_of_types(void **state) {
    (void)state;
    struct ps_profile *profile = make_profile(), *other = make_profile();
    struct ps_cluster *cluster = make_cluster(3);
    struct ps_plan *plan = make_plan("gpipe", "sync", 1, 1, 3);
    struct ps_programs *programs;
    strcpy(other->device, "other");
    for (int l = 0; l < LAYERS; l++) other->tables[0].layers[l].size.workspace_bytes = 5 * MIB;
    assert_ok(profile_add_device(profile, other, &test_error));
    strcpy(cluster->devices[2].type, "other");
    for (int s = 0; s < 3; s++)
        assert_ok(plan_stage_set(plan, s, plan->stages[s].first, plan->stages[s].last, 2 - s, &test_error));
    assert_ok(lower_plan(plan, 1, &programs, &test_error));
    /* 6 MiB of weights, gradients and moments, and less than one of activations. */
    for (int w = 0; w < 3; w++) {
        const int64_t needed = (w == 2 ? 6 + 5 : 6) * MIB;
        cluster->devices[w].memory_bytes = needed + MIB;
        assert_ok(ps_programs_check_memory(programs, plan, profile, cluster, &test_error));
        char wanted[32];
        snprintf(wanted, sizeof wanted, "worker %d: ", w);
        cluster->devices[w].memory_bytes = needed;
        assert_status(ps_programs_check_memory(programs, plan, profile, cluster, &test_error), PS_NO_PLAN, wanted);
        cluster->devices[w].memory_bytes = 0;
    }
    /* Without all of the plan's workers there is nothing to check. */
    struct ps_cluster *fewer = make_cluster(2);
    assert_status(ps_programs_check_memory(programs, plan, profile, fewer, &test_error), PS_USAGE,
                  "cluster: has 2 of the 3 workers that the plan needs");
    ps_cluster_destroy(fewer);
    ps_programs_destroy(programs);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* What the verifier counts, as users see it: with stash worker p keeps P-p copies and is P-1-p updates behind. */
static void test_programs_shown(void **state) {
    (void)state;
    struct ps_programs *programs;
    assert_ok(lower_plain("1f1b-async", "stash", 4, 1, 12, &programs));
    char *text = ps_programs_json(programs);
    json_t *root = json_loads(text, 0, NULL);
    assert_true(json_is_true(json_object_get(root, "verified")));
    for (int w = 0; w < 4; w++) {
        const json_t *worker = json_array_get(json_object_get(root, "workers"), (size_t)w);
        assert_int_equal(json_integer_value(json_object_get(worker, "weight_copies")), 4 - w);
        assert_int_equal(json_integer_value(json_object_get(worker, "staleness")), 3 - w);
    }
    json_decref(root);
    free(text);
    text = ps_programs_table(programs);
    assert_non_null(strstr(text, "largest staleness"));
    free(text);
    ps_programs_destroy(programs);
}

/* A text that parses may be no program: it is shown, and nothing is counted. */
static void test_wrong_programs_shown(void **state) {
    (void)state;
    struct ps_programs *programs, *parsed;
    assert_ok(lower_plain("1f1b-async", "stash", 2, 1, 3, &programs));
    char *text = ps_programs_print(programs), *json = ps_programs_json(programs);
    ps_programs_destroy(programs);
    assert_ok(ps_programs_parse(text, &parsed, &test_error));
    char *again = ps_programs_json(parsed);
    assert_string_equal(again, json);
    ps_programs_destroy(parsed);
    free(again);
    free(json);
    char *update = strstr(text, "0U2");
    assert_non_null(update);
    memcpy(update, "0U9", 3); /* an update of a mini-batch that is not there */
    assert_ok(ps_programs_parse(text, &parsed, &test_error));
    json = ps_programs_json(parsed);
    assert_non_null(strstr(json, "\"verified\": false"));
    assert_non_null(strstr(json, "\"instructions\""));
    assert_null(strstr(json, "staleness"));
    free(json);
    json = ps_programs_table(parsed);
    assert_non_null(strstr(json, "instructions"));
    free(json);
    ps_programs_destroy(parsed);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_period_does_not_depend_on_the_length),
        cmocka_unit_test(test_what_is_shown),
        cmocka_unit_test(test_long_run),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_memory_limits_of_types),
        cmocka_unit_test(test_programs_shown),
        cmocka_unit_test(test_wrong_programs_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
