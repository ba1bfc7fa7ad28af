/*
 * The library's only global state: where log lines and progress go that no call's own sink gets. The level is read first and
 * without a lock, so that a line nobody wants costs one load. Sinks are called without the lock, and may do what they like.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/number.h"
#include "base/text.h"
#include "base/versioned.h"

#define LEVEL_SILENT (PS_LOG_ERROR + 1)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ps_log_sink of_program;
static void (*forward)(void *context, enum ps_log_level level, const char *text);
static void *forward_context;
static atomic_int level_wanted = LEVEL_SILENT; /* by the program's sink */
static atomic_bool progress_wanted;
static _Thread_local const struct ps_log_sink *of_call;

enum ps_status log_check(const struct ps_log_sink *sink, struct ps_error *error) {
    struct ps_log_sink own = {0};
    return sink ? VERSIONED_TAKE(ps_log_sink, sink, &own, error) : PS_OK;
}

enum ps_status ps_log_to(const struct ps_log_sink *sink, struct ps_error *error) {
    struct ps_log_sink own = {0};
    if (sink) TRY(VERSIONED_TAKE(ps_log_sink, sink, &own, error));
    pthread_mutex_lock(&mutex);
    of_program = own;
    atomic_store(&level_wanted, own.line != NULL ? (int)own.level : LEVEL_SILENT);
    atomic_store(&progress_wanted, own.progress != NULL);
    pthread_mutex_unlock(&mutex);
    return PS_OK;
}

const struct ps_log_sink *log_use(const struct ps_log_sink *sink) {
    const struct ps_log_sink *before = of_call;
    if (sink) of_call = sink;
    return before;
}

void log_restore(const struct ps_log_sink *before) { of_call = before; }

void log_forward(void (*line)(void *context, enum ps_log_level level, const char *text), void *context) {
    pthread_mutex_lock(&mutex);
    forward = line;
    forward_context = context;
    pthread_mutex_unlock(&mutex);
}

/* Where this thread's lines go now; false: they were handed on, or nobody is there. */
static bool find_sink(struct ps_log_sink *sink, enum ps_log_level level, const char *text) {
    pthread_mutex_lock(&mutex);
    *sink = of_call ? *of_call : of_program;
    bool handed_on = forward != NULL;
    if (handed_on && text) forward(forward_context, level, text); /* inside of the library */
    pthread_mutex_unlock(&mutex);
    return !handed_on;
}

void log_line(enum ps_log_level level, const char *format, ...) {
    int wanted = of_call ? (of_call->line ? (int)of_call->level : LEVEL_SILENT)
                         : atomic_load_explicit(&level_wanted, memory_order_relaxed);
    if ((int)level < wanted) return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    number_vprint(text, sizeof text, format, arguments);
    va_end(arguments);
    utf8_clean(text, ' '); /* names from users and files may contain any bytes */
    struct ps_log_sink sink;
    /* The program's may have changed since the level was read. */
    if (find_sink(&sink, level, text) && sink.line != NULL && level >= sink.level) sink.line(sink.context, level, text);
}

void log_progress(const char *what, double done, double total, const char *detail_format, ...) {
    if (!(of_call ? of_call->progress != NULL : atomic_load_explicit(&progress_wanted, memory_order_relaxed))) return;
    char detail[512];
    va_list arguments;
    va_start(arguments, detail_format);
    number_vprint(detail, sizeof detail, detail_format, arguments);
    va_end(arguments);
    utf8_clean(detail, ' ');
    struct ps_log_sink sink;
    if (find_sink(&sink, PS_LOG_INFO, NULL) && sink.progress != NULL) sink.progress(sink.context, what, done, total, detail);
}
