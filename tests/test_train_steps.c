/*
 * Training as a program of its own goes about it: with data of its own, step by step, watched, asked for figures and weights
 * between two steps, saved and gone on with.
 */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "run_support.h"
#include "within.h"

enum { SIDE = 16, CLASSES = 4, SAMPLES = 48 };
static const char network_spec[] = "lenet5,input=16,classes=4";

/* ------------------------------------------------------------------ data of the test's */

struct own_data {
    int64_t broken; /* the sample that cannot be read; -1: all can */
    float added;    /* to every number of an image */
    bool unlabelled;
    atomic_int opened, closed, reads, at_once, most;
};

static enum ps_status open_own(void *context, struct ps_error *error) {
    (void)error;
    ((struct own_data *)context)->opened++;
    return PS_OK;
}

static void close_own(void *context) { ((struct own_data *)context)->closed++; }

static enum ps_status read_own(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error) {
    struct own_data *own = context;
    int at_once = ++own->at_once;
    if (at_once > own->most) own->most = at_once;
    own->reads++;
    if (sample == own->broken) {
        snprintf(error->message, sizeof error->message, "the tape is torn");
        own->at_once--;
        return PS_IO;
    }
    *labels = (int32_t)(sample % CLASSES);
    float *image = input;
    for (int i = 0; image && i < SIDE * SIDE; i++) image[i] = (float)((i * (*labels + 1) + sample) % 7) / 7 + own->added;
    if (own->unlabelled) *labels = -1;
    own->at_once--;
    return PS_OK;
}

static struct ps_dataset *own_dataset(struct own_data *own, int64_t samples) {
    struct ps_dataset_source source;
    struct ps_dataset *dataset;
    ps_dataset_source_init(&source);
    source.context = own;
    source.name = "own";
    source.samples = samples;
    source.input_shape[0] = 1;
    source.input_shape[1] = source.input_shape[2] = SIDE;
    source.classes = CLASSES;
    source.open = open_own;
    source.close = close_own;
    source.read = read_own;
    assert_ok(ps_dataset_create(&source, &dataset, &test_error));
    return dataset;
}

/* ---------------------------------------------------------------------------- a job */

struct job_objects {
    struct own_data own;
    struct ps_network *network;
    struct ps_dataset *data;
    struct ps_plan *plan;
    struct ps_train_options options;
};

static void make_job(const char *schedule, const char *weights, int workers, struct job_objects *job) {
    struct run_case wanted = run_case_complete((struct run_case){
        .schedule = schedule, .weights = weights, .workers = workers, .micro_batch = 2, .micro_batches = 3, .steps = 12});
    *job = (struct job_objects){.own = {.broken = -1}};
    assert_ok(ps_network_open(network_spec, &job->network, &test_error));
    job->plan = run_case_plan(&wanted);
    job->data = own_dataset(&job->own, SAMPLES);
    ps_train_options_init(&job->options);
    job->options.plan = job->plan;
    job->options.network = job->network;
    job->options.data = job->data;
    job->options.device = "reference";
    job->options.steps = 12;
    job->options.lr = 0.05;
}

static void free_job(struct job_objects *job) {
    ps_dataset_destroy(job->data);
    ps_plan_destroy(job->plan);
    ps_network_destroy(job->network);
}

/* All weights that a trainer has, one parameter after the other. */
static float *read_all(struct ps_trainer *trainer, size_t *size) {
    float *all = NULL;
    *size = 0;
    for (int p = 0; p < ps_trainer_info(trainer).parameters; p++) {
        struct ps_parameter parameter = ps_trainer_parameter(trainer, p);
        size_t count = 1;
        for (int d = 0; d < parameter.rank; d++) count *= (size_t)parameter.shape[d];
        all = realloc(all, (*size + count) * sizeof *all);
        assert_non_null(all);
        assert_ok(ps_trainer_read_parameter(trainer, parameter.name, all + *size, count, &test_error));
        *size += count;
    }
    return all;
}

/* Trains the job in calls of so many steps. */
static float *train_in(struct job_objects *job, int64_t steps, size_t *size) {
    struct ps_trainer *trainer;
    assert_ok(ps_trainer_create(&job->options, &trainer, &test_error));
    while (ps_trainer_info(trainer).step < 12) assert_ok(ps_trainer_step(trainer, steps, &test_error));
    float *all = read_all(trainer, size);
    ps_trainer_destroy(trainer);
    return all;
}

