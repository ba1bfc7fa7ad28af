/*
 * The command line: a table of commands, and what is the same for all of them. Of the library it sees <penstock.h> and the C
 * library, and how the library reads units (base/units.h) and launchers (comm/launch.h).
 * The exit status is the library's status of what was asked.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/process.h"
#include "comm/launch.h"

extern const struct command command_models, command_profile, command_plan, command_program, command_simulate, command_train,
    command_evaluate, command_predict, command_compare, command_export, command_cluster, command_check, command_report,
    command_devices;

static const struct command *const commands[] = {
    &command_models,  &command_profile,  &command_plan,    &command_program, &command_simulate,
    &command_train,   &command_evaluate, &command_predict, &command_compare, &command_export,
    &command_cluster, &command_check,    &command_report,  &command_devices, NULL,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] - 1 };

static void print_help(void) {
    printf("Penstock %s trains neural networks as pipelines over several workers.\n\n"
           "Usage: penstock COMMAND [options]\n\nCommands:\n",
           ps_version());
    for (int i = 0; i < COMMAND_COUNT; i++) printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n`penstock COMMAND --help` tells the options of a command, with an example; `penstock --version` the version.\n\n"
           "Exit status:\n");
#define X(name, value, text)                                                                                                   \
    if (name != PS_OUT_OF_MEMORY) printf("  %-10d %s\n", value, text);
    PS_STATUS_LIST(X)
#undef X
    printf("\nFrom a network to trained weights:\n"
           "  penstock profile --model lenet5 --micro-batch 16 -o profile.json\n"
           "  penstock plan --profile profile.json --workers 4 -o plan.json\n"
           "  penstock simulate --plan plan.json --profile profile.json --svg timeline.svg\n"
           "  penstock train --plan plan.json --profile profile.json --data synthetic:images --out runs/first\n");
}

static enum ps_status find_command(const char *word, const struct command **command, struct ps_error *error) {
    const char *names[COMMAND_COUNT];
    char list[256] = "";
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
        if (word == NULL || strcmp(word, names[i]) != 0) continue;
        *command = commands[i];
        return PS_OK;
    }
    const char *nearest = word != NULL ? nearest_name(word, names, COMMAND_COUNT) : NULL;
    if (word == NULL) {
        message_set(error, PS_USAGE, "a command is missing");
    } else if (nearest != NULL) {
        message_set(error, PS_USAGE, "'%s' is not a command; did you mean '%s'?", word, nearest);
    } else {
        message_set(error, PS_USAGE, "'%s' is not a command", word);
    }
    message_hint(error, "commands: %s; more with penstock --help", list);
    return PS_USAGE;
}

/* Runs it: behind a guard where a launcher started several processes, which may all take part. */
static enum ps_status run_here(const struct command *command, const void *values, struct ps_error *error) {
    if (!command->every_rank || launch_find().count == 1) return command->run(values, error);
    enum ps_status status = guard_split(error);
    status = status == PS_OK ? command->run(values, error) : launch_fail(NULL, status, error);
    guard_done();
    return status;
}

/* Reads the arguments into `values`, a struct of the command's own, and runs it. */
static enum ps_status run_command(const struct command *command, int argc, char **argv, void *values, struct ps_error *error) {
    struct common_arguments *common = values;
    bool help = false;
    common->log_level = PS_LOG_INFO;
    common->argc = argc;
    common->argv = argv;
    if (command->defaults != NULL) command->defaults(values);
    enum ps_status status = arguments_read(command->groups, &command->words, argc, argv, values, &help, error);
    if (status == PS_OK && help) {
        command_print_help(command);
    } else if (status == PS_OK && (command->every_rank || launch_find().rank == 0)) {
        struct reporter reporter;
        reporter_start(&reporter, (enum ps_log_level)common->log_level, common->quiet);
        status = run_here(command, values, error);
        if (status != PS_OK) message_name_options(error);
        reporter_stop(&reporter);
    }
    if (status == PS_USAGE && error->hint[0] == '\0') message_hint(error, "more with penstock %s --help", command->name);
    return status;
}

