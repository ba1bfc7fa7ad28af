/*
 * What the tests of training share: small runs by a plan made on the spot, and the weights that they leave.
 */
#ifndef PENSTOCK_TESTS_RUN_SUPPORT_H
#define PENSTOCK_TESTS_RUN_SUPPORT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/model.h"
#include "plan/plan.h"
#include "program/lower.h"
#include "split_support.h"
#include "store/checkpoint.h"
#include "support.h"
#include "train/trainer.h"
#include "training_support.h"

/* A run to be made; zeros are replaced by the defaults of `run_case_complete`. */
struct run_case {
    bool trace; /* into the run directory */
    const char *model, *schedule, *weights, *optimizer, *device, *transport, *data, *valid, *lr_schedule, *lengths, *groups;
    int replicas[6]; /* per stage of a pipeline with replicas, each with workers of its own; all 0: `workers` say it */
    const struct split_case *split; /* who runs which layer's forward and backward; NULL: `workers` and `replicas` say it */
    int workers, micro_batch, micro_batches, steps, evaluate_every, valid_bleu;
    bool recompute, paper_prediction;
    const char *wire; /* codec of every cut; gradients, and sums over replicas, may have their own behind a '/'; NULL: none */
    uint64_t seed;
    double lr, weight_decay, clip;
};

/* The model with the precision that PENSTOCK_TEST_PRECISION says; the text stays for good. */
static inline const char *run_case_model(const char *model) {
    static char kept[64][192];
    const char *precision = getenv("PENSTOCK_TEST_PRECISION");
    char text[192];
    if (!precision || strstr(model, PRECISION_OPTION)) return model;
    snprintf(text, sizeof text, "%s%s%s", model, PRECISION_OPTION, precision);
    for (int k = 0; k < 64; k++) {
        if (!kept[k][0]) snprintf(kept[k], sizeof kept[k], "%s", text);
        if (strcmp(kept[k], text) == 0) return kept[k];
    }
    fail_msg("more than 64 models");
    return NULL;
}

static inline struct run_case run_case_complete(struct run_case wanted) {
    if (!wanted.model) wanted.model = "lenet5,input=16,classes=4";
    wanted.model = run_case_model(wanted.model);
    if (!wanted.schedule) wanted.schedule = "1f1b";
    if (!wanted.weights) wanted.weights = "sync";
    if (!wanted.optimizer) wanted.optimizer = "sgdm";
    if (!wanted.device) wanted.device = "reference";
    if (!wanted.transport) wanted.transport = "threads";
    if (!wanted.data) wanted.data = "synthetic:images,samples=64";
    for (int s = 0; s < 6; s++) wanted.workers += wanted.replicas[s];
    if (wanted.split) wanted.workers = wanted.split->workers;
    if (!wanted.workers) wanted.workers = 1;
    if (!wanted.micro_batch) wanted.micro_batch = 4;
    if (!wanted.micro_batches) wanted.micro_batches = 1;
    if (!wanted.steps) wanted.steps = 5;
    if (wanted.lr == 0) wanted.lr = 0.05;
    return wanted;
}

/* How many layers the case's network has, and how many stages its schedule makes of them. */
static inline int run_case_layers(const struct run_case *wanted) {
    struct ps_network *model;
    assert_ok(ps_network_open(wanted->model, &model, &test_error));
    int layers = ps_network_info(model).layers;
    ps_network_destroy(model);
    return layers;
}

static inline int run_case_stages(const struct run_case *wanted) {
    const struct schedule *schedule;
    int stages = 0;
    while (stages < 6 && wanted->replicas[stages] > 0) stages++;
    if (stages > 0) return stages;
    assert_ok(schedule_find(wanted->schedule, &schedule, &test_error));
    return schedule_stages(schedule, wanted->workers);
}

