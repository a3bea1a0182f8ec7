# SPDX-License-Identifier: MIT
"""Text tables that fit the width of a terminal.

A table that is too wide has its names shortened; then it loses the columns that say least, and who
prints it says which (`left_out`); and where it is still too wide, every row stands over several
lines, with all its cells whole."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Iterable, Sequence

from . import names

GAP = 2  # Blanks between columns.
INDENT = 4  # Of the further lines of a row.


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


def render(columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int | None = None,
           left_out: list[str] | None = None, stack: bool = True) -> list[str]:
    """The table's lines, the headings first, none wider than `width` (None: any).  Cells are made
    safe to print.  `left_out` gets the headings of the columns that did not fit.  Without `stack`
    a row is one line, if need be wider than that."""
    cells = [[column.heading for column in columns]]
    cells += [[names.shown(cell) for cell in row] for row in rows]
    kept, widths = _fit(columns, cells, width)
    if stack and width is not None and _sum(kept, widths) > width:
        return [line for row in cells[1:] for line in _stacked(columns, row, width)]
    if left_out is not None:
        left_out += [column.heading for i, column in enumerate(columns) if i not in kept]
    return [_line(columns, row, kept, widths) for row in cells]


def fits(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int | None) -> bool:
    """Whether all columns have room."""
    left_out: list[str] = []
    lines = render(columns, rows, width, left_out, stack=False)
    return not left_out and (width is None or max(map(names.columns, lines)) <= width)


def told(left_out: Iterable[str], width: int | None) -> list[str]:
    """Says which columns were left out of tables, if any."""
    headings = ", ".join(dict.fromkeys(left_out))
    return names.wrap("", f"Left out, because the terminal is too narrow: {headings}",
                      width) if headings else []


def _sum(kept: list[int], widths: dict[int, int]) -> int:
    return sum(widths[i] for i in kept) + GAP * (len(kept) - 1)


def _stacked(columns: Sequence[Column], row: list[str], width: int) -> list[str]:
    """A row over several lines: its first cell, then the others, each behind its heading."""
    parts = [f"{column.heading}: {cell}" if column.heading and (at > 0 or column.right) else cell
             for at, (column, cell) in enumerate(zip(columns, row)) if cell]
    lines: list[str] = []
    for part in parts:
        if lines and names.columns(lines[-1]) + GAP + names.columns(part) <= width:
            lines[-1] += " " * GAP + part
        else:
            indent = " " * INDENT if lines else ""
            lines += textwrap.wrap(part, width, initial_indent=indent,
                                   subsequent_indent=" " * 2 * INDENT, break_long_words=False,
                                   break_on_hyphens=False)
    return lines


def _fit(columns: Sequence[Column], cells: list[list[str]],
         width: int | None) -> tuple[list[int], dict[int, int]]:
    kept = list(range(len(columns)))
    wanted = {i: max(names.columns(row[i]) for row in cells) for i in kept}
    if width is None:
        return kept, wanted

    def over(sizes: dict[int, int]) -> int:
        return _sum(kept, sizes) - width

    least = {i: min(wanted[i], max(columns[i].least, len(columns[i].heading)))
             if columns[i].least else wanted[i] for i in kept}
    while over(least) > 0 and any(columns[i].drop for i in kept):
        kept.remove(max(kept, key=lambda i: columns[i].drop))
    # The missing width is taken from the widest of the columns that may shrink.
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
