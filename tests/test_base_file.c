/* Whole files: reading with limits and from gzip, and writing that leaves the old file whole when it fails. */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

static int count_files(void) {
    DIR *opened = opendir(test_directory);
    int count = 0;
    assert_non_null(opened);
    for (struct dirent *entry = readdir(opened); entry != NULL; entry = readdir(opened)) count += entry->d_name[0] != '.';
    closedir(opened);
    return count;
}

static void assert_holds(const char *path, const char *wanted) {
    char *data;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &data, &size, &test_error));
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(data, wanted, size + 1);
    free(data);
}

static void writes_and_reads(void **state) {
    (void)state;
    char path[4096], link_path[4096];
    file_join(path, test_directory, "a");
    assert_false(file_exists(path));
    assert_ok(file_write(path, "first", 5, &test_error));
    assert_true(file_exists(path));
    assert_holds(path, "first");
    assert_ok(file_write(path, "", 0, &test_error));
    assert_holds(path, "");
    assert_ok(file_write(path, "second", 6, &test_error));
    assert_holds(path, "second");
    assert_int_equal(count_files(), 1);

    struct stat status;
    assert_int_equal(symlink("itself", file_join(link_path, test_directory, "itself")), 0);
    assert_false(file_exists(link_path));
    assert_int_equal(unlink(link_path), 0);
    file_join(link_path, test_directory, "link");
    assert_int_equal(symlink("a", link_path), 0);
    assert_ok(file_write(link_path, "third", 5, &test_error));
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_holds(path, "third");

    /* Links to what is not there yet, one by another: the file is made where the last one points. */
    char far[4096], place[4096];
    assert_int_equal(symlink("far", file_join(link_path, test_directory, "dangling")), 0);
    assert_int_equal(symlink(file_join(place, test_directory, "new"), file_join(far, test_directory, "far")), 0);
    assert_true(file_can_be_written(link_path));
    assert_ok(file_write(link_path, "fourth", 6, &test_error));
    assert_true(lstat(link_path, &status) == 0 && S_ISLNK(status.st_mode));
    assert_true(lstat(far, &status) == 0 && S_ISLNK(status.st_mode));
    assert_true(lstat(place, &status) == 0 && S_ISREG(status.st_mode));
    assert_holds(place, "fourth");
}

/* As long as the file system takes it; one that is longer is told before any work. */
static void writes_long_names(void **state) {
    (void)state;
    char path[4096], name[300];
    for (int length = 240; length <= 256; length++) {
        memset(name, 'n', (size_t)length);
        name[length] = '\0';
        file_join(path, test_directory, name);
        assert_true(file_can_be_written(path) == (length < 256));
        if (length < 256)
            assert_ok(file_write(path, "x", 1, &test_error));
        else
            assert_status(file_write(path, "x", 1, &test_error), PS_IO, "File name too long");
        unlink(path);
    }
}

