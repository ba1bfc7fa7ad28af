/* All schedules. */
#include "program/lower.h"

extern const struct schedule schedule_naive, schedule_gpipe, schedule_1f1b, schedule_1f1b_async;

const struct schedule *const schedule_table[] = {
    &schedule_naive,
    &schedule_gpipe,
    &schedule_1f1b,
    &schedule_1f1b_async,
    NULL,
};
