/* See the header. */
#include "exec/decoding.h"

#include "data/vocabulary.h"

int decoding_best(const float *probabilities, int classes) {
    int best = VOCABULARY_UNKNOWN;
    for (int token = VOCABULARY_UNKNOWN + 1; token < classes; token++)
        if (token != VOCABULARY_START && probabilities[token] > probabilities[best]) best = token;
    return best;
}

/* How many of `samples` from `first` on are decoded. */
static int count_written(const struct decoding *decoding, int64_t first, int samples) {
    int64_t left = decoding->samples - first;
    return left < samples ? (int)left : samples;
}

void decoding_put(const struct decoding *decoding, int64_t first, int samples, size_t length, int32_t *data) {
    int count = count_written(decoding, first, samples);
    for (int s = 0; s < count; s++) {
        const int32_t *tokens = decoding->tokens + (first + s) * decoding->positions;
        int32_t *words = data + ((size_t)s + 1) * length - decoding->positions;
        words[0] = VOCABULARY_START;
        for (int t = 1; t < decoding->positions; t++) words[t] = t <= decoding->position ? tokens[t - 1] : VOCABULARY_PADDING;
    }
}

void decoding_take(const struct decoding *decoding, int64_t first, int samples, const float *probabilities) {
    int count = count_written(decoding, first, samples);
    for (int s = 0; s < count; s++) {
        const float *p = probabilities + ((int64_t)s * decoding->positions + decoding->position) * decoding->classes;
        decoding->tokens[(first + s) * decoding->positions + decoding->position] = decoding_best(p, decoding->classes);
    }
}

bool decoding_ended(const struct decoding *decoding) {
    for (int64_t s = 0; s < decoding->samples; s++) {
        const int32_t *tokens = decoding->tokens + s * decoding->positions;
        int t = 0;
        while (t < decoding->positions && tokens[t] != VOCABULARY_END) t++;
        if (t == decoding->positions) return false;
    }
    return true;
}
