#!/bin/sh
# The cost of --trace. First for one computation: in a program whose computations take no time (the clock device with costs of a
# nanosecond) all that is left is the runtime's overhead. Processor time is measured, of a long run minus that of a short one,
# so that neither start-up nor other processes matter. Then for networks: that cost times the computations per second, and the
# samples per second of runs with and without a trace, alternately.
#
#   bench/trace.sh NETWORK...             default: resnet,blocks=3 vgg16 alexnet
#   ROUNDS (9), SECONDS_EACH (2): of a run of a network, MICRO_BATCH (16) samples
set -eu
cd "$(dirname "$0")/.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. bench/common.sh
rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-2} micro_batch=${MICRO_BATCH:-16}
[ $# -gt 0 ] || set -- resnet,blocks=3 vgg16 alexnet

# trained STEPS SAMPLES [...]: a run's document
trained() {
    n=$1 samples=$2
    shift 2
    "$penstock" train --plan "$work/plan.json" --profile "$profile" --steps "$n" --data "synthetic:images,samples=$samples" --quiet \
        --json "$@"
}
# by_turns STEPS SAMPLES [...]: with a trace against without, in lines of both rates
by_turns() {
    round=0
    while [ $round -lt "$rounds" ]; do
        without=$(trained "$@" | field samples_per_s) with=$(trained "$@" --trace --out "$work/run" | field samples_per_s)
        rm -rf "$work/run"
        echo "$without $with"
        round=$((round + 1))
    done
}

profile=$work/profile.csv
printf 'name,forward_s,backward_s,parameter_bytes,output_bytes\nnothing,1e-9,1e-9,64,64\n' >"$profile"
"$penstock" plan --profile "$profile" --workers 1 --schedule gpipe --weights sync --micro-batches 64 --quiet -o "$work/plan.json" >/dev/null
# Processor time of all that was run so far, in seconds.
spent() {
    times >"$work/times"
    awk 'NR == 2 { split($1, user, "[ms]"); split($2, kernel, "[ms]"); print 60 * (user[1] + kernel[1]) + user[2] + kernel[2] }' \
        "$work/times"
}
# nothing STEPS [...]: of such a run
nothing() {
    n=$1
    shift
    trained "$n" 2000 --device clock "$@" >"$work/run.json"
    rm -rf "$work/run"
}
short=1000 long=21000
round=0
while [ $round -lt "$rounds" ]; do
    spent >"$work/0"; nothing $short; spent >"$work/1"; nothing $long; spent >"$work/2"
    nothing $short --trace --out "$work/run"; spent >"$work/3"; nothing $long --trace --out "$work/run"; spent >"$work/4"
    # 64 forwards, 64 backwards and an update in a step.
    cat "$work"/[0-4] | awk -v n=$(((long - short) * 129)) '{ t[NR] = $1 }
        END { print 1e9 * (t[3] - 2 * t[2] + t[1]) / n, 1e9 * (t[5] - 2 * t[4] + t[3]) / n }'
    round=$((round + 1))
done >"$work/nothing"
without_ns=$(cut -d' ' -f1 "$work/nothing" | median)
each_ns=$(awk '{ print $2 - $1 }' "$work/nothing" | median)
echo "$(machine), $(nproc) cores, $rounds rounds"
echo "$without_ns $each_ns" | awk '{ printf "a computation that takes no time: %.0f ns, with a trace %+.0f ns\n\n", $1, $2 }'

printf '%-16s %16s %12s %12s\n' 'network (1f1b)' computations/s 'trace costs' 'side by side'
profile=$work/profile.json
for model in "$@"; do
    "$penstock" profile --model "$model" --micro-batch "$micro_batch" --repeats 3 --quiet -o "$profile" >/dev/null
    "$penstock" plan --profile "$profile" --workers 2 --schedule 1f1b --weights sync --micro-batches 4 --quiet -o "$work/plan.json" \
        >/dev/null
    n=$(awk -F'[:,]' -v s="$seconds" '$1 ~ /"period_s"/ { n = int(s / $2); print n < 3 ? 3 : n; exit }' "$work/plan.json")
    by_turns "$n" $((4 * micro_batch * n)) --lr 0.0001 >"$work/turns"
    # 18 computations in a mini-batch of four micro-batches on two workers.
    rate=$(awk -v m="$micro_batch" '{ print 18 * $1 / (4 * m) }' "$work/turns" | median)
    beside=$(awk '{ print $1 / $2 - 1 }' "$work/turns" | median)
    echo "$rate $each_ns $beside" | awk -v n="$model" '{ printf "%-16s %16.0f %11.4f%% %+11.2f%%\n", n, $1, 1e-7 * $1 * $2, 100 * $3 }'
done
