/*
 * Sums over instances whose workers are processes, against the same sums in one memory, to the bit: replicas, parameters that
 * stages share, codecs, blocks on a device. The processes are played in turn by this one, so that a message arrives when both
 * ends have started it, and nothing depends on time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "comm/transports/gradient_sum.h"
#include "comm/transports/gradient_sum_ranks.h"
#include "support.h"

enum { RANKS = 5, STAGES = 3, INSTANCES = 6, PIECE = 256 * WIRE_GROUP, USES = 8, SUMS = 3, LOOKS = 1000 };

/* ------------------------------------------------------------------- messages */

struct message {
    int from, to, tag;
    bool outgoing, done;
    void *block;
    size_t size, most;
    struct message *next; /* of those that wait for their other end, by age */
};
static struct message *waiting;
static int here;                          /* the rank that is played */
static size_t sent_bytes[RANKS], largest; /* of a message */

static enum ps_status message_create(size_t size, struct message **out, struct ps_error *error) {
    (void)error;
    assert_non_null(*out = calloc(1, sizeof **out));
    **out = (struct message){.done = true, .most = size};
    if (size > largest) largest = size;
    return PS_OK;
}

static void message_destroy(struct message *message) { free(message); }

static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    struct message **at = &waiting, *other;
    assert_true(message->done && size <= message->most && peer != here);
    *message = (struct message){.from = outgoing ? here : peer,
                                .to = outgoing ? peer : here,
                                .tag = tag,
                                .outgoing = outgoing,
                                .block = block,
                                .size = size,
                                .most = message->most};
    if (outgoing) sent_bytes[here] += size;
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
    message->done = other->done = true;
}

static bool message_done(struct message *message) { return message->done; }

static const struct processes_class by_hand = {.name = "test",
                                               .message_create = message_create,
                                               .message_destroy = message_destroy,
                                               .message_start = message_start,
                                               .message_done = message_done};

/* ----------------------------------------------------------------------- cases */

/* What is summed: stages by their instances, those of one group sharing the parameters. */
struct layout {
    struct instance instances[INSTANCES];
    int instance_count, stages, ranks;
    int head[STAGES];
    size_t gradients[STAGES], statistics[STAGES];
    enum wire_codec codec;
    struct tied_parameter tied[2];
    int tied_count;
    double takes_s;
};

#define REPLICA(of_stage, on, number, of)                                                                                      \
    { .stage = of_stage, .worker = on, .forward = true, .backward = true, .replica = number, .replicas = of }
/* Several pieces, and a rest that no group fills. */
#define LONG (3 * 2 * PIECE + 7 * WIRE_GROUP + 13)

static const struct layout two = {.instances = {REPLICA(0, 0, 0, 2), REPLICA(0, 1, 1, 2)},
                                  .instance_count = 2,
                                  .stages = 1,
                                  .ranks = 2,
                                  .gradients = {LONG},
                                  .statistics = {PIECE * 2 + 300}},
                           three = {.instances = {REPLICA(0, 2, 0, 3), REPLICA(0, 0, 1, 3), REPLICA(0, 1, 2, 3)},
                                    .instance_count = 3,
                                    .stages = 1,
                                    .ranks = 3,
                                    .gradients = {LONG},
                                    .statistics = {5 * WIRE_GROUP + 3},
                                    .takes_s = 1000},
                           encoded = {.instances = {REPLICA(0, 0, 0, 3), REPLICA(0, 1, 1, 3), REPLICA(0, 2, 2, 3)},
                                      .instance_count = 3,
                                      .stages = 1,
                                      .ranks = 3,
                                      .gradients = {LONG},
                                      .statistics = {3 * PIECE + 5000},
                                      .codec = WIRE_INT8},
                           small = {.instances = {REPLICA(0, 0, 0, 3), REPLICA(0, 1, 1, 3), REPLICA(0, 2, 2, 3)},
                                    .instance_count = 3,
                                    .stages = 1,
                                    .ranks = 3,
                                    .gradients = {5}},
                           nothing = {.instances = {REPLICA(0, 0, 0, 2), REPLICA(0, 1, 1, 2)},
                                      .instance_count = 2,
                                      .stages = 1,
                                      .ranks = 2},
                           /* The first stage's forwards and backwards have a worker each, and the first parameter twice; the
                            * second parameter it has not, and yet adds. Rank 3 has instances of two stages. */
    shared = {.instances = {{.stage = 0, .worker = 0, .forward = true, .replicas = 1},
                            {.stage = 0, .worker = 1, .backward = true, .replicas = 1},
                            REPLICA(1, 2, 0, 2),
                            REPLICA(1, 3, 1, 2),
                            REPLICA(2, 3, 0, 2),
                            REPLICA(2, 4, 1, 2)},
              .instance_count = 6,
              .stages = 3,
              .ranks = 5,
              .gradients = {3 * PIECE, 4 * PIECE, 2 * PIECE + 999},
              .statistics = {0, 70, 0},
              .tied = {{.count = PIECE + 77, .stages = (const int[]){0, 0, 2}, .uses = 3},
                       {.count = 500, .stages = (const int[]){1, 2, 2}, .uses = 3}},
              .tied_count = 2};

