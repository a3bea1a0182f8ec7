# SPDX-License-Identifier: MIT
"""Conditions on a run, for tests that are to fail where a program copies more than it did:
`moved > 64M`, `copies > 100`, `blocked > 1.5 s`."""

from __future__ import annotations

import operator
import re
from typing import Callable, NamedTuple

from . import units
from .report.totals import Totals

CONDITION = re.compile(r"\s*([a-z]+)\s*(>=|<=|>|<|==)\s*([0-9.]+)\s*([A-Za-z]*)\s*")
OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
             "==": operator.eq}
BYTES = {"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "KB": 10**3, "M": 1 << 20, "MIB": 1 << 20,
         "MB": 10**6, "G": 1 << 30, "GIB": 1 << 30, "GB": 10**9, "T": 1 << 40, "TIB": 1 << 40,
         "TB": 10**12}
TIMES = {"NS": 1, "US": 10**3, "MS": 10**6, "S": 10**9, "": 10**9}
CALLS = {"": 1}


class Metric(NamedTuple):
    """A number of a run, with the units of its limits and its form for people."""

    of: Callable[[Totals], int]
    units: dict[str, int]
    shown: Callable[[int], str]


METRICS = {
    "asked": Metric(lambda totals: totals.counts.asked_bytes, BYTES, units.size),
    "moved": Metric(lambda totals: totals.counts.moved_bytes, BYTES, units.size),
    "copied": Metric(lambda totals: totals.counts.cpu_copied_bytes, BYTES, units.size),
    "elided": Metric(lambda totals: totals.counts.elided_bytes, BYTES, units.size),
    "pageable": Metric(lambda totals: sum(process.pageable_moved for process in totals.processes),
                       BYTES, units.size),
    "copies": Metric(lambda totals: totals.counts.asked_calls, CALLS, units.count),
    "blocked": Metric(lambda totals: totals.counts.blocked_ns, TIMES, units.duration),
}


class Condition(NamedTuple):
    """A limit of one metric."""

    text: str
    metric: Metric
    holds: Callable[[int, float], bool]
    limit: float

    def broken_by(self, totals: Totals | None) -> str:
        """How a run meets the condition, in words; "" where it does not.  None: no CUDA."""
        value = self.metric.of(totals) if totals is not None else 0
        return f"--fail-if '{self.text}': {self.metric.shown(value)}" \
            if self.holds(value, self.limit) else ""


def condition(text: str) -> Condition:
    """A condition of the command line.  Raises ValueError, which says what is wrong with it."""
    found = CONDITION.fullmatch(text)
    if not found:
        raise ValueError(f"'{text}' is no condition such as 'moved > 64M'")
    name, sign, number, unit = found.groups()
    if name not in METRICS:
        raise ValueError(f"'{text}': there is no '{name}', but {', '.join(METRICS)}")
    metric = METRICS[name]
    if unit.upper() not in metric.units:
        raise ValueError(f"'{text}': '{unit}' is no unit of '{name}'")
    try:
        limit = float(number) * metric.units[unit.upper()]
    except ValueError:
        raise ValueError(f"'{text}': '{number}' is no number") from None
    return Condition(text, metric, OPERATORS[sign], limit)
