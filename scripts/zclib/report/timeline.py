# SPDX-License-Identifier: MIT
"""Bytes over time, in bounded memory: buckets that widen as the time grows."""

from __future__ import annotations

FIRST_WIDTH_NS = 1_000_000
MOST_BUCKETS = 512


class Timeline:
    """Bytes of each series in buckets of equal width.  Times may come in any order."""

    def __init__(self, width_ns: int = FIRST_WIDTH_NS, most: int = MOST_BUCKETS) -> None:
        self.width_ns = width_ns
        self._most = most
        self._buckets: dict[int, dict[str, int]] = {}
        self._first = self._last = 0

    def add(self, time_ns: int, series: str, size: int) -> None:
        at = time_ns // self.width_ns
        if not self._buckets:
            self._first = self._last = at
        elif at < self._first or at > self._last:
            self._first, self._last = min(self._first, at), max(self._last, at)
            while self._last - self._first >= self._most:
                self._widen()
            at = time_ns // self.width_ns
        bucket = self._buckets.setdefault(at, {})
        bucket[series] = bucket.get(series, 0) + size

    def merge(self, other: Timeline) -> None:
        """Adds another timeline, whose buckets are at least this one's or become so."""
        while self.width_ns < other.width_ns:
            self._widen()
        for at, bucket in other._buckets.items():
            for series, size in bucket.items():
                self.add(at * other.width_ns, series, size)

    def _widen(self) -> None:
        self.width_ns *= 2
        self._first //= 2
        self._last //= 2
        wide: dict[int, dict[str, int]] = {}
        for at, bucket in self._buckets.items():
            into = wide.setdefault(at // 2, {})
            for series, size in bucket.items():
                into[series] = into.get(series, 0) + size
        self._buckets = wide

    def series(self) -> list[str]:
        """The names of the series, that with the most bytes first."""
        sums: dict[str, int] = {}
        for bucket in self._buckets.values():
            for name, size in bucket.items():
                sums[name] = sums.get(name, 0) + size
        return sorted(sums, key=lambda name: (-sums[name], name))

    def rows(self) -> list[tuple[int, dict[str, int]]]:
        """The start of each bucket in Unix nanoseconds, and its bytes by series, empty ones
        included."""
        if not self._buckets:
            return []
        return [(at * self.width_ns, self._buckets.get(at, {}))
                for at in range(self._first, self._last + 1)]
