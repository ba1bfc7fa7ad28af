/*
 * What is run to measure a network, and what happens where it cannot be run: each forward and backward, an update or a thread
 * may fail. The library's functions are called through those of this program, which write down what is called, and fail when
 * they are told to.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
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
static _Thread_local bool within;                                             /* it is in a backward, which may add, too */
static struct text called, updates;                                           /* by it, a letter for each pass and update */
static size_t added;                                                          /* by it, numbers to others */
static atomic_int until_failure, beside_until_failure, threads_until_failure; /* the call that counts down to 0 fails */
static atomic_int stretches;                                                  /* bits: so many layers ran beside it in one go */
static atomic_int stretches_wanted;                                           /* it waits for these */

static void *next_of(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    assert_non_null(found);
    return found;
}

/* The thread that measures waits until a pass beside it that is to fail has done so. */
static bool fails(void) {
    if (!own) return atomic_fetch_sub(&beside_until_failure, 1) == 1;
    while (atomic_load(&beside_until_failure) > 0) sched_yield();
    while ((atomic_load(&stretches) & stretches_wanted) != stretches_wanted) sched_yield();
    return atomic_fetch_sub(&until_failure, 1) == 1;
}

static enum ps_status failed(struct ps_error *error) {
    if (error) snprintf(error->message, sizeof error->message, own ? "a pass failed" : "a pass beside it failed");
    return PS_FAILED;
}

/* Of the last forward: what it was called with, and its output. */
static struct {
    struct stage_blocks blocks;
    struct stage_step step;
    struct stage_sizes sizes;
    char output[1 << 16];
} last;
static int forwards; /* that ran on other blocks than the one before, but on the same data */

/* Called in each forward: the data of a network, or of a piece what the piece before it has made, on two micro-batches by
 * turns. */
static void check_forward(const struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step) {
    static char input[1 << 16];
    const struct stage_sizes sizes = stage_sizes(stage);
    const size_t bytes = (size_t)sizes.input_bytes;
    assert_true(bytes <= sizeof input && (size_t)sizes.output_bytes <= sizeof last.output);
    assert_true(step->training && step->update_statistics && !step->accumulate && step->target);
    const bool same = memcmp(&sizes, &last.sizes, sizeof sizes) == 0; /* no two layers here are of the same sizes */
    if (same) {
        assert_memory_equal(input, blocks->input, bytes);
        assert_true(last.blocks.input != blocks->input && last.blocks.stash != blocks->stash);
        assert_true(!blocks->output || last.blocks.output != blocks->output);
        forwards++;
    } else {
        if (last.blocks.weights && blocks->input_gradient) assert_memory_equal(last.output, blocks->input, bytes);
        memcpy(input, blocks->input, bytes);
    }
    if (!blocks->input_gradient) { /* from -1 to 1 */
        const float *values = blocks->input;
        float least = 0, most = 0;
        for (int i = 0; i < 2 * 12 * 12; i++) {
            least = fminf(least, values[i]);
            most = fmaxf(most, values[i]);
        }
        assert_true(least >= -1 && least < -0.9f && most <= 1 && most > 0.9f);
    }
    last.blocks = *blocks;
    last.step = *step;
    last.sizes = sizes;
}

enum ps_status stage_forward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                             struct stage_result *result, struct ps_error *error) {
    if (own) text_add(&called, "F");
    if (own) check_forward(stage, blocks, step);
    if (fails()) return failed(error);
    const enum ps_status status =
        ((enum ps_status(*)(struct stage *, const struct stage_blocks *, const struct stage_step *, struct stage_result *,
                            struct ps_error *))next_of("stage_forward"))(stage, blocks, step, result, error);
    if (own && blocks->output) memcpy(last.output, blocks->output, (size_t)last.sizes.output_bytes);
    return status;
}

enum ps_status stage_forward_again(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                                   const bool *kept, struct stage_result *result, struct ps_error *error) {
    assert_false(own);
    int layers = 0;
    while (layers < 7 && !kept[layers]) layers++;
    atomic_fetch_or(&stretches, 1 << layers);
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
    within = true;
    const enum ps_status status =
        ((enum ps_status(*)(struct stage *, const struct stage_blocks *, const struct stage_step *, enum stage_half,
                            struct ps_error *))next_of("stage_backward"))(stage, blocks, step, half, error);
    within = false;
    return status;
}

/* u: in place; q: with a prediction; p: a prediction alone; o: out of place. Of bf16 in capitals. */
bool optimizer_run(const struct optimizer *rule, const struct optimizer_settings *settings, const struct optimizer_call *call,
                   bool predict_only) {
    if (own) {
        const char *weights = last.blocks.weights, *made = call->copy ? call->copy : (const void *)call->updated;
        const bool in_place = made >= weights && made < weights + last.sizes.parameter_bytes;
        char letter = predict_only ? 'p' : call->predicted ? 'q' : in_place ? 'u' : 'o';
        assert_true(call->lr == 0 && call->step > 0 && call->gradient && call->moment[0]);
        assert_true((const char *)call->predicted != weights);
        assert_true(call->copy ? call->updated == call->weights : (const char *)call->weights == weights);
        if (call->type == TYPE_BF16) letter -= 'a' - 'A', assert_true(call->copy != NULL);
        text_add(&updates, "%c", letter);
    }
    return ((bool (*)(const struct optimizer *, const struct optimizer_settings *, const struct optimizer_call *, bool))next_of(
        "optimizer_run"))(rule, settings, call, predict_only);
}

