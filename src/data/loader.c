/*
 * The loader: a ring of `ahead` mini-batches between one reading thread and one caller. Mini-batch `number` lives in slot
 * number % ahead. Three counters say it all, released <= asked <= read (next to be given back, asked for, read):
 *
 *     released .. asked-1   held by the caller
 *     asked    .. read-1    ready
 *     read                  being read, or waiting for room while read == released + ahead
 *
 * The reading thread alone writes slots and the order of samples, the caller alone reads slots; counters and the error change
 * under the lock. Seeking only sets the counters: the thread, should it be in the middle of a mini-batch, finds its number gone
 * and throws its work away before it starts on the new one.
 */
#include "data/loader.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

struct slot {
    float *images;
    int32_t *labels;
    int samples;
    int64_t counted; /* labels */
};

struct loader {
    struct loader_options options;
    size_t image_floats; /* in a sample */
    size_t label_count;  /* of a sample */
    int64_t batches;     /* in an epoch */
    struct memory_block memory;
    struct slot *slots;
    uint32_t *order; /* of the samples in epoch order_epoch; NULL: in order */
    int64_t order_epoch;
    float *scratch; /* an image that nobody wants */
    int32_t *ignored; /* labels that nobody wants */

    int64_t released, asked, read;
    enum ps_status status; /* of reading mini-batch `read` */
    struct ps_error error;

    bool threaded, stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t room, ready; /* for the thread, for the caller */
};

/* ---------------------------------------------------------------- reading */

static enum ps_status read_sample(struct loader *loader, struct slot *slot, int i, int64_t index, struct ps_error *error) {
    const struct dataset *dataset = loader->options.samples->dataset;
    const struct dataset_class *class = dataset->class;
    int32_t *label = slot->labels ? slot->labels + (size_t)i * loader->label_count : loader->ignored;
    if (!slot->images && class->label) return class->label(dataset, index, label, error);
    float *image = slot->images ? slot->images + (size_t)i * loader->image_floats : loader->scratch;
    return class->read(dataset, index, image, label, error);
}

/* Fills the slot of mini-batch `number`. */
static enum ps_status read_batch(struct loader *loader, int64_t number, struct ps_error *error) {
    const struct samples *samples = loader->options.samples;
    struct slot *slot = &loader->slots[number % loader->options.ahead];
    const int64_t epoch = number / loader->batches, start = number % loader->batches * loader->options.batch;
    if (loader->order && epoch != loader->order_epoch) {
        const struct random_key key = random_key(loader->options.seed, RANDOM_ORDER, (uint64_t)epoch, 0);
        random_permutation(key, loader->order, (size_t)samples->count);
        loader->order_epoch = epoch;
    }
    const int64_t left = samples->count - start;
    slot->samples = left < loader->options.batch ? (int)left : loader->options.batch;
    for (int i = 0; i < slot->samples; i++) {
        const int64_t place = loader->order ? loader->order[start + i] : start + i;
        TRY(read_sample(loader, slot, i, samples->first + place, error));
    }
    const size_t padding = (size_t)(loader->options.batch - slot->samples), used = (size_t)slot->samples;
    if (slot->images) memset(slot->images + used * loader->image_floats, 0, padding * loader->image_floats * sizeof(float));
    slot->counted = 0;
    if (!slot->labels) return PS_OK;
    memset(slot->labels + used * loader->label_count, -1, padding * loader->label_count * sizeof(int32_t));
    for (size_t i = 0; i < used * loader->label_count; i++) slot->counted += slot->labels[i] >= 0;
    return PS_OK;
}

