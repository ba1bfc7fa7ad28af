/* Watches a training with an observer: draws the loss of each mini-batch as a bar, and ends the training once it is low. */
#include <penstock.h>
#include <stdbool.h>
#include <stdio.h>

static const double LOW_ENOUGH = 0.25;

/* Called after each mini-batch; what is not 0 ends the training. */
static int step(void *context, const struct ps_step *step) {
    static const char bar[] = "##################################################";
    double *mean = context;
    *mean = step->step == 1 ? step->loss : 0.8 * *mean + 0.2 * step->loss;
    printf("step %3d: loss %.4f %.*s\n", (int)step->step, step->loss, (int)(25 * step->loss), bar);
    return *mean < LOW_ENOUGH;
}

/* Called after each evaluation. */
static int point(void *context, const struct ps_run_point *point) {
    (void)context;
    printf("epoch %d: accuracy %.3f on the training data, %.3f on others\n", point->epoch, point->accuracy,
           point->valid_accuracy);
    return 0;
}

int main(void) {
    struct ps_error error;
    double mean = 0;
    const struct ps_observer observer = {.struct_size = sizeof observer, .context = &mean, .step = step, .point = point};
    struct ps_train_options options;
    struct ps_cluster_options machines;
    struct ps_network *network = NULL;
    struct ps_dataset *data = NULL, *others = NULL;
    struct ps_run *run = NULL;

    ps_train_options_init(&options);
    ps_cluster_options_init(&machines);
    machines.workers = 2;
    options.machines = &machines;
    options.observer = &observer;
    options.batch = 32;
    options.epochs = 20;
    options.lr = 0.05;
    enum ps_status status = ps_network_open("lenet5,input=16,classes=4", &network, &error);
    if (status == PS_OK) status = ps_dataset_open("synthetic:images,samples=512", NULL, &data, &error);
    if (status == PS_OK) status = ps_dataset_open("synthetic:images,samples=128,noise=0.5", NULL, &others, &error);
    options.network = network;
    options.data = data;
    options.valid = others;
    if (status == PS_OK) status = ps_train(&options, &run, &error);
    /* The training that the observer ends, ends with PS_STOPPED. */
    const bool watched = status == PS_STOPPED && mean < LOW_ENOUGH;
    if (!watched) fprintf(stderr, "%s\n", status == PS_OK ? "the loss did not get low" : error.message);
    ps_run_destroy(run);
    ps_dataset_destroy(others);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
    return watched ? 0 : 1;
}
