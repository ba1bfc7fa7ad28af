/*
 * Preloaded into a program it ends the process of one rank in the middle: LEAVER_RANK leaves by LEAVER_HOW (exit or _exit) with
 * LEAVER_STATUS, LEAVER_MS milliseconds after the file LEAVER_FILE is there. Into a program whose name begins with one of
 * LEAVER_FORKS, between commas: when that starts its first process, LEAVER_SIDE (parent or child) of the two gets the signal
 * LEAVER_SIGNAL at once.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long milliseconds) {
    struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *leave(void *argument) {
    const char *file = argument, *how = getenv("LEAVER_HOW"), *wait = getenv("LEAVER_MS");
    int status = atoi(getenv("LEAVER_STATUS"));
    while (access(file, F_OK) != 0) pause_ms(10);
    pause_ms(wait ? atol(wait) : 0);
    if (how && strcmp(how, "_exit") == 0) _exit(status);
    exit(status);
}

static void start(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    pthread_t thread;
    if (!rank || !getenv("LEAVER_RANK") || strcmp(rank, getenv("LEAVER_RANK")) != 0 || !getenv("LEAVER_STATUS")) return;
    if (pthread_create(&thread, NULL, leave, getenv("LEAVER_FILE")) == 0) pthread_detach(thread);
}

static bool is_meant(const char *names) {
    for (; names && *names; names += strspn(names, ",")) {
        const size_t length = strcspn(names, ",");
        if (strncmp(program_invocation_short_name, names, length) == 0) return true;
        names += length;
    }
    return false;
}

static void forked(const char *side) {
    static int forks;
    if (is_meant(getenv("LEAVER_FORKS")) && forks++ == 0 && strcmp(side, getenv("LEAVER_SIDE")) == 0)
        raise(atoi(getenv("LEAVER_SIGNAL")));
}
static void in_parent(void) { forked("parent"); }

/* The guard's child is a process of its own, and only its own thread lives on in it. */
static void in_child(void) {
    forked("child");
    start();
}

__attribute__((constructor)) static void load(void) { pthread_atfork(NULL, in_parent, in_child); }
