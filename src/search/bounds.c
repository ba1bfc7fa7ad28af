/* Lower bounds: what holds for every plan, and what is left of a method's own bound after the simulation of its plan. */
#include <math.h>

#include "search/search.h"

/* No plan is faster than all work divided evenly over all workers, with each layer on its fastest device; nor, without
 * replicas, than the largest forward or backward of a layer. */
double search_least_period_s(const struct planner_problem *problem) {
    double least_s = 0, speeds = 0, largest_s = 0;
    bool one_type = cluster_one_type(problem->cluster, problem->costs);
    for (int w = 0; w < problem->workers; w++) speeds += one_type ? problem->cluster->devices[w].speed : 1;
    for (int l = 0; l < problem->costs->layer_count; l++) {
        double layer_s = INFINITY, forward_s = INFINITY, backward_s = INFINITY;
        for (int w = 0; w < problem->workers; w++) {
            const struct cluster_device *device = &problem->cluster->devices[w];
            struct layer_times time = cost_table_on(problem->costs, device->type)->layers[l].time;
            double back_s = time.backward_input_s + time.backward_weight_s, work_s = time.forward_s + back_s;
            layer_s = fmin(layer_s, one_type ? work_s : work_s / device->speed);
            forward_s = fmin(forward_s, time.forward_s / device->speed);
            backward_s = fmin(backward_s, back_s / device->speed);
        }
        least_s += layer_s / speeds;
        largest_s = fmax(largest_s, fmax(forward_s, backward_s));
    }
    return problem->replicate ? least_s : fmax(least_s, largest_s);
}

/* The largest speed of the device for any layer, relative to the first profile. */
static double most_speed(const struct cost_table *costs, const struct cluster_device *device) {
    const struct cost_table *own = cost_table_on(costs, device->type);
    double most = 0;
    if (own == costs) return device->speed;
    for (int l = 0; l < costs->layer_count; l++) {
        const struct layer_times *base = &costs->layers[l].time, *time = &own->layers[l].time;
        most = fmax(most, time->forward_s > 0 ? base->forward_s / time->forward_s : 0);
        most = fmax(most, time->backward_input_s > 0 ? base->backward_input_s / time->backward_input_s : 0);
        most = fmax(most, time->backward_weight_s > 0 ? base->backward_weight_s / time->backward_weight_s : 0);
    }
    return most * device->speed;
}

double search_case_stage_least_s(const struct search *search, const struct search_case *tried, const int *worker, int stages) {
    double speeds = 0, fastest = 0, total_s = 0, largest_s = 0;
    for (int s = 0; s < stages; s++) {
        double speed = most_speed(tried->costs, &search->cluster->devices[worker ? worker[s] : s]);
        speeds += speed;
        if (speed > fastest) fastest = speed;
    }
    for (int l = 0; l < tried->costs->layer_count; l++) {
        const struct layer_times *time = &tried->costs->layers[l].time;
        double forward_s = tried->recompute ? 2 * time->forward_s : time->forward_s;
        double layer_s = forward_s + time->backward_input_s + time->backward_weight_s;
        total_s += layer_s;
        if (layer_s > largest_s) largest_s = layer_s;
    }
    largest_s /= schedule_replicas(tried->choice.schedule); /* shared by the replicas */
    return total_s / speeds > largest_s / fastest ? total_s / speeds : largest_s / fastest;
}

double search_case_bound(const struct search *search, const struct search_case *tried) {
    double least_s = search_case_stage_least_s(search, tried, NULL, tried->workers);
    int samples = tried->costs->micro_batch > 0 ? tried->costs->micro_batch : 1;
    return least_s > 0 ? samples / least_s : 1e300;
}

double search_case_least_s(const struct search *search, const struct search_case *tried) {
    return (tried->costs->micro_batch > 0 ? tried->costs->micro_batch : 1) / search_case_bound(search, tried);
}

void search_set_bound(struct plan_prediction *predicted, double bound_s) {
    predicted->lower_bound_s = bound_s;
    predicted->gap = bound_s > 0 ? predicted->objective_s / bound_s - 1 : 0;
}

/* The planners that make schedules include a prediction in every update, but not all stages predict. The bound becomes the part
 * that holds without predictions: no load exceeds it by more than the layer with the longest update. */
void search_relax_bound_of_predictions(const struct planner_problem *problem, struct ps_plan *plan) {
    double least = 1, plain = 1.0 / problem->micro_batches;
    for (int l = 0; l < problem->costs->layer_count; l++) {
        const struct layer_times *time = &problem->costs->layers[l].time;
        double work_s = time->forward_s + time->backward_input_s + time->backward_weight_s;
        double counted_s = work_s + problem->update_share * time->update_s;
        if (counted_s > 0) least = fmin(least, (work_s + plain * time->update_s) / counted_s);
    }
    search_set_bound(&plan->predicted, plan->predicted.lower_bound_s * least);
}

/* A bound that the plan's own simulation beats does not hold: the two directions of a link do not wait for each other but the
 * method adds them, or the programs need less memory than was assumed. The bound by the total work remains. */
void search_relax_beaten_bound(double least_s, struct ps_plan *plan) {
    struct plan_prediction *predicted = &plan->predicted;
    double micro_batch_s = predicted->period_s / plan->micro_batches;
    if (!predicted->simulated || micro_batch_s >= predicted->lower_bound_s * (1 - 1e-9)) return;
    search_set_bound(predicted, fmin(least_s, micro_batch_s));
}
