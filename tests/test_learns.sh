#!/bin/sh
# Each built-in network leaves chance on real data with nothing said of optimizer, rate, batch, plan or schedule: validation loss
# below that of guessing, or accuracy above it. In whole (PENSTOCK_TEST_ALL) it takes an hour; else small networks of the kinds
# that once did not learn. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/support.sh"
[ -d "${PENSTOCK_DATA:-}" ] || { echo "skipped: PENSTOCK_DATA is not set"; exit 0; }

# learns MODEL DATA VALID STEPS FIELD LEAST: FIELD of the run is above LEAST (accuracies) or below it (losses).
learns() {
    begins "$1"
    "$PENSTOCK" train --model "$1" --data "$2" --valid "$3" --steps "$4" --json >out 2>err || complain "$1: status $?"
    value=$(awk -F'[:,]' -v key="\"$5\"" 'index($1, key) { print $2 + 0; exit }' out)
    echo "    $5 $value"
    awk -v value="$value" -v least="$6" -v field="$5" 'BEGIN { exit !(field ~ /loss/ ? value > 0 && value < least : value > least) }' ||
        complain "$1: $5 $value is no better than $6"
}

cifar=cifar10:$PENSTOCK_DATA/cifar10
if [ -z "${PENSTOCK_TEST_ALL:-}" ]; then
    learns vgg16,shrink=8,dropout=0 $cifar $cifar#test@0-300 100 valid_accuracy 0.13
    finish
    exit
fi
learns lenet5 idx:$PENSTOCK_DATA/fashion_mnist idx:$PENSTOCK_DATA/fashion_mnist#test@0-1000 200 valid_accuracy 0.6
for network in alexnet vgg16 vgg19 resnet,blocks=3 resnet50,input=32,classes=10 googlenet,input=32,classes=10 \
    densenet121,input=32,classes=10; do
    learns $network $cifar $cifar#test@0-500 156 valid_accuracy 0.13
done
learns residual_lstm reviews:$PENSTOCK_DATA/imdb/train.tsv reviews:$PENSTOCK_DATA/imdb/test.tsv@0-300 60 valid_accuracy 0.52
text=text:$PENSTOCK_DATA/tinyshakespeare/input.txt
learns gpt2,layers=4,seq=64 $text@0-4000 $text@4000-4050 100 valid_loss 3.3
finish
