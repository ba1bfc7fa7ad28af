/* Log lines and progress: to the sink that the program has set (ps_log_to), or nowhere. */
#ifndef PENSTOCK_BASE_LOG_H
#define PENSTOCK_BASE_LOG_H

#include "base/error.h"

void log_line(enum ps_log_level level, const char *format, ...) PS_PRINTF(2, 3);
#define log_debug(...) log_line(PS_LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(PS_LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(PS_LOG_WARN, __VA_ARGS__)

/* Passes lines of the sink's level to `line` instead of the sink, and drops progress. NULL: uses the sink again. */
void log_forward(void (*line)(void *context, enum ps_log_level level, const char *text), void *context);

void log_progress(const char *what, double done, double total, const char *detail_format, ...) PS_PRINTF(4, 5);

#endif
