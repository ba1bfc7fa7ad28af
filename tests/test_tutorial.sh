#!/bin/sh
# The commands of docs/tutorial.md, in its order, and the words of the output that it shows; those of the README and of
# docs/how-to.md that need no cluster, no PyTorch and no hours, with small networks and generated data in place of the ones they name.
. "$(dirname "$0")/support.sh"
docs=$(cd "$(dirname "$0")/../docs" && pwd) || exit 1
PATH="$(dirname "$PENSTOCK"):$PATH"
export NO_COLOR=1

# Blocks of the tutorial: N.sh, and N.text, which says what the last of them prints.
awk '/^```sh$/ { file = ++n ".sh"; next } /^```text$/ { file = n ".text"; next } /^```$/ { file = ""; next }
    file != "" { print > file }' "$docs/tutorial.md"

# What is measured decides the rest of a line with numbers, and the names of methods, schedules and policies.
penstock plan --help | grep -o '([a-z0-9, -]*)' | tr -d '(),' | tr ' ' '\n' >names
words() { tr -cs 'A-Za-z0-9_.%-' '\n' | grep -x '[A-Za-z_-]\{3,\}' | grep -vxFf ../names | sort -u; }
# wanted FILE: the words of lines without numbers, and the first ones of the others.
wanted() { sed 's/^\([A-Za-z_-]* \).*[0-9].*/\1/; /[0-9]/d' "$1" | words; }

mkdir tutorial && cd tutorial || exit 1
: >../before
block=1
while [ -f ../$block.sh ]; do
    begins "the tutorial's block $block"
    # What one block sets the next ones use.
    cat ../before ../$block.sh >../all.sh
    (set -e; . ../all.sh) >../out 2>../err || { errors=../err && complain "$(cat ../$block.sh): status $?"; }
    grep '^[a-z]*="' ../$block.sh >>../before
    if [ -f ../$block.text ]; then
        [ -s ../$block.text ] || complain "block $block shows no output"
        words <../out >../printed
        for word in $(wanted ../$block.text); do
            grep -qxFe "$word" ../printed || complain "block $block of the tutorial shows '$word', which is not printed"
        done
    fi
    block=$((block + 1))
done
[ $block -gt 8 ] || complain "the tutorial has only $((block - 1)) blocks"
cd ..

# Without those behind mpirun, which other tests run, and those on files of PyTorch's (test_own_network.sh).
mkdir pages && cd pages || exit 1
for page in "$docs/../README.md" "$docs/how-to.md"; do
    begins "$(basename "$page")"
    sed -n 's/^    \(penstock .*\)/\1/p' "$page" | grep -v 'net\.onnx\|runs/net' |
        sed 's/--model vgg16/--model lenet5/; s/blocks=3/blocks=1/; s/\(idx\|cifar10\):DIR/synthetic:images,samples=256/g' >../lines.sh
    while read -r line; do
        echo "$line" >../line.sh
        (. ../line.sh) >../out 2>../err </dev/null || { errors=../err && complain "$(basename "$page"): $line: status $?"; }
    done <../lines.sh
    [ "$(wc -l <../lines.sh)" -gt 10 ] || complain "$page has no commands"
done
cd ..
finish
