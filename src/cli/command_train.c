/* penstock train: trains by a plan, or profiles and plans first. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/output.h"
#include "cli/planning.h"
#include "cli/process.h"
#include "cli/supervise.h"
#include "cli/training.h"
#include "comm/launch.h"

#define OF(member) offsetof(struct train_arguments, member)

static const struct argument what_rows[] = {
    OPTION("plan", 'p', "FILE", text, plan_path, "the plan to train by"),
    OPTION("profile", 'P', "FILE", text, profile_path, "its costs, for the prediction that is put beside the measurement"),
    OPTION("model", 'm', "NAME[,key=value...]", text, model,
           "a built-in network or a network file, which is profiled and planned for --workers first (where nothing is said as "
           "many workers and threads as are predicted to be fastest here); beside a plan the network that it is for"),
};
static const struct argument_group what_group = ARGUMENT_GROUP("What", what_rows);

static const struct argument data_rows[] = {
    OPTION("data", 'd', "SPEC", text, data, DATA_HELP),
    OPTION("valid", 0, "SPEC", text, valid, VALID_HELP),
    OPTION("batch", 'b', "N", integer, options.batch,
           "samples in a mini-batch, which the micro-batches must divide; 64 where nothing is said, for gpt2 and bert48 8",
           RANGE(1, 1 << 24)),
    OPTION("epochs", 'e', "N", integer, options.epochs,
           "passes over the data in all, with --resume those before included; 1 where nothing is said", RANGE(1, 1000000),
           .excludes = "steps"),
    OPTION("steps", 0, "N", integer, options.steps, "mini-batches in all, instead of epochs", RANGE(1, 1000000000)),
    OPTION("evaluate-every", 0, "N", integer, options.evaluate_every,
           "steps between evaluations, counted from the beginning of an epoch; 0: an epoch (0)", RANGE(0, 1000000000)),
    OPTION("valid-bleu", 0, "N", integer, options.valid_bleu,
           "translate the first N pairs of --valid at each evaluation, greedily, and count BLEU", RANGE(1, 1000000000)),
    OPTION("lengths", 0, "N[,N...]", text, options.lengths,
           "lengths below the network's seq, ascending: pairs are sorted into mini-batches by length, which are computed at "
           "the shortest that holds them"),
};
static const struct argument_group data_group = ARGUMENT_GROUP("Data and duration", data_rows);
/* Without the data, of which a comparison has several, and --batch, which planning without training has too. */
const struct argument_group training_length_group = {"Training", data_rows + 3, sizeof data_rows / sizeof data_rows[0] - 3};

static const struct argument rate_rows[] = {
    OPTION("lr", 0, "RATE", number, options.lr,
           "learning rate; without it the network's usual one, else 0.01 (sgd, sgdm) or 0.001 (adam, adamw)", RANGE(0, 1e6)),
    OPTION("momentum", 0, "U", number, options.momentum, "of sgdm (0.9)", RANGE(0, 1)),
    OPTION("dampening", 0, "T", number, options.dampening, "of sgdm's momentum (0)", RANGE(0, 1)),
    OPTION("weight-decay", 0, "L", number, options.weight_decay, "added to the gradient (0); adamw: decoupled from it (0.01)",
           RANGE(0, 1e6)),
    OPTION("betas", 0, "B1,B2", betas, betas, "of adam and adamw (0.9,0.999)", RANGE(0, 0.999999999)),
    OPTION("decay-exclude", 0, "biases|norms|biases,norms|none", text, options.decay_exclude,
           "what weight decay leaves alone (none)"),
    OPTION("groups", 0, "GLOB:lr=RATE,weight-decay=L[;GLOB:...]", text, options.groups,
           "parameters, by name, with a learning rate or a weight decay of their own; the first group that fits counts (none)"),
    OPTION("clip", 0, "NORM", number, options.clip,
           "shortens longer gradients to this norm, over the whole network; each stage its part; 0: leaves them (0)",
           RANGE(0, 1e12)),
    OPTION("label-smoothing", 0, "S", number, options.label_smoothing,
           "share of each label that is spread over all classes, in training", RANGE(0, 0.999999)),
    OPTION("eps", 0, "E", number, options.eps, "of adam and adamw (1e-8)", RANGE(0, 1)),
    OPTION("lr-schedule", 0, "NAME", text, options.lr_schedule,
           "constant (where nothing is said), step:AT[,AT...]:FACTOR (epochs, or steps as 4000s), poly:POWER or cosine"),
    SWITCH("lr-per-epoch", yes, options.lr_per_epoch, "the schedule moves between epochs only"),
    OPTION("warmup", 0, "STEPS", integer, options.warmup_steps,
           "steps in which the learning rate grows to its value; 0: none (0)", RANGE(0, 1000000000)),
};
const struct argument_group training_rate_group = ARGUMENT_GROUP("Optimizer", rate_rows);

