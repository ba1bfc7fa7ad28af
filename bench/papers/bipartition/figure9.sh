#!/bin/sh
# Bi-Partition's Figures 9 and 10 in short: LeNet-5 on 6,000 images of Fashion-MNIST, batch 64, 20 epochs of Adam, by naive model
# parallelism, PipeDream and bi-partition on four workers. Accuracy and loss come from training the three plans; time is the
# simulated period on hosts with 100 Mbit/s (bench/papers/bipartition.sh), times the number of mini-batches. The rate is ten
# times the paper's, since there are ten times fewer updates in an epoch. long_figure9.sh has the paper's.
#   MODEL, DATA, VALID, RATE, EPOCHS, WORKERS, SPEED   in place of these; KEPT=DIR keeps what each training wrote and goes on from there
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/bipartition.sh
needs_data
model=${MODEL:-lenet5} workers=${WORKERS:-4} kept=${KEPT:-$work/kept} data=$PENSTOCK_DATA
train=${DATA:-idx:$data/fashion_mnist@0-6000} valid=${VALID:-idx:$data/fashion_mnist@0-2000} rate=${RATE:-3e-4} epochs=${EPOCHS:-20}
mkdir -p "$kept"
hosts $workers ${SPEED:-0.0005}
learn() { # NAME PLAN_OPTION...
    name=$1
    shift
    period=$(period_of $model "$@")
    [ -s "$kept/$name" ] || {
        "$penstock" train --plan "$work/plan.json" --data "$train" --valid "$valid" --epochs "$epochs" --lr "$rate" --seed 1 --out "$work/$name" -q >/dev/null
        mv "$work/$name/log.jsonl" "$kept/$name"
    }
    grep '"valid_accuracy"' "$kept/$name" | awk -v name="$name" -v period="$period" '
        function value(key) { return match($0, "\"" key "\": *[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : "-" }
        { epoch++; print name, epoch, value("step") * period / 1e3, 100 * value("valid_accuracy"), value("epoch_loss") }'
}
{
    learn naive --method pipedream --schedule naive --weights sync
    learn PipeDream --method pipedream --schedule 1f1b-async --weights stash
    learn bi-partition,_1F1B --method bipartition --schedule 1f1b-async --weights stash
    learn bi-partition,_open --method bipartition --weights stash
} >"$work/all"
echo "method              epoch    time s  accuracy %   training loss"
awk -v last="$epochs" '$2 == 1 || $2 % 5 == 0 || $2 == last { printf "%-18s %6d %9.1f %11.2f %15.4f\n", $1, $2, $3, $4, $5 }' "$work/all"
awk -v model="$model" 'BEGIN { print "title " model ": accuracy and loss over time\nx s\napart\ncolumns 2\nsize 400 200" }
    { n[$1]++; if (n[$1] == 1) order[++names] = $1; t[$1, n[$1]] = $3; a[$1, n[$1]] = $4 / 100; l[$1, n[$1]] = $5 }
    END { print "panel validation accuracy"; for (i = 1; i <= names; i++) { print "line " order[i]; for (k = 1; k <= n[order[i]]; k++) print t[order[i], k], a[order[i], k] }
        print "panel training loss"; for (i = 1; i <= names; i++) { print "line " order[i]; for (k = 1; k <= n[order[i]]; k++) print t[order[i], k], l[order[i], k] } }' "$work/all" |
    awk -f bench/papers/plot.awk >"$figure"
