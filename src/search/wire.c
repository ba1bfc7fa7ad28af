/*
 * Wire codecs of a plan.
 *
 * The search knows no codecs. It is given links that are faster by what the codecs save, which moves cuts to where they are
 * best with them; then the plan gets the codecs at each of its cuts, and of its sums over replicas, and is simulated on the
 * links as they are. That may put plans in another order than the search did, which does not know what encoding takes; so a
 * method whose plans include those of others is held against each of them.
 *
 * `auto` does so for each codec that loses no more than its allowance, and takes the fastest plan, of equally fast ones the one
 * that loses least. Then each cut and direction, and each sum, in turn loses as little as it can without slowing the pipeline.
 *
 * Nor does the search know what codecs need of the memory, the encoded blocks and the error feedback: where a plan has no room
 * for them, it is given less memory by what was lacking.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "search/search.h"

/* A codec that loses more must save this share of the time. */
#define WORTH 0.01
/* How often a plan is looked for that has room for what codecs need. */
enum { TRIES = 6 };

struct wire_search {
    const struct ps_profile *profile;
    const struct ps_cluster *cluster;
    const struct ps_plan_options *options;
    search_find *find;
    bool *said; /* a plan was looked for: the others are without a word but progress, so that no line comes twice */
};

/* What a plan is given everywhere. */
struct wires {
    struct wire activation, gradient, sum;
};

/* How many times fewer bytes the values at all cuts of the network have when they are encoded. */
static double saving(const struct ps_profile *profile, const struct wire *wire) {
    const struct cost_table *table = &profile->tables[0];
    struct wire_numbers all = {{0}};
    int64_t plain = 0;
    for (int l = 0; l + 1 < table->layer_count; l++) {
        const struct wire_numbers numbers = layer_output_numbers(&table->layers[l].size);
        for (int type = 0; type < TYPE_COUNT; type++) {
            all.of[type] += numbers.of[type];
            plain += numbers.of[type] * (int64_t)number_types[type].bytes;
        }
    }
    const int64_t bytes = wire_bytes(wire, &all);
    return bytes > 0 ? (double)plain / (double)bytes : 1;
}

/* Keeps what the plan's codecs need of the memory free at workers where it does not fit. It was found without them: of these
 * workers it needs more than is left now. False: nothing is lacking, or nothing would be left. */
static bool tighten(const struct ps_simulation *simulation, const struct ps_plan *plan, const struct ps_cluster *cluster,
                    struct ps_cluster *tighter) {
    bool lacks = false;
    for (int w = 0; w < simulation->info.workers; w++) {
        const int64_t limit = cluster->devices[w].memory_bytes, needed = simulation->worker[w].memory_bytes;
        if (limit == 0 || needed <= limit) continue;
        const int64_t left = limit - (needed - worker_memory_total(&plan->predicted.memory[w]));
        if (left <= 0) return false;
        tighter->devices[w].memory_bytes = left;
        lacks = true;
    }
    return lacks;
}

/* Simulates the plan with its codecs on the links as they are; PS_NO_PLAN: it does not fit. Another might then that is looked
 * for on `tighter` (NULL: nobody looks). */
static enum ps_status predict(const struct wire_search *search, struct ps_plan *plan, struct ps_cluster *tighter, bool *again,
                              struct ps_error *error) {
    struct ps_simulation *simulation;
    if (!plan->predicted.simulated) return PS_OK;
    TRY(simulate_figures(plan, search->profile, search->cluster, 0, &simulation, error));
    enum ps_status status = ps_simulation_check_memory(simulation, plan, search->profile, search->cluster, error);
    if (tighter) *again = status == PS_NO_PLAN && tighten(simulation, plan, search->cluster, tighter);
    if (status == PS_OK) {
        const struct search explained = {.options = search->options, .profile = search->profile, .cluster = search->cluster};
        search_take_simulation(simulation, &plan->predicted);
        search_explain(&explained, simulation, 0, plan);
    }
    ps_simulation_destroy(simulation);
    return status;
}

static void pass_progress(void *to, const char *what, double done, double total, const char *detail) {
    const struct ps_log_sink *own = log_use(NULL);
    log_restore(to);
    log_progress(what, done, total, "%s", detail);
    log_restore(own);
}

