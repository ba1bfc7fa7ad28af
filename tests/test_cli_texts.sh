#!/bin/sh
# What commands print, to the byte, where nothing in it is measured: lists, tables, documents and refusals of numbers beyond their
# bounds. What stands in golden/cli.txt is looked at by eye when it changes. (The rest stands in support.sh.)
#
#   PENSTOCK_REGENERATE=1 ctest --test-dir build/release -R test_cli_texts     writes tests/golden/cli.txt anew
golden=$(cd "$(dirname "$0")" && pwd)/golden/cli.txt
. "$(dirname "$0")/leaks.sh"
unset COLUMNS

# shown ARGUMENT...: the command, what it prints and, if it is not 0, its status with what it says.
shown() {
    echo "\$ penstock $*" >>texts
    "$PENSTOCK" "$@" >out 2>err
    status=$?
    # Neither the version, nor how long a planner took.
    sed 's/^Penstock [0-9.]* /Penstock VERSION /; s/found in .*/found in TIME/; s/"solve_s": [0-9.e-]*/"solve_s": TIME/' out >>texts
    [ $status -eq 0 ] || {
        cat err
        echo "(status $status)"
    } >>texts
    echo >>texts
}

# figures ARGUMENT...: likewise, with N for each number that it prints.
figures() {
    shown "$@"
    sed 's/[0-9][0-9.e+-]*/N/g; s/   */  /g' out >masked
    before=$(($(wc -l <texts) - $(wc -l <out) - 1))
    head -n $before texts >longer && cat masked >>longer && echo >>longer && mv longer texts
}

begins "networks"
shown models
shown models --json
shown models --model lenet5,input=12,classes=3
shown models --model gnmt8,seq=3,target=4,hidden=16,vocab=20
shown models --model gnmt8,seq=3,target=4,hidden=16,vocab=20 --json
shown models --operators

begins "help"
shown --help
shown help predict
for command in models profile plan program simulate train evaluate predict compare export cluster check report devices; do
    shown $command --help
done

begins "documents"
mkdir documents && "$PENSTOCK" --documents documents >out 2>err || complain "no documents"
{
    for page in penstock penstock-predict; do sed 's/Penstock [0-9][0-9.]*/Penstock VERSION/' documents/man/$page.1; done
    for shell in bash/penstock zsh/_penstock; do sed -n '1,24p; /^    compare)/,/^    cluster)/p; /^    devices)/,$p' documents/$shell; done
    cat documents/fish/penstock.fish
    echo
} >>texts

begins "plans and what follows"
{
    echo name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes
    for layer in 1 2 3 4 5 6; do echo "layer$layer,0.0625,0.125,4096,1048576,8192"; done
} >even.csv
shown plan --profile even.csv --workers 3 --method uniform --schedule 1f1b --weights sync --micro-batches 4 --bandwidth 16MiB/s -o plan.json
shown plan --profile even.csv --workers 2 --method uniform --schedule gpipe --weights sync --json --latency 250ms --memory 64MiB
shown plan --profile even.csv --workers 2 --method uniform --memory 16KiB
shown program --plan plan.json --batches 1
shown program --plan plan.json --json --batches 1
shown program --plan plan.json --format torch-csv
"$PENSTOCK" program --plan plan.json >program.txt 2>err || complain "no program"
shown program --check program.txt
shown program --plan plan.json --profile even.csv --memory 16KiB
shown simulate --plan plan.json --profile even.csv --batches 2
shown simulate --plan plan.json --profile even.csv --batches 1 --cores 1 --json
shown simulate --plan plan.json --profile even.csv --batches 1 --bandwidth 16MiB/s --latency 31250us --no-overlap
shown simulate --plan plan.json --profile even.csv --batches 1 --bandwidth 16MiB/s --streaming --memory 16KiB
shown simulate --plan plan.json --profile even.csv --batches 1 --trace -
shown simulate --plan plan.json --profile even.csv --batches 1 --bandwidth 16MiB/s --svg - --arrows
"$PENSTOCK" simulate --plan plan.json --profile even.csv --batches 2 --trace trace.json >out 2>err || complain "no trace"
shown simulate --plan plan.json --profile even.csv --against trace.json --bandwidth 16MiB/s
for kind in --grid --json; do
    shown compare --profile even.csv --workers 2,3 --methods uniform --schedules gpipe,1f1b-async --weights sync,stash \
        --memory 64MiB,16KiB --bandwidth 16MiB/s $kind