/* Layers dealt out evenly, stages on workers as the schedule places them. */
static inline struct ps_plan *run_case_even_plan(const struct run_case *wanted) {
    struct ps_plan *plan;
    const struct schedule *schedule;
    assert_ok(schedule_find(wanted->schedule, &schedule, &test_error));
    int layers = run_case_layers(wanted), stages = run_case_stages(wanted);
    assert_ok(plan_create(wanted->workers, stages, &plan, &test_error));
    for (int s = 0, worker = 0; s < stages; s++) {
        int first = layers * s / stages, last = layers * (s + 1) / stages - 1;
        assert_ok(plan_stage_set(plan, s, first, last, schedule_worker_of(schedule, s, stages, wanted->workers), &test_error));
        int list[64], replicas = wanted->replicas[s < 6 ? s : 5];
        for (int r = 0; r < replicas; r++) list[r] = worker++;
        for (int r = 0; replicas == 0 && r < schedule_replicas(schedule); r++)
            list[r] = schedule_replica_worker(schedule, s, r, stages, wanted->workers);
        if (replicas == 0) replicas = schedule_replicas(schedule);
        assert_ok(plan_stage_workers(plan, s, list, replicas, list, replicas, &test_error));
    }
    return plan;
}

/* Is its network a file, which a plan cannot name? */
static inline bool run_case_of_file(const struct run_case *wanted) { return strstr(wanted->model, ".json") != NULL; }

/* The case's codecs on every cut, and of every sum over replicas. */
static inline void run_case_set_wire(const struct run_case *wanted, struct ps_plan *plan) {
    char text[64];
    struct cut_wire wire = {0};
    if (!wanted->wire) return;
    snprintf(text, sizeof text, "%s", wanted->wire);
    char *own = strchr(text, '/');
    if (own) *own++ = '\0';
    assert_ok(wire_parse(text, "wire", &wire.activation, &test_error));
    assert_ok(wire_parse(own ? own : text, "wire", &wire.gradient, &test_error));
    for (int s = 0; s < plan->stage_count; s++) {
        if (s + 1 < plan->stage_count) plan->stages[s].wire = wire;
        if (plan->stages[s].backward_count > 1) plan->stages[s].sum_wire = wire.gradient;
    }
}

/* The case's plan. */
static inline struct ps_plan *run_case_plan(const struct run_case *wanted) {
    struct ps_plan *plan = wanted->split ? split_plan(wanted->split, wanted->schedule, wanted->weights, wanted->micro_batches)
                                         : run_case_even_plan(wanted);
    snprintf(plan->model, sizeof plan->model, "%s", wanted->model);
    if (run_case_of_file(wanted)) {
        struct ps_network *network;
        assert_ok(ps_network_open(wanted->model, &network, &test_error));
        network_hash_text(network->hash, plan->network);
        ps_network_destroy(network);
    }
    snprintf(plan->method, sizeof plan->method, "uniform");
    snprintf(plan->schedule, sizeof plan->schedule, "%s", wanted->schedule);
    snprintf(plan->weights, sizeof plan->weights, "%s", wanted->weights);
    snprintf(plan->optimizer, sizeof plan->optimizer, "%s", wanted->optimizer);
    plan->micro_batch = wanted->micro_batch;
    plan->micro_batches = wanted->micro_batches;
    plan->paper_prediction = wanted->paper_prediction;
    for (int s = 0; s < plan->stage_count; s++) plan->stages[s].recompute = wanted->recompute;
    run_case_set_wire(wanted, plan);
    return plan;
}

/* Options of the case for a plan that lies at `plan_path`. */
static inline struct training run_case_options(const struct run_case *wanted, const char *plan_path, const char *out) {
    struct training options;
    training_init(&options);
    options.plan_path = plan_path;
    if (run_case_of_file(wanted)) options.model = wanted->model;
    options.data = wanted->data;
    options.valid = wanted->valid;
    options.o.steps = wanted->steps;
    options.o.evaluate_every = wanted->evaluate_every;
    options.o.valid_bleu = wanted->valid_bleu;
    options.o.lengths = wanted->lengths;
    options.o.lr = wanted->lr;
    options.o.lr_schedule = wanted->lr_schedule;
    if (wanted->weight_decay > 0) options.o.weight_decay = wanted->weight_decay;
    options.o.clip = wanted->clip;
    options.o.trace = wanted->trace;
    options.o.groups = wanted->groups;
    options.o.device = test_device(wanted->device);
    options.o.transport = wanted->transport;
    options.o.seed = wanted->seed;
    options.o.out = out;
    return options;
}

/* Writes the plan and trains in a new directory, which the caller removes; `run` may be NULL. */
static inline void run_case_train(struct run_case wanted, char directory[4096], struct ps_run **run) {
    char plan_path[4096], out[4096];
    wanted = run_case_complete(wanted);
    test_directory_make(directory);
    struct ps_plan *plan = run_case_plan(&wanted);
    assert_ok(ps_plan_write(plan, file_join(plan_path, directory, "plan.json"), &test_error));
    ps_plan_destroy(plan);
    struct training options = run_case_options(&wanted, plan_path, file_join(out, directory, "run"));
    struct ps_run *made;
    assert_ok(training_run(&options, &made, &test_error));
    if (run)
        *run = made;
    else
        ps_run_destroy(made);
}

