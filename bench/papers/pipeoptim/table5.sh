#!/bin/sh
# PipeOptim's Table V: the largest batch on four P100 of 16 GB; then with stage outputs kept, as PipeDream's runtime does; then for
# GNMT with linear layers that take a quarter longer (bench/papers/largest_batch.sh says more). The figure shows the first two beside
# the paper's, each relative to PipeOptim.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
{
    sh bench/papers/largest_batch.sh
    echo
    KEEP=outputs sh bench/papers/largest_batch.sh
    echo
    LINEAR=1.25 sh bench/papers/largest_batch.sh gnmt8 gnmt16
} >"$work/all"
cat "$work/all"
awk '
    /^largest/ { table++ }
    /^MiB/ { rows[table] = row; row = 0 }
    /^network/ { for (m = 1; m < NF; m++) method[m] = $(m + 1); methods = NF - 1 }
    table <= 2 && / \([0-9]/ { # NETWORK HERE (PAPER) HERE (PAPER)...
        network[++row] = $1
        gsub(/[()]/, "")
        for (m = 1; m <= methods; m++) { here[table, row, m] = $(2 * m); paper[row, m] = $(2 * m + 1) } }
    function ratio(ours, base) { return ours == "-" ? "-" : ours / base }
    END {
        print "title Largest batch for each GPU, relative to that of PipeOptim\nx network\ny ratio\ncolumns 1\nsize 900 120"
        for (p = 0; p <= 2; p++) {
            print "panel " (p == 0 ? "paper" : p == 1 ? "Penstock" : "Penstock, outputs of stages kept")
            for (m = 1; m <= methods; m++) {
                print "bars " method[m]
                for (n = 1; n <= rows[1]; n++) print network[n], p ? ratio(here[p, n, m], here[p, n, methods]) : ratio(paper[n, m], paper[n, methods]) } } }' \
    "$work/all" | awk -f bench/papers/plot.awk >"$figure"
