# SPDX-License-Identifier: MIT
"""Pageable memory by what it is: heap, mappings, stacks, variables (docs/log.md, `pageable`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..logs import Record, number, rows, string
from .counts import Counts


class Side(NamedTuple):
    """Memory of one kind as one side of copies."""

    memory: str  # "heap", "file", ...
    side: str    # "src" or "dst".


class MemorySum:
    """Copies from or to memory of one kind.  What the driver did not move as pageable memory counts
    as copied by the CPU, whoever moved it."""

    __slots__ = ("counts", "sizes")

    def __init__(self) -> None:
        self.counts = Counts()
        self.sizes: dict[int, int] = {}  # Bytes by size of the copy, a power of two that it has.

    def add(self, other: MemorySum) -> None:
        self.counts.add(other.counts)
        add_sizes(self.sizes, other.sizes)

    def add_record(self, record: Record) -> None:
        """Adds a row of the log's summary."""
        calls, asked = number(record, "asked_calls"), number(record, "asked_bytes")
        moved = number(record, "moved_bytes")
        self.counts.add(Counts(calls, moved, 0, asked - moved, 0, 0, number(record, "blocked_ns")))
        add_sizes(self.sizes, {number(row, "least_bytes"): number(row, "bytes")
                               for row in rows(record, "sizes")})

    def as_dict(self) -> dict[str, Any]:
        """Under the names that the log gives them."""
        counts = self.counts
        return {"asked_calls": counts.asked_calls, "asked_bytes": counts.asked_bytes,
                "moved_bytes": counts.moved_bytes, "blocked_ns": counts.blocked_ns,
                "sizes": [{"least_bytes": size, "bytes": count}
                          for size, count in sorted(self.sizes.items())]}


def side_of(record: Record) -> Side:
    """The memory and the side of a row of the log's summary."""
    return Side(string(record, "memory", "?"), string(record, "side", "?"))


def add_sums(into: dict[Side, MemorySum], other: dict[Side, MemorySum]) -> None:
    """Adds sums key by key."""
    for key, one in other.items():
        into.setdefault(key, MemorySum()).add(one)


def add_sizes(into: dict[int, int], other: dict[int, int]) -> None:
    """Adds bytes by size."""
    for size, count in other.items():
        into[size] = into.get(size, 0) + count


def holding(sizes: dict[int, int], percent: int) -> int:
    """The greatest size such that copies of it and above have this share of all bytes."""
    total, held = sum(sizes.values()), 0
    for size in sorted(sizes, reverse=True):
        held += sizes[size]
        if 100 * held >= percent * total:
            return size
    return 0
