/*
 * What is found stays found: the plans of fixed cases over all methods, schedules, policies, codecs, links and memory limits,
 * with what is simulated of them, are those in golden/plans.txt. A change that finds better ones, or says it better, writes it
 * anew, and is judged by the difference.
 *   PENSTOCK_REGENERATE=1 build/release/tests/test_search_kept     writes tests/golden/plans.txt anew
 */
#include "base/hash.h"
#include "base/text.h"
#include "plan/planner.h"
#include "search/search.h"
#include "search_support.h"

enum { CASES = 150, SHARE = 10 };

#define PICK(key, number, list) ((list)[random_below(key, number, sizeof(list) / sizeof *(list))])

/* Layers of modules ("block1.layer2"), with all that a layer's cost has. */
static struct ps_profile *make_profile(struct random_key key, const char *device) {
    struct ps_profile *profile;
    int tables = random_below(key, 1100, 2) ? 3 : 1, layers = 3 + (int)random_below(key, 1101, 9);
    assert_ok(profile_create(tables, layers, &profile, &test_error));
    strcpy(profile->model, "random");
    snprintf(profile->device, sizeof profile->device, "%s", device);
    profile->threads = 1;
    for (int t = 0; t < tables; t++) {
        struct cost_table *table = &profile->tables[t];
        int samples = table->micro_batch = 2 << t;
        table->input_bytes = 16 * KIB * samples;
        random_layers(key, 1e-4 * (1 + (double)samples), samples, 500, table);
        for (int codec = 0; codec < WIRE_CODECS; codec++)
            for (int way = 0; way < 2; way++) table->wire_s[codec][way] = 1e-10 * (codec + 1) * (way + 1);
        for (int l = 0; l < layers; l++) {
            uint64_t base = 2000 + 10 * (uint64_t)l;
            struct layer_cost *layer = &table->layers[l];
            snprintf(layer->name, sizeof layer->name, "block%d.layer%d", l / 2, l);
            strcpy(layer->kind, "linear");
            layer->size.tail_bytes = 64 * (int64_t)random_below(key, base, 20);
            layer->size.delta_bytes = 64 * (int64_t)random_below(key, base + 1, 20);
            layer->size.workspace_bytes = 64 * (int64_t)random_below(key, base + 2, 300);
            layer->sum_s = 1e-5 * (double)random_uniform(key, base + 3);
        }
    }
    return profile;
}

/* One profile, or one for each of two types of devices. */
static struct ps_profile *draw_profile(struct random_key key, bool types) {
    static const char *const devices[] = {"fast", "slow"};
    struct ps_profile *profile = make_profile(key, devices[0]);
    if (!types) return profile;
    struct text paths = {0};
    for (int d = 0; d < 2; d++) {
        char path[4200];
        file_join(path, test_directory, devices[d]);
        snprintf(profile->device, sizeof profile->device, "%s", devices[d]);
        for (int t = 0; t < profile->table_count && d > 0; t++)
            for (int l = 0; l < profile->tables[t].layer_count; l++)
                profile->tables[t].layers[l].time.forward_s *= 1 + (double)random_below(key, 3000 + (uint64_t)l, 3);
        assert_ok(ps_profile_write(profile, path, &test_error));
        text_add(&paths, "%s%s", d > 0 ? "," : "", path);
    }
    ps_profile_destroy(profile);
    char *both = text_take(&paths);
    assert_ok(ps_profile_read(both, &profile, &test_error));
    free(both);
    return profile;
}

