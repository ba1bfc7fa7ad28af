#!/bin/sh
# BaPipe's Table III: epoch times of data parallelism (DP), PipeDream, GPipe and BaPipe on 4 and 8 V100 of 16 GB, as speed-ups
# over data parallelism with B = 64. Layers' times come from a model (src/profile/gpu.c). One number is fitted: the bandwidth of
# every link, 1.4 GB/s, from the paper's 0.62 of data parallelism with B = 32 on four devices (docs/papers/bapipe.md). B is a
# device's batch: of a pipeline the micro-batch, of data parallelism a device's share of the mini-batch.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
paper=bench/papers/bapipe/table3.txt

throughput() { # METHOD SCHEDULE WEIGHTS B M: samples a second, the schedule and the batch; 0 if nothing fits
    replicate= bandwidth=$neighbours
    case $1 in data-parallel | pipedream) replicate=--replicate ;; esac
    [ "$1" != data-parallel ] || bandwidth=$sums
    "$penstock" plan --profile "$work/$network.json" --workers "$devices" --bandwidth "$bandwidth" --memory 16GB --method "$1" \
        $replicate --schedule "$2" --weights "$3" --micro-batch "$4" --micro-batches "$5" --optimizer sgdm --json -q \
        >"$work/plan.json" 2>/dev/null || { echo "0 - $4"; return; }
    awk -F'[:,]' -v batch="$4" '{ gsub(/[ "]/, "") }
        $1 == "schedule" { schedule = $2 } $1 == "throughput_samples_per_s" { rate = $2 }
        END { print rate + 0, schedule, batch }' "$work/plan.json"
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
            parallel32=$(throughput data-parallel 1f1b sync 32 "$devices")
            parallel64=$(throughput data-parallel 1f1b sync 64 "$devices")
            one=${parallel64%% *}
            row "DP" "$parallel32" "$(said DP32)"
            row "DP" "$parallel64" "$(said DP64)"
            row "PipeDream" "$(throughput pipedream 1f1b-async stash 32 1)" "$(said PipeDream32)"
            row "PipeDream" "$(throughput pipedream 1f1b-async stash 64 1)" "$(said PipeDream64)"
            row "GPipe, M=8" "$(for b in 32 64; do throughput bapipe gpipe sync $b 8; done | best)" "$(said GPipe)"
            pipeline=$(for b in 32 64; do throughput bapipe auto sync $b $((8 * devices)); done | best)
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
table 1.4GB/s 1.4GB/s 1.4GB/s
echo "data parallelism sums at 1.4 GB/s on four devices and at 0.57 GB/s on eight, which is the paper's 0.55; neighbours have 12 GB/s"
echo
table 1.4GB/s 0.57GB/s 12GB/s
