/*
 * Measures the costs of each layer on a device of this machine: the medians of several rounds through all layers
 * (profile/bench.h). A disturbance from outside then affects a few layers of one round, which the median ignores. The average
 * cost of small disturbances is added, spread over all layers. On request there is background load during the measurement
 * (profile/background_load.h), as from the other workers of a pipeline on the same machine.
 *
 * A network that does not fit the memory is measured in pieces, one after the other, each with as many layers as fit; the last
 * output of a piece is the input of the next.
 *
 * The core transfer between workers is measured separately (profile/core_transfer.h) and counted by bytes.
 *
 * The two halves of a backward are run together and separately; the additional times of the latter are `split_input_s` and
 * `split_s`.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/processor.h"
#include "base/random.h"
#include "base/versioned.h"
#include "graph/network.h"
#include "profile/background_load.h"
#include "profile/core_transfer.h"
#include "profile/modelled.h"

enum { DEFAULT_WARMUP = 2, LEAST_REPEATS = 9, QUICK_REPEATS = 2, MOST_REPEATS = 199, REPEATS_MAX = 10000 };
/* By default small networks are measured for this long: a single disturbance may last as long as a dozen of their rounds. */
#define MEASURED_S 0.25
/* A quick measurement whose rounds take longer than this has one of them. */
#define QUICK_ROUND_S 1.0
/* A thread that had a core for less of the time was disturbed by other programs. */
#define OWN_SHARE 0.8

/* ------------------------------------------------------------------ results */

/* Sorts the times. */
static double median(double *times, int count, double *spread) {
    qsort(times, (size_t)count, sizeof *times, number_compare);
    *spread = (times[3 * (count - 1) / 4] - times[(count - 1) / 4]) / 2;
    return count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
}

/* The median, and the difference that may be due to chance. */
struct figure {
    double s, spread_s;
};

static struct figure figure_of(const struct bench *bench, int layer, enum timing timing) {
    struct figure figure;
    figure.s = median(bench_times(bench, layer, timing), bench->repeats, &figure.spread_s);
    return figure;
}

/* Divides the time of a whole backward between its halves in the ratio of their separate times. */
static void summarize_halves(const struct figure *both, const struct figure *input, const struct figure *weights,
                             struct layer_times *time) {
    double split_s = input->s + weights->s, share = split_s > 0 ? input->s / split_s : 0;
    time->backward_input_s = both->s * share;
    time->backward_weight_s = both->s - time->backward_input_s;
    time->split_input_s = fmax(0, input->s - time->backward_input_s);
    time->split_s = fmax(0, weights->s - time->backward_weight_s);
}

/* Sorts the layer's times. */
static void summarize(const struct bench *bench, int l, struct layer_cost *cost) {
    struct layer_times *time = &cost->time, *spread = &cost->spread;
    struct figure forward = figure_of(bench, l, TIME_FORWARD), both = figure_of(bench, l, TIME_BACKWARD);
    time->forward_s = forward.s;
    spread->forward_s = forward.spread_s;
    time->backward_input_s = both.s;
    spread->backward_input_s = both.spread_s;
    if (cost->size.parameter_bytes == 0) return;
    struct figure input = figure_of(bench, l, TIME_INPUT_HALF), weights = figure_of(bench, l, TIME_WEIGHTS_HALF);
    summarize_halves(&both, &input, &weights, time);
    spread->backward_input_s = input.spread_s;
    spread->backward_weight_s = both.spread_s + input.spread_s;
    const struct {
        enum timing timing;
        double *time, *spread;
    } updates[] = {{TIME_UPDATE, &time->update_s, &spread->update_s},
                   {TIME_UPDATE_PREDICT, &time->update_predict_s, &spread->update_predict_s},
                   {TIME_PREDICT, &time->predict_s, &spread->predict_s},
                   {TIME_UPDATE_OUT_OF_PLACE, &time->update_out_of_place_s, &spread->update_out_of_place_s}};
    for (int u = 0; u < 4; u++) {
        struct figure figure = figure_of(bench, l, updates[u].timing);
        *updates[u].time = figure.s;
        *updates[u].spread = figure.spread_s;
    }
    cost->sum_s = figure_of(bench, l, TIME_SUM).s / 2;
}

