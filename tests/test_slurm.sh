#!/bin/sh
# A Slurm of this machine alone, whose daemons are started here: srun trains over two ranks, and the job script of docs/mpi.md is queued
# again when a rank is killed and when the job is stopped. Where there is no Slurm, or the user is not root, there is nothing to do.
# (The rest stands in support.sh.)
documents=$(cd "$(dirname "$0")/../docs" && pwd) || exit 1
. "$(dirname "$0")/support.sh"
errors=out
for needed in munged slurmctld slurmd srun; do
    command -v "$needed" >/dev/null || {
        echo "skipped: no $needed"
        exit 0
    }
done
needs_mpi
program=
for pair in $PENSTOCK_MPIS; do
    # Open MPI's program, which speaks PMIx.
    "${pair%%=*}" --version 2>/dev/null | grep -q "Open MPI\|OpenRTE" && program=${pair#*=}
done
[ "$(id -u)" = 0 ] && [ -n "$program" ] && find /usr/lib /usr/lib64 /usr/local/lib -path '*slurm*/mpi_pmix*.so' 2>/dev/null | grep -q . || {
    echo "skipped: not root, no Open MPI, or a Slurm without PMIx"
    exit 0
}
ln -s "$program" penstock
PATH=$PWD:$PATH

mkdir munge state spool tmp
chmod 700 munge
host=$(hostname -s)
port=$((20000 + $$ % 20000))
export SLURM_CONF=$PWD/slurm.conf
dd if=/dev/urandom of=munge/key bs=1024 count=1 2>/dev/null && chmod 600 munge/key
cat >slurm.conf <<X
ClusterName=one
SlurmctldHost=$host
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$PWD/munge/socket,cred_expire=5
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
TmpFS=$PWD/tmp
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmdPidFile=$PWD/slurmd.pid
SlurmctldLogFile=$PWD/slurmctld.log
SlurmdLogFile=$PWD/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=1
SelectType=select/cons_tres
MpiDefault=none
NodeName=$host CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
X
munged --force --key-file="$PWD/munge/key" --socket="$PWD/munge/socket" --pid-file="$PWD/munge/pid" --log-file="$PWD/munge/log" \
    --seed-file="$PWD/munge/seed" 2>out && slurmctld >out 2>&1 && slurmd >out 2>&1 || {
    echo "skipped: the daemons do not start: $(cat out)"
    exit 0
}
end_daemons() {
    for file in slurmd.pid slurmctld.pid munge/pid; do kill "$(cat "$directory_of_daemons/$file")" 2>/dev/null; done
}
directory_of_daemons=$PWD
trap 'end_daemons; end_all; rm -rf "$directory"' EXIT
is_idle() { sinfo -h -o %T 2>out | grep -q idle; }
until_so is_idle

begins "srun"
arguments="--model lenet5 --data synthetic:images --workers 2 --schedule 1f1b --weights sync"
# Words on purpose.
# shellcheck disable=SC2086
timeout 200 srun --mpi=pmix -n 2 penstock train $arguments --steps 4 --out short >out 2>&1 || complain "srun fails"
grep -q "on 2 cpu workers" out || complain "srun: not two workers"

begins "srun that does not speak as MPI does"
# alone TYPE PROGRAM COMMAND...: ranks that srun --mpi=TYPE does not bring together.
alone() {
    type=$1
    shift
    timeout 200 srun --mpi="$type" -n 2 "$@" >out 2>&1
    status=$?
    [ $status -eq 2 ] && [ "$(grep -c '^penstock: ' out)" -eq 1 ] && grep -q '^srun --mpi=pmix starts' out ||
        complain "srun --mpi=$type $1 $2: status $status, or not one line and what to do"
}
for pair in $PENSTOCK_MPIS; do
    own=pmi2
    [ "${pair#*=}" != "$program" ] || own=pmix
    for type in none pmi2 pmix; do
        [ $type != $own ] || continue
        # shellcheck disable=SC2086
        alone $type "${pair#*=}" train $arguments --steps 4 --out "never-$type"
    done
    alone none "${pair#*=}" evaluate --run short --data synthetic:images
    alone none "${pair#*=}" cluster
done

begins "sbatch"
# Over emulated links it goes on for seconds, so that it is not over before it is struck.
awk '/^## Slurm/ { slurm = 1 } slurm && /^```$/ { exit } script { print } slurm && /^```sh/ { script = 1 }' "$documents/mpi.md" |
    sed 's,--epochs 40 --checkpoint-every 100,--steps 400 --checkpoint-every 10 --emulate --bandwidth 1GB/s --latency 2ms,' >job.sh
grep -q 'steps 400' job.sh || complain "docs/mpi.md has another script"
id=$(sbatch --parsable job.sh 2>out) || complain "sbatch fails"
errors=lenet5.log

# The job's FIELD as scontrol shows it.
field() { scontrol show job "$id" | tr ' ' '\n' | sed -n "s/^$1=//p"; }
# worker RANK: the process that trains, beneath its guard.
worker() {
    for process in $(processes penstock); do
        [ "$(cat "/proc/$process/comm")" = penstock ] && tr '\0' '\n' <"/proc/$process/environ" | grep -qx "SLURM_PROCID=$1" && echo "$process"
    done
}
goes_on() { [ -n "$(worker 1)" ] && [ -n "$(newest runs/lenet5)" ] && [ "$(newest runs/lenet5)" != "$seen" ]; }
is_queued_again() { [ "$(field Restarts)" = "$1" ]; }
is_over() { case $(field JobState) in PENDING | RUNNING | COMPLETING | REQUEUED) false ;; esac }

seen=000000
begins "sbatch: a killed rank"
until_so goes_on && kill -KILL "$(worker 1)"
until_so is_queued_again 1
seen=$(newest runs/lenet5)
begins "sbatch: a stop after checkpoint $seen"
until_so goes_on && scancel --signal=TERM "$id"
until_so is_queued_again 2
grep -q 'stopped on request; runs/lenet5 keeps the checkpoint of step' lenet5.log || complain "the signal ended it at once"
begins "sbatch: the rest, from checkpoint $(newest runs/lenet5)"
until_so is_over
[ "$(field JobState)" = COMPLETED ] || complain "the job is $(field JobState)"
# The same plan by threads, never disturbed.
sed -n '/--model/,/--out/p' job.sh | sed 's/srun[^ ]* *--mpi=pmix penstock/penstock/; s,--workers.*sync,--plan runs/lenet5/plan.json,; s,--out .*,--out threads -q,' \
    >threads.sh
timeout 200 sh threads.sh >out 2>&1 || complain "threads fail"
[ "$(sum runs/lenet5)" = "$(sum threads)" ] || complain "other weights than without requeues"
finish
