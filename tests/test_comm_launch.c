/* Which launcher started a process, and as which of how many: by the variables that each sets; which transport fits; and what a
 * program learns of it. */
#include "comm/launch.h"
#include "comm/transport.h"
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
        {{NULL, NULL, NULL, NULL, NULL, "0", "16777216"}, NULL, 0, 1, 0},
        {{NULL, NULL, NULL, "+1", "2", " 1", "4"}, NULL, 0, 1, 0},
        {{"", "7", NULL, "1", "", ":", "4"}, NULL, 0, 1, 0},
        /* The least and the most. */
        {{NULL, NULL, NULL, NULL, NULL, "16777214", "16777215", "1"}, "mpirun", 16777214, 16777215, 1},
        {{"0", "1", "0"}, "Open MPI's mpirun", 0, 1, 0},
        {{"09", "10", "x"}, "Open MPI's mpirun", 9, 10, 0},
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
    assert_string_equal(launch_advice(), "start it with the mpirun of the MPI library that it was built with");
}

/* Alone a process takes the first transport of one process, as one of several the first of several. */
static void test_transports(void **state) {
    (void)state;
    const struct transport_class *first[2] = {NULL}, *found;
    for (int t = 0; transport_table[t]; t++) {
        const bool several = transport_table[t]->processes != NULL;
        if (!first[several]) first[several] = transport_table[t];
    }
    find_with((const char *const[VARIABLES]){NULL});
    assert_ok(transport_find(NULL, &found, &test_error));
    assert_ptr_equal(found, first[0]);
    find_with((const char *const[VARIABLES]){"0", "1"});
    assert_ok(transport_find(NULL, &found, &test_error));
    assert_ptr_equal(found, first[0]);
    find_with((const char *const[VARIABLES]){"1", "2"});
    if (first[1]) {
        assert_ok(transport_find(NULL, &found, &test_error));
        assert_ptr_equal(found, first[1]);
    } else {
        assert_status(transport_find(NULL, &found, &test_error), PS_USAGE,
                      "Open MPI's mpirun started 2 processes, but this program was built without MPI");
        assert_status(transport_find("mpi", &found, &test_error), PS_USAGE, "`transport`: this program was built without MPI");
    }
    /* A name is taken however the process was started. */
    assert_ok(transport_find("threads", &found, &test_error));
    assert_string_equal(found->name, "threads");
    assert_status(transport_find("mpj", &found, &test_error), PS_USAGE, "`transport`");
}

/* Messages of the launcher's system, none of which was sent: as many pieces as there may be, or none. */
static void test_messages(void **state) {
    (void)state;
    for (int t = 0; transport_table[t]; t++) {
        const struct processes_class *class = transport_table[t]->processes;
        static const size_t sizes[] = {0, 1, 1 << 20, (1 << 20) + 1, 40 << 20};
        for (size_t s = 0; class && s < sizeof sizes / sizeof *sizes; s++) {
            struct message *message;
            assert_ok(class->message_create(sizes[s], &message, &test_error));
            assert_true(class->message_done(message));
            class->message_destroy(message);
        }
        if (class) class->message_destroy(NULL);
    }
}

/* In a process of its own, which is the only one of its run: what it sends to itself comes, in pieces, whole. Those that are
 * started first wait for their other end. */