/* All weights in the network's order: its parameters and statistics, one after the other. */
struct trained {
    float *values;
    size_t count;
};

static inline struct trained trained_make(const struct graph *graph) {
    struct trained trained = {0};
    for (int i = 0; i < graph->parameter_count; i++) trained.count += (size_t)shape_elements(&graph->parameters[i].shape);
    trained.values = calloc(trained.count, sizeof *trained.values);
    assert_non_null(trained.values);
    return trained;
}

/* Where a parameter stands. */
static inline float *trained_place(const struct trained *trained, const struct graph *graph, const char *name) {
    size_t place = 0;
    int i = 0;
    for (; i < graph->parameter_count && strcmp(graph->parameters[i].name, name) != 0; i++)
        place += (size_t)shape_elements(&graph->parameters[i].shape);
    assert_true(i < graph->parameter_count);
    return trained->values + place;
}

/* What a run left in its newest checkpoint. */
static inline struct trained trained_read(const char *model_name, const char *run_dir) {
    struct ps_network *model;
    struct weight_files weights;
    assert_ok(ps_network_open(model_name, &model, &test_error));
    assert_ok(weight_files_open_run(run_dir, NULL, &weights, &test_error));
    struct trained trained = trained_make(model->graph);
    int found = 0;
    for (int f = 0; f < weights.count; f++)
        for (int t = 0; t < weights.files[f].count; t++, found++) {
            const struct safetensor *tensor = &weights.files[f].tensors[t];
            const float *values;
            assert_ok(safetensors_values(&weights.files[f], tensor, &values, &test_error));
            memcpy(trained_place(&trained, model->graph, tensor->name), values, tensor->bytes);
        }
    int tensors = 0;
    for (int p = 0; p < model->graph->parameter_count; p++) tensors += !model->graph->parameters[p].tied;
    assert_int_equal(found, tensors);
    weight_files_close(&weights);
    ps_network_destroy(model);
    return trained;
}

/* Options for the complete case that leave no files, with its plan in a new directory. */
static inline struct training run_case_planned(const struct run_case *wanted, char directory[4096], char plan_path[4096]) {
    test_directory_make(directory);
    struct ps_plan *plan = run_case_plan(wanted);
    assert_ok(ps_plan_write(plan, file_join(plan_path, directory, "plan.json"), &test_error));
    ps_plan_destroy(plan);
    return run_case_options(wanted, plan_path, NULL);
}

/* Trains the case without leaving files and returns its weights. */
static inline struct trained run_case_weights(struct run_case wanted) {
    char directory[4096], plan_path[4096];
    wanted = run_case_complete(wanted);
    struct training options = run_case_planned(&wanted, directory, plan_path);
    struct training_objects objects;
    struct ps_trainer *trainer;
    assert_ok(training_open(&options, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, INT64_MAX, &test_error));
    struct trained trained = trained_make(trainer->job.graph);
    bool *written = calloc(trained.count, sizeof *written);
    assert_non_null(written);
    for (int w = 0; w < trainer->executor->worker_count; w++)
        for (int s = 0; s < trainer->executor->workers[w].stage_count; s++) {
            const struct worker_stage *stage = &trainer->executor->workers[w].stages[s];
            for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
                const struct parameter *parameter = stage_parameter(stage->stage, i);
                if (parameter->role == PARAMETER_STATISTIC && !stage->forward) continue;
                /* The half that only runs forwards has but rounded copies. */
                if (parameter->role == PARAMETER_TRAINED && stage->slots.forward_only && stage->sizes.narrow_bytes > 0)
                    continue;
                float *place = trained_place(&trained, trainer->job.graph, parameter->name);
                size_t bytes = (size_t)shape_elements(&parameter->shape) * sizeof *place;
                float *before = malloc(bytes);
                assert_non_null(before);
                memcpy(before, place, bytes);
                assert_ok(worker_stage_export(stage, i, place, &test_error));
                bool *seen = &written[place - trained.values];
                if (*seen)
                    assert_memory_equal(before, place,
                                        bytes); /* replicas, and both workers of a split stage, end with the same */
                *seen = true;
                free(before);
            }
        }
    free(written);
    ps_trainer_destroy(trainer);
    training_close(&objects);
    test_directory_remove(directory);
    return trained;
}

