/* Standard output. Errors of writing are checked once, at the end. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/message.h"

bool output_is_taken(const char *path) { return path != NULL && strcmp(path, OUTPUT_STANDARD) == 0; }

enum ps_status output_text(char *text, struct ps_error *error) {
    if (text == NULL) return message_set(error, PS_FAILED, "out of memory while writing the result");
    fputs(text, stdout);
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] != '\n') putchar('\n');
    free(text);
    return PS_OK;
}

void output_json_string(const char *text) {
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c == '\n') {
            fputs("\\n", stdout);
        } else if (c < ' ') {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

void output_json_number(double number) {
    if (isfinite(number)) {
        printf("%.17g", number);
    } else {
        fputs("null", stdout);
    }
}

void output_json_integers(const int64_t *values, int count) {
    putchar('[');
    for (int i = 0; i < count; i++) printf("%s%" PRId64, i > 0 ? ", " : "", values[i]);
    putchar(']');
}

int output_columns(void) {
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 100;
}

bool output_colour(void) {
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind != NULL && strcmp(kind, "dumb") != 0 && (no_colour == NULL || *no_colour == '\0');
}

void output_prepare(void) {
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        /* Opened for the wrong direction, so that using it fails like a closed one; `i` is the lowest free number. */
        if (fcntl(i, F_GETFD) == -1) (void)open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* As `head` does, who has what they wanted. */
static bool reader_is_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

enum ps_status output_finish(struct ps_error *error) {
    bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (!failed || reader_is_gone()) return PS_OK;
    return message_set(error, PS_IO, "standard output: %s", errno != 0 ? strerror(errno) : "writing failed");
}
