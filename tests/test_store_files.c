/*
 * The files of a run that say how it goes on, with one field changed: a checkpoint's counters and index, and the run's
 * configuration. Each is refused in one line that names the field, and without a change each is read. The files are those of
 * tests/fixtures.
 */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "graph/network.h"
#include "store/checkpoint.h"
#include "store/manifest.h"
#include "support.h"
#include "train/run_config.h"

#define FIXTURE TEST_DIRECTORY "/fixtures/0.2.0/run"
static char run[4096], checkpoint_directory[4096];

static int set_up(void **state) {
    char command[3 * 4096];
    test_directory_set_up(state);
    file_join(run, test_directory, "run");
    file_join(checkpoint_directory, run, "checkpoints/000004");
    snprintf(command, sizeof command, "cp -R '%s' '%s'", FIXTURE, run);
    return system(command);
}

/* NAME: what reads it, and changes of its fields, of items by their number. */
enum reader { STATE, INDEX, CONFIG };
static const char *const names[] = {[STATE] = "checkpoints/000004/state.json",
                                    [INDEX] = "checkpoints/000004/model.safetensors.index.json",
                                    [CONFIG] = "config.json"};

static const struct change {
    enum reader reader;
    const char *field, *value; /* NULL: left out */
    const char *part;
} changes[] = {
    {STATE, "model", NULL, "state.json: model: is missing"},
    {STATE, "network", "7", "network: must be a string"},
    {STATE, "seed", "3", "seed: must be a string"},
    {STATE, "step", "-1", "step: -1 is not an integer from 0 to 2147483647"},
    {STATE, "step", "2147483648", "step: 2147483648 is not an integer from 0 to 2147483647"},
    {STATE, "epoch_steps", "-1", "epoch_steps: -1 is"},
    {STATE, "samples", "-1", "samples: -1 is"},
    {STATE, "epoch_so_far", NULL, "epoch_so_far: is missing"},
    {STATE, "epoch_so_far.loss", "\"1\"", "epoch_so_far.loss: must be a number"},
    {STATE, "epoch_so_far.correct", "-1", "epoch_so_far.correct: -1 is"},
    {STATE, "epoch_so_far.correct5", "-1", "epoch_so_far.correct5: -1 is"},
    {STATE, "epoch_so_far.counted", "-1", "epoch_so_far.counted: -1 is"},
    {STATE, "epoch_so_far.weight", "-1", "epoch_so_far.weight: -1 is"},
    {STATE, "epoch_so_far.steps", "-1", "epoch_so_far.steps: -1 is"},
    {STATE, "figures", "[]", "figures: must be an object"},
    {STATE, "figures.step", "-1", "figures.step: -1 is"},
    {STATE, "figures.epoch", "-1", "figures.epoch: -1 is"},
    {STATE, "figures.loss", "\"low\"", "figures.loss: must be a number"},
    {STATE, "training_s", "-1", "training_s: -1 is"},
    {STATE, "busy_s", "{}", "busy_s: must be an array"},
    {STATE, "sent_bytes", "{}", "sent_bytes: must be an array"},
    {STATE, "received_bytes", "3", "received_bytes: must be an array"},
    {STATE, "stages", "3", "stages: must be an array"},
    {STATE, "stages.0", "3", "stages[0]: must be an object"},
    {STATE, "stages.1.updates", "-1", "stages[1].updates: -1 is"},
    {STATE, "stages", "[]", "stages: there must be at least one"},
    {STATE, "stages.0.layers", "[2, 2]", "stages[0].layers: must be two layers, the first, which is 1, and the last"},
    {STATE, "stages.1.layers", "[0, 3]", "stages[1].layers: must be two layers, the first, which is 3, and the last"},
    {STATE, "stages.1.layers", "[4, 4]", "stages[1].layers: must be two layers, the first, which is 3"},
    {STATE, "stages.1.layers", "[2, 4]", "stages[1].layers: must be two layers, the first, which is 3"},
    {STATE, "stages.1.layers", "[3, 2]", "stages[1].layers: must be two layers"},
    {STATE, "stages.1.layers", "[3]", "stages[1].layers: must be two layers"},
    {STATE, "stages.1.layers", "[3, 2147483647]", "stages[1].layers: must be two layers"},
    {INDEX, "weight_map", NULL, "index.json: weight_map: is missing"},
    {INDEX, "weight_map", "[]", "weight_map: must be an object of tensor and file names"},
    {INDEX, "weight_map", "{}", "weight_map: names no tensor"},
    {INDEX, "weight_map", "{\"last.bias\": 2}", "'last.bias' is not given a file of this directory"},
    {INDEX, "weight_map", "{\"last.bias\": \"../a.safetensors\"}", "'last.bias' is not given a file of this directory"},
    {INDEX, "weight_map", "{\"last.bias\": \"model-00001-of-00002.safetensors\"}", "'last.bias' is not in model-00001-of"},
    {INDEX, "weight_map", "{\"last.bias\": \"model-00003-of-00002.safetensors\"}", "model-00003-of-00002.safetensors"},
    {CONFIG, "format", "\"penstock-plan\"", "config.json: format: 'penstock-plan' is not 'penstock-config'"},
    {CONFIG, "plan_options", NULL, "plan_options: is missing"},
    {CONFIG, "plan_options.method", "1", "plan_options.method: must be a string"},
    {CONFIG, "plan_options.micro_batch", "-1", "plan_options.micro_batch: -1 is"},
    {CONFIG, "plan_options.micro_batches", "-1", "plan_options.micro_batches: -1 is"},
    {CONFIG, "plan_options.recompute", "1", "plan_options.recompute: must be true or false"},
    {CONFIG, "plan_options.replicate", "1", "plan_options.replicate: must be true or false"},
    {CONFIG, "cluster_options", NULL, "cluster_options: is missing"},
    {CONFIG, "cluster_options.workers", "-1", "cluster_options.workers: -1 is"},
    {CONFIG, "cluster_options.memory_bytes", "-1", "cluster_options.memory_bytes: -1 is"},
    {CONFIG, "cluster_options.bandwidth_bytes_per_s", "-1", "cluster_options.bandwidth_bytes_per_s: -1 is"},
    {CONFIG, "cluster_options.latency_s", "-1", "cluster_options.latency_s: -1 is"},
    {CONFIG, "cluster_options.overlap", "1", "cluster_options.overlap: must be true or false"},
    {CONFIG, "cluster_options.cores", "-1", "cluster_options.cores: -1 is"},
    {CONFIG, "optimizer", NULL, "optimizer: is missing"},
    {CONFIG, "optimizer", "\"adamm\"", "'adamm'"},
    {CONFIG, "lr", "-1", "lr: -1 is not a number from 0 to 1e+06"},
    {CONFIG, "eps", "2e6", "eps: 2e+06 is not a number from 0 to 1e+06"},
    {CONFIG, "lr_schedule", NULL, "lr_schedule: is missing"},
    {CONFIG, "warmup_steps", "-1", "warmup_steps: -1 is"},
    {CONFIG, "lr_per_epoch", "0", "lr_per_epoch: must be true or false"},
    {CONFIG, "clip", "-1", "clip: -1 is"},
    {CONFIG, "label_smoothing", "1.5", "label_smoothing: 1.5 is not a number from 0 to 1"},
    {CONFIG, "betas", "[0.9]", "betas: must be two numbers"},
    {CONFIG, "data", "3", "data: must be a string"},
    {CONFIG, "batch", "0", "batch: 0 is not an integer from 1"},
    {CONFIG, "epochs", "-1", "epochs: -1 is"},
    {CONFIG, "steps", "0", "steps: 0 is not an integer from 1"},
    {CONFIG, "evaluate_every", "-1", "evaluate_every: -1 is"},
    {CONFIG, "valid_bleu", "-1", "valid_bleu: -1 is"},
    {CONFIG, "checkpoint_every", "-1", "checkpoint_every: -1 is"},
    {CONFIG, "keep_checkpoints", "-1", "keep_checkpoints: -1 is"},
    {CONFIG, "device", NULL, "device: is missing"},
    {CONFIG, "threads", "0", "threads: 0 is not an integer from 1"},
    {CONFIG, "emulate", "1", "emulate: must be true or false"},
    {CONFIG, "seed", NULL, "seed: is missing"},
};

