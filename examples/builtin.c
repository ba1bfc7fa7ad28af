/* Trains a built-in network on built-in data: four workers, planned here, and what came of it as a table. */
#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>

static void line(void *context, enum ps_log_level level, const char *text) {
    (void)level;
    fprintf(context, "%s\n", text);
}

int main(void) {
    struct ps_error error;
    struct ps_log_sink log = {.struct_size = sizeof log, .context = stderr, .level = PS_LOG_INFO, .line = line};
    struct ps_train_options options;
    struct ps_cluster_options machines;
    struct ps_network *network = NULL;
    struct ps_dataset *data = NULL;
    struct ps_run *run = NULL;

    ps_train_options_init(&options);
    ps_cluster_options_init(&machines);
    machines.workers = 4;
    enum ps_status status = ps_network_open("lenet5,input=16,classes=4", &network, &error);
    if (status == PS_OK) status = ps_dataset_open("synthetic:images,samples=512", NULL, &data, &error);
    options.network = network;
    options.machines = &machines;
    options.data = options.valid = data;
    options.batch = 32;
    options.epochs = 2;
    options.log = &log; /* of this training alone */
    if (status == PS_OK) status = ps_train(&options, &run, &error);
    if (status == PS_OK) {
        char *table = ps_run_table(run);
        if (table) fputs(table, stdout);
        free(table);
    } else {
        fprintf(stderr, "%s\n", error.message);
    }
    ps_run_destroy(run);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
    return status;
}
