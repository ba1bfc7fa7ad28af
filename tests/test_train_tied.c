/*
 * Parameters that several layers share, heads that have the embedding's weights among them: under every schedule that flushes a
 * pipeline ends with the bits of one worker, with all copies equal (run_case_weights compares them), whatever the workers hold
 * beside them; files have the parameter once; and what could not keep the copies equal is refused.
 */
#include "base/random.h"
#include "run_support.h"
#include "within.h"

#define GPT2 "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1"
#define BERT "bert48,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1"
/* Three uses of an embedding, three of a linear layer, two of a norm, all of them in several layers. */
#define SHARED TEST_DIRECTORY "/networks/shared.json"

static const char *const both[] = {GPT2, SHARED};

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
    static const char *const models[] = {GPT2, BERT, SHARED, SHARED},
                             *const devices[] = {"reference", "cpu", "reference", "cpu"},
                             *const transports[] = {"threads", "serial"};
    for (int m = 0; m < 4; m++) {
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
    for (int c = 0; c < 8; c++) {
        struct run_case wanted = cases[c / 2];
        wanted.model = both[c % 2];
        struct trained oracle = run_case_weights(wanted);
        wanted.transport = "serial";
        assert_same(&wanted, &oracle);
        trained_free(&oracle);
    }
}

/* Forwards and backwards of a stage on different workers. */
static void test_split_stages(void **state) {
    (void)state;
    struct random_key key = random_key_named(1, RANDOM_WEIGHTS, "split and tied");
    uint64_t drawn = 0;
    for (int found = 0; found < 6;) {
        struct split_case split = split_draw(key, &drawn, SPLIT_LAYERS_MAX, 4);
        struct run_case wanted = usual;
        wanted.model = both[found % 2];
        split.layers = run_case_layers(&wanted);
        split_direction(key, &drawn, &split, split.forward);
        split_direction(key, &drawn, &split, split.backward);
        struct ps_plan *plan = split_plan(&split, "1f1b", "sync", 4);
        bool counts = split_any(plan) && plan->stage_count > 1;
        ps_plan_destroy(plan);
        if (!counts) continue;
        struct trained oracle = run_case_weights(wanted);
        wanted.split = &split;
        wanted.schedule = "1f1b";
        assert_same(&wanted, &oracle);
        trained_free(&oracle);
        found++;
    }
}

/* One stage has the shared weights and their state once, and the gradients of both uses. */
static void test_memory(void **state) {
    (void)state;
    static const struct {
        const char *tied, *apart;
    } models[] = {{GPT2, "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14"},
                  {BERT, "bert48,layers=1,width=16,heads=2,seq=12,vocab=14"}};
    enum { ONCE = 14 * 16 * (int)sizeof(float), MOMENTS = 2 };
    for (int m = 0; m < 2; m++) {
        struct run_case wanted[2] = {usual, usual};
        struct worker_memory tied, apart;
        wanted[0].model = models[m].tied, wanted[1].model = models[m].apart;
        run_case_memory(wanted[0], &tied);
        run_case_memory(wanted[1], &apart);
        assert_int_equal(tied.weights, apart.weights - ONCE);
        assert_int_equal(tied.gradients, apart.gradients);
        assert_int_equal(tied.optimizer, apart.optimizer - MOMENTS * ONCE);
        assert_int_equal(tied.workspace, apart.workspace);
    }
}

/* Each stage shortens its own part of the gradient, and all that have a copy shorten what they share alike: a step is as long
 * as the limit allows, in every precision. */
static void test_clipped(void **state) {
    (void)state;
    static const char *const models[] = {GPT2, SHARED, GPT2 ",precision=bf16", SHARED ",precision=bf16",
                                         SHARED ",precision=mixed"};
    enum { MODELS = sizeof models / sizeof *models };
    for (int c = 0; c < 3 * MODELS; c++) {
        struct run_case wanted = usual;
        double squares = 0;
        wanted.model = models[c % MODELS];
        wanted.workers = c / MODELS + 1;
        wanted.optimizer = "sgd";
        wanted.clip = 0.01;
        wanted.steps = 1;
        wanted.lr = 1e-30; /* changes nothing */
        struct trained before = run_case_weights(wanted);
        wanted.lr = 100;
        struct trained after = run_case_weights(wanted);
        for (size_t i = 0; i < after.count; i++) squares += pow((double)after.values[i] - (double)before.values[i], 2);
        assert_within(sqrt(squares), 100 * 0.01, 1e-4);
        trained_free(&before);
        trained_free(&after);
    }
}

