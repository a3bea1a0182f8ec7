# SPDX-License-Identifier: MIT
"""The transfers as a trace for Perfetto and chrome://tracing.

The format is Chrome's "Trace Event Format", JSON object form.  Every process of the run is a
process of the trace with one thread (track) a stream and calling thread, whose events (`ph` X) are
the calls as the program was blocked in them.  One process more, "link", has a counter track (`ph`
C) for each host: the bytes that copies moved over the link, a second, and if it was measured what
went over it by hardware counter.  Events are written as they
are read, so memory does not grow with them.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, TextIO

from ..logs import Record, number, string
from .links import FROM_DEVICE, TO_DEVICE
from .parts import Flow, Process
from .timeline import Timeline

LINK_PID = 0  # Of the trace; the processes of the run come after it.

# Tracks of a process; streams beyond share one, so that a program that makes a stream for each
# copy does not fill the memory.
MOST_TRACKS = 1000


class Tracks:
    """The tracks of one process, and where the last event on each ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._known: dict[tuple[str, int], int] = {}
        self.ends: dict[int, int] = {}

    def of(self, stream: str, thread: int) -> tuple[int, bool]:
        """The track's id from 1 on, and whether it is a new one."""
        key = (stream, thread)
        if key not in self._known and len(self._known) >= MOST_TRACKS:
            key = ("", 0)
        fresh = key not in self._known
        return self._known.setdefault(key, len(self._known) + 1), fresh


class Trace:
    """Writes a trace while logs are read: it watches transfers.  close() ends the file.  Times
    count from `start_ns`, because Unix time has too many digits for the format's numbers."""

    def __init__(self, out: TextIO, start_ns: int) -> None:
        self._out = out
        self._first = True
        self._start_ns = start_ns
        self._tracks: Tracks | None = None
        self._process: Process | None = None
        self._processes = 0
        self._links: dict[str, Timeline] = {}
        self._measured: dict[str, Timeline] = {}
        self.events = 0
        out.write('{"displayTimeUnit":"ns","traceEvents":[\n')

    def _write(self, event: dict[str, Any]) -> None:
        self._out.write(("" if self._first else ",\n") + json.dumps(event))
        self._first = False

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        self._write({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}})

    def _us(self, time_ns: int) -> float:
        """The format's microseconds, to the nanosecond; clocks of hosts may differ, and no time
        is negative."""
        return max(time_ns - self._start_ns, 0) / 1000

    def _begin(self, process: Process) -> Tracks:
        if self._tracks is None or self._process is not process:
            self._process = process
            self._processes += 1
            self._tracks = Tracks(self._processes)
            self._name("process_name", self._tracks.pid, 0, f"{process.exe} ({process.name})")
        return self._tracks

    def transfer(self, process: Process, record: Record, flow: Flow) -> None:
        tracks = self._begin(process)
        stream, thread = string(record, "stream"), number(record, "thread")
        tid, fresh = tracks.of(stream, thread)
        if fresh:
            self._name("thread_name", tracks.pid, tid, _track_name(stream, thread))
        end = number(record, "time_ns")
        # Elements of a batch share its time evenly, so one may seem to begin within the one before;
        # events of a track must not overlap.
        start = max(end - number(record, "blocked_ns"), tracks.ends.get(tid, 0))
        end = max(end, start)
        tracks.ends[tid] = end
        self.events += 1
        self._write({
            "ph": "X", "name": flow.dir, "cat": "transfer", "pid": tracks.pid, "tid": tid,
            "ts": self._us(start), "dur": (end - start) / 1000,
            "args": {name: record.get(name) for name in (
                "function", "bytes", "outcome", "src_kind", "dst_kind", "real_dir", "src_block",
                "dst_block")},
        })
        real = string(record, "real_dir", flow.dir)
        if string(record, "outcome") == "moved" and real in (*TO_DEVICE, *FROM_DEVICE):
            self._links.setdefault(process.host, Timeline()).add(end, real, number(record, "bytes"))

    def link(self, host: str, record: Record, to_device: int, from_device: int) -> None:
        """Bytes by hardware counter, which zc run records."""
        timeline = self._measured.setdefault(host, Timeline())
        at = number(record, "time_ns")
        if at > 0:
            timeline.add(at, "to device", to_device)
            timeline.add(at, "from device", from_device)

    def close(self) -> None:
        """Writes the link's counters and the end."""
        if self._links or self._measured:
            self._name("process_name", LINK_PID, 0, "link")
        for host, timeline in sorted(self._links.items()):
            self._link(f"{host or '?'}: copies, MB/s", timeline)
        for host, timeline in sorted(self._measured.items()):
            self._link(f"{host or '?'}: by hardware counter, MB/s", timeline)
        self._out.write("\n]}\n")

    def _link(self, name: str, timeline: Timeline) -> None:
        """The rate of each bucket, and zero behind the last."""
        series = timeline.series()
        rows = timeline.rows()
        for start_ns, bucket in [*rows, (rows[-1][0] + timeline.width_ns, {})]:
            # A thousandth of bytes a nanosecond is a MB a second.
            self._write({"ph": "C", "name": name, "pid": LINK_PID, "tid": 0,
                         "ts": self._us(start_ns),
                         "args": {each: 1000 * bucket.get(each, 0) / timeline.width_ns
                                  for each in series}})


def earliest(paths: Iterable[str]) -> int:
    """The least time that the logs begin at, from the first line of each; 0 where none tells."""
    times = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                record = json.loads(file.readline(1 << 16))
            if isinstance(record, dict) and number(record, "time_ns") > 0:
                times.append(number(record, "time_ns"))
        except (OSError, ValueError):
            continue
    return min(times, default=0)


def _track_name(stream: str, thread: int) -> str:
    words = {"": "further streams" if thread == 0 else "stream unknown", "none": "no stream"}
    name = words.get(stream, f"stream {stream}")
    return f"{name}, thread {thread}" if thread else name
