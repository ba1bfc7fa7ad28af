/*
 * The loader: a ring of `ahead` mini-batches between reading threads and one caller. Mini-batch `number` lives in slot
 * `number % ahead` (with a stride `number / stride % ahead`, and the counters move by strides). Three counters say it all, the
 * next mini-batch to be given back, asked for and read; released <= asked <= read:
 *
 *     released .. asked-1   held by the caller
 *     asked    .. read-1    ready
 *     read                  being read, or waiting for room while read == released + ahead
 *
 * The threads share the samples of mini-batch `read`: each claims some, reads them without the lock, and whoever finishes the
 * last makes the mini-batch ready. The next one is prepared (its order may change with the epoch) when nobody reads. Reading
 * threads alone write slots and the order of samples, the caller alone reads slots; counters and the error change under the
 * lock. Seeking sets the counters and `sought`: threads in the middle of their samples throw their work away.
 */
#include "data/loader.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/processor.h"
#include "data/order.h"

enum { THREADS_MAX = 16, THREADS_USUAL = 4, CLAIMS = 4 /* of each thread in a mini-batch */ };

struct slot {
    char *inputs;
    int32_t *labels;
    int samples;
    int64_t counted; /* labels */
};

struct loader {
    struct loader_options options;
    size_t input_bytes; /* of a sample */
    size_t label_count; /* of a sample */
    int64_t batches;    /* in an epoch */
    struct memory_block memory;
    struct slot *slots;
    struct sample_order order; /* of the epoch that is read; zeroed: samples come as they lie */
    char *scratch;             /* an input that nobody wants; then one thread reads */
    int32_t *ignored;          /* a mini-batch's labels that nobody wants */

    int64_t released, asked, read;
    /* mini-batch `read`: whether its order is known, samples claimed and done, the threads that read, the first sample that
     * could not be read (-1: none) and why */
    bool prepared;
    int claimed, done, busy, failed_at;
    uint64_t sought;                /* how often */
    enum ps_status failure, status; /* of that sample; of mini-batch `read` */
    struct ps_error error;

    bool stop;
    int threads; /* running; 0: the caller reads */
    pthread_t thread[THREADS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t room, ready; /* for the threads, for the caller */
};

/* ---------------------------------------------------------------- reading */

static struct slot *slot_of(const struct loader *loader, int64_t number) {
    return &loader->slots[number / loader->options.stride % loader->options.ahead];
}

/* How far reading may be ahead of what was given back. */
static int64_t room(const struct loader *loader) { return (int64_t)loader->options.ahead * loader->options.stride; }

static bool wanted(const struct loader_options *options, int sample) {
    return options->labels || options->replicas < 2 || sample / options->chunk % options->replicas == options->replica;
}

static enum ps_status read_sample(struct loader *loader, struct slot *slot, int i, int64_t epoch, int64_t index,
                                  struct ps_error *error) {
    const struct dataset *dataset = loader->options.samples->dataset;
    const struct dataset_class *class = dataset->class;
    int32_t *label = (slot->labels ? slot->labels : loader->ignored) + (size_t)i * loader->label_count;
    if (!slot->inputs && class->label) return class->label(dataset, index, label, error);
    void *input = slot->inputs ? slot->inputs + (size_t)i * loader->input_bytes : loader->scratch;
    if (!loader->options.shuffle || !class->read_augmented) return class->read(dataset, index, input, label, error);
    struct random_key key = random_key(loader->options.seed, RANDOM_AUGMENT, (uint64_t)epoch, (uint64_t)index);
    return class->read_augmented(dataset, index, key, input, label, error);
}

/* Samples [first, end) of mini-batch `number`; `failed_at` is the one that could not be read. */
static enum ps_status read_samples(struct loader *loader, int64_t number, int first, int end, int *failed_at,
                                   struct ps_error *error) {
    struct slot *slot = slot_of(loader, number);
    const int64_t epoch = number / loader->batches, start = number % loader->batches * loader->options.batch;
    for (int i = first; i < end; i++) {
        if (!wanted(&loader->options, i)) continue;
        const int64_t place = loader->order.at ? loader->order.at[start + i] : start + i;
        *failed_at = i;
        TRY(read_sample(loader, slot, i, epoch, loader->options.samples->first + place, error));
    }
    return PS_OK;
}

/* Order and number of samples of mini-batch `read`, and the padding behind them. */
static void prepare(struct loader *loader) {
    const struct samples *samples = loader->options.samples;
    struct slot *slot = slot_of(loader, loader->read);
    const int64_t epoch = loader->read / loader->batches, start = loader->read % loader->batches * loader->options.batch;
    if (loader->order.at) sample_order_turn(&loader->order, epoch);
    const int64_t left = samples->count - start;
    slot->samples = left < loader->options.batch ? (int)left : loader->options.batch;
    const size_t padding = (size_t)(loader->options.batch - slot->samples), used = (size_t)slot->samples;
    if (slot->inputs) memset(slot->inputs + used * loader->input_bytes, 0, padding * loader->input_bytes);
    if (slot->labels) memset(slot->labels + used * loader->label_count, -1, padding * loader->label_count * sizeof(int32_t));
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

/* Of the mini-batch that has been read. */
static void count_labels(const struct loader *loader) {
    struct slot *slot = slot_of(loader, loader->read);
    const size_t labels = slot->labels ? (size_t)slot->samples * loader->label_count : 0;
    slot->counted = 0;
    for (size_t i = 0; i < labels; i++) slot->counted += slot->labels[i] >= 0;
}

/* Under the lock: takes in what became of samples [first, end). The first failure counts, whoever came first. */
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
        count_labels(loader);
        loader->read += loader->options.stride;
        loader->prepared = false;
    }
}