/* Adding is one more pass over the gradients. The difference is small compared with the random error of a layer's medians, so
 * it is computed from all layers together. */
static void summarize_adding(const struct bench *bench, struct layer_cost *layers) {
    double longer_s = 0, spread_s;
    int64_t bytes = 0;
    for (int l = 0; l < bench->layer_count; l++) {
        if (layers[l].size.parameter_bytes == 0) continue;
        longer_s += median(bench_times(bench, l, TIME_ADDING), bench->repeats, &spread_s) -
                    median(bench_times(bench, l, TIME_BACKWARD), bench->repeats, &spread_s);
        bytes += layers[l].size.parameter_bytes;
    }
    for (int l = 0; l < bench->layer_count && longer_s > 0; l++)
        layers[l].time.accumulate_s = longer_s * (double)layers[l].size.parameter_bytes / (double)bytes;
}

/* A round that took longer than the median round times this factor is ignored: its disturbance is not typical of the
 * machine. */
#define DISTURBED 1.5

/* The average time of a round, everything included. `rounds` has room for one number per round. */
static double round_s(const struct bench *bench, double *rounds) {
    double spread_s, sum_s = 0;
    int count = 0;
    memset(rounds, 0, (size_t)bench->repeats * sizeof *rounds);
    for (int l = 0; l < bench->layer_count; l++)
        for (int t = 0; t < TIMINGS; t++)
            for (int r = 0; r < bench->repeats; r++) rounds[r] += bench_times(bench, l, (enum timing)t)[r];
    double typical_s = median(rounds, bench->repeats, &spread_s);
    for (; count < bench->repeats && rounds[count] <= DISTURBED * typical_s; count++) sum_s += rounds[count];
    return sum_s / count;
}

static double medians_s(const struct bench *bench) {
    double sum_s = 0, spread_s;
    for (int l = 0; l < bench->layer_count; l++)
        for (int t = 0; t < TIMINGS; t++) sum_s += median(bench_times(bench, l, (enum timing)t), bench->repeats, &spread_s);
    return sum_s;
}

/* Medians give the undisturbed ratios between layers. Short interruptions of a worker are in no layer's median, but in every
 * run: the times of all layers are scaled so that they add up to the average round. */
static enum ps_status summarize_all(struct bench *bench, struct layer_cost *layers, struct ps_error *error) {
    double *rounds;
    TRY(memory_new(&rounds, bench->repeats, "profiling", error));
    double taken_s = round_s(bench, rounds);
    free(rounds);
    for (int l = 0; l < bench->layer_count; l++) summarize(bench, l, &layers[l]);
    summarize_adding(bench, layers);
    double factor = taken_s / medians_s(bench);
    for (int l = 0; l < bench->layer_count; l++) {
        layer_times_scale(&layers[l].time, factor);
        layers[l].sum_s *= factor;
    }
    return PS_OK;
}

static enum ps_status record_sizes(const struct bench *bench, struct cost_table *table, struct ps_error *error) {
    int count = bench->graph->layer_count;
    struct layer_sizes *sizes;
    TRY(memory_new(&sizes, count, "profiling", error));
    enum ps_status status = stage_layer_sizes(bench->device, bench->graph, bench->samples, sizes, &table->input_bytes, error);
    for (int l = 0; status == PS_OK && l < count; l++) table->layers[l].size = sizes[l];
    free(sizes);
    return status;
}

/* The median of some passes over a block of random numbers that does not fit the caches near a core. */
static enum ps_status measure_wire(struct cost_table *table, struct ps_error *error) {
    enum { NUMBERS = 1 << 19, PASSES = 5 };
    const struct wire_run run = {0, NUMBERS, TYPE_F32};
    struct arena arena = {0};
    float *block = arena_take(&arena, NUMBERS, sizeof *block), *feedback = arena_take(&arena, NUMBERS, sizeof *feedback);
    char *encoded = arena_take(&arena, NUMBERS + 64, sizeof *block);
    TRY(arena_check(&arena, "profiling", error));
    const struct random_key key = random_key(0, RANDOM_SYNTHETIC, 0, 0);
    for (uint64_t i = 0; i < NUMBERS; i++) block[i] = 2 * random_uniform(key, i) - 1;
    for (int c = WIRE_NONE + 1; c < WIRE_CODECS; c++) {
        const struct wire wire = {.codec = (enum wire_codec)c, .share = c == WIRE_TOPK ? 0.05 : 0};
        double times[2][PASSES], spread;
        for (int p = 0; p < PASSES; p++) {
            const double start = clock_now();
            wire_encode(&wire, &run, 1, block, wire_codecs[c].feedback ? feedback : NULL, encoded);
            const double middle = clock_now();
            wire_decode(&wire, &run, 1, encoded, block);
            times[0][p] = middle - start;
            times[1][p] = clock_now() - middle;
        }
        for (int t = 0; t < 2; t++) table->wire_s[c][t] = median(times[t], PASSES, &spread) / NUMBERS;
    }
    arena_release(&arena);
    return PS_OK;
}

