/* From numbers to text: the strings of the tokens go through the steps of decoding one after the other. */
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Strings, each ending with a zero byte; a byte 0 of a text is U+FFFD. */
struct strings {
    struct text text;
    size_t count;
};

static void end_string(struct strings *strings) {
    text_add_raw(&strings->text, "", 1);
    strings->count++;
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Appends bytes as UTF-8; what is invalid becomes U+FFFD, one for the longest beginning of a character, as in Unicode. */
static void add_repaired(const char *bytes, size_t length, struct text *out) {
    for (size_t i = 0; i < length;) {
        const unsigned char first = (unsigned char)bytes[i];
        const size_t wanted = first < 0x80                    ? 1
                              : first >= 0xc2 && first < 0xe0 ? 2
                              : first >= 0xe0 && first < 0xf0 ? 3
                              : first >= 0xf0 && first < 0xf5 ? 4
                                                              : 0;
        size_t size = 1;
        while (size < wanted && i + size < length) {
            const unsigned char next = (unsigned char)bytes[i + size];
            const unsigned char low = size > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
            const unsigned char high = size > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
            if (next < low || next > high) break;
            size++;
        }
        if (size == wanted && first != 0)
            text_add_raw(out, bytes + i, size);
        else
            text_add_raw(out, replacement, sizeof replacement - 1);
        i += size;
    }
}

/* All strings as one, in bytes. */
static void decode_bytes(const struct strings *in, struct strings *out) {
    struct text bytes = {0};
    const char *string = in->text.data;
    for (size_t s = 0; s < in->count; s++, string += strlen(string) + 1) {
        const size_t length = strlen(string), before = bytes.length;
        int32_t c;
        bool all = true;
        for (size_t i = 0; i < length && all;) {
            i += text_character(string + i, length - i, &c);
            const char byte = (char)text_step_byte(c);
            all = text_step_byte(c) >= 0;
            if (all) text_add_raw(&bytes, &byte, 1);
        }
        if (all) continue;
        bytes.length = before;
        text_add_raw(&bytes, string, length);
    }
    if (bytes.length > 0) add_repaired(bytes.data, bytes.length, &out->text);
    if (bytes.failed) out->text.failed = true;
    text_free(&bytes);
    end_string(out);
}

/* The byte that "<0x0A>" stands for; -1: it is another token. */
static int fallback_byte(const char *string) {
    static const char digits[] = "0123456789ABCDEFabcdef";
    if (strlen(string) != 6 || strncmp(string, "<0x", 3) != 0 || string[5] != '>') return -1;
    if (!strchr(digits, string[3]) || !strchr(digits, string[4])) return -1;
    return (int)strtol(string + 3, NULL, 16);
}

/* Runs of byte tokens become a string if they are UTF-8, and U+FFFD for each byte if not. */
static void decode_fallback(const struct strings *in, struct strings *out) {
    struct text bytes = {0};
    const char *string = in->text.data;
    for (size_t s = 0; s <= in->count; s++) {
        const int byte = s < in->count ? fallback_byte(string) : -1;
        const char one = (char)byte;
        if (byte >= 0) {
            text_add_raw(&bytes, &one, 1);
        } else {
            const bool valid = bytes.length > 0 && !utf8_invalid(bytes.data, bytes.length);
            if (valid) {
                add_repaired(bytes.data, bytes.length, &out->text);
                end_string(out);
            }
            for (size_t b = 0; b < bytes.length && !valid; b++) {
                text_add_raw(&out->text, replacement, sizeof replacement - 1);
                end_string(out);
            }
            bytes.length = 0;
            if (s == in->count) break;
            text_add_raw(&out->text, string, strlen(string));
            end_string(out);
        }
        string += strlen(string) + 1;
    }
    if (bytes.failed) out->text.failed = true;
    text_free(&bytes);
}

/* Appends `string` with `from` replaced by `to`. */
static void add_replaced(const char *string, const char *from, const char *to, struct text *out) {
    for (const char *found; *from != '\0' && (found = strstr(string, from)) != NULL; string = found + strlen(from)) {
        text_add_raw(out, string, (size_t)(found - string));
        text_add_raw(out, to, strlen(to));
    }
    text_add_raw(out, string, strlen(string));
}

static void add_cleaned(const char *string, struct text *out) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    struct text from = {0}, to = {0};
    text_add_raw(&from, string, strlen(string));
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs && !from.failed; p++) {
        add_replaced(from.data, pairs[p][0], pairs[p][1], &to);
        text_free(&from);
        from = to;
        to = (struct text){0};
    }
    if (from.failed)
        out->failed = true;
    else
        text_add_raw(out, from.data, from.length);
    text_free(&from);
}

