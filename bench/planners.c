/*
 * The planners side by side on measured profiles, without a simulation: what each minimises, in milliseconds, and the time that
 * it took. The tables:
 *
 *   pipedream    PipeDream's own objective on its own graphs, straight and replicated (its program's figures to the nanosecond)
 *   cuts         chains without memory: one cut for both directions (exact, and BaPipe's moves) and one cut for each
 *   sizes        Bi-Partition's worked example, and made chains of several lengths, without transfers, with them, and with
 *                memory
 *   memory       MadPipe's problem as published, at multiples of the least memory that allows a contiguous plan; `gap` is how
 *                far the plan found is from the bound of its class, `grid` MadPipe's own way (- where it finds none, nothing
 *                for more than 100 layers, which take it minutes)
 *   madpipe      the same without MadPipe's own way, which takes minutes, and how many gaps are at most 0.1%
 *
 *     planners PROFILES_DIRECTORY [TABLE...]
 *
 * PROFILES_DIRECTORY holds pipedream/NAME.graph.txt, whose chains `cuts` takes, and for `memory` chains/NAME.chain.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "plan/partitioner.h"
#include "plan/planners/madpipe.h"

extern const struct planner planner_pipedream_paper, planner_bipartition, planner_madpipe, planner_madpipe_paper;
extern const struct partitioner partitioner_pipedream, partitioner_bapipe;

enum { WORKERS_MAX = 64 };

static const char *directory;

static const char *const names[] = {"alexnet", "vgg16", "resnet50", "resnext50", "densenet121", "gnmt", "nasnetamobile"};
enum { NAMES = sizeof names / sizeof *names };

static void stop(const struct ps_error *error) {
    fprintf(stderr, "planners: %s\n", error->message);
    exit(error->status);
}

static struct ps_profile *read_profile(const char *folder, const char *name, const char *ending) {
    char path[4096];
    struct ps_profile *profile;
    struct ps_error error = {0};
    snprintf(path, sizeof path, "%s/%s/%s.%s", directory, folder, name, ending);
    if (ps_profile_read(path, &profile, &error) != PS_OK) stop(&error);
    return profile;
}

static struct ps_cluster *make_cluster(int workers, int64_t memory_bytes, double bandwidth_bytes_per_s) {
    struct ps_cluster_options options = {.struct_size = sizeof options,
                                         .workers = workers,
                                         .memory_bytes = memory_bytes,
                                         .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
    struct ps_cluster *cluster;
    struct ps_error error = {0};
    if (ps_cluster_uniform(&options, &cluster, &error) != PS_OK) stop(&error);
    return cluster;
}

struct result {
    bool found;
    double objective_ms, bound_ms, solve_ms;
};

static struct result solve_planner(const struct planner *planner, const struct planner_problem *problem) {
    struct planner_answer answer = {0};
    struct ps_error error = {0};
    double start_s = clock_now();
    enum ps_status status = planner->solve(problem, &answer, &error);
    struct result result = {status == PS_OK, 1e3 * answer.objective_s, 1e3 * answer.lower_bound_s,
                            1e3 * (clock_now() - start_s)};
    planner_answer_free(&answer);
    if (status != PS_OK && status != PS_NO_PLAN) stop(&error);
    return result;
}

static struct result solve_partitioner(const struct partitioner *partitioner, const struct cost_table *costs,
                                       const struct ps_cluster *cluster) {
    int last[WORKERS_MAX];
    struct partition partition = {.last = last};
    struct partition_problem problem = {.costs = costs, .cluster = cluster, .stages = cluster->workers};
    struct ps_error error = {0};
    double start_s = clock_now();
    enum ps_status status = partitioner->solve(&problem, &partition, &error);
    if (status != PS_OK && status != PS_NO_PLAN) stop(&error);
    return (struct result){status == PS_OK, 1e3 * partition.objective_s, 1e3 * partition.lower_bound_s,
                           1e3 * (clock_now() - start_s)};
}

static void print_result(const struct result *result, int decimals) {
    if (result->found)
        printf(" %10.*f %8.2f", decimals, result->objective_ms, result->solve_ms);
    else
        printf(" %10s %8.2f", "-", result->solve_ms);
}

static void table_pipedream(void) {
    printf("pipedream: PipeDream's objective on its graphs, ms (and ms to solve)\n");
    printf("%-14s %3s %5s %10s %8s %10s %8s\n", "profile", "P", "GB/s", "straight", "solve", "replicated", "solve");
    for (int n = 0; n < NAMES; n++) {
        struct ps_profile *profile = read_profile("pipedream", names[n], "graph.txt");
        for (int workers = 2; workers <= 8; workers *= 2)
            for (int fast = 0; fast < 2; fast++) {
                double gigabytes = fast ? 12 : 1;
                struct ps_cluster *cluster = make_cluster(workers, 0, 1e9 * gigabytes);
                printf("%-14s %3d %5.0f", names[n], workers, gigabytes);
                for (int replicate = 0; replicate < 2; replicate++) {
                    struct planner_problem problem = {.costs = &profile->tables[0],
                                                      .graph = profile->graph,
                                                      .cluster = cluster,
                                                      .workers = workers,
                                                      .replicate = replicate};
                    struct result result = solve_planner(&planner_pipedream_paper, &problem);
                    print_result(&result, 6);
                }
                printf("\n");
                fflush(stdout);
                ps_cluster_destroy(cluster);
            }
        ps_profile_destroy(profile);
    }
}

static void table_cuts(void) {
    printf("\ncuts: one cut for both directions, or one for each (honest and published cost), ms (and ms to solve)\n");
    printf("%-14s %3s %3s %5s %10s %8s %10s %8s %10s %8s %10s %8s\n", "profile", "L", "P", "GB/s", "pipedream", "solve",
           "bapipe", "solve", "bipart.", "solve", "published", "solve");
    for (int n = 0; n < NAMES; n++) {
        struct ps_profile *profile = read_profile("pipedream", names[n], "graph.txt");
        const struct cost_table *costs = &profile->tables[0];
        for (int workers = 4; workers <= 8; workers *= 2)
            for (int which = 0; which < 3; which++) {
                double gigabytes = which == 0 ? 0 : which == 1 ? 1 : 12;
                struct ps_cluster *cluster = make_cluster(workers, 0, 1e9 * gigabytes);
                struct planner_problem problem = {.costs = costs, .cluster = cluster, .workers = workers};
                struct planner_problem published = problem;
                published.paper_cost = true;
                struct result results[] = {solve_partitioner(&partitioner_pipedream, costs, cluster),
                                           solve_partitioner(&partitioner_bapipe, costs, cluster),
                                           solve_planner(&planner_bipartition, &problem),
                                           solve_planner(&planner_bipartition, &published)};
                printf("%-14s %3d %3d", names[n], costs->layer_count, workers);
                if (gigabytes > 0)
                    printf(" %5.0f", gigabytes);
                else
                    printf(" %5s", "-");
                for (int r = 0; r < 4; r++) print_result(&results[r], 3);
                printf("\n");
                fflush(stdout);
                ps_cluster_destroy(cluster);
            }
        ps_profile_destroy(profile);
    }
}

/* Layers of random costs, the same in every run. */
static struct ps_profile *make_chain(int layers) {
    struct random_key key = random_key(1, RANDOM_TEST, (uint64_t)layers, 0);
    struct ps_profile *profile;
    struct ps_error error = {0};
    if (profile_create(1, layers, &profile, &error) != PS_OK) stop(&error);
    uint64_t n = 0;
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time.forward_s = 1e-6 * (double)(1000 + random_below(key, n++, 9000));
        layer->time.backward_input_s = 1e-6 * (double)(1000 + random_below(key, n++, 18000));
        layer->size.parameter_bytes = (int64_t)random_below(key, n++, 2000000);
        layer->size.stash_bytes = (int64_t)random_below(key, n++, 10000000);
        layer->size.output_bytes = layer->size.value_bytes = l + 1 < layers ? (int64_t)random_below(key, n++, 4000000) : 0;
    }
    return profile;
}

