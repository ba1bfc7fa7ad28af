#!/bin/sh
# The same training in PyTorch and here, from the same weights: 20 steps of some networks with every optimizer, groups of
# parameters and low-rank adapters, and one step of every network of a directory of references (NAME.npz and NAME.dyn20.onnx).
# Status 1 where they differ by more than rounding explains.
#   bench/same_training.sh [NETWORK...]     PENSTOCK_DATA (its onnx/ is the directory), PYTHON (the first that has transformers)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
python_with transformers
"$python" bench/pytorch/same_training.py "$penstock" "$work" "$@" 2>"$work/err" || { cat "$work/err"; exit 1; }
[ $# -eq 0 ] && [ -d "${PENSTOCK_DATA:-}/onnx" ] || exit 0
echo
"$python" bench/pytorch/same_training.py "$penstock" "$work" "$PENSTOCK_DATA"/onnx/*.npz 2>"$work/err" || { cat "$work/err"; exit 1; }
