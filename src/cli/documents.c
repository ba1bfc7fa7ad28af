/* Man pages, the reference docs/commands.md, and completions for bash, zsh and fish, written from the tables of the commands as
 * the help is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"

enum { ROWS_MAX = 128 };

/* What may stand where a value does. */
enum value { VALUE_NONE, VALUE_ANY, VALUE_WORDS, VALUE_FILE, VALUE_DIRECTORY };

struct option {
    const struct argument *row;
    enum value value;
    bool list;             /* words with commas between them */
    const char *words[64]; /* of VALUE_WORDS, and of networks */
    size_t word_count;
};

static struct option option_of(const struct argument *row) {
    struct option option = {.row = row, .value = row->value == NULL ? VALUE_NONE : VALUE_ANY};
    option.word_count = arguments_names(row, option.words, sizeof option.words / sizeof option.words[0]);
    option.list = row->read == argument_read_names;
    if (row->value == NULL) return option;
    if (option.word_count > 0) {
        option.value = VALUE_WORDS;
    } else if (strcmp(row->name, "model") == 0) { /* a network that is built in, or a file */
        option.value = VALUE_FILE;
        for (size_t i = 0; i < ps_table_count(PS_TABLE_MODELS); i++)
            option.words[option.word_count++] = ps_table_entry(PS_TABLE_MODELS, i).name;
    } else if (strstr(row->value, "DIR") != NULL) {
        option.value = VALUE_DIRECTORY;
    } else if (strstr(row->value, "FILE") != NULL || strstr(row->value, ".json") != NULL) {
        option.value = VALUE_FILE;
    }
    return option;
}

/* The options of a command, in the order of its help; at most ROWS_MAX. */
static size_t options_of(const struct command *command, struct option *options) {
    size_t count = 0;
    for (const struct argument_place *place = command->groups; place->group != NULL; place++)
        for (size_t i = 0; i < place->group->count && count < ROWS_MAX; i++)
            options[count++] = option_of(&place->group->rows[i]);
    return count;
}

/* `text` with `mark` before each of the characters of `special`, and those of `dropped` left out. */
static void put_marked(FILE *out, const char *text, const char *special, const char *mark, const char *dropped) {
    for (; *text != '\0'; text++) {
        if (strchr(dropped, *text) != NULL) continue;
        if (strchr(special, *text) != NULL) fputs(mark, out);
        fputc(*text, out);
    }
}

/* ---------------------------------------------------------------- man pages */

/* As running text, or as lines that stay. */
static void put_roff(FILE *out, const char *text) {
    bool begins = true;
    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\'')
            fputs("\\(aq", out);
        else if (*text == '`')
            fputs("\\(ga", out);
        else if (*text == '^')
            fputs("\\(ha", out);
        else if (*text == '~')
            fputs("\\(ti", out);
        else
            fputc(*text, out);
        begins = *text == '\n';
    }
}

static void put_head(FILE *out, const char *name, const char *summary) {
    fputs(".TH ", out);
    for (const char *c = name; *c != '\0'; c++) fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    fprintf(out, " 1 \"\" \"Penstock %s\" \"User Commands\"\n.SH NAME\n", ps_version());
    put_roff(out, name);
    fputs(" \\- ", out);
    put_roff(out, summary);
    fputc('\n', out);
}

static void put_status(FILE *out) {
    fputs(".SH EXIT STATUS\n", out);
#define X(name, value, text)                                                                                                   \
    if (name != PS_OUT_OF_MEMORY) fprintf(out, ".TP\n.B %d\n%s\n", value, text);
    PS_STATUS_LIST(X)
#undef X
}

