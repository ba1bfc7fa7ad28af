/*
 * The sockets between processes, against ends that the test plays by itself: how rank 0 and another rank prove themselves to
 * each other, word for word, whom rank 0 refuses and whom it disconnects first, which addresses a rank tries and how long; and
 * frames, which arrive whole and in order however the bytes come, or not at all. Some functions of the C library are in this
 * program, so that the library's calls come here: its clock stands still until the test moves it, and calls fail when the test
 * says so.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/processes/connection.h"
#include "support.h"

/* As connection.c sends them. */
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

static struct process_info info_of(int rank) {
    struct process_info info = {.process = 100 + rank,
                                .cores = 1 + rank,
                                .memory = {.installed = 30, .total = 20, .free = 10},
                                .machine = UINT64_C(0x123456789abcdef0) + (uint64_t)rank,
                                .host_leader = rank};
    snprintf(info.host, sizeof info.host, "host%d", rank);
    snprintf(info.cpu, sizeof info.cpu, "cpu%d", rank);
    info.core_set.word[0] = 1 + (uint64_t)rank;
    return info;
}

/* --------------------------------------------------------- the system, as the test will have it */

/* The C library's function of this name. */
#define NEXT(name)                                                                                                             \
    static _Atomic(__typeof__(&(name))) next;                                                                                  \
    if (!atomic_load(&next)) atomic_store(&next, (__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* Nanoseconds; 0: the clock goes. */
static atomic_int_fast64_t held_at;

int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(clock_gettime);
    const int64_t held = clock == CLOCK_MONOTONIC ? atomic_load(&held_at) : 0;
    if (held == 0) return atomic_load(&next)(clock, now);
    *now = (struct timespec){.tv_sec = held / 1000000000, .tv_nsec = held % 1000000000};
    return 0;
}

/* Who sleeps while the clock stands still does so for a moment. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    NEXT(clock_nanosleep);
    if (atomic_load(&held_at) == 0) return atomic_load(&next)(clock, flags, until, left);
    return atomic_load(&next)(clock, 0, &(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* The next calls of one kind fail with this error, so many of them. */
enum call { RANDOM, ACCEPT, RECEIVE, SEND, POLL, CALLS };
static struct { atomic_int times, code; } failing[CALLS];

static void let_fail(enum call call, int times, int code) {
    atomic_store(&failing[call].code, code);
    atomic_store(&failing[call].times, times);
}

static bool fails(enum call call) {
    int times = atomic_load(&failing[call].times);
    while (times > 0 && !atomic_compare_exchange_weak(&failing[call].times, &times, times - 1)) continue;
    if (times > 0) errno = atomic_load(&failing[call].code);
    return times > 0;
}

static atomic_int polls;

int poll(struct pollfd *fds, nfds_t count, int wait_ms) {
    NEXT(poll);
    const bool held = atomic_load(&held_at) != 0;
    const int ready = fails(POLL) ? -1 : atomic_load(&next)(fds, count, held && wait_ms > 5 ? 5 : wait_ms);
    atomic_fetch_add(&polls, 1);
    return ready;
}

ssize_t getrandom(void *out, size_t size, unsigned flags) {
    NEXT(getrandom);
    return fails(RANDOM) ? -1 : atomic_load(&next)(out, size, flags);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    NEXT(accept4);
    return fails(ACCEPT) ? -1 : atomic_load(&next)(fd, address, size, flags);
}

/* The test itself waits where it receives or sends. */
ssize_t recv(int fd, void *data, size_t size, int flags) {
    NEXT(recv);
    return (flags & MSG_DONTWAIT) && fails(RECEIVE) ? -1 : atomic_load(&next)(fd, data, size, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    NEXT(send);
    return (flags & MSG_DONTWAIT) && fails(SEND) ? -1 : atomic_load(&next)(fd, data, size, flags);
}

/* From here on the clock stands still, and goes on where the test lets it. */
static void hold_clock(void) {
    atomic_store(&held_at, llround(clock_now() * 1e9));
    alarm(300);
}

static void move_clock(double seconds) { atomic_fetch_add(&held_at, llround(seconds * 1e9)); }

static void release_clock(void) {
    alarm(0);
    atomic_store(&held_at, 0);
}

/* Whoever polls has done so again, and seen what time it is. */
static void wait_for_polls(void) {
    const int before = atomic_load(&polls);
    while (atomic_load(&polls) < before + 4) clock_sleep(0.002);
}

/* ------------------------------------------------------------------- both ends */

static void wait_at_most(int fd, int seconds) {
    const struct timeval limit = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static int dial(const struct listening_address *at) {
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)at->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    wait_at_most(fd, 60);
    return fd;
}

/* Sends it in pieces, which arrive one after the other. */
static void say(int fd, const void *data, size_t size, size_t piece) {
    const int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    for (size_t at = 0; at < size; at += piece) {
        const size_t bytes = size - at < piece ? size - at : piece;
        assert_int_equal(send(fd, (const char *)data + at, bytes, MSG_NOSIGNAL), bytes);
        if (piece < size) clock_sleep(0.002);
    }
}

static void hear(int fd, void *data, size_t size) { assert_int_equal(recv(fd, data, size, MSG_WAITALL), size); }

/* The other end closes without another word. */
static void assert_closed(int fd) {
    char byte;
    const ssize_t got = recv(fd, &byte, 1, 0);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
    close(fd);
}

static void assert_connection(int fd) {
    int yes = 0;
    socklen_t size = sizeof yes;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, &size), 0);
    assert_true(yes != 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* ---------------------------------------------------------------- rank 0 is played against */

enum { RANKS = 3 };

struct meeting {
    struct listening_address at;
    int listener, count, sockets[RANKS];
    struct process_info info[RANKS];
    enum ps_status status;
    struct ps_error error;
    pthread_t thread;
};

static void *accept_all(void *argument) {
    struct meeting *meeting = argument;
    meeting->status =
        socket_accept_all(&meeting->at, meeting->listener, meeting->count, meeting->sockets, meeting->info, &meeting->error);
    return NULL;
}

static void begin_meeting(struct meeting *meeting, int count) {
    *meeting = (struct meeting){.count = count};
    assert_ok(socket_listen(true, &meeting->at, &meeting->listener, &test_error));
    assert_true(fcntl(meeting->listener, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(pthread_create(&meeting->thread, NULL, accept_all, meeting), 0);
}

static void end_meeting(struct meeting *meeting) {
    pthread_join(meeting->thread, NULL);
    assert_int_equal(meeting->status, PS_OK);
    assert_int_equal(meeting->sockets[0], -1);
    close(meeting->listener);
}

/* Greets as `rank` and proves itself, with `forged` added to the proof. */
static int introduce(const struct listening_address *at, int rank, const struct process_info *info, uint64_t forged,
                     size_t piece) {
    const struct hello hello = {.number = UINT64_C(0xfedcba9876543210) + (uint64_t)rank, .rank = rank};
    struct answer answer;
    struct introduction introduction;
    const int fd = dial(at);
    say(fd, &hello, sizeof hello, piece);
    hear(fd, &answer, sizeof answer);
    assert_true(answer.proof ==
                socket_proof(at->secret, (const uint64_t[]){0, (uint64_t)rank, hello.number, answer.number}, 4));
    memset(&introduction, 0, sizeof introduction);
    introduction.info = *info;
    introduction.proof =
        socket_proof(at->secret, (const uint64_t[]){1, (uint64_t)rank, hello.number, answer.number}, 4) + forged;
    say(fd, &introduction, sizeof introduction, piece);
    return fd;
}

/* Ranks come in any order and in pieces; what they report of themselves arrives. */
static void test_ranks_by_hand(void **state) {
    (void)state;
    struct meeting meeting;
    struct process_info info[RANKS];
    int fds[RANKS];
    begin_meeting(&meeting, RANKS);
    const int silent = dial(&meeting.at);
    for (int rank = RANKS - 1; rank > 0; rank--) {
        info[rank] = info_of(rank);
        /* Names that nothing ends. */
        memset(info[rank].host, 'h', sizeof info[rank].host);
        memset(info[rank].cpu, 'c', sizeof info[rank].cpu);
        fds[rank] = introduce(&meeting.at, rank, &info[rank], 0, rank == 1 ? 7 : 1000);
    }
    end_meeting(&meeting);
    /* Who has said nothing until then is disconnected. */
    assert_closed(silent);
    for (int rank = 1; rank < RANKS; rank++) {
        info[rank].host[sizeof info[rank].host - 1] = info[rank].cpu[sizeof info[rank].cpu - 1] = '\0';
        assert_memory_equal(&meeting.info[rank], &info[rank], sizeof info[rank]);
        assert_connection(meeting.sockets[rank]);
        const char byte = (char)('0' + rank);
        char heard;
        assert_int_equal(send(meeting.sockets[rank], &byte, 1, 0), 1);
        hear(fds[rank], &heard, 1);
        assert_int_equal(heard, byte);
        close(fds[rank]);
        close(meeting.sockets[rank]);
    }
}

/* Ranks that there are none of get no answer; what no process can have is refused, also with the right proof. */
static void test_refused(void **state) {
    (void)state;
    enum { WRONG = 6 };
    struct meeting meeting;
    struct process_info info[WRONG];
    begin_meeting(&meeting, RANKS);
    const int32_t no_ranks[] = {-1, 0, RANKS, INT32_MIN};
    for (size_t r = 0; r < sizeof no_ranks / sizeof *no_ranks; r++) {
        const struct hello hello = {.number = 1, .rank = no_ranks[r]};
        const int fd = dial(&meeting.at);
        say(fd, &hello, sizeof hello, sizeof hello);
        assert_closed(fd);
    }
    for (int w = 0; w < WRONG; w++) info[w] = info_of(1);
    info[1].cores = 0;
    info[2].memory.total = -1;
    info[3].memory.free = -1;
    info[4].host_leader = -1;
    info[5].host_leader = 2;
    for (int w = 0; w < WRONG; w++) assert_closed(introduce(&meeting.at, 1, &info[w], w == 0, 1000));
    /* The least and the most that may be. */
    struct process_info first = info_of(1), second = info_of(2);
    first.cores = 1;
    first.memory.total = first.memory.free = 0;
    first.host_leader = 0;
    const int one = introduce(&meeting.at, 1, &first, 0, 1000);
    /* Another of the same rank. It may be heard only after the first. */
    clock_sleep(0.05);
    assert_closed(introduce(&meeting.at, 1, &first, 0, 1000));
    const int two = introduce(&meeting.at, 2, &second, 0, 1000);
    end_meeting(&meeting);
    assert_memory_equal(&meeting.info[1], &first, sizeof first);
    assert_memory_equal(&meeting.info[2], &second, sizeof second);
    for (int rank = 1; rank < RANKS; rank++) close(meeting.sockets[rank]);
    close(one);
    close(two);
}

static bool is_closed(int fd, int wait_ms) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, wait_ms) > 0;
}

/* Of more strangers than the run has places for, besides its ranks, those who have waited longest are disconnected. Those who
 * leave make room. */
static void test_oldest_strangers(void **state) {
    (void)state;
    enum { PLACES = 2 + 64, MORE = 5, SPARE = 3, LEAVE = 10 };
    struct meeting meeting;
    int silent[PLACES + MORE];
    begin_meeting(&meeting, 2);
    for (int s = 0; s < PLACES + MORE; s++) {
        for (int l = 0; l < LEAVE && s == PLACES - SPARE; l++) {
            const int leaves = dial(&meeting.at);
            say(leaves, "part of a greeting", (size_t)l, 100);
            close(leaves);
        }
        silent[s] = dial(&meeting.at);
    }
    for (int s = 0; s < MORE; s++) assert_true(is_closed(silent[s], 60000));
    clock_sleep(0.05);
    for (int s = MORE; s < PLACES + MORE; s++) assert_false(is_closed(silent[s], 0));
    const struct process_info info = info_of(1);
    const int fd = introduce(&meeting.at, 1, &info, 0, 1000);
    end_meeting(&meeting);
    for (int s = 0; s < PLACES + MORE; s++) assert_closed(silent[s]);
    close(meeting.sockets[1]);
    close(fd);
}

/* ---------------------------------------------------------------- another rank is played against */

struct joiner {
    struct listening_address at;
    struct process_info info;
    int rank, fd;
    enum ps_status status;
    struct ps_error error;
    pthread_t thread;
};

static void *join_run(void *argument) {
    struct joiner *joiner = argument;
    joiner->status = socket_connect(&joiner->at, joiner->rank, &joiner->info, &joiner->fd, &joiner->error);
    return NULL;
}

/* Closes the first connections of one that joins, as rank 0 does where it has no descriptor left; then answers it, in pieces;
 * returns the number that it has sent. */
static uint64_t answer(struct joiner *joiner, int listener, int closed) {
    struct hello hello;
    struct introduction introduction;
    assert_int_equal(pthread_create(&joiner->thread, NULL, join_run, joiner), 0);
    for (int c = 0; c < closed; c++) close(accept(listener, NULL, NULL));
    const int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    wait_at_most(fd, 60);
    hear(fd, &hello, sizeof hello);
    assert_int_equal(hello.rank, joiner->rank);
    assert_int_equal(hello.padding, 0);
    struct answer said = {.number = 77};
    said.proof = socket_proof(joiner->at.secret, (const uint64_t[]){0, (uint64_t)joiner->rank, hello.number, said.number}, 4);
    say(fd, &said, sizeof said, 5);
    hear(fd, &introduction, sizeof introduction);
    assert_true(introduction.proof ==
                socket_proof(joiner->at.secret, (const uint64_t[]){1, (uint64_t)joiner->rank, hello.number, 77}, 4));
    assert_memory_equal(&introduction.info, &joiner->info, sizeof joiner->info);
    pthread_join(joiner->thread, NULL);
    assert_int_equal(joiner->status, PS_OK);
    assert_connection(joiner->fd);
    close(fd);
    close(joiner->fd);
    return hello.number;
}

static void test_joining_by_hand(void **state) {
    (void)state;
    int listener;
    struct joiner joiner = {.rank = 5, .info = info_of(5)};
    assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
    const uint64_t first = answer(&joiner, listener, 0), second = answer(&joiner, listener, 5);
    /* Neither number nor secret comes twice. */
    assert_true(first != second);
    struct listening_address other;
    int another;
    assert_ok(socket_listen(true, &other, &another, &test_error));
    assert_true(other.secret[0] != joiner.at.secret[0] && other.secret[1] != joiner.at.secret[1]);
    close(another);
    close(listener);
}

/* Addresses where nobody listens are told in the end. */
static void test_addresses(void **state) {
    (void)state;
    struct joiner joiner = {.rank = 1, .info = info_of(1)};
    char wanted[256];
    int listener;
    assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
    close(listener);
    joiner.at.count = 2;
    joiner.at.address[1] = htonl(INADDR_LOOPBACK + 2);
    join_run(&joiner);
    snprintf(wanted, sizeof wanted,
             "rank 1 on host1 cannot connect to rank 0 at any of its 2 addresses, the last 127.0.0.3 port %d", joiner.at.port);
    assert_int_equal(joiner.status, PS_FAILED);
    assert_string_equal(joiner.error.message, wanted);
    joiner.at = (struct listening_address){0};
    join_run(&joiner);
    assert_string_equal(joiner.error.message,
                        "rank 1 on host1 cannot connect to rank 0 at any of its 0 addresses, the last no address port 0");
    joiner.at.count = 1000000;
    join_run(&joiner);
    assert_string_equal(joiner.error.message,
                        "rank 1 on host1 cannot connect to rank 0 at any of its 16 addresses, the last 0.0.0.0 port 0");
}

/* Without a descriptor nothing is opened, and it is said why. */
static void test_no_descriptor(void **state) {
    (void)state;
    struct joiner joiner = {.rank = 1, .info = info_of(1)};
    struct rlimit limit;
    int listener;
    assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    struct listening_address at;
    int made = -7;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const enum ps_status listens = socket_listen(true, &at, &made, &test_error);
    join_run(&joiner);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_status(listens, PS_FAILED, "rank 0 cannot listen for the others: Too many open files");
    assert_int_equal(made, -7);
    assert_int_equal(joiner.status, PS_FAILED);
    assert_non_null(strstr(joiner.error.message, "the last 127.0.0.1 port "));
    close(listener);
}

/* ------------------------------------------------------------------- patience */

static void begin_joining(struct joiner *joiner) {
    joiner->status = (enum ps_status) - 1;
    assert_int_equal(pthread_create(&joiner->thread, NULL, join_run, joiner), 0);
}

static void assert_joined(struct joiner *joiner, enum ps_status status) {
    pthread_join(joiner->thread, NULL);
    assert_int_equal(joiner->status, status);
}

/* Listens at another address, with the port of `at`. */
static int listen_beside(const struct listening_address *at, uint32_t address, int backlog) {
    const struct sockaddr_in own = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)at->port), .sin_addr.s_addr = htonl(address)};
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(listen(listener, backlog), 0);
    return listener;
}

