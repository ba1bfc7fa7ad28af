/*
 * Runs whose checkpoints are damaged, and disks that fail: a run goes on only from a checkpoint that is whole, and whatever
 * call fails while one is written, what was kept before is.
 */
#include <dirent.h>

#include "resume_support.h"
#include "store/manifest.h"

/* ------------------------------------------------------------------------- damage */

/* Calls `change` on the file's contents and puts the result in its place, then the old again. */
static void with_file(const char *run_dir, const char *path, const char *contents, size_t size, size_t position, bool cut) {
    char *changed = malloc(size + 1);
    assert_non_null(changed);
    memcpy(changed, contents, size);
    if (!cut) changed[position] = (char)(changed[position] ^ (1 << position % 8));
    test_file_write(path, changed, cut ? position : size);
    free(changed);
    struct checkpoint checkpoint;
    assert_ok(checkpoint_find(run_dir, &checkpoint, &test_error));
    if (checkpoint.state.step != 19)
        print_message("%s: %s at byte %zu was not noticed\n", path, cut ? "a cut" : "a changed bit", position);
    assert_int_equal(checkpoint.state.step, 19);
    checkpoint_free(&checkpoint);
    test_file_write(path, contents, size);
}

static void damage_file(const char *run_dir, const char *path, uint64_t stream) {
    char *contents;
    size_t size;
    assert_ok(file_read(path, 1 << 24, &contents, &size, &test_error));
    struct random_key key = test_key(stream);
    for (uint64_t i = 0; i < 40; i++) {
        if (!test_takes(i, 13)) continue;
        size_t position = i < 8 ? i : i < 16 ? size - 1 - (i - 8) : random_below(key, i, (uint32_t)size);
        if (position >= size) continue;
        with_file(run_dir, path, contents, size, position, false);
        with_file(run_dir, path, contents, size, position, true);
    }
    struct checkpoint checkpoint;
    unlink(path);
    assert_ok(checkpoint_find(run_dir, &checkpoint, &test_error));
    assert_int_equal(checkpoint.state.step, 19);
    checkpoint_free(&checkpoint);
    test_file_write(path, contents, size);
    free(contents);
}

static void test_damage(void **state) {
    (void)state;
    char out[4096], path[4096], file[4096];
    train_whole(base, "damage", out);
    DIR *entries = opendir(checkpoint_path(out, LAST, path));
    assert_non_null(entries);
    uint64_t files = 0;
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.') damage_file(out, file_join(file, path, entry->d_name), ++files);
    closedir(entries);
    assert_int_equal(files, 3 + 3 + 3);
    struct checkpoint checkpoint;
    assert_ok(checkpoint_find(out, &checkpoint, &test_error));
    assert_int_equal(checkpoint.state.step, LAST);
    checkpoint_free(&checkpoint);
}

/* Writes a manifest of these lines, with its end. */
static void write_manifest(const char *directory, const char *lines, size_t size) {
    char path[4096];
    struct text manifest = {0};
    manifest_begin(&manifest);
    text_add_raw(&manifest, lines, size);
    const uint32_t sum = file_checksum(&(struct file_piece){manifest.data, manifest.length}, 1);
    text_add(&manifest, "%08x end\n", (unsigned)sum);
    test_file_write(file_join(path, directory, MANIFEST_NAME), manifest.data, manifest.length);
    text_free(&manifest);
}

/* Manifests that are whole, but not of their checkpoint: a file is left out, or named again and again. */
static void test_manifests(void **state) {
    (void)state;
    char out[4096], directory[4096], path[4096], *text;
    size_t size;
    train_whole(base, "manifests", out);
    checkpoint_path(out, LAST, directory);
    assert_ok(file_read(file_join(path, directory, MANIFEST_NAME), 1 << 20, &text, &size, &test_error));
    const char *first = strchr(text, '\n') + 1, *second = strchr(first, '\n') + 1, *end = strrchr(text, ' ') - 8;
    write_manifest(directory, first, (size_t)(end - first));
    assert_ok(manifest_check(directory, &test_error));
    write_manifest(directory, second, (size_t)(end - second));
    assert_status(manifest_check(directory, &test_error), PS_BAD_INPUT, "safetensors: is not in manifest.txt");
    /* 15 MB of one line; who reads a file for each, or looks at the rest of the text, takes minutes. */
    struct text many = {0};
    while (many.length < 15000000) text_add_raw(&many, first, (size_t)(second - first));
    write_manifest(directory, many.data, many.length);
    assert_status(manifest_check(directory, &test_error), PS_BAD_INPUT, "manifest.txt: names ");
    text_free(&many);
    struct checkpoint checkpoint;
    assert_ok(checkpoint_find(out, &checkpoint, &test_error));
    assert_int_equal(checkpoint.state.step, 19);
    checkpoint_free(&checkpoint);
    free(text);
}

