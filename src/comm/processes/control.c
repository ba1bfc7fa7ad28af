/*
 * One thread per process reads all its connections and sends heartbeats; any thread may write (connection.h). The failure that
 * ends the run is decided once: it is the first that a process receives, and rank 0's decision reaches all, since everything
 * goes through it.
 *
 * When a process ends, the kernel closes its connections, whatever killed it, and the other end is notified at once. A process
 * that is stopped, or whose host has failed, sends no heartbeats. An overloaded host may delay them, too: if the silent process
 * is on this host, the kernel says whether it is stopped; if it is not, it gets more time.
 */
#include "comm/processes/control.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"

#define HEARTBEAT_S 0.2 /* between two heartbeats */
#define SILENT_S 3.6    /* without a heartbeat for this time a process counts as lost */
#define BUSY_S 12.0     /* the same if it is on this host and not stopped */
#define LOCK_S 0.5      /* maximum wait of a frame for all processes for a connection to which another thread is writing */

/* Internal frames. */
enum { FRAME_HEARTBEAT = FRAME_KEPT, FRAME_LOG, FRAME_FAILED, FRAME_LOST };

/* A connection; unused if its socket is -1. */
struct peer {
    struct connection connection;
    bool done; /* it has sent FRAME_DONE: its connection may close */
};

struct control {
    int rank, count;
    struct process_info *info;
    struct peer *peers; /* by rank: all of them at rank 0, elsewhere rank 0 alone is connected */
    atomic_bool leave, end_expected;
    atomic_bool over; /* something has ended the run */
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t news;
    struct frame *first, **last;
    struct process_state *states; /* by rank */
    enum ps_status status;        /* what ended the run */
    struct ps_error error;
    struct process_loss loss;
    bool lost;
};

/* ------------------------------------------------------------------ writing */

enum ps_status control_send(struct control *control, int rank, enum frame_kind kind, const void *data, size_t size,
                            struct ps_error *error) {
    if (size > FRAME_SIZE_MAX)
        return error_set(error, PS_FAILED, "%zu bytes are more than one process can send to another at once", size);
    if (connection_send(&control->peers[rank].connection, kind, data, size)) return PS_OK;
    /* The reading thread also detects the end of the connection, and decides the failure. */
    double until = clock_now() + 2;
    while (control_check(control, error) == PS_OK && clock_now() < until) clock_wait_until(clock_now() + 0.01);
    if (control_check(control, error) != PS_OK) return control_check(control, error);
    return error_set(error, PS_WORKER_LOST, "the connection to rank %d on %s broke", rank, control->info[rank].host);
}

static void send_all(struct control *control, int but, unsigned kind, const void *data, size_t size) {
    for (int rank = 0; rank < control->count; rank++)
        if (rank != but && rank != control->rank)
            connection_send_soon(&control->peers[rank].connection, kind, data, size, LOCK_S);
}

/* -------------------------------------------------------- what ends the run */

/* False if the run has ended before. */
static bool decide(struct control *control, enum ps_status status, const struct ps_error *error,
                   const struct process_loss *loss) {
    pthread_mutex_lock(&control->lock);
    bool first = control->status == PS_OK;
    if (first) {
        control->status = status;
        control->error = *error;
        control->error.status = status;
        control->lost = loss != NULL;
        atomic_store(&control->over, true);
        if (loss) control->loss = *loss;
        pthread_cond_broadcast(&control->news);
    }
    pthread_mutex_unlock(&control->lock);
    return first;
}

static void take_failure(struct control *control, int from, enum ps_status status, const struct ps_error *error) {
    if (!decide(control, status, error, NULL)) return;
    /* Nothing goes along that stands behind the texts' ends. */
    struct ps_error sent = {.status = status};
    strcpy(sent.message, error->message);
    strcpy(sent.hint, error->hint);
    send_all(control, from, FRAME_FAILED, &sent, sizeof sent);
}

static void take_loss(struct control *control, int from, const struct process_loss *loss) {
    struct ps_error error = {0};
    static const char *const what[] = {
        [LOSS_ENDED] = "ended before the run did", [LOSS_SILENT] = "does not answer", [LOSS_STALLED] = "makes no progress"};
    error_set(&error, PS_WORKER_LOST, "worker %d was lost: rank %d on %s %s", loss->rank, loss->rank,
              control->info[loss->rank].host, what[loss->kind]);
    if (!decide(control, PS_WORKER_LOST, &error, loss)) return;
    send_all(control, from, FRAME_LOST, loss, sizeof *loss);
}

