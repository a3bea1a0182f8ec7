# SPDX-License-Identifier: MIT
"""Runs a program bare and under policies, and puts the runs side by side."""

from __future__ import annotations

import math
import os
import shlex
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Sequence

from . import launch, names, race, screen, spread, table, trial, units
from .progress import Progress
from .refusals import Refusals
from .report.totals import Totals
from .sameness import Output
from .trial import Arm, Plan

LAST_LINES = 5  # Of the stderr of a run that failed.
SIMULATED = "The GPU is simulated: bytes are exact, times mean nothing."


@dataclass
class Comparison:
    """The results of all runs.  The first arm is the bare one."""

    arms: list[Arm]
    ratios: list[spread.Ratio]  # Of the others' times to its own.
    simulated: bool
    differences: dict[str, str]  # By the arm's name, what a run printed instead.
    nothing: str                 # As Output.nothing() says, of the run that did not count.
    masked: str                  # As Output.masked() says.
    stopped: int = 0             # The signal that ended it early.


def run_all(command: Sequence[str], plans: Sequence[Plan], folder: str, limits: race.Limits,
            output: Output, kept: bool) -> Comparison:
    """Runs the plans by turns, after a bare run that does not count; their files are below
    folder/NAME, for others than zc if they are `kept`.  Ends early, with the runs so far, where a
    signal was passed on.  Raises OSError where the program can't be started."""
    trials = trial.Trials(command, folder, kept)
    contest = race.Race(trials, plans, limits, once=lambda contest: contest.simulated)
    differences: dict[str, str] = {}
    with Progress("", len(plans) * (limits.rounds or race.TIGHT_ROUNDS)) as bar:
        bar.say(f"warm-up: {plans[0].name}")
        first = trials.run(plans[0], trial.WARM_UP)
        bar.tell(promise(limits, len(plans), first.ended.wall_ns / 1e9))
        until = time.monotonic() + limits.expected_s(len(plans), first.ended.wall_ns / 1e9)[1]

        def before(number: int, plan: Plan) -> None:
            bar.say(f"round {number}: {plan.name}", max(until - time.monotonic(), 0))

        def after(arm: Arm) -> bool:
            bar.add(1)
            last = arm.runs[-1]
            if arm.plan.env is None:
                output.learn(first.output, last.output)
            output.any_order |= len(last.processes) > 1
            if last.status and not last.ended.passed_on:
                bar.clear()
                _say_failure(arm)
            return last.status == 0

        if not first.ended.passed_on:
            contest.go(before, after)
    stopped = first.ended.passed_on or _drop_unfinished(contest.arms)
    if not contest.arms[0].runs:
        contest.arms[0].runs.append(first)
    ran = [arm for arm in contest.arms if arm.runs]
    # Behind all bare runs, because what differs in any of them may differ.
    for arm in ran:
        other = next((run for run in arm.runs if not output.same(first.output, run.output)), None)
        arm.same = other is None
        if other is not None:
            differences[arm.name] = output.difference(first.output, other.output)
    return Comparison(ran, [contest.ratio(arm) for arm in ran[1:]], contest.simulated,
                      differences, output.nothing(first.output), output.masked(), stopped)


def promise(limits: race.Limits, arms: int, run_s: float) -> str:
    """How long it will take, after the first run; and what may be done about it."""
    least, most = limits.expected_s(arms, run_s)
    to = f" to {units.about(most)}" if units.about(most) != units.about(least) else ""
    fewer = f" (--runs 1: {units.about(arms * run_s)})" if limits.rounds is None else ""
    return (f"one run takes {units.about(run_s)}, all of them {units.about(least)}{to}{fewer}; "
            "Ctrl-C shows what is known by then")


def _drop_unfinished(arms: Sequence[Arm]) -> int:
    """Leaves the run out that a signal ended; the signal, 0 for none."""
    for arm in arms:
        if arm.runs and arm.runs[-1].ended.passed_on:
            return arm.runs.pop().ended.passed_on
    return 0


def _say_failure(arm: Arm) -> None:
    run = arm.runs[-1]
    why = f"had refused calls ({run.refused.words()})" if run.refused.calls else \
        f"ended with status {run.status}"
    screen.message(f"run '{arm.name}' {why}; its last messages:")
    for line in run.last_words(LAST_LINES):
        print(f"  {names.shown(line.rstrip())}", file=sys.stderr)


def times_ns(arm: Arm) -> list[int]:
    return [run.ended.wall_ns for run in arm.runs]


def _range(ratio: spread.Ratio) -> str:
    """The interval in per cent: `54..58 %`; `99.6..99.9 %` where it is narrow."""
    if not math.isfinite(ratio.high):
        return "-"
    digits = 0 if ratio.high - ratio.low >= spread.TIGHT_WIDTH else 1
    return f"{100 * ratio.low:.{digits}f}..{100 * ratio.high:.{digits}f} %"


