/*
 * Reading a command line by tables. getopt_long does the syntax; what it does more than we want (abbreviated names) and less
 * (messages that say what would be right) is done here.
 */
#include "cli/arguments.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "cli/message.h"

enum { ROWS_MAX = 96, LONG_VALUE = 256 }; /* getopt_long returns LONG_VALUE + row for a long name, the letter for a letter */

struct reading {
    const struct argument *row[ROWS_MAX];
    char *values[ROWS_MAX];      /* the struct that the row's offset counts from */
    const char *given[ROWS_MAX]; /* the text of its value; the name of a flag; NULL: not given */
    int count;
    const struct argument_words *accepted;
    struct words *words; /* NULL: none are accepted */
};

static void collect(struct reading *reading, const struct argument_place *groups, void *values) {
    for (const struct argument_place *place = groups; place->group != NULL; place++) {
        for (size_t i = 0; i < place->group->count; i++) {
            assert(reading->count < ROWS_MAX);
            reading->row[reading->count] = &place->group->rows[i];
            reading->values[reading->count++] = (char *)values + place->offset;
        }
    }
}

static int find_name(const struct reading *reading, const char *name, size_t length) {
    for (int i = 0; i < reading->count; i++) {
        const char *own = reading->row[i]->name;
        if (strlen(own) == length && strncmp(own, name, length) == 0) return i;
    }
    return -1;
}

static int find_letter(const struct reading *reading, int letter) {
    for (int i = 0; i < reading->count; i++) {
        if (letter != 0 && reading->row[i]->letter == letter) return i;
    }
    return -1;
}

/* What other programs for training call ours. */
static const char *const elsewhere[][2] = {{"learning-rate", "lr"},       {"bf16", "precision"},  {"dtype", "precision"},
                                           {"nproc-per-node", "workers"}, {"max-steps", "steps"}, {"num-epochs", "epochs"}};

/* The option that is likely to be meant; NULL: none is. */
static const char *find_meant(const struct reading *reading, const char *name) {
    const char *names[ROWS_MAX], *begun = NULL;
    for (int i = 0; i < reading->count; i++) names[i] = reading->row[i]->name;
    for (int i = 0; i < reading->count; i++) /* what begins so */
        if (name[0] != '\0' && strncmp(names[i], name, strlen(name)) == 0) return names[i];
    for (size_t e = 0; e < sizeof elsewhere / sizeof *elsewhere; e++)
        for (int i = 0; i < reading->count && strcmp(name, elsewhere[e][0]) == 0; i++)
            if (strcmp(names[i], elsewhere[e][1]) == 0) return names[i];
    const char *nearest = nearest_name(name, names, (size_t)reading->count); /* what differs by few letters */
    if (nearest != NULL) return nearest;
    for (int i = 0; i < reading->count; i++) { /* the most that it begins with: "batch" of "batch-size" */
        const size_t length = strlen(names[i]);
        if (length > 2 && strncmp(names[i], name, length) == 0 && (begun == NULL || length > strlen(begun))) begun = names[i];
    }
    return begun;
}

