/* Costs on several types of devices, as means over lengths of micro-batches, and of groups of layers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "base/random.h"
#include "profile/profile.h"
#include "support.h"

enum { TABLES = 2, LAYERS = 5 };

/* Costs that are all different. */
static struct ps_profile *profile_of(const char *device, uint64_t number) {
    const struct random_key key = test_key(number);
    uint64_t n = 0;
    struct ps_profile *profile;
    assert_ok(profile_create(TABLES, LAYERS, &profile, &test_error));
    strcpy(profile->model, "five");
    strcpy(profile->device, device);
    profile->threads = 1;
    for (int t = 0; t < TABLES; t++) {
        profile->tables[t].micro_batch = 4 << t;
        for (int l = 0; l < LAYERS; l++) {
            struct layer_cost *layer = &profile->tables[t].layers[l];
            double *const times[] = {(double *)&layer->time, (double *)&layer->spread, (double *)&layer->spill},
                          *const others[] = {&layer->fill, &layer->core_transfer_s, &layer->take_over_s, &layer->sum_s};
            for (int k = 0; k < 3; k++)
                for (size_t f = 0; f < sizeof layer->time / sizeof(double); f++)
                    times[k][f] = (double)random_uniform(key, n++) + 0.01;
            for (int o = 0; o < 4; o++) *others[o] = (double)random_uniform(key, n++) + 0.01;
            snprintf(layer->name, sizeof layer->name, "layer%d", l);
            strcpy(layer->kind, "linear");
            layer->size.parameter_bytes = 64 * (l + 1);
        }
    }
    return profile;
}

/* On two types of devices. */
static struct ps_profile *profiles_of(uint64_t number) {
    struct ps_profile *profile = profile_of("slow", number);
    assert_ok(profile_add_device(profile, profile_of("fast", number + 1), &test_error));
    return profile;
}

static void assert_near(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-12 * fabs(wanted))) fail_msg("%.17g is not %.17g", value, wanted);
}

static double all_s(const struct ps_profile *profile) {
    double sum_s = 0;
    for (int l = 0; l < LAYERS; l++) {
        const struct layer_times *time = &profile->tables[0].layers[l].time;
        sum_s += time->forward_s + time->backward_input_s + time->backward_weight_s;
    }
    return sum_s;
}

/* Half of the time that of the profile, else that of two others: of all sizes, layers and devices, whatever takes time. */
static void means(void **state) {
    (void)state;
    static const double shares[] = {0.125, 0.375};
    struct ps_profile *mean = profiles_of(1), *one = profiles_of(3), *other = profiles_of(5), *own = profiles_of(1);
    struct ps_profile *const others[] = {one, other};
    assert_ok(profile_mix(mean, others, shares, 2, "8,12", &test_error));
    const struct ps_profile *a = own, *b = one, *c = other;
    for (const struct ps_profile *m = mean; m;
         m = m->other_device, a = a->other_device, b = b->other_device, c = c->other_device) {
        assert_string_equal(m->lengths, "8,12");
        assert_string_equal(m->device, a->device);
        for (int t = 0; t < TABLES; t++)
            for (int l = 0; l < LAYERS; l++) {
                const struct layer_cost *layer = &m->tables[t].layers[l], *x = &a->tables[t].layers[l],
                                        *y = &b->tables[t].layers[l], *z = &c->tables[t].layers[l];
#define MEAN(field) assert_near(layer->field, 0.5 * x->field + 0.125 * y->field + 0.375 * z->field);
#define TIME(name, required, absent) MEAN(time.name) MEAN(spread.name) MEAN(spill.name)
                LAYER_TIMES(TIME)
#undef TIME
                LAYER_SHARED_TIMES(MEAN)
                MEAN(fill)
#undef MEAN
                assert_memory_equal(&layer->size, &x->size, sizeof layer->size);
            }
    }
    assert_null(a);
    /* What each length takes beside the mean; those of the profile itself come last. */
    const double mean_s = 0.5 * all_s(own) + 0.125 * all_s(one) + 0.375 * all_s(other);
    assert_int_equal(mean->length_count, 3);
    assert_near(mean->by_length[0].share, 0.125);
    assert_near(mean->by_length[1].share, 0.375);
    assert_near(mean->by_length[2].share, 0.5);
    assert_near(mean->by_length[0].factor, all_s(one) / mean_s);
    assert_near(mean->by_length[1].factor, all_s(other) / mean_s);
    assert_near(mean->by_length[2].factor, all_s(own) / mean_s);
    ps_profile_destroy(mean);
    /* Shares that add up to a little more than 1: no length has less than none. */
    mean = profiles_of(1);
    assert_ok(profile_mix(mean, others, (const double[]){0.75, 0.25000000001}, 2, "8,12", &test_error));
    assert_true(mean->by_length[2].share == 0);
    ps_profile_destroy(mean);
    /* Of other sizes: nothing is changed. */
    mean = profiles_of(1);
    other->other_device->tables[1].micro_batch = 16;
    assert_status(profile_mix(mean, others, shares, 2, "8,12", &test_error), PS_BAD_INPUT,
                  "costs[1].micro_batch: 16, but the profile on fast has 8");
    assert_int_equal(mean->length_count, 0);
    assert_string_equal(mean->lengths, "");
    assert_memory_equal(&mean->tables[0].layers[0].time, &own->tables[0].layers[0].time, sizeof(struct layer_times));
    ps_profile_destroy(mean);
    ps_profile_destroy(one);
    ps_profile_destroy(other);
    ps_profile_destroy(own);
}

