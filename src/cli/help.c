/* The help of a command, written from its tables: what is not in a row is not in the help, and the other way round. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

enum { HELP_WIDTH = 100, HELP_INDENT = 28, RANGE_WORTH_TELLING = 10000 };

static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};

#define OF(member) offsetof(struct common_arguments, member)

static const struct argument common_rows[] = {
    FLAG("json", 0, json, "one JSON document on standard output and nothing else"),
    FLAG("quiet", 'q', quiet, "only errors on standard error", .excludes = "log-level"),
    OPTION("log-level", 0, "LEVEL", choice, log_level, "what is logged to standard error", .choices = level_names),
    FLAG("help", 'h', help, "this text"),
};
const struct argument_group common_group = ARGUMENT_GROUP("Common", common_rows);

/* Text that goes on at `column` and is broken into lines indented by `indent`. */
static void put_wrapped(const char *text, size_t indent, size_t *column) {
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (*column > indent && *column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", (int)indent, "");
            *column = indent;
        } else if (*column > indent) {
            putchar(' ');
            ++*column;
        }
        printf("%.*s", (int)length, text);
        *column += length;
        text += length;
        while (*text == ' ') text++;
    }
}

void command_row_text(const struct argument *row, char *out, size_t size) {
    const char *names[64];
    const size_t count = arguments_names(row, names, sizeof names / sizeof names[0]);
    size_t used = (size_t)snprintf(out, size, "%s", row->help);
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s%s", i == 0 ? " (" : " ", names[i], i + 1 < count ? "," : ")");
    if ((row->read == argument_read_integer || row->read == argument_read_integers) && row->high <= RANGE_WORTH_TELLING &&
        used < size)
        snprintf(out + used, size - used, " (%.12g to %.12g)", row->low, row->high);
}

static void put_row(const struct argument *row) {
    char letter[8] = "    ", head[128];
    if (row->letter != 0) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(head, sizeof head, "  %s--%s%s%s", letter, row->name, row->value != NULL ? " " : "",
             row->value != NULL ? row->value : "");
    size_t column = HELP_INDENT;
    if (printf("%-*s", HELP_INDENT - 1, head) < HELP_INDENT)
        putchar(' ');
    else
        printf("\n%*s", HELP_INDENT, "");
    char text[4096];
    command_row_text(row, text, sizeof text);
    put_wrapped(text, HELP_INDENT, &column);
    putchar('\n');
}

void command_print_help(const struct command *command) {
    size_t column = 0;
    printf("penstock %s: %s\n\nUsage: penstock %s %s\n", command->name, command->summary, command->name, command->usage);
    for (size_t i = 0; i < COMMAND_PARAGRAPHS_MAX && command->description[i] != NULL; i++, column = 0) {
        printf("\n");
        put_wrapped(command->description[i], 0, &column);
        printf("\n");
    }
    for (const struct argument_place *place = command->groups; place->group != NULL; place++) {
        if (place->group->title != NULL) printf("\n%s:\n", place->group->title);
        for (size_t i = 0; i < place->group->count; i++) put_row(&place->group->rows[i]);
    }
    printf("\nExample:\n%s\n", command->example);
}
