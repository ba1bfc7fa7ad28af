#!/bin/sh
# A small VGG (three of VGG-16's five blocks, an eighth of the width, batch normalisation) on Fashion-MNIST and on CIFAR-10,
# four workers, every weight policy with every optimizer; the learning rate falls to a tenth for the last third. sweep.sh
# documents the options.
#   bench/learning/vgg.sh [fashion_mnist|cifar10]...
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
[ $# -gt 0 ] || set -- fashion_mnist cifar10
batch=32
for set; do
    name=vgg_$set model=vgg16,blocks=3,shrink=8,batch_norm=1,dropout=0 length="--epochs 3 --lr-schedule step:2:0.1"
    case $set in
    fashion_mnist)
        model=$model,input=28,channels=1 train=idx:$data/fashion_mnist@0-5000 valid=idx:$data/fashion_mnist@0-2000
        sgdm="--weight-decay 5e-4 --lr 0.05" adam="--lr 2e-3" adamw="--lr 2e-3" ;;
    cifar10)
        train=cifar10:$data/cifar10@0-5000 valid=cifar10:$data/cifar10
        sgdm="--weight-decay 5e-4 --lr 0.05" adam="--lr 2e-3" adamw="--lr 2e-3" ;;
    *) echo "vgg.sh: fashion_mnist and cifar10 are known, not '$set'" >&2 && exit 2 ;;
    esac
    sweep
done
