# SPDX-License-Identifier: MIT
"""Keeps what `make bench-tune` measured in kernels/tuned.jsonl, a line a program, and writes its
part of kernels/RESULTS.md.

    tests/bench/run.sh keep-tune [FILE...]     FILE: tune.jsonl of a run
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from typing import Sequence

from .tuned_rows import PROGRAMS

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(TOP, "kernels", "tuned.jsonl")
PAGE = os.path.join(TOP, "kernels", "RESULTS.md")
BEGIN, END = "<!-- tuned: begin -->", "<!-- tuned: end -->"
sys.path.insert(0, os.path.join(TOP, "scripts"))

from zclib import spread, units  # noqa: E402

GOALS = """\
| what | goal | measured |
|---|---|---|
"""
HEAD = """\
| program | bare, ms | tuned | best other | best / tuned | tuned / bare | zc tune, in bare runs | \
tuned | best other | rules: predicted, gained |
|---|---|---|---|---|---|---|---|---|---|
"""


class Line:
    """The figures of a row."""

    def __init__(self, row: dict) -> None:
        self.row = row
        times = row["times_ms"]
        self.bare = statistics.median(times["bare"])
        self.tuned = statistics.median(times.get("tuned", times["bare"]))
        self.other = statistics.median(times.get("best", times["bare"]))
        self.to_best = min(self.tuned, self.other, self.bare) / self.tuned
        self.to_bare = self.tuned / self.bare
        self.cost = 1e3 * row["tune_s"] / self.bare
        # The best other one may be no other than by chance.
        ratio = spread.ratio(times.get("tuned", times["bare"]), times.get("best", times["bare"]))
        self.as_good = ratio.low <= 1
        self.kept = [rule for rule in row["rules"] if rule["kept"]]

    def right(self) -> tuple[int, int]:
        """Call paths, or groups of them, whose place is right, and all of them."""
        parallel = self.row["parallel"]
        places = [[place + " parallel" * (place == "device" and way) for place, way in
                   zip((one, other), parallel)] for _, one, other in self.row["places"]]
        return sum(one == other or self.as_good for one, other in places), len(places)

    def predictions(self) -> list[tuple[float, float, float, float]]:
        """Of the kept rules whose gain is predicted: that, what was gained, and its interval."""
        found = []
        for rule in self.kept:
            value, low, high = rule["ratio"]
            if rule["kind"] not in ("shared", "mapped") and value < 1:
                before = rule["gained_ms"] / (1 - value)
                found.append((rule["predicted_ms"], rule["gained_ms"], before * (1 - high),
                              before * (1 - low)))
        return found

    def again(self) -> tuple[float, float] | None:
        """The gain of a policy of one predicted rule, as zc tune measured it, and by the runs in
        turn that came after."""
        return (self.predictions()[0][1], self.bare - self.tuned) \
            if len(self.kept) == len(self.predictions()) == 1 else None

    def cells(self) -> list[str]:
        rules = "; ".join(
            f"{rule['kind']} {'up to ' * (rule['kind'] in ('shared', 'mapped'))}"
            f"{rule['predicted_ms']:.0f}, {rule['gained_ms']:.0f}" for rule in self.kept)
        return [self.row["name"], f"{self.bare:.0f}", f"{self.tuned:.0f}", f"{self.other:.0f}",
                f"{self.to_best:.3f}", f"{self.to_bare:.3f}", f"{self.cost:.1f}",
                self.row["tuned"], self.row["best"], rules or "-"]


def goals(lines: Sequence[Line]) -> list[str]:
    """The goals, and whether they were reached."""
    right, places = (sum(counts) for counts in zip(*(one.right() for one in lines)))
    predicted = [one for line in lines for one in line.predictions()]
    close = sum(abs(one / gained - 1) <= 0.15 for one, gained, _, _ in predicted)
    again = [one for one in map(Line.again, lines) if one]
    same = sum(abs(gained / later - 1) <= 0.15 for gained, later in again)
    inside = sum(low <= one <= high for one, _, low, high in predicted)
    rows = [
        ("tuned against the best of all, geometric mean; worst", ">= 0.95; >= 0.85",
         f"{statistics.geometric_mean(one.to_best for one in lines):.3f}; "
         f"{min(one.to_best for one in lines):.3f}"),
        ("tuned against bare, worst", "<= 1.01", f"{max(one.to_bare for one in lines):.3f}"),
        ("places that are right", ">= 96 %", f"{100 * right / places:.0f} % of {places}"),
        ("predicted and measured gain of kept rules within 15 %; in the measured interval", "all",
         f"{close} of {len(predicted)}; {inside}"),
        ("such a gain measured again, by the runs in turn, within 15 %", "-",
         f"{same} of {len(again)}"),
        ("zc tune, in the time of bare runs: median; most", "<= 15",
         f"{statistics.median(one.cost for one in lines):.1f}; "
         f"{max(one.cost for one in lines):.1f}")]
    return ["| " + " | ".join(row) + " |" for row in rows]


def page(rows: Sequence[dict]) -> str:
    """The part of the page between its marks."""
    lines = [Line(row) for row in rows]
    machines: dict[str, dict[str, None]] = {}  # To versions of libzc.
    for row in rows:
        version, _, machine = row["machine"].partition("UTC, libzc ")[2].partition("; ")
        machines.setdefault(machine, {})[version] = None
    tried = sum(row["combinations"] for row in rows)
    names = {row["name"] for row in rows}
    missing = [program.name for program in PROGRAMS if program.name not in names]
    return "\n".join([
        *(f"- {machine} libzc {', '.join(versions)}." for machine, versions in machines.items()),
        f"- {len(rows)} programs, {units.count(tried)} combinations of places.",
        *(["", f"Not measured: {'; '.join(missing)}."] if missing else []), "",
        *GOALS.splitlines(), *goals(lines), "",
        *HEAD.splitlines(), *("| " + " | ".join(line.cells()) + " |" for line in lines)])


def main() -> int:
    rows: dict[str, dict] = {}
    for path in [DATA] * os.path.exists(DATA) + sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            rows.update({row["name"]: row for row in map(json.loads, file)})
    if any("simulated" in row["machine"] for row in rows.values()):
        print("bench: times of a simulated GPU mean nothing and are not kept", file=sys.stderr)
        return 2
    kept = [rows[program.name] for program in PROGRAMS if program.name in rows]
    with open(DATA, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in kept)
    with open(PAGE, encoding="utf-8") as file:
        before, _, rest = file.read().partition(BEGIN)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n\n{page(kept)}\n\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
