/* See the header. Hugging Face's library defines what each step does (tokenizers, src/normalizers and src/pre_tokenizers). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/text_steps.h"

#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"

/* --------------------------------------------------------------- characters */

size_t text_character(const char *text, size_t length, int32_t *character) {
    const unsigned char first = (unsigned char)*text;
    if (first < 0x80) {
        *character = first;
        return 1;
    }
    const utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, character);
    return size > 0 ? (size_t)size : 1;
}

void text_add_character(struct text *text, int32_t character) {
    utf8proc_uint8_t bytes[4];
    text_add_raw(text, (const char *)bytes, (size_t)utf8proc_encode_char(character, bytes));
}

bool character_is_blank(int32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d);
    const utf8proc_category_t category = utf8proc_category(c);
    return c == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

static bool is_mark(int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool character_is_word(int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    return letter || is_mark(c) || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_PC;
}

/* Controls, formats and private characters; not what BERT calls white space. */
static bool is_control(int32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO ||
           category == UTF8PROC_CATEGORY_CS;
}

static bool is_chinese(int32_t c) {
    static const int32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                        {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        if (c >= ranges[r][0] && c <= ranges[r][1]) return true;
    return false;
}

/* GPT-2's characters for bytes: visible ones of Latin-1 stand for themselves, the others follow from U+0100 on. */
static bool stands_for_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static int32_t byte_character(int byte) {
    if (stands_for_itself(byte)) return byte;
    return 0x100 + (byte <= ' ' ? byte : byte < 0xad ? byte - 0x7f + 33 : 67);
}

int text_step_byte(int32_t character) {
    if (character < 0x100) return stands_for_itself(character) ? character : -1;
    const int32_t place = character - 0x100;
    return place <= ' ' ? place : place < 67 ? place - 33 + 0x7f : place == 67 ? 0xad : -1;
}

/* ----------------------------------------------------------------- patterns */

struct text_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

void text_pattern_destroy(struct text_pattern *pattern) {
    if (!pattern) return;
    pcre2_jit_stack_free(pattern->stack);
    pcre2_match_context_free(pattern->context);
    pcre2_match_data_free(pattern->match);
    pcre2_code_free(pattern->code);
    free(pattern);
}

/*
 * Oniguruma reads the expressions of a tokenizer's file. They are translated to what PCRE2 reads alike, and what it would read
 * otherwise is refused: all escapes, groups and classes but those that are known to be the same.
 */

/* Outside of a class \w has the superscripts and fractions of Latin-1, too. */
#define ONIGURUMA_WORD TEXT_WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
/* PCRE2's \s has U+180E, which is no white space any more. */
#define SPACE "\\p{Z}\\x{85}\\x{9}-\\x{d}"

static bool escape_is_alike(const char *c) {
    if (!isalnum((unsigned char)c[1])) return true;
    if (c[1] == 'p' || c[1] == 'P') return c[2] == '{' && strchr(c, '}') != NULL;
    if (c[1] == 'x') return c[2] == '{' || (c[2] >= '0' && c[2] <= '7' && isxdigit((unsigned char)c[3])); /* else bytes */
    return strchr("0123456789adDefnrsStwAzZ", c[1]) != NULL;
}

/* The options of a group, as in "(?i:": how many letters. */
static size_t group_options(const char *c) { return c[0] == '(' && c[1] == '?' ? strspn(c + 2, "im-") : 0; }

/* Options without a group ("(?i)") hold elsewhere for PCRE2, unless all stands behind them. */
static bool group_is_alike(const char *c, bool first) {
    const char *end = c + 2 + group_options(c);
    if (c[1] != '?') return c[1] != '*';
    if (end > c + 2) return *end == ':' || (*end == ')' && first);
    return strchr(":=!>", *end) ? *end != '\0' : *end == '<' && (end[1] == '=' || end[1] == '!');
}

/* How much of what begins at `c` is read otherwise; 0: nothing. */
static size_t unlike(const char *c, bool inside, bool first) {
    if (*c == '\\') return c[1] == '\0' || escape_is_alike(c) ? 0 : 2;
    if (inside) return *c == '[' || (c[0] == '&' && c[1] == '&') ? 2 : 0;
    if (*c == '(') return group_is_alike(c, first) ? 0 : 3;
    const size_t length = *c == '{' ? strspn(c + 1, "0123456789,") : 0;
    if (length == 0 || c[length + 1] != '}') return 0;
    /* "{,2}" is no interval for PCRE2; "{2}+" is repeated for Oniguruma, "{2}?" may be absent. */
    const char next = c[length + 2];
    return c[1] == ',' || next == '+' || (next == '?' && !memchr(c, ',', length)) ? length + 3 : 0;
}

/* Writes an escape or the beginning of a group with options; returns how much of the expression that is, 0: none of these. */
static size_t translate_one(const char *c, bool inside, struct text *out) {
    const size_t options = inside ? 0 : group_options(c);
    if (options > 0) { /* "m" is PCRE2's "s", and its own "m" always holds */
        text_add_raw(out, "(?", 2);
        for (size_t i = 0; i < options; i++) text_add_raw(out, c[2 + i] == 'm' ? "s" : c + 2 + i, 1);
        return 2 + options;
    }
    if (*c != '\\' || c[1] == '\0') return 0;
    if (c[1] == 'w') {
        text_add(out, "%s", inside ? TEXT_WORD : "[" ONIGURUMA_WORD "]");
    } else if (c[1] == 's') {
        text_add(out, "%s", inside ? SPACE : "[" SPACE "]");
    } else if (c[1] == 'S' && !inside) {
        text_add(out, "[^" SPACE "]");
    } else if (c[1] == 'p' || c[1] == 'P') { /* scripts by the name, not with what other scripts share */
        const size_t begin = c[3] == '^' ? 4 : 3, end = strcspn(c, "}") + 1;
        text_add(out, "%.*s%s%.*s", (int)begin, c, end - begin > 3 ? "sc:" : "", (int)(end - begin), c + begin);
        return end;
    } else {
        text_add_raw(out, c, 2);
    }
    return 2;
}

static enum ps_status translate(const char *expression, struct text *out, struct ps_error *error) {
    bool inside = false; /* a character class */
    for (const char *c = expression; *c != '\0';) {
        const size_t wrong = unlike(c, inside, c == expression), taken = wrong > 0 ? 0 : translate_one(c, inside, out);
        if (wrong > 0)
            return error_set(error, PS_BAD_INPUT, "the regular expression '%.200s' has '%.*s', which is not supported",
                             expression, (int)wrong, c);
        c += taken;
        if (taken > 0) continue;
        text_add_raw(out, c, 1);
        if (!inside && *c == '[') {
            inside = true;
            for (; c[1] == '^' || c[1] == ']'; c++) { /* "[]a]", "[^]a]": the bracket is a member */
                text_add_raw(out, c[1] == ']' ? "\\]" : "^", c[1] == ']' ? 2 : 1);
                if (c[1] == ']') {
                    c++;
                    break;
                }
            }
        } else if (inside && *c == ']') {
            inside = false;
        }
        c++;
    }
    return out->failed ? error_memory(error, "a regular expression", strlen(expression)) : PS_OK;
}

static enum ps_status compile(const char *text, uint32_t options, const char *expression, struct text_pattern *made,
                              struct ps_error *error) {
    int code;
    size_t place;
    made->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &code, &place, NULL);
    if (!made->code && code == PCRE2_ERROR_HEAP_FAILED) return error_memory(error, "a regular expression", strlen(text));
    if (!made->code) {
        PCRE2_UCHAR message[128];
        pcre2_get_error_message(code, message, sizeof message);
        return error_set(error, PS_BAD_INPUT, "the regular expression '%.200s': %s", expression, (const char *)message);
    }
#ifndef PENSTOCK_NO_REGEX_JIT
    (void)pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); /* without it matching is slower */
#endif
    made->match = pcre2_match_data_create_from_pattern(made->code, NULL);
    made->context = pcre2_match_context_create(NULL);
    made->stack = pcre2_jit_stack_create(1 << 15, 1 << 20, NULL);
    if (!made->match || !made->context) return error_memory(error, "a regular expression", sizeof *made);
    if (made->stack) pcre2_jit_stack_assign(made->context, NULL, made->stack);
    return PS_OK;
}

