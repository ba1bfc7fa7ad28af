/*
 * Assigns slot numbers to blocks, as a compiler assigns registers: the lowest that is free.
 *
 * In a split stage the instance that runs the forwards keeps stash and input until the next ones have been sent. The instance
 * that runs the backwards has them from their receive on.
 *
 *   input            from the receive (first stage: from the forward, which fills it with data) to the backward
 *   stash            from the forward to the backward; with recomputation during the forward, and from R to the backward
 *   delta            from the backward of the input to that of the weights; if these are two instructions, input and stash,
 * too, are kept until the latter output           from the forward until the next one has been sent: two, so that sending
 * overlaps with computation; during R, which needs a block for what it computes output gradient  from the receive to the
 * backward input gradient   from the backward until the next one has been sent
 *
 * With a codec the output (input gradient) is free once it is encoded, and the input (output gradient) is taken by the
 * decoding; the encoded blocks live as those of a send and a receive.
 *
 * Evaluation frees each block immediately: one of each kind is enough. The same holds for a boundary block if the adjacent
 * stage is on the same worker, where the block is passed on immediately.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "program/lower.h"

struct block_pool {
    int *holder; /* by slot: the micro-batch it holds, -1: free */
    int used;
    size_t capacity;
    int full; /* all slots before this one are in use */
    int last; /* the slot that was looked up last: blocks are mostly requested in order */
    int sent; /* the slot whose transfer was started last, or NO_SLOT */
};

struct allocation {
    int instance_count;
    struct block_pool (*pools)[BLOCK_KINDS]; /* by instance */
};

static enum ps_status take(struct block_pool *pool, int micro_batch, struct instruction *instruction, enum block_kind kind,
                           struct ps_error *error) {
    int slot = pool->full;
    while (slot < pool->used && pool->holder[slot] >= 0) slot++;
    TRY(memory_grow(&pool->holder, &pool->capacity, slot + 1, "allocate pass", error));
    if (slot > INT16_MAX)
        return error_set(error, PS_USAGE, "micro-batches: stage %d would hold more than %d blocks at once", instruction->stage,
                         INT16_MAX);
    if (slot == pool->used) pool->used++;
    pool->full = slot + 1;
    pool->holder[slot] = micro_batch;
    instruction->block[kind] = (int16_t)slot;
    return PS_OK;
}

static int find(struct block_pool *pool, int micro_batch) {
    for (int i = 0; i < pool->used; i++) {
        int slot = (pool->last + i) % pool->used;
        if (pool->holder[slot] == micro_batch) return pool->last = slot;
    }
    return NO_SLOT;
}

static void use(struct block_pool *pool, struct instruction *instruction, enum block_kind kind) {
    instruction->block[kind] = (int16_t)find(pool, instruction->micro_batch);
}

static void drop(struct block_pool *pool, int slot) {
    if (slot == NO_SLOT) return;
    pool->holder[slot] = -1;
    if (slot < pool->full) pool->full = slot;
}

/* The block being sent stays in use until the next is sent; in evaluation it is freed immediately. */
static void sent(struct block_pool *pool, int slot, bool at_once) {
    drop(pool, pool->sent);
    pool->sent = slot;
    if (at_once) {
        drop(pool, slot);
        pool->sent = NO_SLOT;
    }
}

static enum ps_status forward(const struct ps_programs *programs, struct block_pool pools[BLOCK_KINDS],
                              struct instruction *instruction, struct ps_error *error) {
    int stage = instruction->stage, k = instruction->micro_batch;
    if (stage == 0) TRY(take(&pools[BLOCK_INPUT], k, instruction, BLOCK_INPUT, error));
    use(&pools[BLOCK_INPUT], instruction, BLOCK_INPUT);
    TRY(take(&pools[BLOCK_STASH], k, instruction, BLOCK_STASH, error));
    if (stage < programs->stages - 1) TRY(take(&pools[BLOCK_OUTPUT], k, instruction, BLOCK_OUTPUT, error));
    if (programs->recompute[stage] || programs->evaluation) drop(&pools[BLOCK_STASH], instruction->block[BLOCK_STASH]);
    if (programs->evaluation) drop(&pools[BLOCK_INPUT], instruction->block[BLOCK_INPUT]);
    return PS_OK;
}

