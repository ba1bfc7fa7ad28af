#!/bin/sh
# MadPipe's Figure 6: periods of ResNet-50 for 2 to 8 GPUs, 3 to 16 GB, 12 and 24 GB/s, by PipeDream's partition under 1F1B*, by
# MadPipe as published (its grid) and by Penstock's exact search of the same class. Dashed in the figure: what the partition
# promises before it is scheduled.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/madpipe.sh
network=resnet50
echo "ms for 8 images: promised, simulated"
echo
echo "GB/s  GPUs  GB       PipeDream       MadPipe, grid    MadPipe, exact"
for rate in 12 24; do
    for workers in 2 3 4 5 6 7 8; do
        for memory in 3 4 5 6 7 8 9 10 12 14 16; do
            echo $rate $workers $memory $(periods $workers $memory $rate $pipedream) $(periods $workers $memory $rate $grid) \
                $(periods $workers $memory $rate $madpipe)
        done
    done
done | tee "$work/all" | awk '{ printf "%4d %5d %3d  %7s %7s  %7s %7s   %7s %7s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
awk 'BEGIN { print "title ResNet-50, images of 1000 x 1000, batch 8: periods (dashed: promised by the partition)\nx memory of a GPU, GB\ny ms\ncolumns 4\nto 320" }
    !(($1, $2) in seen) { seen[$1, $2] = ++cases; rate[cases] = $1; gpus[cases] = $2 }
    { c = seen[$1, $2]; n[c]++; for (i = 3; i <= 9; i++) v[c, n[c], i] = $i }
    function series(c, i,  k) { for (k = 1; k <= n[c]; k++) print v[c, k, 3], v[c, k, i] }
    END { for (c = 1; c <= cases; c++) if (gpus[c] % 2 == 0) {
        printf "panel %d GPUs, %d GB/s\n", gpus[c], rate[c]
        print "line PipeDream,_1F1B*"; series(c, 5); print "line promised dashed PipeDream,_1F1B*"; series(c, 4)
        print "line MadPipe,_published_grid"; series(c, 7); print "line its_promise dashed MadPipe,_published_grid"; series(c, 6)
        print "line MadPipe,_exact"; series(c, 9) } }' "$work/all" | awk -f bench/papers/plot.awk >"$figure"