/* Under the lock, which it gives up while it reads: claims samples and reads them. */
static void work(struct loader *loader) {
    const int64_t number = loader->read;
    const int samples = slot_of(loader, number)->samples;
    const int share = loader->threads > 1 ? samples / (loader->threads * CLAIMS) + 1 : samples;
    const int first = loader->claimed, end = samples - first < share ? samples : first + share;
    const uint64_t sought = loader->sought;
    loader->claimed = end;
    loader->busy++;
    pthread_mutex_unlock(&loader->lock);
    struct ps_error error = {0};
    int failed_at = -1;
    const enum ps_status status = read_samples(loader, number, first, end, &failed_at, &error);
    pthread_mutex_lock(&loader->lock);
    loader->busy--;
    if (sought == loader->sought) account(loader, first, end, failed_at, status, &error);
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
    assert(number == loader->asked && number < loader->released + room(loader));
    while (loader->options.serial && loader->read == number && has_work(loader)) work(loader);
    while (loader->read == number && loader->status == PS_OK) pthread_cond_wait(&loader->ready, &loader->lock);
    const bool there = loader->read > number;
    const enum ps_status status = there ? PS_OK : loader->status;
    if (there) {
        loader->asked += loader->options.stride;
    } else if (error) {
        *error = loader->error;
    }
    pthread_mutex_unlock(&loader->lock);
    if (!there) return status;
    const struct slot *slot = slot_of(loader, number);
    *batch = (struct loaded_batch){
        .inputs = slot->inputs, .labels = slot->labels, .samples = slot->samples, .counted = slot->counted};
    return PS_OK;
}

