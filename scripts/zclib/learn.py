# SPDX-License-Identifier: MIT
"""Lessons of runs: the counts of their logs by call path, what is decided by them, and the policy
that comes of it.  Nothing here reads or writes a file.

Bytes decide, and the rates of the machine: the time that a copy takes is that of the kernels, too,
for which it waits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterable

from .costs import Costs
from .logs import Record, number, rows, string
from .policies import Verdict
from .report.findings import HOST_APIS

LARGE = 16 << 20         # From here on the preset everyday has a rule.
SMALL = 1 << 20          # Below, requests of libc are not tried.
SAMPLED = 16             # Blocks that one of those that are left stands for, at least.
RARE = 16                # A block of which less than this part was copied is not registered.
MOST_SITES = 256         # That a profile keeps, and 40 a line of a rule.
A_LINE = 40
# Of blocks that are left ever fewer are placed, because each costs what the others gain.
RARELY = [str(1 << at) for at in range(4, 32)]

PREFIX = "learned-"
LEFT, SAMPLE, PINNED = (PREFIX + name for name in ("left", "sample", "small"))
BASE = "host-buffers"    # The rule of the preset everyday.


@dataclass
class Counts:
    """Bytes of copies into and out of device memory."""

    in_bytes: int = 0
    out_bytes: int = 0

    def add(self, other: Counts, times: int = 1) -> None:
        for name in COUNTS:
            setattr(self, name, max(getattr(self, name) + times * getattr(other, name), 0))

    def halve(self) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) // 2)

    @property
    def bytes(self) -> int:
        return self.in_bytes + self.out_bytes

    def gain_ns(self, costs: Costs) -> float:
        """The time that they take less with pinned memory than by the driver's own buffers."""
        return sum(costs.copy_ns(way, True, size) - costs.copy_ns(way, False, size)
                   for way, size in (("HtoD", self.in_bytes), ("DtoH", self.out_bytes)))


COUNTS = tuple(Counts.__dataclass_fields__)


@dataclass
class Site:
    """The host blocks of a call path that rules took."""

    requests: int = 0
    bytes: int = 0       # Asked for,
    registered: int = 0  # and registered for them: that of a block that was freed serves others.
    small: bool = False  # So that blocks are tried within a run before they are placed.
    left: bool = False   # To libc, but for one block in 16.
    copies: Counts = field(default_factory=Counts)

    @property
    def copied(self) -> bool:
        """Whether so much of them was copied that they were registered."""
        return self.copies.bytes * RARE >= self.bytes > 0

    @property
    def pays(self) -> bool:
        return self.small and self.copied and not self.left

    def add(self, other: Site) -> None:
        times = SAMPLED if self.left else 1
        self.requests += times * other.requests
        self.bytes += times * other.bytes
        self.registered += times * other.registered
        self.copies.add(other.copies, times)

    def halve(self) -> None:
        self.requests //= 2
        self.bytes //= 2
        self.registered //= 2
        self.copies.halve()


