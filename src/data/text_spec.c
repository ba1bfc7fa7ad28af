/* See the header. */
#include "data/text_spec.h"

#include <stdio.h>
#include <string.h>

enum ps_status text_vocabularies_find(const char *what, struct options *options, const struct dataset_shape *wanted, int count,
                                      struct text_vocabularies *vocabularies, struct ps_error *error) {
    const char *file = NULL;
    TRY(options_string(options, "vocab", &file, error));
    if (file) TRY(vocabulary_read(file, vocabularies->own, error));
    for (int v = 0; v < count; v++) {
        vocabularies->used[v] = file ? vocabularies->own[v] : wanted->words[v];
        if (file && !vocabularies->used[v]) {
            return error_set(error, PS_USAGE, "data '%s': %s has one vocabulary, but two languages need two", what, file);
        }
        if (file && wanted->words[v] && !vocabulary_equal(vocabularies->own[v], wanted->words[v]))
            return error_set(error, PS_USAGE, "data '%s': %s has other words than those that the network learnt", what, file);
        int size = v == 0 ? wanted->vocabulary : wanted->classes;
        if (vocabularies->used[v] && vocabulary_size(vocabularies->used[v]) > size) {
            const int tokens = vocabulary_size(vocabularies->used[v]);
            error_set(error, PS_USAGE, "data '%s': the vocabulary%s%s has %d tokens, but the network's %d", what,
                      file ? " " : "", file ? file : "", tokens, size);
            error_hint(error, "give the network the option %s=%d", v == 0 ? "vocab" : "target_vocab", tokens);
            return PS_USAGE;
        }
    }
    return PS_OK;
}

static void describe(const char *what, const char *name, char data[VOCABULARY_DATA]) {
    snprintf(data, VOCABULARY_DATA, name ? "%s,tokens=%s" : "%s", what, name);
}

/* The place of the vocabulary's way; -1: it is none of these. */
static int find_way(const char *what, const char *made, const char *const *names, int count) {
    char data[VOCABULARY_DATA];
    for (int i = 0; i < count; i++) {
        describe(what, names[i], data);
        if (strcmp(data, made) == 0) return i;
    }
    return -1;
}

enum ps_status text_tokens_find(const char *what, struct options *options, const struct text_vocabularies *vocabularies,
                                const char *const *names, int count, int *kind, char data[VOCABULARY_DATA],
                                struct ps_error *error) {
    static const char *const only[] = {NULL};
    const char *made = vocabularies->used[0] ? vocabulary_data(vocabularies->used[0]) : "", *said = NULL;
    if (count > 0) TRY(options_string(options, "tokens", &said, error));
    const int ways = count > 0 ? count : 1, way = find_way(what, made, count > 0 ? names : only, ways);
    int chosen = way >= 0 ? way : 0;
    if (said) {
        for (chosen = 0; chosen < count && strcmp(said, names[chosen]) != 0;) chosen++;
    }
    if (chosen == ways) {
        enum ps_status status = error_unknown(error, PS_USAGE, "tokens", said, names, (size_t)count);
        error_prefix(error, "data '%s'", what);
        return status;
    }
    describe(what, count > 0 ? names[chosen] : NULL, data);
    if (*made && strcmp(made, data) != 0)
        return error_set(error, PS_USAGE, "data '%s': the vocabulary is one of %s", data, made);
    *kind = chosen;
    return PS_OK;
}

enum ps_status text_vocabulary_missing(const char *what, struct ps_error *error) {
    error_set(error, PS_USAGE, "data '%s': whose vocabulary numbers its words is not said", what);
    error_hint(error, "evaluate a run, or add ,vocab=RUN_DIR/vocabulary.json");
    return PS_USAGE;
}

void text_vocabularies_take(struct text_vocabularies *vocabularies, int place, struct vocabulary *made, const char *data) {
    vocabulary_set_data(made, data);
    vocabularies->own[place] = made;
    vocabularies->used[place] = made;
}

void text_vocabularies_free(struct text_vocabularies *vocabularies) {
    for (int v = 0; v < 2; v++) vocabulary_destroy(vocabularies->own[v]);
}
