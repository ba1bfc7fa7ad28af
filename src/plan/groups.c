/* Groups of 1F1B*, from the last stage on. */
#include "plan/groups.h"

/* A sum that exceeds the period by rounding alone has not exceeded it. */
#define ROUNDING (1 + 1e-12)

double groups_period_s(int stages, const double *stage_s, const double *transfer_s) {
    double period_s = 0;
    for (int s = 0; s < stages; s++) {
        if (stage_s[s] > period_s) period_s = stage_s[s];
        if (s + 1 < stages && transfer_s[s] > period_s) period_s = transfer_s[s];
    }
    return period_s;
}

struct group {
    int number;
    double load_s, period_s;
};

static void join(struct group *group, double time_s) {
    if (group->load_s + time_s > group->period_s * ROUNDING) {
        group->number++;
        group->load_s = 0;
    }
    group->load_s += time_s;
}

void groups_find(int stages, const double *stage_s, const double *transfer_s, double period_s, int *in_flight) {
    struct group group = {.number = 1, .period_s = period_s};
    for (int s = stages - 1; s >= 0; s--) {
        if (s + 1 < stages) join(&group, transfer_s[s]);
        join(&group, stage_s[s]);
        in_flight[s] = group.number;
    }
}
