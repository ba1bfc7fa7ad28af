/* Costs from files: each form read right, written back the same, and each kind of broken file refused with its place. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "profile/costgraph.h"
#include "profile/profile.h"

static char path[4096];

static enum ps_status read_text(const char *name, const char *text, struct ps_profile **profile) {
    file_join(path, test_directory, name);
    test_file_write(path, text, strlen(text));
    return ps_profile_read(path, profile, &test_error);
}

#define HEADER "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
#define SHORT_HEADER "name,forward_s,backward_s,parameter_bytes,output_bytes\n"

static void csv(void **state) {
    (void)state;
    struct ps_profile *profile;
    assert_ok(read_text("small.csv", HEADER "conv,1e-3,0.002,100,40,72\r\n\r\n fc , 3, 4 ,5,600,7", &profile));
    assert_string_equal(ps_profile_model(profile), "small");
    assert_string_equal(profile->device, "unknown");
    assert_int_equal(profile->threads, 1);
    assert_int_equal(profile->table_count, 1);
    const struct cost_table *table, *again;
    assert_ok(profile_table(profile, 0, &table, &test_error));
    assert_ptr_equal(table, &profile->tables[0]);
    assert_status(profile_table(profile, 4, &again, &test_error), PS_USAGE,
                  "micro-batch 4: the profile has no such size, but one of a size it does not say");
    assert_int_equal(table->micro_batch, 0);
    assert_int_equal(table->layer_count, 2);
    const struct layer_cost *conv = &table->layers[0], *fc = &table->layers[1];
    assert_string_equal(conv->name, "conv");
    assert_true(conv->time.forward_s == 1e-3 && conv->time.backward_input_s == 1e-3 && conv->time.backward_weight_s == 1e-3);
    assert_int_equal(conv->size.parameter_bytes, 100);
    assert_int_equal(conv->size.output_bytes, 40);
    assert_int_equal(conv->size.value_bytes, 40);
    assert_int_equal(conv->size.stash_bytes, 72);
    assert_int_equal(conv->size.delta_bytes, 40);
    assert_string_equal(conv->kind, "layer");
    assert_string_equal(fc->name, "fc");
    assert_true(fc->time.backward_weight_s == 2);
    assert_int_equal(fc->size.output_bytes, 0); /* nothing is used after the last layer */
    assert_int_equal(fc->size.stash_bytes, 7);
    ps_profile_destroy(profile);

    assert_ok(read_text("small.csv", SHORT_HEADER "a,1,1,0,40\nb,1,1,0,30\nc,1,1,0,20\n", &profile));
    int64_t kept[] = {0, 40, 30};
    for (int l = 0; l < 3; l++) assert_int_equal(profile->tables[0].layers[l].size.stash_bytes, kept[l]);
    assert_int_equal(profile->tables[0].layers[0].size.delta_bytes, 0);
    ps_profile_destroy(profile);

    /* What is largest. */
    assert_ok(read_text("small.csv",
                        SHORT_HEADER "012345678901234567890123456789012345678901234567890123456789 ~~,1e6,1000000,"
                                     "17592186044416,1\nb,0,0,0,30",
                        &profile));
    assert_int_equal(strlen(profile->tables[0].layers[0].name), 63);
    assert_true(profile->tables[0].layers[0].time.forward_s == 1e6);
    assert_int_equal(profile->tables[0].layers[0].size.parameter_bytes, PROFILE_BYTES_MAX);
    ps_profile_destroy(profile);
}

