#!/bin/sh
# ResNet-50 on four FPGA boards (BaPipe's Tables V and VI): BaPipe's plan compared with data parallelism, mini-batch 128, half
# precision. Times come from a model (src/profile/fpga.c describes it; the clock rate of 200 MHz is assumed). Links have
# 100 Gbit/s. Data parallelism is simulated with a ring all-reduce over the same links; its weights do not fit on chip. On unlike
# boards it gives every board the same number of samples, or 36 to the large ones and 28 to the small ones, about in proportion to
# their speed: the time is then that of the slower kind with its number, on four boards of that kind.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
small=vcu118 large=vcu129
for board in $small $large; do
    $penstock profile --model resnet50 --device fpga:$board --micro-batch 1,2,4,8,16 -q -o "$work/$board.json" >/dev/null
done
profiles=$work/$small.json,$work/$large.json
layers=$(($(grep -c '"kind"' "$work/$small.json") / 5))

cluster() { # BOARD BOARD BOARD BOARD
    printf '{"format": "penstock-cluster", "version": 1, "streaming": true, "devices": ['
    separator= number=0
    for board; do
        printf '%s{"name": "board%d", "type": "fpga:%s"}' "$separator" $number "$board"
        separator=', ' number=$((number + 1))
    done
    printf '], "links": [{"from": "*", "to": "*", "bandwidth_bytes_per_s": 1.25e10, "latency_s": 1e-6}]}\n'
}
parallel() { # SAMPLES SIZE BOARD...: the time of a mini-batch in micro-batches of SIZE, for which weights are read once
    samples=$1 size=$2
    shift 2
    cluster "$@" >"$work/parallel-cluster.json"
    cat >"$work/parallel.json" <<PLAN
{"format": "penstock-plan", "version": 1, "model": "resnet50", "workers": 4, "micro_batch": $size,
 "micro_batches": $((samples / size)),
 "stages": [{"layers": [1, $layers], "forward": [0, 1, 2, 3], "backward": [0, 1, 2, 3], "recompute": false}],
 "schedule": "gpipe", "weights": "sync"}
PLAN
    $penstock simulate --plan "$work/parallel.json" --profile "$profiles" --cluster "$work/parallel-cluster.json" --batches 3 \
        --json -q | field period_s
}
pipeline() { # [OPTION...]: the time of a mini-batch, the schedule, the micro-batch
    $penstock plan --profile "$profiles" --cluster "$work/cluster.json" --method bapipe --schedule auto --weights sync --batch 128 \
        "$@" --json -q | awk -F'[:,]' '{ gsub(/[ "]/, "") }
        $1 == "schedule" { schedule = $2 } $1 == "period_s" { period = $2 } $1 == "micro_batch" { size = $2 }
        END { print period, schedule, size }'
}
line() { # NAME PAPER "PERIOD SCHEDULE SIZE" PARALLEL...: in micro-batches of 1, 2, 4 samples
    echo "$3 $4 $5 $6" | awk -v name="$1" -v paper="$2" '{
        printf "%-22s %8.1f ms  %-7s %2d  ", name, 1e3 * $1, $2, $3
        for (i = 4; i <= 6; i++) printf "  %6.1f ms %5.2fx", 1e3 * $i, $i / $1
        print "  " paper }'
}
slower() { sort -g | tail -n 1; }
boards() { # NAME PAPER BOARD...
    name=$1 paper=$2
    shift 2
    cluster "$@" >"$work/cluster.json"
    for option in "--micro-batch 1" ""; do
        line "$name" "$paper" "$(pipeline $option)" "$(parallel 128 1 "$@")" "$(parallel 128 2 "$@")" "$(parallel 128 4 "$@")"
    done
}

echo "                         BaPipe's plan: mini-batch,  data parallelism that reads its weights for"
echo "boards                   schedule, micro-batch       1 sample          2 samples         4 samples         paper"
{
    boards "4 VCU118" 1.00x $small $small $small $small
    boards "2 VCU129, 2 VCU118" 1.05x $large $large $small $small
    for option in "--micro-batch 1" ""; do
        line "  in shares of 36, 28" 1.05x "$(cluster $large $large $small $small >"$work/cluster.json"; pipeline $option)" \
            $(for size in 1 2 4; do
                { parallel 112 $size $small $small $small $small; parallel 144 $size $large $large $large $large; } | slower
            done)
    done
    boards "4 VCU129" 1.14x $large $large $large $large
} | tee "$work/boards"
echo
echo "4 VCU118, the least time of a mini-batch by schedule and micro-batch"
cluster $small $small $small $small >"$work/cluster.json"
echo
echo "micro-batch      1f1b-as       fbp-as"
for size in 1 2 4 8 16; do
    for schedule in 1f1b-as fbp-as; do
        $penstock plan --profile "$profiles" --cluster "$work/cluster.json" --method bapipe --schedule $schedule --weights sync \
            --batch 128 --micro-batch $size --json -q | field period_s
    done | awk -v size=$size '{ t[NR] = 1e3 * $1 } END { printf "%11d  %8.1f ms  %8.1f ms\n", size, t[1], t[2] }'
done
[ -n "${figure:-}" ] || exit 0
# The rows of the paper's micro-batch of 1.
awk 'BEGIN { print "title Speed-up over data parallelism that reads its weights for 1, 2 or 4 samples"; print "size 600 200"
        split("4xVCU118 2+2,equal-shares 2+2,by-speed 4xVCU129", name) }
    / fbp-as +1 / { rows++; paper[rows] = $NF + 0
        for (i = NF - 1; i >= NF - 7; i -= 3) ratio[rows, 3 - (NF - 1 - i) / 3] = $i + 0 }
    END { print "bars the_paper"; for (r = 1; r <= rows; r++) print name[r], paper[r]
        for (c = 1; c <= 3; c++) {
            print "bars " 2 ^ (c - 1) (c == 1 ? "_sample" : "_samples")
            for (r = 1; r <= rows; r++) print name[r], ratio[r, c] } }' "$work/boards" | awk -f bench/papers/plot.awk >"$figure"
