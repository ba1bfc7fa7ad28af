#!/bin/sh
# Predictions in every format, of every checkpoint, and translations, as users ask for them. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/support.sh"

begins "classes"
"$PENSTOCK" train --model lenet5,input=16 --workers 2 --schedule 1f1b --batch 8 --micro-batch 4 --device reference -q \
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
# shellcheck disable=SC2086
"$PENSTOCK" $ask --format jsonl -o - >out 2>err && cmp -s out predictions.jsonl || complain "--format jsonl -o -"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --checkpoint 0 -o first.csv >out 2>err && ! cmp -s first.csv predictions.csv || complain "--checkpoint 0"
# shellcheck disable=SC2086
"$PENSTOCK" $ask --format cvs -o none >out 2>err
[ $? -eq 2 ] && grep -q "did you mean 'csv'" err || complain "a misspelt format"

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

finish
