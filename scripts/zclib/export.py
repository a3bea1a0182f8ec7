# SPDX-License-Identifier: MIT
"""Comparisons as files, in the form of hyperfine's --export-json and --export-markdown, which other
programs read."""

from __future__ import annotations

import json
import math
import re
import shlex
import statistics
from typing import Any, Sequence

from . import compare, names, output
from .trial import Arm

SCHEMA = 1  # Of what stands beside hyperfine's fields.


def write(result: compare.Comparison, command: Sequence[str], json_name: str | None,
          markdown_name: str | None) -> None:
    """Writes the files that have a name.  Raises OSError."""
    if json_name is not None:
        with output.written(json_name) as out:
            json.dump({"results": [_result(arm) for arm in result.arms],
                       "zc_compare": {"schema": SCHEMA, "command": list(command),
                                      "simulated": result.simulated,
                                      "ratios": {arm.name: _ratio(ratio) for arm, ratio in zip(
                                          result.arms[1:], result.ratios)}}}, out, indent=2)
            out.write("\n")
    if markdown_name is not None:
        with output.written(markdown_name) as out:
            out.write("\n".join(_markdown(result, command)) + "\n")


def _seconds(arm: Arm) -> list[float]:
    return [time / 1e9 for time in compare.times_ns(arm)]


def _deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _result(arm: Arm) -> dict[str, Any]:
    """An arm as hyperfine has it, with what libzc counted in its first run behind."""
    times = _seconds(arm)
    totals = arm.runs[0].totals
    return {"command": arm.name, "mean": statistics.mean(times), "stddev": _deviation(times),
            "median": statistics.median(times),
            "user": statistics.mean(run.ended.user_ns for run in arm.runs) / 1e9,
            "system": statistics.mean(run.ended.system_ns for run in arm.runs) / 1e9,
            "min": min(times), "max": max(times), "times": times,
            "exit_codes": [run.status for run in arm.runs],
            "same_output": arm.same,
            "counts": totals.counts.as_dict() if totals.processes else None}


def _ratio(ratio: Any) -> dict[str, float | None]:
    """Of the median to the bare runs'."""
    known = math.isfinite(ratio.high)
    return {"of_bare": ratio.value, "low": ratio.low if known else None,
            "high": ratio.high if known else None}


def _code(text: str) -> str:
    """A name as Markdown's code."""
    text = names.shown(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    blank = " " if "`" in text else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def _markdown(result: compare.Comparison, command: Sequence[str]) -> list[str]:
    longest = max(max(_seconds(arm)) for arm in result.arms)
    unit, factor = ("s", 1.0) if longest >= 1 else ("ms", 1e3)
    out = [_code(shlex.join(command)), "",
           f"| Command | Mean [{unit}] | Min [{unit}] | Max [{unit}] | Relative |",
           "|:---|---:|---:|---:|---:|"]
    bare = _seconds(result.arms[0])
    for arm in result.arms:
        times = _seconds(arm)
        mean, relative = statistics.mean(times), statistics.mean(times) / statistics.mean(bare)
        spread, error = "", ""
        if len(times) > 1 and len(bare) > 1:
            spread = f" ± {_deviation(times) * factor:.{3 if factor == 1 else 1}f}"
            error = "" if arm is result.arms[0] else " ± {:.2f}".format(relative * math.hypot(
                _deviation(times) / mean, _deviation(bare) / statistics.mean(bare)))
        numbers = [f"{value * factor:.{3 if factor == 1 else 1}f}"
                   for value in (mean, min(times), max(times))]
        name = _code(arm.name).replace("|", "\\|")  # Else it would end the cell.
        out.append(f"| {name} | {numbers[0]}{spread} | {numbers[1]} | {numbers[2]} | "
                   f"{relative:.2f}{error} |")
    if result.simulated:
        out += ["", compare.SIMULATED]
    return out
