#!/bin/sh
# Memory of each weight policy against its plan, four workers on 1f1b-async (sync: 1f1b): what the plan says, what the workers'
# allocators took, and by how much the process grew at its peak, all workers together. What a process holds before it trains
# anything (libraries, the runtime) is that of LeNet-5 with one sample, less its own plan. What a process takes beyond the plan is
# the code of its kernels, the data that are read ahead, and what oneDNN's plain products take for themselves.
# MODEL:MICRO_BATCH.
#   bench/memory.sh [MODEL:MICRO_BATCH...]     POLICIES (all), OPTIMIZER (adam; spectrain: sgdm)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
policies=${POLICIES:-sync latest stash 2bw spectrain xpipe pipeoptim horizon} optimizer=${OPTIMIZER:-adam} workers=4
[ $# -gt 0 ] || set -- vgg16:16 resnet50,input=64:8 residual_lstm,seq=100:32 gnmt8,seq=20,vocab=8000,hidden=512:16 \
    gpt2,layers=4,width=256,heads=4,seq=128,vocab=4000:8

# The sum of a field over a document's workers.
total() { awk -F'[:,]' -v name="\"$1\"" '{ key = $1; gsub(/[ \t{]/, "", key) } key == name { sum += $2 } END { printf "%.0f", sum }' "$2"; }

# run MODEL MICRO_BATCH POLICY OPTIMIZER WORKERS: leaves summary.json
run() {
    schedule=1f1b-async kind=images micro_batches=1
    [ "$3" != sync ] || schedule=1f1b
    case $1 in *lstm*|gpt*|bert*|gnmt*) kind=tokens ;; esac
    [ "$3" != 2bw ] && [ "$3" != sync ] || micro_batches=$5
    [ -f "$work/$1.$2.json" ] || "$penstock" profile --model "$1" --micro-batch "$2" --repeats 1 --quiet -o "$work/$1.$2.json" >/dev/null
    "$penstock" plan --profile "$work/$1.$2.json" --workers "$5" --method pipedream --schedule $schedule --weights "$3" \
        --micro-batches $micro_batches --optimizer "$4" -o "$work/plan.json" --quiet >/dev/null
    "$penstock" train --plan "$work/plan.json" --profile "$work/$1.$2.json" --data synthetic:$kind,samples=$(($2 * micro_batches * 6)) \
        --steps 6 --lr 0.0001 --quiet --json >"$work/summary.json"
}

run lenet5 1 latest sgdm 1
start=$(($(total process_peak_bytes "$work/summary.json") - $(total predicted_memory_bytes "$work/summary.json")))
echo "$workers workers, $optimizer; MiB over all workers; a process starts with $((start >> 20)) MiB"
printf '%-48s %-10s %9s %9s %9s %8s\n' model:micro-batch policy planned taken process process/planned
for given; do
    for policy in $policies; do
        rule=$optimizer
        [ "$policy" != spectrain ] || rule=sgdm
        run "${given%:*}" "${given##*:}" "$policy" "$rule" $workers
        echo "$(total predicted_memory_bytes "$work/summary.json") $(total memory_bytes "$work/summary.json") $(total process_peak_bytes "$work/summary.json")" |
            awk -v start="$start" -v given="$given" -v policy="$policy" '{ m = 1048576
                printf "%-48s %-10s %9.1f %9.1f %9.1f %8.3f\n", given, policy, $1 / m, $2 / m, ($3 - start) / m, ($3 - start) / $1 }'
    done
done
