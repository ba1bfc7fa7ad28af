/*
 * The planners side by side on measured profiles, without a simulation: what each minimises, in milliseconds, and the time that
 * it took. Three tables:
 *
 *   pipedream    PipeDream's own objective on its own graphs, straight and replicated (its program's figures to the nanosecond)
 *   cuts         chains without memory: one cut for both directions (exact, and BaPipe's moves) and one cut for each
 *   memory       MadPipe's problem as published, at multiples of the least memory that allows a contiguous plan; `gap` is how far
 *                the plan found is from the bound of its class, `grid` MadPipe's own way (- where it finds none, or would need too
 *                many states)
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
    struct ps_cluster_options options = {
        .workers = workers, .memory_bytes = memory_bytes, .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
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

/* One row; adds the logarithm of how much shorter than the grid's plan ours is. */
static void row_memory(const char *name, const struct cost_table *costs, int workers, double gigabytes, double *logarithms,
                       int *rows) {
    static const double multiples[] = {1.1, 1.4, 2};
    int64_t least = least_memory(costs, workers, 1e9 * gigabytes);
    for (int m = 0; m < 3; m++) {
        struct ps_cluster *cluster = make_cluster(workers, (int64_t)(multiples[m] * (double)least), 1e9 * gigabytes);
        struct planner_problem problem = memory_problem(costs, cluster);
        struct result contiguous = solve_contiguous(&problem), exact = solve_planner(&planner_madpipe, &problem);
        struct result grid = solve_planner(&planner_madpipe_paper, &problem);
        printf("%-14s %3d %3d %8.0f %5.1f", name, costs->layer_count, workers, (double)least / (1 << 20), multiples[m]);
        print_result(&contiguous, 3);
        print_result(&exact, 3);
        printf(" %6.2f%%", exact.found ? 100 * (exact.objective_ms / exact.bound_ms - 1) : 0);
        print_result(&grid, 3);
        if (exact.found && grid.found) {
            *logarithms += log(exact.objective_ms / grid.objective_ms);
            ++*rows;
        }
        printf("\n");
        fflush(stdout);
        ps_cluster_destroy(cluster);
    }
}

static void table_memory(void) {
    static const char *const tight[] = {"alexnet",      "amoeba-6-pbs-8-simplified", "gnmt",     "vgg-19-pbs-32",
                                        "bert-24-pbs-6", "xlnet-24-pbs-1",            "vgg16",    "gnmt-16-pbs-64",
                                        "amoeba-36-pbs-1", "resnet50",                "resnext50", "densenet121"};
    double logarithms = 0;
    int rows = 0;
    printf("\nmemory: madpipe at multiples of the least memory, published cost, 12 GB/s, ms (and ms to solve)\n");
    printf("%-14s %3s %3s %8s %5s %10s %8s %10s %8s %7s %10s %8s\n", "profile", "L", "P", "MiB", "x", "contiguous", "solve",
           "madpipe", "solve", "gap", "grid", "solve");
    for (size_t n = 0; n < sizeof tight / sizeof *tight; n++) {
        struct ps_profile *profile = read_profile("chains", tight[n], "chain");
        for (int workers = 4; workers <= 8; workers += 4)
            row_memory(tight[n], &profile->tables[0], workers, 12, &logarithms, &rows);
        ps_profile_destroy(profile);
    }
    if (rows > 0)
        printf("madpipe is %.1f%% shorter than madpipe-paper on geometric mean of %d\n", 100 * (1 - exp(logarithms / rows)),
               rows);
}

static const struct {
    const char *name;
    void (*print)(void);
} tables[] = {{"pipedream", table_pipedream}, {"cuts", table_cuts}, {"memory", table_memory}};

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: planners PROFILES_DIRECTORY [TABLE...]\n");
        return PS_USAGE;
    }
    directory = arguments[1];
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        bool wanted = count == 2;
        for (int a = 2; a < count; a++) wanted |= strcmp(arguments[a], tables[t].name) == 0;
        if (wanted) tables[t].print();
    }
    return 0;
}
