#!/bin/sh
# What a machine with a GPU shows of the cuda device, in parts of a few minutes each; without a part, all of them:
#
#   bench/cuda.sh tests      every operator and some networks on the GPU against the reference, in f32 and bf16; PARTS (8) processes
#   bench/cuda.sh sanitize   compute-sanitizer's memcheck and racecheck over one case in EVERY (25)
#   bench/cuda.sh bits       a thousand steps twice; three workers and one; stopped and resumed: the same weights
#   bench/cuda.sh speed      single workers beside PyTorch (channels last, compiled), in turn, ROUNDS (3) of STEPS (20) steps
#   bench/cuda.sh workers    MODEL (gpt2 of 6 layers) on four workers of one GPU beside one worker, by five schedules: throughput
#                            and memory as predicted and as measured
#
# DEVICE (cuda), BUILD (build/release), PYTHON (the first that has torch).
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release} device=${DEVICE:-cuda}
PENSTOCK=${PENSTOCK:-$build/penstock}
. bench/common.sh
rounds=${ROUNDS:-3} steps=${STEPS:-20}

operators() { # prefix of a command
    part=0 parts=${PARTS:-8}
    while [ $part -lt "$parts" ]; do
        CUDA_TEST_FIRST=$part CUDA_TEST_STEP=${EVERY:-$parts} "$@" "$build/tests/test_compute_cuda" >"$work/part$part" 2>&1 &
        part=$((part + 1))
    done
    wait
    grep -h 'ERROR\|FAILED  \] [^0-9]\|^on \|========= ' "$work"/part* | sort | uniq -c | sort -rn | head -60
}

tests() { operators env; }

sanitize() {
    for tool in memcheck racecheck; do
        echo "$tool"
        PARTS=4 EVERY=${EVERY:-25} operators compute-sanitizer --tool $tool --error-exitcode 99
    done
}

# The sum of the weights that a run ends with.
weights() { # options of `penstock train`
    rm -rf "$work/run"
    "$penstock" train --device "$device" --quiet --lr 0.01 --seed 3 --out "$work/run" "$@" >/dev/null
    "$penstock" export --run "$work/run" -o "$work/weights.safetensors" >/dev/null
    cksum <"$work/weights.safetensors"
}

bits() {
    set -- --model "${MODEL:-resnet}" --data synthetic:images,samples=8192 --batch 64
    long=${LONG:-1000}
    first=$(weights "$@" --workers 1 --steps "$long") again=$(weights "$@" --workers 1 --steps "$long")
    [ "$first" = "$again" ] && echo "$long steps twice: the same weights" || echo "$long steps twice: OTHER WEIGHTS"
    one=$(weights "$@" --workers 1 --micro-batch 16 --schedule 1f1b --steps 60)
    three=$(weights "$@" --workers 3 --micro-batch 16 --schedule 1f1b --steps 60)
    [ "$one" = "$three" ] && echo "three workers and one: the same weights" || echo "three workers and one: OTHER WEIGHTS"
}

speed() {
    python_with torch
    [ $# -gt 0 ] || set -- gpt2:8 bert48,layers=24,width=1024,heads=16,seq=512:8 vgg16:256 resnet50:64
    printf '%-48s %5s %10s %10s %10s %7s\n' model:batch type penstock pytorch compiled ratio
    for given; do
        model=${given%:*} size=${given##*:}
        for type in bf16 tf32; do
            precision=$type units=$device
            [ $type = bf16 ] || precision=f32 units=$device,tf32
            rm -f "$work"/speed.*
            round=0
            while [ $round -lt "$rounds" ]; do
                DEVICE=$units "$build/bench/single_worker" "$model,precision=$precision" "$size" 1 "$steps" >"$work/out" 2>&1 || cat "$work/out"
                sed -n 's/.*: \([0-9.]*\) ms a step.*/\1/p' "$work/out" >>"$work/speed.penstock"
                for form in "" ,compile; do
                    DEVICE=$device "$python" bench/pytorch/single_worker.py "$model" "$size" 4 "$steps" channels_last,$type$form 2>/dev/null |
                        sed -n 's/.*: \([0-9.]*\) ms a step.*/\1/p' >>"$work/speed.pytorch$form"
                done
                round=$((round + 1))
            done
            echo "$given $type $(median <"$work/speed.penstock") $(median <"$work/speed.pytorch") $(median <"$work/speed.pytorch,compile")" |
                awk '{ best = $5 > 0 && $5 < $4 ? $5 : $4
                       printf "%-48s %5s %10.2f %10.2f %10.2f %7.2f\n", $1, $2, $3, $4, $5, $3 > 0 ? best / $3 : 0 }'
        done
    done
}

workers() {
    model=${MODEL:-gpt2,layers=6,precision=bf16} batch=${BATCH:-16} data=${DATA:-synthetic:tokens,samples=512}
    "$penstock" profile --model "$model" --micro-batch "$((batch / 4)),$batch" --device "$device" --busy 1 --quiet -o "$work/profile.json" >/dev/null
    printf '%-12s %7s %12s %12s %7s %14s %14s\n' schedule workers predicted measured error predicted measured
    for schedule in 1f1b gpipe 1f1b-async zb-h1 interleaved; do
        weights=sync
        [ $schedule != 1f1b-async ] || weights=stash
        for count in 1 4; do
            "$penstock" plan --profile "$work/profile.json" --workers $count --cores 1 --micro-batches 4 --schedule $schedule \
                --weights $weights --optimizer sgdm -o "$work/plan.json" --quiet >/dev/null 2>"$work/said" || { cat "$work/said"; continue; }
            "$penstock" train --plan "$work/plan.json" --profile "$work/profile.json" --device "$device" --data "$data" --lr 0.0001 \
                --steps "$steps" --quiet --json >"$work/result.json" 2>"$work/said" || { cat "$work/said"; continue; }
            echo "$schedule $count $(field predicted_samples_per_s <"$work/result.json") $(field samples_per_s <"$work/result.json")" \
                "$(field predicted_memory_bytes <"$work/result.json") $(field memory_bytes <"$work/result.json")" |
                awk '{ printf "%-12s %7d %12.1f %12.1f %6.1f%% %14d %14d\n", $1, $2, $3, $4, 100 * ($4 / $3 - 1), $5, $6 }'
        done
    done
}

made_with "bench/cuda.sh $*"
"$penstock" devices | sed -n '/^cuda/p'
[ $# -gt 0 ] || set -- tests sanitize bits speed workers
for part; do
    echo
    echo "$part"
    "$part"
done
