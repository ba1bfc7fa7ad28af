/* See the header. The words of a pair of sentences get numbers, so that n-grams are compared as numbers. */
#include "eval/bleu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/corpus.h"

struct words {
    char *text;
    int *numbers;
    int count;
};

struct spelling {
    const char *word;
    size_t length;
};

/* Splits `line` and adds each new word to `known`, which has room for all. */
static enum ps_status split(const char *line, struct words *words, struct ps_error *error) {
    struct text text = {0};
    words_13a(line, strlen(line), &text);
    *words = (struct words){.text = text_take(&text)};
    TRY(memory_check(words->text, "a sentence", error));
    return memory_new(&words->numbers, strlen(words->text) / 2 + 1, "a sentence", error);
}

static void number(struct words *words, struct spelling *known, int *known_count) {
    const char *place = words->text, *word;
    for (size_t length; (length = words_next(&place, &word)) > 0; words->count++) {
        int k = 0;
        while (k < *known_count && (known[k].length != length || memcmp(known[k].word, word, length) != 0)) k++;
        if (k == *known_count) known[(*known_count)++] = (struct spelling){word, length};
        words->numbers[words->count] = k;
    }
}

static int occurrences(const struct words *words, const int *gram, int n) {
    int count = 0;
    for (int i = 0; i + n <= words->count; i++) count += memcmp(words->numbers + i, gram, (size_t)n * sizeof *gram) == 0;
    return count;
}

static void count(struct bleu *bleu, const struct words *sentence, const struct words *reference) {
    bleu->length += sentence->count;
    bleu->reference_length += reference->count;
    for (int n = 1; n <= BLEU_ORDER; n++) {
        for (int i = 0; i + n <= sentence->count; i++) {
            bleu->totals[n - 1]++;
            /* The k-th occurrence of an n-gram matches if the reference has it k times. */
            struct words before = {.numbers = sentence->numbers, .count = i + n};
            const int *gram = sentence->numbers + i;
            bleu->matches[n - 1] += occurrences(&before, gram, n) <= occurrences(reference, gram, n);
        }
    }
}

enum ps_status bleu_add(struct bleu *bleu, const char *sentence, const char *reference, struct ps_error *error) {
    struct words a = {0}, b = {0};
    struct spelling *known = NULL;
    int known_count = 0;
    enum ps_status status = split(sentence, &a, error);
    if (status == PS_OK) status = split(reference, &b, error);
    if (status == PS_OK) {
        size_t most = strlen(a.text) / 2 + strlen(b.text) / 2 + 2;
        status = memory_new(&known, most, "a sentence", error);
    }
    if (status == PS_OK) {
        number(&a, known, &known_count);
        number(&b, known, &known_count);
        count(bleu, &a, &b);
    }
    free(known);
    free(a.text);
    free(a.numbers);
    free(b.text);
    free(b.numbers);
    return status;
}

double bleu_score(const struct bleu *bleu) {
    if (bleu->matches[0] == 0) return 0;
    double sum = 0, smooth = 1;
    for (int n = 0; n < BLEU_ORDER; n++) {
        if (bleu->totals[n] == 0) return 0;
        double matches = (double)bleu->matches[n];
        if (bleu->matches[n] == 0) {
            smooth *= 2;
            matches = 1 / smooth;
        }
        sum += log(matches / (double)bleu->totals[n]);
    }
    double ratio = (double)bleu->reference_length / (double)bleu->length;
    return 100 * (ratio > 1 ? exp(1 - ratio) : 1) * exp(sum / BLEU_ORDER);
}