/* In a directory that one may write, but not list. */
static void writes_where_it_cannot_list(void **state) {
    (void)state;
    char path[4096];
    int status;
    assert_int_equal(mkdir(file_join(path, test_directory, "drop"), 0700), 0);
    assert_int_equal(chmod(path, 01733), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(path) != 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(2);
        if (geteuid() != 65534 && chmod(".", 0333) != 0) _exit(3);
        _exit(!file_can_be_written("dropped") || file_write("dropped", "x", 1, NULL) != PS_OK);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_ok(file_remove_directory(path, &test_error));
}

/* The file-size limit makes write() fail with EFBIG, for root too. */
static void failing_write_leaves_the_old_file(void **state) {
    (void)state;
    char path[4096];
    file_join(path, test_directory, "kept");
    assert_ok(file_write(path, "old", 3, &test_error));
    int before = count_files();
    struct rlimit old_limit, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    char *large = calloc(1, 100000);
    assert_non_null(large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum ps_status status = file_write(path, large, 100000, &test_error);
    setrlimit(RLIMIT_FSIZE, &old_limit);
    free(large);
    assert_status(status, PS_IO, "kept: cannot write: File too large");
    assert_holds(path, "old");
    assert_int_equal(count_files(), before);
}

/* Nothing is left of a file that could not be made, and files that are there are not replaced. */
static void creates_whole_files(void **state) {
    (void)state;
    char path[4096];
    file_join(path, test_directory, "created");
    const struct file_piece pieces[] = {{"01234", 5}, {"56789", 5}};
    const int before = count_files();
    struct rlimit old_limit, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 7;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const enum ps_status status = file_create(path, pieces, 2, &test_error);
    setrlimit(RLIMIT_FSIZE, &old_limit);
    assert_status(status, PS_IO, "created: cannot write: File too large");
    assert_int_equal(count_files(), before);
    assert_ok(file_create(path, pieces, 2, &test_error));
    assert_holds(path, "0123456789");
    assert_status(file_create(path, pieces, 1, &test_error), PS_IO, "created: cannot write: File exists");
    assert_holds(path, "0123456789");
}

/* A name that another program's new file has is passed over, and its file stays; there are a hundred names. */
static void passes_over_names_that_are_taken(void **state) {
    (void)state;
    enum { NAMES = 100 };
    char path[4096], taken[NAMES][5000];
    file_join(path, test_directory, "contended");
    for (int n = 0; n < NAMES; n++) snprintf(taken[n], sizeof taken[n], "%s.%ld-%d.tmp", path, (long)getpid(), n);
    for (int n = 0; n < NAMES - 1; n++) test_file_write(taken[n], "other", 5);
    assert_ok(file_write(path, "own", 3, &test_error));
    assert_holds(path, "own");
    test_file_write(taken[NAMES - 1], "other", 5);
    assert_status(file_write(path, "more", 4, &test_error), PS_IO, "contended: cannot write: File exists");
    assert_holds(path, "own");
    for (int n = 0; n < NAMES; n++) {
        assert_holds(taken[n], "other");
        assert_int_equal(unlink(taken[n]), 0);
    }
}

/* Files and directories are for everybody whom the program's mask lets, and no file can be run. */
static void gives_the_usual_permissions(void **state) {
    (void)state;
    static const mode_t masks[] = {0, 027};
    const struct file_piece piece = {"x", 1};
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        char path[3][4096];
        struct stat status;
        for (int p = 0; p < 3; p++) {
            char name[32];
            snprintf(name, sizeof name, "permitted%zu-%d", m, p);
            file_join(path[p], test_directory, name);
        }
        const mode_t before = umask(masks[m]);
        const enum ps_status made[] = {file_write(path[0], "x", 1, &test_error), file_create(path[1], &piece, 1, &test_error),
                                       file_make_directory(path[2], &test_error)};
        umask(before);
        for (int p = 0; p < 3; p++) {
            assert_ok(made[p]);
            assert_int_equal(stat(path[p], &status), 0);
            assert_int_equal(status.st_mode & 0777, (p < 2 ? 0666 : 0777) & ~masks[m]);
        }
        /* Those of a file that is replaced stay. */
        assert_int_equal(chmod(path[0], 0640), 0);
        umask(077);
        const enum ps_status again = file_write(path[0], "y", 1, &test_error);
        umask(before);
        assert_ok(again);
        assert_int_equal(stat(path[0], &status), 0);
        assert_int_equal(status.st_mode & 0777, 0640);
    }
}

/* A piece without data changes nothing, wherever it stands. */
static void sums_pieces(void **state) {
    (void)state;
    const struct file_piece pieces[] = {{"", 0}, {"1234", 4}, {NULL, 0}, {"56789", 5}, {NULL, 0}};
    assert_int_equal(file_checksum(pieces, 5), 0xcbf43926); /* the check value of CRC-32 */
    assert_int_equal(file_checksum(pieces, 1), 0);
}

/* The status with which a process ends that is no user's of this machine, and whose standard output is `path`: 0 if it writes
 * there. */
static int stranger_writes(const char *path, int flags) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const int out = open(path, flags | O_CREAT, 0600);
        if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(2);
        if (file_can_be_written("/dev/stdout") != (flags != O_RDONLY) || file_can_be_written("/dev/new")) _exit(3);
        _exit(flags != O_RDONLY && file_write("/dev/stdout", "here", 4, NULL) != PS_OK ? 4 : 0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Whoever may not write into a directory may write into what is open there. */
static void writes_what_is_open(void **state) {
    (void)state;
    char path[4096], long_name[5000];
    file_join(path, test_directory, "open");
    assert_int_equal(stranger_writes(path, O_WRONLY), 0);
    assert_holds(path, "here");
    assert_int_equal(stranger_writes(path, O_RDONLY), 0);
    assert_true(file_can_be_written(path) && file_can_be_written("/dev/null"));
    assert_false(file_can_be_written("/nowhere/here"));
    /* In the directory above all, and in the one where the program runs. */
    assert_int_equal(file_can_be_written("/no-file-has-this-name"), access("/", W_OK) == 0);
    assert_int_equal(file_can_be_written("no-file-has-this-name"), access(".", W_OK) == 0);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_false(file_can_be_written(long_name));
    assert_status(file_write(long_name, "", 0, &test_error), PS_IO, "cannot write: File name too long");
}

static void removes_directories(void **state) {
    (void)state;
    char path[4096], name[4096];
    assert_ok(file_make_directory(file_join(path, test_directory, "removed"), &test_error));
    assert_ok(file_write(file_join(name, path, "one"), "1", 1, &test_error));
    assert_ok(file_write(file_join(name, path, "two"), "2", 1, &test_error));
    assert_ok(file_remove_directory(path, &test_error));
    assert_false(file_exists(path));
    assert_ok(file_remove_directory(path, &test_error));
    assert_ok(file_make_directory(file_join(name, path, "inner"), &test_error));
    assert_status(file_remove_directory(path, &test_error), PS_IO, "cannot remove the directory: Directory not empty");
    assert_ok(file_remove_directory(name, &test_error));
    assert_ok(file_remove_directory(path, &test_error));
    /* Of a link, to a directory or to nothing, the link alone. */
    char link_path[4096];
    assert_ok(file_make_directory(path, &test_error));
    assert_ok(file_write(file_join(name, path, "one"), "1", 1, &test_error));
    for (int there = 1; there >= 0; there--) {
        assert_int_equal(symlink(there ? "removed" : "nothing", file_join(link_path, test_directory, "removed-link")), 0);
        assert_ok(file_remove_directory(link_path, &test_error));
        assert_int_equal(readlink(link_path, (char[1]){0}, 1), -1);
        assert_holds(name, "1");
    }
    /* A directory's own links as well. */
    assert_int_equal(symlink("one", file_join(link_path, path, "link")), 0);
    assert_ok(file_remove_directory(path, &test_error));
    assert_false(file_exists(path));
}

static void syncs_streams(void **state) {
    (void)state;
    char path[4096];
    FILE *stream = fopen(file_join(path, test_directory, "stream"), "w");
    assert_non_null(stream);
    assert_ok(file_sync_stream(stream, path, &test_error));
    assert_int_equal(close(fileno(stream)), 0);
    assert_status(file_sync_stream(stream, path, &test_error), PS_IO, "stream: cannot write: Bad file descriptor");
    fclose(stream);
}

static void writing_that_cannot_start(void **state) {
    (void)state;
    char path[4096], longest[5000];
    file_join(path, test_directory, "no/such/place");
    assert_status(file_write(path, "x", 1, &test_error), PS_IO, "place: cannot write: No such file");
    assert_status(file_write(test_directory, "x", 1, &test_error), PS_IO, "cannot write: Is a directory");
    assert_status(file_write("/dev/full", "x", 1, &test_error), PS_IO, "/dev/full: cannot write: No space left");
    assert_ok(file_write("/dev/null", "x", 1, &test_error));
    struct stat status;
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_status(file_write(longest, "x", 1, &test_error), PS_IO, "too long");
    assert_status(file_make_directory(longest, &test_error), PS_IO, "too long");
}

static void reads_within_limits(void **state) {
    (void)state;
    char path[4096], *data = NULL;
    size_t size = 0;
    file_join(path, test_directory, "ten");
    test_file_write(path, "0123456789", 10);
    assert_ok(file_read(path, 10, &data, &size, &test_error));
    assert_int_equal(size, 10);
    free(data);
    assert_status(file_read(path, 9, &data, &size, &test_error), PS_BAD_INPUT, "ten: holds more than the 9 bytes expected");
    const int endless = open("/dev/zero", O_RDONLY);
    snprintf(path, sizeof path, "/dev/fd/%d", endless);
    assert_status(file_read(path, 100000, &data, &size, &test_error), PS_BAD_INPUT, "more than the 100000");
    close(endless);
    file_join(path, test_directory, "missing");
    assert_status(file_read(path, 9, &data, &size, &test_error), PS_BAD_INPUT, "missing: cannot open: No such file");
    assert_status(file_read(test_directory, 9, &data, &size, &test_error), PS_BAD_INPUT, "cannot read: Is a directory");
}

/* A pipe that nobody writes to is refused at once; a descriptor that is named as one may be a pipe. */
static void reads_regular_files(void **state) {
    (void)state;
    char path[4096], *data;
    size_t size;
    struct file_map map;
    int ends[2];
    assert_int_equal(mkfifo(file_join(path, test_directory, "pipe"), 0600), 0);
    alarm(20); /* where opening blocks */
    assert_status(file_read(path, 100, &data, &size, &test_error), PS_BAD_INPUT, "pipe: not a regular file");
    assert_status(file_map(path, &map, &test_error), PS_BAD_INPUT, "pipe: not a regular file");
    assert_status(file_read("/dev/zero", 100, &data, &size, &test_error), PS_BAD_INPUT, "not a regular file");
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "text", 4), 4);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_ok(file_read(path, 100, &data, &size, &test_error));
    assert_string_equal(data, "text");
    alarm(0);
    close(ends[0]);
    free(data);
}

