#!/bin/sh
# The cost of a transfer for the computation that it overlaps with (bench/transfer.c): the two stages of a residual network
# compute on one thread each, every other time while the 4 MiB of an activation go one way and those of its gradient the other;
# with threads, and with each MPI library that there is a program for, with shared memory and with messages.
#   ROUNDS (20), TIMES (5) times each in turn; medians over all rounds are printed; BATCH (64: 4 MiB); TRANSPORTS ("mpi mpi-messages")
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-20} times=${TIMES:-5} batch=${BATCH:-64} build=$(dirname "$penstock")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >"$work/plan.json" <<EOF
{ "format": "penstock-plan", "version": 1, "model": "resnet", "workers": 2, "micro_batch": $batch, "micro_batches": 1, "method": "uniform",
  "optimizer": "sgdm", "schedule": "1f1b", "weights": "sync",
  "stages": [ {"layers": [1, 4], "forward": 0, "backward": 0}, {"layers": [5, 14], "forward": 1, "backward": 1} ] }
EOF

i=0
while [ $i -lt "$times" ]; do
    "$build/bench/transfer" "$work/plan.json" threads "$rounds" | sed 's/^/- /'
    for program in "$build/bench/transfer" "$build/bench/transfer_other"; do
        [ -x "$program" ] || continue
        case $(ldd "$program") in
        *libmpich*) mpirun=mpirun.mpich ;;
        *libmpi.so*) mpirun=mpirun.openmpi ;;
        *) continue ;;
        esac
        command -v "$mpirun" >/dev/null || mpirun=mpirun
        for transport in ${TRANSPORTS:-mpi mpi-messages}; do
            "$mpirun" -n 2 "$program" "$work/plan.json" $transport "$rounds" | sed "s/^/$mpirun /"
        done
    done
    i=$((i + 1))
done >"$work/all"

echo "resnet, micro-batch $batch, 2 workers of one thread; $(machine), $(nproc) cores; medians of $times times $rounds pairs"
echo "added: to the computation by a transfer beside it; and with the time that its worker then still waits for it"
printf '%-16s %-14s %6s %6s %12s %8s %15s\n' launcher transport worker MiB computes_ms added "and the wait"
awk '!seen[$1, $2, $3]++ { print $1, $2, $3, $4 }' "$work/all" | while read -r launcher transport worker mib; do
    awk -v l="$launcher" -v t="$transport" -v w="$worker" \
        '$1 == l && $2 == t && $3 == w { print $5, 100 * ($6 / $5 - 1), 100 * ($7 / $5 - 1) }' "$work/all" >"$work/of"
    printf '%-16s %-14s %6d %6.1f %12.2f %7.2f%% %14.2f%%\n' "$launcher" "$transport" "$worker" "$mib" \
        "$(cut -d' ' -f1 "$work/of" | median)" "$(cut -d' ' -f2 "$work/of" | median)" "$(cut -d' ' -f3 "$work/of" | median)"
done