/* A file is named as its network, without what names say of its form. */
static void names(void **state) {
    (void)state;
    static const struct {
        const char *file, *model;
    } cases[] = {{"vgg16.graph.txt", "vgg16"}, {"a.b.csv", "a.b"}, {"a.chain", "a"}, {"a.graph.chain", "a"},
                 {"a.chain.graph", "a.chain"}, {".csv", ".csv"},   {"a.graph", "a"}, {"a.txt.b", "a.txt.b"},
                 {"t\t\x7f~.txt", "t??~"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_profile *profile;
        assert_ok(read_text(cases[i].file, SHORT_HEADER "a,1,1,0,40\n", &profile));
        assert_string_equal(ps_profile_model(profile), cases[i].model);
        ps_profile_destroy(profile);
    }
}

static void chain(void **state) {
    (void)state;
    struct ps_profile *profile;
    assert_ok(read_text("small.chain",
                        "\xef\xbb\xbf"
                        "2  0 \r\n1.5 3 100 40 30\n\n2 4 5.0 6 7\n",
                        &profile));
    assert_string_equal(profile->model, "small");
    const struct layer_cost *layers = profile->tables[0].layers;
    assert_int_equal(profile->tables[0].layer_count, 2);
    assert_string_equal(layers[1].name, "layer2");
    assert_true(layers[0].time.forward_s == 1.5e-3 && layers[0].time.backward_input_s == 1.5e-3);
    assert_int_equal(layers[0].size.output_bytes, 40);
    assert_int_equal(layers[0].size.value_bytes, 30);
    assert_int_equal(layers[1].size.stash_bytes, 40);
    assert_int_equal(layers[1].size.parameter_bytes, 5);
    assert_int_equal(layers[1].size.output_bytes, 0);
    assert_int_equal(layers[1].size.value_bytes, 0);
    ps_profile_destroy(profile);
    assert_ok(
        read_text("small.chain", "3 0\n1 1 1 40 50\n1 1 1 40 40\n1 1 1 40 50", &profile)); /* no more than the cut carries */
    for (int l = 0; l < 3; l++) assert_int_equal(profile->tables[0].layers[l].size.value_bytes, l < 2 ? 40 : 0);
    ps_profile_destroy(profile);
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"0 0\n", "line 1: layers: '0 0' is no number of layers"},
        {"2 7 junk\n1 1 1 1 1\n1 1 1 1 1\n", "line 1: header: '2 7 junk' is no number of layers and a 0"},
        {"1\n1 1 1 1 1\n", "line 1: header: '1' is no number of layers and a 0"},
        {"1.5 0\n1 1 1 1 1\n", "is no number of layers"},
        {"2 0\n1 1 1 1 1\n", "2 layers were announced, but 1 follow"},
        {"1 0\n1 1 1 1 1\n1 1 1 1 1\n", "line 3: more than the 1 layers"},
        {"1 0\n1 1 1 1\n", "line 2: a layer of a chain has 5 numbers"},
        {"1 0\n1 1 1 1 1 1\n", "line 2: a layer of a chain has 5 numbers"},
        {"1 0\n1 x 1 1 1\n", "line 2: backward_ms: 'x' is not a number"},
        {"1 0\n-1 1 1 1 1\n", "line 2: forward_ms: '-1' is not a number"},
        {"1 0\n1 1 x 1 1\n", "line 2: parameter_bytes: 'x' is not"},
        {"1 0\n1 1 1 x 1\n", "line 2: cut_bytes: 'x' is not"},
        {"1 0\n1 1 1 1 x\n", "line 2: kept_bytes: 'x' is not"},
        {"16385 0\n1 1 1 1 1\n", "line 1: layers: '16385' is not a number from 0 to 16384"},
        {"2 0\n1 1 1 1 1\n1000000001 1 1 1 1\n", "line 3: forward_ms: '1000000001' is not a number from 0 to 1e+09"},
        {"1 0\n1 1000000001 1 1 1\n", "line 2: backward_ms: '1000000001' is not a number from 0 to 1e+09"},
        {"1 0\n0 0 1 1 1\n", "line 2: costs[0].layers: no layer takes any time"},
        {"1 0\n1 1 1 0.5 1\n", "line 2: cut_bytes: '0.5' is not a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_status(read_text("bad.chain", cases[i].text, &profile), PS_BAD_INPUT, cases[i].part);
}

static void csv_broken(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "line 1: the file is empty"},
        {"\n\n", "line 1: the file is empty"},
        {HEADER, "no layer follows the header"},
        {"name,forward_s\na,1\n", "line 1: header: has 2 columns"},
        {"name,forward,backward_s,parameter_bytes,output_bytes\n", "line 1: header: 'forward' is not the column"},
        {HEADER "a,1,1,1,1\n", "line 2: 5 columns, but the header has 6"},
        {HEADER "a,1,1,1,1,1\nb,1,1,1,1,1,1\n", "line 3: 7 columns"},
        {HEADER "a,1,1,1,1,1\n\nb,x,1,1,1,1\n", "line 4: forward_s: 'x' is not a number"},
        {HEADER "a,-1,1,1,1,1\n", "line 2: forward_s: '-1' is not a number from 0 to"},
        {HEADER "a,nan,1,1,1,1\n", "line 2: forward_s: 'nan' is not a number from 0"},
        {HEADER "a,1,inf,1,1,1\n", "line 2: backward_s: 'inf' is not a number from 0"},
        {HEADER "a,1,1e7,1,1,1\n", "line 2: backward_s: '1e7' is not"},
        {HEADER "a,1,,1,1,1\n", "line 2: backward_s: '' is empty"},
        {HEADER "a,1,1,0.5,1,1\n", "line 2: parameter_bytes: '0.5' is not a whole number"},
        {HEADER "a,1,1,1,-4,1\n", "line 2: output_bytes: '-4' is not"},
        {HEADER "a,1,1,1,1,1e300\n", "line 2: stash_bytes: '1e300' is not"},
        {HEADER ",1,1,1,1,1\n", "line 2: name: '' is empty"},
        {HEADER "a,0,0,1,1,1\n", "line 2: costs[0].layers: no layer takes any time"},
        {HEADER "a,1 2,1,1,1,1\n", "line 2: forward_s: '1 2' is not a number"},
        {HEADER "a,1,1000000.5,1,1,1\n", "line 2: backward_s: '1000000.5' is not a number from 0 to 1e+06"},
        {HEADER "a,1,1,17592186044417,1,1\n",
         "line 2: parameter_bytes: '17592186044417' is not a number from 0 to 1.75922e+13"},
        {HEADER "0123456789012345678901234567890123456789012345678901234567890123,1,1,1,1,1\n",
         "line 2: name: '012345678901234567890123456789012345678901234567890123456789'... is too long (63 characters at most)"},
        {HEADER "a,012345678901234567890123456789012345678901234567890123456789,1,1,1,1\n",
         "line 2: forward_s: '012345678901234567890123456789012345678901234567890123456789' is not a number from 0"},
        {HEADER "a,0000000000000000000000000000000000000000000000000000000000000001,1,1,1,1\n",
         "line 2: forward_s: '000000000000000000000000000000000000000000000000000000000000'... is not a number"},
        {HEADER "a\x7f,1,1,1,1,1\n", "line 2: name: has a character that is not printable ASCII"},
        {HEADER "a\tb,1,1,1,1,1\n", "line 2: name: has a character that is not printable ASCII"},
        {"name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes,more\na,1,1,1,1,1,1\n",
         "line 1: header: has 7 columns\nthe first line must be name,forward_s,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_profile *profile = NULL;
        assert_status(read_text("bad.csv", cases[i].text, &profile), PS_BAD_INPUT, cases[i].part);
        assert_null(profile);
    }
    struct ps_profile *profile = NULL;
    assert_status(ps_profile_read("/nowhere/x.csv", &profile, &test_error), PS_BAD_INPUT, "/nowhere/x.csv");
    read_text("bad.csv", HEADER "a,x,1,1,1,1\n", &profile);
    assert_non_null(strstr(test_error.message, "bad.csv: line 2"));
    test_error = (struct ps_error){0};
}

static void make_random(struct ps_profile **profile, int tables, int layers) {
    struct random_key key = test_key(1);
    uint64_t n = 0;
    assert_ok(profile_create(tables, layers, profile, &test_error));
    strcpy((*profile)->model, "net,input=8");
    strcpy((*profile)->device, "cpu");
    (*profile)->threads = 3;
    (*profile)->busy = 2;
    for (int t = 0; t < tables; t++) {
        struct cost_table *table = &(*profile)->tables[t];
        table->micro_batch = 1 << t;
        table->input_bytes = 1 + (int64_t)random_below(key, n++, 1 << 20);
        table->fast_memory_bytes = t > 0 ? 1 + (int64_t)random_below(key, n++, 1 << 20) : 0;
        table->wire_s[WIRE_BF16][0] = 1e-9; /* of one only the one, of the other the other */
        table->wire_s[WIRE_INT8][1] = 2e-9 * (t + 1);
        table->wire_s[WIRE_TOPK][0] = table->wire_s[WIRE_TOPK][1] = 3e-9;
        for (int l = 0; l < layers; l++) {
            struct layer_cost *layer = &table->layers[l];
            snprintf(layer->name, sizeof layer->name, "layer%d", l);
            strcpy(layer->kind, "linear");
            double *times[] = {(double *)&layer->time, (double *)&layer->spread, (double *)&layer->spill};
            for (int k = 0; k < 3; k++)
                for (size_t f = 0; f < sizeof layer->time / sizeof(double); f++)
                    times[k][f] = (double)random_uniform(key, n++) / 3 + 1e-9;
            layer->fill = (double)random_uniform(key, n++) / 3 + 1e-9;
            layer->core_transfer_s = (double)random_uniform(key, n++) / 3 + 1e-9;
            layer->take_over_s = (double)random_uniform(key, n++) / 3 + 1e-9;
            layer->sum_s = (double)random_uniform(key, n++) / 3 + 1e-9;
            int64_t *sizes = (int64_t *)&layer->size;
            for (size_t f = 0; f < sizeof layer->size / sizeof(int64_t); f++)
                sizes[f] = 1 + (int64_t)random_below(key, n++, (uint64_t)1 << 36);
            layer->size.value_bytes = layer->size.output_bytes / 2;
            layer->size.parameter_bytes += 64;
            layer->size.tied_bytes = l == 0 || l == layers - 1 ? layer->size.parameter_bytes / 2 : 0;
        }
    }
}

