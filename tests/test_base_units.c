/* Sizes, rates, times and nearest names. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t wanted;
    } cases[] = {
        {"0", 0},
        {"1024", 1024},
        {"7B", 7},
        {"3kB", 3000},
        {"3KB", 3000},
        {"3KiB", 3072},
        {"2GB", 2000000000},
        {"512MiB", 536870912},
        {"512 MiB", 536870912},
        {"1.5GiB", 1610612736},
        {"0.5kB", 500},
        {".5kB", 500},
        {"1TB", 1000000000000},
        {"1TiB", 1099511627776},
        {"1e3kB", 1000000},
        {"5MB", 5000000},
        {"2kiB", 2048},
        {"3MiB", 3145728},
        {"2K", 2048},
        {"2k", 2048},
        {"3M", 3145728},
        {"1G", 1073741824},
        {"2T", 2199023255552},
        {"9007199254740993", 9007199254740993}, /* 2^53 + 1, which is no double */
        {"1048576TiB", (int64_t)1 << 60},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = -1;
        assert_ok(units_parse_size(cases[i].text, "--memory", &bytes, &test_error));
        assert_int_equal(bytes, cases[i].wanted);
    }
}

static void bad_sizes(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",   "MiB",  "-1",     "+1",  "12Mib", "12mb", "1 2", "0x10",  "inf",        "nan",
        " 5", "5 B ", "1..5MB", "1.5", "1e",    "12x",  "--5", "1e400", "2000000TiB", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t bytes = -7;
        assert_status(units_parse_size(bad[i], "--memory", &bytes, &test_error), PS_USAGE, "--memory: '");
        assert_int_equal(bytes, -7);
    }
    int64_t bytes;
    assert_status(units_parse_size("12q", "--memory", &bytes, &test_error), PS_USAGE,
                  "'12q' is not a size; accepted are 1024, 512MiB");
    assert_int_equal(units_parse_size("12q", "--memory", &bytes, NULL), PS_USAGE);
    assert_status(units_parse_size("1048577TiB", "--memory", &bytes, &test_error), PS_USAGE,
                  "--memory: '1048577TiB' is too much; the most is 1048576TiB");
    assert_status(units_parse_size("1.5B", "--memory", &bytes, &test_error), PS_USAGE,
                  "--memory: '1.5B' is not a whole number of bytes");
    assert_ok(units_parse_size("2.0", "--memory", &bytes, &test_error));
    assert_int_equal(bytes, 2);
}

static void rates_and_times(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double wanted;
    } rates[] = {{"8bit/s", 1},
                 {"100Mbit/s", 12.5e6},
                 {"100Gbps", 12.5e9},
                 {"10G", 1.25e9},
                 {"56kbps", 7000},
                 {"1Gbit/s", 125e6},
                 {"12GB/s", 12e9},
                 {"1.5MiB/s", 1572864},
                 {"5kbit/s", 625},
                 {"2GiB/s", 0x1p31},
                 {"7B/s", 7},
                 {"2kB/s", 2000},
                 {"3MB/s", 3e6},
                 {"2KiB/s", 2048},
                 {"16bps", 2},
                 {"8Kbps", 1000},
                 {"2Mbps", 25e4},
                 {"2Tbps", 25e10},
                 {"4K", 500},
                 {"4k", 500},
                 {"2M", 25e4},
                 {"2T", 25e10},
                 {"0", 0},
                 {"1000000GB/s", 1e15}},
      times[] = {{"50us", 50e-6}, {"1.5ms", 1.5e-3}, {"2s", 2}, {"3ns", 3e-9},
                 {"2min", 120},   {"1h", 3600},      {"0", 0},  {"1e9s", 1e9}};
    double value;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        assert_ok(units_parse_rate(rates[i].text, "--bandwidth", &value, &test_error));
        assert_true(fabs(value - rates[i].wanted) <= 1e-12 * rates[i].wanted);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_ok(units_parse_time(times[i].text, "--latency", &value, &test_error));
        assert_true(fabs(value - times[i].wanted) <= 1e-12 * times[i].wanted);
    }
    assert_status(units_parse_rate("100", "--bandwidth", &value, &test_error), PS_USAGE, "100Mbit/s");
    assert_status(units_parse_rate("100Mb/s", "--bandwidth", &value, &test_error), PS_USAGE,
                  "'100Mb/s' is not a rate; accepted are 100Mbit/s");
    /* In words, what is accepted. */
    int64_t bytes;
    assert_int_equal(units_parse_size("12q", "--memory", &bytes, &test_error), PS_USAGE);
    assert_string_equal(test_error.message,
                        "--memory: '12q' is not a size; accepted are 1024, 512MiB, 1.5GB, 1G (units: B, kB, MB, GB, TB, "
                        "KiB, MiB, GiB, TiB; K, M, G, T are KiB to TiB)");
    assert_int_equal(units_parse_rate("12q", "--bandwidth", &value, &test_error), PS_USAGE);
    assert_string_equal(
        test_error.message,
        "--bandwidth: '12q' is not a rate; accepted are 100Mbit/s, 12GB/s, 100Gbps (units: bit/s, kbit/s, Mbit/s, Gbit/s, "
        "B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s; bps, kbps, Mbps, Gbps and K, M, G are bits per second)");
    assert_int_equal(units_parse_time("12q", "--latency", &value, &test_error), PS_USAGE);
    assert_string_equal(test_error.message,
                        "--latency: '12q' is not a time; accepted are 50us, 1.5ms, 2s (units: ns, us, ms, s, min, h)");
    assert_status(units_parse_rate("9e9GB/s", "--bandwidth", &value, &test_error), PS_USAGE, "too much");
    assert_status(units_parse_time("5", "--latency", &value, &test_error), PS_USAGE,
                  "'5' is not a time; accepted are 50us, 1.5ms");
    assert_status(units_parse_time("-5s", "--latency", &value, &test_error), PS_USAGE, "--latency");
    assert_status(units_parse_rate("1000001GB/s", "--bandwidth", &value, &test_error), PS_USAGE, "the most is 1000000GB/s");
    assert_status(units_parse_time("1000000001s", "--latency", &value, &test_error), PS_USAGE, "the most is 1e9s");
    assert_status(units_parse_time("1e12h", "--latency", &value, &test_error), PS_USAGE, "too much");
}

