#!/bin/sh
# Can PipeOptim's prediction be improved? About fifty ways to choose weights, in a pipeline of one loop
# (bench/learning/beyond.c), on Fashion-MNIST at a quarter of its pixels: eight stages with momentum and with Adam, at learning
# rates where staleness is visible and where it does harm; then four stages; then segments of 25 steps, where the pipeline fills
# often. docs/beyond.md has the results.
#   bench/learning/beyond.sh [IDX_DIRECTORY]    SEEDS (8), STEPS (800), ONLY ("pipeoptim;M = 2": only these ways)
set -eu
cd "$(dirname "$0")/../.."
program=${BEYOND:-build/release/bench/beyond}
directory=${1:-${PENSTOCK_DATA:?names a directory with fashion_mnist, or give an IDX directory}/fashion_mnist}
table() {
    echo "== $* seeds=${SEEDS:-8} steps=${STEPS:-800}"
    "$program" "$directory" "seeds=${SEEDS:-8}" "steps=${STEPS:-800}" ${ONLY:+"only=$ONLY"} "$@"
}
table lr=0.003
table lr=0.01
table adam=1 lr=0.001
table adam=1 lr=0.004
table stages=4 lr=0.006
table stages=4 adam=1 lr=0.004
table segment=25 lr=0.003
