#!/bin/sh
# One training of three ranks, with a replica, checkpoints and an evaluation, by each way that ranks exchange blocks: its weights,
# its log and what goes on from it are those of threads. (test_mpi.sh tries all methods. What PENSTOCK and PENSTOCK_MPIS are stands
# in support.sh.)
. "$(dirname "$0")/support.sh"
needs_mpi

model=lenet5,input=16,classes=4
cat >plan.json <<END
{ "format": "penstock-plan", "version": 1, "model": "$model", "workers": 3, "micro_batch": 2, "micro_batches": 2,
  "optimizer": "adam", "schedule": "1f1b", "weights": "sync", "stages": [ {"layers": [1, 4], "forward": [0, 2]},
  {"layers": [5, 7], "forward": 1} ] }
END
train="train --plan plan.json --data synthetic:images,samples=24 --valid synthetic:images,samples=8 --device reference --clip 1
    --evaluate-every 3 --checkpoint-every 3 --keep-checkpoints 9 -q"
# shellcheck disable=SC2086
"$PENSTOCK" $train --steps 6 --out threads >/dev/null 2>err || complain "threads: status $?"

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
}
each_mpi both
finish
