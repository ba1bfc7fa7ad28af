#!/bin/sh
# Checks that every header compiles alone, those that a device's sources include as C++ too (CUDA's compilers take nothing else),
# that files include only what ARCHITECTURE.md allows their module, and that no number depends on the program's locale.
# Usage: test_includes.sh SOURCE_DIRECTORY COMPILER [COMPILER FLAG...]
set -u

root=$1 compiler=$2
shift 2
failures=0

complain() {
    echo "$*" >&2
    failures=$((failures + 1))
}

cd "$root" || exit 1
# "MODULE: MODULE..." lines of the fenced block marked `includes`.
table=$(sed -n '/^```includes$/,/^```$/{/^```/d;p}' ARCHITECTURE.md)
[ -n "$table" ] || { echo "ARCHITECTURE.md: no block marked \`includes\`" >&2; exit 1; }

# The files that FILE includes by #include "..." (project) or <...> (system).
included() { # FILE
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]\([^">]*\)[">].*/\1/p' "$1"
}

check_module() { # FILE MODULE
    allowed=$(printf '%s\n' "$table" | sed -n "s/^$2:[[:space:]]*//p")
    printf '%s\n' "$table" | grep -q "^$2:" || complain "src/$2: not in the table of ARCHITECTURE.md"
    for header in $(included "$1"); do
        case $header in
        dnnl*.h) case $1 in src/compute/cpu/*) ;; *) complain "$1: includes $header; only src/compute/cpu/ may" ;; esac ;;
        mpi.h) [ "$1" = src/comm/transports/mpi.c ] || complain "$1: includes mpi.h; only src/comm/transports/mpi.c may" ;;
        esac
        # What both sides of <penstock.h> read alike: units on the command line, where files can be written, the variables of launchers.
        case $2:$header in cli:base/file.h | cli:base/units.h | cli:comm/launch.h) continue ;; esac
        other=${header%%/*}
        [ "$other" != "$header" ] && [ -d "src/$other" ] || continue
        case " $2 $allowed " in
        *" $other "*) ;;
        *) complain "$1: includes \"$header\", but $2 may only include: $2 $allowed" ;;
        esac
    done
    # Names without a folder would be found beside the file; all includes are rooted at src/.
    for header in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"/]*\)".*/\1/p' "$1"); do
        complain "$1: includes \"$header\"; say which module it is in"
    done
}

# The kernels of src/compute/cuda/sources/ are compiled where they run, in a folder of their own.
for file in $(find src -name sources -prune -o \( -name '*.[ch]' -o -name '*.def' \) -print | sort); do
    module=${file#src/}
    check_module "$file" "${module%%/*}"
done

# What depends on the program's locale: base/number.h and base/json.h have the same without. The command line sets no locale.
for file in $(grep -rlE '\<(strto[df]|strtold|atof|json_load[bsf]?|json_loads|json_dump[sf])\(' src --include='*.[ch]' |
    grep -vE '^src/(base/(number|json)\.c|cli/)'); do
    complain "$file: reads or writes numbers by the program's locale; see base/number.h and base/json.h"
done

for header in include/penstock.h $(find src tests -name sources -prune -o -name '*.h' -print | sort); do
    output=$("$compiler" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Iinclude -Isrc -Itests "$@" -fsyntax-only -x c \
        -include "$header" /dev/null 2>&1) || complain "$header does not compile alone: $output"
done

plus=
for name in c++ g++ clang++; do
    [ -n "$plus" ] || plus=$(command -v "$name")
done
for header in ${plus:+include/penstock.h $(find src/base src/graph src/compute -maxdepth 1 -name '*.h' | sort)}; do
    output=$("$plus" -std=c++17 -D_GNU_SOURCE -Wall -Wextra -Werror -Iinclude -Isrc "$@" -fsyntax-only -x c++ \
        -include "$header" /dev/null 2>&1) || complain "$header does not compile as C++: $output"
done

[ "$failures" -eq 0 ]
