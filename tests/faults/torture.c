/*
 * Tries small commands with faults and kills, by the thousand: each call of a kind fails once (faulty.c), and processes are
 * killed, stopped and asked to stop at random moments. What must hold each time: the command ends within a limit; it is done
 * with the same result as undisturbed, or ends with a documented status and one line; it leaves no memory and no descriptor
 * behind; and a run that goes on from what it left has the same weights in the end.
 *
 *     torture PROGRAM FAULTY_LIBRARY [--seconds S] [--count N] [--seed X] [--mpirun COMMAND] [--only WORK] [--one WORK
 * CALL:N:HOW]
 *
 * Ends with status 0 if nothing deviated, and prints each deviation with the words that repeat it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A hang is what takes longer. Over MPI a rank that is lost while they meet takes a minute to be found (docs/mpi.md). */
#define LIMIT_S 120.0

#define DATA "--data synthetic:images,samples=32 --valid synthetic:images,samples=8"
#define TRAIN "\"$PENSTOCK\" train --plan ../plan.json " DATA " --steps 4 --checkpoint-every 2 --out run -q"

/* A short training on one worker, and its weights. */
#define ALONE(model, data)                                                                                                     \
    "\"$PENSTOCK\" train --model " model " --workers 1 --schedule naive --batch 4 --micro-batch 4 --data " data                \
    " --steps 1 --out run -q >said && \"$PENSTOCK\" export --run run -q -o result >said"
/* 16 by 16 pixels of one colour. */
#define PNG "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAGklEQVR42mM8IWfDQApgYiARjGoY1TB0NAAAqqUBQv8EtBYAAAAASUVORK5CYII="
#define JPEG                                                                                                                   \
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P"  \
    "/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAQABADASIAAhEBAxEB"    \
    "/8QAFQABAQAAAAAAAAAAAAAAAAAAAAX/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAABAX/"                             \
    "xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCWAOkP/9k="

/* Commands run in an empty directory beside what was prepared. `result`: a file to compare; NULL: the weights of the run in
 * `run`. */
static const struct work {
    const char *name, *before, *command, *result;
    bool mpi;
} works[] = {
    {"plan", NULL, "\"$PENSTOCK\" plan --profile ../costs.csv --workers 3 -q -o result >said && sed -i /solve_s/d result",
     "result", false},
    {"simulate", NULL,
     "\"$PENSTOCK\" simulate --plan ../plan.json --profile ../profile.json --svg drawing --json >result && cat drawing "
     ">>result",
     "result", false},
    {"program", NULL, "\"$PENSTOCK\" program --plan ../plan.json --batches 4 --json >result", "result", false},
    {"models", NULL, "\"$PENSTOCK\" models --model lenet5 -q -o result >said", "result", false},
    {"export", NULL, "\"$PENSTOCK\" export --run ../run -q -o result >said", "result", false},
    {"evaluate", NULL, "\"$PENSTOCK\" evaluate --run ../run --data synthetic:images,samples=8 -q --json >result", "result",
     false},
    {"train", NULL, TRAIN " >said", NULL, false},
    {"resume", "cp -r ../half run", "\"$PENSTOCK\" train --resume run -q >said", NULL, false},
    /* A worker less after two losses in a row: the schedule flushes, so that the weights are the same. */
    {"restarts", NULL,
     "\"$PENSTOCK\" train --plan ../flushing.json " DATA " --steps 4 --checkpoint-every 2 --restarts 9 --out run -q >said && "
     "\"$PENSTOCK\" export --run run -q -o result >said",
     "result", false},
    {"pictures", NULL, ALONE("lenet5,input=16,channels=3,classes=2", "images:../pictures"), "result", false},
    {"packed", NULL, ALONE("lenet5,input=16,classes=2", "idx:../packed"), "result", false},
    {"text", NULL, ALONE("gpt2,layers=1,width=16,heads=2,seq=8,vocab=39", "text:../text/train.txt"), "result", false},
    {"mpi", NULL, "$MPIRUN -n 2 " TRAIN " >said", NULL, true},
};
enum { WORKS = sizeof works / sizeof *works, KINDS_MAX = 64, LINE = 8192 };

