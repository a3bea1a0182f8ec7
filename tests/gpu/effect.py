# SPDX-License-Identifier: MIT
"""Says what a policy did to a program, and whether it did what it should have done.

What it should have done comes from a run of the same program that libzc only watches: which device
and pinned memory it asked for, and which of its blocks of malloc it copied, as malloc_watch.c saw
them.
"""

import bisect
import collections
import glob
import json
import os

SMALLEST = 65536          # bytes: host blocks below are never placed
UNIT = 2 << 20            # bytes: smaller blocks of malloc share one
WORTH = 16                # one copy of this part of a block is worth registering it
LATE_NS = 1000000         # how far the clocks of both records may be apart

REQUESTS = {
    "device": {"cuMemAlloc", "cuMemAllocPitch"},
    "pinned": {"cuMemHostAlloc", "cuMemAllocHost"},
}
# The expected effects of the rules of programs.policy().
RULES = {"all": "device", "device": "device", "cuda": "pinned", "libc": "libc", "host": "libc"}
# The memory kind that copies get by a place; the others leave it as it is.
KINDS = {"mapped": "Pinned", "managed": "Managed", "pinned": "Pinned", "shared": "Pinned"}
# A rule may pass a request over for what the request is; every other reason is libzc's to mend.
OF_THE_REQUEST = ("a stream is being captured", "only the driver makes write-combined memory",
                  "a library that exports memory requests it",
                  "below 64 KiB", "at most 1 MiB, of which", "it is not larger than 1 MiB",
                  "its rule does not say 'access")


