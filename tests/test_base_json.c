/* Strict reading, with messages that name the field; writing that reads back the same. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

static char path[4096];

static int set_up(void **state) {
    test_directory_set_up(state);
    file_join(path, test_directory, "plan.json");
    return 0;
}

static void files(void **state) {
    (void)state;
    static const struct {
        const char *text, *part; /* NULL: accepted */
    } cases[] = {
        {"{\"format\": \"penstock-plan\", \"version\": 1}", NULL},
        {"\xef\xbb\xbf{\"format\": \"penstock-plan\", \"version\": 1}", NULL},
        {"\xef\xbb\xbf{\"format\": \"penstock-plan\",\n \"version\": 2}",
         "plan.json: version: 2 is not known; this program reads version 1 (line 2)"},
        {"{\"format\": \"a\\u0000b\"}", "plan.json: line 1, column 21: a string has the character \\u0000"},
        {"", "plan.json: line 1, column "},
        {"{\"format\": \"penstock-plan\",\n \"version\": 1", "plan.json: line 2, column "},
        {"{\"format\": \"penstock-plan\", \"version\": 1} x", "plan.json: line 1, column "},
        {"{\"format\": \"penstock-plan\", \"version\": 1, \"version\": 1}", "duplicate"},
        {"[1]", "plan.json: must be an object, not an array"},
        {"{\"version\": 1}", "plan.json: format: is missing"},
        {"{\"format\": 3, \"version\": 1}", "plan.json: format: must be a string, not an integer"},
        {"{\"format\": \"penstock-profile\", \"version\": 1}", "plan.json: format: 'penstock-profile' is not 'penstock-plan'"},
        {"{\"format\": true, \"version\": 1}", "plan.json: format: must be a string, not a boolean"},
        {"{\"format\": false, \"version\": 1}", "plan.json: format: must be a string, not a boolean"},
        {"{\"format\": null, \"version\": 1}", "plan.json: format: must be a string, not null"},
        {"{\"format\": 0.5, \"version\": 1}", "plan.json: format: must be a string, not a number with a fraction"},
        {"{\"format\": {}, \"version\": 1}", "plan.json: format: must be a string, not an object"},
        {"{\"format\": \"penstock-plan\"}", "plan.json: version: is missing"},
        {"{\"format\": \"penstock-plan\", \"version\": 0}", "plan.json: version: 0 is not known"},
        {"{\"format\": \"penstock-plan\", \"version\": 2}", "plan.json: version: 2 is not known"},
        {"{\"format\": \"penstock-plan\", \"version\": 1, \"x\": \"\xff\"}", "plan.json: line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *root = NULL;
        test_file_write(path, cases[i].text, strlen(cases[i].text));
        enum ps_status status = json_read_file(path, "penstock-plan", &root, &test_error);
        if (cases[i].part == NULL) assert_ok(status);
        if (cases[i].part != NULL) {
            assert_status(status, PS_BAD_INPUT, cases[i].part);
            assert_null(root);
        }
        json_decref(root);
    }
    json_t *root;
    test_file_write(path, "[1]", 3);
    assert_ok(json_read_file(path, NULL, &root, &test_error));
    json_decref(root);
    assert_status(json_read_file(test_directory, NULL, &root, &test_error), PS_BAD_INPUT, "cannot read");
}

