# SPDX-License-Identifier: MIT
"""Reads a counters file: the memory that a process shares with whoever watches it.

The layout is `struct zc_counters` of shim/ledger/counters.h (docs/log.md, "Counters file"): native
byte order, lengths and dimensions in the header, fields only added at the end.  The counts come out
in the form of the log's `summary` line, so that a killed process is read as any other.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any, Iterator

SCHEMA = 1
MAGIC = b"zc-count"
SUFFIX = ".counters"

KINDS = ("Pageable", "Pinned", "Device", "Array", "Managed")
DIRS = ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoA", "AtoH", "AtoD", "DtoA", "AtoA",
        "Memset", "Prefetch")
NOT_COPIES = ("Memset", "Prefetch")
OUTCOMES = ("moved", "cpu_copied", "elided")
PLACES = ("device", "mapped", "managed", "vmm", "shared", "pageable", "pinned")

HEADER = struct.Struct("=8sIIQ8IQQQ64s")
GAUGE = struct.Struct("=3Q")
SITE = struct.Struct("=IIQQQ")
FRAME = struct.Struct("=40sQ")
CELL_HEAD = struct.Struct("=IHBB")
REFUSED_CALLS = struct.Struct("=Q")
REFUSAL = struct.Struct("=QI52s")
REFUSALS = 16
SOURCE = struct.Struct("=5Q")
SOURCES = ("heap", "anonymous", "file", "shm", "stack", "static")
ALIGN = 64
# Header, places, and the slots of a few threads; what comes behind the sites.
FIRST_BYTES = 48 << 10
ZEROES = bytes(256)  # Nearly all of a slot is.
TAIL_BYTES = REFUSED_CALLS.size + REFUSALS * REFUSAL.size + 2 * len(SOURCES) * SOURCE.size
# A hostile header must not make a reader allocate without bound.
MOST_BYTES = 64 << 20

Record = dict[str, Any]


class CountersError(Exception):
    """The file is no counters file, or is of no use; the text says why, without its path."""


@dataclass
class Header:
    """The head of a counters file."""

    schema: int
    pid: int
    bytes: int
    slots: int
    sites: int
    cells: int
    places: int
    kinds: int
    dirs: int
    outcomes: int
    frames: int
    tick_mult: int
    start_ns: int   # Unix time in ns.
    closed: bool    # True after a clean exit.
    exe: str

    @property
    def flows(self) -> int:
        return self.dirs * self.kinds * self.kinds


def _align(offset: int) -> int:
    return (offset + ALIGN - 1) // ALIGN * ALIGN


def _name(names: tuple[str, ...], index: int, what: str) -> str:
    return names[index] if index < len(names) else f"{what}{index}"


def _terminated(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


class Counters:
    """One reading of a counters file.  Raises CountersError, or OSError where it can't be read.
    The sites are most of it, and are not read where they are not wanted."""

    def __init__(self, path: str, with_sites: bool = True) -> None:
        self._with_sites = with_sites
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise CountersError(f"{size} bytes are too many for a counters file")
            self._data = file.read(size if with_sites else FIRST_BYTES) or b""
            self.header = self._header()
            self._lay_out(size if not with_sites else len(self._data))
            end = self._slots_at + self._slots_used() * self._slot_bytes
            if not with_sites and end > len(self._data):
                self._data += os.pread(file.fileno(), end - len(self._data), len(self._data))
            self._tail = self._data[self._refusals_at:] if with_sites else \
                os.pread(file.fileno(), TAIL_BYTES, self._refusals_at)

    def _header(self) -> Header:
        if not self._data:
            raise CountersError("the file is empty")
        # The magic is written last.
        if self._data.startswith(bytes(len(MAGIC))):
            raise CountersError("its process ended while it made the file")
        if len(self._data) < HEADER.size or not self._data.startswith(MAGIC):
            raise CountersError("this is no counters file of libzc")
        (_, schema, pid, size, slots, sites, cells, places, kinds, dirs, outcomes, frames, mult,
         start, closed, exe) = HEADER.unpack_from(self._data)
        if slots == 0:
            raise CountersError("its header makes no sense")
        return Header(schema, pid, size, slots, sites, cells, places, kinds, dirs, outcomes, frames,
                      mult, start, closed != 0, _terminated(exe))

    def _lay_out(self, size: int) -> None:
        """Finds where the arrays begin in a file of this size."""
        h = self.header
        counts = 16 * h.outcomes
        self._places_at = HEADER.size + 8
        self._flow_bytes = counts
        self._moved_at = h.flows * counts           # Within a slot.
        self._ticks_at = self._moved_at + h.flows * 16
        self._slot_bytes = self._ticks_at + h.flows * 8
        self._slots_at = _align(self._places_at + h.places * GAUGE.size)
        self._cell_bytes = CELL_HEAD.size + counts + 8
        self._totals_at = SITE.size + h.frames * FRAME.size   # Within a site.
        self._site_bytes = self._totals_at + h.dirs * self._cell_bytes
        self._sites_at = _align(self._slots_at + h.slots * self._slot_bytes)
        self._cells_at = _align(self._sites_at + h.sites * self._site_bytes)
        needed = self._cells_at + h.cells * self._cell_bytes
        if needed > size or len(self._data) < self._slots_at:
            raise CountersError(f"the file ends after {size} of {needed} bytes")
        self._refusals_at = needed

    def _ns(self, ticks: int) -> int:
        return ticks * self.header.tick_mult >> 32

    def sites_used(self) -> int:
        used, = struct.unpack_from("=I", self._data, HEADER.size + 4)
        return min(used, self.header.sites)

    def places(self) -> list[Record]:
        """As `places` of the summary line."""
        rows = []
        for i in range(self.header.places):
            blocks, size, peak = GAUGE.unpack_from(self._data, self._places_at + i * GAUGE.size)
            if peak:
                rows.append({"place": _name(PLACES, i, "place"), "blocks": blocks, "bytes": size,
                             "peak_bytes": peak})
        return rows

    def _slots_used(self) -> int:
        """Threads get slots from 1 on, and those that get none share the first."""
        last, = struct.unpack_from("=I", self._data, HEADER.size)
        return min(last + 1, self.header.slots)

    def _totals(self) -> dict[int, int]:
        """Sums over all slots, by the number of the word in a slot; nearly all are 0 and left
        out."""
        sums: dict[int, int] = {}
        empty = bytes(self._slot_bytes)
        for slot in range(self._slots_used()):
            start = self._slots_at + slot * self._slot_bytes
            if self._data[start:start + self._slot_bytes] == empty:
                continue
            for at in range(0, self._slot_bytes, len(ZEROES)):
                part = self._data[start + at:start + min(at + len(ZEROES), self._slot_bytes)]
                if part == ZEROES:
                    continue
                for word, count in enumerate(struct.unpack(f"={len(part) // 8}Q", part), at // 8):
                    if count:
                        sums[word] = sums.get(word, 0) + count
        return sums

    def _flow_name(self, flow: int) -> Record:
        direction, sides = divmod(flow, self.header.kinds ** 2)
        src, dst = divmod(sides, self.header.kinds)
        return {"dir": _name(DIRS, direction, "dir"), "src_kind": _name(KINDS, src, "kind"),
                "dst_kind": _name(KINDS, dst, "kind")}

    def _counts(self, words: list[int] | tuple[int, ...], ticks: int) -> Record:
        """The fields of `traffic` and `flows`, from calls and bytes of each outcome."""
        counts: Record = {"asked_calls": sum(words[0::2]), "asked_bytes": sum(words[1::2])}
        for i in range(len(words) // 2):
            outcome = _name(OUTCOMES, i, "outcome")
            counts[outcome + "_calls"], counts[outcome + "_bytes"] = words[2 * i:2 * i + 2]
        counts["blocked_ns"] = self._ns(ticks)
        return counts

    def flows(self) -> tuple[list[Record], list[Record]]:
        """As `flows` and `moved_by_kind` of the summary line."""
        sums = self._totals()
        step = 2 * self.header.outcomes
        moved, ticks = self._moved_at // 8, self._ticks_at // 8
        flows, kinds = [], []
        for flow in sorted({word // step for word in sums if word < moved}):
            words = [sums.get(flow * step + i, 0) for i in range(step)]
            if any(words[0::2]):
                flows.append({**self._flow_name(flow),
                              **self._counts(words, sums.get(ticks + flow, 0))})
        for flow in sorted({(word - moved) // 2 for word in sums if moved <= word < ticks}):
            calls, size = (sums.get(moved + 2 * flow + i, 0) for i in range(2))
            if calls:
                kinds.append({**self._flow_name(flow), "calls": calls, "bytes": size})
        return flows, kinds

    def _cell(self, at: int) -> tuple[int, int, int, tuple[int, ...]]:
        """Block, site, direction, and the words of a cell, ticks last."""
        block, site, direction, _ = CELL_HEAD.unpack_from(self._data, at)
        words = struct.unpack_from(f"={2 * self.header.outcomes + 1}Q", self._data,
                                   at + CELL_HEAD.size)
        return block, site, direction, words

    def _site_traffic(self) -> dict[tuple[int, int], list[int]]:
        """Words by site and direction: freed blocks in the sites, live ones in the cells."""
        sums: dict[tuple[int, int], list[int]] = {}

        def add(key: tuple[int, int], words: tuple[int, ...]) -> None:
            have = sums.setdefault(key, [0] * len(words))
            for i, word in enumerate(words):
                have[i] += word

        for site in range(self.sites_used()):
            base = self._sites_at + site * self._site_bytes + self._totals_at
            for direction in range(self.header.dirs):
                words = self._cell(base + direction * self._cell_bytes)[3]
                if any(words):
                    add((site, direction), words)
        size = self.header.cells * self._cell_bytes
        used = self._data[self._cells_at:self._cells_at + size].rstrip(b"\0")
        for cell in range((len(used) + self._cell_bytes - 1) // self._cell_bytes):
            block, site, direction, words = self._cell(self._cells_at + cell * self._cell_bytes)
            if block and any(words):
                add((site, direction), words)
        return sums

    def _site_head(self, index: int) -> tuple[str, int, int, int, int, int]:
        at = self._sites_at + index * self._site_bytes
        ident, frames, requests, size, frees = SITE.unpack_from(self._data, at)
        # Index 0 stands for all paths that could not be told apart.
        return f"{ident if index else 0:08x}", frames, requests, size, frees, at

    def sites(self) -> list[Record]:
        """As `sites` of the summary line."""
        traffic = self._site_traffic()
        rows = []
        for index in range(self.sites_used()):
            ident, _, requests, size, frees, _ = self._site_head(index)
            if requests == 0:
                continue
            directions = []
            for direction in range(self.header.dirs):
                words = traffic.get((index, direction))
                if words and any(words[0:-1:2]):
                    directions.append({"dir": _name(DIRS, direction, "dir"),
                                       **self._counts(words[:-1], words[-1])})
            rows.append({"site": ident, "requests": requests, "requested_bytes": size,
                         "frees": frees, "traffic": directions})
        return rows

    def frames(self) -> Iterator[Record]:
        """As the log's `site` lines: the frames of each site in use."""
        for index in range(1, self.sites_used()):
            ident, frames, _, _, _, at = self._site_head(index)
            path = []
            for i in range(min(frames, self.header.frames)):
                module, offset = FRAME.unpack_from(self._data, at + SITE.size + i * FRAME.size)
                path.append(f"{_terminated(module)}+0x{offset:x}")
            yield {"type": "site", "site": ident, "frames": path}

    def refused(self) -> Record:
        """The fields on refused calls; files of earlier versions end before them."""
        at = REFUSED_CALLS.size
        if len(self._tail) < at + REFUSALS * REFUSAL.size:
            return {"refused_calls": 0, "refused": []}
        calls, = REFUSED_CALLS.unpack_from(self._tail)
        rules = REFUSAL.iter_unpack(self._tail[at:at + REFUSALS * REFUSAL.size])
        return {"refused_calls": calls, "refused": [
            {"rule": _terminated(name), "line": line, "calls": number}
            for number, line, name in rules if line]}

    def _pageable(self) -> list[Record]:
        """As `pageable` of the summary line; files of earlier versions end before it."""
        at = REFUSED_CALLS.size + REFUSALS * REFUSAL.size
        rows = []
        for i in range(2 * len(SOURCES)):
            if len(self._tail) < at + SOURCE.size:
                break
            calls, asked, moved, again, ticks = SOURCE.unpack_from(self._tail, at)
            at += SOURCE.size
            if calls:
                rows.append({"memory": SOURCES[i // 2], "side": ("src", "dst")[i % 2],
                             "asked_calls": calls, "asked_bytes": asked, "moved_bytes": moved,
                             "again_bytes": again, "blocked_ns": self._ns(ticks)})
        return rows

    def summary(self) -> Record:
        """As the log's `summary` line, from what was counted so far."""
        flows, moved = self.flows()
        copies = [flow for flow in flows if flow["dir"] not in NOT_COPIES]
        record: Record = {"type": "summary", "wall_ns": None}
        for name in [outcome + unit for outcome in ("asked", *OUTCOMES)
                     for unit in ("_calls", "_bytes")] + ["blocked_ns"]:
            record[name] = sum(flow.get(name, 0) for flow in copies)
        for name, rows, field in (("pageable_asked_bytes", copies, "asked_bytes"),
                                  ("pageable_moved_bytes", moved, "bytes")):
            record[name] = sum(row[field] for row in rows if row["dir"] not in NOT_COPIES
                               and "Pageable" in (row["src_kind"], row["dst_kind"]))
        return {**record, "untracked": 0, "lost_lines": 0, **self.refused(),
                "places": self.places(), "flows": flows, "moved_by_kind": moved,
                "pageable": self._pageable(), "sites": self.sites() if self._with_sites else []}
