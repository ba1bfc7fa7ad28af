#!/bin/sh
# Comparisons as users mean to make them: tables that can be read, ranks, units as they were given, CSV, several networks and seeds; and
# with --out kept row by row, whatever kills them. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/leaks.sh"
echo "seed $seed"

# done_by ARGUMENT...: compares; says PATTERN: what it wrote matches; refused STATUS TEXT ARGUMENT...
done_by() { "$PENSTOCK" compare "$@" >out 2>err || complain "status $?: compare $*"; }
says() { grep -Eq -- "$1" out || complain "$section: nothing matches '$1' in: $(cat out)"; }
refused() {
    wanted=$1 text=$2
    shift 2
    "$PENSTOCK" compare "$@" >out 2>err
    status=$?
    [ $status = "$wanted" ] && head -n 1 err | grep -Fq -- "$text" || complain "status $status: compare $*"
}
narrow() { awk 'length > 120 { wide = 1; print } END { exit wide }' out >&2 || complain "$section: lines above are longer than 120 columns"; }

begins "a table that can be read"
{
    echo name,forward_s,backward_s,parameter_bytes,output_bytes
    for layer in 1 2 3 4 5 6 7 8; do echo layer$layer,0.001,0.002,64,65536; done
} >even.csv
done_by --profile even.csv --workers 4 --methods uniform,pipedream,madpipe --bandwidth 100Mbit/s,1GB/s --memory 1GiB -q
says '^even: 4 workers, memory 1GiB, weights pipeoptim, batch 1 = 1 x 1; best first by samples per second, for each machine'
says '^bandwidth +rank +method +schedule +period +samples/s'
says '^100Mbit/s +1 +madpipe' && says '^ +1GB/s +1 +madpipe' && narrow
ranks=$(awk '$2 ~ /^[123]$/ { printf "%s %s ", $1, $2 }' out)
[ "$ranks" = "100Mbit/s 1 100Mbit/s 2 100Mbit/s 3 1GB/s 1 1GB/s 2 1GB/s 2 " ] || complain "ranks for each machine: $(cat out)"
done_by --profile even.csv --workers 4 --methods uniform,pipedream,madpipe --rank-by memory -q
says '^ +1 +uniform' && says 'best first by the memory'
done_by --profile even.csv --workers 2,40 --methods uniform --schedules 1f1b-async --weights sync,latest --memory 1GiB,600KiB -q
says '1GiB .*does not flush' && says '600KiB .*needs 769 KiB' && says '40 .*40 workers are more' && narrow
# Every kind of row under every long name there is.
long=$(printf 'a_%0200d' 0)
cp even.csv "$long.csv"
done_by --profile "$long.csv" --profile even.csv --workers 2,3 --schedules auto,1f1b-async,interleaved --memory 1MiB,100GiB \
    --bandwidth 100Mbit/s,1GB/s --wires none,auto:topk:0.05 --methods uniform,pipedream,bipartition-paper --svg long.svg -q
narrow && says '^even' && says "^a_000"
done_by --profile "$long.csv" --workers 2,3 --methods bipartition,madpipe,pipedream,uniform,data-parallel --schedules gpipe,1f1b-async --memory 1MiB,100GiB \
    --grid -q && narrow && says '100GiB'
grep -q '</svg>' long.svg && grep -q 'even' long.svg || complain "no picture"

begins "CSV"
done_by --profile even.csv --workers 2,4 --methods uniform,pipedream --schedules gpipe --weights sync,stash --csv - -q
[ "$(wc -l <out)" = 9 ] && [ "$(awk -F, '{ print NF }' out | sort -u | wc -l)" != 0 ] || complain "CSV: $(cat out)"
head -n 1 out | grep -q '^model,method,schedule,weights,workers,.*rank.*batch.*throughput_samples_per_s' || complain "CSV's head: $(head -n 1 out)"
refused 2 "--csv - and --json contradict" --profile even.csv --workers 2 --csv - --json
refused 2 "--seeds: is for --train" --profile even.csv --workers 2 --seeds 1,2
refused 2 "--data: given 2 times, for 3 networks" --train --model lenet5 --model resnet --model alexnet --data a --data b --workers 2

