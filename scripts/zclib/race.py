# SPDX-License-Identifier: MIT
"""Runs several plans by turns, until their difference is known or the time is up.

The order is turned round from one round to the next, so that what grows or shrinks with time, such
as a processor's temperature, falls on all plans alike.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Sequence

from . import spread
from .trial import Arm, Plan, Run, Trials

LEAST_ROUNDS = spread.LEAST_RUNS
TIGHT_ROUNDS = 5   # Intervals of fewer runs may be narrow by chance.
MOST_ROUNDS = 30

Metric = Callable[[Run], float]


def wall(run: Run) -> float:
    """The time of a run from its start to its end, in nanoseconds."""
    return run.ended.wall_ns


@dataclass
class Limits:
    """How long a race may go on."""

    rounds: int | None = None    # Just as many; None: until it is decided.
    seconds: float = 60.0        # No round begins later, LEAST_ROUNDS excepted.
    run_s: float | None = None   # A run that takes longer is killed.

    def expected_s(self, arms: int, run_s: float) -> tuple[float, float]:
        """The least and the most seconds that a race of so many plans takes, whose runs take so
        long."""
        one = arms * run_s
        if self.rounds is not None:
            return self.rounds * one, self.rounds * one
        least = LEAST_ROUNDS * one
        return least, max(least, min(self.seconds, MOST_ROUNDS * one))


class Race:
    """Several plans, the first of which is what the others are compared with."""

    def __init__(self, trials: Trials, plans: Sequence[Plan], limits: Limits,
                 metric: Metric = wall, once: Callable[[Race], bool] | None = None) -> None:
        """`once` says whether one round is enough, because more of them tell nothing more."""
        self.arms = [Arm(plan) for plan in plans]
        self._trials = trials
        self._limits = limits
        self._metric = metric
        self._once = once or (lambda race: False)

    def go(self, before: Callable[[int, Plan], None], after: Callable[[Arm], bool]) -> bool:
        """Runs rounds until that is enough.  Each run is told before and after; where `after`
        returns false, the arm has no more runs.  False where a signal was passed on to a run,
        which ends the race."""
        running = list(self.arms)
        start, number = time.monotonic(), 0
        while self._goes_on(running, number, time.monotonic() - start):
            number += 1
            for arm in running if number % 2 else running[::-1]:
                before(number, arm.plan)
                arm.runs.append(self._trials.run(arm.plan, number, self._limits.run_s))
                good = after(arm)
                if arm.runs[-1].ended.passed_on:
                    return False
                if not good:
                    running = [other for other in running if other is not arm]
        return True

    def _goes_on(self, running: Sequence[Arm], rounds: int, seconds: float) -> bool:
        if rounds == 0:
            return True
        had = min((len(arm.runs) for arm in running), default=0)  # Some may be from before.
        if self._limits.rounds is not None:
            return had < self._limits.rounds and bool(running)
        if self._once(self) or len(running) < 2 or running[0] is not self.arms[0]:
            return False
        if had < LEAST_ROUNDS:
            return True
        if rounds >= MOST_ROUNDS or seconds * (rounds + 1) / rounds > self._limits.seconds:
            return False
        return had < TIGHT_ROUNDS or not all(self.ratio(arm).tight for arm in running[1:])

    @property
    def simulated(self) -> bool:
        """Whether this is a simulated GPU, whose times mean nothing."""
        return any(run.totals.simulated for arm in self.arms for run in arm.runs[:1])

    def values(self, arm: Arm) -> list[float]:
        """The metric of an arm's runs."""
        return [self._metric(run) for run in arm.runs]

    def ratio(self, arm: Arm) -> spread.Ratio:
        """An arm's metric over that of the first one."""
        return spread.ratio(self.values(arm), self.values(self.arms[0]))
