/*
 * What every transport must do, tested on all of the table: the n-th block of one end meets the n-th of the other whoever comes
 * first, contents arrive, table entries stay a permutation of the blocks, a stopped transport keeps nobody waiting.
 */
#include <pthread.h>
#include <stdlib.h>

#include "comm/transport.h"
#include "support.h"

enum { SLOTS = 3, STAGES = 3 };

static const struct stage_slots slots[STAGES] = {
    {.input = SLOTS, .output = SLOTS, .output_gradient = SLOTS},
    {.input = SLOTS, .output = SLOTS, .output_gradient = SLOTS, .input_gradient = SLOTS, .stash = 1},
    {.input = SLOTS, .input_gradient = SLOTS},
};

static struct transport *create(const struct transport_class *class) {
    struct ps_programs *programs;
    struct transport *transport;
    assert_ok(programs_create(STAGES, STAGES, &programs, &test_error));
    struct transport_options options = {.programs = programs, .slots = slots};
    assert_ok(class->create(class, &options, &transport, &test_error));
    ps_programs_destroy(programs);
    assert_ptr_equal(transport->class, class);
    return transport;
}

static void test_order(void **state) {
    (void)state;
    for (int t = 0; transport_table[t]; t++) {
        const struct transport_class *class = transport_table[t];
        struct transport *transport = create(class);
        float blocks[2 * SLOTS], *sender[SLOTS], *receiver[SLOTS];
        for (int i = 0; i < SLOTS; i++) {
            blocks[i] = (float)(10 + i);
            blocks[SLOTS + i] = -1;
            sender[i] = &blocks[i];
            receiver[i] = &blocks[SLOTS + i];
        }
        /* Two sends wait, three receives come, the third send comes last. */
        class->post(transport, 0, BLOCK_OUTPUT, 2, 1, &sender[2], &(struct moment){0});
        class->post(transport, 0, BLOCK_OUTPUT, 0, 1, &sender[0], &(struct moment){0});
        assert_false(class->settled(transport, 0, BLOCK_OUTPUT, 2));
        assert_true(class->settled(transport, 0, BLOCK_OUTPUT, 1));
        class->post(transport, 1, BLOCK_INPUT, 1, 0, &receiver[1], &(struct moment){0});
        assert_true(class->settled(transport, 0, BLOCK_OUTPUT, 2));
        assert_true(class->settled(transport, 1, BLOCK_INPUT, 1));
        assert_false(class->settled(transport, 0, BLOCK_OUTPUT, 0));
        class->post(transport, 1, BLOCK_INPUT, 0, 0, &receiver[0], &(struct moment){0});
        class->post(transport, 1, BLOCK_INPUT, 2, 0, &receiver[2], &(struct moment){0});
        assert_false(class->settled(transport, 1, BLOCK_INPUT, 2));
        class->post(transport, 0, BLOCK_OUTPUT, 1, 1, &sender[1], &(struct moment){0});
        assert_true(class->settled(transport, 1, BLOCK_INPUT, 2));
        assert_true(*receiver[1] == 12 && *receiver[0] == 10 && *receiver[2] == 11);
        bool seen[2 * SLOTS] = {false};
        for (int i = 0; i < SLOTS; i++) seen[sender[i] - blocks] = seen[receiver[i] - blocks] = true;
        for (int i = 0; i < 2 * SLOTS; i++) assert_true(seen[i]);
        /* The other channels have seen nothing. */
        assert_true(class->settled(transport, 1, BLOCK_OUTPUT, 0) && class->settled(transport, 1, BLOCK_INPUT_GRADIENT, 0));
        /* Blocks that never travel. */
        assert_true(class->settled(transport, 1, BLOCK_STASH, 0) && class->settled(transport, 0, BLOCK_INPUT, 0));
        class->destroy(transport);
    }
}

static void test_gradients_go_back(void **state) {
    (void)state;
    for (int t = 0; transport_table[t]; t++) {
        const struct transport_class *class = transport_table[t];
        struct transport *transport = create(class);
        float full = 5, empty = 0, *from = &full, *to = &empty;
        class->post(transport, 1, BLOCK_OUTPUT_GRADIENT, 0, 2, &to, &(struct moment){0});
        assert_false(class->settled(transport, 1, BLOCK_OUTPUT_GRADIENT, 0));
        class->post(transport, 2, BLOCK_INPUT_GRADIENT, 0, 1, &from, &(struct moment){0});
        assert_true(class->settled(transport, 1, BLOCK_OUTPUT_GRADIENT, 0));
        assert_true(*to == 5);
        class->destroy(transport);
    }
}

