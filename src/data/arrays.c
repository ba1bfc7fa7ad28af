/*
 * Arrays of numbers as data: npz:FILE, npy:DIR, safetensors:FILE, whose arrays have the names of the network's inputs and of
 * its target, and csv:FILE, whose columns are features and targets.
 *
 * The first side of an array counts the samples; behind it stand the sides of a sample as PyTorch has them (C, H, W). Sides of
 * 1 may be missing or too many. Features of positions may also stand as T, D, and channels last. Files are mapped, and a sample
 * is converted when it is read; what is compressed is unpacked when the data are opened.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/npz.h"
#include "graph/operator.h"

#define CSV_LIMIT ((size_t)1 << 32)
enum { FILES_MAX = GRAPH_INPUTS_MAX + 1, COLUMNS_MAX = 1 << 20, TARGETS_MAX = 4096, IGNORED = -100 /* PyTorch's, as -1 */ };

/* One of the inputs, or the target. */
struct source {
    struct array array;
    int64_t each;     /* elements of a sample */
    int64_t channels; /* which stand first in the file and last in a sample; 1: both have the same order */
    bool whole;       /* i32 */
    int least, most;  /* accepted; most -1: any numbers */
};

struct array_dataset {
    struct dataset dataset; /* first */
    struct arena arena;
    const char *path;
    struct npz *files[FILES_MAX];
    int file_count;
    struct safetensors tensors;
    struct ps_input inputs[GRAPH_INPUTS_MAX], target; /* the dataset's, with names of our own */
    struct source source[GRAPH_INPUTS_MAX], labels;
    int64_t stride;      /* elements from sample to sample of a stream of tokens; 0: samples stand along the first side */
    const char *counted; /* the array whose samples were counted */
    bool follows;        /* labels are the next tokens: there are none in the file */
};

/* ------------------------------------------------------------------ samples */

static enum ps_status read_integers(const struct array_dataset *data, const struct array *array, int64_t first, int64_t count,
                                    int32_t *to, struct ps_error *error) {
    const enum ps_status status = array_integers(array, first, count, to, error);
    if (status != PS_OK) error_prefix(error, "%s", data->path);
    return status;
}

static enum ps_status read_source(const struct array_dataset *data, const struct source *source, int64_t index, void *to,
                                  struct ps_error *error) {
    const int64_t stride = data->stride > 0 ? data->stride : source->each, first = index * stride;
    enum { PIECE = 512 };
    float piece[PIECE], *numbers = to;
    int32_t *labels = to;
    if (source->whole) {
        TRY(read_integers(data, &source->array, first, source->each, labels, error));
        for (int64_t i = 0; i < source->each && source->most >= 0; i++) {
            if (labels[i] == IGNORED && source->least < 0) labels[i] = -1;
            if (labels[i] < source->least || labels[i] > source->most)
                return error_set(error, PS_BAD_INPUT,
                                 "%s: array '%.100s': sample %lld has the number %d, which is not from %d to %d", data->path,
                                 source->array.name, (long long)index, labels[i], source->least, source->most);
        }
        return PS_OK;
    }
    if (source->channels == 1) {
        array_floats(&source->array, first, source->each, numbers);
        return PS_OK;
    }
    const int64_t area = source->each / source->channels;
    for (int64_t c = 0; c < source->channels; c++)
        for (int64_t done = 0; done < area; done += PIECE) {
            const int64_t count = area - done < PIECE ? area - done : PIECE;
            array_floats(&source->array, first + c * area + done, count, piece);
            for (int64_t i = 0; i < count; i++) numbers[(done + i) * source->channels + c] = piece[i];
        }
    return PS_OK;
}

