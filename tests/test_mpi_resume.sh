#!/bin/sh
# Checkpoints over MPI: rank 0 writes them for all, whoever is killed, and a run goes on over MPI, by threads, and with another
# number of processes, to the weights of the run by threads that was never disturbed. PENSTOCK is the program, PENSTOCK_MPIS lists
# MPIRUN=PROGRAM for each MPI library to be tested.
set -u

: "${PENSTOCK:?the path of the program}"
if [ -z "${PENSTOCK_MPIS:-}" ]; then
    echo "skipped: built without MPI"
    exit 0
fi
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
failures=0
seed=${PENSTOCK_TEST_SEED:-1}
echo "seed: PENSTOCK_TEST_SEED=$seed"
# Open MPI wants to be asked for both.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores: Open MPI 4, and 5.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:exitcode=99"

complain() {
    echo "FAILED: $*" >&2
    sed 's/^/    /' err >&2
    failures=$((failures + 1))
}

# A number from 1 to $1, in $random.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    random=$((seed / 65536 % $1 + 1))
}

milliseconds() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# over RANKS ARGUMENT...: the program under mpirun; its status is in $status.
over() {
    ranks=$1
    shift
    timeout -k 5 60 "$mpirun" -n "$ranks" "$program" "$@" >out 2>err
    status=$?
}

# Each rank leaves its process number in pid.RANK.
cat >ranked <<'END'
#!/bin/sh
echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"
exec "$@"
END
chmod +x ranked

# The weights and moments of RUN's newest checkpoint.
sum() { (cd "$1/checkpoints/$(ls "$1/checkpoints" | sort | tail -n 1)" && cat -- *.safetensors | cksum); }
# Its weights alone, however they are cut.
weights() { "$PENSTOCK" export --run "$1" -o exported.safetensors -q >/dev/null 2>err && cksum <exported.safetensors; }

data="--data synthetic:images,samples=96 --valid synthetic:images,samples=20"
"$PENSTOCK" profile --model lenet5,input=16,classes=4 --micro-batch 4 -q -o profile.json >/dev/null 2>err || complain "no profile"
for plan in "async 1f1b-async pipeoptim" "flush 1f1b sync"; do
    # Words on purpose, here and below.
    # shellcheck disable=SC2086
    set -- $plan
    "$PENSTOCK" plan --profile profile.json --workers 3 --method uniform --schedule "$2" --weights "$3" --micro-batches 4 \
        --optimizer adam -q -o "$1.json" >/dev/null 2>err || complain "no plan $1"
    # shellcheck disable=SC2086
    "$PENSTOCK" train --plan "$1.json" $data --steps 60 --checkpoint-every 2 --transport threads --out "$1" -q >/dev/null 2>err ||
        complain "threads: $1"
done

for pair in $PENSTOCK_MPIS; do
    mpirun=${pair%%=*} program=${pair#*=}
    rm -rf run
    # shellcheck disable=SC2086
    over 3 train --plan async.json $data --steps 60 --checkpoint-every 2 --out run -q
    [ $status -eq 0 ] && [ "$(sum run)" = "$(sum async)" ] || complain "$mpirun: checkpoints are not those of threads"

    # A rank is killed, again and again, at random moments.
    for rank in 0 1 2; do
        rm -rf run
        kills=0
        # shellcheck disable=SC2086
        set -- --plan async.json $data --steps 60 --checkpoint-every 2 --out run -q
        while :; do
            rm -f pid.*
            timeout -k 5 60 "$mpirun" -n 3 ./ranked "$program" train "$@" >out 2>err &
            job=$!
            tries=0
            while [ ! -s pid.$rank ] && [ $tries -lt 1000 ]; do
                milliseconds 20
                tries=$((tries + 1))
            done
            draw 500
            milliseconds $((random + 400 * kills))
            [ $kills -lt 2 ] && kill -KILL "$(cat pid.$rank)" 2>/dev/null && kills=$((kills + 1))
            wait $job
            status=$?
            [ $status -eq 0 ] && break
            # A launcher can hang when a process dies while it starts; what it started is gone then, and it is ended from here.
            [ $status -eq 124 ] && echo "$mpirun: hung"
            [ $tries -ge 1000 ] && break
            if [ -e run/config.json ]; then
                set -- --resume run -q
            fi
        done
        echo "$mpirun: rank $rank killed $kills times"
        [ $status -eq 0 ] && [ "$(sum run)" = "$(sum async)" ] ||
            complain "$mpirun: rank $rank killed: status $status, or other weights"
    done

    # Begun by threads and stopped, gone on with by two processes, for which it is planned anew, and at last by threads again.
    rm -rf run
    for step in "$PENSTOCK train --plan flush.json $data --steps 60 --checkpoint-every 2 --out run -q" \
        "$mpirun -n 2 ./ranked $program train --resume run -q"; do
        rm -f pid.*
        # A process that mpirun did not start is its own rank 0.
        timeout -k 5 60 $step >out 2>err &
        job=$!
        tries=0
        while ! ls run/checkpoints 2>/dev/null | grep -q '[1-9]$' && [ $tries -lt 1000 ]; do
            milliseconds 20
            tries=$((tries + 1))
        done
        draw 300
        milliseconds $random
        [ -s pid.1 ] && kill -KILL "$(cat pid.1)" 2>/dev/null
        [ -s pid.1 ] || kill -TERM $job
        wait $job
    done
    "$PENSTOCK" train --resume run -q >out 2>err || complain "$mpirun: gone on with by threads: status $?"
    [ "$(weights run)" = "$(weights flush)" ] || complain "$mpirun: by threads, by processes, by threads: other weights"

    # Supervised, while rank 2 is lost whenever it comes up, stopped at first and then killed: two processes take over.
    rm -rf run pid.*
    signal=STOP
    # shellcheck disable=SC2086
    timeout -k 5 60 "$program" train --plan flush.json $data --steps 60 --checkpoint-every 2 --out run --restarts 40 \
        --launch "$mpirun -n %d ./ranked" >out 2>err &
    job=$!
    while kill -0 $job 2>/dev/null; do
        milliseconds 50
        [ -e run/config.json ] && [ -s pid.2 ] || continue
        kill -$signal "$(cat pid.2)" 2>/dev/null
        rm -f pid.2
        signal=KILL
    done
    wait $job
    status=$?
    if [ $status -eq 124 ] || [ $status -eq 75 ]; then
        echo "$mpirun: hung under the supervisor"
        continue
    fi
    [ $status -eq 0 ] || complain "$mpirun: supervised: status $status"
    [ "$(weights run)" = "$(weights flush)" ] || complain "$mpirun: supervised: other weights"
    grep -q 'with a worker less' err || echo "$mpirun: rank 2 was lost too late"
done
[ $failures -eq 0 ] || echo "$failures failures" >&2
[ $failures -eq 0 ]
