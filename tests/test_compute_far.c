/* The far device: its memory, its queue and moments, what it finds that is not ordered, what it finds late; and stages on it.
 */
#include "chain.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage_support.h"

enum { COUNT = 3000 };

static const float *numbers(float first) {
    static float made[COUNT];
    for (int i = 0; i < COUNT; i++) made[i] = first + (float)i;
    return made;
}

static float *take(struct device *device, struct memory_block *block) {
    assert_ok(device_take(device, block, COUNT * sizeof(float), "a test", &test_error));
    assert_int_equal((uintptr_t)block->base % MEMORY_ALIGNMENT, 0);
    return (float *)block->base;
}

static void test_memory(void **state) {
    (void)state;
    struct device *device = chain_device("far");
    struct memory_block first, second;
    float *x = take(device, &first), *y = take(device, &second), got[COUNT];
    device_copy(device, got, x, sizeof got);
    device_finish(device);
    for (int i = 0; i < COUNT; i++) assert_true(got[i] == 0);
    /* What is read of the host's is read at once, what is written there is there at the end. */
    device_copy(device, x, numbers(1), sizeof got);
    device_copy(device, y, numbers(2), sizeof got);
    device_add(device, TYPE_F32, COUNT, y, x);
    device_scale(device, COUNT, y, 3, 2);
    device_copy(device, got, y, sizeof got);
    device_finish(device);
    for (int i = 0; i < COUNT; i++) assert_true(got[i] == (float)(3 + 2 * i) * 3 / 2);
    /* As in the host's memory, to the bit. */
    float here[COUNT];
    memcpy(here, got, sizeof here);
    const struct stretch there[] = {{y, 1000}, {y + 1500, 100}}, mine[] = {{here, 1000}, {here + 1500, 100}};
    device_clip(device, there, 2, 10);
    device_clip(NULL, mine, 2, 10);
    device_copy(device, got, y, sizeof got);
    device_finish(device);
    assert_memory_equal(got, here, sizeof got);
    device_zero(device, y, 40);
    device_copy(device, got, y, sizeof got);
    device_finish(device);
    assert_true(got[9] == 0 && got[10] == here[10]);
    assert_ok(device_check(device, &test_error));
    device_give(device, &first);
    device_give(device, &second);
    assert_status(device_take(device, &first, SIZE_MAX / 2, "a test", &test_error), PS_OUT_OF_MEMORY, "a test");
    device_close(device);
}

/* The host can neither read nor write it. */
static void test_unreadable(void **state) {
    (void)state;
    struct device *device = chain_device("far");
    struct memory_block block;
    float *there = take(device, &block);
    for (int writes = 0; writes < 2; writes++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            if (writes)
                *(volatile float *)there = 1;
            else
                (void)*(volatile float *)there;
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    }
    device_give(device, &block);
    device_close(device);
}

/* A block goes from one device to the other and back: with moments to go on behind, or without. */
static void pass(bool behind_write, bool behind_read, bool good) {
    struct device *one = chain_device("far"), *other = chain_device("far");
    struct memory_block block;
    struct moment moment;
    float *there = take(one, &block), got[COUNT];
    device_copy(one, there, numbers(5), sizeof got);
    moment = device_mark(one);
    if (behind_write) device_after(other, &moment);
    device_copy(other, got, there, sizeof got);
    moment = device_mark(other);
    if (behind_read) device_after(one, &moment);
    device_zero(one, there, sizeof got);
    device_finish(one);
    device_finish(other);
    struct ps_error error = {0};
    enum ps_status status = device_check(one, &error);
    if (status == PS_OK) status = device_check(other, &error);
    assert_int_equal(status == PS_OK, good);
    if (good) assert_memory_equal(got, numbers(5), sizeof got);
    if (!good) assert_non_null(strstr(error.message, "does not wait for"));
    device_give(one, &block);
    device_close(other);
    device_close(one);
}

static void test_order(void **state) {
    (void)state;
    pass(true, true, true);
    pass(false, true, false);
    pass(true, false, false);
    pass(false, false, false);
}

static void test_moments(void **state) {
    (void)state;
    struct device *device = chain_device("far");
    struct memory_block block;
    float *there = take(device, &block), got[COUNT];
    struct moment last = {0};
    for (int i = 0; i < 1000; i++) { /* more than the queue holds, and than it remembers */
        device_copy(device, there, numbers((float)i), sizeof got);
        struct moment next = device_mark(device);
        assert_true(next.time >= last.time);
        last = next;
    }
    device_copy(device, got, there, sizeof got);
    struct moment end = device_mark(device);
    device_wait(&end);
    assert_true(device_reached(&end) && device_reached(&last) && device_reached(&(struct moment){0}));
    assert_true(device->type->time_of(&last) <= device->type->time_of(&end));
    assert_memory_equal(got, numbers(999), sizeof got);
    device_give(device, &block);
    device_close(device);
}

/* The tangle of layers, forwards and backwards with micro-batches added up: the cpu's bits. Works on blocks of the device
 * throughout; the stage is asked for all at once. */
