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
 *   - Structs of options begin with `struct_size`, which the struct's _init function sets, and a caller that fills them in by
 *     hand sets to their sizeof. Later versions of the library add fields at the end: what lies beyond the caller's size is
 * never read and has its default; a size that is too small, or larger than the library knows, is PS_USAGE. So a program need
 * not be compiled again for a newer library of the same major version.
 *   - Results come in structs that may grow at the end likewise. The functions that return them by value are written into the
 *     program (they are inline) and ask the library by those that end in _get for as much as the program knows; what the
 *     library does not know is 0. struct ps_error alone never changes.
 *   - Messages call a field of the caller's options by its name in backquotes: "`lr`: -1 is not ...".
 *   - Indices count from 0 and must be below the count that goes with them.
 *   - The library never prints and never exits. Log lines and progress go to the sink in the options, or to that of ps_log_to.
 *   - All functions may be called from several threads at once; an object may be read by several but changed by one at a time.
 *     The calling thread's settings of OpenMP stay as they are. A process forked by a program that has used the library may use
 *     it with 1 thread per worker; with more it waits for threads of OpenMP that a fork does not copy.
 *     What is said to be once per process is not to be called by two at the same time: what starts or joins the processes of
 *     mpirun (ps_train and ps_trainer_create with the transport "mpi", ps_cluster_measure).
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

/* Each status is also the exit status of the command line, but for PS_OUT_OF_MEMORY, which ends it with PS_FAILED. */
#define PS_STATUS_LIST(X)                                                                                                      \
    X(PS_OK, 0, "done")                                                                                                        \
    X(PS_FAILED, 1, "the work failed")                                                                                         \
    X(PS_USAGE, 2, "wrong command line or configuration")                                                                      \
    X(PS_BAD_INPUT, 3, "bad input file")                                                                                       \
    X(PS_NO_PLAN, 4, "no plan fits")                                                                                           \
    X(PS_IO, 5, "reading or writing failed")                                                                                   \
    X(PS_WORKER_LOST, 6, "a worker was lost")                                                                                  \
    X(PS_NO_CHECKPOINT, 7, "no usable checkpoint")                                                                             \
    X(PS_OUT_OF_MEMORY, 8, "out of memory")                                                                                    \
    X(PS_STOPPED, 75, "stopped on request")

enum ps_status {
#define X(name, value, text) name = value,
    PS_STATUS_LIST(X)
#undef X
};

const char *ps_status_text(enum ps_status status);
const char *ps_version(void);

/* Beginnings of structs of results that a program of this version does not know of are not asked for: see above. */
#define PS_GETTER(name, object)                                                                                                \
    void name##_get(const struct object *of, struct name *result, size_t size);                                                \
    static inline struct name name(const struct object *of) {                                                                  \
        struct name result;                                                                                                    \
        name##_get(of, &result, sizeof result);                                                                                \
        return result;                                                                                                         \
    }
#define PS_GETTER_AT(function, name, object)                                                                                   \
    void function##_get(const struct object *of, int at, struct name *result, size_t size);                                    \
    static inline struct name function(const struct object *of, int at) {                                                      \
        struct name result;                                                                                                    \
        function##_get(of, at, &result, sizeof result);                                                                        \
        return result;                                                                                                         \
    }

struct ps_error {
    enum ps_status status;
    char message[1024]; /* one line */
    char hint[1024];    /* what to do, may be empty, may have several lines */
};

/* -------------------------------------------------------- log and progress */

enum ps_log_level { PS_LOG_DEBUG, PS_LOG_INFO, PS_LOG_WARN, PS_LOG_ERROR };

/* Its functions are called from any thread, several at the same time, and without any lock of the library: they may call it,
 * and what they do may log in turn. Either may be NULL. */
struct ps_log_sink {
    size_t struct_size; /* sizeof(struct ps_log_sink) */
    void *context;
    enum ps_log_level level; /* lines below it are not made */
    void (*line)(void *context, enum ps_log_level level, const char *text);
    /* `done` of `total` units of `what`; total 0 when unknown; called with done == total at the end. */
    void (*progress)(void *context, const char *what, double done, double total, const char *detail);
};

/* Where log lines and progress go of calls whose options name no sink (`log`); NULL silences them. The struct is copied; what
 * its context points to must stay until every call that began before the next ps_log_to is over. This is the library's only
 * global state. Over MPI lines of the other processes go to rank 0's sink. */
enum ps_status ps_log_to(const struct ps_log_sink *sink, struct ps_error *error);

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

/* ---------------------------------------------------------------- networks */

struct ps_network;

/* A network as people name it: a built-in one, "vgg16" or "vgg16,input=32,classes=100,dropout=0", or the path of a network
 * file, which ends in ".json" or is there. Options every built-in one takes: input (image side in pixels), channels, classes;
 * or, those that read sequences of tokens, seq (their length) and vocab. "split=LAYER:CHANNELS[+...]" splits layers of either.
 */
enum ps_status ps_network_open(const char *text, struct ps_network **network, struct ps_error *error);
/* A network file (docs/formats.md), and its text. PS_BAD_INPUT names the place in it. */
enum ps_status ps_network_read(const char *path, struct ps_network **network, struct ps_error *error);
/* Fixes the parameters whose names one of the patterns matches, joined by ',', with '*' for any characters and '?' for one.
 * They keep their values: they have no gradients, no state of the optimizer and no versions, and plans and profiles that are
 * made afterwards know it. PS_USAGE where a pattern matches none. */
enum ps_status ps_network_freeze(struct ps_network *network, const char *patterns, struct ps_error *error);
/* What the network computes in: "f32"; "bf16": values and matrices in bf16, sums, statistics, losses and the optimizer's copy
 * of the weights in f32 (docs/precision.md); "mixed": the same, but what residual connections add up stays f32; "auto": bf16
 * where this machine's processor multiplies it faster than f32. Part of the network's name and hash ("vgg16,precision=bf16"),
 * so plans, profiles and runs know it. PS_USAGE for other words; after PS_OUT_OF_MEMORY the network can only be destroyed. */
enum ps_status ps_network_set_precision(struct ps_network *network, const char *precision, struct ps_error *error);
/* Low-rank adapters: "rank=8,alpha=16,target=*attn*+*.fc1[,dropout=0.1][,train=head.*]". Every linear layer, and convolution
 * without groups, that a pattern of `target` matches (the weight's name, or the end of the layer's: "fc1" for
 * "block.fc1.weight", as PEFT's target_modules) is trained as
 * W x + alpha / rank B A x, with A (rank x inputs) and B (outputs x rank, zeros in the beginning) named as PEFT does,
 * NAME.lora_A.weight and NAME.lora_B.weight. All other parameters are fixed as by ps_network_freeze, but for those that a
 * pattern of `train` matches. Usual: rank 8, alpha the rank, no dropout. PS_USAGE where a pattern matches none, or the network
 * has adapters already. */
enum ps_status ps_network_lora(struct ps_network *network, const char *adapters, struct ps_error *error);
/* Parameters begin with the values that a file has under their names: safetensors, an index of several such files as on the
 * Hugging Face hub, or the initializers of an ONNX file; numbers of any type are converted; names may have PEFT's
 * "base_model.model." before them. Logs which parameters are missing and which tensors are no parameters. PS_BAD_INPUT where a
 * shape differs, or nothing fits. */