/* A checkpoint that is whole, but without the last of its stages. */
static void test_fewer_stages(void **state) {
    (void)state;
    char out[4096], copy[4096], directory[4096], path[4096], *text;
    size_t size;
    train_whole(base, "fewer", out);
    interrupted_copy(out, 16, file_join(copy, test_directory, "copy"));
    checkpoint_path(copy, 16, directory);
    json_t *document = json_load_file(file_join(path, directory, "state.json"), 0, NULL),
           *stages = json_object_get(document, "stages");
    assert_true(json_array_size(stages) > 1);
    json_array_remove(stages, json_array_size(stages) - 1);
    char *changed = json_dumps(document, 0);
    json_decref(document);
    assert_int_equal(unlink(path), 0);
    assert_ok(file_read(file_join(path, directory, MANIFEST_NAME), 1 << 20, &text, &size, &test_error));
    struct text lines = {0};
    char *rest, *line = strtok_r(text, "\n", &rest);
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL)
        if (!strstr(line, "state.json") && !strstr(line, " end")) text_add(&lines, "%s\n", line);
    const struct file_piece piece = {changed, strlen(changed)};
    assert_ok(manifest_create_file(&lines, directory, "state.json", &piece, 1, &test_error));
    write_manifest(directory, lines.data, lines.length);
    const struct training options = resume_options(copy);
    struct ps_run *run;
    assert_status(training_run(&options, &run, &test_error), PS_BAD_INPUT, "000016: its stages end with layer ");
    text_free(&lines);
    free(changed);
    free(text);
}

static void keep_warnings(void *context, enum ps_log_level level, const char *text) {
    if (level == PS_LOG_WARN) text_add(context, "%s\n", text);
}

/* All but the newest go, and nothing is said of them. */
static void test_pruned(void **state) {
    (void)state;
    char plan_path[4096], out[4096], path[4096];
    struct training options = prepare(base, "pruned", plan_path, out);
    struct text warnings = {0};
    options.o.keep_checkpoints = 1;
    assert_ok(ps_log_to(
        &(struct ps_log_sink){
            .struct_size = sizeof(struct ps_log_sink), .context = &warnings, .level = PS_LOG_WARN, .line = keep_warnings},
        &test_error));
    train(&options);
    assert_ok(ps_log_to(NULL, &test_error));
    assert_int_equal(warnings.length, 0);
    text_free(&warnings);
    int count = 0;
    DIR *entries = opendir(file_join(path, out, "checkpoints"));
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) count += entry->d_name[0] != '.';
    closedir(entries);
    assert_int_equal(count, 1);
}

