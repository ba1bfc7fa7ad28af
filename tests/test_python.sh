#!/bin/sh
# The Python package: what is in its wheel does what its tests say (python/tests). The long test installs it by pip into a fresh
# environment, and adds everything with PyTorch, the notebook, docs/python.md and mypy. Where PYTHON (python3) has no numpy or pytest there is nothing to do.
# PENSTOCK_SOURCE and PENSTOCK_BUILD are the trees. (The rest stands in support.sh.)
. "$(dirname "$0")/support.sh"
: "${PENSTOCK_SOURCE:?the source tree}" "${PENSTOCK_BUILD:?the build tree}"
python=${PYTHON:-python3}
"$python" -c 'import sys, numpy, pytest; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "skipped: $python is older than 3.11, or has no numpy or pytest"
    exit 0
}
errors=out
tests=$PENSTOCK_SOURCE/python/tests
export PENSTOCK_SOURCE PYTHONDONTWRITEBYTECODE=1 ${PENSTOCK_MPIS:+PENSTOCK_TEST_MPI=1}
unset PENSTOCK_LIBRARY PENSTOCK_HEADER

begins "wheel"
cp -R "$PENSTOCK_SOURCE/python" "$PENSTOCK_SOURCE/include" "$PENSTOCK_SOURCE/LICENSE" "$PENSTOCK_SOURCE/CMakeLists.txt" . || exit 1
if [ -z "${PENSTOCK_TEST_ALL:-}" ]; then
    (cd python && "$python" -c "import build_backend; build_backend.build_wheel('..', {'build-dir': '$PENSTOCK_BUILD'})") >out 2>&1 &&
        "$python" -m zipfile -e ./*.whl site >out 2>&1 || complain "the wheel"
    begins "tests"
    PYTHONPATH=$PWD/site "$python" -m pytest "$tests/test_abi.py" "$tests/test_penstock.py" >out 2>&1 || complain "pytest"
    finish
    exit
fi
"$python" -m venv fresh >out 2>&1 || complain "venv"
fresh/bin/pip wheel ./python --no-deps --no-index -C build-dir="$PENSTOCK_BUILD" -w wheels >out 2>&1 || complain "pip wheel"
fresh/bin/pip install --no-deps --no-index wheels/*.whl >out 2>&1 || complain "pip install"
# The other packages are the interpreter's own.
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(echo fresh/lib/python*/site-packages)/others.pth"
begins "import"
fresh/bin/python -c 'import penstock; print(penstock.__version__, penstock.__file__)' >out 2>&1 &&
    grep -q "^[0-9.]* $PWD/fresh/" out || complain "import"
begins "tests"
fresh/bin/python -m pytest "$tests" >out 2>&1 || complain "pytest"
begins "docs/python.md"
if fresh/bin/python -c 'import torch, onnxscript' 2>/dev/null; then
    sed -n '/^```python$/,/^```$/p' "$PENSTOCK_SOURCE/docs/python.md" | sed '/^```/d' >page.py
    fresh/bin/python page.py >out 2>&1 || complain "the page's code fails"
else
    echo "skipped: $python has no torch or onnxscript"
fi
begins "mypy"
if fresh/bin/python -c 'import mypy' 2>/dev/null; then
    (cd python && ../fresh/bin/python -m mypy --cache-dir="$directory/mypy") >out 2>&1 || complain "mypy --strict"
else
    echo "skipped: $python has no mypy"
fi
finish