/* Each end learns when both had posted, and for which work of the other's device its own must wait. */
static void test_moments(void **state) {
    (void)state;
    static struct device devices[2]; /* of which nothing is asked */
    for (int t = 0; transport_table[t]; t++)
        for (int first = 0; first < 2; first++)
            for (int late = 0; late < 2; late++) {
                const struct transport_class *class = transport_table[t];
                struct transport *transport = create(class);
                float full = 1, empty = 2, *entries[2] = {&full, &empty};
                struct moment when[2];
                assert_true(class->settled_at(transport, 0, BLOCK_OUTPUT, 0).device == NULL);
                for (int e = 0; e < 2; e++)
                    when[e] = (struct moment){.time = e == late ? 7 : 5, .device = &devices[e], .work = 10 + (uint64_t)e};
                for (int n = 0; n < 2; n++) {
                    const int e = n ? 1 - first : first;
                    class->post(transport, e, e ? BLOCK_INPUT : BLOCK_OUTPUT, 1, 1 - e, &entries[e], &when[e]);
                }
                for (int e = 0; e < 2; e++) {
                    const struct moment at = class->settled_at(transport, e, e ? BLOCK_INPUT : BLOCK_OUTPUT, 1);
                    assert_true(at.time == 7);
                    assert_ptr_equal(at.device, &devices[1 - e]);
                    assert_int_equal(at.work, 10 + 1 - e);
                }
                assert_true(entries[0] == &empty && entries[1] == &full);
                class->destroy(transport);
            }
}

/* A last stage with replicas. */
static const struct instance replicated[] = {
    {.stage = 0, .worker = 0, .forward = true, .backward = true, .replicas = 1},
    {.stage = 1, .worker = 1, .forward = true, .backward = true, .replica = 0, .replicas = 2},
    {.stage = 1, .worker = 2, .forward = true, .backward = true, .replica = 1, .replicas = 2}};

/* A sum is done when the last share had come, and it has taken its time; one alone is done at once. */
static void test_moments_of_sums(void **state) {
    (void)state;
    enum { SUMS = 3 };
    for (int t = 0; transport_table[t]; t++) {
        const struct transport_class *class = transport_table[t];
        struct ps_programs *programs;
        struct transport *transport;
        assert_ok(programs_create(3, 2, &programs, &test_error));
        assert_ok(programs_set_instances(programs, replicated, 3, &test_error));
        const struct transport_options options = {.programs = programs, .slots = slots};
        assert_ok(class->create(class, &options, &transport, &test_error));
        assert_true(class->settled(transport, 0, BLOCK_WEIGHT_GRADIENTS, 0));
        for (int sum = 0; sum < SUMS; sum++) {
            float gradients[2] = {1, 2}, statistics[2] = {4, 8};
            for (int n = 0; n < 2; n++) {
                const int replica = (n + sum) % 2;
                class->reduce(transport, 1 + replica,
                              &(struct transport_share){.when = {.time = 10 * sum + (replica ? 9 : 3)},
                                                        .gradients = &gradients[replica],
                                                        .gradient_count = 1,
                                                        .empty = sum == 2 && replica == 0,
                                                        .scale = 0.5f,
                                                        .statistics = &statistics[replica],
                                                        .statistics_count = 1,
                                                        .takes_s = 2});
                assert_true(class->settled(transport, 1 + replica, BLOCK_WEIGHT_GRADIENTS, 0) == (n == 1));
            }
            for (int replica = 0; replica < 2; replica++) {
                assert_true(class->settled(transport, 1 + replica, BLOCK_WEIGHT_GRADIENTS, 0));
                assert_true(class->settled_at(transport, 1 + replica, BLOCK_WEIGHT_GRADIENTS, 0).time == 10 * sum + 11);
                assert_true(gradients[replica] == (sum == 2 ? 1 : 1.5f) && statistics[replica] == 6);
                if (class->wait) assert_true(class->wait(transport, 1 + replica, BLOCK_WEIGHT_GRADIENTS, 0));
            }
        }
        class->destroy(transport);
        ps_programs_destroy(programs);
    }
}

/* ------------------------------------------------------------------- with threads */

enum { MESSAGES = 20000 };

struct end {
    const struct transport_class *class;
    struct transport *transport;
    float *block[SLOTS];
    bool good;
};

static void *send_all(void *argument) {
    struct end *end = argument;
    for (int i = 0; i < MESSAGES; i++) {
        int slot = i % SLOTS;
        if (!end->class->wait(end->transport, 0, BLOCK_OUTPUT, slot)) return NULL;
        *end->block[slot] = (float)i;
        end->class->post(end->transport, 0, BLOCK_OUTPUT, slot, 1, &end->block[slot], &(struct moment){0});
    }
    end->good = true;
    return NULL;
}

