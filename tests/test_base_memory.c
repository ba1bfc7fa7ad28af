/* Single allocations, arrays that grow, and arenas. */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/memory.h"

#define IMPOSSIBLE (SIZE_MAX / 4)

static void makes_and_grows(void **state) {
    (void)state;
    struct ps_error error = {0};
    double *values;
    assert_int_equal(memory_new(&values, 3, "a row", &error), PS_OK);
    assert_true(values[0] == 0 && values[2] == 0);
    free(values);
    assert_int_equal(memory_new(&values, 0, "a row", &error), PS_OK);
    assert_non_null(values);
    free(values);
    assert_int_equal(memory_new(&values, IMPOSSIBLE, "a row", &error), PS_OUT_OF_MEMORY);
    assert_null(values);
    assert_memory_equal(error.message, "out of memory: a row needs ", 27);

    int *list = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(memory_grow(&list, &capacity, i + 1, "a list", &error), PS_OK);
        assert_true(capacity > (size_t)i && capacity < 2048);
        list[i] = i;
    }
    int *before = list;
    assert_int_equal(memory_grow(&list, &capacity, IMPOSSIBLE, "a list", &error), PS_OUT_OF_MEMORY);
    assert_memory_equal(error.message, "out of memory: a list needs ", 28);
    assert_ptr_equal(list, before);
    for (int i = 0; i < 1000; i++) assert_int_equal(list[i], i);
    free(list);
}

/* Pieces of many sizes, each filled to its end: they are aligned and zeroed, and none overlaps another or moves. */
static void check_pieces(bool apart) {
    enum { PIECES = 200 };
    const bool usual = arena_apart;
    arena_apart = apart;
    struct arena arena = {0};
    struct ps_error error = {0};
    unsigned char *piece[PIECES];
    for (int i = 0; i < PIECES; i++) {
        size_t bytes = (size_t)i * (size_t)i * 7;
        piece[i] = arena_take(&arena, bytes, 1);
        assert_non_null(piece[i]);
        assert_true((uintptr_t)piece[i] % _Alignof(max_align_t) == 0);
        for (size_t b = 0; b < bytes; b++) assert_int_equal(piece[i][b], 0);
        memset(piece[i], i, bytes);
    }
    assert_string_equal(arena_copy(&arena, "copied", 7, 1), "copied");
    assert_int_equal(arena_check(&arena, "a table", &error), PS_OK);
    for (int i = 0; i < PIECES; i++)
        for (size_t b = 0; b < (size_t)i * (size_t)i * 7; b++) assert_int_equal(piece[i][b], i);
    arena_release(&arena);
    assert_null(arena.newest);
    arena_apart = usual;
}

static void takes_pieces(void **state) {
    (void)state;
    check_pieces(false);
    check_pieces(true);
}

/* A block that prefers large pages is like any other: zeroed, of the same size, and after it was touched all in memory. */
static void prefers_large_pages(void **state) {
    (void)state;
    enum { BYTES = 5 << 20, PAGES_MAX = BYTES / 4096 };
    unsigned char resident[PAGES_MAX];
    struct ps_error error = {0};
    struct memory_block block;
    assert_int_equal(memory_block_take(&block, BYTES, "a block", &error), PS_OK);
    memory_block_prefer_large_pages(&block);
    memory_block_touch(&block);
    assert_int_equal(block.size, BYTES);
    assert_int_equal(mincore(block.base, BYTES, (void *)resident), 0);
    for (size_t page = 0; page < BYTES / (size_t)sysconf(_SC_PAGESIZE); page++) assert_true(resident[page] & 1);
    for (size_t i = 0; i < BYTES; i++) assert_int_equal(block.base[i], 0);
    memory_block_release(&block);
    memory_block_prefer_large_pages(&block); /* of nothing */
}

static void remembers_refusal(void **state) {
    (void)state;
    struct arena arena = {0};
    struct ps_error error = {0};
    assert_non_null(arena_take(&arena, 10, sizeof(int)));
    assert_null(arena_take(&arena, IMPOSSIBLE, 3));
    assert_null(arena_take(&arena, 1, 1));
    assert_null(arena_copy(&arena, "lost", 5, 1));
    assert_int_equal(arena_check(&arena, "a table", &error), PS_OUT_OF_MEMORY);
    assert_memory_equal(error.message, "out of memory: a table needs ", 29);
    assert_null(arena.newest);
    assert_int_equal(arena_check(&arena, "a table", &error), PS_OK);
    assert_null(arena_take(&arena, SIZE_MAX, SIZE_MAX));
    arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(makes_and_grows), cmocka_unit_test(takes_pieces),
                                       cmocka_unit_test(prefers_large_pages), cmocka_unit_test(remembers_refusal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
