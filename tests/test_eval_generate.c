/* Texts that networks write whose weights are known, and texts as the tokens of vocabularies and back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/corpus.h"
#include "graph/network.h"
#include "support.h"

enum { TOKENS = 7, POSITIONS = 4 };

static float next[TOKENS * TOKENS]; /* a row for each token: the logits of what follows */

/* Says of each token by itself what follows. */
static struct ps_network *make_network(const char *predicts) {
    struct ps_network_builder *b = ps_network_builder_create("next");
    struct ps_network *network;
    const struct array array = {.name = "table.weight", .type = ARRAY_F32, .rank = 2, .shape = {TOKENS, TOKENS}, .data = next};
    ps_network_builder_input(b, "x", "i32", (const int64_t[]){POSITIONS}, 1);
    ps_network_builder_node(b, "table", "embedding,channels=7,vocabulary=7", NULL, 0);
    ps_network_builder_node(b, "loss", "cross_entropy", NULL, 0);
    ps_network_builder_predicts(b, predicts);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    network->graph->values = values_create();
    assert_ok(values_set(network->graph->values, &array, VALUES_BORROW, &test_error));
    return network;
}

static char *write_text(struct ps_generate_options options, const struct ps_network *network) {
    char *text;
    options.struct_size = sizeof options;
    options.network = network;
    options.device = test_device("cpu");
    assert_ok(ps_generate(&options, &text, &test_error));
    return text;
}

/* After each token the one after the next has the largest logit. A text may be longer than what is read at once. */
static void test_greedy(void **state) {
    (void)state;
    struct ps_network *network = make_network("tokens");
    memset(next, 0, sizeof next);
    for (int t = 0; t < TOKENS; t++) next[t * TOKENS + (t + 2) % TOKENS] = 3;
    char *text = write_text((struct ps_generate_options){.prompt = "0 3", .tokens = 8}, network);
    assert_string_equal(text, "0 3 5 0 2 4 6 1 3 5");
    free(text);
    text = write_text((struct ps_generate_options){.prompt = "6,5,4, 3 2\n1 0", .tokens = 2}, network);
    assert_string_equal(text, "6 5 4 3 2 1 0 2 4");
    free(text);
    /* Of equal ones the first; the only one of the first. */
    memset(next, 0, sizeof next);
    text = write_text((struct ps_generate_options){.prompt = "5", .tokens = 2}, network);
    assert_string_equal(text, "5 0 0");
    free(text);
    text = write_text((struct ps_generate_options){.prompt = "5", .tokens = 2, .temperature = 9, .top_k = 1}, network);
    assert_string_equal(text, "5 0 0");
    free(text);
    ps_network_destroy(network);
}

/* Counts what was drawn, and compares with the probabilities within five deviations. */
static void check_shares(const char *text, const double probability[TOKENS]) {
    int counts[TOKENS] = {0}, all = 0;
    for (const char *c = strchr(text, ' '); c != NULL; c = strchr(c + 1, ' '), all++) counts[c[1] - '0']++;
    for (int t = 0; t < TOKENS; t++) {
        const double mean = all * probability[t], deviation = sqrt(all * probability[t] * (1 - probability[t]));
        assert_true(fabs(counts[t] - mean) <= 5 * deviation);
    }
}

static void test_drawing(void **state) {
    (void)state;
    static const double shares[TOKENS] = {0.4, 0.05, 0.25, 0.05, 0.1, 0.1, 0.05};
    static const double best[TOKENS] = {0.4 / 0.65, 0, 0.25 / 0.65};
    double warm[TOKENS], sum = 0;
    struct ps_network *network = make_network("tokens");
    for (int i = 0; i < TOKENS * TOKENS; i++) next[i] = (float)log(shares[i % TOKENS]);
    for (int t = 0; t < TOKENS; t++) sum += sqrt(shares[t]);
    for (int t = 0; t < TOKENS; t++) warm[t] = sqrt(shares[t]) / sum;
    struct ps_generate_options options = {.prompt = "1", .tokens = 3000, .temperature = 1};
    char *text = write_text(options, network), *again = write_text(options, network);
    check_shares(text, shares);
    assert_string_equal(text, again); /* the seed fixes it */
    free(again);
    options.seed = 1;
    again = write_text(options, network);
    check_shares(again, shares);
    assert_string_not_equal(text, again);
    free(again);
    free(text);
    options.temperature = 2;
    text = write_text(options, network);
    check_shares(text, warm);
    free(text);
    /* The exponential of no logit by itself is a number. */
    for (int i = 0; i < TOKENS * TOKENS; i++) next[i] += 3000;
    options.temperature = 1;
    text = write_text(options, network);
    check_shares(text, shares);
    free(text);
    options.top_k = 2;
    text = write_text(options, network);
    check_shares(text, best);
    free(text);
    ps_network_destroy(network);
}

