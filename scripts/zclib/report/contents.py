# SPDX-License-Identifier: MIT
"""What copies carried: the sums of logs of the level `deep`."""

from __future__ import annotations

from ..logs import Record, number, string
from .tally import beyond

COUNTS = ("copies", "bytes", "duplicate_copies", "duplicate_bytes", "round_trip_copies",
          "round_trip_bytes", "changed_copies", "changed_bytes", "unseen_copies", "unseen_bytes")
MOST_PAIRS = 20_000  # Pairs of sites of all processes together.


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


class Contents:
    """All of a log, or of several."""

    def __init__(self) -> None:
        # By direction, the host's site ("" for no block) and the device's.
        self.pairs: dict[tuple[str, str, str], Content] = {}

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def add_content(self, record: Record) -> None:
        """Takes a `content` line."""
        key = string(record, "dir"), string(record, "host_site"), string(record, "device_site")
        self.pairs.setdefault(key, Content()).add_record(record)

    def add(self, other: Contents) -> None:
        for key, content in other.pairs.items():
            self.pairs.setdefault(key, Content()).add(content)

    def settle(self) -> None:
        """Leaves out what is beyond the bounds, those first that say least."""
        for key in beyond(self.pairs, MOST_PAIRS):
            del self.pairs[key]

    def changed_sites(self) -> set[str]:
        """Device sites of blocks that came back otherwise than copies had left them."""
        return {device for (_, _, device), content in self.pairs.items() if content.changed_bytes}

    def by_device(self) -> dict[tuple[str, str], Content]:
        """The sums by direction and the device's site."""
        sums: dict[tuple[str, str], Content] = {}
        for (direction, _, device), content in self.pairs.items():
            sums.setdefault((direction, device), Content()).add(content)
        return sums
