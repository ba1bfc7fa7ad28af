/*
 * One thread per process reads all its connections and sends heartbeats; any thread may write (connection.h). The failure that
 * ends the run is decided once: it is the first that a process receives, and rank 0's decision reaches all, since everything
 * goes through it.
 *
 * When a process ends, the kernel closes its connections, whatever killed it, and the other end is notified at once. A process
 * that is stopped, or whose host has failed, sends no heartbeats. An overloaded host may delay them, too: if the silent process
 * is on this host, the kernel says whether it is stopped; if it is not, it gets more time.
 */
#include "comm/processes/links.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
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

struct links {
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

enum ps_status links_send(struct links *links, int rank, enum frame_kind kind, const void *data, size_t size,
                          struct ps_error *error) {
    if (size > FRAME_SIZE_MAX)
        return error_set(error, PS_FAILED, "%zu bytes are more than one process can send to another at once", size);
    if (connection_send(&links->peers[rank].connection, kind, data, size)) return PS_OK;
    /* The reading thread also detects the end of the connection, and decides the failure. */
    double until = clock_now() + 2;
    while (links_check(links, error) == PS_OK && clock_now() < until) clock_wait_until(clock_now() + 0.01);
    if (links_check(links, error) != PS_OK) return links_check(links, error);
    return error_set(error, PS_WORKER_LOST, "the connection to rank %d on %s broke", rank, links->info[rank].host);
}

static void send_all(struct links *links, int but, unsigned kind, const void *data, size_t size) {
    for (int rank = 0; rank < links->count; rank++)
        if (rank != but && rank != links->rank) connection_send_soon(&links->peers[rank].connection, kind, data, size, LOCK_S);
}

/* -------------------------------------------------------- what ends the run */

/* False if the run has ended before. */
static bool decide(struct links *links, enum ps_status status, const struct ps_error *error, const struct process_loss *loss) {
    pthread_mutex_lock(&links->lock);
    bool first = links->status == PS_OK;
    if (first) {
        links->status = status;
        links->error = *error;
        links->error.status = status;
        links->lost = loss != NULL;
        atomic_store(&links->over, true);
        if (loss) links->loss = *loss;
        pthread_cond_broadcast(&links->news);
    }
    pthread_mutex_unlock(&links->lock);
    return first;
}

static void take_failure(struct links *links, int from, enum ps_status status, const struct ps_error *error) {
    if (!decide(links, status, error, NULL)) return;
    struct ps_error sent = *error;
    sent.status = status;
    send_all(links, from, FRAME_FAILED, &sent, sizeof sent);
}

static void take_loss(struct links *links, int from, const struct process_loss *loss) {
    struct ps_error error = {0};
    static const char *const what[] = {
        [LOSS_ENDED] = "ended before the run did", [LOSS_SILENT] = "does not answer", [LOSS_STALLED] = "makes no progress"};
    error_set(&error, PS_WORKER_LOST, "worker %d was lost: rank %d on %s %s", loss->rank, loss->rank,
              links->info[loss->rank].host, what[loss->kind]);
    if (!decide(links, PS_WORKER_LOST, &error, loss)) return;
    send_all(links, from, FRAME_LOST, loss, sizeof *loss);
}

void links_fail(struct links *links, enum ps_status status, const struct ps_error *error) {
    take_failure(links, links->rank, status, error);
}

void links_lose(struct links *links, const struct process_loss *loss) { take_loss(links, links->rank, loss); }

enum ps_status links_check(const struct links *links, struct ps_error *error) {
    struct links *open = (struct links *)links;
    pthread_mutex_lock(&open->lock);
    enum ps_status status = links->status;
    if (status != PS_OK && error) *error = links->error;
    pthread_mutex_unlock(&open->lock);
    return status;
}

bool links_lost(const struct links *links, struct process_loss *loss) {
    struct links *open = (struct links *)links;
    pthread_mutex_lock(&open->lock);
    bool lost = links->lost;
    if (lost) *loss = links->loss;
    pthread_mutex_unlock(&open->lock);
    return lost;
}

void links_expect_end(struct links *links) { atomic_store(&links->end_expected, true); }

/* ------------------------------------------------------------------ reading */

static void keep(struct links *links, struct frame *frame) {
    pthread_mutex_lock(&links->lock);
    frame->next = NULL;
    *links->last = frame;
    links->last = &frame->next;
    pthread_cond_broadcast(&links->news);
    pthread_mutex_unlock(&links->lock);
}

static void handle_frame(struct links *links, int rank, struct frame *frame) {
    struct ps_error error;
    struct process_loss loss;
    int level;
    switch ((int)frame->kind) {
    case FRAME_HEARTBEAT:
        if (frame->size != sizeof *links->states) break;
        pthread_mutex_lock(&links->lock);
        memcpy(&links->states[rank], frame->data, frame->size);
        pthread_mutex_unlock(&links->lock);
        break;
    case FRAME_LOG:
        if (frame->size <= sizeof level) break;
        memcpy(&level, frame->data, sizeof level);
        log_line((enum ps_log_level)level, "rank %d: %.*s", rank, (int)(frame->size - sizeof level),
                 frame->data + sizeof level);
        break;
    case FRAME_FAILED:
        if (frame->size != sizeof error) break;
        memcpy(&error, frame->data, sizeof error);
        take_failure(links, rank, error.status, &error);
        break;
    case FRAME_LOST:
        if (frame->size != sizeof loss) break;
        memcpy(&loss, frame->data, sizeof loss);
        take_loss(links, rank, &loss);
        break;
    case FRAME_DONE:
        links->peers[rank].done = true;
        keep(links, frame);
        return;
    default:
        keep(links, frame);
        return;
    }
    free(frame);
}

static void read_peer(struct links *links, int rank) {
    struct peer *peer = &links->peers[rank];
    bool open;
    for (struct frame *frame; (frame = connection_read(&peer->connection, &open));) {
        frame->rank = rank;
        handle_frame(links, rank, frame);
    }
    if (open) return;
    struct process_loss loss = {.rank = rank, .kind = LOSS_ENDED, .seconds = clock_now() - peer->connection.received_at};
    if (!peer->done && !atomic_load(&links->end_expected)) take_loss(links, links->rank, &loss);
    connection_close(&peer->connection);
}

/* --------------------------------------------------------------- the thread */

static void send_heartbeats(struct links *links, double wait_s) {
    pthread_mutex_lock(&links->lock);
    struct process_state state = links->states[links->rank];
    pthread_mutex_unlock(&links->lock);
    for (int rank = 0; rank < links->count; rank++)
        if (links->peers[rank].connection.fd >= 0)
            connection_send_soon(&links->peers[rank].connection, FRAME_HEARTBEAT, &state, sizeof state, wait_s);
}

/* Whether a process of this host is running, neither stopped nor ended; false if unknown. */
static bool process_runs(int32_t process) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file && !fgets(line, sizeof line, file)) line[0] = '\0';
    if (file) fclose(file);
    /* The line is PID (NAME) STATE ...; a name may contain any characters. */
    const char *state = strrchr(line, ')');
    return state && state[1] == ' ' && state[2] != '\0' && !strchr("TtZX", state[2]);
}

