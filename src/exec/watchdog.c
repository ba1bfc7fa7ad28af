/* Detecting workers without progress; see watchdog.h. */
#include "exec/watchdog.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

/* A poll that comes later than this shows that the watcher itself did not run; only this much of the time counts. */
#define LOOK_MOST_S 0.25
/* A computing thread gets more of a processor than this, or is queued for one at most polls; threads that only serve
 * connections do neither. */
#define COMPUTING_SHARE 0.01
enum { SAMPLES = 20 }; /* samples of the queue within the timeout */
/* Bytes that threads that only serve connections may read meanwhile. */
enum { READING_BYTES = 64 << 10 };

enum ps_status watchdog_create(int workers, double patience_s, struct watchdog *watchdog, struct ps_error *error) {
    *watchdog = (struct watchdog){.patience_s = patience_s, .workers = workers};
    return memory_new(&watchdog->seen, workers, "a watchdog", error);
}

void watchdog_free(struct watchdog *watchdog) { free(watchdog->seen); }

static double seconds_of(clockid_t clock) {
    struct timespec time = {0};
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The bytes that a process or a thread has read, from files and caches alike. */
static int64_t bytes_read_by(const char *path) {
    long long bytes = 0;
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "rchar: %lld", &bytes) != 1) bytes = 0;
    if (file) fclose(file);
    return bytes;
}

/* Without the calling thread, which reads these files. */
static int64_t bytes_read(void) { return bytes_read_by("/proc/self/io") - bytes_read_by("/proc/thread-self/io"); }

/* Does another thread of this process run, or queue for a processor? */
static bool is_ready(void) {
    bool ready = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && !ready && (task = readdir(tasks));) {
        char path[320], line[256] = "";
        if (task->d_name[0] == '.' || strtol(task->d_name, NULL, 10) == gettid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        FILE *file = fopen(path, "re");
        if (file && !fgets(line, sizeof line, file)) line[0] = '\0';
        if (file) fclose(file);
        /* PID (NAME) STATE ..., and a name may hold anything. */
        const char *state = strrchr(line, ')');
        ready = state && state[1] == ' ' && state[2] == 'R';
    }
    if (tasks) closedir(tasks);
    return ready;
}

static struct effort effort_now(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct effort){.computed_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID),
                           .read_bytes = bytes_read(),
                           .page_faults = usage.ru_majflt};
}

void watchdog_start(struct watchdog *watchdog) {
    watchdog->looked_at = clock_now();
    watchdog->still_s = 0;
}

/* Has any worker progressed since the last poll? */
static bool has_moved(struct watchdog *watchdog, const struct progress *progress) {
    bool moved = false;
    for (int w = 0; w < watchdog->workers; w++) {
        uint32_t place = atomic_load_explicit(&progress[w].packed, memory_order_relaxed);
        moved = moved || place != watchdog->seen[w];
        watchdog->seen[w] = place;
    }
    return moved;
}

static bool has_done_something(const struct watchdog *watchdog, const struct effort *now) {
    const struct effort *then = &watchdog->effort;
    return now->computed_s - then->computed_s > COMPUTING_SHARE * watchdog->still_s ||
           2 * watchdog->ready > watchdog->samples || now->page_faults > then->page_faults ||
           now->read_bytes - then->read_bytes > READING_BYTES || threads_in_given() > 0;
}

/* The first whose progress is `kind`, or -1. */
static int find(const struct progress *progress, int first, int end, enum progress_kind kind) {
    for (int w = first; w < end; w++)
        if (progress_kind(&progress[w]) == kind) return w;
    return -1;
}

int watchdog_look(struct watchdog *watchdog, const struct progress *progress, int first, int end, bool alone) {
    if (watchdog->patience_s <= 0) return -1;
    double now = clock_now(), passed = now - watchdog->looked_at;
    watchdog->looked_at = now;
    if (has_moved(watchdog, progress)) {
        watchdog->still_s = 0;
        return -1;
    }
    if (watchdog->still_s == 0) {
        watchdog->effort = effort_now();
        watchdog->samples = watchdog->ready = 0;
    }
    watchdog->still_s += passed < LOOK_MOST_S ? passed : LOOK_MOST_S;
    if (watchdog->still_s * SAMPLES >= watchdog->patience_s * (watchdog->samples + 1)) {
        watchdog->samples++;
        watchdog->ready += is_ready();
    }
    if (watchdog->still_s < watchdog->patience_s) return -1;
    struct effort effort = effort_now();
    int stalled = find(progress, first, end, PROGRESS_WORKING);
    if (stalled < 0 && alone) stalled = find(progress, first, end, PROGRESS_WAITING);
    if (has_done_something(watchdog, &effort)) stalled = -1;
    if (stalled < 0) watchdog->still_s = 0;
    return stalled;
}
