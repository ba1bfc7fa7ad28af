#!/bin/sh
# A rank that is stopped, killed, or leaves in the middle of training: the job ends with status 6, and says which worker it was,
# where, what it was at and who waits for it. The pids are those of this test's own mpirun. Workers play a profile, so that the cases
# can run beside each other. (What PENSTOCK and PENSTOCK_MPIS are stands in support.sh.) PENSTOCK_LEAVER is tests/leaver.c and
# PENSTOCK_FAULTY tests/faults/faulty.c, to be preloaded.
. "$(dirname "$0")/support.sh"
needs_mpi
if ! command -v pgrep >/dev/null 2>&1; then
    echo "skipped: no pgrep"
    exit 0
fi
echo "seed: PENSTOCK_TEST_SEED=$seed"
# A launcher is known by its name. What stands above one and has another, as this shell, is none.
echo another >/proc/$$/comm 2>/dev/null

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
rank_of() { { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p' | head -n 1; }

# begin NAME [PREFIX...]: training of three ranks in NAME; NAME/status and NAME/err. It plays so many steps that it must have failed before
# it would be over.
begin() {
    name=$1
    shift
    mkdir "$name"
    timeout -k 5 200 "$mpirun" -n 3 "$@" "$program" train --plan plan.json --profile profile.csv --device clock --steps 100000 \
        --out "$name/run" -q >"$name/out" 2>"$name/err"
    echo $? >"$name/status"
}

has_begun() { [ -s "$1/run/config.json" ] || [ -e "$1/status" ]; }

# lose NAME SIGNAL RANK guard|worker: at a random moment
lose() {
    begin "$1" &
    job=$!
    # Then all have the plan, and training begins.
    until_so has_begun "$1"
    draw 300
    milliseconds $random
    for pid in $(below $job); do
        [ "$(rank_of "$pid")" = "$3" ] || continue
        guard=no
        [ "$(cat "/proc/$pid/comm")" = penstock-guard ] && guard=yes
        [ "$guard-$4" = no-guard ] || [ "$guard-$4" = yes-worker ] || kill -"$2" "$pid"
    done
    wait $job
}

# leave HOW STATUS: rank 1 does, at a random moment
leave() {
    draw 300
    begin "leave-$1-$2" env LD_PRELOAD="$PENSTOCK_LEAVER" LEAVER_RANK=1 LEAVER_HOW="$1" LEAVER_STATUS="$2" \
        LEAVER_FILE="leave-$1-$2/run/config.json" LEAVER_MS=$random
}

# Rank 0 has not come yet: the others wait for it in MPI's own start.
cat >late.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 0 ] || sleep 60
exec "$@"
END

# The child of rank 1's guard, in $worker.
has_worker() {
    worker=
    for pid in $(below "$1"); do
        [ "$(rank_of "$pid")" = 1 ] && [ "$(cat "/proc/$pid/comm")" != penstock-guard ] || continue
        [ "$(cat "/proc/$(sed 's/.*) . //; s/ .*//' "/proc/$pid/stat")/comm" 2>/dev/null)" != penstock-guard ] || worker=$pid
    done
    [ -n "$worker" ] || [ -e "$2/status" ]
}

# lose_early NAME SIGNAL
lose_early() {
    begin "$1" sh late.sh &
    job=$!
    until_so has_worker $job "$1"
    milliseconds 500
    kill -"$2" "$worker"
    wait $job
}

# A launcher that is stopped after the loss does not see that all have ended, as one that hangs.
lose_with_launcher() { # NAME
    begin "$1" &
    job=$!
    until_so has_begun "$1"
    until_so has_worker $job "$1"
    launcher=$(pgrep -P "$(pgrep -P $job timeout)")
    kill -STOP "$launcher"
    kill -KILL "$worker"
    wait $job
}

# Rank 1 is stopped before it has a guard.
cat >stopped.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || kill -STOP $$
exec "$@"
END

# Rank 1 is killed before it has a guard.
cat >gone.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || kill -KILL $$
exec "$@"
END

# The launcher, which Open MPI 5 calls prterun, is told to end when it has just begun to start the ranks: MPICH's lets them wait for
# ever.
end_early() { # NAME
    LD_PRELOAD=$PENSTOCK_LEAVER LEAVER_FORKS=mpi,prterun LEAVER_SIDE=parent LEAVER_SIGNAL=15
    export LD_PRELOAD LEAVER_FORKS LEAVER_SIDE LEAVER_SIGNAL
    begin "$1"
}

# What rank 0 alone finds wrong, before they meet, ends the others, too: some launchers do not.
fail_early() {
    mkdir "$1"
    timeout -k 5 100 "$mpirun" -n 3 "$program" train --plan missing.json --device clock -q >"$1/out" 2>"$1/err"
    echo $? >"$1/status"
}

# Rank 1 gets no memory, of all that it asks for until it is connected: it ends the run with one line, though it can tell nobody.
lack_memory() {
    call=0
    connects=0
    while [ $connects -lt 2 ] && [ $call -lt 60 ]; do
        call=$((call + 1))
        begin "memory$call" env LD_PRELOAD="$PENSTOCK_FAULTY" FAULTY="malloc:$call:fail" FAULTY_RANK=1
        errors=memory$call/err
        case $(cat "memory$call/status") in 1 | 6) ;; *) complain "$mpi: memory$call: status $(cat "memory$call/status")" ;; esac
        [ "$(grep -c '^penstock: ' "$errors")" -eq 1 ] || complain "$mpi: memory$call: not one line"
        ! grep -q '^penstock: out of memory: connections' "$errors" || connects=$((connects + 1))
    done
    [ $connects -eq 2 ] || complain "$mpi: memory is never lacking for connections"
}