/* With a schedule that flushes it is all the same how the steps are divided over calls; without one it is not. */
static void test_steps(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *weights;
        bool same;
    } cases[] = {{"1f1b", "sync", true}, {"gpipe", "sync", true}, {"1f1b-async", "stash", false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct job_objects job;
        size_t whole_size, size;
        make_job(cases[c].schedule, cases[c].weights, 3, &job);
        float *whole = train_in(&job, 1000, &whole_size);
        static const int64_t lengths[] = {1, 5};
        for (int l = 0; l < 2; l++) {
            float *divided = train_in(&job, lengths[l], &size);
            assert_int_equal(size, whole_size);
            assert_true((memcmp(whole, divided, size * sizeof *whole) == 0) == cases[c].same);
            free(divided);
        }
        free(whole);
        assert_int_equal(job.own.opened, job.own.closed);
        assert_int_equal(job.own.most, 1); /* one by one, as the source did not say otherwise */
        free_job(&job);
    }
}

/* ps_train and the calls that it stands for come to the same, and to what another worker count comes to. */
static void test_whole(void **state) {
    (void)state;
    struct job_objects job, alone;
    struct ps_run *run, *same;
    struct ps_trainer *trainer;
    make_job("1f1b", "sync", 2, &job);
    make_job("1f1b", "sync", 1, &alone);
    job.options.valid = alone.options.valid = job.data;
    assert_ok(ps_train(&alone.options, &run, &test_error));
    assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, 7, &test_error));
    assert_ok(ps_trainer_step(trainer, 0, &test_error));
    assert_status(ps_trainer_step(trainer, -1, &test_error), PS_USAGE, "steps: -1 is negative");
    assert_int_equal(ps_trainer_info(trainer).step, 7);
    assert_ok(ps_trainer_step(trainer, 100, &test_error));
    assert_ok(ps_trainer_finish(trainer, &same, &test_error));
    static const char over[] = "the training is over, and its trainer can only be destroyed";
    struct ps_evaluation evaluation;
    float bias[CLASSES];
    assert_status(ps_trainer_step(trainer, 1, &test_error), PS_USAGE, over);
    assert_status(ps_trainer_evaluate(trainer, NULL, &evaluation, &test_error), PS_USAGE, over);
    assert_status(ps_trainer_read_parameter(trainer, "fc3.bias", bias, CLASSES, &test_error), PS_USAGE, over);
    assert_status(ps_trainer_save(trainer, test_directory, &test_error), PS_USAGE, over);
    assert_status(ps_trainer_finish(trainer, &run, &test_error), PS_USAGE, over);
    ps_trainer_destroy(trainer);
    assert_int_equal(ps_run_info(same).steps, 12);
    assert_true(ps_run_info(run).loss == ps_run_info(same).loss);
    assert_true(ps_run_info(run).valid_accuracy == ps_run_info(same).valid_accuracy);
    ps_run_destroy(run);
    ps_run_destroy(same);
    free_job(&alone);
    free_job(&job);
}

