/* Choosing a complete checkpoint of a run; see checkpoint.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint.h"
#include "store/manifest.h"

int64_t checkpoint_step_of(const char *name) {
    size_t length = strlen(name);
    if (length < 6 || length > 18) return -1;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)name[i])) return -1;
    return strtoll(name, NULL, 10);
}

const char *checkpoint_name(int64_t step, char name[64]) {
    snprintf(name, 64, "%06lld", (long long)step);
    return name;
}

/* The newest of them before *step: its step and name; step -1: there is none. */
static enum ps_status find_before(const char *parent, int64_t *step, char newest[64], struct ps_error *error) {
    const int64_t before = *step;
    *step = -1;
    DIR *entries = opendir(parent);
    if (!entries && (errno == ENOENT || errno == ENOTDIR)) return PS_OK;
    if (!entries)
        return error_set(error, errno == ENOMEM ? PS_OUT_OF_MEMORY : PS_IO, "%s: cannot read: %s", parent, strerror(errno));
    for (struct dirent *entry; (entry = readdir(entries));) {
        int64_t found = checkpoint_step_of(entry->d_name);
        if (found <= *step || found >= before) continue;
        *step = found;
        snprintf(newest, 64, "%.60s", entry->d_name);
    }
    closedir(entries);
    return PS_OK;
}

static enum ps_status open_checkpoint(struct checkpoint *checkpoint, int64_t step, struct ps_error *error) {
    TRY(manifest_check(checkpoint->directory, error));
    TRY(checkpoint_state_read(checkpoint, error));
    if (checkpoint->state.step == step) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: holds step %lld", checkpoint->directory, (long long)checkpoint->state.step);
}

enum ps_status checkpoint_find(const char *run_dir, struct checkpoint *out, struct ps_error *error) {
    char parent[4096], name[64];
    int64_t step = INT64_MAX;
    int skipped = 0, removed = 0;
    file_join(parent, run_dir, CHECKPOINT_DIRECTORIES);
    struct ps_error trouble = {0};
    for (;;) {
        TRY(find_before(parent, &step, name, error));
        if (step < 0) break;
        struct checkpoint checkpoint = {0};
        file_join(checkpoint.directory, parent, name);
        enum ps_status status = open_checkpoint(&checkpoint, step, &trouble);
        if (status == PS_OK) {
            *out = checkpoint;
            return PS_OK;
        }
        const bool again = !file_exists(checkpoint.directory) && removed++ < CHECKPOINT_TRIES;
        checkpoint_free(&checkpoint);
        if (again) {
            step = INT64_MAX;
            skipped = 0;
            continue;
        }
        if (status != PS_BAD_INPUT) {
            if (error) *error = trouble;
            return status;
        }
        log_warn("checkpoint %s is skipped: %s", name, trouble.message);
        skipped++;
    }
    if (skipped == 0) return error_set(error, PS_NO_CHECKPOINT, "%s: holds no checkpoint", run_dir);
    error_set(error, PS_NO_CHECKPOINT, "%s: none of its %d checkpoints is complete", run_dir, skipped);
    error_hint(error, "the oldest: %s", trouble.message);
    return PS_NO_CHECKPOINT;
}

/* "; there are 3, 6" */
static const char *list_steps(const char *parent, char list[160]) {
    int64_t step = INT64_MAX;
    char name[64];
    size_t used = 0;
    list[0] = '\0';
    while (find_before(parent, &step, name, NULL) == PS_OK && step >= 0 && used < 120)
        used += (size_t)snprintf(list + used, 160 - used, "%s %lld", used > 0 ? "," : "; there are", (long long)step);
    return list;
}

static enum ps_status open_step(const char *run_dir, int64_t step, const char *which, struct checkpoint *out,
                                struct ps_error *error) {
    char parent[4096], name[64], list[160];
    struct checkpoint checkpoint = {0};
    file_join(parent, run_dir, CHECKPOINT_DIRECTORIES);
    file_join(checkpoint.directory, parent, checkpoint_name(step, name));
    if (!file_exists(checkpoint.directory)) {
        error_set(error, PS_NO_CHECKPOINT, "`checkpoint`: %s does not keep %s, of step %lld%s", run_dir, which, (long long)step,
                  list_steps(parent, list));
        error_hint(error, "training keeps the best by `keep_best`, and the newest `keep_checkpoints`");
        return PS_NO_CHECKPOINT;
    }
    enum ps_status status = open_checkpoint(&checkpoint, step, error);
    if (status == PS_OK)
        *out = checkpoint;
    else
        checkpoint_free(&checkpoint);
    return status;
}

enum ps_status checkpoint_choose(const char *run_dir, const char *which, struct checkpoint *out, struct ps_error *error) {
    struct checkpoint newest;
    char *end;
    if (!which || strcmp(which, "newest") == 0) return checkpoint_find(run_dir, out, error);
    if (strcmp(which, "best") == 0) {
        TRY(checkpoint_find(run_dir, &newest, error));
        const int64_t step = newest.state.best.step;
        checkpoint_free(&newest);
        if (step > 0) return open_step(run_dir, step, "the best one", out, error);
        return error_set(error, PS_NO_CHECKPOINT, "`checkpoint`: %s was never evaluated, so there is no best one", run_dir);
    }
    const long long step = strtoll(which, &end, 10);
    if (*end != '\0' || end == which || step < 0)
        return error_set(error, PS_USAGE, "`checkpoint`: '%.40s' is none of newest, best and a step", which);
    return open_step(run_dir, step, "this one", out, error);
}

void checkpoint_free(struct checkpoint *checkpoint) {
    free(checkpoint->stages);
    free(checkpoint->state.totals);
    *checkpoint = (struct checkpoint){0};
}