class Run:
    """The counts in the logs of a run, all its processes together."""

    def __init__(self) -> None:
        self.sites: dict[str, Site] = {}
        self.pinned = False      # Blocks of the program's own pinned memory may look like these:
        # Device blocks that were only copied to: requests, copies, bytes.
        self.tables: dict[str, tuple[int, int, int]] = {}
        self.spared = Counts()   # Copies of pageable memory that did not move as such.
        self.wall_ns = 0         # Of the process that took longest.
        self.asked_bytes = 0
        self.moved_bytes = 0
        self.kept_bytes = 0      # The most freed memory that was kept, of all processes.
        self.costs = Costs()
        self.simulated = False

    @staticmethod
    def of(summaries: Iterable[Record]) -> Run:
        run = Run()
        for summary in summaries:
            run._take(summary)
        return run

    def _take(self, summary: Record) -> None:
        self.wall_ns = max(self.wall_ns, number(summary, "wall_ns"))
        self.asked_bytes += number(summary, "pageable_asked_bytes")
        self.moved_bytes += number(summary, "pageable_moved_bytes")
        self.kept_bytes += number(summary, "kept_peak_bytes")
        for field_of, key, times in (("flows", "asked_bytes", 1), ("moved_by_kind", "bytes", -1)):
            for row in rows(summary, field_of):
                self.spared.add(_pageable(row, key), times)
        self.pinned |= any("Pinned" in (row.get("src_kind"), row.get("dst_kind"))
                           for row in rows(summary, "flows"))
        for row in rows(summary, "sites"):
            self._take_site(row)

    def _take_site(self, row: Record) -> None:
        name, rule = string(row, "site"), string(row, "rule")
        into, out = (next((one for one in rows(row, "traffic") if one.get("dir") == way), {})
                     for way in ("HtoD", "DtoH"))
        if not re.fullmatch(r"[0-9a-f]{8}", name):
            return
        copies = Counts(_bytes(into), _bytes(out))
        if rule == BASE or rule.startswith(PREFIX):
            requests, size = number(row, "requests"), number(row, "requested_bytes")
            site = Site(requests, size, _registered(row), size < LARGE * requests, False, copies)
            self.sites.setdefault(name, Site(small=site.small)).add(site)
        elif not rule and len(rows(row, "traffic")) == 1 and into:
            more = number(row, "requests"), _calls(into), _bytes(into)
            self.tables[name] = tuple(map(sum, zip(self.tables.get(name, (0, 0, 0)), more)))

    def spared_bytes(self) -> int:
        return max(self.asked_bytes - self.moved_bytes, 0)

    def saved_ns(self) -> int | None:
        """The time that copies took less than the driver would have taken, by their bytes; None
        where the rates of this machine were not measured."""
        if self.simulated or not self.costs.measured:
            return None
        paid = self.costs.pin_ns(sum(site.registered for site in self.sites.values()))
        return min(max(int(self.spared.gain_ns(self.costs) - paid), 0), self.wall_ns)


def _pageable(row: Record, key: str) -> Counts:
    """A row of all copies, or of those that were made, if it is of pageable memory."""
    size = max(number(row, key), 0)
    if row.get("src_kind") == "Pageable" and row.get("dir") == "HtoD":
        return Counts(in_bytes=size)
    into_host = row.get("dst_kind") == "Pageable" and row.get("dir") == "DtoH"
    return Counts(out_bytes=size * into_host)


def _calls(row: Record) -> int:
    return max(number(row, "asked_calls"), 0)


def _bytes(row: Record) -> int:
    return max(number(row, "asked_bytes"), 0)


def _registered(row: Record) -> int:
    """Of copied blocks for which the log has none, those that live at the end, or one: they keep
    what others had registered, or are of up to 1 MiB, several of which are registered as one."""
    requests, live = number(row, "requests"), number(row, "requests") - number(row, "frees")
    told = number(row, "registered_bytes")
    if told or not rows(row, "traffic"):
        return told
    return number(row, "requested_bytes") * max(live, 1) // max(requests, 1)


@dataclass
class State:
    """The lessons of all runs; a run counts twice what the one before counts."""

    runs: int = 0
    sites: dict[str, Site] = field(default_factory=dict)
    # Of the last run, what a promise of the owner's could spare.
    tables: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, run: Run) -> None:
        self.runs += 1
        for name, site in list(self.sites.items()):
            if name in run.sites:
                site.halve()
            elif not site.left:  # Of those that are left, nothing need have been seen.
                site.halve()
                if not site.requests:
                    del self.sites[name]
        for name, site in run.sites.items():
            self.sites.setdefault(name, Site(small=site.small)).add(site)
        most = sorted(self.sites, key=lambda name: -self.sites[name].bytes)[:MOST_SITES]
        self.sites = {name: self.sites[name] for name in most}
        self.tables = {name: found for name, found in run.tables.items()
                       if found[1] >= 4 * max(found[0], 1) and found[2] >= LARGE
                       and not run.pinned}
        for site in self.sites.values():
            site.left = _loses(site, run.costs)


def _loses(site: Site, costs: Costs) -> bool:
    """Whether libc's own memory is better for the blocks of a call path."""
    if not site.copied:  # Nothing was paid for it.
        return False
    # As within a run (shim/place/lessons.c): a registration pays from the second copy on.
    if site.small and site.copies.bytes < 2 * site.registered:
        return True
    return site.copies.gain_ns(costs) < costs.pin_ns(site.registered)


