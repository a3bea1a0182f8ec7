# SPDX-License-Identifier: MIT
"""Pageable memory by what it is: heap, mappings, stacks, variables (docs/log.md, `pageable`)."""

from __future__ import annotations

from typing import NamedTuple

from ..logs import Record, number, string
from .counts import Counts


class Side(NamedTuple):
    """Memory of one kind as one side of copies."""

    memory: str  # "heap", "file", ...
    side: str    # "src" or "dst".


class MemorySum:
    """Copies from or to memory of one kind.  What the driver did not move as pageable memory counts
    as copied by the CPU, whoever moved it."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = Counts()

    def add(self, other: MemorySum) -> None:
        self.counts.add(other.counts)

    def add_record(self, record: Record) -> None:
        """Adds a row of the log's summary."""
        calls, asked = number(record, "asked_calls"), number(record, "asked_bytes")
        moved = number(record, "moved_bytes")
        self.counts.add(Counts(calls, moved, 0, asked - moved, 0, 0, number(record, "blocked_ns")))

    def as_dict(self) -> dict[str, int]:
        """Under the names that the log gives them."""
        counts = self.counts
        return {"asked_calls": counts.asked_calls, "asked_bytes": counts.asked_bytes,
                "moved_bytes": counts.moved_bytes, "blocked_ns": counts.blocked_ns}


def side_of(record: Record) -> Side:
    """The memory and the side of a row of the log's summary."""
    return Side(string(record, "memory", "?"), string(record, "side", "?"))


def add_sums(into: dict[Side, MemorySum], other: dict[Side, MemorySum]) -> None:
    """Adds sums key by key."""
    for key, one in other.items():
        into.setdefault(key, MemorySum()).add(one)
