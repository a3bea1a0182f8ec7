# SPDX-License-Identifier: MIT
"""Blocks in the place `shared`: what lay behind them and what sharing saved, by their sites."""

from __future__ import annotations

from typing import Any

from ..logs import Record, number, string
from .tally import by_count, count_name

COUNTS = ("elided_copies", "elided_bytes", "copied_bytes")


class Shared:
    """The sums of a site's blocks."""

    __slots__ = ("blocks", "one", "whys", *COUNTS)

    def __init__(self) -> None:
        self.blocks = 0
        self.one = 0                      # One with a host block to the end.
        self.whys: dict[str, int] = {}    # The others, by the reason.
        self.elided_copies = self.elided_bytes = self.copied_bytes = 0

    def add_pair(self, record: Record) -> None:
        """Adds a `pair` line."""
        self.blocks += 1
        self.one += string(record, "backing") == "one"
        why = string(record, "why")
        if why:
            count_name(self.whys, why, 1)
        self._add_counts(record)

    def add_sums(self, record: Record) -> None:
        """Adds the sums that a summary has, where there are no `pair` lines."""
        self.blocks += number(record, "pairs")
        self._add_counts(record)

    def _add_counts(self, record: Record) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + number(record, name))

    def add(self, other: Shared) -> None:
        for name in ("blocks", "one", *COUNTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for why, times in other.whys.items():
            count_name(self.whys, why, times)

    def as_dict(self) -> dict[str, Any]:
        return {"blocks": self.blocks, "one": self.one, "whys": by_count(self.whys),
                **{name: getattr(self, name) for name in COUNTS}}
