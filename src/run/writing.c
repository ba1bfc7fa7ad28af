/* See the header. */
#include "run/writing.h"

#include "data/vocabulary.h"

int writing_best(const float *probabilities, int classes) {
    int best = VOCABULARY_UNKNOWN;
    for (int token = VOCABULARY_UNKNOWN + 1; token < classes; token++)
        if (token != VOCABULARY_START && probabilities[token] > probabilities[best]) best = token;
    return best;
}

/* How many of `samples` from `first` on are written. */
static int count_written(const struct writing *writing, int64_t first, int samples) {
    int64_t left = writing->samples - first;
    return left < samples ? (int)left : samples;
}

void writing_put(const struct writing *writing, int64_t first, int samples, size_t floats, float *data) {
    int count = count_written(writing, first, samples);
    for (int s = 0; s < count; s++) {
        const int32_t *tokens = writing->tokens + (first + s) * writing->positions;
        float *words = data + ((size_t)s + 1) * floats - writing->positions;
        words[0] = VOCABULARY_START;
        for (int t = 1; t < writing->positions; t++)
            words[t] = t <= writing->position ? (float)tokens[t - 1] : VOCABULARY_PADDING;
    }
}

void writing_take(const struct writing *writing, int64_t first, int samples, const float *probabilities) {
    int count = count_written(writing, first, samples);
    for (int s = 0; s < count; s++) {
        const float *p = probabilities + ((int64_t)s * writing->positions + writing->position) * writing->classes;
        writing->tokens[(first + s) * writing->positions + writing->position] = writing_best(p, writing->classes);
    }
}

bool writing_ended(const struct writing *writing) {
    for (int64_t s = 0; s < writing->samples; s++) {
        const int32_t *tokens = writing->tokens + s * writing->positions;
        int t = 0;
        while (t < writing->positions && tokens[t] != VOCABULARY_END) t++;
        if (t == writing->positions) return false;
    }
    return true;
}
