# SPDX-License-Identifier: MIT
"""zc top: the counters of processes under libzc, live."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from typing import Iterator

from .. import counters, live, logs, names, screen, table, units

EPILOG = """\
Without PID or FILE: all processes under libzc with a log that are this user's.
The counters file (beside the log) of a process that was killed can be read, too.
Exit status: 0; 1 where there is nothing to show.
"""

SITE_ROWS = 5
COUNTS = ("asked", "moved", "cpu_copied", "elided")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="PID|FILE", nargs="*",
                        help="process id, counters file, log, or folder of them")
    parser.add_argument("-i", "--interval", metavar="SECONDS", type=units.seconds,
                        default=1.0, help="time between frames (1)")
    parser.add_argument("-n", "--frames", metavar="N", type=int, default=None,
                        help="end after N frames; 1 where there is no terminal")
    parser.epilog = EPILOG
    parser.examples = ("zc top", "zc top -i 0.5 1234")


def run(args: argparse.Namespace) -> int:
    frames = args.frames or (None if screen.is_terminal(sys.stdout) else 1)
    if args.frames is not None and args.frames < 1:
        screen.message("--frames takes numbers above 0")
        return 2
    views = {path: live.View(path) for path in _files(args.what)}
    if not views:
        screen.message("no process runs under libzc with a log; to see one that was killed, name "
                       "its counters file")
        return 1
    try:
        return _watch(args, views, frames)
    except KeyboardInterrupt:
        return 0


def _files(what: list[str]) -> list[str]:
    """The counters files that arguments stand for.  Raises LogError."""
    if not what:
        return list(live.all_mapped().values())
    found: list[str] = []
    for argument in what:
        if os.path.isdir(argument):
            inside = [os.path.join(argument, name) for name in sorted(os.listdir(argument))
                      if name.endswith(counters.SUFFIX)]
            if not inside:
                raise logs.LogError(f"{argument}: no counters file in this folder: a process has "
                                    "one while it runs, and leaves it when it is killed")
            found += inside
        elif argument.isdigit() and not os.path.exists(argument):
            found.append(_of_process(int(argument)))
        elif argument.endswith(counters.SUFFIX) or not logs.is_log_name(argument):
            found.append(argument)
        elif os.path.exists(logs.counters_path(argument)) or not os.path.exists(argument):
            found.append(logs.counters_path(argument))
        else:
            raise logs.LogError(f"{argument}: its process has ended, and the log has its totals: "
                                "'zc report' shows them")
    return list(dict.fromkeys(found))


def _of_process(pid: int) -> str:
    if not logs.is_running(pid):
        raise logs.LogError(f"there is no process {pid}; to see one that was killed, name its "
                            "counters file")
    path = live.mapped_by(pid)
    if path is None:
        raise logs.LogError(f"process {pid} has no counters file: it does not run under libzc, has "
                            "not called CUDA, has no log (ZC_LOG=off), or is another user's")
    return path


def _watch(args: argparse.Namespace, views: dict[str, live.View],
           frames: int | None) -> int:
    shown = 0
    while True:
        for view in views.values():
            view.read()
        lines = list(_frame(list(views.values()), screen.width()))
        if screen.moves(sys.stdout) and frames != 1:
            # Home, then each line over the old one, then nothing of the old frame below.
            height = shutil.get_terminal_size().lines
            text = "".join(f"{line}\033[K\n" for line in lines[:height - 1])
            sys.stdout.write(("\033[2J" if shown == 0 else "") + "\033[H" + text + "\033[J")
        else:
            print("\n".join(([""] if shown else []) + lines))
        sys.stdout.flush()
        shown += 1
        if shown == frames or all(view.error or view.state != "running"
                                  for view in views.values()):
            return 0 if any(view.summary for view in views.values()) else 1
        time.sleep(args.interval)
        if not args.what:
            for path in live.all_mapped().values():
                views.setdefault(path, live.View(path))


def _frame(views: list[live.View], width: int | None) -> Iterator[str]:
    """The lines of one frame: every process, and the details of the only one."""
    for view in views:
        if view.error:
            yield names.shown(f"zc: {view.path}: {view.error}")
    good = [view for view in views if view.summary]
    if good:
        yield from _processes(good, width)
    if len(good) == 1:
        yield ""
        yield from _flows(good[0], width)
        yield from _places(good[0], width)
        yield from _sites(good[0], width)


def _rate(rate: float | None) -> str:
    return "-" if rate is None else units.size(round(rate)) + "/s"


def _processes(views: list[live.View], width: int | None) -> list[str]:
    columns = [table.Column("PID"), table.text("Program", least=8), table.text("State", least=0),
               table.Column("Count", drop=3), table.Column("Asked"), table.Column("Moved"),
               table.Column("CPU", drop=2), table.Column("Elided", drop=1),
               table.Column("Blocked", drop=4), table.Column("Moving")]
    rows = []
    for view in sorted(views, key=lambda view: -view.summary["asked_bytes"]):
        now = view.summary
        rows.append((view.pid, view.exe, view.state, units.count(now["asked_calls"]),
                     *(units.size(now[name + "_bytes"]) for name in COUNTS),
                     units.duration(now["blocked_ns"]),
                     _rate(view.rate(now["moved_bytes"], view.before.get("moved_bytes", 0)))))
    return table.render(columns, rows, width)


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
