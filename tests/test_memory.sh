#!/bin/sh
# What a process holds of its own beside its workers' planned memory: the same few MiB, whatever carries the blocks, and whether or
# not checkpoints are written. (What PENSTOCK and PENSTOCK_MPIS are stands in support.sh.)
. "$(dirname "$0")/support.sh"

# Linear layers of 4 and 1 MiB; each worker's plan is several times that.
begins "a plan"
"$PENSTOCK" profile --model gpt2,layers=2,width=256,heads=4,seq=32,vocab=4000 --micro-batch 4 --repeats 1 -q -o profile.json >/dev/null \
    2>err || complain "no profile"
"$PENSTOCK" plan --profile profile.json --workers 2 --schedule 1f1b-async --weights stash --optimizer adam -q -o plan.json >/dev/null \
    2>err || complain "no plan"
run="train --plan plan.json --profile profile.json --data synthetic:tokens,samples=16 --valid synthetic:tokens,samples=8 --steps 8 -q --json"

# What each process held above the plan, in KiB, one a line; a document with one process has it of all its workers.
above() { # DOCUMENT
    awk -F'[:,]' '
        { key = $1; gsub(/[ \t{"]/, "", key) }
        key ~ /_bytes$/ { of[key, ++seen[key]] = $2; sum[key] += $2 }
        END {
            several = seen["process_peak_bytes"] > 1
            for (p = 1; p <= seen["process_peak_bytes"]; p++) {
                beside = of["process_code_bytes", p] + of["process_start_bytes", p] + of["loader_bytes", p] + of["checkpoint_bytes", p]
                planned = several ? of["predicted_memory_bytes", p] : sum["predicted_memory_bytes"]
                printf "%d\n", (of["process_peak_bytes", p] - beside - of["process_others_bytes", p] - planned) / 1024
            }
        }' "$1"
}

# within PROCESSES MOST TEXT: the document `out` has so many processes, none of which held more above its plan, in KiB, nor
# much less. The kernel counts pages in batches for each thread.
within() {
    above out >held
    [ "$(wc -l <held)" -eq "$1" ] || complain "$3: figures of $(wc -l <held) processes, not of $1"
    while read -r kib; do
        [ "$kib" -le "$2" ] && [ "$kib" -ge -1024 ] || complain "$3: a process held $kib KiB above its plan"
    done <held
    echo "    $3: $(tr '\n' ' ' <held)KiB above the plan"
}

# Two threads that compute, in each of which a product takes up to 2 MiB; and something for stacks and what the library keeps.
begins "threads"
# Words on purpose, here and below.
# shellcheck disable=SC2086
"$PENSTOCK" $run >out 2>err || complain "status $?"
within 1 5120 "threads"
# shellcheck disable=SC2086
"$PENSTOCK" $run --out run >out 2>err || complain "status $?"
within 1 5632 "threads, with checkpoints"

if [ -n "$(usable_mpis)" ]; then
    begins "MPI"
    program=$PENSTOCK mpirun=$(usable_mpis) prefix=
    mpirun=${mpirun%%=*}
    mpirun=${mpirun# }
    for transport in mpi mpi-messages; do
        # shellcheck disable=SC2086
        over 2 $run --transport $transport --out "$transport"
        [ $status -eq 0 ] || complain "$transport: status $status"
        within 2 3584 "$transport, with checkpoints"
        others=$(awk -F'[:,]' '/process_others_bytes/ { print ($2 > 0) }' out | sort -u)
        [ "$others" = "$([ $transport = mpi ] && echo 1 || echo 0)" ] || complain "$transport: blocks of others are counted wrongly"
    done
fi
finish