done
shown profile --model lenet5,input=12,classes=3 --device gpu:v100 --micro-batch 1,4
shown profile --model lenet5,input=12,classes=3 --device gpu:p100
shown profile --model lenet5,input=12,classes=3 --device gpu:v100 --split-for 3
shown profile --model lenet5,input=12,classes=3 --device gpu:v100 --split-for 3 --bandwidth 1kB/s
printf '%s' '{"format": "penstock-cluster", "version": 1, "devices": [{"name": "a"}, {"name": "b", "speed": 0.5}]}' >two.json
shown profile --model lenet5,input=12,classes=3 --device gpu:v100 --cluster two.json
shown compare --profile even.csv --workers 2 --methods uniform --schedules dapple,1f1b --weights Vanilla,sync --grid
"$PENSTOCK" report --plan plan.json --profile even.csv --against trace.json --bandwidth 16MiB/s --latency 31250us --json >out 2>err ||
    complain "no report"
grep -E '"(traced|period_s|measured_period_s|measured_shown)"' out >>texts
"$PENSTOCK" report --plan plan.json --profile even.csv >out 2>err || complain "no page"
grep -Eq '^report.html: [1-9][0-9]*[.][0-9] KiB, opens in any browser$' out && [ -s report.html ] || complain "where the page is: $(cat out)"

begins "trained weights"
"$PENSTOCK" train --model lenet5,input=12 --data synthetic:images,samples=32,size=12 --steps 1 --batch 16 \
    --device reference --workers 2 --method uniform --schedule gpipe --weights sync --out run -q >out 2>err || complain "no run"
"$PENSTOCK" train --model gpt2,layers=1,width=16,heads=2,seq=12,vocab=14 --data synthetic:tokens,samples=8 --steps 1 --batch 8 \
    --device reference --workers 1 --out language -q >out 2>err || complain "no language"
printf 'one two\nthree four five\nsix\ntwo two\n' >words.left
printf 'eins zwei\ndrei vier\nsechs\nzwei zwei\n' >words.right
"$PENSTOCK" train --model gnmt8,hidden=8,seq=4,target=4 --data pairs:words:left:right --steps 1 --batch 4 --device reference --workers 1 \
    --out pairs -q >out 2>err || complain "no translations"
for kind in "" --json; do
    # Words on purpose.
    # shellcheck disable=SC2086
    {
        figures evaluate --run run --data synthetic:images,samples=4 --device reference $kind
        figures evaluate --run language --data synthetic:tokens,samples=4 --device reference $kind
        figures evaluate --run pairs --data pairs:words:left:right --beam 2 --translations translations --device reference $kind
        figures predict --run run --data synthetic:images,samples=3 --device reference $kind
        figures predict --run run --data synthetic:images,samples=3 --device reference -o predicted.csv $kind
        figures predict --run language --prompt '1 2' --tokens 2 --device reference $kind
    }
done
shown export --run run -o weights.safetensors
shown export --run run -o weights.safetensors --json
shown export --run run -o 'a "file" \ 
	of lines' --json
shown evaluate --run pairs --data pairs:words:left:right --translations - --json --device reference
with="--model lenet5,input=12 --init weights.safetensors --data synthetic:images,samples=4,size=12 --device reference"
# Words on purpose.
# shellcheck disable=SC2086
for option in class-weights=0,0,0,0,0,0,0,0,0,0 class-weights=0,1,1,1,1,1,1,1,1,0 class-weights=1,1 loss=mse; do
    figures evaluate $with --$option
