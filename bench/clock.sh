#!/bin/sh
# Clock devices: measured time per mini-batch compared with the simulated one, for 4, 8 and 16 workers, three networks and seven
# pairs of schedule and weight policy, with real threads and messages. The costs come from the model of a VCU118 board: some
# milliseconds in all, different from layer to layer, and the same on every machine.
#
# The result shows that the programs do at run time what they do in the simulator. It says nothing about the cost of
# transferring blocks between threads: a clock device starts its work when its data was due, by the deadlines of the devices
# that made it, so that threads that wake up late (0.05 to 0.2 ms per transfer on a busy machine) do not delay the whole chain.
#   bench/clock.sh NETWORK...     default: resnet50 googlenet densenet121
#   STEPS (12) mini-batches per run
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
steps=${STEPS:-12}
[ $# -gt 0 ] || set -- resnet50 googlenet densenet121
echo "clock devices, costs of fpga:vcu118, micro-batches of 8, $steps mini-batches; $(machine), $(nproc) cores"
printf '%-12s %-12s %-10s %8s %14s %14s %8s\n' network schedule weights workers simulated_ms measured_ms error
for model in "$@"; do
    "$penstock" profile --model $model --device fpga:vcu118 --micro-batch 8 --quiet -o "$work/costs.json" >/dev/null
    for workers in 4 8 16; do
        for pair in gpipe:sync 1f1b:sync interleaved:sync zb-h1:sync chimera:sync 1f1b-async:pipeoptim 1f1b-async:stash; do
            schedule=${pair%:*} weights=${pair#*:}
            "$penstock" plan --profile "$work/costs.json" --workers $workers --schedule "$schedule" --weights "$weights" \
                --quiet -o "$work/plan.json" >/dev/null
            "$penstock" train --plan "$work/plan.json" --profile "$work/costs.json" --device clock --steps "$steps" --quiet \
                --json >"$work/run.json"
            measured=$(field samples_per_s <"$work/run.json") simulated=$(field predicted_samples_per_s <"$work/run.json")
            echo "$simulated $measured $(field batch <"$work/run.json")" |
                awk -v n=$model -v s="$schedule" -v w="$weights" -v p=$workers '{
                    printf "%-12s %-12s %-10s %8d %14.3f %14.3f %7.2f%%\n", n, s, w, p, 1000 * $3 / $1, 1000 * $3 / $2,
                        100 * ($1 / $2 - 1) }' | tee -a "$work/rows"
        done
    done
done
sort -g -k7 "$work/rows" | awk '{ e = $7 + 0; if (e < 0) e = -e; if (e > most) most = e } END { printf "largest error %.2f%%\n", most }'
