# SPDX-License-Identifier: MIT
"""Statistics of repeated measurements: medians, their ratio, and how sure that is."""

from __future__ import annotations

import math
import random
import statistics
from typing import NamedTuple, Sequence

RESAMPLES = 2000
SURE = 0.95        # Share of the resamples that the interval holds.
LEAST_RUNS = 3     # With fewer, resampling shows nothing.
TIGHT_WIDTH = 0.02
TIGHT_SHARE = 0.25  # Of the difference: large ones need no narrow interval.


class Ratio(NamedTuple):
    """Median of some values over the median of others, with its bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether the two are significantly different."""
        return self.low > 1 or self.high < 1

    @property
    def tight(self) -> bool:
        """Whether more measurements would hardly say anything else."""
        return self.high - self.low <= max(TIGHT_WIDTH, TIGHT_SHARE * abs(1 - self.value))


def ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """The ratio of the medians.  Without enough values for an interval that holds everything.
    The same values always give the same interval."""
    base = statistics.median(to)
    value = statistics.median(of) / base if base else math.inf if any(of) else 1.0
    if min(len(of), len(to)) < LEAST_RUNS:
        return Ratio(value, 0.0, math.inf)
    if not min(to):
        return Ratio(value, value, value)
    dice = random.Random(1)
    ratios = sorted(statistics.median(dice.choices(of, k=len(of)))
                    / statistics.median(dice.choices(to, k=len(to))) for _ in range(RESAMPLES))
    outside = round(RESAMPLES * (1 - SURE) / 2)
    return Ratio(value, ratios[outside], ratios[-1 - outside])
