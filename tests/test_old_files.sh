#!/bin/sh
# The files that every version wrote, in fixtures/VERSION (fixtures/make): this version reads them, and a run of that version goes
# on to the same weights. (What PENSTOCK is stands in support.sh.)
fixtures=$(cd "$(dirname "$0")" && pwd)/fixtures
. "$(dirname "$0")/support.sh"
[ "$(ls -d "$fixtures"/*/ | wc -l)" -ge 2 ] || complain "no files in $fixtures"

# says COMMAND...: done, without a warning
says() {
    "$PENSTOCK" "$@" >out 2>err || complain "$version: $*: status $?"
    ! grep -q warning err || complain "$version: $*: a warning"
}

# numbers FILE.safetensors: what follows its header, to which later versions add
numbers() { tail -c "+$(($(od -An -tu8 -N8 "$1") + 9))" "$1"; }

for version in "$fixtures"/*/; do
    version=$(basename "$version")
    begins "$version"
    rm -rf files && cp -R "$fixtures/$version" files

    says models --model files/network.json
    says program --check files/program.txt
    says program --plan files/plan.json --batches 3
    # The same instructions; other lines may have changed.
    grep '^worker ' files/program.txt >wanted
    grep '^worker ' out | cmp -s - wanted || complain "$version: other programs of the same plan"
    says simulate --plan files/plan.json --profile files/profile.json --cluster files/cluster.json --json
    says plan --profile files/profile.json --cluster files/cluster.json -o again.json -q

    says evaluate --run files/run --data synthetic:images,samples=8 --device reference --json -q
    says train --resume files/run -q
    says export --run files/run -q -o weights.safetensors
    numbers weights.safetensors >own
    numbers files/weights.safetensors | cmp -s - own || complain "$version: a resumed run ends with other weights"
    says evaluate --run files/run --data synthetic:images,samples=8 --device reference --json -q
    [ "$(grep -o '"loss": [0-9.]*' out)" = "$(grep -o '"loss": [0-9.]*' files/evaluation.json)" ] || complain "$version: another loss"

    # What only a later version can write is refused in one line that says so.
    for file in plan.json profile.json network.json cluster.json; do
        sed 's/"version": 1,/"version": 2,/; s/"version":1,/"version":2,/' "files/$file" >later.json
        case $file in
        plan.json) "$PENSTOCK" program --plan later.json ;;
        profile.json) "$PENSTOCK" plan --profile later.json --workers 2 ;;
        network.json) "$PENSTOCK" models --model later.json ;;
        cluster.json) "$PENSTOCK" plan --profile files/profile.json --cluster later.json ;;
        esac >out 2>err
        [ $? -eq 3 ] || complain "$version: a later $file is not refused"
        [ "$(grep -c version err)" -eq 1 ] || complain "$version: not one line about the version of $file"
    done
done
finish
