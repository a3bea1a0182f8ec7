# SPDX-License-Identifier: MIT
"""Reads logs of libzc (docs/log.md): JSON Lines, one file a process, as a stream.

What is damaged is said once, with its place, and the rest is used: a last line that SIGKILL cut,
lines that are no JSON, a schema of the future, an empty file.  A process without `summary` line was
killed or still runs; its counters file then gives one, so that readers see every process alike.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Collection, Iterable, Iterator, Sequence

from . import counters, screen

SCHEMA = 1
# libzc's longest line, the summary, is 4 MiB; without bound a damaged file could fill the memory.
MOST_LINE_BYTES = 8 << 20
MOST_DAMAGED_LINES_NAMED = 3
TYPE_PREFIX = b'{"type":"'
# Bytes, nanoseconds and addresses have 64 bits; beyond, quotients may be no float.
MOST_NUMBER = 1 << 64

Record = dict[str, Any]


def _finite(text: str) -> float:
    """A number of JSON with a fraction; NaN and Infinity, which Python's parser takes, are none."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


# As json.loads(), which guesses the encoding of bytes each time.
PARSE = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode


@dataclass(frozen=True)
class Problem:
    """A fault of a log; `str()` gives `path:line: text`."""

    path: str
    line: int  # From 1; 0 where the whole file is meant.
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


class LogError(Exception):
    """No log can be read at all; the text is a whole message, with the path."""


# Fields of records that a damaged or foreign file may have with any value.

def number(record: Record, name: str) -> int:
    """A field that is a number, as a whole one; 0 where it is missing or something else."""
    value = record.get(name)
    # Nearly always, and there are several in each of millions of lines.
    if type(value) is int and -MOST_NUMBER < value < MOST_NUMBER:
        return value
    return int(value) if isinstance(value, float) and abs(value) < MOST_NUMBER else 0


def string(record: Record, name: str, default: str = "") -> str:
    """A field that is a string; `default` where it is missing, null or something else."""
    value = record.get(name)
    return value if isinstance(value, str) else default


def rows(record: Record, name: str) -> list[Record]:
    """A field that is an array of objects; what is not, is left out."""
    value = record.get(name)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def strings(record: Record, name: str) -> list[str]:
    """A field that is an array of strings; what is not, is left out."""
    value = record.get(name)
    if not isinstance(value, list):
        return []
    return value if set(map(type, value)) <= {str} else [
        item for item in value if isinstance(item, str)]


def counters_path(log: str) -> str:
    """The path of a log's counters file."""
    stem = log[:-len(".jsonl")] if log.endswith(".jsonl") else log
    return stem + counters.SUFFIX


def log_beside(path: str) -> str:
    """The log that a counters file belongs to, if it is there; any other path is itself."""
    log = path[:-len(counters.SUFFIX)] + ".jsonl"
    return log if path.endswith(counters.SUFFIX) and os.path.isfile(log) else path


def is_running(pid: int) -> bool:
    """Whether there is a process of that id on this machine."""
    return pid > 0 and os.path.exists(f"/proc/{pid}")