static enum ps_status look_for(const struct wire_search *search, const struct ps_cluster *cluster,
                               const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error) {
    const struct ps_log_sink *before = log_use(NULL);
    const struct ps_log_sink quiet = {.struct_size = sizeof quiet, .context = (void *)before, .progress = pass_progress};
    if (*search->said) log_use(&quiet);
    enum ps_status status = search->find(search->profile, cluster, options, plan, error);
    log_restore(before);
    *search->said = true;
    return status;
}

/* A plan for these links with codecs everywhere; *again: it does not fit, and one for the tighter memory might. */
static enum ps_status plan_on(const struct wire_search *search, struct ps_cluster *cluster,
                              const struct ps_plan_options *options, const struct wires *wires, double saved,
                              struct ps_plan **plan, bool *again, struct ps_error *error) {
    struct ps_plan *made = NULL;
    enum ps_status status = look_for(search, cluster, options, &made, error);
    *again = false;
    for (int s = 0; status == PS_OK && s < made->stage_count; s++) {
        struct plan_stage *stage = &made->stages[s];
        if (s + 1 < made->stage_count) stage->wire = (struct cut_wire){wires->activation, wires->gradient};
        if (stage->backward_count > 1) stage->sum_wire = wires->sum;
    }
    if (status == PS_OK && (saved != 1 || plan_encodes(made))) status = predict(search, made, cluster, again, error);
    if (status != PS_OK) {
        ps_plan_destroy(made);
        return status;
    }
    *plan = made;
    return PS_OK;
}

static enum ps_status plan_by(const struct wire_search *search, const char *method, const struct wires *wires,
                              struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan_options options = *search->options;
    options.method = method;
    const double saved = fmin(saving(search->profile, &wires->activation), saving(search->profile, &wires->gradient));
    struct ps_cluster *faster;
    struct ps_error refusal = {0};
    bool again;
    TRY(cluster_copy(search->cluster, &faster, error));
    for (int l = 0; l < faster->link_count; l++) faster->links[l].bandwidth_bytes_per_s *= saved;
    enum ps_status status = plan_on(search, faster, &options, wires, saved, plan, &again, error);
    if (again && error) refusal = *error;
    for (int tries = 1; again && tries < TRIES; tries++)
        status = plan_on(search, faster, &options, wires, saved, plan, &again, error);
    if (status == PS_NO_PLAN && refusal.status != PS_OK) *error = refusal; /* of the memory that there is */
    ps_cluster_destroy(faster);
    return status;
}

/* Replaces the plan (NULL: there is none) by that of another method, if that is faster. */
static enum ps_status try_method(const struct wire_search *search, const char *method, const struct wires *wires,
                                 struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan_options options = *search->options;
    struct wire_search one = *search;
    struct ps_plan *made;
    struct ps_error refusal = {0};
    options.replicate = options.replicate && search_may_replicate(method);
    one.options = &options;
    const enum ps_status status = plan_by(&one, method, wires, &made, &refusal);
    if (status != PS_OK) return search_without_refusals(status, &refusal, error);
    struct ps_plan *slower = made;
    if (made->predicted.simulated &&
        (!*plan || made->predicted.throughput_samples_per_s > (*plan)->predicted.throughput_samples_per_s)) {
        slower = *plan;
        *plan = made;
    }
    ps_plan_destroy(slower);
    return PS_OK;
}

static enum ps_status try_methods(const struct wire_search *search, const struct wires *wires, struct ps_plan **plan,
                                  struct ps_error *error) {
    for (int p = 0; partitioner_table[p]; p++) TRY(try_method(search, partitioner_table[p]->name, wires, plan, error));
    for (int p = 0; planner_table[p]; p++) {
        if (!search_competes(planner_table[p], search->profile, search->options->replicate)) continue;
        /* `bipartition-order` also where workers are alike: `bipartition` keeps what is fastest on the faster links. */
        TRY(try_method(search, planner_table[p]->name, wires, plan, error));
    }
    return PS_OK;
}

