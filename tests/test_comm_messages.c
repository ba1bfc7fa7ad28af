/*
 * Blocks that go between processes by messages: ranks that are played in turn by this one post blocks over all routes of a plan
 * in any order, and each block arrives whole, in its place among those of its route, and in the other's memory; over cables one
 * after the other. Messages are played, too: they move when both ends have started them, and are seen to be done some looks
 * later.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/transports/between_processes.h"
#include "plan/cluster.h"
#include "program/routes.h"
#include "support.h"

enum { RANKS = 3, STAGES = 4, INSTANCES = 6, SLOTS = 2, ROUTES = 40, POSTS = 30, STEPS = 1000000 };

/* ------------------------------------------------------------------- messages */

struct message {
    int from, to, tag;
    bool outgoing, matched, done; /* done: it was seen to be */
    int late;                     /* looks that do not see it yet */
    void *block;
    size_t size, most;
    struct message *next; /* of those that wait for their other end, by age */
};
static struct message *waiting;
static int here;                 /* the rank that is played */
static int message_count, looks; /* messages that there are; looks at any */
static int in_flight[RANKS];     /* blocks that the rank is sending */
static int started[ROUTES];      /* blocks that were sent over the route */
static struct random_key key;
static uint64_t drawn;

static int draw(int below) { return (int)(random_uniform(key, drawn++) * below); }

static enum ps_status message_create(size_t size, struct message **out, struct ps_error *error) {
    (void)error;
    assert_non_null(*out = calloc(1, sizeof **out));
    **out = (struct message){.done = true, .most = size};
    message_count++;
    return PS_OK;
}

static void message_destroy(struct message *message) {
    if (message) message_count--;
    free(message);
}

static bool is_block(const struct message *message) { return message->tag % TAG_KINDS == TAG_BLOCK; }

static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    struct message **at = &waiting, *other;
    assert_true(message->done && size <= message->most && peer != here);
    *message = (struct message){.from = outgoing ? here : peer,
                                .to = outgoing ? peer : here,
                                .tag = tag,
                                .outgoing = outgoing,
                                .block = block,
                                .size = size,
                                .late = draw(4),
                                .most = message->most};
    if (outgoing && is_block(message)) {
        in_flight[here]++;
        started[tag / TAG_KINDS]++;
    }
    while ((other = *at) &&
           (other->from != message->from || other->to != message->to || other->tag != tag || other->outgoing == outgoing))
        at = &other->next;
    if (!other) {
        *at = message;
        return;
    }
    *at = other->next;
    assert_int_equal(size, other->size);
    memcpy(outgoing ? other->block : block, outgoing ? block : other->block, size);
    message->matched = other->matched = true;
}

static bool message_done(struct message *message) {
    looks++;
    if (message->done) return true;
    if (!message->matched || message->late-- > 0) return false;
    if (message->outgoing && is_block(message)) in_flight[message->from]--;
    return message->done = true;
}

static const struct processes_class played = {.name = "test",
                                              .message_create = message_create,
                                              .message_destroy = message_destroy,
                                              .message_start = message_start,
                                              .message_done = message_done};
static const struct transport_class class = {.name = "test", .own_threads = true, .processes = &played};

/* ---------------------------------------------------------------------- worlds */

/* One slot of one kind of an instance. */
struct place {
    float *block; /* the table entry */
    struct memory_block there;
    bool posted, sends;
    int route, number;
};

struct world {
    struct ps_programs *programs;
    struct routes routes;
    struct processes processes[RANKS];
    struct transport *transport[RANKS];
    struct device *device[RANKS];
    struct stage_slots slots[INSTANCES];
    struct stage_sizes sizes[STAGES];
    struct place places[INSTANCES][BLOCK_PLACES][SLOTS];
    int ranks, posted[ROUTES][2]; /* by the sender, by the receiver */
    double posted_at[ROUTES][2][POSTS];
};

static size_t bytes_of(const struct world *world, int instance, int kind) {
    return (size_t)stage_block_bytes(&world->sizes[world->programs->instances[instance].stage], (enum block_kind)kind);
}

