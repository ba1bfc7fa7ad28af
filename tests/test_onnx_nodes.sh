#!/bin/sh
# ONNX's backend node tests, for every operator that docs/formats.md lists: what is not refused computes what the test says.
. "$(dirname "$0")/support.sh"
tests=$(cd "$(dirname "$0")" && pwd) python=${PYTHON:-python3}
"$python" -c 'import onnx, numpy' 2>/dev/null || {
    echo "skipped: $python has no onnx"
    exit 0
}
begins "the node tests"
"$python" "$tests/onnx_nodes.py" "$PENSTOCK" "$tests/../docs/formats.md" >out 2>err || complain "the script ends with status $?"
grep '^failed' out >err && complain "outputs differ"
passed=$(sed -n 's/.*operators: .* \([0-9]*\) runs passed.*/\1/p; s/.*operators: \([0-9]*\) runs passed.*/\1/p' out)
[ "${passed:-0}" -ge 2000 ] || complain "only ${passed:-0} runs pass"
tail -n 2 out | head -n 1
finish