static void *reading_thread(void *argument) {
    struct loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (!loader->stop && (loader->status != PS_OK || loader->read == loader->released + loader->options.ahead)) {
            pthread_cond_wait(&loader->room, &loader->lock);
        }
        if (loader->stop) break;
        const int64_t number = loader->read;
        pthread_mutex_unlock(&loader->lock);
        struct ps_error error = {0};
        const enum ps_status status = read_batch(loader, number, &error);
        pthread_mutex_lock(&loader->lock);
        if (loader->read != number) continue;
        loader->status = status;
        loader->error = error;
        if (status == PS_OK) loader->read++;
        pthread_cond_signal(&loader->ready);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* --------------------------------------------------------------- the caller */

int64_t loader_batches(const struct loader *loader) { return loader->batches; }

enum ps_status loader_get(struct loader *loader, int64_t number, struct loaded_batch *batch, struct ps_error *error) {
    pthread_mutex_lock(&loader->lock);
    assert(number == loader->asked && number < loader->released + loader->options.ahead);
    if (loader->options.serial && loader->status == PS_OK) {
        loader->status = read_batch(loader, number, &loader->error);
        if (loader->status == PS_OK) loader->read++;
    }
    while (loader->read == number && loader->status == PS_OK) pthread_cond_wait(&loader->ready, &loader->lock);
    const bool there = loader->read > number;
    const enum ps_status status = there ? PS_OK : loader->status;
    if (there) {
        loader->asked++;
    } else if (error) {
        *error = loader->error;
    }
    pthread_mutex_unlock(&loader->lock);
    if (!there) return status;
    const struct slot *slot = &loader->slots[number % loader->options.ahead];
    *batch = (struct loaded_batch){
        .images = slot->images, .labels = slot->labels, .samples = slot->samples, .counted = slot->counted};
    return PS_OK;
}

void loader_release(struct loader *loader, int64_t number) {
    pthread_mutex_lock(&loader->lock);
    assert(number < loader->asked);
    if (number >= loader->released) {
        loader->released = number + 1;
        pthread_cond_signal(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
}

enum ps_status loader_seek(struct loader *loader, int64_t number, struct ps_error *error) {
    if (number < 0) return error_set(error, PS_USAGE, "mini-batch %lld: they are counted from 0", (long long)number);
    pthread_mutex_lock(&loader->lock);
    loader->released = loader->asked = loader->read = number;
    loader->status = PS_OK;
    pthread_cond_signal(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    return PS_OK;
}

/* ------------------------------------------------------------- life and death */

/* Takes one block for the mini-batches, the order and the scratch image. */
static enum ps_status take_memory(struct loader *loader, struct ps_error *error) {
    static const char what[] = "reading mini-batches ahead";
    const struct loader_options *options = &loader->options;
    const struct dataset *dataset = options->samples->dataset;
    const struct dataset_shape *shape = &dataset->shape;
    loader->image_floats = (size_t)(shape->channels * shape->height * shape->width);
    loader->label_count = (size_t)dataset_labels(shape);
    const size_t image = loader->image_floats * sizeof(float), batch = (size_t)options->batch;
    const size_t sample_labels = loader->label_count * sizeof(int32_t), ignored = options->labels ? 0 : sample_labels;
    size_t labels = 0;
    const size_t order = options->shuffle ? (size_t)options->samples->count * sizeof(uint32_t) : 0;
    const size_t scratch = !options->images && !dataset->class->label ? image : 0;
    size_t images = 0, total;
    if ((options->images && __builtin_mul_overflow(image, batch, &images)) || images > SIZE_MAX / 4 ||
        (options->labels && __builtin_mul_overflow(sample_labels, batch, &labels)) || labels > SIZE_MAX / 4 ||
        __builtin_mul_overflow(memory_align(images) + memory_align(labels), (size_t)options->ahead, &total) ||
        total > SIZE_MAX / 4) {
        return error_memory(error, what, SIZE_MAX);
    }
    TRY(memory_block_take(&loader->memory, total + memory_align(order) + memory_align(scratch) + memory_align(ignored),
                          what, error));
    for (int i = 0; i < options->ahead; i++) {
        if (images) loader->slots[i].images = memory_block_carve(&loader->memory, images);
        if (labels) loader->slots[i].labels = memory_block_carve(&loader->memory, labels);
    }
    if (order) loader->order = memory_block_carve(&loader->memory, order);
    if (scratch) loader->scratch = memory_block_carve(&loader->memory, scratch);
    if (ignored) loader->ignored = memory_block_carve(&loader->memory, ignored);
    return PS_OK;
}

enum ps_status loader_create(const struct loader_options *options, struct loader **out, struct ps_error *error) {
    const int64_t count = options->samples->count;
    assert(options->batch > 0 && options->ahead > 0 && (options->images || options->labels));
    assert(count > 0 && count <= UINT32_MAX);
    if (options->shuffle && count < options->batch) {
        return error_set(error, PS_USAGE, "a mini-batch of %d samples is larger than the data, which have %lld", options->batch,
                         (long long)count);
    }
    struct loader *loader = calloc(1, sizeof *loader);
    if (!loader) return error_memory(error, "a loader", sizeof *loader);
    loader->options = *options;
    loader->order_epoch = -1;
    loader->batches = options->shuffle ? count / options->batch : (count + options->batch - 1) / options->batch;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->room, NULL);
    pthread_cond_init(&loader->ready, NULL);

    enum ps_status status = PS_OK;
    loader->slots = calloc((size_t)options->ahead, sizeof *loader->slots);
    if (!loader->slots) status = error_memory(error, "a loader", (size_t)options->ahead * sizeof *loader->slots);
    if (status == PS_OK) status = take_memory(loader, error);
    if (status == PS_OK && !options->serial) {
        const int code = pthread_create(&loader->thread, NULL, reading_thread, loader);
        loader->threaded = code == 0;
        if (code) status = error_set(error, PS_FAILED, "cannot start a thread to read data: %s", strerror(code));
    }
    if (status != PS_OK) {
        loader_destroy(loader);
        return status;
    }
    *out = loader;
    return PS_OK;
}

void loader_destroy(struct loader *loader) {
    if (!loader) return;
    if (loader->threaded) {
        pthread_mutex_lock(&loader->lock);
        loader->stop = true;
        pthread_cond_signal(&loader->room);
        pthread_mutex_unlock(&loader->lock);
        pthread_join(loader->thread, NULL);
    }
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->room);
    pthread_mutex_destroy(&loader->lock);
    memory_block_release(&loader->memory);
    free(loader->slots);
    free(loader);
}
