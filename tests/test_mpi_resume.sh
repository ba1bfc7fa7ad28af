#!/bin/sh
# Checkpoints over MPI: rank 0 writes them for all, whoever is killed or stopped, and a run goes on over MPI, by threads, and with
# another number of processes, to the weights of the run by threads that was never disturbed. With PENSTOCK_TEST_ALL each rank is lost in
# each way at many moments. (What PENSTOCK and PENSTOCK_MPIS are stands in support.sh.)
. "$(dirname "$0")/support.sh"
needs_mpi
echo "seed: PENSTOCK_TEST_SEED=$seed"
moments=${PENSTOCK_TEST_ALL:+6}
# Longer than what is begun here may last.
patience=${moments:+10}320

# Each process of a launch leaves its number in pid.RANK; `launches` has a line for each launch. Without a launcher: pid.supervisor.
cat >ranked <<'END'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-supervisor}}
echo $$ >"pid.$rank"
[ "$rank" != 0 ] || echo >>launches
exec "$@"
END
chmod +x ranked

begins "the undisturbed runs"
# Its weights alone, however they are cut.
weights() { "$PENSTOCK" export --run "$1" -o exported.safetensors -q >/dev/null 2>err && cksum <exported.safetensors; }

data="--data synthetic:images,samples=96 --valid synthetic:images,samples=20"
steps=${moments:+1}40
"$PENSTOCK" profile --model lenet5,input=16,classes=4 --micro-batch 4 -q -o profile.json >/dev/null 2>err || complain "no profile"
for plan in "async 1f1b-async pipeoptim" "flush 1f1b sync"; do
    # Words on purpose, here and below.
    # shellcheck disable=SC2086
    set -- $plan
    "$PENSTOCK" plan --profile profile.json --workers 3 --method uniform --schedule "$2" --weights "$3" --micro-batches 2 \
        --optimizer adam -q -o "$1.json" >/dev/null 2>err || complain "no plan $1"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $data --steps $steps --checkpoint-every 2 --transport threads --out "$1" -q >/dev/null 2>err ||
        complain "threads: $1"
done

# Sentences of one to three words, each computed at its length; an epoch has 16 mini-batches.
awk 'BEGIN { for (i = 0; i < 64; i++) { for (w = 0; w <= i % 3; w++) printf "%c ", 97 + (i + w) % 7; print "" } }' | tee lines.x | tr a-g t-z >lines.y
"$PENSTOCK" profile --model gnmt-l,layers=4,seq=4,target=4,hidden=8,vocab=12 --micro-batch 4 --repeats 1 -q -o texts.json >/dev/null \
    2>err && "$PENSTOCK" plan --profile texts.json --workers 3 --method uniform --schedule 1f1b-async --weights pipeoptim \
    --optimizer adam -q -o lengths.json >/dev/null 2>err || complain "no plan lengths"
by_length="--plan lengths.json --data pairs:lines:x:y --lengths 2,3 --steps 40 --checkpoint-every 2 --keep-checkpoints 100 -q"
# shellcheck disable=SC2086
"$PENSTOCK" train $by_length --transport threads --out lengths >/dev/null 2>err || complain "threads: lengths"

# Runs that are struck go on for two seconds, so that it is not over before.
slowly="--emulate --bandwidth 1GB/s --latency 10ms"

# begin COMMAND...: in the background; its status comes into the file `ended`.
begin() {
    rm -rf ended
    (
        "$@" >out 2>err
        echo $? >status
        mv status ended
    ) &
}
launches() { wc -l <launches; }
goes_on() { [ -e ended ] || { [ -n "$(newest run)" ] && [ "$(newest run)" != "$seen" ]; }; }
went_down() { [ -e ended ] || [ "$(launches)" -ne "$launched" ]; }

# strike SIGNAL RANK guard|worker: at a random moment after the next checkpoint; then waits until the run has ended or is started again.
# No: the run was over.
strike() {
    seen=$(newest run)
    until_so goes_on
    draw 60
    milliseconds $random
    [ ! -e ended ] || return 1
    launched=$(launches)
    victim=$(cat "pid.$2")
    [ "$3" = guard ] || victim=$(cat "/proc/$victim/task/$victim/children" 2>/dev/null)
    # It may be gone by now.
    victim=${victim%% *}
    [ -n "$victim" ] && kill -"$1" "$victim" 2>/dev/null || return 1
    struck=$((struck + 1))
    until_so went_down
}

