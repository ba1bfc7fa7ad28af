#!/bin/sh
# A small Residual LSTM on film reviews (IMDb), four workers, every weight policy with every optimizer; the learning rate falls
# to 0 as in PipeOptim's experiment. sweep.sh documents the options.
#   bench/learning/residual_lstm.sh
set -eu
cd "$(dirname "$0")/../.."
. bench/learning/sweep.sh
name=residual_lstm_imdb model=residual_lstm,seq=40,vocab=4000,hidden=32 batch=32
train=reviews:$data/imdb/train.tsv valid=reviews:$data/imdb/test.tsv length="--epochs 2 --lr-schedule poly:1"
sgdm="--lr 0.1" adam="--lr 6e-3" adamw="--lr 6e-3"
sweep
