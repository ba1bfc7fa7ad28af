/*
 * A ring buffer of `ahead` mini-batches between reading threads and one caller. Mini-batch `number` lives in slot `number %
 * ahead` (with a stride `number / stride % ahead`, and the counters move by strides). Three counters hold the state, the next
 * mini-batch to be given back, requested and read; released <= requested <= read:
 *
 *     released .. requested-1   held by the caller
 *     requested .. read-1       ready
 *     read                      being read, or waiting for room while read == released + ahead
 *
 * The threads share the samples of mini-batch `read`: each claims some and reads them without the lock; the thread that
 * finishes the last samples marks the mini-batch as ready. The next mini-batch is prepared (the order may change with the
 * epoch) when no thread is reading. Only reading threads write slots and the order of samples, only the caller reads slots;
 * counters and the error change under the lock. Seeking sets the counters and increments `seeks`; threads that are reading then
 * discard their samples.
 */
#include "data/loader.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/processor.h"
#include "base/thread.h"
#include "data/order.h"

enum { THREADS_MAX = 16, THREADS_USUAL = 4, CLAIMS = 4 /* per thread and mini-batch */ };

struct slot {
    char *inputs;
    char *targets;
    int samples;
    double weight; /* of the targets that count */
};

struct loader {
    struct loader_options options;
    size_t input_bytes;  /* of a sample */
    size_t target_bytes; /* of a sample */
    int64_t batches;     /* in an epoch */
    struct memory_block memory;
    struct slot *slots;
    struct sample_order order; /* of the epoch of `read`; zeroed: samples in their own order */
    char *scratch;             /* for an input that is not needed; one thread reads then */
    char *ignored;             /* for the targets of a mini-batch that are not needed */

    int64_t released, requested, read;
    /* mini-batch `read`: whether it was prepared, samples claimed and done, the number of reading threads, the first sample
     * that could not be read (-1: none) and the error */
    bool prepared;
    int claimed, done, busy, failed_at;
    uint64_t seeks;
    enum ps_status failure, status; /* of that sample; of mini-batch `read` */
    struct ps_error error;

