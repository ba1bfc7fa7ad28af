/* Messages of the command line on standard error: errors, log lines and progress. */
#ifndef PENSTOCK_CLI_MESSAGE_H
#define PENSTOCK_CLI_MESSAGE_H

#include <pthread.h>

#include <penstock.h>

#if defined(__GNUC__)
#define MESSAGE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define MESSAGE_PRINTF(text, first)
#endif

/* Sets *error to a message of one line and returns the status, as the library's functions do. */
enum ps_status message_set(struct ps_error *error, enum ps_status status, const char *format, ...) MESSAGE_PRINTF(3, 4);
/* Sets the hint: what the user can do. */
void message_hint(struct ps_error *error, const char *format, ...) MESSAGE_PRINTF(2, 3);

#define CHECK(call)                                                                                                            \
    do {                                                                                                                       \
        enum ps_status check_ = (call);                                                                                        \
        if (check_ != PS_OK) return check_;                                                                                    \
    } while (0)

/* The library's log and progress on standard error; its threads come as they like. */
struct reporter {
    pthread_mutex_t lock;
    bool terminal, colour;
    bool line_open;  /* a progress line is shown */
    double shown_at; /* when it was last drawn */
    char what[64];   /* what makes progress; "": nothing */
    double began_at, began_with, done;
};

/* Sends log lines of at least `level` and, unless `quiet`, progress to standard error. */
void reporter_start(struct reporter *reporter, enum ps_log_level level, bool quiet);
/* Removes the progress line and stops reporting. */
void reporter_stop(struct reporter *reporter);

/* Fields of options, which the library names in backquotes, become the command line's options that set them. */
void message_name_options(struct ps_error *error);
/* The same of an allocated text that may tell of refusals; NULL is fine. */
char *message_text_options(char *text);
/* "penstock: MESSAGE" and the hint, on standard error. */
void message_print(const struct ps_error *error);

#endif
