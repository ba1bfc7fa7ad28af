/*
 * More workers than cores: who gets the next turn, and that workers who take turns on one core or two end with the bits of
 * workers who run one after the other.
 */
#include <sched.h>

#include "exec/run_queue.h"
#include "run_support.h"

static struct run_queue *three(void) {
    struct run_queue *turns;
    assert_ok(run_queue_create(3, &turns, &test_error));
    run_queue_start(turns, 0, 3);
    return turns;
}

static void take_all(struct run_queue *turns) {
    for (int worker = 0; worker < 3; worker++) assert_int_equal(run_queue_take(turns), worker);
}

static void test_order(void **state) {
    (void)state;
    struct run_queue *turns = three();
    take_all(turns);
    run_queue_give(turns, 1, SLICE_PROGRESSED);
    run_queue_give(turns, 0, SLICE_PROGRESSED);
    run_queue_give(turns, 2, SLICE_PROGRESSED);
    assert_int_equal(run_queue_take(turns), 1);
    assert_int_equal(run_queue_take(turns), 0);
    assert_int_equal(run_queue_take(turns), 2);
    run_queue_destroy(turns);
}

/* Who waits is asked once more when another one has come on, and not before. */
static void test_waiting(void **state) {
    (void)state;
    struct run_queue *turns = three();
    take_all(turns);
    run_queue_give(turns, 0, SLICE_PROGRESSED);
    assert_int_equal(run_queue_take(turns), 0);
    run_queue_give(turns, 1, SLICE_PROGRESSED);
    run_queue_give(turns, 2, SLICE_PROGRESSED);
    assert_int_equal(run_queue_take(turns), 1);
    run_queue_give(turns, 1, SLICE_WAITS);
    assert_int_equal(run_queue_take(turns), 2);
    run_queue_give(turns, 2, SLICE_WAITS);
    run_queue_give(turns, 0, SLICE_PROGRESSED);
    assert_int_equal(run_queue_take(turns), 1);
    run_queue_destroy(turns);
}

/* Who looked before another one came on may have missed it: where that one has finished, nobody else will come on. */
static void test_missed(void **state) {
    (void)state;
    struct run_queue *turns = three();
    take_all(turns);
    run_queue_give(turns, 2, SLICE_FINISHED);
    run_queue_give(turns, 1, SLICE_FINISHED);
    run_queue_give(turns, 0, SLICE_WAITS);
    assert_int_equal(run_queue_take(turns), 0);
    run_queue_give(turns, 0, SLICE_FINISHED);
    assert_int_equal(run_queue_take(turns), -1);
    run_queue_destroy(turns);
}

static void test_stopped(void **state) {
    (void)state;
    struct run_queue *turns = three();
    take_all(turns);
    for (int worker = 0; worker < 3; worker++) run_queue_give(turns, worker, SLICE_WAITS);
    run_queue_stop(turns);
    assert_int_equal(run_queue_take(turns), -1);
    run_queue_destroy(turns);
}

/* ---------------------------------------------------------------------- runs */

/* Binds the process to so many of the cores that it may use, at most. */
static void bind_to(const cpu_set_t *usable, int cores) {
    cpu_set_t bound;
    CPU_ZERO(&bound);
    for (int core = 0, taken = 0; core < CPU_SETSIZE && taken < cores; core++) {
        if (!CPU_ISSET(core, usable)) continue;
        CPU_SET(core, &bound);
        taken++;
    }
    assert_int_equal(sched_setaffinity(0, sizeof bound, &bound), 0);
}

static void check(struct run_case wanted) {
    cpu_set_t usable;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    wanted.transport = "serial";
    struct trained oracle = run_case_weights(wanted);
    wanted.transport = "threads";
    for (int cores = 1; cores <= 2; cores++) {
        char text[160];
        bind_to(&usable, cores);
        struct trained got = run_case_weights(wanted);
        assert_int_equal(sched_setaffinity(0, sizeof usable, &usable), 0);
        print_message("%d cores: %s\n", cores, run_case_text(&wanted, text));
        assert_true(trained_equal(&got, &oracle));
        trained_free(&got);
    }
    trained_free(&oracle);
}