enum ps_status ps_network_initialize(struct ps_network *network, const char *path, struct ps_error *error);
/* A network file, with the values of parameters that it has in a file beside it; or, where the path ends in ".onnx", the ONNX
 * file that the network came from with these values, for inference. PS_USAGE: it came from elsewhere. */
enum ps_status ps_network_write(const struct ps_network *network, const char *path, struct ps_error *error);
char *ps_network_json(const struct ps_network *network);
/* Gives the network another loss, before anything else takes the network: "cross-entropy" (against labels), "next-token" and
 * "masked" (the same where labels are tokens: those that follow, those that are hidden), "mse", "l1" or "bce". NULL: its own.
 * `class_weights`, one for each class, are copied; with a count of 0 the weights stay as they are where the loss stays. */
enum ps_status ps_network_set_loss(struct ps_network *network, const char *loss, const float *class_weights, int class_count,
                                   struct ps_error *error);
void ps_network_destroy(struct ps_network *network);

struct ps_network_info {
    const char *name; /* of a built-in one as given to ps_network_open, options included */
    char hash[17];    /* of the structure, name apart: equal for networks that begin and compute alike */
    int layers;
    int64_t parameters;
    int64_t input_shape[3]; /* of the first input: C, H, W; of a sequence of tokens 1, its length, 1; of features C, 1, 1 */
    int classes;
    int labels;           /* of a sample: 1, or one a position */
    int vocabulary;       /* tokens there are; 0: it reads images */
    double forward_flops; /* for one sample, a multiply-add counted as two */
    int inputs, targets;  /* how many a sample has; ps_network_input and ps_network_target tell about each */
};

/* One of the inputs, or targets, of a sample. Callers give arrays of it, so it keeps its size. */
struct ps_input {
    const char *name, *type; /* type: "f32" or "i32" */
    int rank;
    int64_t shape[6]; /* its sides: C, H, W of an image; 1, its length, 1 of a sequence of tokens */
    int vocabulary;   /* tokens are 0 to vocabulary - 1; 0: any numbers */
};

struct ps_layer_info {
    const char *name, *kind;
    int64_t parameters;
    int64_t output_shape[6]; /* without N */
    int output_rank;
    double forward_flops;
};

PS_GETTER(ps_network_info, ps_network)
PS_GETTER_AT(ps_network_layer, ps_layer_info, ps_network) /* layer from 0 */
PS_GETTER_AT(ps_network_input, ps_input, ps_network)      /* in the order of a sample, from 0 */
/* What the loss reads, from 0; there is one. cross_entropy reads labels: i32, its vocabulary the classes, of rank 1 for a label
 * or one for each position, of the sides of an image (H, W) for one each pixel. mse, l1 and bce read f32 of the shape of what
 * the network computes. */
PS_GETTER_AT(ps_network_target, ps_input, ps_network)

/* Writes a network node by node; the last node is the loss. Calls that add something return its number, for `inputs` of later
 * ones. What fails first sticks: later calls do nothing and return -1, and finish tells it with the node's name. */
struct ps_network_builder;

/* NULL: memory ran out. */
struct ps_network_builder *ps_network_builder_create(const char *name);
/* An input, before any node; up to 8, of rank 1 to 6. Type "f32": features (rank 1), C, H, W, or other sides; "i32": a sequence
 * of so many tokens (rank 1), or other sides. */
int ps_network_builder_input(struct ps_network_builder *builder, const char *name, const char *type, const int64_t *shape,
                             int rank);
/* "convolution,channels=6,kernel=5,pad=2x2": an operator and its attributes as ps_network_operators lists them; lists as 3x4x5,
 * kinds and types as words, true and false also as 1 and 0. Without inputs it reads what was added last. */
int ps_network_builder_node(struct ps_network_builder *builder, const char *name, const char *operator_text, const int *inputs,
                            int input_count);
/* Initial values of a node's parameter ("weight"): `kind` is "constant" (the value), "uniform" (within plus and minus it) or
 * "normal" (with it as deviation). Otherwise they are PyTorch's. */
void ps_network_builder_initial(struct ps_network_builder *builder, int node, const char *parameter, const char *kind,
                                double value);
/* What the loss reads, as ps_network_target says it. Nothing said: "labels", of the type and shape that the loss reads. */
void ps_network_builder_target(struct ps_network_builder *builder, const char *name, const char *type, const int64_t *shape,
                               int rank);
/* What labels of each class count in the mean loss, which is divided by the sum of the weights of the labels that it is of, as
 * PyTorch's. Nothing said: 1. Of cross_entropy only. */
void ps_network_builder_class_weights(struct ps_network_builder *builder, const float *weights, int count);
/* The first parameters of `node` and of `owner`, a node before it, become one. */
void ps_network_builder_tie(struct ps_network_builder *builder, int node, int owner);
/* The node's parameter of that name ("bias") and the one that files call `owner` ("fc1.bias"), of a node before it, become one.
 * Any number of nodes may share a parameter. */
void ps_network_builder_share(struct ps_network_builder *builder, int node, const char *parameter, const char *owner);
/* What the classes are: "classes" where nothing is said, "tokens" (the next ones) or "masked_tokens". */
void ps_network_builder_predicts(struct ps_network_builder *builder, const char *what);
/* Frees the builder in any case. PS_USAGE: what was wrong. */
enum ps_status ps_network_builder_finish(struct ps_network_builder *builder, struct ps_network **network,
                                         struct ps_error *error);
void ps_network_builder_destroy(struct ps_network_builder *builder); /* without finishing */

/* A table of all operators with their attributes and usual values; NULL when memory ran out. */
char *ps_network_operators(void);

/* ---------------------------------------------------------------- profiles */

struct ps_profile;

struct ps_profile_options {
    size_t struct_size; /* ps_profile_options_init sets it */
    const char *device; /* NULL: "cpu"; see PS_TABLE_PROFILE_DEVICES */
    int threads;        /* per worker; 0: 1 */
    int busy; /* workers that compute side by side meanwhile, the measured one among them; 0: 2, or 1 without cores for them */
    const int *micro_batches; /* sizes to measure at */
    int micro_batch_count;
    int warmup, repeats;  /* 0: 2, and 9 or, of a small network, as many as fit a quarter of a second */
    int64_t memory_bytes; /* that measuring may take: a larger network is measured in pieces of a layer or more. 0: no limit */
    const struct ps_log_sink *log; /* NULL: that of ps_log_to */
    /* A forward and a backward for warm-up, and of a network whose rounds take long no more than 2 that count, or 1 where they
     * take longer than a second. */
    bool quick;
};

void ps_profile_options_init(struct ps_profile_options *options);

/* Measures every layer's forward, backward by input and by weights, and update on a device of this machine, or works them out
 * for a board that is not at hand. */
enum ps_status ps_profile_measure(const struct ps_network *network, const struct ps_profile_options *options,
                                  struct ps_profile **profile, struct ps_error *error);
/* The same of the network split inside its layers where that evens out the work of so many workers (the rule of BaPipe): the
 * profile's name says the splits, and plans for it train the split network. PS_USAGE where the name says splits already. */
enum ps_status ps_profile_measure_split(const struct ps_network *network, const struct ps_profile_options *options, int workers,
                                        struct ps_profile **profile, struct ps_error *error);