/* `word` stands where an option should and is none of ours. */
static enum ps_status refuse_word(const struct reading *reading, const char *word, int letter, struct ps_error *error) {
    if (strncmp(word, "--", 2) != 0) {
        if (word[0] == '-' && word[1] != '\0') return message_set(error, PS_USAGE, "-%c: there is no such option", letter);
        return message_set(error, PS_USAGE, "'%s': an option was expected; options begin with --", word);
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *nearest = find_meant(reading, name);
    if (nearest == NULL) return message_set(error, PS_USAGE, "--%s: there is no such option", name);
    return message_set(error, PS_USAGE, "--%s: there is no such option; did you mean --%s?", name, nearest);
}

/* One option with the text of its value (NULL for a flag). */
static enum ps_status take(struct reading *reading, int index, const char *text, struct ps_error *error) {
    const struct argument *row = reading->row[index];
    void *target = reading->values[index] + row->offset;
    if (row->value == NULL) text = row->name;
    if (!row->repeats && reading->given[index] != NULL && strcmp(reading->given[index], text) != 0) {
        return message_set(error, PS_USAGE, "--%s: given twice, as '%s' and as '%s'", row->name, reading->given[index], text);
    }
    reading->given[index] = text;
    if (row->read != NULL) return row->read(row, text, target, error);
    *(bool *)target = true;
    return PS_OK;
}

/* getopt_long found fault: a word that is no option, a value where none belongs, or none where one does. */
static enum ps_status refuse(const struct reading *reading, int found, const char *word, struct ps_error *error) {
    int index = optopt >= LONG_VALUE ? optopt - LONG_VALUE : find_letter(reading, optopt);
    if (found == ':') {
        const struct argument *row = reading->row[index];
        return message_set(error, PS_USAGE, "--%s: a value is missing; give %s", row->name, row->value);
    }
    bool long_name = strncmp(word, "--", 2) == 0;
    if (long_name && optopt >= LONG_VALUE && find_name(reading, word + 2, strcspn(word + 2, "=")) == index) {
        return message_set(error, PS_USAGE, "--%s: takes no value, so '%s' cannot be", reading->row[index]->name, word);
    }
    return refuse_word(reading, word, optopt, error);
}

/* A word that is no option, where the command takes such. */
static enum ps_status take_word(struct reading *reading, const char *word, struct ps_error *error) {
    const int most = (int)(sizeof reading->words->values / sizeof reading->words->values[0]);
    if (word[0] == '\0') return message_set(error, PS_USAGE, "%s: the value is empty", reading->accepted->name);
    if (reading->words->count == most)
        return message_set(error, PS_USAGE, "'%s': more than %d of %s", word, most, reading->accepted->name);
    reading->words->values[reading->words->count++] = word;
    return PS_OK;
}

static enum ps_status read_options(struct reading *reading, int argc, char **argv, bool *help, struct ps_error *error) {
    struct option names[ROWS_MAX + 1] = {0};
    /* Stop at the first word that is no option; tell a missing value apart, and print nothing. */
    char letters[2 * ROWS_MAX + 3] = "+:";
    size_t length = 2;
    for (int i = 0; i < reading->count; i++) {
        const struct argument *row = reading->row[i];
        names[i] = (struct option){row->name, row->value != NULL ? required_argument : no_argument, NULL, LONG_VALUE + i};
        if (row->letter == 0) continue;
        letters[length++] = row->letter;
        if (row->value != NULL) letters[length++] = ':';
    }
    optind = 1;
    while (optind < argc) {
        const char *word = argv[optind];
        if (reading->words != NULL && word[0] != '-') {
            CHECK(take_word(reading, word, error));
            optind++;
            continue;
        }
        int found = getopt_long(argc, argv, letters, names, NULL);
        if (found == -1 && reading->words != NULL && strcmp(word, "--") == 0) {
            for (; optind < argc; optind++) CHECK(take_word(reading, argv[optind], error));
            return PS_OK;
        }
        if (found == -1) return refuse_word(reading, word, 0, error);
        if (found == '?' || found == ':') return refuse(reading, found, word, error);
        int index = found >= LONG_VALUE ? found - LONG_VALUE : find_letter(reading, found);
        if (found >= LONG_VALUE && find_name(reading, word + 2, strcspn(word + 2, "=")) != index) {
            return refuse_word(reading, word, 0, error); /* an abbreviation */
        }
        if (optarg != NULL && optarg == argv[optind - 1] && strncmp(optarg, "--", 2) == 0) {
            return message_set(error, PS_USAGE, "--%s: a value is missing before '%s'; give %s", reading->row[index]->name,
                               optarg, reading->row[index]->value);
        }
        if (strcmp(reading->row[index]->name, "help") == 0) {
            *help = true;
            return PS_OK;
        }
        CHECK(take(reading, index, optarg, error));
    }
    return PS_OK;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;
    if (stat(a, &first) == 0 && stat(b, &second) == 0)
        return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    while (strncmp(a, "./", 2) == 0) a += 2;
    while (strncmp(b, "./", 2) == 0) b += 2;
    return strcmp(a, b) == 0;
}

/* Is the file that row `index` says written for another option, too? */
static enum ps_status check_outputs(const struct reading *reading, int index, struct ps_error *error) {
    const struct argument *row = reading->row[index];
    for (int i = 0; i < index && row->read == argument_read_output; i++)
        if (reading->row[i]->read == argument_read_output && reading->given[i] != NULL &&
            is_same_file(reading->given[i], reading->given[index]))
            return message_set(error, PS_USAGE, "--%s and --%s: both would be written to %s; give two files",
                               reading->row[i]->name, row->name, reading->given[index]);
    return PS_OK;
}

/* Is an option given that row `index` excludes, or a required one missing? */
static enum ps_status check_together(const struct reading *reading, int index, struct ps_error *error) {
    const struct argument *row = reading->row[index];
    if (reading->given[index] == NULL) {
        if (!row->required) return PS_OK;
        return message_set(error, PS_USAGE, "--%s is missing; give --%s %s", row->name, row->name, row->value);
    }
    const char *word = row->excludes != NULL ? row->excludes : "";
    while (*word != '\0') {
        size_t length = strcspn(word, " ");
        int other = find_name(reading, word, length);
        if (other >= 0 && reading->given[other] != NULL) {
            return message_set(error, PS_USAGE, "--%s and --%s contradict each other; give one of them", row->name,
                               reading->row[other]->name);
        }
        word += length + (word[length] == ' ');
    }
    return check_outputs(reading, index, error);
}

enum ps_status arguments_read(const struct argument_place *groups, const struct argument_words *words, int argc, char **argv,
                              void *values, bool *help, struct ps_error *error) {
    struct reading reading = {.accepted = words};
    if (words->name != NULL) reading.words = (struct words *)((char *)values + words->offset);
    collect(&reading, groups, values);
    CHECK(read_options(&reading, argc, argv, help, error));
    for (int i = 0; i < reading.count && !*help; i++) CHECK(check_together(&reading, i, error));
    return PS_OK;
}
