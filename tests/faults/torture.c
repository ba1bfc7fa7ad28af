/*
 * Tries small commands with faults and kills, by the thousand: each call of a kind fails once (faulty.c), and processes are
 * killed, stopped and asked to stop at random moments. What must hold each time: the command ends within a limit; it is done
 * with the same result as undisturbed, or ends with a documented status and one line; it leaves no memory and no descriptor
 * behind; and a run that goes on from what it left has the same weights in the end.
 *
 *     torture PROGRAM FAULTY_LIBRARY [--seconds S] [--count N] [--seed X] [--jobs J] [--mpirun COMMAND]
 *         [--other COMMAND=PROGRAM] [--results FILE] [--only WORK] [--one WORK CALL:N:HOW [RANK]]
 *
 * J processes try at the same time, each in a directory of its own in memory (TMPDIR, else /dev/shm, else /tmp). --other is
 * another MPI library's launcher, with the program that is built for it. Ends with status 0 if nothing deviated, and prints
 * each deviation with the words that repeat it; a line with the figures is added to the file of --results.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A hang is what takes longer. Over MPI a rank that is lost while they meet takes a minute to be found (docs/mpi.md). */
#define LIMIT_S 120.0

#define DATA "--data synthetic:images,samples=32 --valid synthetic:images,samples=8"
#define RUN(program, plan) "\"" program "\" train --plan ../" plan " " DATA " --steps 4 --checkpoint-every 2 --out run -q"
#define TRAIN RUN("$PENSTOCK", "plan.json")

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
    enum launcher { ALONE_HERE, BY_MPIRUN, BY_OTHER } launcher;
} works[] = {
    {"plan", NULL, "\"$PENSTOCK\" plan --profile ../costs.csv --workers 3 -q -o result >said && sed -i /solve_s/d result",
     "result", ALONE_HERE},
    {"simulate", NULL,
     "\"$PENSTOCK\" simulate --plan ../plan.json --profile ../profile.json --svg drawing --json >result && cat drawing "
     ">>result",
     "result", ALONE_HERE},
    {"program", NULL, "\"$PENSTOCK\" program --plan ../plan.json --batches 4 --json >result", "result", ALONE_HERE},
    {"models", NULL, "\"$PENSTOCK\" models --model lenet5 -q -o result >said", "result", ALONE_HERE},
    {"export", NULL, "\"$PENSTOCK\" export --run ../run -q -o result >said", "result", ALONE_HERE},
    {"evaluate", NULL, "\"$PENSTOCK\" evaluate --run ../run --data synthetic:images,samples=8 -q --json >result", "result",
     ALONE_HERE},
    {"train", NULL, TRAIN " >said", NULL, ALONE_HERE},
    {"resume", "cp -r ../half run", "\"$PENSTOCK\" train --resume run -q >said", NULL, ALONE_HERE},
    /* A worker less after two losses in a row: the schedule flushes, so that the weights are the same. */
    {"restarts", NULL,
     "\"$PENSTOCK\" train --plan ../flushing.json " DATA " --steps 4 --checkpoint-every 2 --restarts 9 --out run -q >said && "
     "\"$PENSTOCK\" export --run run -q -o result >said",
     "result", ALONE_HERE},
    {"pictures", NULL, ALONE("lenet5,input=16,channels=3,classes=2", "images:../pictures"), "result", ALONE_HERE},
    {"packed", NULL, ALONE("lenet5,input=16,classes=2", "idx:../packed"), "result", ALONE_HERE},
    {"text", NULL, ALONE("gpt2,layers=1,width=16,heads=2,seq=8,vocab=39", "text:../text/train.txt"), "result", ALONE_HERE},
    {"mpi", NULL, "$MPIRUN -n 2 " TRAIN " >said", NULL, BY_MPIRUN},
    {"other-mpi", NULL, "$OTHER_MPIRUN -n 2 " RUN("$OTHER_PENSTOCK", "plan.json") " >said", NULL, BY_OTHER},
    {"mpi-restarts", NULL,
     RUN("$PENSTOCK", "flushing.json") " --restarts 9 --launch \"$MPIRUN -n %d\" >said && "
                                       "\"$PENSTOCK\" export --run run -q -o result >said",
     "result", BY_MPIRUN},
};
enum { WORKS = sizeof works / sizeof *works, KINDS_MAX = 64, LINE = 8192 };
/* A prime: how far the next call to be killed at is from the last one. */
#define APART 7919L

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

