/*
 * What one process makes of what the others send it, and what they get of it: frames that are kept until they are asked for,
 * failures, losses and silence, last positions, log lines; and how a run is joined and left. All processes but one are played
 * by the test.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "comm/launch.h"
#include "comm/processes/control.h"
#include "descriptors.h"
#include "support.h"

enum { RANKS = 3 };
/* control.c's own kinds follow FRAME_KEPT. */
enum { HEARTBEAT = FRAME_KEPT, LINE, FAILED, LOST };

static struct process_info info_of(int rank) {
    struct process_info info = {.process = 1 << 30, .cores = 1, .machine = 1000 + (uint64_t)rank, .host_leader = rank};
    snprintf(info.host, sizeof info.host, "host%d", rank);
    return info;
}

/* The last line of the log. */
static char line[2048];
static enum ps_log_level line_level;

static void take_line(void *context, enum ps_log_level level, const char *text) {
    (void)context;
    line_level = level;
    snprintf(line, sizeof line, "%s", text);
}

/* -------------------------------------------------------- one process, without connections */

static struct control *alone(int count) {
    static struct process_info info[RANKS];
    struct control *control;
    for (int r = 0; r < RANKS; r++) info[r] = info_of(r);
    assert_ok(control_create(0, count, info, &control, &test_error));
    return control;
}

static bool hear(struct control *control, int rank, unsigned kind, const void *data, size_t size) {
    struct frame *frame = malloc(sizeof *frame + size);
    assert_non_null(frame);
    *frame = (struct frame){.rank = rank, .kind = kind, .size = size};
    if (size > 0) memcpy(frame->data, data, size);
    return control_hear(control, rank, frame);
}

/* The next of that kind from the rank says this. */
static void assert_next(struct control *control, int rank, enum frame_kind kind, const char *text) {
    struct frame *frame;
    assert_ok(control_wait(control, rank, kind, &frame, &test_error));
    assert_int_equal(frame->rank, rank);
    assert_int_equal(frame->kind, kind);
    assert_int_equal(frame->size, strlen(text) + 1);
    assert_string_equal(frame->data, text);
    free(frame);
}

/* Each kind of each rank in its order, whatever came between; the last one taken is followed by others. */
static void test_kept_frames(void **state) {
    (void)state;
    struct control *control = alone(RANKS);
    assert_true(hear(control, 1, FRAME_GATHER, "a", 2));
    assert_true(hear(control, 2, FRAME_GATHER, "b", 2));
    assert_true(hear(control, 1, FRAME_BROADCAST, "c", 2));
    assert_next(control, 1, FRAME_BROADCAST, "c");
    assert_true(hear(control, 1, FRAME_GATHER, "d", 2));
    assert_true(hear(control, 0, FRAME_GATHER, "e", 2));
    assert_next(control, 2, FRAME_GATHER, "b");
    assert_next(control, 1, FRAME_GATHER, "a");
    assert_next(control, 0, FRAME_GATHER, "e");
    assert_next(control, 1, FRAME_GATHER, "d");
    /* Nothing is left, and the list goes on. */
    assert_true(hear(control, 1, FRAME_HANDED_IN, "f", 2));
    assert_next(control, 1, FRAME_HANDED_IN, "f");
    assert_true(hear(control, 1, FRAME_DONE, "", 1));
    assert_true(hear(control, 1, FRAME_DONE, "g", 2));
    assert_next(control, 1, FRAME_DONE, "");
    /* What came before the run ended is still given; then it is said why it ended. */
    control_fail(control, PS_IO, &(struct ps_error){.status = PS_IO, .message = "no disk"});
    assert_next(control, 1, FRAME_DONE, "g");
    struct frame *frame;
    assert_status(control_wait(control, 1, FRAME_DONE, &frame, &test_error), PS_IO, "no disk");
    assert_true(hear(control, 2, FRAME_GATHER, "stays", 6));
    control_close(control);
}

static void assert_told(struct control *control, int32_t segment, int rank, int32_t value) {
    struct frame *frame = control_take_told(control, segment);
    int32_t told[2];
    assert_non_null(frame);
    assert_int_equal(frame->rank, rank);
    assert_int_equal(frame->size, sizeof told);
    memcpy(told, frame->data, sizeof told);
    assert_true(told[0] == segment && told[1] == value);
    free(frame);
}

/* Of any rank, by segment and age; one that is about none is never given. */
static void test_told(void **state) {
    (void)state;
    struct control *control = alone(RANKS);
    assert_true(hear(control, 1, FRAME_TOLD, "abc", 3));
    assert_true(hear(control, 1, FRAME_GATHER, (const int32_t[]){7, 0}, 8));
    assert_true(hear(control, 2, FRAME_TOLD, (const int32_t[]){7, 10}, 8));
    assert_true(hear(control, 1, FRAME_TOLD, (const int32_t[]){8, 20}, 8));
    assert_true(hear(control, 1, FRAME_TOLD, (const int32_t[]){7, 30}, 8));
    assert_true(hear(control, 0, FRAME_TOLD, (const int32_t[]){9}, 4));
    assert_null(control_take_told(control, 6));
    assert_told(control, 7, 2, 10);
    assert_told(control, 8, 1, 20);
    assert_told(control, 7, 1, 30);
    assert_null(control_take_told(control, 7));
    struct frame *frame = control_take_told(control, 9);
    assert_non_null(frame);
    assert_int_equal(frame->rank, 0);
    free(frame);
    control_close(control);
}