static void run_stage(const char *name, struct stage_result results[2], float *gradients, size_t floats) {
    struct device *device = chain_device(name);
    struct graph *graph = tangle();
    struct stage *stage;
    assert_ok(stage_create(device, graph, 0, graph->layer_count - 1, 4, &stage, &test_error));
    const struct stage_sizes sizes = stage_sizes(stage);
    assert_true((size_t)stage_gradient_bytes(&sizes) <= floats * sizeof *gradients);
    struct memory_block block;
    assert_ok(device_take(device, &block,
                          (size_t)(sizes.parameter_bytes + stage_gradient_bytes(&sizes) + stage_unchanged_bytes(&sizes) +
                                   sizes.input_bytes + sizes.stash_bytes + sizes.workspace_bytes),
                          "a test", &test_error));
    float *weights = memory_block_carve(&block, (size_t)sizes.parameter_bytes);
    struct stage_blocks blocks = {.weights = weights};
    blocks.gradients = memory_block_carve(&block, (size_t)stage_gradient_bytes(&sizes));
    blocks.statistics = memory_block_carve(&block, (size_t)stage_unchanged_bytes(&sizes));
    blocks.input = memory_block_carve(&block, (size_t)sizes.input_bytes);
    blocks.stash = memory_block_carve(&block, (size_t)sizes.stash_bytes);
    blocks.workspace = memory_block_carve(&block, (size_t)sizes.workspace_bytes);
    assert_ok(stage_initialize(stage, 1, NULL, weights, blocks.statistics, &test_error));
    float *input = malloc((size_t)sizes.input_bytes);
    for (int m = 0; m < 2; m++) {
        struct stage_step step = training_step(m);
        for (int64_t i = 0; i < sizes.input_bytes / 4; i++)
            input[i] = 2 * random_uniform(test_key((uint64_t)m), (uint64_t)i) - 1;
        device_copy(device, blocks.input, input, (size_t)sizes.input_bytes);
        assert_ok(stage_forward(stage, &blocks, &step, &results[m], &test_error));
        assert_ok(stage_backward(stage, &blocks, &step, STAGE_BOTH, &test_error));
    }
    device_copy(device, gradients, blocks.gradients, (size_t)stage_gradient_bytes(&sizes));
    /* The way of a parameter to files and back. */
    const struct parameter *parameter = stage_parameter(stage, 0);
    const size_t bytes = (size_t)shape_elements(&parameter->shape) * sizeof(float);
    float *before = malloc(bytes), *after = malloc(bytes);
    assert_ok(stage_export(stage, 0, weights, blocks.statistics, before, &test_error));
    assert_ok(stage_import(stage, 0, before, weights, blocks.statistics, &test_error));
    assert_ok(stage_export(stage, 0, weights, blocks.statistics, after, &test_error));
    assert_memory_equal(before, after, bytes);
    device_finish(device);
    assert_ok(device_check(device, &test_error));
    free(before);
    free(after);
    free(input);
    stage_destroy(stage);
    device_give(device, &block);
    graph_destroy(graph);
    device_close(device);
}

static void test_stage(void **state) {
    (void)state;
    enum { FLOATS = 20000 };
    static float wanted[FLOATS], got[FLOATS];
    struct stage_result wanted_results[2], got_results[2];
    run_stage("cpu", wanted_results, wanted, FLOATS);
    run_stage("far", got_results, got, FLOATS);
    for (int m = 0; m < 2; m++) {
        assert_memory_equal(&wanted_results[m].loss, &got_results[m].loss, sizeof(double));
        assert_int_equal(wanted_results[m].correct, got_results[m].correct);
        assert_int_equal(wanted_results[m].counted, got_results[m].counted);
    }
    assert_memory_equal(wanted, got, sizeof wanted);
}

/* A token that the network does not have is found by the queue; the device keeps the error, and goes on to its moments. */
static void test_late_error(void **state) {
    (void)state;
    struct device *device = chain_device("far");
    struct graph *graph = take_model("gpt2,layers=1,width=16,heads=2,seq=12,vocab=14");
    struct stage *stage;
    struct memory_block block;
    assert_ok(stage_create(device, graph, 0, 0, 1, &stage, &test_error));
    const struct stage_sizes sizes = stage_sizes(stage);
    assert_ok(device_take(
        device, &block,
        (size_t)(sizes.parameter_bytes + sizes.input_bytes + sizes.output_bytes + sizes.stash_bytes + sizes.workspace_bytes),
        "a test", &test_error));
    struct stage_blocks blocks = {.weights = memory_block_carve(&block, (size_t)sizes.parameter_bytes)};
    blocks.input = memory_block_carve(&block, (size_t)sizes.input_bytes);
    blocks.output = memory_block_carve(&block, (size_t)sizes.output_bytes);
    blocks.stash = memory_block_carve(&block, (size_t)sizes.stash_bytes);
    blocks.workspace = memory_block_carve(&block, (size_t)sizes.workspace_bytes);
    const int32_t tokens[12] = {1, 2, 99};
    device_copy(device, blocks.input, tokens, sizeof tokens);
    assert_ok(stage_forward(stage, &blocks, &(struct stage_step){0}, NULL, &test_error));
    device_finish(device);
    assert_status(device_check(device, &test_error), PS_BAD_INPUT, "token 99 of sample 0 at position 2");
    stage_destroy(stage);
    device_give(device, &block);
    graph_destroy(graph);
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_unreadable),
                                       cmocka_unit_test(test_order),  cmocka_unit_test(test_moments),
                                       cmocka_unit_test(test_stage),  cmocka_unit_test(test_late_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