static bool holds(const struct weight_files *weights, const char *tensor) { return weight_files_find(weights, tensor) != NULL; }

/* The parameter stands in files once, under the embedding's name; one worker that reads them finds what the pipeline did, and a
 * run that is taken up again goes on with both copies. */
static void test_files(void **state) {
    (void)state;
    static const char *const kept[] = {"transformer.wte.weight", "first.bias"}, *const gone[] = {"lm_head.weight",
                                                                                                 "third.bias"};
    for (int m = 0; m < 2; m++) {
        char directory[4096], out[4096];
        struct run_case wanted = usual;
        struct ps_run *run;
        wanted.model = both[m];
        wanted.workers = 3;
        wanted.valid = wanted.data;
        wanted.steps = 8;
        run_case_train(wanted, directory, &run);
        double loss = ps_run_info(run).valid_loss;
        ps_run_destroy(run);
        struct weight_files weights;
        assert_ok(weight_files_open_run(file_join(out, directory, "run"), NULL, &weights, &test_error));
        assert_true(holds(&weights, kept[m]) && !holds(&weights, gone[m]));
        weight_files_close(&weights);
        struct evaluating options = {.run = out, .data = wanted.valid, .device = test_device("reference"), .batch = 8};
        struct ps_evaluation evaluation;
        assert_ok(evaluating_run(&options, &evaluation, &test_error));
        assert_within(evaluation.loss, loss, 1e-6);

        struct trained whole = trained_read(both[m], out);
        char last[4096];
        test_directory_remove(file_join(last, out, "checkpoints/000008")); /* the one before is of the epoch's end */
        struct training more;
        training_init(&more);
        more.o.resume = out;
        more.plan.schedule = "1f1b";
        more.cluster.workers = m == 0 ? 0 : 2; /* with another cut, too */
        assert_ok(training_run(&more, &run, &test_error));
        ps_run_destroy(run);
        struct trained resumed = trained_read(both[m], out);
        assert_true(trained_equal(&resumed, &whole));
        trained_free(&resumed);
        trained_free(&whole);
        test_directory_remove(directory);
    }
}

static int note_loss(void *context, const struct ps_step *step) {
    ((double *)context)[step->step - 1] = step->loss;
    return 0;
}

/* The loss of the same samples before and after a step of SGD, and the length of that step, squared. */
static void take_step(struct run_case wanted, double losses[2], double *moved) {
    char directory[4096], plan_path[4096];
    struct ps_run *run;
    const struct ps_observer observer = {.struct_size = sizeof observer, .context = losses, .step = note_loss};
    wanted.steps = 2;
    struct training options = run_case_planned(&wanted, directory, plan_path);
    options.o.observer = &observer;
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    test_directory_remove(directory);
    wanted.steps = 1;
    struct run_case still = wanted;
    still.lr = 1e-30;
    struct trained before = run_case_weights(still), after = run_case_weights(wanted);
    *moved = 0;
    for (size_t i = 0; i < after.count; i++) *moved += pow((double)after.values[i] - before.values[i], 2);
    trained_free(&before);
    trained_free(&after);
}

/* A step that is the rate times the gradient lowers the loss by the rate times its length, squared: of all uses of what is
 * shared together, or this does not hold. */
static void test_gradients(void **state) {
    (void)state;
    static const char *const devices[] = {"reference", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct run_case wanted = usual;
        wanted.model = SHARED;
        wanted.data = "synthetic:tokens,samples=8"; /* one mini-batch */
        wanted.device = devices[d];
        wanted.optimizer = "sgd";
        wanted.workers = 3;
        wanted = run_case_complete(wanted);
        double falls[2], squares[2];
        for (int half = 0; half < 2; half++) {
            double losses[2], moved;
            wanted.lr = half ? 0.01 : 0.02;
            take_step(wanted, losses, &moved);
            falls[half] = (losses[0] - losses[1]) / wanted.lr;
            squares[half] = moved / (wanted.lr * wanted.lr);
        }
        const double slope = 2 * falls[1] - falls[0]; /* without the second order */
        assert_within(squares[0], squares[1], 1e-3 * squares[1]);
        assert_within(slope, squares[1], 0.01 * squares[1]);
    }
}

