/*
 * Training on texts: a translating network gives the bits of one worker under every schedule that flushes, wherever it is cut;
 * it learns a small language, what was trained is evaluated with the vocabulary that the run keeps, and translates as well
 * alone as in the pipeline.
 */
#include "base/text.h"
#include "data/vocabulary.h"
#include "run_support.h"
#include "within.h"

enum { LINES = 512, TESTED = 64 };

static void write_lines(const char *name, const struct text *text) {
    char path[4096];
    test_file_write(file_join(path, test_directory, name), text->data, text->length);
}

/* Sentences of two to four of eight words; their translations go word by word, in the same order. */
static void write_language(void) {
    struct text source = {0}, target = {0}, unseen_source = {0}, unseen_target = {0};
    uint64_t drawn = 0;
    for (int l = 0; l < LINES + TESTED; l++) {
        struct text *a = l < LINES ? &source : &unseen_source, *b = l < LINES ? &target : &unseen_target;
        int words = 2 + (int)random_below(test_key(1), drawn++, 3);
        for (int w = 0; w < words; w++) {
            int word = (int)random_below(test_key(1), drawn++, 8);
            text_add(a, "%c%s", 'a' + word, w + 1 < words ? " " : "\n");
            text_add(b, "%c%s", 'z' - word, w + 1 < words ? " " : "\n");
        }
    }
    write_lines("train.x", &source);
    write_lines("train.y", &target);
    write_lines("test.x", &unseen_source);
    write_lines("test.y", &unseen_target);
    text_free(&source);
    text_free(&target);
    text_free(&unseen_source);
    text_free(&unseen_target);
}

static const char *spec_of(const char *part, char spec[4200]) {
    snprintf(spec, 4200, "pairs:%s/%s:x:y", test_directory, part);
    return spec;
}

static void test_cuts(void **state) {
    (void)state;
    char data[4200], text[160];
    struct run_case base = {.model = "gnmt8,seq=5,target=4,hidden=8,vocab=12",
                            .data = spec_of("train", data),
                            .device = "cpu",
                            .optimizer = "adam",
                            .lr = 0.01,
                            .micro_batches = 3,
                            .micro_batch = 4,
                            .steps = 3};
    struct trained oracle = run_case_weights(base);
    static const int workers[] = {2, 4};
    int runs = 0;
    for (size_t w = 0; w < 2; w++)
        for (size_t s = 0; schedule_table[s]; s++) {
            struct run_case wanted = base;
            wanted.schedule = schedule_table[s]->name;
            wanted.workers = workers[w];
            wanted.recompute = s % 2 == 1;
            if (!schedule_table[s]->flush || schedule_replicas(schedule_table[s]) > 1) continue;
            struct trained got = run_case_weights(wanted);
            bool same = trained_equal(&got, &oracle);
            if (!same) print_message("%s\n", run_case_text(&wanted, text));
            trained_free(&got);
            assert_true(same);
            runs++;
        }
    assert_true(runs >= 8);
    trained_free(&oracle);
}

