# SPDX-License-Identifier: MIT
"""Findings of a report, in words, with the rule that would change each."""

from __future__ import annotations

import re
import shlex
from typing import Iterable, Iterator, NamedTuple, Sequence

from .. import costs, presets, units
from ..costs import PARALLEL_SHARE
from ..logs import number
from . import ranks
from .counts import Counts
from .covered import is_large
from .flow import Flow
from .memory import MemorySum, Side, add_sizes, holding
from .parts import Site
from .shared import Shared
from .symbols import Symbols
from .tally import OTHERS, by_count
from .totals import Totals

# A finding has at least this share of the run's time, or of the bytes asked for.
LEAST_SHARE = 0.01

MANY_COPIES = 4          # Copies a block, from which on they count as repeated.
SMALL_BYTES = 64 << 10   # Up to here the time of a copy is mostly that of the call.
MANY_SMALL = 1000
SHARED_OVER = 1 << 20    # Blocks up to here can't be `shared`.
PINNED_BYTES = 128 << 10  # Of a unit of 2 MiB so much must be copied for it to be registered.
SIZES_SINCE = "0.3"      # Logs of libzc from there on tell sizes of copies at every level.
MOST_WHYS = 3            # That a sentence names.
ONCE_BYTES = 1 << 20     # Smaller blocks that are copied in once are not worth a rule.

UNUSED_BYTES = 64 << 20  # Less pinned memory that nothing copies is not worth a word.

EVERYDAY = "@everyday"
COMPARED_NS = 20 * 10**9  # A program that takes less is run several times to show a gain.

# Requests that a rule can place (docs/policy.md, "Requests").
DEVICE_APIS = {"cuMemAlloc", "cuMemAllocPitch"}
PINNED = {"cuMemHostAlloc", "cuMemHostRegister"}
HOST_APIS = "heap"

# Copies that may go over the links of several GPUs.
PINNED_FLOWS = {Flow("HtoD", "Pinned", "Device"), Flow("DtoH", "Device", "Pinned")}

# Memory that malloc never saw, as the log names it and in words.
HEAP = "heap"
MEMORIES = {"anonymous": "mapped memory", "file": "mapped files", "shm": "shared memory",
            "stack": "stacks", "static": "variables"}


class Finding(NamedTuple):
    """One thing that stands out."""

    kind: str     # A word for programs that read the report.
    weight: int   # By which findings are ranked: time blocked in nanoseconds.
    text: str     # A short sentence or two, without the last full stop.
    rule: str     # Sections of policy.conf to try, or "".
    site: str     # Id of the site that it is about, or "".
    gain_ns: int = 0  # The saving of the rule, by the rates of the machine; 0 if unknown.
    command: str = ""  # The command line to try in the place of a rule, or "".
    # The saving of the command by the rates of the machine or, where they were not measured, by the
    # defaults of costs.py; 0 where it saves nothing by them.
    estimate_ns: int = 0
    # Changes under it: bytes of pageable memory that the driver does not move any more, and
    # bytes that nothing moves.
    pageable_bytes: int = 0
    elided_bytes: int = 0


def try_first(totals: Totals, findings: Sequence[Finding]) -> str:
    """The command to type next, "" without any: one that compares, and so runs the program seven
    times or more, where that is over soon."""
    kind, command = next(((finding.kind, finding.command) for finding in findings
                          if finding.command), ("", ""))
    if kind == "unmet":  # Without it the program does not run.
        return command
    longest = max((process.wall_ns for process in totals.processes), default=0)
    return command if longest >= COMPARED_NS else command.replace(" -p ", " --compare ", 1)


