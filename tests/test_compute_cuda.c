/*
 * The cuda device: its memory, its moments, its updates and codes against the host's, every operator against `reference`, and
 * whole networks. On a machine with a GPU it is that; else the stand-in of cuda_host.h, on which fewer cases are tried.
 *
 * So that several processes can share the work: with CUDA_TEST_STEP=n and CUDA_TEST_FIRST=i, only every n-th test is run, from
 * the i-th on. With CUDA_TEST_NAME only those are run in whose names it stands.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cuda_host.h"
#include "kernel_compare.h"
#include "stage_support.h"

static struct device *device, *reference;
static bool stands_in; /* is it the stand-in? */
static int f32_cases, bf16_cases, f32_problems, bf16_problems;

/* The GPU's device; the first time, where there is none, the stand-in's. */
static struct device *open_cuda(void) {
    struct device *opened = NULL;
    const struct device_options options = {.threads = 1};
    static bool known;
    if (!known && device_open("cuda", &options, &opened, &test_error) != PS_OK) {
        print_message("%s\nin its place: the stand-in\n", test_error.message);
        memset(&test_error, 0, sizeof test_error);
        cuda_host_use();
        stands_in = true;
    }
    known = true;
    if (opened == NULL) assert_ok(device_open("cuda", &options, &opened, &test_error));
    opened->type->attach(opened);
    return opened;
}

/* Behind a test that left it with an error, the device is opened anew. */
static int begin_test(void **state) {
    (void)state;
    if (device_check(device, &test_error) != PS_OK) {
        device_close(device);
        device = open_cuda();
    }
    memset(&test_error, 0, sizeof test_error);
    return 0;
}

/* ---------------------------------------------------------------------- memory */

enum { LARGE = 300007 };

static void *take_on(struct device *owner, struct memory_block *block, size_t bytes) {
    assert_ok(device_take(owner, block, bytes, "a test", &test_error));
    assert_int_equal((uintptr_t)block->base % MEMORY_ALIGNMENT, 0);
    return block->base;
}

static float *random_numbers(uint64_t stream, size_t count) {
    float *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++) numbers[i] = 2 * random_uniform(test_key(stream), i) - 1;
    return numbers;
}

/* What the device has at the address is the same as on the host, to the bit. */
static void assert_there(const void *there, const void *here, size_t bytes) {
    unsigned char *got = malloc(bytes + 1);
    assert_non_null(got);
    device_copy(device, got, there, bytes);
    device_finish(device);
    assert_ok(device_check(device, &test_error));
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != ((const unsigned char *)here)[i])
            fail_msg("byte %zu of %zu is %d, not %d", i, bytes, got[i], ((const unsigned char *)here)[i]);
    free(got);
}

/* Whole blocks and parts of them, there and back and from one to another; more bytes than a copy has at once. */
static void test_copies(void **state) {
    (void)state;
    static const size_t parts[][2] = {{0, LARGE}, {0, 1}, {3, 5}, {16, 4096}, {LARGE - 1, 1}, {100, 0}};
    struct memory_block first, second, large;
    const size_t bytes = LARGE * sizeof(float), many = (size_t)9 << 20;
    float *x = take_on(device, &first, bytes), *y = take_on(device, &second, bytes), *here = random_numbers(1, LARGE);
    float *zeros = calloc(LARGE, sizeof *zeros);
    assert_there(x, zeros, bytes);
    device_copy(device, x, here, bytes);
    assert_there(x, here, bytes);
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        const size_t at = parts[p][0], size = parts[p][1] * sizeof *here;
        device_zero(device, y, bytes);
        device_copy(device, y + at, x + at, size);
        memset(zeros, 0, bytes);
        memcpy(zeros + at, here + at, size);
        assert_there(y, zeros, bytes);
        device_copy(device, y, here, bytes);
        device_zero(device, y + at, size);
        memcpy(zeros, here, bytes);
        memset(zeros + at, 0, size);
        assert_there(y, zeros, bytes);
    }
    /* A source on the host is read at once. */
    float changing[3] = {1, 2, 3};
    const float kept[3] = {1, 2, 3};
    device_copy(device, x, changing, sizeof changing);
    memset(changing, 0, sizeof changing);
    assert_there(x, kept, sizeof kept);
    unsigned char *big = malloc(many), *there = take_on(device, &large, many);
    for (size_t i = 0; i < many; i++) big[i] = (unsigned char)(i * 7 + i / 4099);
    device_copy(device, there, big, many);
    assert_there(there, big, many);
    free(big), free(here), free(zeros);
    device_give(device, &first), device_give(device, &second), device_give(device, &large);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct memory_block block;
    assert_status(device_take(device, &block, SIZE_MAX / 2, "a test", &test_error), PS_OUT_OF_MEMORY, "a test");
    if (!stands_in) return;
    const size_t before = cuda_host_taken();
    cuda_host_set_memory(before + 100000);
    assert_status(device_take(device, &block, 110000, "a test", &test_error), PS_OUT_OF_MEMORY, "a test");
    take_on(device, &block, 90000);
    device_give(device, &block);
    assert_int_equal(cuda_host_taken(), before);
    cuda_host_set_memory((size_t)16 << 30);
}