static void test_learning(void **state) {
    (void)state;
    char data[4200], valid[4200], place[4096], run_dir[4096], path[4096];
    struct run_case work = {.model = "gnmt-l,layers=4,seq=5,target=5,hidden=32,vocab=12,dropout=0",
                            .data = spec_of("train", data),
                            .valid = spec_of("test", valid),
                            .device = "cpu",
                            .schedule = "1f1b-async",
                            .weights = "pipeoptim",
                            .optimizer = "adam",
                            .lr = 0.01,
                            .workers = 3,
                            .micro_batch = 32,
                            .steps = 320};
    struct ps_run *run;
    run_case_train(work, place, &run);
    struct ps_run_info info = ps_run_info(run);
    ps_run_destroy(run);
    struct vocabulary *words[2] = {NULL, NULL};
    file_join(run_dir, place, "run");
    assert_ok(vocabulary_read(file_join(path, run_dir, "vocabulary.json"), words, &test_error));
    assert_int_equal(vocabulary_size(words[0]), 12);
    assert_int_equal(vocabulary_size(words[1]), 12);
    vocabulary_destroy(words[0]);
    vocabulary_destroy(words[1]);

    struct evaluating options = {.run = run_dir, .data = valid, .batch = 16};
    struct ps_evaluation greedy, beam;
    assert_ok(evaluating_run(&options, &greedy, &test_error));
    assert_int_equal(greedy.samples, TESTED);
    assert_true(fabs(greedy.loss - info.valid_loss) <= 1e-5 * (1 + info.valid_loss));
    options.beam = 3;
    options.translations = file_join(path, place, "translations.txt");
    assert_ok(evaluating_run(&options, &beam, &test_error));
    print_message("loss %.4f, accuracy %.3f, BLEU %.1f, with a beam %.1f\n", greedy.loss, greedy.accuracy, greedy.bleu,
                  beam.bleu);
    assert_true(greedy.accuracy > 0.95 && greedy.bleu > 85 && beam.bleu > 85);
    char *lines;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &lines, &size, &test_error));
    int count = 0;
    for (size_t i = 0; i < size; i++) count += lines[i] == '\n';
    assert_int_equal(count, TESTED);
    free(lines);
    options.beam = 17;
    assert_status(evaluating_run(&options, &beam, &test_error), PS_USAGE, "`batch`");
    options.beam = 0;
    char moved[4096], named[8400];
    assert_int_equal(rename(file_join(path, run_dir, "vocabulary.json"), file_join(moved, place, "words.json")), 0);
    assert_status(evaluating_run(&options, &beam, &test_error), PS_BAD_INPUT,
                  "vocabulary.json: missing; the run's token numbers are defined by this vocabulary "
                  "file\nwhere it was moved, add ,vocab=FILE to the data");
    snprintf(named, sizeof named, "%s,vocab=%s", valid, moved);
    options.data = named;
    assert_ok(evaluating_run(&options, &beam, &test_error));
    assert_true(beam.loss == greedy.loss);
    test_directory_remove(place);
}

/* What a run's pipeline translates while it trains is what its weights translate alone, sentence by sentence. Returns how
 * well. */
static double check_bleu(struct run_case work) {
    char place[4096], run_dir[4096], data[4300];
    struct ps_run *run;
    run_case_train(work, place, &run);
    struct ps_run_info info = ps_run_info(run);
    int points = ps_run_point_count(run);
    assert_int_equal(points, 8);
    for (int i = 0; i < points; i++) assert_true(isfinite(ps_run_point(run, i).valid_bleu));
    assert_true(ps_run_point(run, points - 1).valid_bleu == info.valid_bleu);
    ps_run_destroy(run);
    snprintf(data, sizeof data, "%s@0-%d", work.valid, work.valid_bleu < TESTED ? work.valid_bleu : TESTED);
    struct evaluating options = {
        .run = file_join(run_dir, place, "run"), .data = data, .batch = 3, .device = test_device("reference")};
    struct ps_evaluation alone;
    assert_ok(evaluating_run(&options, &alone, &test_error));
    print_message("BLEU %.3f, alone %.3f\n", info.valid_bleu, alone.bleu);
    assert_within(info.valid_bleu, alone.bleu, 1e-9);
    test_directory_remove(place);
    return alone.bleu;
}

static void test_bleu(void **state) {
    (void)state;
    char data[4200], valid[4200];
    struct run_case work = {.model = "gnmt-l,layers=4,seq=5,target=5,hidden=16,vocab=12,dropout=0",
                            .data = spec_of("train", data),
                            .valid = spec_of("test", valid),
                            .schedule = "1f1b-async",
                            .weights = "latest",
                            .optimizer = "adam",
                            .lr = 0.02,
                            .workers = 3,
                            .micro_batch = 16,
                            .steps = 256,
                            .valid_bleu = 10};
    double best = check_bleu(work);
    work.transport = "serial";
    work.valid_bleu = 1000; /* all there are */
    best = fmax(best, check_bleu(work));
    work.transport = NULL;
    work.workers = 0;
    memcpy(work.replicas, (const int[6]){1, 2}, sizeof work.replicas);
    work.valid_bleu = 37;
    best = fmax(best, check_bleu(work));
    /* Nothing at all is easily the same. */
    assert_true(best > 5);
}

