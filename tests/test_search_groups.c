/*
 * Networks of more layers than are planned one by one: what groups of them cost, how good plans between groups are, and that
 * plans and messages name the profile's layers.
 */
#include "plan/partitioner.h"
#include "search/search.h"
#include "search_support.h"

/* Times over three decades, with some long layers; transfers over two, so that some cuts are cheap. */
static struct ps_profile *chain(struct random_key key, int layers) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, layers, &profile, &test_error));
    strcpy(profile->model, "chain");
    struct cost_table *table = &profile->tables[0];
    table->micro_batch = 1;
    table->input_bytes = 64 * KIB;
    for (int l = 0; l < layers; l++) {
        uint64_t base = 10 * (uint64_t)l;
        struct layer_cost *layer = &table->layers[l];
        double time_s = 1e-4 * exp(1.2 * (double)random_normal(key, base));
        int64_t output = 64 * (int64_t)(1 + 1000 * exp((double)random_normal(key, base + 2)));
        snprintf(layer->name, sizeof layer->name, "layer%d", l + 1);
        layer->time = (struct layer_times){
            .forward_s = time_s, .backward_input_s = time_s, .backward_weight_s = time_s, .update_s = time_s / 100};
        layer->size = (struct layer_sizes){.parameter_bytes = 64 * (int64_t)random_below(key, base + 4, 4000),
                                           .output_bytes = l + 1 < layers ? output : 0,
                                           .value_bytes = l + 1 < layers ? output / 2 : 0,
                                           .stash_bytes = output + 64 * (int64_t)random_below(key, base + 5, 1000),
                                           .tail_bytes = 64 * (int64_t)random_below(key, base + 6, 100),
                                           .delta_bytes = 64 * (int64_t)random_below(key, base + 7, 100),
                                           .workspace_bytes = 64 * (int64_t)random_below(key, base + 8, 3000)};
        layer->sum_s = time_s / 7;
        layer->spill.forward_s = time_s / 3;
        layer->core_transfer_s = time_s / 5;
        layer->take_over_s = time_s / 9;
    }
    return profile;
}

static void assert_near(double one, double other) { assert_true(fabs(one - other) <= 1e-12 * fabs(other)); }

/* Two parameters, of which layers anywhere share each; a layer may use one twice. */
static void tie(struct ps_profile *profile, struct random_key key) {
    enum { TIES = 2, USES = 4 };
    struct cost_table *table = &profile->tables[0];
    profile->ties = (struct ties){arena_take(&profile->arena, TIES, sizeof *profile->ties.list), TIES};
    for (int t = 0; t < TIES; t++) {
        struct tie *tie = &profile->ties.list[t];
        *tie = (struct tie){.bytes = 64 << t, .layers = arena_take(&profile->arena, USES, sizeof(int)), .uses = USES};
        for (int u = 0, layer = (int)random_below(key, 2000 + (uint64_t)t, 5); u < USES; u++) {
            table->layers[layer].size.parameter_bytes += tie->bytes;
            table->layers[layer].size.tied_bytes += tie->bytes;
            tie->layers[u] = layer;
            layer += (int)random_below(key, 2010 + (uint64_t)(USES * t + u), 12);
        }
    }
    assert_ok(arena_status(&profile->arena, "ties", &test_error));
    profile_link_ties(profile);
}

