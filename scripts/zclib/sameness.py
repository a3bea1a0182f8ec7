# SPDX-License-Identifier: MIT
"""Whether a run printed what another one did, but for what may differ."""

from __future__ import annotations

import filecmp
import re
from typing import Sequence

LONGEST_LINE = 100  # Of a line that is shown, this many columns.


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

    def differing_lines(self, a: str, b: str) -> tuple[str, str]:
        """The first line of each that the other has not in its place."""
        for pair in zip(self._read(a).split(b"\n") + [b""], self._read(b).split(b"\n") + [b""]):
            if pair[0] != pair[1]:
                return tuple(line.decode("utf-8", "surrogateescape")[:LONGEST_LINE]
                             for line in pair)
        return "", ""

    def _read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            text = file.read()
        for pattern in self._ignored:
            text = pattern.sub(b"", text)
        return b"\n".join(sorted(text.split(b"\n"))) if self.any_order else text
