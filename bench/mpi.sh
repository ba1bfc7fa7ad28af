#!/bin/sh
# The cost of MPI: ranks of one thread under mpirun compared with as many threads of the threads transport, with the same plan,
# for each MPI library that there is a program for. All are run in turn, so that a busy machine slows each of them, and the
# median of the ratios is reported. `busy` is the time that workers spend in computations, including the calls between operators
# that move messages along: it shows the cost of a transfer that overlaps with them.
#   ROUNDS (5) rounds of STEPS (12) mini-batches of BATCH (64) samples; MODEL (vgg16), PROFILE (default: measured), WORKERS (2);
#   TRANSPORTS ("mpi mpi-messages"); MPIRUN_OPTIONS (none); PENSTOCK_MPIS: the libraries, as MPIRUN=PROGRAM; default: those of the
#   build
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
rounds=${ROUNDS:-5} steps=${STEPS:-12} batch=${BATCH:-64} model=${MODEL:-vgg16} workers=${WORKERS:-2} transports=${TRANSPORTS:-mpi mpi-messages}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores: Open MPI 4, and 5.
if [ "$workers" -gt "$(nproc)" ]; then
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
fi

# The program, and it once more with the other library where the tests have it.
if [ -z "${PENSTOCK_MPIS:-}" ]; then
    for program in "$penstock" "$(dirname "$penstock")/tests/penstock_other"; do
        [ -x "$program" ] || continue
        case $(ldd "$program") in
        *libmpich*) mpirun=mpirun.mpich ;;
        *libmpi.so*) mpirun=mpirun.openmpi ;;
        *) continue ;;
        esac
        command -v "$mpirun" >/dev/null || mpirun=mpirun
        PENSTOCK_MPIS="${PENSTOCK_MPIS:-} $mpirun=$program"
    done
fi

profile=${PROFILE:-$work/profile.json}
[ -n "${PROFILE:-}" ] || "$penstock" profile --model "$model" --micro-batch "$batch" --repeats 3 --quiet -o "$profile" >/dev/null
"$penstock" plan --profile "$profile" --workers "$workers" --schedule 1f1b-async --weights pipeoptim --optimizer sgdm \
    -o "$work/plan.json" --quiet >/dev/null

run() { # TRANSPORT COMMAND...: what starts the program; speed and busy seconds
    transport=$1
    shift
    "$@" train --transport "$transport" --plan "$work/plan.json" --data "synthetic:images,samples=$((batch * 64))" --lr 0.0001 --steps "$steps" --quiet --json \
        >"$work/run.json"
    echo "$(field samples_per_s <"$work/run.json") $(awk -F'[:,]' '/"busy_s"/ { s += $2 } END { print s }' "$work/run.json")"
}
round=0
while [ $round -lt "$rounds" ]; do
    run threads "$penstock" | sed 's/^/threads /'
    for pair in $PENSTOCK_MPIS; do
        for transport in $transports; do
            # shellcheck disable=SC2086
            run "$transport" "${pair%%=*}" ${MPIRUN_OPTIONS:-} -n "$workers" "${pair#*=}" |
                sed "s|^|$(basename "${pair%%=*}"):$transport |"
        done
    done
    round=$((round + 1))
done | tee "$work/rounds" >&2

echo "$model, mini-batch $batch, 1f1b-async, pipeoptim, $workers workers of one thread; $(machine), $(nproc) cores; $rounds rounds of $steps"
printf '%-28s %10s %8s %8s  %s\n' transport samples/s speed busy 'speed and busy: of that of the threads, medians; all rounds of speed'
for name in $(awk '!seen[$1]++ { print $1 }' "$work/rounds"); do
    awk -v n="$name" '$1 == "threads" { speed = $2; busy = $3 } $1 == n { print $2, $2 / speed, $3 / busy }' "$work/rounds" >"$work/of"
    printf '%-28s %10.1f %8.3f %8.3f  %s\n' "$name" "$(cut -d' ' -f1 "$work/of" | median)" "$(cut -d' ' -f2 "$work/of" | median)" \
        "$(cut -d' ' -f3 "$work/of" | median)" "$(cut -d' ' -f2 "$work/of" | sort -g | awk '{ printf "%.3f ", $1 }')"
done
