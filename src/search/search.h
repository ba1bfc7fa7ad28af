/*
 * Finding a plan (ps_plan_find): the schedule and policy, the size of micro-batches, the number of stages, and the partitioner
 * whose cut is fastest in the simulation. A case fixes all of these but the cut. Cases are tried one after the other, and those
 * whose bound is no better than the best plan are skipped.
 */
#ifndef PENSTOCK_SEARCH_SEARCH_H
#define PENSTOCK_SEARCH_SEARCH_H

#include "base/fields.h"
#include "plan/partitioner.h"
#include "plan/planner.h"
#include "program/lower.h"
#include "simulate/simulate.h"

/* The options of planning (struct ps_plan_options) as documents keep them, but for what a training says itself: mini-batch and
 * optimizer. */
extern const struct fields search_option_fields;

struct search_choice {
    const struct schedule *schedule;
    const struct weight_policy *policy;
    int micro_batches, slack;
};

/*
 * The defaults of open options, for a pipeline of `workers` stages, without a search:
 *
 *     schedule  weights   ->  schedule    weights
 *     auto      auto          1f1b-async  pipeoptim   the best throughput that learns as one device does
 *     auto      sync          1f1b        sync        gpipe's bubble in less memory
 *     auto      other         1f1b-async  as given
 *     flushing  auto          as given    sync
 *     other     auto          as given    pipeoptim
 *
 * micro_batches 0: the schedule's default number, and no fewer than the policy needs. PS_USAGE: unknown names, or a
 * contradictory combination.
 */
enum ps_status search_choose(const struct ps_plan_options *options, int workers, struct search_choice *choice,
                             struct ps_error *error);

/* A plan of this choice with nothing but its stages missing: what it is of, and by which method, schedule, policy and
 * optimizer. */
struct search;
enum ps_status search_plan_create(const struct search *search, const struct search_choice *choice,
                                  const struct cost_table *costs, const char *method, int workers, int stages,
                                  struct ps_plan **plan, struct ps_error *error);

/* The input for lowering the programs of such a pipeline, with enough mini-batches to show the largest number of blocks in
 * use. */
struct straight search_straight(const struct search_choice *choice, int workers);

/* The same options, but with weights `sync` if they leave everything open and the network's first and last layer share a
 * parameter: several workers can train it only with a flush. */
struct ps_plan_options search_tied(const struct ps_plan_options *options, bool tied, int workers);

/*
 * The schedules and policies to be compared; the first is that of search_choose. More than one only if the user gave "auto";
 * all have the same staleness rules unless the weights are "auto":
 *
 *     schedule        weights
 *     auto            none     schedules without flush, with pipeoptim
 *     auto            sync     schedules that flush
 *     auto            other    schedules without flush, with that policy
 *     auto or none    auto     all schedules: sync with those that flush, pipeoptim with the others
 *
 * Schedules that stream are left out if the cluster does not (`streams`). Of those that flush, method bapipe has only BaPipe's:
 * 1f1b and 1f1b-so, or 1f1b-as and fbp-as if the cluster streams.
 */
enum { SEARCH_PAIRS_MAX = 64 };
struct search_pair {
    const struct schedule *schedule;
    const struct weight_policy *policy;
};
enum ps_status search_pairs(const struct ps_plan_options *options, int workers, bool streams, struct search_pair *pairs,
                            int *count, struct ps_error *error);

/* Everything except the cut. */
struct search_case {
    struct search_choice choice;
    const struct cost_table *costs;
    int workers; /* the first of the cluster */
    bool recompute;
};

/* Common to all cases. */
struct search {
    const struct ps_plan_options *options;
    const struct ps_profile *profile;
    const struct ps_cluster *cluster;
    const char *optimizer;
    double start_s;
    int replicas_max;     /* per stage; 0: all workers */
    double safety_factor; /* planner_problem.safety_factor */
    double bound_s;       /* planner_problem.bound_s */
    int ideals_max;       /* planner_problem.ideals_max */
    bool sweeps_only;     /* with replicas: no plan if only search_replica_shapes would find one */
    /* A plan whose cuts are to be improved: plans with as many workers are searched, and of the planners only the one that made
     * it is tried. NULL: none. */
    const struct ps_plan *near;
    int workers; /* of the plan; 0: as many as is best */
    /* What is kept between planners that are asked again and again; NULL: nothing. */
    struct search_notes *notes;
};

