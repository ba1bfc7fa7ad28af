/* A queue of workers; see run_queue.h. A thread that finds no runnable worker spins for a while before it sleeps, as in
 * executor_run.c.
 */
#include "exec/run_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"

struct run_queue {
    struct arena arena;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int *queue; /* a ring */
    int capacity, first, count;
    int waiting;     /* of those at the queue's end, how many wait for the progress of another one */
    int unfinished;  /* in the queue or running */
    int64_t came_on; /* slices with progress, */
    int64_t *seen;   /* and how many of them when each worker's slice began */
    bool stopped;
};

enum ps_status run_queue_create(int workers, struct run_queue **out, struct ps_error *error) {
    struct arena arena = {0};
    struct run_queue *turns = arena_take(&arena, 1, sizeof *turns);
    int *queue = arena_take(&arena, (size_t)workers, sizeof *queue);
    int64_t *seen = arena_take(&arena, (size_t)workers, sizeof *seen);
    TRY(arena_check(&arena, "workers' turns", error));
    *turns = (struct run_queue){.arena = arena, .queue = queue, .seen = seen};
    turns->capacity = workers;
    pthread_mutex_init(&turns->lock, NULL);
    pthread_cond_init(&turns->changed, NULL);
    *out = turns;
    return PS_OK;
}

void run_queue_destroy(struct run_queue *turns) {
    if (!turns) return;
    pthread_cond_destroy(&turns->changed);
    pthread_mutex_destroy(&turns->lock);
    struct arena arena = turns->arena; /* in which `turns` is, too */
    arena_release(&arena);
}

void run_queue_start(struct run_queue *turns, int first, int end) {
    assert(end - first <= turns->capacity);
    pthread_mutex_lock(&turns->lock);
    turns->first = turns->waiting = 0;
    turns->count = turns->unfinished = end - first;
    for (int i = 0; i < turns->count; i++) turns->queue[i] = first + i;
    pthread_mutex_unlock(&turns->lock);
}

int run_queue_take(struct run_queue *turns) {
    int worker = -1;
    bool spins = true;
    double until = 0;
    pthread_mutex_lock(&turns->lock);
    while (turns->unfinished > 0 && !turns->stopped && turns->count == turns->waiting) {
        if (spins) {
            pthread_mutex_unlock(&turns->lock);
            if (until == 0) until = clock_now() + SPIN_S;
            spins = clock_spin(until);
            pthread_mutex_lock(&turns->lock);
        } else {
            pthread_cond_wait(&turns->changed, &turns->lock);
        }
    }
    if (turns->unfinished > 0 && !turns->stopped) {
        worker = turns->queue[turns->first];
        turns->first = (turns->first + 1) % turns->capacity;
        turns->count--;
        turns->seen[worker] = turns->came_on;
    }
    pthread_mutex_unlock(&turns->lock);
    return worker;
}

void run_queue_give(struct run_queue *turns, int worker, enum slice turn) {
    pthread_mutex_lock(&turns->lock);
    if (turn == SLICE_FINISHED) {
        turns->unfinished--;
    } else {
        turns->queue[(turns->first + turns->count) % turns->capacity] = worker;
        turns->count++;
    }
    turns->came_on += turn != SLICE_WAITS;
    /* Another worker may have progressed after this one checked. */
    bool waits = turns->came_on == turns->seen[worker];
    turns->waiting = waits ? turns->waiting + 1 : 0;
    if (!waits) pthread_cond_broadcast(&turns->changed);
    pthread_mutex_unlock(&turns->lock);
}

void run_queue_stop(struct run_queue *turns) {
    pthread_mutex_lock(&turns->lock);
    turns->stopped = true;
    pthread_cond_broadcast(&turns->changed);
    pthread_mutex_unlock(&turns->lock);
}