enum ps_status text_pattern_create(const char *expression, bool literal, struct text_pattern **pattern,
                                   struct ps_error *error) {
    struct text_pattern *made;
    struct text text = {0};
    TRY(memory_new(&made, 1, "a regular expression", error));
    enum ps_status status = PS_OK;
    if (literal)
        status = compile(expression, PCRE2_LITERAL | PCRE2_UTF, expression, made, error);
    else
        status = translate(expression, &text, error);
    if (status == PS_OK && !literal)
        status = compile(text.data ? text.data : "", PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, expression, made, error);
    text_free(&text);
    if (status == PS_OK)
        *pattern = made;
    else
        text_pattern_destroy(made);
    return status;
}

static enum ps_status find(struct text_pattern *pattern, const char *text, size_t length, size_t from, bool *found,
                           size_t *start, size_t *end, struct ps_error *error) {
    const int count =
        pcre2_match(pattern->code, (PCRE2_SPTR)text, length, from, PCRE2_NO_UTF_CHECK, pattern->match, pattern->context);
    *found = count > 0;
    if (*found) {
        const size_t *places = pcre2_get_ovector_pointer(pattern->match);
        *start = places[0] < from ? from : places[0]; /* \K is refused */
        *end = places[1] < *start ? *start : places[1];
    }
    if (count > 0 || count == PCRE2_ERROR_NOMATCH) return PS_OK;
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(count, message, sizeof message);
    return error_set(error, PS_BAD_INPUT, "a regular expression of the tokenizer fails at byte %zu of a text: %s", from,
                     (const char *)message);
}

