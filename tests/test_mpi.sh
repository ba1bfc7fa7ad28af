#!/bin/sh
# Training over MPI: under every schedule and weight policy the weights are those of the threads transport, bit for bit; what goes
# wrong anywhere ends all ranks with one line and the right status. With PENSTOCK_TEST_ALL every schedule meets every policy on every
# library; else a few do that stand for them. (What PENSTOCK and PENSTOCK_MPIS are stands in support.sh.)
# PENSTOCK_REFUSER is tests/refuser.c, to be preloaded.
limit=1170
. "$(dirname "$0")/support.sh"
needs_mpi

# refused STATUS PATTERN RANKS ARGUMENT...
refused() {
    wanted=$1 pattern=$2
    shift 2
    over "$@"
    [ $status -eq "$wanted" ] || complain "$mpirun -n $*: status $status, not $wanted"
    [ "$(grep -ac '^penstock: ' err)" -eq 1 ] || complain "$mpirun -n $*: not one line of 'penstock: ...'"
    grep -a '^penstock: ' err | grep -Eq -- "$pattern" || complain "$mpirun -n $*: does not say '$pattern'"
}

model=lenet5,input=16,classes=4 layers=7
[ -z "${PENSTOCK_TEST_ALL:-}" ] || model=resnet,input=16,classes=4 layers=14 # as many layers as five workers of two stages need
# Two segments of so many steps that a pipeline of four is full for a while; three are enough where it drains with each.
data_for() { # NAME
    samples=96
    [ -n "${PENSTOCK_TEST_ALL:-}" ] || case $1 in *-sync-* | *-flush | madpipe | bipartition) samples=48 ;; esac
    kind=images
    [ "$1" != tied ] || kind=tokens
    data="--data synthetic:$kind,samples=$samples --valid synthetic:$kind,samples=10"
    [ "$1" != translations ] || data="--data pairs:words:x:y --valid pairs:words:x:y@0-10 --valid-bleu 6"
    case $1 in lengths | encoded) data="--data pairs:lines:x:y --lengths 2,3" ;; esac
}
"$PENSTOCK" profile --model $model --micro-batch 4 -q -o profile.json >/dev/null 2>err || complain "no profile"

begins "plans, and the weights that they come to without MPI"

# replicated NAME SCHEDULE WEIGHTS MICRO-BATCHES [LAYER]: a plan whose first stage, up to LAYER, has two replicas
replicated() {
    first=${5:-3}
    cat >"$1.json" <<END
{ "format": "penstock-plan", "version": 1, "model": "$model", "workers": 4, "micro_batch": 4, "micro_batches": $4, "method": "uniform",
  "optimizer": "adam", "schedule": "$2", "weights": "$3", "stages": [ {"layers": [1, $first], "forward": [0, 2], "backward": [0, 2]},
  {"layers": [$((first + 1)), $((layers - 1))], "forward": 1, "backward": 1}, {"layers": [$layers, $layers], "forward": 3, "backward": 3} ] }
END
}

# patterned NAME MODEL TIMES OPTION...: a plan with a periodic pattern; TIMES are tens of microseconds for each layer's forward and
# backward.
patterned() {
    name=$1 times=$3
    "$PENSTOCK" profile --model "$2" --micro-batch 4 --repeats 1 -q -o measured.json >/dev/null 2>err || complain "no profile of $2"
    shift 3
    awk -v times="$times" 'BEGIN { split(times, time, " ") }
        /_s"/ { sub(/: [^,]*/, ": 0") }
        /"(forward|backward_input)_s"/ { sub(/: 0/, ": " time[++n] "e-5") }
        { print }' measured.json >times.json
    "$PENSTOCK" plan --profile times.json "$@" --optimizer adam -q -o "$name.json" >/dev/null 2>err || complain "no plan $name"
    grep -q '"schedule": "pattern"' "$name.json" || complain "$name has no pattern"
}

# make_plan NAME RANKS SCHEDULE WEIGHTS: its status is in $status.
make_plan() {
    optimizer=adam
    [ "$4" != spectrain ] || optimizer=sgdm
    "$PENSTOCK" plan --profile profile.json --workers "$2" --method uniform --schedule "$3" --weights "$4" \
        --micro-batches 4 --optimizer $optimizer -q -o "$1.json" >/dev/null 2>err
    status=$?
}

