# SPDX-License-Identifier: MIT
"""Names from elsewhere (paths, programs, messages of a log) as text that is safe to print.

Paths are str with surrogateescape, as os.fsdecode() makes them, so that every name that the file
system holds can be opened and printed back byte for byte.
"""

from __future__ import annotations

import codecs
import re
import textwrap
import unicodedata
from typing import Iterable, NamedTuple, Sequence

ERRORS = "zc-names"
LEAST_BESIDE = 26  # Columns of text beside something.
INTERPRETER = re.compile(r"python[0-9.]*")
# Options of Python's that end them: what is run is `m`'s next word, or a text behind `c`.
PYTHON_RUNS = re.compile(r"-[A-VYZa-z]*?([mc])(.*)")
# Options with a word of their own, unless it stands in the same one.
PYTHON_TAKES = re.compile(r"-[A-VYZabd-ln-z]*[WX]|--check-hash-based-pycs")
# The blank between a number and its unit, where no line is broken.
UNIT = re.compile(r"(?<=\d) (?=(?:%|[KMGTPE]?i?B(?:/s)?|[num]?s)(?!\w))")


def program(exe: str, argv: Sequence[str]) -> str:
    """The usual name of a program: the file name of its executable, and for Python the script
    first: `train.py (python3.11)`."""
    if not INTERPRETER.fullmatch(exe):
        return exe
    kind, what = python_runs(argv[1:])
    if kind == "text":
        return f"{exe} -c"
    return f"{what.rpartition('/')[2]} ({exe})" if what else exe


class PythonRuns(NamedTuple):
    """The script or module that an interpreter was told to run."""

    kind: str  # "file", "module", "text", or "" for its standard input
    what: str  # The file or module.


def python_runs(words: Iterable[str]) -> PythonRuns:
    """By its arguments."""
    words = iter(words)
    for word in words:
        runs = PYTHON_RUNS.fullmatch(word)
        if PYTHON_TAKES.fullmatch(word):
            next(words, "")
        elif runs and runs[1] == "c":
            return PythonRuns("text", "")
        elif runs:
            return PythonRuns("module", runs[2] or next(words, ""))
        elif word == "--":
            word = next(words, "-")
        if not word.startswith("-"):
            return PythonRuns("file", word)
        if word == "-":
            break
    return PythonRuns("", "")


def _encode_error(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes that are no text go out as they came in; what the encoding lacks is escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    out = bytearray()
    for char in error.object[error.start:error.end]:
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            out.append(code - 0xDC00)
        else:
            out += char.encode("ascii", "backslashreplace")
    return bytes(out), error.end


codecs.register_error(ERRORS, _encode_error)


def shown(text: object) -> str:
    """One line of text that no terminal acts on: control characters become \\xNN or \\uNNNN."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(_shown_char(char) for char in text)


def _shown_char(char: str) -> str:
    code = ord(char)
    if char == " " or 0xDC80 <= code <= 0xDCFF or unicodedata.category(char)[0] not in "CZ":
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns(text: str) -> int:
    """Columns that printable text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """The text in at most `width` columns; a longer one loses its middle, which says least in
    paths and in module+offset frames."""
    if columns(text) <= width:
        return text
    mark = "..." if width > 6 else ""
    room = max(width - len(mark), 0)
    head = _take(text, room // 2)
    tail = _take(text[::-1], room - columns(head))[::-1]
    return head + mark + tail


def _take(text: str, room: int) -> str:
    used = 0
    for at, char in enumerate(text):
        used += _char_columns(char)
        if used > room:
            return text[:at]
    return text


def wrap(head: str, text: str, width: int | None, indent: int | None = None) -> list[str]:
    """`head` and the text, broken at blanks to the width, further lines below the text's start or
    indented by so much.  Where there is little room beside the head, the text stands below it."""
    if width is None or columns(head) + columns(text) <= width:
        return [(head + text).rstrip()]
    text = UNIT.sub("\u00a0", text)
    lines = []
    if width - columns(head) < LEAST_BESIDE:
        lines, head = [head.rstrip()], "    "
    below = " " * (columns(head) if indent is None else indent)
    lines += textwrap.wrap(text, width, initial_indent=head, subsequent_indent=below,
                           break_long_words=False, break_on_hyphens=False) or [head.rstrip()]
    return [line.replace("\u00a0", " ") for line in lines]