static const struct argument where_rows[] = {
    OPTION("transport", 0, "NAME", name, options.transport, "how workers exchange blocks", .table = PS_TABLE_TRANSPORTS),
    OPTION_DEVICE(options.device),
    OPTION_THREADS(options.threads,
                   "threads of each worker; without it and --workers what is predicted to be fastest, or OMP_NUM_THREADS"),
    FLAG("no-cache", 0, no_cache,
         "measure the network anew, and do not keep its profile; profiles are kept in $XDG_CACHE_HOME/penstock or "
         "~/.cache/penstock"),
    SWITCH("emulate", yes, options.emulate,
           "play the cluster that --cluster or --bandwidth describe: slower workers, links that take their time"),
    OPTION("seed", 0, "N", seed, options.seed, "fixes everything random; 0 where nothing is said"),
    OPTION("out", 'o', "RUN_DIR", text, options.out, "directory for plan, configuration, log, weights and summary"),
    FLAG("trace", 0, options.trace, "also leave when each instruction ran: RUN_DIR/trace.json and timeline.svg"),
    FLAG("tensorboard", 0, options.tensorboard, "also write the curves for TensorBoard, as an event file in RUN_DIR"),
};
static const struct argument_group where_group = ARGUMENT_GROUP("Where", where_rows);
const struct argument_group training_where_group = {"Where", where_rows, 6}; /* without what a run directory holds */

static const char *const kept[] = {"newest", "best", NULL};

static const struct argument lasting_rows[] = {
    OPTION("checkpoint-every", 0, "N", integer, options.checkpoint_every,
           "a checkpoint every N steps, counted from the beginning of an epoch, beside those where it evaluates; 0: no others "
           "(0); needs --out",
           RANGE(0, 1000000000)),
    OPTION("checkpoint-minutes", 0, "M", number, options.checkpoint_minutes,
           "with --out: also a checkpoint when the last is M minutes old; 10 where nothing is said, 0: none. With weights that "
           "are "
           "not synchronous it sets --checkpoint-every, by the plan's prediction",
           RANGE(0, 1e6)),
    OPTION("keep-checkpoints", 0, "N", integer, options.keep_checkpoints, "the newest N stay (2)", RANGE(1, 1000000)),
    OPTION("keep", 0, "newest|best", choice, keep,
           "best: also that of the best evaluation on --valid, which `export --checkpoint best` and others take; without it "
           "newest",
           .choices = kept),
    OPTION("best-by", 0, "NAME", text, options.best_by,
           "what of the validation data is compared: loss, where nothing is said, accuracy, perplexity or bleu"),
    OPTION("patience", 0, "N", integer, options.patience,
           "training ends after N evaluations without a better one; 0: never (0)", RANGE(0, 1000000)),
    OPTION("resume", 0, "RUN_DIR", text, options.resume,
           "go on from the newest whole checkpoint of a run; plan, workers, device, transport, rates and length may be others",
           .excludes = "model init freeze lora batch valid-bleu lengths optimizer seed out"),
    SWITCH("no-lr-per-epoch", no, options.lr_per_epoch, "with --resume: the schedule moves with each step from there on",
           .excludes = "lr-per-epoch"),
    SWITCH("no-emulate", no, options.emulate, "with --resume: workers and links are as fast as they are from there on",
           .excludes = "emulate"),
    OPTION("restarts", 0, "N", integer, restarts,
           "train in a process of its own and start it again from its last checkpoint when it is lost, at most N times; needs "
           "--out",
           RANGE(1, 1000000)),
    OPTION("launch", 0, "COMMAND", text, launch,
           "with --restarts: what starts the processes, as in 'mpirun -n %d'; %d is the number of workers"),
};
static const struct argument_group lasting_group = ARGUMENT_GROUP("Lasting", lasting_rows);

void training_defaults(struct train_arguments *arguments) {
    ps_train_options_init(&arguments->options);
    ps_plan_options_init(&arguments->plan);
    ps_cluster_options_init(&arguments->cluster.options);
    arguments->keep = arguments->options.keep_best;
    arguments->betas = (struct betas){arguments->options.beta1, arguments->options.beta2};
}

void training_close(struct training *training) {
    ps_plan_destroy(training->plan);
    ps_profile_destroy(training->profile);
    ps_cluster_destroy(training->cluster);
    ps_network_destroy(training->network);
    ps_dataset_destroy(training->data);
    ps_dataset_destroy(training->valid);
}

/* What the paths and specs of the command line name. Files are rank 0's to read; the other processes get what it makes of
 * them. */
static enum ps_status open_objects(const struct train_arguments *arguments, struct training *training, struct ps_error *error) {
    if (launch_find().rank == 0) {
        if (arguments->profile_path) CHECK(ps_profile_read(arguments->profile_path, &training->profile, error));
        if (arguments->plan_path) CHECK(ps_plan_read(arguments->plan_path, &training->plan, error));
        if (arguments->cluster.path) CHECK(ps_cluster_read(arguments->cluster.path, &training->cluster, error));
        CHECK(network_arguments_open(&arguments->network, arguments->model, &training->network, error));
    }
    if (arguments->data) CHECK(ps_dataset_open(arguments->data, NULL, &training->data, error));
    if (arguments->valid) CHECK(ps_dataset_open(arguments->valid, NULL, &training->valid, error));
    return PS_OK;
}

