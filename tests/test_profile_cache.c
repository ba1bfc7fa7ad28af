/* Profiles that are kept: found again, not for anything else, never damaged ones, doubted ones once, and no more than
 * a hundred. They are measured by a clock that goes on by the same time at each look, a little more in each measurement. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/processor.h"
#include "base/text.h"
#include "graph/network.h"
#include "profile/cache.h"
#include "profile/profile.h"
#include "support.h"

static const int four[] = {4};

static _Thread_local bool own; /* the thread that measures */
static double seconds, step_s = 0x1p-6;

/* In place of the library's. */
double clock_now(void) {
    if (own) return seconds += step_s;
    double (*next)(void) = (double (*)(void))dlsym(RTLD_NEXT, "clock_now");
    assert_non_null(next);
    return next();
}

double clock_of_thread(void) { return seconds; }

static struct ps_profile *open_profile(const char *directory, const char *model, int threads) {
    const struct ps_profile_options options = {
        .struct_size = sizeof options, .threads = threads, .micro_batches = four, .micro_batch_count = 1, .quick = true};
    struct ps_network *network;
    struct ps_profile *profile;
    own = true;
    step_s *= 1.0009765625;
    assert_ok(ps_network_open(model, &network, &test_error));
    assert_ok(profile_cache_measure(directory, network, &options, "profiling", &profile, &test_error));
    ps_network_destroy(network);
    return profile;
}

static char *measure(const char *directory, const char *model, int threads) {
    struct ps_profile *profile = open_profile(directory, model, threads);
    char *json = ps_profile_json(profile);
    ps_profile_destroy(profile);
    assert_non_null(json);
    return json;
}

/* Two measurements never agree in their times, so equal ones are the same. */
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
    char base[4096], directory[4096], path[4096], *data;
    size_t size;
    test_directory_make(base);
    file_join(directory, base, "damaged");
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

/* The entry's state, and with `change` another one and times that are longer by a factor. */
static void state_of(const char *path, char state[32], const char *change, double longer) {
    char *data;
    size_t size;
    assert_ok(file_read(path, 1 << 24, &data, &size, &test_error));
    char *key = strchr(data, '\n') + 1, *end = strchr(key, '\n') + 1, *json = strchr(end, '\n') + 1;
    snprintf(state, 32, "%.*s", (int)(json - end - 1), end);
    if (change) {
        struct ps_profile *profile;
        assert_ok(profile_parse(json, size - (size_t)(json - data), &profile, &test_error));
        for (int l = 0; l < profile->tables[0].layer_count; l++) layer_times_scale(&profile->tables[0].layers[l].time, longer);
        char *changed = ps_profile_json(profile), sum[16];
        const struct file_piece pieces[] = {
            {sum, 9}, {key, (size_t)(end - key)}, {change, strlen(change)}, {"\n", 1}, {changed, strlen(changed)}};
        snprintf(sum, sizeof sum, "%08x\n", (unsigned)file_checksum(pieces + 1, 4));
        assert_ok(file_write_pieces(path, pieces, 5, &test_error));
        free(changed);
        ps_profile_destroy(profile);
    }
    free(data);
}

static bool doubt(const char *directory, const char *model) {
    struct ps_profile *profile = open_profile(directory, model, 1);
    const bool doubts = profile_cache_doubt(profile);
    ps_profile_destroy(profile);
    return doubts;
}

/* What stands in an entry's second line, by which it is named: all that a measurement depends on. */
static void entry_path(const char *directory, const char *model, int threads, char path[4096]) {
    char hash[17], cpu[128], name[32];
    struct ps_network *network;
    struct text key = {0};
    assert_ok(ps_network_open(model, &network, &test_error));
    network_hash_text(network->hash, hash);
    text_add(&key, "penstock %s; %s %s; cpu; threads %d, busy 0, rounds 0 0 1, memory 0; micro-batches 4; %s, %d cores",
             ps_version(), hash, network->name, threads, processor_name(cpu, sizeof cpu), cores_usable());
    const struct file_piece piece = {key.data, key.length};
    snprintf(name, sizeof name, "%08x.profile", (unsigned)file_checksum(&piece, 1));
    char *data;
    size_t size;
    assert_ok(file_read(file_join(path, directory, name), 1 << 24, &data, &size, &test_error));
    const char *line = strchr(data, '\n') + 1;
    assert_int_equal(strcspn(line, "\n"), key.length);
    assert_memory_equal(line, key.data, key.length);
    free(data);
    text_free(&key);
    ps_network_destroy(network);
}

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    text_add(context, "%d %s\n", (int)level, text);
}