struct ps_cluster;
/* The same for the workers of a cluster: by their speeds and types, and only where its links hide the transfer. Types that are
 * models (as fpga:vcu129) have costs of their own, which plans of this profile take and ps_profile_write leaves out; others
 * have those of the device measured. */
enum ps_status ps_profile_measure_split_for(const struct ps_network *network, const struct ps_profile_options *options,
                                            const struct ps_cluster *cluster, struct ps_profile **profile,
                                            struct ps_error *error);
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
    size_t struct_size; /* ps_cluster_options_init sets it */
    int workers;
    int64_t memory_bytes;         /* per worker; 0: no limit */
    double bandwidth_bytes_per_s; /* of every link; 0: transfers cost nothing */
    double latency_s;
    bool no_overlap; /* transfers block the computation of both ends */
    int cores;       /* how many workers can compute at the same moment; 0: all */
    bool streaming;  /* a transfer begins with the computation that makes the block, as on FPGAs; it needs overlap */
};

void ps_cluster_options_init(struct ps_cluster_options *options);

enum ps_status ps_cluster_uniform(const struct ps_cluster_options *options, struct ps_cluster **cluster,
                                  struct ps_error *error);
/* The same for workers that share this machine: where the options say neither links nor cores, and the profile was measured on
 * a device of a machine, as many workers compute at the same moment as this machine has cores for them, with the profile's
 * threads each. With more workers than that it is logged. `ps_train` counts in the same way. Where the options say no
 * memory either, ps_plan_find warns of plans that need more than this machine, or the control group of the process, has. */
enum ps_status ps_cluster_here(const struct ps_cluster_options *options, const struct ps_profile *profile,
                               struct ps_cluster **cluster, struct ps_error *error);
enum ps_status ps_cluster_read(const char *path, struct ps_cluster **cluster, struct ps_error *error);
enum ps_status ps_cluster_write(const struct ps_cluster *cluster, const char *path, struct ps_error *error);
char *ps_cluster_json(const struct ps_cluster *cluster);
char *ps_cluster_table(const struct ps_cluster *cluster);

/* What this machine has: processor, cores, memory, instruction sets, and the devices and transports of this build, as the
 * document of `penstock devices --json` (docs/formats.md) and as a table. */
char *ps_machine_json(void);
char *ps_machine_table(void);

struct ps_cluster_measure_options {
    size_t struct_size;            /* ps_cluster_measure_options_init sets it */
    const char *device;            /* NULL: "cpu" */
    int threads;                   /* per worker; 0: 1 */
    const struct ps_log_sink *log; /* NULL: that of ps_log_to */
};

void ps_cluster_measure_options_init(struct ps_cluster_measure_options *options);

/* Measures the machines of all processes that mpirun started (all of them call it, once): speed and memory of each worker,
 * latency and bandwidth between hosts. The cluster is rank 0's; the others get NULL. Started alone, one worker is measured. */
enum ps_status ps_cluster_measure(const struct ps_cluster_measure_options *options, struct ps_cluster **cluster,
                                  struct ps_error *error);
int ps_cluster_workers(const struct ps_cluster *cluster);
void ps_cluster_destroy(struct ps_cluster *cluster);

/* ------------------------------------------------------------------- plans */

struct ps_plan;

struct ps_plan_options {
    size_t struct_size;   /* ps_plan_options_init sets it */
    const char *method;   /* "auto": the best of all methods, also on fewer workers, and with recomputation where nothing fits
                              the memory without; NULL: likewise with the cluster's workers, of which some may be idle, and on
                              large problems with fewer methods, so that it takes about a second and no longer than
                              `pipedream` does */
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
    const struct ps_log_sink *log; /* NULL: that of ps_log_to */
    /* Stages end only between modules: where the first so many parts of the layers' names, which dots separate, differ
     * ("h.0.attn.q" and "h.0.mlp.up" with 2: not there); 0: between any layers. */
    int module_depth;
    /* How what crosses the cuts between workers, and the gradients that replicas sum, are encoded: "none", "bf16", "int8" or
     * "topk:SHARE" (of the numbers that are sent), or "auto:" and one of them: for each what loses least and does not let the
     * pipeline wait, and nothing that loses more; or each by its own, as "activation=int8+gradient=bf16+sum=int8". NULL:
     * "none". docs/methods.md says what each computes. */
    const char *wire;
    /* Micro-batches that are under way between neighbouring workers beyond what the schedule needs, up to 1024, for schedules
     * without a flush: where workers are slow for moments, each by itself, or mini-batches are of unequal length, the others
     * wait less for them. It costs memory and older weights. 0: none. */
    int slack;
};

void ps_plan_options_init(struct ps_plan_options *options);

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

PS_GETTER(ps_plan_info, ps_plan)
void ps_plan_destroy(struct ps_plan *plan);

/* ---------------------------------------------------------------- programs */

struct ps_programs;

/* Lowers `batches` mini-batches (one segment) to one instruction list per worker and verifies them. With a profile the plan's
 * layers are held against its own; NULL: they are not. */
enum ps_status ps_programs_lower(const struct ps_plan *plan, const struct ps_profile *profile, int batches,
                                 struct ps_programs **programs, struct ps_error *error);
enum ps_status ps_programs_parse(const char *text, struct ps_programs **programs, struct ps_error *error);
char *ps_programs_print(const struct ps_programs *programs);
/* One mini-batch as the CSV that _PipelineScheduleRuntime of torch.distributed.pipelining loads ("compute_only"): a line for
 * each worker with its forwards (F) and backwards (B, or I and W apart), as STAGE F MICRO-BATCH without blanks. free().
 * PS_USAGE: why these programs cannot be written so. */
enum ps_status ps_programs_torch_csv(const struct ps_programs *programs, char **csv, struct ps_error *error);
/* Proves order, freedom from deadlock under rendezvous sends, weight versions and buffer use; the message names the first
 * instruction that is wrong. */
enum ps_status ps_programs_verify(const struct ps_programs *programs, struct ps_error *error);
/* Do the programs of this plan fit the memory of the cluster's devices? PS_NO_PLAN names the first instruction that does not.
 */
enum ps_status ps_programs_check_memory(const struct ps_programs *programs, const struct ps_plan *plan,
                                        const struct ps_profile *profile, const struct ps_cluster *cluster,
                                        struct ps_error *error);
/* What the verifier counted of each worker: the copies of the weights that it keeps of a stage, and the largest number of
 * updates that fall between a forward and its own backward. As a table, and as JSON with the listing. Of parsed programs that
 * the verifier refuses there is only the number of instructions. Free with free(); NULL: out of memory. */
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
    int64_t sent_bytes, received_bytes; /* to and from other workers, over all mini-batches simulated */
};

/* Runs the plan's programs for `batches` mini-batches (0: enough for a steady state) under the cost model. */
enum ps_status ps_simulate(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                           int batches, struct ps_simulation **simulation, struct ps_error *error);
/* What a run measured: a trace.json of ps_train. PS_BAD_INPUT names the place in it. */
struct ps_trace;
enum ps_status ps_trace_read(const char *path, struct ps_trace **trace, struct ps_error *error);
void ps_trace_destroy(struct ps_trace *trace);
/* The same beside a measured run. The result also says how far the prediction is from it, as a whole and instruction by
 * instruction. `batches` 0: as many as the trace's segment has. PS_BAD_INPUT: the trace is not one of these programs. */
