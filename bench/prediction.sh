#!/bin/sh
# What predicting weights costs: samples per second of pipeoptim, xpipe and spectrain (sgdm only) beside latest, which predicts
# nothing and is otherwise the same pipeline: the same cut, the same schedule, the same order of computations. Two workers of one
# thread each. The policies are run in turns, so that a busy machine slows all; the median over the rounds of each round's ratio to
# latest counts. MODEL:BATCH[:STEPS] has a mini-batch and a number of steps of its own.
#   bench/prediction.sh [MODEL[:BATCH[:STEPS]]...]     ROUNDS (7), OPTIMIZERS (sgdm adam adamw),
#                                                      PROFILES (a directory that keeps profiles from one call to the next)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-7} optimizers=${OPTIMIZERS:-sgdm adam adamw} profiles=${PROFILES:-$work}
[ $# -gt 0 ] || set -- vgg16:64:6 residual_lstm,seq=100:64:6

# The data that suits a model, at least STEPS mini-batches of it.
data() { # model, samples
    case $1 in
    *lstm*) echo "synthetic:tokens,samples=$2" ;;
    *) echo "synthetic:images,samples=$2" ;;
    esac
}

speed() { # policy
    "$penstock" train --plan "$work/$1.json" --data "$given" --lr 0.0001 --steps "$steps" --quiet --json | field samples_per_s
}

echo "$(machine), $(nproc) cores; two workers of one thread, 1f1b-async; medians of $rounds rounds"
printf '%-24s %-6s %-10s %10s %10s   %s\n' model rule policy samples/s ratio 'each round'
for model; do
    name=${model%%:*} rest=${model#*:}
    [ "$rest" != "$model" ] || rest=64:12
    batch=${rest%%:*} steps=${rest##*:}
    [ "$rest" != "$batch" ] || steps=12
    given=$(data "$name" $((batch * steps)))
    profile=$profiles/$name.$batch.json
    [ -f "$profile" ] || "$penstock" profile --model "$name" --micro-batch "$batch" --quiet -o "$profile" >/dev/null
    for optimizer in $optimizers; do
        policies="latest pipeoptim xpipe"
        [ "$optimizer" != sgdm ] || policies="$policies spectrain"
        for policy in $policies; do
            "$penstock" plan --profile "$profile" --workers 2 --method pipedream --schedule 1f1b-async \
                --weights "$policy" --optimizer "$optimizer" -o "$work/$policy.json" --quiet >/dev/null
            : >"$work/$policy.speeds"
        done
        round=0
        while [ $round -lt "$rounds" ]; do
            for policy in $policies; do speed "$policy" >>"$work/$policy.speeds"; done
            round=$((round + 1))
        done
        for policy in $policies; do
            paste "$work/latest.speeds" "$work/$policy.speeds" | awk '{ printf "%.4f\n", $2 / $1 }' >"$work/ratios"
            printf '%-24s %-6s %-10s %10.1f %10.3f   %s\n' "$name" "$optimizer" "$policy" "$(median <"$work/$policy.speeds")" \
                "$(median <"$work/ratios")" "$(sort -g "$work/ratios" | tr '\n' ' ')"
        done
    done
done
