#!/bin/sh
# BaPipe's Table III: epoch times of data parallelism (DP), PipeDream, GPipe and BaPipe on 4 and 8 V100 of 16 GB, as speed-ups
# over data parallelism with B = 64. Layers' times come from a model (src/profile/gpu.c). One number is fitted: the bandwidth of
# every link, 1.4 GB/s, from the paper's 0.62 of data parallelism with B = 32 on four devices (docs/papers/bapipe.md). B is a
# device's batch: of a pipeline the micro-batch, of data parallelism a device's share of the mini-batch.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
paper=bench/papers/bapipe/table3.txt

throughput() { # METHOD SCHEDULE WEIGHTS BANDWIDTH OPTION...: samples a second, the schedule and the micro-batch; 0 if nothing fits
    replicate=
    case $1 in data-parallel | pipedream) replicate=--replicate ;; esac
    method=$1 schedule=$2 weights=$3 bandwidth=$4
    shift 4
    "$penstock" plan --profile "$work/$network.json" --workers "$devices" --bandwidth "$bandwidth" --memory 16GB \
        --method "$method" $replicate --schedule "$schedule" --weights "$weights" --optimizer sgdm "$@" --json -q \
        >"$work/plan.json" 2>/dev/null || { echo "0 - 0"; return; }
    awk -F'[:,]' '{ gsub(/[ "]/, "") }
        $1 == "schedule" { schedule = $2 } $1 == "throughput_samples_per_s" { rate = $2 } $1 == "micro_batch" { size = $2 }
        END { print rate + 0, schedule, size }' "$work/plan.json"
}
parallel() { throughput data-parallel 1f1b sync "$sums" --batch $(($1 * devices)); } # B
pipeline() { # METHOD SCHEDULE WEIGHTS B M
    throughput "$1" "$2" "$3" "$neighbours" --micro-batch "$4" --micro-batches "$5"
}
best() { sort -g | tail -n 1; }
row() { # NAME "THROUGHPUT SCHEDULE B" PAPER
    echo "$2" | awk -v network="$network" -v devices="$devices" -v name="$1" -v one="$one" -v paper="$3" '{
        printf "%-9s %7d  %-16s %-10s %3d %8s   %s\n", network, devices, name, $2, $3, ($1 > 0 ? sprintf("%.2f", $1 / one) : "-"), paper }'
}
said() { awk -v network="$network" -v devices="$devices" -v name="$1" '$1 == network && $2 == devices && $3 == name { print $4 }' "$paper"; }

table() { # the bandwidth of a sum over 4 devices, over 8, and between neighbours
    neighbours=$3
    echo "network   devices  method           schedule     B  speed-up  paper"
    for network in vgg16 resnet50 gnmt8; do
        for devices in 4 8; do
            sums=$([ $devices -eq 4 ] && echo "$1" || echo "$2")
            parallel32=$(parallel 32)
            parallel64=$(parallel 64)
            one=${parallel64%% *}
            row "DP" "$parallel32" "$(said DP32)"
            row "DP" "$parallel64" "$(said DP64)"
            row "PipeDream" "$(pipeline pipedream 1f1b-async stash 32 1)" "$(said PipeDream32)"
            row "PipeDream" "$(pipeline pipedream 1f1b-async stash 64 1)" "$(said PipeDream64)"
            row "GPipe, M=8" "$(for b in 32 64; do pipeline bapipe gpipe sync $b 8; done | best)" "$(said GPipe)"
            pipeline=$(for b in 32 64; do pipeline bapipe auto sync $b $((8 * devices)); done | best)
            row "BaPipe, M=$((8 * devices))" "$pipeline" "$(said BaPipe)"
            echo "$pipeline $parallel64" | awk '{ print "          BaPipe'"'"'s answer: " ($1 > $4 ? "the pipeline, " $2 : "data parallelism") }'
        done
        echo
    done
}

for network in vgg16 resnet50 gnmt8; do
    case $network in vgg16) model=vgg16,input=224,classes=1000 ;; *) model=$network ;; esac
    "$penstock" profile --model "$model" --device gpu:v100 --micro-batch 32,64 -q -o "$work/$network.json" >/dev/null
done
echo "all links have 1.4 GB/s"
echo
table 1.4GB/s 1.4GB/s 1.4GB/s | tee "$work/links"
echo "data parallelism sums at 1.4 GB/s on four devices and at 0.57 GB/s on eight, which is the paper's 0.55; neighbours have 12 GB/s"
echo
table 1.4GB/s 0.57GB/s 12GB/s | tee "$work/others"
[ -n "${figure:-}" ] || exit 0
awk 'BEGIN {
        print "title Speed-up over data parallelism with 64 samples a device"; print "y speed-up"; print "columns 2"; print "size 450 130"; print "apart"
        split("VGG-16 ResNet-50 GNMT-8", title); split("vgg16 resnet50 gnmt8", network) }
    $2 == 4 || $2 == 8 {
        method = substr($0, 20, 9); gsub(/[ ,].*/, "", method)
        x = method (method ~ /^(DP|PipeDream)$/ ? "," (substr($0, 48, 3) + 0) : "")
        key = $1 " " $2
        if (FILENAME ~ /links$/) { if (!((key, x) in here)) order[key, ++count[key]] = x; paper[key, x] = substr($0, 63); here[key, x] = substr($0, 52, 8) }
        else other[key, x] = substr($0, 52, 8) }
    function series(key, name, values,  i) {
        print "bars " name
        for (i = 1; i <= count[key]; i++) print order[key, i], (values[key, order[key, i]] ~ /[0-9]/ ? values[key, order[key, i]] + 0 : 0) }
    END { for (n = 1; n <= 3; n++) for (d = 4; d <= 8; d += 4) {
        key = network[n] " " d
        print "panel " title[n] ", " d " devices"
        series(key, "the_paper", paper); series(key, "Penstock", here); series(key, "Penstock,_other_links", other) } }' \
    "$work/links" "$work/others" | awk -f bench/papers/plot.awk >"$figure"