static enum ps_status read_it(enum reader reader) {
    struct checkpoint checkpoint = {0};
    struct weight_files weights;
    struct resumption resumption = {0};
    struct ps_train_options options;
    enum ps_status status = PS_FAILED;
    switch (reader) {
    case STATE:
        snprintf(checkpoint.directory, sizeof checkpoint.directory, "%s", checkpoint_directory);
        status = checkpoint_state_read(&checkpoint, &test_error);
        checkpoint_free(&checkpoint);
        break;
    case INDEX:
        status = weight_files_open_checkpoint(checkpoint_directory, &weights, &test_error);
        if (status == PS_OK) weight_files_close(&weights);
        break;
    case CONFIG: {
        struct ps_plan_options planning;
        struct ps_cluster_options machines;
        ps_train_options_init(&options);
        ps_plan_options_init(&planning);
        ps_cluster_options_init(&machines);
        options.planning = &planning;
        options.machines = &machines;
        options.resume = run;
        status = resumption_open(&options, "resume", 1, &resumption, &test_error);
        if (status == PS_OK) resumption_free(&resumption);
        break;
    }
    }
    return status;
}

/* Sets, or takes away, what `field` names in the document. */
static void change_document(json_t *document, const char *field, const char *value) {
    char name[64];
    const size_t length = strcspn(field, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, field);
    const size_t number = (size_t)strtoul(name, NULL, 10);
    if (field[length] != '\0') {
        json_t *inner = json_is_array(document) ? json_array_get(document, number) : json_object_get(document, name);
        assert_non_null(inner);
        change_document(inner, field + length + 1, value);
    } else if (value == NULL) {
        assert_int_equal(json_object_del(document, name), 0);
    } else {
        json_t *made = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(made);
        assert_int_equal(json_is_array(document) ? json_array_set_new(document, number, made)
                                                 : json_object_set_new(document, name, made),
                         0);
    }
}