/* Takes the connection of one who joins, and its greeting. */
static int take_greeting(int listener) {
    struct hello hello;
    const int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    wait_at_most(fd, 60);
    hear(fd, &hello, sizeof hello);
    return fd;
}

/* It is kept until so many seconds have passed. */
static void assert_kept_for(int fd, double seconds) {
    move_clock(seconds - 0.01);
    wait_for_polls();
    assert_false(is_closed(fd, 0));
    move_clock(0.01);
    assert_closed(fd);
}

/* The first of three addresses listens, and says nothing: after 3 s the second is tried. So it is where the first one does not
 * even take connections. */
static void test_silent_address(void **state) {
    (void)state;
    for (int full = 0; full < 2; full++) {
        enum { CALLERS = 3 };
        struct meeting meeting;
        struct joiner joiner = {.rank = 1, .info = info_of(1)};
        int callers[CALLERS];
        begin_meeting(&meeting, 2);
        joiner.at = meeting.at;
        joiner.at.count = 3;
        for (uint32_t a = 0; a < 3; a++) joiner.at.address[a] = htonl(INADDR_LOOPBACK + (a + 1) % 3);
        joiner.at.address[1] = htonl(INADDR_LOOPBACK);
        const int listener = listen_beside(&meeting.at, INADDR_LOOPBACK + 1, full ? 0 : 5);
        for (int c = 0; c < CALLERS && full; c++) {
            const struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons((uint16_t)meeting.at.port), .sin_addr.s_addr = joiner.at.address[0]};
            callers[c] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            connect(callers[c], (const struct sockaddr *)&to, sizeof to);
        }
        hold_clock();
        begin_joining(&joiner);
        if (full) {
            wait_for_polls();
            move_clock(2.99);
            wait_for_polls();
            assert_int_equal((int)joiner.status, -1);
            move_clock(0.01);
        } else {
            assert_kept_for(take_greeting(listener), 3);
        }
        assert_joined(&joiner, PS_OK);
        end_meeting(&meeting);
        release_clock();
        assert_connection(joiner.fd);
        for (int c = 0; c < CALLERS && full; c++) close(callers[c]);
        close(listener);
        close(joiner.fd);
        close(meeting.sockets[1]);
    }
}

