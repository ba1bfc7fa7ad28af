/* The guard of a rank, signals that end a command, and the state of other processes; see the header. */
#include "cli/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/message.h"

/* -------------------------------------------------------------------- state */

/* A chain of ancestors is no longer; a process may go while one climbs. */
enum { DEPTH_MAX = 64 };

char process_state(pid_t process, pid_t *parent) {
    char path[64], line[512] = "", state = '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    /* Behind the name, in which anything may stand. */
    const char *rest = strrchr(line, ')');
    int above = 0;
    if (rest == NULL || sscanf(rest, ") %c %d", &state, &above) != 2) return '\0';
    if (parent != NULL) *parent = (pid_t)above;
    return state;
}

static bool is_below(pid_t process, pid_t top) {
    for (int depth = 0; depth < DEPTH_MAX && process > 1; depth++) {
        pid_t parent;
        if (process_state(process, &parent) == '\0') return false;
        if (parent == top) return true;
        process = parent;
    }
    return false;
}

bool process_stopped_below(pid_t process) {
    bool found = false;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; !found && entries != NULL && (entry = readdir(entries)) != NULL;) {
        pid_t other = (pid_t)strtol(entry->d_name, NULL, 10);
        found = other > 0 && process_state(other, NULL) == 'T' && is_below(other, process);
    }
    if (entries != NULL) closedir(entries);
    return found;
}

/* ------------------------------------------------------------------ signals */

_Static_assert(sizeof(sig_atomic_t) == sizeof(int), "a handler may set an int");
static volatile int stop;

static void handle(int number) {
    if (stop) {
        signal(number, SIG_DFL);
        raise(number);
    }
    stop = 1;
}

const volatile int *stop_on_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        /* Who started us may have asked for a signal to be ignored (nohup). */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
    signal(SIGXFSZ, SIG_IGN);
    return &stop;
}

/* -------------------------------------------------------------------- guard */

/*
 * Launchers kill all processes of a run as soon as one of them dies, each with a status of its own choice, and MPICH's so fast
 * that nobody gets to say who it was. So what the launcher sees is a small process that does not die: the guard; see guard.h.
 */

/* The others notice a death at once and one of them ends the run; if they do not, they are no more. */
enum { STAY_S = 15, LOOK_EVERY_MS = 200 };

/* The handler's. */
static volatile sig_atomic_t child_of_guard;
static int done_descriptor = -1;

void guard_done(void) {
    if (done_descriptor < 0) return;
    /* A guard that is gone does not care. */
    if (write(done_descriptor, "", 1) == 1) close(done_descriptor);
    done_descriptor = -1;
}

/* ----------------------------------------------------------------------- the child */

static void *stop_with_guard(void *argument) {
    const struct timespec moment = {.tv_nsec = LOOK_EVERY_MS * 1000000};
    pid_t guard = (pid_t)(size_t)argument;
    for (;;) {
        nanosleep(&moment, NULL);
        if (process_state(guard, NULL) == 'T') raise(SIGSTOP);
    }
    return NULL;
}

static enum ps_status begin_child(pid_t guard, int done, struct ps_error *error) {
    pthread_t thread;
    sigset_t all, before;
    done_descriptor = done;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) raise(SIGKILL);
    /* A launcher signals the whole group; then the guard passes it on, and it comes once. */
    setpgid(0, 0);
    /* Signals are for the thread that looks for them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, stop_with_guard, (void *)(size_t)guard);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) return message_set(error, PS_FAILED, "cannot start a thread: %s", strerror(code));
    pthread_detach(thread);
    return PS_OK;
}

/* ----------------------------------------------------------------------- the guard */

static void pass_on(int number) {
    int before = errno;
    pid_t child = (pid_t)child_of_guard;
    if (child > 0) kill(child, number == SIGTSTP ? SIGSTOP : number);
    /* There is nobody left to end in order. */
    if (child == 0 && number != SIGCONT && number != SIGTSTP) _exit(PS_WORKER_LOST);
    if (number == SIGTSTP) raise(SIGSTOP);
    errno = before;
}

static void pass_on_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}

static _Noreturn void guard(pid_t child, int done) {
    int status = 0;
    char word;
    prctl(PR_SET_NAME, "penstock-guard");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    child_of_guard = 0;
    bool in_order = WIFEXITED(status) && read(done, &word, 1) == 1;
    if (in_order) _exit(WEXITSTATUS(status));
    for (unsigned left = STAY_S; left > 0;) left = sleep(left);
    _exit(PS_WORKER_LOST);
}

enum ps_status guard_split(struct ps_error *error) {
    int done[2];
    pid_t self = getpid();
    if (pipe2(done, O_CLOEXEC) != 0) return message_set(error, PS_FAILED, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    /* No signal may come between the child's birth and the guard's knowing of it. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child > 0) {
        close(done[1]);
        child_of_guard = child;
        pass_on_signals();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child > 0) guard(child, done[0]);
    close(done[0]);
    if (child == 0) return begin_child(self, done[1], error);
    close(done[1]);
    return message_set(error, PS_FAILED, "cannot start a process: %s", strerror(errno));
}
