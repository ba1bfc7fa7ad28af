/* The passes in their order. */
#include <stdlib.h>

#include "program/lower.h"

extern const struct pass pass_schedule, pass_updates, pass_weight_transfer, pass_weights, pass_recompute, pass_communicate,
    pass_wire, pass_allocate;

const struct pass *const pass_table[] = {
    &pass_schedule,    &pass_updates, &pass_weight_transfer, &pass_weights, &pass_recompute,
    &pass_communicate, &pass_wire,    &pass_allocate,        NULL,
};

enum ps_status pass_rewrite(struct ps_programs *programs,
                            enum ps_status (*visit)(void *context, const struct ps_programs *programs, int worker, int index,
                                                    struct program *out, struct ps_error *error),
                            void *context, struct ps_error *error) {
    for (int worker = 0; worker < programs->workers; worker++) {
        struct program out = {0};
        for (int i = 0; i < programs->worker[worker].count; i++) {
            enum ps_status status = visit(context, programs, worker, i, &out, error);
            if (status != PS_OK) {
                free(out.code);
                return status;
            }
        }
        free(programs->worker[worker].code);
        programs->worker[worker] = out;
    }
    return PS_OK;
}