/* Where there is no other address, or none that takes connections, one waits 20 s for a word. */
static void test_silent_rank_0(void **state) {
    (void)state;
    struct joiner joiner = {.rank = 1, .info = info_of(1)};
    for (int count = 1; count < 3; count++) {
        int listener;
        assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
        joiner.at.count = count;
        joiner.at.address[1] = htonl(INADDR_LOOPBACK + 1);
        hold_clock();
        begin_joining(&joiner);
        assert_kept_for(take_greeting(listener), count == 1 ? 20 : 3);
        assert_kept_for(take_greeting(listener), 20);
        assert_joined(&joiner, PS_FAILED);
        release_clock();
        close(listener);
    }
}

/* One whose connections are closed tries for 20 s. */
static void test_joining_in_vain(void **state) {
    (void)state;
    struct joiner joiner = {.rank = 1, .info = info_of(1)};
    int listener;
    assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
    hold_clock();
    begin_joining(&joiner);
    for (int attempt = 0; attempt < 8; attempt++) {
        if (attempt == 4) move_clock(19.99);
        close(accept(listener, NULL, NULL));
    }
    const int last = take_greeting(listener);
    move_clock(0.01);
    close(last);
    assert_joined(&joiner, PS_FAILED);
    assert_non_null(strstr(joiner.error.message, "at any of its 1 addresses, the last 127.0.0.1 port "));
    release_clock();
    close(listener);
}

