/*
 * Penstock: train neural networks as pipelines over several workers.
 *
 * This is the whole public interface. The life of a job is
 *
 *     model --profile--> costs --plan--> PLAN --lower--> PROGRAMS --> simulate | train | draw
 *
 * Rules that hold for every function here:
 *   - A function that can fail returns an enum ps_status and fills the caller's struct ps_error with one line that names the
 *     thing, the value and what would be accepted; `error` may be NULL. Outputs come last and are set only on PS_OK.
 *   - Arguments are borrowed for the call unless the contract says "takes"; what a function creates is freed by the matching
 *     _destroy (which accepts NULL). Strings returned as `char *` are freed with free() and are NULL where memory ran out;
 *     those returned as `const char *`, and in structs, belong to the object that was asked.
 *   - Indices count from 0 and must be below the count that goes with them.
 *   - The library never prints and never exits. Log lines and progress go to the callbacks given to ps_log_to.
 *   - Unless said otherwise an object may be read by several threads but changed by one.
 *
 * Units are in the names: _s seconds, _bytes bytes, _bytes_per_s bytes per second.
 */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ status */

/* Each status is also the exit status of the command line. */
#define PS_STATUS_LIST(X)                                                                                                      \
    X(PS_OK, 0, "done")                                                                                                        \
    X(PS_FAILED, 1, "the work failed")                                                                                         \
    X(PS_USAGE, 2, "wrong command line or configuration")                                                                      \
    X(PS_BAD_INPUT, 3, "bad input file")                                                                                       \
    X(PS_NO_PLAN, 4, "no plan fits")                                                                                           \
    X(PS_IO, 5, "reading or writing failed")                                                                                   \
    X(PS_WORKER_LOST, 6, "a worker was lost")                                                                                  \
    X(PS_NO_CHECKPOINT, 7, "no usable checkpoint")                                                                             \
    X(PS_STOPPED, 75, "stopped by a signal")

enum ps_status {
#define X(name, value, text) name = value,
    PS_STATUS_LIST(X)
#undef X
};

const char *ps_status_text(enum ps_status status);
const char *ps_version(void);

/* The number of this process among those that mpirun or the like started together, by its environment; 0 where it is alone.
 * Results and messages are rank 0's to show. */
int ps_process_rank(void);
/* How many they are; 1 where it is alone. */
int ps_process_count(void);

struct ps_error {
    enum ps_status status;
    char message[1024]; /* one line */
    char hint[1024];    /* what to do, may be empty, may have several lines */
};

/* -------------------------------------------------------- log and progress */

enum ps_log_level { PS_LOG_DEBUG, PS_LOG_INFO, PS_LOG_WARN, PS_LOG_ERROR };

struct ps_log_sink {
    void *context;
    enum ps_log_level level; /* lines below it are not made */
    void (*line)(void *context, enum ps_log_level level, const char *text);
    /* `done` of `total` units of `what`; total 0 when unknown; called with done == total at the end. */
    void (*progress)(void *context, const char *what, double done, double total, const char *detail);
};

/* Sets where log lines and progress go; NULL silences both. The sink's functions are called from any thread, one at a time;
 * they may call the library, whose lines then reach them within their own call. The struct is copied. This is the library's only
 * global state. */
void ps_log_to(const struct ps_log_sink *sink);

/* ------------------------------------------------------------------- units */

/* "512MiB", "2GB", "1024" -> bytes; "100Mbit/s", "12GB/s" -> bytes per second; "50us", "1.5ms", "2s" -> seconds.
 * `name` is what messages call the value (for example "--memory"). Negative, absurd and non-finite values are PS_USAGE. */
enum ps_status ps_parse_size(const char *text, const char *name, int64_t *bytes, struct ps_error *error);
enum ps_status ps_parse_rate(const char *text, const char *name, double *bytes_per_s, struct ps_error *error);
enum ps_status ps_parse_time(const char *text, const char *name, double *seconds, struct ps_error *error);

