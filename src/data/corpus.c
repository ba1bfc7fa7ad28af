/* Tokenisation, vocabularies that a dataset of text takes, and text files as numbers; see the header. */
#include "data/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/tokenizer.h"

/* ------------------------------------------------------------- tokenisation */

/*
 * 13a is defined (by mteval-v13a.pl, and after it by sacrebleu) as a sequence of substitutions over the whole line; each
 * substitution continues after its last match. Here each is a pass over the bytes of the line. Only blanks next to ASCII
 * characters are inserted, so UTF-8 stays valid.
 */

/* Length in bytes of the white space character (as in Unicode) at `text`; 0: there is none. */
static size_t blank_length(const char *text, size_t left) {
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] == ' ' || (b[0] >= 0x09 && b[0] <= 0x0d) || (b[0] >= 0x1c && b[0] <= 0x1f)) return 1;
    if (left >= 2 && b[0] == 0xc2 && (b[1] == 0x85 || b[1] == 0xa0)) return 2;
    if (left < 3) return 0;
    if (b[0] == 0xe2 && b[1] == 0x80 && (b[2] <= 0x8a || b[2] == 0xa8 || b[2] == 0xa9 || b[2] == 0xaf)) return 3;
    if (b[0] == 0xe1 && b[1] == 0x9a && b[2] == 0x80) return 3;
    if (b[0] == 0xe2 && b[1] == 0x81 && b[2] == 0x9f) return 3;
    return b[0] == 0xe3 && b[1] == 0x80 && b[2] == 0x80 ? 3 : 0;
}

