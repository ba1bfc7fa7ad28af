/*
 * What a comparison keeps in a directory, so that it can go on after it was killed:
 *
 *     comparison.json    what is compared (penstock-comparison); another comparison is refused
 *     rows/NAME/         a row: row.json (penstock-row), or the run directory of a training
 *
 * A row whose result is written is not made again. The directory is locked while a process compares in it.
 */
#ifndef PENSTOCK_SEARCH_COMPARE_STORE_H
#define PENSTOCK_SEARCH_COMPARE_STORE_H

#include "search/compare.h"

/* Makes the directory, or takes the one that is there, and locks it: *lock is to be closed (compare_store_close). Consumes
 * `question`. PS_USAGE: another comparison or something else is in it, or another process. */
enum ps_status compare_store_open(const char *directory, json_t *question, int *lock, struct ps_error *error);
void compare_store_close(int lock);
/* What the comparison's directory says of the options that all kinds have. NULL: memory ran out. */
json_t *compare_question(const struct ps_compare_options *lists, const char *kind);

/* Sets the row's directory. */
enum ps_status compare_store_place(const char *directory, int number, struct comparison_row *row, struct ps_error *error);
/* A row that was not trained. *done false: it is not there. */
enum ps_status compare_store_read(struct comparison_row *row, bool *done, struct ps_error *error);
enum ps_status compare_store_write(const struct comparison_row *row, struct ps_error *error);

#endif
