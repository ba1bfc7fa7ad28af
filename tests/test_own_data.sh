#!/bin/sh
# The runs of docs/own-data.md: they end well, their loss falls clearly, and one worker comes to the same weights.
. "$(dirname "$0")/support.sh"
page=$(cd "$(dirname "$0")/../docs" && pwd)/own-data.md || exit 1

# What stands between ```sh and ```.
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$page" >runs.sh
penstock() { "$PENSTOCK" "$@"; }

begins "the runs of the page"
(set -e; . ./runs.sh) >out 2>err || complain "the page's commands end with status $?"
begins "with one worker"
sed -e 's/--workers 2/--workers 1/' -e 's,runs/,alone/,' runs.sh >alone.sh
(set -e; . ./alone.sh) >out 2>err || complain "with one worker they end with status $?"

begins "their losses and weights"
for run in mlp kinds unet reader alike; do
    first=$(sed -n 's/.*"valid_loss": \([0-9.]*\).*/\1/p' runs/$run/log.jsonl | head -n 1)
    last=$(sed -n 's/.*"valid_loss": \([0-9.]*\).*/\1/p' runs/$run/log.jsonl | tail -n 1)
    awk "BEGIN { exit !($last < 0.8 * ${first:-0}) }" || complain "$run: the loss goes from $first to $last"
    for way in runs alone; do
        penstock export --run $way/$run --format safetensors -o $way-$run.safetensors >out 2>err || complain "export of $way/$run"
    done
    cmp -s runs-$run.safetensors alone-$run.safetensors || complain "$run: two workers do not come to the weights of one"
done
for run in reader alike; do
    last=$(sed -n 's/.*"valid_accuracy": \([0-9.]*\).*/\1/p' runs/$run/log.jsonl | tail -n 1)
    awk "BEGIN { exit !(${last:-0} > 0.9) }" || complain "$run: an accuracy of $last"
done

begins "a tokenizer where the run has no words"
seeds=$(cd "$(dirname "$page")/../tests/fuzz/seeds" && pwd)
cp -R runs/reader wordless && rm wordless/vocabulary.json
penstock evaluate --run wordless --data reviews:opinions.tsv@0-64 >out 2>err
[ $? -eq 3 ] && grep -q 'vocabulary.json: missing' err || complain "words without a vocabulary are not refused"
penstock evaluate --run wordless --data "reviews:opinions.tsv,tokenizer=$seeds/tokenizer/bert@0-64" >out 2>err ||
    complain "a tokenizer is not taken: status $?"
grep -q '"valid_accuracy"' runs/unet/log.jsonl || complain "the segmentation has no accuracy"
! grep -q accuracy runs/mlp/log.jsonl || complain "the regression has an accuracy"
finish
