#!/bin/sh
# A run that survives, as users meet it: killed at random moments, stopped by signals, with a full disk, it goes on and ends with
# the weights of the run that was never disturbed, bit for bit. (What PENSTOCK is, and what sets the moments, stands in support.sh.)
. "$(dirname "$0")/support.sh"
echo "seed: PENSTOCK_TEST_SEED=$seed"

# checkpoint_in RUN: waits until there is one.
checkpoint_in() { until_so test -e "$1/config.json"; }

begins "an undisturbed run"
common="--data synthetic:images,samples=400 --valid synthetic:images,samples=16 --optimizer adam --lr 0.001 --device reference
    --checkpoint-every 7 --keep-checkpoints 3 --seed 3 -q"
# Some machines are through with it before a signal finds it; what must be found has so many that none is.
steps=600
endless=10000000
# The same plan for all. Words on purpose, here and below.
# shellcheck disable=SC2086
"$PENSTOCK" train --model lenet5,input=16 --workers 3 --cores 3 --schedule 1f1b-async --weights pipeoptim --batch 8 --micro-batch 4 $common \
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

begins "killed"
# kill_one COMMAND...: trains, and is killed at a random moment, at first before there is a checkpoint. Its status is in $status.
kill_one() {
    "$@" >out 2>err &
    # It gets longer each time: on a busy machine too it comes to an end.
    draw $((20 + 20 * kills))
    milliseconds $random
    [ $kills -lt 25 ] && kill -KILL $! 2>/dev/null && kills=$((kills + 1))
    wait $! 2>/dev/null
    status=$?
}
kills=0 status=137
while [ $status -eq 137 ]; do
    # Before its configuration was there, there was no run.
    if [ -e killed/config.json ]; then
        kill_one "$PENSTOCK" train --resume killed -q
    else
        # shellcheck disable=SC2086
        kill_one "$PENSTOCK" train $run --steps $steps --out killed
    fi
done
[ $status -eq 0 ] || complain "killed and resumed: status $status"
echo "killed $kills times"
[ $kills -gt 0 ] || complain "nothing was killed"
same killed

begins "stopped by signals"
# stop SIGNAL RUN STATUSES: what trains in the background, $!, at a random moment after RUN's first checkpoint
stop() {
    checkpoint_in "$2"
    draw 100
    milliseconds $random
    kill -"$1" $! 2>/dev/null
    wait $!
    status=$?
    case " $3 " in *" $status "*) ;; *) complain "$2: SIG$1: status $status, not $3" ;; esac
}
# A shell's background jobs ignore SIGINT, and so does what it starts there.
for signal in TERM HUP; do
    # shellcheck disable=SC2086
    "$PENSTOCK" train $run --steps $endless --out stopped_$signal >out 2>err &
    stop $signal stopped_$signal 75
    grep -q "^penstock: stopped on request; stopped_$signal keeps the checkpoint of step [0-9]* of $endless" err ||
        complain "SIG$signal: does not say what is kept"
    "$PENSTOCK" evaluate --run stopped_$signal --data synthetic:images,samples=16 -q >out 2>err || complain "no evaluation"
    "$PENSTOCK" export --run stopped_$signal -o stopped.safetensors -q >out 2>err || complain "no export"
done
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $steps --out stopped >out 2>err &
stop TERM stopped "75 0"
"$PENSTOCK" train --resume stopped --transport serial -q >out 2>err || complain "resumed after SIGTERM: status $?"
same stopped

begins "stopped while nobody reads what it says"
mkfifo unread
exec 3<>unread
dd if=/dev/zero of=unread bs=4096 oflag=nonblock 2>/dev/null # until it takes no more
# shellcheck disable=SC2086
timeout --foreground -k 60 5 "$PENSTOCK" train --plan first/plan.json ${common%-q} --steps $endless --out unread_run >out 2>unread
[ $? -eq 137 ] && complain "SIGTERM does not end a run whose messages nobody reads"
exec 3<&-

