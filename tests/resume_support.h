/*
 * What the tests of going on with a run share: a small run with checkpoints, a copy of it as it was when one of them was the
 * newest, and what two runs that end alike have in common. One file of a test includes it: it also takes the place of the C
 * library's calls that write.
 */
#ifndef PENSTOCK_TESTS_RESUME_SUPPORT_H
#define PENSTOCK_TESTS_RESUME_SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run_support.h"

/*
 * The library's own calls of these end here. Counted down to a failure, they fail once and every time after it, as on a disk
 * that is full or gone. Nothing is synced: what that is for, a machine without power, cannot be tried here, and it would take
 * most of the test's time.
 */
enum fault { FAULT_NONE, FAULT_SYNC, FAULT_RENAME, FAULT_WRITE, FAULTS };
static enum fault fault;
static int calls_until_fault;

static inline bool fails(enum fault which, int reason) {
    if (fault != which || __atomic_sub_fetch(&calls_until_fault, 1, __ATOMIC_RELAXED) > 0) return false;
    errno = reason;
    return true;
}

int fsync(int descriptor) {
    (void)descriptor;
    return fails(FAULT_SYNC, EIO) ? -1 : 0;
}

int rename(const char *old, const char *new) {
    return fails(FAULT_RENAME, EACCES) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, old, AT_FDCWD, new);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    /* A full disk takes what fits first. */
    if (fails(FAULT_WRITE, ENOSPC))
        return size > 1 && calls_until_fault == 0 ? syscall(SYS_write, descriptor, data, size / 2) : -1;
    return syscall(SYS_write, descriptor, data, size);
}

/* Epochs of 8 steps; segments of 3, 3, 2, 3, 3, 2, 3, 1. */
static const struct run_case base = {.workers = 3,
                                     .micro_batch = 4,
                                     .micro_batches = 3,
                                     .steps = 20,
                                     .data = "synthetic:images,samples=97",
                                     .valid = "synthetic:images,samples=21",
                                     .lr_schedule = "cosine"};
enum { EVERY = 3, LAST = 20 };
static const int checkpoints[] = {0, 3, 6, 8, 11, 14, 16, 19, 20};
enum { CHECKPOINTS = sizeof checkpoints / sizeof *checkpoints };

/* Writes the case's plan as NAME.json and returns options for a run in NAME. */
static inline struct training prepare(struct run_case wanted, const char *name, char plan_path[4096], char out[4096]) {
    char file[64];
    wanted = run_case_complete(wanted);
    snprintf(file, sizeof file, "%s.json", name);
    struct ps_plan *plan = run_case_plan(&wanted);
    assert_ok(ps_plan_write(plan, file_join(plan_path, test_directory, file), &test_error));
    ps_plan_destroy(plan);
    struct training options = run_case_options(&wanted, plan_path, file_join(out, test_directory, name));
    options.o.checkpoint_every = EVERY;
    options.o.keep_checkpoints = 100;
    return options;
}

static inline void train(const struct training *options) {
    struct ps_run *run;
    assert_ok(training_run(options, &run, &test_error));
    ps_run_destroy(run);
}

/* Trains the case undisturbed in NAME. */
static inline void train_whole(struct run_case wanted, const char *name, char out[4096]) {
    char plan_path[4096];
    struct training options = prepare(wanted, name, plan_path, out);
    train(&options);
}

static inline void shell(const char *format, const char *a, const char *b) {
    char command[9000];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, format, a, b);
#pragma GCC diagnostic pop
    assert_int_equal(system(command), 0);
}

static inline const char *checkpoint_path(const char *run_dir, int step, char path[4096]) {
    char name[128];
    snprintf(name, sizeof name, "checkpoints/%06d", step);
    return file_join(path, run_dir, name);
}

/* A copy of the run as it was when checkpoint `step` was its newest. */
static inline void interrupted_copy(const char *run_dir, int step, const char *copy) {
    char last[16];
    snprintf(last, sizeof last, "%06d", step);
    shell("c='%s'; rm -rf \"$c\"; cp -r '%s' \"$c\"", copy, run_dir);
    shell("cd '%s' && rm -f summary.json && cd checkpoints && ls | awk '$0 > \"%s\"' | xargs -r rm -r", copy, last);
}

static inline struct training resume_options(const char *run_dir) {
    struct training options;
    training_init(&options);
    options.o.resume = run_dir;
    return options;
}

/* Both runs' last checkpoints hold the same weights and moments, bit for bit. */
static inline void assert_same_end(const char *model, const char *one, const char *other) {
    struct trained a = trained_read(model, one), b = trained_read(model, other);
    assert_true(trained_equal(&a, &b));
    trained_free(&a);
    trained_free(&b);
    char path[4096], path_other[4096];
    shell("cd '%s'; for f in optimizer-*; do [ \"$f\" = 'optimizer-*' ] || cmp \"$f\" '%s'/$f || exit 1; done",
          checkpoint_path(one, LAST, path), checkpoint_path(other, LAST, path_other));
}

/* The log has each line once, with the same figures. */
static inline void assert_same_log(const char *one, const char *other) {
    char a[4096], b[4096];
    shell("for r in '%s' '%s'; do sed 's/, \"samples_per_s.*//; s/, \"elapsed_s.*//' $r; echo; done | awk 'NF {n[$0]++} END "
          "{for (l in n) if (n[l] "
          "!= 2) {print l; exit 1}}'",
          file_join(a, one, "log.jsonl"), file_join(b, other, "log.jsonl"));
}

static inline json_t *read_summary(const char *run_dir) {
    char path[4096];
    json_t *summary = json_load_file(file_join(path, run_dir, "summary.json"), 0, NULL);
    assert_non_null(summary);
    return summary;
}

/* A figure of a worker in the summary. */
static inline double worker_figure(const json_t *summary, size_t worker, const char *field) {
    const json_t *value = json_object_get(json_array_get(json_object_get(summary, "workers"), worker), field);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static inline void assert_same_summary(const char *one, const char *other) {
    static const char *const fields[] = {"step", "epoch", "loss", "accuracy", "valid_loss", "valid_accuracy", "lr"};
    json_t *a = read_summary(one), *b = read_summary(other);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        assert_non_null(json_object_get(a, fields[i]));
        assert_true(json_equal(json_object_get(a, fields[i]), json_object_get(b, fields[i])));
    }
    /* What went before counts. */
    for (size_t w = 0; w < json_array_size(json_object_get(a, "workers")); w++) {
        assert_true(worker_figure(a, w, "sent_bytes") == worker_figure(b, w, "sent_bytes"));
        assert_true(worker_figure(a, w, "received_bytes") == worker_figure(b, w, "received_bytes"));
    }
    json_decref(a);
    json_decref(b);
}

#endif
