/*
 * Preloaded into a program it makes the n-th call of one kind fail: FAULTY=CALL:N:HOW, for example malloc:57:fail,
 * write:3:ENOSPC, read:9:short, recv:4:EINTR or rename:2:kill. Only calls from the program and from the libraries of formats
 * and arithmetic count (the ones in `included`), so that n means the same in each run. Of several ranks the one in FAULTY_RANK
 * meets the fault, in the process that works, which its guard has forked.
 *
 * FAULTY_REPORT names a file to which lines are appended: "hit" at the fault; at the end "CALL COUNT" for each kind, "live
 * COUNT", the blocks that the program itself has not freed, "descriptors COUNT", those that it has not closed, and
 * "closed-twice COUNT", what it closed that was not open.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each kind of call, and the reason of a plain failure. */
#define CALLS(X)                                                                                                               \
    X(malloc, ENOMEM)                                                                                                          \
    X(format_malloc, ENOMEM)                                                                                                   \
    X(arithmetic_malloc, ENOMEM)                                                                                               \
    X(mmap, ENOMEM)                                                                                                            \
    X(arithmetic_mmap, ENOMEM)                                                                                                 \
    X(pthread_create, EAGAIN)                                                                                                  \
    X(open, EMFILE) X(fopen, EMFILE) X(opendir, EMFILE) X(read, EIO) X(write, ENOSPC) X(fflush, ENOSPC) X(fsync, EIO)          \
        X(rename, EACCES) X(close, EIO) X(access, EIO) X(stat, EIO) X(mkdir, ENOSPC) X(unlink, EACCES) X(truncate, EIO)        \
            X(memfd_create, ENOMEM) X(socket, EMFILE) X(connect, ECONNREFUSED) X(accept, EMFILE) X(send, EPIPE)                \
                X(recv, ECONNRESET)

enum call {
#define X(name, reason) CALL_##name,
    CALLS(X)
#undef X
        CALL_COUNT
};
static const struct {
    const char *name;
    int reason;
} calls[] = {
#define X(name, reason) {#name, reason},
    CALLS(X)
#undef X
};

enum how { HOW_FAIL, HOW_SHORT, HOW_KILL, HOW_STOP };
static const struct {
    const char *name;
    enum how how;
    int reason;
} ways[] = {{"fail", HOW_FAIL, 0},        {"short", HOW_SHORT, 0},     {"kill", HOW_KILL, 0},
            {"stop", HOW_STOP, 0},        {"EINTR", HOW_FAIL, EINTR},  {"ENOSPC", HOW_FAIL, ENOSPC},
            {"EACCES", HOW_FAIL, EACCES}, {"EMFILE", HOW_FAIL, EMFILE}};

static atomic_long counts[CALL_COUNT];
static int wanted = -1, reason;
static long number;
static enum how how;
static atomic_bool active;
static atomic_long closed_twice;
static int report = -1; /* a high number, so that the program's own are as without it */

/* The code whose calls count: of the program and its JSON, of the libraries of formats, and of those of arithmetic. */
enum group { OWN, FORMATS, ARITHMETIC, GROUPS };
static const struct {
    const char *name;
    enum group group;
} included[] = {{"libpenstock", OWN},     {"libjansson", OWN},     {"libz.", FORMATS},
                {"libjpeg", FORMATS},     {"libpng", FORMATS},     {"libpcre2", FORMATS},
                {"libutf8proc", FORMATS}, {"libdnnl", ARITHMETIC}, {"libstdc++", ARITHMETIC}};
static struct { uintptr_t begin, end; } ranges[16];
static int range_ends[GROUPS]; /* the ranges of a group follow those of the group before */

static int add_range(struct dl_phdr_info *info, size_t size, void *count) {
    const enum group group = *(const enum group *)count;
    (void)size;
    bool takes = info->dlpi_name[0] == '\0' && group == OWN;
    for (size_t i = 0; i < sizeof included / sizeof *included; i++)
        takes = takes || (included[i].group == group && strstr(info->dlpi_name, included[i].name) != NULL);
    for (int s = 0; takes && s < info->dlpi_phnum; s++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[s];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || range_ends[group] == 16) continue;
        ranges[range_ends[group]].begin = info->dlpi_addr + segment->p_vaddr;
        ranges[range_ends[group]].end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        range_ends[group]++;
    }
    return 0;
}

static void find_ranges(void) {
    for (enum group group = OWN; group < GROUPS; group++) {
        range_ends[group] = group > OWN ? range_ends[group - 1] : 0;
        dl_iterate_phdr(add_range, &group);
    }
}

static bool within(const void *caller, int count) {
    const uintptr_t at = (uintptr_t)caller;
    for (int r = 0; r < count; r++)
        if (at >= ranges[r].begin && at < ranges[r].end) return true;
    return false;
}

static void say(const char *text) {
    if (report >= 0) syscall(SYS_write, report, text, strlen(text));
}

