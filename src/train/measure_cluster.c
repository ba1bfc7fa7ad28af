/* See measure_cluster.h. Every process knows all hosts and processors from the beginning, so all follow the same list of
 * measurements.
 * */
#include "train/measure_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/versioned.h"
#include "comm/transport.h"
#include "graph/network.h"
#include "profile/profile.h"

/* What devices are measured by. */
#define SURVEY_MODEL "vgg16,input=32"
enum { SURVEY_MICRO_BATCH = 4, SURVEY_REPEATS = 3 };
/* Messages of a link: small ones there and back, then large ones. Tags of their own. */
enum { SMALL_BYTES = 64, SMALL_ROUNDS = 50, LARGE_BYTES = 4 << 20, LARGE_ROUNDS = 5 };

struct link_figures {
    double latency_s, bandwidth_bytes_per_s;
};

/* -------------------------------------------------------------------------- hosts */

/* The first rank with such a processor. */
static int type_of(const struct processes *processes, int rank) {
    int first = 0;
    while (strcmp(processes->info[first].cpu, processes->info[rank].cpu) != 0) first++;
    return first;
}

bool survey_one_host(const struct processes *processes) { return processes_on_host(processes, 0) == processes->count; }

/* All wait for all. */
static enum ps_status meet(struct processes *processes, struct ps_error *error) {
    char mark = 0, *marks;
    TRY(memory_new(&marks, processes->count, "a survey", error));
    enum ps_status status = processes_all_gather(processes, &mark, sizeof mark, marks, error);
    free(marks);
    return status;
}

/* ------------------------------------------------------------------------ devices */

/* Seconds of a training step of one sample. */
static enum ps_status measure_device(const char *device, int threads, double *seconds, struct ps_error *error) {
    int micro_batch = SURVEY_MICRO_BATCH;
    struct ps_profile_options options = {.struct_size = sizeof options,
                                         .device = device,
                                         .threads = threads,
                                         .busy = 1,
                                         .micro_batches = &micro_batch,
                                         .micro_batch_count = 1,
                                         .repeats = SURVEY_REPEATS};
    struct ps_network *network;
    struct ps_profile *profile;
    TRY(ps_network_open(SURVEY_MODEL, &network, error));
    enum ps_status status = ps_profile_measure(network, &options, &profile, error);
    ps_network_destroy(network);
    TRY(status);
    struct layer_times time = stage_cost(&profile->tables[0], 0, profile->tables[0].layer_count - 1).time;
    ps_profile_destroy(profile);
    *seconds = (time.forward_s + time.backward_input_s + time.backward_weight_s) / micro_batch;
    return PS_OK;
}

/* `seconds` by rank, at rank 0. Each type is measured on the first rank that has it, all types at the same time. */
static enum ps_status measure_devices(struct processes *processes, const char *device, int threads, double *seconds,
                                      struct ps_error *error) {
    double own = 0;
    if (type_of(processes, processes->rank) == processes->rank) {
        TRY(measure_device(device, threads, &own, error));
        log_info("%s: a %s worker trains %.0f samples of %s a second", processes->info[processes->rank].host, device, 1 / own,
                 SURVEY_MODEL);
    }
    TRY(processes_gather(processes, &own, sizeof own, seconds, error));
    for (int rank = 0; processes->rank == 0 && rank < processes->count; rank++)
        seconds[rank] = seconds[type_of(processes, rank)];
    return PS_OK;
}

/* -------------------------------------------------------------------------- links */

static enum ps_status there_and_back(struct processes *processes, int peer, bool begins, void *block, size_t size, int rounds,
                                     struct ps_error *error) {
    for (int half = 0; half < 2 * rounds; half++)
        TRY(processes_move(processes, peer, message_tag(TAG_SURVEY, 0), (half % 2 == 0) == begins, block, size, error));
    return PS_OK;
}

static enum ps_status measure_link(struct processes *processes, int peer, bool begins, char *block,
                                   struct link_figures *figures, struct ps_error *error) {
    TRY(there_and_back(processes, peer, begins, block, SMALL_BYTES, 3, error));
    double start = clock_now();
    TRY(there_and_back(processes, peer, begins, block, SMALL_BYTES, SMALL_ROUNDS, error));
    figures->latency_s = (clock_now() - start) / (2 * SMALL_ROUNDS);
    TRY(there_and_back(processes, peer, begins, block, LARGE_BYTES, 1, error));
    start = clock_now();
    TRY(there_and_back(processes, peer, begins, block, LARGE_BYTES, LARGE_ROUNDS, error));
    double seconds = (clock_now() - start) / (2 * LARGE_ROUNDS) - figures->latency_s;
    figures->bandwidth_bytes_per_s = LARGE_BYTES / (seconds > 1e-9 ? seconds : 1e-9);
    return PS_OK;
}

/* Between `a` and `b`, a < b, while all others wait; *figures at rank 0. */
static enum ps_status measure_pair(struct processes *processes, int a, int b, char *block, struct link_figures *figures,
                                   struct ps_error *error) {
    int rank = processes->rank;
    if (rank == a || rank == b) TRY(measure_link(processes, rank == a ? b : a, rank == a, block, figures, error));
    if (a > 0 && (rank == a || rank == 0)) {
        void *data = figures;
        size_t size = sizeof *figures;
        TRY(processes_send_to_rank_0(processes, a, &data, &size, error));
        if (rank == 0) {
            if (size == sizeof *figures) memcpy(figures, data, size);
            free(data);
        }
    }
    return meet(processes, error);
}

