/* Datasets of text: samples and labels of reviews and of pairs, shared vocabularies, what is wrong with damaged files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/dataset.h"
#include "data/pairs.h"
#include "data/vocabulary.h"
#include "support.h"

static void write_file(const char *name, const char *text) {
    char path[4096];
    test_file_write(file_join(path, test_directory, name), text, strlen(text));
}

/* "FORMAT:DIRECTORY/REST" */
static enum ps_status open_spec(const char *format, const char *rest, enum dataset_part part,
                                const struct dataset_shape *wanted, struct samples *samples) {
    char spec[8400];
    snprintf(spec, sizeof spec, "%s:%s/%s", format, test_directory, rest);
    return samples_open(spec, part, wanted, samples, &test_error);
}

static void assert_read(const struct samples *samples, int64_t index, const int32_t *tokens, const int32_t *labels) {
    const struct dataset *dataset = samples->dataset;
    int32_t got[32];
    int32_t label[32], alone[32];
    assert_ok(dataset->class->read(dataset, index, got, label, &test_error));
    assert_ok(dataset->class->target(dataset, index, alone, &test_error));
    for (int64_t t = 0; t < dataset->shape.height; t++) assert_int_equal(got[t], tokens[t]);
    for (int t = 0; t < dataset_labels(&dataset->shape); t++) {
        assert_int_equal(label[t], labels[t]);
        assert_int_equal(alone[t], labels[t]);
    }
}

static const struct dataset_shape text_shape = {
    .channels = 1, .height = 4, .width = 1, .classes = 2, .labels = 1, .vocabulary = 7};

/* Four places for the source, three for the target. */
static const struct dataset_shape pair_shape = {
    .channels = 1, .height = 7, .width = 1, .classes = 8, .labels = 3, .vocabulary = 9, .gives_tokens = true};

static void test_reviews(void **state) {
    (void)state;
    write_file("a.tsv", "1\tGood, good film!\r\n0\tbad film<br />bad bad film rare\n1\t\n");
    write_file("b.tsv", "0\tfilm unseen good");
    struct samples train, valid;
    assert_ok(open_spec("reviews", "a.tsv", DATASET_TRAIN, &text_shape, &train));
    assert_int_equal(train.count, 3);
    /* bad and film three times each, good twice; "rare" has no room in seven. */
    assert_read(&train, 0, (const int32_t[]){6, 6, 5, 0}, (const int32_t[]){1});
    assert_read(&train, 1, (const int32_t[]){4, 5, 4, 4}, (const int32_t[]){0});
    assert_read(&train, 2, (const int32_t[]){0, 0, 0, 0}, (const int32_t[]){1});
    struct dataset_shape wanted = text_shape;
    wanted.words[0] = train.dataset->shape.words[0];
    assert_ok(open_spec("reviews", "b.tsv", DATASET_TEST, &wanted, &valid));
    assert_read(&valid, 0, (const int32_t[]){5, VOCABULARY_UNKNOWN, 6, 0}, (const int32_t[]){0});
    samples_close(&valid);

    char path[4096], spec[8300];
    assert_ok(vocabulary_write(file_join(path, test_directory, "words.json"), train.dataset->shape.words, &test_error));
    samples_close(&train);
    snprintf(spec, sizeof spec, "b.tsv,vocab=%s", path);
    assert_ok(open_spec("reviews", spec, DATASET_TEST, &text_shape, &valid));
    assert_read(&valid, 0, (const int32_t[]){5, VOCABULARY_UNKNOWN, 6, 0}, (const int32_t[]){0});
    samples_close(&valid);
    assert_status(open_spec("reviews", "b.tsv", DATASET_TEST, &text_shape, &valid), PS_USAGE, "needs a vocabulary");
    wanted = text_shape;
    wanted.vocabulary = 6;
    assert_status(open_spec("reviews", spec, DATASET_TEST, &wanted, &valid), PS_USAGE,
                  "words.json has 7 tokens, but the network's 6");
    assert_status(open_spec("reviews", spec, DATASET_TEST, &wanted, &valid), PS_USAGE, "the option vocab=7");
}

static void assert_reference(const struct samples *samples, int64_t index, const char *wanted) {
    struct text sentence = {0};
    pairs_reference(samples->dataset, index, &sentence);
    assert_string_equal(sentence.data, wanted);
    text_free(&sentence);
}

