#!/bin/sh
# A small GPT-2 on Tiny Shakespeare by characters, four workers, every weight policy with every optimizer, 100 steps of warm-up: accuracy of the
# next character, and the validation loss. sweep.sh says how to choose.
#   bench/learning/gpt2.sh
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
name=gpt2_tinyshakespeare model=gpt2,layers=4,width=32,heads=4,seq=32,vocab=69,dropout=0 batch=16
train=text:$data/tinyshakespeare/input.txt valid=text:$data/tinyshakespeare/input.txt@0-600
length="--steps 900 --evaluate-every 300 --warmup 100"
sgdm="--lr 0.3" adam="--lr 4e-3" adamw="--lr 4e-3"
sweep
