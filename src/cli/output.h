/* Standard output of the command line: the library's tables and documents, and small JSON documents. */
#ifndef PENSTOCK_CLI_OUTPUT_H
#define PENSTOCK_CLI_OUTPUT_H

#include <penstock.h>

/* The path for "-" as a file to write. Nothing else is then written to standard output. */
#define OUTPUT_STANDARD "/dev/stdout"
/* Whether this file (NULL: none) is standard output. */
bool output_is_taken(const char *path);

/* Prints a text that the library returned, and frees it; NULL means that memory ran out. */
enum ps_status output_text(char *text, struct ps_error *error);

/* Print a JSON string, quoted and escaped; a number that reads back as the same double, or null if it is not finite; an array
 * of integers. */
void output_json_string(const char *text);
void output_json_number(double number);
void output_json_integers(const int64_t *values, int count);

/* The width of standard output: the terminal's columns, or 100. Whether it may be coloured: a terminal with colours, and
 * NO_COLOR is not set. */
int output_columns(void);
bool output_colour(void);

/* Opens file descriptors 0 to 2 if they are closed, so that no file that is opened later becomes standard output, and makes
 * writing to a closed pipe, or beyond a limit of files' sizes, an error instead of a signal. */
void output_prepare(void);
/* Flushes standard output; PS_IO if not all of it could be written, unless a pipe's reader wanted no more. */
enum ps_status output_finish(struct ps_error *error);

#endif
