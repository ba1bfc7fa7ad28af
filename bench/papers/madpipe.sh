# MadPipe's setting, sourced after bench/common.sh from the root of the repository: ResNet-50, ResNet-101, Inception and
# DenseNet-121 on V100 by model (src/profile/gpu.c), 8 images of 1000 x 1000, as the paper's chains (bench/papers/chain.awk).
# Memory and links are counted as in the paper (two versions of the weights and a gradient; both directions share a link); plans are
# then simulated, where each direction of a link has its own bandwidth. Times in ms.
#   periods WORKERS MEMORY RATE ARGUMENT...   of $network with so many GB and GB/s, by `plan ARGUMENT...`: what its partition
#                                             promises and what its schedule takes, simulated; "- -" if there is no plan
networks='resnet50 resnet101 inception_v3 densenet121'
batches=18 # micro-batches between two updates, as many as 2BW needs; a period is that of one
for network in $networks; do
    "$penstock" profile --model "$network,input=1000" --device gpu:v100 --micro-batch 8 -q -o "$work/$network.json" >/dev/null
    awk -f bench/papers/chain.awk "$work/$network.json" >"$work/$network.chain"
done

periods() {
    machines="--workers $1 --memory $2GB --bandwidth $3GB/s"
    shift 3
    # shellcheck disable=SC2086
    "$penstock" plan --profile "$work/$network.chain" $machines --micro-batches $batches --optimizer sgd --json --log-level debug "$@" \
        >"$work/plan.json" 2>"$work/log" || {
        [ $? = 4 ] || { cat "$work/log" >&2; exit 1; }
        echo "- -"
        return
    }
    awk -v n=$batches '/first phase promises/ { promised = 1e3 * $(NF - 1) }
        FILENAME ~ /plan.json$/ { split($0, field, /[:,]/); gsub(/[ "]/, "", field[1])
            if (field[1] == "objective_s") objective = 1e3 * field[2]
            if (field[1] == "period_s") simulated = 1e3 * field[2] / n }
        END { printf "%.1f %.1f\n", promised ? promised : objective, simulated }' "$work/log" "$work/plan.json"
}
pipedream='--method pipedream --schedule 1f1b-star --weights 2bw'
madpipe='--method madpipe --paper-cost --weights 2bw'
grid='--method madpipe-paper --paper-cost --weights 2bw'
