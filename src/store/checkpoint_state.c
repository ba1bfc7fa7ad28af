/* state.json: the counters of a checkpoint; see checkpoint.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "store/checkpoint.h"

/* ------------------------------------------------------------------------- writing */

static const struct {
    const char *name;
    size_t offset;
} figures[] = {
    {"loss", offsetof(struct log_entry, loss)},
    {"accuracy", offsetof(struct log_entry, accuracy)},
    {"valid_loss", offsetof(struct log_entry, valid_loss)},
    {"valid_accuracy", offsetof(struct log_entry, valid_accuracy)},
    {"top5", offsetof(struct log_entry, top5)},
    {"valid_top5", offsetof(struct log_entry, valid_top5)},
    {"perplexity", offsetof(struct log_entry, perplexity)},
    {"valid_perplexity", offsetof(struct log_entry, valid_perplexity)},
    {"valid_bleu", offsetof(struct log_entry, valid_bleu)},
    {"lr", offsetof(struct log_entry, lr)},
    {"samples_per_s", offsetof(struct log_entry, samples_per_s)},
    {"elapsed_s", offsetof(struct log_entry, elapsed_s)},
};
enum { FIGURES = sizeof figures / sizeof *figures };

static json_t *figures_document(const struct log_entry *entry) {
    json_t *document = json_pack("{s:I, s:I}", "step", (json_int_t)entry->step, "epoch", (json_int_t)entry->epoch);
    for (int i = 0; i < FIGURES; i++) {
        double value;
        memcpy(&value, (const char *)entry + figures[i].offset, sizeof value);
        json_set_finite(document, figures[i].name, value);
    }
    return document;
}

static json_t *stages_document(const struct checkpoint_stage *stages, int stage_count) {
    json_t *document = json_array();
    for (int s = 0; s < stage_count; s++)
        json_array_append_new(document, json_pack("{s:[i, i], s:I}", "layers", stages[s].first + 1, stages[s].last + 1,
                                                  "updates", (json_int_t)stages[s].updates));
    return document;
}

static json_t *sum_document(const struct step_sum *steps) {
    const struct stage_result *sum = &steps->sum;
    return json_pack("{s:f, s:I, s:I, s:I, s:f, s:I}", "loss", sum->loss, "correct", (json_int_t)sum->correct, "correct5",
                     (json_int_t)sum->correct5, "counted", (json_int_t)sum->counted, "weight", sum->weight, "steps",
                     (json_int_t)steps->steps);
}

json_t *checkpoint_state_document(const struct checkpoint_state *state, const struct checkpoint_stage *stages,
                                  int stage_count) {
    char seed[32];
    /* JSON integers end at 2^63. */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)state->seed);
    json_t *busy = json_array(), *sent = json_array(), *received = json_array();
    for (int w = 0; w < state->workers; w++) {
        json_array_append_new(busy, json_real(state->totals[w].busy_s));
        json_array_append_new(sent, json_integer(state->totals[w].traffic.sent));
        json_array_append_new(received, json_integer(state->totals[w].traffic.received));
    }
    json_t *best = NULL;
    if (state->best.step > 0)
        best = json_pack("{s:I, s:I, s:s, s:f}", "step", (json_int_t)state->best.step, "evaluations_since",
                         (json_int_t)state->best.since, "by", state->best.by, "value", state->best.value);
    return json_pack("{s:s, s:i, s:o*, s:o*, s:s, s:s*, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}", "format",
                     "penstock-state", "version", 1, "best", best, "unevaluated", state->unevaluated ? json_true() : NULL,
                     "model", state->model, "network", state->network[0] ? state->network : NULL, "seed", seed, "step",
                     (json_int_t)state->step, "epoch_steps", (json_int_t)state->epoch_steps, "samples",
                     (json_int_t)state->samples, "epoch_so_far", sum_document(&state->epoch), "line_so_far",
                     sum_document(&state->line), "figures", figures_document(&state->figures), "training_s", state->training_s,
                     "busy_s", busy, "sent_bytes", sent, "received_bytes", received, "stages",
                     stages_document(stages, stage_count));
}

/* ------------------------------------------------------------------------- reading */

static enum ps_status read_figures(const struct json_place *root, struct log_entry *entry, struct ps_error *error) {
    struct json_place place;
    TRY(json_field(root, "figures", true, &place, error));
    TRY(json_get_integer(&place, "step", true, 0, INT32_MAX, &entry->step, error));
    TRY(json_get_integer(&place, "epoch", true, 0, INT32_MAX, &entry->epoch, error));
    for (int i = 0; i < FIGURES; i++) {
        double value = NAN;
        TRY(json_get_number(&place, figures[i].name, false, -INFINITY, INFINITY, &value, error));
        memcpy((char *)entry + figures[i].offset, &value, sizeof value);
    }
    return PS_OK;
}

/* The stage that begins with layer `begin`. */
static enum ps_status read_stage(const struct json_place *stages, size_t index, int begin, struct checkpoint_stage *stage,
                                 struct ps_error *error) {
    struct json_place place, layers;
    TRY(json_item(stages, index, &place, error));
    TRY(json_get_integer(&place, "updates", true, 0, INT64_MAX, &stage->updates, error));
    TRY(json_field(&place, "layers", true, &layers, error));
    json_t *first = json_array_get(layers.value, 0), *last = json_array_get(layers.value, 1);
    bool fits = json_is_integer(first) && json_is_integer(last) && json_integer_value(first) == begin + 1 &&
                json_integer_value(last) > begin && json_integer_value(last) < INT32_MAX;
    if (!fits) return json_error(&layers, error, "must be two layers, the first, which is %d, and the last", begin + 1);
    stage->first = begin;
    stage->last = (int)json_integer_value(last) - 1;
    return PS_OK;
}

