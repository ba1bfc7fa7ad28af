/*
 * Which evaluation is the best, and when there is nothing more to hope for; how a mini-batch is cut; what a log says of the
 * rate at which a run went, and into
 * which workers and threads a machine is divided.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/processor.h"
#include "support.h"
#include "train/job_plan.h"
#include "train/trainer.h"
#include "training_support.h"

/* Less is better of losses and perplexities, more of the rest. Of equal ones the first is the best. */
static void test_best(void **state) {
    (void)state;
    enum { EVALUATIONS = 6 };
    static const double values[EVALUATIONS] = {3, 2, 2, 4, 5, 1};
    static const struct {
        const char *by;
        size_t offset;
        int patience;
        int steps[EVALUATIONS], since[EVALUATIONS];
        int ends; /* which evaluation ends the training; 0: none */
    } cases[] = {
#define BY(field) offsetof(struct log_entry, field)
        {NULL, BY(valid_loss), 0, {1, 2, 2, 2, 2, 6}, {0, 0, 1, 2, 3, 0}, 0},
        {"loss", BY(valid_loss), 3, {1, 2, 2, 2, 2, 6}, {0, 0, 1, 2, 3, 0}, 5},
        {"perplexity", BY(valid_perplexity), 4, {1, 2, 2, 2, 2, 6}, {0, 0, 1, 2, 3, 0}, 0},
        {"accuracy", BY(valid_accuracy), 2, {1, 1, 1, 4, 5, 5}, {0, 1, 2, 0, 0, 1}, 3},
        {"bleu", BY(valid_bleu), 1, {1, 1, 1, 4, 5, 5}, {0, 1, 2, 0, 0, 1}, 2},
#undef BY
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_trainer *trainer = calloc(1, sizeof *trainer);
        assert_non_null(trainer);
        trainer->options.best_by = cases[c].by;
        trainer->options.patience = cases[c].patience;
        trainer->valid.count = 8;
        for (int e = 0; e < EVALUATIONS; e++) {
            struct log_entry entry = {
                .valid_loss = NAN, .valid_perplexity = NAN, .valid_accuracy = NAN, .valid_bleu = NAN, .loss = 9, .accuracy = 9};
            memcpy((char *)&entry + cases[c].offset, &values[e], sizeof values[e]);
            trainer->step = e + 1;
            assert_ok(trainer_note_best(trainer, &entry, &test_error));
            assert_int_equal(trainer->best.step, cases[c].steps[e]);
            assert_int_equal(trainer->best.since, cases[c].since[e]);
            assert_true(trainer->best.value == values[cases[c].steps[e] - 1]);
            assert_string_equal(trainer->best.by, cases[c].by ? cases[c].by : "loss");
            assert_int_equal(trainer->ends_early, cases[c].ends > 0 && e + 1 >= cases[c].ends);
        }
        /* Another measure begins anew, whatever its numbers. */
        const struct log_entry other = {.valid_loss = 70, .valid_accuracy = 0.01};
        const bool by_loss = !cases[c].by || strcmp(cases[c].by, "loss") == 0;
        trainer->options.best_by = by_loss ? "accuracy" : "loss";
        trainer->step = 9;
        assert_ok(trainer_note_best(trainer, &other, &test_error));
        assert_int_equal(trainer->best.step, 9);
        assert_int_equal(trainer->best.since, 0);
        trainer->options.best_by = "bleu";
        const struct log_entry unknown = {.valid_bleu = NAN};
        assert_status(trainer_note_best(trainer, &unknown, &test_error), PS_USAGE,
                      "`best_by`: this network's validation has no bleu");
        trainer->valid.count = 0;
        assert_ok(trainer_note_best(trainer, &unknown, &test_error));
        assert_int_equal(trainer->best.step, 9);
        free(trainer);
    }
}

