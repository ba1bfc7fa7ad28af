/* The kinds of values that options take. Each reader refuses what it does not understand and says what it would accept. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"

enum { NAMES_MAX = 64, WITHOUT_UNIT = 1024 };

ARGUMENT_READER(text) {
    if (text[0] == '\0')
        return message_set(error, PS_USAGE, "--%s: the value is empty; give %s", argument->name, argument->value);
    *(const char **)target = text;
    return PS_OK;
}

ARGUMENT_READER(several) {
    struct words *list = target;
    const int most = (int)(sizeof list->values / sizeof *list->values);
    if (list->count == most) return message_set(error, PS_USAGE, "--%s: given more than %d times", argument->name, most);
    CHECK(argument_read_text(argument, text, &list->values[list->count], error));
    list->count++;
    return PS_OK;
}

/* Of flags, which have no text. */
ARGUMENT_READER(yes) {
    (void)argument, (void)text, (void)error;
    *(int *)target = 1;
    return PS_OK;
}

ARGUMENT_READER(no) {
    (void)argument, (void)text, (void)error;
    *(int *)target = 0;
    return PS_OK;
}

ARGUMENT_READER(file) { return argument_read_text(argument, strcmp(text, "-") == 0 ? OUTPUT_STANDARD : text, target, error); }

/* Files are written beside their place and renamed; what is no file (a pipe, /dev/stdout) is written where it is. */
ARGUMENT_READER(output) {
    CHECK(argument_read_file(argument, text, target, error));
    text = *(const char **)target;
    struct stat status;
    if (stat(text, &status) == 0 && S_ISDIR(status.st_mode))
        return message_set(error, PS_IO, "--%s: %s: is a directory", argument->name, text);
    if (file_can_be_written(text)) return PS_OK;
    return message_set(error, PS_IO, "--%s: %s: cannot write: %s", argument->name, text, strerror(errno));
}

size_t arguments_names(const struct argument *argument, const char **names, size_t most) {
    size_t count = 0;
    for (size_t i = 0; argument->choices != NULL && argument->choices[i] != NULL && count < most; i++) {
        names[count++] = argument->choices[i];
    }
    if (argument->read != argument_read_name && argument->read != argument_read_names) return count;
    if (argument->also != NULL) names[count++] = argument->also;
    for (size_t i = 0; i < ps_table_count(argument->table) && count < most; i++) {
        names[count++] = ps_table_entry(argument->table, i).name;
    }
    return count;
}

/* Names of schedules and policies in papers, for ours. */
static const char *canonical(const struct argument *argument, const char *text) {
    static const struct {
        enum ps_table table;
        const char *alias, *name;
    } aliases[] = {
        {PS_TABLE_SCHEDULES, "dapple", "1f1b"},      {PS_TABLE_SCHEDULES, "1f1b-sno", "1f1b"},
        {PS_TABLE_SCHEDULES, "1f1b-flush", "1f1b"},  {PS_TABLE_SCHEDULES, "pipedream", "1f1b-async"},
        {PS_TABLE_POLICIES, "vanilla", "latest"},    {PS_TABLE_POLICIES, "pipedream", "stash"},
        {PS_TABLE_POLICIES, "pipedream-2bw", "2bw"},
    };
    const bool names = argument->read == argument_read_name || argument->read == argument_read_names;
    for (size_t a = 0; names && a < sizeof aliases / sizeof *aliases; a++)
        if (aliases[a].table == argument->table && strcasecmp(text, aliases[a].alias) == 0) return aliases[a].name;
    return text;
}

/* Which of the row's names `text` is. */
static enum ps_status find_name(const struct argument *argument, const char *text, size_t *index, struct ps_error *error) {
    const char *names[NAMES_MAX];
    size_t count = arguments_names(argument, names, NAMES_MAX);
    char list[512] = "";
    text = canonical(argument, text);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *index = i;
            return PS_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *nearest = nearest_name(text, names, count);
    if (nearest != NULL) {
        message_set(error, PS_USAGE, "--%s: '%s' is not known; did you mean '%s'?", argument->name, text, nearest);
    } else {
        message_set(error, PS_USAGE, "--%s: '%s' is not known", argument->name, text);
    }
    message_hint(error, "accepted: %s", list);
    return PS_USAGE;
}

