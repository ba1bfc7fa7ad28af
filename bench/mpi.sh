#!/bin/sh
# What MPI costs: two ranks of one thread against two threads of the threads transport on VGG-16 (CIFAR form, mini-batches of 64), by
# the same plan. The two are run alternately, so that a busy machine slows both, and the median of the ratios counts. `busy` is the
# time that the workers spend in computations, moving messages along between operators included: what a transfer costs that runs
# beside them.
#   ROUNDS (3) rounds of STEPS (40) mini-batches
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-3} steps=${STEPS:-40} model=${MODEL:-vgg16}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
data=synthetic:images,samples=8192
"$penstock" profile --model "$model" --micro-batch 64 --quiet -o "$work/profile.json" >/dev/null
"$penstock" plan --profile "$work/profile.json" --workers 2 --schedule 1f1b-async --weights pipeoptim --optimizer sgdm \
    -o "$work/plan.json" --quiet >/dev/null

run() { # COMMAND...: what starts the program; speed and busy seconds
    "$@" train --plan "$work/plan.json" --data $data --lr 0.001 --steps "$steps" --quiet --json >"$work/run.json"
    echo "$(field samples_per_s <"$work/run.json") $(awk -F'[:,]' '/"busy_s"/ { s += $2 } END { print s }' "$work/run.json")"
}
round=0
while [ $round -lt "$rounds" ]; do
    echo "$(run "$penstock") $(run mpirun --bind-to none -n 2 "$penstock")"
    round=$((round + 1))
done | awk '{ print $1, $3, $3 / $1, $4 / $2 }' >"$work/rounds"
echo "$model, mini-batch 64, 1f1b-async, pipeoptim, two workers of one thread; $(machine), $(nproc) cores"
printf '%-10s %12s\n' transport samples/s threads "$(cut -d' ' -f1 "$work/rounds" | median)" mpi "$(cut -d' ' -f2 "$work/rounds" | median)"
echo "mpi over threads $(cut -d' ' -f3 "$work/rounds" | median) (median of $rounds rounds: $(cut -d' ' -f3 "$work/rounds" | sort -g | tr '\n' ' ')); busy $(cut -d' ' -f4 "$work/rounds" | median)"
