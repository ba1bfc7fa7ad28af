#!/bin/sh
# Wire codecs where the wire decides: two workers, each a host of its own (bench/hosts.sh: network namespaces, real ranks of Open
# MPI, real TCP, cables of 100 Mbit/s), train a ResNet-20 on a part of CIFAR-10 and a small GPT-2 on Tiny Shakespeare. The networks
# are cut into halves of equally many layers, as where one worker cannot hold more (left free, the planner cuts where hardly anything
# is sent), under 1F1B*, which has as many micro-batches in flight as hide the transfers. All codecs have the same seed and rates,
# which decay to 0. Reported: samples per second of training (evaluations, in which nothing is encoded, and checkpoints apart) as
# simulated, with the links as `penstock cluster` measures them, and as measured;
# what worker 0 sends for a mini-batch; the best validation accuracy in percent; how many epochs come to within half a point of the
# best that `none` reaches, how many seconds of training these take, and the speed-up over `none`.
#   CODECS ("none bf16 int8 topk:0.25"), TASKS ("resnet gpt2"), EPOCHS (8 and 12), SAMPLES (10000) of CIFAR-10, SEQUENCES (1600) of
#   text, RATE (100mbit), METHOD (uniform), SCHEDULE (1f1b-star), SEED (0), PENSTOCK_DATA (data)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
data=${PENSTOCK_DATA:-data} rate=${RATE:-100mbit} most=2
. bench/hosts.sh
describe 2

# choose TASK
choose() {
    case $1 in
    resnet)
        model=resnet,input=32,classes=10 samples=${SAMPLES:-10000} size=32 optimizer=sgdm lr=0.05
        epochs=${EPOCHS:-8}
        train=cifar10:$data/cifar10@0-$samples valid=cifar10:$data/cifar10@0-2000
        ;;
    gpt2)
        model=gpt2,layers=2,width=96,heads=4,seq=64,vocab=69,dropout=0 samples=${SEQUENCES:-1600} size=16 optimizer=adam lr=1e-3
        epochs=${EPOCHS:-12}
        train=text:$data/tinyshakespeare/input.txt@0-$samples valid=text:$data/tinyshakespeare/input.txt@$samples-1742
        ;;
    *) echo "TASKS: '$1' is neither resnet nor gpt2" >&2 && exit 2 ;;
    esac
}

# row CODEC: trains, and writes a line of the table; the best of `none` is in $work/best.
row() {
    "$penstock" plan --profile "$work/$task.json" --cluster "$work/described.json" --method "${METHOD:-uniform}" \
        --schedule "${SCHEDULE:-1f1b-star}" --weights pipeoptim --micro-batch $size --micro-batches 1 \
        --optimizer $optimizer --wire "$1" -q -o "$work/plan.json" >/dev/null
    rm -rf "$work/run"
    over 2 train --plan "$work/plan.json" --profile "$work/$task.json" --cluster "$work/described.json" --data "$train" --valid "$valid" \
        --lr $lr --lr-schedule cosine --seed "${SEED:-0}" --epochs "$epochs" \
        --checkpoint-every 1000000 --out "$work/run" --json -q >"$work/run.json"
    sed -n 's/.*"valid_accuracy": \([^,}]*\).*/\1/p' "$work/run/log.jsonl" >"$work/accuracies"
    [ "$1" != none ] || sort -g "$work/accuracies" | tail -n 1 >"$work/best"
    awk -v codec="$1" -v none="$(cat "$work/best")" -v samples=$samples -v size=$size -v epochs="$epochs" \
        -v predicted="$(field predicted_samples_per_s <"$work/run.json")" \
        -v training="$(sed -n 's/.*"training_s": \([^,}]*\).*/\1/p' "$work/run/log.jsonl" | tail -n 1)" \
        -v sent="$(field sent_bytes <"$work/run.json")" -v before="$(cat "$work/seconds" 2>/dev/null || echo 0)" -v file="$work/seconds" '
        { if ($1 > best) best = $1; if (!reached && $1 >= none - 0.005) reached = NR }
        END {
            measured = epochs * samples / training
            seconds = reached * samples / measured
            if (codec == "none") { before = seconds; print seconds >file }
            printf "%-10s %9.1f %9.1f %7.2f%% %9.1f %9.2f", codec, predicted, measured, 100 * (measured / predicted - 1),
                sent / (epochs * samples / size) / 1024, 100 * best
            if (reached) printf " %7d %8.1f %8.2f\n", reached, seconds, before / seconds
            else printf " %7s %8s %8s\n", "-", "-", "-"
        }' "$work/accuracies"
}

made_with "CODECS='${CODECS:-none bf16 int8 topk:0.25}' TASKS='${TASKS:-resnet gpt2}' bench/wire.sh"
echo "network namespaces at $rate, two workers, ${SCHEDULE:-1f1b-star}, pipeoptim; $(machine), $(nproc) cores"
echo "$bandwidth $latency" | awk '{ printf "links as measured: %.1f Mbit/s, %.0f us\n", 8e-6 * $1, 1e6 * $2 }'
for task in ${TASKS:-resnet gpt2}; do
    choose "$task"
    "$penstock" profile --model $model --micro-batch $size --busy 2 -q -o "$work/$task.json" >/dev/null
    echo
    echo "$task: $model, $samples samples an epoch, $epochs epochs, mini-batches of $size"
    printf '%-10s %9s %9s %8s %9s %9s %7s %8s %8s\n' codec simulated measured error "sent KiB" accuracy epochs seconds speed-up
    rm -f "$work/seconds"
    for codec in ${CODECS:-none bf16 int8 topk:0.25}; do row "$codec"; done
done
