/*
 * The plan file: strict reading, and writing so that reading back gives the same plan. Layers and nothing else count from 1.
 * The tables for people are made from the document that is written.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "plan/plan.h"

enum { STAGES_MAX = PROFILE_LAYERS_MAX };

/* The uses of a worker's memory, one table for reading and writing. */
static const struct memory_field {
    const char *name;
    size_t offset;
} memory_fields[] = {
    {"weights", offsetof(struct worker_memory, weights)},     {"gradients", offsetof(struct worker_memory, gradients)},
    {"optimizer", offsetof(struct worker_memory, optimizer)}, {"stash", offsetof(struct worker_memory, stash)},
    {"buffers", offsetof(struct worker_memory, buffers)},     {"workspace", offsetof(struct worker_memory, workspace)},
};
static const struct number_field {
    const char *name;
    size_t offset;
    double low;
    bool simulated; /* only present if the plan was simulated */
} number_fields[] = {
    {"objective_s", offsetof(struct plan_prediction, objective_s), 0, false},
    {"period_s", offsetof(struct plan_prediction, period_s), 0, true},
    {"throughput_samples_per_s", offsetof(struct plan_prediction, throughput_samples_per_s), 0, true},
    {"bubble", offsetof(struct plan_prediction, bubble), 0, true},
    {"lower_bound_s", offsetof(struct plan_prediction, lower_bound_s), 0, false},
    {"gap", offsetof(struct plan_prediction, gap), -1, false},
    {"solve_s", offsetof(struct plan_prediction, solve_s), 0, false},
};
enum { MEMORIES = sizeof memory_fields / sizeof memory_fields[0], NUMBERS = sizeof number_fields / sizeof number_fields[0] };

/* ----------------------------------------------------------------- reading */

static enum ps_status read_text(const struct json_place *place, const char *field, bool required, char *out, size_t size,
                                struct ps_error *error) {
    const char *text = NULL;
    TRY(json_get_string(place, field, required, &text, error));
    if (!text) return PS_OK;
    if (strlen(text) >= size) return json_error(place, error, "%s is longer than %zu bytes", field, size - 1);
    memcpy(out, text, strlen(text) + 1);
    return PS_OK;
}

/* A worker's number, or a list of them. */
static enum ps_status read_workers(const struct json_place *place, int *list, int *count, struct ps_error *error) {
    bool one = json_is_integer(place->value);
    size_t length = one ? 1 : json_array_size(place->value);
    if (!one && !json_is_array(place->value)) return json_error(place, error, "must be a worker's number or a list of them");
    if (length > PLAN_WORKERS_MAX)
        return json_error(place, error, "%zu workers; at most %d are accepted", length, PLAN_WORKERS_MAX);
    for (size_t i = 0; i < length; i++) {
        const json_t *value = one ? place->value : json_array_get(place->value, i);
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
        if (number < 0 || number >= PLAN_WORKERS_MAX)
            return json_error(place, error, "must be a worker's number from 0 or a list of them");
        list[i] = (int)number;
    }
    *count = (int)length;
    return PS_OK;
}

static enum ps_status read_layers(const struct json_place *stage, struct plan_stage *out, struct ps_error *error) {
    struct json_place layers;
    size_t length;
    TRY(json_field(stage, "layers", true, &layers, error));
    TRY(json_array_length(&layers, &length, error));
    json_int_t bound[2] = {0, 0};
    for (size_t i = 0; i < 2 && i < length; i++) bound[i] = json_integer_value(json_array_get(layers.value, i));
    if (length != 2 || bound[0] < 1 || bound[1] < bound[0] || bound[1] > PROFILE_LAYERS_MAX)
        return json_error(&layers, error, "must be [first, last], layers from 1 to %d", PROFILE_LAYERS_MAX);
    out->first = (int)bound[0] - 1;
    out->last = (int)bound[1] - 1;
    return PS_OK;
}

/* "wire": {"activation": "int8", "gradient": "bf16", "sum": "int8"}: codecs of the cut after the stage, and of the gradients
 * that its replicas sum. */
