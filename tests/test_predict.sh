#!/bin/sh
# Predictions in every format, of every checkpoint, and translations, as users ask for them. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/leaks.sh"

begins "classes"
"$PENSTOCK" train --model lenet5,input=16 --workers 2 --method uniform --schedule 1f1b --batch 8 --micro-batch 4 --device reference -q \
    --data synthetic:images,samples=40 --steps 5 --out run >out 2>err || complain "no run: status $?"
ask="predict --run run --data synthetic:images,samples=12@2-12 --device reference -q"
# shellcheck disable=SC2086
"$PENSTOCK" $ask >table 2>err || complain "a table: status $?"
[ "$(wc -l <table)" -eq 11 ] && head -n 1 table | grep -q '^index  *label  *probability *$' || complain "the table: $(cat table)"
for name in csv json jsonl npz; do
    # shellcheck disable=SC2086
    "$PENSTOCK" $ask -o predictions.$name >out 2>err || complain "$name: status $?"
done
[ "$(head -n 1 predictions.csv)" = index,label,probability ] && [ "$(wc -l <predictions.csv)" -eq 11 ] || complain "CSV"
# All say the same.
sed '1d;s/\([0-9]*\),\([0-9]*\),\(.*\)/{"index": \1, "label": \2, "probability": \3}/' predictions.csv | cmp -s - predictions.jsonl ||
    complain "JSON lines are not the CSV"
{ echo "[" && sed '$!s/$/,/' predictions.jsonl && echo "]"; } | cmp -s - predictions.json || complain "JSON is not the JSON lines"
sed 1d predictions.csv >predictions.rest
awk 'NR > 1 { print $1 "," $2 "," $3 }' table | cmp -s - predictions.rest || complain "the table is not the CSV"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --json >out 2>err && cmp -s out predictions.json || complain "--json is not the JSON"
[ ! -s err ] || complain "-q is not quiet"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --format jsonl -o - >out 2>err && cmp -s out predictions.jsonl || complain "--format jsonl -o -"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --checkpoint 0 -o first.csv >out 2>err && ! cmp -s first.csv predictions.csv || complain "--checkpoint 0"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --format cvs -o none >out 2>err
[ $? -eq 2 ] && grep -q "did you mean 'csv'" err || complain "a misspelt format"

begins "several workers"
for workers in 2 3; do
    for name in csv jsonl npz; do
        # shellcheck disable=SC2086
        "$PENSTOCK" $ask --workers $workers -o several.$name >out 2>err || complain "--workers $workers, $name: status $?"
        cmp -s several.$name predictions.$name || complain "--workers $workers: other predictions in $name"
    done
done
"$PENSTOCK" evaluate --run run --data synthetic:images,samples=12 --device reference --workers 3 >out 2>err &&
    grep -q 'into 3 stages' err || complain "three workers evaluate: $(cat err)"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --workers 40 -o none >out 2>err
[ $? -eq 4 ] && grep -q '40 workers are more than' err || complain "more workers than layers"
# What schedules, policies and methods ask for in training is nothing to those who predict: an even number of workers, micro-batches for
# each, one worker for what layers share.
for way in "2 chimera sync lenet5,input=16 images 3" "2 1f1b-async 2bw lenet5,input=16 images 5" \
    "1 1f1b-async stash gpt2,layers=1,width=8,heads=1,seq=8,vocab=16,tied=1 tokens 2" "2 pattern stash lenet5,input=16 images 3"; do
    # shellcheck disable=SC2086
    set -- $way
    how="--schedule $2"
    [ "$2" = pattern ] && how="--method madpipe"
    rm -rf other
    # shellcheck disable=SC2086
    "$PENSTOCK" train --model "$4" --workers "$1" $how --weights "$3" --batch 8 --micro-batch 4 --device reference -q \
        --data "synthetic:$5,samples=40" --steps 2 --out other >out 2>err || complain "$way: no run: status $?"
    for workers in 1 "$6"; do
        "$PENSTOCK" predict --run other --data "synthetic:$5,samples=11" --device reference -q --workers "$workers" -o "other$workers.npz" \
            >out 2>err || complain "$way: $workers predict: status $?: $(cat err)"
    done
    cmp -s other1.npz "other$6.npz" || complain "$way: other predictions by $6 workers"
    "$PENSTOCK" evaluate --run other --data "synthetic:$5,samples=11" --device reference -q --workers "$6" >out 2>err ||
        complain "$way: $6 evaluate: status $?: $(cat err)"
done
# A language model computes so many numbers of a sample that they are taken in pieces; a stage with replicas shares them. Products on cpu
# may round otherwise with another number of rows.
"$PENSTOCK" train --model gpt2,layers=1,width=8,heads=1,seq=16,vocab=8192 --workers 1 --batch 4 --micro-batch 2 --steps 1 -q \
    --schedule 1f1b --weights sync --data synthetic:tokens,samples=70 --out language >out 2>err || complain "no language model: status $?"
