#!/bin/sh
# The simulator's prediction compared with real runs: two workers of one thread each train on this machine's processor, under
# nine schedules. The network is profiled while two workers compute at the same time (profile --busy 2), as in the run. Each
# schedule is run ROUNDS times, each time with a new profile made just before. The medians of predicted / measured are printed:
# the time of a mini-batch (period), of the whole run (makespan), and the blocks of the two workers together. `train` is a run's
# own prediction of its samples per second, with everything included. The last column is the number of cores that other programs
# kept busy meanwhile: figures from a busy machine say little. Files are kept in memory if there is /dev/shm; otherwise the
# files of one run would be written to the disk while the next one is measured.
#
#   bench/fidelity.sh NETWORK...          default: vgg16 alexnet resnet,blocks=3 residual_lstm,seq=50
#   CASES: SCHEDULE:WEIGHTS:MICRO_BATCHES..., WORKERS (2; if more than cores, they share the cores through the run queue)
#   ROUNDS (3), SECONDS_EACH (4): of a run, MICRO_BATCH (16) samples, KEEP: a directory for every comparison in full
#   DATA: training data; default: synthetic samples, which cost the workers of small networks a tenth of a core
#   ROWS: a directory that collects rounds over several calls; the table covers all that it holds
# bench/trace.sh measures the cost of --trace.
set -eu
cd "$(dirname "$0")/.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. bench/common.sh
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-4} micro_batch=${MICRO_BATCH:-16}
rows=${ROWS:-$work}
[ $# -gt 0 ] || set -- vgg16 alexnet resnet,blocks=3 residual_lstm,seq=50
cases=${CASES:-gpipe:sync:4 1f1b:sync:4 1f1b-async:pipeoptim:1 1f1b-async:stash:1 interleaved:sync:4 hanayo:sync:4 zb-h1:sync:4
    zb-v:sync:4 chimera:sync:4}
workers=${WORKERS:-2}
cores=$(nproc)
[ "$cores" -lt "$workers" ] || cores=$workers

# steps SECONDS: mini-batches of the plan that take about so long
steps() { awk -F'[:,]' -v s="$1" '$1 ~ /"period_s"/ { n = int(s / $2); print n < 6 ? 6 : n; exit }' "$work/plan.json"; }
# trained STEPS MICRO_BATCHES [--trace --out DIR]: a run's document on standard output
trained() {
    n=$1 m=$2
    shift 2
    "$penstock" train --plan "$work/plan.json" --profile "$work/profile.json" --steps "$n" --lr 0.0001 \
        --data "${DATA:-synthetic:$kind,samples=$((2 * n * m * micro_batch))}" --quiet --json "$@"
}
# planned SCHEDULE WEIGHTS MICRO_BATCHES
planned() {
    "$penstock" plan --profile "$work/profile.json" --workers "$workers" --schedule "$1" --weights "$2" --micro-batches "$3" \
        --optimizer sgdm --quiet -o "$work/plan.json" >/dev/null
}

echo "predicted / measured - 1, medians of $rounds rounds; micro-batches of $micro_batch, $workers workers; $(machine), $(nproc) cores"
printf '%-16s %-12s %-10s %10s %8s %9s %8s %8s %8s\n' network schedule weights measured period makespan memory train others
for model in "$@"; do
    round=0 kind=images
    case $model in residual_lstm* | gnmt* | gpt2* | bert*) kind=tokens ;; esac
    while [ $round -lt "$rounds" ]; do
        "$penstock" profile --model "$model" --micro-batch "$micro_batch" --busy "$cores" --quiet -o "$work/profile.json" >/dev/null
        for case in $cases; do
            schedule=${case%%:*} rest=${case#*:}
            weights=${rest%:*} m=${rest#*:}
            planned "$schedule" "$weights" "$m"
            watch
            trained "$(steps "$seconds")" "$m" --trace --out "$work/run" >"$work/run.json"
            busy=$(others)
            "$penstock" simulate --plan "$work/plan.json" --profile "$work/profile.json" --cores "$cores" --against "$work/run/trace.json" \
                --quiet --json >"$work/against.json"
            echo "$(field measured_period_s <"$work/against.json") $(field period_error <"$work/against.json")" \
                "$(field makespan_error <"$work/against.json") $(field memory_error <"$work/against.json")" \
                "$(field predicted_samples_per_s <"$work/run.json") $(field samples_per_s <"$work/run.json") $busy" \
                >>"$rows/$model.$schedule.$weights"
            [ -z "${KEEP:-}" ] || cp "$work/against.json" "$KEEP/$model.$schedule.$weights.$round.json"
            rm -rf "$work/run"
        done
        round=$((round + 1))
    done
    for table in "$rows/$model".*; do
        name=${table#"$rows/$model."}
        column() { cut -d' ' -f"$1" "$table" | median; }
        train=$(awk '{ print $6 / $5 - 1 }' "$table" | median)
        echo "$(column 1) $(column 2) $(column 3) $(column 4) $train $(column 7)" |
            awk -v n="$model" -v s="${name%.*}" -v w="${name##*.}" '{ printf "%-16s %-12s %-10s %8.2fms %+7.1f%% %+8.1f%% %+7.1f%% %+7.1f%% %8.2f\n",
                n, s, w, 1000 * $1, 100 * $2, 100 * $3, 100 * $4, 100 * $5, $6 }'
    done
done
