#!/bin/sh
# The planners on measured profiles, each with its solution time. PENSTOCK_DATA holds profiles/pipedream, dapple and chains.
#   pipedream, cuts, sizes, memory
#                             the objective that each minimises (bench/planners.c)
#   madpipe                   the part of `memory` that takes seconds, not minutes: all except the published grid
#   auto                      the search over everything, simulated, compared with the best single method; `ahead` is by how much its
#                             period is shorter, never below 0
# Takes some minutes. Arguments select tables.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
program=${PLANNERS:-build/release/bench/planners} profiles=${PENSTOCK_DATA:?where the profiles are}/profiles
methods=pipedream,bapipe,uniform,madpipe,pipedream-paper,bipartition

auto_row() { # file workers rate
    "$penstock" compare --profile "$1" --workers "$2" --bandwidth "$3GB/s" --methods auto,$methods --quiet --json >"$work/rows.json"
    awk -v network="$(basename "$1" | sed 's/\.graph\.txt$//; s/\.txt$//')" -v workers="$2" -v rate="$3" '
        { key = $1; gsub(/[":]/, "", key); value = $2; gsub(/[",]/, "", value) }
        key == "method" { method = value }
        key == "chosen" && method == "auto" { chosen = value }
        key == "solve_s" && method == "auto" { solve = value }
        key == "speedup" && method == "auto" { speedup = value }
        key == "period_s" {
            if (method == "auto") period = value
            else if (!other || value + 0 < least) { other = method; least = value + 0 }
        }
        END {
            ahead = 100 * (1 - period / least)
            if (ahead < 0 && ahead > -1e-7) ahead = 0
            printf "%-26s %3d %5s %-16s %11.3f %8.2f %9.1f  %-16s %11.3f %6.1f%%\n", network, workers, rate, chosen, 1000 * period,
                   speedup, 1000 * solve, other, 1000 * least, ahead
        }' "$work/rows.json"
}

[ $# -gt 0 ] || set -- pipedream cuts sizes memory auto
echo "$(machine), one thread"
for table; do
    if [ "$table" != auto ]; then
        "$program" "$profiles" "$table"
        continue
    fi
    printf '\nauto: simulated periods, everything counted, ms (and ms to solve)\n'
    printf '%-26s %3s %5s %-16s %11s %8s %9s  %-16s %11s %7s\n' profile P GB/s auto period speed-up solve 'best alone' period ahead
    for file in "$profiles"/pipedream/*.graph.txt "$profiles"/dapple/*pbs*.txt; do
        for workers in 2 4 8; do
            for rate in 1 12; do auto_row "$file" $workers $rate; done
        done
    done
done
