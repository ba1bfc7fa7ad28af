#!/bin/sh
# LeNet-5 on Fashion-MNIST and on CIFAR-10, four workers, every weight policy with every optimizer; the learning rate falls to a
# tenth for the last third. sweep.sh documents the options.
#   bench/learning/lenet5.sh [fashion_mnist|cifar10]...
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
[ $# -gt 0 ] || set -- fashion_mnist cifar10
batch=32
for set; do
    name=lenet5_$set length="--epochs 3 --lr-schedule step:2:0.1"
    case $set in
    fashion_mnist)
        model=lenet5 train=idx:$data/fashion_mnist@0-8000 valid=idx:$data/fashion_mnist@0-2000
        sgdm="--weight-decay 5e-4 --lr 0.03" adam="--lr 2e-3" adamw="--lr 2e-3" ;;
    cifar10)
        model=lenet5,input=32,channels=3 train=cifar10:$data/cifar10@0-8000 valid=cifar10:$data/cifar10
        sgdm="--weight-decay 5e-4 --lr 0.01" adam="--lr 2e-3" adamw="--lr 2e-3" ;;
    *) echo "lenet5.sh: fashion_mnist and cifar10 are known, not '$set'" >&2 && exit 2 ;;
    esac
    sweep
done
