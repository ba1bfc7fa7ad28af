#!/bin/sh
# The gain of `train --lengths`: a small GNMT-8 on Multi30k (PENSTOCK_DATA), two workers of one thread each, alternately at the
# full length and with LENGTHS (8,12,16): in an asynchronous pipeline, where mini-batches of different lengths wait for each
# other, and in one that drains after each mini-batch, whose four micro-batches have one length. Each run profiles, plans and
# predicts for itself, as `train --model` does. It lasts an epoch of SAMPLES (6400) pairs, so that all lengths occur as often as
# is predicted. Reported are the medians over ROUNDS (3) of samples per second, of predicted / measured - 1 (error), and of the
# rounds' ratios; `others` is the number of cores that other programs kept busy meanwhile. Then the effect on learning: the
# validation perplexity after an epoch of all pairs, for each of SEEDS (0 1 2; "": not measured).
#
#   SLACK="1 2": the asynchronous pipeline also with so much slack, which has workers wait less for each other
#   bench/lengths.sh      ROWS: a directory that collects rounds and seeds over several calls; the tables cover all that it holds
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
data=${PENSTOCK_DATA:?}/multi30k rounds=${ROUNDS:-3} lengths=${LENGTHS:-8,12,16} seeds=${SEEDS-0 1 2}
slacks=${SLACK:-}
model=${MODEL:-gnmt8,seq=24,target=24,vocab=2000,hidden=64} rows=${ROWS:-$work}
cases='1f1b-async:pipeoptim:1 1f1b:sync:4'

# trained PAIRS CASE [OPTION...]: a run's document, of an epoch of those pairs
trained() {
    pairs=$1 schedule=${2%%:*} weights=${2#*:}
    micro_batches=${weights#*:}
    shift 2
    "$penstock" train --model "$model" --workers 2 --threads 1 --data "pairs:$data/train:en:de$pairs" --batch 64 --epochs 1 \
        --schedule "$schedule" --weights "${weights%:*}" --micro-batches "$micro_batches" --optimizer adam --lr 4e-3 \
        --quiet --json "$@" >"$work/run.json"
}
# speed CASE NAME [OPTION...]: samples per second, predicted and measured, and the others, behind the rows of that name
speed() {
    case=$1 name=$2
    shift 2
    watch
    trained "@0-${SAMPLES:-6400}" "$case" "$@"
    echo "$(field predicted_samples_per_s <"$work/run.json") $(field samples_per_s <"$work/run.json") $(others)" >>"$rows/$case.$name"
}
# learned NAME SEED [OPTION...]
learned() {
    name=$1 seed=$2
    shift 2
    trained "" 1f1b-async:pipeoptim:1 --valid "pairs:$data/val:en:de" --seed "$seed" "$@"
    echo "$seed $(field valid_perplexity <"$work/run.json")" >>"$rows/learned.$name"
}

round=0
while [ $round -lt "$rounds" ]; do
    for case in $cases; do
        speed "$case" whole
        speed "$case" lengths --lengths "$lengths"
        [ "${case%%:*}" = 1f1b-async ] || continue
        for n in $slacks; do speed "$case" "slack$n" --lengths "$lengths" --slack "$n"; done
    done
    round=$((round + 1))
done
for seed in $seeds; do
    learned whole "$seed"
    learned lengths "$seed" --lengths "$lengths"
done

echo "$model, mini-batches of 64, adam, two workers of one thread; $(machine), $(nproc) cores"
printf '%-12s %-10s %-16s %10s %10s %7s %7s\n' schedule weights lengths predicted samples/s error others
for case in $cases; do
    [ -f "$rows/$case.lengths" ] || continue
    for name in whole lengths $(for n in $slacks; do echo "slack$n"; done); do
        [ -f "$rows/$case.$name" ] || continue
        column() { awk "{ print $1 }" "$rows/$case.$name" | median; }
        shown=$lengths,whole weights=${case#*:}
        [ "$name" = lengths ] || shown=$name
        printf '%-12s %-10s %-16s' "${case%%:*}" "${weights%:*}" $shown
        echo "$(column '$1') $(column '$2') $(column '$1 / $2 - 1') $(column '$3')" |
            awk '{ printf " %10.1f %10.1f %+6.1f%% %7.2f\n", $1, $2, 100 * $3, $4 }'
        [ "$name" != whole ] || continue
        paste -d ' ' "$rows/$case.whole" "$rows/$case.$name" | awk '{ print $5 / $2 }' >"$work/ratios"
        paste -d ' ' "$rows/$case.whole" "$rows/$case.$name" | awk '{ print $4 / $1 }' >"$work/promised"
        echo "    $(median <"$work/ratios") times as fast ($(sort -g "$work/ratios" | tr '\n' ' ')), predicted $(median <"$work/promised")"
    done
done
[ -f "$rows/learned.lengths" ] || exit 0
echo "validation perplexity after an epoch of all pairs, 1f1b-async, pipeoptim"
printf '%6s %10s %10s\n' seed whole lengths
paste -d ' ' "$rows/learned.whole" "$rows/learned.lengths" | awk '{ printf "%6d %10.2f %10.2f\n", $1, $2, $4 }'
