# One learning task under every weight policy, optimizer and seed; sourced by the scripts of the tasks, which set
#
#   name model train valid batch    network and data; a mini-batch of the asynchronous policies is one micro-batch
#   length                          duration: options of `penstock train`
#   sgdm adam adamw                 options of each optimizer, its learning rate last
#   bleu                            sentence pairs to translate at the end (optional)
#   valid_bleu                      number of pairs of `valid` to translate at each evaluation (optional)
#
# and then call `sweep`. Each training adds a line to $RESULTS/NAME.tsv, and a training that has a line there is not repeated: a
# sweep that was stopped continues where it was, and more seeds or policies can be added. At the end a table is printed.
#
#   SEEDS ("0 1 2")  OPTIMIZERS ("sgdm adam adamw")  POLICIES (all)  RESULTS (runs/learning)
#                    a policy with +r recomputes: its backward then has the activations of the weights that it reads;
#                    with /4 it cuts its mini-batches into four micro-batches
#   JOBS (1)         trainings at a time
#   RATES            learning rates instead of the task's, for tuning
#   SLOWER           divides the task's learning rates (use another RESULTS then, so that tables do not mix)
#   EPOCHS           instead of the task's; where the rate falls in a step, it does so after two thirds of them (another RESULTS, too)
#   PRECISION        (bf16) of the network; its results have a name of their own
#   TABLE            (no) only train; (only) only print the table
#
# Layers are cut evenly, not by measured times, so a training gives the same numbers wherever and however often it is run.
. bench/common.sh
results=${RESULTS:-runs/learning} seeds=${SEEDS:-0 1 2} optimizers=${OPTIMIZERS:-sgdm adam adamw} jobs=${JOBS:-1}
policies=${POLICIES:-sync latest stash 2bw spectrain xpipe pipeoptim horizon pipeoptim+r pipeoptim/4 horizon/4}
data=${PENSTOCK_DATA:?names a directory with the data sets}

# What to train, a line each: policy, optimizer, learning rate, seed. All of the first seed come before the second.
combinations() {
    for seed in $seeds; do
        for optimizer in $optimizers; do
            eval "set -- \$$optimizer"
            while [ $# -gt 1 ]; do shift; done
            rate=$1
            [ -z "${SLOWER:-}" ] || rate=$(echo "$1 $SLOWER" | awk '{ printf "%g", $1 / $2 }')
            for rate in ${RATES:-$rate}; do
                for policy in $policies; do
                    [ "${policy%%[+/]*}" = spectrain ] && [ "$optimizer" != sgdm ] && continue
                    echo "$policy $optimizer $rate $seed"
                done
            done
        done
    done
}

missing() {
    combinations | while read -r key; do
        grep -qF "$(echo "$key" | tr ' ' '\t')	" "$results/$name.tsv" 2>/dev/null || echo "$key"
    done
}

# The costs of each layer, which nothing here depends on, so that not every training measures them anew.
profile() {
    [ -f "$results/$name.json" ] && return
    "$penstock" profile --model "$model" --micro-batch "$batch,$((batch / 4))" --threads 1 --quiet \
        -o "$results/$name.$$.json" >"$work/profiled"
    mv "$results/$name.$$.json" "$results/$name.json"
}

# A line of results from a run's log: best validation accuracy, those of all evaluations, the last validation loss; how far
# predicted and newest weights were from those of the backward, relative to them, on the first worker at the end.
read_log() {
    awk 'function number(name,   text) {
             if (!match($0, "\"" name "\": [[]?[-0-9.e+]+")) return ""
             text = substr($0, RSTART, RLENGTH); sub(/.*[ [[]/, "", text); return text }
         /"valid_accuracy"/ {
             accuracy = number("valid_accuracy"); if (accuracy > best) best = accuracy
             way = way (way == "" ? "" : ",") accuracy; loss = number("valid_loss")
             predicted = number("prediction_error"); newest = number("newest_error") }
         END { printf "%s\t%s\t%s\t%s\t%s", best, way, loss, predicted == "" ? "-" : predicted, newest == "" ? "-" : newest }' "$1"
}

# BLEU of all evaluations, from a run's log.
read_bleus() {
    awk -F'"valid_bleu": ' 'NF > 1 { sub(/[,}].*/, "", $2); way = way (way == "" ? "" : ",") $2 }
                            END { print way == "" ? "-" : way }' "$1"
}

train_one() { # POLICY OPTIMIZER RATE SEED
    run=$(mktemp -d "$work/run.XXXXXX")
    micro_batches=1 recompute="" status=0
    [ "$1" = 2bw ] && micro_batches=4
    case $1 in
    *+r) recompute=--recompute ;;
    */*) micro_batches=${1#*/} ;;
    esac
    eval "settings=\${$2% *}"
    "$penstock" train --profile "$results/$name.json" --model "$model" --method uniform --workers 4 --weights "${1%%[+/]*}" $recompute \
        --batch "$batch" --micro-batches $micro_batches --data "$train" --valid "$valid" $length \
        ${valid_bleu:+--valid-bleu $valid_bleu} --optimizer "$2" $settings "$3" \
        --threads 1 --seed "$4" --out "$run/out" --quiet >"$run/printed" 2>"$run/errors" || status=$?
    if [ $status -eq 0 ]; then
        line=$(read_log "$run/out/log.jsonl") score=- bleus=$(read_bleus "$run/out/log.jsonl")
        [ -z "${bleu:-}" ] || score=$("$penstock" evaluate --run "$run/out" --data "$bleu" --json --quiet | tr ',{}' '\n\n\n' | field bleu)
    elif [ $status -eq 1 ]; then
        line=$(printf 'diverged\t-\t-\t-\t-') score=- bleus=-
    else
        echo "$name $*:" && cat "$run/errors"
        return $status
    fi >&2
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$line" "$score" "$bleus" >>"$results/$name.tsv"
    rm -rf "$run"
}

train_missing() {
    missing >"$work/missing"
    [ -s "$work/missing" ] || return 0
    profile
    running=0
    while read -r policy optimizer rate seed; do
        [ ! -f "$work/failed" ] || break
        { train_one "$policy" "$optimizer" "$rate" "$seed" </dev/null || touch "$work/failed"; } &
        running=$((running + 1))
        [ $running -lt "$jobs" ] || { wait && running=0; }
    done <"$work/missing"
    wait
    [ ! -f "$work/failed" ]
}

sweep() {
    mkdir -p "$results"
    [ -z "${PRECISION:-}" ] || name=${name}_$PRECISION model=$model,precision=$PRECISION
    [ -z "${EPOCHS:-}" ] || length=$(echo "$length" | sed "s/--epochs [0-9]*/--epochs $EPOCHS/; s/step:[0-9]*/step:$((2 * EPOCHS / 3))/")
    [ "${TABLE:-}" = only ] || train_missing
    [ "${TABLE:-}" = no ] || {
        echo "$name: $model, 4 workers, batch $batch, $length"
        echo "training data ${train#*:"$data"/}, validation data ${valid#*:"$data"/}" | sed "s|$data/||g"
        awk -f bench/learning/table.awk "$results/$name.tsv"
    }
}
