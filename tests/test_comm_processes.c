/*
 * How processes of a run find each other and what they believe: strangers at rank 0's port and in its place, descriptors that
 * run out, frames that no process sends, and losses that arrive before their segment has begun.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/processes/control.h"
#include "support.h"

/* The authors' test vector. */
static void test_proof(void **state) {
    (void)state;
    static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    assert_true(socket_proof(key, key, 0) == UINT64_C(0x726fdb47dd0e0e31));
    assert_true(socket_proof(key, key, 1) == UINT64_C(0x93f5f5799a932462));
}

static void test_tags(void **state) {
    (void)state;
    enum { NUMBERS = 40000 };
    char *seen = calloc(NUMBERS, TAG_KINDS);
    for (int kind = 0; kind < TAG_KINDS; kind++)
        for (int number = 0; number < NUMBERS; number++) {
            int tag = message_tag((enum tag_kind)kind, number);
            assert_true(tag >= 0 && tag < NUMBERS * TAG_KINDS && !seen[tag]);
            seen[tag] = 1;
        }
    free(seen);
}

/* ------------------------------------------------------------------ strangers */

static const struct process_info own_info = {.host = "here", .cpu = "any", .cores = 1};

static int stranger(const struct listening_address *at, const void *says, size_t size) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    if (size > 0) assert_int_equal(send(fd, says, size, MSG_NOSIGNAL), size);
    return fd;
}

struct joiner {
    const struct listening_address *at;
    int rank, fd;
    struct ps_error error;
};

static void *join_run(void *argument) {
    struct joiner *joiner = argument;
    if (socket_connect(joiner->at, joiner->rank, &own_info, &joiner->fd, &joiner->error) != PS_OK) joiner->fd = -1;
    return NULL;
}

enum { RANKS = 4, SILENT = 100 };

/* Many that say nothing, some that say something, one that knows the protocol and not the secret: the run begins at once. */
static void test_strangers(void **state) {
    (void)state;
    struct listening_address at, guess;
    struct process_info info[RANKS] = {0};
    struct joiner joiners[RANKS], impostor = {.at = &guess, .rank = 1};
    pthread_t threads[RANKS], thread;
    int listener, sockets[RANKS], silent[SILENT];
    assert_ok(socket_listen(true, &at, &listener, &test_error));
    assert_int_equal(at.count, 1);
    const int32_t ranks[] = {-1, 0, RANKS, INT32_MAX};
    for (int s = 0; s < SILENT; s++) {
        int32_t hello[4] = {s, s, ranks[s % 4], 0};
        silent[s] = stranger(&at, hello, s < 40 ? 0 : s < 70 ? (size_t)(s % 16) : sizeof hello);
    }
    guess = at;
    guess.secret[1]++;
    double began = clock_now();
    assert_int_equal(pthread_create(&thread, NULL, join_run, &impostor), 0);
    for (int r = 1; r < RANKS; r++) {
        joiners[r] = (struct joiner){.at = &at, .rank = r};
        assert_int_equal(pthread_create(&threads[r], NULL, join_run, &joiners[r]), 0);
    }
    assert_ok(socket_accept_all(&at, listener, RANKS, sockets, info, &test_error));
    close(listener);
    assert_true(clock_now() - began < 10);
    for (int r = 1; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        assert_true(joiners[r].fd >= 0 && sockets[r] >= 0);
        assert_string_equal(info[r].host, "here");
        close(joiners[r].fd);
        close(sockets[r]);
    }
    for (int s = 0; s < SILENT; s++) close(silent[s]);
    pthread_join(thread, NULL);
    assert_int_equal(impostor.fd, -1);
}

struct meeting {
    const struct listening_address *at;
    int listener, sockets[2];
    struct process_info info[2];
};

static void *meet_run(void *argument) {
    struct meeting *meeting = argument;
    assert_ok(socket_accept_all(meeting->at, meeting->listener, 2, meeting->sockets, meeting->info, NULL));
    return NULL;
}

/* One that does not care whether rank 0 knows the secret, and cannot prove that it does: it is disconnected, and rank 1 is
 * taken after it. */
