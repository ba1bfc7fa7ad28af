/*
 * Dataset specs: "FORMAT:REST[#train|#test][@A-B]". The suffixes are cut off from the end, the format is looked up in the table
 * and opens the rest, and the shape of the dataset is checked against the shape that the network takes.
 */
#include "data/dataset.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/table.h"
#include "base/text.h"
#include "graph/network.h"

struct range {
    bool given;
    int64_t first, end;
};

/* Reads digits at *text and moves *text past them. */
static bool read_number(const char **text, int64_t *number) {
    if (!isdigit((unsigned char)**text)) return false;
    char *end;
    errno = 0;
    long long value = strtoll(*text, &end, 10);
    if (errno) return false;
    *text = end;
    *number = value;
    return true;
}

static enum ps_status cut_range(char *rest, const char *spec, struct range *range, struct ps_error *error) {
    char *at = strrchr(rest, '@');
    if (!at) return PS_OK;
    const char *text = at + 1;
    bool valid = read_number(&text, &range->first) && *text++ == '-' && read_number(&text, &range->end) && *text == '\0';
    if (!valid) {
        return error_set(error, PS_USAGE,
                         "data '%s': '%s' is not a range; @A-B at the end takes samples A to B-1, as in @0-1000", spec, at);
    }
    if (range->first >= range->end) {
        return error_set(error, PS_USAGE, "data '%s': the range %s is empty; it takes samples A to B-1, so B must be above A",
                         spec, at);
    }
    range->given = true;
    *at = '\0';
    return PS_OK;
}

static enum ps_status cut_part(char *rest, const char *spec, enum dataset_part *part, struct ps_error *error) {
    static const char *const names[] = {[DATASET_TRAIN] = "train", [DATASET_TEST] = "test"};
    char *hash = strrchr(rest, '#');
    if (!hash) return PS_OK;
    for (int i = 0; i < 2; i++) {
        if (strcmp(hash + 1, names[i]) != 0) continue;
        *part = (enum dataset_part)i;
        *hash = '\0';
        return PS_OK;
    }
    enum ps_status status = error_unknown(error, PS_USAGE, "part after '#'", hash + 1, names, 2);
    error_prefix(error, "data '%s'", spec);
    return status;
}

static TABLE_FIND(find_class, dataset_class, dataset_table, "data format")

    static enum ps_status
    find_format(const char *spec, const char *name, const struct dataset_class **class, struct ps_error *error) {
    enum ps_status status = find_class(name, class, error);
    if (status == PS_OK) return PS_OK;
    /* A path alone; files may be called as their format. */
    const struct dataset_class *guess;
    const char *dot = strrchr(spec, '.');
    const bool known = dot && find_class(dot + 1, &guess, NULL) == PS_OK;
    if (file_exists(spec))
        error_set(error, status, "data '%s': the format must stand before it, as in %s:%s", spec,
                  known ? guess->name : "FORMAT", spec);
    else
        error_prefix(error, "data '%s'", spec);
    return status;
}

static enum dataset_task network_task(const struct dataset_shape *required) {
    if (required->vocabulary == 0) return DATASET_IMAGES;
    if (!required->gives_tokens) return DATASET_LABELLED_TEXTS;
    return dataset_labels(required) < required->height ? DATASET_TRANSLATIONS : DATASET_RUNNING_TEXT;
}

static void hint_formats(enum dataset_task task, struct ps_error *error) {
    struct text names = {0};
    for (int i = 0; dataset_table[i]; i++) {
        const bool fits = dataset_table[i]->task == task || dataset_table[i]->task == DATASET_ANY;
        if (fits) text_add(&names, "%s%s", names.length > 0 ? ", " : "", dataset_table[i]->name);
    }
    if (!names.failed) error_hint(error, "data for it: %s", names.data);
    text_free(&names);
}

