/* Datasets that are bytes in memory; see the header. */
#include "data/bytes.h"

#include <assert.h>
#include <stdlib.h>

#include "base/file.h"

struct byte_dataset *byte_dataset_create(struct ps_error *error) {
    struct byte_dataset *bytes = calloc(1, sizeof *bytes);
    if (!bytes) error_memory(error, "a dataset", sizeof *bytes);
    return bytes;
}

void byte_dataset_close(struct dataset *dataset) {
    struct byte_dataset *bytes = (struct byte_dataset *)dataset;
    if (!bytes) return;
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

enum ps_status byte_dataset_read(const struct dataset *dataset, int64_t index, void *input, int32_t *label,
                                 struct ps_error *error) {
    float *image = input;
    const struct byte_dataset *bytes = (const struct byte_dataset *)dataset;
    const struct dataset_shape *shape = &dataset->shape;
    const size_t channels = (size_t)shape->channels, area = (size_t)(shape->height * shape->width);
    const uint8_t *pixels = bytes->pixels + (size_t)index * bytes->pixel_stride;
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < area; i++) image[i * channels + c] = bytes->level[c][pixels[c * area + i]];
    }
    return byte_dataset_label(dataset, index, label, error);
}

/* Black pixels around the image count as bytes of 0. */
enum ps_status byte_dataset_read_augmented(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                           int32_t *label, struct ps_error *error) {
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
    return byte_dataset_label(dataset, index, label, error);
}

enum ps_status byte_dataset_label(const struct dataset *dataset, int64_t index, int32_t *label, struct ps_error *error) {
    (void)error;
    const struct byte_dataset *bytes = (const struct byte_dataset *)dataset;
    assert(index >= 0 && index < dataset->samples);
    *label = bytes->labels[(size_t)index * bytes->label_stride];
    return PS_OK;
}
