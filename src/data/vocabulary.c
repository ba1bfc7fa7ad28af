/* A vocabulary is an array of tokens with their counts, and a hash table of indices into it. */
#include "data/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/tokenizer.h"

struct entry {
    char *token;
    size_t length;
    int64_t count;
};

struct vocabulary {
    struct entry *entries;
    int count, capacity;
    int *table; /* index in `entries` plus 1; 0: free. Its size is a power of two; at most half of it is in use. */
    size_t table_size;
    char data[VOCABULARY_DATA];
    struct tokenizer *tokenizer; /* NULL: only the tokens above; else they are the ones before `first` */
    int first;
};

static size_t hash(const char *token, size_t length) {
    uint64_t value = hash_bytes(HASH_BEGIN, token, length);
    return (size_t)(value ^ value >> 32);
}

/* The slot of the token in the table, or the free slot where it would be inserted. */
static size_t slot_of(const struct vocabulary *vocabulary, const char *token, size_t length) {
    size_t mask = vocabulary->table_size - 1;
    for (size_t slot = hash(token, length) & mask;; slot = (slot + 1) & mask) {
        if (vocabulary->table[slot] == 0) return slot;
        const struct entry *entry = &vocabulary->entries[vocabulary->table[slot] - 1];
        if (entry->length == length && memcmp(entry->token, token, length) == 0) return slot;
    }
}

static void fill_table(struct vocabulary *vocabulary) {
    memset(vocabulary->table, 0, vocabulary->table_size * sizeof *vocabulary->table);
    for (int i = 0; i < vocabulary->count; i++) {
        const struct entry *entry = &vocabulary->entries[i];
        vocabulary->table[slot_of(vocabulary, entry->token, entry->length)] = i + 1;
    }
}

static enum ps_status grow(struct vocabulary *vocabulary, struct ps_error *error) {
    int capacity = vocabulary->capacity > 0 ? 2 * vocabulary->capacity : 1024;
    size_t table_size = 2 * (size_t)capacity;
    struct entry *entries = realloc(vocabulary->entries, (size_t)capacity * sizeof *entries);
    TRY(memory_check(entries, "a vocabulary", error));
    vocabulary->entries = entries;
    int *table = realloc(vocabulary->table, table_size * sizeof *table);
    TRY(memory_check(table, "a vocabulary", error));
    vocabulary->table = table;
    vocabulary->table_size = table_size;
    vocabulary->capacity = capacity;
    fill_table(vocabulary);
    return PS_OK;
}

static enum ps_status add(struct vocabulary *vocabulary, const char *token, size_t length, int64_t count,
                          struct ps_error *error) {
    if (vocabulary->count == vocabulary->capacity) TRY(grow(vocabulary, error));
    char *copy;
    TRY(memory_text(token, length, &copy, "a vocabulary", error));
    vocabulary->entries[vocabulary->count++] = (struct entry){copy, length, count};
    vocabulary->table[slot_of(vocabulary, token, length)] = vocabulary->count;
    return PS_OK;
}

struct vocabulary *vocabulary_create(struct ps_error *error) {
    static const char *const specials[VOCABULARY_SPECIALS] = {"<pad>", "<unk>", "<s>", "</s>"};
    struct vocabulary *vocabulary;
    enum ps_status status = memory_new(&vocabulary, 1, "a vocabulary", error);
    for (int i = 0; status == PS_OK && i < VOCABULARY_SPECIALS; i++)
        status = add(vocabulary, specials[i], strlen(specials[i]), 0, error);
    if (status == PS_OK) return vocabulary;
    vocabulary_destroy(vocabulary);
    return NULL;
}

void vocabulary_destroy(struct vocabulary *vocabulary) {
    if (!vocabulary) return;
    for (int i = 0; i < vocabulary->count; i++) free(vocabulary->entries[i].token);
    free(vocabulary->entries);
    free(vocabulary->table);
    tokenizer_destroy(vocabulary->tokenizer);
    free(vocabulary);
}

struct vocabulary *vocabulary_of_tokenizer(struct tokenizer *tokenizer, int first, struct ps_error *error) {
    struct vocabulary *vocabulary = vocabulary_create(error);
    if (!vocabulary) {
        tokenizer_destroy(tokenizer);
        return NULL;
    }
    vocabulary->tokenizer = tokenizer;
    vocabulary->first = first;
    return vocabulary;
}