static enum ps_status check_task(const char *spec, enum dataset_task task, const struct dataset_shape *required,
                                 struct ps_error *error) {
    static const char *const data[] = {
        [DATASET_IMAGES] = "images",
        [DATASET_LABELLED_TEXTS] = "texts with one label each",
        [DATASET_RUNNING_TEXT] = "running text",
        [DATASET_TRANSLATIONS] = "translations",
    };
    static const char *const network[] = {
        [DATASET_IMAGES] = "reads images",
        [DATASET_LABELLED_TEXTS] = "reads texts with one label each",
        [DATASET_RUNNING_TEXT] = "reads running text",
        [DATASET_TRANSLATIONS] = "translates",
    };
    const enum dataset_task expected = network_task(required);
    if (task == DATASET_ANY || task == expected) return PS_OK;
    error_set(error, PS_USAGE, "data '%s' are %s, but the network %s", spec, data[task], network[expected]);
    hint_formats(expected, error);
    return PS_USAGE;
}

/* Fails for images if the network reads tokens, for tokens if it reads images, and for sequences of another length, vocabulary
 * or number of labels. */
static enum ps_status check_sequences(const char *spec, const struct dataset_shape *has, const struct dataset_shape *required,
                                      struct ps_error *error) {
    if ((has->vocabulary > 0) != (required->vocabulary > 0))
        return error_set(error, PS_USAGE, "data '%s' are %s, but the network reads %s", spec,
                         has->vocabulary > 0 ? "sequences of tokens" : "images", has->vocabulary > 0 ? "images" : "tokens");
    if (has->vocabulary == 0) return PS_OK;
    if (has->height != required->height) {
        return error_set(error, PS_USAGE, "data '%s' have sequences of %lld tokens, but the network takes %lld", spec,
                         (long long)has->height, (long long)required->height);
    }
    if (has->vocabulary != required->vocabulary) {
        error_set(error, PS_USAGE, "data '%s' have a vocabulary of %d tokens, but the network's is %d", spec, has->vocabulary,
                  required->vocabulary);
        error_hint(error, "give a built-in network the option vocab=%d", has->vocabulary);
        return PS_USAGE;
    }
    return PS_OK;
}

/* Whether only data that list their inputs fit. */
static bool needs_list(const struct dataset_shape *required) {
    const int rank = required->input_count > 0 ? required->inputs[0].rank : 3;
    return required->input_count > 1 || (rank != 1 && rank != 3);
}

/* "image f32 3x8x8" */
static const char *input_text(const struct ps_input *input, char text[256]) {
    int used = snprintf(text, 256, "'%.63s' %s ", input->name, input->type);
    for (int d = 0; d < input->rank; d++)
        used += snprintf(text + used, 256 - (size_t)used, "%s%lld", d > 0 ? "x" : "", (long long)input->shape[d]);
    if (input->vocabulary > 0) snprintf(text + used, 256 - (size_t)used, " of %d tokens", input->vocabulary);
    return text;
}

