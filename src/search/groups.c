/*
 * Networks of thousands of layers. Most methods take a time that grows with the square of the number of layers or faster, and
 * a plan of a few stages has no use for most cuts. So the neighbouring ones of more than max(512, 32 x workers) layers are
 * joined into at most max(512, 16 x workers) groups, the plan is cut between groups, and its stages are then said in layers
 * again.
 *
 * Layers are laid out along a line by what they take of the whole: of the time or, with limits of memory, half of the time and
 * half of the memory. The line is divided into pieces of equal length, and of the cuts in each piece the one that the fewest
 * bytes cross remains. There are as many pieces as give the wanted number of groups: pieces without a cut inside a long layer
 * are left out.
 *
 * The search then runs a second time, for plans with as many workers, with up to max(512, 32 x workers) groups and the
 * neighbourhood of the plan's cuts stretched: most layers there are groups of their own,
 * those far from any cut are in larger ones. The plan's own cuts remain, so the second plan of an exact method is no worse.
 */
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/number.h"
#include "search/search.h"

enum { GROUPS_LEAST = 512, GROUPS_PER_WORKER = 16, PIECES_PER_GROUP = 64 };
/* Around each cut of the first plan, on either side: this share of a stage, this many times longer. */
#define NEIGHBOURHOOD (1.0 / 32)
enum { STRETCH = 16 };

struct line {
    const struct cost_table *table;
    double *ends; /* where each layer ends; the whole has length 1 */
    bool *kept;   /* a cut of the first plan */
    bool *closed; /* no cut is allowed after the layer: it is inside a module */
    int *last;    /* of each group */
};

/* What a layer takes, and of all layers. */
struct measure {
    double time_s, bytes;
};

static struct measure measure_layer(const struct layer_cost *layer) {
    const struct layer_times *time = &layer->time;
    return (struct measure){time->forward_s + time->backward_input_s + time->backward_weight_s,
                            (double)(layer->size.parameter_bytes + layer->size.stash_bytes)};
}

static void lay_out(struct line *line, bool memory) {
    const struct cost_table *table = line->table;
    struct measure all = {0};
    double at = 0;
    for (int l = 0; l < table->layer_count; l++) {
        struct measure one = measure_layer(&table->layers[l]);
        all.time_s += one.time_s;
        all.bytes += one.bytes;
    }
    memory = memory && all.bytes > 0;
    for (int l = 0; l < table->layer_count; l++) {
        struct measure one = measure_layer(&table->layers[l]);
        at += all.time_s > 0 ? one.time_s / all.time_s : 0;
        at += memory ? one.bytes / all.bytes : 0;
        line->ends[l] = memory ? at / 2 : at;
    }
}

/* Stretches the neighbourhood of the plan's cuts, and keeps them. */
static void stretch(struct line *line, const struct ps_plan *plan) {
    int layers = line->table->layer_count, cut = 0, cuts = plan->stage_count - 1;
    double before = 0, at = 0, reach = NEIGHBOURHOOD / plan->stage_count, last_cut = -1;
    for (int l = 0; l < layers; l++) {
        double end = line->ends[l], next_cut = cut < cuts ? line->ends[plan->stages[cut].last] : 2;
        bool near = next_cut - end <= reach || end - last_cut <= reach;
        at += near ? STRETCH * (end - before) : end - before;
        before = end;
        line->ends[l] = at;
        line->kept[l] = cut < cuts && plan->stages[cut].last == l;
        if (line->kept[l]) last_cut = end, cut++;
    }
    for (int l = 0; l < layers && at > 0; l++) line->ends[l] /= at;
}

/* Whether the cut after layer `a` is to remain rather than the earlier one after `b`. */
static bool preferred(const struct line *line, int a, int b) {
    const struct layer_cost *layers = line->table->layers;
    if (a == line->table->layer_count - 1 || line->kept[a]) return true;
    return !line->kept[b] && layers[a].size.output_bytes <= layers[b].size.output_bytes;
}

/* Keeps a cut in each of so many pieces, and all that are to be kept; returns the number of groups. */
static int choose(const struct line *line, int pieces) {
    int count = 0, filled = -1, layers = line->table->layer_count;
    for (int l = 0; l < layers; l++) {
        int piece = (int)(line->ends[l] * pieces);
        bool must = line->kept[l] || l == layers - 1;
        if (line->closed[l]) continue;
        if (piece >= pieces || l == layers - 1) piece = pieces - 1;
        if (piece > filled || (must && line->kept[line->last[count - 1]]))
            line->last[count++] = l;
        else if (preferred(line, l, line->last[count - 1]))
            line->last[count - 1] = l;
        filled = piece;
    }
    return count;
}

