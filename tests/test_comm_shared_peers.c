/*
 * Blocks that change places between two processes: numbered blocks go back and forth in small slots while either end is now and
 * then late, and each must arrive whole and in its turn; and gradients that two replicas sum. The processes join as ranks of a
 * run do, over TCP; what a launcher would tell them they have from their parent. No message is ever sent.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "comm/transports/between_processes.h"
#include "comm/transports/shared_peers.h"
#include "program/routes.h"
#include "support.h"

enum { RANKS = 2, SLOTS = 3, BYTES = 4096, WORDS = BYTES / 4, ROUNDS = 20000, LATE_EVERY = 64 };
/* Of the stages that both have a replica of. */
enum { REPLICATED = 2, STAGES = RANKS + REPLICATED, GRADIENTS = 5 * WIRE_GROUP + 77, STATISTICS = 300, SUMS = 600 };

/* What both processes have from their parent. */
struct launch_pad {
    sem_t told;
    char data[1024];
};
static struct launch_pad *pad;
static int own_rank;

static enum ps_status start(uint64_t network, int *rank, int *count, int *host_leader, bool *same_network,
                            struct ps_error *error) {
    (void)network, (void)error;
    *same_network = true;
    *rank = own_rank;
    *count = RANKS;
    *host_leader = 0;
    return PS_OK;
}

static void bootstrap(void *data, size_t size) {
    if (size > sizeof pad->data) abort();
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
static enum ps_status message_create(size_t size, struct message **message, struct ps_error *error) {
    (void)size, (void)error;
    *message = (struct message *)pad;
    return PS_OK;
}
static void message_destroy(struct message *message) { (void)message; }
static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    (void)message, (void)peer, (void)tag, (void)outgoing, (void)block, (void)size;
    abort();
}

static const struct processes_class launched = {.name = "test",
                                                .start = start,
                                                .bootstrap = bootstrap,
                                                .end = end,
                                                .abort_run = abort_run,
                                                .message_create = message_create,
                                                .message_destroy = message_destroy,
                                                .message_start = message_start,
                                                .failure = failure};
static const struct transport_class class = {
    .name = "test", .own_threads = true, .processes = &launched, .shares_memory = true};

/* One rank: what it sends and what it receives, by slot. */
struct end {
    struct processes *processes;
    struct shared_block memory;
    struct transport *transport;
    enum block_kind sent, received;
    float *out[SLOTS], *in[SLOTS];
    float *gradients[REPLICATED], *statistics[REPLICATED];
};

/* A process of its own: the first thing that is not as it should be ends it with a number that says which. */
#define CHECK(condition)                                                                                                       \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            fprintf(stderr, "rank %d: line %d: %s (%s)\n", own_rank, __LINE__, #condition, error.message);                     \
            _exit(1);                                                                                                          \
        }                                                                                                                      \
    } while (0)

static void open_end(struct end *end) {
    static const struct stage_slots slots[RANKS + REPLICATED * RANKS] = {{.output = SLOTS, .output_gradient = SLOTS},
                                                                         {.input = SLOTS, .input_gradient = SLOTS}};
    static const struct stage_sizes sizes[STAGES] = {
        {.output_bytes = BYTES},
        {.input_bytes = BYTES},
        {.parameter_bytes = GRADIENTS * sizeof(float), .statistics_bytes = STATISTICS * sizeof(float)},
        {.parameter_bytes = GRADIENTS * sizeof(float), .statistics_bytes = STATISTICS * sizeof(float)}};
    struct ps_error error = {0};
    struct ps_programs *programs;
    struct instance parts[RANKS + REPLICATED * RANKS];
    for (int r = 0; r < RANKS; r++) {
        parts[r] = (struct instance){.stage = r, .worker = r, .forward = true, .backward = true, .replicas = 1};
        for (int s = 0; s < REPLICATED; s++)
            parts[RANKS + s * RANKS + r] = (struct instance){
                .stage = RANKS + s, .worker = r, .forward = true, .backward = true, .replica = r, .replicas = RANKS};
    }
    *end = (struct end){.sent = own_rank == 0 ? BLOCK_OUTPUT : BLOCK_INPUT_GRADIENT,
                        .received = own_rank == 0 ? BLOCK_OUTPUT_GRADIENT : BLOCK_INPUT};
    CHECK(processes_join(&launched, &end->processes, &error) == PS_OK);
    CHECK(programs_create(RANKS, STAGES, &programs, &error) == PS_OK);
    CHECK(programs_set_instances(programs, parts, RANKS + REPLICATED * RANKS, &error) == PS_OK);
    CHECK(shared_block_take(&end->memory, (2 * SLOTS + 4 * REPLICATED) * (size_t)BYTES, true, "a rank", &error) == PS_OK);
    for (int s = 0; s < REPLICATED; s++) {
        end->gradients[s] = memory_block_carve(&end->memory.memory, GRADIENTS * sizeof(float));
        end->statistics[s] = memory_block_carve(&end->memory.memory, STATISTICS * sizeof(float));
    }
    for (int s = 0; s < SLOTS; s++) {
        end->out[s] = memory_block_carve(&end->memory.memory, BYTES);
        end->in[s] = memory_block_carve(&end->memory.memory, BYTES);
    }
    struct transport_options options = {.programs = programs,
                                        .slots = slots,
                                        .processes = end->processes,
                                        .sizes = sizes,
                                        .shared = &end->memory,
                                        .shared_backed = true};
    CHECK(between_processes_create(&class, &options, &end->transport, &error) == PS_OK);
    ps_programs_destroy(programs);
}