# trained NAME TRANSPORT: the weights that the plan comes to, in NAME-TRANSPORT.safetensors
trained() {
    rm -rf "$1"
    data_for "$1"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $data --epochs 2 --transport "$2" --out "$1" -q >/dev/null 2>err &&
        "$PENSTOCK" export --run "$1" -o "$1-$2.safetensors" -q >/dev/null 2>err || complain "$2: $1"
}

# prepare NAME: its plan's weights by threads are those of one thread.
prepare() {
    trained "$1" serial
    trained "$1" threads
    cmp -s "$1-serial.safetensors" "$1-threads.safetensors" || complain "$1: threads make other weights than one thread"
    all="$all $1"
}

# planned RANKS SCHEDULE WEIGHTS: a plan, prepared; SCHEDULE-WEIGHTS-RANKS is its name.
planned() {
    name=$2-$3-$1
    [ ! -e "$name.json" ] || return 0
    make_plan "$name" "$@"
    [ $status -ne 0 ] || prepare "$name"
}

# The names that an option of `plan` takes.
names() { "$PENSTOCK" plan --help | tr '\n' ' ' | sed "s/.*--$1 NAME[^(]*(//; s/).*//; s/,//g; s/auto//"; }

# Every schedule under every policy, and under `sync` on 2, 3 and 5 ranks with the weights of one worker. What no plan can be made for
# is refused; a schedule or policy that never was accepted would be a failure.
every() {
    accepted=" pattern " refused=
    for schedule in $(names schedule); do
        ranks=3
        [ "$schedule" != chimera ] || ranks=4
        for weights in $(names weights); do
            planned $ranks "$schedule" "$weights"
            if [ -e "$schedule-$weights-$ranks.json" ]; then
                accepted="$accepted$schedule $weights "
            else
                [ $status -eq 2 ] || complain "$schedule-$weights-$ranks: plan ends with status $status"
                refused="$refused $schedule/$weights"
            fi
        done
    done
    echo "refused by the planner:${refused:- none}"
    for word in $(names schedule) $(names weights); do
        case "$accepted" in *" $word "*) ;; *) complain "$word never was accepted" ;; esac
    done
    planned 1 1f1b sync
    for ranks in 2 3 5; do
        for schedule in $(names schedule); do
            name=$schedule-sync-$ranks
            planned $ranks "$schedule" sync
            # Chimera's two replicas of a stage each add up their own micro-batches first.
            [ ! -e "$name.json" ] || [ "$schedule" = chimera ] ||
                cmp -s "$name-threads.safetensors" 1f1b-sync-1-threads.safetensors || complain "$name: other weights than one worker"
        done
    done
}

all=
planned 4 1f1b-async pipeoptim
planned 2 interleaved sync
planned 3 1f1b sync
replicated replicated-flush 1f1b sync 4
replicated replicated-async 1f1b-async stash 1
# With batch norms: replicas add up their statistics, too, of which each has a part to add.
(
    model=resnet,input=16,classes=4 layers=14
    replicated replicated-norms 1f1b sync 2 12
)
# A worker sees the losses of the last stage, another updates it: its weights and, of numbers in bf16, their masters travel.
cat >halves.json <<END
{ "format": "penstock-plan", "version": 1, "model": "$model,precision=bf16", "workers": 3, "micro_batch": 4, "micro_batches": 1, "method": "uniform",
  "optimizer": "adam", "schedule": "1f1b-async", "weights": "stash", "stages": [ {"layers": [1, 3], "forward": 0, "backward": 0},
  {"layers": [4, $layers], "forward": 1, "backward": 2} ] }
END
# The last worker has no stage.
cat >idle.json <<END
{ "format": "penstock-plan", "version": 1, "model": "$model", "workers": 3, "micro_batch": 4, "micro_batches": 1, "method": "pipedream",
  "optimizer": "adam", "schedule": "1f1b-async", "weights": "stash", "stages": [ {"layers": [1, 3], "forward": 0, "backward": 0},
  {"layers": [4, $layers], "forward": 1, "backward": 1} ] }