static void fill_type(enum number_type type, size_t count, uint64_t stream, void *to) {
    float *numbers = random_numbers(stream, count);
    if (count > 40) {
        static const float special[] = {0,         -0.0f, 1e-40f, 3.4e38f, -3.4e38f, INFINITY,
                                        -INFINITY, 2.5f,  -2.5f,  1e9f,    -1e9f,    3e9f};
        memcpy(numbers + 20, special, sizeof special);
    }
    if (type == TYPE_I32)
        for (size_t i = 0; i < count; i++) ((int32_t *)to)[i] = (int32_t)(random_uniform(test_key(stream), i) * 1e6f) - 500000;
    else
        numbers_convert(count, type, to, TYPE_F32, numbers);
    free(numbers);
}

static void test_add_and_convert(void **state) {
    (void)state;
    static const enum number_type pairs[][2] = {{TYPE_F32, TYPE_BF16}, {TYPE_BF16, TYPE_F32}, {TYPE_F32, TYPE_I32},
                                                {TYPE_I32, TYPE_F32},  {TYPE_F32, TYPE_F32},  {TYPE_BF16, TYPE_BF16}};
    static const size_t counts[] = {1, 3, 4, 1021, LARGE};
    struct memory_block blocks[2];
    const size_t bytes = LARGE * sizeof(float);
    char *x = take_on(device, &blocks[0], bytes), *y = take_on(device, &blocks[1], bytes);
    char *x_here = malloc(bytes), *y_here = malloc(bytes), *got = malloc(bytes);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
            memset(y_here, 0x55, bytes);
            memset(got, 0x55, bytes);
            fill_type(pairs[p][1], counts[c], c, x_here);
            device_copy(device, x, x_here, bytes);
            device_copy(device, y, y_here, bytes);
            device_convert(device, counts[c], pairs[p][0], y, pairs[p][1], x);
            device_convert(device, counts[c], pairs[p][0], got, pairs[p][1], x); /* to the host */
            numbers_convert(counts[c], pairs[p][0], y_here, pairs[p][1], x_here);
            assert_there(y, y_here, bytes);
            assert_memory_equal(got, y_here, bytes);
        }
        for (enum number_type type = TYPE_F32; type <= TYPE_BF16; type++) {
            fill_type(type, counts[c], c, x_here);
            fill_type(type, counts[c], c + 100, y_here);
            for (size_t i = 25; i < 27 && counts[c] > 40; i++) memset(y_here + i * number_types[type].bytes, 0, 4); /* no NaN */
            device_copy(device, x, x_here, bytes);
            device_copy(device, y, y_here, bytes);
            device_add(device, type, counts[c], y, x);
            numbers_add(type, counts[c], y_here, x_here);
            assert_there(y, y_here, bytes);
        }
    }
    free(x_here), free(y_here), free(got);
    device_give(device, &blocks[0]), device_give(device, &blocks[1]);
}

static void test_scale_and_clip(void **state) {
    (void)state;
    const size_t bytes = LARGE * sizeof(float);
    struct memory_block block;
    float *x = take_on(device, &block, bytes), *here = random_numbers(3, LARGE), *got = malloc(bytes);
    device_copy(device, x, here, bytes);
    device_scale(device, LARGE, x, 3, 7);
    device_scale(NULL, LARGE, here, 3, 7);
    assert_there(x, here, bytes);
    device_scale(device, 1001, x, 1.1f, 1);
    device_scale(NULL, 1001, here, 1.1f, 1);
    assert_there(x, here, bytes);
    for (int over = 0; over < 2; over++) {
        const double limit = over ? 0.3 : 1e6;
        const struct stretch there[] = {{x, 100000}, {x + 150000, 7}, {x + 200000, LARGE - 200000}, {x + 110000, 0}};
        struct stretch mine[4];
        for (int s = 0; s < 4; s++) mine[s] = (struct stretch){here + (there[s].at - x), there[s].count};
        const int count = over ? 4 : 3;
        device_clip(device, there, count, limit);
        device_clip(NULL, mine, count, limit);
        device_copy(device, got, x, bytes);
        device_finish(device);
        for (size_t i = 0; i < LARGE; i++)
            if (!(fabsf(got[i] - here[i]) <= 3e-7f * fabsf(here[i])))
                fail_msg("clipped to %g: element %zu is %.9g, not %.9g", limit, i, (double)got[i], (double)here[i]);
        assert_memory_equal(got + 120000, here + 120000, 1000); /* between the ranges */
    }
    free(here), free(got);
    device_give(device, &block);
}

