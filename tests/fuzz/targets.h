/*
 * What is fuzzed: each reader of files that come from others, with a file's contents, and of frames between ranks. It may take
 * them or refuse them as bad input, in one line; anything else ends the process. `make fuzz` links each with libFuzzer
 * (fuzz.c); tests/test_fuzz_seeds.c runs them on the files in seeds/.
 */
#ifndef PENSTOCK_TESTS_FUZZ_TARGETS_H
#define PENSTOCK_TESTS_FUZZ_TARGETS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "comm/processes/control.h"
#include "data/npz.h"
#include "data/tokenizer.h"
#include "onnx/onnx.h"
#include "plan/cluster.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "program/program.h"

static void fuzz_judge(enum ps_status status, const struct ps_error *error) {
    const size_t length = strlen(error->message);
    const bool said = length > 0 && error->message[length - 1] != ' ' && !strchr(error->message, '\n') &&
                      !strchr(error->hint, '\n') && !strstr(error->message, "out of memory:  needs");
    if (status == PS_OK || ((status == PS_BAD_INPUT || status == PS_USAGE || status == PS_OUT_OF_MEMORY) && said)) return;
    fprintf(stderr, "status %d: %s\n", (int)status, error->message);
    abort();
}

static void fuzz_onnx(const uint8_t *data, size_t size) {
    struct ps_error error = {0};
    struct ps_network *network = NULL;
    fuzz_judge(onnx_parse_network("/nonexistent/file.onnx", data, size, &network, &error), &error);
    ps_network_destroy(network);
}

static void fuzz_network(const uint8_t *data, size_t size) {
    struct ps_error error = {0};
    struct ps_network *network = NULL;
    fuzz_judge(network_parse((const char *)data, size, "/nonexistent/file.json", &network, &error), &error);
    ps_network_destroy(network);
}

