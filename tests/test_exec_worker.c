/*
 * The memory of workers: every block is there, as large as it must be and apart from all others; those that travel, and no
 * others, lie in memory that other processes can open. And networks of shorter lengths that do not fit the blocks of the whole
 * one.
 */
#include <fnmatch.h>
#include <math.h>

#include "exec/program_set.h"
#include "exec/worker.h"
#include "graph/network.h"
#include "run_support.h"

/* Three uses of an embedding, three of a linear layer, two of a norm. */
#define SHARED TEST_DIRECTORY "/networks/shared.json"

enum { PIECES = 400, PRECISIONS = 3 };

static const char *const precisions[PRECISIONS] = {"f32", "bf16", "mixed"};

/* What lies in a worker's memory. */
struct pieces {
    struct piece {
        const char *at;
        size_t bytes;
        bool shared;
    } list[PIECES];
    int count;
};

static void add(struct pieces *pieces, const void *at, int64_t bytes, bool shared) {
    assert_non_null(at);
    assert_int_equal((uintptr_t)at % MEMORY_ALIGNMENT, 0);
    assert_true(pieces->count < PIECES);
    pieces->list[pieces->count++] = (struct piece){at, (size_t)bytes, shared};
}

static int by_place(const void *a, const void *b) {
    const struct piece *one = a, *other = b;
    return one->at < other->at ? -1 : one->at > other->at;
}

/* A plan of the case, and what its workers are made from. */
struct made {
    struct ps_plan *plan;
    struct ps_network *network;
    struct program_set set;
    struct worker_options options;
};

static void make(struct made *made, struct run_case wanted) {
    wanted = run_case_complete(wanted);
    const struct segment_lengths lengths = {.steps = 3, .micro_batches = wanted.micro_batches};
    *made = (struct made){.plan = run_case_plan(&wanted)};
    assert_ok(ps_network_open(wanted.model, &made->network, &test_error));
    assert_ok(program_set_create(made->plan, &lengths, 0, 0, &made->set, &test_error));
    struct worker_options *options = &made->options;
    *options = (struct worker_options){.threads = 1,
                                       .graph = made->network->graph,
                                       .plan = made->plan,
                                       .samples = wanted.micro_batch,
                                       .slots = made->set.slots,
                                       .programs = made->set.entries[0].programs,
                                       .record = 3};
    assert_ok(device_find("reference", &options->device, &test_error));
    assert_ok(plan_moments(made->plan, &options->moments, &test_error));
}

static void forget(struct made *made) {
    program_set_free(&made->set);
    ps_network_destroy(made->network);
    ps_plan_destroy(made->plan);
}

static void list_stage(const struct made *made, const struct worker_stage *stage, struct pieces *pieces) {
    const struct ps_programs *programs = made->options.programs;
    const struct stage_sizes *sizes = &stage->sizes;
    const bool split = programs_split(programs, stage->number), shared = made->options.shared;
    const bool replicas = programs_replicas(programs, stage->number) > 1, updates = !stage->slots.forward_only;
    for (int slot = 0; slot < stage->slots.weights; slot++)
        add(pieces, stage->weights[slot], stage_copy_bytes(sizes), shared && split);
    assert_true((stage->gradients != NULL) == updates);
    if (updates) add(pieces, stage->gradients, stage_gradient_bytes(sizes), shared && replicas);
    for (int m = 0; m < UPDATE_MOMENTS_MAX; m++) {
        assert_true((stage->update.moment[m] != NULL) == (updates && m < made->options.moments));
        if (stage->update.moment[m]) add(pieces, stage->update.moment[m], sizes->parameter_bytes, false);
    }
    assert_true((stage->update.master != NULL) == (updates && sizes->narrow_bytes > 0));
    if (stage->update.master) add(pieces, stage->update.master, sizes->parameter_bytes, false);
    add(pieces, stage->statistics, stage_unchanged_bytes(sizes), shared && replicas);
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        for (int slot = 0; slot < stage_slots_of(&stage->slots, (enum block_kind)kind); slot++)
            add(pieces, stage->block[kind][slot], stage_block_bytes(sizes, (enum block_kind)kind),
                shared && kind != BLOCK_DELTA && (kind != BLOCK_STASH || split));
    for (int c = 0; c < WIRE_CODED; c++) {
        assert_true((stage->feedback[c] != NULL) == (worker_feedback_bytes(stage, c) > 0));
        if (stage->feedback[c]) add(pieces, stage->feedback[c], (int64_t)worker_feedback_bytes(stage, c), false);
    }
    const bool last = stage->number == programs->stages - 1;
    assert_true((stage->targets != NULL) == last && (stage->loss_scale != NULL) == last);
}