struct tokenizer *vocabulary_tokenizer(const struct vocabulary *vocabulary) {
    return vocabulary->tokenizer;
}

int vocabulary_first(const struct vocabulary *vocabulary) { return vocabulary->first; }

enum ps_status vocabulary_count(struct vocabulary *vocabulary, const char *token, size_t length, struct ps_error *error) {
    int found = vocabulary->table[slot_of(vocabulary, token, length)];
    if (found == 0) return add(vocabulary, token, length, 1, error);
    vocabulary->entries[found - 1].count++;
    return PS_OK;
}

static int by_frequency(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->token, y->token);
}

enum ps_status vocabulary_finish(struct vocabulary *vocabulary, int size, struct ps_error *error) {
    if (size <= VOCABULARY_SPECIALS) {
        error_set(error, PS_USAGE,
                  "a vocabulary of %d tokens: four are padding, unknown, start and end, so at least %d are needed", size,
                  VOCABULARY_SPECIALS + 1);
        error_hint(error,
                   "the network's option vocab= sets the number of tokens, target_vocab= that of a translation's target");
        return PS_USAGE;
    }
    qsort(vocabulary->entries + VOCABULARY_SPECIALS, (size_t)(vocabulary->count - VOCABULARY_SPECIALS),
          sizeof *vocabulary->entries, by_frequency);
    while (vocabulary->count > size) free(vocabulary->entries[--vocabulary->count].token);
    fill_table(vocabulary);
    return PS_OK;
}

int vocabulary_find(const struct vocabulary *vocabulary, const char *token, size_t length) {
    int found = vocabulary->table[slot_of(vocabulary, token, length)];
    return found > 0 ? found - 1 : VOCABULARY_UNKNOWN;
}

const char *vocabulary_token(const struct vocabulary *vocabulary, int number) {
    if (vocabulary->tokenizer && number >= vocabulary->first)
        return tokenizer_token(vocabulary->tokenizer, number - vocabulary->first);
    return vocabulary->entries[number].token;
}

int vocabulary_size(const struct vocabulary *vocabulary) {
    return vocabulary->tokenizer ? vocabulary->first + tokenizer_size(vocabulary->tokenizer) : vocabulary->count;
}

void vocabulary_set_data(struct vocabulary *vocabulary, const char *data) {
    snprintf(vocabulary->data, sizeof vocabulary->data, "%s", data);
}

const char *vocabulary_data(const struct vocabulary *vocabulary) { return vocabulary->data; }

bool vocabulary_equal(const struct vocabulary *a, const struct vocabulary *b) {
    if (!a || !b || a->count != b->count) return a == b;
    if (a->first != b->first || !a->tokenizer != !b->tokenizer) return false;
    if (a->tokenizer && strcmp(tokenizer_json(a->tokenizer), tokenizer_json(b->tokenizer)) != 0) return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->entries[i].token, b->entries[i].token) != 0) return false;
    return true;
}

/* --------------------------------------------------------------------- file */

static const char *const lists[2] = {"tokens", "target_tokens"};
/* The contents of tokenizer.json are one string: read as a part of the file, tokens could be taken for fields. */
static const char *const tokenizers[2] = {"tokenizer", "target_tokenizer"};

enum ps_status vocabulary_write(const char *path, const struct vocabulary *const vocabularies[2], struct ps_error *error) {
    json_t *root = json_pack("{s:s, s:i}", "format", "penstock-vocabulary", "version", 1);
    if (*vocabularies[0]->data) json_set_text(root, "data", vocabularies[0]->data);
    for (int v = 0; v < 2 && vocabularies[v]; v++) {
        if (vocabularies[v]->tokenizer) {
            json_object_set_new(root, "first_token", json_integer(vocabularies[v]->first));
            json_object_set_new(root, tokenizers[v], json_string(tokenizer_json(vocabularies[v]->tokenizer)));
            continue;
        }
        json_t *tokens = json_array();
        for (int i = 0; i < vocabularies[v]->count; i++) {
            json_array_append_new(tokens, json_string(vocabularies[v]->entries[i].token));
        }
        json_object_set_new(root, lists[v], tokens);
    }
    return json_write_file(root, path, error);
}