/* One instance's blocks: in one memory, as they are to be; and where they are summed. */
struct blocks {
    float *wanted, *got; /* gradients, then statistics */
    float *wanted_tied[USES], *tied[USES];
    struct memory_block there; /* on a device; `got` is their copy */
};

struct played {
    const struct layout *layout;
    struct ps_programs *programs;
    struct rank_sums *sums[RANKS];
    struct device *device[RANKS];
    struct blocks blocks[INSTANCES];
    struct wire_run run[STAGES];
};

static size_t floats_of(const struct played *p, int instance) {
    const int stage = p->layout->instances[instance].stage;
    return p->layout->gradients[stage] + p->layout->statistics[stage];
}

/* Uses stand one after the other, from the gradients' tenth float on. */
static void place_uses(const struct layout *layout, int stage, float *gradients, float **uses) {
    size_t at = 10;
    for (int t = 0; t < layout->tied_count; t++)
        for (int u = 0; u < tied_uses_in(&layout->tied[t], stage); u++, at += layout->tied[t].count) *uses++ = gradients + at;
    assert_true(layout->tied_count == 0 || at <= layout->gradients[stage]);
}

static void open_played(struct played *p, const struct layout *layout, bool far) {
    struct stage_sizes sizes[STAGES] = {0};
    *p = (struct played){.layout = layout};
    assert_ok(programs_create(layout->ranks, layout->stages, &p->programs, &test_error));
    assert_ok(programs_set_instances(p->programs, layout->instances, layout->instance_count, &test_error));
    assert_ok(programs_set_groups(p->programs, layout->tied_count > 0 ? layout->head : (const int[]){0, 1, 2}, &test_error));
    for (int s = 0; s < layout->stages; s++) {
        const struct wire wire = {.codec = layout->codec};
        p->programs->sum_wire[s] = wire_of_sum(&wire, layout->instances[p->programs->first_instance[s]].replicas);
        sizes[s].parameter_bytes = (int64_t)(layout->gradients[s] / 2 * sizeof(float));
        sizes[s].repeated_gradient_bytes = (int64_t)(layout->gradients[s] * sizeof(float)) - sizes[s].parameter_bytes;
        sizes[s].statistics_bytes = (int64_t)(layout->statistics[s] * sizeof(float));
        p->run[s] = (struct wire_run){.count = layout->gradients[s], .type = TYPE_F32};
    }
    for (here = 0; here < layout->ranks; here++) {
        struct processes processes = {.class = &by_hand, .rank = here, .count = layout->ranks};
        if (far) assert_ok(device_open("far", &(struct device_options){.threads = 1}, &p->device[here], &test_error));
        const struct transport_options options = {.programs = p->programs,
                                                  .tied = layout->tied,
                                                  .tied_count = layout->tied_count,
                                                  .processes = &processes,
                                                  .sizes = sizes,
                                                  .device = p->device[here]};
        assert_ok(rank_sums_create(&by_hand, NULL, &options, &p->sums[here], &test_error));
    }
    for (int i = 0; i < layout->instance_count; i++) {
        struct blocks *blocks = &p->blocks[i];
        const int worker = layout->instances[i].worker, stage = layout->instances[i].stage;
        const size_t bytes = (floats_of(p, i) + 1) * sizeof(float);
        float *summed = blocks->got = malloc(bytes);
        assert_non_null(blocks->wanted = malloc(bytes));
        if (far) {
            assert_ok(device_take(p->device[worker], &blocks->there, bytes, "a test", &test_error));
            summed = (float *)blocks->there.base;
        }
        place_uses(layout, stage, blocks->wanted, blocks->wanted_tied);
        place_uses(layout, stage, summed, blocks->tied);
    }
}

