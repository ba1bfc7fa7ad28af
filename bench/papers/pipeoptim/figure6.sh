#!/bin/sh
# PipeOptim's Figure 6: throughput of eight networks under six methods, at the largest batch that the paper found for each (Table V),
# simulated with full networks on four P100 by model. Samples a second; below, relative to PipeDream.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/pipeoptim.sh
throughputs() {
    echo "$networks" | while read -r name network optimizer batches; do
        column=0
        printf '%s %s' $name $optimizer
        echo "$methods" | while read -r method schedule weights micro_batches; do
            column=$((column + 1))
            batch=$(echo $batches | cut -d/ -f$column)
            [ "$batch" = - ] && printf ' -' || printf ' %s' "$(speed $name $network $optimizer $batch $schedule $weights $micro_batches)"
        done
        echo
    done
}
throughputs >"$work/all"
awk 'BEGIN { print "network        optimizer      GPipe  PipeDream        2BW  SpecTrain      XPipe  PipeOptim" }
    { printf "%-14s %-9s", $1, $2; for (i = 3; i <= 8; i++) printf " %10s", $i == "-" ? "-" : sprintf("%.1f", $i); print "" }
    { for (i = 3; i <= 8; i++) if ($i != "-") { n[i]++; over[i] += $8 / $i - 1; if ($8 / $i - 1 > most[i]) most[i] = $8 / $i - 1; if ($8 / $i - 1 < least[i]) least[i] = $8 / $i - 1 }
      if ($2 == "adamw") { w++; ws += $8 / $3 - 1; if ($8 / $3 - 1 > wm) wm = $8 / $3 - 1 } }
    END {
        print ""
        printf "PipeOptim over GPipe with AdamW: %+.1f%% on average, %+.1f%% at most   (paper: +51.3%%, +91.7%%)\n", 100 * ws / w, 100 * wm
        printf "PipeOptim over PipeDream: %+.1f%% on average, %+.1f%% at least          (paper: -4.0%%, -16.5%%)\n", 100 * over[4] / n[4], 100 * least[4]
        printf "PipeOptim over 2BW: %+.1f%% on average, %+.1f%% at least                (paper: -2.6%%, -14.1%%)\n", 100 * over[5] / n[5], 100 * least[5]
        printf "PipeOptim over XPipe: %+.1f%% on average                              (paper: above)\n", 100 * over[7] / n[7] }' "$work/all"
awk 'BEGIN { print "title Throughput on four P100, relative to PipeDream\nx network\ny ratio\nsize 900 170"; split("GPipe PipeDream 2BW SpecTrain XPipe PipeOptim", name, " ") }
    { row[NR] = $0 }
    END { for (i = 1; i <= 6; i++) { print "bars " name[i]; for (r = 1; r <= NR; r++) { split(row[r], f); print f[1], f[i + 2] == "-" ? "-" : f[i + 2] / f[4] } } }' "$work/all" |
    awk -f bench/papers/plot.awk >"$figure"
echo
echo "predictions as passes of their own, and so many times as long: PipeOptim over PipeDream, 2BW, XPipe, on average"
for predictions in 1 10 100; do
    rm -f "$work"/*.json
    throughputs | awk -v times=$predictions '{ for (i = 4; i <= 7; i++) if ($i != "-") { n[i]++; sum[i] += $8 / $i - 1 } }
        END { printf "%4d times %+7.1f%% %+7.1f%% %+7.1f%%\n", times, 100 * sum[4] / n[4], 100 * sum[5] / n[5], 100 * sum[7] / n[7] }'
done
