# support.sh, for tests of commands that end by themselves: what one has not freed when it ends is said on standard error, and its
# status is 23. PENSTOCK becomes a script that runs the program, $plain, with gcc's leak sanitizer, if that can be had and the program has
# no sanitizer of its own.
. "$(dirname "$0")/support.sh"
plain=$PENSTOCK
lsan=$(${CC:-cc} -print-file-name=liblsan.so 2>/dev/null)
if [ "${lsan#/}" != "$lsan" ] && ! ldd "$plain" | grep -q 'lib[a-z]*san[.]' && LD_PRELOAD=$lsan env true 2>/dev/null; then
    printf '#!/bin/sh\nLD_PRELOAD="%s" LSAN_OPTIONS=exitcode=23 exec "%s" "$@"\n' "$lsan" "$plain" >"$directory/checked"
    chmod +x "$directory/checked"
    PENSTOCK=$directory/checked
fi
