# SPDX-License-Identifier: MIT
"""Copies of a program, by the call paths of the blocks at both ends.

Read from logs of the level events.  Blocks of malloc are only in them where a rule takes them, so
the run is one under WATCH: then pageable memory that is no block is not malloc's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable

from ..logs import Log, Record, number, string
from ..report.covered import GROWN_SHARE
from ..report.findings import HOST_APIS

WATCH = f"[rule host]\napi = {HOST_APIS}\nsize = 64K..\nplace = pinned, pageable\n"

# The host's side of a copy, where it is no block of malloc.
OTHER, PINNED = "other", "pinned"


@dataclass
class Sum:
    """Copies of one direction between two call paths."""

    calls: int = 0
    bytes: int = 0
    blocked_ns: int = 0
    large_bytes: int = 0          # Of copies that `pageable_copy = parallel` takes.
    sizes: dict[int, int] = field(default_factory=dict)  # Bytes by the size of the host block.


@dataclass
class Blocks:
    """How many blocks a call path has, and their sizes."""

    blocks: int = 0
    least: int = 0
    greatest: int = 0

    def add(self, size: int) -> None:
        self.blocks += 1
        self.least = min(self.least or size, size)
        self.greatest = max(self.greatest, size)


@dataclass
class DeviceSite(Blocks):
    """The blocks of a call path that lie on the device."""

    apis: set[str] = field(default_factory=set)
    # By the host's side: a call path of malloc's, OTHER or PINNED.
    into: dict[str, Sum] = field(default_factory=dict)
    out: dict[str, Sum] = field(default_factory=dict)


@dataclass
class Block:
    """A live block."""

    site: str
    size: int
    on_device: bool
    on_host: bool                 # Of malloc.
    moved_to: tuple[int, int, int] | None = None  # Block, bytes and time of its last copy to one.


class Traffic:
    """The copies of all processes of a run."""

    def __init__(self, least_large: int) -> None:
        self.sites: dict[str, DeviceSite] = {}
        self.hosts: dict[str, Blocks] = {}      # Of malloc, by call path.
        self.pinned_bytes: dict[str, int] = {}  # Sizes of malloc's blocks that were copied.
        self.grown = Sum()                      # Copies to larger blocks before the free,
        self.grown_sites: dict[str, None] = {}  # and the call paths of both.
        self._least_large = least_large
        self._live: dict[int, Block] = {}

    def read(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._live = {}
            for record in Log(path, lambda problem: None).records(("alloc", "free", "transfer")):
                if record["type"] == "alloc":
                    self._alloc(record)
                elif record["type"] == "transfer":
                    self._transfer(record)
                elif record["type"] == "free":
                    self._free(record)

    def _alloc(self, record: Record) -> None:
        kind, size = string(record, "asked_kind"), number(record, "size_bytes")
        block = Block(string(record, "site"), size, kind == "Device" and not record.get("foreign"),
                      kind == "Pageable")
        self._live[number(record, "block")] = block
        if block.on_device:
            site = self.sites.setdefault(block.site, DeviceSite())
            site.apis.add(string(record, "api"))
            site.add(size)
        elif block.on_host:
            self.hosts.setdefault(block.site, Blocks()).add(size)

    def _transfer(self, record: Record) -> None:
        direction, size = string(record, "dir"), number(record, "bytes")
        src = self._live.get(record.get("src_block") or 0)
        dst = self._live.get(record.get("dst_block") or 0)
        if direction == "HtoD" and dst is not None and dst.on_device:
            self._count(self.sites[dst.site].into, src, string(record, "src_kind"), record)
        elif direction == "DtoH" and src is not None and src.on_device:
            self._count(self.sites[src.site].out, dst, string(record, "dst_kind"), record)
        elif dst is not None and dst.on_device and src is not None and src.on_device and \
                src is not dst and src.size <= dst.size and size >= GROWN_SHARE * src.size:
            src.moved_to = record["dst_block"], size, number(record, "blocked_ns")

    def _count(self, sums: dict[str, Sum], host: Block | None, kind: str, record: Record) -> None:
        size = number(record, "bytes")
        is_block = host is not None and host.on_host
        name = host.site if is_block else OTHER if kind == "Pageable" else PINNED
        total = sums.setdefault(name, Sum())
        total.calls += 1
        total.bytes += size
        total.blocked_ns += number(record, "blocked_ns")
        if size >= self._least_large:
            total.large_bytes += size
        if is_block:
            if host.size not in total.sizes:
                self.pinned_bytes[name] = self.pinned_bytes.get(name, 0) + host.size
            total.sizes[host.size] = total.sizes.get(host.size, 0) + size

    def _free(self, record: Record) -> None:
        block = self._live.pop(number(record, "block"), None)
        if block is not None and block.moved_to is not None:
            to, size, blocked_ns = block.moved_to
            if to in self._live:
                self.grown.calls += 1
                self.grown.bytes += size
                self.grown.blocked_ns += blocked_ns
                self.grown_sites.update({block.site: None, self._live[to].site: None})