void loader_release(struct loader *loader, int64_t number) {
    pthread_mutex_lock(&loader->lock);
    assert(number < loader->asked);
    if (number >= loader->released) {
        loader->released = number + loader->options.stride;
        pthread_cond_broadcast(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
}

enum ps_status loader_seek(struct loader *loader, int64_t number, struct ps_error *error) {
    if (number < 0) return error_set(error, PS_USAGE, "mini-batch %lld: they are counted from 0", (long long)number);
    pthread_mutex_lock(&loader->lock);
    if (loader->status != PS_OK || loader->released != number || loader->asked != number) {
        loader->released = loader->asked = loader->read = number;
        loader->status = PS_OK;
        loader->prepared = false;
        loader->sought++;
        pthread_cond_broadcast(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
    return PS_OK;
}

/* ------------------------------------------------------------- life and death */

/* Takes one block for the mini-batches and the scratch input. */
static enum ps_status take_memory(struct loader *loader, struct ps_error *error) {
    static const char what[] = "reading mini-batches ahead";
    const struct loader_options *options = &loader->options;
    const struct dataset *dataset = options->samples->dataset;
    const struct dataset_shape *shape = &dataset->shape;
    loader->input_bytes = dataset_input_bytes(shape);
    loader->label_count = (size_t)dataset_labels(shape);
    const size_t input = loader->input_bytes, batch = (size_t)options->batch;
    const size_t sample_labels = loader->label_count * sizeof(int32_t), ignored = options->labels ? 0 : sample_labels * batch;
    size_t labels = 0;
    const size_t scratch = !options->inputs && !dataset->class->label ? input : 0;
    size_t inputs = 0, total;
    if ((options->inputs && __builtin_mul_overflow(input, batch, &inputs)) || inputs > SIZE_MAX / 4 ||
        (options->labels && __builtin_mul_overflow(sample_labels, batch, &labels)) || labels > SIZE_MAX / 4 ||
        __builtin_mul_overflow(memory_align(inputs) + memory_align(labels), (size_t)options->ahead, &total) ||
        total > SIZE_MAX / 4) {
        return error_memory(error, what, SIZE_MAX);
    }
    TRY(memory_block_take(&loader->memory, total + memory_align(scratch) + memory_align(ignored), what, error));
    for (int i = 0; i < options->ahead; i++) {
        if (inputs) loader->slots[i].inputs = memory_block_carve(&loader->memory, inputs);
        if (labels) loader->slots[i].labels = memory_block_carve(&loader->memory, labels);
    }
    if (scratch) loader->scratch = memory_block_carve(&loader->memory, scratch);
    if (ignored) loader->ignored = memory_block_carve(&loader->memory, ignored);
    return PS_OK;
}

static int thread_count(const struct loader_options *options) {
    if (options->serial) return 0;
    if (!options->inputs) return 1; /* labels alone are mostly had without reading the inputs */
    if (options->threads > 0) return options->threads < THREADS_MAX ? options->threads : THREADS_MAX;
    if (!options->samples->dataset->class->several_readers) return 1;
    const int usable = cores_usable();
    return usable < THREADS_USUAL ? usable : THREADS_USUAL;
}

/* Stops with the thread that cannot be started; loader_destroy joins those before it. */
static enum ps_status start_threads(struct loader *loader, struct ps_error *error) {
    const int wanted = thread_count(&loader->options);
    int code = 0, started = 0;
    pthread_mutex_lock(&loader->lock);
    for (; started < wanted && code == 0; started += code == 0) {
        code = pthread_create(&loader->thread[started], NULL, reading_thread, loader);
    }
    loader->threads = started;
    pthread_mutex_unlock(&loader->lock);
    return code == 0 ? PS_OK : error_set(error, PS_FAILED, "cannot start a thread to read data: %s", strerror(code));
}

enum ps_status loader_create(const struct loader_options *options, struct loader **out, struct ps_error *error) {
    const int64_t count = options->samples->count;
    assert(options->batch > 0 && options->ahead > 0 && (options->inputs || options->labels));
    assert(count > 0 && count <= UINT32_MAX);
    if (options->shuffle && count < options->batch) {
        return error_set(error, PS_USAGE, "a mini-batch of %d samples is larger than the data, which have %lld", options->batch,
                         (long long)count);
    }
    struct loader *loader = calloc(1, sizeof *loader);
    if (!loader) return error_memory(error, "a loader", sizeof *loader);
    loader->options = *options;
    if (loader->options.stride < 1) loader->options.stride = 1;
    loader->batches = options->shuffle ? count / options->batch : (count + options->batch - 1) / options->batch;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->room, NULL);
    pthread_cond_init(&loader->ready, NULL);

    enum ps_status status = PS_OK;
    loader->slots = calloc((size_t)options->ahead, sizeof *loader->slots);
    if (!loader->slots) status = error_memory(error, "a loader", (size_t)options->ahead * sizeof *loader->slots);
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

void loader_destroy(struct loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    for (int t = 0; t < loader->threads; t++) pthread_join(loader->thread[t], NULL);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->room);
    pthread_mutex_destroy(&loader->lock);
    memory_block_release(&loader->memory);
    sample_order_free(&loader->order);
    free(loader->slots);
    free(loader);
}
