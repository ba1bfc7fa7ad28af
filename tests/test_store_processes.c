/*
 * A checkpoint of workers that are processes of their own: rank 0 writes to the byte what one process with all workers writes,
 * and what it loads comes to each of them. Ranks are threads here, which give each other blocks by queues. And what a run
 * begins with that its checkpoint lacks.
 */
#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "exec/program_set.h"
#include "graph/network.h"
#include "run_support.h"
#include "store/checkpoint_writer.h"
#include "store/stage_proxies.h"

/* ------------------------------------------------------------------------- messages */

enum { RANKS = 6 };
/* For a message that never comes. */
#define PATIENCE_S 60.0

static _Thread_local int own_rank;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool broken; /* a message was not what the other end waited for */

struct message {
    struct message *next;
    int peer, tag;
    void *block; /* of an outgoing one: a copy */
    size_t most, size;
    double until_s; /* 0: it goes out */
};
static struct message *queues[RANKS][RANKS]; /* from, to */

static enum ps_status message_create(size_t size, struct message **message, struct ps_error *error) {
    (void)error;
    *message = calloc(1, sizeof **message);
    assert_non_null(*message);
    (*message)->most = size;
    return PS_OK;
}

static void message_destroy(struct message *message) { free(message); }

static void message_start(struct message *message, int peer, int tag, bool outgoing, void *block, size_t size) {
    message->peer = peer;
    message->tag = tag;
    message->block = block;
    message->size = size;
    message->until_s = outgoing ? 0 : clock_now() + PATIENCE_S;
    if (!outgoing) return;
    struct message *sent = malloc(sizeof *sent), **last = &queues[own_rank][peer];
    *sent = *message;
    sent->block = malloc(size);
    memcpy(sent->block, block, size);
    pthread_mutex_lock(&lock);
    while (*last) last = &(*last)->next;
    *last = sent;
    pthread_mutex_unlock(&lock);
}

static bool message_done(struct message *message) {
    if (message->until_s == 0) return true;
    pthread_mutex_lock(&lock);
    struct message *sent = queues[message->peer][own_rank];
    if (sent) {
        queues[message->peer][own_rank] = sent->next;
        if (sent->tag == message->tag && sent->size == message->size)
            memcpy(message->block, sent->block, sent->size);
        else
            broken = true;
        free(sent->block);
        free(sent);
    }
    const bool late = !sent && (broken || clock_now() > message->until_s);
    broken = broken || late;
    pthread_mutex_unlock(&lock);
    return sent || late;
}

static const char *no_failure(void) { return NULL; }

static const struct processes_class queued = {.name = "queues",
                                              .message_create = message_create,
                                              .message_destroy = message_destroy,
                                              .message_start = message_start,
                                              .message_done = message_done,
                                              .failure = no_failure};

/* ------------------------------------------------------------------------- making */

/* What all executors of a case are made of. */
struct made {
    struct ps_plan *plan;
    struct ps_network *network;
    struct program_set set;
    struct update_rule rule;
    struct worker_options options;
};