/* --------------------------------------------------------------------- moments */

/* A block goes from one device to the other and back; the numbers are right only where each waits for the other. */
static void test_moments(void **state) {
    (void)state;
    struct device *other = open_cuda();
    struct memory_block block;
    const size_t bytes = LARGE * sizeof(float);
    float *there = take_on(device, &block, bytes), *here = random_numbers(4, LARGE), *got = malloc(bytes);
    const double before = clock_now();
    device_copy(device, there, here, bytes);
    struct moment last = device_mark(device), all[50];
    for (int i = 0; i < 100; i++) {
        struct device *one = i % 2 == 0 ? other : device;
        device_after(one, &last);
        device_scale(one, LARGE, there, 2, 1);
        struct moment next = device_mark(one);
        assert_true(next.time >= last.time);
        last = next;
        if (one == other) all[i / 2] = last;
    }
    device_after(device, &last);
    device_copy(device, got, there, bytes);
    struct moment end = device_mark(device);
    device_wait(&end);
    assert_true(device_reached(&end) && device_reached(&last) && device_reached(&(struct moment){0}));
    for (size_t i = 0; i < LARGE; i++) assert_true(got[i] == ldexpf(here[i], 100));
    /* Times of recent moments, by the host's clock. */
    double time = before - 0.01;
    for (int i = 0; i < 50; i++) {
        const double next = other->type->time_of(&all[i]);
        if (!(next >= time - 1e-4) || next > clock_now() + 0.01) fail_msg("moment %d: %.6f behind %.6f", i, next, time);
        time = next;
    }
    /* More than the device remembers. */
    for (int i = 0; i < 5000; i++) last = device_mark(device);
    device_wait(&last);
    assert_true(device_reached(&end) && device_reached(&last));
    free(here), free(got);
    device_give(device, &block);
    device_close(other);
}

/* A token that the network does not have: the device keeps the error, and goes on to its moments. */
static void test_late_error(void **state) {
    (void)state;
    struct device *own = open_cuda();
    struct graph *graph = take_model("gpt2,layers=1,width=16,heads=2,seq=12,vocab=14");
    struct chain *chain = chain_create(own, graph, 1, 1, (const int[]){1}, 1);
    const int32_t tokens[12] = {1, 2, 99};
    device_copy(own, chain->blocks[0][0].input, tokens, sizeof tokens);
    assert_ok(stage_forward(chain->stages[0], &chain->blocks[0][0], &(struct stage_step){0}, NULL, &test_error));
    device_finish(own);
    assert_status(device_check(own, &test_error), PS_BAD_INPUT, "token 99 of sample 0 at position 2");
    chain_destroy(chain);
    graph_destroy(graph);
    device_close(own);
}

/* --------------------------------------------------------------------- updates */

enum { UPDATED = 5003, BLOCKS_OF_RULE = 7 };

/* Weights, updated, gradient, two moments, predicted, copy: on the host and there. */
struct rule_blocks {
    float *block[BLOCKS_OF_RULE];
};

static struct optimizer_call call_of(const struct rule_blocks *b, const struct optimizer_settings *settings, int64_t step,
                                     enum number_type type, bool in_place, bool predicts) {
    return (struct optimizer_call){.count = UPDATED,
                                   .weights = b->block[0],
                                   .updated = b->block[in_place ? 0 : 1],
                                   .gradient = b->block[2],
                                   .moment = {b->block[3], b->block[4]},
                                   .predicted = predicts ? b->block[5] : NULL,
                                   .copy = type == TYPE_BF16 ? b->block[6] : NULL,
                                   .type = type,
                                   .lr = settings->lr,
                                   .step = step,
                                   .ahead = {.lr_sum = 2.5 * settings->lr, .decay_product = 0.97}};
}

