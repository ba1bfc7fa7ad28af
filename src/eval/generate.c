/*
 * Text that a network writes (ps_generate): token after token, each drawn from what the network says follows those before it.
 * The network reads a fixed number of positions; tokens stand at the first of them, and what stands behind the last changes
 * nothing in a network that looks back only. Where the text gets longer, its end is read.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "base/versioned.h"
#include "data/corpus.h"
#include "eval/trained.h"

struct candidate {
    float logit;
    int token;
};

struct writing {
    const struct ps_generate_options *options;
    struct trained trained;
    struct vocabulary *words[2];   /* of a file that the options name */
    const struct vocabulary *used; /* NULL: tokens are written as numbers */
    struct token_list text;
    struct arena arena;
    int positions, choices; /* that the network reads; tokens that can be drawn */
    int64_t classes;
    int32_t *input, *labels;
    float *logits; /* of all positions */
    struct candidate *candidates;
};

static enum ps_status check(const struct ps_generate_options *options, struct ps_error *error) {
    if (!options->prompt) return error_set(error, PS_USAGE, "`prompt`: missing");
    if (options->tokens < 0) return error_set(error, PS_USAGE, "`tokens`: %d is less than 1", options->tokens);
    if (options->top_k < 0) return error_set(error, PS_USAGE, "`top_k`: %d is less than 1", options->top_k);
    if (!(options->temperature >= 0 && options->temperature <= 1e6))
        return error_set(error, PS_USAGE, "`temperature`: %g is not from 0 to 1e6", options->temperature);
    if (options->run && (options->vocabulary || options->tokenizer))
        return error_set(error, PS_USAGE, "`%s`: the run has its own", options->vocabulary ? "vocabulary" : "tokenizer");
    if (options->vocabulary && options->tokenizer)
        return error_set(error, PS_USAGE, "one of `vocabulary` and `tokenizer` can be given");
    return PS_OK;
}

/* It must read tokens and say for each position what follows. */
static enum ps_status check_network(const struct ps_network *network, struct ps_error *error) {
    const char *const name = network->name;
    if (network->graph->input_count != 1)
        return error_set(error, PS_USAGE, "%s reads %d inputs; text is written by networks that read tokens alone", name,
                         network->graph->input_count);
    if (network->predicts != PREDICTS_TOKENS) {
        error_set(error, PS_USAGE, "%s predicts %s, not the tokens that follow", name,
                  network->predicts == PREDICTS_CLASSES ? "classes" : "masked tokens");
        error_hint(error, "of a network that is given, `loss` next-token says so");
        return PS_USAGE;
    }
    if (network->vocabulary == 0 || input_elements(&network->inputs[0]) != network->labels)
        return error_set(error, PS_USAGE, "%s does not say for each token that it reads what follows", name);
    return PS_OK;
}

/* ------------------------------------------------------------------- words */

static enum ps_status read_tokenizer(const char *path, struct vocabulary **made, struct ps_error *error) {
    struct tokenizer *tokenizer;
    char *json;
    size_t size;
    TRY(file_read(path, SIZE_MAX, &json, &size, error));
    enum ps_status status = tokenizer_create(json, size, path, &tokenizer, error);
    free(json);
    TRY(status);
    *made = vocabulary_of_tokenizer(tokenizer, 0, error);
    return *made ? PS_OK : PS_OUT_OF_MEMORY;
}

static enum ps_status open_words(struct writing *w, struct ps_error *error) {
    const struct ps_generate_options *options = w->options;
    if (options->vocabulary) TRY(vocabulary_read(options->vocabulary, w->words, error));
    if (options->tokenizer) TRY(read_tokenizer(options->tokenizer, &w->words[0], error));
    w->used = options->run ? w->trained.words[0] : w->words[0];
    w->choices = (int)w->classes;
    if (w->used && vocabulary_size(w->used) < w->choices) w->choices = vocabulary_size(w->used);
    return PS_OK;
}

/* Without a vocabulary the prompt has numbers. */
static enum ps_status read_numbers(struct writing *w, struct ps_error *error) {
    const char *at = w->options->prompt;
    for (char *end;; at = end) {
        at += strspn(at, " \t\r\n,");
        if (*at == '\0') return PS_OK;
        const long number = strtol(at, &end, 10);
        if (end == at) {
            error_set(error, PS_USAGE, "`prompt`: '%.40s' is no number, and no vocabulary is known that has tokens", at);
            error_hint(error, "give the numbers of its tokens, or `tokenizer` FILE (tokenizer.json) or `vocabulary` FILE");
            return PS_USAGE;
        }
        TRY(token_list_add(&w->text, (int32_t)number_smaller(number, INT32_MAX), error));
    }
}

static enum ps_status read_prompt(struct writing *w, struct ps_error *error) {
    const char *prompt = w->options->prompt;
    TRY(w->used ? running_text_number(w->used, prompt, strlen(prompt), &w->text, error) : read_numbers(w, error));
    if (w->text.count == 0) return error_set(error, PS_USAGE, "`prompt`: has no token");
    for (size_t i = 0; i < w->text.count; i++)
        if (w->text.tokens[i] < 0 || w->text.tokens[i] >= w->trained.network->vocabulary)
            return error_set(error, PS_USAGE, "`prompt`: token %d; %s knows 0 to %d", w->text.tokens[i],
                             w->trained.network->name, w->trained.network->vocabulary - 1);
    return PS_OK;
}