/* Which positions, lines and kinds a process can send, at both sides of each limit. */
static void test_heard(void **state) {
    (void)state;
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .level = PS_LOG_DEBUG, .line = take_line};
    struct control *control = alone(RANKS);
    const struct process_state first = {.segment = 3, .next = 0, .waiting = 1, .evaluating = 1}, before = {.next = -1};
    assert_true(hear(control, 2, HEARTBEAT, &first, sizeof first));
    assert_false(hear(control, 2, HEARTBEAT, &before, sizeof before));
    assert_false(hear(control, 2, HEARTBEAT, &before, sizeof before - 1));
    for (int r = 0; r < RANKS; r++) {
        const struct process_state known = control_state_of(control, r), none = {0};
        assert_memory_equal(&known, r == 2 ? &first : &none, sizeof known);
    }
    const struct process_state own = {.segment = 1, .next = 9};
    control_set_state(control, &own);
    const struct process_state known = control_state_of(control, 0);
    assert_memory_equal(&known, &own, sizeof own);
    assert_ok(ps_log_to(&sink, &test_error));
    for (int level = PS_LOG_DEBUG - 1; level <= PS_LOG_ERROR + 1; level++) {
        struct {
            int level;
            char text[8];
        } said = {level, "text"};
        const bool can = level >= PS_LOG_DEBUG && level <= PS_LOG_ERROR;
        line[0] = '\0';
        /* With nothing behind the text, something behind its end, no end, and no text. */
        assert_true(hear(control, 2, LINE, &said, sizeof level + 4) == can);
        assert_string_equal(line, can ? "rank 2: text" : "");
        if (can) assert_int_equal(line_level, level);
        memcpy(said.text + 5, "xx", 2);
        assert_true(hear(control, 1, LINE, &said, sizeof said) == can);
        assert_string_equal(line, can ? "rank 1: text" : "");
        assert_true(hear(control, 1, LINE, &said, sizeof level + 1) == can);
        assert_string_equal(line, can ? "rank 1: t" : "");
        assert_false(hear(control, 1, LINE, &said, sizeof level));
    }
    assert_ok(ps_log_to(NULL, &test_error));
    for (unsigned kind = LOST + 1; kind < LOST + 20; kind++) assert_false(hear(control, 1, kind, "", 1));
    assert_int_equal(control_check(control, NULL), PS_OK);
    control_close(control);
}

/* Each status but that of success can end a run, with its text. */
static void test_heard_failures(void **state) {
    (void)state;
    for (int status = -2; status < 100; status++) {
        bool can = false;
#define X(name, value, text) can = can || (value != 0 && status == value);
        PS_STATUS_LIST(X)
#undef X
        struct control *control = alone(RANKS);
        struct ps_error sent = {.status = (enum ps_status)status}, got;
        struct process_loss loss;
        memset(sent.message, 'm', sizeof sent.message);
        memset(sent.hint, 'h', sizeof sent.hint);
        assert_false(hear(control, 1, FAILED, &sent, sizeof sent - 1));
        assert_true(hear(control, 1, FAILED, &sent, sizeof sent) == can);
        assert_int_equal(control_check(control, &got), can ? status : PS_OK);
        if (can) {
            assert_int_equal(got.status, status);
            assert_int_equal(strlen(got.message), sizeof got.message - 1);
            assert_int_equal(strlen(got.hint), sizeof got.hint - 1);
        }
        assert_false(control_lost(control, &loss));
        control_close(control);
    }
}

/* Each rank of the run can be lost in each way. */
static void test_heard_losses(void **state) {
    (void)state;
    static const char *const texts[] = {"ended before the run did", "does not answer", "makes no progress"};
    for (int rank = -1; rank <= RANKS; rank++)
        for (int kind = -1; kind <= LOSS_STALLED + 1; kind++) {
            struct control *control = alone(RANKS);
            const struct process_loss sent = {.rank = rank, .kind = (enum loss_kind)kind, .seconds = 2.5};
            struct process_loss loss;
            struct ps_error got;
            char wanted[128];
            const bool can = rank >= 0 && rank < RANKS && kind >= 0 && kind <= LOSS_STALLED;
            assert_false(hear(control, 1, LOST, &sent, sizeof sent - 1));
            assert_true(hear(control, 1, LOST, &sent, sizeof sent) == can);
            assert_true(control_lost(control, &loss) == can);
            assert_int_equal(control_check(control, &got), can ? PS_WORKER_LOST : PS_OK);
            if (can) {
                snprintf(wanted, sizeof wanted, "worker %d was lost: rank %d on host%d %s", rank, rank, rank, texts[kind]);
                assert_string_equal(got.message, wanted);
                assert_memory_equal(&loss, &sent, sizeof loss);
            }
            control_close(control);
        }
}

/* What ends the run first stays. */
static void test_first_decision(void **state) {
    (void)state;
    const struct process_loss one = {.rank = 1, .kind = LOSS_SILENT}, other = {.rank = 2, .kind = LOSS_ENDED};
    const struct ps_error error = {.status = PS_IO, .message = "no disk", .hint = "buy one"};
    struct process_loss loss;
    struct control *control = alone(RANKS);
    control_fail(control, PS_BAD_INPUT, &error);
    control_lose(control, &one);
    control_fail(control, PS_IO, &(struct ps_error){.message = "later"});
    /* The status is the one that was said, whatever the message had. */
    struct ps_error got;
    assert_int_equal(control_check(control, &got), PS_BAD_INPUT);
    assert_int_equal(got.status, PS_BAD_INPUT);
    assert_status(control_check(control, &test_error), PS_BAD_INPUT, "no disk\nbuy one");
    assert_false(control_lost(control, &loss));
    control_close(control);
    control = alone(RANKS);
    control_lose(control, &one);
    control_lose(control, &other);
    control_fail(control, PS_BAD_INPUT, &error);
    assert_status(control_check(control, &test_error), PS_WORKER_LOST, "worker 1 was lost: rank 1 on host1 does not answer");
    assert_true(control_lost(control, &loss) && loss.rank == 1 && loss.kind == LOSS_SILENT);
    control_close(control);
}

/* What cannot be sent: too much at once; and to one whose connection is gone, for which the reason is given if it comes to be
 * known. */
static void test_unsent(void **state) {
    (void)state;
    struct control *control = alone(RANKS);
    assert_status(control_send(control, 1, FRAME_GATHER, "", (size_t)FRAME_SIZE_MAX + 1, &test_error), PS_FAILED,
                  "1073741825 bytes are more than one process can send to another at once");
    double began = clock_now();
    assert_status(control_send(control, 2, FRAME_GATHER, "", 1, &test_error), PS_WORKER_LOST,
                  "the connection to rank 2 on host2 broke");
    assert_true(clock_now() - began >= 1.9 && clock_now() - began < 30);
    control_fail(control, PS_IO, &(struct ps_error){.message = "no disk"});
    began = clock_now();
    assert_status(control_send(control, 2, FRAME_GATHER, "", 1, &test_error), PS_IO, "no disk");
    assert_true(clock_now() - began < 1.9);
    control_close(control);
}

