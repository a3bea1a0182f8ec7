# SPDX-License-Identifier: MIT
"""Sums of logs: processes, flows, sites, blocks, repeated copies."""

from __future__ import annotations

import shlex
import sys
from typing import Iterable, NamedTuple

from .. import names
from ..counters import NOT_COPIES
from ..logs import Record, number, rows, string, strings
from ..refusals import Refusals
from .counts import Counts
from .covered import Covered
from .flow import Flow
from .levels import Levels
from .links import LinkLog
from .memory import MemorySum, Side
from .ranges import Ranges
from .shared import Shared
from .sizes import Sizes
from .tally import count_name
from .timeline import Timeline
from .top import Top

MOST_ARGUMENTS = 200  # Characters of a command line.
MOST_NATIVES = 16  # Of a site; a rule lists them.


class FlowSum:
    """A flow's counts, and the sizes of its transfers, which only the level `events` tells."""

    __slots__ = ("counts", "sizes")

    def __init__(self) -> None:
        self.counts = Counts()
        self.sizes = Sizes()

    def add(self, other: FlowSum) -> None:
        self.counts.add(other.counts)
        self.sizes.merge(other.sizes)


class Site:
    """A call path of requests and the traffic of its blocks, over all processes."""

    __slots__ = ("id", "frames", "natives", "processes", "requests", "requested_bytes", "frees",
                 "by_dir", "flows", "apis", "places", "rules", "whys", "hints", "least", "greatest",
                 "repeated_calls", "repeated_bytes")

    def __init__(self, name: str) -> None:
        self.id = name
        self.frames: tuple[str, ...] = ()          # As call_path() has them.
        self.natives: tuple[str, ...] = ()         # Its ids without Python functions, for rules.
        self.processes = 0                         # How many had it.
        self.requests = 0
        self.requested_bytes = 0
        self.frees = 0
        self.by_dir: dict[str, Counts] = {}
        self.flows: dict[Flow, Counts] = {}        # Level events alone.
        self.apis: dict[str, int] = {}             # Requests by name; from allocs on, as the rest.
        self.places: dict[str, int] = {}
        self.rules: dict[str, int] = {}
        self.whys: dict[str, int] = {}             # Why places of a rule were passed over.
        self.hints: dict[str, int] = {}            # Moves of blocks, with the reason.
        self.least = self.greatest = 0             # Sizes of requests in bytes.
        self.repeated_calls = 0                    # Copies like an earlier one, level events alone.
        self.repeated_bytes = 0

    def copies(self) -> Counts:
        """The sum of its copies, sets and prefetches left out."""
        return sum_of(self.by_dir)

    def add_natives(self, names: Iterable[str]) -> None:
        self.natives = tuple(sorted({*self.natives, *filter(None, names)})[:MOST_NATIVES])

    def add_alloc(self, record: Record) -> None:
        size = number(record, "size_bytes")
        self.least = min(self.least, size) if self.greatest else size
        self.greatest = max(self.greatest, size)
        for names, field in ((self.apis, "api"), (self.places, "place"), (self.rules, "rule"),
                             (self.whys, "why")):
            name = string(record, field)
            if name:
                count_name(names, name, 1)

    def add(self, other: Site) -> None:
        """Adds the same site of other processes."""
        # Equal, but for damage: the id is a hash of them.
        self.frames = max(self.frames, other.frames)
        self.add_natives(other.natives)
        self.processes += other.processes
        self.requests += other.requests
        self.requested_bytes += other.requested_bytes
        self.frees += other.frees
        self.repeated_calls += other.repeated_calls
        self.repeated_bytes += other.repeated_bytes
        add_counts(self.by_dir, other.by_dir)
        add_counts(self.flows, other.flows)
        for name in ("apis", "places", "rules", "whys", "hints"):
            for key, times in getattr(other, name).items():
                count_name(getattr(self, name), key, times)
        if other.greatest:
            self.least = min(self.least, other.least) if self.greatest else other.least
            self.greatest = max(self.greatest, other.greatest)