static void open_world(struct world *world, int ranks, int stages, const struct instance *instances, int count, bool far,
                       struct ps_cluster *cluster, struct ps_cluster *emulated) {
    *world = (struct world){.ranks = ranks};
    waiting = NULL;
    message_count = looks = 0;
    memset(in_flight, 0, sizeof in_flight);
    memset(started, 0, sizeof started);
    assert_ok(programs_create(ranks, stages, &world->programs, &test_error));
    assert_ok(programs_set_instances(world->programs, instances, count, &test_error));
    if (stages > 2) world->programs->wire[1].activation.codec = world->programs->wire[1].gradient.codec = WIRE_INT8;
    assert_ok(routes_create(world->programs, &world->routes, &test_error));
    assert_in_range(world->routes.count, 1, ROUTES);
    for (int s = 0; s < stages; s++) {
        struct stage_sizes *sizes = &world->sizes[s];
        *sizes = (struct stage_sizes){
            .input_bytes = 64 + 16 * s, .output_bytes = 64 + 16 * (s + 1), .stash_bytes = 400, .parameter_bytes = 800};
        sizes->wire_bytes[WIRE_ACTIVATION_SENT] = sizes->wire_bytes[WIRE_GRADIENT_RECEIVED] = 8 + 4 * s;
        sizes->wire_bytes[WIRE_ACTIVATION_RECEIVED] = sizes->wire_bytes[WIRE_GRADIENT_SENT] = 4 + 4 * s;
    }
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) {
            int *slots = stage_slots_place(&world->slots[i], (enum block_kind)kind);
            if (slots) *slots = SLOTS;
        }
    for (here = 0; here < ranks; here++) {
        world->processes[here] = (struct processes){.class = &played, .rank = here, .count = ranks};
        if (far) assert_ok(device_open("far", &(struct device_options){.threads = 1}, &world->device[here], &test_error));
        const struct transport_options options = {.programs = world->programs,
                                                  .slots = world->slots,
                                                  .processes = &world->processes[here],
                                                  .sizes = world->sizes,
                                                  .device = world->device[here],
                                                  .cluster = cluster,
                                                  .emulated = emulated};
        assert_ok(between_processes_create(&class, &options, &world->transport[here], &test_error));
    }
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++)
            for (int s = 0; s < SLOTS; s++) {
                struct place *place = &world->places[i][kind][s];
                struct device *device = world->device[instances[i].worker];
                const size_t bytes = bytes_of(world, i, kind);
                if (bytes == 0) continue;
                if (device)
                    assert_ok(device_take(device, &place->there, bytes, "a test", &test_error));
                else
                    assert_non_null(place->there.base = malloc(bytes));
                place->block = (float *)place->there.base;
            }
}

static void close_world(struct world *world) {
    for (int i = 0; i < world->programs->instance_count; i++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++)
            for (int s = 0; s < SLOTS; s++) {
                struct place *place = &world->places[i][kind][s];
                struct device *device = world->device[world->programs->instances[i].worker];
                if (device && place->there.base)
                    device_give(device, &place->there);
                else if (!device)
                    free(place->there.base);
            }
    for (int r = 0; r < world->ranks; r++) {
        between_processes_destroy(world->transport[r]);
        if (world->device[r]) device_close(world->device[r]);
    }
    assert_int_equal(message_count, 0);
    routes_free(&world->routes);
    ps_programs_destroy(world->programs);
}

/* ---------------------------------------------------------------------- blocks */

static struct place *place_at(struct world *world, int route, bool sends, int slot, int *instance, enum block_kind *kind) {
    const struct route *of = &world->routes.list[route];
    *instance = sends ? of->from : of->to;
    *kind = sends ? traffic_table[of->traffic].sent : traffic_table[of->traffic].received;
    here = world->programs->instances[*instance].worker;
    return &world->places[*instance][*kind][slot];
}

/* Writes the value into all of the block, or reads the block, of which all must be the same. */
static void fill(const struct world *world, float *block, size_t bytes, float value) {
    float values[256];
    assert_true(bytes <= sizeof values);
    for (size_t i = 0; i < bytes / sizeof value; i++) values[i] = value;
    if (!world->device[here]) {
        memcpy(block, values, bytes);
        return;
    }
    device_copy(world->device[here], block, values, bytes);
    device_finish(world->device[here]);
}

static float read_block(const struct world *world, const float *block, size_t bytes) {
    float values[256];
    if (world->device[here]) {
        device_copy(world->device[here], values, block, bytes);
        device_finish(world->device[here]);
    } else {
        memcpy(values, block, bytes);
    }
    for (size_t i = 1; i < bytes / sizeof *values; i++) assert_true(values[i] == values[0]);
    return values[0];
}

