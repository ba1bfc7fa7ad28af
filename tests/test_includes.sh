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

for module in src/*; do
    printf '%s\n' "$table" | grep -q "^${module#src/}:" || complain "$module: not in the table of ARCHITECTURE.md"
done

# The table, then every line that includes, as FILE:LINE. Names without a folder would be found beside the file; all includes are
# rooted at src/. What cli may include is what both sides of <penstock.h> read alike: units on the command line, where files can be
# written, how text is shown, the variables of launchers.
{
    printf '%s\n' "$table"
    grep -rE '^[[:space:]]*#[[:space:]]*include' src --include='*.[ch]' --include='*.def'
} | awk '
    function complain(what) { print file ": includes " what; failed = 1 }
    !/^src\// { split($0, row, / *: */); allowed[row[1]] = row[2]; next }
    {
        file = name = $0
        sub(/:.*/, "", file)
        sub(/^[^">]*["<]/, "", name)
        sub(/[">].*/, "", name)
        split(file, folders, "/")
        split(name, parts, "/")
        module = folders[2]
        other = parts[1]
        if (name ~ /^dnnl.*\.h$/ && file !~ /^src\/compute\/cpu\//) complain(name "; only src/compute/cpu/ may")
        if (name == "mpi.h" && file != "src/comm/transports/mpi.c") complain("mpi.h; only src/comm/transports/mpi.c may")
        if (name !~ /\// && /include[ \t]*"/) complain("\"" name "\"; say which module it is in")
        if (name !~ /\// || !(other in allowed) || other == module) next
        if (module == "cli" && name ~ /^(base\/(file|text|units)|comm\/launch)\.h$/) next
        if (index(" " allowed[module] " ", " " other " ") == 0)
            complain("\"" name "\", but " module " may only include: " allowed[module])
    }
    END { exit failed }' >&2 || failures=$((failures + 1))

# What depends on the program's locale: base/number.h and base/json.h have the same without. The command line sets no locale.
for file in $(grep -rlE '\<(strto[df]|strtold|atof|json_load[bsf]?|json_loads|json_dump[sf])\(' src --include='*.[ch]' |
    grep -vE '^src/(base/(number|json)\.c|cli/)'); do
    complain "$file: reads or writes numbers by the program's locale; see base/number.h and base/json.h"
done

for header in include/penstock.h $(find src tests -name '*.h' | sort); do
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
