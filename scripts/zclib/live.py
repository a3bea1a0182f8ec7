# SPDX-License-Identifier: MIT
"""Finds the counters files of processes, and compares two readings of one."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import Iterator

from . import counters, logs, names

# A mapping's path in /proc/PID/maps (proc(5)): a newline in it is printed as \012.
MAPPED = re.compile(r"^(?:\S+ +){4}\S+ +(/.*)$")


def mapped_by(pid: int) -> str | None:
    """The counters file that a process has mapped; None where it has none, or it is not ours."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                found = MAPPED.match(line.rstrip("\n"))
                path = found.group(1).replace("\\012", "\n") if found else ""
                if path.endswith(counters.SUFFIX) and _is_counters(_seen_by(pid, path)):
                    return _seen_by(pid, path)
    except OSError:
        pass
    return None


def of_process(pid: int) -> str:
    """The counters file of a process that runs.  Raises LogError."""
    if not logs.is_running(pid):
        raise logs.LogError(f"there is no process {pid}; to see one that was killed, name its "
                            "counters file")
    path = mapped_by(pid)
    if path is None:
        raise logs.LogError(f"process {pid} has no counters file: it does not run under libzc, has "
                            "not called CUDA, has no log (ZC_LOG=off), or is another user's")
    return path


def _seen_by(pid: int, path: str) -> str:
    """The path of a file as another process sees it, which may be in a container."""
    if os.path.exists(path):
        return path
    return f"/proc/{pid}/root{path}"


def _is_counters(path: str) -> bool:
    try:
        with open(counters.opened(path), "rb") as file:
            return file.read(len(counters.MAGIC)) == counters.MAGIC
    except OSError:
        return False


def all_mapped() -> dict[int, str]:
    """The counters files of all processes that may be looked at, by process id."""
    found = {}
    for name in os.listdir("/proc"):
        path = mapped_by(int(name)) if name.isdigit() else None
        if path is not None:
            found[int(name)] = path
    return found


def meta(path: str) -> logs.Record:
    """The first line of the log that a counters file belongs to; {} where it is not there."""
    log = logs.log_beside(path)
    return {} if log == path else first_line(log)


def first_line(log: str) -> logs.Record:
    """The first line of a log; {} where it is no `meta` line."""
    try:
        with open(counters.opened(log), "rb") as file:
            record = logs.PARSE(file.readline(logs.MOST_LINE_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and record.get("type") == "meta" else {}


@dataclass
class View:
    """One process, watched through its counters file."""

    path: str
    pid: int = 0             # Here; in a container it may have another.
    exe: str = ""            # The usual name (names.program()).
    state: str = "running"   # running, ended (a clean exit), killed
    summary: logs.Record = field(default_factory=dict)
    frames: dict[str, str] = field(default_factory=dict)  # The innermost frame of each site.
    error: str = ""          # Why nothing could be read; then all else may be empty.
    read_ns: int = 0         # When, on the monotonic clock.
    before: logs.Record = field(default_factory=dict)     # The reading before this one.
    before_ns: int = 0

    def read(self) -> None:
        """Takes another reading.  What was read before stays where the file is gone."""
        try:
            page = counters.Counters(self.path)
        except counters.CountersError as error:
            self.error = str(error)
            return
        except OSError as error:
            if self.summary and isinstance(error, FileNotFoundError):
                self.state = "ended"
            else:
                self.error = error.strerror or str(error)
            return
        self.error = ""
        self.before, self.before_ns = self.summary, self.read_ns
        self.summary, self.read_ns = page.summary(), time.monotonic_ns()
        here = writer(page.header.pid, self.path)
        self.pid = here or self.pid or page.header.pid
        self.exe = self.exe or names.program(page.header.exe, logs.strings(meta(self.path), "argv"))
        self.frames = {site["site"]: site["frames"][0] for site in page.frames() if site["frames"]}
        if page.header.closed:
            self.state = "ended"
        elif not here:
            self.state = "ended" if _closed(self.path) else "killed"

    def rate(self, now: int, before: int) -> float | None:
        """Growth a second between the last two readings; None where there is but one."""
        passed = self.read_ns - self.before_ns
        return (now - before) * 1e9 / passed if self.before and passed > 0 else None


def _closed(path: str) -> bool:
    """Whether the process has come to a clean end, perhaps after the last reading."""
    try:
        return bool(counters.Counters(path).header.closed)
    except FileNotFoundError:
        return True
    except (OSError, counters.CountersError):
        return False


def writes(pid: int, path: str) -> bool:
    """Whether the process of that id writes a file; another one may have its id since.  Of a
    process of another user, only its id tells."""
    if not logs.is_running(pid):
        return False
    if os.access(f"/proc/{pid}/maps", os.R_OK):
        mapped = mapped_by(pid)
        try:
            return mapped is not None and os.path.samefile(mapped, path)
        except OSError:
            return False
    return True


def goes_on(log: logs.Log) -> bool:
    """Whether the process runs whose counters file stood for the summary of a log that was read."""
    file = log.path if log.path.endswith(counters.SUFFIX) else logs.counters_path(log.path)
    return log.from_counters and writes(log.process[-1], file)


def writer(pid: int, path: str) -> int:
    """The id here of the process that writes a file, which has the id `pid` for itself, perhaps in
    a container; 0 where it has ended."""
    return pid if writes(pid, path) else next(
        (here for here in _inside(pid) if writes(here, path)), 0)


def _inside(pid: int) -> Iterator[int]:
    """The processes that have this id in a PID namespace of their own (proc_pid_status(5))."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/status", "rb") as status:
                ids = re.search(rb"^NSpid:(.*)", status.read(), re.MULTILINE)
        except OSError:
            continue
        if ids and int((ids.group(1).split() or [0])[-1]) == pid:
            yield int(name)
