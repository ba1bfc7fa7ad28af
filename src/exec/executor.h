/*
 * The executor: all workers of a run, and how they execute a segment together, each on its own thread or all in the caller's,
 * as the transport says. executor_run returns when every worker has finished the segment, or one has failed: the transport then
 * stops the others, and the first error is reported.
 *
 * Where workers are processes, only one of them is in this process: the others have only a number, no stages and no memory.
 */
#ifndef PENSTOCK_EXEC_EXECUTOR_H
#define PENSTOCK_EXEC_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/transport.h"
#include "data/order.h"
#include "exec/decoding.h"
#include "exec/run_queue.h"
#include "exec/watchdog.h"
#include "exec/worker.h"
#include "program/interpreter.h"

/* What all workers execute next. */
struct segment {
    const struct ps_programs *programs;
    bool training;                   /* false: evaluation */
    int64_t first_step;              /* mini-batches trained before; of an evaluation: its first batch, 0 */
    const struct decoding *decoding; /* of an evaluation: the translations to decode; NULL: none */
    /* Of an evaluation: gets what the last stage's loss is computed of, of whole micro-batches in their order, as far as they
     * run in this process; NULL: nobody wants it. */
    float *outputs;
};

/* The last stage's record of one mini-batch. */
struct step_record {
    struct stage_result sum;
    double done_at; /* when its update was done, as clock_now counts */
};

/* The record of a segment of one replica of the last stage. Mini-batches before both counts may be read while it runs. Where
 * the stage is split two workers write it: one the sums and their count, the other the times of updates and theirs. */
struct replica_record {
    struct step_record *steps;
    int forwards;                         /* of a split stage, recorded */
    atomic_int losses_done, updates_done; /* mini-batches whose sum is complete, and whose update is done */
    struct stage_result evaluation;
};
static inline int replica_record_done(const struct replica_record *record) {
    int losses = atomic_load_explicit(&record->losses_done, memory_order_acquire);
    int updates = atomic_load_explicit(&record->updates_done, memory_order_acquire);
    return losses < updates ? losses : updates;
}

struct executor {
    struct arena arena; /* of its tables */
    /* The same throughout; borrowed. */
    const struct update_rule *rule;
    const struct transport_class *transport_class;
    uint64_t seed;
    bool real;                     /* the device computes values */
    bool spins;                    /* one core per worker: waiting threads spin before they sleep */
    int samples;                   /* of a micro-batch, as the graph counts them */
    size_t target_bytes;           /* of a sample */
    const struct lengths *lengths; /* NULL: all micro-batches have the same */
    struct sample_order order;     /* with lengths: of the segment's epoch */

    struct worker *workers;
    int worker_count;
    int first_here, end_here; /* the workers of this process */
    struct processes *processes;
    struct memory_block travelling; /* in which the stages of this process are sent to rank 0 (store/stage_proxies.h) */
    int64_t proxy_bytes;            /* bytes of the other processes' stages that were held here when the run was resumed */
    int segment_number;             /* of the one that runs, counted over training and evaluation */
    struct stage_sizes *sizes;      /* by stage, of those that run here */
    struct tied_parameter *tied;    /* the parameters that several stages share */
    int tied_count;
    struct transport *transport;
    struct environment environment;

    struct segment segment;
    double segment_started_s;
    int recorded_batches, recorded_micro_batches; /* of the last training segment: mini-batches, and micro-batches in each */
    struct replica_record *records;               /* per replica of the last stage */
    int record_count, step_capacity;

    /* Threads; `lock` guards what follows. */
    struct executor_thread *members;
    int threads;             /* started */
    int cores;               /* on which so many workers can compute at once */
    struct run_queue *turns; /* with more workers than cores: shares the cores; NULL: one thread per worker */
    pthread_mutex_t lock;
    pthread_cond_t begin, over;
    int64_t segments; /* started so far */
    int running;      /* workers here that have not finished the segment */
    bool leave;
    enum ps_status status; /* of the first failure */
    struct ps_error error;
    atomic_bool failed;
    struct interpreter *interpreters; /* per worker */
    struct progress *progress;        /* per worker of this process; read by other threads */
    struct watchdog watchdog;         /* the caller's of executor_run */
    int stalled;                      /* the stalled worker; -1: none */
    double stalled_s;                 /* how long it had made no progress */
    bool abandoned;                   /* a thread is still running: memory that it may use is never freed */
};

