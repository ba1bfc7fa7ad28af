/* The clock device, by a clock of the test's own: when its work ends, whether or not the calls come late, and what each kind of
 * work takes. */
#include "support.h"

#include "base/clock.h"
#include "compute/device.h"
#include "compute/kernel.h"

static double now_s, waited_until;

/* In place of the library's. */
double clock_now(void) { return now_s; }
void clock_wait_until(double time) { waited_until = time; }

static struct device *open_clock(double speed) {
    struct device *device;
    const struct device_options options = {.threads = 1, .speed = speed};
    assert_ok(device_open("clock", &options, &device, &test_error));
    assert_false(device->type->real);
    return device;
}

static double spend(struct device *device, double seconds) {
    device->type->update(device, NULL, NULL, NULL, false, seconds);
    return device_mark(device).time;
}

/* Work that is called late begins then, until its order follows from other work. */
static void test_order(void **state) {
    (void)state;
    now_s = 100;
    struct device *device = open_clock(0), *fast = open_clock(4);
    assert_true(spend(device, 2) == 102);
    assert_true(spend(device, 1) == 103); /* behind what was called before */
    now_s = 110;
    assert_true(spend(device, 1) == 111);
    const struct moment early = {.time = 105}, late = {.time = 120};
    device_after(device, &early);
    assert_true(device_mark(device).time == 111); /* it is no earlier for that */
    device_after(device, &late);
    assert_true(device_mark(device).time == 120 && device_mark(device).device == device);
    now_s = 130;
    assert_true(spend(device, 1) == 121); /* what other work says counts, not when the thread woke up */
    struct moment end = device_mark(device);
    now_s = 120.5;
    assert_false(device_reached(&end));
    now_s = 121;
    assert_true(device_reached(&end));
    device_wait(&end);
    assert_true(waited_until == 121);
    assert_true(spend(fast, 2) == 121.5);
    const struct wire_call call = {.seconds = 8};
    device_code(fast, &call);
    assert_true(device_mark(fast).time == 123.5);
    device_close(fast);
    device_close(device);
}

/* What a layer's kernels take, whole, in halves, and where gradients are added. */
static void test_kernels(void **state) {
    (void)state;
    const struct node node = {.id = OPERATOR_OPAQUE,
                              .attributes = {.inner_bytes = 640,
                                             .time = {.forward_s = 1,
                                                      .backward_input_s = 2,
                                                      .backward_weight_s = 4,
                                                      .accumulate_s = 8,
                                                      .split_input_s = 16,
                                                      .split_s = 32}}};
    struct device *device = open_clock(0);
    struct kernel kernel = {.device = device, .node = &node};
    const struct kernel_class *type = device->type->kernels[OPERATOR_OPAQUE];
    now_s = 1000;
    type->set_sizes(&kernel);
    assert_int_equal(kernel.inner_bytes, 640);
    double before = 1000;
    for (int c = 0; c < 4; c++) {
        const struct kernel_call call = {.split = c & 1, .adds = c & 2};
        const double wanted[] = {1, c & 1 ? 18 : 2, 4 + (c & 1 ? 32 : 0) + (c & 2 ? 8 : 0)};
        enum ps_status (*const passes[])(struct kernel * kernel, const struct kernel_call *call) = {
            type->forward, type->backward_input, type->backward_weight};
        for (int p = 0; p < 3; p++) {
            assert_ok(passes[p](&kernel, &call));
            const double after = device_mark(device).time;
            assert_true(after - before == wanted[p]);
            before = after;
        }
    }
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
