/* penstock train: trains by a plan, or profiles and plans first. */
#include <math.h>
#include <stdio.h>

#include "cli/guard.h"
#include "cli/output.h"
#include "cli/planning.h"
#include "cli/signals.h"
#include "cli/supervise.h"
#include "cli/training.h"

#define OF(member) offsetof(struct train_arguments, member)

static const struct argument what_rows[] = {
    {.name = "plan",
     .letter = 'p',
     .value = "FILE",
     .help = "the plan to train by",
     .offset = OF(options.plan_path),
     .read = argument_read_text,
     .excludes = "model"},
    {.name = "profile",
     .letter = 'P',
     .value = "FILE",
     .help = "its costs, for the prediction that is put beside the measurement",
     .offset = OF(options.profile_path),
     .read = argument_read_text},
    {.name = "model",
     .letter = 'm',
     .value = "NAME[,key=value...]",
     .help = "a built-in network, which is profiled and planned for --workers first",
     .offset = OF(options.model),
     .read = argument_read_text},
};
static const struct argument_group what_group = ARGUMENT_GROUP("What", what_rows);

static const struct argument data_rows[] = {
    {.name = "data",
     .letter = 'd',
     .value = "SPEC",
     .help = "training data: idx:DIR, cifar10:DIR, cifar100:DIR, images:DIR, reviews:FILE, text:FILE, pairs:PREFIX:SRC:TGT or "
             "synthetic:KIND; a suffix @A-B takes samples A to B-1",
     .offset = OF(options.data),
     .read = argument_read_text},
    {.name = "valid",
     .value = "SPEC",
     .help = "data to evaluate on after each segment",
     .offset = OF(options.valid),
     .read = argument_read_text},
    {.name = "batch",
     .letter = 'b',
     .value = "N",
     .help = "samples in a mini-batch; the micro-batches must divide it",
     .offset = OF(options.batch),
     .read = argument_read_integer,
     .low = 1,
     .high = 1 << 24},
    {.name = "epochs",
     .letter = 'e',
     .value = "N",
     .help = "passes over the data",
     .offset = OF(options.epochs),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000,
     .excludes = "steps"},
    {.name = "steps",
     .value = "N",
     .help = "mini-batches, instead of epochs",
     .offset = OF(options.steps),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000000},
    {.name = "evaluate-every",
     .value = "N",
     .help = "steps between evaluations, counted from the beginning of an epoch; without it an epoch",
     .offset = OF(options.evaluate_every),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000000},
    {.name = "valid-bleu",
     .value = "N",
     .help = "translate the first N pairs of --valid at each evaluation, greedily, and count BLEU",
     .offset = OF(options.valid_bleu),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000000},
    {.name = "lengths",
     .value = "N[,N...]",
     .help = "lengths below the network's seq, ascending: pairs are sorted into mini-batches by length, which are computed at "
             "the shortest that holds them",
     .offset = OF(options.lengths),
     .read = argument_read_text},
};
static const struct argument_group data_group = ARGUMENT_GROUP("Data and duration", data_rows);
/* Around --batch, which planning without training has too. */
const struct argument_group training_data_group = {"Training", data_rows, 2};
const struct argument_group training_length_group = {NULL, data_rows + 3, sizeof data_rows / sizeof data_rows[0] - 3};

static const struct argument rate_rows[] = {
    {.name = "lr",
     .value = "RATE",
     .help = "learning rate",
     .offset = OF(options.lr),
     .read = argument_read_number,
     .low = 0,
     .high = 1e6},
    {.name = "momentum",
     .value = "U",
     .help = "of sgdm",
     .offset = OF(options.momentum),
     .read = argument_read_number,
     .low = 0,
     .high = 1},
    {.name = "dampening",
     .value = "T",
     .help = "of sgdm's momentum",
     .offset = OF(options.dampening),
     .read = argument_read_number,
     .low = 0,
     .high = 1},
    {.name = "weight-decay",
     .value = "L",
     .help = "added to the gradient; adamw: decoupled from it",
     .offset = OF(options.weight_decay),
     .read = argument_read_number,
     .low = 0,
     .high = 1e6},
    {.name = "betas",
     .value = "B1,B2",
     .help = "of adam and adamw",
     .offset = OF(betas),
     .read = argument_read_betas,
     .low = 0,
     .high = 0.999999999},
    {.name = "decay-exclude",
     .value = "biases|norms|biases,norms",
     .help = "what weight decay leaves alone",
     .offset = OF(options.decay_exclude),
     .read = argument_read_text},
    {.name = "clip",
     .value = "NORM",
     .help = "shortens longer gradients to this norm, over the whole network; each stage its part",
     .offset = OF(options.clip),
     .read = argument_read_number,
     .low = 1e-12,
     .high = 1e12},
    {.name = "label-smoothing",
     .value = "S",
     .help = "share of each label that is spread over all classes, in training",
     .offset = OF(options.label_smoothing),
     .read = argument_read_number,
     .low = 0,
     .high = 0.999999},
    {.name = "eps",
     .value = "E",
     .help = "of adam and adamw",
     .offset = OF(options.eps),
     .read = argument_read_number,
     .low = 0,
     .high = 1},
    {.name = "lr-schedule",
     .value = "NAME",
     .help = "constant, step:AT[,AT...]:FACTOR (epochs, or steps as 4000s), poly:POWER or cosine",
     .offset = OF(options.lr_schedule),
     .read = argument_read_text},
    {.name = "lr-per-epoch", .help = "the schedule moves between epochs only", .offset = OF(options.lr_per_epoch)},
    {.name = "warmup",
     .value = "STEPS",
     .help = "steps in which the learning rate grows to its value",
     .offset = OF(options.warmup_steps),
     .read = argument_read_integer,
     .low = 0,
     .high = 1000000000},
};
const struct argument_group training_rate_group = ARGUMENT_GROUP("Optimizer", rate_rows);

