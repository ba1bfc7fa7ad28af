/*
 * A loader reads mini-batches ahead on threads of its own and hands them out in order. The order of samples is that of
 * data/order.h in training, 0, 1, 2, ... in evaluation. A worker that needs only inputs or only labels has a loader
 * of its own for those: workers never share one, and two loaders with the same options agree on the order.
 */
#ifndef PENSTOCK_DATA_LOADER_H
#define PENSTOCK_DATA_LOADER_H

#include "data/order.h"

struct loader;

struct loader_options {
    const struct samples *samples; /* borrowed until loader_destroy */
    int batch;                     /* samples in a mini-batch; each has dataset_labels labels */
    bool inputs, labels;           /* what is wanted */
    bool shuffle;                  /* training: permuted, a last short mini-batch left out; else in order, kept and padded */
    uint64_t seed;
    const struct lengths *lengths; /* of training: mini-batches by length; they are read whole all the same. NULL: not */
    /* For one of several workers that share the data: */
    int stride; /* only every stride-th mini-batch is asked for (0: every one) */
    /* Of every `replicas` chunks of `chunk` samples in a mini-batch only the inputs of chunk number `replica` are wanted: the
     * others are not read, and their place has no meaning. Labels are all read, since all are counted. 0: all chunks. */
    int chunk, replica, replicas;
    int ahead;   /* mini-batches read ahead, those held by the caller included; at least 1 */
    bool serial; /* no thread: read when asked (the one-thread environment) */
    int threads; /* that read; 0: one, or where reading is work (several_readers) as many as there are cores, at most 4 */
};

struct loaded_batch {
    const void *inputs;    /* batch x H x W x C of the samples' type, 64-byte aligned, or NULL */
    const int32_t *labels; /* batch x labels, or NULL; padding has label -1 */
    int samples;           /* real samples, the rest is padding (zeros) */
    int64_t counted;       /* labels that are not -1; 0 without labels */
};

/* PS_USAGE where the samples do not fill one mini-batch of training. All memory is taken here. */
enum ps_status loader_create(const struct loader_options *options, struct loader **loader, struct ps_error *error);
/* At any time: waits at most until the mini-batch that is being read is there. NULL is fine. */
void loader_destroy(struct loader *loader);
/* All memory that it takes but for a few words. NULL: 0. */
int64_t loader_bytes(const struct loader *loader);
/* Mini-batches in an epoch. */
int64_t loader_batches(const struct loader *loader);
/* Waits for mini-batch `number` (counted over all epochs from 0; each must be asked for in increasing order without gaps, but
 * those that the stride leaves out, starting at the number given to loader_seek, or 0). The pointers stay valid until
 * loader_release(number). At most `ahead` mini-batches may be held. An error of reading is returned for the mini-batch that it
 * belongs to, and for every later call until loader_seek. */
enum ps_status loader_get(struct loader *loader, int64_t number, struct loaded_batch *batch, struct ps_error *error);
/* Gives back all mini-batches up to and including `number`. */
void loader_release(struct loader *loader, int64_t number);
/* Gives back what is held and starts anew at mini-batch `number`; PS_USAGE for a negative one. Where nothing is held and that
 * mini-batch comes next anyway, what was read ahead stays. */
enum ps_status loader_seek(struct loader *loader, int64_t number, struct ps_error *error);

#endif