/* As other systems write files: a mark at the beginning, CRLF, no end of the last line. They read like any other. */
static void test_foreign_files(void **state) {
    (void)state;
    struct samples samples;
    write_file("f.tsv", "\xef\xbb\xbf"
                        "1\tgood film\r\n0\tfilm");
    assert_ok(open_spec("reviews", "f.tsv", DATASET_TRAIN, &text_shape, &samples));
    assert_int_equal(samples.count, 2);
    assert_read(&samples, 0, (const int32_t[]){5, 4, 0, 0}, (const int32_t[]){1});
    assert_read(&samples, 1, (const int32_t[]){4, 0, 0, 0}, (const int32_t[]){0});
    samples_close(&samples);
    write_file("f.en", "\xef\xbb\xbf"
                       "a b\r\n\r\nb\r\n");
    write_file("f.de", "\xef\xbb\xbfx\n\ny z");
    assert_ok(open_spec("pairs", "f:en:de", DATASET_TRAIN, &pair_shape, &samples));
    assert_int_equal(samples.count, 3);
    assert_read(&samples, 0, (const int32_t[]){5, 4, VOCABULARY_END, 0, VOCABULARY_START, 4, 0},
                (const int32_t[]){4, VOCABULARY_END, -1});
    assert_read(&samples, 1, (const int32_t[]){VOCABULARY_END, 0, 0, 0, VOCABULARY_START, 0, 0},
                (const int32_t[]){VOCABULARY_END, -1, -1});
    assert_read(&samples, 2, (const int32_t[]){4, VOCABULARY_END, 0, 0, VOCABULARY_START, 5, 6},
                (const int32_t[]){5, 6, VOCABULARY_END});
    assert_reference(&samples, 0, "x");
    samples_close(&samples);
}

static void test_damaged_reviews(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "empty"},
        {"1\tgood\nbad\n", "line 2: no TAB"},
        {"1\tgood\n\n", "line 2: no TAB"},
        {"2\tgood\n",
         "line 1: label '2': a number from 0 to 1 is needed\nthe network's option classes= sets the number of classes, here 2"},
        {"1\ta\n-1\tgood\n", "line 2: label '-1'"},
        {"pos\tgood\n", "line 1: label 'pos'"},
        {"\tgood\n", "line 1: label ''"},
        {"99999999999999999999\tgood\n", "line 1: label"},
        {"1\tgood\n0\tb\xff\n", "line 2: byte 4 (0xff)"},
    };
    struct samples samples;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("damaged.tsv", cases[i][0]);
        char wanted[256];
        snprintf(wanted, sizeof wanted, "damaged.tsv: %s", cases[i][1]);
        assert_status(open_spec("reviews", "damaged.tsv", DATASET_TRAIN, &text_shape, &samples), PS_BAD_INPUT, wanted);
    }
    assert_status(open_spec("reviews", "missing.tsv", DATASET_TRAIN, &text_shape, &samples), PS_BAD_INPUT, "missing.tsv");
    write_file("a.tsv", "1\tgood\n");
    assert_status(open_spec("reviews", "a.tsv,wocab=x", DATASET_TRAIN, &text_shape, &samples), PS_USAGE,
                  "did you mean 'vocab'?\nknown: vocab, tokenizer, texts");
    assert_status(open_spec("reviews", "a.tsv,vocab=/nowhere", DATASET_TRAIN, &text_shape, &samples), PS_BAD_INPUT, "/nowhere");
    struct dataset_shape images = {.channels = 1, .height = 4, .width = 4, .classes = 2};
    assert_status(open_spec("reviews", "a.tsv", DATASET_TRAIN, &images, &samples), PS_USAGE,
                  "are texts with one label each, but the network reads images");
    assert_status(open_spec("reviews", "a.tsv", DATASET_TRAIN, &pair_shape, &samples), PS_USAGE, "but the network translates");
    assert_status(open_spec("idx", "", DATASET_TRAIN, &text_shape, &samples), PS_USAGE,
                  "are images, but the network reads texts with one label each");
    assert_status(open_spec("idx", "", DATASET_TRAIN, &text_shape, &samples), PS_USAGE, "data for it: synthetic, reviews");
}