static void make(struct made *made, struct run_case wanted) {
    wanted = run_case_complete(wanted);
    const struct segment_lengths lengths = {.steps = 3, .micro_batches = wanted.micro_batches};
    const struct update_request rule = {.optimizer = wanted.optimizer, .settings = {NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
    *made = (struct made){.plan = run_case_plan(&wanted)};
    assert_true(made->plan->workers <= RANKS);
    assert_ok(ps_network_open(wanted.model, &made->network, &test_error));
    assert_ok(program_set_create(made->plan, &lengths, 0, 0, &made->set, &test_error));
    assert_ok(update_rule_choose(&rule, wanted.weights, false, &made->rule, &test_error));
    struct worker_options *options = &made->options;
    *options = (struct worker_options){.threads = 1,
                                       .graph = made->network->graph,
                                       .plan = made->plan,
                                       .samples = wanted.micro_batch,
                                       .slots = made->set.slots,
                                       .programs = made->set.entries[0].programs,
                                       .rule = &made->rule};
    assert_ok(device_find(test_device("cpu"), &options->device, &test_error));
    assert_ok(plan_moments(made->plan, &options->moments, &test_error));
    assert_int_equal(options->moments, made->rule.moments);
}

static void forget(struct made *made) {
    program_set_free(&made->set);
    ps_network_destroy(made->network);
    ps_plan_destroy(made->plan);
}

/* A process of the run. */
struct rank {
    struct processes processes;
    struct executor *executor;
    const struct worker_options *options;
    enum ps_status (*does)(struct executor *executor, const struct worker_options *options, struct ps_error *error);
    enum ps_status status;
    struct ps_error error;
    pthread_t thread;
};

/* One of `count` processes, with its workers' memory. */
static void make_rank(const struct made *made, int number, int count, struct rank *rank) {
    *rank = (struct rank){.processes = {.class = &queued, .rank = number, .count = count}, .options = &made->options};
    const struct executor_options options = {
        .worker = &made->options, .processes = &rank->processes, .rule = &made->rule, .step_capacity = 3};
    assert_ok(executor_create(&options, &rank->executor, &test_error));
    for (int w = 0; w < made->plan->workers; w++)
        if (executor_has(rank->executor, w))
            assert_ok(worker_take_memory(&rank->executor->workers[w], &made->options, &test_error));
}

static void *rank_main(void *argument) {
    struct rank *rank = argument;
    own_rank = rank->processes.rank;
    rank->status = rank->does(rank->executor, rank->options, &rank->error);
    return NULL;
}

/* All ranks but 0 do something. */
static void begin(struct rank *ranks, int count,
                  enum ps_status (*does)(struct executor *executor, const struct worker_options *options,
                                         struct ps_error *error)) {
    for (int r = 1; r < count; r++) {
        ranks[r].does = does;
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]), 0);
    }
}

/* They are done, and each message was taken. */
static void end(struct rank *ranks, int count) {
    for (int r = 1; r < count; r++) {
        pthread_join(ranks[r].thread, NULL);
        assert_int_equal(ranks[r].status, PS_OK);
        assert_null(queues[0][r]);
        assert_null(queues[r][0]);
    }
    assert_false(broken);
}

/* ------------------------------------------------------------------------- contents */

/* The numbers of a parameter of a stage: the same for all replicas, and for both halves of a split one. */
static float *draw(const struct worker_stage *stage, int parameter, int of, uint64_t turn, size_t count) {
    const uint64_t stream = ((turn * 64 + (uint64_t)stage->number) * 256 + (uint64_t)parameter) * 16 + (uint64_t)of;
    float *numbers = malloc((count + 1) * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++) numbers[i] = 0.5f + random_uniform(test_key(stream), i);
    return numbers;
}

static void fill_stage(struct device *device, struct worker_stage *stage, int moments, uint64_t turn) {
    stage->update.done = (int64_t)turn * 100 + stage->number;
    for (int p = 0; p < stage_parameter_count(stage->stage); p++) {
        const struct parameter *parameter = stage_parameter(stage->stage, p);
        const size_t count = (size_t)shape_elements(&parameter->shape);
        float *numbers = draw(stage, p, 0, turn, count);
        /* What is of several stages is the same in all of them. */
        for (size_t i = 0; i < count && parameter->shared; i++) numbers[i] = (float)turn / 7 + (float)i / 16;
        assert_ok(worker_stage_import(stage, p, numbers, &test_error));
        free(numbers);
        for (int m = 0; m < moments && parameter->role == PARAMETER_TRAINED && !stage->slots.forward_only; m++) {
            numbers = draw(stage, p, 1 + m, turn, count);
            for (size_t i = 0; i < count && parameter->shared; i++) numbers[i] = (float)turn / 3 + (float)i / 16 + (float)m;
            assert_ok(stage_import_f32(stage->stage, p, numbers, stage->update.moment[m], NULL, &test_error));
            free(numbers);
        }
    }
    for (int b = 0; b < WIRE_CODED; b++) {
        const size_t count = worker_feedback_floats(stage, b);
        float *numbers = draw(stage, stage->replica, 8 + b, turn, count);
        if (count > 0) assert_ok(worker_feedback_move(device, stage, b, true, numbers, &test_error));
        free(numbers);
    }
}

