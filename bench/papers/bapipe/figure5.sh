#!/bin/sh
# BaPipe's Figures 5 and 6: one mini-batch of 8 micro-batches on 3 accelerators under its four schedules, as timelines. F = B = 2 ms, and
# a transfer takes SR = 1 ms. Beside them what Tables I and II say: the time of the mini-batch, and how many micro-batches' features
# each accelerator keeps.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
printf '3 0\n2 2 0 1000000 1000000\n2 2 0 1000000 1000000\n2 2 0 0 0\n' >"$work/three.chain"
echo "schedule   Tables I, II: ms  simulated  features: a times  simulated"
while read -r paper schedule transfers times; do
    plan=$work/$schedule.json
    "$penstock" plan --profile "$work/three.chain" --workers 3 --bandwidth 1GB/s --method uniform --schedule "$schedule" --weights sync -M 8 -q -o "$plan" >/dev/null
    "$penstock" simulate --plan "$plan" --profile "$work/three.chain" --bandwidth 1GB/s --batches 1 --json -q --svg "$work/$schedule.svg" >"$work/simulation.json"
    "$penstock" program --plan "$plan" --batches 1 | awk -v paper="$paper" -v transfers="$transfers" -v times="$times" \
        -v ms="$(field makespan_s <"$work/simulation.json")" '
        BEGIN { N = 3; M = 8; F = B = 2; SR = 1; ceiling = int((M - 1 + N - 1) / N); expected["none"] = 0
            expected["SNO"] = N + M - 2 - ceiling; expected["SO"] = N - 1 }
        /^stage / { sub(/.* s/, ""); comma = i++ ? "," : ""; kept = kept comma $1 + 0; features = features comma times * (N - i + 1) }
        END { printf "%-9s %18d %10.4g %18s %10s\n", paper, (M + N - 1) * (F + B) + expected[transfers] * 2 * SR, 1e3 * ms, features, kept }'
done <<'END'
1F1B-AS 1f1b-as none 1
FBP-AS fbp-as none 2
1F1B-SNO 1f1b SNO 1
1F1B-SO 1f1b-so SO 2
END
# One below the other.
for schedule in 1f1b-as fbp-as 1f1b 1f1b-so; do cat "$work/$schedule.svg"; done | awk '
    /^<svg / {
        match($0, /width="[0-9]+/); w = substr($0, RSTART + 7, RLENGTH - 7) + 0
        match($0, /height="[0-9]+/); h = substr($0, RSTART + 8, RLENGTH - 8) + 0
        sub(/<svg /, "<svg y=\"" top "\" "); top += h; if (w > width) width = w
    }
    { line[++count] = $0 }
    END {
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", width, top, width, top
        for (i = 1; i <= count; i++) print line[i]
        print "</svg>"
    }' >"$figure"
