/* What the command line puts on standard output: the library's tables and documents, and small JSON documents of its own. */
#ifndef PENSTOCK_CLI_OUTPUT_H
#define PENSTOCK_CLI_OUTPUT_H

#include <penstock.h>

/* What "-" stands for where an option names a file to write. Nothing else is then put on standard output. */
#define OUTPUT_STANDARD "/dev/stdout"
/* Does this file (NULL: none) take standard output? */
bool output_is_taken(const char *path);

/* Puts out a text that the library returned, and frees it; NULL means that memory ran out. */
enum ps_status output_text(char *text, struct ps_error *error);

/* A JSON string, quoted and escaped; a number that reads back as the same double, null where it is not finite; a list of
 * integers. */
void output_json_string(const char *text);
void output_json_number(double number);
void output_json_integers(const int64_t *values, int count);

/* How wide standard output is: the terminal's columns, 100 where it is none. May it be coloured: a terminal that can, and no
 * NO_COLOR. */
int output_columns(void);
bool output_colour(void);

/* Makes file descriptors 0 to 2 exist, so that no file that is opened later is taken for standard output, and makes writing to
 * a closed pipe an error instead of a signal. */
void output_prepare(void);
/* Has all of standard output really been written? PS_IO if not. */
enum ps_status output_finish(struct ps_error *error);

#endif