class Block:
    """A block with its traffic by direction."""

    __slots__ = ("process", "id", "site", "api", "size", "spilled", "place", "rule", "live",
                 "alloc_ns", "free_ns", "by_dir", "uses", "grown")

    def __init__(self, process: Process, record: Record) -> None:
        self.process = process
        self.id = number(record, "block")
        self.site = sys.intern(string(record, "site"))
        self.api = sys.intern(string(record, "api"))
        self.size = number(record, "size_bytes")
        self.spilled = number(record, "spilled_bytes")  # Of them in host memory, not in `place`.
        self.place = sys.intern(string(record, "place"))
        self.rule = sys.intern(string(record, "rule"))
        self.live = False                          # At the process's end.
        self.alloc_ns = self.free_ns = 0           # When; 0 where that is not known.
        self.by_dir: dict[str, Counts] = {}
        # Calls, bytes and time of its transfers by flow and outcome, until it is gone.
        self.uses: dict[tuple[Flow, str], list[int]] = {}
        # Its last copy to a larger block: that, bytes and time.
        self.grown: tuple[Block, int, int] | None = None

    def use(self, kind: tuple[Flow, str], size: int, blocked_ns: int) -> None:
        """Counts one transfer."""
        use = self.uses.get(kind)
        if use is None:
            self.uses[kind] = [1, size, blocked_ns]
        else:
            use[0] += 1
            use[1] += size
            use[2] += blocked_ns

    @property
    def order(self) -> tuple:
        """Which comes first of blocks of one rank."""
        return (self.process.order, self.id)

    def copies(self) -> Counts:
        return sum_of(self.by_dir)


class Pair:
    """Copies of one size between the same two ends, one after another."""

    __slots__ = ("process", "flow", "size", "src", "dst", "site", "counts")

    def __init__(self, process: Process, flow: Flow, size: int, src: str, dst: str,
                 site: str) -> None:
        self.process = process
        self.flow = flow
        self.size = size
        self.src = src                             # "block N", an address, or "?".
        self.dst = dst
        self.site = site                           # Of the block on the device's side, else "".
        self.counts = Counts()

    @property
    def order(self) -> tuple:
        """Which comes first of pairs of one rank."""
        return (self.process.order, self.flow, self.size, self.src, self.dst)


class Process:
    """The facts of one log about its process as a whole."""

    __slots__ = ("path", "host", "rank", "pid", "exe", "program", "hides_python", "arguments",
                 "command", "policy", "policy_hash", "gpu", "driver", "libzc", "start_ns",
                 "wall_ns", "end_ns", "driver_start_ns", "counts", "pageable_asked",
                 "pageable_moved", "untracked", "lost_lines", "refusals", "missed", "moves",
                 "unmet", "peaks",
                 "level", "state", "job", "world", "launcher", "gpus")

    def __init__(self, path: str) -> None:
        self.path = path
        self.program = ""                          # The usual name (names.program()).
        self.host = self.exe = self.arguments = self.policy = self.policy_hash = self.gpu = ""
        self.driver = self.libzc = self.command = ""
        self.hides_python = False
        self.job = self.launcher = ""              # The launcher is who told the rank.
        self.rank = self.pid = 0
        self.world = 0                             # 0 where it is not known.
        self.gpus = 0                              # That it sees; 0 where it is not known.
        self.start_ns = self.wall_ns = self.driver_start_ns = 0
        self.end_ns = 0                            # Unix time of its last line; 0: it has none.
        self.counts = Counts()
        self.pageable_asked = self.pageable_moved = 0
        self.untracked = self.lost_lines = 0
        self.refusals = Refusals()
        self.missed: Record = {}                   # If the policy's rules took nothing at all.
        self.moves: Record = {}                    # Of blocks with `spill = move` or `fetch`.
        self.unmet: Record = {}                    # Requests that the device had no memory for.
        self.peaks: dict[str, int] = {}            # Most bytes at one time, by place.
        self.level = "summary"                     # As its lines show it.
        self.state = "cut"                         # One of STATES.

    def take_meta(self, meta: Record) -> None:
        policy = meta.get("policy")
        self.host = sys.intern(string(meta, "host"))
        self.exe = sys.intern(string(meta, "exe"))
        self.program = sys.intern(names.program(self.exe, strings(meta, "argv")))
        # An interpreter, and nobody has asked for Python's functions.
        self.hides_python = self.exe.startswith("python") and "python" not in meta
        self.arguments = sys.intern(" ".join(strings(meta, "argv"))[:MOST_ARGUMENTS])
        # As a shell takes it; "" where it is too long to be shown.
        command = shlex.join(strings(meta, "argv"))
        self.command = sys.intern(command) if len(command) <= MOST_ARGUMENTS else ""
        self.policy = sys.intern(string(policy, "file")) if isinstance(policy, dict) else ""
        self.policy_hash = sys.intern(string(policy, "hash")) if self.policy else ""
        self.gpu = sys.intern(string(meta, "gpu"))
        driver = number(meta, "driver")            # 13000 is CUDA 13.0.
        self.driver = f"{driver // 1000}.{driver % 1000 // 10}" if driver > 0 else ""
        self.libzc = sys.intern(string(meta, "libzc"))
        self.job = sys.intern(string(meta, "job"))
        self.launcher = sys.intern(string(meta, "rank_source"))
        self.world = number(meta, "world")
        self.gpus = len(rows(meta, "gpus"))
        self.rank = number(meta, "rank")
        self.pid = number(meta, "pid")
        self.start_ns = number(meta, "time_ns")

    @property
    def order(self) -> tuple:
        """In which order processes are named, whoever read their logs."""
        return (self.path, self.host, self.rank, self.pid, self.start_ns)

    @property
    def name(self) -> str:
        """Host, rank and process, as far as they are known."""
        return f"{self.host or '?'} rank {self.rank} pid {self.pid}"