/* The costs of the cuts, and the additional time of a sum whose blocks are in two cores' caches. */
static enum ps_status summarize_shared(const struct bench *bench, bool several, struct cost_table *table,
                                       struct ps_error *error) {
    struct core_transfer_rates rates;
    if (!device_in_host(bench->device)) return PS_OK; /* no costs depend on the core */
    TRY(core_transfer_measure(several, &rates, error));
    for (int l = 0; l < table->layer_count; l++) {
        const struct layer_sizes *size = &table->layers[l].size;
        double bytes = (double)(size->parameter_bytes + size->statistics_bytes);
        table->layers[l].sum_s += bytes * rates.take + (double)size->statistics_bytes * rates.copy;
    }
    for (int l = 0; l + 1 < table->layer_count; l++) {
        struct layer_cost *layer = &table->layers[l];
        double copied = (double)stage_copied_bytes(bench->graph, bench->samples, l), all = (double)layer->size.output_bytes;
        layer->core_transfer_s = copied * rates.copy + fmax(0, all - copied) * rates.take;
        layer->take_over_s = all * rates.take;
    }
    return PS_OK;
}

/* Passes the output of the piece's last layer to the next piece. */
static enum ps_status pass_on(const struct bench *bench, void **input, struct ps_error *error) {
    size_t size = (size_t)stage_sizes(bench->stage).output_bytes;
    void *copy = realloc(*input, size);
    if (!copy) return error_memory(error, "profiling", size);
    device_copy(bench->device, copy, bench->blocks.output, size);
    device_finish(bench->device);
    *input = copy;
    return PS_OK;
}

/* The layers that are open, as far as so many of `rounds` rounds. */
static void say_progress(const struct bench *bench, double done, int rounds) {
    log_progress("profiling", bench->measured + bench->first + bench->layer_count * done / rounds, bench->to_measure,
                 "micro-batch %d", bench->samples);
}

/* Runs the layers without timing until they are warm, and sets *round_s to the time of a round. Quick: a forward and a backward
 * are half a round; those of a small network run twice, since the first time they take much longer. */
static enum ps_status warm(struct bench *bench, int warmup, double *round_s, struct ps_error *error) {
    double start = clock_now();
    for (int r = 0; r < warmup && !bench->quick; r++) {
        say_progress(bench, r, warmup + bench->repeats);
        TRY(bench_round(bench, r, -1, error));
    }
    *round_s = (clock_now() - start) / warmup;
    for (int r = 0; bench->quick && r < 2 && (r == 0 || *round_s < QUICK_ROUND_S); r++) {
        start = clock_now();
        TRY(bench_warm(bench, error));
        *round_s = 2 * (clock_now() - start);
    }
    return PS_OK;
}

/* Measures the layers, under the background load. */
static enum ps_status measure_rounds(struct bench *bench, struct background_load *background_load, int warmup,
                                     struct ps_error *error) {
    double warm_s;
    TRY(bench_open(bench, error));
    TRY(warm(bench, warmup, &warm_s, error));
    if (bench->least_repeats > 0) {
        const int least = bench->quick && warm_s > QUICK_ROUND_S ? 1 : bench->least_repeats;
        bench->repeats = (int)fmin(fmax(MEASURED_S / warm_s, least), bench->repeats);
    }
    background_load_wait(background_load);
    const double start = clock_now(), had = clock_of_thread();
    for (int r = 0; r < bench->repeats; r++) {
        say_progress(bench, warmup + r, warmup + bench->repeats);
        TRY(bench_round(bench, warmup + r, r, error));
    }
    say_progress(bench, 1, 1);
    const double share = (clock_of_thread() - had) / (clock_now() - start);
    /* Threads beside this one, and devices with a queue, it waits for. */
    if (bench->device->threads == 1 && device_in_host(bench->device) && share < OWN_SHARE)
        log_info("other programs had the core for %.0f%% of the time in which this was measured: predictions will be too slow "
                 "for a machine without them",
                 100 * (1 - share));
    return PS_OK;
}

