/*
 * Plans from the periodic schedules of planners. With T the period, a computation that starts at time t of its first period has
 * the position t modulo T in its worker's order, and works on the micro-batch that entered t / T periods before (the plan's
 * `pattern`). Contiguous stages under 1F1B* need no pattern, only the number of micro-batches that each holds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "plan/planners/madpipe.h"
#include "search/search.h"

struct moment {
    int64_t within;
    struct plan_operation operation;
};

static int compare_moments(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    return (x->within > y->within) - (x->within < y->within);
}

static enum ps_status set_pattern(const struct periodic_operation *operations, int operation_count, int64_t period_ns,
                                  struct ps_plan *plan, struct ps_error *error) {
    struct arena arena = {0};
    struct moment *moments = arena_take(&arena, (size_t)operation_count, sizeof *moments);
    struct plan_operation *pattern = arena_take(&arena, (size_t)operation_count, sizeof *pattern);
    TRY(arena_check(&arena, "a plan's pattern", error));
    int count = 0;
    for (int o = 0; o < operation_count; o++) {
        const struct periodic_operation *from = &operations[o];
        if (from->kind != PERIODIC_FORWARD && from->kind != PERIODIC_BACKWARD) continue;
        moments[count++] = (struct moment){from->start_ns % period_ns,
                                           {from->kind == PERIODIC_BACKWARD, from->stage, (int)(from->start_ns / period_ns)}};
    }
    qsort(moments, (size_t)count, sizeof *moments, compare_moments);
    for (int m = 0; m < count; m++) pattern[m] = moments[m].operation;
    enum ps_status status = plan_pattern_set(plan, pattern, count, error);
    if (status == PS_OK) snprintf(plan->schedule, sizeof plan->schedule, "pattern");
    arena_release(&arena);
    return status;
}

enum ps_status periodic_schedule(const struct planner_answer *answer, struct ps_plan *plan, struct ps_error *error) {
    if (answer->pattern)
        return set_pattern(answer->pattern, answer->pattern_count, llround(1e9 * answer->objective_s), plan, error);
    snprintf(plan->schedule, sizeof plan->schedule, "1f1b-star");
    for (int s = 0; s < answer->stage_count; s++) plan->stages[s].in_flight = answer->stages[s].in_flight;
    return PS_OK;
}

/* The memory of a worker by MadPipe's formula when it is fullest: when one of its forwards starts. */
static struct worker_memory fullest(const struct madpipe *data, const struct ps_plan *plan, const struct ps_programs *programs,
                                    int worker, int *held) {
    const struct program *program = &programs->worker[worker];
    struct worker_memory memory = {0};
    for (int s = 0; s < plan->stage_count; s++) held[s] = 0;
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        int64_t stash = 0;
        if (instruction->op != OP_F && instruction->op != OP_B) continue;
        held[instruction->stage] += instruction->op == OP_F ? 1 : -1;
        for (int s = 0; s < plan->stage_count; s++)
            stash += held[s] * madpipe_copy_bytes(data, plan->stages[s].first, plan->stages[s].last + 1);
        if (stash > memory.stash) memory.stash = stash;
    }
    for (int s = 0; s < plan->stage_count; s++) {
        if (programs_worker(programs, s) != worker) continue;
        int64_t parameters = stage_cost(data->problem->costs, plan->stages[s].first, plan->stages[s].last).size.parameter_bytes;
        memory.weights += 2 * parameters;
        memory.gradients += parameters;
        memory.buffers += madpipe_memory(data, plan->stages[s].first, plan->stages[s].last + 1, 0) - 3 * parameters;
    }
    return memory;
}

enum ps_status periodic_paper_memory(const struct planner_problem *problem, const struct ps_plan *plan,
                                     const struct ps_programs *programs, struct worker_memory *memory, struct ps_error *error) {
    struct madpipe data;
    TRY(madpipe_open(problem, &data, error));
    int *held = arena_take(&data.arena, (size_t)plan->stage_count, sizeof *held);
    TRY(arena_check(&data.arena, "a plan's memory", error));
    for (int w = 0; data.base_bytes && w < plan->workers; w++) memory[w] = fullest(&data, plan, programs, w, held);
    madpipe_close(&data);
    return PS_OK;
}