static const char prepare[] =
    "printf 'name,forward_s,backward_s,parameter_bytes,output_bytes\\n' >costs.csv && "
    "for l in 1 2 3 4 5; do echo \"l$l,0.00$l,0.01,4000,4000\" >>costs.csv; done && "
    "\"$PENSTOCK\" profile --model lenet5,input=16,classes=4 --micro-batch 4 --repeats 1 -q -o profile.json >said && "
    "\"$PENSTOCK\" plan --profile profile.json --workers 2 --method uniform --micro-batches 2 --schedule 1f1b-async --weights "
    "stash "
    "-q -o plan.json >said && \"$PENSTOCK\" plan --profile profile.json --workers 2 --method uniform --micro-batches 2 "
    "--schedule 1f1b --weights sync -q -o flushing.json >said && mkdir at && cd at && " TRAIN
    " --keep-checkpoints 9 >../said && mv run .. && cd .. && "
    "\"$PENSTOCK\" export --run run -q -o weights >said && cp -r run half && rm -r half/summary.json half/checkpoints/000004 "
    "&& "
    "rmdir at && mkdir -p pictures/train/a pictures/train/b packed && for i in 1 2 3 4; do echo " PNG
    " | base64 -d >pictures/train/a/$i.png; echo " JPEG " | base64 -d >pictures/train/b/$i.jpg; done && "
    "{ printf '\\0\\0\\10\\3\\0\\0\\0\\10\\0\\0\\0\\20\\0\\0\\0\\20'; seq -w 0 99999 | head -c 2048; } | gzip "
    ">packed/train-images-idx3-ubyte.gz && "
    "printf '\\0\\0\\10\\1\\0\\0\\0\\10\\0\\1\\0\\1\\0\\1\\0\\1' | gzip >packed/train-labels-idx1-ubyte.gz && "
    "mkdir text && for i in 1 2 3 4 5 6 7 8; do echo \"the quick brown fox jumps over the lazy dog $i times\"; done "
    ">text/train.txt";

/* How calls of a kind fail, beside their usual reason. */
static const struct {
    const char *call, *how;
} more_ways[] = {{"read", "short"},  {"read", "EINTR"},  {"write", "short"}, {"write", "EINTR"},  {"send", "short"},
                 {"send", "EINTR"},  {"recv", "short"},  {"recv", "EINTR"},  {"accept", "EINTR"}, {"open", "kill"},
                 {"write", "kill"},  {"fsync", "kill"},  {"rename", "kill"}, {"close", "kill"},   {"mkdir", "kill"},
                 {"unlink", "kill"}, {"open", "EACCES"}, {"open", "ENOSPC"}, {"fopen", "EACCES"}, {"stat", "EACCES"},
                 {"fflush", "kill"}};

/* A run of calls of one kind in one work, of which any may fail in this way. */
struct stretch {
    const struct work *work;
    char call[32];
    const char *how;
    int rank;
    long calls;
};

static char directory[256];
static const char *program, *library, *mpirun;
static struct stretch stretches[WORKS * KINDS_MAX * 2];
static int stretch_count;
static uint64_t seed = 1;
static long trials, faults, kills, refused, deviations;
static long by_status[256];

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* SplitMix64. */
static uint64_t next_random(void) {
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static long below(long limit) { return limit > 0 ? (long)(next_random() % (uint64_t)limit) : 0; }

/* ------------------------------------------------------------------ processes */

/* What a process and those below it wait for. */
static void show_processes(pid_t group) {
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[512], line[LINE] = "", command[256] = "";
        pid_t process = (pid_t)atoi(entry->d_name);
        if (process <= 0 || getpgid(process) < 0 || getsid(process) != group) continue;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
        FILE *file = fopen(path, "re");
        if (file && fgets(line, sizeof line, file)) line[strcspn(line, "\n")] = '\0';
        if (file) fclose(file);
        snprintf(command, sizeof command,
                 "for t in /proc/%d/task/*; do echo \"    $(cat $t/comm) waits in $(cat $t/wchan)\"; done", (int)process);
        printf("    process %.60s\n", line);
        fflush(stdout);
        if (system(command) != 0) continue;
    }
    if (entries) closedir(entries);
}

