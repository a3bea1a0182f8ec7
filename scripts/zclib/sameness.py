# SPDX-License-Identifier: MIT
"""Whether a run printed what another one did, but for what may differ."""

from __future__ import annotations

import filecmp
import os
import re
from typing import Sequence

from . import names

LONGEST_LINE = 100  # Of a line that is shown, this many bytes,
LEAST_BEFORE = 50   # and of a longer one so many before what differs.


class Output:
    """What runs print, without what the patterns match."""

    def __init__(self, ignored: Sequence[str] = ()) -> None:
        """Raises re.error with the pattern that is none."""
        self._ignored = [re.compile(pattern.encode("utf-8", "surrogateescape"), re.MULTILINE)
                         for pattern in ignored]
        self.any_order = False  # Ranks print at once, so that their lines come in any order.

    def same(self, a: str, b: str) -> bool:
        """Whether two files hold the same."""
        if filecmp.cmp(a, b, shallow=False):
            return True
        return (bool(self._ignored) or self.any_order) and self._read(a) == self._read(b)

    def learn_order(self, a: str, b: str) -> None:
        """Takes what two runs printed that are to be the same: if only the order of the lines
        differs, it may differ from here on."""
        if not self.same(a, b):
            before, self.any_order = self.any_order, True
            self.any_order = before or self.same(a, b)

    def difference(self, a: str, b: str) -> str:
        """What `b` has where it differs first, as `'2 ms' instead of '1 ms'`."""
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
        return b"\n".join(sorted(text.split(b"\n"))) if self.any_order else text


def _part(line: bytes, at: int) -> str:
    """What is shown of a line that differs from there on."""
    start = max(at - LEAST_BEFORE, 0) if len(line) > LONGEST_LINE else 0
    return "..." * (start > 0) + line[start:start + LONGEST_LINE].decode("utf-8", "surrogateescape")
