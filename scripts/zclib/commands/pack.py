# SPDX-License-Identifier: MIT
"""zc pack: logs as a data set of Parquet files."""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import shutil

from .. import logs, output, screen, units
from ..pack import tables, write
from ..progress import Progress
from ..report import parallel
from ..report.totals import MOST_PROBLEMS

EPILOG = """\
The folder has a folder a table: processes, flows, sites, blocks, transfers and others.
Exit status: 0; 1 where no log could be read, or the folder can't be written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+",
                        help="a log, a counters file, or a folder of them")
    parser.add_argument("-o", "--output", metavar="DIR", required=True,
                        help="the folder to make")
    parser.epilog = EPILOG
    parser.examples = ("zc pack -o packed logs/",)


def run(args: argparse.Namespace) -> int:
    write.arrow()
    paths = logs.discover(args.logs)
    out = args.output.rstrip("/") or args.output
    if os.path.lexists(out):
        screen.message(f"{out}: it is there already, and nothing is added to it")
        return 1
    # It gets its name when it is whole.
    unfinished = f"{out}.{os.getpid()}.part"
    try:
        os.mkdir(unfinished)
    except OSError as error:
        raise OSError(error.errno, error.strerror, out) from error
    try:
        with output.named(out):
            rows = _pack(paths, unfinished)
        if not rows["processes"] and not rows["links"]:
            raise logs.LogError("there is nothing to pack: no log could be read")
        os.rename(unfinished, out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    size = sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(out) for name in names)
    print(f"{out}: {len(paths)} logs, {units.size(size)}: "
          + ", ".join(f"{count} {name}" for name, count in rows.items()))
    return 0


def _pack(paths: list[str], folder: str) -> collections.Counter[str]:
    """Writes all tables; how many rows each has.  Says what is wrong with logs."""
    rows: collections.Counter[str] = collections.Counter()
    faults = 0
    with Progress("packing logs", sum(map(parallel.size_of, paths))) as bar:
        parts = list(enumerate(parallel.parts(paths)))
        pack = functools.partial(write.part, folder)
        for (_, names), part in zip(parts, parallel.read_all(parts, pack, parallel.jobs(paths))):
            bar.add(sum(map(parallel.size_of, names)))
            rows.update(part.rows)
            for message in part.messages[:max(MOST_PROBLEMS - faults, 0)]:
                bar.clear()
                screen.message(message)
            faults += len(part.messages)
    if faults > MOST_PROBLEMS:
        screen.message(f"and {faults - MOST_PROBLEMS} more faults of logs")
    with open(os.path.join(folder, "pack.json"), "w", encoding="utf-8") as file:
        json.dump({"zc_pack": tables.VERSION, "logs": len(paths), "faults": faults,
                   "rows": dict(rows)}, file, indent=1)
    return rows
