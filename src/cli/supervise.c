/* Restarting training; see supervise.h. */
#include "cli/supervise.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/process.h"

enum { WORDS_MAX = 256, POLL_MS = 20 };
#define STOPPED_WITHIN_S 10.0
/* After a signal it finishes a step and writes a checkpoint. */
#define SAVED_WITHIN_S 20.0
/* Ranks detect a stopped rank themselves and report it, but not after they have ended their communication. */
#define STOPPED_DESCENDANT_S 20.0
/* A launcher that has nothing left to wait for ends within moments; Open MPI's hangs now and then after a loss. */
#define ENDED_WITHIN_S 10.0
/* Between two looks at all processes: more often at first, since a run may end soon. */
#define CHECK_SOON_S 0.05
#define CHECK_S 1.0
#define KILLED_WITHIN_S 10.0

struct supervisor {
    const struct train_arguments *arguments;
    char program[4096], launch[4096], workers_text[16];
    int workers;     /* of the next start; 0: those of the run */
    int64_t reached; /* newest checkpoint when it was last started; -1: none */
    int64_t before;  /* of the run that was to be resumed, which configuration it had; 0: there was none */
    const char *words[WORDS_MAX];
};

/* --------------------------------------------------------- what was reached */

static const char *run_dir_of(const struct supervisor *supervisor) {
    const struct ps_train_options *options = &supervisor->arguments->options;
    return options->resume ? options->resume : options->out;
}

static bool has_file(const struct supervisor *supervisor, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", run_dir_of(supervisor), name);
    return access(path, F_OK) == 0;
}

/* The step of the newest checkpoint, or -1. */
static int64_t newest_checkpoint(const struct supervisor *supervisor) {
    char path[4096];
    int64_t newest = -1;
    snprintf(path, sizeof path, "%s/checkpoints", run_dir_of(supervisor));
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        char *end;
        int64_t step = strtoll(entry->d_name, &end, 10);
        if (*end == '\0' && step > newest) newest = step;
    }
    if (entries != NULL) closedir(entries);
    return newest;
}

/* Workers of the run's plan, else of the plan given, else the number given. */
static int planned_workers(const struct supervisor *supervisor) {
    const struct train_arguments *arguments = supervisor->arguments;
    const char *given = arguments->plan_path;
    char path[4096];
    struct ps_plan *plan;
    snprintf(path, sizeof path, "%s/plan.json", run_dir_of(supervisor));
    if (ps_plan_read(has_file(supervisor, "config.json") || given == NULL ? path : given, &plan, NULL) != PS_OK)
        return arguments->cluster.options.workers;
    int workers = ps_plan_info(plan).workers;
    ps_plan_destroy(plan);
    return workers;
}

/* ----------------------------------------------------------------- starting */

/* Whether the word is the option --NAME; *next: its value is the next word. */
static bool is_option(const char *word, const char *name, bool *next) {
    size_t length = strlen(name);
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0) return false;
    *next = word[2 + length] == '\0';
    return *next || word[2 + length] == '=';
}

static void add_given(const struct supervisor *supervisor, const char **words, int *count) {
    const struct common_arguments *common = &supervisor->arguments->common;
    for (int i = 0; i < common->argc && *count < WORDS_MAX - 8; i++) {
        bool next = false;
        if (is_option(common->argv[i], "restarts", &next) || is_option(common->argv[i], "launch", &next))
            i += next;
        else
            words[(*count)++] = common->argv[i];
    }
}

/* Adds the words that resume from the run directory; the other options are in its configuration. */
static void add_resumption(struct supervisor *supervisor, const char **words, int *count) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    const struct train_arguments *arguments = supervisor->arguments;
    words[(*count)++] = "train";
    words[(*count)++] = "--resume";
    words[(*count)++] = run_dir_of(supervisor);
    if (arguments->common.json) words[(*count)++] = "--json";
    if (arguments->common.quiet) words[(*count)++] = "--quiet";
    if (arguments->options.trace) words[(*count)++] = "--trace";
    if (arguments->options.transport != NULL) {
        words[(*count)++] = "--transport";
        words[(*count)++] = arguments->options.transport;
    }
    if (arguments->common.log_level != PS_LOG_INFO) {
        words[(*count)++] = "--log-level";
        words[(*count)++] = levels[arguments->common.log_level];
    }
    if (supervisor->workers > 0) {
        snprintf(supervisor->workers_text, sizeof supervisor->workers_text, "%d", supervisor->workers);
        words[(*count)++] = "--workers";
        words[(*count)++] = supervisor->workers_text;
    }
}

