/* All schedules. */
#include "program/lower.h"

extern const struct schedule schedule_naive, schedule_gpipe, schedule_1f1b, schedule_1f1b_async, schedule_1f1b_so,
    schedule_1f1b_as, schedule_fbp_as, schedule_interleaved, schedule_hanayo, schedule_chimera, schedule_zb_h1, schedule_zb_h2,
    schedule_zb_v, schedule_1f1b_star, schedule_pattern;

const struct schedule *const schedule_table[] = {
    &schedule_naive,   &schedule_gpipe,     &schedule_1f1b,    &schedule_1f1b_async,
    &schedule_1f1b_so, &schedule_1f1b_as,   &schedule_fbp_as,  &schedule_interleaved,
    &schedule_hanayo,  &schedule_chimera,   &schedule_zb_h1,   &schedule_zb_h2,
    &schedule_zb_v,    &schedule_1f1b_star, &schedule_pattern, NULL,
};