static void json_round_trip(void **state) {
    (void)state;
    struct ps_profile *profile, *again;
    make_random(&profile, 3, 7);
    file_join(path, test_directory, "profile.json");
    assert_ok(ps_profile_write(profile, path, &test_error));
    assert_ok(ps_profile_read(path, &again, &test_error));
    assert_string_equal(again->model, profile->model);
    assert_string_equal(again->device, profile->device);
    assert_int_equal(again->threads, 3);
    assert_int_equal(again->busy, 2);
    assert_int_equal(again->table_count, 3);
    for (int t = 0; t < 3; t++) {
        const struct cost_table *a = &profile->tables[t], *b = &again->tables[t];
        assert_int_equal(a->micro_batch, b->micro_batch);
        assert_int_equal(a->input_bytes, b->input_bytes);
        assert_int_equal(a->fast_memory_bytes, b->fast_memory_bytes);
        assert_memory_equal(a->wire_s, b->wire_s, sizeof a->wire_s);
        assert_int_equal(a->layer_count, b->layer_count);
        for (int l = 0; l < a->layer_count; l++) {
            assert_string_equal(a->layers[l].name, b->layers[l].name);
            assert_string_equal(a->layers[l].kind, b->layers[l].kind);
            struct layer_cost wanted = a->layers[l];
            if (t == 0) memset(&wanted.spill, 0, sizeof wanted.spill); /* without a fast memory nothing is spilt, or filled */
            if (t == 0) wanted.fill = 0;
            assert_memory_equal(&b->layers[l].time, &wanted.time, sizeof wanted.time);
            assert_memory_equal(&b->layers[l].spread, &wanted.spread, sizeof wanted.spread);
            assert_memory_equal(&b->layers[l].spill, &wanted.spill, sizeof wanted.spill);
            assert_memory_equal(&b->layers[l].size, &wanted.size, sizeof wanted.size);
            assert_true(b->layers[l].fill == wanted.fill);
            assert_true(b->layers[l].core_transfer_s == wanted.core_transfer_s);
            assert_true(b->layers[l].take_over_s == wanted.take_over_s);
            assert_true(b->layers[l].sum_s == wanted.sum_s);
        }
    }
    char *x = ps_profile_json(profile), *y = ps_profile_json(again), *table = ps_profile_table(profile);
    assert_string_equal(x, y);
    static const char title[] = "net,input=8 on cpu, 3 threads, micro-batch of 1\n\n";
    assert_int_equal(strncmp(table, title, strlen(title)), 0);
    assert_non_null(strstr(table, "\n\nnet,input=8 on cpu, 3 threads, micro-batch of 2\n\n"));
    assert_non_null(strstr(table, "micro-batch of 4"));
    assert_non_null(strstr(table, "layer6"));
    free(x);
    free(y);
    free(table);
    /* One thread is not worth a word, nor is a size that is not known. */
    static const char *const titles[] = {"net,input=8 on cpu, 2 threads\n\n", "net,input=8 on cpu\n\n"};
    profile->tables[0].micro_batch = 0;
    for (int t = 0; t < 2; t++) {
        profile->threads = 2 - t;
        table = ps_profile_table(profile);
        assert_int_equal(strncmp(table, titles[t], strlen(titles[t])), 0);
        free(table);
    }
    ps_profile_destroy(profile);
    ps_profile_destroy(again);
}

#define LAYER                                                                                                                  \
    "{\"name\": \"a\", \"kind\": \"linear\", \"forward_s\": 1, \"backward_input_s\": 1, \"backward_weight_s\": 1, "            \
    "\"parameter_bytes\": 64, \"output_bytes\": 128, \"stash_bytes\": 64"
#define HEAD "{\"format\": \"penstock-profile\", \"version\": 1, \"model\": \"m\", \"device\": \"cpu\", \"costs\": "

static void json_small(void **state) {
    (void)state;
    struct ps_profile *profile;
    assert_ok(read_text("p.json", HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}]}", &profile));
    const struct layer_sizes *size = &profile->tables[0].layers[0].size;
    assert_int_equal(size->value_bytes, 128);
    assert_int_equal(size->tail_bytes, 0);
    assert_int_equal(size->workspace_bytes, 0);
    assert_int_equal(profile->threads, 1);
    const struct cost_table *table;
    assert_ok(profile_table(profile, 0, &table, &test_error));
    assert_ok(profile_table(profile, 4, &table, &test_error));
    assert_status(profile_table(profile, 5, &table, &test_error), PS_USAGE,
                  "micro-batch 5: the profile has no such size, but 4");
    ps_profile_destroy(profile);
}

static void count_line(void *context, enum ps_log_level level, const char *text) {
    assert_int_equal(level, PS_LOG_WARN);
    assert_non_null(strstr(text, "is called '"));
    ++*(int *)context;
}

/* A time that one layer says and another does not is the usual one there; what none says is left to sums of layers. */
static void json_times_of_some(void **state) {
    (void)state;
#define TIMES(more) "\"forward_s\": 1, \"backward_input_s\": 1, \"backward_weight_s\": 1, \"parameter_bytes\": 8, " more
#define REST "\"output_bytes\": 8, \"stash_bytes\": 8}"
    static const char text[] = HEAD "[{\"micro_batch\": 4, \"fast_memory_bytes\": 8, \"layers\": ["
                                    "{\"name\": \"a\", \"kind\": \"k\", " TIMES("\"update_s\": 4, \"update_s_spill\": 2, ") REST
        ", {\"name\": \"b\", \"kind\": \"k\", " TIMES("\"update_s\": 8, \"update_out_of_place_s\": 3, "
                                                      "\"update_predict_s\": 7, \"update_s_spill\": 1, ") REST
        ", {\"name\": \"c\", \"kind\": \"k\", " TIMES("\"update_out_of_place_s\": 0, ") REST "]}]}";
#undef REST
#undef TIMES
    struct ps_profile *profile;
    assert_ok(read_text("p.json", text, &profile));
    const struct layer_cost *layers = profile->tables[0].layers;
    assert_true(layers[0].time.update_out_of_place_s == 4 && layers[0].spill.update_out_of_place_s == 2);
    assert_true(layers[0].time.update_predict_s == 5 && layers[0].spill.update_predict_s == 2.5);
    assert_true(layers[1].time.update_out_of_place_s == 3 && layers[1].spill.update_out_of_place_s == 0);
    assert_true(layers[1].time.update_predict_s == 7 && layers[2].time.update_predict_s == 0);
    assert_true(layers[2].time.update_out_of_place_s == 0);
    for (int l = 0; l < 3; l++) assert_true(layers[l].time.predict_s == 0);
    ps_profile_destroy(profile);
}

/* Files of earlier versions are read with one warning each, and written with today's names. */
static void json_old_names(void **state) {
    (void)state;
    struct ps_profile *profile;
    int warnings = 0;
    assert_ok(ps_log_to(
        &(struct ps_log_sink){
            .struct_size = sizeof(struct ps_log_sink), .context = &warnings, .level = PS_LOG_WARN, .line = count_line},
        &test_error));
    assert_ok(read_text("p.json",
                        HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER
                             ", \"apart_input_s\": 2, \"apart_s\": 3, \"update_aside_s\": 4, \"hand_over_s\": 5, "
                             "\"apart_s_spread\": 6, \"apart_input_s_spill\": 7}]}]}",
                        &profile));
    assert_ok(ps_log_to(NULL, &test_error));
    assert_int_equal(warnings, 1);
    const struct layer_cost *layer = &profile->tables[0].layers[0];
    assert_true(layer->time.split_input_s == 2 && layer->time.split_s == 3 && layer->time.update_out_of_place_s == 4);
    assert_true(layer->core_transfer_s == 5 && layer->spread.split_s == 6 && layer->spill.split_input_s == 7);
    char *text = ps_profile_json(profile);
    assert_non_null(strstr(text, "\"split_s\": 3.0"));
    assert_null(strstr(text, "apart"));
    free(text);
    ps_profile_destroy(profile);
    assert_status(
        read_text("p.json", HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"apart_s\": 1, \"split_s\": 1}]}]}", &profile),
        PS_BAD_INPUT, "field 'apart_s' is an old name of 'split_s'");
}

