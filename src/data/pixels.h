/* What datasets of images have in common: augmentation, normalisation, and images as bytes in memory. */
#ifndef PENSTOCK_DATA_PIXELS_H
#define PENSTOCK_DATA_PIXELS_H

#include "base/error.h"
#include "base/random.h"
#include "base/spec.h"
#include "data/dataset.h"

/* ------------------------------------------------------------- augmentation */

/*
 * How an image from a file is prepared for the network: which crop is taken, whether it is mirrored, how its channels are
 * normalised. Only training draws random numbers. They are keyed by (seed, epoch, sample), so a sample has the same pixels
 * whichever thread reads it.
 */

enum { AUGMENT_CHANNELS_MAX = 3 };

enum augment_crop {
    CROP_CENTRE,
    CROP_RANDOM, /* any square of the network's size */
    CROP_SCALE,  /* 8 to 100 % of the area, sides 3:4 to 4:3, scaled to the network's size (Szegedy et al., 2015) */
};

struct augmentation {
    int pad; /* black pixels added around the image before the random crop, as in He et al. (2016) on CIFAR */
    bool flip;
    enum augment_crop crop;
};

/* "DIR,key=value,...": the directory ends at the first comma after the last '/'. */
enum ps_status augment_cut_options(const char *rest, const char *format, char directory[4096], struct spec *options,
                                   struct ps_error *error);
/* Reads the keys `pad` and `flip`. */
enum ps_status augment_parse(struct spec *options, struct augmentation *augmentation, struct ps_error *error);

/* Random numbers of a sample: the index in its stream says what each is for. */
enum augment_draw { DRAW_TOP, DRAW_LEFT, DRAW_FLIP, DRAW_AREA /* and all after it */ };

/* Offset of a crop of length `side` along a side of length `size`, padded with `pad` at both ends; may be negative. Random with
 * a key; centred without one (NULL). */
int64_t augment_offset(const struct random_key *key, enum augment_draw draw, int64_t size, int64_t side, int pad);
bool augment_flips(const struct augmentation *augmentation, const struct random_key *key);

/* (v / 255 - mean) / deviation of a byte, by channel. */
struct normalisation {
    float mean[AUGMENT_CHANNELS_MAX], deviation[AUGMENT_CHANNELS_MAX];
};
/* "imagenet" (0.485 0.456 0.406, 0.229 0.224 0.225), "cifar" (0.491 0.482 0.447, 0.202 0.199 0.201), as in PipeOptim, or
 * "none". A grey image uses the mean over the channels. */
enum ps_status augment_normalisation(const char *name, int64_t channels, struct normalisation *out, struct ps_error *error);

/* ---------------------------------------------------------- bytes in memory */

/*
 * Datasets that are bytes in memory: the files of IDX and CIFAR are read once and kept unchanged; a sample is addressed by
 * strides. A pixel is normalised by one look-up in a table of 256 floats per channel.
 */

#define BYTES_CHANNELS_MAX 3
/* Limit of a file's unpacked size; a larger file counts as damaged. */
#define BYTES_FILE_LIMIT ((size_t)8 << 30)

struct byte_dataset {
    struct dataset dataset; /* first: a struct dataset * of these formats points here */
    char *buffers[2];       /* owned; the pointers below point into them */
    const uint8_t *pixels;  /* channel planes, H x W each, rows without gaps */
    const uint8_t *labels;
    size_t pixel_stride, label_stride; /* bytes from one sample to the next */
    float level[BYTES_CHANNELS_MAX][256];
    struct augmentation augmentation;
};

/* An empty dataset; byte_dataset_close frees it. NULL with the error set if memory ran out. */
struct byte_dataset *byte_dataset_create(struct ps_error *error);
/* A channel's byte v becomes (v / 255 - mean) / deviation. */
void byte_dataset_normalise(struct byte_dataset *bytes, int channel, float mean, float deviation);
/* Checks that the labels of all samples from `first` on are below the number of classes; `file` names their file in messages.
 */
enum ps_status byte_dataset_check_labels(const struct byte_dataset *bytes, int64_t first, const char *file,
                                         struct ps_error *error);
/* Fails unless `path` is a directory; `format` names the format in the message. */
enum ps_status byte_dataset_check_directory(const char *path, const char *format, struct ps_error *error);

/* The functions of the class: */
void byte_dataset_close(struct dataset *dataset);
enum ps_status byte_dataset_read(const struct dataset *dataset, int64_t index, void *input, void *target,
                                 struct ps_error *error);
enum ps_status byte_dataset_read_augmented(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                           void *target, struct ps_error *error);
enum ps_status byte_dataset_target(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error);

#endif