/* Goes on to the next match. As in the library an empty one directly behind another match is none, and an empty text has none.
 */
static enum ps_status find_next(struct text_pattern *pattern, const char *text, size_t length, struct text_match *match,
                                struct ps_error *error) {
    const size_t last = match->end;
    match->found = false;
    while (!match->found && length > 0 && match->search <= length) {
        bool found;
        int32_t c;
        TRY(find(pattern, text, length, match->search, &found, &match->start, &match->end, error));
        if (!found) {
            match->search = length + 1;
            break;
        }
        const size_t end = match->end;
        const bool empty = end == match->start;
        match->search = !empty ? end : end < length ? end + text_character(text + end, length - end, &c) : end + 1;
        match->found = !empty || end == 0 || end != last;
    }
    return PS_OK;
}

/* ------------------------------------------------------------------ changes */

static enum ps_status add_normal_form(utf8proc_option_t options, const char *text, size_t length, struct text *out,
                                      struct ps_error *error) {
    utf8proc_uint8_t *made = NULL;
    const utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &made, options);
    if (size < 0)
        return error_set(error, size == UTF8PROC_ERROR_NOMEM ? PS_OUT_OF_MEMORY : PS_BAD_INPUT, "a normal form of a text: %s",
                         utf8proc_errmsg(size));
    text_add_raw(out, (const char *)made, (size_t)size);
    free(made);
    return PS_OK;
}

