/*
 * What the library leaves alone of the thread that calls it: the number of threads of its OpenMP, which the cpu device's
 * kernels need to know; and whether a process that this thread forks can train, though a fork leaves all threads of OpenMP
 * behind.
 */
#include <omp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_support.h"

enum { OWN = 3, MOST = 1 << 20 }; /* threads; numbers of one parameter */

struct caller {
    struct ps_network *network;
    struct ps_dataset *data;
    struct ps_train_options options;
};

static struct caller make_caller(int threads) {
    struct caller caller;
    static struct ps_cluster_options two;
    assert_ok(ps_network_open("lenet5,input=16,classes=4", &caller.network, &test_error));
    assert_ok(ps_dataset_open("synthetic:images,samples=48", NULL, &caller.data, &test_error));
    ps_cluster_options_init(&two);
    two.workers = 2;
    ps_train_options_init(&caller.options);
    caller.options.network = caller.network;
    caller.options.data = caller.data;
    caller.options.machines = &two;
    caller.options.batch = 8;
    caller.options.steps = 4;
    caller.options.threads = threads;
    return caller;
}

static void free_caller(struct caller *caller) {
    ps_dataset_destroy(caller->data);
    ps_network_destroy(caller->network);
}

/* A parallel region of the caller's own has the threads that it set. */
static void check_own(const char *after) {
    int threads = 0;
#pragma omp parallel
#pragma omp atomic
    threads++;
    print_message("after %s: %d\n", after, threads);
    assert_int_equal(threads, OWN);
}

static bool reads_all(struct ps_trainer *trainer) {
    static float weights[MOST];
    for (int p = 0; p < ps_trainer_info(trainer).parameters; p++) {
        const struct ps_parameter parameter = ps_trainer_parameter(trainer, p);
        size_t count = 1;
        for (int d = 0; d < parameter.rank; d++) count *= (size_t)parameter.shape[d];
        if (ps_trainer_read_parameter(trainer, parameter.name, weights, count, &test_error) != PS_OK) return false;
    }
    return true;
}

static void test_threads(void **state) {
    (void)state;
    char directory[4096], run[4096 + 8];
    test_directory_make(directory);
    snprintf(run, sizeof run, "%s/run", directory);
    omp_set_num_threads(OWN);
    for (int threads = 1; threads <= 2; threads++) {
        struct caller caller = make_caller(threads);
        struct ps_profile_options measuring;
        struct ps_profile *profile;
        struct ps_trainer *trainer;
        struct ps_evaluate_options of = {.struct_size = sizeof of, .run = run, .data = caller.data, .threads = threads};
        struct ps_evaluation evaluation;
        struct ps_check_options checking;
        struct ps_check *check;
        struct ps_run *trained;
        ps_profile_options_init(&measuring);
        measuring.micro_batches = (int[]){4};
        measuring.micro_batch_count = 1;
        measuring.threads = threads;
        measuring.quick = true;
        assert_ok(ps_profile_measure(caller.network, &measuring, &profile, &test_error));
        check_own("profile");
        assert_ok(ps_trainer_create(&caller.options, &trainer, &test_error));
        check_own("create");
        assert_ok(ps_trainer_step(trainer, 2, &test_error));
        check_own("step");
        assert_true(reads_all(trainer));
        check_own("read");
        assert_ok(ps_trainer_evaluate(trainer, caller.data, &evaluation, &test_error));
        check_own("evaluate by the trainer");
        assert_ok(ps_trainer_save(trainer, run, &test_error));
        check_own("save");
        assert_ok(ps_trainer_finish(trainer, &trained, &test_error));
        check_own("finish");
        assert_ok(ps_evaluate(&of, &evaluation, &test_error));
        check_own("evaluate");
        ps_check_options_init(&checking);
        checking.threads = threads;
        assert_ok(ps_check_run(caller.network, &checking, &check, &test_error));
        check_own("check");
        ps_check_destroy(check);
        ps_run_destroy(trained);
        ps_trainer_destroy(trainer);
        ps_profile_destroy(profile);
        free_caller(&caller);
        test_directory_remove(run);
    }
    test_directory_remove(directory);
}

/* With one thread for each worker. */
static void test_fork(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not go on in a child that starts threads */
#endif
    struct caller caller = make_caller(1);
    struct ps_run *trained;
    int status;
    omp_set_num_threads(OWN);
    check_own("nothing");
    assert_ok(ps_train(&caller.options, &trained, &test_error));
    ps_run_destroy(trained);
    const pid_t child = fork();
    if (child == 0) {
        alarm(120); /* ends a child that hangs */
        struct ps_evaluation evaluation;
        struct ps_trainer *trainer;
        bool good = ps_train(&caller.options, &trained, &test_error) == PS_OK &&
                    ps_trainer_create(&caller.options, &trainer, &test_error) == PS_OK &&
                    ps_trainer_step(trainer, 1, &test_error) == PS_OK;
        omp_set_num_threads(OWN);
        good = good && reads_all(trainer) && ps_trainer_evaluate(trainer, caller.data, &evaluation, &test_error) == PS_OK;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    free_caller(&caller);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_fork)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
