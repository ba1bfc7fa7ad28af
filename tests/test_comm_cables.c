/*
 * Ranks that take turns on a cable that several of their links share: blocks of one route leave in the order in which they were
 * posted, whichever receiver's word is seen first. Where all links lead to one receiver, blocks wait for nothing, but where
 * words of their sender would come behind several of them. Messages are played here: each is done when the test says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transports/between_processes.h"
#include "plan/cluster.h"
#include "support.h"

enum { SLOTS = 2, BYTES = 64, MESSAGES = 16 };

struct message {
    bool started, word, done;
    int late; /* looks that still do not see that it is done */
};
static struct message made[MESSAGES];
static int made_count;
static const void *sent[MESSAGES];
static int sent_count;

static enum ps_status message_create(size_t size, struct message **message, struct ps_error *error) {
    (void)size, (void)error;
    assert_true(made_count < MESSAGES);
    *message = &made[made_count++];
    return PS_OK;
}

static void message_destroy(struct message *message) { (void)message; }

/* The receivers' words come in; blocks go out. */
static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    (void)peer, (void)tag, (void)size;
    *message = (struct message){.started = true, .word = !outgoing};
    if (outgoing) sent[sent_count++] = block;
}

static bool message_done(struct message *message) {
    assert_true(message->started);
    if (!message->done || message->late == 0) return message->done;
    message->late--;
    return false;
}

static const struct processes_class played = {.name = "test",
                                              .message_create = message_create,
                                              .message_destroy = message_destroy,
                                              .message_start = message_start,
                                              .message_done = message_done};
static const struct transport_class class = {.name = "test", .own_threads = true, .processes = &played};

static struct ps_cluster *cluster_with_cable(void) {
    static const char text[] =
        "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": "
        "\"b\"}, {\"name\": \"c\"}], \"links\": ["
        "{\"from\": \"a\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e9, \"shared_link\": \"cable of a\"}, "
        "{\"from\": \"b\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e9, \"shared_link\": \"cable of b\"}]}";
    char directory[4096], path[4200];
    struct ps_cluster *cluster;
    test_directory_make(directory);
    snprintf(path, sizeof path, "%s/cable.json", directory);
    test_file_write(path, text, sizeof text - 1);
    assert_ok(ps_cluster_read(path, &cluster, &test_error));
    return cluster;
}

/* The transport of worker 1. */
static struct transport *open_sender(struct ps_cluster *cluster, int workers, int stages, const struct instance *parts,
                                     int count, const struct stage_slots *slots) {
    static const struct stage_sizes sizes[3] = {{.stash_bytes = BYTES, .input_bytes = BYTES, .output_bytes = BYTES},
                                                {.input_bytes = BYTES, .output_bytes = BYTES}};
    static struct processes processes = {.class = &played, .rank = 1};
    struct ps_programs *programs;
    struct transport *transport;
    made_count = sent_count = 0;
    memset(made, 0, sizeof made);
    processes.count = workers;
    assert_ok(programs_create(stages, workers, &programs, &test_error));
    assert_ok(programs_set_instances(programs, parts, count, &test_error));
    struct transport_options options = {
        .programs = programs, .slots = slots, .processes = &processes, .sizes = sizes, .cluster = cluster};
    assert_ok(between_processes_create(&class, &options, &transport, &test_error));
    ps_programs_destroy(programs);
    return transport;
}

/* Of a chain of stages, one on each worker. */
static struct transport *open_chain(struct ps_cluster *cluster, int workers) {
    static const struct stage_slots slots[3] = {[1] = {.output = SLOTS, .input_gradient = SLOTS}};
    struct instance parts[3];
    for (int p = 0; p < workers; p++)
        parts[p] = (struct instance){.stage = p, .worker = p, .forward = true, .backward = true, .replicas = 1};
    return open_sender(cluster, workers, workers, parts, workers, slots);
}

/* Worker 1 runs the forwards of the first stage alone; all else of it is worker 0's, which sends to worker 2, too. */
static struct transport *open_split(struct ps_cluster *cluster) {
    static const struct stage_slots slots[4] = {{.stash = 1, .input = 1, .output = 1}};
    static const struct instance parts[] = {{.stage = 0, .worker = 1, .forward = true, .replicas = 1},
                                            {.stage = 0, .worker = 0, .backward = true, .replicas = 1},
                                            {.stage = 1, .worker = 0, .forward = true, .backward = true, .replicas = 1},
                                            {.stage = 2, .worker = 2, .forward = true, .backward = true, .replicas = 1}};
    return open_sender(cluster, 3, 3, parts, 4, slots);
}

