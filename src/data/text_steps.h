/*
 * What happens to a text before a tokenizer's model numbers it: steps that change it (Unicode's normal forms, lower case,
 * replacements) and steps that split it by regular expressions. The only file that uses PCRE2 and utf8proc.
 */
#ifndef PENSTOCK_DATA_TEXT_STEPS_H
#define PENSTOCK_DATA_TEXT_STEPS_H

#include "base/text.h"

/* The members of \w within a character class: what is alphabetic, marks, digits and connectors. Rust and Oniguruma each have
 * some more. */
#define TEXT_WORD                                                                                                              \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

struct text_pattern;

/* Compiles a regular expression as Hugging Face's library reads it (Oniguruma's, over Unicode), or a text that is looked for as
 * it is (`literal`). PS_BAD_INPUT says what is wrong with it, or what is not supported (\W, \b, && and others). */
enum ps_status text_pattern_create(const char *expression, bool literal, struct text_pattern **pattern, struct ps_error *error);
void text_pattern_destroy(struct text_pattern *pattern);

enum text_step_kind {
    TEXT_NFC,
    TEXT_NFD,
    TEXT_NFKC,
    TEXT_NFKD,
    TEXT_LOWER,
    TEXT_DROP_MARKS,         /* combining marks */
    TEXT_DROP_ACCENTS,       /* marks that take no place of their own, after NFD */
    TEXT_CLEAN,              /* BERT: control characters are dropped, white space becomes blanks */
    TEXT_SEPARATE_CHINESE,   /* BERT: blanks around Chinese characters */
    TEXT_STRIP,              /* white space at the beginning (`left`) and at the end (`right`) */
    TEXT_PREPEND,            /* `text`, to what is not empty */
    TEXT_PREPEND_IF_MISSING, /* `text`, to what does not begin with it */
    TEXT_REPLACE,            /* matches of `pattern` by `text` */
    TEXT_SPLIT,              /* at matches of `pattern` */
    TEXT_BYTES,              /* each byte becomes a visible character, as in GPT-2 */
};

/* What becomes of a match where a text is split, as Hugging Face's library names it. */
enum text_behavior { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_MERGED_WITH_PREVIOUS, SPLIT_MERGED_WITH_NEXT, SPLIT_CONTIGUOUS };

struct text_step {
    enum text_step_kind kind;
    const char *text;             /* borrowed */
    struct text_pattern *pattern; /* owned by who destroys it */
    enum text_behavior behavior;
    bool inverted;    /* what does not match is the match */
    bool left, right; /* of TEXT_STRIP */
    bool first_only;  /* TEXT_PREPEND_IF_MISSING: only at the beginning of the whole text */
};

/* Appends what the step, not TEXT_SPLIT, makes of `text` to `out`. `head`: how many bytes in front came from the first
 * character of the whole text, before and after. The text is valid UTF-8. */
enum ps_status text_step_change(const struct text_step *step, const char *text, size_t length, size_t *head, struct text *out,
                                struct ps_error *error);

/* The pieces that TEXT_SPLIT makes of a text, one after the other. */
struct text_pieces {
    const struct text_step *step;
    const char *text;
    size_t length, position; /* up to where matches are known */
    struct text_match {
        size_t search, start, end; /* where the next one is looked for; of this one */
        bool found;
    } match; /* the next one */
    struct text_segment {
        size_t start, end;
        bool match;
    } held; /* may grow by the next one; start == SIZE_MAX: none */
};
struct text_pieces text_pieces_begin(const struct text_step *step, const char *text, size_t length);
/* Sets *piece and *size to the next piece, which is not empty; *size is 0 at the end. */
enum ps_status text_pieces_next(struct text_pieces *pieces, const char **piece, size_t *size, struct ps_error *error);

/* The byte for which TEXT_BYTES wrote a character; -1: for none. */
int text_step_byte(int32_t character);
/* Reads the character at `text`, of which `length` bytes are left; returns its bytes. */
size_t text_character(const char *text, size_t length, int32_t *character);
void text_add_character(struct text *text, int32_t character);
bool character_is_blank(int32_t character);
/* Letters, marks, digits and connectors, of which \w consists. */
bool character_is_word(int32_t character);

#endif
