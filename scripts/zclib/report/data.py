# SPDX-License-Identifier: MIT
"""The report as plain data: what JSON, CSV, text and HTML all show."""

from __future__ import annotations

import csv
from typing import Any, NamedTuple, Sequence, TextIO

from .. import names
from . import ranks
from .counts import Counts
from .findings import Finder, Finding, try_first
from .flow import Flow
from .headline import headline
from .parts import STATES, Block, FlowSum, Pair, Process, Site, sum_of
from .symbols import Symbols
from .tally import OTHERS, by_count
from .timeline import Timeline
from .totals import Totals

SCHEMA = 1  # Of the report's own JSON; fields are only ever added.



class Sort(NamedTuple):
    """Keys of --sort."""

    key: str    # An attribute of Counts.
    words: str  # For titles.


SORTS = {
    "bytes": Sort("asked_bytes", "bytes asked"),
    "moved": Sort("moved_bytes", "bytes moved"),
    "cpu": Sort("cpu_copied_bytes", "bytes copied by the CPU"),
    "elided": Sort("elided_bytes", "bytes elided"),
    "count": Sort("asked_calls", "copies"),
    "time": Sort("blocked_ns", "time blocked"),
}

TABLES = ("refused", "flows", "moved_by_kind", "pageable", "places", "sites", "callers", "ranges",
          "blocks", "repeated", "shared", "jobs", "spread", "apart", "processes")

MOST_COMMANDS = 8         # Command lines that the run's head names.
MOST_SERIES = 20          # Of bytes over time.

# First characters of a cell that a spreadsheet computes; the last four are the wide forms.
FORMULA_SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

Data = dict[str, Any]


def build(totals: Totals, symbols: Symbols, top: int, key: str,
          command: Sequence[str] = ()) -> Data:
    """The whole report.  Sites and blocks are the first `top` by the attribute `key` of Counts.
    `command`: what was run, where that is known better than by the logs."""
    sites = sorted((site for site in totals.sites.values() if site.by_dir),
                   key=lambda site: (-getattr(site.copies(), key), site.id))
    shown = sites[:top]
    symbols.look_up(frame for site in shown for frame in site.frames)
    findings = Finder(totals, symbols, command).all()
    start_ns = totals.start_ns
    return {
        "zc_report": SCHEMA,
        "level": totals.level,
        "headline": headline(totals, findings),
        "try_first": try_first(totals, findings) or None,
        "run": run_of(totals),
        "refused": totals.refusals().as_rows(),
        "totals": {**totals.counts.as_dict(), **_pageable(totals),
                   "relayed_bytes": totals.relayed_bytes},
        "link": totals.links.as_dict(totals.moved_by_kind),
        "findings": [_finding(finding) for finding in findings],
        "flows": [_flow(flow, total) for flow, total in _in_order(totals.flows, key)
                  if total.counts.asked_calls],
        "moved_by_kind": [_moved(flow, *moved) for flow, moved in sorted(
            totals.moved_by_kind.items(), key=lambda item: (-item[1][1], item[0]))],
        "pageable": [{**side._asdict(), **one.as_dict()} for side, one in sorted(
            totals.memory.items(), key=lambda item: (-item[1].counts.asked_bytes, item[0]))],
        "places": [{"place": place, "peak_bytes": totals.peak(place)}
                   for place in totals.places()],
        "sites": [_site(site, symbols) for site in shown],
        "sites_in_all": len(sites),
        "callers": _callers(totals, symbols, top, key),
        "callers_in_all": sum(1 for by_dir in totals.callers.values()
                              if sum_of(by_dir).asked_calls),
        "ranges": totals.ranges.rows(key)[:top],
        "ranges_in_all": len(totals.ranges.sums),
        "blocks": [_block(block, totals, symbols, start_ns)
                   for block in totals.blocks.items()[:top]],
        "blocks_in_all": totals.blocks.offered,
        "repeated": [_pair(pair, totals, symbols) for pair in totals.repeated.items()[:top]],
        "repeated_in_all": totals.repeated.offered,
        "shared": [{**_of_site(name, totals, symbols), **shared.as_dict()}
                   for name, shared in sorted(totals.shared.items(), key=lambda item: (
                       -item[1].elided_bytes, item[0]))[:top]],
        "jobs": ranks.jobs(totals.processes),
        **_ranks(totals, top),
        "timeline": _timeline(totals, {site.id for site in shown}),
        "memory_over_time": {"after_ns": _after(totals.levels.start_ns, start_ns),
                             "width_ns": totals.levels.width_ns,
                             "places": totals.levels.peaks()},
        "processes": [_process(process) for process in _longest(totals, top)],
        "notes": [*symbols.notes, *_left_out(totals), *_python(totals)],
    }