/* The same seed writes the same text in every version: of tokens that are alike, the one in whose share of [0, 1) the number of
 * the draw lies. */
static void test_same_text_for_ever(void **state) {
    (void)state;
    enum { DRAWN = 40 };
    const struct random_key key = random_key(5, RANDOM_SAMPLING, 0, 0);
    struct ps_network *network = make_network("tokens");
    memset(next, 0, sizeof next);
    char *text = write_text((struct ps_generate_options){.prompt = "1", .tokens = DRAWN, .temperature = 1, .seed = 5}, network);
    assert_int_equal(strlen(text), 2 * DRAWN + 1);
    for (int t = 0; t < DRAWN; t++)
        assert_int_equal(text[2 * t + 2] - '0', (int)(TOKENS * (double)random_uniform(key, (uint64_t)t)));
    free(text);
    ps_network_destroy(network);
}

struct told {
    int count;
    double done, total;
};

static void hear(void *context, const char *what, double done, double total, const char *detail) {
    struct told *told = context;
    assert_string_equal(what, "writing");
    assert_string_equal(detail, "");
    assert_true(done == told->done + 1);
    *told = (struct told){told->count + 1, done, total};
}

/* A hundred tokens where nothing is said, each told of, in a file that ends with its line. */
static void test_file(void **state) {
    (void)state;
    struct ps_network *network = make_network("tokens");
    struct told told = {0};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &told, .progress = hear};
    char path[4096], *written;
    size_t size;
    memset(next, 0, sizeof next);
    char *text = write_text(
        (struct ps_generate_options){.prompt = "3", .path = file_join(path, test_directory, "text"), .log = &sink}, network);
    assert_int_equal(strlen(text), 2 * 100 + 1);
    assert_true(told.count == 100 && told.done == 100 && told.total == 100);
    assert_ok(file_read(path, 1 << 12, &written, &size, &test_error));
    assert_int_equal(size, 2 * 100 + 2);
    assert_memory_equal(written, text, size - 1);
    assert_int_equal(written[size - 1], '\n');
    free(written);
    free(text);
    struct ps_generate_options options = {
        .struct_size = sizeof options, .network = network, .prompt = "3", .path = test_directory};
    assert_status(ps_generate(&options, &text, &test_error), PS_IO, test_directory);
    options.path = NULL;
    next[3 * TOKENS + 6] = NAN;
    assert_status(ps_generate(&options, &text, &test_error), PS_FAILED,
                  "an output is not a number: the weights are not usable");
    ps_network_destroy(network);
}

static struct vocabulary *make_vocabulary(const char *data, const char *const *tokens, int count) {
    struct vocabulary *made = vocabulary_create(&test_error);
    assert_non_null(made);
    /* The more often, the smaller the number. */
    for (int t = 0; t < count; t++)
        for (int times = t; times < count; times++)
            assert_ok(vocabulary_count(made, tokens[t], strlen(tokens[t]), &test_error));
    assert_ok(vocabulary_finish(made, 64, &test_error));
    vocabulary_set_data(made, data);
    return made;
}

