/*
 * The simplest periodic schedule of given stages: each worker and each link does its operations back to back, in the order of a
 * batch's way, beginning when the first of them can; what is ready earlier waits for its place in the period. Where neither
 * memory nor a wait is in the way this has every period in which the loads fit.
 */
#include "plan/planners/madpipe_schedule.h"

static bool computes(const struct periodic_operation *operation) { return operation->kind <= PERIODIC_BACKWARD; }

/* Where in the period operation o begins: when the one before it on its resource has ended. */
static int64_t place_of(const struct periodic_operation *operations, const int *resource, int o, int64_t ready) {
    for (int before = o - 1; before >= 0; before--)
        if (operations[before].length_ns > 0 && resource[before] == resource[o] &&
            computes(&operations[before]) == computes(&operations[o]))
            return operations[before].start_ns + operations[before].length_ns;
    return ready;
}

/* A transfer that what follows does not wait for can as well start later. */
static void put_off(struct periodic_operation *operations, int count, int64_t period) {
    for (int o = 1; o + 1 < count; o++)
        if (!computes(&operations[o]) && operations[o + 1].start_ns - operations[o].start_ns > period)
            operations[o].start_ns = operations[o + 1].start_ns - operations[o].length_ns;
}

/* A transfer starts within a period before what waits for it, and has gone two periods after what made it began. */
static bool waits_hold(const struct periodic_operation *operations, int count, int64_t period) {
    for (int o = 1; o + 1 < count; o++) {
        const struct periodic_operation *transfer = &operations[o];
        if (computes(transfer)) continue;
        if (operations[o + 1].start_ns - transfer->start_ns > period) return false;
        if (transfer->start_ns + transfer->length_ns - operations[o - 1].start_ns > 2 * period) return false;
    }
    return true;
}

bool madpipe_pack(const struct madpipe *data, const struct madpipe_stage *stages, int stage_count, int64_t period_ns,
                  struct periodic_operation *operations, const int *resource, int count) {
    int64_t ready = 0;
    for (int o = 0; o < count; o++) {
        int64_t place = operations[o].length_ns > 0 ? place_of(operations, resource, o, ready) : ready;
        int64_t late = (ready - place) % period_ns;
        operations[o].start_ns = ready + (late > 0 ? period_ns - late : -late);
        ready = operations[o].start_ns + operations[o].length_ns;
    }
    put_off(operations, count, period_ns);
    return waits_hold(operations, count, period_ns) &&
           madpipe_schedule_valid(data, stages, stage_count, period_ns, operations, count);
}
