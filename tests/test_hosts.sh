#!/bin/sh
# Several hosts by ssh, as docs/mpi.md describes them. A network namespace stands for each host; it has a name, a home directory and an
# sshd of its own, and mpirun reaches the others by ssh with a key. All of it is inside namespaces of this test, for processes, mounts and
# networks, so that nothing is left of it however the test ends. Where there is no sshd, no ip, or no right to make namespaces, there is
# nothing to do. (The rest stands in support.sh.)
inside=${PENSTOCK_TEST_INSIDE:-}
if [ -z "$inside" ]; then
    for needed in /usr/sbin/sshd ip ssh-keyscan unshare nsenter; do
        command -v "$needed" >/dev/null || {
            echo "skipped: no $needed"
            exit 0
        }
    done
    spaces="--net --uts --mount --pid --fork --kill-child --mount-proc"
    # Words on purpose.
    # shellcheck disable=SC2086
    unshare $spaces ip link add name test type veth peer name other 2>/dev/null || {
        echo "skipped: not root, or a kernel without namespaces or veth"
        exit 0
    }
    # The first process of the space reaps those that others leave behind.
    # shellcheck disable=SC2086
    PENSTOCK_TEST_INSIDE=1 exec unshare $spaces sh -c 'sh "$0"; exit $?' "$0"
fi
. "$(dirname "$0")/support.sh"
needs_mpi
errors=out

# What ssh and sshd find by fixed paths: root's home directory, the hosts' names, and sshd's own directory.
mkdir home keys
sed "s,^\(root:.*:\)/root:,\1$PWD/home:," /etc/passwd >passwd
printf '127.0.0.1 localhost\n10.99.1.1 node1\n10.99.1.2 node2\n10.99.1.3 node3\n' >names
mount --bind passwd /etc/passwd && mount --bind names /etc/hosts && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd || {
    echo "skipped: no mounts here"
    exit 0
}
export HOME="$PWD/home"
cd home || exit 1

begins "hosts"
mkdir -m 700 .ssh
ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519 && cp .ssh/id_ed25519.pub .ssh/authorized_keys && ssh-keygen -q -t ed25519 -N '' -f ../keys/host
cat >../sshd_config <<X
HostKey $PWD/../keys/host
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv ASAN_OPTIONS=$ASAN_OPTIONS
X
# A host's first process, in namespaces of its own. node1 has this home directory, each other one in its own memory.
cp -a .ssh ../ssh
cat >../host <<X
hostname \$1
[ \$1 = node1 ] || { mount -t tmpfs tmpfs "$HOME" && cp -a ../ssh "$HOME/.ssh" && cd "$HOME" || exit 1; }
ip link set lo up
until ip link set eth0 up 2>/dev/null; do sleep 0.02; done
ip addr add 10.99.1.\${1#node}/24 dev eth0
exec /usr/sbin/sshd -D -e -f ../sshd_config
X
ip link add hosts type bridge && ip link set hosts up || complain "no bridge"
is_apart() { [ "$(readlink "/proc/$1/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ] && [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
for number in 1 2 3; do
    unshare --net --uts --mount sh ../host "node$number" >"../node$number.log" 2>&1 &
    eval "host$number=$!"
    until_so is_apart $!
    ip link add "cable$number" type veth peer name eth0 netns $! && ip link set "cable$number" master hosts up || complain "no cable"
done
# on NUMBER COMMAND...: on that host, in its home directory
on() {
    eval "of=\$host$1"
    shift
    nsenter -t "$of" --net --uts --mount --wd="$HOME" "$@"
}
answer() { on 1 ssh-keyscan node1 node2 node3 2>/dev/null | grep -c ed25519 | grep -qx 3; }
until_so answer
on 1 sh -c 'ssh-keyscan node1 node2 node3 2>/dev/null >.ssh/known_hosts'
[ "$(on 1 ssh node3 hostname)" = node3 ] || complain "no ssh to node3"

# Its weights alone, however they are cut.
weights() { "$PENSTOCK" export --run "$1" -o exported.safetensors -q >/dev/null 2>&1 && cksum <exported.safetensors; }
nobody_is_left() { ! grep -qsx 'penstock.*' /proc/[0-9]*/comm; }

arguments="--model lenet5,input=16,classes=4 --data synthetic:images,samples=960 --schedule 1f1b --weights sync --method uniform"
arguments="$arguments --optimizer adam --batch 8 --micro-batches 2 --steps 240 --checkpoint-every 4"
arguments_of_40=$(echo "$arguments" | sed 's/--steps 240/--steps 40/')
# Words on purpose, here and below.
# shellcheck disable=SC2086
"$PENSTOCK" train $arguments --workers 3 --transport threads --keep-checkpoints 1000 --out threads -q >out 2>&1 || complain "threads fail"

# over_hosts HOSTS ARGUMENT...: the program from node1, a rank on each host; its status is in $status.
over_hosts() {
    hosts=$1
    shift
    on 1 timeout -k 5 200 "$mpirun" "$hosts_option" "$hosts" "$program" "$@" >out 2>&1
    status=$?
}
has_checkpoint() { [ -e ended ] || { [ -n "$(newest run)" ] && [ "$(newest run)" != 000000 ]; }; }
is_noticed() { [ -e ended ] || grep -q 'rank 2 on node3 has not answered' out; }

for pair in $PENSTOCK_MPIS; do
    mpirun=${pair%%=*} program=${pair#*=} mpi=$(basename "${pair%%=*}") hosts_option=--host
    [ "$(whose "$mpirun")" = openmpi ] || hosts_option=--hosts
    begins "$mpi: three hosts"
    rm -rf run short ended
    # shellcheck disable=SC2086
    over_hosts node1,node2,node3 train $arguments_of_40 --out short
    [ $status = 0 ] && grep -q "on 3 cpu workers" out || complain "$mpi: status $status"
    [ "$(sum short)" = "$(cd threads/checkpoints/000040 && cat -- *.safetensors | cksum)" ] || complain "$mpi: other weights than by threads"

    begins "$mpi: a cable is pulled"
    (
        # shellcheck disable=SC2086
        over_hosts node1,node2,node3 train $arguments --out run -q
        echo $status >status
        mv status ended
    ) &
    until_so has_checkpoint
    ip link set cable3 down
    until_so is_noticed
    # MPICH's mpirun ends by itself; Open MPI's goes on waiting for its own process on the lost host.
    [ $hosts_option = --host ] || until_so test -e ended
    [ -e ended ] || for process in $(grep -lsx "$mpi" /proc/[0-9]*/comm | cut -d / -f 3); do kill -KILL "$process"; done
    until_so test -e ended
    grep -q 'rank 2 on node3' out || complain "$mpi: the loss of a host is not said"
    [ $hosts_option = --host ] || [ "$(cat ended)" = 6 ] || complain "$mpi: status $(cat ended)"
    ip link set cable3 up

    begins "$mpi: the rest on two hosts, from step $(newest run)"
    over_hosts node1,node2 train --resume run -q
    [ $status = 0 ] && [ "$(weights run)" = "$(weights threads)" ] || complain "$mpi: status $status, or other weights than by threads"
done
finish
