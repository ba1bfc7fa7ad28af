/*
 * Running text and synthetic sequences: how a file is cut into parts and sequences, the labels of both tasks, vocabularies, and
 * what is wrong with files and specs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/corpus.h"
#include "data/dataset.h"
#include "data/vocabulary.h"
#include "support.h"

static void write_file(const char *name, const void *text, size_t size) {
    char path[4096];
    test_file_write(file_join(path, test_directory, name), text, size);
}

static enum ps_status open_text(const char *rest, enum dataset_part part, const struct dataset_shape *wanted,
                                struct samples *samples) {
    char spec[8400];
    snprintf(spec, sizeof spec, "text:%s/%s", test_directory, rest);
    return samples_open(spec, part, wanted, samples, &test_error);
}

/* A language model of sequences of `length`. */
static struct dataset_shape language(int length, int vocabulary, bool masked) {
    return (struct dataset_shape){.channels = 1,
                                  .height = length,
                                  .width = 1,
                                  .classes = vocabulary,
                                  .labels = length,
                                  .vocabulary = vocabulary,
                                  .gives_tokens = true,
                                  .masked = masked};
}

static void assert_sequence(const struct samples *samples, int64_t index, const char *expected) {
    const struct dataset *dataset = samples->dataset;
    const struct vocabulary *words = dataset->shape.words[0];
    int32_t tokens[64];
    int32_t labels[64];
    char got[256] = "";
    assert_ok(dataset->class->read(dataset, index, tokens, labels, &test_error));
    for (int64_t t = 0; t < dataset->shape.height; t++) {
        strcat(got, vocabulary_token(words, tokens[t]));
        strcat(got, ">");
        strcat(got, vocabulary_token(words, labels[t]));
        strcat(got, t + 1 < dataset->shape.height ? " " : "");
    }
    assert_string_equal(got, expected);
}

/* 20 characters, 2 of them the test part; "e" stands in the test part alone. */
static void test_characters(void **state) {
    (void)state;
    static const char text[] = "abcabcddabäcabcabdae";
    write_file("a.txt", text, strlen(text));
    struct dataset_shape wanted = language(4, VOCABULARY_SPECIALS + 5, false);
    struct samples train, test;
    assert_ok(open_text("a.txt,test=0.25", DATASET_TRAIN, &wanted, &train));
    assert_int_equal(train.count, 3); /* 15 characters: 3 times 4, and the last one's next */
    assert_sequence(&train, 0, "a>b b>c c>a a>b");
    assert_sequence(&train, 1, "b>c c>d d>d d>a");
    assert_sequence(&train, 2, "a>b b>ä ä>c c>a");
    memcpy(wanted.words, train.dataset->shape.words, sizeof wanted.words);
    wanted.height = wanted.labels = 2;
    assert_ok(open_text("a.txt,test=0.25", DATASET_TEST, &wanted, &test));
    assert_int_equal(test.count, 2);
    assert_sequence(&test, 0, "a>b b>d");
    assert_sequence(&test, 1, "d>a a><unk>");
    assert_ptr_equal(test.dataset->shape.words[0], train.dataset->shape.words[0]);
    samples_close(&test);
    memset(wanted.words, 0, sizeof wanted.words);
    assert_ok(open_text("a.txt,test=0.25#test", DATASET_TRAIN, &wanted, &test)); /* makes the training part's by itself */
    assert_sequence(&test, 1, "d>a a><unk>");
    samples_close(&test);
    samples_close(&train);
}

static void test_words(void **state) {
    (void)state;
    static const char text[] = "the cat  sat\non the\tmat\r\nthe <unk> cat rare";
    write_file("a.txt", text, strlen(text));
    struct dataset_shape wanted = language(6, VOCABULARY_SPECIALS + 2, false);
    struct samples samples;
    assert_ok(open_text("a.txt,tokens=words,test=0", DATASET_TRAIN, &wanted, &samples));
    assert_int_equal(samples.count, 1);
    assert_sequence(&samples, 0, "the>cat cat><unk> <unk>></s> </s>><unk> <unk>>the the><unk>");
    samples_close(&samples);
}

static void test_bytes(void **state) {
    (void)state;
    write_file("a.bin", "\x00\xffzA\x00", 5);
    struct dataset_shape wanted = language(4, VOCABULARY_SPECIALS + 256, false);
    struct samples samples;
    assert_ok(open_text("a.bin,tokens=bytes,test=0", DATASET_TRAIN, &wanted, &samples));
    assert_sequence(&samples, 0, "<0x00>><0xFF> <0xFF>><0x7A> <0x7A>><0x41> <0x41>><0x00>");
    int32_t tokens[4];
    int32_t labels[4];
    assert_ok(samples.dataset->class->read(samples.dataset, 0, tokens, labels, &test_error));
    assert_int_equal(tokens[2], VOCABULARY_SPECIALS + 'z');
    samples_close(&samples);
}

