/* What the command line says on standard error: errors, log lines, and progress where that is a terminal. */
#ifndef PENSTOCK_CLI_MESSAGE_H
#define PENSTOCK_CLI_MESSAGE_H

#include <penstock.h>

#if defined(__GNUC__)
#define MESSAGE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define MESSAGE_PRINTF(text, first)
#endif

/* As the library's functions do: one line into *error, and the status back. */
enum ps_status message_set(struct ps_error *error, enum ps_status status, const char *format, ...) MESSAGE_PRINTF(3, 4);
/* What to do about it. */
void message_hint(struct ps_error *error, const char *format, ...) MESSAGE_PRINTF(2, 3);

#define CHECK(call)                                                                                                            \
    do {                                                                                                                       \
        enum ps_status check_ = (call);                                                                                        \
        if (check_ != PS_OK) return check_;                                                                                    \
    } while (0)

/* The library's log and progress on standard error. */
struct reporter {
    bool terminal, colour;
    bool line_open;  /* a progress line stands on the terminal */
    double shown_at; /* when it was last drawn */
};

/* Sends log lines of at least `level` and, unless `quiet`, progress to standard error. */
void reporter_start(struct reporter *reporter, enum ps_log_level level, bool quiet);
/* Takes the progress line away and stops reporting. */
void reporter_stop(struct reporter *reporter);

/* "penstock: MESSAGE" and the hint, on standard error. */
void message_print(const struct ps_error *error);

#endif
