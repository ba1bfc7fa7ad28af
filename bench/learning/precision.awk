# Trainings in f32 and in bf16 side by side: for each task, optimizer and policy the mean best validation accuracy over the seeds that
# both have, its spread (standard deviation), and whether the means are nearer to each other than the larger spread.
# Input: the results files of the sweeps (bench/learning/sweep.sh), NAME.tsv and NAME_bf16.tsv.
# A run that diverged counts as such and is in no mean.
BEGIN { FS = "\t" }

function spread(key,   n, v) { n = runs[key]; v = n > 1 ? (squares[key] - sum[key] ^ 2 / n) / (n - 1) : 0; return sqrt(v > 0 ? v : 0) }
function cell(key) { return runs[key] ? sprintf("%6.2f (%5.2f)", sum[key] / runs[key], spread(key)) : "             -" }

{
    task = FILENAME; sub(/.*\//, "", task); sub(/\.tsv$/, "", task)
    type = sub(/_bf16$/, "", task) ? "bf16" : "f32"
    line = task SUBSEP $2 SUBSEP $1
    if (!(line in known)) { known[line] = 1; lines[++count] = line }
    accuracy[line, type, $4] = $5; seeds[$4] = 1
}

END {
    printf "%-24s %-5s %-10s %5s %15s %15s %8s  %s\n", "task", "", "policy", "seeds", "f32", "bf16", "apart", ""
    for (l = 1; l <= count; l++) {
        line = lines[l]; both = lost = ""
        for (seed in seeds) if (((line, "f32", seed) in accuracy) && ((line, "bf16", seed) in accuracy)) {
            both++
            for (t = 0; t < 2; t++) {
                type = t ? "bf16" : "f32"; value = accuracy[line, type, seed]; key = line SUBSEP type
                if (value == "diverged") { lost = lost " " type; continue }
                runs[key]++; sum[key] += 100 * value; squares[key] += (100 * value) ^ 2
            }
        }
        if (!both) continue
        a = line SUBSEP "f32"; b = line SUBSEP "bf16"; apart = "-"; says = ""
        if (runs[a] && runs[b]) {
            apart = sum[b] / runs[b] - sum[a] / runs[a]
            most = spread(a) > spread(b) ? spread(a) : spread(b)
            if (runs[a] > 1 && runs[b] > 1) says = apart <= most && apart >= -most ? "within" : apart > 0 ? "above" : "below"
            apart = sprintf("%+.2f", apart)
        }
        split(line, part, SUBSEP)
        printf "%-24s %-5s %-10s %5d %15s %15s %8s  %s%s\n", part[1], part[2], part[3], both, cell(a), cell(b), apart, says,
            lost == "" ? "" : "; diverged:" lost
    }
}
