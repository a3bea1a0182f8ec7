# SPDX-License-Identifier: MIT
"""The ranks of a job beside each other: which are missing, differ from the rest, or stand out."""

from __future__ import annotations

import collections
import statistics
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

from .. import units
from .parts import Process

MOST_NAMED = 8            # Of ranks, runs of ranks and hosts in a sentence.
MOST_WORLD = 1 << 20      # Of a greater world, which no launcher makes, missing ranks are counted.
CLOCK_S = 60              # Hosts that begin so much apart from the median have another clock.
LEAST_APART = 5           # Of fewer ranks none stands out.
# A value stands out beyond six standard deviations, estimated from the median of the distances from
# the median (which outliers do not touch), and a quarter of the median; few do, or there are two
# kinds of ranks.
DEVIATIONS, LEAST_DISTANCE, MOST_SHARE = 6 * 1.4826, 0.25, 0.1


class Metric(NamedTuple):
    """A quantity to compare."""

    key: str
    words: str
    shown: Callable[[int], str]
    value: Callable[[Process], int]


METRICS = (
    Metric("wall_ns", "Wall time", units.duration, lambda one: one.wall_ns),
    Metric("blocked_ns", "Blocked", units.duration, lambda one: one.counts.blocked_ns),
    Metric("asked_calls", "Copies", units.count, lambda one: one.counts.asked_calls),
    Metric("asked_bytes", "Asked", units.size, lambda one: one.counts.asked_bytes),
    Metric("moved_bytes", "Moved", units.size, lambda one: one.counts.moved_bytes),
    Metric("device_bytes", "Device memory", units.size,
           lambda one: sum(one.peaks.get(place, 0) for place in ("device", "vmm"))),
)
SHOWN = {metric.key: metric for metric in METRICS}


class Group(NamedTuple):
    """Processes of one program in one job that one launcher told their ranks, or nobody."""

    job: str
    program: str
    processes: list[Process]

    @property
    def words(self) -> str:
        return f"{self.program or '?'}" + (f", job {self.job}" if self.job else "")

    def name(self, process: Process) -> str:
        """How a table calls a process of it."""
        ranked = any(one.launcher or one.rank for one in self.processes)
        what = f"rank {process.rank}" if ranked else f"pid {process.pid}"
        return f"{what} on {process.host or '?'}"


def groups(processes: Iterable[Process]) -> list[Group]:
    """The greatest first."""
    found: dict[tuple[str, str, str], list[Process]] = {}
    for process in processes:
        key = process.job, process.program, process.launcher
        found.setdefault(key, []).append(process)
    return [Group(*key[:2], ones) for key, ones in
            sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))]


