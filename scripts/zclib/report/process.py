# SPDX-License-Identifier: MIT
"""Reading the log of one process: its lines become sums, in memory that does not grow with it."""

from __future__ import annotations

import sys
from typing import Protocol, Sequence

from .. import live
from ..logs import Log, Record, call_path, number, rows, string
from .counts import Counts
from .flow import Flow, flow_of
from .memory import MemorySum, side_of
from .parts import Block, FlowSum, Process, Site, Sums, add_counts
from .shared import Shared
from .tally import OTHERS, count_name
from .transfers import Transfers

# Live blocks that are followed at a time; a process with more keeps its sums, and only lists of
# single blocks may lack some.
MOST_BLOCKS = 200_000
# libzc tells 479 call paths apart; a log with more than these is damaged, or not libzc's.
MOST_SITES = 20_000
MOST_WARNS = 100


class Watcher(Protocol):
    """Sees what happened as it is read."""

    def site(self, record: Record) -> None:
        """A call path, before its first allocation."""

    def alloc(self, process: Process, record: Record) -> None:
        """A new block."""

    def free(self, process: Process, record: Record) -> None:
        """A block is gone."""

    def move(self, process: Process, record: Record) -> None:
        """A block went to host memory or to the device."""

    def transfer(self, process: Process, record: Record, flow: Flow) -> None:
        """The record is the log's; flow is what the program asked for."""

    def end(self, process: Process, time_ns: int) -> None:
        """The process has ended; 0 where nothing tells when."""

    def link(self, host: str, record: Record, to_device: int, from_device: int) -> None:
        """Bytes that went over the link of a device since the record before."""