static enum ps_status read_list(const struct json_place *list, struct vocabulary *vocabulary, struct ps_error *error) {
    size_t length;
    TRY(json_array_length(list, &length, error));
    if (length < VOCABULARY_SPECIALS)
        return json_error(list, error, "%zu tokens; <pad>, <unk>, <s> and </s> are the first four", length);
    for (size_t i = 0; i < length; i++) {
        struct json_place item;
        TRY(json_item(list, i, &item, error));
        const char *token = json_string_value(item.value);
        if (!token || !*token) return json_error(&item, error, "a token must be a string that is not empty");
        int found = vocabulary->table[slot_of(vocabulary, token, strlen(token))] - 1;
        if (found >= 0 && found != (int)i) return json_error(&item, error, "token '%s' is a duplicate", token);
        if (i < VOCABULARY_SPECIALS && found < 0) {
            return json_error(&item, error, "'%s': the first four tokens must be <pad>, <unk>, <s> and </s>", token);
        }
        if (found < 0) TRY(add(vocabulary, token, strlen(token), 0, error));
    }
    return PS_OK;
}

static enum ps_status read_tokenizer(const struct json_place *place, int first, struct vocabulary **made,
                                     struct ps_error *error) {
    struct tokenizer *tokenizer;
    const char *json = json_string_value(place->value);
    if (!json) return json_error(place, error, "must be the contents of a tokenizer.json, as a string");
    TRY(tokenizer_create(json, strlen(json), place->path, &tokenizer, error));
    *made = vocabulary_of_tokenizer(tokenizer, first, error);
    return *made ? PS_OK : PS_OUT_OF_MEMORY;
}

static enum ps_status read_lists(json_t *json, const char *path, struct vocabulary *made[2], struct ps_error *error) {
    static const char *const fields[] = {"format",        "version",     "data",      "tokens",
                                         "target_tokens", "first_token", "tokenizer", "target_tokenizer"};
    struct json_place root = json_root(json, path);
    const char *data = "";
    int first = 0;
    TRY(json_object_fields(&root, fields, sizeof fields / sizeof *fields, error));
    TRY(json_get_string(&root, "data", false, &data, error));
    TRY(json_get_int(&root, "first_token", false, 0, VOCABULARY_SPECIALS, &first, error));
    for (int v = 0; v < 2; v++) {
        struct json_place list;
        TRY(json_field(&root, tokenizers[v], false, &list, error));
        if (list.value) {
            TRY(read_tokenizer(&list, first, &made[v], error));
            vocabulary_set_data(made[v], data);
            continue;
        }
        TRY(json_field(&root, lists[v], v == 0, &list, error));
        if (!list.value) continue;
        made[v] = vocabulary_create(error);
        if (!made[v]) return PS_OUT_OF_MEMORY;
        vocabulary_set_data(made[v], data);
        TRY(read_list(&list, made[v], error));
    }
    return PS_OK;
}

enum ps_status vocabulary_read(const char *path, struct vocabulary *vocabularies[2], struct ps_error *error) {
    json_t *json;
    struct vocabulary *made[2] = {NULL, NULL};
    TRY(json_read_file(path, "penstock-vocabulary", &json, error));
    enum ps_status status = read_lists(json, path, made, error);
    json_decref(json);
    for (int v = 0; v < 2; v++) {
        if (status == PS_OK)
            vocabularies[v] = made[v];
        else
            vocabulary_destroy(made[v]);
    }
    return status;
}

/* ------------------------------------------------------------------ masking */

#define CHOSEN 0.15f
#define HIDDEN 0.8f
#define RANDOM 0.1f

void masking_apply(struct random_key key, int64_t count, const struct masking *masking, int32_t *tokens, int32_t *labels) {
    for (int64_t t = 0; t < count; t++) {
        float share = random_uniform(key, (uint64_t)(2 * t)) / CHOSEN;
        labels[t] = share < 1 ? tokens[t] : -1;
        if (share < HIDDEN) {
            tokens[t] = masking->mask;
        } else if (share < HIDDEN + RANDOM) {
            float number = random_uniform(key, (uint64_t)(2 * t + 1)) * (float)(masking->end - masking->first);
            tokens[t] = masking->first + (int32_t)number;
        }
    }
}
