/*
 * Chimera (Li and Hoefler, 2021): two pipelines over the same workers in opposite directions. Every stage has two replicas, on
 * worker s and on worker P-1-s, and every worker two stages; even micro-batches go down, odd ones up, and AR keeps the copies
 * equal. When one pipeline waits the other works: P-2 half-slots of bubble in 2 M + P - 2, against GPipe's P-1 in M + P - 1.
 *
 * The order. With forward and backward of one slot each, and the micro-batches of a direction two slots apart, the i-th of a
 * unit of P/2 has on stage s its forward in slot 2 i + s and its backward in slot 2 i + 2 P - 1 - s. On a worker the forwards
 * down and backwards up have slots of one parity, the backwards down and forwards up those of the other, all different. A unit
 * of P micro-batches (both directions) fills 2 P consecutive slots of each worker, so the next unit follows 2 P slots later
 * without a gap (the paper's direct concatenation). If the number of micro-batches is no multiple of P, the missing ones are
 * left out: no worker waits longer for that.
 *
 * An instance holds P/2 micro-batches at most, fewer near the end of its direction: P/2 + 1 to P on a worker.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "program/schedules/orders.h"

struct slotted {
    int slot;
    struct instruction instruction;
};

static int by_slot(const void *a, const void *b) {
    return ((const struct slotted *)a)->slot - ((const struct slotted *)b)->slot;
}

static int worker_of(int stage, int stages, int workers) {
    (void)stages;
    (void)workers;
    return stage;
}

static int replica_worker(int stage, int replica, int stages, int workers) {
    (void)stages;
    return replica == 0 ? stage : workers - 1 - stage;
}

static bool accepts(int stages, int workers) { return stages == workers && stages % 2 == 0; }

static const struct placement both_ways = {.usual = 1,
                                           .worker_of = worker_of,
                                           .accepts = accepts,
                                           .accepted = "an even number of workers and one stage for each",
                                           .replicas = 2,
                                           .replica_worker = replica_worker};

/* The computations of the instance in a mini-batch, with their slots. */
static int list_instance(const struct ps_programs *programs, int instance, int batch, struct slotted *out) {
    int stages = programs->stages, half = stages / 2, stage = programs->instances[instance].stage, count = 0;
    int share = programs_share(programs, instance, batch);
    for (int n = 0; n < share; n++) {
        int k = programs_nth(programs, instance, batch * share + n), base = 2 * (n % half) + 2 * stages * (n / half);
        out[count++] = (struct slotted){base + stage, instruction_make(OP_F, stage, k)};
        out[count++] = (struct slotted){base + 2 * stages - 1 - stage, instruction_make(OP_B, stage, k)};
    }
    return count;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    size_t room = 2 * (size_t)programs->micro_batches;
    struct slotted *list;
    TRY(memory_new(&list, room, "schedule", error));
    enum ps_status status = PS_OK;
    for (int batch = 0; batch < programs->batches; batch++) {
        int count = 0;
        for (int instance = 0; instance < programs->instance_count; instance++)
            if (programs->instances[instance].worker == worker) count += list_instance(programs, instance, batch, list + count);
        qsort(list, (size_t)count, sizeof *list, by_slot);
        for (int i = 0; i < count && status == PS_OK; i++) status = program_append(program, &list[i].instruction, error);
    }
    free(list);
    return status;
}

const struct schedule schedule_chimera = {
    .name = "chimera",
    .summary = "two pipelines in opposite directions, two copies of the weights kept equal (Chimera)",
    .flush = true,
    .placement = &both_ways,
    .micro_batches = straight_micro_batches,
    .write = write,
};
