#!/bin/sh
# A run that survives, as users meet it: killed at random moments, stopped by signals, with a full disk, it goes on and ends with
# the weights of the run that was never disturbed, bit for bit. (What PENSTOCK is, and what sets the moments, stands in support.sh.)
. "$(dirname "$0")/support.sh"
echo "seed: PENSTOCK_TEST_SEED=$seed"

# checkpoint_in RUN: waits until there is one.
checkpoint_in() { until_so test -e "$1/config.json" || complain "$1 gets no checkpoint"; }

common="--data synthetic:images,samples=400 --valid synthetic:images,samples=16 --optimizer adam --lr 0.001 --device reference
    --checkpoint-every 7 --keep-checkpoints 3 --seed 3 -q"
# Long enough that a signal finds it running on a fast machine, too.
steps=1000
# The same plan for all. Words on purpose, here and below.
# shellcheck disable=SC2086
"$PENSTOCK" train --model lenet5,input=16 --workers 3 --schedule 1f1b-async --weights pipeoptim --batch 8 --micro-batch 4 $common \
    --steps 1 --out first >out 2>err || complain "the first run: status $?"
run="--plan first/plan.json $common"
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $steps --out whole >out 2>err || complain "the undisturbed run: status $?"
wanted=$(sum whole)
[ $failures -eq 0 ] || exit 1
[ "$(ls whole/checkpoints | wc -l)" -eq 3 ] || complain "not three checkpoints are kept"

