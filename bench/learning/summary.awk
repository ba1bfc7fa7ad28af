# All tasks in two tables, mini-batches of one micro-batch and of four: the mean best validation accuracy of each policy; and the gain
# of pipeoptim and horizon over others from the same seeds.
# Input: the results files of the sweeps (bench/learning/sweep.sh), one after the other. A run that diverged is counted as such and is
# in no mean.
BEGIN {
    FS = "\t"
    pairs = split("pipeoptim sync pipeoptim latest pipeoptim stash pipeoptim+r sync pipeoptim+r latest pipeoptim+r stash " \
        "pipeoptim/4 sync pipeoptim/4 sync/4 pipeoptim/4 latest/4 pipeoptim/4 stash/4 horizon sync horizon pipeoptim " \
        "horizon/4 sync/4 horizon/4 pipeoptim/4 horizon/4 latest/4 horizon/4 stash/4", pair, " ")
}

function deviation(sum, squares, n,   v) { v = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0; return sqrt(v > 0 ? v : 0) }
function spread_of(key) { return deviation(sum[key], squares[key], n[key]) }
function cell(key) { return !n[key] ? "-" : sprintf(n[key] > 1 ? "%.2f (%.2f) %d" : "%.2f (-) 1", sum[key] / n[key], spread_of(key), n[key]) }

# Compares two policies of one line over the seeds that both have.
function compare(line, ours, theirs,   seed, a, b, d, s, c, spread, mark) {
    a = line " " ours; b = line " " theirs
    for (seed in seeds) if ((a SUBSEP seed) in best && (b SUBSEP seed) in best) {
        d = best[a, seed] - best[b, seed]; s += d; c++
        gain[ours, theirs] += d; gains[ours, theirs] += d * d; both[ours, theirs]++
    }
    if (!c) return
    total[ours, theirs] += s / c; compared[ours, theirs]++
    if (n[a] < 2 || n[b] < 2) return # one seed has no spread
    spread = sqrt((spread_of(a) ^ 2 + spread_of(b) ^ 2) / 2)
    mark = s / c > spread ? "above" : s / c < -spread ? "below" : "within"
    marks[ours, theirs, mark]++
}

function table(title, names,   policy, policies, i, l, part, any) {
    policies = split(names, policy, " ")
    for (i = 1; i <= policies; i++) any = any || runs[policy[i]]
    if (!any) return
    print title ": best validation accuracy in %: mean, spread (standard deviation over seeds), number of seeds\n"
    printf "%-22s %-11s", "task", ""
    for (i = 1; i <= policies; i++) printf " %14s", policy[i]
    print ""
    for (l = 1; l <= count; l++) {
        split(lines[l], part, " "); printf "%-22s %-5s %5s", part[1], part[2], part[3]
        for (i = 1; i <= policies; i++) printf " %14s", cell(lines[l] " " policy[i])
        print ""
    }
    printf "%-22s %-11s", "runs that diverged", ""
    for (i = 1; i <= policies; i++) printf " %14s", runs[policy[i]] ? (lost[policy[i]] + 0) " of " runs[policy[i]] : "-"
    print "\n"
}

FNR == 1 { task = FILENAME; sub(/.*\//, "", task); sub(/\.tsv$/, "", task) }
{
    line = task " " $2 " " $3
    if (!(line in seen)) { seen[line]; lines[++count] = line }
    runs[$1]++
    if ($5 == "diverged") { lost[$1]++; next }
    key = line " " $1; value = 100 * $5
    best[key, $4] = value; seeds[$4]
    n[key]++; sum[key] += value; squares[key] += value * value
}

END {
    table("Mini-batches of one micro-batch (2bw: of four)", "sync latest stash 2bw spectrain xpipe pipeoptim pipeoptim+r horizon")
    table("Mini-batches of four micro-batches", "sync/4 latest/4 stash/4 spectrain/4 xpipe/4 pipeoptim/4 horizon/4")
    for (l = 1; l <= count; l++) for (i = 1; i < pairs; i += 2) compare(lines[l], pair[i], pair[i + 1])
    print "mean difference over the lines, and the standard error of the mean over pairs of runs from the same seeds;"
    print "lines of several seeds where it is above, within and below the spread of the two\n"
    printf "%-28s %6s %6s %6s %6s %7s %6s\n", "", "mean", "error", "lines", "above", "within", "below"
    for (i = 1; i < pairs; i += 2) {
        p = pair[i]; q = pair[i + 1]
        if (compared[p, q])
            printf "%-28s %+6.2f %6.2f %6d %6d %7d %6d\n", p " over " q, total[p, q] / compared[p, q],
                deviation(gain[p, q], gains[p, q], both[p, q]) / sqrt(both[p, q]), compared[p, q], marks[p, q, "above"],
                marks[p, q, "within"], marks[p, q, "below"]
    }
}
