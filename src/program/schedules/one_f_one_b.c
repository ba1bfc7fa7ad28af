/*
 * 1F1B with flush (DAPPLE, Fan et al. 2021; BaPipe's 1F1B-SNO): stage p of P runs P-1-p forwards ahead, then a forward and a
 * backward in turn, and drains at the end of each mini-batch. GPipe's bubble with at most P-p stashes.
 */
#include "program/schedules/straight.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int part = straight_part(programs, worker);
    for (int batch = 0; part != NO_PART && batch < programs->batches; batch++) {
        int m = programs_share(programs, part, batch), ahead = straight_ahead(programs, programs->parts[part].stage);
        TRY(straight_one_forward_one_backward(programs, part, program, batch * m, m, ahead, error));
    }
    return PS_OK;
}

const struct schedule schedule_1f1b = {
    .name = "1f1b",
    .summary = "one forward, one backward in turn, drained at each update (DAPPLE, 1F1B-SNO)",
    .flush = true,
    .replicas = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
