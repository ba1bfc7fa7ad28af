#!/bin/sh
# Training over MPI: under every schedule and weight policy the weights are those of the threads transport, bit for bit; what goes
# wrong anywhere ends all ranks with one line and the right status. PENSTOCK is the program, PENSTOCK_MPIS lists MPIRUN=PROGRAM
# for each MPI library to be tested. With PENSTOCK_TEST_ALL every schedule meets every policy on every library; else a few do that
# stand for them. PENSTOCK_REFUSER is tests/refuser.c, to be preloaded.
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

# over RANKS ARGUMENT...: the program under mpirun, behind $prefix; its status is in $status.
prefix=
over() {
    ranks=$1
    shift
    # shellcheck disable=SC2086
    timeout 120 "$mpirun" -n "$ranks" $prefix "$program" "$@" >out 2>err
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

model=lenet5,input=16,classes=4 layers=7
[ -z "${PENSTOCK_TEST_ALL:-}" ] || model=resnet,input=16,classes=4 layers=14 # as many layers as five workers of two stages need
data="--data synthetic:images,samples=96 --valid synthetic:images,samples=20"
"$PENSTOCK" profile --model $model --micro-batch 4 -q -o profile.json >/dev/null 2>err || complain "no profile"

replicas() { # SCHEDULE WEIGHTS MICRO-BATCHES: a plan whose first stage has two replicas
    cat >"replicas-$1.json" <<X
{ "format": "penstock-plan", "version": 1, "model": "$model", "workers": 4, "micro_batch": 4, "micro_batches": $3, "method": "uniform",
  "optimizer": "adam", "schedule": "$1", "weights": "$2", "stages": [ {"layers": [1, 3], "forward": [0, 2], "backward": [0, 2]},
  {"layers": [4, 5], "forward": 1, "backward": 1}, {"layers": [6, $layers], "forward": 3, "backward": 3} ] }
X
}

# make_plan NAME RANKS SCHEDULE WEIGHTS: its status is in $status.
make_plan() {
    optimizer=adam
    [ "$4" != spectrain ] || optimizer=sgdm
    "$PENSTOCK" plan --profile profile.json --workers "$2" --method uniform --schedule "$3" --weights "$4" \
        --micro-batches 4 --optimizer $optimizer -q -o "$1.json" >/dev/null 2>err
    status=$?
}

# trained NAME TRANSPORT: the weights that the plan comes to without MPI, in NAME-TRANSPORT.safetensors
trained() {
    rm -rf "$1"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $data --epochs 2 --transport "$2" --out "$1" -q >/dev/null 2>err &&
        "$PENSTOCK" export --run "$1" -o "$1-$2.safetensors" -q >/dev/null 2>err || complain "$2: $1"
}

# plan NAME RANKS SCHEDULE WEIGHTS: a plan and the weights that threads train by it, once for all MPI libraries; they are those of one
# thread.
plan() {
    [ ! -e "$1-threads.safetensors" ] || return 0
    if [ -e "replicas-$3.json" ] && [ "${1%-replicated}" != "$1" ]; then
        cp "replicas-$3.json" "$1.json"
    elif [ ! -e "$1.json" ]; then
        make_plan "$@"
        [ $status -eq 0 ] || complain "no plan $1"
    fi
    trained "$1" serial
    trained "$1" threads
    cmp -s "$1-serial.safetensors" "$1-threads.safetensors" || complain "$1: threads make other weights than one thread"
}

# same RANKS SCHEDULE WEIGHTS [-replicated]: by $transport, with the options in $options; what it says is in `said`
transport=mpi options=-q
same() {
    name=$2-$3-$1${4:-}
    plan "$name" "$1" "$2" "$3"
    rm -rf run
    # shellcheck disable=SC2086
    over "$1" train --plan "$name.json" $data --epochs 2 --out run --transport $transport $options
    cp err said
    [ $status -eq 0 ] || complain "$mpirun $name: status $status"
    "$PENSTOCK" export --run run -o run.safetensors -q >/dev/null 2>err || complain "$mpirun $name: no weights"
    cmp -s run.safetensors "$name-threads.safetensors" || complain "$mpirun $name: other weights than with threads"
    # What rank 0 was told of the others' losses and predictions is what it would have seen itself.
    for log in "$name" run; do sed -E 's/"(samples_per_s|elapsed_s)": [^,}]*//g' "$log/log.jsonl" >"log-of-$log"; done
    diff "log-of-$name" log-of-run >err || complain "$mpirun $name: another log"
}

# The names that an option of `plan` takes.
names() { "$PENSTOCK" plan --help | tr '\n' ' ' | sed "s/.*--$1 NAME[^(]*(//; s/).*//; s/,//g; s/auto//"; }

# Every schedule under every policy, and under `sync` on 2, 3 and 5 ranks with the weights of one worker. What no plan can be made for
# is refused before any run; a schedule or policy that never was accepted would be a failure.
all() {
    compared=0 refused=
    for schedule in $(names schedule); do
        ranks=3
        [ "$schedule" != chimera ] || ranks=4
        for weights in $(names weights); do
            name=$schedule-$weights-$ranks
            [ -e "$name.json" ] || make_plan "$name" $ranks "$schedule" "$weights"
            if [ -e "$name.json" ]; then
                same $ranks "$schedule" "$weights"
                compared=$((compared + 1)) accepted="$accepted $schedule $weights"
            else
                [ $status -eq 2 ] || complain "$name: plan ends with status $status"
                refused="$refused $schedule/$weights"
            fi
        done
    done
    for word in $(names schedule) $(names weights); do
        case "$accepted pattern " in *" $word "*) ;; *) complain "$word never was accepted" ;; esac
    done
    plan 1f1b-sync-1 1 1f1b sync
    for ranks in 2 3 5; do
        for schedule in $(names schedule); do
            name=$schedule-sync-$ranks
            [ -e "$name.json" ] || make_plan "$name" $ranks "$schedule" sync
            [ -e "$name.json" ] || continue
            same $ranks "$schedule" sync
            # Chimera's two replicas of a stage each add up their own micro-batches first.
            [ "$schedule" = chimera ] || cmp -s run.safetensors 1f1b-sync-1-threads.safetensors || complain "$mpirun $name: other weights than one worker"
            compared=$((compared + 1))
        done
    done
    echo "$mpirun: $compared compared; refused by the planner:${refused:- none}"
}

