#!/bin/sh
# Bi-Partition's Figure 8 on real links: each worker is a host of its own, a network namespace behind a cable of 100 Mbit/s
# (bench/hosts.sh), with ranks of Open MPI that send each other blocks of the networks' sizes by TCP. Workers are those of figure8
# (bench/papers/bipartition.sh), played by clock devices: so slow that two cores carry all of them, and that a busy machine does not
# matter. Measured and simulated: the time of a mini-batch, both from the first to the last that ends in a traced run, and the
# speed-up over PipeDream's plan, under 1F1B as published and with the schedule left open. Needs root, ip, tc and Open MPI.
#   WORKERS ("2 3 4 5 6 7"), WORK ("lenet5:0.0005:24 alexnet:0.002:12 vgg16:0.002:10": network, speed, mini-batches), RATE (100mbit),
#   RUNNER (none), such as "chrt -r 10" on a machine with other work
set -eu
cd "$(dirname "$0")/../../.."
. bench/common.sh
. bench/papers/bipartition.sh
rate=${RATE:-100mbit} most=7
. bench/hosts.sh

# The profile of workers that are so slow.
slow() { # NETWORK SPEED
    awk -v speed="$2" '/"[a-z_]*_s": / { value = $2; sub(/,$/, "", value); sub(/: .*/, sprintf(": %.12g%s", value / speed, /,$/ ? "," : "")) } { print }' \
        "$work/$1.json" >"$work/slow.json"
}
# measure METHOD ARGUMENT...: the time of a mini-batch, simulated and measured, in ms.
measure() {
    "$penstock" plan --profile "$work/slow.json" --cluster "$work/described.json" --optimizer adam --micro-batches 1 --weights stash -q \
        -o "$work/plan.json" --method "$@" >/dev/null
    rm -rf "$work/run"
    over "$workers" train --plan "$work/plan.json" --profile "$work/slow.json" --cluster "$work/described.json" --device clock \
        --optimizer adam --steps "$steps" --trace --out "$work/run" -q >/dev/null
    "$penstock" simulate --plan "$work/plan.json" --profile "$work/slow.json" --cluster "$work/described.json" --batches "$steps" \
        --against "$work/run/trace.json" -q --json >"$work/against.json"
    echo "$(field period_error <"$work/against.json") $(field measured_period_s <"$work/against.json")" |
        awk '{ print 1e3 * $2 * (1 + $1), 1e3 * $2 }'
}
echo "network namespaces at $rate, clock devices; $(machine), $(nproc) cores"
echo "$bandwidth $latency" | awk '{ printf "links as measured: %.1f Mbit/s, %.0f us\n", 8e-6 * $1, 1e6 * $2 }'
echo
echo "network   speed  workers  PipeDream: simulated ms, measured   1F1B: simulated ms, measured   open: simulated ms, measured   speed-up 1F1B, open"
for work_of in ${WORK:-lenet5:0.0005:24 alexnet:0.002:12 vgg16:0.002:10}; do
    network=${work_of%%:*} steps=${work_of##*:} speed=${work_of#*:}
    speed=${speed%:*}
    slow "$network" "$speed"
    for workers in ${WORKERS:-2 3 4 5 6 7}; do
        describe "$workers"
        layers=$(measure pipedream --schedule 1f1b-async)
        same=$(measure bipartition --schedule 1f1b-async)
        open=$(measure bipartition)
        echo "$network $speed $workers $layers $same $open"
    done
done | tee "$work/all" | awk '{ printf "%-8s %6s %8d %24.1f %9.1f %22.1f %9.1f %22.1f %9.1f %15.2f %5.2f\n", $1, $2, $3, $4, $5, $6, $7, $8, $9, $5 / $7, $5 / $9 }'
awk '{ for (k = 4; k <= 8; k += 2) { e = $(k + 1) / $k - 1; if (e < low) low = e; if (e > high) high = e } }
    END { printf "\nmeasured over simulated: %+.1f%% to %+.1f%%\n", 100 * low, 100 * high }' "$work/all"
awk 'BEGIN { print "title Bi-Partition: speed-up over PipeDream on cables of 100 Mbit/s\nx workers\ny speed-up\ncolumns 3\nfrom 0.8\nto 2" }
    { key = $1 " " $2; if (!(key in n)) order[++keys] = key; n[key]++; x[key, n[key]] = $3; for (k = 6; k <= 9; k++) v[key, n[key], k] = $(4 + k % 2) / $k }
    function series(key, column,  k) { for (k = 1; k <= n[key]; k++) print x[key, k], v[key, k, column] }
    END { for (i = 1; i <= keys; i++) { split(order[i], part)
        printf "panel %s, %.1f G multiply-adds/s\n", part[1], 4650 * part[2]
        print "line 1F1B,_measured"; series(order[i], 7); print "line 1F1B,_simulated dashed 1F1B,_measured"; series(order[i], 6)
        print "line schedule_open,_measured"; series(order[i], 9); print "line schedule_open,_simulated dashed schedule_open,_measured"; series(order[i], 8)
        if (part[1] == "lenet5") { print "line the_paper points"; print 5, 1.9 } } }' "$work/all" | awk -f bench/papers/plot.awk >"$figure"
