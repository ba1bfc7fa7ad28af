/* What the tests of stages share: a network with every kind of connection, data, and a step of training. */
#ifndef PENSTOCK_TESTS_STAGE_SUPPORT_H
#define PENSTOCK_TESTS_STAGE_SUPPORT_H

#include "chain.h"
#include "graph/model.h"

static const int32_t labels[16] = {1, 0, 3, 2, 4, 1, 0, 2, 3, 1, 4, 2, 1, 0, 3, 2};

static inline struct stage_step training_step(int micro_batch) {
    return (struct stage_step){.seed = 5,
                               .step = 11,
                               .micro_batch = micro_batch,
                               .target = labels + 4 * micro_batch,
                               .gradient_scale = 0.125f,
                               .training = true,
                               .update_statistics = true,
                               .accumulate = micro_batch > 0};
}

/* Everything at once: values read in several layers and twice in one, data read again further on, a value that crosses a cut
 * while its own layer changes it, concatenation of values of several layers, dropout and ReLU in and out of place. */
static inline struct graph *tangle(void) {
    struct builder b = {graph_create(), &test_error};
    int data = build_input(&b, 2, 6, 6);
    int conv1 = build_convolution(&b, data, "conv1", 5, 3, 1, 1, true);
    int relu1 = build_relu(&b, conv1, "relu1"); /* not in place: conv1 goes on */
    int conv2 = build_convolution(&b, relu1, "conv2", 5, 3, 1, 1, false);
    int norm2 = build_batch_norm(&b, conv2, "norm2");
    int relu2 = build_relu(&b, norm2, "relu2");
    int drop2 = build_dropout(&b, relu2, "drop2", 0.3f);
    int sum = graph_add(b.graph, OPERATOR_ADD, "sum", NULL, (const int[]){conv1, drop2, drop2, conv1}, 4, &test_error);
    int relu3 = build_relu(&b, sum, "relu3");
    int both = build_concat(&b, (const int[]){relu3, data, relu1}, 3, "both");
    int norm3 = build_batch_norm(&b, both, "norm3");
    int pool = build_max_pool(&b, norm3, "pool", 3, 2, 1);
    int drop3 = build_dropout(&b, pool, "drop3", 0.25f);
    int conv3 = build_convolution(&b, drop3, "conv3", 5, 1, 1, 0, true);
    int average = build_average_pool(&b, relu3, "average", 2, 2, 0); /* from further back */
    int last = build_add(&b, conv3, average, "last");
    int flat = build_flatten(&b, last, "flatten");
    int fc1 = build_linear(&b, flat, "fc1", 9);
    int relu4 = build_relu(&b, fc1, "relu4");
    int drop4 = build_dropout(&b, relu4, "drop4", 0.5f);
    int fc2 = build_linear(&b, drop4, "fc2", 9);
    int sum2 = build_add(&b, fc2, fc1 >= 0 ? drop4 : -1, "sum2");
    build_cross_entropy(&b, build_linear(&b, build_relu(&b, sum2, "relu5"), "fc3", 5), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

/* Values in bf16 that several layers read and that cross cuts: their gradients, too, are added up in bf16. */
static inline struct graph *mixed(void) {
    struct builder b = {graph_create(), &test_error};
    int conv1 = build_convolution(&b, build_input(&b, 2, 6, 6), "conv1", 5, 3, 1, 1, true);
    int half1 = build_cast(&b, build_relu(&b, conv1, "relu1"), "half1", TYPE_BF16);
    int conv2 = build_convolution(&b, build_cast(&b, half1, "full1", TYPE_F32), "conv2", 5, 3, 1, 1, false);
    int half2 = build_cast(&b, build_relu(&b, conv2, "relu2"), "half2", TYPE_BF16);
    int both = build_concat(&b, (const int[]){half1, half2, half1}, 3, "both");
    int conv3 = build_convolution(&b, build_cast(&b, both, "full2", TYPE_F32), "conv3", 5, 1, 1, 0, true);
    int sum = build_add(&b, conv3, build_cast(&b, half1, "full3", TYPE_F32), "sum");
    int flat = build_flatten(&b, build_cast(&b, sum, "half3", TYPE_BF16), "flatten");
    build_cross_entropy(&b, build_linear(&b, build_cast(&b, flat, "full4", TYPE_F32), "fc", 5), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

static inline void fill_data(struct chain *chain) {
    for (int m = 0; m < chain->micro_batches; m++) {
        struct random_key key = test_key(100 + (uint64_t)m);
        for (int64_t i = 0; i < chain->sizes[0].input_bytes / 4; i++) {
            ((float *)chain->blocks[m][0].input)[i] = 2 * random_uniform(key, (uint64_t)i) - 1;
        }
    }
}

#endif
