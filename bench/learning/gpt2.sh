#!/bin/sh
# A small GPT-2 on four workers, Tiny Shakespeare by characters, AdamW 2e-3 with warm-up, mini-batches of 32 sequences of 64:
# validation loss of each weight policy over SEEDS (3) seeds, after STEPS (1500, about three epochs). Data: a text file, given or
# $PENSTOCK_DATA/tinyshakespeare/input.txt.
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
file=${1:-${PENSTOCK_DATA:?names a directory with tinyshakespeare, or give a text file}/tinyshakespeare/input.txt}
seeds=${SEEDS:-3} steps=${STEPS:-1500}
model=${MODEL:-gpt2,layers=4,width=64,heads=4,seq=64,vocab=69,dropout=0.1}
echo "$model, $(basename "$(dirname "$file")"), 4 workers, AdamW 2e-3, batch 32, $steps steps, $seeds seeds: validation loss"
summary() { awk '{ s += $1; q += $1 * $1 } END { m = s / NR; print m, sqrt(NR > 1 ? (q - NR * m * m) / (NR - 1) : 0) }'; }
printf '%-12s %8s %8s %11s\n' policy mean spread perplexity
for weights in sync latest stash 2bw xpipe pipeoptim; do
    seed=0
    while [ $seed -lt "$seeds" ]; do
        "$penstock" train --model "$model" --workers 4 --weights $weights --data "text:$file" --valid "text:$file" --batch 32 \
            --steps "$steps" --optimizer adamw --lr 2e-3 --warmup 100 --seed $seed --quiet --json | field valid_loss
        seed=$((seed + 1))
    done | summary | awk -v w=$weights '{ printf "%-12s %8.4f %8.4f %11.2f\n", w, $1, $2, exp($1) }'
done
