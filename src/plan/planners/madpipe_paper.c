/*
 * MadPipe's own first phase, for comparison: a dynamic programme on a grid. T(l, p, t, m, V) is the least period of the first l
 * layers on p normal workers when the special one already has load t and memory m, and at least the time V passes between F_l
 * and B_l; t, m and V are rounded up to 101, 11 and 51 values. A guess of the period decides how many activations are kept; ten
 * iterations narrow it as in the paper. The allocation is scheduled by the same second phase as in `madpipe`.
 *
 * Its fault is kept: a special worker is charged g - 1 activations for each stage, even if it has only one stage.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/planners/madpipe.h"

enum { LOADS = 101, MEMORIES = 11, DELAYS = 51, ROUNDS = 10, NODES = 20000 };

#define STATES_MAX ((size_t)1 << 28)
#define NEVER (INT64_MAX - 1)

struct grid {
    const struct madpipe *data;
    int64_t guess; /* the period that determines how many activations are kept */
    int64_t cap;   /* longer periods count as NEVER */
    int64_t load_step, memory_step, delay_step;
    struct memory_block table; /* `least`. Most states are never reached, and their pages take neither time nor memory. */
    int64_t *least;            /* per state, and 1 more; 0: not computed yet */
};

struct state {
    int layers, workers, load, memory, delay; /* the last three in steps */
};

static int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step; }

static int64_t *place(const struct grid *grid, const struct state *state) {
    size_t s = (size_t)state->layers;
    s = s * (size_t)grid->data->workers + (size_t)state->workers;
    s = s * LOADS + (size_t)state->load;
    s = s * MEMORIES + (size_t)state->memory;
    return &grid->least[s * DELAYS + (size_t)state->delay];
}

static int64_t least(struct grid *grid, const struct state *state);

/* The period when the layers first..state.layers-1 are one stage; the state that remains. */
static int64_t with_stage(struct grid *grid, const struct state *state, int first, bool special, struct state *rest) {
    const struct madpipe *data = grid->data;
    int64_t time = madpipe_time_ns(data, first, state->layers), transfer = data->transfer_ns[first];
    int64_t delay = state->delay * grid->delay_step, copies = madpipe_periods(delay + time, grid->guess);
    int64_t memory = madpipe_memory(data, first, state->layers, special ? copies - 1 : copies), period = time;
    *rest = *state;
    rest->layers = first;
    if (special) {
        int64_t load = state->load * grid->load_step + time;
        memory += state->memory * grid->memory_step;
        rest->load = (int)round_up(load, grid->load_step);
        rest->memory = (int)round_up(memory, grid->memory_step);
        period = load;
    } else {
        rest->workers--;
    }
    int64_t next = madpipe_lengthen(madpipe_lengthen(delay, time, grid->guess), transfer, grid->guess);
    int64_t steps = round_up(next, grid->delay_step);
    if (rest->workers < 0 || memory > data->limit_bytes || rest->load >= LOADS || rest->memory >= MEMORIES || steps >= DELAYS)
        return NEVER;
    /* The layers that remain take their time on these workers and the special one, whatever the memory. */
    if (data->time_ns[first] + rest->load * grid->load_step > grid->cap * (rest->workers + 1)) return NEVER;
    rest->delay = (int)steps;
    return period > transfer ? period : transfer;
}

/* Whether a stage from `first` on, or from an earlier layer, may have a period below `best` in the memory of a worker. */
static bool may_be_stage(const struct grid *grid, const struct state *state, int first, int64_t best) {
    const struct madpipe *data = grid->data;
    int64_t time = madpipe_time_ns(data, first, state->layers);
    int64_t copies = madpipe_periods(state->delay * grid->delay_step + time, grid->guess);
    return time < best && (copies - 1) * madpipe_copy_bytes(data, first, state->layers) <= data->limit_bytes;
}

static int64_t best_stage(struct grid *grid, const struct state *state, int *best_first, bool *best_special) {
    int64_t best = grid->cap + 1;
    for (int first = state->layers - 1; first >= 0 && may_be_stage(grid, state, first, best); first--)
        for (int special = 0; special < 2; special++) {
            struct state rest;
            int64_t period = with_stage(grid, state, first, special, &rest);
            if (period >= best) continue;
            int64_t others = least(grid, &rest);
            if (others > period) period = others;
            if (period >= best) continue;
            best = period;
            *best_first = first;
            *best_special = special;
        }
    return best > grid->cap ? NEVER : best;
}

static int64_t least(struct grid *grid, const struct state *state) {
    int first;
    bool special;
    if (state->layers == 0) return state->load * grid->load_step;
    int64_t *known = place(grid, state);
    if (*known == 0) *known = 1 + best_stage(grid, state, &first, &special);
    return *known - 1;
}

/* The stages of the best plan for the grid's guess; two adjacent ones on the special worker are one stage. */
static void read_stages(struct grid *grid, struct state state, struct madpipe_stage *stages, int *count) {
    int n = 0, first;
    bool special;
    while (state.layers > 0) {
        struct state rest;
        best_stage(grid, &state, &first, &special);
        with_stage(grid, &state, first, special, &rest);
        if (n > 0 && special && stages[n - 1].special)
            stages[n - 1].first = first;
        else
            stages[n++] = (struct madpipe_stage){first, state.layers, special};
        state = rest;
    }
    for (int s = 0; s < n / 2; s++) {
        struct madpipe_stage kept = stages[s];
        stages[s] = stages[n - 1 - s];
        stages[n - 1 - s] = kept;
    }
    *count = n;
}

