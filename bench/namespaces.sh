#!/bin/sh
# Bi-Partition's setting on one machine. Each worker is a host of its own, a network namespace behind a virtual cable that `tc`
# limits to 100 Mbit/s in each direction. It emulates LeNet-5, AlexNet or VGG16 (CIFAR form) with a clock device: real ranks of
# Open MPI, real TCP, and computation times as profiled on this machine with one thread. Plans are PipeDream's and
# Bi-Partition's. Reported are the measured time of a mini-batch next to the simulator's (`error`), and Bi-Partition's speed-up
# over PipeDream: simulated, measured, and the largest of the paper (1.9, at 5 workers on LeNet-5). The simulator gets the
# bandwidth and latency that `penstock cluster` measures in the namespaces, and the fact that everything that a host sends goes
# through its one cable. So do the ranks, which then send one block at a time over it. Without the larger eager limits each
# message above 64 KiB would wait for a handshake and a delayed acknowledgement. Without the limit on the kernel's send buffer
# whole blocks would count as sent while they still share the cable (docs/mpi.md).
# Needs root, ip, tc, and Open MPI. If the machine has other work, RUNNER="chrt -r 10" keeps it from delaying the ranks, which
# only wait.
#   STEPS (24) mini-batches, the median of ROUNDS (3), WORKERS ("2 3 4 5 6 7"), MODELS ("lenet5 alexnet vgg16"), RATE (100mbit),
#   MPIRUN_OPTIONS (none)
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
steps=${STEPS:-24} rounds=${ROUNDS:-3} rate=${RATE:-100mbit}
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
[ "$(id -u)" -eq 0 ] && command -v ip >/dev/null && command -v tc >/dev/null || { echo "needs root, ip and tc" >&2; exit 1; }
most=0
for workers in ${WORKERS:-2 3 4 5 6 7}; do [ "$workers" -gt $most ] && most=$workers; done

down() {
    host=0
    while [ $host -lt "$most" ]; do
        ip netns del "penstock$host" 2>/dev/null || true
        host=$((host + 1))
    done
    ip link del penstock-br 2>/dev/null || true
}
# What a host sends is held at its own end; what it receives is held at the senders'. Packets of less than 128 bytes go first: else
# acknowledgements would queue behind data of the other direction. A cable is never ahead of its rate: no bursts beyond a few packets,
# and packets of a packet's size, since a cable that gets 64 KiB as one delivers them at once.
hold() { # NAMESPACE
    tc -n "$1" qdisc add dev eth0 root handle 1: htb default 2
    tc -n "$1" class add dev eth0 parent 1: classid 1:1 htb rate "$rate" burst 4kb cburst 4kb quantum 1514
    tc -n "$1" class add dev eth0 parent 1:1 classid 1:2 htb rate 1mbit ceil "$rate" burst 4kb cburst 4kb prio 1 quantum 1514
    tc -n "$1" class add dev eth0 parent 1:1 classid 1:3 htb rate 1mbit ceil "$rate" burst 4kb cburst 4kb prio 0 quantum 1514
    tc -n "$1" filter add dev eth0 parent 1: protocol ip prio 1 u32 match u16 0x0000 0xff80 at 2 flowid 1:3
}
trap 'down; rm -rf "$work"' EXIT
down
ip link add penstock-br type bridge
ip link set penstock-br up
host=0
while [ $host -lt "$most" ]; do
    ip netns add "penstock$host"
    ip link add "penstock-v$host" type veth peer name eth0 netns "penstock$host"
    ip link set "penstock-v$host" master penstock-br up
    ip -n "penstock$host" addr add 10.99.0.$((host + 1))/24 dev eth0
    ip -n "penstock$host" link set dev eth0 gso_max_segs 1
    ip -n "penstock$host" link set eth0 up
    ip -n "penstock$host" link set lo up
    # The machine's own may be one that seeks out the bandwidth of wide networks, and leaves a cable like this idle now and then.
    ip netns exec "penstock$host" sysctl -qw net.ipv4.tcp_congestion_control=reno
    hold "penstock$host"
    host=$((host + 1))
done

