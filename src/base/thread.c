/* Starting threads; see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

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
    int code = pthread_create(thread, NULL, thread_main, start);
    if (code) free(start);
    return code;
}