static void test_pairs(void **state) {
    (void)state;
    write_file("t.en", "a a, b a b c\nb\n");
    write_file("t.de", "x y x\nx.\n");
    struct samples samples;
    assert_ok(open_spec("pairs", "t:en:de", DATASET_TRAIN, &pair_shape, &samples));
    assert_int_equal(samples.count, 2);
    /* Cut off: three words and the end; the target's labels lack their end. */
    assert_read(&samples, 0, (const int32_t[]){4, 4, 6, VOCABULARY_END, VOCABULARY_START, 4, 6}, (const int32_t[]){4, 6, 4});
    /* Padded, and "." a word of its own. */
    assert_read(&samples, 1, (const int32_t[]){5, VOCABULARY_END, 0, 0, VOCABULARY_START, 4, 5},
                (const int32_t[]){4, 5, VOCABULARY_END});
    assert_true(dataset_has_pairs(samples.dataset));
    assert_reference(&samples, 1, "x.");
    struct text sentence = {0};
    pairs_spell(samples.dataset, (const int32_t[]){4, 5, VOCABULARY_UNKNOWN, 999, VOCABULARY_END, 4}, 6, &sentence);
    assert_string_equal(sentence.data, "x . <unk> <unk>");
    text_free(&sentence);
    pairs_spell(samples.dataset, (const int32_t[]){5, VOCABULARY_PADDING, 4}, 3, &sentence);
    assert_string_equal(sentence.data, ".");
    text_free(&sentence);
    samples_close(&samples);
}

static void test_given_tokens(void **state) {
    (void)state;
    write_file("s.en", "\nun@@ der.\n");
    write_file("s.de", "\nhin@@ ter x @@\n");
    struct samples samples;
    struct dataset_shape shape = pair_shape;
    assert_ok(open_spec("pairs", "s:en:de,tokens=given", DATASET_TRAIN, &shape, &samples));
    const struct vocabulary *words = samples.dataset->shape.words[1];
    int32_t tokens[] = {vocabulary_find(words, "hin@@", 5), vocabulary_find(words, "ter", 3), vocabulary_find(words, "x", 1)};
    struct text sentence = {0};
    pairs_spell(samples.dataset, tokens, 3, &sentence);
    assert_string_equal(sentence.data, "hinter x");
    text_free(&sentence);
    assert_reference(&samples, 0, "");
    assert_reference(&samples, 1, "hinter x @@");
    samples_close(&samples);
}

#define BLANK "\xe2\x96\x81"

/* As SentencePiece writes them. */
static void test_pieces(void **state) {
    (void)state;
    write_file("p.en", BLANK "a");
    write_file("p.de", BLANK "hin ter " BLANK "x " BLANK " y .");
    struct samples samples;
    struct dataset_shape shape = pair_shape;
    shape.classes = 12;
    assert_ok(open_spec("pairs", "p:en:de,tokens=pieces", DATASET_TRAIN, &shape, &samples));
    assert_reference(&samples, 0, "hinter x y.");
    const struct vocabulary *words = samples.dataset->shape.words[1];
    int32_t tokens[] = {vocabulary_find(words, "ter", 3), vocabulary_find(words, BLANK "x", 4), VOCABULARY_UNKNOWN};
    struct text sentence = {0};
    pairs_spell(samples.dataset, tokens, 3, &sentence);
    assert_string_equal(sentence.data, "ter x<unk>");
    text_free(&sentence);
    samples_close(&samples);
}

/* A vocabulary says of what data it is and how they were parted: text that says nothing is parted so, another way is refused.
 */
