# SPDX-License-Identifier: MIT
"""The sums over logs: what one comes to, and what two come to together.

merge() is associative and commutative: sums are sums, lists have an order of their own, and what is
left out where there is too much does not depend on who was first.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from .. import presets, units
from ..logs import Log, LogError, Problem, number, string
from ..refusals import Refusals
from .counts import Counts
from .covered import Covered
from .flow import Flow
from .levels import Levels
from .links import Links
from .memory import MemorySum, Side, add_sums
from .parts import Block, FlowSum, Pair, Process, Site, Sums, add_counts
from .process import MOST_WARNS, ProcessLog, Watcher
from .ranges import Ranges
from .shared import Shared
from .tally import OTHERS, beyond
from .timeline import Timeline
from .top import Top

LEVELS = ("summary", "allocs", "events")

# Call paths, and modules, of all processes together; processes of one program share theirs.
MOST_SITES = 20_000

# Faults of logs that are named; of thousands of one kind nobody reads more.
MOST_PROBLEMS = 20

# Of what totals are; those of different versions do not add up.
VERSION = 1


class Options(NamedTuple):
    """The extent of what is kept of logs."""

    most: int = 5                # Blocks and repeated copies,
    key: str = "asked_bytes"     # blocks by this attribute of Counts.
    # Data that is only known over time takes a third of the time to read, and texts do not show it.
    over_time: bool = False


class VersionError(Exception):
    """Totals that do not add up, because another zc made them; the text is a whole message."""


class Totals:
    """Everything that reports tell, over all processes."""

    def __init__(self, options: Options) -> None:
        self.version = VERSION
        self.options = options
        most = options.most
        self.processes: list[Process] = []
        self.counts = Counts()                     # All copies.
        self.pageable = FlowSum()                  # Copies of pageable memory that were moved,
        self.waiting = Counts()                    # and the asynchronous ones of them; by events.
        self.flows: dict[Flow, FlowSum] = {}
        self.moved_by_kind: dict[Flow, list[int]] = {}  # Calls and bytes by the real kinds.
        self.memory: dict[Side, MemorySum] = {}    # Pageable memory by what it is.
        self.sites: dict[str, Site] = {}
        self.blocks: Top[Block] = Top(most)
        self.repeated: Top[Pair] = Top(most)       # Repeated copies, by the bytes of the repeats.
        self.modules: dict[str, tuple[str, str] | None] = {}
        self.warns: dict[tuple[str, str], list] = {}
        self.links = Links()
        self.shared: dict[str, Shared] = {}        # By the device block's site.
        self.covered = Covered()                   # By the preset everyday.
        self.callers: dict[str, dict[str, Counts]] = {}  # Copies by call path and direction.
        self.ranges = Ranges()                     # That the program names.
        self.problems: Top[Problem] = Top(MOST_PROBLEMS)  # Faults of logs,
        self.unreadable: Top[str] = Top(MOST_PROBLEMS)    # and with those that can't be read.
        self.odd = 0
        self.times = Timeline()                    # Bytes of transfers, see parts.SERIES; and
        self.site_times = Timeline()               # of copies, by site.
        self.levels = Levels()                     # Memory by place.

    @property
    def level(self) -> str:
        """The level that most was logged at by any process."""
        return max((process.level for process in self.processes), key=LEVELS.index,
                   default="summary")

    @property
    def relayed_bytes(self) -> int:
        """The bytes over the links of other GPUs: libzc's copies between GPUs that passed it on."""
        moved = sum(size for flow, (_, size) in self.moved_by_kind.items() if flow.dir == "PtoP")
        return max(moved - sum(one.counts.moved_bytes for flow, one in self.flows.items()
                               if flow.dir == "PtoP"), 0)

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

    def missed(self) -> str:
        """The nearest misses of the policy's rules, if they took nothing anywhere; else ""."""
        ruled = [process for process in self.processes
                 if process.policy and process.state == "ended"]
        if not ruled or not all(process.missed for process in ruled):
            return ""
        process = max(ruled, key=lambda process: number(process.missed, "requests"))
        missed, policy = process.missed, presets.shown(process.policy)
        if "rule" not in missed:
            return f"{policy} took nothing: no request was of the kind and size of its rules"
        count = number(missed, "requests")
        spared = process.pageable_asked - process.pageable_moved
        copied = f", only pageable_copy did {units.size(spared)}" if spared > 0 else ""
        return (f"{policy} took none of {count} request{'' if count == 1 else 's'}{copied}; "
                f"nearest: "
                f"{string(missed, 'api')} of {units.size(number(missed, 'size_bytes'))} (site "
                f"{string(missed, 'site')}), not of rule {string(missed, 'rule')} (line "
                f"{number(missed, 'line')}): {string(missed, 'misfit')}")

    def lacking(self) -> int:
        """Bytes that a request lacked for which the device had no memory; 0 where none failed."""
        return max((number(process.unmet, "lacking_bytes") or
                    number(process.unmet, "largest_bytes") for process in self.processes),
                   default=0)

    def unmet(self) -> str:
        """The requests for which the device had no memory; "" where none failed."""
        failed = [process.unmet for process in self.processes if process.unmet]
        if not failed:
            return ""
        count = sum(number(one, "requests") for one in failed)
        largest = max(number(one, "largest_bytes") for one in failed)
        return (f"the GPU had no memory for {count} request{'' if count == 1 else 's'} of up to "
                f"{units.size(largest)}, and lacked {units.size(self.lacking())}")

    def peak(self, place: str) -> int:
        """The most bytes that one process had in a place at a time."""
        return max((process.peaks.get(place, 0) for process in self.processes), default=0)

    def places(self) -> list[str]:
        """All places that were used, in the order of first sight."""
        return list(dict.fromkeys(place for process in self.processes for place in process.peaks))

    def messages(self) -> list[str]:
        """The faults of logs."""
        found = list(map(str, self.problems.items()))
        if self.problems.offered > len(found):
            found.append(f"and {self.problems.offered - len(found)} more faults of logs")
        found += self.unreadable.items()
        if self.unreadable.offered > MOST_PROBLEMS:
            found.append(f"and {self.unreadable.offered - MOST_PROBLEMS} more that can't be read")
        if self.odd:
            found.append("left out for fields that docs/log.md does not allow: "
                         f"{self.odd} {'record' if self.odd == 1 else 'records'}")
        return found

    def read_log(self, path: str, progress: Callable[[int], None] | None = None,
                 watchers: Sequence[Watcher] = ()) -> None:
        """Adds what a log comes to.  One that can't be read at all is noted in `unreadable`."""
        def warn(problem: Problem) -> None:
            self.problems.offer(0, (path, self.problems.offered), problem)

        most, key, over_time = self.options
        try:
            self._take(ProcessLog(Log(path, warn, progress), watchers, most, key, over_time).read())
        except LogError as error:
            self.unreadable.offer(0, (path,), str(error))

    def _take(self, sums: Sums) -> None:
        """Adds what one log comes to."""
        self.links.add_log(sums.links)
        if not sums.is_process:
            return
        self.processes.append(sums.process)
        self.counts.add(sums.process.counts)
        self._add(sums)

    def merge(self, other: Totals) -> None:
        """Adds others, which stay as they are.  Raises VersionError."""
        if (other.version, other.options) != (self.version, self.options):
            raise VersionError(f"sums of version {other.version}, {other.options}, do not add up "
                               f"with those of version {self.version}, {self.options}: use one zc "
                               "and the same options for all logs")
        self.links.add(other.links)
        self.processes += other.processes
        self.counts.add(other.counts)
        self.problems.merge(other.problems)
        self.unreadable.merge(other.unreadable)
        self._add(other)
        self.settle()

    def settle(self) -> None:
        """Brings what was read into its order and within its bounds, once after several logs."""
        self.processes.sort(key=lambda process: process.order)
        for name in beyond(self.sites, MOST_SITES):
            self.sites.setdefault(OTHERS, Site(OTHERS)).add(self.sites.pop(name))
        for name in beyond(self.callers, MOST_SITES):
            add_counts(self.callers.setdefault(OTHERS, {}), self.callers.pop(name))
        self.covered.settle()
        self.ranges.settle()
        for table, most in ((self.modules, MOST_SITES), (self.warns, MOST_WARNS)):
            for name in beyond(table, most):
                del table[name]

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
            have = self.warns.setdefault(key, [0, text])
            have[0] += times
            have[1] = min(have[1], text)
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
        self.covered.add(one.covered)
        self.ranges.add(one.ranges)
        for name, site in one.sites.items():
            self.sites.setdefault(name, Site(name)).add(site)
        for name, by_dir in one.callers.items():
            add_counts(self.callers.setdefault(name, {}), by_dir)
