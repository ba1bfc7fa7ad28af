/*
 * What is done to an image on its way from a file to the network: which part of it is taken, whether it is mirrored, how its
 * channels are normalised. Chance plays in training only, and is keyed by (seed, epoch, sample): whoever reads a sample, on
 * whatever thread, gets the same pixels.
 */
#ifndef PENSTOCK_DATA_AUGMENT_H
#define PENSTOCK_DATA_AUGMENT_H

#include "base/error.h"
#include "base/options.h"
#include "base/random.h"

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

#endif
