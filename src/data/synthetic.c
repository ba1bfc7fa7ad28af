/*
 * Synthetic data, for experiments and tests. Sequences are described below; images are
 * "images[,samples=N,classes=K,size=S,channels=C,noise=X,seed=S]"
 *
 * A class is a smooth picture: GRID x GRID random values per channel, interpolated in between and periodic at the edges. A
 * sample is its class's picture, shifted by a random number of pixels (up to a sixth of the size in each direction) and scaled
 * in contrast, plus noise. So a classifier must recognise shapes at any position: with the defaults LeNet-5 (Adam, 1e-3, batch
 * 64) has an accuracy of 99% on the test set after one epoch of 8192 samples and of 95% after one of 4096; the nearest class
 * mean has 89%.
 *
 * Only the grids are stored: a sample is computed from (seed, part, index) by the counter-based generator, with integers and
 * single roundings, so it is the same on every machine. The seed is part of the spec (default 0).
 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/spec.h"
#include "base/vector.h"
#include "data/dataset.h"
#include "data/vocabulary.h"

#define GRID 6
#define TRAIN_IMAGES 8192
#define TEST_IMAGES 2048
#define SHIFT 6 /* the largest shift is 1/6 of the size */
#define NOISE 0.8
#define SAMPLES_MAX 1000000000
#define CLASSES_MAX 10000
#define SIDE_MAX 4096
#define CHANNELS_MAX 256

/* Uses of random keys. */
enum { GRIDS, SAMPLES, RULE = 16, SEQUENCES };

struct synthetic {
    struct dataset dataset; /* first */
    uint64_t seed;
    enum dataset_part part;
    float noise;
    float grid[]; /* classes x GRID x GRID x channels */
};

/* Approximately normal, mean 0 and deviation 1: the sum of a word's four bytes. Exact up to one rounding, and cheap. */
static float bell(uint32_t word) {
    const uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
    return ((float)sum - 510.0f) * (1.0f / 147.8f);
}

static size_t grid_floats(const struct dataset_shape *shape) { return (size_t)(GRID * GRID * shape->channels); }

static void make_grids(struct synthetic *synthetic) {
    const size_t floats = grid_floats(&synthetic->dataset.shape);
    for (int k = 0; k < synthetic->dataset.shape.classes; k++) {
        const struct random_key key = random_key(synthetic->seed, RANDOM_SYNTHETIC, GRIDS, (uint64_t)k);
        for (size_t i = 0; i < floats; i++) {
            uint32_t words[4];
            random_block(key, i / 4, words);
            synthetic->grid[(size_t)k * floats + i] = bell(words[i % 4]);
        }
    }
}

/* The random values of a sample, from the first block of its stream. The noise comes from the later blocks. */
struct sample {
    struct random_key key;
    int32_t label;
    int64_t down, right; /* shift of the picture in pixels */
    float strength;
};

static int64_t scale_word(uint32_t word, int64_t bound) { return (int64_t)((uint64_t)word * (uint64_t)bound >> 32); }

static struct sample make_sample(const struct synthetic *synthetic, int64_t index) {
    const struct dataset_shape *shape = &synthetic->dataset.shape;
    struct sample sample;
    sample.key = random_key(synthetic->seed, RANDOM_SYNTHETIC, SAMPLES + (uint64_t)synthetic->part, (uint64_t)index);
    uint32_t words[4];
    random_block(sample.key, 0, words);
    sample.label = (int32_t)scale_word(words[0], shape->classes);
    const int64_t down = shape->height / SHIFT, right = shape->width / SHIFT;
    sample.down = scale_word(words[1], 2 * down + 1) - down;
    sample.right = scale_word(words[2], 2 * right + 1) - right;
    sample.strength = 0.75f + (float)(words[3] >> 8) * 0x1p-25f;
    return sample;
}

/* A position between two lines of the grid, which is periodic. */
struct between {
    size_t before, after;
    int64_t past; /* distance from `before`, in units of 1/size of a cell */
    float weight; /* of `after` */
};

static struct between position_on_grid(int64_t pixel, int64_t size) {
    const int64_t around = (pixel + size) % size * GRID;
    const size_t before = (size_t)(around / size);
    const int64_t past = around % size;
    return (struct between){.before = before, .after = (before + 1) % GRID, .past = past, .weight = (float)past / (float)size};
}

/* The position of the next pixel, without an integer division: there are many pixels. */
static struct between next_on_grid(struct between position, int64_t size) {
    position.past += GRID;
    while (position.past >= size) {
        position.past -= size;
        position.before = position.after;
        position.after = position.after + 1 == GRID ? 0 : position.after + 1;
    }
    position.weight = (float)position.past / (float)size;
    return position;
}

