/* SPDX-License-Identifier: MIT */
/* The page of `zc diff`: columns come in threes, before, after and the change. */
"use strict";

/* `+64 MiB (+12 %)`: the change from a to b with its sign and its part of a. */
function changeOf(a, b, show) {
  if (a === null || b === null) return "-";
  if (a === b) return "=";
  const sign = b > a ? "+" : "";
  if (!a) return `${sign}${show(b - a)}`;
  const share = Math.round(100 * (b - a) / a);
  // What is left of it is not nothing.
  const shown = b ? Math.max(share, -99) : share;
  return `${sign}${show(b - a)} (${shown > 0 ? "+" : ""}${shown} %)`;
}

/* Times of a simulated GPU are neither better nor worse. */
const judges = unit => unit !== "ns" || !data.simulated;

function better(change, unit) {
  return !judges(unit) || !change ? "" : change < 0 ? "better" : "worse";
}

function three(heading, key, show) {
  const unit = show === duration ? "ns" : "bytes";
  return [number(`${heading} A`, `a_${key}`, show), number(`${heading} B`, `b_${key}`, show),
          {heading: "Change", numeric: true, value: row => row[`change_${key}`],
           show: (value, row) => changeOf(row[`a_${key}`], row[`b_${key}`], show),
           mark: row => key === "asked_bytes" ? "" : better(row[`change_${key}`], unit)}];
}

/* Two bars a row, A above B, each with its number. */
function pairBars(id, title, rows, label) {
  if (!rows.length) return "";
  const most = Math.max(...rows.flatMap(row => [row.a_moved_bytes, row.b_moved_bytes]));
  const bar = (side, value, shade) => make("div", {class: "bars-row pair"}, make("span", {}, side),
      make("span", {class: "track"}, make("i", {
        style: `width:${most ? 100 * value / most : 0}%;background:var(${shade})`})),
      make("b", {}, size(value)));
  return make("div", {class: "chart wide", id}, make("h3", {}, title), ...rows.flatMap(row => [
    make("p", {class: "pair-name"}, label(row), " ", make("span", {
      class: better(row.change_moved_bytes, "bytes")},
      changeOf(row.a_moved_bytes, row.b_moved_bytes, size))),
    bar("A", row.a_moved_bytes, "--s4"), bar("B", row.b_moved_bytes, "--moved")]));
}

function diff() {
  const judged = ["Moved", "Moved as pageable", "Blocked", "Time", "Device memory peak"];
  const show = row => row.unit === "ns" ? duration : size;
  const cell = (value, row) => show(row)(value);
  main.append(make("p", {class: "verdict", id: "verdict"}, data.verdict),
              make("div", {class: "charts", id: "runs"}, ...Object.entries(data.runs).map(
                  ([side, run]) => make("div", {class: "chart"},
                      make("h3", {}, `${side.toUpperCase()}: ${run.name}`), provenance(run)))));
  notes();
  const grid = make("div", {class: "charts"});
  main.append(make("h2", {}, "Charts"), grid);
  grid.append(
      pairBars("by-direction", "Moved by direction", data.flows,
               row => `${row.dir} ${row.src_kind} to ${row.dst_kind}`),
      pairBars("by-site", "Moved by site, the greatest changes",
               data.sites.filter(row => row.change_moved_bytes).slice(0, 12),
               row => row.caller || row.site));
  table("totals", "Totals", [text("", "name"),
        {heading: "A", numeric: true, value: row => row.a, show: cell},
        {heading: "B", numeric: true, value: row => row.b, show: cell},
        {heading: "Change", numeric: true, value: row => row.change,
         show: (value, row) => changeOf(row.a, row.b, show(row)),
         mark: row => judged.includes(row.name) ? better(row.change, row.unit) : ""}], data.totals);
  table("sites", "Sites", [text("Site", "site"), text("Caller", "caller"), text("In", "side"),
        ...three("Asked", "asked_bytes", size), ...three("Moved", "moved_bytes", size),
        ...three("Time", "blocked_ns", duration)], data.sites, {inAll: data.sites_in_all});
  table("flows", "By direction", [...ends, ...three("Asked", "asked_bytes", size),
        ...three("Moved", "moved_bytes", size), ...three("Time", "blocked_ns", duration)],
        data.flows);
  table("processes", "Processes", [text("Process", "name"), text("In", "side"),
        ...three("Wall", "wall_ns", duration), ...three("Moved", "moved_bytes", size),
        ...three("Device peak", "device_peak_bytes", size)], data.processes,
        {inAll: data.processes_in_all});
}
