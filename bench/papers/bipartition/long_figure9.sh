#!/bin/sh
# Bi-Partition's Figures 9 and 10 with its optimizer (Adam, 3e-5), batches and 20 epochs: one network of LeNet-5 on all of
# Fashion-MNIST (the paper: MNIST), AlexNet and VGG16 on the part of CIFAR-10 that there is. Trainings are kept in runs/papers.
#   MODEL (lenet5)
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
needs_data
MODEL=${MODEL:-lenet5}
case $MODEL in
lenet5) DATA=idx:$PENSTOCK_DATA/fashion_mnist VALID=idx:$PENSTOCK_DATA/fashion_mnist@0-2000 ;;
*) DATA=cifar10:$PENSTOCK_DATA/cifar10 VALID=cifar10:$PENSTOCK_DATA/cifar10@0-1000 ;;
esac
RATE=${RATE:-3e-5} KEPT=runs/papers/figure9-$MODEL
export MODEL DATA VALID RATE KEPT
sh bench/papers/bipartition/figure9.sh
