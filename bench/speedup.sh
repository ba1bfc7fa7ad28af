#!/bin/sh
# Two workers of one thread each compared with one worker of one thread: VGG-16 (CIFAR form), mini-batches of 64 samples. The
# two are run alternately, so that a busy machine slows both, and the median of the ratios is reported, beside the ratio of the
# fastest rounds and what the plans predict, from a profile that was measured before. Where others slow the machine's cores for
# seconds at a time, each by itself, two workers are the slower one of two: `calm` is the fastest WINDOW (10) mini-batches in a row
# of all rounds, by the trace of worker 0's updates, and its ratio is the speed-up while nobody disturbs. `jobs` is what the cores
# give at that time to two programs that have nothing to do with each other: the one worker, run twice at once.
#   ROUNDS (3) rounds of STEPS (60) mini-batches; MODEL (vgg16), BATCH (64), DATA; SPLIT=1: its layers split for two workers;
#   SCHEDULE (1f1b-async), WEIGHTS (pipeoptim), MICRO_BATCHES (1) of BATCH samples each
#   IN_FLIGHT=3: also two workers under 1f1b-star whose first stage holds so many micro-batches; with two, as many as there are
#   workers, each waits for the other whenever that is slow
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
# The data holds more mini-batches than STEPS: a segment, at whose end the pipeline drains, is at most an epoch.
rounds=${ROUNDS:-3} steps=${STEPS:-60} model=${MODEL:-vgg16} batch=${BATCH:-64} micro_batches=${MICRO_BATCHES:-1}
mini_batch=$((batch * micro_batches))
schedule=${SCHEDULE:-1f1b-async} weights=${WEIGHTS:-pipeoptim} window=${WINDOW:-10} in_flight=${IN_FLIGHT:-}
data=${DATA:-synthetic:images,samples=$((8192 * micro_batches))}

"$penstock" profile --model "$model" --micro-batch "$batch" ${SPLIT:+--split-for 2} --quiet -o "$work/profile.json" >/dev/null
plan() { # its name, workers, schedule, method
    "$penstock" plan --profile "$work/profile.json" --workers "$2" --schedule "$3" --method "$4" --weights "$weights" \
        --micro-batches "$micro_batches" --optimizer sgdm -o "$work/plan$1.json" --quiet >/dev/null
}
plan 1 1 "$schedule" auto
plan 2 2 "$schedule" auto
[ -z "$in_flight" ] || {
    plan star 2 1f1b-star pipedream
    awk -v n="$in_flight" '/"in_flight"/ && !done { sub(/[0-9]+/, n); done = 1 } { print }' "$work/planstar.json" >"$work/plandeep.json"
}
predicted() { field throughput_samples_per_s <"$work/plan$1.json"; }
over() { awk -v one="$1" -v two="$2" 'BEGIN { printf "%.3f\n", two / one }'; }
train() { # plan, its directory
    rm -rf "${work:?}/$2"
    "$penstock" train --plan "$work/plan$1.json" --data $data --lr 0.001 --steps "$steps" --quiet --json --trace --out "$work/$2" |
        field samples_per_s
}
speed() { # plan
    train "$1" run
    sed -n 's/.*"name":"U\([0-9]*\)".*"pid":0,"tid":0,"ts":\([0-9.]*\),"dur":\([0-9.]*\).*/\1 \2 \3/p' "$work/run/trace.json" |
        awk -v n="$window" -v batch="$mini_batch" '{ end[$1] = $2 + $3 }
            END { for (i = 0; i + n in end; i++) print batch * n * 1e6 / (end[i + n] - end[i]) }' >>"$work/calm$1"
}
both_jobs() {
    train 1 job1 >"$work/job1.speed" &
    train 1 job2 >"$work/job2.speed"
    wait
    awk '{ s += $1 } END { print s }' "$work/job1.speed" "$work/job2.speed"
}
speed 2 >/dev/null # warm up
rm "$work/calm2"
round=0
while [ $round -lt "$rounds" ]; do
    one=$(speed 1) both=$(both_jobs) two=$(speed 2)
    deep=${in_flight:+$(speed deep)}
    echo "$one $two $(over "$one" "$two") $both $(over "$one" "$both") $deep ${deep:+$(over "$one" "$deep")}"
    round=$((round + 1))
done >"$work/rounds"
column() { cut -d' ' -f"$1" "$work/rounds" | sort -g; }
echo "$(sed -n 's/.*"model": "\(.*\)",/\1/p' "$work/plan2.json"), mini-batch $mini_batch in $micro_batches," \
    "$schedule, $weights, sgdm; $(machine), $(nproc) cores"
calm() { sort -g "$work/calm$1" | tail -n 1; }
fastest() { column "$1" | tail -n 1; }
row() { # title, column, calm
    printf '%-10s %12s %12s %12s\n' "$1" "$(column "$2" | median)" "$(fastest "$2")" "$3"
}
speed_up() { # column of ratios
    echo "$(column "$1" | median) ($(column "$1" | tr '\n' ' '))"
}
undisturbed() { # column of speeds, plan
    echo "of the fastest rounds $(over "$(fastest 1)" "$(fastest "$1")"), calm $(over "$(calm 1)" "$(calm "$2")")"
}
printf '%-10s %12s %12s %12s\n' workers samples/s fastest calm
row 1 1 "$(calm 1)"
row 2 2 "$(calm 2)"
row jobs 4 -
[ -z "$in_flight" ] || row "in flight" 6 "$(calm deep)"
echo "medians of $rounds rounds: speed-up $(speed_up 3), $(undisturbed 2 2); two jobs at once $(speed_up 5);" \
    "predicted $(over "$(predicted 1)" "$(predicted 2)")"
[ -z "$in_flight" ] || echo "with $in_flight in flight $(speed_up 7), $(undisturbed 6 deep)"