done
shown evaluate --run run --data synthetic:images,samples=4 --device referense
shown predict --run run --data synthetic:images,samples=4 --tokens 3 --prompt x

begins "what a run keeps of its options"
# kept NAME ARGUMENT...: trains, and shows the configuration that stays.
kept() {
    name=$1
    shift
    "$PENSTOCK" train "$@" --out "$name" -q >out 2>err || complain "$name: $(cat err)"
    sed "s/^  \"penstock\": .*/  \"penstock\": VERSION,/; s/^  \"cores\": .*/  \"cores\": OF THIS MACHINE,/" "$name/config.json" >>texts
    echo >>texts
}
kept adam --model lenet5,input=12,classes=3 --data synthetic:images,samples=24,size=12,classes=3 \
    --valid synthetic:images,samples=6,size=12,classes=3 --batch 12 --epochs 2 --evaluate-every 1 --optimizer adam --lr 0.125 \
    --weight-decay 0.0625 --betas 0.75,0.875 --decay-exclude norms --groups 'fc1.*:lr=0.25' --clip 8 --label-smoothing 0.125 \
    --eps 0.5 --lr-schedule poly:2 --lr-per-epoch --warmup 1 --transport threads --device reference --threads 2 --seed 7 \
    --checkpoint-every 1 --checkpoint-minutes 12.5 --keep-checkpoints 3 --keep best --best-by accuracy --patience 9 --workers 2 \
    --method uniform --schedule 1f1b-async --weights pipeoptim --micro-batch 6 --micro-batches 2 --recompute --paper-prediction \
    --memory 1GiB --bandwidth 64MiB/s --latency 7812500ns --wire bf16 --emulate --no-cache
kept sgdm --model lenet5,input=12,classes=3 --data synthetic:images,samples=24,size=12,classes=3 --batch 12 --steps 1 \
    --optimizer sgdm --momentum 0.75 --dampening 0.125 --lr 0.25 --transport serial --device reference --workers 2 --method data-parallel \
    --replicate --bandwidth 64MiB/s --streaming --no-cache

