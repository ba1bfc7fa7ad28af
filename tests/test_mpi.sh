#!/bin/sh
# Training over MPI: under every schedule and weight policy the weights are those of the threads transport, bit for bit; what goes
# wrong anywhere ends all ranks with one line and the right status. PENSTOCK is the program, PENSTOCK_MPIS lists MPIRUN=PROGRAM
# for each MPI library to be tested.
set -u

: "${PENSTOCK:?the path of the program}"
if [ -z "${PENSTOCK_MPIS:-}" ]; then
    echo "skipped: built without MPI"
    exit 0
fi
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
failures=0
# Open MPI wants to be asked for both.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores: Open MPI 4, and 5.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:exitcode=99"

complain() {
    echo "FAILED: $*" >&2
    sed 's/^/    /' err >&2
    failures=$((failures + 1))
}

# over RANKS ARGUMENT...: the program under mpirun; its status is in $status.
over() {
    ranks=$1
    shift
    timeout 120 "$mpirun" -n "$ranks" "$program" "$@" >out 2>err
    status=$?
}

# refused STATUS PATTERN RANKS ARGUMENT...
refused() {
    wanted=$1 pattern=$2
    shift 2
    over "$@"
    [ $status -eq "$wanted" ] || complain "mpirun -n $*: status $status, not $wanted"
    [ "$(grep -ac '^penstock: ' err)" -eq 1 ] || complain "mpirun -n $*: not one line of 'penstock: ...'"
    grep -a '^penstock: ' err | grep -Eq -- "$pattern" || complain "mpirun -n $*: does not say '$pattern'"
}

model=lenet5,input=16,classes=4
data="--data synthetic:images,samples=96 --valid synthetic:images,samples=20"
"$PENSTOCK" profile --model $model --micro-batch 4 -q -o profile.json >/dev/null 2>err || complain "no profile"

replicas() { # SCHEDULE WEIGHTS MICRO-BATCHES: a plan whose first stage has two replicas
    cat >"replicas-$1.json" <<X
{ "format": "penstock-plan", "version": 1, "model": "$model", "workers": 4, "micro_batch": 4, "micro_batches": $3, "method": "uniform",
  "optimizer": "adam", "schedule": "$1", "weights": "$2", "stages": [ {"layers": [1, 3], "forward": [0, 2], "backward": [0, 2]},
  {"layers": [4, 5], "forward": 1, "backward": 1}, {"layers": [6, 7], "forward": 3, "backward": 3} ] }
X
}

# plan NAME RANKS SCHEDULE WEIGHTS: a plan and the weights that threads train by it, once for all MPI libraries.
plan() {
    [ ! -e "$1.json" ] || return 0
    if [ -e "replicas-$3.json" ] && [ "${1%-replicated}" != "$1" ]; then
        cp "replicas-$3.json" "$1.json"
    else
        "$PENSTOCK" plan --profile profile.json --workers "$2" --method uniform --schedule "$3" --weights "$4" \
            --micro-batches 4 --optimizer adam -q -o "$1.json" >/dev/null 2>err || complain "no plan $1"
    fi
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $data --epochs 2 --transport threads --out "$1" -q >/dev/null 2>err &&
        "$PENSTOCK" export --run "$1" -o "$1.safetensors" -q >/dev/null 2>err || complain "threads: $1"
}

same() { # RANKS SCHEDULE WEIGHTS [-replicated]
    name=$2-$3-$1${4:-}
    plan "$name" "$1" "$2" "$3"
    rm -rf run
    # shellcheck disable=SC2086
    over "$1" train --plan "$name.json" $data --epochs 2 --out run -q
    [ $status -eq 0 ] || complain "$mpirun $name: status $status"
    "$PENSTOCK" export --run run -o run.safetensors -q >/dev/null 2>err || complain "$mpirun $name: no weights"
    cmp -s run.safetensors "$name.safetensors" || complain "$mpirun $name: other weights than with threads"
    # What rank 0 was told of the others' losses is what it would have seen itself.
    for log in "$name" run; do sed 's/, "samples_per_s".*//' "$log/log.jsonl" >"log-of-$log"; done
    diff "log-of-$name" log-of-run >err || complain "$mpirun $name: another log"
}

replicas 1f1b sync 4
replicas 1f1b-async stash 1
first=1
for pair in $PENSTOCK_MPIS; do
    mpirun=${pair%%=*} program=${pair#*=}
    same 4 1f1b-async pipeoptim
    same 2 interleaved sync
    same 3 1f1b sync
    same 4 1f1b sync -replicated
    same 4 1f1b-async stash -replicated
    if [ $first -eq 1 ]; then
        for schedule in naive gpipe 1f1b-so; do same 4 $schedule sync; done
        same 2 hanayo sync
        same 4 1f1b 2bw
        for policy in latest stash spectrain xpipe; do
            [ $policy = spectrain ] || same 3 1f1b-async $policy
        done
    fi
    first=0

    # Stage 1 forwards on worker 1 and backwards on worker 2.
    plan 1f1b-async-pipeoptim-3 3 1f1b-async pipeoptim
    awk '/"forward": 1,/ { print; getline; sub(/1/, "2") } { print }' 1f1b-async-pipeoptim-3.json >split.json
    cmp -s split.json 1f1b-async-pipeoptim-3.json && complain "the plan was not split"
    rm -rf split run
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan split.json $data --epochs 2 --out split -q >/dev/null 2>err || complain "threads: split"
    # shellcheck disable=SC2086
    over 3 train --plan split.json $data --epochs 2 --out run -q
    [ $status -eq 0 ] || complain "$mpirun split: status $status"
    for run in split run; do "$PENSTOCK" export --run $run -o $run.safetensors -q >/dev/null 2>err || complain "no weights of $run"; done
    cmp -s split.safetensors run.safetensors || complain "$mpirun split: other weights than with threads"

    over 2 train --model $model --data synthetic:images,samples=96 --batch 8 --steps 4 --device reference --out profiled --json -q
    [ $status -eq 0 ] && [ "$(head -c 1 out)" = "{" ] && grep -q '"transport": "mpi"' out || complain "$mpirun: train --model"
    [ -s profiled/checkpoints/000004/state.json ] || complain "$mpirun: no checkpoint"
    rm -rf profiled
    refused 2 "did you mean --workers" 2 train --model $model --work 2
    refused 2 "3 workers need as many processes, and there are 2" 2 train --model $model --workers 3 \
        --data synthetic:images,samples=96
    refused 3 "no such directory" 3 train --model $model --data idx:/nowhere
    refused 7 "nowhere holds no run" 3 train --resume nowhere
    grep -aq "rank 0, on .*, reads and writes run directories" err || complain "$mpirun: --resume does not say where it looks"
    refused 4 "needs .* has 1.00 KiB" 2 train --model $model --data synthetic:images,samples=96 --memory 1KiB
    # Only the last rank can see this.
    refused 1 "loss became" 3 train --plan 1f1b-sync-3.json $data --epochs 50 --lr 100000 -q --optimizer sgd
    over 2 cluster -o cluster.json -q
    [ $status -eq 0 ] && "$PENSTOCK" plan --profile profile.json --cluster cluster.json -q >/dev/null 2>>err ||
        complain "$mpirun: penstock cluster, status $status"
    over 2 models
    [ $status -eq 0 ] || complain "$mpirun models: status $status"
done
[ $failures -eq 0 ] || echo "$failures failures" >&2
[ $failures -eq 0 ]
