/*
 * One target of targets.h for libFuzzer: that which the program is named after. Of JSON whole values are copied, doubled,
 * removed and replaced as often as single bytes are changed, which mostly leave a text that no parser takes.
 */
#include "targets.h"

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *slash = strrchr(**arguments, '/'), *name = slash != NULL ? slash + 1 : **arguments;
    (void)count;
    for (size_t t = 0; t < sizeof fuzz_targets / sizeof *fuzz_targets; t++)
        if (strcmp(fuzz_targets[t].name, name) == 0) target = &fuzz_targets[t];
    if (target == NULL) fprintf(stderr, "the program is named after no target\n"), abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    target->run(data, size);
    return 0;
}

struct span {
    size_t at, size;
};

static size_t string_end(const uint8_t *text, size_t size, size_t at) {
    for (at++; at < size && text[at] != '"'; at++) at += text[at] == '\\';
    return at < size ? at + 1 : size;
}

static size_t value_end(const uint8_t *text, size_t size, size_t at) {
    int depth = 0;
    if (text[at] == '"') return string_end(text, size, at);
    while (at < size) {
        const uint8_t c = text[at];
        if ((c == ',' || c == ':' || c == '}' || c == ']') && depth == 0) break;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        at = c == '"' ? string_end(text, size, at) : at + 1;
        if (depth == 0 && (c == '}' || c == ']')) break;
    }
    return at;
}

/* The first value that begins at `from` or behind; of no size: there is none. */
static struct span find_value(const uint8_t *text, size_t size, size_t from) {
    for (size_t at = from; at < size; at++)
        if (strchr("\"{[-0123456789tfn", text[at]) != NULL && text[at] != '\0')
            return (struct span){at, value_end(text, size, at) - at};
    return (struct span){size, 0};
}

/* `text` with the span replaced; the new size, or 0 if it would be longer than `max`. */
static size_t replace(uint8_t *text, size_t size, size_t max, struct span span, const void *with, size_t length) {
    uint8_t *copy = malloc(length + 1);
    const size_t behind = span.at + span.size;
    if (copy == NULL || size - span.size + length > max) return free(copy), 0;
    memcpy(copy, with, length);
    memmove(text + span.at + length, text + behind, size - behind);
    memcpy(text + span.at, copy, length);
    free(copy);
    return size - span.size + length;
}

static size_t mutate_json(uint8_t *text, size_t size, size_t max, unsigned seed) {
    static const char *const values[] = {
        "0", "-1", "1", "2", "1e308", "null", "\"\"", "[]", "{}", "true", "0.5", "2147483648", "9223372036854775807", "-0.0"};
    const struct span one = find_value(text, size, (seed >> 8) % size), other = find_value(text, size, (seed >> 4) * 7 % size);
    const char *value = values[(seed >> 16) % (sizeof values / sizeof *values)];
    struct span gap = {one.at + one.size, 0};
    size_t made;
    switch (seed % 4) {
    case 0:
        return replace(text, size, max, one, text + other.at, other.size);
    case 1:
        made = replace(text, size, max, gap, text + one.at, one.size);
        return made > 0 ? replace(text, made, max, gap, ",", 1) : 0;
    case 2:
        gap.size = one.size + (one.at + one.size < size && text[one.at + one.size] == ',');
        gap.at = one.at;
        return replace(text, size, max, gap, "", 0);
    default:
        return replace(text, size, max, one, value, strlen(value));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    uint64_t length = size;
    size_t made = 0;
    if (target->form == FORM_TENSORS && size > sizeof length) memcpy(&length, data, sizeof length);
    const bool tensors = target->form == FORM_TENSORS && size > sizeof length && length > 0 && length <= size - sizeof length;
    if (seed % 2 == 0 && tensors) {
        const struct span text = {sizeof length, length};
        uint8_t *copy = malloc(max);
        if (copy == NULL) abort();
        memcpy(copy, data + text.at, length);
        const size_t changed = mutate_json(copy, length, max, seed / 2), new_length = changed;
        if (changed > 0 && (made = replace(data, size, max, text, copy, changed)) > 0)
            memcpy(data, &new_length, sizeof new_length);
        free(copy);
    } else if (seed % 2 == 0 && target->form == FORM_JSON && size > 0) {
        made = mutate_json(data, size, max, seed / 2);
    }
    return made > 0 ? made : LLVMFuzzerMutate(data, size, max);
}
