/*
 * Background load during a measurement; see background_load.h. Each round of a thread begins with a number of forwards,
 * different each time. So the threads are not in phase with the measured rounds, and the measurement overlaps with every part
 * of their work.
 */
#include "profile/background_load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/thread.h"

enum { STRIDE = 7919 }; /* a prime: the numbers repeat only after many rounds, also in small networks */

struct member {
    struct background_load *background_load;
    int number;
    pthread_t thread;
    struct bench bench;
    enum ps_status status;
    struct ps_error error;
};

struct background_load {
    struct arena arena;
    struct member *members;
    int count; /* threads started */
    atomic_bool leave;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ready; /* members that are warm, or failed */
};

static void report_ready(struct background_load *background_load) {
    pthread_mutex_lock(&background_load->lock);
    background_load->ready++;
    pthread_cond_signal(&background_load->changed);
    pthread_mutex_unlock(&background_load->lock);
}

static enum ps_status work(struct member *member) {
    struct bench *bench = &member->bench;
    struct ps_error *error = &member->error;
    TRY(bench_open(bench, error));
    TRY(bench_warm(bench, error));
    report_ready(member->background_load);
    for (int round = 0; !atomic_load(&member->background_load->leave); round++) {
        int stretch = (int)((int64_t)STRIDE * (round + member->number) % bench->layer_count);
        TRY(bench_forward(bench, stretch, error));
        TRY(bench_round(bench, round, -1, error));
    }
    return PS_OK;
}

static void *thread_main(void *argument) {
    struct member *member = argument;
    member->status = work(member);
    if (member->status != PS_OK) report_ready(member->background_load);
    return NULL;
}

static enum ps_status start_member(struct background_load *background_load, const struct bench *like, struct ps_error *error) {
    struct member *member = &background_load->members[background_load->count];
    const struct device *device = like->device;
    *member = (struct member){.background_load = background_load, .number = background_load->count, .bench = *like};
    member->bench.repeats = 1;
    TRY(device_open(device->type->name, &(struct device_options){.threads = device->threads}, &member->bench.device, error));
    int code = thread_start(&member->thread, thread_main, member);
    if (code) {
        device_close(member->bench.device);
        return error_set(error, PS_FAILED, "cannot start a thread of background load: %s", strerror(code));
    }
    background_load->count++;
    return PS_OK;
}

enum ps_status background_load_end(struct background_load *background_load, struct ps_error *error) {
    enum ps_status status = PS_OK;
    if (!background_load) return PS_OK;
    atomic_store(&background_load->leave, true);
    for (int i = 0; i < background_load->count; i++) {
        struct member *member = &background_load->members[i];
        pthread_join(member->thread, NULL);
        bench_close(&member->bench);
        device_close(member->bench.device);
        if (status != PS_OK || member->status == PS_OK) continue;
        status = member->status;
        if (error) *error = member->error;
    }
    pthread_cond_destroy(&background_load->changed);
    pthread_mutex_destroy(&background_load->lock);
    struct arena arena = background_load->arena; /* in which it is itself, too */
    arena_release(&arena);
    return status;
}

enum ps_status background_load_start(const struct bench *like, int count, struct background_load **out,
                                     struct ps_error *error) {
    struct arena arena = {0};
    struct background_load *background_load = arena_take(&arena, 1, sizeof *background_load);
    struct member *members = arena_take(&arena, (size_t)count, sizeof *members);
    TRY(arena_check(&arena, "profiling", error));
    *background_load = (struct background_load){.arena = arena, .members = members};
    pthread_mutex_init(&background_load->lock, NULL);
    pthread_cond_init(&background_load->changed, NULL);
    enum ps_status status = PS_OK;
    for (int i = 0; i < count && status == PS_OK; i++) status = start_member(background_load, like, error);
    if (status != PS_OK) {
        background_load_end(background_load, NULL);
        return status;
    }
    *out = background_load;
    return PS_OK;
}

void background_load_wait(struct background_load *background_load) {
    if (!background_load) return;
    pthread_mutex_lock(&background_load->lock);
    while (background_load->ready < background_load->count)
        pthread_cond_wait(&background_load->changed, &background_load->lock);
    pthread_mutex_unlock(&background_load->lock);
}
