/* A plan as tables for people: its stages, then each worker's load and memory, then the prediction. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "plan/plan.h"

static void add_workers(struct text *rows, const int *list, int count) {
    for (int i = 0; i < count; i++) text_add(rows, "%s%d", i ? ", " : "", list[i]);
}

static bool same_workers(const struct plan_stage *stage) {
    return stage->forward_count == stage->backward_count &&
           memcmp(stage->forward, stage->backward, (size_t)stage->forward_count * sizeof *stage->forward) == 0;
}

/* The reason why programs cannot express the plan, in words. */
static const char *plan_class(const struct ps_plan *plan) {
    if (plan_is_split(plan)) return "forward and backward on different workers under a schedule without split stages";
    if (plan->order) return "layers in another order than the profile's";
    for (int s = 0; s < plan->stage_count; s++)
        for (int t = 0; t < s; t++)
            if (plan->stages[s].forward[0] == plan->stages[t].forward[0]) return "several stages on one worker";
    if (plan_has_replicas(plan)) return "replicas under a schedule or a weight policy that has none";
    return "a periodic schedule of its own, which holds fewer activations";
}

static bool both_ways(const struct ps_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++)
        if (!same_workers(&plan->stages[s])) return false;
    return true;
}

static void add_stages(struct text *out, const struct ps_plan *plan) {
    struct text rows = {0};
    bool same = both_ways(plan);
    text_add(&rows, same ? "stage\tlayers\tworker\trecompute\n" : "stage\tlayers\tforward\tbackward\trecompute\n");
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        text_add(&rows, "%d\t%d-%d\t", s, stage->first + 1, stage->last + 1);
        add_workers(&rows, stage->forward, stage->forward_count);
        if (!same) text_add(&rows, "\t");
        if (!same) add_workers(&rows, stage->backward, stage->backward_count);
        text_add(&rows, "\t%s\n", stage->recompute ? "yes" : "no");
    }
    text_add_table(out, &rows);
}

static void add_memory(struct text *rows, const struct worker_memory *memory) {
    char text[7][32];
    text_add(rows, "\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", text_bytes(worker_memory_total(memory), text[0]),
             text_bytes(memory->weights, text[1]), text_bytes(memory->gradients, text[2]),
             text_bytes(memory->optimizer, text[3]), text_bytes(memory->stash, text[4]), text_bytes(memory->buffers, text[5]),
             text_bytes(memory->workspace, text[6]));
}

static void add_loads(struct text *out, const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    struct worker_memory total = {0};
    struct text rows = {0};
    double load_s = 0;
    char time[32];
    for (int w = 0; w < plan->workers; w++) load_s += predicted->load_s[w];
    text_add(&rows, "worker\tload\tshare%s\n",
             predicted->simulated ? "\tmemory\tweights\tgradients\toptimizer\tstash\tbuffers\tworkspace" : "");
    for (int w = 0; w < plan->workers; w++) {
        const struct worker_memory *memory = &predicted->memory[w];
        text_add(&rows, "%d\t%s\t%.1f %%", w, text_seconds(predicted->load_s[w], time),
                 load_s > 0 ? 100 * predicted->load_s[w] / load_s : 0);
        if (!predicted->simulated) {
            text_add(&rows, "\n");
            continue;
        }
        add_memory(&rows, memory);
        total.weights += memory->weights;
        total.gradients += memory->gradients;
        total.optimizer += memory->optimizer;
        total.stash += memory->stash;
        total.buffers += memory->buffers;
        total.workspace += memory->workspace;
    }
    text_add(&rows, "in all\t%s\t100.0 %%", text_seconds(load_s, time));
    if (predicted->simulated)
        add_memory(&rows, &total);
    else
        text_add(&rows, "\n");
    text_add(out, "\n");
    text_add_table(out, &rows);
}

/* With enough digits for comparison with published figures. */
static const char *exact_seconds(double seconds, char out[32]) {
    if (seconds < 1e-3) return text_seconds(seconds, out);
    number_print(out, 32, "%.3f ms", 1e3 * seconds);
    return out;
}

static void add_why_not_simulated(struct text *out, const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    int fullest = 0;
    char needed[32];
    if (predicted->period_s == 0) {
        text_add(out, "This plan is for comparison: programs of its class (%s) can be neither run nor simulated.\n",
                 plan_class(plan));
        return;
    }
    for (int w = 1; w < plan->workers; w++)
        if (worker_memory_total(&predicted->memory[w]) > worker_memory_total(&predicted->memory[fullest])) fullest = w;
    text_add(out, "This plan is for comparison: its programs need more memory than there is, worker %d %s.\n", fullest,
             text_bytes(worker_memory_total(&predicted->memory[fullest]), needed));
}

static void add_figures(struct text *out, const struct ps_plan *plan) {
    const struct plan_prediction *predicted = &plan->predicted;
    char text[4][32], figures[200];
    number_print(figures, sizeof figures, "objective %s, lower bound %s, gap %.2f %%, found in %s",
                 exact_seconds(predicted->objective_s, text[1]), exact_seconds(predicted->lower_bound_s, text[2]),
                 100 * predicted->gap, text_seconds(predicted->solve_s, text[3]));
    if (!predicted->simulated) {
        text_add(out, "\n%s\n", figures);
        add_why_not_simulated(out, plan);
        return;
    }
    text_add(out, "\npredicted: a mini-batch every %s (%.4g samples/s), bubble %.1f %%\n",
             text_seconds(predicted->period_s, text[0]), predicted->throughput_samples_per_s, 100 * predicted->bubble);
    text_add(out, "%s\n", figures);
    if (predicted->limit[0]) text_add(out, "limited by %s\n", predicted->limit);
}

char *ps_plan_table(const struct ps_plan *plan) {
    struct text out = {0};
    text_add(&out, "%s: %d stage%s on %d worker%s, %s", plan->model, plan->stage_count, text_plural(plan->stage_count),
             plan->workers, text_plural(plan->workers), plan->schedule);
    text_add(&out, ", weights %s, %d micro-batch%s", plan->weights, plan->micro_batches, plan->micro_batches == 1 ? "" : "es");
    if (plan->micro_batch > 0) text_add(&out, " of %d", plan->micro_batch);
    text_add(&out, "%s%s\n\n", plan->method[0] ? ", cut by " : "", plan->method);
    add_stages(&out, plan);
    if (plan->predicted.known) {
        add_loads(&out, plan);
        add_figures(&out, plan);
    }
    return text_take(&out);
}
