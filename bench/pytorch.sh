#!/bin/sh
# Penstock's single worker beside PyTorch's on this machine: both in turns, several rounds, medians over the rounds.
# Usage: bench/pytorch.sh [MODEL... ] with ROUNDS (5), BATCH (64), THREADS (1), STEPS (9), PYTHON (python3) and BUILD
# (build/release) from the environment. A ratio above 1 says that Penstock is faster than the faster form of PyTorch.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${ROUNDS:-5} batch=${BATCH:-64} threads=${THREADS:-1} steps=${STEPS:-9}
program=${BUILD:-$root/build/release}/bench/single_worker
python=${PYTHON:-python3}
[ $# -gt 0 ] || set -- vgg16

[ -x "$program" ] || { echo "pytorch.sh: $program: not built (make build)" >&2; exit 1; }
"$python" -c 'import torch' 2>/dev/null || {
    echo "pytorch.sh: $python has no torch; set PYTHON, or on Debian: apt install python3-torch (for /usr/bin/python3)" >&2
    exit 1
}

# The milliseconds in a line like "...: 12.34 ms a step...".
milliseconds() { sed -n 's/.*: \([0-9.]*\) ms a step.*/\1/p'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS="$threads"
printf '%-20s %10s %10s %14s %6s\n' model penstock pytorch channels_last ratio
for model in "$@"; do
    for kind in penstock default channels_last; do : >"$work/$kind"; done
    round=0
    while [ "$round" -lt "$rounds" ]; do
        "$program" "$model" "$batch" "$threads" "$steps" | milliseconds >>"$work/penstock"
        for layout in default channels_last; do
            "$python" "$root/bench/pytorch/single_worker.py" "$model" "$batch" "$threads" "$steps" "$layout" |
                milliseconds >>"$work/$layout"
        done
        round=$((round + 1))
    done
    echo "$model $(median <"$work/penstock") $(median <"$work/default") $(median <"$work/channels_last")" |
        awk '{ best = $3 < $4 ? $3 : $4; printf "%-20s %10.2f %10.2f %14.2f %6.2f\n", $1, $2, $3, $4, best / $2 }'
done
echo "milliseconds a step, batch $batch, threads $threads, median of $rounds rounds of $steps steps"