static enum ps_status plan_with(const struct wire_search *search, const struct wires *wires, struct ps_plan **plan,
                                struct ps_error *error) {
    const char *method = search->options->method;
    const bool any = search_is_auto(method);
    const struct planner *planner = any ? NULL : planner_find(method);
    struct ps_plan *made = NULL;
    enum ps_status status = plan_by(search, method, wires, &made, error), others = PS_OK;
    if (status != PS_NO_PLAN && !(status == PS_OK && made->predicted.simulated)) {
        *plan = made;
        return status;
    }
    if (any) {
        others = try_methods(search, wires, &made, error);
    } else if (planner && planner->contains_chain) {
        others = try_method(search, "pipedream", wires, &made, error);
        if (made) snprintf(made->method, sizeof made->method, "%s", method);
    }
    if (others != PS_OK) {
        ps_plan_destroy(made);
        return others;
    }
    *plan = made;
    return made ? PS_OK : status;
}

/* The codec of that number, the last one as it was allowed. */
static struct wire codec_of(int codec, const struct wire *allowance) {
    return codec == (int)allowance->codec ? *allowance : (struct wire){.codec = (enum wire_codec)codec};
}

/* The fastest plan that has one codec everywhere. */
static enum ps_status choose(const struct wire_search *search, const struct wire *allowance, struct ps_plan **best,
                             struct ps_error *error) {
    struct ps_error refusal = {0};
    for (int codec = WIRE_NONE; codec <= (int)allowance->codec; codec++) {
        const struct wire wire = codec_of(codec, allowance);
        struct ps_plan *made = NULL;
        enum ps_status status = plan_with(search, &(struct wires){wire, wire, wire}, &made, &refusal);
        if (status != PS_OK && status != PS_NO_PLAN) {
            if (error) *error = refusal;
            return status;
        }
        if (status == PS_NO_PLAN) continue;
        const double faster =
            *best ? made->predicted.throughput_samples_per_s / (*best)->predicted.throughput_samples_per_s : 0;
        if (*best && !(faster > 1 + WORTH)) {
            ps_plan_destroy(made);
            continue;
        }
        ps_plan_destroy(*best);
        *best = made;
    }
    if (!*best && error) *error = refusal;
    return *best ? PS_OK : PS_NO_PLAN;
}

/* Lets one direction of a cut, or a sum, lose as little as it can within the period. */
static enum ps_status relax(const struct wire_search *search, struct ps_plan *plan, struct wire *wire, double period_s,
                            struct ps_error *error) {
    const struct wire given = *wire;
    for (int codec = WIRE_NONE; codec < (int)given.codec; codec++) {
        struct ps_simulation *simulation;
        *wire = (struct wire){.codec = (enum wire_codec)codec};
        TRY(simulate_figures(plan, search->profile, search->cluster, 0, &simulation, error));
        struct ps_error refusal = {0};
        const enum ps_status fits = ps_simulation_check_memory(simulation, plan, search->profile, search->cluster, &refusal);
        const double taken_s = simulation->info.period_s;
        ps_simulation_destroy(simulation);
        if (fits != PS_OK && fits != PS_NO_PLAN) {
            if (error) *error = refusal;
            return fits;
        }
        if (fits == PS_OK && taken_s <= period_s * (1 + WORTH)) return PS_OK;
    }
    *wire = given;
    return PS_OK;
}

static enum ps_status choose_each(const struct wire_search *search, const struct wire *allowance, struct ps_plan **plan,
                                  struct ps_error *error) {
    const double start_s = clock_now();
    struct ps_plan *best = NULL;
    enum ps_status status = choose(search, allowance, &best, error);
    const double period_s = status == PS_OK ? best->predicted.period_s : 0;
    const bool encodes = status == PS_OK && plan_encodes(best);
    for (int s = 0; status == PS_OK && best->predicted.simulated && s < best->stage_count; s++) {
        struct wire *const wires[] = {&best->stages[s].wire.activation, &best->stages[s].wire.gradient,
                                      &best->stages[s].sum_wire};
        for (int w = 0; status == PS_OK && w < 3; w++) status = relax(search, best, wires[w], period_s, error);
    }
    if (encodes && status == PS_OK) status = predict(search, best, NULL, NULL, error);
    if (status != PS_OK) {
        ps_plan_destroy(best);
        return status;
    }
    best->predicted.solve_s = clock_now() - start_s;
    *plan = best;
    return PS_OK;
}

