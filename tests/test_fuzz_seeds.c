/* Every seed of the fuzz targets (fuzz/targets.h), and every finding that was kept as one, is read or refused in one line; so
 * is each cut short, and with one byte changed. */
#include <dirent.h>

#include "base/file.h"
#include "fuzz/targets.h"
#include "support.h"

enum { VARIANTS = 12 };

static void run_seed(const struct fuzz_target *target, const char *path) {
    char *seed = NULL;
    size_t size = 0;
    assert_ok(file_read(path, 1 << 20, &seed, &size, &test_error));
    target->run((const uint8_t *)seed, size);
    for (size_t v = 1; v < VARIANTS && size > VARIANTS; v++) {
        char *copy = malloc(size); /* of this size, so that a sanitizer sees who reads on */
        assert_non_null(copy);
        memcpy(copy, seed, size);
        copy[size * v / VARIANTS] ^= (char)(1 << v % 8);
        target->run((const uint8_t *)copy, size);
        target->run((const uint8_t *)copy, size * v / VARIANTS);
        free(copy);
    }
    free(seed);
}

static void test_seeds(void **state) {
    const struct fuzz_target *target = *state;
    char directory[512], path[1024];
    int count = 0;
    snprintf(directory, sizeof directory, "%s/fuzz/seeds/%s", TEST_DIRECTORY, target->name);
    DIR *seeds = opendir(directory);
    assert_non_null(seeds);
    for (const struct dirent *entry = readdir(seeds); entry != NULL; entry = readdir(seeds)) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        run_seed(target, path);
        count++;
    }
    closedir(seeds);
    assert_true(count > 0);
}

int main(void) {
    struct CMUnitTest tests[sizeof fuzz_targets / sizeof *fuzz_targets];
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++)
        tests[t] = (struct CMUnitTest){
            .name = fuzz_targets[t].name, .test_func = test_seeds, .initial_state = (void *)(uintptr_t)&fuzz_targets[t]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