/* oneDNN's kernels, paths and messages need stack, also of the threads that OpenMP starts; a limit may give less. */
static enum ps_status take_stack(struct ps_error *error) {
    enum { LEAST = 256 << 10, USUAL = 8 << 20 };
    struct rlimit limit;
    pthread_attr_t attributes;
    size_t of_threads;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < USUAL) {
        limit.rlim_cur = limit.rlim_max < USUAL ? limit.rlim_max : USUAL;
        if (limit.rlim_cur < LEAST) {
            struct rlimit more = {USUAL, USUAL}; /* if it may */
            if (setrlimit(RLIMIT_STACK, &more) != 0) {
                message_set(error, PS_USAGE, "the limit of the stack is %lld KiB; %d KiB are needed",
                            (long long)limit.rlim_cur >> 10, LEAST >> 10);
                message_hint(error, "ulimit -s sets it");
                return PS_USAGE;
            }
        } else {
            setrlimit(RLIMIT_STACK, &limit);
        }
    }
    if (pthread_getattr_default_np(&attributes) != 0) return PS_OK;
    if (pthread_attr_getstacksize(&attributes, &of_threads) == 0 && of_threads < USUAL &&
        pthread_attr_setstacksize(&attributes, USUAL) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return PS_OK;
}

static enum ps_status run(int argc, char **argv, struct ps_error *error) {
    CHECK(take_stack(error));
    const char *word = argc > 1 ? argv[1] : NULL;
    bool help = word != NULL && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0);
    if (help && argc == 2) {
        print_help();
        return PS_OK;
    }
    if (word != NULL && strcmp(word, "--version") == 0) {
        printf("penstock %s\n", ps_version());
        return PS_OK;
    }
    if (word != NULL && strcmp(word, "--documents") == 0 && argc == 3) return documents_write(commands, argv[2], error);
    const struct command *command;
    CHECK(find_command(help ? argv[2] : word, &command, error));
    if (help) {
        command_print_help(command);
        return PS_OK;
    }
    void *values = calloc(1, command->size);
    if (values == NULL) return message_set(error, PS_OUT_OF_MEMORY, "out of memory for the arguments");
    enum ps_status status = run_command(command, argc - 1, argv + 1, values, error);
    free(values);
    return status;
}

/*
 * Launchers end all processes as soon as one ends badly, and do not always pass on what it said last: so it stays until the
 * launcher has read that, and a moment longer.
 */
static void wait_for_launcher(void) {
    const struct timespec moment = {.tv_nsec = 20000000};
    enum { MOMENTS_MAX = 250, MOMENTS_AFTER = 10 };
    int unread;
    for (int i = 0; i < MOMENTS_MAX && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0; i++)
        nanosleep(&moment, NULL);
    for (int i = 0; i < MOMENTS_AFTER; i++) nanosleep(&moment, NULL);
}

int main(int argc, char **argv) {
    struct ps_error error = {0};
    output_prepare();
    enum ps_status status = run(argc, argv, &error);
    const bool own = status == PS_OK; /* what fails now is of this process alone */
    if (status == PS_OK) status = output_finish(&error);
    if (status == PS_OK) return 0;
    /* Who lacks memory before it can tell rank 0 fails alone; else rank 0 speaks, and there is no message here. */
    const bool alone = (status == PS_WORKER_LOST || status == PS_OUT_OF_MEMORY) && error.message[0] != '\0';
    if (own || launch_find().rank == 0 || alone) {
        /* An empty one was shown by the process that was supervised. */
        if (error.message[0] != '\0') message_print(&error);
        if (launch_find().count > 1) wait_for_launcher();
    } else {
        /* The one that speaks goes first, and ends this one. Where they have not met, it fails as this one does. */
        struct timespec moment = {.tv_sec = launch_has_met() ? 8 : 2};
        nanosleep(&moment, NULL);
    }
    const int exit_status = (int)(status == PS_OUT_OF_MEMORY ? PS_FAILED : status);
    fflush(NULL);
    launch_abort(exit_status);
    return exit_status;
}
