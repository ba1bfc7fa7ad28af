#!/bin/sh
# The command line as users meet it: every bad input gives its status and one clear line; a profile becomes a plan, programs, a
# simulation; a small network is trained, exported and evaluated. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/leaks.sh"

# refused STATUS PATTERN ARGUMENT...: exactly so, with nothing on standard output and "penstock: PATTERN" as the only such line.
refused() {
    wanted=$1 pattern=$2
    shift 2
    "$PENSTOCK" "$@" >out 2>err
    status=$?
    [ $status -eq "$wanted" ] || complain "penstock $*: status $status, not $wanted"
    [ ! -s out ] || complain "penstock $*: wrote to standard output"
    [ "$(grep -c '^penstock: ' err)" -eq 1 ] || complain "penstock $*: not one line of 'penstock: ...'"
    grep -v '^[a-z]*: ' err | grep -q 'runtime error\|Sanitizer' && complain "penstock $*: a sanitizer spoke"
    grep '^penstock: ' err | grep -Eq -- "^penstock: .*$pattern" || complain "penstock $*: does not say '$pattern'"
}

# hinted PATTERN: what the last command that was refused said on a line below that one.
hinted() { grep -v '^penstock: ' err | grep -Exq -- "$1" || complain "$section: the hint is not '$1'"; }

# done_by ARGUMENT...: status 0; standard output is in the file out.
done_by() {
    "$PENSTOCK" "$@" >out 2>err
    status=$?
    [ $status -eq 0 ] || complain "penstock $*: status $status"
}

# says PATTERN: standard output of the last command does.
says() { grep -Eq -- "$1" out || complain "standard output does not say '$1'"; }

# One document, and nothing stood on standard error. Strings, then all other values, then lists and objects from the innermost out
# become one letter.
says_json() {
    [ "$(head -c 1 out)" = "{" ] && tr -d '\n' <out | sed -E 's/"([^"\\]|\\.)*"/S/g; s/-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?|true|false|null/V/g; s/ //g
        :more
        s/\[([SV](,[SV])*)?\]|\{(S:[SV](,S:[SV])*)?\}/V/g
        t more' | grep -qx V || complain "$1: standard output is not one JSON object"
    [ ! -s err ] || complain "$1: something on standard error"
}

begins "the command line itself"
refused 2 "a command is missing"
hinted "commands: models, profile, plan, .*, devices; more with penstock --help"
refused 2 "'plna' is not a command; did you mean 'plan'" plna
hinted "commands: models, .*"
refused 2 "'x' is not a command" x
refused 2 "--profile is missing" plan
hinted "more with penstock plan --help"
refused 2 "--profile: a value is missing; give FILE" plan --profile
refused 2 "--profile: a value is missing before '--workers'; give FILE" plan --profile --workers 2
refused 2 "--profile: the value is empty; give FILE" plan --profile ""
# shellcheck disable=SC2046
refused 2 "--profile: given more than 32 times" compare --workers 2 $(yes -- "--profile f" | head -n 33)
refused 2 "--profiel: there is no such option; did you mean --profile" plan --profiel f
refused 2 "--work: there is no such option; did you mean --workers" plan --work 4
refused 2 "--batch-size: there is no such option; did you mean --batch\?" train --batch-size 4
refused 2 "--output: there is no such option; did you mean --out\?" train --output runs
refused 2 "--learning-rate: there is no such option; did you mean --lr\?" train --learning-rate 0.1
refused 2 "--learning-rate: there is no such option\$" plan --learning-rate 0.1
refused 2 "--quantum: there is no such option\$" train --quantum
refused 2 "--json: takes no value, so '--json=1' cannot be" plan --json=1
refused 2 "-Z: there is no such option" plan -Z
refused 2 "'stray': an option was expected; options begin with --" plan stray
refused 2 "--schedule: 'nothing' is not known" plan --schedule nothing
hinted "accepted: auto, naive, gpipe, 1f1b, 1f1b-async, .*"
refused 2 "--workers: 'four' is not a whole number; accepted: 1 to 1024" plan --workers four
refused 2 "--workers: '0' is out of range; accepted: 1 to 1024" plan --workers 0
refused 2 "--workers: '1025' is out of range" plan -w 1025
refused 2 "--workers: '99999999999999999999' is out of range" plan -w 99999999999999999999
refused 2 "--workers: given twice, as '3' and as '4'" plan --workers 3 --workers=4
refused 2 "--workers is missing; give --workers P, or --cluster FILE" plan --profile f
refused 2 "--workers and --cluster contradict each other; give one of them" plan --profile f --workers 2 --cluster c
refused 2 "--memory and --cluster contradict each other" plan --profile f --cluster c --memory 1GiB
refused 2 "--memory: '12 apples' is not a size" plan --memory "12 apples"
refused 2 "--memory: '0' is out of range" plan --memory 0
refused 2 "--memory: '12' is so many bytes; add a unit, as in 12GiB" plan --memory 12
refused 2 "--memory: '16' is so many bytes; add a unit, as in 16GiB" compare --profile f --memory 12GiB,16
refused 2 "--bandwidth: '100' is not a rate" plan --bandwidth 100
refused 2 "--bandwidth: '0GB/s' is no rate; it must be above 0" plan --bandwidth 0GB/s
refused 2 "--latency: '-1us' is not a time" plan --latency=-1us
refused 2 "--method: 'unifrom' is not known; did you mean 'uniform'" plan --method unifrom
refused 2 "--schedule: '1f1b-asink' is not known; did you mean '1f1b-async'" plan --schedule 1f1b-asink
refused 2 "--weights: 'stsh' is not known; did you mean 'stash'" plan --weights stsh
refused 2 "--optimizer: 'adma' is not known; did you mean 'adam'" plan --optimizer adma
refused 2 "--batch: '0' is out of range" plan --batch 0
refused 2 "--workers is missing; give --workers P\[,P...], or --cluster FILE" compare --profile f
refused 2 "--profile is missing; give --profile FILE, or --train" compare --workers 2
refused 2 "--model is missing; --train needs a network" compare --train --workers 2
refused 2 "--model is missing; --largest needs a network" compare --largest layers --workers 2
refused 2 "--model: --largest takes one network" compare --largest layers --model lenet5 --model gnmt --workers 2
refused 2 "--data: what to train on must be said" compare --train --model lenet5 --workers 2
refused 2 "--data: given 2 times, for 1 network; give one for all, or one for each" \
    compare --train --workers 2 --model lenet5 --data a --data b
refused 2 "--valid: given 3 times, for 2 networks; give one for all" \
    compare --train --workers 2 --model lenet5 --model vgg16 --data a --valid b --valid c --valid d
refused 2 "--profile: given 1 times, for 2 networks; give one for each, or none" \
    compare --train --workers 2 --model lenet5 --model vgg16 --data a --profile f
refused 2 "--profile: holds for one precision, not 2" \
    compare --train --workers 2 --model lenet5 --data a --profile f --precision f32,bf16
for option in seeds precision data valid; do
    refused 2 "--$option: is for --train" compare --profile f --workers 2 --$option 1
