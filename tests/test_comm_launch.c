/* Which launcher started a process, and as which of how many: by the variables that each sets. */
#include "comm/launch.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 8 };
static const char *const names[VARIABLES] = {"OMPI_COMM_WORLD_RANK",
                                             "OMPI_COMM_WORLD_SIZE",
                                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                                             "SLURM_PROCID",
                                             "SLURM_STEP_NUM_TASKS",
                                             "PMI_RANK",
                                             "PMI_SIZE",
                                             "MPI_LOCALNRANKS"};

/* Sets the variables to `values`, in that order; NULL: unset. */
static struct launch find_with(const char *const values[VARIABLES]) {
    for (int n = 0; n < VARIABLES; n++) {
        if (values[n] != NULL)
            setenv(names[n], values[n], 1);
        else
            unsetenv(names[n]);
    }
    return launch_find();
}

static void test_launchers(void **state) {
    (void)state;
    static const struct {
        const char *values[VARIABLES], *launcher;
        int rank, count, here;
    } cases[] = {
        {{NULL}, NULL, 0, 1, 0},
        {{"2", "7", "3"}, "Open MPI's mpirun", 2, 7, 3},
        {{NULL, NULL, NULL, "2", "5"}, "srun", 2, 5, 0},
        {{NULL, NULL, NULL, NULL, NULL, "1", "4", "2"}, "mpirun", 1, 4, 2},
        /* The first that is complete. */
        {{"2", "7", NULL, "3", "5", "1", "4"}, "Open MPI's mpirun", 2, 7, 0},
        {{"2", NULL, NULL, "3", "5", "1", "4", "2"}, "srun", 3, 5, 0},
        /* No numbers, none that fit together. */
        {{"x", "7", NULL, "-1", "5", "1x", "4"}, NULL, 0, 1, 0},
        {{"7", "7", NULL, "5", "2", "4", "0"}, NULL, 0, 1, 0},
        {{NULL, NULL, NULL, NULL, NULL, "0", "99999999999"}, NULL, 0, 1, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct launch found = find_with(cases[c].values);
        if (cases[c].launcher == NULL) assert_null(found.launcher);
        if (cases[c].launcher != NULL) assert_string_equal(found.launcher, cases[c].launcher);
        assert_int_equal(found.rank, cases[c].rank);
        assert_int_equal(found.count, cases[c].count);
        assert_int_equal(found.here, cases[c].here);
    }
}

/* Who starts several processes by srun is told of its kinds of MPI. */
static void test_advice(void **state) {
    (void)state;
    find_with((const char *const[VARIABLES]){NULL, NULL, NULL, "0", "2"});
    assert_true(launch_by_srun());
    assert_non_null(strstr(launch_advice(), "srun --mpi=pmix"));
    find_with((const char *const[VARIABLES]){NULL, NULL, NULL, "0", "1"});
    assert_false(launch_by_srun());
    find_with((const char *const[VARIABLES]){"0", "2"});
    assert_false(launch_by_srun());
    assert_non_null(strstr(launch_advice(), "start it with the mpirun"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launchers), cmocka_unit_test(test_advice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