/* Asynchronous schedules train what shares nothing with other stages. */
static void test_asynchronous(void **state) {
    (void)state;
    struct run_case wanted = run_case_complete(usual);
    wanted.model = SHARED;
    wanted.schedule = "1f1b-async";
    wanted.weights = "stash";
    wanted.micro_batches = 1;
    wanted.workers = 2;
    struct ps_plan *plan = run_case_plan(&wanted);
    struct ps_programs *programs;
    /* The uses of the linear layer lie in layers 1, 5 and 6: all in the first stage if it ends with layer 7. */
    int layers[] = {1, 5, 6};
    struct tie tie = {.layers = layers, .uses = 3};
    assert_ok(plan_ties_set(plan, false, &(struct ties){&tie, 1}, &test_error));
    plan->stages[0].last = 7, plan->stages[1].first = 8;
    assert_ok(lower_plan(plan, 4, &programs, &test_error));
    ps_programs_destroy(programs);
    plan->stages[0].last = 5, plan->stages[1].first = 6;
    assert_status(lower_plan(plan, 4, &programs, &test_error), PS_USAGE, "stages 0 and 1 share weights");
    ps_plan_destroy(plan);
}

/* Stages that share with each other form groups, which text and file keep. */
static void test_groups(void **state) {
    (void)state;
    struct run_case wanted = run_case_complete(usual);
    wanted.model = SHARED;
    wanted.workers = 5;
    struct ps_plan *plan = run_case_plan(&wanted), *read;
    struct ps_programs *programs, *again;
    int layers[4][2] = {{0, 8}, {1, 3}, {5, 6}, {0, 8}}; /* of stages 0 and 4, of 1 and 2, of 3 alone; the first again */
    struct tie list[4];
    for (int t = 0; t < 4; t++) list[t] = (struct tie){.layers = layers[t], .uses = 2};
    assert_ok(plan_ties_set(plan, false, &(struct ties){list, 4}, &test_error));
    assert_int_equal(plan->ties.count, 3);
    char *text = ps_plan_json(plan);
    assert_ok(plan_parse(text, strlen(text), &read, &test_error));
    free(text);
    assert_int_equal(read->ties.count, 3);
    assert_ok(lower_plan(read, 2, &programs, &test_error));
    int head[5];
    plan_tied_stages(plan, head);
    for (int s = 0; s < 5; s++) assert_int_equal(programs_sum_group(programs, s).number, head[s]);
    assert_int_equal(programs_sum_group(programs, 4).number, 0);
    text = ps_programs_print(programs);
    assert_non_null(strstr(text, "workers 5 tied 1,2 0,4\n"));
    assert_ok(ps_programs_parse(text, &again, &test_error));
    assert_ok(ps_programs_verify(again, &test_error));
    char *same = ps_programs_print(again);
    assert_string_equal(text, same);
    free(text), free(same);
    ps_programs_destroy(programs), ps_programs_destroy(again);
    ps_plan_destroy(plan), ps_plan_destroy(read);
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
    static const char *const owners[][2] = {{"embed.weight", "same shape"}, {"nobody.weight", "'nobody.weight'"}};
    for (int o = 0; o < 2; o++) {
        struct ps_network_builder *builder = ps_network_builder_create("refused");
        ps_network_builder_input(builder, "data", "i32", (const int64_t[]){12}, 1);
        ps_network_builder_node(builder, "embed", "embedding,channels=8,vocabulary=14", NULL, 0);
        const int head = ps_network_builder_node(builder, "head", "linear,channels=15,bias=0", NULL, 0);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        ps_network_builder_share(builder, head, "weight", owners[o][0]);
        assert_status(ps_network_builder_finish(builder, &model, &test_error), PS_USAGE, owners[o][1]);
    }
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
    struct sum_group *groups = again->groups;
    assert_ok(programs_set_groups(again, (const int[]){0, 1, 2}, &test_error));
    assert_status(ps_programs_verify(again, &test_error), PS_BAD_INPUT, "shares no parameter");
    again->groups = groups;
    struct program *last = &again->worker[2];
    for (int i = 0, kept = 0, count = last->count; i < count; i++) {
        if (last->code[i].op == OP_AR) last->count--;
        if (last->code[i].op != OP_AR) last->code[kept++] = last->code[i];
    }
    assert_status(ps_programs_verify(again, &test_error), PS_BAD_INPUT, "of what stages share are not added up");
    free(text);
    ps_programs_destroy(again);
    ps_programs_destroy(programs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_schedule), cmocka_unit_test(test_replicas),        cmocka_unit_test(test_split_stages),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_clipped),         cmocka_unit_test(test_files),
        cmocka_unit_test(test_gradients),      cmocka_unit_test(test_asynchronous),    cmocka_unit_test(test_groups),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_broken_programs),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
