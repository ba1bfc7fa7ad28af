/*
 * The groups of MadPipe's 1F1B* (section 4.1): how many micro-batches each stage must hold for a period to be kept.
 *
 * Stages and the transfers between them are resources in a row. From the last one backwards, resources join a group as long as
 * their time in all is at most the period; then the next group begins. A stage of the g-th group holds g micro-batches.
 */
#ifndef PENSTOCK_PLAN_GROUPS_H
#define PENSTOCK_PLAN_GROUPS_H

/* The least period of stages that compute for stage_s[] (stages of them), with transfers, both ways together, of transfer_s[]
 * (one fewer). */
double groups_period_s(int stages, const double *stage_s, const double *transfer_s);
/* Fills in_flight[stages] for a period of at least groups_period_s. */
void groups_find(int stages, const double *stage_s, const double *transfer_s, double period_s, int *in_flight);

#endif
