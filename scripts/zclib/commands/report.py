"""zc report: sums up logs, says where the bytes went and what stands out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Iterable

from .. import logs, screen
from ..progress import Progress
from ..report import data, show
from ..report.symbols import Symbols
from ..report.totals import Totals

# Faults of single files that are named; of thousands of files of one kind nobody reads more.
MOST_PROBLEMS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+",
                        help="a log, a counters file, or a folder of them")
    parser.add_argument("--top", metavar="N", type=_positive, default=5,
                        help="show N sites, blocks, repeated copies, findings, processes (5)")
    parser.add_argument("--sort", choices=data.SORTS, default="bytes",
                        help="what the first sites and blocks have most of (bytes)")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--csv", action="store_true", help="print the report's tables as CSV")


def _positive(text: str) -> int:
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
    with Progress("reading logs", sum(_size(path) for path in paths)) as bar:
        def warn(problem: logs.Problem) -> None:
            bar.clear()
            problems.warn(problem)

        totals.read(paths, warn, bar.add)
    problems.end()
    for message in totals.unreadable[:MOST_PROBLEMS]:
        screen.message(message)
    if totals.odd:
        screen.message(f"{totals.odd} records have fields of a type that the log's reference does "
                       "not know; left out")
    if not totals.processes:
        raise logs.LogError("there is nothing to report: no log could be read")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def print_report(paths: Iterable[str], top: int = 5) -> None:
    """Prints the report of logs as text, for other commands."""
    totals = Totals(top)
    read(list(paths), totals)
    report = data.build(totals, Symbols(totals.modules), top, data.SORTS["bytes"].key)
    _print_text(report, "bytes", top)


def _print_text(report: data.Data, sort: str, top: int) -> None:
    for line in show.lines(report, sort, top, screen.width(sys.stdout)):
        print(line)


def run(args: argparse.Namespace) -> int:
    key = data.SORTS[args.sort].key
    totals = Totals(args.top, key)
    read(logs.discover(args.logs), totals)
    report = data.build(totals, Symbols(totals.modules), args.top, key)
    if args.json:
        json.dump(report, sys.stdout, indent=1)
        print()
    elif args.csv:
        data.write_csv(report, sys.stdout)
    else:
        _print_text(report, args.sort, args.top)
    return 0
