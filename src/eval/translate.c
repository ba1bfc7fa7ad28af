/*
 * Beam search over rows of the network's input: sentence s of a round has the rows s * beam and on, each with one hypothesis.
 * At each position the best `beam` extensions of the hypotheses are kept; hypotheses that have ended compete unchanged.
 */
#include "eval/translate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "data/pairs.h"
#include "data/vocabulary.h"

#define LENGTH_POWER 0.6

/* The hypothesis of a row; its tokens are in search.tokens. */
struct hypothesis {
    double log_probability; /* -INFINITY: the row is empty */
    int length;             /* tokens, the end included */
    bool ended;
};

struct candidate {
    int row, token; /* -1: has ended before */
    struct hypothesis hypothesis;
    double rank;
};

struct search {
    const struct translation_options *options;
    int64_t source, target, classes; /* positions; tokens of the target */
    int32_t *tokens, *next_tokens;   /* rows x target */
    struct stage_blocks blocks;      /* the caller's, with: */
    float *next_state;               /* where the state is copied when rows are reordered */
    struct memory_block states;      /* both */
    int32_t *input;                  /* the host's: what all rows read, */
    float *probabilities;            /* and rows x classes */
    int *parents;                    /* the row whose hypothesis a row's extends */
    struct hypothesis *rows;
    struct candidate *candidates; /* the best so far, `beam` at most */
    int candidate_count;
    int32_t *sample; /* one sample, as the dataset reads it */
    int32_t *labels; /* none counts */
    bool *kept;      /* layers that do not depend on the decoder's tokens */
};

/* Does the node read the tokens being decoded? The target's tokens are the data's last positions. */
static bool reads_target(const struct node *node, int64_t source, const bool *reached) {
    for (int i = 0; i < node->input_count; i++) {
        if (reached[node->inputs[i]]) return true;
        bool whole = node->inputs[i] == 0; /* all of the data */
        if (whole && (node->id != OPERATOR_SLICE || node->attributes.first + node->attributes.count > source)) return true;
    }
    return false;
}

/* Marks the layers of which no node depends on the target's tokens. A node that works in place overwrites values of its own
 * layer alone, so those of marked layers stay. */
static enum ps_status mark_kept(const struct graph *graph, int64_t source, bool *kept, struct ps_error *error) {
    bool *reached;
    TRY(memory_new(&reached, graph->node_count, "a translation", error));
    for (int l = 0; l < graph->layer_count; l++) kept[l] = true;
    for (int n = 1; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        reached[n] = reads_target(node, source, reached);
        if (reached[n] && node->layer >= 0) kept[node->layer] = false;
    }
    free(reached);
    return PS_OK;
}

static double rank_of(const struct hypothesis *h) { return h->log_probability / pow((5.0 + h->length) / 6, LENGTH_POWER); }

/* Keeps the candidate if it is among the best; of equal ones the first. */
static void offer(struct search *search, struct candidate candidate) {
    int beam = search->options->beam, place = search->candidate_count;
    while (place > 0 && search->candidates[place - 1].rank < candidate.rank) place--;
    if (place == beam) return;
    int moved = (search->candidate_count < beam ? search->candidate_count : beam - 1) - place;
    memmove(&search->candidates[place + 1], &search->candidates[place], (size_t)moved * sizeof candidate);
    search->candidates[place] = candidate;
    if (search->candidate_count < beam) search->candidate_count++;
}

/* All extensions of the row's hypothesis by one token. */
static void extend(struct search *search, int row, const float *probabilities) {
    struct hypothesis h = search->rows[row];
    const float *p = probabilities + row * search->classes;
    if (h.ended || isinf(h.log_probability)) {
        if (h.ended) offer(search, (struct candidate){row, -1, h, rank_of(&h)});
        return;
    }
    double scale = pow((5.0 + h.length + 1) / 6, LENGTH_POWER), least = 0; /* less probable tokens are not kept */
    for (int token = VOCABULARY_UNKNOWN; token < search->classes; token++) {
        if (token == VOCABULARY_START || (double)p[token] <= least) continue;
        struct hypothesis longer = {h.log_probability + log((double)p[token]), h.length + 1, token == VOCABULARY_END};
        offer(search, (struct candidate){row, token, longer, longer.log_probability / scale});
        if (search->candidate_count < search->options->beam) continue;
        least = exp(search->candidates[search->candidate_count - 1].rank * scale - h.log_probability) * (1 - 1e-12);
    }
}

