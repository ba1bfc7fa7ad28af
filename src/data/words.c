/*
 * Tokenisation. 13a is defined (by mteval-v13a.pl, and after it sacrebleu) as substitutions one after the other over the whole
 * line, each going on behind what the one before it has matched; here each is a pass that does the same on bytes. All that is
 * inserted is blanks beside ASCII characters, so UTF-8 stays whole.
 */
#include "data/words.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a blank at `text`, 0: none. What Unicode calls white space. */
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

/* What always stands by itself: ASCII's punctuation but for ' , - and . */
static bool is_symbol(char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

struct rule {
    bool (*first)(char), (*second)(char); /* second NULL: one character matches */
    bool not_first, not_second;           /* the character must not be one of those */
    const char *format;                   /* '1', '2': what matched; ' ' */
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
    struct text from = {0}, to = {0};
    text_add_raw(&from, line, length);
    for (int n = 0; n < 5; n++) { /* one name after the other: "&amp;lt;" becomes "<" */
        static const int order[] = {4, 0, 1, 2, 3};
        const char *name = names[order[n]], *value = values[order[n]];
        size_t size = strlen(name);
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
        to = (struct text){.failed = from.failed};
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

size_t words_next(const char **place, const char **word) {
    while (**place == ' ') (*place)++;
    *word = *place;
    size_t length = strcspn(*place, " ");
    *place += length;
    return length;
}