def _ranks(totals: Totals, top: int) -> Data:
    """Processes of a program and job beside each other, where there are several."""
    groups = [group for group in ranks.groups(totals.processes) if len(group.processes) > 1]
    apart = ranks.apart(groups)
    return {"spread": [{"program": group.program, "job": group.job or None,
                        "processes": len(group.processes), **row}
                       for group in groups[:top] for row in ranks.spread(group)],
            "apart": apart[:top], "apart_in_all": len(apart)}


def _python(totals: Totals) -> list[str]:
    if not any(process.hides_python for process in totals.processes):
        return []
    return ["functions and lines of Python are in logs of runs with ZC_PYTHON=1"]


def _left_out(totals: Totals) -> list[str]:
    many = [what for what, table in (("allocated", totals.sites), ("copied", totals.callers))
            if OTHERS in table]
    return [f"more than {len(totals.sites) - 1} call paths {what}: those that are not told apart "
            f"are the site '{OTHERS}'" for what in many]


def run_of(totals: Totals) -> Data:
    processes, refusals = totals.processes, totals.refusals()
    return {
        "processes": len(processes),
        "programs": _names(process.program for process in processes),
        "hosts": _names(process.host for process in processes),
        "gpus": _names(process.gpu for process in processes),
        "commands": _names(process.arguments for process in processes)[:MOST_COMMANDS],
        "started_ns": totals.start_ns or None,
        "drivers": _names(process.driver for process in processes),
        "libzc": _names(process.libzc for process in processes),
        "policies": _names(process.policy for process in processes),
        "policy_hashes": _names(process.policy_hash for process in processes),
        "states": {state: count for state in STATES
                   if (count := sum(process.state == state for process in processes))},
        "wall_ns": totals.wall_ns,
        "longest_wall_ns": max((process.wall_ns for process in processes), default=0),
        "untracked": sum(process.untracked for process in processes),
        "lost_lines": sum(process.lost_lines for process in processes),
        "odd_records": totals.odd,
        "refused_calls": refusals.calls,
        "refused_text": refusals.words() or None,
        "missed_text": totals.missed() or None,
    }


def _names(names: Any) -> list[str]:
    return sorted({name for name in names if name})


def _pageable(totals: Totals) -> dict[str, int]:
    return {
        "pageable_asked_bytes": sum(process.pageable_asked for process in totals.processes),
        "pageable_moved_bytes": sum(process.pageable_moved for process in totals.processes),
    }


def _in_order(flows: dict[Flow, FlowSum], key: str) -> list[tuple[Flow, FlowSum]]:
    """Copies before sets and prefetches, the greatest first."""
    return sorted(flows.items(),
                  key=lambda item: (not item[0].is_copy, -getattr(item[1].counts, key), item[0]))


def _kinds(flow: Flow) -> Data:
    return {"dir": flow.dir, "src_kind": flow.src, "dst_kind": flow.dst}


def _flow(flow: Flow, total: FlowSum) -> Data:
    sizes = total.sizes
    return {**_kinds(flow), **total.counts.as_dict(), "median_bytes": sizes.median(),
            "median_is_exact": sizes.exact, "min_bytes": sizes.least if sizes.count else None,
            "max_bytes": sizes.greatest if sizes.count else None}


def _moved(flow: Flow, calls: int, size: int) -> Data:
    return {**_kinds(flow), "calls": calls, "bytes": size}


def _by_dir(by_dir: dict[str, Counts]) -> dict[str, Data]:
    return {name: counts.as_dict() for name, counts in sorted(
        by_dir.items(), key=lambda item: (-item[1].asked_bytes, item[0]))}


def _site(site: Site, symbols: Symbols) -> Data:
    return {
        "site": site.id, "caller": symbols.caller(site.frames),
        "frames": _frames(site, symbols),
        "processes": site.processes, "requests": site.requests,
        "requested_bytes": site.requested_bytes, "frees": site.frees,
        **site.copies().as_dict(), "by_dir": _by_dir(site.by_dir),
        "apis": list(by_count(site.apis)), "places": by_count(site.places),
        "rules": by_count(site.rules), "whys": by_count(site.whys), "hints": by_count(site.hints),
        "min_size_bytes": site.least or None, "max_size_bytes": site.greatest or None,
        "repeated_calls": site.repeated_calls, "repeated_bytes": site.repeated_bytes,
    }


def _callers(totals: Totals, symbols: Symbols, top: int, key: str) -> list[Data]:
    """The call paths that copied, which logs tell from the level allocs on."""
    ranked = sorted(((name, by_dir, sum_of(by_dir)) for name, by_dir in totals.callers.items()),
                    key=lambda item: (-getattr(item[2], key), item[0]))
    return [{**_of_site(name, totals, symbols), "frames": _frames(totals.sites[name], symbols)
             if name in totals.sites else [], **counts.as_dict(), "by_dir": _by_dir(by_dir)}
            for name, by_dir, counts in ranked[:top] if counts.asked_calls]


