/* A dataset of numbers, in which every value tells where it came from, for tests of the loader. */
#ifndef PENSTOCK_TESTS_LOADER_SUPPORT_H
#define PENSTOCK_TESTS_LOADER_SUPPORT_H

#include <assert.h>
#include <semaphore.h>

#include "data/loader.h"
#include "support.h"

/* A dataset whose sample i has the label i and an image of i, i+0.25, ...; it can fail at one sample, and wait at a gate. */
enum { FLOATS = 4 };

struct numbers {
    struct dataset dataset; /* first */
    int64_t failing;        /* -1: none */
    sem_t *started, *gate;  /* where not NULL: posted at, and waited for by, every read */
};

static inline enum ps_status read_number(const struct dataset *dataset, int64_t index, void *input, void *target,
                                         struct ps_error *error) {
    int32_t *label = target;
    const struct numbers *numbers = (const struct numbers *)dataset;
    float *image = input;
    assert(index >= 0 && index < dataset->samples);
    if (numbers->gate) {
        sem_post(numbers->started);
        sem_wait(numbers->gate);
    }
    if (index == numbers->failing) return error_set(error, PS_IO, "sample %lld cannot be read", (long long)index);
    for (int i = 0; i < FLOATS; i++) image[i] = (float)index + 0.25f * (float)i;
    *label = (int32_t)index;
    return PS_OK;
}

static inline enum ps_status label_number(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    float image[FLOATS];
    return read_number(dataset, index, image, target, error);
}

/* Three labels a sample, i of them not counted in sample i modulo 4. */
static inline enum ps_status read_labels(const struct dataset *dataset, int64_t index, void *input, void *target,
                                         struct ps_error *error) {
    int32_t *label = target;
    TRY(read_number(dataset, index, input, label, error));
    for (int k = 2; k >= 0; k--) label[k] = k < index % 4 ? -1 : (int32_t)index * 3 + k;
    return PS_OK;
}

static const struct dataset_class numbers_class = {.name = "numbers", .read = read_number, .target = label_number};
static const struct dataset_class labels_class = {.name = "numbers", .read = read_labels};
static const struct dataset_class no_label_class = {.name = "numbers", .read = read_number};

static inline struct numbers make_numbers(int64_t samples) {
    return (struct numbers){.dataset = {.class = &numbers_class,
                                        .samples = samples,
                                        .shape = {.channels = 1, .height = 2, .width = 2, .classes = (int)samples}},
                            .failing = -1};
}

static inline struct samples all_of(struct numbers *numbers) {
    return (struct samples){.dataset = &numbers->dataset, .count = numbers->dataset.samples};
}

static inline struct loader_options options_for(const struct samples *samples, int batch, int ahead) {
    return (struct loader_options){.samples = samples, .batch = batch, .inputs = true, .targets = true, .ahead = ahead};
}

static inline struct loader *created(const struct loader_options *options) {
    struct loader *loader;
    assert_ok(loader_create(options, &loader, &test_error));
    return loader;
}

static inline struct loaded_batch got(struct loader *loader, int64_t number) {
    struct loaded_batch batch;
    assert_ok(loader_get(loader, number, &batch, &test_error));
    return batch;
}

static inline const int32_t *labels_of(struct loaded_batch batch) { return batch.targets; }

static inline void check_image(const struct loaded_batch *batch, int i) {
    const float *images = batch->inputs;
    for (int k = 0; k < FLOATS; k++) {
        const float expected = i < batch->samples ? (float)labels_of(*batch)[i] + 0.25f * (float)k : 0.0f;
        assert_true(images[i * FLOATS + k] == expected);
    }
}

#endif