static void check_heartbeats(struct links *links, double now) {
    for (int rank = 0; rank < links->count; rank++) {
        const struct connection *connection = &links->peers[rank].connection;
        struct process_loss loss = {.rank = rank, .kind = LOSS_SILENT, .seconds = now - connection->received_at};
        if (connection->fd < 0 || loss.seconds <= SILENT_S) continue;
        const struct process_info *one = &links->info[rank], *own = &links->info[links->rank];
        bool busy = one->machine == own->machine && process_runs(one->process);
        if (!busy || loss.seconds > BUSY_S) take_loss(links, links->rank, &loss);
    }
}

static void *thread_main(void *argument) {
    struct links *links = argument;
    struct pollfd *fds = calloc((size_t)links->count, sizeof *fds);
    double woke_at = clock_now(), sent_at = 0;
    while (fds && !atomic_load(&links->leave)) {
        for (int rank = 0; rank < links->count; rank++)
            fds[rank] = (struct pollfd){.fd = links->peers[rank].connection.fd, .events = POLLIN};
        poll(fds, (nfds_t)links->count, (int)(1000 * HEARTBEAT_S / 2));
        double now = clock_now(), slept = now - woke_at;
        woke_at = now;
        /* This process itself was stopped: heartbeats of the others may not have been read yet. */
        for (int rank = 0; slept > 1 && rank < links->count; rank++) links->peers[rank].connection.received_at = now;
        for (int rank = 0; rank < links->count; rank++)
            if (fds[rank].fd >= 0 && fds[rank].revents) read_peer(links, rank);
        if (now - sent_at >= HEARTBEAT_S) {
            send_heartbeats(links, 0);
            sent_at = now;
        }
        check_heartbeats(links, now);
    }
    /* The last position of the worker. */
    if (links_check(links, NULL) != PS_OK) send_heartbeats(links, LOCK_S);
    free(fds);
    return NULL;
}

/* ---------------------------------------------- sending, taking and waiting */

/* Under the lock. */
static struct frame *take(struct links *links, int rank, enum frame_kind kind) {
    struct frame **link = &links->first;
    while (*link && ((*link)->kind != kind || (rank >= 0 && (*link)->rank != rank))) link = &(*link)->next;
    struct frame *found = *link;
    if (!found) return NULL;
    *link = found->next;
    if (links->last == &found->next) links->last = link;
    return found;
}

