/*
 * The watchdog against real threads: one that hangs in a call is found, one that computes, reads or goes on is not, however
 * long it takes; and training through slow layers under a patience that is much shorter than they are.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "descriptors.h"
#include "exec/watchdog.h"
#include "run_support.h"

#define PATIENCE_S 0.4
#define LOOK_S 0.02
/* Long enough for the watchdog to bite several times. */
#define MUCH_LONGER_S (5 * PATIENCE_S)

enum { WORKERS = 3 };

static struct progress progress[WORKERS];
static atomic_bool over;

/* Looks until a worker is found or the time is up. */
static int watch(double seconds, bool alone) {
    struct watchdog watchdog;
    assert_ok(watchdog_create(WORKERS, PATIENCE_S, &watchdog, &test_error));
    watchdog_start(&watchdog);
    int found = -1;
    for (double until = clock_now() + seconds; found < 0 && clock_now() < until; clock_sleep(LOOK_S))
        found = watchdog_look(&watchdog, progress, 0, WORKERS, alone);
    if (found >= 0) assert_true(watchdog.still_s >= PATIENCE_S);
    watchdog_free(&watchdog);
    return found;
}

static void place_all(enum progress_kind one, enum progress_kind others) {
    for (int w = 0; w < WORKERS; w++) progress_note(&progress[w], 7, w == 1 ? one : others);
}

static void test_hanging(void **state) {
    (void)state;
    const int descriptors = open_descriptors();
    place_all(PROGRESS_WORKING, PROGRESS_WAITING);
    assert_int_equal(watch(20, true), 1);
    place_all(PROGRESS_WORKING, PROGRESS_DONE);
    assert_int_equal(watch(20, false), 1);
    /* All wait: for each other, where nobody is elsewhere. */
    place_all(PROGRESS_WAITING, PROGRESS_WAITING);
    assert_int_equal(watch(20, true), 0);
    assert_int_equal(watch(MUCH_LONGER_S, false), -1);
    place_all(PROGRESS_DONE, PROGRESS_DONE);
    assert_int_equal(watch(MUCH_LONGER_S, true), -1);
    assert_int_equal(open_descriptors(), descriptors);
}

/* What another thread does while the places stand still. */
static void *compute(void *argument) {
    volatile double number = 1;
    while (!atomic_load(&over))
        for (int i = 0; i < 1000; i++) number = number * 1.0000001;
    return argument;
}

/* Sparingly: a megabyte now and then. */
static void *read_slowly(void *argument) {
    static char data[1 << 20];
    int zero = open("/dev/zero", O_RDONLY);
    while (!atomic_load(&over)) {
        assert_int_equal(read(zero, data, sizeof data), sizeof data);
        clock_sleep(PATIENCE_S / 4);
    }
    close(zero);
    return argument;
}

static void *move(void *argument) {
    for (int next = 8; !atomic_load(&over); next++) {
        clock_sleep(PATIENCE_S / 4);
        progress_note(&progress[2], next, PROGRESS_WORKING);
    }
    return argument;
}

/* In a function of the program's, which does not return for now. */
static void *wait_in_given(void *argument) {
    thread_enter_given();
    while (!atomic_load(&over)) clock_sleep(PATIENCE_S / 4);
    thread_leave_given();
    return argument;
}

static void test_busy(void **state) {
    (void)state;
    void *(*const busy[])(void *) = {compute, read_slowly, move, wait_in_given};
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++) {
        pthread_t thread;
        place_all(PROGRESS_WORKING, PROGRESS_WAITING);
        atomic_store(&over, false);
        assert_int_equal(pthread_create(&thread, NULL, busy[i], NULL), 0);
        int found = watch(MUCH_LONGER_S, true);
        atomic_store(&over, true);
        pthread_join(thread, NULL);
        assert_int_equal(found, -1);
        /* And when it is over, it is noticed. */
        place_all(PROGRESS_WORKING, PROGRESS_WAITING);
        assert_int_equal(watch(20, true), 1);
    }
}

