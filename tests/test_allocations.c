/*
 * Allocations that fail: each reader of files (fuzz/targets.h), the planner, the programs and the simulator with all that is
 * written of them, data, and networks that are checked and evaluated, or predict, translate and write. Whichever allocation of
 * theirs fails, they end with a documented status and one line, or as if none had, and leave no memory allocated. The C
 * library's functions are in this program, so that those of the library and of what it is built on come here.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "comm/processes/control.h"
#include "comm/transports/between_processes.h"
#include "data/corpus.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/npz.h"
#include "data/vocabulary.h"
#include "fuzz/targets.h"
#include "graph/network.h"
#include "program/lower.h"
#include "report/page.h"
#include "report/report.h"
#include "search/compare.h"
#include "search_support.h"
#include "store/checkpoint.h"
#include "train/run_directory.h"
#include "train/run_result.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Their allocator must be the first of the process. */
int main(void) { return 0; }
#else

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);

/* Of this thread: allocations are counted, and the one that `until_fault` counts down to fails. */
static _Thread_local bool counting;
static _Thread_local long allocations, outstanding, until_fault;

static char early[4096]; /* for what dlsym allocates */
static size_t early_used;

static bool is_early(const void *block) { return (const char *)block >= early && (const char *)block < early + sizeof early; }

