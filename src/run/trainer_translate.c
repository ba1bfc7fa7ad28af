/*
 * BLEU along the way: the first validation sentences are translated greedily by the pipeline that trains, in the memory that it
 * has. Where evaluating a translation alone decodes one position at a time, here each position is an evaluation's pass over all
 * of it (run/writing.h): a stage keeps nothing from pass to pass, and needs nothing beyond what an evaluation needs.
 */
#include <stdlib.h>

#include "base/log.h"
#include "data/pairs.h"
#include "run/trainer_share.h"
#include "run/translate.h"

/* What the workers of the last stage wrote comes to all others. */
static enum ps_status share_tokens(struct trainer *trainer, const struct writing *writing, struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->count == 1) return PS_OK;
    size_t count = (size_t)writing->samples;
    int32_t *all = calloc(count * (size_t)processes->count, sizeof *all), *own = calloc(count, sizeof *own);
    enum ps_status status = PS_OK;
    if (!all || !own) status = error_memory(error, "translations", count * sizeof *all);
    for (size_t s = 0; own && s < count; s++)
        own[s] = writing->tokens[s * (size_t)writing->positions + (size_t)writing->position];
    if (status == PS_OK) status = processes_share(processes, own, count * sizeof *own, all, error);
    for (size_t i = 0; status == PS_OK && i < count * (size_t)processes->count; i++) {
        /* Where nobody wrote there is padding, which is never written. */
        if (all[i] == 0) continue;
        writing->tokens[i % count * (size_t)writing->positions + (size_t)writing->position] = all[i];
    }
    free(own);
    free(all);
    return status;
}

static enum ps_status write_sentences(struct trainer *trainer, struct writing *writing, struct ps_error *error) {
    struct segment segment = {.programs = trainer->programs.writing, .writing = writing};
    bool ended = false;
    for (; writing->position < writing->positions && !ended; writing->position++) {
        TRY(trainer_check_stop(trainer, false, error));
        TRY(crew_run(trainer->crew, &segment, NULL, NULL, error));
        TRY(share_tokens(trainer, writing, error));
        ended = writing_ended(writing);
        log_progress("translating", writing->position + 1, writing->positions, "%s", "");
    }
    return PS_OK;
}

static enum ps_status count_bleu(const struct samples *samples, const struct writing *writing, double *score,
                                 struct ps_error *error) {
    struct bleu bleu = {0};
    for (int64_t s = 0; s < writing->samples; s++)
        TRY(translate_count(samples, s, writing->tokens + s * writing->positions, writing->positions, NULL, &bleu, error));
    *score = bleu_score(&bleu);
    return PS_OK;
}

enum ps_status trainer_translate(struct trainer *trainer, double *bleu, struct ps_error *error) {
    struct writing writing = {.samples = trainer_written(trainer)};
    if (writing.samples == 0) return PS_OK;
    writing.positions = trainer->crew->labels;
    writing.classes = trainer->job.model->classes;
    size_t tokens = (size_t)writing.samples * (size_t)writing.positions;
    writing.tokens = calloc(tokens, sizeof *writing.tokens);
    if (!writing.tokens) return error_memory(error, "translations", tokens * sizeof *writing.tokens);
    enum ps_status status = write_sentences(trainer, &writing, error);
    if (status == PS_OK && trainer_coordinates(trainer)) status = count_bleu(&trainer->valid, &writing, bleu, error);
    free(writing.tokens);
    return status;
}