/* ---------------------------------------------------------- rank 0, and the others played */

struct played {
    int rank;
    struct process_info info;
    struct connection connection;
    pthread_t thread;
};

struct group {
    int count;
    struct control *control;
    struct process_info info[RANKS];
    struct listening_address at;
    struct played others[RANKS];
};

static atomic_bool never;
static struct group *opening;

/* The library's come here, too. */
static bool refuses, refuses_next;
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static create *next;
    if (!next) next = (create *)dlsym(RTLD_NEXT, "pthread_create");
    return refuses ? EAGAIN : next(thread, attributes, function, argument);
}

static bool deaf;
int listen(int fd, int backlog) {
    if (!deaf) return (int)syscall(SYS_listen, fd, backlog);
    errno = EADDRINUSE;
    return -1;
}

static void *join_run(void *argument) {
    struct played *played = argument;
    connection_init(&played->connection, &never);
    if (socket_connect(&opening->at, played->rank, &played->info, &played->connection.fd, NULL) != PS_OK) abort();
    return NULL;
}

static void bootstrap(void *data, size_t size) {
    if (size != sizeof opening->at) abort();
    memcpy(&opening->at, data, size);
    for (int r = 1; r < opening->count; r++)
        if (pthread_create(&opening->others[r].thread, NULL, join_run, &opening->others[r]) != 0) abort();
    refuses = refuses_next;
}

static const struct processes_class meets = {.name = "test", .bootstrap = bootstrap};

static void prepare_group(struct group *group, int count) {
    *group = (struct group){.count = count};
    for (int r = 0; r < count; r++) {
        group->info[r] = group->others[r].info = info_of(r);
        group->others[r].rank = r;
    }
    opening = group;
}

static void wait_for_others(struct group *group) {
    for (int r = 1; r < group->count; r++) pthread_join(group->others[r].thread, NULL);
}

static void open_prepared(struct group *group) {
    assert_ok(control_open(&meets, 0, group->count, true, group->info, &group->control, &test_error));
    wait_for_others(group);
    for (int r = 1; r < group->count; r++) assert_memory_equal(&group->info[r], &group->others[r].info, sizeof group->info[r]);
}

static void open_group(struct group *group, int count) {
    prepare_group(group, count);
    open_prepared(group);
}

static void close_group(struct group *group) {
    control_close(group->control);
    for (int r = 1; r < group->count; r++) connection_free(&group->others[r].connection);
}

static void say(struct group *group, int rank, unsigned kind, const void *data, size_t size) {
    assert_true(connection_send(&group->others[rank].connection, kind, data, size));
}

static void leave_group(struct group *group, int rank) { connection_close(&group->others[rank].connection); }

/* The next frame that is or is not a heartbeat; NULL: the connection has ended. */
static struct frame *next_of(struct connection *connection, bool heartbeat) {
    const double until = clock_now() + 60;
    bool open = true;
    while (open && clock_now() < until) {
        struct frame *frame = connection_read(connection, &open);
        if (frame && (frame->kind == HEARTBEAT) == heartbeat) return frame;
        if (!frame && open) clock_sleep(0.001);
        free(frame);
    }
    assert_false(open);
    return NULL;
}

static struct frame *next_frame(struct group *group, int rank) { return next_of(&group->others[rank].connection, false); }

static enum ps_status wait_for_end(const struct control *control) {
    const double until = clock_now() + 60;
    while (control_check(control, NULL) == PS_OK && clock_now() < until) clock_sleep(0.002);
    return control_check(control, &test_error);
}

/* What the rank gets is this failure, word for word, with nothing behind the words. */
static void assert_gets_failure(struct group *group, int rank, enum ps_status status, const char *message, const char *hint) {
    struct frame *frame = next_frame(group, rank);
    struct ps_error wanted = {.status = status};
    snprintf(wanted.message, sizeof wanted.message, "%s", message);
    snprintf(wanted.hint, sizeof wanted.hint, "%s", hint);
    assert_non_null(frame);
    assert_int_equal(frame->kind, FAILED);
    assert_int_equal(frame->size, sizeof wanted);
    assert_memory_equal(frame->data, &wanted, sizeof wanted);
    free(frame);
}

static void assert_gets_loss(struct group *group, int rank, int lost, enum loss_kind kind) {
    struct frame *frame = next_frame(group, rank);
    struct process_loss loss;
    assert_non_null(frame);
    assert_int_equal(frame->kind, LOST);
    assert_int_equal(frame->size, sizeof loss);
    memcpy(&loss, frame->data, sizeof loss);
    assert_int_equal(loss.rank, lost);
    assert_int_equal(loss.kind, kind);
    free(frame);
}

static void test_nothing_stays_open(void **state) {
    (void)state;
    struct group group;
    const int before = open_descriptors();
    open_group(&group, RANKS);
    close_group(&group);
    assert_int_equal(open_descriptors(), before);
}

/* What one says ends the run goes to all others, and not back to it. */
static void test_relayed(void **state) {
    (void)state;
    struct group group;
    struct ps_error sent = {.status = PS_NO_PLAN, .message = "nothing fits", .hint = "take less"};
    const struct process_loss loss = {.rank = 2, .kind = LOSS_STALLED, .seconds = 30};
    memset(sent.message + 20, 'x', 100);
    memset(sent.hint + 20, 'x', 100);
    open_group(&group, RANKS);
    say(&group, 2, FAILED, &sent, sizeof sent);
    assert_gets_failure(&group, 1, PS_NO_PLAN, "nothing fits", "take less");
    assert_status(wait_for_end(group.control), PS_NO_PLAN, "nothing fits\ntake less");
    control_close(group.control);
    group.control = NULL;
    assert_null(next_frame(&group, 2));
    assert_null(next_frame(&group, 1));
    close_group(&group);
    open_group(&group, RANKS);
    say(&group, 1, LOST, &loss, sizeof loss);
    assert_gets_loss(&group, 2, 2, LOSS_STALLED);
    assert_status(wait_for_end(group.control), PS_WORKER_LOST, "worker 2 was lost: rank 2 on host2 makes no progress");
    control_close(group.control);
    group.control = NULL;
    assert_null(next_frame(&group, 1));
    close_group(&group);
    /* This process's own goes to all. */
    open_group(&group, RANKS);
    control_fail(group.control, PS_IO, &sent);
    for (int r = 1; r < RANKS; r++) assert_gets_failure(&group, r, PS_IO, "nothing fits", "take less");
    close_group(&group);
    open_group(&group, RANKS);
    control_lose(group.control, &loss);
    for (int r = 1; r < RANKS; r++) assert_gets_loss(&group, r, 2, LOSS_STALLED);
    close_group(&group);
}

