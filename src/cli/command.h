/* Commands: one file each, one `const struct command` each, one line in main.c's table. */
#ifndef PENSTOCK_CLI_COMMAND_H
#define PENSTOCK_CLI_COMMAND_H

#include "cli/arguments.h"
#include "cli/message.h"

enum { COMMAND_GROUPS_MAX = 14, COMMAND_PARAGRAPHS_MAX = 3 };

struct command {
    const char *name, *summary;
    const char *usage;                               /* what follows "penstock NAME" in the first line of the help */
    const char *description[COMMAND_PARAGRAPHS_MAX]; /* paragraphs; the help breaks them into lines */
    const char *example;                             /* lines to type */
    size_t size;                                     /* of the struct that holds its arguments */
    /* The groups of options it takes and where in that struct each group's own struct lies. */
    struct argument_place groups[COMMAND_GROUPS_MAX];
    struct argument_words words;       /* that are no options */
    void (*defaults)(void *arguments); /* the struct is all zeros before; NULL: it stays so */
    bool every_rank;                   /* under a launcher each process runs it; else the first does, and the others end */
    enum ps_status (*run)(const void *arguments, struct ps_error *error);
};

/* What every command takes; its struct is the first member of each command's. */
struct common_arguments {
    bool json, quiet, help;
    int log_level; /* enum ps_log_level */
    int argc;      /* the command's name and what follows it, as given */
    char **argv;
};

extern const struct argument_group common_group;

/* Puts `penstock COMMAND --help` on standard output. */
void command_print_help(const struct command *command);
/* What the help says of an option: its text, the names that it takes, its range. */
void command_row_text(const struct argument *row, char *out, size_t size);
/* Writes into a directory, which is there, man pages (man/), docs/commands.md (markdown/) and completions (bash/, zsh/, fish/)
 * of these commands, a list that NULL ends; `penstock --documents DIR`, which the build calls. */
enum ps_status documents_write(const struct command *const *commands, const char *directory, struct ps_error *error);

#endif
