# SPDX-License-Identifier: MIT
"""A progress line on stderr, where that is a terminal that can write over it; nowhere else is
anything printed."""

from __future__ import annotations

import sys
import time

from . import names, screen, units

EVERY_S = 0.1


class Progress:
    """`with Progress("reading logs", total) as bar: bar.add(n)`; the line is gone at the end.
    Where the total is 0, because nobody knows it, there is no bar."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._left = ""
        self._total = total
        self._done = 0
        self._next = 0.0
        self._drawn = False
        self._on = screen.moves(sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def add(self, amount: int) -> None:
        """Counts `amount` more of the total as done."""
        self._done += amount
        self.draw()

    def say(self, what: str, left_s: float | None = None) -> None:
        """Another text before the bar, with the seconds that are left where these are known."""
        self._what, self._left = what, ""
        if left_s is not None:
            self._left = f", about {units.about(left_s)} left"
        self.draw(force=True)

    def tell(self, text: str) -> None:
        """A line that stays, above the bar."""
        if self._on:
            self.clear()
            screen.message(text)

    def draw(self, force: bool = False) -> None:
        now = time.monotonic()
        if not self._on or (now < self._next and not force):
            return
        self._next = now + EVERY_S
        width = screen.width(sys.stderr) or 80
        line = names.shown(self._what)
        if self._total > 0:
            share = min(self._done / self._total, 1.0)
            line += f" [{'#' * round(20 * share):<20}] {100 * share:3.0f} %"
        line += self._left
        self._write("\r" + names.shorten(line, width - 1) + "\033[K")
        self._drawn = True

    def clear(self) -> None:
        """Takes the line away, so that other output may follow."""
        if self._drawn:
            self._write("\r\033[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        """A terminal that has gone ends no work."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._on = False
