#!/bin/sh
# Checks what the documentation names: paths in backquotes and links are there, the functions of the section "Where to look" of
# ARCHITECTURE.md are in the files beside them, and commands have the options that they are shown with. Names with capitals such as
# NAME stand for others and are left out.
set -u
: "${PENSTOCK:?the path of the program}"

cd "$(dirname "$0")/.." || exit 1
failures=0
complain() {
    echo "$*" >&2
    failures=$((failures + 1))
}

# The anchors of a document's headings: small letters, no punctuation, hyphens for blanks.
anchors() { sed -n '/^#/s/^#* //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; }

for document in *.md docs/*.md docs/papers/*.md; do
    # `src/graph/graph.c`, also without src/ or docs/ in front.
    for path in $(grep -o '`[a-z_]*\(/[a-z0-9_]*\)*/[a-z0-9_]*\.[a-z]*`' "$document" | tr -d '`' | sort -u); do
        [ -e "$path" ] || [ -e "src/$path" ] || [ -e "docs/$path" ] || [ "${path##*/}" = name.c ] || complain "$document: there is no $path"
    done
    for path in $(grep -o '](\([^)#:]*\)[)#]' "$document" | sed 's/^](//; s/[)#]$//' | sort -u); do
        [ -e "$(dirname "$document")/$path" ] || complain "$document: there is no $path"
    done
    # FILE#heading, or #heading of the same document.
    for link in $(tr '\n' ' ' <"$document" | grep -o ']([^) :]*#[^) ]*)' | sed 's/^](//; s/)$//' | sort -u); do
        target=$(dirname "$document")/${link%%#*}
        [ "${link%%#*}" ] || target=$document
        anchors "$target" | grep -qxe "${link#*#}" || complain "$document: no heading of $target is #${link#*#}"
    done
done

# FILE... : FUNCTION... of each row. A file without a folder is beside the one before it.
sed -n '/^## Where to look/,/^| to add/p' ARCHITECTURE.md | awk -F'|' '/^\| / && $3 ~ /`src.*\.c`/ && $3 !~ /NAME/ {
    files = functions = folder = ""
    for (text = $3; match(text, /`[a-z0-9_\/]*\.c`/); text = substr(text, RSTART + RLENGTH)) {
        file = substr(text, RSTART + 1, RLENGTH - 2)
        if (file !~ /\//) file = folder file
        folder = file
        sub(/[^\/]*$/, "", folder)
        files = files " " file
    }
    for (text = $4; match(text, /`[a-z_]*`/); text = substr(text, RSTART + RLENGTH))
        functions = functions " " substr(text, RSTART + 1, RLENGTH - 2)
    print files " :" functions
}' >"${TMPDIR:-/tmp}/docs.$$"
[ -s "${TMPDIR:-/tmp}/docs.$$" ] || complain "ARCHITECTURE.md: no rows in 'Where to look'"
while read -r row; do
    for function in ${row##*:}; do
        # shellcheck disable=SC2086
        grep -qE "^[a-z].*\<$function\(" ${row%%:*} || [ "$function" = post ] || complain "ARCHITECTURE.md: no $function in ${row%%:*}"
    done
done <"${TMPDIR:-/tmp}/docs.$$"
rm -f "${TMPDIR:-/tmp}/docs.$$"

# The lists of ONNX's operators in docs/formats.md are the tables of the reader.
listed() { awk -v name="$1: " 'index($0, name) == 1 { on = 1 } on { print } on && /\.$/ { exit }' docs/formats.md | grep -o '`[A-Za-z0-9]*`' | tr -d '`' | sort; }
rows() { sed -n "s/^    {\"\([A-Za-z0-9]*\)\", $2.*/\1/p" "src/onnx/$1.c" | sort; }
[ -n "$(listed 'Of values')" ] || complain "docs/formats.md: no list of ONNX operators"
[ "$(listed 'Of values')" = "$(rows lower lower_)" ] || complain "docs/formats.md: other operators of values than in src/onnx/lower.c"
[ "$(listed 'Of constants alone')" = "$(rows lower NULL)" ] || complain "docs/formats.md: other operators of constants than in src/onnx/lower.c"
[ "$(listed Both)" = "$(rows fold '[a-z]' | while read -r op; do rows lower lower_ | grep -x "$op"; done)" ] ||
    complain "docs/formats.md: other operators of both than in src/onnx/fold.c"

# "FILE:LINE COMMAND OPTION", of what follows the word penstock in indented lines and in those between ```sh and ```, and of what
# begins with a command's name between backquotes.
"$PENSTOCK" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' >"${TMPDIR:-/tmp}/docs.$$.commands"
awk -v commands="$(tr '\n' ' ' <"${TMPDIR:-/tmp}/docs.$$.commands")" '
BEGIN { count = split(commands, list, " "); for (i = 1; i <= count; i++) is_command[list[i]] = 1 }
function look(text, quoted,    words, n, w, command) {
    gsub(/[;|&()]/, " & ", text)
    n = split(text, words, " ")
    command = quoted && words[1] in is_command ? words[1] : ""
    for (w = 1; w <= n; w++) {
        if (words[w] ~ /^([^ ]*\/)?penstock$/ && words[w + 1] ~ /^[a-z]+$/) {
            command = words[w + 1]
            if (!(command in is_command)) print FILENAME ":" FNR, command, "-"
        } else if (words[w] ~ /^([;|&)]|#)/) {
            command = ""
        } else if (command != "" && words[w] ~ /^--[a-z]/) {
            sub(/[^a-z0-9-].*/, "", words[w])
            print FILENAME ":" FNR, command, words[w]
        }
    }
}
FNR == 1 { code = 0; kept = "" }
/^```/ { code = !code && $0 == "```sh"; fence = !fence; next }
code || (!fence && /^    [^ ]/) || kept != "" {
    if (sub(/\\$/, "")) { kept = kept " " $0; next }
    look(kept " " $0, 0)
    kept = ""
    next
}
!fence { n = split($0, parts, "`"); for (p = 2; p <= n; p += 2) look(parts[p], 1) }
' *.md docs/*.md docs/papers/*.md python/*.md >"${TMPDIR:-/tmp}/docs.$$"
[ "$(wc -l <"${TMPDIR:-/tmp}/docs.$$")" -gt 200 ] || complain "no commands in the documents"
while read -r command; do
    "$PENSTOCK" "$command" --help | sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p' | sed "s/^/$command /"
done <"${TMPDIR:-/tmp}/docs.$$.commands" >"${TMPDIR:-/tmp}/docs.$$.options"
while read -r place command option; do
    grep -qxe "$command $option" "${TMPDIR:-/tmp}/docs.$$.options" || complain "$place: penstock $command has no $option"
done <"${TMPDIR:-/tmp}/docs.$$"
rm -f "${TMPDIR:-/tmp}/docs.$$" "${TMPDIR:-/tmp}/docs.$$".*

[ "$failures" -eq 0 ]
