/*
 * Transports: how boundary blocks get from worker to worker.
 *
 * Each pair of instances of neighbouring stages (program/routes.h) has two channels: activations forwards, gradients backwards;
 * the two instances of a split stage have others. Both ends post blocks to their channel: the sender a full one, the receiver
 * an empty one; the n-th of one end meets the n-th of the other (the verifier has proved that both programs name micro-batches
 * in the same order). When both have come, the contents change hands.
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

struct transport_options {
    const struct ps_programs *programs; /* one of the run's: what instances there are; borrowed for the call */
    const struct stage_slots *slots;    /* per instance, the most that any program of the run uses; borrowed for the call */
    /* Where workers are processes: those of the run, and what blocks take, per stage of those that run here; NULL: all are
     * here. */
    struct processes *processes;
    const struct stage_sizes *sizes;
    struct device
        *device; /* of this process's worker, where workers are processes; NULL: its blocks lie in the host's memory */
    /* The blocks of this process that travel, in memory that other processes of the host can open; NULL: in its own. Borrowed
     * as long as the transport lives. */
    const struct shared_block *shared;
    bool shared_backed; /* every page of it is there */
    /* Whose links are emulated, and then `sizes` is needed; NULL: transfers take what they take. */
    const struct ps_cluster *emulated;
    /* As it is, where somebody has described it: over a shared link blocks go one after the other. NULL: nobody
     * has. */
    const struct ps_cluster *cluster;
};

/* What one instance brings to a sum over the replicas of its stage and, where the first and the last stage share a parameter,
 * over both. */
struct transport_share {
    struct device *device; /* that has the blocks; NULL: the host's memory */
    struct moment when;    /* its work on them is done */
    float *gradients;
    size_t gradient_count; /* floats; 0 where nothing is computed */
    bool empty;            /* it has no gradients of this update: its block only takes the sum */
    float scale;           /* the sum is multiplied by it; the same for all */
    float *statistics;     /* running statistics: each replica gets their mean */
    size_t statistics_count;
    double takes_s; /* so long the sum takes of workers whose devices only wait */
    float *tied;    /* the gradient of what the two stages share, in `gradients`; NULL: they share nothing */
    size_t tied_count;
};

struct transport_class {
    const char *name, *summary;
    /* true: every worker runs on a thread of its own and may block in `wait`. false: one thread steps all workers in turn. */
    bool own_threads;
    /* Every worker is a process, which these start; NULL: all are threads of this one. */
    const struct processes_class *processes;
    /* Processes of one host are to have their blocks that travel in memory that they share. */
    bool shares_memory;

    /* No block is known to the new transport. PS_FAILED when memory runs out. */
    enum ps_status (*create)(const struct transport_options *options, struct transport **transport, struct ps_error *error);
    /* Only when no worker uses it any more; blocks still posted go back to who posted them, as they are. */
    void (*destroy)(struct transport *transport);

    /* Posts a block to the channel with instance `other`: full where `kind` goes there, empty where it comes from there
     * (program/routes.h). BLOCK_WEIGHTS: a weight slot. Never blocks; takes the channel's lock. From here until `settled` the
     * entry *block and the block itself belong to the transport; then both are the poster's again: a receiver's entry names a
     * full block, a sender's one whose contents do not matter. A slot is posted again only when it is settled. `when` is the
     * moment when the poster's device will have done all that it was asked for: a receiver's work on the block must come after
     * the sender's moment, and what the sender does with the block that it got after the receiver's (`settled_at`). Where both
     * devices have a memory of their own together, blocks change hands before that. */
    void (*post)(struct transport *transport, int instance, enum block_kind kind, int slot, int other, float **block,
                 const struct moment *when);
    /* Offers an instance's weight gradients to be added up over the replicas of its stage: when all of them have come, each
     * one's block holds the sum, in the order of the replicas; and then, over both its stages, of the gradient of what they
     * share, the first stage's plus the last's. Called in the same order by all of them, and again only when the sum before is
     * settled (BLOCK_WEIGHT_GRADIENTS, slot 0). `share` is copied; what it points to belongs to the transport until then. Never
     * blocks for others. NULL: the transport cannot, and plans with replicas are refused. */
    void (*reduce)(struct transport *transport, int instance, const struct transport_share *share);
    /* Is the block's last post over (or was there none)? Asked by the worker that posts it. Never blocks; takes the channel's
     * lock, so that what the other end wrote before its post may be read after the answer "yes". */
    bool (*settled)(struct transport *transport, int instance, enum block_kind kind, int slot);
    /* The later of the two posts' times, and the place in the queue of the other end's device behind which the block is free to
     * be used; of a sum, of the device that made it. Of a settled block that was posted. Never blocks. */
    struct moment (*settled_at)(struct transport *transport, int instance, enum block_kind kind, int slot);
    /* Blocks, asleep, until the block is settled; false: the transport was stopped. NULL where own_threads is false. */
    bool (*wait)(struct transport *transport, int instance, enum block_kind kind, int slot);
    /* After a failure: wakes all who wait, now and later. From any thread; posts still match afterwards. */
    void (*stop)(struct transport *transport);
    /* Moves transfers along; called by the worker now and then while it computes. NULL: they move by themselves. */
    void (*progress)(struct transport *transport);
    /* Blocks, asleep, until all that the worker has posted is over; called when it has come to its program's end. False: the
     * transport was stopped. NULL where progress is. */
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