# supervise PLAN OPTION...: begins a run that is started again whenever it is lost
supervise() {
    plan=$1
    shift
    rm -rf run pid.* launches
    : >launches
    struck=0
    # shellcheck disable=SC2086
    begin timeout -k 20 ${moments:+10}300 ./ranked "$program" train --plan "$plan.json" $data --steps $steps $slowly --checkpoint-every 2 \
        --out run --restarts 100 --launch "${launcher:-$mpirun} -n %d ./ranked" "$@"
}

# finished COMMAND...: goes on with a run to its end; its status is in $status. For a moment those who trained in it before may still be
# there.
finished() {
    tries=0
    while "$@" >out 2>err; status=$?; [ $status -eq 2 ] && grep -q 'another process is training in it' err && [ $tries -lt 100 ]; do
        milliseconds 100
        tries=$((tries + 1))
    done
}

# What each worker of RUN has sent and received, in all steps; of a summary, also how long it was busy.
traffic() { grep -oE '"(sent|received)_bytes": [0-9]+' "$1/summary.json"; }
totals() { grep -oE '"(busy_s|sent_bytes|received_bytes)": [0-9.e-]+' "$1"; }

# undisturbed TEXT: the run has ended, and as if nothing had been.
undisturbed() {
    until_so test -e ended
    wait
    [ "$(cat ended)" = 0 ] && [ "$(sum run)" = "$(sum async)" ] || complain "$mpirun: $1: status $(cat ended), or other weights"
    grep -q 'with a worker less' err && complain "$mpirun: $1: a worker was given up"
    [ -n "$(traffic run)" ] && [ "$(traffic run)" = "$(traffic async)" ] || complain "$mpirun: $1: $(traffic run | tr '\n' ' ')"
    echo "$mpirun: $1, $struck times"
}

# Every rank once, and gone on with by hand.
by_hand() {
    begins "$mpi: by hand"
    rm -rf run pid.* launches
    : >launches
    struck=0
    # shellcheck disable=SC2086
    set -- --plan async.json $data --steps $steps $slowly --checkpoint-every 2 --out run -q
    for rank in 2 0 1; do
        # A launcher can hang when a process dies while it starts; what it started is gone then, and it is ended from here.
        begin timeout -k 5 120 "$mpirun" -n 3 ./ranked "$program" train "$@"
        strike KILL $rank guard
        until_so test -e ended
        wait
        set -- --resume run -q
    done
    finished timeout -k 5 120 "$mpirun" -n 3 ./ranked "$program" train --resume run -q
    echo $status >ended
    undisturbed "killed, and gone on with"
}

# Begun by threads and stopped, gone on with by two processes, for which it is planned anew, and at last by threads again.
elsewhere() {
    begins "$mpi: elsewhere"
    rm -rf run pid.*
    : >launches
    # shellcheck disable=SC2086
    begin ./ranked "$PENSTOCK" train --plan flush.json $data --steps $steps --checkpoint-every 2 --out run -q
    strike_first TERM supervisor
    begin timeout -k 5 120 "$mpirun" -n 2 ./ranked "$program" train --resume run -q
    strike KILL 1 guard
    until_so test -e ended
    wait
    finished "$PENSTOCK" train --resume run -q
    [ $status -eq 0 ] || complain "$mpirun: gone on with by threads: status $status"
    [ "$(weights run)" = "$(weights flush)" ] || complain "$mpirun: by threads, by processes, by threads: other weights"
}

# strike_first SIGNAL NAME: as soon as there is a checkpoint.
strike_first() {
    seen=
    until_so goes_on
    victim=$(cat "pid.$2")
    kill -"$1" "$victim" 2>/dev/null
    until_so test -e ended
    wait
}

