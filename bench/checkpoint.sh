#!/bin/sh
# The cost of checkpoints for training: VGG-16 (CIFAR form) on two workers, with a checkpoint of weights and momentum every
# EVERY steps, compared with the same segments without checkpoints. Both are run alternately, and the median of the ratios is
# reported. The share is the part of its training time that the trainer reports as waiting: for copying the state and for the
# previous checkpoint.
#   ROUNDS (3) rounds of STEPS (48) mini-batches of 16 samples; EVERY (16); LAUNCH (none): the command that starts the ranks, such as
#   "mpirun -n 2" (with PENSTOCK=build/release/tests/penstock_other for the other MPI library)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
rounds=${ROUNDS:-3} steps=${STEPS:-48} every=${EVERY:-16} model=${MODEL:-vgg16}

"$penstock" profile --model "$model" --micro-batch 16 --quiet -o "$work/profile.json" >/dev/null
"$penstock" plan --profile "$work/profile.json" --workers 2 --schedule 1f1b-async --weights pipeoptim --quiet \
    -o "$work/plan.json" >/dev/null

train() { # OPTION...
    ${LAUNCH:-} "$penstock" train --plan "$work/plan.json" --data synthetic:images,samples=8192 --lr 0.001 --steps "$steps" --quiet --json "$@"
}
train --evaluate-every "$every" >/dev/null # warm up
round=0
while [ $round -lt "$rounds" ]; do
    without=$(train --evaluate-every "$every" | field samples_per_s)
    train --checkpoint-every "$every" --out "$work/run$round" >"$work/summary"
    size=$(du -sm "$work/run$round/checkpoints" | awk '{ print $1 / 2 }')
    rm -r "$work/run$round"
    with=$(field samples_per_s <"$work/summary") stall=$(field checkpoint_stall_s <"$work/summary")
    echo "$without $with $stall" | awk -v n="$steps" '{ print $1, $2, $2 / $1, 100 * $3 / (n * 16 / $2), $3 }'
    round=$((round + 1))
done >"$work/rounds"
column() { cut -d' ' -f"$1" "$work/rounds" | median; }
echo "$model, mini-batch 16, 2 workers${LAUNCH:+ ($LAUNCH)}, 1f1b-async, pipeoptim, sgdm; $(machine), $(nproc) cores"
echo "checkpoints of $size MB every $every steps: $(column 2) samples/s, without $(column 1); ratio $(column 3)"
echo "training waited for them $(column 5) s in $steps steps, $(column 4)% of its time (median of $rounds rounds)"
