/*
 * A loader reads mini-batches ahead on its own threads and returns them in order. The order of samples is that of data/order.h
 * in training and 0, 1, 2, ... in evaluation. Each worker has its own loader, for inputs or targets alone if it needs no more;
 * loaders with the same options use the same order.
 */
#ifndef PENSTOCK_DATA_LOADER_H
#define PENSTOCK_DATA_LOADER_H

#include "data/order.h"

struct loader;

struct loader_options {
    const struct samples *samples; /* borrowed until loader_destroy */
    int batch;                     /* samples in a mini-batch; each has dataset_labels targets */
    bool inputs, targets;          /* what is read */
    const float *class_weights;    /* what labels count; NULL: 1 each */
    bool shuffle; /* training: permuted, a last short mini-batch is left out; else in order, and it is padded */
    uint64_t seed;
    const struct lengths
        *lengths; /* training: mini-batches by length; they are still read at the full length. NULL: one length */
    /* For one of several workers that divide the data among them: */
    int stride; /* only every stride-th mini-batch is requested (0: every one) */
    /* Of every `replicas` chunks of `chunk` samples in a mini-batch, only the inputs of chunk number `replica` are read; the
     * memory of the others is undefined. All targets are read, since all are counted. 0: all chunks. */
    int chunk, replica, replicas;
    int ahead;   /* mini-batches read ahead, including those held by the caller; at least 1 */
    bool serial; /* no thread: read when requested (the one-thread environment) */
    int threads; /* number of threads; 0: one, or one per core and at most 4 if reading is slow (several_readers) */
};

struct loaded_batch {
    const void *inputs;  /* batch x H x W x C of the samples' type, 64-byte aligned, or NULL */
    const void *targets; /* batch x targets: labels (int32_t) or numbers (float), or NULL; padding has label -1 */
    int samples;         /* real samples; the rest is padding (zeros) */
    double weight;       /* of all that counts: labels that are not -1, times their classes' weights, or numbers; 0 without */
};

/* PS_USAGE if the samples do not fill one mini-batch of training. Takes all memory. */
enum ps_status loader_create(const struct loader_options *options, struct loader **loader, struct ps_error *error);
/* No thread of it begins to read another sample. NULL is fine. */
void loader_stop(struct loader *loader);
/* May be called at any time; waits at most for the samples that are being read. NULL is fine. */
void loader_destroy(struct loader *loader);
/* Memory of the mini-batches and the order. NULL: 0. */
int64_t loader_bytes(const struct loader *loader);
/* Mini-batches in an epoch. */
int64_t loader_batches(const struct loader *loader);
/* Waits for mini-batch `number`, counted over all epochs from 0. Mini-batches must be requested in increasing order in steps of
 * `stride`, beginning with the number given to loader_seek, or 0. The pointers stay valid until loader_release(number). At most
 * `ahead` mini-batches may be held. A read error is returned for the mini-batch that it belongs to, and for every later call
 * until loader_seek. */
enum ps_status loader_get(struct loader *loader, int64_t number, struct loaded_batch *batch, struct ps_error *error);
/* Gives back all mini-batches up to and including `number`. */
void loader_release(struct loader *loader, int64_t number);
/* Gives back all held mini-batches and continues at mini-batch `number`; PS_USAGE if it is negative. If none is held and that
 * mini-batch is the next anyway, those read ahead are kept. */
enum ps_status loader_seek(struct loader *loader, int64_t number, struct ps_error *error);

#endif