static enum ps_status read_target(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    const struct array_dataset *data = (const struct array_dataset *)dataset;
    if (dataset->shape.unlabelled) {
        memset(target, -1, dataset_target_bytes(&dataset->shape));
        return PS_OK;
    }
    if (!data->follows) return read_source(data, &data->labels, index, target, error);
    const struct source *tokens = &data->source[0];
    int32_t *labels = target;
    const int64_t length = tokens->each, first = index * (data->stride > 0 ? data->stride : length);
    TRY(read_integers(data, &tokens->array, first + 1, length - 1, labels, error));
    labels[length - 1] = -1;
    return data->stride > 0 ? read_integers(data, &tokens->array, first + length, 1, labels + length - 1, error) : PS_OK;
}

static enum ps_status read_arrays(const struct dataset *dataset, int64_t index, void *input, void *target,
                                  struct ps_error *error) {
    const struct array_dataset *data = (const struct array_dataset *)dataset;
    char *to = input;
    for (int i = 0; i < dataset->shape.input_count; i++) {
        TRY(read_source(data, &data->source[i], index, to, error));
        to += data->source[i].each * (int64_t)sizeof(float);
    }
    return read_target(dataset, index, target, error);
}

static void close_arrays(struct dataset *dataset) {
    struct array_dataset *data = (struct array_dataset *)dataset;
    for (int f = 0; f < data->file_count; f++) npz_close(data->files[f]);
    safetensors_free(&data->tensors);
    arena_release(&data->arena);
    free(data);
}

/* ---------------------------------------------------------------- fitting */

/* Are sides [from, rank) of the array, without those of 1, the wanted ones, without those of 1? */
static bool same_sides(const struct array *array, int from, const int64_t *wanted, int count) {
    int a = from, w = 0;
    for (;;) {
        while (a < array->rank && array->shape[a] == 1) a++;
        while (w < count && wanted[w] == 1) w++;
        if (a == array->rank || w == count) return a == array->rank && w == count;
        if (array->shape[a++] != wanted[w++]) return false;
    }
}

static enum ps_status does_not_fit(const struct array_dataset *data, const struct array *array, const struct ps_input *wanted,
                                   struct ps_error *error) {
    char has[ARRAY_RANK_MAX * 21], sides[160] = "";
    for (int d = 0, used = 0; d < wanted->rank; d++)
        used += snprintf(sides + used, sizeof sides - (size_t)used, "%s%lld", d > 0 ? "x" : "", (long long)wanted->shape[d]);
    return error_set(error, PS_USAGE, "%s: array '%.100s' is %s, but the network takes '%.63s' of %s for each sample",
                     data->path, array->name, array_shape_text(array, has), wanted->name, sides);
}

static bool same_shape(const struct array *array, const struct ps_input *wanted) {
    return array->rank == wanted->rank + 1 &&
           memcmp(array->shape + 1, wanted->shape, (size_t)wanted->rank * sizeof *wanted->shape) == 0;
}

/* What of the array a value of the network is made of. Numbers along positions stand as they are in a sample, T, D, where that
 * fits and the array has not all of PyTorch's sides; else the first side moves to the end. */
static enum ps_status fit(struct array_dataset *data, const struct array *array, const struct ps_input *wanted, bool target,
                          struct source *source, struct ps_error *error) {
    const bool labels = target && wanted->vocabulary > 0, positions = wanted->rank == 3 && wanted->shape[2] == 1;
    int64_t last[6];
    for (int d = 1; d < wanted->rank; d++) last[d - 1] = wanted->shape[d];
    last[wanted->rank - 1] = wanted->shape[0];
    *source = (struct source){.array = *array,
                              .each = input_elements(wanted),
                              .channels = 1,
                              .whole = strcmp(wanted->type, number_types[TYPE_I32].name) == 0,
                              .least = labels ? -1 : 0,
                              .most = wanted->vocabulary > 0 ? wanted->vocabulary - 1 : -1};
    if (array->rank < 1) return does_not_fit(data, array, wanted, error);
    const bool as_pytorch = same_sides(array, 1, wanted->shape, wanted->rank),
               as_sample = !labels && same_sides(array, 1, last, wanted->rank);
    if (!as_pytorch && !as_sample) return does_not_fit(data, array, wanted, error);
    const bool moves = !labels && as_pytorch && !(as_sample && positions && !same_shape(array, wanted));
    if (moves) source->channels = wanted->shape[0];
    if (source->each == source->channels) source->channels = 1;
    if (array->shape[0] < 1 || array->shape[0] > UINT32_MAX)
        return error_set(error, PS_BAD_INPUT, "%s: array '%.100s' has %lld samples; 1 to %lld are accepted", data->path,
                         array->name, (long long)array->shape[0], (long long)UINT32_MAX);
    if (data->dataset.samples == 0) {
        data->dataset.samples = array->shape[0];
        data->counted = array->name;
    }
    if (data->dataset.samples != array->shape[0])
        return error_set(error, PS_BAD_INPUT, "%s: array '%.100s' has %lld samples, but '%.100s' has %lld", data->path,
                         array->name, (long long)array->shape[0], data->counted, (long long)data->dataset.samples);
    return PS_OK;
}