begins "supervised"
# is_there PID: it has not ended (a shell's job whose status nobody asked for yet has, though its number is still in use).
is_there() { read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" != Z ]; }

# strike SIGNAL RUN: the process that $job supervises, at a random moment after RUN's next checkpoint; then waits until it is gone.
# No: the job has ended before.
strike() {
    before=$(newest "$2") below=
    until_so goes_on "$2"
    draw 50
    milliseconds $random
    until_so is_supervised
    [ -n "$below" ] && kill -"$1" "$below" 2>/dev/null || return 1
    until_so is_over "$below"
}
goes_on() { [ "$(newest "$1")" != "$before" ] || ! is_there "$job"; }
is_supervised() {
    read -r below _ 2>/dev/null <"/proc/$job/task/$job/children"
    [ -n "$below" ] || ! is_there "$job"
}
is_over() { ! is_there "$1"; }

# shellcheck disable=SC2086
"$PENSTOCK" train ${run% -q} --steps $endless --restarts 4 --out lost >out 2>err &
job=$!
for signal in KILL STOP KILL; do strike $signal lost || complain "killed, stopped and killed with four restarts: is over"; done
before=$(newest lost)
until_so goes_on lost
kill -TERM $job
wait $job
status=$?
[ $status -eq 75 ] && [ "$(grep -c '^penstock: stopped on request' err)" -eq 1 ] || complain "a supervised run is stopped: status $status"

# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $endless --restarts 1 --out lost_twice >out 2>err &
job=$!
for signal in KILL KILL; do strike $signal lost_twice || complain "killed twice with one restart: is over"; done
wait $job
status=$?
[ $status -eq 6 ] && grep -q '^penstock: training was ended by signal 9, and no restart is left' err ||
    complain "killed twice with one restart: status $status"

# Killed and stopped, or over before, it ends as the undisturbed run did.
# shellcheck disable=SC2086
"$PENSTOCK" train ${run% -q} --steps $steps --restarts 2 --out lost_stopped >out 2>err &
job=$!
strike KILL lost_stopped
kill -TERM $job 2>/dev/null
wait $job
status=$?
[ $status -eq 75 ] || [ $status -eq 0 ] || complain "a supervised run is killed and stopped: status $status"
"$PENSTOCK" train --resume lost_stopped --restarts 2 -q >out 2>err || complain "a supervised run is resumed: status $?"
same lost_stopped

# A launcher has a status of its own where it is told to end.
cat >launcher <<'EOF'
#!/bin/sh
"$@" &
trap 'kill -TERM $! && wait $!; exit 1' TERM
wait $!
EOF
chmod +x launcher
# shellcheck disable=SC2086
"$PENSTOCK" train ${run% -q} --steps $endless --restarts 2 --launch ./launcher --out launched >out 2>err &
job=$!
checkpoint_in launched
kill -TERM $job
wait $job
status=$?
[ $status -eq 75 ] && grep -q '^penstock: stopped on request; launched keeps the checkpoint of step [0-9]' err ||
    complain "what a launcher began is stopped: status $status"

# The supervisor itself is killed: what it supervises ends by itself, and can be gone on with.
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $endless --restarts 1 --out lost_supervisor >out 2>err &
job=$!
checkpoint_in lost_supervisor
below=
is_supervised && [ -n "$below" ] || complain "a supervised run has no process"
kill -KILL $job
wait $job 2>/dev/null
until_so is_over "$below"
before=$(newest lost_supervisor)
"$PENSTOCK" train --resume lost_supervisor -q >out 2>err &
job=$!
until_so goes_on lost_supervisor
kill -TERM $job 2>/dev/null
wait $job
status=$?
[ $status -eq 75 ] || complain "resumed without the supervisor: status $status"

# Stopped before it has become the program.
if [ -n "${PENSTOCK_LEAVER:-}" ]; then
    # shellcheck disable=SC2086
    LD_PRELOAD=$PENSTOCK_LEAVER LEAVER_FORKS=penstock LEAVER_SIDE=child LEAVER_SIGNAL=19 timeout -k 5 60 \
        "$PENSTOCK" train ${run% -q} --steps $steps --restarts 1 --out lost_at_start >out 2>err
    status=$?
    [ $status -eq 0 ] && grep -q '^warning: training was ended by signal 9' err || complain "stopped before it has begun: status $status"
    same lost_at_start
fi

# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps 4 --restarts 1 --lr 1000000 --out lost_never >out 2>err
status=$?
[ $status -le 2 ] || complain "what fails by itself is started again: status $status"
grep -q warning err && complain "what fails by itself is started again"

begins "two at once"
# shellcheck disable=SC2086
"$PENSTOCK" train $run --steps $endless --out busy >out 2>err &
checkpoint_in busy
"$PENSTOCK" train --resume busy -q >out 2>err
[ $? -eq 2 ] && grep -q "busy: another process is training in it" err || complain "two processes train in one directory"
kill -KILL $!
wait $! 2>/dev/null

begins "a full disk"
# shellcheck disable=SC2086
(ulimit -f 60 && exec "$PENSTOCK" train $run --steps $steps --out full >out 2>err)
status=$?
[ $status -eq 5 ] && grep -q '^penstock: full.*cannot write' err || complain "a full disk: status $status, not 5"
[ "$(grep -c '^penstock: ' err)" -eq 1 ] || complain "a full disk: not one line"
ls full/checkpoints 2>/dev/null | grep -q . && complain "a full disk: something stands where no checkpoint could be written"

begins "nothing to go on from"
"$PENSTOCK" train --resume nowhere >out 2>err
[ $? -eq 7 ] && grep -q '^penstock: --resume: nowhere holds no run' err || complain "--resume of nothing is not status 7"
"$PENSTOCK" train --resume full >out 2>err
[ $? -eq 7 ] || complain "--resume without a checkpoint is not status 7"
"$PENSTOCK" train --resume whole --batch 16 >out 2>err
[ $? -eq 2 ] && grep -q -- '--resume and --batch contradict' err || complain "--resume with another batch is not status 2"
"$PENSTOCK" train --resume whole -q >out 2>err || complain "--resume of a finished run: status $?"
same whole

finish