/* One file for each type of device. A comma is the end of a name only where no file has the whole name. */
static void several_files(void **state) {
    (void)state;
#define DEVICE(name, layers)                                                                                                   \
    "{\"format\": \"penstock-profile\", \"version\": 1, \"model\": \"m\", \"device\": \"" name "\", \"costs\": "               \
    "[{\"micro_batch\": 4, \"layers\": [" layers "]}]}"
    struct ps_profile *profile;
    char both[3 * 4096], slow[4096], fast[4096], other[4096];
    file_join(slow, test_directory, "slow.json");
    file_join(fast, test_directory, "fast.json");
    file_join(other, test_directory, "other.json");
    test_file_write(slow, DEVICE("slow", LAYER "}"), strlen(DEVICE("slow", LAYER "}")));
    test_file_write(fast, DEVICE("fast", LAYER "}"), strlen(DEVICE("fast", LAYER "}")));
    static const char named[] = "{\"format\": \"penstock-profile\", \"version\": 1, \"model\": \"m\", \"device\": \"fast\", "
                                "\"costs\": [{\"micro_batch\": 4, \"layers\": [{\"name\": \"b\", \"kind\": \"linear\", "
                                "\"forward_s\": 1, \"backward_input_s\": 1, \"backward_weight_s\": 1, \"parameter_bytes\": "
                                "64, \"output_bytes\": 128, \"stash_bytes\": 64}]}]}",
                      sized[] = "{\"format\": \"penstock-profile\", \"version\": 1, \"model\": \"m\", \"device\": \"fast\", "
                                "\"costs\": [{\"micro_batch\": 8, \"layers\": [" LAYER "}]}]}";
    snprintf(both, sizeof both, "%s,%s", slow, fast);
    assert_ok(ps_profile_read(both, &profile, &test_error));
    assert_string_equal(profile->device, "slow");
    assert_string_equal(profile->other_device->device, "fast");
    assert_string_equal(cost_table_on(&profile->tables[0], "fast")->device, "fast");
    ps_profile_destroy(profile);
    test_file_write(other, DEVICE("third", LAYER "}"), strlen(DEVICE("third", LAYER "}")));
    snprintf(both, sizeof both, "%s,%s,%s", slow, fast, other);
    assert_ok(ps_profile_read(both, &profile, &test_error));
    assert_string_equal(cost_table_on(&profile->tables[0], "fast")->device, "fast");
    assert_string_equal(cost_table_on(&profile->tables[0], "third")->device, "third");
    ps_profile_destroy(profile);
    test_file_write(other, DEVICE("other", LAYER "}," LAYER "}"), strlen(DEVICE("other", LAYER "}," LAYER "}")));
    snprintf(both, sizeof both, "%s,%s", slow, slow);
    assert_status(ps_profile_read(both, &profile, &test_error), PS_BAD_INPUT,
                  "slow.json: device: 'slow' has a profile already");
    snprintf(both, sizeof both, "%s,%s", slow, other);
    assert_status(ps_profile_read(both, &profile, &test_error), PS_BAD_INPUT,
                  "other.json: costs: 1 sizes of 2 layers, but the profile on slow has 1 of 1");
    test_file_write(other, named, strlen(named));
    assert_status(ps_profile_read(both, &profile, &test_error), PS_BAD_INPUT,
                  "other.json: costs[0].layers[0].name: 'b' is 'a' in the profile on slow");
    test_file_write(other, sized, strlen(sized));
    assert_status(ps_profile_read(both, &profile, &test_error), PS_BAD_INPUT,
                  "other.json: costs[0].micro_batch: 8, but the profile on slow has 4");
    snprintf(both, sizeof both, "%s,%s/missing.json", slow, test_directory);
    assert_status(ps_profile_read(both, &profile, &test_error), PS_BAD_INPUT, "missing.json: cannot open: No such file");
    assert_ok(read_text("slow.json,fast.json", DEVICE("comma", LAYER "}"), &profile));
    assert_string_equal(profile->device, "comma");
    assert_null(profile->other_device);
    ps_profile_destroy(profile);
#undef DEVICE
}

static void json_lengths(void **state) {
    (void)state;
    struct ps_profile *profile, *again;
    assert_ok(read_text("p.json",
                        HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}], \"lengths\": \"8,16\", \"by_length\": "
                             "[{\"share\": 0.25, \"factor\": 0.5}, {\"share\": 0.75, \"factor\": 1.5}]}",
                        &profile));
    assert_int_equal(profile->length_count, 2);
    assert_ok(ps_profile_write(profile, path, &test_error));
    assert_ok(ps_profile_read(path, &again, &test_error));
    assert_string_equal(again->lengths, "8,16");
    assert_int_equal(again->length_count, 2);
    assert_memory_equal(again->by_length, profile->by_length, 2 * sizeof *profile->by_length);
    assert_true(again->by_length[1].share == 0.75 && again->by_length[1].factor == 1.5);
    ps_profile_destroy(again);
    ps_profile_destroy(profile);
}

#define ONE HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}"
#define NODE1                                                                                                                  \
    "{\"name\": \"n\", \"kind\": \"k\", \"number\": 1, \"forward_s\": 1, \"backward_s\": 1, \"activation_bytes\": 4, "         \
    "\"parameter_bytes\": 4}"

