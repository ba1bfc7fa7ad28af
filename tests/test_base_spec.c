/* "name,key=value": what is accepted, and what is said about the rest. */
#include "support.h"

#include <string.h>

#include "base/spec.h"

static void reads(void **state) {
    (void)state;
    struct spec options;
    int input = 28, classes = 10;
    double dropout = 0.5;
    const char *order = "nhwc";
    assert_ok(spec_parse("vgg16,input=64,dropout=1e-1,order=a=b", "--model", &options, &test_error));
    assert_string_equal(options.name, "vgg16");
    assert_ok(spec_int(&options, "input", 8, 512, &input, &test_error));
    assert_ok(spec_int(&options, "classes", 2, 1000, &classes, &test_error));
    assert_ok(spec_number(&options, "dropout", 0, 1, &dropout, &test_error));
    assert_ok(spec_string(&options, "order", &order, &test_error));
    assert_int_equal(input, 64);
    assert_int_equal(classes, 10);
    assert_true(dropout == 0.1);
    assert_string_equal(order, "a=b");
    assert_ok(spec_finish(&options, "--model", NULL, 0, &test_error));
    assert_ok(spec_parse("lenet5", "--model", &options, &test_error));
    assert_string_equal(options.name, "lenet5");
    assert_int_equal(options.count, 0);
}

static void refuses_what_is_no_list(void **state) {
    (void)state;
    struct spec options;
    static const struct {
        const char *spec, *part;
    } cases[] = {
        {"", "has no name"},
        {",a=1", "has no name"},
        {"x,", "'' in 'x,' is not of the form key=value"},
        {"x,a", "'a' in 'x,a' is not of the form key=value"},
        {"x,=1", "is not of the form key=value"},
        {"x,a=1,,b=2", "is not of the form key=value"},
        {"x,a=1,a=2", "gives 'a' twice"},
        {"x,a=,b=,c=,d=,e=,f=,g=,h=,i=,j=,k=,l=,m=,n=,o=,p=,q=", "more than 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_status(spec_parse(cases[i].spec, "`network`", &options, &test_error), PS_USAGE, cases[i].part);
    }
    char longest[SPEC_SIZE + 88];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_status(spec_parse(longest, "`network`", &options, &test_error), PS_USAGE, "longer than 4095");
    longest[SPEC_SIZE - 1] = '\0';
    assert_ok(spec_parse(longest, "--model", &options, &test_error));
}

static void refuses_values(void **state) {
    (void)state;
    static const char *const bad_integers[] = {"x,k=",    "x,k=abc", "x,k=1.5", "x,k=7",
                                               "x,k=513", "x,k= 9",  "x,k=9 ",  "x,k=99999999999999999999"};
    static const char *const bad_numbers[] = {"x,k=",    "x,k=abc", "x,k=-0.1", "x,k=1.1",
                                              "x,k=nan", "x,k=inf", "x,k= 1",   "x,k=0.5x"};
    struct spec options;
    for (size_t i = 0; i < sizeof bad_integers / sizeof bad_integers[0]; i++) {
        int value = -1;
        assert_ok(spec_parse(bad_integers[i], "--model", &options, &test_error));
        assert_status(spec_int(&options, "k", 8, 512, &value, &test_error), PS_USAGE, "must be an integer from 8 to 512");
        assert_int_equal(value, -1);
    }
    for (size_t i = 0; i < sizeof bad_numbers / sizeof bad_numbers[0]; i++) {
        double value = -1;
        assert_ok(spec_parse(bad_numbers[i], "--model", &options, &test_error));
        assert_status(spec_number(&options, "k", 0, 1, &value, &test_error), PS_USAGE, "must be a number from 0 to 1");
        assert_true(value == -1);
    }
    const char *text = NULL;
    assert_ok(spec_parse("x,k=", "--model", &options, &test_error));
    assert_status(spec_string(&options, "k", &text, &test_error), PS_USAGE, "x: k=: has no value");
}

static void offers_the_nearest_key(void **state) {
    (void)state;
    static const char *const keys[] = {"input", "classes"};
    struct spec options;
    int value;
    assert_ok(spec_parse("vgg16,input=32,clases=3", "--model", &options, &test_error));
    assert_ok(spec_int(&options, "input", 8, 512, &value, &test_error));
    assert_status(spec_finish(&options, "`model`", keys, 2, &test_error), PS_USAGE,
                  "`model`: 'vgg16' has no option 'clases'; did you mean 'classes'?");
    assert_status(spec_finish(&options, "`model`", keys, 2, &test_error), PS_USAGE, "known: input, classes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses_what_is_no_list),
        cmocka_unit_test(refuses_values),
        cmocka_unit_test(offers_the_nearest_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
