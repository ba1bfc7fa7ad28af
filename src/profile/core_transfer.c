/*
 * Measured with a partner on another core that reads or writes the block between two accesses; see core_transfer.h. The block
 * has the size of a typical boundary block. It is small enough that what a core has just written is still in its own cache, as
 * within a stage.
 */
#include "profile/core_transfer.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/processor.h"
#include "base/thread.h"
#include "base/vector.h"

enum { FLOATS = 128 * 1024, ROUNDS = 21 };

enum request { NOTHING, READ, WRITE, LEAVE };

struct pair {
    float *own, *block; /* FLOATS each */
    bool several;
    atomic_int request; /* the partner's next access to the block */
    float seen;         /* stored, so that the compiler keeps the reads */
};

static void read_block(struct pair *pair) { pair->seen += vector_sum(FLOATS, pair->block); }

static void write_block(struct pair *pair) {
    for (size_t i = 0; i < FLOATS; i++) pair->block[i] = 1;
}

static void *partner_main(void *argument) {
    struct pair *pair = argument;
    for (int request; (request = atomic_load(&pair->request)) != LEAVE;) {
        if (request == READ) read_block(pair);
        if (request == WRITE) write_block(pair);
        if (request != NOTHING) atomic_store(&pair->request, NOTHING);
        sched_yield();
    }
    return NULL;
}

/* By the partner; without one, by the own core. */
static void request_access(struct pair *pair, enum request request) {
    if (!pair->several) {
        (request == READ ? read_block : write_block)(pair);
        return;
    }
    atomic_store(&pair->request, request);
    while (atomic_load(&pair->request) != NOTHING) sched_yield();
}

static void copy_block(struct pair *pair) { memcpy(pair->block, pair->own, FLOATS * sizeof(float)); }

static double seconds_of(struct pair *pair, void (*act)(struct pair *pair)) {
    double start = clock_now();
    act(pair);
    return clock_now() - start;
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, number_compare);
    return values[ROUNDS / 2];
}

static struct core_transfer_rates measure(struct pair *pair) {
    double own_read[ROUNDS], own_write[ROUNDS], read[ROUNDS], write[ROUNDS], copy[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        write_block(pair);
        own_read[r] = seconds_of(pair, read_block);
        own_write[r] = seconds_of(pair, write_block);
        request_access(pair, WRITE);
        read[r] = seconds_of(pair, read_block);
        request_access(pair, READ);
        write[r] = seconds_of(pair, write_block);
        for (size_t i = 0; i < FLOATS; i++) pair->own[i] = (float)r;
        request_access(pair, READ);
        copy[r] = seconds_of(pair, copy_block);
    }
    double bytes = FLOATS * sizeof(float);
    double longer_s = (median(read) - median(own_read) + median(write) - median(own_write)) / 2;
    return (struct core_transfer_rates){.copy = median(copy) / bytes,
                                        .take = pair->several && longer_s > 0 ? longer_s / bytes : 0};
}

enum ps_status core_transfer_measure(bool several, struct core_transfer_rates *rates, struct ps_error *error) {
    struct pair pair = {.several = several && cores_usable() > 1};
    struct memory_block memory;
    pthread_t partner;
    TRY(memory_block_take(&memory, 2 * FLOATS * sizeof(float), "profiling", error));
    pair.own = memory_block_carve(&memory, FLOATS * sizeof(float));
    pair.block = memory_block_carve(&memory, FLOATS * sizeof(float));
    int code = pair.several ? thread_start(&partner, partner_main, &pair) : 0;
    if (code == 0) {
        *rates = measure(&pair);
        atomic_store(&pair.request, LEAVE);
        if (pair.several) pthread_join(partner, NULL);
    }
    memory_block_release(&memory);
    if (code) return error_set(error, PS_FAILED, "cannot start a thread to profile with: %s", strerror(code));
    return PS_OK;
}
