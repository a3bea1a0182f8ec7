# SPDX-License-Identifier: MIT
"""zc top on a terminal, by curses: its other screen, keys, colours, a header of the machine."""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import platform
import sys
import time
from typing import Any, Callable, Iterator

from .. import live, names, screen, units
from . import text
from .gpus import Gpu, Gpus
from .watch import SORTS, Watch

METER_COLUMNS = 12
# Keys of curses and of the terminal by what they stand for.
KEYS = {curses.KEY_UP: "up", ord("k"): "up", curses.KEY_DOWN: "down", ord("j"): "down",
        curses.KEY_ENTER: "enter", 10: "enter", 13: "enter", 27: "back",
        curses.KEY_BACKSPACE: "back", 127: "back"}
HELP = (
    ("q", "quit; what was seen last stays on the terminal"),
    ("s", "sort by the next of: " + ", ".join(SORTS)),
    ("up down", "choose a process, or see what has no room (also k, j)"),
    ("Enter", "its flows, places and sites; again, or Esc: back"),
    ("p", "pause, and go on"),
    ("d", "leave out, or show, processes that have ended"),
    ("h", "this help; any other key: back"),
)
WORDS = (
    "Asked is what a process asked to copy, Moved what the driver copied of it, CPU what libzc "
    "copied by the CPU, Elided what did not have to be copied. Moving is bytes moved a second, "
    "with its course over the last frames.",
    "Red: moves pageable memory, which is slow. Yellow: was killed.",
)


def show(views: dict[str, live.View], more: Callable[[], dict[str, live.View]], interval: float,
         frames: int | None) -> list[live.View] | None:
    """Shows the processes until `q`, or for a number of frames.  Returns those that were shown
    last; None where the terminal is none that curses knows."""
    with contextlib.suppress(locale.Error):  # One that is not installed stays C.
        locale.setlocale(locale.LC_ALL, "")
    try:
        curses.setupterm()
    except curses.error:
        return None
    os.environ.setdefault("ESCDELAY", "25")  # How long Esc may be the start of another key.
    with Gpus() as gpus, _other_screen() as window:
        return Terminal(window, Watch(views), gpus).run(more, interval, frames)


@contextlib.contextmanager
def _other_screen() -> Iterator[Any]:
    """As curses.wrapper(), which makes the screen white on black where no colour is wanted."""
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        yield window
    finally:
        window.keypad(False)
        curses.nocbreak()
        curses.echo()
        curses.endwin()


