/*
 * Whether bytes are UTF-8 as RFC 3629 has it: the shortest form of each number, no surrogates, nothing above U+10FFFF. A zero
 * byte counts as none, since texts end there.
 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

const char *utf8_invalid(const char *text, size_t length) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* shorter forms must be used for smaller numbers */
    const unsigned char *byte = (const unsigned char *)text, *end = byte + length;
    while (byte < end) {
        int bytes = *byte < 0x80 ? 1 : *byte >> 5 == 6 ? 2 : *byte >> 4 == 14 ? 3 : *byte >> 3 == 30 ? 4 : 0;
        if (bytes == 0 || end - byte < bytes || *byte == 0) return (const char *)byte;
        uint32_t point = bytes == 1 ? *byte : *byte & (0x7fu >> bytes);
        for (int i = 1; i < bytes; i++) {
            if (byte[i] >> 6 != 2) return (const char *)byte;
            point = point << 6 | (byte[i] & 0x3fu);
        }
        if (point < least[bytes] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return (const char *)byte;
        byte += bytes;
    }
    return NULL;
}

size_t utf8_drop_mark(char *text, size_t length) {
    if (length < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0) return length;
    memmove(text, text + 3, length - 3);
    return length - 3;
}
