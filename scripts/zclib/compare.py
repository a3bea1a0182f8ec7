# SPDX-License-Identifier: MIT
"""Runs a program bare and under policies, and puts the runs side by side."""

from __future__ import annotations

import filecmp
import os
import shlex
import statistics
import sys
from dataclasses import dataclass, field
from typing import Sequence

from . import launch, link, logs, names, refusals, screen, table, units
from .progress import Progress
from .refusals import Refusals
from .report.totals import Totals

LAST_LINES = 5  # Of the stderr of a run that failed.


@dataclass
class Plan:
    """One kind of run."""

    name: str
    env: dict[str, str] | None  # As launch.environment() makes it; None for a bare run.


@dataclass
class Result:
    """What came of the runs of one kind."""

    name: str
    status: int = 0             # Exit status of the first that failed.
    times_ns: list[int] = field(default_factory=list)
    totals: Totals | None = None  # Of the first run; of a bare one the links alone.
    output: str = ""            # File of what the first run printed.
    same: bool | None = None    # Whether its output equals the bare run's; None for that itself.
    refused: Refusals = field(default_factory=Refusals)  # Calls that libzc refused, in all runs.

    @property
    def time_ns(self) -> int:
        return int(statistics.median(self.times_ns)) if self.times_ns else 0


def run_all(command: Sequence[str], plans: Sequence[Plan], folder: str,
            repeat: int) -> list[Result]:
    """Runs each plan `repeat` times, its files below folder/NAME.  Ends early, with the runs so
    far, where a signal was passed on.  Raises OSError where the program can't be started."""
    results = []
    with Progress("", len(plans) * repeat) as bar:
        for plan in plans:
            result = Result(plan.name)
            results.append(result)
            for at in range(repeat):
                bar.say(f"run {at + 1} of {repeat}: {plan.name}" if repeat > 1 else plan.name)
                if not _run(command, plan, result, os.path.join(folder, plan.name), at):
                    return results
                bar.add(1)
            if result.status:
                bar.clear()
                _say_failure(result)
            if result is not results[0]:
                result.same = filecmp.cmp(results[0].output, result.output, shallow=False)
    return results


def _run(command: Sequence[str], plan: Plan, result: Result, folder: str, at: int) -> bool:
    """One run; false where a signal was passed on to it."""
    os.makedirs(folder, exist_ok=True)
    before = set(os.listdir(folder))
    number = f".{at + 1}" if at else ""
    output, errors = (os.path.join(folder, name + number) for name in ("stdout", "stderr"))
    env = dict(os.environ) if plan.env is None else \
        {**plan.env, "ZC_LOG": os.path.join(folder.replace("%", "%%"), launch.LOG_NAME)}
    with link.Recording(folder, at + 1):
        ended = launch.run(command, env, [(0, os.devnull), (1, output), (2, errors)])
    refused = refusals.in_logs(_new_logs(folder, before))
    result.refused = Refusals.of((result.refused, refused))
    result.status = result.status or ended.status or (launch.FAILED if refused.calls else 0)
    result.times_ns.append(ended.wall_ns)
    if at == 0:
        result.output = output
        result.totals = _totals(folder, before)
    return ended.passed_on == 0


def _totals(folder: str, before: set[str]) -> Totals:
    totals = Totals(1)
    totals.read(_new_logs(folder, before), lambda problem: screen.message(str(problem)))
    return totals


def _new_logs(folder: str, before: set[str]) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(set(os.listdir(folder)) - before)
            if logs.is_log_name(name)]


def _say_failure(result: Result) -> None:
    why = f"had refused calls ({result.refused.words()})" if result.refused.calls else \
        f"ended with status {result.status}"
    screen.message(f"run '{result.name}' {why}; its last messages:")
    path = os.path.join(os.path.dirname(result.output), "stderr")
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file.readlines()[-LAST_LINES:]:
            print(f"  {names.shown(line.rstrip())}", file=sys.stderr)


def lines(results: Sequence[Result], width: int | None, kept: bool) -> list[str]:
    """The table of the runs, and what it comes to in words.  It tells of the links where they were
    measured.  `kept`: the files of the runs stay."""
    measured = any(result.totals and result.totals.links.devices for result in results)
    columns = [table.text("Run", least=8), table.Column("Exit", drop=1), table.Column("Time"),
               table.Column("Of bare"), table.Column("Count", drop=2), table.Column("Asked"),
               table.Column("Moved"), table.Column("CPU copied"), table.Column("Elided"),
               table.Column("Blocked", drop=3), table.Column("Device peak", drop=4)]
    if measured:
        columns += [table.Column("Link to"), table.Column("Link from")]
    columns.append(table.text("Output", least=0))
    rows = []
    for result in results:
        same = {None: "", True: "same", False: "differs"}[result.same]
        if result.refused.calls:
            same += f", {result.refused.calls} refused"
        rows.append((result.name, result.status, units.duration(result.time_ns),
                     units.percent(result.time_ns, results[0].time_ns), *_counted(result.totals),
                     *(_links(result.totals) if measured else ()), same))
    return table.render(columns, rows, width) + ["", _verdict(results, kept)]


def _counted(totals: Totals | None) -> tuple[str, ...]:
    """What libzc counted; nothing in a bare run."""
    if totals is None or not totals.processes:
        return ("-",) * 7
    counts = totals.counts
    return (units.count(counts.asked_calls), units.size(counts.asked_bytes),
            units.size(counts.moved_bytes), units.size(counts.cpu_copied_bytes),
            units.size(counts.elided_bytes), units.duration(counts.blocked_ns),
            units.size(totals.peak("device")))


def _links(totals: Totals | None) -> tuple[str, str]:
    """What went over the links by hardware counter, to the devices and from them."""
    if totals is None or not totals.links.devices:
        return "-", "-"
    return units.size(totals.links.to_device), units.size(totals.links.from_device)


def _verdict(results: Sequence[Result], kept: bool) -> str:
    """Whether the policies kept the program's output, and the fastest run."""
    refused = next((result for result in results if result.refused.calls), None)
    if refused:
        return f"Run '{refused.name}': {refused.refused.words()}."
    if any(result.status for result in results):
        return "Not all runs ended with status 0."
    differing = next((result for result in results if result.same is False), None)
    if differing:
        files = (f"diff {shlex.quote(results[0].output)} {shlex.quote(differing.output)}" if kept
                 else "with -o DIR their outputs stay, to be compared")
        return ("Not all runs printed the same; times and process ids in the output do that, too: "
                f"{files}")
    fastest = min(results, key=lambda result: result.time_ns)
    return f"All runs printed the same. The fastest was '{fastest.name}'."
