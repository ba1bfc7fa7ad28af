/* See the header. */
#include "data/text_spec.h"

enum ps_status text_vocabularies_find(const char *what, struct options *options, enum dataset_part part,
                                      const struct dataset_shape *wanted, int count, struct text_vocabularies *vocabularies,
                                      struct ps_error *error) {
    const char *file = NULL;
    TRY(options_string(options, "vocab", &file, error));
    if (file) TRY(vocabulary_read(file, vocabularies->own, error));
    for (int v = 0; v < count; v++) {
        vocabularies->used[v] = file ? vocabularies->own[v] : wanted->words[v];
        if (file && !vocabularies->used[v]) {
            return error_set(error, PS_USAGE, "data '%s': %s has one vocabulary, but two languages need two", what, file);
        }
        int size = v == 0 ? wanted->vocabulary : wanted->classes;
        if (vocabularies->used[v] && vocabulary_size(vocabularies->used[v]) > size) {
            return error_set(error, PS_USAGE, "data '%s': a vocabulary of %d tokens, but the network takes %d", what,
                             vocabulary_size(vocabularies->used[v]), size);
        }
        if (vocabularies->used[v] || part == DATASET_TRAIN) continue;
        error_set(error, PS_USAGE, "data '%s': whose vocabulary numbers its words is not said", what);
        error_hint(error, "evaluate a run, or add ,vocab=RUN_DIR/vocabulary.json");
        return PS_USAGE;
    }
    return PS_OK;
}

void text_vocabularies_free(struct text_vocabularies *vocabularies) {
    for (int v = 0; v < 2; v++) vocabulary_destroy(vocabularies->own[v]);
}
