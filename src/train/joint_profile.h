/*
 * A network's costs on unlike machines: each type of device is measured by one process that has such a one, all types at the
 * same time. Devices are of one type where their processors are of the same kind and the cluster's description gives them the
 * same speed.
 *
 * Rank 0 asks, with what the others wait for anyway (trainer_distribute_job): a request instead of the plan. Who is to measure
 * does so and hands in its costs; everybody then waits for what comes next.
 */
#ifndef PENSTOCK_TRAIN_JOINT_PROFILE_H
#define PENSTOCK_TRAIN_JOINT_PROFILE_H

#include "base/json.h"
#include "comm/processes.h"
#include "plan/cluster.h"

/* At rank 0. Where all devices are of one type it alone measures, and *typed is NULL. Else the profile holds the costs of each
 * type, under the device's name or that with the rank that measured, and *typed is a copy of the cluster whose devices name
 * theirs; their speed is 1, unless they only play the cluster (`emulated`). Each measures within its device's memory.
 * `network_text` is the file of the network, whole where what is measured is for shorter sequences. */
enum ps_status joint_profile_measure(struct processes *processes, const struct ps_network *network, const char *network_text,
                                     const struct ps_profile_options *options, const struct ps_cluster *cluster, bool emulated,
                                     struct ps_profile **profile, struct ps_cluster **typed, struct ps_error *error);

/* Elsewhere: is what rank 0 sends such a request? */
bool joint_profile_requested(const struct json_place *sent);
/* Does what it asks of this process. */
enum ps_status joint_profile_answer(struct processes *processes, const struct json_place *request, struct ps_error *error);

#endif
