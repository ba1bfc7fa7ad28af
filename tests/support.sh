# What the tests of the command line share; sourced at their beginning. They then stand in a directory of their own, which goes when they
# end, and with it every process that was begun in it. PENSTOCK is the program; PENSTOCK_MPIS lists MPIRUN=PROGRAM for each MPI library to
# be tested; PENSTOCK_TEST_SEED sets the random moments.
#
# Nothing may depend on how fast the machine is: what is waited for is an event, and every wait has an end, which says what it was for.
set -u

: "${PENSTOCK:?the path of the program}"
# Whatever hangs is ended from here, a little before CTest would kill this shell alone: then it is said where it hung.
limit=${limit:-570}
[ -z "${PENSTOCK_TEST_ALL:-}" ] || limit=7100
[ -n "${PENSTOCK_TEST_LIMITED:-}" ] || PENSTOCK_TEST_LIMITED=1 exec timeout -k 25 "$limit" sh "$0"
unset PENSTOCK_TEST_LIMITED
# No profile of another test or user counts.
unset OMP_NUM_THREADS
directory=$(cd "$(mktemp -d)" && pwd -P) || exit 1
trap 'end_all; rm -rf "$directory"' EXIT
trap 'echo "FAILED: ended by a signal (after $limit s it is one) in the section \"$section\"" >&2; exit 1' HUP INT TERM
export XDG_CACHE_HOME="$directory/cache"
mkdir "$directory/work" && cd "$directory/work" || exit 1
failures=0 seed=${PENSTOCK_TEST_SEED:-1} section=beginning
# A sanitizer's own report must not look like one of our statuses.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}exitcode=99" UBSAN_OPTIONS="${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}exitcode=99"
# Open MPI wants to be asked for both where it is root's.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores: Open MPI 4, and 5.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# complain TEXT: a failure; what the command wrote to standard error (the file err, or $errors) with it.
complain() {
    echo "FAILED: $*" >&2
    head -n 40 "${errors:-err}" 2>/dev/null | sed 's/^/    /' >&2
    failures=$((failures + 1))
}

# begins TEXT: what the test is about from here on, with the seconds since it began.
begins() {
    section=$1
    seconds
    echo "$(((now - started_at) / 60)):$(printf '%02d' $(((now - started_at) % 60))) $*"
}

# processes [NAME]: the processes that stand in the test's directory; those with a name that begins so
processes() {
    for place in $(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$directory/*" 2>/dev/null); do
        process=${place#/proc/} process=${process%/cwd}
        case $(cat "/proc/$process/comm" 2>/dev/null) in "${1:-}"*) echo "$process" ;; esac
    done
}

# Ends what was begun here and has not ended.
end_all() {
    cd / || return
    for process in $(processes); do kill -KILL "$process" 2>/dev/null; done
}

# The test's own end. What it began has ended, or will: no run leaves anything behind.
nobody_is_left() { [ -z "$(processes penstock)" ]; }
finish() {
    begins end
    cd / || exit 1
    until_so nobody_is_left || for process in $(processes penstock); do
        echo "    left behind: $(tr '\0' ' ' <"/proc/$process/cmdline")" >&2
    done
    [ $failures -eq 0 ] || echo "$failures failures" >&2
    [ $failures -eq 0 ]
}

# A number from 1 to $1, in $random.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    random=$((seed / 65536 % $1 + 1))
}

# milliseconds N: sleeps so long.
milliseconds() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# The seconds of a clock that nobody sets, in $now.
seconds() {
    read -r now _ </proc/uptime
    now=${now%.*}
}
seconds
started_at=$now

# until_so COMMAND...: waits until it says yes; no, and a failure: it has not within $patience seconds.
patience=150
until_so() {
    seconds
    until_at=$((now + patience))
    until "$@"; do
        milliseconds 20
        seconds
        [ "$now" -lt $until_at ] || {
            complain "$section: waited $patience s for: $*"
            return 1
        }
    done
}

# The number of RUN's newest checkpoint; nothing where there is none.
newest() { ls "$1/checkpoints" 2>/dev/null | grep '^[0-9]*$' | sort | tail -n 1; }

# The weights and moments of RUN's newest checkpoint, as one sum.
sum() { (cd "$1/checkpoints/$(newest "$1")" && cat -- *.safetensors | cksum); }

# openmpi or mpich: whose mpirun it is, whatever it is called.
whose() { if "$1" --version 2>/dev/null | grep -q HYDRA; then echo mpich; else echo openmpi; fi; }

# Without the MPI libraries that cannot start here: MPICH dies by SIGBUS where there is no room for its ranks' shared memory.
usable_mpis() {
    room=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    for pair in ${PENSTOCK_MPIS:-}; do
        if [ "${room:-0}" -lt 50000 ] && [ "$(whose "${pair%%=*}")" = mpich ]; then
            echo "skipped: ${pair%%=*}: /dev/shm has ${room:-0} KiB" >&2
        else
            echo "$pair"
        fi
    done
}

# Tests of training over MPI end here where there is none.
needs_mpi() {
    PENSTOCK_MPIS=$(usable_mpis)
    if [ -z "${PENSTOCK_MPIS:-}" ]; then
        echo "skipped: no MPI"
        exit 0
    fi
    # The libraries' own are many.
    ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

# each_mpi FUNCTION: for all MPI libraries at once, each in a copy of this directory, with its $mpirun and $program. $mpi is its name.
each_mpi() {
    jobs=
    for pair in ${PENSTOCK_MPIS:-}; do
        (
            mpirun=${pair%%=*} program=${pair#*=} mpi=$(whose "${pair%%=*}") failures=0
            cp -R . "$directory/$mpi" && cd "$directory/$mpi" || exit 1
            "$1"
            [ $failures -eq 0 ]
        ) &
        jobs="$jobs $!"
    done
    for job in $jobs; do wait "$job" || failures=$((failures + 1)); done
}

# over RANKS ARGUMENT...: the program under mpirun, behind $prefix; its status is in $status.
prefix=
over() {
    ranks=$1
    shift
    # Words on purpose.
    # shellcheck disable=SC2086
    timeout -k 5 200 "$mpirun" -n "$ranks" $prefix "$program" "$@" >out 2>err
    status=$?
}
