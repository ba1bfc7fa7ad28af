/*
 * Memory files (memfd_create) have no name, so none remains after a crash, and no limit by a file system: a container's
 * /dev/shm is often too small, which causes a signal (SIGBUS) in the middle of a write. Other processes open them through
 * /proc, which the kernel permits to processes of the same user.
 */
#include "base/shared_block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static size_t mapped_size(size_t size) { return size > 0 ? memory_align(size) : MEMORY_ALIGNMENT; }

/* Returns 0 or an errno value. A file above RLIMIT_FSIZE would end the process by a signal. */
static int give_size(int file, size_t size, bool backed) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur) return EFBIG;
    if (backed) return posix_fallocate(file, 0, (off_t)size);
    return ftruncate(file, (off_t)size) == 0 ? 0 : errno;
}

static void *map(int file, size_t size, bool populate) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | (populate ? MAP_POPULATE : 0), file, 0);
}

enum ps_status shared_block_take(struct shared_block *block, size_t size, bool backed, const char *what,
                                 struct ps_error *error) {
    size_t whole = mapped_size(size);
    int file = memfd_create(SHARED_BLOCK_NAME, MFD_CLOEXEC);
    int code = file < 0 ? errno : give_size(file, whole, backed);
    void *base = code == 0 ? map(file, whole, backed) : MAP_FAILED;
    if (base != MAP_FAILED) {
        *block = (struct shared_block){.memory = {.base = base, .size = memory_align(size)}, .file = file};
        return PS_OK;
    }
    if (code == 0) code = errno;
    if (file >= 0) close(file);
    return error_set(error, PS_FAILED, "%s: no shared memory of %zu bytes: %s", what, size, strerror(code));
}

void shared_block_close(struct shared_block *block) {
    if (block->memory.base && block->file >= 0) close(block->file);
    block->file = -1;
}

void shared_block_release(struct shared_block *block) {
    shared_block_close(block);
    memory_block_release(&block->memory);
}

enum ps_status shared_block_open(int32_t process, int file, size_t size, bool mapped, struct memory_block *block,
                                 struct ps_error *error) {
    char path[64];
    struct stat found;
    size_t whole = mapped_size(size);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process, file);
    if (stat(path, &found) != 0) return error_set(error, PS_FAILED, "%s: %s", path, strerror(errno));
    if (!S_ISREG(found.st_mode) || found.st_size != (off_t)whole)
        return error_set(error, PS_FAILED, "%s: not a file of %zu bytes", path, whole);
    int here = open(path, O_RDWR | O_CLOEXEC);
    void *base = here >= 0 ? map(here, whole, mapped) : MAP_FAILED;
    int code = errno;
    if (here >= 0) close(here);
    if (base == MAP_FAILED) return error_set(error, PS_FAILED, "%s: %s", path, strerror(code));
    *block = (struct memory_block){.base = base, .size = memory_align(size)};
    return PS_OK;
}
