# SPDX-License-Identifier: MIT
"""Candidates within one run: every other block of a call path is placed, and the copies of these
blocks are compared with those of the others.  For programs too long to be run many times."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Callable, Collection, Iterable

from .. import spread
from ..logs import Log, Record, number, string
from .candidates import Candidate
from .traffic import Blocks, Traffic

ODD = "nth = odd\n"
LEAST_BLOCKS = 8   # Of a call path, so that each half has some.
COMPARED = 0.9     # Of the placed blocks' bytes, that the others copied alike.
MOST_RULES = 100


def alternating(candidates: Iterable[Candidate],
                traffic: Traffic) -> list[tuple[Candidate, Candidate]]:
    """Candidates whose call paths allocate blocks of one size again and again, each with what
    places every other of these blocks.  No two of them name one call path."""
    found, used = [], set()
    for one in candidates:
        half = _half(one, traffic)
        if half is not None and not used & set(half.sites):
            used |= set(half.sites)
            found.append((one, half))
    return found


def _half(one: Candidate, traffic: Traffic) -> Candidate | None:
    """None where its blocks are not alike."""
    if one.kind == "pinned":
        # Sites that allocate by turns would each always be odd, or even, in one rule for all.
        (name, keys), = one.rules.items()
        sites = [site for site in traffic.pinned_bytes if _often(traffic.hosts[site])][:MOST_RULES]
        rules = {f"{name}-{site}": f"site = {site}\n{keys}" for site in sites}
        return replace(one, rules=rules, sites=sites, where=ODD) if sites else None
    # Both sides of `shared` alternate together.
    if not one.is_probe or len(one.hosts) > 1 or not _often(traffic.sites[one.sites[0]]) or \
            not all(_often(traffic.hosts[site]) for site in one.hosts):
        return None
    return replace(one, where=ODD)


def _often(site: Blocks) -> bool:
    return site.blocks >= LEAST_BLOCKS and site.least == site.greatest


@dataclass
class Copies:
    """Those of one call, size and call path of the device's block, in a process."""

    size: int
    placed: dict[int, list[float]] = field(default_factory=dict)  # Time of copies, by block,
    others: list[float] = field(default_factory=list)             # which these may not have.

    def halves(self) -> tuple[list[float], list[float]]:
        """The time of all copies of a block: placed ones, and others."""
        usual = statistics.mode(map(len, self.placed.values()))
        return [sum(one) for one in self.placed.values() if len(one) == usual], [
            sum(self.others[at:at + usual])
            for at in range(0, len(self.others) - usual + 1, usual)]

    @property
    def bytes(self) -> int:
        """Of placed blocks."""
        return self.size * sum(map(len, self.placed.values()))


def compare(paths: Iterable[str], rules: Collection[str],
            cost: Callable[[Record], float]) -> tuple[spread.Ratio, float] | None:
    """The ratio of the time of copies of placed blocks to that of the others', and the gain where
    all are placed.  None where not enough of them are alike.  `cost`: of a transfer."""
    groups = [one for path in paths for one in _groups(path, rules, cost) if one.placed]
    alike, compared = [], 0.0
    for one in groups:
        placed, others = one.halves()
        if min(len(placed), len(others)) >= LEAST_BLOCKS // 2 and sum(others):
            alike.append((placed, others))
            compared += one.bytes * len(placed) / len(one.placed)
    if not alike or compared < COMPARED * sum(one.bytes for one in groups):
        return None
    # The interval of a sum is at most the sum of intervals.
    ratios = [spread.ratio(*both) for both in alike]
    weights = [sum(others) for _, others in alike]
    whole = spread.Ratio(*(sum(weight * part[at] for weight, part in zip(weights, ratios))
                           / sum(weights) for at in range(3)))
    gain = sum(len(placed + others) * (statistics.median(others) - statistics.median(placed))
               for placed, others in alike)
    return whole, gain


def _groups(path: str, rules: Collection[str],
            cost: Callable[[Record], float]) -> Iterable[Copies]:
    live: dict[int, tuple[str, bool]] = {}  # Call paths of blocks, and whether a rule placed them.
    groups: dict[tuple, Copies] = {}
    for record in Log(path, lambda problem: None).records(("alloc", "free", "transfer")):
        block = number(record, "block")
        if record["type"] == "alloc":
            live[block] = string(record, "site"), record.get("rule") in rules
        elif record["type"] == "free":
            live.pop(block, None)
        elif record["type"] == "transfer":
            sides = [record.get("src_block") or 0, record.get("dst_block") or 0]
            direction, size = string(record, "dir"), number(record, "bytes")
            device, _ = live.get(sides[direction == "HtoD"], ("", False))
            group = groups.setdefault((string(record, "call_site"), direction, size, device),
                                      Copies(size))
            placed = [side for side in sides if side in live and live[side][1]]
            into = group.placed.setdefault(placed[0], []) if placed else group.others
            into.append(cost(record))
    return groups.values()