enum ps_status ps_simulate_against(const struct ps_plan *plan, const struct ps_profile *profile,
                                   const struct ps_cluster *cluster, int batches, const struct ps_trace *trace,
                                   struct ps_simulation **simulation, struct ps_error *error);
/* Of a simulation of this plan, likewise as ps_programs_check_memory. */
enum ps_status ps_simulation_check_memory(const struct ps_simulation *simulation, const struct ps_plan *plan,
                                          const struct ps_profile *profile, const struct ps_cluster *cluster,
                                          struct ps_error *error);
PS_GETTER(ps_simulation_info, ps_simulation)
PS_GETTER_AT(ps_simulation_worker, ps_simulation_worker, ps_simulation)
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

/* ------------------------------------------------------------------- reports */

/* One HTML page that needs no network: what was run, curves, timelines, memory, weights, costs, and what would help. */
struct ps_report_options {
    size_t struct_size;      /* ps_report_options_init sets it */
    const char *const *runs; /* run directories, side by side; a run may still be training */
    int run_count;           /* 0 to 8, with a plan 0 to 7 */
    /* A plan that need not have been trained, with what predicts it; NULL: none. */
    const struct ps_plan *plan;
    const struct ps_profile *profile;
    const struct ps_cluster *cluster;
    const struct ps_trace *trace; /* a run of the plan; may be NULL */
};

void ps_report_options_init(struct ps_report_options *options);
/* PS_BAD_INPUT names the file that is damaged, or the directory that holds no run. */
enum ps_status ps_report_write(const struct ps_report_options *options, const char *path, struct ps_error *error);
/* The document that the page is drawn from (free()); NULL: *error says why. */
char *ps_report_json(const struct ps_report_options *options, struct ps_error *error);
/* The lines of a run's log as CSV: a column for each field, of lists one for each worker. */
enum ps_status ps_report_csv(const char *run, const char *path, struct ps_error *error);

/* ---------------------------------------------------------------- datasets */

struct ps_dataset;

enum ps_part { PS_PART_USUAL, PS_PART_TRAIN, PS_PART_TEST };

struct ps_dataset_options {
    size_t struct_size; /* ps_dataset_options_init sets it */
    /* Opens the data now, as this network takes them: what is wrong is said here, and ps_dataset_samples is known. NULL: each
     * training or evaluation opens them itself, for its own network, and over MPI in those processes alone that read. */
    const struct ps_network *network;
    enum ps_part part; /* of a format that has two, where the spec does not say it. Usual: to train on `data` of a training */
    /* Words are numbered as in these data, which were opened for a network. NULL: those of the training data of the same
     * training, or of the run that is evaluated, else their own. */
    const struct ps_dataset *words;
};

void ps_dataset_options_init(struct ps_dataset_options *options);

/* Data by a spec: "FORMAT:REST[#train|#test][@A-B]", as "idx:data/mnist@0-1000"; formats are those of PS_TABLE_DATASETS.
 * `options` may be NULL. PS_USAGE: the spec is wrong, or not what the network takes; PS_BAD_INPUT: a file is missing or
 * damaged. May be used by several trainings and threads at once; must stay until the last of them is over. */
enum ps_status ps_dataset_open(const char *spec, const struct ps_dataset_options *options, struct ps_dataset **dataset,
                               struct ps_error *error);

/* Data of the caller's. */
struct ps_dataset_source {
    size_t struct_size; /* ps_dataset_source_init sets it */
    void *context;      /* the first argument of the functions below */
    const char *name;   /* what messages call the data, and what a run directory keeps of them; copied */
    int64_t samples;    /* 1 to 2^32 - 1 */
    /* What a sample is, as ps_network_info says it of the network that is to take it. Without `inputs`: */
    int64_t input_shape[3]; /* C, H, W; of a sequence of tokens 1, its length, 1 */
    int vocabulary;         /* 0: the input is numbers; else tokens from 0 to vocabulary - 1 */
    int classes;            /* labels are from 0 to classes - 1, or -1: does not count */
    int labels;             /* of a sample; 0: 1 */
    bool several_readers; /* `read` may be called from several threads at the same time; else the library calls it one by one */
    /* Before a training or an evaluation reads (several of them may overlap), and after. In the thread that called the library.
     * May be NULL. A status other than PS_OK ends the call with it; close is not called then. */
    enum ps_status (*open)(void *context, struct ps_error *error);
    void (*close)(void *context);
    /* Writes sample `sample` (0 to samples - 1): `input` gets C x H x W elements in the order H, W, C (the channels of a pixel
     * or the features of a position stand together), float, or int32_t where there is a vocabulary; NULL: only the labels are
     * wanted. Several inputs stand one after the other, without gaps, each in its type and with its first side last (of rank 4
     * the order is 2, 3, 4, 1). `labels` gets all labels, pixels line by line; of a target of type f32 it is the place of its
     * numbers (float), in the order of an input. Called from threads of the library, ahead of training and in any
     * order, in each process that runs a worker of the first or the last stage; before a training also in the calling thread,
     * until a label counts. The same sample must always be the same. A status other than PS_OK ends the training or evaluation
     * with it and with what was written into error->message. It may wait as long as it likes: that is no lost worker. */
    enum ps_status (*read)(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error);
    /* What a sample is where it has several inputs, or one of another rank: those of the network that is to take it, in its
     * order, as ps_network_input says them; copied. NULL: one, of input_shape and vocabulary above. */
    const struct ps_input *inputs;
    int input_count;
    /* Its targets, as ps_network_target says them: one; copied. NULL: classes and labels above, under any name. */
    const struct ps_input *targets;
    int target_count;
};

/* All fields zero but for the size. */
void ps_dataset_source_init(struct ps_dataset_source *source);
/* The struct is copied; context and functions must stay until the dataset is destroyed, and after PS_WORKER_LOST until a read that
 * has begun is over. PS_USAGE names the field that is wrong. */
enum ps_status ps_dataset_create(const struct ps_dataset_source *source, struct ps_dataset **dataset, struct ps_error *error);
/* Of the caller's data, and of those that were opened for a network; else -1. */
int64_t ps_dataset_samples(const struct ps_dataset *dataset);
/* The spec, or the name. */
const char *ps_dataset_name(const struct ps_dataset *dataset);
void ps_dataset_destroy(struct ps_dataset *dataset);

/* ---------------------------------------------------------------- training */

/* The life of a training:
 *
 *     ps_trainer_create --> ps_trainer_step ... --> ps_trainer_finish --> struct ps_run
 *                           ps_trainer_evaluate, _read_parameter, _save
 *
 * ps_train is these calls in a row. A program may have several trainers, in threads of their own; what one of them does is
 * asked for by one thread at a time. Over MPI there is one training at a time, in all processes: each makes the same calls with
 * the same options, in its main thread; of plan, profile, cluster, network and `planning` rank 0's count, and the others may
 * give none. What went wrong on any process is the status of all; the message is empty on those that need not show it.
 */

struct ps_run; /* what a training comes to */

