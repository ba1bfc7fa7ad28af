/* Errors, log lines and progress. Only terminals get colours, which NO_COLOR disables, and a progress line that is drawn again.
 */
#include "cli/message.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
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
    {"path", "output"},       {"keep_best", "keep best"},
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

/* Waits until standard error takes a line, so that no write blocks; false: a stop was requested, and nobody reads. */
static bool can_write(void) {
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready;
    do ready = poll(&error, 1, 100);
    while (ready == 0 ? !stop_requested() : ready < 0 && errno == EINTR);
    return ready != 0; /* what cannot be polled is written to */
}

void message_print(const struct ps_error *error) {
    char line[sizeof error->message];
    memcpy(line, error->message, sizeof line);
    utf8_clean(line, ' '); /* a file's name may contain any characters; the message is one line */
    if (!can_write()) return;
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
    char *own = message_text_options(strdup(text));
    const char *shown = own != NULL ? own : text;
    pthread_mutex_lock(&reporter->lock);
    const bool taken = can_write();
    if (taken) close_line(reporter);
    if (taken && reporter->colour) {
        fprintf(stderr, "\033[%sm%s:\033[0m %s\n", levels[level].colour, levels[level].name, shown);
    } else if (taken) {
        fprintf(stderr, "%s: %s\n", levels[level].name, shown);
    }
    pthread_mutex_unlock(&reporter->lock);
    free(own);
}

/* "1:02:03" */
static const char *duration_text(double seconds, char out[32]) {
    const long all = (long)seconds, hours = all / 3600, minutes = all / 60 % 60;
    if (hours > 0)
        snprintf(out, 32, "%ld:%02ld:%02ld", hours, minutes, all % 60);
    else
        snprintf(out, 32, "%ld:%02ld", minutes, all % 60);
    return out;
}

/* What is done anew is timed from its first report on. */
static void time_progress(struct reporter *reporter, const char *what, double done, double now) {
    if (strcmp(reporter->what, what) == 0 && done >= reporter->done) {
        reporter->done = done;
        return;
    }
    snprintf(reporter->what, sizeof reporter->what, "%s", what);
    reporter->began_at = reporter->shown_at = now;
    reporter->began_with = reporter->done = done;
}

static int terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* One line, drawn again ten times a second; where there is no terminal, a line every half minute. */
static void put_progress(struct reporter *reporter, const char *what, double done, double total, const char *detail) {
    const double now = seconds_now(), interval = reporter->terminal ? 0.1 : 30;
    char line[512], elapsed[32], left[32];
    time_progress(reporter, what, done, now);
    if (done >= total && total > 0) {
        close_line(reporter);
        reporter->what[0] = '\0';
        return;
    }
    if ((reporter->line_open || !reporter->terminal) && now - reporter->shown_at < interval) return;
    const double seconds = now - reporter->began_at, since = done - reporter->began_with;
    size_t used = 0;
    if (total > 0)
        used = (size_t)snprintf(line, sizeof line, "%s %3.0f%% (%.0f/%.0f)", what, 100 * done / total, floor(done), total);
    else
        used = (size_t)snprintf(line, sizeof line, "%s %.0f", what, floor(done));
    /* A narrow terminal shows the time rather than the detail. */
    used += (size_t)snprintf(line + used, sizeof line - used, "  %s", duration_text(seconds, elapsed));
    if (total > 0 && since > 0 && used < sizeof line)
        used += (size_t)snprintf(line + used, sizeof line - used, ", %s left",
                                 duration_text(seconds * (total - done) / since, left));
    if (*detail != '\0' && used < sizeof line) snprintf(line + used, sizeof line - used, "  %s", detail);
    if (reporter->terminal)
        fprintf(stderr, "\r%.*s\033[K", terminal_columns() - 1, line);
    else
        fprintf(stderr, "info: %s\n", line);
    fflush(stderr);
    reporter->line_open = reporter->terminal;
    reporter->shown_at = now;
}

static void show_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct reporter *reporter = context;
    pthread_mutex_lock(&reporter->lock);
    if (can_write()) put_progress(reporter, what, done, total, detail);
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
        .progress = quiet ? NULL : show_progress,
    };
    ps_log_to(&sink, NULL);
}

void reporter_stop(struct reporter *reporter) {
    ps_log_to(NULL, NULL);
    close_line(reporter);
}