/* Whether this call fails; errno is set. HOW_SHORT: it does not fail, and `*shortened` is set. */
static bool fails(enum call call, const void *caller, bool *shortened) {
    if (!atomic_load_explicit(&active, memory_order_relaxed) || !within(caller, range_ends[ARITHMETIC])) return false;
    const long now = atomic_fetch_add(&counts[call], 1) + 1;
    if ((int)call != wanted || now != number) return false;
    say("hit\n");
    if (how == HOW_KILL) syscall(SYS_kill, getpid(), SIGKILL);
    if (how == HOW_STOP) syscall(SYS_kill, getpid(), SIGSTOP);
    if (how == HOW_SHORT && shortened) *shortened = true;
    if (how != HOW_FAIL) return false;
    errno = reason ? reason : calls[call].reason;
    return true;
}

static enum call memory_call(const void *caller) {
    return within(caller, range_ends[OWN])       ? CALL_malloc
           : within(caller, range_ends[FORMATS]) ? CALL_format_malloc
                                                 : CALL_arithmetic_malloc;
}

#define CALLER __builtin_return_address(0)
#define FAILS(name) fails(CALL_##name, CALLER, NULL)
#define NO_MEMORY fails(memory_call(CALLER), CALLER, NULL)

/* ------------------------------------------------------------------- memory */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

/* The blocks of the program itself: a table of addresses, open addressing. */
enum { TABLE = 1 << 21 };
#define REMOVED ((uintptr_t)1)
static uintptr_t table[TABLE];
static atomic_flag table_lock = ATOMIC_FLAG_INIT;
static long live;

