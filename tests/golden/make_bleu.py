#!/usr/bin/env python3
"""Makes bleu.json: what sacrebleu (pip install sacrebleu) says about tokens and scores. All sentences are made here from a seed.

    python3 tests/golden/make_bleu.py
"""
import json
import os
import random

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

LINES = [
    "", "Hello, world!", "It's 3.14, not 3,14.", "a.b,c ..., 1.5-2 x-y 7-eleven", "&quot;Quoted&quot; &amp;lt; <skipped> done",
    "Zwei Männer (im Garten) stehen – draußen.", "semi;colon: \"x\" [y] {z} ~ ` ^ _ | \\ /", "tabs\tand\u00a0hard blanks\u3000here",
    "50% of $3.50 = #1 @home *now* +2", "..., ,,. 1.,2 a. .b 5. .5", "don't -- well-known 10-20- end-", "<a&b>", "12,345.67.", "日本語。テスト",
]


def corpus(generator, pairs, words, change):
    """Sentences over few words, and references that differ in some."""
    alphabet = ["the", "a", "man", "dog", "runs", ",", ".", "red", "3.5", "house-boat", "it's", "on", "in", "über", "!", "and"]
    sentences, references = [], []
    for _ in range(pairs):
        line = [generator.choice(alphabet) for _ in range(generator.randint(*words))]
        other = [generator.choice(alphabet) if generator.random() < change else word for word in line]
        if generator.random() < 0.5:
            other = other[: max(1, len(other) - generator.randint(0, 3))]
        references.append(" ".join(line))
        sentences.append(" ".join(other))
    return sentences, references


def main():
    tokenizer = Tokenizer13a()
    generator = random.Random(1)
    corpora = []
    for pairs, words, change in [(1, (1, 3), 0.3), (1, (4, 8), 0.9), (3, (2, 6), 0.5), (8, (5, 20), 0.2), (40, (1, 30), 0.4), (5, (9, 9), 0)]:
        sentences, references = corpus(generator, pairs, words, change)
        score = sacrebleu.corpus_bleu(sentences, [references]).score
        corpora.append({"sentences": sentences, "references": references, "score": score})
    result = {"format": "penstock-bleu-goldens", "version": 1, "sacrebleu": sacrebleu.__version__,
              "tokens": [[line, tokenizer(line)] for line in LINES], "corpora": corpora}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bleu.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
        file.write("\n")


main()