static void test_parting_kept(void **state) {
    (void)state;
    char path[4096], spec[8400];
    struct samples train, other;
    file_join(path, test_directory, "kept.json");
    write_file("k.en", "a.");
    write_file("k.de", "x@@ y.");
    assert_ok(open_spec("pairs", "k:en:de,tokens=given", DATASET_TRAIN, &pair_shape, &train));
    struct dataset_shape wanted = pair_shape;
    memcpy(wanted.words, train.dataset->shape.words, sizeof wanted.words);
    assert_ok(open_spec("pairs", "k:en:de", DATASET_TEST, &wanted, &other));
    assert_reference(&other, 0, "xy.");
    samples_close(&other);
    assert_ok(vocabulary_write(path, train.dataset->shape.words, &test_error));
    snprintf(spec, sizeof spec, "k:en:de,vocab=%s", path);
    assert_ok(open_spec("pairs", spec, DATASET_TEST, &wanted, &other)); /* the same words twice */
    samples_close(&other);
    samples_close(&train);
    assert_ok(open_spec("pairs", spec, DATASET_TEST, &pair_shape, &other));
    assert_reference(&other, 0, "xy.");
    samples_close(&other);
    write_file("l.en", "b");
    write_file("l.de", "z");
    assert_ok(open_spec("pairs", "l:en:de,tokens=given", DATASET_TRAIN, &pair_shape, &train));
    memcpy(wanted.words, train.dataset->shape.words, sizeof wanted.words);
    assert_status(open_spec("pairs", spec, DATASET_TEST, &wanted, &other), PS_USAGE, "kept.json has other words than those");
    samples_close(&train);
    snprintf(spec, sizeof spec, "k:en:de,tokens=words,vocab=%s", path);
    assert_status(open_spec("pairs", spec, DATASET_TEST, &pair_shape, &other), PS_USAGE,
                  "data 'pairs,tokens=words': the vocabulary was made from pairs,tokens=given");
    write_file("k.tsv", "1\ta\n");
    snprintf(spec, sizeof spec, "k.tsv,vocab=%s", path);
    assert_status(open_spec("reviews", spec, DATASET_TEST, &text_shape, &other), PS_USAGE,
                  "data 'reviews': the vocabulary was made from pairs,tokens=given");
}

/* Where words must be given nobody makes them, of the training part neither. */
static void test_words_needed(void **state) {
    (void)state;
    struct dataset_shape labelled = text_shape, pairs = pair_shape;
    struct samples samples;
    labelled.words_needed = pairs.words_needed = true;
    write_file("n.tsv", "1\ta\n");
    write_file("n.en", "a\n");
    write_file("n.de", "x\n");
    assert_status(open_spec("reviews", "n.tsv", DATASET_TRAIN, &labelled, &samples), PS_USAGE, "needs a vocabulary");
    assert_status(open_spec("pairs", "n:en:de", DATASET_TRAIN, &pairs, &samples), PS_USAGE, "needs a vocabulary");
}

static void test_damaged_pairs(void **state) {
    (void)state;
    struct samples samples;
    write_file("d.en", "a\nb\n");
    write_file("d.de", "a\n");
    assert_status(open_spec("pairs", "d:en:de", DATASET_TRAIN, &pair_shape, &samples), PS_BAD_INPUT, "2 lines");
    assert_status(open_spec("pairs", "d:en:fr", DATASET_TRAIN, &pair_shape, &samples), PS_BAD_INPUT, "d.fr");
    static const char *const wrong[] = {"d", "d:en", "d:en:", "d::de"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(open_spec("pairs", wrong[i], DATASET_TRAIN, &pair_shape, &samples), PS_USAGE, "two endings");
    }
    assert_status(samples_open("pairs::en:de", DATASET_TRAIN, &pair_shape, &samples, &test_error), PS_USAGE, "two endings");
    assert_status(open_spec("pairs", "d:en:de,token=words", DATASET_TRAIN, &pair_shape, &samples), PS_USAGE,
                  "did you mean 'tokens'?\nknown: tokens, vocab, tokenizer, target_tokenizer");
    assert_status(open_spec("pairs", "d:en:de,tokens=word", DATASET_TRAIN, &pair_shape, &samples), PS_USAGE, "'words'");
    assert_status(open_spec("pairs", "d:en:de", DATASET_TRAIN, &text_shape, &samples), PS_USAGE,
                  "are translations, but the network reads texts with one label each");
    struct dataset_shape language = pair_shape;
    language.labels = (int)language.height;
    assert_status(open_spec("pairs", "d:en:de", DATASET_TRAIN, &language, &samples), PS_USAGE,
                  "are translations, but the network reads running text");
}