/* What all workers of the case hold, by a plan that is found for it; returns the bytes. The run holds what is planned. */
static inline int64_t run_case_memory(struct run_case wanted, struct worker_memory *memory) {
    struct ps_network *network;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    struct ps_run *run;
    wanted = run_case_complete(wanted);
    assert_ok(ps_network_open(wanted.model, &network, &test_error));
    const struct ps_profile_options measuring = {.struct_size = sizeof measuring,
                                                 .micro_batches = &wanted.micro_batch,
                                                 .micro_batch_count = 1,
                                                 .repeats = 1,
                                                 .device = test_device(wanted.device)};
    assert_ok(ps_profile_measure(network, &measuring, &profile, &test_error));
    const struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = wanted.workers};
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    const struct ps_plan_options planning = {.struct_size = sizeof planning,
                                             .method = "uniform",
                                             .schedule = wanted.schedule,
                                             .weights = wanted.weights,
                                             .optimizer = wanted.optimizer,
                                             .micro_batches = wanted.micro_batches,
                                             .wire = wanted.wire};
    assert_ok(ps_plan_find(profile, cluster, &planning, &plan, &test_error));
    struct training options = run_case_options(&wanted, NULL, NULL);
    options.o.plan = plan;
    options.o.profile = profile;
    assert_ok(training_run(&options, &run, &test_error));
    *memory = (struct worker_memory){0};
    int64_t bytes = 0;
    for (int w = 0; w < wanted.workers; w++) {
        const int64_t planned = worker_memory_total(&plan->predicted.memory[w]);
        assert_int_equal(ps_run_worker(run, w).measured_bytes, planned);
        assert_int_equal(ps_run_worker(run, w).planned_bytes, planned);
        worker_memory_add(memory, &plan->predicted.memory[w]);
        bytes += planned;
    }
    ps_run_destroy(run);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    ps_network_destroy(network);
    return bytes;
}

/* Bit for bit the same? Says where not. */
static inline bool trained_equal(const struct trained *a, const struct trained *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        if (memcmp(&a->values[i], &b->values[i], sizeof *a->values) == 0) continue;
        print_message("element %zu of %zu: %.9g and %.9g\n", i, a->count, (double)a->values[i], (double)b->values[i]);
        return false;
    }
    return true;
}

static inline void trained_free(struct trained *trained) {
    free(trained->values);
    *trained = (struct trained){0};
}

/* Both runs end with the same weights, bit for bit. */
static inline void assert_same_weights(struct run_case one, struct run_case other) {
    struct trained a = run_case_weights(one), b = run_case_weights(other);
    assert_true(trained_equal(&a, &b));
    trained_free(&a);
    trained_free(&b);
}

/* What a run of the case records at its end; of its files nothing stays. */
static inline struct ps_run_info run_case_info(struct run_case wanted) {
    struct ps_run *run;
    char directory[4096];
    run_case_train(wanted, directory, &run);
    struct ps_run_info info = ps_run_info(run);
    ps_run_destroy(run);
    test_directory_remove(directory);
    return info;
}

/* Both runs record the same of training, to the bit, and of the data that they are evaluated on, within `tolerance` of the
 * loss. */
static inline void assert_same_records(struct run_case one, struct run_case other, double tolerance) {
    struct ps_run_info a = run_case_info(one), b = run_case_info(other);
    assert_true(a.loss == b.loss && a.accuracy == b.accuracy && a.valid_accuracy == b.valid_accuracy);
    assert_true(fabs(a.valid_loss - b.valid_loss) <= tolerance);
}

/* Threads change nothing: one thread that runs all workers in turn comes to the same bits. */
static inline void assert_threads_equal_serial(struct run_case wanted) {
    struct run_case serial = wanted;
    serial.transport = "serial";
    assert_same_weights(wanted, serial);
}

/* For messages. */
static inline const char *run_case_text(const struct run_case *wanted, char text[160]) {
    snprintf(text, 160, "%s %s %s, %d workers, M %d, %s", wanted->schedule, wanted->weights, wanted->optimizer, wanted->workers,
             wanted->micro_batches, wanted->transport ? wanted->transport : "threads");
    return text;
}

#endif