static void close_played(struct played *p) {
    for (int i = 0; i < p->layout->instance_count; i++) {
        struct device *device = p->device[p->layout->instances[i].worker];
        if (device) device_give(device, &p->blocks[i].there);
        free(p->blocks[i].wanted);
        free(p->blocks[i].got);
    }
    for (int r = 0; r < p->layout->ranks; r++) {
        rank_sums_destroy(p->sums[r]);
        if (p->device[r]) device_close(p->device[r]);
    }
    ps_programs_destroy(p->programs);
}

/* The instance's share: in one memory, or where it is summed. */
static struct transport_share share_of(const struct played *p, int instance, bool wanted, bool empty) {
    const struct layout *layout = p->layout;
    const struct blocks *blocks = &p->blocks[instance];
    const int stage = layout->instances[instance].stage;
    float *gradients = wanted ? blocks->wanted : blocks->there.base ? (float *)blocks->there.base : blocks->got;
    return (struct transport_share){.device = wanted ? NULL : p->device[layout->instances[instance].worker],
                                    .gradients = gradients,
                                    .gradient_count = layout->gradients[stage],
                                    .statistics = gradients + layout->gradients[stage],
                                    .statistics_count = layout->statistics[stage],
                                    .empty = empty,
                                    .scale = 0.3f,
                                    .wire = &p->programs->sum_wire[stage],
                                    .run = &p->run[stage],
                                    .takes_s = layout->takes_s,
                                    .tied = wanted ? blocks->wanted_tied : blocks->tied};
}

/* The n-th sum: which instance has no gradients, -1: all have some. */
static int empty_in(const struct layout *layout, int sum) { return sum == 0 ? -1 : (sum - 1) % layout->instance_count; }

static bool is_empty(const struct layout *layout, int instance, int sum) {
    return instance == empty_in(layout, sum) && layout->instances[instance].replicas > 1;
}

static void fill(struct played *p, int sum) {
    for (int i = 0; i < p->layout->instance_count; i++) {
        const struct random_key key = test_key((uint64_t)(100 * sum + i));
        const int stage = p->layout->instances[i].stage;
        struct blocks *blocks = &p->blocks[i];
        for (size_t f = 0; f < floats_of(p, i); f++) blocks->wanted[f] = (float)random_uniform(key, f) - 0.4f;
        /* As whoever offers a share rounds it. */
        if (p->layout->codec != WIRE_NONE)
            wire_round(&p->programs->sum_wire[stage].share, &p->run[stage], 1, blocks->wanted, NULL);
        memcpy(blocks->got, blocks->wanted, floats_of(p, i) * sizeof(float));
        struct device *device = p->device[p->layout->instances[i].worker];
        if (device) device_copy(device, blocks->there.base, blocks->got, floats_of(p, i) * sizeof(float));
    }
}

/* The sums in one memory, as between threads. */
static void sum_wanted(struct played *p, int sum) {
    struct transport_share shares[INSTANCES];
    struct sum_stage stages[STAGES];
    int count = 0;
    for (int s = 0; s < p->layout->stages; s++) {
        stages[s] = (struct sum_stage){.number = s, .first = count, .replicas = programs_replicas(p->programs, s)};
        for (int i = p->programs->first_instance[s]; i < p->programs->first_instance[s + 1]; i++)
            if (p->layout->instances[i].backward) shares[count++] = share_of(p, i, true, is_empty(p->layout, i, sum));
    }
    sum_stages(NULL, shares, stages, p->layout->stages, p->layout->tied, p->layout->tied_count);
}

static bool look(struct played *p) {
    bool settled = true;
    for (here = 0; here < p->layout->ranks; here++) rank_sums_look(p->sums[here]);
    for (int i = 0; i < p->layout->instance_count; i++)
        settled = rank_sums_settled(p->sums[p->layout->instances[i].worker], i) && settled;
    return settled;
}

/* What further uses of a parameter hold in the end is left open: the first has the sum. */
static void forget_further_uses(struct played *p, int instance) {
    struct blocks *blocks = &p->blocks[instance];
    float **use = blocks->wanted_tied;
    for (int t = 0; t < p->layout->tied_count; t++)
        for (int u = 0, uses = tied_uses_in(&p->layout->tied[t], p->layout->instances[instance].stage); u < uses; u++, use++)
            if (u > 0) memcpy(blocks->got + (*use - blocks->wanted), *use, p->layout->tied[t].count * sizeof(float));
}

