/*
 * Log lines and progress: to the sink that the call at work was given in its options, else to the program's (ps_log_to), or
 * nowhere. Which call is at work is known by thread; a thread of the library's has the sink of the one that started it
 * (base/thread.h).
 */
#ifndef PENSTOCK_BASE_LOG_H
#define PENSTOCK_BASE_LOG_H

#include "base/error.h"

void log_line(enum ps_log_level level, const char *format, ...) PS_PRINTF(2, 3);
#define log_debug(...) log_line(PS_LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(PS_LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(PS_LOG_WARN, __VA_ARGS__)

/* Lines of the level that the sink wants go to `line` instead, and progress nowhere; NULL: to the sink again. In the whole
 * process. */
void log_forward(void (*line)(void *context, enum ps_log_level level, const char *text), void *context);

void log_progress(const char *what, double done, double total, const char *detail_format, ...) PS_PRINTF(4, 5);

/* What this thread logs goes to `sink` (borrowed; NULL: where it goes now) until log_restore gets what this returns. */
const struct ps_log_sink *log_use(const struct ps_log_sink *sink);
void log_restore(const struct ps_log_sink *before);
/* PS_USAGE: a sink in a call's options is not of this library's size. NULL is fine. */
enum ps_status log_check(const struct ps_log_sink *sink, struct ps_error *error);

#endif
