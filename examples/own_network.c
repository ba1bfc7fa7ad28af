/* A network and data of its own on two workers: stops at a step of its choosing, reads a weight, saves, and goes on. */
#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 8, CLASSES = 3 };

/* Sample i is a square of its class's size, somewhere. */
static enum ps_status read_square(void *context, int64_t i, void *input, int32_t *labels, struct ps_error *error) {
    float *pixel = input;
    int size = 2 * (int)(i % CLASSES) + 2, at = (int)(i / CLASSES) % (SIDE - size);
    (void)context, (void)error;
    labels[0] = (int32_t)(i % CLASSES);
    for (int p = 0; pixel && p < SIDE * SIDE; p++) /* NULL: the label alone is wanted */
        pixel[p] = p / SIDE >= at && p / SIDE < at + size && p % SIDE >= at && p % SIDE < at + size ? 1 : 0;
    return PS_OK;
}

static struct ps_error error;
static void must(enum ps_status status) {
    if (status == PS_OK) return;
    fprintf(stderr, "%s\n", error.message);
    exit(status);
}

int main(void) {
    static const char *const nodes[][2] = {{"conv", "convolution,channels=4,kernel=3,pad=1"}, {"relu", "relu"},
                                           {"flat", "flatten"}, {"fc", "linear,channels=3"}, {"loss", "cross_entropy"}};
    struct ps_dataset_source source = {.struct_size = sizeof source, .name = "squares", .samples = 120,
                                       .input_shape = {1, SIDE, SIDE}, .classes = CLASSES, .read = read_square};
    struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = 2};
    struct ps_train_options options;
    struct ps_network *network;
    struct ps_dataset *data;
    struct ps_trainer *trainer;
    struct ps_evaluation result;
    float bias[CLASSES];

    struct ps_network_builder *builder = ps_network_builder_create("squares");
    ps_network_builder_input(builder, "data", "f32", (const int64_t[]){1, SIDE, SIDE}, 3);
    for (int n = 0; n < 5; n++) ps_network_builder_node(builder, nodes[n][0], nodes[n][1], NULL, 0);
    must(ps_network_builder_finish(builder, &network, &error));
    must(ps_dataset_create(&source, &data, &error));
    ps_train_options_init(&options);
    options.network = network, options.data = data, options.machines = &machines, options.batch = 24, options.steps = 60;
    must(ps_trainer_create(&options, &trainer, &error));
    must(ps_trainer_step(trainer, 20, &error)); /* and no further */
    must(ps_trainer_read_parameter(trainer, "fc.bias", bias, CLASSES, &error));
    must(ps_trainer_save(trainer, "saved", &error));
    ps_trainer_destroy(trainer);
    ps_train_options_init(&options);
    options.resume = "saved", options.data = data;
    must(ps_trainer_create(&options, &trainer, &error));
    must(ps_trainer_step(trainer, 40, &error));
    must(ps_trainer_evaluate(trainer, data, &result, &error));
    printf("bias %.4f at step 20; accuracy %.3f in the end\n", bias[0], result.accuracy);
    ps_trainer_destroy(trainer), ps_dataset_destroy(data), ps_network_destroy(network);
    return result.accuracy > 0.5 ? 0 : 1;
}