ARGUMENT_READER(name) {
    size_t index;
    const char *names[NAMES_MAX];
    CHECK(find_name(argument, text, &index, error));
    arguments_names(argument, names, NAMES_MAX);
    *(const char **)target = names[index];
    return PS_OK;
}

ARGUMENT_READER(choice) {
    size_t index;
    CHECK(find_name(argument, text, &index, error));
    *(int *)target = (int)index;
    return PS_OK;
}

static enum ps_status out_of_range(const struct argument *argument, const char *text, struct ps_error *error) {
    if (!isfinite(argument->high)) {
        return message_set(error, PS_USAGE, "--%s: '%s' is out of range; accepted: %.12g or more", argument->name, text,
                           argument->low);
    }
    return message_set(error, PS_USAGE, "--%s: '%s' is out of range; accepted: %.12g to %.12g", argument->name, text,
                       argument->low, argument->high);
}

/* The integer at `text` up to `end`, in the row's range. */
static enum ps_status integer_part(const struct argument *argument, const char *text, const char *end, int *value,
                                   struct ps_error *error) {
    char part[32], *rest;
    snprintf(part, sizeof part, "%.*s", (int)(end - text), text);
    errno = 0;
    long number = strtol(part, &rest, 10);
    if (rest == part || *rest != '\0' || strchr(" \t", part[0]) != NULL || end - text >= (long)sizeof part) {
        return message_set(error, PS_USAGE, "--%s: '%.*s' is not a whole number; accepted: %.12g to %.12g", argument->name,
                           (int)(end - text), text, argument->low, argument->high);
    }
    if (errno != 0 || (double)number < argument->low || (double)number > argument->high)
        return out_of_range(argument, part, error);
    *value = (int)number;
    return PS_OK;
}

ARGUMENT_READER(integer) { return integer_part(argument, text, text + strlen(text), target, error); }

ARGUMENT_READER(integers) {
    struct integers list = {.count = 0};
    for (const char *part = text;; part++) {
        const char *end = part + strcspn(part, ",");
        if (list.count == (int)(sizeof list.values / sizeof list.values[0])) {
            return message_set(error, PS_USAGE, "--%s: more than %d numbers", argument->name, list.count);
        }
        CHECK(integer_part(argument, part, end, &list.values[list.count++], error));
        part = end;
        if (*part == '\0') break;
    }
    *(struct integers *)target = list;
    return PS_OK;
}

ARGUMENT_READER(seed) {
    char *rest;
    errno = 0;
    unsigned long long number = strtoull(text, &rest, 10);
    if (rest == text || *rest != '\0' || errno != 0 || strchr("+- \t", text[0]) != NULL) {
        return message_set(error, PS_USAGE, "--%s: '%s' is not a seed; accepted: 0 to %llu", argument->name, text,
                           (unsigned long long)UINT64_MAX);
    }
    *(uint64_t *)target = number;
    return PS_OK;
}

static enum ps_status number_part(const struct argument *argument, const char *text, char stop, double *value, const char **end,
                                  struct ps_error *error) {
    char *rest;
    double number = strtod(text, &rest);
    if (rest == text || *rest != stop || !isfinite(number) || strchr(" \t", text[0]) != NULL) {
        return message_set(error, PS_USAGE, "--%s: '%s' is not understood; give %s, as a decimal fraction or with an exponent",
                           argument->name, text, argument->value);
    }
    if (number < argument->low || number > argument->high) return out_of_range(argument, text, error);
    *value = number;
    *end = rest;
    return PS_OK;
}

ARGUMENT_READER(number) {
    const char *end;
    return number_part(argument, text, '\0', target, &end, error);
}

ARGUMENT_READER(numbers) {
    struct numbers *list = target;
    enum { MOST = sizeof list->values / sizeof list->values[0] };
    list->count = 0;
    for (const char *part = text;; part++) {
        const char *comma = strchr(part, ',');
        double value;
        if (list->count == MOST) return message_set(error, PS_USAGE, "--%s: more than %d numbers", argument->name, MOST);
        CHECK(number_part(argument, part, comma != NULL ? ',' : '\0', &value, &part, error));
        list->values[list->count++] = (float)value;
        if (comma == NULL) return PS_OK;
    }
}