done
refused 2 "--csv - and --json contradict each other; give one of them" compare --profile f --workers 2 --csv - --json
refused 2 "--methods: 'unifrom' is not known; did you mean 'uniform'" compare --methods auto,unifrom
refused 2 "--methods: a value in 'auto,,uniform' is empty" compare --methods auto,,uniform
refused 2 "--memory: '12 apples' is not a size" compare --memory "1GiB,12 apples"
refused 2 "--bandwidth: '100' is not a rate" compare --bandwidth 1GB/s,100
refused 2 "--quiet and --log-level contradict" plan --profile f --quiet --log-level debug
refused 2 "--log-level: 'inof' is not known; did you mean 'info'" plan --log-level inof
refused 2 "--model is missing; give --model NAME\[,key=value...]" profile
refused 2 "--micro-batch: more than 32 numbers" profile --model lenet5 --micro-batch "$(seq -s , 33)"
refused 2 "--class-weights: more than 1024 numbers" check --class-weights "$(yes 1 | head -n 1025 | paste -s -d , -)"
refused 2 "--model is missing" check --class-weights "$(yes 1 | head -n 1024 | paste -s -d , -)"
refused 2 "--micro-batch: '' is not a whole number" profile --model lenet5 --micro-batch 8,,16
refused 2 "--micro-batch: '0' is out of range" profile --model lenet5 --micro-batch 0
refused 2 "lenet.*did you mean 'lenet5'" profile --model lenet
refused 2 "inptu" models --model lenet5,inptu=32
refused 2 "--model is missing; -o writes one network" models -o x.json
refused 2 "--plan is missing; give --plan FILE, or --check FILE" program
refused 2 "--plan and --check contradict each other; give one of them" program --plan a --check b
refused 2 "--csv: takes one run, not 2" report --csv - a b
refused 2 "--memory: memory is counted with --plan FILE and --profile FILE only" program --check a --memory 1GiB
refused 2 "--cluster: memory is counted with --plan FILE and --profile FILE only" program --plan a --cluster c
refused 2 "--data: what to train on must be said" train --model lenet5 --workers 2
refused 2 "--schedule and --plan contradict" train --plan p --schedule gpipe --data synthetic:images
refused 2 "--epochs and --steps contradict" train --plan p --data synthetic:images --epochs 1 --steps 4
refused 2 "--lr: 'fast' is not understood; give RATE, as a decimal fraction or with an exponent" train --lr fast
refused 2 "--restarts: needs a run directory \(--out\) to resume from" train --restarts 3 --model lenet5 --data synthetic:images
refused 2 "--launch: needs --restarts N: how often what is lost may be started again" train --launch 'mpirun -n %d'
hinted "a launcher alone stands before the program, as in mpirun -n 4 penstock train"
(ulimit -s 64 && "$plain" profile --model lenet5,input=16 --micro-batch 4 --repeats 1 -q -o small.json >out 2>err)
case $? in
0) ;; # it may raise the limit
2) grep -q 'the limit of the stack is 64 KiB; 256 KiB are needed' err && hinted "ulimit -s sets it" ;;
*) complain "a small stack: ends badly" ;;
esac
(ulimit -S -s 64 && "$plain" profile --model lenet5,input=16 --micro-batch 4 --repeats 1 -q -o small.json >out 2>err) ||
    complain "a small stack that may be larger: ends with $?"
said=$( (ulimit -f 0 && exec "$PENSTOCK" profile --model lenet5,input=16 --micro-batch 4 --repeats 1 -q -o limited.json) 2>&1)
[ $? = 5 ] || complain "a limit of files' sizes: ends badly"
case $said in *limited.json*"File too large"*) ;; *) complain "a limit of files' sizes: not said: $said" ;; esac
refused 2 "--lr: 'nan' is not understood" train --lr nan
refused 2 "--lr: '-1' is out of range" train --lr=-1
refused 2 "--betas: '0.9' is not understood" train --betas 0.9
refused 2 "--betas: '1' is out of range" train --betas 0.9,1
refused 2 "--seed: '-1' is not a seed; accepted: 0 to 18446744073709551615" train --seed=-1
refused 2 "--trace: needs a run directory \(--out\) to write to" train --model lenet5 --workers 2 --data synthetic:images --trace
refused 2 "--run RUN_DIR, or --model NAME and --init FILE, must be given" evaluate --data synthetic:images
refused 2 "--run RUN_DIR or --model NAME must be given" predict --data synthetic:images
refused 2 "--data SPEC, or --prompt TEXT, must be given" predict --run r
refused 2 "--run RUN_DIR, or --model NAME and --init FILE, must be given" evaluate --weights f --data synthetic:images
grep -q '^warning: --weights FILE is now called --init FILE$' err || complain "does not say how --weights is called now"
for option in "--tokens 4" "--temperature 0" "--top-k 3" "--seed 9" "--tokenizer t.json" "--vocabulary v.json"; do
    refused 2 "${option% *} and --data contradict" predict --run r --data synthetic:images $option
done
refused 2 "--run and --weights contradict" evaluate --run r --weights f --data synthetic:images
refused 2 "--format: 'safetensor' is not known; did you mean 'safetensors'" export --format safetensor
refused 2 "--output is missing" export --run r

done_by --help && says "Usage: penstock COMMAND"
done_by help && says "Usage: penstock COMMAND"
refused 2 "'pln' is not a command; did you mean 'plan'" help pln
done_by --version && says "^penstock [0-9]+\.[0-9]+"
for command in models profile plan program simulate train evaluate predict compare export cluster check report; do
    done_by $command --help && says "^Usage: penstock $command" && says "^Example:"
    sed '/^Example/,$d' out | grep -Eq '^ .{100}' && complain "$command: lines of more than 100 columns"
    done_by help $command && says "^Usage: penstock $command" && says "^Example:"
done

for format in idx cifar10 cifar100 images reviews pairs text synthetic; do
    done_by train --help && says "[ ,]$format:"
done

begins "files that are missing or wrong"
{
    echo name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes
    for i in 1 2 3 4 5 6 7 8; do echo "layer$i,0.001,0.002,4000,1000,3000"; done
} >even.csv
refused 3 "nowhere" plan --profile nowhere --workers 2
refused 3 "nowhere" simulate --plan nowhere --profile nowhere
refused 3 "nowhere" program --check nowhere
refused 3 "." program --check .
printf 'name,forward_s\n' >short.csv
refused 3 "short.csv: line 1" plan --profile short.csv --workers 2
printf 'name,forward_s,backward_s,parameter_bytes,output_bytes\na,1,2,x,4\n' >letters.csv
refused 3 "letters.csv: line 2.*parameter_bytes" plan --profile letters.csv --workers 2
printf '{"format": "penstock-profile", "version": 1, "model": ' >truncated.json
refused 3 "truncated.json" plan --profile truncated.json --workers 2
printf '{"format": "penstock-plan", "version": 1}' >other.json
refused 3 "other.json.*penstock-plan" plan --profile other.json --workers 2
printf '{"format": "penstock-plan", "version": 2}' >newer.json
refused 3 "newer.json.*version" simulate --plan newer.json --profile newer.json
printf '{"format": "penstock-cluster", "version": 1, "devises": []}' >cluster.json
refused 3 "devises.*did you mean 'devices'" plan --profile even.csv --cluster cluster.json
"$PENSTOCK" plan --profile even.csv --workers 2 --method uniform -q -o named.json >out 2>err || complain "a plan for the next lines"
for name in schedule weights optimizer; do
    sed "s/\"$name\": \"[a-z0-9-]*\"/\"$name\": \"1f1bb\"/" named.json >misnamed.json
    refused 3 "misnamed.json: $name: '1f1bb' is not known.* \(line [0-9]+\)" program --plan misnamed.json