static void test_fields(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct change *change = &changes[i];
        char path[4096], *before;
        size_t size;
        assert_ok(file_read(file_join(path, run, names[change->reader]), 1 << 20, &before, &size, &test_error));
        assert_ok(read_it(change->reader));
        json_t *document = json_loads(before, 0, NULL);
        assert_non_null(document);
        change_document(document, change->field, change->value);
        assert_int_equal(json_dump_file(document, path, 0), 0);
        json_decref(document);
        const enum ps_status status = read_it(change->reader);
        if (status == PS_USAGE) /* what the command line would say of the same words */
            assert_status(status, PS_USAGE, change->part);
        else
            assert_status(status, PS_BAD_INPUT, change->part);
        test_file_write(path, before, size);
        free(before);
    }
}

/* What a state must have, and what it may lack, as earlier versions' lack it. */
static void test_required(void **state) {
    (void)state;
    static const struct {
        const char *field;
        bool required;
    } fields[] = {
        {"model", true},
        {"network", false},
        {"seed", true},
        {"step", true},
        {"unevaluated", false},
        {"epoch_steps", true},
        {"samples", false},
        {"epoch_so_far", true},
        {"epoch_so_far.loss", true},
        {"epoch_so_far.correct", true},
        {"epoch_so_far.correct5", true},
        {"epoch_so_far.counted", true},
        {"epoch_so_far.weight", false},
        {"epoch_so_far.steps", true},
        {"line_so_far", false},
        {"line_so_far.loss", true},
        {"line_so_far.steps", true},
        {"best", false},
        {"best.by", true},
        {"best.evaluations_since", true},
        {"best.value", true},
        {"best.step", true},
        {"figures", true},
        {"figures.step", true},
        {"figures.epoch", true},
        {"figures.loss", false},
        {"figures.lr", false},
        {"training_s", true},
        {"busy_s", true},
        {"sent_bytes", false},
        {"received_bytes", false},
        {"stages", true},
        {"stages.0.updates", true},
        {"stages.0.layers", true},
    };
    char path[4096], *before;
    size_t size;
    assert_ok(file_read(file_join(path, run, names[STATE]), 1 << 20, &before, &size, &test_error));
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        json_t *document = json_loads(before, 0, NULL);
        assert_non_null(document);
        change_document(document, "unevaluated", "true");
        change_document(document, "best", "{\"step\": 3, \"evaluations_since\": 1, \"by\": \"loss\", \"value\": 1.5}");
        change_document(document, "line_so_far",
                        "{\"loss\": 1.5, \"correct\": 2, \"correct5\": 3, \"counted\": 4, \"weight\": 5, \"steps\": 6}");
        change_document(document, "epoch_so_far.counted", "7");
        change_document(document, "sent_bytes", "[1, 2]");
        change_document(document, "received_bytes", "[3, 4]");
        change_document(document, fields[f].field, NULL);
        assert_int_equal(json_dump_file(document, path, 0), 0);
        json_decref(document);
        struct checkpoint checkpoint = {0};
        char said[128];
        snprintf(checkpoint.directory, sizeof checkpoint.directory, "%s", checkpoint_directory);
        const enum ps_status status = checkpoint_state_read(&checkpoint, &test_error);
        if (fields[f].required) {
            const char *dot = strrchr(fields[f].field, '.');
            snprintf(said, sizeof said, "%s: is missing", dot ? dot + 1 : fields[f].field);
            assert_status(status, PS_BAD_INPUT, said);
        } else {
            assert_ok(status);
            const struct checkpoint_state *is = &checkpoint.state;
            const char *lacks = fields[f].field;
            assert_true(is->epoch.sum.weight == (strcmp(lacks, "epoch_so_far.weight") == 0 ? 7 : 0));
            assert_true(is->line.sum.weight == (strcmp(lacks, "line_so_far") == 0 ? 0 : 5));
            assert_int_equal(is->best.step, strcmp(lacks, "best") == 0 ? 0 : 3);
            assert_true(is->unevaluated == (strcmp(lacks, "unevaluated") != 0));
            assert_int_equal(is->samples, strcmp(lacks, "samples") == 0 ? 0 : 32);
            assert_true(isnan(is->figures.lr) == (strcmp(lacks, "figures.lr") == 0));
            assert_int_equal(is->totals[1].traffic.sent, strcmp(lacks, "sent_bytes") == 0 ? 0 : 2);
            assert_int_equal(is->totals[1].traffic.received, strcmp(lacks, "received_bytes") == 0 ? 0 : 4);
        }
        checkpoint_free(&checkpoint);
    }
    test_file_write(path, before, size);
    free(before);
}

