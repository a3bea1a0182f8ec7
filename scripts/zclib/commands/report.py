# SPDX-License-Identifier: MIT
"""zc report: sums up logs, says where the bytes went and what stands out."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Iterable

from .. import logs, output, screen
from ..progress import Progress
from ..report import data, page, parallel, show, trace
from ..report.symbols import Symbols
from ..report.totals import Totals

# Faults of single files that are named; of thousands of files of one kind nobody reads more.
MOST_PROBLEMS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+",
                        help="a log, a counters file, or a folder of them")
    parser.add_argument("--top", metavar="N", type=positive, default=5,
                        help="show N sites, blocks, repeated copies, findings, processes (5)")
    parser.add_argument("--sort", choices=data.SORTS, default="bytes",
                        help="what the first sites and blocks have most of (bytes)")
    parser.add_argument("--by", choices=("allocation", "copy"), default="allocation",
                        help="call paths that allocated what was copied, or that copied it")
    parser.add_argument("--html", metavar="FILE",
                        help="write a page with charts that opens offline")
    parser.add_argument("--trace", metavar="FILE",
                        help="write a trace for Perfetto, of logs of the level events")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the report as one JSON object")
    form.add_argument("--csv", action="store_true", help="print the report's tables as CSV")
    parser.examples = ("zc report zc.app.1234.jsonl", "zc report --html report.html logs/")


def positive(text: str) -> int:
    """A count from the command line, for argparse."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


class Problems:
    """Says what is wrong with logs, the first of many."""

    def __init__(self) -> None:
        self._count = 0

    def warn(self, problem: logs.Problem) -> None:
        self._count += 1
        if self._count <= MOST_PROBLEMS:
            screen.message(str(problem))

    def end(self) -> None:
        if self._count > MOST_PROBLEMS:
            screen.message(f"and {self._count - MOST_PROBLEMS} more faults of logs")


def read(paths: list[str], totals: Totals) -> None:
    """Reads logs into the totals, with a progress bar, and says what is wrong with them.  Raises
    LogError where nothing could be read."""
    problems = Problems()
    with Progress("reading logs", sum(map(parallel.size_of, paths))) as bar:
        def warn(problem: logs.Problem) -> None:
            bar.clear()
            problems.warn(problem)

        totals.read(paths, warn, bar.add)
    problems.end()
    for message in totals.unreadable[:MOST_PROBLEMS]:
        screen.message(message)
    if totals.odd:
        screen.message("left out for fields that docs/log.md does not allow: "
                       f"{totals.odd} {'record' if totals.odd == 1 else 'records'}")
    if not totals.processes:
        raise logs.LogError("there is nothing to report: no log could be read")


def print_report(paths: Iterable[str], top: int = 5) -> None:
    """Prints the report of logs as text, for other commands."""
    totals = Totals(top)
    read(list(paths), totals)
    report = data.build(totals, Symbols(totals.modules), top, data.SORTS["bytes"].key)
    _print_text(report, "bytes", top)


def _print_text(report: data.Data, sort: str, top: int, by: str = "allocation") -> None:
    for line in show.lines(report, sort, top, screen.width(sys.stdout), by):
        print(line)


def _read_and_trace(paths: list[str], totals: Totals, name: str) -> None:
    with output.written(name) as out:
        writer = trace.Trace(out, trace.earliest(paths))
        totals.watch(writer)
        try:
            read(paths, totals)
        finally:
            writer.close()
    if writer.events == 0:
        screen.message(f"{name}: the trace is empty, because the logs have no transfers: run with "
                       "ZC_LOG_LEVEL=events")


def write_page(content: data.Data, title: str, name: str) -> None:
    """Writes a page."""
    with output.written(name) as out:
        page.write(content, title, out)


def run(args: argparse.Namespace) -> int:
    key = data.SORTS[args.sort].key
    output.try_out(args.html, args.trace)
    paths = logs.discover(args.logs)
    totals = Totals(max(args.top, page.ROWS) if args.html else args.top, key,
                    over_time=bool(args.html or args.json))
    if args.trace:
        _read_and_trace(paths, totals, args.trace)
    else:
        read(paths, totals)
    symbols = Symbols(totals.modules)
    if args.html:
        whole = data.build(totals, symbols, page.ROWS, key)
        programs = show.few(whole["run"]["programs"], "unknown program")
        write_page(whole, f"zc report: {programs}", args.html)
    report = data.build(totals, symbols, args.top, key)
    if args.json:
        json.dump(report, sys.stdout, indent=1)
        print()
    elif args.csv:
        data.write_csv(report, sys.stdout)
    else:
        _print_text(report, args.sort, args.top, args.by)
    return 0
