/* SPDX-License-Identifier: MIT */
/* The page of `zc report`. */
"use strict";

const OUTCOMES = [["Moved", "moved_bytes", "--moved"], ["CPU copied", "cpu_copied_bytes", "--cpu"],
                  ["Elided", "elided_bytes", "--elided"]];

/* Keys that promise something about the program (docs/policy.md). */
const PROMISES = /^(access|async|free|rdma) = /m;

function tiles(kind, pairs) {
  main.append(make("div", {class: kind}, ...pairs.map(([value, ...name]) =>
      make("div", {class: "tile"}, make("b", {}, value), make("span", {}, ...name)))));
}

/* Where the numbers of a run come from: a page that was mailed on must tell. */
function provenance(run, level) {
  const some = list => list.slice(0, 3).join(", ") +
                       (list.length > 3 ? ` and ${list.length - 3} more` : "");
  const rows = [
    ["Command", some(run.commands) + (run.processes > 1 ? ` (${run.processes} processes)` : "")],
    ["Begun", run.started_ns ? new Date(run.started_ns / 1e6).toISOString()
                                   .replace("T", " ").replace(/\..*/, " UTC") : ""],
    ["Host", some(run.hosts)], ["GPU", some(run.gpus)],
    ["Driver", run.drivers.length ? `CUDA ${some(run.drivers)}` : ""],
    ["libzc", some(run.libzc)],
    ["Policy", run.policies.length ? some(run.policies) +
        (run.policy_hashes.length ? ` (hash ${some(run.policy_hashes)})` : "") : "none"],
    ["Log level", level]];
  const known = rows.filter(([, value]) => value);
  return make("dl", {class: "facts"}, ...known.flatMap(
      ([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

/* The headline for people who don't see the page: of which program, and on what. */
function pasted() {
  const {programs, gpus} = data.run;
  const on = gpus.length ? ` on ${[...new Set(gpus)].slice(0, 3).join(", ")}` : "";
  return `${programs.slice(0, 3).join(", ")}${on}: ${data.headline}`;
}

function head() {
  const {run, totals} = data;
  if (run.missed_text) main.append(make("p", {class: "refused"}, run.missed_text));
  if (run.refused_text) main.append(make("p", {class: "refused"}, run.refused_text));
  main.append(make("p", {class: "verdict", id: "headline"}, ...sentence(data.headline)));
  const done = make("span", {class: "soft", role: "status"});
  main.append(make("div", {class: "tools"},
      button("Copy this sentence", () => copyText(pasted(), ok => {
        done.textContent = ok ? "Copied." : "Copying was refused.";
      }), {id: "copy-headline"}), done));
  tiles("tiles big", [
      [duration(run.longest_wall_ns), run.processes > 1 ? "the longest process" : "the run"],
      [duration(totals.blocked_ns), term("blocked", "Blocked"), " in copies"],
      [size(totals.moved_bytes), term("moved", "Moved"), ` of ${size(totals.asked_bytes)} `,
       term("asked", "Asked")]]);
  const pairs = [[totals.cpu_copied_bytes, "CPU copied", "copied by the CPU"],
                 [totals.elided_bytes, "Elided", "elided"],
                 [totals.relayed_bytes, "Link", "over the links of other GPUs"],
                 [totals.pageable_moved_bytes, "Pageable", "moved as pageable memory"],
                 ...(data.link ? [
                   [data.link.to_device_bytes, "Link", "over the link to the device"],
                   [data.link.from_device_bytes, "Link", "over the link from it"]] : [])];
  tiles("tiles", pairs.filter(([value]) => value).map(
      ([value, key, words]) => [size(value), term(words, key)]));
  main.append(provenance(run, data.level));
}

/* The policy of the findings whose boxes are ticked, each rule under its finding's words. */
function policy(chosen) {
  const lines = [`# Proposed by ${document.title}.`,
                 "# Compare it: zc run --compare policy.conf COMMAND", ""];
  // Of two rules that take one request the first counts, so those that name sites come first.
  const rules = data.findings.filter((each, i) => each.rule && chosen(i));
  for (const finding of rules.sort((a, b) => !a.site - !b.site))
    lines.push(...wrapped(finding.text), finding.rule.trimEnd(), "");
  return lines.join("\n");
}

function wrapped(words) {
  const lines = [];
  let line = "#";
  for (const word of words.split(/\s+/)) {
    if (line.length + word.length > 98) { lines.push(line); line = "#"; }
    line += " " + word;
  }
  return [...lines, line];
}

function findings() {
  main.append(make("h2", {}, "Findings"));
  if (!data.findings.length) {
    main.append(make("p", {}, "Nothing stands out."));
    return;
  }
  const ticks = [], said = make("span", {class: "soft", role: "status"});
  const copied = done => { said.textContent = done ? "Copied." : "Copying was refused."; };
  main.append(make("ol", {class: "findings", id: "findings"}, ...data.findings.map((finding, i) => {
    const item = make("li", {}, ...sentence(finding.text + "."));
    if (finding.site && opensLater(finding.site))
      item.append(" ", button("Show the site", () => opens.sites.get(finding.site)(),
                              {class: "link"}));
    if (finding.command)
      item.append(make("div", {class: "rule"}, make("pre", {}, finding.command),
          make("div", {class: "tools"}, button("Copy", () => copyText(finding.command, copied)))));
    if (!finding.rule) return item;
    // Rules for sites are other ways for bytes that a general one is about, and what promises
    // something about the program is for who knows that.
    const tick = make("input", {type: "checkbox"});
    tick.checked = !finding.site && !PROMISES.test(finding.rule);
    ticks[i] = tick;
    item.append(make("div", {class: "rule"}, make("pre", {}, finding.rule),
        make("div", {class: "tools"}, button("Copy", () => copyText(finding.rule, copied)),
             make("label", {}, tick, " into policy.conf"))));
    return item;
  })));
  if (!ticks.length) {
    main.append(said);
    return;
  }
  const chosen = () => policy(i => ticks[i] && ticks[i].checked);
  main.append(make("div", {class: "tools", id: "policy"},
      button("Download policy.conf", () => download("policy.conf", chosen())),
      button("Copy all that are ticked", () => copyText(chosen(), copied)), said));
}

const opensLater = site => data.sites.some(row => row.site === site);

function callPath(row) {
  return make("ol", {class: "path"}, ...row.frames.map(frame => make("li", {},
      frame.function ? make("b", {}, frame.function) : "", frame.line ? ` ${frame.line} ` : " ",
      make("code", {}, frame.frame))));
}

/* What an opened row of a site shows: its call path, its blocks, where to go from there. */
function siteDetails(row) {
  const blocks = data.blocks.filter(block => block.site === row.site);
  const parts = [callPath(row)];
  const rules = Object.keys(row.rules), places = Object.keys(row.places);
  parts.push(make("p", {class: "soft"}, [
    row.apis.join(", "), places.length ? "in " + places.join(", ") : "",
    rules.length ? `rule ${rules.join(", ")}` : "",
    Object.entries(row.by_dir).map(([dir, sums]) => `${dir} ${size(sums.asked_bytes)}`).join(", ")]
      .filter(Boolean).join(" · ")));
  if (data.timeline.sites.series[row.site])
    parts.push(make("p", {}, button("Show its bytes over time", () => pickSite(row.site))));
  if (blocks.length)
    parts.push(make("p", {}, "Blocks: ", ...blocks.slice(0, 20).flatMap(block => [
      leadTo("blocks", blockKey(block), `${block.block} (${size(block.size_bytes)})`), " "]),
      blocks.length > 20 ? `and ${blocks.length - 20} more` : ""));
  return parts;
}

const blockKey = block => `${block.process} ${block.block}`;

function blockDetails(row) {
  const end = row.free_after_ns ?? overTime.end;
  const life = row.alloc_after_ns === null ? "" :
      `Allocated at ${duration(row.alloc_after_ns)}, ` + (row.free_after_ns === null
          ? "live to the end" : `freed at ${duration(row.free_after_ns)}`) + `, by ${row.api}. `;
  const around = (end - row.alloc_after_ns) * 0.05;
  return [make("p", {}, life, Object.entries(row.by_dir).map(
              ([dir, sums]) => `${dir} ${sums.asked_calls} times, ${size(sums.asked_bytes)}`)
                  .join("; ")),
          make("p", {}, leadTo("sites", row.site, `site ${row.site}`), " ",
               life && overTime.plots.length ? button("Show its life over time", () => {
                 pickSite(row.site);
                 zoom(row.alloc_after_ns - around, end + around);
               }) : "")];
}

/* The lines to change, if somebody can change them. */
function calls() {
  table("callers", "Calls that copied", [text("Site", "site"), text("Caller", "caller"),
        {heading: "Operation", value: row => Object.keys(row.by_dir).join(", "), show: String},
        number("Copies", "asked_calls"), ...outcomes, time], data.callers,
        {inAll: data.callers_in_all, details: row => [callPath(row)], key: row => row.site});
}

function reportTables() {
  table("flows", "Where the bytes went",
        [...ends, bytes("Total", "asked_bytes"), number("Count", "asked_calls"),
         {heading: "Avg", numeric: true, show: size,
          value: row => row.asked_calls ? row.asked_bytes / row.asked_calls : null},
         bytes("Med", "median_bytes"), bytes("Min", "min_bytes"), bytes("Max", "max_bytes"),
         ...outcomes.slice(1), time], data.flows);
  table("pageable", "Pageable memory, by what it is", [text("Memory", "memory"),
        {heading: "Side", show: String,
         value: row => row.side === "src" ? "source" : "destination"},
        bytes("Total", "asked_bytes"), number("Count", "asked_calls"),
        bytes("Moved as such", "moved_bytes"), time], data.pageable);
  table("sites", "Sites", [text("Site", "site"), text("Caller", "caller"),
        number("Blocks", "requests"), number("Copies", "asked_calls"), ...outcomes, time,
        number("Repeated", "repeated_calls")], data.sites,
        {inAll: data.sites_in_all, details: siteDetails, key: row => row.site});
  table("ranges", "Ranges", [{heading: "Range", value: row => row.range ?? "(outside)",
                              show: String},
        number("Blocks", "requests"), bytes("Of", "requested_bytes"),
        number("Copies", "asked_calls"), ...outcomes, time], data.ranges,
        {inAll: data.ranges_in_all});
  table("blocks", "Blocks", [number("Block", "block"), text("Process", "process"),
        bytes("Size", "size_bytes"), text("Place", "place"), text("Rule", "rule"),
        text("Caller", "caller"), number("Copies", "asked_calls"), ...outcomes, time],
        data.blocks, {inAll: data.blocks_in_all, details: blockDetails, key: blockKey});
  table("repeated", "Repeated copies", [...ends, bytes("Size", "size_bytes"),
        number("Times", "asked_calls"), text("Source", "src"), text("Destination", "dst"),
        text("Caller", "caller"), bytes("Moved", "moved_bytes"), time], data.repeated,
        {inAll: data.repeated_in_all});
  table("shared", "Shared blocks", [text("Site", "site"), text("Caller", "caller"),
        number("Blocks", "blocks"), number("One", "one"), bytes("Elided", "elided_bytes"),
        number("Elided copies", "elided_copies"), bytes("CPU copied", "copied_bytes")],
        data.shared);
  table("places", "Most memory at one time", [text("Place", "place"), bytes("Peak", "peak_bytes")],
        data.places);
  const shown = row => row.metric.endsWith("_ns") ? duration : row.metric.endsWith("_bytes")
      ? size : String;
  const metric = (heading, key) => ({heading, numeric: true, value: row => row[key],
                                     show: (value, row) => shown(row)(value)});
  if (data.jobs.length > 1 || data.jobs.some(job => job.missing))
    table("jobs", "Jobs", [text("Job", "job"), number("Logs", "logs"), number("World", "world"),
          number("Ranks", "ranks"), number("Hosts", "hosts"), number("Missing", "missing"),
          text("Which", "missing_ranks")], data.jobs);
  table("spread", "Ranks: the least and the most", [text("Program", "program"), text("Job", "job"),
        number("Processes", "processes"), text("Of", "of"), metric("Least", "least"),
        text("By", "least_process"), metric("Median", "median"), metric("Most", "most"),
        text("By", "most_process")], data.spread);
  table("apart", "What stands out beside the other processes", [text("Process", "process"),
        text("Of", "of"), metric("Value", "value"), metric("Median", "median"), text("Log", "log")],
        data.apart, {inAll: data.apart_in_all});
  const told = row => row.rank_source || data.processes.every(one => !one.rank_source);
  const rows = data.processes.map(row => told(row) ? row : {...row, rank: null});
  table("processes", "Processes", [text("Host", "host"), number("Rank", "rank"),
        number("Pid", "pid"), text("Program", "exe"), number("Wall", "wall_ns", duration),
        ...outcomes, time, text("State", "state"), text("Log", "log")], rows,
        {inAll: data.run.processes});
}

function report() {
  head();
  findings();
  calls();
  const grid = make("div", {class: "charts"});
  main.append(make("h2", {}, "Charts"), grid);
  reportTables();
  // The charts lead to rows, so these come first.
  timeCharts(grid);
  grid.append(
      bars("by-direction", "By direction",
           data.flows.filter(row => !["Memset", "Prefetch"].includes(row.dir)),
           row => `${row.dir} ${row.src_kind} to ${row.dst_kind}`, OUTCOMES),
      bars("by-site", "By site, the first 10", data.sites.slice(0, 10),
           row => row.caller || row.site, OUTCOMES, row => opens.sites.get(row.site)()));
  flame(grid, "flame", "Copied bytes by call path, from the program's start down to the allocation",
        data.sites, "sites", "A copy between two blocks counts at both call paths.");
  flame(grid, "flame-calls", "Copied bytes by call path, down to the call that copied",
        data.callers, "callers", "");
}
