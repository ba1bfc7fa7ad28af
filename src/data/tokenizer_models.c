/*
 * The models of a tokenizer: from a word to numbers.
 *
 * Byte pairs (Sennrich et al., 2016): a word is a list of characters; of all adjacent pairs the one with the lowest rank, the
 * first of equal ones, is joined, until no pair has a rank. WordPiece (Schuster and Nakajima, 2012): the longest token at each
 * place.
 */
#include "data/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

size_t tokenizer_hash(const char *text, size_t length) {
    uint64_t value = hash_bytes(HASH_BEGIN, text, length);
    return (size_t)(value ^ value >> 29);
}

/* The slot of a token of the model, or the free one where it would be. */
size_t tokenizer_slot(const struct tokenizer *t, const char *text, size_t length) {
    for (size_t slot = tokenizer_hash(text, length) & t->slot_mask;; slot = (slot + 1) & t->slot_mask) {
        if (t->slots[slot] == 0) return slot;
        const struct token *token = &t->tokens[t->slots[slot] - 1];
        if (token->length == length && memcmp(token->text, text, length) == 0) return slot;
    }
}

int tokenizer_number(const struct tokenizer *t, const char *text, size_t length) {
    return t->slots[tokenizer_slot(t, text, length)] - 1;
}

struct merge *tokenizer_merge(const struct tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    for (size_t slot = (size_t)(key >> 32) & t->merge_mask;; slot = (slot + 1) & t->merge_mask) {
        struct merge *merge = &t->merges[slot];
        if (merge->left < 0 || (merge->left == left && merge->right == right)) return merge;
    }
}

/* --------------------------------------------------------------- byte pairs */

static enum ps_status add_symbol(struct tokenizer *t, int64_t *count, int32_t number, struct ps_error *error) {
    const size_t needed = (size_t)*count + 1;
    TRY(memory_grow(&t->symbols, &t->symbol_capacity, needed, "a word", error));
    TRY(memory_grow(&t->before, &t->before_capacity, needed, "a word", error));
    TRY(memory_grow(&t->after, &t->after_capacity, needed, "a word", error));
    t->symbols[*count] = number;
    t->before[*count] = *count - 1;
    t->after[*count] = *count + 1;
    ++*count;
    return PS_OK;
}

/* The characters of a word as symbols. */
static enum ps_status make_symbols(struct tokenizer *t, const char *word, size_t length, int64_t *count,
                                   struct ps_error *error) {
    bool unknown = false; /* one is to be added */
    struct text symbol = {0};
    enum ps_status status = PS_OK;
    *count = 0;
    for (size_t i = 0; i < length && status == PS_OK;) {
        int32_t c;
        const size_t size = text_character(word + i, length - i, &c);
        const char *text = word + i;
        size_t used = size;
        const bool prefixed = i > 0 && t->prefix_length > 0, suffixed = i + size == length && t->suffix_length > 0;
        if (prefixed || suffixed) {
            symbol.length = 0;
            if (prefixed) text_add_raw(&symbol, t->prefix, t->prefix_length);
            text_add_raw(&symbol, text, size);
            if (suffixed) text_add_raw(&symbol, t->suffix, t->suffix_length);
            if (symbol.failed) {
                status = error_memory(error, "a word", length);
                break;
            }
            text = symbol.data;
            used = symbol.length;
        }
        i += size;
        const int number = tokenizer_number(t, text, used);
        bool bytes = number < 0 && t->byte_fallback;
        for (size_t b = 0; b < used && bytes; b++) bytes = t->bytes[(unsigned char)text[b]] >= 0;
        if (number >= 0) {
            if (unknown) status = add_symbol(t, count, t->unknown, error);
            unknown = false;
            if (status == PS_OK) status = add_symbol(t, count, number, error);
        } else if (bytes) {
            for (size_t b = 0; b < used && status == PS_OK; b++)
                status = add_symbol(t, count, t->bytes[(unsigned char)text[b]], error);
        } else if (t->unknown >= 0) {
            if (unknown && !t->fuse_unknown) status = add_symbol(t, count, t->unknown, error);
            unknown = true;
        }
    }
    if (unknown && status == PS_OK) status = add_symbol(t, count, t->unknown, error);
    text_free(&symbol);
    if (*count > 0) t->after[*count - 1] = -1;
    return status;
}

