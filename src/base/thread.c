/* Starting threads; see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"

/* Paths, messages and oneDNN's kernels need more than a small limit of the program (ulimit -s) gives to new threads. */
enum { STACK_LEAST = 1 << 20 };

struct start {
    void *(*function)(void *argument);
    void *argument;
    const struct ps_log_sink *log;
};

static void *thread_main(void *argument) {
    struct start start = *(struct start *)argument;
    free(argument);
    log_use(start.log);
    return start.function(start.argument);
}

int thread_start(pthread_t *thread, void *(*function)(void *argument), void *argument) {
    struct start *start = malloc(sizeof *start);
    if (!start) return ENOMEM;
    *start = (struct start){function, argument, log_use(NULL)};
    pthread_attr_t attributes;
    size_t stack = 0;
    int code = pthread_attr_init(&attributes);
    if (code == 0) {
        if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < STACK_LEAST)
            code = pthread_attr_setstacksize(&attributes, STACK_LEAST);
        if (code == 0) code = pthread_create(thread, &attributes, thread_main, start);
        pthread_attr_destroy(&attributes);
    }
    if (code) free(start);
    return code;
}

static atomic_int in_given;

void thread_enter_given(void) { atomic_fetch_add(&in_given, 1); }

void thread_leave_given(void) { atomic_fetch_sub(&in_given, 1); }

int threads_in_given(void) { return atomic_load(&in_given); }