static void json_broken(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{", "p.json: line 1"},
        {HEAD "[]}", "costs: 0 tables"},
        {HEAD "3}", "costs: must be an array"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}], \"by_length\": [{\"share\": 0.5, \"factor\": 1}]}",
         "by_length: the shares add up to 0.5"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}], \"by_length\": []}", "by_length: 0 lengths"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}], \"by_length\": [{\"share\": 1}]}",
         "by_length[0].factor: is missing"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": []}]}", "costs[0].layers: 0 layers"},
        {HEAD "[{\"micro_batch\": -1, \"layers\": [" LAYER "}]}]}", "costs[0].micro_batch: -1 is"},
        {HEAD "[{\"layers\": [" LAYER "}]}]}", "costs[0].micro_batch: is missing"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"forward\": 1}]}]}",
         "costs[0].layers[0]: field 'forward' is not known"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"update_s\": -1}]}]}", "layers[0].update_s: -1"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"update_s\": 1e999}]}]}", "p.json: line 1"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"update_s\": NaN}]}]}", "p.json: line 1"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"workspace_bytes\": 1e3}]}]}",
         "workspace_bytes: must be an integer"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"value_bytes\": 1000}]}]}", "value_bytes: 1000 is more than"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER ", \"tied_bytes\": 1}]}]}",
         "layers[0].tied_bytes: 1; without `ties` the first and the last"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [{\"name\": \"\", \"kind\": \"x\"}]}]}", "layers[0]: name is empty"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}, {\"micro_batch\": 4, \"layers\": [" LAYER "}]}]}",
         "p.json: costs[1].micro_batch: 4 must be larger than the 4 before it"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}, {\"micro_batch\": 8, \"layers\": [" LAYER "}, " LAYER "}]}]}",
         "[1] has 2 layers, but [0] has 1"},
        {ONE "], \"wire\": {\"int8\": [1, -1]}}]}", "wire.int8: must be [seconds to encode"},
        {ONE "], \"wire\": {\"int8\": [1]}}]}", "wire.int8: must be [seconds to encode"},
        {ONE "]}], \"graph\": {\"nodes\": [" NODE1 ", " NODE1 "], \"edges\": [[0, 2]]}}",
         "graph.edges[0]: must be two of the nodes 0 to 1"},
        {ONE "]}], \"graph\": {\"nodes\": [" NODE1 "], \"edges\": [[0]]}}", "graph.edges[0]: must be two of the nodes 0 to 0"},
        {ONE ", " LAYER "}]}], \"graph\": {\"nodes\": [" NODE1 "], \"edges\": []}}",
         "graph: forms 1 layers, but costs[0] has 2"},
        {"{\"format\": \"penstock-plan\", \"version\": 1}", "format: 'penstock-plan' is not 'penstock-profile'"},
        {"{\"format\": \"penstock-profile\", \"version\": 2}", "version: 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_profile *profile = NULL;
        assert_status(read_text("p.json", cases[i].text, &profile), PS_BAD_INPUT, cases[i].part);
        assert_null(profile);
    }
    /* The same number of layers, but others. */
    struct ps_profile *profile;
    make_random(&profile, 2, 3);
    strcpy(profile->tables[1].layers[2].name, "other");
    file_join(path, test_directory, "p.json");
    assert_ok(ps_profile_write(profile, path, &test_error));
    ps_profile_destroy(profile);
    assert_status(ps_profile_read(path, &profile, &test_error), PS_BAD_INPUT, "costs[1].layers[2]: 'other'");
}

/* What is accepted at the most and at the least, and what is refused beyond. */
static void json_limits(void **state) {
    (void)state;
#define TABLE HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER
#define AFTER(rest) TABLE "}]}], " rest "}"
#define NAMED(name, kind)                                                                                                      \
    HEAD "[{\"micro_batch\": 4, \"layers\": [{\"name\": \"" name "\", \"kind\": \"" kind                                       \
         "\", \"forward_s\": 1, \"backward_input_s\": 1, \"backward_weight_s\": 1, \"parameter_bytes\": 64, "                  \
         "\"output_bytes\": 128, \"stash_bytes\": 64}]}]}"
#define TEN "0123456789"
#define OF_GRAPH(node, edges) AFTER("\"graph\": {\"nodes\": [" node "], \"edges\": [" edges "]}")
#define NODE_OF(number, forward, backward, activation, parameter)                                                              \
    "{\"name\": \"n\", \"kind\": \"k\", \"number\": " number ", \"forward_s\": " forward ", \"backward_s\": " backward         \
    ", \"activation_bytes\": " activation ", \"parameter_bytes\": " parameter ", \"input\": false}"
    static const struct {
        const char *text, *part; /* part NULL: it is accepted */
    } cases[] = {
        {AFTER("\"threads\": 1"), NULL},
        {AFTER("\"threads\": 4096"), NULL},
        {AFTER("\"threads\": 0"), "threads: 0"},
        {AFTER("\"threads\": 4097"), "threads: 4097"},
        {AFTER("\"busy\": 1"), NULL},
        {AFTER("\"busy\": 1024"), NULL},
        {AFTER("\"busy\": 0"), "busy: 0"},
        {AFTER("\"busy\": 1025"), "busy: 1025"},
        {AFTER("\"lengths\": \"\""), "lengths is empty"},
        {AFTER("\"network\": \"0123456789abcdef\""), NULL},
        {AFTER("\"network\": \"0123456789abcdef0\""), "network is longer than 16 characters"},
        {AFTER("\"other\": 1"), "field 'other' is not known"},
        {AFTER("\"by_length\": [{\"share\": 1, \"factor\": 1000000}]"), NULL},
        {AFTER("\"by_length\": [{\"share\": 1, \"factor\": 1000001}]"), "by_length[0].factor: 1e+06 is not a number"},
        {AFTER("\"by_length\": [{\"share\": 1, \"factor\": 1}, {\"share\": 0, \"factor\": 0}]"), NULL},
        {AFTER("\"by_length\": [{\"share\": 1, \"factor\": -0.5}]"), "by_length[0].factor: -0.5"},
        {AFTER("\"by_length\": [{\"share\": 1, \"factor\": 1}, {\"share\": -5e-7, \"factor\": 1}]"),
         "by_length[1].share: -5e-07"},
        {AFTER("\"by_length\": [{\"share\": 1.5, \"factor\": 1}]"), "by_length[0].share: 1.5"},
        {AFTER("\"by_length\": [{\"share\": 0.25, \"factor\": 1}, {\"share\": 0.750002, \"factor\": 1}]"), "add up to 1"},
        {AFTER("\"by_length\": [{\"share\": 0.25, \"factor\": 1}, {\"share\": 0.7500005, \"factor\": 1}]"), NULL},
        {HEAD "[{\"micro_batch\": 0, \"layers\": [" LAYER "}]}]}", NULL},
        {HEAD "[{\"micro_batch\": 16777216, \"layers\": [" LAYER "}]}]}", NULL},
        {HEAD "[{\"micro_batch\": 16777217, \"layers\": [" LAYER "}]}]}", "costs[0].micro_batch: 16777217"},
        {HEAD "[{\"micro_batch\": 4, \"layers\": 5}]}", "costs[0].layers: must be an array"},
        {HEAD "[{\"micro_batch\": 4}]}", "costs[0].layers: is missing"},
        {TABLE ", \"update_s\": 1000000}]}]}", NULL},
        {TABLE ", \"update_s\": 1000000.5}]}]}", "layers[0].update_s: 1e+06"},
        {TABLE ", \"sum_s\": -0.5}]}]}", "layers[0].sum_s: -0.5"},
        {TABLE ", \"workspace_bytes\": 17592186044416}]}]}", NULL},
        {TABLE ", \"workspace_bytes\": 17592186044417}]}]}", "layers[0].workspace_bytes: 17592186044417"},
        {TABLE ", \"output_i32\": -1}]}]}", "layers[0].output_i32: -1"},
        {TABLE ", \"value_bytes\": 128}]}]}", NULL},
        {TABLE ", \"value_bytes\": 129}]}]}", "costs[0].layers[0].value_bytes: 129 is more than its output_bytes, 128"},
        {TABLE "}], \"input_bytes\": 17592186044416}]}", NULL},
        {TABLE "}], \"input_bytes\": 17592186044417}]}", "costs[0].input_bytes: 17592186044417"},
        {TABLE "}], \"input_bytes\": 0, \"fast_memory_bytes\": 0}]}", NULL},
        {TABLE "}], \"input_bytes\": -1}]}", "costs[0].input_bytes: -1"},
        {TABLE "}], \"fast_memory_bytes\": -1}]}", "costs[0].fast_memory_bytes: -1"},
        {TABLE "}], \"wire\": {\"int8\": [0, 1000000]}}]}", NULL},
        {TABLE "}], \"wire\": {\"int8\": [0, 1000001]}}]}", "wire.int8: must be [seconds"},
        {TABLE "}], \"wire\": {\"int8\": [0, 0, 0]}}]}", "wire.int8: must be [seconds"},
        {TABLE "}], \"wire\": {\"int8\": [\"0\", 0]}}]}", "wire.int8: must be [seconds"},
        {TABLE "}], \"wire\": {\"int9\": [0, 0]}}]}", "wire: field 'int9' is not known"},
        {NAMED(TEN TEN TEN TEN TEN TEN "012", TEN TEN TEN "0"), NULL},
        {NAMED(TEN TEN TEN TEN TEN TEN "0123", "k"), "layers[0]: name is longer than 63 characters"},
        {NAMED("n", TEN TEN TEN "01"), "layers[0]: kind is longer than 31 characters"},
        {NAMED("n", "a b"), NULL},
        {NAMED("n", "a\\tb"), "layers[0]: kind has a control character"},
        {NAMED("n", "a\x7f"), "layers[0]: kind has a control character"},
        {NAMED("a\xc2\x9b", "k"), "layers[0]: name has a control character"},
        {NAMED("\xef\xbf\xbf", "k"), "layers[0]: name has a control character"},
        {OF_GRAPH(NODE_OF("0", "1000000", "1", "17592186044416", "0"), ""), NULL},
        {OF_GRAPH(NODE_OF("0", "0", "1", "0", "0"), ""), NULL},
        {OF_GRAPH(NODE_OF("0", "1", "0", "0", "0"), ""), NULL},
        {OF_GRAPH(NODE_OF("-1", "1", "1", "1", "1"), ""), "graph.nodes[0].number: -1"},
        {OF_GRAPH(NODE_OF("0", "-0.5", "1", "1", "1"), ""), "graph.nodes[0].forward_s: -0.5 is not"},
        {OF_GRAPH(NODE_OF("0", "1", "-0.5", "1", "1"), ""), "graph.nodes[0].backward_s: -0.5 is not"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "-1", "1"), ""), "graph.nodes[0].activation_bytes: -1"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "-1"), ""), "graph.nodes[0].parameter_bytes: -1"},
        {OF_GRAPH(NODE_OF("0", "1000001", "1", "1", "1"), ""), "graph.nodes[0].forward_s: 1e+06 is not"},
        {OF_GRAPH(NODE_OF("0", "1", "1000001", "1", "1"), ""), "graph.nodes[0].backward_s: 1e+06 is not"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "17592186044417", "1"), ""), "graph.nodes[0].activation_bytes: 17592186044417"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "17592186044417"), ""), "graph.nodes[0].parameter_bytes: 17592186044417"},
        {OF_GRAPH(NODE_OF("0", "0", "0", "1", "1"), ""), "graph: 'n' takes no time, nor does any other node"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[0, -1]"), "graph.edges[0]: must be two of the nodes 0 to 0"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[-1, 0]"), "graph.edges[0]: must be two"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[1, 0]"), "graph.edges[0]: must be two"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[0, 0.5]"), "graph.edges[0]: must be two"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[\"n\", 0]"), "graph.edges[0]: must be two"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[0, 0, 0]"), "graph.edges[0]: must be two"},
        {OF_GRAPH(NODE_OF("0", "1", "1", "1", "1"), "[0, 0]"), "graph: edge: 'n -- n' closes a cycle"},
        {AFTER("\"graph\": {\"edges\": []}"), "graph.nodes: is missing"},
        {AFTER("\"graph\": {\"nodes\": []}"), "graph.edges: is missing"},
        {AFTER("\"graph\": {\"nodes\": [], \"edges\": [], \"node\": 1}"), "graph: field 'node' is not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_profile *profile = NULL;
        const enum ps_status status = read_text("p.json", cases[i].text, &profile);
        if ((status == PS_OK) != !cases[i].part) fail_msg("%s", cases[i].text);
        assert_status(status, cases[i].part ? PS_BAD_INPUT : PS_OK, cases[i].part ? cases[i].part : "");
        assert_int_equal(profile == NULL, cases[i].part != NULL);
        ps_profile_destroy(profile);
    }
    /* As many sizes and lengths as are accepted, and one more. */
    for (int more = 0; more < 2; more++) {
        struct ps_profile *profile = NULL;
        struct text sizes = {0}, lengths = {0};
        text_add(&sizes, "%s[", HEAD);
        for (int t = 0; t < 1000 + more; t++)
            text_add(&sizes, "%s{\"micro_batch\": %d, \"layers\": [" LAYER "}]}", t > 0 ? "," : "", t + 1);
        text_add(&sizes, "]}");
        assert_status(read_text("p.json", sizes.data, &profile), more ? PS_BAD_INPUT : PS_OK,
                      more ? "costs: 1001 tables; 1 to 1000 are accepted" : "");
        ps_profile_destroy(profile);
        profile = NULL;
        text_add(&lengths, "%s", TABLE "}]}], \"by_length\": [");
        for (int l = 0; l < PROFILE_LENGTHS_MAX + more; l++)
            text_add(&lengths, "%s{\"share\": 0.0625, \"factor\": 1}", l > 0 ? "," : "");
        text_add(&lengths, "]}");
        assert_status(read_text("p.json", lengths.data, &profile), more ? PS_BAD_INPUT : PS_OK,
                      more ? "by_length: 17 lengths; 1 to 16 are accepted" : "");
        ps_profile_destroy(profile);
        text_free(&sizes);
        text_free(&lengths);
    }
}

