/*
 * Translating with a small GNMT of random weights, one position at a time, against the whole network: greedy against the most
 * probable token at each position, and a beam that is wide enough to keep everything against all sentences there are. A network
 * that goes on from its state gives what the whole one gives, also when samples change places on the way. The network for one
 * position runs on the device of the test, the whole one always in the host's memory.
 */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "chain.h"
#include "data/pairs.h"
#include "data/vocabulary.h"
#include "eval/translate.h"
#include "graph/model.h"
#include "within.h"

enum { SOURCE = 4, TARGET = 3, WORDS = 7, ROWS = 64 };

struct network {
    struct ps_network *model, *stepping;
    struct device *host, *device;
    struct chain *chain, *step; /* the whole network, on `host`; for one position, on `device` */
    struct samples samples;
    uint64_t weights; /* the seed of the weights; 0: that of the tests */
};

static void fill_weights(struct network *n) {
    struct stage *stage = n->chain->stages[0];
    assert_int_equal(stage_parameter_count(stage), stage_parameter_count(n->step->stages[0]));
    for (int p = 0; p < stage_parameter_count(stage); p++) {
        const struct parameter *parameter = stage_parameter(stage, p);
        assert_string_equal(parameter->name, stage_parameter(n->step->stages[0], p)->name);
        int64_t count = shape_elements(&parameter->shape);
        float *values = malloc((size_t)count * sizeof *values);
        assert_non_null(values);
        const struct random_key key =
            n->weights > 0 ? random_key(n->weights, RANDOM_TEST, (uint64_t)p, 0) : test_key(6 + (uint64_t)p);
        for (int64_t i = 0; i < count; i++) values[i] = 5 * random_uniform(key, (uint64_t)i) - 2.5f;
        assert_ok(stage_import(stage, p, values, n->chain->weights[0], NULL, &test_error));
        assert_ok(stage_import(n->step->stages[0], p, values, n->step->weights[0], NULL, &test_error));
        free(values);
    }
}

static void open_network(struct network *n, const char *device, uint64_t weights) {
    char path[4096], spec[4200];
    n->weights = weights;
    snprintf(spec, sizeof spec, "gnmt-l,layers=4,seq=%d,target=%d,vocab=%d,hidden=8", SOURCE, TARGET, WORDS);
    assert_ok(ps_network_open(spec, &n->model, &test_error));
    n->host = chain_device(device);
    n->device = chain_device(test_device(device));
    n->chain = chain_create(n->host, n->model->graph, ROWS, 1, NULL, 0);
    assert_ok(network_create_stepping(n->model, &n->stepping, &test_error));
    n->step = chain_create(n->device, n->stepping->graph, ROWS, 1, NULL, 0);
    fill_weights(n);
    static const char source[] = "a b c\nb\nc c a b a\na\nb b\n", target[] = "x y z\nz\ny x x x\ny\nx z\n";
    test_file_write(file_join(path, test_directory, "t.en"), source, strlen(source));
    test_file_write(file_join(path, test_directory, "t.de"), target, strlen(target));
    struct dataset_shape wanted = {.channels = 1,
                                   .height = SOURCE + TARGET,
                                   .width = 1,
                                   .classes = WORDS,
                                   .labels = TARGET,
                                   .vocabulary = WORDS,
                                   .gives_tokens = true};
    snprintf(spec, sizeof spec, "pairs:%s/t:en:de", test_directory);
    assert_ok(samples_open(spec, DATASET_TRAIN, &wanted, &n->samples, &test_error));
}

static void close_network(struct network *n) {
    samples_close(&n->samples);
    chain_destroy(n->chain);
    chain_destroy(n->step);
    device_close(n->host);
    device_close(n->device);
    ps_network_destroy(n->model);
    ps_network_destroy(n->stepping);
}

static char *translations(struct network *n, int beam, struct bleu *bleu) {
    struct text sentences = {0};
    struct translation_options options = {.device = n->device,
                                          .stage = n->step->stages[0],
                                          .graph = n->stepping->graph,
                                          .blocks = n->step->blocks[0][0],
                                          .rows = ROWS,
                                          .beam = beam,
                                          .samples = &n->samples,
                                          .sentences = &sentences};
    assert_ok(translate(&options, bleu, &test_error));
    return text_take(&sentences);
}