/* It tries once more, while the clock stands still, and then no more. */
static void end_in_vain(struct joiner *joiner, int listener) {
    const int last = take_greeting(listener);
    move_clock(20);
    close(last);
    assert_joined(joiner, PS_FAILED);
    release_clock();
    close(listener);
}

/* Rank 0 has taken all who came before, and has seen what time it is: it disconnects one who is no rank of the run. */
static void wait_for_rank_0(const struct listening_address *at) {
    const struct hello hello = {.number = 1, .rank = -5};
    for (int times = 0; times < 2; times++) {
        const int fd = dial(at);
        say(fd, &hello, sizeof hello, sizeof hello);
        assert_closed(fd);
    }
}

/* Who says nothing, or part of a greeting, is kept for 20 s; those of the run may still come, for 60 s in all. */
static void test_patience(void **state) {
    (void)state;
    struct meeting meeting;
    const struct process_info info = info_of(1);
    int silent[3];
    hold_clock();
    begin_meeting(&meeting, 2);
    for (int s = 0; s < 3; s++) {
        if (s == 2) move_clock(1);
        silent[s] = dial(&meeting.at);
        if (s == 1) say(silent[s], "part", 4, 4);
        wait_for_rank_0(&meeting.at);
    }
    move_clock(18.99);
    wait_for_rank_0(&meeting.at);
    for (int s = 0; s < 3; s++) assert_false(is_closed(silent[s], 0));
    move_clock(0.01);
    for (int s = 0; s < 2; s++) assert_closed(silent[s]);
    wait_for_rank_0(&meeting.at);
    assert_false(is_closed(silent[2], 0));
    move_clock(1);
    assert_closed(silent[2]);
    move_clock(38.99);
    const int fd = introduce(&meeting.at, 1, &info, 0, 1000);
    end_meeting(&meeting);
    release_clock();
    close(meeting.sockets[1]);
    close(fd);
}