def size(count):
    """Bytes for people: 1536 is 1.5 KiB."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count, units = count / 1024, units[1:]
    return f"{count:.3g} {units[0]}" if count < 1000 else f"{count:.0f} {units[0]}"


def logs(folder):
    """The records of each log in the folder; a process that was killed may have cut its last."""
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        found = []
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    found.append(json.loads(line))
        if found:
            yield found


class Traffic:
    """How the bytes of all copies of a run went."""

    def __init__(self):
        self.moved = collections.Counter()    # by the kinds of both sides
        self.cpu_copied = self.elided = self.remapped = 0

    def add(self, summary):
        for flow in summary["moved_by_kind"]:
            if flow["dir"] not in ("Memset", "Prefetch"):
                self.moved[frozenset((flow["src_kind"], flow["dst_kind"]))] += flow["bytes"]
        for flow in summary["flows"]:
            if flow["dir"] in ("Memset", "Prefetch"):
                continue
            self.cpu_copied += flow["cpu_copied_bytes"]
            if flow["src_kind"] == flow["dst_kind"] == "Device":
                self.remapped += flow["elided_bytes"]
            else:
                self.elided += flow["elided_bytes"]

    def otherwise(self, bare, kind):
        """Bytes that went otherwise than in `bare`; by the driver, with that memory kind."""
        moved = sum(max(0, count - bare.moved[kinds]) for kinds, count in self.moved.items()
                    if kind in kinds)
        return moved + self.cpu_copied + self.elided + self.remapped

    def by_kind(self):
        """Bytes that the driver moved, by the kind of memory that says how it did."""
        parts = collections.Counter()
        for kinds, count in self.moved.items():
            name = next(kind for kind in ("Managed", "Array", "Pageable", "Pinned", "Device")
                        if kind in kinds)
            parts[name] += count
        return parts

    def text(self):
        said = [f"moved as {kind} {size(count)}" for kind, count in sorted(self.by_kind().items())
                if count]
        return said + [f"{what} {size(count)}" for what, count in
                       (("CPU-copied", self.cpu_copied), ("elided", self.elided),
                        ("remapped", self.remapped)) if count]


class Blocks:
    """The blocks of malloc of one process, as malloc_watch.c wrote them down."""

    def __init__(self, path):
        self.found = []                       # [from, to, first address, end]
        live = {}
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                what, time, address, count = line.split()
                if address in live:
                    live.pop(address)[1] = int(time)
                if what == "+":
                    block = [int(time), float("inf"), int(address), int(address) + int(count)]
                    live[address] = block
                    self.found.append(block)
        self.found.sort(key=lambda block: block[2])
        self.firsts = [block[2] for block in self.found]
        self.largest = max((block[3] - block[2] for block in self.found), default=0)

    def at(self, address, begin, end):
        """The size of the block that an address lay in meanwhile, 0 if there is none."""
        for i in range(bisect.bisect(self.firsts, address) - 1, -1, -1):
            since, until, first, last = self.found[i]
            if first <= address < last and since <= end + LATE_NS and until >= begin - LATE_NS:
                return last - first
            if address - first > self.largest:
                break
        return 0


class Expected:
    """The lines of a run that was only watched about the effects that policies should have."""

    def __init__(self, folder):
        self.requested = collections.Counter()   # bytes by kind of request
        self.copied = collections.Counter()      # bytes that were copied from and to such blocks
        self.pageable = 0                        # bytes of large copies of any pageable memory
        self.traffic = Traffic()
        for records in logs(folder):
            path = os.path.join(folder, f"malloc.{records[0]['pid']}")
            self._read(records, Blocks(path) if os.path.exists(path) else None)

    def _read(self, records, libc):
        blocks = {}
        for record in records:
            if record["type"] == "summary":
                self.traffic.add(record)
            elif record["type"] == "alloc" and not record["foreign"]:
                for kind, names in REQUESTS.items():
                    if record["api"] in names and \
                            (kind == "device" or record["size_bytes"] >= SMALLEST):
                        blocks[record["block"]] = kind
                        self.requested[kind] += record["size_bytes"]
            elif record["type"] == "transfer" and record["dir"] not in ("Memset", "Prefetch"):
                self._copy(record, blocks, libc)

    def _copy(self, record, blocks, libc):
        for kind in {blocks.get(record[side]) for side in ("src_block", "dst_block")} - {None}:
            self.copied[kind] += record["bytes"]
        for side in ("src", "dst"):
            # Copies of graphs were captured or added, when nothing can be registered.
            if record[side + "_kind"] != "Pageable" or not record[side + "_address"] or \
                    record["function"].startswith("cuGraphLaunch"):
                continue
            end = record["time_ns"]
            whole = libc.at(int(record[side + "_address"], 16), end - record["blocked_ns"], end) \
                if libc else 0
            if whole and record["bytes"] * WORTH >= max(whole, UNIT):
                self.requested["libc"] += record["bytes"]
                self.copied["libc"] += record["bytes"]
            self.pageable += record["bytes"] if record["bytes"] >= SMALLEST else 0


class Done:
    """The effects of a run under a policy."""

    def __init__(self, folder):
        self.placed = collections.defaultdict(lambda: [0, 0])  # blocks, bytes by rule and place
        self.passed = collections.defaultdict(set)             # reasons by rule
        self.fallbacks = []
        self.traffic = Traffic()
        for records in logs(folder):
            heap = {}  # Blocks of libc's heap, of which those count that were copied.
            for record in records:
                if record["type"] in ("free", "block") and record["block"] in heap:
                    placed = heap.pop(record["block"])
                    if record["traffic"]:
                        self._place(placed)
                elif record["type"] == "summary":
                    self.traffic.add(record)
                elif record["type"] == "warn" and record["code"] == "fallback":
                    self.fallbacks.append(record["text"])
                elif record["type"] == "alloc" and record["rule"]:
                    if RULES.get(record["rule"]) == "libc":
                        heap[record["block"]] = record
                    else:
                        self._place(record)

    def _place(self, record):
        if record["converted"] or not record["why"]:
            count = self.placed[record["rule"], record["place"]]
            count[0] += 1
            count[1] += record["size_bytes"]
        else:
            self.passed[record["rule"]].add(record["why"])

    def text(self):
        total = collections.defaultdict(lambda: [0, 0])
        for (_, place), (blocks, count) in self.placed.items():
            total[place][0] += blocks
            total[place][1] += count
        return ", ".join([f"{place} {size(count)} in {blocks} block{'s' if blocks > 1 else ''}"
                          for place, (blocks, count) in sorted(total.items())] +
                         self.traffic.text())


def lacks(place, rule, expected, done):
    """Why a rule had no effect though it should have, or None."""
    kind = RULES[rule]
    stays = next((text for text in done.fallbacks if f"rule {rule} " in text), None)
    wanted = expected.requested[kind] or (expected.pageable if kind == "libc" and stays else 0)
    if not wanted:
        return None
    asked = f"{size(wanted)} of blocks of malloc copied" if kind == "libc" else \
        f"{size(wanted)} of {kind} memory requested"
    if not any(name == rule for name, _ in done.placed):
        reasons = done.passed[rule]
        if reasons and all(any(known in why for known in OF_THE_REQUEST) for why in reasons):
            return None
        return f"rule {rule}: {asked}, nothing placed: " + \
            (stays or "; ".join(sorted(reasons)) or "no message says why")
    if place not in KINDS or kind == "pinned" or not expected.copied[kind]:
        return None
    return None if done.traffic.otherwise(expected.traffic, KINDS[place]) else \
        f"rule {rule}: {size(expected.copied[kind])} copied, none of it otherwise than bare"


def judge(place, rules, expected, folder):
    """(text, failure): what the policy did; why that is not what it should have, or None."""
    done = Done(folder)
    failures = [text for text in (lacks(place, rule, expected, done) for rule in rules) if text]
    if failures:
        return "no effect: " + done.text(), "; ".join(failures)
    if done.placed:
        return done.text(), None
    reasons = set().union(*done.passed.values()) if done.passed else {"no request matches"}
    if any(RULES[rule] == "libc" for rule in rules) and expected.pageable:
        reasons.add(f"{size(expected.pageable)} copied of pageable memory that is not of malloc")
    return "-: " + "; ".join(sorted(reasons)), None
