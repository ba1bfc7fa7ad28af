/*
 * Programs as text: what `penstock program` prints and reads back. Printing then parsing gives the same programs.
 *
 *     penstock-program 1
 *     schedule 1f1b-async
 *     weights pipeoptim
 *     micro-batches 1            per mini-batch
 *     batches 4                  mini-batches in the segment
 *     workers 3                  and 'tied', if the first and the last stage share a parameter; of others
 *                                'tied 0,1 0,3 2,4': the first of the stages that share, and each other
 *     stage 0 worker 0 slots @2 s2 i3 o2 g2 d0     and w2, if the schedule splits backwards
 *     worker 0: 0F0@0,s0,i0,o0 0SA0>1,o0 ...
 *
 * A stage has a line for each of its instances. `replica 1/2` after the worker: it is replica 1 of 2, counted from 0; `forward`
 * or `backward`: it runs only those. x1 y2 u1 v2 behind the slots: encoded blocks; `wire int8 bf16`: the codecs of activations
 * and gradients at the cut after the stage; `sum int8`: that of the gradients that its replicas sum. '#' begins a comment.
 */
#include "base/text.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "program/lower.h"

/* ------------------------------------------------------------------ printing */

const char *instruction_text(const struct instruction *instruction, char out[96]) {
    const struct opcode_info *info = &opcode_table[instruction->op];
    int length = snprintf(out, 96, "%d%s%d", instruction->stage, info->text, instruction->micro_batch);
    for (const char *operand = info->operands; *operand; operand++) {
        char *end = out + length;
        size_t room = 96 - (size_t)length;
        enum block_kind kind = operand_block(*operand);
        if (*operand == '@') length += snprintf(end, room, "@%d", instruction->slot);
        if (*operand == ':') length += snprintf(end, room, ":%d", instruction->to);
        if (*operand == '+' && instruction->predict_to != NO_SLOT)
            length += snprintf(end, room, "+%d:%d", instruction->ahead, instruction->predict_to);
        if (*operand == '>' || *operand == '<') length += snprintf(end, room, "%c%d", *operand, instruction->peer);
        if (kind != BLOCK_KINDS && instruction->block[kind] != NO_SLOT)
            length += snprintf(end, room, ",%c%d", *operand, instruction->block[kind]);
    }
    return out;
}

/* Of encoded blocks, in the order of enum wire_block. */
static const char wire_letters[WIRE_BLOCKS] = {'x', 'y', 'u', 'v'};

static void print_instance(struct text *text, const struct ps_programs *programs, int instance) {
    const struct stage_slots *slots = &programs->slots[instance];
    const struct instance *of = &programs->instances[instance];
    text_add(text, "stage %d worker %d", of->stage, of->worker);
    if (of->replicas > 1) text_add(text, " replica %d/%d", of->replica, of->replicas);
    if (!of->forward || !of->backward) text_add(text, " %s", of->forward ? "forward" : "backward");
    text_add(text, " slots @%d s%d i%d o%d g%d d%d", slots->weights, slots->stash, slots->input, slots->output,
             slots->output_gradient, slots->input_gradient);
    if (slots->delta > 0) text_add(text, " w%d", slots->delta);
    for (int b = 0; b < WIRE_BLOCKS; b++)
        if (slots->wire[b] > 0) text_add(text, " %c%d", wire_letters[b], slots->wire[b]);
    text_add(text, "%s", programs->recompute[of->stage] ? " recompute" : "");
    const struct cut_wire *wire = &programs->wire[of->stage];
    char activation[32], gradient[32];
    if (wire->activation.codec != WIRE_NONE || wire->gradient.codec != WIRE_NONE)
        text_add(text, " wire %s %s", wire_text(&wire->activation, activation), wire_text(&wire->gradient, gradient));
    const struct wire *share = &programs->sum_wire[of->stage].share;
    if (share->codec != WIRE_NONE) text_add(text, " sum %s", wire_text(share, activation));
    text_add(text, "\n");
}

