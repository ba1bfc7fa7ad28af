/* See joint_profile.h. */
#include "train/joint_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "graph/network.h"

enum { MICRO_BATCHES_MAX = 64 };

/* What one process measures, and for whom. */
struct task {
    char type[64];
    int64_t memory_bytes; /* that it may take; 0: no limit */
};

/* ----------------------------------------------------------------------- types */

/* The first rank with such a device. */
static int type_of(const struct processes *processes, const struct ps_cluster *cluster, int rank) {
    int first = 0;
    while (strcmp(processes->info[first].cpu, processes->info[rank].cpu) != 0 ||
           cluster->devices[first].speed < cluster->devices[rank].speed ||
           cluster->devices[first].speed > cluster->devices[rank].speed)
        first++;
    return first;
}

static bool measures(const struct processes *processes, const struct ps_cluster *cluster, int rank) {
    return type_of(processes, cluster, rank) == rank;
}

static struct task task_of(const struct processes *processes, const struct ps_cluster *cluster, const char *device, int rank) {
    struct task task = {.memory_bytes = cluster->devices[rank].memory_bytes};
    int type = type_of(processes, cluster, rank);
    if (type == 0)
        snprintf(task.type, sizeof task.type, "%s", device);
    else
        snprintf(task.type, sizeof task.type, "%.40s-rank%d", device, type);
    return task;
}

/* ------------------------------------------------------------------- measuring */

static enum ps_status measure(const struct processes *processes, const struct ps_network *network,
                              const struct ps_profile_options *options, const struct task *task, struct ps_profile **out,
                              struct ps_error *error) {
    const struct process_info *info = &processes->info[processes->rank];
    struct ps_profile_options own = *options;
    struct ps_profile *profile;
    own.memory_bytes = task->memory_bytes;
    log_info("profiling %s: micro-batch of %d%s on %s (%s, %s)", ps_network_info(network).name, options->micro_batches[0],
             options->micro_batch_count > 1 ? " and more" : "", task->type, info->host, info->cpu);
    TRY(ps_profile_measure(network, &own, &profile, error));
    snprintf(profile->device, sizeof profile->device, "%s", task->type);
    *out = profile;
    return PS_OK;
}

/* --------------------------------------------------------------------- request */

static char *write_request(const struct processes *processes, const struct ps_network *network, const char *network_text,
                           const struct ps_profile_options *options, const struct ps_cluster *cluster) {
    json_t *sizes = json_array(), *tasks = json_array();
    for (int i = 0; i < options->micro_batch_count; i++) json_array_append_new(sizes, json_integer(options->micro_batches[i]));
    for (int rank = 1; rank < processes->count; rank++) {
        struct task task = task_of(processes, cluster, options->device, rank);
        if (!measures(processes, cluster, rank)) continue;
        json_array_append_new(tasks, json_pack("{s:i, s:s, s:I}", "rank", rank, "type", task.type, "memory_bytes",
                                               (json_int_t)task.memory_bytes));
    }
    return json_text(json_pack("{s:s, s:i, s:s, s:i, s:o, s:o}", "measure", network_text, "shorter",
                               network->graph->longest ? network_source(network) : 0, "device", options->device, "threads",
                               options->threads, "micro_batches", sizes, "tasks", tasks));
}

bool joint_profile_requested(const struct json_place *sent) { return json_object_get(sent->value, "measure") != NULL; }

/* This process's task; *found false: it has none. */
static enum ps_status read_task(const struct json_place *request, int rank, struct task *task, bool *found,
                                struct ps_error *error) {
    struct json_place tasks, item;
    size_t count;
    const char *type;
    int of;
    *found = false;
    TRY(json_field(request, "tasks", true, &tasks, error));
    TRY(json_array_length(&tasks, &count, error));
    for (size_t i = 0; i < count && !*found; i++) {
        TRY(json_item(&tasks, i, &item, error));
        TRY(json_get_int(&item, "rank", true, 0, INT32_MAX, &of, error));
        if (of != rank) continue;
        TRY(json_get_string(&item, "type", true, &type, error));
        TRY(json_get_integer(&item, "memory_bytes", true, 0, INT64_MAX, &task->memory_bytes, error));
        snprintf(task->type, sizeof task->type, "%s", type);
        *found = true;
    }
    return PS_OK;
}

static enum ps_status read_sizes(const struct json_place *request, int sizes[MICRO_BATCHES_MAX], int *count,
                                 struct ps_error *error) {
    struct json_place array, item;
    size_t length;
    TRY(json_field(request, "micro_batches", true, &array, error));
    TRY(json_array_length(&array, &length, error));
    *count = length < MICRO_BATCHES_MAX ? (int)length : MICRO_BATCHES_MAX;
    for (int i = 0; i < *count; i++) {
        TRY(json_item(&array, (size_t)i, &item, error));
        sizes[i] = (int)json_integer_value(item.value);
    }
    return PS_OK;
}