# Stands for ssh: HOST COMMAND...
cat >"$work/agent" <<'X'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$((${1##*.} - 1))
shift
exec ip netns exec "penstock$host" unshare --uts sh -c "hostname penstock$host; $*"
X
chmod +x "$work/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
program=$(realpath "$penstock")

# over WORKERS ARGUMENT...: the program on so many hosts
over() {
    ranks=$1 hosts=10.99.0.1 h=2
    shift
    while [ $h -le "$ranks" ]; do hosts=$hosts,10.99.0.$h h=$((h + 1)); done
    tries=0
    # shellcheck disable=SC2086
    until "$work/agent" 10.99.0.1 ${RUNNER:-} "$mpirun" --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca btl_tcp_if_include eth0 \
        --mca btl_tcp_eager_limit 2097152 --mca btl_tcp_rndv_eager_limit 2097152 --mca btl_tcp_sndbuf 131072 \
        --mca oob_tcp_if_include eth0 ${MPIRUN_OPTIONS:-} -np "$ranks" --host "$hosts" "$program" "$@" >"$work/out" 2>"$work/err"; do
        tries=$((tries + 1))
        cat "$work/err" >&2
        [ $tries -lt 3 ] || exit 1
    done
    cat "$work/out"
}

over 2 cluster --json -q >"$work/cluster.json"
bandwidth=$(field bandwidth_bytes_per_s <"$work/cluster.json") latency=$(field latency_s <"$work/cluster.json")

# A host sends to all others through its one cable: links from the same host take turns.
describe() { # WORKERS
    awk -v p="$1" -v b="$bandwidth" -v l="$latency" 'BEGIN {
        printf "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": ["
        for (w = 0; w < p; w++) printf "%s{\"name\": \"host%d\"}", w ? ", " : "", w
        printf "], \"links\": ["
        for (w = 0; w < p; w++)
            printf "%s{\"from\": %d, \"to\": \"*\", \"bandwidth_bytes_per_s\": %s, \"latency_s\": %s, \"shared_link\": \"cable%d\"}",
                w ? ", " : "", w, b, l, w
        print "]}"
    }' >"$work/described.json"
}

# measure MODEL WORKERS METHOD: a line, without its end; the simulated and the measured seconds for a mini-batch are in $simulated and
# $measured, empty where the plan cannot be run.
measure() {
    simulated= measured=
    "$penstock" plan --profile "$work/$1.json" --cluster "$work/described.json" --method "$3" --schedule 1f1b-async --weights stash \
        -q -o "$work/plan.json" >/dev/null
    "$penstock" simulate --plan "$work/plan.json" --profile "$work/$1.json" --batches "$steps" --cluster "$work/described.json" -q --json \
        >"$work/simulated.json" 2>"$work/err" || { printf '%-8s %7d %-12s cannot be run: %s' "$1" "$2" "$3" "$(head -n 1 "$work/err")"; return; }
    : >"$work/speeds"
    round=0
    while [ $round -lt "$rounds" ]; do
        over "$2" train --plan "$work/plan.json" --profile "$work/$1.json" --cluster "$work/described.json" --device clock --steps "$steps" --json -q >"$work/run.json"
        field samples_per_s <"$work/run.json" >>"$work/speeds"
        round=$((round + 1))
    done
    simulated=$(field makespan_s <"$work/simulated.json" | awk -v n="$steps" '{ print $1 / n }')
    measured=$(median <"$work/speeds" | awk -v b="$(field batch <"$work/run.json")" '{ print b / $1 }')
    echo "$simulated $measured" | awk -v m="$1" -v w="$2" -v p="$3" \
        '{ printf "%-8s %7d %-12s %13.2f %12.2f %7.2f%%", m, w, p, 1000 * $1, 1000 * $2, 100 * ($2 / $1 - 1) }'
}

echo "network namespaces at $rate, clock devices, $steps mini-batches, median of $rounds runs, 1f1b-async, stash; $(machine), $(nproc) cores"
echo "$bandwidth $latency" | awk '{ printf "links as measured: %.1f Mbit/s, %.0f us\n", 8e-6 * $1, 1e6 * $2 }'
printf '%-8s %7s %-12s %13s %12s %8s   %s\n' model workers method simulated_ms measured_ms error "speed-up: simulated, measured, paper"
for model in ${MODELS:-lenet5 alexnet vgg16}; do
    case $model in
    lenet5) spec=lenet5 batch=64 ;;
    alexnet) spec=alexnet,input=32 batch=64 ;;
    *) spec=$model,input=32 batch=128 ;;
    esac
    ${RUNNER:-} "$penstock" profile --model "$spec" --micro-batch $batch --repeats 3 -q -o "$work/$model.json" >/dev/null
    for workers in ${WORKERS:-2 3 4 5 6 7}; do
        describe "$workers"
        measure $model "$workers" pipedream
        before_simulated=$simulated before_measured=$measured
        echo
        measure $model "$workers" bipartition
        paper=-
        [ $model-"$workers" != lenet5-5 ] || paper=1.9
        [ -z "$before_measured" ] || [ -z "$measured" ] || echo "$before_simulated $simulated $before_measured $measured $paper" |
            awk '{ printf "   %9.2f %9.2f %6s", $1 / $2, $3 / $4, $5 }'
        echo
    done
done