begins "rows that are kept"
cp even.csv other.csv
set -- --workers 2,4 --methods uniform,pipedream --bandwidth 100Mbit/s,1GB/s -q
done_by "$@" --profile even.csv --out kept
mv out first
done_by "$@" --profile even.csv --out kept
cmp -s out first || complain "the same comparison says something else the second time"
"$PENSTOCK" simulate --plan kept/rows/002-pipedream-auto-auto-w2/plan.json --profile even.csv >out 2>err || complain "a row's plan"
refused 2 "kept holds another comparison: --workers is [2,4] there and [2,8] here" --profile even.csv --workers 2,8 --methods uniform,pipedream \
    --bandwidth 100Mbit/s,1GB/s -q --out kept
refused 2 'kept holds another comparison: --optimizer is not given there and "adam" here' "$@" --profile even.csv --optimizer adam \
    --out kept
refused 2 "kept holds another comparison: of 1 networks, not 2" "$@" --profile even.csv --profile other.csv --out kept
sed 's/0.002/0.003/' other.csv >even.csv
refused 2 "kept holds another comparison: --profile has changed since" "$@" --profile even.csv --out kept

begins "two networks, three policies, three seeds, never interrupted"
"$PENSTOCK" profile --model lenet5,input=16,classes=4 --micro-batch 8 --repeats 1 -q -o one.json >out 2>err || complain "no profile"
"$PENSTOCK" profile --model resnet,blocks=1,input=8,classes=4 --micro-batch 8 --repeats 1 -q -o two.json >out 2>err || complain "no profile"
set -- --train --model lenet5,input=16,classes=4 --profile one.json --model resnet,blocks=1,input=8,classes=4 --profile two.json \
    --data synthetic:images,samples=128,size=16,classes=4 --data synthetic:images,samples=64,size=8,channels=3,classes=4 \
    --valid synthetic:images,samples=32,size=16,classes=4,seed=1 --valid synthetic:images,samples=32,size=8,channels=3,classes=4,seed=1 \
    --workers 2 --methods uniform --schedules 1f1b-async --weights stash,latest,pipeoptim --seeds 0,1,2 --batch 16 --micro-batch 8 --epochs 2
done_by "$@" -q --out whole
narrow && says '^lenet5,input=16,classes=4: 2 workers, method uniform, .*3 seeds: mean' && says '^resnet,blocks=1' && says '^target: validation'
says '^ +1 .* [0-9.]+ \+- [0-9.]+ '
mv out whole.txt
[ "$(ls whole/rows | wc -l)" = 18 ] && [ "$(wc -l <whole/rows.csv)" = 19 ] || complain "not 18 rows"
# What is learned, without what a clock measured.
learned() {
    sed 's/"[^"]*"/MODEL/g' "$1" |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) kept[i] = $i !~ /_s$|directory/ }
                 { line = ""; for (i = 1; i <= NF; i++) if (kept[i]) line = line "," $i; print line }'
}
done_by "$@" -q --svg curves.svg --out whole
grep -q 'fill="none" stroke-width=' curves.svg || complain "no curves"
cmp -s out whole.txt || complain "the table of rows that were kept is another"
done_by "$@" -q --json --out whole
[ "$(grep -c '"best_epoch_spread"' out)" = 6 ] || complain "not the mean epoch of the best in each combination"
sed 's/"[^"]*"//g' whole/rows.csv | head -n 1 | grep -q ',best,' || complain "no column of the best"

begins "killed at random moments"
kills=0 status=137
while [ $status = 137 ]; do
    "$PENSTOCK" compare "$@" --out killed >out 2>err &
    process=$!
    draw 400
    # The last one is left alone.
    [ $kills -ge 15 ] || {
        milliseconds "$random"
        kill -KILL $process 2>/dev/null && kills=$((kills + 1))
    }
    wait $process
    status=$?
    # What had ended before stays as it was.
    [ ! -e done.sums ] || cksum $(awk '{ print $3 }' done.sums) | cmp -s - done.sums || complain "a row that was done was trained again"
    ls killed/rows/*/summary.json >/dev/null 2>&1 && cksum killed/rows/*/summary.json >done.sums
