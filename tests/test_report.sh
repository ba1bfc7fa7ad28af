#!/bin/sh
# Reports as users meet them: the page of a run and of several, its figures and no others, in a real browser where there is one;
# names that would break a page; runs that are damaged.
. "$(dirname "$0")/leaks.sh"
tests=$(cd "$(dirname "$0")" && pwd) python=${PYTHON:-python3}

# refused STATUS PATTERN ARGUMENT...: with one line, nothing on standard output, and no page.
page="-o page.html"
# shellcheck disable=SC2086
refused() {
    wanted=$1 pattern=$2
    shift 2
    rm -f page.html
    "$PENSTOCK" report $page "$@" >out 2>err
    status=$?
    [ $status -eq "$wanted" ] || complain "report $*: status $status, not $wanted"
    [ ! -s out ] && [ ! -e page.html ] || complain "report $*: wrote something"
    [ "$(grep -c '^penstock: ' err)" -eq 1 ] || complain "report $*: not one line"
    grep -Eq -- "^penstock: .*$pattern" err || complain "report $*: does not say '$pattern'"
}
done_by() { "$PENSTOCK" "$@" >out 2>err || complain "penstock $*: failed"; }

begins "runs to report"
train() { # NAME OPTION...
    name=$1
    shift
    done_by train --model lenet5 --data synthetic:images,samples=256 --valid synthetic:images,samples=64 --batch 16 --epochs 2 --lr 0.05 --out "$name" "$@"
}
train four --workers 4 --cores 4 --schedule 1f1b-async --weights pipeoptim --trace --tensorboard
train flush --workers 2 --schedule gpipe --micro-batches 4

begins "pages"
done_by report four -o four.html
grep -q "^four.html: " out || complain "report does not say what it wrote"
[ "$(wc -c <four.html)" -lt 2000000 ] || complain "the page of four workers has $(wc -c <four.html) bytes"
# Nothing is fetched: no address but that of SVG's namespace, no import, no style from elsewhere.
grep -o '[a-z]*://[^"'"'"' )<]*' four.html | grep -v '^http://www.w3.org/2000/svg$' && complain "the page names addresses"
grep -Eq '<(link|img|iframe|object|script [^t])|@import|url\(["'"'"']?[a-z]+:|fetch\(|XMLHttp|import\(' four.html && complain "the page loads something"
grep -q '"measured_transfers": *\[[0-9]' four.html || complain "the page has no measured transfers"
done_by report four flush -o both.html
done_by report flush -o flush.html
done_by report four --json
grep -q '"format": "penstock-report"' out || complain "no document"
[ "$(grep -c '"stash_bytes":' out)" = "$(sed -n 's/.*"layer_count": \([0-9]*\).*/\1/p' out)" ] || complain "not every layer"
done_by report --plan four/plan.json --profile four/profile.json --against four/trace.json -o plan.html
"$PENSTOCK" report four -o - >out 2>err && cmp -s out four.html || complain "standard output is another page"

begins "runs that have not finished"
cp -R four early && rm early/summary.json early/trace.json && printf '{"step": 9' >>early/log.jsonl
done_by report early -o early.html
cp -R four bare && rm bare/summary.json bare/trace.json bare/log.jsonl bare/profile.json
done_by report bare -o bare.html

begins "what is refused"
refused 2 "RUN_DIR is missing; give run directories, or --plan FILE and --profile FILE"
refused 2 "--profile is missing; --plan needs --profile FILE" --plan four/plan.json
refused 2 "--against: belongs to --plan FILE, which is missing" four --against four/trace.json
refused 2 "--profile: belongs to --plan FILE, which is missing" four --profile four/profile.json
refused 2 "9; a report is of 1 to 8" four four four four four four four four four
refused 2 "'33': more than 32 of RUN_DIR" $(seq 33)
refused 2 "RUN_DIR: the value is empty" ""
refused 3 "nowhere: is not a run's directory" nowhere
refused 3 "four/plan.json: is not a run's directory" four/plan.json
# damaged FILE SED: the file is named, in one line.
damaged() {
    rm -rf broken && cp -R four broken
    sed "$2" "four/$1" >"broken/$1"
    refused 3 "broken/$1" broken
}
damaged config.json '1s/{/[/'
damaged config.json 's/penstock-config/penstock-plan/'
damaged plan.json 's/"workers": 4/"workers": 5/'
damaged profile.json 's/forward_s/forwards_s/'
damaged summary.json '$s/}//'
damaged trace.json 's/"workers":4/"workers":3/'
damaged trace.json '5s/"ts":/"tz":/; s/"op":"F"/"op":"Q"/'
damaged trace.json 's/"cat":"activation"/"cat":"nothing"/'
damaged trace.json 's/"bytes":/"byte":/'
damaged log.jsonl '2s/^.*$/not a line/'
damaged log.jsonl '2s/^.*$/[1]/'
grep -q "line 2" err || complain "a damaged log: no line"
rm -rf broken && cp -R four broken && cp flush/plan.json broken/plan.json
refused 3 "broken/trace.json" broken