static void test_no_rank_comes(void **state) {
    (void)state;
    struct meeting meeting;
    const struct process_info info = info_of(2);
    hold_clock();
    begin_meeting(&meeting, 3);
    const int fd = introduce(&meeting.at, 2, &info, 0, 1000), silent = dial(&meeting.at);
    wait_for_rank_0(&meeting.at);
    move_clock(59.99);
    wait_for_rank_0(&meeting.at);
    move_clock(0.01);
    pthread_join(meeting.thread, NULL);
    release_clock();
    assert_int_equal(meeting.status, PS_WORKER_LOST);
    assert_string_equal(meeting.error.message, "only 2 of 3 processes connected to rank 0 within 60 s");
    assert_true(meeting.sockets[0] == -1 && meeting.sockets[1] == -1 && meeting.sockets[2] >= 0);
    assert_closed(silent);
    close(meeting.listener);
    close(meeting.sockets[2]);
    close(fd);
}

/* ------------------------------------------------------------------- failing calls */

/* Without random numbers nobody can be told from another. */
static void test_no_random_numbers(void **state) {
    (void)state;
    struct joiner joiner = {.rank = 1, .info = info_of(1)};
    struct meeting meeting;
    const struct hello hello = {.number = 1, .rank = 1};
    const struct process_info info = info_of(1);
    int listener = -7;
    let_fail(RANDOM, 1, ENOSYS);
    assert_status(socket_listen(true, &joiner.at, &listener, &test_error), PS_FAILED,
                  "no random number for the run's connections: Function not implemented");
    assert_int_equal(listener, -7);
    /* A signal only delays. */
    let_fail(RANDOM, 3, EINTR);
    begin_meeting(&meeting, 2);
    assert_true(meeting.at.secret[0] != 0 && meeting.at.secret[1] != 0);
    let_fail(RANDOM, 1, ENOSYS);
    const int unanswered = dial(&meeting.at);
    say(unanswered, &hello, sizeof hello, sizeof hello);
    assert_closed(unanswered);
    const int fd = introduce(&meeting.at, 1, &info, 0, 1000);
    end_meeting(&meeting);
    close(meeting.sockets[1]);
    close(fd);
    /* Who has none says nothing, and tries again. */
    assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
    let_fail(RANDOM, 1, ENOSYS);
    hold_clock();
    begin_joining(&joiner);
    assert_closed(accept(listener, NULL, NULL));
    end_in_vain(&joiner, listener);
}

