/*
 * Training on sequences: the loss of a mini-batch is the mean over its counted labels however it is cut, pipelines give the
 * bits of one worker, it learns, and what a run says of itself is what evaluation finds with the run's vocabulary.
 */
#include "run_support.h"
#include "within.h"

#define BERT "bert48,layers=2,width=16,heads=2,seq=12,vocab=14"
#define GPT2 "gpt2,layers=2,width=16,heads=2,seq=12,vocab=14"

/* Hidden tokens are not as many in every micro-batch: their gradients have unlike weights. */
static void test_any_micro_batches(void **state) {
    (void)state;
    struct run_case whole = {.model = BERT ",dropout=0",
                             .optimizer = "sgd",
                             .data = "synthetic:tokens,samples=48",
                             .micro_batch = 12,
                             .steps = 4,
                             .lr = 0.3};
    struct run_case cut = whole;
    cut.micro_batch = 2;
    cut.micro_batches = 6;
    struct trained a = run_case_weights(whole), b = run_case_weights(cut);
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.count; i++) {
        difference += pow((double)a.values[i] - (double)b.values[i], 2);
        size += pow((double)a.values[i], 2);
    }
    if (!(sqrt(difference / size) < 1e-5)) fail_msg("weights differ by %g of their norm", sqrt(difference / size));
    free(a.values);
    free(b.values);
}

/* Dropout, hidden tokens and padding of a run on several workers are those of one. */
static void test_pipelines_agree(void **state) {
    (void)state;
    static const char *const models[] = {BERT, GPT2}, *const schedules[] = {"gpipe", "1f1b", "interleaved"};
    for (size_t m = 0; m < 2; m++) {
        struct run_case one = {.model = models[m],
                               .optimizer = "adamw",
                               .data = "synthetic:tokens,samples=48",
                               .micro_batch = 2,
                               .micro_batches = 4,
                               .lr = 0.01};
        struct trained wanted = run_case_weights(one);
        for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) {
            struct run_case many = one;
            many.workers = 4;
            many.schedule = schedules[s];
            many.recompute = s == 1;
            struct trained got = run_case_weights(many);
            assert_true(trained_equal(&wanted, &got));
            free(got.values);
        }
        free(wanted.values);
    }
}

static void check_learning(const char *model, double lr, int steps, double loss, double accuracy) {
    if (test_slow()) steps = 4, loss = 5, accuracy = -1; /* it only trains */
    struct run_case wanted = {.model = model,
                              .schedule = "1f1b-async",
                              .weights = "pipeoptim",
                              .optimizer = "adamw",
                              .device = "cpu",
                              .data = "synthetic:tokens,samples=2048,noise=0.05",
                              .valid = "synthetic:tokens,samples=256,noise=0.05",
                              .workers = 2,
                              .micro_batch = 16,
                              .steps = steps,
                              .lr = lr};
    char directory[4096];
    struct ps_run *run;
    run_case_train(wanted, directory, &run);
    struct ps_run_info info = ps_run_info(run);
    if (!(info.valid_loss < loss && info.valid_accuracy > accuracy))
        fail_msg("%s: loss %g, accuracy %g", model, info.valid_loss, info.valid_accuracy);
    assert_within(info.valid_perplexity, exp(info.valid_loss), 1e-9);
    assert_within(info.perplexity, exp(info.loss), 1e-9);
    ps_run_destroy(run);
    test_directory_remove(directory);
}

/* Guessing has a loss of log 10. */
static void test_learning(void **state) {
    (void)state;
    check_learning(GPT2 ",dropout=0", 0.01, 384, 0.9, 0.8);
    check_learning("bert48,layers=2,width=32,heads=2,seq=12,vocab=14,dropout=0", 0.003, 1152, 1, 0.7);
}

/* On text: `evaluate` finds the loss of the last validation, by the vocabulary that the run kept, also for other text. */
static void test_evaluation(void **state) {
    (void)state;
    char directory[4096], place[4096], other[4096], data[4200];
    test_directory_make(directory);
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "the quick brown fox\n"[i % 20];
    test_file_write(file_join(place, directory, "a.txt"), text, sizeof text);
    test_file_write(file_join(other, directory, "b.txt"), text + 7, 500);
    snprintf(data, sizeof data, "text:%s", place);
    struct run_case wanted = {.model = "gpt2,layers=1,width=16,heads=2,seq=12,vocab=21",
                              .data = data,
                              .valid = data,
                              .workers = 2,
                              .micro_batch = 8,
                              .steps = 30};
    char run_place[4096], out[4096];
    struct ps_run *run;
    run_case_train(wanted, run_place, &run);
    struct evaluating options = {
        .run = file_join(out, run_place, "run"), .data = data, .device = test_device("reference"), .batch = 5};
    struct ps_evaluation evaluation;
    assert_ok(evaluating_run(&options, &evaluation, &test_error));
    assert_int_equal(evaluation.samples, 199 / 12);
    assert_within(evaluation.loss, ps_run_info(run).valid_loss, 1e-5);
    assert_within(evaluation.perplexity, exp(evaluation.loss), 1e-9);
    snprintf(data, sizeof data, "text:%s,test=1", other);
    assert_ok(evaluating_run(&options, &evaluation, &test_error));
    assert_int_equal(evaluation.samples, 499 / 12);
    assert_true(evaluation.loss < 3.1); /* other numbers for the characters would be worse than guessing: log 21 = 3.04 */
    ps_run_destroy(run);
    snprintf(data, sizeof data, "text:%s,tokens=words", other);
    assert_status(evaluating_run(&options, &evaluation, &test_error), PS_USAGE,
                  "the vocabulary was made from text,tokens=characters");
    char weights[4096];
    snprintf(data, sizeof data, "text:%s", other);
    options.weights = file_join(weights, out, "checkpoints/000030/model-00001-of-00002.safetensors");
    options.run = NULL;
    options.model = wanted.model;
    assert_status(evaluating_run(&options, &evaluation, &test_error), PS_USAGE, "needs a vocabulary, which numbers its words");
    test_directory_remove(run_place);
    test_directory_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_micro_batches),
        cmocka_unit_test(test_pipelines_agree),
        cmocka_unit_test(test_learning),
        cmocka_unit_test(test_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