/* What the dataset says that it is: what the network takes. */
static enum ps_status take_shape(struct array_dataset *data, const struct dataset_shape *required, struct ps_error *error) {
    data->dataset.shape = *required;
    data->dataset.shape.words[0] = data->dataset.shape.words[1] = NULL;
    for (int i = 0; i < required->input_count; i++) {
        data->inputs[i] = required->inputs[i];
        data->inputs[i].name = arena_copy(&data->arena, required->inputs[i].name, strlen(required->inputs[i].name) + 1, 1);
    }
    data->target = *required->target;
    data->target.name = arena_copy(&data->arena, required->target->name, strlen(required->target->name) + 1, 1);
    data->dataset.shape.inputs = data->inputs;
    data->dataset.shape.target = &data->target;
    return arena_check(&data->arena, "a dataset", error);
}

static enum ps_status begin(const char *path, const struct dataset_shape *required, struct array_dataset **data,
                            struct ps_error *error) {
    struct array_dataset *made;
    if (required->inputs == NULL || required->target == NULL)
        return error_set(error, PS_USAGE, "%s: it is not said which arrays are wanted", path);
    TRY(memory_new(&made, 1, "a dataset", error));
    made->path = arena_copy(&made->arena, path, strlen(path) + 1, 1);
    enum ps_status status = arena_check(&made->arena, "a dataset", error);
    if (status == PS_OK) status = take_shape(made, required, error);
    if (status != PS_OK) {
        close_arrays(&made->dataset);
        return status;
    }
    *data = made;
    return PS_OK;
}

/* ------------------------------------------------------- files with named arrays */

/* Finds an array by its name, or by "input/NAME", as reference files have inputs. *found is false where it may be missing. */
typedef enum ps_status find_array(struct array_dataset *data, const char *name, bool *found, struct array *array,
                                  struct ps_error *error);

/* What the file, npz or tensors, has instead. */
static enum ps_status missing(const struct array_dataset *data, const char *name, struct ps_error *error) {
    const struct npz *npz = data->file_count > 0 ? data->files[0] : NULL;
    const int count = npz ? npz_count(npz) : data->tensors.count;
    struct text has = {0};
    for (int i = 0; i < count; i++)
        text_add(&has, "%s%s", i > 0 ? ", " : "", npz ? npz_name(npz, i) : data->tensors.tensors[i].name);
    error_set(error, PS_BAD_INPUT, "%s: there is no array '%.100s'", data->path, name);
    error_hint(error, "the network's inputs and its target are found by their names; the file has %s",
               has.length > 0 && !has.failed ? has.data : "none");
    text_free(&has);
    return PS_BAD_INPUT;
}

static enum ps_status find_in_npz(struct array_dataset *data, const char *name, bool *found, struct array *array,
                                  struct ps_error *error) {
    char other[128];
    snprintf(other, sizeof other, "input/%.100s", name);
    const bool has = npz_has(data->files[0], name), has_other = npz_has(data->files[0], other);
    if (found) *found = has || has_other;
    if (found && !*found) return PS_OK;
    if (!has && !has_other) return missing(data, name, error);
    return npz_get(data->files[0], has_other && !has ? other : name, array, error);
}