/* The entry of names[0..count-1] that is nearest to `word` in edit distance, or NULL where none is near. */
const char *ps_nearest_name(const char *word, const char *const *names, size_t count);

/* ------------------------------------------------------------------ tables */

/* Everything that is chosen by name stands in a table; these list them for help texts, messages and tests. */
enum ps_table {
    PS_TABLE_MODELS,
    PS_TABLE_SCHEDULES,
    PS_TABLE_POLICIES,
    PS_TABLE_METHODS,
    PS_TABLE_OPTIMIZERS,
    PS_TABLE_DEVICES,
    PS_TABLE_PROFILE_DEVICES, /* those, and the boards whose costs are worked out */
    PS_TABLE_TRANSPORTS,
    PS_TABLE_DATASETS,
    PS_TABLE_LEARNING_RATES,
    PS_TABLE_COUNT
};

struct ps_entry {
    const char *name;
    const char *summary; /* one line */
};

size_t ps_table_count(enum ps_table table);
struct ps_entry ps_table_entry(enum ps_table table, size_t index);

/* ------------------------------------------------------------------ models */

struct ps_model;

/* A built-in network: "vgg16" or "vgg16,input=32,classes=100,dropout=0". Options every network takes: input (image side in
 * pixels), channels, classes; or, those that read sequences of tokens, seq (their length) and vocab. */
enum ps_status ps_model_create(const char *spec, struct ps_model **model, struct ps_error *error);
void ps_model_destroy(struct ps_model *model);

struct ps_model_info {
    const char *name; /* as given to ps_model_create, options included */
    int layers;
    int64_t parameters;
    int64_t input_shape[3]; /* C, H, W; of a sequence of tokens 1, its length, 1 */
    int classes;
    int labels;           /* of a sample: 1, or one a position */
    int vocabulary;       /* tokens there are; 0: it reads images */
    double forward_flops; /* for one sample, a multiply-add counted as two */
};

struct ps_layer_info {
    const char *name, *kind;
    int64_t parameters;
    int64_t output_shape[4]; /* without N */
    int output_rank;
    double forward_flops;
};

struct ps_model_info ps_model_info(const struct ps_model *model);
struct ps_layer_info ps_model_layer(const struct ps_model *model, int layer); /* layer from 0 */

/* ---------------------------------------------------------------- profiles */

struct ps_profile;

struct ps_profile_options {
    const char *device; /* NULL: "cpu"; see PS_TABLE_PROFILE_DEVICES */
    int threads;        /* per worker; 0: 1 */
    int busy; /* workers that compute side by side meanwhile, the measured one among them; 0: 2, or 1 without cores for them */
    const int *micro_batches; /* sizes to measure at */
    int micro_batch_count;
    int warmup, repeats;  /* 0: 2, and 9 or, of a small network, as many as fit a quarter of a second */
    int64_t memory_bytes; /* that measuring may take: a larger network is measured in pieces of a layer or more. 0: no limit */
};

/* Measures every layer's forward, backward by input and by weights, and update on a device of this machine, or works them out
 * for a board that is not at hand. */
enum ps_status ps_profile_measure(const struct ps_model *model, const struct ps_profile_options *options,
                                  struct ps_profile **profile, struct ps_error *error);
/* The same of the network split inside its layers where that evens out the work of so many workers (the rule of BaPipe): the
 * profile's name says the splits, and plans for it train the split network. PS_USAGE where the name says splits already. */
enum ps_status ps_profile_measure_split(const struct ps_model *model, const struct ps_profile_options *options, int workers,
                                        struct ps_profile **profile, struct ps_error *error);
/* Reads a Penstock profile (JSON), the CSV form, a chain of numbers, or PipeDream's graph.txt; told apart by content.
 * Several paths with commas between them: the same network on several types of devices, of which a cluster's devices take
 * theirs. */
