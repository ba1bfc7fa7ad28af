/*
 * A program of its own trains step by step over MPI: whatever it asks between two steps, it is told what threads come to. The
 * test starts itself once more as three ranks, which make the same calls.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "comm/launch.h"
#include "graph/network.h"
#include "support.h"

enum { RANKS = 3, PARAMETERS = 10, ELEMENTS_MAX = 1 << 16 };

static const char network_spec[] = "lenet5,input=16,classes=4";
static const char plan_text[] =
    "{\"format\": \"penstock-plan\", \"version\": 1, \"model\": \"lenet5,input=16,classes=4\", \"workers\": 3, "
    "\"micro_batch\": 2, \"micro_batches\": 2, \"optimizer\": \"sgdm\", \"schedule\": \"1f1b\", \"weights\": \"sync\", "
    "\"stages\": [{\"layers\": [1, 3], \"forward\": 0}, {\"layers\": [4, 6], \"forward\": 1}, {\"layers\": [7, 7], "
    "\"forward\": 2}]}";

static const char *in(const char *directory, const char *name) {
    static char paths[4][4096];
    static int next;
    return file_join(paths[next = (next + 1) % 4], directory, name);
}

static size_t elements_of(const struct ps_parameter *parameter) {
    size_t count = 1;
    for (int d = 0; d < parameter->rank; d++) count *= (size_t)parameter->shape[d];
    return count;
}

/* ------------------------------------------------------------------- what all ranks do */

/* All parameters, one after the other. Rank 0 gets them; nothing changes in what the others give. */
static void note_parameters(struct ps_trainer *trainer, int rank, FILE *out) {
    static float values[ELEMENTS_MAX];
    assert_int_equal(ps_trainer_info(trainer).parameters, PARAMETERS);
    for (int p = 0; p < PARAMETERS; p++) {
        const struct ps_parameter parameter = ps_trainer_parameter(trainer, p);
        const size_t count = elements_of(&parameter);
        assert_true(count < ELEMENTS_MAX);
        for (size_t i = 0; i <= count; i++) values[i] = -7;
        assert_ok(ps_trainer_read_parameter(trainer, parameter.name, values, count, &test_error));
        for (size_t i = rank == 0 ? count : 0; i <= count; i++) assert_true(values[i] == -7);
        if (rank == 0) fwrite(values, sizeof *values, count, out);
    }
}

static void note_evaluation(struct ps_trainer *trainer, const struct ps_dataset *data, int rank, int samples, FILE *out) {
    struct ps_evaluation evaluation;
    assert_ok(ps_trainer_evaluate(trainer, data, &evaluation, &test_error));
    assert_int_equal(evaluation.samples, samples);
    assert_int_equal(isnan(evaluation.loss) != 0, rank > 0);
    if (rank == 0) fprintf(out, "%a %a\n", evaluation.loss, evaluation.accuracy);
}

static void note_end(struct ps_trainer *trainer, int rank, FILE *out) {
    struct ps_run *run;
    assert_ok(ps_trainer_finish(trainer, &run, &test_error));
    const struct ps_run_info info = ps_run_info(run);
    if (rank == 0) fprintf(out, "%d %a %a %a\n", info.steps, info.loss, info.valid_loss, info.valid_accuracy);
    for (int w = 0; rank == 0 && w < RANKS; w++) assert_true(ps_run_worker(run, w).measured_bytes > 0);
    ps_run_destroy(run);
}

/* The files are in `directory`; what comes of it is left there as NAME, NAME.run and NAME.saved. */
static void train_here(const char *directory, const char *name, const char *transport, int rank) {
    char out[64], saved[64];
    struct ps_network *network = NULL;
    struct ps_plan *plan = NULL;
    struct ps_dataset *data, *valid, *other;
    struct ps_trainer *trainer;
    struct ps_train_options options;
    snprintf(out, sizeof out, "%s.run", name);
    snprintf(saved, sizeof saved, "%s.saved", name);
    FILE *file = rank == 0 ? fopen(in(directory, name), "w") : NULL;
    assert_true(rank > 0 || file);
    assert_ok(ps_dataset_open("synthetic:images,samples=24", NULL, &data, &test_error));
    assert_ok(ps_dataset_open("synthetic:images,samples=9", NULL, &valid, &test_error));
    assert_ok(ps_dataset_open("synthetic:images,samples=13,noise=2", NULL, &other, &test_error));
    if (rank == 0) {
        assert_ok(ps_network_open(network_spec, &network, &test_error));
        assert_ok(ps_network_initialize(network, in(directory, "first.safetensors"), &test_error));
        assert_ok(ps_plan_read(in(directory, "plan.json"), &plan, &test_error));
    }
    ps_train_options_init(&options);
    options.plan = plan;
    options.network = network;
    options.data = data;
    options.valid = valid;
    options.device = "reference";
    options.transport = transport;
    options.steps = 6;
    options.lr = 0.05;
    options.out = in(directory, out);
    assert_ok(ps_trainer_create(&options, &trainer, &test_error));
    note_parameters(trainer, rank, file);
    assert_ok(ps_trainer_step(trainer, 2, &test_error));
    note_evaluation(trainer, other, rank, 13, file);
    note_parameters(trainer, rank, file);
    /* Saving elsewhere is no checkpoint of the training's own. */
    assert_ok(ps_trainer_save(trainer, in(directory, saved), &test_error));
    assert_ok(ps_trainer_save(trainer, NULL, &test_error));
    char same[4200];
    snprintf(same, sizeof same, "%s/../%s/", options.out, out); /* rank 0 knows that it is its own */
    assert_ok(ps_trainer_save(trainer, same, &test_error));
    assert_status(ps_trainer_read_parameter(trainer, "fc9.weight", NULL, 1, &test_error), PS_USAGE,
                  "no parameter 'fc9.weight'");
    assert_ok(ps_trainer_step(trainer, 100, &test_error));
    note_evaluation(trainer, NULL, rank, 9, file);
    note_evaluation(trainer, other, rank, 13, file);
    note_evaluation(trainer, data, rank, 24, file);
    note_parameters(trainer, rank, file);
    note_end(trainer, rank, file);
    if (file) fclose(file);
    ps_trainer_destroy(trainer);
    ps_dataset_destroy(other);
    ps_dataset_destroy(valid);
    ps_dataset_destroy(data);
    ps_plan_destroy(plan);
    ps_network_destroy(network);
}