"$PENSTOCK" predict --run language --data synthetic:tokens,samples=70 --device reference -q -o alone.npz >out 2>err || complain "a language model: status $?"
"$PENSTOCK" predict --run language --data synthetic:tokens,samples=70 --device reference -q --workers 2 -o together.npz >out 2>err ||
    complain "a language model by two workers: status $?"
cmp -s alone.npz together.npz || complain "a language model: other predictions by two workers"
"$PENSTOCK" train --model lenet5,input=16 --workers 2 --method data-parallel --replicate --schedule 1f1b --weights sync --batch 8 \
    --micro-batch 2 --device reference -q --data synthetic:images,samples=40 --steps 2 --out shared >out 2>err || complain "no replicas: status $?"
for workers in 1 2; do
    "$PENSTOCK" predict --run shared --data synthetic:images,samples=11 --device reference -q --workers $workers -o shared$workers.csv \
        >out 2>err || complain "replicas: status $?"
done
cmp -s shared1.csv shared2.csv || complain "replicas: other predictions"

begins "names of classes"
for label in 0 1 2 3 4 5 6 7 10 11; do
    # shellcheck disable=SC2059
    { printf "\\$label" && awk -v c="$label" 'BEGIN { for (i = 0; i < 3072; i++) printf "%c", 65 + (i * (c + 1)) % 60 }'; } >>data_batch_1.bin
done
cp data_batch_1.bin test_batch.bin
printf 'plane\r\ncar\r\nbird\r\ncat\r\ndeer\r\ndog\r\n"frog", a\r\nhorse\r\nship\r\ntruck\r\n\r\n' >batches.meta.txt
"$PENSTOCK" train --model lenet5,input=32,channels=3 --workers 1 --batch 5 --data cifar10:. --steps 2 --device reference --out named -q \
    >out 2>err || complain "no run on named classes: status $?"
grep -q '"horse",$' named/config.json || complain "the configuration does not have the names"
name_of() { sed -n "$(($1 + 1))p" batches.meta.txt | tr -d '\r'; }
for way in 1 2; do
    "$PENSTOCK" predict --run named --data cifar10:. --device reference --workers $way -q >out 2>err || complain "names: status $?"
    [ "$(head -n 1 out | tr -s ' ')" = "index label probability name" ] || complain "the names' column: $(head -n 1 out)"
    label=$(awk 'NR == 2 { print $2 }' out)
    case $(sed -n 2p out) in *" $(name_of "$label")") ;; *) complain "the name of $label: $(sed -n 2p out)" ;; esac
done
"$PENSTOCK" predict --run named --data cifar10:. --device reference -q -o named.csv >out 2>err || complain "names in CSV: status $?"
[ "$(sed -n 2p named.csv)" = "0,$label,$(sed -n 2p named.csv | cut -d, -f3),\"$(name_of "$label" | sed 's/"/""/g')\"" ] ||
    complain "names in CSV: $(sed -n 2p named.csv)"
"$PENSTOCK" export --run named --format safetensors -o named.safetensors >out 2>err || complain "export of names: status $?"
head -c 2000 named.safetensors | grep -aq '"class_names":"\[.*truck' || complain "the exported file has no names"
"$PENSTOCK" predict --model lenet5,input=32,channels=3 --init named.safetensors --data cifar10:. --device reference -q >out 2>err ||
    complain "names of the data: status $?"
case $(sed -n 2p out) in *" $(name_of "$label")") ;; *) complain "the data's name of $label: $(sed -n 2p out)" ;; esac

begins "names of folders"
# A colour for each class; the pictures are learnt, so that each name is predicted, and belongs to its own.
begin=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42m
while IFS='|' read -r name colour; do
    mkdir -p "folders/$name"
    printf '%s' "$begin$colour" | base64 -d >"folders/$name/one.png"
    cp "folders/$name/one.png" "folders/$name/two.png"
done <<'X'
it's plain|P4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC
Käse 猫|Ng+M8AAAICAQBF9FLUAAAAAElFTkSuQmCC
salt, pepper|NgYPgPAAEDAQA2dBFAAAAAAElFTkSuQmCC
the "quoted" one|P4//8/AAX+Av4zEpUUAAAAAElFTkSuQmCC
wire haired  terrier|NgYGAAAAAEAAHI6uv5AAAAAElFTkSuQmCC
X
"$PENSTOCK" train --model lenet5,input=16,channels=3,classes=5 --workers 1 --batch 5 --data images:folders --steps 60 --optimizer adam \
    --lr 3e-3 --device reference --out foldered -q >out 2>err || complain "no run on folders: status $?"