/* What no file can say is not said in part: a name that is no text. */
static void no_text(void **state) {
    (void)state;
    struct ps_profile *profile;
    make_random(&profile, 1, 2);
    profile->tables[0].layers[1].name[1] = '\xff';
    assert_null(ps_profile_json(profile));
    assert_null(ps_profile_table(profile));
    ps_profile_destroy(profile);
}

/* Sums of sizes stay below 2^50 bytes, whatever layers there are. */
static void total_bytes(void **state) {
    (void)state;
    struct ps_profile *profile;
    assert_ok(profile_create(1, 8, &profile, &test_error));
    for (int l = 0; l < 8; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        const int64_t most = PROFILE_BYTES_MAX;
        layer->time.backward_weight_s = l == 7;
        layer->size = (struct layer_sizes){.parameter_bytes = most,
                                           .statistics_bytes = most,
                                           .fixed_bytes = most,
                                           .output_bytes = most,
                                           .stash_bytes = most,
                                           .tail_bytes = most,
                                           .delta_bytes = most,
                                           .workspace_bytes = most};
    }
    assert_ok(profile_check(profile, &test_error));
    profile->tables[0].input_bytes = 1;
    assert_status(profile_check(profile, &test_error), PS_BAD_INPUT,
                  "costs[0].layers: 1125899906842625 bytes in all are more than the 1125899906842624 that are accepted");
    profile->tables[0].layers[7].time.backward_weight_s = 0;
    assert_status(profile_check(profile, &test_error), PS_BAD_INPUT, "costs[0].layers: no layer takes any time");
    profile->tables[0].input_bytes = 0;
    profile->tables[0].layers[3].time.backward_input_s = 1;
    assert_ok(profile_check(profile, &test_error));
    ps_profile_destroy(profile);
}