/* How much the other threads must have done not to be held for stalled: each of these by itself, and where it begins. */
static void test_effort(void **state) {
    (void)state;
    static const struct {
        double computed_s;
        int64_t read_bytes, page_faults;
        int ready;
        bool stalled;
    } cases[] = {{0, 0, 0, 0, true},  {0.05, 0, 0, 0, false}, {0, 64 << 10, 0, 0, true}, {0, 65 << 10, 0, 0, false},
                 {0, 0, 1, 0, false}, {0, 0, 0, 10, true},    {0, 0, 0, 11, false},      {-0.05, -9999, -1, 0, true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct watchdog watchdog;
        place_all(PROGRESS_WORKING, PROGRESS_WAITING);
        assert_ok(watchdog_create(WORKERS, PATIENCE_S, &watchdog, &test_error));
        watchdog_start(&watchdog);
        for (int look = 0; look < 2; look++) {
            clock_sleep(0.001);
            assert_int_equal(watchdog_look(&watchdog, progress, 0, WORKERS, true), -1);
        }
        /* As if it had looked until the patience is about to end, and the others had begun with less. */
        watchdog.still_s = PATIENCE_S;
        watchdog.samples = 20;
        watchdog.ready = cases[c].ready;
        watchdog.effort.computed_s -= cases[c].computed_s;
        watchdog.effort.read_bytes -= cases[c].read_bytes;
        watchdog.effort.page_faults -= cases[c].page_faults;
        watchdog.looked_at = clock_now();
        assert_int_equal(watchdog_look(&watchdog, progress, 0, WORKERS, true), cases[c].stalled ? 1 : -1);
        assert_true((watchdog.still_s == 0) == !cases[c].stalled);
        watchdog_free(&watchdog);
    }
}

/* Whichever worker goes on, all are given their whole patience again. */
static void test_each_that_moves(void **state) {
    (void)state;
    for (int mover = 0; mover < WORKERS; mover++) {
        struct watchdog watchdog;
        place_all(PROGRESS_WORKING, PROGRESS_WAITING);
        assert_ok(watchdog_create(WORKERS, PATIENCE_S, &watchdog, &test_error));
        watchdog_start(&watchdog);
        for (int turn = 0; turn < 2; turn++) {
            progress_note(&progress[mover], 8 + turn, mover == 1 ? PROGRESS_WORKING : PROGRESS_WAITING);
            watchdog.still_s = PATIENCE_S;
            watchdog.effort = (struct effort){1e9, INT64_MAX, INT64_MAX}; /* nothing was done since */
            assert_int_equal(watchdog_look(&watchdog, progress, 0, WORKERS, true), -1);
            assert_true(watchdog.still_s == 0);
        }
        watchdog.still_s = PATIENCE_S;
        watchdog.effort = (struct effort){1e9, INT64_MAX, INT64_MAX};
        assert_int_equal(watchdog_look(&watchdog, progress, 0, WORKERS, true), 1);
        watchdog_free(&watchdog);
    }
}

/* Nobody looked: the process itself was stopped. */
static void test_stopped_itself(void **state) {
    (void)state;
    struct watchdog watchdog;
    place_all(PROGRESS_WORKING, PROGRESS_WAITING);
    assert_ok(watchdog_create(WORKERS, 2 * PATIENCE_S, &watchdog, &test_error));
    watchdog_start(&watchdog);
    for (int look = 0; look < 3; look++) {
        assert_int_equal(watchdog_look(&watchdog, progress, 0, WORKERS, true), -1);
        clock_sleep(2.5 * PATIENCE_S);
    }
    watchdog_free(&watchdog);
}

/* Seconds that the first worker computes for in one step under the watchdog. */
static double busy_in_step(struct ps_trainer *trainer, double patience_s) {
    double before_s = trainer->executor->workers[0].totals.busy_s;
    trainer->executor->watchdog.patience_s = patience_s;
    struct segment segment = {.programs = trainer->programs.entries[0].programs, .training = true};
    assert_ok(executor_run(trainer->executor, &segment, NULL, NULL, &test_error));
    return trainer->executor->workers[0].totals.busy_s - before_s;
}

/* Layers that take many times the patience of the watchdog (on most machines: it looks twenty times a second), on a device that
 * computes them in plain C. */
static void test_slow_layers(void **state) {
    (void)state;
    char directory[4096], plan_path[4096];
    struct run_case wanted = run_case_complete((struct run_case){
        .model = "vgg16,input=32,classes=4", .workers = 2, .micro_batch = 1, .steps = 1, .data = "synthetic:images,samples=1"});
    struct training options = run_case_planned(&wanted, directory, plan_path);
    struct training_objects objects;
    struct ps_trainer *trainer;
    assert_ok(training_open(&options, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    double unwatched_s = busy_in_step(trainer, 0), watched_s = busy_in_step(trainer, fmax(unwatched_s / 10, 0.1));
    print_message("a forward and a backward took %.2f s, and %.2f s when watched\n", unwatched_s, watched_s);
    ps_trainer_destroy(trainer);
    training_close(&objects);
    test_directory_remove(directory);
}

static enum ps_status read_late(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error) {
    (void)context, (void)error;
    clock_sleep(PATIENCE_S);
    if (input) memset(input, 0, 16 * 16 * sizeof(float));
    *labels = (int32_t)(sample % 4);
    return PS_OK;
}

/* A mini-batch of a dataset of the program's that takes several times the patience, and neither computes nor reads a file. */
static void test_slow_dataset(void **state) {
    (void)state;
    struct ps_dataset_source source;
    struct ps_cluster_options one;
    struct ps_train_options options;
    struct ps_network *network;
    struct ps_dataset *data;
    struct ps_trainer *trainer;
    ps_dataset_source_init(&source);
    source.name = "late";
    source.samples = 32;
    source.input_shape[0] = 1;
    source.input_shape[1] = source.input_shape[2] = 16;
    source.classes = 4;
    source.read = read_late;
    ps_cluster_options_init(&one);
    ps_train_options_init(&options);
    assert_ok(ps_network_open("lenet5,input=16,classes=4", &network, &test_error));
    assert_ok(ps_dataset_create(&source, &data, &test_error));
    options.network = network;
    options.machines = &one;
    options.data = data;
    options.batch = 8;
    options.steps = 4;
    assert_ok(ps_trainer_create(&options, &trainer, &test_error));
    trainer->executor->watchdog.patience_s = PATIENCE_S;
    assert_ok(ps_trainer_step(trainer, 4, &test_error));
    ps_trainer_destroy(trainer);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hanging),         cmocka_unit_test(test_busy),           cmocka_unit_test(test_effort),
        cmocka_unit_test(test_each_that_moves), cmocka_unit_test(test_stopped_itself), cmocka_unit_test(test_slow_layers),
        cmocka_unit_test(test_slow_dataset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
