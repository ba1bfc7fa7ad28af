/* Simulating the run that is about to be made; see predict.h. */
#include "train/predict_run.h"

#include <math.h>
#include <string.h>

#include "base/processor.h"
#include "simulate/simulate.h"

/* Longer segments are simulated this far and continued with the period; where mini-batches have several lengths, in which each
 * comes behind each other often, so far. */
enum { SIMULATED_BATCHES = 64, SIMULATED_LENGTHS = 1024 };

int predict_at_once(const struct job *job) {
    if (!job->transport->own_threads) return 1;
    if (!job->device->real) return 0;
    int workers = 0;
    if (!job_is_several(job)) workers = cores_usable() / job->threads;
    for (int rank = 0; job_is_several(job) && rank < job->processes->count; rank++)
        if (processes_first_on_host(job->processes, rank) == rank) {
            const int here = job->processes->info[rank].cores / job->threads;
            workers += here > 1 ? here : 1;
        }
    return workers > 1 ? workers : 1;
}

bool predict_takes_links(const struct job *job) {
    if (job->options->emulate) return true;
    int hosts = 0;
    for (int rank = 0; job_is_several(job) && rank < job->processes->count; rank++)
        hosts += processes_first_on_host(job->processes, rank) == rank;
    return hosts > 1;
}

static enum ps_status segment_seconds(const struct job *job, const struct ps_cluster *machine, int batches, double *seconds,
                                      struct ps_error *error) {
    const int most = job->profile->length_count > 0 ? SIMULATED_LENGTHS : SIMULATED_BATCHES;
    int simulated = batches < most ? batches : most;
    struct ps_simulation *simulation;
    TRY(simulate_figures(job->plan, job->profile, machine, simulated, &simulation, error));
    struct ps_simulation_info info = ps_simulation_info(simulation);
    ps_simulation_destroy(simulation);
    *seconds = info.makespan_s + (batches - simulated) * info.period_s;
    return PS_OK;
}

enum ps_status predict_throughput(const struct job *job, const struct program_set *set, double *samples_per_s,
                                  struct ps_error *error) {
    if (!job->profile) {
        *samples_per_s = NAN;
        return PS_OK;
    }
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = job->plan->workers, .cores = predict_at_once(job)};
    struct ps_cluster *machine, linked = *job->cluster;
    linked.cores = options.cores;
    const bool links = predict_takes_links(job);
    TRY(ps_cluster_uniform(&options, &machine, error));
    for (int w = 0; w < machine->workers && job->profile->other_device; w++)
        memcpy(machine->devices[w].type, job->cluster->devices[w].type, sizeof machine->devices[w].type);
    double seconds = 0, samples = 0;
    enum ps_status status = PS_OK;
    for (int i = 0; status == PS_OK && i < set->count; i++) {
        double segment = 0;
        status = segment_seconds(job, links ? &linked : machine, set->entries[i].batches, &segment, error);
        seconds += segment * (double)set->entries[i].uses;
        samples += (double)set->entries[i].uses * set->entries[i].batches * job->batch;
    }
    ps_cluster_destroy(machine);
    if (status == PS_OK) *samples_per_s = seconds > 0 ? samples / seconds : NAN;
    return status;
}
