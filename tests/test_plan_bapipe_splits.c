/* Which layers BaPipe splits inside: the boundaries at the ideal time, on LeNet-5 with made-up costs. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/model.h"
#include "plan/bapipe.h"

struct setting {
    struct ps_network *model;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct partition_problem problem;
};

/* `seconds` per layer, 0 for those behind. */
static void start(struct setting *setting, const char *model, const double *seconds, int given, int workers,
                  double bandwidth_bytes_per_s) {
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = workers, .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
    assert_ok(ps_network_open(model, &setting->model, &test_error));
    assert_ok(ps_cluster_uniform(&options, &setting->cluster, &test_error));
    int layers = setting->model->graph->layer_count;
    assert_ok(profile_create(1, layers, &setting->profile, &test_error));
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &setting->profile->tables[0].layers[l];
        if (l < given) layer->time.forward_s = seconds[l];
        if (l < layers - 1) layer->size.output_bytes = layer->size.value_bytes = 1000;
    }
    setting->problem =
        (struct partition_problem){.costs = &setting->profile->tables[0], .cluster = setting->cluster, .stages = workers};
}

static void end(struct setting *setting) {
    ps_network_destroy(setting->model);
    ps_profile_destroy(setting->profile);
    ps_cluster_destroy(setting->cluster);
}

static void assert_splits(struct setting *setting, const char *expected) {
    struct text splits = {0};
    assert_ok(bapipe_splits(&setting->problem, setting->model->graph, &splits, &test_error));
    char *made = text_take(&splits), spec[256];
    assert_string_equal(made, expected);
    if (*made != '\0') {
        struct ps_network *split;
        snprintf(spec, sizeof spec, "%s,split=%s", setting->model->name, made);
        assert_ok(ps_network_open(spec, &split, &test_error)); /* the network takes it */
        ps_network_destroy(split);
    }
    free(made);
}

/* conv1 (6 channels), pool1, conv2 (16), pool2, fc1 (120), fc2, fc3. */
static void boundaries(void **state) {
    (void)state;
    static const struct {
        double seconds[7], bandwidth_bytes_per_s;
        int workers;
        const char *splits;
    } cases[] = {
        {{1, 0, 8, 0, 1, 0, 0}, 0, 2, "conv2:8"},
        {{1, 0, 7, 0, 2, 0, 0}, 0, 2, "conv2:9"},                              /* 4 / 7 of 16 */
        {{3, 0, 10, 0, 3, 0, 0}, 0, 4, "conv2:2+conv2[2:16]:6+conv2[8:16]:6"}, /* 0.1, 0.5 and 0.9 of 16 */
        {{5, 0, 4, 0, 1, 0, 0}, 0, 2, ""},                                     /* between layers already */
        {{1, 8, 1, 0, 0, 0, 0}, 0, 2, ""},                                     /* in a pooling layer */
        {{1, 0, 8, 0, 1, 0, 0}, 400, 2, ""}, /* 1500 bytes there and back: 7.5 s for T of 5 s */
        {{1, 0, 8, 0, 1, 0, 0}, 4000, 2, "conv2:8"},
        {{0, 0, 3, 0, 9, 0, 0}, 0, 3, "fc1:13+fc1[13:120]:54"}, /* T is 4: 1 / 9 and 5 / 9 of 120 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setting setting;
        start(&setting, "lenet5", cases[i].seconds, 7, cases[i].workers, cases[i].bandwidth_bytes_per_s);
        assert_splits(&setting, cases[i].splits);
        end(&setting);
    }
}

static void unlike_workers(void **state) {
    (void)state;
    struct setting setting;
    start(&setting, "lenet5", (double[]){1, 0, 8, 0, 1, 0, 0}, 7, 2, 0);
    setting.cluster->devices[0].speed = 3;
    assert_splits(&setting, "conv2:13"); /* 7.5 of 10: 6.5 / 8 of 16 */
    end(&setting);
}

/* Of many channels a multiple of 16 goes before the boundary. */
static void whole_vectors(void **state) {
    (void)state;
    struct setting setting;
    start(&setting, "alexnet", (double[]){4, 0, 10}, 3, 2, 0);
    assert_splits(&setting, "features.3:64"); /* 3 / 10 of 192 are 57.6 */
    end(&setting);
}

/* An attention at a number of heads, a recurrent layer nowhere. */
static void other_layers(void **state) {
    (void)state;
    struct setting setting;
    start(&setting, "gpt2,layers=1,width=12,heads=3,seq=4,vocab=9", (double[]){0, 0, 1, 6, 3}, 5, 2, 0);
    assert_splits(&setting, "transformer.h.0.attn:2"); /* 4 / 6 of 3 heads */
    end(&setting);
    start(&setting, "residual_lstm,hidden=4,seq=4", (double[]){1, 8, 1}, 3, 2, 0);
    assert_splits(&setting, "");
    end(&setting);
}

static void another_network(void **state) {
    (void)state;
    struct setting setting;
    struct text splits = {0};
    start(&setting, "lenet5", (double[]){1}, 1, 2, 0);
    ps_network_destroy(setting.model);
    assert_ok(ps_network_open("alexnet", &setting.model, &test_error));
    assert_status(bapipe_splits(&setting.problem, setting.model->graph, &splits, &test_error), PS_USAGE, "layers");
    end(&setting);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries),   cmocka_unit_test(unlike_workers),  cmocka_unit_test(whole_vectors),
        cmocka_unit_test(other_layers), cmocka_unit_test(another_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
