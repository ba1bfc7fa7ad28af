/*
 * From text to numbers: special tokens are found first, the text between them is normalised and split into words, and the model
 * numbers each word. Words that were met before come from a cache.
 */
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { CACHE_WORDS = 1 << 18, CACHE_LENGTH = 128 };

void tokenizer_destroy(struct tokenizer *t) {
    if (!t) return;
    for (int part = 0; part < 2; part++) {
        for (int s = 0; s < TOKENIZER_STEPS_MAX; s++) {
            text_pattern_destroy(t->steps[part][s].pattern);
            text_free(&t->buffers[part][s]);
        }
    }
    for (int d = 0; d < t->decoder_count; d++) text_pattern_destroy(t->decoders[d].replace.pattern);
    text_free(&t->letters);
    free(t->numbers.tokens);
    free(t->cache);
    free(t->symbols);
    free(t->before);
    free(t->after);
    free(t->heap);
    pthread_mutex_destroy(&t->lock);
    arena_release(&t->arena);
    free(t);
}

const char *tokenizer_json(const struct tokenizer *t) { return t->json; }

int tokenizer_size(const struct tokenizer *t) { return t->size; }

const char *tokenizer_token(const struct tokenizer *t, int number) {
    return t->tokens[number].text ? t->tokens[number].text : "";
}

int tokenizer_find(const struct tokenizer *t, const char *token) {
    for (int n = 0; n < t->size; n++)
        if (t->tokens[n].text && strcmp(t->tokens[n].text, token) == 0) return n;
    return -1;
}
int tokenizer_template(const struct tokenizer *t, bool pair, const struct template_item **items) {
    *items = t->templates[pair];
    return t->template_count[pair];
}

int tokenizer_padding(const struct tokenizer *t) { return t->padding; }
enum ps_status token_list_add(struct token_list *list, int32_t number, struct ps_error *error) {
    TRY(memory_grow(&list->tokens, &list->capacity, list->count + 1, "tokens", error));
    list->tokens[list->count++] = number;
    return PS_OK;
}
/* ------------------------------------------------------------------- words */

/* The slot of a word in the cache, or the free one where it would be. */
static struct cached_word *cache_slot(const struct tokenizer *t, const char *word, size_t length) {
    for (size_t slot = tokenizer_hash(word, length);; slot++) {
        struct cached_word *entry = &t->cache[slot & (t->cache_size - 1)];
        if (entry->length == 0) return entry;
        if (entry->length == length && memcmp(t->letters.data + entry->letter, word, length) == 0) return entry;
    }
}

static enum ps_status cache_grow(struct tokenizer *t, struct ps_error *error) {
    struct cached_word *old = t->cache;
    const size_t size = t->cache_size;
    TRY(memory_new(&t->cache, size > 0 ? 2 * size : 1024, "a tokenizer", error));
    t->cache_size = size > 0 ? 2 * size : 1024;
    for (size_t i = 0; i < size; i++)
        if (old[i].length > 0) *cache_slot(t, t->letters.data + old[i].letter, old[i].length) = old[i];
    free(old);
    return PS_OK;
}

/* Numbers a word, or takes its numbers from the cache. */
static enum ps_status number_word(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                  struct ps_error *error) {
    const bool kept = length <= CACHE_LENGTH;
    if (kept && 2 * t->cached >= t->cache_size && t->cached < CACHE_WORDS) TRY(cache_grow(t, error));
    struct cached_word *entry = kept ? cache_slot(t, word, length) : NULL;
    if (entry && entry->length > 0) {
        if (entry->count == 0) return PS_OK;
        TRY(memory_grow(&list->tokens, &list->capacity, list->count + entry->count, "tokens", error));
        memcpy(list->tokens + list->count, t->numbers.tokens + entry->number, entry->count * sizeof *list->tokens);
        list->count += entry->count;
        return PS_OK;
    }
    const size_t before = list->count;
    TRY(t->word_piece ? tokenizer_find_pieces(t, word, length, list, error)
                      : tokenizer_join_pairs(t, word, length, list, error));
    if (!entry || t->cached == CACHE_WORDS) return PS_OK;
    const struct cached_word made = {t->letters.length, length, t->numbers.count, list->count - before};
    text_add_raw(&t->letters, word, length);
    if (t->letters.failed) return error_memory(error, "a tokenizer", length);
    for (size_t i = before; i < list->count; i++) TRY(token_list_add(&t->numbers, list->tokens[i], error));
    *entry = made;
    t->cached++;
    return PS_OK;
}

/* A text without word boundaries is cut at its blanks where that changes nothing. */
static enum ps_status number_words(struct tokenizer *t, const char *text, size_t length, struct token_list *list,
                                   struct ps_error *error) {
    const size_t size = sizeof BLANK_MARK - 1;
    const char *end = text + length;
    while (t->cuts_at_blanks && text < end) {
        const char *stop = text;
        while ((size_t)(end - stop) >= size && memcmp(stop, BLANK_MARK, size) == 0) stop += size;
        stop = memmem(stop, (size_t)(end - stop), BLANK_MARK, size);
        if (!stop) break;
        TRY(number_word(t, text, (size_t)(stop - text), list, error));
        text = stop;
    }
    return text < end ? number_word(t, text, (size_t)(end - text), list, error) : PS_OK;
}