static void unpacks(void **state) {
    (void)state;
    enum { SIZE = 300000 };
    char path[4096], *data = NULL, *packed = NULL, *wanted = malloc(SIZE);
    size_t size = 0, packed_size = 0;
    assert_non_null(wanted);
    for (size_t i = 0; i < SIZE; i++) wanted[i] = (char)random_below(test_key(1), i, 40);
    file_join(path, test_directory, "a.gz");
    gzFile out = gzopen(path, "wb");
    assert_int_equal(gzwrite(out, wanted, SIZE), SIZE);
    assert_int_equal(gzclose(out), Z_OK);
    assert_ok(file_read(path, SIZE, &data, &size, &test_error));
    assert_int_equal(size, SIZE);
    assert_memory_equal(data, wanted, SIZE);
    free(data);
    assert_status(file_read(path, SIZE - 1, &data, &size, &test_error), PS_BAD_INPUT, "more than the 299999");

    char plain[4096];
    file_join(plain, test_directory, "packed");
    assert_int_equal(rename(path, plain), 0);
    assert_ok(file_read(plain, SIZE, &packed, &packed_size, &test_error));
    test_file_write(path, packed, packed_size / 2);
    assert_status(file_read(path, SIZE, &data, &size, &test_error), PS_BAD_INPUT, "a.gz: cannot unpack: the file is cut off");
    packed[packed_size / 2] ^= 1;
    test_file_write(path, packed, packed_size);
    assert_status(file_read(path, SIZE, &data, &size, &test_error), PS_BAD_INPUT, "a.gz: cannot unpack: i"); /* no "<fd:3>" */
    test_file_write(path, "not packed at all", 17);
    assert_status(file_read(path, SIZE, &data, &size, &test_error), PS_BAD_INPUT, "a.gz: cannot unpack: not a gzip file");
    test_file_write(path, "", 0);
    assert_status(file_read(path, SIZE, &data, &size, &test_error), PS_BAD_INPUT, "a.gz: cannot unpack: ");
    free(packed);
    free(wanted);
}

