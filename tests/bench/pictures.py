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


# Of README's picture: a row's height, where bars begin, pixels for a hundredth of the bare time.
ROW, LEFT, PERCENT, MOST = 19, 300, 1.9, 220
STYLE = ("text{font:12px system-ui,sans-serif;fill:#24292f}.soft{fill:#8c959f}.all{fill:#eaeef2}"
         f".less{{fill:{BETTER}}}.more{{fill:{WORSE}}}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#768390}"
         ".all{fill:#2d333b}}")


def programs(rows: list[tuple[str, str, str, float]]) -> str:
    """README's picture of programs: name, bare time, time under libzc, the share of both.  A bar
    of the bare time stands behind each."""
    height = ROW * len(rows) + 34
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="850" height="{height}" '
             f'viewBox="0 0 850 {height}" role="img">', f"<style>{STYLE}</style>",
             f'<text class="soft" x="{LEFT}" y="14">time of the unmodified program, and under '
             "libzc</text>"]
    for i, (name, bare, ours, share) in enumerate(rows):
        y, width = 22 + ROW * i, PERCENT * min(100 * share, MOST)
        lines += [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>',
                  f'<rect class="all" x="{LEFT}" y="{y + 2}" width="{100 * PERCENT:.0f}" '
                  'height="14" rx="2"/>',
                  f'<rect class="{"less" if share <= 1 else "more"}" x="{LEFT}" y="{y + 2}" '
                  f'width="{max(width, 1.5):.1f}" height="14" rx="2"/>',
                  f'<text x="{LEFT + max(width, 100 * PERCENT) + 8:.0f}" y="{y + 13}">'
                  f"{bare} \u2192 {ours}</text>"]
    return "\n".join([*lines, "</svg>"]) + "\n"