/* The length of the first `depth` parts of a name. */
static size_t module_length(const char *name, int depth) {
    const char *at = name;
    for (; depth > 0 && *at; depth--) at += strcspn(at, ".") + (depth > 1 && strchr(at, '.') != NULL);
    return (size_t)(at - name);
}

/* Closes the cuts inside modules; returns the number of cuts that remain, the end included. */
static int close_modules(struct line *line, int depth) {
    const struct layer_cost *layers = line->table->layers;
    int count = line->table->layer_count, open = count;
    for (int l = 0; depth > 0 && l < count - 1; l++) {
        size_t length = module_length(layers[l].name, depth);
        line->closed[l] =
            length == module_length(layers[l + 1].name, depth) && memcmp(layers[l].name, layers[l + 1].name, length) == 0;
        open -= line->closed[l];
    }
    return open;
}

enum ps_status search_group(const struct ps_profile *profile, const struct ps_cluster *cluster, int module_depth,
                            const struct ps_plan *near, struct ps_profile **grouped, struct ps_error *error) {
    const struct cost_table *table = &profile->tables[profile->table_count - 1];
    size_t layers = (size_t)table->layer_count;
    const int fewer = number_larger_int(GROUPS_PER_WORKER * cluster->workers, GROUPS_LEAST);
    const int more = number_larger_int(2 * GROUPS_PER_WORKER * cluster->workers, GROUPS_LEAST), most = near ? more : fewer;
    *grouped = NULL;
    if (module_depth == 0 && (table->layer_count <= more || profile->graph)) return PS_OK;
    struct arena arena = {0};
    struct line line = {.table = table,
                        .ends = arena_take(&arena, layers, sizeof *line.ends),
                        .kept = arena_take(&arena, layers, sizeof *line.kept),
                        .closed = arena_take(&arena, layers, sizeof *line.closed),
                        .last = arena_take(&arena, layers, sizeof *line.last)};
    TRY(arena_check(&arena, "groups of layers", error));
    int open = close_modules(&line, module_depth), count = 0;
    if (near && open <= fewer) {
        arena_release(&arena);
        return PS_OK;
    }
    lay_out(&line, search_has_limit(cluster, cluster->workers));
    if (near) stretch(&line, near);
    int low = most / 2, high = PIECES_PER_GROUP * most;
    while (open > most && high - low > 1) {
        int middle = low + (high - low) / 2;
        *(choose(&line, middle) <= most ? &low : &high) = middle;
    }
    if (open > most) count = choose(&line, low);
    for (int l = 0; open <= most && l < table->layer_count; l++)
        if (!line.closed[l]) line.last[count++] = l;
    log_info("%d layers are cut between %d groups%s", table->layer_count, count, near ? ", most near the plan's cuts" : "");
    enum ps_status status = profile_group(profile, line.last, count, grouped, error);
    arena_release(&arena);
    return status;
}

/* The objective stays: it is that of the same stages. The bound of the groups' plans is none of the layers', which have more
 * cuts. */
enum ps_status search_ungroup(const struct ps_profile *grouped, const struct ps_profile *profile,
                              const struct ps_cluster *cluster, bool replicate, struct ps_plan *plan, struct ps_error *error) {
    struct plan_prediction *predicted = &plan->predicted;
    struct planner_problem problem = {.cluster = cluster, .workers = plan->workers, .replicate = replicate};
    for (int s = 0; s < plan->stage_count; s++) {
        plan->stages[s].first = cost_table_first(&grouped->tables[0], plan->stages[s].first);
        plan->stages[s].last = cost_table_last(&grouped->tables[0], plan->stages[s].last);
    }
    TRY(profile_table(profile, plan->micro_batch, &problem.costs, error));
    TRY(plan_ties_set(plan, cost_table_ends_tied(problem.costs), problem.costs->ties, error));
    double least_s = search_least_period_s(&problem);
    search_set_bound(predicted, least_s < predicted->objective_s ? least_s : predicted->objective_s);
    if (!predicted->simulated) return PS_OK;
    struct ps_simulation *simulation;
    TRY(simulate_figures(plan, profile, cluster, 0, &simulation, error));
    search_take_simulation(simulation, predicted);
    ps_simulation_destroy(simulation);
    return PS_OK;
}
