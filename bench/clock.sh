#!/bin/sh
# Clock devices: measured time per mini-batch against the simulated one, for 4, 8 and 16 workers under several schedules, with
# real threads and messages. The costs are a made-up chain of unlike layers of some milliseconds.
#
# What the figure tells: the programs do at run time what they do in the simulator. What it does not: a clock device starts its
# work when its data was due, by the deadlines of the devices that made it, so that threads that wake up late (0.05 to 0.2 ms a
# hand-over on a busy machine) do not delay the whole chain. The cost of handing blocks over is therefore left out.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
steps=${STEPS:-60}
awk 'BEGIN {
    print "name,forward_s,backward_s,parameter_bytes,output_bytes"
    for (l = 1; l <= 24; l++) printf "layer%d,%g,%g,%d,%d\n", l, 0.001 * (1 + l % 3), 0.002 * (1 + l % 3), 100000, 65536
}' >"$work/costs.csv"
echo "clock devices, $steps mini-batches; $(machine), $(nproc) cores"
printf '%-12s %-10s %8s %14s %14s %8s\n' schedule weights workers simulated_ms measured_ms error
for workers in 4 8 16; do
    for pair in naive:sync gpipe:sync 1f1b:sync 1f1b-async:pipeoptim 1f1b-async:stash; do
        schedule=${pair%:*} weights=${pair#*:}
        "$penstock" plan --profile "$work/costs.csv" --workers $workers --schedule "$schedule" --weights "$weights" \
            --quiet -o "$work/plan.json" >/dev/null
        "$penstock" train --plan "$work/plan.json" --profile "$work/costs.csv" --device clock --steps "$steps" --quiet --json \
            >"$work/run.json"
        measured=$(field samples_per_s <"$work/run.json") simulated=$(field predicted_samples_per_s <"$work/run.json")
        batch=$(awk -F'[:,]' '/"micro_batches"/ { print $2 + 0; exit }' "$work/plan.json")
        echo "$simulated $measured $batch" | awk -v s="$schedule" -v w="$weights" -v p=$workers \
            '{ printf "%-12s %-10s %8d %14.3f %14.3f %7.2f%%\n", s, w, p, 1000 * $3 / $1, 1000 * $3 / $2, 100 * ($1 / $2 - 1) }'
    done
done
