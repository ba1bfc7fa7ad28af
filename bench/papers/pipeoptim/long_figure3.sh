#!/bin/sh
# PipeOptim's Figures 3 to 5 and 7 with nine epochs and three seeds (bench/papers/pipeoptim/figure3.sh says of what). Trainings are
# kept in runs/papers/pipeoptim.
set -eu
cd "$(dirname "$0")/../../.."
EPOCHS=${EPOCHS:-9} SEEDS=${SEEDS:-0 1 2} KEPT=runs/papers/pipeoptim
export EPOCHS SEEDS KEPT
sh bench/papers/pipeoptim/figure3.sh
