// The page of a report. All figures come from the JSON document in the page; what comes from files becomes text, never markup.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const subjects = data.subjects;
window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });

// ------------------------------------------------------------------ elements

// element("td", {class: "bar"}, "text" or another element...)
function element(name, attributes, ...children) {
    const svg = SVG_NAMES.has(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined) made.setAttribute(key, value);
    for (const child of children.flat()) if (child !== undefined && child !== null) made.append(child);
    return made;
}
const SVG_NAMES = new Set(["svg", "g", "path", "rect", "circle", "line", "text", "pattern", "title", "polygon"]);
const page = document.getElementById("page");
const contents = element("nav");

function section(id, title, ...children) {
    const made = element("section", {id}, element("h2", {}, title), ...children);
    page.append(made);
    contents.append(element("a", {href: "#" + id}, title), " ");
    return made;
}
const several = subjects.length > 1;
// What several runs have is shown side by side where there is room, with their names; tables of many columns (`below`) one below
// the other.
function each(list, draw, below) {
    if (!several) return list.flatMap(draw);
    return element("div", {class: below ? "below" : "side"},
        list.map((subject) => element("div", {}, element("h3", {}, mark(subject), subject.title), ...draw(subject))));
}

// ------------------------------------------------------------------ numbers

const known = (value) => typeof value === "number" && isFinite(value);
function digits(value, count) {
    if (Math.abs(value) < 0.5 * 10 ** -count) value = 0;
    return value.toLocaleString("en-US", {minimumFractionDigits: 0, maximumFractionDigits: count});
}
function significant(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e9 || size < 1e-4) return value.toExponential(2);
    return digits(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 2 - Math.floor(Math.log10(size)));
}
function seconds(value) {
    const size = Math.abs(value);
    if (size === 0) return "0 s";
    if (size >= 7200) return `${digits(value / 3600, 1)} h`;
    if (size >= 120) return `${digits(value / 60, 1)} min`;
    if (size >= 1) return `${digits(value, 2)} s`;
    if (size >= 1e-3) return `${digits(value * 1e3, size >= 0.1 ? 0 : 2)} ms`;
    if (size >= 1e-6) return `${digits(value * 1e6, size >= 1e-4 ? 0 : 1)} µs`;
    return `${digits(value * 1e9, 1)} ns`;
}
function bytes(value) {
    const names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1024 && unit + 1 < names.length) { value /= 1024; unit++; }
    return `${digits(value, unit === 0 ? 0 : value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${names[unit]}`;
}
const percent = (value, places = 1) => `${digits(100 * value, places)} %`;
const plural = (count, word) => `${digits(count, 0)} ${word}${count === 1 ? "" : "s"}`;

// A figure of a run, as it is in its files; the attribute has all of its digits.
function figure(subject, name, show) {
    const value = name.split(".").reduce((of, key) => (of === undefined || of === null ? undefined : of[key]), subject.summary);
    if (!known(value)) return "–";
    return element("data", {value: String(value), "data-figure": name, "data-run": subject.number}, show(value));
}

// rows: lists of cells; heads: [name, "text"] or name
function table(heads, rows, attributes) {
    const kinds = heads.map((head) => (Array.isArray(head) ? head[1] : undefined));
    const line = (cells, cell) => cells.map((content, i) =>
        content instanceof HTMLTableCellElement ? content : element(cell, {class: kinds[i]}, content));
    const body = rows.map((row) => (row instanceof HTMLTableRowElement ? row : element("tr", {}, line(row, "td"))));
    const top = heads.some((head) => head !== "")
        ? element("thead", {}, element("tr", {}, line(heads.map((head) => (Array.isArray(head) ? head[0] : head)), "th"))) : null;
    return element("div", {class: "scroll"}, element("table", attributes, top, element("tbody", {}, body)));
}

// ------------------------------------------------------------------ colours and patterns