/* One thread's argument. */
struct executor_thread {
    struct executor *executor;
    int number;
    pthread_t thread;
};

struct executor_options {
    const struct worker_options *worker; /* its `number` is filled in for each */
    const struct transport_class *transport;
    struct processes *processes; /* borrowed */
    const struct update_rule *rule;
    uint64_t seed;
    const struct lengths *lengths; /* of the samples of training, borrowed; NULL: all have the same */
    int batch;                     /* samples in a mini-batch */
    int step_capacity;             /* mini-batches in the longest segment */
    double patience_s;             /* without progress, after which a worker counts as stalled (exec/watchdog.h); 0: never */
};

/* Creates the workers with their stages, but without memory and threads: their requirements can be inspected and rejected. */
enum ps_status executor_create(const struct executor_options *options, struct executor **executor, struct ps_error *error);
/* Takes each worker's memory, fills in initial weights (where values are computed), starts the threads. */
enum ps_status executor_start(struct executor *executor, const struct worker_options *worker, struct ps_error *error);
/* Stops the threads and frees everything, unless one was abandoned; NULL is fine. */
void executor_destroy(struct executor *executor);

/* Runs a segment to the end of all workers that are here. `watch` (may be NULL) is called repeatedly meanwhile, from the
 * calling thread; a status other than PS_OK stops the executor like a worker's failure. After a failure the executor cannot run
 * again. When a worker is lost, in this process or another, the others here get a short time to finish their current
 * instruction; a thread that does not is abandoned. */
enum ps_status executor_run(struct executor *executor, const struct segment *segment,
                            enum ps_status (*watch)(void *context, struct ps_error *error), void *context,
                            struct ps_error *error);

/* The number of mini-batches of the running segment that are done, and the record of one of them; the record of a finished
 * evaluation. Replicas are summed in their order. */
int executor_steps_done(const struct executor *executor);
struct step_record executor_step(const struct executor *executor, int step);
struct stage_result executor_evaluation(const struct executor *executor);
/* The progress of a worker of this process. */
struct process_state executor_state_of(const struct executor *executor, int number);
/* Does the worker run in this process? */
static inline bool executor_has(const struct executor *executor, int number) {
    return number >= executor->first_here && number < executor->end_here;
}

/* For the environment (executor_data.c). The number of a micro-batch's mini-batch, counted over the whole run. */
int64_t executor_batch_number(const struct executor *executor, int micro_batch);
/* The number of its length: that of its mini-batch; in an evaluation the last, which is the full length. */
int executor_length(const struct executor *executor, int micro_batch);
/* Fills the first stage's input with the micro-batch's inputs. Waits for the loader. */
enum ps_status executor_load_inputs(struct executor *executor, struct worker *worker, const struct worker_stage *stage,
                                    const struct instruction *instruction, struct ps_error *error);
/* The last stage's targets, copied so that they live as long as the micro-batch; `counted`: samples that are no padding. */
enum ps_status executor_load_targets(struct executor *executor, struct worker *worker, const struct worker_stage *stage,
                                     const struct instruction *instruction, int *counted, struct ps_error *error);

/* Waits for all enqueued computations of the worker and records them (environment.c); at a program's end. */
enum ps_status executor_settle(struct executor *executor, int number, struct ps_error *error);
/* What a thread of the executor runs (executor_run.c), until the executor is destroyed; `member` is its struct executor_thread.
 */
void *executor_thread_main(void *member);
/* The environment of the interpreter that computes (environment.c); its context is the executor. */
struct environment executor_environment(struct executor *executor);

#endif
