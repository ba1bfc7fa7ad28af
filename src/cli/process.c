/* The guard of a rank, signals that end a command, and the state of other processes; see the header. */
#include "cli/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/message.h"
#include "comm/launch.h"

/* -------------------------------------------------------------------- state */

/* The longest chain of ancestors; processes may end while it is followed. */
enum { DEPTH_MAX = 64 };

char process_state(pid_t process, pid_t *parent) {
    char path[64], line[512] = "", state = '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    /* After the name, which may contain any characters. */
    const char *rest = strrchr(line, ')');
    int parent_number = 0;
    if (rest == NULL || sscanf(rest, ") %c %d", &state, &parent_number) != 2) return '\0';
    if (parent != NULL) *parent = (pid_t)parent_number;
    return state;
}

static bool is_descendant(pid_t process, pid_t top) {
    for (int depth = 0; depth < DEPTH_MAX && process > 1; depth++) {
        pid_t parent;
        if (process_state(process, &parent) == '\0') return false;
        if (parent == top) return true;
        process = parent;
    }
    return false;
}

static bool is_alive(pid_t process) {
    const char state = process_state(process, NULL);
    return state != '\0' && state != 'Z' && state != 'X';
}

/* A descendant of a process, at any depth, that is as the predicate wants it; 0: there is none. */
static pid_t find_below(pid_t process, bool (*wanted)(pid_t)) {
    pid_t found = 0;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; found == 0 && entries != NULL && (entry = readdir(entries)) != NULL;) {
        pid_t other = (pid_t)strtol(entry->d_name, NULL, 10);
        if (other > 0 && wanted(other) && is_descendant(other, process)) found = other;
    }
    if (entries != NULL) closedir(entries);
    return found;
}

