#!/bin/sh
# One emulated worker at half speed: the plan made for that cluster compared with the plan that cuts into equal stages, measured
# and simulated. With clock devices (four workers, links of 100 Mbit/s, the second is slow) and with computation (VGG-16, two
# workers, 10 Gbit/s, the first is slow: its half is the larger one, so that equal stages are not the best by chance). Costs are
# measured while two workers compute, as in training: one alone is a fifth faster here. Runs alternate, and the median of the
# ratios is reported.
#   ROUNDS (3) rounds of STEPS (60) mini-batches
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-3} steps=${STEPS:-60}
awk 'BEGIN {
    print "name,forward_s,backward_s,parameter_bytes,output_bytes"
    for (l = 1; l <= 24; l++) printf "layer%d,%g,%g,%d,%d\n", l, 0.001 * (1 + l % 3), 0.002 * (1 + l % 3), 100000, 65536
}' >"$work/clock.csv"
"$penstock" profile --model vgg16 --micro-batch 16 --busy 2 --quiet -o "$work/vgg16.json" >/dev/null

cluster() { # WORKERS BANDWIDTH SLOW: that one is half as fast as the others
    awk -v p="$1" -v b="$2" -v slow="$3" 'BEGIN {
        printf "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": ["
        for (w = 0; w < p; w++) printf "%s{\"name\": \"w%d\", \"speed\": %s}", w ? ", " : "", w, w == slow ? 0.5 : 1
        printf "], \"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": %s, \"latency_s\": 1e-4}]}\n", b
    }'
}

# compare NAME PROFILE WORKERS BANDWIDTH SLOW TRAINING-OPTIONS...
compare() {
    name=$1 profile=$2 workers=$3 bandwidth=$4
    cluster "$workers" "$bandwidth" "$5" >"$work/cluster.json"
    shift 5
    for method in uniform pipedream; do
        "$penstock" plan --profile "$profile" --cluster "$work/cluster.json" --method $method --schedule 1f1b-async \
            --weights stash -q -o "$work/$method.json" >/dev/null
    done
    round=0
    while [ $round -lt "$rounds" ]; do
        for method in uniform pipedream; do
            "$penstock" train --plan "$work/$method.json" --profile "$profile" --cluster "$work/cluster.json" --emulate \
                --transport threads --steps "$steps" --quiet --json "$@" >"$work/$method.run"
        done
        echo "$(field samples_per_s <"$work/uniform.run") $(field samples_per_s <"$work/pipedream.run")" \
            "$(field predicted_samples_per_s <"$work/uniform.run") $(field predicted_samples_per_s <"$work/pipedream.run")"
        round=$((round + 1))
    done | awk '{ print $2 / $1, $4 / $3 }' >"$work/ratios"
    measured=$(cut -d' ' -f1 "$work/ratios" | median) predicted=$(cut -d' ' -f2 "$work/ratios" | median)
    echo "$measured $predicted" | awk -v n="$name" '{ printf "%-24s %10.3f %10.3f %8.2f%%\n", n, $2, $1, 100 * ($1 / $2 - 1) }'
}

echo "one worker twice as slow, speed-up of the plan for the cluster over the uniform one; $(machine), $(nproc) cores"
printf '%-24s %10s %10s %9s\n' work simulated measured error
compare "clock, 4 workers" "$work/clock.csv" 4 12.5e6 1 --device clock
compare "vgg16, 2 workers" "$work/vgg16.json" 2 1.25e9 0 --data synthetic:images,samples=4096 --lr 0.001
