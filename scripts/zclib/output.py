"""Files that a command writes at its end: tried before its work, and named where writing fails."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator, TextIO


def try_out(*files: str | None) -> None:
    """Raises OSError, with the name, where one of the files can't be opened for writing: nobody
    should learn that after minutes of reading.  What is in them stays, and none is left behind."""
    for name in files:
        # The reader of a pipe would take this for the end.
        if name is None or os.path.exists(name) and not os.path.isfile(name):
            continue
        fresh = not os.path.lexists(name)
        with open(name, "a", encoding="utf-8"):
            pass
        if fresh:
            os.unlink(name)


@contextlib.contextmanager
def written(name: str) -> Iterator[TextIO]:
    """The file, opened for writing.  Errors have its name: those of a write have none by
    themselves."""
    try:
        with open(name, "w", encoding="utf-8") as out:
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
