/* The page of a report or of a comparison: builds text, charts and tables from the data in it. */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const charts = [];

/* Sizes and times as the report's text has them. */
function size(bytes) {
  if (bytes === null || bytes === undefined) return "-";
  if (bytes < 0) return "-" + size(-bytes);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = bytes;
  while (Math.round(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  const whole = Number.isInteger(value) || value >= 99.95 || unit === 0;
  return (whole ? Math.round(value) : value.toFixed(1)) + " " + units[unit];
}

function duration(ns) {
  if (ns === null || ns === undefined) return "-";
  if (ns < 0) return "-" + duration(-ns);
  const units = ["ns", "us", "ms", "s"];
  let unit = 0, value = ns;
  while (value >= 1000 && unit < 3) { value /= 1000; unit++; }
  return (unit > 0 && value < 100 ? (Math.floor(value * 10) / 10).toFixed(1) : Math.floor(value)) +
         " " + units[unit];
}

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* A column of a table: heading, the value that it sorts by, how that is shown. */
const text = (heading, key) => ({heading, value: row => row[key] ?? "", show: String});
const number = (heading, key, show = String) => ({heading, numeric: true, show,
                                                  value: row => row[key] ?? null});
const bytes = (heading, key) => number(heading, key, size);
const ends = [text("Operation", "dir"), text("From", "src_kind"), text("To", "dst_kind")];
const outcomes = [bytes("Asked", "asked_bytes"), bytes("Moved", "moved_bytes"),
                  bytes("CPU copied", "cpu_copied_bytes"), bytes("Elided", "elided_bytes")];
const time = number("Time", "blocked_ns", duration);

function compare(a, b) {
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  return a < b ? -1 : 1;
}

/* A table whose headings sort it and whose field filters it: every word must be in the row. */
function table(id, title, columns, rows, inAll) {
  if (!rows.length) return;
  const count = make("span", {class: "soft"});
  const filter = make("input", {type: "search", placeholder: "filter", id: id + "-filter",
                                "aria-label": "Filter: " + title});
  const head = make("tr");
  const body = make("tbody");
  const lines = rows.map(row => {
    const values = columns.map(column => column.value(row));
    const cells = columns.map((column, i) => values[i] === null ? "-" : column.show(values[i], row));
    const line = make("tr", {}, ...columns.map((column, i) => make(
        "td", {class: (column.numeric ? "number " : "") + (column.mark ? column.mark(row) : "")},
        cells[i])));
    return {values, line, text: cells.join(" ").toLowerCase()};
  });
  let sorted = -1, down = false;

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = lines.filter(line => words.every(word => line.text.includes(word)));
    body.replaceChildren(...shown.map(line => line.line));
    count.textContent = `${shown.length} of ${inAll ?? rows.length}`;
  }

  function sort(at) {
    down = sorted === at ? !down : Boolean(columns[at].numeric);
    sorted = at;
    lines.sort((a, b) => compare(a.values[at], b.values[at]) * (down ? -1 : 1));
    [...head.children].forEach((cell, i) => i === at
        ? cell.setAttribute("aria-sort", down ? "descending" : "ascending")
        : cell.removeAttribute("aria-sort"));
    draw();
  }

  columns.forEach((column, i) => {
    const cell = make("th", {class: column.numeric ? "number" : "", tabindex: 0, scope: "col"},
                      column.heading);
    cell.addEventListener("click", () => sort(i));
    cell.addEventListener("keydown", event => { if (event.key === "Enter") sort(i); });
    head.append(cell);
  });
  filter.addEventListener("input", draw);
  draw();
  main.append(make("section", {id},
      make("div", {class: "bar"}, make("h2", {}, title), count, filter),
      make("div", {class: "scroll"}, make("table", {}, make("thead", {}, head), body))));
}

function tiles(pairs) {
  main.append(make("div", {class: "tiles"}, ...pairs.map(([value, name]) =>
      make("div", {class: "tile"}, make("b", {}, value), make("span", {}, name)))));
}

/* Charts.  Colours are read from the page's style at each drawing, because the theme may change. */
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function chart(grid, id, title, wide, height, config) {
  const canvas = make("canvas", {id, role: "img", "aria-label": title});
  grid.append(make("div", {class: wide ? "chart wide" : "chart"}, make("h3", {}, title),
                   make("div", {style: `height:${height}px`}, canvas)));
  charts.push({canvas, config, drawn: null});
}

function drawCharts() {
  for (const each of charts) {
    if (each.drawn) each.drawn.destroy();
    Chart.defaults.color = colour("--ink");
    Chart.defaults.borderColor = colour("--line");
    each.drawn = new Chart(each.canvas, each.config());
  }
}

/* A step between ticks that is a power of two, for at most eight of them. */
const step = greatest => 2 ** Math.max(Math.ceil(Math.log2(greatest / 8 || 1)), 0);

function options(axis, show, stacked, stepSize, hint) {
  const other = axis === "x" ? "y" : "x";
  return {
    indexAxis: axis, responsive: true, maintainAspectRatio: false, animation: false,
    interaction: {mode: "index", axis, intersect: false},
    scales: {
      [other]: {stacked, beginAtZero: true,
                ticks: {stepSize, maxRotation: 0, autoSkipPadding: 8,
                        callback: value => show(value)}},
      [axis]: {stacked, grid: {display: false}, title: {display: Boolean(hint), text: hint},
               ticks: hint ? {maxRotation: 0, autoSkipPadding: 24} : {autoSkip: false}},
    },
    plugins: {
      legend: {position: "bottom"},
      tooltip: {callbacks: {label: item =>
          `${item.dataset.label}: ${show(item.parsed[other])}`}},
    },
  };
}

/* Bars of what became of the bytes asked for, one a row. */
function outcomeBars(grid, id, title, wide, rows, label) {
  if (!rows.length) return;
  const series = [["Moved", "moved_bytes", "--moved"], ["CPU copied", "cpu_copied_bytes", "--cpu"],
                  ["Elided", "elided_bytes", "--elided"]];
  chart(grid, id, title, wide, 70 + 26 * rows.length, () => ({
    type: "bar",
    data: {
      labels: rows.map(label),
      datasets: series.map(([name, key, shade]) => ({
        label: name, data: rows.map(row => row[key]), backgroundColor: colour(shade),
      })),
    },
    options: options("y", size, true, step(Math.max(...rows.map(row => row.asked_bytes)))),
  }));
}

function timeChart(grid) {
  const {width_ns: width, series} = data.timeline;
  const names = Object.keys(series);
  if (!names.length) {
    main.append(make("p", {class: "soft"}, "Traffic over time: the logs have no transfers; run " +
                                           "with ZC_LOG_LEVEL=events to see it."));
    return;
  }
  const shades = {"CPU copied": "--cpu", "Elided": "--elided"};
  let next = 0;
  for (const name of names) shades[name] ??= `--s${Math.min(next++, 4)}`;
  const second = 1e9 / width;
  const perSecond = bytes => size(bytes * second) + "/s";
  const sums = series[names[0]].map((_, i) => names.reduce((sum, name) => sum + series[name][i], 0));
  chart(grid, "over-time", "Traffic over time", true, 240, () => ({
    type: "bar",
    data: {
      labels: series[names[0]].map((_, i) => duration(i * width)),
      datasets: names.map(name => ({label: name, data: series[name], barPercentage: 1,
                                    categoryPercentage: 1, backgroundColor: colour(shades[name])})),
    },
    options: options("x", perSecond, true, step(Math.max(...sums) * second) / second,
                     `since the first transfer, ${duration(width)} a bar`),
  }));
}

/* A sentence in which `...` is what one writes in policy.conf. */
function sentence(words) {
  return words.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part);
}