/* The newest is damaged, so is the one before: it goes on from the third, and ends as the run that was never interrupted. */
static void test_passes_over(void **state) {
    (void)state;
    char out[4096], copy[4096], path[4096], file[4096];
    train_whole(base, "over", out);
    interrupted_copy(out, 16, file_join(copy, test_directory, "copy"));
    assert_int_equal(truncate(file_join(file, checkpoint_path(copy, 16, path), "state.json"), 10), 0);
    assert_int_equal(unlink(file_join(file, checkpoint_path(copy, 14, path), "manifest.txt")), 0);
    /* What an interrupted writer left goes, and what somebody else put there stays. */
    shell("cd '%s'/checkpoints%s && mkdir .000017.123.tmp .tmp 000017.tmp .000017.123 && touch .000017.123.tmp/manifest.txt",
          copy, "");
    struct training options = resume_options(copy);
    struct text warnings = {0};
    assert_ok(ps_log_to(
        &(struct ps_log_sink){
            .struct_size = sizeof(struct ps_log_sink), .context = &warnings, .level = PS_LOG_WARN, .line = keep_warnings},
        &test_error));
    train(&options);
    assert_ok(ps_log_to(NULL, &test_error));
    assert_non_null(strstr(warnings.data, "checkpoint 000016 is skipped: "));
    assert_non_null(strstr(warnings.data, "checkpoint 000014 is skipped: "));
    int lines = 0;
    for (const char *c = warnings.data; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 2); /* and of nothing else */
    text_free(&warnings);
    assert_same_end("lenet5,input=16,classes=4", out, copy);
    assert_same_log(out, copy);
    static const char *const beside[] = {".tmp", "000017.tmp", ".000017.123"};
    assert_false(file_exists(file_join(file, copy, "checkpoints/.000017.123.tmp")));
    for (int b = 0; b < 3; b++) {
        file_join(path, copy, "checkpoints");
        assert_true(file_exists(file_join(file, path, beside[b])));
    }
    /* None is left. */
    interrupted_copy(out, 3, copy);
    assert_int_equal(truncate(file_join(file, checkpoint_path(copy, 3, path), "state.json"), 10), 0);
    assert_int_equal(truncate(file_join(file, checkpoint_path(copy, 0, path), "state.json"), 10), 0);
    struct ps_run *run;
    assert_status(training_run(&options, &run, &test_error), PS_NO_CHECKPOINT, "none of its 2 checkpoints is complete");
    assert_status(ps_export(copy, "safetensors", "x", &test_error), PS_NO_CHECKPOINT, "none of its 2");
    shell("rm -r '%s'/checkpoints%s", copy, "");
    assert_status(training_run(&options, &run, &test_error), PS_NO_CHECKPOINT, "holds no checkpoint");
    options.o.resume = test_directory;
    assert_status(training_run(&options, &run, &test_error), PS_NO_CHECKPOINT, "holds no run");
}

/* ------------------------------------------------------------------------- faults */

/* Whatever call fails while a run writes, it ends with status 5 and one line; what was kept before is whole, and the run that
 * goes on from it ends as if nothing had been. */
static void fail_at(const char *whole, enum fault which, int call, int *failures) {
    char out[4096], plan_path[4096];
    struct training options = prepare(base, "fault", plan_path, out);
    shell("rm -rf '%s'%s", out, "");
    struct ps_run *run;
    fault = which;
    calls_until_fault = call;
    enum ps_status status = training_run(&options, &run, &test_error);
    fault = FAULT_NONE;
    if (status == PS_OK) {
        ps_run_destroy(run);
        return;
    }
    ++*failures;
    assert_status(status, PS_IO, which == FAULT_WRITE ? "No space left" : which == FAULT_SYNC ? "Input/output" : "Permission");
    options = resume_options(out);
    status = training_run(&options, &run, &test_error);
    if (status == PS_NO_CHECKPOINT) {
        /* Before its first checkpoint was in its place there was no run: it can begin again. */
        char path[4096];
        assert_false(file_exists(file_join(path, out, "config.json")));
        memset(&test_error, 0, sizeof test_error);
        options = prepare(base, "fault", plan_path, out);
        status = training_run(&options, &run, &test_error);
    }
    assert_ok(status);
    ps_run_destroy(run);
    assert_same_end("lenet5,input=16,classes=4", whole, out);
    assert_same_log(whole, out);
}

static void test_faults(void **state) {
    (void)state;
    char whole[4096];
    train_whole(base, "whole", whole);
    struct random_key key = test_key(100);
    int failures = 0, tried = 0;
    for (int which = FAULT_SYNC; which < FAULTS; which++)
        for (uint64_t i = 0; i < 8; i++) {
            if (!test_takes(i, 8)) continue;
            int calls[FAULTS] = {[FAULT_SYNC] = 110, [FAULT_RENAME] = 13, [FAULT_WRITE] = 160};
            fail_at(whole, (enum fault)which, 1 + (int)random_below(key, 100 * (uint64_t)which + i, (uint32_t)calls[which]),
                    &failures);
            tried++;
        }
    print_message("%d of %d runs met a fault\n", failures, tried);
    assert_true(test_slow() || failures > tried / 2);
}

/* ------------------------------------------------------------------------ reading */

static int accesses_until_fault;