/* Writes the launcher's command; its %d is the number of workers. */
static void write_launch(struct supervisor *supervisor) {
    const char *launch = supervisor->arguments->launch, *number = strstr(launch, "%d");
    int workers = supervisor->workers > 0 ? supervisor->workers : planned_workers(supervisor);
    if (number == NULL) {
        snprintf(supervisor->launch, sizeof supervisor->launch, "exec %s \"$@\"", launch);
    } else {
        snprintf(supervisor->launch, sizeof supervisor->launch, "exec %.*s%d%s \"$@\"", (int)(number - launch), launch, workers,
                 number + 2);
    }
}

/* Sets the words to execute, the program first. */
static void write_words(struct supervisor *supervisor, bool again) {
    const char **words = supervisor->words;
    int count = 0;
    if (supervisor->arguments->launch != NULL) {
        write_launch(supervisor);
        words[count++] = "/bin/sh";
        words[count++] = "-c";
        words[count++] = supervisor->launch;
        words[count++] = "sh";
    }
    words[count++] = supervisor->program;
    if (again) {
        add_resumption(supervisor, words, &count);
    } else {
        add_given(supervisor, words, &count);
    }
    words[count] = NULL;
}

/* A number for the run's configuration as it stands, which changes when that is written; 0: there is none. */
static int64_t configuration(const struct supervisor *supervisor) {
    char path[4096];
    struct stat file;
    snprintf(path, sizeof path, "%s/config.json", run_dir_of(supervisor));
    if (stat(path, &file) != 0) return 0;
    return (int64_t)file.st_ino + 1000000000 * (int64_t)file.st_mtim.tv_sec + file.st_mtim.tv_nsec;
}

static enum ps_status start(struct supervisor *supervisor, pid_t *child, struct ps_error *error) {
    /* Until the run has written its configuration the words that were given say what is to be done. */
    write_words(supervisor, configuration(supervisor) != supervisor->before);
    fflush(NULL);
    pid_t parent = getpid();
    *child = fork();
    if (*child < 0) return message_set(error, PS_FAILED, "cannot start a process: %s", strerror(errno));
    /* Both do: it may be stopped before it has, and is ended by its group. */
    if (*child > 0) setpgid(*child, *child);
    if (*child > 0) return PS_OK;
    /* This process forwards a terminal's signals; the child ends when this process ends. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(PS_STOPPED);
    execv(supervisor->words[0], (char *const *)(size_t)supervisor->words);
    _exit(PS_FAILED);
}

/* ------------------------------------------------------------------ waiting */

/* Since when something has been so, as seen in checks; 0: it is not so. */
static void note_since(double *since_s, bool is_so, double now_s) { *since_s = !is_so ? 0 : *since_s > 0 ? *since_s : now_s; }

static bool lasts(double since_s, double limit_s) { return since_s > 0 && seconds_now() - since_s > limit_s; }

/* Waits for the child's end, forwards signals, and kills the child if it, or a descendant, is stopped for too long, or if it is
 * a launcher whose workers have all ended. */
static int wait_for(pid_t child) {
    const struct timespec interval = {.tv_nsec = POLL_MS * 1000000};
    double halted_s = 0, signalled_s = 0, descendant_halted_s = 0, left_s = 0;
    double checked_s = seconds_now(), check_s = CHECK_SOON_S;
    bool had_workers = false; /* below the child: a launcher on this machine */
    for (;;) {
        int status = 0;
        pid_t changed = waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED);
        if (changed == child && (WIFEXITED(status) || WIFSIGNALED(status))) return status;
        if (changed == child) halted_s = WIFSTOPPED(status) ? seconds_now() : 0;
        if (stop_requested() && signalled_s == 0) {
            signalled_s = seconds_now();
            kill(child, SIGTERM);
            kill(child, SIGCONT);
        }
        if (lasts(checked_s, check_s)) {
            checked_s = seconds_now();
            check_s = check_s * 2 < CHECK_S ? check_s * 2 : CHECK_S;
            bool has_workers = process_runs_below(child);
            note_since(&descendant_halted_s, process_stopped_below(child) > 0, checked_s);
            note_since(&left_s, had_workers && !has_workers, checked_s);
            had_workers |= has_workers;
        }
        if (lasts(halted_s, STOPPED_WITHIN_S) || lasts(descendant_halted_s, STOPPED_DESCENDANT_S) ||
            lasts(left_s, ENDED_WITHIN_S) || lasts(signalled_s, SAVED_WITHIN_S))
            kill(-child, SIGKILL);
        nanosleep(&interval, NULL);
    }
}

