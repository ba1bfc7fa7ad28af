/*
 * MPI: the only file that sees mpi.h. It makes the processes known to each other and sends blocks; the rest is in the layers
 * above.
 *
 * Between start and end only nonblocking calls are made, one at a time under a lock (MPI_THREAD_SERIALIZED): a blocked rank
 * would occupy a core, and a large message of Open MPI or MPICH only progresses during calls. A waiting worker polls, with
 * sleeps between; a computing one calls between operators. A block is sent in pieces, so that one call never copies much, and
 * so that sizes above 2 GiB fit MPI's counts.
 */
#include <assert.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/launch.h"
#include "comm/transports/between_processes.h"

/* Measured between two ranks of one host with both libraries (bench/mpi.sh): smaller pieces need more calls, larger ones are
 * not faster. */
enum { PIECE = 1 << 20 };
/* A launcher that has not answered then hangs. */
enum { ABORT_S = 5 };

extern const struct transport_class transport_mpi, transport_mpi_messages;

/* MPI is global to the process, and so is its state here. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm communicator = MPI_COMM_NULL;
static char failure_text[MPI_MAX_ERROR_STRING + 64];
static atomic_bool failed;
static int greatest_tag; /* the library's */

struct message {
    size_t size;
    int pieces, done; /* done: number of pieces completed, from the first */
    MPI_Request *requests;
};

/* Under the lock. */
static void record_failure(const char *what, int code) {
    if (code == MPI_SUCCESS || atomic_load(&failed)) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(failure_text, sizeof failure_text, "%s: %s", what, text);
    atomic_store(&failed, true);
}

static const char *failure(void) { return atomic_load(&failed) ? failure_text : NULL; }

/* -------------------------------------------------------------- start and end */

static enum ps_status check_launch(int count, struct ps_error *error) {
    struct launch launch = launch_find();
    if (launch.count == count) return PS_OK;
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    for (char *c = version; *c; c++)
        if (*c == '\n' || *c == ',') *c = '\0';
    error_set(error, PS_USAGE, "%s started %d processes, but the MPI library of this program (%s) knows of %d",
              launch.launcher ? launch.launcher : "nobody", launch.count, version, count);
    error_hint(error, "%s", launch_advice());
    return PS_USAGE;
}

/* MPI promises no more than 32767. */
static int find_greatest_tag(void) {
    int *bound = NULL, found = 0;
    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found) != MPI_SUCCESS || !found) return 32767;
    return *bound;
}

/* The lowest of the ranks that share memory according to MPI. */
static int find_host_leader(int rank) {
    MPI_Comm host = MPI_COMM_NULL;
    int first = rank;
    if (MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host) != MPI_SUCCESS) return rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, host);
    MPI_Comm_free(&host);
    return first;
}

/* Whether all ranks have the same number. */
static bool same_everywhere(uint64_t number) {
    uint64_t own[2] = {number, ~number}, least[2] = {0};
    return MPI_Allreduce(own, least, 2, MPI_UINT64_T, MPI_MIN, communicator) == MPI_SUCCESS && least[0] == ~least[1];
}

static enum ps_status start(uint64_t network, int *rank, int *count, int *host_leader, bool *same_network,
                            struct ps_error *error) {
    int before = 0, level = 0;
    MPI_Initialized(&before);
    if (before) return error_set(error, PS_USAGE, "MPI has been used in this process; it can be only once");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return error_set(error, PS_FAILED, "MPI cannot be started");
    if (level < MPI_THREAD_SERIALIZED)
        return error_set(error, PS_FAILED,
                         "this MPI library can only be called from one thread; MPI_THREAD_SERIALIZED is needed");
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator, rank);
    MPI_Comm_size(communicator, count);
    *host_leader = find_host_leader(*rank);
    greatest_tag = find_greatest_tag();
    *same_network = same_everywhere(network);
    return check_launch(*count, error);
}

static void bootstrap(void *data, size_t size) {
    pthread_mutex_lock(&mutex);
    record_failure("MPI_Bcast", MPI_Bcast(data, (int)size, MPI_BYTE, 0, communicator));
    pthread_mutex_unlock(&mutex);
}

