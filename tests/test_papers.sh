#!/bin/sh
# Bi-Partition's worked example (Figures 5 and 6): 12 ms by layers, 9 by bi-partition, and the timeline of docs/papers to the byte.
# Likewise BaPipe's four schedules, simulated as its Tables I and II say, and the groups of MadPipe's Figure 3. And what
# bench/papers/plot.awk and chain.awk make of a few lines.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

figure=$work/figure.svg sh bench/papers/bipartition/figure6.sh >"$work/out"
grep -A 1 '^pipedream' "$work/out" | grep -q 'every 12 ms' || fail "not 12 ms by layers"
grep -A 1 '^bipartition' "$work/out" | grep -q 'every 9 ms' || fail "not 9 ms by bi-partition"
cmp "$work/figure.svg" docs/papers/bipartition_figure6.svg || fail "another timeline than docs/papers/bipartition_figure6.svg"

figure=$work/figure.svg sh bench/papers/bapipe/figure5.sh >"$work/out"
[ "$(awk 'NR > 1 && $2 == $3 && $4 == $5' "$work/out" | wc -l)" -eq 4 ] || fail "not what BaPipe's Tables I and II say: $(cat "$work/out")"
cmp "$work/figure.svg" docs/papers/bapipe_figure5.svg || fail "other timelines than docs/papers/bapipe_figure5.svg"

figure=$work/figure.svg sh bench/papers/madpipe/figure3.sh >"$work/out"
[ "$(awk '$1 ~ /^[1-4]$/ { printf "%s ", $2 }' "$work/out")" = "3 2 2 1 " ] || fail "1F1B* does not keep 3, 2, 2 and 1"
cmp "$work/figure.svg" docs/papers/madpipe_figure3.svg || fail "another timeline than docs/papers/madpipe_figure3.svg"

printf 'title T\nx X\ny Y\npanel one\nline a_b\n1 2\n2 -\n3 4\nline c dashed a_b\n1 1\n3 2\npanel two\nbars d\nu 1\nv 3\n' |
    awk -f bench/papers/plot.awk >"$work/plot.svg"
grep -q '>a b</text>' "$work/plot.svg" || fail "no legend"
[ "$(grep -c 'stroke-dasharray' "$work/plot.svg")" = 2 ] || fail "not two dashed lines, of the legend and of the figure"
[ "$(grep -c '<path class="s".*M.*M' "$work/plot.svg")" = 1 ] || fail "a line is not broken where a point is missing"

printf 'apart\npanel one\nfrom 10\nline a\n1 11\n2 20\npanel two\nline a\n1 11\n2 20\n' | awk -f bench/papers/plot.awk >"$work/plot.svg"
[ "$(grep -c '>0</text>' "$work/plot.svg")" = 1 ] || fail "both panels begin at 0, or neither does"
! grep -q '>1.2</text>' "$work/plot.svg" || fail "whole numbers of x have fractions between them"

"$PENSTOCK" profile --model resnet50 --device gpu:v100 --micro-batch 1 -q -o "$work/resnet50.json" >/dev/null
awk -f bench/papers/chain.awk "$work/resnet50.json" >"$work/resnet50.chain"
[ "$(head -n 1 "$work/resnet50.chain")" = "20 0" ] || fail "ResNet-50 is not a chain of 16 blocks and four more layers"
"$PENSTOCK" plan --profile "$work/resnet50.chain" --workers 4 --method uniform -q -o "$work/plan.json" >/dev/null