/* Two inputs of tokens, numbered by one vocabulary: another size of the second is refused, whether it is smaller or larger. */
static void test_two_inputs(void **state) {
    (void)state;
    struct ps_input inputs[] = {{"first", "i32", 1, {4}, 9}, {"second", "i32", 1, {4}, 9}};
    struct dataset_shape wanted = text_shape;
    struct samples samples;
    wanted.inputs = inputs;
    wanted.input_count = 2;
    wanted.vocabulary = 9;
    write_file("two.tsv", "1\tgood film\tbad film\n");
    assert_ok(open_spec("reviews", "two.tsv", DATASET_TRAIN, &wanted, &samples));
    samples_close(&samples);
    for (inputs[1].vocabulary = 8; inputs[1].vocabulary <= 10; inputs[1].vocabulary += 2)
        assert_status(open_spec("reviews", "two.tsv", DATASET_TRAIN, &wanted, &samples), PS_USAGE,
                      inputs[1].vocabulary == 8 ? "have one vocabulary, but the network reads 9 tokens and, by 'second', 8"
                                                : "have one vocabulary, but the network reads 9 tokens and, by 'second', 10");
}

/* Inputs that lines of text cannot give. */
static void test_wrong_inputs(void **state) {
    (void)state;
    static const struct {
        struct ps_input inputs[3];
        int count;
        const char *said;
    } cases[] = {
        {{{"a", "i32", 1, {4}, 9}, {"b", "i32", 1, {4}, 9}, {"c", "i32", 1, {4}, 9}},
         3,
         "have two texts at most, but the network reads 3"},
        {{{"a", "i32", 2, {2, 2}, 9}, {"mask", "i32", 1, {4}, 0}},
         2,
         "give tokens, masks and segments of one side, not the network's 'a'"},
        {{{"a", "i32", 3, {1, 4, 1}, 9}, {"picture", "i32", 1, {4}, 0}},
         2,
         "give tokens, masks and segments of one side, not the network's 'picture'"},
        {{{"a", "i32", 3, {1, 4, 1}, 9}, {"attention_mask", "i32", 2, {4, 4}, 0}},
         2,
         "give tokens, masks and segments of one side, not the network's 'attention_mask'"},
    };
    struct samples samples;
    write_file("two.tsv", "1\tgood film\tbad film\n");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct dataset_shape wanted = text_shape;
        wanted.inputs = cases[c].inputs;
        wanted.input_count = cases[c].count;
        wanted.vocabulary = 9;
        assert_status(open_spec("reviews", "two.tsv", DATASET_TRAIN, &wanted, &samples), PS_USAGE, cases[c].said);
    }
    /* Two inputs of tokens need two texts in each line. */
    struct ps_input inputs[] = {{"first", "i32", 1, {4}, 9}, {"second", "i32", 1, {4}, 9}};
    struct dataset_shape wanted = text_shape;
    wanted.inputs = inputs;
    wanted.input_count = 2;
    wanted.vocabulary = 9;
    write_file("one.tsv", "1\tgood film\tbad film\n0\tgood\n");
    assert_status(open_spec("reviews", "one.tsv", DATASET_TRAIN, &wanted, &samples), PS_BAD_INPUT,
                  "one.tsv: line 2: one text; a line is label<TAB>text<TAB>text here");
}

static void test_real_data(void **state) {
    (void)state;
    char path[4096], spec[4200];
    struct samples samples;
    struct dataset_shape shape = {.channels = 1, .height = 200, .width = 1, .classes = 2, .labels = 1, .vocabulary = 10000};
    snprintf(spec, sizeof spec, "reviews:%s", test_data("imdb/train.tsv", path));
    assert_ok(samples_open(spec, DATASET_TRAIN, &shape, &samples, &test_error));
    assert_int_equal(samples.count, 4000);
    assert_int_equal(vocabulary_size(samples.dataset->shape.words[0]), 10000);
    assert_int_equal(vocabulary_find(samples.dataset->shape.words[0], "the", 3), 4);
    samples_close(&samples);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reviews),      cmocka_unit_test(test_foreign_files), cmocka_unit_test(test_damaged_reviews),
        cmocka_unit_test(test_pairs),        cmocka_unit_test(test_given_tokens),  cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_parting_kept), cmocka_unit_test(test_words_needed),  cmocka_unit_test(test_damaged_pairs),
        cmocka_unit_test(test_two_inputs),   cmocka_unit_test(test_wrong_inputs),  cmocka_unit_test(test_real_data)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