done
echo "    $kills kills"
[ $status = 0 ] || complain "status $status after $kills kills"
learned whole/rows.csv >wanted && learned killed/rows.csv >got
cmp -s wanted got || complain "after $kills kills something else was learned: $(diff wanted got)"
mv out last
done_by "$@" -q --out killed
cmp -s out last || complain "the table of the last call is not that of one more"

begins "Ctrl-C, and two at a time"
"$PENSTOCK" compare "$@" --out stopped >out 2>err &
process=$!
one_done() { ls stopped/rows/*/summary.json >/dev/null 2>&1; }
until_so one_done
errors=err2
"$PENSTOCK" compare "$@" --out stopped >out2 2>err2
[ $? = 2 ] && grep -q "another process is comparing in stopped" err2 || complain "two at a time"
errors=err
kill -TERM $process
wait $process
status=$?
[ $status = 75 ] && grep -q 'the comparison was stopped after [0-9]* of 18 rows' err && grep -q 'the same command goes on' err ||
    complain "status $status of a comparison that was stopped"
done_by "$@" --out stopped
grep -q 'rows were done before' err || complain "nothing was kept"
learned stopped/rows.csv >got
cmp -s wanted got || complain "after a stop something else was learned: $(diff wanted got)"
refused 2 "stopped holds another comparison: --lr is not given there and 0.5 here" "$@" --lr 0.5 --out stopped

begins "killed in the middle of a row"
set -- --train --model lenet5,input=16,classes=4 --profile one.json --data synthetic:images,samples=512,size=16,classes=4 --workers 2 \
    --valid synthetic:images,samples=32,size=16,classes=4,seed=1 --methods uniform --weights pipeoptim --batch 16 --micro-batch 8 --epochs 24
done_by "$@" --json -q --out long
grep -Eo '"(step|valid_loss|valid_accuracy|loss)": [0-9.]+' out >wanted
done_by "$@" -q --out long
says '^memory$' && says 'worker 0 +worker 1'
"$PENSTOCK" compare "$@" --out longer -q >out 2>err &
process=$!
evaluated() { grep -q valid_loss longer/rows/*/log.jsonl 2>/dev/null; }
until_so evaluated
kill -KILL $process
wait $process
ls longer/rows/*/summary.json >/dev/null 2>&1 && echo "    it was done before it was killed"
done_by "$@" --json -q --out longer
grep -Eo '"(step|valid_loss|valid_accuracy|loss)": [0-9.]+' out >got
# What it evaluated before is there, too.
[ "$(grep -c step got)" = 24 ] && cmp -s wanted got || complain "a row that was killed has other points: $(diff wanted got | head -n 5)"

begins "one profile for all rows"
set -- --train --model lenet5,input=16,classes=4 --data synthetic:images,samples=64,size=16,classes=4 --workers 1,2 --methods uniform \
    --schedules gpipe,1f1b --batch 16 --steps 2 --out profiled
done_by "$@"
[ "$(grep -c 'profiling lenet5' err)" = 1 ] || complain "profiled more than once"
for run in profiled/rows/*; do cmp -s "$run/profile.json" profiled/profile-1.json || complain "$run has a profile of its own"; done
says 'best first by the loss' && says 'workers +rank +schedule' && narrow
"$PENSTOCK" report profiled/rows/* -o page.html >out 2>err || complain "report of the rows"

# A search that is left the size of micro-batches tries several, of which all are measured.
done_by --train --model lenet5,input=16,classes=4 --data synthetic:images,samples=16,size=16,classes=4 --workers 2 --methods auto --schedules gpipe \
    --device reference --batch 16 --steps 1 --out sized -q
[ "$(grep -c '"micro_batch": ' sized/profile-1.json)" -eq 3 ] || complain "profiled for other sizes: $(grep '"micro_batch": ' sized/profile-1.json)"

begins "changed data"
awk 'BEGIN { for (i = 0; i < 48; i++) print i % 5 / 5 "," i % 7 / 7 "," i % 3 }' >numbers.csv
cat >mlp.json <<X
{"format": "penstock-network", "version": 1, "name": "mlp",
 "inputs": [{"name": "x", "type": "f32", "shape": [2]}],
 "targets": [{"name": "y", "type": "f32", "shape": [1]}],
 "nodes": [{"name": "hidden", "operator": "linear", "channels": 4}, {"name": "relu", "operator": "relu"},
           {"name": "last", "operator": "linear", "channels": 1}, {"name": "loss", "operator": "mse"}]}
X
set -- --train --model mlp.json --data csv:numbers.csv@0-32 --valid csv:numbers.csv@32-48 --workers 2 --methods uniform \
    --schedules gpipe,1f1b --batch 16 --steps 2 -q --out summed
done_by "$@"
cp out first
network=$(sed -n 's/.*"network": "\([0-9a-f]*\)".*/\1/p' summed/comparison.json)
grep -q "\"network\": \"${network:-none}\"" summed/rows/*gpipe*/config.json || complain "its network is '$network'"
done_by "$@"
cmp -s out first || complain "unchanged data: $(diff first out)"
find summed -type f -exec cksum {} + | sort >sums
cp numbers.csv kept.csv
# A digit of each part, which keeps the length.
for changed in data:10 valid:40; do
    awk -v line="${changed#*:}" 'NR == line { sub(/.$/, substr($0, length($0)) == "1" ? "0" : "1") } { print }' kept.csv >numbers.csv
    refused 2 "summed holds another comparison: --${changed%:*} has changed since" "$@"
    [ "$(grep -c '^penstock: ' err)" -eq 1 ] || complain "not one line"