/* One that closes its connection is lost, but for one that has said that it is done, and where all are expected to. */
static void test_ended(void **state) {
    (void)state;
    struct group group;
    struct process_loss loss;
    open_group(&group, RANKS);
    leave_group(&group, 1);
    assert_status(wait_for_end(group.control), PS_WORKER_LOST, "worker 1 was lost: rank 1 on host1 ended before the run did");
    assert_true(control_lost(group.control, &loss));
    assert_true(loss.rank == 1 && loss.kind == LOSS_ENDED && loss.seconds >= 0 && loss.seconds < 60);
    assert_gets_loss(&group, 2, 1, LOSS_ENDED);
    close_group(&group);
    open_group(&group, RANKS);
    say(&group, 1, FRAME_DONE, "", 0);
    leave_group(&group, 1);
    control_drain(group.control, 2, 60);
    assert_int_equal(control_check(group.control, NULL), PS_OK);
    control_expect_end(group.control);
    leave_group(&group, 2);
    control_drain(group.control, 0, 60);
    assert_true(control_check(group.control, NULL) == PS_OK);
    close_group(&group);
}

/* One that sends what no process does is disconnected; the others are told why. */
static void test_garbage(void **state) {
    (void)state;
    struct group group;
    open_group(&group, RANKS);
    say(&group, 2, LOST + 1, "", 1);
    say(&group, 2, FRAME_GATHER, "", 1);
    assert_status(wait_for_end(group.control), PS_FAILED, "rank 2 on host2 sent what no process of this version sends");
    assert_gets_failure(&group, 1, PS_FAILED, "rank 2 on host2 sent what no process of this version sends", "");
    assert_gets_failure(&group, 2, PS_FAILED, "rank 2 on host2 sent what no process of this version sends", "");
    assert_null(next_frame(&group, 2));
    close_group(&group);
}

/* Each gets the position of this process some times in a second; the last one when the run has failed. */
static void test_heartbeats(void **state) {
    (void)state;
    struct group group;
    struct process_state own = {.segment = 4, .next = 17, .waiting = 1}, got = {0};
    open_group(&group, RANKS);
    control_set_state(group.control, &own);
    const double began = clock_now();
    int beats = 0;
    for (; beats < 4; beats++)
        for (int r = 1; r < RANKS; r++) {
            struct frame *frame = next_of(&group.others[r].connection, true);
            assert_non_null(frame);
            assert_int_equal(frame->size, sizeof got);
            memcpy(&got, frame->data, sizeof got);
            free(frame);
            if (beats > 1) assert_memory_equal(&got, &own, sizeof got);
        }
    /* Four heartbeats, of which the first may be due at once. */
    assert_true(clock_now() - began > 0.35);
    own.next = 99;
    control_set_state(group.control, &own);
    control_fail(group.control, PS_IO, &(struct ps_error){.message = "no disk"});
    control_close(group.control);
    group.control = NULL;
    for (int r = 1; r < RANKS; r++) {
        bool failed = false, open = true;
        for (struct frame *frame; (frame = connection_read(&group.others[r].connection, &open)); free(frame)) {
            failed = failed || frame->kind == FAILED;
            if (frame->kind == HEARTBEAT) memcpy(&got, frame->data, sizeof got);
        }
        assert_true(failed && !open);
        assert_memory_equal(&got, &own, sizeof got);
    }
    close_group(&group);
}

/* A process of its own, which is stopped for a while. What the other rank has sent meanwhile has not been read when it goes on,
 * and here comes only then. */
static int be_stopped(int ready) {
    struct group group;
    prepare_group(&group, 2);
    if (control_open(&meets, 0, 2, true, group.info, &group.control, NULL) != PS_OK) return 1;
    wait_for_others(&group);
    clock_sleep(0.3); /* its thread runs */
    if (write(ready, "", 1) != 1) return 4;
    const double began = clock_now();
    for (double last = began, now; last < began + 4.5; last = now) {
        const struct process_state next = {.next = 1};
        clock_sleep(0.05);
        now = clock_now();
        if (now - last > 1) clock_sleep(0.4);
        if (!connection_send(&group.others[1].connection, HEARTBEAT, &next, sizeof next)) return 2;
    }
    return control_check(group.control, NULL) == PS_OK ? 0 : 3;
}

/* Heartbeats of another rank keep it; silence loses it, unless it runs on this host and may only be late, or nobody could hear
 * it. */
