/* How many files this process has open, also those that leak checkers do not see. */
#ifndef PENSTOCK_TESTS_DESCRIPTORS_H
#define PENSTOCK_TESTS_DESCRIPTORS_H

#include <dirent.h>

#include "support.h"

static inline int open_descriptors(void) {
    int count = 0;
    DIR *entries = opendir("/proc/self/fd");
    assert_non_null(entries);
    while (readdir(entries)) count++;
    closedir(entries);
    return count;
}

#endif