/* A text as a vocabulary's tokens, and tokens as text. */
static void test_spelt(void **state) {
    (void)state;
    static const struct {
        const char *text, *tokens, *given, *back;
        int count;
    } cases[] = {
        {"ab\xc3\xa4", "characters", "b\xc3\xa4z", "b\xc3\xa4<unk>", 3},
        {"the cat\nsat", "words", "cat the\nsat\n  the\ton", "cat the\nsat\nthe <unk>", 7},
        {"ab", "bytes", "\xff\n", "\xff\n", 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct dataset_shape wanted = language(1, VOCABULARY_SPECIALS + (c == 2 ? 256 : 3), false);
        struct samples samples;
        struct token_list list = {0};
        struct text text = {0};
        char rest[64];
        write_file("spelt.txt", cases[c].text, strlen(cases[c].text));
        snprintf(rest, sizeof rest, "spelt.txt,test=0,tokens=%s", cases[c].tokens);
        assert_ok(open_text(rest, DATASET_TRAIN, &wanted, &samples));
        const struct vocabulary *words = samples.dataset->shape.words[0];
        assert_ok(running_text_number(words, cases[c].given, strlen(cases[c].given), &list, &test_error));
        assert_int_equal(list.count, cases[c].count);
        assert_ok(running_text_spell(words, list.tokens, list.count, &text, &test_error));
        assert_string_equal(text.data, cases[c].back);
        text_free(&text);
        /* Numbers that are no tokens. */
        assert_ok(running_text_spell(words, (const int32_t[]){-1, vocabulary_size(words)}, 2, &text, &test_error));
        assert_string_equal(text.data, c == 1 ? "<unk> <unk>" : "<unk><unk>");
        text_free(&text);
        if (c < 2) assert_status(running_text_number(words, "a\xff", 2, &list, &test_error), PS_USAGE, "the text is not UTF-8");
        free(list.tokens);
        samples_close(&samples);
    }
    char path[4096], spec[4200];
    struct dataset_shape labelled = {.channels = 1, .height = 4, .width = 1, .classes = 2, .labels = 1, .vocabulary = 5};
    struct samples samples;
    struct token_list list = {0};
    struct text text = {0};
    write_file("r.tsv", "1\tgood\n", 7);
    snprintf(spec, sizeof spec, "reviews:%s", file_join(path, test_directory, "r.tsv"));
    assert_ok(samples_open(spec, DATASET_TRAIN, &labelled, &samples, &test_error));
    const struct vocabulary *words = samples.dataset->shape.words[0];
    assert_status(running_text_number(words, "a", 1, &list, &test_error), PS_USAGE,
                  "the vocabulary was made from 'reviews', not from running text");
    assert_status(running_text_spell(words, (const int32_t[]){4}, 1, &text, &test_error), PS_USAGE,
                  "the vocabulary was made from 'reviews', not from running text");
    samples_close(&samples);
}

/* About 15% hidden, keyed; what is not hidden is as it was. */
static void test_masked(void **state) {
    (void)state;
    enum { LENGTH = 64, COUNT = 100 };
    char *text = malloc(LENGTH * COUNT);
    assert_non_null(text);
    for (int i = 0; i < LENGTH * COUNT; i++) text[i] = (char)('a' + i % 26);
    write_file("a.txt", text, LENGTH * COUNT);
    free(text);
    struct dataset_shape wanted = language(LENGTH, VOCABULARY_SPECIALS + 26, true);
    struct samples samples;
    assert_ok(open_text("a.txt,test=0", DATASET_TRAIN, &wanted, &samples));
    assert_int_equal(samples.count, COUNT);
    const struct dataset_class *class = samples.dataset->class;
    int chosen = 0, hidden = 0, changed = 0, otherwise = 0;
    for (int64_t n = 0; n < COUNT; n++) {
        int32_t tokens[LENGTH], again[LENGTH];
        int32_t labels[LENGTH], labels_again[LENGTH];
        struct random_key key = random_key(1, RANDOM_AUGMENT, 2, (uint64_t)n),
                          other = random_key(1, RANDOM_AUGMENT, 3, (uint64_t)n);
        assert_ok(class->read_augmented(samples.dataset, n, key, tokens, labels, &test_error));
        for (int t = 0; t < LENGTH; t++) {
            int letter = VOCABULARY_SPECIALS + (int)((n * LENGTH + t) % 26);
            chosen += labels[t] >= 0;
            hidden += tokens[t] == MASKING_TOKEN;
            changed += tokens[t] != letter;
            if (labels[t] >= 0) assert_int_equal(labels[t], letter);
            if (labels[t] < 0) assert_int_equal(tokens[t], letter);
            assert_true(tokens[t] == MASKING_TOKEN || tokens[t] >= VOCABULARY_SPECIALS);
        }
        assert_ok(class->read_augmented(samples.dataset, n, other, again, labels_again, &test_error));
        otherwise += memcmp(labels, labels_again, sizeof labels) != 0;
        assert_ok(class->read(samples.dataset, n, tokens, labels, &test_error));
        assert_ok(class->read(samples.dataset, n, again, labels_again, &test_error));
        assert_memory_equal(tokens, again, sizeof tokens);
        assert_memory_equal(labels, labels_again, sizeof labels);
    }
    assert_in_range(chosen, 840, 1080); /* 960, four deviations either way */
    assert_in_range(100 * hidden / chosen, 74, 86);
    assert_in_range(100 * changed / chosen, 84, 96);
    assert_true(otherwise > 95);
    samples_close(&samples);
}

static void test_refusals(void **state) {
    (void)state;
    write_file("a.txt", "abcabc", 6);
    write_file("bad.txt", "ab\xff", 3);
    struct dataset_shape wanted = language(2, VOCABULARY_SPECIALS + 3, false);
    struct dataset_shape image = {.channels = 1, .height = 2, .width = 2, .classes = 2};
    struct samples samples;
    assert_status(open_text("none.txt", DATASET_TRAIN, &wanted, &samples), PS_BAD_INPUT, "none.txt");
    assert_status(open_text("bad.txt", DATASET_TRAIN, &wanted, &samples), PS_BAD_INPUT, "byte 3 (0xff) is not UTF-8");
    assert_status(open_text("a.txt,tokens=word", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "did you mean 'words'");
    assert_status(open_text("a.txt,token=words", DATASET_TRAIN, &wanted, &samples), PS_USAGE,
                  "did you mean 'tokens'?\nknown: tokens, test, vocab, tokenizer");
    assert_status(open_text("a.txt,test=2", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "test=2");
    assert_status(open_text("a.txt", DATASET_TEST, &wanted, &samples), PS_USAGE, "its test set has 0 tokens");
    assert_status(open_text("a.txt", DATASET_TRAIN, &image, &samples), PS_USAGE, "the network reads images");
    wanted.vocabulary = wanted.classes = 9;
    assert_status(open_text("a.txt", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "the option vocab=7");
    wanted = language(2, VOCABULARY_SPECIALS + 3, false);
    wanted.labels = 1;
    assert_status(open_text("a.txt", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "running text, but the network translates");
    wanted.gives_tokens = false;
    assert_status(open_text("a.txt", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "but the network reads texts with one label");
    wanted = language(2, VOCABULARY_SPECIALS + 3, false);
    wanted.words_needed = true;
    assert_status(open_text("a.txt", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "needs a vocabulary");
    wanted = language(6, VOCABULARY_SPECIALS + 3, false);
    assert_status(open_text("a.txt,test=0", DATASET_TRAIN, &wanted, &samples), PS_USAGE, "fewer than the 7 of one sequence");
    assert_status(open_text("a.txt,test=0", DATASET_TEST, &wanted, &samples), PS_USAGE, "option test=, here 0");
}

/* What synthetic sequences' labels are, for each kind of network. */
static void test_synthetic(void **state) {
    (void)state;
    struct dataset_shape wanted = language(9, 20, false);
    struct samples samples;
    int32_t tokens[9];
    int32_t labels[9];
    assert_status(samples_open("synthetic:tokens,size=9", DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE,
                  "known: samples, noise, seed");
    assert_ok(samples_open("synthetic:tokens,noise=0", DATASET_TRAIN, &wanted, &samples, &test_error));
    const struct dataset *dataset = samples.dataset;
    int successor[20] = {0};
    for (int64_t n = 0; n < 50; n++) { /* without noise each token has one successor */
        assert_ok(dataset->class->read(dataset, n, tokens, labels, &test_error));
        for (int t = 0; t < 8; t++) {
            int token = tokens[t];
            assert_in_range(token, VOCABULARY_SPECIALS, 19);
            assert_int_equal(labels[t], tokens[t + 1]);
            if (successor[token] > 0) assert_int_equal(successor[token], labels[t]);
            successor[token] = labels[t];
        }
        assert_int_equal(labels[8], -1);
    }
    samples_close(&samples);
    wanted.gives_tokens = false;
    wanted.labels = 1;
    wanted.classes = 3;
    assert_ok(samples_open("synthetic:tokens", DATASET_TRAIN, &wanted, &samples, &test_error));
    for (int64_t n = 0; n < 6; n++) {
        assert_ok(samples.dataset->class->read(samples.dataset, n, tokens, labels, &test_error));
        assert_int_equal(labels[0], n % 3);
    }
    samples_close(&samples);
    wanted.gives_tokens = true;
    wanted.labels = 4; /* five of the source, then four of the target */
    wanted.classes = 11;
    assert_ok(samples_open("synthetic:tokens", DATASET_TRAIN, &wanted, &samples, &test_error));
    assert_ok(samples.dataset->class->read(samples.dataset, 3, tokens, labels, &test_error));
    assert_int_equal(tokens[5], VOCABULARY_START);
    for (int t = 0; t < 3; t++) {
        assert_int_equal(labels[t], VOCABULARY_SPECIALS + (3 * tokens[t] + 1) % (11 - VOCABULARY_SPECIALS));
        assert_int_equal(tokens[6 + t], labels[t]);
    }
    assert_int_equal(labels[3], VOCABULARY_END);
    samples_close(&samples);
    wanted.labels = 6; /* three of the source: the target ends with the fourth */
    assert_ok(samples_open("synthetic:tokens", DATASET_TRAIN, &wanted, &samples, &test_error));
    assert_ok(samples.dataset->class->read(samples.dataset, 3, tokens, labels, &test_error));
    for (int t = 0; t < 6; t++) {
        const int word = VOCABULARY_SPECIALS + (3 * tokens[t % 3] + 1) % (11 - VOCABULARY_SPECIALS);
        assert_int_equal(labels[t], t < 3 ? word : t == 3 ? VOCABULARY_END : -1);
        assert_int_equal(tokens[3 + t], t == 0 ? VOCABULARY_START : t < 4 ? labels[t - 1] : VOCABULARY_PADDING);
    }
    samples_close(&samples);
    wanted = language(1, 20, false);
    assert_status(samples_open("synthetic:tokens", DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE,
                  "data 'synthetic:tokens' need sequences of 2 tokens or more, the network's are 1");
    wanted = language(9, 11, false);
    wanted.labels = 4;
    struct dataset_shape image = {.channels = 1, .height = 8, .width = 8, .classes = 2};
    assert_status(samples_open("synthetic:tokens", DATASET_TRAIN, &image, &samples, &test_error), PS_USAGE, "reads images");
    assert_status(samples_open("synthetic:images", DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE, "reads tokens");
    assert_status(samples_open("synthetic:token", DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE, "'tokens'");
    wanted.vocabulary = 5;
    assert_status(samples_open("synthetic:tokens", DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE,
                  "6 tokens or more");
    assert_status(samples_open("synthetic:tokens", DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE, "option vocab=6");
}

static uint64_t add_number(uint64_t hash, int32_t number) { return (hash ^ (uint32_t)number) * 0x100000001b3u; }

/* Sequences that must never change, or saved results would not be comparable: FNV-1a over some samples, number by number. */
static void test_same_everywhere(void **state) {
    (void)state;
    struct dataset_shape of_language = language(9, 20, false), of_masks = language(9, 20, true),
                         labelled = language(9, 20, false), translation = language(9, 20, false);
    labelled.gives_tokens = false;
    labelled.labels = 1;
    labelled.classes = 3;
    translation.labels = 4;
    translation.classes = 11;
    const struct {
        const char *spec;
        const struct dataset_shape *shape;
        uint64_t hash;
    } cases[] = {
        {"synthetic:tokens", &of_language, 0x02c062ab73d01d02u},
        {"synthetic:tokens,noise=0.75,seed=3", &of_language, 0x3a489c0c3e9d5c4eu},
        {"synthetic:tokens#test", &of_language, 0x782087f7f6d31ca3u},
        {"synthetic:tokens", &of_masks, 0xb36b79ac106e0b9fu},
        {"synthetic:tokens#test", &of_masks, 0xadac00187f1e3d3au},
        {"synthetic:tokens,noise=0.25", &labelled, 0x545658fd8ad20a77u},
        {"synthetic:tokens,noise=0.25", &translation, 0xed1cc6923d6c7678u},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct samples samples;
        uint64_t hash = 0xcbf29ce484222325u;
        assert_ok(samples_open(cases[c].spec, DATASET_TRAIN, cases[c].shape, &samples, &test_error));
        for (int64_t n = 0; n < 20; n++) {
            int32_t tokens[9], labels[9];
            assert_ok(samples.dataset->class->read(samples.dataset, n, tokens, labels, &test_error));
            for (int t = 0; t < 9; t++) hash = add_number(hash, tokens[t]);
            for (int l = 0; l < cases[c].shape->labels; l++) hash = add_number(hash, labels[l]);
        }
        if (hash != cases[c].hash) fail_msg("case %d: 0x%016" PRIx64 "u", (int)c, hash);
        samples_close(&samples);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters), cmocka_unit_test(test_words),           cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_spelt),      cmocka_unit_test(test_masked),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_synthetic),  cmocka_unit_test(test_same_everywhere),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
