#!/bin/sh
# Image networks on four workers under every weight policy: best validation accuracy in %, mean and spread (deviation) over SEEDS (3)
# seeds, for each of OPTIMIZERS (sgdm adam adamw). A small VGG on CIFAR-10 and a small ResNet on Tiny-ImageNet, both padded by 4
# pixels, cropped and mirrored. The defaults are scaled down to some minutes a line; EPOCHS and SAMPLES make it longer.
#   bench/learning/images.sh [cifar10|tiny_imagenet...]     EPOCHS (3), SAMPLES (2000), BATCH (32), POLICIES
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
data=${PENSTOCK_DATA:?names a directory with cifar10 and tiny_imagenet}
seeds=${SEEDS:-3} epochs=${EPOCHS:-3} samples=${SAMPLES:-2000} batch=${BATCH:-32}
policies=${POLICIES:-sync,latest,stash,2bw,spectrain,xpipe,pipeoptim}
[ $# -gt 0 ] || set -- cifar10 tiny_imagenet

rate() { case $1 in sgdm) echo 0.02 ;; *) echo 1e-3 ;; esac; }

# "POLICY BEST" for each row that could be trained.
best() { # MODEL TRAIN VALID OPTIMIZER SEED
    "$penstock" compare --train --model "$1" --data "$2" --valid "$3" --workers 4 --methods pipedream --weights "$policies" \
        --batch "$batch" --micro-batches 4 --epochs "$epochs" --optimizer "$4" --lr "$(rate "$4")" --lr-schedule cosine \
        --weight-decay 5e-4 --decay-exclude biases,norms --seed "$5" --quiet --json |
        awk -F'"' '/"weights":/ { policy = $4 }
                   /"best_valid_accuracy":/ { split($3, v, /[:,]/); print policy, 100 * v[2] }'
}

table() { # NAME MODEL TRAIN VALID
    echo "$1: $2, 4 workers, batch $batch, $epochs epochs of $samples samples, $seeds seeds"
    for optimizer in ${OPTIMIZERS:-sgdm adam adamw}; do
        seed=0
        while [ $seed -lt "$seeds" ]; do
            best "$2" "$3" "$4" "$optimizer" $seed
            seed=$((seed + 1))
        done | awk -v optimizer="$optimizer" '
            { n[$1]++; s[$1] += $2; q[$1] += $2 * $2; if (n[$1] == 1) order[++count] = $1 }
            END { for (i = 1; i <= count; i++) {
                      p = order[i]; m = s[p] / n[p]; v = n[p] > 1 ? (q[p] - n[p] * m * m) / (n[p] - 1) : 0
                      printf "%-6s %-10s %7.2f +- %.2f\n", optimizer, p, m, sqrt(v > 0 ? v : 0) } }'
    done
}

for set; do
    case $set in
    cifar10)
        table "$set" vgg16,shrink=4,batch_norm=1,dropout=0 "cifar10:$data/cifar10/,pad=4,flip=1@0-$samples" "cifar10:$data/cifar10" ;;
    tiny_imagenet)
        [ "$samples" -le 2000 ] || samples=2000
        table "$set" resnet,input=64,classes=20 "images:$data/tiny_imagenet/,pad=4,flip=1@0-$samples" "images:$data/tiny_imagenet" ;;
    *) echo "images.sh: cifar10 and tiny_imagenet are known, not '$set'" >&2 && exit 2 ;;
    esac
done