/* Where profiles are kept; NULL: nobody says where. */
static const char *find_cache(char cache[4096]) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (base != NULL && base[0] == '/')
        snprintf(cache, 4096, "%s/penstock", base);
    else if (home != NULL && home[0] == '/')
        snprintf(cache, 4096, "%s/.cache/penstock", home);
    else
        return NULL;
    return cache;
}

enum ps_status training_open(const struct train_arguments *arguments, struct training *training, struct ps_error *error) {
    *training = (struct training){.options = arguments->options};
    if (arguments->options.evaluate_every > 0 && arguments->valid == NULL && arguments->options.resume == NULL)
        return message_set(error, PS_USAGE, "--evaluate-every: there is nothing to evaluate on; give --valid");
    CHECK(open_objects(arguments, training, error));
    struct ps_train_options *options = &training->options;
    options->plan = training->plan;
    options->profile = training->profile;
    options->cluster = training->cluster;
    options->network = training->network;
    options->data = training->data;
    options->valid = training->valid;
    options->planning = &arguments->plan;
    options->machines = &arguments->cluster.options;
    options->keep_best = arguments->keep;
    options->profile_cache = arguments->no_cache ? NULL : find_cache(training->cache);
    options->beta1 = arguments->betas.first;
    options->beta2 = arguments->betas.second;
    return PS_OK;
}

static void defaults(void *values) { training_defaults(values); }

/* What is refused is refused without a warning: it comes with the first question whether to stop, or at the end. */
struct unkept {
    bool warns;
    atomic_bool warned;
};

static void warn_unkept(struct unkept *unkept) {
    if (unkept->warns && !atomic_exchange(&unkept->warned, true))
        fprintf(stderr, "warn: nothing is kept of this run; --out RUN_DIR keeps weights, log and checkpoints\n");
}

static int should_stop(void *context) {
    warn_unkept(context);
    return stop_requested();
}

static enum ps_status train(const struct train_arguments *arguments, struct ps_run **run, struct ps_error *error) {
    const struct common_arguments *common = &arguments->common;
    const bool keeps = arguments->options.out != NULL || arguments->options.resume != NULL;
    struct unkept unkept = {.warns = !keeps && !common->quiet && common->log_level <= PS_LOG_WARN && launch_find().rank <= 0};
    const struct ps_observer observer = {.struct_size = sizeof observer, .context = &unkept, .should_stop = should_stop};
    struct training training;
    stop_on_signals();
    enum ps_status status = training_open(arguments, &training, error);
    if (status == PS_OK) {
        training.options.observer = &observer;
        status = ps_train(&training.options, run, error);
        if (status == PS_OK) warn_unkept(&unkept);
    } else {
        status = launch_fail(arguments->options.transport, status, error);
    }
    training_close(&training);
    return status;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct train_arguments *arguments = values;
    struct ps_run *run;
    if (arguments->launch != NULL && arguments->restarts == 0) {
        message_set(error, PS_USAGE, "--launch: needs --restarts N: how often what is lost may be started again");
        message_hint(error, "a launcher alone stands before the program, as in mpirun -n 4 penstock train");
        return PS_USAGE;
    }
    if (arguments->restarts > 0) return supervise(arguments, error);
    CHECK(train(arguments, &run, error));
    if (launch_find().rank > 0) {
        ps_run_destroy(run);
        return PS_OK;
    }
    enum ps_status status = output_text(arguments->common.json ? ps_run_json(run) : ps_run_table(run), error);
    ps_run_destroy(run);
    return status;
}

const struct command command_train = {
    .name = "train",
    .summary = "trains a network by a plan",
    .usage = "(--plan FILE | --model NAME [--workers P]) --data SPEC [options] | --resume RUN_DIR [options]",
    .description = {"Trains by a plan, or profiles a network and plans for it first. At the end it prints loss and "
                    "accuracy, and speed and memory as predicted and as measured.",
                    "Ctrl-C (SIGINT), SIGTERM and SIGHUP end it within seconds with status 75, and with --out a checkpoint of "
                    "the step that it is at; with weights that are not synchronous, of the last end of a segment "
                    "(--checkpoint-every). A second signal ends it at once. --resume then goes on, and ends with "
                    "the same weights, bit for bit, as if it had never stopped."},
    .example = "  penstock train --model lenet5 --workers 4 --schedule 1f1b-async --weights pipeoptim \\\n"
               "      --data idx:data/fashion_mnist --valid idx:data/fashion_mnist --batch 64 --micro-batch 16 \\\n"
               "      --optimizer adam --lr 1e-3 --epochs 1 --out runs/lenet5",
    .size = sizeof(struct train_arguments),
    .groups = {{&what_group, 0},
               {&workers_group, offsetof(struct train_arguments, cluster)},
               {&network_group, OF(network)},
               {&data_group, 0},
               {&training_rate_group, 0},
               {&where_group, 0},
               {&lasting_group, 0},
               {&cluster_group, offsetof(struct train_arguments, cluster)},
               {&plan_group, offsetof(struct train_arguments, plan)},
               {&common_group, 0}},
    .defaults = defaults,
    .every_rank = true,
    .run = run,
};
