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
}

static void rates_and_times(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double wanted;
    } rates[] =
        {{"8bit/s", 1},    {"100Mbit/s", 12.5e6}, {"100Gbps", 12.5e9}, {"10G", 1.25e9},    {"56kbps", 7000}, {"1Gbit/s", 125e6},
         {"12GB/s", 12e9}, {"1.5MiB/s", 1572864}, {"5kbit/s", 625},    {"2GiB/s", 0x1p31}, {"7B/s", 7},      {"2kB/s", 2000},
         {"3MB/s", 3e6},   {"2KiB/s", 2048},      {"16bps", 2},        {"8Kbps", 1000},    {"2Mbps", 25e4},  {"2Tbps", 25e10},
         {"4K", 500},      {"4k", 500},           {"2M", 25e4},        {"2T", 25e10},      {"0", 0}},
      times[] = {{"50us", 50e-6}, {"1.5ms", 1.5e-3}, {"2s", 2}, {"3ns", 3e-9}, {"2min", 120}, {"1h", 3600}, {"0", 0}};
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
    assert_status(units_parse_rate("9e9GB/s", "--bandwidth", &value, &test_error), PS_USAGE, "too much");
    assert_status(units_parse_time("5", "--latency", &value, &test_error), PS_USAGE,
                  "'5' is not a time; accepted are 50us, 1.5ms");
    assert_status(units_parse_time("-5s", "--latency", &value, &test_error), PS_USAGE, "--latency");
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
    char longest[1000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(nearest_name(longest, names, count));
    assert_null(nearest_name("lenet5", names, 0));
}

static void units_for_people(void **state) {
    (void)state;
    char out[32];
    assert_string_equal(text_bytes(0, out), "0 B");
    assert_string_equal(text_bytes(1023, out), "1023 B");
    assert_string_equal(text_bytes(1024, out), "1.00 KiB");
    assert_string_equal(text_bytes(1289748, out), "1.23 MiB");
    assert_string_equal(text_bytes((int64_t)1 << 40, out), "1.00 TiB");
    assert_string_equal(text_bytes(((int64_t)1 << 20) - 1, out), "1.00 MiB");
    assert_string_equal(text_bytes(INT64_MAX, out), "8192 PiB");
    assert_string_equal(text_seconds(0, out), "0 s");
    assert_string_equal(text_seconds(45.6e-6, out), "45.6 us");
    assert_string_equal(text_seconds(9.999e-4, out), "1.00 ms");
    assert_string_equal(text_seconds(1.5e-3, out), "1.50 ms");
    assert_string_equal(text_seconds(90, out), "90.0 s");
    assert_string_equal(text_seconds(300, out), "5.00 min");
    assert_string_equal(text_seconds(7200, out), "2.00 h");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(bad_sizes),        cmocka_unit_test(rates_and_times),
        cmocka_unit_test(nearest_names), cmocka_unit_test(units_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
