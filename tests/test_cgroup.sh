#!/bin/sh
# In a control group (cgroup) whose memory is limited the machine has no more: devices and cluster say so, and plans and trainings that
# need more are warned of. The groups are real ones, of either version; where none can be made, by other users than root, there is
# nothing to do. (What PENSTOCK is stands in support.sh; tests/test_base_host_memory.c has the same without real groups.)
. "$(dirname "$0")/support.sh"
limit=$((64 << 20))

# A group with the limit, and in it one without, in which commands run.
group=
for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [ -e "$top/memory.limit_in_bytes" ] || grep -qsw memory "$top/cgroup.subtree_control" || continue
    mkdir "$top/penstock-$$" 2>/dev/null || continue
    group=$top/penstock-$$
    trap 'rmdir "$group/within" "$group" 2>/dev/null; end_all; rm -rf "$directory"' EXIT
    break
done
allow() { # BYTES
    file=$group/memory.max
    [ -e "$file" ] || file=$group/memory.limit_in_bytes
    echo "$1" >"$file"
}
if [ -z "$group" ] || ! mkdir "$group/within" || ! allow $limit; then
    echo "skipped: no control group can be made"
    exit 0
fi
within() {
    # shellcheck disable=SC2016
    timeout 120 sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group/within" "$PENSTOCK" "$@" >out 2>err
}
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" out | head -n 1; }

begins "what the machine has"
within devices --json || complain "devices: status $?"
[ "$(number memory_total_bytes)" = $limit ] && [ "$(number memory_bytes)" -le $limit ] && [ "$(number memory_installed_bytes)" -gt $limit ] ||
    complain "devices: $(cat out)"
within devices && grep -q '^memory .* free of 64.* MiB, which its control group (cgroup) may take' out || complain "devices: $(cat out)"
allow $((8 * limit))
within cluster --json || complain "cluster: status $?"
[ "$(number memory_bytes)" -le $((8 * limit)) ] || complain "cluster: $(cat out)"
allow $limit

# A network of the one size, and the same with parameters that are a thousand times larger.
begins "plans"
"$PENSTOCK" profile --model lenet5 --micro-batch 4 --repeats 1 -q -o profile.json >out 2>err || complain "no profile"
sed 's/\("parameter_bytes": *[1-9][0-9]*\)/\1000/' profile.json >large.json
within plan --profile profile.json --workers 2 -q -o plan.json || complain "plan: status $?"
grep warn err && complain "a plan that fits is warned of"
within plan --profile large.json --workers 2 || complain "plan: status $?"
warning='^warn: by this plan 2 workers need .* of memory, more than the 64.* MiB that their control group (cgroup) may take'
grep -q "$warning" err || complain "a plan that does not fit is not warned of"
for other in "--memory 1TiB" "--bandwidth 1GB/s" "--cores 2"; do
    # shellcheck disable=SC2086
    within plan --profile large.json --workers 2 $other || complain "plan $other: status $?"
    grep "$warning" err && complain "plan $other: warned of, though it says of other machines"
done

begins "training"
data="--data synthetic:images,samples=16 --steps 2"
# shellcheck disable=SC2086
for memory in 31MiB 33MiB; do
    within train --plan plan.json --profile profile.json --memory $memory $data || complain "train --memory $memory: status $?"
    cp err err."${memory%MiB}"
done
grep -q '^warn: --memory: 2 workers may take 66.* MiB of memory, more than the 64.* MiB that' err.33 || complain "2 x 33 MiB are not warned of"
grep memory: err.31 && complain "2 x 31 MiB are warned of"
# What is larger may be killed for it, after it was said.
"$PENSTOCK" profile --model gpt2,layers=2,width=256,heads=4,seq=32,vocab=16000 --micro-batch 2 --repeats 1 -q -o profile.json >out 2>err &&
    "$PENSTOCK" plan --profile profile.json --workers 2 --micro-batches 2 -q -o plan.json >out 2>err || complain "no plan of gpt2"
within train --plan plan.json --profile profile.json --data synthetic:tokens,samples=16 --steps 1
grep -q '^warn: 2 workers need .* of memory, more than the 64' err || complain "a training that does not fit is not warned of"
finish
