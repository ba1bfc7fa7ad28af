/* Threads of the library's: they get their argument and the starter's log; one that cannot be started leaves nothing behind. */
#include "base/thread.h"

#include <string.h>

#include "base/log.h"
#include "support.h"

static int lines;

static void count_line(void *context, enum ps_log_level level, const char *text) {
    (void)level;
    assert_ptr_equal(context, &lines);
    assert_non_null(strstr(text, "from a thread"));
    lines++;
}

static void *say(void *argument) {
    log_info("from a thread");
    return argument;
}

static void test_start(void **state) {
    (void)state;
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .line = count_line, .context = &lines, .level = PS_LOG_INFO},
                             *before = log_use(&sink);
    pthread_t thread;
    void *result;
    assert_int_equal(thread_start(&thread, say, &lines), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &lines);
    assert_int_equal(lines, 1);
    log_restore(before);
}

/* With a stack for which no processor has addresses. What it took until then is freed, which the address sanitizer sees. */
static void test_refused(void **state) {
    (void)state;
#ifdef __GLIBC__
    pthread_attr_t usual, huge;
    pthread_t thread;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_getattr_default_np(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 62), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    assert_int_not_equal(thread_start(&thread, say, NULL), 0);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&usual);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