// Okabe and Ito's colours, which the usual kinds of colour blindness leave apart, and with each a pattern, in the order of
// what stands beside what. All are read with black on them.
const FILLS = {
    plain: {}, slash: {d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5"}, back: {d: "M-1 -1L7 7M5 -1L7 1M-1 5L1 7"},
    dots: {dots: true}, cross: {d: "M3 0V6M0 3H6"}, lines: {d: "M0 3H6"},
};
const OPERATIONS = {
    F: ["forward", "#56b4e9", "plain"], B: ["backward", "#e69f00", "slash"], I: ["backward, input", "#e69f00", "slash"],
    W: ["backward, weights", "#cc79a7", "back"], R: ["recompute", "#f0e442", "dots"], U: ["update", "#007a59", "plain"],
    AR: ["all-reduce", "#007a59", "plain"], P: ["predict weights", "#d55e00", "plain"], EA: ["encode", "#b8bfc8", "lines"],
    EG: ["encode", "#b8bfc8", "lines"], DA: ["decode", "#dfe3e8", "lines"], DG: ["decode", "#dfe3e8", "lines"],
};
const MEMORY = {
    weights: ["#0f82c4", "plain"], gradients: ["#e69f00", "slash"], optimizer: ["#009e73", "dots"], stash: ["#56b4e9", "back"],
    buffers: ["#f0e442", "cross"], workspace: ["#b8bfc8", "lines"],
};
const TIMES = {
    busy: ["computes", "#5b6572", "plain"], imbalance: ["less work than the busiest", "#cc79a7", "back"],
    dependency: ["waits for another stage", "#f0e442", "dots"], fill_drain: ["fills or drains", "#56b4e9", "slash"],
    communication: ["waits for a transfer", "#d55e00", "cross"],
};
const PATH = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0f82c4", "#d55e00"];
const PATH_FILLS = ["plain", "slash", "dots", "back", "cross", "lines"];

const patterns = document.getElementById("patterns");
const pattern_ids = new Map();
function paint(colour, fill) {
    if (fill === "plain") return colour;
    const key = colour + fill;
    if (!pattern_ids.has(key)) {
        const id = "p" + pattern_ids.size, how = FILLS[fill];
        pattern_ids.set(key, id);
        patterns.append(element("pattern", {id, width: 6, height: 6, patternUnits: "userSpaceOnUse"},
            element("rect", {width: 6, height: 6, fill: colour}),
            how.dots ? element("circle", {cx: 3, cy: 3, r: 1.1, fill: "#1c2128"})
                : element("path", {d: how.d, stroke: "#1c2128", "stroke-width": 0.9, "stroke-opacity": 0.75, fill: "none"})));
    }
    return `url(#${pattern_ids.get(key)})`;
}
function swatch(colour, fill) {
    return element("svg", {class: "swatch", width: 18, height: 12, "aria-hidden": "true"},
        element("rect", {width: 18, height: 12, rx: 2, fill: paint(colour, fill), stroke: "#57606a"}));
}
const legend = (items) => element("div", {class: "legend"},
    items.map(([name, colour, fill]) => element("span", {}, swatch(colour, fill), name)));

// Runs: a colour, a dash and a shape of points each.
const DASHES = ["none", "7 4", "2 3", "9 3 2 3"];
const run_colour = (number) => `var(--run${number % 4})`;
function shape(number, x, y, size) {
    const kind = number % 4, s = size;
    const path = [`M${x - s} ${y}a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0`, `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}z`,
        `M${x} ${y - 1.2 * s}l${1.2 * s} ${2 * s}h${-2.4 * s}z`, `M${x} ${y - 1.4 * s}l${1.4 * s} ${1.4 * s}l${-1.4 * s} ${1.4 * s}l${-1.4 * s} ${-1.4 * s}z`][kind];
    return element("path", {d: path, fill: "var(--paper)", stroke: run_colour(number), "stroke-width": 1.6});
}
function mark(subject) {
    if (!several) return null;
    return element("svg", {class: "swatch", width: 34, height: 12, "aria-hidden": "true"},
        element("line", {x1: 0, x2: 34, y1: 6, y2: 6, stroke: run_colour(subject.number), "stroke-width": 2,
            "stroke-dasharray": DASHES[subject.number % 4]}), shape(subject.number, 17, 6, 3.5));
}

// ------------------------------------------------------------------ names

function shorten(text, most) { return text.length > most ? text.slice(0, most - 1) + "…" : text; }
subjects.forEach((subject, number) => {
    const same = subjects.filter((other) => other.name === subject.name).length > 1;
    subject.number = number;
    subject.title = shorten(same ? `${subject.name} (${number + 1})` : subject.name, 60);
});
const plan_of = (subject) => subject.plan;
const stage_workers = (stage) => [].concat(stage.forward, stage.backward).filter((w, i, all) => all.indexOf(w) === i);
function stages_of(subject, worker) {
    return subject.plan.stages.map((stage, s) => [stage, s]).filter(([stage]) => stage_workers(stage).includes(worker)).map(([, s]) => s);
}

// ------------------------------------------------------------------ head

function head() {
    const first = subjects[0], plan = first.plan;
    const title = several ? `${subjects.length} runs: ${[...new Set(subjects.map((s) => s.plan.model))].map((m) => shorten(m, 60)).join(", ")}`
        : `${shorten(plan.model, 120)} on ${plural(plan.workers, "worker")}`;
    document.title = `Penstock: ${shorten(title, 100)}`;
    const line = several ? subjects.map((s) => s.title).join(" · ")
        : `${plan.schedule}, ${plan.weights}, ${plan.optimizer}; ${first.path ? "run " + first.path : "a plan that was not trained"}`;
    document.getElementById("head").append(element("h1", {}, title), element("p", {class: "soft"}, line), contents);
}

const FIGURES = [
    ["samples_per_s", "samples per second, measured", significant], ["predicted_samples_per_s", "samples per second, predicted", significant],
    ["valid_accuracy", "validation accuracy", (v) => percent(v, 2)], ["accuracy", "training accuracy, last epoch", (v) => percent(v, 2)],
    ["valid_bleu", "BLEU of the validation", (v) => digits(v, 2)], ["valid_perplexity", "perplexity of the validation", (v) => digits(v, 2)],
    ["loss", "training loss, last epoch", (v) => digits(v, 4)], ["valid_loss", "validation loss", (v) => digits(v, 4)], ["elapsed_s", "elapsed", seconds],
];
function tiles(subject) {
    const simulation = subject.simulation, list = [];
    if (subject.summary) {
        for (const [name, text, show] of FIGURES)
            if (known(subject.summary[name]) && !(name === "accuracy" && known(subject.summary.valid_accuracy))) list.push(tile(figure(subject, name, show), text));
    } else if (simulation) {
        list.push(tile(significant(simulation.throughput_samples_per_s), "samples per second, predicted"), tile(seconds(simulation.period_s), "between mini-batches, predicted"));
    }
    if (simulation) list.push(tile(percent(simulation.bubble), "of the workers' time idle, predicted"));
    return element("div", {class: "tiles"}, list);
}
const tile = (value, text) => element("div", {class: "tile"}, element("b", {}, value), element("span", {}, text));

// ------------------------------------------------------------------ what was run

function facts() {
    const config = (name) => (subject) => (subject.config && subject.config[name] !== undefined ? subject.config[name] : undefined);
    const plan = (name) => (subject) => subject.plan[name];
    const fig = (name, show) => (subject) => (subject.summary ? figure(subject, name, show) : undefined);
    const rows = [
        ...(several ? FIGURES.map(([name, text, show]) => [text, (s) => (s.summary && known(s.summary[name]) ? figure(s, name, show) : undefined)]) : []),
        ...(several ? [["idle, predicted", (s) => (s.simulation ? percent(s.simulation.bubble) : undefined)]] : []),
        ["network", plan("model")], ["structure", plan("network")], ["data", config("data")], ["validation data", config("valid")],
        ["workers", plan("workers")], ["found by", plan("method")], ["schedule", plan("schedule")], ["weights", plan("weights")],
        ["mini-batch", (s) => (s.config ? plural(s.config.batch, "sample") : s.plan.micro_batch ? plural(s.plan.micro_batch * s.plan.micro_batches, "sample") : undefined)],
        ["micro-batches", (s) => `${s.plan.micro_batches} of ${plural(s.plan.micro_batch || 1, "sample")}`],
        ["optimizer", plan("optimizer")], ["learning rate", (s) => (s.config ? `${s.config.lr}, ${s.config.lr_schedule}` : undefined)],
        ["momentum", config("momentum")], ["weight decay", config("weight_decay")], ["loss", config("loss")], ["frozen", config("freeze")],
        ["initial weights", config("init")], ["seed", config("seed")], ["device", config("device")], ["threads of a worker", config("threads")],
        ["transport", config("transport")], ["cores used at once", (s) => (s.config && s.config.cores ? s.config.cores : undefined)],
        ["steps done", fig("step", (v) => digits(v, 0))], ["epoch", fig("epoch", (v) => digits(v, 0))],
        ["waited for checkpoints", fig("checkpoint_stall_s", seconds)], ["peak of the process", fig("process_peak_bytes", bytes)],
        ["made by", (s) => (s.config ? `Penstock ${s.config.penstock}` : undefined)],
    ];
    const shown = rows.map(([name, of]) => [name, subjects.map(of)]).filter(([, values]) => values.some((v) => v !== undefined && v !== ""));
    const lines = shown.map(([name, values]) => {
        const texts = values.map((value) => (value === undefined ? "–" : value instanceof Element ? value : String(value)));
        const text = (value) => (value instanceof Element ? value.textContent : value);
        const same = several && texts.every((value) => text(value) === text(texts[0]));
        return element("tr", {class: same ? "same" : undefined}, [name, ...texts].map((value) => element("td", {}, value)));
    });
    const unfinished = subjects.filter((s) => s.path && !s.summary).map((s) =>
        element("p", {class: "warn"}, `${several ? s.title : "This run"} has not finished: there is no summary.json yet.`));
    if (several) section("run", "What was run", ...unfinished, element("p", {class: "soft"}, "Rows in which the runs do not differ are grey."),
        table(["", ...subjects.map((s) => [element("span", {}, mark(s), s.title), "text"])], lines, {class: "facts"}));
    else section("run", "What was run", ...unfinished, tiles(subjects[0]), element("dl", {}, shown.map(([name, [value]]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value instanceof Element ? value : String(value))))));
}

// ------------------------------------------------------------------ curves

