#!/bin/sh
# Networks as files, from the command line: wherever a network is named its file does as well, with the same costs, plans and
# weights to the bit; a run keeps its network; what was made for another one is refused. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/support.sh"
networks=$(cd "$(dirname "$0")/networks" && pwd) || exit 1

# well ARGUMENT...: the program, which must end well.
well() { "$PENSTOCK" "$@" >out 2>err || complain "penstock $*: status $?"; }
# refused TEXT ARGUMENT...: status 2 or 3, in one line that has the text.
refused() {
    text=$1
    shift
    "$PENSTOCK" "$@" >out 2>err
    status=$?
    { [ $status -eq 2 ] || [ $status -eq 3 ]; } || complain "penstock $*: status $status, not 2 or 3"
    head -n 1 err | grep -q -- "$text" || complain "penstock $*: does not say '$text'"
}

begins "by name and by file"
model=lenet5,input=16,classes=4
data="--data synthetic:images,samples=48"
well models --model $model -o net.json
[ "$("$PENSTOCK" models --model $model -o -)" = "$(cat net.json)" ] || complain "-o - does not write the file"
for way in name file; do
    given=$model
    [ $way = name ] || given=net.json
    well models --model $given --json
    mv out models.$way
    well profile --model $given --device fpga:vcu118 --micro-batch 4 -o $way.profile
    well plan --profile $way.profile --workers 3 --method uniform --schedule 1f1b -o $way.json
    sed '/"solve_s"/d' $way.json >plan.$way
    # Words on purpose, here and below.
    # shellcheck disable=SC2086
    well train --model $given --workers 3 --method uniform --schedule 1f1b-async --weights pipeoptim --batch 12 --micro-batch 4 $data \
        --label-smoothing 0.1 --steps 5 --out run.$way -q
    well evaluate --run run.$way --data synthetic:images,samples=20 --json
    mv out evaluation.$way
done
cmp models.name models.file || complain "the layers are not the same"
cmp name.profile file.profile || complain "the costs are not the same"
cmp plan.name plan.file || complain "the plans are not the same"
cmp evaluation.name evaluation.file || complain "the evaluations are not the same"
cmp net.json run.file/network.json || complain "the run does not keep its network"
[ "$(sum run.name)" = "$(sum run.file)" ] || complain "the weights are not the same"

begins "without the file"
mv net.json elsewhere.json
# shellcheck disable=SC2086
well train --resume run.file --workers 2 $data -q
well train --resume run.name --workers 2 $data -q
[ "$(sum run.name)" = "$(sum run.file)" ] || complain "the weights are not the same once they went on"
well evaluate --run run.file --data synthetic:images,samples=20
rm run.name/network.json # as runs of earlier versions have it
well evaluate --run run.name --data synthetic:images,samples=20 --json
well evaluate --run run.file --data synthetic:images,samples=20 --json

begins "a network of one's own"
well profile --model "$networks/blocks.json" --device fpga:vcu118 --micro-batch 4 -o blocks.profile
well plan --profile blocks.profile --workers 2 --method uniform -o blocks.plan
refused "'blocks' is not known" train --plan blocks.plan $data --steps 2
well train --plan blocks.plan --model "$networks/blocks.json" --data synthetic:images,samples=48,classes=10 --steps 4 --out blocks -q
well evaluate --run blocks --data synthetic:images,samples=20
well profile --model "$networks/blocks.json,split=conv1:3" --device fpga:vcu118 --micro-batch 4

begins "general operators"
data="--data synthetic:images,samples=48"
for workers in 1 3; do
    # shellcheck disable=SC2086
    well train --model "$networks/general.json" --workers $workers --method uniform --schedule 1f1b --batch 12 --micro-batch 3 $data \
        --optimizer adam --lr 0.01 --epochs 30 --out general.$workers -q
done
for workers in 1 3; do
    well export --run general.$workers --format safetensors -o general.$workers.safetensors
done
cmp general.1.safetensors general.3.safetensors || complain "general operators: the weights are not the same on three workers"
well evaluate --run general.3 $data --json
grep -qE '"accuracy": (1|0\.[89])' out || complain "general operators: did not learn: $(cat out)"

begins "the documentation"
"$PENSTOCK" models --operators | sed 's/ *$//' >operators
while read -r line; do
    grep -q -F -- "$line" "$networks/../../docs/formats.md" || complain "docs/formats.md does not have: $line"
done <operators
[ "$(wc -l <operators)" -gt 20 ] || complain "only $(wc -l <operators) lines of operators"

begins "another network"
refused "the plan is for the network blocks ([0-9a-f]*), and this is lenet5 (" train --plan blocks.plan --model lenet5 $data --steps 2
sed 's/"channels": 32/"channels": 33/' "$networks/blocks.json" >other.json
refused "the plan is for the network blocks ([0-9a-f]*), and this is blocks (" train --plan blocks.plan --model other.json $data --steps 2
well profile --model other.json --device fpga:vcu118 --micro-batch 4 -o other.profile
refused "the profile of blocks" simulate --plan blocks.plan --profile other.profile
cp other.json blocks/network.json
refused "is for the network blocks" evaluate --run blocks --data synthetic:images,samples=20
# shellcheck disable=SC2086
refused "is for the network blocks" train --resume blocks $data
sed 's/"operator": "relu"/"operator": "rely"/' "$networks/blocks.json" >wrong.json
refused "did you mean 'relu'.*line" models --model wrong.json
refused "missing.json" models --model missing.json

finish