/* Measures as many layers as fit, from bench->first on, with `others` threads of background load. */
static enum ps_status measure_piece(struct bench *bench, int others, int warmup, struct cost_table *table, void **input,
                                    struct ps_error *error) {
    struct background_load *background_load = NULL;
    if (others > 0) TRY(background_load_start(bench, others, &background_load, error));
    enum ps_status status = measure_rounds(bench, background_load, warmup, error);
    enum ps_status ended = background_load_end(background_load, status == PS_OK ? error : NULL);
    TRY(status);
    TRY(ended);
    TRY(summarize_all(bench, &table->layers[bench->first], error));
    return bench->first + bench->layer_count < bench->graph->layer_count ? pass_on(bench, input, error) : PS_OK;
}

static enum ps_status measure_size(const struct bench *all, int others, int warmup, struct cost_table *table,
                                   struct ps_error *error) {
    void *input = NULL;
    enum ps_status status = record_sizes(all, table, error);
    for (int first = 0; status == PS_OK && first < all->graph->layer_count;) {
        struct bench bench = *all;
        bench.table = table;
        bench.first = first;
        bench.input = input;
        status = measure_piece(&bench, others, warmup, table, &input, error);
        first += bench.layer_count;
        bench_close(&bench);
    }
    free(input);
    if (status == PS_OK) status = measure_wire(table, error);
    return status == PS_OK ? summarize_shared(all, others > 0, table, error) : status;
}

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Writes the sizes into `sizes` in ascending order. */
static enum ps_status check_options(const struct ps_profile_options *options, int *sizes, struct ps_error *error) {
    if (options->threads < 0 || options->threads > 4096)
        return error_set(error, PS_USAGE, "threads: %d is not from 1 to 4096", options->threads);
    if (options->busy < 0 || options->busy > 1024)
        return error_set(error, PS_USAGE, "busy: %d workers side by side: 1 to 1024 are accepted", options->busy);
    if (options->warmup < 0 || options->repeats < 0 || options->warmup > REPEATS_MAX || options->repeats > REPEATS_MAX)
        return error_set(error, PS_USAGE, "warm-up of %d and %d repeats: 0 (the default) to %d are accepted", options->warmup,
                         options->repeats, REPEATS_MAX);
    if (options->memory_bytes < 0)
        return error_set(error, PS_USAGE, "memory: %lld bytes are negative", (long long)options->memory_bytes);
    memcpy(sizes, options->micro_batches, (size_t)options->micro_batch_count * sizeof *sizes);
    qsort(sizes, (size_t)options->micro_batch_count, sizeof *sizes, compare_ints);
    for (int i = 0; i < options->micro_batch_count; i++) {
        if (sizes[i] < 1 || sizes[i] > PROFILE_MICRO_BATCH_MAX)
            return error_set(error, PS_USAGE, "micro-batch %d: 1 to %d samples are accepted", sizes[i],
                             PROFILE_MICRO_BATCH_MAX);
        if (i > 0 && sizes[i] == sizes[i - 1]) return error_set(error, PS_USAGE, "micro-batch %d is given twice", sizes[i]);
    }
    return PS_OK;
}

static void name_layers(const struct graph *graph, struct cost_table *table) {
    for (int l = 0; l < graph->layer_count; l++) {
        snprintf(table->layers[l].name, sizeof table->layers[l].name, "%s", graph->layers[l].name);
        snprintf(table->layers[l].kind, sizeof table->layers[l].kind, "%s", graph->layers[l].kind);
    }
}