static enum ps_status read_wire(const struct json_place *stage, struct plan_stage *out, struct ps_error *error) {
    static const char *const fields[] = {"activation", "gradient", "sum"};
    struct wire *const wires[] = {&out->wire.activation, &out->wire.gradient, &out->sum_wire};
    struct json_place place;
    TRY(json_field(stage, "wire", false, &place, error));
    if (!place.value) return PS_OK;
    TRY(json_object_fields(&place, fields, 3, error));
    for (int f = 0; f < 3; f++) {
        const char *text = "none";
        struct ps_error found = {0};
        TRY(json_get_string(&place, fields[f], false, &text, error));
        if (wire_parse(text, fields[f], wires[f], &found) != PS_OK) return json_error(&place, error, "%s", found.message);
    }
    return PS_OK;
}

static enum ps_status read_stage(const struct json_place *place, struct ps_plan *plan, int stage, int *scratch,
                                 struct ps_error *error) {
    static const char *const fields[] = {"layers", "forward", "backward", "recompute", "in_flight", "wire"};
    struct plan_stage *out = &plan->stages[stage];
    struct json_place forward, backward;
    int *backward_list = scratch + PLAN_WORKERS_MAX, forward_count, backward_count;
    TRY(json_object_fields(place, fields, sizeof fields / sizeof fields[0], error));
    TRY(read_layers(place, out, error));
    TRY(json_field(place, "forward", true, &forward, error));
    TRY(json_field(place, "backward", false, &backward, error));
    TRY(read_workers(&forward, scratch, &forward_count, error));
    TRY(read_workers(backward.value ? &backward : &forward, backward_list, &backward_count, error));
    TRY(json_get_bool(place, "recompute", false, &out->recompute, error));
    TRY(json_get_int(place, "in_flight", false, 1, PLAN_MICRO_BATCHES_MAX, &out->in_flight, error));
    TRY(read_wire(place, out, error));
    return plan_stage_workers(plan, stage, scratch, forward_count, backward_list, backward_count, error);
}

static enum ps_status read_worker(const struct json_place *place, bool simulated, double *load_s, struct worker_memory *memory,
                                  struct ps_error *error) {
    static const char *const fields[] = {"load_s", "memory_bytes"};
    const char *memory_names[MEMORIES];
    struct json_place split;
    TRY(json_object_fields(place, fields, 2, error));
    TRY(json_get_number(place, "load_s", true, 0, 1e18, load_s, error));
    TRY(json_field(place, "memory_bytes", simulated, &split, error));
    if (!split.value) return PS_OK;
    for (int f = 0; f < MEMORIES; f++) memory_names[f] = memory_fields[f].name;
    TRY(json_object_fields(&split, memory_names, MEMORIES, error));
    for (int f = 0; f < MEMORIES; f++)
        TRY(json_get_integer(&split, memory_fields[f].name, true, 0, (int64_t)1 << 60,
                             (int64_t *)((char *)memory + memory_fields[f].offset), error));
    return PS_OK;
}

static enum ps_status read_prediction(const struct json_place *place, struct ps_plan *plan, struct ps_error *error) {
    const char *fields[NUMBERS + 2] = {"workers", "limit"};
    struct plan_prediction *out = &plan->predicted;
    struct json_place workers, item;
    size_t length;
    for (int f = 0; f < NUMBERS; f++) fields[f + 2] = number_fields[f].name;
    TRY(json_object_fields(place, fields, NUMBERS + 2, error));
    for (int f = 0; f < NUMBERS; f++)
        TRY(json_get_number(place, number_fields[f].name, false, number_fields[f].low, 1e18,
                            (double *)((char *)out + number_fields[f].offset), error));
    out->simulated = json_object_get(place->value, "period_s") != NULL;
    TRY(read_text(place, "limit", false, out->limit, sizeof out->limit, error));
    TRY(json_field(place, "workers", true, &workers, error));
    TRY(json_array_length(&workers, &length, error));
    if (length != (size_t)plan->workers)
        return json_error(&workers, error, "%zu of them, but the plan has %d", length, plan->workers);
    for (size_t w = 0; w < length; w++) {
        TRY(json_item(&workers, w, &item, error));
        TRY(read_worker(&item, out->simulated, &out->load_s[w], &out->memory[w], error));
    }
    out->known = true;
    return PS_OK;
}

