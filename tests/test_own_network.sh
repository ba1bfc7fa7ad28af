#!/bin/sh
# The walk of docs/own-network.md, with the real PyTorch: what is trained here has the same accuracy there.
. "$(dirname "$0")/support.sh"
page=$(cd "$(dirname "$0")/../docs" && pwd)/own-network.md || exit 1
for python in ${PYTHON:-python3}; do
    "$python" -c 'import torch, onnx, onnxscript, safetensors' 2>/dev/null || {
        echo "skipped: $python has no torch, onnx, onnxscript or safetensors"
        exit 0
    }
done
penstock() { "$PENSTOCK" "$@"; }

# A block of Python goes into the file that its first line names; those of commands follow each other in the page's order.
awk '/^```python$/ { getline; file = $2; next } /^```sh$/ { file = "commands.sh"; next } /^```$/ { file = ""; next }
    file != "" { print > file }' "$page"

begins "export"
"$python" export.py >out 2>err || complain "export.py fails"
begins "the commands of the page"
(set -e; . ./commands.sh) >out 2>err || complain "they end with status $?"
begins "back in PyTorch"
"$python" back.py >there 2>err || complain "back.py fails"
here=$(sed -n 's/.*accuracy \([0-9.]*%\).*/\1/p' out | tail -n 1) there=$(sed -n 's/.*accuracy //p' there)
[ -n "$here" ] && [ "$here" = "$there" ] || complain "accuracy $here here, $there in PyTorch"
begins "in ONNX Runtime"
if "$python" -c 'import onnxruntime' 2>/dev/null; then
    "$python" runtime.py >there 2>err || complain "runtime.py fails"
    there=$(sed -n 's/.*accuracy //p' there)
    [ "$here" = "$there" ] || complain "accuracy $here here, $there in ONNX Runtime"
else
    echo "skipped: $python has no onnxruntime"
fi
case $here in 100.00% | 2?.* | 1?.* | ?.*) complain "an accuracy of $here tells nothing" ;; esac
finish