static void fill(const struct rank *rank, uint64_t turn) {
    for (int w = 0; w < rank->executor->worker_count; w++)
        for (int s = 0; executor_has(rank->executor, w) && s < rank->executor->workers[w].stage_count; s++) {
            struct worker *worker = &rank->executor->workers[w];
            fill_stage(worker->device, &worker->stages[s], rank->options->moments, turn);
        }
}

/* All numbers of a stage, one after the other. */
static size_t list(struct device *device, const struct worker_stage *stage, int moments, float *out) {
    size_t all = 0;
    for (int p = 0; p < stage_parameter_count(stage->stage); p++) {
        const struct parameter *parameter = stage_parameter(stage->stage, p);
        const size_t count = (size_t)shape_elements(&parameter->shape);
        if (out) assert_ok(worker_stage_export(stage, p, out + all, &test_error));
        all += count;
        if (out) assert_ok(stage_export(stage->stage, p, stage->weights[0], stage->statistics, out + all, &test_error));
        all += count;
        for (int m = 0; m < moments && parameter->role == PARAMETER_TRAINED && !stage->slots.forward_only; m++, all += count)
            if (out) assert_ok(stage_export_f32(stage->stage, p, stage->update.moment[m], NULL, out + all, &test_error));
    }
    for (int b = 0; b < WIRE_CODED; b++) {
        const size_t count = worker_feedback_floats(stage, b);
        if (out && count > 0) assert_ok(worker_feedback_move(device, stage, b, false, out + all, &test_error));
        all += count;
    }
    return all;
}

static float *listed(const struct worker *worker, int s, int moments, size_t *count) {
    const struct worker_stage *stage = &worker->stages[s];
    *count = list(worker->device, stage, moments, NULL);
    float *numbers = malloc(*count * sizeof *numbers);
    assert_non_null(numbers);
    assert_int_equal(list(worker->device, stage, moments, numbers), *count);
    return numbers;
}

/* A worker of two executors holds the same. */
static void assert_same(const struct worker *one, const struct worker *other, int moments) {
    size_t counts[2];
    assert_int_equal(one->stage_count, other->stage_count);
    for (int s = 0; s < one->stage_count; s++) {
        float *a = listed(one, s, moments, &counts[0]), *b = listed(other, s, moments, &counts[1]);
        assert_int_equal(one->stages[s].update.done, other->stages[s].update.done);
        assert_int_equal(counts[0], counts[1]);
        assert_memory_equal(a, b, counts[0] * sizeof *a);
        free(a);
        free(b);
    }
}

/* ------------------------------------------------------------------------- checkpoints */

static void write_image(const struct checkpoint_image *image, const char *name, char directory[4096]) {
    struct checkpoint_state state = {.model = "m", .step = 7};
    for (double *figure = &state.figures.loss; figure <= &state.figures.elapsed_s; figure++) *figure = NAN;
    assert_ok(file_make_directory(file_join(directory, test_directory, name), &test_error));
    assert_ok(checkpoint_image_write(image, &state, directory, &test_error));
}

static void assert_same_files(const char *one, const char *other) {
    char command[3 * 4096];
    snprintf(command, sizeof command, "diff -r '%s' '%s'", one, other);
    assert_int_equal(system(command), 0);
}

static void remove_files(const char *directory) { assert_ok(file_remove_directory(directory, &test_error)); }