END
small=lenet5,input=16,classes=4
# MadPipe gives the first worker both ends; Bi-Partition the backwards of the second stage to another worker than its forwards.
patterned madpipe $small "100 100 60 60 60 60 60 60 60 60 60 60 200 200" --workers 2 --method madpipe --weights pipeoptim
patterned bipartition $small "25 50 25 50 25 50 25 50 300 600 200 400 300 600" --workers 3 --method bipartition --weights pipeoptim \
    --latency 2ms
[ "$(grep -c '"layers"' madpipe.json)" -gt 2 ] || complain "madpipe: not several stages on a worker"
"$PENSTOCK" program --plan bipartition.json --batches 2 2>err | grep -q SS0 || complain "bipartition: no stash travels"
# Sentences of three words that are translated as the run goes on; the worker in the middle reads none of them.
awk 'BEGIN { for (i = 0; i < 64; i++) printf "%c %c %c\n", 97 + i % 3, 97 + i % 5, 97 + i % 7 }' | tee words.x | tr a-g t-z >words.y
"$PENSTOCK" profile --model gnmt-l,layers=4,seq=4,target=4,hidden=8,vocab=12,dropout=0 --micro-batch 4 --repeats 1 -q -o texts.json \
    >/dev/null 2>err && "$PENSTOCK" plan --profile texts.json --workers 3 --method uniform --schedule 1f1b-async --weights latest \
    --optimizer adam -q -o translations.json >/dev/null 2>err || complain "no plan for translations"
# Sentences of one to three words in mini-batches of their own, each computed at its length, which the worker in the middle is told.
awk 'BEGIN { for (i = 0; i < 64; i++) { for (w = 0; w <= i % 3; w++) printf "%c ", 97 + (i + w) % 7; print "" } }' | tee lines.x | tr a-g t-z >lines.y
cp translations.json lengths.json
# The same with what crosses the cuts encoded, tokens beside numbers, and error feedback.
"$PENSTOCK" plan --profile texts.json --workers 3 --method uniform --schedule 1f1b-async --weights latest --wire topk:0.2 \
    --optimizer adam -q -o encoded.json >/dev/null 2>err || complain "no plan with codecs"
# Three replicas whose gradients are summed encoded.
"$PENSTOCK" plan --profile profile.json --workers 3 --method data-parallel --replicate --schedule 1f1b --weights sync --micro-batches 3 \
    --wire topk:0.2 --optimizer adam -q -o summed.json >/dev/null 2>err || complain "no plan with encoded sums"
grep -q '"sum": "topk:0.2"' summed.json || complain "the plan encodes no sum"
for name in replicated-flush replicated-async replicated-norms halves idle madpipe bipartition translations lengths encoded summed; do prepare $name; done
cmp -s lengths-threads.safetensors encoded-threads.safetensors && complain "encoded: the weights are those without codecs"
grep -q '"valid_bleu"' translations/log.jsonl || complain "translations: no BLEU"
everywhere=$all all=
for schedule in naive gpipe 1f1b-so; do planned 4 $schedule sync; done
planned 2 hanayo sync
# Both ends of a network that share weights, each on two ranks, one of which has both.
"$PENSTOCK" train --model gpt2,layers=1,width=8,heads=2,seq=6,vocab=9,tied=1 --workers 4 --method uniform --schedule chimera \
    --data synthetic:tokens,samples=16 --batch 16 --steps 1 --out tied-run -q >/dev/null 2>err || complain "no plan tied"
cp tied-run/plan.json tied.json
prepare tied
planned 4 1f1b 2bw
for policy in latest stash xpipe; do planned 3 1f1b-async $policy; done
once=$all all=
if [ -n "${PENSTOCK_TEST_ALL:-}" ]; then
    all=$once once=
    every
fi
for name in $everywhere $once $all; do
    [ -e "$name-threads.safetensors" ] || complain "$name: no weights"