static char directory[256], place[16];
static const char *program, *library, *launchers[3]; /* by enum launcher; NULL: not there */
static struct stretch stretches[WORKS * KINDS_MAX * 2];
static int stretch_count;
static long open_before[WORKS][2]; /* descriptors that an undisturbed run leaves, by rank */
static uint64_t seed = 1;

/* What all jobs count together. */
static struct figures {
    atomic_long trials, faults, kills, refused, deviations, swept, launcher_hangs, by_status[256];
} * figures;

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

/* Whether this process, or one that it began, began it: launchers give what they begin sessions of its own. */
static bool is_below(pid_t process) {
    char name[64];
    for (int depth = 0; depth < 64 && process > 1; depth++)
        if ((process = parent_of(process, name)) == getpid()) return true;
    return false;
}

/* What everything that was begun waits for. */
static void show_processes(void) {
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[512], line[LINE] = "", command[256] = "";
        pid_t process = (pid_t)atoi(entry->d_name);
        if (process <= 1 || !is_below(process)) continue;
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

/* Ends everything that was begun. */
static void end_all(void) {
    for (int round = 0; round < 50; round++) {
        DIR *entries = opendir("/proc");
        bool any = false;
        for (struct dirent *entry; entries && (entry = readdir(entries));) {
            pid_t process = (pid_t)atoi(entry->d_name);
            if (process <= 1 || !is_below(process)) continue;
            any = kill(process, SIGKILL) == 0 || any;
        }
        if (entries) closedir(entries);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (!any) return;
        usleep(10000);
    }
}

struct target {
    pid_t process;
    bool of_launcher; /* a launcher or a supervisor: what stops it must let it go on */
};

/* One of the processes that were begun by the leader of a session: the program's own, guards, launchers and what they start. No
 * process: there is none. */
static struct target find_target(pid_t session, long which) {
    static const char *const names[] = {"penstock", "mpirun", "mpiexec", "orted", "prte", "hydra"};
    struct target found[64];
    int count = 0;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && (entry = readdir(entries)) && count < 64;) {
        char name[64], guard[64] = "";
        pid_t process = (pid_t)atoi(entry->d_name);
        if (process <= 1 || !is_below(process)) continue;
        const pid_t parent = parent_of(process, name);
        parent_of(parent, guard);
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (strncmp(name, names[n], strlen(names[n])) == 0)
                found[count++] = (struct target){process, n > 0 || strncmp(guard, "bash", 4) == 0 || process == session};
    }
    if (entries) closedir(entries);
    return count > 0 ? found[which % count] : (struct target){0, false};
}

/* Whether a process of the session is left, its ended children apart. */
static bool session_lasts(pid_t session) {
    bool lasts = false;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && !lasts && (entry = readdir(entries));) {
        const pid_t process = (pid_t)atoi(entry->d_name);
        lasts = process > 1 && getsid(process) == session;
    }
    if (entries) closedir(entries);
    return lasts;
}

/* The program's processes among what was begun. */
static int count_of_program(void) {
    int count = 0;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const pid_t process = (pid_t)atoi(entry->d_name);
        char name[64];
        if (process > 1) parent_of(process, name);
        count += process > 1 && strncmp(name, "penstock", 8) == 0 && is_below(process);
    }
    if (entries) closedir(entries);
    return count;
}

