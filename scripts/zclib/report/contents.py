# SPDX-License-Identifier: MIT
"""What copies carried, and what used device blocks: the sums of logs of the level `deep`."""

from __future__ import annotations

from typing import Any

from ..logs import Record, number, rows, string
from .tally import beyond, by_count, count_name

COUNTS = ("copies", "bytes", "duplicate_copies", "duplicate_bytes", "relaunched_copies",
          "relaunched_bytes", "round_trip_copies", "round_trip_bytes", "changed_copies",
          "changed_bytes", "unused_bytes", "unseen_copies", "unseen_bytes")
MOST_PAIRS = 20_000  # Pairs of sites, and sites, of all processes together.


class Content:
    """The copies of one direction between the blocks of two sites."""

    __slots__ = COUNTS

    def __init__(self) -> None:
        for name in COUNTS:
            setattr(self, name, 0)

    def add_record(self, record: Record) -> None:
        """Adds a `content` line."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + number(record, name))

    def add(self, other: Content) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in COUNTS}


class Use:
    """The device blocks of a site."""

    __slots__ = ("blocks", "size_bytes", "untouched_bytes", "launches", "kernels")

    def __init__(self) -> None:
        self.blocks = self.size_bytes = self.untouched_bytes = self.launches = 0
        self.kernels: dict[str, int] = {}  # Launches by name, "?" for one that is not known.

    def add_record(self, record: Record) -> None:
        """Adds a `use` line."""
        for name in ("blocks", "size_bytes", "untouched_bytes", "launches"):
            setattr(self, name, getattr(self, name) + number(record, name))
        for row in rows(record, "kernels"):
            count_name(self.kernels, string(row, "kernel", "?"), number(row, "launches"))

    def add(self, other: Use) -> None:
        for name in ("blocks", "size_bytes", "untouched_bytes", "launches"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, launches in other.kernels.items():
            count_name(self.kernels, name, launches)

    def as_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in self.__slots__},
                "kernels": by_count(self.kernels)}


class Contents:
    """All of a log, or of several."""

    def __init__(self) -> None:
        # By direction, the host's site ("" for no block) and the device's.
        self.pairs: dict[tuple[str, str, str], Content] = {}
        self.uses: dict[str, Use] = {}

    def __bool__(self) -> bool:
        return bool(self.pairs or self.uses)

    def add_content(self, record: Record) -> None:
        """Takes a `content` line."""
        key = string(record, "dir"), string(record, "host_site"), string(record, "device_site")
        self.pairs.setdefault(key, Content()).add_record(record)

    def add_use(self, record: Record) -> None:
        """Takes a `use` line."""
        self.uses.setdefault(string(record, "site"), Use()).add_record(record)

    def add(self, other: Contents) -> None:
        for key, content in other.pairs.items():
            self.pairs.setdefault(key, Content()).add(content)
        for site, use in other.uses.items():
            self.uses.setdefault(site, Use()).add(use)

    def settle(self) -> None:
        """Leaves out what is beyond the bounds, those first that say least."""
        for table in (self.pairs, self.uses):
            for key in beyond(table, MOST_PAIRS):
                del table[key]

    def changed_sites(self) -> set[str]:
        """Device sites of blocks that came back otherwise than copies had left them."""
        return {device for (_, _, device), content in self.pairs.items() if content.changed_bytes}

    def by_device(self) -> dict[tuple[str, str], Content]:
        """The sums by direction and the device's site."""
        sums: dict[tuple[str, str], Content] = {}
        for (direction, _, device), content in self.pairs.items():
            sums.setdefault((direction, device), Content()).add(content)
        return sums
