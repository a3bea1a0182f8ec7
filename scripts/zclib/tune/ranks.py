# SPDX-License-Identifier: MIT
"""Several candidates in one job, each on some of its ranks, where all ranks do the same."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Sequence

from .. import race, spread, units
from ..trial import Run
from .candidates import Candidate
from .metrics import Metric

LEAST_ARMS = 3     # A single candidate has all ranks, and one arm has none.
ALIKE = 0.1        # Times of ranks that do the same are within this share of their median,
ALIKE_EXACT = 0.01  # and what has no noise.


@dataclass(frozen=True)
class Group:
    """A member that has one candidate at a time: a rank, or those of a host."""

    key: str               # The match key of rules that takes it,
    name: str              # and its value.
    ranks: tuple[int, ...]

    def value(self, run: Run, metric: Metric) -> float:
        """That of its slowest rank."""
        return max(metric.of(run.ranks[rank]) for rank in self.ranks)


def groups(run: Run, arms: int) -> list[Group]:
    """The hosts of a job where there are enough, since ranks of a host share its link and memory;
    else its ranks."""
    hosts: dict[str, list[int]] = {}
    for rank, processes in run.processes.items():
        hosts.setdefault(processes[0].host, []).append(rank)
    if len(hosts) >= arms:
        return [Group("host", host, tuple(ranks)) for host, ranks in sorted(hosts.items())]
    return [Group("rank", str(rank), (rank,)) for rank in run.processes]


def unlike(run: Run, members: Sequence[Group], metric: Metric) -> str:
    """How groups differ in a run that places nothing; "" where they are alike."""
    values = [one.value(run, metric) for one in members]
    least, most = min(values), max(values)
    if most - least <= (ALIKE_EXACT if metric.exact else ALIKE) * statistics.median(values):
        return ""
    low, high = members[values.index(least)], members[values.index(most)]
    return (f"{metric.words}: {metric.show(least)} of {low.key} {low.name}, {metric.show(most)} of "
            f"{high.key} {high.name}")


class Arms:
    """Candidates that take turns on the groups of a job, and no candidate as one more arm."""

    def __init__(self, candidates: Sequence[Candidate], members: Sequence[Group],
                 metric: Metric) -> None:
        self._candidates = candidates[:len(members) - 1]
        self._members = members
        self._metric = metric
        self._values: list[list[float]] = [[] for _ in range(len(self._candidates) + 1)]
        self._idle: set[int] = set()  # Arms whose rules took nothing somewhere.
        self.jobs = 0

    @property
    def enough(self) -> bool:
        """Whether more jobs tell nothing more: each arm was on each group alike."""
        return self.jobs >= (1 if self._metric.exact else
                             max(race.LEAST_ROUNDS, len(self._values)))

    def _arm(self, member: int) -> int:
        """The index of a member's candidate in the next job; 0 is no candidate."""
        return (member + self.jobs) % len(self._values)

    def placed(self) -> list[Candidate]:
        """The candidates of the next job, each for its groups alone."""
        placed = []
        for at, one in enumerate(self._candidates, 1):
            mine = [group for number, group in enumerate(self._members) if self._arm(number) == at]
            placed.append(replace(one, where=f"{mine[0].key} = "
                                  f"{', '.join(group.name for group in mine)}\n"))
        return placed

    def learn(self, run: Run) -> None:
        """Takes what came of that job."""
        for number, group in enumerate(self._members):
            arm = self._arm(number)
            self._values[arm].append(group.value(run, self._metric))
            rules = self._candidates[arm - 1].rules if arm else {}
            for rank in group.ranks:
                used = {rule for site in run.ranks[rank].totals.sites.values()
                        for rule in site.rules}
                if arm and not used & set(rules):
                    self._idle.add(arm)
        self.jobs += 1

    def results(self) -> list[tuple[Candidate, spread.Ratio, float]]:
        """Each candidate that was used, with its ratio to no candidate and its gain."""
        without, found = self._values[0], []
        for at, one in enumerate(self._candidates, 1):
            values = self._values[at]
            ratio = spread.ratio(values, without)
            if self._metric.exact:
                ratio = spread.Ratio(*[ratio.value] * 3)
            if at not in self._idle:
                found.append((one, ratio, statistics.median(without) - statistics.median(values)))
        return found


def words(run: Run) -> str:
    """`4 ranks on 2 hosts`; "" outside of a job."""
    processes = [one for rank in run.processes.values() for one in rank]
    if not processes:
        return ""
    count, world = len(run.processes), max(process.world for process in processes)
    hosts = len({process.host for process in processes})
    return (f"{units.count(count)}{f' of {world}' if world > count else ''} "
            f"rank{'s' * (max(count, world) > 1)} on {units.count(hosts)} host{'s' * (hosts > 1)}")
