#!/usr/bin/env python3
"""Prints a table of what runs of one program asked to move and what became of it.

    transfers.py FOLDER NAME...

FOLDER holds NAME.out, the program's own line of results as JSON, and for a watched run NAME.jsonl,
libzc's log.  Exit status 1 where the results differ.
"""

import json
import os
import sys

from zclib import table, units
from zclib.logs import Problem
from zclib.report.totals import Totals

COLUMNS = [table.text("Run"), *map(table.Column, ("Count", "Asked", "Moved", "CPU copied", "Elided",
                                                  "Result"))]


def result(path: str) -> str:
    """The checksum in the program's last line of output."""
    try:
        with open(path, encoding="utf-8") as lines:
            return json.loads(lines.read().splitlines()[-1])["checksum"]
    except OSError as error:
        sys.exit(f"transfers: {path}: {error.strerror}")
    except (ValueError, LookupError, TypeError):
        sys.exit(f"transfers: {path}: its last line is no JSON object with a checksum")


def fail(problem: Problem) -> None:
    """Every log is to be whole."""
    sys.exit(str(problem))


def row(folder: str, name: str) -> list[str]:
    """One line of the table; a bare run was not watched, so it has no counts."""
    checksum = result(os.path.join(folder, name + ".out"))
    log = os.path.join(folder, name + ".jsonl")
    if not os.path.exists(log):
        return [name, *["-"] * 5, checksum]
    totals = Totals(0)
    totals.read([log], fail)
    counts = totals.counts
    return [name, units.count(counts.asked_calls), units.size(counts.asked_bytes),
            units.size(counts.moved_bytes), units.size(counts.cpu_copied_bytes),
            units.size(counts.elided_bytes), checksum]


def main(folder: str, *names: str) -> None:
    rows = [row(folder, name) for name in names]
    print("\n".join(table.render(COLUMNS, rows)))
    if len({cells[-1] for cells in rows}) != 1:
        sys.exit("The results differ.")
    print("\nThe results of all runs are the same.")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
