# SPDX-License-Identifier: MIT
"""Files that a command writes at its end: tried before its work, and named where writing fails."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator, TextIO

from . import counters, logs, names

LOG_HEADS = (b'{"type":"meta"', counters.MAGIC)


def try_out(*files: str | None) -> None:
    """Raises OSError, with the name, where one of the files can't be opened for writing: nobody
    should learn that after minutes of reading.  Raises LogError where one is a log, as when an
    option's file was forgotten.  What is in them stays, and none is left behind."""
    paths = set()
    for name in files:
        # The reader of a pipe would take this for the end.
        if name is None or os.path.exists(name) and not os.path.isfile(name):
            continue
        if _is_log(name):
            raise logs.LogError(f"{name}: this is a log; name another file to write")
        if os.path.realpath(name) in paths:
            raise logs.LogError(f"{name}: two outputs can't be one file")
        paths.add(os.path.realpath(name))
        fresh = not os.path.lexists(name)
        with open(name, "a", encoding="utf-8"):
            pass
        if fresh:
            os.unlink(name)


def _is_log(name: str) -> bool:
    """Whether a log or counters file is there, by its name or by how it begins."""
    try:
        with open(name, "rb") as file:
            head = file.read(max(map(len, LOG_HEADS)))
    except OSError:
        return False
    return logs.is_log_name(name) or name.endswith(counters.SUFFIX) or head.startswith(LOG_HEADS)


@contextlib.contextmanager
def written(name: str) -> Iterator[TextIO]:
    """The file, opened for writing.  Errors have its name: those of a write have none by
    themselves."""
    try:
        with open(name, "w", encoding="utf-8", errors=names.ERRORS) as out:
            yield out
    except OSError as error:
        if error.filename is None and not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, name) from error
        raise


def drop_stdout() -> None:
    """What is still buffered for stdout goes nowhere, so that Python does not fail once more at
    its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