done
printf 'no program' >no-program.txt
refused 3 "no-program.txt: line 1" program --check no-program.txt
printf 'a\000b' >zero.txt
refused 3 "zero.txt: not a text file" program --check zero.txt
# More than is read at a time, from a file and from a stream.
done_by program --plan named.json --batches 2000
mv out long.txt
[ "$(wc -c <long.txt)" -gt 200000 ] || complain "a listing of $(wc -c <long.txt) bytes is not long"
done_by program --check long.txt && says '^long.txt: verified: order, no deadlock, weight versions and use of blocks$'
sed 's/^long.txt: /standard input: /; s/^-: /standard input: /' out >checked
cat long.txt | "$PENSTOCK" program --check - >out 2>err || complain "--check -: status $?"
sed 's/^-: /standard input: /' out | cmp -s - checked || complain "a listing on standard input: $(head -n 3 out)"
echo 'no instruction' >>long.txt
refused 3 "long.txt: line [0-9]+" program --check long.txt
mkdir no-data
refused 3 "no-data" train --model lenet5 --workers 1 --data idx:no-data --steps 1
refused 2 "idxx.*did you mean 'idx'" train --model lenet5 --workers 1 --data idxx:no-data --steps 1
refused 3 "--run: no-data holds no run$" evaluate --run no-data --data synthetic:images
refused 3 "--run: no-data holds no run$" predict --run no-data --data synthetic:images
refused 7 "--run: no-data holds no run$" evaluate --run no-data --data synthetic:images --workers 2
refused 7 "--run: no-data holds no run$" predict --run no-data --data synthetic:images --workers 2
: >pictures.npz
printf 'PK\003\004' >weights.pt
mkdir -p folder
refused 2 "data 'pictures.npz': the format must stand before it, as in npz:pictures.npz" train --model lenet5 --data pictures.npz
refused 2 "data 'folder': the format must stand before it, as in FORMAT:folder" train --model lenet5 --data folder
refused 2 "model 'net.onx': there is no such file, and no such network is built in" train --model net.onx --data synthetic:images
grep -q '^known: lenet5, .*files are NAME.onnx' err || complain "does not say what networks there are"
refused 3 "weights.pt: an archive, as torch.save writes weights, and no network$" train --model weights.pt --data synthetic:images
grep -q '^networks come as ONNX' err || complain "does not say what networks come as"
refused 2 "--freeze: no parameter has a name like 'cnov1.\*'" train --model lenet5 --data synthetic:images --freeze 'cnov1.*'
refused 2 "--freeze: no parameter has a name like 'fc9.\*'" train --model lenet5 --data synthetic:images --freeze 'fc1.*,fc9.*'
grep -q '^there are conv1.weight, conv1.bias, conv2.weight, .* and 2 others$' err || complain "does not say which parameters there are"
refused 2 "--groups: no parameter has a name like 'fc9.\*'" train --model lenet5 --data synthetic:images --groups 'fc9.*:lr=1'
for option in "plan --wire bogus" "compare --wire bogus" "compare --wires none,bogus" "plan --wire auto:bogus" "plan --wire gradient=bogus"; do
    # shellcheck disable=SC2086
    refused 2 "--wire: 'bogus' is not none, bf16, int8 or topk:SHARE$" $option --profile even.csv --workers 2
    hinted "or by what is sent, as in activation=int8\+gradient=bf16\+sum=int8; or auto:bf16, auto:int8, auto:topk:SHARE: .*"
done
refused 2 "--wire: 'sums=int8' is not activation=CODEC, gradient=CODEC or sum=CODEC$" \
    plan --wire activation=int8+sums=int8 --profile even.csv --workers 2
refused 2 "--wires: '[x]{40}...' is too long" compare --wires "$(printf '%064d' 0 | tr 0 x)" --profile even.csv --workers 2
refused 2 "nothing to train: give a --model or a --plan" train --data synthetic:images
refused 7 "no-data" export --run no-data -o weights
while IFS='|' read -r said options; do
    # shellcheck disable=SC2086
    refused 2 "$said\$" train --model lenet5 --data synthetic:images,samples=4000 $options
done <<'END'
--tensorboard: needs a run directory \(--out\) to write to|--tensorboard
--keep best: needs a run directory \(--out\) to write to|--keep best
--checkpoint-every: needs a run directory \(--out\) to write to|--checkpoint-every 4
--checkpoint-minutes: needs a run directory \(--out\) to write to|--checkpoint-minutes 3
--keep-checkpoints: needs a run directory \(--out\) to write to|--keep-checkpoints 3
--valid-bleu: needs --valid with pairs of sentences|--valid-bleu 4
--valid-bleu: synthetic:images are no pairs of sentences|--valid-bleu 4 --valid synthetic:images
--best-by: bleu is not known of this run's evaluations; --valid-bleu counts it|--patience 3 --best-by bleu --valid synthetic:images
--best-by: perplexity is not known of this run's evaluations|--best-by perplexity --valid synthetic:images
--best-by: there is nothing to evaluate on; give --valid|--best-by loss
--patience: there is nothing to evaluate on; give --valid|--patience 3
--epochs: 4000000000 steps are more than a run can have|--epochs 1000000 --batch 1
--lengths: lenet5 translates nothing: its samples have no source and target|--lengths 4,8
--groups: the trained parameters of 'fc1.weight' are all in groups before it|--groups fc1.*:lr=0.1;fc1.weight:lr=0.2
--emulate: transport serial runs all workers in one thread; threads and mpi can emulate|--emulate --transport serial --workers 2
END
grep -q profiling err && complain "--emulate --transport serial is refused after the profile"
while IFS='|' read -r said options; do
    # shellcheck disable=SC2086
    refused 2 "$said\$" train --plan named.json $options
done <<'END'
--data: what to train on must be said|
--device: clock takes as long as a profile says; give one as --profile|--device clock --steps 3
--steps: device clock reads no data, so steps and not epochs must be given|--device clock --profile even.csv
--lengths: device clock reads no data|--device clock --profile even.csv --lengths 4,8 --steps 2
--lr-per-epoch: this run has no epochs|--device clock --profile even.csv --steps 2 --lr-per-epoch
--emulate: transfers run beside computation and begin when it is over|--device clock --profile even.csv --steps 2 --emulate --streaming
--emulate: transfers run beside computation and begin when it is over|--device clock --profile even.csv --steps 2 --emulate --no-overlap
model: 'even' is not known|--data synthetic:images
END
hinted "a network that is not built in must be given as a file \(--model FILE\)"

begins "networks"
done_by models && says "lenet5 .* 61706 " && says "vgg16 "
done_by models --json && says_json "models" && says '"name": "lenet5".*"parameters": 61706,.*"input_shape": \[1, 28, 28\], "inputs": \[{"name": "data"'
done_by models --model lenet5,classes=7 --json && says_json "models" && says '"name": "fc3", .*"output_shape": \[7\]'
cat >two.json <<'END'
{"format": "penstock-network", "version": 1, "name": "two",
 "inputs": [{"name": "left", "shape": [4]}, {"name": "right", "shape": [4]}],
 "nodes": [{"name": "sum", "operator": "add", "inputs": ["left", "right"]}, {"name": "last", "operator": "linear", "channels": 2},
           {"name": "loss", "operator": "cross_entropy"}]}
END
sed 's/"last"/"a_name_as_long_as_exporters_of_networks_make_them"/' two.json >long.json
done_by models --model long.json
awk '/^layer/ { at = index($0, "kind") } at && / (add|linear) / { if (match($0, /  (add|linear) /) + 2 != at) exit 1; rows++ } END { exit rows != 2 }' out ||
    complain "models: columns that do not align"
done_by models --model two.json && says "inputs left [(]f32[)] 4, right [(]f32[)] 4, 2 classes"
done_by models --model two.json --json && says_json "models" && says '"inputs": \[{"name": "left", "type": "f32", "shape": \[4\], '

begins "devices"
done_by devices && says "^cores +[1-9]" && says "^  cpu +" && says "^  threads +" && says "^memory +[1-9].* free"
done_by devices --json && says_json "devices" && says '"cores": [1-9]' && says '"name": "reference"'

begins "profile, plan, program, simulation"
done_by plan --profile even.csv --workers 4 --schedule DAPPLE --bandwidth 100Gbps --memory 1G -q -o dapple.json &&
    grep -q '"schedule": "1f1b"' dapple.json || complain "plan: dapple is not 1f1b"
# Names in papers: schedule, weights, and ours for both.
while read -r schedule weights ours_schedule ours_weights; do
    done_by plan --profile even.csv --workers 2 --method uniform --schedule "$schedule" --weights "$weights" -q -o named.json
    grep -q "\"schedule\": \"$ours_schedule\"" named.json || complain "plan: schedule $schedule is not $ours_schedule"
    grep -q "\"weights\": \"$ours_weights\"" named.json || complain "plan: weights $weights are not $ours_weights"