static enum ps_status read_order(const struct json_place *place, struct ps_plan *plan, struct ps_error *error) {
    size_t length;
    TRY(json_array_length(place, &length, error));
    if (length < 1 || length > PROFILE_LAYERS_MAX)
        return json_error(place, error, "%zu names; 1 to %d are accepted", length, PROFILE_LAYERS_MAX);
    const char **names;
    TRY(memory_new(&names, length, "a plan's order", error));
    enum ps_status status = PS_OK;
    for (size_t l = 0; status == PS_OK && l < length; l++) {
        names[l] = json_string_value(json_array_get(place->value, l));
        if (!names[l]) status = json_error(place, error, "must be a list of layer names");
    }
    if (status == PS_OK) status = plan_order_set(plan, names, (int)length, error);
    free(names);
    return status;
}

/* [["F", stage, shift], ["B", stage, shift], ...] */
static enum ps_status read_pattern(const struct json_place *place, struct ps_plan *plan, struct ps_error *error) {
    size_t length;
    TRY(json_array_length(place, &length, error));
    if (length != 2 * (size_t)plan->stage_count)
        return json_error(place, error, "%zu computations; %d stages have a forward and a backward each", length,
                          plan->stage_count);
    struct plan_operation *pattern;
    TRY(memory_new(&pattern, length, "a plan's pattern", error));
    enum ps_status status = PS_OK;
    for (size_t i = 0; status == PS_OK && i < length; i++) {
        const json_t *item = json_array_get(place->value, i), *stage = json_array_get(item, 1),
                     *shift = json_array_get(item, 2);
        const char *op = json_string_value(json_array_get(item, 0));
        json_int_t s = json_integer_value(stage), h = json_integer_value(shift);
        bool right = json_array_size(item) == 3 && op && (strcmp(op, "F") == 0 || strcmp(op, "B") == 0) &&
                     json_is_integer(stage) && json_is_integer(shift) && s >= 0 && s < plan->stage_count && h >= 0 &&
                     h <= PLAN_SHIFT_MAX;
        if (!right)
            status = json_error(place, error, "item %zu must be [\"F\" or \"B\", stage 0 to %d, shift 0 to %d]", i,
                                plan->stage_count - 1, PLAN_SHIFT_MAX);
        else
            pattern[i] = (struct plan_operation){.backward = op[0] == 'B', .stage = (int)s, .shift = (int)h};
    }
    if (status == PS_OK) status = plan_pattern_set(plan, pattern, (int)length, error);
    free(pattern);
    return status;
}

/* true: the first and the last layer; or the layers of each shared parameter. */
static enum ps_status read_ties(const struct json_place *root, struct ps_plan *plan, struct ps_error *error) {
    struct json_place tied;
    struct ties ties;
    TRY(json_field(root, "tied", false, &tied, error));
    if (!json_is_array(tied.value)) return json_get_bool(root, "tied", false, &plan->tied, error);
    TRY(ties_read(&tied, plan->stages[plan->stage_count - 1].last + 1, &plan->arena, &ties, error));
    return plan_ties_set(plan, false, &ties, error);
}

static enum ps_status read_head(const struct json_place *root, struct ps_plan *plan, struct ps_error *error) {
    const char *prediction = "exact";
    TRY(read_text(root, "model", true, plan->model, sizeof plan->model, error));
    TRY(read_text(root, "network", false, plan->network, sizeof plan->network, error));
    TRY(read_text(root, "method", false, plan->method, sizeof plan->method, error));
    TRY(read_text(root, "schedule", true, plan->schedule, sizeof plan->schedule, error));
    TRY(read_text(root, "weights", true, plan->weights, sizeof plan->weights, error));
    TRY(read_text(root, "optimizer", false, plan->optimizer, sizeof plan->optimizer, error));
    TRY(json_get_int(root, "micro_batch", true, 0, PROFILE_MICRO_BATCH_MAX, &plan->micro_batch, error));
    TRY(json_get_int(root, "micro_batches", true, 1, PLAN_MICRO_BATCHES_MAX, &plan->micro_batches, error));
    TRY(json_get_int(root, "slack", false, 0, PLAN_SLACK_MAX, &plan->slack, error));
    TRY(json_get_string(root, "prediction", false, &prediction, error));
    plan->paper_prediction = strcmp(prediction, "paper") == 0;
    if (!plan->paper_prediction && strcmp(prediction, "exact") != 0)
        return json_error(root, error, "prediction: '%s' is neither 'exact' nor 'paper'", prediction);
    return PS_OK;
}

