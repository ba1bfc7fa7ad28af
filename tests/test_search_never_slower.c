/* Methods that contain others are never slower (never_slower.h). */
#include "never_slower.h"

static void on_random(void **state) {
    (void)state;
    never_slower_on_random(44);
}

static void on_real(void **state) {
    (void)state;
    never_slower_on_real(14);
}

/* Found by trials: with codecs, the fastest plan on links that are faster by what they save is not the fastest. */
static void on_wires(void **state) {
    (void)state;
    never_slower_for(random_key(4711, RANDOM_TEST, 9000 + 63, 0), "seed 4711, round 63");
}

static struct ps_profile *read_profile(const char *name) {
    char path[4096];
    struct ps_profile *profile;
    assert_ok(ps_profile_read(test_data(name, path), &profile, &test_error));
    return profile;
}

/* Found by trials: what is left free at one of alike workers may be left free at another. */
static void on_orders(void **state) {
    (void)state;
    static const struct {
        const char *profile;
        int workers;
        int64_t memory;
        double bandwidth;
        const char *weights;
    } found[] = {{"profiles/chains/vgg-19-pbs-32.chain", 5, 3667466452, 0, "stash"},
                 {"profiles/dapple/gnmt-16-pbs-64.txt", 7, 1312800000, 12e9, NULL},
                 {"profiles/dapple/gnmt-16-pbs-64.txt", 9, 1164693075, 12e9, NULL},
                 {"profiles/dapple/gnmt-16-pbs-64.txt", 12, 1310279710, 12e9, NULL}};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        struct ps_profile *profile = read_profile(found[i].profile);
        struct ps_cluster *cluster = make_cluster(found[i].workers, found[i].memory, found[i].bandwidth);
        check_never_slower(profile, cluster, "auto", found[i].weights, NULL, "found");
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

static struct plan_prediction predict(const struct ps_profile *profile, int workers, int64_t memory,
                                      const struct ps_plan_options *options) {
    struct ps_cluster *cluster = make_cluster(workers, memory, 12e9);
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster, options, &plan, &test_error));
    const struct plan_prediction predicted = plan->predicted;
    assert_true(predicted.simulated);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    return predicted;
}

/* With more memory the plan of `bipartition` is no slower here, and its bound, also of what `pipedream` found, not above what
 * it found with less. */
static void on_more_memory(void **state) {
    (void)state;
    static const int64_t memory[] = {1048223768, 1164693075, 1310279710, 1400000000, 1700000000};
    const struct ps_plan_options options = {.struct_size = sizeof options, .method = "bipartition"};
    struct ps_profile *profile = read_profile("profiles/dapple/gnmt-16-pbs-64.txt");
    double least_s = INFINITY;
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        const struct plan_prediction predicted = predict(profile, 12, memory[i], &options);
        if (fmax(predicted.period_s, predicted.lower_bound_s) > least_s * (1 + 1e-9))
            fail_msg("%lld bytes: a period of %.9g s and a bound of %.9g s, with less %.9g s", (long long)memory[i],
                     predicted.period_s, predicted.lower_bound_s, least_s);
        least_s = predicted.period_s;
    }
    ps_profile_destroy(profile);
}

/* Stages that recompute where memory needs it: more workers are never slower. ResNet-50 of images of 1000 x 1000, on V100s. */
static void on_more_workers(void **state) {
    (void)state;
    static const char chain[] = "20 0\n"
                                "2.5 2.5 38144 512000000 512000000\n"
                                "0.7 0.7 0 128000000 128000000\n"
                                "5.5 10.4 300032 512000000 512000000\n"
                                "5.1 9.7 281600 512000000 512000000\n"
                                "5.1 9.7 281600 512000000 512000000\n"
                                "8 15.7 1517568 256000000 256000000\n"
                                "4.8 9.3 1120256 256000000 256000000\n"
                                "4.8 9.3 1120256 256000000 256000000\n"
                                "4.8 9.3 1120256 256000000 256000000\n"
                                "7.9 15.6 6049792 130056192 130056192\n"
                                "4.7 9.3 4468736 130056192 130056192\n"
                                "4.7 9.3 4468736 130056192 130056192\n"
                                "4.7 9.3 4468736 130056192 130056192\n"
                                "4.7 9.3 4468736 130056192 130056192\n"
                                "4.7 9.3 4468736 130056192 130056192\n"
                                "8 15.9 24158208 67108864 67108864\n"
                                "4.8 9.5 17850368 67108864 67108864\n"
                                "4.8 9.5 17850368 67108864 67108864\n"
                                "0.1 0.1 0 65536 65536\n"
                                "0.03 0.06 8196032 0 0\n";
    struct ps_plan_options options;
    char path[4200];
    struct ps_profile *profile;
    double least_s = INFINITY;
    ps_plan_options_init(&options);
    options.method = "auto";
    options.weights = "stash";
    options.micro_batches = 1;
    options.optimizer = "sgd";
    file_join(path, test_directory, "resnet50.chain");
    test_file_write(path, chain, sizeof chain - 1);
    assert_ok(ps_profile_read(path, &profile, &test_error));
    for (int workers = 5; workers <= 8; workers++) {
        const double period_s = predict(profile, workers, 6000000000, &options).period_s;
        if (period_s > least_s) fail_msg("%d workers: %.9g s, with fewer %.9g s", workers, period_s, least_s);
        least_s = period_s;
    }
    ps_profile_destroy(profile);
}