done
cat >cables.json <<'END'
{ "format": "penstock-cluster", "version": 1, "devices": [ {"name": "a"}, {"name": "b"}, {"name": "c"} ], "links": [
  {"from": "a", "to": "*", "bandwidth_bytes_per_s": 1e9, "shared_link": "cable a"},
  {"from": "b", "to": "*", "bandwidth_bytes_per_s": 1e9, "shared_link": "cable b"},
  {"from": "c", "to": "*", "bandwidth_bytes_per_s": 1e9, "shared_link": "cable c"} ] }
END

begins "the same over MPI"

# same NAME [OPTION...]: what it says is in `said`
quiet=-q
same() {
    name=$1
    shift
    rm -rf run
    data_for "$name"
    # shellcheck disable=SC2086
    over "$(sed -n 's/^  "workers": \([0-9]*\),$/\1/p; s/.*, "workers": \([0-9]*\),.*/\1/p' "$name.json")" train --plan "$name.json" $data --epochs 2 \
        --out run $quiet "$@"
    cp err said
    [ $status -eq 0 ] || {
        complain "$mpirun $name: status $status"
        return
    }
    "$PENSTOCK" export --run run -o run.safetensors -q >/dev/null 2>err || complain "$mpirun $name: no weights"
    cmp -s run.safetensors "$name-threads.safetensors" || complain "$mpirun $name: other weights than with threads"
    # What rank 0 was told of the others' losses and predictions is what it would have seen itself.
    for log in "$name" run; do sed -E 's/"(samples_per_s|elapsed_s|training_s|busy_s)": ([0-9.e+-]+|\[[^]]*\])//g' "$log/log.jsonl" >"log-of-$log"; done
    diff "log-of-$name" log-of-run >err || complain "$mpirun $name: another log"
}

# Ranks that share no memory, or of which one cannot: blocks are messages. MPICH can play two hosts, of the ranks that are even and odd: then
# some blocks are, and others change places.
messages() {
    begins "$mpi: messages"
    same replicated-async --transport mpi-messages
    same bipartition --transport mpi-messages
    same summed --transport mpi-messages
    # What a host sends to several goes through one cable: ranks take turns on it.
    same bipartition --transport mpi-messages --cluster cables.json
    # A device's memory no process sees but its own.
    for name in replicated-async bipartition tied translations; do same $name --device far; done
    quiet=
    if [ -n "${PENSTOCK_REFUSER:-}" ]; then
        prefix="env LD_PRELOAD=$PENSTOCK_REFUSER REFUSER_RANK=1"
        same 1f1b-sync-3
        grep -q 'worker 1: no shared memory .* go by messages' said || complain "$mpirun: does not say that memory cannot be shared"
        ! grep -q 'share memory' said || complain "$mpirun: shares memory that cannot be shared"
        prefix="env LD_PRELOAD=$PENSTOCK_REFUSER REFUSER_TAGS=6"
        refused 1 'needs the tag [0-9]*, and this library has tags up to 6' 3 train --plan 1f1b-sync-3.json $data --transport mpi-messages -q
        prefix=
    fi
    if [ "$(whose "$mpirun")" = mpich ]; then
        export MPIR_CVAR_ODD_EVEN_CLIQUES=1
        same replicated-async
        [ "$(grep -c 'share memory' said)" -eq 2 ] || complain "$mpirun: two hosts do not share memory apart"
        unset MPIR_CVAR_ODD_EVEN_CLIQUES
    fi
    quiet=-q
}