static enum ps_status read_parts(const struct json_place *root, const struct json_place *stages, struct ps_plan *plan,
                                 struct ps_error *error) {
    struct json_place item, optional;
    int *scratch;
    TRY(memory_new(&scratch, 2 * PLAN_WORKERS_MAX, "a plan", error));
    enum ps_status status;
    TRY_OUT(read_head(root, plan, error));
    for (int s = 0; s < plan->stage_count; s++) {
        TRY_OUT(json_item(stages, (size_t)s, &item, error));
        TRY_OUT(read_stage(&item, plan, s, scratch, error));
    }
    TRY_OUT(read_ties(root, plan, error));
    TRY_OUT(json_field(root, "order", false, &optional, error));
    if (optional.value) TRY_OUT(read_order(&optional, plan, error));
    TRY_OUT(json_field(root, "pattern", false, &optional, error));
    if (optional.value) TRY_OUT(read_pattern(&optional, plan, error));
    TRY_OUT(json_field(root, "predicted", false, &optional, error));
    if (optional.value) TRY_OUT(read_prediction(&optional, plan, error));
    status = plan_check(plan, 0, error);
    if (status != PS_OK) error_prefix(error, "%.*s", (int)(strlen(root->path) - 1), root->path); /* without its colon */
out:
    free(scratch);
    return status;
}

static enum ps_status read_document(const struct json_place *root, struct ps_plan **plan, struct ps_error *error) {
    static const char *const fields[] = {"format", "version",   "model",      "workers",  "micro_batch", "micro_batches",
                                         "method", "optimizer", "prediction", "schedule", "weights",     "stages",
                                         "order",  "pattern",   "predicted",  "tied",     "network",     "slack"};
    struct json_place stages;
    struct ps_plan *made;
    size_t stage_count;
    int workers;
    TRY(json_object_fields(root, fields, sizeof fields / sizeof fields[0], error));
    TRY(json_get_int(root, "workers", true, 1, PLAN_WORKERS_MAX, &workers, error));
    TRY(json_field(root, "stages", true, &stages, error));
    TRY(json_array_length(&stages, &stage_count, error));
    if (stage_count < 1 || stage_count > STAGES_MAX)
        return json_error(&stages, error, "%zu stages; 1 to %d are accepted", stage_count, STAGES_MAX);
    TRY(plan_create(workers, (int)stage_count, &made, error));
    enum ps_status status = read_parts(root, &stages, made, error);
    if (status != PS_OK) {
        ps_plan_destroy(made);
        return status;
    }
    *plan = made;
    return PS_OK;
}

enum ps_status plan_read(const char *path, struct ps_plan **plan, struct ps_error *error) {
    json_t *document;
    TRY(json_read_file(path, "penstock-plan", &document, error));
    struct json_place root = json_root(document, path);
    enum ps_status status = read_document(&root, plan, error);
    json_decref(document);
    return json_tell_line(path, status, error);
}

enum ps_status plan_parse(const char *text, size_t size, struct ps_plan **plan, struct ps_error *error) {
    json_t *document;
    TRY(json_parse(text, size, "the plan of rank 0", "penstock-plan", &document, error));
    struct json_place root = json_root(document, "the plan of rank 0");
    enum ps_status status = read_document(&root, plan, error);
    json_decref(document);
    return status;
}

/* ----------------------------------------------------------------- writing */

static json_t *workers_json(const int *list, int count) {
    if (count == 1) return json_integer(list[0]);
    json_t *array = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(array, json_integer(list[i]));
    return json_whole(array, count);
}