static enum ps_status find_in_directory(struct array_dataset *data, const char *name, bool *found, struct array *array,
                                        struct ps_error *error) {
    char file[128], path[4096];
    snprintf(file, sizeof file, "%.100s.npy", name);
    file_join(path, data->path, file);
    if (found) *found = file_exists(path);
    if (found && !*found) return PS_OK;
    if (!file_exists(path)) {
        error_set(error, PS_BAD_INPUT, "%s: there is no %s", data->path, file);
        error_hint(error, "a file for each input of the network, and one for its target, with their names");
        return PS_BAD_INPUT;
    }
    TRY(npz_open(path, &data->files[data->file_count], error));
    struct npz *opened = data->files[data->file_count++];
    return npz_get(opened, npz_name(opened, 0), array, error);
}

static enum ps_status find_tensor(struct array_dataset *data, const char *name, bool *found, struct array *array,
                                  struct ps_error *error) {
    const struct safetensor *tensor = safetensors_find(&data->tensors, name);
    if (found) *found = tensor != NULL;
    if (found && !*found) return PS_OK;
    if (tensor == NULL) return missing(data, name, error);
    if (safetensors_array(&data->tensors, tensor, array)) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: tensor '%.100s' has more than %d sides", data->path, name, ARRAY_RANK_MAX);
}

/* A text's tokens in one row: samples are pieces of it, and the token after a piece is the label of its last position. */
static enum ps_status fit_stream(struct array_dataset *data, struct array *array, const struct ps_input *tokens,
                                 struct ps_error *error) {
    const int64_t length = input_elements(tokens), samples = (array->shape[0] - 1) / length;
    if (samples < 1)
        return error_set(error, PS_BAD_INPUT,
                         "%s: array '%.100s' has %lld tokens; a sample takes %lld, and the one that follows", data->path,
                         array->name, (long long)array->shape[0], (long long)length);
    data->stride = length;
    const struct array pieces = {
        .name = array->name, .type = array->type, .rank = 2, .shape = {samples, length}, .data = array->data};
    return fit(data, &pieces, tokens, false, &data->source[0], error);
}

static enum ps_status fit_all(struct array_dataset *data, find_array *find, struct ps_error *error) {
    struct dataset_shape *shape = &data->dataset.shape;
    struct array array = {0};
    bool found = true;
    const bool language = shape->gives_tokens && !shape->masked && shape->input_count == 1 && shape->inputs[0].vocabulary > 0 &&
                          dataset_labels(shape) == input_elements(&shape->inputs[0]);
    TRY(find(data, shape->target->name, language || shape->unlabelled ? &found : NULL, &array, error));
    data->follows = language && !found;
    shape->unlabelled = !language && !found;
    if (found) TRY(fit(data, &array, shape->target, true, &data->labels, error));
    for (int i = 0; i < shape->input_count; i++) {
        TRY(find(data, shape->inputs[i].name, NULL, &array, error));
        const bool stream = data->follows && array.rank == 1;
        TRY(stream ? fit_stream(data, &array, &shape->inputs[i], error)
                   : fit(data, &array, &shape->inputs[i], false, &data->source[i], error));
    }
    return PS_OK;
}

static enum ps_status finish(struct array_dataset *data, enum ps_status status, struct dataset **dataset) {
    if (status == PS_OK)
        *dataset = &data->dataset;
    else
        close_arrays(&data->dataset);
    return status;
}

static enum ps_status open_npz(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                               struct dataset **dataset, struct ps_error *error) {
    (void)part;
    struct array_dataset *data;
    TRY(begin(rest, required, &data, error));
    enum ps_status status = npz_open(rest, &data->files[0], error);
    data->file_count = status == PS_OK;
    if (status == PS_OK) status = fit_all(data, find_in_npz, error);
    return finish(data, status, dataset);
}