/* ------------------------------------------------------------------------------ ranks */

static const char *rank_directory;

static void test_rank(void **state) {
    (void)state;
    train_here(rank_directory, "ranks", "mpi", launch_find().rank);
}

/* ------------------------------------------------------------------- what starts them */

/* Every second parameter begins with other values than the seed says, some of each stage. */
static void write_values(const char *path) {
    enum { HALF = PARAMETERS / 2 };
    static float values[HALF][ELEMENTS_MAX];
    struct safetensor_source sources[HALF];
    struct ps_network *network;
    assert_ok(ps_network_open(network_spec, &network, &test_error));
    for (int i = 0; i < HALF; i++) {
        const struct parameter *parameter = &network->graph->parameters[2 * i];
        assert_true(shape_elements(&parameter->shape) <= ELEMENTS_MAX);
        for (int e = 0; e < shape_elements(&parameter->shape); e++) values[i][e] = (float)((e * 7 + i) % 11 - 5) / 64;
        sources[i] = (struct safetensor_source){.name = parameter->name,
                                                .shape = parameter->shape.dim,
                                                .rank = parameter->shape.rank,
                                                .values = values[i],
                                                .type = ARRAY_F32};
    }
    assert_ok(safetensors_write(path, sources, HALF, NULL, &test_error));
    ps_network_destroy(network);
}

static void assert_same_files(const char *a, const char *b) {
    char *first, *second;
    size_t first_size, second_size;
    assert_ok(file_read(a, SIZE_MAX, &first, &first_size, &test_error));
    assert_ok(file_read(b, SIZE_MAX, &second, &second_size, &test_error));
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    free(first);
    free(second);
}

/* The weights of a checkpoint of both. */
static void assert_same_checkpoints(const char *run_a, const char *run_b, const char *step) {
    char a[4096], b[4096], checkpoints[64];
    int files = 0;
    snprintf(checkpoints, sizeof checkpoints, "checkpoints/%s", step);
    file_join(a, in(test_directory, run_a), checkpoints);
    file_join(b, in(test_directory, run_b), checkpoints);
    DIR *listing = opendir(a);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (!strstr(entry->d_name, ".safetensors")) continue;
        assert_same_files(in(a, entry->d_name), in(b, entry->d_name));
        files++;
    }
    closedir(listing);
    assert_true(files >= RANKS);
}

#ifdef TEST_MPIRUN
/* This program as so many ranks; what they say is shown where they fail. */
static void start_ranks(void) {
    char self[2048], command[8192];
    const char *sanitizer = getenv("ASAN_OPTIONS");
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);
    /* The leaks of MPI libraries are many. */
    snprintf(command, sizeof command, "%s%sdetect_leaks=0", sanitizer ? sanitizer : "", sanitizer ? ":" : "");
    setenv("ASAN_OPTIONS", command, 1);
    const char *said = in(test_directory, "said");
    snprintf(command, sizeof command, "timeout -k 5 200 '%s' -n %d '%s' '%s' >'%s' 2>&1 || { cat '%s' >&2; exit 1; }",
             TEST_MPIRUN, RANKS, self, test_directory, said, said);
    assert_int_equal(system(command), 0);
}

/* MPICH dies where there is no room for its ranks' shared memory. */
static bool has_room(void) {
    struct statvfs room;
    return statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_frsize > 50u << 20;
}
#else
static void start_ranks(void) {}
static bool has_room(void) { return false; }
#endif

static void test_ranks(void **state) {
    (void)state;
    if (!has_room()) skip();
    test_file_write(in(test_directory, "plan.json"), plan_text, sizeof plan_text - 1);
    write_values(in(test_directory, "first.safetensors"));
    train_here(test_directory, "threads", "threads", 0);
    start_ranks();
    assert_same_files(in(test_directory, "threads"), in(test_directory, "ranks"));
    assert_same_checkpoints("threads.run", "ranks.run", "000002");
    assert_same_checkpoints("threads.run", "ranks.run", "000006");
    assert_same_checkpoints("threads.run", "ranks.saved", "000002");
    assert_same_checkpoints("threads.saved", "ranks.saved", "000002");
}

int main(int count, char **arguments) {
    static const struct CMUnitTest of_rank[] = {cmocka_unit_test(test_rank)}, tests[] = {cmocka_unit_test(test_ranks)};
    rank_directory = count > 1 ? arguments[1] : NULL;
    return rank_directory ? cmocka_run_group_tests(of_rank, NULL, NULL)
                          : cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