done <<END
1f1b-sno sync 1f1b sync
1F1B-flush sync 1f1b sync
pipedream pipedream 1f1b-async stash
pipedream Vanilla 1f1b-async latest
1f1b-async pipedream-2bw 1f1b-async 2bw
END
done_by plan --profile even.csv --workers 4 --schedule 1f1b-async --weights pipeoptim --optimizer adam -o plan.json &&
    says "1f1b-async" && says "pipeoptim"
done_by plan --profile even.csv --workers 4 --schedule 1f1b-async --weights pipeoptim --optimizer adam --json -q -o again.json &&
    says_json "plan"
[ "$(grep -v solve_s plan.json)" = "$(grep -v solve_s again.json)" ] || complain "the same plan twice is not the same"
[ "$(grep -v solve_s out)" = "$(grep -v solve_s again.json)" ] || complain "plan --json is not what -o writes"
refused 4 "stage [0-3] .* needs .* has 1.00 KiB" plan --profile even.csv --workers 4 --memory 1KiB
sed 's/\[7, 8\]/[7, 9]/; s/^\( *\)8$/\19/' plan.json | sed 's/"layers": \[ *7, *8 *\]/"layers": [7, 9]/' >past.json
refused 3 "past.json|9 is past the model's last layer 8" simulate --plan past.json --profile even.csv
refused 5 "nowhere/plan.json" plan --profile even.csv --workers 2 -o nowhere/plan.json
refused 5 "--output: .: is a directory" plan --profile even.csv --workers 2 -o .
# before anything is measured: this network would take longer than the test may
refused 5 "--output: nowhere/p.json: cannot write: No such" profile --model resnet,blocks=1000,input=1000 -o nowhere/p.json

done_by program --plan plan.json --batches 5 && says "^worker 3: "
cp out program.txt
done_by program --check program.txt && says "verified" && says "largest staleness" && says "^ *0 .* 3$"
refused 2 "schedule 1f1b-async: weights are updated while" program --plan plan.json --format torch-csv
done_by plan --profile even.csv --workers 2 --schedule gpipe --weights sync --micro-batches 2 -o flushing.json
done_by program --plan flushing.json --format torch-csv && says "^0F0,0F1,0B0,0B1$" && says "^1F0,1F1,1B0,1B1$"
done_by program --plan plan.json --batches 5 --json && cp out printed.json
says_json program
done_by program --check program.txt --json && cmp -s out printed.json ||
    complain "print, parse, print is not the identity"
"$PENSTOCK" program --check - <program.txt >out 2>err || complain "program --check - failed"
done_by program --plan plan.json --batches 800 && cp out long.txt
[ "$(wc -c <long.txt)" -gt 131072 ] || complain "no long listing"
"$PENSTOCK" program --check - <long.txt >out 2>err || complain "program --check - failed on a long listing"
sed 's/3B0@[0-9]*/3B0@9/' program.txt >wrong-slot.txt
refused 3 "wrong-slot.txt: .*3B0" program --check wrong-slot.txt
sed 's/ 1SG2[^ ]*//' program.txt >no-send.txt
refused 3 "no-send.txt: " program --check no-send.txt

done_by program --plan plan.json --profile even.csv --memory 1GiB && says "^worker 3: "
refused 4 "worker 0: 0[A-Z]*[0-9].* does not fit: .* the limit is 1.00 KiB" \
    program --plan plan.json --profile even.csv --memory 1KiB
refused 2 "--memory: .* --profile" program --plan plan.json --memory 1KiB
"$PENSTOCK" simulate --plan plan.json --profile even.csv --memory 1KiB >out 2>err
[ $? -eq 4 ] && grep -q "worker 0: 0[A-Z]*[0-9].* does not fit" err && says "^period" || complain "simulate passes over --memory"

done_by simulate --plan plan.json --profile even.csv --bandwidth 1GB/s --svg timeline.svg --trace trace.json &&
    says "[0-9]"
grep -q "<svg" timeline.svg && grep -q "</svg>" timeline.svg || complain "timeline.svg is no drawing"
head -c 1 trace.json | grep -q '[[{]' || complain "trace.json is not JSON"
refused 2 "--svg and --trace: both would be written to ./trace.json; give two files" \
    simulate --plan plan.json --profile even.csv --svg trace.json --trace ./trace.json
refused 2 "--svg and --trace: both .* -; give two files" simulate --plan plan.json --profile even.csv --svg - --trace -
refused 2 "--csv and --svg: both .*/rows; give two files" compare --workers 2 --profile even.csv --svg ./rows --csv rows
"$PENSTOCK" simulate --plan plan.json --profile even.csv -q --svg /dev/null --trace /dev/null >/dev/null 2>err || complain "/dev/null twice"
done_by simulate --plan plan.json --profile even.csv --bandwidth 1GB/s --svg arrows.svg --arrows && says '^critical path' &&
    says '^worker 0 .*▒'
grep -q 'class="arrow ' arrows.svg || complain "arrows.svg has no arrows"
done_by simulate --plan plan.json --profile even.csv --bandwidth 1GB/s --against trace.json && says '^period .*0\.0%'
refused 3 "no-trace" simulate --plan plan.json --profile even.csv --against no-trace
done_by simulate --plan plan.json --profile even.csv --json -q && says_json simulate && says '"period_s": 0\.006'
for field in makespan_s throughput_samples_per_s bubble busy_s idle_s fill_drain dependency communication imbalance \
    memory_bytes weight_copies; do
    says "\"$field\""
done

begins "plans for comparison, and comparisons"
refused 2 "--replicate: method uniform has no replicas" plan --profile even.csv --workers 2 --method uniform --replicate
refused 2 "--replicate: method madpipe has no replicas; auto, pipedream, " plan --profile even.csv --workers 2 --method madpipe --replicate
refused 2 "--paper-cost: method auto" plan --profile even.csv --workers 2 --paper-cost
refused 2 "--batch: 3 samples" plan --profile even.csv --workers 2 --batch 3
sed 's/^layer1,0.001/layer1,0.030/' even.csv >heavy.csv
done_by plan --profile heavy.csv --workers 4 --method pipedream-paper --replicate -o replicas.json && says "objective 13\.250 ms" &&
    says "a mini-batch every 13\.[0-9]* ms"
done_by program --plan replicas.json --batches 6 && says "replica 1/" && says "0AR0" && cp out replicas.txt &&
    done_by program --check replicas.txt