def numbers(values: Iterable[int]) -> str:
    """Whole numbers in their order: `3, 17, 40-47 and 12 more`."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    more = sum(last - first + 1 for first, last in runs[MOST_NAMED:])
    return ", ".join(str(first) if first == last else f"{first}-{last}"
                     for first, last in runs[:MOST_NAMED]) + (f" and {more} more" if more else "")


def _which(processes: Sequence[Process]) -> str:
    if all(one.launcher or one.rank for one in processes):
        return f"rank{'' if len(processes) == 1 else 's'} {numbers(one.rank for one in processes)}"
    return "pid " + numbers(one.pid for one in processes)


def _few(names: Iterable[str]) -> str:
    """Names in their order, the first of many."""
    known = sorted(set(names))
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return ", ".join(known[:MOST_NAMED]) + more


def jobs(processes: Sequence[Process]) -> list[dict[str, Any]]:
    """The jobs that logs are of, and how many of their ranks there are."""
    by_job: dict[str, list[Process]] = {}
    for process in processes:
        if process.job or process.launcher:
            by_job.setdefault(process.job, []).append(process)
    return [_job(job, ones) for job, ones in
            sorted(by_job.items(), key=lambda item: (-len(item[1]), item[0]))]


def _job(job: str, ones: list[Process]) -> dict[str, Any]:
    world = max(one.world for one in ones)
    ranks = collections.Counter(one.rank for one in ones if one.launcher)
    inside = [rank for rank in ranks if 0 <= rank < world]
    missing = world - len(inside)
    listed = numbers(set(range(world)) - set(inside)) if 0 < missing and world <= MOST_WORLD else ""
    return {
        "job": job or None, "world": world or None, "logs": len(ones), "ranks": len(ranks),
        "hosts": len({one.host for one in ones}),
        "started_ns": min((one.start_ns for one in ones if one.start_ns), default=None),
        "missing": max(missing, 0), "missing_ranks": listed,
        "outside": numbers(set(ranks) - set(inside)) if world else "",
        "again": numbers(rank for rank, logs in ranks.items() if logs > 1),
    }


def warnings(processes: Sequence[Process]) -> Iterator[str]:
    """Sentences on what makes the sums of a job less than they seem, the worst first."""
    known = [group for group in groups(processes) if len(group.processes) > 1]
    for what, of in (("policy", _policy), ("driver", lambda one: one.driver),
                     ("libzc", lambda one: one.libzc)):
        for group in known:
            yield from _differing(what, of, group)
    found = jobs(processes)
    for job in found:
        yield from _of_job(job)
    if len(found) > 1:
        yield (f"the logs are of {len(found)} jobs, whose sums are those of all: "
               + _few(f"{job['job'] or 'one without a name'} ({job['logs']} logs)"
                      for job in found))
    for group in known:
        yield from _clocks(group)


def _policy(process: Process) -> str:
    if not process.policy:
        return "none"
    return f"{process.policy} (hash {process.policy_hash or '?'})"


def _differing(what: str, of: Callable[[Process], str], group: Group) -> Iterator[str]:
    by_value: dict[str, list[Process]] = {}
    for process in group.processes:
        if of(process) and process.pid:  # Else its first line is missing.
            by_value.setdefault(of(process), []).append(process)
    ranked = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(ranked) < 2:
        return
    usual, count = ranked[0][0], len(group.processes)
    others = "; ".join(f"{value} for {_which(ones)}" for value, ones in ranked[1:MOST_NAMED])
    more = f"; and {len(ranked) - MOST_NAMED} more" if len(ranked) > MOST_NAMED else ""
    differ = count - len(ranked[0][1])
    yield (f"{differ} of {count} processes ({group.words}) ran with another {what} than {usual}: "
           f"{others}{more}")


def _of_job(job: dict[str, Any]) -> Iterator[str]:
    called = f"job {job['job']}" if job["job"] else "the job"
    if job["missing"]:
        which = f": {job['missing_ranks']}" if job["missing_ranks"] else ""
        yield (f"{job['missing']} of {job['world']} ranks of {called} left no log{which}. They "
               "never started, never used CUDA, or their logs are elsewhere")
    if job["outside"]:
        yield (f"ranks of {called} are not below its {job['world']} processes, as its launcher's "
               f"variables told them: {job['outside']}")
    if job["again"]:
        yield (f"ranks of {called} have more than one log, because they have several processes or "
               f"were started again: {job['again']}")


def _clocks(group: Group) -> Iterator[str]:
    """Hosts whose ranks seem to begin at another time than most."""
    by_host: dict[str, list[int]] = {}
    for process in group.processes:
        if process.start_ns:
            by_host.setdefault(process.host, []).append(process.start_ns)
    begun = {host: statistics.median_low(starts) for host, starts in by_host.items()}
    if len(begun) < 3 or not group.job:
        return
    usual = statistics.median_low(begun.values())
    apart = {host: at - usual for host, at in begun.items() if abs(at - usual) > CLOCK_S * 10**9}
    if apart and 2 * len(apart) < len(begun):
        yield ("hosts whose clock differs, or whose ranks began at another time than those of "
               "most: " + _few(f"{host or '?'} ({'+' if by > 0 else ''}{units.duration(by)})"
                      for host, by in apart.items()))


def spread(group: Group) -> list[dict[str, Any]]:
    """Least, median and most of each metric, and which rank has it."""
    rows = []
    for metric in METRICS:
        ones = [one for one in group.processes
                if one.state != "cut" and (metric.key != "wall_ns" or one.wall_ns)]
        values = [metric.value(one) for one in ones]
        if any(values):
            # Of equal ones the first is named.
            least, most = (ones[values.index(value)] for value in (min(values), max(values)))
            same = min(values) == max(values)
            rows.append({"metric": metric.key, "of": metric.words, "least": min(values),
                         "least_process": "all" if same else group.name(least),
                         "median": statistics.median_low(values), "most": max(values),
                         "most_process": "all" if same else group.name(most)})
    return rows


def apart(found: Iterable[Group]) -> list[dict[str, Any]]:
    """The ranks that stand out, and by what, the most first."""
    rows = []
    for group in found:
        ones = [one for one in group.processes if one.state != "cut"]
        for metric in METRICS if len(ones) >= LEAST_APART else ():
            rows += _apart(group, metric, [one for one in ones
                                           if metric.key != "wall_ns" or one.wall_ns])
    rows.sort(key=lambda row: (-row.pop("score"), row["process"], row["metric"]))
    return rows


def _apart(group: Group, metric: Metric, ones: list[Process]) -> list[dict[str, Any]]:
    values = [metric.value(one) for one in ones]
    median = statistics.median_low(values) if values else 0
    distance = statistics.median_low([abs(value - median) for value in values]) if values else 0
    least = max(DEVIATIONS * distance, LEAST_DISTANCE * median, 1)
    rows = [{"process": group.name(one), "log": one.path, "metric": metric.key, "of": metric.words,
             "value": value, "median": median, "score": abs(value - median) / least}
            for one, value in zip(ones, values) if abs(value - median) > least]
    return rows if len(rows) <= max(MOST_SHARE * len(ones), 1) else []