/* A stage of groups costs what the stage of their layers does, and has its sizes to the byte. */
static void stages_of_groups(void **state) {
    (void)state;
    enum { LAYERS = 40, ROUNDS = 60 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (!test_takes((size_t)round, 12)) continue;
        struct random_key key = test_key(round);
        struct ps_profile *profile = chain(key, LAYERS), *grouped;
        struct cost_table *layers = &profile->tables[0];
        int last[LAYERS], count = 0;
        layers->fast_memory_bytes = round % 3 == 0 ? 64 * 40000 : 0;
        if (round % 4 == 1) layers->layers[0].size.tied_bytes = layers->layers[LAYERS - 1].size.tied_bytes = 64;
        if (round % 4 == 3) tie(profile, key);
        for (int l = 0; l < LAYERS; l++)
            if (l == LAYERS - 1 || random_below(key, 1000 + (uint64_t)l, 3) == 0) last[count++] = l;
        assert_ok(profile_group(profile, last, count, &grouped, &test_error));
        const struct cost_table *groups = &grouped->tables[0];
        assert_int_equal(groups->layer_count, count);
        for (int a = 0; a < count; a++)
            for (int b = a; b < count && (a > 0 || b < count - 1 || count > 1); b++) {
                struct stage_cost one = stage_cost(groups, a, b);
                struct stage_cost other = stage_cost(layers, cost_table_first(groups, a), cost_table_last(groups, b));
                assert_memory_equal(&one.size, &other.size, sizeof one.size);
                assert_near(one.time.forward_s, other.time.forward_s);
                assert_near(one.time.backward_input_s, other.time.backward_input_s);
                assert_near(one.time.update_s, other.time.update_s);
                assert_near(one.spill.forward_s, other.spill.forward_s);
                assert_near(one.sum_s, other.sum_s);
                assert_true(one.core_transfer_s == other.core_transfer_s && one.take_before_s == other.take_before_s &&
                            one.take_after_s == other.take_after_s);
            }
        ps_profile_destroy(grouped);
        ps_profile_destroy(profile);
    }
}

/* A plan between groups says which layers share parameters, not which groups. */
static void plans_share(void **state) {
    (void)state;
    enum { LAYERS = 600 };
    struct random_key key = test_key(7);
    struct ps_profile *profile = chain(key, LAYERS);
    struct ps_cluster *cluster = make_cluster(4, 0, 0);
    struct ps_plan_options options = {
        .struct_size = sizeof options, .method = "pipedream", .schedule = "1f1b", .weights = "sync"};
    struct ps_plan *plan;
    tie(profile, key);
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_int_equal(plan->ties.count, profile->ties.count);
    for (int t = 0; t < plan->ties.count; t++) {
        const struct tie *one = &plan->ties.list[t], *other = &profile->ties.list[t];
        assert_int_equal(one->uses, other->uses);
        assert_memory_equal(one->layers, other->layers, (size_t)one->uses * sizeof *one->layers);
    }
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* The slots of an asynchronous pipeline, for the partitioner as the search asks it. */
static struct ps_programs *pipeline(int workers) {
    struct ps_programs *programs;
    struct straight straight = {
        .schedule = "1f1b-async", .policy = "pipeoptim", .workers = workers, .micro_batches = 1, .batches = 4 * workers};
    assert_ok(lower_straight(&straight, &programs, &test_error));
    return programs;
}

/* The exact partition of the layers against the plan between groups, with and without links and limits of memory. The plan's
 * figures are those of its layers. */
static void plans_are_good(void **state) {
    (void)state;
    static const int sizes[] = {600, 800, 1300, 2000};
    enum { SIZES = sizeof sizes / sizeof sizes[0], ROUNDS = 12 };
    double worst = 0;
    int planned = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (!test_takes((size_t)round, 12)) continue;
        struct random_key key = test_key(round);
        int layers = sizes[round % SIZES], workers = round % 3 == 0 ? 4 : 8, last[8];
        struct ps_profile *profile = chain(key, layers);
        struct ps_cluster *cluster = make_cluster(workers, 0, round % 2 ? 2e9 : 0);
        struct ps_programs *programs = pipeline(workers);
        struct partition partition = {.last = last};
        struct partition_problem problem = {
            .costs = &profile->tables[0], .cluster = cluster, .stages = workers, .slots = programs->slots, .moments = 1};
        if (round >= ROUNDS / 2) { /* room for a tenth more than an even share of the fullest worker's */
            int64_t most = 0;
            assert_ok(partitioner_table[0]->solve(&problem, &partition, &test_error));
            for (int s = 0; s < workers; s++) {
                struct worker_memory memory = partition_memory(&problem, s, partition_first(last, s), last[s]);
                most = number_larger(most, worker_memory_total(&memory));
            }
            for (int w = 0; w < workers; w++) cluster->devices[w].memory_bytes = most * 9 / 10;
        }
        struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "pipedream", .schedule = "1f1b-async", .weights = "pipeoptim"};
        struct ps_plan *plan;
        struct ps_simulation *simulation;
        enum ps_status exact = partitioner_table[0]->solve(&problem, &partition, &test_error);
        assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), exact, "");
        if (exact == PS_OK) {
            worst = fmax(worst, plan->predicted.objective_s / partition.objective_s - 1);
            planned++;
            assert_int_equal(plan->stages[0].first, 0);
            assert_int_equal(plan->stages[plan->stage_count - 1].last, layers - 1);
            assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
            assert_true(ps_simulation_info(simulation).period_s == plan->predicted.period_s);
            for (int w = 0; w < workers; w++)
                assert_int_equal(ps_simulation_worker(simulation, w).memory_bytes,
                                 worker_memory_total(&plan->predicted.memory[w]));
            assert_true(plan->predicted.lower_bound_s <= partition.objective_s);
            ps_simulation_destroy(simulation);
            ps_plan_destroy(plan);
        }
        ps_programs_destroy(programs);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    assert_true(test_slow() || planned >= ROUNDS * 3 / 4);
    if (worst > 0.01) fail_msg("a plan between groups is %.2f %% slower than one between layers", 100 * worst);
}

