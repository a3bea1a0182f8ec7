"""Migrations and page faults of managed memory, as CUPTI counted them in the processes."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import units
from ..logs import Record, string

MOST_WHYS = 8  # Of the reasons why nothing was measured, this many are kept.


class Kind(NamedTuple):
    """One of CUPTI's counters."""

    field: str   # In the log and in the report's JSON.
    words: str   # Behind the number.
    unit: str    # "bytes" or "count".


KINDS = (Kind("htod_bytes", "HtoD", "bytes"), Kind("dtoh_bytes", "DtoH", "bytes"),
         Kind("cpu_faults", "CPU faults", "count"),
         Kind("gpu_fault_groups", "GPU fault groups", "count"))


class Unified:
    """The sums over the processes whose summaries tell of managed memory."""

    def __init__(self) -> None:
        self.measured = 0                 # Processes by whether CUPTI counted in them.
        self.not_measured = 0
        self.whys: dict[str, int] = {}    # Processes where it did not, by the reason.
        self.sums: dict[str, int] = {}    # By field; what no process reported is missing.

    def take(self, summary: Record) -> None:
        """Takes a `summary` record; most have nothing of managed memory."""
        told = summary.get("unified_memory")
        if not isinstance(told, dict):
            return
        if told.get("measured") is not True:
            self.not_measured += 1
            self._count_why(string(told, "why", "no reason is given"), 1)
            return
        self.measured += 1
        for kind in KINDS:
            if type(told.get(kind.field)) is int:  # Else null, or damaged: unknown, not 0.
                self.sums[kind.field] = self.sums.get(kind.field, 0) + told[kind.field]

    def _count_why(self, why: str, times: int) -> None:
        if why in self.whys or len(self.whys) < MOST_WHYS:
            self.whys[why] = self.whys.get(why, 0) + times

    def add(self, other: Unified) -> None:
        self.measured += other.measured
        self.not_measured += other.not_measured
        for why, times in other.whys.items():
            self._count_why(why, times)
        for field, value in other.sums.items():
            self.sums[field] = self.sums.get(field, 0) + value

    def as_dict(self) -> dict[str, Any] | None:
        """None where no process tells of managed memory; null for what was not reported."""
        if not self.measured and not self.not_measured:
            return None
        return {"measured": self.measured, "not_measured": self.not_measured, "whys": self.whys,
                **{kind.field: self.sums.get(kind.field) for kind in KINDS}}


def sentence(told: dict[str, Any] | None) -> str | None:
    """The object of as_dict() in words; None where there is nothing to say."""
    if told is None:
        return None
    reasons = ", ".join(told["whys"])
    if not told["measured"]:
        return f"unified memory: not measured: {reasons}"
    values = [f"{shown(told[kind.field], kind.unit)} {kind.words}" for kind in KINDS
              if told[kind.field] is not None]
    counted = f"at least {', '.join(values)}" if values else "nothing was reported"
    missing = told["not_measured"]
    return f"unified memory: {counted}" + (
        f"; not measured in {missing} of {missing + told['measured']} processes: {reasons}"
        if missing else "")


def shown(value: int, unit: str) -> str:
    """A size or a number."""
    return units.size(value) if unit == "bytes" else str(value)
