# SPDX-License-Identifier: MIT
"""Memory over time: how much lay in each place at most, from allocations and frees."""

from __future__ import annotations

from typing import Hashable, NamedTuple

from .buckets import Buckets


class Step(NamedTuple):
    """The next value of a level within a bucket, from the last one."""

    net: int   # At its end.
    rise: int  # At its highest.


STILL = Step(0, 0)


class Levels(Buckets[Step]):
    """A level for each place, which begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now: dict[Hashable, int] = {}
        self._sums = False  # Of several processes.

    @staticmethod
    def _joined(left: Step | None, right: Step | None) -> Step:
        before, after = left or STILL, right or STILL
        return Step(before.net + after.net, max(before.rise, before.net + after.rise))

    def add(self, time_ns: int, place: str, change: int) -> None:
        """Changes the level of a place."""
        self._now[place] = self._now.get(place, 0) + change
        self._reach(time_ns, time_ns)
        self._put(time_ns, place, Step(change, max(change, 0)))

    def _put(self, time_ns: int, place: Hashable, step: Step) -> None:
        bucket = self._bucket(time_ns)
        self._values += place not in bucket
        bucket[place] = self._joined(bucket.get(place), step)

    def end(self, time_ns: int) -> None:
        """The process has ended, and all its memory is gone."""
        for place, level in list(self._now.items()):
            if level:
                self.add(time_ns, str(place), -level)
        self._now.clear()

    def merge(self, other: Levels) -> None:
        """Adds the levels of another process.  What rose and fell within one bucket is then no
        longer known, because the processes need not have been at their highest together."""
        both = bool(self._buckets and other._buckets)
        self._sums = self._sums or other._sums or both
        super().merge(other)
        if self._sums:
            for bucket in self._buckets.values():
                for place, step in bucket.items():
                    bucket[place] = Step(step.net, 0)

    def peaks(self) -> dict[str, list[int]]:
        """The most bytes in each place in each bucket."""
        rows = self._rows()
        out: dict[str, list[int]] = {}
        for place in sorted({str(place) for row in rows for place in row}):
            level, highest = 0, []
            for row in rows:
                step = row.get(place, STILL)
                rise = max(step.net, 0) if self._sums else step.rise
                highest.append(max(level + rise, 0))
                level += step.net
            out[place] = highest
        return out
