#!/bin/sh
# Residual LSTM on four workers, classifying film reviews: the best validation accuracy of each weight policy over seeds. The
# settings are PipeOptim's (AdamW or Adam, rate 0.001 falling to 0) at a size that two cores train in minutes. Data: a directory
# with train.tsv and test.tsv, given or $PENSTOCK_DATA/imdb.
#   bench/learning/residual_lstm.sh [DIRECTORY]    SEEDS (3), EPOCHS (6), OPTIMIZER (adamw), POLICIES
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
directory=${1:-${PENSTOCK_DATA:?names a directory with imdb, or give one}/imdb}
seeds=${SEEDS:-3} epochs=${EPOCHS:-6} optimizer=${OPTIMIZER:-adamw} batch=64
policies=${POLICIES:-sync latest stash 2bw xpipe pipeoptim}
model=residual_lstm,seq=150,vocab=8000,hidden=64
echo "$model, $(basename "$directory"), 4 workers, $optimizer 1e-3 (poly:1), batch $batch, $epochs epochs, $seeds seeds:"
echo "best validation accuracy in %"
best() { awk -F'"valid_accuracy": ' 'NF > 1 { split($2, v, /[,}]/); if (v[1] > b) b = v[1] } END { print 100 * b }' "$1"; }
printf '%-12s %8s %8s\n' policy mean spread
for weights in $policies; do
    seed=0
    while [ $seed -lt "$seeds" ]; do
        rm -rf "$work/run"
        "$penstock" train --model $model --workers 4 --weights "$weights" --data "reviews:$directory/train.tsv" \
            --valid "reviews:$directory/test.tsv" --batch $batch --epochs "$epochs" --optimizer "$optimizer" --lr 1e-3 \
            --lr-schedule poly:1 --seed $seed --out "$work/run" --quiet >"$work/table"
        best "$work/run/log.jsonl"
        seed=$((seed + 1))
    done | summary | awk -v w="$weights" '{ printf "%-12s %8.2f %8.2f\n", w, $1, $2 }'
done
