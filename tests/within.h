/* Numbers that are as wanted but for a tolerance. cmocka's assert_float_equal takes what is not a number, or is infinite, for
 * equal to anything, and compares in single precision. */
#ifndef PENSTOCK_TESTS_WITHIN_H
#define PENSTOCK_TESTS_WITHIN_H

#include <math.h>

#include "support.h"

#define assert_within(got, wanted, tolerance)                                                                                  \
    test_assert_within((double)(got), (double)(wanted), (double)(tolerance), __FILE__, __LINE__)

static inline void test_assert_within(double got, double wanted, double tolerance, const char *file, int line) {
    if (fabs(got - wanted) <= tolerance) return;
    print_error("%.12g is not %.12g within %.3g\n", got, wanted, tolerance);
    _fail(file, line);
}

#endif