/* Ends all processes of a session. */
static void end_session(pid_t session) {
    for (int round = 0; round < 50; round++) {
        DIR *entries = opendir("/proc");
        bool any = false;
        for (struct dirent *entry; entries && (entry = readdir(entries));) {
            pid_t process = (pid_t)atoi(entry->d_name);
            if (process <= 1 || getsid(process) != session) continue;
            any = kill(process, SIGKILL) == 0 || any;
        }
        if (entries) closedir(entries);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (!any) return;
        usleep(10000);
    }
}

/* A process's name and its parent. */
static pid_t parent_of(pid_t process, char name[64]) {
    char path[64], line[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    name[0] = '\0';
    if (file && fgets(line, sizeof line, file)) sscanf(line, "%*d (%63[^)]) %*c %d", name, &parent);
    if (file) fclose(file);
    return (pid_t)parent;
}

/* One of the session's processes that work: of ranks the children of guards. 0: there is none. */
static pid_t find_worker(pid_t session, bool guarded, long which) {
    pid_t found[64];
    int count = 0;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && (entry = readdir(entries)) && count < 64;) {
        char name[64], guard[64] = "";
        pid_t process = (pid_t)atoi(entry->d_name);
        if (process <= 1 || getsid(process) != session) continue;
        pid_t parent = parent_of(process, name);
        if (guarded) parent_of(parent, guard);
        if (strcmp(name, "penstock") == 0 && (!guarded || strcmp(guard, "penstock-guard") == 0)) found[count++] = process;
    }
    if (entries) closedir(entries);
    return count > 0 ? found[which % count] : 0;
}

struct disturbance {
    const char *order; /* FAULTY; NULL: none */
    int rank;
    int signal; /* 0: none */
    double after_s;
};

