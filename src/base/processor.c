/*
 * Cores: what the process is bound to and what its control groups allow counts, not what the machine has. Denormal numbers: the
 * control words of x86-64 and 64-bit Arm; on other processors nothing changes.
 */
#include "base/processor.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

#include "base/control_group.h"

struct core_set core_set_usable(void) {
    struct core_set made = {0};
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return made;
    for (int core = 0; core < 64 * CORE_SET_WORDS && core < CPU_SETSIZE; core++)
        if (CPU_ISSET((unsigned)core, &set)) made.word[core / 64] |= UINT64_C(1) << core % 64;
    return made;
}

void core_set_add(struct core_set *set, const struct core_set *more) {
    for (int w = 0; w < CORE_SET_WORDS; w++) set->word[w] |= more->word[w];
}

int core_set_count(const struct core_set *set) {
    int count = 0;
    for (int w = 0; w < CORE_SET_WORDS; w++) count += __builtin_popcountll(set->word[w]);
    return count > 0 ? count : 1;
}

/* A group may compute for `quota` microseconds in each `period`. */
static void take_quota(void *context, const char *directory, int version) {
    int *least = context, fields = 0;
    int64_t quota = 0, period = 0;
    char path[PATH_MAX];
    if (version == 1) {
        fields = control_group_number(directory, "cpu.cfs_quota_us", "", &quota) +
                 control_group_number(directory, "cpu.cfs_period_us", "", &period);
    } else if (snprintf(path, sizeof path, "%s/cpu.max", directory) < (int)sizeof path) {
        FILE *file = fopen(path, "re");
        if (file) fields = fscanf(file, "%" SCNd64 " %" SCNd64, &quota, &period);
        if (file) fclose(file);
    }
    if (fields != 2 || quota <= 0 || period <= 0) return;
    const int64_t cores = quota / period + (quota % period > 0);
    if (*least == 0 || cores < *least) *least = cores < INT_MAX ? (int)cores : INT_MAX;
}

int cores_quota_under(const char *root) {
    int least = 0;
    control_groups_visit(root, "cpu", take_quota, &least);
    return least;
}

int cores_quota(void) { return cores_quota_under(""); }

int cores_usable(void) {
    const struct core_set set = core_set_usable();
    const int bound = core_set_count(&set), quota = cores_quota();
    return quota == 0 || bound < quota ? bound : quota;
}

/* The text after the colon in the first line of a file that begins with `field`. */
static bool read_field(const char *path, const char *field, char *out, size_t size) {
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, field, strlen(field)) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

const char *processor_name(char *out, size_t size) {
    if (!read_field("/proc/cpuinfo", "model name", out, size)) snprintf(out, size, "unknown");
    return out;
}

#if defined(__x86_64__)

bool processor_has_fast_bf16_vectors(void) {
    return __builtin_cpu_supports("avx512bf16") && (!__builtin_cpu_is("intel") || __builtin_cpu_is("cooperlake"));
}

/* AMX-BF16 is bit 22 of EDX in CPUID's leaf 7. The system must save the tiles (bits 17 and 18 of XCR0). */
static bool has_tiles(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1);
}

bool processor_has_fast_bf16(void) { return has_tiles() || processor_has_fast_bf16_vectors(); }

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };

uint64_t denormals_flush(void) {
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
    return mode;
}

void denormals_restore(uint64_t mode) { _mm_setcsr((unsigned)mode); }

#elif defined(__aarch64__)

#define FLUSH_TO_ZERO (UINT64_C(1) << 24)

uint64_t denormals_flush(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | FLUSH_TO_ZERO));
    return mode;
}

void denormals_restore(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }

#else

uint64_t denormals_flush(void) { return 0; }

void denormals_restore(uint64_t mode) { (void)mode; }

#endif

#if !defined(__x86_64__)
bool processor_has_fast_bf16_vectors(void) { return false; }

bool processor_has_fast_bf16(void) { return false; }
#endif

size_t processor_features(const char *features[PROCESSOR_FEATURES_MAX]) {
    size_t count = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) features[count++] = "avx2";
    if (__builtin_cpu_supports("fma")) features[count++] = "fma";
    if (__builtin_cpu_supports("avx512f")) features[count++] = "avx512f";
    if (__builtin_cpu_supports("avx512vnni")) features[count++] = "avx512_vnni";
    if (__builtin_cpu_supports("avx512bf16")) features[count++] = "avx512_bf16";
#elif defined(__aarch64__)
    features[count++] = "asimd";
#else
    (void)features;
#endif
    return count;
}