void control_fail(struct control *control, enum ps_status status, const struct ps_error *error) {
    take_failure(control, control->rank, status, error);
}

void control_lose(struct control *control, const struct process_loss *loss) { take_loss(control, control->rank, loss); }

enum ps_status control_check(const struct control *control, struct ps_error *error) {
    struct control *open = (struct control *)control;
    pthread_mutex_lock(&open->lock);
    enum ps_status status = control->status;
    if (status != PS_OK && error) *error = control->error;
    pthread_mutex_unlock(&open->lock);
    return status;
}

bool control_lost(const struct control *control, struct process_loss *loss) {
    struct control *open = (struct control *)control;
    pthread_mutex_lock(&open->lock);
    bool lost = control->lost;
    if (lost) *loss = control->loss;
    pthread_mutex_unlock(&open->lock);
    return lost;
}

void control_expect_end(struct control *control) { atomic_store(&control->end_expected, true); }

/* ------------------------------------------------------------------ reading */

static void keep(struct control *control, struct frame *frame) {
    pthread_mutex_lock(&control->lock);
    frame->next = NULL;
    *control->last = frame;
    control->last = &frame->next;
    pthread_cond_broadcast(&control->news);
    pthread_mutex_unlock(&control->lock);
}

static bool is_status(int number) {
#define X(name, value, text) number == (value) ||
    return PS_STATUS_LIST(X) false;
#undef X
}

/* What another process decided about the end of the run; false: it cannot have. */
static bool hear_failure(struct control *control, int rank, const struct frame *frame) {
    struct ps_error error;
    struct process_loss loss;
    if (frame->kind == FRAME_FAILED && frame->size == sizeof error) {
        memcpy(&error, frame->data, sizeof error);
        error.message[sizeof error.message - 1] = error.hint[sizeof error.hint - 1] = '\0';
        if (!is_status((int)error.status) || error.status == PS_OK) return false;
        take_failure(control, rank, error.status, &error);
        return true;
    }
    if (frame->kind != FRAME_LOST || frame->size != sizeof loss) return false;
    memcpy(&loss, frame->data, sizeof loss);
    if (loss.rank < 0 || loss.rank >= control->count || (int)loss.kind < 0 || loss.kind > LOSS_STALLED) return false;
    take_loss(control, rank, &loss);
    return true;
}

static bool hear_state(struct control *control, int rank, const struct frame *frame) {
    struct process_state state;
    if (frame->size != sizeof state) return false;
    memcpy(&state, frame->data, sizeof state);
    if (state.next < 0) return false;
    pthread_mutex_lock(&control->lock);
    control->states[rank] = state;
    pthread_mutex_unlock(&control->lock);
    return true;
}

static bool hear_line(int rank, const struct frame *frame) {
    int level;
    if (frame->size <= sizeof level) return false;
    memcpy(&level, frame->data, sizeof level);
    if (level < PS_LOG_DEBUG || level > PS_LOG_ERROR) return false;
    const char *text = frame->data + sizeof level;
    log_line((enum ps_log_level)level, "rank %d: %.*s", rank, (int)strnlen(text, frame->size - sizeof level), text);
    return true;
}

bool control_hear(struct control *control, int rank, struct frame *frame) {
    bool good;
    switch ((int)frame->kind) {
    case FRAME_HEARTBEAT:
        good = hear_state(control, rank, frame);
        break;
    case FRAME_LOG:
        good = hear_line(rank, frame);
        break;
    case FRAME_FAILED:
    case FRAME_LOST:
        good = hear_failure(control, rank, frame);
        break;
    default:
        good = frame->kind < FRAME_KEPT;
        if (!good) break;
        if (frame->kind == FRAME_DONE) control->peers[rank].done = true;
        keep(control, frame);
        return true;
    }
    free(frame);
    return good;
}

static void read_peer(struct control *control, int rank) {
    struct peer *peer = &control->peers[rank];
    bool open, good = true;
    for (struct frame *frame; good && (frame = connection_read(&peer->connection, &open));) {
        frame->rank = rank;
        good = control_hear(control, rank, frame);
    }
    if (!good) {
        struct ps_error error = {0};
        error_set(&error, PS_FAILED, "rank %d on %s sent what no process of this version sends", rank,
                  control->info[rank].host);
        control_fail(control, PS_FAILED, &error);
    } else if (open) {
        return;
    }
    struct process_loss loss = {.rank = rank, .kind = LOSS_ENDED, .seconds = clock_now() - peer->connection.received_at};
    if (!peer->done && !atomic_load(&control->end_expected)) take_loss(control, control->rank, &loss);
    connection_close(&peer->connection);
}