/* With so much memory on each worker, counted as under 1F1B with stashed weights. */
static struct result solve_limited(struct planner_problem problem, int64_t memory_bytes) {
    struct stage_slots slots[WORKERS_MAX];
    for (int k = 0; k < problem.workers; k++) {
        int held = problem.workers - k;
        slots[k] = (struct stage_slots){
            .weights = held, .stash = held, .input = held + 1, .output = 2, .output_gradient = 2, .input_gradient = 2};
    }
    struct ps_cluster *cluster = make_cluster(problem.workers, memory_bytes, 12e9);
    problem.cluster = cluster;
    problem.slots = slots;
    problem.moments = 1;
    struct result result = solve_planner(&planner_bipartition, &problem);
    ps_cluster_destroy(cluster);
    return result;
}

/* The least memory with which there is a bi-partition, to a 64th. */
static int64_t least_memory_for_cuts(const struct planner_problem *problem) {
    int64_t high = 1 << 20, low;
    while (!solve_limited(*problem, high).found) high *= 2;
    for (low = high / 2; high - low > high / 64;) {
        int64_t middle = low + (high - low) / 2;
        *(solve_limited(*problem, middle).found ? &high : &low) = middle;
    }
    return high;
}

static void row_size(int layers, int workers, bool with_memory) {
    static const double multiples[] = {1, 1.02, 1.1, 1.5};
    struct ps_profile *profile = make_chain(layers);
    for (int transfers = 0; transfers < 2; transfers++) {
        struct ps_cluster *cluster = make_cluster(workers, 0, transfers ? 12e9 : 0);
        struct planner_problem problem = {.costs = &profile->tables[0], .cluster = cluster, .workers = workers};
        struct result result = solve_planner(&planner_bipartition, &problem);
        printf("%4d %3d %-33s", layers, workers, transfers ? "transfers at 12 GB/s" : "");
        print_result(&result, 3);
        printf("\n");
        ps_cluster_destroy(cluster);
    }
    struct planner_problem problem = {.costs = &profile->tables[0], .workers = workers};
    int64_t least = with_memory ? least_memory_for_cuts(&problem) : 0;
    for (size_t m = 0; with_memory && m < sizeof multiples / sizeof *multiples; m++) {
        struct result result = solve_limited(problem, (int64_t)(multiples[m] * (double)least));
        printf("%4d %3d transfers, %.2f least memory     ", layers, workers, multiples[m]);
        print_result(&result, 3);
        printf("\n");
    }
    ps_profile_destroy(profile);
}