/* Probabilities at all positions when the decoder reads `tokens` behind the start, for sample `index`: TARGET x WORDS. */
static const float *probabilities(struct network *n, int64_t index, const int32_t tokens[TARGET]) {
    struct stage_blocks *blocks = &n->chain->blocks[0][0];
    int32_t labels[ROWS * TARGET], unused[TARGET];
    for (int i = 0; i < ROWS * TARGET; i++) labels[i] = -1;
    int32_t *input = blocks->input;
    memset(input, 0, (size_t)(ROWS * (SOURCE + TARGET)) * sizeof *input);
    assert_ok(n->samples.dataset->class->read(n->samples.dataset, index, input, unused, &test_error));
    for (int t = 1; t < TARGET; t++) input[SOURCE + t] = tokens[t - 1];
    struct stage_step step = {.target = labels};
    assert_ok(stage_forward(n->chain->stages[0], blocks, &step, NULL, &test_error));
    return stage_probabilities(n->chain->stages[0], blocks);
}

static bool allowed(int token) { return token != VOCABULARY_PADDING && token != VOCABULARY_START; }

static void greedy(struct network *n, int64_t index, int32_t tokens[TARGET]) {
    memset(tokens, 0, TARGET * sizeof *tokens);
    for (int t = 0; t < TARGET && (t == 0 || tokens[t - 1] != VOCABULARY_END); t++) {
        const float *p = probabilities(n, index, tokens) + t * WORDS;
        int best = VOCABULARY_UNKNOWN;
        for (int w = 0; w < WORDS; w++) best = allowed(w) && p[w] > p[best] ? w : best;
        tokens[t] = best;
    }
}

/* The best of all sentences that begin with `tokens`. */
static void exhaust(struct network *n, int64_t index, int length, double log_probability, int32_t tokens[TARGET], double *rank,
                    int32_t best[TARGET]) {
    if (length == TARGET || (length > 0 && tokens[length - 1] == VOCABULARY_END)) {
        double own = log_probability / pow((5.0 + length) / 6, 0.6);
        if (own <= *rank) return;
        *rank = own;
        memcpy(best, tokens, TARGET * sizeof *tokens);
        return;
    }
    float p[WORDS];
    memcpy(p, probabilities(n, index, tokens) + length * WORDS, sizeof p);
    for (int w = 0; w < WORDS; w++) {
        if (!allowed(w)) continue;
        tokens[length] = w;
        exhaust(n, index, length + 1, log_probability + log((double)p[w]), tokens, rank, best);
        tokens[length] = 0;
    }
}

static bool lines_differ(const char *text) {
    const size_t first = strcspn(text, "\n") + 1;
    while (*text && strncmp(text, text + first, first) == 0) text += first;
    return text[first] != '\0';
}

static void check_translations(struct network *n, int beam) {
    struct bleu bleu = {0}, again = {0};
    char *got = translations(n, beam, &bleu);
    struct text wanted = {0};
    for (int64_t i = 0; i < n->samples.count; i++) {
        int32_t tokens[TARGET] = {0}, best[TARGET] = {0};
        double rank = -INFINITY;
        if (beam == 1)
            greedy(n, i, best);
        else
            exhaust(n, i, 0, 0, tokens, &rank, best);
        struct text sentence = {0}, reference = {0};
        text_add(&sentence, "%s", ""); /* it may have no words */
        pairs_spell(n->samples.dataset, best, TARGET, &sentence);
        pairs_reference(n->samples.dataset, i, &reference);
        text_add(&wanted, "%s\n", sentence.data);
        assert_ok(bleu_add(&again, sentence.data, reference.data, &test_error));
        text_free(&sentence);
        text_free(&reference);
    }
    assert_string_equal(got, wanted.data);
    print_message("beam %d:\n%s", beam, got);
    assert_true(lines_differ(got));
    assert_memory_equal(&bleu, &again, sizeof bleu);
    text_free(&wanted);
    free(got);
}

/* The layers of the encoder: their sequences are whole. */
static bool *encoder_layers(const struct graph *graph) {
    bool *layers = calloc((size_t)graph->layer_count, sizeof *layers);
    assert_non_null(layers);
    for (int l = 0; l < graph->layer_count; l++) {
        layers[l] = true;
        for (int n = 0; n < graph->layers[l].node_count; n++)
            if (strncmp(graph->nodes[graph->layers[l].node_first + n].name, "encoder.", 8) != 0) layers[l] = false;
    }
    return layers;
}

/* Reads from a block of the device. */
static void read_block(struct network *n, void *to, const void *block, size_t bytes) {
    device_copy(n->device, to, block, bytes);
    device_finish(n->device);
    assert_ok(device_check(n->device, &test_error));
}

/* The tokens of all rows: one source for all, a target for each. */
static void draw_tokens(int32_t *input) {
    for (int i = 0; i < ROWS * (SOURCE + TARGET); i++) {
        int same = i % (SOURCE + TARGET);
        input[i] = (int32_t)(1 + random_below(test_key(60), (uint64_t)(same < SOURCE ? same : i), WORDS - 1));
    }
}

