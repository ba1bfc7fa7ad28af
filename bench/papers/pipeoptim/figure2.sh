#!/bin/sh
# PipeOptim's Figure 2: its timeline on four GPUs, forwards with weights that are predicted for the time of the backward. The table
# counts, for the fifth mini-batch (number 4), the updates between its forward and its backward on each GPU: the distance s.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
printf '4 0\n10 20 1000000 0 0\n10 20 1000000 0 0\n10 20 1000000 0 0\n10 20 1000000 0 0\n' >"$work/four.chain"
"$penstock" plan --profile "$work/four.chain" --workers 4 --method uniform --schedule 1f1b-async --weights pipeoptim -M 1 -q -o "$work/plan.json" >/dev/null
"$penstock" program --plan "$work/plan.json" --batches 9 | awk 'BEGIN { print "GPU  updates before the forward of 4, before its backward, s" }
    /^worker [0-9]+:/ { stage = $2 + 0; updates = forward = backward = 0; seen = 0
        for (i = 3; i <= NF; i++) {
            if ($i ~ "^" stage "U") updates++
            if ($i ~ "^" stage "F4@") forward = updates
            if ($i ~ "^" stage "B4@") backward = updates
        }
        printf "%3d %33d %20d %3d\n", stage + 1, forward, backward, backward - forward }'
"$penstock" simulate --plan "$work/plan.json" --profile "$work/four.chain" --batches 9 -q --svg "$figure" >/dev/null
