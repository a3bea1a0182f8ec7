# SPDX-License-Identifier: MIT
"""Result of a search, as the policy's comments and as a table."""

from __future__ import annotations

import math
import os
import platform
import shlex
import time
from typing import Iterable, Sequence

from .. import builds, install, link, spread, table, units
from ..builds import Build
from ..logs import Log, Record, strings, string
from ..trial import Run
from . import ranks, write
from .metrics import Metric
from .search import Outcome, Tried


def interval(ratio: spread.Ratio) -> str:
    """`71..75 %`."""
    if not math.isfinite(ratio.high):  # One run of each.
        return f"{100 * ratio.value:.1f} %"
    low, high = (f"{100 * value:.1f}" for value in (ratio.low, ratio.high))
    return f"{low} %" if low == high else f"{low}..{high} %"


def result(outcome: Outcome, metric: Metric) -> str:
    """All that was kept, in a sentence."""
    final = outcome.final
    assert final is not None
    sure = "" if metric.exact else f" ({interval(final)}, 95 % sure)" if math.isfinite(
        final.high) else " (one run of each)"
    return (f"{metric.words}: {metric.show(outcome.best)} instead of {metric.show(outcome.base)}, "
            f"{100 * final.value:.1f} % of it{sure}")


def _predicted(tried: Tried, metric: Metric) -> str:
    if not metric.is_time:
        return "-"
    return ("up to " if tried.candidate.is_probe else "") + metric.show(tried.candidate.gain_ns)


def lines(tried: Sequence[Tried], metric: Metric, width: int | None) -> list[str]:
    """A table of all that was tried."""
    rows = [(one.candidate.what, _predicted(one, metric),
             metric.show(one.gain) if one.ratio else "-",
             interval(one.ratio) if one.ratio else "-", one.runs,
             "kept" if one.kept else f"not kept: {one.why}") for one in tried]
    return table.render([table.text("Change", least=0), table.Column("Predicted"),
                         table.Column("Gained"), table.Column("Of before"), table.Column("Runs"),
                         table.text("Outcome", least=0)], rows, width)


def _link(run: Run) -> str:
    """The bytes over the link in a run, kernels' reads and writes included."""
    sums = run.totals.links.as_dict(run.totals.moved_by_kind)
    if sums is None:
        return ""
    into, out = (f"{units.size(sums[f'{way}_bytes'])}, {units.size(sums[f'copied_{way}_bytes'])} "
                 "of it by copies" for way in ("to_device", "from_device"))
    rates = (units.rate(sums[f"{way}_bytes"], run.ended.wall_ns)
             for way in ("to_device", "from_device"))
    return (f" The link's counters had {into}, to the GPU, and {out}, from it: "
            f"{' and '.join(rates)} over the run.")


def unproved(nothing: str) -> str:
    """That the results of a program are not known which prints that."""
    return (f"The program prints {nothing}, so its results were not compared: --same names a file "
            "of them, --check judges them.")


def policy(outcome: Outcome, metric: Metric, command: Sequence[str], watched: Run, proof: str,
           remark: str) -> str:
    """The text of the policy.  `proof`: what its runs did, as a half-sentence or a sentence."""
    comments = {}
    for at, one in enumerate(outcome.kept):
        assert one.ratio is not None
        before = interval(one.ratio)
        predicted = f"; predicted: {_predicted(one, metric)}" if metric.is_time else ""
        how = (f"copies of every other block took {before} of those of the others in one run"
               if one.on_half else f"{metric.words} {before} of that before ({one.runs} "
               f"{'run' if one.runs == 1 else 'runs'} when it was added)")
        comments[at] = (f"{one.candidate.what[0].upper()}{one.candidate.what[1:]}: gained "
                        f"{metric.show(one.gain)}, {how}{predicted}.")
        if one.candidate.is_probe and one.first is not None:
            comments[at] += _link(one.first)
        if one.candidate.promises:
            comments[at] += (" `access = read` promises that no kernel writes these blocks; one "
                             "that does fails with an error that names the rule.")
    body = write.policy([one.candidate for one in outcome.kept], comments)
    lost = [one for one in outcome.tried if not one.kept]
    tail = "Tried, and not taken:\n" + "\n".join(
        f"- {one.candidate.what}: {one.why}" for one in lost) if lost else ""
    return "\n".join(filter(None, (
        _head(outcome, metric, command, watched, proof, remark), body,
        write.comment(tail) if tail else "")))


def _head(outcome: Outcome, metric: Metric, command: Sequence[str], watched: Run, proof: str,
          remark: str) -> str:
    process = watched.totals.processes[0]
    meta, found = _facts(watched.logs, {site for one in outcome.kept
                                          for site in one.candidate.sites})
    driver, libzc = meta.get("driver"), string(meta, "libzc") or install.version()
    day = time.strftime("%Y-%m-%d", time.localtime())
    text = [f"Written by zc tune on {day}, for: {shlex.join(command)}",
            f"libzc {libzc}, {process.gpu or 'unknown GPU'}, CUDA driver "
            f"{driver if isinstance(driver, int) else 'unknown'}, "
            f"{ranks.words(watched) or f'host {platform.node()}'}."]
    if outcome.final is not None:
        runs = "One run under this policy" if outcome.runs == 1 else \
            f"{outcome.runs} runs under this policy; all"
        text.append(f"Measured {result(outcome, metric)}. {runs} ended{proof}")
    if found:
        text.append("Call paths (site) are those of the builds below; another build has others: "
                    "zc check says so, and then it is to be tuned again.")
    text += [*outcome.notes, *filter(None, [remark])]
    return write.comment("\n".join(text)) + builds.comment(found)


def _facts(paths: Iterable[str], sites: set[str]) -> tuple[Record, list[Build]]:
    """The head of the first log, and the builds of the modules on the call paths of sites."""
    meta: Record = {}
    named: dict[str, Build] = {}
    wanted: set[str] = set()
    for path in paths:
        if link.is_recording(path):
            continue
        log = Log(path, lambda problem: None)
        for record in log.records(("site", "module")):
            if record["type"] == "module":
                name, path = string(record, "module"), string(record, "path")
                if path and string(record, "build_id"):
                    named[name] = Build(name, string(record, "build_id"), os.path.abspath(path))
            elif record["type"] == "site" and string(record, "site") in sites:
                wanted |= {frame.rpartition("+")[0] for frame in strings(record, "frames")}
        meta = meta or log.meta
    return meta, [named[name] for name in wanted if name in named]
