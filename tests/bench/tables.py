"""What the runs amount to, as Markdown: medians with their spread, ratios, goals, the link."""

from __future__ import annotations

from statistics import median

from .result import COUNTS, Result, Session
from .row import Goal, Metric

SCALE = {"ms": 1.0, "us": 1e3, "MiB": 1 / 2**20}


def values_of(metric: Metric, result: Result, label: str) -> list[float]:
    """The metric in the runs of a way, in its unit; runs that have none of its fields give none."""
    values = []
    for sample in result.samples.get(label, []):
        found = [sample[name] for name in metric.fields if name in sample]
        if found:
            values.append(sum(found) * SCALE[metric.unit] / sample.get(metric.per, 1))
    return values


def number(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value == 0:
        return "0"
    digits = 0
    while digits < 4 and abs(value) * 10**digits < 100:
        digits += 1
    return f"{value:.{digits}f}"


def spread(values: list[float]) -> str:
    """The median and, in brackets, the least and the most."""
    if not values:
        return "-"
    text = number(median(values))
    low, high = number(min(values)), number(max(values))
    return text if low == high else f"{text} ({low}-{high})"


def ratio(metric: Metric, result: Result, label: str, against: str) -> float | None:
    """Median of a way divided by that of another; `against` "" takes the value itself."""
    values = values_of(metric, result, label)
    others = values_of(metric, result, against) if against else [1.0]
    if not values or not others or median(others) == 0:
        return None
    return median(values) / median(others)


def judged(metric: Metric, result: Result, goal: Goal, simulated: bool) -> str:
    figure = ratio(metric, result, "libzc", goal.against)
    what = f"of {goal.against}" if goal.against else metric.unit
    if figure is None:
        met = "not measured"
    elif simulated:
        met = "not judged"
    else:
        met = f"{number(figure)}: " + ("yes" if figure <= goal.most * 1.0005 else "**no**")
    return f"≤ {number(goal.most)} {what}: {met}"


# What is compared with what, where a table has both.
RATIOS = (("libzc", "bare"), ("libzc", "hand"), ("watched", "bare"))


def ratio_text(metric: Metric, result: Result, label: str, against: str) -> str:
    figure = ratio(metric, result, label, against)
    return "-" if figure is None else number(figure)


def times_table(results: list[Result], simulated: bool) -> list[str]:
    """One line a metric of each row; the ways are the columns."""
    labels = list(dict.fromkeys(way.label for result in results for way in result.row.ways))
    ratios = [pair for pair in RATIOS if set(pair) <= set(labels)]
    goals = any(metric.goals for result in results for metric in result.row.metrics)
    heads = ["job", "what", *labels, *(f"{label} / {against}" for label, against in ratios)]
    heads += ["goals"] if goals else []
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for result in results:
        for metric in result.row.metrics:
            cells = [result.row.name, f"{metric.name}, {metric.unit}"]
            cells += [spread(values_of(metric, result, label)) for label in labels]
            cells += [ratio_text(metric, result, *pair) for pair in ratios]
            if goals:
                cells.append("; ".join(judged(metric, result, goal, simulated)
                                       for goal in metric.goals))
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def mib(count: float) -> str:
    return number(count / 2**20)


def link_table(results: list[Result]) -> list[str]:
    """What crossed the link by its own counters, beside what the log says of the copies."""
    lines = ["| job | way | link to GPU | link from GPU | asked | moved | CPU | elided | places |",
             "|" + "---|" * 9]
    for result in results:
        for way in result.row.ways:
            link, log = result.link.get(way.label), result.log.get(way.label)
            if not link and not log:
                continue
            cells = [mib(count) for count in link] if link else ["-", "-"]
            cells += [mib(log[name]) for name in COUNTS] if log else ["-"] * 4
            peaks = sorted((item for item in (log or {}).items() if item[0] not in COUNTS),
                           key=lambda item: -item[1])
            cells.append(", ".join(f"{name} {mib(peak)}" for name, peak in peaks) or "-")
            lines.append(f"| {result.row.name} | {way.label} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def groups(session: Session) -> dict[str, list[Result]]:
    """The results by their group, in the order in which the groups come."""
    found: dict[str, list[Result]] = {}
    for result in session.results:
        found.setdefault(result.row.group, []).append(result)
    return found


def document(session: Session) -> list[str]:
    """All tables of a session."""
    lines = [session.machine, ""]
    for group, results in groups(session).items():
        lines += [f"### {group[0].upper()}{group[1:]}", "",
                  *times_table(results, session.simulated), ""]
        link = link_table(results)
        if link:
            lines += ["MiB over the link, by its own counters and by the log:", "", *link, ""]
    lines += [f"Skipped: {what}." for what in session.skipped]
    return lines if lines[-1] else lines[:-1]
