/* Messages, memory blocks, the log, the clock and elementwise loops. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/vector.h"

static void messages(void **state) {
    (void)state;
    struct ps_error error;
    memset(&error, 'x', sizeof error);
    assert_int_equal(error_set(&error, PS_IO, "%s: line\nbreak", "a\tfile"), PS_IO);
    assert_int_equal(error.status, PS_IO);
    assert_string_equal(error.message, "a file: line break");
    assert_string_equal(error.hint, "");
    error_prefix(&error, "stage %d", 3);
    assert_string_equal(error.message, "stage 3: a file: line break");
    error_hint(&error, "one");
    error_hint(&error, "two");
    assert_string_equal(error.hint, "one\ntwo");
    error_set(&error, PS_FAILED, "from %s", error.message);
    assert_string_equal(error.message, "from stage 3: a file: line break");
    assert_string_equal(error.hint, "");

    static const char *const names[] = {"gpipe", "naive"};
    assert_int_equal(error_unknown(&error, PS_USAGE, "`schedule`", "gipe", names, 2), PS_USAGE);
    assert_string_equal(error.message, "`schedule`: 'gipe' is not known; did you mean 'gpipe'?");
    assert_string_equal(error.hint, "known: gpipe, naive");
    error_unknown(&error, PS_USAGE, "`schedule`", "zigzag", names, 2);
    assert_string_equal(error.message, "`schedule`: 'zigzag' is not known");
    assert_int_equal(error_memory(&error, "the weights", 3 << 20), PS_OUT_OF_MEMORY);
    assert_string_equal(error.message, "out of memory: the weights needs 3.00 MiB");
}

static void messages_are_utf8(void **state) {
    (void)state;
    struct ps_error error;
    error_set(&error, PS_BAD_INPUT, "'%s' in '%s'", "s\xf0hedule\x7f", "\xe2\x82\xac");
    assert_string_equal(error.message, "'s?hedule ' in '\xe2\x82\xac'");
    error_set(&error, PS_BAD_INPUT, "'%.2s'", "\xe2\x82\xac");
    assert_string_equal(error.message, "'?\?'");
    error_prefix(&error, "\xff");
    assert_string_equal(error.message, "?: '?\?'");
    error_hint(&error, "a\n\xc3");
    assert_string_equal(error.hint, "a ?");

    char filler[sizeof error.message]; /* whose end is cut in the middle of a character */
    memset(filler, 'a', sizeof filler);
    memcpy(filler + sizeof filler - 3, "\xc3\xa9", 3);
    error_set(&error, PS_IO, "b%s", filler);
    assert_string_equal(error.message + sizeof filler - 3, "a");
}

