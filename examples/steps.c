/* Trains step by step with metrics of its own: the length of the classifier's weights, and the loss on two sets of data, after
 * every five mini-batches. It ends when the loss gets no better. */
#include <math.h>
#include <penstock.h>
#include <stdio.h>

static void fail(const struct ps_error *error) { fprintf(stderr, "%s\n", error->message); }

static double length_of(struct ps_trainer *trainer, const char *name) {
    static float values[4 * 84];
    double sum = 0;
    if (ps_trainer_read_parameter(trainer, name, values, sizeof values / sizeof *values, NULL) != PS_OK) return NAN;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) sum += (double)values[i] * values[i];
    return sqrt(sum);
}

static enum ps_status train(struct ps_trainer *trainer, const struct ps_dataset *const sets[2], struct ps_error *error) {
    double best = INFINITY;
    for (int worse = 0; worse < 2 && ps_trainer_info(trainer).step < ps_trainer_info(trainer).steps;) {
        struct ps_evaluation figures[2];
        enum ps_status status = ps_trainer_step(trainer, 5, error);
        for (int s = 0; s < 2 && status == PS_OK; s++) status = ps_trainer_evaluate(trainer, sets[s], &figures[s], error);
        if (status != PS_OK) return status;
        printf("step %2d: loss %.4f and %.4f, |fc3| %.3f\n", (int)ps_trainer_info(trainer).step, figures[0].loss,
               figures[1].loss, length_of(trainer, "fc3.weight"));
        worse = figures[1].loss < best ? 0 : worse + 1;
        best = fmin(best, figures[1].loss);
    }
    return PS_OK;
}

int main(void) {
    struct ps_error error;
    struct ps_train_options options;
    struct ps_cluster_options machines;
    struct ps_network *network = NULL;
    struct ps_dataset *data = NULL, *noisy = NULL;
    struct ps_trainer *trainer = NULL;

    ps_train_options_init(&options);
    ps_cluster_options_init(&machines);
    machines.workers = 2;
    options.machines = &machines;
    options.batch = 32;
    options.steps = 60;
    enum ps_status status = ps_network_open("lenet5,input=16,classes=4", &network, &error);
    if (status == PS_OK) status = ps_dataset_open("synthetic:images,samples=256", NULL, &data, &error);
    if (status == PS_OK) status = ps_dataset_open("synthetic:images,samples=128,noise=1", NULL, &noisy, &error);
    options.network = network;
    options.data = data;
    if (status == PS_OK) status = ps_trainer_create(&options, &trainer, &error);
    const struct ps_dataset *const sets[] = {data, noisy};
    if (status == PS_OK) status = train(trainer, sets, &error);
    if (status != PS_OK) fail(&error);
    ps_trainer_destroy(trainer);
    ps_dataset_destroy(noisy);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
    return status;
}
