#!/bin/sh
# PipeOptim's Figures 3 to 5 and 7: validation accuracy by epoch under each method, of the small networks that stand for the paper's,
# trained as in bench/learning with mini-batches of one micro-batch (2BW: of four). Inception-V3, GoogLeNet and GNMT-16 have no small
# one, so Figure 7 has the residual network in Inception-V3's place.
#   SEEDS ("0")   EPOCHS (those of bench/learning, 2 or 3)   KEPT=DIR keeps the trainings and goes on from there
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/pipeoptim.sh
needs_data
export RESULTS="${KEPT:-$work/kept}/learning${EPOCHS:+_$EPOCHS}" POLICIES="sync stash 2bw spectrain xpipe pipeoptim latest" TABLE=no
seeds=${SEEDS:-0}
for seed in $seeds; do
    export SEEDS="$seed"
    OPTIMIZERS=sgdm bench/learning/lenet5.sh cifar10
    OPTIMIZERS=sgdm bench/learning/resnet.sh
    OPTIMIZERS=adamw bench/learning/vgg.sh cifar10
    OPTIMIZERS="adamw adam" bench/learning/residual_lstm.sh
    OPTIMIZERS=adam bench/learning/gnmt8.sh
done
echo "$accuracies" >"$work/paper"
awk -F '[|\t]' -v policies="$POLICIES" -v seeds=" $seeds " -v plot="$work/plot" '
    BEGIN {
        methods = split(policies, policy, " ")
        split("GPipe PipeDream 2BW SpecTrain XPipe PipeOptim Vanilla", method, " ")
        drawn = split("3a lenet5_cifar10 sgdm 3b resnet_tiny_imagenet sgdm 4a vgg_cifar10 adamw 4c residual_lstm_imdb adamw " \
            "5a residual_lstm_imdb adam 5b gnmt8_multi30k adam 7a vgg_cifar10 adamw 7b resnet_tiny_imagenet sgdm 7c residual_lstm_imdb adam", draw, " ")
        printf "%s\n\n%-33s %-9s", "accuracy in %, mean over seeds:" seeds, "network, data", "optimizer"
        for (m = 1; m <= methods; m++) printf " %9s", method[m]
        print "" }
    FILENAME ~ /\.tsv$/ { # policy, optimizer, rate, seed, best accuracy, those of all epochs
        task = FILENAME
        gsub(/.*\/|\.tsv$/, "", task)
        if ($5 == "diverged" || !index(seeds, " " $4 " ")) next
        key = task " " $2 " " $1
        runs[key]++; best[key] += 100 * $5; epochs = split($6, way, ",")
        for (e = 1; e <= epochs; e++) sum[key, e] += 100 * way[e]
        last[task " " $2] = epochs
        next }
    function by_epoch(key, e) { return runs[key] ? sum[key, e] / runs[key] : "-" }
    function cell(text) { printf " %9s", text ~ /[0-9]/ ? sprintf("%.2f", text) : "-" }
    {
        printf "%-33s %-9s", "paper: " $1, $3; for (m = 1; m <= methods; m++) cell($(m + 3)); print ""
        task = $2 " " $3
        printf "%-43s", "  " $2 ", best"; for (m = 1; m <= methods; m++) { key = task " " policy[m]; cell(runs[key] ? best[key] / runs[key] : "-") } print ""
        printf "%-43s", "  " $2 ", epoch " last[task]; for (m = 1; m <= methods; m++) cell(by_epoch(task " " policy[m], last[task])); print "" }
    END {
        print "title Validation accuracy by epoch\nx epochs\ny %\napart\ncolumns 3\nsize 260 180" >plot
        for (d = 1; d <= drawn; d += 3) {
            task = draw[d + 1] " " draw[d + 2]; low = 100
            print "panel Figure " draw[d] ": " draw[d + 1] ", " draw[d + 2] >plot
            for (m = 1; m <= methods; m++) if (runs[task " " policy[m]] && (draw[d] ~ /^7/ ? m >= 6 : m <= 6)) {
                print "line " method[m] >plot
                for (e = 1; e <= last[task]; e++) { y = by_epoch(task " " policy[m], e); print e, y >plot; if (y < low) low = y }
            }
            print "from " 5 * int(low / 5) >plot } }' "$RESULTS"/*.tsv "$work/paper"
awk -f bench/papers/plot.awk "$work/plot" >"$figure"