/* --------------------------------------------------------------- the thread */

static void send_heartbeats(struct control *control, double wait_s) {
    pthread_mutex_lock(&control->lock);
    struct process_state state = control->states[control->rank];
    pthread_mutex_unlock(&control->lock);
    for (int rank = 0; rank < control->count; rank++)
        connection_send_soon(&control->peers[rank].connection, FRAME_HEARTBEAT, &state, sizeof state, wait_s);
}

/* Whether a process of this host is running, neither stopped nor ended; false if unknown. */
static bool process_runs(int32_t process) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file && !fgets(line, sizeof line, file)) line[0] = '\0';
    if (file) fclose(file);
    /* The line is PID (NAME) STATE ...; a name may contain any characters. Where it ends there is no state, as if it had ended.
     */
    const char *state = strrchr(line, ')');
    return state && state[1] == ' ' && !strchr("TtZX", state[2]);
}

static void check_heartbeats(struct control *control, double now) {
    for (int rank = 0; rank < control->count; rank++) {
        const struct connection *connection = &control->peers[rank].connection;
        struct process_loss loss = {.rank = rank, .kind = LOSS_SILENT, .seconds = now - connection->received_at};
        if (connection->fd < 0 || loss.seconds <= SILENT_S) continue;
        const struct process_info *one = &control->info[rank], *own = &control->info[control->rank];
        bool busy = one->machine == own->machine && process_runs(one->process);
        if (!busy || loss.seconds > BUSY_S) take_loss(control, control->rank, &loss);
    }
}

static void *thread_main(void *argument) {
    struct control *control = argument;
    struct pollfd *fds = calloc((size_t)control->count, sizeof *fds);
    double woke_at = clock_now(), sent_at = 0;
    while (fds && !atomic_load(&control->leave)) {
        for (int rank = 0; rank < control->count; rank++)
            fds[rank] = (struct pollfd){.fd = control->peers[rank].connection.fd, .events = POLLIN};
        poll(fds, (nfds_t)control->count, (int)(1000 * HEARTBEAT_S / 2));
        double now = clock_now(), slept = now - woke_at;
        woke_at = now;
        /* This process itself was stopped: heartbeats of the others may not have been read yet. */
        for (int rank = 0; slept > 1 && rank < control->count; rank++) control->peers[rank].connection.received_at = now;
        for (int rank = 0; rank < control->count; rank++)
            if (fds[rank].fd >= 0 && fds[rank].revents) read_peer(control, rank);
        if (now - sent_at >= HEARTBEAT_S) {
            send_heartbeats(control, 0);
            sent_at = now;
        }
        check_heartbeats(control, now);
    }
    /* The last position of the worker. */
    if (control_check(control, NULL) != PS_OK) send_heartbeats(control, LOCK_S);
    free(fds);
    return NULL;
}

/* ---------------------------------------------- sending, taking and waiting */

static bool is_about(const struct frame *frame, int32_t segment) {
    int32_t about;
    if (frame->size < sizeof about) return false;
    memcpy(&about, frame->data, sizeof about);
    return about == segment;
}

/* Under the lock. `segment` NULL: about any, or none. */
static struct frame *take(struct control *control, int rank, enum frame_kind kind, const int32_t *segment) {
    struct frame **link = &control->first;
    while (*link && ((*link)->kind != kind || (rank >= 0 && (*link)->rank != rank) || (segment && !is_about(*link, *segment))))
        link = &(*link)->next;
    struct frame *found = *link;
    if (!found) return NULL;
    *link = found->next;
    if (control->last == &found->next) control->last = link;
    return found;
}

struct frame *control_take_told(struct control *control, int32_t segment) {
    pthread_mutex_lock(&control->lock);
    struct frame *found = take(control, -1, FRAME_TOLD, &segment);
    pthread_mutex_unlock(&control->lock);
    return found;
}

/* Frames that arrived before the run ended are still returned. */
enum ps_status control_wait(struct control *control, int rank, enum frame_kind kind, struct frame **frame,
                            struct ps_error *error) {
    struct frame *found;
    pthread_mutex_lock(&control->lock);
    while (!(found = take(control, rank, kind, NULL)) && control->status == PS_OK)
        pthread_cond_wait(&control->news, &control->lock);
    pthread_mutex_unlock(&control->lock);
    if (!found) return control_check(control, error);
    *frame = found;
    return PS_OK;
}