/* A line that the kernel has about a process, such as `comm`, the name that `ps` shows; "": there is no such process. */
static void read_about(pid_t process, const char *what, char line[32]) {
    char path[64];
    line[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, what);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, 32, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

static bool is_launcher(pid_t process) {
    /* No servers that outlive a run, and no script that is only called alike. */
    static const char *const names[] = {"mpirun",        "mpiexec",       "mpirun.openmpi", "mpiexec.openmpi",
                                        "orterun",       "orted",         "prterun",        "mpirun.mpich",
                                        "mpiexec.mpich", "mpiexec.hydra", "hydra_pmi_proxy"};
    char name[32];
    read_about(process, "comm", name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

static bool is_stopped(pid_t process) { return process_state(process, NULL) == 'T'; }
pid_t process_stopped_below(pid_t process) { return find_below(process, is_stopped); }

/* A process that has ended has no such link any more. */
static bool runs_this_program(pid_t process) {
    struct stat own, other;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
    return stat(path, &other) == 0 && stat("/proc/self/exe", &own) == 0 && other.st_ino == own.st_ino &&
           other.st_dev == own.st_dev;
}
bool process_runs_below(pid_t process) { return find_below(process, runs_this_program) > 0; }

/* ------------------------------------------------------------------ signals */

/* Set by a signal, read by any thread. */
static atomic_bool stop;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler may set it");

/* Slurm signals every process of a job's step, guards and supervisors among them, which pass it on. So what the parent sends is
 * counted apart: it may be the same signal again. */
static void handle(int number, siginfo_t *about, void *context) {
    static atomic_bool asked[2];
    (void)context;
    atomic_store(&stop, true);
    if (atomic_exchange(&asked[about->si_pid == getppid()], true)) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

bool stop_requested(void) { return atomic_load(&stop); }

void stop_on_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        /* A parent process may have set a signal to be ignored (nohup). */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}

/* -------------------------------------------------------------------- guard */

/*
 * Launchers kill all processes of a run as soon as one of them ends, with different exit statuses, and MPICH's so fast that no
 * process can report which one it was. So the process that the launcher started is the guard, which does not end; see
 * process.h.
 */

#define GUARD_NAME "penstock-guard"
/* The other ranks detect a loss at once, and one of them ends the run; if none does within STAY_S, none is left. Ranks above 0
 * let rank 0 say so first and end them, which on a busy machine may take some seconds more than there. */
enum { STAY_S = 15, POLL_MS = 200, STOPPED_MAX_MS = 5000, OTHERS_S = 8, UNMET_S = 3, BESIDE_MS = 1000, LAUNCHER_MS = 10000 };

/* How long the ranks may take to meet, of which some read data before, and to leave, to which all have agreed. 0: any time. */
static const int phase_limits_ms[] = {
    [LAUNCH_ALONE] = 0, [LAUNCH_MEETING] = 600000, [LAUNCH_MET] = 0, [LAUNCH_LEAVING] = 20000, [LAUNCH_LEFT] = 0};
/* What the child writes when its work has ended; else the phase that begins. */
enum { DONE = 100 };

/* Read by the signal handler. */
static volatile sig_atomic_t child_of_guard, told_to_end, told;
static int done_descriptor = -1;

static void tell_guard(char word) {
    ssize_t written;
    /* If the guard has ended, this process will, too. */
    do written = done_descriptor >= 0 ? write(done_descriptor, &word, 1) : 1;
    while (written < 0 && errno == EINTR);
}

static void tell_phase(enum launch_phase phase) { tell_guard((char)phase); }

void guard_done(void) {
    if (done_descriptor < 0) return;
    tell_guard(DONE);
    close(done_descriptor);
    done_descriptor = -1;
}

/* ---------------------------------------------------------------- the child */

static void *stop_with_guard(void *argument) {
    const struct timespec interval = {.tv_nsec = POLL_MS * 1000000};
    pid_t guard = (pid_t)(size_t)argument;
    for (;;) {
        nanosleep(&interval, NULL);
        if (process_state(guard, NULL) == 'T') raise(SIGSTOP);
    }
    return NULL;
}

static enum ps_status begin_child(pid_t guard, int done, struct ps_error *error) {
    pthread_t thread;
    sigset_t all, before;
    done_descriptor = done;
    launch_set_listener(tell_phase);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) raise(SIGKILL);
    /* A launcher signals the whole process group; in its own group the child receives a signal once, from the guard. */
    setpgid(0, 0);
    /* The new thread must not receive signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, stop_with_guard, (void *)(size_t)guard);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) return message_set(error, PS_FAILED, "cannot start a thread: %s", strerror(code));
    pthread_detach(thread);
    return PS_OK;
}

/* ---------------------------------------------------------------- the guard */

static void forward_signal(int number) {
    int before = errno;
    pid_t child = (pid_t)child_of_guard;
    if (child > 0) kill(child, number == SIGTSTP ? SIGSTOP : number);
    if (number == SIGTERM) told_to_end = 1;
    if (number != SIGCONT && number != SIGTSTP) {
        told = number;
        /* The child has ended: nothing is left to stop. */
        if (child == 0) _exit(PS_WORKER_LOST);
    }
    if (number == SIGTSTP) raise(SIGSTOP);
    errno = before;
}

static void forward_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
    struct sigaction action = {.sa_handler = forward_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}

/* Whether a process beside this one is stopped that no guard looks after, which would end it and say so. */
static bool stopped_without_guard(void) {
    char name[32];
    pid_t parent = 0;
    const pid_t stopped = process_stopped_below(getppid());
    if (stopped == 0 || process_state(stopped, &parent) == '\0') return false;
    read_about(parent, "comm", name);
    return strcmp(name, GUARD_NAME) != 0;
}

/* Something that a launcher began and has to wait for. */
static bool is_work(pid_t process) { return is_alive(process) && !is_launcher(process); }

/* The topmost launcher above this process; 0: there is none. */
static pid_t find_launcher(void) {
    pid_t found = 0, process = getppid();
    for (int depth = 0; depth < DEPTH_MAX && process > 1; depth++) {
        if (is_launcher(process)) found = process;
        if (process_state(process, &process) == '\0') break;
    }
    return found;
}

/*
 * Launchers hang now and then after a loss, when all that they began have ended and nobody is left to see it: Open MPI's in a
 * lock. So a process that outlives the guard ends a launcher that stays longer. The guard waits until that process holds none
 * of its descriptors any more: MPICH's launcher takes it amiss if they are closed later than the guard ends.
 */
static void end_hanging_launcher(void) {
    static bool begun;
    const struct timespec interval = {.tv_nsec = POLL_MS * 1000000};
    const pid_t launcher = begun ? 0 : find_launcher();
    int held[2];
    begun = true;
    if (launcher == 0 || pipe2(held, O_CLOEXEC) != 0) return;
    const pid_t process = fork();
    if (process != 0) {
        char word;
        close(held[1]);
        while (process > 0 && read(held[0], &word, 1) < 0 && errno == EINTR) continue;
        close(held[0]);
        return;
    }
    child_of_guard = 0; /* a signal to this process is not for it */
    setsid();
    closefrom(0);
    for (int left_ms = 0; left_ms < LAUNCHER_MS; left_ms += POLL_MS) {
        nanosleep(&interval, NULL);
        if (!is_alive(launcher) || !is_launcher(launcher)) _exit(PS_OK);
        if (find_below(launcher, is_work) > 0) left_ms = 0;
    }
    kill(launcher, SIGKILL);
    _exit(PS_OK);
}

/* Whether one of those that the launcher began on this host has ended: before all have met MPICH's does not notice. */
static bool gone(void) {
    const pid_t launcher = getppid();
    int here = 0;
    DIR *entries = is_launcher(launcher) ? opendir("/proc") : NULL;
    if (entries == NULL) return false;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        pid_t parent = 0;
        const pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        here += process > 0 && process_state(process, &parent) != '\0' && parent == launcher && is_alive(process);
    }
    closedir(entries);
    return here < launch_find().here;
}

/* Whether MPICH's proxy, which started the ranks of this host, answers no more and waits for their end. It does so once the run was
 * told to end, but a signal to a rank that is just being started is lost, and such ranks would wait to meet for ever. */
static bool answers_no_more(void) {
    char name[32], where[32];
    read_about(getppid(), "comm", name);
    read_about(getppid(), "wchan", where);
    return strcmp(name, "hydra_pmi_proxy") == 0 && strstr(where, "do_wait") != NULL;
}

/* Waits until the child has closed its end of the pipe, ended or lost. True: its work had ended. */
static bool watch_child(pid_t child, int done, enum launch_phase *phase) {
    /* Counted in turns of this loop: the time in which the guard itself is stopped does not count. */
    int in_phase_ms = 0, stopped_ms = 0;
    bool ended = false, beside = false;
    const pid_t launcher = getppid();
    *phase = LAUNCH_ALONE;
    for (;;) {
        struct pollfd one = {.fd = done, .events = POLLIN};
        const int ready = poll(&one, 1, POLL_MS);
        char word;
        /* By the launcher after a loss, which kills the guard a second later. */
        if (told_to_end) end_hanging_launcher();
        if (ready > 0) {
            const ssize_t got = read(done, &word, 1);
            if (got == 0) return ended;
            if (got < 0) continue;
            if (word == DONE)
                ended = true;
            else
                *phase = (enum launch_phase)word;
            in_phase_ms = 0;
            beside = false;
        }
        /* In between the other ranks notice. */
        if (ready != 0 || *phase == LAUNCH_MET) continue;
        const int limit_ms = phase_limits_ms[*phase];
        /* A rank beside this one may have been stopped or killed before it had a guard, or nobody hears that this one has come. */
        if (*phase == LAUNCH_MEETING && in_phase_ms % BESIDE_MS == 0)
            beside = getppid() != launcher || stopped_without_guard() || gone() || answers_no_more();
        stopped_ms = process_state(child, NULL) == 'T' || beside ? stopped_ms + POLL_MS : 0;
        in_phase_ms += POLL_MS;
        if (stopped_ms > STOPPED_MAX_MS || (limit_ms > 0 && in_phase_ms > limit_ms)) kill(child, SIGKILL);
    }
}

static void say_lost(enum launch_phase phase) {
    struct ps_error error = {0};
    message_set(&error, PS_WORKER_LOST, "a process of the run was lost%s, noticed by rank %d",
                phase == LAUNCH_MEETING   ? " before all had met"
                : phase >= LAUNCH_LEAVING ? " after its end"
                                          : "",
                launch_find().rank);
    message_print(&error);
}

/* Open MPI ends a process that does not find the others, which srun started without PMIx: each of them ends so, and the first
 * says why. */
static _Noreturn void end_unmet(void) {
    struct ps_error error = {0};
    const char *type = getenv("SLURM_MPI_TYPE");
    message_set(&error, PS_USAGE, "MPI does not start in the %d processes of srun --mpi=%s", launch_find().count,
                type != NULL ? type : "none");
    message_hint(&error, "%s", launch_advice());
    if (launch_find().rank == 0)
        message_print(&error);
    else
        sleep(UNMET_S);
    _exit(PS_USAGE);
}

/* MPICH's launcher does not notice a rank that ends before MPI has started, but hears this word of PMI's; what it has not
 * passed on by then of what was said is lost. */
static void abort_by_pmi(void) {
    const char *descriptor = getenv("PMI_FD");
    if (descriptor == NULL) return;
    sleep(1);
    dprintf((int)strtol(descriptor, NULL, 10), "cmd=abort exitcode=%d\n", PS_WORKER_LOST);
}

/* Once this rank has ended well a process beside it that is stopped keeps the launcher waiting, and nobody else is left to see
 * it. */
static bool end_stopped(void) {
    const struct timespec interval = {.tv_nsec = POLL_MS * 1000000};
    pid_t stopped;
    for (int waited_ms = 0; (stopped = process_stopped_below(getppid())) > 0; waited_ms += POLL_MS) {
        if (waited_ms > STOPPED_MAX_MS) return kill(stopped, SIGKILL) == 0;
        nanosleep(&interval, NULL);
    }
    return false;
}

static _Noreturn void guard(pid_t child, int done) {
    int status = 0;
    enum launch_phase phase;
    prctl(PR_SET_NAME, GUARD_NAME);
    bool ended = watch_child(child, done, &phase);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    child_of_guard = 0;
    const bool exited = ended && WIFEXITED(status);
    if (exited && WEXITSTATUS(status) == PS_OK && !end_stopped()) _exit(PS_OK);
    end_hanging_launcher();
    if (exited && WEXITSTATUS(status) != PS_OK) _exit(WEXITSTATUS(status));
    /* Nobody is lost who was told to end, and ends by that. */
    if (WIFSIGNALED(status) && WTERMSIG(status) == told) _exit(128 + told);
    if (WIFEXITED(status) && phase == LAUNCH_MEETING && launch_by_srun() && getenv("PMIX_RANK") == NULL) end_unmet();
    /* Nobody else notices after the end. */
    const bool alone = phase >= LAUNCH_LEAVING;
    for (unsigned left = (alone ? 1 : STAY_S) + (launch_find().rank > 0 ? OTHERS_S : 0); left > 0;) left = sleep(left);
    say_lost(phase);
    abort_by_pmi();
    _exit(PS_WORKER_LOST);
}

enum ps_status guard_split(struct ps_error *error) {
    int done[2];
    pid_t self = getpid();
    if (pipe2(done, O_CLOEXEC) != 0) return message_set(error, PS_FAILED, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    /* No signal may arrive between fork and the assignment of child_of_guard. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child > 0) {
        close(done[1]);
        child_of_guard = child;
        forward_signals();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child > 0) guard(child, done[0]);
    close(done[0]);
    if (child == 0) return begin_child(self, done[1], error);
    close(done[1]);
    return message_set(error, PS_FAILED, "cannot start a process: %s", strerror(errno));
}