static json_t *wire_json(const struct plan_stage *stage) {
    const struct cut_wire *wire = &stage->wire;
    const bool cut = wire->activation.codec != WIRE_NONE || wire->gradient.codec != WIRE_NONE;
    const bool sum = stage->sum_wire.codec != WIRE_NONE;
    char activation[32], gradient[32], sums[32];
    if (!cut && !sum) return NULL;
    return json_pack("{s:s*, s:s*, s:s*}", "activation", cut ? wire_text(&wire->activation, activation) : NULL, "gradient",
                     cut ? wire_text(&wire->gradient, gradient) : NULL, "sum", sum ? wire_text(&stage->sum_wire, sums) : NULL);
}

static json_t *stages_json(const struct ps_plan *plan) {
    json_t *array = json_array();
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        json_array_append_new(
            array, json_pack("{s:[i, i], s:o, s:o, s:b, s:o*, s:o*}", "layers", stage->first + 1, stage->last + 1, "forward",
                             workers_json(stage->forward, stage->forward_count), "backward",
                             workers_json(stage->backward, stage->backward_count), "recompute", (int)stage->recompute,
                             "in_flight", stage->in_flight ? json_integer(stage->in_flight) : NULL, "wire", wire_json(stage)));
    }
    return json_whole(array, plan->stage_count);
}

static json_t *worker_json(double load_s, const struct worker_memory *memory, bool simulated) {
    json_t *uses = simulated ? json_object() : NULL;
    for (int f = 0; uses && f < MEMORIES; f++)
        json_object_set_new(uses, memory_fields[f].name,
                            json_integer(*(const int64_t *)((const char *)memory + memory_fields[f].offset)));
    return json_pack("{s:f, s:o*}", "load_s", load_s, "memory_bytes", uses);
}

static json_t *prediction_json(const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    json_t *root = json_object(), *workers = json_array();
    for (int f = 0; f < NUMBERS; f++)
        if (predicted->simulated || !number_fields[f].simulated)
            json_object_set_new(root, number_fields[f].name,
                                json_real(*(const double *)((const char *)predicted + number_fields[f].offset)));
    if (predicted->limit[0]) json_object_set_new(root, "limit", json_string(predicted->limit));
    for (int w = 0; w < plan->workers; w++)
        json_array_append_new(workers, worker_json(predicted->load_s[w], &predicted->memory[w], predicted->simulated));
    json_object_set_new(root, "workers", json_whole(workers, plan->workers));
    return root;
}

json_t *plan_document(const struct ps_plan *plan) {
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:s*, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o*, s:o}", "format", "penstock-plan", "version", 1,
        "model", plan->model, "network", plan->network[0] ? plan->network : NULL, "method", plan->method, "schedule",
        plan->schedule, "weights", plan->weights, "optimizer", plan->optimizer, "prediction",
        plan->paper_prediction ? "paper" : "exact", "workers", plan->workers, "micro_batch", plan->micro_batch, "micro_batches",
        plan->micro_batches, "slack", plan->slack > 0 ? json_integer(plan->slack) : NULL, "stages", stages_json(plan));
    bool failed = !root;
    if (!failed && (plan->tied || plan->ties.count > 0))
        failed = json_object_set_new(root, "tied", plan->tied ? json_true() : ties_json(&plan->ties)) != 0;
    if (root && plan->pattern) {
        json_t *pattern = json_array();
        for (int i = 0; i < plan->pattern_count; i++)
            json_array_append_new(pattern, json_pack("[s, i, i]", plan->pattern[i].backward ? "B" : "F", plan->pattern[i].stage,
                                                     plan->pattern[i].shift));
        failed = json_object_set_new(root, "pattern", json_whole(pattern, plan->pattern_count)) != 0;
    }
    if (root && plan->order) {
        json_t *order = json_array();
        for (int l = 0; l < plan->order_count; l++) json_array_append_new(order, json_string(plan->order[l]));
        failed = failed || json_object_set_new(root, "order", json_whole(order, plan->order_count)) != 0;
    }
    if (root && plan->predicted.known) failed = failed || json_object_set_new(root, "predicted", prediction_json(plan)) != 0;
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

char *ps_plan_json(const struct ps_plan *plan) { return json_text(plan_document(plan)); }