static void test_silence(void **state) {
    (void)state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t sleeper = fork();
    assert_true(sleeper >= 0);
    if (sleeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(be_stopped(ready[1]));
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int r = 0; r < 2; r++) close(ready[r]);
    assert_int_equal(kill(sleeper, SIGSTOP), 0);
    const double stopped_at = clock_now();
    enum { ELSEWHERE, STOPPED, GONE, RUNS, BEATS, GROUPS };
    struct group groups[GROUPS];
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* A name that looks like the state of one that has ended. */
        prctl(PR_SET_NAME, "a) Z (b", 0, 0, 0);
        for (;;) sleep(1);
    }
    const pid_t stopped = fork();
    assert_true(stopped >= 0);
    if (stopped == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) sleep(1);
    }
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    for (int g = 0; g < GROUPS; g++) {
        prepare_group(&groups[g], 2);
        struct process_info *info = &groups[g].others[1].info;
        if (g != ELSEWHERE && g != BEATS) info->machine = groups[g].info[0].machine;
        /* GONE: such a number no process has. */
        if (g == STOPPED) info->process = (int32_t)stopped;
        if (g == RUNS || g == ELSEWHERE) info->process = (int32_t)child;
        open_prepared(&groups[g]);
    }
    const double began = clock_now();
    int lost = 0;
    while (lost < 3 && clock_now() - began < 60) {
        const struct process_state state_of_it = {.next = 1};
        clock_sleep(0.1);
        say(&groups[BEATS], 1, HEARTBEAT, &state_of_it, sizeof state_of_it);
        lost = 0;
        for (int g = 0; g <= GONE; g++) lost += control_check(groups[g].control, NULL) != PS_OK;
        assert_true(lost == 0 || clock_now() - began > 3);
    }
    for (int g = 0; g < GROUPS; g++) {
        struct process_loss loss;
        if (g <= GONE) {
            assert_true(control_lost(groups[g].control, &loss));
            assert_true(loss.rank == 1 && loss.kind == LOSS_SILENT && loss.seconds > 3.6 && loss.seconds < 60);
        } else if (clock_now() - began < 8) { /* so long the one that runs is kept */
            assert_int_equal(control_check(groups[g].control, NULL), PS_OK);
        }
        close_group(&groups[g]);
    }
    if (clock_now() - stopped_at < 4.4) clock_sleep(stopped_at + 4.4 - clock_now());
    assert_int_equal(kill(sleeper, SIGCONT), 0);
    int status = -1;
    assert_int_equal(waitpid(sleeper, &status, 0), sleeper);
    assert_int_equal(status, 0);
    kill(child, SIGKILL);
    kill(stopped, SIGKILL);
    for (int c = 0; c < 2; c++) waitpid(c ? child : stopped, NULL, 0);
}

/* Where no thread can read the connections, the others are told why they end. */
static void test_no_thread(void **state) {
    (void)state;
    static const char text[] = "cannot start the thread that reads the connections: Resource temporarily unavailable";
    struct group group;
    prepare_group(&group, RANKS);
    refuses_next = true;
    const enum ps_status status = control_open(&meets, 0, RANKS, true, group.info, &group.control, &test_error);
    refuses = refuses_next = false;
    assert_status(status, PS_FAILED, text);
    wait_for_others(&group);
    assert_null(group.control);
    for (int r = 1; r < RANKS; r++) {
        assert_gets_failure(&group, r, PS_FAILED, text, "");
        assert_null(next_frame(&group, r));
    }
    close_group(&group);
}

/* Where rank 0 cannot listen the others are told so: the port is 0. */
static void test_no_listener(void **state) {
    (void)state;
    struct group group;
    prepare_group(&group, 1);
    memset(&group.at, 7, sizeof group.at);
    deaf = true;
    const enum ps_status status = control_open(&meets, 0, RANKS, true, group.info, &group.control, &test_error);
    const enum ps_status silent = control_open(&meets, 0, RANKS, true, group.info, &group.control, NULL);
    deaf = false;
    assert_status(status, PS_FAILED, "rank 0 cannot listen for the others: Address already in use");
    assert_int_equal(silent, PS_FAILED);
    assert_null(group.control);
    assert_int_equal(group.at.port, 0);
}

/* Waits for all but one to leave, and not for ever. */
static void test_drain(void **state) {
    (void)state;
    struct group group;
    open_group(&group, RANKS);
    control_expect_end(group.control);
    double began = clock_now();
    control_drain(group.control, 2, 0.3);
    assert_true(clock_now() - began >= 0.3 && clock_now() - began < 30);
    leave_group(&group, 1);
    began = clock_now();
    control_drain(group.control, 2, 40);
    assert_true(clock_now() - began < 30);
    control_drain(group.control, 1, 0.3);
    assert_true(clock_now() - began >= 0.3);
    close_group(&group);
}

/* -------------------------------------------------------------------- whole runs */

static int played_rank;
static const char *system_failure;
static int ends, aborts;
static enum ps_status aborted_with;
static uint64_t network;

static enum ps_status start(uint64_t of_network, int *rank, int *count, int *host_leader, bool *same_network,
                            struct ps_error *error) {
    network = of_network;
    if (opening->count == 0) return error_set(error, PS_USAGE, "no launcher");
    *rank = *host_leader = played_rank;
    *count = opening->count;
    *same_network = true;
    return PS_OK;
}
static void end(void) { ends++; }
static void abort_run(enum ps_status status) {
    aborts++;
    aborted_with = status;
}
static const char *failure(void) { return system_failure; }

/* Rank 0, played for rank 1: it accepts it, and tells it of all processes, in too few words where it is of another version. */
static struct played leader;
static size_t missing_bytes;

static void *lead_run(void *argument) {
    const int *listener = argument;
    int sockets[2];
    struct process_info infos[2] = {info_of(0)};
    connection_init(&leader.connection, &never);
    if (socket_accept_all(&opening->at, *listener, 2, sockets, infos, NULL) != PS_OK) abort();
    leader.connection.fd = sockets[1];
    leader.info = infos[1];
    if (!connection_send(&leader.connection, FRAME_BROADCAST, infos, sizeof infos - missing_bytes)) abort();
    close(*listener);
    return NULL;
}

static void bootstrap_any(void *data, size_t size) {
    static int listener;
    if (played_rank == 0) {
        bootstrap(data, size);
        return;
    }
    if (socket_listen(true, &opening->at, &listener, NULL) != PS_OK) abort();
    memcpy(data, &opening->at, size);
    if (pthread_create(&leader.thread, NULL, lead_run, &listener) != 0) abort();
}

static const struct processes_class class = {
    .name = "test", .start = start, .bootstrap = bootstrap_any, .end = end, .abort_run = abort_run, .failure = failure};

static char phases[16];

static void take_phase(enum launch_phase phase) {
    const size_t length = strlen(phases);
    if (length + 1 < sizeof phases) phases[length] = "?mMlL"[phase];
}

