/* What a run says of itself, to the byte: the table and summary.json of runs made by hand, and lines of log.jsonl, with all
 * that they may have and with as little as they may. PENSTOCK_REGENERATE=1 build/release/tests/test_train_summary writes the
 * files anew. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
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
    entry.samples_per_s = 1000.0 / 3;
    add_line("a line between", &entry, NULL, &texts);
    test_golden(TEST_DIRECTORY "/golden/log_lines.txt", text_take(&texts));
}

/* A run's directory with these files. */
static void write_run(struct ps_run *run, const char *lines) {
    char path[4096], *document;
    for (int w = 0; w < run->info.workers; w++) run->process[w] = (struct ps_run_process){0};
    document = ps_run_json(run);
    test_file_write(file_join(path, test_directory, "summary.json"), document, strlen(document));
    test_file_write(file_join(path, test_directory, "log.jsonl"), lines, strlen(lines));
    free(document);
}

static void assert_point(const struct ps_run *run, int number, struct ps_run_point wanted) {
    const struct ps_run_point point = ps_run_point(run, number);
    const double got[] = {point.loss,       point.accuracy,  point.valid_loss, point.valid_accuracy, point.valid_perplexity,
                          point.valid_bleu, point.training_s},
                 want[] = {wanted.loss,           wanted.accuracy,         wanted.valid_loss,
                           wanted.valid_accuracy, wanted.valid_perplexity, wanted.valid_bleu,
                           wanted.training_s};
    assert_int_equal(point.step, wanted.step);
    assert_int_equal(point.epoch, wanted.epoch);
    for (size_t f = 0; f < sizeof got / sizeof *got; f++) assert_true(got[f] == want[f] || (isnan(got[f]) && isnan(want[f])));
}

/* A directory says all of its run that the run itself said, but for the processes' memory. */
static void test_read(void **state) {
    (void)state;
    static const char evaluated[] =
        "{\"step\": 2, \"epoch\": 1, \"loss\": 9, \"lr\": 1}\n"
        "{\"step\": 7, \"epoch\": 1, \"loss\": 8, \"epoch_loss\": 0.5, \"epoch_accuracy\": 0.25, \"valid_loss\": 0.75, "
        "\"valid_accuracy\": 0.125, \"valid_perplexity\": 2.5, \"valid_bleu\": 20.5, \"training_s\": 3.5}\n"
        "{\"step\": 9, \"epoch\": 2, \"loss\": 7, \"epoch_loss\": 0.375, \"training_s\": 4.5}\n"
        "{\"step\": 14, \"epoch\": 2, \"loss\": 7, \"epoch_loss\": 0.25, \"valid_loss\": 0.5, \"training_s\": 5.5}\n";
    static const char other[] = "{\"step\": 2, \"epoch\": 1, \"loss\": 9, \"lr\": 1}\n"
                                "{\"step\": 9, \"epoch\": 2, \"loss\": 7, \"epoch_loss\": 0.375, \"training_s\": 4.5}\n";
    for (int few = 0; few < 2; few++) {
        struct ps_run *run = few ? make(2) : whole(), *read;
        if (few) run->lr = 0.5;
        write_run(run, few ? other : evaluated);
        assert_ok(ps_run_read(test_directory, &read, &test_error));
        char *texts[2][2] = {{ps_run_json(run), ps_run_table(run)}, {ps_run_json(read), ps_run_table(read)}};
        for (int t = 0; t < 2; t++) {
            assert_string_equal(texts[1][t], texts[0][t]);
            free(texts[0][t]);
            free(texts[1][t]);
        }
        /* Where there are evaluations, the others do not count. */
        assert_int_equal(ps_run_point_count(read), few ? 1 : 2);
        const struct ps_run_point points[] = {{.step = 7,
                                               .epoch = 1,
                                               .loss = 0.5,
                                               .accuracy = 0.25,
                                               .valid_loss = 0.75,
                                               .valid_accuracy = 0.125,
                                               .valid_perplexity = 2.5,
                                               .valid_bleu = 20.5,
                                               .training_s = 3.5},
                                              {.step = 14,
                                               .epoch = 2,
                                               .loss = 0.25,
                                               .accuracy = NAN,
                                               .valid_loss = 0.5,
                                               .valid_accuracy = NAN,
                                               .valid_perplexity = NAN,
                                               .valid_bleu = NAN,
                                               .training_s = 5.5},
                                              {.step = 9,
                                               .epoch = 2,
                                               .loss = 0.375,
                                               .accuracy = NAN,
                                               .valid_loss = NAN,
                                               .valid_accuracy = NAN,
                                               .valid_perplexity = NAN,
                                               .valid_bleu = NAN,
                                               .training_s = 4.5}};
        for (int p = 0; p < ps_run_point_count(read); p++) assert_point(read, p, points[few ? 2 : p]);
        ps_run_destroy(read);
        ps_run_destroy(run);
    }
}