foldered() { "$PENSTOCK" predict --run foldered --data images:folders --device reference -q "$@" >out 2>err || complain "folders: status $?"; }
# Classes are the folders in the order of their bytes.
foldered
sed -n '2,$s/^ *[0-9]*  *\([0-9]*\)  *[0-9.e-]*  /\1 /p' out >names
cat >wanted <<'X'
0 Käse 猫
0 Käse 猫
1 it's plain
1 it's plain
2 salt, pepper
2 salt, pepper
3 the "quoted" one
3 the "quoted" one
4 wire haired  terrier
4 wire haired  terrier
X
cmp -s names wanted || complain "folders in the table: $(cat out)"
foldered -o foldered.csv
sed -n '2,$s/^[0-9]*,\([0-9]*\),[0-9.e-]*,/\1 /p' foldered.csv >names
sed 's/"/""/g; s/ /&"/; s/$/"/' wanted | cmp -s names - || complain "folders in CSV: $(cat foldered.csv)"
foldered --json && cp out foldered.json
"$PENSTOCK" export --run foldered --format safetensors -o foldered.safetensors >out 2>err || complain "export of folders: status $?"
head -c 2000 foldered.safetensors | grep -aq '"classes":"5"' || complain "the exported file has no number of classes"
sed -n 's/^{.*"label": \([0-9]*\), .*"name": \(".*"\)},*$/\1 \2/p' foldered.json >names
sed 's/"/\\"/g; s/ /&"/; s/$/"/' wanted | cmp -s names - || complain "folders in JSON: $(cat out)"
if command -v python3 >/dev/null; then
    python3 -c '
import csv, json
wanted = [line.rstrip("\n").split(" ", 1) for line in open("wanted", encoding="utf-8")]
for rows in json.load(open("foldered.json", encoding="utf-8")), list(csv.DictReader(open("foldered.csv", encoding="utf-8"))):
    assert [[str(row["label"]), row["name"]] for row in rows] == wanted, rows' >out 2>err || complain "folders as Python reads them"
fi

begins "numbers"
printf 'a,b,y\n1,2,3\n2,3,5\n3,4,7\n4,5,9\n' >sums.csv
cat >mlp.json <<'JSON'
{"format": "penstock-network", "version": 1, "name": "mlp", "inputs": [{"name": "x", "type": "f32", "shape": [2]}],
 "targets": [{"name": "y", "type": "f32", "shape": [1]}],
 "nodes": [{"name": "last", "operator": "linear", "channels": 1}, {"name": "loss", "operator": "mse"}]}
JSON
"$PENSTOCK" train --model mlp.json --workers 1 --data csv:sums.csv --batch 4 --steps 3 --device reference --out sums -q >out 2>err ||
    complain "no run on numbers: status $?"
"$PENSTOCK" predict --run sums --data csv:sums.csv --device reference -q -o sums.jsonl >out 2>err || complain "numbers: status $?"
[ "$(grep -c '^{"index": [0-3], "output": \[[0-9.e+-]*\]}$' sums.jsonl)" -eq 4 ] || complain "numbers: $(cat sums.jsonl)"

begins "translations"
awk 'BEGIN { for (i = 0; i < 64; i++) { for (w = 0; w <= i % 3; w++) printf "%c ", 97 + (i + w) % 7; print "" } }' | tee lines.x | tr a-g t-z >lines.y
"$PENSTOCK" train --model gnmt-l,layers=4,seq=4,target=4,hidden=8,vocab=12 --workers 2 --schedule 1f1b --batch 8 --micro-batch 4 \
    --data pairs:lines:x:y --steps 8 --device reference --out texts -q >out 2>err || complain "no run on texts: status $?"
"$PENSTOCK" evaluate --run texts --data pairs:lines:x:y@0-9 --device reference --translations lines -q >out 2>err || complain "no translations"
"$PENSTOCK" predict --run texts --data pairs:lines:x:y@0-9 --device reference -o texts.csv -q >out 2>err || complain "translations: status $?"
{ echo index,translation && awk '{ print NR - 1 ",\"" $0 "\"" }' lines; } | cmp -s - texts.csv || complain "other translations: $(cat texts.csv)"
"$PENSTOCK" predict --run texts --data pairs:lines:x:y@0-9 --device reference --beam 2 --json -q >out 2>err || complain "--beam: status $?"
[ "$(grep -c '^{"index": [0-8], "translation": ".*"},*$' out)" -eq 9 ] || complain "translations as JSON: $(cat out)"
"$PENSTOCK" predict --run texts --data pairs:lines:x:y@0-9 --device reference -o texts.npz -q >out 2>err
[ $? -eq 2 ] && grep -q 'translations are texts' err || complain "translations as arrays"
"$PENSTOCK" predict --run texts --data pairs:lines:x:y@0-9 --device reference --workers 2 -q >out 2>err
[ $? -eq 2 ] && grep -q 'one worker translates' err || complain "translations by two workers"

finish