/* ASCII is normal in all forms, and nothing is composed across the end of a line: so lines are normalised one by one. */
static enum ps_status add_normal_lines(enum text_step_kind kind, const char *text, size_t length, struct text *out,
                                       struct ps_error *error) {
    static const int options[] = {[TEXT_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
                                  [TEXT_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
                                  [TEXT_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                  [TEXT_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    for (const char *end = text + length; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop + 1 : end;
        bool plain = true;
        for (const char *c = text; c < stop && plain; c++) plain = (unsigned char)*c < 0x80;
        if (plain)
            text_add_raw(out, text, (size_t)(stop - text));
        else
            TRY(add_normal_form((utf8proc_option_t)options[kind], text, (size_t)(stop - text), out, error));
        text = stop;
    }
    return PS_OK;
}

static enum ps_status normalise(enum text_step_kind kind, const char *text, size_t length, size_t *head, struct text *out,
                                struct ps_error *error) {
    const size_t before = out->length;
    TRY(add_normal_lines(kind, text, *head, out, error));
    size_t made = out->length - before;
    out->length = before;
    TRY(add_normal_lines(kind, text, length, out, error));
    while (before + made < out->length && ((unsigned char)out->data[before + made] & 0xc0) == 0x80) made++; /* was composed */
    *head = made;
    return PS_OK;
}

/* Appends what becomes of a character that is not ASCII. */
static void add_changed(enum text_step_kind kind, int32_t c, struct text *out) {
    switch (kind) {
    case TEXT_LOWER:
        if (c == 0x130)
            text_add_raw(out, "i\xcc\x87", 3);
        else
            text_add_character(out, utf8proc_tolower(c));
        return;
    case TEXT_DROP_MARKS:
        if (!is_mark(c)) text_add_character(out, c);
        return;
    case TEXT_DROP_ACCENTS:
        if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) text_add_character(out, c);
        return;
    case TEXT_CLEAN:
        if (c != 0xfffd && !is_control(c)) text_add_character(out, character_is_blank(c) ? ' ' : c);
        return;
    case TEXT_SEPARATE_CHINESE:
        if (is_chinese(c)) text_add_raw(out, " ", 1);
        text_add_character(out, c);
        if (is_chinese(c)) text_add_raw(out, " ", 1);
        return;
    default:
        return;
    }
}

/* Appends what becomes of the ASCII characters at the beginning of `text`, up to a few hundred; returns how many there are. */
static size_t add_plain(enum text_step_kind kind, const char *text, size_t length, struct text *out) {
    char room[512];
    size_t used = 0, i = 0;
    for (; i < length && i < sizeof room && (unsigned char)text[i] < 0x80; i++) {
        const char c = text[i];
        if (kind == TEXT_CLEAN) {
            if (c == 0 || is_control(c)) continue;
            room[used++] = character_is_blank(c) ? ' ' : c;
        } else {
            room[used++] = kind == TEXT_LOWER && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        }
    }
    text_add_raw(out, room, used);
    return i;
}

static void add_bytes(const char *text, size_t length, struct text *out) {
    char room[512];
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        const int32_t c = byte_character((unsigned char)text[i]);
        if (c >= 0x80) room[used++] = (char)(0xc0 | c >> 6);
        room[used++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
        if (used < sizeof room - 2 && i + 1 < length) continue;
        text_add_raw(out, room, used);
        used = 0;
    }
}

static void strip(const struct text_step *step, const char *text, size_t length, size_t *head, struct text *out) {
    int32_t c;
    size_t start = 0, kept = 0;
    while (step->left && start < length) {
        const size_t size = text_character(text + start, length - start, &c);
        if (!character_is_blank(c)) break;
        start += size;
    }
    *head = *head > start ? *head - start : 0;
    for (size_t i = start; i < length;) {
        i += text_character(text + i, length - i, &c);
        if (!step->right || !character_is_blank(c)) kept = i;
    }
    if (kept > start) text_add_raw(out, text + start, kept - start);
}

/* As in the library what replaces a match stands where the match's last character stood. */
static enum ps_status replace(const struct text_step *step, const char *text, size_t length, size_t *head, struct text *out,
                              struct ps_error *error) {
    struct text_match match = {0};
    const size_t before = out->length;
    size_t position = 0, made = 0;
    for (;;) {
        TRY(find_next(step->pattern, text, length, &match, error));
        if (!match.found) break;
        if (position < *head) made += (match.start < *head ? match.start : *head) - position;
        text_add_raw(out, text + position, match.start - position);
        text_add_raw(out, step->text, strlen(step->text));
        position = match.end;
        if (*head > 0 && position <= *head) made = out->length - before;
    }
    if (position < *head) made += *head - position;
    text_add_raw(out, text + position, length - position);
    *head = made;
    return PS_OK;
}

enum ps_status text_step_change(const struct text_step *step, const char *text, size_t length, size_t *head, struct text *out,
                                struct ps_error *error) {
    const size_t before = out->length;
    enum ps_status status = PS_OK;
    bool whole = false; /* the text follows as it is */
    size_t made = 0;
    int32_t c;
    if (*head > length) *head = length;
    switch (step->kind) {
    case TEXT_NFC:
    case TEXT_NFD:
    case TEXT_NFKC:
    case TEXT_NFKD:
        status = normalise(step->kind, text, length, head, out, error);
        break;
    case TEXT_STRIP:
        strip(step, text, length, head, out);
        break;
    case TEXT_PREPEND:
    case TEXT_PREPEND_IF_MISSING: {
        const size_t size = strlen(step->text);
        const bool there = length >= size && memcmp(text, step->text, size) == 0;
        if (length > 0 && (step->kind == TEXT_PREPEND || (!there && (*head > 0 || !step->first_only))))
            text_add_raw(out, step->text, size);
        if (*head > 0) *head += out->length - before;
        whole = true;
        break;
    }
    case TEXT_REPLACE:
        status = replace(step, text, length, head, out, error);
        break;
    case TEXT_BYTES:
        add_bytes(text, *head, out);
        *head = out->length - before;
        out->length = before;
        add_bytes(text, length, out);
        break;
    default:
        for (size_t i = 0; i < length;) {
            const bool in_head = i < *head;
            const size_t plain = add_plain(step->kind, text + i, (in_head ? *head : length) - i, out);
            i += plain;
            if (plain == 0) {
                i += text_character(text + i, length - i, &c);
                add_changed(step->kind, c, out);
            }
            if (in_head) made = out->length - before;
        }
        *head = made;
    }
    if (whole) text_add_raw(out, text, length);
    if (status == PS_OK && out->failed) status = error_memory(error, "a text", before + length);
    return status;
}

/* ------------------------------------------------------------------- pieces */

struct text_pieces text_pieces_begin(const struct text_step *step, const char *text, size_t length) {
    return (struct text_pieces){.step = step, .text = text, .length = length, .held = {.start = SIZE_MAX}};
}

/* The next stretch that matches, or lies between matches; start == SIZE_MAX at the end. */
static enum ps_status next_segment(struct text_pieces *p, struct text_segment *segment, struct ps_error *error) {
    *segment = (struct text_segment){.start = SIZE_MAX};
    if (!p->match.found) TRY(find_next(p->step->pattern, p->text, p->length, &p->match, error));
    const size_t next = p->match.found ? p->match.start : p->length;
    if (p->position < next) {
        *segment = (struct text_segment){p->position, next, p->step->inverted};
        p->position = next;
    } else if (p->match.found) {
        *segment = (struct text_segment){p->match.start, p->match.end, !p->step->inverted};
        p->match.found = false;
        p->position = p->match.end;
    }
    return PS_OK;
}

static bool joins(enum text_behavior behavior, bool held, bool next) {
    switch (behavior) {
    case SPLIT_MERGED_WITH_PREVIOUS:
        return next && !held;
    case SPLIT_MERGED_WITH_NEXT:
        return held && !next;
    case SPLIT_CONTIGUOUS:
        return held == next;
    default:
        return false;
    }
}

enum ps_status text_pieces_next(struct text_pieces *p, const char **piece, size_t *size, struct ps_error *error) {
    for (;;) {
        struct text_segment next, done = p->held;
        TRY(next_segment(p, &next, error));
        if (next.start != SIZE_MAX && done.start != SIZE_MAX && joins(p->step->behavior, done.match, next.match)) {
            p->held.end = next.end;
            p->held.match = next.match;
            continue;
        }
        p->held = next;
        *size = 0;
        if (done.start == SIZE_MAX && next.start == SIZE_MAX) return PS_OK;
        if (done.start == SIZE_MAX || done.end == done.start || (p->step->behavior == SPLIT_REMOVED && done.match)) continue;
        *piece = p->text + done.start;
        *size = done.end - done.start;
        return PS_OK;
    }
}
