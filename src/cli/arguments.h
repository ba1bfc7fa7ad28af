/*
 * The options of a command, as tables. A row says what an option is called, which values it takes and where its value goes;
 * parsing (getopt_long), all checks and the help text come from the rows. Options that several commands share stand in a
 * group, with a struct of its own that those commands embed.
 */
#ifndef PENSTOCK_CLI_ARGUMENTS_H
#define PENSTOCK_CLI_ARGUMENTS_H

#include <penstock.h>

struct argument {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* what the help calls its value; NULL: a flag */
    const char *help;
    size_t offset; /* of the value in the group's struct */
    /* Reads a value into *target; one of argument_read_*. Of a flag NULL, and the target a bool that becomes true, or yes or
     * no, and it is an int. */
    enum ps_status (*read)(const struct argument *argument, const char *text, void *target, struct ps_error *error);
    double low, high;           /* the range of a number, both ends accepted */
    enum ps_table table;        /* argument_read_name: where the names stand */
    const char *also;           /* argument_read_name: one more that is accepted */
    const char *const *choices; /* argument_read_choice: NULL-terminated */
    bool required, repeats;     /* repeats: may be given several times, each a further value */
    const char *excludes;       /* names of options that contradict it, separated by spaces */
};

/* Their targets: const char *, const char * (a file; "-" becomes OUTPUT_STANDARD), const char * (likewise, and PS_IO where it
 * cannot be written, before the work and not after it), const char *, int (the index), int, uint64_t, double, int64_t, double,
 * double, struct integers, struct numbers, struct words (one more each time), struct betas, struct names, struct texts, struct
 * sizes, struct rates, int (1), int (0). Lists are separated by commas. */
#define ARGUMENT_READER(kind)                                                                                                  \
    enum ps_status argument_read_##kind(const struct argument *argument, const char *text, void *target, struct ps_error *error)
ARGUMENT_READER(text);
ARGUMENT_READER(file);
ARGUMENT_READER(output);
ARGUMENT_READER(name);
ARGUMENT_READER(choice);
ARGUMENT_READER(integer);
ARGUMENT_READER(seed);
ARGUMENT_READER(number);
ARGUMENT_READER(size);
ARGUMENT_READER(rate);
ARGUMENT_READER(time);
ARGUMENT_READER(integers);
ARGUMENT_READER(numbers);
ARGUMENT_READER(several);
ARGUMENT_READER(betas);
ARGUMENT_READER(names);
ARGUMENT_READER(texts);
ARGUMENT_READER(sizes);
ARGUMENT_READER(rates);
ARGUMENT_READER(yes);
ARGUMENT_READER(no);

/* A row: OPTION(name, letter or 0, what the help calls its value, kind of value, target, help, other fields of the row...), or
 * a flag's without value and kind. The target is a member of the group's struct, which OF(member) gives the offset of: each
 * file says so of its own struct. */
#define OPTION(long_name, short_name, shown, kind, target, ...)                                                                \
    {                                                                                                                          \
        .name = long_name, .letter = short_name, .value = shown, .read = argument_read_##kind, .offset = OF(target),           \
        .help = __VA_ARGS__                                                                                                    \
    }
#define FLAG(long_name, short_name, target, ...)                                                                               \
    { .name = long_name, .letter = short_name, .offset = OF(target), .help = __VA_ARGS__ }
/* One whose target is an int, -1 where nothing is said; `kind` is yes or no. */
#define SWITCH(long_name, kind, target, ...)                                                                                   \
    { .name = long_name, .read = argument_read_##kind, .offset = OF(target), .help = __VA_ARGS__ }
#define RANGE(least, most) .low = least, .high = most
/* Of several commands. */
#define OPTION_DEVICE(target) OPTION("device", 0, "NAME", name, target, "what computes", .table = PS_TABLE_DEVICES)
#define OPTION_THREADS(target, help) OPTION("threads", 0, "N", integer, target, help, RANGE(1, 1024))

struct integers {
    int values[32], count;
};

struct numbers {
    float values[1024];
    int count;
};

struct names {
    const char *values[32]; /* the row's own */
    int count;
};

struct words {
    const char *values[32];
    int count;
};

struct texts {
    char texts[16][64];
    const char *values[16];
    int count;
};

/* With what was written, for tables. */
struct sizes {
    int64_t values[32];
    char texts[32][32];
    const char *names[32];
    int count;
};

struct rates {
    double values[32];
    char texts[32][32];
    const char *names[32];
    int count;
};

struct betas {
    double first, second;
};

struct argument_group {
    const char *title; /* its heading in the help */
    const struct argument *rows;
    size_t count;
};

#define ARGUMENT_GROUP(title, rows)                                                                                            \
    { title, rows, sizeof(rows) / sizeof((rows)[0]) }

/* Words that are no options, where a command takes some: what the messages call one, and where its struct words lies. */
struct argument_words {
    const char *name; /* NULL: it takes none */
    size_t offset;
};
/* A group, and where its struct lies in the command's. `group` NULL ends a list. */
struct argument_place {
    const struct argument_group *group;
    size_t offset;
};

/* The names that a row accepts, at most `most` of them; none where any value may stand. */
size_t arguments_names(const struct argument *argument, const char **names, size_t most);

/*
 * Reads argv[1..argc-1] into *values. Words that are no options may stand between them and after "--". PS_USAGE where an option
 * is not known (offering the nearest), is given twice with unlike values, contradicts another, lacks its value, has one out of
 * range, or is missing though required. Nothing is checked beyond the first `--help` or `-h`: *help becomes true.
 */
enum ps_status arguments_read(const struct argument_place *groups, const struct argument_words *words, int argc, char **argv,
                              void *values, bool *help, struct ps_error *error);

#endif