function nice_step(span, count) {
    const power = 10 ** Math.floor(Math.log10(span / count || 1));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => span / step <= count) || power;
}
// series: {subject, name, points: [[x, y]], line, shapes}
function chart(title, series, options) {
    series = series.filter((s) => s.points.length > 0);
    const points = series.flatMap((s) => s.points);
    if (points.length === 0) return null;
    const width = 460, height = 260, left = 58, right = 14, top = 12, bottom = 40;
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const x1 = Math.max(...xs), x0 = Math.min(0, ...xs);
    let y0 = options.zero ? 0 : Math.min(...ys), y1 = options.most || Math.max(...ys);
    if (y1 <= y0) y1 = y0 + (Math.abs(y0) || 1) * 0.1;
    const step = nice_step(y1 - y0, 6);
    y0 = Math.floor(y0 / step + 1e-9) * step;
    y1 = Math.ceil(y1 / step - 1e-9) * step;
    const x = (v) => left + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * (width - left - right);
    const y = (v) => height - bottom - (v - y0) / (y1 - y0) * (height - top - bottom);
    const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title});
    const places = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
    for (let v = y0, n = 0; v <= y1 + step / 2 && n < 20; v += step, n++) {
        svg.append(element("line", {class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v)}),
            element("text", {class: "tick", x: left - 7, y: y(v) + 4, "text-anchor": "end"}, options.show ? options.show(v, step) : v.toFixed(places)));
    }
    const xstep = Math.max(1, nice_step(x1 - x0 || 1, 6));
    for (let v = 0; v <= x1 + 1e-9; v += xstep)
        svg.append(element("text", {class: "tick", x: x(v), y: height - bottom + 16, "text-anchor": "middle"}, digits(v, 0)));
    svg.append(element("line", {class: "grid", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}),
        element("text", {class: "tick", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, "step"));
    for (const s of series) {
        const colour = run_colour(s.subject.number);
        if (s.line) svg.append(element("path", {d: "M" + s.points.map((p) => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("L"), fill: "none",
            stroke: colour, "stroke-width": s.shapes ? 1 : 1.8, "stroke-dasharray": DASHES[s.subject.number % 4], "stroke-linejoin": "round"}));
        const apart = Math.ceil(s.points.length / 40);
        s.points.forEach((p, i) => {
            if (!s.shapes || (i % apart !== 0 && i + 1 !== s.points.length)) return;
            const point = shape(s.subject.number, x(p[0]), y(p[1]), 3.4);
            point.append(element("title", {}, `${s.name}, step ${p[0]}: ${options.show ? options.show(p[1], 0) : significant(p[1])}`));
            svg.append(point);
        });
    }
    return element("figure", {}, element("h3", {}, title), svg);
}
function series_of(subject, field, name, shapes) {
    const points = (subject.log || []).filter((line) => known(line[field])).map((line) => [line.step, line[field]]);
    return {subject, name: several ? `${subject.title}: ${name}` : name, points, line: true, shapes};
}
function curves() {
    const logged = subjects.filter((s) => (s.log || []).length > 0);
    if (logged.length === 0) return;
    const both = (field, valid) => logged.flatMap((s) => [series_of(s, field, "training", false), series_of(s, valid, "validation", true)]);
    const one = (field, name) => logged.map((s) => series_of(s, field, name, false));
    const worst = (field) => logged.map((s) => {
        const made = series_of(s, field, field, false);
        made.points = s.log.filter((line) => Array.isArray(line[field])).map((line) => [line.step, Math.max(...line[field].filter(known))]).filter((p) => isFinite(p[1]));
        return made;
    });
    const pct = (v, step) => percent(v, step > 0 && step < 0.01 ? 1 : step === 0 ? 2 : 0);
    const charts = [
        chart("Loss", both("loss", "valid_loss"), {}), chart("Accuracy", both("accuracy", "valid_accuracy"), {show: pct}),
        chart("Perplexity", both("perplexity", "valid_perplexity"), {}), chart("BLEU", logged.map((s) => series_of(s, "valid_bleu", "BLEU", true)), {}),
        chart("Samples per second", one("samples_per_s", "samples per second"), {zero: true, show: (v) => digits(v, 1)}),
        chart("Learning rate", one("lr", "learning rate"), {zero: true, show: (v) => String(Number(v.toPrecision(4)))}),
        chart("Error of predicted weights, worst worker", worst("prediction_error"), {zero: true}),
    ];
    const thinned = logged.filter((s) => s.log.length < s.log_lines);
    const keys = [several ? element("div", {class: "legend"}, logged.map((s) => element("span", {}, mark(s), s.title))) : null];
    section("curves", "Curves", ...keys,
        element("p", {class: "soft"}, "Lines without marks: training, means over the steps since the point before. Lines with marks: validation, or what is measured at the ends of segments. Point at a mark for its value."),
        thinned.map((s) => element("p", {class: "soft"}, `Of ${s.title}, ${digits(s.log.length, 0)} of ${digits(s.log_lines, 0)} lines of the log are shown.`)),
        element("div", {class: "charts"}, charts));
}

// ------------------------------------------------------------------ bars

// rows: [name, [[part, value, colour, fill]...], limit, marker]; all of them on one scale.
function bars(rows, show, label) {
    const names = Math.min(150, 12 + 7 * Math.max(...rows.map((r) => r[0].length)));
    const width = document.body.clientWidth < 640 ? 420 : several ? 600 : 860, right = rows.some((r) => r[2]) ? 130 : 80, high = 22, gap = 8;
    const most = Math.max(...rows.map((r) => Math.max(r[1].reduce((sum, part) => sum + part[1], 0), r[2] || 0, r[3] || 0))) || 1;
    const x = (v) => names + v / most * (width - names - right);
    const height = rows.length * (high + gap) + 4;
    const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
    rows.forEach(([name, parts, limit, marker], i) => {
        const top = 2 + i * (high + gap);
        const sum = parts.reduce((total, part) => total + part[1], 0);
        svg.append(element("text", {x: 0, y: top + 15}, name));
        let at = 0;
        for (const [part, value, colour, fill] of parts) {
            if (value > 0) svg.append(element("rect", {x: x(at), y: top, width: Math.max(0, x(at + value) - x(at)), height: high,
                fill: paint(colour, fill), stroke: "#57606a", "stroke-width": 0.5}, element("title", {}, `${name}, ${part}: ${show(value)}`)));
            at += value;
        }
        if (marker) svg.append(element("polygon", {points: `${x(marker)},${top + high - 7} ${x(marker) - 5},${top + high + 3} ${x(marker) + 5},${top + high + 3}`,
            fill: "var(--ink)", stroke: "var(--paper)"}, element("title", {}, `${name}, measured: ${show(marker)}`)));
        if (limit) svg.append(element("line", {class: "limit", x1: x(limit), x2: x(limit), y1: top - 3, y2: top + high + 3},
            element("title", {}, `limit: ${show(limit)}`)));
        svg.append(element("text", {x: x(Math.max(sum, limit || 0)) + 8, y: top + 15}, show(sum) + (limit ? ` of ${show(limit)}` : "")));
    });
    return element("figure", {class: "scroll bars"}, svg);
}

// ------------------------------------------------------------------ timeline: decoding

const FLAG_REST = 7, FLAG_CRITICAL = 8, FLAG_MAKER = 16;
const RESTS_SHORT = [[1, "for its transfer"], [2, "for the sum of gradients"], [3, "for room to send"], [4, "for a core"], [5, "for a transfer, a core or the system (measured)"]];
const RESTS = ["", "its transfer", "the sum of the gradients", "room: its last result was still being sent", "a core", "a transfer, a core or the system"];

function decode(flat, timeline, offset) {
    const count = flat.length / 7, lanes = timeline.lanes, end = [0, 0];
    const row = {op: [], stage: [], mb: [], start: new Float64Array(count), end: new Float64Array(count), since: new Float64Array(count),
        flags: [], wait: [], lane: [], count};
    for (let i = 0; i < count; i++) {
        const op = timeline.operations[flat[7 * i]], lane = lanes > 1 && op !== "F" ? 1 : 0;
        row.op.push(op); row.stage.push(flat[7 * i + 1]); row.mb.push(flat[7 * i + 2]); row.lane.push(lane);
        row.since[i] = end[lane];
        row.start[i] = end[lane] + flat[7 * i + 3];
        row.end[i] = end[lane] = row.start[i] + flat[7 * i + 4];
        row.flags.push(flat[7 * i + 5]); row.wait.push(flat[7 * i + 6]);
    }
    // The first that is shown has nothing before it.
    for (let lane = 0; lane < lanes; lane++) {
        const first = row.lane.indexOf(lane);
        if (first >= 0 && offset > 0) row.since[first] = row.start[first];
    }
    return row;
}
const part_of = (op) => (op === "F" ? "F" : op === "B" || op === "I" ? "B" : op);
function index_of(rows) {
    const map = new Map();
    rows.forEach((row, worker) => {
        for (let i = 0; i < row.count; i++) map.set(`${part_of(row.op[i])}:${row.stage[i]}:${row.mb[i]}`, [worker, i]);
    });
    return map;
}
const last_of = (rows) => Math.max(0, ...rows.map((row) => row.end.reduce((a, b) => Math.max(a, b), 0)));
function prepare(subject) {
    const timeline = subject.timeline;
    if (!timeline) return;
    timeline.rows = {predicted: timeline.predicted.map((flat) => decode(flat, timeline, timeline.from_s))};
    if (timeline.measured) timeline.rows.measured = timeline.measured.map((flat) => decode(flat, timeline, 1));
    timeline.index = Object.fromEntries(Object.entries(timeline.rows).map(([kind, rows]) => [kind, index_of(rows)]));
    timeline.end = Math.max(1, ...Object.values(timeline.rows).map(last_of));
    timeline.predicted_end = last_of(timeline.rows.predicted);
    const offset = timeline.skipped_batches * timeline.micro_batches;
    timeline.label = (op, mb) => mb + (op === "U" || op === "AR" ? timeline.skipped_batches : offset);
    timeline.workers = timeline.rows.predicted.length;
}
function name_of(timeline, op, stage, mb) { return `${op}${timeline.label(op, mb)}`; }
// The computation whose result another one reads: of the next or the stage before, on another worker.
function maker_of(timeline, kind, row, i) {
    const backward = part_of(row.op[i]) === "B", index = timeline.index[kind];
    const found = [index.get(`${part_of(row.op[i])}:${row.stage[i] + (backward ? 1 : -1)}:${row.mb[i]}`),
        backward ? index.get(`F:${row.stage[i]}:${row.mb[i]}`) : undefined].filter((p) => p);
    return found.sort((a, b) => timeline.rows[kind][b[0]].end[b[1]] - timeline.rows[kind][a[0]].end[a[1]])[0];
}
// What version of the weights a forward or a backward reads.
function reading(timeline, op, stage, mb) {
    const versions = timeline.versions, m = versions ? mb - versions.first : -1;
    if (!versions || m < 0 || m >= versions.count || !versions.stages[stage]) return null;
    const at = 6 * m, reads = versions.stages[stage].reads, more = timeline.skipped_batches;
    const [fv, fa, fn, bv, ba, bn] = reads.slice(at, at + 6);
    return op === "F" ? {version: fv + more, ahead: fa, newest: fn + more, old: 0} : {version: bv + more, ahead: ba, newest: bn + more, old: bn - fn, forward: fv + more};
}
// Why a worker stood idle before a computation: lines of text.
function explain(timeline, kind, row, i) {
    const tick = timeline.tick_s, gap = row.start[i] - row.since[i], lines = [];
    if (gap <= 0) return lines;
    const maker = row.flags[i] & FLAG_MAKER ? maker_of(timeline, kind, row, i) : undefined;
    const waited = Math.min(row.wait[i], gap), rest = gap - waited;
    if (waited > 0) {
        const other = maker ? timeline.rows[kind][maker[0]] : undefined;
        lines.push(`${seconds(waited * tick)} until ${maker ? `worker ${maker[0]} had done ${name_of(timeline, other.op[maker[1]], 0, other.mb[maker[1]])} of stage ${other.stage[maker[1]]}` : "another worker's result was made"}`);
    }
    const cause = RESTS[row.flags[i] & FLAG_REST];
    if (rest * tick > 0 && cause) lines.push(`${seconds(rest * tick)} for ${cause}`);
    return lines;
}

// ------------------------------------------------------------------ timeline: drawing

const INK = {
    light: {paper: "#ffffff", ink: "#1c2128", soft: "#57606a", line: "#d5dae0", row: "#eceff3", memory: "#9db4d6", critical: "#a40000", transfer: "#6b7480", update: "#007a59"},
    dark: {paper: "#14171c", ink: "#e3e7ed", soft: "#9fa9b6", line: "#38404b", row: "#262c35", memory: "#47618a", critical: "#ff7b72", transfer: "#98a2ae", update: "#34d1a3"},
};
const STRIPS = {wait: "#f0e442", 1: "#d55e00", 2: "#009e73", 3: "#cc79a7", 4: "#5b6572", 5: "#5b6572"};
// By cause: pattern in the legend, dashes of the strip, its height.
const DASHED = {1: ["slash", 5, 2, 4], 2: ["dots", 2, 2, 4], 3: ["back", 9, 3, 4], 4: ["plain", 1e9, 0, 2], 5: ["plain", 1e9, 0, 2]};
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const LEFT = subjects.some((s) => s.plan.workers > 10) ? 108 : 92, RIGHT = 12, AXIS = 22, BOX = 20, LANE = 17, MEMORY_HEIGHT = 26, ROW_GAP = 9, WORKERS_MAX = 64;

class Timeline {
    constructor(subject) {
        this.subject = subject;
        this.timeline = subject.timeline;
        this.canvas = element("canvas", {class: "timeline", tabindex: 0, role: "img",
            "aria-label": `Timeline of ${subject.title}: one block of rows for each worker. Plus and minus zoom, arrows move, 0 shows all.`});
        this.context = this.canvas.getContext("2d");
        this.shows = {weights: Boolean(this.timeline.versions), memory: true, critical: false, transfers: false};
        this.workers = Math.min(this.timeline.workers, WORKERS_MAX);
        if (this.workers > 20) this.shows.memory = false;
        this.kinds = Object.keys(this.timeline.rows);
        this.fills = new Map();
        this.memory_most = Math.max(1, ...this.timeline.memory_kib.flatMap((points) => points.filter((_, i) => i % 2 === 1)));
        this.listen();
    }
    get lanes() { return this.timeline.lanes; }
    // What is drawn of a worker, from its top: [kind, offset, height].
    parts() {
        const list = [];
        let at = 0;
        for (const kind of this.kinds) { list.push([kind, at, BOX * this.lanes]); at += BOX * this.lanes + 2; }
        if (this.shows.weights) { list.push(["weights", at, LANE]); at += LANE + 2; }
        if (this.shows.memory) { list.push(["memory", at, MEMORY_HEIGHT]); at += MEMORY_HEIGHT + 2; }
        return [list, at + ROW_GAP];
    }
    get height() { return AXIS + this.parts()[1] * this.workers + 4; }
    x(tick) { return LEFT + (tick - view.from) / (view.to - view.from) * (this.width - LEFT - RIGHT); }
    tick(x) { return view.from + (x - LEFT) / (this.width - LEFT - RIGHT) * (view.to - view.from); }
    // Ticks of this run for the common view, which is in seconds.
    in_ticks(s) { return s / this.timeline.tick_s; }

    draw(printing) {
        const width = printing ? 1000 : this.canvas.clientWidth || 1000, ratio = printing ? 2 : window.devicePixelRatio || 1;
        this.width = width;
        this.ink = INK[!printing && dark.matches ? "dark" : "light"];
        const height = this.height, c = this.context;
        if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
            this.canvas.width = Math.round(width * ratio);
            this.canvas.height = Math.round(height * ratio);
            this.canvas.style.aspectRatio = `${width} / ${height}`;
        }
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        c.fillStyle = this.ink.paper;
        c.fillRect(0, 0, width, height);
        c.font = "11px system-ui, Arial, 'DejaVu Sans', sans-serif";
        c.textBaseline = "middle";
        this.axis();
        const [parts, pitch] = this.parts();
        for (let w = 0; w < this.workers; w++) {
            const top = AXIS + w * pitch;
            this.labels(w, top, parts);
            c.save();
            c.beginPath();
            c.rect(LEFT, top - 1, width - LEFT - RIGHT, pitch);
            c.clip();
            for (const [kind, offset, high] of parts) {
                c.fillStyle = this.ink.row;
                c.fillRect(LEFT, top + offset, width - LEFT - RIGHT, high);
                if (kind === "memory") this.memory(w, top + offset, high);
                else if (kind === "weights") this.weights(w, top + offset, high);
                else this.boxes(kind, w, top + offset);
            }
            c.restore();
        }
        if (this.shows.transfers) this.transfers(parts, pitch);
    }
    axis() {
        const c = this.context, tick = this.timeline.tick_s, from = (this.timeline.from_s + view.from * tick), to = this.timeline.from_s + view.to * tick;
        const step = nice_step(to - from, Math.max(2, (this.width - LEFT) / 110));
        c.fillStyle = this.ink.soft;
        c.strokeStyle = this.ink.line;
        c.textAlign = "center";
        c.lineWidth = 1;
        for (let n = Math.ceil(from / step - 1e-9); n * step <= to; n++) {
            const x = Math.round(this.x((n * step - this.timeline.from_s) / tick)) + 0.5;
            c.beginPath();
            c.moveTo(x, AXIS - 5);
            c.lineTo(x, this.height);
            c.stroke();
            if (x > LEFT + 10 && x < this.width - 30 || n === 0) c.fillText(seconds_at(n * step, step, to), x, 8);
        }
    }
    labels(w, top, parts) {
        const c = this.context;
        c.textAlign = "left";
        parts.forEach(([kind, offset, high], i) => {
            c.fillStyle = i === 0 ? this.ink.ink : this.ink.soft;
            const middle = top + offset + high / 2;
            if (i === 0) { c.font = "bold 11px system-ui, Arial, 'DejaVu Sans', sans-serif"; c.fillText(`worker ${w}`, 0, middle); }
            c.font = "10px system-ui, Arial, 'DejaVu Sans', sans-serif";
            if (i > 0 || this.kinds.length > 1) {
                c.textAlign = "right";
                c.fillText(i === 0 ? "pred." : kind === "measured" ? "measured" : kind, LEFT - 6, middle);
                c.textAlign = "left";
            }
        });
        c.font = "11px system-ui, Arial, 'DejaVu Sans', sans-serif";
    }
    // The first of a row's events that may be seen: they are in order of their end in each lane.
    static first(row, tick) {
        let low = 0, high = row.count;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (row.end[middle] < tick) low = middle + 1; else high = middle;
        }
        return Math.max(0, low - 1);
    }
    fill(op) {
        const [, colour, fill] = OPERATIONS[op] || OPERATIONS.EA;
        if (fill === "plain") return op === "U" || op === "AR" ? this.ink.update : colour;
        if (!this.fills.has(op)) {
            const tile = document.createElement("canvas");
            tile.width = tile.height = 12;
            const t = tile.getContext("2d");
            t.scale(2, 2);
            t.fillStyle = colour;
            t.fillRect(0, 0, 6, 6);
            t.globalAlpha = 0.6;
            t.fillStyle = t.strokeStyle = "#1c2128";
            t.lineWidth = 0.9;
            if (FILLS[fill].dots) { t.beginPath(); t.arc(3, 3, 1, 0, 7); t.fill(); } else t.stroke(new Path2D(FILLS[fill].d));
            const pattern = this.context.createPattern(tile, "repeat");
            pattern.setTransform(new DOMMatrix().scale(0.5));
            this.fills.set(op, pattern);
        }
        return this.fills.get(op);
    }
    boxes(kind, w, top) {
        const c = this.context, row = this.timeline.rows[kind][w], last = [-9, -9];
        const critical = this.shows.critical && kind === "predicted";
        const outlines = [], pixels = (this.width - LEFT - RIGHT) / (view.to - view.from);
        // Marks stay visible, but never hide what they stand between.
        const mark_width = Math.min(1.5, 0.3 * pixels * this.timeline.end / Math.max(1, row.count));
        for (let i = Timeline.first(row, view.from); i < row.count; i++) {
            if (row.start[i] > view.to && row.lane[i] === 0) { if (this.lanes === 1) break; continue; }
            const op = row.op[i], lane = row.lane[i], y = top + lane * BOX;
            const x0 = this.x(row.start[i]), x1 = this.x(row.end[i]), gap = this.x(row.since[i]);
            if (x0 - gap > 2) this.strip(row, i, gap, x0, y);
            const narrow = op === "U" || op === "P" || op === "AR";
            // Boxes within one column of pixels are drawn once.
            if (!narrow && x1 - x0 < 0.75 && x0 - last[lane] < 0.75) continue;
            last[lane] = x0;
            const wide = Math.max(x1 - x0, narrow ? mark_width : 0.75);
            // Patterns cost time, and cannot be told apart in narrow boxes.
            c.fillStyle = narrow || wide >= 5 ? this.fill(op) : (OPERATIONS[op] || OPERATIONS.EA)[1];
            c.fillRect(x0, y + 1, wide > 3 ? wide - 0.6 : wide, BOX - 2);
            const text = String(this.timeline.label(op, row.mb[i]));
            if (!narrow && wide > 6.5 * text.length + 6) {
                const fill = OPERATIONS[op] ? OPERATIONS[op][2] : "plain", middle = (Math.max(x0, LEFT) + Math.min(x1, this.width - RIGHT)) / 2;
                c.textAlign = "center";
                if (fill !== "plain") {
                    c.fillStyle = OPERATIONS[op][1];
                    c.fillRect(middle - 3.4 * text.length - 2, y + 4, 6.8 * text.length + 4, BOX - 8);
                }
                c.fillStyle = "#101418";
                c.fillText(text, middle, y + BOX / 2 + 0.5);
            }
            if (critical && row.flags[i] & FLAG_CRITICAL) outlines.push([x0, y + 1, wide, BOX - 2]);
        }
        c.strokeStyle = this.ink.critical;
        c.lineWidth = 2;
        for (const [x, y, wide, high] of outlines) c.strokeRect(x + 1, y, Math.max(1, wide - 2), high);
    }
    // What an idle worker waits for, as a strip at the foot of its gap.
    strip(row, i, x0, x1, y) {
        const c = this.context, gap = row.start[i] - row.since[i], share = gap > 0 ? Math.min(1, row.wait[i] / gap) : 0, rest = row.flags[i] & FLAG_REST;
        const middle = x0 + share * (x1 - x0);
        if (share > 0) { c.fillStyle = STRIPS.wait; c.fillRect(x0, y + BOX - 5, middle - x0, 4); }
        if (!rest || share >= 1) return;
        const [, on, off, high] = DASHED[rest];
        c.fillStyle = STRIPS[rest];
        for (let x = middle; x < x1; x += on + off) c.fillRect(x, y + BOX - 1 - high, Math.min(on, x1 - x), high);
    }
    weights(w, top, high) {
        const c = this.context, timeline = this.timeline, kind = this.kinds[this.kinds.length - 1], row = timeline.rows[kind][w];
        let last = -9;
        for (let i = Timeline.first(row, view.from); i < row.count; i++) {
            const op = row.op[i], x0 = this.x(row.start[i]), x1 = this.x(row.end[i]);
            if (row.start[i] > view.to) { if (this.lanes === 1) break; continue; }
            if (op === "U") {
                c.fillStyle = this.ink.update;
                c.fillRect(x0, top, Math.max(Math.min(1.5, 0.3 * (this.width - LEFT - RIGHT) / (view.to - view.from) * timeline.end / Math.max(1, row.count)), x1 - x0), high);
                continue;
            }
            const read = op === "F" || op === "B" || op === "I" ? reading(timeline, op, row.stage[i], row.mb[i]) : null;
            if (!read || (x1 - x0 < 0.75 && x0 - last < 0.75)) continue;
            last = x0;
            const wide = Math.max(0.75, x1 - x0 > 3 ? x1 - x0 - 0.6 : x1 - x0);
            c.fillStyle = SHADES[((read.version % 4) + 4) % 4];
            c.fillRect(x0, top + 1, wide, high - 2);
            // A dot for each update between a forward and its backward.
            const dots = Math.min(read.old, 8, Math.floor((wide - 2) / 5));
            c.fillStyle = "#101418";
            for (let d = 0; d < dots; d++) c.fillRect(x0 + 2 + 5 * d, top + high - 5, 3, 3);
            const text = `v${read.version}${read.ahead ? "+" + read.ahead : ""}`;
            if (wide > 6.2 * text.length + 4) {
                c.textAlign = "center";
                c.font = "10px system-ui, Arial, 'DejaVu Sans', sans-serif";
                c.fillText(text, (Math.max(x0, LEFT) + Math.min(x1, this.width - RIGHT)) / 2, top + (dots > 0 ? 6.5 : high / 2 + 0.5));
                c.font = "11px system-ui, Arial, 'DejaVu Sans', sans-serif";
            }
        }
    }
    memory(w, top, high) {
        const c = this.context, points = this.timeline.memory_kib[w] || [], bottom = top + high;
        if (points.length === 0) return;
        c.fillStyle = this.ink.memory;
        c.beginPath();
        c.moveTo(this.x(points[0]), bottom);
        let y = bottom;
        for (let p = 0; p < points.length; p += 2) {
            const x = this.x(points[p]);
            c.lineTo(x, y);
            y = bottom - points[p + 1] / this.memory_most * (high - 2);
            c.lineTo(x, y);
        }
        c.lineTo(this.x(this.timeline.predicted_end), y);
        c.lineTo(this.x(this.timeline.predicted_end), bottom);
        c.fill();
    }
    // Lines from the end of what made a block to the start of what reads it.
    transfers(parts, pitch) {
        const c = this.context, lists = {predicted: this.timeline.transfers, measured: this.timeline.measured_transfers || []};
        c.strokeStyle = this.ink.transfer;
        c.lineWidth = 1;
        c.save();
        c.beginPath();
        c.rect(LEFT, 0, this.width - LEFT - RIGHT, this.height);
        c.clip();
        c.beginPath();
        let drawn = 0;
        for (const [kind, offset] of parts) {
            const flat = lists[kind] || [];
            for (let t = 0; t < flat.length && drawn < 8000; t += 8) {
                const [from, to, , , , start, takes] = flat.slice(t, t + 7);
                if (start + takes < view.from || start > view.to || from === to || from >= this.workers || to >= this.workers) continue;
                const down = to > from;
                c.moveTo(this.x(start), AXIS + from * pitch + offset + (down ? BOX * this.lanes : 0));
                c.lineTo(this.x(start + takes), AXIS + to * pitch + offset + (down ? 0 : BOX * this.lanes));
                drawn++;
            }
        }
        c.stroke();
        c.restore();
    }
    // The text for a place of the canvas; null: there is nothing.
    at(px, py) {
        const [parts, pitch] = this.parts(), w = Math.floor((py - AXIS) / pitch), inside = py - AXIS - w * pitch;
        if (w < 0 || w >= this.workers || px < LEFT || px > this.width - RIGHT) return null;
        const part = parts.find(([, offset, high]) => inside >= offset && inside < offset + high);
        if (!part) return null;
        const tick = this.tick(px), kind = part[0] === "weights" ? this.kinds[this.kinds.length - 1] : part[0];
        if (kind === "memory") return this.memory_at(w, tick);
        const row = this.timeline.rows[kind][w], lane = this.lanes > 1 && kind === part[0] ? Math.min(1, Math.floor((inside - part[1]) / BOX)) : -1;
        const slack = 2 * (view.to - view.from) / this.width;
        let best = -1, idle = -1;
        for (let i = Timeline.first(row, tick - slack); i < row.count; i++) {
            if (lane >= 0 && row.lane[i] !== lane) continue;
            if (row.start[i] <= tick + slack && row.end[i] >= tick - slack && (best < 0 || row.start[i] <= tick)) best = i;
            if (row.since[i] <= tick && row.start[i] > tick) idle = i;
            if (row.start[i] > tick + slack && (this.lanes === 1 || i > best + 50)) break;
        }
        if (best >= 0) return this.tell(kind, w, row, best);
        if (idle >= 0) return [`worker ${w} stands idle for ${seconds((row.start[idle] - row.since[idle]) * this.timeline.tick_s)} (${kind})`, ...explain(this.timeline, kind, row, idle)].join("\n");
        return null;
    }
    tell(kind, w, row, i) {
        const timeline = this.timeline, tick = timeline.tick_s, op = row.op[i], lines = [];
        const update = op === "U" || op === "AR";
        const start = timeline.from_s + row.start[i] * tick;
        lines.push(`${name_of(timeline, op, 0, row.mb[i])}: ${(OPERATIONS[op] || [op])[0]} of ${update ? "update" : "micro-batch"} ${timeline.label(op, row.mb[i])}, stage ${row.stage[i]} on worker ${w}`);
        if (timeline.micro_batches > 1 && !update) lines.push(`mini-batch ${Math.floor(timeline.label(op, row.mb[i]) / timeline.micro_batches)}`);
        lines.push(`${kind}: at ${seconds(start)} for ${seconds((row.end[i] - row.start[i]) * tick)}`);
        for (const other of this.kinds.filter((k) => k !== kind)) {
            const place = timeline.index[other].get(`${part_of(op)}:${row.stage[i]}:${row.mb[i]}`);
            if (!place || part_of(op) !== op && op !== "I") continue;
            const there = timeline.rows[other][place[0]];
            lines.push(`${other}: at ${seconds(timeline.from_s + there.start[place[1]] * tick)} for ${seconds((there.end[place[1]] - there.start[place[1]]) * tick)}`);
        }
        const read = op === "F" || op === "B" || op === "I" ? reading(timeline, op, row.stage[i], row.mb[i]) : null;
        if (read) {
            lines.push(`reads version ${read.version} of the weights${read.ahead ? `, predicted ${plural(read.ahead, "update")} ahead` : ""}; the newest then is ${read.newest}`);
            if (op !== "F") lines.push(read.old ? `${plural(read.old, "update")} since its forward` : "no update since its forward");
        }
        if (row.flags[i] & FLAG_CRITICAL) lines.push("on the critical path");
        const why = explain(timeline, kind, row, i);
        if (why.length) lines.push(`idle before it:`, ...why);
        return lines.join("\n");
    }
    memory_at(w, tick) {
        const points = this.timeline.memory_kib[w] || [];
        let kib = 0;
        for (let p = 0; p < points.length && points[p] <= tick; p += 2) kib = points[p + 1];
        return `worker ${w} uses about ${bytes(kib * 1024)} (predicted)`;
    }
    listen() {
        const canvas = this.canvas, here = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
        let from = null;
        canvas.addEventListener("pointerdown", (event) => { from = [event.clientX, view.from, view.to]; canvas.setPointerCapture(event.pointerId); });
        canvas.addEventListener("pointerup", () => { from = null; });
        canvas.addEventListener("pointermove", (event) => {
            if (from) {
                const moved = (from[0] - event.clientX) / (this.width - LEFT - RIGHT) * (from[2] - from[1]);
                hide_tip();
                look(from[1] + moved, from[2] + moved);
                return;
            }
            const text = this.at(...here(event));
            if (text) show_tip(text, event.clientX, event.clientY); else hide_tip();
        });
        canvas.addEventListener("pointerleave", hide_tip);
        canvas.addEventListener("wheel", (event) => {
            if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
            event.preventDefault();
            zoom(Math.exp((event.deltaY || event.deltaX) * 0.002), this.tick(here(event)[0]));
        }, {passive: false});
        canvas.addEventListener("dblclick", (event) => zoom(0.4, this.tick(here(event)[0])));
        canvas.addEventListener("keydown", (event) => {
            const move = (view.to - view.from) / 8;
            const keys = {"+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), "0": () => look(0, view.all), ArrowLeft: () => look(view.from - move, view.to - move),
                ArrowRight: () => look(view.from + move, view.to + move)};
            if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
            event.preventDefault();
            keys[event.key]();
        });
    }
}
// Versions by turns: what is old beside what is new.
const SHADES = ["#9ecae9", "#c9b8e8", "#b5dfb0", "#f2cf9b"];

