# SPDX-License-Identifier: MIT
"""State of zc top: the processes with their last rates, their order, the chosen one."""

from __future__ import annotations

import collections
from typing import Callable, Deque

from .. import live

RATES_KEPT = 120

# Sort keys, in the order in which `s` goes round; names from the smallest on.
SORTS: dict[str, Callable[[live.View, float], object]] = {
    "asked": lambda view, rate: -view.summary["asked_bytes"],
    "moved": lambda view, rate: -view.summary["moved_bytes"],
    "moving": lambda view, rate: -rate,
    "blocked": lambda view, rate: -view.summary["blocked_ns"],
    "pageable": lambda view, rate: -view.summary["pageable_moved_bytes"],
    "program": lambda view, rate: (view.exe, view.pid),
    "pid": lambda view, rate: view.pid,
}


class Watch:
    """The processes, and what the keys have chosen."""

    def __init__(self, views: dict[str, live.View]) -> None:
        self.views = views
        self.sort = "asked"
        self.paused = False
        self.with_ended = True
        self.detail = False
        self.help = False
        self.scroll = 0  # Lines that have gone off the top.
        self._chosen = ""  # Path of the process that is marked.
        self._rates: dict[str, Deque[float]] = {}

    def read(self) -> None:
        """Takes a reading of all processes, unless they are to stay as they are."""
        if self.paused:
            return
        for path, view in self.views.items():
            ended = view.state != "running" and bool(view.summary)
            if not ended:
                view.read()
            rate = 0 if ended else view.rate(view.summary.get("moved_bytes", 0),
                                             view.before.get("moved_bytes", 0))
            if rate is not None:
                self._rates.setdefault(path, collections.deque(maxlen=RATES_KEPT)).append(rate)

    def rates(self, view: live.View) -> Deque[float]:
        """Moved bytes a second, frame by frame."""
        return self._rates.get(view.path, collections.deque())

    def shown(self) -> list[live.View]:
        """The processes in their order."""
        def last(view: live.View) -> float:
            rates = self.rates(view)
            return rates[-1] if rates else 0

        good = [view for view in self.views.values() if view.summary and (
            self.with_ended or view.state == "running")]
        return sorted(good, key=lambda view: SORTS[self.sort](view, last(view)))

    def chosen(self) -> live.View | None:
        """The process that is marked: the first one until another is chosen."""
        shown = self.shown()
        return next((view for view in shown if view.path == self._chosen),
                    shown[0] if shown else None)

    def moves_pageable(self, view: live.View) -> bool:
        """Whether pageable memory was moved since the frame before, which is slow."""
        return bool(view.before) and view.summary["pageable_moved_bytes"] > \
            view.before["pageable_moved_bytes"]

    def counts(self) -> str:
        """How many processes run, and how many do not any more."""
        states = [view.state for view in self.views.values() if view.summary]
        parts = [f"{states.count(state)} {state}" for state in ("running", "ended", "killed")
                 if state in states]
        return ", ".join(parts) or "no process"

    def move(self, by: int) -> None:
        """Marks another process."""
        shown, now = self.shown(), self.chosen()
        if now is not None:
            at = min(max(shown.index(now) + by, 0), len(shown) - 1)
            self._chosen = shown[at].path

    def has_rows(self) -> bool:
        """Whether there are processes to choose from, not one alone or the help."""
        return not self.help and not self.detail and len(self.shown()) > 1

    def press(self, key: str) -> bool:
        """Does what a key stands for; returns whether to go on."""
        if key == "q":
            return False
        if key in ("up", "down"):
            by = -1 if key == "up" else 1
            if self.has_rows():
                self.move(by)
            else:
                self.scroll = max(self.scroll + by, 0)
            return True
        if key in ("enter", "back", "h", "?") or self.help:
            self.scroll = 0
        if self.help:
            self.help = False
        elif key in ("h", "?"):
            self.help = True
        elif key == "p":
            self.paused = not self.paused
        elif key == "d":
            self.with_ended = not self.with_ended
        elif key == "s":
            names = list(SORTS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
        elif key == "enter":
            now = self.chosen()
            self._chosen = now.path if now else ""
            self.detail = not self.detail
        elif key == "back":
            self.detail = False
        return True
