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
struct normalisation;

enum dataset_part { DATASET_TRAIN, DATASET_TEST };

/* What samples are, and what a network does with them. */
enum dataset_task {
    DATASET_ANY, /* fits any network */
    DATASET_IMAGES,
    DATASET_LABELLED_TEXTS,
    DATASET_RUNNING_TEXT,
    DATASET_TRANSLATIONS,
};

/* A sample is an image (f32) or a sequence of tokens. A sequence has one channel, its length as the height, width 1, and
 * elements that are token numbers (i32). A sample of a network, and of the caller's data, may have several inputs, one after
 * the other. */
struct dataset_shape {
    /* In a required shape: the network's. In a dataset that lists its inputs: those. Borrowed. NULL: one input, which channels,
     * height, width and vocabulary describe. */
    const struct ps_input *inputs;
    int input_count;
    const struct ps_input *target;   /* likewise; NULL: classes and labels describe it, and it has no name */
    int64_t channels, height, width; /* of a sample */
    int classes;                     /* labels are 0 to classes - 1; -1: not counted; 0: the target is numbers (f32) */
    int labels;                      /* elements of the target of a sample: one label, or one per position or pixel; 0 counts as
                                        1 */
    int vocabulary;                  /* tokens are 0 to vocabulary - 1; 0: images */
    bool gives_tokens;               /* labels are tokens, one per position that the loss reads */
    bool masked;                     /* labels are masked tokens (data/vocabulary.h), not next tokens */
    /* The vocabulary that numbers a text's tokens, and that of a translation's target. In a dataset: those in use, while it is
     * open. In a required shape: those to use; NULL: the dataset makes its own. */
    const struct vocabulary *words[2];
    bool unlabelled;   /* in a required shape: the data need no target; in a dataset: they have none, all labels are -1 */
    bool words_needed; /* in a required shape: a text may not make its own, which could differ from those that the network was
                          trained with */
};

struct ps_network;
/* The shape of the samples that a network takes. */
struct dataset_shape dataset_shape_of(const struct ps_network *model);

static inline enum number_type dataset_input_type(const struct dataset_shape *shape) {
    return shape->vocabulary > 0 ? TYPE_I32 : TYPE_F32;
}
/* Elements of an input; all have 4 bytes, float or int32_t. */
static inline int64_t input_elements(const struct ps_input *input) {
    int64_t elements = 1;
    for (int d = 0; d < input->rank; d++) elements *= input->shape[d];
    return elements;
}
/* Bytes of a sample's inputs. */
static inline size_t dataset_input_bytes(const struct dataset_shape *shape) {
    int64_t elements = shape->inputs ? 0 : shape->channels * shape->height * shape->width;
    for (int i = 0; i < shape->input_count; i++) elements += input_elements(&shape->inputs[i]);
    return (size_t)elements * number_types[dataset_input_type(shape)].bytes;
}
static inline int dataset_labels(const struct dataset_shape *shape) { return shape->labels > 0 ? shape->labels : 1; }
/* Bytes of a sample's target: its labels are int32_t, its numbers float. */
static inline size_t dataset_target_bytes(const struct dataset_shape *shape) {
    return (size_t)dataset_labels(shape) * sizeof(int32_t);
}

struct dataset {
    const struct dataset_class *class; /* set by samples_open unless the format's `open` set it */
    int64_t samples;                   /* in the training or test set, before a range is taken; fewer than 2^32 */
    struct dataset_shape shape;
    char *class_names; /* shape.classes of them, each with its '\0'; NULL: the files have none */
};

/* The length of a sample of source and target: tokens of each, as the network reads them. */
struct sequence_length {
    int source, target;
};

