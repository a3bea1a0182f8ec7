# SPDX-License-Identifier: MIT
"""Events as a trace for Perfetto and chrome://tracing.

The format is Chrome's "Trace Event Format", JSON object form.  Every process of the run is a
process of the trace.  It has one thread (track) a stream and calling thread, whose events (`ph` X)
are the calls as the program was blocked in them; a track "memory" with an event for each allocation
and free; and counters (`ph` C) of the memory in each place.  Arrows (`bind_id`) lead from a block's
allocation to each of its copies in turn and to its free.  One process more, "link", has counters
for each host: the rate at which calls copied over the link, the sum of what calls issued without
waiting for it, and what went over it by hardware counter if that was measured.  No process has the
number 0, which Perfetto takes for the kernel's idle task.  Events are written as they are read, so
memory does not grow with them.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, TextIO

from ..logs import Record, call_path, innermost, number, string
from .flow import Flow
from .links import FROM_DEVICE, TO_DEVICE
from .parts import Process
from .timeline import Timeline
from .transfers import is_issued

MEMORY_TRACK = 1  # Of each process; those of streams come after it.

# Tracks of a process; streams beyond share one, so that a program that makes a stream for each
# copy does not fill the memory.  Blocks and sites likewise: those beyond have no arrows and names.
MOST_TRACKS = 1000
MOST_BLOCKS = 200_000
MOST_SITES = 20_000


class OneProcess:
    """State of one process while its log is read."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ends: dict[int, int] = {}               # End of each track's last event.
        self.blocks: dict[int, tuple[int, str, str]] = {}  # Size, place and site of live ones.
        self.places: dict[str, int] = {}
        self._tracks: dict[tuple[str, int], int] = {}

    def track(self, stream: str, thread: int) -> tuple[int, bool]:
        """The id of a stream's track, and whether it is a new one."""
        key = (stream, thread)
        if key not in self._tracks and len(self._tracks) >= MOST_TRACKS:
            key = ("", 0)
        fresh = key not in self._tracks
        return self._tracks.setdefault(key, MEMORY_TRACK + 1 + len(self._tracks)), fresh


