/* What a trained network computes of each sample (ps_predict): a table of predictions, or the numbers themselves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/versioned.h"
#include "data/npz.h"
#include "eval/evaluate.h"
#include "graph/operators.h"

enum form { FORM_CSV, FORM_JSON, FORM_JSON_LINES, FORM_ARRAYS, FORM_TABLE, FORMS };
static const char *const form_names[FORMS] = {"csv", "json", "jsonl", "npz", "table"};

struct predicting {
    const struct ps_predict_options *options;
    enum form form;
    int columns; /* written of the row so far */
    int64_t rows;
    struct shape shape;
    int64_t each, total; /* numbers of a sample; samples */
    struct text table;
    float *outputs, *sample;
    void *labels; /* NULL: there are none */
};

/* An image's channels stand first in files, and last in memory. */
static bool is_image(const struct shape *shape) { return shape->rank == 3 && shape->dim[2] > 1; }

static void to_file_order(const struct shape *shape, const float *from, float *to) {
    const int64_t channels = shape->dim[0], rest = shape_elements(shape) / channels;
    if (!is_image(shape)) memcpy(to, from, (size_t)(channels * rest) * sizeof *to);
    for (int64_t i = 0; is_image(shape) && i < channels * rest; i++) to[i % channels * rest + i / channels] = from[i];
}

/* The sides in a file: of an image C, H, W; else positions, and features last. */
static void file_sides(const struct shape *shape, int64_t samples, struct array *array) {
    int rank = shape->rank;
    array->rank = 0;
    array->shape[array->rank++] = samples;
    if (is_image(shape)) array->shape[array->rank++] = shape->dim[0];
    while (rank > 1 && shape->dim[rank - 1] == 1) rank--;
    for (int d = 1; d < rank; d++) array->shape[array->rank++] = shape->dim[d];
    if (!is_image(shape)) array->shape[array->rank++] = shape->dim[0];
}

/* ------------------------------------------------------------------- table */

enum kind { CLASSES, PROBABILITIES, NUMBERS };

static enum kind kind_of(const struct ps_network *network) {
    const struct graph *graph = network->graph;
    if (network->classes > 0) return CLASSES;
    return graph->nodes[graph->node_count - 1].id == OPERATOR_BCE ? PROBABILITIES : NUMBERS;
}

static bool is_json(const struct predicting *p) { return p->form == FORM_JSON || p->form == FORM_JSON_LINES; }

static void begin_row(struct predicting *p) {
    if (p->form == FORM_JSON) text_add(&p->table, "%s", p->rows > 0 ? ",\n" : "[\n");
    if (is_json(p)) text_add(&p->table, "{");
    p->columns = 0;
    p->rows++;
}

static void end_row(struct predicting *p) {
    if (is_json(p)) text_add(&p->table, "}");
    if (p->form != FORM_JSON) text_add(&p->table, "\n");
}

static void begin_field(struct predicting *p, const char *name) {
    const bool first = p->columns++ == 0;
    if (is_json(p))
        text_add(&p->table, "%s\"%s\": ", first ? "" : ", ", name);
    else if (!first)
        text_add(&p->table, p->form == FORM_TABLE ? "\t" : ",");
}

static void put_integer(struct predicting *p, const char *name, int64_t number) {
    begin_field(p, name);
    text_add(&p->table, "%lld", (long long)number);
}

static void add_number(struct predicting *p, double number, int digits) {
    if (is_json(p) && !isfinite(number))
        text_add(&p->table, "null");
    else
        text_add(&p->table, "%.*g", digits, number);
}

/* Quoted as CSV and JSON have it. */
static enum ps_status put_string(struct predicting *p, const char *name, const char *string, struct ps_error *error) {
    begin_field(p, name);
    if (is_json(p)) {
        json_t *value = json_string(string);
        char *quoted = json_dump_text(value, JSON_ENCODE_ANY);
        json_decref(value);
        TRY(memory_check(quoted, name, error));
        text_add(&p->table, "%s", quoted);
        free(quoted);
    } else if (p->form == FORM_CSV) {
        text_add(&p->table, "\"");
        for (const char *at = string; *at; at++) text_add(&p->table, *at == '"' ? "\"\"" : "%c", *at);
        text_add(&p->table, "\"");
    } else {
        const size_t begin = p->table.length;
        text_add(&p->table, "%s", string);
        if (p->table.data) utf8_clean(p->table.data + begin, ' ');
    }
    return PS_OK;
}