/* Written twice with other contents: by one process, and by rank 0 of several. */
static void check_written(const struct made *made, struct rank *whole, struct rank *ranks, int count) {
    struct checkpoint_image one, several;
    char alone[4096], together[4096];
    assert_ok(proxies_make(ranks[0].executor, &made->options, &test_error));
    assert_ok(checkpoint_image_create(whole->executor, made->plan, &one, &test_error));
    assert_ok(checkpoint_image_create(ranks[0].executor, made->plan, &several, &test_error));
    for (uint64_t turn = 1; turn <= 2; turn++) {
        fill(whole, turn);
        for (int r = 0; r < count; r++) fill(&ranks[r], turn);
        assert_ok(checkpoint_image_take(&one, &test_error));
        begin(ranks, count, proxies_send);
        assert_ok(checkpoint_image_take(&several, &test_error));
        end(ranks, count);
        /* They travel in one block, in which nothing else has room. */
        for (int r = 1; r < count; r++)
            assert_int_equal(ranks[r].executor->travelling.used, ranks[r].executor->travelling.size);
        write_image(&one, "alone", alone);
        write_image(&several, "together", together);
        assert_same_files(alone, together);
        remove_files(together);
        if (turn == 1) remove_files(alone);
    }
    checkpoint_image_free(&one);
    checkpoint_image_free(&several);
}

/* Of other processes' stages rank 0 holds what a checkpoint has, and nothing else. */
static void check_proxies(const struct made *made, const struct executor *executor) {
    for (int r = 1; r < executor->worker_count; r++) {
        const struct memory_block *memory = &executor->workers[r].memory;
        assert_true(memory->size > 0);
        assert_int_equal(memory->used, memory->size);
        for (int s = 0; s < executor->workers[r].stage_count; s++) {
            const struct worker_stage *stage = &executor->workers[r].stages[s];
            const bool updates = !stage->slots.forward_only;
            assert_true((stage->update.master != NULL) == (updates && stage->sizes.narrow_bytes > 0));
            for (int m = 0; m < UPDATE_MOMENTS_MAX; m++)
                assert_true((stage->update.moment[m] != NULL) == (updates && m < made->options.moments));
            for (int b = 0; b < WIRE_CODED; b++)
                assert_true((stage->feedback[b] != NULL) == (worker_feedback_bytes(stage, b) > 0));
        }
    }
}

/* What was written is loaded by others: by one process, and by rank 0, which gives the rest to the ranks. */
static void check_loaded(const struct made *made, const struct rank *filled, struct rank *whole, struct rank *ranks,
                         int count) {
    struct checkpoint checkpoint = {0};
    struct checkpoint_image image;
    char again[4096];
    const int moments = made->options.moments;
    file_join(checkpoint.directory, test_directory, "alone");
    assert_ok(checkpoint_state_read(&checkpoint, &test_error));
    assert_ok(checkpoint_load(&checkpoint, whole->executor, made->plan, made->network->graph, &test_error));
    assert_ok(proxies_make(ranks[0].executor, &made->options, &test_error));
    assert_ok(checkpoint_load(&checkpoint, ranks[0].executor, made->plan, made->network->graph, &test_error));
    int64_t bytes = 0;
    check_proxies(made, ranks[0].executor);
    for (int r = 1; r < count; r++) bytes += (int64_t)ranks[0].executor->workers[r].memory.size;
    begin(ranks, count, proxies_release);
    assert_ok(proxies_release(ranks[0].executor, &made->options, &test_error));
    end(ranks, count);
    assert_true(bytes > 0);
    assert_int_equal(ranks[0].executor->proxy_bytes, bytes);
    for (int r = 0; r < count; r++) {
        assert_same(&ranks[r].executor->workers[r], &whole->executor->workers[r], moments);
        assert_true((ranks[0].executor->workers[r].memory.base != NULL) == (r == 0));
    }
    /* Nothing is lost or changed on the way. */
    for (int w = 0; w < count; w++) assert_same(&whole->executor->workers[w], &filled->executor->workers[w], moments);
    assert_ok(checkpoint_image_create(whole->executor, made->plan, &image, &test_error));
    assert_ok(checkpoint_image_take(&image, &test_error));
    write_image(&image, "again", again);
    assert_same_files(checkpoint.directory, again);
    checkpoint_image_free(&image);
    remove_files(again);
    remove_files(checkpoint.directory);
    checkpoint_free(&checkpoint);
}