int access(const char *path, int mode) {
    if (accesses_until_fault > 0 && --accesses_until_fault == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

/* A disk that does not say whether a file is there says not that it is absent: the run does not go on without its moments, its
 * network or its log. */
static void test_unknown_files(void **state) {
    (void)state;
    char out[4096], copy[4096];
    int questions = 0;
    bool asked = true;
    train_whole(base, "unknown", out);
    file_join(copy, test_directory, "unknown-copy");
    for (int n = 1; asked; n += test_slow() ? 8 : 1) {
        interrupted_copy(out, 19, copy);
        struct training options = resume_options(copy);
        struct ps_run *run;
        accesses_until_fault = n;
        enum ps_status status = training_run(&options, &run, &test_error);
        asked = accesses_until_fault == 0;
        questions += asked;
        accesses_until_fault = 0;
        test_error = (struct ps_error){0};
        if (status != PS_OK) continue;
        ps_run_destroy(run);
        assert_same_end("lenet5,input=16,classes=4", out, copy);
        assert_same_log(out, copy);
    }
    assert_true(questions > (test_slow() ? 0 : 5));
}

/* A file of the newest checkpoint that the system does not let one read is no damage: an older one would be another result. */
static int open_refused;

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    if (open_refused != 0 && strstr(path, "state.json") != NULL) {
        errno = open_refused;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void test_refused_files(void **state) {
    (void)state;
    static const int reasons[] = {EACCES, EPERM, EIO, EMFILE};
    char out[4096];
    struct checkpoint checkpoint;
    train_whole(base, "refused", out);
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        open_refused = reasons[i];
        assert_status(checkpoint_find(out, &checkpoint, &test_error), PS_IO, strerror(reasons[i]));
    }
    open_refused = 0;
    assert_ok(checkpoint_find(out, &checkpoint, &test_error));
    checkpoint_free(&checkpoint);
}

/* A run whose files vanish, or are not its own any more, while it goes on has kept nothing, and says so; `what` is done in its
 * directory before the last step. */
static void test_vanished(void **state) {
    (void)state;
    static const struct {
        const char *what, *said;
    } cases[] = {
        {"rm checkpoints/*/manifest.txt", "manifest.txt: cannot open"},
        {"rm checkpoints/*/*.safetensors", "safetensors: is gone"},
        {"for f in checkpoints/*/optimizer*; do echo >>$f; done", "not as it was written"},
        {"rm -r checkpoints/*", "manifest.txt: cannot open"},
        {"rm log.jsonl", "log.jsonl: is gone"},
        {"cp log.jsonl l && mv l log.jsonl", "log.jsonl: is gone, or not the file"},
        {"rm config.json", "config.json: is gone"},
        {"rm plan.json", "plan.json: is gone"},
        {"rm network.json", "network.json: is gone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[4096], plan_path[4096];
        struct run_case wanted = base;
        struct ps_run *run;
        struct ps_trainer *trainer;
        wanted.steps = 2;
        wanted.valid = NULL;
        const struct training options = prepare(wanted, "vanished", plan_path, out);
        struct training_objects objects;
        assert_ok(training_open(&options, &objects, &test_error));
        assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
        assert_ok(ps_trainer_step(trainer, 2, &test_error));
        assert_ok(ps_trainer_save(trainer, NULL, &test_error));
        shell("cd '%s' && %s", out, cases[i].what);
        assert_status(ps_trainer_finish(trainer, &run, &test_error), PS_IO, cases[i].said);
        ps_trainer_destroy(trainer);
        training_close(&objects);
        assert_false(file_exists(file_join(plan_path, out, "summary.json")));
        shell("rm -rf '%s'%s", out, "");
    }
}

/* What the optimizer has must be in config.json: a default in its place would train otherwise. */
static void test_missing_settings(void **state) {
    (void)state;
    static const struct {
        const char *optimizer, *field;
    } settings[] = {{"sgdm", "lr"},     {"sgdm", "momentum"}, {"sgdm", "dampening"}, {"sgdm", "weight_decay"},
                    {"adamw", "betas"}, {"adamw", "eps"},     {"adamw", "lr"}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char out[4096], path[4096];
        struct run_case wanted = base;
        wanted.optimizer = settings[i].optimizer;
        wanted.steps = 1;
        wanted.valid = NULL;
        train_whole(wanted, "settings", out);
        json_t *config = json_load_file(file_join(path, out, "config.json"), 0, NULL);
        assert_int_equal(json_object_del(config, settings[i].field), 0);
        assert_int_equal(json_dump_file(config, path, 0), 0);
        json_decref(config);
        struct training options = resume_options(out);
        struct ps_run *run;
        assert_status(training_run(&options, &run, &test_error), PS_BAD_INPUT, settings[i].field);
        shell("rm -r '%s'%s", out, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_manifests),     cmocka_unit_test(test_passes_over),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_unknown_files), cmocka_unit_test(test_missing_settings),
        cmocka_unit_test(test_fewer_stages), cmocka_unit_test(test_pruned),        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_vanished),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
