#!/bin/sh
# A Slurm of this machine alone, whose daemons are started here: srun trains over two ranks. Where there is no Slurm, or the user is
# not root, there is nothing to do. (The rest stands in support.sh.)
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

mkdir munge state spool
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
finish