static void assert_same_sum(const struct step_sum *one, const struct step_sum *other) {
    assert_true(one->sum.loss == other->sum.loss && one->sum.weight == other->sum.weight);
    assert_int_equal(one->sum.correct, other->sum.correct);
    assert_int_equal(one->sum.correct5, other->sum.correct5);
    assert_int_equal(one->sum.counted, other->sum.counted);
    assert_int_equal(one->steps, other->steps);
}

static bool same_number(double one, double other) { return one == other || (isnan(one) && isnan(other)); }

static void assert_same_figures(const struct log_entry *one, const struct log_entry *other) {
    assert_int_equal(one->step, other->step);
    assert_int_equal(one->epoch, other->epoch);
    assert_true(same_number(one->loss, other->loss) && same_number(one->accuracy, other->accuracy));
    assert_true(same_number(one->top5, other->top5) && same_number(one->perplexity, other->perplexity));
    assert_true(same_number(one->valid_loss, other->valid_loss) && same_number(one->valid_accuracy, other->valid_accuracy));
    assert_true(same_number(one->valid_top5, other->valid_top5) && same_number(one->valid_bleu, other->valid_bleu));
    assert_true(same_number(one->valid_perplexity, other->valid_perplexity) && same_number(one->lr, other->lr));
    assert_true(same_number(one->samples_per_s, other->samples_per_s) && same_number(one->elapsed_s, other->elapsed_s));
}

