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
 * Rank 0 listens at a free port and publishes all of its addresses; the others try them in order. The secret of the run is
 * never sent over a connection: each end sends a fresh random number, and the other proves with it that it knows the secret.
 * Rank 0 proves itself first, so that nobody who merely listens at the address or connects to the port learns anything:
 *
 *     rank r: its rank, a number a             rank 0: a number b, the proof of (0, r, a, b)
 *     rank r: the proof of (1, r, a, b), what it reports about itself
 */

#define CONNECT_S 3.0
#define FIRST_GREET_S 3.0 /* at each of several addresses, of which some may be of other hosts */
#define GREET_S 20.0      /* a connected process may still have to wait for a core */
#define MEET_S 60.0
/* So many connections may be waiting beyond those of the run. */
enum { STRANGERS_MAX = 64 };

struct hello {
    uint64_t number;
    int32_t rank, padding;
};

struct answer {
    uint64_t number, proof;
};

struct introduction {
    uint64_t proof;
    struct process_info info;
};

static uint64_t rotate(uint64_t word, int bits) { return word << bits | word >> (64 - bits); }

static void sip_rounds(uint64_t v[4], int rounds) {
    while (rounds-- > 0) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* SipHash-2-4 (Aumasson and Bernstein, 2012) of whole words: only who knows the key can compute it. */
uint64_t socket_proof(const uint64_t key[2], const uint64_t *words, size_t count) {
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    for (size_t i = 0; i <= count; i++) {
        uint64_t word = i < count ? words[i] : (uint64_t)(8 * count) << 56;
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t proof_of(const struct listening_address *listening, bool of_rank, int rank, uint64_t a, uint64_t b) {
    return socket_proof(listening->secret, (const uint64_t[]){of_rank, (uint64_t)rank, a, b}, 4);
}

static bool random_number(void *out, size_t size) {
    ssize_t got;
    do got = getrandom(out, size, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size;
}

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

/* As a whole: what the ends send to prove themselves fits into the buffer of a new connection. */
static bool write_all(int fd, const void *data, size_t size) {
    return send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
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

enum ps_status socket_listen(bool loopback_only, struct listening_address *listening, int *out, struct ps_error *error) {
    *listening = (struct listening_address){0};
    if (!random_number(listening->secret, sizeof listening->secret))
        return error_set(error, PS_FAILED, "no random number for the run's connections: %s", strerror(errno));
    struct sockaddr_in any = {.sin_family = AF_INET};
    if (loopback_only) {
        listening->count = 1;
        listening->address[0] = any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        list_addresses(listening);
    }
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

/* A connection whose other end has not proved itself yet. */
struct newcomer {
    int fd;
    double until;
    bool answered; /* the answer to its hello has been sent */
    struct hello hello;
    struct introduction introduction;
    uint64_t number; /* sent with the answer */
    size_t received; /* bytes of what comes next: the hello or the introduction */
};

struct meeting {
    const struct listening_address *listening;
    int count, met;
    int *sockets;
    struct process_info *info;
    struct newcomer *newcomers;
    int newcomer_count, newcomers_max;
};

static void close_newcomer(struct meeting *meeting, int which) {
    close(meeting->newcomers[which].fd);
    meeting->newcomers[which] = meeting->newcomers[--meeting->newcomer_count];
}

static void close_oldest(struct meeting *meeting) {
    int oldest = 0;
    for (int n = 1; n < meeting->newcomer_count; n++)
        if (meeting->newcomers[n].until < meeting->newcomers[oldest].until) oldest = n;
    if (meeting->newcomer_count > 0) close_newcomer(meeting, oldest);
}

static bool answer_hello(const struct meeting *meeting, struct newcomer *newcomer) {
    const struct hello *hello = &newcomer->hello;
    if (hello->rank < 1 || hello->rank >= meeting->count || !random_number(&newcomer->number, sizeof newcomer->number))
        return false;
    const struct answer answer = {newcomer->number,
                                  proof_of(meeting->listening, false, hello->rank, hello->number, newcomer->number)};
    return write_all(newcomer->fd, &answer, sizeof answer);
}

/* Whether it has proved itself and is of use: then it is one of the run. */
static bool admit(struct meeting *meeting, struct newcomer *newcomer) {
    struct process_info *info = &newcomer->introduction.info;
    const int rank = newcomer->hello.rank;
    uint64_t proof = proof_of(meeting->listening, true, rank, newcomer->hello.number, newcomer->number);
    if (newcomer->introduction.proof != proof || meeting->sockets[rank] >= 0) return false;
    if (info->cores < 1 || info->memory.total < 0 || info->memory.free < 0 || info->host_leader < 0 || info->host_leader > rank)
        return false;
    no_delay(newcomer->fd);
    info->host[sizeof info->host - 1] = info->cpu[sizeof info->cpu - 1] = '\0';
    meeting->info[rank] = *info;
    meeting->sockets[rank] = newcomer->fd;
    meeting->met++;
    return true;
}

/* Reads what has come; false: the newcomer has left the list. */
static bool serve(struct meeting *meeting, int which) {
    struct newcomer *newcomer = &meeting->newcomers[which];
    char *place = newcomer->answered ? (char *)&newcomer->introduction : (char *)&newcomer->hello;
    const size_t size = newcomer->answered ? sizeof newcomer->introduction : sizeof newcomer->hello;
    ssize_t got = recv(newcomer->fd, place + newcomer->received, size - newcomer->received, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got > 0) newcomer->received += (size_t)got;
    if (got > 0 && newcomer->received < size) return true;
    if (got > 0 && !newcomer->answered && answer_hello(meeting, newcomer)) {
        newcomer->answered = true;
        newcomer->received = 0;
        return true;
    }
    if (got > 0 && newcomer->answered && admit(meeting, newcomer))
        meeting->newcomers[which] = meeting->newcomers[--meeting->newcomer_count];
    else
        close_newcomer(meeting, which);
    return false;
}

static void take_newcomer(struct meeting *meeting, int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        /* Who has waited longest makes room; who is of the run comes again. */
        close_oldest(meeting);
        clock_sleep(0.02);
    }
    if (fd < 0) return;
    if (meeting->newcomer_count == meeting->newcomers_max) close_oldest(meeting);
    meeting->newcomers[meeting->newcomer_count++] = (struct newcomer){.fd = fd, .until = clock_now() + GREET_S};
}

static enum ps_status meet(struct meeting *meeting, int listener, struct pollfd *fds, struct ps_error *error) {
    double until = clock_now() + MEET_S;
    while (meeting->met < meeting->count) {
        double now = clock_now();
        if (now >= until)
            return error_set(error, PS_WORKER_LOST, "only %d of %d processes connected to rank 0 within %.0f s", meeting->met,
                             meeting->count, MEET_S);
        for (int n = meeting->newcomer_count; n-- > 0;)
            if (now >= meeting->newcomers[n].until) close_newcomer(meeting, n);
        int polled = meeting->newcomer_count;
        for (int n = 0; n < polled; n++) fds[n] = (struct pollfd){.fd = meeting->newcomers[n].fd, .events = POLLIN};
        fds[polled] = (struct pollfd){.fd = listener, .events = POLLIN};
        if (poll(fds, (nfds_t)polled + 1, 200) <= 0) continue;
        /* Backwards: the last takes the place of one that leaves. */
        for (int n = polled; n-- > 0;)
            if (fds[n].revents) serve(meeting, n);
        if (fds[polled].revents) take_newcomer(meeting, listener);
    }
    return PS_OK;
}

enum ps_status socket_accept_all(const struct listening_address *listening, int listener, int count, int *sockets,
                                 struct process_info *info, struct ps_error *error) {
    struct meeting meeting = {.listening = listening,
                              .count = count,
                              .met = 1,
                              .sockets = sockets,
                              .info = info,
                              .newcomers_max = count + STRANGERS_MAX};
    for (int rank = 0; rank < count; rank++) sockets[rank] = -1;
    struct pollfd *fds = calloc((size_t)meeting.newcomers_max + 1, sizeof *fds);
    meeting.newcomers = calloc((size_t)meeting.newcomers_max, sizeof *meeting.newcomers);
    enum ps_status status = fds && meeting.newcomers
                                ? meet(&meeting, listener, fds, error)
                                : error_memory(error, "connections", (size_t)meeting.newcomers_max * sizeof *meeting.newcomers);
    while (meeting.newcomer_count > 0) close_newcomer(&meeting, meeting.newcomer_count - 1);
    free(meeting.newcomers);
    free(fds);
    return status;
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

enum introduced { MET, CLOSED, STRANGER };

/* Both ends prove themselves. CLOSED: the other end has closed, or takes too long. */
static enum introduced introduce(const struct listening_address *listening, int fd, int rank, const struct process_info *info,
                                 double until) {
    struct hello hello = {.rank = rank};
    struct answer answer;
    if (!random_number(&hello.number, sizeof hello.number) || !write_all(fd, &hello, sizeof hello) ||
        !read_all(fd, &answer, sizeof answer, until))
        return CLOSED;
    if (answer.proof != proof_of(listening, false, rank, hello.number, answer.number)) return STRANGER;
    const struct introduction introduction = {proof_of(listening, true, rank, hello.number, answer.number), *info};
    return write_all(fd, &introduction, sizeof introduction) ? MET : CLOSED;
}

enum ps_status socket_connect(const struct listening_address *listening, int rank, const struct process_info *info, int *made,
                              struct ps_error *error) {
    char tried[INET_ADDRSTRLEN] = "no address";
    int addresses = listening->count < SOCKET_ADDRESSES ? listening->count : SOCKET_ADDRESSES;
    bool reached = false; /* somebody listens, who may have had no descriptor left */
    const double until = clock_now() + GREET_S;
    for (int attempt = 0; attempt < 2 || (reached && clock_now() < until); attempt++) {
        if (attempt > 0) clock_sleep(0.05);
        for (int a = 0; a < addresses; a++) {
            int fd = connect_to(listening->address[a], listening->port);
            double limit = attempt == 0 && addresses > 1 ? FIRST_GREET_S : GREET_S;
            enum introduced met = fd >= 0 ? introduce(listening, fd, rank, info, clock_now() + limit) : STRANGER;
            reached = reached || met == CLOSED;
            if (met == MET) {
                no_delay(fd);
                *made = fd;
                return PS_OK;
            }
            if (fd >= 0) close(fd);
            inet_ntop(AF_INET, &listening->address[a], tried, sizeof tried);
        }
    }
    return error_set(error, PS_FAILED, "rank %d on %s cannot connect to rank 0 at any of its %d addresses, the last %s port %d",
                     rank, info->host, addresses, tried, listening->port);
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
    /* What follows part of a frame is none: the other end is told so. */
    if (!written && connection->fd >= 0) shutdown(connection->fd, SHUT_RDWR);
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
