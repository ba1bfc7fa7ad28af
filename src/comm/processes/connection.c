/* A connection at work; see connection.h. */
#include "comm/processes/connection.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void connection_init(struct connection *connection, const atomic_bool *over) {
    *connection = (struct connection){.fd = -1, .over = over};
    pthread_mutex_init(&connection->write_lock, NULL);
}

void connection_free(struct connection *connection) {
    if (connection->fd >= 0) close(connection->fd);
    free(connection->reading);
    pthread_mutex_destroy(&connection->write_lock);
}

/* -------------------------------------------------------------------- writing */

/* Under the lock. */
static bool write_buffer(struct connection *connection, const void *data, size_t size) {
    for (const char *place = data; size > 0;) {
        ssize_t put = send(connection->fd, place, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (put < 0) {
            struct pollfd one = {.fd = connection->fd, .events = POLLOUT};
            poll(&one, 1, 100);
            if (atomic_load(connection->over)) return false;
            continue;
        }
        place += put;
        size -= (size_t)put;
    }
    return true;
}

bool connection_send(struct connection *connection, unsigned kind, const void *data, size_t size) {
    struct frame_head head = {kind, (uint32_t)size};
    pthread_mutex_lock(&connection->write_lock);
    bool written = write_buffer(connection, &head, sizeof head) && write_buffer(connection, data, size);
    pthread_mutex_unlock(&connection->write_lock);
    return written;
}

void connection_send_soon(struct connection *connection, unsigned kind, const void *data, size_t size, double wait_s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    long nanoseconds = until.tv_nsec + (long)(1e9 * wait_s);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    if (pthread_mutex_timedlock(&connection->write_lock, &until) != 0) return;
    struct frame_head head = {kind, (uint32_t)size};
    char together[FRAME_SOON_MAX];
    size_t all = sizeof head + size;
    assert(all <= sizeof together);
    memcpy(together, &head, sizeof head);
    memcpy(together + sizeof head, data, size);
    ssize_t put = connection->fd >= 0 ? send(connection->fd, together, all, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
    /* A part of a frame must not stay alone. */
    if (put > 0 && (size_t)put < all) write_buffer(connection, together + put, all - (size_t)put);
    pthread_mutex_unlock(&connection->write_lock);
}

/* -------------------------------------------------------------------- reading */

/* Reads what there is of `wanted` bytes. False: nothing is there, now or ever (*open false). */
static bool read_buffer(struct connection *connection, void *place, size_t wanted, size_t *done, bool *open) {
    ssize_t got = recv(connection->fd, (char *)place + *done, wanted - *done, MSG_DONTWAIT);
    if (got <= 0) {
        *open = got < 0 && (errno == EAGAIN || errno == EINTR);
        return false;
    }
    connection->heard_at = clock_now();
    *done += (size_t)got;
    return true;
}

struct frame *connection_read(struct connection *connection, bool *open) {
    struct frame_head *head = &connection->head;
    *open = true;
    while (connection->head_read < sizeof *head)
        if (!read_buffer(connection, head, sizeof *head, &connection->head_read, open)) return NULL;
    if (!connection->reading) {
        struct frame *frame = head->size <= FRAME_SIZE_MAX ? malloc(sizeof *frame + head->size) : NULL;
        *open = frame != NULL;
        if (!frame) return NULL;
        *frame = (struct frame){.kind = head->kind, .size = head->size};
        connection->reading = frame;
    }
    while (connection->data_read < head->size)
        if (!read_buffer(connection, connection->reading->data, head->size, &connection->data_read, open)) return NULL;
    struct frame *whole = connection->reading;
    connection->reading = NULL;
    connection->head_read = connection->data_read = 0;
    return whole;
}

void connection_close(struct connection *connection) {
    pthread_mutex_lock(&connection->write_lock);
    close(connection->fd);
    connection->fd = -1;
    pthread_mutex_unlock(&connection->write_lock);
}

bool connection_is_open(struct connection *connection) {
    pthread_mutex_lock(&connection->write_lock);
    bool open = connection->fd >= 0;
    pthread_mutex_unlock(&connection->write_lock);
    return open;
}