/* What a checkpoint's state is written with is read again, all of it or as little as there may be. */
static void test_state(void **state) {
    (void)state;
    struct worker_totals totals[3] = {{.busy_s = 1.5, .traffic = {.sent = 7, .received = 8}},
                                      {.busy_s = 2.5, .traffic = {.sent = 9, .received = INT64_MAX}},
                                      {.busy_s = 0}};
    const struct checkpoint_stage stages[] = {{.first = 0, .last = 0, .updates = 5}, {.first = 1, .last = 6, .updates = 4}};
    struct checkpoint_state whole = {.seed = UINT64_MAX,
                                     .step = 123,
                                     .unevaluated = true,
                                     .epoch_steps = 50,
                                     .samples = 1600,
                                     .epoch = {{.loss = -1.5, .correct = 3, .correct5 = 4, .counted = 5, .weight = 5.5}, 6},
                                     .line = {{.loss = 2.5, .correct = 13, .correct5 = 14, .counted = 15, .weight = 0.25}, 16},
                                     .best = {.step = 100, .since = 2, .value = -0.75, .by = "perplexity"},
                                     .figures = {.step = 120,
                                                 .epoch = 2,
                                                 .loss = 0.5,
                                                 .accuracy = 0.25,
                                                 .top5 = 0.625,
                                                 .perplexity = 1.75,
                                                 .valid_loss = 1.25,
                                                 .valid_accuracy = 0.125,
                                                 .valid_top5 = 0.375,
                                                 .valid_perplexity = 3.5,
                                                 .valid_bleu = 20.5,
                                                 .lr = 0.0625,
                                                 .samples_per_s = 99.5,
                                                 .elapsed_s = 61.5},
                                     .training_s = 60.25,
                                     .workers = 3,
                                     .totals = totals},
                            least = {.step = 0};
    strcpy(whole.model, "lenet5,input=16");
    strcpy(whole.network, "0123456789abcdef");
    strcpy(least.model, "m");
    for (double *figure = &least.figures.loss; figure <= &least.figures.elapsed_s; figure++) *figure = NAN;
    for (int l = 0; l < 2; l++) {
        const struct checkpoint_state *given = l > 0 ? &least : &whole;
        struct checkpoint checkpoint = {0};
        char path[4096];
        json_t *document = checkpoint_state_document(given, stages, l > 0 ? 1 : 2);
        assert_non_null(document);
        strcpy(checkpoint.directory, test_directory);
        assert_ok(json_write_file(document, file_join(path, test_directory, "state.json"), &test_error));
        assert_ok(checkpoint_state_read(&checkpoint, &test_error));
        const struct checkpoint_state *is = &checkpoint.state;
        assert_string_equal(is->model, given->model);
        assert_string_equal(is->network, given->network);
        assert_true(is->seed == given->seed && is->unevaluated == given->unevaluated && is->training_s == given->training_s);
        assert_int_equal(is->step, given->step);
        assert_int_equal(is->epoch_steps, given->epoch_steps);
        assert_int_equal(is->samples, given->samples);
        assert_same_sum(&is->epoch, &given->epoch);
        assert_same_sum(&is->line, &given->line);
        assert_int_equal(is->best.step, given->best.step);
        assert_int_equal(is->best.since, given->best.since);
        assert_true(is->best.value == given->best.value);
        assert_string_equal(is->best.by, given->best.by);
        assert_same_figures(&is->figures, &given->figures);
        assert_int_equal(is->workers, given->workers);
        for (int w = 0; w < given->workers; w++) {
            assert_true(is->totals[w].busy_s == totals[w].busy_s);
            assert_int_equal(is->totals[w].traffic.sent, totals[w].traffic.sent);
            assert_int_equal(is->totals[w].traffic.received, totals[w].traffic.received);
        }
        assert_int_equal(checkpoint.stage_count, l > 0 ? 1 : 2);
        assert_memory_equal(checkpoint.stages, stages, (size_t)checkpoint.stage_count * sizeof *stages);
        checkpoint_free(&checkpoint);
        assert_int_equal(unlink(path), 0);
    }
}