/* The processes of a launcher that was killed become children of this process. They must end before others train in the same
 * directory. */
static void kill_children(void) {
    const struct timespec interval = {.tv_nsec = POLL_MS * 1000000};
    double until = seconds_now() + KILLED_WITHIN_S;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    while (seconds_now() < until) {
        FILE *children = fopen(path, "re");
        int child;
        while (children != NULL && fscanf(children, "%d", &child) == 1) kill(child, SIGKILL);
        if (children != NULL) fclose(children);
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (ended < 0) return; /* none is left */
        nanosleep(&interval, NULL);
    }
}

/* Whether training was lost. Launchers have different exit statuses for a killed process. */
static bool is_lost(const struct supervisor *supervisor, int status) {
    if (WIFSIGNALED(status)) return true;
    int code = WEXITSTATUS(status);
    bool launched = supervisor->arguments->launch != NULL;
    return code == PS_WORKER_LOST || (launched && (code == SIGKILL || code > 128));
}

static const char *end_text(int status, char text[64]) {
    if (WIFSIGNALED(status)) {
        snprintf(text, 64, "was ended by signal %d", WTERMSIG(status));
    } else {
        snprintf(text, 64, "ended with status %d", WEXITSTATUS(status));
    }
    return text;
}

static void warn_of_loss(const struct supervisor *supervisor, int status, int left) {
    char what[64];
    if (supervisor->arguments->common.quiet) return;
    fprintf(stderr, "warning: training %s at checkpoint %lld; starting it again%s, %d restart%s left\n", end_text(status, what),
            (long long)newest_checkpoint(supervisor), supervisor->workers > 0 ? " with a worker less" : "", left,
            left == 1 ? " is" : "s are");
}

/* If training is lost again without a newer checkpoint, one worker is assumed to be gone. */
static void choose_workers(struct supervisor *supervisor) {
    int64_t reached = newest_checkpoint(supervisor);
    int workers = planned_workers(supervisor);
    supervisor->workers = reached >= 0 && reached == supervisor->reached && workers > 1 ? workers - 1 : 0;
    supervisor->reached = reached;
}

enum ps_status supervise(const struct train_arguments *arguments, struct ps_error *error) {
    struct supervisor supervisor = {.arguments = arguments, .reached = -2};
    stop_on_signals();
    if (run_dir_of(&supervisor) == NULL)
        return message_set(error, PS_USAGE, "--restarts: needs a run directory (--out) to resume from");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (arguments->options.resume != NULL) supervisor.before = configuration(&supervisor);
    if (readlink("/proc/self/exe", supervisor.program, sizeof supervisor.program - 1) < 0)
        return message_set(error, PS_FAILED, "--restarts: cannot find this program: %s", strerror(errno));
    for (int left = arguments->restarts;; left--) {
        pid_t child;
        CHECK(start(&supervisor, &child, error));
        int status = wait_for(child);
        kill_children();
        /* Launchers that were told to end have a status of their own. */
        const bool ended = WIFEXITED(status) && (WEXITSTATUS(status) == PS_OK || WEXITSTATUS(status) == PS_STOPPED);
        const bool lost = is_lost(&supervisor, status) || (arguments->launch != NULL && stop_requested() && !ended);
        if (!lost) return (enum ps_status)WEXITSTATUS(status);
        if (stop_requested())
            return message_set(error, PS_STOPPED, "stopped on request; %s keeps the checkpoint of step %lld",
                               run_dir_of(&supervisor), (long long)newest_checkpoint(&supervisor));
        /* It has printed the reason itself. */
        if (left == 0 && WIFEXITED(status) && WEXITSTATUS(status) == PS_WORKER_LOST) return PS_WORKER_LOST;
        if (left == 0) {
            char what[64];
            return message_set(error, PS_WORKER_LOST, "training %s, and no restart is left", end_text(status, what));
        }
        choose_workers(&supervisor);
        warn_of_loss(&supervisor, status, left - 1);
    }
}