/* Which stages share parameters: " tied", the first and the last, or " tied 0,1 0,3 2,4": the first of such stages and each
 * other. */
static void print_ties(struct text *text, const struct ps_programs *programs) {
    const int last = programs->stages - 1;
    const struct sum_group *groups = programs->groups;
    if (programs_tied(programs)) text_add(text, " tied");
    bool only_ends = groups[last].number == 0;
    for (int stage = 1; stage < last; stage++) only_ends = only_ends && groups[stage].stage_count == 1;
    for (int stage = 1; stage <= last && !only_ends; stage++)
        if (groups[stage].number < stage) text_add(text, " %d,%d", groups[stage].number, stage);
    text_add(text, "\n");
}

char *ps_programs_print(const struct ps_programs *programs) {
    struct text text = {0};
    text_add(&text, "penstock-program 1\nschedule %s\nweights %s\nmicro-batches %d\nbatches %d\nworkers %d",
             programs->schedule->name, programs->policy->name, programs->micro_batches, programs->batches, programs->workers);
    print_ties(&text, programs);
    for (int instance = 0; instance < programs->instance_count; instance++) print_instance(&text, programs, instance);
    for (int worker = 0; worker < programs->workers; worker++) {
        text_add(&text, "worker %d:", worker);
        for (int i = 0; i < programs->worker[worker].count; i++) {
            char word[96];
            text_add(&text, " %s", instruction_text(&programs->worker[worker].code[i], word));
        }
        text_add(&text, "\n");
    }
    return text_take(&text);
}

/* PyTorch executes one mini-batch, after which the caller updates the weights; each stage is on one rank, and each rank has a
 * stage. It has no action that recomputes or encodes. */
static enum ps_status check_torch(const struct ps_programs *programs, struct ps_error *error) {
    static const char cannot[] = "PyTorch's schedules cannot say it";
    if (!programs->flush) {
        error_set(error, PS_USAGE, "schedule %s: weights are updated while other mini-batches are in the pipeline; %s",
                  programs->schedule->name, cannot);
        error_hint(error, "plan with --weights sync and a schedule that flushes, such as 1f1b or zb-h1");
        return PS_USAGE;
    }
    if (programs->batches != 1)
        return error_set(error, PS_USAGE, "%d mini-batches: a schedule of PyTorch's is of 1", programs->batches);
    for (int stage = 0; stage < programs->stages; stage++) {
        const int instances = programs->first_instance[stage + 1] - programs->first_instance[stage];
        const struct cut_wire *wire = &programs->wire[stage];
        if (instances != 1)
            return error_set(error, PS_USAGE, "stage %d is on %d workers (schedule %s); %s, where a stage is on one rank",
                             stage, instances, programs->schedule->name, cannot);
        if (programs->recompute[stage])
            return error_set(error, PS_USAGE,
                             "stage %d recomputes its forward; %s: plan without, and use "
                             "torch.utils.checkpoint in the module",
                             stage, cannot);
        if (wire->activation.codec != WIRE_NONE || wire->gradient.codec != WIRE_NONE)
            return error_set(error, PS_USAGE, "the cut after stage %d encodes what it sends; %s: plan with --wire none", stage,
                             cannot);
    }
    for (int worker = 0; worker < programs->workers; worker++)
        if (programs->worker[worker].count == 0)
            return error_set(error, PS_USAGE, "worker %d of %d has no stage; PyTorch needs one on each rank", worker,
                             programs->workers);
    return PS_OK;
}

