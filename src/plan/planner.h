/*
 * Planners: the methods that decide more than where to cut a chain. They may give a stage replicas, run its forward and its
 * backward on different workers, give a worker several stages, or cut a graph along another order than the chain's. Each has a
 * file in planners/.
 *
 * `plan --method` selects one by name. The choice among methods (search/) uses those of their plans for which programs exist.
 */
#ifndef PENSTOCK_PLAN_PLANNER_H
#define PENSTOCK_PLAN_PLANNER_H

#include "base/arena.h"
#include "plan/plan.h"
#include "profile/costgraph.h"

struct ideals; /* plan/ideals.h */

/* With more cuts of a graph planning takes many seconds; the graph is then cut between groups of its nodes, or as its chain. */
enum { PLANNER_IDEALS_MAX = 500000 };

struct planner_problem {
    const struct cost_table *costs;
    const struct costgraph *graph; /* the graph from which the costs' chain was made, or NULL */
    const struct ps_cluster *cluster;
    const struct ps_cluster *described; /* the same as the user describes it, if `cluster` has less memory; else NULL */
    int workers;
    bool replicate;                  /* stages may have replicas */
    const struct stage_slots *slots; /* per worker, in order; NULL: memory is not limited */
    int moments;
    bool paper_cost;      /* use the method's formulas as published */
    double update_share;  /* share of an update's time per micro-batch */
    bool flush;           /* the schedule has a flush: replicas share the micro-batches of each mini-batch */
    int micro_batches;    /* per mini-batch */
    int replicas_max;     /* per stage; 0: all workers */
    int ideals_max;       /* largest number of cuts of the graph; 0: PLANNER_IDEALS_MAX */
    double safety_factor; /* cut as if this share of the transfers took the workers' own time (planners/pipedream.c) */
    double bound_s;       /* no plan of the class has a smaller objective; 0: not known */
    /* How `bipartition` cuts; its objective counts its own costs once in any case. */
    bool published_cut;     /* by the published costs */
    double boundary_factor; /* as if transfers between workers took this many times their time; 0: once */
};

/* A stage's layers (positions in `order`, from 0) and the first of its workers; replicas have the workers that follow. */
struct planned_stage {
    int first, last;
    int forward, backward, replicas;
    int in_flight; /* micro-batches that it holds at most; 0: not specified */
};

enum periodic_kind { PERIODIC_FORWARD, PERIODIC_BACKWARD, PERIODIC_SEND, PERIODIC_SEND_GRADIENT };

/* One operation of a periodic pattern: for micro-batch k it starts at k T + start_ns. PERIODIC_SEND goes from `stage` to the
 * next one, PERIODIC_SEND_GRADIENT to the previous one. */
struct periodic_operation {
    enum periodic_kind kind;
    int stage;
    int64_t start_ns, length_ns;
};

struct planner_answer {
    struct arena arena; /* of everything it points to */
    struct planned_stage *stages;
    int stage_count;
    int *order; /* nodes of the graph in the order that is cut into stages; NULL: the chain's layers */
    int order_count;
    double objective_s, lower_bound_s;
    struct periodic_operation *pattern; /* if the plan has its own periodic schedule, of period objective_s; else NULL */
    int pattern_count;
};

struct planner {
    const char *name, *summary;
    bool baseline;         /* shows what a paper's own program finds; the search chooses it only with replicas */
    int quick_layers;      /* of a baseline: on chains of at most this many layers it is fast enough to be tried with the other
                            * methods */
    bool own_schedule;     /* plans come with their schedule: a pattern, or stages that specify how many micro-batches they hold
                            * (1f1b-star) */
    bool includes_updates; /* the time of updates is part of a backward's time */
    bool cuts_variously;   /* a cut by other costs may be faster in the simulation: published_cut, boundary_factor */
    bool contains_chain;   /* its class contains all plans of `pipedream`, whose fastest it takes if it finds no faster one */
    bool replicates;       /* stages may have replicas */
    bool only_replicas;    /* every plan of its class has replicas */
    bool orders_workers;   /* plans for every order of the workers */
    bool several_types;    /* plans for several device types with their own costs; else for one type with different speeds */
    /* PS_NO_PLAN gives the reason. The answer is empty before the call and freed by planner_answer_free. */
    enum ps_status (*solve)(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error);
};

extern const struct planner *const planner_table[]; /* NULL-terminated */

/* `pipedream` with replicas. It is not in the table, since the partitioner of that name plans without them
 * (plan/partitioners/pipedream.c). */
extern const struct planner planner_pipedream;

/* NULL if no planner has that name. */
const struct planner *planner_find(const char *name);

void planner_answer_free(struct planner_answer *answer);

/* Adds a stage with the nodes between two ideals, on the workers after those of the previous stage. There is room for it. */
void planner_add_stage(struct planner_answer *answer, const struct ideals *ideals, int lower, int upper, int replicas);

/* Plans over the cuts of the problem's graph or, without a graph, of the chain. If the graph has too many cuts: the better of
 * the plan over the cuts between groups of its nodes and the plan over those of the chain; its lower bound is then 0, for the
 * caller to compute. `all_ends`: as of ideals_of_joined_graph. */
enum ps_status planner_solve_ideals(const struct planner_problem *problem, bool all_ends,
                                    enum ps_status (*solve)(const struct planner_problem *problem, const struct ideals *ideals,
                                                            struct planner_answer *answer, struct ps_error *error),
                                    struct planner_answer *answer, struct ps_error *error);

/* Updates per micro-batch of a stage with this many replicas: one per mini-batch or, without a flush, one per round of
 * mini-batches. */
double planner_updates(const struct planner_problem *problem, int replicas);

/* Seconds that the workers first .. first + replicas - 1 take to sum their gradients: a linear function of the bytes. */
struct planner_ring {
    double fixed_s, byte_s;
};
struct planner_ring planner_ring(const struct planner_problem *problem, int first, int replicas);

/* Bandwidth that all links share; 0: transfers cost nothing. Published formulas describe a network by this number alone. */
double planner_bandwidth(const struct planner_problem *problem);

#endif
