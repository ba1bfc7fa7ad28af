/* Datasets of the public interface; see object.h. The caller's own are a format like any other, one that no spec names. */
#include "data/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/versioned.h"
#include "graph/network.h"

/* --------------------------------------------------------------- the caller's own */

/* One use of them, between the caller's `open` and `close`. */
struct given_dataset {
    struct dataset dataset; /* first */
    struct ps_dataset *object;
};

static struct ps_dataset *object_of(const struct dataset *dataset) { return ((const struct given_dataset *)dataset)->object; }

static enum ps_status check_labels(const struct ps_dataset *object, int64_t index, const int32_t *label,
                                   struct ps_error *error) {
    for (int l = 0; object->source.classes > 0 && l < (object->source.labels > 0 ? object->source.labels : 1); l++)
        if (label[l] < -1 || label[l] >= object->source.classes)
            return error_set(error, PS_BAD_INPUT, "data '%s': sample %lld has the label %d, which is not from -1 to %d",
                             object->name, (long long)index, label[l], object->source.classes - 1);
    return PS_OK;
}

static enum ps_status read_given(const struct dataset *dataset, int64_t index, void *input, void *target,
                                 struct ps_error *error) {
    struct ps_dataset *object = object_of(dataset);
    struct ps_error trouble = {0};
    if (!object->source.several_readers) pthread_mutex_lock(&object->reading);
    thread_enter_given();
    enum ps_status status = object->source.read(object->source.context, index, input, target, &trouble);
    thread_leave_given();
    if (!object->source.several_readers) pthread_mutex_unlock(&object->reading);
    if (status == PS_OK) return check_labels(object, index, target, error);
    error_set(error, status, "data '%s': sample %lld: %s", object->name, (long long)index,
              trouble.message[0] ? trouble.message : "cannot be read");
    error_hint_lines(error, trouble.hint);
    return status;
}

