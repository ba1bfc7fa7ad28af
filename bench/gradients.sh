#!/bin/sh
# Accuracy of a training step: loss, probabilities and all gradients of Penstock and of PyTorch in single precision compared
# with PyTorch in double precision, for every network with the same weights and data; bench/pytorch/gradients.py describes the
# columns. On noise, and if PENSTOCK_DATA is set also on images and texts.
#   bench/gradients.sh [images|sequences]...     SAMPLES (4), SIZES ("224 64"; of Inception "299 107"; pixels per side), THREADS (1),
#                                                PYTHON (the first that has torch and torchvision), PRECISION (bf16)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
samples=${SAMPLES:-4} program=${GRADIENTS:-build/release/bench/gradients} data=${PENSTOCK_DATA:-}
export THREADS="${THREADS:-1}" OMP_NUM_THREADS="${THREADS:-1}"
[ $# -gt 0 ] || set -- images sequences

python_with torchvision

# compared MODEL DATA
compared() {
    spec=$1${PRECISION:+,precision=$PRECISION}
    echo "== $spec, ${2%%:*}"
    "$program" "$spec" "$samples" "$2" "$work/step" "$THREADS"
    "$python" bench/pytorch/gradients.py "$spec" "$work/step"
    rm -f "$work/step"
}

# pictured MODEL PIXELS: on noise with 1000 classes, on pictures with as many as there are
pictured() {
    compared "$1,input=$2,classes=1000" noise
    [ -z "$data" ] || compared "$1,input=$2,classes=20" "images:$data/tiny_imagenet"
}

images() {
    for model in alexnet,form=imagenet,dropout=0 vgg16,form=imagenet,dropout=0 vgg19,form=imagenet,dropout=0 resnet50 resnet101 \
        googlenet,dropout=0 inception_v3,dropout=0 densenet121; do
        case $model in inception*) sizes=${SIZES:-299 107} ;; *) sizes=${SIZES:-224 64} ;; esac
        for size in $sizes; do pictured $model $size; done
    done
}

# texted MODEL DATA: on noise, and on texts
texted() {
    compared "$1" noise
    [ -z "$data" ] || compared "$1" "$2"
}

sequences() {
    texted residual_lstm,seq=100,vocab=2000,hidden=128,layers=4 "reviews:$data/imdb/train.tsv"
    texted gnmt8,seq=20,target=20,vocab=2000,target_vocab=2000,hidden=256,dropout=0 "pairs:$data/multi30k/train:en:de"
    for model in gpt2 bert48; do
        texted $model,layers=12,width=768,heads=12,seq=64,vocab=69,dropout=0 "text:$data/tinyshakespeare/input.txt"
    done
}

made_with "${PRECISION:+PRECISION=$PRECISION }bench/gradients.sh $*"
echo "$(machine); PyTorch $("$python" -c 'import torch; print(torch.__version__)'); $samples samples; against double precision"
printf '%-14s %8s %8s %8s %8s %6s %8s %8s\n' '' loss forward all worst kinks '*all' '*worst'
for what; do $what; done
