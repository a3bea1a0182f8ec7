# SPDX-License-Identifier: MIT
"""Results of the runs, as Markdown: medians with their spread, ratios, goals, the link."""

from __future__ import annotations

import os
import re
from statistics import geometric_mean, median

from .preset_rows import slow_lines
from .result import ASKED_WAYS, COUNTS, KINDS, MOVED_WAYS, Result, Session, plain
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
    figure = ratio(metric, result, goal.label, goal.against)
    what = f"of {goal.against}" if goal.against else metric.unit
    if figure is None:
        met = "not measured"
    elif simulated:
        met = "not judged"
    else:
        met = f"{number(figure)}: " + ("yes" if figure <= goal.most * 1.0005 else "**no**")
    whose = "" if goal.label == "libzc" else goal.label + " "
    return f"{whose}≤ {number(goal.most)} {what}: {met}"


# Pairs of ways that are compared, where a table has both.
RATIOS = (("libzc", "bare"), ("libzc", "hand"), ("watched", "bare"), ("everyday", "bare"),
          ("best", "bare"), ("auto", "bare"), ("auto", "everyday"), ("auto", "tuned"))


def ratio_text(metric: Metric, result: Result, label: str, against: str) -> str:
    figure = ratio(metric, result, label, against)
    return "-" if figure is None else number(figure)


