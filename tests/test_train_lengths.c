/*
 * Mini-batches by length: a shorter length changes nothing but the rounding, whatever the schedule, the weights are those of
 * one worker where a schedule flushes, a run goes on with the same bits, and what cannot be done is refused.
 */
#include "base/text.h"
#include "resume_support.h"
#include "within.h"

enum { SEQ = 9, SAMPLES = 97, BATCH = 12, TARGET_WORDS = 3 };

/* Sentences of up to `most` words, with translations of a word more or less, or of `target` words all. */
static void write_pairs(const char *name, int most, int target) {
    struct text text[2] = {{0}, {0}};
    char file[64], path[4096];
    uint64_t drawn = 0;
    for (int l = 0; l < SAMPLES; l++) {
        int words = 1 + (int)random_below(test_key(3), drawn++, (uint64_t)most);
        for (int side = 0; side < 2; side++) {
            if (side == 1) words = target > 0 ? target : words + (int)random_below(test_key(3), drawn++, 3) - 1;
            for (int w = 0; w < words || w == 0; w++)
                text_add(&text[side], "%c%s", 'a' + (int)random_below(test_key(3), drawn++, 8), w + 1 < words ? " " : "\n");
        }
    }
    for (int side = 0; side < 2; side++) {
        snprintf(file, sizeof file, "%s.%c", name, 'x' + side);
        test_file_write(file_join(path, test_directory, file), text[side].data, text[side].length);
        text_free(&text[side]);
    }
}

static const char *spec_of(const char *name, char spec[4200]) {
    snprintf(spec, 4200, "pairs:%s/%s:x:y", test_directory, name);
    return spec;
}

/* Of an epoch's mini-batches some have each of the lengths, and some the whole one. */
static void assert_mixed(const char *spec, const char *text) {
    static const struct dataset_shape wanted = {
        .channels = 1, .height = 2 * SEQ, .width = 1, .classes = 12, .labels = SEQ, .vocabulary = 12, .gives_tokens = true};
    struct samples samples;
    struct lengths lengths;
    double shares[LENGTHS_MAX];
    assert_ok(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &test_error));
    assert_ok(lengths_parse(text, (struct sequence_length){SEQ, SEQ}, &lengths, &test_error));
    assert_ok(lengths_measure(&lengths, &samples, spec, &test_error));
    assert_ok(sample_order_shares(samples.count, BATCH, 0, &lengths, shares, &test_error));
    for (int l = 0; l < lengths.count; l++) assert_true(shares[l] > 0);
    lengths_free(&lengths);
    samples_close(&samples);
}

static struct run_case case_of(const char *name, const char *model, char spec[4200]) {
    return (struct run_case){.model = model,
                             .data = spec_of(name, spec),
                             .device = "cpu",
                             .workers = 3,
                             .micro_batch = 4,
                             .micro_batches = BATCH / 4,
                             .optimizer = "sgd",
                             .lr = 0.1,
                             .steps = 20};
}

#define SMALL "gnmt-l,layers=4,seq=9,target=9,vocab=12,hidden=8"

static double largest(const struct trained *a) {
    double most = 0;
    for (size_t i = 0; i < a->count; i++) most = fmax(most, fabs((double)a->values[i]));
    return most;
}

static double distance(const struct trained *a, const struct trained *b) {
    double most = 0;
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
    return most;
}

/* All sentences are short: they form one bucket, at the shorter length or, where that holds none of them, at the whole one; the
 * mini-batches are the same. */
static void test_same_at_any_length(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *weights, *device, *model;
        bool recompute;
    } cases[] = {{"1f1b", "sync", "cpu", SMALL ",dropout=0", false},
                 {"1f1b-async", "pipeoptim", "reference", SMALL ",dropout=0", true},
                 /* Layouts of weights that follow the number of rows: 12 to 36 at one length, 108 at the other. */
                 {"gpipe", "sync", "cpu", "gnmt-l,layers=4,seq=72,target=36,vocab=40,hidden=48,dropout=0", false},
                 {"zb-h1", "sync", "cpu", SMALL ",dropout=0", false}};
    char spec[4200];
    write_pairs("short", 2, 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct run_case wanted = case_of("short", cases[c].model, spec);
        bool long_model = strstr(cases[c].model, "seq=72") != NULL;
        wanted.schedule = cases[c].schedule;
        wanted.weights = cases[c].weights;
        wanted.device = cases[c].device;
        wanted.recompute = cases[c].recompute;
        wanted.lengths = long_model ? "8" : "4";
        struct trained narrow = run_case_weights(wanted);
        wanted.lengths = "1";
        struct trained wide = run_case_weights(wanted);
        wanted.steps = 1;
        struct trained first = run_case_weights(wanted);
        double moved = distance(&wide, &first), off = distance(&wide, &narrow);
        print_message("%s %s: largest weight %.3g, moved %.3g, off %.3g\n", cases[c].schedule, cases[c].weights, largest(&wide),
                      moved, off);
        assert_true(moved > 0.01 && off < 1e-4 * moved);
        trained_free(&narrow);
        trained_free(&wide);
        trained_free(&first);
    }
}