/* A mini-batch in micro-batches: as many, or of as many samples, as is said; else the usual number or the next that divides. */
static void test_cuts(void **state) {
    (void)state;
    static const struct {
        int batch, usual, least, said_count, said_size, count, size;
        const char *part;
    } cases[] = {
        {12, 4, 1, 0, 0, 4, 3, NULL},
        {12, 5, 1, 0, 0, 4, 3, NULL},
        {12, 12, 1, 0, 0, 12, 1, NULL},
        {12, 20, 1, 0, 0, 12, 1, NULL},
        {7, 4, 1, 0, 0, 1, 7, NULL},
        {1, 4, 1, 0, 0, 1, 1, NULL},
        {12, 2, 2, 0, 0, 2, 6, NULL},
        {12, 2, 3, 0, 0, 3, 4, NULL},
        {12, 2, 5, 0, 0, 6, 2, NULL},
        {12, 4, 1, 6, 0, 6, 2, NULL},
        {12, 4, 8, 6, 0, 6, 2, NULL},
        {12, 4, 1, 0, 2, 6, 2, NULL},
        {12, 4, 8, 0, 12, 1, 12, NULL},
        {12, 4, 1, 3, 4, 3, 4, NULL},
        {12, 4, 1, 0, 5, 0, 5, "`micro_batch`: 5 does not divide the mini-batch of 12 samples; 4 and 6 do"},
        {12, 4, 1, 0, 7, 0, 7, "`micro_batch`: 7 does not divide the mini-batch of 12 samples; 6 and 12 do"},
        {12, 4, 1, 0, 13, 0, 13, "`micro_batch`: 13 does not divide the mini-batch of 12 samples; 12 and 13 do"},
        {12, 4, 1, 3, 3, 3, 3, "`batch`: 12 is not 3 micro-batches of 3 samples"},
        {12, 4, 1, 6, 4, 6, 4, "`batch`: 12 is not 6 micro-batches of 4 samples"},
        {12, 4, 1, 5, 0, 5, 0, "`micro_batches`: 5 does not divide the mini-batch of 12 samples; 4 and 6 do"},
        {12, 4, 1, 11, 0, 11, 0, "`micro_batches`: 11 does not divide the mini-batch of 12 samples; 6 and 12 do"},
        {12, 4, 1, 13, 0, 13, 0, "`micro_batches`: 13 are more than the 12 samples of a mini-batch"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int count = cases[c].said_count, size = cases[c].said_size;
        const enum ps_status status = job_cut_batch(cases[c].batch, cases[c].usual, cases[c].least, &count, &size, &test_error);
        if (cases[c].part)
            assert_status(status, PS_USAGE, cases[c].part);
        else
            assert_ok(status);
        assert_int_equal(count, cases[c].count);
        assert_int_equal(size, cases[c].size);
    }
}

static double number_of(const json_t *line, const char *field) {
    const json_t *value = json_object_get(line, field);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* At an evaluation: the samples since the one before it, by the seconds that training them took. */
static void test_rates(void **state) {
    (void)state;
    enum { BATCH = 8, EVERY = 2, EVALUATIONS = 4 };
    char out[4096], path[4096], *log, *next;
    size_t size;
    double before = 0;
    int evaluations = 0;
    struct training training;
    struct ps_run *run;
    training_init(&training);
    training.model = "lenet5,input=16,classes=4";
    training.data = "synthetic:images,samples=64";
    training.valid = "synthetic:images,samples=8";
    training.o.device = "reference";
    training.o.batch = BATCH;
    training.o.steps = EVERY * EVALUATIONS;
    training.o.evaluate_every = EVERY;
    training.o.out = file_join(out, test_directory, "rates");
    training.cluster.workers = 2;
    training.plan.schedule = "1f1b";
    training.plan.weights = "sync";
    training.plan.micro_batches = 2;
    assert_ok(training_run(&training, &run, &test_error));
    assert_ok(file_read(file_join(path, out, "log.jsonl"), 1 << 20, &log, &size, &test_error));
    for (char *at = log; (next = strchr(at, '\n')); at = next + 1) {
        json_t *line = json_loadb(at, (size_t)(next - at), 0, NULL);
        assert_non_null(line);
        if (json_object_get(line, "valid_loss")) {
            const double training_s = number_of(line, "training_s"), rate = number_of(line, "samples_per_s");
            assert_true(training_s > before);
            assert_true(fabs(rate * (training_s - before) / (BATCH * EVERY) - 1) < 1e-3); /* as it is written */
            before = training_s;
            evaluations++;
        }
        json_decref(line);
    }
    free(log);
    assert_int_equal(evaluations, EVALUATIONS);
    assert_true(fabs(ps_run_info(run).samples_per_s * before / (BATCH * EVERY * EVALUATIONS) - 1) < 1e-3);
    assert_true(ps_run_info(run).wall_s >= before && ps_run_info(run).wall_s < 1e6);
    ps_run_destroy(run);
    assert_false(file_exists(file_join(path, out, "vocabulary.json"))); /* images have no words */
}

struct divisions {
    int count, threads[4];
    bool planned;
};

static void hear(void *context, enum ps_log_level level, const char *text) {
    struct divisions *seen = context;
    (void)level;
    if (strncmp(text, "plan: ", 6) == 0) seen->planned = true;
    if (!strstr(text, " samples/s predicted")) return;
    const char *of = strstr(text, " of ");
    assert_non_null(of);
    assert_true(seen->count < 4);
    seen->threads[seen->count++] = atoi(of + 4);
}

static int has_planned(void *context) { return ((struct divisions *)context)->planned; }

/* Where nobody says how, each division of the machine's cores into workers and threads is planned for: a thread for each, all
 * for one, and from four cores on one between. */
static void test_divisions(void **state) {
    (void)state;
    const int cores = cores_usable();
    struct divisions seen = {0};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &seen, .level = PS_LOG_INFO, .line = hear};
    const struct ps_observer observer = {.struct_size = sizeof observer, .context = &seen, .should_stop = has_planned};
    struct training training;
    struct ps_run *run;
#ifdef __SANITIZE_THREAD__
    skip(); /* it sees no barriers of several threads */
#endif
    unsetenv("OMP_NUM_THREADS");
    training_init(&training);
    training.model = "lenet5,input=16,classes=4";
    training.data = "synthetic:images,samples=64";
    training.o.batch = 8;
    training.o.steps = 1;
    training.o.log = &sink;
    training.o.observer = &observer;
    training.plan.micro_batch = 4;
    assert_status(training_run(&training, &run, &test_error), PS_STOPPED, "stopped on request");
    assert_true(seen.planned);
    assert_int_equal(seen.count, cores == 1 ? 1 : cores < 4 ? 2 : 3);
    assert_int_equal(seen.threads[0], 1);
    if (cores > 1) assert_int_equal(seen.threads[seen.count - 1], cores);
    if (cores >= 4) assert_true(seen.threads[1] > 1 && seen.threads[1] < cores);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best), cmocka_unit_test(test_cuts), cmocka_unit_test(test_rates),
                                       cmocka_unit_test(test_divisions)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
