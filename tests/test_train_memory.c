/*
 * Memory: what a plan says that each worker takes is what the run takes, to the byte, for every weight policy on several
 * networks. And it is used: the pages that were touched by the end are counted, so a plan that asks for blocks which nobody
 * needs is found, too. (What stays untouched is the smaller of the two blocks for gradients inside of a stage, both of which
 * have the larger one's size, and of oneDNN's scratch memory what a kernel asks for and does not use.)
 */
#include <sys/mman.h>
#include <unistd.h>

#include "plan/plan.h"
#include "run_support.h"

enum { WORKERS = 3, SAMPLES = 8 };
#define LEAST_USED 0.93 /* share of the memory */

/* Networks small enough to run them often, and large enough that a page more or less is no matter. */
static const struct {
    const char *model, *data;
} networks[] = {
    {"resnet,blocks=1", "synthetic:images,samples=128"},
    {"residual_lstm,seq=40,vocab=2000,hidden=64", "synthetic:tokens,samples=128"},
    {"gpt2,seq=32,vocab=1000,layers=3,width=64,heads=4", "synthetic:tokens,samples=128"},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* Bytes of the block that lie in pages which were written or read. */
static int64_t resident_bytes(const struct memory_block *block) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (block->size + page - 1) / page;
    unsigned char *here = malloc(pages + 1);
    assert_non_null(here);
    assert_int_equal(mincore(block->base, block->size, here), 0);
    int64_t bytes = 0;
    for (size_t i = 0; i < pages; i++) bytes += here[i] & 1 ? (int64_t)page : 0;
    free(here);
    return bytes;
}

static struct ps_profile *profile_network(const char *name) {
    const int samples = SAMPLES;
    struct ps_profile_options options = {
        .struct_size = sizeof options, .micro_batches = &samples, .micro_batch_count = 1, .warmup = 1, .repeats = 1};
    struct ps_profile *profile;
    struct ps_network *model;
    assert_ok(ps_network_open(name, &model, &test_error));
    assert_ok(ps_profile_measure(model, &options, &profile, &test_error));
    ps_network_destroy(model);
    return profile;
}

/* Plans from the profile, trains by the plan. */
static void check(int network, const struct ps_profile *profile, struct ps_plan_options wanted) {
    char directory[4096], plan_path[4096];
    struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = WORKERS};
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    wanted.method = "uniform"; /* leaves no worker idle */
    assert_ok(ps_plan_find(profile, cluster, &wanted, &plan, &test_error));
    test_directory_make(directory);
    assert_ok(ps_plan_write(plan, file_join(plan_path, directory, "plan.json"), &test_error));
    struct training options;
    training_init(&options);
    options.plan_path = plan_path;
    options.data = networks[network].data;
    options.o.steps = 6; /* more than the pipeline holds */
    options.o.lr = 1e-4;
    options.o.threads = 1;
    struct training_objects objects;
    struct ps_trainer *trainer;
    assert_ok(training_open(&options, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, INT64_MAX, &test_error));
    for (int w = 0; w < WORKERS; w++) {
        const struct memory_block *block = &trainer->executor->workers[w].memory;
        const int64_t planned = worker_memory_total(&plan->predicted.memory[w]), resident = resident_bytes(block);
        const double share = (double)resident / (double)planned;
        if (planned == (int64_t)block->used && share >= LEAST_USED) continue;
        fail_msg("%s, %s, %s%s, worker %d: planned %lld bytes, took %zu, of which %lld were used (%.4f)",
                 networks[network].model, plan->weights, plan->optimizer, wanted.recompute ? ", recomputing" : "", w,
                 (long long)planned, block->used, (long long)resident, share);
    }
    ps_trainer_destroy(trainer);
    training_close(&objects);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    test_directory_remove(directory);
}

static void test_policies(void **state) {
    (void)state;
    for (int n = 0; n < NETWORKS; n++) {
        struct ps_profile *profile = profile_network(networks[n].model);
        for (int p = 0; policy_table[p]; p++) {
            /* Several micro-batches: with one alone, the memory in which gradients wait to be added stays untouched. */
            struct ps_plan_options wanted = {
                .struct_size = sizeof wanted, .weights = policy_table[p]->name, .micro_batches = WORKERS};
            wanted.optimizer = p % 2 == 0 || policy_table[p]->prediction == PREDICT_MOMENTUM ? "sgdm" : "adam";
            wanted.recompute = p % 2 == n % 2;
            check(n, profile, wanted);
        }
        ps_profile_destroy(profile);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_policies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