enum ps_status ps_plan_write(const struct ps_plan *plan, const char *path, struct ps_error *error) {
    return json_write_file(plan_document(plan), path, error);
}

/* ------------------------------------------------------------------ tables for people */

/* The reason why programs cannot express the plan, in words. */
static const char *plan_class(const struct ps_plan *plan) {
    if (plan_is_split(plan)) return "forward and backward on different workers under a schedule without split stages";
    if (plan->order) return "layers in another order than the profile's";
    for (int s = 0; s < plan->stage_count; s++)
        for (int t = 0; t < s; t++)
            if (plan->stages[s].forward[0] == plan->stages[t].forward[0]) return "several stages on one worker";
    if (plan_has_replicas(plan)) return "replicas under a schedule or a weight policy that has none";
    return "a periodic schedule of its own, which holds fewer activations";
}

static void show_layers(struct text *out, const json_t *value) {
    text_add(out, "%lld-%lld", (long long)json_integer_value(json_array_get(value, 0)),
             (long long)json_integer_value(json_array_get(value, 1)));
}

static void show_workers(struct text *out, const json_t *value) {
    if (json_is_integer(value)) json_show_integer(out, value);
    for (size_t i = 0; i < json_array_size(value); i++)
        text_add(out, "%s%lld", i ? ", " : "", (long long)json_integer_value(json_array_get(value, i)));
}

static void show_yes(struct text *out, const json_t *value) { text_add(out, "%s", json_is_true(value) ? "yes" : "no"); }

/* The codecs of activations and of gradients, and of sums. */
static void show_wire(struct text *out, const json_t *value) {
    const char *activation = json_string_value(json_object_get(value, "activation")),
               *gradient = json_string_value(json_object_get(value, "gradient")),
               *sum = json_string_value(json_object_get(value, "sum"));
    if (activation && gradient) text_add(out, "%s / %s", activation, gradient);
    if (sum) text_add(out, "%ssums %s", activation ? ", " : "", sum);
}

/* All uses of a worker's memory. */
static void show_memory(struct text *out, const json_t *uses) {
    char shown[32];
    int64_t bytes = 0;
    for (int f = 0; f < MEMORIES; f++) bytes += json_integer_value(json_object_get(uses, memory_fields[f].name));
    text_add(out, "%s", text_bytes(bytes, shown));
}

static void add_stages(struct text *out, const json_t *stages) {
    struct json_column columns[] = {
        JSON_COLUMN("stage", NULL, NULL),
        JSON_COLUMN("layers", "layers", show_layers),
        JSON_COLUMN("forward", "forward", show_workers),
        JSON_COLUMN("backward", "backward", show_workers),
        JSON_COLUMN("recompute", "recompute", show_yes),
        JSON_COLUMN("wire", "wire", show_wire),
    };
    enum { FORWARD = 2, BACKWARD, RECOMPUTE, WIRE, ALL };
    size_t shown = WIRE;
    struct text rows = {0};
    bool same = true;
    for (size_t s = 0; s < json_array_size(stages); s++) {
        const json_t *stage = json_array_get(stages, s);
        same = same && json_equal(json_object_get(stage, "forward"), json_object_get(stage, "backward"));
        if (json_object_get(stage, "wire")) shown = ALL;
    }
    if (same) {
        columns[FORWARD].heading = "worker";
        columns[BACKWARD] = columns[RECOMPUTE];
        columns[RECOMPUTE] = columns[WIRE];
    }
    json_table(&rows, stages, columns, same ? shown - 1 : shown);
    text_add_table(out, &rows);
}