void control_set_state(struct control *control, const struct process_state *state) {
    pthread_mutex_lock(&control->lock);
    control->states[control->rank] = *state;
    pthread_mutex_unlock(&control->lock);
}

struct process_state control_state_of(const struct control *control, int rank) {
    struct control *open = (struct control *)control;
    pthread_mutex_lock(&open->lock);
    struct process_state state = control->states[rank];
    pthread_mutex_unlock(&open->lock);
    return state;
}

void control_drain(struct control *control, int but, double seconds) {
    double until = clock_now() + seconds;
    for (int rank = 0; rank < control->count; rank++)
        while (rank != but && connection_is_open(&control->peers[rank].connection) && clock_now() < until) clock_sleep(0.01);
}

void control_log(void *context, enum ps_log_level level, const char *text) {
    struct control *control = context;
    char line[sizeof(int) + 900];
    int number = (int)level;
    size_t length = strnlen(text, sizeof line - sizeof number);
    memcpy(line, &number, sizeof number);
    memcpy(line + sizeof number, text, length);
    connection_send_soon(&control->peers[0].connection, FRAME_LOG, line, sizeof number + length, LOCK_S);
}

/* ------------------------------------------------------------ begin and end */

static enum ps_status connect_all(const struct processes_class *class, struct control *control, bool loopback,
                                  struct ps_error *error) {
    struct listening_address address = {0};
    struct ps_error failure = {0};
    int listener = -1;
    enum ps_status status = control->rank == 0 ? socket_listen(loopback, &address, &listener, &failure) : PS_OK;
    class->bootstrap(&address, sizeof address); /* also after a failure: the others wait for it */
    if (status != PS_OK) {
        if (error) *error = failure;
        return status;
    }
    if (control->rank > 0)
        return socket_connect(&address, control->rank, &control->info[control->rank], &control->peers[0].connection.fd, error);
    int *sockets;
    status = memory_new(&sockets, control->count, "connections", error);
    if (status == PS_OK) status = socket_accept_all(&address, listener, control->count, sockets, control->info, error);
    for (int rank = 1; sockets && rank < control->count; rank++) control->peers[rank].connection.fd = sockets[rank];
    free(sockets);
    close(listener);
    return status;
}

enum ps_status control_create(int rank, int count, struct process_info *info, struct control **out, struct ps_error *error) {
    struct control *control;
    TRY(memory_new(&control, 1, "connections", error));
    *control = (struct control){.rank = rank, .count = count, .info = info};
    control->last = &control->first;
    pthread_mutex_init(&control->lock, NULL);
    pthread_cond_init(&control->news, NULL);
    enum ps_status status = memory_new(&control->peers, count, "connections", error);
    if (status == PS_OK) status = memory_new(&control->states, count, "connections", error);
    for (int r = 0; control->peers && r < count; r++) connection_init(&control->peers[r].connection, &control->over);
    if (status == PS_OK)
        *out = control;
    else
        control_close(control);
    return status;
}

enum ps_status control_open(const struct processes_class *class, int rank, int count, bool loopback, struct process_info *info,
                            struct control **out, struct ps_error *error) {
    struct control *control;
    TRY(control_create(rank, count, info, &control, error));
    enum ps_status status = connect_all(class, control, loopback, error);
    for (int r = 0; status == PS_OK && r < count; r++) control->peers[r].connection.received_at = clock_now();
    if (status == PS_OK) {
        int code = thread_start(&control->thread, thread_main, control);
        control->started = code == 0;
        if (code) {
            struct ps_error failure = {0};
            status = error_set(&failure, PS_FAILED, "cannot start the thread that reads the connections: %s", strerror(code));
            control_fail(control, status, &failure); /* so that the others do not take this one for lost */
            if (error) *error = failure;
        }
    }
    if (status == PS_OK)
        *out = control;
    else
        control_close(control);
    return status;
}

void control_close(struct control *control) {
    if (!control) return;
    atomic_store(&control->leave, true);
    if (control->started) pthread_join(control->thread, NULL);
    for (int rank = 0; control->peers && rank < control->count; rank++) connection_free(&control->peers[rank].connection);
    while (control->first) {
        struct frame *next = control->first->next;
        free(control->first);
        control->first = next;
    }
    pthread_cond_destroy(&control->news);
    pthread_mutex_destroy(&control->lock);
    free(control->states);
    free(control->peers);
    free(control);
}
