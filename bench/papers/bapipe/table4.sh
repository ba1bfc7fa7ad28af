#!/bin/sh
# The largest GNMT-L that fits on devices of 16 GB (BaPipe's Table IV), by `penstock compare --largest`: every entry is a plan
# whose programs were verified, within the memory of each of its workers. docs/papers/bapipe.md states the assumptions and the
# differences.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh

table() {
    "$penstock" compare --model gnmt-l --largest layers --workers 1,2,4,8 --optimizer adam --grid --quiet "$@" | tail -n +3
    echo
}

echo "BaPipe's Table IV: L, parameters"
echo
tee "$work/paper" <<'END'
workers  data-parallel, PipeDream         GPipe  BaPipe (1F1B-SNO)
      1              32 (445.6 M)  32 (445.6 M)       32 (445.6 M)
      2              32 (445.6 M)  42 (550.6 M)       74 (886.4 M)
      4              32 (445.6 M)  60 (739.5 M)      118 (1.35 B)
      8              32 (445.6 M)  74 (886.4 M)      158 (1.78 B)

END
for memory in 9GiB 16GB; do
    echo "here, $memory of each device left to the network; a mini-batch of 32 samples a device in micro-batches of 16"
    echo
    table --memory $memory --methods data-parallel,uniform,bapipe --schedules gpipe,1f1b --replicate --micro-batch 16 \
        --batch-per-worker 32 | tee "$work/flush-$memory"
done
echo "likewise, 9GiB, with recomputation"
echo
table --memory 9GiB --methods uniform,bapipe --schedules gpipe,1f1b --micro-batch 16 --batch-per-worker 32 --recompute
echo "without a flush, 9GiB, mini-batches of 32 samples: PipeDream's versions of the weights, and predicted weights"
echo
table --memory 9GiB --methods uniform,pipedream --schedules 1f1b-async --weights stash,pipeoptim --micro-batch 32 --micro-batches 1 |
    tee "$work/async"
[ -n "${figure:-}" ] || exit 0
awk 'BEGIN {
        print "title The largest GNMT-L on devices of 16 GB"; print "x devices"; print "y layers"; print "size 700 260"
        series("data-parallel, PipeDream", "PipeDream,_paper", "dashed"); series("GPipe", "GPipe,_paper", "dashed")
        series("BaPipe (1F1B-SNO)", "BaPipe,_paper", "dashed")
        series("uniform 1f1b-async stash", "PipeDream,_equal_stages", "solid PipeDream,_paper")
        series("uniform gpipe sync", "GPipe,_equal_stages", "solid GPipe,_paper")
        series("uniform 1f1b sync", "BaPipe,_equal_stages", "solid BaPipe,_paper"); series("bapipe 1f1b sync", "BaPipe,_its_cuts", "") }
    function series(column, name, style) { title[++count] = column; line[count] = "line " name " " style }
    { sub(/^ +/, ""); n = split($0, cell, /  +/) }
    /^workers/ { for (c = 1; c <= n; c++) column[c] = cell[c] }
    /^[0-9]/ { for (c = 2; c <= n; c++) points[column[c]] = points[column[c]] cell[1] " " (cell[c] + 0) "\n" }
    END { for (i = 1; i <= count; i++) printf "%s\n%s", line[i], points[title[i]] }' \
    "$work/paper" "$work/flush-9GiB" "$work/async" | awk -f bench/papers/plot.awk >"$figure"
