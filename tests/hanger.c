/* Preloaded into a program it never returns from opening a file whose name ends with HANGER_FILE, as if its server were gone.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int opened(const char *path, int flags, int mode) {
    const char *name = getenv("HANGER_FILE");
    const size_t length = strlen(path), end = name ? strlen(name) : 0;
    while (end > 0 && length >= end && strcmp(path + length - end, name) == 0) pause();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define OPEN(name)                                                                                                             \
    int name(const char *path, int flags, ...) {                                                                               \
        va_list rest;                                                                                                          \
        va_start(rest, flags);                                                                                                 \
        const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;                                                \
        va_end(rest);                                                                                                          \
        return opened(path, flags, mode);                                                                                      \
    }
OPEN(open)
OPEN(open64)