void device_add(struct device *device, enum number_type type, size_t count, void *y, const void *x) {
    if (own && !within) added += count;
    ((void (*)(struct device *, enum number_type, size_t, void *, const void *))next_of("device_add"))(device, type, count, y,
                                                                                                       x);
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

static const char lenet[] = "lenet5,input=12,classes=3";

static enum ps_status measure_network(const char *name, int busy, bool quick, int warmup, int repeats, int64_t memory_bytes,
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
    assert_ok(ps_network_open(name, &network, &test_error));
    own = true;
    if (called.data) called.data[called.length = 0] = '\0';
    if (updates.data) updates.data[updates.length = 0] = '\0';
    memset(&last, 0, sizeof last);
    added = 0;
    forwards = 0;
    const enum ps_status status = ps_profile_measure(network, &options, profile, &test_error);
    ps_network_destroy(network);
    return status;
}

static enum ps_status measure(int busy, bool quick, int warmup, int repeats, int64_t memory_bytes,
                              struct ps_profile **profile) {
    return measure_network(lenet, busy, quick, warmup, repeats, memory_bytes, profile);
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

/* As often as is usual at the most and at the least, by what a look at the clock takes. */
static void repeats(void **state) {
    (void)state;
    static const struct {
        double step_s;
        bool quick;
        int warm, rounds; /* passes that warm up, and rounds that are measured */
    } cases[] = {{0x1p-30, false, 2, 199}, {1, false, 2, 9}, {0x1p-30, true, 2, 199}, {0x1p-10, true, 2, 2}, {1, true, 1, 1}};
    step_count = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_profile *profile;
        size_t halves = 0;
        int warm = 0;
        never_fail();
        steps_s = &cases[c].step_s;
        assert_ok(measure(1, cases[c].quick, 0, 0, 0, &profile));
        for (size_t i = 0; i < called.length; i++) halves += called.data[i] == 'W';
        while (cases[c].quick && strncmp(called.data + 2 * warm, WARM "F", 3) == 0) warm++;
        if (halves != (size_t)cases[c].rounds + (cases[c].quick ? 0 : 2) || (cases[c].quick && warm != cases[c].warm + 1))
            fail_msg("case %zu: %zu rounds, and %d passes before them", c, halves, warm - 1);
        ps_profile_destroy(profile);
    }
    steps_s = NULL;
}

/* The updates of a round: each kind, of copies in bf16 by their masters; and the sum over two replicas. */
static void updates_and_sums(void **state) {
    (void)state;
    static const char *const networks[] = {lenet, "lenet5,input=12,classes=3,precision=bf16"};
    for (int n = 0; n < 2; n++)
        for (int quick = 0; quick < 2; quick++) {
            struct ps_profile *profile;
            never_fail();
            assert_ok(measure_network(networks[n], 1, quick, 1, 1, 0, &profile));
            const char *kinds = n == 0 ? "uqpo" : "uUqQpPoO";
            assert_int_equal(strncmp(updates.data, kinds, strlen(kinds)), 0);
            assert_int_equal(updates.length, (quick ? 1 : 2) * strlen(kinds));
            const struct cost_table *table = &profile->tables[0];
            const int64_t all = stage_cost(table, 0, table->layer_count - 1).size.parameter_bytes / 4;
            assert_int_equal(added, 2 * all); /* in two rounds the sums, or in one what is added to gradients, and the sum */
            ps_profile_destroy(profile);
        }
}

/* What passes run on (check_forward): two micro-batches by turns, and in pieces what the piece before has made. */
static void data(void **state) {
    (void)state;
    struct ps_profile *profile;
    for (int64_t memory_bytes = 0; memory_bytes < 2; memory_bytes++) {
        never_fail();
        assert_ok(measure(1, false, 1, 2, memory_bytes, &profile));
        assert_int_equal(forwards, memory_bytes ? 7 * 8 : 8);
        assert_int_equal(last.step.step, 2);
        assert_true(last.step.gradient_scale == 0.5f);
        ps_profile_destroy(profile);
    }
}

/* Workers beside it begin each round with another number of layers: with all of them but the last in the end. */
static void stretches_beside(void **state) {
    (void)state;
    struct ps_profile *profile;
    never_fail();
    stretches = 0;
    stretches_wanted = 127;
    assert_ok(measure(2, false, 1, 1, 0, &profile));
    assert_int_equal(stretches, 127);
    stretches_wanted = 0;
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
    enum { BYTES = 512 << 10, ROUNDS = 21 };
    /* Before a look and until the next: a block of one's own is read and written, another's is, and one is copied to it. In the
     * round in the middle, and in a few others, something else comes between. */
    static const double usual[] = {9, 1, 9, 2, 9, 5, 9, 8, 9, 16};
    double steps[ROUNDS * 10];
    for (int i = 0; i < ROUNDS * 10; i++) steps[i] = usual[i % 10] * (i / 10 % 5 == 0 ? 100 : 1);
    struct core_transfer_rates rates;
    own = true;
    steps_s = steps;
    step_count = ROUNDS * 10;
    for (int several = 0; several < 2; several++) {
        looks = 0;
        never_fail();
        assert_ok(core_transfer_measure(several, &rates, &test_error));
        assert_int_equal(looks, 10 * ROUNDS);
        assert_true(rates.copy == 16.0 / BYTES);
        assert_true(rates.take == (several && cores_usable() > 1 ? 5.0 / BYTES : 0));
    }
    steps_s = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds),           cmocka_unit_test(repeats),
                                       cmocka_unit_test(updates_and_sums), cmocka_unit_test(data),
                                       cmocka_unit_test(stretches_beside), cmocka_unit_test(passes),
                                       cmocka_unit_test(background_load),  cmocka_unit_test(threads),
                                       cmocka_unit_test(change_of_hands)};
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    text_free(&called);
    text_free(&updates);
    return result;
}
