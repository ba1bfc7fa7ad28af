/*
 * The processes of a run. Started alone there is one; under mpirun there are several, each of which runs one worker: process p
 * ("rank" p) worker p. Rank 0 coordinates: it reads the command, plans, hands out, gathers, and alone writes.
 *
 * Two roads lead from process to process. Blocks of training go by messages of whatever the launcher belongs to (MPI), fast and
 * from any rank to any. Everything else goes by a TCP connection between rank 0 and each of the others (processes/links.c):
 * plans, figures, log lines, failures. Those connections also tell at once when a process is gone, which MPI does not, and
 * carry a beat by which one that is stopped is noticed.
 *
 * What ended the run anywhere ends it everywhere: functions that wait return that status, and processes_check tells it.
 */
#ifndef PENSTOCK_COMM_PROCESSES_H
#define PENSTOCK_COMM_PROCESSES_H

#include <stdatomic.h>

#include "base/error.h"

/* A message between two ranks: made once, started again and again. */
struct message;

/* What starts processes and carries blocks between them. All may be called from any thread. */
struct processes_class {
    const char *name;
    /* *beside: the lowest rank of those that share memory with this one, as the class sees it. PS_USAGE where the launcher and
     * this class do not belong together. */
    enum ps_status (*start)(int *rank, int *count, int *beside, struct ps_error *error);
    /* From rank 0 to all; blocks. Only before anything else. */
    void (*introduce)(void *data, size_t size);
    /* Of a run that went well; all call it. Blocks. */
    void (*end)(void);
    /* Of one that did not: when this process exits, the launcher ends all others, too, and has `status` for its own. */
    void (*give_up)(enum ps_status status);
    enum ps_status (*message_create)(size_t size, struct message **message, struct ps_error *error);
    /* A message that is under way is left to itself: only after a failure. */
    void (*message_destroy)(struct message *message);
    /* Never blocks. `block` belongs to the message until it is done. Messages of one road (peer, tag and direction) meet in the
     * order in which they are started; both ends give the same size. */
    void (*message_start)(struct message *message, int peer, int tag, bool outgoing, void *block);
    /* Never blocks, and moves all messages along. */
    bool (*message_done)(struct message *message);
    /* What went wrong below, in words; NULL: nothing. */
    const char *(*trouble)(void);
};

/* What a process tells of itself when it joins. */
struct process_info {
    char host[64], cpu[64];
    int32_t process;      /* its number there */
    int cores;            /* usable by it */
    int64_t memory_bytes; /* of its host */
    uint64_t machine;     /* processes with the same number share a host */
    int32_t beside;       /* the lowest rank that shares memory with it */
};

/* Where a worker is in its program: for messages about those that are lost. */
struct process_state {
    int32_t segment, next; /* number of the segment; next instruction */
    int32_t waiting;       /* for a block */
    int32_t evaluating;
};

/* It has ended; it does not answer, while its connection is open; it answers, but its worker gets nowhere. */
enum loss_kind { LOSS_ENDED, LOSS_SILENT, LOSS_STALLED };

struct process_loss {
    int rank;
    enum loss_kind kind;
    double seconds; /* since it was heard of, or its worker moved, when that was noticed */
};

struct processes {
    const struct processes_class *class; /* NULL: this process alone */
    int rank, count;
    struct process_info *info; /* by rank */
    struct links *links;
};

/* `class` NULL: this process alone. All of a launcher's processes call it once. */
enum ps_status processes_join(const struct processes_class *class, struct processes **processes, struct ps_error *error);
/* Ends the run for all. With `status` PS_OK it returns PS_OK when all have come here so; else the others are told of `error`.
 * Returns the status of the run as a whole and sets `error` to what ended it. Then frees `processes` (NULL is fine). */
enum ps_status processes_leave(struct processes *processes, enum ps_status status, struct ps_error *error);

/* What ended the run, here or elsewhere; PS_OK: it goes on. PS_WORKER_LOST: see processes_lost. */
enum ps_status processes_check(const struct processes *processes, struct ps_error *error);
/* Ends the run since a worker got nowhere. */
void processes_lose(struct processes *processes, const struct process_loss *loss);
/* Which process was lost, where one was. */
bool processes_lost(const struct processes *processes, struct process_loss *loss);
/* Then: waits until the others have told where they stand at last, and left; not for the one that was lost. */
void processes_drain(const struct processes *processes, double seconds);
/* Is it for this process to say what ended the run? Rank 0's, or rank 1's where rank 0 is gone. */
bool processes_is_reporter(const struct processes *processes);

/* Do two ranks share a host's memory, so that one could open what the other has there? Does any rank share that of `rank`? */
bool processes_share_memory(const struct processes *processes, int rank, int other);
bool processes_has_shared_peers(const struct processes *processes, int rank);
/* Ranks on the host of `rank`, itself included. */
int processes_on_host(const struct processes *processes, int rank);

/* *data of rank 0 (borrowed) becomes a copy (free()) at all others. All call it. */
enum ps_status processes_broadcast(struct processes *processes, void **data, size_t *size, struct ps_error *error);
/* Each gives `size` bytes; at rank 0 `all` (count x size) has them by rank, its own among them. All call it; only rank 0
 * waits. */
enum ps_status processes_gather(struct processes *processes, const void *mine, size_t size, void *all, struct ps_error *error);
/* The same, and `all` is filled in at every rank. All call it, and wait. */
enum ps_status processes_share(struct processes *processes, const void *mine, size_t size, void *all, struct ps_error *error);
/* A piece of data of any size from `rank` to rank 0, where *data is a copy (free()). Those two call it. */
enum ps_status processes_hand_in(struct processes *processes, int rank, void **data, size_t *size, struct ps_error *error);

/* What other ranks tell rank 0 while the run goes on, without anybody waiting. */
enum ps_status processes_tell(struct processes *processes, const void *data, size_t size, struct ps_error *error);
/* At rank 0: the next of what was told, its data a copy (free()); false: nothing new. */
bool processes_hear(struct processes *processes, int *rank, void **data, size_t *size);

/* Where this process's worker is; cheap, kept for those who ask. */
void processes_set_state(struct processes *processes, const struct process_state *state);
/* What is known of a rank: at rank 0 of all, elsewhere of rank 0 and of oneself. */
struct process_state processes_state_of(const struct processes *processes, int rank);

/* A block by message, waiting for it: at most `size` bytes a piece. Those two call it, `peer` being the other. */
enum ps_status processes_move(struct processes *processes, int peer, int tag, bool outgoing, void *block, size_t size,
                              struct ps_error *error);

#endif
