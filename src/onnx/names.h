/* Names for a line of the log. */
#ifndef PENSTOCK_ONNX_NAMES_H
#define PENSTOCK_ONNX_NAMES_H

#include <stdio.h>
#include <string.h>

/* The first few, and how many there are. Zeroed: none. */
struct names {
    char text[256];
    int count;
};

static inline void names_note(struct names *names, const char *name) {
    const size_t used = strlen(names->text);
    if (names->count++ < 4) snprintf(names->text + used, sizeof names->text - used, "%s%.60s", used > 0 ? ", " : "", name);
    if (names->count == 5) snprintf(names->text + strlen(names->text), sizeof names->text - strlen(names->text), ", ...");
}

#endif
