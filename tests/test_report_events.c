/*
 * A run's log in other forms. Event files for TensorBoard are read here without its libraries: each record's checksums, and all
 * of its fields as text. tests/test_report.sh has TensorBoard's own reader read one, where it is installed.
 */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/file.h"
#include "base/text.h"
#include "report/events.h"
#include "support.h"

/* ------------------------------------------------------------------------- reading */

/* CRC-32C, from its table of polynomials x^8 to x^15. */
static uint32_t checksum(const unsigned char *data, size_t size) {
    uint32_t table[256], crc = UINT32_MAX;
    for (uint32_t n = 0; n < 256; n++) {
        table[n] = n;
        for (int bit = 0; bit < 8; bit++) table[n] = table[n] & 1 ? table[n] >> 1 ^ 0x82f63b78u : table[n] >> 1;
    }
    for (size_t i = 0; i < size; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return ~crc;
}

static uint64_t little_endian(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static void check_masked(const unsigned char *data, size_t size, const unsigned char *sum) {
    const uint32_t crc = checksum(data, size), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    assert_int_equal(little_endian(sum, 4), masked);
}

static uint64_t varint(const unsigned char **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

/* The fields of a message: "1:0.5 2:7", those that are messages in brackets; of the first field of all, the time, only that it
 * is now. A text is one where the field is the 3 of an event or the 1 of a value. */
static void add_fields(const unsigned char *at, const unsigned char *end, int depth, struct text *out) {
    for (bool first = true; at < end; first = false) {
        const uint64_t key = varint(&at), field = key >> 3, bits = (key & 7) == 0 ? varint(&at) : 0;
        double number;
        float single;
        text_add(out, "%s%d:", first ? "" : " ", (int)field);
        switch (key & 7) {
        case 0:
            text_add(out, "%llu", (unsigned long long)bits);
            break;
        case 1:
            memcpy(&number, at, sizeof number);
            assert_true(fabs(number - (double)time(NULL)) < 100);
            text_add(out, "now");
            at += 8;
            break;
        case 2: {
            const uint64_t length = varint(&at);
            const bool text = (depth == 0 && field == 3) || depth == 2;
            assert_true(length <= (size_t)(end - at));
            text_add(out, text ? "" : "[");
            if (text)
                text_add_raw(out, (const char *)at, length);
            else
                add_fields(at, at + length, depth + 1, out);
            text_add(out, text ? "" : "]");
            at += length;
            break;
        }
        case 5:
            memcpy(&single, at, sizeof single);
            text_add(out, "%.9g", (double)single);
            at += 4;
            break;
        default:
            fail_msg("a field of type %d", (int)(key & 7));
        }
    }
    assert_ptr_equal(at, end);
}

/* The records of the only event file in the directory, one in a line. */
static char *read_events(const char *directory) {
    char path[4096] = "", *data;
    size_t size;
    struct text out = {0};
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (entry->d_name[0] == '.') continue;
        assert_string_equal(path, "");
        long long second;
        int length = 0;
        assert_int_equal(sscanf(entry->d_name, "events.out.tfevents.%lld.penstock%n", &second, &length), 1);
        assert_int_equal(length, strlen(entry->d_name));
        assert_true(llabs(second - (long long)time(NULL)) < 100);
        file_join(path, directory, entry->d_name);
    }
    closedir(entries);
    assert_ok(file_read(path, 1 << 20, &data, &size, &test_error));
    const unsigned char *at = (const unsigned char *)data, *end = at + size;
    while (at < end) {
        const uint64_t length = little_endian(at, 8);
        check_masked(at, 8, at + 8);
        assert_true(length < size);
        check_masked(at + 12, length, at + 12 + length);
        add_fields(at + 12, at + 12 + length, 0, &out);
        text_add(&out, "\n");
        at += 16 + length;
    }
    assert_ptr_equal(at, end);
    free(data);
    return text_take(&out);
}

/* ----------------------------------------------------------------------------- the tests */

static void add_line(struct event_file *file, const char *line) {
    json_t *entry = json_loads(line, 0, NULL);
    assert_non_null(entry);
    assert_ok(event_file_add(file, entry, &test_error));
    json_decref(entry);
}

static void test_new(void **state) {
    (void)state;
    struct event_file *file;
    assert_ok(event_file_open(test_directory, 0, &file, &test_error));
    add_line(file, "{\"step\": 3, \"epoch\": 1, \"loss\": 2.5, \"accuracy\": 0.25, \"top5\": 0.5, \"perplexity\": 12.25, "
                   "\"lr\": 0.0625, \"samples_per_s\": 100.5, \"elapsed_s\": 3, \"training_s\": 2, \"busy_s\": [0.5, 2.5]}");
    add_line(file,
             "{\"step\": 300, \"valid_loss\": 1.5, \"valid_accuracy\": 0.75, \"valid_top5\": 0.875, \"valid_perplexity\": 4.5, "
             "\"valid_bleu\": 20, \"loss\": null}");
    /* Since the line before the last, which had the times; and none has passed. */
    add_line(file, "{\"step\": 301, \"training_s\": 6, \"busy_s\": [3.5, 2.5]}");
    add_line(file, "{\"step\": 302, \"training_s\": 6, \"busy_s\": [3.5, 2.5]}");
    add_line(file, "{\"step\": 303, \"training_s\": 7, \"busy_s\": 3}");
    add_line(file, "{\"step\": 304, \"busy_s\": [4, 4]}");
    add_line(file, "{\"step\": 305, \"training_s\": 8, \"busy_s\": [4, 2.5]}");
    event_file_close(file);
    char *events = read_events(test_directory);
    assert_string_equal(
        events, "1:now 2:0 3:brain.Event:2\n"
                "1:now 2:3 5:[1:[1:loss/training 2:2.5] 1:[1:accuracy/training 2:0.25] 1:[1:top5/training 2:0.5] "
                "1:[1:perplexity/training 2:12.25] 1:[1:learning_rate 2:0.0625] 1:[1:samples_per_s 2:100.5] 1:[1:epoch 2:1] "
                "1:[1:idle/worker_0 2:0.75] 1:[1:idle/worker_1 2:0]]\n"
                "1:now 2:300 5:[1:[1:loss/validation 2:1.5] 1:[1:accuracy/validation 2:0.75] 1:[1:top5/validation 2:0.875] "
                "1:[1:perplexity/validation 2:4.5] 1:[1:bleu/validation 2:20]]\n"
                "1:now 2:301 5:[1:[1:idle/worker_0 2:0.25] 1:[1:idle/worker_1 2:1]]\n"
                "1:now 2:302 5:[]\n"
                "1:now 2:303 5:[]\n"
                "1:now 2:304 5:[]\n"
                "1:now 2:305 5:[1:[1:idle/worker_0 2:0.75] 1:[1:idle/worker_1 2:1]]\n");
    free(events);
}

/* A run that goes on after a step: what is known of later ones does not count, and of the time before nothing is known. */
static void check_resumed(int after) {
    struct event_file *file;
    char first[80], second[80], wanted[160];
    snprintf(first, sizeof first, "{\"step\": %d, \"training_s\": 2, \"busy_s\": [0.5]}", after + 1);
    snprintf(second, sizeof second, "{\"step\": %d, \"training_s\": 4, \"busy_s\": [1]}", after + 2);
    snprintf(wanted, sizeof wanted,
             "1:now 2:0 3:brain.Event:2\n"
             "1:now 2:%d 7:[1:1]\n"
             "1:now 2:%d 5:[]\n"
             "1:now 2:%d 5:[1:[1:idle/worker_0 2:0.75]]\n",
             after + 1, after + 1, after + 2);
    assert_ok(event_file_open(test_directory, after, &file, &test_error));
    add_line(file, first);
    add_line(file, second);
    event_file_close(file);
    char *events = read_events(test_directory);
    assert_string_equal(events, wanted);
    free(events);
}

static void test_resumed(void **state) {
    (void)state;
    check_resumed(7);
}

static void test_resumed_after_one_step(void **state) {
    (void)state;
    check_resumed(1);
}

/* No more workers than can be told apart; two files of one second; a directory that is not there. */
static void test_bounds(void **state) {
    (void)state;
    struct event_file *file, *other;
    struct text line = {0};
    text_add(&line, "{\"step\": 1, \"training_s\": 1, \"busy_s\": [");
    for (int w = 0; w < 70; w++) text_add(&line, "%s0", w > 0 ? ", " : "");
    text_add(&line, "]}");
    assert_ok(event_file_open(test_directory, 0, &file, &test_error));
    add_line(file, line.data);
    event_file_close(file);
    text_free(&line);
    char *events = read_events(test_directory);
    assert_true(strstr(events, "idle/worker_63 ") && !strstr(events, "idle/worker_64"));
    free(events);
    assert_ok(event_file_open(test_directory, 0, &file, &test_error));
    assert_ok(event_file_open(test_directory, 0, &other, &test_error));
    event_file_close(file);
    event_file_close(other);
    event_file_close(NULL);
    char nowhere[4096];
    file_join(nowhere, test_directory, "nowhere");
    assert_status(event_file_open(nowhere, 0, &file, &test_error), PS_IO, ".penstock: cannot write: No such file");
}

/* Files may not grow beyond so many bytes; returns the limit that was. */
static rlim_t limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

/* A disk that is full is told, and a file that could not be begun is none. */
static void test_full(void **state) {
    (void)state;
    struct event_file *file = NULL;
    json_t *line = json_loads("{\"step\": 1, \"loss\": 2}", 0, NULL);
    assert_non_null(line);
    signal(SIGXFSZ, SIG_IGN);
    const rlim_t usual = limit_files(10);
    const enum ps_status begun = event_file_open(test_directory, 0, &file, &test_error);
    limit_files(usual);
    assert_status(begun, PS_IO, ".penstock: cannot write: File too large");
    assert_null(file);
    assert_ok(event_file_open(test_directory, 0, &file, &test_error));
    assert_ok(event_file_add(file, line, &test_error));
    limit_files(100);
    enum ps_status added = PS_OK;
    for (int l = 0; l < 10 && added == PS_OK; l++) added = event_file_add(file, line, &test_error);
    limit_files(usual);
    signal(SIGXFSZ, SIG_DFL);
    assert_status(added, PS_IO, ".penstock: cannot write: File too large");
    event_file_close(file);
    json_decref(line);
}

/* Of each field a column, of a list as many as it ever has, in the order in which they come; what a line lacks is empty. */
static void test_csv(void **state) {
    (void)state;
    static const struct {
        const char *log, *csv;
    } cases[] = {
        {"", "\n"},
        {"{\"step\": 1}\n", "step\n1\n"},
        {"{\"busy_s\": [0.5], \"step\": 1, \"loss\": 1e-7}\n{\"step\": 2, \"busy_s\": [1, 0.123456789], \"lr\": 2}\n"
         "{\"step\": 3, \"loss\": \"high\", \"busy_s\": [0.25], \"lr\": null}\n{\"step\": 4, \"lo",
         "busy_s_0,busy_s_1,step,loss,lr\n0.5,,1,1e-07,\n1,0.123456789,2,,2\n0.25,,3,,\n"},
    };
    char log[4096], path[4096], *text;
    size_t size;
    test_file_write(file_join(path, test_directory, "config.json"), "{}", 2);
    file_join(log, test_directory, "log.jsonl");
    file_join(path, test_directory, "log.csv");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        test_file_write(log, cases[c].log, strlen(cases[c].log));
        assert_ok(ps_report_csv(test_directory, path, &test_error));
        assert_ok(file_read(path, 1 << 16, &text, &size, &test_error));
        assert_string_equal(text, cases[c].csv);
        free(text);
    }
    test_file_write(log, "{\"step\": 1}\n\n", 13);
    assert_status(ps_report_csv(test_directory, path, &test_error), PS_BAD_INPUT, "log.jsonl: line 2 is not a line of a log");
    test_file_write(log, "{\"step\": 1.5}\n", 14);
    assert_status(ps_report_csv(test_directory, path, &test_error), PS_BAD_INPUT, "log.jsonl: line 1 is not a line of a log");
    /* A run without a log, and what is no run. */
    assert_int_equal(remove(log), 0);
    assert_ok(ps_report_csv(test_directory, path, &test_error));
    assert_ok(file_read(path, 1 << 16, &text, &size, &test_error));
    assert_string_equal(text, "\n");
    free(text);
    file_join(log, test_directory, "nowhere");
    assert_status(ps_report_csv(log, path, &test_error), PS_BAD_INPUT,
                  "nowhere: is not a run's directory: there is no config.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_resumed, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_resumed_after_one_step, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_full, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_csv, test_directory_set_up, test_directory_tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
