#!/bin/sh
# All learning tasks, the first seed of each before the second of any, so that an interrupted sweep is a whole table of fewer
# seeds.
#   bench/learning/all.sh      the variables are those of sweep.sh
set -eu
cd "$(dirname "$0")/../.."
run() { for task in lenet5 vgg resnet residual_lstm gnmt8 gpt2; do bench/learning/$task.sh; done; }
for seed in ${SEEDS:-0 1 2}; do (export SEEDS="$seed" TABLE=no && run); done
(export TABLE=only && run)
awk -f bench/learning/summary.awk "${RESULTS:-runs/learning}"/*.tsv