function report() {
  const {run, totals} = data;
  if (run.refused_text) main.append(make("p", {class: "refused"}, run.refused_text));
  main.append(make("p", {class: "soft"}, [
    `${run.processes} ${run.processes === 1 ? "process" : "processes"}`, run.gpus.join(", "),
    `log level ${data.level}`, run.policies.length ? `policy ${run.policies.join(", ")}`
                                                   : "no policy"].filter(Boolean).join(" · ")));
  tiles([[size(totals.asked_bytes), `asked in ${totals.asked_calls} copies`],
         [size(totals.moved_bytes), "moved"], [size(totals.cpu_copied_bytes), "copied by the CPU"],
         [size(totals.elided_bytes), "elided"], [duration(totals.blocked_ns), "blocked"],
         [size(totals.pageable_moved_bytes), "moved as pageable memory"],
         ...(data.link ? [[size(data.link.to_device_bytes), "to the device, by hardware counter"],
                          [size(data.link.from_device_bytes), "from it, by hardware counter"]]
                       : [["not measured", "link by hardware counter"]])]);
  main.append(make("h2", {}, "Findings"));
  main.append(data.findings.length
      ? make("ol", {class: "findings"}, ...data.findings.map(finding => make("li", {},
            ...sentence(finding.text + "."), ...(finding.rule ? [make("pre", {}, finding.rule)] : []))))
      : make("p", {}, "Nothing stands out."));
  if (window.Chart) {
    const grid = make("div", {class: "charts"});
    main.append(make("h2", {}, "Charts"), grid);
    timeChart(grid);
    outcomeBars(grid, "by-direction", "By direction", false,
                data.flows.filter(row => !["Memset", "Prefetch"].includes(row.dir)),
                row => `${row.dir} ${row.src_kind} to ${row.dst_kind}`);
    outcomeBars(grid, "by-site", "By site, the first 10", false, data.sites.slice(0, 10),
                row => row.caller ? row.caller.slice(0, 32) : row.site);
    outcomeBars(grid, "by-block", "By block, the first 12", true, data.blocks.slice(0, 12),
                row => `block ${row.block} ${row.caller}`.slice(0, 48));
  } else {
    main.append(make("p", {class: "soft", id: "no-charts"}, data.no_charts));
  }
  table("flows", "Where the bytes went",
        [...ends, bytes("Total", "asked_bytes"), number("Count", "asked_calls"),
         {heading: "Avg", numeric: true, show: size,
          value: row => row.asked_calls ? row.asked_bytes / row.asked_calls : null},
         bytes("Med", "median_bytes"), bytes("Min", "min_bytes"), bytes("Max", "max_bytes"),
         ...outcomes.slice(1), time], data.flows);
  table("sites", "Sites", [text("Site", "site"), text("Caller", "caller"),
        number("Blocks", "requests"), number("Copies", "asked_calls"), ...outcomes, time,
        number("Repeated", "repeated_calls")], data.sites, data.sites_in_all);
  table("blocks", "Blocks", [text("Process", "process"), number("Block", "block"),
        bytes("Size", "size_bytes"), text("Place", "place"), text("Rule", "rule"),
        text("Caller", "caller"), number("Copies", "asked_calls"), ...outcomes, time],
        data.blocks, data.blocks_in_all);
  table("repeated", "Repeated copies", [...ends, bytes("Size", "size_bytes"),
        number("Times", "asked_calls"), text("Source", "src"), text("Destination", "dst"),
        text("Caller", "caller"), bytes("Moved", "moved_bytes"), time], data.repeated,
        data.repeated_in_all);
  table("shared", "Shared blocks", [text("Site", "site"), text("Caller", "caller"),
        number("Blocks", "blocks"), number("One", "one"), bytes("Elided", "elided_bytes"),
        number("Elided copies", "elided_copies"), number("Parted pages", "parted_pages"),
        number("Faults", "faults"), number("Fault time", "fault_ns", duration)], data.shared);
  table("places", "Most memory at one time", [text("Place", "place"), bytes("Peak", "peak_bytes")],
        data.places);
  table("processes", "Processes", [text("Host", "host"), number("Rank", "rank"),
        number("Pid", "pid"), text("Program", "exe"), number("Wall", "wall_ns", duration),
        ...outcomes, time, text("State", "state"), text("Log", "log")], data.processes,
        run.processes);
}

