/* Augmentation, and datasets that are bytes in memory; see the header. */
#include "data/pixels.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

/* ------------------------------------------------------------- augmentation */

enum ps_status augment_cut_options(const char *rest, const char *format, char directory[4096], struct spec *options,
                                   struct ps_error *error) {
    const char *slash = strrchr(rest, '/'), *comma = strchr(slash ? slash : rest, ',');
    const size_t length = comma ? (size_t)(comma - rest) : strlen(rest);
    if (length >= 4096) return error_set(error, PS_USAGE, "%s: the directory's name is longer than 4095 characters", format);
    char text[sizeof options->buffer];
    const int needed = snprintf(text, sizeof text, "%s%s", format, comma ? comma : "");
    if (needed >= (int)sizeof text) {
        return error_set(error, PS_USAGE, "%s: the options are longer than %zu characters", format, sizeof text - 1);
    }
    TRY(spec_parse(text, format, options, error));
    memcpy(directory, rest, length);
    directory[length] = '\0';
    return PS_OK;
}

enum ps_status augment_parse(struct spec *options, struct augmentation *augmentation, struct ps_error *error) {
    int flip = augmentation->flip;
    TRY(spec_int(options, "pad", 0, 4096, &augmentation->pad, error));
    TRY(spec_int(options, "flip", 0, 1, &flip, error));
    augmentation->flip = flip == 1;
    return PS_OK;
}

int64_t augment_offset(const struct random_key *key, enum augment_draw draw, int64_t size, int64_t side, int pad) {
    const int64_t room = size - side, half = room / 2;
    if (!key || room + 2 * pad < 0) return half + (room % 2 != 0 && half % 2 != 0); /* half a pixel: rounded to even */
    return (int64_t)random_below(*key, draw, (uint64_t)(room + 2 * pad) + 1) - pad;
}

bool augment_flips(const struct augmentation *augmentation, const struct random_key *key) {
    return augmentation->flip && key && random_below(*key, DRAW_FLIP, 2) == 1;
}

static const struct named_normalisation {
    const char *name;
    struct normalisation values;
} normalisations[] = {
    {"imagenet", {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}},
    {"cifar", {{0.491f, 0.482f, 0.447f}, {0.202f, 0.199f, 0.201f}}},
    {"none", {{0, 0, 0}, {1, 1, 1}}},
};
enum { NORMALISATIONS = sizeof normalisations / sizeof *normalisations };

static float mean_of(const float values[AUGMENT_CHANNELS_MAX]) { return (values[0] + values[1] + values[2]) / 3; }

enum ps_status augment_normalisation(const char *name, int64_t channels, struct normalisation *out, struct ps_error *error) {
    const char *names[NORMALISATIONS];
    for (int i = 0; i < NORMALISATIONS; i++) {
        names[i] = normalisations[i].name;
        if (strcmp(name, names[i]) != 0) continue;
        *out = normalisations[i].values;
        if (channels == 1) {
            out->mean[0] = mean_of(normalisations[i].values.mean);
            out->deviation[0] = mean_of(normalisations[i].values.deviation);
        }
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "images: normalise", name, names, NORMALISATIONS);
}

/* ---------------------------------------------------------- bytes in memory */

struct byte_dataset *byte_dataset_create(struct ps_error *error) {
    struct byte_dataset *bytes;
    return memory_new(&bytes, 1, "a dataset", error) == PS_OK ? bytes : NULL;
}

void byte_dataset_close(struct dataset *dataset) {
    struct byte_dataset *bytes = (struct byte_dataset *)dataset;
    if (!bytes) return;
    free(dataset->class_names);
    free(bytes->buffers[0]);
    free(bytes->buffers[1]);
    free(bytes);
}

void byte_dataset_normalise(struct byte_dataset *bytes, int channel, float mean, float deviation) {
    assert(channel >= 0 && channel < BYTES_CHANNELS_MAX);
    for (int value = 0; value < 256; value++) bytes->level[channel][value] = ((float)value / 255.0f - mean) / deviation;
}

enum ps_status byte_dataset_check_labels(const struct byte_dataset *bytes, int64_t first, const char *file,
                                         struct ps_error *error) {
    const int classes = bytes->dataset.shape.classes;
    for (int64_t i = first; i < bytes->dataset.samples; i++) {
        const int label = bytes->labels[(size_t)i * bytes->label_stride];
        if (label >= classes) {
            return error_set(error, PS_BAD_INPUT, "%s: sample %lld has label %d, but the classes are 0 to %d", file,
                             (long long)(i - first), label, classes - 1);
        }
    }
    return PS_OK;
}

enum ps_status byte_dataset_check_directory(const char *path, const char *format, struct ps_error *error) {
    char inside[4096];
    if (!file_exists(path)) return error_set(error, PS_BAD_INPUT, "%s: no such directory", path);
    if (file_exists(file_join(inside, path, "."))) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: not a directory; %s:DIR takes the directory that holds the files", path, format);
}

enum ps_status byte_dataset_read(const struct dataset *dataset, int64_t index, void *input, void *target,
                                 struct ps_error *error) {
    float *image = input;
    const struct byte_dataset *bytes = (const struct byte_dataset *)dataset;
    const struct dataset_shape *shape = &dataset->shape;
    const size_t channels = (size_t)shape->channels, area = (size_t)(shape->height * shape->width);
    const uint8_t *pixels = bytes->pixels + (size_t)index * bytes->pixel_stride;
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < area; i++) image[i * channels + c] = bytes->level[c][pixels[c * area + i]];
    }
    return byte_dataset_target(dataset, index, target, error);
}

/* Padding counts as bytes of 0. */
enum ps_status byte_dataset_read_augmented(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                           void *target, struct ps_error *error) {
    float *image = input;
    const struct byte_dataset *bytes = (const struct byte_dataset *)dataset;
    const int64_t channels = dataset->shape.channels, height = dataset->shape.height, width = dataset->shape.width;
    const uint8_t *pixels = bytes->pixels + (size_t)index * bytes->pixel_stride;
    const int64_t top = augment_offset(&key, DRAW_TOP, height, height, bytes->augmentation.pad);
    const int64_t left = augment_offset(&key, DRAW_LEFT, width, width, bytes->augmentation.pad);
    const bool flip = augment_flips(&bytes->augmentation, &key);
    for (int64_t y = 0; y < height; y++) {
        for (int64_t x = 0; x < width; x++) {
            const int64_t row = y + top, column = (flip ? width - 1 - x : x) + left;
            const bool inside = row >= 0 && row < height && column >= 0 && column < width;
            for (int64_t c = 0; c < channels; c++)
                *image++ = bytes->level[c][inside ? pixels[(c * height + row) * width + column] : 0];
        }
    }
    return byte_dataset_target(dataset, index, target, error);
}

enum ps_status byte_dataset_target(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    int32_t *label = target;
    (void)error;
    const struct byte_dataset *bytes = (const struct byte_dataset *)dataset;
    assert(index >= 0 && index < dataset->samples);
    *label = bytes->labels[(size_t)index * bytes->label_stride];
    return PS_OK;
}
