#!/bin/sh
# PipeOptim's Figure 8: throughput of BERT-48, sequences of 128, on one to three nodes of four P100, a stage for each GPU: a cluster
# file with two levels of links. The paper does not say the bandwidths: 10 GB/s within a node, and between nodes 1.25 (and, to show
# what it decides, 0.125 and 10). Micro-batches of 8; GPipe's and 2BW's mini-batch has as many as there are GPUs. The model lets
# gradients be added where they are computed, in no time; the last lines have a pass of its own for it, as long as an update.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
"$penstock" profile --model bert48,seq=128 --device gpu:p100 --micro-batch 8 -q -o "$work/bert48.json" >/dev/null
nodes_of() { # NODES GB/s
    awk -v n="$1" -v b="$2" 'BEGIN {
        printf "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": ["
        for (w = 0; w < 4 * n; w++) printf "%s{\"name\": \"gpu%d\"}", w ? ", " : "", w
        printf "], \"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": %.0f, \"latency_s\": 2e-5}", 1e9 * b
        for (v = 0; v < 4 * n; v++) for (w = 0; w < 4 * n; w++) if (v != w && int(v / 4) == int(w / 4))
            printf ", {\"from\": %d, \"to\": %d, \"bandwidth_bytes_per_s\": 1e10, \"latency_s\": 5e-6}", v, w
        print "]}" }' >"$work/nodes.json"
}
awk '/"update_s"/ { update = $2 + 0 } /"accumulate_s"/ { printf "\"accumulate_s\": %.9g,\n", update; next } { print }' \
    "$work/bert48.json" >"$work/adding.json"
echo "GB/s between nodes, nodes: samples a second"
echo "                          GPipe  PipeDream        2BW  Vanilla-1F1B  PipeOptim"
for rate in 1.25 0.125 10 adding; do
    profile=bert48 between=$rate
    [ $rate != adding ] || profile=adding between=1.25
    for nodes in 1 2 3; do
        nodes_of $nodes $between
        printf '%s %s' $rate $nodes
        for method in "gpipe sync $((4 * nodes))" "1f1b-async stash 1" "1f1b-async 2bw $((4 * nodes))" "1f1b-async latest 1" "1f1b-async pipeoptim 1"; do
            set -- $method
            "$penstock" plan --profile "$work/$profile.json" --cluster "$work/nodes.json" --method pipedream --recompute \
                --schedule "$1" --weights "$2" --micro-batches "$3" --optimizer adam --json -q >"$work/plan.json"
            printf ' %s' "$(field throughput_samples_per_s <"$work/plan.json")"
        done
        echo
    done
done | tee "$work/all" | awk '{ printf "%17s %3d %10.1f %10.1f %10.1f %13.1f %10.1f\n", $1, $2, $3, $4, $5, $6, $7 }'
awk 'BEGIN { print "title BERT-48 on one to three nodes of four P100, 1.25 GB/s between nodes\nx nodes\ny samples a second\nsize 420 180"; split("GPipe PipeDream 2BW Vanilla-1F1B PipeOptim", name, " ") }
    $1 == 1.25 { row[++rows] = $0 }
    END { for (i = 1; i <= 5; i++) { print "bars " name[i]; for (r = 1; r <= rows; r++) { split(row[r], f); print f[2], f[i + 2] } } }' "$work/all" | awk -f bench/papers/plot.awk >"$figure"