begins "what training says"
# said ARGUMENT...: a training, and what stands on standard error, without what was measured, searched or kept in between.
said() {
    echo "\$ penstock train --log-level $level $*" >>texts
    "$PENSTOCK" train --log-level $level "$@" >out 2>err || complain "train $*: status $?"
    grep -v 'other programs had the core\|a mini-batch every\|^debug: checkpoint [0-9]* is written\|samples/s predicted' err |
        sed -E 's/(loss|accuracy|perplexity|BLEU|than) -?[0-9][0-9.e+-]*/\1 N/g; s/[0-9.e+]+ samples\/s/N samples\/s/g
                s/, [0-9]+ cores?:/, C cores:/; s/ found in .*; / found in A PLACE; /' >>texts
    echo >>texts
}
level=debug
small="--model lenet5,input=12,classes=3 --device reference"
images=synthetic:images,size=12,classes=3,samples
language="--model gpt2,layers=1,width=16,heads=2,seq=12,vocab=14 --device reference --data synthetic:tokens,samples=8 --batch 4 --workers 1"
# Words on purpose.
# shellcheck disable=SC2086
{
    said $small --workers 2 --method uniform --schedule gpipe --weights sync --batch 12 --micro-batches 2 --data $images=30 --valid $images=6 \
        --epochs 2 --no-cache --out talks
    said --resume talks --epochs 3 --lr 0.5 --momentum 0.5 --groups 'fc1.*:lr=0.25'
    said --resume talks
    said $small --workers 1 --method uniform --schedule 1f1b --weights sync --batch 1 --data $images=3 --steps 1 --lr 0.25 --threads 2
    said $small --workers 1 --method uniform --schedule 1f1b --weights sync --batch 1 --data $images=3 --steps 1 --lr 0.25 --threads 2
    said $small --workers 1 --method uniform --schedule 1f1b --weights sync --batch 3 --data $images=6 --valid $images=6,seed=1 --epochs 9 \
        --lr 1e-30 --patience 2
    said $language --valid synthetic:tokens,samples=4 --steps 2 --method uniform --schedule 1f1b --weights sync
    said $language --optimizer adam --steps 1 --method uniform --schedule 1f1b --weights sync
    said $language --optimizer sgd --steps 1 --method uniform --schedule 1f1b --weights sync
    said --model gnmt8,hidden=8,seq=4,target=4 --device reference --workers 1 --data pairs:words:left:right --valid pairs:words:left:right \
        --valid-bleu 2 --lengths 2 --batch 2 --epochs 1 --method uniform --schedule 1f1b --weights sync
    "$PENSTOCK" profile --model lenet5,input=12,classes=3 --device reference --micro-batch 2 --repeats 1 -q -o small.json >out 2>err ||
        complain "no profile"
    said $small --profile small.json --workers 2 --method uniform --schedule gpipe --weights sync --batch 4 --micro-batch 2 --data $images=4 \
        --steps 1 --threads 2 -o kept
    for level in info warn error; do
        said $small --profile small.json --workers 1 --method uniform --schedule gpipe --weights sync --batch 2 --micro-batch 2 \
            --data $images=4 --steps 1 --threads 2
    done
}
sed 's/0.0625,0.125/0.001,0.002/; /layer[456]/d' even.csv >quick.csv
shown plan --profile quick.csv --workers 3 --method uniform --schedule 1f1b-async --weights stash -o quick.json
level=debug
said --plan quick.json --profile quick.csv --device clock --steps 4
level=info
said --plan quick.json --profile quick.csv --device clock --steps 50 --checkpoint-minutes 0.0012 --out quick

begins "numbers beyond their bounds"
# COMMAND OPTION VALUE...
while read -r command option values; do
    for value in $values; do shown "$command" "--$option=$value"; done
done <<X
check tolerance 0 1e13
check workers 0 1025
check threads 0 1025
compare target -1 2e9
compare batch-per-worker 0 65537
compare workers 0 2,1025
compare memory 0 1MiB,0
compare bandwidth 0B/s
compare seeds -1 1,2000000000
compare cores 0 1025
evaluate batch 0 1048577
evaluate beam 0 1001
evaluate workers 0 1025
evaluate threads 0 1025
predict beam 0 1001
predict batch 0 1048577
predict workers 0 1025
predict tokens 0 16777217
predict temperature -1 2e6
predict top-k 0 16777217
predict seed -1 18446744073709551616
profile micro-batch 0 1048577
profile threads 0 1025
profile busy 0 1025
profile repeats 0 10001
profile split-for 1 1025
profile class-weights -1 2e30
program batches 0 100001
simulate batches 0 100001
plan workers 0 1025
plan memory 0
plan cores 0 1025
plan micro-batch 0 1048577
plan micro-batches 0 65537
plan module-depth 0 65
plan batch 0 16777217
train batch 0 16777217
train epochs 0 1000001
train steps 0 1000000001
train evaluate-every -1 1000000001
train valid-bleu 0 1000000001
train lr -1 2e6
train momentum -1 2
train dampening -1 2
train weight-decay -1 2e6
train betas -1,0 0,1
train clip -1 2e12
train label-smoothing -1 1
train eps -1 2
train warmup -1 1000000001
train checkpoint-every -1 1000000001
train checkpoint-minutes -1 2e6
train keep-checkpoints 0 1000001
train patience -1 1000001
train restarts 0 1000001
train threads 0 1025
X

begins "values that are none"
for value in ' 2' '2 ' '	2' +2 -0 2.5 1e3 0x10 "$(printf '%031d' 2)" "$(printf '%032d' 2)" 9223372036854775808 18446744073709551615; do
    for option in workers seed lr; do shown train "--$option=$value"; done
