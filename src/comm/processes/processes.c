/* Joining and leaving a run of several processes, and their collective operations, by the control connections. See processes.h.
 */
#include "comm/processes.h"
#include "base/memory.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/processor.h"
#include "comm/launch.h"
#include "comm/processes/control.h"

/* Outside of training larger blocks are sent in several messages. */
enum { MOVED_AT_ONCE = 16 << 20 };

/* ------------------------------------------------------------- this machine */

/* The kernel's boot number distinguishes hosts of the same name. */
static uint64_t number_of_machine(const char *host) {
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file)) boot[0] = '\0';
    if (file) fclose(file);
    return hash_text(hash_text(HASH_BEGIN, host), boot);
}

static struct process_info this_machine(void) {
    struct process_info info = {
        .process = (int32_t)getpid(), .core_set = core_set_usable(), .quota = cores_quota(), .cores = cores_usable()};
    if (gethostname(info.host, sizeof info.host - 1) != 0) snprintf(info.host, sizeof info.host, "unknown");
    processor_name(info.cpu, sizeof info.cpu);
    info.memory = host_memory_read();
    info.machine = number_of_machine(info.host);
    return info;
}

/* ----------------------------------------------------------- join and leave */

/* Copies `all` of rank 0 to all other ranks. */
static enum ps_status spread(struct processes *processes, void *all, size_t size, struct ps_error *error) {
    void *received = all;
    size_t bytes = size;
    TRY(processes_broadcast(processes, &received, &bytes, error));
    if (processes->rank == 0) return PS_OK;
    if (bytes == size) memcpy(all, received, size);
    free(received);
    return bytes == size ? PS_OK : error_set(error, PS_USAGE, "the processes of this run are not of the same version");
}

/* Processes with the same number reach each other by the loopback interface: they share a host and, on it, a network namespace.
 * Unknown: a number that no other process has. */