/* Advances a sentence whose rows begin at `first` by one position. Returns whether all its hypotheses have ended. */
static bool advance(struct search *search, int first, int64_t position, const float *probabilities) {
    int beam = search->options->beam;
    size_t bytes = (size_t)search->target * sizeof *search->tokens;
    search->candidate_count = 0;
    for (int b = 0; b < beam; b++) extend(search, first + b, probabilities);
    bool ended = true;
    for (int b = 0; b < search->candidate_count; b++) {
        const struct candidate *candidate = &search->candidates[b];
        int32_t *tokens = search->next_tokens + (first + b) * search->target;
        memcpy(tokens, search->tokens + candidate->row * search->target, bytes);
        if (candidate->token >= 0) tokens[position] = candidate->token;
        ended = ended && candidate->hypothesis.ended;
    }
    for (int b = 0; b < beam; b++) {
        struct hypothesis none = {.log_probability = -INFINITY};
        search->rows[first + b] = b < search->candidate_count ? search->candidates[b].hypothesis : none;
        search->parents[first + b] = b < search->candidate_count ? search->candidates[b].row : first + b;
    }
    memcpy(search->tokens + first * search->target, search->next_tokens + first * search->target, (size_t)beam * bytes);
    return ended;
}

static size_t input_bytes(const struct search *search) {
    return (size_t)(search->options->rows * (search->source + 1)) * sizeof *search->input;
}

/* Fills the rows of `count` sentences from sample `first` on: the source, and one empty hypothesis each. What stands in the
 * others, and behind the end of a hypothesis, counts for nothing. */
static enum ps_status begin(struct search *search, int64_t first, int count, struct ps_error *error) {
    const struct translation_options *o = search->options;
    const struct dataset *dataset = o->samples->dataset;
    int64_t length = search->source + 1;
    device_zero(o->device, search->blocks.state, (size_t)stage_state_bytes(o->stage));
    for (int row = 0; row < o->rows; row++) {
        search->rows[row] = (struct hypothesis){.log_probability = -INFINITY};
        search->parents[row] = row;
    }
    for (int s = 0; s < count; s++) {
        TRY(dataset->class->read(dataset, o->samples->first + first + s, search->sample, search->labels, error));
        for (int b = 0; b < o->beam; b++) {
            memcpy(search->input + (s * o->beam + b) * length, search->sample, (size_t)search->source * sizeof *search->input);
        }
        search->rows[s * o->beam].log_probability = 0;
    }
    for (int64_t i = 0; i < o->rows; i++) search->labels[i] = -1;
    return PS_OK;
}

/* Decodes one position for all rows: the decoder reads the token before it and continues from its last state. */
static enum ps_status decode(struct search *search, int64_t position, struct ps_error *error) {
    const struct translation_options *o = search->options;
    struct stage_step step = {.target = search->labels};
    for (int64_t row = 0; row < o->rows; row++) {
        int32_t *input = search->input + row * (search->source + 1) + search->source;
        *input = position > 0 ? search->tokens[row * search->target + position - 1] : VOCABULARY_START;
    }
    device_copy(o->device, o->blocks.input, search->input, input_bytes(search));
    TRY(stage_forward_again(o->stage, &search->blocks, &step, position > 0 ? search->kept : NULL, NULL, error));
    device_copy(o->device, search->probabilities, stage_probabilities(o->stage, &search->blocks),
                (size_t)(o->rows * search->classes) * sizeof *search->probabilities);
    device_finish(o->device);
    return device_check(o->device, error);
}

/* Moves the state with the hypotheses to their rows. With one row per sentence none has moved. */
static void move_state(struct search *search) {
    if (search->options->beam == 1) return;
    float *moved = search->next_state;
    stage_state_take(search->options->stage, search->blocks.state, search->parents, moved);
    search->next_state = search->blocks.state;
    search->blocks.state = moved;
}

