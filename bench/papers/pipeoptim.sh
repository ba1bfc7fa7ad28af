# PipeOptim's setting, sourced after bench/common.sh from the root of the repository: P100 by model (src/profile/gpu.c), PipeDream's four
# stages with recomputation, one micro-batch in a mini-batch (GPipe and 2BW: four).
#   networks   name, network, optimizer, the paper's largest batches of GPipe/PipeDream/2BW/SpecTrain/XPipe/PipeOptim (Table V)
#   methods    name, schedule, weights, micro-batches
#   speed NAME NETWORK OPTIMIZER BATCH SCHEDULE WEIGHTS MICRO_BATCHES   simulated samples a second
#   predictions   if set, predictions are passes of their own that take so many times as long
networks='alexnet alexnet,input=224,classes=200 sgdm 1250/1240/1260/1260/1250/1260
resnet101 resnet101,input=224,classes=200 sgdm 86/86/86/90/86/86
inception_v3 inception_v3,input=224,classes=200 sgdm 84/84/84/84/84/84
vgg16 vgg16,input=32,classes=100 adamw 2105/2120/2120/-/2800/2800
googlenet googlenet,input=32,classes=100 adamw 230/290/300/-/310/295
residual_lstm residual_lstm adamw 3500/3820/3820/-/3820/3820
gnmt8 gnmt8 adam 130/136/140/-/142/142
gnmt16 gnmt16 adam 124/116/120/-/120/120'
methods='GPipe gpipe sync 4
PipeDream 1f1b-async stash 1
2BW 1f1b-async 2bw 4
SpecTrain 1f1b-async spectrain 1
XPipe 1f1b-async xpipe 1
PipeOptim 1f1b-async pipeoptim 1'
speed() {
    [ -s "$work/$1.$4.json" ] || {
        "$penstock" profile --model "$2" --device gpu:p100 --micro-batch "$4" -q -o "$work/modelled.json" >/dev/null
        awk -v times="${predictions:-}" '
            /"update_s"/ && match($0, /[-0-9.e]+,/) { update = substr($0, RSTART, RLENGTH - 1) + 0 }
            /"update_predict_s"/ && times { held = 1; next }
            /"predict_s"/ && times && match($0, /[-0-9.e]+,/) {
                alone = times * substr($0, RSTART, RLENGTH - 1)
                printf "\"update_predict_s\": %.9g,\n\"predict_s\": %.9g,\n", update + alone, alone
                next
            }
            { print }' "$work/modelled.json" >"$work/$1.$4.json"
    }
    "$penstock" plan --profile "$work/$1.$4.json" --workers 4 --bandwidth 10GB/s --method pipedream --recompute --schedule "$5" \
        --weights "$6" --micro-batches "$7" --optimizer "$3" --json -q >"$work/speed.json"
    field throughput_samples_per_s <"$work/speed.json"
}
