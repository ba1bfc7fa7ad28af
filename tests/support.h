/*
 * What tests share. A test passes &test_error where a call wants a struct ps_error, so that assert_ok and assert_status can
 * show the message:
 *
 *     assert_ok(ps_network_open("lenet5", &model, &test_error));
 *     assert_status(ps_network_open("lenet", &model, &test_error), PS_USAGE, "did you mean 'lenet5'");
 */
#ifndef PENSTOCK_TESTS_SUPPORT_H
#define PENSTOCK_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <penstock.h>

#include "base/random.h"

/* cmocka's take what is not a number for equal to anything; within.h has one that does not. */
#undef assert_float_equal
#undef assert_float_not_equal
#undef assert_double_equal
#undef assert_double_not_equal

extern struct ps_error test_error;

/* Both also check that no message is left in the way of the next call. */
#define assert_ok(call) test_assert_ok((call), #call, __FILE__, __LINE__)
/* The call fails with `wanted`, and `part` stands in its message and, behind a newline, its hint. */
#define assert_status(call, wanted, part) test_assert_status((call), (wanted), (part), #call, __FILE__, __LINE__)

void test_assert_ok(enum ps_status status, const char *call, const char *file, int line);
void test_assert_status(enum ps_status status, enum ps_status wanted, const char *part, const char *call, const char *file,
                        int line);

/* The seed of randomised tests: PENSTOCK_TEST_SEED, or 1. Printed at the first use. */
uint64_t test_seed(void);
/* A key for a randomised test; `number` tells its streams apart. */
struct random_key test_key(uint64_t number);

/* Under valgrind or an emulated processor, where everything takes 20 to 90 times as long: tests then take smaller sizes. */
bool test_slow(void);
/* Under valgrind, which lacks some of what processors have. */
bool test_valgrind(void);
/* Whether case `number` of many alike is run: each; where all is slow one in `share`, the first among them. */
bool test_takes(size_t number, size_t share);

/* Makes an empty temporary directory, named in `path`; the second removes it with all that it holds. */
void test_directory_make(char path[4096]);
void test_directory_remove(const char *path);
/* One such directory for all tests of a program, as set-up and tear-down of its group. */
extern char test_directory[4096];
int test_directory_set_up(void **state);
int test_directory_tear_down(void **state);
/* Writes a file, whatever it takes. */
void test_file_write(const char *path, const void *data, size_t size);
/* Compares what is now written with a file that was looked at by eye; with PENSTOCK_REGENERATE=1 writes it anew first. Takes
 * `text`. */
void test_golden(const char *path, char *text);
/* The same of what the file begins with, for tests that make less of it where they are slow. */
void test_golden_begins(const char *path, char *text);

/* "$PENSTOCK_DATA/NAME" in `path`, or a skipped test where the variable is not set or there is no such file. */
const char *test_data(const char *name, char path[4096]);

/* The device that a run of the test takes for the one of that name: this one or, where the environment has PENSTOCK_TEST_FAR,
 * the far device with the kernels of this one. Holds for the next device that is opened, and those after it. */
const char *test_device(const char *name);

#endif