class Log:
    """The log of one process, or its counters file where that is all that is left.

    `warn` gets each Problem; `progress` the bytes read, now and then.  After records() has ended,
    `meta` holds the first line's record ({} where it is missing), `ended` whether the process came
    to its end, and `from_counters` whether the summary came from the counters file.
    """

    def __init__(self, path: str, warn: Callable[[Problem], None],
                 progress: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.meta: Record = {}
        self.ended = False
        self.from_counters = False
        self._warn = warn
        self._progress = progress
        self._records = 0
        self._damaged = 0
        self._last_is_cut = False

    @property
    def process(self) -> tuple[str, int, int]:
        """Host, rank, process id: what tells processes apart."""
        return (string(self.meta, "host"), number(self.meta, "rank"), number(self.meta, "pid"))

    def records(self, types: Collection[str] | None = None,
                take: Callable[[bytes], bool] | None = None) -> Iterator[Record]:
        """The records in the order of the file, as dicts with a `type`; of the given types only,
        `meta` and `summary` always.  `take` sees lines first, without their newline, and returns
        whether it took one as it is.  Raises LogError where the file can't be read."""
        wanted = None if types is None else {*types, "meta", "summary"}
        sites: set[str] = set()
        try:
            with open(self.path, "rb") as file:
                if file.peek(len(counters.MAGIC)).startswith(counters.MAGIC):
                    yield from self._from_counters(self.path, wanted, sites)
                    return
                for record in self._parsed(file, wanted, take):
                    if record["type"] == "site":
                        sites.add(string(record, "site"))
                    yield record
        except OSError as error:
            raise LogError(f"{self.path}: {error.strerror}") from error
        self._judge()
        beside = counters_path(self.path)
        if not self.ended and os.path.exists(beside):
            try:
                yield from self._from_counters(beside, wanted, sites)
            except OSError as error:
                self._say(0, f"its counters file can't be read: {error.strerror}")

    def _say(self, line: int, text: str) -> None:
        self._warn(Problem(self.path, line, text))

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Numbered lines without their newline; a part without newline at the end is left out."""
        number_of = 0
        unsaid = 0
        while True:
            line = file.readline(MOST_LINE_BYTES)
            if not line:
                break
            number_of += 1
            unsaid += len(line)
            if self._progress and unsaid >= 1 << 20:
                self._progress(unsaid)
                unsaid = 0
            if line.endswith(b"\n"):
                yield number_of, line[:-1]
            elif len(line) < MOST_LINE_BYTES:
                self._last_is_cut = True
            else:
                self._damage(number_of, f"a line of more than {MOST_LINE_BYTES >> 20} MiB")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_LINE_BYTES)
                    unsaid += len(line)
        if self._progress and unsaid:
            self._progress(unsaid)

    def _parsed(self, file: BinaryIO, wanted: set[str] | None,
                take: Callable[[bytes], bool] | None) -> Iterator[Record]:
        for at, line in self._lines(file):
            if take is not None and take(line):
                self._records += 1
                continue
            if wanted is not None and self._other_type(line, wanted):
                self._records += 1
                continue
            try:
                record = PARSE(line.decode("utf-8"))
            except (ValueError, RecursionError):
                self._damage(at, "this line is no JSON")
                continue
            if not isinstance(record, dict) or not isinstance(record.get("type"), str):
                self._damage(at, "this line is no record of libzc")
                continue
            self._records += 1
            kind = record["type"]
            if kind == "meta" and not self.meta:
                self._take_meta(at, record)
            self.ended = self.ended or kind == "summary"
            if wanted is None or kind in wanted:
                yield record

    @staticmethod
    def _other_type(line: bytes, wanted: set[str]) -> bool:
        """Whether the line, unparsed, can be seen to be of a type that nobody wants."""
        if not line.startswith(TYPE_PREFIX) or not line.endswith(b"}"):
            return False
        end = line.find(b'"', len(TYPE_PREFIX), len(TYPE_PREFIX) + 32)
        return end > 0 and line[len(TYPE_PREFIX):end].decode("ascii", "replace") not in wanted

    def _take_meta(self, at: int, record: Record) -> None:
        self.meta = record
        if number(record, "schema") > SCHEMA:
            self._say(at, f"its schema is {number(record, 'schema')}, and this zc knows {SCHEMA}: "
                      "fields that it does not know are left out; a newer zc reads them")

    def _damage(self, at: int, text: str) -> None:
        self._damaged += 1
        if self._damaged <= MOST_DAMAGED_LINES_NAMED:
            self._say(at, f"{text}; left out")

    def _judge(self) -> None:
        """Says what is wrong with the file as a whole."""
        more = self._damaged - MOST_DAMAGED_LINES_NAMED
        if more > 0:
            self._say(0, f"{more} more {'line' if more == 1 else 'lines'} left out")
        if self._records == 0:
            what = "the file is empty" if not (self._damaged or self._last_is_cut) else \
                "no line of it is a record of libzc"
            self._say(0, f"{what}; nothing is read of it")
            return
        if not self.meta:
            self._say(0, "its first line, 'meta', is missing: program, host and rank are not known")
        if self._last_is_cut:
            self._say(0, "its last line is cut (the process was killed, or still writes); left out")
        if "recorder" in self.meta:
            return  # A recording is of no process, so it has no summary.
        if not self.ended and not os.path.exists(counters_path(self.path)):
            self._say(0, "it has no summary, and there is no counters file beside it: totals are "
                      "missing")

    def _from_counters(self, path: str, wanted: set[str] | None,
                       have: set[str]) -> Iterator[Record]:
        """The records that a counters file stands for; sites that were logged are not repeated."""
        try:
            page = counters.Counters(path)
            if page.header.schema > counters.SCHEMA:
                self._warn(Problem(path, 0, f"its schema is {page.header.schema}, and this zc "
                                   f"knows {counters.SCHEMA}: what was added is left out"))
            summary = page.summary()
        except counters.CountersError as error:
            self._warn(Problem(path, 0, f"{error}; nothing is read of it"))
            return
        self.from_counters = True
        self.ended = page.header.closed
        if self.ended and path != self.path:
            self._warn(Problem(path, 0, "the log beside it ends early, as on a full disk; the "
                               "totals are those of the counters"))
        if not self.meta:
            self.meta = {"type": "meta", "time_ns": page.header.start_ns, "pid": page.header.pid,
                         "exe": page.header.exe}
            yield self.meta
        if wanted is None or "site" in wanted:
            yield from (site for site in page.frames() if site["site"] not in have)
        yield summary


def call_path(record: Record) -> tuple[str, ...]:
    """The frames of a `site` record, innermost first: module+0xOFFSET, or FILE:LINE in FUNCTION for
    Python's, which stand for the interpreter's own."""
    frames = strings(record, "frames")
    python = rows(record, "python")
    if python:
        frames = frames[:number(record, "before_python")] + [
            f"{string(row, 'file', '?')}:{number(row, 'line')} in {string(row, 'function', '?')}"
            for row in python]
    return tuple(frames)


PYTHON_FRAME = re.compile(r"(.*):([0-9]+) in (.*)", re.DOTALL).fullmatch


def innermost(frames: Sequence[str]) -> str:
    """The innermost frame of Python, else of all; empty without frames."""
    return next(filter(PYTHON_FRAME, frames), frames[0] if frames else "")


def is_log_name(name: str) -> bool:
    """Whether a file of a folder looks like a log."""
    return name.endswith(".jsonl")


def discover(arguments: Iterable[str]) -> list[str]:
    """The logs that arguments stand for: a file is itself, a folder all logs in it and below, and a
    counters file its log if that is there.  Sorted within a folder, each once.  Raises LogError."""
    found: dict[str, None] = {}
    for argument in arguments:
        if os.path.isdir(argument):
            inside = _in_folder(argument)
            if not inside:
                raise LogError(f"{argument}: no log (*.jsonl) in this folder or below it")
            found.update(dict.fromkeys(map(log_beside, inside)))
        elif os.path.exists(argument):
            found[log_beside(argument)] = None
        else:
            raise LogError(f"{argument}: no such file or folder")
    # The counters file of a log with another ending has the log's whole name.
    beside = {counters_path(path) for path in found if not path.endswith(counters.SUFFIX)}
    return [path for path in found if path not in beside]


def _say_unread(error: OSError) -> None:
    screen.message(f"{error.filename}: {error.strerror}; logs in it are left out")


def _in_folder(folder: str) -> list[str]:
    paths = []
    for parent, folders, files in os.walk(folder, onerror=_say_unread):
        folders.sort()
        named = [os.path.join(parent, name) for name in sorted(files)
                 if is_log_name(name) or name.endswith(counters.SUFFIX)]
        paths += filter(os.path.isfile, named)
        for path in itertools.filterfalse(os.path.isfile, named):
            screen.message(f"{path}: no regular file; left out")
    return paths
