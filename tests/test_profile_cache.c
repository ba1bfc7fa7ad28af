/* Profiles that are kept: found again, not for anything else, never damaged ones, and no more than a hundred. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "profile/cache.h"
#include "support.h"

static const int four[] = {4};

static char *measure(const char *directory, const char *model, int threads) {
    const struct ps_profile_options options = {
        .struct_size = sizeof options, .threads = threads, .micro_batches = four, .micro_batch_count = 1, .quick = true};
    struct ps_network *network;
    struct ps_profile *profile;
    assert_ok(ps_network_open(model, &network, &test_error));
    assert_ok(profile_cache_measure(directory, network, &options, "profiling", &profile, &test_error));
    char *json = ps_profile_json(profile);
    ps_profile_destroy(profile);
    ps_network_destroy(network);
    assert_non_null(json);
    return json;
}

/* Two measurements never agree in all of their times, so equal ones are the same. */
static bool same(char *one, char *two) {
    bool equal = strcmp(one, two) == 0;
    free(one);
    free(two);
    return equal;
}

/* The number of files, and the path of one of them. */
static int count(const char *directory, char path[4096]) {
    DIR *entries = opendir(directory);
    int files = 0;
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.') files++, file_join(path, directory, entry->d_name);
    closedir(entries);
    return files;
}

static const char small[] = "lenet5,input=16,classes=4";

static void test_found_again(void **state) {
    (void)state;
    char directory[4096], path[4096], deep[4096];
    test_directory_make(directory);
    file_join(deep, directory, "not/there/yet");
    assert_true(same(measure(deep, small, 1), measure(deep, small, 1)));
    assert_int_equal(count(deep, path), 1);
    assert_false(same(measure(deep, small, 1), measure(NULL, small, 1)));
    assert_false(same(measure(deep, small, 1), measure(deep, small, 2)));
    assert_false(same(measure(deep, small, 1), measure(deep, "lenet5,input=16,classes=5", 1)));
    assert_int_equal(count(deep, path), 3);
}

/* Shorter, changed in any place, or empty: measured anew, and whole again. */
static void test_damaged(void **state) {
    (void)state;
    char directory[4096], path[4096], *data;
    size_t size;
    test_directory_make(directory);
    file_join(directory, directory, "damaged");
    char *first = measure(directory, small, 1);
    assert_int_equal(count(directory, path), 1);
    for (int damage = 0; damage < 5; damage++) {
        assert_ok(file_read(path, 1 << 24, &data, &size, &test_error));
        const size_t at = damage == 0 ? 0 : damage == 1 ? 12 : size / 2;
        if (damage < 3) data[at] ^= 1;
        assert_ok(file_write(path, data, damage < 3 ? size : damage == 3 ? size - 1 : 0, &test_error));
        free(data);
        char *again = measure(directory, small, 1);
        assert_string_not_equal(first, again);
        free(first);
        first = again;
        assert_true(same(strdup(again), measure(directory, small, 1)));
        assert_int_equal(count(directory, path), 1);
    }
    free(first);
}

static void test_bounded(void **state) {
    (void)state;
    char base[4096], directory[4096], name[64], path[4096], oldest[4096];
    test_directory_make(base);
    file_join(directory, base, "many");
    assert_ok(file_make_directory(directory, &test_error));
    for (int f = 0; f < 100; f++) {
        snprintf(name, sizeof name, "%d.profile", f);
        assert_ok(file_write(file_join(path, directory, name), "x", 1, &test_error));
        const struct timespec used[2] = {{.tv_sec = 1000 + f}, {.tv_sec = f == 7 ? 5 : 1000 + f}};
        assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
    }
    free(measure(directory, small, 1));
    assert_int_equal(count(directory, path), 100);
    assert_false(file_exists(file_join(oldest, directory, "7.profile")));
    /* What cannot be written does not stop anybody. */
    assert_ok(file_write(file_join(path, base, "file"), "x", 1, &test_error));
    free(measure(path, small, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found_again), cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