    atomic_bool stop;
    int threads; /* running; 0: the caller reads */
    pthread_t thread[THREADS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t room, ready; /* for the threads, for the caller */
};

/* ------------------------------------------------------------------ reading */

static struct slot *slot_of(const struct loader *loader, int64_t number) {
    return &loader->slots[number / loader->options.stride % loader->options.ahead];
}

/* The distance that `read` may be ahead of `released`. */
static int64_t room(const struct loader *loader) { return (int64_t)loader->options.ahead * loader->options.stride; }

static bool is_needed(const struct loader_options *options, int sample) {
    return options->targets || options->replicas < 2 || sample / options->chunk % options->replicas == options->replica;
}

static enum ps_status read_sample(struct loader *loader, struct slot *slot, int i, int64_t epoch, int64_t index,
                                  struct ps_error *error) {
    const struct dataset *dataset = loader->options.samples->dataset;
    const struct dataset_class *class = dataset->class;
    void *target = (slot->targets ? slot->targets : loader->ignored) + (size_t)i * loader->target_bytes;
    if (!slot->inputs && class->target) return class->target(dataset, index, target, error);
    void *input = slot->inputs ? slot->inputs + (size_t)i * loader->input_bytes : loader->scratch;
    if (!loader->options.shuffle || !class->read_augmented) return class->read(dataset, index, input, target, error);
    struct random_key key = random_key(loader->options.seed, RANDOM_AUGMENT, (uint64_t)epoch, (uint64_t)index);
    return class->read_augmented(dataset, index, key, input, target, error);
}

/* Samples [first, end) of mini-batch `number`; `failed_at` is the one that could not be read. */
static enum ps_status read_samples(struct loader *loader, int64_t number, int first, int end, int *failed_at,
                                   struct ps_error *error) {
    struct slot *slot = slot_of(loader, number);
    const int64_t epoch = number / loader->batches, start = number % loader->batches * loader->options.batch;
    for (int i = first; i < end; i++) {
        if (!is_needed(&loader->options, i)) continue;
        const int64_t index = loader->order.at ? loader->order.at[start + i] : start + i;
        *failed_at = i;
        if (atomic_load(&loader->stop)) return error_set(error, PS_STOPPED, "no more data are read");
        TRY(read_sample(loader, slot, i, epoch, loader->options.samples->first + index, error));
    }
    return PS_OK;
}

/* Sets the order and number of samples of mini-batch `read`, and its padding. */
static void prepare(struct loader *loader) {
    const struct samples *samples = loader->options.samples;
    struct slot *slot = slot_of(loader, loader->read);
    const int64_t epoch = loader->read / loader->batches, start = loader->read % loader->batches * loader->options.batch;
    if (loader->order.at) sample_order_turn(&loader->order, epoch);
    const int64_t left = samples->count - start;
    slot->samples = left < loader->options.batch ? (int)left : loader->options.batch;
    const size_t padding = (size_t)(loader->options.batch - slot->samples), used = (size_t)slot->samples;
    if (slot->inputs) memset(slot->inputs + used * loader->input_bytes, 0, padding * loader->input_bytes);
    if (slot->targets) memset(slot->targets + used * loader->target_bytes, -1, padding * loader->target_bytes);
    loader->prepared = true;
    loader->claimed = loader->done = 0;
    loader->failed_at = -1;
}

/* Under the lock: whether there are samples to claim. */
static bool has_work(struct loader *loader) {
    if (loader->status != PS_OK || loader->read == loader->released + room(loader)) return false;
    if (!loader->prepared) {
        if (loader->busy > 0) return false;
        prepare(loader);
    }
    return loader->failed_at < 0 && loader->claimed < slot_of(loader, loader->read)->samples;
}

/* Adds up what counts in mini-batch `read`. */
static void weigh_targets(const struct loader *loader) {
    struct slot *slot = slot_of(loader, loader->read);
    const bool labels = loader->options.samples->dataset->shape.classes > 0;
    const size_t count = slot->targets ? (size_t)slot->samples * loader->target_bytes / sizeof(int32_t) : 0;
    const float *weights = loader->options.class_weights;
    const int32_t *label = (const int32_t *)(const void *)slot->targets;
    int64_t counted = 0;
    double sum = 0;
    for (size_t i = 0; i < count && labels; i++) {
        counted += label[i] >= 0;
        if (weights && label[i] >= 0) sum += (double)weights[label[i]];
    }
    slot->weight = !labels ? (double)count : weights ? sum : (double)counted;
}

/* Under the lock: records the result of samples [first, end). Of several failures the one of the first sample is kept. */
static void account(struct loader *loader, int first, int end, int failed_at, enum ps_status status,
                    const struct ps_error *error) {
    if (status == PS_OK) {
        loader->done += end - first;
    } else if (loader->failed_at < 0 || failed_at < loader->failed_at) {
        loader->failed_at = failed_at;
        loader->failure = status;
        loader->error = *error;
    }
    if (loader->failed_at >= 0) {
        if (loader->busy == 0) loader->status = loader->failure;
    } else if (loader->done == slot_of(loader, loader->read)->samples) {
        weigh_targets(loader);
        loader->read += loader->options.stride;
        loader->prepared = false;
    }
}

/* Under the lock, which it releases while reading: claims samples and reads them. */
static void work(struct loader *loader) {
    const int64_t number = loader->read;
    const int samples = slot_of(loader, number)->samples;
    const int share = loader->threads > 1 ? samples / (loader->threads * CLAIMS) + 1 : samples;
    const int first = loader->claimed, end = samples - first < share ? samples : first + share;
    const uint64_t seeks = loader->seeks;
    loader->claimed = end;
    loader->busy++;
    pthread_mutex_unlock(&loader->lock);
    struct ps_error error = {0};
    int failed_at = -1;
    const enum ps_status status = read_samples(loader, number, first, end, &failed_at, &error);
    pthread_mutex_lock(&loader->lock);
    loader->busy--;
    if (seeks == loader->seeks) account(loader, first, end, failed_at, status, &error);
}

static void *reading_thread(void *argument) {
    struct loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (!has_work(loader)) {
            pthread_cond_wait(&loader->room, &loader->lock);
            continue;
        }
        work(loader);
        pthread_cond_broadcast(&loader->room);
        pthread_cond_signal(&loader->ready);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* --------------------------------------------------------------- the caller */

int64_t loader_bytes(const struct loader *loader) {
    return loader ? (int64_t)(loader->memory.size + loader->order.memory.size) : 0;
}

int64_t loader_batches(const struct loader *loader) { return loader->batches; }

enum ps_status loader_get(struct loader *loader, int64_t number, struct loaded_batch *batch, struct ps_error *error) {
    pthread_mutex_lock(&loader->lock);
    assert(number == loader->requested && number < loader->released + room(loader));
    while (loader->options.serial && loader->read == number && has_work(loader)) work(loader);
    while (loader->read == number && loader->status == PS_OK) pthread_cond_wait(&loader->ready, &loader->lock);
    const bool there = loader->read > number;
    const enum ps_status status = there ? PS_OK : loader->status;
    if (there) {
        loader->requested += loader->options.stride;
    } else if (error) {
        *error = loader->error;
    }
    pthread_mutex_unlock(&loader->lock);
    if (!there) return status;
    const struct slot *slot = slot_of(loader, number);
    *batch = (struct loaded_batch){
        .inputs = slot->inputs, .targets = slot->targets, .samples = slot->samples, .weight = slot->weight};
    return PS_OK;
}

void loader_release(struct loader *loader, int64_t number) {
    pthread_mutex_lock(&loader->lock);
    assert(number < loader->requested);
    if (number >= loader->released) {
        loader->released = number + loader->options.stride;
        pthread_cond_broadcast(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
}

enum ps_status loader_seek(struct loader *loader, int64_t number, struct ps_error *error) {
    if (number < 0) return error_set(error, PS_USAGE, "mini-batch %lld: they are counted from 0", (long long)number);
    pthread_mutex_lock(&loader->lock);
    if (loader->status != PS_OK || loader->released != number || loader->requested != number) {
        loader->released = loader->requested = loader->read = number;
        loader->status = PS_OK;
        loader->prepared = false;
        loader->seeks++;
        pthread_cond_broadcast(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
    return PS_OK;
}

/* ------------------------------------------------------- create and destroy */

/* Takes one block for the mini-batches and the scratch input. */
static enum ps_status take_memory(struct loader *loader, struct ps_error *error) {
    static const char what[] = "reading mini-batches ahead";
    const struct loader_options *options = &loader->options;
    const struct dataset *dataset = options->samples->dataset;
    const struct dataset_shape *shape = &dataset->shape;
    loader->input_bytes = dataset_input_bytes(shape);
    loader->target_bytes = dataset_target_bytes(shape);
    const size_t input = loader->input_bytes, batch = (size_t)options->batch;
    const size_t ignored = options->targets ? 0 : loader->target_bytes * batch;
    size_t targets = 0;
    const size_t scratch = !options->inputs && !dataset->class->target ? input : 0;
    size_t inputs = 0, total;
    if ((options->inputs && __builtin_mul_overflow(input, batch, &inputs)) || inputs > SIZE_MAX / 4 ||
        (options->targets && __builtin_mul_overflow(loader->target_bytes, batch, &targets)) || targets > SIZE_MAX / 4 ||
        __builtin_mul_overflow(memory_align(inputs) + memory_align(targets), (size_t)options->ahead, &total) ||
        total > SIZE_MAX / 4) {
        return error_memory(error, what, SIZE_MAX);
    }
    TRY(memory_block_take(&loader->memory, total + memory_align(scratch) + memory_align(ignored), what, error));
    for (int i = 0; i < options->ahead; i++) {
        if (inputs) loader->slots[i].inputs = memory_block_carve(&loader->memory, inputs);
        if (targets) loader->slots[i].targets = memory_block_carve(&loader->memory, targets);
    }
    if (scratch) loader->scratch = memory_block_carve(&loader->memory, scratch);
    if (ignored) loader->ignored = memory_block_carve(&loader->memory, ignored);
    return PS_OK;
}

static int thread_count(const struct loader_options *options) {
    if (options->serial) return 0;
    if (!options->inputs) return 1; /* most formats read targets without the inputs */
    if (options->threads > 0) return options->threads < THREADS_MAX ? options->threads : THREADS_MAX;
    if (!options->samples->dataset->class->several_readers) return 1;
    const int usable = cores_usable();
    return usable < THREADS_USUAL ? usable : THREADS_USUAL;
}

/* Stops at the first thread that cannot be started; loader_destroy joins those before it. */
static enum ps_status start_threads(struct loader *loader, struct ps_error *error) {
    const int count = thread_count(&loader->options);
    int code = 0, started = 0;
    pthread_mutex_lock(&loader->lock);
    for (; started < count && code == 0; started += code == 0) {
        code = thread_start(&loader->thread[started], reading_thread, loader);
    }
    loader->threads = started;
    pthread_mutex_unlock(&loader->lock);
    return code == 0 ? PS_OK : error_set(error, PS_FAILED, "cannot start a thread to read data: %s", strerror(code));
}

enum ps_status loader_create(const struct loader_options *options, struct loader **out, struct ps_error *error) {
    const int64_t count = options->samples->count;
    assert(options->batch > 0 && options->ahead > 0 && (options->inputs || options->targets));
    assert(count > 0 && count <= UINT32_MAX);
    if (options->shuffle && count < options->batch) {
        return error_set(error, PS_USAGE, "a mini-batch of %d samples is larger than the data, which have %lld", options->batch,
                         (long long)count);
    }
    struct loader *loader;
    TRY(memory_new(&loader, 1, "a loader", error));
    loader->options = *options;
    if (loader->options.stride < 1) loader->options.stride = 1;
    loader->batches = options->shuffle ? count / options->batch : (count + options->batch - 1) / options->batch;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->room, NULL);
    pthread_cond_init(&loader->ready, NULL);

    enum ps_status status = memory_new(&loader->slots, options->ahead, "a loader", error);
    if (status == PS_OK && options->shuffle)
        status = sample_order_create(count, options->batch, options->seed, options->lengths, &loader->order, error);
    if (status == PS_OK) status = take_memory(loader, error);
    if (status == PS_OK) status = start_threads(loader, error);
    if (status != PS_OK) {
        loader_destroy(loader);
        return status;
    }
    *out = loader;
    return PS_OK;
}

void loader_stop(struct loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
}

void loader_destroy(struct loader *loader) {
    if (!loader) return;
    loader_stop(loader);
    for (int t = 0; t < loader->threads; t++) pthread_join(loader->thread[t], NULL);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->room);
    pthread_mutex_destroy(&loader->lock);
    memory_block_release(&loader->memory);
    sample_order_free(&loader->order);
    free(loader->slots);
    free(loader);
}