/* Where no descriptor is left the one who has waited longest makes room; connections that fail by themselves cost nobody. */
static void test_failing_accept(void **state) {
    (void)state;
    static const int codes[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EINTR};
    const struct process_info info = info_of(1);
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        struct meeting meeting;
        int silent[3];
        hold_clock();
        begin_meeting(&meeting, 2);
        /* Where nobody waits, nobody makes room. */
        let_fail(ACCEPT, 1, codes[c]);
        for (int s = 0; s < 3; s++) {
            silent[s] = dial(&meeting.at);
            wait_for_rank_0(&meeting.at);
            move_clock(1);
        }
        const bool makes_room = codes[c] != ECONNABORTED && codes[c] != EINTR;
        let_fail(ACCEPT, makes_room ? 1 : 200, codes[c]);
        wait_for_rank_0(&meeting.at);
        for (int s = 0; s < 3; s++) assert_true(is_closed(silent[s], 0) == (makes_room && s == 0));
        const int fd = introduce(&meeting.at, 1, &info, 0, 1000);
        end_meeting(&meeting);
        release_clock();
        for (int s = 0; s < 3; s++) assert_closed(silent[s]);
        close(meeting.sockets[1]);
        close(fd);
    }
}

/* What a signal interrupts, or comes before its data, is done again. */
static void test_interrupted(void **state) {
    (void)state;
    static const int codes[] = {EINTR, EAGAIN};
    struct meeting meeting;
    struct joiner joiner = {.rank = 1, .info = info_of(1)};
    int listener;
    for (int c = 0; c < 2; c++) {
        assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
        let_fail(RECEIVE, 5, codes[c]);
        if (codes[c] == EINTR) let_fail(POLL, 2, EINTR);
        answer(&joiner, listener, 0);
        assert_int_equal(atomic_load(&failing[POLL].times), 0);
        assert_int_equal(atomic_load(&failing[RECEIVE].times), 0);
        close(listener);
        let_fail(RECEIVE, 5, codes[c]);
        begin_meeting(&meeting, 2);
        const int fd = introduce(&meeting.at, 1, &joiner.info, 0, 7);
        end_meeting(&meeting);
        assert_int_equal(atomic_load(&failing[RECEIVE].times), 0);
        assert_memory_equal(&meeting.info[1], &joiner.info, sizeof joiner.info);
        close(meeting.sockets[1]);
        close(fd);
    }
    /* Any other error ends it. */
    begin_meeting(&meeting, 2);
    const int broken = dial(&meeting.at);
    let_fail(RECEIVE, 1, ECONNRESET);
    say(broken, "a", 1, 1);
    assert_closed(broken);
    const int fd = introduce(&meeting.at, 1, &joiner.info, 0, 1000);
    end_meeting(&meeting);
    close(meeting.sockets[1]);
    close(fd);
    assert_ok(socket_listen(true, &joiner.at, &listener, &test_error));
    hold_clock();
    let_fail(RECEIVE, 1, ECONNRESET);
    begin_joining(&joiner);
    const int first = take_greeting(listener);
    say(first, "an answer of 16.", 16, 16);
    assert_closed(first);
    const int second = take_greeting(listener);
    let_fail(POLL, 1, ENOMEM);
    assert_closed(second);
    end_in_vain(&joiner, listener);
}