static void all_words(bool done) {
    for (int m = 0; m < made_count; m++)
        if (made[m].started && made[m].word) made[m].done = done;
}

static void all_blocks_done(void) {
    for (int m = 0; m < made_count; m++)
        if (made[m].started && !made[m].word) made[m].done = true;
}

/* Both words have come, and the look at the first one was too early to see it. */
static void test_order_of_a_route(void **state) {
    (void)state;
    float first[BYTES / 4] = {0}, second[BYTES / 4] = {0};
    float *block[SLOTS] = {first, second};
    struct ps_cluster *cluster = cluster_with_cable();
    struct transport *transport = open_chain(cluster, 3);
    for (int slot = 0; slot < SLOTS; slot++) between_processes_post(transport, 1, BLOCK_OUTPUT, slot, 2, &block[slot], 0);
    assert_int_equal(sent_count, 0);
    all_words(true);
    bool found = false;
    for (int m = 0; m < made_count && !found; m++) {
        found = made[m].started && made[m].word;
        if (found) made[m].late = 1;
    }
    assert_true(found);
    assert_false(between_processes_settled(transport, 1, BLOCK_OUTPUT, 1));
    assert_int_equal(sent_count, 0);
    assert_false(between_processes_settled(transport, 1, BLOCK_OUTPUT, 1));
    assert_int_equal(sent_count, 1);
    assert_ptr_equal(sent[0], first);
    /* One block at a time. */
    assert_false(between_processes_settled(transport, 1, BLOCK_OUTPUT, 1));
    assert_int_equal(sent_count, 1);
    all_blocks_done();
    assert_true(between_processes_settled(transport, 1, BLOCK_OUTPUT, 0));
    assert_int_equal(sent_count, 2);
    assert_ptr_equal(sent[1], second);
    all_blocks_done();
    assert_true(between_processes_drain(transport));
    between_processes_destroy(transport);
    ps_cluster_destroy(cluster);
}

/* Worker 1 sends to worker 0 alone: no word is waited for, which would come behind the blocks of the other direction. */
static void test_one_receiver(void **state) {
    (void)state;
    float first[BYTES / 4] = {0}, second[BYTES / 4] = {0};
    float *block[SLOTS] = {first, second};
    struct ps_cluster *cluster = cluster_with_cable();
    struct transport *transport = open_chain(cluster, 2);
    for (int slot = 0; slot < SLOTS; slot++)
        between_processes_post(transport, 1, BLOCK_INPUT_GRADIENT, slot, 0, &block[slot], 0);
    assert_int_equal(sent_count, SLOTS);
    assert_ptr_equal(sent[0], first);
    assert_ptr_equal(sent[1], second);
    all_blocks_done();
    assert_true(between_processes_drain(transport));
    between_processes_destroy(transport);
    ps_cluster_destroy(cluster);
}

/* Worker 1 sends the stash and its input to worker 0 alone. But worker 0 has several receivers and waits for worker 1's words,
 * which go between two blocks: so one block is sent at a time here, too. */
static void test_words_between_blocks(void **state) {
    (void)state;
    float stash[BYTES / 4] = {0}, input[BYTES / 4] = {0};
    float *blocks[] = {stash, input};
    struct ps_cluster *cluster = cluster_with_cable();
    struct transport *transport = open_split(cluster);
    between_processes_post(transport, 0, BLOCK_STASH, 0, 1, &blocks[0], 0);
    between_processes_post(transport, 0, BLOCK_INPUT, 0, 1, &blocks[1], 0);
    all_words(true);
    assert_false(between_processes_settled(transport, 0, BLOCK_INPUT, 0));
    assert_int_equal(sent_count, 1);
    assert_ptr_equal(sent[0], stash);
    all_blocks_done();
    assert_true(between_processes_settled(transport, 0, BLOCK_STASH, 0));
    assert_int_equal(sent_count, 2);
    assert_ptr_equal(sent[1], input);
    all_blocks_done();
    assert_true(between_processes_drain(transport));
    between_processes_destroy(transport);
    ps_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_of_a_route), cmocka_unit_test(test_one_receiver),
                                       cmocka_unit_test(test_words_between_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
