/*
 * Heads that share the embedding's weights: under every schedule that flushes a pipeline ends with the bits of one worker, with
 * both copies equal (run_case_weights compares them), whatever the workers of its ends hold beside them; files have the
 * parameter once; and what could not keep the copies equal is refused.
 */
#include "base/random.h"
#include "run_support.h"

#define GPT2 "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1"
#define BERT "bert48,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1"

static const struct run_case usual = {.model = GPT2,
                                      .optimizer = "adamw",
                                      .data = "synthetic:tokens,samples=48",
                                      .micro_batch = 2,
                                      .micro_batches = 4,
                                      .steps = 4,
                                      .lr = 0.01};

static void assert_same(const struct run_case *wanted, const struct trained *oracle) {
    struct trained got = run_case_weights(*wanted);
    bool same = trained_equal(&got, oracle);
    if (!same) fail_msg("%s, %s, %d workers: other weights than on one", wanted->model, wanted->schedule, wanted->workers);
    trained_free(&got);
}

static void test_every_schedule(void **state) {
    (void)state;
    static const char *const models[] = {GPT2, BERT}, *const devices[] = {"reference", "cpu"},
                             *const transports[] = {"threads", "serial"};
    for (int m = 0; m < 2; m++) {
        struct run_case base = usual;
        base.model = models[m];
        base.device = devices[m];
        struct trained oracle = run_case_weights(base);
        for (int s = 0; schedule_table[s]; s++) {
            if (!schedule_table[s]->flush || schedule_replicas(schedule_table[s]) > 1) continue;
            struct run_case many = base;
            many.schedule = schedule_table[s]->name;
            many.workers = 2 + s % 2;
            many.transport = transports[s % 2];
            many.recompute = s % 3 == 0;
            assert_same(&many, &oracle);
        }
        trained_free(&oracle);
    }
}

/* Replicas add up in groups of their own; both transports do it in the same order. */
static void test_replicas(void **state) {
    (void)state;
    struct run_case cases[] = {usual, usual, usual, usual};
    cases[0].schedule = "chimera", cases[0].workers = 4;
    cases[1].replicas[0] = 2, cases[1].replicas[1] = 1;
    cases[2].replicas[0] = 1, cases[2].replicas[1] = 2, cases[2].replicas[2] = 2;
    cases[3].replicas[0] = 2;
    for (int c = 0; c < 4; c++) {
        struct trained oracle = run_case_weights(cases[c]);
        cases[c].transport = "serial";
        assert_same(&cases[c], &oracle);
        trained_free(&oracle);
    }
}

/* Forwards and backwards of a stage on different workers. */
static void test_split_stages(void **state) {
    (void)state;
    struct random_key key = random_key_named(1, RANDOM_WEIGHTS, "split and tied");
    uint64_t drawn = 0;
    struct trained oracle = run_case_weights(usual);
    for (int found = 0; found < 4;) {
        struct split_case split = split_draw(key, &drawn, SPLIT_LAYERS_MAX, 4);
        struct run_case wanted = usual;
        split.layers = run_case_layers(&usual);
        split_direction(key, &drawn, &split, split.forward);
        split_direction(key, &drawn, &split, split.backward);
        wanted.split = &split;
        wanted.schedule = "1f1b";
        struct ps_plan *plan = split_plan(&split, "1f1b", "sync", 4);
        bool counts = split_any(plan) && plan->stage_count > 1;
        ps_plan_destroy(plan);
        if (!counts) continue;
        assert_same(&wanted, &oracle);
        found++;
    }
    trained_free(&oracle);
}

/* What one worker holds of `model`, as its plan says and its run does. */
static struct worker_memory memory_of(const char *model) {
    struct run_case wanted = usual;
    struct ps_network *made;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    struct ps_run *run;
    char profile_path[4096], plan_path[4096];
    wanted.model = model;
    wanted = run_case_complete(wanted);
    assert_ok(ps_network_open(model, &made, &test_error));
    struct ps_profile_options measuring = {.struct_size = sizeof measuring,
                                           .micro_batches = (const int[]){wanted.micro_batch},
                                           .micro_batch_count = 1,
                                           .repeats = 1,
                                           .device = test_device("reference")};
    assert_ok(ps_profile_measure(made, &measuring, &profile, &test_error));
    assert_ok(ps_profile_write(profile, file_join(profile_path, test_directory, "profile.json"), &test_error));
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = 1},
                                 &cluster, &test_error));
    struct ps_plan_options planning = {.struct_size = sizeof planning,
                                       .schedule = "1f1b",
                                       .weights = "sync",
                                       .optimizer = wanted.optimizer,
                                       .micro_batches = wanted.micro_batches};
    assert_ok(ps_plan_find(profile, cluster, &planning, &plan, &test_error));
    assert_ok(ps_plan_write(plan, file_join(plan_path, test_directory, "plan.json"), &test_error));
    struct worker_memory memory = plan->predicted.memory[0];
    struct training options = run_case_options(&wanted, plan_path, NULL);
    options.profile_path = profile_path;
    assert_ok(training_run(&options, &run, &test_error));
    assert_int_equal(ps_run_worker(run, 0).measured_bytes, worker_memory_total(&memory));
    assert_int_equal(ps_run_worker(run, 0).planned_bytes, worker_memory_total(&memory));
    ps_run_destroy(run);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    ps_network_destroy(made);
    return memory;
}