enum ps_status ps_programs_torch_csv(const struct ps_programs *programs, char **csv, struct ps_error *error) {
    TRY(check_torch(programs, error));
    struct text text = {0};
    for (int worker = 0; worker < programs->workers; worker++) {
        const struct program *program = &programs->worker[worker];
        const char *separator = "";
        for (int i = 0; i < program->count; i++) {
            const struct instruction *at = &program->code[i];
            if (at->op > OP_W) continue;
            text_add(&text, "%s%d%s%d", separator, at->stage, opcode_table[at->op].text, at->micro_batch);
            separator = ",";
        }
        text_add(&text, "\n");
    }
    TRY(text_status(&text, "the schedule", error));
    *csv = text_take(&text);
    return PS_OK;
}

/* ------------------------------------------------------------------- parsing */

struct reader {
    const char *at;
    int line;
    struct ps_error *error;
};

static enum ps_status bad(const struct reader *reader, const char *what, const char *word, const char *accepted) {
    return error_set(reader->error, PS_BAD_INPUT, "line %d: %s: '%.40s' is not %s", reader->line, what, word, accepted);
}

static enum ps_status ended(const struct reader *reader, const char *missing) {
    return error_set(reader->error, PS_BAD_INPUT, "line %d: the program ends here, without its line '%s'", reader->line,
                     missing);
}

