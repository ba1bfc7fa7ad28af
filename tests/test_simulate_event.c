/* The event heap against sorting: earliest first, and of the same moment first come, first served; some are removed before they
 * leave.
 */
#include <stdlib.h>

#include "simulate/engine.h"
#include "support.h"

static void test_order(void **state) {
    (void)state;
    enum { ROUNDS = 200, CAPACITY = 64 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (!test_takes((size_t)round, 4)) continue;
        struct random_key key = test_key(round);
        struct event events[CAPACITY];
        struct event_heap heap = {.events = events, .capacity = CAPACITY};
        struct event event, before = {.time = -1};
        int64_t pending[CAPACITY]; /* time of each subject; -1: not in the heap */
        int pushed = 0, popped = 0;
        /* Subjects are numbered in the order they come, so equal times must leave in the order of subjects. */
        while (popped < CAPACITY) {
            bool push = pushed < CAPACITY && (pushed == popped || random_below(key, (uint64_t)(pushed + popped), 3) > 0);
            if (push) {
                int64_t now = before.time > 0 ? before.time : 0;
                pending[pushed] = now + (int64_t)random_below(key, 1000 + (uint64_t)pushed, 5);
                event_push(&heap, pending[pushed], pushed);
                pushed++;
                continue;
            }
            assert_true(event_pop(&heap, &event));
            popped++;
            assert_int_equal(event.time, pending[event.subject]);
            assert_true(event.time >= before.time);
            for (int subject = 0; subject < pushed; subject++) {
                assert_true(pending[subject] < 0 || pending[subject] >= event.time);
                if (subject < event.subject) assert_true(pending[subject] != event.time);
            }
            pending[event.subject] = -1;
            before = event;
        }
        assert_false(event_pop(&heap, &event));
    }
}

/* Of those that are left each leaves in its turn, whichever others were removed from between them. */
static void test_removed(void **state) {
    (void)state;
    enum { ROUNDS = 300, CAPACITY = 40 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (!test_takes((size_t)round, 4)) continue;
        const struct random_key key = test_key(1000 + round);
        const int count = 1 + (int)random_below(key, 0, CAPACITY);
        struct event events[CAPACITY];
        struct event_heap heap = {.events = events, .capacity = count};
        struct event event, before = {.time = -1};
        bool removed[CAPACITY] = {false};
        int left = count;
        for (int subject = 0; subject < count; subject++)
            event_push(&heap, (int64_t)random_below(key, 1 + (uint64_t)subject, 30), subject);
        event_remove(&heap, count); /* there is none */
        assert_int_equal(heap.count, count);
        for (int n = 0; n < count; n++) {
            const int subject = (int)random_below(key, 100 + (uint64_t)n, (uint64_t)count);
            if (random_below(key, 200 + (uint64_t)n, 2) > 0) continue;
            event_remove(&heap, subject);
            left -= !removed[subject];
            removed[subject] = true;
            assert_int_equal(heap.count, left);
        }
        for (; left > 0; left--, before = event) {
            assert_true(event_pop(&heap, &event));
            assert_true(event.time > before.time || (event.time == before.time && event.subject > before.subject));
            assert_false(removed[event.subject]);
        }
        assert_false(event_pop(&heap, &event));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_removed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