/* Runs the network for one position over all positions. After every position the rows go one place on in a circle, state and
 * all. `got`: ROWS x TARGET x WORDS. */
static void run_steps(struct network *n, const int32_t *all_input, const struct stage_step *how, float *got) {
    struct stage *step = n->step->stages[0];
    struct stage_blocks *blocks = &n->step->blocks[0][0];
    int32_t input[ROWS * (SOURCE + 1)];
    float made[ROWS * WORDS], *states[2];
    int rows[ROWS];
    bool *encoder = encoder_layers(n->stepping->graph);
    assert_true(stage_state_bytes(step) > 0);
    for (int i = 0; i < 2; i++) states[i] = chain_take(n->step, stage_state_bytes(step));
    device_zero(n->device, states[0], (size_t)stage_state_bytes(step));
    for (int t = 0; t < TARGET; t++) {
        for (int r = 0; r < ROWS; r++) { /* row r of the step is now row (r + t) % ROWS of the whole */
            const int32_t *from = all_input + (r + t) % ROWS * (SOURCE + TARGET);
            memcpy(input + r * (SOURCE + 1), from, SOURCE * sizeof *from);
            input[r * (SOURCE + 1) + SOURCE] = from[SOURCE + t];
            rows[r] = (r + 1) % ROWS;
        }
        device_copy(n->device, blocks->input, input, sizeof input);
        blocks->state = states[t % 2];
        assert_ok(stage_forward_again(step, blocks, how, t > 0 ? encoder : NULL, NULL, &test_error));
        read_block(n, made, stage_probabilities(step, blocks), sizeof made);
        for (int r = 0; r < ROWS; r++)
            memcpy(got + ((r + t) % ROWS * TARGET + t) * WORDS, made + r * WORDS, WORDS * sizeof *got);
        stage_state_take(step, states[t % 2], rows, states[1 - t % 2]);
    }
    blocks->state = NULL;
    free(encoder);
}

static void check_state(struct network *n, bool exact) {
    struct stage_blocks *all = &n->chain->blocks[0][0];
    int32_t labels[ROWS * TARGET];
    static float got[ROWS * TARGET * WORDS];
    for (int i = 0; i < ROWS * TARGET; i++) labels[i] = -1;
    const struct stage_step how = {.target = labels};
    draw_tokens(all->input);
    run_steps(n, all->input, &how, got);
    assert_ok(stage_forward(n->chain->stages[0], all, &how, NULL, &test_error));
    const float *wanted = stage_probabilities(n->chain->stages[0], all);
    for (int i = 0; i < ROWS * TARGET * WORDS; i++) {
        if (exact)
            assert_true(got[i] == wanted[i]);
        else
            assert_within(got[i], wanted[i], 2e-5);
    }
}

static void test_state(void **state) {
    (void)state;
    struct network n;
    open_network(&n, "cpu", 0);
    check_state(&n, false);
    close_network(&n);
    open_network(&n, "reference", 0);
    check_state(&n, true);
    close_network(&n);
}

/* With weights of which sentences differ, in words and in lengths, and a beam finds others than the first choice. */
static void test_searches(void **state) {
    static const uint64_t weights[] = {10, 16, 29 /* the beam needs the states of the hypotheses it goes on from */,
                                       19 /* lengths decide which is best */,
                                       37 /* words are not among the most probable ones at their positions */};
    struct network n;
    (void)state;
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
        open_network(&n, "cpu", weights[w]);
        check_translations(&n, 1);
        check_translations(&n, ROWS);
        close_network(&n);
        open_network(&n, "reference", weights[w]);
        check_translations(&n, 1);
        close_network(&n);
    }
}

struct told {
    int count;
    double done, total;
};

static void hear(void *context, const char *what, double done, double total, const char *detail) {
    struct told *told = context;
    assert_string_equal(what, "translating");
    assert_string_equal(detail, "");
    assert_true(done > told->done);
    *told = (struct told){told->count + 1, done, total};
}

/* Sentences that are translated, of all: together, or one at a time where the beam takes all rows. */
static void test_progress(void **state) {
    (void)state;
    struct network n;
    open_network(&n, "cpu", 0);
    for (int wide = 0; wide < 2; wide++) {
        struct told told = {0};
        struct bleu bleu = {0};
        const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &told, .progress = hear};
        assert_ok(ps_log_to(&sink, &test_error));
        free(translations(&n, wide ? ROWS : 1, &bleu));
        assert_ok(ps_log_to(NULL, &test_error));
        assert_int_equal(told.count, wide ? n.samples.count : 1);
        assert_true(told.done == (double)n.samples.count && told.total == told.done);
    }
    close_network(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_state), cmocka_unit_test(test_searches),
                                       cmocka_unit_test(test_progress)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
