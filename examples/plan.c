/* Plans and simulates only: what VGG-16 would come to on four V100 that are not at hand, with two methods. */
#include <penstock.h>
#include <stdio.h>

static enum ps_status simulate(const struct ps_profile *profile, const struct ps_cluster *cluster, const char *method,
                               struct ps_error *error) {
    struct ps_plan_options options;
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    ps_plan_options_init(&options);
    options.method = method;
    options.schedule = "1f1b";
    options.micro_batches = 8;
    enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, error);
    if (status != PS_OK) return status;
    status = ps_simulate(plan, profile, cluster, 0, &simulation, error);
    if (status == PS_OK) {
        struct ps_simulation_info info = ps_simulation_info(simulation);
        printf("%s: %d stages, %.1f samples per second, %.0f%% of the time idle\n", method, ps_plan_info(plan).stages,
               info.throughput_samples_per_s, 100 * info.bubble);
        ps_simulation_destroy(simulation);
    }
    ps_plan_destroy(plan);
    return status;
}

int main(void) {
    struct ps_error error;
    struct ps_network *network = NULL;
    struct ps_profile *profile = NULL;
    struct ps_cluster *cluster = NULL;
    struct ps_profile_options costs;
    struct ps_cluster_options machines;
    const int micro_batch = 8;

    ps_profile_options_init(&costs);
    costs.device = "gpu:v100";
    costs.micro_batches = &micro_batch;
    costs.micro_batch_count = 1;
    ps_cluster_options_init(&machines);
    machines.workers = 4;
    machines.memory_bytes = (int64_t)16 << 30;
    machines.bandwidth_bytes_per_s = 12e9;

    enum ps_status status = ps_network_open("vgg16", &network, &error);
    if (status == PS_OK) status = ps_profile_measure(network, &costs, &profile, &error);
    if (status == PS_OK) status = ps_cluster_uniform(&machines, &cluster, &error);
    if (status == PS_OK) status = simulate(profile, cluster, "uniform", &error);
    if (status == PS_OK) status = simulate(profile, cluster, "pipedream", &error);
    if (status != PS_OK) fprintf(stderr, "%s\n%s\n", error.message, error.hint);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    ps_network_destroy(network);
    return status;
}
