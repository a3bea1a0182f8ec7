# SPDX-License-Identifier: MIT
"""Runs a suite of rows and writes its tables: see run.sh, which starts it."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
import tempfile
import time

from . import suites
from .apps import AppRunner
from .machine import describe
from .result import Result, Session
from .row import Row, Way
from .runner import BenchError, Runner, Skipped
from .tables import document, save


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description=__doc__)
    parser.add_argument("suite", choices=sorted(set(suites.SUITES) - {"apps"}))
    parser.add_argument("--only", action="append", help="rows whose group or name contains this; "
                        "given several times: rows that contain one of them")
    parser.add_argument("--way", action="append", help="ways with this label; given several times: "
                        "each of them")
    parser.add_argument("--rounds", type=int, default=5, help="runs that count, of each way")
    parser.add_argument("--warm", type=int, default=1, help="runs of each way before those")
    parser.add_argument("--no-link", action="store_true", help="no runs for the link's counters")
    parser.add_argument("--seconds", type=float, default=0, help="of this time each row has its "
                        "share, for fewer rounds where it must, and none is begun after it")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=LIBRARY[,SETTING...]",
                        help="run the unmodified programs under another preloaded library as well, "
                        "with settings NAME=VALUE; where one fails, the tables say why")
    parser.add_argument("--small", action="store_true", help="of scripts those for little time")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU, small")
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--out", help="folder for SUITE.md and SUITE.json")
    chosen = parser.parse_args()
    if chosen.rounds < 1 or chosen.warm < 0:
        parser.error("--rounds: at least 1; --warm: at least 0")
    for also in chosen.also:
        name, _, library = also.partition("=")
        if not name or not os.path.isfile(library.split(",")[0]):
            parser.error(f"--also: not NAME=LIBRARY with a file that exists: {also}")
    return chosen


def others(row: Row, also: list[str]) -> tuple[Way, ...]:
    """The row's first way, which is the bare program, under other libraries."""
    found = []
    for text in also:
        name, _, rest = text.partition("=")
        library, *settings = rest.split(",")
        found.append(Way(name, row.ways[0].program, library=os.path.abspath(library),
                         settings=tuple(settings)))
    return tuple(found)


def keep(chosen: argparse.Namespace, session: Session) -> None:
    """Writes what was measured so far where the command line says a folder."""
    if chosen.out:
        save(session, chosen.out, chosen.suite)


def measure(chosen: argparse.Namespace, work: str) -> tuple[Session, list[str]]:
    """Prints measurements and failures; the rows go on after one that failed."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    runner = Runner(top, chosen.build, work, chosen.simulated, not chosen.no_link) \
        if chosen.suite not in suites.SCRIPTS else \
        AppRunner(top, chosen.build, work, chosen.simulated,
                  "small" if chosen.simulated or chosen.small else "arguments")
    session = Session(describe(chosen.simulated, chosen.warm, chosen.rounds), chosen.simulated, [])
    failed = []
    begun = time.monotonic()
    rows = [row for row in suites.SUITES[chosen.suite]
            if not chosen.only or any(text in row.title for text in chosen.only)]

    def ended(result: Result, way: Way, seconds: float) -> None:
        keep(chosen, dataclasses.replace(session, results=[*session.results, result]))
        print(f"{result.row.title}: {way.label}, {seconds:.1f} s", file=sys.stderr, flush=True)

    for at, row in enumerate(rows):
        if chosen.way:
            row = dataclasses.replace(row, ways=tuple(way for way in row.ways
                                                      if way.label in chosen.way))
        started = time.monotonic()
        until = started + (begun + chosen.seconds - started) / (len(rows) - at) \
            if chosen.seconds else math.inf
        if 0 < chosen.seconds < started - begun and session.results:
            print(f"{row.title}: left out, {chosen.seconds:.0f} s are over", file=sys.stderr)
            continue
        try:
            session.results.append(runner.measure(row, others(row, chosen.also), chosen.warm,
                                                  chosen.rounds, ended, until))
            outcome = "measured"
        except Skipped as why:
            session.skipped.append(f"{row.title} ({why})")
            outcome = "skipped"
        except BenchError as error:
            failed.append(str(error))
            outcome = "FAILED"
        keep(chosen, session)
        print(f"{row.title}: {outcome}, {time.monotonic() - started:.1f} s", file=sys.stderr,
              flush=True)
    return session, failed


def main() -> int:
    chosen = arguments()
    with tempfile.TemporaryDirectory() as work:
        session, failed = measure(chosen, work)
    if session.results or session.skipped:
        print("\n".join(document(session)))
    elif not failed:
        print(f"bench: no row of suite {chosen.suite} contains {chosen.only}", file=sys.stderr)
        return 2
    for error in failed:
        print(f"bench: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
