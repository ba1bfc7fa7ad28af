#!/bin/sh
# The largest GNMT-L that fits on devices of 16 GB (BaPipe's Table IV), by `penstock compare --largest`: every entry is a plan
# whose programs were verified, within the memory of each of its workers. docs/papers/bapipe.md states the assumptions and the
# differences.
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh

table() {
    "$penstock" compare --model gnmt-l --largest layers --workers 1,2,4,8 --optimizer adam --grid --quiet "$@" | tail -n +3
    echo
}

echo "BaPipe's Table IV: L, parameters"
echo
cat <<'END'
workers  data-parallel, PipeDream         GPipe  BaPipe (1F1B-SNO)
      1              32 (445.6 M)  32 (445.6 M)       32 (445.6 M)
      2              32 (445.6 M)  42 (550.6 M)       74 (886.4 M)
      4              32 (445.6 M)  60 (739.5 M)      118 (1.35 B)
      8              32 (445.6 M)  74 (886.4 M)      158 (1.78 B)

END
for memory in 9GiB 16GB; do
    echo "here, $memory of each device left to the network; a mini-batch of 32 samples a device in micro-batches of 16"
    echo
    table --memory $memory --methods data-parallel,uniform,bapipe --schedules gpipe,1f1b --replicate --micro-batch 16 \
        --batch-per-worker 32
done
echo "likewise, 9GiB, with recomputation"
echo
table --memory 9GiB --methods uniform,bapipe --schedules gpipe,1f1b --micro-batch 16 --batch-per-worker 32 --recompute
echo "without a flush, 9GiB, mini-batches of 32 samples: PipeDream's versions of the weights, and predicted weights"
echo
table --memory 9GiB --methods uniform,pipedream --schedules 1f1b-async --weights stash,pipeoptim --micro-batch 32 --micro-batches 1
