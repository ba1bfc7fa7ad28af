# PipeOptim's setting, sourced after bench/common.sh from the root of the repository: P100 by model (src/profile/gpu.c), PipeDream's four
# stages with recomputation, one micro-batch in a mini-batch (GPipe and 2BW: four).
#   networks   name, network, optimizer, the paper's largest batches of GPipe/PipeDream/2BW/SpecTrain/XPipe/PipeOptim (Table V)
#   methods    name, schedule, weights, micro-batches
#   speed NAME NETWORK OPTIMIZER BATCH SCHEDULE WEIGHTS MICRO_BATCHES   simulated samples a second
#   accuracies   Table IV: network and data, the small network that stands for it (bench/learning), optimizer, best accuracy by method
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
accuracies='AlexNet, Tiny-ImageNet|lenet5_cifar10|sgdm|51.93|43.99|45.00|50.14|39.24|49.23
ResNet-101, Tiny-ImageNet|resnet_tiny_imagenet|sgdm|67.64|67.72|67.47|67.81|67.22|67.84
Residual LSTM, IMDb|residual_lstm_imdb|adamw|85.65|84.82|85.13|-|86.20|86.38
VGG-16, CIFAR-100|vgg_cifar10|adamw|67.05|66.61|66.66|-|67.22|67.91
Residual LSTM, IMDb|residual_lstm_imdb|adam|85.64|85.52|85.48|-|86.57|85.52
GNMT-8, WMT16 (BLEU)|gnmt8_multi30k|adam|21.22|21.04|21.03|-|21.06|21.29'
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