# named NAME RANK WHAT: status 6, and the message.
named() {
    errors=$1/err
    [ "$(cat "$1/status")" -eq 6 ] || complain "$mpi: $1: status $(cat "$1/status")"
    grep -Eq "^penstock: worker $2 was lost: rank $2 on .* $3.*; worker [0-2] on .* (waits|would wait) for it at" "$1/err" || complain "$mpi: $1: not said so"
    # Without rank 0 nobody writes into the run's directory.
    [ "$2" -eq 0 ] || [ "$(grep -c '^worker' "$1/run/lost.txt")" -eq 3 ] || complain "$mpi: $1: no lost.txt"
}

# side_by_side CASE...: each a command, with moments of its own; waits for them.
side_by_side() {
    cases=
    for case in "$@"; do
        draw 1000000
        # Words on purpose.
        # shellcheck disable=SC2086
        (seed=$random && $case) &
        cases="$cases $!"
    done
    for case in $cases; do wait "$case"; done
}

library() {
    # Three at once: containers often have no more than 64 MiB of /dev/shm, of which MPICH takes 4 for a rank.
    begins "$mpi: stopped"
    side_by_side "lose stop1 STOP 1 worker" "lose stop0 STOP 0 worker" "lose guard STOP 2 guard"
    begins "$mpi: killed"
    side_by_side "lose kill0 KILL 0 worker" "lose kill2 KILL 2 worker" "lose launch KILL 1 guard"
    begins "$mpi: left, and a launcher that hangs"
    if [ -n "${PENSTOCK_LEAVER:-}" ]; then
        side_by_side "lose_with_launcher launcher" "leave exit 0" "leave exit 3" "leave _exit 0" "end_early early-end"
    else
        lose_with_launcher launcher
    fi
    if [ -n "${PENSTOCK_FAULTY:-}" ]; then
        begins "$mpi: no memory"
        lack_memory
    fi
    begins "$mpi: lost before all have met"
    side_by_side "lose_early early-kill KILL" "lose_early early-stop STOP" "begin early-unguarded sh stopped.sh" "begin early-gone sh gone.sh" \
        "fail_early early-fail"
    begins "$mpi: what was said"
    errors=early-fail/err
    [ "$(cat early-fail/status)" -eq 3 ] || complain "$mpi: early-fail: status $(cat early-fail/status)"
    [ "$(grep -c '^penstock: missing.json: cannot open' early-fail/err)" -eq 1 ] || complain "$mpi: early-fail: not said so"
    # Open MPI's launcher sees itself how this one ended, MPICH's sometimes: with 9, or with 255 where its proxy answers a rank
    # that it has just killed, finds that rank's pipe closed, and ends by an assertion.
    errors=early-gone/err
    case $(cat early-gone/status)-$mpi in 6-mpich | 9-mpich | 255-mpich | 137-openmpi | 1-openmpi) ;; *) complain "$mpi: early-gone: status $(cat early-gone/status)" ;; esac
    errors=early-end/err
    [ -z "${PENSTOCK_LEAVER:-}" ] ||
        case $(cat early-end/status) in 0 | 124 | 137) complain "$mpi: early-end: status $(cat early-end/status)" ;; esac
    for case in early-kill early-stop early-unguarded; do
        errors=$case/err
        # Without a guard the launcher sees how the rank ended, and has a status of its own for it. Before all have met nobody can
        # give MPICH's launcher one for all: it has that of the ranks which it kills then.
        others=6
        case $case-$mpi in early-unguarded-* | *-mpich) others="9 255" ;; esac
        case " 6 $others " in *" $(cat $case/status) "*) ;; *) complain "$mpi: $case: status $(cat $case/status)" ;; esac
        [ "$(grep -c '^penstock: a process of the run was lost before all had met' $case/err)" -eq 1 ] || complain "$mpi: $case: not said so"
    done
    named stop1 1 'has not answered'
    named stop0 0 'has not answered'
    named guard 2 'has not answered'
    errors=launcher/err
    case $(cat launcher/status) in 137) ;; *) complain "$mpi: launcher: status $(cat launcher/status)" ;; esac
    named kill0 0 'ended before the run did'
    named kill2 2 'ended before the run did'
    [ -z "${PENSTOCK_LEAVER:-}" ] || for case in exit-0 exit-3 _exit-0; do
        named "leave-$case" 1 'ended before the run did'
    done
    # Unless a segment is about to end, both neighbours of rank 1 need something of it.
    errors=stop1/err
    grep -Eqs "^penstock: worker 1 was lost: .*; worker 0 on .* for it at .*; worker 2 on .* for it at" stop1/err leave-*/err ||
        complain "$mpi: not all who wait are named"
    # What the launcher itself sees has the status that the launcher likes; MPICH's leaves the others no time to speak.
    errors=launch/err
    case $(cat launch/status) in 0 | 124) complain "$mpi: launch: status $(cat launch/status)" ;; esac
}

each_mpi library
finish
