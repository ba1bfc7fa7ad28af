/* The message of a failed call. */
#ifndef PENSTOCK_BASE_ERROR_H
#define PENSTOCK_BASE_ERROR_H

#include <penstock.h>

#if defined(__GNUC__)
#define PS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define PS_PRINTF(text, first)
#endif

/* Writes the message into `error` (which may be NULL) and returns `status`, so that callers can write `return error_set(error,
 * PS_USAGE, "...")`. The function that detects the error calls it; its callers return the status. */
enum ps_status error_set(struct ps_error *error, enum ps_status status, const char *format, ...) PS_PRINTF(3, 4);

/* Adds a hint, what the user can do, to a message that was set. */
void error_hint(struct ps_error *error, const char *format, ...) PS_PRINTF(2, 3);
/* Each line of a text as a hint: a table, or another message's hints. */
void error_hint_lines(struct ps_error *error, const char *text);

/* Puts "PREFIX: " before the message. */
void error_prefix(struct ps_error *error, const char *format, ...) PS_PRINTF(2, 3);

/* `word` is not one of `names`: "WHAT: 'word' is not known; did you mean 'X'?", and the list of names as the hint. */
enum ps_status error_unknown(struct ps_error *error, enum ps_status status, const char *what, const char *word,
                             const char *const *names, size_t count);

/* Adds "known: A, B, C" as a hint. */
void error_names(struct ps_error *error, const char *const *names, size_t count);

/* Out of memory: "out of memory: WHAT needs SIZE". */
enum ps_status error_memory(struct ps_error *error, const char *what, size_t bytes);

#ifndef __cplusplus
/* In this thread memory ran out where no status could say so (base/json.h). The next PS_OUT_OF_MEMORY says it. */
extern _Thread_local bool error_memory_untold;
#endif

/* Returns the status of `call` from the enclosing function if it failed. */
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        enum ps_status try_status_ = (call);                                                                                   \
        if (try_status_ != PS_OK) return try_status_;                                                                          \
    } while (0)

/* Like TRY, for functions that must free something first: sets `status` and jumps to `out`. */
#define TRY_OUT(call)                                                                                                          \
    do {                                                                                                                       \
        status = (call);                                                                                                       \
        if (status != PS_OK) goto out;                                                                                         \
    } while (0)

#endif
