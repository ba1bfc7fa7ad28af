/*
 * What is run to measure a network, and what happens where it cannot be run: each forward and backward, an update or a thread
 * may fail. The library's functions are called through those of this program, which write down what is called, and fail when
 * they are told to.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/processor.h"
#include "base/text.h"
#include "base/thread.h"
#include "compute/stage.h"
#include "profile/core_transfer.h"
#include "profile/profile.h"
#include "support.h"

/* ------------------------------------------------------------------- what is called */

static _Thread_local bool own;                                                /* this is the thread that measures */
static struct text called;                                                    /* by it, a letter for each pass */
static atomic_int until_failure, beside_until_failure, threads_until_failure; /* the call that counts down to 0 fails */

static void *next_of(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    assert_non_null(found);
    return found;
}

/* The thread that measures waits until a pass beside it that is to fail has done so. */
static bool fails(void) {
    if (!own) return atomic_fetch_sub(&beside_until_failure, 1) == 1;
    while (atomic_load(&beside_until_failure) > 0) sched_yield();
    return atomic_fetch_sub(&until_failure, 1) == 1;
}

static enum ps_status failed(struct ps_error *error) {
    if (error) snprintf(error->message, sizeof error->message, own ? "a pass failed" : "a pass beside it failed");
    return PS_FAILED;
}

enum ps_status stage_forward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                             struct stage_result *result, struct ps_error *error) {
    if (own) text_add(&called, "F");
    if (fails()) return failed(error);
    return ((enum ps_status(*)(struct stage *, const struct stage_blocks *, const struct stage_step *, struct stage_result *,
                               struct ps_error *))next_of("stage_forward"))(stage, blocks, step, result, error);
}

enum ps_status stage_forward_again(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                                   const bool *kept, struct stage_result *result, struct ps_error *error) {
    assert_false(own);
    if (fails()) return failed(error);
    return ((enum ps_status(*)(struct stage *, const struct stage_blocks *, const struct stage_step *, const bool *,
                               struct stage_result *, struct ps_error *))next_of("stage_forward_again"))(stage, blocks, step,
                                                                                                         kept, result, error);
}

enum ps_status stage_backward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                              enum stage_half half, struct ps_error *error) {
    static const char *const names[] = {[STAGE_BOTH] = "B", [STAGE_INPUT_SPLIT] = "I", [STAGE_WEIGHTS_SPLIT] = "W"};
    if (own) text_add(&called, "%s%s", names[half], step->accumulate ? "+" : "");
    if (fails()) return failed(error);
    return ((enum ps_status(*)(struct stage *, const struct stage_blocks *, const struct stage_step *, enum stage_half,
                               struct ps_error *))next_of("stage_backward"))(stage, blocks, step, half, error);
}

int thread_start(pthread_t *thread, void *(*function)(void *argument), void *argument) {
    if (atomic_fetch_sub(&threads_until_failure, 1) == 1) return EAGAIN;
    return ((int (*)(pthread_t *, void *(*)(void *), void *))next_of("thread_start"))(thread, function, argument);
}

/* Of the times that were looked up one after the other so much passes, over and over; NULL: the clock goes as it does. */
static const double *steps_s;
static int step_count, looks;

double clock_now(void) {
    static double now_s;
    if (!own || !steps_s) return ((double (*)(void))next_of("clock_now"))();
    return now_s += steps_s[looks++ % step_count];
}

/* ----------------------------------------------------------------------------- the tests */

static enum ps_status measure(int busy, bool quick, int warmup, int repeats, int64_t memory_bytes,
                              struct ps_profile **profile) {
    static const int size = 2;
    struct ps_network *network;
    const struct ps_profile_options options = {.struct_size = sizeof options,
                                               .device = "reference",
                                               .micro_batches = &size,
                                               .micro_batch_count = 1,
                                               .warmup = warmup,
                                               .repeats = repeats,
                                               .quick = quick,
                                               .busy = busy,
                                               .memory_bytes = memory_bytes};
    assert_ok(ps_network_open("lenet5,input=12,classes=3", &network, &test_error));
    own = true;
    if (called.data) called.data[called.length = 0] = '\0';
    const enum ps_status status = ps_profile_measure(network, &options, profile, &test_error);
    ps_network_destroy(network);
    return status;
}

static void never_fail(void) { until_failure = beside_until_failure = threads_until_failure = 0; }