static void post(struct world *world, int route, bool sends, int slot) {
    int instance;
    enum block_kind kind;
    struct place *place = place_at(world, route, sends, slot, &instance, &kind);
    const struct route *of = &world->routes.list[route];
    const int number = world->posted[route][!sends]++;
    fill(world, place->block, bytes_of(world, instance, kind), sends ? (float)(1000 * route + number) : -1);
    place->posted = true;
    place->sends = sends;
    place->route = route;
    place->number = number;
    const struct moment now = world->device[here] ? device_mark(world->device[here]) : (struct moment){.time = clock_now()};
    world->posted_at[route][!sends][number] = now.time;
    between_processes_post(world->transport[here], instance, kind, slot, sends ? of->to : of->from, &place->block, &now);
}

/* Is it there, whole and in its turn? */
static bool settled(struct world *world, int route, bool sends, int slot) {
    int instance;
    enum block_kind kind;
    struct place *place = place_at(world, route, sends, slot, &instance, &kind);
    if (!between_processes_settled(world->transport[here], instance, kind, slot)) return false;
    const int number = place->number;
    assert_true(world->posted[route][sends] > number);
    const double at = between_processes_settled_at(world->transport[here], instance, kind, slot).time;
    assert_true(at >= world->posted_at[route][0][number] && at >= world->posted_at[route][1][number] && at <= clock_now());
    if (!sends) assert_true(read_block(world, place->block, bytes_of(world, instance, kind)) == (float)(1000 * route + number));
    place->posted = false;
    return true;
}

static const struct instance parts[INSTANCES] = {
    /* The first stage is split; the second has two replicas; the two last are on one worker. */
    {.stage = 0, .worker = 0, .forward = true, .replicas = 1},
    {.stage = 0, .worker = 1, .backward = true, .replicas = 1},
    {.stage = 1, .worker = 1, .forward = true, .backward = true, .replica = 0, .replicas = 2},
    {.stage = 1, .worker = 2, .forward = true, .backward = true, .replica = 1, .replicas = 2},
    {.stage = 2, .worker = 0, .forward = true, .backward = true, .replicas = 1},
    {.stage = 3, .worker = 0, .forward = true, .backward = true, .replicas = 1}};

static struct ps_cluster *read_cluster(const char *links) {
    char directory[4096], path[4200], text[1024];
    struct ps_cluster *cluster;
    test_directory_make(directory);
    snprintf(path, sizeof path, "%s/cluster.json", directory);
    snprintf(
        text, sizeof text,
        "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": "
        "\"c\"}], \"links\": [%s]}",
        links);
    test_file_write(path, text, strlen(text));
    assert_ok(ps_cluster_read(path, &cluster, &test_error));
    test_directory_remove(directory);
    return cluster;
}

/* Each rank has one cable for all that it sends. */
static const char cables[] = "{\"from\": \"a\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e9, \"shared_link\": \"of a\"}, "
                             "{\"from\": \"b\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e9, \"shared_link\": \"of b\"}, "
                             "{\"from\": \"c\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e9, \"shared_link\": \"of c\"}";

/* A step of any end of any route. */
static void step(struct world *world, bool turns) {
    const int route = draw(world->routes.count), slot = draw(SLOTS);
    const bool sends = draw(2);
    int instance;
    enum block_kind kind;
    struct place *place = place_at(world, route, sends, slot, &instance, &kind);
    if (place->posted)
        settled(world, place->route, place->sends, slot);
    else if (world->posted[route][!sends] < POSTS)
        post(world, route, sends, slot);
    for (int r = 0; r < world->ranks && turns; r++) assert_in_range(in_flight[r], 0, 1);
    for (int r = 0; r < world->routes.count; r++) {
        const struct route *of = &world->routes.list[r];
        const bool travels = world->programs->instances[of->from].worker != world->programs->instances[of->to].worker;
        assert_true(started[r] <= world->posted[r][0] && (travels || started[r] == 0));
        /* On a cable not before the receiver is ready; else at once, unless a device must copy it first. */
        if (turns) assert_true(started[r] <= world->posted[r][1]);
        if (!turns && travels && !world->device[0]) assert_int_equal(started[r], world->posted[r][0]);
    }
}