/* Sentences of all lengths, with as many labels each: at a rate so low that weights hardly move, what an epoch moves them by
 * does not depend on how its samples are put together. */
static void test_whole_epoch(void **state) {
    (void)state;
    char spec[4200];
    write_pairs("mixed", 12, TARGET_WORDS);
    struct run_case wanted = case_of("mixed", SMALL ",dropout=0", spec);
    wanted.device = "reference";
    wanted.steps = SAMPLES / BATCH;
    wanted.lr = 1e-3;
    struct run_case still = wanted;
    still.lr = 1e-30;
    struct trained begun = run_case_weights(still), plain = run_case_weights(wanted);
    wanted.lengths = "4,6";
    assert_mixed(spec, wanted.lengths);
    struct trained buckets = run_case_weights(wanted);
    double moved = distance(&plain, &begun), off = distance(&plain, &buckets);
    print_message("an epoch moves by %.3g, in buckets by %.3g more or less\n", moved, off);
    assert_true(moved > 1e-4 && off < 0.01 * moved);
    trained_free(&begun);
    trained_free(&plain);
    trained_free(&buckets);
}

/* The loss of an epoch too, as its log says it. */
static void test_losses(void **state) {
    (void)state;
    char spec[4200], place[4096];
    double losses[2];
    write_pairs("mixed", 9, 0);
    for (int buckets = 0; buckets < 2; buckets++) {
        struct run_case wanted = case_of("mixed", SMALL ",dropout=0", spec);
        struct ps_run *run;
        wanted.steps = SAMPLES / BATCH;
        wanted.lr = 1e-30;
        wanted.lengths = buckets ? "4,7" : NULL;
        run_case_train(wanted, place, &run);
        losses[buckets] = ps_run_info(run).loss;
        ps_run_destroy(run);
        test_directory_remove(place);
    }
    print_message("loss %.9g, in buckets %.9g\n", losses[0], losses[1]);
    assert_within(losses[0], losses[1], 1e-5);
}

/* ---------------------------------------------------------------------------- same bits */

static void test_schedules(void **state) {
    (void)state;
    char spec[4200], text[160];
    write_pairs("mixed", 9, 0);
    struct run_case one = case_of("mixed", SMALL, spec);
    one.workers = 1;
    one.lengths = "4,7";
    assert_mixed(spec, one.lengths);
    struct trained oracle = run_case_weights(one);
    static const struct {
        const char *schedule, *weights;
        int workers, replicas[6];
        bool recompute;
    } cases[] = {{"1f1b", "sync", 4, {0}, false},          {"gpipe", "sync", 2, {0}, true},
                 {"interleaved", "sync", 2, {0}, false},   {"zb-h2", "sync", 3, {0}, false},
                 {"1f1b-async", "stash", 4, {0}, false},   {"1f1b-async", "horizon", 3, {0}, true},
                 {"1f1b-async", "stash", 0, {1, 2}, true}, {"1f1b", "sync", 0, {2, 1}, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct run_case wanted = one;
        wanted.schedule = cases[c].schedule;
        wanted.weights = cases[c].weights;
        wanted.workers = cases[c].workers;
        memcpy(wanted.replicas, cases[c].replicas, sizeof wanted.replicas);
        wanted.recompute = cases[c].recompute;
        print_message("%s\n", run_case_text(&wanted, text));
        assert_threads_equal_serial(wanted);
        if (strcmp(wanted.weights, "sync") != 0 || wanted.workers == 0) continue;
        struct trained got = run_case_weights(wanted);
        assert_true(trained_equal(&got, &oracle));
        trained_free(&got);
    }
    trained_free(&oracle);
}

/* From a checkpoint in the middle of an epoch, and from one at its end. */
static void test_resume(void **state) {
    (void)state;
    char spec[4200], whole[4096], copy[4096];
    write_pairs("mixed", 9, 0);
    struct run_case wanted = case_of("mixed", SMALL, spec);
    wanted.schedule = "1f1b-async";
    wanted.weights = "pipeoptim";
    wanted.optimizer = "adam";
    wanted.lr = 0.01;
    wanted.lengths = "4,7";
    train_whole(wanted, "whole", whole);
    file_join(copy, test_directory, "copy");
    static const int steps[] = {3, 8, 14};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        interrupted_copy(whole, steps[s], copy);
        struct training options = resume_options(copy);
        train(&options);
        assert_same_end(SMALL, whole, copy);
        assert_same_log(whole, copy);
    }
}

/* ------------------------------------------------------------------------------ prediction */

static void hear_mean(void *context, enum ps_log_level level, const char *text) {
    assert_int_equal(level, PS_LOG_WARN);
    if (strstr(text,
               "the profile's times are means over mini-batches of the lengths 4,7 and the whole one, and this run has the "
               "whole one only: predictions will be off"))
        ++*(int *)context;
}

