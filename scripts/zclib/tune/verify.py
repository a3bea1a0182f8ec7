# SPDX-License-Identifier: MIT
"""Whether a run under a policy was right: it ended and printed as bare, and libzc said nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import Sequence

from ..sameness import Output
from ..trial import Run

CHECK_SECONDS = 600
LAST_LINES = 100
SERIOUS = ("warning", "error")


class CanNotTune(Exception):
    """The program can't be tuned; the text says why."""


def digest(path: str) -> str:
    """Of a file's content; "" where there is none."""
    if not os.path.isfile(path):
        return ""
    whole = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while part := file.read(1 << 20):
                whole.update(part)
    except OSError:
        return ""
    return whole.hexdigest()


def _stamp(path: str) -> tuple[int, int]:
    """Numbers of a file that change when it is written."""
    try:
        now = os.stat(path)
    except OSError:
        return 0, 0
    return now.st_mtime_ns, now.st_ino


class Verifier:
    """Knows a bare run, and what runs under libzc say that place nothing."""

    def __init__(self, output: Output, check: str | None, files: Sequence[str]) -> None:
        self._output = output
        self._check = check
        self._files = {path: "" for path in files}
        self._stamps = {path: (0, 0) for path in files}  # After the last run.
        self._anew: set[str] = set()  # Those that every run writes.
        self._bare: Run | None = None
        self._said: set[tuple[str, str]] = set()
        self._ended: dict[int | None, bool] = {}  # As _ended() has it, without any rule.

    def learn(self, bare: Run) -> None:
        """Takes a bare run as right.  Raises CanNotTune where that can't be told of it."""
        self._bare = bare
        self._files = {path: digest(path) for path in self._files}
        self._stamps = {path: _stamp(path) for path in self._files}
        for path, content in self._files.items():
            if not content:
                raise CanNotTune(f"--same {path}: there is no such file after a run without libzc")
        fault = self._checked(self._check, bare) if self._check is not None else ""
        if fault:
            raise CanNotTune(f"without libzc it {fault}")

    def learn_again(self, bare: Run) -> None:
        """Takes another bare run: lines may come in another order in each, numbers may differ, and
        files that are there may not be written again."""
        assert self._bare is not None
        self._anew = self._written()
        self._output.learn(self._bare.output, bare.output)

    def learn_watched(self, watched: Run) -> None:
        """Takes what libzc says without any rule as no rule's fault, and ranks that use CUDA."""
        self._said |= set(watched.totals.warns)
        self._ended = _ended(watched)
        self._output.any_order |= len(watched.processes) > 1

    def proof(self) -> str:
        """The outcome of all right runs, as `passed --check`; "" where nothing is known of
        their results."""
        if self._check is not None:
            return "passed --check"
        did = ["printed"] * (not self.nothing()) + ["wrote the same files"] * bool(self._files)
        masked = self._output.masked()
        return " and ".join(did) + " as without it" + (
            f", but for {masked}, which differ without it, too" if masked else "") if did else ""

    def nothing(self) -> str:
        """As Output.nothing() says, of the bare run."""
        return self._output.nothing(self._bare.output) if self._bare is not None else ""

    def fault(self, run: Run) -> str:
        """The fault of a run under libzc that has just ended; "" where there is none."""
        return self.fault_of_bare(run) or self._lost_rank(run)

    def fault_of_bare(self, run: Run) -> str:
        """The same of any run."""
        assert self._bare is not None
        stale = self._anew - self._written()
        self._stamps = {path: _stamp(path) for path in self._files}
        if run.ended.late:
            return "took too long, and was ended"
        if run.refused.calls:
            return run.refused.words()
        if run.ended.status != self._bare.ended.status:
            return (f"ended with status {run.ended.status} instead of "
                    f"{self._bare.ended.status}{self._last_word(run)}")
        for (severity, code), (_, text) in run.totals.warns.items():
            if severity in SERIOUS and (severity, code) not in self._said:
                return f"libzc said: {text}"
        return self._wrong_result(run) or (f"did not write {min(stale)}" if stale else "")

    def _written(self) -> set[str]:
        """The files that were written by the last run."""
        return {path for path, stamp in self._stamps.items() if _stamp(path) != stamp}

    def _wrong_result(self, run: Run) -> str:
        assert self._bare is not None
        if self._check is not None:
            return self._checked(self._check, run)
        if not self._output.same(self._bare.output, run.output):
            return f"printed {self._output.difference(self._bare.output, run.output)}"
        for path, before in self._files.items():
            if digest(path) != before:
                return f"wrote another {path}"
        return ""

    def _lost_rank(self, run: Run) -> str:
        """A rank that is missing, or what died though its launcher did not mind."""
        ended = _ended(run)
        for rank, by_exit in self._ended.items():
            who = "a process" if rank is None else f"rank {rank}"
            if rank not in ended:
                return f"had no log of {who}, which did not use CUDA"
            if by_exit and not ended[rank]:
                return f"lost {who}, which did not end by exit"
        return ""

    @staticmethod
    def _checked(check: str, run: Run) -> str:
        """Has the caller's own command judge, which reads what the program printed."""
        with open(run.output, "rb") as printed:
            try:
                done = subprocess.run(
                    ["/bin/sh", "-c", check], stdin=printed, check=False, timeout=CHECK_SECONDS,
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "ZC_STDOUT": run.output, "ZC_STDERR": run.errors})
            except subprocess.TimeoutExpired:
                return f"did not pass --check: '{check}' took more than {CHECK_SECONDS} s"
        return "" if done.returncode == 0 else \
            f"did not pass --check: '{check}' ended with status {done.returncode}"

    @staticmethod
    def _last_word(run: Run) -> str:
        for path in (run.errors, run.output):
            lines = [line.strip() for line in run.last_words(LAST_LINES, path)
                     if any(map(str.isalnum, line))]
            if lines:
                return f": {lines[-1][:200]}"
        return ""


def _ended(run: Run) -> dict[int | None, bool]:
    """The ranks of a run, None for what has none, and whether all processes of each ended by
    exit."""
    found: dict[int | None, bool] = {}
    for process in run.totals.processes:
        rank = process.rank if process.launcher else None
        found[rank] = found.get(rank, True) and process.state == "ended"
    return found


def failed_bare(run: Run) -> str:
    """Why a program can't be tuned that fails without libzc."""
    return f"it ends with status {run.ended.status} without libzc" + Verifier._last_word(run)