enum { LAUNCHER_HANGS = 250 };
static struct target struck; /* by the last signal */
static int struck_by;        /* 0: no signal was sent */

struct disturbance {
    const char *order; /* FAULTY; NULL: none */
    int rank;
    int signal; /* 0: none */
    double after_s;
    bool goes_on; /* who is stopped */
};

/* Runs a shell command in `at`, until all that it began has ended; the exit status, 128 + the signal, or -1 after LIMIT_S;
 * LAUNCHER_HANGS where nothing but the launcher is left then. */
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
    int status = 0;
    bool signalled = !disturbance || disturbance->signal == 0, ended = false;
    double stopped_at = 0, continue_s = INFINITY;
    struck = (struct target){0, false};
    struck_by = 0;
    for (double now; (now = now_s()) - begun < LIMIT_S;) {
        ended = ended || waitpid(child, &status, WNOHANG) == child;
        if (ended && !session_lasts(child)) {
            if (seconds) *seconds = now - begun;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (!signalled && !ended && now - begun >= disturbance->after_s) {
            struck = find_target(child, below(64));
            signalled = struck.process > 0 && kill(struck.process, disturbance->signal) == 0;
            if (signalled) struck_by = disturbance->signal;
            if (signalled && disturbance->signal == SIGSTOP && (struck.of_launcher || disturbance->goes_on))
                stopped_at = now, continue_s = struck.of_launcher ? 0.5 : 0.05;
        }
        if (now - stopped_at > continue_s && kill(struck.process, SIGCONT) >= -1) continue_s = INFINITY;
        usleep(ended ? 10000 : 2000);
    }
    const bool alone = count_of_program() == 0;
    if (!alone) show_processes();
    end_all();
    waitpid(child, NULL, WNOHANG);
    return alone ? LAUNCHER_HANGS : -1;
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
    FILE *one = fopen(a, "re"), *two = fopen(b, "re");
    char left[4096], right[4096];
    bool same = one != NULL && two != NULL;
    for (size_t got = sizeof left; same && got > 0;) {
        got = fread(left, 1, sizeof left, one);
        same = fread(right, 1, sizeof right, two) == got && memcmp(left, right, got) == 0;
    }
    if (one != NULL) fclose(one);
    if (two != NULL) fclose(two);
    return same;
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
    figures->deviations++;
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
    int status, tries = 0;
    /* For a moment those who trained in it before may still be there. */
    while ((status = run("\"$PENSTOCK\" train --resume run -q >said", at, NULL, NULL)) == 2 && tries++ < 100) usleep(100000);
    if (status == 7) {
        status = run(TRAIN " >said", at, NULL, NULL);
    }
    if (status != 0)
        deviates(at, "going on ends with status %d", status);
    else if (!same_weights(at))
        deviates(at, "going on ends with other weights");
}

