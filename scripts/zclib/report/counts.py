# SPDX-License-Identifier: MIT
"""Calls and bytes by outcome, as the log counts them (docs/log.md, "What the counts mean")."""

from __future__ import annotations

from ..logs import Record, number


NOTHING = (0,) * 7


class Counts:
    """Copies that were asked for, and their fate; all fields are sums."""

    __slots__ = ("moved_calls", "moved_bytes", "cpu_copied_calls", "cpu_copied_bytes",
                 "elided_calls", "elided_bytes", "blocked_ns")

    def __init__(self, *values: int) -> None:
        """Zeros, or the values of all fields in their order."""
        (self.moved_calls, self.moved_bytes, self.cpu_copied_calls, self.cpu_copied_bytes,
         self.elided_calls, self.elided_bytes, self.blocked_ns) = values or NOTHING

    def __reduce__(self) -> tuple:
        """For pickle, which else writes every field's name; there are thousands of these."""
        return Counts, (self.moved_calls, self.moved_bytes, self.cpu_copied_calls,
                        self.cpu_copied_bytes, self.elided_calls, self.elided_bytes,
                        self.blocked_ns)

    @property
    def asked_calls(self) -> int:
        return self.moved_calls + self.cpu_copied_calls + self.elided_calls

    @property
    def asked_bytes(self) -> int:
        return self.moved_bytes + self.cpu_copied_bytes + self.elided_bytes

    @property
    def each_bytes(self) -> int:
        """Bytes asked for in a call on average; damaged logs may have bytes without calls."""
        return self.asked_bytes // max(self.asked_calls, 1)

    def add(self, other: Counts) -> None:
        self.moved_calls += other.moved_calls
        self.moved_bytes += other.moved_bytes
        self.cpu_copied_calls += other.cpu_copied_calls
        self.cpu_copied_bytes += other.cpu_copied_bytes
        self.elided_calls += other.elided_calls
        self.elided_bytes += other.elided_bytes
        self.blocked_ns += other.blocked_ns

    def add_record(self, record: Record) -> None:
        """Adds the fields of a row of the log."""
        self.add(Counts(*[number(record, name) for name in Counts.__slots__]))

    def add_transfer(self, outcome: str, size: int, blocked_ns: int) -> None:
        """Adds one transfer."""
        self.add_transfers(outcome, 1, size, blocked_ns)

    def add_transfers(self, outcome: str, calls: int, size: int, blocked_ns: int) -> None:
        """Adds transfers, of `size` bytes together; an outcome of a later version counts as moved,
        so none is lost."""
        if outcome == "cpu_copied":
            self.cpu_copied_calls += calls
            self.cpu_copied_bytes += size
        elif outcome == "elided":
            self.elided_calls += calls
            self.elided_bytes += size
        else:
            self.moved_calls += calls
            self.moved_bytes += size
        self.blocked_ns += blocked_ns

    def as_dict(self) -> dict[str, int]:
        """The fields under the names that the log gives them."""
        out = {"asked_calls": self.asked_calls, "asked_bytes": self.asked_bytes}
        out.update((name, getattr(self, name)) for name in Counts.__slots__)
        return out