static bool same_sides(const struct ps_input *a, const struct ps_input *b) {
    return strcmp(a->type, b->type) == 0 && a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

static bool same_input(const struct ps_input *a, const struct ps_input *b) {
    return strcmp(a->name, b->name) == 0 && a->vocabulary == b->vocabulary && same_sides(a, b);
}

/* Classes where the loss reads numbers, or the other way. */
static enum ps_status other_target(const char *spec, const struct dataset_shape *has, const struct dataset_shape *required,
                                   struct ps_error *error) {
    if (required->classes > 0)
        return error_set(error, PS_USAGE, "data '%s' have numbers as target, but the network's loss reads labels of %d classes",
                         spec, required->classes);
    return error_set(error, PS_USAGE,
                     "data '%s' have labels of %d classes, but the network's loss reads %d number%s per sample", spec,
                     has->classes, dataset_labels(required), text_plural(dataset_labels(required)));
}

/* A format of labels, for a network whose loss reads numbers. */
static enum ps_status needs_numbers(const char *spec, const struct dataset_shape *required, struct ps_error *error) {
    char wanted[256] = "numbers";
    if (required->target) input_text(required->target, wanted);
    error_set(error, PS_USAGE, "data '%s' give labels of classes, but the network's loss reads %s", spec, wanted);
    error_hint(error, "npz:FILE, npy:DIR, safetensors:FILE and csv:FILE have targets of numbers");
    return PS_USAGE;
}

/* `has` NULL: data of a spec, with one input. */
static enum ps_status check_inputs(const char *spec, const struct dataset_shape *has, const struct dataset_shape *required,
                                   struct ps_error *error) {
    char own[256], network[256];
    const int count = has && has->inputs ? has->input_count : 1;
    if (count != required->input_count) {
        error_set(error, PS_USAGE, "data '%s' have %d input%s per sample, but the network takes %d, as %s", spec, count,
                  text_plural(count), required->input_count, input_text(&required->inputs[required->input_count - 1], network));
        error_hint(error,
                   "npz:FILE, npy:DIR and safetensors:FILE name their inputs, and so do functions of the calling program "
                   "(ps_dataset_create); reviews:FILE gives tokens, masks and segments");
        return PS_USAGE;
    }
    if (!has || !has->inputs)
        return error_set(error, PS_USAGE, "data '%s' do not list their inputs, but the network takes %s: ps_dataset_create can",
                         spec, input_text(&required->inputs[0], network));
    for (int i = 0; i < count; i++)
        if (!same_input(&has->inputs[i], &required->inputs[i]))
            return error_set(error, PS_USAGE, "data '%s': input %d is %s, but the network takes %s", spec, i,
                             input_text(&has->inputs[i], own), input_text(&required->inputs[i], network));
    return PS_OK;
}

static enum ps_status check_image(const char *spec, const struct dataset_shape *has, const struct dataset_shape *required,
                                  struct ps_error *error) {
    if (has->height != required->height || has->width != required->width || has->channels != required->channels) {
        error_set(error, PS_USAGE,
                  "data '%s' has images of %lldx%lld pixels and %lld channel%s, but the network takes %lldx%lld and %lld", spec,
                  (long long)has->height, (long long)has->width, (long long)has->channels, text_plural(has->channels),
                  (long long)required->height, (long long)required->width, (long long)required->channels);
        if (has->height == has->width) {
            error_hint(error,
                       "give a built-in network the options input=%lld,channels=%lld, if it supports such images, or choose "
                       "other data",
                       (long long)has->height, (long long)has->channels);
        }
        return PS_USAGE;
    }
    return PS_OK;
}

static enum ps_status check_fit(const char *spec, const struct dataset_shape *has, const struct dataset_shape *required,
                                struct ps_error *error) {
    char own[256], network[256];
    if (has->inputs || needs_list(required)) {
        TRY(check_inputs(spec, has, required, error));
    } else {
        TRY(check_sequences(spec, has, required, error));
        TRY(check_image(spec, has, required, error));
    }
    if (has->target && required->target && strcmp(has->target->name, required->target->name) != 0)
        return error_set(error, PS_USAGE, "data '%s' have the target '%s', but the network's loss reads '%s'", spec,
                         has->target->name, required->target->name);
    if (has->target && required->target && !same_sides(has->target, required->target))
        return error_set(error, PS_USAGE, "data '%s' have the target %s, but the network's loss reads %s", spec,
                         input_text(has->target, own), input_text(required->target, network));
    if ((has->classes > 0) != (required->classes > 0)) return other_target(spec, has, required, error);
    if (required->classes == 0 && dataset_labels(has) == dataset_labels(required)) return PS_OK;
    if (dataset_labels(has) != dataset_labels(required))
        return error_set(error, PS_USAGE, "data '%s' have %d label%s per sample, but the network's loss reads %d", spec,
                         dataset_labels(has), text_plural(dataset_labels(has)), dataset_labels(required));
    if (has->classes < 2) return error_set(error, PS_USAGE, "data '%s' has only one class; at least two are needed", spec);
    if (has->classes != required->classes) {
        error_set(error, PS_USAGE, "data '%s' has %d classes, but the network has %d", spec, has->classes, required->classes);
        error_hint(error, "give a built-in network the option classes=%d", has->classes);
        return PS_USAGE;
    }
    return PS_OK;
}

static enum ps_status check_range(const char *spec, const struct range *range, int64_t samples, struct ps_error *error) {
    if (!range->given || range->end <= samples) return PS_OK;
    return error_set(error, PS_USAGE,
                     "data '%s': the range ends at %lld, but there are %lld samples; at most @0-%lld can be taken", spec,
                     (long long)range->end, (long long)samples, (long long)samples);
}

/* What a spec says. */
struct parsed {
    char *copy; /* is split in place; to be freed */
    const struct dataset_class *class;
    const char *rest; /* what follows the format, without the range and the part */
    struct range range;
    enum dataset_part part;
};

static enum ps_status parse_copy(struct parsed *parsed, const char *spec, struct ps_error *error) {
    char *colon = strchr(parsed->copy, ':'), *rest = colon ? colon + 1 : parsed->copy + strlen(parsed->copy);
    if (colon) *colon = '\0';
    TRY(find_format(spec, parsed->copy, &parsed->class, error));
    char *slash = strrchr(rest, '/');
    TRY(cut_range(slash ? slash : rest, spec, &parsed->range, error));
    TRY(cut_part(slash ? slash : rest, spec, &parsed->part, error));
    parsed->rest = rest;
    if (*rest) return PS_OK;
    return error_set(error, PS_USAGE, "data '%s': something must follow the format, as in %s:%s", spec, parsed->class->name,
                     parsed->class->example);
}

/* `part` where the spec does not say it. */
static enum ps_status parse(const char *spec, enum dataset_part part, struct parsed *parsed, struct ps_error *error) {
    *parsed = (struct parsed){.part = part};
    TRY(memory_text(spec, strlen(spec), &parsed->copy, "a dataset spec", error));
    enum ps_status status = parse_copy(parsed, spec, error);
    if (status != PS_OK) free(parsed->copy);
    return status;
}

enum ps_status samples_check_spec(const char *spec, struct ps_error *error) {
    struct parsed parsed;
    TRY(parse(spec, DATASET_TRAIN, &parsed, error));
    free(parsed.copy);
    return PS_OK;
}

static enum ps_status open_parsed(const struct parsed *parsed, const char *spec, const struct dataset_shape *required,
                                  struct samples *samples, struct ps_error *error) {
    const struct dataset_class *class = parsed->class;
    const struct range *range = &parsed->range;
    if (needs_list(required) && !class->lists) return check_inputs(spec, NULL, required, error);
    if (required->classes == 0 && (!class->lists || class->task != DATASET_ANY)) return needs_numbers(spec, required, error);
    TRY(check_task(spec, class->task, required, error));
    struct dataset_shape one = *required;
    struct dataset *dataset;
    one.inputs = NULL;
    one.input_count = 0;
    one.target = NULL;
    TRY(class->open(parsed->rest, parsed->part, class->lists ? required : &one, &dataset, error));
    if (!dataset->class) dataset->class = class;
    enum ps_status status = check_fit(spec, &dataset->shape, required, error);
    if (status == PS_OK) status = check_range(spec, range, dataset->samples, error);
    if (status != PS_OK) {
        dataset->class->close(dataset);
        return status;
    }
    *samples = (struct samples){
        .dataset = dataset, .first = range->first, .count = range->given ? range->end - range->first : dataset->samples};
    return PS_OK;
}

enum ps_status samples_normalisation(const char *spec, int64_t channels, bool *known, struct normalisation *out,
                                     struct ps_error *error) {
    struct parsed parsed;
    TRY(parse(spec, DATASET_TRAIN, &parsed, error));
    const struct dataset_class *class = parsed.class;
    enum ps_status status = PS_OK;
    if (class->normalisation) status = class->normalisation(parsed.rest, channels, out, error);
    if (status == PS_OK) *known = class->normalisation != NULL;
    free(parsed.copy);
    return status;
}

enum ps_status samples_open(const char *spec, enum dataset_part part, const struct dataset_shape *required,
                            struct samples *samples, struct ps_error *error) {
    struct parsed parsed;
    TRY(parse(spec, part, &parsed, error));
    enum ps_status status = open_parsed(&parsed, spec, required, samples, error);
    free(parsed.copy);
    return status;
}

bool samples_have_words(const char *spec) {
    for (int i = 0; dataset_table[i]; i++) {
        const struct dataset_class *class = dataset_table[i];
        const size_t length = strlen(class->name);
        if (strncmp(spec, class->name, length) == 0 && spec[length] == ':') return class->task > DATASET_IMAGES;
    }
    return false;
}

enum ps_status samples_check(const char *name, const struct samples *samples, const struct dataset_shape *required,
                             struct ps_error *error) {
    TRY(check_task(name, samples->dataset->class->task, required, error));
    return check_fit(name, &samples->dataset->shape, required, error);
}

enum ps_status samples_count(const struct samples *samples, const float *class_weights, bool *any, struct ps_error *error) {
    const struct dataset *dataset = samples->dataset;
    const struct dataset_class *class = dataset->class;
    const size_t input_bytes = dataset_input_bytes(&dataset->shape), bytes = dataset_target_bytes(&dataset->shape);
    char *sample;
    *any = dataset->shape.classes == 0;
    TRY(memory_new(&sample, input_bytes + bytes, "a sample", error));
    enum ps_status status = PS_OK;
    for (int64_t i = samples->first; i < samples->first + samples->count && !*any && status == PS_OK; i++) {
        const int32_t *label = (const int32_t *)(const void *)(sample + input_bytes);
        status = class->target ? class->target(dataset, i, sample + input_bytes, error)
                               : class->read(dataset, i, sample, sample + input_bytes, error);
        for (size_t l = 0; l < bytes / sizeof *label && status == PS_OK; l++)
            *any = *any || (label[l] >= 0 && (!class_weights || class_weights[label[l]] > 0));
    }
    free(sample);
    return status;
}

/* The state of the checksum: a product for each eight bytes. */
static uint64_t add_word(uint64_t state, uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    return state ^ state >> 32;
}

static uint64_t add_bytes(uint64_t state, const void *bytes, size_t size) {
    const char *from = bytes;
    uint64_t word;
    for (; size >= sizeof word; from += sizeof word, size -= sizeof word) {
        memcpy(&word, from, sizeof word);
        state = add_word(state, word);
    }
    word = size;
    memcpy((char *)&word + 1, from, size);
    return add_word(state, word);
}

enum ps_status samples_checksum(const struct samples *samples, uint64_t *checksum, struct ps_error *error) {
    enum { TRACES = 1 << 18 };
    const int64_t whole_bytes = (int64_t)1 << 30, part_bytes = (int64_t)1 << 26;
    const struct dataset *dataset = samples->dataset;
    const struct dataset_class *class = dataset->class;
    *checksum = 0;
    if (class->generated || !class->open) return PS_OK;
    const size_t input_bytes = dataset_input_bytes(&dataset->shape),
                 bytes = input_bytes + dataset_target_bytes(&dataset->shape);
    int64_t most = class->trace ? TRACES : whole_bytes / (int64_t)bytes, count = samples->count;
    if (!class->trace && count > most) most = part_bytes / (int64_t)bytes;
    if (count > most) count = most > 0 ? most : 1;
    char *sample;
    TRY(memory_new(&sample, bytes, "a sample", error));
    uint64_t state = add_word(bytes, (uint64_t)samples->count);
    enum ps_status status = PS_OK;
    for (int64_t i = 0; i < count && status == PS_OK; i++) {
        const int64_t index = samples->first + i * samples->count / count;
        if (class->trace)
            state = add_word(state, class->trace(dataset, index));
        else if ((status = class->read(dataset, index, sample, sample + input_bytes, error)) == PS_OK)
            state = add_bytes(state, sample, bytes);
    }
    free(sample);
    if (status == PS_OK) *checksum = state != 0 ? state : 1;
    return status;
}

void samples_close(struct samples *samples) {
    if (samples->dataset && !samples->lent) samples->dataset->class->close(samples->dataset);
    *samples = (struct samples){0};
}

struct dataset_shape dataset_shape_of(const struct ps_network *network) {
    return (struct dataset_shape){.inputs = network->inputs,
                                  .input_count = network->graph->input_count,
                                  .target = &network->target,
                                  .channels = network->input_shape[0],
                                  .height = network->input_shape[1],
                                  .width = network->input_shape[2],
                                  .classes = network->classes,
                                  .labels = network->labels,
                                  .vocabulary = network->vocabulary,
                                  .gives_tokens = network->predicts != PREDICTS_CLASSES,
                                  .masked = network->predicts == PREDICTS_MASKED_TOKENS};
}
