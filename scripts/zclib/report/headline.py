# SPDX-License-Identifier: MIT
"""The report in one sentence: how much of the run is copies, and what the best rule may save."""

from __future__ import annotations

from typing import Sequence

from .. import units
from .findings import Finding
from .totals import Totals


def headline(totals: Totals, findings: Sequence[Finding]) -> str:
    """The sentence, or two."""
    copies = totals.counts
    if not copies.asked_calls:
        return "The program copied nothing between host and device."
    text = f"{_share(totals)}: {units.size(copies.asked_bytes)} in " \
           f"{units.count(copies.asked_calls)} {'copy' if copies.asked_calls == 1 else 'copies'}"
    not_moved = copies.asked_bytes - copies.moved_bytes
    if not_moved:
        text += f", {units.percent(not_moved, copies.asked_bytes)} of which the driver did not " \
                "have to move"
    return f"{text}. {_best(totals, findings)}"


def _share(totals: Totals) -> str:
    blocked, wall = totals.counts.blocked_ns, totals.wall_ns
    if not wall:
        return f"Copies blocked the program for {units.duration(blocked)}"
    if blocked > wall:  # Threads wait side by side.
        return f"Copies blocked threads for {units.duration(blocked)} in a run of " \
               f"{units.duration(wall)}"
    return f"{units.percent(blocked, wall)} of the run is copies"


def _best(totals: Totals, findings: Sequence[Finding]) -> str:
    """No rule saves more than the copies that it is about took."""
    for number, finding in enumerate(findings, 1):
        if finding.command:
            return (f"The first to try is the preset of finding {number}, `{finding.command}`: it "
                    f"can save {_at_most(totals, finding.weight)}.")
    ranked = [(finding.weight, -number) for number, finding in enumerate(findings, 1)
              if finding.rule]
    if not ranked:
        return "No rule is proposed."
    most, number = max(ranked)
    if not most:
        return f"The rule to try first is that of finding {-number}."
    return f"The best rule to try, that of finding {-number}, can save {_at_most(totals, most)}."


def _at_most(totals: Totals, most: int) -> str:
    of_run = f" ({units.of_run(most, totals.wall_ns)})" if most and totals.wall_ns else ""
    return f"{units.duration(most)} at most{of_run}"