/* Groups of layers on each type of device; a parameter that layers share is shared by their groups. */
static void groups(void **state) {
    (void)state;
    enum { GROUPS = 3 };
    static const int last[GROUPS] = {1, 2, 4}, uses[] = {0, 1, 3, 4}, in_groups[] = {0, 0, 2, 2};
    struct ps_profile *profile = profiles_of(7), *grouped;
    for (struct ps_profile *of = profile; of; of = of->other_device) {
        of->ties = (struct ties){arena_take(&of->arena, 1, sizeof *of->ties.list), 1};
        of->ties.list[0] = (struct tie){.bytes = 64, .layers = arena_copy(&of->arena, uses, 4, sizeof *uses), .uses = 4};
        assert_ok(arena_status(&of->arena, "ties", &test_error));
        profile_link_ties(of);
    }
    assert_ok(profile_group(profile, last, GROUPS, &grouped, &test_error));
    const struct ps_profile *from = profile;
    int devices = 0;
    for (const struct ps_profile *of = grouped; of; of = of->other_device, from = from->other_device, devices++) {
        assert_string_equal(of->device, from->device);
        assert_null(of->graph);
        assert_int_equal(of->table_count, TABLES);
        assert_int_equal(of->ties.count, 1);
        assert_int_equal(of->ties.list[0].uses, 4);
        assert_memory_equal(of->ties.list[0].layers, in_groups, sizeof in_groups);
        assert_memory_equal(from->ties.list[0].layers, uses, sizeof uses);
        for (int t = 0; t < TABLES; t++) {
            const struct cost_table *table = &of->tables[t], *layers = &from->tables[t];
            assert_true(table->ties == &of->ties && table->device == of->device);
            assert_ptr_equal(table->other_device, of->other_device ? &of->other_device->tables[t] : NULL);
            assert_int_equal(table->micro_batch, layers->micro_batch);
            assert_int_equal(table->layer_count, GROUPS);
            assert_string_equal(table->layers[0].name, "layer0 .. layer1");
            assert_string_equal(table->layers[1].name, "layer2");
            for (int g = 0; g < GROUPS; g++) {
                double forward_s = 0, fill = 0;
                for (int l = cost_table_first(table, g); l <= cost_table_last(table, g); l++) {
                    forward_s += layers->layers[l].time.forward_s;
                    fill += layers->layers[l].fill;
                }
                assert_int_equal(cost_table_last(table, g), last[g]);
                assert_near(table->layers[g].time.forward_s, forward_s);
                assert_near(table->layers[g].fill, fill);
            }
        }
    }
    assert_int_equal(devices, 2);
    ps_profile_destroy(grouped);
    ps_profile_destroy(profile);
}

/* The costs on each type of device; of one that no profile is of those of the first. */
static void devices(void **state) {
    (void)state;
    struct ps_profile *profile = profiles_of(9);
    assert_ok(profile_add_device(profile, profile_of("third", 11), &test_error));
    assert_status(profile_add_device(profile, profile_of("fast", 12), &test_error), PS_BAD_INPUT,
                  "device: 'fast' has a profile already");
    for (int t = 0; t < TABLES; t++) {
        const struct cost_table *table = &profile->tables[t];
        assert_ptr_equal(cost_table_on(table, "slow"), table);
        assert_ptr_equal(cost_table_on(table, "fast"), &profile->other_device->tables[t]);
        assert_ptr_equal(cost_table_on(table, "third"), &profile->other_device->other_device->tables[t]);
        assert_ptr_equal(cost_table_on(table, "fourth"), table);
    }
    ps_profile_destroy(profile);
}

/* Workers that have cores here: of a device that this machine could have, and of one alone. */
static void workers(void **state) {
    (void)state;
    struct ps_profile *profile = profile_of("cpu", 13);
    assert_int_equal(profile_workers_here(profile), cores_usable());
    profile->threads = 0;
    assert_int_equal(profile_workers_here(profile), cores_usable());
    profile->threads = 2;
    assert_int_equal(profile_workers_here(profile), cores_usable() > 3 ? cores_usable() / 2 : 1);
    profile->threads = cores_usable() + 1;
    assert_int_equal(profile_workers_here(profile), 1);
    assert_ok(profile_add_device(profile, profile_of("fast", 14), &test_error));
    assert_int_equal(profile_workers_here(profile), 0);
    ps_profile_destroy(profile);
    static const char *const elsewhere[] = {"clock", "gpu:v100", "unknown"};
    for (int d = 0; d < 3; d++) {
        profile = profile_of(elsewhere[d], 15);
        assert_int_equal(profile_workers_here(profile), 0);
        ps_profile_destroy(profile);
    }
}

/* Each size by itself; the largest of all, if none is asked for; and what is said of a size that is not there. */
static void sizes(void **state) {
    (void)state;
    const struct cost_table *table;
    struct ps_profile *profile = profile_of("cpu", 16);
    for (int t = 0; t < TABLES; t++) {
        assert_ok(profile_table(profile, 4 << t, &table, &test_error));
        assert_ptr_equal(table, &profile->tables[t]);
    }
    assert_ok(profile_table(profile, 0, &table, &test_error));
    assert_ptr_equal(table, &profile->tables[TABLES - 1]);
    assert_status(profile_table(profile, 2, &table, &test_error), PS_USAGE,
                  "micro-batch 2: the profile has no such size, but 4, 8");
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(means), cmocka_unit_test(groups), cmocka_unit_test(devices),
                                       cmocka_unit_test(workers), cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