static void begin_run(struct group *group, int rank, int count) {
    prepare_group(group, count);
    played_rank = rank;
    ends = aborts = 0;
    missing_bytes = 0;
    system_failure = NULL;
    memset(phases, 0, sizeof phases);
    launch_set_listener(take_phase);
}

static struct processes *join_as_rank_0(struct group *group, int count) {
    struct processes *processes;
    if (group->count == 0) begin_run(group, 0, count);
    assert_ok(processes_join(&class, &processes, &test_error));
    wait_for_others(group);
    return processes;
}

static void end_others(struct group *group) {
    for (int r = 1; r < group->count; r++) connection_free(&group->others[r].connection);
}

/* A process that was started alone knows itself, and is the whole run. */
static void test_alone(void **state) {
    (void)state;
    struct processes *processes;
    struct process_loss loss = {.rank = 0};
    struct process_state own = {.next = 5};
    char host[64] = "", cpu[64];
    int rank;
    void *data;
    size_t size;
    assert_ok(processes_join(NULL, &processes, &test_error));
    const struct process_info *info = &processes->info[0];
    const struct core_set cores = core_set_usable();
    assert_true(processes->rank == 0 && processes->count == 1 && processes->control == NULL);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_string_equal(info->host, host);
    assert_string_equal(info->cpu, processor_name(cpu, sizeof cpu));
    assert_int_equal(info->process, getpid());
    assert_int_equal(info->cores, cores_usable());
    assert_memory_equal(&info->core_set, &cores, sizeof cores);
    assert_true(info->memory.total == host_memory_read().total && info->memory.free > 0);
    assert_int_equal(info->host_leader, 0);
    /* Of hosts of one name each start of a kernel is another. */
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        char boot[64];
        assert_non_null(fgets(boot, sizeof boot, file));
        fclose(file);
        assert_true(info->machine == hash_text(hash_text(HASH_BEGIN, host), boot));
    }
    assert_ok(processes_check(processes, &test_error));
    processes_lose(processes, &loss);
    processes_set_state(processes, &own);
    processes_drain(processes, 1e9);
    assert_false(processes_lost(processes, &loss));
    assert_int_equal(processes_state_of(processes, 0).next, 0);
    assert_true(processes_is_reporter(processes));
    assert_false(processes_has_shared_peers(processes, 0));
    assert_false(processes_next_report(processes, 0, &rank, &data, &size));
    int32_t mine = 5, all = 0;
    assert_ok(processes_all_gather(processes, &mine, sizeof mine, &all, &test_error));
    assert_int_equal(all, 5);
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_int_equal(processes_leave(NULL, PS_IO, NULL), PS_IO);
}

/* Of a launcher that has started one, or of another one, it is told when they meet and leave, and how it ends. */
static void test_phases(void **state) {
    (void)state;
    struct group group;
    struct processes *processes;
    begin_run(&group, 0, 1);
    assert_ok(processes_join(&class, &processes, &test_error));
    assert_string_equal(phases, "mM");
    assert_true(launch_has_met());
    assert_true(network != 0 && processes->count == 1);
    const uint64_t first = network;
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_string_equal(phases, "mMlL");
    assert_true(ends == 1 && aborts == 0);
    begin_run(&group, 0, 1);
    assert_ok(processes_join(&class, &processes, &test_error));
    assert_true(network == first); /* the same host, and the same network on it */
    error_set(&test_error, PS_IO, "no disk");
    assert_status(processes_leave(processes, PS_IO, &test_error), PS_IO, "no disk");
    assert_string_equal(phases, "mM");
    assert_true(ends == 0 && aborts == 1 && aborted_with == PS_IO);
    begin_run(&group, 0, 0);
    assert_status(processes_join(&class, &processes, &test_error), PS_USAGE, "no launcher");
    assert_string_equal(phases, "mM");
    assert_true(ends == 0 && aborts == 1 && aborted_with == PS_USAGE);
    launch_set_listener(NULL);
}

/* Rank 0 tells all of all, and counts the cores of each host; all leave together. */
static void test_together(void **state) {
    (void)state;
    struct group group = {0};
    begin_run(&group, 0, RANKS);
    for (int r = 1; r < RANKS; r++) {
        group.others[r].info.machine = 7;
        group.others[r].info.quota = r == 1 ? 0 : 5;
        group.others[r].info.core_set = (struct core_set){.word = {r == 1 ? 0x0f : 0x3c, [CORE_SET_WORDS - 1] = 1}};
    }
    struct processes *processes = join_as_rank_0(&group, RANKS);
    for (int r = 1; r < RANKS; r++) {
        struct frame *frame = next_frame(&group, r);
        assert_non_null(frame);
        assert_int_equal(frame->kind, FRAME_BROADCAST);
        assert_int_equal(frame->size, RANKS * sizeof *processes->info);
        const struct process_info *told = (const struct process_info *)frame->data;
        for (int other = 1; other < RANKS; other++) assert_memory_equal(&told[other], &group.others[other].info, sizeof *told);
        assert_int_equal(told[0].process, getpid());
        free(frame);
        assert_int_equal(processes->info[r].cores, r == 1 ? 7 : 5);
    }
    assert_int_equal(processes->info[0].cores, cores_usable());
    /* What each gives arrives in its place; what it was sent, at all. */
    int32_t mine = 40, all[RANKS] = {0};
    for (int32_t r = 1; r < RANKS; r++) say(&group, r, FRAME_GATHER, (const int32_t[]){40 + r}, sizeof(int32_t));
    assert_ok(processes_all_gather(processes, &mine, sizeof mine, all, &test_error));
    for (int32_t r = 0; r < RANKS; r++) assert_int_equal(all[r], 40 + r);
    for (int r = 1; r < RANKS; r++) {
        struct frame *frame = next_frame(&group, r);
        assert_true(frame && frame->kind == FRAME_BROADCAST && frame->size == sizeof all);
        assert_memory_equal(frame->data, all, sizeof all);
        free(frame);
    }
    void *data;
    size_t size;
    say(&group, 1, FRAME_HANDED_IN, "text", 4);
    assert_ok(processes_send_to_rank_0(processes, 1, &data, &size, &test_error));
    assert_int_equal(size, 4);
    assert_string_equal(data, "text"); /* with its end */
    free(data);
    for (int r = 1; r < RANKS; r++) say(&group, r, FRAME_DONE, NULL, 0);
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_string_equal(phases, "mMlL");
    assert_int_equal(ends, 1);
    for (int r = 1; r < RANKS; r++) {
        struct frame *frame = next_frame(&group, r);
        assert_true(frame && frame->kind == FRAME_DONE && frame->size == 0);
        free(frame);
        assert_null(next_frame(&group, r));
    }
    end_others(&group);
}

