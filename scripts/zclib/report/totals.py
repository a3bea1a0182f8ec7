# SPDX-License-Identifier: MIT
"""The sums over all logs, read one after another in one pass."""

from __future__ import annotations

import functools
from typing import Callable, Sequence

from ..logs import Log, LogError, Problem
from ..refusals import Refusals
from . import parallel
from .counts import Counts
from .levels import Levels
from .links import Links
from .memory import MemorySum, Side, add_sums
from .parts import Block, Flow, FlowSum, Pair, Process, Site, Sums, add_counts
from .process import ProcessLog, Watcher
from .shared import Shared
from .timeline import Timeline
from .top import Top

LEVELS = ("summary", "allocs", "events", "deep")

# Call paths of all processes together; processes of one program share theirs.
MOST_SITES = 20_000


class Totals:
    """Everything that reports tell, over all processes.  `most` blocks and repeated copies are
    kept, blocks by the attribute of Counts that `key` names.  What is only known `over_time` takes
    a third of the time to read, and texts do not show it."""

    def __init__(self, most: int, key: str = "asked_bytes", over_time: bool = False) -> None:
        self.processes: list[Process] = []
        self.counts = Counts()                     # All copies.
        self.pageable = FlowSum()                  # Copies of pageable memory that were moved,
        self.waiting = Counts()                    # and the asynchronous ones of them; by events.
        self.flows: dict[Flow, FlowSum] = {}
        self.moved_by_kind: dict[Flow, list[int]] = {}  # Calls and bytes by the real kinds.
        self.memory: dict[Side, MemorySum] = {}    # Pageable memory by what it is.
        self.sites: dict[str, Site] = {}
        self.sites_left_out = 0                    # Beyond MOST_SITES: those of least traffic.
        self.blocks: Top[Block] = Top(most)
        self.repeated: Top[Pair] = Top(most)       # Repeated copies, by the bytes of the repeats.
        self.modules: dict[str, tuple[str, str] | None] = {}
        self.warns: dict[tuple[str, str], list] = {}
        self.links = Links()
        self.shared: dict[str, Shared] = {}        # By the device block's site.
        self.callers: dict[str, dict[str, Counts]] = {}  # Copies by call path and direction.
        self.unreadable: list[str] = []            # Messages on files that could not be read.
        self.odd = 0
        self.times = Timeline()                    # Bytes of transfers, see parts.SERIES; and
        self.site_times = Timeline()               # of copies, by site.
        self.levels = Levels()                     # Memory by place.
        self._key = key
        self._most = most
        self._over_time = over_time
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Shows it every transfer that is read from here on."""
        self._watchers.append(watcher)

    @property
    def level(self) -> str:
        """The level that most was logged at by any process."""
        return max((process.level for process in self.processes), key=LEVELS.index,
                   default="summary")

    @property
    def wall_ns(self) -> int:
        """The sum of the processes' times."""
        return sum(process.wall_ns for process in self.processes)

    @property
    def simulated(self) -> bool:
        """Whether a process ran on a simulated GPU, whose times mean nothing."""
        return any(process.gpu.startswith("Simulated") for process in self.processes)

    @property
    def start_ns(self) -> int:
        """When the first process began, in Unix nanoseconds; 0 where that is not known."""
        return min((process.start_ns for process in self.processes if process.start_ns > 0),
                   default=0)

    def refusals(self) -> Refusals:
        """The calls that were refused in all processes."""
        return Refusals.of(process.refusals for process in self.processes)

    def peak(self, place: str) -> int:
        """The most bytes that one process had in a place at a time."""
        return max((process.peaks.get(place, 0) for process in self.processes), default=0)

    def places(self) -> list[str]:
        """All places that were used, in the order of first sight."""
        return list(dict.fromkeys(place for process in self.processes for place in process.peaks))

    def read(self, paths: Sequence[str], warn: Callable[[Problem], None],
             progress: Callable[[int], None] | None = None) -> None:
        """Reads logs: many of them by several processes, unless somebody watches.  A file that
        can't be read at all is noted in `unreadable`."""
        jobs = 1 if self._watchers else parallel.jobs(paths)
        if jobs > 1:
            read = functools.partial(_read_part, self._most, self._key, self._over_time)
            for part, problems, size in parallel.read_all(paths, read, jobs):
                for problem in problems:
                    warn(problem)
                if progress:
                    progress(size)
                self._merge(part)
            return
        for path in paths:
            try:
                log = ProcessLog(Log(path, warn, progress), self._watchers, self._most, self._key,
                                 self._over_time)
                self._take(log.read())
            except LogError as error:
                self.unreadable.append(str(error))

    def _take(self, sums: Sums) -> None:
        """Adds what one log comes to."""
        self.links.add_log(sums.links)
        if not sums.is_process:
            return
        self.processes.append(sums.process)
        self.counts.add(sums.process.counts)
        self._add(sums)

    def _merge(self, other: Totals) -> None:
        """Adds what the logs that follow come to."""
        self.links.add(other.links)
        self.processes += other.processes
        self.counts.add(other.counts)
        self.unreadable += other.unreadable
        self.sites_left_out += other.sites_left_out
        self._add(other)

    def _add(self, one: Sums | Totals) -> None:
        """Adds what the sums of one log and of several have in common."""
        self.pageable.add(one.pageable)
        self.waiting.add(one.waiting)
        self.odd += one.odd
        for flow, total in one.flows.items():
            self.flows.setdefault(flow, FlowSum()).add(total)
        for flow, moved in one.moved_by_kind.items():
            both = self.moved_by_kind.setdefault(flow, [0, 0])
            both[0] += moved[0]
            both[1] += moved[1]
        add_sums(self.memory, one.memory)
        for key, (times, text) in one.warns.items():
            self.warns.setdefault(key, [0, text])[0] += times
        for name, module in one.modules.items():
            # Two builds of one name: a frame does not tell which is meant.
            self.modules[name] = module if self.modules.get(name, module) == module else None
        self.blocks.merge(one.blocks)
        self.repeated.merge(one.repeated)
        self.times.merge(one.times)
        self.site_times.merge(one.site_times)
        self.levels.merge(one.levels)
        for name, shared in one.shared.items():
            self.shared.setdefault(name, Shared()).add(shared)
        self._add_sites(one.sites)
        for name, by_dir in one.callers.items():
            # Of the frames of paths beyond nothing is kept either.
            if name in self.callers or len(self.callers) < MOST_SITES:
                add_counts(self.callers.setdefault(name, {}), by_dir)

    def _add_sites(self, sites: dict[str, Site]) -> None:
        for name, site in sites.items():
            self.sites.setdefault(name, Site(name)).add(site)
        if len(self.sites) <= MOST_SITES:
            return
        ranked = sorted(self.sites.values(), key=lambda site: -site.copies().asked_bytes)
        self.sites_left_out += len(ranked) - MOST_SITES // 2
        self.sites = {site.id: site for site in ranked[:MOST_SITES // 2]}


def _read_part(most: int, key: str, over_time: bool,
               paths: list[str]) -> tuple[Totals, list[Problem], int]:
    """What some of the logs come to, what is wrong with them, and their bytes."""
    problems: list[Problem] = []
    totals = Totals(most, key, over_time)
    for path in paths:
        try:
            log = ProcessLog(Log(path, problems.append), (), most, key, over_time)
            totals._take(log.read())
        except LogError as error:
            totals.unreadable.append(str(error))
    return totals, problems, sum(map(parallel.size_of, paths))