static enum ps_status spell(struct writing *w, char **text, struct ps_error *error) {
    struct text out = {0};
    text_add_raw(&out, "", 0);
    if (w->used) TRY(running_text_spell(w->used, w->text.tokens, (int64_t)w->text.count, &out, error));
    for (size_t i = 0; i < w->text.count && !w->used; i++) text_add(&out, "%s%d", i > 0 ? " " : "", w->text.tokens[i]);
    const size_t length = out.length;
    char *made = text_take(&out);
    if (!made) return error_memory(error, "a text", w->text.count);
    if (w->options->path) {
        const struct file_piece pieces[2] = {{made, length}, {"\n", length == 0 || made[length - 1] != '\n'}};
        enum ps_status status = file_write_pieces(w->options->path, pieces, 2, error);
        if (status != PS_OK) free(made);
        TRY(status);
    }
    *text = made;
    return PS_OK;
}

/* ------------------------------------------------------------------ drawing */

/* The more probable first; of equal ones the smaller number. */
static int compare(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : x->token - y->token;
}

/* A token from the logits of one position. */
static int draw(struct writing *w, const float *logits, uint64_t number) {
    const struct ps_generate_options *options = w->options;
    const int most = options->top_k > 0 && options->top_k < w->choices ? options->top_k : w->choices;
    for (int t = 0; t < w->choices; t++) w->candidates[t] = (struct candidate){logits[t], t};
    qsort(w->candidates, (size_t)w->choices, sizeof *w->candidates, compare);
    if (options->temperature == 0) return w->candidates[0].token;
    double sum = 0, passed = 0;
    const double largest = (double)w->candidates[0].logit;
    for (int c = 0; c < most; c++) sum += exp(((double)w->candidates[c].logit - largest) / options->temperature);
    const double at = sum * (double)random_uniform(random_key(options->seed, RANDOM_SAMPLING, 0, 0), number);
    int drawn = 0;
    for (; drawn < most - 1; drawn++) {
        passed += exp(((double)w->candidates[drawn].logit - largest) / options->temperature);
        if (passed > at) break;
    }
    return w->candidates[drawn].token;
}

static enum ps_status next_token(struct writing *w, uint64_t number, struct ps_error *error) {
    struct trained *trained = &w->trained;
    const int count = (int)number_smaller((int64_t)w->text.count, w->positions);
    const struct stage_step step = {.target = w->labels, .samples = 1};
    struct stage_result result = {0};
    memset(w->input, 0, (size_t)w->positions * sizeof *w->input);
    memcpy(w->input, w->text.tokens + w->text.count - (size_t)count, (size_t)count * sizeof *w->input);
    device_copy(trained->device, trained->blocks.input, w->input, (size_t)w->positions * sizeof *w->input);
    TRY(stage_forward(trained->stage, &trained->blocks, &step, &result, error));
    stage_take_output(trained->stage, &trained->blocks, w->logits);
    TRY(device_check(trained->device, error));
    const float *logits = w->logits + (count - 1) * w->classes;
    for (int t = 0; t < w->choices; t++)
        if (!isfinite(logits[t])) return error_set(error, PS_FAILED, "an output is not a number: the weights are not usable");
    return token_list_add(&w->text, draw(w, logits, number), error);
}

static enum ps_status write_text(struct writing *w, char **text, struct ps_error *error) {
    const struct ps_generate_options *options = w->options;
    const int wanted = options->tokens > 0 ? options->tokens : 100;
    TRY(trained_open(options->run, options->checkpoint, options->network, &w->trained, error));
    const struct ps_network *network = w->trained.network;
    TRY(check_network(network, error));
    w->positions = network->labels;
    w->classes = network->classes;
    TRY(open_words(w, error));
    TRY(read_prompt(w, error));
    w->input = arena_take(&w->arena, (size_t)w->positions, sizeof *w->input);
    w->labels = arena_take(&w->arena, (size_t)w->positions, sizeof *w->labels);
    w->logits = arena_take(&w->arena, (size_t)(w->positions * w->classes), sizeof *w->logits);
    w->candidates = arena_take(&w->arena, (size_t)w->choices, sizeof *w->candidates);
    TRY(arena_check(&w->arena, "a text", error));
    memset(w->labels, -1, (size_t)w->positions * sizeof *w->labels);
    TRY(trained_open_device(&w->trained, options->device, options->threads, error));
    TRY(trained_make_stage(&w->trained, network->graph, 1, error));
    for (int t = 0; t < wanted; t++) {
        TRY(next_token(w, (uint64_t)t, error));
        log_progress("writing", t + 1, wanted, "%s", "");
    }
    return spell(w, text, error);
}

void ps_generate_options_init(struct ps_generate_options *options) {
    *options = (struct ps_generate_options){.struct_size = sizeof *options, .temperature = 1};
}

enum ps_status ps_generate(const struct ps_generate_options *given, char **text, struct ps_error *error) {
    struct ps_generate_options options;
    TRY(VERSIONED_TAKE(ps_generate_options, given, &options, error));
    TRY(log_check(options.log, error));
    TRY(check(&options, error));
    const struct ps_log_sink *log = log_use(options.log);
    struct writing writing = {.options = &options};
    enum ps_status status = write_text(&writing, text, error);
    trained_close(&writing.trained);
    for (int v = 0; v < 2; v++) vocabulary_destroy(writing.words[v]);
    free(writing.text.tokens);
    arena_release(&writing.arena);
    log_restore(log);
    return status;
}
