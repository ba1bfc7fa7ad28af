#!/bin/sh
# Two workers of one thread each compared with one worker of one thread: VGG-16 (CIFAR form), mini-batches of 64 samples. The
# two are run alternately, so that a busy machine slows both, and the median of the ratios is reported. `bound` is what the
# plan's balance allows: all work divided by the busiest worker's, with the pipeline filling and draining once per run not
# counted (1 of STEPS + 1).
#   ROUNDS (3) rounds of STEPS (60) mini-batches
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
# The data holds more mini-batches than STEPS: a segment, at whose end the pipeline drains, is at most an epoch.
rounds=${ROUNDS:-3} steps=${STEPS:-60} model=${MODEL:-vgg16}
data=synthetic:images,samples=8192

"$penstock" profile --model "$model" --micro-batch 64 --quiet -o "$work/profile.json" >/dev/null
for workers in 1 2; do
    "$penstock" plan --profile "$work/profile.json" --workers $workers --schedule 1f1b-async --weights pipeoptim \
        --optimizer sgdm -o "$work/plan$workers.json" --quiet >/dev/null
done
busiest=$(awk -F'[:,]' '/"load_s"/ && $2 + 0 > most { most = $2 + 0 } END { print most }' "$work/plan2.json")
all=$(awk -F'[:,]' '/"load_s"/ { print $2 + 0; exit }' "$work/plan1.json")

speed() { # workers
    "$penstock" train --plan "$work/plan$1.json" --data $data --lr 0.001 --steps "$steps" --quiet --json | field samples_per_s
}
speed 2 >/dev/null # warm up
round=0
while [ $round -lt "$rounds" ]; do
    one=$(speed 1) two=$(speed 2)
    echo "$one $two $(echo "$one $two" | awk '{ print $2 / $1 }')"
    round=$((round + 1))
done >"$work/rounds"
one=$(cut -d' ' -f1 "$work/rounds" | median) two=$(cut -d' ' -f2 "$work/rounds" | median)
ratio=$(cut -d' ' -f3 "$work/rounds" | median)
echo "$model, mini-batch 64, 1f1b-async, pipeoptim, sgdm; $(machine), $(nproc) cores"
printf '%-10s %12s\n' workers samples/s 1 "$one" 2 "$two"
echo "speed-up $ratio (median of $rounds rounds: $(cut -d' ' -f3 "$work/rounds" | sort -g | tr '\n' ' ')); balance bound $(echo "$all $busiest" | awk '{ print $1 / $2 }')"
