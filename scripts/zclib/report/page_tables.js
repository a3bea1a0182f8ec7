/* SPDX-License-Identifier: MIT */
/* Tables that sort and filter, whose rows open; bars of what became of bytes. */
"use strict";

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

/* Tables with fewer rows are seen as a whole. */
const LEAST_FILTERED = 4;

/* Characters of a cell: of a longer one the end is left to the pointer, and to its details. */
const LONGEST = 40;

/* By table and key of a row, what shows that row with its details. */
const opens = {};

/* One row, which a click opens if it has details. */
function rowOf(id, columns, row, options, redraw) {
  const values = columns.map(column => column.value(row));
  const cells = columns.map((column, i) => values[i] === null ? "-" : column.show(values[i], row));
  const line = make("tr", {}, ...columns.map((column, i) => make(
      "td", {class: (column.numeric ? "number " : "") + (column.mark ? column.mark(row) : ""),
             ...(cells[i].length > LONGEST ? {title: cells[i]} : {})}, cells[i])));
  const one = {values, lines: [line], text: cells.join(" ").toLowerCase()};
  if (!options.details) return one;
  const opener = button("\u25b8", () => toggle(), {class: "opener", "aria-expanded": "false",
                                                   "aria-label": "Details"});
  line.firstChild.prepend(opener);
  function toggle(wanted) {
    const open = wanted ?? one.lines.length === 1;
    opener.textContent = open ? "\u25be" : "\u25b8";
    opener.setAttribute("aria-expanded", open);
    one.lines = open ? [line, make("tr", {class: "details"}, make(
        "td", {colspan: columns.length}, make("div", {class: "inside"}, ...options.details(row))))]
                     : [line];
    redraw();
  }
  line.classList.add("opens");
  line.addEventListener("click", event => { if (!event.target.closest("button")) toggle(); });
  one.key = options.key(row);
  one.show = () => {
    toggle(true);
    line.classList.add("found");
    setTimeout(() => line.classList.remove("found"), 2500);
    line.scrollIntoView({block: "center"});
    opener.focus({preventScroll: true});
  };
  return one;
}

/* A table whose headings sort it and whose field filters it: every word must be in the row.
   Options: inAll, how many rows there were; details(row), what an opened row shows; key(row), by
   which opens[id] finds it. */
function table(id, title, columns, rows, options = {}) {
  if (!rows.length) return;
  const count = make("span", {class: "soft"});
  const filter = make("input", {type: "search", placeholder: "filter", id: id + "-filter",
                                "aria-label": "Filter: " + title});
  const head = make("tr");
  const body = make("tbody");
  const lines = rows.map(row => rowOf(id, columns, row, options, () => draw()));
  let sorted = -1, down = false;

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = lines.filter(line => words.every(word => line.text.includes(word)));
    body.replaceChildren(...shown.flatMap(line => line.lines));
    count.textContent = `${shown.length} of ${options.inAll ?? rows.length}`;
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
    const cell = make("th", {class: column.numeric ? "number" : "", tabindex: 0, scope: "col",
                             ...(GLOSSARY[column.heading]
                                 ? {"data-tip": GLOSSARY[column.heading]} : {})}, column.heading);
    cell.addEventListener("click", () => sort(i));
    cell.addEventListener("keydown", event => { if (event.key === "Enter") sort(i); });
    head.append(cell);
  });
  filter.addEventListener("input", draw);
  draw();
  opens[id] = new Map(lines.filter(line => line.show).map(line => [line.key, () => {
    filter.value = "";
    line.show();
  }]));
  filter.hidden = rows.length < LEAST_FILTERED;
  main.append(make("section", {id},
      make("div", {class: "bar"}, make("h2", {}, title), count, filter),
      scrolling(make("table", {}, make("thead", {}, head), body))));
}

/* A box that scrolls sideways, and fades out where there is more. */
function scrolling(content) {
  const box = make("div", {class: "scroll"}, content);
  const mark = () => box.classList.toggle(
      "more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener("scroll", mark);
  new ResizeObserver(mark).observe(box);
  return box;
}

/* A button that leads to a row of a table, or the words alone where there is none. */
function leadTo(id, key, words) {
  return opens[id] && opens[id].has(key)
      ? button(words, () => opens[id].get(key)(), {class: "link"}) : words;
}

/* Bars, one a row; `parts` are name, key and colour, `act` what a click on a row's name does. */
function bars(id, title, rows, label, parts, act) {
  if (!rows.length) return "";
  const sum = row => parts.reduce((total, [, key]) => total + row[key], 0);
  const most = Math.max(...rows.map(sum));
  const used = parts.filter(([, key]) => rows.some(row => row[key]));
  const lines = rows.map(row => make("div", {class: "bars-row"},
      act ? button(label(row), () => act(row), {class: "link"}) : make("span", {}, label(row)),
      make("span", {class: "track"}, ...used.map(([name, key, shade]) => make("i", {
        style: `width:${most ? 100 * row[key] / most : 0}%;background:var(${shade})`,
        title: `${name}: ${size(row[key])}`}))),
      make("b", {}, size(sum(row)))));
  const legend = used.length > 1 ? [make("p", {class: "soft key"}, ...used.map(([name, , shade]) =>
      make("span", {}, make("i", {style: `background:var(${shade})`}), name)))] : [];
  return make("div", {class: "chart", id}, make("h3", {}, title), ...legend, ...lines);
}
