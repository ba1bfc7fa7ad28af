/* Ending in order on a signal; see signals.h. */
#include "cli/signals.h"

#include <signal.h>
#include <stddef.h>

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
