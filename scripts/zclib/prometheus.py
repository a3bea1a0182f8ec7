# SPDX-License-Identifier: MIT
"""The counters of a node's processes in Prometheus' text format, version 0.0.4.

The text is put together here: the client library for Python takes 16 ms for what 64 processes have
(tests/bench/REPORTS.md), and a scrape is to take 20.  Tests have promtool and that library read it.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Callable, Iterable, Iterator, NamedTuple

from . import counters, live, logs

LEFT_S = 300
MOST_LABEL = 256  # Characters of a label's value.

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Labels of every sample.  `pid` tells processes apart that launchers gave no rank, so that no
# series ever falls, as it would if processes that end were in sums.
WHOSE = ("job", "host", "gpu", "rank", "pid", "program")


class Metric(NamedTuple):
    """One family of samples."""

    name: str
    kind: str
    words: str
    unit: str  # As OpenTelemetry has it (UCUM).


COPIES = Metric("zc_copies_total", "counter", "Copies, sets and prefetches, by what became of them",
                "{copy}")
BYTES = Metric("zc_copied_bytes_total", "counter", "Their bytes", "By")
BLOCKED = Metric("zc_blocked_seconds_total", "counter", "Time that their callers waited", "s")
MOVED = Metric("zc_moved_bytes_total", "counter",
               "Bytes that the driver moved, by the real kinds of memory", "By")
BLOCKS = Metric("zc_blocks", "gauge", "Blocks that are live, by place", "{block}")
MEMORY = Metric("zc_memory_bytes", "gauge", "Bytes of them", "By")
PEAK = Metric("zc_memory_peak_bytes", "gauge", "The most bytes at one time, by place", "By")
REFUSED = Metric("zc_refused_calls_total", "counter",
                 "Calls that were refused because of a rule: do not trust the results", "{call}")
START = Metric("zc_start_time_seconds", "gauge", "When the process began, in Unix time", "s")
RUNNING = Metric("zc_running", "gauge", "1 while the process runs, 0 after it was killed", "1")
FAMILIES = (COPIES, BYTES, BLOCKED, MOVED, BLOCKS, MEMORY, PEAK, REFUSED, START, RUNNING)

# Of the exporter itself.
READ = Metric("zc_export_processes", "gauge", "Processes whose counters were read", "{process}")
UNREAD = Metric("zc_export_unreadable", "gauge", "Counters files that can't be read", "{file}")
TOOK = Metric("zc_export_seconds", "gauge", "Time that it took to read them", "s")


def _value(text: str) -> str:
    """A label's value, between its quotes."""
    if text.isalnum():
        return text
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Labels(str):
    """Labels as the text has them, and their pairs."""

    pairs: dict[str, str]


def _labels(pairs: dict[str, str], before: str = "") -> Labels:
    """Of a log, which may be anybody's, values may be of any length and no Unicode."""
    pairs = {name: value[:MOST_LABEL].encode("utf-8", "replace").decode("utf-8")
             for name, value in pairs.items()}
    labels = Labels(before + ",".join(f'{name}="{_value(value)}"'
                                      for name, value in pairs.items()))
    labels.pairs = pairs
    return labels


NO_LABELS = _labels({})

# Takes a sample: the metric, the labels of the process, those beside them, and the value.
Put = Callable[[Metric, Labels, Labels, float], None]


