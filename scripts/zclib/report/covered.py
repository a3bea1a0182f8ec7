# SPDX-License-Identifier: MIT
"""Copies that the preset `everyday` changes (policy/presets/everyday.conf)."""

from __future__ import annotations

from ..costs import PARALLEL_LEAST
from .counts import Counts
from .tally import beyond

# Requests and sizes of its rule for arrays.
ARRAY_API = "cuMemAlloc"
ARRAY_LEAST = 2 << 20
# Of a block this share is copied on before it is freed, where an array grows (docs/vmm.md).
GROWN_SHARE = 0.5
MOST_PAIRS = 20_000  # Of call paths whose arrays grow, of all processes together.

# The flows whose copies are made by threads, or find the host's side pinned.
FLOWS = (("HtoD", "Pageable", "Device"), ("DtoH", "Device", "Pageable"))


def is_large(flow: tuple[str, str, str], function: str, size: int) -> bool:
    """Whether threads, or pinned memory, take a copy off the driver's way for pageable memory."""
    return size >= PARALLEL_LEAST and flow in FLOWS and _is_linear(function)


def may_grow(flow: tuple[str, str, str], function: str, size: int) -> bool:
    return size >= GROWN_SHARE * ARRAY_LEAST and flow[0] == "DtoD" and _is_linear(function)


def _is_linear(function: str) -> bool:
    return "2D" not in function and "3D" not in function


class Covered:
    """Sums of such copies, by logs of the level events."""

    __slots__ = ("large", "grown", "again")

    def __init__(self) -> None:
        self.large: dict[str, Counts] = {}              # Of pageable memory, by direction.
        # Copies to larger arrays, before the smaller ones were freed, by the call paths of both.
        self.grown: dict[tuple[str, str], Counts] = {}
        # Those of them between blocks that came after the process's first, which the preset spares.
        self.again = Counts()

    def add_large(self, direction: str, calls: int, size: int, blocked_ns: int) -> None:
        self.large.setdefault(direction, Counts()).add_transfers("moved", calls, size, blocked_ns)

    def add_grown(self, sites: tuple[str, str], size: int, blocked_ns: int, again: bool) -> None:
        self.grown.setdefault(sites, Counts()).add_transfers("moved", 1, size, blocked_ns)
        if again:
            self.again.add_transfers("moved", 1, size, blocked_ns)

    def add(self, other: Covered) -> None:
        for mine, its in ((self.large, other.large), (self.grown, other.grown)):
            for key, counts in its.items():
                mine.setdefault(key, Counts()).add(counts)
        self.again.add(other.again)

    def settle(self) -> None:
        """Leaves out what is beyond the bounds."""
        for sites in beyond(self.grown, MOST_PAIRS):
            del self.grown[sites]