/* Data that have no label are refused before anything is trained; validation without a finite loss ends the training. */
static void test_data_without_loss(void **state) {
    (void)state;
    static const struct {
        float added;
        bool unlabelled, trained;
        enum ps_status status;
        const char *part;
    } cases[] = {{NAN, false, false, PS_FAILED, "step 8: the validation loss became not a number"},
                 {0, true, false, PS_USAGE, "`valid`: none of the labels of own counts"},
                 {0, true, true, PS_USAGE, "`data`: none of the labels of own counts"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct job_objects job;
        struct ps_run *run;
        struct own_data own = {.broken = -1, .added = cases[c].added, .unlabelled = cases[c].unlabelled};
        make_job("1f1b", "sync", 2, &job);
        struct ps_dataset *data = own_dataset(&own, SAMPLES);
        *(cases[c].trained ? &job.options.data : &job.options.valid) = data;
        assert_status(ps_train(&job.options, &run, &test_error), cases[c].status, cases[c].part);
        assert_true(job.own.reads <= 1 || cases[c].status == PS_FAILED);
        assert_true(own.opened == own.closed && job.own.opened == job.own.closed);
        ps_dataset_destroy(data);
        free_job(&job);
    }
}

/* ------------------------------------------------------------------ evaluation, weights */

/* On every schedule: other data are evaluated in the memory that training has, and training goes on as if nothing had been. */
static void test_evaluate(void **state) {
    (void)state;
    int tried = 0;
    for (int s = 0; schedule_table[s]; s++) {
        const struct schedule *schedule = schedule_table[s];
        if (schedule->split || !test_takes((size_t)s, 3)) continue; /* their plans are made by hand */
        struct job_objects job;
        struct own_data few = {.broken = -1};
        struct ps_trainer *trainer;
        struct ps_evaluation before, after, own;
        struct ps_run *run, *undisturbed;
        struct ps_dataset *other = own_dataset(&few, 13);
        make_job(schedule->name, schedule->flush ? "sync" : "latest", 2, &job);
        job.plan->micro_batches = 4;
        job.options.valid = job.data;
        enum ps_status status = ps_train(&job.options, &undisturbed, &test_error);
        if (status != PS_OK) print_message("%s: %s\n", schedule->name, test_error.message);
        assert_ok(status);
        tried++;
        assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
        assert_ok(ps_trainer_evaluate(trainer, other, &before, &test_error));
        assert_ok(ps_trainer_step(trainer, 8, &test_error));
        assert_ok(ps_trainer_evaluate(trainer, other, &after, &test_error));
        assert_ok(ps_trainer_evaluate(trainer, NULL, &own, &test_error));
        assert_ok(ps_trainer_step(trainer, 8, &test_error));
        assert_ok(ps_trainer_finish(trainer, &run, &test_error));
        assert_int_equal(before.samples, 13);
        assert_int_equal(own.samples, SAMPLES);
        assert_true(isfinite(before.loss) && isfinite(after.loss) && isfinite(own.loss));
        assert_true(before.loss > after.loss || before.loss < after.loss);
        /* Without a flush eight steps and four are another training than twelve. */
        if (schedule->flush) assert_true(ps_run_info(run).valid_loss == ps_run_info(undisturbed).valid_loss);
        assert_int_equal(few.opened, few.closed);
        ps_trainer_destroy(trainer);
        ps_run_destroy(run);
        ps_run_destroy(undisturbed);
        ps_dataset_destroy(other);
        free_job(&job);
    }
    assert_true(tried >= (test_slow() ? 2 : 5));
}

static void test_parameters(void **state) {
    (void)state;
    struct job_objects job;
    struct ps_trainer *trainer;
    make_job("1f1b", "sync", 2, &job);
    assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
    assert_int_equal(ps_trainer_info(trainer).parameters, 10);
    struct ps_parameter last = ps_trainer_parameter(trainer, 9);
    assert_string_equal(last.name, "fc3.bias");
    assert_int_equal(last.rank, 1);
    assert_int_equal(last.shape[0], CLASSES);
    assert_false(last.statistic);
    float bias[CLASSES], other[CLASSES];
    assert_ok(ps_trainer_read_parameter(trainer, "fc3.bias", bias, CLASSES, &test_error));
    assert_status(ps_trainer_read_parameter(trainer, "fc4.bias", bias, CLASSES, &test_error), PS_USAGE,
                  "no parameter 'fc4.bias'");
    assert_status(ps_trainer_read_parameter(trainer, "fc3.bias", bias, 3, &test_error), PS_USAGE, "has 4 elements, not 3");
    assert_ok(ps_trainer_step(trainer, 1, &test_error));
    assert_ok(ps_trainer_read_parameter(trainer, "fc3.bias", other, CLASSES, &test_error));
    assert_true(memcmp(bias, other, sizeof bias) != 0);
    ps_trainer_destroy(trainer); /* in the middle */
    free_job(&job);
}

/* An epoch has eight steps. */
static void test_to_evaluation(void **state) {
    (void)state;
    static const int64_t calls[] = {2, 1, 3, 2, 3, 1}, left[] = {1, 3, 2, 3, 1, 0};
    struct job_objects job;
    struct ps_trainer *trainer;
    make_job("1f1b", "sync", 2, &job);
    job.options.valid = job.data;
    job.options.evaluate_every = 3;
    assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
    assert_int_equal(ps_trainer_info(trainer).to_evaluation, 3);
    for (int i = 0; i < 6; i++) {
        assert_ok(ps_trainer_step(trainer, calls[i], &test_error));
        assert_int_equal(ps_trainer_info(trainer).to_evaluation, left[i]);
    }
    ps_trainer_destroy(trainer);
    free_job(&job);
}

/* Statistics are told apart from what is trained, and are where the forwards of their stage run. */
static void test_statistics(void **state) {
    (void)state;
    char place[4096], plan_path[4096];
    const struct run_case wanted = run_case_complete((struct run_case){.model = "resnet,blocks=1,input=8,classes=4",
                                                                       .data = "synthetic:images,samples=8",
                                                                       .workers = 3,
                                                                       .micro_batch = 4,
                                                                       .steps = 2});
    const struct training training = run_case_planned(&wanted, place, plan_path);
    struct training_objects objects;
    struct ps_trainer *trainer;
    int statistics = 0, moved = 0;
    assert_ok(training_open(&training, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    for (int step = 0; step < 2; step++) {
        for (int p = 0; p < ps_trainer_info(trainer).parameters; p++) {
            const struct ps_parameter parameter = ps_trainer_parameter(trainer, p);
            const bool mean = strstr(parameter.name, "running_mean") != NULL;
            float values[64];
            assert_int_equal(parameter.statistic, mean || strstr(parameter.name, "running_var"));
            if (!parameter.statistic) continue;
            assert_int_equal(parameter.rank, 1);
            assert_ok(ps_trainer_read_parameter(trainer, parameter.name, values, (size_t)parameter.shape[0], &test_error));
            if (step == 0) assert_true(values[0] == (mean ? 0 : 1));
            if (step == 0) statistics++;
            if (step == 1) moved += !(values[0] == (mean ? 0 : 1));
        }
        assert_ok(ps_trainer_step(trainer, 1, &test_error));
    }
    assert_true(statistics > 0);
    assert_int_equal(moved, statistics);
    ps_trainer_destroy(trainer);
    training_close(&objects);
    test_directory_remove(place);
}

/* --------------------------------------------------------------------------- saving */

/* Saved wherever the caller says, it goes on to the same end. */
static void test_save(void **state) {
    (void)state;
    char place[4096];
    struct job_objects job;
    struct ps_trainer *trainer, *again;
    size_t size, other_size;
    make_job("1f1b", "sync", 2, &job);
    float *whole = train_in(&job, 1000, &size);
    assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, 5, &test_error));
    assert_status(ps_trainer_save(trainer, NULL, &test_error), PS_USAGE, "has no directory of its own");
    assert_status(ps_trainer_save(trainer, "", &test_error), PS_USAGE, "run_dir: it is empty");
    assert_ok(ps_trainer_save(trainer, file_join(place, test_directory, "saved"), &test_error));
    assert_status(ps_trainer_save(trainer, place, &test_error), PS_USAGE, "holds a run already");
    assert_ok(ps_trainer_step(trainer, 1, &test_error)); /* nothing is lost by that */
    ps_trainer_destroy(trainer);

    struct ps_train_options resume;
    ps_train_options_init(&resume);
    resume.resume = place;
    assert_status(ps_trainer_create(&resume, &again, &test_error), PS_USAGE, "data of its own, 'own', which must be given");
    resume.data = job.data;
    resume.network = job.network;
    assert_ok(ps_trainer_create(&resume, &again, &test_error));
    assert_int_equal(ps_trainer_info(again).step, 5);
    assert_ok(ps_trainer_step(again, 3, &test_error));
    assert_ok(ps_trainer_save(again, NULL, &test_error)); /* its own directory now */
    ps_trainer_destroy(again);
    assert_ok(ps_trainer_create(&resume, &again, &test_error));
    assert_int_equal(ps_trainer_info(again).step, 8);
    assert_ok(ps_trainer_step(again, 1, &test_error));
    char same[4200];
    snprintf(same, sizeof same, "%s/../saved/", place); /* the same by another path */
    assert_ok(ps_trainer_save(again, same, &test_error));
    ps_trainer_destroy(again);
    assert_ok(ps_trainer_create(&resume, &again, &test_error));
    assert_int_equal(ps_trainer_info(again).step, 9);
    assert_ok(ps_trainer_step(again, 100, &test_error));
    float *other = read_all(again, &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(whole, other, size * sizeof *whole);
    ps_trainer_destroy(again);
    free(whole);
    free(other);
    free_job(&job);
}

static int count_entries(const char *path) {
    DIR *entries = opendir(path);
    int count = 0;
    assert_non_null(entries);
    while (readdir(entries)) count++;
    closedir(entries);
    return count - 2; /* itself, and the one above */
}

/* What a training that ends before its last step came to is kept, and it can go on from there. */
static void test_finish_early(void **state) {
    (void)state;
    char place[4096];
    struct job_objects job;
    struct ps_trainer *trainer;
    struct ps_run *run;
    size_t size, other_size;
    make_job("1f1b", "sync", 2, &job);
    float *whole = train_in(&job, 1000, &size);
    job.options.out = file_join(place, test_directory, "early");
    assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, 5, &test_error));
    assert_ok(ps_trainer_finish(trainer, &run, &test_error));
    assert_int_equal(ps_run_info(run).steps, 5);
    ps_run_destroy(run);
    ps_trainer_destroy(trainer);

    struct ps_train_options resume;
    ps_train_options_init(&resume);
    resume.resume = place;
    resume.data = job.data;
    resume.network = job.network;
    assert_ok(ps_trainer_create(&resume, &trainer, &test_error));
    assert_int_equal(ps_trainer_info(trainer).step, 5);
    assert_ok(ps_trainer_step(trainer, 100, &test_error));
    float *other = read_all(trainer, &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(whole, other, size * sizeof *whole);
    ps_trainer_destroy(trainer);
    free(whole);
    free(other);
    free_job(&job);
}

/* A checkpoint that is replaced stays until the other is in its place: whoever is killed in between has one of them. */
static const char *replaced; /* the end of its path */
static int was_there = -1;   /* when something first took its name */

int rename(const char *from, const char *to) {
    const size_t length = strlen(to), end = replaced ? strlen(replaced) : 0;
    if (replaced && length > end && strcmp(to + length - end, replaced) == 0 && was_there < 0) was_there = file_exists(to);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static void test_replaced(void **state) {
    (void)state;
    static const char *const names[] = {"checkpoints/000012/manifest.txt", "checkpoints/000012"};
    char place[4096], path[4096];
    struct job_objects job;
    struct ps_trainer *trainer;
    struct ps_run *run;
    struct checkpoint checkpoint;
    make_job("1f1b", "sync", 2, &job);
    job.options.out = file_join(place, test_directory, "replaced");
    assert_ok(ps_train(&job.options, &run, &test_error));
    ps_run_destroy(run);
    test_file_write(file_join(path, place, names[0]), "", 0);

    struct ps_train_options resume;
    ps_train_options_init(&resume);
    resume.resume = place;
    resume.data = job.data;
    resume.network = job.network;
    assert_ok(ps_trainer_create(&resume, &trainer, &test_error));
    assert_int_equal(ps_trainer_info(trainer).step, 8);
    replaced = names[1];
    assert_ok(ps_trainer_step(trainer, 100, &test_error));
    assert_ok(ps_trainer_finish(trainer, &run, &test_error));
    replaced = NULL;
    assert_int_equal(was_there, 1);
    ps_run_destroy(run);
    ps_trainer_destroy(trainer);
    assert_ok(checkpoint_find(place, &checkpoint, &test_error));
    assert_int_equal(checkpoint.state.step, 12);
    checkpoint_free(&checkpoint);
    assert_int_equal(count_entries(file_join(path, place, "checkpoints")), 2);
    free_job(&job);
}

/* However many are to stay, the others go. */
static void test_many_checkpoints(void **state) {
    (void)state;
    enum { STEPS = 1100, THERE = 1050, KEPT = 1030 };
    static const char costs[] = "name,forward_s,backward_s,parameter_bytes,output_bytes\na,1e-7,1e-7,1000,400\n";
    char path[4096], out[4096], place[4096];
    struct training training;
    struct training_objects objects;
    struct ps_trainer *trainer;
    training_init(&training);
    test_file_write(file_join(path, test_directory, "costs.csv"), costs, sizeof costs - 1);
    training.profile_path = path;
    training.cluster.workers = 1;
    training.o.device = "clock";
    training.o.steps = STEPS;
    training.o.keep_checkpoints = KEPT;
    training.o.out = file_join(out, test_directory, "many");
    assert_ok(training_open(&training, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    for (int step = 1; step <= THERE; step++) {
        snprintf(place, sizeof place, "%s/checkpoints/%06d", out, step);
        assert_ok(file_make_directory(place, &test_error));
    }
    assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
    assert_ok(ps_trainer_save(trainer, NULL, &test_error));
    ps_trainer_destroy(trainer);
    training_close(&objects);
    assert_int_equal(count_entries(file_join(path, out, "checkpoints")), KEPT);
}

/* A name of characters of two bytes, longer than a picture's title has room for: it is cut between two of them. */
static void test_long_name(void **state) {
    (void)state;
    char out[4096];
    struct job_objects job;
    struct ps_run *run;
    make_job("1f1b", "sync", 2, &job);
    job.network->name[0] = '\0';
    for (int c = 0; c < 150; c++) strcat(job.network->name, "\xc3\xa9");
    strcpy(job.plan->model, job.network->name);
    job.options.out = file_join(out, test_directory, "long");
    job.options.trace = true;
    assert_ok(ps_train(&job.options, &run, &test_error));
    ps_run_destroy(run);
    static const char *const names[] = {"trace.json", "timeline.svg"};
    for (int n = 0; n < 2; n++) {
        char path[4096], *text;
        size_t length;
        assert_ok(file_read(file_join(path, out, names[n]), SIZE_MAX, &text, &length, &test_error));
        assert_null(utf8_invalid(text, length));
        free(text);
    }
    free_job(&job);
}

/* ------------------------------------------------------------------------- observers */

struct seen {
    int steps, points, stop_at;
    struct ps_step step[12];
    struct ps_run_point point[12];
};

static int on_step(void *context, const struct ps_step *step) {
    struct seen *seen = context;
    seen->step[seen->steps] = *step;
    assert_int_equal(step->step, ++seen->steps);
    assert_int_equal(step->steps, 12);
    assert_true(isfinite(step->loss) && step->lr > 0);
    return seen->steps == seen->stop_at;
}

static int on_point(void *context, const struct ps_run_point *point) {
    struct seen *seen = context;
    seen->point[seen->points++] = *point;
    assert_true(isfinite(point->valid_loss));
    return 0;
}

/* The run's log: a line for each step. */
static void read_lines(const char *run_dir, json_t *lines[12]) {
    char path[4096], line[2048];
    FILE *file = fopen(file_join(path, run_dir, "log.jsonl"), "r");
    assert_non_null(file);
    for (int i = 0; i < 12; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        lines[i] = json_loads(line, 0, NULL);
        assert_non_null(lines[i]);
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

static double number(const json_t *line, const char *field) {
    const json_t *value = json_object_get(line, field);
    if (!json_is_number(value)) fail_msg("no number %s", field);
    return json_number_value(value);
}

/* The log has nine digits. */
static void assert_logged(const json_t *line, const char *field, double value) {
    assert_within(number(line, field), value, 1e-8 * (1 + fabs(value)));
}

/* What the observer is told of each step is what the log says of it. The speed of a line is that of its own steps, since the
 * line before. */
static void test_steps_told(void **state) {
    (void)state;
    char out[4096];
    struct job_objects job;
    struct seen seen = {0};
    const struct ps_observer observer = {.struct_size = sizeof observer, .context = &seen, .step = on_step, .point = on_point};
    struct ps_run *run;
    json_t *lines[12];
    make_job("1f1b-async", "stash", 2, &job);
    job.options.valid = job.data;
    job.options.lr_schedule = "poly:1";
    job.options.warmup_steps = 2;
    job.options.observer = &observer;
    job.options.out = file_join(out, test_directory, "told");
    assert_ok(ps_train(&job.options, &run, &test_error));
    read_lines(out, lines);
    for (int s = 0; s < 12; s++) {
        const struct ps_step *told = &seen.step[s];
        assert_int_equal(told->epoch, s < 8 ? 1 : 2);
        assert_within(told->lr, 0.05 * (s < 2 ? (s + 1) / 2.0 : 1 - (s - 2) / 10.0), 1e-12);
        assert_true(told->accuracy >= 0 && told->accuracy <= 1);
        assert_int_equal((int)number(lines[s], "step"), s + 1);
        assert_int_equal((int)number(lines[s], "epoch"), told->epoch);
        assert_logged(lines[s], "loss", told->loss);
        assert_logged(lines[s], "accuracy", told->accuracy);
        assert_logged(lines[s], "lr", told->lr);
        /* Neither the first of an epoch, nor its last, which has the epoch's speed. */
        if (s % 8 == 0 || s == 7 || s == 11) continue;
        const double seconds = number(lines[s], "elapsed_s") - number(lines[s - 1], "elapsed_s");
        assert_within(6 / number(lines[s], "samples_per_s"), seconds, 1e-7 * (1 + number(lines[s], "elapsed_s")));
    }
    assert_int_equal(seen.points, 2);
    for (int p = 0; p < 2; p++) {
        const struct ps_run_point *told = &seen.point[p], kept = ps_run_point(run, p);
        const json_t *line = lines[p == 0 ? 7 : 11];
        double sum = 0;
        for (int s = p == 0 ? 0 : 8; s < (p == 0 ? 8 : 12); s++) sum += seen.step[s].loss;
        assert_int_equal(told->step, p == 0 ? 8 : 12);
        assert_int_equal(told->epoch, p + 1);
        assert_within(told->loss, sum / (p == 0 ? 8 : 4), 1e-6);
        assert_logged(line, "epoch_loss", told->loss);
        assert_logged(line, "epoch_accuracy", told->accuracy);
        assert_logged(line, "valid_loss", told->valid_loss);
        assert_logged(line, "valid_accuracy", told->valid_accuracy);
        assert_logged(line, "training_s", told->training_s);
        assert_logged(line, "samples_per_s",
                      p == 0 ? 48 / told->training_s : 24 / (told->training_s - seen.point[0].training_s));
        assert_true(told->step == kept.step && told->epoch == kept.epoch && told->loss == kept.loss);
        assert_true(told->accuracy == kept.accuracy && told->valid_loss == kept.valid_loss);
        assert_true(told->valid_accuracy == kept.valid_accuracy && told->training_s == kept.training_s);
    }
    for (int i = 0; i < 12; i++) json_decref(lines[i]);
    ps_run_destroy(run);
    free_job(&job);
}

static void test_observer(void **state) {
    (void)state;
    struct job_objects job;
    struct seen seen = {0};
    struct ps_observer observer = {.struct_size = sizeof observer, .context = &seen, .step = on_step, .point = on_point};
    struct ps_run *run;
    make_job("1f1b-async", "pipeoptim", 2, &job);
    job.options.valid = job.data;
    job.options.evaluate_every = 3;
    job.options.observer = &observer;
    assert_ok(ps_train(&job.options, &run, &test_error));
    assert_int_equal(seen.steps, 12);
    assert_int_equal(seen.points, ps_run_point_count(run));
    ps_run_destroy(run);
    seen = (struct seen){.stop_at = 5};
    assert_status(ps_train(&job.options, &run, &test_error), PS_STOPPED, "stopped on request");
    observer.struct_size = 8;
    assert_status(ps_train(&job.options, &run, &test_error), PS_USAGE, "8 bytes are no ps_observer");
    free_job(&job);
}

struct followed {
    int count, trained, evaluated, between; /* lines in all; the last step; whether the evaluation at the end has ended */
    double share;
};

/* What a training of 12 steps says while it goes on, with an evaluation after 8 steps and one at its end. */
static void see_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct followed *progress = context;
    long long epoch, step;
    double loss, accuracy, speed;
    progress->count++;
    if (strcmp(what, "evaluating") == 0) {
        assert_int_equal(progress->trained, 12);
        assert_true(done >= 0 && done <= total && progress->evaluated == 0);
        assert_true(progress->share >= 0 || done == 0);
        assert_true(done >= progress->share);
        progress->share = done;
        progress->evaluated += done >= total;
        assert_string_equal(detail, "");
        return;
    }
    assert_string_equal(what, "training");
    assert_true(total == 12 && done >= progress->trained && progress->evaluated == 0);
    progress->trained = (int)done;
    if (strncmp(detail, "evaluating, ", 12) == 0) {
        double share;
        assert_int_equal(progress->trained, 8);
        assert_int_equal(sscanf(detail, "evaluating, %lf%% done", &share), 1);
        assert_true(progress->between > 0 ? share >= progress->share && share <= 100 : share == 0);
        progress->share = share;
        progress->between++;
        return;
    }
    if (detail[0] == '\0') return;
    assert_int_equal(sscanf(detail, "epoch %lld, step %lld: loss %lf, accuracy %lf%%; %lf samples/s", &epoch, &step, &loss,
                            &accuracy, &speed),
                     5);
    assert_int_equal(step, progress->trained);
    assert_int_equal(epoch, (step - 1) / 8 + 1);
    assert_true(loss > 0 && accuracy >= 0 && accuracy <= 100 && speed > 0);
    if (step == 12) progress->share = -1;
}

static void test_progress(void **state) {
    (void)state;
    struct job_objects job;
    struct followed progress = {.share = -1};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &progress, .progress = see_progress};
    struct ps_run *run;
    make_job("1f1b", "sync", 2, &job);
    job.options.valid = job.data;
    job.options.log = &sink;
    assert_ok(ps_train(&job.options, &run, &test_error));
    assert_int_equal(progress.trained, 12);
    assert_int_equal(progress.evaluated, 1);
    assert_true(progress.between > 0);
    ps_run_destroy(run);
    free_job(&job);
}

/* ------------------------------------------------------------------------ own data */

static void test_broken_data(void **state) {
    (void)state;
    struct job_objects job;
    struct ps_run *run;
    make_job("1f1b", "sync", 2, &job);
    job.own.broken = 17;
    assert_status(ps_train(&job.options, &run, &test_error), PS_IO, "data 'own': sample 17: the tape is torn");
    assert_int_equal(job.own.opened, job.own.closed);
    free_job(&job);

    struct ps_dataset_source source;
    struct ps_dataset *dataset;
    ps_dataset_source_init(&source);
    assert_status(ps_dataset_create(&source, &dataset, &test_error), PS_USAGE, "name: ");
    source.struct_size = 3;
    assert_status(ps_dataset_create(&source, &dataset, &test_error), PS_USAGE, "struct_size: 3 bytes");
}

/* Opened for a network a dataset says at once what is wrong, and how large it is; lent to two uses it stays open. */
static void test_opened_data(void **state) {
    (void)state;
    struct job_objects job;
    struct ps_dataset_options options = {.struct_size = sizeof options};
    struct ps_dataset *data;
    struct ps_run *run;
    make_job("1f1b", "sync", 2, &job);
    options.network = job.network;
    assert_status(ps_dataset_open("synthetic:images,channels=3", &options, &data, &test_error), PS_USAGE, "3 channels");
    assert_status(ps_dataset_open("idxx:data", NULL, &data, &test_error), PS_USAGE,
                  "data format: 'idxx' is not known; did you mean 'idx'?");
    assert_status(ps_dataset_open("idx:", NULL, &data, &test_error), PS_USAGE, "something must follow the format, as in idx:");
    assert_status(ps_dataset_open("idx:data@5-2", NULL, &data, &test_error), PS_USAGE, "the range @5-2 is empty");
    assert_ok(ps_dataset_open("synthetic:images,samples=30", &options, &data, &test_error));
    assert_int_equal(ps_dataset_samples(data), 30);
    assert_int_equal(ps_dataset_samples(job.data), SAMPLES);
    job.options.data = job.options.valid = data;
    for (int i = 0; i < 2; i++) {
        assert_ok(ps_train(&job.options, &run, &test_error));
        ps_run_destroy(run);
    }
    ps_dataset_destroy(data);
    assert_ok(ps_dataset_open("synthetic:images", NULL, &data, &test_error));
    assert_int_equal(ps_dataset_samples(data), -1);
    ps_dataset_destroy(data);
    free_job(&job);
}

/* ----------------------------------------------------------- logs, several trainings */

struct lines {
    atomic_int count;
    const char *wanted;
};

static void count_lines(void *context, enum ps_log_level level, const char *text) {
    struct lines *lines = context;
    struct ps_network *model;
    (void)level, (void)text;
    lines->count++;
    /* A sink may use the library. */
    assert_ok(ps_network_open("lenet5,input=16", &model, NULL));
    ps_network_destroy(model);
}

struct thread_job {
    struct job_objects job;
    struct ps_log_sink log;
    struct lines lines;
    enum ps_status status;
    struct ps_error error;
    double loss;
    pthread_t thread;
};

static void *train_in_thread(void *argument) {
    struct thread_job *own = argument;
    struct ps_run *run;
    own->status = ps_train(&own->job.options, &run, &own->error);
    if (own->status != PS_OK) return NULL;
    own->loss = ps_run_info(run).loss;
    ps_run_destroy(run);
    return NULL;
}

/* Two trainings at the same time in two threads, each with a log of its own, come to what each comes to alone. */
static void test_two_at_once(void **state) {
    (void)state;
    struct thread_job jobs[2];
    struct ps_run *run;
    double alone[2];
    struct lines others = {0};
    struct ps_log_sink of_program = {
        .struct_size = sizeof of_program, .context = &others, .level = PS_LOG_DEBUG, .line = count_lines};
    for (int j = 0; j < 2; j++) {
        make_job(j == 0 ? "1f1b" : "1f1b-async", j == 0 ? "sync" : "stash", 2, &jobs[j].job);
        assert_ok(ps_train(&jobs[j].job.options, &run, &test_error));
        alone[j] = ps_run_info(run).loss;
        ps_run_destroy(run);
        jobs[j].lines = (struct lines){0};
        jobs[j].log = (struct ps_log_sink){.struct_size = sizeof jobs[j].log,
                                           .context = &jobs[j].lines,
                                           .level = j == 0 ? PS_LOG_DEBUG : PS_LOG_ERROR,
                                           .line = count_lines};
        jobs[j].job.options.log = &jobs[j].log;
    }
    assert_ok(ps_log_to(&of_program, &test_error));
    for (int j = 0; j < 2; j++) assert_int_equal(pthread_create(&jobs[j].thread, NULL, train_in_thread, &jobs[j]), 0);
    for (int j = 0; j < 2; j++) pthread_join(jobs[j].thread, NULL);
    assert_ok(ps_log_to(NULL, &test_error));
    for (int j = 0; j < 2; j++) {
        assert_int_equal(jobs[j].status, PS_OK);
        assert_true(jobs[j].loss == alone[j]);
        free_job(&jobs[j].job);
    }
    assert_true(jobs[0].lines.count > 0);
    assert_int_equal(jobs[1].lines.count, 0); /* there was no error */
    assert_int_equal(others.count, 0);
}

/* A program that was built with an earlier header, and one with a later: what it does not know is not touched, what the library
 * does not know is refused in options and 0 in results. */
static void test_sizes(void **state) {
    (void)state;
    struct {
        struct ps_plan_info info;
        char behind[16];
    } larger;
    struct job_objects job;
    char small[sizeof(struct ps_plan_info)];
    make_job("1f1b", "sync", 2, &job);
    memset(small, 7, sizeof small);
    ps_plan_info_get(job.plan, (struct ps_plan_info *)(void *)small, sizeof(char *));
    assert_string_equal(*(const char **)(void *)small, network_spec);
    assert_int_equal(small[sizeof(char *)], 7);
    memset(&larger, 7, sizeof larger);
    ps_plan_info_get(job.plan, &larger.info, sizeof larger);
    assert_int_equal(larger.info.workers, 2);
    assert_int_equal(larger.behind[0], 0);
    struct ps_run *run;
    job.options.struct_size += 8;
    assert_status(ps_train(&job.options, &run, &test_error), PS_USAGE, "struct_size: ");
    job.options.struct_size = 0;
    assert_status(ps_train(&job.options, &run, &test_error), PS_USAGE, "are no ps_train_options");
    free_job(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),         cmocka_unit_test(test_whole),       cmocka_unit_test(test_data_without_loss),
        cmocka_unit_test(test_evaluate),      cmocka_unit_test(test_parameters),  cmocka_unit_test(test_save),
        cmocka_unit_test(test_steps_told),    cmocka_unit_test(test_statistics),  cmocka_unit_test(test_progress),
        cmocka_unit_test(test_observer),      cmocka_unit_test(test_broken_data), cmocka_unit_test(test_opened_data),
        cmocka_unit_test(test_two_at_once),   cmocka_unit_test(test_sizes),       cmocka_unit_test(test_finish_early),
        cmocka_unit_test(test_long_name),     cmocka_unit_test(test_replaced),    cmocka_unit_test(test_many_checkpoints),
        cmocka_unit_test(test_to_evaluation),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
