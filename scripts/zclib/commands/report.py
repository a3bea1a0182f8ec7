# SPDX-License-Identifier: MIT
"""zc report: sums up logs, says where the bytes went and what stands out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Iterable, Sequence

from .. import live, logs, names, output, screen, units
from ..progress import Progress
from ..report import data, engines, markdown, page, parallel, show, trace
from ..report.process import Watcher
from ..report.symbols import Symbols
from ..report.totals import Options, Totals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+",
                        help="a log, a counters file, a folder of them, or a process's id")
    parser.add_argument("--all", action="store_true",
                        help="of a folder with several runs report all, not the newest")
    parser.add_argument("--top", metavar="N", type=positive, default=5,
                        help="show N sites, blocks, repeated copies, findings, processes (5)")
    parser.add_argument("--sort", choices=data.SORTS, default="bytes",
                        help="what the first sites and blocks have most of (bytes)")
    parser.add_argument("--by", choices=("allocation", "copy", "both", "range"),
                        default="both",
                        help="call paths that allocated what was copied, or copied it (both); or "
                        "ranges")
    parser.add_argument("--html", metavar="FILE",
                        help="write a page with charts that opens offline")
    parser.add_argument("--trace", metavar="FILE",
                        help="write a trace for Perfetto, of logs of the level events")
    parser.add_argument("--engine", choices=engines.ENGINES, default="local",
                        help="who reads: processes of this machine, or an engine of yours")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the report as one JSON object")
    form.add_argument("--text", action="store_true",
                      help="print the report beside --html and --trace, too")
    form.add_argument("--markdown", action="store_true",
                      help="print a summary as Markdown, for pull requests")
    form.add_argument("--csv", action="store_true", help="print the report's tables as CSV")
    parser.examples = ("zc report zc.app.1234.jsonl", "zc report --html report.html logs/")


def positive(text: str) -> int:
    """A count from the command line, for argparse."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def read(paths: list[str], options: Options, watchers: Sequence[Watcher] = (),
         engine: str = "local") -> Totals | None:
    """The totals of logs, read behind a progress bar, after saying what is wrong with them; None
    where another machine reports.  Raises LogError where nothing could be read."""
    with Progress("reading logs", sum(map(parallel.size_of, paths))) as bar:
        totals = engines.read(paths, options, bar.add, watchers, engine)
    if totals is not None:
        for message in totals.messages():
            screen.message(message)
        if not totals.processes:
            raise logs.LogError("there is nothing to report: no log could be read")
    return totals


def print_report(paths: Iterable[str], command: Sequence[str], top: int = 5) -> Totals:
    """Prints the report of what was run as text, for other commands; its totals."""
    totals = read(list(paths), Options(top))
    report = data.build(totals, Symbols(totals.modules), top, data.SORTS["bytes"].key,
                        command)
    _print_text(report, "bytes", top)
    return totals


def _print_text(report: data.Data, sort: str, top: int, by: str = "both") -> None:
    for line in show.lines(report, sort, top, screen.width(sys.stdout), by):
        print(line)


def _read_and_trace(paths: list[str], options: Options, name: str) -> Totals:
    with output.written(name) as out:
        writer = trace.Trace(out, trace.earliest(paths))
        try:
            totals = read(paths, options, (writer,))
        finally:
            writer.close()
    if writer.events == 0:
        screen.message(f"{name}: the trace is empty, because the logs have no transfers: run with "
                       "ZC_LOG_LEVEL=events")
    return totals


def write_page(content: data.Data, title: str, name: str) -> None:
    """Writes a page."""
    with output.written(name) as out:
        page.write(content, title, out)


def _newest_run(asked: str) -> list[str]:
    """The logs of an argument, which may be the id of a process that runs; of a folder with several
    runs of `zc run`, those of the newest."""
    if asked.isascii() and asked.isdigit() and not os.path.exists(asked):
        return [logs.log_beside(live.of_process(int(asked)))]
    paths = logs.discover([asked])
    if not os.path.isdir(asked):
        return paths
    runs: dict[str, list[str]] = {}
    began: dict[str, int] = {}
    for path in paths:
        first = live.first_line(path)
        run = logs.string(first, "run")
        runs.setdefault(run, []).append(path)
        began[run] = max(began.get(run, 0), logs.number(first, "time_ns"))
    named = [run for run in runs if run]
    if len(named) < 2:
        return paths
    newest = max(named, key=lambda run: began[run])
    screen.message(f"{asked}: {len(named)} runs; this is the newest (--all sums them up)")
    return [path for path in paths if path in {*runs[newest], *runs.get("", [])}]


def run(args: argparse.Namespace) -> int:
    key = data.SORTS[args.sort].key
    output.try_out(args.html, args.trace)
    paths = logs.discover(args.logs) if args.all else \
        list(dict.fromkeys(path for asked in args.logs for path in _newest_run(asked)))
    options = Options(max(args.top, page.ROWS) if args.html else args.top, key,
                      over_time=bool(args.html or args.json))
    totals = _read_and_trace(paths, options, args.trace) if args.trace else \
        read(paths, options, engine=args.engine)
    if totals is None:
        return 0
    symbols = Symbols(totals.modules)
    if args.html:
        whole = data.build(totals, symbols, page.ROWS, key)
        programs = show.few(whole["run"]["programs"], "unknown program")
        write_page(whole, f"zc report: {programs}", args.html)
    report = data.build(totals, symbols, args.top, key)
    if args.json:
        json.dump(report, sys.stdout, indent=1)
        print()
    elif args.markdown:
        print("\n".join(markdown.lines(report)))
    elif args.csv:
        data.write_csv(report, sys.stdout)
    elif args.text or not (args.html or args.trace):
        _print_text(report, args.sort, args.top, args.by)
    else:
        _tell_files(args)
    return 0


def _tell_files(args: argparse.Namespace) -> None:
    """The names of written files, in the place of the report, which the page has as well."""
    for name, how in ((args.html, "opens offline"), (args.trace, "open it in ui.perfetto.dev")):
        if name and not output.is_stream(name):
            print(f"{names.shown(name)}: {units.size(os.path.getsize(name))}, {how}")