/* One stage has the shared weights and their state once, and the gradients of both uses. */
static void test_memory(void **state) {
    (void)state;
    static const struct {
        const char *tied, *apart;
    } models[] = {{GPT2, "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14"},
                  {BERT, "bert48,layers=1,width=16,heads=2,seq=12,vocab=14"}};
    enum { SHARED = 14 * 16 * (int)sizeof(float), MOMENTS = 2 };
    for (int m = 0; m < 2; m++) {
        struct worker_memory tied = memory_of(models[m].tied), apart = memory_of(models[m].apart);
        assert_int_equal(tied.weights, apart.weights - SHARED);
        assert_int_equal(tied.gradients, apart.gradients);
        assert_int_equal(tied.optimizer, apart.optimizer - MOMENTS * SHARED);
        assert_int_equal(tied.workspace, apart.workspace);
    }
}

/* Each stage shortens its own part of the gradient, and both ends shorten what they share alike. */
static void test_clipped(void **state) {
    (void)state;
    for (int workers = 1; workers <= 3; workers++) {
        struct run_case clipped = usual, free = usual;
        clipped.workers = free.workers = workers;
        clipped.clip = 0.01;
        clipped.optimizer = free.optimizer = "sgd";
        struct trained a = run_case_weights(clipped), b = run_case_weights(free);
        assert_false(trained_equal(&a, &b));
        trained_free(&a);
        trained_free(&b);
    }
}

static bool holds(const struct weight_files *weights, const char *tensor) { return weight_files_find(weights, tensor) != NULL; }

/* The parameter stands in files once, under the embedding's name; one worker that reads them finds what the pipeline did, and a
 * run that is taken up again goes on with both copies. */
static void test_files(void **state) {
    (void)state;
    char directory[4096], out[4096];
    struct run_case wanted = usual;
    struct ps_run *run;
    wanted.workers = 3;
    wanted.valid = wanted.data;
    wanted.steps = 8;
    run_case_train(wanted, directory, &run);
    double loss = ps_run_info(run).valid_loss;
    ps_run_destroy(run);
    struct weight_files weights;
    assert_ok(weight_files_open_run(file_join(out, directory, "run"), &weights, &test_error));
    assert_true(holds(&weights, "transformer.wte.weight") && !holds(&weights, "lm_head.weight"));
    weight_files_close(&weights);
    struct evaluating options = {.run = out, .data = wanted.valid, .device = test_device("reference"), .batch = 8};
    struct ps_evaluation evaluation;
    assert_ok(evaluating_run(&options, &evaluation, &test_error));
    assert_float_equal(evaluation.loss, loss, 1e-6);

    struct trained whole = trained_read(GPT2, out);
    char last[4096];
    test_directory_remove(file_join(last, out, "checkpoints/000008")); /* the one before is of the epoch's end */
    struct training more;
    training_init(&more);
    more.o.resume = out;
    assert_ok(training_run(&more, &run, &test_error));
    ps_run_destroy(run);
    struct trained resumed = trained_read(GPT2, out);
    assert_true(trained_equal(&resumed, &whole));
    trained_free(&resumed);
    trained_free(&whole);
    test_directory_remove(directory);
}

static void test_refused(void **state) {
    (void)state;
    struct run_case wanted = run_case_complete(usual);
    wanted.workers = 2;
    wanted.schedule = "1f1b-async";
    wanted.weights = "pipeoptim";
    wanted.micro_batches = 1;
    struct ps_plan *plan = run_case_plan(&wanted);
    struct ps_programs *programs;
    plan->tied = true;
    assert_status(lower_plan(plan, 4, &programs, &test_error), PS_USAGE, "schedule 1f1b-async does not flush");
    ps_plan_destroy(plan);
    struct ps_network *model;
    assert_status(ps_network_open(GPT2 ",split=lm_head:7", &model, &test_error), PS_USAGE, "shares its weights");
}

/* An update without the sum, or a sum where nothing is shared, is found. */
static void test_broken_programs(void **state) {
    (void)state;
    struct ps_programs *programs, *again;
    assert_ok(lower_straight(
        &(struct straight){.schedule = "1f1b", .policy = "sync", .workers = 3, .micro_batches = 4, .batches = 2, .tied = true},
        &programs, &test_error));
    char *text = ps_programs_print(programs);
    assert_non_null(strstr(text, "workers 3 tied\n"));
    assert_ok(ps_programs_parse(text, &again, &test_error));
    assert_ok(ps_programs_verify(again, &test_error));
    again->tied = false;
    assert_status(ps_programs_verify(again, &test_error), PS_BAD_INPUT, "shares no parameter");
    again->tied = true;
    struct program *last = &again->worker[2];
    for (int i = 0, kept = 0, count = last->count; i < count; i++) {
        if (last->code[i].op == OP_AR) last->count--;
        if (last->code[i].op != OP_AR) last->code[kept++] = last->code[i];
    }
    assert_status(ps_programs_verify(again, &test_error), PS_BAD_INPUT, "of what two stages share are not added up");
    free(text);
    ps_programs_destroy(again);
    ps_programs_destroy(programs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_schedule), cmocka_unit_test(test_replicas),        cmocka_unit_test(test_split_stages),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_clipped),         cmocka_unit_test(test_files),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_broken_programs),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
