/*
 * Assigns the weight slot that each computation reads.
 *
 * The policy specifies for each F and B which version it reads and how many updates ahead it is predicted. All else follows
 * from liveness. A version keeps its slot until its last reader. An update overwrites the old version if no later instruction
 * reads it, and takes a free slot otherwise. A prediction is made right before its reader; if an update directly precedes it,
 * the update makes it in the same pass over memory.
 *
 * Weights for a forward on another worker are made in the same way, in slots of their own that are used in turn: two, or with
 * slack one more than that. They are sent from these. Weights that are not predicted are copied, as a prediction by zero
 * updates. The other worker holds one copy. Nothing is sent if the forward reads the same weights as the one before it.
 */
#include <stdlib.h>

#include "base/number.h"
#include "program/lower.h"

/* One instance's weight slots while its program is walked. */
struct instance_weights {
    int newest, newest_slot;
    int *version_slot;        /* by version; NO_SLOT: it has none */
    int *last_reader;         /* by version: position in the program of its last reader, -1: none */
    int *transfer_slot;       /* from which weights are sent, in turn (transfer_slots); NO_SLOT: none yet */
    int transfers;            /* how many were sent */
    struct reading predicted; /* what the prediction slot holds */
    int predicted_slot;
    bool *used; /* by slot */
    int slots;  /* slots used so far */
};

struct weights_pass {
    struct arena arena; /* of its arrays */
    const struct weight_policy *policy;
    bool flush;
    struct version_table versions;
    struct instance_weights *instances; /* by instance */
    int transfer_slots;
};

static struct reading reading_of(const struct weights_pass *pass, const struct ps_programs *programs,
                                 const struct instruction *instruction) {
    bool forward = instruction->op == OP_F || instruction->op == OP_SW || instruction->op == OP_RW;
    if (forward && instruction->micro_batch == programs_micro_batches(programs))
        return (struct reading){.version = programs_updates(programs, instruction->stage)};
    struct reading_context context =
        version_table_context(&pass->versions, programs, instruction->stage, instruction->micro_batch, pass->flush);
    return forward ? pass->policy->forward(&context) : pass->policy->backward(&context);
}

/* Returns true if the weights of this SW or RW differ from those that the forward worker has. */
static bool needed(const struct weights_pass *pass, const struct ps_programs *programs, struct instruction instruction) {
    struct reading required = reading_of(pass, programs, &instruction), has = {0};
    if (instruction.micro_batch-- > 0) has = reading_of(pass, programs, &instruction);
    return required.version != has.version || required.ahead != has.ahead;
}

static int take_slot(struct instance_weights *weights) {
    int slot = 0;
    while (weights->used[slot]) slot++;
    weights->used[slot] = true;
    if (slot >= weights->slots) weights->slots = slot + 1;
    return slot;
}

static void drop_version(struct instance_weights *weights, int version) {
    weights->used[weights->version_slot[version]] = false;
    weights->version_slot[version] = NO_SLOT;
}

static enum ps_status update(struct instance_weights *weights, struct instruction instruction, int index, struct program *out,
                             struct ps_error *error) {
    int version = weights->newest, slot = weights->newest_slot;
    instruction.slot = (int16_t)slot;
    if (weights->last_reader[version] > index) {
        slot = take_slot(weights);
    } else {
        weights->version_slot[version] = NO_SLOT;
    }
    instruction.to = (int16_t)slot;
    weights->newest = version + 1;
    weights->newest_slot = slot;
    weights->version_slot[version + 1] = slot;
    return program_append(out, &instruction, error);
}

/* Fills a slot with `required`; an update right before does so in the same pass over memory. */
static enum ps_status make(struct instance_weights *weights, struct reading required, int slot,
                           const struct instruction *reader, struct program *out, struct ps_error *error) {
    struct instruction *last = out->count > 0 ? &out->code[out->count - 1] : NULL;
    if (last && last->op == OP_U && last->stage == reader->stage && last->predict_to == NO_SLOT &&
        last->to == weights->version_slot[required.version]) {
        last->predict_to = (int16_t)slot;
        last->ahead = (int16_t)required.ahead;
        return PS_OK;
    }
    struct instruction instruction = instruction_make(OP_P, reader->stage, reader->micro_batch);
    instruction.slot = (int16_t)weights->version_slot[required.version];
    instruction.predict_to = (int16_t)slot;
    instruction.ahead = (int16_t)required.ahead;
    return program_append(out, &instruction, error);
}

/* Ensures that the prediction slot holds `required`. */
static enum ps_status predict(struct instance_weights *weights, struct reading required, const struct instruction *reader,
                              struct program *out, struct ps_error *error) {
    if (weights->predicted_slot == NO_SLOT) {
        weights->predicted_slot = take_slot(weights);
    } else if (weights->predicted.version == required.version && weights->predicted.ahead == required.ahead) {
        return PS_OK;
    }
    weights->predicted = required;
    return make(weights, required, weights->predicted_slot, reader, out, error);
}

