/* Built-in networks from their specifications. */
#include "graph/model.h"

#include "base/memory.h"
#include "base/table.h"
#include "graph/split.h"

/* What every network takes: of images, of sequences. */
static const char *const image_keys[] = {"input", "channels", "split", "classes", NULL};
static const char *const sequence_keys[] = {"seq", "vocab", "split", "classes", NULL};
enum { COMMON_KEYS = 4 };

TABLE_FIND(model_find, model, model_table, "model")

struct model_training model_training_of(const char *spec) {
    const size_t length = strcspn(spec, ",");
    for (int m = 0; model_table[m]; m++)
        if (strlen(model_table[m]->name) == length && strncmp(model_table[m]->name, spec, length) == 0)
            return model_table[m]->training;
    return (struct model_training){0};
}

static bool reads_tokens(const struct model *entry) { return entry->defaults.vocabulary > 0; }

static enum ps_status read_sizes(const struct model *entry, struct spec *options, struct model_options *sizes,
                                 struct ps_error *error) {
    *sizes = entry->defaults;
    if (reads_tokens(entry)) {
        TRY(spec_int(options, "seq", 1, 1 << 20, &sizes->positions, error));
        TRY(spec_int(options, "vocab", 2, 1 << 30, &sizes->vocabulary, error));
    } else {
        TRY(spec_int(options, "input", 1, 16384, &sizes->input, error));
        TRY(spec_int(options, "channels", 1, 4096, &sizes->channels, error));
    }
    return sizes->classes > 0 ? spec_int(options, "classes", 2, 1000000, &sizes->classes, error) : PS_OK;
}

/* Every option was read by the network or by us. */
static enum ps_status check_options(const struct model *entry, const struct spec *options, struct ps_error *error) {
    const char *keys[COMMON_KEYS + sizeof entry->keys / sizeof *entry->keys];
    const char *const *common = reads_tokens(entry) ? sequence_keys : image_keys;
    size_t count = 0;
    for (; count < COMMON_KEYS - (entry->defaults.classes == 0); count++) keys[count] = common[count];
    for (int i = 0; entry->keys[i] != NULL; i++) keys[count++] = entry->keys[i];
    return spec_finish(options, "model", keys, count, error);
}

enum { INPUT_SEARCHED = 512 };

/* The least size of images above that in `sizes` with which the network can be built; 0: there is none near. */
static int least_input(const struct model *entry, struct model_options sizes, struct spec *options) {
    bool built = false;
    while (!built && sizes.input < INPUT_SEARCHED) {
        sizes.input++;
        struct graph *graph = graph_create();
        if (graph == NULL) return 0;
        built = entry->build(graph, &sizes, options, NULL) == PS_OK && graph_finish(graph, NULL) == PS_OK;
        graph_destroy(graph);
    }
    return built ? sizes.input : 0;
}

/* The graph could not be built, and why stands in `error`: which size of images it could be built for. */
static void name_least_input(const struct model *entry, const char *spec, const struct model_options *sizes,
                             struct spec *options, struct ps_error *error) {
    error_prefix(error, "%s", spec);
    int least = error == NULL || reads_tokens(entry) ? 0 : least_input(entry, *sizes, options);
    if (least > 0) error_set(error, error->status, "%s; images from %d pixels a side on are taken", error->message, least);
}

static enum ps_status build(struct graph *graph, const char *spec, struct spec *options, const struct model *entry,
                            struct ps_error *error) {
    struct model_options sizes;
    const char *splits;
    TRY(read_sizes(entry, options, &sizes, error));
    TRY(spec_string(options, "split", &splits, error)); /* which is for the finished graph */
    enum ps_status status = entry->build(graph, &sizes, options, error);
    if (status == PS_OK) status = check_options(entry, options, error);
    if (status == PS_OK) status = graph_finish(graph, error);
    if (graph->status != PS_OK) name_least_input(entry, spec, &sizes, options, error);
    return status;
}

enum ps_status model_generate(const char *spec, struct ps_network **network, struct ps_error *error) {
    struct spec options;
    const struct model *entry;
    const char *splits = NULL;
    TRY(spec_parse(spec, "model", &options, error));
    TRY(model_find(options.name, &entry, error));
    enum network_predicts tokens = entry->masked ? PREDICTS_MASKED_TOKENS : PREDICTS_TOKENS;
    bool gives_tokens = reads_tokens(entry) && entry->defaults.classes == 0;
    struct graph *graph = graph_create();
    TRY(memory_check(graph, "a network", error));
    enum ps_status status = build(graph, spec, &options, entry, error);
    if (status == PS_OK) status = spec_string(&options, "split", &splits, error);
    struct graph *whole = graph;
    if (status == PS_OK && splits != NULL) {
        status = graph_split_all(whole, splits, &graph, error);
        if (status != PS_OK) error_prefix(error, "%s", spec);
    }
    if (status != PS_OK || graph != whole) graph_destroy(whole);
    return status == PS_OK ? network_create(spec, graph, gives_tokens ? tokens : PREDICTS_CLASSES, network, error) : status;
}
