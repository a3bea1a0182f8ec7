"""Runs a suite of rows and writes its tables: see run.sh, which starts it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

from . import shared_rows, tables
from .machine import describe
from .runner import BenchError, Result, Runner, Skipped

SUITES = {"shared": shared_rows.ROWS}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--only", default="", help="rows whose group or name contains this")
    parser.add_argument("--rounds", type=int, default=5, help="runs that count, of each way")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU, small")
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--out", help="folder for NAME.md and NAME.json")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error("--rounds: at least 1")
    return chosen


def measure(chosen: argparse.Namespace, work: str) -> tuple[list[Result], list[str], list[str]]:
    """Results, what was skipped, and what failed; the rows go on after one that failed."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    runner = Runner(top, chosen.build, work, chosen.simulated)
    results, skipped, failed = [], [], []
    for row in SUITES[chosen.suite]:
        if chosen.only not in row.title:
            continue
        started = time.monotonic()
        try:
            results.append(runner.measure(row, chosen.rounds))
            outcome = "measured"
        except Skipped as why:
            skipped.append(f"{row.title}: {why}")
            outcome = "skipped"
        except BenchError as error:
            failed.append(str(error))
            outcome = "FAILED"
        print(f"{row.title}: {outcome}, {time.monotonic() - started:.1f} s", file=sys.stderr,
              flush=True)
    return results, skipped, failed


def write(chosen: argparse.Namespace, results: list[Result], skipped: list[str]) -> None:
    lines = [describe(chosen.simulated, chosen.rounds), "",
             *tables.goals_table(results, chosen.simulated), "", *tables.link_table(results)]
    lines += ["", *(f"Skipped: {what}." for what in skipped)] if skipped else []
    print("\n".join(lines))
    if chosen.out:
        os.makedirs(chosen.out, exist_ok=True)
        base = os.path.join(chosen.out, chosen.suite)
        with open(base + ".md", "w", encoding="utf-8") as table:
            table.write("\n".join(lines) + "\n")
        with open(base + ".json", "w", encoding="utf-8") as data:
            json.dump({"machine": describe(chosen.simulated, chosen.rounds),
                       "rows": [tables.as_json(result) for result in results]}, data, indent=1)
            data.write("\n")


def main() -> int:
    chosen = arguments()
    with tempfile.TemporaryDirectory() as work:
        results, skipped, failed = measure(chosen, work)
    if results:
        write(chosen, results, skipped)
    if not results and not failed and not skipped:
        print(f"bench: no row of suite {chosen.suite} contains '{chosen.only}'", file=sys.stderr)
        return 2
    for error in failed:
        print(f"bench: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