# broken FILE REASON SED: its first worker's program is changed, which is refused with the instruction's name.
broken() {
    sed "/^worker 0/$3" "$1" >broken.txt
    cmp -s "$1" broken.txt && complain "$3 changes nothing"
    refused 3 "broken.txt: worker 0: 0[A-Z]+[0-9].*: $2" program --check broken.txt
}
broken replicas.txt "the gradients are added up a second time" 's/0AR0/& 0AR0/'
broken replicas.txt "the gradients of the replicas are not added up" 's/0AR0 //'
broken replicas.txt "gradients are not added in the order of the micro-batches" 's/ 0U0@[0-9:]*//'
broken replicas.txt "is outside the segment" 's/0AR0/0AR3/'
broken replicas.txt "the mini-batch's gradients are not complete" 's/ 0B0[^ ]*//'
broken replicas.txt "updates are not in the order of the mini-batches" 's/0U0@[0-9:]*/& &/'
done_by plan --profile even.csv --workers 2 --method uniform --schedule gpipe --weights sync --micro-batches 4 -o straight.json
done_by program --plan straight.json --batches 1 && cp out straight.txt
broken straight.txt "the stage has no replicas, and shares no parameter with another" 's/ 0U0@/ 0AR0&/'
broken straight.txt "its transfer has only one end" 's/$/ 0RG3<1,g0/'
done_by simulate --plan replicas.json --profile heavy.csv && says "period *13\."
done_by train --plan replicas.json --profile heavy.csv --device clock --steps 8
done_by plan --profile heavy.csv --workers 4 --method pipedream --replicate && says "13\.[0-9]* ms"
done_by plan --profile heavy.csv --workers 9 --method auto --replicate && says "a mini-batch every [0-9]*\.[0-9]* ms"
done_by train --profile heavy.csv --device clock --workers 3 --method auto --replicate --steps 6
# Many workers, of which pairs and rings are not counted one by one.
{ head -n 1 even.csv && for i in $(seq 130); do echo "layer$i,0.001,0.002,4000,1000,3000"; done; } >deep.csv
done_by plan --profile deep.csv --workers 1024 --method pipedream --replicate && says "objective 381 us"
done_by plan --profile even.csv --workers 512 --method pipedream --replicate --bandwidth 1GB/s && says "objective 4[0-9]\.[0-9] us"
refused 2 "--replicate: schedule 1f1b-star has no replicas; these have: naive," plan --profile heavy.csv --workers 4 \
    --method pipedream-paper --replicate --schedule 1f1b-star
refused 2 "--micro-batches: 3 of a mini-batch; data parallelism on 4 workers needs at least 4" plan --profile heavy.csv --workers 4 \
    --method data-parallel --replicate --weights sync --micro-batches 3
refused 2 "--replicate: weights 2bw" plan --profile heavy.csv --workers 4 --method data-parallel --replicate --weights 2bw
done_by plan --profile heavy.csv --workers 4 --method bipartition-paper --schedule zb-h1 -o split.json &&
    says "neither run nor simulated"
grep -q '"period_s"' split.json && complain "a plan that cannot be simulated has a period"
refused 2 "schedule zb-h1 does not support split stages" simulate --plan split.json --profile heavy.csv
refused 2 "schedule zb-h1 does not support split stages" program --plan split.json
for method in bipartition bipartition-paper madpipe madpipe-paper; do
    done_by plan --profile heavy.csv --workers 4 --method $method && says "cut by $method" && says "objective"
done
done_by plan --profile even.csv --workers 4 --weights auto && says "limited by"
done_by compare --profile even.csv --workers 2,4,9 --methods uniform,auto,bipartition --schedules gpipe,1f1b-async \
    --bandwidth 1MB/s,1GB/s --memory 1KiB,1MiB && says "^workers .*memory .*bandwidth .*rank .*method .*schedule .*weights .*period" && says "9 workers" &&
    says "needs .* has 1.00 KiB"
[ "$(grep -c '^ .* uniform ' out)" -eq 24 ] || complain "compare does not have 24 rows for uniform"
done_by compare --profile even.csv --workers 2,4 --bandwidth 1MB/s,1GB/s --methods uniform,madpipe,auto --grid &&
    says "^workers *bandwidth *memory *uniform *madpipe *auto" && says "^ *4 *1GB/s *no limit .* x[34]\..* x[34]\..* x[34]\."
"$PENSTOCK" plan --profile even.csv --workers 9 --bandwidth 1GB/s --method pipedream -o idle.json 2>err >out &&
    grep -q "workers idle: a cut there costs more than it gains" err || complain "pipedream leaves no worker idle, or does not say so"
done_by simulate --plan idle.json --profile even.csv && done_by program --plan idle.json --batches 2
done_by train --plan idle.json --profile even.csv --device clock --steps 4 -q
printf '%s' '{ "format": "penstock-cluster", "version": 1, "devices": [ { "name": "a" }, { "name": "b", "speed": 0.5 } ] }' >two.json
done_by compare --profile even.csv --cluster two.json --methods pipedream --memory 1MiB,1GiB && says "^even: 2 workers, cluster's links" && says "^ *1GiB .*pipedream"
refused 2 "the cluster has 2 workers, not 3" compare --profile even.csv --cluster two.json --workers 3
refused 2 "--workers is missing" compare --profile even.csv
done_by compare --profile even.csv --workers 4 --json -q && says_json compare && says '"method": "auto"' && says '"speedup": 4\.0'

begins "the cores that a plan counts"
first=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
done_by profile --model lenet5,input=16 --micro-batch 16 --repeats 5 --busy 1 -q -o measured.json
refused 2 "'lenet99' is not known" compare --train --model lenet99 --profile measured.json --data synthetic:images --workers 2
# here COMMAND...: the figure that it gives of a plan for two workers on one core
here() { taskset -c "$first" "$PENSTOCK" "$@" --profile measured.json --json 2>err | figure; }
figure() { sed -n '/"throughput_samples_per_s"/{s/.*: *//;s/,.*//;p;q;}'; }
alone="--schedule 1f1b --weights sync --method uniform --micro-batches 1 --optimizer sgd"
# Words on purpose.
# shellcheck disable=SC2086
planned=$(here plan --workers 2 $alone -o -) && cp err why
grep -q "^info: 2 workers share this machine, where 1 can compute at a time; --cores or --bandwidth describe other machines$" why ||
    complain "plan does not say what it counts"
# shellcheck disable=SC2086
taskset -c "$first" "$PENSTOCK" plan --workers 2 $alone --profile measured.json -q -o here.json >out 2>err || complain "no plan"
# shellcheck disable=SC2086
taskset -c "$first" "$PENSTOCK" train --model lenet5,input=16 --profile measured.json --workers 2 $alone --batch 16 --steps 2 \
    --data synthetic:images,samples=32 --out here >out 2>err || complain "no run"
! grep -q "lengths" err || complain "a profile without lengths has those of no run without"
! grep -q "measured times" err || complain "a plan of a given profile is said to follow from a measurement"
[ -n "$planned" ] && [ "$(figure <here.json)" = "$planned" ] && [ "$(figure <here/plan.json)" = "$planned" ] &&
    [ "$(here simulate --plan here.json --batches 64)" = "$(here simulate --plan here/plan.json --cores 1 --batches 64)" ] ||
    complain "plan: $planned, train: $(figure <here/plan.json)"
# Where a cluster is meant, each worker has a core.
for cluster in "--cores 2" "--bandwidth 1000GB/s"; do
    # shellcheck disable=SC2086
    [ "$(here plan --workers 2 $alone $cluster -o -)" != "$planned" ] && ! grep -q "share this machine" err || complain "$cluster counts this machine's cores"
done
done_by compare --profile measured.json --workers 2 --methods uniform --schedules gpipe --cores 1 --json -q && figure <out >one
taskset -c "$first" "$PENSTOCK" compare --profile measured.json --workers 2 --methods uniform --schedules gpipe --json -q 2>err | figure | cmp - one ||
    complain "compare counts other cores"

begins "costs that a run does not agree with"
kept=$directory/kept
# once RUN: a run whose costs are kept in a place of its own, and which is stopped when it has trained for four seconds
# Whole seconds of training, without what lies between the steps.
trained_s() { sed -n 's/.*"training_s": \([0-9]*\).*/\1/p' "$1/log.jsonl" 2>/dev/null | tail -n 1 | grep . || echo 0; }
once() {
    : >err
    XDG_CACHE_HOME=$kept "$PENSTOCK" train --model lenet5,input=16 --workers 1 --schedule 1f1b --weights sync --micro-batches 1 \
        --batch 16 --data synthetic:images,samples=32 --device reference --steps 100000000 --checkpoint-every 100000000 --out "$1" >out 2>err &
    while kill -0 $! 2>/dev/null && [ "$(trained_s "$1")" -lt 3 ]; do sleep 0.1; done
    kill -TERM $!
    wait $!
    [ $? -eq 75 ] || complain "a run that is stopped: status $?"
}
once first
grep -q "found in\|anew, as" err && complain "costs are found that nobody measured"
file=$(find "$kept" -name '*.profile')
# Each layer's forward takes a second; the checksum of what follows stands in the first line.
sed '1d; s/^doubted$/measured/; s/"forward_s": [0-9.e-]*/"forward_s": 1/' "$file" >rest
{
    gzip -c <rest | tail -c 8 | od -An -tx4 -N4 | tr -d ' '
    cat rest
} >"$file"
once slow
grep -q ": found in" err || complain "costs that are kept are not found"
grep -q "^info: trained at [0-9.e+]* samples/s where [0-9.]* were predicted: the costs that are kept of this network will be measured anew the next time$" err ||
    complain "a run does not notice that it is much faster than its costs say"