static enum ps_status open_device(const char *name, int threads, struct device **out, struct ps_error *error) {
    struct device *device;
    TRY(device_open(name, &(struct device_options){.threads = threads}, &device, error));
    if (!device->type->real) {
        device_close(device);
        return error_set(error, PS_USAGE, "device '%s' computes nothing that could be measured", name);
    }
    *out = device;
    return PS_OK;
}

static enum ps_status measure(const struct ps_network *network, const struct ps_profile_options *options,
                              struct ps_profile *profile, struct ps_error *error) {
    struct device *device;
    const struct optimizer *rule;
    int warmup = options->quick ? 1 : options->warmup ? options->warmup : DEFAULT_WARMUP;
    TRY(optimizer_find("sgdm", &rule, error));
    TRY(open_device(profile->device, profile->threads, &device, error));
    enum ps_status status = PS_OK;
    for (int i = 0; status == PS_OK && i < profile->table_count; i++) {
        struct bench bench = {.graph = network->graph,
                              .device = device,
                              .rule = rule,
                              .samples = profile->tables[i].micro_batch,
                              .measured = i * network->graph->layer_count,
                              .to_measure = profile->table_count * network->graph->layer_count,
                              .memory_bytes = options->memory_bytes,
                              .quick = options->quick,
                              .repeats = options->repeats ? options->repeats : MOST_REPEATS,
                              .least_repeats = options->repeats ? 0
                                               : options->quick ? QUICK_REPEATS
                                                                : LEAST_REPEATS};
        status = measure_size(&bench, profile->busy - 1, warmup, &profile->tables[i], error);
    }
    device_close(device);
    return status;
}

/* Costs are for pipelines, whose workers slow each other down if they share a memory. */
static int default_busy(int threads) { return cores_usable() >= 2 * threads ? 2 : 1; }

/* Measures the costs, or computes them from a model. */
static enum ps_status fill(const struct ps_network *network, const struct ps_profile_options *options, const int *sizes,
                           struct ps_profile *profile, struct ps_error *error) {
    snprintf(profile->model, sizeof profile->model, "%s", network->name);
    network_hash_text(network->hash, profile->network);
    snprintf(profile->device, sizeof profile->device, "%s", options->device ? options->device : "cpu");
    profile->threads = options->threads ? options->threads : 1;
    for (int i = 0; i < profile->table_count; i++) {
        profile->tables[i].micro_batch = sizes[i];
        name_layers(network->graph, &profile->tables[i]);
    }
    const struct modelled_device *modelled = modelled_find(profile->device);
    profile->busy = modelled ? 1 : options->busy > 0 ? options->busy : default_busy(profile->threads);
    if (!modelled) TRY(measure(network, options, profile, error));
    for (int i = 0; modelled && i < profile->table_count; i++)
        TRY(modelled_fill(modelled, network->graph, &profile->tables[i], error));
    TRY(profile_take_ties(profile, network->graph, modelled ? modelled->element_bytes / (double)sizeof(float) : 1, error));
    return profile_check(profile, error);
}

static enum ps_status measure_all(const struct ps_network *network, const struct ps_profile_options *options,
                                  struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile *made = NULL;
    if (options->micro_batch_count < 1 || options->micro_batch_count > 1000)
        return error_set(error, PS_USAGE, "%d micro-batch sizes: 1 to 1000 are accepted", options->micro_batch_count);
    int *sizes;
    TRY(memory_new(&sizes, options->micro_batch_count, "profiling", error));
    enum ps_status status = check_options(options, sizes, error);
    if (status == PS_OK) status = profile_create(options->micro_batch_count, network->graph->layer_count, &made, error);
    if (status == PS_OK) status = fill(network, options, sizes, made, error);
    free(sizes);
    if (status != PS_OK) {
        ps_profile_destroy(made);
        return status;
    }
    *profile = made;
    return PS_OK;
}

void ps_profile_options_init(struct ps_profile_options *options) {
    *options = (struct ps_profile_options){.struct_size = sizeof *options};
}

enum ps_status ps_profile_measure(const struct ps_network *model, const struct ps_profile_options *options,
                                  struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile_options own = {0};
    TRY(VERSIONED_TAKE(ps_profile_options, options, &own, error));
    TRY(log_check(own.log, error));
    const struct ps_log_sink *log = log_use(own.log);
    enum ps_status status = measure_all(model, &own, profile, error);
    log_restore(log);
    return status;
}
