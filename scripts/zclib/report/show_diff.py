# SPDX-License-Identifier: MIT
"""The comparison of two runs as text, from the same data as its JSON."""

from __future__ import annotations

from typing import Sequence

from .. import names, screen, table, units
from .data import Data
from .show import ends


def lines(data: Data, width: int | None) -> list[str]:
    """All lines; none wider than `width` if that is not None."""
    out = names.wrap("", names.shown(f"{data['verdict']}."), width)
    left_out: list[str] = []

    def section(title: str, columns: Sequence[table.Column],
                rows: Sequence[Sequence[object]]) -> None:
        if rows:
            out.extend(["", *(screen.styled(line, "bold") for line in names.wrap("", title, width)),
                        *table.render(columns, rows, width, left_out)])

    section("Totals", [table.text(""), table.Column("A"), table.Column("B"),
                       table.Column("Change")],
            [[row["name"], *(_value(row[side], row["unit"]) for side in ("a", "b")),
              _change(row["a"], row["b"], row["unit"])] for row in data["totals"]])
    section("By direction", [table.text("Operation"), table.text("From"), table.text("To"),
                             *_three("Moved"), *_three("Time", drop=2)],
            [[*ends(row), *_moved(row), *_blocked(row)] for row in data["flows"]])
    section(_title("sites", len(data["sites"]), data["sites_in_all"]),
            [table.text("Site", least=0), table.text("Caller"), table.text("In", drop=3),
             *_three("Moved"), *_three("Time", drop=4)],
            [[row["site"], row["caller"], row["side"], *_moved(row), *_blocked(row)]
             for row in data["sites"]])
    alone = data["without_partner"]
    if data["processes_in_all"] > 1 or alone["a"] or alone["b"]:
        section(_title("processes", len(data["processes"]), data["processes_in_all"]),
                [table.text("Process"), table.text("In", drop=1), *_three("Wall"),
                 *_three("Moved", drop=2)],
                [[row["name"], row["side"], *_cells(row, "wall_ns", "ns"), *_moved(row)]
                 for row in data["processes"]])
    for note in data["notes"]:
        out += names.wrap("", names.shown(f"note: {note}"), width, 6)
    return out + table.told(left_out, width)


def _title(what: str, shown: int, in_all: int) -> str:
    return f"{shown} of {in_all} {what}, the greatest changes" if shown < in_all \
        else what.capitalize()


def _three(what: str, drop: int = 0) -> list[table.Column]:
    return [table.Column(f"{what} A", drop=drop), table.Column(f"{what} B", drop=drop),
            table.Column("Change", drop=drop)]


def _moved(row: Data) -> list[str]:
    return _cells(row, "moved_bytes", "bytes")


def _blocked(row: Data) -> list[str]:
    return _cells(row, "blocked_ns", "ns")


def _cells(row: Data, name: str, unit: str) -> list[str]:
    before, after = row[f"a_{name}"], row[f"b_{name}"]
    return [_value(before, unit), _value(after, unit), _change(before, after, unit)]


def _value(value: int | None, unit: str) -> str:
    if value is None:
        return "-"
    return units.duration(value) if unit == "ns" else units.size(value)


def _change(before: int | None, after: int | None, unit: str) -> str:
    if before is None or after is None:
        return "-"
    if before == after:
        return "="
    sign = "+" if after > before else ""
    share = ""
    if before:
        percent = round(100 * (after - before) / before)
        # The rest of it is not nothing.
        share = f" ({max(percent, -99) if after else percent:+d} %)"
    return f"{sign}{_value(after - before, unit)}{share}"
