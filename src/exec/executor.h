/*
 * The executor: all workers of a run and how they go through a segment together, each on its own thread or all in the caller's,
 * as the transport says. The caller starts a segment and gets control back when every worker has finished it, or one has
 * failed: the others are then told through the transport and stop at once; the first error is the one reported.
 *
 * Where workers are processes, only one of them is here: the others have a number and nothing else, no stages, no memory.
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
    const struct decoding *decoding; /* of an evaluation: sentences that get their next tokens; NULL: none */
};

/* What the last stage saw of one mini-batch. */
struct step_record {
    double loss; /* sum over its counted labels */
    int64_t correct, correct5, counted;
    double done_at; /* its update was over, as clock_now counts */
};

/* What one replica of the last stage saw of a segment. */
struct replica_record {
    struct step_record *steps; /* those before steps_done may be read while the segment runs */
    atomic_int steps_done;     /* mini-batches whose update it has made */
    struct stage_result evaluation;
};

struct executor {
    /* The same throughout; borrowed. */
    const struct update_rule *rule;
    const struct transport_class *transport_class;
    uint64_t seed;
    bool real;                     /* the device computes numbers */
    bool spins;                    /* there is a core for each worker: who waits looks on for a while before he sleeps */
    int samples;                   /* of a micro-batch, as the graph counts them */
    int labels;                    /* of a sample */
    const struct lengths *lengths; /* NULL: all micro-batches have the same */
    struct sample_order order;     /* with lengths: of the epoch that the segment is of */

    struct worker *workers;
    int worker_count;
    int first_here, end_here; /* the workers of this process */
    struct processes *processes;
    struct memory_block travelling; /* in which the stages of this process go to rank 0 (proxies.h) */
    int64_t proxy_bytes;            /* for which those of the others were held here when the run went on from a checkpoint */
    int segment_number;             /* of the one that runs, counted over training and evaluation */
    struct stage_sizes *sizes;      /* by stage, of those that run here */
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
    struct run_queue *turns; /* that the workers take on them, where there are more; NULL: each has a thread of its own */
    pthread_mutex_t lock;
    pthread_cond_t begin, over;
    int64_t segments; /* started so far */
    int running;      /* workers here that have not finished the segment */
    bool leave;
    enum ps_status status; /* of the first failure */
    struct ps_error error;
    atomic_bool failed;
    struct interpreter *interpreters; /* per worker */
    struct progress *progress;        /* per worker, of those that are here; for whoever wants to know */
    struct watchdog watchdog;         /* the caller's of executor_run */
    int stalled;                      /* the worker that it found; -1: none */
    double stalled_s;                 /* for so long it had got nowhere */
    bool abandoned;                   /* a thread is still at work: what it may touch is never freed */
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
    double patience_s; /* without progress, after which a worker counts as stalled (run/watchdog.h); 0: none ever does */
};

/* Makes the workers with their stages, but without memory and threads: what they need can be looked at and refused. */
enum ps_status executor_create(const struct executor_options *options, struct executor **executor, struct ps_error *error);
/* Takes each worker's memory, fills in initial weights (where numbers are computed), starts the threads. */
enum ps_status executor_start(struct executor *executor, const struct worker_options *worker, struct ps_error *error);
/* Stops the threads and frees everything, unless one was abandoned; NULL is fine. */
void executor_destroy(struct executor *executor);

/* Runs a segment to the end of all workers that are here. `watch` (NULL: nobody) is called now and then meanwhile, from the
 * calling thread; what it returns other than PS_OK stops the executor like a worker's failure. After a failure the executor
 * runs no more. When a worker is lost, here or elsewhere, the others here get a moment to end the instruction that they are at;
 * a thread that does not is abandoned. */
enum ps_status executor_run(struct executor *executor, const struct segment *segment,
                            enum ps_status (*watch)(void *context, struct ps_error *error), void *context,
                            struct ps_error *error);

/* Mini-batches of the segment that are over, while it runs, and what was seen of one of them; what was seen of an evaluation
 * that is over. Replicas are added up in their order. */
int executor_steps_done(const struct executor *executor);
struct step_record executor_step(const struct executor *executor, int step);
struct stage_result executor_evaluation(const struct executor *executor);
/* Where a worker is that runs here. */
struct process_state executor_state_of(const struct executor *executor, int number);
/* Does the worker run in this process? */
static inline bool executor_has(const struct executor *executor, int number) {
    return number >= executor->first_here && number < executor->end_here;
}

/* For the environment (executor_data.c). The number of a micro-batch's mini-batch, counted over the whole run. */
int64_t executor_batch_number(const struct executor *executor, int micro_batch);
/* The number of its length: its mini-batch's; of an evaluation the last, which is the whole one. */
int executor_length(const struct executor *executor, int micro_batch);
/* Fills the first stage's input with the micro-batch's inputs. Waits for the loader. */
enum ps_status executor_load_inputs(struct executor *executor, struct worker *worker, const struct worker_stage *stage,
                                    const struct instruction *instruction, struct ps_error *error);
/* The last stage's labels, copied so that they live as long as the micro-batch; `counted`: samples that are no padding. */
enum ps_status executor_load_labels(struct executor *executor, struct worker *worker, const struct worker_stage *stage,
                                    const struct instruction *instruction, int *counted, struct ps_error *error);

/* Waits for all that the worker has asked its device for, and takes note of it (environment.c); at a program's end. */
enum ps_status executor_settle(struct executor *executor, int number, struct ps_error *error);
/* What a thread of the executor runs (executor_run.c), until the executor is destroyed; `member` is its struct executor_thread.
 */
void *executor_thread_main(void *member);
/* The environment of the interpreter that computes (environment.c); its context is the executor. */
struct environment executor_environment(struct executor *executor);

#endif
