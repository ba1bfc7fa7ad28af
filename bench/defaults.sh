#!/bin/sh
# What `penstock train --model vgg16 --data cifar10:DIR` does with nothing else said: how long it takes until training begins, the
# first time and once its profiles are in the cache, and the accuracy on the test images after each epoch, in percent, beside
# PyTorch's (bench/pytorch/vgg16.py: the same network, initial values, data, mini-batches, optimizer and rate), on as many cores.
#   bench/defaults.sh     SEEDS (0 1 2), EPOCHS (6), PENSTOCK_DATA, PYTHON (the first that has torch)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
python_with torch
needs_data
directory=$PENSTOCK_DATA/cifar10 seeds=${SEEDS:-0 1 2} epochs=${EPOCHS:-6}
export XDG_CACHE_HOME="$work/cache"

# Seconds until the line that training begins.
begins() {
    start=$(date +%s%N)
    "$penstock" train --model vgg16 --data "cifar10:$directory" --steps 1 --out "$work/begin" 2>&1 |
        while read -r line; do
            case $line in *"training on"*) echo "$start $(date +%s%N)" | awk '{ printf "%.1f\n", ($2 - $1) / 1e9 }' ;; esac
        done
    rm -rf "$work/begin"
}
# The accuracies of a training, one for each epoch, as a line of the table and, mean by mean, in $work/NAME.
row() { # NAME SEED
    awk -v name="$1" -v seed="$2" '{ line = line sprintf(" %7.2f", $1) } END { printf "%-10s %4s%s\n", name, seed, line }' "$work/accuracies"
    awk '{ print NR, $1 }' "$work/accuracies" >>"$work/$1"
}
mean() {
    sort -n "$work/$1" | awk -v name="$1" '{ sum[$1] += $2; count[$1]++; if ($1 > last) last = $1 }
        END { printf "%-10s mean", name; for (e = 1; e <= last; e++) printf " %7.2f", sum[e] / count[e]; print "" }'
}

made_with "bench/defaults.sh"
echo "machine  $(machine), $(nproc) cores; PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
echo
first=$(begins)
echo "training begins after $first s, with the profiles in the cache after $(begins) s"
echo
awk -v epochs="$epochs" 'BEGIN { printf "%-10s %4s", "epoch", "seed"; for (e = 1; e <= epochs; e++) printf " %7d", e; print "" }'
for seed in $seeds; do
    rm -rf "$work/run"
    "$penstock" train --model vgg16 --data "cifar10:$directory" --valid "cifar10:$directory#test" --epochs "$epochs" --seed "$seed" \
        --out "$work/run" -q >/dev/null
    sed -n 's/.*"valid_accuracy": \([^,}]*\).*/\1/p' "$work/run/log.jsonl" | awk '{ print 100 * $1 }' >"$work/accuracies"
    row penstock "$seed"
    "$python" bench/pytorch/vgg16.py "$directory" "$seed" "$epochs" >"$work/accuracies"
    row pytorch "$seed"
done
mean penstock
mean pytorch
