/* Connecting the processes, and moving frames over a connection; see the header. */
#include "comm/processes/connection.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* --------------------------------------------------------------- connecting */

/*
 * Rank 0 listens at a free port and publishes all of its addresses; the others try them in order. Both ends send the run's
 * secret, so that another program at that port, or on another network with the same address, is not mistaken for a process of
 * the run.
 */

#define CONNECT_S 3.0
#define GREET_S 20.0 /* a connected process may still have to wait for a core */
#define MEET_S 60.0

/* The first message of a connection. */
struct greeting {
    uint64_t secret;
    int32_t rank, padding;
    struct process_info info;
};

static bool until_ready(int fd, short events, double until) {
    for (;;) {
        double left = until - clock_now();
        struct pollfd one = {.fd = fd, .events = events};
        if (left <= 0) return false;
        int ready = poll(&one, 1, (int)(1000 * left) + 1);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

static bool read_all(int fd, void *data, size_t size, double until) {
    for (char *next = data; size > 0;) {
        if (!until_ready(fd, POLLIN, until)) return false;
        ssize_t got = recv(fd, next, size, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got < 0) continue;
        next += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t size, double until) {
    for (const char *next = data; size > 0;) {
        if (!until_ready(fd, POLLOUT, until)) return false;
        ssize_t put = send(fd, next, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (put < 0) continue;
        next += put;
        size -= (size_t)put;
    }
    return true;
}

/* Lists this host's addresses, those of the loopback interface last. */
static void list_addresses(struct listening_address *listening) {
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) all = NULL;
    for (int loopback = 0; loopback < 2; loopback++)
        for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
            if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP)) continue;
            if (!(one->ifa_flags & IFF_LOOPBACK) != !loopback || listening->count == SOCKET_ADDRESSES) continue;
            struct sockaddr_in address;
            memcpy(&address, one->ifa_addr, sizeof address);
            listening->address[listening->count++] = address.sin_addr.s_addr;
        }
    if (all) freeifaddrs(all);
}

enum ps_status socket_listen(struct listening_address *listening, int *out, struct ps_error *error) {
    *listening = (struct listening_address){0};
    if (getrandom(&listening->secret, sizeof listening->secret, 0) != (ssize_t)sizeof listening->secret)
        return error_set(error, PS_FAILED, "no random number for the run's connections: %s", strerror(errno));
    list_addresses(listening);
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t size = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof any) != 0 || listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, (struct sockaddr *)&any, &size) != 0) {
        error_set(error, PS_FAILED, "rank 0 cannot listen for the others: %s", strerror(errno));
        if (listener >= 0) close(listener);
        return PS_FAILED;
    }
    listening->port = ntohs(any.sin_port);
    *out = listener;
    return PS_OK;
}

static void no_delay(int fd) {
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* False: the process does not belong to this run. */
static bool accept_rank(const struct listening_address *listening, int fd, int count, int *sockets, struct process_info *info) {
    struct greeting greeting;
    double until = clock_now() + GREET_S;
    if (!read_all(fd, &greeting, sizeof greeting, until) || greeting.secret != listening->secret) return false;
    if (greeting.rank < 1 || greeting.rank >= count || sockets[greeting.rank] >= 0) return false;
    if (!write_all(fd, &listening->secret, sizeof listening->secret, until)) return false;
    no_delay(fd);
    greeting.info.host[sizeof greeting.info.host - 1] = greeting.info.cpu[sizeof greeting.info.cpu - 1] = '\0';
    info[greeting.rank] = greeting.info;
    sockets[greeting.rank] = fd;
    return true;
}

enum ps_status socket_accept_all(const struct listening_address *listening, int listener, int count, int *sockets,
                                 struct process_info *info, struct ps_error *error) {
    double until = clock_now() + MEET_S;
    for (int rank = 0; rank < count; rank++) sockets[rank] = -1;
    for (int met = 1; met < count;) {
        if (!until_ready(listener, POLLIN, until))
            return error_set(error, PS_WORKER_LOST, "only %d of %d processes connected to rank 0 within %.0f s", met, count,
                             MEET_S);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        if (accept_rank(listening, fd, count, sockets, info))
            met++;
        else
            close(fd);
    }
    return PS_OK;
}

/* A connected socket, or -1. */
static int connect_to(uint32_t address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = address};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), failure = 0;
    socklen_t size = sizeof failure;
    if (fd < 0) return -1;
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 &&
        (errno != EINPROGRESS || !until_ready(fd, POLLOUT, clock_now() + CONNECT_S) ||
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0)) {
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, flags);
    return fd;
}

enum ps_status socket_connect(const struct listening_address *listening, int rank, const struct process_info *info, int *made,
                              struct ps_error *error) {
    struct greeting greeting = {.secret = listening->secret, .rank = rank, .info = *info};
    char tried[INET_ADDRSTRLEN] = "no address";
    for (int a = 0; a < listening->count; a++) {
        int fd = connect_to(listening->address[a], listening->port);
        uint64_t answer = 0;
        double until = clock_now() + GREET_S;
        if (fd >= 0 && write_all(fd, &greeting, sizeof greeting, until) && read_all(fd, &answer, sizeof answer, until) &&
            answer == listening->secret) {
            no_delay(fd);
            *made = fd;
            return PS_OK;
        }
        if (fd >= 0) close(fd);
        inet_ntop(AF_INET, &listening->address[a], tried, sizeof tried);
    }
    return error_set(error, PS_FAILED, "rank %d on %s cannot connect to rank 0 at any of its %d addresses, the last %s port %d",
                     rank, info->host, listening->count, tried, listening->port);
}

/* ------------------------------------------------------------------- frames */

void connection_init(struct connection *connection, const atomic_bool *over) {
    *connection = (struct connection){.fd = -1, .over = over};
    pthread_mutex_init(&connection->write_lock, NULL);
}

void connection_free(struct connection *connection) {
    if (connection->fd >= 0) close(connection->fd);
    free(connection->reading);
    pthread_mutex_destroy(&connection->write_lock);
}

/* ------------------------------------------------------------------ writing */

/* Under the lock. */
static bool write_buffer(struct connection *connection, const void *data, size_t size) {
    for (const char *next = data; size > 0;) {
        ssize_t put = send(connection->fd, next, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (put < 0) {
            struct pollfd one = {.fd = connection->fd, .events = POLLOUT};
            poll(&one, 1, 100);
            if (atomic_load(connection->over)) return false;
            continue;
        }
        next += put;
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
    /* The rest of a partly sent frame must follow. */
    if (put > 0 && (size_t)put < all) write_buffer(connection, together + put, all - (size_t)put);
    pthread_mutex_unlock(&connection->write_lock);
}

/* ------------------------------------------------------------------ reading */

/* Reads what has arrived of `size` bytes. False: nothing has arrived; if *open is false, the connection has ended. */
static bool read_buffer(struct connection *connection, void *data, size_t size, size_t *done, bool *open) {
    ssize_t got = recv(connection->fd, (char *)data + *done, size - *done, MSG_DONTWAIT);
    if (got <= 0) {
        *open = got < 0 && (errno == EAGAIN || errno == EINTR);
        return false;
    }
    connection->received_at = clock_now();
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
    struct frame *complete = connection->reading;
    connection->reading = NULL;
    connection->head_read = connection->data_read = 0;
    return complete;
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