static enum ps_status read_stages(const struct json_place *root, struct checkpoint *checkpoint, struct ps_error *error) {
    struct json_place stages;
    size_t count;
    TRY(json_field(root, "stages", true, &stages, error));
    TRY(json_array_length(&stages, &count, error));
    if (count == 0) return json_error(&stages, error, "there must be at least one");
    TRY(memory_new(&checkpoint->stages, count, "a checkpoint's stages", error));
    int begin = 0;
    for (; (size_t)checkpoint->stage_count < count; checkpoint->stage_count++) {
        struct checkpoint_stage *stage = &checkpoint->stages[checkpoint->stage_count];
        TRY(read_stage(&stages, (size_t)checkpoint->stage_count, begin, stage, error));
        begin = stage->last + 1;
    }
    return PS_OK;
}

/* Of earlier versions' files only `busy_s` is known. */
static enum ps_status read_totals(const struct json_place *root, struct checkpoint_state *state, struct ps_error *error) {
    static const char *const names[] = {"busy_s", "sent_bytes", "received_bytes"};
    enum { BUSY, SENT, RECEIVED, LISTS };
    struct json_place lists[LISTS];
    size_t count[LISTS];
    for (int l = 0; l < LISTS; l++) {
        TRY(json_field(root, names[l], l == BUSY, &lists[l], error));
        if (lists[l].value) TRY(json_array_length(&lists[l], &count[l], error));
    }
    TRY(memory_new(&state->totals, count[BUSY] + 1, "a checkpoint's workers", error));
    state->workers = (int)count[BUSY];
    for (size_t w = 0; w < count[BUSY]; w++) {
        struct worker_totals *totals = &state->totals[w];
        totals->busy_s = json_number_value(json_array_get(lists[BUSY].value, w));
        totals->traffic.sent = json_integer_value(json_array_get(lists[SENT].value, w));
        totals->traffic.received = json_integer_value(json_array_get(lists[RECEIVED].value, w));
    }
    return PS_OK;
}

/* Of earlier versions' files the line is not known. */
static enum ps_status read_sum(const struct json_place *root, const char *name, bool required, struct step_sum *steps,
                               struct ps_error *error) {
    struct json_place place;
    struct stage_result *sum = &steps->sum;
    TRY(json_field(root, name, required, &place, error));
    if (!place.value) return PS_OK;
    TRY(json_get_number(&place, "loss", true, -INFINITY, INFINITY, &sum->loss, error));
    TRY(json_get_integer(&place, "correct", true, 0, INT64_MAX, &sum->correct, error));
    TRY(json_get_integer(&place, "correct5", true, 0, INT64_MAX, &sum->correct5, error));
    TRY(json_get_integer(&place, "counted", true, 0, INT64_MAX, &sum->counted, error));
    sum->weight = (double)sum->counted; /* of files without class weights, which do not say it */
    TRY(json_get_number(&place, "weight", false, 0, INFINITY, &sum->weight, error));
    return json_get_integer(&place, "steps", true, 0, INT64_MAX, &steps->steps, error);
}

static enum ps_status read_best(const struct json_place *root, struct best_evaluation *best, struct ps_error *error) {
    struct json_place place;
    const char *by;
    TRY(json_field(root, "best", false, &place, error));
    if (!place.value) return PS_OK;
    TRY(json_get_string(&place, "by", true, &by, error));
    snprintf(best->by, sizeof best->by, "%.15s", by);
    TRY(json_get_integer(&place, "evaluations_since", true, 0, INT64_MAX, &best->since, error));
    TRY(json_get_number(&place, "value", true, -INFINITY, INFINITY, &best->value, error));
    return json_get_integer(&place, "step", true, 1, INT32_MAX, &best->step, error);
}

static enum ps_status read_document(const struct json_place *root, struct checkpoint *checkpoint, struct ps_error *error) {
    struct checkpoint_state *state = &checkpoint->state;
    const char *model, *network = "", *seed;
    TRY(json_get_string(root, "model", true, &model, error));
    TRY(json_get_string(root, "network", false, &network, error));
    TRY(json_get_string(root, "seed", true, &seed, error));
    snprintf(state->network, sizeof state->network, "%s", network);
    snprintf(state->model, sizeof state->model, "%s", model);
    state->seed = strtoull(seed, NULL, 10);
    TRY(json_get_integer(root, "step", true, 0, INT32_MAX, &state->step, error));
    TRY(json_get_bool(root, "unevaluated", false, &state->unevaluated, error));
    TRY(json_get_integer(root, "epoch_steps", true, 0, INT64_MAX, &state->epoch_steps, error));
    TRY(json_get_integer(root, "samples", false, 0, INT64_MAX, &state->samples, error));
    TRY(read_sum(root, "epoch_so_far", true, &state->epoch, error));
    TRY(read_sum(root, "line_so_far", false, &state->line, error));
    TRY(read_best(root, &state->best, error));
    TRY(read_figures(root, &state->figures, error));
    TRY(json_get_number(root, "training_s", true, 0, INFINITY, &state->training_s, error));
    TRY(read_totals(root, state, error));
    return read_stages(root, checkpoint, error);
}

enum ps_status checkpoint_state_read(struct checkpoint *checkpoint, struct ps_error *error) {
    char path[4096];
    json_t *document;
    TRY(json_read_file(file_join(path, checkpoint->directory, CHECKPOINT_STATE), "penstock-state", &document, error));
    struct json_place root = json_root(document, path);
    enum ps_status status = read_document(&root, checkpoint, error);
    json_decref(document);
    return status;
}
