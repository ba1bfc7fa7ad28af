#!/bin/sh
# LeNet-5 in Penstock and in PyTorch, which a python3 with torch trains with the same settings (bench/pytorch/lenet5.py): one
# epoch, Adam 1e-3, mini-batches of 64; validation accuracy in %, mean and standard deviation over SEEDS (5) seeds.
#   bench/learning/lenet5_pytorch.sh [IDX_DIRECTORY]    default: $PENSTOCK_DATA/fashion_mnist
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
directory=${1:-${PENSTOCK_DATA:?names a directory with fashion_mnist, or give an IDX directory}/fashion_mnist}
seeds=${SEEDS:-5}
line() { summary | awk -v name="$1" '{ printf "%-10s %6.2f (%.2f)\n", name, $1, $2 }'; }
for weights in sync pipeoptim; do
    seed=0
    while [ $seed -lt "$seeds" ]; do
        "$penstock" train --model lenet5 --workers 4 --weights $weights --data "idx:$directory" --valid "idx:$directory" \
            --batch 64 --epochs 1 --optimizer adam --lr 1e-3 --seed $seed --quiet --json | field valid_accuracy
        seed=$((seed + 1))
    done | awk '{ print 100 * $1 }' | line $weights
done
"${PYTHON:-/usr/bin/python3}" bench/pytorch/lenet5.py "$directory" "$seeds" | line PyTorch
