"""What the runs amount to: medians with their spread, ratios, goals, as Markdown and as JSON."""

from __future__ import annotations

from statistics import median

from .row import Goal, Metric
from .runner import COUNTS, Result, Sample

SCALE = {"ms": 1.0, "us": 1e3, "MiB": 1 / 2**20}


def value_of(metric: Metric, sample: Sample) -> float | None:
    """The metric in one run, in its unit; None where the run has none of its fields."""
    found = [sample.values[name] for name in metric.fields if name in sample.values]
    return sum(found) * SCALE[metric.unit] if found else None


def values_of(metric: Metric, result: Result, label: str) -> list[float]:
    values = [value_of(metric, sample) for sample in result.samples.get(label, [])]
    return [value for value in values if value is not None]


def number(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value == 0:
        return "0"
    digits = 0
    while digits < 4 and abs(value) * 10**digits < 100:
        digits += 1
    return f"{value:.{digits}f}"


def spread(values: list[float], unit: str) -> str:
    if not values:
        return "-"
    text = f"{number(median(values))} {unit}"
    if len(values) > 1 and min(values) != max(values):
        text += f" ({number(min(values))}-{number(max(values))})"
    return text


def reached(metric: Metric, result: Result, label: str, goal: Goal) -> float | None:
    """The figure that a goal is about, of the given way; None where it was not measured."""
    values = values_of(metric, result, label)
    against = values_of(metric, result, goal.against) if goal.against else [1.0]
    if not values or not against or median(against) == 0:
        return None
    return median(values) / median(against)


def judged(metric: Metric, result: Result, simulated: bool) -> list[tuple[str, str, str]]:
    """The goals of a metric, as the table shows them: goal, figure, whether it was reached."""
    rows = []
    for goal in metric.goals:
        figure = reached(metric, result, "libzc", goal)
        what = f"of {goal.against}" if goal.against else metric.unit
        rows.append((f"≤ {number(goal.most)} {what}", "-" if figure is None else number(figure),
                     "not measured" if figure is None else "not judged" if simulated
                     else "yes" if figure <= goal.most * 1.0005 else "**no**"))
    return rows


def placed(result: Result) -> str:
    """Where the blocks lay in the run under libzc, by the log: places with their peaks."""
    summary = result.logs.get("libzc")
    if summary is None:
        return "-"
    peaks = [(place["peak_bytes"], place["place"]) for place in summary["places"]]
    return ", ".join(f"{name} {number(peak / 2**20)}" for peak, name in sorted(peaks, reverse=True)
                     if peak > 0) or "-"


def goals_table(results: list[Result], simulated: bool) -> list[str]:
    """One line a goal of each metric."""
    lines = ["| job | what | bare | libzc | by hand | figure | goal | met |",
             "|---|---|---|---|---|---|---|---|"]
    for result in results:
        for metric in result.row.metrics:
            cells = [spread(values_of(metric, result, label), metric.unit)
                     for label in ("bare", "libzc", "hand")]
            for goal, figure, met in judged(metric, result, simulated) or [("-", "-", "-")]:
                lines.append(f"| {result.row.name} | {metric.name} | {' | '.join(cells)} | "
                             f"{figure} | {goal} | {met} |")
    return lines


def mib(count: float) -> str:
    return number(count / 2**20)


def link_table(results: list[Result]) -> list[str]:
    """What crossed the link by its own counters, beside what the log says of the copies."""
    lines = ["| job | way | link to GPU, MiB | from GPU | asked | moved | CPU | elided "
             "| places, MiB at most |", "|---|---|---|---|---|---|---|---|---|"]
    for result in results:
        for way in result.row.ways:
            link = result.link.get(way.label)
            summary = result.logs.get(way.label)
            cells = [mib(count) for count in link] if link else ["-", "-"]
            cells += [mib(summary[f"{name}_bytes"]) for name in COUNTS] if summary else ["-"] * 4
            cells.append(placed(result) if way.label == "libzc" else "-")
            lines.append(f"| {result.row.name} | {way.label} | {' | '.join(cells)} |")
    return lines


def as_json(result: Result) -> dict:
    """All of a result, for keeping: raw values, never medians."""
    return {
        "group": result.row.group,
        "name": result.row.name,
        "arguments": result.row.arguments,
        "ways": [{"label": way.label, "program": way.program, "policy": way.policy,
                  "link_bytes": result.link.get(way.label),
                  "samples": [sample.values for sample in result.samples[way.label]]}
                 for way in result.row.ways],
        "metrics": [{"name": metric.name, "unit": metric.unit, "fields": metric.fields}
                    for metric in result.row.metrics],
    }
