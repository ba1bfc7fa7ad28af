/* Segments: their lengths add up to the run, end with each epoch, and each length is lowered once with room for all of them. */
#include <limits.h>

#include "exec/program_set.h"
#include "run_support.h"

/* Whether so many steps are a multiple of `every` within their epoch. */
static bool is_due(const struct segment_lengths *lengths, int64_t steps, int64_t every) {
    return every > 0 && (lengths->epoch > 0 ? (steps - 1) % lengths->epoch + 1 : steps) % every == 0;
}

static void test_lengths(void **state) {
    (void)state;
    struct random_key key = test_key(1);
    for (uint64_t i = 0; i < 2000; i++) {
        struct segment_lengths lengths = {
            .steps = 1 + (int64_t)random_below(key, 4 * i, 300),
            .epoch = (int64_t)random_below(key, 4 * i + 1, 40),
            .evaluate_every = (int64_t)random_below(key, 4 * i + 2, 30),
            .checkpoint_every = i % 3 ? 0 : (int64_t)random_below(key, 4 * i + 3, 30),
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
            assert_true(lengths.checkpoint_every > 0 || found <= PROGRAM_SET_MAX);
            /* It ends as soon as it must, and not before; and with what is due then. */
            for (int64_t end = step + 1; end <= step + length; end++) {
                const bool whole = end == lengths.steps || (lengths.epoch > 0 && end % lengths.epoch == 0);
                const bool evaluates = is_due(&lengths, end, lengths.evaluate_every);
                const bool saves = is_due(&lengths, end, lengths.checkpoint_every);
                const bool full = end - step == SEGMENT_MICRO_BATCHES / lengths.micro_batches;
                assert_true((whole || evaluates || saves || full) == (end == step + length));
                assert_true(segment_end_evaluates(&lengths, end) == (whole || evaluates));
                assert_true(segment_end_saves(&lengths, end) == (whole || saves));
            }
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

/* A step may have more micro-batches than a segment should. */
static void test_large_steps(void **state) {
    (void)state;
    static const struct {
        int micro_batches, length;
    } cases[] = {{SEGMENT_MICRO_BATCHES / 2, 2}, {SEGMENT_MICRO_BATCHES / 2 + 1, 1}, {SEGMENT_MICRO_BATCHES, 1}, {INT_MAX, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct segment_lengths lengths = {.steps = 9, .micro_batches = cases[c].micro_batches};
        assert_int_equal(segment_length(&lengths, 0), cases[c].length);
        assert_int_equal(segment_length(&lengths, 8), 1);
    }
}

static int different_lengths(const struct segment_lengths *lengths) {
    bool seen[100] = {false};
    int found = 0;
    for (int64_t step = 0; step < lengths->steps;) {
        const int length = segment_length(lengths, step);
        found += !seen[length];
        seen[length] = true;
        step += length;
    }
    return found;
}

/* As many lengths as there is room for, and one more; more micro-batches to evaluate than are counted. */
static void test_too_many(void **state) {
    (void)state;
    struct run_case wanted =
        run_case_complete((struct run_case){.schedule = "1f1b-async", .weights = "stash", .workers = 2, .micro_batches = 1});
    struct ps_plan *plan = run_case_plan(&wanted);
    struct segment_lengths lengths = {.steps = 1, .evaluate_every = 40, .checkpoint_every = 41, .micro_batches = 1};
    struct program_set set;
    while (different_lengths(&lengths) < PROGRAM_SET_MAX) lengths.steps++;
    assert_ok(program_set_create(plan, &lengths, 0, 0, &set, &test_error));
    assert_int_equal(set.count, PROGRAM_SET_MAX);
    assert_null(set.evaluation);
    assert_null(set.decoding);
    program_set_free(&set);
    while (different_lengths(&lengths) <= PROGRAM_SET_MAX) lengths.steps++;
    assert_status(program_set_create(plan, &lengths, 0, 0, &set, &test_error), PS_USAGE,
                  "`checkpoint_every`: 41 together with `evaluate_every` 40 divides the run into segments of more than 32 "
                  "different lengths\none of them should be a multiple of the other");
    lengths = (struct segment_lengths){.steps = 1, .micro_batches = 1};
    assert_status(program_set_create(plan, &lengths, (1 << 24) + 1, 0, &set, &test_error), PS_USAGE,
                  "`valid`: 16777217 micro-batches are too many to evaluate");
    ps_plan_destroy(plan);
}

/* Of lengths that nobody planned the last ones are kept; each instance has room for all that were planned, of each kind. */
static void test_others(void **state) {
    (void)state;
    enum { STEPS = 30 };
    struct run_case wanted =
        run_case_complete((struct run_case){.schedule = "1f1b-async", .weights = "stash", .workers = 3, .micro_batches = 1});
    struct ps_plan *plan = run_case_plan(&wanted);
    const struct segment_lengths lengths = {.steps = STEPS, .evaluate_every = 20, .micro_batches = 1},
                                 one = {.steps = 1, .micro_batches = 1};
    const struct ps_programs *programs;
    struct program_set set;
    assert_ok(program_set_create(plan, &lengths, 9, 2, &set, &test_error));
    assert_int_equal(programs_micro_batches(set.decoding), 2);
    const struct ps_programs *const planned[] = {set.entries[0].programs, set.entries[1].programs, set.evaluation,
                                                 set.decoding};
    assert_int_equal(set.count, 2);
    for (int i = 0; i < set.entries[0].programs->instance_count; i++) {
        for (int kind = 0; kind < BLOCK_KINDS; kind++) {
            int most = 0;
            for (int p = 0; p < 4; p++) {
                const int slots = stage_slots_of(&planned[p]->slots[i], (enum block_kind)kind);
                most = slots > most ? slots : most;
            }
            assert_int_equal(stage_slots_of(&set.slots[i], (enum block_kind)kind), most);
        }
        assert_int_equal(set.slots[i].weights, set.entries[0].programs->slots[i].weights);
    }
    for (int round = 0; round < 2; round++)
        for (int length = 1; length <= PROGRAM_SET_OTHERS; length++) {
            assert_ok(program_set_find(&set, plan, length, &programs, &test_error));
            assert_int_equal(programs->batches, length);
            assert_int_equal(set.other_count, round ? PROGRAM_SET_OTHERS : length);
        }
    /* One more takes the place of the oldest; the others stay. */
    assert_ok(program_set_find(&set, plan, PROGRAM_SET_OTHERS + 1, &programs, &test_error));
    for (int length = 2; length <= PROGRAM_SET_OTHERS + 1; length++)
        assert_ok(program_set_find(&set, plan, length, &programs, &test_error));
    assert_int_equal(set.other_count, PROGRAM_SET_OTHERS + 1);
    assert_ok(program_set_find(&set, plan, 1, &programs, &test_error));
    assert_int_equal(set.other_count, PROGRAM_SET_OTHERS + 2);
    assert_int_equal(programs->batches, 1);
    program_set_free(&set);
    /* A pipeline that was planned for one mini-batch has too few blocks for many. */
    assert_ok(program_set_create(plan, &one, 0, 0, &set, &test_error));
    assert_status(program_set_find(&set, plan, STEPS, &programs, &test_error), PS_FAILED,
                  "stage 0 needs more blocks for these programs than the training has");
    assert_int_equal(set.other_count, 0);
    program_set_free(&set);
    ps_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths), cmocka_unit_test(test_programs),
                                       cmocka_unit_test(test_large_steps), cmocka_unit_test(test_too_many),
                                       cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