/* Floats of a line of the picture that are computed together: a whole line of usual images, and few enough for the L1 cache. */
enum { STRIP = 1024 };

/* A line of the grid, interpolated along the pixels from `first` on. */
static void draw_line(const float *line, size_t channels, int64_t size, struct between column, int64_t pixels, float *out) {
    for (int64_t w = 0; w < pixels; w++, column = next_on_grid(column, size)) {
        const float *left = line + column.before * channels, *right = line + column.after * channels;
        for (size_t c = 0; c < channels; c++) *out++ = left[c] + (right[c] - left[c]) * column.weight;
    }
}

static VECTOR_CLONES void draw_between(size_t count, const float *upper, const float *lower, float weight, float strength,
                                       float *restrict out) {
    for (size_t i = 0; i < count; i++) out[i] = (upper[i] + (lower[i] - upper[i]) * weight) * strength;
}

/* Draws some columns of the class's picture with the sample's shift and strength. Picture lines between the same two grid lines
 * share them. */
static void draw_strip(const struct dataset_shape *shape, const struct sample *sample, const float *grid, int64_t first,
                       int64_t pixels, float *image) {
    const size_t channels = (size_t)shape->channels, line = GRID * channels, count = (size_t)pixels * channels;
    const struct between column = position_on_grid(first - sample->right, shape->width);
    float lines[2][STRIP], *upper = lines[0], *lower = lines[1];
    size_t drawn = GRID; /* the grid line in `lower`; GRID: none */
    for (int64_t h = 0; h < shape->height; h++) {
        const struct between row = position_on_grid(h - sample->down, shape->height);
        if (row.after != drawn) {
            float *other = upper;
            upper = lower, lower = other;
            if (row.before != drawn) draw_line(grid + row.before * line, channels, shape->width, column, pixels, upper);
            draw_line(grid + row.after * line, channels, shape->width, column, pixels, lower);
            drawn = row.after;
        }
        float *out = image + ((size_t)h * (size_t)shape->width + (size_t)first) * channels;
        draw_between(count, upper, lower, row.weight, sample->strength, out);
    }
}

static void draw(const struct dataset_shape *shape, const struct sample *sample, const float *grid, float *image) {
    const int64_t strip = STRIP / shape->channels;
    for (int64_t first = 0; first < shape->width; first += strip) {
        const int64_t left = shape->width - first;
        draw_strip(shape, sample, grid, first, left < strip ? left : strip, image);
    }
}

/* Element 4 i + j of the image takes word j of block 1 + i; lanes start at block 0. */
static VECTOR_CLONES void add_noise(struct random_key key, float noise, size_t elements, float *image) {
    uint32_t words[4][RANDOM_LANES], word[4 * RANDOM_LANES];
    for (size_t done = 0, block = 0; done < elements; block += RANDOM_LANES) {
        random_blocks(key, block, words);
        for (size_t i = 0; i < RANDOM_LANES; i++)
            for (size_t j = 0; j < 4; j++) word[4 * i + j] = words[j][i];
        const size_t skipped = block == 0 ? 4 : 0, left = elements - done;
        const size_t count = left < 4 * RANDOM_LANES - skipped ? left : 4 * RANDOM_LANES - skipped;
        for (size_t i = 0; i < count; i++) image[done + i] += bell(word[skipped + i]) * noise;
        done += count;
    }
}

static enum ps_status read_image(const struct dataset *dataset, int64_t index, void *input, void *target,
                                 struct ps_error *error) {
    int32_t *label = target;
    (void)error;
    float *image = input;
    const struct synthetic *synthetic = (const struct synthetic *)dataset;
    const struct dataset_shape *shape = &dataset->shape;
    const struct sample sample = make_sample(synthetic, index);
    draw(shape, &sample, synthetic->grid + (size_t)sample.label * grid_floats(shape), image);
    add_noise(sample.key, synthetic->noise, (size_t)(shape->height * shape->width * shape->channels), image);
    *label = sample.label;
    return PS_OK;
}

static enum ps_status read_label(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    int32_t *label = target;
    (void)error;
    *label = make_sample((const struct synthetic *)dataset, index).label;
    return PS_OK;
}

/* The network's shape, changed by the options of the spec. */
struct settings {
    int samples, classes, size, channels, seed;
    double noise;
};

static enum ps_status read_settings(struct spec *options, struct settings *settings, struct ps_error *error) {
    TRY(spec_int(options, "samples", 1, SAMPLES_MAX, &settings->samples, error));
    TRY(spec_int(options, "classes", 2, CLASSES_MAX, &settings->classes, error));
    TRY(spec_int(options, "size", 1, SIDE_MAX, &settings->size, error));
    TRY(spec_int(options, "channels", 1, CHANNELS_MAX, &settings->channels, error));
    TRY(spec_int(options, "seed", 0, INT32_MAX, &settings->seed, error));
    return spec_number(options, "noise", 0, 100, &settings->noise, error);
}

