#!/bin/sh
# One worker of Penstock compared with PyTorch: training steps (forward, backward, SGD with momentum) of the same networks. All
# are run in turn, so that a busy machine slows all, and the medians over the rounds are shown. `ratio` is the time of the
# faster form of PyTorch over Penstock's: above 1 Penstock is faster. Debian's PyTorch also needs libopenblas0, or its linear
# layers take seconds. MODEL:BATCH has a batch of its own.
#   bench/pytorch.sh [MODEL[:BATCH]...]     ROUNDS (3), BATCH (64), THREADS (1), STEPS (7), PYTHON (the first that has torch)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-3} batch=${BATCH:-64} threads=${THREADS:-1} steps=${STEPS:-7}
program=${SINGLE_WORKER:-build/release/bench/single_worker}
[ $# -gt 0 ] || set -- vgg16 alexnet resnet,blocks=3 lenet5 resnet50:8 residual_lstm,seq=100 \
    gnmt8,seq=20,vocab=4000,hidden=256 bert48,layers=1,width=768,heads=12,seq=128,vocab=1000:8

python_with torch

milliseconds() { sed -n 's/.*: \([0-9.]*\) ms a step.*/\1/p'; }
pytorch() { OMP_NUM_THREADS=$threads "$python" bench/pytorch/single_worker.py "$1" "$size" "$threads" "$steps" "$2"; }

echo "$(machine); PyTorch $("$python" -c 'import torch; print(torch.__version__)'); batch $batch, threads $threads,"
echo "milliseconds a step, medians of $rounds rounds of $steps steps"
printf '%-34s %10s %10s %14s %6s\n' model penstock pytorch channels_last ratio
for given; do
    model=${given%%:*} size=${given##*:}
    [ "$size" != "$given" ] || size=$batch
    rm -f "$work"/*
    round=0
    while [ "$round" -lt "$rounds" ]; do
        "$program" "$model" "$size" "$threads" "$steps" | milliseconds >>"$work/penstock"
        for layout in default channels_last; do pytorch "$model" $layout | milliseconds >>"$work/$layout"; done
        round=$((round + 1))
    done
    echo "$given $(median <"$work/penstock") $(median <"$work/default") $(median <"$work/channels_last")" |
        awk '{ best = $3 < $4 ? $3 : $4; printf "%-34s %10.2f %10.2f %14.2f %6.2f\n", $1, $2, $3, $4, best / $2 }'
done