/* To a few units of the last place, of numbers of about 1; in bf16 to one. */
static void compare_updates(const struct optimizer *rule, const struct rule_blocks *here, const struct rule_blocks *there,
                            enum number_type type) {
    static const char *const names[] = {"weights", "updated", "gradient", "moment 0", "moment 1", "predicted", "copy"};
    static float got[UPDATED], wanted[UPDATED];
    for (int b = 0; b < BLOCKS_OF_RULE; b++) {
        const bool narrow = b >= 5 && type == TYPE_BF16;
        device_copy(device, got, there->block[b], sizeof got);
        device_finish(device);
        memcpy(wanted, here->block[b], sizeof wanted);
        for (int i = UPDATED - 1; i >= 0 && narrow; i--) {
            got[i] = bf16_value(((uint16_t *)got)[i]);
            wanted[i] = bf16_value(((uint16_t *)wanted)[i]);
        }
        for (int i = 0; i < UPDATED; i++)
            if (!(fabsf(got[i] - wanted[i]) <= (narrow ? 0x1p-7f * fabsf(wanted[i]) : 6e-7f * fmaxf(1, fabsf(wanted[i])))))
                fail_msg("%s, %s: %s[%d] is %.9g, not %.9g", rule->name, number_types[type].name, names[b], i, (double)got[i],
                         (double)wanted[i]);
    }
}

static void check_rule(const struct optimizer *rule, enum number_type type, bool in_place, bool predicts) {
    struct optimizer_settings settings = {.lr = 0.03, .weight_decay = 0.07};
    if (rule->momentum_settings) settings.momentum = 0.85, settings.dampening = 0.2;
    if (rule->adam_settings) settings.beta1 = 0.8, settings.beta2 = 0.97, settings.eps = 1e-6;
    struct rule_blocks here, there;
    struct memory_block blocks[BLOCKS_OF_RULE];
    const size_t bytes = UPDATED * sizeof(float);
    for (int b = 0; b < BLOCKS_OF_RULE; b++) {
        here.block[b] = calloc(UPDATED, sizeof(float));
        there.block[b] = take_on(device, &blocks[b], bytes);
    }
    for (uint64_t i = 0; i < UPDATED; i++) here.block[0][i] = random_normal(test_key(50), i);
    device_copy(device, there.block[0], here.block[0], bytes);
    for (int64_t step = 0; step <= 4; step++) { /* step 0 and 4: the prediction alone */
        const bool alone = step == 0 || step == 4;
        if (alone && !predicts) continue;
        for (uint64_t i = 0; i < UPDATED; i++) here.block[2][i] = random_normal(test_key(51 + (uint64_t)step), i);
        device_copy(device, there.block[2], here.block[2], bytes);
        struct optimizer_call mine = call_of(&here, &settings, step < 4 ? step : 3, type, in_place, predicts),
                              its = call_of(&there, &settings, step < 4 ? step : 3, type, in_place, predicts);
        if (alone) mine.copy = its.copy = NULL;
        optimizer_run(rule, &settings, &mine, alone);
        device->type->update(device, rule, &settings, &its, alone, 0);
        compare_updates(rule, &here, &there, type);
    }
    assert_ok(device_check(device, &test_error));
    for (int b = 0; b < BLOCKS_OF_RULE; b++) free(here.block[b]), device_give(device, &blocks[b]);
}

static void test_updates(void **state) {
    (void)state;
    for (int o = 0; optimizer_table[o] != NULL; o++)
        for (int variant = 0; variant < 8; variant++) {
            const bool predicts = variant & 4;
            if (predicts && optimizer_table[o]->predict == NULL) continue;
            check_rule(optimizer_table[o], variant & 1 ? TYPE_BF16 : TYPE_F32, variant & 2, predicts);
        }
}

/* ----------------------------------------------------------------------- codes */

enum { CODED = 3 * WIRE_GROUP + 77 };

static const struct wire_run code_runs[] = {
    {0, 77, TYPE_F32}, {320, 2 * WIRE_GROUP + 13, TYPE_BF16}, {1472, 19, TYPE_I32}, {1600, WIRE_GROUP - 13, TYPE_F32}};
enum { CODE_RUNS = sizeof code_runs / sizeof *code_runs, CODE_BYTES = 1600 + 4 * WIRE_GROUP };

