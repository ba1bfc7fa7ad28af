#!/bin/sh
# A small ResNet (8 weighted layers) on Tiny-ImageNet scaled to 32 pixels, cropped and mirrored, four workers, every weight
# policy with every optimizer. sweep.sh documents the options.
#   bench/learning/resnet.sh
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
name=resnet_tiny_imagenet model=resnet,input=32,classes=20 batch=20
train=images:$data/tiny_imagenet/,pad=4,flip=1 valid=images:$data/tiny_imagenet length="--epochs 3 --lr-schedule step:2:0.1"
sgdm="--weight-decay 5e-4 --lr 0.1" adam="--lr 2e-3" adamw="--lr 2e-3"
sweep