static void strip_string(const struct decode_step *step, const char *string, struct text *out) {
    const size_t size = strlen(step->text);
    size_t length = strlen(string);
    for (int i = 0; size > 0 && i < step->start && length >= size && memcmp(string, step->text, size) == 0; i++) {
        string += size;
        length -= size;
    }
    for (int i = 0; size > 0 && i < step->stop && length >= size; i++) {
        if (memcmp(string + length - size, step->text, size) != 0) break;
        length -= size;
    }
    text_add_raw(out, string, length);
}

/* One of several strings. */
static enum ps_status decode_string(const struct decode_step *step, const char *string, bool first, bool last, struct text *out,
                                    struct ps_error *error) {
    const size_t size = strlen(step->text);
    const bool prefixed = size > 0 && strncmp(string, step->text, size) == 0;
    struct text word = {0};
    switch (step->kind) {
    case DECODE_METASPACE:
        if (first && step->flag) { /* its first word begins the text */
            add_replaced(string, step->text, "", out);
            return PS_OK;
        }
        add_replaced(string, step->text, " ", out);
        return PS_OK;
    case DECODE_REPLACE:
        return text_step_change(&step->replace, string, strlen(string), &(size_t){0}, out, error);
    case DECODE_STRIP:
        strip_string(step, string, out);
        return PS_OK;
    case DECODE_SUFFIX:
        add_replaced(string, step->text, last ? "" : " ", out);
        return PS_OK;
    case DECODE_WORD_PIECE:
        if (!first && !prefixed) text_add_raw(&word, " ", 1);
        text_add_raw(&word, string + (!first && prefixed ? size : 0), strlen(string) - (!first && prefixed ? size : 0));
        if (word.failed)
            out->failed = true;
        else if (step->flag)
            add_cleaned(word.data, out);
        else
            text_add_raw(out, word.data, word.length);
        text_free(&word);
        return PS_OK;
    default: /* FUSE: all become one, as at the end */
        text_add_raw(out, string, strlen(string));
        return PS_OK;
    }
}

static enum ps_status decode_step(const struct decode_step *step, const struct strings *in, struct strings *out,
                                  struct ps_error *error) {
    if (step->kind == DECODE_BYTES) {
        decode_bytes(in, out);
        return PS_OK;
    }
    if (step->kind == DECODE_FALLBACK) {
        decode_fallback(in, out);
        return PS_OK;
    }
    const char *string = in->text.data;
    for (size_t s = 0; s < in->count; s++, string += strlen(string) + 1) {
        TRY(decode_string(step, string, s == 0, s + 1 == in->count, &out->text, error));
        if (step->kind != DECODE_FUSE) end_string(out);
    }
    if (step->kind == DECODE_FUSE) end_string(out);
    return PS_OK;
}

static enum ps_status decode(struct tokenizer *t, struct strings *strings, struct ps_error *error) {
    for (int d = 0; d < t->decoder_count && strings->count > 0; d++) {
        struct strings out = {0};
        enum ps_status status = decode_step(&t->decoders[d], strings, &out, error);
        text_free(&strings->text);
        *strings = out;
        if (status == PS_OK && out.text.failed) status = error_memory(error, "a text", out.text.capacity);
        if (status != PS_OK) return status;
    }
    return PS_OK;
}

enum ps_status tokenizer_decode(struct tokenizer *t, const int32_t *tokens, int64_t count, struct text *text,
                                struct ps_error *error) {
    struct strings strings = {0};
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= t->size || !t->tokens[tokens[i]].text || t->tokens[tokens[i]].special) continue;
        text_add_raw(&strings.text, t->tokens[tokens[i]].text, t->tokens[tokens[i]].length);
        end_string(&strings);
    }
    enum ps_status status = strings.text.failed ? error_memory(error, "a text", (size_t)count) : PS_OK;
    pthread_mutex_lock(&t->lock);
    if (status == PS_OK) status = decode(t, &strings, error);
    pthread_mutex_unlock(&t->lock);
    const char *string = strings.text.data;
    for (size_t s = 0; s < strings.count && status == PS_OK; s++, string += strlen(string) + 1) {
        if (s > 0 && t->decoder_count == 0) text_add_raw(text, " ", 1);
        text_add_raw(text, string, strlen(string));
    }
    text_free(&strings.text);
    return status;
}
