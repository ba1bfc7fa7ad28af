# Draws a figure as SVG, in the style of Penstock's timelines. Standard input:
#   title TEXT          x TEXT          y TEXT          columns N (panels in a row)
#   size WIDTH HEIGHT   of a panel
#   from Y, to Y        ends of the y axis, after `panel` of that one's; else 0 and what the figures need
#   apart               each panel has axes of its own
#   panel TITLE [@ X]   begins another panel, with a text of its own at its x axis
#   line NAME [dashed|points] [LIKE]    begins a series; with LIKE it has the colour of the series of that name
#   bars NAME                           begins a series of bars, one beside the other at each x
#   X Y                 a point; X may be a word, in order of appearance. A point `-` breaks the line.
function nice(span,  step) {
    step = 10 ^ int(log(span / 4) / log(10) + 100) / 10 ^ 100
    if (span / step > 20) return 5 * step
    return span / step > 8 ? 2 * step : step
}
function text(x, y, s, more) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    printf "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n", x, y, more, s
}
function number(v) { return v == int(v) ? sprintf("%d", v) : sprintf("%.4g", v) }
BEGIN {
    split("#3b74c0 #d9822b #3f8f57 #a355c9 #e0575b #b0a04a #4c566a #2aa198", palette, " ")
    columns = 4; width = 220; height = 150; panels = 0
}
$1 == "title" || $1 == "x" || $1 == "y" { key = $1; sub(/^[a-z]+ /, ""); label[key] = $0; next }
$1 == "columns" { columns = $2; next }
$1 == "size" { width = $2; height = $3; next }
$1 == "from" || $1 == "to" { end[$1, panels] = $2; next }
$1 == "apart" { apart = 1; next }
$1 == "panel" { sub(/^panel /, ""); name[++panels] = $0; if (split($0, part, / @ /) > 1) { name[panels] = part[1]; below[panels] = part[2] } next }
$1 == "line" || $1 == "bars" {
    if (!panels) panels = 1
    style[++series] = $1 == "bars" ? "bars" : $3
    like = $4 != "" ? $4 : $2
    if (!(like in colour)) colour[like] = palette[1 + (colours++ % 8)]
    of[series] = panels; called[series] = $2; paint[series] = colour[like]
    if (!($2 in legend)) { legend[$2] = series; order[++entries] = $2 }
    next
}
NF >= 2 {
    n = ++points[series]
    if ($1 + 0 != $1 || words || style[series] == "bars") { words = 1; if (!($1 in place)) { place[$1] = ++placed; word[placed] = $1 } px[series, n] = place[$1] }
    else px[series, n] = $1 + 0
    py[series, n] = $2
    for (p = 0; p <= panels; p += panels) {
        if ($2 != "-" && $2 > tops[p]) tops[p] = $2
        if ($1 != int($1)) broken[p] = 1
        if (!any[p]++ || px[series, n] < lows[p]) lows[p] = px[series, n]
        if (any[p] == 1 || px[series, n] > highs[p]) highs[p] = px[series, n]
    }
}
function end_of(which, p, usual) { return (which, p) in end ? end[which, p] : (which, 0) in end ? end[which, 0] : usual }
function axes(panel,  p) {
    p = apart ? panel : 0
    from = end_of("from", panel, 0)
    to = end_of("to", panel, tops[p] * 1.05)
    if (to <= from) to = from + 1
    low = lows[p]; high = highs[p]
    if (barred || words) { low -= 0.6; high += 0.6 }
    if (high <= low) high = low + 1
    step = nice(to - from)
    xstep = nice(high - low); if (!words && xstep < 1 && (high - low >= 4 || !broken[p])) xstep = 1
}
END {
    for (s = 1; s <= series; s++) if (style[s] == "bars") { bars[of[s]]++; barred = 1; slot[s] = bars[of[s]] }
    if (columns > panels) columns = panels
    left = 56; head = 34 + 20 * int((entries + 5) / 6)
    rows = int((panels + columns - 1) / columns)
    titles = name[1] != "" ? 18 : 0
    all_w = columns * (width + left) + 24; all_h = head + rows * (height + 44 + titles) + 6
    if (all_w < 40 + 8.6 * length(label["title"])) all_w = int(40 + 8.6 * length(label["title"]))
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"11\" fill=\"#2e3440\">\n", all_w, all_h, all_w, all_h
    print "<style>.g{stroke:#d8dee9;stroke-width:1}.s{fill:none;stroke-width:1.8;stroke-linejoin:round}</style>"
    text(0, 0, label["title"], " display=\"none\"")
    print "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    text(12, 22, label["title"], " font-size=\"15\" font-weight=\"bold\"")
    x = 12; y = 42
    for (e = 1; e <= entries; e++) {
        s = legend[order[e]]
        if (style[s] == "bars") printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x + 6, y - 10, paint[s]
        else if (style[s] == "points") printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n", x + 11, y - 4, paint[s]
        else printf "<path class=\"s\" stroke=\"%s\"%s d=\"M%.1f %.1fh20\"/>\n", paint[s], style[s] == "dashed" ? " stroke-dasharray=\"4 3\"" : "", x, y - 4
        shown = order[e]; gsub(/_/, " ", shown)
        text(x + 25, y, shown, "")
        x += 42 + 6.2 * length(shown)
        if (x > all_w - 130) { x = 12; y += 18 }
    }
    for (p = 1; p <= panels; p++) {
        axes(p)
        ox = left + ((p - 1) % columns) * (width + left); oy = head + titles + int((p - 1) / columns) * (height + 44 + titles)
        if (titles) text(ox, oy - 6, name[p], " font-weight=\"bold\"")
        printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"#fbfcfd\" stroke=\"#d8dee9\"/>\n", ox, oy, width, height
        for (v = step * int(from / step + 0.9999); v <= to * 1.0001; v += step) {
            Y = oy + height - (v - from) / (to - from) * height
            if (v > from) printf "<path class=\"g\" d=\"M%.1f %.1fh%d\"/>\n", ox, Y, width
            text(ox - 6, Y + 4, number(v), " text-anchor=\"end\"")
        }
        if (words) for (i = 1; i <= placed; i++) text(ox + (i - low) / (high - low) * width, oy + height + 14, word[i], " text-anchor=\"middle\"")
        else for (v = xstep * int(low / xstep + 0.9999); v <= high * 1.0001; v += xstep)
            text(ox + (v - low) / (high - low) * width, oy + height + 14, number(v), " text-anchor=\"middle\"")
        text(ox + width / 2, oy + height + 29, p in below ? below[p] : label["x"], " text-anchor=\"middle\"")
        if ((p - 1) % columns == 0) text(0, 0, label["y"], sprintf(" text-anchor=\"middle\" transform=\"translate(%.1f %.1f) rotate(-90)\"", ox - 42, oy + height / 2))
        for (s = 1; s <= series; s++) if (of[s] == p) {
            path = ""; pen = "M"; marks = ""
            for (n = 1; n <= points[s]; n++) {
                if (py[s, n] == "-") { pen = "M"; continue }
                X = ox + (px[s, n] - low) / (high - low) * width
                value = py[s, n] > to ? to : py[s, n]
                Y = oy + height - (value - from) / (to - from) * height
                if (style[s] == "bars") {
                    w = 0.8 / bars[p] * width / (high - low)
                    printf "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", X + (slot[s] - 1 - bars[p] / 2) * w, Y, w * 0.92, oy + height - Y, paint[s]
                } else {
                    path = path sprintf("%s%.1f %.1f", pen, X, Y); pen = "L"
                    if (style[s] == "points" || points[s] < 25 && style[s] != "dashed") marks = marks sprintf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", X, Y, style[s] == "points" ? 3.2 : 1.8, paint[s])
                }
            }
            if (path != "" && style[s] != "points") printf "<path class=\"s\" stroke=\"%s\"%s d=\"%s\"/>\n", paint[s], style[s] == "dashed" ? " stroke-dasharray=\"4 3\"" : "", path
            printf "%s", marks
        }
    }
    print "</svg>"
}