/* BLEU of what is no translation is refused before anything is trained; a comparison of translations asks for it by itself. */
static void test_bleu_wishes(void **state) {
    (void)state;
    char data[4200], valid[4200];
    struct training options;
    struct ps_run *run;
    training_init(&options);
    options.model = "gnmt-l,layers=4,seq=5,target=5,hidden=4,vocab=12";
    options.cluster.workers = 1;
    options.data = spec_of("train", data);
    options.o.valid_bleu = 4;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`valid_bleu`: needs `valid`");
    options.model = "lenet5,input=16,classes=4";
    options.data = options.valid = "synthetic:images,samples=64";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "are no pairs");

    options.model = "gnmt-l,layers=4,seq=5,target=5,hidden=4,vocab=12";
    options.data = spec_of("train", data);
    options.valid = spec_of("test", valid);
    options.o.valid_bleu = 0;
    options.o.steps = 2;
    static const char *const methods[] = {"uniform"};
    const int workers = 2;
    struct ps_compare_options compare = {
        .struct_size = sizeof compare, .methods = methods, .method_count = 1, .workers = &workers, .worker_count = 1};
    struct ps_comparison *comparison;
    compare.target = 101;
    assert_status(training_compare(&compare, &options, &comparison, &test_error), PS_USAGE,
                  "`target`: 101 is no BLEU; that is 0 to 100");
    compare.target = 100;
    assert_ok(training_compare(&compare, &options, &comparison, &test_error));
    assert_true(isnan(ps_comparison_row(comparison, 0).target_s) == (ps_comparison_row(comparison, 0).best < 100));
    ps_comparison_destroy(comparison);
    compare.target = 0;
    assert_ok(training_compare(&compare, &options, &comparison, &test_error));
    struct ps_comparison_row row = ps_comparison_row(comparison, 0);
    assert_int_equal(row.metric, PS_METRIC_BLEU);
    assert_true(row.best == ps_run_info(row.run).valid_bleu && row.best_epoch == 1);
    assert_int_equal(ps_run_worker(row.run, 0).measured_bytes > ps_run_worker(row.run, 1).measured_bytes
                         ? ps_run_worker(row.run, 0).measured_bytes
                         : ps_run_worker(row.run, 1).measured_bytes,
                     row.measured_bytes);
    char *table = ps_comparison_table(comparison), *json = ps_comparison_json(comparison);
    assert_non_null(strstr(table, "BLEU"));
    assert_non_null(strstr(json, "\"metric\": \"bleu\""));
    free(table);
    free(json);
    ps_comparison_destroy(comparison);
}

/* Running text is compared by perplexity: the least is the best, and a target is reached from above. */
static void test_perplexity(void **state) {
    (void)state;
    char data[4200];
    struct text text = {0};
    for (int i = 0; i < 600; i++) text_add(&text, "%c", "abcde\n"[i * i % 6]);
    write_lines("running.txt", &text);
    text_free(&text);
    snprintf(data, sizeof data, "text:%s/running.txt", test_directory);
    struct training options;
    training_init(&options);
    options.model = "gpt2,layers=1,width=8,heads=1,seq=6,vocab=8,dropout=0";
    options.data = options.valid = data;
    options.plan.optimizer = "adam";
    options.o.lr = 0.02;
    options.o.epochs = 3;
    static const char *const methods[] = {"uniform"}, *const weights[] = {"sync", "latest"};
    const int workers = 2;
    const struct ps_plan_options planning = {
        .struct_size = sizeof planning, .optimizer = "adam", .micro_batch = 8, .micro_batches = 1};
    struct ps_compare_options compare = {.struct_size = sizeof compare,
                                         .methods = methods,
                                         .method_count = 1,
                                         .weights = weights,
                                         .weights_count = 2,
                                         .workers = &workers,
                                         .worker_count = 1,
                                         .planning = &planning};
    options.o.batch = 8;
    struct ps_comparison *comparison;
    assert_ok(training_compare(&compare, &options, &comparison, &test_error));
    double target = 0;
    for (int r = 0; r < 2; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_int_equal(row.metric, PS_METRIC_PERPLEXITY);
        double best = INFINITY;
        for (int i = 0; i < ps_run_point_count(row.run); i++) best = fmin(best, ps_run_point(row.run, i).valid_perplexity);
        assert_true(row.best == best && ps_run_point(row.run, row.best_epoch - 1).valid_perplexity == best);
        assert_true(best < ps_run_point(row.run, 0).valid_perplexity || row.best_epoch == 1);
        target = fmax(target, best);
    }
    for (int r = 0; r < 2; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_true(row.target == target && row.target_epoch > 0);
        assert_true(ps_run_point(row.run, row.target_epoch - 1).valid_perplexity <= target);
        assert_true(row.target_epoch == 1 || ps_run_point(row.run, row.target_epoch - 2).valid_perplexity > target);
    }
    char *table = ps_comparison_table(comparison);
    assert_non_null(strstr(table, "target: validation perplexity"));
    free(table);
    ps_comparison_destroy(comparison);
    /* Each point reaches it: the first counts. */
    compare.target = 1e6;
    assert_ok(training_compare(&compare, &options, &comparison, &test_error));
    for (int r = 0; r < 2; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_int_equal(ps_run_point_count(row.run), 3);
        assert_true(row.target == 1e6 && row.target_epoch == 1 && row.target_s == ps_run_point(row.run, 0).training_s);
    }
    ps_comparison_destroy(comparison);
    /* And none reaches this one. */
    compare.target = 1e-6;
    assert_ok(training_compare(&compare, &options, &comparison, &test_error));
    for (int r = 0; r < 2; r++) assert_true(isnan(ps_comparison_row(comparison, r).target_s));
    ps_comparison_destroy(comparison);
}

