#!/bin/sh
# What the shared library exports, and how large its structs are (x86-64): programs that were built with an earlier header rely on
# both. A difference is a change of the library's version, or a mistake. PENSTOCK_REGENERATE=1 writes the lists anew.
. "$(dirname "$0")/support.sh"
: "${PENSTOCK_SOURCE:?the source tree}" "${PENSTOCK_BUILD:?the build tree}" "${CC:?the compiler}"
errors=out

compare() { # NAME: what came to be, in NAME, against the list
    list=$PENSTOCK_SOURCE/tests/$1
    begins "$1"
    [ -z "${PENSTOCK_REGENERATE:-}" ] || cp "$1" "$list"
    diff "$list" "$1" >out 2>&1 || complain "$1"
}

nm -D --defined-only "$PENSTOCK_BUILD/libpenstock.so" | awk '$3 ~ /^ps_/ {print $3}' | sort >symbols.txt
compare symbols.txt

# Each struct that the header defines.
{
    echo '#include <penstock.h>'
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    sed -n 's/^struct \(ps_[a-z_]*\) {$/    printf("%s %zu\\n", "\1", sizeof(struct \1));/p' "$PENSTOCK_SOURCE/include/penstock.h"
    echo '    return 0;'
    echo '}'
} >sizes.c
if [ "$(uname -m)" = x86_64 ]; then
    "$CC" -std=c11 -I"$PENSTOCK_SOURCE/include" sizes.c -o sizes 2>out || complain "the sizes of structs"
    ./sizes | sort >struct_sizes.txt
    compare struct_sizes.txt
fi

finish