/* The names of columns, which JSON has in each row. */
static void put_head(struct predicting *p, const struct evaluated_batch *batch) {
    const struct ps_network *network = batch->network;
    const enum kind kind = kind_of(network);
    const char *const separator = p->form == FORM_TABLE ? "\t" : ",";
    if (is_json(p)) return;
    text_add(&p->table, "index");
    if (kind == CLASSES)
        text_add(&p->table, "%s%s%slabel%sprobability%s%s", separator, network->labels > 1 ? "position" : "",
                 network->labels > 1 ? separator : "", separator, batch->names->count > 0 ? separator : "",
                 batch->names->count > 0 ? "name" : "");
    for (int64_t i = 0; kind != CLASSES && i < p->each; i++)
        text_add(&p->table, "%s%s_%lld", separator, kind == PROBABILITIES ? "probability" : "output", (long long)i);
    text_add(&p->table, "\n");
}

/* The most probable class of logits, the first of several, and its probability. */
static int64_t best_of(const float *logits, int64_t classes, double *probability) {
    double sum = 0;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (logits[c] > logits[best]) best = c;
    for (int64_t c = 0; c < classes; c++) sum += exp((double)logits[c] - (double)logits[best]);
    *probability = 1 / sum;
    return best;
}

static enum ps_status put_classes(struct predicting *p, const struct evaluated_batch *batch, int64_t index, const float *output,
                                  struct ps_error *error) {
    const struct ps_network *network = batch->network;
    const struct class_names *names = batch->names;
    const int64_t classes = network->classes;
    for (int64_t position = 0; position < p->each / classes; position++) {
        double probability;
        const int64_t label = best_of(output + position * classes, classes, &probability);
        begin_row(p);
        put_integer(p, "index", index);
        if (network->labels > 1) put_integer(p, "position", position);
        put_integer(p, "label", label);
        begin_field(p, "probability");
        add_number(p, probability, 7);
        if (names->count > 0) TRY(put_string(p, "name", label < names->count ? names->name[label] : "", error));
        end_row(p);
    }
    return PS_OK;
}

/* In JSON they are one list. */
static void put_numbers(struct predicting *p, bool probabilities, int64_t index) {
    const char *const name = probabilities ? "probability" : "output";
    begin_row(p);
    put_integer(p, "index", index);
    if (is_json(p)) begin_field(p, name);
    if (is_json(p)) text_add(&p->table, "[");
    for (int64_t i = 0; i < p->each; i++) {
        const double number = (double)p->sample[i];
        if (!is_json(p)) begin_field(p, name);
        if (is_json(p) && i > 0) text_add(&p->table, ", ");
        add_number(p, probabilities ? 1 / (1 + exp(-number)) : number, 9);
    }
    if (is_json(p)) text_add(&p->table, "]");
    end_row(p);
}

static enum ps_status put_rows(struct predicting *p, const struct evaluated_batch *batch, int64_t index, const float *output,
                               struct ps_error *error) {
    const enum kind kind = kind_of(batch->network);
    if (p->rows == 0) put_head(p, batch);
    if (kind == CLASSES) return put_classes(p, batch, index, output, error);
    put_numbers(p, kind == PROBABILITIES, index);
    return PS_OK;
}

static enum ps_status take_sentence(void *context, int64_t index, const char *sentence, struct ps_error *error) {
    struct predicting *p = context;
    if (!p->options->path || p->form == FORM_ARRAYS)
        return error_set(error, PS_USAGE, "%s",
                         p->options->path ? "translations are texts, which .npz files do not hold"
                                          : "`take`: translations are texts; give a `path`");
    if (p->rows == 0 && !is_json(p))
        text_add(&p->table, p->form == FORM_TABLE ? "index\ttranslation\n" : "index,translation\n");
    begin_row(p);
    put_integer(p, "index", index);
    TRY(put_string(p, "translation", sentence, error));
    end_row(p);
    return PS_OK;
}

/* ------------------------------------------------------------------ arrays */

static enum ps_status take_room(struct predicting *p, const struct evaluated_batch *batch, struct ps_error *error) {
    p->shape = batch->shape;
    p->each = shape_elements(&p->shape);
    p->total = batch->total;
    TRY(memory_new(&p->sample, p->each, "predictions", error));
    if (p->form != FORM_ARRAYS) return PS_OK;
    TRY(memory_new(&p->outputs, p->total * p->each, "predictions", error));
    if (!batch->targets) return PS_OK;
    return memory_new_bytes(&p->labels, (size_t)(p->total * batch->network->labels), sizeof(int32_t), "labels", error);
}

static void keep_labels(struct predicting *p, const struct evaluated_batch *batch) {
    const int64_t labels = batch->network->labels;
    const bool numbers = batch->network->classes == 0;
    for (int64_t n = 0; n < batch->samples; n++) {
        const size_t from = (size_t)(n * labels), to = (size_t)((batch->first + n) * labels);
        if (numbers)
            to_file_order(&p->shape, (const float *)batch->targets + from, (float *)p->labels + to);
        else
            memcpy((int32_t *)p->labels + to, (const int32_t *)batch->targets + from, (size_t)labels * sizeof(int32_t));
    }
}