/* "activation=int8+sum=bf16": what is not named has no codec. */
static enum ps_status parse_each(const char *text, struct wires *wires, struct ps_error *error) {
    static const char *const names[] = {"activation", "gradient", "sum"};
    struct wire *const of[] = {&wires->activation, &wires->gradient, &wires->sum};
    bool given[3] = {false};
    while (text) {
        const char *end = strchr(text, '+'), *equals = strchr(text, '=');
        const size_t length = end ? (size_t)(end - text) : strlen(text);
        char codec[32] = "";
        int which = 0;
        while (which < 3 && !(equals && strncmp(text, names[which], (size_t)(equals - text)) == 0 &&
                              strlen(names[which]) == (size_t)(equals - text)))
            which++;
        if (which == 3)
            return error_set(error, PS_USAGE, "`wire`: '%.*s' is not activation=CODEC, gradient=CODEC or sum=CODEC",
                             (int)(length < 40 ? length : 40), text);
        if (given[which]) return error_set(error, PS_USAGE, "`wire`: %s is given twice", names[which]);
        given[which] = true;
        snprintf(codec, sizeof codec, "%.*s", (int)(length - (size_t)(equals + 1 - text)), equals + 1);
        TRY(wire_parse(codec, "`wire`", of[which], error));
        text = end ? end + 1 : NULL;
    }
    return PS_OK;
}

static enum ps_status parse_one(const char *text, struct wires *wires, struct ps_error *error) {
    TRY(wire_parse(text, "`wire`", &wires->activation, error));
    wires->gradient = wires->sum = wires->activation;
    return PS_OK;
}

/* *chooses: the links that need it are to have this codec. */
static enum ps_status parse(const char *text, struct wires *wires, bool *chooses, struct ps_error *error) {
    static const char automatic[] = "auto:";
    *chooses = strncmp(text, automatic, sizeof automatic - 1) == 0;
    enum ps_status status = *chooses                    ? parse_one(text + sizeof automatic - 1, wires, error)
                            : strchr(text, '=') != NULL ? parse_each(text, wires, error)
                                                        : parse_one(text, wires, error);
    if (status != PS_OK)
        error_hint(error, "or by what is sent, as in activation=int8+gradient=bf16+sum=int8; or auto:bf16, auto:int8, "
                          "auto:topk:SHARE: what is needed, but nothing that loses more");
    return status;
}

enum ps_status search_check_wire(const char *text, struct ps_error *error) {
    struct wires wires = {0};
    bool chooses;
    return parse(text, &wires, &chooses, error);
}

enum ps_status search_wire(const struct ps_profile *profile, const struct ps_cluster *cluster,
                           const struct ps_plan_options *options, search_find *find, struct ps_plan **plan,
                           struct ps_error *error) {
    bool said = false;
    const struct wire_search search = {profile, cluster, options, find, &said};
    struct wires wires = {0};
    char text[32];
    bool chooses;
    TRY(parse(options->wire ? options->wire : "none", &wires, &chooses, error));
    const bool encodes =
        wires.activation.codec != WIRE_NONE || wires.gradient.codec != WIRE_NONE || wires.sum.codec != WIRE_NONE;
    if (!encodes) return find(profile, cluster, options, plan, error);
    if (options->paper_cost) return error_set(error, PS_USAGE, "`wire`: the published costs know no codecs (`paper_cost`)");
    const struct wire *const crossing[] = {&wires.activation, &wires.gradient};
    const bool same = wire_same(crossing[0], crossing[1]);
    for (int w = 0; w < (same ? 1 : 2) && !chooses; w++)
        if (crossing[w]->codec != WIRE_NONE && saving(profile, crossing[w]) <= 1)
            log_warn("`wire`: %s saves no bytes: what crosses cuts takes no more without it", wire_text(crossing[w], text));
    return chooses ? choose_each(&search, &wires.activation, plan, error) : plan_with(&search, &wires, plan, error);
}