/* `parted`: both ends of a broken connection may say so. */
static void check(const struct work *work, const char *at, int rank, int status, bool killed, bool may_crash, bool parted) {
    char *report = read_text(at, "report"), *errors = read_text(at, "errors");
    const bool hit = report && strncmp(report, "hit", 3) == 0;
    /* Within MPI_Init the library itself ends all ranks when one is lost. */
    /* MPICH's proxy fails where it answers a rank that has just ended. */
    const bool by_mpi = work->launcher != ALONE_HERE && killed &&
                        ((status == 1 && (strstr(errors, "MPI_Init") || strstr(errors, "ORTE_ERROR_LOG"))) ||
                         (status == 255 && strstr(errors, "[proxy:")));
    const bool documented = (status >= 0 && status <= 7) || status == 75;
    /* As the shell or a launcher says that it was killed; a fault of the processor is none of it. */
    const bool signalled = status == SIGKILL || status == SIGTERM || status == 128 + SIGKILL || status == 128 + SIGTERM;
    /* A launcher that is told to end does so with a status of its own. */
    const bool by_launcher = work->launcher != ALONE_HERE && killed && struck.of_launcher;
    /* A rank that is asked to end before it knows how ends without a word; the job ends, too. */
    const bool asked = work->launcher != ALONE_HERE && struck_by == SIGTERM && status == 6;
    const bool hangs = work->launcher != ALONE_HERE && status == LAUNCHER_HANGS;
    figures->launcher_hangs += hangs;
    const bool dead = by_mpi || hangs || by_launcher || (killed && signalled) || (may_crash && status > 7);
    figures->trials++;
    figures->by_status[status & 255]++;
    figures->refused += status != 0;
    if (status == -1)
        deviates(at, "hangs");
    else if (!documented && !dead)
        deviates(at, "ends with status %d", status);
    else if (status == 0 && !by_launcher && !same_result(work, at))
        deviates(at, "another result");
    else if (status != 0 && !dead && ((count_messages(errors) < 1 && !asked) || (count_messages(errors) > 1 && !parted)) &&
             status != 75)
        deviates(at, "%d lines of error with status %d", count_messages(errors), status);
    else if (hit && !killed && reported(report, "live") > 0)
        deviates(at, "%ld blocks are not freed, with status %d", reported(report, "live"), status);
    else if (hit && !killed && work->launcher == ALONE_HERE &&
             reported(report, "descriptors") > open_before[work - works][rank > 0])
        deviates(at, "%ld descriptors are not closed, with status %d", reported(report, "descriptors"), status);
    else if (hit && !killed && reported(report, "closed-twice") > 0)
        deviates(at, "%ld descriptors are closed that are not open, with status %d", reported(report, "closed-twice"), status);
    if (status != 0 || by_launcher) check_resumption(work, at);
    free(report);
    free(errors);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static void clean(const char *at) {
    nftw(at, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (mkdir(at, 0777) != 0) printf("cannot make %s: %s\n", at, strerror(errno));
}

static void begin_trial(const struct work *work, char at[512]) {
    snprintf(at, 512, "%s/%s", directory, place);
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
    const bool kill_it = strcmp(stretch->how, "kill") == 0;
    (*(kill_it ? &figures->kills : &figures->faults))++;
    /* oneDNN's generator of code ends the program where it gets no memory (it throws where nothing catches): nothing can be
     * said then, but what was kept must be whole. */
    check(stretch->work, at, stretch->rank, status, kill_it, strncmp(stretch->call, "arithmetic", 10) == 0,
          strcmp(stretch->call, "send") == 0 || strcmp(stretch->call, "recv") == 0);
}

static void try_kill(const struct work *work, double usual_s) {
    static const int signals[] = {SIGKILL, SIGTERM, SIGSTOP};
    char at[512], name[160];
    const uint64_t seed_before = seed;
    begin_trial(work, at);
    struct disturbance disturbance = {.rank = -1, .signal = signals[below(3)], .goes_on = work->launcher == ALONE_HERE};
    disturbance.after_s = usual_s * (double)below(1000) / 900;
    snprintf(name, sizeof name, "signal %d after %.3f s to %s (seed %llu)", disturbance.signal, disturbance.after_s, work->name,
             (unsigned long long)seed_before);
    trial_name = name;
    int status = run(work->command, at, &disturbance, NULL);
    figures->kills++;
    check(work, at, -1, status, true, false, false);
}

/* ------------------------------------------------------------------- beginning */

/* Runs the work undisturbed and counts its calls. */
static bool count_calls(const struct work *work, int rank, double *usual_s) {
    char at[512], command[1200];
    begin_trial(work, at);
    const struct disturbance none = {.order = "none:0", .rank = rank};
    int status = run(work->command, at, &none, usual_s);
    char *report = read_text(at, "report"), *errors = read_text(at, "errors");
    if (status != 0 || !report || reported(report, "closed-twice") > 0) {
        printf("%s: ends with status %d undisturbed, or closes what is not open\n%s\n", work->name, status,
               errors ? errors : "");
        return false;
    }
    if (work->result) {
        snprintf(command, sizeof command, "cp '%s/%s' '%s/%s.whole'", at, work->result, directory, work->name);
        if (system(command) != 0) return false;
    }
    open_before[work - works][rank > 0] = reported(report, "descriptors");
    for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n")) {
        struct stretch stretch = {.work = work, .how = "fail", .rank = rank};
        if (sscanf(line, "%31s %ld", stretch.call, &stretch.calls) != 2 || stretch.calls == 0) continue;
        /* Each start would meet the fault again. */
        if (work->launcher != ALONE_HERE && work->result) continue;
        if (strcmp(stretch.call, "live") == 0 || strcmp(stretch.call, "descriptors") == 0) continue;
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

static bool set_up(const char *other_program) {
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(directory, sizeof directory, "%s/torture-XXXXXX", base);
    if (!mkdtemp(directory)) return false;
    setenv("PENSTOCK", program, 1);
    setenv("MPIRUN", launchers[BY_MPIRUN] ? launchers[BY_MPIRUN] : "false", 1);
    setenv("OTHER_MPIRUN", launchers[BY_OTHER] ? launchers[BY_OTHER] : "false", 1);
    setenv("OTHER_PENSTOCK", other_program ? other_program : "", 1);
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
    printf("%ld trials in %.0f s: %ld faults, %ld kills; %ld did not end with status 0; %ld launchers hung after their last "
           "process; %ld deviations\nstatuses:",
           figures->trials, seconds, figures->faults, figures->kills, figures->refused, figures->launcher_hangs,
           figures->deviations);
    for (int s = 0; s < 256; s++)
        if (figures->by_status[s] > 0) printf(" %d: %ld", s, figures->by_status[s]);
    printf("\n");
}

/* A line: when, of which commit, how long, and what came of it. */
static void add_result(const char *path, uint64_t first_seed, double seconds) {
    char commit[32] = "", date[32] = "";
    const time_t now = time(NULL);
    FILE *git = popen("git describe --always --dirty --exclude '*' 2>/dev/null", "r"), *file = fopen(path, "ae");
    if (git && fgets(commit, sizeof commit, git)) commit[strcspn(commit, "\n")] = '\0';
    if (git) pclose(git);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", gmtime(&now));
    if (file)
        fprintf(file, "%s  %-14s seed %-10llu %5.0f s %6ld faults %6ld kills %6ld refused %3ld deviations%s%s\n", date,
                commit[0] ? commit : "-", (unsigned long long)first_seed, seconds, figures->faults, figures->kills,
                figures->refused, figures->deviations, launchers[BY_MPIRUN] ? "  mpirun" : "",
                launchers[BY_OTHER] ? ", the other MPI" : "");
    if (!file || fclose(file) != 0) printf("cannot write %s: %s\n", path, strerror(errno));
}

/* The next of all calls at which a process can be killed, each once before any comes again; those of a work that takes long are
 * spread over the campaign. */
static void try_next_kill(void) {
    long total = 0, next;
    for (int t = 0; t < stretch_count; t++) total += strcmp(stretches[t].how, "kill") == 0 ? stretches[t].calls : 0;
    if (total == 0) return;
    next = figures->swept++ % total * (total % APART != 0 ? APART : 1) % total;
    for (int t = 0; t < stretch_count; t++) {
        if (strcmp(stretches[t].how, "kill") != 0) continue;
        if (next < stretches[t].calls) return try_fault(&stretches[t], 1 + next);
        next -= stretches[t].calls;
    }
}

/* Each kind of each work as often as any other, whatever the number of its calls; those over MPI, which take longest, a third
 * as often. One trial in sixteen is a signal at a random moment, and one a kill at the next call. */
static void go(double seconds, long count, bool speaks, const double *usual_s) {
    const double begun = now_s();
    double spoke = begun;
    for (long t = 0; t < count && now_s() - begun < seconds && stretch_count > 0 && !stopped; t++) {
        const struct stretch *stretch = &stretches[below(stretch_count)];
        const struct work *work = &works[below(WORKS)];
        const long kind = below(16);
        if (kind == 0 && usual_s[work - works] > 0 && strstr(work->command, "train"))
            try_kill(work, usual_s[work - works]);
        else if (kind == 1)
            try_next_kill();
        else if (strcmp(stretch->how, "kill") != 0 && (stretch->work->launcher == ALONE_HERE || below(3) == 0))
            try_fault(stretch, 1 + below(stretch->calls));
        if (speaks && now_s() - spoke > 300) print_figures((spoke = now_s()) - begun);
    }
}

static void go_together(int jobs, double seconds, long count, const double *usual_s) {
    const uint64_t first = seed;
    const double begun = now_s();
    for (int job = 0; job < jobs; job++) {
        if (fork() != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        snprintf(place, sizeof place, "at%d", job);
        seed = first + (uint64_t)job * UINT64_C(0xd1342543de82ef95);
        go(seconds, (count + jobs - 1) / jobs, job == 0, usual_s);
        fflush(stdout);
        _exit(0);
    }
    while (wait(NULL) > 0 || errno == EINTR) continue;
    print_figures(now_s() - begun);
}

int main(int argc, char **argv) {
    double seconds = 60, usual_s[WORKS] = {0};
    long count = INT32_MAX;
    const char *only = NULL, *order = NULL, *results = NULL;
    char *other = NULL, *other_program = NULL;
    int rank = -1, jobs = 1;
    const double begun = now_s();
    if (argc < 3) return fprintf(stderr, "torture PROGRAM FAULTY_LIBRARY [OPTION...]\n"), 2;
    program = realpath(argv[1], NULL);
    library = realpath(argv[2], NULL);
    if (!program || !library) return fprintf(stderr, "torture: %s or %s is not there\n", argv[1], argv[2]), 2;
    for (int a = 3; a + 1 < argc; a += 2) {
        if (strcmp(argv[a], "--seconds") == 0) seconds = atof(argv[a + 1]);
        if (strcmp(argv[a], "--count") == 0) count = atol(argv[a + 1]);
        if (strcmp(argv[a], "--seed") == 0) seed = strtoull(argv[a + 1], NULL, 10);
        if (strcmp(argv[a], "--jobs") == 0) jobs = atoi(argv[a + 1]);
        if (strcmp(argv[a], "--mpirun") == 0) launchers[BY_MPIRUN] = argv[a + 1];
        if (strcmp(argv[a], "--other") == 0) other = argv[a + 1];
        if (strcmp(argv[a], "--results") == 0) results = argv[a + 1];
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
    if (other && (other_program = strchr(other, '='))) *other_program++ = '\0', launchers[BY_OTHER] = other;
    figures = mmap(NULL, sizeof *figures, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (figures == MAP_FAILED) return perror("torture"), 1;
    const uint64_t first_seed = seed;
    printf("seed: %llu\n", (unsigned long long)seed);
    strcpy(place, "at");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!set_up(other_program)) return 1;
    for (int w = 0; w < WORKS; w++) {
        if ((only && strcmp(only, works[w].name) != 0) || (works[w].launcher != ALONE_HERE && !launchers[works[w].launcher]))
            continue;
        const bool ranks = works[w].launcher != ALONE_HERE;
        for (int r = ranks ? 0 : -1; r < (ranks ? 2 : 0); r++)
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
        go_together(jobs > 0 ? jobs : 1, seconds, count, usual_s);
        if (results) add_result(results, first_seed, now_s() - begun);
    }
    if (figures->deviations == 0 || !order) nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return figures->deviations > 0;
}
