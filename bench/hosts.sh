# Hosts on one machine, sourced after common.sh with `most`, how many, and `rate`, as `tc` reads it: network namespaces, each behind a
# virtual cable of that rate in each direction. bench/namespaces.sh says why each setting is there. Needs root, ip, tc and Open MPI.
#   over WORKERS ARGUMENT...   the program by mpirun on so many hosts; its standard output
#   describe WORKERS           a cluster file of so many hosts into $work/described.json, by the measured $bandwidth and $latency
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
[ "$(id -u)" -eq 0 ] && command -v ip >/dev/null && command -v tc >/dev/null || { echo "needs root, ip and tc" >&2; exit 77; }

down() {
    host=0
    while [ $host -lt "$most" ]; do
        ip netns del "penstock$host" 2>/dev/null || true
        host=$((host + 1))
    done
    ip link del penstock-br 2>/dev/null || true
}
# What a host sends is held at its own end; what it receives is held at the senders'. Packets of less than 128 bytes go first: else
# acknowledgements would queue behind data of the other direction. A cable is never ahead of its rate: no bursts beyond what the kernel
# hands over at once, which is 12 KiB, a millisecond at 100 Mbit/s. Packet by packet, the two directions of a cable keep 0.6 of one of this
# machine's cores busy, which the workers lack (8 packets at once: 0.1); 64 KiB would be delivered as one.
hold() { # NAMESPACE
    tc -n "$1" qdisc add dev eth0 root handle 1: htb default 2
    tc -n "$1" class add dev eth0 parent 1: classid 1:1 htb rate "$rate" burst 18kb cburst 18kb quantum 1514
    tc -n "$1" class add dev eth0 parent 1:1 classid 1:2 htb rate 1mbit ceil "$rate" burst 18kb cburst 18kb prio 1 quantum 1514
    tc -n "$1" class add dev eth0 parent 1:1 classid 1:3 htb rate 1mbit ceil "$rate" burst 18kb cburst 18kb prio 0 quantum 1514
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
    ip -n "penstock$host" link set dev eth0 gso_max_segs 8
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
        --bind-to none --mca oob_tcp_if_include eth0 ${MPIRUN_OPTIONS:-} -np "$ranks" --host "$hosts" "$program" "$@" >"$work/out" 2>"$work/err"; do
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