static void *receive_all(void *argument) {
    struct end *end = argument;
    for (int i = 0; i < SLOTS; i++) end->class->post(end->transport, 1, BLOCK_INPUT, i, 0, &end->block[i], &(struct moment){0});
    for (int i = 0; i < MESSAGES; i++) {
        int slot = i % SLOTS;
        if (!end->class->wait(end->transport, 1, BLOCK_INPUT, slot) || *end->block[slot] != (float)i) return NULL;
        if (i + SLOTS < MESSAGES)
            end->class->post(end->transport, 1, BLOCK_INPUT, slot, 0, &end->block[slot], &(struct moment){0});
    }
    end->good = true;
    return NULL;
}

static void test_between_threads(void **state) {
    (void)state;
    for (int t = 0; transport_table[t]; t++) {
        const struct transport_class *class = transport_table[t];
        if (!class->own_threads) continue;
        float blocks[2 * SLOTS];
        struct end ends[2];
        struct transport *transport = create(class);
        for (int e = 0; e < 2; e++) {
            ends[e] = (struct end){.class = class, .transport = transport};
            for (int i = 0; i < SLOTS; i++) ends[e].block[i] = &blocks[e * SLOTS + i];
        }
        pthread_t threads[2];
        assert_int_equal(pthread_create(&threads[0], NULL, send_all, &ends[0]), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, receive_all, &ends[1]), 0);
        for (int e = 0; e < 2; e++) pthread_join(threads[e], NULL);
        assert_true(ends[0].good && ends[1].good);
        class->destroy(transport);
    }
}

static void *wait_for_nothing(void *argument) {
    struct end *end = argument;
    end->class->post(end->transport, 1, BLOCK_INPUT, 0, 0, &end->block[0], &(struct moment){0});
    end->good = !end->class->wait(end->transport, 1, BLOCK_INPUT, 0);
    return NULL;
}

static void test_stop_wakes(void **state) {
    (void)state;
    for (int t = 0; transport_table[t]; t++) {
        const struct transport_class *class = transport_table[t];
        if (!class->own_threads) continue;
        float block = 0;
        struct end end = {.class = class, .transport = create(class), .block = {&block}};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_for_nothing, &end), 0);
        class->stop(end.transport);
        pthread_join(thread, NULL);
        assert_true(end.good);
        /* Later waits do not block either. */
        assert_false(class->wait(end.transport, 1, BLOCK_INPUT, 0));
        assert_true(class->wait(end.transport, 1, BLOCK_INPUT, 1));
        class->destroy(end.transport);
    }
}

static void *wait_for_sum(void *argument) {
    struct end *end = argument;
    end->good = !end->class->wait(end->transport, 1, BLOCK_WEIGHT_GRADIENTS, 0);
    return NULL;
}

/* Of the last stage, which has replicas, one waits for the other's gradients. */
static void test_stop_ends_sums(void **state) {
    (void)state;
    for (int t = 0; transport_table[t]; t++) {
        const struct transport_class *class = transport_table[t];
        if (!class->own_threads) continue;
        struct ps_programs *programs;
        struct transport *transport;
        float gradients[2] = {1, 2};
        struct transport_share shares[2];
        pthread_t thread;
        assert_ok(programs_create(3, 2, &programs, &test_error));
        assert_ok(programs_set_instances(programs, replicated, 3, &test_error));
        const struct transport_options options = {.programs = programs, .slots = slots};
        assert_ok(class->create(class, &options, &transport, &test_error));
        for (int s = 0; s < 2; s++)
            shares[s] = (struct transport_share){.gradients = &gradients[s], .gradient_count = 1, .scale = 1};
        class->reduce(transport, 1, &shares[0]);
        struct end end = {.class = class, .transport = transport};
        assert_int_equal(pthread_create(&thread, NULL, wait_for_sum, &end), 0);
        class->stop(transport);
        pthread_join(thread, NULL);
        assert_true(end.good);
        assert_false(class->wait(transport, 1, BLOCK_WEIGHT_GRADIENTS, 0));
        /* What comes later still matches. */
        class->reduce(transport, 2, &shares[1]);
        assert_true(class->wait(transport, 1, BLOCK_WEIGHT_GRADIENTS, 0));
        assert_true(gradients[0] == 3 && gradients[1] == 3);
        class->destroy(transport);
        ps_programs_destroy(programs);
    }
}

static void test_names(void **state) {
    (void)state;
    const struct transport_class *class;
    for (int t = 0; transport_table[t]; t++) {
        assert_ok(transport_find(transport_table[t]->name, &class, &test_error));
        assert_ptr_equal(class, transport_table[t]);
        assert_true(class->own_threads == (class->wait != NULL));
    }
    assert_status(transport_find("thread", &class, &test_error), PS_USAGE, "did you mean 'threads'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),      cmocka_unit_test(test_gradients_go_back), cmocka_unit_test(test_between_threads),
        cmocka_unit_test(test_stop_wakes), cmocka_unit_test(test_stop_ends_sums),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_moments),    cmocka_unit_test(test_moments_of_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
