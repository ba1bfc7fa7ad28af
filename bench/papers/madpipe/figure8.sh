#!/bin/sh
# MadPipe's Figure 8: speed-ups over one GPU without a limit of memory, by PipeDream's partition under 1F1B* and by MadPipe
# (Penstock's exact search of its class), for 2 to 8 GPUs of 4, 6, 8, 12 and 16 GB.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/madpipe.sh
for network in $networks; do
    one=$(awk 'NR > 1 { sum += $1 + $2 } END { print sum }' "$work/$network.chain")
    for rate in 12 24; do
        for memory in 4 6 8 12 16; do
            for workers in 2 3 4 5 6 7 8; do
                echo $network $rate $memory $workers $one $(periods $workers $memory $rate $pipedream) \
                    $(periods $workers $memory $rate $madpipe)
            done
        done
    done
done >"$work/all"
echo "network       GB/s  GB   PipeDream / MadPipe, speed-up with 2 to 8 GPUs"
awk '{ key = sprintf("%-12s %5d %3d  ", $1, $2, $3) }
    key != last { printf "%s%s", last == "" ? "" : "\n", key; last = key }
    { printf " %s/%s", $7 == "-" ? "-" : sprintf("%.2f", $5 / $7), $9 == "-" ? "-" : sprintf("%.2f", $5 / $9) }
    END { print "" }' "$work/all"
awk 'BEGIN { print "title Speed-up over one GPU at 12 GB/s (dashed: PipeDream under 1F1B*; solid: MadPipe)\nx GPUs\ny speed-up\nto 8" }
    $2 == 12 { if ($1 != name) print "panel " (name = $1)
        if ($3 != memory) { if (memory) flush_series(); memory = $3; n = 0 }
        n++; p[n] = $4; a[n] = $7 == "-" ? "-" : $5 / $7; b[n] = $9 == "-" ? "-" : $5 / $9; if ($4 == 8) { flush_series(); memory = 0 } }
    function flush_series(  i) { print "line " memory "_GB"; for (i = 1; i <= n; i++) print p[i], b[i]
        print "line PipeDream,_" memory "_GB dashed " memory "_GB"; for (i = 1; i <= n; i++) print p[i], a[i] }' "$work/all" |
    awk -f bench/papers/plot.awk >"$figure"