static void put_option(FILE *out, const struct option *option) {
    const struct argument *row = option->row;
    char text[4096];
    fputs(".TP\n", out);
    if (row->letter != 0) fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", out);
    put_roff(out, row->name);
    fputs("\\fR", out);
    if (row->value != NULL) {
        fputs(" \\fI", out);
        put_roff(out, row->value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    command_row_text(row, text, sizeof text);
    put_roff(out, text);
    fputc('\n', out);
}

static void put_page(FILE *out, const struct command *command) {
    char name[64];
    snprintf(name, sizeof name, "penstock-%s", command->name);
    put_head(out, name, command->summary);
    fprintf(out, ".SH SYNOPSIS\n.B penstock %s\n", command->name);
    put_roff(out, command->usage);
    fputs("\n.SH DESCRIPTION\n", out);
    for (size_t i = 0; i < COMMAND_PARAGRAPHS_MAX && command->description[i] != NULL; i++) {
        if (i > 0) fputs(".PP\n", out);
        put_roff(out, command->description[i]);
        fputc('\n', out);
    }
    fputs(".SH OPTIONS\n", out);
    for (const struct argument_place *place = command->groups; place->group != NULL; place++) {
        if (place->group->title != NULL) {
            fputs(".SS ", out);
            put_roff(out, place->group->title);
            fputc('\n', out);
        }
        for (size_t i = 0; i < place->group->count; i++) {
            const struct option option = option_of(&place->group->rows[i]);
            put_option(out, &option);
        }
    }
    fputs(".SH EXAMPLES\n.nf\n", out);
    put_roff(out, command->example);
    fputs("\n.fi\n", out);
    put_status(out);
    fputs(".SH SEE ALSO\n.BR penstock (1)\n", out);
}

static void put_first_page(FILE *out, const struct command *const *commands) {
    put_head(out, "penstock", "trains neural networks as pipelines over several workers");
    fputs(".SH SYNOPSIS\n.B penstock\n.I COMMAND\n.RI [ options ]\n.SH DESCRIPTION\n"
          "Penstock profiles a network, searches for the cut into stages and for the schedule, predicts the speed and the "
          "memory\n"
          "of each worker, and trains.\n"
          ".B penstock\n.I COMMAND\n.B \\-\\-help\ntells the options of a command, as its man page does.\n.SH COMMANDS\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, ".TP\n.BR penstock\\-%s (1)\n", commands[i]->name);
        put_roff(out, commands[i]->summary);
        fputc('\n', out);
    }
    put_status(out);
    fputs(".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nno colours on a terminal\n.SH SEE ALSO\n", out);
    for (size_t i = 0; commands[i] != NULL; i++)
        fprintf(out, ".BR penstock\\-%s (1)%s\n", commands[i]->name, commands[i + 1] != NULL ? "," : "");
}

/* ----------------------------------------------------------------- Markdown */

static bool has_group(const struct command *command, const struct argument_group *group) {
    for (const struct argument_place *place = command->groups; place->group != NULL; place++)
        if (place->group == group) return true;
    return false;
}

/* Do several commands take the group, so that it is described once for all? `first` is the first of them. */
static bool is_shared(const struct command *const *commands, const struct argument_group *group, const struct command **first) {
    size_t takers = 0;
    for (size_t i = 0; commands[i] != NULL; i++)
        if (has_group(commands[i], group) && takers++ == 0) *first = commands[i];
    return takers > 1 && group->title != NULL;
}

/* A heading as links name it. */
static void put_anchor(FILE *out, const char *title) {
    for (; *title != '\0'; title++)
        fputc(*title == ' ' ? '-' : *title >= 'A' && *title <= 'Z' ? *title - 'A' + 'a' : *title, out);
}

static void put_rows(FILE *out, const struct argument_group *group) {
    for (size_t i = 0; i < group->count; i++) {
        const struct argument *row = &group->rows[i];
        char text[4096];
        fputs("| ", out);
        if (row->letter != 0) fprintf(out, "`-%c`, ", row->letter);
        fprintf(out, "`--%s%s", row->name, row->value != NULL ? " " : "");
        if (row->value != NULL) put_marked(out, row->value, "|", "\\", "");
        fputs("` | ", out);
        command_row_text(row, text, sizeof text);
        put_marked(out, text, "|*<", "\\", "");
        fputs(" |\n", out);
    }
}

static const char table_head[] = "| option | |\n| --- | --- |\n";

/* "`a`, `b` and `c` take these." */
static void put_takers(FILE *out, const struct command *const *commands, const struct argument_group *group) {
    size_t left = 0;
    for (size_t i = 0; commands[i] != NULL; i++) left += has_group(commands[i], group);
    for (size_t i = 0; commands[i] != NULL; i++)
        if (has_group(commands[i], group))
            fprintf(out, "`%s`%s", commands[i]->name, --left > 1 ? ", " : left == 1 ? " and " : " take these.\n\n");
}

static void put_section(FILE *out, const struct command *const *commands, const struct command *command) {
    fprintf(out, "## %s\n\n    penstock %s ", command->name, command->name);
    for (const char *c = command->usage; *c != '\0'; c++) {
        fputc(*c, out);
        if (*c == '\n') fputs("    ", out);
    }
    fputs("\n\n", out);
    for (size_t i = 0; i < COMMAND_PARAGRAPHS_MAX && command->description[i] != NULL; i++) {
        put_marked(out, command->description[i], "|*<", "\\", "");
        fputs("\n\n", out);
    }
    const struct command *first;
    const char *before = "And ";
    for (const struct argument_place *place = command->groups; place->group != NULL; place++) {
        const char *title = place->group->title;
        if (is_shared(commands, place->group, &first)) continue;
        if (title != NULL) fprintf(out, "%s%s%s%s", place > command->groups ? "\n" : "", title, ":\n\n", table_head);
        put_rows(out, place->group); /* without a title they go on */
    }
    fputc('\n', out);
    for (const struct argument_place *place = command->groups; place->group != NULL; place++) {
        if (!is_shared(commands, place->group, &first)) continue;
        fprintf(out, "%s[%s](#", before, place->group->title);
        put_anchor(out, place->group->title);
        fputs("-options)", out);
        before = ", ";
    }
    fputs(".\n\n", out);
    for (const char *line = command->example; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        fprintf(out, "  %.*s\n", (int)length, line); /* indented by two in the table */
        line += length + (line[length] == '\n');
    }
    fputc('\n', out);
}

static void put_reference(FILE *out, const struct command *const *commands) {
    fputs(
        "# Commands\n\nThe program writes this page from its tables of options (`penstock --documents DIR`); `penstock COMMAND "
        "--help` prints the same.\n\n| command | |\n| --- | --- |\n",
        out);
    for (size_t i = 0; commands[i] != NULL; i++)
        fprintf(out, "| [%s](#%s) | %s |\n", commands[i]->name, commands[i]->name, commands[i]->summary);
    fputs("\n| exit status | |\n| --- | --- |\n", out);
#define X(name, value, text)                                                                                                   \
    if (name != PS_OUT_OF_MEMORY) fprintf(out, "| %d | %s |\n", value, text);
    PS_STATUS_LIST(X)
#undef X
    fputc('\n', out);
    for (size_t i = 0; commands[i] != NULL; i++) put_section(out, commands, commands[i]);
    for (size_t i = 0; commands[i] != NULL; i++)
        for (const struct argument_place *place = commands[i]->groups; place->group != NULL; place++) {
            const struct command *first;
            if (!is_shared(commands, place->group, &first) || first != commands[i]) continue;
            fprintf(out, "## %s options\n\n", place->group->title);
            put_takers(out, commands, place->group);
            fputs(table_head, out);
            put_rows(out, place->group);
            fputc('\n', out);
        }
}

/* --------------------------------------------------------------------- bash */

static void put_bash(FILE *out, const struct command *const *commands) {
    struct option options[ROWS_MAX];
    fputs("# Completions of penstock for bash.\n"
          "_penstock() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} before= words= kind= list=\n"
          "    if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) fprintf(out, "%s ", commands[i]->name);
    fputs("help --help --version' -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        const size_t count = options_of(commands[i], options);
        fprintf(out, "    %s)\n        words='", commands[i]->name);
        for (size_t k = 0; k < count; k++) fprintf(out, "%s--%s", k > 0 ? " " : "", options[k].row->name);
        fputs("'\n        case $prev in\n", out);
        for (size_t k = 0; k < count; k++) {
            const struct option *option = &options[k];
            if (option->value == VALUE_NONE) continue;
            fputs("        ", out);
            if (option->row->letter != 0) fprintf(out, "-%c | ", option->row->letter);
            fprintf(out, "--%s) kind=%s", option->row->name,
                    option->value == VALUE_FILE        ? "file"
                    : option->value == VALUE_DIRECTORY ? "directory"
                                                       : "any");
            if (option->list) fputs(" list=1", out);
            for (size_t w = 0; w < option->word_count; w++) fprintf(out, "%s%s", w > 0 ? " " : " words='", option->words[w]);
            fputs(option->word_count > 0 ? "' ;;\n" : " words= ;;\n", out);
        }
        fputs("        esac\n        ;;\n", out);
    }
    fputs("    help)\n        words='", out);
    for (size_t i = 0; commands[i] != NULL; i++) fprintf(out, "%s%s", i > 0 ? " " : "", commands[i]->name);
    fputs("'\n        ;;\n    esac\n"
          "    if [ -n \"$list\" ]; then case $cur in *,*) before=${cur%,*}, cur=${cur##*,} ;; esac; fi\n"
          "    COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$cur\"))\n"
          "    case $kind in\n"
          "    file) compopt -o filenames; COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
          "    directory) compopt -o filenames; COMPREPLY+=($(compgen -d -- \"$cur\")) ;;\n"
          "    esac\n"
          "}\n"
          "complete -F _penstock penstock\n",
          out);
}

/* ---------------------------------------------------------------------- zsh */

static void put_zsh_option(FILE *out, const struct option *option) {
    const struct argument *row = option->row;
    fputs(" \\\n            ", out);
    if (row->letter != 0)
        fprintf(out, "'(-%c --%s)'{-%c%s,--%s%s}'", row->letter, row->name, row->letter, row->value != NULL ? "+" : "",
                row->name, row->value != NULL ? "=" : "");
    else
        fprintf(out, "'--%s%s", row->name, row->value != NULL ? "=" : "");
    fputc('[', out);
    put_marked(out, row->help, "[]:\\", "\\", "'");
    fputc(']', out);
    if (row->value != NULL) {
        fputc(':', out);
        put_marked(out, row->value, ":\\", "\\", "'");
        fputc(':', out);
    }
    if (option->list) {
        fputs("_values -s , value", out);
        for (size_t w = 0; w < option->word_count; w++) fprintf(out, " %s", option->words[w]);
    } else if (option->value == VALUE_WORDS) {
        for (size_t w = 0; w < option->word_count; w++) fprintf(out, "%s%s", w > 0 ? " " : "(", option->words[w]);
        fputc(')', out);
    } else if (option->word_count > 0) {
        fputs("{_penstock_models; _files}", out);
    } else if (option->value == VALUE_FILE || option->value == VALUE_DIRECTORY) {
        fputs(option->value == VALUE_FILE ? "_files" : "_files -/", out);
    }
    fputc('\'', out);
}

static void put_zsh(FILE *out, const struct command *const *commands) {
    struct option options[ROWS_MAX];
    fputs("#compdef penstock\n# Completions of penstock for zsh.\n_penstock_models() { compadd --", out);
    for (size_t i = 0; i < ps_table_count(PS_TABLE_MODELS); i++) fprintf(out, " %s", ps_table_entry(PS_TABLE_MODELS, i).name);
    fputs("; }\n_penstock() {\n    local -a commands\n    commands=(\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "        '%s:", commands[i]->name);
        put_marked(out, commands[i]->summary, ":\\", "\\", "'");
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    ((CURRENT--))\n    case $command in\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        const size_t count = options_of(commands[i], options);
        fprintf(out, "    %s)\n        _arguments -s", commands[i]->name);
        for (size_t k = 0; k < count; k++) put_zsh_option(out, &options[k]);
        fputs("\n        ;;\n", out);
    }
    fputs("    help) _describe command commands ;;\n    esac\n}\n"
          "if [ \"$funcstack[1]\" = _penstock ]; then _penstock \"$@\"; else compdef _penstock penstock; fi\n",
          out);
}

/* --------------------------------------------------------------------- fish */

static void put_fish(FILE *out, const struct command *const *commands) {
    struct option options[ROWS_MAX];
    fputs("# Completions of penstock for fish.\ncomplete -c penstock -f\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "complete -c penstock -n __fish_use_subcommand -a %s -d '", commands[i]->name);
        put_marked(out, commands[i]->summary, "'\\", "\\", "");
        fputs("'\n", out);
    }
    for (size_t i = 0; commands[i] != NULL; i++) {
        const size_t count = options_of(commands[i], options);
        for (size_t k = 0; k < count; k++) {
            const struct option *option = &options[k];
            fprintf(out, "complete -c penstock -n '__fish_seen_subcommand_from %s' -l %s", commands[i]->name,
                    option->row->name);
            if (option->row->letter != 0) fprintf(out, " -s %c", option->row->letter);
            if (option->value == VALUE_FILE) fputs(" -r -F", out);
            if (option->value == VALUE_DIRECTORY) fputs(" -x -a '(__fish_complete_directories)'", out);
            if (option->value == VALUE_ANY || option->value == VALUE_WORDS) fputs(" -x", out);
            for (size_t w = 0; w < option->word_count; w++) fprintf(out, "%s%s", w > 0 ? " " : " -a '", option->words[w]);
            fputs(option->word_count > 0 ? "' -d '" : " -d '", out);
            put_marked(out, option->row->help, "'\\", "\\", "");
            fputs("'\n", out);
        }
    }
}

/* -------------------------------------------------------------------- files */

static enum ps_status open_in(const char *directory, const char *folder, const char *name, FILE **out, char path[4096],
                              struct ps_error *error) {
    snprintf(path, 4096, "%s/%s", directory, folder);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return message_set(error, PS_IO, "%s: %s", path, strerror(errno));
    snprintf(path, 4096, "%s/%s/%s", directory, folder, name);
    *out = fopen(path, "w");
    return *out != NULL ? PS_OK : message_set(error, PS_IO, "%s: %s", path, strerror(errno));
}

static enum ps_status close_of(FILE *out, const char *path, struct ps_error *error) {
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) return message_set(error, PS_IO, "%s: cannot write", path);
    return PS_OK;
}

enum ps_status documents_write(const struct command *const *commands, const char *directory, struct ps_error *error) {
    static const struct {
        const char *folder, *name;
        void (*put)(FILE *out, const struct command *const *commands);
    } documents[] = {{"man", "penstock.1", put_first_page},
                     {"markdown", "commands.md", put_reference},
                     {"bash", "penstock", put_bash},
                     {"zsh", "_penstock", put_zsh},
                     {"fish", "penstock.fish", put_fish}};
    FILE *out;
    char path[4096], name[64];
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        CHECK(open_in(directory, documents[i].folder, documents[i].name, &out, path, error));
        documents[i].put(out, commands);
        CHECK(close_of(out, path, error));
    }
    for (size_t i = 0; commands[i] != NULL; i++) {
        snprintf(name, sizeof name, "penstock-%s.1", commands[i]->name);
        CHECK(open_in(directory, "man", name, &out, path, error));
        put_page(out, commands[i]);
        CHECK(close_of(out, path, error));
    }
    return PS_OK;
}