static enum ps_status open_npy(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                               struct dataset **dataset, struct ps_error *error) {
    (void)part;
    struct array_dataset *data;
    TRY(begin(rest, required, &data, error));
    return finish(data, fit_all(data, find_in_directory, error), dataset);
}

static enum ps_status open_safetensors(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                       struct dataset **dataset, struct ps_error *error) {
    (void)part;
    struct array_dataset *data;
    TRY(begin(rest, required, &data, error));
    enum ps_status status = safetensors_open(rest, &data->tensors, error);
    if (status == PS_OK) status = fit_all(data, find_tensor, error);
    return finish(data, status, dataset);
}

/* --------------------------------------------------------------------------- CSV */

/* A table of numbers, with the names of its columns where its first line has some. */
struct table {
    char *text;
    float *numbers; /* rows x columns */
    size_t capacity;
    char **names; /* NULL: no header */
    int columns, target[TARGETS_MAX], targets;
    bool is_target[COLUMNS_MAX];
    int64_t rows;
};

/* The next field of a line, cut off; *line moves behind it, or becomes NULL. */
static char *next_field(char **line) {
    char *field = *line, *end = field + strcspn(field, ",");
    *line = *end == ',' ? end + 1 : NULL;
    *end = '\0';
    while (isspace((unsigned char)*field)) field++;
    for (char *last = field + strlen(field); last > field && isspace((unsigned char)last[-1]);) *--last = '\0';
    if (*field == '"' && field[1] != '\0' && field[strlen(field) - 1] == '"') {
        field[strlen(field) - 1] = '\0';
        field++;
    }
    return field;
}

static bool is_number(const char *field) {
    char *end;
    (void)number_read(field, &end);
    return end != field && *end == '\0';
}

static enum ps_status read_header(struct table *table, struct array_dataset *data, char *line, int64_t line_number,
                                  struct ps_error *error) {
    table->columns = 1;
    for (const char *c = line; *c != '\0'; c++) table->columns += *c == ',';
    if (table->columns > COLUMNS_MAX)
        return error_set(error, PS_BAD_INPUT, "%s: %d columns; %d are accepted", data->path, table->columns, COLUMNS_MAX);
    char *copy = arena_copy(&data->arena, line, strlen(line) + 1, 1);
    char **names = arena_take(&data->arena, (size_t)table->columns, sizeof *names);
    TRY(arena_check(&data->arena, "a table", error));
    int empty = 0, word = 0, numbers = 0; /* columns, from 1 */
    for (int c = 0; c < table->columns && copy != NULL; c++) {
        names[c] = next_field(&copy);
        if (is_number(names[c]))
            numbers++;
        else if (names[c][0] == '\0')
            empty = c + 1;
        else if (word == 0)
            word = c + 1;
    }
    if (empty > 0 && numbers > 0)
        return error_set(error, PS_BAD_INPUT, "%s: line %lld: column %d is empty, beside numbers", data->path,
                         (long long)line_number, empty);
    if (word > 0 && numbers > 0)
        log_warn("%s: line %lld is taken for the columns' names, since '%.40s' is no number", data->path,
                 (long long)line_number, names[word - 1]);
    if (numbers < table->columns) table->names = names;
    return PS_OK;
}

static enum ps_status read_row(struct table *table, const struct array_dataset *data, char *line, int64_t line_number,
                               struct ps_error *error) {
    const size_t first = (size_t)(table->rows * table->columns);
    TRY(memory_grow(&table->numbers, &table->capacity, first + (size_t)table->columns, data->path, error));
    int column = 0;
    for (char *rest = line; rest != NULL; column++) {
        const char *field = next_field(&rest);
        if (column == table->columns) {
            column++;
            break;
        }
        if (!is_number(field))
            return error_set(error, PS_BAD_INPUT, "%s: line %lld: column %d: '%.40s' is no number", data->path,
                             (long long)line_number, column + 1, field);
        const float number = (float)number_read(field, NULL);
        if (!isfinite(number))
            return error_set(error, PS_BAD_INPUT, "%s: line %lld: column %d: '%.40s' is no finite number of 32 bits",
                             data->path, (long long)line_number, column + 1, field);
        table->numbers[first + (size_t)column] = number;
    }
    if (column != table->columns)
        return error_set(error, PS_BAD_INPUT, "%s: line %lld has %s than the %d columns of the first line", data->path,
                         (long long)line_number, column > table->columns ? "more" : "fewer", table->columns);
    table->rows++;
    return PS_OK;
}