/* A profile says what its times are means of, and is taken for no other lengths. */
static void test_profile(void **state) {
    (void)state;
    char spec[4200], out[4096], profile[4096], mean[4096];
    struct training options;
    struct ps_profile *plain;
    struct ps_network *model;
    struct ps_run *run;
    write_pairs("mixed", 9, 0);
    assert_ok(ps_network_open(SMALL, &model, &test_error));
    struct ps_profile_options requested = {
        .struct_size = sizeof requested, .micro_batches = (const int[]){4}, .micro_batch_count = 1, .repeats = 1, .busy = 1};
    assert_ok(ps_profile_measure(model, &requested, &plain, &test_error));
    assert_ok(ps_profile_write(plain, file_join(profile, test_directory, "profile.json"), &test_error));
    ps_profile_destroy(plain);
    ps_network_destroy(model);

    training_init(&options);
    options.profile_path = profile;
    options.data = spec_of("mixed", spec);
    options.cluster.workers = 2;
    options.o.batch = 12;
    options.plan.micro_batch = 4;
    options.o.steps = 2;
    options.o.lengths = "4,7";
    options.o.out = file_join(out, test_directory, "profiled");
    assert_ok(training_run(&options, &run, &test_error));
    assert_true(ps_run_info(run).predicted_samples_per_s > 0);
    ps_run_destroy(run);
    options.o.out = NULL;
    options.profile_path = file_join(mean, out, "profile.json");
    assert_ok(ps_profile_read(mean, &plain, &test_error));
    char *json = ps_profile_json(plain);
    assert_non_null(strstr(json, "\"lengths\": \"4,7\""));
    assert_non_null(strstr(json, "\"by_length\": [")); /* tests/test_simulate_lengths.c has what it is for */
    free(json);
    ps_profile_destroy(plain);
    assert_ok(training_run(&options, &run, &test_error)); /* as they are */
    ps_run_destroy(run);

    /* Without a profile each length is measured. */
    training_init(&options);
    options.model = SMALL;
    options.data = spec;
    options.cluster.workers = 2;
    options.plan.micro_batch = 4;
    options.plan.micro_batches = 3;
    options.o.batch = 12;
    options.o.steps = 2;
    options.o.lengths = "3,5,7";
    options.o.out = file_join(out, test_directory, "measured");
    options.o.device = test_device("reference");
    assert_ok(training_run(&options, &run, &test_error));
    assert_true(ps_run_info(run).predicted_samples_per_s > 0);
    ps_run_destroy(run);
    assert_ok(ps_profile_read(file_join(profile, out, "profile.json"), &plain, &test_error));
    json = ps_profile_json(plain);
    assert_non_null(strstr(json, "\"lengths\": \"3,5,7\""));
    free(json);
    ps_profile_destroy(plain);

    options.o.out = NULL;
    options.model = NULL;
    options.profile_path = mean;
    options.o.lengths = "5";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE,
                  "`lengths`: 5, where the profile's times are means over 4,7");
    /* Whose run has the whole length alone is warned. */
    int warned = 0;
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &warned, .level = PS_LOG_WARN, .line = hear_mean};
    options.o.lengths = NULL;
    options.o.log = &sink;
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    assert_int_equal(warned, 1);
    options.o.log = NULL;

    /* Times of no known number of samples cannot be mixed. */
    assert_ok(ps_profile_read(mean, &plain, &test_error));
    plain->lengths[0] = '\0';
    plain->tables[0].micro_batch = 0;
    assert_ok(ps_profile_write(plain, file_join(profile, test_directory, "unsaid.json"), &test_error));
    ps_profile_destroy(plain);
    options.profile_path = profile;
    options.o.lengths = "4,7";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE,
                  "`lengths`: the profile does not say for how many samples its times are");
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *model, *data, *lengths, *said;
    } wrong[] = {
        {SMALL, NULL, "9", "`lengths`: 9 is not from 1 to 8"},
        {SMALL, NULL, "5,3", "`lengths`: 3 after 5"},
        {SMALL, NULL, "short", "`lengths`: 'short' is not a list"},
        {SMALL, "synthetic:tokens,samples=24", "4",
         "`lengths`: needs pairs of texts, and the data 'synthetic:tokens,samples=24' are not"},
        {"lenet5,input=16,classes=4", "synthetic:images,samples=24", "4", "lenet5,input=16,classes=4 translates nothing"},
        {"residual_lstm,layers=1,hidden=4,seq=6", "synthetic:tokens,samples=24", "4", "translates nothing"},
        {"gpt2,layers=1,width=8,heads=2,seq=6,vocab=9", "synthetic:tokens,samples=24", "4", "translates nothing"},
    };
    char spec[4200];
    write_pairs("mixed", 9, 0);
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct training options;
        struct ps_run *run;
        training_init(&options);
        options.model = wrong[w].model;
        options.data = wrong[w].data ? wrong[w].data : spec_of("mixed", spec);
        options.cluster.workers = 1;
        options.o.lengths = wrong[w].lengths;
        assert_status(training_run(&options, &run, &test_error), PS_USAGE, wrong[w].said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_at_any_length), cmocka_unit_test(test_whole_epoch), cmocka_unit_test(test_losses),
        cmocka_unit_test(test_schedules),          cmocka_unit_test(test_resume),      cmocka_unit_test(test_profile),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
