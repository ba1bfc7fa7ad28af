/* Segment lengths, and lowering each length once. */
#include "exec/program_set.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"

/* Steps from `step` to the next multiple of `every` within its epoch. */
static int64_t steps_to(const struct segment_lengths *lengths, int64_t step, int64_t every) {
    if (every == 0) return INT64_MAX;
    int64_t place = lengths->epoch > 0 ? step % lengths->epoch : step;
    return every - place % every;
}

int64_t segment_to_evaluation(const struct segment_lengths *lengths, int64_t step) {
    const int64_t left = number_smaller(lengths->steps - step, steps_to(lengths, step, lengths->evaluate_every));
    return lengths->epoch > 0 ? number_smaller(left, lengths->epoch - step % lengths->epoch) : left;
}

int segment_length(const struct segment_lengths *lengths, int64_t step) {
    int64_t length = segment_to_evaluation(lengths, step), most = SEGMENT_MICRO_BATCHES / lengths->micro_batches;
    length = number_smaller(length, steps_to(lengths, step, lengths->checkpoint_every));
    return (int)number_smaller(length, most < 1 ? 1 : most);
}

static bool ends(const struct segment_lengths *lengths, int64_t step, int64_t every) {
    bool epoch = lengths->epoch > 0 && step % lengths->epoch == 0;
    return step == lengths->steps || epoch || steps_to(lengths, step, every) == every;
}

bool segment_end_evaluates(const struct segment_lengths *lengths, int64_t step) {
    return ends(lengths, step, lengths->evaluate_every);
}

bool segment_end_saves(const struct segment_lengths *lengths, int64_t step) {
    return ends(lengths, step, lengths->checkpoint_every);
}

static struct program_set_entry *find_entry(struct program_set *set, int batches) {
    for (int i = 0; i < set->count; i++)
        if (set->entries[i].batches == batches) return &set->entries[i];
    return NULL;
}

static void grow_slots(struct stage_slots *most, const struct stage_slots *slots) {
    most->forward_only = slots->forward_only;
    most->weights = number_larger_int(most->weights, slots->weights);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        int *count = stage_slots_place(most, (enum block_kind)kind);
        *count = number_larger_int(*count, stage_slots_of(slots, (enum block_kind)kind));
    }
}

static void count_slots(struct program_set *set, const struct ps_programs *programs) {
    for (int instance = 0; instance < programs->instance_count; instance++)
        grow_slots(&set->slots[instance], &programs->slots[instance]);
}

static enum ps_status too_many(const struct segment_lengths *lengths, struct ps_error *error) {
    error_set(error, PS_USAGE,
              "`checkpoint_every`: %lld together with `evaluate_every` %lld divides the run into segments of more than %d "
              "different lengths",
              (long long)lengths->checkpoint_every, (long long)lengths->evaluate_every, PROGRAM_SET_MAX);
    error_hint(error, "one of them should be a multiple of the other");
    return PS_USAGE;
}

static enum ps_status add_lengths(const struct ps_plan *plan, const struct segment_lengths *lengths, struct program_set *set,
                                  struct ps_error *error) {
    int batches;
    for (int64_t step = 0; step < lengths->steps; step += batches) {
        batches = segment_length(lengths, step);
        struct program_set_entry *entry = find_entry(set, batches);
        if (entry) {
            entry->uses++;
            continue;
        }
        if (set->count == PROGRAM_SET_MAX) return too_many(lengths, error);
        entry = &set->entries[set->count];
        *entry = (struct program_set_entry){.batches = batches, .uses = 1};
        TRY(lower_plan(plan, batches, &entry->programs, error));
        set->count++;
        if (!set->slots) TRY(memory_new(&set->slots, entry->programs->instance_count, "programs", error));
        count_slots(set, entry->programs);
    }
    return PS_OK;
}

static enum ps_status add_evaluation(struct program_set *set, int64_t micro_batches, struct ps_programs **programs,
                                     struct ps_error *error) {
    if (micro_batches == 0) return PS_OK;
    TRY(lower_evaluation(set->entries[0].programs, (int)micro_batches, programs, error));
    count_slots(set, *programs);
    return PS_OK;
}

enum ps_status program_set_create(const struct ps_plan *plan, const struct segment_lengths *lengths, int64_t evaluation_batches,
                                  int64_t decoding_batches, struct program_set *out, struct ps_error *error) {
    struct program_set set = {0};
    enum ps_status status = PS_OK;
    if (evaluation_batches > 1 << 24)
        status =
            error_set(error, PS_USAGE, "`valid`: %lld micro-batches are too many to evaluate", (long long)evaluation_batches);
    if (status == PS_OK) status = add_lengths(plan, lengths, &set, error);
    if (status == PS_OK) status = add_evaluation(&set, evaluation_batches, &set.evaluation, error);
    if (status == PS_OK) status = add_evaluation(&set, decoding_batches, &set.decoding, error);
    if (status != PS_OK) {
        program_set_free(&set);
        return status;
    }
    *out = set;
    return PS_OK;
}

void program_set_free(struct program_set *set) {
    for (int i = 0; i < set->count; i++) ps_programs_destroy(set->entries[i].programs);
    for (int i = 0; i < PROGRAM_SET_OTHERS; i++) ps_programs_destroy(set->others[i].programs);
    ps_programs_destroy(set->evaluation);
    ps_programs_destroy(set->decoding);
    free(set->slots);
    *set = (struct program_set){0};
}

enum ps_status program_set_check_fit(const struct program_set *set, const struct ps_programs *programs,
                                     struct ps_error *error) {
    for (int instance = 0; instance < programs->instance_count; instance++) {
        const struct stage_slots *has = &set->slots[instance], *needs = &programs->slots[instance];
        bool fits = needs->weights <= has->weights;
        for (int kind = 0; kind < BLOCK_KINDS; kind++)
            fits &= stage_slots_of(needs, (enum block_kind)kind) <= stage_slots_of(has, (enum block_kind)kind);
        if (!fits)
            return error_set(error, PS_FAILED, "stage %d needs more blocks for these programs than the training has",
                             programs->instances[instance].stage);
    }
    return PS_OK;
}

enum ps_status program_set_find(struct program_set *set, const struct ps_plan *plan, int batches,
                                const struct ps_programs **programs, struct ps_error *error) {
    struct program_set_entry *entry = find_entry(set, batches);
    for (int i = 0; !entry && i < PROGRAM_SET_OTHERS; i++)
        if (set->others[i].batches == batches) entry = &set->others[i];
    if (!entry) {
        struct ps_programs *made;
        TRY(lower_plan(plan, batches, &made, error));
        enum ps_status status = program_set_check_fit(set, made, error);
        if (status != PS_OK) {
            ps_programs_destroy(made);
            return status;
        }
        entry = &set->others[set->other_count++ % PROGRAM_SET_OTHERS];
        ps_programs_destroy(entry->programs);
        *entry = (struct program_set_entry){.batches = batches, .programs = made};
    }
    *programs = entry->programs;
    return PS_OK;
}

int program_set_longest(const struct program_set *set) {
    int longest = 0;
    for (int i = 0; i < set->count; i++)
        if (set->entries[i].batches > longest) longest = set->entries[i].batches;
    return longest;
}