/* What goes wrong in the middle: other numbers of bytes, the launcher's system, a lost rank. */
static void test_failing(void **state) {
    (void)state;
    struct group group = {0};
    struct processes *processes = join_as_rank_0(&group, RANKS);
    int32_t mine = 1, all[RANKS];
    say(&group, 1, FRAME_GATHER, &mine, sizeof mine);
    say(&group, 2, FRAME_GATHER, &mine, 3);
    assert_status(processes_gather(processes, &mine, sizeof mine, all, &test_error), PS_FAILED,
                  "internal error: rank 2 sent another number of bytes");
    system_failure = "a cable is out";
    assert_status(processes_check(processes, &test_error), PS_FAILED, "test on rank 0: a cable is out");
    system_failure = NULL;
    assert_ok(processes_check(processes, &test_error));
    leave_group(&group, 2);
    assert_int_equal(wait_for_end(processes->control), PS_WORKER_LOST);
    test_error = (struct ps_error){0};
    struct process_loss loss;
    assert_true(processes_lost(processes, &loss) && loss.rank == 2);
    assert_true(processes_is_reporter(processes));
    const double began = clock_now();
    processes_drain(processes, 0.2);
    assert_true(clock_now() - began >= 0.2);
    /* What the caller says of the loss stays. */
    error_set(&test_error, PS_WORKER_LOST, "worker 2 was at its end");
    assert_status(processes_leave(processes, PS_WORKER_LOST, &test_error), PS_WORKER_LOST, "worker 2 was at its end");
    assert_true(ends == 0 && aborts == 1 && aborted_with == PS_WORKER_LOST);
    end_others(&group);
    /* Another failure than the loss is not why the run ended. */
    group.count = 0;
    processes = join_as_rank_0(&group, RANKS);
    leave_group(&group, 1);
    assert_int_equal(wait_for_end(processes->control), PS_WORKER_LOST);
    error_set(&test_error, PS_IO, "no disk");
    assert_status(processes_leave(processes, PS_IO, &test_error), PS_WORKER_LOST, "worker 1 was lost: rank 1 on host1 ended");
    assert_int_equal(aborted_with, PS_WORKER_LOST);
    end_others(&group);
}

/* ------------------------------------------------------------------------- rank 1 */

static struct processes *join_as_rank_1(struct group *group) {
    struct processes *processes;
    begin_run(group, 1, 2);
    assert_ok(processes_join(&class, &processes, &test_error));
    pthread_join(leader.thread, NULL);
    return processes;
}

static void assert_leader_gets(unsigned kind, const void *data, size_t size) {
    struct frame *frame = next_of(&leader.connection, false);
    assert_non_null(frame);
    assert_int_equal(frame->kind, kind);
    assert_int_equal(frame->size, size);
    if (size > 0) assert_memory_equal(frame->data, data, size);
    free(frame);
}

/* Its log lines, reports and data go to rank 0; it leaves when rank 0 says so. */
static void test_rank_1(void **state) {
    (void)state;
    struct group group;
    struct processes *processes = join_as_rank_1(&group);
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .level = PS_LOG_DEBUG, .line = take_line};
    struct {
        int level;
        char text[2000];
    } said = {PS_LOG_WARN, "a warning"};
    void *data = "report";
    size_t size = 7;
    assert_string_equal(processes->info[0].host, "host0");
    assert_int_equal(processes->info[1].process, getpid());
    assert_int_equal(leader.info.process, getpid());
    assert_false(processes_is_reporter(processes));
    assert_ok(ps_log_to(&sink, &test_error));
    line[0] = '\0';
    log_warn("a %s", "warning");
    assert_string_equal(line, "");
    assert_leader_gets(LINE, &said, sizeof said.level + 9);
    /* Of a long one the beginning. */
    memset(said.text, 'l', sizeof said.text - 1);
    said.level = PS_LOG_ERROR;
    control_log(processes->control, PS_LOG_ERROR, said.text);
    assert_leader_gets(LINE, &said, sizeof said.level + 900);
    assert_ok(processes_report(processes, data, size, &test_error));
    assert_leader_gets(FRAME_TOLD, data, size);
    assert_ok(processes_send_to_rank_0(processes, 1, &data, &size, &test_error));
    assert_leader_gets(FRAME_HANDED_IN, data, size);
    assert_ok(processes_gather(processes, data, size, NULL, &test_error));
    assert_leader_gets(FRAME_GATHER, data, size);
    assert_true(connection_send(&leader.connection, FRAME_BROADCAST, "news", 4));
    assert_ok(processes_broadcast(processes, &data, &size, &test_error));
    assert_int_equal(size, 4);
    assert_string_equal(data, "news");
    free(data);
    assert_true(connection_send(&leader.connection, FRAME_DONE, NULL, 0));
    assert_ok(processes_leave(processes, PS_OK, &test_error));
    assert_leader_gets(FRAME_DONE, NULL, 0);
    assert_int_equal(ends, 1);
    /* The log is this process's own again. */
    log_warn("on its own");
    assert_string_equal(line, "on its own");
    assert_ok(ps_log_to(NULL, &test_error));
    connection_free(&leader.connection);
}

