/* Why a simulated run takes as long as it does: its critical path, and what would help most. */
#include "report/parts.h"

/* Workers named in the table; the rest are summed up. */
enum { NAMED_MAX = 4 };

static double path_s(const struct ps_simulation *simulation) {
    const struct critical_path *path = &simulation->critical;
    double sum_s = path->transfer_s + path->other_s;
    for (int w = 0; w < simulation->info.workers; w++) sum_s += path->compute_s[w];
    return sum_s;
}

/* The worker with the largest share below `below`, of equal ones those behind `after`; -1: none. */
static int next_worker(const struct ps_simulation *simulation, double below, int after) {
    const double *compute_s = simulation->critical.compute_s;
    int best = -1;
    for (int w = 0; w < simulation->info.workers; w++) {
        if (compute_s[w] <= 0 || compute_s[w] > below || (compute_s[w] == below && w <= after)) continue;
        if (best < 0 || compute_s[w] > compute_s[best]) best = w;
    }
    return best;
}

static void add_path(const struct ps_simulation *simulation, struct text *text) {
    const struct critical_path *path = &simulation->critical;
    double whole_s = path_s(simulation), rest_s = whole_s - path->transfer_s - path->other_s, below = whole_s * 2;
    if (whole_s <= 0) return;
    text_add(text, "critical path  ");
    for (int named = 0, worker = -1; named < NAMED_MAX; named++) {
        worker = next_worker(simulation, below, worker);
        if (worker < 0) break;
        below = path->compute_s[worker];
        rest_s -= below;
        text_add(text, "%sworker %d %.1f%%", named ? ", " : "", worker, 100 * below / whole_s);
    }
    if (rest_s > 1e-9 * whole_s) text_add(text, ", other workers %.1f%%", 100 * rest_s / whole_s);
    if (path->transfer_s > 0) text_add(text, ", transfers %.1f%%", 100 * path->transfer_s / whole_s);
    if (path->other_s > 0) text_add(text, ", sending and receiving %.1f%%", 100 * path->other_s / whole_s);
    text_add(text, "\n");
}

void report_explain_table(const struct ps_simulation *simulation, struct text *text) {
    const struct advice *advice = &simulation->advice;
    text_add(text, "\n");
    if (simulation->critical.compute_s) add_path(simulation, text);
    if (advice->kind == ADVICE_MOVE_LAYER)
        text_add(text, "would help     worker %d limits: moving layer %d from worker %d to worker %d would save %.1f%%\n",
                 advice->limiting_worker, advice->layer + 1, advice->from, advice->to, 100 * advice->saving);
    if (advice->kind == ADVICE_BANDWIDTH)
        text_add(text, "would help     the link of workers %d and %d limits: twice its bandwidth would save %.1f%%\n",
                 advice->from, advice->to, 100 * advice->saving);
}

static json_t *path_json(const struct ps_simulation *simulation) {
    const struct critical_path *path = &simulation->critical;
    if (!path->compute_s) return json_null();
    json_t *workers = json_array();
    for (int w = 0; w < simulation->info.workers; w++) json_array_append_new(workers, json_real(path->compute_s[w]));
    return json_pack("{s:i, s:o, s:f, s:f}", "steps", path->steps, "compute_s", workers, "transfer_s", path->transfer_s,
                     "other_s", path->other_s);
}

static json_t *advice_json(const struct advice *advice) {
    if (advice->kind == ADVICE_NONE) return json_null();
    bool layer = advice->kind == ADVICE_MOVE_LAYER;
    json_t *object = json_pack("{s:s, s:i, s:i, s:i, s:f, s:f}", "change", layer ? "move_layer" : "double_bandwidth",
                               "limiting_worker", advice->limiting_worker, "from", advice->from, "to", advice->to, "period_s",
                               advice->period_s, "saving", advice->saving);
    if (layer) json_object_set_new(object, "layer", json_integer(advice->layer + 1));
    return object;
}

void report_explain_json(const struct ps_simulation *simulation, json_t *root) {
    json_object_set_new(root, "critical_path", path_json(simulation));
    json_object_set_new(root, "advice", advice_json(&simulation->advice));
}