static void messages_are_cut_to_their_size(void **state) {
    (void)state;
    struct ps_error error;
    char filler[3000];
    memset(filler, 'a', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    error_set(&error, PS_IO, "%s", filler);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    for (int i = 0; i < 3; i++) error_hint(&error, "%s", filler);
    assert_int_equal(strlen(error.hint), sizeof error.hint - 1);
    error_prefix(&error, "%s", filler);
    error_prefix(&error, "front");
    assert_memory_equal(error.message, "front: aaa", 10);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
}

static void nobody_wants_the_message(void **state) {
    (void)state;
    static const char *const names[] = {"a"};
    assert_int_equal(error_set(NULL, PS_IO, "x"), PS_IO);
    assert_int_equal(error_unknown(NULL, PS_USAGE, "x", "y", names, 1), PS_USAGE);
    assert_int_equal(error_memory(NULL, "x", 1), PS_OUT_OF_MEMORY);
    error_hint(NULL, "x");
    error_prefix(NULL, "x");
}

static void statuses_have_texts(void **state) {
    (void)state;
    assert_string_equal(ps_status_text(PS_OK), "done");
    assert_string_equal(ps_status_text(PS_STOPPED), "stopped on request");
    assert_string_equal(ps_status_text((enum ps_status)42), "unknown status");
    assert_int_equal(PS_STOPPED, 75);
    assert_string_equal(ps_version(), PENSTOCK_VERSION);
}

static void blocks(void **state) {
    (void)state;
    struct memory_block block = {0};
    assert_ok(memory_block_take(&block, 1000, "test", &test_error));
    assert_int_equal(block.size, 1024);
    char *first = memory_block_carve(&block, 1), *second = memory_block_carve(&block, 64),
         *rest = memory_block_carve(&block, 896);
    assert_int_equal((uintptr_t)first % MEMORY_ALIGNMENT, 0);
    assert_ptr_equal(second, first + 64);
    assert_ptr_equal(rest, first + 128);
    assert_int_equal(block.used, block.size);
    for (int i = 0; i < 1024; i++) assert_int_equal(first[i], 0);
    memset(first, 1, 1024);
    memory_block_release(&block);
    assert_null(block.base);
    memory_block_release(&block);

    assert_ok(memory_block_take(&block, 0, "nothing", &test_error));
    assert_int_equal(block.size, 0);
    assert_non_null(memory_block_carve(&block, 0));
    memory_block_release(&block);

    assert_status(memory_block_take(&block, SIZE_MAX / 2, "worker 3", &test_error), PS_OUT_OF_MEMORY,
                  "out of memory: worker 3 needs");
    assert_status(memory_block_take(&block, SIZE_MAX, "worker 3", &test_error), PS_OUT_OF_MEMORY, "worker 3");
    assert_null(block.base);
}

/* Sinks are called by several threads at the same time. */
static pthread_mutex_t last_line = PTHREAD_MUTEX_INITIALIZER;

struct seen {
    atomic_int lines;
    int progress;
    char last[2100];
};

static void see_line(void *context, enum ps_log_level level, const char *text) {
    struct seen *seen = context;
    pthread_mutex_lock(&last_line);
    seen->lines++;
    snprintf(seen->last, sizeof seen->last, "%d %s", (int)level, text);
    pthread_mutex_unlock(&last_line);
}

static void see_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct seen *seen = context;
    seen->progress++;
    snprintf(seen->last, sizeof seen->last, "%s %g/%g %s", what, done, total, detail);
}

/* Names from files in lines and details are shown as those in messages. */
static void lines_can_be_shown(void **state) {
    (void)state;
    struct seen seen = {0};
    assert_ok(ps_log_to(&(struct ps_log_sink){.struct_size = sizeof(struct ps_log_sink),
                                              .context = &seen,
                                              .level = PS_LOG_INFO,
                                              .line = see_line,
                                              .progress = see_progress},
                        &test_error));
    log_warn("evil\x1b[31m\nname\xc2\x9b\xff");
    assert_string_equal(seen.last, "2 evil [31m name  ?");
    log_progress("files", 1, 2, "%s", "evil\x1b[31m\r");
    assert_string_equal(seen.last, "files 1/2 evil [31m ");
    assert_ok(ps_log_to(NULL, &test_error));
}

static void *write_many(void *unused) {
    for (int i = 0; i < 1000; i++) log_warn("line %d", i);
    return unused;
}

/* A sink that has something to log itself, and goes on to another one. */
static void see_more(void *context, enum ps_log_level level, const char *text) {
    struct seen *seen = context;
    see_line(context, level, text);
    if (level == PS_LOG_INFO) return;
    log_info("from the sink");
    assert_string_equal(seen->last, "1 from the sink");
    assert_ok(ps_log_to(
        &(struct ps_log_sink){
            .struct_size = sizeof(struct ps_log_sink), .context = seen, .level = PS_LOG_INFO, .line = see_line},
        &test_error));
    log_warn("to the other");
}

static void sinks_may_log(void **state) {
    (void)state;
    struct seen seen = {0};
    assert_ok(ps_log_to(
        &(struct ps_log_sink){
            .struct_size = sizeof(struct ps_log_sink), .context = &seen, .level = PS_LOG_INFO, .line = see_more},
        &test_error));
    log_warn("begin");
    assert_int_equal(seen.lines, 3);
    log_warn("end");
    assert_int_equal(seen.lines, 4);
    assert_ok(ps_log_to(NULL, &test_error));
}