class Finder:
    """Looks through the sums of a report."""

    def __init__(self, totals: Totals, symbols: Symbols, command: Sequence[str] = ()) -> None:
        """`command`: what was run; where that is not given, as the logs tell it."""
        self._totals = totals
        self._wall_ns = totals.wall_ns
        self._symbols = symbols
        first = next(iter(totals.processes), None)
        found = costs.Costs() if first is None or totals.simulated else \
            costs.of(first.host, first.gpu)
        self._costs = found if found.measured else None
        self._rates = found
        # No log tells the command that launched several processes.
        self._command = shlex.join(command) or \
            (first.command if first and len(totals.processes) == 1 else "")

    def all(self) -> list[Finding]:
        """All findings: faults of the log first, the others by the time that they took."""
        sites = [site for name, site in self._totals.sites.items() if name != OTHERS]
        found = [finding for site in sites for finding in self._site(site)]
        found += [finding for name, shared in self._totals.shared.items()
                  for finding in self._shared(name, shared)]
        found += self._flows()
        found.sort(key=lambda finding: (-(finding.gain_ns or finding.weight), finding.site,
                                        finding.text))
        return [*self._unmet(), *self._faults(), *self._everyday(), *_told_apart(found),
                *self._moves()]

    def _unmet(self) -> Iterator[Finding]:
        unmet = self._totals.unmet()
        if unmet:
            yield Finding("unmet", 0, f"{unmet}. Under this preset host memory takes what has no "
                          "room", "", "",
                          command=f"zc run -p {presets.LARGER} {self._command or 'COMMAND'}")

    def _moves(self) -> Iterator[Finding]:
        came, hidden, left, blocked, waited = (
            sum(number(process.moves, name) for process in self._totals.processes)
            for name in ("to_device_bytes", "hidden_bytes", "to_host_bytes", "blocked_ns",
                         "waited_ns"))
        if came or left:
            yield Finding("moves", blocked + waited,
                          f"{units.size(came)} of blocks that move came to the device, "
                          f"{units.size(hidden)} of it beside kernels, and {units.size(left)} left "
                          f"it; launches waited {units.duration(blocked)} for that, and "
                          f"{units.duration(waited)} for the GPU", "", "")

    def _share(self, counts: Counts) -> str:
        wall = self._wall_ns
        if not wall or not counts.blocked_ns:
            return ""
        return f", {units.of_run(counts.blocked_ns, wall)}"

    def _matters(self, counts: Counts) -> bool:
        wall, asked = self._wall_ns, self._totals.counts.asked_bytes
        return (counts.blocked_ns > LEAST_SHARE * wall > 0
                or counts.asked_bytes > LEAST_SHARE * asked > 0)

    def _faults(self) -> Iterator[Finding]:
        for text in ranks.warnings(self._totals.processes):
            yield Finding("ranks", 0, text, "", "")
        untracked = sum(process.untracked for process in self._totals.processes)
        if untracked:
            yield Finding("untracked", 0, f"{untracked} requests were not recorded: sums by site "
                          "and block are too low", "", "")
        for (severity, code), (times, text) in sorted(self._totals.warns.items()):
            if severity in ("warning", "error"):
                more = f" ({times} messages of this kind)" if times > 1 else ""
                yield Finding("message", 0, f"libzc said: {text}{more}", "", "")

    # Findings about a site.

    def _site(self, site: Site) -> Iterator[Finding]:
        if site.whys:
            yield self._passed_over(site)
        to_device = site.by_dir.get("HtoD", Counts())
        both = site.copies()
        if set(site.apis) & PINNED == set(site.apis) != set() and not both.asked_calls \
                and site.requested_bytes >= UNUSED_BYTES:
            yield self._unused(site)
        moved = both.moved_bytes
        if not moved or not self._matters(both) or not self._can_be_placed(site):
            return
        blocks = max(site.requests, 1)
        if to_device.moved_calls >= MANY_COPIES * blocks:
            yield self._repeated(site, to_device)
        elif (both.asked_calls == to_device.asked_calls <= blocks
              and to_device.asked_bytes >= ONCE_BYTES * blocks):
            yield self._once(site, to_device)

    def _can_be_placed(self, site: Site) -> bool:
        """Blocks of the device that no rule has yet, as far as the log tells."""
        if not site.apis:  # Of the level summary: they may have a rule, or lie on the host's side.
            kinds = {kind for flow in self._totals.flows for kind in (flow.src, flow.dst)}
            return kinds.isdisjoint(("Pinned", "Managed")) and not any(
                process.policy for process in self._totals.processes)
        return not site.rules and set(site.apis) <= DEVICE_APIS

    def _name(self, site: Site) -> str:
        caller = self._symbols.caller(site.frames)
        return f"site {site.id} ({caller})" if caller else f"site {site.id}"

    def _rule_name(self, site: Site) -> str:
        """Rules have names of their own, so the site is a part of it."""
        function = self._symbols.place(self._symbols.innermost(site.frames)).function
        word = re.sub(r"[^A-Za-z0-9_-]+", "-", function).strip("-")[:40] or "site"
        return f"{word}-{site.id}"

    def _source(self, site: Site) -> str:
        """The memory kind of the host's side, where all copies to the device have the same."""
        kinds = {flow.src for flow in site.flows or self._totals.flows if flow.dir == "HtoD"}
        return kinds.pop() if len(kinds) == 1 else ""

    @staticmethod
    def _whole_blocks(site: Site, counts: Counts) -> int:
        """The size of the site's blocks, if they all have one and every copy was of a whole block;
        else 0."""
        size = site.least if site.least == site.greatest else 0
        if not site.greatest and site.requests == 1:  # A log of the level summary.
            size = site.requested_bytes
        return size if size * counts.asked_calls == counts.asked_bytes else 0

    def _repeated(self, site: Site, counts: Counts) -> Finding:
        source = self._source(site)
        one = self._whole_blocks(site, counts) if counts.moved_calls == counts.asked_calls else 0
        what = f"{units.size(one)} copied {_times(counts.moved_calls)}" if one else \
            f"{units.size(counts.moved_bytes)} moved in {units.count(counts.moved_calls)} copies"
        text = f"{self._name(site)}: {what}{_from(source)}{self._share(counts)}"
        same = (f"; {site.repeated_calls} of the copies had the size and both addresses of an "
                "earlier one" if site.repeated_calls else "")
        text += same
        if source == "Pinned":
            return Finding("repeated", counts.blocked_ns, text, "", site.id)
        does, rule = self._table_rule(site, one or site.least)
        gain = counts.blocked_ns if self._costs is not None else 0
        return Finding("repeated", counts.blocked_ns,
                       f"{text}. {does}{self._gain(gain, 'up to ')}", rule, site.id, gain)

    def _table_rule(self, site: Site, least: int) -> tuple[str, str]:
        """A rule for blocks that are copied to, and what it does in words.  `least`: the size of
        the smallest, 0 where no log tells it."""
        name = self._rule_name(site)
        rule = self._rule_head(site)
        can_share = least > SHARED_OVER and site.apis and set(site.apis) <= DEVICE_APIS
        if can_share and self._heap_is_source():
            return ("If kernels only read it, rule `place = shared` with `access = read` moves "
                    "only what the host changed",
                    f"{rule}place = shared, device\naccess = read\n\n[rule {name}-host]\n"
                    f"api = {HOST_APIS}\nsize = {at_least(least)}\nplace = shared, pageable\n")
        return ("Rule `place = mapped` would move 0 by copy, and pays if kernels read a small part "
                "of it", f"{self._rule_head(site)}place = mapped, device\n")

    def _rule_head(self, site: Site) -> str:
        """Rules match call paths without Python's functions."""
        why = "  # the call path without Python's functions" if site.natives else ""
        return (f"[rule {self._rule_name(site)}]\n"
                f"site = {', '.join(site.natives) or site.id}{why}\n")

    def _heap_is_source(self) -> bool:
        """Whether copies to the device are of malloc's blocks, as far as the log tells: only those
        can be one with a device block."""
        sources = {side.memory for side, one in self._totals.memory.items()
                   if side.side == "src" and one.counts.asked_bytes}
        return not sources or HEAP in sources

    def _once(self, site: Site, counts: Counts) -> Finding:
        does, rule = self._table_rule(site, counts.each_bytes)
        if "shared" in rule:
            does += ", and pays if they read a small part of it"
        gain = counts.blocked_ns if self._costs is not None else 0
        return Finding("once", counts.blocked_ns,
                       f"{self._name(site)}: {units.size(counts.moved_bytes)} copied in once"
                       f"{_from(self._source(site))} and never back{self._share(counts)}. {does}"
                       f"{self._gain(gain, 'up to ')}", rule, site.id, gain)

    def _unused(self, site: Site) -> Finding:
        """All pages of pinned memory are there, used or not."""
        blocks = _times(site.requests, "block", "blocks")
        return Finding("unused-pinned", 0,
                       f"{self._name(site)}: {units.size(site.requested_bytes)} of pinned memory "
                       f"in {blocks} that no copy used. It takes host memory, and time to pin all "
                       "of it; if kernels don't use it either, ask for less, or later",
                       "", site.id)

    def _passed_over(self, site: Site) -> Finding:
        rules = ", ".join(by_count(site.rules)) or "?"
        whys = "; ".join([*by_count(site.whys)][:MOST_WHYS])
        if len(site.whys) > MOST_WHYS:
            whys += f"; and {len(site.whys) - MOST_WHYS} more"
        return Finding("passed-over", site.copies().blocked_ns,
                       f"{self._name(site)}: {sum(site.whys.values())} of {site.requests} requests "
                       f"did not get the first place of rule {rules}: {whys}", "", site.id)

    def _shared(self, name: str, shared: Shared) -> Iterator[Finding]:
        """The reasons that kept blocks in `shared` from being one with a host block."""
        site = self._totals.sites.get(name)
        head = f"{self._name(site)}: " if site is not None else ""
        for why, times in by_count(shared.whys).items():
            yield Finding("shared", 0, f"{head}{times} of {shared.blocks} shared blocks had device "
                          f"memory of their own: {why}", "", name)

    # Presets that need no promise about the program.

    def _everyday(self) -> Iterator[Finding]:
        """The preset everyday, where no policy was in force and it changes something."""
        if any(process.policy for process in self._totals.processes):
            return
        large, grown = self._large(), self._totals.covered.again
        both = _added([*large.values(), grown])
        if not both.moved_bytes or not self._matters(both):
            return
        estimate = sum(self._saved(self._rates, "src" if way == "HtoD" else "dst", counts,
                                   PARALLEL_SHARE)
                       for way, counts in large.items()) + _saved_by_growing(self._rates, grown)
        gain = estimate if self._costs is not None else 0
        if self._costs is not None and not gain:
            return
        pageable = both.moved_bytes - grown.moved_bytes
        does = [f"{units.size(pageable)} from or to pageable memory would be copied at about the "
                "speed of the link"] if pageable else []
        if grown.moved_bytes:
            does.append(f"{_arrays(grown)} would be remapped instead")
        now = self._share(both).replace(", ", ". These copies now take ", 1)
        yield Finding("everyday", both.blocked_ns,
                      f"preset everyday needs no promise about the program: {', and '.join(does)}"
                      f"{self._gain(gain)}{now}",
                      "", "", gain,
                      f"zc run -p {EVERYDAY} {self._command or 'COMMAND'}", estimate, pageable,
                      grown.moved_bytes)

    def _large(self) -> dict[str, Counts]:
        """The copies that it takes off the driver's way for pageable memory, by direction."""
        if self._totals.level == "events":
            return self._totals.covered.large
        found: dict[str, Counts] = {}
        for side, one in self._totals.memory.items():
            large = sum(count for size, count in one.sizes.items() if size >= costs.PARALLEL_LEAST)
            if large:
                moved = _moved_part(one.counts)
                found.setdefault("HtoD" if side.side == "src" else "DtoH", Counts()).add_transfers(
                    "moved", moved.moved_calls, large * moved.moved_bytes // one.counts.asked_bytes,
                    moved.blocked_ns * large // one.counts.asked_bytes)
        return found if any(one.sizes for one in self._totals.memory.values()) \
            else self._large_on_average()

    def _large_on_average(self) -> dict[str, Counts]:
        """The same by logs of libzc before 0.3.0, which tell no sizes: by averages of call paths
        where all copies of a direction are of such memory, else of all such copies."""
        copied = [(flow, total.counts) for flow, total in self._totals.flows.items()
                  if total.counts.asked_calls]
        found = {}
        for flow, counts in copied:
            alone = sum(other.dir == flow.dir for other, _ in copied) == 1
            parts = [site.by_dir[flow.dir] for site in self._totals.sites.values()
                     if flow.dir in site.by_dir] if alone else [counts]
            large = _added(part for part in parts if part.moved_calls and is_large(
                flow, "", part.moved_bytes // part.moved_calls))
            if large.moved_bytes:
                found[flow.dir] = large
        return found

    def _growing(self) -> Iterator[Finding]:
        """Arrays that are allocated anew, copied and freed."""
        sums = self._totals.covered.grown
        grown = _added(sums.values())
        sites = sorted({name for pair in sums for name in pair})
        if not grown.moved_bytes or not self._matters(grown) or OTHERS in sites or any(
                self._totals.sites[name].rules for name in sites):
            return
        natives = sorted({native for name in sites
                          for native in self._totals.sites[name].natives or (name,)})
        gain = _saved_by_growing(self._costs, grown)
        yield Finding("growing", grown.blocked_ns,
                      f"{_arrays(grown)}, which then were freed{self._share(grown)}. Rule `place = "
                      f"vmm` with `grow = yes` hands their memory over instead{self._gain(gain)}",
                      f"[rule arrays]\nsite = {', '.join(natives)}\nsize = 2M..\n"
                      "place = vmm, device\ngrow = yes\n", "", gain)

    # Findings about flows.

    def _flows(self) -> Iterator[Finding]:
        for flow, total in self._totals.flows.items():
            yield from self._small(flow, total.counts, total.sizes.median())
        yield from self._by_memory()
        yield from self._links()
        yield from self._growing()
        waiting = self._totals.waiting
        if waiting.moved_calls and self._matters(waiting):
            yield Finding("async-pageable", waiting.blocked_ns,
                          f"asynchronous copies from or to pageable memory "
                          f"({units.count(waiting.moved_calls)}) blocked for "
                          f"{units.duration(waiting.blocked_ns)}{self._share(waiting)}, as "
                          "synchronous ones do. Pinned memory lets them overlap", "", "")

    def _by_memory(self) -> Iterator[Finding]:
        """The driver's copies from or to pageable memory; each kind has its own cure."""
        heap, counts = Counts(), Counts()
        large: dict[Side, MemorySum] = {}
        for side, one in sorted(self._totals.memory.items(), key=lambda item: item[0]):
            if side.memory == HEAP:
                heap.add(_moved_part(one.counts))
            elif side.memory in MEMORIES and \
                    one.counts.moved_bytes >= max(costs.PARALLEL_LEAST * one.counts.asked_calls, 1):
                large[side] = one
                counts.add(_moved_part(one.counts))
        if not self._totals.memory:  # Of an older libzc, or a process that was killed.
            heap = self._moved_pageable()
        if heap.moved_bytes and self._matters(heap):
            yield self._pageable(heap, " of malloc" if large else "")
        if counts.moved_bytes and self._matters(counts):
            names = dict.fromkeys(MEMORIES[side.memory] for side in large)
            gain = sum(self._saved(self._costs, side.side, one.counts, PARALLEL_SHARE)
                       for side, one in large.items())
            yield Finding("pageable", counts.blocked_ns,
                          f"{units.size(counts.moved_bytes)} copied from or to "
                          f"{' and '.join(names)}{self._share(counts)}, which malloc never saw. "
                          "With `pageable_copy = parallel` threads copy it beside the link"
                          f"{self._gain(gain)}",
                          "[defaults]\npageable_copy = parallel\n", "", gain)

    def _links(self) -> Iterator[Finding]:
        """Large copies of pinned memory that waited for one link, where others were in sight."""
        gpus = min((process.gpus for process in self._totals.processes), default=0)
        job = any(process.world > 1 for process in self._totals.processes)
        counts, gain = Counts(), 0.0
        for flow, total in self._totals.flows.items():
            one = total.counts
            if flow in PINNED_FLOWS and one.each_bytes >= costs.LINKS_LEAST:
                counts.add(one)
                then = self._rates.links_ns(flow.dir, one.moved_bytes, gpus)
                gain += max(one.blocked_ns - then, 0)
        if gpus < 2 or job or self._totals.relayed_bytes or not self._matters(counts) \
                or gain <= LEAST_SHARE * self._wall_ns:
            return
        saves = units.duration(round(gain))
        yield Finding("links", counts.blocked_ns,
                      f"{units.size(counts.moved_bytes)} copied between pinned memory and a GPU in "
                      f"{_times(counts.moved_calls, 'copy', 'copies')} of "
                      f"{units.size(counts.each_bytes)} on average{self._share(counts)}, over its "
                      f"own link, while the process saw {gpus} GPUs. With `links = idle` the links "
                      f"of others carry parts, where NVLink leads to them and they have nothing "
                      f"to do: by the rates of two and four H200 that saves up to {saves}",
                      "[defaults]\nlinks = idle\n", "")

    @staticmethod
    def _saved(rates: costs.Costs | None, side: str, counts: Counts, share: float = 1.0) -> int:
        """The time that copies would save at this share of the rate of pinned memory; 0 without
        rates."""
        if rates is None or not counts.asked_bytes:
            return 0
        way = "HtoD" if side == "src" else "DtoH"
        now = _moved_part(counts).blocked_ns
        return max(round(now - rates.copy_ns(way, False, counts.moved_bytes) / share), 0)

    def _gain(self, gain_ns: int, most: str = "") -> str:
        """A gain in words, where one is known."""
        if not gain_ns or not self._wall_ns:
            return ""
        return (f", which saves {most}{units.duration(gain_ns)}, "
                f"{units.of_run(gain_ns, self._wall_ns)}, by the rates that "
                "were measured here")

    def _moved_pageable(self) -> Counts:
        """The driver's copies from or to pageable memory, with the time of just that: by the
        transfers, or by the flows where nothing else became of them; else without time."""
        flows = Counts()
        for flow, total in self._totals.flows.items():
            if flow.pageable:
                flows.add(total.counts)
        by_transfers = self._totals.pageable.counts
        if by_transfers.moved_calls == flows.moved_calls:
            return by_transfers
        moved = Counts()
        moved.moved_calls, moved.moved_bytes = flows.moved_calls, flows.moved_bytes
        if flows.asked_calls == flows.moved_calls:
            moved.blocked_ns = flows.blocked_ns
        return moved

    def _sizes(self) -> list[int]:
        """Sizes of which copies of malloc's memory have nine tenths of the bytes, and half; none
        where no log tells them."""
        heap: dict[int, int] = {}
        for side, one in self._totals.memory.items():
            if side.memory == HEAP:
                add_sizes(heap, one.sizes)
        told = self._totals.pageable.sizes
        if not heap and not told.count:
            # If a log can tell them and does not, all are smaller than any rule's.
            tells = all(process.libzc >= SIZES_SINCE for process in self._totals.processes)
            return [0] if tells and not self._totals.memory else []
        return [holding(heap, share) if heap else told.holding(share) for share in (90, 50)]

    def _pageable(self, counts: Counts, whose: str) -> Finding:
        known = self._sizes()
        # Memory in larger copies than all that was moved is pinned by now.
        size = next((size for size in known if PINNED_BYTES <= size <= counts.moved_bytes), 0)
        rate = f" at {units.rate(counts.moved_bytes, counts.blocked_ns)}" if counts.blocked_ns \
            else ""
        text = (f"{units.size(counts.moved_bytes)} copied from or to pageable memory{whose} "
                f"in {_times(counts.moved_calls, 'copy', 'copies')}{rate}{self._share(counts)}")
        if not size:
            why = (f"most of it in copies below {units.size(PINNED_BYTES)}, for which no rule pins "
                   "memory" if known else "the level events tells their sizes, for a rule that "
                   "pins the program's buffers")
            return Finding("pageable", counts.blocked_ns, f"{text}; {why}", "", "")
        sides = {side.side: one.counts for side, one in self._totals.memory.items()
                 if side.memory == HEAP}
        gain = sum(self._saved(self._costs, side, one) for side, one in sides.items())
        return Finding("pageable", counts.blocked_ns,
                       f"{text}. Rule `place = pinned` for the program's buffers lets them run at "
                       f"the speed of the link{self._gain(gain)}",
                       f"[rule host-buffers]\napi = {HOST_APIS}\nsize = {at_least(size)}\n"
                       "place = pinned, pageable\n", "", gain)

    def _small(self, flow: Flow, counts: Counts, median: int | None) -> Iterator[Finding]:
        if not flow.is_copy or counts.moved_calls < MANY_SMALL or not self._matters(counts):
            return
        typical = counts.each_bytes if median is None else median
        if typical > SMALL_BYTES:
            return
        word = "on average" if median is None else "in the median"
        each = counts.blocked_ns // max(counts.asked_calls, 1)
        yield Finding("small", counts.blocked_ns,
                      f"{counts.moved_calls} copies {flow.dir} ({flow.src} to {flow.dst}) of "
                      f"{units.size(typical)} {word}, {units.duration(each)} each"
                      f"{self._share(counts)}. Their time is that of the calls, which `place = "
                      "mapped` or fewer, larger copies avoid", "", "")


def _saved_by_growing(rates: costs.Costs | None, grown: Counts) -> int:
    """The time of copies that are not made; 0 without rates."""
    return max(round(rates.copy_ns("DtoD", False, grown.moved_bytes)), grown.blocked_ns) \
        if rates is not None and grown.moved_bytes else 0


def _arrays(grown: Counts) -> str:
    return (f"{units.size(grown.moved_bytes)} copied from arrays to larger ones in "
            f"{_times(grown.moved_calls, 'copy', 'copies')}")


def _added(several: Iterable[Counts]) -> Counts:
    total = Counts()
    for counts in several:
        total.add(counts)
    return total


def _told_apart(found: list[Finding]) -> list[Finding]:
    """Findings that are about the same bytes say so: only one of their rules has its effect."""
    first: dict[str, Finding] = {}
    for at, one in enumerate(found):
        if not one.rule or not one.site:
            continue
        above = first.setdefault(one.site, one)
        if above.rule == one.rule and above is not one:
            found[at] = one._replace(rule="", text=f"{one.text}: the rule of `{above.kind}`, above")
        elif above is not one:
            found[at] = one._replace(text=f"{one.text}; instead of the rule of `{above.kind}`, "
                                          "above")
    sites = list(dict.fromkeys(one.site for one in found if one.site and one.rule))
    if not sites:
        return found
    more = f" and {len(sites) - 3} more" if len(sites) > 3 else ""
    other = (f"; the rule for site {', '.join(sites[:3])}{more} is about some of these bytes, too: "
             "compare both")
    return [one._replace(text=one.text + other) if one.kind == "pageable" and one.rule else one
            for one in found]


def _moved_part(counts: Counts) -> Counts:
    """Copies of pageable memory with what the driver moved as such alone, and its share of their
    time."""
    moved, asked = counts.moved_bytes, max(counts.asked_bytes, 1)
    return Counts(counts.asked_calls, moved, 0, 0, 0, 0, counts.blocked_ns * moved // asked)


def _times(count: int, one: str = "time", many: str = "times") -> str:
    return f"{units.count(count)} {one if count == 1 else many}"


def _from(kind: str) -> str:
    return f" from {kind.lower()} memory" if kind else ""


def at_least(size: int) -> str:
    """A size range of policy.conf that holds this size and all above: a power of two from 64 KiB
    on, below which libzc does not place host requests."""
    bits = max(size.bit_length() - 1, 16)
    for suffix, shift in (("G", 30), ("M", 20), ("K", 10)):
        if bits >= shift:
            return f"{1 << (bits - shift)}{suffix}.."
    raise AssertionError("16 bits are more than a KiB's 10")