done
find summed -type f -exec cksum {} + | sort | cmp -s - sums || complain "a refusal changed files"
# Directories of earlier versions have no checksums.
cp kept.csv numbers.csv
sed '/_checksum/d' summed/comparison.json >older && cp older summed/comparison.json
done_by "$@"
# A row that was interrupted has some: with other data it does not go on, and that is no result of the row.
rm summed/rows/*gpipe*/summary.json
awk 'NR == 10 { sub(/.$/, substr($0, length($0)) == "1" ? "0" : "1") } { print }' kept.csv >numbers.csv
cp older summed/comparison.json
refused 2 "have changed since the run was here" "$@"
cp kept.csv numbers.csv
done_by "$@"
says 'gpipe' && says '1f1b'

begins "precisions and codecs side by side"
done_by --train --model lenet5,input=16,classes=4 --data synthetic:images,samples=64,size=16,classes=4 --workers 2 --methods uniform \
    --precision f32,bf16 --wires none,int8 --batch 16 --steps 2 -q
says '^lenet5,input=16,classes=4: 2 workers' && says '^rank +wire +precision' && narrow
[ "$(grep -Ec '^ +[1-4] +(none|int8) +(f32|bf16) ' out)" = 4 ] || complain "not four rows: $(cat out)"
# Each network with its own data, in each precision.
done_by --train --model lenet5,input=16,classes=4 --model lenet5,input=16,channels=2,classes=3 --data synthetic:images,samples=64,size=16,classes=4 \
    --data synthetic:images,samples=64,size=16,channels=2,classes=3 --workers 2 --methods uniform --schedules gpipe --precision f32,bf16 --batch 16 \
    --steps 2 --csv - -q
sed 's/^"\([^"]*\)".*/\1/' out | sed 1d >models
printf '%s\n' lenet5,input=16,classes=4 lenet5,input=16,classes=4 lenet5,input=16,channels=2,classes=3 lenet5,input=16,channels=2,classes=3 |
    cmp -s - models || complain "networks in precisions: $(cat out)"

finish
