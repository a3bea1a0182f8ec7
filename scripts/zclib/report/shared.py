# SPDX-License-Identifier: MIT
"""Blocks in the place `shared`: how they paired and what sharing cost, by their sites."""

from __future__ import annotations

from typing import Any

from ..logs import Record, number, string

COUNTS = ("elided_copies", "elided_bytes", "parted_pages", "merged_pages", "faults", "fault_ns",
          "conflicts")
MOST_WHYS = 8  # Of the reasons why blocks have no partner, this many are kept.


class Shared:
    """The sums of a site's blocks."""

    __slots__ = ("blocks", "cold", "whys", *COUNTS)

    def __init__(self) -> None:
        self.blocks = 0
        self.cold = 0                     # Sharing was given up.
        self.whys: dict[str, int] = {}    # Blocks that never had a host block, by the reason.
        self.elided_copies = self.elided_bytes = self.parted_pages = self.merged_pages = 0
        self.faults = self.fault_ns = self.conflicts = 0

    def add_pair(self, record: Record) -> None:
        """Adds a `pair` line."""
        self.blocks += 1
        self.cold += record.get("cold") is True
        why = string(record, "why")
        if why and (why in self.whys or len(self.whys) < MOST_WHYS):
            self.whys[why] = self.whys.get(why, 0) + 1
        self._add_counts(record)

    def add_sums(self, record: Record) -> None:
        """Adds the sums that a summary has, where there are no `pair` lines."""
        self.blocks += number(record, "pairs")
        self._add_counts(record)

    def _add_counts(self, record: Record) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + number(record, name))

    def add(self, other: Shared) -> None:
        for name in ("blocks", "cold", *COUNTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for why, times in other.whys.items():
            if why in self.whys or len(self.whys) < MOST_WHYS:
                self.whys[why] = self.whys.get(why, 0) + times

    def as_dict(self) -> dict[str, Any]:
        return {"blocks": self.blocks, "cold": self.cold,
                "without_host_block": sum(self.whys.values()), "whys": self.whys,
                **{name: getattr(self, name) for name in COUNTS}}
