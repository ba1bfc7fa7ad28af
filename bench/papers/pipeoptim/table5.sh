#!/bin/sh
# PipeOptim's Table V: the largest batch on four P100 of 16 GB; then with stage outputs kept, as PipeDream's runtime does; then for
# GNMT with linear layers that take a quarter longer (bench/papers/largest_batch.sh says more).
set -eu
cd "$(dirname "$0")/../../.."
sh bench/papers/largest_batch.sh
echo
KEEP=outputs sh bench/papers/largest_batch.sh
echo
LINEAR=1.25 sh bench/papers/largest_batch.sh gnmt8 gnmt16