def tried(verdicts: Iterable[Verdict]) -> bool:
    """Whether a run tries a request that no rule takes, because it is smaller than others."""
    return any(one.rule == BASE and one.key == "size" and SMALL <= int(one.got) < LARGE
               for one in verdicts)


SITE_LINE = re.compile(r"# site: (?P<id>[0-9a-f]{8}) (?P<kind>large|small)(?P<left> left)? "
                       r"(?P<counts>[0-9]{1,18}(?: [0-9]{1,18}){4})")
HEAD_LINE = re.compile(r"# runs: (?P<runs>[0-9]{1,9})")


def of_text(text: str) -> State:
    """The state in a profile; an empty one where it tells nothing."""
    state = State()
    for line in text.splitlines():
        if found := HEAD_LINE.fullmatch(line):
            state.runs = int(found["runs"])
        elif (found := SITE_LINE.fullmatch(line)) and len(state.sites) < MOST_SITES:
            requests, size, registered, *copies = map(int, found["counts"].split())
            state.sites[found["id"]] = Site(requests, size, registered, found["kind"] == "small",
                                            bool(found["left"]), Counts(*copies))
    return state


def rules(state: State, head: str, base: str, most: int) -> str:
    """The profile: its head, what it was made of, and the rules before those of the preset.  As
    long as it has more bytes than that, the call path with the fewest is left out."""
    while True:
        text = _text(state, head, base)
        if len(text.encode(errors="surrogateescape")) <= most or not state.sites:
            return text
        del state.sites[min(state.sites, key=lambda name: state.sites[name].bytes)]


def _text(state: State, head: str, base: str) -> str:
    facts = ["# Of call paths: blocks, their bytes, those registered, those copied to the GPU and",
             "# from it. A run counts twice what the one before it counts.",
             f"# runs: {state.runs}"]
    facts += [f"# site: {name} {'small' if site.small else 'large'}{' left' * site.left} "
              f"{site.requests} {site.bytes} {site.registered} {site.copies.in_bytes} "
              f"{site.copies.out_bytes}"
              for name, site in sorted(state.sites.items())]
    parts = [head + "#\n" + "\n".join(facts) + "\n", *_proposals(state)]
    small = f"api = {HOST_APIS}\nsize = {SMALL >> 20}M..{LARGE >> 20}M\n"
    large = f"api = {HOST_APIS}\nsize = {LARGE >> 20}M..\n"
    for keys, which, end in ((large, False, ""), (small, True, "-small")):
        # A call path with fewer blocks than SAMPLED has no sample but a whole run.
        left = [name for name, site in state.sites.items() if site.left and site.small == which
                and state.runs % SAMPLED]
        for names, at in _lines(left):
            at, where = end + at, f"{keys}site = {names}\n"
            parts.append(f"# Registered in vain.\n[rule {SAMPLE}{at}]\n{where}"
                         f"nth = {', '.join(RARELY)}\nplace = pinned, pageable\n\n"
                         f"[rule {LEFT}{at}]\n{where}place = pageable\n")
    for names, at in _lines([name for name, site in state.sites.items() if site.pays]):
        parts.append(f"# Smaller blocks that gain.\n[rule {PINNED}{at}]\n{small}site = {names}\n"
                     "place = pinned, pageable\n")
    return "\n".join([*parts, base])


def _lines(sites: list[str]) -> Iterable[tuple[str, str]]:
    """Call paths as values of the key, and what makes the rules' names differ."""
    for at in range(0, len(sites), A_LINE):
        yield ", ".join(sorted(sites[at:at + A_LINE])), f"-{at // A_LINE}" * bool(at)


def _proposals(state: State) -> Iterable[str]:
    """Rules that need a promise, which nobody but the owner can give."""
    for name, (requests, calls, size) in sorted(state.tables.items())[:A_LINE]:
        yield (f"# Proposed, not in force: {calls} copies with {size} bytes went into {requests} "
               f"block{'s' * (requests != 1)} of site {name}, and\n# none came back. If kernels "
               "only read them, this promise spares what has not changed:\n"
               f"#   [rule table-{name}]\n#   site = {name}\n#   place = shared, device\n"
               "#   access = read\n# with `place = shared, pageable` for the host's blocks; "
               "`zc tune` measures whether it pays.\n")
