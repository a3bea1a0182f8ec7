# SPDX-License-Identifier: MIT
"""The counters of processes as lines of text."""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from .. import counters, live, logs, names, table, units
from .jobs import Job

SITE_ROWS = 5
COUNTS = ("asked", "moved", "cpu_copied", "elided")

# A process's moved bytes a second over its last frames, the newest to the right.
SPARKS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
PLAIN_SPARKS = " .:-=+*#@"
SPARK_COLUMNS = 16


def sparkline(rates: Sequence[float], columns: int = SPARK_COLUMNS, sparks: str = SPARKS) -> str:
    """The last rates as a row of bars, the highest of them a full one."""
    shown = list(rates)[-columns:]
    most = max(shown, default=0)
    top = len(sparks) - 1
    # Any value above 0 has a bar.
    bars = [sparks[0 if rate <= 0 else max(1, round(rate / most * top))] for rate in shown]
    return "".join(bars).rjust(columns)


def frame(views: list[live.View], width: int | None) -> Iterator[str]:
    """The lines of one frame: every process, and the details of the only one."""
    yield from errors(views)
    good = sorted((view for view in views if view.summary),
                  key=lambda view: -view.summary["asked_bytes"])
    if good:
        yield from processes(good, width)
    if len(good) == 1:
        yield ""
        yield from details(good[0], width)


def errors(views: Iterable[live.View]) -> list[str]:
    """The files that could not be read, and why."""
    return [names.shown(f"zc: {view.path}: {view.error}") for view in views if view.error]


def details(view: live.View, width: int | None) -> Iterator[str]:
    """The flows, places and sites of one process."""
    yield from _flows(view, width)
    yield from _places(view, width)
    yield from _sites(view, width)


def _rate(rate: float | None) -> str:
    return "-" if rate is None else units.size(round(rate)) + "/s"


def processes(views: Sequence[live.View], width: int | None,
              sparks: Sequence[str] = ()) -> list[str]:
    """A heading, and a line for each process; with a sparkline for each if there are any."""
    first = "Running" if isinstance(views[0], Job) else "PID"
    columns = [table.Column(first), table.text("Program", least=8),
               table.text("State", least=0, drop=1), table.Column("Count", drop=5),
               table.Column("Asked", drop=2),
               table.Column("Moved"), table.Column("CPU", drop=4), table.Column("Elided", drop=3),
               table.Column("Blocked", drop=6), table.Column("Moving"),
               *([table.Column("", right=False, drop=7)] if sparks else [])]
    rows = []
    for at, view in enumerate(views):
        now = view.summary
        rows.append((view.pid, view.exe, view.state, units.count(now["asked_calls"]),
                     *(units.size(now[name + "_bytes"]) for name in COUNTS),
                     units.duration(now["blocked_ns"]),
                     _rate(view.rate(now["moved_bytes"], view.before.get("moved_bytes", 0))
                           if view.state == "running" else None),
                     *([sparks[at]] if sparks else [])))
    return table.render(columns, rows, width, stack=False)


def _flow_key(flow: logs.Record) -> tuple[str, str, str]:
    return flow["dir"], flow["src_kind"], flow["dst_kind"]


def _flows(view: live.View, width: int | None) -> Iterator[str]:
    flows = view.summary["flows"]
    if not flows:
        return
    before = {_flow_key(flow): flow["asked_bytes"] for flow in view.before.get("flows", [])}
    columns = [table.text("Operation", least=0), table.text("From", least=0, drop=3),
               table.text("To", least=0, drop=2), table.Column("Count", drop=4),
               table.Column("Asked"), table.Column("Moved"), table.Column("CPU", drop=1),
               table.Column("Elided", drop=1), table.Column("Blocked", drop=5),
               table.Column("Asking")]
    rows = []
    for flow in flows:
        copy = flow["dir"] not in counters.NOT_COPIES
        rate = view.rate(flow["asked_bytes"], before.get(_flow_key(flow), 0))
        rows.append((flow["dir"], flow["src_kind"] if copy else "", flow["dst_kind"],
                     units.count(flow["asked_calls"]),
                     *(units.size(flow[name + "_bytes"]) for name in COUNTS),
                     units.duration(flow["blocked_ns"]), _rate(rate)))
    yield from table.render(columns, rows, width)
    relayed = sum(row["bytes"] for row in view.summary["moved_by_kind"] if row["dir"] == "PtoP") \
        - sum(flow["moved_bytes"] for flow in flows if flow["dir"] == "PtoP")
    if relayed > 0:
        yield f"{units.size(relayed)} of it over the links of other GPUs"
    yield ""


def _places(view: live.View, width: int | None) -> Iterator[str]:
    if view.summary["places"]:
        columns = [table.text("Place", least=0), table.Column("Blocks"), table.Column("Bytes"),
                   table.Column("Peak")]
        yield from table.render(columns, [
            (place["place"], units.count(place["blocks"]), units.size(place["bytes"]),
             units.size(place["peak_bytes"])) for place in view.summary["places"]], width)
        yield ""


def _sites(view: live.View, width: int | None) -> Iterator[str]:
    """The sites whose blocks were copied most."""
    ranked = []
    for site in view.summary["sites"]:
        copies = [row for row in site["traffic"] if row["dir"] not in counters.NOT_COPIES]
        sums = [sum(row[name + "_bytes"] for row in copies) for name in COUNTS]
        if sums[0]:
            ranked.append((sums, site))
    if not ranked:
        return
    ranked.sort(key=lambda entry: (-entry[0][0], entry[1]["site"]))
    columns = [table.text("Top sites", least=8), table.text("Caller"), table.Column("Blocks"),
               table.Column("Asked"), table.Column("Moved"), table.Column("CPU", drop=1),
               table.Column("Elided", drop=2)]
    yield from table.render(columns, [
        (site["site"], view.frames.get(site["site"], ""), units.count(site["requests"]),
         *map(units.size, sums)) for sums, site in ranked[:SITE_ROWS]], width)
