/* What is said of the processor is what the system says. Denormal numbers count as zero between flush and restore, and only
 * there. */
#include <float.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "descriptors.h"
#include "support.h"

/* What stands behind the colon in the first line of /proc/cpuinfo that begins so; NULL: there is none. */
static const char *system_says(const char *field, char line[8192]) {
    const char *found = NULL;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !found && fgets(line, 8190, file))
        if (strncmp(line, field, strlen(field)) == 0) found = strchr(line, ':');
    if (file) fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return found ? found + 1 : NULL;
}

static void test_name(void **state) {
    (void)state;
    char line[8192] = "", name[512];
    const int before = open_descriptors();
    const char *wanted = system_says("model name", line);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(processor_name(name, sizeof name), name);
        assert_string_equal(name, wanted ? wanted + strspn(wanted, " ") : "unknown");
    }
    assert_string_equal(processor_name(name, 4), wanted ? name : "unk");
    assert_true(strlen(name) <= 3);
    assert_int_equal(open_descriptors(), before);
}

static void test_features(void **state) {
    (void)state;
#if defined(__x86_64__)
    static const char *const known[] = {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16"};
    char line[8192] = "", word[32];
    const char *features[PROCESSOR_FEATURES_MAX];
    const char *flags = system_says("flags", line);
    if (test_valgrind() || !flags) skip();
    line[strlen(line) + 1] = '\0';
    line[strlen(line)] = ' ';
    size_t count = 0;
    const size_t has = processor_features(features);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        snprintf(word, sizeof word, " %s ", known[k]);
        if (!strstr(flags, word)) continue;
        assert_true(count < has);
        assert_string_equal(features[count++], known[k]);
    }
    assert_int_equal(count, has);
    const bool tiles = strstr(flags, " amx_bf16 ") != NULL;
    bool vectors = strstr(flags, " avx512_bf16 ") != NULL;
    /* Vectors of bf16 are as slow as those of f32 on Intel's processors but for Cooper Lake, a model 85. */
    const char *maker = system_says("vendor_id", line);
    const bool intel = maker && strcmp(maker, " GenuineIntel") == 0;
    const char *model = system_says("model\t", line);
    vectors = vectors && (!intel || (model && atoi(model) == 85));
    assert_int_equal(processor_has_fast_bf16_vectors(), vectors);
    assert_int_equal(processor_has_fast_bf16(), tiles || vectors);
#endif
}

static void test_cores(void **state) {
    (void)state;
    cpu_set_t all, one;
    struct core_set none = {0}, some = core_set_usable(), first = {.word = {[0] = 5, [CORE_SET_WORDS - 1] = UINT64_C(1) << 63}};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(cores_usable(), CPU_COUNT(&all));
    assert_int_equal(core_set_count(&some), CPU_COUNT(&all));
    assert_int_equal(core_set_count(&none), 1);
    assert_int_equal(core_set_count(&first), 3);
    core_set_add(&none, &first);
    core_set_add(&none, &(struct core_set){.word = {[0] = 6, [1] = 1}});
    assert_int_equal(core_set_count(&none), 5);
    for (int core = 0; core < 64 * CORE_SET_WORDS; core++)
        assert_int_equal(some.word[core / 64] >> core % 64 & 1, CPU_ISSET((unsigned)core, &all) != 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET((unsigned)last, &all)) last--;
    CPU_ZERO(&one);
    CPU_SET((unsigned)last, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cores_usable(), 1);
    some = core_set_usable();
    assert_true(some.word[last / 64] == UINT64_C(1) << last % 64);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static float halve(float x) {
    volatile float whole = x, half = whole * 0.5f; /* not by the compiler, before the mode is another */
    return half;
}

static void test_flushed_and_restored(void **state) {
    (void)state;
    if (test_valgrind()) skip(); /* it has no such mode */
    assert_true(halve(FLT_MIN) > 0);
    uint64_t mode = denormals_flush();
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(halve(FLT_MIN) == 0);
#endif
    assert_true(halve(1.0f) == 0.5f);
    denormals_restore(mode);
    assert_true(halve(FLT_MIN) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_name), cmocka_unit_test(test_features),
                                       cmocka_unit_test(test_cores), cmocka_unit_test(test_flushed_and_restored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
