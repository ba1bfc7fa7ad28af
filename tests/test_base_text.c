/* The growing string, tables and UTF-8. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void grows(void **state) {
    (void)state;
    struct text text = {0};
    for (int i = 0; i < 1000; i++) text_add(&text, "%d,", i);
    text_add_raw(&text, "end\0tail", 8);
    assert_int_equal(text.length, 10 + 90 * 2 + 900 * 3 + 1000 + 8);
    assert_memory_equal(text.data, "0,1,2,", 6);
    assert_memory_equal(text.data + text.length - 8, "end\0tail", 9);
    char *taken = text_take(&text);
    assert_null(text.data);
    free(taken);

    taken = text_take(&text);
    assert_string_equal(taken, "");
    free(taken);

    text_add(&text, "lost");
    text.failed = true;
    text_add(&text, "more");
    assert_null(text_take(&text));
    assert_false(text.failed);
}

static void check_table(const char *source, const char *wanted) {
    char *table = text_table(source);
    assert_string_equal(table, wanted);
    free(table);
}

static void aligns(void **state) {
    (void)state;
    check_table("", "");
    check_table("a\n", "a\n");
    check_table("layer\ttime\tnote\nconv1\t1.5 ms\tx\nfc\t20 us\t\n", "layer    time  note\n"
                                                                      "conv1  1.5 ms  x\n"
                                                                      "fc      20 us\n");
    /* The last newline may be missing, rows may be short, "-" stands for no number. */
    check_table("n\tk\tz\n1\t-\n10\t3/4\t7", " n    k  z\n"
                                             " 1    -\n"
                                             "10  3/4  7\n");
}

static void names_that_start_with_digits_are_no_numbers(void **state) {
    (void)state;
    check_table("schedule\tx\n1f1b\t1e-3\n1f1b-so\t-1.5e+10\n", "schedule         x\n"
                                                                "1f1b          1e-3\n"
                                                                "1f1b-so   -1.5e+10\n");
    check_table("kind\tx\n2bw\t1\ngpipe\t2\n", "kind   x\n"
                                               "2bw    1\n"
                                               "gpipe  2\n");
}

static void counts_code_points(void **state) {
    (void)state;
    check_table("name\tn\nna\xc3\xafve\t1\n\xe2\x86\x92\t10\n", "name    n\n"
                                                                "na\xc3\xafve   1\n"
                                                                "\xe2\x86\x92      10\n");
    check_table("t\tx\n1 \xc2\xb5s\t1\n100 ns\t1\n", "     t  x\n"
                                                     "  1 \xc2\xb5s  1\n"
                                                     "100 ns  1\n");
}

static void utf8(void **state) {
    (void)state;
    /* The first and the last of each length, and beside the numbers that are none. */
    static const char *const right[] = {"",
                                        "abc",
                                        "\x7f",
                                        "\xc2\x80",
                                        "\xdf\xbf",
                                        "\xe0\xa0\x80",
                                        "\xe2\x82\xac",
                                        "\xed\x9f\xbf",
                                        "\xee\x80\x80",
                                        "\xef\xbf\xbf",
                                        "\xf0\x90\x80\x80",
                                        "\xf0\x9f\x98\x80",
                                        "\xf4\x8f\xbf\xbf"};
    static const char *const wrong[] = {"\x80",
                                        "\xbf",
                                        "\xc3",
                                        "\xc3(",
                                        "\xc0\xaf",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xe2\x82",
                                        "\xe2(\xac",
                                        "\xed\xa0\x80",
                                        "\xed\xbf\xbf",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf0\x9f\x98",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_null(utf8_invalid(right[i], strlen(right[i])));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_ptr_equal(utf8_invalid(wrong[i], strlen(wrong[i])), wrong[i]);
    assert_non_null(utf8_invalid("a\0b", 3));
    const char later[] = "na\xc3\xafve \xe2\x82\xac, then \xff";
    assert_ptr_equal(utf8_invalid(later, sizeof later - 1), strchr(later, '\xff'));
    for (size_t i = 1; i < sizeof right / sizeof *right; i++) { /* cut between characters, wherever that is */
        char text[16];
        const size_t length = (size_t)snprintf(text, sizeof text, "a%s", right[i]);
        for (size_t cut = 1; cut <= length; cut++) assert_int_equal(utf8_whole(text, cut), i == 1 || cut == length ? cut : 1);
    }
    char repaired[] = "\xff na\xc3\xafve \xc3";
    utf8_repair(repaired, '?');
    assert_string_equal(repaired, "? na\xc3\xafve ?");
    assert_ok(utf8_check("`data`", "na\xc3\xafve", &test_error));
    assert_ok(utf8_check("`data`", NULL, &test_error));
    assert_status(utf8_check("`data`", "idx:d\xff", &test_error), PS_USAGE, "`data`: 'idx:d?' is not UTF-8");
    /* The mark that some programs begin files with. */
    static const char *const marked[][2] = {
        {"\xef\xbb\xbfname", "name"}, {"\xef\xbb\xbf", ""}, {"name", "name"}, {"\xef\xbb", "\xef\xbb"}};
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++) {
        char text[16];
        const size_t length = utf8_drop_mark(strcpy(text, marked[i][0]), strlen(marked[i][0]));
        assert_int_equal(length, strlen(marked[i][1]));
        assert_memory_equal(text, marked[i][1], length);
    }
}

static void controls(void **state) {
    (void)state;
    /* The text, what becomes of it, and where its first control character is; -1: it has none. */
    static const struct {
        const char *text, *clean;
        int first;
    } cases[] = {{"", "", -1},
                 {"a b~\xc2\xa0\xef\xbf\xbd", "a b~\xc2\xa0\xef\xbf\xbd", -1},
                 {"a\nb\x1b[31m", "a_b_[31m", 1},
                 {"\x7f", "_", 0},
                 {"a\xc2\x80\xc2\x9f.", "a____.", 1},
                 {"\xef\xbf\xbe\xef\xbf\xbf", "______", 0},
                 {"\xff\xc2(\t", "?\?(_", 3},
                 {"\x9b\xe2\x82", "?\?\?", -1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[32];
        const char *found = utf8_control(strcpy(text, cases[c].text));
        assert_int_equal(found ? found - text : -1, cases[c].first);
        utf8_clean(text, '_');
        assert_string_equal(text, cases[c].clean);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(aligns),
        cmocka_unit_test(names_that_start_with_digits_are_no_numbers),
        cmocka_unit_test(counts_code_points),
        cmocka_unit_test(utf8),
        cmocka_unit_test(controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
