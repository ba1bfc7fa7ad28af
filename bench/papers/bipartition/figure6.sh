#!/bin/sh
# Bi-Partition's Figures 5 and 6: its worked example of four layers on three workers, cut by layers (period 12) and by bi-partition
# (9, without idle time), as a timeline of 1F1B. The times are read as milliseconds.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
printf '4 0\n1 2 0 0 0\n3 6 0 0 0\n2 4 0 0 0\n3 6 0 0 0\n' >"$work/example.chain"
for method in pipedream bipartition; do
    "$penstock" plan --profile "$work/example.chain" --workers 3 --method $method --schedule 1f1b-async --weights stash -M 1 -q -o "$work/$method.json" >/dev/null
    echo "$method"
    "$penstock" simulate --plan "$work/$method.json" --profile "$work/example.chain" --batches 12 --json -q |
        awk -F'[:,]' '$1 ~ /"period_s"/ { printf "a mini-batch every %g ms\n\n", 1e3 * $2; exit }'
done
"$penstock" simulate --plan "$work/bipartition.json" --profile "$work/example.chain" --batches 6 -q --svg "$figure" >/dev/null
