# SPDX-License-Identifier: MIT
"""Rules that may gain, with what the cost model says they gain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Collection, Iterator, Sequence

from .. import units
from ..costs import PARALLEL_START_NS, Costs
from ..report.findings import DEVICE_APIS, HOST_APIS, SHARED_OVER, at_least
from .traffic import OTHER, PINNED, Sum, Traffic

MOST_PROBES = 4
# Of the copied bytes this share is in blocks that the rule for host buffers takes.
HELD = 90
# Blocks that less than this share of is copied back from are only copied to.
HARDLY = 0.02


@dataclass
class Candidate:
    """A change of the policy."""

    kind: str                    # parallel, pinned, grow, shared, mapped, or all of the first three
    what: str                    # In words.
    gain_ns: float               # Predicted; for probes the most that is possible.
    hope_ns: float               # The most that is possible.
    rules: dict[str, str] = field(default_factory=dict)  # Sections by name.
    hosts: Sequence[str] = ()    # Call paths whose blocks become the other side of `shared`.
    settings: str = ""           # Lines of [defaults].
    where: str = ""              # A line for all rules: which ranks or blocks they are for.
    sites: Sequence[str] = ()    # Call paths that it names.
    beside_pinned_ns: float | None = None  # Its gain where malloc's blocks are pinned.
    parts: Sequence[Candidate] = ()  # Those that it joins, where it joins some.

    @property
    def kinds(self) -> Collection[str]:
        return [one.kind for one in self.parts] or [self.kind]

    def drop_rules(self, used: Collection[str]) -> bool:
        """Leaves out rules that are not used; whether there was one."""
        idle = [name for name in self.rules if name not in used]
        for name in idle:
            del self.rules[name]
        if idle and self.parts:
            self.parts = [one for one in self.parts
                          if one.settings or any(name in self.rules for name in one.rules)]
            self.what = "; ".join(one.what for one in self.parts)
        return bool(idle)

    @property
    def key(self) -> tuple[str, ...]:
        """The key that tells it from the other candidates of a program."""
        return (self.kind, *self.sites)

    @property
    def spares_device(self) -> bool:
        """Whether it may need less memory of the device."""
        return bool({"shared", "mapped", "grow"} & set(self.kinds))

    @property
    def promises(self) -> bool:
        """Whether results are right only if kernels leave blocks as they are."""
        return "access = read" in str(self.rules)

    @property
    def is_probe(self) -> bool:
        """Whether only a run can tell if it pays, because kernels decide."""
        return self.kind in ("shared", "mapped")


class Prices:
    """The time of copies: what was blocked under watch, or the rates of the machine."""

    def __init__(self, costs: Costs, by_bytes: bool) -> None:
        self.costs = costs
        self._by_bytes = by_bytes
        self._blocked: dict[str, tuple[int, int]] = {}  # Bytes and time of pageable copies.
        # The gain of a run by pinned blocks of malloc, and the part of it that is no copy's but
        # comes by their huge pages.
        self.pinned_ns: float | None = None
        self.fill_ns = 0.0

    def learn(self, watched: Traffic) -> None:
        """Takes the rates of pageable copies from a run that places nothing."""
        for site in watched.sites.values():
            for direction, sums in (("HtoD", site.into), ("DtoH", site.out)):
                for name, total in sums.items():
                    if name != PINNED:
                        size, time = self._blocked.get(direction, (0, 0))
                        self._blocked[direction] = size + total.bytes, time + total.blocked_ns

    def pageable(self, direction: str, size: int) -> float:
        """The time that the driver takes for bytes of pageable memory."""
        known, time = self._blocked.get(direction, (0, 0))
        if self._by_bytes or not known:
            return self.costs.copy_ns(direction, True, size)
        return size * time / known

    def grow(self, copies: Sum) -> float:
        """The time of copies to larger arrays."""
        return self.costs.copy_ns("DtoD", False, copies.bytes) if self._by_bytes \
            else copies.blocked_ns

    @property
    def parallel_start(self) -> float:
        """The time that the first copy by several threads takes more, which is no copy."""
        return 0 if self._by_bytes else PARALLEL_START_NS

    def pin(self, size: int) -> float:
        """The time of registering, which is no copy."""
        return 0 if self._by_bytes else self.costs.pin_ns(size)


class Finder:
    """Finds candidates in what a program copies."""

    def __init__(self, traffic: Traffic, prices: Prices, ranks: Sequence[Traffic] = ()) -> None:
        """`ranks`: the same copies of each rank alone."""
        self._traffic = traffic
        self._ranks = [Finder(one, prices) for one in ranks]
        self._prices = prices
        self._covered: set[str] = set()  # Call paths whose copies are elided by what is kept.

    def all(self, kept: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that may gain beside those kept: first those that need no promise, then
        those that only runs can tell, each by what can be hoped of it.  A gain is that of the
        rank that gains most."""
        kinds = {kind for one in kept for kind in one.kinds}
        self._covered = {one.sites[0] for one in kept if one.is_probe}
        sure = sorted([*self._host(kinds), *self._grown(kinds)], key=lambda one: -one.gain_ns)
        found = [*_together(sure), *sure,
                 *sorted(self._probes(kinds), key=lambda one: -one.gain_ns)]
        of_ranks: dict[tuple, list[Candidate]] = {}
        for one in (one for rank in self._ranks for one in rank.all(kept)):
            of_ranks.setdefault((one.kind, one.sites[:1]), []).append(one)
        for one in found:
            if same := of_ranks.get((one.kind, one.sites[:1])):
                one.gain_ns = max(other.gain_ns for other in same)
                one.hope_ns = max(other.hope_ns for other in same)
        return [one for one in found if one.hope_ns > 0]

    def _sums(self, of_heap: bool) -> Iterator[tuple[str, Sum]]:
        """Copies of pageable memory by direction: malloc's, or the others."""
        for device, site in self._traffic.sites.items():
            if device in self._covered:
                continue
            for direction, sums in (("HtoD", site.into), ("DtoH", site.out)):
                for name, total in sums.items():
                    if name != PINNED and of_heap == (name != OTHER):
                        yield direction, total

    def _time(self, way: str, name: str, total: Sum, kept: Collection[str]) -> float:
        """The time of the copies under the kinds that are kept.  `name` is the host's side."""
        costs = self._prices.costs
        if name == PINNED or name != OTHER and "pinned" in kept:
            return costs.copy_ns(way, False, total.bytes)
        if "parallel" in kept:
            return costs.parallel_ns(way, total.large_bytes) + self._prices.pageable(
                way, total.bytes - total.large_bytes)
        return self._prices.pageable(way, total.bytes)

    def _host(self, kept: Collection[str]) -> Iterator[Candidate]:
        """Faster copies of pageable memory."""
        def time(of_heap: bool, kinds: Collection[str]) -> float:
            name = "malloc" if of_heap else OTHER
            return sum(self._time(way, name, one, kinds) for way, one in self._sums(of_heap))

        heap, others = time(True, kept), time(False, kept)
        pin = self._prices.pin(sum(self._traffic.pinned_bytes.values()))
        if heap and "pinned" not in kept:
            fill = self._prices.fill_ns
            gain = heap - time(True, {*kept, "pinned"}) - pin + fill
            if self._prices.pinned_ns is not None:  # Without what copies wait for kernels.
                gain = self._prices.pinned_ns - (time(True, ()) - heap)
            yield self._pinned(gain, heap + fill)
        if "parallel" not in kept:
            more = {*kept, "parallel"}
            # Blocks that are pinned are not pageable.
            beside = others - time(False, more) - self._prices.parallel_start
            gain = heap - time(True, more) + beside
            yield Candidate("parallel", "several threads copy pageable memory", gain, gain,
                            settings="pageable_copy = parallel\n", beside_pinned_ns=beside)

    def _grown(self, kept: Collection[str]) -> Iterator[Candidate]:
        """Copies of arrays that grow.  Both blocks of such a copy must be in `vmm`."""
        if "grow" in kept:
            return
        sites = [name for name in self._traffic.grown_sites
                 if self._traffic.sites[name].apis <= DEVICE_APIS]
        if sites:
            gain = self._prices.grow(self._traffic.grown)
            yield Candidate("grow", "arrays grow by a remap", gain, gain, {
                "arrays": f"site = {', '.join(sites)}\nplace = vmm, device\ngrow = yes\n"},
                            sites=tuple(sites))

    def _pinned(self, gain: float, hope: float) -> Candidate:
        sizes: dict[int, int] = {}
        for _, total in self._sums(True):
            for size, copied in total.sizes.items():
                sizes[size] = sizes.get(size, 0) + copied
        held, least = 0, 0
        for size in sorted(sizes, reverse=True):
            held, least = held + sizes[size], size
            if 100 * held >= HELD * sum(sizes.values()):
                break
        return Candidate("pinned", f"malloc's blocks of {units.size(least)} and more are pinned",
                         gain, hope, {"host-buffers": f"api = {HOST_APIS}\nsize = "
                                      f"{at_least(least)}\nplace = pinned, pageable\n"})

    def _probes(self, kept: Collection[str]) -> Iterator[Candidate]:
        fill = 0 if "pinned" in kept else self._prices.fill_ns
        for name, site in self._traffic.sites.items():
            heap_in = [host for host in site.into if host not in (OTHER, PINNED)]
            can_share = site.apis <= DEVICE_APIS and site.greatest > SHARED_OVER
            time = sum(self._time(way, host, total, kept)
                       for way, sums in (("HtoD", site.into), ("DtoH", site.out))
                       for host, total in sums.items())
            back = sum(one.bytes for one in site.out.values())
            only_in = back <= HARDLY * sum(one.bytes for one in site.into.values())
            if heap_in and only_in and can_share:
                yield self._shared(name, heap_in, time + fill)
            elif site.into and only_in and site.apis <= DEVICE_APIS and \
                    site.greatest > SHARED_OVER:
                time -= self._prices.costs.cpu_ns(sum(one.bytes for one in site.into.values()))
                yield Candidate(
                    "mapped", f"kernels read blocks of site {name} in host memory", time, time,
                    {f"mapped-{name}": f"site = {name}\nplace = mapped, device\n"}, sites=(name,))

    @staticmethod
    def _shared(name: str, hosts: list[str], time: float) -> Candidate:
        return Candidate(
            "shared", f"blocks of site {name}, which kernels only read, are one with the host's",
            time, time,
            {f"shared-{name}": f"site = {name}\nplace = shared, device\naccess = read\n"},
            hosts, sites=(name, *hosts))


def _together(sure: Sequence[Candidate]) -> Iterator[Candidate]:
    """The candidates that need no promise, as one: a race tells it, and mostly all of it pays."""
    pinned = any(one.kind == "pinned" for one in sure)
    gains = [(one, one.beside_pinned_ns if pinned and one.beside_pinned_ns is not None
              else one.gain_ns) for one in sure if one.hope_ns > 0]
    parts = [(one, gain) for one, gain in gains if gain > 0 or one.kind == "pinned"]
    if len(parts) > 1:
        yield Candidate(
            "together", "; ".join(one.what for one, _ in parts), sum(gain for _, gain in parts),
            sum(one.hope_ns for one, _ in parts),
            {name: keys for one, _ in parts for name, keys in one.rules.items()},
            settings="".join(one.settings for one, _ in parts),
            sites=tuple(site for one, _ in parts for site in one.sites),
            parts=[one for one, _ in parts])
