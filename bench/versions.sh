#!/bin/sh
# Two builds of Penstock side by side: how fast the new one trains, plans and simulates, as a share of the old one's speed. Both
# programs get the same plan and the same profile and take turns within each round, so that a machine whose speed changes slows
# both; the medians of the rounds' ratios are printed with their spread. Above 1 the new program is faster.
#
#   bench/versions.sh OLD NEW [NETWORK...]   vgg16,input=32 resnet,blocks=3 residual_lstm,seq=50 gpt2,layers=2,width=128,heads=4,seq=64,vocab=512
#   ROUNDS (5), SECONDS_EACH (4) of a training, MICRO_BATCH (8) samples
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n '2,9p' "$0" && exit 2; }
old=$(realpath "$1") new=$(realpath "$2")
shift 2
penstock=$old
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. bench/common.sh
penstock=$old
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4} micro_batch=${MICRO_BATCH:-8}
[ $# -gt 0 ] || set -- vgg16,input=32 resnet,blocks=3 residual_lstm,seq=50 gpt2,layers=2,width=128,heads=4,seq=64,vocab=512

# now: seconds, with fractions
now() { date +%s.%N; }
# ratios: a column of old and one of new figures -> median, least and greatest of new / old
ratios() {
    awk '{ print $2 / $1 }' | sort -n |
        awk '{ r[NR] = $1 } END { m = NR % 2 ? r[(NR + 1) / 2] : (r[NR / 2] + r[NR / 2 + 1]) / 2; printf "%8.3f %8.3f %8.3f\n", m, r[1], r[NR] }'
}
# trained PROGRAM STEPS: samples per second
trained() {
    "$1" train --plan "$work/plan.json" --profile "$work/profile.json" --steps "$2" --lr 0.0001 --quiet --json \
        --data "synthetic:$kind,samples=$(($2 * 4 * micro_batch))" | field samples_per_s
}
steps() { awk -F'[:,]' -v s="$seconds" '$1 ~ /"period_s"/ { n = int(s / $2); print n < 6 ? 6 : n; exit }' "$work/plan.json"; }
# inverse speed of a command: 1 / seconds, so that ratios are of speeds here, too
rate() {
    start=$(now)
    "$@" >/dev/null 2>&1
    end=$(now)
    awk -v a="$start" -v b="$end" 'BEGIN { print 1 / (b - a) }'
}

echo "new / old: $($new --version) beside $($old --version), $rounds rounds; $(machine), $(nproc) cores"
printf '%-52s %8s %8s %8s\n' '' median least greatest
for model in "$@"; do
    kind=images
    case $model in residual_lstm* | gnmt* | gpt2* | bert*) kind=tokens ;; esac
    "$old" profile --model "$model" --micro-batch "$micro_batch" --busy 2 --quiet -o "$work/profile.json" >/dev/null
    for case in 1f1b:sync:4 1f1b-async:pipeoptim:1; do
        schedule=${case%%:*} rest=${case#*:}
        "$old" plan --profile "$work/profile.json" --workers 2 --schedule "$schedule" --weights "${rest%:*}" \
            --micro-batches "${rest#*:}" --optimizer sgdm --quiet -o "$work/plan.json" >/dev/null
        n=$(steps) round=0
        : >"$work/rows"
        while [ $round -lt "$rounds" ]; do
            if [ $((round % 2)) -eq 0 ]; then
                a=$(trained "$old" "$n") b=$(trained "$new" "$n")
            else
                b=$(trained "$new" "$n") a=$(trained "$old" "$n")
            fi
            echo "$a $b" >>"$work/rows"
            round=$((round + 1))
        done
        printf '%-52s %s\n' "train ${model%%,*} $schedule ${rest%:*}" "$(ratios <"$work/rows")"
    done
done

# Planning and simulating need no real network: costs are worked out.
"$old" profile --model gpt2,layers=24 --micro-batch 4 --device gpu:v100 --quiet -o "$work/profile.json" >/dev/null
for what in 'plan --method auto --workers 8 --memory 16GiB' 'plan --method madpipe --workers 4 --memory 12GiB' 'plan --method bipartition --workers 4'; do
    : >"$work/rows"
    for round in $(seq "$rounds"); do
        echo "$(rate "$old" $what --profile "$work/profile.json" --bandwidth 12GB/s) $(rate "$new" $what --profile "$work/profile.json" --bandwidth 12GB/s)"
    done >"$work/rows"
    printf '%-52s %s\n' "$what" "$(ratios <"$work/rows")"
done
"$old" plan --profile "$work/profile.json" --workers 8 --schedule 1f1b --weights sync --micro-batches 512 --quiet -o "$work/plan.json" >/dev/null
for round in $(seq "$rounds"); do
    echo "$(rate "$old" simulate --plan "$work/plan.json" --profile "$work/profile.json" --batches 20) $(rate "$new" simulate --plan "$work/plan.json" --profile "$work/profile.json" --batches 20)"
done >"$work/rows"
printf '%-52s %s\n' 'simulate 1f1b, 8 workers, 512 micro-batches' "$(ratios <"$work/rows")"
