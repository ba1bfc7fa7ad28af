# All tasks in one table: mean best validation accuracy of each policy, and what PipeOptim gains over sync, latest and stash from the same seeds.
# Input: the results files of the sweeps (bench/learning/sweep.sh), one after the other.
BEGIN { FS = "\t"; policies = split("sync latest stash 2bw spectrain xpipe pipeoptim", policy, " "); others = split("sync latest stash", other, " ") }

function deviation(sum, squares, n,   v) { v = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0; return sqrt(v > 0 ? v : 0) }

FNR == 1 { task = FILENAME; sub(/.*\//, "", task); sub(/\.tsv$/, "", task) }
{
    line = task " " $2
    if (!(line in seen)) { seen[line]; lines[++count] = line }
    value = $5 == "diverged" ? 0 : 100 * $5
    key = line " " $1
    best[key, $4] = value; seeds[$4]
    n[key]++; sum[key] += value; squares[key] += value * value
}

END {
    printf "%-22s %-5s %5s", "task", "", "seeds"
    for (i = 1; i <= policies; i++) printf " %9s", policy[i]
    print "   pipeoptim over sync         latest          stash"
    for (l = 1; l <= count; l++) {
        line = lines[l]; split(line, part, " ")
        printf "%-22s %-5s %5d", part[1], part[2], n[line " pipeoptim"]
        for (i = 1; i <= policies; i++) {
            key = line " " policy[i]
            printf " %9s", n[key] ? sprintf("%.2f", sum[key] / n[key]) : "-"
        }
        printf "  "
        for (o = 1; o <= others; o++) {
            s = q = c = 0
            for (seed in seeds)
                if (((line " pipeoptim") SUBSEP seed) in best && ((line " " other[o]) SUBSEP seed) in best) {
                    d = best[line " pipeoptim", seed] - best[line " " other[o], seed]; s += d; q += d * d; c++
                }
            if (!c) { printf " %14s", "-"; continue }
            a = line " pipeoptim"; b = line " " other[o]
            da = deviation(sum[a], squares[a], n[a]); db = deviation(sum[b], squares[b], n[b])
            spread = sqrt((da * da + db * db) / 2)
            mark = s / c > spread ? "+" : s / c < -spread ? "-" : "="
            printf " %14s", sprintf("%+.2f (%.2f) %s", s / c, deviation(s, q, c), mark)
            total[o] += s / c; lines_of[o]++; marks[o, mark]++
        }
        print ""
    }
    print "\npipeoptim over    mean   above  within  below   the spread (root mean square of both policies' deviations over seeds)"
    for (o = 1; o <= others; o++)
        if (lines_of[o]) printf "%-14s %+7.2f %7d %7d %6d\n", other[o], total[o] / lines_of[o], marks[o, "+"], marks[o, "="], marks[o, "-"]
}