def _frames(site: Site, symbols: Symbols) -> list[Data]:
    return [{"frame": frame, "function": symbols.place(frame).function or None,
             "line": symbols.place(frame).line or None} for frame in site.frames]


def _of_site(name: str, totals: Totals, symbols: Symbols) -> Data:
    site = totals.sites.get(name)
    if site is not None:
        symbols.look_up(site.frames)
    return {"site": name or None, "caller": symbols.caller(site.frames) if site else ""}


def _after(time_ns: int | None, start_ns: int) -> int | None:
    """A time since the run's start: Unix nanoseconds are too many for JavaScript's numbers."""
    return time_ns - start_ns if time_ns else None


def _block(block: Block, totals: Totals, symbols: Symbols, start_ns: int) -> Data:
    return {
        "process": block.process.name,
        "block": block.id, **_of_site(block.site, totals, symbols), "api": block.api,
        "size_bytes": block.size, "place": block.place, "rule": block.rule or None,
        "alloc_after_ns": _after(block.alloc_ns, start_ns),
        "free_after_ns": _after(block.free_ns, start_ns),
        "live": block.live, **block.copies().as_dict(), "by_dir": _by_dir(block.by_dir),
    }


def _pair(pair: Pair, totals: Totals, symbols: Symbols) -> Data:
    return {
        "process": pair.process.name, **_kinds(pair.flow),
        "size_bytes": pair.size, "src": pair.src, "dst": pair.dst,
        **_of_site(pair.site, totals, symbols), **pair.counts.as_dict(),
    }


def _timeline(totals: Totals, sites: set[str]) -> Data:
    """Bytes in buckets of `width_ns`: by what became of them, and of sites that are shown."""
    start_ns = totals.start_ns
    return {
        "start_ns": totals.times.start_ns,
        **_over_time(totals.times, start_ns, {name for name, _ in totals.times.series()}),
        "sites": _over_time(totals.site_times, start_ns, sites),
    }


def _over_time(times: Timeline, start_ns: int, wanted: set[str]) -> Data:
    """The first series that are wanted: all their bytes, and those of them that calls issued
    alone, so that nobody knows when they went."""
    rows, found = times.rows(), times.series()
    names = [name for name in dict.fromkeys(name for name, _ in found) if name in wanted]
    names = names[:MOST_SERIES]
    return {
        "after_ns": _after(times.start_ns, start_ns), "width_ns": times.width_ns,
        "series": {name: [row.get((name, False), 0) + row.get((name, True), 0)
                          for _, row in rows] for name in names},
        "issued": {name: [row.get((name, True), 0) for _, row in rows]
                   for name in names if (name, True) in found},
    }


def _longest(totals: Totals, top: int) -> list[Process]:
    return sorted(totals.processes, key=lambda process: -process.wall_ns)[:top]


def _process(process: Process) -> Data:
    return {
        "host": process.host, "rank": process.rank, "pid": process.pid, "exe": process.exe,
        "program": process.program,
        "job": process.job or None, "world": process.world or None,
        "rank_source": process.launcher or None,
        "arguments": process.arguments, "policy": process.policy or None, "log": process.path,
        "policy_hash": process.policy_hash or None,
        "driver": process.driver or None, "libzc": process.libzc or None,
        "level": process.level, "state": process.state, "wall_ns": process.wall_ns,
        **process.counts.as_dict(), "peaks": process.peaks,
    }


def _finding(finding: Finding) -> Data:
    return {"kind": finding.kind, "text": finding.text, "rule": finding.rule or None,
            "site": finding.site or None, "blocked_ns": finding.weight,
            "gain_ns": finding.gain_ns or None, "command": finding.command or None,
            "predicted": {"pageable_bytes": finding.pageable_bytes,
                          "elided_bytes": finding.elided_bytes} if finding.command else None}


def write_csv(data: Data, out: TextIO) -> None:
    """Every table of the report, its name in the first column, a blank line between two.  What is
    no single value has its own columns in JSON alone."""
    written = False
    for name in TABLES:
        rows = data[name]
        if not rows:
            continue
        columns = [key for key, value in rows[0].items() if not isinstance(value, (dict, list))]
        writer = csv.writer(out, lineterminator="\n")
        if written:
            out.write("\n")
        written = True
        writer.writerow(["table", *columns])
        for row in rows:
            writer.writerow([name, *(_csv_cell(row[column]) for column in columns)])


def _csv_cell(value: Any) -> Any:
    """A value that neither a terminal nor a spreadsheet acts on: names of a log may begin as
    formulas do, and an apostrophe makes them text (OWASP, CSV Injection)."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = names.shown(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text
