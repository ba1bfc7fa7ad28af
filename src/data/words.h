/* From a line of text to words, separated by one blank each. */
#ifndef PENSTOCK_DATA_WORDS_H
#define PENSTOCK_DATA_WORDS_H

#include "base/text.h"

/* mteval's tokenisation 13a, the standard of WMT: punctuation stands by itself, but for '.' and ',' inside numbers and for '-'
 * and '\'' (but behind a digit '-' does); &quot; &amp; &lt; &gt; are what they stand for. Case is kept. */
void words_13a(const char *line, size_t length, struct text *words);
/* For classifying: small letters (of ASCII), digits, apostrophes and all beyond ASCII make words; HTML's line breaks and the
 * rest part them. */
void words_plain(const char *line, size_t length, struct text *words);
/* What blanks part already. */
void words_given(const char *line, size_t length, struct text *words);

/* The next word of `words` from *place on, moved behind it; its length, 0 at the end. */
size_t words_next(const char **place, const char **word);

#endif
