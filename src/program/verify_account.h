/*
 * The account that the verifier keeps while programs run: what each weight slot and block holds, how far each instance is, and
 * which ends of transfers wait for their other end.
 */
#ifndef PENSTOCK_PROGRAM_VERIFY_ACCOUNT_H
#define PENSTOCK_PROGRAM_VERIFY_ACCOUNT_H

#include "program/interpreter.h"
#include "program/lower.h"
#include "program/routes.h"

enum { ACCOUNT_EMPTY = -1 };

struct weight_content {
    int version, ahead; /* version ACCOUNT_EMPTY: nothing */
    bool travels;
};

struct block_content {
    int micro_batch; /* that it holds, or will hold once it has arrived; ACCOUNT_EMPTY */
    bool travels;
};

/* The ends of transfers on one route that wait for their other end; all sends or all receives. */
struct channel {
    const struct instruction **waiting; /* a micro-batch is sent once at most, so there is room for all */
    int first, count, capacity;
};

struct instance_account {
    struct weight_content *weights;
    struct block_content *blocks[BLOCK_KINDS];
    bool *forward;        /* by micro-batch: done */
    int newest;           /* updates done */
    int backwards;        /* done */
    int gradients;        /* backwards since the last update */
    bool summing, summed; /* those of the next update: offered to the other replicas, added up */
};

struct account {
    const struct ps_programs *programs;
    const struct weight_policy *policy;
    bool flush;
    struct version_table versions;
    struct instance_account *instances;
    struct routes routes;
    struct channel *channels; /* per route */
    int *offered;             /* per group: instances that have offered their gradients */
};

/* Counts the versions and begins with the initial weights in every slot 0 and nothing anywhere else. `programs` stay borrowed.
 * After a failure the account is to be freed all the same. */
enum ps_status account_start(const struct ps_programs *programs, struct account *account, struct ps_error *error);
void account_free(struct account *account); /* a zeroed one is fine */

/* The interpreter's environment that keeps the account; its context is the account. An instruction that is wrong fails with
 * PS_BAD_INPUT, the instruction and the reason. */
struct environment account_environment(struct account *account);

#endif