enum ps_status ps_profile_read(const char *paths, struct ps_profile **profile, struct ps_error *error);
enum ps_status ps_profile_write(const struct ps_profile *profile, const char *path, struct ps_error *error);
char *ps_profile_json(const struct ps_profile *profile);
char *ps_profile_table(const struct ps_profile *profile);
const char *ps_profile_model(const struct ps_profile *profile);
void ps_profile_destroy(struct ps_profile *profile);

/* ---------------------------------------------------------------- clusters */

struct ps_cluster;

struct ps_cluster_options {
    int workers;
    int64_t memory_bytes;         /* per worker; 0: no limit */
    double bandwidth_bytes_per_s; /* of every link; 0: transfers cost nothing */
    double latency_s;
    bool no_overlap; /* transfers block the computation of both ends */
    int cores;       /* how many workers can compute at the same moment; 0: all */
};

enum ps_status ps_cluster_uniform(const struct ps_cluster_options *options, struct ps_cluster **cluster,
                                  struct ps_error *error);
enum ps_status ps_cluster_read(const char *path, struct ps_cluster **cluster, struct ps_error *error);
enum ps_status ps_cluster_write(const struct ps_cluster *cluster, const char *path, struct ps_error *error);
char *ps_cluster_json(const struct ps_cluster *cluster);
char *ps_cluster_table(const struct ps_cluster *cluster);

struct ps_cluster_measure_options {
    const char *device; /* NULL: "cpu" */
    int threads;        /* per worker; 0: 1 */
};

/* Measures the machines of all processes that mpirun started (all of them call it, once): speed and memory of each worker,
 * latency and bandwidth between hosts. The cluster is rank 0's; the others get NULL. Started alone, one worker is measured. */
enum ps_status ps_cluster_measure(const struct ps_cluster_measure_options *options, struct ps_cluster **cluster,
                                  struct ps_error *error);
int ps_cluster_workers(const struct ps_cluster *cluster);
void ps_cluster_destroy(struct ps_cluster *cluster);

/* ------------------------------------------------------------------- plans */

struct ps_plan;

struct ps_plan_options {
    const char *method;   /* NULL: the best method on all workers; "auto": also with fewer workers, and with recomputation
                              where nothing fits the memory without */
    const char *schedule; /* NULL: what goes with the weights, else 1f1b-async; "auto": the fastest that keeps to the weights */
    const char *weights;  /* NULL: what goes with the schedule, else pipeoptim; "auto": sync on schedules that flush, pipeoptim
                              on the others, and without a schedule said the fastest of both kinds */
    const char *optimizer; /* NULL: "sgdm"; its state counts in the memory */
    int micro_batch;       /* samples; 0: the profile's largest size */
    int micro_batches;     /* M, per mini-batch; 0: the schedule's usual number */
    bool recompute;        /* every stage recomputes its forward */
    bool paper_prediction; /* weight prediction by the papers' bare formula */
    bool replicate;        /* allow data-parallel stages */
    bool paper_cost;       /* the method's cost and memory formulas as published */
    int batch;             /* samples in a mini-batch: micro-batch sizes and numbers that make it up are tried; 0: not fixed */
};

/* PS_NO_PLAN names the stage, what it needs and the limit. */
enum ps_status ps_plan_find(const struct ps_profile *profile, const struct ps_cluster *cluster,
                            const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error);
enum ps_status ps_plan_read(const char *path, struct ps_plan **plan, struct ps_error *error);
enum ps_status ps_plan_write(const struct ps_plan *plan, const char *path, struct ps_error *error);
char *ps_plan_json(const struct ps_plan *plan);
char *ps_plan_table(const struct ps_plan *plan);

struct ps_plan_info {
    const char *model, *method, *schedule, *weights, *optimizer; /* borrowed from the plan */
    int workers, stages, micro_batch, micro_batches;
};

struct ps_plan_info ps_plan_info(const struct ps_plan *plan);
void ps_plan_destroy(struct ps_plan *plan);

