#!/bin/sh
# One training of three ranks, with a replica, checkpoints and an evaluation, by each way that ranks exchange blocks: its weights,
# its log and what goes on from it are those of threads. And what a run on several hosts should come to. (test_mpi.sh tries all
# methods. What PENSTOCK and PENSTOCK_MPIS are stands in support.sh.)
. "$(dirname "$0")/support.sh"
needs_mpi

model=lenet5,input=16,classes=4
cat >plan.json <<END
{ "format": "penstock-plan", "version": 1, "model": "$model", "workers": 3, "micro_batch": 2, "micro_batches": 2,
  "optimizer": "adam", "schedule": "1f1b", "weights": "sync", "stages": [ {"layers": [1, 4], "forward": [0, 2]},
  {"layers": [5, 7], "forward": 1} ] }
END
# What a codec did not send of a block is sent with a later one: it is kept with the run, from each rank.
sed 's/"forward": \[0, 2\]/&, "wire": {"activation": "topk:0.3", "gradient": "topk:0.2", "sum": "topk:0.3"}/' plan.json >encoded.json
grep -q topk encoded.json || complain "nothing is encoded"
train="train --plan encoded.json --data synthetic:images,samples=24 --valid synthetic:images,samples=8 --device reference --clip 1
    --evaluate-every 3 --checkpoint-every 3 --keep-checkpoints 9 -q"
# shellcheck disable=SC2086
"$PENSTOCK" $train --steps 6 --out threads >/dev/null 2>err || complain "threads: status $?"

for name in csv npz; do
    "$PENSTOCK" predict --run threads --data synthetic:images,samples=7 --device reference -q -o threads.$name >/dev/null 2>err ||
        complain "predict: status $?"
done

# The log without what depends on the clock.
figures() { sed 's/"samples_per_s.*//' "$1/log.jsonl"; }

both() {
    for transport in mpi mpi-messages; do
        begins "$mpi: $transport"
        # shellcheck disable=SC2086
        over 3 $train --steps 6 --transport $transport --out $transport
        [ $status -eq 0 ] || complain "$transport: status $status"
        [ "$(sum $transport)" = "$(sum threads)" ] || complain "$transport: other weights than with threads"
        [ "$(figures $transport)" = "$(figures threads)" ] || complain "$transport: another log"
    done
    begins "$mpi: a run that goes on"
    rm -rf mpi/checkpoints/000006 mpi/summary.json
    over 3 train --resume mpi -q
    [ $status -eq 0 ] || complain "resume: status $status"
    [ "$(sum mpi)" = "$(sum threads)" ] || complain "resume: other weights than with threads"

    begins "$mpi: predictions"
    for name in csv npz; do
        over 3 predict --run mpi --data synthetic:images,samples=7 --device reference -q -o ranks.$name
        [ $status -eq 0 ] || complain "predict: status $status"
        cmp -s ranks.$name threads.$name || complain "predict: other predictions in $name than of one worker"
    done

    begins "$mpi: links between hosts are predicted, those of a cluster that this host does not play are not"
    # Every cut sends at least 100 numbers of 4 samples: over 4 kB/s no more than 10 samples per second.
    linked="train --plan plan.json --profile profile.json --data synthetic:images,samples=24 --steps 1 --bandwidth 4kB/s --json -q"
    # shellcheck disable=SC2086
    over 3 $linked
    [ $status -eq 0 ] || complain "one host: status $status"
    predicted=$(field predicted_samples_per_s <out)
    awk -v p="$predicted" 'BEGIN { exit !(p > 20) }' || complain "one host: $predicted samples/s predicted"
    [ -n "$hosts" ] || return 0
    # shellcheck disable=SC2086
    prefix=./host over 3 $linked
    [ $status -eq 0 ] || complain "three hosts: status $status"
    predicted=$(field predicted_samples_per_s <out)
    awk -v p="$predicted" 'BEGIN { exit !(p > 0 && p < 10) }' || complain "three hosts: $predicted samples/s predicted"
}
field() { sed -n "s/.*\"$1\": \([^,]*\).*/\1/p"; }
"$PENSTOCK" profile --model $model --micro-batch 2 --repeats 1 -q -o profile.json >/dev/null 2>err || complain "no profile"

# A host is told by its name: each rank gets one of its own.
cat >host <<END
#!/bin/sh
exec unshare --uts sh -c 'hostname "penstock\$\$" && exec "\$@"' host "\$@"
END
chmod +x host
hosts=
! unshare --uts hostname penstock 2>/dev/null || hosts=yes
[ -n "$hosts" ] || echo "unshare --uts is not allowed: several hosts are not tried"
each_mpi both
finish