static void lock_table(void) {
    while (atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire)) sched_yield();
}
static void unlock_table(void) { atomic_flag_clear_explicit(&table_lock, memory_order_release); }
static size_t place_of(uintptr_t block) { return (size_t)((block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 43) % TABLE; }

static void *follow(void *block, const void *caller) {
    if (block == NULL || !atomic_load_explicit(&active, memory_order_relaxed) || !within(caller, range_ends[OWN])) return block;
    lock_table();
    size_t at = place_of((uintptr_t)block);
    for (int i = 0; i < 1000 && table[at] > REMOVED; i++) at = (at + 1) % TABLE;
    if (table[at] <= REMOVED) table[at] = (uintptr_t)block, live++;
    unlock_table();
    return block;
}

static void forget(void *block) {
    if (block == NULL || live == 0) return;
    lock_table();
    size_t at = place_of((uintptr_t)block);
    for (int i = 0; i < 1000 && table[at] != 0 && table[at] != (uintptr_t)block; i++) at = (at + 1) % TABLE;
    if (table[at] == (uintptr_t)block) table[at] = REMOVED, live--;
    unlock_table();
}

void *malloc(size_t size) { return NO_MEMORY ? NULL : follow(__libc_malloc(size), CALLER); }
void *calloc(size_t count, size_t size) { return NO_MEMORY ? NULL : follow(__libc_calloc(count, size), CALLER); }
void *realloc(void *block, size_t size) {
    if (NO_MEMORY) return NULL;
    forget(block);
    void *moved = __libc_realloc(block, size);
    if (moved == NULL && size > 0) follow(block, CALLER);
    return follow(moved, CALLER);
}
void *aligned_alloc(size_t alignment, size_t size) {
    return NO_MEMORY ? NULL : follow(__libc_memalign(alignment, size), CALLER);
}
int posix_memalign(void **block, size_t alignment, size_t size) {
    if (NO_MEMORY) return ENOMEM;
    void *made = follow(__libc_memalign(alignment, size), CALLER);
    if (made != NULL) *block = made;
    return made != NULL ? 0 : ENOMEM;
}
void free(void *block) {
    forget(block);
    __libc_free(block);
}
char *strdup(const char *text) {
    if (NO_MEMORY) return NULL;
    const size_t size = strlen(text) + 1;
    char *copy = follow(__libc_malloc(size), CALLER);
    return copy ? memcpy(copy, text, size) : NULL;
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    return fails(within(CALLER, range_ends[FORMATS]) ? CALL_mmap : CALL_arithmetic_mmap, CALLER, NULL)
               ? MAP_FAILED
               : (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

/* -------------------------------------------------------------------- calls */

#define NEXT(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    return FAILS(pthread_create) ? errno : NEXT(pthread_create, thread, attributes, run, argument);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    return FAILS(open) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) { return FAILS(fopen) ? NULL : NEXT(fopen, path, mode); }
DIR *opendir(const char *path) { return FAILS(opendir) ? NULL : NEXT(opendir, path); }
int fflush(FILE *stream) { return FAILS(fflush) ? EOF : NEXT(fflush, stream); }

static size_t less(size_t size, bool shortened) { return shortened && size > 1 ? size / 2 : size; }

ssize_t read(int fd, void *data, size_t size) {
    bool shortened = false;
    return fails(CALL_read, CALLER, &shortened) ? -1 : syscall(SYS_read, fd, data, less(size, shortened));
}
ssize_t write(int fd, const void *data, size_t size) {
    bool shortened = false;
    return fails(CALL_write, CALLER, &shortened) ? -1 : syscall(SYS_write, fd, data, less(size, shortened));
}
ssize_t send(int fd, const void *data, size_t size, int flags) {
    bool shortened = false;
    return fails(CALL_send, CALLER, &shortened) ? -1 : syscall(SYS_sendto, fd, data, less(size, shortened), flags, NULL, 0);
}
ssize_t recv(int fd, void *data, size_t size, int flags) {
    bool shortened = false;
    return fails(CALL_recv, CALLER, &shortened) ? -1
                                                : syscall(SYS_recvfrom, fd, data, less(size, shortened), flags, NULL, NULL);
}
int fsync(int fd) {
    (void)fd; /* what it is for, a machine without power, is not tried; it would take most of the time */
    return FAILS(fsync) ? -1 : 0;
}
int rename(const char *old, const char *new) {
    return FAILS(rename) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, old, AT_FDCWD, new);
}
int renameat2(int old_in, const char *old, int new_in, const char *new, unsigned flags) {
    return FAILS(rename) ? -1 : (int)syscall(SYS_renameat2, old_in, old, new_in, new, flags);
}
int close(int fd) {
    const bool failed = FAILS(close);
    const int result = (int)syscall(SYS_close, fd); /* Linux closes it in any case */
    if (result < 0 && errno == EBADF && within(CALLER, range_ends[FORMATS])) atomic_fetch_add(&closed_twice, 1);
    if (!failed) return result;
    errno = reason ? reason : EIO;
    return -1;
}
int access(const char *path, int mode) { return FAILS(access) ? -1 : (int)syscall(SYS_faccessat, AT_FDCWD, path, mode); }
int stat(const char *restrict path, struct stat *restrict out) {
    return FAILS(stat) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}
int fstat(int fd, struct stat *out) { return FAILS(stat) ? -1 : (int)syscall(SYS_newfstatat, fd, "", out, AT_EMPTY_PATH); }
int mkdir(const char *path, mode_t mode) { return FAILS(mkdir) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode); }
int unlink(const char *path) { return FAILS(unlink) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
int truncate(const char *path, off_t size) { return FAILS(truncate) ? -1 : (int)syscall(SYS_truncate, path, size); }
int ftruncate(int fd, off_t size) { return FAILS(truncate) ? -1 : (int)syscall(SYS_ftruncate, fd, size); }
int memfd_create(const char *name, unsigned flags) {
    return FAILS(memfd_create) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}
int socket(int domain, int type, int protocol) { return FAILS(socket) ? -1 : (int)syscall(SYS_socket, domain, type, protocol); }
int connect(int fd, const struct sockaddr *to, socklen_t size) {
    return FAILS(connect) ? -1 : (int)syscall(SYS_connect, fd, to, size);
}
int accept4(int fd, struct sockaddr *restrict from, socklen_t *restrict size, int flags) {
    return FAILS(accept) ? -1 : (int)syscall(SYS_accept4, fd, from, size, flags);
}

/* ------------------------------------------------------------ begin and end */

static void read_order(void) {
    char name[32], way[32] = "fail";
    const char *order = getenv("FAULTY"), *path = getenv("FAULTY_REPORT");
    if (order && sscanf(order, "%31[^:]:%ld:%31s", name, &number, way) >= 2) {
        for (int c = 0; c < CALL_COUNT; c++)
            if (strcmp(calls[c].name, name) == 0) wanted = c;
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            if (strcmp(ways[w].name, way) == 0) how = ways[w].how, reason = ways[w].reason;
    }
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd >= 0) report = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900), syscall(SYS_close, fd);
}

static bool is_wanted_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    const char *of = getenv("FAULTY_RANK");
    return rank && of && strcmp(rank, of) == 0;
}

static void begin_in_child(void) {
    for (int c = 0; c < CALL_COUNT; c++) atomic_store(&counts[c], 0);
    if (is_wanted_rank()) atomic_store(&active, true);
}

__attribute__((constructor)) static void begin(void) {
    read_order();
    find_ranges();
    pthread_atfork(NULL, NULL, begin_in_child);
    /* Only the program itself, not the shell or launcher around it. */
    char program[4096] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *slash = length > 0 ? strrchr(program, '/') : NULL;
    if (slash && strncmp(slash + 1, "penstock", 8) == 0 && getenv("FAULTY_RANK") == NULL) atomic_store(&active, true);
}

__attribute__((destructor)) static void end(void) {
    char line[96];
    if (!atomic_exchange(&active, false)) return;
    int open_count = 0;
    for (int fd = 3; fd < 900; fd++) open_count += syscall(SYS_fcntl, fd, F_GETFD) >= 0;
    for (int c = 0; c < CALL_COUNT; c++) {
        snprintf(line, sizeof line, "%s %ld\n", calls[c].name, atomic_load(&counts[c]));
        say(line);
    }
    snprintf(line, sizeof line, "live %ld\ndescriptors %d\nclosed-twice %ld\n", live, open_count, atomic_load(&closed_twice));
    say(line);
}