class Source:
    """One process: its counters file, and the labels that its log tells."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._whose: Labels | None = None   # Once its log has told.
        self._pid: int | None = None        # Here; 0 where it ran no more when it was first read.
        self._words = counters.Words()
        self._known: dict[tuple[str, ...], Labels] = {}

    def read(self, put: Put) -> bool:
        """Puts its samples; False after a clean end.  Raises CountersError, OSError."""
        page = counters.Counters(self.path, self._words)
        if page.header.closed:
            return False
        if self._pid is None:
            self._pid = live.writer(page.header.pid, self.path)
        whose = self._whose or self._told(page.header)
        flows, moved = page.flows()
        for row in flows:
            for outcome in counters.OUTCOMES:
                calls = row.get(outcome + "_calls")
                if calls:
                    labels = self._flow(row, outcome)
                    put(COPIES, whose, labels, calls)
                    put(BYTES, whose, labels, row[outcome + "_bytes"])
            put(BLOCKED, whose, self._flow(row), row["blocked_ns"] / 1e9)
        for row in moved:
            put(MOVED, whose, self._flow(row), row["bytes"])
        for row in page.places():
            place = self._kept((row["place"],), lambda: {"place": row["place"]})
            put(BLOCKS, whose, place, row["blocks"])
            put(MEMORY, whose, place, row["bytes"])
            put(PEAK, whose, place, row["peak_bytes"])
        put(REFUSED, whose, NO_LABELS, page.refused()["refused_calls"])
        put(START, whose, NO_LABELS, page.header.start_ns / 1e9)
        put(RUNNING, whose, NO_LABELS, int(logs.is_running(self._pid)))
        return True

    def _kept(self, key: tuple[str, ...], pairs: Callable[[], dict[str, str]]) -> Labels:
        """Labels that are put together once."""
        if key not in self._known:
            self._known[key] = _labels(pairs(), ",")
        return self._known[key]

    def _flow(self, row: logs.Record, *outcome: str) -> Labels:
        """The label of a flow, as `HtoD Pageable Device`; sets and prefetches have one side."""
        key = row["dir"], row["src_kind"], row["dst_kind"], *outcome
        return self._kept(key, lambda: {
            "flow": " ".join(key[:3] if key[0] not in counters.NOT_COPIES else (key[0], key[2])),
            **({"outcome": outcome[0]} if outcome else {})})

    def _told(self, header: counters.Header) -> Labels:
        """The labels that all its samples have, by the first line of its log if that is there."""
        meta = live.meta(self.path)
        gpus = logs.rows(meta, "gpus")
        ranked = logs.string(meta, "rank_source")
        values = (logs.string(meta, "job"), logs.string(meta, "host") or os.uname().nodename,
                  # Of several that a process sees nobody knows which it uses.
                  logs.string(gpus[0], "uuid") if len(gpus) == 1 else "",
                  str(logs.number(meta, "rank")) if ranked else "",
                  str(self._pid or header.pid), header.exe)
        labels = _labels(dict(zip(WHOSE, values)))
        if meta or logs.log_beside(self.path) == self.path:
            self._whose = labels
        return labels


class Exporter:
    """The processes of a node.  `find` returns counters files.  It takes longer than to read their
    counters, so that is not done in each scrape.  What it does not find any more is told for
    LEFT_S, so that a scrape sees how a process ended that was killed."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find
        self._sources: dict[str, Source] = {}
        self._found_s: dict[str, float] = {}   # When each was found last.
        self._lock = threading.Lock()

    def look(self) -> None:
        """Finds processes that have begun."""
        found, now = list(self._find()), time.monotonic()
        with self._lock:
            for path in found:
                self._sources.setdefault(path, Source(path))
                self._found_s[path] = now
            for path in [path for path, last in self._found_s.items() if now - last > LEFT_S]:
                self._leave(path)

    def _leave(self, path: str) -> None:
        self._sources.pop(path, None)
        self._found_s.pop(path, None)

    def each(self, put: Put) -> list[tuple[Metric, float]]:
        """Puts all samples, now.  Returns those of the exporter itself."""
        with self._lock:
            began = time.perf_counter()
            unread = 0
            for source in list(self._sources.values()):
                try:
                    if not source.read(put):
                        self._leave(source.path)
                except FileNotFoundError:
                    self._leave(source.path)  # It has ended.
                except (OSError, counters.CountersError):
                    unread += 1
            return [(READ, len(self._sources) - unread), (UNREAD, unread),
                    (TOOK, round(time.perf_counter() - began, 6))]

    def text(self) -> str:
        """All samples, now."""
        into: dict[Metric, list[str]] = {metric: [] for metric in FAMILIES}

        def put(metric: Metric, whose: Labels, labels: Labels, value: float) -> None:
            into[metric].append(f"{metric.name}{{{whose}{labels}}} {value}")

        for metric, value in self.each(put):
            into[metric] = [f"{metric.name} {value}"]
        return "\n".join(_lines(into)) + "\n"


def _lines(into: dict[Metric, list[str]]) -> Iterator[str]:
    for metric, samples in into.items():
        if samples:
            yield f"# HELP {metric.name} {metric.words}"
            yield f"# TYPE {metric.name} {metric.kind}"
            yield from samples


def mapped() -> list[str]:
    """The counters files of all processes that may be looked at."""
    return list(live.all_mapped().values())