static enum ps_status read_table(struct table *table, struct array_dataset *data, struct ps_error *error) {
    size_t size;
    TRY(file_read(data->path, CSV_LIMIT, &table->text, &size, error));
    if (memchr(table->text, 0, size) != NULL) return error_set(error, PS_BAD_INPUT, "%s: it is no text", data->path);
    table->text[utf8_drop_mark(table->text, size)] = '\0';
    int64_t number = 1;
    for (char *line = table->text, *next; line != NULL; line = next, number++) {
        next = line + strcspn(line, "\r\n"); /* each of CR, LF and CR LF ends a line */
        const size_t end = *next == '\0' ? 0 : strncmp(next, "\r\n", 2) == 0 ? 2 : 1;
        *next = '\0';
        next = end > 0 ? next + end : NULL;
        if (*line == '\0') continue;
        if (table->columns == 0) {
            TRY(read_header(table, data, line, number, error));
            if (table->names != NULL) continue;
        }
        TRY(read_row(table, data, line, number, error));
    }
    if (table->rows == 0) return error_set(error, PS_BAD_INPUT, "%s: it has no rows of numbers", data->path);
    return PS_OK;
}

/* One column of "target=price+rooms" or "target=3", counted from 1. */
static enum ps_status add_target(struct table *table, const struct array_dataset *data, const char *name,
                                 struct ps_error *error) {
    int column = 0;
    char *end;
    for (; table->names != NULL && column < table->columns && strcmp(table->names[column], name) != 0;) column++;
    for (int other = column + 1; table->names != NULL && other < table->columns; other++)
        if (strcmp(table->names[other], name) == 0)
            return error_set(error, PS_USAGE, "data '%s': target: columns %d and %d are both named '%.40s'", data->path,
                             column + 1, other + 1, name);
    if (table->names == NULL || column == table->columns) {
        const double number = number_read(name, &end);
        column = end != name && *end == '\0' && number >= 1 && number <= table->columns && number == floor(number)
                     ? (int)number - 1
                     : table->columns;
    }
    if (column == table->columns) {
        char what[128];
        snprintf(what, sizeof what, "data '%.60s': target: column", data->path);
        if (table->names != NULL)
            return error_unknown(error, PS_USAGE, what, name, (const char *const *)table->names, (size_t)table->columns);
        return error_set(error, PS_USAGE, "%s '%.40s'; there are the columns 1 to %d", what, name, table->columns);
    }
    if (table->is_target[column] || table->targets == TARGETS_MAX)
        return error_set(error, PS_USAGE, "data '%s': target: column '%.40s' is named twice, or there are more than %d",
                         data->path, name, TARGETS_MAX);
    table->is_target[column] = true;
    table->target[table->targets++] = column;
    return PS_OK;
}

/* `names` NULL: the last columns, as many as the network's target has elements. */
static enum ps_status choose_targets(struct table *table, const struct array_dataset *data, char *names,
                                     struct ps_error *error) {
    const int wanted = dataset_labels(&data->dataset.shape);
    if (names == NULL && (wanted >= table->columns || wanted > TARGETS_MAX))
        return error_set(error, PS_USAGE, "data '%s' have %d columns, but the network's target alone has %d numbers",
                         data->path, table->columns, wanted);
    for (int c = table->columns - wanted; names == NULL && c < table->columns; c++) {
        table->is_target[c] = true;
        table->target[table->targets++] = c;
    }
    while (names != NULL) {
        char *end = strchr(names, '+');
        if (end != NULL) *end++ = '\0';
        TRY(add_target(table, data, names, error));
        names = end;
    }
    return PS_OK;
}