static uint64_t number_of_network(uint64_t machine) {
    struct stat status;
    char number[64];
    if (stat("/proc/self/ns/net", &status) == 0)
        snprintf(number, sizeof number, "%ju %ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    else
        snprintf(number, sizeof number, "process %ld at %.9f", (long)getpid(), clock_now());
    return hash_text(machine, number);
}

/* The cores of each process's host. */
static void count_cores(struct processes *processes) {
    for (int rank = 0; rank < processes->count; rank++) {
        struct core_set all = {0};
        for (int other = 0; other < processes->count; other++)
            if (processes->info[other].machine == processes->info[rank].machine)
                core_set_add(&all, &processes->info[other].core_set);
        const int bound = core_set_count(&all), quota = processes->info[rank].quota;
        processes->info[rank].cores = quota == 0 || bound < quota ? bound : quota;
    }
}

static enum ps_status start(struct processes *processes, struct ps_error *error) {
    int host_leader = 0;
    bool same_network = true;
    const struct process_info own = this_machine();
    if (processes->class)
        TRY(processes->class->start(number_of_network(own.machine), &processes->rank, &processes->count, &host_leader,
                                    &same_network, error));
    TRY(memory_new(&processes->info, processes->count, "processes", error));
    processes->info[processes->rank] = own;
    processes->info[processes->rank].host_leader = host_leader;
    if (processes->count == 1) return PS_OK;
    TRY(control_open(processes->class, processes->rank, processes->count, same_network, processes->info, &processes->control,
                     error));
    if (processes->rank > 0) log_forward(control_log, processes->control);
    TRY(spread(processes, processes->info, (size_t)processes->count * sizeof *processes->info, error));
    count_cores(processes);
    return PS_OK;
}

static void release(struct processes *processes) {
    if (processes->control && processes->rank > 0) log_forward(NULL, NULL);
    control_close(processes->control);
    free(processes->info);
}

/* Waits until all processes have reached the end of the run: none may leave before. */
static enum ps_status end_together(struct processes *processes, struct ps_error *error) {
    struct frame *frame;
    if (processes->rank > 0) TRY(control_send(processes->control, 0, FRAME_DONE, NULL, 0, error));
    for (int rank = processes->rank > 0 ? 0 : 1; rank < (processes->rank > 0 ? 1 : processes->count); rank++) {
        TRY(control_wait(processes->control, rank, FRAME_DONE, &frame, error));
        free(frame);
    }
    control_expect_end(processes->control);
    for (int rank = 1; processes->rank == 0 && rank < processes->count; rank++)
        TRY(control_send(processes->control, rank, FRAME_DONE, NULL, 0, error));
    return PS_OK;
}

static enum ps_status leave(struct processes *processes, enum ps_status status, struct ps_error *error) {
    struct ps_error failure = {0};
    const bool explained = status == PS_WORKER_LOST; /* the caller's message may contain more than is known here */
    if (processes->control) {
        if (status == PS_OK)
            status = end_together(processes, &failure);
        else
            control_fail(processes->control, status, error);
        struct process_loss loss;
        bool lost = explained && control_lost(processes->control, &loss);
        enum ps_status shared = control_check(processes->control, &failure);
        if (shared != PS_OK) status = shared;
        if (status != PS_OK && error && failure.status != PS_OK && !lost) *error = failure;
        if (status != PS_OK && error && !processes_is_reporter(processes)) error->message[0] = error->hint[0] = '\0';
    }
    if (processes->class && status == PS_OK) {
        launch_tell(LAUNCH_LEAVING);
        processes->class->end();
        launch_tell(LAUNCH_LEFT);
    }
    if (processes->class && status != PS_OK) processes->class->abort_run(status);
    release(processes);
    return status;
}

enum ps_status processes_leave(struct processes *processes, enum ps_status status, struct ps_error *error) {
    if (!processes) return status;
    status = leave(processes, status, error);
    free(processes);
    return status;
}

enum ps_status processes_join(const struct processes_class *class, struct processes **out, struct ps_error *error) {
    struct processes made = {.class = class, .count = 1};
    if (class) launch_tell(LAUNCH_MEETING);
    enum ps_status status = start(&made, error);
    if (class) launch_tell(LAUNCH_MET);
    /* Not before they have met: who fails alone can tell nobody. */
    if (status == PS_OK) status = memory_new(out, 1, "processes", error);
    if (status == PS_OK) {
        **out = made;
        return PS_OK;
    }
    if (made.control) return leave(&made, status, error);
    if (class) class->abort_run(status);
    release(&made);
    return status;
}

/* ----------------------------------------------------------------- failures */

enum ps_status processes_check(const struct processes *processes, struct ps_error *error) {
    if (!processes->control) return PS_OK;
    TRY(control_check(processes->control, error));
    const char *failure = processes->class->failure();
    return failure ? error_set(error, PS_FAILED, "%s on rank %d: %s", processes->class->name, processes->rank, failure) : PS_OK;
}

void processes_lose(struct processes *processes, const struct process_loss *loss) {
    if (processes->control) control_lose(processes->control, loss);
}

bool processes_lost(const struct processes *processes, struct process_loss *loss) {
    return processes->control && control_lost(processes->control, loss);
}

void processes_drain(const struct processes *processes, double seconds) {
    struct process_loss loss;
    if (processes_lost(processes, &loss)) control_drain(processes->control, loss.rank, seconds);
}

bool processes_is_reporter(const struct processes *processes) {
    struct process_loss loss;
    bool no_leader = processes_lost(processes, &loss) && loss.rank == 0 && loss.kind != LOSS_STALLED;
    return processes->rank == (no_leader ? 1 : 0);
}

/* ---------------------------------------------------- collective operations */

/* Makes a frame its data, in the same memory: there may be none for a copy. */
static void unpack(struct frame *frame, void **data, size_t *size) {
    *size = frame->size;
    *data = memmove(frame, frame->data, *size);
    ((char *)*data)[*size] = '\0'; /* so that text is terminated */
}

/* In frames of a piece each; the first that is shorter, or empty, is the last. */
enum { PIECE = 1 << 24 };

static enum ps_status send_pieces(struct processes *processes, int rank, enum frame_kind kind, const void *data, size_t size,
                                  struct ps_error *error) {
    for (; size >= PIECE; size -= PIECE, data = (const char *)data + PIECE)
        TRY(control_send(processes->control, rank, kind, data, PIECE, error));
    return control_send(processes->control, rank, kind, data, size, error);
}

/* Puts a frame's data behind what is there, and a '\0' behind both; frees the frame. */
static enum ps_status append(struct frame *frame, void **data, size_t *size, struct ps_error *error) {
    const size_t wanted = *size + frame->size;
    char *longer = realloc(*data, wanted + 1);
    if (longer) {
        memcpy(longer + *size, frame->data, frame->size);
        longer[wanted] = '\0';
        *data = longer;
        *size = wanted;
    }
    free(frame);
    return longer ? PS_OK : error_memory(error, "data of another rank", wanted);
}

static enum ps_status receive_pieces(struct processes *processes, int rank, enum frame_kind kind, void **data, size_t *size,
                                     struct ps_error *error) {
    struct frame *frame;
    TRY(control_wait(processes->control, rank, kind, &frame, error));
    bool more = frame->size == PIECE;
    unpack(frame, data, size);
    enum ps_status status = PS_OK;
    while (more && (status = control_wait(processes->control, rank, kind, &frame, error)) == PS_OK) {
        more = frame->size == PIECE;
        if ((status = append(frame, data, size, error)) != PS_OK) break;
    }
    if (status != PS_OK) free(*data);
    return status;
}

enum ps_status processes_broadcast(struct processes *processes, void **data, size_t *size, struct ps_error *error) {
    for (int rank = 1; processes->rank == 0 && rank < processes->count; rank++)
        TRY(send_pieces(processes, rank, FRAME_BROADCAST, *data, *size, error));
    return processes->rank == 0 ? PS_OK : receive_pieces(processes, 0, FRAME_BROADCAST, data, size, error);
}

enum ps_status processes_gather(struct processes *processes, const void *mine, size_t size, void *all, struct ps_error *error) {
    if (processes->rank > 0) return control_send(processes->control, 0, FRAME_GATHER, mine, size, error);
    memcpy(all, mine, size);
    for (int rank = 1; rank < processes->count; rank++) {
        struct frame *frame;
        TRY(control_wait(processes->control, rank, FRAME_GATHER, &frame, error));
        bool fits = frame->size == size;
        if (fits) memcpy((char *)all + (size_t)rank * size, frame->data, size);
        free(frame);
        if (!fits) return error_set(error, PS_FAILED, "internal error: rank %d sent another number of bytes", rank);
    }
    return PS_OK;
}

enum ps_status processes_all_gather(struct processes *processes, const void *mine, size_t size, void *all,
                                    struct ps_error *error) {
    TRY(processes_gather(processes, mine, size, all, error));
    return spread(processes, all, (size_t)processes->count * size, error);
}

int processes_on_host(const struct processes *processes, int rank) {
    int count = 0;
    for (int r = 0; r < processes->count; r++) count += processes->info[r].machine == processes->info[rank].machine;
    return count;
}

int processes_first_on_host(const struct processes *processes, int rank) {
    int first = 0;
    while (processes->info[first].machine != processes->info[rank].machine) first++;
    return first;
}

bool processes_share_memory(const struct processes *processes, int rank, int other) {
    const struct process_info *one = &processes->info[rank], *two = &processes->info[other];
    return one->host_leader == two->host_leader && one->machine == two->machine;
}

bool processes_has_shared_peers(const struct processes *processes, int rank) {
    for (int other = 0; other < processes->count; other++)
        if (other != rank && processes_share_memory(processes, rank, other)) return true;
    return false;
}

enum ps_status processes_send_to_rank_0(struct processes *processes, int rank, void **data, size_t *size,
                                        struct ps_error *error) {
    if (processes->rank > 0) return send_pieces(processes, 0, FRAME_HANDED_IN, *data, *size, error);
    return receive_pieces(processes, rank, FRAME_HANDED_IN, data, size, error);
}

enum ps_status processes_report(struct processes *processes, const void *data, size_t size, struct ps_error *error) {
    return control_send(processes->control, 0, FRAME_TOLD, data, size, error);
}

bool processes_next_report(struct processes *processes, int32_t segment, int *rank, void **data, size_t *size) {
    struct frame *frame = processes->control ? control_take_told(processes->control, segment) : NULL;
    if (!frame) return false;
    *rank = frame->rank;
    unpack(frame, data, size);
    return true;
}

void processes_set_state(struct processes *processes, const struct process_state *state) {
    if (processes->control) control_set_state(processes->control, state);
}

struct process_state processes_state_of(const struct processes *processes, int rank) {
    return processes->control ? control_state_of(processes->control, rank) : (struct process_state){0};
}

static enum ps_status move_piece(struct processes *processes, int peer, int tag, bool outgoing, void *piece, size_t size,
                                 struct ps_error *error) {
    const struct processes_class *class = processes->class;
    struct message *message;
    enum ps_status status = PS_OK;
    double sleep_s = 5e-6;
    TRY(class->message_create(size, &message, error));
    class->message_start(message, peer, tag, outgoing, piece, size);
    while (!class->message_done(message) && (status = processes_check(processes, error)) == PS_OK) {
        clock_sleep(sleep_s);
        if (sleep_s < 5e-5) sleep_s *= 1.5;
    }
    class->message_destroy(message);
    return status;
}

enum ps_status processes_move(struct processes *processes, int peer, int tag, bool outgoing, void *block, size_t size,
                              struct ps_error *error) {
    for (size_t at = 0; at < size; at += MOVED_AT_ONCE) {
        size_t piece = size - at < MOVED_AT_ONCE ? size - at : MOVED_AT_ONCE;
        TRY(move_piece(processes, peer, tag, outgoing, (char *)block + at, piece, error));
    }
    return PS_OK;
}
