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
from typing import Any, Iterable, Iterator, Mapping, Sequence

SCHEMA = 1
MAGIC = b"zc-count"
SUFFIX = ".counters"

PAGEABLE = "Pageable"
KINDS = (PAGEABLE, "Pinned", "Device", "Array", "Managed")
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
SOURCE = struct.Struct("=4Q")
SOURCES = ("heap", "anonymous", "file", "shm", "stack", "static")
ALIGN = 64
# Header, places, and the slots of a few threads; what comes behind the sites.
FIRST_BYTES = 48 << 10
ZEROES = bytes(256)  # Nearly all of a slot is.
START = struct.Struct("=Q")
START_AT = REFUSED_CALLS.size + REFUSALS * REFUSAL.size + 2 * len(SOURCES) * SOURCE.size
SIZES = struct.Struct("=16Q")  # Bytes by size, in powers of two from 64 KiB on.
SIZE_LEAST = 16
SIZES_AT = START_AT + START.size
TAIL_BYTES = SIZES_AT + 2 * len(SOURCES) * SIZES.size
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


def opened(path: str) -> int:
    """A descriptor of a file that may be anybody's: a pipe of that name holds nobody up."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _align(offset: int) -> int:
    return (offset + ALIGN - 1) // ALIGN * ALIGN


def _name(names: tuple[str, ...], index: int, what: str) -> str:
    return names[index] if index < len(names) else f"{what}{index}"


def _terminated(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


class Words:
    """Which of the counters in slots are in use.  Nearly all are 0, and none falls back to 0, so a
    further reading of a file takes those that are known and compares the rest with zeroes."""

    def __init__(self) -> None:
        self.first_bytes = FIRST_BYTES   # The bytes read of the file before, without its sites.
        self._used: list[int] = []       # Numbers within a slot.
        self._size = 0                   # Of a slot.
        self._zeroes: list[tuple[bytes, int]] = []   # All between them, and where.
        self._take = struct.Struct("=")

    def sums(self, data: bytes, start: int, size: int, slots: int) -> dict[int, int]:
        """Sums over slots, by the number of the word in a slot, without those that are 0."""
        if size != self._size:
            self._know([], size)
        starts = [start + slot * size for slot in range(slots)]
        for at in starts:
            for zeroes, where in self._zeroes:
                if not data.startswith(zeroes, at + where):
                    self._know(self._nonzero(data[at:at + size]), size)
                    break
        totals = map(sum, zip(*(self._take.unpack_from(data, at) for at in starts)))
        return {word: count for word, count in zip(self._used, totals) if count}

    @staticmethod
    def _nonzero(slot: bytes) -> Iterator[int]:
        for at in range(0, len(slot), len(ZEROES)):
            part = slot[at:at + len(ZEROES)]
            if not ZEROES.startswith(part):
                words = struct.unpack(f"={len(part) // 8}Q", part)
                yield from (word for word, count in enumerate(words, at // 8) if count)

    def _know(self, more: Iterable[int], size: int) -> None:
        self._used = sorted({*self._used, *more}) if size == self._size else []
        self._size, self._zeroes, form, end = size, [], "=", 0
        for at in [8 * word for word in self._used] + [size]:
            if at > end:
                self._zeroes.append((bytes(at - end), end))
                form += f"{at - end}x"
            form += "Q" if at < size else ""
            end = at + 8
        self._take = struct.Struct(form)


class Counters:
    """One reading of a counters file.  Raises CountersError, or OSError where it can't be read.
    The sites are most of it.  With the Words of an earlier reading they are not read."""

    def __init__(self, path: str, words: Words | None = None) -> None:
        self._with_sites = words is None
        self._words = words or Words()
        file = opened(path)
        try:
            self._read(file)
        finally:
            os.close(file)

    def _read(self, file: int) -> None:
        size = os.fstat(file).st_size
        if size > MOST_BYTES:
            raise CountersError(f"{size} bytes are too many for a counters file")
        self._data = os.pread(file, size if self._with_sites else self._words.first_bytes, 0)
        self.header = self._header()
        self._lay_out(len(self._data) if self._with_sites else size)
        if self._with_sites:
            self._tail = self._data[self._refusals_at:]
            return
        end = self._slots_at + self._slots_used() * self._slot_bytes
        if end > len(self._data):
            self._data += os.pread(file, end - len(self._data), len(self._data))
        if end > len(self._data):
            raise CountersError(f"the file ends after {len(self._data)} of {end} bytes")
        self._words.first_bytes = max(self._words.first_bytes, end)
        self._tail = os.pread(file, TAIL_BYTES, self._refusals_at)

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

    def _flow_name(self, flow: int) -> Record:
        direction, sides = divmod(flow, self.header.kinds ** 2)
        src, dst = divmod(sides, self.header.kinds)
        return {"dir": _name(DIRS, direction, "dir"), "src_kind": _name(KINDS, src, "kind"),
                "dst_kind": _name(KINDS, dst, "kind")}

    def _counts(self, words: Sequence[int], ticks: int) -> Record:
        """The fields of `traffic` and `flows`, from calls and bytes of each outcome."""
        counts: Record = {"asked_calls": sum(words[0::2]), "asked_bytes": sum(words[1::2])}
        for i in range(len(words) // 2):
            outcome = _name(OUTCOMES, i, "outcome")
            counts[outcome + "_calls"], counts[outcome + "_bytes"] = words[2 * i:2 * i + 2]
        counts["blocked_ns"] = self._ns(ticks)
        return counts

    def flows(self) -> tuple[list[Record], list[Record]]:
        """As `flows` and `moved_by_kind` of the summary line."""
        sums = self._words.sums(self._data, self._slots_at, self._slot_bytes, self._slots_used())
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

    def _site_traffic(self) -> dict[int, dict[int, list[int]]]:
        """Words by site and direction: freed blocks in the sites, live ones in the cells."""
        sums: dict[int, dict[int, list[int]]] = {}

        def add(site: int, direction: int, words: tuple[int, ...]) -> None:
            have = sums.setdefault(site, {}).setdefault(direction, [0] * len(words))
            for i, word in enumerate(words):
                have[i] += word

        for site in range(self.sites_used()):
            base = self._sites_at + site * self._site_bytes + self._totals_at
            for direction in range(self.header.dirs):
                words = self._cell(base + direction * self._cell_bytes)[3]
                if any(words):
                    add(site, direction, words)
        size = self.header.cells * self._cell_bytes
        used = self._data[self._cells_at:self._cells_at + size].rstrip(b"\0")
        for cell in range((len(used) + self._cell_bytes - 1) // self._cell_bytes):
            block, site, direction, words = self._cell(self._cells_at + cell * self._cell_bytes)
            if block and any(words):
                add(site, direction, words)
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
            rows.append({"site": ident, "requests": requests, "requested_bytes": size,
                         "frees": frees, "traffic": self._directions(traffic.get(index, {}))})
        return rows

    def calls(self) -> list[Record]:
        """As `calls` of the summary line; files of earlier versions end before it."""
        start = _align(self._refusals_at + TAIL_BYTES)
        size = self.header.dirs * self._cell_bytes
        rows = []
        for index in range(1, self.sites_used()):
            at = start + index * size
            if at + size > len(self._data):
                break
            cells = (self._cell(at + i * self._cell_bytes)[3] for i in range(self.header.dirs))
            directions = self._directions(dict(enumerate(cells)))
            if directions:
                rows.append({"site": self._site_head(index)[0], "traffic": directions})
        return rows

    def _directions(self, words_of: Mapping[int, Sequence[int]]) -> list[Record]:
        """As `traffic` of a site, from the words of cells by direction."""
        return [{"dir": _name(DIRS, direction, "dir"), **self._counts(words[:-1], words[-1])}
                for direction, words in sorted(words_of.items()) if any(words[0:-1:2])]

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
            calls, asked, moved, ticks = SOURCE.unpack_from(self._tail, at)
            at += SOURCE.size
            if calls:
                rows.append({"memory": SOURCES[i // 2], "side": ("src", "dst")[i % 2],
                             "asked_calls": calls, "asked_bytes": asked, "moved_bytes": moved,
                             "blocked_ns": self._ns(ticks), "sizes": self._sizes(i)})
        return rows

    def _sizes(self, row: int) -> list[Record]:
        """As `sizes` of a row of `pageable`; files of earlier versions end before them."""
        at = SIZES_AT + (row % 2 * len(SOURCES) + row // 2) * SIZES.size
        if len(self._tail) < TAIL_BYTES:
            return []
        return [{"least_bytes": 1 << (SIZE_LEAST + i), "bytes": count}
                for i, count in enumerate(SIZES.unpack_from(self._tail, at)) if count]

    def _driver_start(self) -> int:
        """In nanoseconds; files of earlier versions end before it."""
        if len(self._tail) < SIZES_AT:
            return 0
        ticks, = START.unpack_from(self._tail, START_AT)
        return self._ns(ticks)

    def summary(self) -> Record:
        """As the log's `summary` line, from what was counted so far."""
        flows, moved = self.flows()
        copies = [flow for flow in flows if flow["dir"] not in NOT_COPIES]
        record: Record = {"type": "summary", "wall_ns": None,
                          "driver_start_ns": self._driver_start()}
        for name in [outcome + unit for outcome in ("asked", *OUTCOMES)
                     for unit in ("_calls", "_bytes")] + ["blocked_ns"]:
            record[name] = sum(flow.get(name, 0) for flow in copies)
        for name, rows, field in (("pageable_asked_bytes", copies, "asked_bytes"),
                                  ("pageable_moved_bytes", moved, "bytes")):
            record[name] = sum(row[field] for row in rows if row["dir"] not in NOT_COPIES
                               and PAGEABLE in (row["src_kind"], row["dst_kind"]))
        return {**record, "untracked": 0, "lost_lines": 0, **self.refused(),
                "places": self.places(), "flows": flows, "moved_by_kind": moved,
                "pageable": self._pageable(), "sites": self.sites() if self._with_sites else [],
                "calls": self.calls() if self._with_sites else []}
