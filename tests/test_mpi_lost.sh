#!/bin/sh
# A rank that is stopped or killed in the middle of training: the job ends, never with status 0, and says which worker it was. The
# pids are those of this test's own mpirun. PENSTOCK_MPIS lists MPIRUN=PROGRAM.
set -u

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
failures=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores: Open MPI 4, and 5.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

complain() {
    echo "FAILED: $*" >&2
    sed 's/^/    /' err >&2
    failures=$((failures + 1))
}

# The program's processes below a process, at any depth.
below() { # PID
    for child in $(pgrep -P "$1"); do
        case $(cat "/proc/$child/comm" 2>/dev/null) in
        penstock*) echo "$child" ;;
        *) below "$child" ;;
        esac
    done
}

rank_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p' | head -n 1; }

# lose SIGNAL RANK: sends it in the middle of a run of three ranks; its status is in $status.
lose() {
    rm -rf run
    timeout 60 "$mpirun" -n 3 "$program" train --model lenet5,input=16,classes=4 --data synthetic:images,samples=4096 --batch 8 \
        --schedule 1f1b-async --weights stash --device reference --epochs 1000 --out run -q >out 2>err &
    job=$!
    tries=0
    # The log has a line: training has begun.
    until [ -s run/log.jsonl ] || [ $tries -gt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    for pid in $(below $job); do
        if [ "$(rank_of "$pid")" = "$2" ]; then kill -"$1" "$pid"; fi
    done
    wait $job
    status=$?
}

for pair in $PENSTOCK_MPIS; do
    mpirun=${pair%%=*} program=${pair#*=}
    lose STOP 1
    [ $status -eq 6 ] || complain "$mpirun, rank 1 stopped: status $status"
    grep -Eq '^penstock: worker 1 was lost: rank 1 on .* has not answered .*worker [02] .* waits for it' err ||
        complain "$mpirun, rank 1 stopped: not said so"
    [ "$(grep -c '^worker' run/lost.txt)" -eq 3 ] || complain "$mpirun, rank 1 stopped: no lost.txt"
    lose KILL 0
    # The launcher's own status, which differs; MPICH's leaves the others no time to speak.
    case $status in 0 | 124) complain "$mpirun, rank 0 killed: status $status" ;; esac
    "$mpirun" --version 2>&1 | grep -q "Open MPI\|OpenRTE" || continue
    grep -Eq '^penstock: worker 0 was lost: rank 0 on .* ended before the run did' err || complain "$mpirun, rank 0 killed: not said so"
done

[ $failures -eq 0 ]