static void post(struct end *end, bool sends, int slot) {
    between_processes_post(end->transport, own_rank, sends ? end->sent : end->received, slot, 1 - own_rank,
                           sends ? &end->out[slot] : &end->in[slot], &(struct moment){.time = clock_now()});
}

/* Now and then one is late: a moment, or so long that the other falls asleep. */
static void be_late(int round) {
    double chance = random_uniform(test_key((uint64_t)own_rank), (uint64_t)round);
    if (chance < 1.0 / LATE_EVERY) clock_sleep(chance * LATE_EVERY * 2e-4);
}

static bool holds(const float *block, float value) {
    for (int i = 0; i < WORDS; i++)
        if (block[i] != value) return false;
    return true;
}

static void fill(float *block, float value) {
    for (int i = 0; i < WORDS; i++) block[i] = value;
}

/* Rank 0 sends i and gets -i for it. */
static void exchange(struct end *end) {
    struct ps_error error = {0};
    float sign = own_rank == 0 ? 1 : -1;
    for (int slot = 0; slot < SLOTS; slot++) post(end, false, slot);
    for (int round = 0; round < ROUNDS; round++) {
        int slot = round % SLOTS;
        if (own_rank == 1) {
            CHECK(between_processes_wait(end->transport, own_rank, end->received, slot) &&
                  holds(end->in[slot], -sign * (float)round));
            if (round + SLOTS < ROUNDS) post(end, false, slot);
        }
        be_late(round);
        CHECK(between_processes_wait(end->transport, own_rank, end->sent, slot));
        fill(end->out[slot], sign * (float)round);
        post(end, true, slot);
        int before = round - (SLOTS - 1), last = round == ROUNDS - 1 ? round : before;
        for (; own_rank == 0 && before >= 0 && before <= last; before++) {
            slot = before % SLOTS;
            CHECK(between_processes_wait(end->transport, own_rank, end->received, slot) &&
                  holds(end->in[slot], -sign * (float)before));
            if (before + SLOTS < ROUNDS) post(end, false, slot);
        }
    }
    CHECK(between_processes_drain(end->transport));
    for (int s = 0; s < SLOTS; s++)
        for (int other = 0; other < SLOTS; other++)
            CHECK(end->in[s] != end->out[other] &&
                  (s == other || (end->in[s] != end->in[other] && end->out[s] != end->out[other])));
}

static float drawn(int stage, int rank, int round, int i) {
    return (float)random_uniform(test_key((uint64_t)(10 + RANKS * stage + rank)),
                                 (uint64_t)round * (GRADIENTS + STATISTICS) + (uint64_t)i);
}

static struct transport_share share_of(const struct end *end, int stage, int round) {
    return (struct transport_share){.gradients = end->gradients[stage],
                                    .gradient_count = round % 3 == 1 ? 0 : GRADIENTS,
                                    .empty = round % 5 == own_rank,
                                    .scale = 0.3f,
                                    .statistics = end->statistics[stage],
                                    .statistics_count = round % 3 == 2 ? 0 : STATISTICS};
}