/* Linux opens a process's memory as a file of which address 0 cannot be read, as a disk does of a damaged sector. */
static void unreadable(void **state) {
    char path[4096], *data;
    size_t size;
    (void)state;
    assert_int_equal(symlink("/proc/self/mem", file_join(path, test_directory, "memory")), 0);
    assert_status(file_read(path, 100, &data, &size, &test_error), PS_IO, "memory: cannot read: Input/output error");
    assert_int_equal(symlink("/proc/self/mem", file_join(path, test_directory, "memory.gz")), 0);
    assert_status(file_read(path, 100, &data, &size, &test_error), PS_IO, "memory.gz: cannot read: Input/output error");
}

static void directories(void **state) {
    (void)state;
    char path[4096], file[4096];
    file_join(path, test_directory, "x/y/z");
    assert_ok(file_make_directory(path, &test_error));
    assert_ok(file_make_directory(path, &test_error));
    assert_true(file_exists(path));
    file_join(path, test_directory, "x/y/z/");
    assert_ok(file_make_directory(path, &test_error));
    file_join(file, path, "f");
    assert_ok(file_write(file, "x", 1, &test_error));
    assert_status(file_make_directory(file, &test_error), PS_IO, "f: cannot make the directory: Not a directory");
    file_join(path, file, "g");
    assert_status(file_make_directory(path, &test_error), PS_IO, "cannot make the directory");
    assert_ok(file_sync_directory(test_directory, &test_error));
    assert_status(file_sync_directory(path, &test_error), PS_IO, "cannot sync");
}