static void test_forger(void **state) {
    (void)state;
    const struct timeval limit = {.tv_sec = 10};
    const int64_t hello[2] = {7, 1};
    int64_t answer[2];
    struct {
        uint64_t proof;
        struct process_info info;
    } introduction = {.proof = 7, .info = own_info};
    struct listening_address at;
    struct meeting meeting = {.at = &at};
    struct joiner joiner = {.at = &at, .rank = 1};
    pthread_t thread;
    assert_ok(socket_listen(true, &at, &meeting.listener, &test_error));
    assert_int_equal(pthread_create(&thread, NULL, meet_run, &meeting), 0);
    const int forger = stranger(&at, hello, sizeof hello);
    setsockopt(forger, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(recv(forger, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    assert_int_equal(send(forger, &introduction, sizeof introduction, MSG_NOSIGNAL), sizeof introduction);
    assert_int_equal(recv(forger, answer, sizeof answer, 0), 0);
    close(forger);
    join_run(&joiner);
    assert_true(joiner.fd >= 0);
    pthread_join(thread, NULL);
    close(joiner.fd);
    close(meeting.sockets[1]);
    close(meeting.listener);
}

/* Ranks on other hosts: each address of this one is told, and the loopback's last. */
static void test_all_addresses(void **state) {
    (void)state;
    struct listening_address at;
    struct joiner joiner = {.at = &at, .rank = 1};
    struct process_info info[2] = {0};
    pthread_t thread;
    int listener, sockets[2];
    assert_ok(socket_listen(false, &at, &listener, &test_error));
    assert_in_range(at.count, 1, SOCKET_ADDRESSES);
    for (int a = 0; a < at.count; a++) {
        assert_true(at.address[a] != 0);
        assert_int_equal(ntohl(at.address[a]) >> 24 == 127, a == at.count - 1);
    }
    assert_int_equal(pthread_create(&thread, NULL, join_run, &joiner), 0);
    assert_ok(socket_accept_all(&at, listener, 2, sockets, info, &test_error));
    close(listener);
    pthread_join(thread, NULL);
    assert_true(joiner.fd >= 0);
    close(joiner.fd);
    close(sockets[1]);
}

/* One that listens in rank 0's place, and answers what it likes: it gets no proof. */
static void test_impostor(void **state) {
    (void)state;
    struct listening_address at;
    struct joiner joiner = {.at = &at, .rank = 1};
    pthread_t thread;
    int listener;
    char heard[1024];
    assert_ok(socket_listen(true, &at, &listener, &test_error));
    assert_int_equal(pthread_create(&thread, NULL, join_run, &joiner), 0);
    for (int attempt = 0; attempt < 2; attempt++) {
        int fd = accept(listener, NULL, NULL);
        assert_int_equal(recv(fd, heard, 16, MSG_WAITALL), 16);
        assert_null(memmem(heard, 16, at.secret, 8));
        assert_int_equal(send(fd, heard, 16, MSG_NOSIGNAL), 16); /* its echo */
        assert_true(recv(fd, heard, sizeof heard, 0) <= 0);
        close(fd);
    }
    close(listener);
    pthread_join(thread, NULL);
    assert_int_equal(joiner.fd, -1);
    assert_int_equal(joiner.error.status, PS_FAILED);
}

/* Rank 0 with hardly a descriptor left, all taken by strangers. */
static int meet_without_descriptors(const struct listening_address *at, int listener) {
    const struct rlimit few = {(rlim_t)listener + 4, (rlim_t)listener + 4};
    int sockets[2];
    struct process_info info[2];
    struct ps_error error;
    setrlimit(RLIMIT_NOFILE, &few);
    if (socket_accept_all(at, listener, 2, sockets, info, &error) != PS_OK) return 1;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec < 1 ? 0 : 2;
}

static void test_no_descriptors(void **state) {
    (void)state;
    struct listening_address at;
    struct joiner joiner = {.at = &at, .rank = 1};
    int listener, silent[8], status;
    assert_ok(socket_listen(true, &at, &listener, &test_error));
    for (int s = 0; s < 8; s++) silent[s] = stranger(&at, NULL, 0);
    fflush(NULL);
    pid_t child = fork();
    for (int s = 0; s < 8 && child == 0; s++) close(silent[s]);
    if (child == 0) exit(meet_without_descriptors(&at, listener));
    close(listener);
    join_run(&joiner);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(joiner.fd >= 0);
    close(joiner.fd);
    for (int s = 0; s < 8; s++) close(silent[s]);
}

/* --------------------------------------------------------------------- frames */

/* What both processes have from their launcher. */
static struct launch_pad {
    sem_t told;
    char data[1024];
} * pad;
static int own_rank;

static enum ps_status start(uint64_t network, int *rank, int *count, int *host_leader, bool *same_network,
                            struct ps_error *error) {
    (void)network, (void)error;
    *rank = own_rank;
    *count = 2;
    *host_leader = 0;
    *same_network = true;
    return PS_OK;
}

static void bootstrap(void *data, size_t size) {
    if (own_rank == 0) {
        memcpy(pad->data, data, size);
        sem_post(&pad->told);
    } else {
        sem_wait(&pad->told);
        memcpy(data, pad->data, size);
    }
}

static void end(void) {}
static void abort_run(enum ps_status status) { (void)status; }
static const char *failure(void) { return NULL; }
static const struct processes_class launched = {
    .name = "test", .start = start, .bootstrap = bootstrap, .end = end, .abort_run = abort_run, .failure = failure};

/* Forks rank 1, which runs `play` and ends with its result; this process can join as rank 0. */
static pid_t play_rank(int (*play)(int), int argument) {
    assert_int_equal(sem_init(&pad->told, 1, 0), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        own_rank = 1;
        alarm(60);
        exit(play(argument));
    }
    return child;
}

static void assert_ended(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Frames that no process sends: kind, and what is in it. control.c's own kinds follow FRAME_KEPT: heartbeat, line, failure and
 * loss. */
enum { HEARTBEAT = FRAME_KEPT, LINE, FAILED, LOST };
static const struct process_loss nobody = {.rank = 1000}, of_no_kind = {.rank = 0, .kind = (enum loss_kind)9};
static const struct ps_error of_no_status = {.status = (enum ps_status)99}, not_failed = {.status = PS_OK};
static const int32_t of_no_level[2] = {9, 65};
static const struct process_state before_first = {.next = -1};
static const struct {
    unsigned kind;
    const void *data;
    size_t size;
} wrong[] = {{LOST, &nobody, sizeof nobody},
             {LOST, &of_no_kind, sizeof of_no_kind},
             {LOST, &nobody, 3},
             {FAILED, &of_no_status, sizeof of_no_status},
             {FAILED, &not_failed, sizeof not_failed},
             {FAILED, "", 1},
             {LINE, of_no_level, sizeof of_no_level},
             {LINE, of_no_level, 2},
             {HEARTBEAT, &before_first, sizeof before_first},
             {HEARTBEAT, &before_first, 5},
             {LOST + 1, "", 1},
             {UINT32_MAX, "", 0}};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

static int send_wrong(int which) {
    struct listening_address at;
    struct connection connection;
    struct ps_error error;
    atomic_bool over = false;
    char rest[4096];
    connection_init(&connection, &over);
    bootstrap(&at, sizeof at);
    if (socket_connect(&at, 1, &own_info, &connection.fd, &error) != PS_OK) return 1;
    if (!connection_send(&connection, wrong[which].kind, wrong[which].data, wrong[which].size)) return 2;
    while (recv(connection.fd, rest, sizeof rest, 0) > 0) continue;
    connection_free(&connection);
    return 0;
}

static void test_wrong_frames(void **state) {
    (void)state;
    for (int w = 0; w < WRONG; w++) {
        struct processes *processes;
        pid_t child = play_rank(send_wrong, w);
        double until = clock_now() + 20;
        enum ps_status status = processes_join(&launched, &processes, &test_error);
        if (status == PS_OK) {
            while (processes_check(processes, NULL) == PS_OK && clock_now() < until) clock_sleep(0.002);
            status = processes_leave(processes, processes_check(processes, &test_error), &test_error);
        }
        assert_status(status, PS_FAILED, "what no process of this version sends");
        assert_ended(child);
    }
}

/* ------------------------------------------------------------------ what ends a run */

static int end_failed(int status) {
    struct processes *processes;
    struct ps_error error;
    if (processes_join(&launched, &processes, &error) != PS_OK) return 1;
    error_set(&error, (enum ps_status)status, "no room for layer 3");
    snprintf(error.hint, sizeof error.hint, "give it more");
    return processes_leave(processes, (enum ps_status)status, &error) == (enum ps_status)status ? 0 : 2;
}

/* Why one rank failed is what the others end with, to the word. */
static void test_failures(void **state) {
    static const enum ps_status statuses[] = {PS_IO, PS_OUT_OF_MEMORY, PS_STOPPED};
    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        struct processes *processes;
        struct process_loss loss;
        pid_t child = play_rank(end_failed, (int)statuses[i]);
        double until = clock_now() + 20;
        assert_ok(processes_join(&launched, &processes, &test_error));
        while (processes_check(processes, NULL) == PS_OK && clock_now() < until) clock_sleep(0.002);
        assert_false(processes_lost(processes, &loss));
        assert_status(processes_leave(processes, processes_check(processes, &test_error), &test_error), statuses[i],
                      "no room for layer 3\ngive it more");
        assert_ended(child);
    }
}

static int report_loss(int kind) {
    struct processes *processes;
    struct ps_error error;
    const struct process_loss loss = {.rank = 0, .kind = (enum loss_kind)kind};
    if (processes_join(&launched, &processes, &error) != PS_OK) return 1;
    processes_lose(processes, &loss);
    return processes_leave(processes, processes_check(processes, &error), &error) == PS_WORKER_LOST ? 0 : 2;
}

/* So is which rank was lost, and how. */
static void test_losses(void **state) {
    static const char *const texts[] = {
        [LOSS_ENDED] = "ended before the run did", [LOSS_SILENT] = "does not answer", [LOSS_STALLED] = "makes no progress"};
    (void)state;
    for (int kind = 0; kind <= LOSS_STALLED; kind++) {
        struct processes *processes;
        struct process_loss loss;
        pid_t child = play_rank(report_loss, kind);
        double until = clock_now() + 20;
        assert_ok(processes_join(&launched, &processes, &test_error));
        while (processes_check(processes, NULL) == PS_OK && clock_now() < until) clock_sleep(0.002);
        assert_true(processes_lost(processes, &loss));
        assert_true(loss.rank == 0 && (int)loss.kind == kind);
        assert_status(processes_check(processes, &test_error), PS_WORKER_LOST, texts[kind]);
        assert_status(processes_leave(processes, PS_WORKER_LOST, &test_error), PS_WORKER_LOST, "");
        assert_ended(child);
    }
}

/* ----------------------------------------------------------------- large data */

/* What does not fit into one piece: a number that is a multiple of the pieces' size, and the numbers beside it. */
static const size_t large[] = {0, 1, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, (2 << 24), (2 << 24) + 777};
enum { SIZES = sizeof large / sizeof *large };

static int send_back(int count) {
    struct processes *processes;
    struct ps_error error;
    if (processes_join(&launched, &processes, &error) != PS_OK) return 1;
    for (int i = 0; i < count; i++) {
        void *data;
        size_t size;
        if (processes_broadcast(processes, &data, &size, &error) != PS_OK || size != large[i]) return 2;
        if (processes_send_to_rank_0(processes, 1, &data, &size, &error) != PS_OK) return 3;
        free(data);
    }
    return processes_leave(processes, PS_OK, &error) == PS_OK ? 0 : 4;
}

/* Data of any size go to the others and back, and end with a '\0'. */
static void test_large(void **state) {
    (void)state;
    struct processes *processes;
    pid_t child = play_rank(send_back, SIZES);
    assert_ok(processes_join(&launched, &processes, &test_error));
    for (int i = 0; i < SIZES; i++) {
        size_t size = large[i], got = 0;
        uint32_t *numbers = malloc(size + 4);
        void *data = numbers, *back = NULL;
        for (size_t n = 0; n <= size / 4; n++) numbers[n] = (uint32_t)n * 2654435761U;
        assert_ok(processes_broadcast(processes, &data, &size, &test_error));
        assert_ok(processes_send_to_rank_0(processes, 1, &back, &got, &test_error));
        assert_int_equal(got, large[i]);
        assert_true(memcmp(back, numbers, got) == 0);
        assert_int_equal(((char *)back)[got], '\0');
        free(numbers);
        free(back);
    }
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_ended(child);
}

/* ------------------------------------------------------------------- segments */

enum { SEGMENTS = 3 };

static int tell_ahead(int segments) {
    struct processes *processes;
    struct ps_error error;
    if (processes_join(&launched, &processes, &error) != PS_OK) return 1;
    for (int32_t s = 1; s <= segments; s++) {
        const int32_t told[2] = {s, 10 * s};
        if (processes_report(processes, told, sizeof told, &error) != PS_OK) return 2;
    }
    return processes_leave(processes, PS_OK, &error) == PS_OK ? 0 : 3;
}

/* A rank that is ahead has told of the next segments before this one's end; nothing of them is heard before they begin. */
static void test_segments(void **state) {
    (void)state;
    struct processes *processes;
    pid_t child = play_rank(tell_ahead, SEGMENTS);
    assert_ok(processes_join(&launched, &processes, &test_error));
    int32_t *told;
    size_t size;
    int rank;
    clock_sleep(0.2); /* all of it has arrived */
    for (int32_t s = 1; s <= SEGMENTS; s++) {
        while (!processes_next_report(processes, s, &rank, (void **)&told, &size)) clock_sleep(0.001);
        assert_int_equal(size, 2 * sizeof *told);
        assert_true(rank == 1 && told[0] == s && told[1] == 10 * s);
        free(told);
        assert_false(processes_next_report(processes, s, &rank, (void **)&told, &size));
    }
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_ended(child);
}

enum { LARGE = 64 << 20 };

static int tell_much(int size) {
    struct processes *processes;
    struct ps_error error;
    int32_t *told = calloc(1, (size_t)size);
    if (!told || processes_join(&launched, &processes, &error) != PS_OK) return 1;
    for (int32_t s = 1; s <= 2; s++) {
        told[0] = s;
        if (processes_report(processes, told, s == 1 ? (size_t)size : sizeof *told, &error) != PS_OK) return 2;
    }
    free(told);
    return processes_leave(processes, PS_OK, &error) == PS_OK ? 0 : 3;
}

/* What has arrived is not lost where memory runs out. */
static void test_no_memory(void **state) {
    (void)state;
    struct processes *processes;
    pid_t child = play_rank(tell_much, LARGE);
    assert_ok(processes_join(&launched, &processes, &test_error));
    int32_t *told;
    size_t size;
    int rank;
    long pages;
    struct rlimit old_limit, limit;
    while (!processes_next_report(processes, 2, &rank, (void **)&told, &size)) clock_sleep(0.001); /* the last */
    free(told);
    FILE *file = fopen("/proc/self/statm", "r");
    assert_true(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + LARGE / 2;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    const bool there = processes_next_report(processes, 1, &rank, (void **)&told, &size);
    assert_int_equal(setrlimit(RLIMIT_AS, &old_limit), 0);
    assert_true(there && size == LARGE && told[0] == 1 && told[LARGE / sizeof *told - 1] == 0);
    free(told);
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_ended(child);
}

static int set_up(void **state) {
    (void)state;
    pad = mmap(NULL, sizeof *pad, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return pad == MAP_FAILED;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proof),          cmocka_unit_test(test_tags),          cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_forger),         cmocka_unit_test(test_all_addresses), cmocka_unit_test(test_impostor),
        cmocka_unit_test(test_no_descriptors), cmocka_unit_test(test_wrong_frames),  cmocka_unit_test(test_segments),
        cmocka_unit_test(test_failures),       cmocka_unit_test(test_losses),        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