static const struct argument where_rows[] = {
    {.name = "transport",
     .value = "NAME",
     .help = "how workers exchange blocks",
     .offset = OF(options.transport),
     .read = argument_read_name,
     .table = PS_TABLE_TRANSPORTS},
    ARGUMENT_DEVICE(OF(options.device)),
    ARGUMENT_THREADS(OF(options.threads), "threads of each worker"),
    {.name = "emulate",
     .help = "play the cluster that --cluster or --bandwidth describe: slower workers, links that take their time",
     .offset = OF(options.emulate)},
    {.name = "seed",
     .value = "N",
     .help = "fixes everything random; 0 where nothing is said",
     .offset = OF(options.seed),
     .read = argument_read_seed},
    {.name = "out",
     .letter = 'o',
     .value = "RUN_DIR",
     .help = "directory for plan, configuration, log, weights and summary",
     .offset = OF(options.out),
     .read = argument_read_text},
    {.name = "trace",
     .help = "also leave when each instruction ran: RUN_DIR/trace.json and timeline.svg",
     .offset = OF(options.trace)},
};
static const struct argument_group where_group = ARGUMENT_GROUP("Where", where_rows);
const struct argument_group training_where_group = {"Where", where_rows, 5}; /* without what a run directory holds */

static const struct argument lasting_rows[] = {
    {.name = "checkpoint-every",
     .value = "N",
     .help = "a checkpoint every N steps, counted from the beginning of an epoch, beside those where it evaluates; needs --out",
     .offset = OF(options.checkpoint_every),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000000},
    {.name = "keep-checkpoints",
     .value = "N",
     .help = "the newest N stay (2)",
     .offset = OF(options.keep_checkpoints),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000},
    {.name = "resume",
     .value = "RUN_DIR",
     .help = "go on from the newest whole checkpoint of a run; plan, workers, device and transport may be others",
     .offset = OF(options.resume),
     .read = argument_read_text,
     .excludes = "model batch epochs steps evaluate-every valid-bleu lengths checkpoint-every optimizer lr momentum dampening "
                 "weight-decay betas eps lr-schedule lr-per-epoch warmup clip label-smoothing decay-exclude seed out"},
    {.name = "restarts",
     .value = "N",
     .help = "train in a process of its own and start it again from its last checkpoint when it is lost, at most N times; "
             "needs --out",
     .offset = OF(restarts),
     .read = argument_read_integer,
     .low = 1,
     .high = 1000000},
    {.name = "launch",
     .value = "COMMAND",
     .help = "with --restarts: what starts the processes, as in 'mpirun -n %d'; %d is the number of workers",
     .offset = OF(launch),
     .read = argument_read_text},
};
static const struct argument_group lasting_group = ARGUMENT_GROUP("Lasting", lasting_rows);

void training_defaults(struct train_arguments *arguments) {
    ps_train_options_init(&arguments->options);
    arguments->cluster.options = arguments->options.cluster;
    arguments->plan = arguments->options.plan;
    arguments->betas = (struct betas){arguments->options.beta1, arguments->options.beta2};
}

struct ps_train_options training_options(const struct train_arguments *arguments) {
    struct ps_train_options options = arguments->options;
    options.cluster_path = arguments->cluster.path;
    options.cluster = arguments->cluster.options;
    options.plan = arguments->plan;
    options.beta1 = arguments->betas.first;
    options.beta2 = arguments->betas.second;
    return options;
}

static void defaults(void *values) { training_defaults(values); }

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct train_arguments *arguments = values;
    struct ps_train_options options = training_options(arguments);
    struct ps_run *run;
    if (arguments->launch != NULL && arguments->restarts == 0)
        return message_set(error, PS_USAGE, "--launch: is for --restarts; without it, write it before penstock");
    if (arguments->restarts > 0) return supervise(arguments, error);
    if (ps_process_count() > 1) CHECK(guard_split(error));
    options.stop = stop_on_signals();
    enum ps_status status = ps_train(&options, &run, error);
    guard_done();
    CHECK(status);
    if (ps_process_rank() > 0) {
        ps_run_destroy(run);
        return PS_OK;
    }
    status = output_text(arguments->common.json ? ps_run_json(run) : ps_run_table(run), error);
    ps_run_destroy(run);
    return status;
}

const struct command command_train = {
    .name = "train",
    .summary = "trains a network by a plan",
    .usage = "(--plan FILE | --model NAME --workers P) --data SPEC [options] | --resume RUN_DIR [options]",
    .description = {"Trains by a plan, or profiles a network and plans for it first. At the end it prints loss and "
                    "accuracy, and speed and memory as predicted and as measured.",
                    "SIGTERM, SIGINT and SIGHUP end it within seconds with status 75; what was trained since the "
                    "last checkpoint is lost. A second signal ends it at once. --resume then goes on, and ends with "
                    "the same weights, bit for bit, as if it had never stopped."},
    .example = "  penstock train --model lenet5 --workers 4 --schedule 1f1b-async --weights pipeoptim \\\n"
               "      --data idx:data/fashion_mnist --valid idx:data/fashion_mnist --batch 64 --micro-batch 16 \\\n"
               "      --optimizer adam --lr 1e-3 --epochs 1 --out runs/lenet5",
    .size = sizeof(struct train_arguments),
    .groups = {{&what_group, 0},
               {&workers_group, offsetof(struct train_arguments, cluster)},
               {&data_group, 0},
               {&training_rate_group, 0},
               {&where_group, 0},
               {&lasting_group, 0},
               {&cluster_group, offsetof(struct train_arguments, cluster)},
               {&plan_group, offsetof(struct train_arguments, plan)},
               {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