once again
grep -q "^info: profiling .*: anew, as a run did not agree with what was measured before$" err || complain "costs are taken that a run did not agree with"
grep -q '"forward_s": 1,' "$file" && complain "the old costs are kept"

begins "a hint that fits"
refused 4 "needs .*, but worker 1 has 100 KiB" plan --profile measured.json --workers 2 --memory 100KiB
fitting=$(sed -n 's/^with --memory \([^ ]*\) for each worker a plan fits$/\1/p' err)
[ -n "$fitting" ] && done_by plan --profile measured.json --workers 2 --memory "$fitting" -q

begins "what repeats a run"
one="--model lenet5,input=16 --data synthetic:images,samples=64 --batch 16"
for threads in "" "--workers 1 --threads 2"; do
    # shellcheck disable=SC2086
    done_by train $one $threads --steps 3 --out measured-cut
    how=$(sed -n 's/^info: the plan follows from measured times: another measurement may cut elsewhere, .*; \(.*\) repeats this one$/\1/p' err)
    case "$threads $how" in
    *" --plan measured-cut/plan.json --threads 2" | " --plan measured-cut/plan.json"*) ;;
    *) complain "nothing says that the cut was measured, and what repeats it" ;;
    esac
    # shellcheck disable=SC2086
    done_by train $how ${one#--model * } --steps 3 --out repeated &&
        [ "$(sum measured-cut)" = "$(sum repeated)" ] || complain "$how: does not repeat the run"
    rm -rf measured-cut repeated
done

begins "where costs are kept"
# XDG_CACHE_HOME, HOME, OPTION, and the place where the one profile is then; none: nothing is kept. Places that are not absolute are none.
while IFS='|' read -r cache home option place; do
    rm -rf kept-costs && mkdir kept-costs && cd kept-costs || exit 1
    unset_too=
    [ "$cache" != unset ] || unset_too="-u XDG_CACHE_HOME"
    [ "$home" != unset ] || unset_too="$unset_too -u HOME"
    # shellcheck disable=SC2086
    (export XDG_CACHE_HOME="$cache" HOME="$home" && exec env $unset_too "$PENSTOCK" train --model lenet5,input=12 --workers 1 --schedule 1f1b --weights sync --micro-batches 1 \
        --batch 2 --data synthetic:images,samples=2,size=12 --steps 1 --device reference -q $option) >../out 2>../err
    status=$?
    cd ..
    [ $status -eq 0 ] || complain "costs for '$cache' and '$home': status $status"
    found=$(cd kept-costs && find . -type f | sed 's:/[^/]*$::')
    [ "$found" = "$place" ] || complain "costs for '$cache' and '$home' $option are in '$found', not '$place'"
done <<X
$PWD/kept-costs/cache|$PWD/kept-costs/home||./cache/penstock
$PWD/kept-costs/cache|$PWD/kept-costs/home|--no-cache|
|$PWD/kept-costs/home||./home/.cache/penstock
./cache|$PWD/kept-costs/home||./home/.cache/penstock
cache|$PWD/kept-costs/home||./home/.cache/penstock
cache|home||
./cache|./home||
unset|$PWD/kept-costs/home||./home/.cache/penstock
unset|unset||
|||
X

begins "what is started again, and with what words"
# The launcher's shell would be checked, too.
checked=$PENSTOCK PENSTOCK=$plain
# It is as if training were lost twice, after it has ended.
cat >record <<'X'
workers=$1 program=$2
shift 2
echo "$workers: $*" >>calls
"$program" "$@" || exit
[ "$(wc -l <calls)" -ge 3 ] || exit 137
X
again="train --model lenet5,input=12 --workers 2 --method uniform --schedule gpipe --weights sync --micro-batches 2 --batch 4
    --data synthetic:images,samples=4,size=12 --steps 1 --device reference --out again"
# MORE|WITH RESUME: options, and those of them that a run which goes on does not know by itself
while IFS='|' read -r more resumed; do
    rm -rf again calls
    # shellcheck disable=SC2086
    done_by $again --restarts=3 $more --launch 'sh ./record %d'
    # shellcheck disable=SC2086
    {
        echo "2: $(echo $again)${more:+ $more}"
        echo "2: train --resume again${resumed:+ $resumed}"
        echo "1: train --resume again${resumed:+ $resumed} --workers 1"
    } | cmp -s - calls || complain "$more: other words: $(cat calls)"
    case $more in
    *-q*) ! grep -q warning: err || complain "a warning though -q is said" ;;
    *)
        grep '^warning: ' err >out
        printf 'warning: training ended with status 137 at checkpoint 1; starting it again%s left\n' ', 2 restarts are' ' with a worker less, 1 restart is' |
            cmp -s - out || complain "$more: other warnings"
        ;;
    esac
done <<X
|
--json --trace --transport threads -q|--json --quiet --trace --transport threads
--log-level debug|--log-level debug
--log-level=error|--log-level error
X
[ -s again/plan.json ] || complain "no run"
# STATUS OF THE LAUNCHER|TIMES IT IS STARTED|STATUS|WHAT IS SAID
while IFS='|' read -r ends times wanted said; do
    rm -rf calls never
    echo "echo >>calls; exit $ends" >ended
    "$PENSTOCK" train --model lenet5 --data synthetic:images --out never --restarts 2 --launch 'sh ./ended' -q >out 2>err
    status=$?
    [ $status -eq "$wanted" ] && [ "$(wc -l <calls)" -eq "$times" ] && [ "$(cat err)" = "$said" ] ||
        complain "a launcher that ends with $ends: $(wc -l <calls) times, status $status"
done <<X
0|1|0|
3|1|3|
6|3|6|
9|3|6|penstock: training ended with status 9, and no restart is left
10|1|10|
128|1|128|
129|3|6|penstock: training ended with status 129, and no restart is left
X
PENSTOCK=$checked

begins "progress on a narrow terminal"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    # shellcheck disable=SC2086
    script -qec "stty cols 40; '$PENSTOCK' train $one --steps 200 --workers 2 --method uniform" typescript >out 2>&1
    tr '\r' '\n' <typescript | sed "s/$(printf '\033')\[[0-9;]*[A-Za-z]//g" >shown
    grep -q '^training .*/200)' shown || complain "no progress"
    grep '^\(training\|profiling\|planning\) .*[0-9]/[0-9]' shown | grep -E '^.{40}' && complain "progress takes the 40 columns, or more"
fi

