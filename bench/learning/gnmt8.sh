#!/bin/sh
# A small GNMT-8 that translates English captions into German (Multi30k), four workers, every weight policy with every
# optimizer, a constant learning rate as in PipeOptim's experiment: accuracy of the next token, BLEU of 100 sentences of the
# validation data after each epoch, and of 100 others at the end. sweep.sh documents the options.
#   bench/learning/gnmt8.sh
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
name=gnmt8_multi30k model=gnmt8,seq=14,target=14,vocab=1000,hidden=32 batch=32
train=pairs:$data/multi30k/train:en:de@0-5000 valid=pairs:$data/multi30k/val:en:de@0-300 valid_bleu=100 length="--epochs 2"
bleu=pairs:$data/multi30k/test_2016_flickr:en:de@0-100
sgdm="--lr 0.5" adam="--lr 6e-3" adamw="--lr 6e-3"
sweep
