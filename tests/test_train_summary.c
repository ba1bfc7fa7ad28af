/* What a finished run says of itself, to the byte: the table and summary.json of runs made by hand, with all that they may have
 * and with as little as they may. PENSTOCK_REGENERATE=1 build/release/tests/test_train_summary writes the file anew. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support.h"
#include "train/run_result.h"

static struct ps_run *make(int workers) {
    struct ps_run *run;
    assert_ok(run_create(workers, &run, &test_error));
    strcpy(run->model, "lenet5");
    strcpy(run->schedule, "1f1b-async");
    strcpy(run->weights, "stash");
    strcpy(run->optimizer, "sgd");
    strcpy(run->device, "cpu");
    strcpy(run->transport, "threads");
    run->batch = 16;
    run->micro_batches = 4;
    run->info.steps = 20;
    run->info.epochs = 2;
    run->info.wall_s = 1.5;
    for (int w = 0; w < workers; w++)
        run->worker[w] = (struct ps_run_worker){.planned_bytes = (int64_t)(w + 1) << 20,
                                                .measured_bytes = ((int64_t)(w + 1) << 20) + 512,
                                                .busy_s = 0.25 * (w + 1),
                                                .prediction_error = w == 1 ? 0.125 : NAN,
                                                .newest_error = NAN,
                                                .sent_bytes = 1024 * (w + 1),
                                                .received_bytes = 2048 * (w + 1)};
    return run;
}

static void add(const char *name, struct ps_run *run, struct text *out) {
    char *table = ps_run_table(run), *document = ps_run_json(run);
    assert_true(table && document);
    text_add(out, "=== %s\n%s\n%s\n", name, table, document);
    free(table);
    free(document);
    ps_run_destroy(run);
}

static struct ps_run *whole(void) {
    struct ps_run *run = make(3);
    strcpy(run->network, "0123456789abcdef");
    strcpy(run->method, "madpipe");
    strcpy(run->best_by, "accuracy");
    run->lr = 0.0625;
    run->info = (struct ps_run_info){.workers = 3,
                                     .steps = 21,
                                     .epochs = 3,
                                     .loss = 0.5,
                                     .accuracy = 0.75,
                                     .valid_loss = 0.625,
                                     .valid_accuracy = 0.6875,
                                     .perplexity = 1.5,
                                     .valid_perplexity = 2.5,
                                     .wall_s = 61.5,
                                     .samples_per_s = 250,
                                     .predicted_samples_per_s = 256.25,
                                     .checkpoint_stall_s = 0.03125,
                                     .top5 = 0.9375,
                                     .valid_top5 = 0.90625,
                                     .valid_bleu = 20.125,
                                     .best = 0.8125,
                                     .best_step = 14,
                                     .ended_early = true};
    for (int w = 0; w < 3; w += 2)
        run->process[w] = (struct ps_run_process){.peak_bytes = 1000 * (w + 1),
                                                  .code_bytes = 100 * (w + 1),
                                                  .start_bytes = 200 * (w + 1),
                                                  .loader_bytes = 30 * (w + 1),
                                                  .checkpoint_bytes = 4 * (w + 1),
                                                  .others_bytes = 5 * (w + 1)};
    return run;
}

static void test_texts(void **state) {
    struct text texts = {0};
    (void)state;
    add("all there is", whole(), &texts);
    struct ps_run *by_loss = make(1);
    strcpy(by_loss->best_by, "loss");
    by_loss->batch = 1;
    by_loss->info.steps = 1;
    by_loss->info.loss = 2.5;
    by_loss->info.best = 0.125;
    by_loss->info.best_step = 2;
    add("the best by the loss, at another step", by_loss, &texts);
    struct ps_run *last = make(2);
    strcpy(last->best_by, "loss");
    last->info.loss = 2.5;
    last->info.valid_loss = 0.125;
    last->info.best = 0.125;
    last->info.best_step = 20;
    add("the last step is the best", last, &texts);
    add("no numbers", make(2), &texts);
    test_golden(TEST_DIRECTORY "/golden/summaries.txt", text_take(&texts));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