static void fill_coded(unsigned char *block, uint64_t seed) {
    memset(block, 0, CODE_BYTES);
    for (int r = 0; r < CODE_RUNS; r++) {
        const struct wire_run *run = &code_runs[r];
        if (run->type == TYPE_I32) {
            for (size_t i = 0; i < run->count; i++)
                ((int32_t *)(void *)(block + run->offset))[i] = (int32_t)(i * 1000003 + seed);
            continue;
        }
        float *numbers = random_numbers(seed + (uint64_t)r * 100, run->count);
        for (size_t i = 0; i < run->count; i++) {
            const uint64_t kind = random_below(test_key(seed + 7), i, 8);
            numbers[i] = kind == 0 ? 0 : kind == 1 ? 0.5f : kind == 2 ? -0.5f : kind == 3 ? numbers[i] * 1e-20f : numbers[i];
        }
        numbers_convert(run->count, run->type, block + run->offset, TYPE_F32, numbers);
        free(numbers);
    }
}

/* One call on the host and there; `bytes` of the three blocks are then compared. */
static void code_both(struct wire_call here, struct wire_call there, const size_t bytes[3]) {
    wire_call_run(&here);
    device_code(device, &there);
    assert_there(there.block, here.block, bytes[0]);
    if (here.encoded != NULL) assert_there(there.encoded, here.encoded, bytes[1]);
    if (here.feedback != NULL) assert_there(there.feedback, here.feedback, bytes[2]);
}

static void check_code(const struct wire *wire, bool feeds) {
    const struct wire_numbers numbers = wire_count(code_runs, CODE_RUNS);
    const size_t bytes[3] = {CODE_BYTES, (size_t)wire_bytes(wire, &numbers), (size_t)wire_feedback_bytes(wire, &numbers)};
    struct memory_block blocks[3];
    void *here[3], *there[3];
    for (int b = 0; b < 3; b++) {
        here[b] = calloc(1, bytes[b] + 64);
        there[b] = take_on(device, &blocks[b], bytes[b] + 64);
    }
    struct wire_call mine = {.wire = wire, .runs = code_runs, .run_count = CODE_RUNS, .block = here[0], .encoded = here[1]};
    if (feeds && bytes[2] > 0) mine.feedback = here[2];
    struct wire_call its = mine;
    its.block = there[0], its.encoded = there[1];
    if (mine.feedback != NULL) its.feedback = there[2];
    for (uint64_t seed = 0; seed < 3; seed++) {
        fill_coded(here[0], 200 + seed);
        device_copy(device, there[0], here[0], CODE_BYTES);
        code_both(mine, its, bytes);
        struct wire_call my_decode = mine, its_decode = its;
        my_decode.decode = its_decode.decode = true;
        my_decode.feedback = its_decode.feedback = NULL;
        memset(here[0], 0, CODE_BYTES);
        device_zero(device, there[0], CODE_BYTES);
        code_both(my_decode, its_decode, bytes);
        fill_coded(here[0], 300 + seed);
        device_copy(device, there[0], here[0], CODE_BYTES);
        struct wire_call my_round = mine, its_round = its;
        my_round.encoded = its_round.encoded = NULL;
        code_both(my_round, its_round, bytes);
    }
    for (int b = 0; b < 3; b++) free(here[b]), device_give(device, &blocks[b]);
}

static void test_codes(void **state) {
    (void)state;
    static const struct wire all[] = {{WIRE_BF16, 0}, {WIRE_INT8, 0}, {WIRE_TOPK, 0.05f}, {WIRE_TOPK, 0.25f}, {WIRE_TOPK, 1}};
    const struct wire_numbers numbers = wire_count(code_runs, CODE_RUNS);
    assert_int_equal(wire_encoded_numbers(&numbers), CODED);
    for (size_t w = 0; w < sizeof all / sizeof *all; w++)
        for (int feeds = 0; feeds < 2; feeds++) check_code(&all[w], feeds);
}

/* ------------------------------------------------------------------- operators */

static void assert_same(const char *name, const char *what, const float *one, const float *other, int64_t count) {
    if (one == NULL && other == NULL) return;
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&one[i], &other[i], sizeof *one) != 0)
            fail_msg("%s: %s[%lld] is %.9g, and once more %.9g", name, what, (long long)i, (double)one[i], (double)other[i]);
}

/* Two runs have the same bits. */
static void check_repeats(const char *name, const struct problem *p) {
    struct answer one = solve(device, p), other = solve(device, p);
    assert_same(name, "output", one.output, other.output, p->output);
    assert_memory_equal(&one.loss, &other.loss, sizeof one.loss);
    for (int i = 0; i < p->node->input_count; i++)
        assert_same(name, "input gradient", one.input_gradient[i], other.input_gradient[i], p->inputs[i]);
    for (int i = 0; i < p->node->parameter_count; i++) {
        assert_same(name, "gradient", one.gradient[i], other.gradient[i], p->parameters[i]);
        assert_same(name, "statistic", one.statistic[i], other.statistic[i], p->parameters[i]);
    }
    free_answer(&one);
    free_answer(&other);
}