/* The line of the field that a message names; of what should have it, where it is missing. */
static void lines_of_fields(void **state) {
    (void)state;
    static const char text[] =
        "\n{\"format\": \"}, ]\\\" {\",\n \"a\": [1,\n 2.5e-3, {\"b\":\n true, \"ba\": {}\n}\n, null],\n\"c\": -1}\n";
    static const struct {
        const char *message, *told;
    } cases[] = {
        {"f.json: must be", "f.json: must be (line 2)"},
        {"f.json: format: is", "f.json: format: is (line 2)"},
        {"f.json: a: is", "f.json: a: is (line 3)"},
        {"f.json: a[0]: is", "f.json: a[0]: is (line 3)"},
        {"f.json: a[1]: is", "f.json: a[1]: is (line 4)"},
        {"f.json: a[2].b: is", "f.json: a[2].b: is (line 5)"},
        {"f.json: a[2].ba: is", "f.json: a[2].ba: is (line 5)"},
        {"f.json: a[2].x: is", "f.json: a[2].x: is (line 4)"},
        {"f.json: a[3]: is", "f.json: a[3]: is (line 7)"},
        {"f.json: c: is", "f.json: c: is (line 8)"},
        {"f.json: line 3, column 1: is", "f.json: line 3, column 1: is"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error_set(&test_error, PS_BAD_INPUT, "%s", cases[i].message);
        json_add_line(text, &test_error);
        assert_string_equal(test_error.message, cases[i].told);
    }
    /* Wherever there may be white space. */
    error_set(&test_error, PS_BAD_INPUT, "f.json: b[1].d: is");
    json_add_line(" { \"a\" : [ 1 , { \"x\" : 2 } ] ,\n\"b\" : [ { \"c\" : 3 } ,\n { \"c\" : 4 , \n \"d\" : 5 } ] }",
                  &test_error);
    assert_string_equal(test_error.message, "f.json: b[1].d: is (line 4)");
    static const char *const broken[] = {"", "{", "{\"a\"", "{\"a\": [", "[[[", "{\"a\": \"x\\", "]", "{\"a\" \"b\" 1 , , }"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        error_set(&test_error, PS_BAD_INPUT, "f.json: a[1].b: is");
        json_add_line(broken[i], &test_error);
        assert_non_null(strstr(test_error.message, "(line 1)"));
    }
}

static const char document[] = "{\"workers\": 4, \"name\": \"a\", \"share\": 0.5, \"big\": 9007199254740993, \"on\": true,"
                               " \"none\": null, \"stages\": [{\"layers\": [1, 2]}, {\"layer\": 3}]}";

static struct json_place load(json_t **root) {
    *root = json_loads(document, 0, NULL);
    assert_non_null(*root);
    return json_root(*root, "plan.json");
}

static void typed_reads(void **state) {
    (void)state;
    json_t *document_root;
    struct json_place root = load(&document_root);
    int workers = 0, unset = 17;
    int64_t big = 0;
    double share = 0, as_number = 0;
    const char *name = NULL;
    bool on = false;
    assert_ok(json_get_int(&root, "workers", true, 1, 8, &workers, &test_error));
    assert_ok(json_get_integer(&root, "big", true, 0, INT64_MAX, &big, &test_error));
    assert_ok(json_get_number(&root, "share", true, 0, 1, &share, &test_error));
    assert_ok(json_get_number(&root, "workers", true, 0, INFINITY, &as_number, &test_error));
    assert_ok(json_get_string(&root, "name", true, &name, &test_error));
    assert_ok(json_get_bool(&root, "on", true, &on, &test_error));
    assert_ok(json_get_int(&root, "absent", false, 1, 8, &unset, &test_error));
    assert_int_equal(workers, 4);
    assert_int_equal(big, 9007199254740993);
    assert_true(share == 0.5 && as_number == 4 && on);
    assert_string_equal(name, "a");
    assert_int_equal(unset, 17);
    json_decref(document_root);
}

static void typed_refusals(void **state) {
    (void)state;
    json_t *document_root;
    struct json_place root = load(&document_root);
    int integer = 17;
    int64_t long_integer;
    double number;
    const char *string;
    bool flag;
    assert_status(json_get_int(&root, "workers", true, 5, 8, &integer, &test_error), PS_BAD_INPUT,
                  "plan.json: workers: 4 is not an integer from 5 to 8");
    assert_status(json_get_integer(&root, "workers", true, 5, INT64_MAX, &long_integer, &test_error), PS_BAD_INPUT,
                  "plan.json: workers: 4 is not an integer of at least 5");
    assert_status(json_get_int(&root, "big", true, 0, 8, &integer, &test_error), PS_BAD_INPUT, "9007199254740993 is not");
    assert_status(json_get_int(&root, "share", true, 0, 8, &integer, &test_error), PS_BAD_INPUT,
                  "plan.json: share: must be an integer from 0 to 8, not a number with a fraction");
    assert_status(json_get_int(&root, "none", false, 0, 8, &integer, &test_error), PS_BAD_INPUT, "none: must be an integer");
    assert_status(json_get_int(&root, "absent", true, 0, 8, &integer, &test_error), PS_BAD_INPUT,
                  "plan.json: absent: is missing");
    assert_int_equal(integer, 17);
    assert_status(json_get_number(&root, "share", true, 1, 2, &number, &test_error), PS_BAD_INPUT,
                  "plan.json: share: 0.5 is not a number from 1 to 2");
    assert_status(json_get_number(&root, "share", true, -INFINITY, 0, &number, &test_error), PS_BAD_INPUT, "of at most 0");
    assert_status(json_get_number(&root, "name", true, 1, 2, &number, &test_error), PS_BAD_INPUT, "not a string");
    assert_status(json_get_string(&root, "workers", true, &string, &test_error), PS_BAD_INPUT,
                  "must be a string, not an integer");
    assert_status(json_get_bool(&root, "workers", true, &flag, &test_error), PS_BAD_INPUT, "must be true or false");
    json_decref(document_root);
}

static void places(void **state) {
    (void)state;
    json_t *document_root;
    struct json_place root = load(&document_root), stages, stage, layers;
    size_t length;
    static const char *const known[] = {"layers", "forward"};
    assert_ok(json_field(&root, "stages", true, &stages, &test_error));
    assert_ok(json_array_length(&stages, &length, &test_error));
    assert_int_equal(length, 2);
    assert_ok(json_item(&stages, 0, &stage, &test_error));
    assert_ok(json_object_fields(&stage, known, 2, &test_error));
    assert_ok(json_field(&stage, "layers", true, &layers, &test_error));
    assert_string_equal(layers.path, "plan.json: stages[0].layers");
    assert_status(json_error(&layers, &test_error, "%d is past the end", 7), PS_BAD_INPUT,
                  "plan.json: stages[0].layers: 7 is past the end");
    assert_ok(json_item(&stages, 1, &stage, &test_error));
    assert_status(json_object_fields(&stage, known, 2, &test_error), PS_BAD_INPUT,
                  "plan.json: stages[1]: field 'layer' is not known; did you mean 'layers'?");
    assert_status(json_object_fields(&root, known, 2, &test_error), PS_BAD_INPUT, "plan.json: field 'workers' is not known");
    assert_status(json_object_fields(&layers, known, 2, &test_error), PS_BAD_INPUT, "must be an object, not an array");
    assert_status(json_item(&stages, 2, &stage, &test_error), PS_BAD_INPUT, "plan.json: stages[2]: is missing");
    assert_status(json_item(&root, 0, &stage, &test_error), PS_BAD_INPUT, "plan.json: must be an array, not an object");
    assert_status(json_field(&stages, "x", true, &stage, &test_error), PS_BAD_INPUT, "stages: must be an object");
    json_decref(document_root);

    char longest[1000];
    memset(longest, 'a', sizeof longest - 1);
    strcpy(longest + sizeof longest - 10, "z/p.json");
    root = json_root(NULL, longest);
    assert_non_null(strstr(root.path, "z/p.json:"));
}

static void numbers_read_back_the_same(void **state) {
    (void)state;
    char *text = json_text(
        json_pack("{s:f,s:f,s:i,s:s,s:[f,f]}", "a", 0.1, "b", 3.0, "c", -5, "d 1.50\"", "0.10 \\ \"1.50", "e", 1e-7, 1e300));
    assert_string_equal(text, "{\n  \"a\": 0.1,\n  \"b\": 3.0,\n  \"c\": -5,\n  \"d 1.50\\\"\": \"0.10 \\\\ \\\"1.50\",\n"
                              "  \"e\": [\n    1e-07,\n    1e+300\n  ]\n}\n");
    free(text);
    for (uint64_t i = 0; i < 2000; i++) {
        uint32_t words[4];
        random_block(test_key(1), i, words);
        double value;
        memcpy(&value, words, sizeof value);
        if (i % 2 == 0) value = (double)words[0] / 1000; /* short decimals as well as arbitrary bits */
        if (!isfinite(value)) continue;
        text = json_text(json_pack("[f]", value));
        json_t *again = json_loads(text, 0, NULL);
        assert_true(json_is_real(json_array_get(again, 0)));
        assert_true(json_real_value(json_array_get(again, 0)) == value);
        json_decref(again);
        free(text);
    }
}

static void writes_files(void **state) {
    (void)state;
    json_t *root;
    assert_ok(json_write_file(json_pack("{s:s,s:i,s:I}", "format", "penstock-x", "version", 1, "n", (json_int_t)INT64_MIN),
                              path, &test_error));
    assert_ok(json_read_file(path, "penstock-x", &root, &test_error));
    assert_int_equal(json_integer_value(json_object_get(root, "n")), INT64_MIN);
    json_decref(root);
    assert_status(json_write_file(json_real(NAN), path, &test_error), PS_FAILED, "not finite");
    root = json_pack("{s:{}}", "options"); /* nothing is left out where a text is not UTF-8 */
    json_set_text(json_object_get(root, "options"), "data", "idx:d\xff");
    assert_status(json_write_file(root, path, &test_error), PS_USAGE, "`data`: 'idx:d?' is not UTF-8");
    assert_ok(json_read_file(path, "penstock-x", &root, &test_error));
    json_decref(root);
}

/* A table shows what a document holds, a dash for what it does not. */
static void tables(void **state) {
    (void)state;
    const struct json_column columns[] = {
        JSON_COLUMN("#", NULL, NULL, .first = 1),
        JSON_COLUMN("name", "name", json_show_text),
        JSON_COLUMN("count", "sizes.count", json_show_integer),
        JSON_COLUMN("bytes", "sizes.bytes", json_show_bytes),
        JSON_COLUMN("time", "s", json_show_seconds),
        JSON_PERCENT("share", "share", 1),
        JSON_COLUMN("note", "note", json_show_text, .missing = ""),
    };
    enum { COLUMNS = sizeof columns / sizeof columns[0] };
    json_t *rows = json_pack("[{s:s, s:{s:i, s:i}, s:f, s:f}, {s:s, s:s}]", "name", "one", "sizes", "count", 3, "bytes", 2048,
                             "s", 0.0125, "share", 0.5, "name", "two", "note", "missing");
    json_t *sums = json_pack("{s:s, s:f}", "name", "in all", "share", 1.0);
    struct text out = {0};
    json_table(&out, rows, columns, COLUMNS);
    json_table_row(&out, "", sums, columns, COLUMNS);
    assert_string_equal(out.data, "#\tname\tcount\tbytes\ttime\tshare\tnote\n"
                                  "1\tone\t3\t2.00 KiB\t12.5 ms\t50.0 %\t\n"
                                  "2\ttwo\t-\t-\t-\t-\tmissing\n"
                                  "\tin all\t-\t-\t-\t100.0 %\t\n");
    text_free(&out);
    json_decref(rows);
    json_decref(sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_fields), cmocka_unit_test(files),  cmocka_unit_test(typed_reads),
        cmocka_unit_test(typed_refusals),  cmocka_unit_test(places), cmocka_unit_test(numbers_read_back_the_same),
        cmocka_unit_test(writes_files),    cmocka_unit_test(tables),
    };
    return cmocka_run_group_tests(tests, set_up, test_directory_tear_down);
}
