#!/bin/sh
# Bi-Partition's setting on one machine. Each worker is a host of its own, a network namespace behind a virtual cable that `tc`
# limits to 100 Mbit/s in each direction. It emulates LeNet-5, AlexNet or VGG16 (CIFAR form) with a clock device: real ranks of
# Open MPI, real TCP, and computation times as profiled on this machine with one thread. Plans are PipeDream's and
# Bi-Partition's. Reported are the measured time of a mini-batch next to the simulator's (`error`), and Bi-Partition's speed-up
# over PipeDream: simulated, measured, and the largest of the paper (1.9, at 5 workers on LeNet-5). The simulator gets the
# bandwidth and latency that `penstock cluster` measures in the namespaces, and the fact that everything that a host sends goes
# through its one cable. So do the ranks, which then send one block at a time over it. Without the larger eager limits each
# message above 64 KiB would wait for a handshake and a delayed acknowledgement. Without the limit on the kernel's send buffer
# whole blocks would count as sent while they still share the cable (docs/mpi.md).
# Needs root, ip, tc, and Open MPI. If the machine has other work, RUNNER="chrt -r 10" keeps it from delaying the ranks, which
# only wait.
#   STEPS (24) mini-batches, the median of ROUNDS (3), WORKERS ("2 3 4 5 6 7"), MODELS ("lenet5 alexnet vgg16"), RATE (100mbit),
#   MPIRUN_OPTIONS (none)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
steps=${STEPS:-24} rounds=${ROUNDS:-3} rate=${RATE:-100mbit}
most=0
for workers in ${WORKERS:-2 3 4 5 6 7}; do [ "$workers" -gt $most ] && most=$workers; done
. bench/hosts.sh

# measure MODEL WORKERS METHOD: a line, without its end; the simulated and the measured seconds for a mini-batch are in $simulated and
# $measured, empty where the plan cannot be run.
measure() {
    simulated= measured=
    "$penstock" plan --profile "$work/$1.json" --cluster "$work/described.json" --method "$3" --schedule 1f1b-async --weights stash \
        -q -o "$work/plan.json" >/dev/null
    "$penstock" simulate --plan "$work/plan.json" --profile "$work/$1.json" --batches "$steps" --cluster "$work/described.json" -q --json \
        >"$work/simulated.json" 2>"$work/err" || { printf '%-8s %7d %-12s cannot be run: %s' "$1" "$2" "$3" "$(head -n 1 "$work/err")"; return; }
    : >"$work/speeds"
    round=0
    while [ $round -lt "$rounds" ]; do
        over "$2" train --plan "$work/plan.json" --profile "$work/$1.json" --cluster "$work/described.json" --device clock --steps "$steps" --json -q >"$work/run.json"
        field samples_per_s <"$work/run.json" >>"$work/speeds"
        round=$((round + 1))
    done
    simulated=$(field makespan_s <"$work/simulated.json" | awk -v n="$steps" '{ print $1 / n }')
    measured=$(median <"$work/speeds" | awk -v b="$(field batch <"$work/run.json")" '{ print b / $1 }')
    echo "$simulated $measured" | awk -v m="$1" -v w="$2" -v p="$3" \
        '{ printf "%-8s %7d %-12s %13.2f %12.2f %7.2f%%", m, w, p, 1000 * $1, 1000 * $2, 100 * ($2 / $1 - 1) }'
}

echo "network namespaces at $rate, clock devices, $steps mini-batches, median of $rounds runs, 1f1b-async, stash; $(machine), $(nproc) cores"
echo "$bandwidth $latency" | awk '{ printf "links as measured: %.1f Mbit/s, %.0f us\n", 8e-6 * $1, 1e6 * $2 }'
printf '%-8s %7s %-12s %13s %12s %8s   %s\n' model workers method simulated_ms measured_ms error "speed-up: simulated, measured, paper"
for model in ${MODELS:-lenet5 alexnet vgg16}; do
    case $model in
    lenet5) spec=lenet5 batch=64 ;;
    alexnet) spec=alexnet,input=32 batch=64 ;;
    *) spec=$model,input=32 batch=128 ;;
    esac
    ${RUNNER:-} "$penstock" profile --model "$spec" --micro-batch $batch --repeats 3 -q -o "$work/$model.json" >/dev/null
    for workers in ${WORKERS:-2 3 4 5 6 7}; do
        describe "$workers"
        measure $model "$workers" pipedream
        before_simulated=$simulated before_measured=$measured
        echo
        measure $model "$workers" bipartition
        paper=-
        [ $model-"$workers" != lenet5-5 ] || paper=1.9
        [ -z "$before_measured" ] || [ -z "$measured" ] || echo "$before_simulated $simulated $before_measured $measured $paper" |
            awk '{ printf "   %9.2f %9.2f %6s", $1 / $2, $3 / $4, $5 }'
        echo
    done
done
