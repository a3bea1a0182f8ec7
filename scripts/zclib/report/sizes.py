# SPDX-License-Identifier: MIT
"""The distribution of the sizes of transfers, in bounded memory."""

from __future__ import annotations

# Programs copy few different sizes, so most medians are exact.  Beyond this many, sizes are
# rounded down to five significant bits, 3 % at most.
MOST_EXACT = 4096
BITS = 5


class Sizes:
    """Count, least, greatest and median of sizes in bytes."""

    __slots__ = ("count", "least", "greatest", "exact", "_seen")

    def __init__(self) -> None:
        self.count = 0
        self.least = 0
        self.greatest = 0
        self.exact = True  # False where the median is rounded.
        self._seen: dict[int, int] = {}

    def add(self, size: int, times: int = 1) -> None:
        if self.count == 0 or size < self.least:
            self.least = size
        if size > self.greatest:
            self.greatest = size
        self.count += times
        key = size if self.exact else _rounded(size)
        self._seen[key] = self._seen.get(key, 0) + times
        if self.exact and len(self._seen) > MOST_EXACT:
            self._round()

    def merge(self, other: Sizes) -> None:
        """Adds another distribution."""
        if other.count == 0:
            return
        self.least = min(self.least, other.least) if self.count else other.least
        self.greatest = max(self.greatest, other.greatest)
        self.count += other.count
        if self.exact and not other.exact:
            self._round()
        for size, times in other._seen.items():
            key = size if self.exact else _rounded(size)
            self._seen[key] = self._seen.get(key, 0) + times
        if self.exact and len(self._seen) > MOST_EXACT:
            self._round()

    def _round(self) -> None:
        self.exact = False
        rounded: dict[int, int] = {}
        for size, times in self._seen.items():
            key = _rounded(size)
            rounded[key] = rounded.get(key, 0) + times
        self._seen = rounded

    def holding(self, percent: int) -> int:
        """The greatest size such that transfers of it and above have this share of all bytes; 0
        without transfers."""
        total = sum(size * times for size, times in self._seen.items())
        held = 0
        for size in sorted(self._seen, reverse=True):
            held += size * self._seen[size]
            if 100 * held >= percent * total:
                return size
        return 0

    def median(self) -> int | None:
        """The size that half of the transfers are not above; None without transfers."""
        if self.count == 0:
            return None
        passed = 0
        for size in sorted(self._seen):
            passed += self._seen[size]
            if 2 * passed >= self.count:
                return max(size, self.least)
        raise AssertionError("the sizes' counts sum up to count")


def _rounded(size: int) -> int:
    shift = max(size.bit_length() - BITS, 0)
    return size >> shift << shift