static void check(struct run_case wanted) {
    struct made made;
    struct rank whole[2], ranks[2][RANKS];
    make(&made, wanted);
    const int count = made.plan->workers;
    for (int i = 0; i < 2; i++) {
        make_rank(&made, 0, 1, &whole[i]);
        for (int r = 0; r < count; r++) make_rank(&made, r, count, &ranks[i][r]);
    }
    check_written(&made, &whole[0], ranks[0], count);
    check_loaded(&made, &whole[0], &whole[1], ranks[1], count);
    for (int i = 0; i < 2; i++) {
        executor_destroy(whole[i].executor);
        for (int r = 0; r < count; r++) executor_destroy(ranks[i][r].executor);
    }
    forget(&made);
}

static void test_processes(void **state) {
    (void)state;
    const struct split_case split = {
        .layers = 7, .workers = 3, .forward = {0, 0, 1, 1, 1, 2, 2}, .backward = {0, 1, 1, 1, 2, 2, 2}};
    const struct run_case cases[] = {
        {.workers = 3, .schedule = "1f1b-async", .weights = "stash"},
        {.workers = 2, .schedule = "1f1b-async", .weights = "xpipe", .micro_batches = 2},
        {.workers = 2, .schedule = "interleaved", .micro_batches = 2, .optimizer = "adam"},
        {.workers = 2, .model = "resnet,input=8,classes=5", .optimizer = "sgd"},
        {.workers = 2, .model = "gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", .optimizer = "adam"},
        {.workers = 3, .model = "lenet5,input=16,classes=4,precision=mixed", .optimizer = "adam"},
        {.split = &split, .schedule = "1f1b-async", .weights = "pipeoptim", .optimizer = "adam"},
        {.split = &split,
         .model = "lenet5,input=16,classes=4,precision=bf16",
         .schedule = "1f1b-async",
         .weights = "pipeoptim"},
        {.workers = 2, .schedule = "1f1b-async", .weights = "stash", .wire = "topk:0.2/none"}, /* one block has feedback */
        {.replicas = {1, 2}, .schedule = "1f1b-async", .weights = "stash", .wire = "topk:0.2/int8"},
        {.replicas = {2, 2}, .model = "gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", .micro_batches = 2, .wire = "topk:0.5"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        if (test_takes(c, 3)) check(cases[c]);
}

static void keep_warnings(void *context, enum ps_log_level level, const char *text) {
    if (level == PS_LOG_WARN) text_add(context, "%s\n", text);
}

/* Loads what `written` left into a process with all workers of `read`; what is logged must be `said`, behind the directory. */
static void check_missing(struct run_case written, struct run_case read, const char *said) {
    struct made made[2];
    struct rank ranks[2];
    struct checkpoint_image image;
    struct checkpoint checkpoint = {0};
    struct text warnings = {0}, wanted = {0};
    const struct ps_log_sink sink = {
        .struct_size = sizeof sink, .context = &warnings, .level = PS_LOG_WARN, .line = keep_warnings};
    make(&made[0], written);
    make(&made[1], read);
    for (int i = 0; i < 2; i++) make_rank(&made[i], 0, 1, &ranks[i]);
    fill(&ranks[0], 1);
    assert_ok(checkpoint_image_create(ranks[0].executor, made[0].plan, &image, &test_error));
    assert_ok(checkpoint_image_take(&image, &test_error));
    write_image(&image, "missing", checkpoint.directory);
    checkpoint_image_free(&image);
    assert_ok(checkpoint_state_read(&checkpoint, &test_error));
    assert_ok(ps_log_to(&sink, &test_error));
    assert_ok(checkpoint_load(&checkpoint, ranks[1].executor, made[1].plan, made[1].network->graph, &test_error));
    assert_ok(ps_log_to(NULL, &test_error));
    for (const char *at = said; *at != '\0'; at = strchr(at, '\n') + 1)
        text_add(&wanted, "%s: %.*s\n", checkpoint.directory, (int)strcspn(at, "\n"), at);
    assert_string_equal(warnings.data != NULL ? warnings.data : "", wanted.data != NULL ? wanted.data : "");
    /* The moments that both have are there, and the others are zero. */
    for (int w = 0; w < 2; w++) {
        const struct worker_stage *from = &ranks[0].executor->workers[w].stages[0],
                                  *to = &ranks[1].executor->workers[w].stages[0];
        for (int p = 0; p < stage_parameter_count(to->stage); p++) {
            const size_t count = (size_t)shape_elements(&stage_parameter(to->stage, p)->shape);
            float *numbers = calloc(2 * count, sizeof *numbers);
            assert_non_null(numbers);
            for (int m = 0; m < made[1].rule.moments; m++) {
                assert_ok(stage_export_f32(to->stage, p, to->update.moment[m], NULL, numbers, &test_error));
                memset(numbers + count, 0, count * sizeof *numbers);
                if (m < made[0].rule.moments)
                    assert_ok(stage_export_f32(from->stage, p, from->update.moment[m], NULL, numbers + count, &test_error));
                assert_memory_equal(numbers, numbers + count, count * sizeof *numbers);
            }
            free(numbers);
        }
    }
    for (int i = 0; i < 2; i++) {
        executor_destroy(ranks[i].executor);
        forget(&made[i]);
    }
    remove_files(checkpoint.directory);
    checkpoint_free(&checkpoint);
    text_free(&warnings);
    text_free(&wanted);
}

/* What a run needs and the one before did not have begins at zero, and how much of it there is is said. */
static void test_missing(void **state) {
    (void)state;
    const struct run_case plain = {.workers = 2, .schedule = "1f1b-async", .weights = "stash"},
                          predicted = {.workers = 2, .schedule = "1f1b-async", .weights = "xpipe"},
                          without = {.workers = 2, .schedule = "1f1b-async", .weights = "stash", .optimizer = "sgd"},
                          coded = {.workers = 2, .schedule = "1f1b-async", .weights = "stash", .wire = "topk:0.2"};
    check_missing(plain, plain, "");
    check_missing(predicted, plain, "");
    check_missing(plain, predicted, "20 moments of the optimizer are not in it and begin at zero\n");
    check_missing(without, plain, "10 moments of the optimizer are not in it and begin at zero\n");
    check_missing(plain, coded, "error feedback of 2 blocks is not in it and begins at zero\n");
    check_missing(without, coded,
                  "10 moments of the optimizer are not in it and begin at zero\n"
                  "error feedback of 2 blocks is not in it and begins at zero\n");
    check_missing(coded, coded, "");
}

/* ------------------------------------------------------------------------- the writer */

static bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next)
        next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return no_threads ? EAGAIN : next(thread, attributes, function, argument);
}