/* ---------------------------------------------------------------- programs */

struct ps_programs;

/* Lowers `batches` mini-batches (one segment) to one instruction list per worker and verifies them. With a profile the plan's
 * layers are held against its own; NULL: they are not. */
enum ps_status ps_programs_lower(const struct ps_plan *plan, const struct ps_profile *profile, int batches,
                                 struct ps_programs **programs, struct ps_error *error);
enum ps_status ps_programs_parse(const char *text, struct ps_programs **programs, struct ps_error *error);
char *ps_programs_print(const struct ps_programs *programs);
/* Proves order, freedom from deadlock under rendezvous sends, weight versions and buffer use; the message names the first
 * instruction that is wrong. */
enum ps_status ps_programs_verify(const struct ps_programs *programs, struct ps_error *error);
/* Do the programs of this plan fit the memory of the cluster's devices? PS_NO_PLAN names the first instruction that does not.
 */
enum ps_status ps_programs_check_memory(const struct ps_programs *programs, const struct ps_plan *plan,
                                        const struct ps_profile *profile, const struct ps_cluster *cluster,
                                        struct ps_error *error);
/* What the verifier counted of each worker: the copies of the weights that it keeps of a stage, and the largest number of
 * updates that fall between a forward and its own backward. As a table, and as JSON with the listing. Free with free(); NULL:
 * out of memory. */
char *ps_programs_table(const struct ps_programs *programs);
char *ps_programs_json(const struct ps_programs *programs);
void ps_programs_destroy(struct ps_programs *programs);

/* -------------------------------------------------------------- simulation */

struct ps_simulation;

struct ps_simulation_info {
    double period_s;   /* from one mini-batch to the next once the pipeline is full */
    double makespan_s; /* of all mini-batches simulated, fill and drain included */
    double throughput_samples_per_s;
    double bubble; /* idle share of workers x makespan */
    int workers, batches;
};

struct ps_simulation_worker {
    double busy_s, idle_fill_drain_s, idle_dependency_s, idle_communication_s, idle_imbalance_s;
    int64_t memory_bytes;
    int weight_copies;
};

/* Runs the plan's programs for `batches` mini-batches (0: enough for a steady state) under the cost model. */
enum ps_status ps_simulate(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                           int batches, struct ps_simulation **simulation, struct ps_error *error);
/* The same beside a measured run: `trace_path` is a trace.json of ps_train. The result also says how far the prediction is
 * from it, as a whole and instruction by instruction. `batches` 0: as many as the trace's segment has. PS_BAD_INPUT: the
 * trace is not one of these programs. */
enum ps_status ps_simulate_against(const struct ps_plan *plan, const struct ps_profile *profile,
                                   const struct ps_cluster *cluster, int batches, const char *trace_path,
                                   struct ps_simulation **simulation, struct ps_error *error);
/* Of a simulation of this plan, likewise as ps_programs_check_memory. */
enum ps_status ps_simulation_check_memory(const struct ps_simulation *simulation, const struct ps_plan *plan,
                                          const struct ps_profile *profile, const struct ps_cluster *cluster,
                                          struct ps_error *error);
struct ps_simulation_info ps_simulation_info(const struct ps_simulation *simulation);
struct ps_simulation_worker ps_simulation_worker(const struct ps_simulation *simulation, int worker);
char *ps_simulation_json(const struct ps_simulation *simulation);
char *ps_simulation_table(const struct ps_simulation *simulation);
/* A small timeline for a terminal, `columns` wide (UTF-8; with ANSI colours or without); "" where the run is too long to
 * draw. */
char *ps_simulation_timeline(const struct ps_simulation *simulation, int columns, bool colour);
/* The timeline as a picture, with each worker's memory under its row; the second also draws an arrow along each transfer.
 * PS_USAGE: the run is too long to draw. */
