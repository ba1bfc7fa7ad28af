#!/bin/sh
# PipeOptim's Figure 9 and Table VI with 30 epochs and three seeds (bench/papers/pipeoptim/figure9.sh says of what). Trainings are kept in
# runs/papers/pipeoptim.
set -eu
cd "$(dirname "$0")/../../.."
EPOCHS=${EPOCHS:-30} SEEDS=${SEEDS:-0 1 2} TARGET=${TARGET:-0.25} KEPT=runs/papers/pipeoptim
export EPOCHS SEEDS TARGET KEPT
sh bench/papers/pipeoptim/figure9.sh
