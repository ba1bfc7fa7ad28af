/* Errors, log lines and the progress line. Only terminals get colours and a progress line; NO_COLOR disables colours. */
#include "cli/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/process.h"

enum ps_status message_set(struct ps_error *error, enum ps_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    error->status = status;
    error->hint[0] = '\0';
    return status;
}

void message_hint(struct ps_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->hint, sizeof error->hint, format, arguments);
    va_end(arguments);
}

/* Fields of the library's options that are not called like the option that sets them, with '_' for '-'. */
static const struct {
    const char *field, *option;
} options[] = {
    {"network", "model"},     {"warmup_steps", "warmup"}, {"beta1", "betas"},
    {"beta2", "betas"},       {"memory_bytes", "memory"}, {"bandwidth_bytes_per_s", "bandwidth"},
    {"latency_s", "latency"}, {"key", "largest"},         {"run_dir", "run"},
    {"path", "output"},
};

/* Writes the option of a field, and returns how long it is. */
static size_t add_option(char *out, size_t room, const char *field, size_t length) {
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strlen(options[i].field) == length && strncmp(options[i].field, field, length) == 0)
            return (size_t)snprintf(out, room, "--%s", options[i].option);
    size_t used = (size_t)snprintf(out, room, "--%.*s", (int)length, field);
    for (size_t i = 0; i < used && i < room; i++)
        if (out[i] == '_') out[i] = '-';
    return used;
}

/* In room for `size` bytes; what does not fit is cut off. */
static void name_options(char *text, size_t size) {
    for (char *c = text; (c = strchr(c, '`')) != NULL;) {
        size_t length = strspn(c + 1, "abcdefghijklmnopqrstuvwxyz_0123456789"), rest = strlen(c);
        if (length == 0 || c[1 + length] != '`') {
            c++;
            continue;
        }
        char option[64];
        size_t named = add_option(option, sizeof option, c + 1, length), room = size - (size_t)(c - text);
        rest -= length + 2;
        if (named >= sizeof option || named + rest >= room) return;
        memmove(c + named, c + length + 2, rest + 1);
        memcpy(c, option, named);
        c += named;
    }
}

char *message_text_options(char *text) {
    const size_t size = text != NULL ? 2 * strlen(text) + 64 : 0; /* no option is so much longer than its field */
    char *longer = text != NULL ? malloc(size) : NULL;
    if (longer != NULL) {
        strcpy(longer, text);
        name_options(longer, size);
    }
    free(text);
    return longer;
}

void message_name_options(struct ps_error *error) {
    name_options(error->message, sizeof error->message);
    name_options(error->hint, sizeof error->hint);
}

void message_print(const struct ps_error *error) {
    char line[sizeof error->message];
    memcpy(line, error->message, sizeof line);
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') *c = ' '; /* a file's name may contain any characters; the message is one line */
    }
    fprintf(stderr, "penstock: %s\n", line);
    size_t length = strlen(error->hint);
    if (length > 0) fprintf(stderr, "%s%s", error->hint, error->hint[length - 1] == '\n' ? "" : "\n");
}

static void close_line(struct reporter *reporter) {
    if (reporter->line_open) fputs("\r\033[K", stderr);
    reporter->line_open = false;
}

static void show_line(void *context, enum ps_log_level level, const char *text) {
    static const struct {
        const char *name, *colour;
    } levels[] = {[PS_LOG_DEBUG] = {"debug", "2"},
                  [PS_LOG_INFO] = {"info", "36"},
                  [PS_LOG_WARN] = {"warn", "33"},
                  [PS_LOG_ERROR] = {"error", "31"}};
    struct reporter *reporter = context;
    pthread_mutex_lock(&reporter->lock);
    close_line(reporter);
    if (reporter->colour) {
        fprintf(stderr, "\033[%sm%s:\033[0m %s\n", levels[level].colour, levels[level].name, text);
    } else {
        fprintf(stderr, "%s: %s\n", levels[level].name, text);
    }
    pthread_mutex_unlock(&reporter->lock);
}

static void put_progress(struct reporter *reporter, const char *what, double done, double total, const char *detail) {
    enum { WIDTH = 100 };
    double now = seconds_now();
    if (done >= total && total > 0) {
        close_line(reporter);
        return;
    }
    if (reporter->line_open && now - reporter->shown_at < 0.1) return;
    char line[WIDTH + 1];
    if (total > 0) {
        snprintf(line, sizeof line, "%s %3.0f%% (%.12g/%.12g)  %s", what, 100 * done / total, done, total, detail);
    } else {
        snprintf(line, sizeof line, "%s %.12g  %s", what, done, detail);
    }
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    reporter->line_open = true;
    reporter->shown_at = now;
}

static void show_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct reporter *reporter = context;
    pthread_mutex_lock(&reporter->lock);
    put_progress(reporter, what, done, total, detail);
    pthread_mutex_unlock(&reporter->lock);
}

void reporter_start(struct reporter *reporter, enum ps_log_level level, bool quiet) {
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) && kind != NULL && strcmp(kind, "dumb") != 0;
    bool plain = no_colour != NULL && no_colour[0] != '\0';
    *reporter = (struct reporter){.terminal = terminal, .colour = terminal && !plain};
    pthread_mutex_init(&reporter->lock, NULL);
    const struct ps_log_sink sink = {
        .struct_size = sizeof sink,
        .context = reporter,
        .level = quiet ? PS_LOG_ERROR : level,
        .line = show_line,
        .progress = terminal && !quiet ? show_progress : NULL,
    };
    ps_log_to(&sink, NULL);
}

void reporter_stop(struct reporter *reporter) {
    ps_log_to(NULL, NULL);
    close_line(reporter);
}
