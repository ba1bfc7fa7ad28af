/*
 * The library's only global state: the sink of log lines and progress. The level is read first and without a lock, so a line
 * below the level costs one load. The sink's functions are called under the mutex, one at a time. A sink may call the library
 * and so be called recursively: a thread locks the mutex only once.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/number.h"

#define LEVEL_SILENT (PS_LOG_ERROR + 1)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ps_log_sink sink;
static void (*forward)(void *context, enum ps_log_level level, const char *text);
static void *forward_context;
static atomic_int lowest_level = LEVEL_SILENT;
static atomic_bool progress_enabled;
static _Thread_local int depth; /* nested calls of this thread that hold the mutex */

static void enter(void) {
    if (depth++ == 0) pthread_mutex_lock(&mutex);
}

static void leave(void) {
    if (--depth == 0) pthread_mutex_unlock(&mutex);
}

void ps_log_to(const struct ps_log_sink *new_sink) {
    enter();
    sink = new_sink != NULL ? *new_sink : (struct ps_log_sink){0};
    atomic_store(&lowest_level, sink.line != NULL ? (int)sink.level : LEVEL_SILENT);
    atomic_store(&progress_enabled, sink.progress != NULL);
    leave();
}

void log_forward(void (*line)(void *context, enum ps_log_level level, const char *text), void *context) {
    enter();
    forward = line;
    forward_context = context;
    leave();
}

void log_line(enum ps_log_level level, const char *format, ...) {
    if ((int)level < atomic_load_explicit(&lowest_level, memory_order_relaxed)) return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    number_vprint(text, sizeof text, format, arguments);
    va_end(arguments);
    enter();
    /* The sink may have changed since the level was read. */
    if (forward != NULL)
        forward(forward_context, level, text);
    else if (sink.line != NULL && level >= sink.level)
        sink.line(sink.context, level, text);
    leave();
}

void log_progress(const char *what, double done, double total, const char *detail_format, ...) {
    if (!atomic_load_explicit(&progress_enabled, memory_order_relaxed)) return;
    char detail[512];
    va_list arguments;
    va_start(arguments, detail_format);
    number_vprint(detail, sizeof detail, detail_format, arguments);
    va_end(arguments);
    enter();
    if (sink.progress != NULL && forward == NULL) sink.progress(sink.context, what, done, total, detail);
    leave();
}
