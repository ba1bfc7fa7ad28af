/* Text from outside: is it UTF-8? */
#ifndef PENSTOCK_BASE_UTF8_H
#define PENSTOCK_BASE_UTF8_H

#include <stddef.h>

/* The first byte of `text` that is not part of valid UTF-8, or NULL. */
const char *utf8_invalid(const char *text, size_t length);
/* Takes away the mark that some programs begin UTF-8 files with; returns the length that remains. */
size_t utf8_drop_mark(char *text, size_t length);

#endif