/* How much of the head of a text lies behind its first `cut` bytes. */
static size_t left_of(size_t head, size_t cut) { return head > cut ? head - cut : 0; }

/* The steps of splitting from number `s` on, then the model. `head` is text_step_change's, here and below. */
static enum ps_status split_text(struct tokenizer *t, int s, const char *text, size_t length, size_t head,
                                 struct token_list *list, struct ps_error *error) {
    if (length == 0) return PS_OK;
    if (s == t->step_count[1]) return number_words(t, text, length, list, error);
    const struct text_step *step = &t->steps[1][s];
    struct text *buffer = &t->buffers[1][s];
    if (step->kind != TEXT_SPLIT) {
        buffer->length = 0;
        TRY(text_step_change(step, text, length, &head, buffer, error));
        return split_text(t, s + 1, buffer->data, buffer->length, head, list, error);
    }
    struct text_pieces pieces = text_pieces_begin(step, text, length);
    const char *piece = text;
    for (size_t size;;) {
        TRY(text_pieces_next(&pieces, &piece, &size, error));
        if (size == 0) return PS_OK;
        TRY(split_text(t, s + 1, piece, size, left_of(head, (size_t)(piece - text)), list, error));
    }
}

/* ------------------------------------------------------------ added tokens */

enum ps_status tokenizer_normalise(struct tokenizer *t, const char **text, size_t *length, size_t *head,
                                   struct ps_error *error) {
    for (int s = 0; s < t->step_count[0]; s++) {
        struct text *buffer = &t->buffers[0][s];
        buffer->length = 0;
        TRY(text_step_change(&t->steps[0][s], *text, *length, head, buffer, error));
        *text = buffer->data ? buffer->data : "";
        *length = buffer->length;
    }
    return PS_OK;
}

/* Is there a word's character at the end of `text` (`last`), or at its beginning? */
static bool touches_word(const char *text, size_t length, bool last) {
    size_t i = length;
    int32_t c;
    if (length == 0) return false;
    while (last && i > 0 && ((unsigned char)text[--i] & 0xc0) == 0x80) {
    }
    if (!last) i = 0;
    text_character(text + i, length - i, &c);
    return character_is_word(c);
}

/* The longest added token at `text`. */
static const struct added_token *added_at(const struct tokenizer *t, bool normalized, const char *text, size_t length) {
    const struct added_token *found = NULL;
    for (int a = 0; a < t->added_count; a++) {
        const struct added_token *token = &t->added[a];
        if (token->normalized != normalized || token->length > length || (found && token->length <= found->length)) continue;
        if (memcmp(token->text, text, token->length) == 0) found = token;
    }
    return found;
}

typedef enum ps_status number_stretch(struct tokenizer *t, const char *text, size_t length, size_t head,
                                      struct token_list *list, struct ps_error *error);

/* Numbers the added tokens in a text, and by `number` what lies between them. */
static enum ps_status find_added(struct tokenizer *t, bool normalized, const char *text, size_t length, size_t head,
                                 number_stretch *number, struct token_list *list, struct ps_error *error) {
    size_t done = 0;
    int32_t c;
    for (size_t i = 0; i < length;) {
        const struct added_token *token = NULL;
        if (t->begins[normalized][(unsigned char)text[i]]) token = added_at(t, normalized, text + i, length - i);
        size_t start = i;
        i += token ? token->length : 1;
        if (!token) continue;
        if (token->single_word && (touches_word(text, start, true) || touches_word(text + i, length - i, false))) continue;
        while (token->left && start > done) {
            size_t before = start;
            while (before > 0 && ((unsigned char)text[--before] & 0xc0) == 0x80) {
            }
            text_character(text + before, start - before, &c);
            if (!character_is_blank(c) || before < done) break;
            start = before;
        }
        if (token->left && start < done) start = done;
        size_t stop = i;
        while (token->right && stop < length) {
            const size_t size = text_character(text + stop, length - stop, &c);
            if (!character_is_blank(c)) break;
            stop += size;
        }
        if (start > done) TRY(number(t, text + done, start - done, left_of(head, done), list, error));
        if (start < stop) TRY(token_list_add(list, token->number, error));
        done = stop;
    }
    return done < length ? number(t, text + done, length - done, left_of(head, done), list, error) : PS_OK;
}

static enum ps_status number_normalised(struct tokenizer *t, const char *text, size_t length, size_t head,
                                        struct token_list *list, struct ps_error *error) {
    return split_text(t, 0, text, length, head, list, error);
}

static enum ps_status number_raw(struct tokenizer *t, const char *text, size_t length, size_t head, struct token_list *list,
                                 struct ps_error *error) {
    TRY(tokenizer_normalise(t, &text, &length, &head, error));
    return find_added(t, true, text, length, head, number_normalised, list, error);
}

enum ps_status tokenizer_encode(struct tokenizer *t, const char *text, size_t length, struct token_list *list,
                                struct ps_error *error) {
    int32_t c;
    const size_t head = length > 0 ? text_character(text, length, &c) : 0;
    pthread_mutex_lock(&t->lock);
    enum ps_status status = find_added(t, false, text, length, head, number_raw, list, error);
    pthread_mutex_unlock(&t->lock);
    return status;
}
