#!/bin/sh
# The learning tasks in f32 and in bf16, the first seed of each before the second of any, and a table of the two side by side
# (precision.awk), which goes to bench/results/learning_precision.txt.
#   bench/learning/precision.sh [TASK...]     SEEDS ("0 1 2")  OPTIMIZERS ("sgdm adam")  POLICIES ("sync pipeoptim horizon"); the other
#                                             variables are those of sweep.sh
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
needs_data
[ $# -gt 0 ] || set -- lenet5 vgg resnet residual_lstm gnmt8 gpt2
export OPTIMIZERS="${OPTIMIZERS:-sgdm adam}" POLICIES="${POLICIES:-sync pipeoptim horizon}" RESULTS="${RESULTS:-runs/learning}" TABLE=no
for seed in ${SEEDS:-0 1 2}; do
    for task; do
        SEEDS=$seed sh "bench/learning/$task.sh"
        SEEDS=$seed PRECISION=bf16 sh "bench/learning/$task.sh"
    done
done
{
    made_with "bench/learning/precision.sh $*"
    echo
    echo "best validation accuracy in %, mean (standard deviation) over the seeds; $(machine)"
    set --
    for narrow in "$RESULTS"/*_bf16.tsv; do set -- "$@" "${narrow%_bf16.tsv}.tsv" "$narrow"; done
    awk -f bench/learning/precision.awk "$@"
} >bench/results/learning_precision.txt
cat bench/results/learning_precision.txt