/* Workers are alike, or their speeds, memory and types are drawn one by one. */
static struct ps_cluster *draw_cluster(struct random_key key, bool types, struct text *said) {
    static const char *const speeds[] = {"1", "1", "0.5", "1.5"};
    static const double bandwidths[] = {0, 12.5e6, 125e6, 1e9, 4e9};
    int workers = 1 + (int)random_below(key, 1000, 6);
    int64_t memory = random_below(key, 1001, 2) ? 0 : (int64_t)(KIB * (300 + random_below(key, 1002, 4000)));
    double bandwidth = PICK(key, 1003, bandwidths);
    bool overlap = random_below(key, 1004, 4) > 0, streaming = overlap && random_below(key, 1005, 6) == 0;
    bool half = random_below(key, 1006, 5) == 0, alike = !types && random_below(key, 1007, 2);
    struct text text = {0};
    text_add(&text, "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [");
    for (int w = 0; w < workers; w++) {
        uint64_t base = 1200 + 10 * (uint64_t)w;
        text_add(&text, "%s{\"name\": \"w%d\", \"type\": \"%s\", \"speed\": %s, \"memory_bytes\": %lld}", w > 0 ? ", " : "", w,
                 types && random_below(key, base, 2) ? "slow" : "fast", alike ? "1" : PICK(key, base + 1, speeds),
                 (long long)(memory == 0 || alike ? memory : memory * (int64_t)(1 + random_below(key, base + 2, 2))));
    }
    text_add(&text, "], \"links\": [");
    if (bandwidth > 0)
        text_add(&text, "{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": %.0f, \"latency_s\": 1e-5%s}", bandwidth,
                 half ? ", \"duplex\": \"half\"" : "");
    text_add(&text, "], \"overlap\": %s, \"streaming\": %s%s}", overlap ? "true" : "false", streaming ? "true" : "false",
             random_below(key, 1008, 6) == 0 ? ", \"cores\": 2" : "");
    struct ps_cluster *cluster;
    assert_false(text.failed);
    assert_ok(cluster_parse(text.data, text.length, &cluster, &test_error));
    text_free(&text);
    text_add(said, "bandwidth %g%s%s%s, %d cores; workers:", bandwidth, half ? ", half duplex" : "",
             overlap ? "" : ", no overlap", streaming ? ", streaming" : "", cluster->cores);
    for (int w = 0; w < workers; w++)
        text_add(said, " %g of %s with %lld bytes;", cluster->devices[w].speed, cluster->devices[w].type,
                 (long long)cluster->devices[w].memory_bytes);
    text_add(said, "\n");
    return cluster;
}

/* What was not said is open; most draws are of what is open or usual, so that most go together. */
static struct ps_plan_options draw_options(struct random_key key, struct text *said) {
    static const char *const methods[] = {NULL,
                                          "auto",
                                          "auto",
                                          "pipedream",
                                          "bapipe",
                                          "uniform",
                                          "madpipe",
                                          "bipartition",
                                          "bipartition-order",
                                          "pipedream-paper",
                                          "madpipe-paper",
                                          "bipartition-paper",
                                          "data-parallel"};
    static const char *const schedules[] = {NULL,      NULL,         NULL,      "auto",    "auto",     "naive",       "gpipe",
                                            "1f1b",    "1f1b-async", "1f1b-so", "1f1b-as", "fbp-as",   "interleaved", "hanayo",
                                            "chimera", "zb-h1",      "zb-h2",   "zb-v",    "1f1b-star"};
    static const char *const weights[] = {NULL,    NULL,  NULL,        "auto",  "auto",      "sync",   "latest",
                                          "stash", "2bw", "spectrain", "xpipe", "pipeoptim", "horizon"};
    static const char *const wires[] = {NULL,   NULL,       NULL,        NULL,        "bf16",
                                        "int8", "topk:0.1", "auto:bf16", "auto:int8", "activation=int8+gradient=bf16+sum=int8"};
    static const char *const optimizers[] = {NULL, "sgd", "adam"};
    static const int batches[] = {0, 0, 8, 16};
    struct ps_plan_options options;
    ps_plan_options_init(&options);
    options.method = PICK(key, 1, methods);
    options.schedule = PICK(key, 2, schedules);
    options.weights = PICK(key, 3, weights);
    options.wire = PICK(key, 4, wires);
    options.optimizer = PICK(key, 5, optimizers);
    options.batch = PICK(key, 6, batches);
    const char *method = options.method ? options.method : "auto";
    bool planner = planner_find(method) && strcmp(method, "pipedream") != 0, any = random_below(key, 14, 4) == 0;
    if (planner && !any) options.schedule = options.weights = NULL;
    options.recompute = (!planner || any) && random_below(key, 7, 6) == 0;
    options.replicate = (search_may_replicate(method) || any) && random_below(key, 8, 3) == 0;
    options.replicate |= strcmp(method, "data-parallel") == 0 && !any;
    options.module_depth = random_below(key, 9, 6) == 0;
    options.paper_cost = (planner || any) && !options.wire && random_below(key, 10, 4) == 0;
    options.paper_prediction = random_below(key, 11, 12) == 0;
    if (options.batch == 0 && random_below(key, 12, 4) == 0) options.micro_batches = 1 + (int)random_below(key, 13, 6);
    const char *const names[] = {"method",        options.method, "schedule",   options.schedule, "weights",
                                 options.weights, "wire",         options.wire, "optimizer",      options.optimizer};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2)
        if (names[i + 1]) text_add(said, "%s %s, ", names[i], names[i + 1]);
    text_add(said, "batch %d, %d micro-batches%s%s%s%s%s\n", options.batch, options.micro_batches,
             options.recompute ? ", recompute" : "", options.replicate ? ", replicate" : "",
             options.module_depth ? ", modules" : "", options.paper_cost ? ", paper's cost" : "",
             options.paper_prediction ? ", paper's prediction" : "");
    return options;
}