/* A text that memory ran out for does not become half a file. */
static void writes_whole_texts(void **state) {
    (void)state;
    char path[4096], *read;
    size_t size;
    struct text text = {0};
    file_join(path, test_directory, "text");
    text_add(&text, "%d, ", 1);
    text_add(&text, "%d", 2);
    assert_ok(file_write_text(path, &text, "numbers", &test_error));
    text.failed = true;
    assert_status(file_write_text(path, &text, "numbers", &test_error), PS_OUT_OF_MEMORY, "numbers");
    text.length = 0;
    assert_status(file_write_text(path, &text, "numbers", &test_error), PS_OUT_OF_MEMORY, "numbers");
    assert_ok(file_read(path, 64, &read, &size, &test_error));
    assert_string_equal(read, "1, 2");
    free(read);
    text_free(&text);
}

static void joins(void **state) {
    (void)state;
    char out[4096];
    assert_string_equal(file_join(out, "a", "b"), "a/b");
    assert_string_equal(file_join(out, "a/", "b"), "a/b");
    assert_string_equal(file_join(out, "", "b"), "b");
}

static int count_descriptors(void) {
    DIR *opened = opendir("/proc/self/fd");
    int count = 0;
    while (opened != NULL && readdir(opened) != NULL) count++;
    if (opened != NULL) closedir(opened);
    return count;
}

static int descriptors_at_first;

/* After all that could go wrong above no file is open that was not before. */
static void closes_what_it_opened(void **state) {
    (void)state;
    assert_int_equal(count_descriptors(), descriptors_at_first);
}

int main(void) {
    descriptors_at_first = count_descriptors();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads),
        cmocka_unit_test(writes_long_names),
        cmocka_unit_test(writes_where_it_cannot_list),
        cmocka_unit_test(failing_write_leaves_the_old_file),
        cmocka_unit_test(creates_whole_files),
        cmocka_unit_test(passes_over_names_that_are_taken),
        cmocka_unit_test(gives_the_usual_permissions),
        cmocka_unit_test(sums_pieces),
        cmocka_unit_test(writes_what_is_open),
        cmocka_unit_test(removes_directories),
        cmocka_unit_test(syncs_streams),
        cmocka_unit_test(writing_that_cannot_start),
        cmocka_unit_test(reads_within_limits),
        cmocka_unit_test(reads_regular_files),
        cmocka_unit_test(unpacks),
        cmocka_unit_test(unreadable),
        cmocka_unit_test(directories),
        cmocka_unit_test(writes_whole_texts),
        cmocka_unit_test(joins),
        cmocka_unit_test(closes_what_it_opened),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
