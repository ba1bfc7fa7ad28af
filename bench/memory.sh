#!/bin/sh
# Memory of each weight policy compared with its plan, four workers on 1f1b-async (sync: 1f1b): the planned memory, the memory
# of the workers' blocks, and the peak of the process, in MiB, all workers together. In addition to its workers a process has
#   code      pages of the program's and the libraries' files
#   kernels   what else it held when its kernels were created and before its workers allocated memory: their code, what oneDNN keeps
#             of them
#   ahead     data read ahead
# and `workers` is the rest of its peak: the blocks, and anything that was not accounted for.
#   bench/memory.sh [MODEL:MICRO_BATCH...]     POLICIES (all), OPTIMIZER (adam; spectrain: sgdm), PLAN (more options for plan)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
policies=${POLICIES:-sync latest stash 2bw spectrain xpipe pipeoptim horizon} optimizer=${OPTIMIZER:-adam} workers=${WORKERS:-4} threads=${THREADS:-1}
[ $# -gt 0 ] || set -- lenet5:64 alexnet:16 vgg16:16 resnet,blocks=2:32 resnet50,input=64:8 googlenet,input=64:8 \
    residual_lstm,seq=100:32 gnmt8,seq=20,vocab=4000,hidden=256:16 \
    gpt2,layers=4,width=256,heads=4,seq=128,vocab=4000:8 bert48,layers=4,width=128,heads=2,seq=64,vocab=4000:8

# run MODEL MICRO_BATCH POLICY OPTIMIZER: leaves summary.json
run() {
    schedule=1f1b-async kind=images micro_batches=1
    [ "$3" != sync ] || schedule=1f1b
    case $1 in *lstm*|gpt*|bert*|gnmt*) kind=tokens ;; esac
    [ "$3" != 2bw ] && [ "$3" != sync ] || micro_batches=$workers
    [ -f "$work/$1.$2.json" ] || "$penstock" profile --model "$1" --micro-batch "$2" --threads "$threads" --repeats 1 --quiet -o "$work/$1.$2.json" >/dev/null
    # shellcheck disable=SC2086
    "$penstock" plan --profile "$work/$1.$2.json" --workers "$workers" --method pipedream --schedule $schedule --weights "$3" \
        --micro-batches $micro_batches --optimizer "$4" ${PLAN:-} -o "$work/plan.json" --quiet >/dev/null
    ${LAUNCH:-} "$penstock" train --plan "$work/plan.json" --profile "$work/$1.$2.json" --data synthetic:$kind,samples=$(($2 * micro_batches * 6)) \
        --steps 6 --lr 0.0001 --threads "$threads" ${TRAIN:-} --quiet --json >"$work/summary.json"
}

echo "$workers workers of $threads threads, $optimizer${LAUNCH:+, $LAUNCH}${PLAN:+, $PLAN}${TRAIN:+, $TRAIN}; MiB"
printf '%-54s %-10s %8s %8s %8s %6s %8s %6s %6s %8s %8s %8s\n' model:micro-batch policy planned taken process code kernels ahead saved \
    workers /planned greatest
for given; do
    for policy in $policies; do
        rule=$optimizer
        [ "$policy" != spectrain ] || rule=sgdm
        run "${given%:*}" "${given##*:}" "$policy" "$rule"
        awk -F'[:,]' -v given="$given" -v policy="$policy" '
            { key = $1; gsub(/[ \t{"]/, "", key) }
            key ~ /_bytes$/ { of[key, ++seen[key]] = $2 / 1048576; sum[key] += $2 / 1048576 }
            # What a process held of its own while its workers worked.
            function own(p) {
                beside = of["process_code_bytes", p] + of["process_start_bytes", p] + of["loader_bytes", p] + of["checkpoint_bytes", p]
                return of["process_peak_bytes", p] - beside - of["process_others_bytes", p]
            }
            END {
                for (p = 1; p <= seen["process_peak_bytes"]; p++) {
                    all += own(p)
                    planned = seen["process_peak_bytes"] == 1 ? sum["predicted_memory_bytes"] : of["predicted_memory_bytes", p]
                    if (own(p) / planned > greatest) greatest = own(p) / planned
                }
                printf "%-54s %-10s %8.1f %8.1f %8.1f %6.1f %8.1f %6.1f %6.1f %8.1f %8.3f %8.3f\n", given, policy,
                    sum["predicted_memory_bytes"], sum["memory_bytes"], sum["process_peak_bytes"] - sum["process_others_bytes"],
                    sum["process_code_bytes"], sum["process_start_bytes"], sum["loader_bytes"], sum["checkpoint_bytes"], all,
                    all / sum["predicted_memory_bytes"], greatest
            }' "$work/summary.json"
    done
done