static bool lies_in(const struct memory_block *block, const struct piece *piece) {
    return block->base && piece->at >= block->base && piece->at + piece->bytes <= block->base + block->size;
}

static void check(struct run_case wanted, bool shared) {
    struct made made;
    make(&made, wanted);
    made.options.shared = shared;
    for (int number = 0; number < made.plan->workers; number++) {
        struct worker worker;
        struct pieces pieces = {.count = 0};
        made.options.number = number;
        assert_ok(worker_create(&made.options, &worker, &test_error));
        assert_int_equal(worker.number, number);
        const struct worker_memory needed = worker_memory_needed(&worker, made.options.moments);
        assert_ok(worker_take_memory(&worker, &made.options, &test_error));
        for (int s = 0; s < worker.stage_count; s++) list_stage(&made, &worker.stages[s], &pieces);
        add(&pieces, worker.workspace, needed.workspace, false);
        qsort(pieces.list, (size_t)pieces.count, sizeof *pieces.list, by_place);
        size_t bytes = 0;
        for (int p = 0; p < pieces.count; p++) {
            const struct piece *piece = &pieces.list[p];
            bytes += memory_align(piece->bytes);
            if (p > 0) assert_true(piece[-1].at + piece[-1].bytes <= piece->at);
            assert_true(lies_in(piece->shared ? &worker.shared.memory : &worker.memory, piece));
        }
        /* No more is taken than that. */
        assert_int_equal(worker_memory_total(&needed), bytes);
        assert_int_equal(worker.memory.size + worker.shared.memory.size, bytes);
        assert_null(worker.staging);
        assert_true(worker.recorder.capacity == 3 && worker.recorder.transfer_capacity > 3);
        worker_destroy(&worker);
        assert_int_equal(worker.stage_count, 0);
    }
    forget(&made);
}

