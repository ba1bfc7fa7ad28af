#!/bin/sh
# The cost of weight prediction: samples per second of pipeoptim, xpipe and spectrain (sgdm only) compared with latest, which
# predicts nothing and is otherwise the same pipeline: same cut, same schedule, same order of computations. Two workers of one
# thread each. The policies are run in turn, forth and back, so that a busy machine slows all; the median over the rounds of
# each round's ratio to latest is reported. All that a prediction adds to a step is in its updates, which also write the
# predicted weights. So the first worker (the last predicts nothing) is also traced: `updates` is the time of its updates and
# separate predictions in microseconds per step, median over the steps, and `share` the part of a step by which this exceeds the
# time of latest. MODEL:BATCH[:STEPS] has a mini-batch and a number of steps of its own.
#   bench/prediction.sh [MODEL[:BATCH[:STEPS]]...]     ROUNDS (7), OPTIMIZERS (sgdm adam adamw),
#                                                      POLICIES (those that predict by the optimizer, XPipe's, SpecTrain's)
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

# The first worker's updates and predictions, in microseconds a step: the median of those in a traced run.
updates() { # policy
    rm -rf "$work/traced"
    "$penstock" train --plan "$work/$1.json" --data "$(data "$name" $((batch * 10)))" --lr 0.0001 --steps 10 --trace \
        --out "$work/traced" --quiet >/dev/null
    awk -F'[:,"]+' '/"name":"[UP][0-9]+"/ && /"tid":0,/ { for (i = 1; i < NF; i++) if ($i == "dur") print $(i + 1) }' \
        "$work/traced/trace.json" | median
}

echo "$(machine), $(nproc) cores; two workers of one thread, 1f1b-async; medians of $rounds rounds"
printf '%-24s %-6s %-10s %10s %8s %9s %8s   %s\n' model rule policy samples/s ratio updates share 'each round'
for model; do
    name=${model%%:*} rest=${model#*:}
    [ "$rest" != "$model" ] || rest=64:12
    batch=${rest%%:*} steps=${rest##*:}
    [ "$rest" != "$batch" ] || steps=12
    given=$(data "$name" $((batch * steps)))
    profile=$profiles/$name.$batch.json
    [ -f "$profile" ] || "$penstock" profile --model "$name" --micro-batch "$batch" --quiet -o "$profile" >/dev/null
    for optimizer in $optimizers; do
        policies="latest ${POLICIES:-pipeoptim xpipe}"
        [ "$optimizer" != sgdm ] || [ -n "${POLICIES:-}" ] || policies="$policies spectrain"
        for policy in $policies; do
            "$penstock" plan --profile "$profile" --workers 2 --method pipedream --schedule 1f1b-async \
                --weights "$policy" --optimizer "$optimizer" -o "$work/$policy.json" --quiet >/dev/null
            : >"$work/$policy.speeds"
        done
        round=0
        while [ $round -lt "$rounds" ]; do
            turn=$policies
            [ $((round % 2)) = 0 ] || turn=$(echo "$policies" | tr ' ' '\n' | sed '1!G;h;$!d')
            for policy in $turn; do speed "$policy" >>"$work/$policy.speeds"; done
            round=$((round + 1))
        done
        for policy in $policies; do
            paste "$work/latest.speeds" "$work/$policy.speeds" | awk '{ printf "%.4f\n", $2 / $1 }' >"$work/ratios"
            samples=$(median <"$work/$policy.speeds") more=$(updates "$policy")
            [ "$policy" != latest ] || usual=$more
            share=$(echo "$more $usual $samples $batch" | awk '{ printf "%.4f", ($1 - $2) / 1e6 * $3 / $4 }')
            printf '%-24s %-6s %-10s %10.1f %8.3f %9.0f %8s   %s\n' "$name" "$optimizer" "$policy" "$samples" \
                "$(median <"$work/ratios")" "$more" "$share" "$(sort -g "$work/ratios" | tr '\n' ' ')"
        done
    done
done
