# Functions that the benchmarks share; sourced from the root of the repository.
#   penstock   the program              median NAME...   the median of numbers, one per line, on standard input
#   summary    mean and standard deviation of numbers, one per line
#   field      a number from JSON on standard input, by its name (the first of that name)
#   watch      starts counting the processor time of other programs; `others`: how many cores they have kept busy since
#   made_with  commit, compiler, versions of libraries, command and date, for a file of results
#   python_with MODULE   sets `python` to one that has the module; if none has it, the script says so and ends with status 77
#   needs_data           the same where PENSTOCK_DATA does not name the data sets
penstock=${PENSTOCK:-build/release/penstock}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
field() { awk -F'[:,]' -v name="\"$1\"" '{ key = $1; gsub(/[ \t]/, "", key) } key == name { print $2 + 0; exit }'; }
summary() { awk '{ s += $1; q += $1 * $1 } END { m = s / NR; print m, sqrt(NR > 1 ? (q - NR * m * m) / (NR - 1) : 0) }'; }
machine() { awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo 2>/dev/null || uname -m; }

ticks() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat 2>/dev/null || echo 0; }
own_ticks() { awk '{ print $14 + $15 + $16 + $17 }' /proc/$$/stat 2>/dev/null || echo 0; }
watch() { watched="$(ticks) $(own_ticks) $(date +%s%N)"; }
others() { echo "$watched $(ticks) $(own_ticks) $(date +%s%N)" | awk '{ print ($4 - $1 - $5 + $2) / 100 / (($6 - $3) / 1e9) }'; }

library() { sed -n "s/^$1:[A-Z]*=\(.*\)/\1/p" build/release/CMakeCache.txt 2>/dev/null | head -n 1; }
dnnl_version() {
    awk '/define DNNL_VERSION_(MAJOR|MINOR|PATCH) / { v = v dot $3; dot = "." } END { print v == "" ? "unknown" : v }' \
        "$(library ONEDNN_INCLUDE_DIR)/oneapi/dnnl/dnnl_version.h" 2>/dev/null || echo unknown
}
made_with() { # COMMAND
    echo "commit   $(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD -- src include bench ':!bench/results' 2>/dev/null || echo ', changed')"
    echo "program  $("$penstock" --version), $($(library CMAKE_C_COMPILER) --version 2>/dev/null | head -n 1)"
    echo "with     oneDNN $(dnnl_version), Jansson $(pkg-config --modversion jansson 2>/dev/null || echo unknown)"
    echo "command  $1"
    echo "date     $(date -u +%Y-%m-%d)"
}

python_with() {
    for python in ${PYTHON:-python3 /usr/bin/python3}; do
        ! "$python" -c "import $1" 2>/dev/null || return 0
    done
    echo "no python3 with $1: not measured (apt install python3-$1 libopenblas0)" >&2
    exit 77
}
needs_data() { [ -d "${PENSTOCK_DATA:-}" ] || { echo "PENSTOCK_DATA does not name the data sets: not measured" >&2; exit 77; }; }
