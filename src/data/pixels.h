/* What datasets of images have in common: augmentation, normalisation, and images as bytes in memory. */
#ifndef PENSTOCK_DATA_PIXELS_H
#define PENSTOCK_DATA_PIXELS_H

#include "base/error.h"
#include "base/options.h"
#include "base/random.h"
#include "data/dataset.h"

/* ------------------------------------------------------------- augmentation */

/*
 * What is done to an image on its way from a file to the network: which part of it is taken, whether it is mirrored, how its
 * channels are normalised. Chance plays in training only, and is keyed by (seed, epoch, sample): whoever reads a sample, on
 * whatever thread, gets the same pixels.
 */

enum { AUGMENT_CHANNELS_MAX = 3 };

enum augment_crop {
    CROP_CENTRE,
    CROP_RANDOM, /* any square of the network's size */
    CROP_SCALE,  /* 8 to 100 % of the area, sides 3:4 to 4:3, scaled to the network's size (Szegedy et al., 2015) */
};

struct augmentation {
    int pad; /* black pixels around the image, as He et al. (2016) do on CIFAR: from them a random square is taken */
    bool flip;
    enum augment_crop crop;
};

/* "DIR,key=value,...": the directory ends at the first comma behind the last '/'. */
enum ps_status augment_cut_options(const char *rest, const char *format, char directory[4096], struct options *options,
                                   struct ps_error *error);
/* Reads the keys `pad` and `flip`. */
enum ps_status augment_parse(struct options *options, struct augmentation *augmentation, struct ps_error *error);

/* A number of the sample's own: its place in the stream says what for. */
enum augment_draw { DRAW_TOP, DRAW_LEFT, DRAW_FLIP, DRAW_AREA /* and all after it */ };

/* Where a square of `side` begins along a side of `size` that `pad` widens at both ends; may be negative. Drawn with a key, in
 * the middle without (NULL). */
int64_t augment_offset(const struct random_key *key, enum augment_draw draw, int64_t size, int64_t side, int pad);
bool augment_flips(const struct augmentation *augmentation, const struct random_key *key);

/* (v / 255 - mean) / deviation of a byte, by channel. */
struct normalisation {
    float mean[AUGMENT_CHANNELS_MAX], deviation[AUGMENT_CHANNELS_MAX];
};
/* "imagenet" (0.485 0.456 0.406, 0.229 0.224 0.225), "cifar" (0.491 0.482 0.447, 0.202 0.199 0.201), as PipeOptim has them, or
 * "none". A grey image takes the mean over the channels. */
enum ps_status augment_normalisation(const char *name, int64_t channels, struct normalisation *out, struct ps_error *error);

/* ---------------------------------------------------------- bytes in memory */

/*
 * Datasets that are bytes in memory: the files of IDX and CIFAR are read once, stay as they are, and a sample is found by
 * strides. Normalising a pixel is one look-up in a table of 256 floats per channel.
 */

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