/* `vocabulary` 0: they are no tokens. */
static enum ps_status check_tokens(const struct dataset *dataset, int64_t index, const int32_t *tokens, int64_t count,
                                   int vocabulary, struct ps_error *error) {
    for (int64_t i = 0; vocabulary > 0 && i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            return error_set(error, PS_BAD_INPUT, "data '%s': sample %lld has the token %d, which is not from 0 to %d",
                             object_of(dataset)->name, (long long)index, tokens[i], vocabulary - 1);
    return PS_OK;
}

static enum ps_status read_sample(const struct dataset *dataset, int64_t index, void *input, void *target,
                                  struct ps_error *error) {
    const struct dataset_shape *shape = &dataset->shape;
    const int32_t *tokens = input;
    TRY(read_given(dataset, index, input, target, error));
    if (!shape->inputs)
        return check_tokens(dataset, index, tokens, shape->channels * shape->height * shape->width, shape->vocabulary, error);
    for (int i = 0; i < shape->input_count; i++) {
        const int64_t count = input_elements(&shape->inputs[i]);
        TRY(check_tokens(dataset, index, tokens, count, shape->inputs[i].vocabulary, error));
        tokens += count;
    }
    return PS_OK;
}

static enum ps_status read_label(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    return read_given(dataset, index, NULL, target, error);
}

static void close_given(struct dataset *dataset) {
    const struct ps_dataset_source *source = &object_of(dataset)->source;
    if (source->close) source->close(source->context);
    free(dataset);
}

#define GIVEN_CLASS(several)                                                                                                   \
    {                                                                                                                          \
        .name = "given", .summary = "the caller's", .task = DATASET_ANY, .close = close_given, .read = read_sample,            \
        .target = read_label, .several_readers = (several)                                                                     \
    }
static const struct dataset_class one_reader = GIVEN_CLASS(false), several_readers = GIVEN_CLASS(true);

static enum ps_status open_given(const struct ps_dataset *object, struct samples *samples, struct ps_error *error) {
    const struct ps_dataset_source *source = &object->source;
    struct given_dataset *made;
    TRY(memory_new(&made, 1, "a dataset", error));
    *made = (struct given_dataset){.dataset = {.class = source->several_readers ? &several_readers : &one_reader,
                                               .samples = source->samples,
                                               .shape = {.inputs = source->inputs,
                                                         .input_count = source->input_count,
                                                         .target = source->targets,
                                                         .channels = source->input_shape[0],
                                                         .height = source->input_shape[1],
                                                         .width = source->input_shape[2],
                                                         .classes = source->classes,
                                                         .labels = source->labels,
                                                         .vocabulary = source->vocabulary}},
                                   .object = (struct ps_dataset *)object /* for its lock */};
    struct ps_error trouble = {0};
    enum ps_status status = source->open ? source->open(source->context, &trouble) : PS_OK;
    if (status != PS_OK) {
        free(made);
        return error_set(error, status, "data '%s': %s", object->name,
                         trouble.message[0] ? trouble.message : "cannot be opened");
    }
    *samples = (struct samples){.dataset = &made->dataset, .count = source->samples};
    return PS_OK;
}

/* ------------------------------------------------------------------------- use */

enum ps_status dataset_use(const struct ps_dataset *object, enum dataset_part usual, const struct dataset_shape *wanted,
                           struct samples *samples, struct ps_error *error) {
    static const enum dataset_part parts[] = {[PS_PART_TRAIN] = DATASET_TRAIN, [PS_PART_TEST] = DATASET_TEST};
    struct dataset_shape shape = *wanted;
    struct samples made;
    if (object->words) memcpy(shape.words, object->words->opened.dataset->shape.words, sizeof shape.words);
    if (object->opened.dataset) {
        made = object->opened;
        made.lent = true;
    } else if (object->given) {
        TRY(open_given(object, &made, error));
    } else {
        return samples_open(object->name, object->part == PS_PART_USUAL ? usual : parts[object->part], &shape, samples, error);
    }
    enum ps_status status = samples_check(object->name, &made, &shape, error);
    if (status == PS_OK)
        *samples = made;
    else
        samples_close(&made);
    return status;
}

/* ---------------------------------------------------------------------- creation */

static enum ps_status create(const char *name, struct ps_dataset **dataset, struct ps_error *error) {
    struct arena arena = {0};
    struct ps_dataset *made = arena_take(&arena, 1, sizeof *made);
    const char *own = arena_copy(&arena, name, strlen(name) + 1, 1);
    TRY(arena_check(&arena, "a dataset", error));
    *made = (struct ps_dataset){.arena = arena, .name = own};
    pthread_mutex_init(&made->reading, NULL);
    *dataset = made;
    return PS_OK;
}

enum ps_status ps_dataset_open(const char *spec, const struct ps_dataset_options *options, struct ps_dataset **dataset,
                               struct ps_error *error) {
    struct ps_dataset_options own = {0};
    struct ps_dataset *made;
    if (options) TRY(VERSIONED_TAKE(ps_dataset_options, options, &own, error));
    if (own.part < PS_PART_USUAL || own.part > PS_PART_TEST)
        return error_set(error, PS_USAGE, "part: %d is none of the %d that there are", (int)own.part, PS_PART_TEST + 1);
    if (own.words && !own.words->opened.dataset)
        return error_set(error, PS_USAGE, "words: '%s' was not opened for a network", own.words->name);
    TRY(create(spec, &made, error));
    made->part = own.part;
    made->words = own.words;
    enum ps_status status = PS_OK;
    if (!own.network) {
        status = samples_check_spec(spec, error);
    } else {
        struct dataset_shape wanted = dataset_shape_of(own.network);
        status = dataset_use(made, DATASET_TRAIN, &wanted, &made->opened, error);
    }
    if (status != PS_OK) {
        ps_dataset_destroy(made);
        return status;
    }
    *dataset = made;
    return PS_OK;
}

void ps_dataset_options_init(struct ps_dataset_options *options) {
    *options = (struct ps_dataset_options){.struct_size = sizeof *options};
}

void ps_dataset_source_init(struct ps_dataset_source *source) {
    *source = (struct ps_dataset_source){.struct_size = sizeof *source};
}

static enum ps_status check_input(const struct ps_input *input, struct ps_error *error) {
    int64_t elements = 1;
    if (!input->name || !input->name[0]) return error_set(error, PS_USAGE, "name: there is none");
    const bool numbers = input->type && strcmp(input->type, number_types[TYPE_F32].name) == 0;
    if (!numbers && (!input->type || strcmp(input->type, number_types[TYPE_I32].name) != 0))
        return error_set(error, PS_USAGE, "type: '%s' is not known; f32 and i32 are", input->type ? input->type : "");
    if (input->rank < 1 || input->rank > SHAPE_RANK_MAX)
        return error_set(error, PS_USAGE, "rank: %d is not from 1 to %d", input->rank, SHAPE_RANK_MAX);
    for (int d = 0; d < input->rank; d++) {
        const int64_t most = INT32_MAX / elements;
        if (input->shape[d] < 1 || input->shape[d] > most)
            return error_set(error, PS_USAGE, "shape: %lld is not from 1 to %lld", (long long)input->shape[d], (long long)most);
        elements *= input->shape[d];
    }
    if (input->vocabulary < 0 || (numbers && input->vocabulary > 0))
        return error_set(error, PS_USAGE, "vocabulary: %d; for i32 it is 0 or above, for f32 it is 0", input->vocabulary);
    return PS_OK;
}

static enum ps_status check_listed(const struct ps_dataset_source *source, struct ps_error *error) {
    if (source->input_count < 1 || source->input_count > NETWORK_INPUTS_MAX)
        return error_set(error, PS_USAGE, "input_count: %d is not from 1 to %d", source->input_count, NETWORK_INPUTS_MAX);
    for (int i = 0; i < source->input_count; i++)
        if (check_input(&source->inputs[i], error) != PS_OK) {
            error_prefix(error, "inputs[%d]", i);
            return PS_USAGE;
        }
    return PS_OK;
}

/* A loss reads one: labels, or numbers. */
static enum ps_status check_targets(const struct ps_dataset_source *source, struct ps_error *error) {
    const struct ps_input *target = source->targets;
    if (source->target_count != 1)
        return error_set(error, PS_USAGE, "target_count: %d; 1 is accepted, which the loss reads", source->target_count);
    if (check_input(target, error) != PS_OK) {
        error_prefix(error, "targets[0]");
        return PS_USAGE;
    }
    if (strcmp(target->type, number_types[TYPE_I32].name) == 0 && target->vocabulary < 2)
        return error_set(error, PS_USAGE, "targets[0]: '%.63s' is %s with the vocabulary %d; labels have 2 classes or more",
                         target->name, target->type, target->vocabulary);
    return PS_OK;
}

static enum ps_status check_source(const struct ps_dataset_source *source, struct ps_error *error) {
    if (!source->name || !source->name[0]) return error_set(error, PS_USAGE, "name: the data must have one");
    if (!source->read) return error_set(error, PS_USAGE, "read: there must be such a function");
    if (source->samples < 1 || source->samples > UINT32_MAX)
        return error_set(error, PS_USAGE, "samples: %lld are not from 1 to %lld", (long long)source->samples,
                         (long long)UINT32_MAX);
    if (source->inputs) TRY(check_listed(source, error));
    for (int d = 0; d < 3 && !source->inputs; d++)
        if (source->input_shape[d] < 1 || source->input_shape[d] > 1 << 24)
            return error_set(error, PS_USAGE, "input_shape: %lld x %lld x %lld is no shape", (long long)source->input_shape[0],
                             (long long)source->input_shape[1], (long long)source->input_shape[2]);
    if (source->vocabulary < 0) return error_set(error, PS_USAGE, "vocabulary: %d is negative", source->vocabulary);
    if (source->targets) return check_targets(source, error);
    if (source->classes < 2) return error_set(error, PS_USAGE, "classes: %d are fewer than 2", source->classes);
    if (source->labels < 0) return error_set(error, PS_USAGE, "labels: %d is negative", source->labels);
    return PS_OK;
}

/* An entry of the caller's, with its name, as our own. */
static void take_input(const struct ps_input *given, struct ps_input *own, struct arena *arena) {
    *own = *given;
    own->type = number_types[strcmp(given->type, number_types[TYPE_I32].name) == 0 ? TYPE_I32 : TYPE_F32].name;
    own->name = arena_copy(arena, given->name, strlen(given->name) + 1, 1);
}

/* What the caller lists, as our own. */
static enum ps_status take_lists(struct ps_dataset *made, struct ps_error *error) {
    struct ps_dataset_source *source = &made->source;
    for (int i = 0; source->inputs && i < source->input_count; i++)
        take_input(&source->inputs[i], &made->inputs[i], &made->arena);
    if (source->inputs) source->inputs = made->inputs;
    if (!source->targets) return arena_status(&made->arena, "a dataset", error);
    take_input(source->targets, &made->target, &made->arena);
    source->targets = &made->target;
    source->classes = made->target.vocabulary;
    source->labels = (int)input_elements(&made->target);
    return arena_status(&made->arena, "a dataset", error);
}

enum ps_status ps_dataset_create(const struct ps_dataset_source *source, struct ps_dataset **dataset, struct ps_error *error) {
    struct ps_dataset_source own = {0};
    struct ps_dataset *made;
    TRY(VERSIONED_TAKE(ps_dataset_source, source, &own, error));
    TRY(check_source(&own, error));
    TRY(create(own.name, &made, error));
    own.name = made->name;
    made->given = true;
    made->source = own;
    enum ps_status status = take_lists(made, error);
    if (status != PS_OK) {
        ps_dataset_destroy(made);
        return status;
    }
    *dataset = made;
    return PS_OK;
}

int64_t ps_dataset_samples(const struct ps_dataset *dataset) {
    return dataset->given ? dataset->source.samples : dataset->opened.dataset ? dataset->opened.count : -1;
}

const char *ps_dataset_name(const struct ps_dataset *dataset) { return dataset->name; }

void ps_dataset_destroy(struct ps_dataset *dataset) {
    if (!dataset) return;
    samples_close(&dataset->opened);
    pthread_mutex_destroy(&dataset->reading);
    struct arena arena = dataset->arena; /* in which the object is, too */
    arena_release(&arena);
}
