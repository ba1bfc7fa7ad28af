/*
 * BLEU (Papineni, Roukos, Ward and Zhu, "BLEU: a method for automatic evaluation of machine translation", 2002) as sacrebleu
 * defines it (Post, "A call for clarity in reporting BLEU scores", 2018; signature
 * nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp): over a whole corpus, n-grams up to four words, brevity penalty, and where
 * there are n-grams and none of them matches, the number of matches counts as 1/2, 1/4, ...
 */
#ifndef PENSTOCK_EVAL_BLEU_H
#define PENSTOCK_EVAL_BLEU_H

#include "base/error.h"

enum { BLEU_ORDER = 4 };

struct bleu {
    int64_t matches[BLEU_ORDER], totals[BLEU_ORDER]; /* n-grams of n + 1 words */
    int64_t length, reference_length;                /* words */
};

/* Adds a sentence and its reference, both terminated texts as a reader sees them. */
enum ps_status bleu_add(struct bleu *bleu, const char *sentence, const char *reference, struct ps_error *error);
/* 0 to 100. */
double bleu_score(const struct bleu *bleu);

#endif