/* --------------------------------------------------------------------- frames */

static atomic_bool over;

/* A connection, and the other end of it. */
static int open_connection(struct connection *connection) {
    int fds[2];
    atomic_store(&over, false);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    connection_init(connection, &over);
    assert_int_equal(connection->fd, -1);
    assert_false(connection_is_open(connection));
    connection->fd = fds[0];
    assert_true(connection_is_open(connection));
    wait_at_most(fds[1], 60);
    return fds[1];
}

/* What has arrived, or comes within a while; NULL: the connection has ended. */
static struct frame *next_frame(struct connection *connection) {
    const double until = clock_now() + 60;
    bool open = true;
    struct frame *frame = NULL;
    while (open && clock_now() < until && !(frame = connection_read(connection, &open))) {
        struct pollfd one = {.fd = connection->fd, .events = POLLIN};
        if (open) poll(&one, 1, 1000);
    }
    return frame;
}

static unsigned char byte_of(unsigned kind, size_t at) { return (unsigned char)(at * 31 + at / 251 + kind); }

static void assert_frame(struct frame *frame, unsigned kind, size_t size) {
    assert_non_null(frame);
    assert_int_equal(frame->kind, kind);
    assert_int_equal(frame->size, size);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)frame->data[i] != byte_of(kind, i)) fail_msg("byte %zu of frame %u", i, kind);
    free(frame);
}

static const size_t sizes[] = {0, 1, 8, 100000, 0, 3000001, 2};
enum { FRAMES = sizeof sizes / sizeof *sizes };

static void *send_frames(void *argument) {
    unsigned char *data = malloc(3000001);
    for (unsigned f = 0; f < FRAMES && data; f++) {
        for (size_t i = 0; i < sizes[f]; i++) data[i] = byte_of(f, i);
        if (!connection_send(argument, f, data, sizes[f])) break;
    }
    free(data);
    return NULL;
}

/* Frames that are larger than what the system keeps, and empty ones. */
static void test_frames(void **state) {
    (void)state;
    struct connection sender, receiver;
    pthread_t thread;
    connection_init(&receiver, &over);
    receiver.fd = open_connection(&sender);
    /* Signals only delay. */
    let_fail(SEND, 3, EINTR);
    let_fail(RECEIVE, 3, EINTR);
    assert_int_equal(pthread_create(&thread, NULL, send_frames, &sender), 0);
    const double began = clock_now();
    for (unsigned f = 0; f < FRAMES; f++) assert_frame(next_frame(&receiver), f, sizes[f]);
    assert_true(receiver.received_at >= began && receiver.received_at <= clock_now());
    pthread_join(thread, NULL);
    bool open;
    assert_null(connection_read(&receiver, &open));
    assert_true(open);
    unsigned char small[FRAME_SOON_MAX - sizeof(struct frame_head)];
    for (size_t i = 0; i < sizeof small; i++) small[i] = byte_of(9, i);
    connection_send_soon(&sender, 9, small, sizeof small, 0);
    connection_send_soon(&sender, 9, small, 0, 0);
    assert_frame(next_frame(&receiver), 9, sizeof small);
    assert_frame(next_frame(&receiver), 9, 0);
    connection_close(&sender);
    assert_false(connection_is_open(&sender));
    assert_false(connection_send(&sender, 1, small, 1));
    connection_send_soon(&sender, 1, small, 1, 0);
    assert_null(connection_read(&receiver, &open));
    assert_false(open);
    connection_free(&sender);
    connection_free(&receiver);
}

/* Bytes come one by one, and the last of one frame with the first of the next. */
static void test_pieces(void **state) {
    (void)state;
    struct connection connection;
    const int fd = open_connection(&connection);
    enum { SIZE = 5, ALL = 2 * (sizeof(struct frame_head) + SIZE) };
    unsigned char bytes[ALL];
    bool open;
    for (unsigned f = 0; f < 2; f++) {
        const struct frame_head head = {40 + f, SIZE};
        unsigned char *place = bytes + f * (ALL / 2);
        memcpy(place, &head, sizeof head);
        for (size_t i = 0; i < SIZE; i++) place[sizeof head + i] = byte_of(40 + f, i);
    }
    for (int b = 0; b < ALL; b++) {
        struct frame *frame = connection_read(&connection, &open);
        assert_true(open);
        if (b == ALL / 2)
            assert_frame(frame, 40, SIZE);
        else
            assert_null(frame);
        assert_int_equal(send(fd, &bytes[b], 1, 0), 1);
    }
    assert_frame(connection_read(&connection, &open), 41, SIZE);
    assert_int_equal(send(fd, bytes, ALL, 0), ALL);
    assert_frame(connection_read(&connection, &open), 40, SIZE);
    assert_frame(connection_read(&connection, &open), 41, SIZE);
    /* It ends in the middle of one, of which nothing is kept. */
    assert_int_equal(send(fd, bytes, ALL / 2 - 1, 0), ALL / 2 - 1);
    assert_null(connection_read(&connection, &open));
    assert_true(open);
    close(fd);
    assert_null(connection_read(&connection, &open));
    assert_false(open);
    connection_free(&connection);
}

