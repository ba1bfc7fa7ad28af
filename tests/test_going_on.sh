#!/bin/sh
# Going on with a run as users mean to: for longer, with other rates, after Ctrl-C, with the best checkpoint. By threads, and over each
# MPI library in PENSTOCK_MPIS. (What PENSTOCK and PENSTOCK_MPIS are stands in support.sh.)
. "$(dirname "$0")/support.sh"

begins "the runs that were never interrupted"
# An epoch has 12 steps.
common="--data synthetic:images,samples=100 --valid synthetic:images,samples=16 --device reference --seed 3 -q"
"$PENSTOCK" profile --model lenet5,input=16 --micro-batch 4 --repeats 1 -q -o profile.json >out 2>err || complain "no profile"
for plan in "async 1f1b-async pipeoptim" "flush 1f1b sync"; do
    # Words on purpose, here and below.
    # shellcheck disable=SC2086
    set -- $plan
    "$PENSTOCK" plan --profile profile.json --workers 3 --method uniform --schedule "$2" --weights "$3" --micro-batches 2 \
        --optimizer adam -q -o "$1.json" >out 2>err || complain "no plan $1"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $common --epochs 3 --transport threads --out "$1" >out 2>err || complain "threads: $1"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $common --epochs 2 --transport threads --out "$1_short" >out 2>err || complain "threads: $1"
done

# short PLAN: a copy of its shorter run, in `run`
short() { rm -rf run && cp -r "$1_short" run; }

# An epoch of 5,000 steps, and a line of the log after each 50 of 1,000.
endless="--data synthetic:images,samples=40000 --device reference --seed 3 -q"
cat >ranked <<'SH'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" != 0 ] || echo $$ >pid.new
[ ! -e pid.new ] || mv pid.new pid
exec "$@"
SH
chmod +x ranked
later_than_first() { newest "$1" | grep -q '[1-9]'; }