enum ps_status ps_simulation_write_svg(const struct ps_simulation *simulation, const char *path, struct ps_error *error);
enum ps_status ps_simulation_write_svg_arrows(const struct ps_simulation *simulation, const char *path, struct ps_error *error);
enum ps_status ps_simulation_write_trace(const struct ps_simulation *simulation, const char *path, struct ps_error *error);
void ps_simulation_destroy(struct ps_simulation *simulation);

/* ------------------------------------------------------ training, evaluation */

struct ps_train_options {
    /* what: a plan with its profile, or a model to profile and plan first */
    const char *plan_path, *profile_path, *cluster_path;
    const char *model;
    struct ps_plan_options plan;
    struct ps_cluster_options cluster;
    /* data */
    const char *data, *valid; /* dataset specs; valid may be NULL */
    int batch;                /* samples in a mini-batch; 0: as the plan says, 64 where the plan is made here */
    /* how long: steps > 0 wins over epochs */
    int epochs, steps;
    int evaluate_every;  /* steps, counted from the beginning of each epoch; 0: once an epoch */
    int valid_bleu;      /* of pairs: sentences of `valid` to translate at each evaluation, for BLEU; 0: none */
    const char *lengths; /* of pairs: shorter lengths than the network's seq, ascending, as "8,12"; a mini-batch of training
                            takes samples of one length and is computed at it. NULL: all have the network's */
    /* optimizer; NaN: its default */
    double lr, momentum, dampening, weight_decay, beta1, beta2, eps;
    const char *lr_schedule; /* "constant", "step:AT[,AT...]:FACTOR", "poly:POWER", "cosine" */
    int warmup_steps;
    bool lr_per_epoch;         /* the schedule moves between epochs only */
    double clip;               /* greatest norm of a gradient; 0: any */
    double label_smoothing;    /* of the loss in training; NaN: as the model says */
    const char *decay_exclude; /* "biases", "norms" or "biases,norms": what weight decay leaves alone; NULL: nothing */
    /* where */
    const char *device;    /* NULL: "cpu" */
    const char *transport; /* NULL: "mpi" where several processes were started, else "threads"; "serial": all in one thread */
    int threads;           /* per worker; 0: 1 */
    bool emulate;          /* this machine plays the cluster: workers are as slow, links take as long as it says */
    uint64_t seed;
    const char *out; /* run directory; NULL: nothing is written */
    bool trace;
    /* lasting */
    int checkpoint_every; /* steps, counted from the beginning of each epoch; 0: only where it evaluates */
    int keep_checkpoints; /* the newest so many stay; 0: 2 */
    const char *resume;   /* a run directory: goes on from its newest whole checkpoint. Of what stands above only these fields
                             count then: plan, profile and cluster (a new plan, or wishes for one), data and valid (where they
                             lie now), device, transport, threads and trace. PS_NO_CHECKPOINT: there is none. */
    const volatile int *stop; /* NULL, or what a signal handler sets other than 0: the run ends within seconds with
                                 PS_STOPPED, and can be resumed */
};

/* Fills every field with its default. */
void ps_train_options_init(struct ps_train_options *options);

struct ps_run; /* a finished run */

struct ps_run_info {
    int workers, steps, epochs;
    double loss, accuracy, valid_loss, valid_accuracy; /* NaN where not measured */
    double perplexity, valid_perplexity;               /* e to the loss; NaN but for labels that are tokens of a sequence */
    double wall_s, samples_per_s, predicted_samples_per_s;
    double checkpoint_stall_s; /* that training waited for checkpoints since it was started or resumed */
    double top5, valid_top5;   /* share of labels among the five best guesses; NaN for five classes or fewer */
    double valid_bleu;         /* of the sentences that were translated, greedily; as in struct ps_evaluation */
};

/* What a process that runs workers held in memory; 0 where the system does not tell. What is left of the peak when the rest is
 * taken off are its workers' blocks, and what was not thought of. */
