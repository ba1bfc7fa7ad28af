/* See trained.h. */
#include "eval/trained.h"

#include "base/file.h"
#include "plan/plan.h"

/* The network that the run keeps; old ones only have a plan that names one. */
static enum ps_status open_run(const char *run, const char *checkpoint, struct trained *trained, struct ps_error *error) {
    char path[4096];
    struct ps_plan *plan;
    if (!file_exists(file_join(path, run, "plan.json"))) return error_set(error, PS_BAD_INPUT, "`run`: %s holds no run", run);
    TRY(ps_plan_read(path, &plan, error));
    file_join(path, run, "network.json");
    enum ps_status status = ps_network_open(file_exists(path) ? path : plan->model, &trained->own_network, error);
    trained->network = trained->own_network;
    if (status == PS_OK) status = network_check(trained->network, "the run's plan", plan->model, plan->network, error);
    ps_plan_destroy(plan);
    TRY(status);
    file_join(path, run, "vocabulary.json");
    if (file_exists(path)) TRY(vocabulary_read(path, trained->words, error));
    return weight_files_open_run(run, checkpoint, &trained->weights, error);
}

enum ps_status trained_open(const char *run, const char *checkpoint, const struct ps_network *network, struct trained *trained,
                            struct ps_error *error) {
    if (!run && !network) return error_set(error, PS_USAGE, "one of `run` and `network` must be given");
    if (run && network) return error_set(error, PS_USAGE, "`network`: cannot be given with `run`, which determines it");
    if (checkpoint && !run) return error_set(error, PS_USAGE, "`checkpoint`: is one of a `run`");
    if (run) return open_run(run, checkpoint, trained, error);
    trained->network = network;
    if (values_have_weights(network->graph->values, network->graph)) return PS_OK;
    return error_set(error, PS_USAGE, "`network`: %s has no weights; they come from a file (`init` FILE) or a run",
                     network->name);
}

enum ps_status trained_open_device(struct trained *trained, const char *device, int threads, struct ps_error *error) {
    const struct device_options options = {.threads = threads > 0 ? threads : 1};
    if (threads < 0) return error_set(error, PS_USAGE, "`threads`: %d is less than 1", threads);
    TRY(device_open(device ? device : "cpu", &options, &trained->device, error));
    return device_check_real(trained->device->type, error);
}

enum ps_status trained_make_stage(struct trained *trained, const struct graph *graph, int samples, struct ps_error *error) {
    TRY(stage_create(trained->device, graph, 0, graph->layer_count - 1, samples, &trained->stage, error));
    struct stage_sizes sizes = stage_sizes(trained->stage);
    const int64_t pieces[] = {stage_copy_bytes(&sizes), stage_unchanged_bytes(&sizes), sizes.input_bytes, sizes.stash_bytes,
                              sizes.workspace_bytes};
    enum { PIECES = sizeof pieces / sizeof *pieces };
    size_t total = 0;
    for (int i = 0; i < PIECES; i++) total += memory_align((size_t)pieces[i]);
    TRY(device_take(trained->device, &trained->memory, total, "evaluation", error));
    void *place[PIECES];
    for (int i = 0; i < PIECES; i++) place[i] = memory_block_carve(&trained->memory, (size_t)pieces[i]);
    trained->blocks = (struct stage_blocks){
        .weights = place[0], .statistics = place[1], .input = place[2], .stash = place[3], .workspace = place[4]};
    if (trained->weights.count == 0) return stage_initialize(trained->stage, 0, NULL, place[0], place[1], error);
    return weight_files_load(&trained->weights, graph, trained->stage, NULL, place[0], place[1], error);
}

void trained_free_stage(struct trained *trained) {
    stage_destroy(trained->stage);
    if (trained->device) device_give(trained->device, &trained->memory);
    trained->stage = NULL;
    trained->memory = (struct memory_block){0};
    trained->blocks = (struct stage_blocks){0};
}

void trained_close(struct trained *trained) {
    trained_free_stage(trained);
    if (trained->device) device_close(trained->device);
    for (int v = 0; v < 2; v++) vocabulary_destroy(trained->words[v]);
    weight_files_close(&trained->weights);
    ps_network_destroy(trained->own_network);
    *trained = (struct trained){0};
}