/* Error feedback is named by the cut and the replica that sends. */
static void test_feedback_names(void **state) {
    (void)state;
    static const struct {
        int coded, stage, replica;
        const char *name;
    } cases[] = {{WIRE_ACTIVATION_SENT, 0, 0, "activation.3.0"},
                 {WIRE_ACTIVATION_SENT, 1, 2, "activation.5.2"},
                 {WIRE_GRADIENT_SENT, 1, 1, "gradient.3.1"},
                 {WIRE_SUM, 1, 0, "sum.3.0"},
                 {WIRE_SUM, 0, 3, "sum.0.3"}};
    struct ps_plan *plan;
    char name[64];
    assert_ok(plan_create(2, 2, &plan, &test_error));
    assert_ok(plan_stage_set(plan, 0, 0, 2, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, 3, 4, 1, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct worker_stage stage = {.number = cases[c].stage, .replica = cases[c].replica};
        assert_string_equal(checkpoint_feedback_name(plan, &stage, cases[c].coded, name), cases[c].name);
    }
    ps_plan_destroy(plan);
}

/* A checkpoint under another name than its step's, or one that the system cannot read. */
static void test_names(void **state) {
    (void)state;
    char other[4096], path[4096];
    struct checkpoint checkpoint;
    assert_ok(checkpoint_find(run, &checkpoint, &test_error));
    assert_int_equal(checkpoint.state.step, 4);
    assert_int_equal(checkpoint.stage_count, 2);
    assert_int_equal(checkpoint.stages[0].first, 0);
    assert_int_equal(checkpoint.stages[0].last, 1);
    assert_int_equal(checkpoint.stages[1].updates, 4);
    assert_int_equal(checkpoint.state.workers, 2);
    checkpoint_free(&checkpoint);
    file_join(other, run, "checkpoints/000005");
    assert_int_equal(rename(checkpoint_directory, other), 0);
    assert_status(checkpoint_find(run, &checkpoint, &test_error), PS_NO_CHECKPOINT, "none of its 1 checkpoints is complete");
    assert_status(checkpoint_find(run, &checkpoint, &test_error), PS_NO_CHECKPOINT, "000005: holds step 4");
    assert_int_equal(rename(other, checkpoint_directory), 0);
    static const struct {
        const char *name;
        int64_t step;
    } steps[] = {{"000004", 4},
                 {"00004", -1},
                 {"1000000", 1000000},
                 {"00000a", -1},
                 {"0000004.part", -1},
                 {"", -1},
                 {"999999999999999999", 999999999999999999},
                 {"1999999999999999999", -1}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        assert_int_equal(checkpoint_step_of(steps[i].name), steps[i].step);
    assert_string_equal(checkpoint_name(4, path), "000004");
    assert_string_equal(checkpoint_name(1234567, path), "1234567");
}

/* The newest, the best and one of a step, where there are such. */
static void test_choice(void **state) {
    (void)state;
    static const struct {
        const char *which, *said;
        enum ps_status status;
    } cases[] = {{"newest", "", PS_OK},
                 {"4", "", PS_OK},
                 {"best", "was never evaluated, so there is no best one", PS_NO_CHECKPOINT},
                 {"3", "does not keep this one, of step 3; there are 4", PS_NO_CHECKPOINT},
                 {"-1", "'-1' is none of newest, best and a step", PS_USAGE},
                 {"4x", "'4x' is none of newest, best and a step", PS_USAGE},
                 {"", "'' is none of newest, best and a step", PS_USAGE}};
    struct checkpoint checkpoint;
    char path[4096], *before;
    size_t size;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_status(checkpoint_choose(run, cases[i].which, &checkpoint, &test_error), cases[i].status, cases[i].said);
        if (cases[i].status != PS_OK) continue;
        assert_int_equal(checkpoint.state.step, 4);
        checkpoint_free(&checkpoint);
    }
    assert_int_equal(checkpoint_choose(run, "3", &checkpoint, &test_error), PS_NO_CHECKPOINT);
    assert_string_equal(test_error.hint, "training keeps the best by `keep_best`, and the newest `keep_checkpoints`");
    /* The newest of those that there are are listed, for as long as the line has room. */
    for (int more = 0; more < 50; more++) {
        snprintf(path, sizeof path, "%s/checkpoints/%06d", run, 1000 + more);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_status(
        checkpoint_choose(run, "7", &checkpoint, &test_error), PS_NO_CHECKPOINT,
        "does not keep this one, of step 7; there are 1049, 1048, 1047, 1046, 1045, 1044, 1043, 1042, 1041, 1040, 1039, "
        "1038, 1037, 1036, 1035, 1034, 1033, 1032, 1031\n");
    for (int more = 0; more < 50; more++) {
        snprintf(path, sizeof path, "%s/checkpoints/%06d", run, 1000 + more);
        assert_int_equal(rmdir(path), 0);
    }
    assert_ok(file_read(file_join(path, run, names[STATE]), 1 << 20, &before, &size, &test_error));
    test_file_write(path, before, size - 1);
    assert_status(checkpoint_choose(run, "4", &checkpoint, &test_error), PS_BAD_INPUT, "state.json");
    test_file_write(path, before, size);
    free(before);
    /* One that is whole, but another's. */
    file_join(path, run, "checkpoints/000005");
    assert_int_equal(rename(checkpoint_directory, path), 0);
    assert_status(checkpoint_choose(run, "5", &checkpoint, &test_error), PS_BAD_INPUT, "000005: holds step 4");
    assert_int_equal(rename(path, checkpoint_directory), 0);
}

/*
 * A run that trains prunes checkpoints while others read them. Here the only one is away from the n-th opening of one of its
 * files on until the checkpoints are listed again, as if a newer one had taken its place.
 */
static const char *pruned_at; /* NULL: nothing is pruned */
static int openings;
static char pruned[4096], pruned_parent[4096];

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    if (pruned_at && strstr(path, pruned_at) && --openings == 0) assert_int_equal(rename(checkpoint_directory, pruned), 0);
    return openat(AT_FDCWD, path, flags, mode);
}

DIR *opendir(const char *path) {
    if (strcmp(path, pruned_parent) == 0) rename(pruned, checkpoint_directory);
    const int descriptor = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return descriptor < 0 ? NULL : fdopendir(descriptor);
}

static void test_pruned(void **state) {
    (void)state;
    static const struct {
        const char *at;
        int opening;
    } cases[] = {{"manifest.txt", 1}, {"model.safetensors.index.json", 1}, {"model.safetensors.index.json", 2}};
    struct weight_files weights;
    file_join(pruned, run, "pruned");
    file_join(pruned_parent, run, "checkpoints");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        pruned_at = cases[c].at;
        openings = cases[c].opening;
        assert_ok(weight_files_open_run(run, NULL, &weights, &test_error));
        assert_true(openings < 0);
        weight_files_close(&weights);
    }
    pruned_at = NULL;
    pruned_parent[0] = '\0';
    assert_true(file_exists(checkpoint_directory));
}