/* The best plan so far; all zeros if there is none. */
struct search_best {
    struct arena arena; /* of its arrays */
    struct search_case chosen;
    const struct partitioner *method;
    int stages;
    int *last;       /* per stage: its last layer */
    int *worker;     /* per stage: the worker that runs it */
    bool *recompute; /* per stage */
    double objective_s;
    double lower_bound_s;             /* of all methods tried: no plan of their classes has a smaller objective */
    struct ps_simulation *simulation; /* NULL: no plan yet */
    struct stage_slots *slots;        /* per stage */
    int moments;
    double groups_s; /* the period of the groups of 1F1B*, for schedules that need them */
};
void search_best_free(struct search_best *best);

/* Tries every partitioner that the options allow; a plan better than `best` replaces it. *bound_s (0: none yet) becomes the
 * least bound of the methods in all cases that it is passed to. PS_NO_PLAN: nothing fits. */
enum ps_status search_case_try(const struct search *search, const struct search_case *tried, double *bound_s,
                               struct search_best *best, struct ps_error *error);
/* No plan of the case has a larger throughput, in samples per second. */
double search_case_bound(const struct search *search, const struct search_case *tried);
/* The same bound as the least time per micro-batch. */
double search_case_least_s(const struct search *search, const struct search_case *tried);
/* The longest stage of a cut takes at least this per micro-batch. `worker`: of each stage; NULL: stage s is on worker s. */
double search_case_stage_least_s(const struct search *search, const struct search_case *tried, const int *worker, int stages);
/* Removes recomputation from the stages that fit without it. */
enum ps_status search_case_relax(const struct search *search, struct search_best *best, struct ps_error *error);
enum ps_status search_case_plan(const struct search *search, const struct search_best *best, struct ps_plan **plan,
                                struct ps_error *error);

/* Writes the reason why the plan is not faster into its prediction, which has everything else: a worker, a link, memory, or the
 * schedule. `gain_s`: how much smaller its objective would be without memory limits, if known. */
void search_explain(const struct search *search, const struct ps_simulation *simulation, double gain_s, struct ps_plan *plan);

/* Ways to divide a mini-batch that the options allow. */
enum { SEARCH_SIZES_MAX = 256 };
struct search_size {
    const struct cost_table *costs;
    int micro_batches; /* 0: the schedule's default number */
};
enum ps_status search_sizes(const struct search *search, struct search_size *sizes, int *count, struct ps_error *error);

/* The best plan of the partitioners that the options allow. PS_NO_PLAN: nothing fits. */
enum ps_status search_partitioners(const struct search *search, struct ps_plan **plan, struct ps_error *error);

/* Tries the planners whose plans have programs; the fastest plan replaces *plan (NULL: there is none) if it is faster. */
enum ps_status search_planners(const struct search *search, struct ps_plan **plan, struct ps_error *error);
/* Whether `auto` tries the planner: baselines only on chains so short that they are quick, since a cost that one counts too
 * high can still lead to a plan that simulates faster, and those that replicate if replicas are allowed. */
bool search_competes(const struct planner *planner, const struct ps_profile *profile, bool replicate);

/* `pipedream` with replicas for clusters that its sweeps simplify too much: several device types, different links, memory
 * limits. Every choice of replicas is lowered to count the blocks that its programs need, and cut exactly (search/replicas.c).
 * PS_NO_PLAN names the stage, what it needs and the limit. */
enum ps_status search_replica_shapes(const struct search *search, const struct planner_problem *problem,
                                     const struct search_choice *choice, struct planner_answer *answer, struct ps_error *error);

/* If the profile has more layers than methods plan in seconds, or if modules (ps_plan_options.module_depth) are to stay whole:
 * the same costs with neighbouring layers joined into groups, to be planned in its place; else NULL. `near`: a plan of the
 * profile, around whose cuts groups are to be smaller (NULL: none); NULL if they cannot be. */
enum ps_status search_group(const struct ps_profile *profile, const struct ps_cluster *cluster, int module_depth,
                            const struct ps_plan *near, struct ps_profile **grouped, struct ps_error *error);
/* Says a plan of the groups in layers. */
enum ps_status search_ungroup(const struct ps_profile *grouped, const struct ps_profile *profile,
                              const struct ps_cluster *cluster, bool replicate, struct ps_plan *plan, struct ps_error *error);

/* `--wire` (search/wire.c): a plan that is found as if the links carried what the codec makes of each number, with the codecs
 * at its cuts, simulated with them. `find` is the search without codecs. */
typedef enum ps_status search_find(const struct ps_profile *profile, const struct ps_cluster *cluster,
                                   const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error);
enum ps_status search_wire(const struct ps_profile *profile, const struct ps_cluster *cluster,
                           const struct ps_plan_options *options, search_find *find, struct ps_plan **plan,
                           struct ps_error *error);
