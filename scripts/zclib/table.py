# SPDX-License-Identifier: MIT
"""Text tables that fit the width of a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Sequence

from . import names

GAP = 2  # Blanks between columns.


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str
    right: bool = True  # Numbers stand to the right, names to the left.
    least: int = 0      # Above 0: on a narrow terminal its cells are shortened down to this.
    drop: int = 0       # Above 0: left out where it does not fit; the highest number goes first.


def text(heading: str, least: int = 12, drop: int = 0) -> Column:
    """A column of names, which may be shortened."""
    return Column(heading, right=False, least=least, drop=drop)


def render(columns: Sequence[Column], rows: Iterable[Sequence[object]],
           width: int | None = None) -> list[str]:
    """The table's lines, the headings first, none wider than `width` (None: any) unless that
    would need columns narrower than they may be.  Cells are made safe to print."""
    cells = [[column.heading for column in columns]]
    cells += [[names.shown(cell) for cell in row] for row in rows]
    kept, widths = _fit(columns, cells, width)
    return [_line(columns, row, kept, widths) for row in cells]


def _fit(columns: Sequence[Column], cells: list[list[str]],
         width: int | None) -> tuple[list[int], dict[int, int]]:
    kept = list(range(len(columns)))
    wanted = {i: max(names.columns(row[i]) for row in cells) for i in kept}
    if width is None:
        return kept, wanted

    def over(sizes: dict[int, int]) -> int:
        return sum(sizes[i] for i in kept) + GAP * (len(kept) - 1) - width

    least = {i: min(wanted[i], max(columns[i].least, len(columns[i].heading)))
             if columns[i].least else wanted[i] for i in kept}
    while over(least) > 0 and any(columns[i].drop for i in kept):
        kept.remove(max(kept, key=lambda i: columns[i].drop))
    # What is still missing is taken from the widest of the columns that may shrink.
    while over(wanted) > 0:
        shrinkable = [i for i in kept if wanted[i] > least[i]]
        if not shrinkable:
            break
        widest = max(shrinkable, key=lambda i: wanted[i])
        wanted[widest] = max(least[widest], wanted[widest] - over(wanted))
    return kept, wanted


def _line(columns: Sequence[Column], row: list[str], kept: list[int],
          widths: dict[int, int]) -> str:
    out = []
    for i in kept:
        cell = names.shorten(row[i], widths[i])
        pad = " " * (widths[i] - names.columns(cell))
        out.append(pad + cell if columns[i].right else cell + pad)
    return (" " * GAP).join(out).rstrip()