/* The least period for the grid's guess, with the table for read_stages; NEVER also if it is above `high`, where the iterations
 * need to know no more. A cap on the period leaves most states unreached, so short ones are tried before longer ones. */
static enum ps_status dynamic_program(struct grid *grid, size_t states, int64_t high, int64_t *period, struct ps_error *error) {
    const struct state all = {.layers = grid->data->layers, .workers = grid->data->workers - 1};
    int64_t share = grid->data->time_ns[grid->data->layers] / grid->data->workers;
    *period = NEVER;
    for (grid->cap = share + share / 4 + 1; *period == NEVER; grid->cap = high) {
        if (grid->cap > high / 2) grid->cap = high;
        memory_block_release(&grid->table);
        TRY(memory_block_take(&grid->table, states * sizeof *grid->least, "the grid of the planner", error));
        grid->least = memory_block_carve(&grid->table, states * sizeof *grid->least);
        *period = least(grid, &all);
        if (grid->cap == high) break;
    }
    return PS_OK;
}

/* Algorithm 1, from the lower bound on; the stages of the best iteration. If none finds an allocation, neither for memory nor
 * for its grid, the upper bound is the last guess. Their predicted period is NEVER if there are none. */
static enum ps_status first_phase(struct grid *grid, size_t states, struct madpipe_stage *stages, int *count, int64_t *promised,
                                  struct ps_error *error) {
    const struct madpipe *data = grid->data;
    int64_t total = data->time_ns[data->layers], high = total, low = total / data->workers, best = NEVER;
    for (int l = 0; l < data->layers; l++) high += data->transfer_ns[l];
    grid->load_step = total / (LOADS - 1) + 1;
    grid->memory_step = data->limit_bytes < INT64_MAX ? data->limit_bytes / (MEMORIES - 1) + 1 : 1;
    grid->delay_step = high / (DELAYS - 1) + 1;
    int64_t highest = high;
    for (int round = 0; round <= ROUNDS && low <= high; round++) {
        struct state all = {.layers = data->layers, .workers = data->workers - 1};
        if (round == ROUNDS && best < NEVER) break;
        grid->guess = round == 0 ? low : round == ROUNDS ? highest : low + (high - low) / 2;
        if (grid->guess < 1) grid->guess = 1;
        int64_t period;
        TRY(dynamic_program(grid, states, best < NEVER ? high : 2 * highest, &period, error));
        int64_t worse = period > grid->guess ? period : grid->guess;
        if (worse < best) {
            best = worse;
            read_stages(grid, all, stages, count);
        }
        int64_t better = period < grid->guess ? period : grid->guess;
        if (better > low) low = better;
        if (worse < high) high = worse;
    }
    *promised = best;
    if (best < NEVER) log_debug("the first phase promises a period of %.6g s", (double)best / 1e9);
    return PS_OK;
}

static enum ps_status solve_data(const struct madpipe *data, struct grid *grid, struct madpipe_stage *stages,
                                 struct periodic_operation *operations, struct madpipe_found *best,
                                 struct planner_answer *answer, struct ps_error *error) {
    size_t states = ((size_t)data->layers + 1) * (size_t)data->workers * LOADS * MEMORIES * DELAYS;
    int count;
    if (states > STATES_MAX)
        return error_set(error, PS_NO_PLAN,
                         "%d layers on %d workers: the published grid has %zu states, at most %zu are accepted", data->layers,
                         data->workers, states, STATES_MAX);
    int nodes = 10 * NODES;
    int64_t promised;
    TRY(first_phase(grid, states, stages, &count, &promised, error));
    best->period_ns = 4 * data->time_ns[data->layers] + 4;
    for (int l = 0; l < data->layers; l++) best->period_ns += data->transfer_ns[l];
    if (promised < NEVER)
        TRY(madpipe_schedule_least(data, stages, count, data->time_ns[data->layers] / data->workers - 1, NODES, &nodes,
                                   operations, best, error));
    if (best->operation_count == 0)
        return error_set(error, PS_NO_PLAN, "the published grid finds no plan for %d worker%s that fits their memory",
                         data->workers, text_plural(data->workers));
    return madpipe_answer(data, best, answer, error);
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct madpipe data;
    TRY(madpipe_open(problem, &data, error));
    struct grid grid = {.data = &data};
    size_t layers = (size_t)data.layers;
    struct madpipe_stage *stages = arena_take(&data.arena, layers, sizeof *stages);
    struct periodic_operation *operations = arena_take(&data.arena, 4 * layers, sizeof *operations);
    struct madpipe_found best = {.stages = arena_take(&data.arena, layers, sizeof *best.stages),
                                 .operations = arena_take(&data.arena, 4 * layers, sizeof *best.operations)};
    enum ps_status status = arena_check(&data.arena, "a plan", error);
    if (status == PS_OK) status = solve_data(&data, &grid, stages, operations, &best, answer, error);
    memory_block_release(&grid.table);
    madpipe_close(&data);
    return status;
}

extern const struct planner planner_madpipe_paper;
const struct planner planner_madpipe_paper = {
    .name = "madpipe-paper",
    .baseline = true,
    .quick_layers = 16,
    .summary = "MadPipe's published dynamic programme on a grid",
    .own_schedule = true,
    .includes_updates = true,
    .solve = solve,
};