static void begin_sum(struct end *end, int stage, int round) {
    const struct transport_share share = share_of(end, stage, round);
    for (int i = 0; i < GRADIENTS; i++) share.gradients[i] = drawn(stage, own_rank, round, i);
    for (int i = 0; i < STATISTICS; i++) share.statistics[i] = drawn(stage, own_rank, round, GRADIENTS + i);
    be_late(round);
    between_processes_reduce(end->transport, RANKS + RANKS * stage + own_rank, &share);
}

static void end_sum(struct end *end, int stage, int round) {
    struct ps_error error = {0};
    const struct transport_share share = share_of(end, stage, round);
    CHECK(between_processes_wait(end->transport, RANKS + RANKS * stage + own_rank, BLOCK_WEIGHT_GRADIENTS, 0));
    for (int i = 0; i < GRADIENTS + STATISTICS; i++) {
        const float first = drawn(stage, 0, round, i), second = drawn(stage, 1, round, i), own = own_rank == 0 ? first : second;
        if (i >= GRADIENTS)
            CHECK(share.statistics[i - GRADIENTS] == (share.statistics_count > 0 ? (first + second) / 2 : own));
        else if (share.gradient_count == 0)
            CHECK(share.gradients[i] == own);
        else
            CHECK(share.gradients[i] == 0.3f * (round % 5 == 0 ? second : round % 5 == 1 ? first : first + second));
    }
}

/* Both have a share, of gradients, statistics or both, and now and then one has no gradients. What a rank gets it overwrites
 * at once. Sums of two stages are under way at the same time, of which either ends first. */
static void sum(struct end *end) {
    for (int round = 0; round < SUMS; round++) {
        for (int stage = 0; stage < REPLICATED; stage++) begin_sum(end, stage, round);
        for (int stage = 0; stage < REPLICATED; stage++) end_sum(end, (stage + round) % REPLICATED, round);
    }
}

static void *stop(void *argument) {
    clock_sleep(0.05);
    between_processes_stop(argument);
    return NULL;
}

/* One who sleeps until the other rings, which does not, is woken. */
static void wait_in_vain(struct end *end) {
    struct ps_error error = {0};
    pthread_t thread;
    post(end, false, 0);
    CHECK(pthread_create(&thread, NULL, stop, end->transport) == 0);
    CHECK(!between_processes_wait(end->transport, own_rank, end->received, 0));
    pthread_join(thread, NULL);
    CHECK(!between_processes_wait(end->transport, own_rank, end->received, 0));
}

static int run_rank(int none) {
    (void)none;
    /* The other one may have failed, and will not ring. */
    alarm(300);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct ps_error error = {0};
    struct end end;
    open_end(&end);
    exchange(&end);
    sum(&end);
    wait_in_vain(&end);
    CHECK(processes_leave(end.processes, PS_OK, &error) == PS_OK);
    between_processes_destroy(end.transport);
    shared_block_release(&end.memory);
    return 0;
}

