/*
 * What is said of a worker that was lost or is stalled: which process on which host, what it was at, and who waits for it. All
 * processes have all programs, so that a beat need only say how far its worker has come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "train/trainer.h"

/* Last instructions that are told of each worker. */
enum { LAST_INSTRUCTIONS = 6 };
/* So long at most until all have told where they stand. They end within 2 s of the loss. */
#define LAST_WORDS_S 4.0
/* So far a worker's program is searched for what it needs of a lost one. */
enum { INSTRUCTIONS_AHEAD = 64 };

static int worker_count(const struct ps_trainer *trainer) {
    return trainer->executor ? trainer->executor->worker_count : trainer->processes->count;
}

/* The program that the worker is in, NULL: none. */
static const struct program *program_of(const struct ps_trainer *trainer, const struct process_state *state, int rank) {
    const struct ps_programs *programs = trainer->executor ? trainer->executor->segment.programs : NULL;
    if (!programs || state->segment != trainer->executor->segment_number || rank >= programs->workers) return NULL;
    const struct program *program = &programs->worker[rank];
    return state->next < program->count ? program : NULL;
}

static bool reads_from(const struct instruction *instruction, const struct program *program, int next, int rank) {
    for (int i = next - 1; i >= 0 && i > next - 64; i--) {
        const struct instruction *earlier = &program->code[i];
        if (opcode_table[earlier->op].action == ACTION_RECEIVE && earlier->stage == instruction->stage &&
            earlier->micro_batch == instruction->micro_batch && earlier->peer == rank)
            return true;
    }
    return false;
}

static const char *place_text(const struct instruction *instruction, char out[160]) {
    char code[96];
    snprintf(out, 160, "%s (stage %d, micro-batch %d)", instruction_text(instruction, code), instruction->stage,
             instruction->micro_batch);
    return out;
}

/* Where a worker is, or where it was when its process was last heard of. */
static struct process_state state_of(const struct ps_trainer *trainer, int worker) {
    const struct executor *executor = trainer->executor;
    bool here = executor && executor_has(executor, worker);
    return here ? executor_state_of(executor, worker) : processes_state_of(trainer->processes, worker);
}

/* "worker 1", of several processes "worker 1 on HOST". */
static void add_worker(const struct ps_trainer *trainer, int worker, struct text *text) {
    text_add(text, "worker %d", worker);
    if (trainer->processes->count > 1) text_add(text, " on %s", trainer->processes->info[worker].host);
}

/* The first instruction from `next` on that reads what comes from `lost`; program->count: none does soon. */
static int find_need(const struct program *program, int next, int lost) {
    for (int i = next; i < program->count && i < next + INSTRUCTIONS_AHEAD; i++) {
        enum action action = opcode_table[program->code[i].op].action;
        bool computes = action != ACTION_SEND && action != ACTION_RECEIVE;
        if (computes && reads_from(&program->code[i], program, i, lost)) return i;
    }
    return program->count;
}

/* "; worker 1 waits for it at 1B5 (...)", of all that do, or would next: the end of a run stops those who have not come to it
 * yet. */
static void add_waiting(const struct ps_trainer *trainer, int lost, struct text *text) {
    char place[160];
    for (int worker = 0; worker < worker_count(trainer); worker++) {
        struct process_state state = state_of(trainer, worker);
        const struct program *program = program_of(trainer, &state, worker);
        int need = worker == lost || !program ? -1 : find_need(program, state.next, lost);
        if (need < 0 || need == program->count) continue;
        text_add(text, "; ");
        add_worker(trainer, worker, text);
        text_add(text, state.waiting && need == state.next ? " waits for it at %s" : " would wait for it at %s",
                 place_text(&program->code[need], place));
    }
}

static void add_instructions(const struct program *program, const struct process_state *state, struct text *text) {
    char code[96];
    int first = state->next > LAST_INSTRUCTIONS ? state->next - LAST_INSTRUCTIONS : 0;
    for (int i = first; i < state->next; i++) text_add(text, " %s", instruction_text(&program->code[i], code));
    text_add(text, state->waiting ? ", waits at %s\n" : ", at %s\n", instruction_text(&program->code[state->next], code));
}

/* A line for each worker. */
static char *last_instructions(const struct ps_trainer *trainer) {
    struct text text = {0};
    for (int worker = 0; worker < worker_count(trainer); worker++) {
        struct process_state state = state_of(trainer, worker);
        const struct program *program = program_of(trainer, &state, worker);
        text_add(&text, "worker %d", worker);
        if (trainer->processes->count > 1) text_add(&text, " (rank %d on %s)", worker, trainer->processes->info[worker].host);
        text_add(&text, ":");
        if (program)
            add_instructions(program, &state, &text);
        else
            text_add(&text, " between segments\n");
    }
    return text_take(&text);
}

/* All of them where there is a run directory, and as much as a message holds. */
static void leave_instructions(const struct ps_trainer *trainer, struct ps_error *error) {
    char path[4096], *lines = last_instructions(trainer);
    if (!lines) return;
    if (trainer->directory.path &&
        file_write(file_join(path, trainer->directory.path, "lost.txt"), lines, strlen(lines), NULL) == PS_OK)
        error_hint(error, "the last instructions of every worker are in %s", path);
    else
        error_hint_lines(error, lines);
    free(lines);
}

/* Whom the run lost; false: nobody. */
static bool find_loss(const struct ps_trainer *trainer, struct process_loss *loss) {
    const struct executor *executor = trainer->executor;
    if (trainer->processes && processes_lost(trainer->processes, loss)) return true;
    if (!executor || executor->stalled < 0) return false;
    *loss = (struct process_loss){.rank = executor->stalled, .kind = LOSS_STALLED, .seconds = executor->stalled_s};
    return true;
}

static void add_loss(const struct ps_trainer *trainer, const struct process_loss *loss, struct text *text) {
    bool several = trainer->processes->count > 1;
    text_add(text, "worker %d %s", loss->rank, loss->kind == LOSS_STALLED ? "is stalled" : "was lost");
    if (several) text_add(text, ": rank %d on %s", loss->rank, trainer->processes->info[loss->rank].host);
    switch (loss->kind) {
    case LOSS_ENDED:
        text_add(text, " ended before the run did");
        break;
    case LOSS_SILENT:
        text_add(text, " has not answered for %.0f s", loss->seconds);
        break;
    case LOSS_STALLED:
        text_add(text, "%s has got nowhere for %.0f s, and neither computed nor read", several ? "" : ": it", loss->seconds);
    }
}

void trainer_explain_failure(struct ps_trainer *trainer, struct ps_error *error) {
    struct process_loss loss;
    if (error->status != PS_WORKER_LOST || !find_loss(trainer, &loss)) return;
    if (!processes_is_reporter(trainer->processes)) return;
    processes_drain(trainer->processes, LAST_WORDS_S);
    char place[160];
    struct text text = {0};
    struct process_state state = state_of(trainer, loss.rank);
    const struct program *program = program_of(trainer, &state, loss.rank);
    add_loss(trainer, &loss, &text);
    if (program)
        text_add(&text, ", last seen %s %s", state.waiting ? "waiting at" : "at",
                 place_text(&program->code[state.next], place));
    add_waiting(trainer, loss.rank, &text);
    char *message = text_take(&text);
    if (message) error_set(error, PS_WORKER_LOST, "%s", message);
    free(message);
    leave_instructions(trainer, error);
}
