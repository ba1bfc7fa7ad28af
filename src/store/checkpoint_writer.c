/* The thread that writes checkpoints; see checkpoint_writer.h. */
#include "store/checkpoint_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"

/* ----------------------------------------------------------------------- directories */

static int by_step(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* At once for those who read meanwhile: its files go when it has no name any more. */
static void remove_checkpoint(const char *parent, int64_t step) {
    char name[64], path[4096], aside[96], unnamed[4096];
    struct ps_error error = {0};
    file_join(path, parent, checkpoint_name(step, name));
    snprintf(aside, sizeof aside, ".%s.%ld.tmp", name, (long)getpid());
    file_join(unnamed, parent, aside);
    const bool renamed = rename(path, unnamed) == 0;
    if (file_remove_directory(renamed ? unnamed : path, &error) != PS_OK)
        log_warn("an old checkpoint stays: %s", error.message);
}

/* Removes all but the newest `keep` of the checkpoints up to `newest`, and `spared` (0: none). */
static void prune(const char *parent, int64_t newest, int keep, int64_t spared) {
    int64_t *steps = NULL;
    size_t count = 0, room = 0;
    DIR *entries = opendir(parent);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        int64_t step = checkpoint_step_of(entry->d_name);
        if (step < 0 || step > newest || (spared != 0 && step == spared)) continue;
        if (memory_grow(&steps, &room, count + 1, "old checkpoints", NULL) != PS_OK) break; /* the next one prunes them */
        steps[count++] = step;
    }
    if (entries) closedir(entries);
    if (count > 0) qsort(steps, count, sizeof *steps, by_step);
    for (size_t i = 0; i + (size_t)keep < count; i++) remove_checkpoint(parent, steps[i]);
    free(steps);
}

/* Removes what interrupted writers left. */
static void remove_unfinished(const char *parent) {
    DIR *entries = opendir(parent);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name);
        char path[4096];
        if (entry->d_name[0] != '.' || length < 5 || strcmp(entry->d_name + length - 4, ".tmp") != 0) continue;
        file_remove_directory(file_join(path, parent, entry->d_name), NULL);
    }
    if (entries) closedir(entries);
}

static enum ps_status put_in_place(const char *temporary, const char *place, const char *parent, struct ps_error *error) {
    /* A checkpoint of this step can only exist if it was skipped when the run was resumed, or lacked the step's evaluation. The
     * two change places, so that one of them is there at any moment; where the file system cannot do that, the old one goes
     * first. */
    bool there = rename(temporary, place) == 0;
    if (!there && (errno == ENOTEMPTY || errno == EEXIST)) {
        there = renameat2(AT_FDCWD, temporary, AT_FDCWD, place, RENAME_EXCHANGE) == 0;
        if (!there) TRY(file_remove_directory(place, error));
        if (!there) there = rename(temporary, place) == 0;
    }
    if (!there) return error_set(error, PS_IO, "%s: cannot be put in its place: %s", place, strerror(errno));
    return file_sync_directory(parent, error);
}

static enum ps_status write_checkpoint(const struct checkpoint_writer *writer, struct ps_error *error) {
    char parent[4096], temporary[4096], place[4096], log[4096], name[64], unfinished[96];
    file_join(parent, writer->run_dir, CHECKPOINT_DIRECTORIES);
    file_join(place, parent, checkpoint_name(writer->state.step, name));
    snprintf(unfinished, sizeof unfinished, ".%s.%ld.tmp", name, (long)getpid());
    file_join(temporary, parent, unfinished);
    TRY(file_make_directory(temporary, error));
    enum ps_status status = checkpoint_image_write(&writer->image, &writer->state, temporary, error);
    /* The log may extend beyond the checkpoint, but must reach it. */
    if (status == PS_OK) status = file_sync_stream(writer->log, file_join(log, writer->run_dir, "log.jsonl"), error);
    if (status == PS_OK) status = put_in_place(temporary, place, parent, error);
    file_remove_directory(temporary, NULL); /* what could not be finished, or the one that changed places with it */
    TRY(status);
    prune(parent, writer->state.step, writer->keep, writer->keep_best ? writer->state.best.step : 0);
    log_debug("checkpoint %s is written", name);
    return PS_OK;
}

