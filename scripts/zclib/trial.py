# SPDX-License-Identifier: MIT
"""Single runs of a program, bare or under a policy, with what each printed and what it moved."""

from __future__ import annotations

import contextlib
import filecmp
import functools
import os
from dataclasses import dataclass, field, replace
from typing import Sequence

from . import launch, link, logs, merge, output, refusals, screen
from .refusals import Refusals
from .report import engines
from .report.parts import Process
from .report.totals import Options, Totals

LAST_BYTES = 1 << 16  # Of what a run said, that are looked at.
OPTIONS = Options(1)  # Of what is kept of logs.
WARM_UP = 0  # The number of a run that does not count.


@dataclass
class Plan:
    """One kind of run."""

    name: str
    env: dict[str, str] | None  # As launch.environment() makes it; None for a bare run.
    links: bool = True          # The links' counters are read beside its runs.


@dataclass
class Run:
    """The result of one run."""

    ended: launch.Ended
    output: str        # File of what it printed.
    errors: str        # And of what it said.
    totals: Totals     # Of its logs; of a bare run the links alone.
    refused: Refusals  # Calls that libzc refused.
    logs: list[str]

    @property
    def status(self) -> int:
        """Its exit status, or that for refused calls of a program that ended with 0."""
        return self.ended.status or (launch.FAILED if self.refused.calls else 0)

    @property
    def processes(self) -> dict[int, list[Process]]:
        """The processes of each rank, where a launcher told them one."""
        found: dict[int, list[Process]] = {}
        for process in self.totals.processes:
            if process.launcher:
                found.setdefault(process.rank, []).append(process)
        return dict(sorted(found.items()))

    @functools.cached_property
    def ranks(self) -> dict[int, Run]:
        """The run of each rank alone, as its logs have it; none where there is one rank."""
        ranks = self.processes
        return {rank: self._of(processes) for rank, processes in ranks.items()} \
            if len(ranks) > 1 else {}

    def _of(self, processes: Sequence[Process]) -> Run:
        paths = [process.path for process in processes]
        wall_ns = max(process.start_ns + process.wall_ns for process in processes) - min(
            process.start_ns for process in processes)
        return replace(self, ended=replace(self.ended, wall_ns=wall_ns, pid=0), logs=paths,
                       totals=merge.map_logs(paths, OPTIONS))

    def last_words(self, count: int, path: str = "") -> list[str]:
        """The last lines of what it said, or of another file of it, which may be very many."""
        with open(path or self.errors, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - LAST_BYTES, 0))
            text = file.read().decode("utf-8", "surrogateescape")
        return text.splitlines()[-count:]


@dataclass
class Arm:
    """A plan with its runs."""

    plan: Plan
    runs: list[Run] = field(default_factory=list)
    same: bool | None = None  # Whether all of them printed what was expected; None: not asked.

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def status(self) -> int:
        """That of the first run that failed."""
        return next((run.status for run in self.runs if run.status), 0)


class Trials:
    """Runs of one command, their files below folder/NAME of their plan."""

    def __init__(self, command: Sequence[str], folder: str, kept: bool = False) -> None:
        """`kept`: the files are somebody else's in the end, so each stands by itself."""
        self._command = command
        self._folder = folder
        self._kept = kept
        self._first: tuple[str, ...] = ()  # Output of the first run.
        self._has_link = True  # Until a run has shown that there are no counters.

    def run(self, plan: Plan, number: int, limit_s: float | None = None) -> Run:
        """The run of that number, from 1 on, or WARM_UP.  Raises OSError where the program can't be
        started, and LogError where there is no room for what it prints and logs."""
        folder = os.path.join(self._folder, plan.name)
        os.makedirs(folder, exist_ok=True)
        before = set(os.listdir(folder))
        ending = {WARM_UP: ".warm-up", 1: ""}.get(number, f".{number}")
        printed, errors = (os.path.join(folder, name + ending) for name in ("stdout", "stderr"))
        # Another run's may be one file with those of its first run, or a link.
        for name in (printed, errors):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        env = {**launch.bare_environment(), **launch.NOT_ENABLED} if plan.env is None else \
            {**plan.env, "ZC_LOG": os.path.join(folder.replace("%", "%%"), launch.LOG_NAME)}
        record = self._has_link and plan.links and number != WARM_UP
        with link.Recording(folder) if record else contextlib.nullcontext():
            ended = launch.run(self._command, env, [(0, os.devnull), (1, printed), (2, errors)],
                               limit_s)
        self._must_have_room()
        made = [os.path.join(folder, name) for name in sorted(set(os.listdir(folder)) - before)
                if logs.is_log_name(name)]
        if not self._kept:
            self._share(printed, errors)
        if record:
            self._has_link = any(map(link.is_recording, made))
        totals = engines.read(made, OPTIONS)
        for message in totals.messages():
            screen.message(message)
        return Run(ended, printed, errors, totals, refusals.in_logs(made), made)

    def _must_have_room(self) -> None:
        try:
            output.try_folder(self._folder)
        except OSError as error:
            hint = "" if self._kept else "; TMPDIR names another folder"
            raise logs.LogError(f"{self._folder}: {error.strerror}, so that what the last run "
                                f"printed may be cut{hint}") from error

    def _share(self, *files: str) -> None:
        """Keeps once the text that many runs print alike."""
        self._first = self._first or files
        for first, file in zip(self._first, files):
            if first != file and filecmp.cmp(first, file, shallow=False):
                with contextlib.suppress(OSError):  # A file system without links.
                    os.link(first, file + ".same")
                    os.replace(file + ".same", file)
