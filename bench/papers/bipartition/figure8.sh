#!/bin/sh
# Bi-Partition's Figure 8: its speed-up over PipeDream's partition with 2 to 7 workers and 100 Mbit/s, under 1F1B (as published) and
# with the schedule left open (1F1B holds too few micro-batches where stashes travel), for three speeds of a worker. `counted`: the
# ratio that the paper's own objective would give, for which stashes and weights travel in no time.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/bipartition.sh
objective() { awk -F'[:,]' '$1 ~ /"objective_s"/ { print 1e3 * $2; exit }' "$work/plan.json"; }
echo "network   speed  workers   PipeDream ms  bi-partition: 1F1B  schedule open   counted"
for speed in 0.002 0.0005 0.0001; do
    for network in lenet5 alexnet vgg16; do
        for workers in 2 3 4 5 6 7; do
            hosts $workers $speed
            layers=$(period_of $network --method pipedream --schedule 1f1b-async --weights stash)
            counted=$(objective)
            same=$(period_of $network --method bipartition --schedule 1f1b-async --weights stash)
            open=$(period_of $network --method bipartition --weights stash)
            period_of $network --method bipartition-paper --weights stash >/dev/null
            echo $network $speed $workers $layers $same $open $counted "$(objective)"
        done
    done
done | tee "$work/all" | awk '{ printf "%-8s %6s %8d %14.1f %19.2f %14.2f %9.2f\n", $1, $2, $3, $4, $4 / $5, $4 / $6, $7 / $8 }'
awk 'BEGIN { print "title Bi-Partition: speed-up over PipeDream, 100 Mbit/s, by speed of a worker\nx workers\ny speed-up\ncolumns 3\nfrom 0.8\nto 2" }
    { key = $1 " " $2; if (!(key in n)) order[++keys] = key; n[key]++; x[key, n[key]] = $3; a[key, n[key]] = $4 / $5; b[key, n[key]] = $4 / $6; c[key, n[key]] = $7 / $8 }
    function series(key, v,  k) { for (k = 1; k <= n[key]; k++) print x[key, k], v[key, k] }
    END { for (i = 1; i <= keys; i++) { split(order[i], part)
        printf "panel %s, %.1f G multiply-adds/s\n", part[1], 4650 * part[2]
        print "line 1F1B"; series(order[i], a); print "line schedule_open"; series(order[i], b); print "line as_the_paper_counts dashed"; series(order[i], c)
        if (part[1] == "lenet5") { print "line the_paper points"; print 5, 1.9 } } }' "$work/all" | awk -f bench/papers/plot.awk >"$figure"