/* It speaks for the run only where rank 0 is lost, and cannot speak. */
static void test_speaking(void **state) {
    (void)state;
    for (int kind = 0; kind <= LOSS_STALLED; kind++)
        for (int rank = 0; rank < 2; rank++) {
            struct group group;
            struct processes *processes = join_as_rank_1(&group);
            const struct process_loss loss = {.rank = rank, .kind = (enum loss_kind)kind};
            const bool speaks = rank == 0 && kind != LOSS_STALLED;
            struct ps_error error = {0};
            assert_true(connection_send(&leader.connection, LOST, &loss, sizeof loss));
            assert_int_equal(wait_for_end(processes->control), PS_WORKER_LOST);
            test_error = (struct ps_error){0};
            assert_true(processes_is_reporter(processes) == speaks);
            error_set(&error, PS_WORKER_LOST, "my words");
            error_hint(&error, "a hint");
            assert_int_equal(processes_leave(processes, PS_WORKER_LOST, &error), PS_WORKER_LOST);
            assert_string_equal(error.message, speaks ? "my words" : "");
            assert_string_equal(error.hint, speaks ? "a hint" : "");
            connection_free(&leader.connection);
        }
}

/* A rank 0 of another version tells of other processes: all end. */
static void test_other_version(void **state) {
    (void)state;
    struct group group;
    struct processes *processes;
    struct ps_error error = {0}, told = {.status = PS_USAGE};
    begin_run(&group, 1, 2);
    missing_bytes = 8;
    assert_int_equal(processes_join(&class, &processes, &error), PS_USAGE);
    pthread_join(leader.thread, NULL);
    assert_string_equal(error.message, "");
    assert_true(aborts == 1 && aborted_with == PS_USAGE && ends == 0);
    snprintf(told.message, sizeof told.message, "the processes of this run are not of the same version");
    assert_leader_gets(FAILED, &told, sizeof told);
    connection_free(&leader.connection);
}

/* ------------------------------------------------------------- hosts, and large blocks */

static void test_hosts(void **state) {
    (void)state;
    /* Two hosts; on the second one rank shares no memory with the others. */
    struct process_info info[5] = {{.machine = 1, .host_leader = 0},
                                   {.machine = 2, .host_leader = 1},
                                   {.machine = 1, .host_leader = 0},
                                   {.machine = 2, .host_leader = 3},
                                   {.machine = 2, .host_leader = 1}};
    const struct processes processes = {.count = 5, .info = info};
    static const int on_host[] = {2, 3, 2, 3, 3}, first[] = {0, 1, 0, 1, 1};
    static const bool peers[] = {true, true, true, false, true};
    for (int r = 0; r < 5; r++) {
        assert_int_equal(processes_on_host(&processes, r), on_host[r]);
        assert_int_equal(processes_first_on_host(&processes, r), first[r]);
        assert_true(processes_has_shared_peers(&processes, r) == peers[r]);
        for (int other = 0; other < 5; other++)
            assert_true(processes_share_memory(&processes, r, other) ==
                        (info[r].machine == info[other].machine && (r == 3) == (other == 3)));
    }
    /* What MPI takes for one host is none where the kernels differ. */
    info[1].host_leader = 0;
    assert_false(processes_share_memory(&processes, 0, 1));
}

enum { AT_ONCE = 16 << 20, PIECES = 4 };

struct message {
    int looks;
};
static struct message only;
static int created, destroyed, piece_count;
static struct {
    size_t size;
    char *place;
} pieces[PIECES];

static enum ps_status message_create(size_t size, struct message **message, struct ps_error *error) {
    (void)error;
    assert_true(created - destroyed == 0 && piece_count < PIECES);
    pieces[piece_count].size = size;
    created++;
    *message = &only;
    return PS_OK;
}
static void message_destroy(struct message *message) {
    assert_ptr_equal(message, &only);
    destroyed++;
}
static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    assert_true(peer == 3 && tag == 8 && outgoing && size == pieces[piece_count].size);
    pieces[piece_count++].place = block;
    message->looks = 3;
}
static bool message_done(struct message *message) { return message->looks-- == 0; }

/* In messages of so many bytes, one after the other. */
static void test_moves(void **state) {
    (void)state;
    static const struct processes_class moves = {.message_create = message_create,
                                                 .message_destroy = message_destroy,
                                                 .message_start = message_start,
                                                 .message_done = message_done};
    static char block[1];
    struct processes processes = {.class = &moves, .count = 1};
    static const size_t wanted[] = {0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE, 3 * (size_t)AT_ONCE - 5};
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
        created = destroyed = piece_count = 0;
        assert_ok(processes_move(&processes, 3, 8, true, block, wanted[w], &test_error));
        assert_int_equal(piece_count, (wanted[w] + AT_ONCE - 1) / AT_ONCE);
        assert_true(created == piece_count && destroyed == piece_count);
        for (int p = 0; p < piece_count; p++) {
            const size_t at = (size_t)p * AT_ONCE;
            assert_ptr_equal(pieces[p].place, block + at);
            assert_int_equal(pieces[p].size, p < piece_count - 1 ? AT_ONCE : wanted[w] - at);
        }
    }
    /* The run ends while it is waited for. */
    struct control *control = alone(RANKS);
    processes.control = control;
    control_fail(control, PS_IO, &(struct ps_error){.message = "no disk"});
    created = destroyed = piece_count = 0;
    assert_status(processes_move(&processes, 3, 8, true, block, 2 * AT_ONCE, &test_error), PS_IO, "no disk");
    assert_true(piece_count == 1 && created == 1 && destroyed == 1);
    control_close(control);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_frames),   cmocka_unit_test(test_told),
        cmocka_unit_test(test_heard),         cmocka_unit_test(test_heard_failures),
        cmocka_unit_test(test_heard_losses),  cmocka_unit_test(test_first_decision),
        cmocka_unit_test(test_unsent),        cmocka_unit_test(test_nothing_stays_open),
        cmocka_unit_test(test_relayed),       cmocka_unit_test(test_ended),
        cmocka_unit_test(test_garbage),       cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_silence),       cmocka_unit_test(test_drain),
        cmocka_unit_test(test_alone),         cmocka_unit_test(test_phases),
        cmocka_unit_test(test_together),      cmocka_unit_test(test_failing),
        cmocka_unit_test(test_rank_1),        cmocka_unit_test(test_speaking),
        cmocka_unit_test(test_other_version), cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_moves),         cmocka_unit_test(test_no_thread),
        cmocka_unit_test(test_no_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