static enum ps_status parse(struct spec *options, struct settings *settings, struct ps_error *error) {
    static const char *const keys[] = {"samples", "classes", "size", "channels", "noise", "seed"};
    const enum ps_status status = read_settings(options, settings, error);
    if (status != PS_OK) {
        error_prefix(error, "synthetic");
        return status;
    }
    return spec_finish(options, "synthetic", keys, sizeof keys / sizeof *keys, error);
}

static enum ps_status open_images(struct spec *options, enum dataset_part part, const struct dataset_shape *required,
                                  struct dataset **dataset, struct ps_error *error) {
    struct settings settings = {
        .samples = part == DATASET_TRAIN ? TRAIN_IMAGES : TEST_IMAGES,
        .classes = required->classes,
        .channels = (int)required->channels,
        .noise = NOISE,
    };
    TRY(parse(options, &settings, error));
    const struct dataset_shape shape = {
        .channels = settings.channels,
        .height = settings.size ? settings.size : required->height,
        .width = settings.size ? settings.size : required->width,
        .classes = settings.classes,
    };
    const size_t size = sizeof(struct synthetic) + (size_t)shape.classes * grid_floats(&shape) * sizeof(float);
    struct synthetic *synthetic = malloc(size);
    if (!synthetic) return error_memory(error, "synthetic data", size);
    synthetic->dataset = (struct dataset){.samples = settings.samples, .shape = shape};
    synthetic->seed = (uint64_t)settings.seed;
    synthetic->part = part;
    synthetic->noise = (float)settings.noise;
    make_grids(synthetic);
    *dataset = &synthetic->dataset;
    return PS_OK;
}

/* ------------------------------------------------------------------- tokens */

/*
 * Synthetic sequences: "tokens[,samples=N,noise=X,seed=S]", with the length and vocabulary that the network takes.
 *
 * A rule generates the tokens: each token has one successor (by a random permutation), which follows with probability 1 -
 * noise; otherwise a random token follows. The network determines the labels. With one label per sample it is the number of the
 * rule, one per class. With one per position it is the next token, or the masked tokens. If a sample has two sequences, the
 * second is the first translated token by token with <s> before it, and its labels end with </s>.
 */

enum { TRAIN_SEQUENCES = 4096, TEST_SEQUENCES = 512 };

struct synthetic_tokens {
    struct dataset dataset; /* first */
    uint64_t seed;
    enum dataset_part part;
    double noise;
    uint32_t successor[]; /* successor of token VOCABULARY_SPECIALS + i, one per token that is not special */
};

static int plain_tokens(int vocabulary) { return vocabulary - VOCABULARY_SPECIALS; }

/* Writes a sequence of tokens by rule `rule`. */
static void write_sequence(const struct synthetic_tokens *s, struct random_key key, int rule, int64_t count, int32_t *tokens) {
    uint64_t size = (uint64_t)plain_tokens(s->dataset.shape.vocabulary), token = 0;
    for (int64_t t = 0; t < count; t++) {
        bool any = t == 0 || (double)random_uniform(key, (uint64_t)(2 * t)) < s->noise;
        token = any ? (uint64_t)(random_uniform(key, (uint64_t)(2 * t + 1)) * (float)size)
                    : (s->successor[token] + (uint64_t)rule) % size;
        tokens[t] = (int32_t)(VOCABULARY_SPECIALS + token);
    }
}

/* Writes the second sequence, the translation of the first, and its labels. */
static void translate(const struct dataset_shape *shape, int64_t source, int32_t *tokens, int32_t *labels) {
    int target_size = plain_tokens(shape->classes);
    for (int t = 0; t < shape->labels; t++) {
        bool word = t < shape->labels - 1 && t < source;
        int token = word ? VOCABULARY_SPECIALS + (tokens[t] * 3 + 1) % target_size : VOCABULARY_END;
        bool ended = t > 0 && labels[t - 1] <= VOCABULARY_END; /* only one </s>, then padding */
        labels[t] = ended ? -1 : token;
        tokens[source + t] = t == 0 ? VOCABULARY_START : ended ? VOCABULARY_PADDING : labels[t - 1];
    }
}

