#!/bin/sh
# Training on a machine that others use, too: LeNet-5 on two workers and on four, alone, beside a program that computes in
# vain on one core, and the same training twice at once (the sum of the two speeds). The layers take tens of microseconds, so
# that workers wait for each other all the time; a wait that spins takes the core from whoever has work for it.
#   ROUNDS (7) rounds of STEPS (300) mini-batches of 64 samples in micro-batches of 16, 1f1b
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-7} steps=${STEPS:-300}

"$penstock" profile --model lenet5 --micro-batch 16 --quiet -o "$work/profile.json" >/dev/null
for workers in 2 4; do
    "$penstock" plan --profile "$work/profile.json" --workers $workers --schedule 1f1b --micro-batches 4 --optimizer sgdm --quiet \
        -o "$work/plan$workers.json" >/dev/null
done
train() { # workers, directory
    rm -rf "${work:?}/$2"
    "$penstock" train --plan "$work/plan$1.json" --data synthetic:images,samples=8192,channels=1,size=28 --lr 0.001 \
        --steps "$steps" --quiet --json --out "$work/$2" | field samples_per_s
}
beside_loop() { # workers
    sh -c 'while :; do :; done' &
    train "$1" run
    kill $!
    wait $! 2>/dev/null || true
}
twice() { # workers
    train "$1" run1 >"$work/one" &
    train "$1" run2 >"$work/other"
    wait
    awk '{ sum += $1 } END { print sum }' "$work/one" "$work/other"
}
for workers in 2 4; do
    round=0
    while [ $round -lt "$rounds" ]; do
        train $workers run >>"$work/alone$workers"
        beside_loop $workers >>"$work/loop$workers"
        twice $workers >>"$work/twice$workers"
        round=$((round + 1))
    done
done
echo "lenet5, mini-batch 64 in 4, 1f1b, sgdm; $(machine), $(nproc) cores; medians of $rounds rounds of $steps, samples/s"
printf '%-8s %9s  %s\n' workers samples/s "times alone"
for workers in 2 4; do
    for how in alone loop twice; do
        ratios=$(paste -d' ' "$work/alone$workers" "$work/$how$workers" | awk '{ printf "%.3f\n", $2 / $1 }' | sort -g)
        printf '%-8s %9s  %-8s %s (%s)\n' $workers "$(median <"$work/$how$workers")" "$(echo "$ratios" | median)" $how \
            "$(echo $ratios)"
    done
done
made_with "ROUNDS=$rounds STEPS=$steps bench/busy.sh"
