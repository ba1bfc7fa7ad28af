/*
 * Planners: the methods whose answer is more than where to cut a chain. They may give a stage replicas, run its forward and its
 * backward on different workers, give a worker several stages, or cut a graph along another order than the chain's. One file
 * each in planners/.
 *
 * `plan --method` offers them by name; the choice among methods (search/) takes those of their plans that can be run.
 */
#ifndef PENSTOCK_PLAN_PLANNER_H
#define PENSTOCK_PLAN_PLANNER_H

#include "base/arena.h"
#include "plan/plan.h"
#include "profile/costgraph.h"

struct ideals; /* plan/ideals.h */

/* More cuts of a graph take seconds to plan with; it is then cut between groups of its nodes, or as its chain. */
enum { PLANNER_IDEALS_MAX = 500000 };

struct planner_problem {
    const struct cost_table *costs;
    const struct costgraph *graph; /* what the costs' chain was made from, or NULL */
    const struct ps_cluster *cluster;
    int workers;
    bool replicate;                  /* stages may have replicas */
    const struct stage_slots *slots; /* per worker, in order; NULL: memory does not count */
    int moments;
    bool paper_cost;      /* the method's formulas as published */
    double update_share;  /* of an update's time that a micro-batch takes */
    bool flush;           /* the schedule flushes: replicas share the micro-batches of each mini-batch */
    int micro_batches;    /* of a mini-batch */
    int replicas_max;     /* of a stage; 0: all workers */
    int ideals_max;       /* cuts of the graph that are considered; 0: PLANNER_IDEALS_MAX */
    double safety_factor; /* cut as if so large a share of transfers were the workers' own time (planners/pipedream.c) */
    double bound_s;       /* no plan of the class has a smaller objective; 0: not known yet */
};

/* A stage's layers (places in `order`, from 0) and the first of its workers; replicas take the workers that follow. */
struct planned_stage {
    int first, last;
    int forward, backward, replicas;
    int in_flight; /* micro-batches that it holds at most; 0: not said */
};

enum periodic_kind { PERIODIC_FORWARD, PERIODIC_BACKWARD, PERIODIC_SEND, PERIODIC_SEND_GRADIENT };

/* One operation of a periodic pattern: of micro-batch k it starts at k T + start_ns. PERIODIC_SEND goes from `stage` to the
 * next one, PERIODIC_SEND_GRADIENT to the one before. */
struct periodic_operation {
    enum periodic_kind kind;
    int stage;
    int64_t start_ns, length_ns;
};

struct planner_answer {
    struct arena arena; /* of all that it points to */
    struct planned_stage *stages;
    int stage_count;
    int *order; /* nodes of the graph in the order that the stages divide; NULL: the chain's layers */
    int order_count;
    double objective_s, lower_bound_s;
    struct periodic_operation *pattern; /* where the plan has its own periodic schedule, of period objective_s; else NULL */
    int pattern_count;
};

struct planner {
    const char *name, *summary;
    bool baseline;         /* shows what a paper's own program finds; chosen by itself only with replicas */
    int quick_layers;      /* of a baseline: on chains of no more layers it takes no time to be tried with the others */
    bool own_schedule;     /* plans come with their schedule: a pattern, or stages that say how much they hold (1f1b-star) */
    bool includes_updates; /* with updates in a backward's time */
    bool paper_costs;      /* what it counts beyond the published costs can be too much: plans by these are tried, too */
    bool replicates;       /* stages may have replicas */
    bool only_replicas;    /* there is no plan of its class without */
    bool several_types;    /* plans for types of devices with costs of their own; else for one type with unlike speeds */
    /* PS_NO_PLAN names what is in the way. The answer is empty before and freed by planner_answer_free. */
    enum ps_status (*solve)(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error);
};

extern const struct planner *const planner_table[]; /* NULL-terminated */

/* `pipedream` with replicas: not in the table, since the partitioner of that name plans without
 * (plan/partitioners/pipedream.c). */
extern const struct planner planner_pipedream;

/* NULL where no planner has that name. */
const struct planner *planner_find(const char *name);

void planner_answer_free(struct planner_answer *answer);

/* Adds the stage of the nodes between two ideals, on the workers behind those of the stage before. There is room for it. */
void planner_add_stage(struct planner_answer *answer, const struct ideals *ideals, int lower, int upper, int replicas);

/* Plans over the cuts of the problem's graph, or without one of the chain. Where the graph has too many cuts, the better plan
 * over those between groups of nodes and those of the chain: its lower bound is left to the caller (0). */
enum ps_status planner_solve_ideals(const struct planner_problem *problem,
                                    enum ps_status (*solve)(const struct planner_problem *problem, const struct ideals *ideals,
                                                            struct planner_answer *answer, struct ps_error *error),
                                    struct planner_answer *answer, struct ps_error *error);

/* Updates of a stage with so many replicas for each micro-batch: one a mini-batch, or without a flush one a round of
 * mini-batches. */
double planner_updates(const struct planner_problem *problem, int replicas);

/* Seconds that the workers first .. first + replicas - 1 take to add up what each has: a line over the bytes. */
struct planner_ring {
    double fixed_s, byte_s;
};
struct planner_ring planner_ring(const struct planner_problem *problem, int first, int replicas);

/* Bandwidth that all links share; 0: transfers cost nothing. What published formulas know of a network. */
double planner_bandwidth(const struct planner_problem *problem);

#endif
