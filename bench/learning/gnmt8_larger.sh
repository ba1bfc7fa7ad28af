#!/bin/sh
# A GNMT-8 of 128 features that translates English captions into German, on all of Multi30k, in buckets by length: readable
# translations, in some minutes per epoch. BLEU of 200 sentences of the validation data after each epoch, and of 500 others at
# the end. sweep.sh documents the options; the learning rate is that of PipeOptim's experiments with Adam.
#   bench/learning/gnmt8_larger.sh
set -eu
cd "$(dirname "$0")/../.."
SEEDS=${SEEDS:-0} OPTIMIZERS=${OPTIMIZERS:-adam} POLICIES=${POLICIES:-sync/4 pipeoptim/4 latest/4 horizon/4 stash/4}
. bench/learning/sweep.sh
name=gnmt8_larger_multi30k model=gnmt8,seq=20,target=20,vocab=5000,hidden=128 batch=64
train=pairs:$data/multi30k/train:en:de valid=pairs:$data/multi30k/val:en:de valid_bleu=200 length="--epochs ${EPOCHS:-5} --lengths 10,13,16"
bleu=pairs:$data/multi30k/test_2016_flickr:en:de@0-500
sgdm="--clip 5 --lr 0.5" adam="--clip 5 --lr 1e-3" adamw="--clip 5 --lr 1e-3"
sweep