for way in "=$PENSTOCK" $(usable_mpis); do
    # An MPI library has leaks of its own.
    [ -z "${way%%=*}" ] || ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
    program=${way#*=}
    start=
    [ -z "${way%%=*}" ] || start="${way%%=*} -n 3"

    for plan in async flush; do
        begins "more epochs: $plan ${start:-threads}"
        short $plan
        $start "$program" train --resume run --epochs 3 -q >out 2>err || complain "--epochs 3: status $?"
        [ "$(sum run)" = "$(sum $plan)" ] || complain "two epochs and one more are not three"
        grep -q '"until_step": 24' run/config.json && grep -q '"step": 36' run/summary.json || complain "the record of the run that went on"
        [ "$(sed 's/, "samples_per_s.*//' run/log.jsonl)" = "$(sed 's/, "samples_per_s.*//' $plan/log.jsonl)" ] || complain "another log"
    done

    begins "stopped in the middle of an epoch: ${start:-threads}"
    rm -rf run pid
    # shellcheck disable=SC2086
    $start ./ranked "$program" train --plan flush.json $endless --steps 1000 --out run >out 2>err &
    until_so test -s run/log.jsonl
    kill -TERM "$(cat pid)"
    wait $!
    status=$?
    at=$(newest run | sed 's/^0*//')
    # Launchers have statuses of their own.
    { [ $status -eq 75 ] || [ -n "$start" ]; } && grep -q "^penstock: stopped on request; run keeps the checkpoint of step $at of 1000$" err ||
        complain "stopped: status $status, checkpoint $at"
    [ "${at:-0}" -ge 50 ] || complain "stopped after a line of the log, the checkpoint is of step $at"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan flush.json $endless --steps $((at + 9)) --transport threads --out never >out 2>err || complain "the same: status $?"
    $start "$program" train --resume run --steps $((at + 9)) -q >out 2>err || complain "goes on after a stop: status $?"
    [ "$(sum run)" = "$(sum never)" ] || complain "stopped and resumed, it ends with other weights"
    rm -rf never

    begins "stopped where the weights are not synchronous: ${start:-threads}"
    rm -rf run pid
    # shellcheck disable=SC2086
    $start ./ranked "$program" train --plan async.json $endless --steps 5000 --out run >out 2>err &
    until_so test -s run/log.jsonl
    kill -TERM "$(cat pid)"
    wait $!
    again=$(sed -n 's/^penstock: stopped on request; run keeps the checkpoint of step 0 of 5000; \([0-9]*\) steps after it, [0-9.]* m*s, will be.*/\1/p' err)
    [ "${again:-0}" -ge 50 ] || complain "stopped after 50 steps of a segment, it says of those that are lost: $(cat err)"

    begins "a checkpoint when it is time: ${start:-threads}"
    rm -rf run pid
    # shellcheck disable=SC2086
    $start ./ranked "$program" train --plan flush.json $endless --steps 1000 --checkpoint-minutes 0.005 --out run >out 2>err &
    until_so later_than_first run
    kill -KILL "$(cat pid)"
    wait $!
    at=$(newest run | sed 's/^0*//')
    rm -rf never
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan flush.json $endless --steps $((at + 9)) --transport threads --out never >out 2>err || complain "the same: status $?"
    $start "$program" train --resume run --steps $((at + 9)) -q >out 2>err || complain "goes on after a kill: status $?"
    [ "$(sum run)" = "$(sum never)" ] || complain "killed and resumed, it ends with other weights"
    rm -rf never

    begins "the best checkpoint, and an early end: ${start:-threads}"
    rm -rf run
    # A rate so high that what is learned is lost again.
    $start "$program" train --plan flush.json $common --evaluate-every 4 --lr 0.03 --epochs 9 --keep best --keep-checkpoints 1 --patience 3 \
        --out run >out 2>err || complain "--keep best: status $?"
    grep -q '"ended_early": true' run/summary.json || complain "it does not end early"
    best=$(sed -n 's/.*"best_step": \([0-9]*\).*/\1/p' run/summary.json)
    least=$(sed -n 's/^{"step": \([0-9]*\),.*"valid_loss": \([0-9.e+-]*\),.*/\2 \1/p' run/log.jsonl | sort -g | head -n 1)
    [ "${least#* }" = "$best" ] && [ -e "run/checkpoints/$(printf %06d "$best")" ] && [ "$(ls run/checkpoints | wc -l)" -eq 2 ] ||
        complain "best: $best, of the log: $least, kept: $(ls run/checkpoints)"
    [ "$(newest run | sed 's/^0*//')" -gt "$best" ] || complain "the best is the newest, which shows nothing"
    for which in best newest "$best"; do
        "$PENSTOCK" export --run run --checkpoint $which -o $which.safetensors -q >out 2>err || complain "export --checkpoint $which: status $?"
    done
    cmp -s best.safetensors "$best.safetensors" && ! cmp -s best.safetensors newest.safetensors || complain "other weights are the best"
    "$PENSTOCK" evaluate --run run --checkpoint best --data synthetic:images,samples=16 --device reference --json -q >out 2>err
    grep -q "\"loss\": $(printf %.5s "${least% *}")" out || complain "the best has not the loss of the log: $(cat out), $least"
    $start "$program" train --resume run -q >out 2>err && [ "$(newest run | sed 's/^0*//')" -lt 108 ] || complain "it goes on after its early end"
    $start "$program" train --resume run --epochs 10 --patience 100 -q >out 2>err && [ "$(newest run)" = 000120 ] ||
        complain "it does not go on when more patience is asked for"

    begins "evaluated by several workers: ${start:-threads}"
    held="--run flush --data synthetic:images,samples=50 --device reference --json -q"
    # shellcheck disable=SC2086
    "$PENSTOCK" evaluate $held >alone 2>err || complain "evaluate: status $?"
    # shellcheck disable=SC2086
    $start "$program" evaluate $held --workers 3 >out 2>err || complain "evaluate --workers 3: status $?"
    cmp -s out alone || complain "other figures: $(cat out) and $(cat alone)"
    if [ -n "$start" ]; then
        # shellcheck disable=SC2086
        ${start% *} 2 "$program" evaluate $held --checkpoint 24 >out 2>err || complain "evaluate by two processes: status $?"
        # shellcheck disable=SC2086
        "$PENSTOCK" evaluate $held --checkpoint 24 >alone 2>err
        cmp -s out alone || complain "two processes have other figures: $(cat out) and $(cat alone)"
    fi

    begins "other rates: ${start:-threads}"
    short flush
    $start "$program" train --resume run --steps 30 --lr 0.5 --lr-schedule cosine --weight-decay 0.25 >out 2>err ||
        complain "other rates: status $?"
    grep -q 'from step 24 on: steps 30, was 24; lr 0.5, was 0.001; weight_decay 0.25, was 0.*; lr_schedule "cosine", was "constant"' err ||
        complain "does not say what has changed"
    record=$(tr -d ' \n' <run/config.json)
    case ${record#*\"history\":} in *'"until_step":24,'*'"steps":24,'*'"lr":0.001,'*'"lr_schedule":"constant"'*) ;; *) complain "history: $record" ;; esac
    case ${record%%\"history\"*} in *'"steps":30,'*'"lr":0.5,'*'"weight_decay":0.25,'*) ;; *) complain "settings: $record" ;; esac
    [ "$(sum run)" != "$(sum flush)" ] || complain "other rates change nothing"
    # With the same settings nothing is added.
    rm -r run/checkpoints/000030 run/summary.json
    cp run/config.json before.json
    $start "$program" train --resume run -q >out 2>err || complain "the same once more: status $?"
    [ "$(grep -c until_step run/config.json)" -eq 1 ] || complain "the same settings are a change"
done

# Not everywhere are there terminals to be had.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    for plan in async flush; do
        begins "stopped while it evaluates: $plan"
        # The same data and another part of them, which takes long; on a terminal the progress is shown at once.
        few="--valid synthetic:images,samples=16"
        same="--plan $plan.json --data synthetic:images,samples=100 --device reference --seed 3 --epochs 2 --keep best"
        rm -rf run pid watched
        TERM=xterm script -qfec "./ranked '$PENSTOCK' train $same --valid synthetic:images,samples=400000 --out run" watched >out 2>err &
        until_so grep -sq evaluating watched
        kill -TERM "$(cat pid)"
        wait $!
        status=$?
        [ $status -eq 75 ] && grep -q 'stopped on request; run keeps the checkpoint of step 12 of 24' watched || complain "status $status: $(tail -n 3 watched)"
        grep -q '"unevaluated": true' run/checkpoints/000012/state.json || complain "it does not keep that the step is to be evaluated"
        grep -q '"step": 12' run/log.jsonl && complain "the log has a step that was not evaluated"
        # shellcheck disable=SC2086
        "$PENSTOCK" train --resume run $few -q >out 2>err || complain "goes on: status $?: $(cat err)"
        # shellcheck disable=SC2086
        "$PENSTOCK" train $same $few --out never -q >out 2>err || complain "never stopped: status $?: $(cat err)"
        [ "$(sum run)" = "$(sum never)" ] || complain "other weights than never stopped"
        [ "$(sed 's/, "samples_per_s.*//' run/log.jsonl)" = "$(sed 's/, "samples_per_s.*//' never/log.jsonl)" ] || complain "another log: $(cat run/log.jsonl)"
        # Twelve mini-batches of eight, and the seconds of training alone.
        sed -n 's/^{"step": 12,.*"samples_per_s": \([0-9.e+-]*\),.*"training_s": \([0-9.e+-]*\).*/\1 \2/p' run/log.jsonl |
            awk '{ off = $1 * $2 / 96 - 1; like = off < 1e-6 && off > -1e-6 } END { exit !like }' || complain "its speed: $(cat run/log.jsonl)"
        grep -q '"unevaluated"' run/checkpoints/*/state.json && complain "an evaluated step counts as not evaluated"
        rm -rf never
    done
fi

begins "a signal to all processes of a run, as Slurm sends it"
rm -rf run
# shellcheck disable=SC2086
"$PENSTOCK" train --plan flush.json $endless --steps 5000 --restarts 1 --out run >out 2>err &
job=$!
until_so test -s run/log.jsonl
read -r below _ <"/proc/$job/task/$job/children"
kill -TERM "$below" $job
wait $job
status=$?
[ $status -eq 75 ] && grep -q '^penstock: stopped on request; run keeps the checkpoint of step [1-9]' err || complain "status $status: $(cat err)"

begins "warm-up and clipping are turned off"
rm -rf run
# shellcheck disable=SC2086
"$PENSTOCK" train --plan flush.json $common --steps 24 --warmup 40 --clip 0.01 --out run >out 2>err || complain "no run with both"
cp -r run kept && cp -r run past
"$PENSTOCK" train --resume run --steps 30 --warmup 0 --clip 0 >out 2>err || complain "status $?: $(cat err)"
grep -q 'from step 24 on: steps 30, was 24; warmup_steps 0, was 40; clip not set, was 0.01' err || complain "does not say so: $(cat err)"
record=$(tr -d ' \n' <run/config.json)
case ${record#*\"history\":} in *'"warmup_steps":40,"clip":0.01'*) ;; *) complain "history: $record" ;; esac
case ${record%%\"history\"*} in *'"clip"'*) complain "settings: $record" ;; *'"warmup_steps":0,'*) ;; *) complain "settings: $record" ;; esac
# What is over by then, and never reached, is the same as none.
"$PENSTOCK" train --resume past --steps 30 --warmup 1 --clip 1e9 -q >out 2>err || complain "others: status $?"
"$PENSTOCK" train --resume kept --steps 30 -q >out 2>err || complain "unchanged: status $?"
[ "$(sum run)" = "$(sum past)" ] || complain "they still count"
[ "$(sum run)" != "$(sum kept)" ] || complain "unsaid, they do not count"
# Once off they stay off.
"$PENSTOCK" train --resume run --steps 36 >out 2>err || complain "once more: status $?"
"$PENSTOCK" train --resume past --steps 36 -q >out 2>err || complain "once more: status $?"
[ "$(sum run)" = "$(sum past)" ] || complain "they are back"

begins "each setting is turned off beside --resume"
# settings RUN: those in its configuration, without its length
settings() { tr -d ' \n' <"$1/config.json" | sed 's/.*"batch"/"batch"/; s/"seed".*//; s/"steps":[0-9]*,//'; }
# turned_off ON OFF SAID: a run that begins with ON and goes on with OFF is as one that had neither, which it says; unsaid, ON stays.
turned_off() {
    rm -rf run unsaid
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan flush.json $common --steps 24 $1 --out run >out 2>err || complain "no run with $1: $(cat err)"
    cp -r run unsaid
    # shellcheck disable=SC2086
    "$PENSTOCK" train --resume run --steps 30 $2 >out 2>err || complain "$2: status $?: $(cat err)"
    grep -q "$3" err || complain "$2 does not say '$3': $(cat err)"
    [ "$(settings run)" = "$(settings plain)" ] || complain "$2 leaves $(settings run), without $1 it were $(settings plain)"
    on=$(settings unsaid)
    "$PENSTOCK" train --resume unsaid --steps 30 -q >out 2>err || complain "unsaid: status $?: $(cat err)"
    [ "$(settings unsaid)" = "$on" ] && [ "$on" != "$(settings plain)" ] || complain "unsaid, $1 becomes $(settings unsaid)"
}
# shellcheck disable=SC2086
"$PENSTOCK" train --plan flush.json $common --steps 24 --out plain >out 2>err || complain "a run with nothing said: $(cat err)"
turned_off "--evaluate-every 5" "--evaluate-every 0" "evaluate_every 0, was 5"
turned_off "--checkpoint-every 5" "--checkpoint-every 0" "checkpoint_every 0, was 5"
turned_off "--lr-schedule cosine" "--lr-schedule constant" 'lr_schedule "constant", was "cosine"'
turned_off "--lr-per-epoch" "--no-lr-per-epoch" "lr_per_epoch false, was true"
turned_off "--warmup 40" "--warmup 0" "warmup_steps 0, was 40"
turned_off "--clip 0.01" "--clip 0" "clip not set, was 0.01"
turned_off "--decay-exclude biases" "--decay-exclude none" 'decay_exclude not set, was "biases"'
turned_off "--groups *.bias:lr=0.01" "--groups none" 'groups not set, was "\*.bias:lr=0.01"'
turned_off "--emulate" "--no-emulate" "from step 24 on: steps 30, was 24"
turned_off "--keep best" "--keep newest" "from step 24 on: steps 30, was 24"
turned_off "--patience 50" "--patience 0" "patience not set, was 50"

begins "an interval of evaluations on a run that evaluates nothing"
cp -r plain run2
"$PENSTOCK" train --resume run2 --steps 30 --evaluate-every 3 -q >out 2>err || complain "on one that does: status $?: $(cat err)"
[ "$(grep -c '"valid_loss"' run2/log.jsonl)" -gt "$(grep -c '"valid_loss"' plain/log.jsonl)" ] || complain "not evaluated: $(cat run2/log.jsonl)"
# shellcheck disable=SC2086
"$PENSTOCK" train --plan flush.json ${common%%--valid*} --device reference --steps 24 --out blind -q >out 2>err || complain "a run without --valid: $(cat err)"
"$PENSTOCK" train --resume blind --steps 30 --evaluate-every 3 -q >out 2>err
[ $? -eq 2 ] && grep -q "^penstock: --evaluate-every: there is nothing to evaluate on; give --valid$" err || complain "on one that does not: $(cat err)"

begins "steps that take long"
printf 'name,forward_s,backward_s,parameter_bytes,output_bytes\na,2,4,8,8\nb,2,4,8,8\n' >slow.csv
"$PENSTOCK" plan --profile slow.csv --workers 2 --method uniform --schedule gpipe --micro-batches 1 -q -o slow.json >out 2>err ||
    complain "no slow plan"
"$PENSTOCK" train --plan slow.json --profile slow.csv --device clock --steps 100 --out slow >out 2>err &
until_so test -e slow/config.json
seconds
began=$now
kill -TERM $!
wait $!
[ $? -eq 75 ] && grep -q "^penstock: stopped on request; slow keeps the checkpoint of step 0 of 100" err || complain "a slow step is stopped"
seconds
[ $((now - began)) -le 10 ] || complain "a slow step takes $((now - began)) s to stop"

begins "weights that depend on the segments"
"$PENSTOCK" train --plan async.json --data synthetic:images,samples=2000000 --device reference --steps 40 --checkpoint-minutes 0.00001 \
    --out spaced >out 2>err || complain "checkpoints by the plan's time: status $?"
every=$(sed -n 's/.*a checkpoint every \([0-9]*\) step.*/\1/p' err)
grep -q "\"checkpoint_every\": ${every:-none}," spaced/config.json || complain "the interval that follows from the plan is not kept"
"$PENSTOCK" train --plan async.json --data synthetic:images,samples=2000000 --device reference --steps 40 --checkpoint-every "$every" \
    --out repeated -q >out 2>err || complain "the same interval: status $?"
[ "$(sum spaced)" = "$(sum repeated)" ] || complain "--checkpoint-every does not repeat what the plan's time gave"

begins "checkpoints that are not there"
"$PENSTOCK" evaluate --run flush --checkpoint 7 --data synthetic:images,samples=16 -q >out 2>err
[ $? -eq 7 ] && grep -q '^penstock: --checkpoint: flush does not keep this one, of step 7; there are 36, 24' err || complain "evaluate --checkpoint 7"
"$PENSTOCK" export --run flush --checkpoint bets -o none -q >out 2>err
[ $? -eq 2 ] && grep -q "^penstock: --checkpoint: 'bets' is none of newest, best and a step" err || complain "export --checkpoint bets"
for option in "keep best" "patience 2" "best-by accuracy"; do
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan flush.json --data synthetic:images,samples=100 --$option --out none -q >out 2>err
    [ $? -eq 2 ] && grep -q "there is nothing to evaluate on; give --valid" err || complain "--$option without --valid"
done

begins "a total that is reached"
cp -r flush_short reached
find reached -type f -exec cksum {} + >files
for option in "epochs 2" "epochs 1" "steps 24"; do
    # shellcheck disable=SC2086
    "$PENSTOCK" train --resume reached --$option -q >out 2>err
    [ $? -eq 2 ] && grep -q "^penstock: --${option% *}: ${option#* } in all are reached, as reached has trained 24 steps" err &&
        [ "$(grep -c ^penstock err)" -eq 1 ] || complain "--$option"
done
"$PENSTOCK" train --resume reached --lr 0.1 -q >out 2>err || complain "--lr on a run that has ended: status $?"
"$PENSTOCK" train --resume reached --optimizer sgd -q >out 2>err
[ $? -eq 2 ] && grep -q -- '--resume and --optimizer contradict' err || complain "--resume with another optimizer is not status 2"
find reached -type f -exec cksum {} + | cmp -s - files || complain "a run that has ended was changed"

begins "more, supervised"
short flush
"$PENSTOCK" train --resume run --epochs 3 --restarts 2 -q >out 2>err || complain "supervised: status $?"
[ "$(sum run)" = "$(sum flush)" ] || complain "supervised, two epochs and one more are not three"

finish