static void test_texts(void **state) {
    (void)state;
    static const struct {
        const char *data, *tokens[4], *text, *again;
        int count;
        int32_t numbers[6];
    } cases[] = {
        {"text,tokens=words", {"the", "cat"}, "the  dog\nthe cat", "the <unk>\nthe cat", 5, {4, 1, 3, 4, 5}},
        {"text,tokens=characters", {"a", "\xc3\xa4", " "}, "a \xc3\xa4", "a \xc3\xa4", 3, {4, 6, 5}},
        {"text,tokens=bytes", {"<0xC3>", "<0xA4>", "<0x0A>"}, "\xc3\xa4\n", "\xc3\xa4\n", 3, {4, 5, 6}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct vocabulary *vocabulary = make_vocabulary(cases[c].data, cases[c].tokens, c == 0 ? 2 : 3);
        struct token_list list = {0};
        struct text text = {0};
        assert_ok(running_text_number(vocabulary, cases[c].text, strlen(cases[c].text), &list, &test_error));
        assert_int_equal(list.count, cases[c].count);
        assert_memory_equal(list.tokens, cases[c].numbers, list.count * sizeof *list.tokens);
        assert_ok(running_text_spell(vocabulary, list.tokens, (int64_t)list.count, &text, &test_error));
        char *spelled = text_take(&text);
        assert_string_equal(spelled, cases[c].again);
        free(spelled);
        free(list.tokens);
        vocabulary_destroy(vocabulary);
    }
}

/* By a vocabulary's file. Tokens that it does not have, of which the network has some, are never written. */
static void test_vocabulary(void **state) {
    (void)state;
    static const char *const words[] = {"on", "and"};
    char path[4096];
    struct ps_network *network = make_network("tokens");
    struct vocabulary *vocabulary = make_vocabulary("text,tokens=words", words, 2);
    const struct vocabulary *const both[2] = {vocabulary, NULL};
    assert_ok(vocabulary_write(file_join(path, test_directory, "vocabulary.json"), both, &test_error));
    memset(next, 0, sizeof next);
    next[4 * TOKENS + 5] = next[5 * TOKENS + 3] = next[3 * TOKENS + 4] = 2; /* on and, line after line */
    for (int t = 0; t < TOKENS; t++) next[t * TOKENS + 6] = 9;
    char *text = write_text((struct ps_generate_options){.prompt = "on", .tokens = 4, .vocabulary = path}, network);
    assert_string_equal(text, "on and\non and");
    free(text);
    /* A text that ends with a line gets no other in its file. */
    char written[4096], *read;
    size_t size;
    text = write_text(
        (struct ps_generate_options){
            .prompt = "on", .tokens = 2, .vocabulary = path, .path = file_join(written, test_directory, "lines")},
        network);
    assert_string_equal(text, "on and\n");
    assert_ok(file_read(written, 1 << 12, &read, &size, &test_error));
    assert_string_equal(read, text);
    free(read);
    free(text);
    vocabulary_destroy(vocabulary);
    /* Nor are tokens that only the vocabulary has. */
    static const char *const more[] = {"on", "and", "on", "and", "off", "or", "by"};
    const struct vocabulary *const larger[2] = {vocabulary = make_vocabulary("text,tokens=words", more, 7), NULL};
    assert_true(vocabulary_size(vocabulary) > TOKENS);
    assert_ok(vocabulary_write(path, larger, &test_error));
    text = write_text((struct ps_generate_options){.prompt = "on", .tokens = 2, .vocabulary = path}, network);
    snprintf(written, sizeof written, "on %s %s", vocabulary_token(vocabulary, 6), vocabulary_token(vocabulary, 6));
    assert_string_equal(text, written);
    free(text);
    vocabulary_destroy(vocabulary);
    ps_network_destroy(network);
}

/* By the file of a tokenizer: texts are numbered and spelled as it says. */
static void test_tokenizer(void **state) {
    (void)state;
    static const char file[] =
        "{\"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, "
        "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}, \"model\": {\"type\": \"WordPiece\", "
        "\"unk_token\": \"?\", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 100, "
        "\"vocab\": {\"?\": 0, \"to\": 1, \"and\": 2, \"fro\": 3, \"##m\": 4}}}";
    char path[4096], none[4096], *text;
    struct ps_network *network = make_network("tokens");
    test_file_write(file_join(path, test_directory, "tokenizer.json"), file, sizeof file - 1);
    memset(next, 0, sizeof next);
    next[1 * TOKENS + 2] = next[2 * TOKENS + 3] = next[3 * TOKENS + 4] = next[4 * TOKENS] = 2;
    for (int t = 0; t < TOKENS; t++) next[t * TOKENS + 6] = 9; /* which it does not have */
    text = write_text((struct ps_generate_options){.prompt = "to", .tokens = 4, .tokenizer = path}, network);
    assert_string_equal(text, "to and from?");
    free(text);
    struct ps_generate_options options = {.struct_size = sizeof options, .network = network, .prompt = "to"};
    options.tokenizer = file_join(none, test_directory, "none.json");
    assert_status(ps_generate(&options, &text, &test_error), PS_BAD_INPUT, none);
    test_file_write(path, "{}", 2);
    options.tokenizer = path;
    assert_status(ps_generate(&options, &text, &test_error), PS_BAD_INPUT, path);
    ps_network_destroy(network);
}

/* A network of another kind than writes texts, its weights those of a seed. */
static struct ps_network *make_other(int inputs, const char *last) {
    struct ps_network_builder *b = ps_network_builder_create("other");
    struct ps_network *network;
    const struct array array = {.name = "table.weight", .type = ARRAY_F32, .rank = 2, .shape = {TOKENS, TOKENS}, .data = next};
    int input[2] = {0};
    for (int i = 0; i < inputs; i++)
        input[i] = ps_network_builder_input(b, i == 0 ? "x" : "y", "i32", (const int64_t[]){POSITIONS}, 1);
    const int table = ps_network_builder_node(b, "table", "embedding,channels=7,vocabulary=7", &input[0], 1);
    const int other =
        inputs > 1 ? ps_network_builder_node(b, "more", "embedding,channels=7,vocabulary=7", &input[1], 1) : table;
    ps_network_builder_node(b, "last", last, inputs > 1 ? (const int[]){table, other} : &table, inputs);
    ps_network_builder_node(b, "loss", "cross_entropy", NULL, 0);
    ps_network_builder_predicts(b, "tokens");
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    network->graph->values = values_create();
    assert_ok(values_set(network->graph->values, &array, VALUES_BORROW, &test_error));
    return network;
}

static void test_other_networks(void **state) {
    (void)state;
    static const struct {
        int inputs;
        const char *last, *part;
    } cases[] = {
        {2, "add", "other reads 2 inputs; text is written by networks that read tokens alone"},
        {1, "slice,axis=1,first=0,count=3", "other does not say for each token that it reads what follows"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_network *network = make_other(cases[c].inputs, cases[c].last);
        struct ps_generate_options options = {.struct_size = sizeof options, .network = network, .prompt = "1"};
        char *text;
        assert_status(ps_generate(&options, &text, &test_error), PS_USAGE, cases[c].part);
        ps_network_destroy(network);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        struct ps_generate_options options;
        const char *predicts, *part;
    } cases[] = {
        {{.tokens = 1}, "tokens", "`prompt`: missing"},
        {{.prompt = " "}, "tokens", "`prompt`: has no token"},
        {{.prompt = "1 x"}, "tokens", "`prompt`: 'x' is no number"},
        {{.prompt = "1 7"}, "tokens", "`prompt`: token 7; next knows 0 to 6"},
        {{.prompt = "1 -1"}, "tokens", "`prompt`: token -1"},
        {{.prompt = "010"}, "tokens", "`prompt`: token 10; next knows 0 to 6"},
        {{.prompt = "4294967297"}, "tokens", "`prompt`: token 2147483647; next knows"},
        {{.prompt = "0x1"},
         "tokens",
         "`prompt`: 'x1' is no number, and no vocabulary is known that has tokens\ngive the numbers"},
        {{.prompt = "1", .temperature = -1}, "tokens", "`temperature`: -1"},
        {{.prompt = "1", .temperature = 1000001}, "tokens", "`temperature`: 1e+06 is not from 0 to 1e6"},
        {{.prompt = "1", .tokens = -1}, "tokens", "`tokens`: -1 is less than 1"},
        {{.prompt = "1", .threads = -1}, "tokens", "`threads`: -1 is less than 1"},
        {{.prompt = "1", .top_k = -1}, "tokens", "`top_k`: -1 is less than 1"},
        {{.prompt = "1", .checkpoint = "newest"}, "tokens", "`checkpoint`: is one of a `run`"},
        {{.prompt = "1", .run = "run"}, "tokens", "`network`: cannot be given with `run`, which determines it"},
        {{.prompt = "1", .run = "run", .vocabulary = "a"}, "tokens", "`vocabulary`: the run has its own"},
        {{.prompt = "1", .run = "run", .tokenizer = "a"}, "tokens", "`tokenizer`: the run has its own"},
        {{.prompt = "1", .temperature = NAN}, "tokens", "`temperature`: "},
        {{.prompt = "1"},
         "classes",
         "next predicts classes, not the tokens that follow\nof a network that is given, `loss` next-token says so"},
        {{.prompt = "1"}, "masked_tokens", "next predicts masked tokens, not the tokens that follow"},
        {{.prompt = "1", .vocabulary = "a", .tokenizer = "b"}, "tokens", "one of `vocabulary` and `tokenizer`"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_network *network = make_network(cases[c].predicts);
        struct ps_generate_options options = cases[c].options;
        char *text;
        options.struct_size = sizeof options;
        options.network = network;
        assert_status(ps_generate(&options, &text, &test_error), PS_USAGE, cases[c].part);
        ps_network_destroy(network);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),  cmocka_unit_test(test_drawing),   cmocka_unit_test(test_same_text_for_ever),
        cmocka_unit_test(test_file),    cmocka_unit_test(test_texts),     cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_tokenizer), cmocka_unit_test(test_other_networks),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
