# SPDX-License-Identifier: MIT
"""The greatest of many things, in memory for those few."""

from __future__ import annotations

from typing import Generic, TypeVar

Item = TypeVar("Item")


class Top(Generic[Item]):
    """Keeps the `most` items of the highest rank; of equal ranks those of the least order.  What is
    kept does not depend on which was offered first, as far as their orders differ."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: list[tuple[int, tuple, Item]] = []  # Up to twice as many as are kept.
        self._last: tuple[int, tuple] | None = None        # Of those that are kept.
        self.offered = 0  # How many there were.

    def offer(self, rank: int, order: tuple, item: Item) -> None:
        self.offered += 1
        if self._most == 0 or (self._last is not None and (-rank, order) >= self._last):
            return
        self._entries.append((-rank, order, item))
        if len(self._entries) >= 2 * self._most + 16:
            self._cut()

    def _cut(self) -> None:
        self._entries.sort(key=lambda entry: entry[:2])
        del self._entries[self._most:]
        if len(self._entries) == self._most > 0:
            self._last = self._entries[-1][:2]

    def merge(self, other: Top[Item]) -> None:
        """Offers what another one holds."""
        other._cut()
        for rank, order, item in other._entries:
            self.offer(-rank, order, item)
        self.offered += other.offered - len(other._entries)

    def items(self) -> list[Item]:
        """The highest rank first."""
        self._cut()
        return [item for _, _, item in self._entries]
