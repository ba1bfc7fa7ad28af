#!/bin/sh
# A worker that really hangs: one of its images never opens, as a file on a server that is gone (tests/hanger.c, PENSTOCK_HANGER, which
# is not preloaded where there are sanitizers). It is found and named, with what it was at, who waits for it and what everybody did last; the job ends with status 6, by
# threads, over MPI, and under a supervisor, which also finds what is stopped below a launcher. All at once, since they only wait. (What
# PENSTOCK and PENSTOCK_MPIS are stands in support.sh.)
. "$(dirname "$0")/support.sh"
# What a thread that hangs holds is left to it.
ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"

[ -n "${PENSTOCK_HANGER:-}" ] || { echo "nothing can be preloaded"; exit 0; }
hanger="env LD_PRELOAD=$PENSTOCK_HANGER HANGER_FILE=images/train/1/gone.png"

# One pixel, twelve times in each of two classes, and the image that is gone.
for class in 0 1; do
    mkdir -p images/train/$class images/val/$class
    for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
        printf '%s' iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== | base64 -d \
            >images/train/$class/$i.png
    done
    cp images/train/$class/0.png images/val/$class/
done
cp images/train/1/0.png images/train/1/gone.png || exit 1

begins "all at once"
# begin NAME COMMAND...: leaves NAME.err and, in NAME.status, the status; in NAME.seconds how long it took. By this seed the image is
# read when each worker has done more than is told of it.
begin() {
    name=$1
    shift
    (
        began=$(date +%s)
        timeout -k 5 250 "$@" train --model lenet5,input=16,channels=3,classes=2 --schedule 1f1b-async --weights stash --batch 2 \
            --data images:images --epochs 3 --device reference --method uniform --seed 2 $more -q >/dev/null 2>"$name.err"
        echo $? >"$name.status"
        echo $(($(date +%s) - began)) >"$name.seconds"
    ) &
}

common="--workers 3 --cores 3"
more="$common --transport threads"
# shellcheck disable=SC2086
begin unkept $hanger "$PENSTOCK"
more="$common --transport threads --out threads"
# shellcheck disable=SC2086
begin threads $hanger "$PENSTOCK"
more="$common --transport threads --out supervised --restarts 1"
# shellcheck disable=SC2086
begin supervised $hanger "$PENSTOCK"
names="threads supervised"
for pair in $(usable_mpis); do
    name=mpi${#names}
    more="$common --out $name"
    # shellcheck disable=SC2086
    begin $name "${pair%%=*}" -n 3 $hanger "${pair#*=}"
    names="$names $name"
done
# A process below the launcher is stopped when nobody of the run would notice: the supervisor does.
cat >halts <<'END'
#!/bin/sh
if mkdir once 2>/dev/null; then
    sleep 300 &
    kill -STOP $!
    wait
fi
exec "$@"
END
chmod +x halts
(
    timeout -k 5 250 "$PENSTOCK" train --model lenet5,input=16 --workers 1 --data synthetic:images,samples=16 --batch 4 --steps 2 \
        --device reference --out halted --restarts 1 --launch ./halts >/dev/null 2>halted.err
    echo $? >halted.status
) &
# One that does not heed SIGTERM is killed when the time to write a checkpoint is over.
cat >deaf <<'END'
#!/bin/sh
trap '' TERM
mkdir deaf.up
while [ -d deaf.up ]; do sleep 1; done
END
chmod +x deaf
(
    "$PENSTOCK" train --model lenet5,input=16 --workers 1 --data synthetic:images,samples=16 --batch 4 --steps 2 --device reference \
        --out unheard --restarts 1 --launch ./deaf >/dev/null 2>deaf.err &
    supervisor=$!
    (sleep 200 && kill -KILL $supervisor) 2>/dev/null &
    limit=$!
    until [ -e deaf.up ]; do sleep 0.1; done
    kill -TERM $supervisor
    wait $supervisor
    echo $? >deaf.status
    kill $limit 2>/dev/null
) &
wait

begins "what was said"
errors=deaf.err
[ "$(cat deaf.status)" = 75 ] && grep -q '^penstock: stopped on request' deaf.err || complain "deaf: status $(cat deaf.status)"
errors=halted.err
[ "$(cat halted.status)" = 0 ] && grep -q 'training was ended by signal 9' halted.err || complain "halted: status $(cat halted.status)"
# The last six instructions of each worker, and where it is. Whether the stalled one waits depends on who reads for it.
cat >last <<'END'
worker 0: 0U3@0:1 0F6@1,s0,i0,o0 0SA6>1,o0 0RG5<1,g1 0B4@2,s1,i1,g0 0U4@1:2, at 0F7@2,s1,i1,o1
worker 1: 1SA6>2,o0 1RG6<2,g0 1B5@0,s1,i2,g1,d1 1SG5>0,d1 1U5@1:0 1RA8<0,i2, waits at 1F7@0,s1,i1,o1
worker 2: 2RA7<1,i1 2F6@0,s0,i0 2B6@0,s0,i0,d0 2SG6>1,d0 2U6@0:0 2RA8<1,i0, waits at 2F7@0,s0,i1
END
errors=unkept.err
[ "$(cat unkept.status)" = 6 ] && sed '1s/for [0-9]* s/for some s/; s/seen waiting at/seen at/; s/waits at 0F/at 0F/' unkept.err >out && {
    echo "penstock: worker 0 is stalled: it has got nowhere for some s, and neither computed nor read, last seen at" \
        "0F7@2,s1,i1,o1 (stage 0, micro-batch 7); worker 1 waits for it at 1F7@0,s1,i1,o1 (stage 1, micro-batch 7)"
    cat last
} | cmp -s - out || complain "unkept: status $(cat unkept.status), or something else is said"
for name in $names; do
    echo "$name: status $(cat $name.status) after $(cat $name.seconds) s"
    errors=$name.err
    [ "$(cat $name.status)" = 6 ] || complain "$name: status $(cat $name.status)"
    # The image is on worker 0, whose inputs the others wait for.
    grep -Eq '^penstock: worker 0 is stalled: (it|rank 0 on .*) has got nowhere for [0-9]+ s, .*at 0F[0-9]+@.* \(stage 0, micro-batch [0-9]+\).*; worker 1.* (waits|would wait) for it at 1F' $name.err ||
        complain "$name: does not say who is stalled, and who waits"
    grep -q "^the last instructions of every worker are in $name/lost.txt\$" $name.err || complain "$name: does not say where more is"
    case $name in
    mpi*) grep -c '^worker \([0-2]\) (rank \1 on [^ ]*): ' $name/lost.txt | grep -qx 3 || complain "$name: where the workers are" ;;
    esac
    sed 's/ (rank [0-2] on [^)]*)//; s/waits at 0F/at 0F/' $name/lost.txt | cmp -s - last || complain "$name: lost.txt says $(cat $name/lost.txt)"
done
finish
