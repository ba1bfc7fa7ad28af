#!/bin/sh
# MadPipe's Figure 3: a timeline of 1F1B* with three groups. Four stages of 3, 1.5, 1.5 and 3 ms with a period of 3 ms: from the last one
# on, stages join a group as long as their times add up to at most the period, and a stage of group g keeps g micro-batches. Beside
# it what 1F1B keeps.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
printf '4 0\n1 2 1000000 0 0\n0.5 1 1000000 0 0\n0.5 1 1000000 0 0\n1 2 1000000 0 0\n' >"$work/four.chain"
for schedule in 1f1b-star 1f1b-async; do
    "$penstock" plan --profile "$work/four.chain" --workers 4 --method uniform --schedule $schedule --weights stash -M 1 -q -o "$work/$schedule.json" >/dev/null
    "$penstock" simulate --plan "$work/$schedule.json" --profile "$work/four.chain" --batches 40 --json -q >"$work/$schedule.simulation"
    "$penstock" program --plan "$work/$schedule.json" --batches 12 | awk '/^stage / { sub(/.* s/, ""); print $1 + 0 }' >"$work/$schedule.kept"
done
for schedule in 1f1b-star 1f1b-async; do
    printf '%-10s  a mini-batch every %.4g ms\n' $schedule "$(field period_s <"$work/$schedule.simulation" | awk '{ print 1e3 * $1 }')"
done
echo
echo "stage  1F1B* keeps  1F1B keeps"
paste "$work/1f1b-star.kept" "$work/1f1b-async.kept" | awk '{ printf "%5d %12d %11d\n", NR, $1, $2 }'
"$penstock" simulate --plan "$work/1f1b-star.json" --profile "$work/four.chain" --batches 8 -q --svg "$figure" >/dev/null