#define COSTS(f, b, a, p)                                                                                                      \
    " -- forward_compute_time=" #f ", backward_compute_time=" #b ", activation_size=" #a ", parameter_size=" #p

/* A diamond with a skip: input -> n2 -> {n3, n4(zero)} -> n5 -> n6(zero, end); written out of order. */
static const char diamond[] = "node5 -- Add(a, b=1)" COSTS(
    2.0, 3.0, [300; 20],
    8) "\n"
       "node2 -- Conv2d(3, 64)" COSTS(
           1.5, 2.5, 100.000,
           64) " -- stage_id=1\n"
               "  node1 -- node2\n"
               "node1 -- Input0" COSTS(
                   9, 9, 4000, 0) "\n"
                                  "node4 -- Size(0)" COSTS(
                                      0.000, 0, 4,
                                      0) " \n"
                                         "\tnode2 -- node3\n"
                                         "node3 -- ReLU(inplace)" COSTS(
                                             1, 1, 200,
                                             0) "\n"
                                                " \tnode2 -- node4\n\tnode3 -- node5\n\tnode4 -- node5\n\tnode4 -- node5\n"
                                                "node6 -- View" COSTS(0, 0, 7, 1) "\n\tnode5 -- node6";

static void graph(void **state) {
    (void)state;
    struct ps_profile *profile, *again;
    assert_ok(read_text("net.graph.txt", diamond, &profile));
    assert_string_equal(profile->model, "net");
    assert_int_equal(profile->graph->node_count, 6);
    assert_int_equal(profile->graph->edge_count, 6);
    const struct cost_table *table = &profile->tables[0];
    assert_int_equal(table->layer_count, 3);
    static const struct {
        const char *name, *kind;
        double forward_s;
        int64_t parameters, output, value, stash;
    } layers[] = {
        {"node2", "Conv2d", 1.5e-3, 64, 100, 100, 0},
        {"node3", "ReLU", 1e-3, 0, 300, 200, 100}, /* node2's value still crosses: node4 reads it, and goes with node5 */
        {"node5", "Add", 2e-3, 9, 0, 0, 200 + 4 + 320 + 7},
    };
    for (int l = 0; l < 3; l++) {
        const struct layer_cost *layer = &table->layers[l];
        assert_string_equal(layer->name, layers[l].name);
        assert_string_equal(layer->kind, layers[l].kind);
        assert_true(fabs(layer->time.forward_s - layers[l].forward_s) < 1e-15);
        assert_int_equal(layer->size.parameter_bytes, layers[l].parameters);
        assert_int_equal(layer->size.output_bytes, layers[l].output);
        assert_int_equal(layer->size.value_bytes, layers[l].value);
        assert_int_equal(layer->size.stash_bytes, layers[l].stash);
        assert_int_equal(costgraph_cut_bytes(profile->graph, l), layers[l].output);
    }
    file_join(path, test_directory, "net.json");
    assert_ok(ps_profile_write(profile, path, &test_error));
    assert_ok(ps_profile_read(path, &again, &test_error));
    assert_non_null(again->graph);
    char *x = ps_profile_json(profile), *y = ps_profile_json(again);
    assert_string_equal(x, y);
    free(x);
    free(y);
    ps_profile_destroy(profile);
    ps_profile_destroy(again);
}