/* The rank of a host that measures its link to another; within a host the second takes the other end. */
static int other_end(const struct processes *processes, int host, int other) {
    if (host != other) return other;
    for (int rank = host + 1; rank < processes->count; rank++)
        if (processes_first_on_host(processes, rank) == host) return rank;
    return -1;
}

static void set_links(const struct processes *processes, int host, int other, const struct link_figures *figures,
                      struct ps_cluster *cluster) {
    for (int a = 0; a < processes->count; a++)
        for (int b = 0; b < processes->count; b++) {
            int from = processes_first_on_host(processes, a), to = processes_first_on_host(processes, b);
            if (a == b || !((from == host && to == other) || (from == other && to == host))) continue;
            cluster->links[cluster->link_count++] = (struct cluster_link){
                .from = a, .to = b, .bandwidth_bytes_per_s = figures->bandwidth_bytes_per_s, .latency_s = figures->latency_s};
        }
}

static enum ps_status measure_links(struct processes *processes, struct ps_cluster *cluster, struct ps_error *error) {
    char *block;
    enum ps_status status = memory_new(&block, LARGE_BYTES, "a survey", error);
    for (int host = 0; host < processes->count; host++) {
        if (processes_first_on_host(processes, host) != host) continue;
        for (int other = host; status == PS_OK && other < processes->count; other++) {
            int end = processes_first_on_host(processes, other) == other ? other_end(processes, host, other) : -1;
            struct link_figures figures = {0};
            if (end < 0) continue;
            status = measure_pair(processes, host, end, block, &figures, error);
            if (status == PS_OK && cluster) set_links(processes, host, other, &figures, cluster);
        }
    }
    free(block);
    return status;
}

/* ---------------------------------------------------------------------------- all */

static void describe_devices(const struct processes *processes, const char *device, const double *seconds,
                             struct ps_cluster *cluster) {
    for (int rank = 0; rank < processes->count; rank++) {
        const struct process_info *info = &processes->info[rank];
        struct cluster_device *made = &cluster->devices[rank];
        int sharing = processes_on_host(processes, rank);
        snprintf(made->type, sizeof made->type, "%s", device);
        if (sharing == 1)
            snprintf(made->name, sizeof made->name, "%s", info->host);
        else
            snprintf(made->name, sizeof made->name, "%.50s-%d", info->host, rank);
        made->speed = seconds[0] / seconds[rank];
        made->memory_bytes = info->memory.free / sharing;
    }
    /* Workers on one host have only its cores. */
    if (survey_one_host(processes) && processes->info[0].cores < processes->count) cluster->cores = processes->info[0].cores;
}

enum ps_status survey_machines(struct processes *processes, const char *device, int threads, struct ps_cluster **out,
                               struct ps_error *error) {
    size_t count = (size_t)processes->count;
    struct ps_cluster *cluster = NULL;
    double *seconds;
    enum ps_status status = memory_new(&seconds, count, "a survey", error);
    if (status == PS_OK && processes->rank == 0)
        status = cluster_create(processes->count, processes->count * processes->count, &cluster, error);
    if (cluster) cluster->link_count = 0; /* as they are measured */
    if (status == PS_OK) status = measure_devices(processes, device, threads, seconds, error);
    if (status == PS_OK) status = measure_links(processes, cluster, error);
    if (status == PS_OK && cluster) describe_devices(processes, device, seconds, cluster);
    free(seconds);
    if (status != PS_OK) {
        ps_cluster_destroy(cluster);
        return status;
    }
    *out = cluster;
    return PS_OK;
}

/* In the processes that were started together. */
static enum ps_status survey_here(const struct ps_cluster_measure_options *options, struct ps_cluster **cluster,
                                  struct ps_error *error) {
    const struct transport_class *transport;
    struct processes *processes = NULL;
    struct ps_cluster *made = NULL;
    struct ps_error trouble = {0};
    TRY(transport_find(NULL, &transport, error));
    enum ps_status status = processes_join(transport->processes, &processes, &trouble);
    if (status == PS_OK)
        status = survey_machines(processes, options->device ? options->device : "cpu",
                                 options->threads > 0 ? options->threads : 1, &made, &trouble);
    bool is_reporter = !processes || processes_is_reporter(processes);
    status = processes_leave(processes, status, &trouble);
    if (!is_reporter) trouble.message[0] = trouble.hint[0] = '\0';
    if (status != PS_OK) {
        if (error) *error = trouble;
        ps_cluster_destroy(made);
        return status;
    }
    *cluster = made;
    return PS_OK;
}

void ps_cluster_measure_options_init(struct ps_cluster_measure_options *options) {
    *options = (struct ps_cluster_measure_options){.struct_size = sizeof *options};
}

enum ps_status ps_cluster_measure(const struct ps_cluster_measure_options *options, struct ps_cluster **cluster,
                                  struct ps_error *error) {
    struct ps_cluster_measure_options own;
    TRY(VERSIONED_TAKE(ps_cluster_measure_options, options, &own, error));
    TRY(log_check(own.log, error));
    if (own.threads < 0) return error_set(error, PS_USAGE, "`threads`: %d is less than 1", own.threads);
    const struct ps_log_sink *log = log_use(own.log);
    enum ps_status status = survey_here(&own, cluster, error);
    log_restore(log);
    return status;
}
