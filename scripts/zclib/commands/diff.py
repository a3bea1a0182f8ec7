# SPDX-License-Identifier: MIT
"""zc diff: compares the logs of two runs, before and after."""

from __future__ import annotations

import argparse
import json
import sys

from .. import logs, output, screen
from ..report import compare, data, page, show, show_diff
from ..report.symbols import Symbols
from ..report.totals import Options, Totals
from . import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="the run before: a log, or a folder of logs of all "
                        "its processes")
    parser.add_argument("b", metavar="B", help="the run after, likewise")
    parser.add_argument("--top", metavar="N", type=report.positive, default=10,
                        help="show the N sites and processes that changed most (10)")
    parser.add_argument("--sort", choices=data.SORTS, default="moved",
                        help="what has changed most in the first ones (moved)")
    parser.add_argument("--html", metavar="FILE",
                        help="write a page with charts that opens offline")
    parser.add_argument("--json", action="store_true",
                        help="print the comparison as one JSON object")
    parser.examples = ("zc diff before.jsonl after.jsonl", "zc diff --html diff.html logs-a logs-b")


def _read(argument: str) -> Totals:
    return report.read(logs.discover([argument]), Options(0))


def run(args: argparse.Namespace) -> int:
    output.try_out(args.html)
    a, b = _read(args.a), _read(args.b)
    key = data.SORTS[args.sort].key
    symbols = (Symbols(a.modules), Symbols(b.modules))
    if args.html:
        whole = compare.build(a, b, symbols, page.ROWS, key)
        for side, name in (("a", args.a), ("b", args.b)):
            whole["runs"][side]["name"] = name
        programs = dict.fromkeys([*whole["runs"]["a"]["programs"], *whole["runs"]["b"]["programs"]])
        report.write_page(whole, f"zc diff: {show.few(list(programs), 'unknown program')}",
                          args.html)
    comparison = compare.build(a, b, symbols, args.top, key)
    if args.json:
        json.dump(comparison, sys.stdout, indent=1)
        print()
    else:
        for line in show_diff.lines(comparison, screen.width(sys.stdout)):
            print(line)
    return 0