/* Rows longer than a warp's or a block's part, and columns in several pieces. */
static int case_long_rows(struct builder *b, struct draw *d) {
    static const enum operator_id ids[] = {OPERATOR_LAYER_NORM, OPERATOR_RMS_NORM,   OPERATOR_SOFTMAX,
                                           OPERATOR_GROUP_NORM, OPERATOR_BATCH_NORM, OPERATOR_LINEAR};
    static const int lengths[] = {300, 1023, 1028, 4100, 9001};
    struct attributes a = {.epsilon = 1e-5f, .momentum = 0.1f, .groups = 1, .weight = true, .bias = true, .channels = 33};
    const enum operator_id id = ids[draw(d, 0, 5)];
    return add_one(b, id, &a, build_input(b, lengths[draw(d, 0, 4)], draw(d, 1, 40), 1));
}

static int case_long_classes(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 900, 5000), draw(d, 1, 9), 1));
}

static int case_wide_rows(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 200, 400), .bias = true, .transposed = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, draw(d, 200, 300), draw(d, 100, 200), 1));
}

/* Heads that flash.c serves in bf16: in one input, or from one sequence to another, some of whose keys may be padding. */
static int case_flash(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 2), .causal = draw(d, 0, 1) == 1, .rate = (float)draw(d, 0, 1) * 0.3f};
    const int each = 16 * draw(d, 1, 4), keys = 4 * draw(d, 1, 40);
    if (draw(d, 0, 2) == 0) return add_one(b, OPERATOR_ATTENTION, &a, build_input(b, 3 * a.heads * each, keys, 1));
    const int queries = a.causal ? keys : draw(d, 1, keys);
    int tokens = build_tokens(b, keys), x = build_embedding(b, tokens, "x", 5, a.heads * each);
    int query = queries < keys ? build_slice(b, x, "query", 0, queries) : x,
        value = build_linear(b, x, "value", a.heads * each);
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, (const int[]){query, x, value, tokens}, draw(d, 3, 4), b->error);
}

static const struct test_case large_cases[] = {
    {"flash attention", case_flash, false},
    {"large attention", case_large_attention, false},
    {"large image", case_large_image, false},
    {"many channels", case_many_channels, false},
    {"long rows", case_long_rows, false},
    {"many classes", case_many_classes, false},
    {"thousands of classes", case_long_classes, false},
    {"wide rows", case_wide_rows, false},
};
enum { CASES = sizeof cases / sizeof *cases, LARGE_CASES = sizeof large_cases / sizeof *large_cases };

/* The number of its first problem. */
static uint64_t first_number(const struct test_case *which) {
    return which >= cases && which < cases + CASES ? (uint64_t)(which - cases) * 100
                                                   : 95000 + (uint64_t)(which - large_cases) * 100;
}

static bool is_large(const struct test_case *which) { return first_number(which) >= 95000; }

static void test_f32(void **state) {
    const struct test_case *which = *state;
    const uint64_t first = first_number(which), repeats = stands_in ? 1 + !is_large(which) : REPEATS;
    struct problem p = make_problem(which, first);
    const enum operator_id id = p.node->id;
    compare_case(device, reference, which, first, repeats);
    check_repeats(which->name, &p);
    check_unwanted(device, which, first);
    free_problem(&p);
    for (uint64_t r = 0; r < (stands_in ? 1 : 6) && (id == OPERATOR_SOFTMAX || id == OPERATOR_CROSS_ENTROPY); r++)
        compare_extremes(device, reference, which, first + r);
    f32_cases++;
    f32_problems += (int)repeats;
}

static void test_bf16(void **state) {
    const struct test_case *which = *state;
    const uint64_t first = first_number(which), repeats = stands_in ? 1 : 3;
    for (uint64_t r = 0; r < repeats; r++) compare_bf16(device, reference, which, first + r);
    struct problem p = make_problem(which, first);
    round_problem(&p);
    narrow_problem(&p, NARROW_ALL, first);
    check_repeats(which->name, &p);
    free_problem(&p);
    bf16_cases++;
    bf16_problems += 3 * (int)repeats;
}

