#!/bin/sh
# MadPipe's Figure 7 with its algorithm as published: the grid of its dynamic programme, then a schedule for its allocation. The
# geometric means are over 2, 4, 6 and 8 GPUs, 12 and 24 GB/s. Each case is kept in runs/papers/grid; a run that was stopped goes on.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/madpipe.sh
kept=runs/papers/grid
mkdir -p $kept
for network in $networks; do
    for memory in 3 4 6 8 10 12 16; do
        for rate in 12 24; do
            for workers in 2 4 6 8; do
                case=$kept/$network-$memory-$rate-$workers
                [ -s $case ] || {
                    echo $network $memory $(periods $workers $memory $rate $pipedream) $(periods $workers $memory $rate $grid) \
                        $(periods $workers $memory $rate $madpipe) >$case.new
                    mv $case.new $case
                }
                cat $case
            done
        done
    done
done >"$work/all"
awk '{ key = $1 " " $2 }
    !(key in seen) { seen[key] = 1; order[++keys] = key }
    $6 != "-" && $4 != "-" { n[key]++; one[key] += log($4 / $6) }
    $6 != "-" && $8 != "-" { m[key]++; two[key] += log($6 / $8); promise[key] += log($5 / $8) }
    $6 != "-" && $8 != "-" { all++; sum += log($6 / $8) }
    END {
        print "network        GB  PipeDream / grid  cases   grid / exact  promised / exact  cases"
        for (k = 1; k <= keys; k++) { key = order[k]; split(key, part)
            printf "%-13s %3d %13s %9d %13s %15s %9d\n", part[1], part[2], n[key] ? sprintf("%.3f", exp(one[key] / n[key])) : "-", n[key],
                m[key] ? sprintf("%.3f", exp(two[key] / m[key])) : "-", m[key] ? sprintf("%.3f", exp(promise[key] / m[key])) : "-", m[key] }
        if (all) printf "\ngrid / exact, geometric mean over %d cases: %.3f\n", all, exp(sum / all) }' "$work/all"