static bool precedes(const struct candidate *a, const struct candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Enters the pair that begins at symbol `at`, if it has a rank. */
static enum ps_status push(struct tokenizer *t, int64_t at, struct ps_error *error) {
    if (at < 0 || t->after[at] < 0) return PS_OK;
    const struct merge *merge = tokenizer_merge(t, t->symbols[at], t->symbols[t->after[at]]);
    if (merge->left < 0) return PS_OK;
    TRY(memory_grow(&t->heap, &t->heap_capacity, t->heap_count + 1, "a word", error));
    const struct candidate candidate = {merge->rank, merge->number, at};
    size_t place = t->heap_count++;
    for (; place > 0 && precedes(&candidate, &t->heap[(place - 1) / 2]); place = (place - 1) / 2)
        t->heap[place] = t->heap[(place - 1) / 2];
    t->heap[place] = candidate;
    return PS_OK;
}

static struct candidate pop(struct tokenizer *t) {
    const struct candidate top = t->heap[0], last = t->heap[--t->heap_count];
    size_t place = 0;
    for (size_t child; (child = 2 * place + 1) < t->heap_count; place = child) {
        if (child + 1 < t->heap_count && precedes(&t->heap[child + 1], &t->heap[child])) child++;
        if (!precedes(&t->heap[child], &last)) break;
        t->heap[place] = t->heap[child];
    }
    t->heap[place] = last;
    return top;
}

enum ps_status tokenizer_join_pairs(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                    struct ps_error *error) {
    int64_t count;
    const int whole = t->whole_words ? tokenizer_number(t, word, length) : -1;
    if (whole >= 0) return token_list_add(list, whole, error);
    TRY(make_symbols(t, word, length, &count, error));
    t->heap_count = 0;
    for (int64_t i = 0; i + 1 < count; i++) TRY(push(t, i, error));
    while (t->heap_count > 0) {
        const struct candidate top = pop(t);
        const int64_t right = t->after[top.at];
        if (right < 0) continue;
        const struct merge *merge = tokenizer_merge(t, t->symbols[top.at], t->symbols[right]);
        if (merge->left < 0 || merge->number != top.number) continue; /* one of the two was joined before */
        t->symbols[top.at] = top.number;
        t->symbols[right] = -1;
        t->after[top.at] = t->after[right];
        if (t->after[right] >= 0) t->before[t->after[right]] = top.at;
        TRY(push(t, t->before[top.at], error));
        TRY(push(t, top.at, error));
    }
    for (int64_t i = 0; i < count; i++)
        if (t->symbols[i] >= 0) TRY(token_list_add(list, t->symbols[i], error));
    return PS_OK;
}

/* --------------------------------------------------------------- WordPiece */

/* The longest token at each place; a word with a rest that is none is unknown. */
enum ps_status tokenizer_find_pieces(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                     struct ps_error *error) {
    const size_t before = list->count;
    struct text piece = {0};
    enum ps_status status = PS_OK;
    int characters = 0;
    for (size_t i = 0; i < length; i++) characters += ((unsigned char)word[i] & 0xc0) != 0x80;
    bool known = characters <= t->longest;
    for (size_t start = 0; start < length && known && status == PS_OK;) {
        piece.length = 0;
        if (start > 0) text_add_raw(&piece, t->prefix, t->prefix_length);
        const size_t head = piece.length;
        text_add_raw(&piece, word + start, length - start);
        if (piece.failed) {
            status = error_memory(error, "a word", length);
            break;
        }
        int number = -1;
        size_t used = piece.length;
        for (; used > head && (number = tokenizer_number(t, piece.data, used)) < 0;) {
            do used--;
            while (used > head && ((unsigned char)piece.data[used] & 0xc0) == 0x80);
        }
        known = number >= 0;
        if (known) status = token_list_add(list, number, error);
        start += used - head;
    }
    text_free(&piece);
    if (known || status != PS_OK) return status;
    list->count = before;
    return token_list_add(list, t->unknown, error);
}
