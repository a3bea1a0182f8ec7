# SPDX-License-Identifier: MIT
"""Copies in each range that the program names, by NVTX or zc.h."""

from __future__ import annotations

from typing import Any

from .counts import Counts
from .tally import OTHERS, beyond

MOST_RANGES = 1000
OUTSIDE = ""        # The range of calls outside of ranges.


class RangeSum:
    """The requests and copies of one range, over all threads and processes."""

    __slots__ = ("requests", "requested_bytes", "counts")

    def __init__(self) -> None:
        self.requests = self.requested_bytes = 0
        self.counts = Counts()

    def add(self, other: RangeSum) -> None:
        self.requests += other.requests
        self.requested_bytes += other.requested_bytes
        self.counts.add(other.counts)

    def as_dict(self) -> dict[str, Any]:
        return {"requests": self.requests, "requested_bytes": self.requested_bytes,
                **self.counts.as_dict()}


class Ranges:
    """All of a log, or of several."""

    def __init__(self) -> None:
        self.sums: dict[str, RangeSum] = {}

    def of(self, name: str) -> RangeSum:
        """The sums of one, which are those of all others beyond the bound."""
        if name not in self.sums and name != OUTSIDE and len(self.sums) >= MOST_RANGES:
            name = OTHERS
        return self.sums.setdefault(name, RangeSum())

    def add_request(self, name: str, size: int) -> None:
        one = self.of(name)
        one.requests += 1
        one.requested_bytes += size

    def finish(self, copies: Counts) -> None:
        """Ends a log, all of whose copies are given: the rest was outside."""
        if not any(name != OUTSIDE for name in self.sums):
            self.sums.clear()
            return
        inside = Counts()
        for one in self.sums.values():
            inside.add(one.counts)
        outside = self.sums.setdefault(OUTSIDE, RangeSum())
        outside.counts = Counts(*(getattr(copies, name) - getattr(inside, name)
                                  for name in Counts.__slots__))
        if not outside.requests and not outside.counts.asked_calls:
            del self.sums[OUTSIDE]

    def add(self, other: Ranges) -> None:
        for name, one in other.sums.items():
            self.sums.setdefault(name, RangeSum()).add(one)

    def settle(self) -> None:
        """Brings those beyond the bound together."""
        for name in beyond(self.sums, MOST_RANGES):
            self.sums.setdefault(OTHERS, RangeSum()).add(self.sums.pop(name))

    def rows(self, key: str) -> list[dict[str, Any]]:
        """As data, by the attribute `key` of Counts."""
        return [{"range": name or None, **one.as_dict()} for name, one in sorted(
            self.sums.items(), key=lambda item: (-getattr(item[1].counts, key),
                                                 -item[1].requested_bytes, item[0]))]
