# SPDX-License-Identifier: MIT
"""Keeps measured sessions in kernels/results.jsonl, one line a row; writes kernels/RESULTS.md, its
picture and README's figures.

    tests/bench/run.sh keep [PART.json...]     PART: what a suite wrote below OUT_DIR
    tests/bench/run.sh keep --print            the tables of all that is kept, and of the link

A row that was kept before is replaced by the newer measurement, but for other libraries that this
one did not run.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter

from . import suites
from .pictures import overview, programs
from .quote import first_words, measured, quoted, seconds, time
from .result import Result, Session, load
from .tables import document, groups, measured_on, section

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(TOP, "kernels", "results.jsonl")
PAGE = os.path.join(TOP, "kernels", "RESULTS.md")
README = os.path.join(TOP, "README.md")
PICTURE = os.path.join(TOP, "kernels", "pictures", "overview.svg")
PROGRAMS = os.path.join(TOP, "kernels", "pictures", "programs.svg")
# How to read the tables of the link.
LINK = """\
*Link* is what the link's own counters say of the round that warms up, in the row's whole process:
packets with their headers. *Copies* is what of that the driver's copies explain, by the log's
account of the bytes moved: 1.078 bytes a byte to the GPU and 1.093 a byte from it, and the
requests by which the GPU reads host memory, 0.0955 bytes from it for a byte to it (measured with
copies of 256 MiB and 1 GiB; what a run has differs from it by up to 1 %). *Rest* is what is left
when these and the start of a CUDA process that does nothing are taken away: what kernels read and
write over the link themselves, which no call tells (a byte read costs about 1.16 on the link),
and pages of managed memory that move. Of programs that run without libzc and have no unmodified
twin in the row the log knows nothing; their rest is all of it. Of two GPUs the link is the first
one's, the account that of both.
"""
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"


def kept_sessions() -> list[Session]:
    if not os.path.exists(DATA):
        return []
    sessions: dict[str, dict] = {}
    with open(DATA, encoding="utf-8") as data:
        for line in data:
            row = json.loads(line)
            session = sessions.setdefault(row["machine"], {
                "machine": row["machine"], "simulated": False, "skipped": [], "rows": []})
            session["skipped"] += row.pop("skipped", [])
            session["rows"] += [row] if "title" in row else []
    return [load(session, suites.ALL) for session in sessions.values()]


def lines_of(session: Session) -> list[str]:
    """The part of a session that is kept."""
    rows = [result.keep() for result in session.results]
    rows += [{"skipped": session.skipped}] if session.skipped else []
    return [json.dumps({"machine": session.machine, **row}) + "\n" for row in rows]


def carry(new: Result, old: Result, when: str) -> None:
    """Other libraries are not at hand for every measurement: what they gave before stays."""
    ours = {way.label for way in new.row.ways}
    for label, samples in old.samples.items():
        if label in ours or label in new.samples or label in new.without:
            continue
        new.samples[label] = samples
        if label in old.link:
            new.link[label] = old.link[label]
        new.earlier[label] = old.earlier.get(label, when)


def add(sessions: list[Session], new: Session) -> list[Session]:
    """The sessions with the new one, whose rows replace older ones of the same title."""
    replaced = {result.row.title: result for result in new.results}
    for session in sessions:
        for result in session.results:
            if result.row.title in replaced:
                carry(replaced[result.row.title], result, session.machine.partition(";")[0])
        session.results = [result for result in session.results
                           if result.row.title not in replaced]
        session.skipped = []
    return [session for session in sessions if session.results] + [new]


def as_one(sessions: list[Session]) -> Session:
    """All rows of all sessions in the order of the suites."""
    by_title = {result.row.title: result for session in sessions for result in session.results}
    return Session("", False, [by_title[row.title] for row in suites.ALL if row.title in by_title],
                   [what for session in sessions for what in session.skipped])


MACHINE = re.compile(r"(?P<day>.*?)( \S+ UTC)?, (?P<libzc>libzc \S+); (?P<where>.*); "
                     r"medians of (?P<runs>.*) interleaved runs after (?P<warm>\d+) to warm up "
                     r"\(least-most\)(; (?P<small>small sizes))?\.")


def machines(sessions: list[Session]) -> list[str]:
    """The machine and day of rows: a line a machine, with each version's day and runs."""
    rows: dict[str, Counter[str]] = {}
    for session in sorted(sessions, key=lambda session: session.machine):
        said = MACHINE.fullmatch(measured_on(session))
        if not said:
            raise ValueError(f"kept results tell their machine otherwise: {session.machine}")
        runs = f"{said['runs']} runs after {said['warm']}{', small sizes' * bool(said['small'])}"
        what = f"{said['libzc']} on {said['day']}, {runs}: {{}} rows"
        rows.setdefault(said["where"], Counter())[what] += len(session.results)
    return [f"- {where}; medians of interleaved runs after those to warm up (least-most): "
            + "; ".join(what.format(count) for what, count in found.items()) + "."
            for where, found in rows.items()]


def page(sessions: list[Session]) -> list[str]:
    """The part of RESULTS.md between its two marks."""
    whole = as_one(sessions)
    lines = [*machines(sessions), ""]
    for group, results in groups(whole).items():
        lines += section(group, results, False, "##", full=False)
    lines += [f"Skipped: {what}." for what in whole.skipped]
    return lines if lines[-1] else lines[:-1]


def write(sessions: list[Session]) -> None:
    with open(DATA, "w", encoding="utf-8") as data:
        data.writelines(line for session in sessions for line in lines_of(session))
    os.makedirs(os.path.dirname(PICTURE), exist_ok=True)
    whole = as_one(sessions)
    rows = [(quote.short, seconds(time(metric, result, "bare")),
             seconds(time(metric, result, quote.label)), part)
            for quote, metric, result, part in measured(whole)]
    for path, text in ((PICTURE, overview(whole)), (PROGRAMS, programs(rows))):
        with open(path, "w", encoding="utf-8") as picture:
            picture.write(text)
    for path, name, lines in ((PAGE, "results", page(sessions)), (README, "results", quoted(whole)),
                              (README, "first", first_words(whole))):
        begin, end = BEGIN.format(name), END.format(name)
        with open(path, encoding="utf-8") as text:
            before, found, rest = text.read().partition(begin)
        if not found:
            continue
        with open(path, "w", encoding="utf-8") as text:
            text.write("\n".join([before + begin, "", *lines, "", end]) + rest.partition(end)[2])


def main() -> int:
    sessions = kept_sessions()
    if sys.argv[1:] == ["--print"]:
        print("\n".join([LINK, *document(as_one(sessions))]))
        return 0
    for part in sys.argv[1:]:
        try:
            with open(part, encoding="utf-8") as data:
                new = load(json.load(data), suites.ALL)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"bench: {part}: not a session of a suite: {error}", file=sys.stderr)
            return 2
        if new.simulated:
            print(f"bench: {part}: times of a simulated GPU mean nothing and are not kept",
                  file=sys.stderr)
            return 2
        sessions = add(sessions, new)
    write(sessions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
