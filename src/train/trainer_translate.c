/*
 * BLEU along the way: the first validation sentences are translated greedily by the pipeline that trains, in the memory that it
 * has. Where evaluating a translation alone decodes one position at a time, here each position is an evaluation's pass over all
 * of it (run/decoding.h): a stage keeps nothing from pass to pass, and needs nothing beyond what an evaluation needs.
 */
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/pairs.h"
#include "eval/translate.h"
#include "train/trainer_share.h"

/* What the workers of the last stage wrote comes to all others. */
static enum ps_status share_tokens(struct ps_trainer *trainer, const struct decoding *decoding, struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->count == 1) return PS_OK;
    size_t count = (size_t)decoding->samples;
    struct arena arena = {0};
    int32_t *all = arena_take(&arena, count * (size_t)processes->count, sizeof *all);
    int32_t *own = arena_take(&arena, count, sizeof *own);
    TRY(arena_check(&arena, "translations", error));
    for (size_t s = 0; s < count; s++) own[s] = decoding->tokens[s * (size_t)decoding->positions + (size_t)decoding->position];
    enum ps_status status = processes_share(processes, own, count * sizeof *own, all, error);
    for (size_t i = 0; status == PS_OK && i < count * (size_t)processes->count; i++) {
        /* Where nobody wrote there is padding, which is never written. */
        if (all[i] == 0) continue;
        decoding->tokens[i % count * (size_t)decoding->positions + (size_t)decoding->position] = all[i];
    }
    arena_release(&arena);
    return status;
}

static enum ps_status write_sentences(struct ps_trainer *trainer, struct decoding *decoding, struct ps_error *error) {
    struct segment segment = {.programs = trainer->programs.decoding, .decoding = decoding};
    bool ended = false;
    for (; decoding->position < decoding->positions && !ended; decoding->position++) {
        TRY(trainer_check_stop(trainer, false, error));
        TRY(executor_run(trainer->executor, &segment, NULL, NULL, error));
        TRY(share_tokens(trainer, decoding, error));
        ended = decoding_ended(decoding);
        log_progress("translating", decoding->position + 1, decoding->positions, "%s", "");
    }
    return PS_OK;
}

static enum ps_status count_bleu(const struct samples *samples, const struct decoding *decoding, double *score,
                                 struct ps_error *error) {
    struct bleu bleu = {0};
    for (int64_t s = 0; s < decoding->samples; s++)
        TRY(translate_count(samples, s, decoding->tokens + s * decoding->positions, decoding->positions, NULL, &bleu, error));
    *score = bleu_score(&bleu);
    return PS_OK;
}

enum ps_status trainer_translate(struct ps_trainer *trainer, double *bleu, struct ps_error *error) {
    struct decoding decoding = {.samples = trainer_written(trainer)};
    if (decoding.samples == 0) return PS_OK;
    decoding.positions = trainer->job.network->labels;
    decoding.classes = trainer->job.network->classes;
    size_t tokens = (size_t)decoding.samples * (size_t)decoding.positions;
    TRY(memory_new(&decoding.tokens, tokens, "translations", error));
    enum ps_status status = write_sentences(trainer, &decoding, error);
    if (status == PS_OK && trainer_coordinates(trainer)) status = count_bleu(&trainer->valid, &decoding, bleu, error);
    free(decoding.tokens);
    return status;
}