done
for value in ' 1' '1,' 1,,2 '0.5, 1' 1e31 inf; do shown check --model lenet5 --class-weights "$value"; done
for value in 0.5 0.5,0.5,0.5 ' 0.5,0.5' '0.5, 0.5' 1,0.5 0.5,1 0.5,; do shown train --betas "$value"; done
for value in 1023 1024 1023B 1KiB; do shown plan --memory "$value" --workers 0; done
# list N VALUE: so often, with commas
list() { yes "$2" | head -n "$1" | paste -s -d , -; }
shown compare --methods "$(list 32 auto)" --seeds x
shown compare --methods "$(list 33 auto)"
shown compare --wires "$(list 16 none)" --seeds x
shown compare --wires "$(list 17 none)"
shown compare --memory "$(list 32 1GiB)" --seeds x
shown compare --memory "$(list 33 1GiB)"
shown compare --bandwidth "$(list 32 1GB/s)" --seeds x
shown compare --bandwidth "$(list 33 1GB/s)"
shown compare --wires "$(printf '%063d' 0)" --seeds x
shown report -- -q
shown report --

begins "options of other programs, and what needs a network"
for option in learning-rate bf16 dtype nproc-per-node max-steps num-epochs; do
    shown train --$option 2
    shown report --$option 2
done
for option in loss=mse class-weights=1 init=x freeze=a lora=rank=1 precision=bf16; do shown predict --run run --$option; done
shown --documents
shown help -h
shown plan --profile "$(printf 'a\tb\001c\037d ~\177')" --workers 2

begins "options that contradict each other"
shown plan --no-such-option
shown plan -Z
# COMMAND with what it must have OPTION and its value: OPTION and its value, ...
contradict() { # COMMAND... : OPTION[=VALUE] OPTION[=VALUE]...
    with=
    while [ "$1" != : ]; do with="$with $1" && shift; done
    one=$2
    shift 2
    # shellcheck disable=SC2086
    for other in "$@"; do shown $with "--$one" "--$other"; done
}
contradict compare : largest=layers train profile=f
contradict compare : batch-per-worker=2 batch=4 micro-batches=2 train
contradict compare : wires=int8 wire=int8
contradict compare : rank-by=memory largest=layers
contradict compare : seeds=1 seed=1
contradict evaluate --data d : run=r weights=w model=m init=i
contradict evaluate --data d : weights=w init=i
contradict models : operators model=m
contradict predict : run=r model=m
contradict predict : data=d prompt=p
contradict predict : prompt=p format=csv beam=2 batch=2 workers=2
contradict predict : workers=2 model=m
contradict predict : vocabulary=v tokenizer=t
contradict profile --model lenet5 : split-for=2 cluster=c
contradict program : check=c plan=p batches=2 profile=f format=text
contradict program : format=text json
contradict report : csv=c out=o plan=p profile=f against=a json
contradict train : epochs=1 steps=1
contradict train : resume=r model=m init=i freeze=z lora=l batch=2 valid-bleu=2 lengths=2 optimizer=sgd seed=1 out=o
contradict train : no-lr-per-epoch lr-per-epoch
contradict train : no-emulate emulate
contradict plan --profile f : quiet log-level=info
contradict plan --profile f : cluster=c workers=2 memory=1GiB bandwidth=1GB/s latency=1us no-overlap streaming cores=2
contradict plan --profile f : streaming no-overlap
contradict train : plan=p workers=2 method=uniform schedule=gpipe weights=sync micro-batch=2 micro-batches=2 paper-prediction recompute \
    module-depth=2 wire=int8 replicate

begins "comparing"
if [ -n "${PENSTOCK_REGENERATE:-}" ]; then
    cp texts "$golden"
else
    errors=differences
    diff -u "$golden" texts >differences || complain "the texts are not those of tests/golden/cli.txt"
fi
finish
