/*
 * Transports: how blocks move from worker to worker.
 *
 * Each pair of instances of neighbouring stages (program/routes.h) has two channels: activations forwards, gradients backwards;
 * the two instances of a split stage have others. Both ends post blocks to their channel: the sender a full one, the receiver
 * an empty one; the n-th of one end is paired with the n-th of the other (the verifier has proved that both programs name
 * micro-batches in the same order). When both have been posted, the block moves to the receiver.
 *
 * A block is named by its place in the slot table of its instance: (instance, kind, slot). A post gives the address of that
 * table entry, so that a transport may put another block there.
 */
#ifndef PENSTOCK_COMM_TRANSPORT_H
#define PENSTOCK_COMM_TRANSPORT_H

#include "base/shared_block.h"
#include "comm/processes.h"
#include "compute/device.h"
#include "program/program.h"

struct transport;

/* A parameter that several stages share. */
struct tied_parameter {
    size_t count;      /* elements; 0 where nothing is computed */
    const int *stages; /* of its uses, ascending; a stage may have several */
    int uses;
};

struct transport_options {
    const struct ps_programs *programs; /* one of the run's: what instances there are; borrowed for the call */
    /* The parameters that several stages share; borrowed as long as the transport lives. */
    const struct tied_parameter *tied;
    int tied_count;
    const struct stage_slots *slots; /* per instance, the most that any program of the run uses; borrowed for the call */
    /* Where workers are processes: those of the run, and the sizes of blocks, per stage of those that run here; NULL: all
     * workers are in this process. */
    struct processes *processes;
    const struct stage_sizes *sizes;
    struct device
        *device; /* of this process's worker, where workers are processes; NULL: its blocks lie in the host's memory */
    /* The blocks of this process that travel, in memory that other processes of the host can open; NULL: in private memory.
     * Borrowed as long as the transport lives. */
    const struct shared_block *shared;
    bool shared_backed; /* all its pages are backed */
    /* The cluster whose links are emulated, which needs `sizes`; NULL: none. */
    const struct ps_cluster *emulated;
    /* The real cluster, if described: over a shared link blocks are sent one at a time. NULL: not described. */
    const struct ps_cluster *cluster;
};

/* The share of one instance in a sum over the replicas of its stage and, where stages share parameters, over these stages. */
struct transport_share {
    struct device *device; /* that has the blocks; NULL: they lie in the host's memory */
    struct moment when;    /* when its work on the blocks is done */
    float *gradients;
    size_t gradient_count; /* floats; 0 where nothing is computed */
    bool empty;            /* it has no gradients of this update: its block only receives the sum */
    float scale;           /* the sum is multiplied by it; the same for all */
    float *statistics;     /* running statistics: each replica gets their mean */
    size_t statistics_count;
    /* The codecs of the sum: `gradients` are rounded to that of a share. NULL, or codec WIRE_NONE: none. */
    const struct sum_wire *wire;
    const struct wire_run *run; /* all of `gradients`, for a device with memory of its own */
    double takes_s;             /* duration of the sum for devices that only wait */
    /* In `gradients`: those of the stage's uses of transport_options.tied, by parameter, and then in their order. */
    float *const *tied;
};

struct transport_class {
    const char *name, *summary;
    /* true: every worker runs on a thread of its own and may block in `wait`. false: one thread steps all workers in turn. */
    bool own_threads;
    /* Every worker is a process, started by these; NULL: all are in this process. */
    const struct processes_class *processes;
    /* Processes of one host shall have their blocks that travel in shared memory. */
    bool shares_memory;

    /* `class` is this entry. No block is known to the new transport. PS_OUT_OF_MEMORY when memory runs out. */
    enum ps_status (*create)(const struct transport_class *class, const struct transport_options *options,
                             struct transport **transport, struct ps_error *error);
    /* Only when no worker uses it any more; blocks still posted return to their posters unchanged. */
    void (*destroy)(struct transport *transport);

    /* Posts a block to the channel with instance `other`: full where `kind` goes there, empty where it comes from there
     * (program/routes.h). BLOCK_WEIGHTS: a weight slot. Never blocks; takes the channel's lock. Until `settled` returns true,
     * the entry *block and the block itself belong to the transport; then both are the poster's again: a receiver's entry names
     * a full block, a sender's one with undefined contents. A slot is posted again only when it is settled. `when` is the
     * moment at which all enqueued work of the poster's device is done: a receiver's work on the block must wait for the
     * sender's moment, and the sender's work on the block that it got must wait for the receiver's (`settled_at`). Where both
     * devices share a memory of their own, blocks are exchanged before these moments are reached. */
    void (*post)(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                 const struct moment *when);
    /* Offers an instance's weight gradients for the sum over the replicas of its stage. When all replicas have offered theirs,
     * each block holds the sum, added in the order of the replicas. The gradients of the uses of a parameter that several
     * stages share are then added in their order, and the first use of every instance gets the sum. All call it in the same
     * order, and again only when the previous sum is settled (BLOCK_WEIGHT_GRADIENTS, slot 0). `share` is copied; what it
     * points to belongs to the transport until then. Never blocks for others. */
    void (*reduce)(struct transport *transport, int instance, const struct transport_share *share);
    /* Is the block's last post complete (or was there none)? Called by the worker that posts it. Never blocks; takes the
     * channel's lock, so that after the result true, all that the other end wrote before its post can be read. */
    bool (*settled)(struct transport *transport, int instance, enum block_kind kind, int slot);
    /* For a settled block that was posted: the later of the two posts' times, and the position in the queue of the other end's
     * device for which work on the block must wait; for a sum, in the queue of the device that computed it. Never blocks. */
    struct moment (*settled_at)(struct transport *transport, int instance, enum block_kind kind, int slot);
    /* Blocks, asleep, until the block is settled; false: the transport was stopped. NULL where own_threads is false. */
    bool (*wait)(struct transport *transport, int instance, enum block_kind kind, int slot);
    /* After a failure: ends all waits, now and later. From any thread; posts still match afterwards. */
    void (*stop)(struct transport *transport);
    /* Lets transfers progress; called repeatedly by the worker while it computes. NULL: not needed. */
    void (*progress)(struct transport *transport);
    /* Blocks, asleep, until all posts of the worker are complete; called at its program's end. False: the transport was
     * stopped. NULL where progress is. */
    bool (*drain)(struct transport *transport);
};

/* Transports extend this as their first member. */
struct transport {
    const struct transport_class *class;
};

extern const struct transport_class *const transport_table[]; /* NULL-terminated */
/* PS_USAGE and the nearest name where there is none. NULL: the one that fits how this process was started. */
enum ps_status transport_find(const char *name, const struct transport_class **transport, struct ps_error *error);

#endif
