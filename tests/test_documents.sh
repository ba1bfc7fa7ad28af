#!/bin/sh
# What the program writes from its tables: man pages that groff takes without a warning and that have every option of the help,
# docs/commands.md, and completions that real shells complete with, where they are installed. (The rest stands in support.sh.)
. "$(dirname "$0")/support.sh"
reference=$(cd "$(dirname "$0")/../docs" && pwd)/commands.md
errors=err

begins "writing"
mkdir documents && "$PENSTOCK" --documents documents >out 2>err || complain "--documents fails"
[ ! -s out ] || complain "it prints"
begins "no directory"
"$PENSTOCK" --documents nowhere >out 2>err && complain "it does not fail"
grep -q "nowhere/man: No such file" err || complain "the message"

# The words of a text, or of a page without groff's escapes.
words() { sed 's/\\f[A-Z]//g; s/\\(../ /g' | tr -cs 'A-Za-z0-9' '\n' | LC_ALL=C sort; }

begins "man pages"
for page in documents/man/*.1; do
    command=$(basename "$page" .1)
    command=${command#penstock-}
    if command -v groff >/dev/null; then
        groff -ww -man -Tutf8 "$page" >page 2>err || complain "$page: groff fails"
        [ ! -s err ] || complain "$page: groff warns"
        [ "$command" = penstock ] || [ "$(grep -c . page)" -gt 30 ] || complain "$page: is short"
    fi
    grep -q '^\.SH EXIT STATUS' "$page" || complain "$page: no exit statuses"
    [ "$command" = penstock ] && continue
    [ "$(grep -cF ".BR penstock\\-$command (1)" documents/man/penstock.1)" -eq 2 ] || complain "penstock.1: not $command, once below COMMANDS and once at the end"
    "$PENSTOCK" "$command" --help | words >told
    words <"$page" | LC_ALL=C comm -23 told - | grep -vx 'Example\|Usage' >missing && complain "$page: no $(tr '\n' ' ' <missing)of its help"
    for option in $("$PENSTOCK" "$command" --help | sed -n 's/^  \(-., \|    \)--\([a-z0-9-]*\).*/\2/p'); do
        grep -qF "\\-\\-$(printf %s "$option" | sed 's/-/\\-/g')\\fR" "$page" || complain "$page: --$option is missing"
    done
done
"$PENSTOCK" check --help | grep -q '^      --threads N .*(1 to 1024)$' || complain "the help of a number without its range"
[ "$(ls documents/man | wc -l)" -gt 10 ] || complain "pages are missing"

begins "docs/commands.md"
errors=differences
diff -u "$reference" documents/markdown/commands.md >differences ||
    complain "docs/commands.md is not what the program writes; build, then: cp build/release/documents/markdown/commands.md docs/"
errors=err

# complete WANTED WORD...: the last word is completed.
begins "bash"
complete() {
    wanted=$1
    shift
    bash -c '. documents/bash/penstock; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock
        printf "%s " "${COMPREPLY[@]}"' bash "$@" >out 2>err || complain "bash: $*"
    [ "$(cat out)" = "$wanted " ] && [ ! -s err ] || complain "bash completes '$*' as '$(cat out)', not '$wanted'"
}
if command -v bash >/dev/null; then
    mkdir files && touch files/profile.json && mkdir files/profiles
    complete "plan" penstock pla
    complete "--latency" penstock plan --lat
    complete "1f1b 1f1b-async 1f1b-so 1f1b-as 1f1b-star" penstock plan --schedule 1f
    complete "1f1b 1f1b-async 1f1b-so 1f1b-as 1f1b-star" penstock plan --schedule = 1f
    complete "files/profile.json" penstock plan --profile files/profile.
    complete "files/profiles" penstock evaluate --run files/p
    complete "" penstock plan --workers ""
    complete "madpipe,bapipe" penstock compare --methods madpipe,bap
    complete "simulate" penstock help sim
fi

begins "fish"
if command -v fish >/dev/null; then
    say() { HOME=$PWD fish --no-config -c "source documents/fish/penstock.fish; complete -C '$1'" 2>err | cut -f1 | tr '\n' ' '; }
    [ "$(say 'penstock pla')" = "plan " ] || complain "fish: commands"
    [ "$(say 'penstock plan --lat')" = "--latency " ] || complain "fish: options"
    [ "$(say 'penstock plan --schedule zb-')" = "zb-h1 zb-h2 zb-v " ] || complain "fish: names"
fi

begins "zsh"
if command -v zsh >/dev/null; then
    # In a terminal of its own: the word that Tab completes is echoed.
    cat >keys.zsh <<'X'
zmodload zsh/zpty
zpty shell 'env HOME=$PWD PS1= TERM=dumb zsh -f -i'
say() { zpty -w shell "$1"; }
say 'fpath=($PWD/documents/zsh $fpath); autoload -U compinit; compinit -u -D; unsetopt zle_bracketed_paste; penstock() { print -r -- "given: $*"; }; print ready'
zpty -r shell text '*ready*ready*'
zpty -w -n shell $'penstock pla\t--lat\t5us --schedule zb-\t\n'
zpty -r shell text '*given: *'$'\n'
print -r -- "$text"
X
    timeout 60 zsh -f keys.zsh >out 2>err
    grep -q "^given: plan --latency=5us --schedule zb-" out && grep -q "^zb-h1 *zb-h2 *zb-v" out || complain "zsh: $(cat out)"
fi
finish
