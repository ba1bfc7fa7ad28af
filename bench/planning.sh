#!/bin/sh
# Planning on PipeDream's own profiles (PENSTOCK_DATA/profiles/pipedream): what PipeDream's program finds with its own costs, and
# the search with everything counted, at 1 and 12 GB/s on 2, 4 and 8 workers, with the times that they take.
#   straight, replicated   pipedream-paper's objective     period, speed-up   of auto's plan, simulated
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
profiles=${PENSTOCK_DATA:?where the profiles are}/profiles/pipedream

# plan OPTIONS...: into plan.json
plan() { "$penstock" plan --profile "$file" --workers "$workers" --bandwidth "${rate}GB/s" "$@" --quiet -o "$work/plan.json" >"$work/out"; }
milliseconds() { field "$1" <"$work/plan.json" | awk '{ printf "%.3f", 1000 * $1 }'; }

echo "planning times are medians of 5; $(machine)"
printf '%-14s %5s %8s %12s %9s %12s %9s   %-9s %12s %9s %9s\n' network GB/s workers straight_ms solve_ms replicated_ms solve_ms auto \
    period_ms speed-up solve_ms
for file in "$profiles"/*.graph.txt; do
    network=$(basename "$file" .graph.txt)
    for rate in 1 12; do
        for workers in 2 4 8; do
            printf '%-14s %5s %8s' "$network" $rate $workers
            for options in "" --replicate; do
                for _ in 1 2 3 4 5; do
                    # Words on purpose.
                    # shellcheck disable=SC2086
                    plan --method pipedream-paper $options
                    milliseconds solve_s
                    echo
                done | median >"$work/solve"
                printf ' %12s %9s' "$(milliseconds objective_s)" "$(cat "$work/solve")"
            done
            for _ in 1 2 3 4 5; do plan && milliseconds solve_s && echo; done | median >"$work/solve"
            "$penstock" compare --profile "$file" --workers $workers --bandwidth ${rate}GB/s --methods auto --quiet --json >"$work/rows.json"
            printf '   %-9s %12s %9.3f %9s\n' "$(awk -F'"' '$2 == "method" { print $4 }' "$work/plan.json")" "$(milliseconds period_s)" \
                "$(field speedup <"$work/rows.json")" "$(cat "$work/solve")"
        done
    done
done
