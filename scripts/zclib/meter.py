# SPDX-License-Identifier: MIT
"""Copies of this very process between two points, by its own counters: for notebooks and tests.

The counters are of all threads.  Before CUDA, and without libzc, all is 0.
"""

from __future__ import annotations

import collections
import os
from typing import NamedTuple

from . import counters, live
from .counters import NOT_COPIES, PAGEABLE


class Reading(NamedTuple):
    """Counts of copies."""

    amounts: collections.Counter[str]                   # By the names of gate.METRICS.
    flows: collections.Counter[tuple[str, str, str]]    # Asked bytes: direction, from, to.


NOTHING = Reading(collections.Counter(), collections.Counter())
# Names of gate.METRICS, and of the counters' fields.
FIELDS = {"asked": "asked_bytes", "moved": "moved_bytes", "copied": "cpu_copied_bytes",
          "elided": "elided_bytes", "copies": "asked_calls", "blocked": "blocked_ns"}


class Meter:
    """Reads the counters twice."""

    def __init__(self) -> None:
        self._words = counters.Words()
        self._path: str | None = None   # Of the counters file, which comes with CUDA.
        self._before = NOTHING

    def begin(self) -> None:
        self._before = self._read()

    def since(self) -> Reading:
        """The copies since begin()."""
        now = self._read()
        return Reading(now.amounts - self._before.amounts, now.flows - self._before.flows)

    def _read(self) -> Reading:
        try:
            self._path = self._path or live.mapped_by(os.getpid())
            if self._path is None:
                return NOTHING
            flows, kinds = counters.Counters(self._path, self._words).flows()
        except (OSError, counters.CountersError):
            return NOTHING
        reading = Reading(collections.Counter(), collections.Counter())
        for flow in flows:
            if flow["dir"] not in NOT_COPIES:
                reading.amounts.update({name: flow[field] for name, field in FIELDS.items()})
                reading.flows[flow["dir"], flow["src_kind"], flow["dst_kind"]] = flow["asked_bytes"]
        reading.amounts["pageable"] = sum(
            row["bytes"] for row in kinds if row["dir"] not in NOT_COPIES
            and PAGEABLE in (row["src_kind"], row["dst_kind"]))
        return reading