/* The key, all options in it, and what is said. */
static void test_said(void **state) {
    (void)state;
    char base[4096], directory[4096], path[4096], wanted[3 * 4096];
    struct text said = {0};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &said, .level = PS_LOG_DEBUG, .line = keep_line};
    test_directory_make(base);
    file_join(directory, base, "said");
    assert_ok(ps_log_to(&sink, &test_error));
    free(measure(directory, small, 1));
    assert_true(doubt(directory, small)); /* it is found */
    free(measure(directory, small, 1));
    assert_ok(file_write(file_join(path, base, "file"), "x", 1, &test_error));
    struct ps_profile *profile = open_profile(path, small, 1);
    assert_false(profile_cache_doubt(profile));
    ps_profile_destroy(profile);
    assert_ok(ps_log_to(NULL, &test_error));
    entry_path(directory, small, 1, path);
    snprintf(
        wanted, sizeof wanted,
        "1 profiling\n1 profiling: found in %s; `no_cache` measures anew\n"
        "1 profiling: anew, as a run did not agree with what was measured before\n1 profiling\n0 %s/file/%s: the profile could "
        "not be kept\n",
        path, base, strrchr(path, '/') + 1);
    assert_string_equal(said.data, wanted);
    text_free(&said);
    /* Each option is part of the key. */
    static const int sizes[] = {4, 2};
    const struct ps_profile_options all[] = {{.micro_batch_count = 1},
                                             {.micro_batch_count = 2},
                                             {.micro_batch_count = 1, .device = "reference"},
                                             {.micro_batch_count = 1, .busy = 1},
                                             {.micro_batch_count = 1, .busy = 1, .warmup = 1},
                                             {.micro_batch_count = 1, .busy = 1, .repeats = 1},
                                             {.micro_batch_count = 1, .busy = 1, .memory_bytes = 1}};
    struct ps_network *network;
    assert_ok(ps_network_open(small, &network, &test_error));
    for (int o = 0; o < (int)(sizeof all / sizeof *all); o++) {
        struct ps_profile_options options = all[o];
        options.struct_size = sizeof options;
        options.threads = 1;
        options.micro_batches = sizes;
        options.quick = o < 4;
        assert_ok(profile_cache_measure(directory, network, &options, "profiling", &profile, &test_error));
        ps_profile_destroy(profile);
        assert_int_equal(count(directory, path), o > 0 ? o + 1 : 1);
    }
    ps_network_destroy(network);
}

/* What a run did not agree with is measured anew, once, unless it comes out otherwise; other networks' entries stay. */
static void test_doubted(void **state) {
    (void)state;
    static const char other[] = "lenet5,input=16,classes=5";
    char base[4096], directory[4096], path[4096], is[32];
    test_directory_make(base);
    file_join(directory, base, "doubted");
    char *first = measure(directory, small, 1);
    assert_int_equal(count(directory, path), 1);
    char *unlike = measure(directory, other, 1);
    assert_true(doubt(directory, small));
    state_of(path, is, NULL, 1);
    assert_string_equal(is, "doubted");
    assert_true(same(unlike, measure(directory, other, 1)));
    char *second = measure(directory, small, 1);
    assert_string_not_equal(first, second);
    assert_true(same(strdup(second), measure(directory, small, 1)));
    free(first);
    free(second);
    /* Other times than those that were doubted may be doubted, too; nearly the same are taken from then on. */
    static const struct {
        double longer;
        const char *state;
    } cases[] = {{1.5, "measured"},      {1.2578125, "measured"},  {0.5, "measured"},
                 {0.796875, "measured"}, {1.2421875, "confirmed"}, {0.8125, "confirmed"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        state_of(path, is, "doubted", cases[c].longer);
        free(measure(directory, small, 1));
        state_of(path, is, NULL, 1);
        assert_string_equal(is, cases[c].state);
    }
    first = measure(directory, small, 1);
    assert_false(doubt(directory, small));
    assert_true(same(first, measure(directory, small, 1)));
    /* Of the same network at any size and with any threads, but of no other. */
    file_join(directory, base, "threads");
    free(measure(directory, small, 1));
    free(measure(directory, small, 2));
    free(measure(directory, other, 2));
    assert_ok(file_write(file_join(path, directory, "no.profile"), "x\n", 2, &test_error));
    assert_true(doubt(directory, small));
    int doubted = 0;
    for (int threads = 1; threads <= 3; threads++) {
        entry_path(directory, threads < 3 ? small : other, threads < 3 ? threads : 2, path);
        state_of(path, is, NULL, 1);
        doubted += strcmp(is, "doubted") == 0;
        assert_int_equal(doubted, threads < 3 ? threads : 2);
    }
    /* What is not kept cannot be doubted. */
    assert_false(doubt(NULL, small));
    assert_false(profile_cache_doubt(NULL));
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
        const struct timespec used[2] = {{.tv_sec = 1000 + f},
                                         {.tv_sec = f >= 6 && f <= 8 ? 5 : 1000 + f, .tv_nsec = f == 7 ? 5000 : 6000}};
        assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
    }
    /* What has no name of theirs is none of them, however old. */
    static const char *const others[] = {".profile", "1.profile.old", "profile"};
    for (int o = 0; o < 3; o++) {
        assert_ok(file_write(file_join(path, directory, others[o]), "x", 1, &test_error));
        assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    }
    free(measure(directory, small, 1));
    assert_int_equal(count(directory, path), 100 + 2); /* one of them begins with a point */
    assert_false(file_exists(file_join(oldest, directory, "7.profile")));
    for (int o = 0; o < 3; o++) assert_true(file_exists(file_join(path, directory, others[o])));
    /* What is used stays, however old. */
    test_directory_make(base);
    free(measure(base, small, 1));
    assert_int_equal(count(base, path), 1);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct stat file;
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    free(measure(base, small, 1));
    assert_int_equal(stat(path, &file), 0);
    assert_true(file.st_mtim.tv_sec > 1000);
    /* What cannot be written does not stop anybody. */
    assert_ok(file_write(file_join(path, base, "file"), "x", 1, &test_error));
    free(measure(path, small, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found_again), cmocka_unit_test(test_said),
                                       cmocka_unit_test(test_damaged), cmocka_unit_test(test_doubted),
                                       cmocka_unit_test(test_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