/* The network, or that for shorter sequences, and measures it. */
static enum ps_status measure_sent(const struct processes *processes, const char *text, int shorter,
                                   const struct ps_profile_options *options, const struct task *task,
                                   struct ps_profile **profile, struct ps_error *error) {
    struct ps_network *whole, *network = NULL;
    TRY(network_parse(text, strlen(text), "the network of rank 0", &whole, error));
    enum ps_status status = shorter > 0 ? network_create_shorter(whole, shorter, &network, error) : PS_OK;
    if (status == PS_OK) status = measure(processes, network ? network : whole, options, task, profile, error);
    ps_network_destroy(network);
    ps_network_destroy(whole);
    return status;
}

enum ps_status joint_profile_answer(struct processes *processes, const struct json_place *request, struct ps_error *error) {
    int sizes[MICRO_BATCHES_MAX];
    struct ps_profile_options options = {.struct_size = sizeof options, .busy = 1, .micro_batches = sizes};
    struct task task;
    struct ps_profile *profile;
    const char *sent;
    int shorter;
    bool found;
    TRY(read_task(request, processes->rank, &task, &found, error));
    if (!found) return PS_OK;
    TRY(json_get_string(request, "measure", true, &sent, error));
    TRY(json_get_int(request, "shorter", true, 0, INT32_MAX, &shorter, error));
    TRY(json_get_string(request, "device", true, &options.device, error));
    TRY(json_get_int(request, "threads", true, 0, INT32_MAX, &options.threads, error));
    TRY(read_sizes(request, sizes, &options.micro_batch_count, error));
    TRY(measure_sent(processes, sent, shorter, &options, &task, &profile, error));
    char *text = ps_profile_json(profile);
    ps_profile_destroy(profile);
    TRY(memory_check(text, "costs for rank 0", error));
    void *given = text;
    size_t size = strlen(text);
    enum ps_status status = processes_send_to_rank_0(processes, 0, &given, &size, error);
    free(text);
    return status;
}

/* ---------------------------------------------------------------------- rank 0 */

static enum ps_status ask(struct processes *processes, const struct ps_network *network, const char *network_text,
                          const struct ps_profile_options *options, const struct ps_cluster *cluster, struct ps_error *error) {
    void *text = write_request(processes, network, network_text, options, cluster);
    TRY(memory_check(text, "a request for the others", error));
    size_t size = strlen(text);
    enum ps_status status = processes_broadcast(processes, &text, &size, error);
    free(text);
    return status;
}

static enum ps_status take_answer(struct processes *processes, int rank, struct ps_profile *profile, struct ps_error *error) {
    void *text = NULL;
    size_t size = 0;
    struct ps_profile *other;
    TRY(processes_send_to_rank_0(processes, rank, &text, &size, error));
    enum ps_status status = profile_parse(text, size, &other, error);
    free(text);
    TRY(status);
    memcpy(other->network, profile->network, sizeof other->network); /* whose hash counts constants, which were not sent */
    return profile_add_device(profile, other, error);
}

/* The cluster with each device's type. What was measured on a device has its speed in it, unless that is only played. */
static enum ps_status name_types(const struct processes *processes, const struct ps_cluster *cluster, const char *device,
                                 bool emulated, struct ps_cluster **out, struct ps_error *error) {
    char *text = ps_cluster_json(cluster);
    struct ps_cluster *typed;
    TRY(memory_check(text, "a cluster", error));
    enum ps_status status = cluster_parse(text, strlen(text), &typed, error);
    free(text);
    TRY(status);
    for (int rank = 0; rank < typed->workers; rank++) {
        struct task task = task_of(processes, cluster, device, rank);
        memcpy(typed->devices[rank].type, task.type, sizeof task.type);
        if (!emulated) typed->devices[rank].speed = 1;
    }
    *out = typed;
    return PS_OK;
}

enum ps_status joint_profile_measure(struct processes *processes, const struct ps_network *network, const char *network_text,
                                     const struct ps_profile_options *options, const struct ps_cluster *cluster, bool emulated,
                                     struct ps_profile **out, struct ps_cluster **typed, struct ps_error *error) {
    int types = 0;
    struct ps_profile *profile;
    bool several_processes = processes->count > 1 && cluster->workers == processes->count;
    for (int rank = 0; several_processes && rank < processes->count; rank++) types += measures(processes, cluster, rank);
    struct task own = task_of(processes, cluster, options->device, 0);
    *typed = NULL;
    if (types > 1) TRY(ask(processes, network, network_text, options, cluster, error));
    TRY(measure(processes, network, options, &own, &profile, error));
    enum ps_status status = PS_OK;
    for (int rank = 1; types > 1 && status == PS_OK && rank < processes->count; rank++)
        if (measures(processes, cluster, rank)) status = take_answer(processes, rank, profile, error);
    if (types > 1 && status == PS_OK) status = name_types(processes, cluster, options->device, emulated, typed, error);
    if (status != PS_OK) {
        ps_profile_destroy(profile);
        return status;
    }
    *out = profile;
    return PS_OK;
}