static void find_next(void) {
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

static bool fails(void) {
    if (!counting) return false;
    allocations++;
    if (until_fault > 0 && --until_fault == 0) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

static void *counted(void *block) {
    outstanding += counting && block != NULL;
    return block;
}

void *malloc(size_t size) {
    if (!next_malloc) find_next();
    return fails() ? NULL : counted(next_malloc(size));
}

void *calloc(size_t count, size_t size) {
    if (!next_calloc) {
        void *block = early + early_used;
        early_used += (count * size + 15) / 16 * 16;
        return early_used <= sizeof early ? block : NULL;
    }
    return fails() ? NULL : counted(next_calloc(count, size));
}

void *realloc(void *block, size_t size) {
    if (!next_realloc) find_next();
    if (fails()) return NULL;
    void *moved = next_realloc(block, size);
    return block == NULL ? counted(moved) : moved;
}

void free(void *block) {
    if (is_early(block)) return;
    outstanding -= counting && block != NULL;
    next_free(block);
}

/* What a thread of the library's is started with is freed in that thread, which does not count. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next)
        next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    const int code = next(thread, attributes, function, argument);
    outstanding -= counting && code == 0;
    return code;
}

/* ----------------------------------------------------------------------- works */

struct trial {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
    const uint8_t *data;
    size_t size;
    int flags;
};

/* WHOLE: each allocation fails once. UNSAID: not every failure is judged, neither those of readers nor of what only explains,
 * measures or makes faster. */
enum { WHOLE = 1, UNSAID = 2 };

static long refusals; /* of what was judged since it was set to 0 */

/* What a work that is no reader may end with. */
static void judge(enum ps_status status, struct ps_error *error) {
    fuzz_judge(status, error);
    /* PS_IO, where the C library had no memory for a stream. */
    if (counting && status != PS_OK && status != PS_OUT_OF_MEMORY && status != PS_IO) {
        counting = false;
        fail_msg("status %d where memory is lacking: %s", (int)status, error->message);
    }
    refusals += status != PS_OK;
    *error = (struct ps_error){0};
}

/* A text that is NULL where there is no memory for it; frees it. */
static void judge_text(char *text) {
    refusals += text == NULL;
    free(text);
}

static struct ps_profile *profile;
static struct ps_cluster *cluster, *limited;
static struct ps_profile *few_layers;
static struct ps_plan *plan, *waves; /* `waves`: of a schedule that is written by rules */

static void make_plan(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    static const char *const methods[] = {"pipedream", "uniform", "bapipe", "bipartition", "madpipe", "pipedream-paper"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct ps_plan_options options = {.struct_size = sizeof options, .method = methods[m], .micro_batches = 2};
        if (m == 1) options.wire = "auto:int8";
        struct ps_error error = {0};
        struct ps_plan *made = NULL;
        enum ps_status status = ps_plan_find(profile, cluster, &options, &made, &error);
        if (status == PS_NO_PLAN) status = PS_OK;
        judge(status, &error);
        ps_plan_destroy(made);
    }
}

static void write_all(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_error error = {0};
    struct ps_simulation *simulation = NULL;
    struct ps_programs *programs = NULL;
    struct timeline_caption caption = {.title = "title", .arrows = true};
    judge(ps_simulate(plan, profile, cluster, 3, &simulation, &error), &error);
    if (simulation) {
        judge_text(ps_simulation_table(simulation));
        judge_text(ps_simulation_json(simulation));
        judge_text(ps_simulation_timeline(simulation, 60, true));
        struct memory_curve *curves = memory_curves_make(simulation);
        refusals += curves == NULL;
        caption.memory = curves;
        judge_text(report_timeline_svg(&simulation->timeline, &caption));
        judge_text(report_timeline_trace(&simulation->timeline, &caption));
        memory_curves_free(curves, 2);
    }
    ps_simulation_destroy(simulation);
    judge(ps_programs_lower(plan, profile, 3, &programs, &error), &error);
    if (programs) {
        judge(ps_programs_verify(programs, &error), &error);
        judge_text(ps_programs_print(programs));
        judge_text(ps_programs_table(programs));
        judge_text(ps_programs_json(programs));
    }
    ps_programs_destroy(programs);
    judge_text(ps_plan_table(plan));
    judge_text(ps_plan_json(plan));
    judge_text(ps_profile_table(profile));
    judge_text(ps_profile_json(profile));
    judge_text(ps_cluster_table(cluster));
    judge_text(ps_cluster_json(cluster));
}

static struct ps_comparison *compared; /* plans, one of them refused, and trainings, of a network each */
static struct ps_profile *typed;       /* on two types of devices, with a parameter that layers share */

static struct comparison_row *compare_row(int network, const char *method, int workers) {
    struct comparison_row *row = &compared->rows[compared->row_count++];
    strcpy(row->method, method);
    strcpy(row->chosen, method);
    strcpy(row->schedule, "gpipe");
    strcpy(row->weights, "sync");
    strcpy(row->precision, "f32");
    row->row = (struct ps_comparison_row){.workers = workers, .network = network, .best = 0.5, .batch = 8, .micro_batches = 2};
    return row;
}

static void make_compared(void) {
    compared = calloc(1, sizeof *compared);
    assert_non_null(compared);
    compared->networks = calloc(2, sizeof *compared->networks);
    compared->rows = calloc(4, sizeof *compared->rows);
    assert_true(compared->networks && compared->rows);
    compared->network_count = 2;
    compared->seeds = 1;
    compared->directory = strdup("kept");
    for (int n = 0; n < 2; n++) {
        strcpy(compared->networks[n].model, n == 0 ? "lenet5" : "vgg16");
        strcpy(compared->networks[n].precision, "f32");
        compared->networks[n].number = n;
    }
    compare_row(0, "uniform", 2)->row.simulated = true;
    struct comparison_row *row = compare_row(0, "pipedream", 2);
    strcpy(row->reason, "no plan fits");
    row->row.reason = row->reason;
    for (int r = 0; r < 2; r++) {
        row = compare_row(1, r == 0 ? "uniform" : "pipedream", 2);
        row->row.trained = true;
        assert_ok(run_create(2, &row->run, &test_error));
        for (int p = 1; p <= 2; p++)
            assert_ok(run_add_point(row->run,
                                    &(struct ps_run_point){.step = p, .epoch = p, .valid_accuracy = 0.25 * p, .training_s = p},
                                    &test_error));
    }
    assert_ok(comparison_rank(compared, NULL, "metric", &test_error));
    typed = even_profile();
    struct ps_profile *other = even_profile();
    strcpy(other->device, "other");
    assert_ok(profile_add_device(typed, other, &test_error));
    static const int uses[] = {0, 1, 2};
    for (struct ps_profile *of = typed; of; of = of->other_device) {
        of->ties = (struct ties){arena_take(&of->arena, 1, sizeof *of->ties.list), 1};
        assert_non_null(of->ties.list);
        of->ties.list[0] = (struct tie){.bytes = 64, .layers = arena_copy(&of->arena, uses, 3, sizeof *uses), .uses = 3};
        assert_non_null(of->ties.list[0].layers);
        profile_link_ties(of);
    }
}

static void write_comparison(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    char path[4096];
    struct ps_error error = {0};
    judge_text(ps_comparison_table(compared));
    judge_text(ps_comparison_grid(compared));
    judge_text(ps_comparison_json(compared));
    judge(ps_comparison_write_csv(compared, file_join(path, test_directory, "rows.csv"), &error), &error);
    judge(ps_comparison_write_svg(compared, file_join(path, test_directory, "rows.svg"), &error), &error);
}

static void group_layers(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_error error = {0};
    struct ps_profile *grouped = NULL;
    const int last[] = {0, typed->tables[0].layer_count - 1};
    judge(profile_group(typed, last, 2, &grouped, &error), &error);
    ps_profile_destroy(grouped);
}

static void lower_waves(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_error error = {0};
    struct ps_programs *programs = NULL;
    judge(ps_programs_lower(waves, profile, 2, &programs, &error), &error);
    ps_programs_destroy(programs);
}

/* Names and operations that are so many that they are blocks of their own. */
static struct ps_plan *long_plan;

static void make_long_plan(void) {
    enum { COUNT = 2000 };
    static const char *names[COUNT];
    static struct plan_operation pattern[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = "the_name_of_a_layer";
    assert_ok(plan_copy(plan, &long_plan, &test_error));
    assert_ok(plan_order_set(long_plan, names, COUNT, &test_error));
    assert_ok(plan_pattern_set(long_plan, pattern, COUNT, &test_error));
}

static void copy_plan(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_error error = {0};
    struct ps_plan *copy = NULL;
    judge(plan_copy(long_plan, &copy, &error), &error);
    ps_plan_destroy(copy);
}

/* All methods, with and without recomputation, since there is a limit, and with replicas, on workers that are alike or not. */
static void search_all(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    const struct ps_plan_options options = {
        .struct_size = sizeof options, .schedule = "1f1b", .micro_batches = 2, .replicate = true};
    for (int uneven = 0; uneven < 2; uneven++) {
        struct ps_error error = {0};
        struct ps_plan *made = NULL;
        limited->devices[1].speed = 1 + uneven;
        judge(ps_plan_find(few_layers, limited, &options, &made, &error), &error);
        ps_plan_destroy(made);
    }
}

static struct ps_programs *wave_programs;

static void lower_forwards(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_error error = {0};
    struct ps_programs *programs = NULL;
    judge(lower_evaluation(wave_programs, 3, &programs, &error), &error);
    ps_programs_destroy(programs);
}

/* Of so many stages that what is taken for each is a block of its own. */
static void make_programs(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_error error = {0};
    struct ps_programs *programs = NULL;
    judge(programs_create(1, 1 << 16, &programs, &error), &error);
    ps_programs_destroy(programs);
}

static void find_checkpoint(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    static const char run[] = TEST_DIRECTORY "/fixtures/0.2.0/run";
    struct ps_error error = {0};
    struct checkpoint checkpoint = {0};
    struct weight_files weights = {0};
    const enum ps_status status = checkpoint_find(run, &checkpoint, &error);
    judge(status, &error);
    if (status != PS_OK) return;
    for (int of = 0; of < 2; of++) {
        const enum ps_status opened = of ? weight_files_open_run(run, NULL, &weights, &error)
                                         : weight_files_open_moments(checkpoint.directory, 2, &weights, &error);
        judge(opened, &error);
        if (opened == PS_OK) weight_files_close(&weights);
    }
    checkpoint_free(&checkpoint);
}

static void load_batch(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    static const struct dataset_shape shape = {.channels = 1, .height = 4, .width = 4, .classes = 3};
    struct ps_error error = {0};
    struct samples samples;
    struct loader *loader = NULL;
    struct loaded_batch batch;
    const enum ps_status status = samples_open("synthetic:images,samples=8", DATASET_TRAIN, &shape, &samples, &error);
    judge(status, &error);
    if (status != PS_OK) return;
    const struct loader_options options = {
        .samples = &samples, .batch = 2, .inputs = true, .targets = true, .shuffle = true, .ahead = 2, .serial = true};
    judge(loader_create(&options, &loader, &error), &error);
    if (loader) {
        const enum ps_status got = loader_get(loader, 0, &batch, &error);
        judge(got, &error);
        if (got == PS_OK) loader_release(loader, 0);
    }
    loader_destroy(loader);
    samples_close(&samples);
}

/* Files that are packed, or whose size nobody knows before they are read, and one that is written through a link, which stays
 * one. */
static void read_and_write(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    char packed[4096], link[4096], *text;
    struct ps_error error = {0};
    struct stat kind;
    size_t length;
    const char *const paths[] = {file_join(packed, test_directory, "packed.gz"), "/proc/self/maps"};
    for (int p = 0; p < 2; p++) {
        const enum ps_status status = file_read(paths[p], 1 << 24, &text, &length, &error);
        judge(status, &error);
        if (status == PS_OK) free(text);
    }
    judge(file_write(file_join(link, test_directory, "link"), "0", 1, &error), &error);
    if (lstat(link, &kind) != 0 || !S_ISLNK(kind.st_mode)) abort();
}

/* The log of a run that goes on after step 2 loses the line of step 3, and no other whatever happens. */
static void go_on_with_log(const uint8_t *data, size_t size) {
    static const char log[] = "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n";
    static const size_t stays = sizeof log / 3 * 2;
    char path[4096];
    struct ps_error error = {0};
    struct run_directory directory = {.path = test_directory};
    struct stat file;
    json_t *lines = NULL;
    const struct ps_train_options options = {.struct_size = sizeof options};
    const struct job job = {.options = &options, .plan = plan};
    const struct resumption before = {.document = json_null()};
    const bool was = counting;
    counting = false;
    test_file_write(file_join(path, test_directory, "log.jsonl"), log, sizeof log - 1);
    counting = was;
    const enum ps_status status = run_directory_start(&directory, &job, &before, 2, &error);
    run_directory_close(&directory);
    if (stat(path, &file) != 0 || (file.st_size != stays && (status == PS_OK || file.st_size != sizeof log - 1))) abort();
    if (status == PS_IO) error = (struct ps_error){0}; /* of a stream, which the C library has no memory for */
    if (status != PS_IO) judge(status, &error);
    refusals += status == PS_IO;
    const enum ps_status got = report_log_read(test_directory, &lines, &error);
    if (got == PS_BAD_INPUT) abort(); /* its lines are whole */
    judge(got, &error);
    json_decref(lines);
    (void)data, (void)size;
}

static void keep_arrays(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    char path[4096];
    struct ps_error error = {0};
    const int64_t shape[] = {2, 3};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    const struct safetensor_source sources[] = {{.name = "a", .shape = shape, .rank = 2, .values = values},
                                                {.name = "b", .shape = shape, .rank = 1, .values = values}};
    struct safetensors file;
    const enum ps_status status = safetensors_write(file_join(path, test_directory, "arrays"), sources, 2, NULL, &error);
    judge(status, &error);
    if (status != PS_OK) return;
    const enum ps_status got = safetensors_read(path, &file, &error);
    if (got == PS_BAD_INPUT) abort(); /* the file is whole */
    judge(got, &error);
    if (got == PS_OK) safetensors_free(&file);
}

/* Vocabularies: of a text's words, counted as BLEU and as IMDb's reviews divide them, written and read; and a tokenizer's. */
static void make_vocabularies(const uint8_t *data, size_t size) {
    corpus_split *const splits[] = {words_13a, words_plain};
    char text[4096], words[4096];
    struct ps_error error = {0};
    file_join(text, test_directory, "text");
    for (int s = 0; s < 2; s++) {
        struct corpus corpus = {0};
        struct vocabulary *made = NULL, *again[2] = {NULL, NULL};
        enum ps_status status = corpus_read(text, &corpus, &error);
        judge(status, &error);
        if (status != PS_OK) continue;
        status = corpus_vocabulary(&corpus, splits[s], 100, &made, &error);
        judge(status, &error);
        if (status == PS_OK) judge(corpus_number(&corpus, splits[s], made, &error), &error);
        const struct vocabulary *const both[] = {made, NULL};
        status = made ? vocabulary_write(file_join(words, test_directory, "words.json"), both, &error) : PS_NO_PLAN;
        if (made) judge(status, &error);
        if (status == PS_OK) judge(vocabulary_read(words, again, &error), &error);
        vocabulary_destroy(again[0]);
        vocabulary_destroy(again[1]);
        vocabulary_destroy(made);
        corpus_free(&corpus);
    }
    struct tokenizer *tokenizer;
    const enum ps_status status = tokenizer_create((const char *)data, size, "file", &tokenizer, &error);
    judge(status, &error);
    if (status != PS_OK) return;
    struct vocabulary *made = vocabulary_of_tokenizer(tokenizer, VOCABULARY_SPECIALS, &error);
    judge(made ? PS_OK : PS_OUT_OF_MEMORY, &error);
    vocabulary_destroy(made);
}

/* PipeDream's, of text. */
static void read_graph(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    char path[4096];
    struct ps_error error = {0};
    struct ps_profile *made = NULL;
    judge(ps_profile_read(file_join(path, test_directory, "net.graph.txt"), &made, &error), &error);
    ps_profile_destroy(made);
}

static void make_clusters(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3, .bandwidth_bytes_per_s = 1e9};
    struct ps_error error = {0};
    struct ps_cluster *made = NULL, *copy = NULL;
    judge(ps_cluster_uniform(&options, &made, &error), &error);
    if (made) judge(cluster_copy(made, &copy, &error), &error);
    ps_cluster_destroy(copy);
    ps_cluster_destroy(made);
}

struct message {
    size_t size;
};

static enum ps_status create_message(size_t bytes, struct message **message, struct ps_error *error) {
    TRY(memory_new(message, 1, "a message", error));
    **message = (struct message){bytes};
    return PS_OK;
}

static void destroy_message(struct message *message) { free(message); }

/* A split stage, replicas, parameters that stages share, links that are emulated and that are shared: between threads, and as
 * each of the processes would make its end. */
static void make_transports(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    enum { RANKS = 5, STAGES = 3, INSTANCES = 6 };
    static const struct instance parts[INSTANCES] = {
        {.stage = 0, .worker = 0, .forward = true, .replicas = 1},
        {.stage = 0, .worker = 1, .backward = true, .replicas = 1},
        {.stage = 1, .worker = 2, .forward = true, .backward = true, .replica = 0, .replicas = 2},
        {.stage = 1, .worker = 3, .forward = true, .backward = true, .replica = 1, .replicas = 2},
        {.stage = 2, .worker = 3, .forward = true, .backward = true, .replica = 0, .replicas = 2},
        {.stage = 2, .worker = 4, .forward = true, .backward = true, .replica = 1, .replicas = 2}};
    static const int stages[] = {0, 2};
    static const struct tied_parameter tied = {.count = 10, .stages = stages, .uses = 2};
    static const struct processes_class by_hand = {
        .name = "test", .message_create = create_message, .message_destroy = destroy_message};
    static const struct transport_class class = {.name = "test", .own_threads = true, .processes = &by_hand};
    struct ps_cluster_options cluster_options = {
        .struct_size = sizeof cluster_options, .workers = RANKS, .bandwidth_bytes_per_s = 1e9};
    struct process_info info[RANKS] = {0};
    struct stage_slots slots[INSTANCES] = {0};
    struct stage_sizes sizes[STAGES] = {0};
    struct ps_error error = {0};
    struct ps_programs *programs = NULL;
    struct ps_cluster *five = NULL;
    struct control *control = NULL;
    enum ps_status status = ps_cluster_uniform(&cluster_options, &five, &error);
    if (status == PS_OK) status = programs_create(RANKS, STAGES, &programs, &error);
    if (status == PS_OK) status = programs_set_instances(programs, parts, INSTANCES, &error);
    if (status == PS_OK) status = programs_set_groups(programs, (const int[]){0, 1, 0}, &error);
    if (status == PS_OK) status = control_create(1, RANKS, info, &control, &error);
    control_close(control);
    for (int s = 0; s < STAGES; s++)
        sizes[s] = (struct stage_sizes){.parameter_bytes = 80, .input_bytes = 64, .output_bytes = 64, .stash_bytes = 64};
    for (int i = 0; i < INSTANCES; i++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++) {
            int *count = stage_slots_place(&slots[i], (enum block_kind)kind);
            if (count) *count = 2;
        }
    for (int rank = -1; rank < RANKS && status == PS_OK; rank++) {
        struct processes processes = {.class = &by_hand, .rank = rank, .count = RANKS, .info = info};
        struct transport *transport;
        const struct transport_options options = {.programs = programs,
                                                  .tied = &tied,
                                                  .tied_count = 1,
                                                  .slots = slots,
                                                  .processes = rank < 0 ? NULL : &processes,
                                                  .sizes = sizes,
                                                  .emulated = five,
                                                  .cluster = five};
        status = between_processes_create(&class, &options, &transport, &error);
        if (status == PS_OK) between_processes_destroy(transport);
    }
    judge(status, &error);
    ps_programs_destroy(programs);
    ps_cluster_destroy(five);
}

/* A run of the fixtures, with a vocabulary, and data whose pixels are normalised in a way that is known. */
static void make_run(char run[4096]) {
    static const char from[] = TEST_DIRECTORY "/fixtures/0.2.0/run", ours[] = "synthetic:images,samples=32",
                      theirs[] = "idx:none";
    char path[8192], target[4096], *text;
    size_t size;
    file_join(run, test_directory, "run");
    assert_ok(file_make_directory(run, &test_error));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "network.json" : "checkpoints";
        assert_int_equal(symlink(file_join(target, from, name), file_join(path, run, name)), 0);
    }
    assert_ok(file_read(file_join(path, from, "config.json"), 1 << 20, &text, &size, &test_error));
    char *at = strstr(text, ours);
    assert_non_null(at);
    memcpy(at, theirs, sizeof theirs - 1);
    memmove(at + sizeof theirs - 1, at + sizeof ours - 1, strlen(at + sizeof ours - 1) + 1);
    assert_ok(file_write(file_join(path, run, "config.json"), text, strlen(text), &test_error));
    free(text);
    assert_ok(file_write(file_join(path, run, "vocabulary.json"), "{\"words\": 1}", 12, &test_error));
}

/* An export that succeeds has all that is said of the weights, too. */
static void export_run(const uint8_t *data, size_t size) {
    static char run[4096], path[4096];
    struct ps_error error = {0};
    const bool was = counting;
    counting = false;
    if (!run[0]) make_run(run);
    file_join(path, test_directory, "weights");
    counting = was;
    const enum ps_status status = ps_export(run, NULL, path, &error);
    judge(status, &error);
    counting = false;
    if (status == PS_OK) {
        static const char normalisation[] =
            "\"normalisation\":\"{\\\"scale\\\": 255, \\\"mean\\\": [0.1307], \\\"deviation\\\": [0.3081]}\"";
        struct file_map map;
        assert_ok(file_map(path, &map, &test_error));
        if (!memmem(map.data, map.size, normalisation, sizeof normalisation - 1) ||
            !memmem(map.data, map.size, "\"vocabulary\"", 12))
            fail_msg("an export ended well, and says less of its weights");
        file_unmap(&map);
    }
    counting = was;
    (void)data, (void)size;
}

/* ------------------------------------------------------------ networks that compute */

/* With weights of their own: classes of two numbers, the tokens that follow, and a translation. */
static struct ps_network *classes, *language, *translation;
static char samples_file[4096], words_file[4096], text_words[4096], pairs[8400];

/* Gives the network's first parameter values, as from a file; the others begin at random. */
static void give_values(struct ps_network *network) {
    static const float values[64] = {1, -2, 0.5f, 0.25f};
    const struct parameter *first = &network->graph->parameters[0];
    struct array array = {.name = first->name, .type = ARRAY_F32, .rank = first->shape.rank, .data = values};
    for (int d = 0; d < array.rank; d++) array.shape[d] = first->shape.dim[d];
    assert_true(array_elements(&array) <= 64);
    network->graph->values = values_create();
    assert_ok(values_set(network->graph->values, &array, VALUES_BORROW, &test_error));
}

static struct ps_network *build_network(const char *type, int64_t inputs, const char *layer, int layers, const char *predicts) {
    struct ps_network_builder *builder = ps_network_builder_create("small");
    struct ps_network *network;
    ps_network_builder_input(builder, "x", type, &inputs, 1);
    for (int l = 0; l < layers; l++) {
        char name[8];
        snprintf(name, sizeof name, "layer%d", l);
        ps_network_builder_node(builder, name, layer, NULL, 0);
    }
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    ps_network_builder_predicts(builder, predicts);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    return network;
}

static void make_networks(void) {
    static const float inputs[6] = {1, 2, 3, 4, 5, 6}, loss = 1;
    static const int32_t labels[3] = {0, 1, 0};
    static const char *const lines[] = {"a b\na\n", "c\nc d\n"};
    const struct dataset_shape wanted = {
        .channels = 1, .height = 5, .width = 1, .classes = 6, .labels = 2, .vocabulary = 6, .gives_tokens = true};
    const struct array arrays[] = {
        {.name = "x", .type = ARRAY_F32, .rank = 2, .shape = {3, 2}, .data = inputs},
        {.name = "input/x", .type = ARRAY_F32, .rank = 2, .shape = {3, 2}, .data = inputs},
        {.name = "labels", .type = ARRAY_I32, .rank = 1, .shape = {3}, .data = labels},
        {.name = "loss", .type = ARRAY_F32, .rank = 0, .data = &loss},
        {.name = "output", .type = ARRAY_F32, .rank = 2, .shape = {3, 2}, .data = inputs},
        {.name = "gradient/layer0.weight", .type = ARRAY_F32, .rank = 2, .shape = {2, 2}, .data = inputs}};
    char path[4096];
    struct samples samples;
    classes = build_network("f32", 2, "linear,channels=2", 2, "classes");
    language = build_network("i32", 3, "embedding,channels=7,vocabulary=7", 1, "tokens");
    assert_ok(ps_network_open("gnmt-l,layers=4,seq=3,target=2,vocab=6,hidden=4", &translation, &test_error));
    give_values(classes);
    give_values(language);
    give_values(translation);
    assert_ok(npz_write(file_join(samples_file, test_directory, "samples.npz"), arrays, 6, &test_error));
    for (int side = 0; side < 2; side++)
        test_file_write(file_join(path, test_directory, side ? "p.y" : "p.x"), lines[side], strlen(lines[side]));
    snprintf(pairs, sizeof pairs, "pairs:%s/p:x:y", test_directory);
    assert_ok(samples_open(pairs, DATASET_TRAIN, &wanted, &samples, &test_error));
    const struct vocabulary *const both[2] = {samples.dataset->shape.words[0], samples.dataset->shape.words[1]};
    assert_ok(vocabulary_write(file_join(words_file, test_directory, "pairs.json"), both, &test_error));
    samples_close(&samples);
    strcat(strcat(pairs, ",vocab="), words_file);
    struct vocabulary *words = vocabulary_create(&test_error);
    assert_non_null(words);
    assert_ok(vocabulary_count(words, "a", 1, &test_error));
    assert_ok(vocabulary_finish(words, 7, &test_error));
    vocabulary_set_data(words, "text,tokens=words");
    assert_ok(vocabulary_write(file_join(text_words, test_directory, "words_of_text.json"),
                               (const struct vocabulary *const[2]){words}, &test_error));
    vocabulary_destroy(words);
}

static void check_network(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    for (int way = 0; way < 2; way++) {
        const struct ps_check_options options = {
            .struct_size = sizeof options, .device = "reference", .workers = 2, .against = way ? samples_file : NULL};
        struct ps_error error = {0};
        struct ps_check *check = NULL;
        judge(ps_check_run(classes, &options, &check, &error), &error);
        if (check) {
            judge_text(ps_check_table(check));
            judge_text(ps_check_json(check));
        }
        ps_check_destroy(check);
    }
}

/* Of what also starts threads, for which the system says itself what it has no room for. */
static void judge_threads(enum ps_status status, struct ps_error *error) {
    if (status == PS_FAILED && strncmp(error->message, "cannot start a thread", 21) == 0) status = PS_OUT_OF_MEMORY;
    judge(status, error);
}

/* What is computed of the samples, as figures, as a table and as arrays or, of texts, as JSON. */
static void compute_all(const struct ps_network *network, const char *spec, const char *const names[2], int beam) {
    struct ps_error error = {0};
    struct ps_dataset *data = NULL;
    struct ps_evaluation evaluation;
    char path[4096], translations[4096];
    judge(ps_dataset_open(spec, NULL, &data, &error), &error);
    if (!data) return;
    const struct ps_evaluate_options evaluate = {.struct_size = sizeof evaluate,
                                                 .network = network,
                                                 .data = data,
                                                 .device = "reference",
                                                 .batch = 2,
                                                 .beam = beam,
                                                 .translations =
                                                     beam ? file_join(translations, test_directory, "translations") : NULL};
    judge_threads(ps_evaluate(&evaluate, &evaluation, &error), &error);
    for (int n = 0; n < 2; n++) {
        const struct ps_predict_options predict = {.struct_size = sizeof predict,
                                                   .network = network,
                                                   .data = data,
                                                   .device = "reference",
                                                   .batch = 2,
                                                   .path = file_join(path, test_directory, names[n])};
        judge_threads(ps_predict(&predict, &error), &error);
    }
    ps_dataset_destroy(data);
}

static void compute_classes(const uint8_t *data, size_t size) {
    static const char *const names[] = {"out.csv", "out.npz"};
    char spec[4200];
    (void)data, (void)size;
    snprintf(spec, sizeof spec, "npz:%s", samples_file);
    compute_all(classes, spec, names, 0);
}

static void compute_translations(const uint8_t *data, size_t size) {
    static const char *const names[] = {"out.csv", "out.json"};
    (void)data, (void)size;
    compute_all(translation, pairs, names, 2);
}

static void write_language(const uint8_t *data, size_t size) {
    char path[4096], *text = NULL;
    struct ps_error error = {0};
    (void)data, (void)size;
    for (int words = 0; words < 2; words++) {
        const struct ps_generate_options options = {.struct_size = sizeof options,
                                                    .network = language,
                                                    .device = "reference",
                                                    .tokens = 2,
                                                    .temperature = 1,
                                                    .prompt = words ? "a" : "1 2",
                                                    .vocabulary = words ? text_words : NULL,
                                                    .path = file_join(path, test_directory, "written")};
        const enum ps_status status = ps_generate(&options, &text, &error);
        judge(status, &error);
        if (status == PS_OK) free(text);
    }
}

/* -------------------------------------------------------------- data of each format */

/* As little of each as there may be. */
static void make_data(void) {
    /* One red pixel. */
    static const unsigned char png[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
                                        0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00,
                                        0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78,
                                        0xda, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01, 0x01, 0x00, 0xf7, 0x03, 0x41,
                                        0x43, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    static const unsigned char images[16 + 16] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 4},
                                           labels[8 + 1] = {0, 0, 8, 1, 0, 0, 0, 1};
    static const unsigned char records[2 * 3073] = {1};
    static const struct {
        const char *name;
        const void *bytes;
        size_t size;
    } files[] = {{"formats/a/1.png", png, sizeof png},
                 {"formats/b/1.png", png, sizeof png},
                 {"train-images-idx3-ubyte", images, sizeof images},
                 {"train-labels-idx1-ubyte", labels, sizeof labels},
                 {"data_batch_1.bin", records, sizeof records},
                 {"batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", 20},
                 {"r.tsv", "1\tgood film\n0\tbad\n", 18},
                 {"t.csv", "\"a\",b,c\n1,2,0\n3,4,1\n", 20},
                 {"running.txt", "a b c a b c a b c", 17}};
    char path[4096];
    assert_ok(file_make_directory(file_join(path, test_directory, "formats/a"), &test_error));
    assert_ok(file_make_directory(file_join(path, test_directory, "formats/b"), &test_error));
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        test_file_write(file_join(path, test_directory, files[f].name), files[f].bytes, files[f].size);
}

/* Opens the data and reads their first sample. */
static void open_data(const uint8_t *data, size_t size) {
    static const struct ps_input x = {"x", "f32", 1, {2}, 0}, target = {"labels", "i32", 1, {1}, 2};
    static const struct {
        const char *spec; /* %s: the directory */
        struct dataset_shape shape;
    } cases[] = {
        {"images:%s/formats,crop=scale,flip=1", {.channels = 3, .height = 4, .width = 4, .classes = 2}},
        {"idx:%s", {.channels = 1, .height = 4, .width = 4, .classes = 10}},
        {"cifar10:%s,pad=2", {.channels = 3, .height = 32, .width = 32, .classes = 10}},
        {"reviews:%s/r.tsv", {.channels = 1, .height = 4, .width = 1, .classes = 2, .labels = 1, .vocabulary = 6}},
        {"csv:%s/t.csv,target=c",
         {.inputs = &x, .input_count = 1, .target = &target, .channels = 2, .height = 1, .width = 1, .classes = 2}},
        {"text:%s/running.txt,tokens=words",
         {.channels = 1, .height = 3, .width = 1, .classes = 7, .labels = 3, .vocabulary = 7, .gives_tokens = true}},
    };
    static float sample[3 * 32 * 32];
    int32_t labels[4];
    (void)data, (void)size;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char spec[4200];
        struct ps_error error = {0};
        struct samples samples = {0};
        snprintf(spec, sizeof spec, cases[c].spec, test_directory);
        const enum ps_status status = samples_open(spec, DATASET_TRAIN, &cases[c].shape, &samples, &error);
        if (!counting && status != PS_OK) fail_msg("%s: %s", spec, error.message);
        judge(status, &error);
        if (status == PS_OK) judge(samples.dataset->class->read(samples.dataset, 0, sample, labels, &error), &error);
        samples_close(&samples);
    }
}

