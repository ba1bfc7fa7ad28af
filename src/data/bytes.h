/*
 * Datasets that are bytes in memory: the files of IDX and CIFAR are read once, stay as they are, and a sample is found by
 * strides. Normalising a pixel is one look-up in a table of 256 floats per channel.
 */
#ifndef PENSTOCK_DATA_BYTES_H
#define PENSTOCK_DATA_BYTES_H

#include "data/augment.h"
#include "data/dataset.h"

#define BYTES_CHANNELS_MAX 3
/* What a file may hold once unpacked: more is taken for damage. */
#define BYTES_FILE_LIMIT ((size_t)8 << 30)

struct byte_dataset {
    struct dataset dataset; /* first: a struct dataset * of these formats points here */
    char *buffers[2];       /* owned; all that is below points into them */
    const uint8_t *pixels;  /* channel planes, H x W each, rows without gaps */
    const uint8_t *labels;
    size_t pixel_stride, label_stride; /* bytes from one sample to the next */
    float level[BYTES_CHANNELS_MAX][256];
    struct augmentation augmentation;
};

/* An empty one; byte_dataset_close frees it. NULL with the error set when memory is short. */
struct byte_dataset *byte_dataset_create(struct ps_error *error);
/* A channel's byte v becomes (v / 255 - mean) / deviation. */
void byte_dataset_normalise(struct byte_dataset *bytes, int channel, float mean, float deviation);
/* Sample `first` and those after it, up to the last, have labels below the number of classes; `file` is where they stand. */
enum ps_status byte_dataset_check_labels(const struct byte_dataset *bytes, int64_t first, const char *file,
                                         struct ps_error *error);
/* Fails unless `path` is a directory; `format` goes into the message. */
enum ps_status byte_dataset_check_directory(const char *path, const char *format, struct ps_error *error);

/* For the class: */
void byte_dataset_close(struct dataset *dataset);
enum ps_status byte_dataset_read(const struct dataset *dataset, int64_t index, void *input, int32_t *label,
                                 struct ps_error *error);
enum ps_status byte_dataset_read_augmented(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                           int32_t *label, struct ps_error *error);
enum ps_status byte_dataset_label(const struct dataset *dataset, int64_t index, int32_t *label, struct ps_error *error);

#endif