struct ps_run_process {
    int64_t peak_bytes;       /* the most that it held */
    int64_t code_bytes;       /* pages of the program's and the libraries' files */
    int64_t start_bytes;      /* what else it held when its kernels were made and before its workers took their memory */
    int64_t loader_bytes;     /* for data read ahead */
    int64_t checkpoint_bytes; /* for checkpoints, where it writes them or sends its stages to who does */
    int64_t others_bytes;     /* blocks of other processes of its host, which can change places with its own: pages of them
                                 count in the peak of each process that has them mapped */
};

struct ps_run_worker {
    int64_t planned_bytes, measured_bytes;
    struct ps_run_process process; /* that runs it; zeroed where that is an earlier worker's */
    double busy_s;
    /* Where weights are predicted: |predicted - what came true| / |what came true| over the last segment, and the same of the
     * newest weights at the time, which `latest` would have used. NaN: not predicted, or not measured. */
    double prediction_error, newest_error;
};

/* After a segment. */
struct ps_run_point {
    int step, epoch;
    double loss, accuracy, valid_loss, valid_accuracy; /* NaN where not measured */
    double valid_perplexity, valid_bleu;               /* likewise */
    double training_s;                                 /* seconds of training alone until then */
};

/* Accuracy (0 to 1); of translations BLEU (0 to 100); of other texts whose labels are tokens perplexity, the less the
 * better. */
enum ps_metric { PS_METRIC_ACCURACY, PS_METRIC_BLEU, PS_METRIC_PERPLEXITY };

/* Over MPI all processes call it, once, with the same options. What went wrong on any of them is the status of all; the message
 * is empty on those that need not show it. The run's figures are complete on rank 0. */
enum ps_status ps_train(const struct ps_train_options *options, struct ps_run **run, struct ps_error *error);
struct ps_run_info ps_run_info(const struct ps_run *run);
struct ps_run_worker ps_run_worker(const struct ps_run *run, int worker);
int ps_run_point_count(const struct ps_run *run);
struct ps_run_point ps_run_point(const struct ps_run *run, int point);
/* On the validation data; NaN where not measured. */
double ps_run_point_metric(const struct ps_run_point *point, enum ps_metric metric);
char *ps_run_json(const struct ps_run *run);
char *ps_run_table(const struct ps_run *run);
void ps_run_destroy(struct ps_run *run);

struct ps_evaluate_options {
    const char *run;             /* a run directory, or */
    const char *weights, *model; /* a safetensors file and the model it belongs to */
    const char *data;
    const char *device;
    int batch, threads;
    int beam;                 /* of a translation: hypotheses that are kept; 0: 1, greedy */
    const char *translations; /* a file that gets them, a line each; may be NULL */
};

struct ps_evaluation {
    double loss, accuracy;
    double perplexity; /* e to the loss; NaN but for labels that are tokens of a sequence */
    double bleu;       /* of translations, 0 to 100 as sacrebleu counts; else NaN */
    int64_t samples;
    double top5; /* share of labels among the five best guesses; NaN for five classes or fewer */
};

enum ps_status ps_evaluate(const struct ps_evaluate_options *options, struct ps_evaluation *evaluation, struct ps_error *error);

/* Writes a run's trained weights, in PyTorch's canonical layout, as one file. Formats: "safetensors". */
enum ps_status ps_export(const char *run_dir, const char *format, const char *path, struct ps_error *error);

/* -------------------------------------------------------------- comparison */

struct ps_comparison;

/* Every combination of what is listed. An empty list stands for what `plan` and `cluster` say; no methods: "auto" and every
 * method whose plans can be run. */
struct ps_compare_options {
    const char *const *methods, *const *schedules, *const *weights;
    int method_count, schedule_count, weights_count;
    const int *workers;
    int worker_count;
    const int64_t *memory_bytes;
    int memory_count;
    const double *bandwidth_bytes_per_s;
    int bandwidth_count;
    struct ps_plan_options plan;
    struct ps_cluster_options cluster;
    /* A cluster file instead: its first workers, with memory and bandwidth of all changed where they are listed; without a list
     * of workers all of them. */
    const char *cluster_path;
    int batch_per_worker; /* samples in a mini-batch for each worker, so that it grows with them; 0: as `plan` says */
    double target;        /* of training: what the metric of its data is to reach; 0: the best that all rows reach */
};