static void test_memory(void **state) {
    (void)state;
    const struct split_case split = {
        .layers = 7, .workers = 3, .forward = {0, 0, 1, 1, 1, 2, 2}, .backward = {0, 1, 1, 1, 2, 2, 2}};
    const struct run_case cases[] = {
        {.workers = 3, .schedule = "1f1b-async", .weights = "stash"},
        {.workers = 2, .schedule = "1f1b-async", .weights = "pipeoptim", .optimizer = "adam", .micro_batches = 2},
        {.split = &split, .schedule = "1f1b-async", .weights = "pipeoptim", .micro_batches = 2},
        {.replicas = {2, 1}, .schedule = "1f1b-async", .weights = "stash"},
        {.workers = 2, .schedule = "zb-h1", .micro_batches = 4},
        {.workers = 2, .schedule = "interleaved", .micro_batches = 2},
        {.workers = 2, .wire = "topk:0.2", .schedule = "1f1b-async", .weights = "latest"},
        {.workers = 2, .model = "lenet5,input=16,classes=4,precision=bf16", .optimizer = "adam"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int shared = 0; shared < 2; shared++) check(cases[c], shared);
}

/* A network that is to be shorter, and fits; is longer; has other weights. What was made until then is given back. */
static void test_shorter(void **state) {
    (void)state;
    static const struct {
        const char *model, *message;
    } cases[] = {
        {"gnmt-l,layers=4,seq=3,target=3,hidden=8,vocab=12,dropout=0", NULL},
        {"gnmt-l,layers=4,seq=5,target=5,hidden=8,vocab=12,dropout=0",
         "`lengths`: at a shorter length the input of stage 0 takes "},
        {"gnmt-l,layers=4,seq=3,target=3,hidden=4,vocab=12,dropout=0",
         "`lengths`: at a shorter length the weights of stage 0 lie elsewhere"},
    };
    struct made made;
    make(&made, (struct run_case){.model = "gnmt-l,layers=4,seq=4,target=4,hidden=8,vocab=12,dropout=0", .workers = 2});
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int second = 0; second < 2; second++) {
            struct ps_network *networks[2];
            struct worker worker;
            assert_ok(ps_network_open(run_case_model(cases[second ? 0 : c].model), &networks[0], &test_error));
            assert_ok(ps_network_open(run_case_model(cases[c].model), &networks[1], &test_error));
            for (int n = 0; n < 2; n++) made.options.shorter[n] = networks[n]->graph;
            const enum ps_status status = worker_create(&made.options, &worker, &test_error);
            if (cases[c].message)
                assert_status(status, PS_USAGE, cases[c].message);
            else
                assert_ok(status);
            if (status == PS_OK) {
                assert_true(worker.stages[0].shorter[0] && worker.stages[0].shorter[1] && !worker.stages[0].shorter[2]);
                worker_destroy(&worker);
            }
            for (int n = 0; n < 2; n++) ps_network_destroy(networks[n]);
        }
    forget(&made);
}

/* What the test wants of a parameter, whose name matches; the first counts. */
struct wanted_span {
    const char *glob;
    double rate, weight_decay;
};

static const struct wanted_span *wanted_of(const struct wanted_span *list, const char *name) {
    while (fnmatch(list->glob, name, 0) != 0) list++;
    return list;
}

/* Each trained parameter lies in one range, with its own rate and decay; ranges side by side differ, and there are no others.
 */
static void check_spans(const struct worker_stage *stage, const struct wanted_span *wanted) {
    const struct update_state *state = &stage->update;
    size_t all = 0;
    assert_true(state->span_count > 0);
    for (int s = 0; s < state->span_count; s++) {
        const struct update_span *span = &state->spans[s];
        assert_true(span->begin == all && span->count > 0);
        all += span->count;
        if (s > 0) assert_true(span->rate != span[-1].rate || span->weight_decay != span[-1].weight_decay);
    }
    assert_int_equal(all, state->count);
    for (int p = 0; p < stage_parameter_count(stage->stage); p++) {
        const struct parameter *parameter = stage_parameter(stage->stage, p);
        if (parameter->role != PARAMETER_TRAINED) continue;
        size_t at = (size_t)stage_parameter_offset(stage->stage, p);
        const size_t end = at + (size_t)shape_elements(&parameter->shape);
        const struct update_span *span = state->spans;
        for (; at >= span->count; span++) at -= span->count;
        const struct wanted_span *own = wanted_of(wanted, parameter->name);
        if (span->rate != own->rate || span->weight_decay != own->weight_decay)
            fail_msg("%s: rate %g, decay %g", parameter->name, span->rate, span->weight_decay);
        assert_true(at + end - (size_t)stage_parameter_offset(stage->stage, p) <= span->count);
    }
}

/* Rates and decays of their own: of the first parameter of a stage, the last, some in between, of shared ones; in all
 * precisions, since parameters whose copies are bf16 lie behind the others. */