/*
 * A periodic schedule for a given cut, also if forward and backward are cut at different layers. The order in which each worker
 * computes, and the number of micro-batches in flight, follow from the times of computations and transfers (the inverse of
 * MadPipe, section 3, in which the cut also follows).
 *
 * The computations of a micro-batch form a sequence, forwards and then backwards. Consecutive ones on one worker form a run,
 * which is not interrupted. The runs are placed one after the other, each at the first time at which all its inputs have
 * arrived and its worker, whose earlier runs repeat in every period, is free. The period is the largest load of a worker or
 * link, so the runs of a worker fit into it. If a worker has more than two runs, the gaps between them may be too short for
 * another, and there is no answer.
 */

struct computation {
    int worker, stage;
    bool backward;
    int64_t length_ns, start_ns;
};

struct cut {
    const struct ps_plan *plan;
    const struct ps_cluster *cluster;
    struct stage_cost *costs;         /* per stage */
    struct computation *computations; /* the stages' forwards in order, then the backwards from the last stage on */
    int count;
    int64_t *run_ns; /* per computation that begins a run: its length; 0 for the others */
    int64_t period_ns;
};

/* An input that computation `c` must receive before it can begin: at most two. */
struct arrival {
    int from; /* computation */
    int64_t bytes;
};

static int list_arrivals(const struct cut *cut, int c, struct arrival arrivals[2]) {
    const struct computation *own = &cut->computations[c];
    int stages = cut->plan->stage_count, count = 0;
    const struct stage_sizes *size = &cut->costs[own->stage].size;
    if (c == 0) return 0;
    if (c != stages) {
        int64_t bytes = own->backward ? cut->costs[own->stage + 1].size.input_bytes : size->input_bytes;
        arrivals[count++] = (struct arrival){c - 1, bytes};
    }
    if (own->backward) arrivals[count++] = (struct arrival){own->stage, size->stash_bytes + size->input_bytes};
    return count;
}

static int64_t transfer_ns(const struct cut *cut, const struct arrival *arrival, int to) {
    int from = cut->computations[arrival->from].worker;
    return from == to ? 0 : number_nanoseconds(cluster_transfer_s(cut->cluster, from, to, arrival->bytes));
}

/* The largest load of a worker, or of one direction of a link. */
static int64_t find_period(const struct cut *cut, int64_t *loads) {
    int workers = cut->plan->workers;
    int64_t period = 1;
    for (int c = 0; c < cut->count; c++) {
        struct arrival arrivals[2];
        int to = cut->computations[c].worker, count = list_arrivals(cut, c, arrivals);
        loads[to * workers + to] += cut->computations[c].length_ns;
        for (int a = 0; a < count; a++)
            loads[cut->computations[arrivals[a].from].worker * workers + to] += transfer_ns(cut, &arrivals[a], to);
    }
    for (int i = 0; i < workers * workers; i++)
        if (loads[i] > period) period = loads[i];
    return period;
}

static void find_runs(const struct cut *cut) {
    for (int c = 0, begin = 0; c < cut->count; c++) {
        if (cut->computations[c].worker != cut->computations[begin].worker) begin = c;
        cut->run_ns[begin] += cut->computations[c].length_ns;
    }
}

/* The end, exclusive, of the run that begins with `c`. */
static int run_end(const struct cut *cut, int c) {
    int end = c + 1;
    while (end < cut->count && cut->computations[end].worker == cut->computations[c].worker) end++;
    return end;
}

/* The time at which all inputs of the run from outside have arrived. */
static int64_t run_ready(const struct cut *cut, int begin, int end) {
    int64_t ready = 0, offset = 0;
    for (int c = begin; c < end; c++) {
        struct arrival arrivals[2];
        int count = list_arrivals(cut, c, arrivals);
        for (int a = 0; a < count; a++) {
            const struct computation *from = &cut->computations[arrivals[a].from];
            int64_t at =
                from->start_ns + from->length_ns + transfer_ns(cut, &arrivals[a], cut->computations[c].worker) - offset;
            if (arrivals[a].from < begin && at > ready) ready = at;
        }
        offset += cut->computations[c].length_ns;
    }
    return ready;
}

