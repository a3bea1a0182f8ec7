# SPDX-License-Identifier: MIT
"""The programs under ZC_POLICY=auto, which learns in the runs that do not count, against the preset
that it begins with and bare."""

from __future__ import annotations

from dataclasses import replace

from . import preset_rows
from .row import Goal, Way

GROUP = "learned from runs"
AUTO = "auto"
GOALS = (Goal("bare", 1.01, AUTO), Goal("everyday", 1.02, AUTO))

ROWS = tuple(replace(row, group=GROUP, process=GOALS, metrics=row.metrics[:1], ways=(
    Way("bare", row.ways[0].program), Way("everyday", row.ways[0].program, "everyday"),
    Way(AUTO, row.ways[0].program, AUTO))) for row in preset_rows.ROWS)