static void end(void) {
    pthread_mutex_lock(&mutex);
    MPI_Comm_free(&communicator);
    MPI_Finalize();
    pthread_mutex_unlock(&mutex);
}

static volatile sig_atomic_t abort_status;

static void end_unanswered(int number) {
    (void)number;
    _exit(abort_status);
}

/* MPI cannot be ended after a failure. Without MPI_Abort some launchers report the signal that ended the others instead of the
 * status of the first process; but it ends this process at once, which the library does not. It waits for the launcher, of
 * which Open MPI's hangs now and then. */
static void abort_all(int status) {
    int started = 0;
    MPI_Initialized(&started);
    if (!started) return;
    abort_status = status;
    signal(SIGALRM, end_unanswered);
    alarm(ABORT_S);
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void abort_run(enum ps_status status) {
    (void)status;
    launch_set_abort(abort_all);
}

/* ------------------------------------------------------------------- messages */

static enum ps_status message_create(size_t size, struct message **out, struct ps_error *error) {
    struct message *message;
    TRY(memory_new(&message, 1, "a message", error));
    int pieces = (int)((size + PIECE - 1) / PIECE);
    *message = (struct message){.size = size, .pieces = pieces, .done = pieces};
    message->requests = calloc((size_t)pieces + 1, sizeof *message->requests);
    if (!message->requests) {
        free(message);
        return error_memory(error, "a message", (size_t)pieces * sizeof *message->requests);
    }
    *out = message;
    return PS_OK;
}

static void message_destroy(struct message *message) {
    if (!message) return;
    free(message->requests);
    free(message);
}

static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    assert(message->done == message->pieces && size <= message->size);
    pthread_mutex_lock(&mutex);
    message->done = 0;
    message->pieces = (int)((size + PIECE - 1) / PIECE);
    if (tag > greatest_tag && !atomic_load(&failed)) {
        snprintf(failure_text, sizeof failure_text, "the plan needs the tag %d, and this library has tags up to %d", tag,
                 greatest_tag);
        atomic_store(&failed, true);
    }
    for (int p = 0; p < message->pieces && tag <= greatest_tag; p++) {
        size_t at = (size_t)p * PIECE, left = size - at;
        int bytes = left < PIECE ? (int)left : PIECE;
        char *place = (char *)block + at;
        MPI_Request *request = &message->requests[p];
        if (outgoing)
            record_failure("MPI_Isend", MPI_Isend(place, bytes, MPI_BYTE, peer, tag, communicator, request));
        else
            record_failure("MPI_Irecv", MPI_Irecv(place, bytes, MPI_BYTE, peer, tag, communicator, request));
    }
    pthread_mutex_unlock(&mutex);
}

static bool message_done(struct message *message) {
    int done = 1;
    pthread_mutex_lock(&mutex);
    while (message->done < message->pieces && done && !atomic_load(&failed)) {
        record_failure("MPI_Test", MPI_Test(&message->requests[message->done], &done, MPI_STATUS_IGNORE));
        if (done && !atomic_load(&failed)) message->done++;
    }
    bool all = message->done == message->pieces;
    pthread_mutex_unlock(&mutex);
    return all;
}

static const struct processes_class processes_mpi = {
    .name = "MPI",
    .start = start,
    .bootstrap = bootstrap,
    .end = end,
    .abort_run = abort_run,
    .message_create = message_create,
    .message_destroy = message_destroy,
    .message_start = message_start,
    .message_done = message_done,
    .failure = failure,
};

#define PROCESSES                                                                                                              \
    .own_threads = true, .processes = &processes_mpi, .create = between_processes_create,                                      \
    .destroy = between_processes_destroy, .post = between_processes_post, .reduce = between_processes_reduce,                  \
    .settled = between_processes_settled, .settled_at = between_processes_settled_at, .wait = between_processes_wait,          \
    .stop = between_processes_stop, .progress = between_processes_progress, .drain = between_processes_drain

const struct transport_class transport_mpi = {
    .name = "mpi",
    .summary = "every worker is a process that mpirun started",
    .shares_memory = true,
    PROCESSES,
};

const struct transport_class transport_mpi_messages = {
    .name = "mpi-messages",
    .summary = "the same, and blocks are messages between processes of one host, too",
    PROCESSES,
};
