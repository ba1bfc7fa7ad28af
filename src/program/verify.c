/*
 * The verifier: proof that programs are right, before the first batch.
 *
 * First each instruction alone (verify_static.c). Then all programs together, run through the interpreter in an environment
 * that keeps account instead of computing (verify_account.h): what each weight slot and block holds. A transfer takes place
 * only when both ends have come (rendezvous), so a program that passes cannot deadlock however little a transport buffers: the
 * programs are a deterministic network of processes, whose progress does not depend on the order of steps. At the end nothing
 * may be missing.
 */
#include "program/verify.h"

#include <stdio.h>
#include <stdlib.h>

#include "program/verify_account.h"
#include "program/verify_static.h"

static enum ps_status deadlock(const struct ps_programs *programs, const struct interpreter *interpreters,
                               struct ps_error *error) {
    char list[800] = "", text[96];
    size_t length = 0;
    for (int worker = 0; worker < programs->workers && length < sizeof list; worker++) {
        const struct interpreter *at = &interpreters[worker];
        if (at->next == at->program->count) continue;
        int written = snprintf(list + length, sizeof list - length, "%sworker %d waits at %s", length ? "; " : "", worker,
                               instruction_text(&at->program->code[at->next], text));
        length += (size_t)written;
    }
    return error_set(error, PS_BAD_INPUT, "deadlock: %s", list);
}

/* Steps all workers in turn until all are finished. */
static enum ps_status run_all(struct account *account, struct interpreter *interpreters, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    struct environment environment = account_environment(account);
    for (int worker = 0; worker < programs->workers; worker++)
        interpreter_start(&interpreters[worker], &programs->worker[worker], &environment, worker);
    for (;;) {
        bool moved = false, finished = true;
        for (int worker = 0; worker < programs->workers; worker++) {
            enum step step = interpreter_step(&interpreters[worker], error);
            for (; step == STEP_DONE; step = interpreter_step(&interpreters[worker], error)) moved = true;
            if (step == STEP_FAILED) return error ? error->status : PS_BAD_INPUT;
            if (step == STEP_WAITING) finished = false;
        }
        if (finished) return PS_OK;
        if (!moved) return deadlock(programs, interpreters, error);
    }
}

/* An instruction that there should be. */
static enum ps_status missing(const struct ps_programs *programs, int instance, enum opcode op, int micro_batch,
                              const char *reason, struct ps_error *error) {
    return error_set(error, PS_BAD_INPUT, "worker %d: %d%s%d is missing: %s", programs->instances[instance].worker,
                     programs->instances[instance].stage, opcode_table[op].text, micro_batch, reason);
}

static enum ps_status check_forwards(const struct account *account, int instance, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    for (int k = 0; programs->instances[instance].forward && k < programs_micro_batches(programs); k++)
        if (programs_takes(programs, instance, k) && !account->instances[instance].forward[k])
            return missing(programs, instance, OP_F, k, "the micro-batch has no forward here", error);
    return PS_OK;
}

static enum ps_status check_updates(const struct account *account, int number, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    const struct instance_account *instance = &account->instances[number];
    int s = programs->instances[number].stage, worker = programs->instances[number].worker,
        updates = programs_updates(programs, s);
    if (programs->evaluation) return PS_OK;
    if (programs->instances[number].backward && instance->newest != updates)
        return missing(programs, number, OP_U, instance->newest, "the stage makes fewer updates than it has mini-batches",
                       error);
    for (int slot = 0; slot < programs->slots[number].delta; slot++)
        if (instance->blocks[BLOCK_DELTA][slot].micro_batch != ACCOUNT_EMPTY)
            return missing(programs, number, OP_W, instance->blocks[BLOCK_DELTA][slot].micro_batch,
                           "the gradient of the weights is never made", error);
    bool handed = programs->instances[number].forward && !programs->instances[number].backward;
    if (handed && (instance->weights[0].version != updates || instance->weights[0].ahead != 0))
        return error_set(error, PS_BAD_INPUT, "stage %d: worker %d does not end with the newest weights: %dRW%d is missing", s,
                         worker, s, programs_micro_batches(programs));
    return PS_OK;
}

static enum ps_status check_complete(const struct account *account, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    for (int instance = 0; instance < programs->instance_count; instance++) {
        TRY(check_forwards(account, instance, error));
        TRY(check_updates(account, instance, error));
    }
    for (int r = 0; r < account->routes.count; r++) {
        const struct channel *channel = &account->channels[r];
        const struct route *route = &account->routes.list[r];
        if (channel->first == channel->count) continue;
        const struct instruction *end = channel->waiting[channel->first];
        bool sends = opcode_table[end->op].action == ACTION_SEND;
        return verify_refuse(end, programs->instances[sends ? route->from : route->to].worker, error,
                             "its transfer has only one end");
    }
    return PS_OK;
}

enum ps_status ps_programs_verify(const struct ps_programs *programs, struct ps_error *error) {
    struct account account = {0};
    TRY(verify_each(programs, error));
    struct interpreter *interpreters = calloc((size_t)programs->workers, sizeof *interpreters);
    enum ps_status status = interpreters ? account_start(programs, &account, error)
                                         : error_memory(error, "verifier", (size_t)programs->workers * sizeof *interpreters);
    if (status == PS_OK) status = run_all(&account, interpreters, error);
    if (status == PS_OK) status = check_complete(&account, error);
    account_free(&account);
    free(interpreters);
    return status;
}

enum ps_status programs_staleness(const struct ps_programs *programs, int stage, int *out, struct ps_error *error) {
    struct version_table versions;
    TRY(version_table_count(programs, &versions, error));
    *out = version_table_staleness(&versions, stage);
    version_table_free(&versions);
    return PS_OK;
}
