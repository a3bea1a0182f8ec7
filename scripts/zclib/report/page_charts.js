/* SPDX-License-Identifier: MIT */
/* The charts over time, by uPlot: rates, what was only issued, memory.  They share one axis. */
"use strict";

/* Colours are read from the page's style at each drawing, because the theme may change. */
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SHADES = {"CPU copied": "--cpu", "Elided": "--elided", "HtoD": "--s0", "DtoH": "--s1",
                "device": "--s0", "mapped": "--s1", "managed": "--s2", "vmm": "--s3",
                "shared": "--elided", "pinned": "--cpu", "pageable": "--s4"};

/* Steps between the ticks of sizes. */
const POWERS = Array.from({length: 50}, (_, i) => 2 ** i);

const overTime = {
  plots: [],        // Those that are drawn, with what makes them anew.
  end: 0,           // Of the run, in ns since its start, as all times here.
  range: [0, 1],    // What the charts show.
  site: null,       // The site whose bytes are drawn apart.
  changed: [],      // Called with the range after each change.
};

/* The x and y values of buckets: y holds from its x to the next one. */
function steps(part, values, factor) {
  const x = [], y = [];
  const last = (part.after_ns ?? 0) + values.length * part.width_ns;
  for (let i = 0; i < values.length; i++) {
    // Of equal neighbours the first tells all.
    if (i > 0 && values[i] === values[i - 1]) continue;
    x.push(part.after_ns + i * part.width_ns);
    y.push(values[i] * factor);
  }
  x.push(last);
  y.push(0);
  return [x, y];
}

/* Several series over one x, each as it was before where it has no value of its own. */
function joined(list) {
  const x = [...new Set([0, overTime.end, ...list.flatMap(([xs]) => xs)])].sort((a, b) => a - b);
  return [x, ...list.map(([xs, ys]) => {
    let at = -1;
    return x.map(time => {
      while (at + 1 < xs.length && xs[at + 1] <= time) at++;
      return at < 0 ? 0 : ys[at];
    });
  })];
}

/* A chart: series are name, colour and [x, y]. */
function plot(parent, id, title, show, height, series) {
  const box = make("div", {class: "chart wide"});
  const place = make("div", {id, role: "img", "aria-label": title});
  box.append(make("h3", {}, title), place);
  parent.append(box);
  const draw = () => new uPlot({
    width: Math.max(place.clientWidth, 200), height,
    scales: {x: {time: false, range: () => overTime.range},
             y: {range: (u, least, most) => [0, most > 0 ? most * 1.05 : 1]}},
    cursor: {sync: {key: "time"}, drag: {x: true, y: false, setScale: false},
             points: {size: 6}, bind: {dblclick: () => () => { zoom(0, overTime.end); }}},
    legend: {live: true},
    axes: [
      {stroke: () => colour("--soft"), grid: {stroke: () => colour("--line"), width: 1},
       ticks: {stroke: () => colour("--line")}, space: 80,
       values: (u, ticks) => ticks.map(duration)},
      {stroke: () => colour("--soft"), grid: {stroke: () => colour("--line"), width: 1},
       ticks: {stroke: () => colour("--line")}, size: 76,
       ...(show === size ? {incrs: POWERS} : {}), values: (u, ticks) => ticks.map(show)},
    ],
    series: [{label: "At", value: (u, value) => value === null ? "-" : duration(value)},
             ...series().map(([name, shade]) => ({
               label: name, stroke: colour(shade), width: 1.5, fill: colour(shade) + "33",
               paths: uPlot.paths.stepped({align: 1}), points: {show: false},
               value: (u, value) => value === null ? "-" : show(value)}))],
    hooks: {setSelect: [u => {
      if (u.select.width > 4)
        zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
      u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    }]},
  }, joined(series().map(each => each[2])), place);
  overTime.plots.push({place, draw, height, drawn: null});
}

/* Shows the time from start to end in all charts. */
function zoom(start, end) {
  const least = Math.max(overTime.end / 1e6, 10);
  start = Math.max(0, Math.min(start, overTime.end - least));
  end = Math.min(overTime.end, Math.max(end, start + least));
  overTime.range = [start, end];
  for (const each of overTime.plots)
    if (each.drawn) each.drawn.setScale("x", {min: start, max: end});
  overTime.changed.forEach(tell => tell(start, end));
}

/* Makes the middle stay and what is shown `by` as long; or moves by a part of what is shown. */
function scale(by, move = 0) {
  const [start, end] = overTime.range, half = (end - start) / 2 * by;
  const middle = (start + end) / 2 + move * (end - start);
  zoom(middle - half, middle + half);
}

function drawPlots() {
  for (const each of overTime.plots) {
    if (each.drawn) each.drawn.destroy();
    each.drawn = each.draw();
  }
}

function fitPlots() {
  for (const each of overTime.plots) {
    const width = Math.max(each.place.clientWidth, 200);
    if (each.drawn && each.drawn.width !== width) each.drawn.setSize({width, height: each.height});
  }
}