struct frame *links_take(struct links *links, int rank, enum frame_kind kind) {
    pthread_mutex_lock(&links->lock);
    struct frame *found = take(links, rank, kind);
    pthread_mutex_unlock(&links->lock);
    return found;
}

/* Frames that arrived before the run ended are still returned. */
enum ps_status links_wait(struct links *links, int rank, enum frame_kind kind, struct frame **frame, struct ps_error *error) {
    struct frame *found;
    pthread_mutex_lock(&links->lock);
    while (!(found = take(links, rank, kind)) && links->status == PS_OK) pthread_cond_wait(&links->news, &links->lock);
    pthread_mutex_unlock(&links->lock);
    if (!found) return links_check(links, error);
    *frame = found;
    return PS_OK;
}

void links_set_state(struct links *links, const struct process_state *state) {
    pthread_mutex_lock(&links->lock);
    links->states[links->rank] = *state;
    pthread_mutex_unlock(&links->lock);
}

struct process_state links_state_of(const struct links *links, int rank) {
    struct links *open = (struct links *)links;
    pthread_mutex_lock(&open->lock);
    struct process_state state = links->states[rank];
    pthread_mutex_unlock(&open->lock);
    return state;
}

void links_drain(struct links *links, int but, double seconds) {
    double until = clock_now() + seconds;
    for (int rank = 0; rank < links->count; rank++)
        while (rank != but && connection_is_open(&links->peers[rank].connection) && clock_now() < until) clock_sleep(0.01);
}

void links_log(void *context, enum ps_log_level level, const char *text) {
    struct links *links = context;
    char line[sizeof(int) + 900];
    int number = (int)level;
    size_t length = strnlen(text, sizeof line - sizeof number);
    memcpy(line, &number, sizeof number);
    memcpy(line + sizeof number, text, length);
    connection_send_soon(&links->peers[0].connection, FRAME_LOG, line, sizeof number + length, LOCK_S);
}

/* ------------------------------------------------------------ begin and end */

static enum ps_status connect_all(const struct processes_class *class, struct links *links, struct ps_error *error) {
    struct listening_address address = {0};
    struct ps_error failure = {0};
    int listener = -1;
    enum ps_status status = links->rank == 0 ? socket_listen(&address, &listener, &failure) : PS_OK;
    class->bootstrap(&address, sizeof address); /* also after a failure: the others wait for it */
    if (status != PS_OK) {
        if (error) *error = failure;
        return status;
    }
    if (links->rank > 0)
        return socket_connect(&address, links->rank, &links->info[links->rank], &links->peers[0].connection.fd, error);
    int *sockets = calloc((size_t)links->count, sizeof *sockets);
    status = sockets ? socket_accept_all(&address, listener, links->count, sockets, links->info, error)
                     : error_memory(error, "connections", (size_t)links->count * sizeof *sockets);
    for (int rank = 1; sockets && rank < links->count; rank++) links->peers[rank].connection.fd = sockets[rank];
    free(sockets);
    close(listener);
    return status;
}

enum ps_status links_open(const struct processes_class *class, int rank, int count, struct process_info *info,
                          struct links **out, struct ps_error *error) {
    struct links *links = calloc(1, sizeof *links);
    if (!links) return error_memory(error, "connections", sizeof *links);
    *links = (struct links){.rank = rank, .count = count, .info = info};
    links->last = &links->first;
    pthread_mutex_init(&links->lock, NULL);
    pthread_cond_init(&links->news, NULL);
    links->peers = calloc((size_t)count, sizeof *links->peers);
    links->states = calloc((size_t)count, sizeof *links->states);
    enum ps_status status =
        links->peers && links->states ? PS_OK : error_memory(error, "connections", (size_t)count * sizeof *links->peers);
    for (int r = 0; links->peers && r < count; r++) connection_init(&links->peers[r].connection, &links->over);
    if (status == PS_OK) status = connect_all(class, links, error);
    for (int r = 0; status == PS_OK && r < count; r++) links->peers[r].connection.received_at = clock_now();
    if (status == PS_OK) {
        int code = thread_start(&links->thread, thread_main, links);
        if (code)
            status = error_set(error, PS_FAILED, "cannot start the thread that reads the connections: %s", strerror(code));
        links->started = code == 0;
    }
    if (status != PS_OK) {
        links_close(links);
        return status;
    }
    *out = links;
    return PS_OK;
}

void links_close(struct links *links) {
    if (!links) return;
    atomic_store(&links->leave, true);
    if (links->started) pthread_join(links->thread, NULL);
    for (int rank = 0; links->peers && rank < links->count; rank++) connection_free(&links->peers[rank].connection);
    while (links->first) {
        struct frame *next = links->first->next;
        free(links->first);
        links->first = next;
    }
    pthread_cond_destroy(&links->news);
    pthread_mutex_destroy(&links->lock);
    free(links->states);
    free(links->peers);
    free(links);
}