// Times at an axis that ends with `most`, with as many decimals as its steps need.
function seconds_at(value, step, most) {
    const [factor, unit] = most >= 1 ? [1, "s"] : most >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    const places = Math.max(0, -Math.floor(Math.log10(step * factor) + 1e-9));
    return `${digits(value * factor, places)} ${unit}`;
}

// One view of all timelines, in ticks of the first.
const view = {from: 0, to: 1, all: 1};
const timelines = [];
let waiting = false;
function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; timelines.forEach((t) => t.draw(false)); });
}
function look(from, to) {
    const span = Math.min(Math.max(to - from, view.all * 2e-5, 20), view.all);
    view.from = Math.max(0, Math.min(from, view.all - span));
    view.to = view.from + span;
    redraw();
}
function zoom(factor, at = (view.from + view.to) / 2) { look(at - (at - view.from) * factor, at + (view.to - at) * factor); }

const tip = document.getElementById("tip");
function show_tip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > window.innerHeight ? Math.max(4, y - box.height - 10) : y + 18}px`;
}
function hide_tip() { tip.hidden = true; }

function timeline_section() {
    const drawn = subjects.filter((s) => s.timeline);
    if (drawn.length === 0) return;
    const used = new Set(drawn.flatMap((s) => Object.values(s.timeline.rows).flat().flatMap((row) => row.op)));
    const operations = Object.entries(OPERATIONS).filter(([op]) => used.has(op)).map(([, look_of]) => look_of);
    const causes = new Set(drawn.flatMap((s) => Object.values(s.timeline.rows).flat().flatMap((row) => row.flags.map((flags) => flags & FLAG_REST))));
    const tools = element("div", {class: "tools"});
    const button = (text, title, act) => { const made = element("button", {type: "button", title}, text); made.addEventListener("click", act); tools.append(made); };
    button("+", "zoom in", () => zoom(0.5));
    button("−", "zoom out", () => zoom(2));
    button("◀", "earlier", () => look(view.from - (view.to - view.from) / 3, view.to - (view.to - view.from) / 3));
    button("▶", "later", () => look(view.from + (view.to - view.from) / 3, view.to + (view.to - view.from) / 3));
    button("all", "show all", () => look(0, view.all));
    const choice = (name, text) => {
        const box = element("input", {type: "checkbox"});
        box.checked = timelines.some((t) => t.shows[name]);
        box.addEventListener("change", () => { timelines.forEach((t) => { t.shows[name] = box.checked; }); redraw(); });
        tools.append(element("label", {}, box, text));
    };
    const made = section("timeline", "Timeline", element("p", {class: "soft"},
        "Drag to move, Ctrl and wheel or double-click to zoom; with the keyboard + − ← → 0. Point at a box or a gap for what it is and what it waits for. Numbers are micro-batches, counted through the segment."),
        tools, legend(operations.filter((item, i) => operations.findIndex((other) => other[0] === item[0]) === i)),
        legend([["idle, waits for another worker's result", STRIPS.wait, "plain"], ...RESTS_SHORT.filter(([cause]) => causes.has(cause)).map(([cause, text]) => [text, STRIPS[cause], DASHED[cause][0]])]));
    for (const subject of drawn) {
        const timeline = new Timeline(subject), t = subject.timeline;
        timelines.push(timeline);
        const notes = [];
        if (t.shown < t.all || (t.measured_shown || 0) < (t.measured_all || 0))
            notes.push(`Left out to keep the page small: ${digits(t.shown, 0)} of ${digits(t.all, 0)} predicted${t.measured ? ` and ${digits(t.measured_shown, 0)} of ${digits(t.measured_all, 0)} measured` : ""} computations are shown.`);
        if (t.transfers_left_out) notes.push(`${digits(t.transfers_left_out, 0)} transfers are left out.`);
        if (t.skipped_batches) notes.push(`The segment has ${digits(t.skipped_batches + t.batches, 0)} mini-batches; its last ${digits(t.batches, 0)} were simulated.`);
        if (t.shift_s) notes.push("The trace holds only the end of the segment: it is moved so that half of its computations begin later, and half earlier, than predicted.");
        if (t.workers > WORKERS_MAX) notes.push(`The first ${WORKERS_MAX} of ${t.workers} workers are drawn.`);
        if (!t.measured) notes.push(subject.path ? "Only the prediction is drawn: this run has no trace. Train with --trace to see what was measured beside it." : "Only the prediction is drawn: this plan was not trained.");
        made.append(...[several ? element("h3", {}, mark(subject), subject.title) : null, ...notes.map((note) => element("p", {class: "soft"}, note)), timeline.canvas].filter((e) => e));
    }
    choice("critical", "critical path (predicted)");
    choice("transfers", "transfers");
    choice("weights", "versions of weights");
    choice("memory", "memory");
    if (drawn.some((s) => s.timeline.versions))
        made.append(element("p", {class: "soft"}, "Lane of weights: v7 is the version that a forward or backward reads, counted in updates of its stage since the segment began; v7+2 is predicted two updates ahead. "
            + "Colours alternate from version to version. Each square at the foot of a backward is an update between its forward and it. Green bars are updates."));
    view.all = Math.max(...drawn.map((s) => s.timeline.end * s.timeline.tick_s)) / drawn[0].timeline.tick_s;
    // All runs are drawn to the scale of the first.
    for (const t of timelines) {
        const scale = t.timeline.tick_s / drawn[0].timeline.tick_s;
        if (scale === 1) continue;
        for (const row of Object.values(t.timeline.rows).flat()) for (let i = 0; i < row.count; i++) {
            row.start[i] *= scale; row.end[i] *= scale; row.since[i] *= scale; row.wait[i] *= scale;
        }
        t.timeline.memory_kib = t.timeline.memory_kib.map((points) => points.map((v, i) => (i % 2 === 0 ? v * scale : v)));
        for (const list of ["transfers", "measured_transfers"].filter((name) => t.timeline[name]))
            t.timeline[list] = t.timeline[list].map((v, i) => (i % 8 === 5 || i % 8 === 6 ? v * scale : v));
        t.timeline.end *= scale;
        t.timeline.predicted_end *= scale;
        t.timeline.tick_s /= scale;
    }
    view.to = view.all;
    // A long timeline begins with a part in which single boxes can be seen: about sixty of a worker.
    const parts = drawn.map((s) => s.timeline.end / Math.max(...s.timeline.rows.predicted.map((row) => row.count)) * 60);
    const least = Math.min(...parts);
    if (least < 0.4 * view.all) look(0, least);
}

// ------------------------------------------------------------------ idle

// Waits of a timeline, added up by who waits for what.
function wait_rows(timeline, kind) {
    const sums = new Map();
    timeline.rows[kind].forEach((row, w) => {
        for (let i = 0; i < row.count; i++) {
            const gap = row.start[i] - row.since[i];
            if (gap <= 0) continue;
            const maker = row.flags[i] & FLAG_MAKER ? maker_of(timeline, kind, row, i) : undefined, waited = Math.min(gap, row.wait[i]);
            const add = (text, ticks) => {
                const key = `${w}|${text}`, sum = sums.get(key) || {worker: w, text, count: 0, ticks: 0};
                sum.count++;
                sum.ticks += ticks;
                sums.set(key, sum);
            };
            const what = (OPERATIONS[row.op[i]] || [row.op[i]])[0];
            if (waited > 0) {
                const other = maker ? timeline.rows[kind][maker[0]] : null;
                add(maker ? `${(OPERATIONS[other.op[maker[1]]] || [""])[0]} of stage ${other.stage[maker[1]]} on worker ${maker[0]}` : `its input for a ${what}`, waited);
            }
            if (gap > waited && (row.flags[i] & FLAG_REST)) add(`${RESTS[row.flags[i] & FLAG_REST]} (before ${/^[aeiou]/.test(what) ? "an" : "a"} ${what})`, gap - waited);
        }
    });
    return [...sums.values()].sort((a, b) => b.ticks - a.ticks);
}
function idle_section() {
    const simulated = subjects.filter((s) => s.simulation);
    if (simulated.length === 0) return;
    section("idle", "Why workers stand idle", element("p", {class: "soft"},
        "The bars are the simulated segment, fill and drain included. The tables add up the gaps of the timeline above by what ended them."),
        legend(Object.values(TIMES)), each(simulated, (subject) => {
            const simulation = subject.simulation, made = [];
            const rows = simulation.workers.slice(0, WORKERS_MAX).map((worker, w) => [`worker ${w}`, Object.keys(TIMES).map((kind) =>
                [TIMES[kind][0], kind === "busy" ? worker.busy_s : worker.idle_s[kind], TIMES[kind][1], TIMES[kind][2]])]);
            made.push(bars(rows, seconds, "time of each worker by what it does"));
            if (!subject.timeline) return made;
            for (const kind of Object.keys(subject.timeline.rows)) {
                const timeline = subject.timeline, all = wait_rows(timeline, kind), most = 8;
                if (all.length === 0) continue;
                made.push(element("p", {}, element("b", {}, `The longest waits, ${kind}`)), table(["worker", ["waits for", "text"], "times", "together", "of the time shown"],
                    all.slice(0, most).map((sum) => [String(sum.worker), sum.text, digits(sum.count, 0), seconds(sum.ticks * timeline.tick_s), percent(sum.ticks / Math.max(1, last_of(timeline.rows[kind])))])));
                if (all.length > most) made.push(element("p", {class: "soft"}, `${all.length - most} shorter ones are left out.`));
            }
            return made;
        }));
}

// ------------------------------------------------------------------ critical path, prediction, advice

function critical_section() {
    const with_path = subjects.filter((s) => s.simulation && s.simulation.critical_path);
    if (with_path.length === 0) return;
    section("critical", "The critical path", element("p", {class: "soft"},
        "The chain of computations and transfers that the end of the simulated segment waits for. What is not on it could take a little longer at no cost."),
        each(with_path, (subject) => {
            const path = subject.simulation.critical_path, parts = [];
            path.compute_s.forEach((s, w) => { if (s > 0) parts.push([`worker ${w}`, s, PATH[w % PATH.length], PATH_FILLS[w % PATH_FILLS.length]]); });
            if (path.transfer_s > 0) parts.push(["transfers", path.transfer_s, "#ffffff", "cross"]);
            if (path.other_s > 0) parts.push(["sending and receiving", path.other_s, "#b8bfc8", "lines"]);
            const whole = parts.reduce((sum, part) => sum + part[1], 0);
            return [bars([["path", parts]], seconds, "parts of the critical path"),
                legend(parts.slice(0, 24).map(([name, s, colour, fill]) => [`${name} ${percent(s / whole)}`, colour, fill]))];
        }));
}
function error_of(predicted, measured) {
    if (!known(predicted) || !known(measured) || measured === 0) return "–";
    const error = predicted / measured - 1;
    return `${Math.abs(error) < 0.0005 ? "" : error > 0 ? "+" : "−"}${percent(Math.abs(error))}`;
}
function prediction_section() {
    const simulated = subjects.filter((s) => s.simulation);
    if (simulated.length === 0) return;
    section("prediction", "Prediction and measurement", each(simulated, (subject) => {
        const s = subject.simulation, rows = [], made = [];
        const row = (name, predicted, measured, show) => rows.push([name, known(predicted) ? show(predicted) : "–", known(measured) ? show(measured) : "–",
            error_of(predicted, measured)]);
        if (subject.summary) rows.push(["samples per second, whole run", figure(subject, "predicted_samples_per_s", significant), figure(subject, "samples_per_s", significant),
            error_of(subject.summary.predicted_samples_per_s, subject.summary.samples_per_s)]);
        if (known(s.measured_period_s)) {
            row("from one mini-batch to the next", s.measured_period_s * (1 + s.period_error), s.measured_period_s, seconds);
            row("the traced part", s.measured_makespan_s * (1 + s.makespan_error), s.measured_makespan_s, seconds);
            for (const op of s.operations || []) row(`${(OPERATIONS[op.op] || [op.op])[0]}, mean of ${op.count}`, op.predicted_s, op.measured_s, seconds);
        } else {
            row("from one mini-batch to the next", s.period_s, undefined, seconds);
            row("samples per second, steady state", s.throughput_samples_per_s, undefined, significant);
        }
        made.push(table(["", "predicted", "measured", "error"], rows));
        if (!subject.traced && subject.path) made.push(element("p", {class: "soft"}, "With train --trace each instruction is held against its prediction."));
        if (subject.path && subject.config && subject.config.cores === undefined)
            made.push(element("p", {class: "soft"}, "The run does not say how many of its workers computed at the same time; the prediction of single instructions lets all of them."));
        return made;
    }));
}
function advice_section() {
    const simulated = subjects.filter((s) => s.simulation);
    if (simulated.length === 0) return;
    section("advice", "What would help", each(simulated, (subject) => {
        const advice = subject.simulation.advice, limit = subject.plan.predicted && subject.plan.predicted.limit, made = [];
        if (limit) made.push(element("p", {}, `The plan is limited by ${limit}.`));
        if (!advice) made.push(element("p", {}, "No single change that was tried (a layer moved over a cut, a link twice as fast) would shorten the period."));
        else if (advice.change === "move_layer") {
            const layer = subject.layers && subject.layers[advice.layer - 1];
            made.push(element("p", {}, `Worker ${advice.limiting_worker} limits: moving layer ${advice.layer}${layer ? ` (${shorten(layer.name, 60)})` : ""} from worker ${advice.from} to worker ${advice.to} would save ${percent(advice.saving)}: a mini-batch every ${seconds(advice.period_s)}.`));
        } else made.push(element("p", {}, `The link of workers ${advice.from} and ${advice.to} limits: twice its bandwidth would save ${percent(advice.saving)}: a mini-batch every ${seconds(advice.period_s)}.`));
        const slow = subject.simulation.workers.map((w, i) => [w.busy_s, i]).sort((a, b) => b[0] - a[0]), span = subject.simulation.makespan_s;
        if (slow.length > 1) made.push(element("p", {class: "soft"}, `Busiest: worker ${slow[0][1]}, ${percent(slow[0][0] / span, 0)} of the time; least busy: worker ${slow[slow.length - 1][1]}, ${percent(slow[slow.length - 1][0] / span, 0)}.`));
        return made;
    }));
}

// ------------------------------------------------------------------ memory, weights, layers

function memory_section() {
    const sized = subjects.filter((s) => s.memory);
    const measured = subjects.filter((s) => s.summary && s.summary.workers);
    if (sized.length + measured.length === 0) return;
    section("memory", "Memory", legend(Object.entries(MEMORY).map(([name, [colour, fill]]) => [name, colour, fill])),
        element("p", {class: "soft"}, "Bars are predicted and to one scale; a triangle marks what the run took, a line the limit."),
        each(subjects.filter((s) => sized.includes(s) || measured.includes(s)), (subject) => {
            const made = [], workers = subject.summary && subject.summary.workers;
            if (subject.memory) made.push(bars(subject.memory.slice(0, WORKERS_MAX).map((worker, w) => [`worker ${w}`, Object.keys(MEMORY).map((kind) =>
                [kind, worker.parts[kind], ...MEMORY[kind]]), worker.limit_bytes, workers && workers[w] ? workers[w].memory_bytes : 0]), bytes, "memory of each worker by kind"));
            const heads = ["worker"], count = workers ? workers.length : subject.memory.length, cells = [];
            if (subject.memory) heads.push(...Object.keys(MEMORY));
            heads.push("predicted", "measured", "limit");
            if (workers) heads.push("busy", "sent", "received");
            for (let w = 0; w < count; w++) {
                const parts = subject.memory && subject.memory[w], sum = parts ? Object.values(parts.parts).reduce((a, b) => a + b, 0) : undefined;
                cells.push([String(w), ...(subject.memory ? Object.keys(MEMORY).map((kind) => bytes(parts.parts[kind])) : []),
                    workers ? figure(subject, `workers.${w}.predicted_memory_bytes`, bytes) : bytes(sum), workers ? figure(subject, `workers.${w}.memory_bytes`, bytes) : "–",
                    parts && parts.limit_bytes ? bytes(parts.limit_bytes) : "none",
                    ...(workers ? [figure(subject, `workers.${w}.busy_s`, seconds), figure(subject, `workers.${w}.sent_bytes`, bytes), figure(subject, `workers.${w}.received_bytes`, bytes)] : [])]);
            }
            made.push(table(heads, cells));
            return made;
        }));
}
function weights_section() {
    const counted = subjects.filter((s) => s.timeline && s.timeline.versions);
    if (counted.length === 0) return;
    section("weights", "Versions of weights", element("p", {class: "soft"},
        "Copies of a stage's weights that its worker keeps, and the largest number of updates between a forward and its own backward. Both are counted in the programs."),
        each(counted, (subject) => [table(["stage", ["worker", "text"], "staleness", "copies of the worker", "predicted ahead"], subject.plan.stages.map((stage, s) => {
            const reads = subject.timeline.versions.stages[s].reads, ahead = Math.max(0, ...reads.filter((_, i) => i % 6 === 1 || i % 6 === 4));
            const workers = stage_workers(stage);
            return [String(s), workers.join(", "), plural(subject.timeline.versions.stages[s].staleness, "update"), String(Math.max(...workers.map((w) => subject.simulation.workers[w].weight_copies))),
                ahead ? plural(ahead, "update") : "no"];
        }))]));
}
function layers_section() {
    const costed = subjects.filter((s) => s.layers);
    if (costed.length === 0) return;
    section("layers", "Layers and the cut", element("p", {class: "soft"}, "Of one micro-batch. A double line is a cut between stages; what crosses it is the output of the layer above it."),
        each(costed, (subject) => {
            const most = Math.max(...subject.layers.map((l) => l.forward_s + l.backward_s)) || 1;
            const ends = new Map(subject.plan.stages.map((stage, s) => [stage.layers[1], s])), ordered = Boolean(subject.plan.order);
            let stage = 0;
            const rows = subject.layers.map((layer, l) => {
                while (stage + 1 < subject.plan.stages.length && subject.plan.stages[stage].layers[1] < l + 1) stage++;
                const at = subject.plan.stages[stage], first = at.layers[0] === l + 1;
                const cells = [ordered ? "" : first ? `${stage} on ${stage_workers(at).join(", ")}` : "", String(l + 1), shorten(layer.name, 60), layer.kind, seconds(layer.forward_s), seconds(layer.backward_s),
                    seconds(layer.update_s), bytes(layer.parameter_bytes), bytes(layer.output_bytes), bytes(layer.stash_bytes)];
                const bar = element("i", {});
                bar.setAttribute("title", `forward and backward: ${seconds(layer.forward_s + layer.backward_s)}`);
                bar.style.width = `${(100 * (layer.forward_s + layer.backward_s) / most).toFixed(1)}%`;
                return element("tr", {class: !ordered && ends.has(l + 1) && l + 1 < subject.layer_count ? "cut" : undefined},
                    cells.map((text, i) => element("td", {class: i === 2 || i === 3 || i === 0 ? "text" : undefined}, text)), element("td", {class: "bar"}, bar));
            });
            const notes = [];
            if (subject.layer_count > subject.layers.length) notes.push(`The first ${subject.layers.length} of ${digits(subject.layer_count, 0)} layers are listed.`);
            if (ordered) notes.push("The plan cuts the graph along another order of its layers, which this list does not show.");
            return [...notes.map((note) => element("p", {class: "soft"}, note)),
                table([["stage", "text"], "layer", ["name", "text"], ["kind", "text"], "forward", "backward", "update", "parameters", "output", "kept", ["forward and backward", "text"]], rows)];
        }, true));
}

// ------------------------------------------------------------------ all of it

head();
subjects.forEach(prepare);
facts();
curves();
prediction_section();
timeline_section();
idle_section();
critical_section();
advice_section();
memory_section();
weights_section();
layers_section();
page.append(element("p", {class: "soft"}, `Made by penstock report, version ${data.penstock}.`));
timelines.forEach((timeline) => timeline.draw(false));
window.addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
window.addEventListener("beforeprint", () => timelines.forEach((timeline) => timeline.draw(true)));
window.addEventListener("afterprint", redraw);
document.documentElement.dataset.ready = "yes";
})();
