/*
 * The processes of a run. There is one if it was started alone; under mpirun there are several, and process p ("rank" p) runs
 * worker p. Rank 0 coordinates: it reads the command's files, plans, distributes and gathers, and it alone writes files.
 *
 * Processes communicate in two ways. Blocks of training go by messages of the launcher's system (MPI), fast and between any two
 * ranks. Everything else goes by a TCP connection between rank 0 and each other process (processes/control.c): plans, losses,
 * log lines, failures. These connections also detect at once that a process has ended, which MPI does not, and carry a
 * heartbeat, by which a stopped process is detected.
 *
 * A failure of any process ends the run for all: functions that wait return its status, and so does processes_check.
 */
#ifndef PENSTOCK_COMM_PROCESSES_H
#define PENSTOCK_COMM_PROCESSES_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/processor.h"

/* A message between two ranks: created once, started repeatedly. */
struct message;

/* A system that starts processes and transfers blocks between them. Its functions may be called from any thread. */
struct processes_class {
    const char *name;
    /* *host_leader: the lowest rank that shares memory with this one, as the class reports it. *same_network: all ranks gave
     * the same `network`. PS_USAGE if the launcher does not belong to this class. */
    enum ps_status (*start)(uint64_t network, int *rank, int *count, int *host_leader, bool *same_network,
                            struct ps_error *error);
    /* Broadcasts from rank 0 to all; blocks. Only before anything else. */
    void (*bootstrap)(void *data, size_t size);
    /* Ends a successful run; all ranks call it. Blocks. */
    void (*end)(void);
    /* Ends a failed run. The launcher ends all other processes when this one exits or calls launch_abort (comm/launch.h). */
    void (*abort_run)(enum ps_status status);
    /* `size`: the most bytes that it can have. */
    enum ps_status (*message_create)(size_t size, struct message **message, struct ps_error *error);
    /* A message in flight is abandoned; only after a failure. */
    void (*message_destroy)(struct message *message);
    /* Never blocks. `block` belongs to the message until it is done. Messages with the same peer, tag and direction match in
     * the order in which they are started; both ends give the same size. */
    void (*message_start)(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size);
    /* Never blocks; lets all messages progress. */
    bool (*message_done)(struct message *message);
    /* The message of an error in the system below; NULL: none. */
    const char *(*failure)(void);
};

/* What a message is for; messages between the same ranks that must not be confused have different tags. */
enum tag_kind { TAG_BLOCK, TAG_READY, TAG_SUM, TAG_TIED_IN, TAG_TIED_OUT, TAG_STAGE, TAG_SURVEY, TAG_KINDS };

/* The tag of a message: different for each kind and number (of a route, a stage or an instance). */
static inline int message_tag(enum tag_kind kind, int number) { return number * TAG_KINDS + (int)kind; }

/* What a process reports about itself when it joins. */
struct process_info {
    char host[64], cpu[64];
    int32_t process;          /* its process number (PID) on its host */
    struct core_set core_set; /* cores that it may use */
    int32_t quota;            /* cores_quota */
    int32_t cores;            /* cores that the processes of its host may use */
    struct host_memory memory;
    uint64_t machine;    /* processes with the same number share a host */
    int32_t host_leader; /* the lowest rank that shares memory with it */
};

/* The position of a worker in its program, for messages about lost workers. */
struct process_state {
    int32_t segment, next; /* number of the segment; index of the next instruction */
    int32_t waiting;       /* waits for a block */
    int32_t evaluating;
};

/* The process has ended; it sends no heartbeat, but its connection is open; it sends heartbeats, but its worker makes no
 * progress. */
enum loss_kind { LOSS_ENDED, LOSS_SILENT, LOSS_STALLED };

struct process_loss {
    int rank;
    enum loss_kind kind;
    double seconds; /* from its last heartbeat, or its worker's last progress, to the detection */
};

struct processes {
    const struct processes_class *class; /* NULL: this process alone */
    int rank, count;
    struct process_info *info; /* by rank */
    struct control *control;
};

/* `class` NULL: this process alone. Every process of a launcher calls it once. */
enum ps_status processes_join(const struct processes_class *class, struct processes **processes, struct ps_error *error);
/* Ends the run for all. With `status` PS_OK it waits until all others call it with PS_OK, too; else it sends `error` to the
 * others. Returns the status of the run as a whole, sets `error` to the reason of a failure, without a message unless this
 * process is the reporter, and frees `processes` (NULL is fine). */
enum ps_status processes_leave(struct processes *processes, enum ps_status status, struct ps_error *error);

/* The failure that ended the run, in any process; PS_OK: the run continues. PS_WORKER_LOST: see processes_lost. */
enum ps_status processes_check(const struct processes *processes, struct ps_error *error);
/* Ends the run because a worker was lost. */
void processes_lose(struct processes *processes, const struct process_loss *loss);
/* Whether a process was lost, and which. */
bool processes_lost(const struct processes *processes, struct process_loss *loss);
/* After a loss: waits until the other processes have sent their last positions and left. */
void processes_drain(const struct processes *processes, double seconds);
/* Whether this process reports the failure to the user: rank 0, or rank 1 if rank 0 was lost. */
bool processes_is_reporter(const struct processes *processes);

/* Whether two ranks share memory, so that one can open the other's blocks; whether any other rank shares memory with `rank`. */
bool processes_share_memory(const struct processes *processes, int rank, int other);
bool processes_has_shared_peers(const struct processes *processes, int rank);
/* The number of ranks on the host of `rank`, itself included. */
int processes_on_host(const struct processes *processes, int rank);
/* The lowest rank on the host of `rank`. */
int processes_first_on_host(const struct processes *processes, int rank);

/* Broadcast: *data of rank 0 (borrowed) becomes a copy (free()) at all others. All call it. */
enum ps_status processes_broadcast(struct processes *processes, void **data, size_t *size, struct ps_error *error);
/* Gather: each rank gives `size` bytes; at rank 0 `all` (count x size) has those of all ranks, in order. All call it; only rank
 * 0 waits. */
enum ps_status processes_gather(struct processes *processes, const void *mine, size_t size, void *all, struct ps_error *error);
/* All-gather: the same, and `all` is set at every rank. All call it and wait. */
enum ps_status processes_all_gather(struct processes *processes, const void *mine, size_t size, void *all,
                                    struct ps_error *error);
/* Sends data of any size from `rank` to rank 0, where *data becomes a copy (free()). These two ranks call it. */
enum ps_status processes_send_to_rank_0(struct processes *processes, int rank, void **data, size_t *size,
                                        struct ps_error *error);

/* Sends data to rank 0 during the run; rank 0 does not wait for it. They begin with an int32_t: the number of the segment that
 * they are about. */
enum ps_status processes_report(struct processes *processes, const void *data, size_t size, struct ps_error *error);
/* At rank 0: the next data about that segment sent by processes_report (free()); false: none has arrived. What is
 * about another segment stays: the senders may be ahead. */
bool processes_next_report(struct processes *processes, int32_t segment, int *rank, void **data, size_t *size);

/* Sets the position of this process's worker; cheap. Heartbeats carry it. */
void processes_set_state(struct processes *processes, const struct process_state *state);
/* The last known position of a rank: at rank 0 of any rank, elsewhere of rank 0 and this one. */
struct process_state processes_state_of(const struct processes *processes, int rank);

/* Transfers a block by messages and waits for it. Two ranks call it, each with the other as `peer`. */
enum ps_status processes_move(struct processes *processes, int peer, int tag, bool outgoing, void *block, size_t size,
                              struct ps_error *error);

#endif
