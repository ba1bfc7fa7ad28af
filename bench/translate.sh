#!/bin/sh
# The time of translation: the 1,000 sentences of Multi30k's test set (PENSTOCK_DATA) with a small, briefly trained GNMT-8,
# greedily and with a beam of 4, in seconds of processor time, the median of ROUNDS (3). OTHER=FILE alternates with another
# penstock program and prints how many sentences both translate alike; TRAINED=RUN_DIR uses that run.
#
#   bench/translate.sh
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
data=${PENSTOCK_DATA:?}/multi30k rounds=${ROUNDS:-3} positions=${POSITIONS:-24}
model=gnmt8,seq=$positions,target=$positions,vocab=2000,hidden=64

echo "# bench/translate.sh, $(machine)"
trained=${TRAINED:-$work/run}
[ -n "${TRAINED:-}" ] || "$penstock" train --model "$model" --workers 1 --data "pairs:$data/train:en:de@0-6400" --batch 64 --optimizer adam --lr 4e-3 \
    --steps "${STEPS:-300}" --out "$trained" --quiet >"$work/log"

# evaluated PROGRAM BEAM NAME: processor seconds of it; the sentences are left in NAME
evaluated() {
    (
        "$1" evaluate --run "$trained" --data "pairs:$data/test_2016_flickr:en:de" --beam "$2" --translations "$work/$3" --json --quiet | tr ',{}' '\n\n\n' >"$work/json"
        times >"$work/times"
        awk 'NR == 2 { gsub(/[ms]/, " "); print 60 * ($1 + $3) + $2 + $4 }' "$work/times"
    )
}

for beam in 1 4; do
    round=0
    : >"$work/own"
    : >"$work/other"
    while [ $round -lt "$rounds" ]; do
        evaluated "$penstock" $beam new.txt >>"$work/own"
        own=$(field bleu <"$work/json")
        [ -z "${OTHER:-}" ] || evaluated "$OTHER" $beam old.txt >>"$work/other"
        round=$((round + 1))
    done
    printf 'beam %d: %6.2f s, BLEU %s' $beam "$(median <"$work/own")" "$own"
    [ -z "${OTHER:-}" ] || printf '; the other %6.2f s, BLEU %s, %d of %d sentences alike' "$(median <"$work/other")" "$(field bleu <"$work/json")" \
        "$(paste -d '\n' "$work/new.txt" "$work/old.txt" | awk 'NR % 2 { a = $0; next } a == $0 { n++ } END { print n + 0 }')" "$(wc -l <"$work/new.txt")"
    echo
done
