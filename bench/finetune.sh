#!/bin/sh
# Fine-tuning: a network that PyTorch trained on the first half of CIFAR-10 is continued here on the second half, as a pipeline
# of two workers, and both programs evaluate it, before and after: the accuracies must be the same to the last digit.
#   bench/finetune.sh     PENSTOCK_DATA (holds cifar10/), EPOCHS (3, in each program), PYTHON (the first that has torch)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
epochs=${EPOCHS:-3} data=${PENSTOCK_DATA:?the folder that holds cifar10}/cifar10
python_with torch
pytorch() { "$python" bench/pytorch/finetune.py "$@" 2>/dev/null | tail -n 1; }
here() { "$penstock" evaluate "$@" --data "cifar10:$data" | sed -n 's/.*accuracy \([0-9.]*%\).*/\1/p'; }
row() {
    printf '%-44s %9s %9s\n' "$1" "$2" "$3"
    [ "$2" = "$3" ] || { echo "the accuracies differ"; exit 1; }
}

count=$(($(wc -c <"$data/data_batch_1.bin") / 3073))
echo "$(machine); PyTorch $("$python" -c 'import torch; print(torch.__version__)'); $count training images"
printf '%-44s %9s %9s\n' "accuracy on the test images" PyTorch Penstock
there=$(pytorch train "$data" "$epochs" "$work/net.onnx")
row "$epochs epochs in PyTorch, first half" "$there" "$(here --model "$work/net.onnx" --init "$work/net.onnx")"
"$penstock" train --model "$work/net.onnx" --data "cifar10:$data@$((count / 2))-$count" --workers 2 --schedule 1f1b \
    --weights sync --batch 50 --micro-batch 25 --epochs "$epochs" --lr 0.02 --momentum 0.9 --weight-decay 0.0005 \
    --lr-schedule cosine --out "$work/run" -q >/dev/null
"$penstock" export --run "$work/run" -o "$work/trained.safetensors" >/dev/null
row "and $epochs in Penstock, second half, two workers" "$(pytorch evaluate "$data" "$work/trained.safetensors")" \
    "$(here --run "$work/run")"