# same RUN: it ended as the undisturbed run did.
same() {
    [ "$(sum "$1")" = "$wanted" ] || complain "$1 does not end with the weights of the undisturbed run"
    [ "$(sed 's/, "samples_per_s.*//' "$1/log.jsonl")" = "$(sed 's/, "samples_per_s.*//' whole/log.jsonl)" ] ||
        complain "$1 does not have the log of the undisturbed run"
    grep -q "\"step\": $steps" "$1/summary.json" || complain "$1 has no summary of the whole run"
}

# ------------------------------------------------------------------ killed
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $steps --out killed >out 2>err &
kills=0
while :; do
    # It gets longer each time: on a busy machine too it comes to an end.
    draw 250
    milliseconds $((60 + random + 20 * kills))
    [ $kills -lt 25 ] && kill -KILL $! 2>/dev/null && kills=$((kills + 1))
    wait $! 2>/dev/null
    status=$?
    [ $status -ne 137 ] && break
    # Before its configuration was there, there was no run.
    if [ -e killed/config.json ]; then
        "$PENSTOCK" train --resume killed -q >out 2>err &
    else
        # shellcheck disable=SC2086
        "$PENSTOCK" train $run --steps $steps --out killed >out 2>err &
    fi
done
[ $status -eq 0 ] || complain "killed and resumed: status $status"
echo "killed $kills times"
[ $kills -gt 0 ] || complain "nothing was killed"
same killed

# ------------------------------------------------------------------ stopped by signals
for signal in TERM INT HUP; do
    # shellcheck disable=SC2086
    "$PENSTOCK" train $run --steps $steps --out stopped_$signal >out 2>err &
    checkpoint_in stopped_$signal
    draw 100
    milliseconds $random
    # A shell's background jobs ignore SIGINT, and so does what it starts there.
    [ $signal = INT ] && kill -TERM $! || kill -$signal $!
    wait $!
    status=$?
    [ $status -eq 75 ] || complain "SIG$signal: status $status, not 75"
    grep -q "^penstock: stopped by a signal; stopped_$signal keeps the checkpoint of step [0-9]* of $steps" err ||
        complain "SIG$signal: does not say what is kept"
    "$PENSTOCK" evaluate --run stopped_$signal --data synthetic:images,samples=16 -q >out 2>err || complain "no evaluation"
    "$PENSTOCK" export --run stopped_$signal -o stopped.safetensors -q >out 2>err || complain "no export"
    "$PENSTOCK" train --resume stopped_$signal --transport serial -q >out 2>err || complain "resumed after SIG$signal: status $?"
    same stopped_$signal
done

# ------------------------------------------------------------------ supervised
# is_there PID: it has not ended (a shell's job whose status nobody asked for yet has, though its number is still in use).
is_there() { read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" != Z ]; }

# strike SIGNAL RUN: the process that $job supervises, at a random moment after RUN's next checkpoint; then waits until it is gone.
# Counts in $strikes; no: the job has ended before.
strike() {
    before=$(newest "$2") below=
    until_so goes_on "$2" || complain "$2 does not go on"
    draw 50
    milliseconds $random
    until_so is_supervised || complain "$2 has no process"
    [ -n "$below" ] && kill -"$1" "$below" 2>/dev/null || return 1
    strikes=$((strikes + 1))
    until_so is_over "$below" || complain "$2 is left with a process that got $1"
}
goes_on() { [ "$(newest "$1")" != "$before" ] || ! is_there "$job"; }
is_supervised() {
    read -r below _ 2>/dev/null <"/proc/$job/task/$job/children"
    [ -n "$below" ] || ! is_there "$job"
}
is_over() { ! is_there "$1"; }

# shellcheck disable=SC2086
"$PENSTOCK" train ${run% -q} --steps $steps --restarts 4 --out lost >out 2>err &
job=$! strikes=0
for signal in KILL STOP KILL; do strike $signal lost; done
wait $job
status=$?
[ $status -eq 0 ] || complain "killed, stopped and killed with four restarts: status $status"
[ $strikes -gt 0 ] || complain "nothing that is supervised was killed"
grep -q "\"step\": $steps" lost/summary.json || complain "a supervised run has no summary of the whole run"
# Lost twice at the same checkpoint it goes on with a worker less, and other weights.
grep -q 'with a worker less' err || same lost

# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps 100000 --restarts 1 --out lost_twice >out 2>err &
job=$!
for signal in KILL KILL; do strike $signal lost_twice; done
wait $job
status=$?
[ $status -eq 6 ] && grep -q '^penstock: training was ended by signal 9, and no restart is left' err ||
    complain "killed twice with one restart: status $status"

# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $steps --restarts 1 --out lost_stopped >out 2>err &
job=$!
checkpoint_in lost_stopped
kill -TERM $job
wait $job
status=$?
[ $status -eq 75 ] && [ "$(grep -c '^penstock: stopped by a signal' err)" -eq 1 ] || complain "a supervised run is stopped: status $status"
"$PENSTOCK" train --resume lost_stopped --restarts 2 -q >out 2>err || complain "a supervised run is resumed: status $?"
same lost_stopped

# The supervisor itself is killed: what it supervises ends by itself, and can be gone on with.
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $steps --restarts 1 --out lost_supervisor >out 2>err &
job=$!
checkpoint_in lost_supervisor
below=
is_supervised && [ -n "$below" ] || complain "a supervised run has no process"
kill -KILL $job
wait $job 2>/dev/null
until_so is_over "$below" || complain "a supervisor that is killed leaves its run behind"
"$PENSTOCK" train --resume lost_supervisor -q >out 2>err || complain "resumed without the supervisor: status $?"
same lost_supervisor

# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps 4 --restarts 1 --lr 1000000 --out lost_never >out 2>err
status=$?
[ $status -le 2 ] || complain "what fails by itself is started again: status $status"
grep -q warning err && complain "what fails by itself is started again"

# ------------------------------------------------------------------ two at once
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps 100000 --out busy >out 2>err &
checkpoint_in busy
"$PENSTOCK" train --resume busy -q >out 2>err
[ $? -eq 2 ] && grep -q "busy: another process is training in it" err || complain "two processes train in one directory"
kill -KILL $!
wait $! 2>/dev/null

# ------------------------------------------------------------------ a full disk
# shellcheck disable=SC2086
(ulimit -f 60 && exec "$PENSTOCK" train $run --steps $steps --out full >out 2>err)
status=$?
[ $status -eq 5 ] && grep -q '^penstock: full.*cannot write' err || complain "a full disk: status $status, not 5"
[ "$(grep -c '^penstock: ' err)" -eq 1 ] || complain "a full disk: not one line"
ls full/checkpoints 2>/dev/null | grep -q . && complain "a full disk: something stands where no checkpoint could be written"

# ------------------------------------------------------------------ nothing to go on from
"$PENSTOCK" train --resume nowhere >out 2>err
[ $? -eq 7 ] && grep -q '^penstock: --resume: nowhere holds no run' err || complain "--resume of nothing is not status 7"
"$PENSTOCK" train --resume full >out 2>err
[ $? -eq 7 ] || complain "--resume without a checkpoint is not status 7"
"$PENSTOCK" train --resume whole --lr 0.1 >out 2>err
[ $? -eq 2 ] && grep -q -- '--resume and --lr contradict' err || complain "--resume with another learning rate is not status 2"
"$PENSTOCK" train --resume whole -q >out 2>err || complain "--resume of a finished run: status $?"
same whole

finish
