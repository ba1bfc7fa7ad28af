/*
 * config.json: all that is needed to repeat a run, and to go on with it where it was interrupted. Network, batch, optimizer and
 * seed stay as they are. The rest may change: plan, workers, device and transport, and how the steps that follow are trained
 * (how many, data, rates), of which the file keeps a history.
 */
#ifndef PENSTOCK_TRAIN_RUN_CONFIG_H
#define PENSTOCK_TRAIN_RUN_CONFIG_H

#include <jansson.h>

#include "exec/program_set.h"
#include "exec/update_rule.h"
#include "train/job.h"
#include "train/options.h"

/* What a run that goes on is made from. */
struct resumption {
    json_t *document; /* its config.json; NULL: the run is new */
    struct train_request request;
    bool planned_anew;
    /* What the run left, as far as it is needed. */
    struct ps_plan *plan;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_network *network;
    struct ps_dataset *data, *valid;
};

/* Reads `requested->resume`'s configuration and merges what the requested change into it; `resumption` must stay where it is,
 * and the strings of its options live as long as it and `requested`. Where there are several `processes` the plan is made anew
 * unless it is for so many workers. PS_NO_CHECKPOINT: there is no run, and the message names the `option` of the caller's that
 * gave it; PS_BAD_INPUT: its configuration is damaged. */
enum ps_status resumption_open(const struct ps_train_options *requested, const char *option, int processes,
                               struct resumption *resumption, struct ps_error *error);
/* The configuration as text (free()), NULL when memory ran out, and the same from it in a process that is given the plan. */
char *resumption_text(const struct resumption *resumption);
enum ps_status resumption_parse(const char *text, size_t size, const struct ps_train_options *requested,
                                struct resumption *resumption, struct ps_error *error);
void resumption_free(struct resumption *resumption);

/* Are the data those that the run had, by their checksums (samples_checksum; `data` and `valid`)? PS_USAGE if not, unless the
 * request gives them anew: then the log says so. */
enum ps_status resumption_check_data(const struct resumption *resumption, const struct ps_train_options *requested,
                                     const uint64_t checksums[2], struct ps_error *error);

/* Writes RUN_DIR/config.json; `before` is the run's old one where it goes on, after `step`, else NULL. Settings that have
 * changed are logged, and the earlier ones kept in its `history`. */
enum ps_status config_write(const char *run_dir, const struct job *job, const struct update_rule *rule,
                            const struct segment_lengths *lengths, int64_t step, const struct resumption *before,
                            struct ps_error *error);

#endif