static void logs(void **state) {
    (void)state;
    struct seen seen = {0};
    log_warn("nobody listens");
    assert_ok(ps_log_to(&(struct ps_log_sink){.struct_size = sizeof(struct ps_log_sink),
                                              .context = &seen,
                                              .level = PS_LOG_INFO,
                                              .line = see_line,
                                              .progress = see_progress},
                        &test_error));
    log_debug("not wanted");
    assert_int_equal(seen.lines, 0);
    log_info("step %d", 5);
    assert_string_equal(seen.last, "1 step 5");
    log_progress("steps", 3, 10, "loss %.1f", 0.5);
    assert_string_equal(seen.last, "steps 3/10 loss 0.5");
    char long_text[4096] = ""; /* longer than a line: of two bytes each, so that one is cut at an odd place */
    for (size_t i = 0; i + 2 < sizeof long_text; i += 2) memcpy(long_text + i, "\xc3\xa9", 3);
    log_info("%s", long_text);
    assert_null(utf8_invalid(seen.last, strlen(seen.last)));

    pthread_t threads[4];
    seen.lines = 0;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_many, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(seen.lines, 4000);

    assert_ok(
        ps_log_to(&(struct ps_log_sink){.struct_size = sizeof(struct ps_log_sink), .context = &seen, .level = PS_LOG_DEBUG},
                  &test_error));
    log_warn("no function for it");
    log_progress("steps", 1, 1, "%s", "");
    assert_ok(ps_log_to(NULL, &test_error));
    log_warn("silence");
    assert_int_equal(seen.lines, 4000);
    assert_int_equal(seen.progress, 1);
}

static void waits_until_the_time_has_come(void **state) {
    (void)state;
    double start = clock_now();
    static const double waits[] = {-1, 0, 10e-6, 200e-6, 3e-3};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        clock_wait_until(start + waits[i]);
        assert_true(clock_now() >= start + waits[i]);
    }
}

static void waits_asleep(void **state) {
    (void)state;
    double start = clock_now(), used = clock_of_thread();
    clock_wait_until(start + 0.1);
    assert_true(clock_of_thread() - used < 0.05);
}

static void *compute_until(void *stop) {
    while (!atomic_load((atomic_bool *)stop)) continue;
    return NULL;
}

/* On one processor with a thread that computes, it sees soon that they take turns. */
static void spins_while_nobody_else_wants_the_processor(void **state) {
    (void)state;
    double start = clock_now();
    assert_false(clock_spin(start - 1));
    while (clock_spin(start + 1e-3)) continue;
    cpu_set_t before, one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    atomic_bool stop = false;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, compute_until, &stop), 0);
    double until = clock_now() + 1e9;
    while (clock_spin(until)) continue;
    atomic_store(&stop, true);
    pthread_join(other, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void elementwise(void **state) {
    (void)state;
    for (size_t count = 0; count < 70; count++) {
        float x[80], y[80], added[80], scaled[80], moved[80];
        for (size_t i = 0; i < 80; i++) {
            x[i] = random_normal(test_key(count), i);
            y[i] = added[i] = scaled[i] = moved[i] = random_normal(test_key(count), 100 + i);
        }
        vector_add(count, added, x);
        vector_scale(count, scaled, 0.3f);
        vector_axpy(count, moved, 0.7f, x);
        for (size_t i = 0; i < 80; i++) {
            volatile float product = 0.7f * x[i]; /* rounded before it is added, whatever this file is compiled with */
            assert_true(added[i] == (i < count ? y[i] + x[i] : y[i]));
            assert_true(scaled[i] == (i < count ? y[i] * 0.3f : y[i]));
            assert_true(moved[i] == (i < count ? y[i] + product : y[i]));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(messages_are_cut_to_their_size),
        cmocka_unit_test(nobody_wants_the_message),
        cmocka_unit_test(messages_are_utf8),
        cmocka_unit_test(statuses_have_texts),
        cmocka_unit_test(blocks),
        cmocka_unit_test(logs),
        cmocka_unit_test(sinks_may_log),
        cmocka_unit_test(lines_can_be_shown),
        cmocka_unit_test(waits_until_the_time_has_come),
        cmocka_unit_test(waits_asleep),
        cmocka_unit_test(spins_while_nobody_else_wants_the_processor),
        cmocka_unit_test(elementwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