/* Draws the bytes of one site apart, or of none. */
function pickSite(site) {
  overTime.site = site;
  drawPlots();
  const first = overTime.plots[0];
  if (first) first.place.scrollIntoView({block: "center"});
}

/* The bytes of each site within a time, the greatest first. */
function sitesWithin(start, end) {
  const part = data.timeline.sites;
  const from = Math.max(0, Math.floor((start - part.after_ns) / part.width_ns));
  const to = Math.ceil((end - part.after_ns) / part.width_ns);
  return Object.entries(part.series)
      .map(([site, values]) => ({site, bytes: values.slice(from, Math.max(to, from))
                                                    .reduce((a, b) => a + b, 0)}))
      .filter(row => row.bytes > 0).sort((a, b) => b.bytes - a.bytes).slice(0, 8);
}

function shadesOf(names) {
  let next = 0;
  return names.map(name => SHADES[name] ?? `--s${2 + next++ % 3}`);
}

/* What is known of when bytes went: the calls that waited for them. */
function timedSeries(part, names) {
  const shades = shadesOf(names);
  return names.map((name, i) => {
    const issued = part.issued[name];
    const timed = part.series[name].map((sum, at) => sum - (issued ? issued[at] : 0));
    return [name, shades[i], steps(part, timed, 1 / part.width_ns)];
  }).filter(([, , [, y]]) => y.some(Boolean));
}

function timeCharts(parent) {
  const {timeline, memory_over_time: memory} = data, names = Object.keys(timeline.series);
  const places = Object.keys(memory.places);
  const ends = [[timeline, timeline.series[names[0]]], [memory, memory.places[places[0]]]];
  overTime.end = Math.max(data.run.longest_wall_ns, ...ends.map(([part, values]) =>
      values ? part.after_ns + values.length * part.width_ns : 0));
  overTime.range = [0, overTime.end];
  const missing = [names.length ? "" : "bytes over time (ZC_LOG_LEVEL=events)",
                   places.length ? "" : "memory over time (ZC_LOG_LEVEL=allocs or events)"]
      .filter(Boolean);
  if (missing.length)
    parent.append(make("p", {class: "soft wide", id: "no-times"},
                       `The logs do not tell ${missing.join(" and ")}.`));
  if (names.length || places.length) timeButtons(parent);
  if (timedSeries(timeline, names).length)
    plot(parent, "over-time", "Bytes over time, spread over the calls that waited for them", rate,
         220, () => [...timedSeries(timeline, names), ...siteSeries()]);
  if (Object.keys(timeline.issued).length)
    plot(parent, "issued", "Issued without waiting: bytes asked for, whenever they went " +
         `(sums of ${duration(timeline.width_ns)})`, size, 140,
         () => {
           const names = Object.keys(timeline.issued), shades = shadesOf(names);
           return names.map((name, i) => [name, shades[i],
                                          steps(timeline, timeline.issued[name], 1)]);
         });
  if (places.length)
    plot(parent, "memory", "Memory by place, the most at each time", size, 180, () => {
      const shades = shadesOf(places);
      return places.map((name, i) => [name, shades[i], steps(memory, memory.places[name], 1)]);
    });
  if (names.length) whoCopies(parent);
}

function siteSeries() {
  const part = data.timeline.sites, values = overTime.site && part.series[overTime.site];
  if (!values) return [];
  const issued = part.issued[overTime.site];
  return [[`site ${overTime.site}`, "--ink",
           steps(part, values.map((sum, i) => sum - (issued ? issued[i] : 0)), 1 / part.width_ns)]];
}

function timeButtons(parent) {
  const shown = make("span", {class: "soft", id: "range"});
  const tell = (start, end) => {
    shown.textContent = `${duration(start)} to ${duration(end)} of ${duration(overTime.end)}`;
  };
  overTime.changed.push(tell);
  tell(...overTime.range);
  parent.append(make("div", {class: "wide tools", id: "zoom"},
      button("+", () => scale(0.5), {"aria-label": "Zoom in"}),
      button("\u2212", () => scale(2), {"aria-label": "Zoom out"}),
      button("\u25c0", () => scale(1, -0.25), {"aria-label": "Earlier"}),
      button("\u25b6", () => scale(1, 0.25), {"aria-label": "Later"}),
      button("All", () => zoom(0, overTime.end)), shown,
      make("span", {class: "soft hint"}, "drag over a chart to zoom, double click for all")));
}

/* Which sites the bytes of the time that is shown belong to. */
function whoCopies(parent) {
  const list = make("div", {class: "wide chart", id: "who"});
  const tell = (start, end) => {
    const rows = sitesWithin(start, end);
    const names = new Map(data.sites.map(site => [site.site, site.caller]));
    list.replaceChildren(bars("who-bars", "Sites of the bytes in this time", rows,
        row => `${row.site} ${names.get(row.site) ?? ""}`, [["Asked", "bytes", "--moved"]],
        row => opens.sites && opens.sites.has(row.site) && opens.sites.get(row.site)()) ||
        make("p", {class: "soft"}, "No copy of a block in this time."));
  };
  overTime.changed.push(tell);
  tell(...overTime.range);
  parent.append(list);
}
