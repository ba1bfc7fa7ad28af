#!/bin/sh
# The largest batch that fits on four P100 of 16 GB under each method (PipeOptim's Table V): the largest micro-batch, to the
# sample, with which no worker of the plan exceeds its memory, with recomputation as in the paper. The cut is the paper's:
# PipeDream's four stages, which balance time without regard to memory, the same for all methods. Costs come from a model
# (gpu:p100) and affect only the cut.
#   CUT=memory: as Penstock usually plans, with a cut for each method that takes memory into account.
#   KEEP=outputs: every stage also keeps the output of each micro-batch in flight until its backward, as PipeDream's runtime does, on
#   which the paper's methods are built: of its last stage those are the scores of all classes (of a translation: of all words, at each
#   position).
#   LINEAR=FACTOR: multiplies the modelled time of linear layers, which moves the cut.
#   bench/papers/largest_batch.sh [NETWORK...]
set -eu
cd "$(dirname "$0")/../.."
. bench/common.sh
. bench/papers/pipeoptim.sh

limit=16000000000
[ "${CUT:-pipedream}" = pipedream ] && limited= || limited="--memory 16GB"

# fullest COSTS PLAN: what its fullest worker takes. Stage s runs on worker s, and has that many in flight or, where the schedule
# flushes, all micro-batches of a mini-batch.
fullest() {
    awk -F'[:,]' -v keep="${KEEP:-}" '
        FNR == NR && /"output_bytes"/ { output[++layers] = $2 }
        FNR == NR && /"value_bytes"/ { value[layers] = $2 }
        FNR == NR && /"stash_bytes"/ { stash[layers] = $2 }
        FNR == NR { next }
        /"schedule": "gpipe"/ { flushes = 1 }
        /"micro_batches"/ { cut = $2 }
        /"layers": \[/ { place = FNR }
        place && FNR == place + 2 { last[stages++] = $1 + 0 }
        /"memory_bytes"/ { sum = 0; inside = 1; next }
        inside && /}/ {
            inside = 0
            flight = flushes ? cut : stages - worker
            own = worker == stages - 1 ? stash[layers] - value[layers - 1] : output[last[worker]]
            if (keep != "") sum += (flight - 1) * own
            worker++
            if (sum > most) most = sum
        }
        inside { sum += $2 }
        END { printf "%.0f", most }' "$1" "$2"
}

# cost_of SAMPLES: its costs, into $costs
cost_of() {
    costs=$work/$name.$1.json
    [ ! -e "$costs" ] || return 0
    "$penstock" profile --model "$network" --device gpu:p100 --micro-batch "$1" -o "$work/worked_out.json" --quiet >"$work/log" 2>&1
    awk -v factor="${LINEAR:-1}" '
        /"kind":/ { linear = /"linear"/ }
        linear && match($0, /_s": [-+.e0-9]+/) {
            print substr($0, 1, RSTART + 4) substr($0, RSTART + 5, RLENGTH - 5) * factor substr($0, RSTART + RLENGTH)
            next
        }
        { print }' "$work/worked_out.json" >"$costs"
}

# fits SAMPLES SCHEDULE WEIGHTS MICRO_BATCHES: is there a plan for micro-batches of so many samples?
fits() {
    cost_of "$1"
    status=0
    "$penstock" plan --profile "$costs" --workers 4 $limited --bandwidth 10GB/s --method pipedream --recompute --schedule "$2" \
        --weights "$3" --micro-batches "$4" --optimizer "$optimizer" -o "$work/plan.json" --quiet >"$work/log" 2>&1 || status=$?
    [ $status = 0 ] || [ $status = 4 ] || { cat "$work/log" >&2; exit 1; }
    [ $status = 0 ] && [ "$(fullest "$costs" "$work/plan.json")" -le $limit ]
}

# The largest micro-batch, by doubling and bisection.
largest() {
    low=0 high=1
    while fits $high "$@"; do low=$high high=$((2 * high)); done
    while [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        if fits $middle "$@"; then low=$middle; else high=$middle; fi
    done
    echo $low
}

# What all workers' copies of the weights take, in MiB.
weights_of() { awk -F'[:,]' '/"memory_bytes"/ { inside = 1 } inside && /"weights"/ { sum += $2; inside = 0 } END { printf "%.0f", sum / 1048576 }' "$1"; }

# table CELL [NETWORK...]: a line for each network, CELL for each method.
table() {
    cell=$1
    shift
    echo "$methods" | awk '{ printf "%14s", $1 } BEGIN { printf "%-15s", "network" } END { print "" }'
    echo "$networks" | while read -r name network optimizer paper; do
        case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
        printf '%-15s' "$name"
        column=0
        echo "$methods" | while read -r method schedule weights micro_batches; do
            column=$((column + 1))
            found=-
            [ "$weights $optimizer" != "spectrain adam" ] && [ "$weights $optimizer" != "spectrain adamw" ] &&
                found=$($cell "$schedule" "$weights" "$micro_batches")
            [ "$cell" != largest ] || found="$found ($(echo "$paper" | cut -d/ -f$column))"
            printf '%14s' "$found"
        done
        echo
    done
}

# What the weights take with the cut for micro-batches of 64.
copies() {
    fits 64 "$@"
    weights_of "$work/plan.json"
}

echo "largest micro-batch on four workers of 16 GB, with recomputation, cut by ${CUT:-pipedream}${KEEP:+, keeping $KEEP}${LINEAR:+, linear layers $LINEAR times as long}; beside it the paper's for each GPU"
echo
table largest "$@"
echo
echo "MiB that all workers together take for copies of the weights"
echo
table copies "$@"