static void add_line(void *context, enum ps_log_level level, const char *line) {
    (void)level;
    text_add(context, "log: %s\n", line);
}

static void add_owned(struct text *text, char *made) {
    assert_non_null(made);
    text_add(text, "%s\n", made);
    free(made);
}

static void add_programs(const struct ps_plan *plan, const struct ps_profile *profile, struct text *text) {
    struct ps_programs *programs;
    struct ps_error refusal = {0};
    if (ps_programs_lower(plan, profile, 3, &programs, &refusal) != PS_OK) {
        text_add(text, "not lowered: %s\n", refusal.message);
        return;
    }
    struct text listing = {0};
    add_owned(&listing, ps_programs_print(programs));
    add_owned(&listing, ps_programs_table(programs));
    text_add(text, "three mini-batches, listed: %016llx\n", (unsigned long long)hash_text(HASH_BEGIN, listing.data));
    text_free(&listing);
    ps_programs_destroy(programs);
}

static void add_simulation(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                           struct text *text) {
    struct ps_simulation *simulation;
    struct ps_error refusal = {0};
    if (ps_simulate(plan, profile, cluster, 0, &simulation, &refusal) != PS_OK) {
        text_add(text, "not simulated: %s\n", refusal.message);
        return;
    }
    add_owned(text, ps_simulation_table(simulation));
    ps_simulation_destroy(simulation);
}

static void add_case(uint64_t number, struct text *text) {
    struct random_key key = random_key(20261128, RANDOM_TEST, number, 0);
    bool types = random_below(key, 1300, 6) == 0;
    text_add(text, "=== %llu\n", (unsigned long long)number);
    struct ps_profile *profile = draw_profile(key, types);
    struct ps_cluster *cluster = draw_cluster(key, types, text);
    struct ps_plan_options options = draw_options(key, text);
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = text, .level = PS_LOG_INFO, .line = add_line};
    options.log = &sink;
    struct ps_plan *plan;
    struct ps_error refusal = {0};
    enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &refusal);
    if (status == PS_OK) {
        plan->predicted.solve_s = 0;
        add_owned(text, ps_plan_table(plan));
        add_programs(plan, profile, text);
        add_simulation(plan, profile, cluster, text);
        ps_plan_destroy(plan);
    } else {
        text_add(text, "status %d: %s\n\n", (int)status, refusal.message);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void plans_are_kept(void **state) {
    (void)state;
    struct text text = {0};
    for (uint64_t number = 0; number < (test_slow() ? CASES / SHARE : CASES); number++) add_case(number, &text);
    (test_slow() ? test_golden_begins : test_golden)(TEST_DIRECTORY "/golden/plans.txt", text_take(&text));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_kept)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
