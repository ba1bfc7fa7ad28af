#!/bin/sh
# Two workers of one thread each compared with one worker of one thread: VGG-16 (CIFAR form), mini-batches of 64 samples. The
# two are run alternately, so that a busy machine slows both, and the median of the ratios is reported, beside what the plans
# predict, from a profile that was measured before. Where others slow the machine's cores for seconds at a time, each by itself,
# two workers are the slower one of two: `calm` is the fastest WINDOW (10) mini-batches in a row of all rounds, by the trace of
# the last update of each, and its ratio is the speed-up while nobody disturbs. `two jobs` is what the cores give at that time to two
# programs that have nothing to do with each other: the one worker, run twice at once.
#   ROUNDS (3) rounds of STEPS (60) mini-batches; MODEL (vgg16), BATCH (64), DATA; SPLIT=1: its layers split for two workers;
#   SCHEDULE (what the planner takes), WEIGHTS (pipeoptim), MICRO_BATCHES (1) of BATCH samples each
#   SLACK="1 4": also two workers with so much slack; without, as many mini-batches are in flight as there are workers, and each
#   waits for the other whenever that is slow
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
# The data holds more mini-batches than STEPS: a segment, at whose end the pipeline drains, is at most an epoch.
rounds=${ROUNDS:-3} steps=${STEPS:-60} model=${MODEL:-vgg16} batch=${BATCH:-64} micro_batches=${MICRO_BATCHES:-1}
mini_batch=$((batch * micro_batches))
schedule=${SCHEDULE:-} weights=${WEIGHTS:-pipeoptim} window=${WINDOW:-10} slacks=${SLACK:-}
case $model in gpt2* | bert* | *lstm* | gnmt*) kind=tokens ;; *) kind=images ;; esac
data=${DATA:-synthetic:$kind,samples=$((8192 * micro_batches))}

"$penstock" profile --model "$model" --micro-batch "$batch" ${SPLIT:+--split-for 2} --quiet -o "$work/profile.json" >/dev/null
plan() { # its name, workers, options
    name=$1 workers=$2
    shift 2
    "$penstock" plan --profile "$work/profile.json" --workers "$workers" --weights "$weights" --micro-batches "$micro_batches" \
        --optimizer sgdm --method auto ${schedule:+--schedule "$schedule"} -o "$work/plan$name.json" --quiet "$@" >/dev/null
}
plan 1 1
plan 2 2
for n in $slacks; do plan "slack$n" 2 --slack "$n"; done
train() { # plan, its directory
    rm -rf "${work:?}/$2"
    "$penstock" train --plan "$work/plan$1.json" --data $data --lr 0.001 --steps "$steps" --quiet --json --trace --out "$work/$2" \
        >"$work/$2.json"
    field samples_per_s <"$work/$2.json"
}
speed() { # plan
    train "$1" run >>"$work/speed$1"
    sed -n 's/.*"name":"U\([0-9]*\)".*"pid":0,"tid":[0-9]*,"ts":\([0-9.]*\),"dur":\([0-9.]*\).*/\1 \2 \3/p' "$work/run/trace.json" |
        awk -v n="$window" -v batch="$mini_batch" '$2 + $3 > end[$1] { end[$1] = $2 + $3 }
            END { for (i = 0; i + n in end; i++) print batch * n * 1e6 / (end[i + n] - end[i]) }' >>"$work/calm$1"
}
both_jobs() {
    train 1 job1 >"$work/job1.speed" &
    train 1 job2 >"$work/job2.speed"
    wait
    awk '{ s += $1 } END { print s }' "$work/job1.speed" "$work/job2.speed" >>"$work/speedjobs"
}
train 2 run >/dev/null # warm up
round=0
while [ $round -lt "$rounds" ]; do
    speed 1
    both_jobs
    speed 2
    for n in $slacks; do speed "slack$n"; done
    round=$((round + 1))
done
said() { sed -n "s/.*\"$1\": \"\(.*\)\",/\1/p" "$work/plan2.json"; }
echo "$(said model), mini-batch $mini_batch in $micro_batches, $(said schedule) cut by $(said method), $weights, sgdm;" \
    "$(machine), $(nproc) cores; medians of $rounds rounds of $steps"
over() { awk -v one="$1" -v two="$2" 'BEGIN { printf "%.3f", two / one }'; }
predicted() { field throughput_samples_per_s <"$work/plan$1.json"; }
most() { sort -g "$work/$1" | tail -n 1; }
row() { # plan, title
    ratios=$(paste -d' ' "$work/speed1" "$work/speed$1" | awk '{ printf "%.3f\n", $2 / $1 }' | sort -g)
    calm=- calm_ratio=- predicted=-
    [ ! -e "$work/calm$1" ] || calm=$(most "calm$1") calm_ratio=$(over "$(most calm1)" "$calm")
    [ ! -e "$work/plan$1.json" ] || predicted=$(over "$(predicted 1)" "$(predicted "$1")")
    printf '%-10s %10s %9s %10s %9s %9s  %-8s (%s)\n' "$2" "$(sort -g "$work/speed$1" | median)" "$(most "speed$1")" "$calm" \
        "$calm_ratio" "$predicted" "$(echo "$ratios" | median)" "$(echo $ratios)"
}
printf '%-10s %10s %9s %10s %9s %9s  %s\n' workers samples/s fastest calm "of calm" predicted "times one worker"
row 1 1
row jobs "two jobs"
row 2 2
for n in $slacks; do row "slack$n" "slack $n"; done
made_with "MODEL=$model BATCH=$batch MICRO_BATCHES=$micro_batches ${schedule:+SCHEDULE=$schedule }WEIGHTS=$weights DATA=$data ROUNDS=$rounds \
STEPS=$steps WINDOW=$window SLACK=\"$slacks\" ${SPLIT:+SPLIT=1 }bench/speedup.sh"
