/* What tests share: see support.h. */
#include "support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

struct ps_error test_error;

static void forget(void) { memset(&test_error, 0, sizeof test_error); }

void test_assert_ok(enum ps_status status, const char *call, const char *file, int line) {
    if (status != PS_OK) {
        print_error("%s\nfailed with %d (%s): %s\n%s\n", call, (int)status, ps_status_text(status), test_error.message,
                    test_error.hint);
        _fail(file, line);
    }
    forget();
}

void test_assert_status(enum ps_status status, enum ps_status wanted, const char *part, const char *call, const char *file,
                        int line) {
    char said[sizeof test_error.message + sizeof test_error.hint + 1];
    snprintf(said, sizeof said, "%s\n%s", test_error.message, test_error.hint);
    const bool found = strstr(said, part) != NULL;
    if (status != wanted || !found) {
        print_error("%s\nreturned %d (%s), wanted %d (%s)\nmessage: %s\nhint: %s\nwanted in it: %s\n", call, (int)status,
                    ps_status_text(status), (int)wanted, ps_status_text(wanted), test_error.message, test_error.hint, part);
        _fail(file, line);
    }
    forget();
}

uint64_t test_seed(void) {
    static uint64_t seed;
    static bool known;
    if (!known) {
        const char *text = getenv("PENSTOCK_TEST_SEED");
        seed = text != NULL ? strtoull(text, NULL, 0) : 1;
        known = true;
        print_message("seed: PENSTOCK_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

struct random_key test_key(uint64_t number) {
    return random_key(test_seed(), RANDOM_TEST, number, 0);
}

bool test_slow(void) { return getenv("PENSTOCK_TEST_SLOW") != NULL; }

bool test_valgrind(void) { return getenv("PENSTOCK_TEST_VALGRIND") != NULL; }

/* So that valgrind, and a sanitizer that was loaded before the program, see what lies beside what. */
__attribute__((constructor)) static void watch_arenas(void) {
    const char *loaded = getenv("LD_PRELOAD");
    if (test_valgrind() || (loaded != NULL && strstr(loaded, "libasan") != NULL)) arena_apart = true;
}

bool test_takes(size_t number, size_t share) { return !test_slow() || number % share == 0; }

void test_directory_make(char path[4096]) {
    const char *parent = getenv("TMPDIR");
    snprintf(path, 4096, "%s/penstock-test-XXXXXX", parent != NULL ? parent : "/tmp");
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    return remove(path);
}

void test_directory_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

char test_directory[4096];

int test_directory_set_up(void **state) {
    (void)state;
    test_directory_make(test_directory);
    return 0;
}

int test_directory_tear_down(void **state) {
    (void)state;
    test_directory_remove(test_directory);
    return 0;
}

void test_file_write(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The first `length` bytes of `text`, and its end if they include it, against those of the file. */
static void compare_golden(const char *path, char *text, size_t length) {
    char *wanted;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &wanted, &size, &test_error));
    for (size_t at = 0, line = 1; at < length && at <= size; at++) {
        if (text[at] != wanted[at])
            fail_msg("%s: line %zu is now: %.120s\n(if so it should be: PENSTOCK_REGENERATE=1)", path, line, text + at);
        line += wanted[at] == '\n';
    }
    free(wanted);
    free(text);
}

void test_golden(const char *path, char *text) {
    assert_non_null(text);
    if (getenv("PENSTOCK_REGENERATE") != NULL) test_file_write(path, text, strlen(text));
    compare_golden(path, text, strlen(text) + 1);
}

void test_golden_begins(const char *path, char *text) {
    assert_non_null(text);
    compare_golden(path, text, strlen(text));
}

const char *test_data(const char *name, char path[4096]) {
    const char *directory = getenv("PENSTOCK_DATA");
    if (directory == NULL) {
        print_message("PENSTOCK_DATA is not set\n");
        skip();
    }
    snprintf(path, 4096, "%s/%s", directory, name);
    if (access(path, R_OK) != 0) {
        print_message("%s: not there\n", path);
        skip();
    }
    return path;
}

const char *test_device(const char *name) {
    const char *far = getenv("PENSTOCK_TEST_FAR");
    if (far == NULL || *far == '\0' || strcmp(name, "clock") == 0 || strcmp(name, "far") == 0) return name;
    setenv("PENSTOCK_FAR_KERNELS", name, 1);
    return "far";
}