/* Which of steps 1 to 9 have a checkpoint. */
static const char *kept(const char *run, char steps[16]) {
    char path[4096], name[64], *end = steps;
    for (int step = 1; step <= 9; step++) {
        snprintf(name, sizeof name, "checkpoints/%06d/manifest.txt", step);
        if (file_exists(file_join(path, run, name))) *end++ = (char)('0' + step);
    }
    *end = '\0';
    return steps;
}

/* What the writer keeps, what it says of itself, and what becomes of it where there can be no thread. */
static void test_writer(void **state) {
    (void)state;
    static const struct {
        int keep;
        bool best;
        const char *kept[9]; /* after each step; step 2 is the best */
    } cases[] = {{1, false, {"1", "2", "3", "4", "5"}},
                 {1, true, {"1", "12", "23", "24", "25"}},
                 {2, false, {"1", "12", "23", "34", "45"}},
                 {2, true, {"1", "12", "123", "234", "245"}},
                 {5, true, {"1", "12", "123", "1234", "12345"}}};
    struct made made;
    struct rank rank;
    struct worker_totals totals[2] = {{.busy_s = 1}, {.busy_s = 2}};
    char run[4096], log[4096], steps[16];
    make(&made, (struct run_case){.workers = 2});
    make_rank(&made, 0, 1, &rank);
    fill(&rank, 1);
    file_join(run, test_directory, "written");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct checkpoint_writer writer = {0};
        struct checkpoint_state now = {.model = "m", .workers = 2, .totals = totals};
        for (double *figure = &now.figures.loss; figure <= &now.figures.elapsed_s; figure++) *figure = NAN;
        assert_ok(file_make_directory(run, &test_error));
        FILE *stream = fopen(file_join(log, run, "log.jsonl"), "w");
        assert_non_null(stream);
        const struct checkpoint_writer_options options = {.run_dir = run,
                                                          .log = stream,
                                                          .executor = rank.executor,
                                                          .plan = made.plan,
                                                          .keep = cases[c].keep,
                                                          .keep_best = cases[c].best};
        /* What interrupted writers left goes, and nothing else. */
        char command[4 * 4096];
        snprintf(command, sizeof command,
                 "mkdir '%s/checkpoints' && cd '%s/checkpoints' && mkdir .000009.1.tmp .tmp 000009.tmp .000009.1 && "
                 "touch .000009.1.tmp/state.json",
                 run, run);
        assert_int_equal(system(command), 0);
        no_threads = true;
        assert_status(checkpoint_writer_start(&options, &writer, &test_error), PS_FAILED,
                      "cannot start a thread for checkpoints: Resource temporarily unavailable");
        checkpoint_writer_free(&writer);
        no_threads = false;
        assert_ok(checkpoint_writer_start(&options, &writer, &test_error));
        assert_false(checkpoint_writer_busy(&writer));
        snprintf(command, sizeof command,
                 "cd '%s/checkpoints' && test \"$(ls -A | LC_ALL=C sort | tr '\\n' ' ')\" = '.000009.1 .tmp 000009.tmp '", run);
        assert_int_equal(system(command), 0);
        const double began = clock_now();
        double stalled_s = 0;
        for (int step = 1; step <= 5; step++) {
            now.step = step;
            if (step >= 2) now.best.step = 2;
            assert_ok(checkpoint_writer_take(&writer, &now, &test_error));
            assert_true(writer.stall_s > stalled_s);
            stalled_s = writer.stall_s;
            assert_ok(checkpoint_writer_wait(&writer, &test_error));
            assert_true(writer.stall_s >= stalled_s);
            stalled_s = writer.stall_s;
            assert_false(checkpoint_writer_busy(&writer));
            assert_int_equal(writer.written, step);
            assert_string_equal(kept(run, steps), cases[c].kept[step - 1]);
        }
        assert_true(stalled_s <= clock_now() - began);
        struct checkpoint checkpoint;
        assert_ok(checkpoint_find(run, &checkpoint, &test_error));
        assert_int_equal(checkpoint.state.step, 5);
        assert_int_equal(checkpoint.state.workers, 2);
        assert_true(checkpoint.state.totals[1].busy_s == 2);
        checkpoint_free(&checkpoint);
        /* What cannot be written is said when it is waited for, and from then on. */
        snprintf(command, sizeof command, "rm -r '%s'/checkpoints && touch '%s'/checkpoints", run, run);
        assert_int_equal(system(command), 0);
        now.step = 6;
        assert_ok(checkpoint_writer_take(&writer, &now, &test_error));
        for (int again = 0; again < 2; again++)
            assert_status(checkpoint_writer_wait(&writer, &test_error), PS_IO, "cannot make the directory");
        assert_status(checkpoint_writer_take(&writer, &now, &test_error), PS_IO, "cannot make the directory");
        assert_int_equal(writer.written, 5);
        checkpoint_writer_free(&writer);
        fclose(stream);
        snprintf(command, sizeof command, "rm -r '%s'", run);
        assert_int_equal(system(command), 0);
    }
    executor_destroy(rank.executor);
    forget(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes), cmocka_unit_test(test_missing),
                                       cmocka_unit_test(test_writer)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