/* ---------------------------------------------------------------------- trials */

/* Of many allocations these fail: all of the first, and as many of the rest at random. */
enum { FIRST = 40, REST = 1500 };

static void try_work(const struct trial *work, uint64_t stream) {
    struct random_key key = test_key(stream);
    work->run(work->data, work->size); /* what is kept for later calls is there now */
    counting = true;
    allocations = outstanding = until_fault = 0;
    work->run(work->data, work->size);
    const long most = allocations;
    if (outstanding != 0) fail_msg("%s: leaves %ld allocations", work->name, outstanding);
    const long tried = (work->flags & WHOLE) || most <= FIRST + REST ? most : FIRST + REST;
    for (long n = 1; n <= tried; n++) {
        const long at = n <= FIRST || tried == most ? n : 1 + (long)random_below(key, (uint64_t)n, (uint64_t)most);
        outstanding = refusals = 0;
        until_fault = at;
        work->run(work->data, work->size);
        counting = false;
        if (refusals == 0 && !(work->flags & UNSAID))
            fail_msg("%s: allocation %ld of %ld fails, and nothing says so", work->name, at, most);
        if (json_memory_failed())
            fail_msg("%s: allocation %ld of %ld fails: the next document is refused", work->name, at, most);
        counting = true;
        if (until_fault == 0 && outstanding == 0) continue;
        counting = false;
        fail_msg("%s: allocation %ld of %ld fails: %ld are left", work->name, at, most, outstanding);
    }
    counting = false;
    until_fault = 0;
}

