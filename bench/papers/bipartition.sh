# Bi-Partition's setting, sourced after bench/common.sh from the root of the repository: LeNet-5, AlexNet and VGG16 in their forms for
# small images, the paper's batches, links of 100 Mbit/s. The paper does not say how fast its virtual machines are; a worker here
# is a P100 by model (src/profile/gpu.c) at a fraction of its speed: 0.002, 0.0005 and 0.0001 of its 4,650 G multiply-adds/s are
# 9.3, 2.3 and 0.47. Launches of kernels slow down as much (2.5 ms, 10 ms, 50 ms), as overheads of operations in TensorFlow would.
#   hosts WORKERS SPEED                 a cluster file
#   period_of NETWORK ARGUMENT...       the simulated ms for a mini-batch of a plan on $work/hosts.json, kept in $work/plan.json
batch_of() { case $1 in vgg16) echo 128 ;; *) echo 64 ;; esac; }
for network in lenet5 alexnet vgg16; do
    "$penstock" profile --model $network --device gpu:p100 --micro-batch "$(batch_of $network)" -q -o "$work/$network.json" >/dev/null
done
hosts() {
    awk -v p="$1" -v s="$2" 'BEGIN {
        printf "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": ["
        for (w = 0; w < p; w++) printf "%s{\"name\": \"host%d\", \"speed\": %s}", w ? ", " : "", w, s
        print "], \"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1.25e7, \"latency_s\": 1e-4}]}"
    }' >"$work/hosts.json"
}
period_of() {
    profile=$work/$1.json
    shift
    "$penstock" plan --profile "$profile" --cluster "$work/hosts.json" --optimizer adam --micro-batches 1 -q -o "$work/plan.json" "$@" >/dev/null
    awk -F'[:,]' '$1 ~ /"period_s"/ { print 1e3 * $2; exit }' "$work/plan.json"
}
