/*
 * Measuring the cluster that a run has: five processes play three hosts, whose ranks are mixed, with two kinds of processors.
 * Which ranks measure which link, what becomes of every link, and which ranks measure their device. The processes join as ranks
 * of a run do; messages go through memory that they share.
 */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan/cluster.h"
#include "support.h"
#include "train/measure_cluster.h"

enum { RANKS = 5, MESSAGE_MAX = 4 << 20 };
static const int host_of[RANKS] = {0, 1, 0, 1, 2}, kind_of[RANKS] = {0, 1, 1, 0, 1};
/* The ranks that measure, by hosts: the first of each, and within a host its first two; -1: there is no second. */
static const int ends[3][3][2] = {{{0, 2}, {0, 1}, {0, 4}}, {{0, 1}, {1, 3}, {1, 4}}, {{0, 4}, {1, 4}, {-1, -1}}};

/* What all processes share. */
static struct {
    sem_t told;
    char data[1024];
    struct box {
        atomic_int full, taken; /* messages so far */
        char data[MESSAGE_MAX];
    } box[RANKS][RANKS]; /* by sender and receiver */
} * pad;
static int own_rank;

static enum ps_status start(uint64_t network, int *rank, int *count, int *host_leader, bool *same_network,
                            struct ps_error *error) {
    (void)network, (void)error;
    *rank = own_rank;
    *count = RANKS;
    *host_leader = 0;
    *same_network = true;
    return PS_OK;
}

static void bootstrap(void *data, size_t size) {
    if (own_rank == 0) memcpy(pad->data, data, size);
    for (int r = 1; own_rank == 0 && r < RANKS; r++) sem_post(&pad->told);
    if (own_rank > 0) sem_wait(&pad->told);
    if (own_rank > 0) memcpy(data, pad->data, size);
}

struct message {
    struct box *box;
    bool outgoing, done;
    void *block;
    size_t size;
};

static enum ps_status message_create(size_t size, struct message **out, struct ps_error *error) {
    (void)error;
    *out = calloc(1, sizeof **out);
    return *out && size <= MESSAGE_MAX ? PS_OK : PS_OUT_OF_MEMORY;
}

static void message_destroy(struct message *message) { free(message); }

static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    (void)tag;
    struct box *box = outgoing ? &pad->box[own_rank][peer] : &pad->box[peer][own_rank];
    *message = (struct message){.box = box, .outgoing = outgoing, .block = block, .size = size};
}

static bool message_done(struct message *message) {
    struct box *box = message->box;
    if (message->done || (atomic_load(&box->full) > atomic_load(&box->taken)) == message->outgoing) return message->done;
    memcpy(message->outgoing ? box->data : message->block, message->outgoing ? message->block : box->data, message->size);
    atomic_fetch_add(message->outgoing ? &box->full : &box->taken, 1);
    return message->done = true;
}

static void end(void) {}
static void abort_run(enum ps_status status) { (void)status; }
static const char *failure(void) { return NULL; }
static const struct processes_class launched = {.name = "test",
                                                .start = start,
                                                .bootstrap = bootstrap,
                                                .end = end,
                                                .abort_run = abort_run,
                                                .message_create = message_create,
                                                .message_destroy = message_destroy,
                                                .message_start = message_start,
                                                .message_done = message_done,
                                                .failure = failure};

/* Joins, takes its part, and leaves; *cluster at rank 0. */
static enum ps_status take_part(struct ps_cluster **cluster, struct ps_error *error) {
    struct processes *processes;
    TRY(processes_join(&launched, &processes, error));
    for (int r = 0; r < RANKS; r++) {
        struct process_info *info = &processes->info[r];
        snprintf(info->host, sizeof info->host, "host%d", host_of[r]);
        snprintf(info->cpu, sizeof info->cpu, "processor %d", kind_of[r]);
        info->machine = (uint64_t)host_of[r];
        info->memory.free = 1000 * (1 + host_of[r]);
    }
    return processes_leave(processes, survey_machines(processes, "cpu", 1, cluster, error), error);
}

static void check_links(const struct ps_cluster *cluster) {
    const struct cluster_link *of[RANKS][RANKS] = {{NULL}};
    assert_int_equal(cluster->link_count, RANKS * (RANKS - 1));
    for (int l = 0; l < cluster->link_count; l++) {
        const struct cluster_link *link = &cluster->links[l];
        assert_true(link->from != link->to && !of[link->from][link->to]);
        assert_true(link->bandwidth_bytes_per_s > 0 && link->latency_s > 0);
        of[link->from][link->to] = link;
    }
    /* Between two hosts, or within one, all have the figures of one pair. */
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++) {
            if (a == b) continue;
            const int *pair = ends[host_of[a]][host_of[b]];
            const struct cluster_link *measured = of[pair[0]][pair[1]];
            assert_true(of[a][b]->latency_s == measured->latency_s);
            assert_true(of[a][b]->bandwidth_bytes_per_s == measured->bandwidth_bytes_per_s);
        }
    /* These pairs have sent each other as many messages, and no other any. */
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++) {
            const int *pair = ends[host_of[a]][host_of[b]];
            const bool measures = (a == pair[0] && b == pair[1]) || (b == pair[0] && a == pair[1]);
            assert_int_equal(pad->box[a][b].full, measures ? pad->box[0][1].full : 0);
            assert_int_equal(pad->box[a][b].taken, pad->box[a][b].full);
        }
    assert_true(pad->box[0][1].full > 0);
}

static void check_devices(const struct ps_cluster *cluster) {
    static const char *const names[RANKS] = {"host0-0", "host1-1", "host0-2", "host1-3", "host2"};
    static const int64_t memory[RANKS] = {500, 1000, 500, 1000, 3000};
    for (int r = 0; r < RANKS; r++) {
        const struct cluster_device *device = &cluster->devices[r];
        assert_string_equal(device->name, names[r]);
        assert_string_equal(device->type, "cpu");
        assert_int_equal(device->memory_bytes, memory[r]);
        assert_true(device->speed > 0 && device->speed == cluster->devices[kind_of[r]].speed);
    }
    assert_true(cluster->devices[0].speed == 1);
    assert_int_equal(cluster->cores, 0);
}

static void test_three_hosts(void **state) {
    (void)state;
    if (test_slow()) skip(); /* it trains VGG-16 */
    struct ps_cluster *cluster = NULL;
    pid_t children[RANKS];
    pad = mmap(NULL, sizeof *pad, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pad != MAP_FAILED);
    assert_int_equal(sem_init(&pad->told, 1, 0), 0);
    fflush(NULL);
    for (own_rank = 1; own_rank < RANKS; own_rank++) {
        children[own_rank] = fork();
        assert_true(children[own_rank] >= 0);
        if (children[own_rank] > 0) continue;
        alarm(300);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct ps_error error = {0};
        const enum ps_status status = take_part(&cluster, &error);
        if (status != PS_OK) fprintf(stderr, "rank %d: %s\n", own_rank, error.message);
        _exit(status != PS_OK);
    }
    own_rank = 0;
    assert_ok(take_part(&cluster, &test_error));
    for (int r = 1; r < RANKS; r++) {
        int status;
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        assert_int_equal(status, 0);
    }
    check_links(cluster);
    check_devices(cluster);
    ps_cluster_destroy(cluster);
    munmap(pad, sizeof *pad);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
