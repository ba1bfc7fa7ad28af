#!/bin/sh
# Networks that were imported from PyTorch, on one worker, beside PyTorch itself: training steps of torchvision's and
# transformers' networks at their usual sizes. All are run in turn, so that a busy machine slows all; medians over the rounds.
# `ratio` is the time of the faster form of PyTorch over Penstock's: above 1 Penstock is faster. `built-in` is the time of
# Penstock's own network of that name where it has one.
#   bench/imported.sh [NAME:BATCH...]     ROUNDS (3), THREADS (1), STEPS (3), PYTHON (the first that has torchvision)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-3} threads=${THREADS:-1} steps=${STEPS:-3}
program=${SINGLE_WORKER:-build/release/bench/single_worker}
[ $# -gt 0 ] || set -- resnet18:8 mobilenet_v3_large:8 vit_b_16:4 gpt2:4 vgg16:4 resnet50:4

python_with torchvision

milliseconds() { sed -n 's/.*: \([0-9.]*\) ms a step.*/\1/p'; }
pytorch() { OMP_NUM_THREADS=$threads "$python" bench/pytorch/imported.py time "$name" "$batch" "$threads" "$steps" "$1"; }

echo "$(machine); PyTorch $("$python" -c 'import torch; print(torch.__version__)'); threads $threads,"
echo "milliseconds a step, medians of $rounds rounds of $steps steps"
printf '%-26s %10s %10s %10s %14s %6s\n' network penstock built-in pytorch channels_last ratio
for given; do
    name=${given%%:*} batch=${given##*:} builtin=
    case $name in vgg16) builtin=vgg16,input=224,classes=1000,dropout=0 ;; resnet50) builtin=resnet50 ;; esac
    rm -f "$work"/*
    "$python" bench/pytorch/imported.py export "$name" "$work/$name.onnx" >/dev/null 2>&1
    round=0
    while [ "$round" -lt "$rounds" ]; do
        "$program" "$work/$name.onnx" "$batch" "$threads" "$steps" | milliseconds >>"$work/penstock"
        [ -z "$builtin" ] || "$program" "$builtin" "$batch" "$threads" "$steps" | milliseconds >>"$work/builtin"
        for layout in default channels_last; do pytorch $layout | milliseconds >>"$work/$layout"; done
        round=$((round + 1))
    done
    own=-
    [ -z "$builtin" ] || own=$(median <"$work/builtin")
    echo "$given $(median <"$work/penstock") $own $(median <"$work/default") $(median <"$work/channels_last")" |
        awk '{ best = $4 < $5 ? $4 : $5; printf "%-26s %10.1f %10s %10.1f %14.1f %6.2f\n", $1, $2, $3, $4, $5, best / $2 }'
done