/* Comparison of two runs: columns come in threes, before, after and the change. */
function diff() {
  const better = (row, key) => row[key] < 0 ? "better" : row[key] > 0 ? "worse" : "";
  const cell = (value, row) => row.unit === "ns" ? duration(value)
      : row.unit === "count" ? String(value) : size(value);
  const judged = ["Moved", "Moved as pageable", "Blocked", "Time", "Device memory peak",
                  "Migrated HtoD", "Migrated DtoH", "CPU page faults", "GPU fault groups"];
  const three = (heading, key, show) => [
    number(`${heading} A`, `a_${key}`, show), number(`${heading} B`, `b_${key}`, show),
    {...number("Change", `change_${key}`, show),
     mark: row => key === "asked_bytes" ? "" : better(row, `change_${key}`)}];
  main.append(make("p", {class: "verdict", id: "verdict"}, data.verdict));
  if (window.Chart) {
    const grid = make("div", {class: "charts"});
    const rows = data.sites.filter(row => row.change_moved_bytes).slice(0, 12);
    main.append(make("h2", {}, "Charts"), grid);
    const shades = [["A", "--s4"], ["B", "--moved"]];
    const pairs = (id, title, wide, list, label) => list.length && chart(
        grid, id, title, wide, 70 + 34 * list.length, () => ({
          type: "bar",
          data: {labels: list.map(label), datasets: shades.map(([name, shade]) => ({
            label: name, data: list.map(row => row[`${name.toLowerCase()}_moved_bytes`]),
            backgroundColor: colour(shade)}))},
          options: options("y", size, false, step(Math.max(...list.flatMap(
              row => [row.a_moved_bytes, row.b_moved_bytes])))),
        }));
    pairs("by-direction", "Moved by direction", true, data.flows,
          row => `${row.dir} ${row.src_kind} to ${row.dst_kind}`);
    pairs("by-site", "Moved by site, the greatest changes", true, rows,
          row => row.caller ? row.caller.slice(0, 40) : row.site);
  } else {
    main.append(make("p", {class: "soft", id: "no-charts"}, data.no_charts));
  }
  table("totals", "Totals", [text("", "name"), {heading: "A", numeric: true, value: row => row.a, show: cell},
        {heading: "B", numeric: true, value: row => row.b, show: cell},
        {heading: "Change", numeric: true, value: row => row.change, show: cell,
         mark: row => judged.includes(row.name) ? better(row, "change") : ""}], data.totals);
  table("sites", "Sites", [text("Site", "site"), text("Caller", "caller"), text("In", "side"),
        ...three("Asked", "asked_bytes", size), ...three("Moved", "moved_bytes", size),
        ...three("Time", "blocked_ns", duration)], data.sites, data.sites_in_all);
  table("flows", "By direction", [...ends, ...three("Asked", "asked_bytes", size),
        ...three("Moved", "moved_bytes", size), ...three("Time", "blocked_ns", duration)],
        data.flows);
  table("processes", "Processes", [text("Process", "name"), text("In", "side"),
        ...three("Wall", "wall_ns", duration), ...three("Moved", "moved_bytes", size),
        ...three("Device peak", "device_peak_bytes", size)], data.processes,
        data.processes_in_all);
}

function notes() {
  if (data.notes.length)
    main.append(make("h2", {}, "Notes"),
                make("ul", {id: "notes"}, ...data.notes.map(note => make("li", {}, note))));
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  if (window.Chart) drawCharts();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
                                                            () => window.Chart && drawCharts());
main.replaceChildren();
if (data.zc_diff) diff(); else report();
notes();
if (window.Chart) drawCharts();