/* Weights that are not the network's. */
static void test_weights(void **state) {
    (void)state;
    char path[4096];
    struct weight_files weights;
    assert_ok(weight_files_open_run(run, NULL, &weights, &test_error));
    assert_int_equal(weights.count, 2);
    assert_non_null(weight_files_find(&weights, "hidden.weight"));
    assert_ptr_equal(weight_files_find(&weights, "last.bias"), &weights.files[1]);
    assert_null(weight_files_find(&weights, "last"));
    weight_files_close(&weights);
    assert_ok(weight_files_open_moments(checkpoint_directory, 2, &weights, &test_error));
    assert_int_equal(weights.count, 2);
    assert_non_null(weight_files_find(&weights, "last.bias.exp_avg"));
    weight_files_close(&weights);
    assert_ok(weight_files_open_moments(checkpoint_directory, 3, &weights, &test_error)); /* none of three stages */
    assert_int_equal(weights.count, 0);
    weight_files_close(&weights);
    /* One that is damaged, behind one that is not. */
    char moments[4096], *before;
    size_t size;
    file_join(moments, checkpoint_directory, "optimizer-00002-of-00002.safetensors");
    assert_ok(file_read(moments, 1 << 20, &before, &size, &test_error));
    test_file_write(moments, before, 4);
    assert_status(weight_files_open_moments(checkpoint_directory, 2, &weights, &test_error), PS_BAD_INPUT, "optimizer-00002");
    test_file_write(moments, before, size);
    free(before);
    file_join(path, checkpoint_directory, "model-00001-of-00002.safetensors");
    assert_ok(weight_files_open(path, &weights, &test_error));
    assert_int_equal(weights.count, 1);
    assert_non_null(weight_files_find(&weights, "hidden.weight"));
    assert_null(weight_files_find(&weights, "last.bias"));
    weight_files_close(&weights);
    assert_status(weight_files_open(file_join(path, run, "log.jsonl"), &weights, &test_error), PS_BAD_INPUT, "log.jsonl");
    /* Names are held against the network before anything is filled. */
    struct ps_network *network;
    float block[1];
    assert_ok(ps_network_open("lenet5", &network, &test_error));
    assert_ok(weight_files_open_checkpoint(checkpoint_directory, &weights, &test_error));
    assert_status(weight_files_load(&weights, network->graph, NULL, NULL, block, block, &test_error), PS_BAD_INPUT,
                  "model-00001-of-00002.safetensors: tensor 'hidden.weight' is not the model's");
    weight_files_close(&weights);
    ps_network_destroy(network);
}

static void assert_damaged(const char *format, const char *name) {
    char said[2 * 4096];
    snprintf(said, sizeof said, format, checkpoint_directory, name);
    const enum ps_status status = manifest_check(checkpoint_directory, &test_error);
    assert_string_equal(test_error.message, said);
    assert_int_equal(status, PS_BAD_INPUT);
    test_error = (struct ps_error){0};
}

