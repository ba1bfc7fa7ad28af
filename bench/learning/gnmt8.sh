#!/bin/sh
# A small GNMT-8 on four workers, translating English captions into German: BLEU of each weight policy on unseen sentences, over
# seeds. The settings are PipeOptim's (Adam, mini-batches of 64, a fixed rate) at a size that two cores train in minutes. Data: a
# directory with train.en, train.de, test_2016_flickr.en and .de, given or $PENSTOCK_DATA/multi30k.
#   bench/learning/gnmt8.sh [DIRECTORY]    SEEDS (3), EPOCHS (6), BEAM (1), POLICIES
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
directory=${1:-${PENSTOCK_DATA:?names a directory with multi30k, or give one}/multi30k}
seeds=${SEEDS:-3} epochs=${EPOCHS:-6} beam=${BEAM:-1} batch=64
policies=${POLICIES:-sync latest stash 2bw xpipe pipeoptim}
model=gnmt8,seq=20,target=20,vocab=4000,hidden=128
echo "$model, $(basename "$directory"), 4 workers, Adam 2e-3, batch $batch, $epochs epochs, $seeds seeds, beam $beam:"
echo "BLEU and accuracy of the next token in %"
printf '%-12s %8s %8s %10s\n' policy BLEU spread accuracy
for weights in $policies; do
    seed=0
    rm -f "$work/bleu" "$work/accuracy"
    while [ $seed -lt "$seeds" ]; do
        rm -rf "$work/run"
        "$penstock" train --model $model --workers 4 --weights "$weights" --data "pairs:$directory/train:en:de" --batch $batch \
            --epochs "$epochs" --optimizer adam --lr 2e-3 --seed $seed --out "$work/run" --quiet >"$work/table"
        "$penstock" evaluate --run "$work/run" --data "pairs:$directory/test_2016_flickr:en:de" --beam "$beam" --json \
            --quiet | tr ',{}' '\n\n\n' >"$work/result"
        field bleu <"$work/result" >>"$work/bleu"
        field accuracy <"$work/result" >>"$work/accuracy"
        seed=$((seed + 1))
    done
    echo "$(summary <"$work/bleu") $(summary <"$work/accuracy")" |
        awk -v w="$weights" '{ printf "%-12s %8.2f %8.2f %10.2f\n", w, $1, $2, 100 * $3 }'
done
