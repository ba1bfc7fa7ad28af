# Tables of a learning sweep. A line of input is a training, by tabs: policy, optimizer, learning rate, seed, best validation accuracy
# (or "diverged"), the accuracies of all evaluations, last validation loss, errors of predicted and of newest weights, BLEU.
BEGIN { FS = "\t"; order = "sync latest stash 2bw spectrain xpipe pipeoptim" }

function deviation(sum, squares, n,   v) { v = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0; return sqrt(v > 0 ? v : 0) }

NF >= 5 {
    group = $2 " " $3
    if (!(group in seen)) { seen[group]; groups[++group_count] = group }
    key = group " " $1
    if ($5 == "diverged") { lost[key]++; next }
    value = 100 * $5
    n[key]++; sum[key] += value; squares[key] += value * value; loss[key] += $7
    if (n[key] == 1 || value < low[key]) low[key] = value
    if (n[key] == 1 || value > high[key]) high[key] = value
    best[key, $4] = value; seeds[$4]
    if ($8 != "-" && $9 > 0) { ratio[key] += $8 / $9; ratios[key]++ }
    if ($10 != "-" && $10 != "") { bleu[key] += $10; bleus[key] += $10 * $10; translated[key]++ }
}

# PipeOptim's advantage over another policy: mean and deviation of the differences between runs from the same seed.
function advantage(group, other,   seed, d, s, q, c) {
    for (seed in seeds)
        if ((group " pipeoptim" SUBSEP seed) in best && (group " " other SUBSEP seed) in best) {
            d = best[group " pipeoptim", seed] - best[group " " other, seed]; s += d; q += d * d; c++
        }
    if (c) printf "  %s %+.2f (%.2f)", other, s / c, deviation(s, q, c)
}

END {
    policies = split(order, policy, " ")
    for (g = 1; g <= group_count; g++) {
        group = groups[g]; split(group, part, " ")
        printf "\n%s, learning rate %s: best validation accuracy in %%\n", part[1], part[2]
        printf "%-10s %5s %7s %7s %7s %7s %11s %11s", "policy", "seeds", "mean", "spread", "lowest", "highest", "valid loss", "prediction"
        for (i = 1; i <= policies && !shown; i++) shown = (group " " policy[i]) in bleu
        print shown ? "         BLEU" : ""
        for (i = 1; i <= policies; i++) {
            key = group " " policy[i]
            if (lost[key]) note = "  diverged: " lost[key]; else note = ""
            if (!n[key]) { if (lost[key]) printf "%-10s %5d%s\n", policy[i], 0, note; continue }
            printf "%-10s %5d %7.2f %7.2f %7.2f %7.2f %11.4f %11s", policy[i], n[key], sum[key] / n[key],
                deviation(sum[key], squares[key], n[key]), low[key], high[key], loss[key] / n[key],
                ratios[key] ? sprintf("%.2f", ratio[key] / ratios[key]) : "-"
            if (translated[key]) printf " %6.2f (%.2f)", bleu[key] / translated[key], deviation(bleu[key], bleus[key], translated[key])
            print note
        }
        printf "pipeoptim over"; advantage(group, "sync"); advantage(group, "latest"); advantage(group, "stash"); print ""
    }
}
