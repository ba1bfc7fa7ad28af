/* What a run says of itself, to the byte: the table and summary.json of runs made by hand, and lines of log.jsonl, with all
 * that they may have and with as little as they may. PENSTOCK_REGENERATE=1 build/release/tests/test_train_summary writes the
 * files anew. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support.h"
#include "train/run_directory.h"
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

/* A line of log.jsonl as it is written. */
static void add_line(const char *name, const struct log_entry *entry, const struct figures *last, struct text *out) {
    struct run_directory directory = {.path = "run", .log = tmpfile()};
    char line[4096] = "";
    assert_non_null(directory.log);
    assert_ok(run_directory_log(&directory, entry, last, &test_error));
    rewind(directory.log);
    line[fread(line, 1, sizeof line - 1, directory.log)] = '\0';
    text_add(out, "=== %s\n%s", name, line);
    run_directory_close(&directory);
}

static void test_lines(void **state) {
    struct text texts = {0};
    (void)state;
    struct ps_run_worker workers[3] = {
        {.prediction_error = NAN, .newest_error = NAN, .sent_bytes = 1, .received_bytes = 2, .busy_s = 0.5},
        {.prediction_error = 0.125, .newest_error = 0.25, .sent_bytes = 3, .received_bytes = 4, .busy_s = 1.5},
        {.prediction_error = NAN, .newest_error = NAN, .sent_bytes = 5, .received_bytes = 6, .busy_s = 2.5}};
    const struct figures last = {0.75, 0.8125, 0.875, 2.25};
    struct log_entry entry = {.step = 21,
                              .epoch = 3,
                              .loss = 0.5,
                              .accuracy = 0.75,
                              .top5 = 0.9375,
                              .perplexity = 1.5,
                              .valid_loss = 0.625,
                              .valid_accuracy = 0.6875,
                              .valid_top5 = 0.90625,
                              .valid_perplexity = 2.5,
                              .valid_bleu = 20.125,
                              .lr = 0.0625,
                              .samples_per_s = 250,
                              .elapsed_s = 61.5,
                              .worker = workers,
                              .workers = 3,
                              .training_s = 51.25};
    add_line("the end of a segment with an evaluation", &entry, &last, &texts);
    workers[1].prediction_error = workers[1].newest_error = NAN;
    add_line("no worker predicts", &entry, &last, &texts);
    entry.workers = 1;
    add_line("one worker alone", &entry, &last, &texts);
    entry.worker = NULL;
    entry.workers = 3;
    entry.valid_loss = entry.valid_accuracy = entry.valid_top5 = entry.valid_perplexity = entry.valid_bleu = NAN;
    entry.top5 = entry.perplexity = NAN;
    add_line("a line between", &entry, NULL, &texts);
    test_golden(TEST_DIRECTORY "/golden/log_lines.txt", text_take(&texts));
}

/* Nothing is written where there is no directory, and what cannot be written is said. */
static void test_log_that_cannot_be_written(void **state) {
    (void)state;
    const struct log_entry entry = {.step = 1, .epoch = 1};
    struct run_directory none = {0}, full = {.path = "run", .log = fopen("/dev/full", "w")};
    assert_ok(run_directory_log(&none, &entry, NULL, &test_error));
    if (!full.log) skip();
    assert_status(run_directory_log(&full, &entry, NULL, &test_error), PS_IO, "run/log.jsonl: cannot write: No space left");
    run_directory_close(&full);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_log_that_cannot_be_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
