# SPDX-License-Identifier: MIT
"""Values over time, in bounded memory: buckets that widen as the time or what is in them grows."""

from __future__ import annotations

from typing import Generic, Hashable, TypeVar

Value = TypeVar("Value")

FIRST_WIDTH_NS = 1_000
MOST_BUCKETS = 2048
MOST_VALUES = 40_000  # Of all buckets together.


class Buckets(Generic[Value]):
    """A value of each key in buckets of equal width.  Times may come in any order."""

    def __init__(self, width_ns: int = FIRST_WIDTH_NS, most: int = MOST_BUCKETS) -> None:
        self.width_ns = width_ns
        self._most = most
        self._buckets: dict[int, dict[Hashable, Value]] = {}
        self._first = self._last = 0
        self._values = 0

    @staticmethod
    def _joined(left: Value | None, right: Value | None) -> Value:
        """The value of two buckets that follow one another; None stands for no value."""
        raise NotImplementedError

    def _reach(self, start_ns: int, end_ns: int) -> None:
        """Widens the buckets until there is one for each time from start to end."""
        first, last = start_ns // self.width_ns, end_ns // self.width_ns
        if self._buckets:
            first, last = min(first, self._first), max(last, self._last)
        self._first, self._last = first, last
        while self._last - self._first >= self._most:
            self._widen()

    def _bucket(self, time_ns: int) -> dict[Hashable, Value]:
        """The bucket of a time that _reach() was called for."""
        if self._values > MOST_VALUES and self._last > self._first:
            self._widen()
        return self._buckets.setdefault(time_ns // self.width_ns, {})

    def _widen(self) -> None:
        self.width_ns *= 2
        self._first //= 2
        self._last //= 2
        wide: dict[int, dict[Hashable, Value]] = {}
        for at in sorted(self._buckets):
            into = wide.setdefault(at // 2, {})
            bucket = self._buckets[at]
            for key in {**into, **bucket}:
                into[key] = self._joined(into.get(key), bucket.get(key))
        self._buckets = wide
        self._values = sum(map(len, wide.values()))

    def merge(self, other: Buckets[Value]) -> None:
        """Adds what another one holds.  The width is the least that both have room in, so it is the
        same in whatever order many are merged."""
        if not other._buckets:
            return
        while self.width_ns < other.width_ns:
            self._widen()
        self._reach(other._first * other.width_ns, (other._last + 1) * other.width_ns - 1)
        for at, bucket in other._buckets.items():
            into = self._buckets.setdefault(at * other.width_ns // self.width_ns, {})
            for key, value in bucket.items():
                into[key] = self._joined(into.get(key), value)
        self._values = sum(map(len, self._buckets.values()))
        while self._values > MOST_VALUES and self._last > self._first:
            self._widen()

    @property
    def start_ns(self) -> int | None:
        """When the first bucket begins; None without values."""
        return self._first * self.width_ns if self._buckets else None

    def _rows(self) -> list[dict[Hashable, Value]]:
        """Every bucket from the first to the last, the empty ones included."""
        if not self._buckets:
            return []
        return [self._buckets.get(at, {}) for at in range(self._first, self._last + 1)]
