# SPDX-License-Identifier: MIT
"""Bytes over time: those of a call spread over the time that it took."""

from __future__ import annotations

from typing import Hashable

from .buckets import Buckets


class Timeline(Buckets[int]):
    """Bytes of each series."""

    @staticmethod
    def _joined(left: int | None, right: int | None) -> int:
        return (left or 0) + (right or 0)

    def add(self, start_ns: int, end_ns: int, series: Hashable, size: int) -> None:
        """Adds bytes, in equal parts over the time from start to end, which may be one."""
        width = self.width_ns
        at = end_ns // width
        bucket = self._buckets.get(at)
        if bucket is not None and series in bucket and start_ns // width == at:
            bucket[series] += size  # Nearly always.
            return
        if not (self._buckets and self._first <= start_ns // width and at <= self._last):
            self._reach(start_ns, end_ns)
            width = self.width_ns
            at = end_ns // width
        if start_ns // width == at:
            self._put(end_ns, series, size)
            return
        time, done, passed = end_ns - start_ns, 0, start_ns
        # The buckets may become wider on the way.
        while passed < end_ns:
            next_ns = min((passed // self.width_ns + 1) * self.width_ns, end_ns)
            upto = size * (next_ns - start_ns) // time
            self._put(passed, series, upto - done)
            done, passed = upto, next_ns

    def _put(self, time_ns: int, series: Hashable, size: int) -> None:
        bucket = self._bucket(time_ns)
        if series in bucket:
            bucket[series] += size
        else:
            bucket[series] = size
            self._values += 1

    def series(self) -> list[Hashable]:
        """The series, that with the most bytes first."""
        sums: dict[Hashable, int] = {}
        for bucket in self._buckets.values():
            for name, size in bucket.items():
                sums[name] = sums.get(name, 0) + size
        return sorted(sums, key=lambda name: (-sums[name], str(name)))

    def rows(self) -> list[tuple[int, dict[Hashable, int]]]:
        """The start of each bucket in Unix nanoseconds, and its bytes by series, empty ones
        included."""
        first = self._first * self.width_ns
        return [(first + i * self.width_ns, row) for i, row in enumerate(self._rows())]