static void test_states(void **state) {
    (void)state;
    check_states(device, reference);
}

/* -------------------------------------------------------------------- networks */

enum { NETWORK_SAMPLES = 3, NETWORK_STEPS = 2, NUMBERS_MAX = 1 << 18 };

struct network {
    const char *spec; /* NULL: tangle() */
    enum precision precision;
    double tolerance; /* of a parameter's gradients: of the largest, or in bf16 of their norm; of the loss a tenth */
};

/* Numbers, or tokens that all networks have, for every value of the input block; and classes that they have. */
static void fill_network(struct chain *chain, int m) {
    const int64_t bytes = chain->sizes[0].input_bytes;
    char *here = calloc(1, (size_t)bytes + 1);
    int count;
    const struct wire_run *runs = stage_runs(chain->stages[0], false, &count);
    const struct random_key key = test_key(100 + (uint64_t)m);
    for (int r = 0; r < count; r++) {
        float *numbers = new_floats((int64_t)runs[r].count);
        for (size_t i = 0; i < runs[r].count; i++)
            numbers[i] = runs[r].type == TYPE_I32 ? (float)random_below(key, i, 10) : 2 * random_uniform(key, i) - 1;
        put_numbers(runs[r].type, (int64_t)runs[r].count, here + runs[r].offset, numbers);
        free(numbers);
    }
    device_copy(chain->device, chain->blocks[m][0].input, here, (size_t)bytes);
    free(here);
}

static struct chain *run_network(struct device *on, const struct graph *graph, const int *cuts, int cut_count,
                                 struct stage_result results[NETWORK_STEPS]) {
    static int32_t targets[NETWORK_STEPS][1024];
    const struct shape target = graph_target(graph);
    const int64_t each = shape_elements(&target);
    assert_true(target.type == TYPE_I32 && NETWORK_SAMPLES * each <= 1024);
    struct chain *chain = chain_create(on, graph, NETWORK_SAMPLES, NETWORK_STEPS, cuts, cut_count);
    for (int m = 0; m < NETWORK_STEPS; m++) {
        for (int64_t i = 0; i < NETWORK_SAMPLES * each; i++)
            targets[m][i] = (int32_t)random_below(test_key(200 + (uint64_t)m), (uint64_t)i, 5) - (i % 7 == 6);
        struct stage_step step = training_step(m);
        step.target = targets[m];
        step.samples = NETWORK_SAMPLES;
        fill_network(chain, m);
        results[m] = chain_forward(chain, m, &step);
        chain_backward(chain, m, &step);
    }
    device_finish(on);
    assert_ok(device_check(on, &test_error));
    return chain;
}

static void compare_network(const struct network *network, struct chain *wanted, struct chain *got, const char *name) {
    static float mine[NUMBERS_MAX], its[NUMBERS_MAX];
    for (int p = 0; p < wanted->graph->parameter_count; p++) {
        const struct parameter *parameter = &wanted->graph->parameters[p];
        if (parameter->role == PARAMETER_FIXED || parameter->tied) continue;
        assert_true(shape_elements(&parameter->shape) <= NUMBERS_MAX);
        const int64_t count = chain_export(wanted, parameter->name, NULL, mine);
        chain_export(got, parameter->name, NULL, its);
        if (network->precision == PRECISION_F32) {
            assert_close(parameter->name, name, 0, mine, its, count, network->tolerance, 1e-3);
            continue;
        }
        /* A number that is rounded the other way opens or closes a ReLU, and that is a part of a gradient. */
        double squares = 0, differences = 0;
        for (int64_t i = 0; i < count; i++) {
            squares += pow((double)mine[i], 2);
            differences += pow((double)its[i] - (double)mine[i], 2);
        }
        if (!(sqrt(differences) <= network->tolerance * sqrt(squares) + 1e-4))
            fail_msg("%s: the gradient of %s is off by %g, its norm is %g", name, parameter->name, sqrt(differences),
                     sqrt(squares));
    }
}