/* The first time from `start` on at which the worker is free for the run in every period; -1: there is none. */
static int64_t free_from(const struct cut *cut, int run, int64_t start) {
    int64_t limit = start + cut->period_ns, length = cut->run_ns[run];
    bool moved = true;
    while (moved && start < limit) {
        moved = false;
        for (int c = 0; c < run; c++) {
            if (cut->run_ns[c] == 0 || cut->computations[c].worker != cut->computations[run].worker) continue;
            int64_t since = ((start - cut->computations[c].start_ns) % cut->period_ns + cut->period_ns) % cut->period_ns;
            if (since >= cut->run_ns[c] && since + length <= cut->period_ns) continue;
            start += (since < cut->run_ns[c] ? 0 : cut->period_ns) + cut->run_ns[c] - since;
            moved = true;
        }
    }
    return start < limit ? start : -1;
}

static bool place_runs(const struct cut *cut) {
    for (int c = 0, end; c < cut->count; c = end) {
        end = run_end(cut, c);
        int64_t start = free_from(cut, c, run_ready(cut, c, end));
        if (start < 0) return false;
        for (int i = c; i < end; i++) {
            cut->computations[i].start_ns = start;
            start += cut->computations[i].length_ns;
        }
    }
    return true;
}

static void fill_computations(struct cut *cut, const struct cost_table *costs, double update_share) {
    int stages = cut->plan->stage_count;
    cut->count = 2 * stages;
    for (int c = 0; c < cut->count; c++) {
        struct computation *computation = &cut->computations[c];
        bool backward = c >= stages;
        int s = backward ? 2 * stages - 1 - c : c;
        const struct plan_stage *stage = &cut->plan->stages[s];
        int worker = backward ? stage->backward[0] : stage->forward[0];
        const struct cluster_device *device = &cut->cluster->devices[worker];
        struct stage_cost cost = stage_cost(cost_table_on(costs, device->type), stage->first, stage->last);
        double length_s = backward
                              ? cost.time.backward_input_s + cost.time.backward_weight_s + update_share * cost.time.update_s
                              : cost.time.forward_s;
        *computation = (struct computation){worker, s, backward, number_nanoseconds(length_s / device->speed), 0};
        if (!backward) cut->costs[s] = cost;
    }
}

/* Lists the computations as operations of a pattern. */
static void list_operations(const struct cut *cut, struct periodic_operation *operations) {
    for (int c = 0; c < cut->count; c++) {
        const struct computation *from = &cut->computations[c];
        operations[c] = (struct periodic_operation){from->backward ? PERIODIC_BACKWARD : PERIODIC_FORWARD, from->stage,
                                                    from->start_ns, from->length_ns};
    }
}

enum ps_status periodic_schedule_cut(const struct ps_profile *profile, const struct ps_cluster *cluster, double update_share,
                                     struct ps_plan *plan, struct ps_error *error) {
    const struct cost_table *costs;
    struct ps_profile *reordered;
    size_t stages = (size_t)plan->stage_count, workers = (size_t)plan->workers;
    TRY(simulate_costs(plan, profile, &costs, &reordered, error));
    struct arena arena = {0};
    struct cut cut = {.plan = plan,
                      .cluster = cluster,
                      .costs = arena_take(&arena, stages, sizeof *cut.costs),
                      .computations = arena_take(&arena, 2 * stages, sizeof *cut.computations),
                      .run_ns = arena_take(&arena, 2 * stages, sizeof *cut.run_ns)};
    struct periodic_operation *operations = arena_take(&arena, 2 * stages, sizeof *operations);
    int64_t *loads = arena_take(&arena, workers * workers, sizeof *loads);
    enum ps_status status = arena_check(&arena, "a periodic schedule", error);
    if (status == PS_OK) {
        fill_computations(&cut, costs, update_share);
        cut.period_ns = find_period(&cut, loads);
        find_runs(&cut);
        if (place_runs(&cut)) {
            list_operations(&cut, operations);
            status = set_pattern(operations, cut.count, cut.period_ns, plan, error);
        } else {
            status = error_set(error, PS_NO_PLAN, "the runs of a worker do not fit the period");
        }
    }
    arena_release(&arena);
    ps_profile_destroy(reordered);
    return status;
}