begins "colours and widths"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    # on VARIABLE=VALUE... COMMAND: on a terminal of 50 columns; what it shows is in the file shown, with ESC for escapes.
    on() {
        script -qec "stty cols 50; exec env $*" typescript >out 2>&1
        sed "1d; /^Script done/d; s/$(printf '\033')/ESC/g" typescript | tr -d '\r' >shown
    }
    plan="'$PENSTOCK' plan --profile even.csv --workers 2 --method pipedream -o coloured.json --log-level"
    on TERM=xterm NO_COLOR= "$plan" debug
    grep -q '^ESC\[2mdebug:ESC\[0m pipedream, ' shown || complain "no colour: $(head -n 2 shown)"
    for plain in TERM=dumb "TERM=xterm NO_COLOR=1" "-u TERM"; do
        on "$plain" "$plan" debug
        grep -q '^debug: pipedream, ' shown && ! grep -q ESC shown || complain "$plain: $(head -n 2 shown)"
    done
    one_layer="'$PENSTOCK' train --model lenet5,input=12 --data synthetic:images,samples=4,size=12 --batch 4 --steps 1 --workers 1 --device reference"
    on TERM=xterm NO_COLOR= "$one_layer"
    grep -q 'ESC\[36minfo:ESC\[0m ' shown && grep -q '^warn: nothing is kept' shown || complain "no colours: $(head -n 3 shown)"
    on TERM=xterm NO_COLOR= "'$PENSTOCK' simulate --plan coloured.json --profile even.csv --batches 1"
    grep -q '^worker 0  *ESC\[38;5;' shown || complain "a timeline without colours: $(tail -n 3 shown)"
    for plain in TERM=dumb "TERM=xterm NO_COLOR=1" "-u TERM"; do
        on "$plain" "'$PENSTOCK' simulate --plan coloured.json --profile even.csv --batches 1"
        ! grep -q ESC shown || complain "$plain: a timeline with colours"
        [ "$(grep '^worker 0 .*▒' shown | sed 's/▒\|█\|·/x/g' | awk '{ print length }')" = 50 ] || complain "$plain: the timeline has not 50 columns"
    done
fi

begins "how long it still takes"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    total=1500000
    script -qec "stty cols 80; timeout -s INT 2 '$PENSTOCK' train --model lenet5,input=12 --data synthetic:images,size=12 --batch 4 \
        --device reference --workers 1 --steps $total" typescript >out 2>&1
    # "training   0% (725/1500000)  0:01, 51:43 left  epoch 1, ...": no less than by the steps and seconds so far
    tr '\r' '\n' <typescript | sed -n "s/.*training *0% (\([0-9]*\)\/$total)  0:\([0-9]*\), \([0-9:]*\) left.*/\1 \2 \3/p" >shown
    awk -v total=$total '
        { n = split($3, part, ":"); for (p = 2; p <= n; p++) if (part[p] !~ /^[0-5][0-9]$/) print "wrong: " $3; minutes = (n > 2 ? 60 * part[1] : 0) + part[n - 1]; unlike += part[n - 1] != part[n] }
        minutes + 1 < $2 * (total - $1) / $1 / 60 { print "wrong: " $0 }
        END { if (!unlike) print "no time, or minutes that are always the seconds" }' shown >wrong
    [ -s wrong ] && complain "time left: $(cat wrong)"
fi

begins "where the results go"
"$PENSTOCK" models >/dev/full 2>err
[ $? -eq 5 ] || complain "a full disk is not status 5"
"$PENSTOCK" models >&- 2>err
[ $? -eq 5 ] || complain "a closed standard output is not status 5"
# What is opened stands in the place of none of the three.
"$PENSTOCK" program --check - <&- >out 2>err
[ $? -eq 3 ] && grep -q '^penstock: standard input: Bad file descriptor$' err || complain "a closed standard input: $(cat err)"
"$PENSTOCK" plan --profile even.csv --workers 2 --method uniform -o closed.json --log-level debug >out 2>&- || complain "a closed standard error: status $?"
head -n 1 closed.json | grep -qx '{' && tail -n 1 closed.json | grep -qx '}' || complain "a file in place of standard error"
# As of `| head`, once it has enough: the reader goes before anything is written.
{
    until [ -e reader-is-gone ]; do sleep 0.05; done
    "$PENSTOCK" train --help 2>err
    echo $? >piped-status
} | { exec <&- && : >reader-is-gone; }
until_so test -s piped-status
[ "$(cat piped-status)" -eq 0 ] && [ ! -s err ] || complain "a pipe that nobody reads further is status $(cat piped-status), or said"

for piped in pipe file; do
    # The file itself and nothing else, behind what stands there already.
    case $piped in
    pipe) "$PENSTOCK" profile --model lenet5 --device gpu:v100 -q -o - 2>err | cat >out ;;
    file)
        { echo before && "$PENSTOCK" profile --model lenet5 --device gpu:v100 -q --json -o - 2>err && echo behind; } >out
        [ "$(sed -n '1p;$p' out | tr '\n' ' ')" = "before behind " ] || complain "profile -o -: what is written before and behind it"
        sed -i '1d;$d' out
        ;;
    esac
    says_json "profile -o - ($piped)"
    cmp -s out standard.profile || [ $piped = pipe ] || complain "profile -o -: not the same into a file as into a pipe"
    cp out standard.profile
done
"$PENSTOCK" plan --profile standard.profile --workers 2 -q -o - >standard.plan 2>err &&
    "$PENSTOCK" simulate --plan standard.plan --profile standard.profile -q --svg - >out 2>err
[ "$(head -c 4 out)" = "<svg" ] || complain "simulate --svg -: no picture on standard output"
[ ! -e - ] || complain "a file is called -"

begins "training"
train="train --model lenet5 --workers 2 --schedule 1f1b --weights sync --micro-batch 8 --micro-batches 2 --batch 16
    --optimizer adam --lr 0.002 --data synthetic:images,samples=128 --valid synthetic:images,samples=32 --epochs 1 --seed 3"
# Words on purpose.
# shellcheck disable=SC2086
done_by $train --out run --json -q --trace && says_json train
says '"loss"' && says '"samples_per_s"'
for file in plan.json config.json log.jsonl summary.json trace.json timeline.svg; do
    [ -s "run/$file" ] || complain "train left no $file"
done
# Eight steps, the last at the end of an epoch: a line has the means of its own steps, the last one the epoch's as well.
awk 'match($0, /"loss": [0-9.]+/) { sum += substr($0, RSTART + 8, RLENGTH - 8); lines++ }
     match($0, /"epoch_loss": [0-9.]+/) { epoch = substr($0, RSTART + 14, RLENGTH - 14); ends++ }
     END { gap = sum / lines - epoch; exit !(lines == 8 && ends == 1 && gap < 1e-5 && gap > -1e-5) }' run/log.jsonl ||
    complain "log.jsonl: epoch_loss is not the mean of loss"
refused 2 "--evaluate-every: there is nothing to evaluate on; give --valid" train --model lenet5 --workers 2 --data synthetic:images \
    --steps 2 --evaluate-every 1
# What is found before anything is measured, and the network that costs are for.
: >a-file
for place in a-file a-file/run; do
    refused 5 "--out: $place: cannot write there: Not a directory" train --model lenet5 --data synthetic:images,samples=64 --out $place
    grep -q profiling err && complain "profiled before $place was looked at"
done
refused 2 "the profile is for the network lenet5,input=16 .*, and this is lenet5 " train --model lenet5 --profile measured.json --workers 1 \
    --data synthetic:images,samples=64
refused 2 "fewer than a mini-batch of 1000000" train --model lenet5 --data synthetic:images,samples=128 --batch 1000000 --steps 1
# shellcheck disable=SC2086
done_by compare --train --grid --methods uniform --weights latest --model lenet5 --workers 2 --batch 16 --micro-batches 2 --steps 2 \
    --data synthetic:images,samples=64 --valid synthetic:images,samples=32 -q && says ' 2 .* [0-9.]+ at [0-9.]+/s'
