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
build/release/bench/operators "${THREADS:-1}"
echo
echo "other programs kept $(others) cores busy meanwhile"
