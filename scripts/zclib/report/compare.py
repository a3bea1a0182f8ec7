# SPDX-License-Identifier: MIT
"""The comparison of two runs as plain data: what JSON, text and HTML of `zc diff` all show."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Iterable, NamedTuple

from .. import units
from .counts import Counts
from .data import Data, run_of
from .flow import Flow
from .parts import Process, Site
from .symbols import Symbols
from .totals import Totals

SCHEMA = 1  # Of the comparison's own JSON; fields are only ever added.

SIDES = {(True, True): "A and B", (True, False): "A only", (False, True): "B only"}

COMPARED = ("asked_calls", "asked_bytes", "moved_bytes", "cpu_copied_bytes", "elided_bytes",
            "blocked_ns")

# Places whose pages are on the device for certain; their peaks are summed, though they may have
# been reached at different times.
DEVICE_PLACES = ("device", "vmm")


# Names of rows, by the field of the log.


class Pairing(NamedTuple):
    """Which process of one run stands for which of the other."""

    pairs: list[tuple[Process, Process]]
    only_a: list[Process]
    only_b: list[Process]


def pair(a: Iterable[Process], b: Iterable[Process]) -> Pairing:
    """Pairs processes of the same program, rank and host; then, because a job may run on other
    hosts the next time, of the same program and rank; each in the order of their start.  The one
    process that is left on each side is paired whatever it is called."""
    left_a, left_b = list(a), list(b)
    pairs: list[tuple[Process, Process]] = []
    keys: list[Callable[[Process], Hashable]] = [
        lambda process: (process.exe, process.rank, process.host),
        lambda process: (process.exe, process.rank)]
    if len(left_a) == len(left_b) == 1:
        keys.append(lambda process: 0)
    for key in keys:
        waiting: dict[Hashable, list[Process]] = {}
        for process in sorted(left_b, key=lambda process: -process.start_ns):
            waiting.setdefault(key(process), []).append(process)
        unpaired = []
        for process in sorted(left_a, key=lambda process: process.start_ns):
            partners = waiting.get(key(process))
            if partners:
                pairs.append((process, partners.pop()))
            else:
                unpaired.append(process)
        left_a, left_b = unpaired, [each for group in waiting.values() for each in group]
    pairs.sort(key=lambda both: (both[0].rank, both[0].start_ns))
    return Pairing(pairs, left_a, left_b)


def build(a: Totals, b: Totals, symbols: tuple[Symbols, Symbols], top: int, key: str) -> Data:
    """The whole comparison.  Sites and processes are the first `top` by the change of `key`, an
    attribute of Counts."""
    pairing = pair(a.processes, b.processes)
    rows = _totals(a, b)
    sites = _sites(a, b, key)
    processes = _processes(pairing)
    notes = _notes(a, b, pairing)
    for row in sites[:top]:
        row["caller"] = _caller(row["site"], a, b, symbols)
    return {
        "zc_diff": SCHEMA,
        "simulated": a.simulated or b.simulated,
        "runs": {"a": run_of(a), "b": run_of(b)},
        "verdict": _verdict({row["name"]: row for row in rows}) + "".join(
            f"; {side}: {run.refusals().words()}" for side, run in (("A", a), ("B", b))
            if run.refusals().calls) + _other_builds(a, b),
        "totals": rows,
        "flows": _flows(a, b, key),
        "sites": sites[:top],
        "sites_in_all": len(sites),
        "processes": processes[:top],
        "processes_in_all": len(processes),
        "paired": len(pairing.pairs),
        "without_partner": {"a": [process.name for process in pairing.only_a],
                            "b": [process.name for process in pairing.only_b]},
        "notes": [*notes, *dict.fromkeys([*symbols[0].notes, *symbols[1].notes])],
    }


def _device_peak(processes: Iterable[Process]) -> int:
    return max((sum(process.peaks.get(place, 0) for place in DEVICE_PLACES)
                for process in processes), default=0)


def _totals(a: Totals, b: Totals) -> list[Data]:
    def longest(run: Totals) -> int:
        return max((process.wall_ns for process in run.processes), default=0)

    def pageable(run: Totals) -> int:
        return sum(process.pageable_moved for process in run.processes)

    rows: list[tuple[str, str, int | None, int | None]] = [
            ("Asked", "bytes", a.counts.asked_bytes, b.counts.asked_bytes),
            ("Moved", "bytes", a.counts.moved_bytes, b.counts.moved_bytes),
            ("CPU copied", "bytes", a.counts.cpu_copied_bytes, b.counts.cpu_copied_bytes),
            ("Elided", "bytes", a.counts.elided_bytes, b.counts.elided_bytes),
            ("Moved as pageable", "bytes", pageable(a), pageable(b)),
            ("Blocked", "ns", a.counts.blocked_ns, b.counts.blocked_ns),
            ("Time", "ns", longest(a), longest(b)),
            ("Device memory peak", "bytes", _device_peak(a.processes),
             _device_peak(b.processes))]
    return [{"name": name, "unit": unit, "a": before, "b": after,
             "change": None if before is None or after is None else after - before}
            for name, unit, before, after in rows]


def _both(a: Counts, b: Counts) -> dict[str, int]:
    out = {}
    for name in COMPARED:
        before, after = getattr(a, name), getattr(b, name)
        out.update({f"a_{name}": before, f"b_{name}": after, f"change_{name}": after - before})
    return out


def _by_change(rows: list[Data], key: str) -> list[Data]:
    """The greatest change first, what got less and what got more alike; then what is greatest."""
    return sorted(rows, key=lambda row: (-abs(row[f"change_{key}"]), -row[f"a_{key}"]))


def _change_key(key: str) -> str:
    return key if key in COMPARED else "moved_bytes"


def _sites(a: Totals, b: Totals, key: str) -> list[Data]:
    empty = Site("")
    rows: list[Data] = []
    for name in dict.fromkeys([*a.sites, *b.sites]):
        before, after = a.sites.get(name, empty), b.sites.get(name, empty)
        if not before.by_dir and not after.by_dir:
            continue
        rows.append({"site": name, "caller": "", "side": SIDES[name in a.sites, name in b.sites],
                     "a_places": before.places, "b_places": after.places,
                     **_both(before.copies(), after.copies())})
    return _by_change(rows, _change_key(key))


def _caller(name: str, a: Totals, b: Totals, symbols: tuple[Symbols, Symbols]) -> str:
    for run, names in ((b, symbols[1]), (a, symbols[0])):
        site = run.sites.get(name)
        if site is not None and site.frames:
            names.look_up(site.frames)
            return names.caller(site.frames)
    return ""


def _flows(a: Totals, b: Totals, key: str) -> list[Data]:
    nothing = Counts()
    rows: list[Data] = []
    for flow in dict.fromkeys([*a.flows, *b.flows]):
        before = a.flows[flow].counts if flow in a.flows else nothing
        after = b.flows[flow].counts if flow in b.flows else nothing
        rows.append({**_kinds(flow), **_both(before, after)})
    return _by_change(rows, _change_key(key))


def _kinds(flow: Flow) -> Data:
    return {"dir": flow.dir, "src_kind": flow.src, "dst_kind": flow.dst}


def _processes(pairing: Pairing) -> list[Data]:
    def one(a: Process | None, b: Process | None) -> Data:
        process = a or b
        assert process is not None
        row: dict[str, Any] = {
            "name": f"{process.program or '?'} rank {process.rank}",
            "a": a.name if a else None, "b": b.name if b else None,
            "side": SIDES[a is not None, b is not None],
            **_both(a.counts if a else Counts(), b.counts if b else Counts())}
        for name, value in (("wall_ns", lambda p: p.wall_ns),
                            ("device_peak_bytes", lambda p: _device_peak([p]))):
            before, after = value(a) if a else 0, value(b) if b else 0
            row.update({f"a_{name}": before, f"b_{name}": after, f"change_{name}": after - before})
        return row

    rows = [one(process, None) for process in pairing.only_a]
    rows += [one(None, process) for process in pairing.only_b]
    return rows + [one(*both) for both in pairing.pairs]


def _other_builds(a: Totals, b: Totals) -> str:
    if not a.sites or not b.sites or a.sites.keys() & b.sites.keys():
        return ""
    return ("; no site is in both runs: the programs, or the libraries on their paths, are "
            "different builds")


def _notes(a: Totals, b: Totals, pairing: Pairing) -> list[str]:
    notes = []
    for side, alone, other in (("A", pairing.only_a, "B"), ("B", pairing.only_b, "A")):
        if alone:
            some = "; ".join(f"{process.program or '?'} on {process.name}" for process in alone[:5])
            more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
            notes.append(f"{len(alone)} of {side} without a partner in {other}: {some}{more}")
    for side, run in (("A", a), ("B", b)):
        cut = sum(process.state == "cut" for process in run.processes)
        if cut:
            notes.append(f"{cut} of {side} without totals (the log ends before the summary): its "
                         "sums are too low")
    if a.simulated or b.simulated:
        notes.append("on a simulated GPU, whose times mean nothing")
    return notes


def _less(row: Data, verb: str, same: str, what: str, show: Callable[[int], str]) -> str:
    """`moves 64.0 MiB less (659 KiB instead of 64.6 MiB)`; `same` is the word for no change."""
    if row["change"] == 0:
        return f"{verb} {same}{what} ({show(row['b'])})"
    word = "less" if row["change"] < 0 else "more"
    return (f"{verb} {show(abs(row['change']))} {word}{what} ({show(row['b'])} instead of "
            f"{show(row['a'])})")


def _verdict(rows: dict[str, Data]) -> str:
    moved, time, peak = rows["Moved"], rows["Time"], rows["Device memory peak"]
    parts = [f"B {_less(moved, 'moves', 'as much', '', units.size)}"]
    if time["a"] and time["b"]:
        parts.append(_less(time, "takes", "as long", "", units.duration))
    if peak["a"] or peak["b"]:
        parts.append(_less(peak, "holds", "as much", " device memory at its peak", units.size))
    verdict = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    asked = rows["Asked"]
    if asked["change"]:
        verdict += (f"; but it asks for {units.size(asked['b'])} instead of "
                    f"{units.size(asked['a'])}")
    return verdict