done_by train --model lenet5 --data synthetic:images,samples=32 --batch 16 --steps 1 -q && says 'memory of worker 0'
# The table of memory stays one.
refused 4 "worker 0 needs .* more than its limit" train --plan run/plan.json --memory 1KiB --data synthetic:images,samples=64 --steps 1
grep -Eq '^ +1 .* MiB +1.00 KiB' err || complain "no table of memory with a line for each worker"
done_by export --run run -o again.safetensors --json -q && says_json export && says '"file": "again.safetensors", "format": "safetensors"'
done_by export --run run -o lenet5.safetensors && says "lenet5.safetensors"
"$PENSTOCK" export --run run -o - 2>err | cmp - lenet5.safetensors || complain "export -o -: other weights than in a file"
done_by evaluate --run run --data synthetic:images,samples=64 --json -q && says_json evaluate && says '"samples": 64'
cp out by-run
done_by evaluate --weights lenet5.safetensors --model lenet5 --data synthetic:images,samples=64 --json -q
cmp -s out by-run || complain "exported weights do not evaluate as the run's"
done_by evaluate --init lenet5.safetensors --model lenet5 --data synthetic:images,samples=64 --json -q
cmp -s out by-run || complain "evaluate --init: other weights than --weights"
# The same predictions of the run, into a file, as of its weights, on standard output.
done_by predict --run run --data synthetic:images,samples=64 -o labels.csv --json -q && says_json predict && says '{"file": "labels.csv"}'
done_by predict --run run --data synthetic:images,samples=64 -o labels.csv && says "predictions of synthetic:images,samples=64"
done_by predict --init lenet5.safetensors --model lenet5 --data synthetic:images,samples=64 -o -
cmp -s out labels.csv && [ "$(wc -l <labels.csv)" = 65 ] || complain "predict: other predictions than the run's"
refused 2 "--model: lenet5 has no weights" predict --model lenet5 --data synthetic:images -o x.csv
refused 2 "predicts classes, not the tokens that follow" predict --run run --prompt 1
done_by train --model gpt2,layers=1,width=16,heads=2,seq=12,vocab=14 --workers 1 --data synthetic:tokens,samples=48 --steps 2 \
    --batch 8 --out language -q && done_by predict --run language --prompt '1 2' --tokens 3 --temperature 0
[ "$(wc -w <out)" = 5 ] && grep -q '^1 2 ' out || complain "predict --prompt"
mv out prompted
refused 2 "--device: clock computes no numbers" predict --run language --prompt '1 2' --device clock
done_by evaluate --run language --data synthetic:tokens,samples=48 --json -q && says_json evaluate && says '"perplexity": [0-9]'
done_by evaluate --run language --data synthetic:tokens,samples=48 -q && says ', perplexity [0-9.]*'
mv prompted text && done_by predict --run language --prompt '1 2' --tokens 3 --top-k 1 -o -
cmp -s out text || complain "predict --prompt: the only token of the first is not the most probable"
# Trained on with all but the last layer frozen: what is frozen stays.
done_by train --model lenet5 --init lenet5.safetensors --freeze 'conv*,fc1.*,fc2.*' --workers 2 --batch 16 --micro-batch 8 \
    --data synthetic:images,samples=128 --steps 4 --checkpoint-every 4 --out tuned -q
done_by export --run tuned -o tuned.safetensors && done_by evaluate --run tuned --data synthetic:images,samples=64 -q
grep -q '"freeze": "conv\*,fc1.\*,fc2.\*"' tuned/config.json && grep -q '"init": "lenet5.safetensors"' tuned/config.json ||
    complain "config.json: --freeze and --init"
cmp -s tuned.safetensors lenet5.safetensors && complain "train --freeze: the last layer has not changed"
done_by check --model lenet5 --init tuned.safetensors --workers 2 --json && says_json check && says '"agrees": true' && says '"worst"'
# Adapters alone are trained; merged, the weights alone compute the same.
done_by train --model lenet5 --init lenet5.safetensors --lora 'rank=2,alpha=4,target=fc?' --workers 2 --batch 16 --micro-batch 8 \
    --data synthetic:images,samples=128 --steps 4 --checkpoint-every 4 --lr 0.05 --out adapted -q
done_by export --run adapted --lora merged -o merged.safetensors && done_by export --run adapted --lora apart -o apart.safetensors &&
    grep -q '"lora": {' adapted/config.json && grep -q '"target_modules": \[' adapter_config.json &&
    grep -q 'base_model.model.fc1.lora_A.weight' apart.safetensors && ! grep -aq '"fc[0-9]' apart.safetensors || complain "export --lora"
cmp -s merged.safetensors lenet5.safetensors && complain "train --lora: the weights have not changed"
done_by evaluate --run adapted --data synthetic:images,samples=64 --json -q && grep -o '"loss": [0-9.]\{6\}' out >by-run
done_by evaluate --init merged.safetensors --model lenet5 --data synthetic:images,samples=64 --json -q && grep -o '"loss": [0-9.]\{6\}' out >merged
cmp -s by-run merged || complain "export --lora merged: other weights than the run's"
refused 2 "'/dev/stdout' is no place for tensors" export --run adapted --lora apart -o -
refused 2 "'adapter_config.json' is no place for tensors" export --run adapted --lora apart -o adapter_config.json
# What PEFT reads is the adapters', also behind sums of something else; an attention's out_proj it passes by.
done_by train --model gpt2,layers=2,width=8,heads=2,seq=8,vocab=12 --lora 'rank=3,alpha=6,dropout=0.25,target=h.1.*c_attn' --workers 1 --batch 4 \
    --data synthetic:tokens,samples=4 --steps 1 --out behind -q
done_by export --run behind --lora apart -o behind.safetensors && grep -q '"r": 3' adapter_config.json &&
    grep -q '"lora_alpha": 6' adapter_config.json && grep -q '"lora_dropout": 0.25' adapter_config.json ||
    complain "export --lora apart: behind a sum"
cat >attends.json <<EOF
{"format": "penstock-network", "version": 1, "name": "attends", "inputs": [{"name": "x", "shape": [6]}], "nodes": [
    {"name": "into", "operator": "linear", "channels": 8, "parameters": {"weight": "mha.in_proj_weight"}},
    {"name": "mha.out_proj", "operator": "linear", "channels": 3}, {"name": "loss", "operator": "cross_entropy"}]}
EOF
printf '1,2,3,4,5,6,0\n' >attends.csv
done_by train --model attends.json --lora 'rank=2,target=mha.out_proj' --workers 1 --batch 1 --data csv:attends.csv --steps 1 --out attends -q
refused 2 "PEFT has no adapters of 'mha.out_proj'" export --run attends --lora apart -o attends.safetensors
done_by export --run attends --lora merged -o attends.safetensors
refused 2 "--lora: needs --model" train --plan plan.json --lora target=fc1 --data synthetic:images --steps 1
refused 2 "no network with adapters" export --run run --lora merged -o x.safetensors
refused 2 "--freeze: no parameter has a name like 'nothing'" check --model lenet5 --freeze nothing
"$PENSTOCK" check --model lenet5 --tolerance 1e-12 >out 2>err
[ $? -eq 1 ] && grep -q "above the tolerance" err && says "conv1.weight" || complain "check: a difference has status 1"
refused 3 "no/such.npz" check --model lenet5 --against no/such.npz
# shellcheck disable=SC2086
done_by $train --transport serial --out serial -q && says "[0-9]"
done_by export --run serial -o serial.safetensors -q
cmp -s lenet5.safetensors serial.safetensors || complain "threads and serial do not give the same weights"
# shellcheck disable=SC2086
refused 2 "--out: run holds a run already" $train --out run
done_by compare --train --model lenet5 --workers 2,40 --methods uniform --weights sync,pipeoptim --batch 16 --steps 8 --optimizer adam \
    --data synthetic:images,samples=128 --json -q && says_json "compare --train" && says '"loss": [0-9]' && says '"schedule": "1f1b"' &&
    says '"samples_per_s"' && says "40 workers"
# shellcheck disable=SC2086
refused 4 "needs .* has 64.0 KiB" $train --memory 64KiB
# shellcheck disable=SC2086
refused 2 "batch" train --model lenet5 --workers 2 --data synthetic:images --batch 17 --micro-batch 8 --micro-batches 2 --steps 1
refused 2 "range" evaluate --run run --data synthetic:images,samples=64@0-65

finish
