#!/bin/sh
# What a transfer costs the computation beside it (bench/transfer.c): the two stages of a residual network compute on one thread each,
# every other time while the 4 MiB of an activation go one way and those of its gradient the other; by threads, and by each MPI library
# that there is a program for, with memory that is shared and with messages.
#   ROUNDS (60), TIMES (3) times each in turn, of which the medians are printed; BATCH (64: 4 MiB)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-60} times=${TIMES:-3} batch=${BATCH:-64} build=$(dirname "$penstock")
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
        for transport in mpi mpi-messages; do
            "$mpirun" -n 2 "$program" "$work/plan.json" $transport "$rounds" | sed "s/^/$mpirun /"
        done
    done
    i=$((i + 1))
done >"$work/all"

echo "resnet, micro-batch $batch, 2 workers of one thread; $(machine), $(nproc) cores; medians of $times times $rounds rounds"
echo "added: to the computation by a transfer beside it; and with the time that its worker then still waits for it"
printf '%-16s %-14s %6s %6s %12s %8s %15s\n' launcher transport worker MiB computes_ms added "and the wait"
awk '!seen[$1, $2, $3]++ { print $1, $2, $3, $4 }' "$work/all" | while read -r launcher transport worker mib; do
    figures=
    for column in 5 6 7; do
        figures="$figures $(awk -v l="$launcher" -v t="$transport" -v w="$worker" -v c=$column \
            '$1 == l && $2 == t && $3 == w { print $c + 0 }' "$work/all" | median)"
    done
    # shellcheck disable=SC2086
    printf '%-16s %-14s %6d %6.1f %12.2f %7.2f%% %14.2f%%\n' "$launcher" "$transport" "$worker" "$mib" $figures
done