static void test_runs(void **state) {
    (void)state;
    check((struct run_case){.schedule = "1f1b-async", .weights = "pipeoptim", .workers = 4, .steps = 12, .evaluate_every = 5});
    check((struct run_case){.schedule = "1f1b", .workers = 5, .micro_batches = 6});
    check((struct run_case){.schedule = "interleaved", .workers = 3, .micro_batches = 3, .recompute = true});
    check((struct run_case){.schedule = "zb-h1", .workers = 3, .micro_batches = 4});
    check((struct run_case){.schedule = "1f1b-async", .weights = "stash", .replicas = {2, 1, 1}, .steps = 8});
}

static void test_split(void **state) {
    (void)state;
    const struct split_case split = {
        .layers = 7, .workers = 3, .forward = {0, 0, 1, 1, 1, 2, 2}, .backward = {0, 1, 1, 1, 2, 2, 2}};
    check((struct run_case){.schedule = "1f1b-async", .weights = "pipeoptim", .split = &split, .micro_batches = 2, .steps = 6});
}

/* Who has finished a segment is known to have, and is not taken for one that hangs: with a core for each worker, and with one.
 */
static void test_done(void **state) {
    (void)state;
    cpu_set_t usable;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    for (int cores = 1; cores <= 2; cores++) {
        char directory[4096], plan_path[4096];
        struct run_case wanted = run_case_complete((struct run_case){.workers = 2, .steps = 1});
        struct training options = run_case_planned(&wanted, directory, plan_path);
        struct training_objects objects;
        struct ps_trainer *trainer;
        bind_to(&usable, cores);
        assert_ok(training_open(&options, &objects, &test_error));
        assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
        const struct segment segment = {.programs = trainer->programs.entries[0].programs, .training = true};
        assert_ok(executor_run(trainer->executor, &segment, NULL, NULL, &test_error));
        assert_true(cores > 1 || trainer->executor->turns != NULL);
        for (int w = 0; w < 2; w++) assert_int_equal(progress_kind(&trainer->executor->progress[w]), PROGRESS_DONE);
        ps_trainer_destroy(trainer);
        training_close(&objects);
        test_directory_remove(directory);
        assert_int_equal(sched_setaffinity(0, sizeof usable, &usable), 0);
    }
}

/* Which runs take turns: those with more workers than cores, on threads of one process that compute in their own time. Others
 * have a thread for each worker, who spins where it has a core of its own, or one for all. */
static void test_who_takes_turns(void **state) {
    (void)state;
    static const struct {
        int cores, workers, threads_each;
        const char *transport;
        bool emulate, turns, spins;
        int threads;
    } cases[] = {{1, 1, 1, "threads", false, false, true, 1}, {1, 2, 1, "threads", false, true, false, 1},
                 {1, 2, 1, "serial", false, false, false, 0}, {1, 2, 1, "threads", true, false, false, 2},
                 {2, 2, 1, "threads", false, false, true, 2}, {2, 3, 1, "threads", false, true, false, 2},
                 {2, 2, 2, "threads", false, true, false, 1}, {2, 1, 2, "threads", false, false, true, 1},
                 {1, 3, 2, "threads", false, true, false, 1}, {2, 2, 1, "threads", true, false, true, 2}};
    static const char cluster[] = "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, "
                                  "{\"name\": \"b\", \"speed\": 0.5}]}";
    cpu_set_t usable;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char directory[4096], plan_path[4096], cluster_path[4096];
        if (CPU_COUNT(&usable) < cases[c].cores) continue;
        struct run_case wanted = run_case_complete(
            (struct run_case){.workers = cases[c].workers, .steps = 1, .transport = cases[c].transport, .device = "reference"});
        struct training options = run_case_planned(&wanted, directory, plan_path);
        struct training_objects objects;
        struct ps_trainer *trainer;
        options.o.threads = cases[c].threads_each;
        if (cases[c].emulate) {
            options.o.emulate = true;
            options.cluster_path = file_join(cluster_path, directory, "cluster.json");
            test_file_write(cluster_path, cluster, sizeof cluster - 1);
        }
        bind_to(&usable, cases[c].cores);
        assert_ok(training_open(&options, &objects, &test_error));
        assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
        assert_int_equal(sched_setaffinity(0, sizeof usable, &usable), 0);
        const struct executor *executor = trainer->executor;
        assert_true((executor->turns != NULL) == cases[c].turns);
        assert_true(executor->spins == cases[c].spins);
        assert_int_equal(executor->threads, cases[c].threads);
        ps_trainer_destroy(trainer);
        training_close(&objects);
        test_directory_remove(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),  cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_missed), cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_runs),   cmocka_unit_test(test_split),
        cmocka_unit_test(test_done),   cmocka_unit_test(test_who_takes_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