#define WARM "FB"
#define ROUND "FBFB+FIW" /* a backward alone, one that adds to gradients, and one in two halves */
#define QUICK_ROUND "FBFIW"

/* Every round of those that warm up and those that are measured; quick ones have no pass of their own for what is added. */
static void rounds(void **state) {
    (void)state;
    struct ps_profile *profile;
    never_fail();
    assert_ok(measure(1, false, 2, 3, 0, &profile));
    assert_string_equal(called.data, ROUND ROUND ROUND ROUND ROUND);
    ps_profile_destroy(profile);
    assert_ok(measure(1, false, 0, 1, 0, &profile));
    assert_string_equal(called.data, ROUND ROUND ROUND);
    ps_profile_destroy(profile);
    assert_ok(measure(1, true, 0, 2, 0, &profile));
    assert_string_equal(called.data, WARM WARM QUICK_ROUND QUICK_ROUND);
    ps_profile_destroy(profile);
}

/* Whichever pass fails, the measurement does, with its message, and nothing runs after it. */
static void passes(void **state) {
    (void)state;
    static const struct {
        bool quick;
        const char *calls;
    } cases[] = {{false, ROUND ROUND}, {true, WARM WARM QUICK_ROUND}};
    for (int c = 0; c < 2; c++) {
        int all = 0;
        for (const char *at = cases[c].calls; *at; at++) all += *at != '+';
        for (int at = 1; at <= all + 1; at++) {
            struct ps_profile *profile = NULL;
            never_fail();
            until_failure = at;
            const enum ps_status status = measure(1, cases[c].quick, 1, 1, 0, &profile);
            int calls = 0;
            for (const char *letter = called.data; *letter; letter++) calls += *letter != '+';
            assert_int_equal(calls, at <= all ? at : all);
            assert_int_equal(strncmp(called.data, cases[c].calls, called.length), 0);
            assert_status(status, at <= all ? PS_FAILED : PS_OK, at <= all ? "a pass failed" : "");
            assert_int_equal(profile != NULL, at > all);
            ps_profile_destroy(profile);
        }
    }
}

/* The same of workers beside it, whichever of their passes it is: two that warm up, and then rounds; in pieces, too. */
static void background_load(void **state) {
    (void)state;
    enum { PASSES = 2 + 1 + 7 };
    for (int at = 1; at <= PASSES; at++) {
        struct ps_profile *profile = NULL;
        never_fail();
        beside_until_failure = at;
        const enum ps_status status = measure(at == PASSES ? 3 : 2, false, 1, 1, at % 2, &profile);
        if (status == PS_OK) fail_msg("pass %d of a worker beside it failed, and nobody said so", at);
        assert_status(status, PS_FAILED, "a pass beside it failed");
        assert_null(profile);
    }
}

/* No thread for a worker beside it, or for the partner with whom blocks change hands. */
static void threads(void **state) {
    (void)state;
    const int partner = cores_usable() > 1;
    for (int at = 1; at <= 2 + partner; at++) {
        struct ps_profile *profile = NULL;
        never_fail();
        threads_until_failure = at;
        assert_status(measure(3, false, 1, 1, 0, &profile), PS_FAILED,
                      at <= 2 ? "cannot start a thread of background load: Resource temporarily unavailable"
                              : "cannot start a thread to profile with: Resource temporarily unavailable");
        assert_null(profile);
    }
}

/* A block that another core has just written or read takes longer: half of what the two take longer together is what it costs
 * to take one over. Without another core nothing is taken over, however long that takes. */
static void change_of_hands(void **state) {
    (void)state;
    enum { BYTES = 512 << 10 };
    /* Before a look and until the next: a block of one's own is read and written, another's is, and one is copied to it. */
    static const double steps[] = {9, 1, 9, 2, 9, 5, 9, 8, 9, 16};
    struct core_transfer_rates rates;
    own = true;
    steps_s = steps;
    step_count = 10;
    for (int several = 0; several < 2; several++) {
        looks = 0;
        never_fail();
        assert_ok(core_transfer_measure(several, &rates, &test_error));
        assert_int_equal(looks, 10 * 21);
        assert_true(rates.copy == 16.0 / BYTES);
        assert_true(rates.take == (several && cores_usable() > 1 ? 5.0 / BYTES : 0));
    }
    steps_s = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds), cmocka_unit_test(passes), cmocka_unit_test(background_load),
                                       cmocka_unit_test(threads), cmocka_unit_test(change_of_hands)};
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    text_free(&called);
    return result;
}