/* f = 1 3 2 3, b = 2 6 4 6 on three workers: 12 by layers, 9 by bi-partition. */
static void row_example(void) {
    static const double forward_ms[] = {1, 3, 2, 3}, backward_ms[] = {2, 6, 4, 6};
    struct ps_profile *profile = make_chain(4);
    for (int l = 0; l < 4; l++)
        profile->tables[0].layers[l].time =
            (struct layer_times){.forward_s = 1e-3 * forward_ms[l], .backward_input_s = 1e-3 * backward_ms[l]};
    struct ps_cluster *cluster = make_cluster(3, 0, 0);
    struct planner_problem problem = {.costs = &profile->tables[0], .cluster = cluster, .workers = 3};
    struct result layers = solve_partitioner(&partitioner_pipedream, problem.costs, cluster);
    struct result both = solve_planner(&planner_bipartition, &problem);
    printf("the paper's example: %g by layers, %g by bi-partition\n", layers.objective_ms, both.objective_ms);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void table_sizes(void) {
    printf("\nsizes: bi-partition, ms (and ms to solve)\n");
    row_example();
    printf("%4s %3s %-33s %10s %8s\n", "L", "P", "with", "bipart.", "solve");
    row_size(50, 8, true);
    row_size(200, 16, true);
    row_size(1000, 16, false);
}

static struct planner_problem memory_problem(const struct cost_table *costs, const struct ps_cluster *cluster) {
    return (struct planner_problem){.costs = costs, .cluster = cluster, .workers = cluster->workers, .paper_cost = true};
}

/* The period of the contiguous optimum. */
static struct result solve_contiguous(const struct planner_problem *problem) {
    struct madpipe data;
    struct ps_error error = {0};
    int count;
    int64_t period_ns = 0;
    double start_s = clock_now();
    if (madpipe_open(problem, &data, &error) != PS_OK) stop(&error);
    struct madpipe_stage *stages = malloc((size_t)data.layers * sizeof *stages);
    enum ps_status status = stages ? madpipe_contiguous(&data, stages, &count, &period_ns, &error) : PS_FAILED;
    free(stages);
    madpipe_close(&data);
    if (status != PS_OK && status != PS_NO_PLAN) stop(&error);
    return (struct result){status == PS_OK, 1e-6 * (double)period_ns, 0, 1e3 * (clock_now() - start_s)};
}

/* The least memory, to a MiB, with which there is a contiguous plan. */
static int64_t least_memory(const struct cost_table *costs, int workers, double bandwidth_bytes_per_s) {
    int64_t low = 0, high = 1;
    for (bool found = false; !found || high - low > 1;) {
        int64_t middle = found ? (low + high) / 2 : high;
        struct ps_cluster *cluster = make_cluster(workers, middle << 20, bandwidth_bytes_per_s);
        struct planner_problem problem = memory_problem(costs, cluster);
        if (solve_contiguous(&problem).found) {
            high = middle;
            found = true;
        } else {
            low = middle;
            if (!found) high *= 2;
        }
        ps_cluster_destroy(cluster);
    }
    return high << 20;
}

struct totals {
    int rows, close, compared;
    double logarithms; /* of how much shorter than the grid's plans ours are */
};

enum { GRID_LAYERS = 100 }; /* of longer chains, on which the grid takes minutes for a case, it is left out */

static void print_grid(const struct planner_problem *problem, const struct result *exact, struct totals *totals) {
    struct result grid = solve_planner(&planner_madpipe_paper, problem);
    print_result(&grid, 3);
    if (!exact->found || !grid.found) return;
    totals->logarithms += log(exact->objective_ms / grid.objective_ms);
    totals->compared++;
}

/* The rows of one profile and number of workers. */
static void rows_memory(const char *name, const struct cost_table *costs, int workers, double gigabytes, bool with_grid,
                        struct totals *totals) {
    static const double multiples[] = {1.1, 1.4, 2};
    int64_t least = least_memory(costs, workers, 1e9 * gigabytes);
    for (int m = 0; m < 3; m++) {
        struct ps_cluster *cluster = make_cluster(workers, (int64_t)(multiples[m] * (double)least), 1e9 * gigabytes);
        struct planner_problem problem = memory_problem(costs, cluster);
        struct result contiguous = solve_contiguous(&problem), exact = solve_planner(&planner_madpipe, &problem);
        double gap = exact.found ? exact.objective_ms / exact.bound_ms - 1 : 0;
        printf("%-25s %3d %3d %8.0f %5.1f", name, costs->layer_count, workers, (double)least / (1 << 20), multiples[m]);
        print_result(&contiguous, 3);
        print_result(&exact, 3);
        printf(" %6.2f%%", 100 * gap);
        totals->rows++;
        totals->close += exact.found && gap <= 0.001;
        if (with_grid && costs->layer_count <= GRID_LAYERS) print_grid(&problem, &exact, totals);
        printf("\n");
        fflush(stdout);
        ps_cluster_destroy(cluster);
    }
}

static void print_memory(bool with_grid) {
    static const char *const tight[] = {
        "alexnet",        "amoeba-6-pbs-8-simplified", "gnmt",     "vgg-19-pbs-32", "bert-24-pbs-6", "xlnet-24-pbs-1", "vgg16",
        "gnmt-16-pbs-64", "amoeba-36-pbs-1",           "resnet50", "resnext50",     "densenet121"};
    struct totals totals = {0};
    printf("\nmadpipe at multiples of the least memory, published cost, 12 GB/s, ms (and ms to solve)\n");
    printf("%-25s %3s %3s %8s %5s %10s %8s %10s %8s %7s", "profile", "L", "P", "MiB", "x", "contiguous", "solve", "madpipe",
           "solve", "gap");
    if (with_grid) printf(" %10s %8s", "grid", "solve");
    printf("\n");
    for (size_t n = 0; n < sizeof tight / sizeof *tight; n++) {
        struct ps_profile *profile = read_profile("chains", tight[n], "chain");
        for (int workers = 4; workers <= 8; workers += 4)
            rows_memory(tight[n], &profile->tables[0], workers, 12, with_grid, &totals);
        ps_profile_destroy(profile);
    }
    printf("gap at most 0.1%% in %d of %d\n", totals.close, totals.rows);
    if (totals.compared > 0)
        printf("madpipe is %.1f%% shorter than madpipe-paper on geometric mean of %d\n",
               100 * (1 - exp(totals.logarithms / totals.compared)), totals.compared);
}

static void table_memory(void) { print_memory(true); }
static void table_madpipe(void) { print_memory(false); }

static const struct {
    const char *name;
    void (*print)(void);
} tables[] = {{"pipedream", table_pipedream},
              {"cuts", table_cuts},
              {"sizes", table_sizes},
              {"madpipe", table_madpipe},
              {"memory", table_memory}};

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: planners PROFILES_DIRECTORY [TABLE...]\n");
        return PS_USAGE;
    }
    directory = arguments[1];
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        bool wanted = count == 2 && tables[t].print != table_madpipe;
        for (int a = 2; a < count; a++) wanted |= strcmp(arguments[a], tables[t].name) == 0;
        if (wanted) tables[t].print();
    }
    return 0;
}
