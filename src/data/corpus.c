/* Text files: see the header. */
#include "data/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "data/words.h"

#define FILE_LIMIT ((size_t)1 << 34)

static enum ps_status check_line(const char *path, int64_t number, const char *line, size_t length, struct ps_error *error) {
    const char *wrong = utf8_invalid(line, length);
    if (!wrong) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: line %lld: byte %zu (0x%02x) is not UTF-8 text", path, (long long)number,
                     (size_t)(wrong - line) + 1, (unsigned)(unsigned char)*wrong);
}

static enum ps_status find_lines(const char *path, struct corpus *corpus, size_t size, struct ps_error *error) {
    int64_t lines = size > 0 && corpus->data[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) lines += corpus->data[i] == '\n';
    if (lines == 0) return error_set(error, PS_BAD_INPUT, "%s: empty", path);
    if (lines >= UINT32_MAX) return error_set(error, PS_BAD_INPUT, "%s: %lld lines are too many", path, (long long)lines);
    corpus->lines = calloc((size_t)lines, sizeof *corpus->lines);
    if (!corpus->lines) return error_memory(error, path, (size_t)lines * sizeof *corpus->lines);
    for (char *line = corpus->data, *end = line + size; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        size_t length = (size_t)(stop - line) - (stop > line && stop[-1] == '\r');
        TRY(check_line(path, corpus->count + 1, line, length, error));
        line[length] = '\0';
        corpus->lines[corpus->count++] = line;
        line = stop + 1;
    }
    return PS_OK;
}

enum ps_status corpus_read(const char *path, struct corpus *corpus, struct ps_error *error) {
    struct corpus made = {0};
    size_t size;
    TRY(file_read(path, FILE_LIMIT, &made.data, &size, error));
    size = utf8_drop_mark(made.data, size);
    enum ps_status status = find_lines(path, &made, size, error);
    if (status == PS_OK)
        *corpus = made;
    else
        corpus_free(&made);
    return status;
}

void corpus_free(struct corpus *corpus) {
    free(corpus->data);
    free(corpus->lines);
    free(corpus->tokens);
    free(corpus->first);
    *corpus = (struct corpus){0};
}

/* The words of a line in `words`, which is emptied before; "" where memory ran out, which `words` remembers. */
static const char *split_line(const struct corpus *corpus, int64_t line, corpus_split *split, struct text *words) {
    words->length = 0;
    if (words->data) words->data[0] = '\0';
    split(corpus->lines[line], strlen(corpus->lines[line]), words);
    return words->data && !words->failed ? words->data : "";
}

enum ps_status corpus_vocabulary(const struct corpus *corpus, corpus_split *split, int size, struct vocabulary **vocabulary,
                                 struct ps_error *error) {
    struct vocabulary *made = vocabulary_create(error);
    if (!made) return PS_FAILED;
    struct text words = {0};
    enum ps_status status = PS_OK;
    for (int64_t l = 0; l < corpus->count && status == PS_OK; l++) {
        const char *place = split_line(corpus, l, split, &words), *word;
        for (size_t length; status == PS_OK && (length = words_next(&place, &word)) > 0;) {
            status = vocabulary_count(made, word, length, error);
        }
    }
    if (status == PS_OK && words.failed) status = error_memory(error, "words", words.capacity);
    if (status == PS_OK) status = vocabulary_finish(made, size, error);
    text_free(&words);
    if (status == PS_OK)
        *vocabulary = made;
    else
        vocabulary_destroy(made);
    return status;
}

static enum ps_status add_token(struct corpus *corpus, size_t *count, size_t *capacity, int32_t token, struct ps_error *error) {
    if (*count == *capacity) {
        size_t wanted = *capacity > 0 ? 2 * *capacity : 1 << 16;
        int32_t *grown = realloc(corpus->tokens, wanted * sizeof *grown);
        if (!grown) return error_memory(error, "tokens", wanted * sizeof *grown);
        corpus->tokens = grown;
        *capacity = wanted;
    }
    corpus->tokens[(*count)++] = token;
    return PS_OK;
}

enum ps_status corpus_number(struct corpus *corpus, corpus_split *split, const struct vocabulary *vocabulary,
                             struct ps_error *error) {
    size_t count = 0, capacity = 0;
    corpus->first = calloc((size_t)corpus->count + 1, sizeof *corpus->first);
    if (!corpus->first) return error_memory(error, "tokens", (size_t)corpus->count * sizeof *corpus->first);
    struct text words = {0};
    enum ps_status status = PS_OK;
    for (int64_t l = 0; l < corpus->count && status == PS_OK; l++) {
        const char *place = split_line(corpus, l, split, &words), *word;
        for (size_t length; status == PS_OK && (length = words_next(&place, &word)) > 0;) {
            status = add_token(corpus, &count, &capacity, vocabulary_find(vocabulary, word, length), error);
        }
        corpus->first[l + 1] = count;
    }
    if (status == PS_OK && words.failed) status = error_memory(error, "words", words.capacity);
    text_free(&words);
    return status;
}

const int32_t *corpus_tokens(const struct corpus *corpus, int64_t line, int64_t *count) {
    *count = (int64_t)(corpus->first[line + 1] - corpus->first[line]);
    return corpus->tokens + corpus->first[line];
}
