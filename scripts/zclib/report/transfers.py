# SPDX-License-Identifier: MIT
"""The transfers of one process, summed up by flow, block, pair of ends and time.

Nearly all lines of a large log are transfers, and they differ in few of their fields.  So a line in
the form that libzc writes is matched and not parsed; all but its time, its duration and its ends is
one text, its shape, which is parsed when it comes for the first time.  Any other form of the same
record comes to the same sums.
"""

from __future__ import annotations

import json
import re
import sys

from ..logs import Record, number, string
from .counts import Counts
from .covered import ARRAY_API, ARRAY_LEAST, GROWN_SHARE, is_large, may_grow
from .flow import Flow, flow_of
from .parts import SERIES, Block, FlowSum, Pair, Sums

# Followed at a time: beyond, pairs may count fewer repeats, and shapes are parsed again.
MOST_PAIRS = 20_000
MOST_SHAPES = 20_000
MOST_CALLS = 20_000  # Of a process; it has 479 call paths, each with few flows.

# Between the device and itself no call waits (CUDA's "API synchronization behavior").
ISSUED = ("DtoD", "AtoD", "DtoA", "AtoA", "Memset", "Prefetch")

_NUMBER = rb"(?:0|[1-9][0-9]{0,18})"
_WORD = rb'"[\w -]*"'
_END = rb'(?:null|"0x[0-9a-f]+")'
_MEMORY = rb'(?:null|"[a-z]+")'
LINE = re.compile(
    rb'\{"type":"transfer","time_ns":(' + _NUMBER + rb'),("function":' + _WORD + rb',"dir":' + _WORD
    + rb',"src_kind":' + _WORD + rb',"dst_kind":' + _WORD + rb',"real_dir":' + _WORD
    + rb',"real_src_kind":' + _WORD + rb',"real_dst_kind":' + _WORD + rb',"bytes":' + _NUMBER
    + rb',"outcome":' + _WORD + rb')(?:,"driver_copies":' + _NUMBER + rb')?,"blocked_ns":('
    + _NUMBER + rb')(?:,"links":' + _NUMBER + rb')?,"src_block":(' + _NUMBER
    + rb'|null),"dst_block":(' + _NUMBER + rb'|null),"src_address":(' + _END
    + rb'),"dst_address":(' + _END + rb')(?:,"src_memory":' + _MEMORY + rb',"dst_memory":'
    + _MEMORY + rb')?,"stream":' + _WORD
    + rb',"thread":' + _NUMBER + rb'(?:,"call_site":(?:"([0-9a-f]{8})"|null))?'
    + rb'(?:,"range":(?:("(?:[^"\\]|\\.)*")|null))?\}').fullmatch


def is_issued(record: Record) -> bool:
    """Whether the call only issued the transfer, so that nobody knows when its bytes went: not
    where the driver has to read or write pageable memory, which makes every call wait."""
    if string(record, "outcome") != "moved" or string(record, "real_src_kind") == "Pageable" or \
            string(record, "real_dst_kind") == "Pageable":
        return False
    function, way = string(record, "function"), string(record, "real_dir", "?")
    return "Async" in function or "Graph" in function or way in ISSUED


class Shape:
    """The details of a transfer's record beside its time, its duration and its ends."""

    __slots__ = ("flow", "size", "outcome", "kind", "waits", "large", "grows", "series", "key",
                 "calls", "blocked_ns")

    def __init__(self, record: Record) -> None:
        self.flow = flow_of(record)
        self.size = number(record, "bytes")
        self.outcome = sys.intern(string(record, "outcome"))
        self.kind = (self.flow, self.outcome)
        function = string(record, "function")
        self.waits = "Async" in function
        moved = self.outcome == "moved"
        self.large = moved and is_large(self.flow, function, self.size)
        self.grows = moved and may_grow(self.flow, function, self.size)
        self.series = SERIES.get(self.outcome) or string(record, "real_dir", self.flow.dir)
        self.key = (self.series, is_issued(record))
        self.calls = 0
        self.blocked_ns = 0