static void test_spans(void **state) {
    (void)state;
    static const struct spans_case {
        const char *model, *groups;
        unsigned without_decay;
        struct wanted_span wanted[6];
    } cases[] = {
        {"lenet5,input=16,classes=4",
         "conv1.weight:lr=1;fc1.weight:lr=0,weight-decay=2;fc3.bias:weight-decay=0",
         0,
         {{"conv1.weight", 2, 0.25}, {"fc1.weight", 0, 2}, {"fc3.bias", 1, 0}, {"*", 1, 0.25}}},
        {"lenet5,input=16,classes=4",
         "fc3.*:weight-decay=4",
         WITHOUT_BIASES,
         {{"fc3.*", 1, 4}, {"*.bias", 1, 0}, {"*", 1, 0.25}}},
        {"resnet,input=16,classes=4", NULL, WITHOUT_NORMS, {{"*bn*", 1, 0}, {"*downsample.1*", 1, 0}, {"*", 1, 0.25}}},
        {"resnet,input=16,classes=4",
         NULL,
         WITHOUT_NORMS | WITHOUT_BIASES,
         {{"*bn*", 1, 0}, {"*downsample.1*", 1, 0}, {"*.bias", 1, 0}, {"*", 1, 0.25}}},
        {"gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1",
         "*wte*:lr=0.25",
         WITHOUT_NORMS,
         {{"*wte*", 0.5, 0.25}, {"*ln*", 1, 0}, {"*", 1, 0.25}}},
        {SHARED, "first.bias:lr=1;*.weight:weight-decay=2", 0, {{"first.bias", 2, 0.25}, {"*.weight", 1, 2}, {"*", 1, 0.25}}}};
    for (size_t c = 0; c < PRECISIONS * (sizeof cases / sizeof *cases); c++)
        for (int workers = 1; workers <= 2; workers++) {
            const struct spans_case *own = &cases[c / PRECISIONS];
            struct update_rule rule = {.settings = {.lr = 0.5, .weight_decay = 0.25}, .without_decay = own->without_decay};
            struct made made;
            make(&made, (struct run_case){.model = own->model, .workers = workers});
            assert_ok(ps_network_set_precision(made.network, precisions[c % PRECISIONS], &test_error));
            assert_ok(update_groups_parse(own->groups, &rule, &test_error));
            assert_ok(update_groups_check(&rule, made.network->graph, &test_error));
            made.options.rule = &rule;
            for (made.options.number = 0; made.options.number < workers; made.options.number++) {
                struct worker worker;
                assert_ok(worker_create(&made.options, &worker, &test_error));
                check_spans(&worker.stages[0], own->wanted);
                worker_destroy(&worker);
            }
            forget(&made);
        }
}

/* Stages share the limit of the gradient's norm by the parameters that they have alone; each that several have has its own. */
static void test_shares(void **state) {
    (void)state;
    static const char *const models[] = {"lenet5,input=16,classes=4", "resnet,input=16,classes=4",
                                         "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int workers = 1; workers <= 2; workers++) {
            struct made made;
            double all = 0, given = 0;
            make(&made, (struct run_case){.model = models[m], .workers = workers});
            const struct graph *graph = made.network->graph;
            for (int p = 0; p < graph->parameter_count; p++)
                if (graph->parameters[p].role == PARAMETER_TRAINED && !graph->parameters[p].tied)
                    all += (double)shape_elements(&graph->parameters[p].shape);
            for (made.options.number = 0; made.options.number < workers; made.options.number++) {
                struct worker worker;
                assert_ok(worker_create(&made.options, &worker, &test_error));
                const struct worker_stage *stage = &worker.stages[0];
                double own = 0;
                for (int p = 0; p < stage_parameter_count(stage->stage); p++) {
                    const struct parameter *parameter = stage_parameter(stage->stage, p);
                    if (parameter->role == PARAMETER_TRAINED && !parameter->shared)
                        own += (double)shape_elements(&parameter->shape);
                }
                assert_true(stage->update.share == own / all);
                assert_int_equal(stage->update.tie_count, m == 2);
                given += own / all;
                if (m == 2) assert_true(stage->update.tied_shares[0] == 14 * 16 / all);
                if (m == 2 && made.options.number == 0) given += stage->update.tied_shares[0];
                worker_destroy(&worker);
            }
            assert_true(fabs(given - 1) < 1e-12);
            forget(&made);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_shorter),
                                       cmocka_unit_test(test_spans), cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
