# SPDX-License-Identifier: MIT
"""The report in one sentence: how much of the run is copies, and what the best rule may save."""

from __future__ import annotations

from typing import Sequence

from .. import units
from .findings import Finding, try_first
from .totals import Totals


def headline(totals: Totals, findings: Sequence[Finding]) -> str:
    """The sentence, or two or three."""
    copies = totals.counts
    if not copies.asked_calls:
        command = try_first(totals, findings)
        return _nothing(totals) + (f" First try `{command}`." if command else "")
    text = f"{_share(totals)}: {units.size(copies.asked_bytes)} in " \
           f"{units.count(copies.asked_calls)} {'copy' if copies.asked_calls == 1 else 'copies'}"
    not_moved = copies.asked_bytes - copies.moved_bytes
    if not_moved:
        text += f", {units.percent(not_moved, copies.asked_bytes)} of which the driver did not " \
                "have to move"
    return f"{text}. {_best(totals, findings)}"


def _nothing(totals: Totals) -> str:
    """A program that copied nothing may have ended before it could."""
    used = any(process.peaks for process in totals.processes) or totals.counts.moved_calls
    return "The program copied nothing between host and device" + \
        ("." if used else ", and asked for no memory that libzc sees.")


def _share(totals: Totals) -> str:
    blocked, wall = totals.counts.blocked_ns, totals.wall_ns
    if not wall:
        return f"Copies blocked the program for {units.duration(blocked)}"
    if blocked > wall:  # Threads wait side by side.
        return f"Copies blocked threads for {units.duration(blocked)} in a run of " \
               f"{units.duration(wall)}"
    return f"{units.duration(blocked)} of {units.duration(wall)} are copies"


def _best(totals: Totals, findings: Sequence[Finding]) -> str:
    """No rule saves more than the copies that it is about took."""
    for finding in findings:
        if finding.command:
            return _everyday(totals, finding, try_first(totals, findings))
    ranked = [(finding.weight, -number) for number, finding in enumerate(findings, 1)
              if finding.rule]
    if not ranked:
        return "No rule is proposed."
    most, number = max(ranked)
    if not most:
        return f"The rule to try first is that of finding {-number}."
    of_run = f" ({units.of_run(most, totals.wall_ns)})" if totals.wall_ns else ""
    return f"The best rule to try, that of finding {-number}, can save {units.duration(most)} " \
           f"at most{of_run}."


def _everyday(totals: Totals, finding: Finding, command: str) -> str:
    """The saving of the preset, by the rates of this machine or, where these were not measured, by
    those of one H200 (costs.py)."""
    if not finding.estimate_ns:
        return f"First try `{command}`."
    simulated = " of simulated time" if totals.simulated else ""
    return f"`everyday` saves about {units.duration(finding.estimate_ns)}{simulated}: " \
           f"`{command}`."