class Transfers:
    """Sums up transfers.  `live` are the blocks by number, which the reader of the log keeps."""

    def __init__(self, sums: Sums, live: dict[int, Block], over_time: bool) -> None:
        self._sums = sums
        self._over_time = over_time
        self._live = live
        self._shapes: dict[object, Shape] = {}
        # Calls, bytes and time by call path, flow and outcome.
        self._calls: dict[tuple[str, tuple[Flow, str]], list[int]] = {}
        self._ranges: dict[bytes, Counts] = {}  # Those of the sums.
        # A pair's first copy is kept as its shape, its time and its blocks: most come but once.
        self._pairs: dict[tuple, Pair | tuple[Shape, int, Block | None, Block | None]] = {}

    def take(self, line: bytes) -> bool:
        """Takes a line of the log, if it is a transfer in libzc's own form."""
        match = LINE(line)
        if match is None:
            return False
        time, text, blocked, src, dst, src_end, dst_end, call_site, span = match.groups()
        shape = self._shapes.get(text)
        if shape is None:
            shape = self._learn(text, json.loads(b"{" + text + b"}"))
        self._count(shape, int(time), int(blocked), self._live.get(int(src)) if src != b"null"
                    else None, self._live.get(int(dst)) if dst != b"null" else None,
                    src if src_end == b"null" else src_end, dst if dst_end == b"null" else dst_end)
        if call_site is not None:
            self._call(call_site.decode("ascii"), shape, int(blocked))
        if span is not None:
            self._in_range(span, shape, int(blocked))
        return True

    def add(self, record: Record) -> Flow:
        """Takes the record of a transfer; returns its flow.  Raises TypeError or ValueError where
        fields are of a wrong type, and has counted nothing then."""
        text = (string(record, "function"), flow_of(record), string(record, "real_dir", "?"),
                number(record, "bytes"), string(record, "outcome"), is_issued(record))
        src, dst = record.get("src_block"), record.get("dst_block")
        blocks = self._live.get(src), self._live.get(dst)
        # Without addresses, as in logs of older versions, memory that is no block is one end.
        ends = [_end(record.get(address), block)
                for address, block in (("src_address", src), ("dst_address", dst))]
        shape = self._shapes.get(text) or self._learn(text, record)
        self._count(shape, number(record, "time_ns"), number(record, "blocked_ns"), *blocks, *ends)
        if string(record, "call_site"):
            self._call(string(record, "call_site"), shape, number(record, "blocked_ns"))
        if string(record, "range"):
            self._in_range(json.dumps(record["range"]).encode(), shape,
                           number(record, "blocked_ns"))
        return shape.flow

    def _in_range(self, name: bytes, shape: Shape, blocked_ns: int) -> None:
        """Counts a copy in the range of this name, which is as JSON has it."""
        if shape.flow.is_copy:
            counts = self._ranges.get(name)
            if counts is None:
                if len(self._ranges) >= MOST_CALLS:
                    self._ranges.clear()
                counts = self._ranges[name] = self._sums.ranges.of(json.loads(name)).counts
            counts.add_transfer(shape.outcome, shape.size, blocked_ns)

    def _call(self, site: str, shape: Shape, blocked_ns: int) -> None:
        """Counts a transfer of the call path that made it."""
        use = self._calls.get((site, shape.kind))
        if use is not None:
            use[0] += 1
            use[1] += shape.size
            use[2] += blocked_ns
        elif len(self._calls) < MOST_CALLS:
            self._calls[site, shape.kind] = [1, shape.size, blocked_ns]

    def _learn(self, text: object, record: Record) -> Shape:
        if len(self._shapes) >= MOST_SHAPES:
            self._empty()
        shape = self._shapes[text] = Shape(record)
        return shape

    def _count(self, shape: Shape, time_ns: int, blocked_ns: int, src: Block | None,
               dst: Block | None, src_end: bytes, dst_end: bytes) -> None:
        shape.calls += 1
        shape.blocked_ns += blocked_ns
        if dst is not None:
            dst.use(shape.kind, shape.size, blocked_ns)
        if src is not None and src is not dst:
            src.use(shape.kind, shape.size, blocked_ns)
        if shape.grows and src is not None and dst is not None and src is not dst:
            self._grow(src, dst, shape.size, blocked_ns)
        if shape.flow.is_copy:
            key = (shape.flow, shape.size, src_end, dst_end)
            pair = self._pairs.get(key)
            if pair is None:
                if len(self._pairs) >= MOST_PAIRS:
                    self._forget_pairs()
                self._pairs[key] = (shape, blocked_ns, src, dst)
            else:
                if type(pair) is tuple:
                    pair = self._pairs[key] = self._pair(*pair, src_end, dst_end)
                pair.counts.add_transfer(shape.outcome, shape.size, blocked_ns)
        if self._over_time and time_ns > 0:
            self._spread(shape, time_ns, blocked_ns, _near(shape, src, dst))

    @staticmethod
    def _grow(src: Block, dst: Block, size: int, blocked_ns: int) -> None:
        """Notes a copy to a larger array, which counts as such once the smaller one is freed."""
        if ARRAY_LEAST <= src.size <= dst.size and size >= GROWN_SHARE * src.size and \
                src.api == dst.api == ARRAY_API:
            src.grown = dst, size, blocked_ns

    def _spread(self, shape: Shape, time_ns: int, blocked_ns: int, near: Block | None) -> None:
        """Adds the bytes of a call to the timelines."""
        # A damaged time must not make them years long.
        begin_ns = self._sums.process.start_ns
        start_ns, end_ns = max(time_ns - blocked_ns, begin_ns), max(time_ns, begin_ns)
        self._sums.times.add(start_ns, end_ns, shape.key, shape.size)
        if near is not None and shape.flow.is_copy:
            self._sums.site_times.add(start_ns, end_ns, (near.site, shape.key[1]), shape.size)

    def _pair(self, shape: Shape, blocked_ns: int, src: Block | None, dst: Block | None,
              src_end: bytes, dst_end: bytes) -> Pair:
        """A pair that came once."""
        near = _near(shape, src, dst)
        pair = Pair(self._sums.process, shape.flow, shape.size, _end_name(src, src_end),
                    _end_name(dst, dst_end), near.site if near is not None else "")
        pair.counts.add_transfer(shape.outcome, shape.size, blocked_ns)
        return pair

    def leave(self, block: Block) -> None:
        """Adds the transfers of a block, which is no longer live, to those of its site."""
        flows = self._sums.sites[block.site].flows if block.uses else {}
        for (flow, outcome), (calls, size, blocked_ns) in block.uses.items():
            for sums, key in ((block.by_dir, flow.dir), (flows, flow)):
                if key not in sums:
                    sums[key] = Counts()
                sums[key].add_transfers(outcome, calls, size, blocked_ns)
        block.uses = {}
        block.grown = None  # Rows of the report keep blocks, and need no chain of them.

    def _empty(self) -> None:
        """Adds the shapes' counts to the flows."""
        sums = self._sums
        for shape in self._shapes.values():
            total = sums.flows.get(shape.flow)
            if total is None:
                total = sums.flows[shape.flow] = FlowSum()
            into = [total]
            if shape.flow.pageable and shape.outcome == "moved":
                into.append(sums.pageable)
            if shape.large:
                sums.covered.add_large(shape.flow.dir, shape.calls, shape.calls * shape.size,
                                       shape.blocked_ns)
            what = (shape.outcome, shape.calls, shape.calls * shape.size, shape.blocked_ns)
            for one in into:
                one.counts.add_transfers(*what)
                one.sizes.add(shape.size, shape.calls)
            if len(into) == 2 and shape.waits:
                sums.waiting.add_transfers(*what)
        self._shapes.clear()

    def _forget_pairs(self) -> None:
        """Makes room: pairs that came once go, and where they are few those of the fewest
        repeats, which are counted then."""
        again = [(key, pair) for key, pair in self._pairs.items() if type(pair) is Pair]
        again.sort(key=lambda item: -item[1].counts.asked_calls)
        for _, pair in again[MOST_PAIRS // 2:]:
            self._repeated(pair)
        self._pairs = dict(again[:MOST_PAIRS // 2])

    def _repeated(self, pair: Pair) -> None:
        sums, again = self._sums, pair.counts.asked_calls - 1
        sums.repeated.offer(again * pair.size, pair.order, pair)
        if pair.site in sums.sites:
            sums.sites[pair.site].repeated_calls += again
            sums.sites[pair.site].repeated_bytes += again * pair.size

    def finish(self) -> None:
        """Brings everything into the sums; blocks that are still live stay so."""
        if self._shapes:
            self._sums.process.level = "events"
        self._empty()
        for (site, (flow, outcome)), (calls, size, blocked_ns) in self._calls.items():
            by_dir = self._sums.callers.setdefault(sys.intern(site), {})
            by_dir.setdefault(flow.dir, Counts()).add_transfers(outcome, calls, size, blocked_ns)
        self._calls.clear()
        for pair in self._pairs.values():
            if type(pair) is Pair:
                self._repeated(pair)
        self._pairs.clear()


def _near(shape: Shape, src: Block | None, dst: Block | None) -> Block | None:
    """The block that a copy is about: on the device's side if there is one."""
    return dst if dst is not None and shape.flow.dst != "Pinned" else src or dst


def _end(address: object, block: object) -> bytes:
    """One end of a copy, as in a line: its address, else its block's number."""
    end = address or block
    return (f'"{end}"' if isinstance(end, str) else "null" if end is None else str(end)).encode()


def _end_name(block: Block | None, end: bytes) -> str:
    if block is not None:
        return f"block {block.id}"
    return end.decode("utf-8").strip('"') if end != b"null" else "?"
