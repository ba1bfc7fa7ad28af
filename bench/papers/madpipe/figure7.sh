#!/bin/sh
# MadPipe's Figure 7: for each network and memory the geometric mean, over 2 to 8 GPUs and 12 and 24 GB/s, of PipeDream's period
# under 1F1B* over MadPipe's (Penstock's exact search of its class), and dashed of the period that PipeDream's partition promises.
# Where PipeDream's partition finds no plan the case does not count; how many these are stands beside the mean. The last network, a
# coarser chain of DenseNet-121 with every three of its layers joined, counts by itself.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/madpipe.sh
awk -v join=3 -f bench/papers/chain.awk "$work/densenet121.json" >"$work/densenet_by_3.chain"
for network in $networks densenet_by_3; do
    for memory in 3 4 5 6 7 8 9 10 12 14 16; do
        for rate in 12 24; do
            for workers in 2 3 4 5 6 7 8; do
                echo $network $memory $(periods $workers $memory $rate $pipedream) $(periods $workers $memory $rate $madpipe)
            done
        done
    done
done >"$work/all"
awk '{ key = $1 " " $2 }
    !(key in seen) { seen[key] = 1; order[++keys] = key }
    $6 != "-" { plans[key]++ }
    $6 != "-" && $4 == "-" { lost[key]++ }
    $4 != "-" && $6 != "-" { n[key]++; sum[key] += log($4 / $6); promise[key] += log($3 / $6); r = $4 / $6; if (r > most[key]) most[key] = r
        if ($1 == "densenet_by_3") next
        all[($2 < 10)]++; total[($2 < 10)] += log(r); if (r > 1.2) many[($2 < 10)]++; if (r < 0.999) less[($2 < 10)]++; if (r > top) top = r }
    END {
        print "network        GB  PipeDream / MadPipe  promised / MadPipe  largest ratio  cases  MadPipe alone has a plan"
        for (k = 1; k <= keys; k++) { key = order[k]; split(key, part)
            if (n[key]) printf "%-13s %3d %14.3f %19.3f %18.2f %9d %8d\n", part[1], part[2], exp(sum[key] / n[key]), exp(promise[key] / n[key]), most[key], n[key], lost[key]
            else printf "%-13s %3d %14s %19s %18s %9d %8d\n", part[1], part[2], "-", "-", "-", 0, lost[key] }
        for (b = 1; b >= 0; b--) printf "\n%s 10 GB: geometric mean %.3f over %d cases; PipeDream takes over 1.2 times as long in %d, less time in %d", b ? "below" : "from", exp(total[b] / all[b]), all[b], many[b], less[b]
        printf "; at most %.2f times\n", top }' "$work/all" | tee "$work/table"
awk 'BEGIN { print "title Periods over those of MadPipe, geometric means over 2 to 8 GPUs, 12 and 24 GB/s\nx memory of a GPU, GB\ny ratio\ncolumns 3\nfrom 0.8\nto 2" }
    /^[a-z].*[0-9]+ *[0-9]+$/ && $3 != "-" { if ($1 != last) { order[++names] = $1; last = $1 } n[$1]++; at[$1, n[$1]] = $2; real[$1, n[$1]] = $3; said[$1, n[$1]] = $4 }
    END { for (i = 1; i <= names; i++) { name = order[i]; print "panel " name
        print "line PipeDream,_1F1B*"; for (k = 1; k <= n[name]; k++) print at[name, k], real[name, k]
        print "line promised dashed PipeDream,_1F1B*"; for (k = 1; k <= n[name]; k++) print at[name, k], said[name, k]
        print "line MadPipe"; print 3, 1; print 16, 1 } }' "$work/table" | awk -f bench/papers/plot.awk >"$figure"