struct shown {
    char progress[128], line[256];
};

static void see_line(void *context, enum ps_log_level level, const char *text) {
    struct shown *shown = context;
    if (level == PS_LOG_INFO && strncmp(text, "epoch ", 6) == 0) snprintf(shown->line, sizeof shown->line, "%s", text);
}

static void see_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct shown *shown = context;
    (void)done, (void)total;
    if (strcmp(what, "training") == 0) snprintf(shown->progress, sizeof shown->progress, "%s", detail);
}

/* The progress says what the line of the epoch says then: of a text per token, not per sample. */
static void test_progress(void **state) {
    (void)state;
    char data[4200];
    struct text text = {0};
    struct shown shown = {0};
    for (int i = 0; i < 600; i++) text_add(&text, "%c", "abcde\n"[i * i % 6]);
    write_lines("running.txt", &text);
    text_free(&text);
    snprintf(data, sizeof data, "text:%s/running.txt", test_directory);
    struct run_case work = {.model = "gpt2,layers=2,width=8,heads=1,seq=6,vocab=8,dropout=0",
                            .data = data,
                            .device = "cpu",
                            .schedule = "1f1b",
                            .weights = "sync",
                            .optimizer = "adam",
                            .lr = 0.01,
                            .workers = 2,
                            .micro_batch = 8,
                            .steps = 8};
    struct ps_run *run;
    char place[4096];
    const struct ps_log_sink sink = {
        .struct_size = sizeof sink, .context = &shown, .level = PS_LOG_INFO, .line = see_line, .progress = see_progress};
    assert_ok(ps_log_to(&sink, &test_error));
    run_case_train(work, place, &run);
    assert_ok(ps_log_to(NULL, &test_error));
    ps_run_destroy(run);
    assert_true(strlen(shown.progress) > 0);
    /* Up to the speed, which is as of then. */
    if (strncmp(shown.line, shown.progress, strcspn(shown.progress, ";")) != 0)
        fail_msg("'%s', then '%s'", shown.progress, shown.line);
}

/* A run whose text has other words when it is to go on would read every sentence as something else. */
static void test_changed_words(void **state) {
    (void)state;
    char place[4096], run_dir[4096], data[4200];
    struct run_case work = {
        .model = "residual_lstm,seq=4,vocab=9,hidden=4", .data = data, .device = "cpu", .micro_batch = 2, .steps = 2};
    struct text before = {0}, after = {0};
    for (int i = 0; i < 8; i++) {
        text_add(&before, "%d\ta b b c\n", i % 2);
        text_add(&after, "%d\ta b b d\n", i % 2);
    }
    snprintf(data, sizeof data, "reviews:%s/words.tsv", test_directory);
    write_lines("words.tsv", &before);
    run_case_train(work, place, NULL);
    struct training options;
    struct ps_run *run;
    training_init(&options);
    options.o.resume = file_join(run_dir, place, "run");
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    write_lines("words.tsv", &after);
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "has other words than the run was trained with");
    text_free(&before);
    text_free(&after);
    test_directory_remove(place);
}

static int set_up(void **state) {
    test_directory_set_up(state);
    write_language();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts),         cmocka_unit_test(test_learning),
                                       cmocka_unit_test(test_bleu),         cmocka_unit_test(test_bleu_wishes),
                                       cmocka_unit_test(test_perplexity),   cmocka_unit_test(test_progress),
                                       cmocka_unit_test(test_changed_words)};
    return cmocka_run_group_tests(tests, set_up, test_directory_tear_down);
}
