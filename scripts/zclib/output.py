# SPDX-License-Identifier: MIT
"""Files and folders that a command writes to: tried before its work, and named where that fails."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator, TextIO

from . import counters, logs, names

# What a short run leaves in a folder: less than that would lose it.
TRIED_BYTES = 64 << 10
# Where files go that no usual folder takes, as in a container that can only be read.
MEMORY = "/dev/shm"
LOG_HEADS = (b'{"type":"meta"', counters.MAGIC)


def try_out(*files: str | None) -> None:
    """Raises OSError, with the name, where one of the files can't be opened for writing: nobody
    should learn that after minutes of reading.  Raises LogError where one is a log, as when an
    option's file was forgotten.  What is in them stays, and none is left behind."""
    paths = set()
    for name in files:
        if name is not None and os.path.isdir(name):
            raise logs.LogError(f"{name}: this is a folder; name a file in it to write")
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


def try_folder(name: str) -> None:
    """Raises OSError, with the folder's name, where no file can be made and filled in it."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(prefix=".zc-", dir=name) as file:
            file.write(bytes(TRIED_BYTES))
            file.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[str]:
    """A folder for files that are gone at the end.  Raises LogError where there can be none."""
    import tempfile

    with contextlib.ExitStack() as stack:
        try:
            try:
                folder = tempfile.TemporaryDirectory(prefix=prefix)
            except FileNotFoundError:  # None of the usual ones can be written to.
                folder = tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY)
        except OSError as error:
            raise logs.LogError("no folder takes temporary files: set TMPDIR to one that can be "
                                f"written to ({MEMORY}: {error.strerror})") from error
        yield stack.enter_context(folder)


@contextlib.contextmanager
def written(name: str) -> Iterator[TextIO]:
    """The file, opened for writing.  Errors have its name, and leave no part of it."""
    with named(name), open(name, "w", encoding="utf-8", errors=names.ERRORS) as out:
        try:
            yield out
            out.flush()
        except OSError:
            if os.path.isfile(name) and not os.path.islink(name):
                os.unlink(name)
            with contextlib.suppress(OSError):
                out.close()
            raise


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Errors of what is written meanwhile have this name: by themselves they have none, and would
    be taken for those of standard output."""
    try:
        yield
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