/* Every method that plans for a chain plans a long one, and its stages are layers of the profile, each once. */
static void every_method(void **state) {
    (void)state;
    static const char *const methods[] = {"auto",    "pipedream",   "bapipe",         "uniform",
                                          "madpipe", "bipartition", "pipedream-paper"};
    enum { LAYERS = 1100, WORKERS = 4 };
    struct ps_profile *profile = chain(test_key(77), LAYERS);
    struct ps_cluster *cluster = make_cluster(WORKERS, (int64_t)1 << 32, 2e9);
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        struct ps_plan_options options = {.struct_size = sizeof options, .method = methods[m]};
        struct ps_plan *plan;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        for (int s = 0; s < plan->stage_count; s++)
            assert_int_equal(plan->stages[s].first, s > 0 ? plan->stages[s - 1].last + 1 : 0);
        assert_int_equal(plan->stages[plan->stage_count - 1].last, LAYERS - 1);
        /* Groups take less than an even share of a worker's, so `uniform` is nearly even. */
        for (int s = 0; strcmp(methods[m], "uniform") == 0 && s < WORKERS; s++)
            assert_true(abs(plan->stages[s].last + 1 - (s + 1) * LAYERS / WORKERS) <= 16);
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Groups begin above max(512, 32 x workers) layers, and there are at most max(512, 16 x workers). */
static void how_many(void **state) {
    (void)state;
    static const struct {
        int layers, workers, most;
    } cases[] = {{512, 8, 0}, {513, 8, 512}, {1023, 32, 0}, {1024, 32, 0}, {1025, 32, 512}, {2049, 64, 1024}, {4000, 2, 512}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct ps_profile *profile = chain(test_key(c), cases[c].layers), *grouped;
        struct ps_cluster *cluster = make_cluster(cases[c].workers, 0, 0);
        assert_ok(search_group(profile, cluster, 0, NULL, &grouped, &test_error));
        if (cases[c].most == 0) assert_null(grouped);
        if (grouped) {
            int groups = grouped->tables[0].layer_count;
            assert_true(groups <= cases[c].most && groups > cases[c].most * 9 / 10);
            assert_int_equal(cost_table_last(&grouped->tables[0], groups - 1), cases[c].layers - 1);
        }
        ps_profile_destroy(grouped);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

/* Of two cuts at the same place the one that fewer bytes cross remains, and of two alike the later one; a cut of
 * the first plan does in any case. */
static void cheapest_cuts(void **state) {
    (void)state;
    enum { LAYERS = 1200 };
    static const int64_t bytes[][2] = {{64, 128}, {128, 64}, {64, 64}};
    static const int remaining[] = {0, 1, 1};
    struct plan_stage stages[] = {{.last = LAYERS / 2}, {.first = LAYERS / 2 + 1, .last = LAYERS - 1}};
    const struct ps_plan near = {.stage_count = 2, .stages = stages};
    struct ps_cluster *cluster = make_cluster(2, 0, 0);
    for (size_t c = 0; c < sizeof remaining / sizeof *remaining; c++) {
        struct ps_profile *profile = chain(test_key(c), LAYERS), *grouped;
        for (int l = 0; l < LAYERS; l++) {
            struct layer_cost *layer = &profile->tables[0].layers[l];
            if (l % 2 == 1) layer->time = (struct layer_times){0};
            if (l < LAYERS - 1) layer->size.output_bytes = bytes[c][l % 2];
        }
        assert_ok(search_group(profile, cluster, 0, NULL, &grouped, &test_error));
        const struct cost_table *table = &grouped->tables[0];
        for (int g = 0; g < table->layer_count - 1; g++) assert_int_equal(cost_table_last(table, g) % 2, remaining[c]);
        ps_profile_destroy(grouped);
        assert_ok(search_group(profile, cluster, 0, &near, &grouped, &test_error));
        table = &grouped->tables[0];
        bool remains = false;
        for (int g = 0; g < table->layer_count; g++) remains = remains || cost_table_last(table, g) == LAYERS / 2;
        assert_true(remains);
        ps_profile_destroy(grouped);
        ps_profile_destroy(profile);
    }
    ps_cluster_destroy(cluster);
}

/* A chain of which the first half, but for one figure of its layers, is as the second. */
static struct ps_profile *halves(int layers, int figure) {
    struct ps_profile *profile = chain(test_key(0), layers);
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        const bool more = l < layers / 2;
        layer->time = (struct layer_times){.forward_s = more && figure == 0 ? 9e-3 : 1e-3,
                                           .backward_input_s = more && figure == 1 ? 9e-3 : 1e-3,
                                           .backward_weight_s = more && figure == 2 ? 9e-3 : 1e-3,
                                           .update_s = more ? 1 : 0};
        layer->size = (struct layer_sizes){.parameter_bytes = more && figure == 3 ? 320 : 64,
                                           .stash_bytes = more && figure == 4 ? 320 : 64,
                                           .output_bytes = l + 1 < layers ? 64 : 0,
                                           .workspace_bytes = more ? 6400 : 0};
    }
    return profile;
}

/* Groups share the time of forward and backward evenly; with limits of memory half of that and half of what parameters and
 * stashes take. */
static void what_groups_share(void **state) {
    (void)state;
    enum { LAYERS = 4000, GROUPS = 512, TIMES = 3, FIGURES = 5 };
    for (int figure = 0; figure < FIGURES; figure++)
        for (int limited = 0; limited < 2; limited++) {
            struct ps_profile *profile = halves(LAYERS, figure), *grouped;
            struct ps_cluster *cluster = make_cluster(4, 0, 0);
            /* 11 of 14 parts of the time, or 6 of 8 of the memory, are in the first half. */
            const double time = figure < TIMES ? 11.0 / 14 : 0.5, memory = figure < TIMES ? 0.5 : 0.75;
            const double share = limited ? (time + memory) / 2 : time;
            int first = 0;
            cluster->devices[3].memory_bytes = limited ? (int64_t)1 << 30 : 0;
            assert_ok(search_group(profile, cluster, 0, NULL, &grouped, &test_error));
            const struct cost_table *table = &grouped->tables[0];
            assert_in_range(table->layer_count, GROUPS - 3, GROUPS);
            while (cost_table_last(table, first) < LAYERS / 2) first++;
            if (fabs(first - share * table->layer_count) > 4)
                fail_msg("figure %d%s: %d of %d groups in the first half, not %.0f", figure, limited ? ", limited" : "", first,
                         table->layer_count, share * table->layer_count);
            ps_profile_destroy(grouped);
            ps_cluster_destroy(cluster);
            ps_profile_destroy(profile);
        }
}

/* The second time groups are sixteen times smaller within a 32nd of a stage on either side of the first plan's cuts, and alike
 * everywhere else, at both ends, too. */
static void neighbourhoods(void **state) {
    (void)state;
    enum { LAYERS = 6400, CUTS = 2, REACH = LAYERS / (CUTS + 1) / 32 };
    static const int cuts[CUTS] = {1600, 4000}; /* layers before the cut */
    struct plan_stage stages[] = {
        {.last = cuts[0] - 1}, {.first = cuts[0], .last = cuts[1] - 1}, {.first = cuts[1], .last = LAYERS - 1}};
    const struct ps_plan near = {.stage_count = CUTS + 1, .stages = stages};
    const double length = LAYERS + 15.0 * CUTS * (2 * REACH + 1);
    struct ps_cluster *cluster = make_cluster(CUTS + 1, 0, 0);
    struct ps_profile *profile = halves(LAYERS, -1), *grouped;
    assert_ok(search_group(profile, cluster, 0, &near, &grouped, &test_error));
    const struct cost_table *table = &grouped->tables[0];
    const double usual = length / table->layer_count;
    int found = 0;
    assert_in_range(table->layer_count, 500, 512);
    for (int g = 0; g < table->layer_count; g++) {
        const int first = cost_table_first(table, g), last = cost_table_last(table, g);
        bool within = false, far = true;
        for (int c = 0; c < CUTS; c++) {
            within = within || (first + 1 >= cuts[c] - REACH && last + 1 <= cuts[c] + REACH);
            far = far && (last + 1 < cuts[c] - REACH - usual || first + 1 > cuts[c] + REACH + usual);
            found += last + 1 == cuts[c];
        }
        if (within) assert_in_range(last - first, 0, 1);
        if (far && g + 1 < table->layer_count && fabs(last + 1 - first - usual) > 1.5)
            fail_msg("layers %d to %d are a group, not some %.1f", first, last, usual);
    }
    assert_int_equal(found, CUTS);
    ps_profile_destroy(grouped);
    ps_profile_destroy(profile);
    ps_cluster_destroy(cluster);
}

/* A refusal names layers, not groups. */
static void refusals_name_layers(void **state) {
    (void)state;
    enum { LAYERS = 3000 };
    struct ps_profile *profile = chain(test_key(5), LAYERS);
    profile->tables[0].layers[LAYERS - 1].size.parameter_bytes = (int64_t)1 << 36;
    struct ps_cluster *cluster = make_cluster(4, (int64_t)1 << 34, 0);
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream"};
    struct ps_plan *plan;
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "to 3000, ");
    options.method = "bipartition";
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "layer 3000 (");
    options.module_depth = -1;
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "`module_depth`: -1 is negative");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Stages end only where the module changes, in a short network as in a long one; the best of these plans is found. */
static void between_modules(void **state) {
    (void)state;
    static const int sizes[] = {60, 900, 5000};
    enum { WORKERS = 4, PARTS = 3 };
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++) {
        int layers = sizes[c];
        struct ps_profile *profile = chain(test_key(c), layers);
        struct ps_cluster *cluster = make_cluster(WORKERS, 0, 2e9);
        /* "first", "block.0.a", "block.0.a.x", "block.0.b", "block.1.a", ..., "last" */
        for (int l = 1; l < layers - 1; l++)
            snprintf(profile->tables[0].layers[l].name, sizeof profile->tables[0].layers[l].name, "block.%d.%s",
                     (l - 1) / PARTS, (const char *[]){"a", "a.x", "b"}[(l - 1) % PARTS]);
        for (int depth = 1; depth <= 4; depth++) {
            struct ps_plan_options options = {
                .struct_size = sizeof options, .method = depth == 1 ? "uniform" : "pipedream", .module_depth = depth};
            struct ps_plan *plan;
            enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &test_error);
            if (depth == 1) { /* first, block, last */
                assert_int_equal(status, PS_NO_PLAN);
                assert_non_null(strstr(test_error.message, "4 workers are more than chain has modules (3)"));
                continue;
            }
            assert_ok(status);
            for (int s = 0; s < plan->stage_count - 1; s++) {
                int inside = plan->stages[s].last, part = (inside - 1) % PARTS;
                assert_true(inside == 0 || inside == layers - 2 || depth == 4 || part == PARTS - 1 ||
                            (depth == 3 && part == 1));
            }
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_of_groups),     cmocka_unit_test(plans_share),     cmocka_unit_test(plans_are_good),
        cmocka_unit_test(every_method),         cmocka_unit_test(how_many),        cmocka_unit_test(cheapest_cuts),
        cmocka_unit_test(refusals_name_layers), cmocka_unit_test(between_modules), cmocka_unit_test(what_groups_share),
        cmocka_unit_test(neighbourhoods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
