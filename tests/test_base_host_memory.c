/* The limits of control groups, in trees of files as both versions of cgroups have them. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/host_memory.h"
#include "base/processor.h"
#include "descriptors.h"
#include "support.h"

static char root[4096];

/* Writes a file and the directories above it. */
static void put(const char *name, const char *text) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *end = path + strlen(root); (end = strchr(end + 1, '/'));) {
        *end = '\0';
        mkdir(path, 0700);
        *end = '/';
    }
    assert_ok(file_write(path, text, strlen(text), &test_error));
}

static void begin(const char *name, const char *group, const char *mounts) {
    snprintf(root, sizeof root, "%s/%s", test_directory, name);
    mkdir(root, 0700);
    put("proc/meminfo", "MemTotal:       16000 kB\nMemFree:   1 kB\nMemAvailable:    8000 kB\n");
    put("proc/self/cgroup", group);
    put("proc/self/mountinfo", mounts);
}

static void assert_memory(int64_t total, int64_t free) {
    const struct host_memory memory = host_memory_read_under(root);
    assert_int_equal(memory.installed, 16000 * 1024);
    assert_int_equal(memory.total, total);
    assert_int_equal(memory.free, free);
}

#define DISK "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
#define V2 DISK "35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                                                                     \
    DISK "36 25 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"                                         \
         "37 25 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define GROUP "sys/fs/cgroup/"

static void test_version_2(void **state) {
    (void)state;
    begin("two", "0::/job/step\n", V2);
    put(GROUP "job/step/memory.max", "max\n");
    put(GROUP "job/step/memory.current", "700000\n");
    assert_memory(16000 * 1024, 8000 * 1024); /* "max" is no limit */
    put(GROUP "job/memory.max", "3000000\n");
    put(GROUP "job/memory.current", "1000000\n");
    assert_memory(3000000, 2000000); /* a group above it has one */
    put(GROUP "job/memory.stat", "anon 600000\ninactive_file_x 5\ninactive_file 400000\n");
    assert_memory(3000000, 2400000); /* what was read from files can be dropped */
    put(GROUP "job/step/memory.max", "800000\n");
    assert_memory(800000, 100000); /* the smallest counts */
    put(GROUP "job/step/memory.current", "900000\n");
    assert_memory(800000, 0);
    put(GROUP "job/step/memory.max", "99999999999\n");
    put(GROUP "job/memory.max", "99999999999\n");
    assert_memory(16000 * 1024, 8000 * 1024); /* more than the machine has is no limit */
}

static void test_version_1(void **state) {
    (void)state;
    begin("one", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/a/b\n0::/\n", V1);
    put(GROUP "memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    assert_memory(16000 * 1024, 8000 * 1024);
    put(GROUP "memory/a/memory.limit_in_bytes", "5000000\n");
    put(GROUP "memory/a/memory.usage_in_bytes", "2000000\n");
    put(GROUP "memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 500000\n");
    assert_memory(5000000, 3500000);
    put(GROUP "cpu,cpuacct/other/memory.limit_in_bytes", "1\n"); /* another controller's */
    assert_memory(5000000, 3500000);
}

/* A container sees its own group as the top, with the whole path in /proc or with none of it. */
static void test_container(void **state) {
    (void)state;
    begin("container", "4:memory:/docker/abc/inner\n",
          "37 25 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put(GROUP "memory/memory.limit_in_bytes", "4000000\n");
    put(GROUP "memory/inner/memory.limit_in_bytes", "3000000\n");
    assert_memory(3000000, 3000000);
    put("proc/self/cgroup", "4:memory:/docker/abcdef\n"); /* not below what is mounted */
    assert_memory(4000000, 4000000);
    begin("namespace", "0::/\n", V2);
    put(GROUP "memory.max", "2000000\n");
    assert_memory(2000000, 2000000);
}

static void test_quota(void **state) {
    (void)state;
    begin("quota 2", "0::/job/step\n", V2);
    assert_int_equal(cores_quota_under(root), 0);
    put(GROUP "job/step/cpu.max", "max 100000\n");
    assert_int_equal(cores_quota_under(root), 0);
    put(GROUP "job/cpu.max", "200000 100000\n");
    assert_int_equal(cores_quota_under(root), 2);
    put(GROUP "job/step/cpu.max", "150000 100000\n"); /* a part of a core counts as one */
    put(GROUP "job/cpu.max", "300000 100000\n");
    assert_int_equal(cores_quota_under(root), 2);
    put(GROUP "job/step/cpu.max", "1000 100000\n");
    assert_int_equal(cores_quota_under(root), 1);
    begin("quota 1", "5:cpu,cpuacct:/a/b\n4:memory:/other\n0::/\n", V1);
    put(GROUP "cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    put(GROUP "cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_quota_under(root), 0);
    put(GROUP "cpu,cpuacct/a/cpu.cfs_quota_us", "350000\n");
    put(GROUP "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_quota_under(root), 4);
    assert_true(cores_usable() >= 1 && (cores_quota() == 0 || cores_usable() <= cores_quota()));
}

static void test_without(void **state) {
    (void)state;
    begin("without", "", DISK);
    assert_memory(16000 * 1024, 8000 * 1024);
    snprintf(root, sizeof root, "%s/nothing", test_directory);
    const struct host_memory memory = host_memory_read_under(root);
    assert_true(memory.installed == 0 && memory.total == 0 && memory.free == 0);
}

static void test_here(void **state) {
    (void)state;
    const struct host_memory memory = host_memory_read();
    assert_true(memory.total > 0 && memory.total <= memory.installed && memory.free <= memory.total);
}

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    assert_int_equal(level, PS_LOG_WARN);
    snprintf(context, 256, "%s", text);
}

static void test_warning(void **state) {
    (void)state;
    char said[256] = "";
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = said, .level = PS_LOG_INFO, .line = keep_line};
    const struct host_memory group = {.installed = 2048, .total = 1024, .free = 1},
                             machine = {.installed = 2048, .total = 2048}, unknown = {0};
    assert_ok(ps_log_to(&sink, &test_error));
    assert_false(host_memory_warn(&group, 1024, "they need"));
    assert_false(host_memory_warn(&unknown, 1025, "they need"));
    assert_string_equal(said, "");
    assert_true(host_memory_warn(&group, 1025, "they need"));
    assert_string_equal(said,
                        "they need 1.00 KiB of memory, more than the 1.00 KiB that their control group (cgroup) may take");
    assert_true(host_memory_warn(&machine, 4096, "2 workers need"));
    assert_string_equal(said, "2 workers need 4.00 KiB of memory, more than the 2.00 KiB that their machine has");
    assert_ok(ps_log_to(NULL, &test_error));
}

static int descriptors_at_first;

/* After all that was read above no file is open that was not before. */
static void test_closed(void **state) {
    (void)state;
    assert_int_equal(open_descriptors(), descriptors_at_first);
}

int main(void) {
    descriptors_at_first = open_descriptors();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_version_2), cmocka_unit_test(test_version_1),
                                       cmocka_unit_test(test_container), cmocka_unit_test(test_quota),
                                       cmocka_unit_test(test_without),   cmocka_unit_test(test_here),
                                       cmocka_unit_test(test_warning),   cmocka_unit_test(test_closed)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
