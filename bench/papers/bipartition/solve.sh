#!/bin/sh
# The time of Bi-Partition's algorithm ("under 28 seconds" in the paper): Penstock's exact one and the published one on the same
# work, with 2 to 7 workers, then on longer chains of random costs.
#   LAYERS ("8 12 16 20 24 28")   lengths of the chains
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/bipartition.sh
solved() { awk -F'[:,]' '$1 ~ /"solve_s"/ { s = $2 } $1 ~ /"objective_s"/ { o = 1e3 * $2 } END { printf "%.3f %.1f ", s, o }' "$work/plan.json"; }
both() { # PROFILE
    period_of "$1" --method bipartition --paper-cost --weights stash >/dev/null
    solved
    period_of "$1" --method bipartition-paper --weights stash >/dev/null
    solved
}
line() { awk '{ printf "%-10s %8d %9.3f s %10.1f ms %9.3f s %10.1f ms\n", $1, $2, $3, $4, $5, $6 }'; }
echo "network    workers   Penstock: time, objective   published: time, objective"
for network in lenet5 alexnet vgg16; do
    for workers in 2 4 7; do
        hosts $workers 0.0005
        echo $network $workers $(both $network) | line
    done
done
hosts 7 1
for layers in ${LAYERS:-8 12 16 20 24 28}; do
    awk -v n="$layers" 'BEGIN { srand(n); print n, 0; for (i = 1; i <= n; i++) { f = 1 + 9 * rand(); print f, f * (1 + 2 * rand()), 1000000, int(100000 * rand()), 0 } }' >"$work/chain$layers.json"
    echo "$layers layers" 7 $(both chain$layers) | awk '{ printf "%-10s %8d %9.3f s %10.1f ms %9.3f s %10.1f ms\n", $1 " " $2, $3, $4, $5, $6, $7 }'
done