static void check_network(const struct network *network, const int *cuts, int cut_count) {
    struct stage_result wanted[NETWORK_STEPS], got[NETWORK_STEPS];
    struct graph *graph = network->spec != NULL ? take_model(network->spec) : tangle();
    const char *name = network->spec != NULL ? network->spec : "the tangle";
    if (network->precision != PRECISION_F32) assert_ok(graph_set_precision(graph, network->precision, &test_error));
    struct chain *mine = run_network(reference, graph, cuts, cut_count, wanted),
                 *its = run_network(device, graph, cuts, cut_count, got);
    for (int m = 0; m < NETWORK_STEPS; m++) {
        assert_int_equal(got[m].counted, wanted[m].counted);
        if (!(fabs(got[m].loss - wanted[m].loss) <= 0.1 * network->tolerance * wanted[m].loss))
            fail_msg("%s: the loss is %.9g, not %.9g", name, got[m].loss, wanted[m].loss);
        if (network->precision == PRECISION_F32) assert_int_equal(got[m].correct, wanted[m].correct);
    }
    compare_network(network, mine, its, name);
    chain_destroy(mine);
    chain_destroy(its);
    graph_destroy(graph);
}

#define TRANSFORMER "gpt2,layers=2,width=32,heads=4,seq=12,vocab=14"
static const struct network networks[] = {
    {"lenet5,input=16,classes=5", PRECISION_F32, 1e-4},
    {"lenet5,input=16,classes=5", PRECISION_BF16, 0.2},
    {TRANSFORMER ",tied=1", PRECISION_F32, 1e-3},
    {TRANSFORMER, PRECISION_BF16, 0.1},
    {TRANSFORMER, PRECISION_MIXED, 0.1},
    {"resnet,input=8,classes=5", PRECISION_F32, 1e-3},
    {NULL, PRECISION_F32, 1e-3},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

static void test_network(void **state) {
    const struct network *network = *state;
    check_network(network, NULL, 0);
    check_network(network, (const int[]){1, 3}, 2);
}

/* ------------------------------------------------------------------------ main */

enum { TESTS_MAX = 2 * (CASES + LARGE_CASES) + NETWORKS + 32, NAME_MAX_ = 96 };

static struct {
    struct CMUnitTest tests[TESTS_MAX];
    char names[TESTS_MAX][NAME_MAX_];
    int offered, count, first, step;
} list;

/* Those that are this process's. */
static void add(const char *name, const char *suffix, CMUnitTestFunction function, const void *state) {
    const char *wanted = getenv("CUDA_TEST_NAME");
    if (list.offered++ % list.step != list.first) return;
    if ((wanted != NULL && strstr(name, wanted) == NULL) || !test_takes((size_t)list.offered, 7)) return;
    char *own = list.names[list.count];
    snprintf(own, NAME_MAX_, "%s%s", name, suffix);
    list.tests[list.count++] = (struct CMUnitTest){
        .name = own, .test_func = function, .setup_func = begin_test, .initial_state = (void *)(uintptr_t)state};
}

static int number_from(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? atoi(text) : otherwise;
}

int main(void) {
    static const struct {
        const char *name;
        CMUnitTestFunction function;
    } plain[] = {{"copies", test_copies},
                 {"out of memory", test_out_of_memory},
                 {"add and convert", test_add_and_convert},
                 {"scale and clip", test_scale_and_clip},
                 {"moments", test_moments},
                 {"late error", test_late_error},
                 {"updates", test_updates},
                 {"codes", test_codes},
                 {"states", test_states}};
    list.step = number_from("CUDA_TEST_STEP", 1);
    list.first = number_from("CUDA_TEST_FIRST", 0);
    if (list.step < 1) return 2;
    for (size_t t = 0; t < sizeof plain / sizeof *plain; t++) add(plain[t].name, "", plain[t].function, NULL);
    for (int c = 0; c < CASES; c++)
        add(cases[c].name, "", test_f32, &cases[c]), add(cases[c].name, ", bf16", test_bf16, &cases[c]);
    for (int c = 0; c < LARGE_CASES; c++) {
        add(large_cases[c].name, "", test_f32, &large_cases[c]);
        add(large_cases[c].name, ", bf16", test_bf16, &large_cases[c]);
    }
    for (int n = 0; n < NETWORKS; n++) {
        char precision[32];
        snprintf(precision, sizeof precision, ", %s", precision_names[networks[n].precision]);
        add(networks[n].spec != NULL ? networks[n].spec : "the tangle", precision, test_network, &networks[n]);
    }
    device = open_cuda();
    reference = chain_device("reference");
    const int failed = _cmocka_run_group_tests("cuda", list.tests, (size_t)list.count, NULL, NULL);
    print_message("on %s: %d kinds of operators in f32 (%d problems), %d in bf16 (%d)\n", stands_in ? "the stand-in" : "a GPU",
                  f32_cases, f32_problems, bf16_cases, bf16_problems);
    if (stands_in) print_message("%d sources compiled\n", cuda_host_compiled());
    device_close(device);
    device_close(reference);
    return failed;
}