static void consume(struct block_pool pools[BLOCK_KINDS], struct instruction *instruction, enum block_kind kind) {
    use(&pools[kind], instruction, kind);
    drop(&pools[kind], instruction->block[kind]);
}

/* B, or one of its halves. */
static enum ps_status backward(const struct ps_programs *programs, struct block_pool pools[BLOCK_KINDS],
                               struct instruction *instruction, struct ps_error *error) {
    int stage = instruction->stage, k = instruction->micro_batch;
    if (instruction->op == OP_I) {
        use(&pools[BLOCK_STASH], instruction, BLOCK_STASH);
        use(&pools[BLOCK_INPUT], instruction, BLOCK_INPUT);
        TRY(take(&pools[BLOCK_DELTA], k, instruction, BLOCK_DELTA, error));
    } else {
        consume(pools, instruction, BLOCK_STASH);
        consume(pools, instruction, BLOCK_INPUT);
    }
    if (instruction->op == OP_W) consume(pools, instruction, BLOCK_DELTA);
    if (!instruction_takes_gradient(instruction)) return PS_OK;
    if (stage < programs->stages - 1) consume(pools, instruction, BLOCK_OUTPUT_GRADIENT);
    if (stage > 0) TRY(take(&pools[BLOCK_INPUT_GRADIENT], k, instruction, BLOCK_INPUT_GRADIENT, error));
    return PS_OK;
}

/* The input is sent with the stash, or alone if the stash is recomputed. */
static enum ps_status move_stash(const struct ps_programs *programs, struct block_pool pools[BLOCK_KINDS],
                                 struct instruction *instruction, struct ps_error *error) {
    static const enum block_kind moved[] = {BLOCK_STASH, BLOCK_INPUT};
    for (int i = programs->recompute[instruction->stage]; i < 2; i++) {
        struct block_pool *pool = &pools[moved[i]];
        if (instruction->op == OP_RS) {
            TRY(take(pool, instruction->micro_batch, instruction, moved[i], error));
            continue;
        }
        use(pool, instruction, moved[i]);
        sent(pool, instruction->block[moved[i]], false);
    }
    return PS_OK;
}

/* What a send or a receive transfers: the block at the stage's boundary, or the same encoded. */
static enum block_kind block_at_wire(const struct ps_programs *programs, int worker, const struct instruction *instruction) {
    const char *operands = opcode_table[instruction->op].operands;
    const bool encoded = programs_wire(programs, worker, instruction)->codec != WIRE_NONE;
    return operand_block(operands[encoded ? 2 : 1]);
}

