#!/bin/sh
# One worker in f32 and in bf16 (`--precision bf16`, or what PRECISION says), of Penstock and of PyTorch: training steps (forward,
# backward, SGD with momentum). PyTorch's bf16 is autocast; its formats are channels last and, where torch.compile works, that
# compiled. All are run in turn, so that a busy machine slows all; medians over the rounds, and the spread, (largest - least) /
# median, of the most unsteady of them. With PROCESSOR_TIME=1 the times are of the processor, for one thread on a machine that
# others use, too. On a machine that others slow down for seconds TAKE=least gives the least of all steps instead.
# `faster` is f32 / bf16; `ratio` is PyTorch's fastest form of that type over Penstock's: above 1 Penstock is faster.
#   bench/precision.sh [MODEL:BATCH...]     ROUNDS (3), THREADS ("1 2"), STEPS (5), PYTHON (the first that has torch), COMPILE (1),
#                                      PRECISION (bf16)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-3} steps=${STEPS:-5}
program=${SINGLE_WORKER:-build/release/bench/single_worker}
[ $# -gt 0 ] || set -- vgg16:32 resnet50:4 bert48,layers=1,width=768,heads=12,seq=128,vocab=1000:8 \
    gpt2,layers=1,width=768,heads=12,seq=128,vocab=1000:8 residual_lstm,seq=100:32 gnmt8,seq=20,vocab=4000,hidden=256:32

python_with torch
forms="channels_last channels_last,bf16"
if [ "${COMPILE:-1}" = 1 ]; then forms="$forms channels_last,compile channels_last,bf16,compile"; fi

milliseconds() { sed -n 's/.*: \([0-9.]*\) ms a step.*/\1/p'; }
pytorch() { OMP_NUM_THREADS=$threads "$python" bench/pytorch/single_worker.py "$model" "$size" "$threads" "$steps" "$1" 2>/dev/null; }
spread() { sort -g | awk '{ v[NR] = $1 } END { printf "%.3f\n", NR ? (v[NR] - v[1]) / v[int((NR + 1) / 2)] : 0 }'; }
least() { sort -g | head -n 1; }
take=${TAKE:-median}
# The least of what some forms take, "-" where none was measured.
best() { for form; do [ ! -s "$work/$form" ] || $take <"$work/$form"; done | least | grep . || echo -; }

made_with "${TAKE:+TAKE=$TAKE }bench/precision.sh $*"
echo "machine  $(machine); PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
echo
echo "milliseconds a step${PROCESSOR_TIME:+ of the processor}, $take of $rounds rounds of $steps steps"
watch
printf '%-54s %3s %9s %9s %6s %9s %9s %9s %9s %6s %6s %6s\n' model:batch thr f32 bf16 faster torch32 torch16 compile32 \
    compile16 ratio32 ratio16 spread
for given; do
    model=${given%:*} size=${given##*:}
    for threads in ${THREADS:-1 2}; do
        rm -f "$work"/*
        round=0
        while [ "$round" -lt "$rounds" ]; do
            "$program" "$model" "$size" "$threads" "$steps" | milliseconds >>"$work/f32"
            "$program" "$model,precision=${PRECISION:-bf16}" "$size" "$threads" "$steps" | milliseconds >>"$work/bf16"
            for form in $forms; do pytorch "$form" | milliseconds >>"$work/$form"; done
            round=$((round + 1))
        done
        echo "$given $threads $(best f32) $(best bf16) $(best channels_last) $(best channels_last,bf16)" \
            "$(best channels_last,compile) $(best channels_last,bf16,compile)" \
            "$(best channels_last channels_last,compile) $(best channels_last,bf16 channels_last,bf16,compile)" \
            "$(for form in f32 bf16 $forms; do spread <"$work/$form"; done | sort -g | tail -n 1)" |
            awk '{ printf "%-54s %3d %9.1f %9.1f %6.2f %9s %9s %9s %9s %7.2f %7.2f %5.0f%%\n", $1, $2, $3, $4, $3 / $4, $5, $6, $7,
                   $8, $9 / $3, $10 / $4, 100 * $11 }'
    done
done
echo
echo "other programs kept $(others) cores busy meanwhile"
