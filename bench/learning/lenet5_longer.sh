#!/bin/sh
# LeNet-5 on all of Fashion-MNIST until it no longer improves: twelve epochs, 22,500 updates, thirty times those of lenet5.sh;
# the learning rate falls to a tenth for the last quarter. Does an asynchronous policy with one micro-batch catch up with `sync`
# in a long training? sweep.sh documents the options; the rates are the best for `sync` among RATES, of three each.
#   bench/learning/lenet5_longer.sh
set -eu
cd "$(dirname "$0")/../.."
OPTIMIZERS=${OPTIMIZERS:-sgdm adam} POLICIES=${POLICIES:-sync latest stash pipeoptim}
. bench/learning/sweep.sh
name=lenet5_longer_fashion_mnist model=lenet5 batch=32 length="--epochs 12 --lr-schedule step:9:0.1"
train=idx:$data/fashion_mnist@0-60000 valid=idx:$data/fashion_mnist
sgdm="--weight-decay 5e-4 --lr 0.01" adam="--lr 1e-3" adamw="--lr 1e-3"
sweep
