/*
 * Datasets: samples by number. A format is one file in data/ and one line in table.c. A dataset spec is
 * "FORMAT:REST[#train|#test][@A-B]": the range takes samples A to B-1, counted from 0. '#' and '@' before the last '/' are
 * part of REST, so that a directory "a@b" can be given as "a@b/".
 */
#ifndef PENSTOCK_DATA_DATASET_H
#define PENSTOCK_DATA_DATASET_H

#include "base/error.h"
#include "base/number_type.h"
#include "base/random.h"

struct vocabulary;

enum dataset_part { DATASET_TRAIN, DATASET_TEST };

/* What samples are, and what a network makes of them. */
enum dataset_task {
    DATASET_ANY, /* whatever the network takes */
    DATASET_IMAGES,
    DATASET_LABELLED_TEXTS,
    DATASET_RUNNING_TEXT,
    DATASET_TRANSLATIONS,
};

/* A sample is an image (f32), or a sequence of tokens: then an "image" of one channel, as high as the sequence is long and 1
 * wide, whose elements are tokens' numbers (i32). */
struct dataset_shape {
    int64_t channels, height, width; /* of a sample */
    int classes;                     /* labels are 0 to classes - 1; -1: not counted */
    int labels;                      /* of a sample: for sequences there may be one a position; 0 counts as 1 */
    int vocabulary;                  /* tokens are 0 to vocabulary - 1; 0: images */
    bool gives_tokens;               /* labels are tokens, one for each position that the loss reads */
    bool masked;                     /* these are tokens that were hidden (data/vocabulary.h), not the next ones */
    /* By which a text's words are numbered (of a translation also the target's). Of a dataset: its own, while it is open. Of
     * what is wanted: those to take; NULL: it makes its own. */
    const struct vocabulary *words[2];
    bool words_needed; /* of what is wanted: no text may make its own, which could be others than those that were learnt */
};

struct ps_network;
/* The data that a network takes. */
struct dataset_shape dataset_shape_of(const struct ps_network *model);

static inline enum number_type dataset_input_type(const struct dataset_shape *shape) {
    return shape->vocabulary > 0 ? TYPE_I32 : TYPE_F32;
}
/* Bytes of what a sample puts into the network. */
static inline size_t dataset_input_bytes(const struct dataset_shape *shape) {
    return (size_t)(shape->channels * shape->height * shape->width) * number_types[dataset_input_type(shape)].bytes;
}
static inline int dataset_labels(const struct dataset_shape *shape) { return shape->labels > 0 ? shape->labels : 1; }

struct dataset {
    const struct dataset_class *class; /* set by samples_open, where a format's `open` did not choose another */
    int64_t samples;                   /* in the whole part, before a range is taken; fewer than 2^32 */
    struct dataset_shape shape;
};

/* Of a sample that is a source and a target: tokens of each, as the network reads them. */
struct sequence_length {
    int source, target;
};

struct dataset_class {
    const char *name, *summary;
    const char *example; /* of what follows "NAME:", for messages */
    enum dataset_task task;
    /* `rest` is what follows "FORMAT:", never empty; `wanted` is what the network takes, whose task is that of the format (a
     * synthetic set makes itself to measure, and a format whose files do not say how many classes there are takes the network's
     * number). What a spec holds depends on the spec alone: a run's seed orders samples and never makes them, or an evaluation
     * with another seed would be one on other data. A missing or damaged file is PS_BAD_INPUT and is named. */
    enum ps_status (*open)(const char *rest, enum dataset_part part, const struct dataset_shape *wanted,
                           struct dataset **dataset, struct ps_error *error);
    void (*close)(struct dataset *dataset);
    /* Writes sample `index`, H, W, C in elements of its type, and its label, or labels. Called from several threads at once. */
    enum ps_status (*read)(const struct dataset *dataset, int64_t index, void *input, int32_t *label, struct ps_error *error);
    /* The same for training, where chance plays in what is read (crops, flips): `key` is of (seed, epoch, sample). NULL: none
     * does. */
    enum ps_status (*read_augmented)(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                     int32_t *label, struct ps_error *error);
    bool several_readers; /* reading is work: loaders use several threads */
    /* Only the label (or labels), where it is to be had without the input; NULL: read both. */
    enum ps_status (*label)(const struct dataset *dataset, int64_t index, int32_t *label, struct ps_error *error);
    /* What comes before the padding, uncut; quickly. NULL: samples are no source and target. */
    struct sequence_length (*length)(const struct dataset *dataset, int64_t index);
};

extern const struct dataset_class *const dataset_table[]; /* NULL-terminated */

/* An opened spec: a dataset and the range taken of it. */
struct samples {
    struct dataset *dataset;
    int64_t first, count;
    bool lent; /* by who has it open, and closes it */
};

/* Opens `spec`; `part` is used where the spec does not say it. Fails (PS_USAGE) where the spec is wrong or the data's channels,
 * size, classes, labels or vocabulary are not those `wanted`, naming both; PS_BAD_INPUT for a missing or damaged file and for a
 * label outside the classes. */
enum ps_status samples_open(const char *spec, enum dataset_part part, const struct dataset_shape *wanted,
                            struct samples *samples, struct ps_error *error);
void samples_close(struct samples *samples);
/* Are open data what `wanted` is? PS_USAGE names both, calling the data `name`. */
enum ps_status samples_check(const char *name, const struct samples *samples, const struct dataset_shape *wanted,
                             struct ps_error *error);

#endif