/* Plays both ranks, each of which ends with its result. */
static void play(int (*run)(int), int argument) {
    pid_t children[RANKS];
    pad = mmap(NULL, sizeof *pad, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pad != MAP_FAILED);
    assert_int_equal(sem_init(&pad->told, 1, 0), 0);
    fflush(NULL);
    for (own_rank = 0; own_rank < RANKS; own_rank++) {
        children[own_rank] = fork();
        assert_true(children[own_rank] >= 0);
        if (children[own_rank] == 0) exit(run(argument));
    }
    bool good = true;
    for (int r = 0; r < RANKS; r++) {
        int status = -1;
        pid_t ended = waitpid(-1, &status, 0);
        if (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        if (good) print_error("process %d of %d and %d ended with wait status %d\n", ended, children[0], children[1], status);
        /* The other one would wait for it. */
        for (int other = 0; other < RANKS && good; other++)
            if (children[other] != ended) kill(children[other], SIGKILL);
        good = false;
    }
    assert_true(good);
    munmap(pad, sizeof *pad);
}

static void test_two_ranks(void **state) {
    (void)state;
    play(run_rank, 0);
}

/* What keeps the ranks of one host from sharing memory: nothing, one of them has none to share, it runs on another host, or
 * under another kernel; it has a number by which it is not found, or by which another is; it gets no memory for its board, or
 * no random number. */
enum unshared { SHARED, NO_MEMORY, NO_LEADER, NO_MACHINE, NO_PROCESS, NOT_IT, NO_BOARD, NO_NUMBER, UNSHARED };
static enum unshared refused;

/* The library's calls come here, too. */
int memfd_create(const char *name, unsigned flags) {
    if (refused != NO_BOARD) return (int)syscall(SYS_memfd_create, name, flags);
    errno = EMFILE;
    return -1;
}

ssize_t getrandom(void *out, size_t size, unsigned flags) {
    if (refused != NO_NUMBER) return (ssize_t)syscall(SYS_getrandom, out, size, flags);
    errno = ENOSYS;
    return -1;
}

static char lines[2048];

static void take_line(void *context, enum ps_log_level level, const char *text) {
    (void)context;
    const size_t length = strlen(lines);
    snprintf(lines + length, sizeof lines - length, "%d:%s\n", (int)level, text);
}

static int run_unshared(int why) {
    alarm(300);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static const struct stage_slots slots[RANKS] = {{.output = 1}, {.input = 1}};
    static const struct stage_sizes sizes[RANKS] = {{.output_bytes = BYTES}, {.input_bytes = BYTES}};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .level = PS_LOG_INFO, .line = take_line};
    struct ps_error error = {0};
    struct processes *processes;
    struct ps_programs *programs;
    struct shared_block memory;
    struct routes routes;
    struct shared_peers *peers = (struct shared_peers *)&memory;
    char wanted[256] = "";
    CHECK(processes_join(&launched, &processes, &error) == PS_OK);
    struct process_info *other = &processes->info[1];
    if (why == NO_LEADER) other->host_leader = 1;
    if (why == NO_MACHINE) other->machine++;
    if (why == NO_PROCESS && own_rank == 0) other->process = INT32_MAX;
    if (why == NOT_IT && own_rank == 0) other->process = processes->info[0].process;
    CHECK(programs_create(RANKS, RANKS, &programs, &error) == PS_OK);
    const struct instance parts[RANKS] = {{.stage = 0, .worker = 0, .forward = true, .backward = true, .replicas = 1},
                                          {.stage = 1, .worker = 1, .forward = true, .backward = true, .replicas = 1}};
    CHECK(programs_set_instances(programs, parts, RANKS, &error) == PS_OK);
    CHECK(routes_create(programs, &routes, &error) == PS_OK);
    /* Of the lower rank other files, so that no number is that of another's. */
    for (int n = 0; n < 5 && own_rank == 0; n++) CHECK(dup(0) >= 0);
    CHECK(shared_block_take(&memory, BYTES, true, "a rank", &error) == PS_OK);
    struct transport_options options = {.programs = programs, .slots = slots, .processes = processes, .sizes = sizes};
    if (why != NO_MEMORY || own_rank == 0) options.shared = &memory;
    /* Lines would go to rank 0. */
    log_forward(NULL, NULL);
    CHECK(ps_log_to(&sink, &error) == PS_OK);
    if (own_rank == 1 && (why == NO_BOARD || why == NO_NUMBER)) refused = (enum unshared)why;
    CHECK(shared_peers_create(&options, &routes, &peers, &error) == PS_OK);
    refused = SHARED;
    CHECK((peers != NULL) == (why == SHARED));
    for (int r = 0; r < routes.count; r++) CHECK(shared_peers_on(peers, r) == (why == SHARED));
    /* One speaks for all of its host. */
    if (why == SHARED && own_rank == 0)
        snprintf(wanted, sizeof wanted, "%d:the ranks of %s share memory: blocks change places between them\n", PS_LOG_INFO,
                 processes->info[0].host);
    if ((why == NO_PROCESS || why == NOT_IT) && own_rank == 0)
        snprintf(wanted, sizeof wanted,
                 "%d:blocks between the ranks of %s go by messages: the memory of rank 1 cannot be shared: ", PS_LOG_WARN,
                 processes->info[1].host);
    if (why == NO_BOARD && own_rank == 1) snprintf(wanted, sizeof wanted, "%d:a board: ", PS_LOG_WARN);
    if (wanted[0]) CHECK(strncmp(lines, wanted, strlen(wanted)) == 0);
    if (!wanted[0] || why == SHARED) CHECK(strcmp(lines, wanted) == 0);
    shared_peers_destroy(peers);
    shared_block_release(&memory);
    routes_free(&routes);
    ps_programs_destroy(programs);
    CHECK(processes_leave(processes, PS_OK, &error) == PS_OK);
    return 0;
}

static void test_unshared(void **state) {
    (void)state;
    for (int why = 0; why < UNSHARED; why++) play(run_unshared, why);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_ranks), cmocka_unit_test(test_unshared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