class Terminal:
    """Draws the frames and takes the keys."""

    def __init__(self, window: Any, watch: Watch, gpus: Gpus) -> None:
        self._window = window
        self._watch = watch
        self._gpus = gpus
        self._interval = 0.0
        utf8 = locale.nl_langinfo(locale.CODESET) == "UTF-8"
        self._sparks = text.SPARKS if utf8 else text.PLAIN_SPARKS
        self._full, self._rest = ("\u2588", "\u2591") if utf8 else ("#", "-")
        self._styles = {"": 0, "bold": curses.A_BOLD, "dim": curses.A_DIM,
                        "chosen": curses.A_REVERSE}
        self._styles.update(self._colours())
        try:
            curses.curs_set(0)
        except curses.error:
            pass  # A terminal whose cursor can't be hidden.

    @staticmethod
    def _colours() -> dict[str, int]:
        if not screen.colour() or not curses.has_colors():
            return {"red": 0, "green": 0, "yellow": 0}
        curses.start_color()
        curses.use_default_colors()
        colours = {"red": curses.COLOR_RED, "green": curses.COLOR_GREEN,
                   "yellow": curses.COLOR_YELLOW}
        for number, colour in enumerate(colours.values(), 1):
            curses.init_pair(number, colour, -1)
        return {name: curses.color_pair(number) for number, name in enumerate(colours, 1)}

    def run(self, more: Callable[[], dict[str, live.View]], interval: float,
            frames: int | None) -> list[live.View]:
        """Frame after frame.  A key draws the same one anew."""
        self._interval = interval
        # Without a terminal to read keys from, curses would say at once that there is none.
        keys = screen.is_terminal(sys.stdin)
        shown, going = 0, True
        while going:
            self._watch.read()
            self._draw()
            shown += 1
            if shown == frames:
                break
            until = time.monotonic() + interval
            while going and (left := until - time.monotonic()) > 0:
                if keys:
                    going = self._take_key(left)
                else:
                    time.sleep(left)
            if not self._watch.paused:
                self._watch.views.update(more())
        return list(self._watch.views.values())

    def _take_key(self, wait_s: float) -> bool:
        self._window.timeout(max(int(wait_s * 1000), 1))
        key = self._window.getch()
        if key == -1:
            return True
        if key == curses.KEY_RESIZE:
            curses.update_lines_cols()
        else:
            name = KEYS.get(key) or (chr(key) if 0 < key < 128 else "")
            if not self._watch.press(name):
                return False
        self._draw()
        return True

    def _draw(self) -> None:
        height, width = self._window.getmaxyx()
        self._window.erase()
        if self._watch.help:
            head, rows, chosen = [], self._help(width), None
        else:
            head, rows, chosen = self._body(width)
            head = [*self._header(width, height), ("", ""), *head]
        # The last line is the footer's.
        room = max(height - 1 - len(head), 1)
        first = self._first(len(rows), room, chosen)
        for row, (line, style) in enumerate([*head, *rows[first:first + room]][:height]):
            self._put(row, line, style, width)
        if height > 1:
            more = "" if len(rows) <= room else \
                f"{first + 1}-{first + room} of {len(rows)}: up, down"
            # The last column of the last line can't be written without scrolling.
            self._put(height - 1, self._footer(more, width - 1), "dim", width - 1)
        self._window.refresh()

    def _first(self, rows: int, room: int, chosen: int | None) -> int:
        """The first row that there is room for: the chosen one is among them."""
        first = self._watch.scroll
        if chosen is not None:
            first = max(min(first, chosen), chosen - room + 1)
        self._watch.scroll = max(min(first, rows - room), 0)
        return self._watch.scroll

    def _put(self, row: int, line: str, style: str, width: int) -> None:
        try:
            self._window.addstr(row, 0, names.shorten(line, width), self._styles[style])
        except curses.error:
            pass  # The terminal has become smaller since.

    def _header(self, width: int, height: int) -> list[tuple[str, str]]:
        watch = self._watch
        head = [f"zc top  {names.shown(platform.node())}", time.strftime("%H:%M:%S"),
                "PAUSED" if watch.paused else f"every {self._interval:g} s", watch.counts()]
        lines = [(_fitting(head, width), "bold")]
        gpus = self._gpus.latest()
        # Half of the lines are the processes'.
        room = max(height // 2 - 3, 1)
        lines += [(self._gpu(gpu, width), "") for gpu in gpus[:room]]
        if len(gpus) > room:
            lines.append((f"and {len(gpus) - room} more", ""))
        return [*lines, (self._host(width), "")]

    def _meter(self, used: int, total: int, width: int) -> str:
        """`34 GiB of 139 GiB`, with a bar where there is room."""
        words = f"{units.size(used)} of {units.size(total)}"
        if width < 70 or not total:
            return words
        full = round(METER_COLUMNS * used / total)
        return f"[{self._full * full}{self._rest * (METER_COLUMNS - full)}] {words}"

    def _gpu(self, gpu: Gpu, width: int) -> str:
        parts = [f"GPU {gpu['index']}"]
        if width >= 100 and "name" in gpu:
            parts.append(names.shown(gpu["name"]))
        if "total" in gpu:
            parts.append(self._meter(gpu["used"], gpu["total"], width))
        if "use" in gpu:
            parts.append(f"use {gpu['use']} %")
        link = [f"{words} {gpu[key] / 1e9:.1f}" for key, words in (
            ("to_device", "to"), ("from_device", "from")) if key in gpu]
        if link:
            parts.append(f"link {' '.join(link)} GB/s")
        return _fitting(parts, width)

    def _host(self, width: int) -> str:
        """The host's memory, and what of it lies pinned for processes that run."""
        pinned = sum(place["bytes"] for view in self._watch.views.values()
                     if view.summary and view.state == "running"
                     for place in view.summary["places"]
                     if place["place"] in ("pinned", "mapped"))
        total, free = memory()
        return _fitting(["Host ", self._meter(total - free, total, width),
                         f"pinned {units.size(pinned)}"], width)

    def _body(self, width: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]], int | None]:
        """Lines that stay, lines that scroll under them, and which of these is the chosen one."""
        watch = self._watch
        lines = [(error, "yellow") for error in text.errors(watch.views.values())]
        shown, chosen = watch.shown(), watch.chosen()
        if chosen is None:
            return lines, [("no process to show" + (
                "" if watch.with_ended else "; d shows those that have ended"), "")], None
        if watch.detail:
            shown = [chosen]
        rows = text.processes(shown, width, [text.sparkline(watch.rates(view), sparks=self._sparks)
                                             for view in shown])
        lines.append((rows[0], "bold"))
        body = [(row, self._style(view, view is chosen and len(shown) > 1))
                for view, row in zip(shown, rows[1:])]
        if watch.has_rows():
            return lines, body, shown.index(chosen)
        return lines, body + [("", "")] + [(line, "") for line in text.details(chosen, width)], None

    def _style(self, view: live.View, chosen: bool) -> str:
        if chosen:
            return "chosen"
        if view.state != "running":
            return "yellow" if view.state == "killed" else "dim"
        return "red" if self._watch.moves_pageable(view) else ""

    @staticmethod
    def _help(width: int) -> list[tuple[str, str]]:
        lines = [line for key, words in HELP for line in names.wrap(f"{key:<9}", words, width)]
        for words in WORDS:
            lines += ["", *names.wrap("", words, width)]
        return [(line, "") for line in lines]

    def _footer(self, more: str, width: int) -> str:
        watch = self._watch
        return _fitting([*filter(None, [more]), "q quit", "h help", f"s sort: {watch.sort}",
                         f"p {'go on' if watch.paused else 'pause'}",
                         f"Enter {'back' if watch.detail else 'detail'}",
                         f"d {'hide' if watch.with_ended else 'show'} ended"], width)


def _fitting(words: list[str], width: int) -> str:
    """As many of the words as there is room for."""
    while len(words) > 1 and names.columns("  ".join(words)) > width:
        words = words[:-1]
    return "  ".join(words)


def memory() -> tuple[int, int]:
    """The host's memory and what of it is available, in bytes; zeros where that is not told."""
    found = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                found[name] = int(rest.split()[0]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return found.get("MemTotal", 0), found.get("MemAvailable", 0)