# Every rank makes the epoch's order of lengths for itself: gone on with from the middle of an epoch, and from an epoch's end.
lengths() {
    begins "$mpi: lengths"
    rm -rf run begun
    # shellcheck disable=SC2086
    over 3 train $by_length --out begun
    [ $status -eq 0 ] && [ "$(sum begun)" = "$(sum lengths)" ] || complain "$mpirun: --lengths: status $status, or other weights"
    for last in 26 32; do
        for way in "$mpirun -n 3 $program" "$PENSTOCK"; do
            rm -rf run
            cp -R begun run
            for checkpoint in run/checkpoints/*; do
                [ "$(basename "$checkpoint")" -le "0000$last" ] || rm -rf "$checkpoint"
            done
            [ "$(newest run)" = "0000$last" ] || complain "no checkpoint after $last mini-batches"
            # shellcheck disable=SC2086
            timeout -k 5 120 $way train --resume run -q >out 2>err
            status=$?
            [ $status -eq 0 ] && [ "$(sum run)" = "$(sum lengths)" ] ||
                complain "$mpirun: --lengths gone on with after $last mini-batches by $way: status $status, or other weights"
        done
    done
}

# Rank 2 is lost whenever it comes up, stopped at first and then killed: two processes take over.
with_less() {
    begins "$mpi: with less"
    supervise flush -q
    signal=STOP
    until [ -e ended ]; do
        milliseconds 50
        [ -e run/config.json ] && [ -s pid.2 ] || continue
        kill -$signal "$(cat pid.2)" 2>/dev/null
        rm -f pid.2
        signal=KILL
    done
    wait
    [ "$(cat ended)" -eq 0 ] || complain "$mpirun: supervised: status $(cat ended)"
    [ "$(weights run)" = "$(weights flush)" ] || complain "$mpirun: supervised: other weights"
}

# A launcher that stays when all that it began have ended, as Open MPI 4.1's does now and then after a loss, is ended itself.
hanging_launcher() {
    begins "$mpi: a launcher that hangs"
    cat >hanging <<END
#!/bin/sh
"$mpirun" "\$@" || exec sleep 1000
END
    chmod +x hanging
    launcher=./hanging
    # A run may be over before it is struck.
    for try in 1 2 3 4 5 6 7 8 9 10; do
        supervise async
        strike KILL 2 guard
        undisturbed "with a launcher that hangs"
        [ "$(launches)" -le 1 ] || break
    done
    unset launcher
    [ "$(launches)" -gt 1 ] || complain "$mpirun: nothing was started again"
}

# The supervisor itself is killed: nothing of it stays, and the run goes on from what it left.
without_supervisor() {
    begins "$mpi: without supervisor"
    supervise async
    strike_first KILL supervisor
    finished timeout -k 5 200 "$mpirun" -n 3 "$program" train --resume run -q
    [ $status -eq 0 ] && [ "$(sum run)" = "$(sum async)" ] || complain "$mpirun: supervisor killed: status $status, or other weights"
}

library() {
    begins "$mpi: checkpoints"
    # shellcheck disable=SC2086
    over 3 train --plan async.json $data --steps $steps --checkpoint-every 2 --out run -q
    [ $status -eq 0 ] && [ "$(sum run)" = "$(sum async)" ] || complain "$mpirun: checkpoints are not those of threads"
    over 3 train --resume run --json -q
    [ $status -eq 0 ] && [ "$(totals out | wc -l)" -eq 9 ] && [ "$(totals out)" = "$(totals run/summary.json)" ] ||
        complain "$mpirun: other totals of a run that had ended: status $status, $(totals out | tr '\n' ' ')"
    by_hand
    elsewhere
    lengths
    with_less
    hanging_launcher
    without_supervisor
    begins "$mpi: supervised"
    supervise async
    strike KILL 0 worker
    strike STOP 1 worker
    undisturbed "supervised"
    for rank in ${moments:+0 1 2}; do
        for way in "KILL guard" "KILL worker" "STOP guard" "STOP worker"; do
            begins "$mpi: rank $rank, $way"
            supervise async
            while [ $struck -lt "$moments" ] && strike "${way% *}" $rank "${way#* }"; do :; done
            undisturbed "rank $rank, $way"
        done
    done
}

each_mpi library
finish