/* What is wrong with a checkpoint's files, to the letter. */
static void test_manifest(void **state) {
    (void)state;
    static const char weights[] = "model-00002-of-00002.safetensors";
    char path[4096], other[4096], *before, *contents;
    size_t size, bytes;
    assert_ok(manifest_check(checkpoint_directory, &test_error));
    assert_ok(manifest_look(checkpoint_directory, &test_error));
    file_join(path, checkpoint_directory, "manifest.txt");
    assert_ok(file_read(path, 1 << 20, &before, &size, &test_error));
    test_file_write(path, before, size - 1);
    assert_damaged("%s/manifest.txt: is damaged", "");
    test_file_write(path, before, size + 1); /* the byte behind it is 0 */
    assert_damaged("%s/manifest.txt: is damaged", "");
    test_file_write(path, "", 0);
    assert_damaged("%s/manifest.txt: is damaged", "");
    /* The largest, and one byte more. */
    assert_int_equal(truncate(path, 1 << 24), 0);
    assert_damaged("%s/manifest.txt: is damaged", "");
    assert_int_equal(truncate(path, (1 << 24) + 1), 0);
    assert_damaged("%s/manifest.txt: holds more than the 16777216 bytes expected", "");
    /* A line that is longer than any name. */
    char line_of[1024];
    struct text long_line = {0};
    memset(line_of, 'a', sizeof line_of);
    text_add(&long_line, "penstock-manifest 1\n%.*s\n", 900, line_of);
    test_file_write(path, long_line.data, long_line.length);
    assert_damaged("%s/manifest.txt: is damaged", "");
    text_free(&long_line);
    /* Its first file twice. */
    const char *first = strchr(before, '\n') + 1;
    const int line = (int)strcspn(first, "\n") + 1;
    struct text twice = {0};
    text_add(&twice, "%.*s%.*s%.*s", (int)(first - before), before, line, first, line, first);
    const uint32_t sum = file_checksum(&(struct file_piece){twice.data, twice.length}, 1);
    text_add(&twice, "%08x end\n", (unsigned)sum);
    test_file_write(path, twice.data, twice.length);
    assert_damaged("%s/manifest.txt: names %s twice", "model-00001-of-00002.safetensors");
    text_free(&twice);
    assert_int_equal(unlink(path), 0);
    assert_status(manifest_look(checkpoint_directory, &test_error), PS_IO, "manifest.txt: cannot open");
    /* Names are said as they are, whatever is in them. */
    assert_status(manifest_look("/nowhere/100%d of%s", &test_error), PS_IO, "/nowhere/100%d of%s/manifest.txt: cannot open");
    assert_status(manifest_check("/nowhere/100%d of%s", &test_error), PS_BAD_INPUT,
                  "/nowhere/100%d of%s/manifest.txt: cannot open");
    test_file_write(path, before, size);
    free(before);
    /* A file that is none of its, and one that is another. */
    test_file_write(file_join(other, checkpoint_directory, "other.safetensors"), "", 0);
    assert_damaged("%s/%s: is not in manifest.txt", "other.safetensors");
    assert_int_equal(unlink(other), 0);
    file_join(path, checkpoint_directory, weights);
    assert_ok(file_read(path, 1 << 20, &contents, &bytes, &test_error));
    test_file_write(path, contents, bytes - 1);
    snprintf(other, sizeof other, "%%s/%%s: has %zu bytes, expected %zu", bytes - 1, bytes);
    assert_damaged(other, weights);
    snprintf(other, sizeof other, "%s: is gone, or not as it was written", path);
    assert_status(manifest_look(checkpoint_directory, &test_error), PS_IO, other);
    contents[bytes - 1] ^= 1;
    test_file_write(path, contents, bytes);
    assert_damaged("%s/%s: is not as it was written: its checksum is another", weights);
    assert_ok(manifest_look(checkpoint_directory, &test_error));
    assert_int_equal(unlink(path), 0);
    assert_status(manifest_look(checkpoint_directory, &test_error), PS_IO, other);
    contents[bytes - 1] ^= 1;
    test_file_write(path, contents, bytes);
    free(contents);
    assert_ok(manifest_check(checkpoint_directory, &test_error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),   cmocka_unit_test(test_names),    cmocka_unit_test(test_choice),
        cmocka_unit_test(test_weights),  cmocka_unit_test(test_state),    cmocka_unit_test(test_feedback_names),
        cmocka_unit_test(test_manifest), cmocka_unit_test(test_required), cmocka_unit_test(test_pruned)};
    return cmocka_run_group_tests(tests, set_up, test_directory_tear_down);
}