static void test_readers(void **state) {
    (void)state;
    uint64_t stream = 0;
    for (size_t t = 0; t < sizeof fuzz_targets / sizeof *fuzz_targets; t++) {
        char directory[512], path[1024];
        snprintf(directory, sizeof directory, "%s/fuzz/seeds/%s", TEST_DIRECTORY, fuzz_targets[t].name);
        DIR *seeds = opendir(directory);
        assert_non_null(seeds);
        for (const struct dirent *entry = readdir(seeds); entry != NULL; entry = readdir(seeds)) {
            if (entry->d_name[0] == '.') continue;
            char *seed = NULL;
            struct trial work = {.name = path, .run = fuzz_targets[t].run, .flags = UNSAID};
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            assert_ok(file_read(path, 1 << 20, &seed, &work.size, &test_error));
            work.data = (const uint8_t *)seed;
            try_work(&work, ++stream);
            free(seed);
        }
        closedir(seeds);
    }
}

static void test_works(void **state) {
    (void)state;
    char path[4096], target[4096], *tokenizer;
    size_t size;
    gzFile packed = gzopen(file_join(path, test_directory, "packed.gz"), "wb");
    assert_int_equal(gzwrite(packed, path, sizeof path), sizeof path);
    assert_int_equal(gzclose(packed), Z_OK);
    test_file_write(file_join(target, test_directory, "target"), "", 0);
    assert_int_equal(symlink(target, file_join(path, test_directory, "link")), 0);
    static const char text[] = "A man, &quot;he&quot; said, has 3.5 dogs.<br />Two men\nA dog\n";
    test_file_write(file_join(path, test_directory, "text"), text, sizeof text - 1);
    static const char graph[] =
        "node1 -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=0.0, parameter_size=0.0\n"
        "node2 -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, parameter_size=16.0\n"
        "\tnode1 -- node2\n";
    test_file_write(file_join(path, test_directory, "net.graph.txt"), graph, sizeof graph - 1);
    assert_ok(file_read(TEST_DIRECTORY "/fuzz/seeds/tokenizer/words", 1 << 20, &tokenizer, &size, &test_error));
    const struct trial works[] = {{"a plan", make_plan, NULL, 0, UNSAID},
                                  {"texts", write_all, NULL, 0, UNSAID},
                                  {"programs", make_programs, NULL, 0, 0},
                                  {"comparisons", write_comparison, NULL, 0, 0},
                                  {"groups of layers", group_layers, NULL, 0, WHOLE},
                                  {"waves", lower_waves, NULL, 0, WHOLE},
                                  {"a copy", copy_plan, NULL, 0, WHOLE},
                                  {"forwards", lower_forwards, NULL, 0, WHOLE},
                                  {"a search", search_all, NULL, 0, UNSAID},
                                  {"a checkpoint", find_checkpoint, NULL, 0, 0},
                                  {"a batch", load_batch, NULL, 0, 0},
                                  {"an export", export_run, NULL, 0, WHOLE},
                                  {"files", read_and_write, NULL, 0, 0},
                                  {"a log", go_on_with_log, NULL, 0, 0},
                                  {"arrays", keep_arrays, NULL, 0, 0},
                                  {"vocabularies", make_vocabularies, (const uint8_t *)tokenizer, size, UNSAID},
                                  {"a graph", read_graph, NULL, 0, WHOLE},
                                  {"clusters", make_clusters, NULL, 0, 0},
                                  {"data", open_data, NULL, 0, WHOLE},
                                  {"a check", check_network, NULL, 0, WHOLE},
                                  {"classes", compute_classes, NULL, 0, WHOLE},
                                  {"translations", compute_translations, NULL, 0, WHOLE},
                                  {"a text that is written", write_language, NULL, 0, WHOLE},
                                  {"transports", make_transports, NULL, 0, 0}};
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "uniform", .micro_batches = 2};
    make_networks();
    make_data();
    profile = even_profile();
    make_compared();
    cluster = make_cluster(2, 0, 1e9);
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    options.schedule = "hanayo";
    assert_ok(ps_plan_find(profile, cluster, &options, &waves, &test_error));
    assert_ok(ps_programs_lower(waves, profile, 2, &wave_programs, &test_error));
    make_long_plan();
    limited = make_cluster(2, 1 << 20, 1e9);
    few_layers = even_profile();
    few_layers->tables[0].layer_count = 3;
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) try_work(&works[w], 1000 + w);
    free(tokenizer);
    ps_comparison_destroy(compared);
    ps_profile_destroy(typed);
    ps_plan_destroy(plan);
    ps_plan_destroy(waves);
    ps_plan_destroy(long_plan);
    ps_programs_destroy(wave_programs);
    ps_cluster_destroy(limited);
    ps_profile_destroy(few_layers);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    ps_network_destroy(classes);
    ps_network_destroy(language);
    ps_network_destroy(translation);
}

int main(void) {
    if (test_valgrind()) return 0; /* its allocator takes the place of this program's */
    arena_apart = true;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readers), cmocka_unit_test(test_works)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
#endif