class Trace:
    """Writes a trace while logs are read, which it watches.  close() ends the file.  Times count
    from `start_ns`, because Unix time has too many digits for the format's numbers."""

    def __init__(self, out: TextIO, start_ns: int) -> None:
        self._out = out
        self._first = True
        self._start_ns = start_ns
        self._one: OneProcess | None = None
        self._process: Process | None = None
        self._processes = 0
        self._callers: dict[str, str] = {}  # Innermost frame by site.
        self._rates: dict[str, Timeline] = {}
        self._issued: dict[str, Timeline] = {}
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

    def _of(self, process: Process) -> OneProcess:
        if self._one is None or self._process is not process:
            self._process = process
            self._processes += 1
            self._one = OneProcess(self._processes)
            self._name("process_name", self._one.pid, 0, f"{process.program} ({process.name})")
        return self._one

    def _slice(self, one: OneProcess, tid: int, start_ns: int, end_ns: int,
               **fields: Any) -> None:
        """An event of a track, behind the one before."""
        # Elements of a batch share its time evenly, so one may seem to begin within the one before;
        # events of a track must not overlap.
        start_ns = max(start_ns, one.ends.get(tid, 0))
        end_ns = max(end_ns, start_ns)
        one.ends[tid] = end_ns
        self._write({"ph": "X", "pid": one.pid, "tid": tid, "ts": self._us(start_ns),
                     "dur": (end_ns - start_ns) / 1000, **fields})

    @staticmethod
    def _arrow(one: OneProcess, block: int, comes: bool, goes: bool) -> dict[str, Any]:
        """The fields by which events of one block are bound to each other."""
        if block not in one.blocks:
            return {}
        return {"bind_id": hex(one.pid << 40 | block), **({"flow_in": True} if comes else {}),
                **({"flow_out": True} if goes else {})}

    def site(self, record: Record) -> None:
        frames = call_path(record)
        if frames and len(self._callers) < MOST_SITES:
            self._callers.setdefault(string(record, "site"), innermost(frames))

    def _where(self, site: str) -> dict[str, str]:
        return {"site": site, "caller": self._callers.get(site, "")} if site else {}

    def alloc(self, process: Process, record: Record) -> None:
        one, block = self._of(process), number(record, "block")
        size, place, site = (number(record, "size_bytes"), string(record, "place", "?"),
                             string(record, "site"))
        if len(one.blocks) >= MOST_BLOCKS:
            return
        if MEMORY_TRACK not in one.ends:
            self._name("thread_name", one.pid, MEMORY_TRACK, "memory")
        one.blocks[block] = (size, place, site)
        self.events += 1
        at = number(record, "time_ns")
        self._slice(one, MEMORY_TRACK, at, at, name=f"allocate, {place}", cat="alloc",
                    args={"block": block, "size_bytes": size, "place": place,
                          "range": record.get("range"), **self._where(site),
                          "api": string(record, "api"), "rule": record.get("rule")},
                    **self._arrow(one, block, False, True))
        self._levels(one, at, record, 1)

    def free(self, process: Process, record: Record) -> None:
        one, block = self._of(process), number(record, "block")
        if block not in one.blocks:
            return
        size, place, site = one.blocks[block]
        at = number(record, "time_ns")
        self._slice(one, MEMORY_TRACK, at, at, name=f"free, {place}", cat="free",
                    args={"block": block, "size_bytes": size, "place": place, **self._where(site)},
                    **self._arrow(one, block, True, False))
        del one.blocks[block]
        self._levels(one, at, record, -1)

    def move(self, process: Process, record: Record) -> None:
        one, at = self._of(process), number(record, "time_ns")
        block, out = number(record, "block"), string(record, "to") == "host"
        if block not in one.blocks:
            return
        gone = number(record, "bytes") if out else -number(record, "bytes")
        self._level(one, at, one.blocks[block][1], -gone)
        self._level(one, at, "mapped", gone)

    def _levels(self, one: OneProcess, time_ns: int, record: Record, sign: int) -> None:
        """Counts a block that comes or goes, and its end in host memory apart."""
        size, spilled = number(record, "size_bytes"), number(record, "spilled_bytes")
        self._level(one, time_ns, string(record, "place", "?"), sign * (size - spilled))
        if spilled:
            self._level(one, time_ns, "mapped", sign * spilled)

    def _level(self, one: OneProcess, time_ns: int, place: str, change: int) -> None:
        one.places[place] = one.places.get(place, 0) + change
        self._write({"ph": "C", "name": f"memory: {place}", "pid": one.pid, "tid": 0,
                     "ts": self._us(time_ns), "args": {"bytes": one.places[place]}})

    def transfer(self, process: Process, record: Record, flow: Flow) -> None:
        one = self._of(process)
        stream, thread = string(record, "stream"), number(record, "thread")
        tid, fresh = one.track(stream, thread)
        if fresh:
            self._name("thread_name", one.pid, tid, _track_name(stream, thread))
        end = number(record, "time_ns")
        start = end - number(record, "blocked_ns")
        near = self._near(one, record, flow)
        issued = is_issued(record)
        self.events += 1
        self._slice(one, tid, start, end, name=flow.dir, cat="transfer", args={
            **{name: record.get(name) for name in (
                "function", "bytes", "outcome", "src_kind", "dst_kind", "real_dir", "src_block",
                "dst_block", "range")},
            **({"links": record["links"]} if "links" in record else {}),
            **self._where(one.blocks[near][2] if near in one.blocks else ""),
            **{f"call_{name}": value
               for name, value in self._where(string(record, "call_site")).items()},
            "waits": not issued}, **self._arrow(one, near, True, True))
        real = string(record, "real_dir", flow.dir)
        if string(record, "outcome") == "moved" and real in (*TO_DEVICE, *FROM_DEVICE):
            timelines = self._issued if issued else self._rates
            timelines.setdefault(process.host, Timeline()).add(
                max(start, process.start_ns), max(end, process.start_ns), real,
                number(record, "bytes"))

    @staticmethod
    def _near(one: OneProcess, record: Record, flow: Flow) -> int:
        """The block that a copy is about: on the device's side if there is one."""
        src, dst = number(record, "src_block"), number(record, "dst_block")
        return dst if dst in one.blocks and flow.dst != "Pinned" else src or dst

    def link(self, host: str, record: Record, to_device: int, from_device: int) -> None:
        """Bytes by hardware counter, which zc run records."""
        timeline = self._measured.setdefault(host, Timeline())
        at = number(record, "time_ns")
        if at > 0:
            timeline.add(at, at, "to device", to_device)
            timeline.add(at, at, "from device", from_device)

    def end(self, process: Process, time_ns: int) -> None:
        """Its memory is gone; what is known of it, too."""
        if self._one is not None and self._process is process:
            for place, level in self._one.places.items():
                if level:
                    self._level(self._one, time_ns, place, -level)
            self._one = self._process = None

    def close(self) -> None:
        """Writes the link's counters and the end."""
        if self._rates or self._issued or self._measured:
            self._name("process_name", self._processes + 1, 0, "link")
        for timelines, what in ((self._rates, "copies that calls waited for, MB/s"),
                                (self._measured, "by hardware counter, MB/s")):
            for host, timeline in sorted(timelines.items()):
                self._rate(f"{host or '?'}: {what}", timeline)
        for host, timeline in sorted(self._issued.items()):
            self._sum(f"{host or '?'}: issued without waiting, bytes so far", timeline)
        self._out.write("\n]}\n")

    def _count(self, name: str, time_ns: int, args: dict[str, float]) -> None:
        self._write({"ph": "C", "name": name, "pid": self._processes + 1, "tid": 0,
                     "ts": self._us(time_ns), "args": args})

    def _rate(self, name: str, timeline: Timeline) -> None:
        """The rate of each bucket that is unlike the one before, and zero behind the last."""
        series, rows, last = timeline.series(), timeline.rows(), None
        for start_ns, bucket in [*rows, (rows[-1][0] + timeline.width_ns, {})] if rows else []:
            # A thousandth of bytes a nanosecond is a MB a second.  Three digits, so that the odd
            # byte of one bucket makes no new value.
            rates = {str(each): float(f"{1000 * bucket.get(each, 0) / timeline.width_ns:.3g}")
                     for each in series}
            if rates != last:
                self._count(name, start_ns, rates)
            last = rates

    def _sum(self, name: str, timeline: Timeline) -> None:
        sums = dict.fromkeys(map(str, timeline.series()), 0)
        for start_ns, bucket in timeline.rows():
            for series, size in bucket.items():
                sums[str(series)] += size
            if bucket:
                self._count(name, start_ns, sums)


def earliest(paths: Iterable[str]) -> int:
    """The least time that the logs begin at, from the first line of each; 0 where none tells."""
    times = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                record = json.loads(file.readline(1 << 16))
            if isinstance(record, dict) and number(record, "time_ns") > 0:
                times.append(number(record, "time_ns"))
        except (OSError, ValueError, RecursionError):
            continue
    return min(times, default=0)


def _track_name(stream: str, thread: int) -> str:
    words = {"": "further streams" if thread == 0 else "stream unknown", "none": "no stream"}
    name = words.get(stream, f"stream {stream}")
    return f"{name}, thread {thread}" if thread else name