def lines(result: Comparison, width: int | None, kept: bool) -> list[str]:
    """The table of the runs, and what it comes to in words.  It tells of the links where they were
    measured.  `kept`: the files of the runs stay."""
    measured = any(arm.runs[0].totals.links.devices for arm in result.arms)
    columns = [table.text("Run", least=0), *map(table.Column, (
        "Exit", "Runs", "Time", "Least", "Most", "Of bare", "95 % sure", "Count", "Asked", "Moved",
        "CPU copied", "Elided", "Blocked", "Device peak"))]
    if measured:
        columns += [table.Column("Link to"), table.Column("Link from")]
    columns.append(table.text("Output", least=0))
    rows = []
    bare = int(statistics.median(times_ns(result.arms[0])))
    for at, arm in enumerate(result.arms):
        times = times_ns(arm)
        time = int(statistics.median(times))
        same = "" if at == 0 and arm.same else "same" if arm.same else "differs"
        refused = sum(run.refused.calls for run in arm.runs)
        if refused:
            same += f", {refused} refused"
        rows.append((arm.name, arm.status, len(times), units.duration(time),
                     units.duration(min(times)), units.duration(max(times)),
                     units.percent(time, bare), _range(result.ratios[at - 1]) if at else "-",
                     *_counted(arm), *(_links(arm.runs[0].totals) if measured else ()), same))
    return _table(columns, rows, width) + ["", *(
        line for text in _verdict(result, kept) for line in names.wrap("", text, width))]


def _table(columns: list[table.Column], rows: list[tuple], width: int | None) -> list[str]:
    """A run a row, or where that is too wide a run a column."""
    if table.fits(columns, rows, width):
        return table.render(columns, rows, width)
    turned = [[column.heading, *cells] for column, cells in zip(columns[1:], list(zip(*rows))[1:])]
    return table.render([table.text(columns[0].heading, least=0),
                         *(table.Column(str(row[0])) for row in rows)], turned, width)


def _counted(arm: Arm) -> tuple[str, ...]:
    """The counts of libzc in the first run, and how long calls blocked in the median; nothing in a
    bare run."""
    totals = arm.runs[0].totals
    if not totals.processes:
        return ("-",) * 7
    counts = totals.counts
    blocked = int(statistics.median(run.totals.counts.blocked_ns for run in arm.runs))
    return (units.count(counts.asked_calls), units.size(counts.asked_bytes),
            units.size(counts.moved_bytes), units.size(counts.cpu_copied_bytes),
            units.size(counts.elided_bytes), units.duration(blocked),
            units.size(totals.peak("device")))


def _links(totals: Totals) -> tuple[str, str]:
    """The bytes over the links by hardware counter, to the devices and from them."""
    if not totals.links.devices:
        return "-", "-"
    return units.size(totals.links.to_device), units.size(totals.links.from_device)


def _verdict(result: Comparison, kept: bool) -> list[str]:
    """Whether the policies kept the program's output, and what they did to its time."""
    said = [_outputs(result, kept)]
    if result.stopped:
        said.insert(0, f"Stopped by signal {result.stopped}: this is what was known by then.")
    if any(arm.status for arm in result.arms):
        return said
    if result.simulated:
        return [*said, SIMULATED]
    return said + [_faster(arm.name, len(arm.runs), ratio)
                   for arm, ratio in zip(result.arms[1:], result.ratios)]


def _outputs(result: Comparison, kept: bool) -> str:
    for arm in result.arms:
        refused = Refusals.of(run.refused for run in arm.runs)
        if refused.calls:
            return f"Run '{arm.name}': {refused.words()}."
    if any(arm.status for arm in result.arms):
        return "Not all runs ended with status 0."
    if sum(len(arm.runs) for arm in result.arms) < 2:
        return "There was one run at most, so no results were compared."
    differing = next((arm for arm in result.arms if arm.same is False), None)
    if differing is None:
        if result.nothing:
            return (f"The runs printed {result.nothing}, so this can't tell whether the policies "
                    "keep the results.")
        return "All runs printed the same" + (
            f", but for {result.masked}, which differ between bare runs, too (--strict compares "
            "them)." if result.masked else ".")
    words = result.differences[differing.name]
    if differing is result.arms[0]:
        return (f"The bare runs already print different things ({words}), so this can't tell "
                "whether the policies keep the output: name what may differ by --ignore REGEX")
    files = (f"diff {shlex.quote(result.arms[0].runs[0].output)} "
             f"{shlex.quote(differing.runs[0].output)}" if kept
             else "with -o DIR their outputs stay, to be compared")
    return f"Not all runs printed the same ({words}): {files}"


def _faster(name: str, runs: int, ratio: spread.Ratio) -> str:
    """The effect of a policy on the time, where that is more than noise."""
    if not math.isfinite(ratio.high):
        return (f"'{name}': {runs} {'run says' if runs == 1 else 'runs say'} nothing of the time; "
                f"{spread.LEAST_RUNS} are the least.")
    if not ratio.differs:
        return (f"'{name}': no significant difference to bare "
                f"({_range(ratio)} of its time, 95 % sure).")
    change = abs(1 - ratio.value)
    return (f"'{name}' takes {100 * change:.{0 if change >= 0.095 else 1}f} % "
            f"{'less' if ratio.value < 1 else 'more'} time than bare "
            f"({_range(ratio)} of its time, 95 % sure).")
