#!/bin/sh
# A run that goes on has the data that it had, or says so: files that changed since are refused unless they are given anew, and the
# record of a run that had ended stays as it is. (What PENSTOCK is stands in support.sh.)
. "$(dirname "$0")/support.sh"

awk 'BEGIN { srand(1); for (i = 0; i < 96; i++) { a = rand(); b = rand(); print a "," b "," a * b } }' >numbers.csv
cat >mlp.json <<'END'
{"format": "penstock-network", "version": 1, "name": "mlp",
 "inputs": [{"name": "x", "type": "f32", "shape": [2]}],
 "targets": [{"name": "y", "type": "f32", "shape": [1]}],
 "nodes": [{"name": "hidden", "operator": "linear", "channels": 4}, {"name": "relu", "operator": "relu"},
           {"name": "last", "operator": "linear", "channels": 1}, {"name": "loss", "operator": "mse"}]}
END
mkdir -p images/0 images/1
for class in 0 1; do
    for i in 0 1 2 3; do
        printf '%s' iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== | base64 -d \
            >images/$class/$i.png
    done
done

# run NAME OPTIONS...: a run of 8 steps, and NAME-half, as it was after 4.
run() {
    name=$1
    shift
    "$PENSTOCK" train --workers 1 --batch 4 --steps 8 --checkpoint-every 4 --keep-checkpoints 9 --device reference --lr 0.01 -q "$@" \
        --out "$name" >out 2>err || complain "$name: status $?"
    [ -e "$name/checkpoints/000008" ] || complain "$name: no checkpoint of step 8"
    cp -R "$name" "$name-half" && rm -rf "$name-half/checkpoints/000008" "$name-half/summary.json"
}

# refused NAME: by one line, with status 2, without a change of its files
refused() {
    before=$(find "$1" -type f | sort | xargs cat | cksum)
    "$PENSTOCK" train --resume "$1" -q >out 2>err
    [ $? -eq 2 ] && grep -q 'have changed since the run was here' err || complain "$1: changed data are not refused"
    [ "$(grep -c '^penstock: ' err)" -eq 1 ] || complain "$1: not one line"
    [ "$before" = "$(find "$1" -type f | sort | xargs cat | cksum)" ] || complain "$1: its files were changed"
}

begins "runs"
run numbers --model mlp.json --data csv:numbers.csv@0-64 --valid csv:numbers.csv@64-96
run pictures --model lenet5,input=16,channels=3,classes=2 --data images:images

begins "unchanged"
cp -R numbers-half numbers-again
"$PENSTOCK" train --resume numbers-again -q >out 2>err || complain "unchanged: status $?"
[ "$(sum numbers-again)" = "$(sum numbers)" ] || complain "unchanged: other weights"

begins "changed"
cp numbers.csv kept.csv
# The last digit of the 60th line, which keeps its length; then one of validation.
awk 'NR == 60 { sub(/.$/, substr($0, length($0)) == "3" ? "4" : "3") } { print }' kept.csv >numbers.csv
refused numbers-half
grep -q '`*data`*: csv:numbers.csv@0-64 have changed' err || complain "changed: does not name the data"
awk 'NR == 90 { sub(/.$/, substr($0, length($0)) == "3" ? "4" : "3") } { print }' kept.csv >numbers.csv
refused numbers-half
touch -d 2001-01-01 images/1/2.png
refused pictures-half

begins "given anew"
"$PENSTOCK" train --resume numbers-half --valid csv:numbers.csv@64-96 >out 2>err || complain "given anew: status $?"
grep -q 'valid.*: the run goes on with other data, csv:numbers.csv@64-96' err || complain "given anew: nothing is said of it"
"$PENSTOCK" train --resume pictures-half --data images:images -q >out 2>err || complain "images given anew: status $?"

begins "a run that had ended"
before=$(find numbers -type f | sort | xargs cat | cksum)
cp kept.csv numbers.csv
awk '{ print $0 "1" }' kept.csv >other.csv
"$PENSTOCK" train --resume numbers --data csv:other.csv@0-64 >out 2>err || complain "resumed after its end: status $?"
grep -q 'numbers had ended; it stays as it is' err || complain "resumed after its end: nothing is said of it"
[ "$before" = "$(find numbers -type f | sort | xargs cat | cksum)" ] || complain "resumed after its end: its files were changed"
finish
