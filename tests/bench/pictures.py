"""Draws the kept results with matplotlib: one SVG file a picture."""

from __future__ import annotations

import os
from statistics import median
from typing import Callable

import matplotlib
from matplotlib import pyplot
from matplotlib.figure import Figure

from .result import Result, Session
from .row import Metric
from .tables import groups, ratio, values_of

STYLE = {"bare": ("#777777", "o"), "libzc": ("#d1495b", "s"), "hand": ("#00798c", "^"),
         "pinned": ("#edae49", "v"), "managed": ("#30638e", "D"), "watched": ("#66a182", "x")}


def line(axes, metric: Metric, results: list[Result], label: str,
         place: Callable[[Result], float]) -> None:
    """One way over the rows, with its spread."""
    points = [(place(result), values_of(metric, result, label)) for result in results]
    points = [(x, values) for x, values in points if values]
    if not points:
        return
    color, mark = STYLE.get(label, ("#333333", "."))
    middle = [median(values) for _, values in points]
    axes.errorbar([x for x, _ in points], middle,
                  [[m - min(v) for m, (_, v) in zip(middle, points)],
                   [max(v) - m for m, (_, v) in zip(middle, points)]],
                  label=label, color=color, marker=mark, markersize=4, linewidth=1.2, capsize=2)


def finish(figure: Figure, folder: str, name: str) -> None:
    figure.tight_layout()
    figure.savefig(os.path.join(folder, name + ".svg"), metadata={"Date": None})
    pyplot.close(figure)


def by_size(results: list[Result], folder: str, name: str) -> None:
    """Times over the first argument of the programs, both in logarithms."""
    metric = results[0].row.metrics[0]
    figure, axes = pyplot.subplots(figsize=(6, 4))
    for way in results[0].row.ways:
        line(axes, metric, results, way.label,
             lambda result: float(result.row.arguments.split()[0]))
    axes.set(xscale="log", yscale="log", xlabel="size", ylabel=f"{metric.name}, {metric.unit}",
             title=results[0].row.group)
    axes.set_xticks([float(result.row.arguments.split()[0]) for result in results],
                    [result.row.name for result in results], rotation=45, ha="right", fontsize=7)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    finish(figure, folder, name)


def gathered(results: list[Result], folder: str, name: str) -> None:
    """Gathering: a panel for each row size, times over the part of the rows that is read."""
    sizes = list(dict.fromkeys(int(result.row.arguments.split()[1]) for result in results))
    figure, panels = pyplot.subplots(1, len(sizes), figsize=(3.4 * len(sizes), 3.4), sharey=True,
                                     squeeze=False)
    for axes, size in zip(panels[0], sizes):
        some = [result for result in results if int(result.row.arguments.split()[1]) == size]
        metric = some[0].row.metrics[0]
        for way in some[0].row.ways:
            line(axes, metric, some, way.label,
                 lambda result: float(result.row.arguments.split()[2]))
        axes.set(xscale="log", yscale="log", xlabel="% of the rows", title=f"rows of {size} B")
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("after the fill, ms")
    panels[0][-1].legend(fontsize=8)
    finish(figure, folder, name)


def overview(session: Session, folder: str, name: str) -> None:
    """The last metric of every row: libzc's time by the unmodified program's."""
    bars = [(f"{result.row.group}: {result.row.name}",
             ratio(result.row.metrics[-1], result, "libzc", "bare"))
            for result in session.results if result.row.metrics[-1].unit != "MiB"]
    bars = [(text, value) for text, value in bars if value is not None][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.22 * len(bars) + 1))
    axes.barh(range(len(bars)), [value - 1 for _, value in bars], left=1,
              color=["#00798c" if value <= 1 else "#d1495b" for _, value in bars])
    axes.set_yticks(range(len(bars)), [text for text, _ in bars], fontsize=6)
    axes.margins(y=0.01)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="time under libzc / time of the unmodified program")
    axes.grid(alpha=0.3, axis="x")
    finish(figure, folder, name)


def draw(session: Session, folder: str) -> None:
    """All pictures for which there are rows."""
    os.makedirs(folder, exist_ok=True)
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "libzc"
    found = groups(session)
    for group, results in found.items():
        if group.startswith("scaling") and len(results) > 1:
            by_size(results, folder, "scale")
        elif group.startswith("to the GPU and back") and len(results) > 1:
            by_size(results, folder, "transfer")
        elif group.startswith("gathering"):
            gathered(results, folder, "gather")
    overview(session, folder, "overview")
