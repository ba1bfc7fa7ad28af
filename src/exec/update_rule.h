/*
 * How a run updates and predicts weights: the optimizer in use, the rule by which the weight policy predicts, the learning
 * rates of all updates. Prediction may need a separate rule in addition to the optimizer's (XPipe predicts by Adam's): its
 * moments then follow the optimizer's.
 */
#ifndef PENSTOCK_EXEC_UPDATE_RULE_H
#define PENSTOCK_EXEC_UPDATE_RULE_H

#include "compute/stage.h"
#include "exec/learning_rate.h"
#include "exec/prediction_watch.h"
#include "program/lower.h"

enum { UPDATE_MOMENTS_MAX = 2 * OPTIMIZER_MOMENTS_MAX };

/* Parameters with a learning rate or a weight decay of their own: those whose names the pattern matches and no earlier one. */
struct update_group {
    char pattern[128];
    double rate;         /* their learning rate as a multiple of the run's */
    double weight_decay; /* NaN: as the others */
};
enum { UPDATE_GROUPS_MAX = 16 };

struct update_rule {
    const struct optimizer *requested;  /* by name */
    const struct optimizer *optimizer;  /* what runs in its place: sgdm for sgd, where predictions need its state */
    struct optimizer_settings settings; /* lr unused: rates are in `rate` */
    const struct optimizer *predictor;  /* == optimizer, or Adam in addition to it */
    struct optimizer_settings predictor_settings;
    struct optimizer
        observer; /* predictor->observe as a rule that a device can run; used where the predictor is a separate rule */
    int moments;  /* blocks: the optimizer's, then those of a separate predictor */
    bool paper_prediction;
    struct learning_rate rate;
    double clip;            /* largest norm of a mini-batch's gradient over the whole network; 0: no limit */
    unsigned without_decay; /* enum decay_exclusion */
    struct update_group groups[UPDATE_GROUPS_MAX];
    int group_count;
};

/* Parameters without weight decay. */
enum decay_exclusion { WITHOUT_BIASES = 1, WITHOUT_NORMS = 2 };
/* Reads "biases", "norms" or both with a comma; NULL: neither. */
enum ps_status decay_exclusion_parse(const char *text, unsigned *out, struct ps_error *error);

/* Reads "GLOB:lr=0.01,weight-decay=0;GLOB:..." into the rule, whose settings are known; NULL: no groups. */
enum ps_status update_groups_parse(const char *text, struct update_rule *rule, struct ps_error *error);
/* PS_USAGE where a group has none of the graph's trained parameters. */
enum ps_status update_groups_check(const struct update_rule *rule, const struct graph *graph, struct ps_error *error);

/* A range of a stage's parameters with the same rate, as a multiple of the run's, and the same decay. */
struct update_span {
    size_t begin, count;
    double rate, weight_decay;
};
/* Those of the stage's parameter; `begin` and `count` stay 0. */
struct update_span update_rule_span(const struct update_rule *rule, const struct stage *stage, int parameter);

/* One stage's state under the rule. */
struct update_state {
    size_t count; /* elements of each block */
    float *moment[UPDATE_MOMENTS_MAX];
    float *master;             /* the newest weights in f32, where copies hold some as bf16; NULL: slots are f32 */
    size_t wide;               /* of `count`, how many are f32 in copies, too: the first */
    int64_t done;              /* updates since training began */
    int64_t step;              /* mini-batches trained before the next update: its learning rate is that of this step */
    int round;                 /* mini-batches that an update takes together */
    struct stage_times times;  /* on a clock device */
    struct update_span *spans; /* from the first float on, owned; NULL: all are the run's */
    int span_count;
    double share;           /* the stage's share of the network's parameters, and so of the squared norm limit; 0: all */
    struct stage_tie *ties; /* its shared parameters, in the order of the block; owned, as is what follows */
    double *tied_shares;    /* the same share of each of these, which is its own: its copies must stay the same */
    int tie_count;
    struct stretch *rest; /* room for the ranges between them */
    struct prediction_watch watch;
};

/* Settings as the user gave them: NaN where he did not. */
struct update_request {
    const char *optimizer;
    struct optimizer_settings settings;
};

/* Resolves the optimizer and its settings for a weight policy; `rate` is left to the caller, who takes the base rate from
 * settings.lr. PS_USAGE: a name is not known, a setting is out of range or does not belong to the optimizer, the policy cannot
 * work with it. */
enum ps_status update_rule_choose(const struct update_request *requested, const char *policy, bool paper_prediction,
                                  struct update_rule *rule, struct ps_error *error);

/* The name in files of the rule's moment `number`: "exp_avg", or "predictor.exp_avg" of a separate predictor. */
const char *update_rule_moment_name(const struct update_rule *rule, int number, char name[64]);

/* `weights`, `updated` and `predicted` are weight slots. updated = weights after the next update with `gradient` (may be ==
 * weights); predicted (NULL: none) = updated moved `ahead` updates on. Where there is a master, it is what is updated,
 * `weights` (which must be its copy) is not read, and `updated` and `predicted` are rounded. The gradient is clipped in place;
 * before that, one whose parameter the stage alone uses several times becomes the sum of all uses'. */
void update_rule_apply(const struct update_rule *rule, struct device *device, struct update_state *state, const void *weights,
                       void *updated, float *gradient, void *predicted, int ahead);
/* predicted = weights, the newest, moved `ahead` updates on, a copy before the first update. */
void update_rule_predict(const struct update_rule *rule, struct device *device, const struct update_state *state,
                         const void *weights, void *predicted, int ahead);

#endif