static bool all_over(const struct world *world) {
    for (int r = 0; r < world->routes.count; r++)
        if (world->posted[r][0] < POSTS || world->posted[r][1] < POSTS) return false;
    for (int i = 0; i < world->programs->instance_count; i++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++)
            for (int s = 0; s < SLOTS; s++)
                if (world->places[i][kind][s].posted) return false;
    return true;
}

static void exchange(bool far, bool turns) {
    struct world world;
    struct ps_cluster *cluster = turns ? read_cluster(cables) : NULL;
    key = test_key(20 + 2 * (uint64_t)far + turns);
    open_world(&world, RANKS, STAGES, parts, INSTANCES, far, cluster, NULL);
    int steps = 0;
    while (!all_over(&world) && steps++ < STEPS) step(&world, turns);
    assert_true(steps < STEPS);
    for (here = 0; here < RANKS; here++) {
        assert_true(between_processes_drain(world.transport[here]));
        assert_int_equal(in_flight[here], 0);
    }
    assert_null(waiting);
    close_world(&world);
    if (cluster) ps_cluster_destroy(cluster);
}

static void test_all_routes(void **state) {
    (void)state;
    exchange(false, false);
}

static void test_cables(void **state) {
    (void)state;
    exchange(false, true);
}

static void test_far(void **state) {
    (void)state;
    exchange(true, false);
    exchange(true, true);
}

/* ------------------------------------------------------------------- waiting */

static const struct instance chain[] = {{.stage = 0, .worker = 0, .forward = true, .backward = true, .replicas = 1},
                                        {.stage = 1, .worker = 1, .forward = true, .backward = true, .replicas = 1}};

/* Waits end when the block is there, or nothing is waited for any more; a worker that computes looks now and then. */
static void test_waiting(void **state) {
    (void)state;
    struct world world;
    key = test_key(30);
    open_world(&world, 2, 2, chain, 2, false, NULL, NULL);
    const int route = routes_find(&world.routes, 0, 1, TRAFFIC_ACTIVATION);
    for (int slot = 0; slot < SLOTS; slot++) {
        post(&world, route, false, slot);
        post(&world, route, true, slot);
    }
    for (int slot = 0; slot < SLOTS; slot++)
        for (int sends = 0; sends < 2; sends++) {
            here = !sends;
            assert_true(between_processes_wait(world.transport[here], here, sends ? BLOCK_OUTPUT : BLOCK_INPUT, slot));
            assert_true(settled(&world, route, sends, slot));
        }
    here = 0;
    assert_true(between_processes_drain(world.transport[0]));
    post(&world, route, true, 0);
    /* Not at each call; but again after a while. */
    clock_sleep(0.001);
    looks = 0;
    for (int n = 0; n < 20; n++) {
        between_processes_progress(world.transport[0]);
        if (n == 0) assert_true(looks > 0);
    }
    assert_true(looks < 20);
    looks = 0;
    clock_sleep(0.001);
    between_processes_progress(world.transport[0]);
    assert_true(looks > 0);
    assert_false(between_processes_settled(world.transport[0], 0, BLOCK_OUTPUT, 0));
    between_processes_stop(world.transport[0]);
    assert_false(between_processes_wait(world.transport[0], 0, BLOCK_OUTPUT, 0));
    assert_false(between_processes_drain(world.transport[0]));
    /* What is posted still matches. */
    post(&world, route, false, 1);
    while (!between_processes_settled(world.transport[1], 1, BLOCK_INPUT, 1)) continue;
    here = 0;
    while (!between_processes_settled(world.transport[0], 0, BLOCK_OUTPUT, 0)) continue;
    assert_true(between_processes_wait(world.transport[0], 0, BLOCK_OUTPUT, 0));
    assert_true(between_processes_drain(world.transport[0]));
    close_world(&world);
}

/* The library's sleeps come here: the longest of them that is asked for, in seconds. */
static double longest_s;
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    static int (*next)(clockid_t, int, const struct timespec *, struct timespec *);
    if (!next) next = (int (*)(clockid_t, int, const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "clock_nanosleep");
    const double asked_s = (double)until->tv_sec + 1e-9 * (double)until->tv_nsec - clock_now();
    if (flags & TIMER_ABSTIME && asked_s > longest_s) longest_s = asked_s;
    return next(clock, flags, until, left);
}