# Series of the timeline beside the real directions of what the driver moved.
SERIES = {"cpu_copied": "CPU copied", "elided": "Elided"}


class Sums:
    """The sums of one log.  Of blocks and repeated copies it holds the first `most`."""

    __slots__ = ("process", "is_process", "flows", "pageable", "waiting", "moved_by_kind", "memory",
                 "sites", "modules", "warns", "blocks", "repeated", "times", "site_times",
                 "levels", "links", "shared", "covered", "callers",
                 "ranges", "odd")

    def __init__(self, path: str, most: int) -> None:
        self.process = Process(path)
        self.is_process = False                        # Else it is empty, or a recording.
        self.flows: dict[Flow, FlowSum] = {}
        self.pageable = FlowSum()                      # Copies of pageable memory that were moved,
        self.waiting = Counts()                        # and the asynchronous ones of them.
        self.moved_by_kind: dict[Flow, list[int]] = {}  # Calls and bytes by the real kinds.
        self.memory: dict[Side, MemorySum] = {}        # Of the summary: pageable memory.
        self.sites: dict[str, Site] = {}
        self.modules: dict[str, tuple[str, str]] = {}  # Name to path and build id.
        self.warns: dict[tuple[str, str], list] = {}   # Severity and code to count, first text.
        self.blocks: Top[Block] = Top(most)            # Those that were copied.
        self.repeated: Top[Pair] = Top(most)           # By the bytes of the repeats.
        self.times = Timeline()                        # Bytes of transfers, see SERIES; and
        self.site_times = Timeline()                   # of copies, by site.
        self.levels = Levels()                         # Memory by place.
        self.links = LinkLog()                         # Of a recording by zc run.
        self.shared: dict[str, Shared] = {}            # By the device block's site.
        self.covered = Covered()                       # By the preset everyday.
        self.callers: dict[str, dict[str, Counts]] = {}  # Copies by call path and direction.
        self.ranges = Ranges()
        self.odd = 0                                   # Records with fields of a wrong type.


# How a process's log ends.
STATES = {
    "ended": "ended by exit",
    "killed": "ended without exit; totals from the counters file",
    "running": "still running; totals from the counters file",
    "cut": "no totals: the log ends before the summary",
}


def add_counts(into: dict, other: dict) -> None:
    """Adds dicts of Counts key by key."""
    for key, counts in other.items():
        into.setdefault(key, Counts()).add(counts)


def sum_of(by_dir: dict[str, Counts]) -> Counts:
    """The sum over the directions that are copies."""
    total = Counts()
    for name, counts in by_dir.items():
        if name not in NOT_COPIES:
            total.add(counts)
    return total
