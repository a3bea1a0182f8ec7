# SPDX-License-Identifier: MIT
"""Bytes over the links by hardware counter, beside those that copies moved."""

from __future__ import annotations

from typing import Any

from ..logs import Record, number
from .flow import Flow

# Real directions of copies that go over the link.
TO_DEVICE = ("HtoD", "HtoA")
FROM_DEVICE = ("DtoH", "AtoH")


class LinkLog:
    """The last sums of each device of one recording; they only grow."""

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int, int]] = {}

    def take(self, record: Record) -> tuple[int, int]:
        """Takes a `link` record; returns the bytes to and from the device since the one before."""
        device = number(record, "device")
        sums = (number(record, "to_device_bytes"), number(record, "from_device_bytes"),
                number(record, "late_samples"))
        before = self.last.get(device, (0, 0, 0))
        self.last[device] = sums
        return max(sums[0] - before[0], 0), max(sums[1] - before[1], 0)


class Links:
    """The sums over all recordings."""

    def __init__(self) -> None:
        self.devices = 0
        self.to_device = self.from_device = self.late = 0

    def add(self, other: Links) -> None:
        self.devices += other.devices
        self.to_device += other.to_device
        self.from_device += other.from_device
        self.late += other.late

    def add_log(self, log: LinkLog) -> None:
        """Adds what one recording comes to."""
        for to_device, from_device, late in log.last.values():
            self.devices += 1
            self.to_device += to_device
            self.from_device += from_device
            self.late += late

    def as_dict(self, moved: dict[Flow, list[int]]) -> dict[str, Any] | None:
        """With the copies' part, by the memory's real kinds; None where nothing was measured."""
        if self.devices == 0:
            return None
        return {
            "devices": self.devices, "to_device_bytes": self.to_device,
            "from_device_bytes": self.from_device, "late_samples": self.late,
            "copied_to_device_bytes": _bytes(moved, TO_DEVICE),
            "copied_from_device_bytes": _bytes(moved, FROM_DEVICE),
        }


def _bytes(moved: dict[Flow, list[int]], directions: tuple[str, ...]) -> int:
    return sum(size for flow, (_, size) in moved.items() if flow.dir in directions)