replicas 1f1b sync 4
replicas 1f1b-async stash 1
first=1 accepted=
for pair in $PENSTOCK_MPIS; do
    mpirun=${pair%%=*} program=${pair#*=}
    same 4 1f1b-async pipeoptim
    grep -q '"prediction_error": \[' run/log.jsonl && grep -q '"prediction_error"' run/summary.json ||
        complain "$mpirun: no prediction errors"
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

    # Ranks that share no memory, or of which one cannot: blocks are messages. MPICH can play two hosts, of the ranks that are even and
    # odd: then some blocks are, and others change places.
    transport=mpi-messages
    same 4 1f1b-async stash -replicated
    transport=mpi
    if [ -n "${PENSTOCK_REFUSER:-}" ]; then
        options=
        prefix="env LD_PRELOAD=$PENSTOCK_REFUSER REFUSER_RANK=1"
        same 3 1f1b sync
        grep -q 'worker 1: no shared memory .* go by messages' said || complain "$mpirun: does not say that memory cannot be shared"
        ! grep -q 'share memory' said || complain "$mpirun: shares memory that cannot be shared"
        prefix= options=-q
    fi
    if "$mpirun" --version | grep -q HYDRA; then
        options=
        export MPIR_CVAR_ODD_EVEN_CLIQUES=1
        same 4 1f1b-async stash -replicated
        [ "$(grep -c 'share memory' said)" -eq 2 ] || complain "$mpirun: two hosts do not share memory apart"
        unset MPIR_CVAR_ODD_EVEN_CLIQUES
        options=-q
    fi
    [ -z "${PENSTOCK_TEST_ALL:-}" ] || all

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
    rm -rf run
    # shellcheck disable=SC2086
    over 3 train --plan split.json $data --epochs 2 --out run --transport mpi-messages -q
    "$PENSTOCK" export --run run -o run.safetensors -q >/dev/null 2>err && cmp -s split.safetensors run.safetensors ||
        complain "$mpirun split: other weights by messages"

    over 2 train --model $model --data synthetic:images,samples=96 --batch 8 --steps 4 --device reference --out profiled --json -q
    [ $status -eq 0 ] && [ "$(head -c 1 out)" = "{" ] && grep -q '"transport": "mpi"' out || complain "$mpirun: train --model"
    [ -s profiled/checkpoints/000004/state.json ] || complain "$mpirun: no checkpoint"
    rm -rf profiled
    # Unlike devices, played here: the first is slow, or the two others are. One rank of each type measures, and slow ones get less to do.
    for slow in 0 1; do
        awk -v slow=$slow 'BEGIN {
            print "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": ["
            for (w = 0; w < 3; w++) printf "%s{\"name\": \"w%d\", \"speed\": %s, \"memory_bytes\": 8388608}", w ? ", " : "", w, (w == 0) == (slow == 0) ? 0.2 : 1
            print "]}"
        }' >"slow-$slow.json"
        rm -rf "slow-$slow"
        over 3 train --model $model --cluster "slow-$slow.json" --emulate --data synthetic:images,samples=96 --batch 8 --steps 2 \
            --out "slow-$slow"
        [ $status -eq 0 ] || complain "$mpirun: --emulate, status $status"
        [ "$(grep -ac 'profiling .* on cpu' err)" -eq 2 ] && [ -s "slow-$slow/profile-cpu-rank1.json" ] ||
            complain "$mpirun: costs of each type of device"
        grep -q 'the ranks of .* share memory' err || complain "$mpirun: ranks of one host do not share memory"
    done
    cut() { awk '/"layers"/ { getline; getline; print $1 + 0; exit }' "$1/plan.json"; }
    [ "$(cut slow-0)" -lt "$(cut slow-1)" ] || complain "$mpirun: a slow worker has no less to do ($(cut slow-0), $(cut slow-1))"
    refused 2 "did you mean --workers" 2 train --model $model --work 2
    refused 2 "3 workers need as many processes, and there are 2" 2 train --model $model --workers 3 \
        --data synthetic:images,samples=96
    refused 3 "no such directory" 3 train --model $model --data idx:/nowhere
    refused 7 "nowhere holds no run" 3 train --resume nowhere
    grep -aq "rank 0, on .*, reads and writes run directories" err || complain "$mpirun: --resume does not say where it looks"
    refused 4 "needs .* has 1.00 KiB" 2 train --model $model --data synthetic:images,samples=96 --memory 1KiB
    # Only the last rank can see this.
    # The deeper network normalises such steps away.
    [ -n "${PENSTOCK_TEST_ALL:-}" ] || refused 1 "loss became" 3 train --plan 1f1b-sync-3.json $data --epochs 50 --lr 100000 -q --optimizer sgd
    over 2 cluster -o cluster.json -q
    [ $status -eq 0 ] && "$PENSTOCK" plan --profile profile.json --cluster cluster.json -q >/dev/null 2>>err ||
        complain "$mpirun: penstock cluster, status $status"
    over 2 models
    [ $status -eq 0 ] || complain "$mpirun models: status $status"
done
[ $failures -eq 0 ] || echo "$failures failures" >&2
[ $failures -eq 0 ]