def chief(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """The main part of a job, its process, and what has goals."""
    return tuple(metric for metric in metrics
                 if metric in (metrics[0], metrics[-1]) or metric.goals)


def times_table(results: list[Result], simulated: bool, full: bool) -> list[str]:
    """One line a metric of each row, or not `full` one line a row, which has the chief metrics
    below each other; the ways with figures are the columns."""
    labels = list(dict.fromkeys(label for result in results for label in result.labels()
                                if result.samples.get(label) or label in result.without))
    ratios = [pair for pair in RATIOS if set(pair) <= set(labels)]
    goals = any(metric.goals for result in results for metric in result.row.measured())
    heads = ["job", "what", *labels, *(f"{label} / {against}" for label, against in ratios)]
    heads += ["goals"] if goals else []
    kinds = not full and any(KINDS[0] in result.log.get("everyday", {}) for result in results)
    heads += ["MiB under everyday"] if kinds else []
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for result in results:
        metrics = result.row.measured()
        found = []
        for metric in metrics if full else chief(metrics):
            cells = [f"{metric.name}, {metric.unit}"]
            cells += [spread(values_of(metric, result, label)) for label in labels]
            cells += [ratio_text(metric, result, *pair) for pair in ratios]
            if goals:
                cells.append("; ".join(judged(metric, result, goal, simulated)
                                       for goal in metric.goals))
            found.append(cells)
        if not full:
            found = [[below(column) for column in zip(*found)]]
            found[0] += [kinds_cell(result)] if kinds else []
        lines += [f"| {' | '.join([result.row.name, *cells])} |" for cells in found]
    return lines


def below(cells: tuple[str, ...]) -> str:
    """The cells below each other in one."""
    return "<br>".join(cells) if any(cells) else ""


def peaks(log: dict[str, float]) -> str:
    """The most that lay in each place, in MiB."""
    places = sorted((item for item in log.items()
                     if item[0] not in (*COUNTS, *ASKED_WAYS, *MOVED_WAYS, *KINDS)),
                    key=lambda item: -item[1])
    return ", ".join(f"{name} {mib(peak)}" for name, peak in places) or "-"


def mib(count: float) -> str:
    return number(count / 2**20) if count >= 0 else "-" + mib(-count)


# Bytes on the link for each byte that the driver copies, measured with copies of 256 MiB and
# 1 GiB on PCIe 5: to the GPU and from it, for copies to the GPU and for those from it.  Beside the
# data and its packets' headers these are the requests by which the GPU reads the host's memory.
PACKETS = ((1.078, 0.0), (0.0955, 1.093))


def copied(result: Result, label: str) -> list[float] | None:
    """Bytes that copies take on the link, to the GPU and from it; None where no log counts them."""
    log, names = result.log.get(label), MOVED_WAYS
    if log is None and label == "bare":  # the driver moves what the program asks for
        log, names = next(iter(result.log.values()), None), ASKED_WAYS
    if log is None or names[0] not in log:
        return None
    return [sum(factor * log[name] for factor, name in zip(factors, names))
            for factors in PACKETS]


def link_cells(result: Result, label: str) -> list[str]:
    """For each direction what crossed the link, what of it copies explain, and what is left."""
    link, copies = result.link.get(label), copied(result, label)
    if not link:
        return ["-"] * 6
    cells = []
    for i, total in enumerate(link):
        rest = total - (result.start[i] if result.start else 0)
        if copies is None:
            cells += [mib(total), "-", mib(rest)]
        else:
            cells += [mib(total), mib(copies[i]), mib(rest - copies[i])]
    return cells


def link_table(results: list[Result]) -> list[str]:
    """The bytes that crossed the link by its own counters, beside the log's copies."""
    lines = ["| job | way | link to GPU | copies | rest | link from GPU | copies | rest "
             "| asked | moved | CPU | elided | places |", "|" + "---|" * 13]
    for result in results:
        for label in result.labels():
            log = result.log.get(label)
            if not result.link.get(label) and not log:
                continue
            cells = link_cells(result, label)
            cells += [mib(log[name]) for name in COUNTS] if log else ["-"] * 4
            cells.append(peaks(log or {}))
            lines.append(f"| {result.row.name} | {label} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def kinds_table(results: list[Result]) -> list[str]:
    """Of applications where the bytes went that they asked to copy; empty for others."""
    heads = ["asked", *(name.replace("moved_", "moved as ") for name in KINDS), "CPU", "elided"]
    lines = [f"| job | way | {' | '.join(heads)} | places |", "|" + "---|" * (len(heads) + 3)]
    for result in results:
        for label, log in result.log.items():
            if KINDS[0] in log:
                cells = [mib(log[name]) for name in ("asked", *KINDS, "cpu_copied", "elided")]
                lines.append(f"| {result.row.name} | {label} | {' | '.join(cells)} "
                             f"| {peaks(log)} |")
    return lines if len(lines) > 2 else []


def kinds_cell(result: Result) -> str:
    """The same under the preset for any program, in words: "1176 asked, 1176 pinned"."""
    log = result.log.get("everyday", {})
    if KINDS[0] not in log:
        return "-"
    moved = sorted(((log[name], name.replace("moved_", "")) for name in
                    (*KINDS, "cpu_copied", "elided")), reverse=True)
    return ", ".join([f"{mib(log['asked'])} asked",
                      *(f"{mib(size)} {name.replace('_', ' ')}" for size, name in moved
                        if size >= 2**20)])


def means(results: list[Result], way: str = "everyday",
          against: str = "bare") -> tuple[int, float, float] | None:
    """The effect of the preset for any program, or another way, on processes and their main parts,
    over all rows with both, and their number; None where these are too few."""
    both = [figures for result in results if all(figures := [
        ratio(result.row.measured()[at], result, way, against) for at in (-1, 0)])]
    return (len(both), *map(geometric_mean, zip(*both))) if len(both) > 1 else None


def mean_line(results: list[Result]) -> list[str]:
    """The same in words, and of what was learned."""
    pairs = ("everyday", "bare"), ("auto", "everyday"), ("auto", "bare"), ("auto", "tuned")
    found = {both: figures for both in pairs if (figures := means(results, *both))}
    sentences = (f"Geometric mean of {way} / {against}, processes of {count} programs: "
                 f"{number(process)}; {results[0].row.metrics[0].name}, without the start and the "
                 f"end of the process: {number(main)}."
                 for (way, against), (count, process, main) in found.items())
    return [" ".join(sentences)] if found else []


def note_lines(results: list[Result]) -> list[str]:
    """Notes on figures, and on ways that have none and why."""
    return [f"{result.row.name}: {result.row.note}."
            for result in results if result.row.note] + [
                f"{label} has no figures of {result.row.name}: `{why}`."
                for result in results for label, why in result.without.items()]


def earlier_lines(results: list[Result]) -> list[str]:
    """Which ways were not run in turn with the others of their row."""
    ways: dict[str, list[str]] = {}
    for result in results:
        for label, when in sorted(result.earlier.items()):
            ways.setdefault(when, []).append(f"{label}, {result.row.name}")
    return [f"Measured {when}: {'; '.join(whose)}." for when, whose in ways.items()]


def section(group: str, results: list[Result], simulated: bool, level: str,
            full: bool = True) -> list[str]:
    """Heading and tables of a group; not `full`: the chief figures of each job alone."""
    slow = slow_lines(results) if full else []
    lines = [f"{level} {group[0].upper()}{group[1:]}", ""]
    lines += [*times_table(results, simulated, full), "", *slow]
    kinds, crossed = (kinds_table(results), link_table(results)) if full else ([], [])
    told = " ".join(note_lines(results) + earlier_lines(results))
    notes = mean_line(results) + ([told] if told else [])
    if kinds:
        lines += ["MiB by the log:", "", *kinds, ""]
    elif crossed:
        lines += ["MiB over the link, by its own counters and by the log:", "", *crossed, ""]
    return lines + [text for line in notes for text in (line, "")]


def groups(session: Session) -> dict[str, list[Result]]:
    """The results by their group, in the order in which the groups come."""
    found: dict[str, list[Result]] = {}
    for result in session.results:
        found.setdefault(result.row.group, []).append(result)
    return found


def measured_on(session: Session) -> str:
    """The session's lines about its machine, with the number of runs that each way really had."""
    runs = {len(samples) for result in session.results for label, samples in result.samples.items()
            if samples and label not in result.earlier} or {0}
    number_of = str(max(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    return re.sub(r"medians of \d+ ", f"medians of {number_of} ", session.machine)


def document(session: Session) -> list[str]:
    """All tables of a session."""
    lines = [measured_on(session), ""]
    for group, results in groups(session).items():
        lines += section(group, results, session.simulated, "###")
    lines += [f"Skipped: {what}." for what in session.skipped]
    return lines if lines[-1] else lines[:-1]


def save(session: Session, folder: str, name: str) -> None:
    """Writes what was measured so far, so that a bench that is ended early leaves it."""
    os.makedirs(folder, exist_ok=True)
    for suffix, text in ((".md", "\n".join(document(session))), (".json", plain(session))):
        path = os.path.join(folder, name + suffix)
        with open(path + ".part", "w", encoding="utf-8") as part:
            part.write(text + "\n")
        os.replace(path + ".part", path)  # whoever looks finds the old file or the new one, whole
