#!/bin/sh
# The largest GNMT-L that fits devices of 16 GB (BaPipe's Table IV): per method and number of devices, the largest even L for
# which `plan` finds a plan, beside the paper's.
#
# GNMT-L has L/2 LSTM layers in the encoder (the first in both directions) and L/2 in the decoder (all but the first read the
# attention's context beside their input), hidden size 1024, a vocabulary of 32320 for both embeddings and the classifier:
# 445.6 M parameters for L = 32, as published. Kept for the backward, in units of T x batch x 1024 floats for T time steps:
# an LSTM its input, four gates, the cell and its tanh, and what dropout leaves; the attention its projections and two scores
# for each pair of time steps; the classifier its logits, their logarithm and its input.
#
# A device has 32 samples of the mini-batch; pipelines of N devices cut it into 2N micro-batches, of 16 samples. Two figures the
# paper does not give are taken from two cells of its table: how much of 16 GB its framework leaves to the network (11 GiB, so
# that gpipe reaches L = 74 on 8 devices), and the time steps T (the most with which one device holds L = 32). All other
# figures follow. BaPipe balances time first and moves layers until they fit; here the cut that fits is found exactly, so the
# 1f1b row ends higher than the paper's.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh

# costs LAYERS BATCH STEPS > CSV
costs() {
    awk -v layers="$1" -v batch="$2" -v steps="$3" '
        function line(name, parameters, units, crossing) {
            printf "%s,%.9g,%.9g,%.0f,%.0f,%.0f\n", name, parameters * batch * steps / 1e13, 2 * parameters * batch * steps / 1e13,
                   4 * parameters, crossing * unit, units * unit
        }
        function lstm(inputs) { return 4 * (inputs * h + h * h + 2 * h) }
        BEGIN {
            h = 1024; vocabulary = 32320; unit = steps * batch * h * 4; each = layers / 2
            print "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes"
            line("encoder_embedding", vocabulary * h, 1, 1)
            line("encoder1", 2 * lstm(h), 1 + 2 * 6 + 2, 2)
            for (l = 2; l <= each; l++) line("encoder" l, lstm(l == 2 ? 2 * h : h), (l == 2 ? 2 : 1) + 6 + 1, 1)
            line("decoder_embedding", vocabulary * h, 1, 2)
            line("decoder1", lstm(h) + 2 * h * h + 3 * h, 1 + 6 + 1 + 2 + 2 * steps / h, 2)
            for (l = 2; l <= each; l++) line("decoder" l, lstm(2 * h), 2 + 6 + 1, 2)
            line("classifier", vocabulary * h + vocabulary, 1 + 2 * vocabulary / h, 0)
        }'
}

parameters() { costs "$1" 1 1 | awk -F, 'NR > 1 { sum += $4 / 4 } END { printf "%.1f M", sum / 1e6 }'; }

# fits LAYERS BATCH STEPS OPTIONS...
fits() {
    costs "$1" "$2" "$3" >"$work/gnmt.csv"
    shift 3
    "$penstock" plan --profile "$work/gnmt.csv" --memory 11GiB --optimizer adam --method pipedream "$@" --quiet \
        >"$work/plan.txt" 2>&1 || { [ $? -eq 4 ] || { cat "$work/plan.txt" >&2; exit 1; }; return 1; }
}

# largest BATCH STEPS OPTIONS...: the largest even L that fits; what fits is taken to fit when smaller.
largest() {
    low=2 high=1000
    while [ $((high - low)) -gt 2 ]; do
        middle=$(((low + high) / 4 * 2))
        if fits $middle "$@"; then low=$middle; else high=$middle; fi
    done
    echo $low
}

single="--workers 1 --schedule 1f1b --weights sync --micro-batches 1"
low=1 high=512
while [ $((high - low)) -gt 1 ]; do
    steps=$(((low + high) / 2))
    # Words on purpose.
    # shellcheck disable=SC2086
    if fits 32 32 $steps $single; then low=$steps; else high=$steps; fi
done
steps=$low

# row NAME PAPER... OPTIONS after --: on one device every method is the single one.
row() {
    name=$1 paper="$2 $3 $4 $5"
    shift 5
    printf '%-28s' "$name"
    set -- "$paper" "$@"
    published=$1
    shift
    index=0
    for devices in 1 2 4 8; do
        index=$((index + 1))
        # shellcheck disable=SC2086,SC2046
        if [ $devices -eq 1 ] || [ $# -eq 0 ]; then found=$(largest 32 $steps $single)
        else found=$(largest "$1" $steps --workers $devices $(echo "$2" | sed "s/2N/$((2 * devices))/"))
        fi
        printf '  %4d %9s (%4s)' "$found" "$(parameters "$found")" "$(echo "$published" | cut -d' ' -f$index)"
    done
    echo
}

echo "largest GNMT-L on devices of 16 GB, Adam: L, its parameters (L in the paper); L = 32 has $(parameters 32), T = $steps"
printf '%-28s%s\n' devices '           1                     2                     4                     8'
row "one device, data-parallel" 32 32 32 32
row "gpipe" 32 42 60 74 16 "--schedule gpipe --weights sync --micro-batches 2N"
row "1f1b (BaPipe's 1F1B-SNO)" 32 74 118 158 16 "--schedule 1f1b --weights sync --micro-batches 2N"
row "1f1b-async, stash" - - - - 32 "--schedule 1f1b-async --weights stash --micro-batches 1"
row "1f1b-async, pipeoptim" - - - - 32 "--schedule 1f1b-async --weights pipeoptim --micro-batches 1"
row "1f1b, recomputation" - - - - 16 "--schedule 1f1b --weights sync --micro-batches 2N --recompute"
