#!/bin/sh
# A small GPT-2 on Tiny Shakespeare by characters, four workers, every weight policy with every optimizer; the learning rate
# rises for 100 steps and falls along half a cosine. Accuracy of the next character, and the validation loss. sweep.sh documents
# the options.
#   bench/learning/gpt2.sh
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
name=gpt2_tinyshakespeare model=gpt2,layers=4,width=32,heads=4,seq=32,vocab=69,dropout=0 batch=16
train=text:$data/tinyshakespeare/input.txt valid=text:$data/tinyshakespeare/input.txt@0-300
length="--steps 600 --evaluate-every 200 --warmup 100 --lr-schedule cosine"
sgdm="--lr 0.3" adam="--lr 4e-3" adamw="--lr 4e-3"
sweep
