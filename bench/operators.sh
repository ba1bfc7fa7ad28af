#!/bin/sh
# Times the cpu device's operators that are limited by memory, in f32 and in bf16, beside a plain copy (operators.c).
# Usage: bench/operators.sh >bench/results/operators.txt
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
made_with "bench/operators.sh"
echo "machine  $(machine), ${THREADS:-1} thread(s)"
echo
watch
for scale in 1 8; do
    echo "values of $((4 * scale)) MiB in f32"
    build/release/bench/operators "${THREADS:-1}" $scale
    echo
done
echo "other programs kept $(others) cores busy meanwhile"
