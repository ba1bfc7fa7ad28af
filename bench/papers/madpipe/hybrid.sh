#!/bin/sh
# The hybrid that MadPipe's conclusion asks for: pipelines whose stages may have replicas, beside those without. PipeDream's weight
# versions (2BW does not run replicas), memory as programs take it, 12 GB/s, ms for 8 images.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/madpipe.sh
batches=1
echo "network       GB  GPUs     madpipe        auto  auto --replicate   madpipe / hybrid"
for network in resnet50 resnet101 inception_v3 densenet121; do
    for memory in 6 8 12 16; do
        for workers in 2 4 6 8; do
            echo $network $memory $workers $(periods $workers $memory 12 --method madpipe --weights stash) \
                $(periods $workers $memory 12 --method auto --weights stash) \
                $(periods $workers $memory 12 --method auto --replicate --weights stash)
        done
    done
done | tee "$work/all" | awk '{ printf "%-12s %3d %5d %11s %11s %17s %18s\n", $1, $2, $3, $5, $7, $9, $5 != "-" && $9 != "-" ? sprintf("%.2f", $5 / $9) : "-" }'
awk 'BEGIN { print "title Periods with replicas beside those without, 12 GB/s\nx GPUs\ny ms\ncolumns 4" }
    $2 == 8 || $2 == 16 { key = $1 " " $2; if (!(key in n)) order[++keys] = key; n[key]++; k = n[key]; x[key, k] = $3; a[key, k] = $5; b[key, k] = $7; c[key, k] = $9 }
    function series(key, v,  k) { for (k = 1; k <= n[key]; k++) print x[key, k], v[key, k] }
    END { for (m = 8; m <= 16; m += 8) for (i = 1; i <= keys; i++) { split(order[i], part); if (part[2] != m) continue
        print "panel " part[1] ", " m " GB"; print "line MadPipe"; series(order[i], a); print "line all_methods"; series(order[i], b)
        print "line all_methods,_with_replicas"; series(order[i], c) } }' "$work/all" | awk -f bench/papers/plot.awk >"$figure"