ARGUMENT_READER(betas) {
    struct betas betas;
    const char *end;
    CHECK(number_part(argument, text, ',', &betas.first, &end, error));
    CHECK(number_part(argument, end + 1, '\0', &betas.second, &end, error));
    *(struct betas *)target = betas;
    return PS_OK;
}

static const char *long_name(const struct argument *argument, char out[64]) {
    snprintf(out, 64, "--%s", argument->name);
    return out;
}

ARGUMENT_READER(size) {
    char name[64];
    int64_t bytes;
    CHECK(units_parse_size(text, long_name(argument, name), &bytes, error));
    if ((double)bytes < argument->low) return out_of_range(argument, text, error);
    /* Whoever writes 12 means gigabytes. */
    if (bytes < WITHOUT_UNIT && text[strspn(text, "0123456789")] == '\0')
        return message_set(error, PS_USAGE, "--%s: '%s' is so many bytes; add a unit, as in %sGiB", argument->name, text, text);
    *(int64_t *)target = bytes;
    return PS_OK;
}

ARGUMENT_READER(rate) {
    char name[64];
    double rate;
    CHECK(units_parse_rate(text, long_name(argument, name), &rate, error));
    if (rate <= argument->low)
        return message_set(error, PS_USAGE, "--%s: '%s' is no rate; it must be above 0", argument->name, text);
    *(double *)target = rate;
    return PS_OK;
}

ARGUMENT_READER(time) {
    char name[64];
    return units_parse_time(text, long_name(argument, name), target, error);
}

/* Gives each part of a list to `take`, which puts it at *target's place `index`. */
static enum ps_status read_list(const struct argument *argument, const char *text, void *target, size_t most,
                                enum ps_status (*take)(const struct argument *argument, const char *part, void *target,
                                                       size_t index, struct ps_error *error),
                                struct ps_error *error) {
    size_t count = 0;
    for (const char *part = text;; part++) {
        char word[256];
        size_t length = strcspn(part, ",");
        if (count == most) return message_set(error, PS_USAGE, "--%s: more than %zu values", argument->name, most);
        if (length == 0) return message_set(error, PS_USAGE, "--%s: a value in '%s' is empty", argument->name, text);
        snprintf(word, sizeof word, "%.*s", (int)length, part);
        CHECK(take(argument, word, target, count++, error));
        part += length;
        if (*part == '\0') return PS_OK;
    }
}

static enum ps_status take_name(const struct argument *argument, const char *part, void *target, size_t place,
                                struct ps_error *error) {
    struct names *list = target;
    const char *names[NAMES_MAX];
    size_t index;
    CHECK(find_name(argument, part, &index, error));
    arguments_names(argument, names, NAMES_MAX);
    list->values[place] = names[index];
    list->count = (int)place + 1;
    return PS_OK;
}

static enum ps_status take_text(const struct argument *argument, const char *part, void *target, size_t place,
                                struct ps_error *error) {
    struct texts *list = target;
    if (strlen(part) >= sizeof list->texts[place])
        return message_set(error, PS_USAGE, "--%s: '%.40s...' is too long", argument->name, part);
    strcpy(list->texts[place], part);
    list->values[place] = list->texts[place];
    list->count = (int)place + 1;
    return PS_OK;
}

static enum ps_status take_size(const struct argument *argument, const char *part, void *target, size_t place,
                                struct ps_error *error) {
    struct sizes *list = target;
    CHECK(argument_read_size(argument, part, &list->values[place], error));
    snprintf(list->texts[place], sizeof list->texts[place], "%s", part);
    list->names[place] = list->texts[place];
    list->count = (int)place + 1;
    return PS_OK;
}

static enum ps_status take_rate(const struct argument *argument, const char *part, void *target, size_t place,
                                struct ps_error *error) {
    struct rates *list = target;
    CHECK(argument_read_rate(argument, part, &list->values[place], error));
    snprintf(list->texts[place], sizeof list->texts[place], "%s", part);
    list->names[place] = list->texts[place];
    list->count = (int)place + 1;
    return PS_OK;
}

ARGUMENT_READER(names) { return read_list(argument, text, target, 32, take_name, error); }
ARGUMENT_READER(texts) { return read_list(argument, text, target, 16, take_text, error); }
ARGUMENT_READER(sizes) { return read_list(argument, text, target, 32, take_size, error); }
ARGUMENT_READER(rates) { return read_list(argument, text, target, 32, take_rate, error); }