enum ps_status translate_count(const struct samples *samples, int64_t index, const int32_t *tokens, int64_t count,
                               struct text *sentences, struct bleu *bleu, struct ps_error *error) {
    struct text sentence = {0}, reference = {0};
    pairs_spell(samples->dataset, tokens, count, &sentence);
    pairs_reference(samples->dataset, samples->first + index, &reference);
    char *text = text_take(&sentence), *wanted = text_take(&reference);
    if (text && sentences) text_add(sentences, "%s\n", text);
    enum ps_status status = text && wanted ? bleu_add(bleu, text, wanted, error) : error_memory(error, "a sentence", 256);
    free(text);
    free(wanted);
    return status;
}

/* Counts the best hypothesis of each sentence. */
static enum ps_status finish(struct search *search, int64_t first, int count, struct bleu *bleu, struct ps_error *error) {
    const struct translation_options *o = search->options;
    for (int s = 0; s < count; s++) {
        int64_t row = (int64_t)s * o->beam; /* candidates are kept in order: the first is the best */
        const int32_t *tokens = search->tokens + row * search->target;
        TRY(translate_count(o->samples, first + s, tokens, search->rows[row].length, o->sentences, bleu, error));
    }
    return PS_OK;
}

static enum ps_status run(struct search *search, struct bleu *bleu, struct ps_error *error) {
    const struct translation_options *o = search->options;
    int round = o->rows / o->beam;
    for (int64_t first = 0; first < o->samples->count; first += round) {
        int count = (int)(o->samples->count - first < round ? o->samples->count - first : round);
        bool ended = false;
        TRY(begin(search, first, count, error));
        for (int64_t position = 0; position < search->target && !ended; position++) {
            TRY(decode(search, position, error));
            ended = true;
            for (int s = 0; s < count; s++) ended = advance(search, s * o->beam, position, search->probabilities) && ended;
            move_state(search);
        }
        TRY(finish(search, first, count, bleu, error));
        log_progress("translating", (double)(first + count), (double)o->samples->count, "%s", "");
    }
    return PS_OK;
}

static enum ps_status take_states(struct search *search, struct ps_error *error) {
    const struct translation_options *o = search->options;
    const size_t bytes = memory_align((size_t)stage_state_bytes(o->stage));
    TRY(device_take(o->device, &search->states, 2 * bytes, "beam search", error));
    search->blocks.state = memory_block_carve(&search->states, bytes);
    search->next_state = memory_block_carve(&search->states, bytes);
    return PS_OK;
}

static enum ps_status take_memory(struct search *search, struct ps_error *error) {
    static const char what[] = "beam search";
    const struct translation_options *o = search->options;
    const int64_t rows = o->rows, tokens = rows * search->target;
    TRY(memory_new(&search->tokens, tokens, what, error));
    TRY(memory_new(&search->next_tokens, tokens, what, error));
    TRY(memory_new(&search->input, rows * (search->source + 1), what, error));
    TRY(memory_new(&search->probabilities, rows * search->classes, what, error));
    TRY(memory_new(&search->parents, rows, what, error));
    TRY(memory_new(&search->rows, rows, what, error));
    TRY(memory_new(&search->candidates, o->beam, what, error));
    TRY(memory_new(&search->sample, search->source + search->target, what, error));
    TRY(memory_new(&search->labels, tokens, what, error));
    return memory_new(&search->kept, o->graph->layer_count, what, error);
}

enum ps_status translate(const struct translation_options *options, struct bleu *bleu, struct ps_error *error) {
    const struct dataset_shape *shape = &options->samples->dataset->shape;
    struct search search = {
        .options = options, .target = dataset_labels(shape), .classes = shape->classes, .blocks = options->blocks};
    search.source = shape->height - search.target;
    enum ps_status status = take_memory(&search, error);
    if (status == PS_OK) status = take_states(&search, error);
    if (status == PS_OK) status = mark_kept(options->graph, search.source, search.kept, error);
    if (status == PS_OK) status = run(&search, bleu, error);
    free(search.tokens);
    free(search.next_tokens);
    device_give(options->device, &search.states);
    free(search.input);
    free(search.probabilities);
    free(search.parents);
    free(search.rows);
    free(search.candidates);
    free(search.sample);
    free(search.labels);
    free(search.kept);
    return status;
}
