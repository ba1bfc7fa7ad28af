#!/bin/sh
# PipeOptim's Figures 9 and 10 and Table VI in short. Accuracy by epoch: a residual network of 8 layers at 32 pixels on 20 classes of
# Tiny-ImageNet (2,000 images), trained by SGDM as in the paper with the rate divided by 10 for the last third of the epochs; time
# of an epoch: ResNet-101 and Inception-V3 at full size on four P100 by model, at the paper's batches, for the paper's 100,000 images.
#   EPOCHS (6)   RATE (0.03)   TARGET (0.2)   SEEDS ("0")   KEPT=DIR keeps the trainings and goes on from there
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/pipeoptim.sh
needs_data
data=$PENSTOCK_DATA kept=${KEPT:-$work/kept} epochs=${EPOCHS:-6} target=${TARGET:-0.2}
mkdir -p "$kept"
"$penstock" profile --model resnet,input=32,classes=20 --device gpu:p100 --micro-batch 5,20 -q -o "$work/small.json" >/dev/null
for seed in ${SEEDS:-0}; do
    echo "$methods" | while read -r method schedule weights micro_batches; do
        [ "$weights" = 2bw ] || micro_batches=1
        run=$kept/$method-$epochs-$seed
        [ -s "$run" ] || {
            "$penstock" train --profile "$work/small.json" --model resnet,input=32,classes=20 --method uniform --workers 4 --schedule "$schedule" \
                --weights "$weights" --batch 20 --micro-batches $micro_batches --recompute --optimizer sgdm --weight-decay 5e-4 --lr "${RATE:-0.03}" \
                --lr-schedule step:$((2 * epochs / 3)):0.1 --data "images:$data/tiny_imagenet/,pad=4,flip=1" --valid "images:$data/tiny_imagenet" \
                --epochs $epochs --threads 1 --seed $seed --out "$work/$method-$seed" -q >/dev/null
            cp "$work/$method-$seed/log.jsonl" "$run"
        }
        for network in resnet101 inception_v3; do
            batch=$(echo "$networks" | awk -v n=$network -v c="$(echo "$methods" | awk -v m="$method" '$1 == m { print NR }')" '$1 == n { split($4, b, "/"); print b[c] }')
            rate=$(speed $network $network,input=224,classes=200 sgdm "$batch" "$schedule" "$weights" "$(echo "$methods" | awk -v m="$method" '$1 == m { print $4 }')")
            grep '"valid_accuracy"' "$run" | awk -v method="$method" -v network=$network -v hours="$(echo "$rate" | awk '{ print 1e5 / $1 / 3600 }')" '
                function value(key) { return match($0, "\"" key "\": *[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : "-" }
                { epoch++; print network, method, epoch, value("valid_accuracy"), value("valid_top5"), epoch * hours }'
        done
    done
done >"$work/all"
for network in resnet101 inception_v3; do
    grep "^$network " "$work/all" | cut -d ' ' -f 2- >"$work/$network.all"
    echo "epochs of the small network, with the time of $network"
    awk -v target="$target" '{ key = $1 " " $2; if (!($1 in seen)) { seen[$1] = 1; order[++count] = $1 } n[key]++; a[key] += $3; b[key] += $4; t[key] = $5; if ($2 > last) last = $2 }
        END {
            printf "method      max. top-1   max. top-5   1-epoch time   epochs, time to %.0f%% top-1\n", 100 * target
            for (m = 1; m <= count; m++) { one = five = 0; reached = 0
                for (e = 1; e <= last; e++) { key = order[m] " " e; x = a[key] / n[key]; y = b[key] / n[key]; if (x > one) one = x; if (y > five) five = y; if (!reached && x >= target) reached = e }
                printf "%-10s %10.2f%% %11.2f%% %12.1f s   %s\n", order[m], 100 * one, 100 * five, 3600 * t[order[m] " 1"], reached ? sprintf("%d, %.2f h", reached, t[order[m] " " reached]) : "-" }
            print "" }' "$work/$network.all"
done
awk 'BEGIN { print "title Six methods: accuracy by epoch and time (epochs of a small network, their time of the named one)\nx epochs\napart\ncolumns 2\nsize 260 180" }
    { key = $2 " " $3; if (!($2 in seen)) { seen[$2] = 1; order[++count] = $2 } if ($1 == "resnet101") { n[key]++; a[key] += $4; b[key] += $5 } t[$1, key] = $6; if ($3 > last) last = $3 }
    function series(m, kind, network,  e, key) { print "line " order[m]; for (e = 1; e <= last; e++) { key = order[m] " " e; if (n[key]) print network ? t[network, key] : e, (kind == 2 ? b[key] : a[key]) / n[key] } }
    END { print "panel top-1"; for (m = 1; m <= count; m++) series(m, 1); print "panel top-5"; for (m = 1; m <= count; m++) series(m, 2)
        print "panel top-1 over time, ResNet-101 @ hours"; for (m = 1; m <= count; m++) series(m, 1, "resnet101")
        print "panel top-1 over time, Inception-V3 @ hours"; for (m = 1; m <= count; m++) series(m, 1, "inception_v3") }' "$work/all" | awk -f bench/papers/plot.awk >"$figure"