struct ps_comparison_row {
    const char *method, *schedule, *weights; /* as asked for; schedule and weights of the plan where there is one */
    const char *chosen;                      /* method of the plan; NULL where there is none */
    int workers;
    int64_t memory_limit_bytes;   /* 0: none */
    double bandwidth_bytes_per_s; /* 0: transfers cost nothing */
    const char *reason;           /* why there is no plan; NULL where there is one */
    bool simulated;               /* else only objective_s, lower_bound_s, gap and solve_s are known */
    double period_s, throughput_samples_per_s, bubble;
    double speedup; /* over one worker with the same mini-batches, and memory enough */
    double objective_s, lower_bound_s, gap, solve_s;
    int64_t memory_bytes; /* of the worker that needs most */
    int weight_copies;    /* of the worker that keeps most */
    int largest;          /* of ps_compare_largest: the option's largest value that fits; 0: none does */
    int64_t parameters;   /* likewise: of that network */
    bool trained;         /* then instead of the above, from period_s on: */
    struct ps_run_info run;
    int64_t measured_bytes;            /* of the worker that took most */
    const struct ps_run_point *points; /* the way, as long as the comparison lives */
    int point_count;
    const int64_t *memory_of;   /* what each worker took; run.workers of them */
    double best_valid_accuracy; /* NaN where nothing was validated */
    enum ps_metric metric;      /* by which training on these data is judged, on the validation data: */
    double best;                /* NaN where it was not measured */
    int best_epoch;
    double target, target_s; /* seconds of training until the metric first reached it; NaN: it did not */
    int target_epoch;        /* 0: it did not */
};

/* Plans and simulates every combination. Those without a plan are rows too. */
enum ps_status ps_compare(const struct ps_profile *profile, const struct ps_compare_options *options,
                          struct ps_comparison **comparison, struct ps_error *error);
/* For every combination the largest network that there is a plan for: of `model` with its option `key` ("layers") as large as
 * it goes; the row's other figures are those of that network's plan. Costs are worked out for `device`, one of
 * PS_TABLE_PROFILE_DEVICES that is not measured (NULL: "gpu:v100"), at the micro-batch that the options say. What fits is taken
 * to fit when smaller. PS_USAGE: no such option, or no limit of memory. */
enum ps_status ps_compare_largest(const char *model, const char *key, const char *device,
                                  const struct ps_compare_options *options, struct ps_comparison **comparison,
                                  struct ps_error *error);
/* Trains every combination instead, as ps_train does with `train` but for its plan and cluster. Of pairs the first 256 of
 * `valid` are translated where valid_bleu is 0. Fails where none can be trained. */
enum ps_status ps_compare_training(const struct ps_compare_options *options, const struct ps_train_options *train,
                                   struct ps_comparison **comparison, struct ps_error *error);
const char *ps_comparison_model(const struct ps_comparison *comparison);
/* The option whose largest values the rows have; NULL where it is no such comparison. */
const char *ps_comparison_largest(const struct ps_comparison *comparison);
int ps_comparison_count(const struct ps_comparison *comparison);
struct ps_comparison_row ps_comparison_row(const struct ps_comparison *comparison, int row);
char *ps_comparison_json(const struct ps_comparison *comparison);
char *ps_comparison_table(const struct ps_comparison *comparison);
/* A line for each machine (workers, bandwidth, memory), a column for each method with period and speed-up. */
char *ps_comparison_grid(const struct ps_comparison *comparison);
void ps_comparison_destroy(struct ps_comparison *comparison);

#ifdef __cplusplus
}
#endif
#endif
