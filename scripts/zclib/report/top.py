# SPDX-License-Identifier: MIT
"""The greatest of many things, in memory for those few."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Top(Generic[Item]):
    """Keeps the `most` items of the highest rank; of equal ranks those that came first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, Item]] = []
        self._order = 0
        self.offered = 0  # How many there were.

    def offer(self, rank: int, item: Item) -> None:
        self.offered += 1
        self._order += 1
        entry = (rank, -self._order, item)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        elif self._heap and entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def merge(self, other: Top[Item]) -> None:
        """Offers what another one holds."""
        for rank, _, item in sorted(other._heap, reverse=True):
            self.offer(rank, item)
        self.offered += other.offered - len(other._heap)

    def items(self) -> list[Item]:
        """The highest rank first."""
        return [item for _, _, item in sorted(self._heap, reverse=True)]
