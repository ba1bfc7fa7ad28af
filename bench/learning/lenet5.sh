#!/bin/sh
# LeNet-5 on four workers, one epoch, Adam 1e-3, mini-batches of 64: validation accuracy of each weight policy over SEEDS (5)
# seeds. Data: an IDX directory, given or $PENSTOCK_DATA/fashion_mnist. Where a python3 with torch is found, PyTorch trains the
# same network with the same settings beside it (bench/pytorch/lenet5.py).
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
directory=${1:-${PENSTOCK_DATA:?names a directory with fashion_mnist, or give an IDX directory}/fashion_mnist}
seeds=${SEEDS:-5}
echo "LeNet-5, $(basename "$directory"), 4 workers, Adam 1e-3, batch 64, one epoch, $seeds seeds: validation accuracy in %"
printf '%-12s %8s %8s\n' policy mean spread
for weights in sync latest stash 2bw xpipe pipeoptim; do
    seed=0
    while [ $seed -lt "$seeds" ]; do
        "$penstock" train --model lenet5 --workers 4 --weights $weights --data "idx:$directory" --valid "idx:$directory" \
            --batch 64 --epochs 1 --optimizer adam --lr 1e-3 --seed $seed --quiet --json | field valid_accuracy
        seed=$((seed + 1))
    done | awk '{ print 100 * $1 }' | summary | awk -v w=$weights '{ printf "%-12s %8.2f %8.2f\n", w, $1, $2 }'
done
python=${PYTHON:-/usr/bin/python3}
if "$python" -c 'import torch' 2>/dev/null; then
    "$python" bench/pytorch/lenet5.py "$directory" "$seeds" | summary | awk '{ printf "%-12s %8.2f %8.2f\n", "PyTorch", $1, $2 }'
fi
