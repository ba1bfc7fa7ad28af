/* Structs as documents keep them: written and read again, and the members that something is said of. */
#include "base/fields.h"

#include <math.h>

#include "support.h"

struct all {
    const char *text;
    int integer, turned;
    int64_t large;
    uint64_t seed;
    bool flag;
    double number;
};

static const struct field list[] = {
    FIELD(all, text, FIELD_TEXT),     FIELD(all, integer, FIELD_INT), FIELD(all, large, FIELD_INT64),
    FIELD(all, seed, FIELD_UINT64),   FIELD(all, flag, FIELD_BOOL),   FIELD(all, turned, FIELD_SWITCH),
    FIELD(all, number, FIELD_DOUBLE),
};
static const struct fields fields = FIELDS(list);

static const struct all full = {.text = "word",
                                .integer = 7,
                                .turned = 1,
                                .large = INT64_C(1) << 40,
                                .seed = UINT64_C(18446744073709551557),
                                .flag = true,
                                .number = 0.1};

static void assert_alike(const struct all *one, const struct all *other) {
    assert_string_equal(one->text ? one->text : "NULL", other->text ? other->text : "NULL");
    assert_int_equal(one->integer, other->integer);
    assert_int_equal(one->turned, other->turned);
    assert_int_equal(one->large, other->large);
    assert_true(one->seed == other->seed);
    assert_int_equal(one->flag, other->flag);
    assert_true(one->number == other->number || (isnan(one->number) && isnan(other->number)));
}

static void test_read_again(void **state) {
    const struct all nothing = {.number = NAN}, *const cases[] = {&full, &nothing};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct all read = {0};
        json_t *document = json_object();
        fields_add(document, cases[c], &fields);
        const struct json_place root = json_root(document, "all.json");
        assert_ok(fields_read(&root, &fields, true, &read, &test_error));
        assert_alike(&read, cases[c]);
        json_decref(document);
    }
}

static void test_missing(void **state) {
    struct all read = full, expected = full;
    read.turned = expected.turned = -1; /* not said */
    json_t *document = json_object();
    const struct json_place root = json_root(document, "all.json");
    (void)state;
    assert_ok(fields_read(&root, &fields, false, &read, &test_error));
    expected.number = NAN;
    assert_alike(&read, &expected);
    assert_status(fields_read(&root, &fields, true, &read, &test_error), PS_BAD_INPUT, "all.json: integer");
    json_object_set_new(document, "turned", json_integer(1));
    assert_status(fields_read(&root, &fields, false, &read, &test_error), PS_BAD_INPUT, "all.json: turned");
    json_decref(document);
}

/* Each member alone is found, and copied over the others. */
static void test_given(void **state) {
    const struct all nothing = {0}, alone[] = {{.text = "word"},    {.integer = 7}, {.large = INT64_C(1) << 40},
                                               {.seed = full.seed}, {.flag = true}, {.turned = 1},
                                               {.number = 0.1}};
    struct all merged = {0}, before;
    (void)state;
    assert_null(fields_given(&nothing, &fields));
    for (size_t f = 0; f < fields.count; f++) {
        assert_string_equal(fields_given(&alone[f], &fields), list[f].name);
        before = merged;
        fields_merge(&nothing, &fields, &merged);
        assert_alike(&merged, &before);
        fields_merge(&alone[f], &fields, &merged);
    }
    assert_alike(&merged, &full);
    assert_string_equal(fields_given(&full, &fields), "text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_again),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