static void nearest_names(void **state) {
    (void)state;
    static const char *const names[] = {"lenet5", "alexnet", "vgg16", "resnet8", "1f1b", "2bw"};
    size_t count = sizeof names / sizeof names[0];
    static const struct {
        const char *word, *wanted;
    } cases[] = {{"lenet", "lenet5"},    {"LeNet5", "lenet5"}, {"vgg", "vgg16"}, {"vg16", "vgg16"},
                 {"alxenet", "alexnet"}, {"1fb1", "1f1b"},     {"bw", "2bw"},    {"resnt", "resnet8"},
                 {"transformer", NULL},  {"x", NULL},          {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = nearest_name(cases[i].word, names, count);
        if (cases[i].wanted == NULL) assert_null(found);
        if (cases[i].wanted != NULL) assert_string_equal(found, cases[i].wanted);
    }
    /* A third of the letters, rounded up, may be wrong, and as many letters as the name has may not. */
    static const struct {
        const char *word, *name;
        bool found;
    } pairs[] = {{"abcdxyz", "abcdefg", true},
                 {"abcwxyz", "abcdefg", false},
                 {"abcxyz", "abcdef", true},
                 {"abwxyz", "abcdef", false},
                 {"ab", "a", false},
                 {"ab", "ac", true},
                 {"abxy", "abyx", true},
                 {"axy", "ab", false},
                 /* Two letters that changed places are one mistake, also the first two, and the last. */
                 {"ba", "ab", true},
                 {"badce", "abcde", true},
                 {"bacde", "abxyz", false}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(nearest_name(pairs[i].word, &pairs[i].name, 1) != NULL, pairs[i].found);
    static const char *const alike[] = {"worker", "workers", "works"};
    assert_string_equal(nearest_name("workes", alike, 3), "worker"); /* the first of those that are as near */
    char name[66];
    memset(name, 'b', sizeof name);
    for (int length = 64; length < 66; length++) {
        const char *long_name = name;
        name[length] = '\0';
        assert_int_equal(nearest_name(name, &long_name, 1) != NULL, length == 64);
        name[length] = 'b';
    }
    char longest[1000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(nearest_name(longest, names, count));
    assert_null(nearest_name("lenet5", names, 0));
}

static void units_for_people(void **state) {
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 B"},
                 {-1, "-1 B"},
                 {1023, "1023 B"},
                 {1024, "1.00 KiB"},
                 {-2048, "-2.00 KiB"},
                 {10234, "9.99 KiB"},
                 {10235, "10.0 KiB"},
                 {102348, "99.9 KiB"},
                 {102349, "100 KiB"},
                 {1048063, "1023 KiB"},
                 {1048064, "1.00 MiB"},
                 {((int64_t)1 << 20) - 1, "1.00 MiB"},
                 {1289748, "1.23 MiB"},
                 {(int64_t)3 << 30, "3.00 GiB"},
                 {(int64_t)1 << 40, "1.00 TiB"},
                 {(int64_t)5 << 50, "5.00 PiB"},
                 {INT64_MAX, "8192 PiB"}};
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "0 s"},
                 {1e-12, "0.00 ns"},
                 {0.9994e-6, "999 ns"},
                 {0.9996e-6, "1.00 us"},
                 {45.6e-6, "45.6 us"},
                 {0.9994e-3, "999 us"},
                 {9.999e-4, "1.00 ms"},
                 {1.5e-3, "1.50 ms"},
                 {-1.5e-3, "-1.50 ms"},
                 {0.9994, "999 ms"},
                 {0.9996, "1.00 s"},
                 {90, "90.0 s"},
                 {119.93, "120 s"},
                 {119.95, "2.00 min"},
                 {300, "5.00 min"},
                 {7196, "120 min"},
                 {7197, "2.00 h"},
                 {7200, "2.00 h"},
                 {36e6, "10000 h"}};
    char out[32];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_string_equal(text_bytes(sizes[i].bytes, out), sizes[i].text);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(text_seconds(times[i].seconds, out), times[i].text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(bad_sizes),        cmocka_unit_test(rates_and_times),
        cmocka_unit_test(nearest_names), cmocka_unit_test(units_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
