#!/bin/sh
# How the learning rates of the tasks were found: the best validation accuracy of `sync` with each of some rates, from a seed
# that the sweeps do not use. The tasks use the lowest of the rates within a point of the best; adamw takes adam's.
#   bench/learning/rates.sh    JOBS and RESULTS as in sweep.sh
set -eu
cd "$(dirname "$0")/../.."
RESULTS=${RESULTS:-runs/learning_rates} SEEDS=9 POLICIES=sync
export RESULTS SEEDS POLICIES
search() { # TASK SET RATES-OF-SGDM RATES-OF-ADAM
    OPTIMIZERS=sgdm RATES=$3 TABLE=no bench/learning/$1.sh $2
    OPTIMIZERS=adam RATES=$4 TABLE=no bench/learning/$1.sh $2
}
search lenet5 fashion_mnist "0.01 0.03 0.1" "1e-3 2e-3 4e-3"
search lenet5 cifar10 "0.01 0.03 0.1" "1e-3 2e-3 4e-3"
search vgg fashion_mnist "0.02 0.05 0.1" "1e-3 2e-3 5e-3"
search vgg cifar10 "0.02 0.05 0.1" "1e-3 2e-3 5e-3"
search resnet "" "0.02 0.05 0.1" "2e-3 5e-3 1e-2"
search residual_lstm "" "0.05 0.1 0.3" "1e-3 3e-3 6e-3"
search gnmt8 "" "0.2 0.5 1" "3e-3 6e-3 1e-2"
search gpt2 "" "0.1 0.3 1" "2e-3 4e-3 8e-3"
for file in "$RESULTS"/*.tsv; do
    basename "$file" .tsv
    awk -F'\t' '{ printf "  %-6s %-6s %s\n", $2, $3, $5 == "diverged" ? $5 : sprintf("%6.2f", 100 * $5) }' "$file"
done
