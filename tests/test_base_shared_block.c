/* Memory that another process opens: it sees what is written, keeps it when its owner closes, and is refused what is not
 * there. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/shared_block.h"
#include "descriptors.h"
#include "support.h"

enum { SIZE = 100000 };

/* Runs `child` in a process of its own; what it returns is its exit status. */
static int in_child(int (*child)(void *context), void *context) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(child(context));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* By what it is told alone, as a process that is no child would. */
static int write_into_parents(void *context) {
    const struct shared_block *parents = context;
    struct memory_block block;
    struct ps_error error = {0};
    if (shared_block_open(getppid(), parents->file, SIZE, true, &block, &error) != PS_OK) return 1;
    if (block.base == parents->memory.base || block.base[0] != 'p') return 2;
    block.base[SIZE - 1] = 'c';
    memory_block_release(&block);
    return 0;
}

static void test_two_processes(void **state) {
    (void)state;
    for (int backed = 0; backed < 2; backed++) {
        struct shared_block block = {0};
        assert_ok(shared_block_take(&block, SIZE, backed, "a test", &test_error));
        assert_int_equal(block.memory.size, memory_align(SIZE));
        for (int i = 0; i < SIZE; i++) assert_int_equal(block.memory.base[i], 0);
        block.memory.base[0] = 'p';
        assert_int_equal(in_child(write_into_parents, &block), 0);
        assert_int_equal(block.memory.base[SIZE - 1], 'c');
        shared_block_release(&block);
        shared_block_release(&block);
    }
}

static void test_what_cannot_be_opened(void **state) {
    (void)state;
    struct shared_block block = {0};
    struct memory_block opened = {0};
    assert_ok(shared_block_take(&block, SIZE, true, "a test", &test_error));
    int file = block.file, before = open_descriptors();
    assert_ok(shared_block_open(getpid(), file, SIZE, false, &opened, &test_error));
    assert_int_equal(open_descriptors(), before);
    assert_status(shared_block_open(getpid(), file, SIZE + 64, false, &(struct memory_block){0}, &test_error), PS_FAILED,
                  "not a file of");
    /* A directory may be as long as a block: its length grows with its files, or is that of a block of a disk. */
    char directory[4096], name[4200];
    struct stat found;
    test_directory_make(directory);
    int other = open(directory, O_RDONLY | O_DIRECTORY), files = 0;
    while (fstat(other, &found) == 0 && memory_align((size_t)found.st_size) != (size_t)found.st_size && files < 64) {
        snprintf(name, sizeof name, "%s/%d", directory, files++);
        assert_ok(file_write(name, "", 0, &test_error));
    }
    assert_status(shared_block_open(getpid(), other, (size_t)found.st_size, false, &(struct memory_block){0}, &test_error),
                  PS_FAILED, "not a file of");
    close(other);
    test_directory_remove(directory);
    shared_block_close(&block);
    assert_status(shared_block_open(getpid(), file, SIZE, false, &(struct memory_block){0}, &test_error), PS_FAILED, "/proc/");
    /* Its owner's end harms nobody who has it. */
    block.memory.base[1] = 'x';
    shared_block_release(&block);
    assert_int_equal(opened.base[1], 'x');
    memory_block_release(&opened);
}

/* The system would end it by a signal where a file becomes larger than files may be. */
static int take_too_much(void *context) {
    (void)context;
    struct shared_block block = {0};
    struct ps_error error = {0};
    struct rlimit limit = {.rlim_cur = SIZE / 2, .rlim_max = SIZE / 2};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    return shared_block_take(&block, SIZE, true, "a test", &error) == PS_FAILED ? 0 : 2;
}

static void test_limits(void **state) {
    (void)state;
    struct shared_block block = {0};
    assert_int_equal(in_child(take_too_much, NULL), 0);
    assert_status(shared_block_take(&block, SIZE_MAX / 4, false, "worker 3", &test_error), PS_FAILED,
                  "worker 3: no shared memory of");
    assert_null(block.memory.base);
    assert_ok(shared_block_take(&block, 0, true, "nothing", &test_error));
    assert_non_null(block.memory.base);
    shared_block_release(&block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