/* The chosen columns as an array of the sides that the network takes, if their number is right. */
static enum ps_status take_columns(const struct table *table, struct array_dataset *data, bool targets,
                                   const struct ps_input *wanted, struct source *source, struct ps_error *error) {
    const int64_t columns = targets ? table->targets : table->columns - table->targets, each = input_elements(wanted);
    if (columns != each)
        return error_set(error, PS_USAGE, "data '%s' have %lld column%s of %s, but the network takes %lld", data->path,
                         (long long)columns, text_plural(columns), targets ? "targets" : "features", (long long)each);
    float *numbers = arena_take(&data->arena, (size_t)(table->rows * each), sizeof *numbers);
    TRY(arena_check(&data->arena, data->path, error));
    float *to = numbers;
    for (int64_t r = 0; r < table->rows; r++) {
        const float *row = table->numbers + r * table->columns;
        for (int t = 0; targets && t < table->targets; t++) *to++ = row[table->target[t]];
        for (int c = 0; !targets && c < table->columns; c++)
            if (!table->is_target[c]) *to++ = row[c];
    }
    struct array array = {
        .name = wanted->name, .type = ARRAY_F32, .rank = wanted->rank + 1, .shape = {table->rows}, .data = numbers};
    memcpy(array.shape + 1, wanted->shape, (size_t)wanted->rank * sizeof *array.shape);
    return fit(data, &array, wanted, targets, source, error);
}

static enum ps_status fill_from_csv(struct array_dataset *data, struct table *table, char *targets, struct ps_error *error) {
    struct dataset_shape *shape = &data->dataset.shape;
    if (shape->input_count != 1)
        return error_set(error, PS_USAGE, "data '%s' are one table, but the network takes %d inputs", data->path,
                         shape->input_count);
    TRY(read_table(table, data, error));
    shape->unlabelled = shape->unlabelled && targets == NULL && table->columns == input_elements(&shape->inputs[0]);
    if (!shape->unlabelled) TRY(choose_targets(table, data, targets, error));
    TRY(take_columns(table, data, false, &shape->inputs[0], &data->source[0], error));
    if (shape->unlabelled) return PS_OK;
    return take_columns(table, data, true, shape->target, &data->labels, error);
}

static enum ps_status open_csv(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                               struct dataset **dataset, struct ps_error *error) {
    (void)part;
    struct array_dataset *data;
    struct table *table;
    char path[4096];
    snprintf(path, sizeof path, "%s", rest);
    char *targets = strstr(path, ",target=");
    if (targets != NULL) {
        *targets = '\0';
        targets += strlen(",target=");
    }
    TRY(memory_new(&table, 1, "a table", error));
    enum ps_status status = begin(path, required, &data, error);
    if (status == PS_OK) status = finish(data, fill_from_csv(data, table, targets, error), dataset);
    free(table->numbers);
    free(table->text);
    free(table);
    return status;
}

#define ARRAYS(NAME, TEXT, EXAMPLE)                                                                                            \
    const struct dataset_class dataset_##NAME = {.name = #NAME,                                                                \
                                                 .summary = TEXT,                                                              \
                                                 .example = EXAMPLE,                                                           \
                                                 .task = DATASET_ANY,                                                          \
                                                 .lists = true,                                                                \
                                                 .open = open_##NAME,                                                          \
                                                 .close = close_arrays,                                                        \
                                                 .read = read_arrays,                                                          \
                                                 .target = read_target}
ARRAYS(npz, "FILE of NumPy's, with arrays named as the network's inputs and its target", "FILE.npz");
ARRAYS(npy, "DIR with a file NAME.npy for each input of the network and for its target", "DIR");
ARRAYS(safetensors, "FILE with tensors named as the network's inputs and its target", "FILE.safetensors");
ARRAYS(csv, "FILE[,target=COLUMN+COLUMN...]: lines of numbers; the last columns are the target", "FILE.csv");