/* One that says of itself that it is larger than any. */
static void test_too_large(void **state) {
    (void)state;
    const uint32_t wrong[] = {FRAME_SIZE_MAX + 1u, UINT32_MAX};
    for (int w = 0; w < 2; w++) {
        struct connection connection;
        const int fd = open_connection(&connection);
        const struct frame_head head = {1, wrong[w]};
        bool open = true;
        assert_int_equal(send(fd, &head, sizeof head, 0), sizeof head);
        assert_null(connection_read(&connection, &open));
        assert_false(open);
        connection_free(&connection);
        close(fd);
    }
}

enum { LARGE = 8 << 20 };

struct writer {
    struct connection *connection;
    bool written;
};

static void *send_large(void *argument) {
    struct writer *writer = argument;
    unsigned char *data = malloc(LARGE);
    for (size_t i = 0; i < LARGE && data; i++) data[i] = byte_of(3, i);
    writer->written = data != NULL && connection_send(writer->connection, 3, data, LARGE);
    free(data);
    return NULL;
}

/* One thread waits for an end that does not read; another, that must not wait, gives up when it has to, and nothing of its
 * frame stands in the other's. */
static void test_soon(void **state) {
    (void)state;
    struct connection sender, receiver;
    struct writer writer = {.connection = &sender};
    pthread_t thread;
    connection_init(&receiver, &over);
    receiver.fd = open_connection(&sender);
    assert_int_equal(pthread_create(&thread, NULL, send_large, &writer), 0);
    struct pollfd full = {.fd = receiver.fd, .events = POLLIN};
    assert_int_equal(poll(&full, 1, 60000), 1);
    double began = clock_now();
    connection_send_soon(&sender, 4, "abcd", 4, 1.0);
    const double waited = clock_now() - began;
    assert_true(waited > 0.9 && waited < 30);
    assert_frame(next_frame(&receiver), 3, LARGE);
    pthread_join(thread, NULL);
    assert_true(writer.written);
    bool open;
    assert_null(connection_read(&receiver, &open));
    assert_true(open);
    /* Nor does it wait where what the system keeps is full. */
    unsigned char small[2000];
    for (size_t i = 0; i < sizeof small; i++) small[i] = byte_of(5, i);
    began = clock_now();
    for (int i = 0; i < 3000; i++) connection_send_soon(&sender, 5, small, sizeof small, 5);
    assert_true(clock_now() - began < 30);
    int count = 0;
    for (struct frame *frame; (frame = connection_read(&receiver, &open)); count++) assert_frame(frame, 5, sizeof small);
    assert_true(open);
    assert_in_range(count, 1, 2999);
    connection_send_soon(&sender, 5, small, sizeof small, 5);
    assert_frame(next_frame(&receiver), 5, sizeof small);
    connection_free(&sender);
    connection_free(&receiver);
}

/* Where the run is over nobody waits any more; what is left of the frame never follows. */
static void test_over(void **state) {
    (void)state;
    struct connection connection;
    struct writer writer = {.connection = &connection, .written = true};
    pthread_t thread;
    const int fd = open_connection(&connection);
    assert_int_equal(pthread_create(&thread, NULL, send_large, &writer), 0);
    struct pollfd full = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&full, 1, 60000), 1);
    clock_sleep(0.05);
    assert_true(writer.written);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    assert_false(writer.written);
    char *data = malloc(LARGE);
    size_t all = 0;
    ssize_t got;
    while ((got = recv(fd, data, LARGE, 0)) > 0) all += (size_t)got;
    assert_int_equal(got, 0);
    assert_in_range(all, 1, LARGE - 1);
    assert_false(connection_send(&connection, 3, data, 1));
    free(data);
    connection_free(&connection);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_by_hand),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_oldest_strangers),
        cmocka_unit_test(test_joining_by_hand),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_no_descriptor),
        cmocka_unit_test(test_silent_address),
        cmocka_unit_test(test_silent_rank_0),
        cmocka_unit_test(test_joining_in_vain),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_no_rank_comes),
        cmocka_unit_test(test_no_random_numbers),
        cmocka_unit_test(test_failing_accept),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_soon),
        cmocka_unit_test(test_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