begins "names that would break a page"
long=$(printf '%4095s' '' | tr ' ' 'x')
hostile='</script><script>document.documentElement.dataset.error="in"<!--'
mkdir "a & \"b\" <i>'c" && cp -R four/. "a & \"b\" <i>'c"
mv "a & \"b\" <i>'c" hostile
sed 's|"data": ".*"|"data": "</script><script>document.documentElement.dataset.error=1</script><!-- '"$long"'"|; s|"device": ".*"|"device": "\\u2028\\"<!--\\ud83d\\ude00"|' four/config.json >hostile/config.json
cp -R hostile "$(printf 'x<\377>&"'"'")"
done_by report hostile "$(printf 'x<\377>&"'"'")" early bare --plan flush/plan.json --profile flush/profile.json --bandwidth 100MB/s -o hostile.html
[ "$(grep -o '</script>' hostile.html | wc -l)" -eq 2 ] || complain "a name ends the page's script"
[ "$(wc -c <hostile.html)" -lt 2000000 ] || complain "a name makes the page large"
grep -qE 'x{301}' hostile.html && complain "a text of any length stands in the page"

begins "the log as CSV"
done_by report four --csv - && cp out log.csv
[ "$(wc -l <log.csv)" -eq "$(($(wc -l <four/log.jsonl) + 1))" ] || complain "CSV: not a line for each of the log and one of names"
head -n 1 log.csv | grep -q '^step,epoch,loss,.*,busy_s_3,' || complain "CSV: other columns"
# The last line has all fields, and the log's numbers.
tail -n 1 four/log.jsonl | tr -d '{}[]" ' | tr ',' '\n' | sed 's/.*://' | grep -v null | sort -n >given
tail -n 1 log.csv | tr ',' '\n' | grep -v '^$' | sort -n >shown
awk 'NR == FNR { given[NR] = $1 + 0; next } given[FNR] != $1 + 0 { bad = 1 } END { exit bad || FNR < 20 }' given shown ||
    complain "CSV: other numbers than in the log"
page=
refused 2 "takes one run" four flush --csv x.csv
refused 2 "contradict each other" four --csv x.csv --json
refused 3 "nowhere: is not a run's directory" nowhere --csv x.csv

begins "TensorBoard"
set -- four/events.out.tfevents.*
[ $# -eq 1 ] && [ -s "$1" ] || complain "no event file"
"$PENSTOCK" train --model lenet5 --workers 2 --data synthetic:images --steps 1 --tensorboard >out 2>err && complain "--tensorboard without --out"
[ ! -e "$(echo flush/events*)" ] || complain "an event file that nobody asked for"
if "$python" -c "import tensorboard" 2>/dev/null; then
    # A run that goes on forgets what it had said of later steps.
    cp -R four again && sed 's/"epochs": 2/"epochs": 3/; s/"steps": 32/"steps": 48/' four/config.json >again/config.json
    milliseconds 1100
    "$PENSTOCK" train --resume again --epochs 3 --tensorboard -q >out 2>err || complain "going on with --tensorboard"
    "$python" "$tests/read_events.py" four again >out 2>err || complain "TensorBoard's reader: $(cat out)"
else
    echo "skipped: $python has no tensorboard"
fi

begins "in a browser"
browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $name >/dev/null || browser=$name
done
if [ -z "$browser" ]; then
    echo "skipped: no chromium"
    finish
    exit
fi

# opened PAGE [OPTION...]: as the script has made it, in the file dom; it has ended without an error, and nothing was said to the console.
opened() {
    page=$1
    shift
    timeout -k 5 100 $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$directory/browser" \
        --virtual-time-budget=5000 --enable-logging=stderr --window-size=1200,900 "$@" --dump-dom "file://$PWD/$page" 2>said >dom
    grep 'CONSOLE' said >err && complain "$page: the console has something"
    grep -q 'data-ready="yes"' dom || complain "$page: its script has not ended"
    grep -q '<html[^>]*data-error' dom && complain "$page: an error in its script"
}
# figures RUN NUMBER: each of the page's figures of this run is in summary.json, with all of its digits; there are at least 20.
figures() {
    grep -o "<data [^>]*data-run=\"$2\"[^>]*>" dom | sed 's/.*value="\([^"]*\)".*data-figure="\([^"]*\)".*/\2 \1/' | sort -u >shown
    # "workers.0.busy_s 1.5": the document has one field in a line.
    awk '/"workers": \[/ { inside = 1; worker = -1 }
        inside && /^    \{/ { worker++ }
        match($0, /"[a-z0-9_]+": [-0-9.e+]+/) { split(substr($0, RSTART, RLENGTH), pair, ": "); gsub(/"/, "", pair[1])
            print (/^      / && inside ? "workers." worker "." : "") pair[1], pair[2] }' "$1/summary.json" | sort -u >given
    awk 'NR == FNR { given[$1] = $2; next } !($1 in given) || given[$1] + 0 != $2 + 0 { print "    " $1, $2, "not", given[$1]; bad = 1 } END { exit bad }' given shown ||
        complain "$1: the page has other figures than summary.json"
    [ "$(wc -l <shown)" -ge 20 ] || complain "$1: the page has only $(wc -l <shown) figures of summary.json"
    grep -q '^samples_per_s ' shown && grep -q '^workers.1.memory_bytes ' shown || complain "$1: figures are missing"
}
opened four.html
figures four 0
for words in "Versions of weights" "The longest waits, measured" "The critical path" "What would help" "Layers and the cut"; do
    grep -q "$words" dom || complain "four.html: no '$words'"
done
opened both.html --force-dark-mode --blink-settings=preferredColorScheme=0
figures four 0
figures flush 1
grep -q "this run has no trace" dom || complain "both.html does not say how to get a trace"
opened hostile.html --window-size=380,800
for words in "this run has no trace" "has not finished" "this plan was not trained"; do
    grep -q "$words" dom || complain "hostile.html: no '$words'"
done

finish