/* The slot that the instruction reads. The version or prediction in it is made first if necessary. */
static enum ps_status find_slot(const struct weights_pass *pass, struct instance_weights *weights, struct reading reading,
                                const struct instruction *reader, int *slot, struct program *out, struct ps_error *error) {
    if (reader->op == OP_SW) {
        int *slot_in_turn = &weights->transfer_slot[weights->transfers++ % pass->transfer_slots];
        if (*slot_in_turn == NO_SLOT) *slot_in_turn = take_slot(weights);
        *slot = *slot_in_turn;
        return make(weights, reading, *slot, reader, out, error);
    }
    if (reading.ahead > 0) TRY(predict(weights, reading, reader, out, error));
    *slot = reading.ahead > 0 ? weights->predicted_slot : weights->version_slot[reading.version];
    return PS_OK;
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    struct weights_pass *pass = context;
    struct instruction instruction = programs->worker[worker].code[index];
    int instance = programs_instance(programs, worker, instruction.stage), slot = 0;
    struct instance_weights *weights = &pass->instances[instance];
    if (instruction.op == OP_U) return update(weights, instruction, index, out, error);
    if (instruction_is_of_update(&instruction)) return program_append(out, &instruction, error);
    if (instruction_moves_weights(&instruction) && !needed(pass, programs, instruction)) return PS_OK;
    struct reading reading = reading_of(pass, programs, &instruction);
    if (programs->instances[instance].backward) TRY(find_slot(pass, weights, reading, &instruction, &slot, out, error));
    instruction.slot = (int16_t)slot;
    TRY(program_append(out, &instruction, error));
    bool last = programs->instances[instance].backward && weights->last_reader[reading.version] == index;
    if (last && reading.version != weights->newest) drop_version(weights, reading.version);
    return PS_OK;
}

/* The number of updates before the instruction. */
static int newest_of(const struct weights_pass *pass, const struct ps_programs *programs,
                     const struct instruction *instruction) {
    if (instruction->micro_batch == programs_micro_batches(programs)) return programs_updates(programs, instruction->stage);
    struct reading_context now =
        version_table_context(&pass->versions, programs, instruction->stage, instruction->micro_batch, pass->flush);
    return instruction->op == OP_F || instruction->op == OP_SW ? now.forward_version : now.backward_version;
}

/* Finds the last reader of each version, and checks that nothing reads a version before it is made. */
static enum ps_status find_readers(struct weights_pass *pass, const struct ps_programs *programs, struct ps_error *error) {
    for (int worker = 0; worker < programs->workers; worker++) {
        const struct program *program = &programs->worker[worker];
        for (int i = 0; i < program->count; i++) {
            const struct instruction *instruction = &program->code[i];
            int instance = programs_instance(programs, worker, instruction->stage);
            if (instruction_is_of_update(instruction) || !programs->instances[instance].backward) continue;
            if (instruction->op == OP_SW && !needed(pass, programs, *instruction)) continue;
            struct reading reading = reading_of(pass, programs, instruction);
            int newest = newest_of(pass, programs, instruction);
            char text[96];
            if (reading.version < 0 || reading.version > newest || reading.ahead < 0)
                return error_set(error, PS_USAGE,
                                 "weights %s: %s would read version %d when only %d updates are done: use more micro-batches%s",
                                 programs->policy->name, instruction_text(instruction, text), reading.version, newest,
                                 programs->slack > 0 ? " or less slack" : "");
            pass->instances[instance].last_reader[reading.version] = i;
        }
    }
    return PS_OK;
}

static enum ps_status weights_start(struct weights_pass *pass, const struct ps_programs *programs, struct ps_error *error) {
    pass->transfer_slots = 1 + number_larger_int(1, programs->slack);
    size_t versions = (size_t)programs->batches + 1, transfers = (size_t)pass->transfer_slots, slots = versions + 1 + transfers;
    struct arena *arena = &pass->arena;
    pass->instances = arena_take(arena, (size_t)programs->instance_count, sizeof *pass->instances);
    for (int instance = 0; pass->instances && instance < programs->instance_count; instance++) {
        struct instance_weights *weights = &pass->instances[instance];
        weights->version_slot = arena_take(arena, versions, sizeof *weights->version_slot);
        weights->last_reader = arena_take(arena, versions, sizeof *weights->last_reader);
        weights->used = arena_take(arena, slots, sizeof *weights->used);
        weights->transfer_slot = arena_take(arena, transfers, sizeof *weights->transfer_slot);
    }
    TRY(arena_check(arena, "weights pass", error));
    for (int instance = 0; instance < programs->instance_count; instance++) {
        struct instance_weights *weights = &pass->instances[instance];
        for (size_t version = 0; version < versions; version++) {
            weights->version_slot[version] = NO_SLOT;
            weights->last_reader[version] = -1;
        }
        for (size_t t = 0; t < transfers; t++) weights->transfer_slot[t] = NO_SLOT;
        weights->predicted_slot = NO_SLOT;
        weights->newest_slot = weights->version_slot[0] = take_slot(weights);
    }
    TRY(version_table_count(programs, &pass->versions, error));
    return find_readers(pass, programs, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    struct weights_pass pass = {.policy = programs->policy, .flush = programs->schedule->flush};
    enum ps_status status = weights_start(&pass, programs, error);
    if (status == PS_OK) status = pass_rewrite(programs, visit, &pass, error);
    for (int instance = 0; status == PS_OK && instance < programs->instance_count; instance++)
        programs->slots[instance].weights = pass.instances[instance].slots;
    version_table_free(&pass.versions);
    arena_release(&pass.arena);
    return status;
}

const struct pass pass_weights = {.run = run};
