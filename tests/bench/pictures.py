# SPDX-License-Identifier: MIT
"""Draws the kept results: one bar for each row, as SVG."""

from __future__ import annotations

import math
from html import escape

from .result import Session
from .tables import number, ratio

NAMES, BARS = 480, 440   # widths of the names and of the bars
STEP, MARGIN = 14, 24    # height of a bar with its gap, and of what is above and below all
BETTER, WORSE = "#00798c", "#d1495b"


def bars(session: Session) -> list[tuple[str, float]]:
    """The last metric of every row: libzc's time by the unmodified program's."""
    found = [(f"{result.row.group}: {result.row.name}",
              ratio(result.row.metrics[-1], result, "libzc", "bare"))
             for result in session.results if result.row.metrics[-1].unit != "MiB"]
    return [(text, value) for text, value in found if value]


def text(x: float, y: float, what: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(what)}</text>'


def overview(session: Session) -> str:
    """The picture; its axis has logarithms, so that half and twice the time are as long.  What is
    beyond a hundredth is drawn as that."""
    found = bars(session)
    low = -2
    high = max([math.log10(value) for _, value in found] + [0.1])
    bottom = MARGIN + STEP * len(found)

    def place(value: float) -> float:
        return NAMES + (max(low, math.log10(value)) - low) / (high - low) * BARS

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{NAMES + BARS + 60}" '
             f'height="{bottom + 2 * MARGIN}" font-family="sans-serif" font-size="10">',
             '<rect width="100%" height="100%" fill="white"/>']
    for tick in [10.0**exponent for exponent in range(low, math.floor(high) + 1)]:
        x, color = place(tick), "black" if tick == 1 else "#ccc"
        lines += [f'<path d="M{x:.1f} {MARGIN}V{bottom}" stroke="{color}"/>',
                  text(x, bottom + 14, f"{tick:g}", "middle")]
    lines.append(text(NAMES + BARS / 2, bottom + 32,
                      "time under libzc / time of the unmodified program", "middle"))
    for i, (name, value) in enumerate(found):
        y, left, right = MARGIN + i * STEP, min(place(value), place(1)), max(place(value), place(1))
        lines += [text(NAMES - 6, y + 10, name, "end"),
                  f'<rect x="{left:.1f}" y="{y + 2}" width="{right - left:.1f}" height="10" '
                  f'fill="{BETTER if value <= 1 else WORSE}"/>',
                  text(right + 4, y + 10, number(value), "start")]
    return "\n".join([*lines, "</svg>"]) + "\n"