static void add_loads(struct text *out, const json_t *document, const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    struct worker_memory sum = {0};
    struct text rows = {0};
    double load_s = 0;
    for (int w = 0; w < plan->workers; w++) load_s += predicted->load_s[w];
    for (int w = 0; w < plan->workers; w++)
        for (int f = 0; f < MEMORIES; f++)
            *(int64_t *)((char *)&sum + memory_fields[f].offset) +=
                *(const int64_t *)((const char *)&predicted->memory[w] + memory_fields[f].offset);
    const struct json_column columns[] = {
        JSON_COLUMN("worker", NULL, NULL),
        JSON_COLUMN("load", "load_s", json_show_seconds),
        JSON_COLUMN("share", "load_s", NULL, .digits = 1, .factor = load_s > 0 ? 100 / load_s : 0, .unit = " %"),
        JSON_COLUMN("memory", "memory_bytes", show_memory),
        JSON_COLUMN("weights", "memory_bytes.weights", json_show_bytes),
        JSON_COLUMN("gradients", "memory_bytes.gradients", json_show_bytes),
        JSON_COLUMN("optimizer", "memory_bytes.optimizer", json_show_bytes),
        JSON_COLUMN("stash", "memory_bytes.stash", json_show_bytes),
        JSON_COLUMN("buffers", "memory_bytes.buffers", json_show_bytes),
        JSON_COLUMN("workspace", "memory_bytes.workspace", json_show_bytes),
    };
    enum { LOADS = 3, ALL = sizeof columns / sizeof columns[0] };
    size_t count = predicted->simulated ? ALL : LOADS;
    json_t *all = worker_json(load_s, &sum, predicted->simulated);
    json_table(&rows, json_object_get(json_object_get(document, "predicted"), "workers"), columns, count);
    json_table_row(&rows, "in all", all, columns, count);
    json_decref(all);
    text_add(out, "\n");
    text_add_table(out, &rows);
}

/* With enough digits for comparison with published figures. */
static const char *exact_seconds(double seconds, char out[32]) {
    if (seconds < 1e-3) return text_seconds(seconds, out);
    number_print(out, 32, "%.3f ms", 1e3 * seconds);
    return out;
}

static void add_why_not_simulated(struct text *out, const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    int fullest = 0;
    char needed[32];
    if (predicted->period_s == 0) {
        text_add(out, "This plan is for comparison: programs of its class (%s) can be neither run nor simulated.\n",
                 plan_class(plan));
        return;
    }
    for (int w = 1; w < plan->workers; w++)
        if (worker_memory_total(&predicted->memory[w]) > worker_memory_total(&predicted->memory[fullest])) fullest = w;
    text_add(out, "This plan is for comparison: its programs need more memory than there is, worker %d %s.\n", fullest,
             text_bytes(worker_memory_total(&predicted->memory[fullest]), needed));
}

static void add_figures(struct text *out, const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    char text[4][32], figures[200];
    number_print(figures, sizeof figures, "objective %s, lower bound %s, gap %.2f %%, found in %s",
                 exact_seconds(predicted->objective_s, text[1]), exact_seconds(predicted->lower_bound_s, text[2]),
                 100 * predicted->gap, text_seconds(predicted->solve_s, text[3]));
    if (!predicted->simulated) {
        text_add(out, "\n%s\n", figures);
        add_why_not_simulated(out, plan);
        return;
    }
    text_add(out, "\npredicted: a mini-batch every %s (%.4g samples/s), bubble %.1f %%\n",
             text_seconds(predicted->period_s, text[0]), predicted->throughput_samples_per_s, 100 * predicted->bubble);
    text_add(out, "%s\n", figures);
    if (predicted->limit[0]) text_add(out, "limited by %s\n", predicted->limit);
}

char *ps_plan_table(const struct ps_plan *plan) {
    struct text out = {0};
    json_t *document = plan_document(plan);
    text_add(&out, "%s: %d stage%s on %d worker%s, %s", plan->model, plan->stage_count, text_plural(plan->stage_count),
             plan->workers, text_plural(plan->workers), plan->schedule);
    text_add(&out, ", weights %s, %d micro-batch%s", plan->weights, plan->micro_batches, plan->micro_batches == 1 ? "" : "es");
    if (plan->micro_batch > 0) text_add(&out, " of %d", plan->micro_batch);
    if (plan->slack > 0) text_add(&out, ", slack %d", plan->slack);
    text_add(&out, "%s%s\n\n", plan->method[0] ? ", cut by " : "", plan->method);
    add_stages(&out, json_object_get(document, "stages"));
    if (plan->predicted.known) {
        add_loads(&out, document, plan);
        add_figures(&out, plan);
    }
    if (!document) out.failed = true;
    json_decref(document);
    return text_take(&out);
}