/* Over an emulated link a block is there when its time has come, for who gets it. */
static void test_emulated(void **state) {
    (void)state;
    struct world world;
    struct ps_cluster *cluster =
        read_cluster("{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e9, \"latency_s\": 0.2}");
    key = test_key(31);
    open_world(&world, 2, 2, chain, 2, false, NULL, cluster);
    const int route = routes_find(&world.routes, 0, 1, TRAFFIC_ACTIVATION);
    for (int slot = 0; slot < SLOTS; slot++) {
        post(&world, route, true, slot);
        post(&world, route, false, slot);
    }
    here = 0;
    for (int slot = 0; slot < SLOTS; slot++) assert_true(between_processes_wait(world.transport[0], 0, BLOCK_OUTPUT, slot));
    here = 1;
    for (int slot = 0; slot < SLOTS; slot++) {
        const double posted_at = world.posted_at[route][1][slot];
        longest_s = 0;
        if (!between_processes_settled(world.transport[1], 1, BLOCK_INPUT, slot)) {
            assert_true(between_processes_wait(world.transport[1], 1, BLOCK_INPUT, slot));
            /* Who waits long looks again each half a millisecond. */
            assert_true(longest_s < 6e-4);
        }
        /* The second one waits for the first one's end. */
        assert_true(clock_now() >= posted_at + 0.2 * (slot + 1) - 0.01);
        const double at = between_processes_settled_at(world.transport[1], 1, BLOCK_INPUT, slot).time;
        assert_true(at >= posted_at + 0.2 && at <= clock_now());
    }
    close_world(&world);
    ps_cluster_destroy(cluster);
}

/* ------------------------------------------------------------------------- sums */

static void test_sums(void **state) {
    (void)state;
    static const struct instance replicas[] = {
        {.stage = 0, .worker = 0, .forward = true, .backward = true, .replica = 0, .replicas = 2},
        {.stage = 0, .worker = 1, .forward = true, .backward = true, .replica = 1, .replicas = 2},
        {.stage = 1, .worker = 0, .forward = true, .backward = true, .replicas = 1}};
    enum { FLOATS = 200 };
    struct world world;
    float gradients[2][FLOATS];
    key = test_key(32);
    open_world(&world, 2, 2, replicas, 3, false, NULL, NULL);
    for (int sum = 0; sum < 3; sum++) {
        const double began = clock_now();
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < FLOATS; i++) gradients[r][i] = (float)((r + 1) * (i + sum));
        for (int r = 0; r < 2; r++) {
            here = r;
            assert_true(between_processes_settled(world.transport[r], r, BLOCK_WEIGHT_GRADIENTS, 0));
            between_processes_reduce(
                world.transport[r], r,
                &(struct transport_share){.gradients = gradients[r], .gradient_count = FLOATS, .scale = 0.5f});
            assert_false(between_processes_settled(world.transport[r], r, BLOCK_WEIGHT_GRADIENTS, 0));
        }
        for (int n = 0; n < 1000; n++) {
            here = n % 2;
            between_processes_settled(world.transport[here], here, BLOCK_WEIGHT_GRADIENTS, 0);
        }
        for (int r = 0; r < 2; r++) {
            here = r;
            assert_true(between_processes_wait(world.transport[r], r, BLOCK_WEIGHT_GRADIENTS, 0));
            const double at = between_processes_settled_at(world.transport[r], r, BLOCK_WEIGHT_GRADIENTS, 0).time;
            assert_true(at >= began && at <= clock_now());
            for (int i = 0; i < FLOATS; i++) assert_true(gradients[r][i] == 1.5f * (float)(i + sum));
        }
    }
    /* One that waits for the other's is ended. */
    here = 0;
    between_processes_reduce(world.transport[0], 0,
                             &(struct transport_share){.gradients = gradients[0], .gradient_count = FLOATS, .scale = 1});
    between_processes_stop(world.transport[0]);
    assert_false(between_processes_wait(world.transport[0], 0, BLOCK_WEIGHT_GRADIENTS, 0));
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_routes), cmocka_unit_test(test_cables),
                                       cmocka_unit_test(test_far),        cmocka_unit_test(test_waiting),
                                       cmocka_unit_test(test_emulated),   cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