/* The next word of the line into `word` ("" at the end of the line). */
static void next_word(struct reader *reader, char word[96]) {
    size_t length = 0;
    while (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r') reader->at++;
    while (*reader->at && !isspace((unsigned char)*reader->at) && *reader->at != '#') {
        if (length + 1 < 96) word[length++] = *reader->at;
        reader->at++;
    }
    word[length] = 0;
}

/* Moves to the next line that has a word; false at the end of the text. */
static bool next_line(struct reader *reader) {
    for (;;) {
        while (*reader->at && *reader->at != '\n') reader->at++;
        if (!*reader->at) return false;
        reader->at++;
        reader->line++;
        const char *p = reader->at;
        while (*p == ' ' || *p == '\t' || *p == '\r') p++;
        if (*p && *p != '\n' && *p != '#') return true;
    }
}

/* A decimal number 0..limit at *at, moved past it. */
static bool read_number(const char **at, long limit, long *value) {
    if (!isdigit((unsigned char)**at)) return false;
    char *end;
    long number = strtol(*at, &end, 10);
    if (number < 0 || number > limit) return false;
    *at = end;
    *value = number;
    return true;
}

static enum ps_status read_field(struct reader *reader, const char *name, long low, long high, long *value) {
    char word[96];
    next_word(reader, word);
    const char *at = word;
    if (!read_number(&at, high, value) || *at || *value < low) {
        char accepted[64];
        snprintf(accepted, sizeof accepted, "a number from %ld to %ld", low, high);
        return bad(reader, name, word, accepted);
    }
    return PS_OK;
}

static enum ps_status expect(struct reader *reader, const char *wanted) {
    char word[96], accepted[32];
    next_word(reader, word);
    snprintf(accepted, sizeof accepted, "'%s'", wanted);
    return strcmp(word, wanted) == 0 ? PS_OK : bad(reader, "program", word, accepted);
}

/* One operand letter of an instruction, from *at. */
static bool read_operand(const char **at, char letter, struct instruction *instruction) {
    long value, target;
    enum block_kind kind = operand_block(letter);
    if (kind != BLOCK_KINDS) {
        if ((*at)[0] != ',' || (*at)[1] != letter) return true; /* a stage at an end of the pipeline has no such block */
        *at += 2;
        if (!read_number(at, INT16_MAX, &value)) return false;
        instruction->block[kind] = (int16_t)value;
        return true;
    }
    if (**at != letter) return letter == '+';
    (*at)++;
    if (!read_number(at, INT16_MAX, &value)) return false;
    if (letter == '@') instruction->slot = (int16_t)value;
    if (letter == ':') instruction->to = (int16_t)value;
    if (letter == '>' || letter == '<') instruction->peer = (int16_t)value;
    if (letter != '+') return true;
    instruction->ahead = (int16_t)value;
    if (**at != ':') return false;
    (*at)++;
    if (!read_number(at, INT16_MAX, &target)) return false;
    instruction->predict_to = (int16_t)target;
    return true;
}

static bool read_instruction(const char *word, struct instruction *out) {
    const char *at = word;
    long stage, micro_batch;
    char name[8];
    size_t length = 0;
    if (!read_number(&at, INT16_MAX, &stage)) return false;
    while (isupper((unsigned char)*at) && length + 1 < sizeof name) name[length++] = *at++;
    name[length] = 0;
    int op = 0;
    while (op < OPCODE_COUNT && strcmp(opcode_table[op].text, name) != 0) op++;
    if (op == OPCODE_COUNT || !read_number(&at, INT32_MAX, &micro_batch)) return false;
    struct instruction instruction = instruction_make((enum opcode)op, (int)stage, (int)micro_batch);
    for (const char *operand = opcode_table[op].operands; *operand; operand++)
        if (!read_operand(&at, *operand, &instruction)) return false;
    if (*at) return false;
    *out = instruction;
    return true;
}

/* "s2": the letter and a number. */
static bool read_slot_count(const char *word, char letter, int *count) {
    const char *at = word + 1;
    long value;
    if (word[0] != letter || !read_number(&at, INT16_MAX + 1L, &value) || *at) return false;
    *count = (int)value;
    return true;
}

/* "slots @2 s2 ...", with the word "slots" read already; leaves the first word behind them in `word`. */
static enum ps_status read_slots(struct reader *reader, struct stage_slots *slots, char word[96]) {
    static const char letters[] = "@siogd";
    int *counts[] = {&slots->weights, &slots->stash,           &slots->input,
                     &slots->output,  &slots->output_gradient, &slots->input_gradient};
    for (int i = 0; letters[i]; i++) {
        next_word(reader, word);
        if (!read_slot_count(word, letters[i], counts[i]))
            return bad(reader, "slots", word, "a letter of @siogd, in that order, and a number");
    }
    next_word(reader, word);
    if (read_slot_count(word, 'w', &slots->delta)) next_word(reader, word);
    for (int b = 0; b < WIRE_BLOCKS; b++)
        if (read_slot_count(word, wire_letters[b], &slots->wire[b])) next_word(reader, word);
    return PS_OK;
}

/* The words between the worker and the slots. */
static enum ps_status read_share(struct reader *reader, struct instance *instance) {
    char word[96];
    long replica, replicas;
    next_word(reader, word);
    if (strcmp(word, "replica") == 0) {
        next_word(reader, word);
        const char *at = word;
        bool good = read_number(&at, INT16_MAX, &replica) && *at++ == '/' && read_number(&at, INT16_MAX, &replicas) && !*at;
        if (!good || replica >= replicas) return bad(reader, "replica", word, "of the form 0/2");
        instance->replica = (int)replica;
        instance->replicas = (int)replicas;
        next_word(reader, word);
    }
    if (strcmp(word, "forward") == 0 || strcmp(word, "backward") == 0) {
        *(word[0] == 'f' ? &instance->backward : &instance->forward) = false;
        next_word(reader, word);
    }
    return strcmp(word, "slots") == 0 ? PS_OK : bad(reader, "stage", word, "'slots'");
}

static enum ps_status read_codec(struct reader *reader, const char *what, struct wire *out) {
    char word[96];
    next_word(reader, word);
    return wire_parse(word, what, out, NULL) == PS_OK ? PS_OK : bad(reader, what, word, "none, bf16, int8 or topk:SHARE");
}

/* The codecs behind the words "wire" and "sum", of which `word` is the first. */
static enum ps_status read_wires(struct reader *reader, char word[96], int replicas, struct cut_wire *cut,
                                 struct sum_wire *sum) {
    if (strcmp(word, "wire") == 0) {
        TRY(read_codec(reader, "wire", &cut->activation));
        TRY(read_codec(reader, "wire", &cut->gradient));
        next_word(reader, word);
    }
    if (strcmp(word, "sum") == 0 && replicas > 1) {
        struct wire share;
        TRY(read_codec(reader, "sum", &share));
        *sum = wire_of_sum(&share, replicas);
        next_word(reader, word);
    }
    return word[0] ? bad(reader, "stage", word, "'recompute', 'wire', of replicas 'sum', or the end") : PS_OK;
}

static enum ps_status read_instance(struct reader *reader, struct ps_programs *programs, int before, struct instance *instance,
                                    struct stage_slots *slots) {
    long stage, worker;
    char word[96];
    *instance = (struct instance){.forward = true, .backward = true, .replicas = 1};
    TRY(expect(reader, "stage"));
    TRY(read_field(reader, "stage", before < 0 ? 0 : before, before < programs->stages - 1 ? before + 1 : before, &stage));
    instance->stage = (int)stage;
    TRY(expect(reader, "worker"));
    TRY(read_field(reader, "worker", 0, programs->workers - 1, &worker));
    instance->worker = (int)worker;
    TRY(read_share(reader, instance));
    TRY(read_slots(reader, slots, word));
    programs->recompute[stage] = strcmp(word, "recompute") == 0;
    if (programs->recompute[stage]) next_word(reader, word);
    return read_wires(reader, word, instance->replicas, &programs->wire[stage], &programs->sum_wire[stage]);
}

static enum ps_status read_instances(struct reader *reader, struct ps_programs *programs, int count) {
    struct arena arena = {0};
    struct instance *instances = arena_take(&arena, (size_t)count, sizeof *instances);
    struct stage_slots *slots = arena_take(&arena, (size_t)count, sizeof *slots);
    TRY(arena_check(&arena, "program", reader->error));
    enum ps_status status = PS_OK;
    for (int instance = 0; status == PS_OK && instance < count; instance++) {
        status = next_line(reader) ? PS_OK : ended(reader, "stage");
        if (status == PS_OK)
            status = read_instance(reader, programs, instance > 0 ? instances[instance - 1].stage : -1, &instances[instance],
                                   &slots[instance]);
    }
    if (status == PS_OK) status = programs_set_instances(programs, instances, count, reader->error);
    for (int instance = 0; status == PS_OK && instance < count; instance++) {
        programs->slots[instance] = slots[instance];
        programs->slots[instance].forward_only = !instances[instance].backward;
    }
    arena_release(&arena);
    return status;
}

static enum ps_status read_worker(struct reader *reader, struct ps_programs *programs, int worker) {
    char word[96], label[32];
    TRY(expect(reader, "worker"));
    snprintf(label, sizeof label, "%d:", worker);
    TRY(expect(reader, label));
    for (next_word(reader, word); word[0]; next_word(reader, word)) {
        struct instruction instruction;
        if (!read_instruction(word, &instruction))
            return bad(reader, "instruction", word, "of the form STAGE OP MICROBATCH operands");
        TRY(program_append(&programs->worker[worker], &instruction, reader->error));
    }
    return PS_OK;
}

/* A line "NAME WORD". */
static enum ps_status read_name(struct reader *reader, const char *name, char *out, size_t size) {
    char word[96];
    if (!next_line(reader)) return ended(reader, name);
    TRY(expect(reader, name));
    next_word(reader, word);
    if (!word[0] || strlen(word) >= size) return bad(reader, name, word, "a name");
    strcpy(out, word);
    return PS_OK;
}

static enum ps_status read_count(struct reader *reader, const char *name, long high, int *out) {
    long value;
    if (!next_line(reader)) return ended(reader, name);
    TRY(expect(reader, name));
    TRY(read_field(reader, name, 1, high, &value));
    *out = (int)value;
    return PS_OK;
}

/* Counts the instances before they are read: one line each, before the first worker's. The last is of the last stage. */
static int count_instances(const char *text, int *stages) {
    int instances = 0;
    for (const char *at = text; at; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (strncmp(at, "stage ", 6) != 0) continue;
        long last = strtol(at + 6, NULL, 10);
        *stages = last >= 0 && last < INT16_MAX ? (int)last + 1 : 1;
        instances++;
    }
    return instances;
}

static enum ps_status read_body(struct reader *reader, struct ps_programs *programs, int instances) {
    TRY(read_instances(reader, programs, instances));
    for (int worker = 0; worker < programs->workers; worker++) {
        if (!next_line(reader)) return ended(reader, "worker");
        TRY(read_worker(reader, programs, worker));
    }
    return next_line(reader) ? bad(reader, "program", reader->at, "the end of the text") : PS_OK;
}

/* Checks a name in a table; an unknown one is an error of the file. */
static enum ps_status check_known(const struct reader *reader, enum ps_status found) {
    if (found == PS_OK) return PS_OK;
    error_prefix(reader->error, "line %d", reader->line);
    if (reader->error) reader->error->status = PS_BAD_INPUT;
    return PS_BAD_INPUT;
}

/* "0,2": stage 2 shares with stage 0, the first of the stages that share with each other. */
static enum ps_status read_pair(struct reader *reader, const char *word, int stages, int *head) {
    const char *at = word;
    long first = 0, stage = 0;
    const bool good = read_number(&at, stages - 1, &first) && *at++ == ',' && read_number(&at, stages - 1, &stage) && !*at;
    if (!good || first >= stage || head[first] != first || head[stage] != stage)
        return bad(reader, "tied", word, "of the form 0,2: the first of the stages that share, and one of the others");
    head[stage] = (int)first;
    return PS_OK;
}

static enum ps_status read_ties(struct reader *reader, struct ps_programs *programs) {
    char word[96];
    int *head;
    next_word(reader, word);
    if (!word[0]) return PS_OK;
    if (strcmp(word, "tied") != 0) return bad(reader, "workers", word, "'tied'");
    TRY(memory_new(&head, programs->stages, "programs", reader->error));
    for (int stage = 0; stage < programs->stages; stage++) head[stage] = stage;
    next_word(reader, word);
    if (!word[0]) head[programs->stages - 1] = 0;
    enum ps_status status = PS_OK;
    for (; word[0] && status == PS_OK; next_word(reader, word)) status = read_pair(reader, word, programs->stages, head);
    if (status == PS_OK) status = programs_set_groups(programs, head, reader->error);
    free(head);
    return status;
}

enum ps_status ps_programs_parse(const char *text, struct ps_programs **out, struct ps_error *error) {
    struct reader reader = {.at = text, .line = 1, .error = error};
    struct ps_programs head = {0}, *programs;
    int stages = 0, instances = count_instances(text, &stages);
    char name[32];
    TRY(expect(&reader, "penstock-program"));
    TRY(expect(&reader, "1"));
    TRY(read_name(&reader, "schedule", name, sizeof name));
    TRY(check_known(&reader, schedule_find(name, &head.schedule, error)));
    TRY(read_name(&reader, "weights", name, sizeof name));
    TRY(check_known(&reader, policy_find(name, &head.policy, error)));
    TRY(read_count(&reader, "micro-batches", 1 << 24, &head.micro_batches));
    TRY(read_count(&reader, "batches", (1 << 24) / head.micro_batches, &head.batches));
    TRY(read_count(&reader, "workers", INT16_MAX, &head.workers));
    if (instances == 0) return error_set(error, PS_BAD_INPUT, "line %d: program has no stage lines", reader.line);
    TRY(programs_create(head.workers, stages, &programs, error));
    programs->schedule = head.schedule;
    programs->policy = head.policy;
    programs->flush = head.schedule->flush;
    programs->micro_batches = head.micro_batches;
    programs->batches = head.batches;
    programs->parsed = true;
    enum ps_status status = read_ties(&reader, programs);
    if (status == PS_OK) status = read_body(&reader, programs, instances);
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    *out = programs;
    return PS_OK;
}