struct dataset_class {
    const char *name, *summary;
    const char *example; /* an example of what follows "NAME:", for messages */
    enum dataset_task task;
    bool lists; /* a sample may hold several inputs: `open` gets the network's inputs and target, and the dataset lists them */
    /* `rest` is what follows "FORMAT:", never empty. `required` is what the network takes; its task is that of the format.
     * Synthetic data take its shape, and a format whose files do not give the number of classes takes its number. The samples
     * depend on the spec alone: a run's seed orders samples but never creates them, since an evaluation with another seed would
     * otherwise use other data. PS_BAD_INPUT names a missing or damaged file. */
    enum ps_status (*open)(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                           struct dataset **dataset, struct ps_error *error);
    void (*close)(struct dataset *dataset);
    /* Writes the input of sample `index` in the order H, W, C, and its target: its label or labels (int32_t), or numbers
     * (float). Called from several threads at once. */
    enum ps_status (*read)(const struct dataset *dataset, int64_t index, void *input, void *target, struct ps_error *error);
    /* The same for training with random crops, flips or masks: `key` is keyed by (seed, epoch, sample). NULL: nothing is
     * random. */
    enum ps_status (*read_augmented)(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                     void *target, struct ps_error *error);
    bool several_readers; /* reading is slow: loaders use several threads */
    bool generated;       /* by the spec alone: there is nothing that could change */
    /* What changes with the file of a sample, found without reading it. NULL: the sample itself. */
    uint64_t (*trace)(const struct dataset *dataset, int64_t index);
    /* Writes only the target. NULL: it cannot be read without the input. */
    enum ps_status (*target)(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error);
    /* How bytes of images become numbers, whatever the files hold: `rest` as in `open`. NULL: they are taken as they are. */
    enum ps_status (*normalisation)(const char *rest, int64_t channels, struct normalisation *out, struct ps_error *error);
    /* The length of a sample without padding, before it is cut; takes constant time. NULL: samples are not source and target.
     */
    struct sequence_length (*length)(const struct dataset *dataset, int64_t index);
};

extern const struct dataset_class *const dataset_table[]; /* NULL-terminated */

/* An opened spec: a dataset and a range of its samples. */
struct samples {
    struct dataset *dataset;
    int64_t first, count;
    bool lent; /* by who has it open, and closes it */
};

/* Is it a spec? Reads no file. */
enum ps_status samples_check_spec(const char *spec, struct ps_error *error);

/* How images of the spec's format are normalised (data/pixels.h). *known false: not at all. Reads no file. */
enum ps_status samples_normalisation(const char *spec, int64_t channels, bool *known, struct normalisation *out,
                                     struct ps_error *error);
/* Opens `spec`; `part` is the default if the spec has no #train or #test. PS_USAGE if the spec is wrong, or if the data's
 * channels, size, classes, labels or vocabulary differ from those `required`; the message names both. PS_BAD_INPUT for a
 * missing or damaged file and for a label outside the classes. */
enum ps_status samples_open(const char *spec, enum dataset_part part, const struct dataset_shape *required,
                            struct samples *samples, struct ps_error *error);
void samples_close(struct samples *samples);
/* Does the loss read any of the targets: numbers, or labels that are not -1, of classes whose weight is above 0 (NULL: all)?
 * Reads samples until one has some. */
enum ps_status samples_count(const struct samples *samples, const float *class_weights, bool *any, struct ps_error *error);
/* A number that changes with the data, by which a run that goes on notices other data; 0 for generated data and the caller's.
 * It is made of all samples up to 1 GiB, else of 64 MiB of them that lie evenly; where samples have traces, of these, up to
 * 262,144. */
enum ps_status samples_checksum(const struct samples *samples, uint64_t *checksum, struct ps_error *error);
/* Does the spec name a format of text, whose words a vocabulary numbers? */
bool samples_have_words(const char *spec);
/* Are open data what `wanted` is? PS_USAGE names both, calling the data `name`. */
enum ps_status samples_check(const char *name, const struct samples *samples, const struct dataset_shape *wanted,
                             struct ps_error *error);

#endif