static int send_to_itself(const struct processes_class *class) {
    enum { PIECE = 1 << 20, MOST = 3 * PIECE + 77, SIZES = 7 };
    static const size_t sizes[SIZES] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, MOST};
    static char sent[SIZES][MOST + 1], got[SIZES][MOST + 1];
    struct message *out[SIZES], *in[SIZES];
    int rank = -1, count = 0, leader = -1;
    bool same = false;
    struct ps_error error;
    alarm(100);
    if (class->start(7, &rank, &count, &leader, &same, &error) != PS_OK) return 77;
    if (rank != 0 || count != 1 || leader != 0 || !same) return 1;
    class->bootstrap(&count, sizeof count);
    if (count != 1) return 2;
    for (int s = 0; s < SIZES; s++) {
        memset(got[s], 9, sizeof got[s]);
        for (size_t i = 0; i < sizeof sent[s]; i++) sent[s][i] = (char)(i * 7 + i / 1000 + (size_t)s);
        if (class->message_create(sizes[s], &out[s], &error) != PS_OK) return 3;
        if (class->message_create(sizes[s], &in[s], &error) != PS_OK) return 4;
    }
    for (int round = 0; round < 2; round++) {
        for (int s = 0; s < SIZES; s++) class->message_start(in[s], 0, 3 + s, false, got[s], sizes[s]);
        for (int s = 1; s < SIZES; s++)
            if (class->message_done(in[s])) return 5;
        for (int s = 0; s < SIZES; s++) class->message_start(out[s], 0, 3 + s, true, sent[s], sizes[s]);
        for (int s = 0; s < SIZES; s++) {
            while (!class->message_done(in[s]) || !class->message_done(out[s]))
                if (class->failure()) return 6;
            if (memcmp(got[s], sent[s], sizes[s]) != 0 || got[s][sizes[s]] != 9) return 7;
            memset(got[s], 9, sizes[s]);
        }
    }
    /* With less in it than it was made for. */
    class->message_start(in[SIZES - 1], 0, 1, false, got[0], 5);
    class->message_start(out[SIZES - 1], 0, 1, true, sent[1], 5);
    while (!class->message_done(in[SIZES - 1]) || !class->message_done(out[SIZES - 1])) continue;
    if (memcmp(got[0], sent[1], 5) != 0 || got[0][5] != 9) return 8;
    for (int s = 0; s < SIZES; s++) {
        class->message_destroy(out[s]);
        class->message_destroy(in[s]);
    }
    if (class->failure()) return 9;
    /* It can be started only once. */
    if (class->start(7, &rank, &count, &leader, &same, &error) != PS_USAGE) return 10;
    class->end();
    return 0;
}

/* A launcher has started two, of which the library knows nothing. */
static int be_misled(const struct processes_class *class) {
    int rank, count, leader;
    bool same;
    struct ps_error error = {0};
    alarm(100);
    find_with((const char *const[VARIABLES]){NULL, NULL, NULL, "0", "2"});
    const enum ps_status status = class->start(7, &rank, &count, &leader, &same, &error);
    if (status != PS_USAGE) return status == PS_OK ? 1 : 77;
    if (strncmp(error.message, "srun started 2 processes, but the MPI library of this program (", 63) != 0) return 2;
    if (!strstr(error.message, ") knows of 1")) return 3;
    return strcmp(error.hint, launch_advice()) == 0 ? 0 : 4;
}

/* What MPI knows of itself is asked for here first: the greatest tag may be less than it says. */
static int greatest_tag;
int MPI_Comm_get_attr(intptr_t communicator, int key, void *value, int *found);
int MPI_Comm_get_attr(intptr_t communicator, int key, void *value, int *found) {
    if (greatest_tag == 0) {
        int (*next)(intptr_t, int, void *, int *) =
            (int (*)(intptr_t, int, void *, int *))dlsym(RTLD_NEXT, "MPI_Comm_get_attr");
        return next(communicator, key, value, found);
    }
    *(int **)value = &greatest_tag;
    *found = 1;
    return 0;
}

/* Messages of tags that MPI does not have are not sent, and it is said why. */
static int need_tags(const struct processes_class *class) {
    struct message *in, *out;
    char sent[3] = "ab", got[3] = "";
    int rank, count, leader;
    bool same;
    struct ps_error error;
    alarm(100);
    greatest_tag = 12;
    if (class->start(7, &rank, &count, &leader, &same, &error) != PS_OK) return 77;
    if (class->message_create(2, &in, &error) != PS_OK || class->message_create(2, &out, &error) != PS_OK) return 1;
    class->message_start(in, 0, 12, false, got, 2);
    class->message_start(out, 0, 12, true, sent, 2);
    while (!class->message_done(in) || !class->message_done(out))
        if (class->failure()) return 2;
    if (class->failure() || strcmp(got, "ab") != 0) return 3;
    for (int tag = 13; tag < 15; tag++) {
        class->message_start(tag == 13 ? in : out, 0, tag, tag != 13, got, 2);
        if (class->message_done(tag == 13 ? in : out)) return 4;
        /* The first of them. */
        if (!class->failure() || strcmp(class->failure(), "the plan needs the tag 13, and this library has tags up to 12") != 0)
            return 5;
    }
    class->message_destroy(in);
    class->message_destroy(out);
    return 0;
}