static void start(struct played *p, int instance, int sum) {
    if (!p->layout->instances[instance].backward) return;
    const struct transport_share share = share_of(p, instance, false, is_empty(p->layout, instance, sum));
    here = p->layout->instances[instance].worker;
    rank_sums_start(p->sums[here], instance, &share);
    assert_false(rank_sums_idle(p->sums[here]));
}

static void play(struct played *p, int sum) {
    const struct layout *layout = p->layout;
    const int last = (layout->instance_count - 1 + sum) % layout->instance_count;
    const double begun = clock_now();
    fill(p, sum);
    for (int r = 0; r < layout->ranks; r++) assert_true(rank_sums_idle(p->sums[r]));
    for (int n = 1; n <= layout->instance_count; n++) {
        const int instance = (last + n) % layout->instance_count;
        start(p, instance, sum);
        for (int looks = 0; looks < 20 && n < layout->instance_count; looks++) look(p);
        /* Nobody has the sum before all have brought their share. */
        for (int i = 0; i < layout->instance_count && instance != last && layout->tied_count == 0; i++)
            assert_int_equal(rank_sums_settled(p->sums[layout->instances[i].worker], i),
                             (i - last - 1 + layout->instance_count) % layout->instance_count >= n);
    }
    int looks = 0;
    while (!look(p) && looks < LOOKS) looks += p->device[0] == NULL; /* a device takes as long as it takes */
    assert_true(looks < LOOKS && waiting == NULL);
    sum_wanted(p, sum);
    for (int i = 0; i < layout->instance_count; i++) {
        struct device *device = p->device[layout->instances[i].worker];
        const size_t bytes = floats_of(p, i) * sizeof(float);
        if (device) {
            device_copy(device, p->blocks[i].got, p->blocks[i].there.base, bytes);
            device_finish(device);
        }
        if (!layout->instances[i].backward) continue;
        forget_further_uses(p, i);
        assert_memory_equal(p->blocks[i].got, p->blocks[i].wanted, bytes);
        const double at = rank_sums_settled_at(p->sums[layout->instances[i].worker], i) - layout->takes_s;
        assert_true(at >= begun && at <= clock_now());
    }
}

/* Of each use a message has a piece, which is no longer than what is summed. */
static size_t message_bytes_most(const struct layout *layout) {
    size_t floats = 0;
    for (int s = 0; s < layout->stages; s++)
        floats = (size_t)number_larger((int64_t)floats,
                                       number_larger((int64_t)layout->gradients[s], (int64_t)layout->statistics[s]));
    floats = (size_t)number_smaller((int64_t)floats + 2 * WIRE_GROUP, PIECE);
    return (layout->tied_count > 0 ? 2 : 1) * floats * sizeof(float) + 4 * MEMORY_ALIGNMENT;
}

static void play_all(const struct layout *layout, bool far) {
    struct played p;
    largest = 0;
    open_played(&p, layout, far);
    assert_in_range(largest, 1, message_bytes_most(layout));
    for (int sum = 0; sum < SUMS; sum++) play(&p, sum);
    close_played(&p);
}

static void test_replicas(void **state) {
    (void)state;
    play_all(&two, false);
    play_all(&three, false);
    play_all(&small, false);
    play_all(&nothing, false);
}

static void test_encoded(void **state) {
    (void)state;
    play_all(&encoded, false);
}

static void test_shared(void **state) {
    (void)state;
    play_all(&shared, false);
}

static void test_far(void **state) {
    (void)state;
    play_all(&three, true);
    play_all(&shared, true);
}

/* Of n replicas each sends 2 (n - 1) / n of gradients and statistics, but for what groups that are kept whole make uneven. */
static void assert_sent(const struct layout *layout, double bytes_each) {
    struct played p;
    open_played(&p, layout, false);
    memset(sent_bytes, 0, sizeof sent_bytes);
    play(&p, 0);
    const int n = layout->ranks;
    const double bytes = (double)layout->gradients[0] * bytes_each + (double)(layout->statistics[0] * sizeof(float));
    const double wanted = 2 * bytes * (n - 1) / n;
    for (int r = 0; r < n; r++) assert_true(fabs((double)sent_bytes[r] - wanted) < 0.03 * wanted);
    close_played(&p);
}

static void test_sent(void **state) {
    (void)state;
    assert_sent(&three, sizeof(float));
    /* A byte each, and a float for each group. */
    assert_sent(&encoded, 1 + (double)sizeof(float) / WIRE_GROUP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas), cmocka_unit_test(test_encoded), cmocka_unit_test(test_shared),
        cmocka_unit_test(test_far),      cmocka_unit_test(test_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
