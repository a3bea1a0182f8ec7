#!/usr/bin/env python3
"""Prints a table of what runs of one program asked to move and what became of it.

    transfers.py FOLDER NAME...

FOLDER holds NAME.out, the program's own line of results as JSON, and for a watched run NAME.jsonl,
libzc's log, whose summary line has the counts.  Exit status 1 where the results differ.
"""

import json
import os
import sys

OUTCOMES = ("asked", "moved", "cpu_copied", "elided")
HEADINGS = ("Run", "Count", "Asked", "Moved", "CPU copied", "Elided", "Result")


def units(count):
    """A number of bytes as text, in the units of the log's own summary."""
    if count < 1024:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count /= 1024
        if count < 1024 or unit == "TiB":
            return f"{count:.1f} {unit}"
    raise AssertionError("not reached")


def result(path):
    """The checksum in the program's last line of output."""
    with open(path, encoding="utf-8") as lines:
        return json.loads(lines.read().splitlines()[-1])["checksum"]


def summary(path):
    """The summary line of a log."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["type"] == "summary":
                return record
    raise SystemExit(f"{path}: no summary line")


def totals(record):
    """Count of transfers, and bytes by outcome, over all flows of a summary."""
    count = 0
    size = dict.fromkeys(OUTCOMES, 0)
    for flow in record["flows"]:
        count += flow["asked_calls"]
        for outcome in OUTCOMES:
            size[outcome] += flow[outcome + "_bytes"]
    return count, size


def row(folder, name):
    """One line of the table; a bare run was not watched, so it has no counts."""
    checksum = result(os.path.join(folder, name + ".out"))
    log = os.path.join(folder, name + ".jsonl")
    if not os.path.exists(log):
        return (name, *["-"] * 5, checksum)
    count, size = totals(summary(log))
    return (name, str(count), *(units(size[outcome]) for outcome in OUTCOMES), checksum)


def main(folder, *names):
    rows = [HEADINGS] + [row(folder, name) for name in names]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for first, *rest in rows:
        cells = [text.rjust(width) for text, width in zip(rest, widths[1:])]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    if len({line[-1] for line in rows[1:]}) != 1:
        sys.exit("The results differ.")
    print("\nThe results of all runs are the same.")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
