/* Segments: their lengths add up to the run, end with each epoch, and each length is lowered once with room for all of them. */
#include "exec/program_set.h"
#include "run_support.h"

static void test_lengths(void **state) {
    (void)state;
    struct random_key key = test_key(1);
    for (uint64_t i = 0; i < 2000; i++) {
        struct segment_lengths lengths = {
            .steps = 1 + (int64_t)random_below(key, 4 * i, 300),
            .epoch = (int64_t)random_below(key, 4 * i + 1, 40),
            .evaluate_every = (int64_t)random_below(key, 4 * i + 2, 30),
            .micro_batches = i % 10 ? 4 : SEGMENT_MICRO_BATCHES / 7,
        };
        int64_t step = 0, distinct[64] = {0};
        int found = 0;
        while (step < lengths.steps) {
            int length = segment_length(&lengths, step);
            assert_true(length >= 1 && step + length <= lengths.steps);
            assert_true(lengths.evaluate_every == 0 || length <= lengths.evaluate_every);
            assert_true((int64_t)length * lengths.micro_batches <= SEGMENT_MICRO_BATCHES);
            /* No segment reaches over the end of an epoch. */
            if (lengths.epoch > 0) assert_true(step / lengths.epoch == (step + length - 1) / lengths.epoch);
            int known = 0;
            while (known < found && distinct[known] != length) known++;
            if (known == found) distinct[found++] = length;
            assert_true(found <= PROGRAM_SET_MAX);
            step += length;
        }
        assert_int_equal(step, lengths.steps);
    }
}

static void test_programs(void **state) {
    (void)state;
    struct run_case wanted =
        run_case_complete((struct run_case){.schedule = "1f1b-async", .weights = "stash", .workers = 3, .micro_batches = 2});
    struct ps_plan *plan = run_case_plan(&wanted);
    struct segment_lengths lengths = {.steps = 25, .epoch = 10, .evaluate_every = 4, .micro_batches = 2};
    struct program_set set;
    assert_ok(program_set_create(plan, &lengths, 7, 3, &set, &test_error));
    /* 4 4 2, 4 4 2, 4 1 */
    assert_int_equal(set.count, 3);
    assert_int_equal(program_set_longest(&set), 4);
    static const int64_t uses[][2] = {{4, 5}, {2, 2}, {1, 1}};
    for (int i = 0; i < 3; i++) {
        const struct ps_programs *found;
        assert_ok(program_set_find(&set, plan, (int)uses[i][0], &found, &test_error));
        assert_ptr_equal(found, set.entries[i].programs);
        assert_int_equal(set.entries[i].batches, uses[i][0]);
        assert_int_equal(set.entries[i].uses, uses[i][1]);
    }
    assert_int_equal(programs_micro_batches(set.evaluation), 7);
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < set.count; i++) {
            assert_true(set.slots[s].weights >= set.entries[i].programs->slots[s].weights);
            assert_true(set.slots[s].stash >= set.entries[i].programs->slots[s].stash);
            assert_true(set.slots[s].input >= set.evaluation->slots[s].input);
        }
    /* Of a length that nobody planned one is made, and kept. */
    const struct ps_programs *other, *again;
    assert_ok(program_set_find(&set, plan, 3, &other, &test_error));
    assert_int_equal(other->batches, 3);
    assert_ok(program_set_find(&set, plan, 3, &again, &test_error));
    assert_ptr_equal(other, again);
    /* What fits, and what needs a block more than there is, of each kind. */
    const struct ps_programs *programs = set.entries[0].programs;
    assert_ok(program_set_check_fit(&set, programs, &test_error));
    struct stage_slots *has = &set.slots[1];
    const struct stage_slots whole = *has, *needs = &programs->slots[1];
    for (int kind = 0; kind < BLOCK_PLACES; kind++) {
        int *count = stage_slots_place(has, (enum block_kind)kind);
        if (!count || stage_slots_of(needs, (enum block_kind)kind) == 0) continue;
        *count = stage_slots_of(needs, (enum block_kind)kind);
        assert_ok(program_set_check_fit(&set, programs, &test_error));
        --*count;
        assert_status(program_set_check_fit(&set, programs, &test_error), PS_FAILED, "stage 1 needs more blocks");
        *has = whole;
    }
    program_set_free(&set);
    ps_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths), cmocka_unit_test(test_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
