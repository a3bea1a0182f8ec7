# SPDX-License-Identifier: MIT
"""The jobs of this host: what their processes come to, as if each were one process."""

from __future__ import annotations

import time
from typing import Callable, Iterable

from .. import live, logs

NO_JOB = "(no job)"

# Columns that tell the rows of a summary's tables apart.
KEYS = {"flows": ("dir", "src_kind", "dst_kind"), "moved_by_kind": ("dir", "src_kind", "dst_kind"),
        "pageable": ("memory", "side"), "places": ("place",), "sites": ("site",),
        "traffic": ("dir",)}


class Job(live.View):
    """One job.  Processes that have ended stay in its sums, which never fall."""

    def __init__(self, name: str) -> None:
        super().__init__(path=name)
        self.members: list[live.View] = []
        self._peaks: dict[str, int] = {}  # Most of each place that was seen, of all together.

    def read(self) -> None:
        """Takes another reading of all its processes."""
        for member in self.members:
            if member.state == "running" or not member.summary:
                member.read()
        good = [member for member in self.members if member.summary]
        if not good:
            self.error = next((member.error for member in self.members), "")
            return
        states = [member.state for member in good]
        self.error = ""
        self.pid = states.count("running")
        self.state = next(state for state in ("running", "killed", "ended") if state in states)
        programs = sorted({member.exe for member in good})
        self.exe = f"{self.path}: {', '.join(programs[:2])}{'...' if programs[2:] else ''}"
        self.before, self.before_ns = self.summary, self.read_ns
        self.summary, self.read_ns = _sum(member.summary for member in good), time.monotonic_ns()
        for member in good:
            self.frames.update(member.frames)
        self._place_peaks([member for member in good if member.state == "running"])

    def _place_peaks(self, running: list[live.View]) -> None:
        """Live memory is that of processes that run; peaks of processes need not be at one time,
        so the sum of them is none."""
        held: dict[str, list[int]] = {}
        for row in (row for member in running for row in member.summary["places"]):
            sums = held.setdefault(row["place"], [0, 0])
            sums[0] += row["blocks"]
            sums[1] += row["bytes"]
        for row in self.summary["places"]:
            row["blocks"], row["bytes"] = held.get(row["place"], [0, 0])
            row["peak_bytes"] = self._peaks[row["place"]] = max(
                self._peaks.get(row["place"], 0), row["bytes"])


class Jobs:
    """All jobs of the host.  `find` returns counters files of processes."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find
        self._jobs: dict[str, Job] = {}
        self._known: set[str] = set()

    def more(self) -> dict[str, live.View]:
        """Looks for processes that have begun; returns jobs that are new."""
        fresh: dict[str, live.View] = {}
        for path in self._find():
            if path in self._known:
                continue
            self._known.add(path)
            name = logs.string(live.meta(path), "job") or NO_JOB
            if name not in self._jobs:
                fresh[name] = self._jobs[name] = Job(name)
            self._jobs[name].members.append(live.View(path))
            self._jobs[name].state = "running"  # Of which it may have had none left.
        return fresh


def _sum(summaries: Iterable[logs.Record]) -> logs.Record:
    """The sum of records: numbers are added, rows of tables by their keys."""
    total: logs.Record = {}
    for summary in summaries:
        _add(total, summary)
    return _listed(total)


def _listed(record: logs.Record) -> logs.Record:
    """The tables as lists again."""
    return {name: [_listed(row) for row in value.values()] if isinstance(value, dict) else value
            for name, value in record.items()}


def _add(total: logs.Record, record: logs.Record) -> None:
    for name, value in record.items():
        if isinstance(value, list) and name in KEYS:
            table = total.setdefault(name, {})
            for row in value:
                key = tuple(row[field] for field in KEYS[name])
                _add(table.setdefault(key, {}), row)
        elif isinstance(value, int) and not isinstance(value, bool):
            total[name] = total.get(name, 0) + value
        else:
            total.setdefault(name, value)