class ProcessLog:
    """Reads one log into its sums.  Blocks are ranked by the attribute of Counts that `key`
    names."""

    def __init__(self, log: Log, watchers: Sequence[Watcher], most: int, key: str,
                 over_time: bool) -> None:
        self.sums = Sums(log.path, most)
        self._key = key
        self._log = log
        self._watchers = watchers
        self._live: dict[int, Block] = {}
        self._last_id = 0                       # Of blocks that were allocated,
        self._grown_at: int | None = None       # and as it was when the first array had grown.
        self._over_time = over_time
        self._transfers = Transfers(self.sums, self._live, over_time)
        self._summary: Record | None = None
        self._last_ns = 0  # When memory was last allocated or freed.
        self._handlers = {
            "meta": self._meta, "module": self._module, "site": self._site, "alloc": self._alloc,
            "free": self._gone, "block": self._gone, "transfer": self._transfer,
            "pair": self._pair, "move": self._move, "warn": self._warn,
            "link": self._link, "summary": self._take_summary,
        }

    def read(self) -> Sums:
        """Reads all of it.  Raises LogError where the file can't be read."""
        # Watchers want to see records.
        take = None if self._watchers else self._transfers.take
        for record in self._log.records(take=take):
            handler = self._handlers.get(record["type"])
            if handler is None:
                continue
            try:
                handler(record)
            except (TypeError, ValueError, AttributeError):
                self.sums.odd += 1
        self._finish()
        return self.sums

    def _meta(self, record: Record) -> None:
        self.sums.process.take_meta(record)

    def _module(self, record: Record) -> None:
        if string(record, "path"):
            self.sums.modules[string(record, "module")] = (string(record, "path"),
                                                      string(record, "build_id"))

    def _site_of(self, name: str) -> Site:
        site = self.sums.sites.get(name)
        if site is None and len(self.sums.sites) >= MOST_SITES:
            site = self.sums.sites.get(OTHERS)
            name = OTHERS
        if site is None:
            site = self.sums.sites[name] = Site(sys.intern(name))
            site.processes = 1
        return site

    def _site(self, record: Record) -> None:
        site = self._site_of(string(record, "site"))
        site.frames = tuple(map(sys.intern, call_path(record)))
        site.add_natives([string(record, "native")])
        for watcher in self._watchers:
            watcher.site(record)

    def _alloc(self, record: Record) -> None:
        if self.sums.process.level == "summary":
            self.sums.process.level = "allocs"
        block = Block(self.sums.process, record)
        self._last_id = max(self._last_id, block.id)
        for watcher in self._watchers:
            watcher.alloc(self.sums.process, record)
        site = self._site_of(block.site)
        block.site = site.id
        site.add_alloc(record)
        self.sums.ranges.add_request(string(record, "range"), block.size)
        if len(self._live) < MOST_BLOCKS:
            self._live[block.id] = block
            block.alloc_ns = number(record, "time_ns")
            self._level(block.alloc_ns, block, 1)

    def _gone(self, record: Record) -> None:
        """A block's traffic, which is told when it is freed, or at the end."""
        block = self._live.pop(number(record, "block"), None) or Block(self.sums.process, record)
        block.live = record["type"] == "block"
        if not block.live:
            self._grown(block)
        self._transfers.leave(block)
        at = number(record, "time_ns")
        if not block.live:
            for watcher in self._watchers:
                watcher.free(self.sums.process, record)
            block.free_ns = at
            if block.alloc_ns:  # Else its allocation was not counted.
                self._level(at, block, -1)
        block.by_dir = {}
        for row in rows(record, "traffic"):
            block.by_dir.setdefault(string(row, "dir", "?"), Counts()).add_record(row)
        self._take_block(block)

    def _grown(self, block: Block) -> None:
        """Counts the copy of a block that is freed to a larger one, if that is still there."""
        if block.grown is not None:
            larger, size, blocked_ns = block.grown
            if self._live.get(larger.id) is larger:
                again = self._grown_at is not None and min(block.id, larger.id) > self._grown_at
                self.sums.covered.add_grown((block.site, larger.site), size, blocked_ns, again)
                if self._grown_at is None and larger.size > block.size:
                    self._grown_at = self._last_id

    def _level(self, time_ns: int, block: Block, sign: int) -> None:
        if time_ns > 0:
            self._last_ns = max(self._last_ns, time_ns, self.sums.process.start_ns)
            if self._over_time:
                time_ns = max(time_ns, self.sums.process.start_ns)
                self.sums.levels.add(time_ns, block.place or "?",
                                     sign * (block.size - block.spilled))
                if block.spilled:
                    self.sums.levels.add(time_ns, "mapped", sign * block.spilled)

    def _take_block(self, block: Block) -> None:
        copies = block.copies()
        if copies.asked_calls > 0:
            self.sums.blocks.offer(getattr(copies, self._key), block.order, block)

    def _transfer(self, record: Record) -> None:
        flow = self._transfers.add(record)
        for watcher in self._watchers:
            watcher.transfer(self.sums.process, record, flow)

    def _pair(self, record: Record) -> None:
        self.sums.shared.setdefault(string(record, "device_site"), Shared()).add_pair(record)

    def _move(self, record: Record) -> None:
        block = self._live.get(number(record, "block"))
        if block is None:
            return
        to, at = string(record, "to", "?"), number(record, "time_ns")
        for watcher in self._watchers:
            watcher.move(self.sums.process, record)
        if block.alloc_ns:
            self._level(at, block, -1)
        moved = number(record, "bytes")
        spilled = block.spilled + (moved if to == "host" else -moved)
        block.spilled = max(0, min(spilled, block.size))  # Lines may be lost.
        if block.alloc_ns:
            self._level(at, block, 1)
        count_name(self._site_of(block.site).hints,
                   f"moved to {'host memory' if to == 'host' else 'the device'}: "
                   f"{string(record, 'why', '?')}", 1)

    def _warn(self, record: Record) -> None:
        key = (string(record, "severity"), string(record, "code"))
        if key not in self.sums.warns and len(self.sums.warns) < MOST_WARNS:
            self.sums.warns[key] = [0, string(record, "text")]
        if key in self.sums.warns:
            self.sums.warns[key][0] += 1

    def _link(self, record: Record) -> None:
        deltas = self.sums.links.take(record)
        for watcher in self._watchers:
            watcher.link(self.sums.process.host, record, *deltas)

    def _take_summary(self, record: Record) -> None:
        self._summary = record

    def _finish(self) -> None:
        process = self.sums.process
        self._transfers.finish()
        copies = Counts()
        for flow, total in self.sums.flows.items():
            if flow.is_copy:
                copies.add(total.counts)
        self.sums.ranges.finish(copies)
        end_ns = number(self._summary, "time_ns") if self._summary else 0
        end_ns = max(end_ns, self._last_ns)
        self.sums.levels.end(end_ns)
        for watcher in self._watchers:
            watcher.end(process, end_ns)
        for block in self._live.values():
            self._transfers.leave(block)
        if self._summary is not None:
            self._use_summary(self._summary)
            process.state = "ended" if self._log.ended else \
                "running" if live.goes_on(self._log) else "killed"
        else:
            self._use_lines()
        if self._summary is None or self._log.from_counters:
            for block in self._live.values():
                block.live = True
                self._take_block(block)
        self.sums.is_process = "recorder" not in self._log.meta and bool(
            self._log.meta or process.counts.asked_calls or self.sums.sites)

    def _use_summary(self, record: Record) -> None:
        """The summary's totals are whole; the lines may lack what was not logged."""
        process = self.sums.process
        process.wall_ns = number(record, "wall_ns")
        process.end_ns = number(record, "time_ns")
        process.driver_start_ns = number(record, "driver_start_ns")
        process.counts.add_record(record)
        process.pageable_asked = number(record, "pageable_asked_bytes")
        process.pageable_moved = number(record, "pageable_moved_bytes")
        process.untracked = number(record, "untracked")
        process.lost_lines = number(record, "lost_lines")
        process.refusals.take(record, process.policy)
        process.missed, process.moves, process.unmet = (
            found if isinstance(found, dict) else {}
            for found in map(record.get, ("missed", "moves", "unmet")))
        for row in rows(record, "places"):
            process.peaks[string(row, "place", "?")] = number(row, "peak_bytes")
        for total in self.sums.flows.values():
            total.counts = Counts()
        for row in rows(record, "flows"):
            self.sums.flows.setdefault(flow_of(row), FlowSum()).counts.add_record(row)
        shared = record.get("shared")
        if isinstance(shared, dict) and not self.sums.shared:
            self.sums.shared.setdefault("", Shared()).add_sums(shared)
        for row in rows(record, "moved_by_kind"):
            moved = self.sums.moved_by_kind.setdefault(flow_of(row), [0, 0])
            moved[0] += number(row, "calls")
            moved[1] += number(row, "bytes")
        for row in rows(record, "pageable"):
            self.sums.memory.setdefault(side_of(row), MemorySum()).add_record(row)
        for row in rows(record, "sites"):
            site = self._site_of(string(row, "site"))
            site.requests += number(row, "requests")
            site.requested_bytes += number(row, "requested_bytes")
            site.frees += number(row, "frees")
            for traffic in rows(row, "traffic"):
                counts = site.by_dir.setdefault(string(traffic, "dir", "?"), Counts())
                counts.add_record(traffic)

        if "calls" in record:  # Else the lines of transfers, of the level events, have told them.
            self.sums.callers.clear()
        for row in rows(record, "calls"):
            by_dir = self.sums.callers.setdefault(sys.intern(string(row, "site")), {})
            for traffic in rows(row, "traffic"):
                by_dir.setdefault(string(traffic, "dir", "?"), Counts()).add_record(traffic)

    def _use_lines(self) -> None:
        """Without a summary the transfers that were logged are all there is."""
        for flow, total in self.sums.flows.items():
            if flow.is_copy:
                self.sums.process.counts.add(total.counts)
            if flow.pageable:
                self.sums.process.pageable_asked += total.counts.asked_bytes
                self.sums.process.pageable_moved += total.counts.moved_bytes
        for site in self.sums.sites.values():
            by_dir: dict[str, Counts] = {}
            for flow, counts in site.flows.items():
                add_counts(by_dir, {flow.dir: counts})
            site.by_dir = by_dir
            site.requests = sum(site.apis.values())