# Unlike devices, played here: the first is slow, or the two others are. One rank of each type measures, and slow ones get less to do,
# unless the machine has had so much else to do that what was measured tells nothing.
unlike_devices() {
    begins "$mpi: unlike devices"
    for try in 1 2 3 4; do
        unlike_devices_once
        [ "$(cut slow-0)" -ge "$(cut slow-1)" ] || return
    done
    complain "$mpirun: a slow worker has no less to do ($(cut slow-0), $(cut slow-1))"
}
cut() { awk '/"layers"/ { getline; getline; print $1 + 0; exit }' "$1/plan.json"; }
unlike_devices_once() {
    rm -rf slow-0 slow-1
    for slow in 0 1; do
        awk -v slow=$slow 'BEGIN {
            print "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": ["
            for (w = 0; w < 3; w++) printf "%s{\"name\": \"w%d\", \"speed\": %s, \"memory_bytes\": 8388608}", w ? ", " : "", w, (w == 0) == (slow == 0) ? 0.2 : 1
            print "]}"
        }' >"slow-$slow.json"
        over 3 train --model $model --cluster "slow-$slow.json" --emulate --data synthetic:images,samples=96 --batch 8 --steps 2 \
            --out "slow-$slow"
        [ $status -eq 0 ] || complain "$mpirun: --emulate, status $status"
        [ "$(grep -ac 'profiling .* on cpu' err)" -eq 2 ] && [ -s "slow-$slow/profile-cpu-rank1.json" ] ||
            complain "$mpirun: costs of each type of device"
        [ "$(grep -ac 'the ranks of .* share memory' err)" -eq 1 ] ||
            complain "$mpirun: ranks of one host do not share memory, or say so several times"
    done
}

refusals() {
    begins "$mpi: refusals"
    refused 2 "did you mean --workers" 2 train --model $model --work 2
    refused 2 "3 workers need as many processes, and there are 2" 2 train --model $model --workers 3 \
        --data synthetic:images,samples=96
    refused 3 "no such directory" 3 train --model $model --data idx:/nowhere
    refused 7 "nowhere holds no run" 3 train --resume nowhere
    grep -aq "rank 0, on .*, reads and writes run directories" err || complain "$mpirun: --resume does not say where it looks"
    refused 7 "--run: nowhere holds no run" 2 evaluate --run nowhere --data synthetic:images
    # As srun starts it where Slurm speaks another language than the library.
    SLURM_JOB_ID=1 SLURM_JOBID=1 SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_NODELIST=here SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 \
        timeout -k 5 200 "$program" train --model $model --data synthetic:images,samples=96 >out 2>err
    status=$?
    [ $status -eq 2 ] && [ "$(grep -ac '^penstock: .*srun' err)" -eq 1 ] && grep -aq '^srun --mpi=pmix starts' err ||
        complain "$mpirun: srun without PMI: status $status"
    refused 2 'links\[0\] is shared, which only --transport threads can emulate' 3 train --plan bipartition.json --cluster cables.json \
        --emulate --data synthetic:images,samples=96 -q
    refused 4 "needs .* has 1.00 KiB" 2 train --model $model --data synthetic:images,samples=96 --memory 1KiB
    # Only the last rank can see this.
    # The deeper network normalises such steps away.
    # shellcheck disable=SC2086
    [ -n "${PENSTOCK_TEST_ALL:-}" ] || refused 1 "loss became" 3 train --plan 1f1b-sync-3.json $data --epochs 50 --lr 100000 -q --optimizer sgd
}

# traced DIR: its trace has each block, of as many bytes as the summary says, and there before the computation that reads it begins.
traced() {
    awk -v sent="$(grep -o '"sent_bytes": [0-9]*' "$1/summary.json" | tr -dc '0-9\n' | tr '\n' ' ')" '
        function number(name) { match($0, "\"" name "\":[-0-9.]+"); return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 }
        /"ph":"X"/ && /"pid":0/ { match($0, /"op":"[A-Z]+"/); op = substr($0, RSTART + 6, RLENGTH - 7)
            begins[op, number("stage"), number("micro_batch")] = number("ts") }
        /"ph":"X"/ && /"pid":1/ { n++; bytes[number("from")] += number("bytes"); ends[n] = number("ts") + number("dur")
            reader[n] = /"cat":"activation"/ ? "F" SUBSEP number("stage") + 1 SUBSEP number("micro_batch") : "B" SUBSEP number("stage") - 1 SUBSEP number("micro_batch") }
        END { count = split(sent, wanted, " "); for (w = 1; w <= count; w++) if (bytes[w - 1] != wanted[w]) exit 1
            for (i = 1; i <= n; i++) if (!(reader[i] in begins) || ends[i] > begins[reader[i]] + 0.002) exit 1
            exit n == 0 || count != 2 }' "$1/trace.json"
}