/* Found by trials. */
static const struct {
    struct ps_cluster_options machines;
    const char *schedule, *weights;
    const char *profile;
} found[] = {
    /* chimera on an odd number of workers, of which two are enough, with a limit of memory */
    {{.workers = 7, .memory_bytes = 84277869, .bandwidth_bytes_per_s = 40481817},
     "chimera",
     NULL,
     "4 0\n"
     "17.476 54.521 0 4086 4086\n"
     "12.606 21.497 865236 2987647 2987647\n"
     "2.666 6.096 1294132 13206548 13206548\n"
     "12.677 30.891 0 9469486 9469486\n"},
    /* batches leave at uneven times, and how many were simulated followed from the idle workers, too */
    {{.workers = 7, .memory_bytes = 506105951, .bandwidth_bytes_per_s = 40345592, .latency_s = 1e-3, .streaming = true},
     "1f1b-async",
     NULL,
     "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000\n"
     "node2 -- LSTM(8, 8) -- forward_compute_time=11.858, backward_compute_time=19.176, activation_size=1954079.0, "
     "parameter_size=8749141.000\n"
     "node3 -- LSTM(8, 8) -- forward_compute_time=0.302, backward_compute_time=0.854, activation_size=1954079.0, "
     "parameter_size=2804676.000\n"
     "node4 -- LSTM(8, 8) -- forward_compute_time=8.540, backward_compute_time=23.450, activation_size=1954079.0, "
     "parameter_size=243762.000\n"
     "node5 -- LSTM(8, 8) -- forward_compute_time=1.986, backward_compute_time=2.574, activation_size=1954079.0, "
     "parameter_size=1915241.000\n"
     "node6 -- Input1 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000\n"
     "node7 -- Embedding(3, 3) -- forward_compute_time=0.050, backward_compute_time=2.200, activation_size=1954079.0, "
     "parameter_size=1724822.000\n"
     "node8 -- RecurrentAttention(8) -- forward_compute_time=2.566, backward_compute_time=7.186, activation_size=3908158.0, "
     "parameter_size=7043271.000\n"
     "node9 -- LSTM(8, 8) -- forward_compute_time=8.791, backward_compute_time=15.144, activation_size=1954079.0, "
     "parameter_size=724367.000\n"
     "node10 -- LSTM(8, 8) -- forward_compute_time=3.594, backward_compute_time=3.728, activation_size=1954079.0, "
     "parameter_size=279949.000\n"
     "node11 -- LSTM(8, 8) -- forward_compute_time=12.680, backward_compute_time=2.723, activation_size=1954079.0, "
     "parameter_size=16593989.000\n"
     "node12 -- Linear(8, 32000) -- forward_compute_time=0.416, backward_compute_time=1.093, activation_size=1954079.0, "
     "parameter_size=73617778.000\n"
     "\tnode1 -- node2\n"
     "\tnode2 -- node3\n"
     "\tnode3 -- node4\n"
     "\tnode4 -- node5\n"
     "\tnode6 -- node7\n"
     "\tnode7 -- node8\n"
     "\tnode5 -- node8\n"
     "\tnode8 -- node9\n"
     "\tnode8 -- node9\n"
     "\tnode9 -- node10\n"
     "\tnode8 -- node10\n"
     "\tnode10 -- node11\n"
     "\tnode8 -- node11\n"
     "\tnode11 -- node12\n"},
};

static void on_found(void **state) {
    (void)state;
    char path[4200];
    file_join(path, test_directory, "found.txt");
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        struct ps_cluster_options machines = found[i].machines;
        struct ps_profile *profile;
        struct ps_cluster *cluster;
        machines.struct_size = sizeof machines;
        test_file_write(path, found[i].profile, strlen(found[i].profile));
        assert_ok(ps_profile_read(path, &profile, &test_error));
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        check_never_slower(profile, cluster, found[i].schedule, found[i].weights, NULL, "found");
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_random),      cmocka_unit_test(on_real),
                                       cmocka_unit_test(on_wires),       cmocka_unit_test(on_orders),
                                       cmocka_unit_test(on_more_memory), cmocka_unit_test(on_more_workers),
                                       cmocka_unit_test(on_found)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
