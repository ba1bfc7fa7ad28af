#!/bin/sh
# ResNet-50 on four FPGA boards (BaPipe's Table VI): data parallelism compared with a pipeline, mini-batch 128, micro-batch 1,
# half precision. Times come from a model (src/profile/fpga.c describes it; the clock rate of 200 MHz is assumed). Cut and
# schedule are simulated: fbp-as over links of 100 Gbit/s, and data parallelism with a ring all-reduce over the same links,
# whose weights do not fit on chip. In the mixed cluster data parallelism gives every board the same number of samples.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
small=vcu118 large=vcu129
for board in $small $large; do
    $penstock profile --model resnet50 --device fpga:$board --micro-batch 1 -q -o "$work/$board.json" >/dev/null
done

cluster() { # BOARD BOARD BOARD BOARD
    printf '{"format": "penstock-cluster", "version": 1, "streaming": true, "devices": ['
    separator= number=0
    for board; do
        printf '%s{"name": "board%d", "type": "fpga:%s"}' "$separator" $number "$board"
        separator=', ' number=$((number + 1))
    done
    printf '], "links": [{"from": "*", "to": "*", "bandwidth_bytes_per_s": 1.25e10, "latency_s": 1e-6}]}\n'
}
layers=$(grep -c '"kind"' "$work/$small.json")
cat >"$work/parallel.json" <<PLAN
{"format": "penstock-plan", "version": 1, "model": "resnet50", "workers": 4, "micro_batch": 1, "micro_batches": 128,
 "stages": [{"layers": [1, $layers], "forward": [0, 1, 2, 3], "backward": [0, 1, 2, 3], "recompute": false}],
 "schedule": "gpipe", "weights": "sync"}
PLAN

echo "boards             data parallel  pipeline (fbp-as)  speed-up  BaPipe's"
compare() { # NAME PAPER BOARD...
    name=$1 paper=$2
    shift 2
    cluster "$@" >"$work/cluster.json"
    profiles=$work/$small.json,$work/$large.json
    parallel=$($penstock simulate --plan "$work/parallel.json" --profile "$profiles" --cluster "$work/cluster.json" --batches 3 \
        --json -q | field period_s)
    pipeline=$($penstock plan --profile "$profiles" --cluster "$work/cluster.json" --method pipedream --schedule fbp-as \
        --micro-batches 128 --json -q | field period_s)
    awk -v name="$name" -v paper="$paper" -v a="$parallel" -v b="$pipeline" \
        'BEGIN { printf "%-18s %10.1f ms  %14.1f ms  %7.2fx  %7.2fx\n", name, 1e3 * a, 1e3 * b, a / b, paper }'
}
compare "4 VCU118" 1.00 $small $small $small $small
compare "2 VCU129, 2 VCU118" 1.05 $large $large $small $small
compare "4 VCU129" 1.14 $large $large $large $large
