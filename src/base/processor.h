/* The processor: the cores that this process may use, what it is fast at, and how its threads treat denormal numbers. */
#ifndef PENSTOCK_BASE_PROCESSOR_H
#define PENSTOCK_BASE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At least 1: those that it is bound to, or fewer where a control group (cgroup) limits its time, as containers are limited. */
int cores_usable(void);
/* That limit, in cores, rounded up; 0: there is none. */
int cores_quota(void);
/* The same with all files under `root`, for tests. */
int cores_quota_under(const char *root);
/* Does it multiply bf16 faster than f32: in tiles (AMX), or in vectors (AVX-512 BF16)? The vectors are faster on AMD's
 * processors and Intel's Cooper Lake. Intel's later ones, which have tiles, take twice as long for a vector of pairs as for one
 * of f32: where a virtual machine hides the tiles, bf16 is no faster than f32. */
bool processor_has_fast_bf16(void);
bool processor_has_fast_bf16_vectors(void);

/* Names of the instruction sets that kernels use, as far as the processor has them; how many there are. */
enum { PROCESSOR_FEATURES_MAX = 8 };
size_t processor_features(const char *features[PROCESSOR_FEATURES_MAX]);

/* The cores that the process is bound to, as a set of as many as it has bits. Processes of one host may use all cores of their
 * sets together: launchers bind each to a core of its own. */
enum { CORE_SET_WORDS = 16 };
struct core_set {
    uint64_t word[CORE_SET_WORDS];
};
struct core_set core_set_usable(void);
void core_set_add(struct core_set *set, const struct core_set *more);
int core_set_count(const struct core_set *set); /* at least 1 */

/* What the system says of the processor; "unknown" where it does not. */
const char *processor_name(char *out, size_t size);

/*
 * Numbers too small for a normal float (below 1.2e-38) count as zero between flush and restore: a processor takes a hundred
 * times longer for them, and moments of weights that do not change any more decay into them. The mode is the calling thread's.
 * denormals_flush returns the previous mode, for denormals_restore.
 */
uint64_t denormals_flush(void);
void denormals_restore(uint64_t mode);

#endif
