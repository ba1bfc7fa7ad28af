/*
 * The watchdog detects that an executor makes no progress. The thread that waits for the workers polls it.
 *
 * A worker is stalled when for some seconds no worker of this process has executed an instruction, none waits only for another
 * process, and meanwhile the process has neither computed nor read: it hangs in a call that does not return. A slow layer
 * computes (or waits for a processor), slow data are read, a dataset of the program's waits for whatever it likes, a machine
 * with too little memory pages: none of these ever counts as a stall, however long it lasts. Nor does an endless loop, which
 * cannot be distinguished from a slow layer. Time in which this process itself was stopped does not count.
 */
#ifndef PENSTOCK_EXEC_WATCHDOG_H
#define PENSTOCK_EXEC_WATCHDOG_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

/* What a worker is doing. */
enum progress_kind { PROGRESS_DONE, PROGRESS_WORKING, PROGRESS_WAITING };

/* Where a worker is in its program, for other threads: each change is one store. */
struct progress {
    _Atomic uint32_t packed;
};

static inline void progress_note(struct progress *progress, int next, enum progress_kind kind) {
    atomic_store_explicit(&progress->packed, (uint32_t)next << 2 | (uint32_t)kind, memory_order_relaxed);
}

static inline int progress_next(const struct progress *progress) {
    return (int)(atomic_load_explicit(&progress->packed, memory_order_relaxed) >> 2);
}

static inline enum progress_kind progress_kind(const struct progress *progress) {
    return (enum progress_kind)(atomic_load_explicit(&progress->packed, memory_order_relaxed) & 3);
}

/* What the process has done so far, without the calling thread. */
struct effort {
    double computed_s;
    int64_t read_bytes, page_faults; /* page faults that waited for a disk */
};

struct watchdog {
    double patience_s; /* 0: no worker is watched */
    double looked_at, still_s;
    uint32_t *seen; /* by worker: its position at the last poll */
    int workers;
    struct effort effort; /* when the last progress was seen */
    int samples, ready;   /* since then: the number of checks whether a thread was runnable, and how often one was */
};

enum ps_status watchdog_create(int workers, double patience_s, struct watchdog *watchdog, struct ps_error *error);
void watchdog_free(struct watchdog *watchdog);
/* At the beginning of a segment. */
void watchdog_start(struct watchdog *watchdog);
/* The worker among [first, end) that is stalled, or -1; `alone`: there are no other processes, so that all waiting workers wait
 * for each other. */
int watchdog_look(struct watchdog *watchdog, const struct progress *progress, int first, int end, bool alone);

#endif