void words_given(const char *line, size_t length, struct text *words) {
    bool first = true;
    for (size_t i = 0; i < length;) {
        size_t blank = blank_length(line + i, length - i), end = i;
        if (blank > 0) {
            i += blank;
            continue;
        }
        while (end < length && blank_length(line + end, length - end) == 0) end++;
        if (!first) text_add_raw(words, " ", 1);
        text_add_raw(words, line + i, end - i);
        first = false;
        i = end;
    }
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_point(char c) { return c == '.' || c == ','; }

/* Punctuation that is always a word of its own: ASCII's except ' , - and . */
static bool is_symbol(char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

struct rule {
    bool (*first)(char), (*second)(char); /* second NULL: the rule matches one character */
    bool not_first, not_second;           /* the character must not be in that class */
    const char *format;                   /* '1', '2': the first, second matched character; ' ': a blank */
};

static void apply(const struct rule *rule, const char *line, size_t length, struct text *out) {
    for (size_t i = 0; i < length;) {
        bool two = rule->second != NULL;
        bool match = rule->first(line[i]) != rule->not_first;
        if (match && two) match = i + 1 < length && rule->second(line[i + 1]) != rule->not_second;
        if (!match) {
            text_add_raw(out, &line[i++], 1);
            continue;
        }
        for (const char *f = rule->format; *f; f++) text_add_raw(out, *f == ' ' ? f : &line[i + (size_t)(*f - '1')], 1);
        i += two ? 2 : 1;
    }
}

static bool is_dash(char c) { return c == '-'; }

static const struct rule rules[] = {
    {is_symbol, NULL, false, false, " 1 "},
    {is_digit, is_point, true, false, "1 2 "},
    {is_point, is_digit, false, true, " 1 2"},
    {is_digit, is_dash, false, false, "1 2 "},
};

static void unescape(const char *line, size_t length, struct text *out) {
    static const char *const names[] = {"&quot;", "&amp;", "&lt;", "&gt;", "<skipped>"};
    static const char *const values[] = {"\"", "&", "<", ">", ""};
    struct text from = {0};
    text_add_raw(&from, line, length);
    for (int n = 0; n < 5; n++) { /* in this order "&amp;lt;" becomes "<" */
        static const int order[] = {4, 0, 1, 2, 3};
        const char *name = names[order[n]], *value = values[order[n]];
        size_t size = strlen(name);
        struct text to = {.failed = from.failed};
        for (size_t i = 0; i < from.length;) {
            bool match = from.length - i >= size && memcmp(from.data + i, name, size) == 0;
            if (match)
                text_add_raw(&to, value, strlen(value));
            else
                text_add_raw(&to, from.data + i, 1);
            i += match ? size : 1;
        }
        text_free(&from);
        from = to;
    }
    text_add_raw(out, " ", 1);
    if (from.length > 0) text_add_raw(out, from.data, from.length);
    text_add_raw(out, " ", 1);
    if (from.failed) out->failed = true;
    text_free(&from);
}

void words_13a(const char *line, size_t length, struct text *words) {
    struct text from = {0};
    unescape(line, length, &from);
    for (size_t r = 0; r < sizeof rules / sizeof *rules && !from.failed; r++) {
        struct text to = {0};
        apply(&rules[r], from.data, from.length, &to);
        text_free(&from);
        from = to;
    }
    if (from.failed)
        words->failed = true;
    else
        words_given(from.data, from.length, words);
    text_free(&from);
}

void words_plain(const char *line, size_t length, struct text *words) {
    static const char mark[] = "<br />";
    struct text kept = {0};
    for (size_t i = 0; i < length; i++) {
        char c = line[i];
        if (length - i >= sizeof mark - 1 && memcmp(line + i, mark, sizeof mark - 1) == 0) {
            i += sizeof mark - 2;
            c = ' ';
        }
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        bool part = (c >= 'a' && c <= 'z') || is_digit(c) || c == '\'' || (unsigned char)c >= 0x80;
        text_add_raw(&kept, part ? &c : " ", 1);
    }
    if (kept.failed)
        words->failed = true;
    else if (kept.length > 0)
        words_given(kept.data, kept.length, words);
    text_free(&kept);
}

size_t words_next(const char **position, const char **word) {
    while (**position == ' ') (*position)++;
    *word = *position;
    size_t length = strcspn(*position, " ");
    *position += length;
    return length;
}

/* ------------------------------------------------------------------ options */

static void describe(const char *what, const char *name, char data[VOCABULARY_DATA]) {
    snprintf(data, VOCABULARY_DATA, name ? "%s,tokens=%s" : "%s", what, name);
}

/* Reads a tokenizer.json. */
static enum ps_status read_tokenizer(const char *path, const char *what, int first, struct vocabulary **vocabulary,
                                     struct ps_error *error) {
    char *json, data[VOCABULARY_DATA];
    size_t size;
    struct tokenizer *tokenizer;
    TRY(file_read(path, JSON_FILE_LIMIT, &json, &size, error));
    enum ps_status status = tokenizer_create(json, size, path, &tokenizer, error);
    free(json);
    if (status != PS_OK) return status;
    *vocabulary = vocabulary_of_tokenizer(tokenizer, first, error);
    if (!*vocabulary) return PS_OUT_OF_MEMORY;
    describe(what, TOKENS_OF_TOKENIZER, data);
    vocabulary_set_data(*vocabulary, data);
    return PS_OK;
}

/* Reads the files that the spec names; *file becomes the one of the first vocabulary. */
static enum ps_status read_named(const char *what, struct spec *options, int count, int first, const char **file,
                                 struct text_vocabularies *vocabularies, struct ps_error *error) {
    const char *names[2] = {NULL, NULL}, *words = NULL;
    TRY(spec_string(options, "vocab", &words, error));
    if (first >= 0) TRY(spec_string(options, "tokenizer", &names[0], error));
    if (first >= 0 && count == 2) TRY(spec_string(options, "target_tokenizer", &names[1], error));
    if ((words && names[0]) || (names[1] && !names[0]))
        return error_set(error, PS_USAGE, "data '%s': %s", what,
                         words ? "vocab= and tokenizer= exclude each other" : "target_tokenizer= needs tokenizer=, too");
    *file = words ? words : names[0];
    if (words) return vocabulary_read(words, vocabularies->own, error);
    for (int v = 0; v < 2; v++)
        if (names[v]) TRY(read_tokenizer(names[v], what, first, &vocabularies->own[v], error));
    return PS_OK;
}

enum ps_status text_vocabularies_find(const char *what, struct spec *options, const struct dataset_shape *required, int count,
                                      int first, struct text_vocabularies *vocabularies, struct ps_error *error) {
    const char *file = NULL;
    TRY(read_named(what, options, count, first, &file, vocabularies, error));
    for (int v = 0; v < count; v++) {
        vocabularies->used[v] = file ? vocabularies->own[v] : required->words[v];
        const struct vocabulary *source = vocabularies->used[0];
        if (!vocabularies->used[v] && source && vocabulary_tokenizer(source)) {
            vocabularies->used[v] = source;
        } else if (file && !vocabularies->used[v]) {
            return error_set(error, PS_USAGE, "data '%s': %s has one vocabulary, but two languages need two", what, file);
        }
        if (file && required->words[0] && !vocabulary_equal(vocabularies->own[v], required->words[v]))
            return error_set(error, PS_USAGE, "data '%s': %s has other words than those that the network was trained with",
                             what, file);
        int size = v == 0 ? required->vocabulary : required->classes;
        if (vocabularies->used[v] && vocabulary_size(vocabularies->used[v]) > size) {
            const int tokens = vocabulary_size(vocabularies->used[v]);
            error_set(error, PS_USAGE, "data '%s': the vocabulary%s%s has %d tokens, but the network's %d", what,
                      file ? " " : "", file ? file : "", tokens, size);
            error_hint(error, "give a built-in network the option %s=%d", v == 0 ? "vocab" : "target_vocab", tokens);
            return PS_USAGE;
        }
    }
    return PS_OK;
}

/* The index in `names` of the tokenisation in `made`; -1: it is none of these. */
static int find_tokenisation(const char *what, const char *made, const char *const *names, int count) {
    char data[VOCABULARY_DATA];
    for (int i = 0; i < count; i++) {
        describe(what, names[i], data);
        if (strcmp(data, made) == 0) return i;
    }
    return -1;
}

enum ps_status text_tokens_find(const char *what, struct spec *options, const struct text_vocabularies *vocabularies,
                                const char *const *names, int count, int *kind, char data[VOCABULARY_DATA],
                                struct ps_error *error) {
    static const char *const only[] = {NULL};
    const char *made = vocabularies->used[0] ? vocabulary_data(vocabularies->used[0]) : "", *given = NULL;
    if (count > 0) TRY(spec_string(options, "tokens", &given, error));
    const int kinds = count > 0 ? count : 1, found = find_tokenisation(what, made, count > 0 ? names : only, kinds);
    int chosen = found >= 0 ? found : 0;
    if (given) {
        for (chosen = 0; chosen < count && strcmp(given, names[chosen]) != 0;) chosen++;
    }
    if (chosen == kinds) {
        enum ps_status status = error_unknown(error, PS_USAGE, "tokens", given, names, (size_t)count);
        error_prefix(error, "data '%s'", what);
        return status;
    }
    describe(what, count > 0 ? names[chosen] : NULL, data);
    if (*made && strcmp(made, data) != 0)
        return error_set(error, PS_USAGE, "data '%s': the vocabulary was made from %s", data, made);
    if (given && strcmp(given, TOKENS_OF_TOKENIZER) == 0 && !*made)
        return error_set(error, PS_USAGE, "data '%s' need ,tokenizer=FILE, a tokenizer.json of Hugging Face", data);
    *kind = chosen;
    return PS_OK;
}

enum ps_status text_vocabulary_missing(const char *what, struct ps_error *error) {
    error_set(error, PS_USAGE, "data '%s': needs a vocabulary, which numbers its words", what);
    error_hint(error, "evaluate a run, or add ,vocab=RUN_DIR/vocabulary.json");
    return PS_USAGE;
}

void text_vocabularies_take(struct text_vocabularies *vocabularies, int index, struct vocabulary *made, const char *data) {
    vocabulary_set_data(made, data);
    vocabularies->own[index] = made;
    vocabularies->used[index] = made;
}

void text_vocabularies_free(struct text_vocabularies *vocabularies) {
    for (int v = 0; v < 2; v++) vocabulary_destroy(vocabularies->own[v]);
}

/* -------------------------------------------------------------------- files */

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
    TRY(memory_new(&corpus->lines, lines, path, error));
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

/* Replaces `words` by the words of a line and returns them; "" with words->failed set if memory ran out. */
static const char *split_line(const struct corpus *corpus, int64_t line, corpus_split *split, struct text *words) {
    words->length = 0;
    if (words->data) words->data[0] = '\0';
    split(corpus->lines[line], strlen(corpus->lines[line]), words);
    return words->data && !words->failed ? words->data : "";
}

enum ps_status corpus_vocabulary(const struct corpus *corpus, corpus_split *split, int size, struct vocabulary **vocabulary,
                                 struct ps_error *error) {
    struct vocabulary *made = vocabulary_create(error);
    if (!made) return PS_OUT_OF_MEMORY;
    struct text words = {0};
    enum ps_status status = PS_OK;
    for (int64_t l = 0; l < corpus->count && status == PS_OK; l++) {
        const char *position = split_line(corpus, l, split, &words), *word;
        for (size_t length; status == PS_OK && (length = words_next(&position, &word)) > 0;) {
            status = vocabulary_count(made, word, length, error);
        }
    }
    if (status == PS_OK) status = text_status(&words, "words", error);
    if (status == PS_OK) status = vocabulary_finish(made, size, error);
    text_free(&words);
    if (status == PS_OK)
        *vocabulary = made;
    else
        vocabulary_destroy(made);
    return status;
}

static enum ps_status number_lines(struct corpus *corpus, const struct vocabulary *vocabulary, struct ps_error *error) {
    struct token_list list = {0};
    enum ps_status status = PS_OK;
    for (int64_t l = 0; l < corpus->count && status == PS_OK; l++) {
        const char *line = corpus->lines[l];
        status = tokenizer_encode(vocabulary_tokenizer(vocabulary), line, strlen(line), &list, error);
        corpus->first[l + 1] = list.count;
    }
    for (size_t i = 0; i < list.count; i++) list.tokens[i] += vocabulary_first(vocabulary);
    corpus->tokens = list.tokens;
    return status;
}

enum ps_status corpus_number(struct corpus *corpus, corpus_split *split, const struct vocabulary *vocabulary,
                             struct ps_error *error) {
    size_t count = 0, capacity = 0;
    TRY(memory_new(&corpus->first, corpus->count + 1, "tokens", error));
    struct text words = {0};
    enum ps_status status = PS_OK;
    if (vocabulary_tokenizer(vocabulary)) return number_lines(corpus, vocabulary, error);
    for (int64_t l = 0; l < corpus->count && status == PS_OK; l++) {
        const char *position = split_line(corpus, l, split, &words), *word;
        for (size_t length; status == PS_OK && (length = words_next(&position, &word)) > 0;) {
            status = memory_grow(&corpus->tokens, &capacity, count + 1, "tokens", error);
            if (status == PS_OK) corpus->tokens[count++] = vocabulary_find(vocabulary, word, length);
        }
        corpus->first[l + 1] = count;
    }
    if (status == PS_OK) status = text_status(&words, "words", error);
    text_free(&words);
    return status;
}

const int32_t *corpus_tokens(const struct corpus *corpus, int64_t line, int64_t *count) {
    *count = (int64_t)(corpus->first[line + 1] - corpus->first[line]);
    return *count > 0 ? corpus->tokens + corpus->first[line] : NULL;
}