static void graph_broken(void **state) {
    (void)state;
#define NODE(name) name " -- Conv2d(3)" COSTS(1, 1, 4, 4) "\n"
    static const struct {
        const char *text, *part;
    } cases[] = {
        {NODE("node1") "hello\n", "line 2: line: 'hello' is neither a node nor an edge"},
        {NODE("node1") "\tnode1 -- node2\n", "line 2: edge: 'node2' is no node"},
        {NODE("node1") NODE("node2") NODE("node1"), "bad.txt: line 3: node 'node1' is given twice, first in line 1"},
        {NODE("node1") NODE("node2") "\tnode1 -- node2\n\tnode2 -- node1\n",
         "bad.txt: line 4: edge: 'node2 -- node1' closes a cycle"},
        {NODE("node1") NODE("node2") NODE("node3") "\tnode2 -- node1\n\tnode1 -- node2\n\tnode2 -- node3\n",
         "line 5: edge: 'node1 -- node2' closes a cycle"},
        {NODE("node1") "\tnode1 -- node1\n", "line 2: edge: 'node1 -- node1' closes a cycle"},
        {NODE("node1") NODE("node2") NODE("node3") "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node1\n",
         "line 6: edge: 'node3 -- node1' closes a cycle"},
        {NODE("node1") NODE("node2") NODE("node3") "\tnode3 -- node1\n\tnode1 -- node2\n\tnode2 -- node3\n",
         "line 6: edge: 'node2 -- node3' closes a cycle"},
        {NODE("node1") NODE("node2") NODE("node3") "\tnode2 -- node3\n\tnode3 -- node1\n\tnode1 -- node2\n",
         "line 6: edge: 'node1 -- node2' closes a cycle"},
        {"node1 -- A -- forward_compute_time=1, backward_compute_time=1\n", "line 1: node1: needs forward_compute_time"},
        {"node1 -- A -- forward_compute_time=1, forward_compute_time=1\n", "is given twice"},
        {"node1 -- A -- forward_time=1\n", "line 1: field: 'forward_time' is not known"},
        {"node1 -- A" COSTS(x, 1, 4, 4), "line 1: forward_compute_time: 'x' is not a number"},
        {"node1 -- A" COSTS(-1, 1, 4, 4), "line 1: forward_compute_time: '-1' is not"},
        {"node1 -- A" COSTS(1, nan, 4, 4), "line 1: backward_compute_time: 'nan' is not"},
        {"node1 -- A" COSTS(1, 1, [4; 4, 4), "activation_size: '[4; 4' has no closing bracket"},
        {"node1 -- A" COSTS(1, 1, [4; x], 4), "activation_size: 'x' is not a number"},
        {"node1 -- A" COSTS(1, 1, 4, 1e30), "parameter_size: '1e30' is not"},
        {"node1 -- Input" COSTS(1, 1, 4, 4), "line 1: 'node1' takes no time"},
        {"node1 -- A" COSTS(0, 0, 4, 4), "line 1: 'node1' takes no time"},
        {"\tnode1 -- node2\n", "line 1: no nodes"},
        {"node1 -- A" COSTS(1, 1, [8796093022208; 8796093022209], 4),
         "line 1: activation_size: '[8796093022208; 8796093022209]' is too large"},
        {"node1 -- A" COSTS(1000000001, 1, 4, 4), "line 1: forward_compute_time: '1000000001' is not a number from 0 to 1e+09"},
        {NODE("node1") "node2 -- Input" COSTS(0, 0, 4, 4) "\nnode3 -- B" COSTS(1, 1, 17592186044416, 17592186044417),
         "line 3: parameter_size: '17592186044417' is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_profile *profile = NULL;
        assert_status(read_text("bad.txt", cases[i].text, &profile), PS_BAD_INPUT, cases[i].part);
        assert_null(profile);
    }
}

/* Nodes come in the order of the numbers at the ends of their names, of which fifteen digits count; those without last. */
static void graph_order(void **state) {
    (void)state;
    struct ps_profile *profile;
    assert_ok(read_text("order.txt",
                        NODE("none") NODE("other") NODE("a100000000000000") NODE("b9000000000000005") NODE("c12") NODE("d7e3")
                            NODE("100000000000004"),
                        &profile));
    static const char *const names[] = {"d7e3", "b9000000000000005", "c12", "a100000000000000", "100000000000004", "none",
                                        "other"};
    assert_int_equal(profile->tables[0].layer_count, 7);
    for (int l = 0; l < 7; l++) assert_string_equal(profile->tables[0].layers[l].name, names[l]);
    ps_profile_destroy(profile);
}

/* As many layers and nodes as are accepted, and one more. */
static void most(void **state) {
    (void)state;
    static const char header[] = SHORT_HEADER;
    char *text = malloc((size_t)(PROFILE_LAYERS_MAX + 2) * 160);
    assert_non_null(text);
    for (int more = 0; more < 2; more++) {
        struct ps_profile *profile = NULL;
        char *end = text + sprintf(text, "%s", header);
        for (int l = 0; l < PROFILE_LAYERS_MAX + more; l++) end += sprintf(end, "l%d,1,1,1,1\n", l);
        const enum ps_status table = read_text("most.csv", text, &profile);
        assert_status(table, more ? PS_BAD_INPUT : PS_OK, more ? "line 16386: 16385 layers; at most 16384 are accepted" : "");
        if (!more) assert_int_equal(profile->tables[0].layer_count, PROFILE_LAYERS_MAX);
        ps_profile_destroy(profile);
    }
    char *end = text;
    struct ps_profile *profile = NULL;
    for (int n = 0; n <= PROFILE_LAYERS_MAX; n++) end += sprintf(end, "node%d -- A" COSTS(1, 1, 4, 4) "\n", n);
    assert_status(read_text("most.txt", text, &profile), PS_BAD_INPUT, "line 16385: more than 16384 nodes");
    /* So many bytes that sums of sizes could not be held: the file's last node is named. */
    end = text;
    for (int n = 0; n < 65; n++) end += sprintf(end, "node%d -- A" COSTS(1, 1, 4, 17592186044416) "\n", n);
    assert_status(read_text("most.txt", text, &profile), PS_BAD_INPUT, "most.txt: line 65: costs[0].layers: 1143492092887");
    end = text + sprintf(text, "%s",
                         HEAD "[{\"micro_batch\": 4, \"layers\": [" LAYER "}]}], \"graph\": {\"edges\": [], \"nodes\": [0");
    for (int n = 0; n < PROFILE_LAYERS_MAX; n++) end += sprintf(end, ",0");
    sprintf(end, "]}}");
    assert_status(read_text("most.json", text, &profile), PS_BAD_INPUT, "graph.nodes: 16385 nodes; at most 16384 are accepted");
    free(text);
}

/* The published profiles against the chains that were derived from them independently. */
static void check_chain(const char *source, const char *chain) {
    char source_path[4096], chain_path[4096], *text;
    size_t size;
    int layers, skipped;
    struct ps_profile *profile;
    test_data(source, source_path);
    test_data(chain, chain_path);
    assert_ok(ps_profile_read(source_path, &profile, &test_error));
    assert_ok(file_read(chain_path, 1 << 20, &text, &size, &test_error));
    char *rest = text;
    assert_int_equal(sscanf(rest, "%d %d", &layers, &skipped), 2);
    const struct cost_table *table = &profile->tables[0];
    assert_int_equal(table->layer_count, layers);
    for (int l = 0; l < layers; l++) {
        double forward_ms, backward_ms, weights, cut, stored;
        const struct layer_cost *layer = &table->layers[l];
        rest = strchr(rest, '\n') + 1;
        assert_int_equal(sscanf(rest, "%lf %lf %lf %lf %lf", &forward_ms, &backward_ms, &weights, &cut, &stored), 5);
        assert_true(fabs(1e3 * layer->time.forward_s - forward_ms) < 1e-9);
        assert_true(fabs(1e3 * (layer->time.backward_input_s + layer->time.backward_weight_s) - backward_ms) < 1e-9);
        assert_true((double)layer->size.parameter_bytes == weights);
        assert_true((double)layer->size.output_bytes == cut);
        int64_t before = l > 0 ? table->layers[l - 1].size.value_bytes : 0;
        assert_true((double)(layer->size.stash_bytes - before + layer->size.value_bytes) == stored);
    }
    free(text);
    ps_profile_destroy(profile);
}

static void chains(void **state) {
    (void)state;
    static const char *const pipedream[] = {"alexnet",  "densenet121", "gnmt", "nasnetamobile",
                                            "resnet50", "resnext50",   "vgg16"};
    static const char *const dapple[] = {
        "amoeba-36-pbs-1", "amoeba-6-pbs-8-simplified", "bert-24-pbs-6", "gnmt-16-pbs-64", "vgg-19-pbs-32", "xlnet-24-pbs-1"};
    char source[256], chain[256];
    for (int i = 0; i < 7; i++) {
        snprintf(source, sizeof source, "profiles/pipedream/%s.graph.txt", pipedream[i]);
        snprintf(chain, sizeof chain, "profiles/chains/%s.chain", pipedream[i]);
        check_chain(source, chain);
    }
    for (int i = 0; i < 6; i++) {
        snprintf(source, sizeof source, "profiles/dapple/%s.txt", dapple[i]);
        snprintf(chain, sizeof chain, "profiles/chains/%s.chain", dapple[i]);
        check_chain(source, chain);
    }
}

/* A file of more than 256 MiB is no profile, whatever it holds; a small one of zeros is refused for what it holds. */
static void large(void **state) {
    (void)state;
    struct ps_profile *profile;
    assert_status(read_text("large.csv", "", &profile), PS_BAD_INPUT, "large.csv: ");
    assert_int_equal(truncate(path, 268435457), 0);
    assert_status(ps_profile_read(path, &profile, &test_error), PS_BAD_INPUT,
                  "large.csv: holds more than the 268435456 bytes expected");
    assert_int_equal(truncate(path, 4096), 0);
    assert_status(ps_profile_read(path, &profile, &test_error), PS_BAD_INPUT, "large.csv: ");
    assert_null(strstr(test_error.message, "more than"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large),          cmocka_unit_test(names),
        cmocka_unit_test(chain),          cmocka_unit_test(csv),
        cmocka_unit_test(csv_broken),     cmocka_unit_test(json_round_trip),
        cmocka_unit_test(json_small),     cmocka_unit_test(json_times_of_some),
        cmocka_unit_test(json_old_names), cmocka_unit_test(json_broken),
        cmocka_unit_test(graph),          cmocka_unit_test(graph_broken),
        cmocka_unit_test(chains),         cmocka_unit_test(most),
        cmocka_unit_test(several_files),  cmocka_unit_test(json_lengths),
        cmocka_unit_test(json_limits),    cmocka_unit_test(total_bytes),
        cmocka_unit_test(graph_order),    cmocka_unit_test(no_text),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
