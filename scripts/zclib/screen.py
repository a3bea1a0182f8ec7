# SPDX-License-Identifier: MIT
"""Facts of the terminal: its width, whether it wants colour; and the streams' encoding."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from . import names

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}

# Narrower than this no table is of use; the terminal then breaks the lines itself.
LEAST_WIDTH = 30


def prepare() -> None:
    """Makes stdout and stderr take every name; a stream that is closed (None) becomes /dev/null."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=names.ERRORS)


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def width(stream: TextIO | None = None) -> int | None:
    """Columns of the stream's terminal (COLUMNS, else what the terminal says, else 80); None where
    it is no terminal: files and pipes get lines as long as their content."""
    stream = stream or sys.stdout
    if not is_terminal(stream):
        return None
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return max(int(asked), LEAST_WIDTH)
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        found = 0
    return max(found, LEAST_WIDTH) if found else 80


def moves(stream: TextIO) -> bool:
    """Whether the stream's terminal moves its cursor, so that text can be written over."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"


def colour(stream: TextIO | None = None) -> bool:
    """Whether to colour: a terminal that knows how, and NO_COLOR (no-color.org) is not set."""
    stream = stream or sys.stdout
    return moves(stream) and not os.environ.get("NO_COLOR")


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style of STYLES where the stream wants colour, else unchanged."""
    return f"\033[{STYLES[style]}m{text}\033[0m" if colour(stream) else text


def say(text: str) -> None:
    """Prints a sentence, which a narrow terminal gets in several lines."""
    print("\n".join(names.wrap("", names.shown(text), width())))


def message(text: str) -> None:
    """One line on stderr, as every tool says what is wrong, unless that has gone."""
    with contextlib.suppress(OSError):
        print(f"zc: {names.shown(text)}", file=sys.stderr, flush=True)