struct ps_run_info {
    int workers, steps, epochs;
    double loss, accuracy, valid_loss, valid_accuracy; /* NaN where not measured */
    double perplexity, valid_perplexity;               /* e to the loss; NaN but for labels that are tokens of a sequence */
    double wall_s, samples_per_s, predicted_samples_per_s;
    double checkpoint_stall_s; /* that training waited for checkpoints since it was started or resumed */
    double top5, valid_top5;   /* share of labels among the five best guesses; NaN for five classes or fewer */
    double valid_bleu;         /* of the sentences that were translated, greedily; as in struct ps_evaluation */
    double best;               /* of the best evaluation, what best_by of the options says; NaN where nothing was evaluated */
    int best_step;             /* its step, or 0 */
    bool ended_early;          /* by `patience` */
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
    double busy_s; /* computing in training, in all steps of the run: also in those before it was resumed, unless that changed
                      the number of workers */
    /* Where weights are predicted: |predicted - what came true| / |what came true| over the last segment, and the same of the
     * newest weights at the time, which `latest` would have used. NaN: not predicted, or not measured. */
    double prediction_error, newest_error;
    int64_t sent_bytes, received_bytes; /* to and from other workers in training; of the same steps as busy_s */
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
enum ps_metric { PS_METRIC_ACCURACY, PS_METRIC_BLEU, PS_METRIC_PERPLEXITY, PS_METRIC_LOSS };

/* What a mini-batch of training came to. */
struct ps_step {
    int64_t step, steps; /* this one, counted from 1, and those of the whole training */
    int64_t epoch;
    double loss, accuracy; /* of its samples; NaN where the device computes no numbers */
    double lr;             /* of its update */
};

/* Watches a training. The functions are called in the thread that called the library (over MPI at rank 0 alone), while the
 * workers go on; each may be NULL. What they return other than 0 ends the training as if should_stop had asked for it
 * (ps_trainer_step has more on `point`). They may call the library, but not for the trainer that is at work. */
struct ps_observer {
    size_t struct_size;                                            /* sizeof(struct ps_observer) */
    void *context;                                                 /* their first argument */
    int (*step)(void *context, const struct ps_step *step);        /* after each mini-batch, in order, soon */
    int (*point)(void *context, const struct ps_run_point *point); /* after each evaluation, or epoch without valid data */
    /* Asked some twenty times a second. Once it is not 0 the training ends within seconds with PS_STOPPED: with a run directory
     * at the next checkpoint if that comes within two seconds, else where it is, and can be resumed. */
    int (*should_stop)(void *context);
};

struct ps_train_options {
    size_t struct_size; /* ps_train_options_init sets it */
    /* What: a plan, or a network to plan for here. The objects are borrowed until the training is over. */
    const struct ps_plan *plan;
    const struct ps_profile *profile;       /* its costs. NULL: with a plan there is no prediction; without they are measured */
    const struct ps_cluster *cluster;       /* what the plan is for, or is to be for. NULL: `machines` says it */
    const struct ps_network *network;       /* NULL: the built-in one that plan or profile names */
    const struct ps_plan_options *planning; /* without a plan: which; of a given one the optimizer alone. NULL: the usual */
    const struct ps_cluster_options *machines; /* alike workers, of 0 as many as there are cores here or processes of the run;
                                                  with a plan their limit of memory alone. NULL: no limits */
    /* data */
    const struct ps_dataset *data, *valid; /* to train and to evaluate on; valid may be NULL */
    int batch;                             /* samples in a mini-batch; 0: as the plan says, 64 where the plan is made here */
    /* how long, in all: steps > 0 wins over epochs; with both 0 it is one epoch */
    int epochs, steps;
    int evaluate_every;  /* steps, counted from the beginning of each epoch; 0: once an epoch; -1: not said, which is 0 */
    int valid_bleu;      /* of pairs: sentences of `valid` to translate at each evaluation, for BLEU; 0: none */
    const char *lengths; /* of pairs: shorter lengths than the network's seq, ascending, as "8,12"; a mini-batch of training
                            takes samples of one length and is computed at it. NULL: all have the network's */
    /* optimizer; NaN: its default */
    double lr, momentum, dampening, weight_decay, beta1, beta2, eps;
    const char *lr_schedule; /* "constant", "step:AT[,AT...]:FACTOR", "poly:POWER", "cosine" */
    int warmup_steps;        /* in which the rate grows to its value; 0: none; -1: not said, which is 0 */
    int lr_per_epoch;        /* 1: the schedule moves between epochs only; 0: with each step; -1: not said, which is 0 */
    double clip; /* greatest norm of a gradient, divided among the stages: the weights depend on the cut; 0: any; NaN: not
                    said, which is 0 */
    double label_smoothing;    /* of the loss in training; NaN: as the model says */
    const char *decay_exclude; /* "biases", "norms" or "biases,norms": what weight decay leaves alone; NULL, "none": nothing */
    /* Groups of parameters as "head.*:lr=0.01;*.bias:weight-decay=0": patterns of names, as ps_network_freeze takes them, with
     * a learning rate, which the schedule changes as the others', or a weight decay of their own, or both. The first group that
     * a parameter fits is its own. NULL, "none": none. */
    const char *groups;
    /* where */
    const char *device;    /* NULL: "cpu" */
    const char *transport; /* NULL: "mpi" where several processes were started, else "threads"; "serial": all in one thread */
    int threads;           /* per worker; 0: 1 */
    int emulate; /* 1: this machine plays the cluster: workers are as slow, links take as long as it says; -1: not said, 0 */
    uint64_t seed;
    const char *out; /* run directory; NULL: nothing is written */
    bool trace;
    /* lasting */
    int checkpoint_every; /* steps, counted from the beginning of each epoch; 0: only where it evaluates; -1: not said, 0 */
    int keep_checkpoints; /* the newest so many stay; 0: 2 */
    /* A run directory: goes on from its newest whole checkpoint. Of what stands above only these fields count then: plan,
     * profile, cluster, planning and machines (a new plan, or requests for one), data and valid (which must be given again
     * where they are the caller's; files that changed since are PS_USAGE unless they are given again), device, transport,
     * threads, trace, tensorboard, keep_checkpoints and checkpoint_minutes; and as far as they are not as
     * ps_train_options_init leaves them, epochs and steps (the total: PS_USAGE where the run has reached it), evaluate_every,
     * checkpoint_every, keep_best, best_by, patience, emulate and all from lr to groups, with which the steps that follow are
     * trained. 0 or "none" ends what the run had. The run's configuration keeps what was changed and when. A run that had
     * ended, and is not asked for more, keeps its files as they are. PS_NO_CHECKPOINT: there is none.
     */
    const char *resume;
    const struct ps_observer *observer; /* NULL: nobody watches */
    const struct ps_log_sink *log;      /* NULL: that of ps_log_to */
    /* Also a checkpoint when the last is so old, 0 to 1e6; 0: no; NaN: 10. With weights that are not synchronous it sets
     * checkpoint_every, where that is 0 and the plan predicts how long a step takes. */
    double checkpoint_minutes;
    int keep_best;       /* 1: the checkpoint of the best evaluation stays, beside the newest; -1: not said, which is 0 */
    const char *best_by; /* on `valid`: "loss" (NULL), "accuracy", "perplexity" or "bleu" */
    int patience; /* ends the training, as if it were over, after so many evaluations without a better one; 0: never; -1: not
                     said, which is 0 */
    bool tensorboard; /* with `out` or `resume`: the curves also as an event file of TensorBoard in the run's directory */
    /* A directory in which profiles that are measured here are kept and found again; NULL: none. It is made if it is missing.
     */
    const char *profile_cache;
};

/* Fills every field with its default. */
void ps_train_options_init(struct ps_train_options *options);

/* Trains from beginning to end. */
enum ps_status ps_train(const struct ps_train_options *options, struct ps_run **run, struct ps_error *error);

struct ps_trainer;

/* Everything up to the first step: plans where it must, takes all memory, starts the workers. The struct of options is copied;
 * what it points to must stay until ps_trainer_destroy. */
enum ps_status ps_trainer_create(const struct ps_train_options *options, struct ps_trainer **trainer, struct ps_error *error);
/*
 * Trains `steps` mini-batches, or up to the last of the training where that is less; ps_trainer_info says how many are done.
 * Where the options ask for it (evaluate_every, checkpoint_every, the end of an epoch) it evaluates and saves on the way.
 *
 * The pipeline drains at the end of a call, and wherever the options have it evaluate or save. With synchronous weights (the
 * policy "sync") that changes no number, however the steps are divided over calls. With others it does: in the last
 * mini-batches before a pipeline drains weights are less stale. Another division is another training then; a call whose steps
 * reach the next such place of the options, and ps_train, divide nothing further.
 *
 * Where the observer's `point` returns other than 0 the call ends with PS_OK, since the pipeline is empty there: the trainer can
 * evaluate, be read, saved and finished. To go on, where steps are left, gives PS_STOPPED.
 *
 * After a failure the trainer can only be destroyed. PS_STOPPED is one.
 */
enum ps_status ps_trainer_step(struct ps_trainer *trainer, int64_t steps, struct ps_error *error);

struct ps_trainer_info {
    int64_t step, steps; /* done; of the whole training */
    int64_t epoch_steps; /* 0: there are no epochs */
    int batch, workers, parameters;
    double loss, accuracy; /* of the epoch so far, or of the training where there are none; NaN: nothing was computed */
    int64_t to_evaluation; /* steps to the next evaluation or end of an epoch; 0: it is due, or the training is over */
    int rank;              /* over MPI of this process; else 0 */
    bool asked;            /* the observer's `point` has asked for the end; at all ranks */
};
PS_GETTER(ps_trainer_info, ps_trainer)

struct ps_parameter {
    const char *name; /* as PyTorch calls it, "conv1.weight" */
    int64_t shape[6]; /* PyTorch's */
    int rank;
    bool statistic; /* of a norm: not trained, but kept */
};
/* In the network's order; a parameter that two layers share stands there once. Constants of the network are none. */
PS_GETTER_AT(ps_trainer_parameter, ps_parameter, ps_trainer)
/* Its newest values, in PyTorch's layout: `count` floats, as many as it has. Over MPI rank 0 gets them. PS_USAGE: there is no
 * such parameter, or it has another size; the trainer goes on. */
enum ps_status ps_trainer_read_parameter(struct ps_trainer *trainer, const char *name, float *values, size_t count,
                                         struct ps_error *error);

struct ps_evaluation {
    double loss, accuracy;
    double perplexity; /* e to the loss; NaN but for labels that are tokens of a sequence */
    double bleu;       /* of translations, 0 to 100 as sacrebleu counts; else NaN */
    int64_t samples;
    double top5; /* share of labels among the five best guesses; NaN for five classes or fewer */
};

/* The newest weights on `data` (NULL: the options' `valid`), in the memory that the trainer has. Nothing of the training
 * changes. Data of pairs are not translated: bleu stays NaN. Over MPI the figures are complete at rank 0. */
enum ps_status ps_trainer_evaluate_get(struct ps_trainer *trainer, const struct ps_dataset *data,
                                       struct ps_evaluation *evaluation, size_t size, struct ps_error *error);
static inline enum ps_status ps_trainer_evaluate(struct ps_trainer *trainer, const struct ps_dataset *data,
                                                 struct ps_evaluation *evaluation, struct ps_error *error) {
    return ps_trainer_evaluate_get(trainer, data, evaluation, sizeof *evaluation, error);
}
/* Leaves a checkpoint of this step in `run_dir`, durable when it returns: the training's own directory (or NULL), or another,
 * which becomes a run directory that can be resumed. That must not hold a run yet. */
enum ps_status ps_trainer_save(struct ps_trainer *trainer, const char *run_dir, struct ps_error *error);
/* What the training came to so far, and the files that a run directory gets at the end: a checkpoint of this step, too, which
 * may be before the last and from which the run can be resumed. The trainer can only be destroyed then. */
enum ps_status ps_trainer_finish(struct ps_trainer *trainer, struct ps_run **run, struct ps_error *error);
/* At any time; NULL is fine. Over MPI, before ps_trainer_finish, it ends the training for all with PS_STOPPED. */
void ps_trainer_destroy(struct ps_trainer *trainer);

PS_GETTER(ps_run_info, ps_run)
PS_GETTER_AT(ps_run_worker, ps_run_worker, ps_run)
/* Of the process that runs the worker; zeroed where that is an earlier worker's. */
PS_GETTER_AT(ps_run_process, ps_run_process, ps_run)
int ps_run_point_count(const struct ps_run *run);
PS_GETTER_AT(ps_run_point, ps_run_point, ps_run)
/* On the validation data; NaN where not measured. */
double ps_run_point_metric(const struct ps_run_point *point, enum ps_metric metric);
/* A run that has ended, from its directory; its points are those of log.jsonl, with nine digits. PS_NO_CHECKPOINT: there is
 * none, or it has not ended. */
enum ps_status ps_run_read(const char *run_dir, struct ps_run **run, struct ps_error *error);
char *ps_run_json(const struct ps_run *run);
char *ps_run_table(const struct ps_run *run);
void ps_run_destroy(struct ps_run *run);

/* -------------------------------------------------------------- evaluation */

struct ps_evaluate_options {
    size_t struct_size;               /* ps_evaluate_options_init sets it */
    const char *run;                  /* a run directory, or */
    const struct ps_network *network; /* a network with its own weights (ps_network_initialize); of a run: NULL */
    const struct ps_dataset *data;    /* text is numbered by the run's words */
    const char *device;               /* NULL: "cpu" */
    int batch, threads;               /* 0: 64, 1 */
    int beam;                         /* of a translation: hypotheses that are kept; 0: 1, greedy */
    const char *translations;         /* a file that gets them, a line each; may be NULL */
    const struct ps_log_sink *log;    /* NULL: that of ps_log_to */
    const char
        *checkpoint; /* of the run: "newest" (NULL), "best" by its evaluations, or a step. PS_NO_CHECKPOINT: it is not there */
    /* Several workers, for a run whose network is too large for one: it is cut as in training, or for so many, and takes
     * training's memory. Over MPI (`transport` "mpi") all processes call, as for ps_train; the figures are rank 0's, others get
     * NaN. Translations are not decoded. 0 and NULL: one worker, here. */
    int workers;
    const char *transport;
};

void ps_evaluate_options_init(struct ps_evaluate_options *options);
/* Several threads may evaluate at the same time. */
enum ps_status ps_evaluate_get(const struct ps_evaluate_options *options, struct ps_evaluation *evaluation, size_t size,
                               struct ps_error *error);
static inline enum ps_status ps_evaluate(const struct ps_evaluate_options *options, struct ps_evaluation *evaluation,
                                         struct ps_error *error) {
    return ps_evaluate_get(options, evaluation, sizeof *evaluation, error);
}

/* Predictions of trained weights, which evaluate's options name likewise: of each sample what the network computes. */
struct ps_predict_options {
    size_t struct_size;               /* ps_predict_options_init sets it */
    const char *run;                  /* a run directory, or */
    const struct ps_network *network; /* a network with weights of its own (ps_network_initialize) */
    const struct ps_dataset *data;    /* without a target, too, where the format allows it: arrays and tables */
    /* A file that gets them. NAME.npz: the array "output", the numbers that the loss reads (logits, not probabilities), with
     * the shape that they have in PyTorch, and "labels" where the data have them. NAME.json, a list, NAME.jsonl, an object a
     * line, and any other name, CSV: classes have the most probable one and its probability, other networks their numbers, and
     * those of bce probabilities; pairs of sentences have their translation. Classes also have a name where the run's data
     * named them (folders of images, the files of names beside CIFAR's), or these data do. */
    const char *path;
    const char *device; /* NULL: "cpu" */
    int batch, threads; /* 0: 64, 1 */
    /* Instead of a file, or beside it: called for each sample, whose number in the data is given, in their order. `output` has
     * `count` numbers in PyTorch's order. */
    void (*take)(void *context, int64_t sample, const float *output, size_t count);
    void *context;
    const struct ps_log_sink *log; /* NULL: that of ps_log_to */
    const char
        *checkpoint; /* of the run: "newest" (NULL), "best" by its evaluations, or a step. PS_NO_CHECKPOINT: it is not there */
    const char *format; /* "csv", "json", "jsonl", "npz" or "table" (for people); NULL: as the path ends */
    int beam;           /* of translations; 0: 1, greedy */
    /* As in ps_evaluate_options. Over MPI rank 0 has the predictions, and only it calls `take`. `batch` is the run's then. */
    int workers;
    const char *transport;
};

void ps_predict_options_init(struct ps_predict_options *options);
/* Several threads may predict at the same time. PS_USAGE: translations have no `take` and fit into no .npz; one worker makes
 * them. */
enum ps_status ps_predict(const struct ps_predict_options *options, struct ps_error *error);

/* A text that a trained language model goes on with. */
struct ps_generate_options {
    size_t struct_size;               /* ps_generate_options_init sets it */
    const char *run;                  /* a run directory, whose vocabulary numbers the text; or */
    const struct ps_network *network; /* a network with weights of its own that predicts the next tokens, and */
    const char *vocabulary;           /* a run's vocabulary.json, or */
    const char *tokenizer;            /* a tokenizer.json; with neither tokens are numbers with blanks between them */
    const char *prompt;
    int tokens;         /* to be added; 0: 100 */
    double temperature; /* logits are divided by it, 1 from _init; 0: always the most probable token */
    int top_k;          /* of the so many most probable tokens; 0: of all */
    uint64_t seed;
    const char *path;              /* a file that gets the text, too; may be NULL */
    const char *device;            /* NULL: "cpu" */
    int threads;                   /* 0: 1 */
    const struct ps_log_sink *log; /* NULL: that of ps_log_to */
    const char
        *checkpoint; /* of the run: "newest" (NULL), "best" by its evaluations, or a step. PS_NO_CHECKPOINT: it is not there */
};

void ps_generate_options_init(struct ps_generate_options *options);
/* The prompt, as its tokens spell it, and what follows; free(). The network reads as many tokens at once as it has positions;
 * of a longer text it reads the end. PS_USAGE: the network is no language model, or does not know the prompt's tokens. */
enum ps_status ps_generate(const struct ps_generate_options *options, char **text, struct ps_error *error);

/* What ps_check_run compares with: one step of training. */
struct ps_check_options {
    size_t struct_size;   /* ps_check_options_init sets it */
    const char *against;  /* an .npz file (docs/formats.md); NULL: the device `reference`, on random data */
    const char *device;   /* NULL: "cpu" */
    int threads, workers; /* 0: 1; so many stages, which must give the bits of one */
    double tolerance;     /* of relative errors; 0: 1e-4 */
};
void ps_check_options_init(struct ps_check_options *options);

struct ps_check;
/* Relative errors: the largest absolute difference over the largest absolute value of the reference, of a gradient over the
 * larger of its own and a hundredth of the network's largest gradient. */
struct ps_check_info {
    double loss_error, output_error, worst; /* NaN: not in the reference */
    const char *worst_name;                 /* "loss", "output" or a parameter; NULL: there is no error */
    int gradients;
    bool agrees; /* worst is within the tolerance */
};
/* Behind the gradients of the network those that the reference alone has, which count as 0 in the network. */
struct ps_check_gradient {
    const char *name;
    double error; /* NaN: not in the reference */
};
/* PS_BAD_INPUT names what does not fit in the file, PS_FAILED says that stages compute other bits than one. */
enum ps_status ps_check_run(const struct ps_network *network, const struct ps_check_options *options, struct ps_check **check,
                            struct ps_error *error);
PS_GETTER(ps_check_info, ps_check)
PS_GETTER_AT(ps_check_gradient, ps_check_gradient, ps_check) /* from 0 */
char *ps_check_json(const struct ps_check *check);
char *ps_check_table(const struct ps_check *check);
void ps_check_destroy(struct ps_check *check);

/* ------------------------------------------------------------------ export */

struct ps_export_options {
    size_t struct_size; /* ps_export_options_init sets it */
    const char *run;    /* a run directory */
    const char *format; /* NULL: "safetensors"; "onnx": see below */
    const char *path;   /* of the file */
    /* of ONNX */
    bool training;        /* batch norm and dropout stay as they compute in training; else they are as at inference */
    bool annotate_stages; /* each node has its stage in the run's plan (pipeline_stage) */
    bool external_data;   /* weights go into `path`.data; without it only where the file would have 2 GB or more */
    const char *lora; /* of a network with adapters, as safetensors: "merged" or "apart", as ps_export_lora; NULL: both beside
                         each other */
    const char
        *checkpoint; /* of the run: "newest" (NULL), "best" by its evaluations, or a step. PS_NO_CHECKPOINT: it is not there */
};

void ps_export_options_init(struct ps_export_options *options);
/* Writes the weights of a run's newest checkpoint as one file. "safetensors": the parameters, in PyTorch's canonical layout, and
 * buffers of the ONNX file that the network came from, as PyTorch's state_dict has them; no constants, which are the network's.
 * "onnx": the graph of the ONNX file that the network came from, which the run keeps, with weights and running statistics in
 * place of its own, adapters added to the weights; PS_USAGE where the network came from elsewhere. */
enum ps_status ps_export_run(const struct ps_export_options *options, struct ps_error *error);
/* The same with nothing but these. */
enum ps_status ps_export(const char *run_dir, const char *format, const char *path, struct ps_error *error);
/* Of a network with low-rank adapters, as safetensors: "merged", all weights under the network's own names, with the adapters
 * added to those of their layers (PS_USAGE where two layers share such weights); or "apart", the adapters, whatever else was
 * trained and running statistics, as PEFT reads them: adapter_config.json is written into the same directory. */
enum ps_status ps_export_lora(const char *run_dir, const char *form, const char *path, struct ps_error *error);

/* -------------------------------------------------------------- comparison */

struct ps_comparison;

/* Every combination of what is listed. An empty list stands for what `planning` and `machines` say; no methods: "auto" and
 * every method whose plans can be run. */
struct ps_compare_options {
    size_t struct_size; /* ps_compare_options_init sets it */
    const char *const *methods, *const *schedules, *const *weights;
    int method_count, schedule_count, weights_count;
    const int *workers;
    int worker_count;
    const int64_t *memory_bytes;
    int memory_count;
    const double *bandwidth_bytes_per_s;
    int bandwidth_count;
    const struct ps_plan_options *planning;    /* NULL: the usual */
    const struct ps_cluster_options *machines; /* NULL: no limits */
    /* A cluster instead: its first workers, with memory and bandwidth of all changed where they are listed; without a list of
     * workers all of them. */
    const struct ps_cluster *cluster;
    int batch_per_worker; /* samples in a mini-batch for each worker, so that it grows with them; 0: as `planning` says */
    double target;        /* of training: what the metric of its data is to reach; 0: the best that all rows reach */
    const struct ps_log_sink *log; /* NULL: that of ps_log_to */
    const char *const *wires;      /* as ps_plan_options.wire; without them the codec of `planning` */
    int wire_count;
    /* Several networks: the costs of each (ps_compare), or each with its data and all else that training is told
     * (ps_compare_training). The argument of that name is NULL then. */
    const struct ps_profile *const *profiles;
    const struct ps_train_options *const *trainings;
    int profile_count, training_count;
    const uint64_t *seeds; /* of training: every combination once with each; none: the seed of the (first) training */
    int seed_count;
    /* Which measure ranks the rows: "throughput", "memory", of training also "metric" (of the validation data), "target" (the
     * time to it) and "loss". NULL: throughput; of training the metric, or without validation the loss. */
    const char *rank_by;
    /* How tables write the sizes and rates, as many as there are; NULL: in units of the library's choice. */
    const char *const *memory_texts, *const *bandwidth_texts;
    /*
     * A directory in which each row is kept as soon as it is done, a training as a run directory. The same comparison goes on
     * there: rows that are done are read, a training that was interrupted is resumed, so that after any number of kills the
     * learning of all rows is the same bit for bit. PS_USAGE: another comparison is there, or another process compares in it.
     * NULL: nothing is kept.
     */
    const char *out;
    const struct ps_observer *observer; /* its should_stop is asked before each row, and by each training; PS_STOPPED */
};

void ps_compare_options_init(struct ps_compare_options *options);

struct ps_comparison_row {
    const char *method, *schedule, *weights; /* as asked for; schedule and weights of the plan where there is one */
    const char *chosen;                      /* method of the plan; NULL where there is none */
    int workers;
    int64_t memory_limit_bytes;   /* 0: none */
    double bandwidth_bytes_per_s; /* 0: transfers cost nothing */
    const char *reason;           /* why there is no plan; NULL where there is one */
    bool simulated;               /* else only objective_s, lower_bound_s, gap and solve_s are known */
    double period_s, throughput_samples_per_s, bubble;
    double speedup; /* over one worker, the cluster's first, with the same mini-batches and memory enough */
    double objective_s, lower_bound_s, gap, solve_s;
    int64_t memory_bytes;       /* of the worker that needs most */
    int weight_copies;          /* of the worker that keeps most */
    int largest;                /* of ps_compare_largest: the option's largest value that fits; 0: none does */
    int64_t parameters;         /* likewise: of that network */
    bool trained;               /* then instead of the above, from period_s on: */
    const struct ps_run *run;   /* as long as the comparison lives; NULL: not trained */
    int64_t measured_bytes;     /* of the worker that took most */
    double best_valid_accuracy; /* NaN where nothing was validated */
    enum ps_metric metric;      /* by which training on these data is judged, on the validation data: */
    double best;                /* NaN where it was not measured */
    int best_epoch;
    double target, target_s;               /* seconds of training until the metric first reached it; NaN: it did not */
    int target_epoch;                      /* 0: it did not */
    const char *wire;                      /* as asked for; NULL: nothing was */
    const char *model;                     /* the network */
    int network;                           /* its number, from 0 */
    enum ps_status status;                 /* PS_OK, or what `reason` is of */
    int batch, micro_batch, micro_batches; /* of the plan: samples in a mini-batch, how it is cut; 0: there is none */
    int rank;      /* from 1, among all rows of the same network and machine; seeds of one combination share it. 0: none */
    uint64_t seed; /* of training */
    const char *precision;                /* of training: "f32", "bf16", "mixed" */
    const char *memory_limit, *bandwidth; /* as given; NULL: nobody said how */
    const char *directory;                /* where the row is kept; NULL: it is not */
};

struct ps_comparison_info {
    int rows, networks;
    int seeds;             /* rows of each combination, which stand together; 1 where nothing was said */
    const char *ranked_by; /* "throughput", "memory", "loss", "target" or "largest", or the metric of the first network:
                              "accuracy", "bleu", "perplexity" or "valid_loss" */
    const char *directory; /* NULL: nothing is kept */
};

/* Plans and simulates every combination. Those without a plan are rows too. */
enum ps_status ps_compare(const struct ps_profile *profile, const struct ps_compare_options *options,
                          struct ps_comparison **comparison, struct ps_error *error);
/* For every combination the largest network that there is a plan for: of `model` with its option `key` ("layers") as large as
 * it goes, or of a family of network files, "net-{layers}.json", one for each value; the row's other figures are those of that
 * network's plan. Costs are worked out for `device`, one of PS_TABLE_PROFILE_DEVICES that is not measured (NULL: "gpu:v100"),
 * at the micro-batch that the options say. What fits is taken to fit when smaller. PS_USAGE: no such option, or no limit of
 * memory. */
enum ps_status ps_compare_largest(const char *model, const char *key, const char *device,
                                  const struct ps_compare_options *options, struct ps_comparison **comparison,
                                  struct ps_error *error);
/* Trains every combination instead, as ps_train does with `train` but for its plan, cluster, planning, machines and files. Of
 * pairs the first 256 of `valid` are translated where valid_bleu is 0. A network without a profile is measured once, for all of
 * its rows. Fails where none can be trained. */
enum ps_status ps_compare_training(const struct ps_compare_options *options, const struct ps_train_options *train,
                                   struct ps_comparison **comparison, struct ps_error *error);
const char *ps_comparison_model(const struct ps_comparison *comparison);
/* The option whose largest values the rows have; NULL where it is no such comparison. */
const char *ps_comparison_largest(const struct ps_comparison *comparison);
int ps_comparison_count(const struct ps_comparison *comparison);
PS_GETTER(ps_comparison_info, ps_comparison)
PS_GETTER_AT(ps_comparison_row, ps_comparison_row, ps_comparison)
char *ps_comparison_json(const struct ps_comparison *comparison);
/* A file with a line for each row, with the fields of the JSON document's rows but for lists. */
enum ps_status ps_comparison_write_csv(const struct ps_comparison *comparison, const char *path, struct ps_error *error);
/* A picture: of each network bars of what ranks the rows, and where trainings were validated their curves over time. */
enum ps_status ps_comparison_write_svg(const struct ps_comparison *comparison, const char *path, struct ps_error *error);
/* For people, the best of each network and machine first, with means and standard deviations over the seeds; no line is longer
 * than 120 columns. */
char *ps_comparison_table(const struct ps_comparison *comparison);
/* A line for each machine (workers, bandwidth, memory), a column for each method with period and speed-up. */
char *ps_comparison_grid(const struct ps_comparison *comparison);
void ps_comparison_destroy(struct ps_comparison *comparison);

#ifdef __cplusplus
}
#endif
#endif