traces() {
    begins "$mpi: traces"
    for transport in mpi mpi-messages; do
        rm -rf traced
        over 2 train --model $model --workers 2 --method uniform --schedule 1f1b --weights sync --micro-batch 4 --batch 16 \
            --data synthetic:images,samples=96 --steps 4 --transport $transport --trace --out traced -q
        [ $status -eq 0 ] && traced traced || complain "$mpirun: --trace, $transport: status $status, or other transfers"
    done
}

library() {
    traces
    begins "$mpi: plans"
    for name in $everywhere; do
        same "$name"
        [ "$name" != 1f1b-async-pipeoptim-4 ] ||
            { grep -q '"prediction_error": \[' run/log.jsonl && grep -q '"prediction_error"' run/summary.json; } ||
            complain "$mpirun: no prediction errors"
    done
    messages
    begins "$mpi: more plans"
    [ "$mpirun" != "$first" ] || for name in $once; do same "$name"; done
    for name in $all; do same "$name"; done

    begins "$mpi: begun without a plan"
    over 2 train --model $model --data synthetic:images,samples=96 --batch 8 --steps 4 --device reference --out profiled --json -q
    [ $status -eq 0 ] && [ "$(head -c 1 out)" = "{" ] && grep -q '"transport": "mpi"' out || complain "$mpirun: train --model"
    [ -s profiled/checkpoints/000004/state.json ] || complain "$mpirun: no checkpoint"
    unlike_devices
    refusals
    begins "$mpi: other commands"
    over 2 cluster -o cluster.json -q
    [ $status -eq 0 ] && "$PENSTOCK" plan --profile profile.json --cluster cluster.json -q >/dev/null 2>>err ||
        complain "$mpirun: penstock cluster, status $status"
    # A link each way, and workers that are told apart by their ranks.
    for part in '"name": "[^"]*-0"' '"name": "[^"]*-1"' '"from": "[^"]*-0"' '"to": "[^"]*-0"' '"from": "[^"]*-1"' '"to": "[^"]*-1"'; do
        [ "$(grep -o "$part" cluster.json | wc -l)" -eq 1 ] || complain "$mpirun: not one $part in the cluster"
    done
    # Between processes of a host a megabyte takes less than a second, however busy it is.
    sed -n 's/.*"bandwidth_bytes_per_s": \([0-9]*\).*/\1/p' cluster.json | awk '$1 < 1e6 { slow = 1 } END { exit NR != 2 || slow }' ||
        complain "$mpirun: links of the cluster: $(grep bandwidth cluster.json)"
    # Ranks that are bound to a core each, as Open MPI does unasked, have the cores of both.
    if [ "$("$PENSTOCK" devices --json | sed -n 's/^ *"cores": \([0-9]*\).*/\1/p')" -ge 2 ]; then
        timeout 100 "$mpirun" -bind-to core -n 2 "$program" cluster -o bound.json -q >out 2>err || complain "$mpirun: bound ranks, status $?"
        grep -q '"cores": 1' bound.json && complain "$mpirun: two bound ranks count one core"
    fi
    # An evaluation that is told to end keeps nothing and asks nobody: no rank is lost. MPICH's launcher ends with any status then,
    # 0 among them, as it has heard from its ranks or not.
    rm -f err
    timeout --foreground 200 "$mpirun" -n 2 "$program" evaluate --run profiled --data synthetic:images,samples=3000000 >out 2>err &
    until_so grep -q 'share memory' err && kill -TERM $!
    wait $!
    [ $? -ne 124 ] && ! grep -q accuracy out || complain "$mpirun: evaluate is not ended by SIGTERM"
    grep -q lost err && complain "$mpirun: evaluate, told to end: a rank is said to be lost"
    over 2 models --json
    [ $status -eq 0 ] && [ "$(grep -c '"name": "lenet5"' out)" -eq 1 ] || complain "$mpirun models: status $status, or written twice"
    over 1 train --model $model --data synthetic:images,samples=96 --batch 8 --steps 1 --device reference -q
    [ $status -eq 0 ] || complain "$mpirun -n 1: train without --workers ends with status $status"
    echo "$mpirun: $(echo "$everywhere" "$all" | wc -w) plans compared"
}

first=${PENSTOCK_MPIS%%=*}
each_mpi library
finish
