#!/bin/sh
# A rank that is stopped, killed, or leaves in the middle of training: the job ends with status 6, and says which worker it was,
# where, what it was at and who waits for it. The pids are those of this test's own mpirun. Workers play a profile, so that the cases
# can run beside each other. PENSTOCK_MPIS lists MPIRUN=PROGRAM; PENSTOCK_LEAVER is tests/leaver.c, to be preloaded.
set -u

: "${PENSTOCK:?the path of the program}"
if [ -z "${PENSTOCK_MPIS:-}" ]; then
    echo "skipped: built without MPI"
    exit 0
fi
if ! command -v pgrep >/dev/null 2>&1; then
    echo "skipped: no pgrep"
    exit 0
fi
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores: Open MPI 4, and 5.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

complain() { # NAME TEXT
    echo "FAILED: $*" >&2
    sed 's/^/    /' "$1/err" >&2
    echo "$*" >>failures
}

printf 'name,forward_s,backward_s,parameter_bytes,output_bytes\n' >profile.csv
for layer in 1 2 3; do echo "layer$layer,0.005,0.01,4000,4000" >>profile.csv; done
"$PENSTOCK" plan --profile profile.csv --workers 3 --method uniform --schedule 1f1b-async --weights stash --micro-batches 1 -q \
    -o plan.json >/dev/null || exit 1

# The program's processes below a process, at any depth.
below() { # PID
    for child in $(pgrep -P "$1"); do
        case $(cat "/proc/$child/comm" 2>/dev/null) in penstock*) echo "$child" ;; esac
        below "$child"
    done
}

# Some are gone before they are looked at.
rank_of() { [ ! -r "/proc/$1/environ" ] || tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p' | head -n 1; }

# begin NAME [PREFIX...]: training of three ranks in NAME; NAME/status and NAME/err. It is not over by itself before it must have failed.
begin() {
    name=$1
    shift
    mkdir "$name"
    timeout -k 5 120 "$mpirun" -n 3 "$@" "$program" train --plan plan.json --profile profile.csv --device clock --steps 100000 \
        --out "$name/run" -q >"$name/out" 2>"$name/err"
    echo $? >"$name/status"
}

# lose NAME SIGNAL RANK guard|worker
lose() {
    begin "$1" &
    job=$!
    tries=0
    # The log has a line: training has begun.
    until [ -s "$1/run/config.json" ] || [ $tries -gt 900 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    sleep 0.5
    for pid in $(below $job); do
        [ "$(rank_of "$pid")" = "$3" ] || continue
        guard=no
        [ "$(cat "/proc/$pid/comm")" = penstock-guard ] && guard=yes
        [ "$guard-$4" = no-guard ] || [ "$guard-$4" = yes-worker ] || kill -"$2" "$pid"
    done
    wait $job
}

# named NAME RANK WHAT: status 6, and the message.
named() {
    [ "$(cat "$1/status")" -eq 6 ] || complain "$1" "status $(cat "$1/status")"
    grep -Eq "^penstock: worker $2 was lost: rank $2 on .* $3.*; worker [0-2] on .* (waits|would wait) for it at" "$1/err" || complain "$1" "not said so"
    # Without rank 0 nobody writes into the run's directory.
    if [ "$2" -ne 0 ]; then
        [ "$(grep -c '^worker' "$1/run/lost.txt")" -eq 3 ] || complain "$1" "no lost.txt"
    fi
}

all_cases() { # NAME
    lose "$1-stop1" STOP 1 worker &
    lose "$1-stop0" STOP 0 worker &
    lose "$1-guard" STOP 2 guard &
    wait
    lose "$1-kill0" KILL 0 worker &
    lose "$1-kill2" KILL 2 worker &
    lose "$1-launch" KILL 1 guard &
    wait
    if [ -n "${PENSTOCK_LEAVER:-}" ]; then
        for case in 0:exit 3:exit 0:_exit; do
            name=$1-leave-${case#*:}-${case%:*}
            begin "$name" env LD_PRELOAD="$PENSTOCK_LEAVER" LEAVER_RANK=1 LEAVER_HOW="${case#*:}" LEAVER_STATUS="${case%:*}" \
                LEAVER_FILE="$name/run/config.json" LEAVER_MS=500 &
        done
    fi
    wait
}

for pair in $PENSTOCK_MPIS; do
    mpirun=${pair%%=*} program=${pair#*=}
    mpi=$(basename "$mpirun")
    all_cases "$mpi"
    named "$mpi-stop1" 1 'has not answered'
    named "$mpi-stop0" 0 'has not answered'
    named "$mpi-guard" 2 'has not answered'
    named "$mpi-kill0" 0 'ended before the run did'
    named "$mpi-kill2" 2 'ended before the run did'
    [ -z "${PENSTOCK_LEAVER:-}" ] || for leave in exit-0 exit-3 _exit-0; do
        named "$mpi-leave-$leave" 1 'ended before the run did'
    done
    # What the launcher itself sees has the status that the launcher likes; MPICH's leaves the others no time to speak.
    case $(cat "$mpi-launch/status") in 0 | 124) complain "$mpi-launch" "status $(cat "$mpi-launch/status")" ;; esac
done
[ ! -e failures ]
