#!/bin/sh
# PipeOptim's Table IV, best accuracies by method, beside those of the nearest small network trained here with mini-batches of one
# and of four micro-batches (bench/results/learning.txt, which bench/learning/all.sh makes in ten hours). The figure shows each in
# % of GPipe's.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/pipeoptim.sh
echo "$accuracies" >"$work/paper"
awk -v plot="$work/plot" '
    BEGIN { split("sync stash 2bw spectrain xpipe pipeoptim", policy); split("GPipe PipeDream 2BW SpecTrain XPipe PipeOptim", method)
        printf "%-33s %-6s", "network, data", "rule"
        for (m = 1; m <= 6; m++) printf " %9s", method[m]
        print "" }
    FILENAME ~ /learning.txt$/ { gsub(/\([^)]*\) [0-9]+/, "") }
    $1 == "task" { four = $2 ~ /\/4$/; for (i = 2; i <= NF; i++) { sub(/\/4$/, "", $i); column[i] = $i } columns = NF; next }
    /^mean difference/ { columns = 0 }
    FILENAME ~ /learning.txt$/ && columns && NF == columns + 2 {
        for (i = 2; i <= columns; i++) here[$1, $2, four, column[i]] = $(i + 2)
        next }
    function row(name, rule, values,  m) {
        printf "%-33s %-6s", name, rule
        for (m = 1; m <= 6; m++) printf " %9s", values[m]
        print "" }
    function series(name, values,  m) {
        print "line " name " points" >plot
        for (m = 2; m <= 6; m++) print method[m], (values[m] ~ /[0-9]/ ? 100 * values[m] / values[1] : "-") >plot }
    function take(task, rule, four, values,  m) {
        for (m = 1; m <= 6; m++) values[m] = (task, rule, four, policy[m]) in here ? here[task, rule, four, policy[m]] : "-" }
    FILENAME ~ /paper$/ {
        split($0, f, "|")
        for (m = 1; m <= 6; m++) said[m] = f[m + 3]
        if (!panels++) print "title Best accuracy in % of that of GPipe\ny %\ncolumns 3\nsize 300 130\nfrom 60\nto 110" >plot
        print "panel " f[1] ", " f[3] >plot
        row("paper: " f[1], f[3], said); series("the_paper", said)
        take(f[2], f[3], 0, one); row("  " f[2] ", one", f[3], one); series("one_micro-batch", one)
        take(f[2], f[3], 1, more); row("  " f[2] ", four", f[3], more); series("four_micro-batches", more) }' \
    bench/results/learning.txt "$work/paper"
[ -z "${figure:-}" ] || awk -f bench/papers/plot.awk "$work/plot" >"$figure"