/* To and from processes that there are none of nothing goes; what MPI says of it is told. */
static int send_to_nobody(const struct processes_class *class, bool outgoing) {
    struct message *message;
    char block[3] = "ab", said[64];
    int rank, count, leader;
    bool same;
    struct ps_error error;
    alarm(100);
    if (class->start(7, &rank, &count, &leader, &same, &error) != PS_OK) return 77;
    if (class->failure() || class->message_create(2, &message, &error) != PS_OK) return 1;
    class->message_start(message, 5, 3, outgoing, block, 2);
    const char *failure = class->failure();
    snprintf(said, sizeof said, "MPI_I%s: ", outgoing ? "send" : "recv");
    if (!failure || strncmp(failure, said, 11) != 0 || strlen(failure) < 16) return 2;
    if (class->message_done(message)) return 3;
    class->message_destroy(message);
    return 0;
}

static int send_out(const struct processes_class *class) { return send_to_nobody(class, true); }

static int wait_for_nobody(const struct processes_class *class) { return send_to_nobody(class, false); }

/* MPI leaves memory behind. */
#pragma weak __lsan_disable
void __lsan_disable(void);

static void play_alone(int (*play)(const struct processes_class *class)) {
    const struct transport_class *mpi = transport_table[0];
    for (int t = 0; transport_table[t]; t++) mpi = transport_table[t]->processes ? transport_table[t] : mpi;
    if (!mpi->processes) skip();
    find_with((const char *const[VARIABLES]){NULL});
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (__lsan_disable) __lsan_disable();
        exit(play(mpi->processes));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_int_equal(status, 0);
}

static void test_mpi_alone(void **state) {
    (void)state;
    play_alone(send_to_itself);
}

static void test_mpi_fails(void **state) {
    (void)state;
    play_alone(need_tags);
    play_alone(send_out);
    play_alone(wait_for_nobody);
}

static void test_mpi_misled(void **state) {
    (void)state;
    play_alone(be_misled);
}

/* A process that fails alone, or in a run of one process, tells nobody, and what it failed of stays. */
static void test_failing_alone(void **state) {
    (void)state;
    struct ps_error error;
    error_set(&error, PS_IO, "no disk");
    find_with((const char *const[VARIABLES]){NULL});
    assert_int_equal(launch_fail(NULL, PS_IO, &error), PS_IO);
    find_with((const char *const[VARIABLES]){"0", "2"});
    assert_int_equal(launch_fail("threads", PS_IO, &error), PS_IO);
    assert_int_equal(launch_fail("serial", PS_STOPPED, &error), PS_STOPPED);
    assert_string_equal(error.message, "no disk");
}

static enum launch_phase heard;
static int heard_count, aborted_with;

static void hear(enum launch_phase phase) {
    heard = phase;
    heard_count++;
}

static void take_abort(int status) { aborted_with = status; }

/* Who listens hears each phase; that all have met is known for good. */
static void test_phases(void **state) {
    (void)state;
    launch_tell(LAUNCH_MEETING);
    assert_false(launch_has_met());
    launch_set_listener(hear);
    launch_tell(LAUNCH_MEETING);
    assert_true(heard == LAUNCH_MEETING && heard_count == 1 && !launch_has_met());
    launch_tell(LAUNCH_MET);
    assert_true(heard == LAUNCH_MET && heard_count == 2 && launch_has_met());
    launch_tell(LAUNCH_LEFT);
    assert_true(heard == LAUNCH_LEFT && heard_count == 3 && launch_has_met());
    launch_set_listener(NULL);
    launch_tell(LAUNCH_LEAVING);
    assert_int_equal(heard_count, 3);
    launch_abort(7); /* nobody is there to abort */
    launch_set_abort(take_abort);
    launch_abort(9);
    assert_int_equal(aborted_with, 9);
    launch_set_abort(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),  cmocka_unit_test(test_advice),        cmocka_unit_test(test_transports),
        cmocka_unit_test(test_messages),   cmocka_unit_test(test_failing_alone), cmocka_unit_test(test_mpi_alone),
        cmocka_unit_test(test_mpi_misled), cmocka_unit_test(test_mpi_fails),     cmocka_unit_test(test_phases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
