# Tables of a learning sweep. Each line of input is a training, with the fields separated by tabs: policy, optimizer, learning
# rate, seed, best validation accuracy (or "diverged"), the accuracies of all evaluations, last validation loss, errors of
# predicted and of newest weights, BLEU at the end, BLEU of all evaluations.
BEGIN {
    FS = "\t"
    order = "sync latest stash 2bw spectrain xpipe pipeoptim horizon latest+r spectrain+r xpipe+r pipeoptim+r " \
        "sync/4 latest/4 stash/4 spectrain/4 xpipe/4 pipeoptim/4 horizon/4"
}

function spread(sum, squares, n) { return n > 1 ? sprintf("%.2f", deviation(sum, squares, n)) : "-" }
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
    for (e = $11 != "-" ? split($11, bleu_at, ",") : 0; e > 0; e--) { way[key, e] += bleu_at[e]; ways[key, e]++ }
}

# BLEU after each evaluation, the mean over the seeds; nothing where none was counted.
function by_evaluation(group, policy,   key, e) {
    key = group " " policy
    if (!((key, 1) in way)) return
    printf "%s: BLEU of validation sentences by evaluation", policy
    for (e = 1; (key, e) in way; e++) printf " %.2f", way[key, e] / ways[key, e]
    print ""
}

# A policy's advantage over another: mean and deviation of the differences between runs from the same seed.
function advantage(group, policy, other,   seed, d, s, q, c) {
    for (seed in seeds)
        if ((group " " policy SUBSEP seed) in best && (group " " other SUBSEP seed) in best) {
            d = best[group " " policy, seed] - best[group " " other, seed]; s += d; q += d * d; c++
        }
    if (c) printf "  %s %+.2f (%s)", other, s / c, spread(s, q, c)
}

END {
    policies = split(order, policy, " ")
    for (g = 1; g <= group_count; g++) {
        group = groups[g]; split(group, part, " ")
        printf "\n%s, learning rate %s: best validation accuracy in %%\n", part[1], part[2]
        printf "%-11s %5s %7s %7s %7s %7s %11s %11s", "policy", "seeds", "mean", "spread", "lowest", "highest", "valid loss", "prediction"
        for (i = 1; i <= policies && !shown; i++) shown = (group " " policy[i]) in bleu
        print shown ? "         BLEU" : ""
        for (i = 1; i <= policies; i++) {
            key = group " " policy[i]
            if (lost[key]) note = "  diverged: " lost[key]; else note = ""
            if (!n[key]) { if (lost[key]) printf "%-11s %5d%s\n", policy[i], 0, note; continue }
            printf "%-11s %5d %7.2f %7s %7.2f %7.2f %11.5g %11s", policy[i], n[key], sum[key] / n[key],
                spread(sum[key], squares[key], n[key]), low[key], high[key], loss[key] / n[key],
                ratios[key] ? sprintf("%.2f", ratio[key] / ratios[key]) : "-"
            if (translated[key]) printf " %6.2f (%s)", bleu[key] / translated[key], spread(bleu[key], bleus[key], translated[key])
            print note
        }
        for (i = 1; i <= policies; i++) by_evaluation(group, policy[i])
        for (i = 1; i <= policies; i++) {
            if (policy[i] !~ /^(pipeoptim|horizon)/ || !n[group " " policy[i]]) continue
            printf "%s over", policy[i]
            cut = policy[i] ~ /\/4$/ ? "/4" : "" # beside those with as many micro-batches, and sync with one
            advantage(group, policy[i], "sync"); advantage(group, policy[i], "latest" cut); advantage(group, policy[i], "stash" cut)
            print ""
        }
    }
}
