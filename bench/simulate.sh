#!/bin/sh
# Speed and memory of the simulator: pipelines of up to 1,024 workers and 4,096 micro-batches, from the command line, including
# lowering.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh

# simulate SCHEDULE WEIGHTS WORKERS MICRO_BATCHES BATCHES
simulate() {
    stages=$3
    [ "$1" != interleaved ] || stages=$((2 * $3))
    awk -v n="$stages" 'BEGIN {
        print "name,forward_s,backward_s,parameter_bytes,output_bytes"
        for (i = 0; i < n; i++) printf "l%d,%g,%g,40000,10000\n", i, 0.001 * (1 + i % 3 / 10), 0.002 * (1 + i % 5 / 10)
    }' > "$work/profile.csv"
    awk -v n="$3" -v stages="$stages" -v schedule="$1" -v weights="$2" -v m="$4" 'BEGIN {
        printf "{\"format\": \"penstock-plan\", \"version\": 1, \"model\": \"profile\", \"method\": \"uniform\", "
        printf "\"schedule\": \"%s\", \"weights\": \"%s\", \"optimizer\": \"sgdm\", ", schedule, weights
        printf "\"workers\": %d, \"micro_batch\": 0, \"micro_batches\": %d, \"stages\": [", n, m
        for (i = 0; i < stages; i++) {
            who = schedule == "chimera" ? i ", " n - 1 - i : i % n
            printf "%s{\"layers\": [%d, %d], \"forward\": [%s], \"backward\": [%s]}", i ? ", " : "", i + 1, i + 1, who, who
        }
        print "]}"
    }' > "$work/plan.json"
    python3 - "$penstock" "$work" "$1" "$3" "$4" "$5" <<'PYTHON'
import json, resource, subprocess, sys, time
penstock, work, schedule, workers, micro_batches, batches = sys.argv[1:]
start = time.monotonic()
done = subprocess.run([penstock, "simulate", "--plan", work + "/plan.json", "--profile", work + "/profile.csv", "--latency", "10us",
                       "--bandwidth", "1GB/s", "--batches", batches, "--json", "--quiet"], stdout=subprocess.PIPE, check=True)
seconds = time.monotonic() - start
count = json.loads(done.stdout)["instructions"]
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"{schedule:12}{workers:>8}{int(micro_batches) * int(batches):>15}{count:>14}{seconds:>10.2f}{count / seconds / 1e6:>9.2f}{memory:>9.0f}")
PYTHON
}

echo "schedule     workers  micro-batches  instructions  seconds  M instr/s      MiB"
simulate 1f1b-async latest 4 1 4096
simulate 1f1b-async latest 64 1 4096
simulate 1f1b-async latest 64 1 65536
simulate 1f1b-async pipeoptim 256 1 4096
simulate 1f1b sync 64 4096 1
simulate 1f1b-async latest 1024 1 4096
simulate 1f1b sync 1024 4096 1
simulate interleaved sync 64 16384 1
simulate interleaved sync 64 65536 1
simulate chimera sync 64 65536 1
simulate gpipe sync 64 16384 1