/* Runs a shell command in `at`; the exit status, 128 + the signal, or -1 after LIMIT_S. */
static int run(const char *command, const char *at, const struct disturbance *disturbance, double *seconds) {
    const double begun = now_s();
    pid_t child = fork();
    if (child == 0) {
        char number[16];
        setsid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir(at) != 0) _exit(127);
        int errors = open("errors", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(errors, 2);
        close(errors);
        if (disturbance && disturbance->order) {
            setenv("FAULTY", disturbance->order, 1);
            setenv("FAULTY_REPORT", "report", 1);
            snprintf(number, sizeof number, "%d", disturbance->rank);
            if (disturbance->rank >= 0) setenv("FAULTY_RANK", number, 1);
            setenv("LD_PRELOAD", library, 1);
        }
        execl("/bin/bash", "bash", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    bool signalled = !disturbance || disturbance->signal == 0, continued = true;
    double stopped_at = 0;
    pid_t worker = 0;
    const bool guarded = strstr(command, "MPIRUN") != NULL;
    for (double now; (now = now_s()) - begun < LIMIT_S;) {
        if (waitpid(child, &status, WNOHANG) == child) {
            end_session(child);
            if (seconds) *seconds = now - begun;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (!signalled && now - begun >= disturbance->after_s && (worker = find_worker(child, guarded, below(64))) > 0) {
            signalled = kill(worker, disturbance->signal) == 0;
            continued = disturbance->signal != SIGSTOP || guarded;
            stopped_at = now;
        }
        if (!continued && now - stopped_at > 0.05) continued = kill(worker, SIGCONT) == 0 || true;
        usleep(1000);
    }
    show_processes(child);
    kill(child, SIGKILL);
    end_session(child);
    waitpid(child, NULL, WNOHANG);
    return -1;
}

/* --------------------------------------------------------------------- files */

static char *read_text(const char *at, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", at, name);
    FILE *file = fopen(path, "re");
    char *text = calloc(1, 1 << 16);
    if (file && text) text[fread(text, 1, (1 << 16) - 1, file)] = '\0';
    if (file) fclose(file);
    return text;
}

static bool same_files(const char *a, const char *b) {
    char command[1300];
    snprintf(command, sizeof command, "cmp -s '%s' '%s'", a, b);
    return system(command) == 0;
}

/* Lines that say what went wrong. */
static int count_messages(const char *errors) {
    int count = 0;
    for (const char *line = errors; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        count += strncmp(line, "penstock: ", 10) == 0 && strncmp(line, "penstock: warning", 17) != 0;
    return count;
}

static long reported(const char *report, const char *name) {
    char start[64];
    snprintf(start, sizeof start, "\n%s ", name);
    const char *found = strstr(report, start);
    return found ? atol(found + strlen(start)) : -1;
}

/* --------------------------------------------------------------------- trials */

static const char *trial_name;

static void deviates(const char *at, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void deviates(const char *at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("DEVIATION: %s: ", trial_name);
    vprintf(format, arguments);
    va_end(arguments);
    char *errors = read_text(at, "errors");
    printf("\n%.600s\n", errors ? errors : "");
    free(errors);
    fflush(stdout);
    deviations++;
}

/* The weights of the run in `at`, beside those of the undisturbed one. */
static bool same_weights(const char *at) {
    char weights[600], whole[600];
    if (run("\"$PENSTOCK\" export --run run -q -o weights >said", at, NULL, NULL) != 0) return false;
    snprintf(weights, sizeof weights, "%s/weights", at);
    snprintf(whole, sizeof whole, "%s/weights", directory);
    return same_files(weights, whole);
}

static bool same_result(const struct work *work, const char *at) {
    char result[600], whole[600];
    if (!work->result) return same_weights(at);
    snprintf(result, sizeof result, "%s/%s", at, work->result);
    snprintf(whole, sizeof whole, "%s/%s.whole", directory, work->name);
    return same_files(result, whole);
}

/* Goes on from what the work has left, or begins again where it had not begun. */
static void check_resumption(const struct work *work, const char *at) {
    if (work->result) return;
    int status = run("\"$PENSTOCK\" train --resume run -q >said", at, NULL, NULL);
    if (status == 7) {
        status = run(TRAIN " >said", at, NULL, NULL);
    }
    if (status != 0)
        deviates(at, "going on ends with status %d", status);
    else if (!same_weights(at))
        deviates(at, "going on ends with other weights");
}

/* `parted`: both ends of a broken connection may say so. */
static void check(const struct work *work, const char *at, int status, bool killed, bool parted) {
    char *report = read_text(at, "report"), *errors = read_text(at, "errors");
    const bool hit = report && strncmp(report, "hit", 3) == 0;
    /* Within MPI_Init the library itself ends all ranks when one is lost. */
    const bool by_mpi = work->mpi && killed && status == 1 && (strstr(errors, "MPI_Init") || strstr(errors, "ORTE_ERROR_LOG"));
    const bool documented = (status >= 0 && status <= 7) || status == 75, dead = by_mpi || (killed && status > 7);
    trials++;
    by_status[status & 255]++;
    refused += status != 0;
    if (status == -1)
        deviates(at, "hangs");
    else if (!documented && !dead)
        deviates(at, "ends with status %d", status);
    else if (status == 0 && !same_result(work, at))
        deviates(at, "another result");
    else if (status != 0 && !dead && (count_messages(errors) < 1 || (count_messages(errors) > 1 && !parted)) && status != 75)
        deviates(at, "%d lines of error with status %d", count_messages(errors), status);
    else if (hit && !killed && reported(report, "live") > 0)
        deviates(at, "%ld blocks are not freed, with status %d", reported(report, "live"), status);
    if (status != 0) check_resumption(work, at);
    free(report);
    free(errors);
}

static void clean(const char *at) {
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", at, at);
    if (system(command) != 0) printf("cannot clean %s\n", at);
}

static void begin_trial(const struct work *work, char at[512]) {
    snprintf(at, 512, "%s/at", directory);
    clean(at);
    if (work->before && run(work->before, at, NULL, NULL) != 0) printf("cannot prepare %s\n", work->name);
}

static void try_fault(const struct stretch *stretch, long number) {
    char at[512], order[96], name[160];
    begin_trial(stretch->work, at);
    snprintf(order, sizeof order, "%s:%ld:%s", stretch->call, number, stretch->how);
    snprintf(name, sizeof name, "--one %s %s %d", stretch->work->name, order, stretch->rank);
    trial_name = name;
    const struct disturbance disturbance = {.order = order, .rank = stretch->rank};
    int status = run(stretch->work->command, at, &disturbance, NULL);
    faults++;
    /* oneDNN's generator of code ends the program where it gets no memory (it throws where nothing catches): nothing can be
     * said then, but what was kept must be whole. */
    check(stretch->work, at, status, strcmp(stretch->how, "kill") == 0 || strncmp(stretch->call, "arithmetic", 10) == 0,
          strcmp(stretch->call, "send") == 0 || strcmp(stretch->call, "recv") == 0);
}

static void try_kill(const struct work *work, double usual_s) {
    static const int signals[] = {SIGKILL, SIGTERM, SIGSTOP};
    char at[512], name[160];
    const uint64_t seed_before = seed;
    begin_trial(work, at);
    struct disturbance disturbance = {.rank = -1, .signal = signals[below(3)]};
    disturbance.after_s = usual_s * (double)below(1000) / 900;
    snprintf(name, sizeof name, "signal %d after %.3f s to %s (seed %llu)", disturbance.signal, disturbance.after_s, work->name,
             (unsigned long long)seed_before);
    trial_name = name;
    int status = run(work->command, at, &disturbance, NULL);
    kills++;
    check(work, at, status, true, false);
}

/* ------------------------------------------------------------------- beginning */

/* Runs the work undisturbed and counts its calls. */
static bool count_calls(const struct work *work, int rank, double *usual_s) {
    char at[512], command[1200];
    begin_trial(work, at);
    const struct disturbance none = {.order = "none:0", .rank = rank};
    int status = run(work->command, at, &none, usual_s);
    char *report = read_text(at, "report"), *errors = read_text(at, "errors");
    if (status != 0 || !report) {
        printf("%s: ends with status %d undisturbed\n%s\n", work->name, status, errors ? errors : "");
        return false;
    }
    if (work->result) {
        snprintf(command, sizeof command, "cp '%s/%s' '%s/%s.whole'", at, work->result, directory, work->name);
        if (system(command) != 0) return false;
    }
    for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n")) {
        struct stretch stretch = {.work = work, .how = "fail", .rank = rank};
        if (sscanf(line, "%31s %ld", stretch.call, &stretch.calls) != 2 || stretch.calls == 0) continue;
        if (strcmp(stretch.call, "live") == 0 || strcmp(stretch.call, "open") == 0) continue;
        stretches[stretch_count++] = stretch;
        for (size_t w = 0; w < sizeof more_ways / sizeof *more_ways; w++) {
            if (strcmp(more_ways[w].call, stretch.call) != 0) continue;
            stretch.how = more_ways[w].how;
            stretches[stretch_count++] = stretch;
        }
    }
    free(report);
    free(errors);
    return true;
}

static bool set_up(void) {
    char base[] = "/tmp/torture-XXXXXX";
    if (!mkdtemp(base)) return false;
    snprintf(directory, sizeof directory, "%s", base);
    setenv("PENSTOCK", program, 1);
    setenv("MPIRUN", mpirun ? mpirun : "false", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    int status = run(prepare, directory, NULL, NULL);
    char *errors = read_text(directory, "errors");
    if (status != 0) printf("preparing ends with status %d\n%s\n", status, errors ? errors : "");
    free(errors);
    return status == 0;
}

static const struct work *find_work(const char *name) {
    for (int w = 0; w < WORKS; w++)
        if (strcmp(works[w].name, name) == 0) return &works[w];
    return NULL;
}

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static void print_figures(double seconds) {
    printf("%ld trials in %.0f s: %ld faults, %ld signals; %ld did not end with status 0; %ld deviations\nstatuses:", trials,
           seconds, faults, kills, refused, deviations);
    for (int s = 0; s < 256; s++)
        if (by_status[s] > 0) printf(" %d: %ld", s, by_status[s]);
    printf("\n");
}

/* Each kind of each work as often as any other, whatever the number of its calls; one trial in eight is a signal. */
static void go(double seconds, long count, const double *usual_s) {
    const double begun = now_s();
    double spoke = begun;
    for (long t = 0; t < count && now_s() - begun < seconds && stretch_count > 0 && !stopped; t++) {
        const struct stretch *stretch = &stretches[below(stretch_count)];
        if (below(8) == 0 && strstr(stretch->work->command, "train"))
            try_kill(stretch->work, usual_s[stretch->work - works]);
        else
            try_fault(stretch, 1 + below(stretch->calls));
        if (now_s() - spoke > 300) print_figures((spoke = now_s()) - begun);
    }
    print_figures(now_s() - begun);
}

int main(int argc, char **argv) {
    double seconds = 60, usual_s[WORKS] = {0};
    long count = INT32_MAX;
    const char *only = NULL, *order = NULL;
    int rank = -1;
    if (argc < 3) return fprintf(stderr, "torture PROGRAM FAULTY_LIBRARY [OPTION...]\n"), 2;
    program = realpath(argv[1], NULL);
    library = realpath(argv[2], NULL);
    if (!program || !library) return fprintf(stderr, "torture: %s or %s is not there\n", argv[1], argv[2]), 2;
    for (int a = 3; a + 1 < argc; a += 2) {
        if (strcmp(argv[a], "--seconds") == 0) seconds = atof(argv[a + 1]);
        if (strcmp(argv[a], "--count") == 0) count = atol(argv[a + 1]);
        if (strcmp(argv[a], "--seed") == 0) seed = strtoull(argv[a + 1], NULL, 10);
        if (strcmp(argv[a], "--mpirun") == 0) mpirun = argv[a + 1];
        if (strcmp(argv[a], "--only") == 0) only = argv[a + 1];
        if (strcmp(argv[a], "--one") != 0) continue;
        only = argv[a + 1];
        order = a + 2 < argc ? argv[a + 2] : NULL;
        if (a + 3 < argc) rank = atoi(argv[a + 3]);
        break;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    printf("seed: %llu\n", (unsigned long long)seed);
    if (!set_up()) return 1;
    for (int w = 0; w < WORKS; w++) {
        if ((only && strcmp(only, works[w].name) != 0) || (works[w].mpi && !mpirun)) continue;
        for (int r = works[w].mpi ? 0 : -1; r < (works[w].mpi ? 2 : 0); r++)
            if (!count_calls(&works[w], r, &usual_s[w])) return 1;
    }
    if (order && find_work(only)) {
        struct stretch stretch = {.work = find_work(only), .how = "fail", .rank = rank};
        long number = 1;
        static char way[32] = "fail";
        if (sscanf(order, "%31[^:]:%ld:%31s", stretch.call, &number, way) < 2) return 2;
        stretch.how = way;
        try_fault(&stretch, number);
        print_figures(0);
    } else {
        go(seconds, count, usual_s);
    }
    if (deviations == 0 || !order) {
        char command[600];
        snprintf(command, sizeof command, "rm -rf '%s'", directory);
        if (system(command) != 0) return 1;
    }
    return deviations > 0;
}