static enum ps_status read_tokens(const struct dataset *dataset, int64_t index, void *input, void *target,
                                  struct ps_error *error) {
    int32_t *labels = target;
    (void)error;
    int32_t *tokens = input;
    const struct synthetic_tokens *s = (const struct synthetic_tokens *)dataset;
    const struct dataset_shape *shape = &dataset->shape;
    struct random_key key = random_key(s->seed, RANDOM_SYNTHETIC, SEQUENCES + (uint64_t)s->part, (uint64_t)index);
    int64_t length = shape->height;
    int count = dataset_labels(shape);
    int rule = shape->gives_tokens ? 0 : (int)(index % shape->classes);
    bool next = count == length && !shape->masked;
    int64_t source = count == length || !shape->gives_tokens ? length : length - count;
    write_sequence(s, key, rule, source, tokens);
    if (!shape->gives_tokens) {
        labels[0] = rule;
    } else if (next) {
        for (int64_t t = 0; t + 1 < length; t++) labels[t] = tokens[t + 1];
        labels[length - 1] = -1;
    } else if (count == length) {
        const struct masking masking = {MASKING_TOKEN, VOCABULARY_SPECIALS, shape->vocabulary};
        masking_apply(random_key(s->seed, RANDOM_SYNTHETIC, SEQUENCES + 2 + (uint64_t)s->part, (uint64_t)index), length,
                      &masking, tokens, labels);
    } else {
        translate(shape, source, tokens, labels);
    }
    return PS_OK;
}

static void close_tokens(struct dataset *dataset) { free(dataset); }

static const struct dataset_class tokens_class = {.name = "synthetic", .close = close_tokens, .read = read_tokens};

static enum ps_status check_required(const struct dataset_shape *required, struct ps_error *error) {
    int least = VOCABULARY_SPECIALS + 2;
    if (required->vocabulary == 0)
        return error_set(error, PS_USAGE, "data 'synthetic:tokens' are sequences of tokens, but the network reads images");
    if (required->vocabulary < least || (required->gives_tokens && required->classes < least)) {
        const bool source = required->vocabulary < least;
        error_set(error, PS_USAGE, "data 'synthetic:tokens' need a vocabulary of %d tokens or more, the network's is %d", least,
                  source ? required->vocabulary : required->classes);
        error_hint(error, "give a built-in network the option %s=%d", source ? "vocab" : "target_vocab", least);
        return PS_USAGE;
    }
    if (required->gives_tokens && required->height < 2)
        return error_set(error, PS_USAGE, "data 'synthetic:tokens' need sequences of 2 tokens or more, the network's are 1");
    return PS_OK;
}

static enum ps_status open_tokens(struct spec *options, enum dataset_part part, const struct dataset_shape *required,
                                  struct dataset **dataset, struct ps_error *error) {
    static const char *const keys[] = {"samples", "noise", "seed"};
    int samples = part == DATASET_TRAIN ? TRAIN_SEQUENCES : TEST_SEQUENCES, seed = 0;
    double noise = 0.1;
    TRY(spec_int(options, "samples", 1, SAMPLES_MAX, &samples, error));
    TRY(spec_number(options, "noise", 0, 1, &noise, error));
    TRY(spec_int(options, "seed", 0, INT32_MAX, &seed, error));
    TRY(spec_finish(options, "synthetic", keys, 3, error));
    TRY(check_required(required, error));
    size_t size = (size_t)plain_tokens(required->vocabulary);
    struct synthetic_tokens *made = calloc(1, sizeof *made + size * sizeof *made->successor);
    if (!made) return error_memory(error, "synthetic data", size * sizeof *made->successor);
    made->dataset = (struct dataset){.class = &tokens_class, .samples = samples, .shape = *required};
    made->dataset.shape.words[0] = made->dataset.shape.words[1] = NULL;
    made->seed = (uint64_t)seed;
    made->part = part;
    made->noise = noise;
    random_permutation(random_key(made->seed, RANDOM_SYNTHETIC, RULE, 0), made->successor, size);
    *dataset = &made->dataset;
    return PS_OK;
}

/* --------------------------------------------------------------------- both */

static enum ps_status open_synthetic(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                     struct dataset **dataset, struct ps_error *error) {
    static const char *const kinds[] = {"images", "tokens"};
    struct spec options;
    TRY(spec_parse(rest, "synthetic", &options, error));
    if (strcmp(options.name, kinds[0]) == 0) return open_images(&options, part, required, dataset, error);
    if (strcmp(options.name, kinds[1]) == 0) return open_tokens(&options, part, required, dataset, error);
    return error_unknown(error, PS_USAGE, "kind of synthetic data", options.name, kinds, 2);
}

static void close_synthetic(struct dataset *dataset) { free(dataset); }

const struct dataset_class dataset_synthetic = {
    .name = "synthetic",
    .summary = "images[,samples=N,classes=K,size=S,channels=C,noise=X,seed=S] or tokens[,samples=N,noise=X,seed=S]: generated, "
               "learnable",
    .example = "images",
    .generated = true,
    .open = open_synthetic,
    .close = close_synthetic,
    .read = read_image,
    .target = read_label,
};