/* A file in memory, with the contents; its pages stay from one to the next. */
static const char *fuzz_file(const uint8_t *data, size_t size) {
    static char path[64];
    static int file = -1;
    if (file < 0) {
        file = memfd_create("fuzzed", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (file < 0 || pwrite(file, data, size, 0) != (ssize_t)size || ftruncate(file, (off_t)size) != 0) abort();
    return path;
}

/* Elements of a sum, so that all are read. */
static void fuzz_read(const struct array *array) {
    const int64_t count = array_elements(array);
    double sum = 0, value = 0;
    for (int64_t i = 0; i < count; i++) {
        array_doubles(array, i, 1, &value);
        sum += value;
    }
    volatile double kept = sum;
    (void)kept;
}

static void fuzz_npz(const uint8_t *data, size_t size) {
    struct ps_error error = {0};
    struct npz *file = NULL;
    struct array array;
    fuzz_judge(npz_open(fuzz_file(data, size), &file, &error), &error);
    for (int i = 0; file != NULL && i < npz_count(file); i++) {
        const enum ps_status status = npz_get(file, npz_name(file, i), &array, &error);
        fuzz_judge(status, &error);
        if (status == PS_OK) fuzz_read(&array);
    }
    npz_close(file);
}

static void fuzz_safetensors(const uint8_t *data, size_t size) {
    struct ps_error error = {0};
    struct safetensors file = {0};
    struct array array;
    const enum ps_status status = safetensors_open(fuzz_file(data, size), &file, &error);
    fuzz_judge(status, &error);
    for (int t = 0; status == PS_OK && t < file.count; t++)
        if (safetensors_array(&file, &file.tensors[t], &array)) fuzz_read(&array);
    if (status == PS_OK) safetensors_free(&file);
}

static void fuzz_tokenizer(const uint8_t *data, size_t size) {
    static const char text[] =
        "The quick  brown fox's 12 men\n<|endoftext|> <mask>\xc3\xa9 e\xcc\x81 \xe6\xbc\xa2\xe2\x96\x81 a<s>\t";
    struct ps_error error = {0};
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    struct text spelled = {0};
    enum ps_status status = tokenizer_create((const char *)data, size, "file", &tokenizer, &error);
    fuzz_judge(status, &error);
    if (status == PS_OK) {
        status = tokenizer_encode(tokenizer, text, sizeof text - 1, &list, &error);
        fuzz_judge(status, &error);
    }
    if (status == PS_OK) fuzz_judge(tokenizer_decode(tokenizer, list.tokens, (int64_t)list.count, &spelled, &error), &error);
    text_free(&spelled);
    free(list.tokens);
    tokenizer_destroy(tokenizer);
}

/* What a text of a rank's or a file's holds is written again. */
#define FUZZ_TEXT(name)                                                                                                        \
    static void fuzz_##name(const uint8_t *data, size_t size) {                                                                \
        struct ps_error error = {0};                                                                                           \
        struct ps_##name *made = NULL;                                                                                         \
        fuzz_judge(name##_parse((const char *)data, size, &made, &error), &error);                                             \
        if (made == NULL) return;                                                                                              \
        free(ps_##name##_json(made));                                                                                          \
        free(ps_##name##_table(made));                                                                                         \
        ps_##name##_destroy(made);                                                                                             \
    }

FUZZ_TEXT(plan)
FUZZ_TEXT(cluster)
FUZZ_TEXT(profile)

static void fuzz_programs(const uint8_t *data, size_t size) {
    struct ps_error error = {0};
    struct ps_programs *programs = NULL;
    char *text = calloc(1, size + 1);
    if (text == NULL) return;
    memcpy(text, data, size);
    fuzz_judge(ps_programs_parse(text, &programs, &error), &error);
    free(text);
    /* Longer ones take longer than a fuzzer should wait. */
    if (programs != NULL && programs->batches * programs->micro_batches <= 1 << 8) {
        free(ps_programs_json(programs));
        free(ps_programs_table(programs));
    }
    ps_programs_destroy(programs);
}

/* Frames as rank 1 sends them to rank 0: each a byte with its kind, two with its size, and its data. */
static void fuzz_frames(const uint8_t *data, size_t size) {
    static struct process_info info[3];
    struct control *control;
    struct ps_error error = {0};
    struct process_state state;
    if (control_create(0, 3, info, &control, &error) != PS_OK) return;
    for (bool good = true; good && size >= 3;) {
        const size_t wanted = (size_t)data[1] + 256u * data[2], bytes = wanted < size - 3 ? wanted : size - 3;
        struct frame *frame = malloc(sizeof *frame + bytes);
        if (frame == NULL) break;
        *frame = (struct frame){.rank = 1, .kind = data[0], .size = bytes};
        memcpy(frame->data, data + 3, bytes);
        good = control_hear(control, 1, frame);
        data += 3 + bytes;
        size -= 3 + bytes;
    }
    state = control_state_of(control, 1);
    if (state.next < 0) abort();
    for (struct frame *told; (told = control_take_told(control, 1)) != NULL;) free(told);
    control_check(control, &error);
    control_close(control);
}

/* What the contents are made of, for the mutations of fuzz.c. FORM_TENSORS: eight bytes with the length of a JSON text, the
 * text, and bytes. */
enum fuzz_form { FORM_BYTES, FORM_JSON, FORM_TENSORS };

static const struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
    enum fuzz_form form;
} fuzz_targets[] = {
    {"onnx", fuzz_onnx, FORM_BYTES},
    {"network", fuzz_network, FORM_JSON},
    {"npz", fuzz_npz, FORM_BYTES},
    {"safetensors", fuzz_safetensors, FORM_TENSORS},
    {"tokenizer", fuzz_tokenizer, FORM_JSON},
    {"plan", fuzz_plan, FORM_JSON},
    {"cluster", fuzz_cluster, FORM_JSON},
    {"profile", fuzz_profile, FORM_JSON},
    {"programs", fuzz_programs, FORM_JSON},
    {"frames", fuzz_frames, FORM_BYTES},
};

#endif