/* What is missing, or is not as Penstock writes it, is named. */
static void test_read_refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *part;
    } cases[] = {
        {"penstock-summary", "penstock-plan", "summary.json: format: 'penstock-plan' is not 'penstock-summary'"},
        {"\"workers\": [", "\"worker\": [", "workers"},
        {"\"memory_bytes\"", "\"memory\"", "workers[0].memory_bytes"},
        {"\"predicted_memory_bytes\"", "\"predicted\"", "workers[0].predicted_memory_bytes"},
        {"\"busy_s\"", "\"busy\"", "workers[0].busy_s"},
        {"\"sent_bytes\": ", "\"sent_bytes\": -1", "workers[0].sent_bytes"},
        {"\"batch\"", "\"batches\"", "batch"},
        {"\"batch\": ", "\"batch\": -1", "batch"},
        {"\"micro_batches\": ", "\"micro_batches\": -1", "micro_batches"},
        {"\"step\": ", "\"step\": -1", "step"},
        {"\"epoch\": ", "\"epoch\": -1", "epoch"},
        {"\"received_bytes\": ", "\"received_bytes\": -1", "workers[0].received_bytes"},
        {"\"memory_bytes\": ", "\"memory_bytes\": -1", "workers[0].memory_bytes"},
        {"\"predicted_memory_bytes\": ", "\"predicted_memory_bytes\": -1", "workers[0].predicted_memory_bytes"},
        {"\"micro_batches\"", "\"micro\"", "micro_batches"},
        {"\"step\"", "\"steps\"", "step"},
        {"\"epoch\"", "\"epochs\"", "epoch"},
        {"\"best_step\": ", "\"best_step\": -1", "best_step"},
        {"\"ended_early\": true", "\"ended_early\": 1", "ended_early"},
        {"\"method\": \"madpipe\"", "\"method\": 1", "method"},
    };
    struct ps_run *run = whole(), *read;
    char path[4096];
    write_run(run, "");
    char *document = ps_run_json(run);
    ps_run_destroy(run);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct text text = {0};
        const char *at = strstr(document, cases[c].from);
        if (!at) fail_msg("no %s", cases[c].from);
        const char *rest = at + strlen(cases[c].from);
        if (strstr(cases[c].to, ": -1")) rest += strspn(rest, "0123456789");
        text_add(&text, "%.*s%s%s", (int)(at - document), document, cases[c].to, rest);
        test_file_write(file_join(path, test_directory, "summary.json"), text.data, text.length);
        text_free(&text);
        assert_status(ps_run_read(test_directory, &read, &test_error), PS_BAD_INPUT, cases[c].part);
    }
    free(document);
    assert_int_equal(remove(path), 0);
    assert_status(ps_run_read(test_directory, &read, &test_error), PS_NO_CHECKPOINT,
                  "holds no run that has ended: there is no summary.json");
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
                                       cmocka_unit_test(test_log_that_cannot_be_written), cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_read_refused)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