/* Is it one that `wire` takes? */
enum ps_status search_check_wire(const char *text, struct ps_error *error);

/* Logs a warning if one worker alone would be faster than the plan. */
void search_say_one_worker(const struct ps_profile *profile, const struct ps_cluster *cluster,
                           const struct ps_plan_options *options, search_find *find, const struct ps_plan *plan);
/* Puts before the hints of a refusal a change of the options with which a plan fits, or the memory that is enough. */
void search_hint_fits(const struct ps_profile *profile, const struct ps_cluster *cluster, const struct ps_plan_options *options,
                      search_find *find, struct ps_error *error);
/* ps_plan_find without these two, for callers that make many plans. */
enum ps_status search_find_plan(const struct ps_profile *profile, const struct ps_cluster *cluster,
                                const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error);

/* Whether every method can be tried on every number of workers in about a second. A measure of the problem, not of time, so
 * that plans do not depend on how busy the machine is. Larger problems get less where no method is named: `pipedream` on every
 * number of workers, the other partitioners on all workers, and no planners. */
bool search_is_quick(const struct search *search);

/* Period, throughput, bubble and the memory of each worker. */
void search_take_simulation(const struct ps_simulation *simulation, struct plan_prediction *predicted);

/* No plan takes less time per micro-batch. */
double search_least_period_s(const struct planner_problem *problem);
/* Sets the lower bound, and the gap between it and the objective, which is already set. */
void search_set_bound(struct plan_prediction *predicted, double bound_s);
/* Turns a bound that includes a prediction in every update into one without. */
void search_relax_bound_of_predictions(const struct planner_problem *problem, struct ps_plan *plan);
/* That there is no other plan, or that a method cannot make it, is no failure of a search: PS_OK. Other statuses stay, and
 * *error becomes what was said. */
enum ps_status search_without_refusals(enum ps_status status, const struct ps_error *refusal, struct ps_error *error);
/* Replaces a lower bound by `least_s` if the plan's simulated period is below it. */
void search_relax_beaten_bound(double least_s, struct ps_plan *plan);

/* Completes the message of a method that only reports that nothing fits: names the layer that exceeds every worker's memory
 * most, or a stage with its worker, or the memory that all workers together would need; with the limit. */
void search_name_need(const struct planner_problem *problem, struct ps_error *error);

/* The plan of a planner, simulated if possible. */
enum ps_status search_planner(const struct search *search, const struct planner *planner, struct ps_plan **plan,
                              struct ps_error *error);

/* The updates in a backward, one per mini-batch; one with a prediction counts as more. */
double search_update_share(const struct search_choice *choice);
/* 1F1B holds as many micro-batches as there are workers. With long transfers, or with split stages, more of them keep the
 * workers busy. Replaces a simulated plan without replicas by one with such a pattern if that is faster and fits. */
enum ps_status search_deepen(const struct search *search, double update_share, struct ps_plan **plan, struct ps_error *error);
bool search_wants_pattern(const struct ps_plan_options *options); /* the schedule is to be `pattern` */

bool search_is_auto(const char *name);   /* "auto" or NULL */
bool search_is_bapipe(const char *name); /* BaPipe's method, which has schedules and an alternative of its own */
/* The methods whose plans may have replicas. */
#define SEARCH_REPLICATING "auto, pipedream, bapipe, pipedream-paper and data-parallel"
bool search_may_replicate(const char *method);
bool search_has_limit(const struct ps_cluster *cluster, int workers);

/* Plans with a periodic schedule of their own: those of madpipe, and cuts that hold more micro-batches than 1F1B does. */

/* Gives the plan, whose stages are the answer's, its schedule: a pattern, or 1f1b-star. */
enum ps_status periodic_schedule(const struct planner_answer *answer, struct ps_plan *plan, struct ps_error *error);
/* A pattern for the plan's cut (periodic.c), with enough micro-batches in flight to keep its busiest worker or link busy. No
 * stage has replicas. A backward includes `update_share` of its stage's update. PS_NO_PLAN: there is none. */
enum ps_status periodic_schedule_cut(const struct ps_profile *profile, const struct ps_cluster *cluster, double update_share,
                                     struct ps_plan *plan, struct ps_error *error);
/* Per worker the memory of the plan's programs by MadPipe's published formula (only with a memory limit): two versions of the
 * weights and a gradient, two buffers at each cut, and the largest number of inputs that are held when a forward starts. */
enum ps_status periodic_paper_memory(const struct planner_problem *problem, const struct ps_plan *plan,
                                     const struct ps_programs *programs, struct worker_memory *memory, struct ps_error *error);

#endif