static enum ps_status take(void *context, const struct evaluated_batch *batch, struct ps_error *error) {
    struct predicting *p = context;
    const struct ps_predict_options *options = p->options;
    if (batch->first == 0) TRY(take_room(p, batch, error));
    for (int64_t n = 0; n < batch->samples; n++) {
        const float *output = batch->output + n * p->each;
        to_file_order(&p->shape, output, p->sample);
        if (options->take) options->take(options->context, batch->index + n, p->sample, (size_t)p->each);
        if (p->form == FORM_ARRAYS)
            memcpy(p->outputs + (batch->first + n) * p->each, p->sample, (size_t)p->each * sizeof *p->outputs);
        else if (options->path)
            TRY(put_rows(p, batch, batch->index + n, output, error));
    }
    if (p->labels) keep_labels(p, batch);
    return PS_OK;
}

static enum ps_status write_arrays(const struct predicting *p, const struct ps_network *network, struct ps_error *error) {
    const struct shape target = graph_target(network->graph);
    struct array arrays[2] = {{.name = "output", .type = ARRAY_F32, .data = p->outputs},
                              {.name = "labels", .type = ARRAY_I32, .data = p->labels}};
    file_sides(&p->shape, p->total, &arrays[0]);
    if (target.type == TYPE_I32) {
        arrays[1].shape[arrays[1].rank++] = p->total;
        for (int d = 0; network->labels > 1 && d < target.rank; d++) arrays[1].shape[arrays[1].rank++] = target.dim[d];
    } else {
        arrays[1].type = ARRAY_F32;
        file_sides(&target, p->total, &arrays[1]);
    }
    return npz_write(p->options->path, arrays, p->labels ? 2 : 1, error);
}

static enum ps_status write_table(struct predicting *p, struct ps_error *error) {
    if (p->form == FORM_JSON) text_add(&p->table, "%s\n]\n", p->rows > 0 ? "" : "[");
    const size_t length = p->table.length;
    char *text = p->form == FORM_TABLE ? text_take_table(&p->table) : text_take(&p->table);
    if (!text) return error_memory(error, "predictions", length);
    enum ps_status status = file_write(p->options->path, text, strlen(text), error);
    free(text);
    return status;
}

/* When all samples are there. */
static enum ps_status finish(void *context, const struct ps_network *network, struct ps_error *error) {
    struct predicting *p = context;
    if (!p->options->path) return PS_OK;
    return p->form == FORM_ARRAYS ? write_arrays(p, network, error) : write_table(p, error);
}

void ps_predict_options_init(struct ps_predict_options *options) {
    *options = (struct ps_predict_options){.struct_size = sizeof *options};
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), ends = strlen(end);
    return length >= ends && strcmp(text + length - ends, end) == 0;
}

/* As said, or as the file's name ends. */
static enum ps_status choose_form(const struct ps_predict_options *options, enum form *form, struct ps_error *error) {
    char end[16];
    for (int f = 0; f < FORMS; f++) {
        snprintf(end, sizeof end, ".%s", form_names[f]);
        const bool named = options->format && strcmp(options->format, form_names[f]) == 0;
        const bool ending = !options->format && f != FORM_TABLE && options->path && ends_with(options->path, end);
        if (!named && !ending) continue;
        *form = (enum form)f;
        return PS_OK;
    }
    *form = FORM_CSV;
    return options->format ? error_unknown(error, PS_USAGE, "`format`", options->format, form_names, FORMS) : PS_OK;
}

enum ps_status predict_samples(const struct ps_predict_options *given, watched_evaluation *together, struct ps_error *error) {
    struct ps_predict_options options;
    TRY(VERSIONED_TAKE(ps_predict_options, given, &options, error));
    if (!options.path && !options.take) return error_set(error, PS_USAGE, "one of `path` and `take` must be given");
    struct predicting predicting = {.options = &options};
    TRY(choose_form(&options, &predicting.form, error));
    const struct ps_evaluate_options evaluate = {.struct_size = sizeof evaluate,
                                                 .run = options.run,
                                                 .network = options.network,
                                                 .data = options.data,
                                                 .device = options.device,
                                                 .batch = options.batch,
                                                 .beam = options.beam,
                                                 .threads = options.threads,
                                                 .log = options.log,
                                                 .checkpoint = options.checkpoint,
                                                 .workers = options.workers,
                                                 .transport = options.transport};
    const struct evaluation_watch watch = {.context = &predicting, .take = take, .sentence = take_sentence, .finish = finish};
    if (options.workers < 0) return error_set(error, PS_USAGE, "`workers`: %d is negative", options.workers);
    const bool alone = options.workers <= 1 && !options.transport;
    enum ps_status status = alone ? evaluate_watched(&evaluate, &watch, error) : together(&evaluate, &watch, error);
    text_free(&predicting.table);
    free(predicting.outputs);
    free(predicting.sample);
    free(predicting.labels);
    return status;
}