enum ps_status allocation_next(struct allocation *allocation, const struct ps_programs *programs, int worker,
                               struct instruction *instruction, struct ps_error *error) {
    struct block_pool *pools = allocation->pools[programs_instance(programs, worker, instruction->stage)];
    int k = instruction->micro_batch;
    enum block_kind kind;
    switch ((enum opcode)instruction->op) {
    case OP_F:
        TRY(forward(programs, pools, instruction, error));
        break;
    case OP_B:
    case OP_I:
    case OP_W:
        TRY(backward(programs, pools, instruction, error));
        break;
    case OP_R:
        use(&pools[BLOCK_INPUT], instruction, BLOCK_INPUT);
        TRY(take(&pools[BLOCK_STASH], k, instruction, BLOCK_STASH, error));
        if (instruction->stage == programs->stages - 1) break;
        TRY(take(&pools[BLOCK_OUTPUT], k, instruction, BLOCK_OUTPUT, error));
        drop(&pools[BLOCK_OUTPUT], instruction->block[BLOCK_OUTPUT]);
        break;
    case OP_RA:
    case OP_RG:
        kind = block_at_wire(programs, worker, instruction);
        TRY(take(&pools[kind], k, instruction, kind, error));
        break;
    case OP_SA:
    case OP_SG:
        kind = block_at_wire(programs, worker, instruction);
        use(&pools[kind], instruction, kind);
        sent(&pools[kind], instruction->block[kind], programs->evaluation || instruction->peer == worker);
        break;
    case OP_EA:
        consume(pools, instruction, BLOCK_OUTPUT);
        TRY(take(&pools[BLOCK_WIRE + WIRE_ACTIVATION_SENT], k, instruction, BLOCK_WIRE + WIRE_ACTIVATION_SENT, error));
        break;
    case OP_EG:
        consume(pools, instruction, BLOCK_INPUT_GRADIENT);
        TRY(take(&pools[BLOCK_WIRE + WIRE_GRADIENT_SENT], k, instruction, BLOCK_WIRE + WIRE_GRADIENT_SENT, error));
        break;
    case OP_DA:
        consume(pools, instruction, BLOCK_WIRE + WIRE_ACTIVATION_RECEIVED);
        TRY(take(&pools[BLOCK_INPUT], k, instruction, BLOCK_INPUT, error));
        break;
    case OP_DG:
        consume(pools, instruction, BLOCK_WIRE + WIRE_GRADIENT_RECEIVED);
        TRY(take(&pools[BLOCK_OUTPUT_GRADIENT], k, instruction, BLOCK_OUTPUT_GRADIENT, error));
        break;
    case OP_SS:
    case OP_RS:
        TRY(move_stash(programs, pools, instruction, error));
        break;
    case OP_U:
    case OP_AR:
    case OP_ES:
    case OP_P:
    case OP_SW:
    case OP_RW:
    case OPCODE_COUNT:
        break;
    }
    return PS_OK;
}

enum ps_status allocation_create(const struct ps_programs *programs, struct allocation **out, struct ps_error *error) {
    size_t instances = (size_t)programs->instance_count;
    struct allocation *allocation;
    TRY(memory_new(&allocation, 1, "slot numbers", error));
    enum ps_status status = memory_new(&allocation->pools, instances, "slot numbers", error);
    if (status != PS_OK) {
        free(allocation);
        return status;
    }
    allocation->instance_count = programs->instance_count;
    for (int instance = 0; instance < programs->instance_count; instance++)
        for (int kind = 0; kind < BLOCK_KINDS; kind++) allocation->pools[instance][kind].sent = NO_SLOT;
    *out = allocation;
    return PS_OK;
}

void allocation_destroy(struct allocation *allocation) {
    if (!allocation) return;
    for (int instance = 0; instance < allocation->instance_count; instance++)
        for (int kind = 0; kind < BLOCK_KINDS; kind++) free(allocation->pools[instance][kind].holder);
    free(allocation->pools);
    free(allocation);
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    struct instruction instruction = programs->worker[worker].code[index];
    TRY(allocation_next(context, programs, worker, &instruction, error));
    return program_append(out, &instruction, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    struct allocation *allocation;
    TRY(allocation_create(programs, &allocation, error));
    enum ps_status status = pass_rewrite(programs, visit, allocation, error);
    for (int instance = 0; instance < programs->instance_count; instance++) {
        struct stage_slots *slots = &programs->slots[instance];
        const struct block_pool *pools = allocation->pools[instance];
        slots->forward_only = !programs->instances[instance].backward;
        for (int kind = 0; kind < BLOCK_KINDS; kind++) *stage_slots_place(slots, (enum block_kind)kind) = pools[kind].used;
    }
    allocation_destroy(allocation);
    return status;
}

const struct pass pass_allocate = {.evaluation = true, .run = run};
