# SPDX-License-Identifier: MIT
"""Whether a run printed what another one did, but for what may differ."""

from __future__ import annotations

import filecmp
import itertools
import os
import re
from typing import Sequence

from . import names

LONGEST_LINE = 100  # Of a line that is shown, this many bytes,
LEAST_BEFORE = 50   # and of a longer one so many before what differs.


# A number that is no part of a word: digits of a checksum are none, and "15.1" of "15.1it/s" is.
NUMBER = re.compile(rb"(?<![\w.])[-+]?\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?")
MASK = b"\0"


class Output:
    """The output of runs, without matches of the patterns, and without the numbers that differ
    between runs that are to be the same: nobody can compare those.  Such a number is one of a line
    by its place, and of all lines that read like that one but for their numbers, as of each
    epoch."""

    def __init__(self, ignored: Sequence[str] = (), strict: bool = False) -> None:
        """`strict`: no number may differ.  Raises re.error with the pattern that is none."""
        self._ignored = [re.compile(pattern.encode("utf-8", "surrogateescape"), re.MULTILINE)
                         for pattern in ignored]
        self.any_order = False  # Ranks print at once, so that their lines come in any order.
        self._strict = strict
        self._differing: dict[bytes, set[int]] = {}  # Places of numbers, by the rest of their line.

    def same(self, a: str, b: str) -> bool:
        """Whether two files hold the same."""
        if filecmp.cmp(a, b, shallow=False):
            return True
        return bool(self._ignored or self.any_order or self._differing) and \
            self._read(a) == self._read(b)

    def learn(self, a: str, b: str) -> None:
        """Takes what two runs printed that are to be the same: if only the order of the lines
        differs, or only numbers do, these may differ from here on."""
        if self.same(a, b):
            return
        before, self.any_order = self.any_order, True
        self.any_order = before or self.same(a, b)
        if not self.same(a, b) and not self._strict:
            self._learn_numbers(self._read(a).split(b"\n"), self._read(b).split(b"\n"))

    def _learn_numbers(self, a: list[bytes], b: list[bytes]) -> None:
        found: dict[bytes, set[int]] = {}
        for one, other in zip(a, b):
            rest, numbers, others = NUMBER.sub(MASK, one), *map(NUMBER.findall, (one, other))
            if rest != NUMBER.sub(MASK, other):
                return
            places = {at for at, pair in enumerate(zip(numbers, others)) if pair[0] != pair[1]}
            found.setdefault(rest, set()).update(places)
        if len(a) == len(b):
            for rest, places in found.items():
                if places:
                    self._differing.setdefault(rest, set()).update(places)

    def masked(self) -> str:
        """The parts not compared, beside the patterns, in words: `2 numbers of lines such as 'loss
        N'`; "" for nothing."""
        count = sum(map(len, self._differing.values()))
        if not count:
            return ""
        line = next(iter(self._differing)).replace(MASK, b"N").strip()
        shown = names.shown(_part(line, 0))
        more = f" and {len(self._differing) - 1} more" if len(self._differing) > 1 else ""
        return f"{count} number{'s' if count > 1 else ''} of lines such as '{shown}'{more}"

    def difference(self, a: str, b: str) -> str:
        """The first difference of `b`, as `'2 ms' instead of '1 ms'`."""
        for pair in zip(self._read(b).split(b"\n") + [b""], self._read(a).split(b"\n") + [b""]):
            if pair[0] != pair[1]:
                at = len(os.path.commonprefix(pair))
                return " instead of ".join(f"'{names.shown(_part(line, at))}'" for line in pair)
        return ""

    def nothing(self, path: str) -> str:
        """`nothing`, in more words where patterns match the rest, for a file that has nothing to be
        compared; "" for others."""
        if self._read(path).strip():
            return ""
        with open(path, "rb") as file:
            return "nothing but what --ignore names" if file.read().strip() else "nothing"

    def _read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            text = file.read()
        for pattern in self._ignored:
            text = pattern.sub(b"", text)
        if self._differing:
            text = b"\n".join(map(self._without_numbers, text.split(b"\n")))
        return b"\n".join(sorted(text.split(b"\n"))) if self.any_order else text


    def _without_numbers(self, line: bytes) -> bytes:
        places = self._differing.get(NUMBER.sub(MASK, line))
        if not places:
            return line
        at = itertools.count()
        return NUMBER.sub(lambda found: MASK if next(at) in places else found[0], line)


def _part(line: bytes, at: int) -> str:
    """The excerpt of a line that differs from there on."""
    start = max(at - LEAST_BEFORE, 0) if len(line) > LONGEST_LINE else 0
    return "..." * (start > 0) + line[start:start + LONGEST_LINE].decode("utf-8", "surrogateescape")