/* ---------------------------------------------------------------------------- thread */

static void *thread_main(void *argument) {
    struct checkpoint_writer *writer = argument;
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (!writer->busy && !writer->leave) pthread_cond_wait(&writer->changed, &writer->lock);
        if (!writer->busy) break;
        pthread_mutex_unlock(&writer->lock);
        struct ps_error error = {0};
        enum ps_status status = write_checkpoint(writer, &error);
        pthread_mutex_lock(&writer->lock);
        if (status != PS_OK && writer->status == PS_OK) {
            writer->status = status;
            writer->error = error;
        }
        writer->written += status == PS_OK;
        writer->busy = false;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

enum ps_status checkpoint_writer_start(const struct checkpoint_writer_options *options, struct checkpoint_writer *writer,
                                       struct ps_error *error) {
    char parent[4096];
    *writer = (struct checkpoint_writer){
        .run_dir = options->run_dir, .log = options->log, .keep = options->keep, .keep_best = options->keep_best};
    TRY(file_make_directory(file_join(parent, options->run_dir, CHECKPOINT_DIRECTORIES), error));
    remove_unfinished(parent);
    TRY(file_sync_directory(options->run_dir, error));
    size_t workers = (size_t)options->plan->workers;
    TRY(memory_new(&writer->state.totals, workers, "a checkpoint", error));
    TRY(checkpoint_image_create(options->executor, options->plan, &writer->image, error));
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    int code = thread_start(&writer->thread, thread_main, writer);
    if (code) {
        pthread_cond_destroy(&writer->changed);
        pthread_mutex_destroy(&writer->lock);
        return error_set(error, PS_FAILED, "cannot start a thread for checkpoints: %s", strerror(code));
    }
    writer->started = true;
    return PS_OK;
}

bool checkpoint_writer_busy(struct checkpoint_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    bool busy = writer->busy;
    pthread_mutex_unlock(&writer->lock);
    return busy;
}

enum ps_status checkpoint_writer_wait(struct checkpoint_writer *writer, struct ps_error *error) {
    double started_s = clock_now();
    pthread_mutex_lock(&writer->lock);
    while (writer->busy) pthread_cond_wait(&writer->changed, &writer->lock);
    enum ps_status status = writer->status;
    if (status != PS_OK && error) *error = writer->error;
    pthread_mutex_unlock(&writer->lock);
    writer->stall_s += clock_now() - started_s;
    return status;
}

enum ps_status checkpoint_writer_take(struct checkpoint_writer *writer, const struct checkpoint_state *state,
                                      struct ps_error *error) {
    TRY(checkpoint_writer_wait(writer, error));
    double started_s = clock_now();
    TRY(checkpoint_image_take(&writer->image, error));
    struct worker_totals *totals = writer->state.totals;
    memcpy(totals, state->totals, (size_t)state->workers * sizeof *totals);
    writer->state = *state;
    writer->state.totals = totals;
    pthread_mutex_lock(&writer->lock);
    writer->busy = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    writer->stall_s += clock_now() - started_s;
    return PS_OK;
}

void checkpoint_writer_free(struct checkpoint_writer *writer) {
    if (writer->started) {
        pthread_mutex_lock(&writer->lock);
        writer->leave = true;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        pthread_join(writer->thread, NULL);
        pthread_cond_destroy(&writer->changed);
        pthread_mutex_destroy(&writer->lock);
    }
    checkpoint_image_free(&writer->image);
    free(writer->state.totals);
    *writer = (struct checkpoint_writer){0};
}
