# SPDX-License-Identifier: MIT
"""Files and folders that a command writes to: tried before its work, and named where that fails.

A file takes the name of what was there when it is whole, as install(1) does it: a link is replaced,
and not followed, because it may be somebody else's; and what was there stays where writing fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from typing import Iterator, TextIO

from . import counters, logs, names

# Space that the output of a short run takes: a folder with less would lose it.
TRIED_BYTES = 64 << 10
# A folder for files that no usual folder takes, as in a container that can only be read.
MEMORY = "/dev/shm"
# Links of the kernel's to files that are open.
DESCRIPTOR = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/[^/]+/fd/\d+")
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
        if name is None or is_stream(name):
            continue
        if _is_log(name):
            raise logs.LogError(f"{name}: this is a log; name another file to write")
        if os.path.realpath(name) in paths:
            raise logs.LogError(f"{name}: two outputs can't be one file")
        paths.add(os.path.realpath(name))
        if os.path.isfile(name) and not os.access(name, os.W_OK, effective_ids=True):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)
        with _beside(name, None) as (_, descriptor):
            os.close(descriptor)


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
def written(name: str, mode: int | None = None, anew: bool = False) -> Iterator[TextIO]:
    """The file, opened for writing, with these permissions or those of the file that was there.
    `anew`: raises FileExistsError where anything is there.  Errors have its name."""
    if not anew and is_stream(name):
        follow = 0 if DESCRIPTOR.fullmatch(os.path.abspath(name)) else os.O_NOFOLLOW
        with named(name), open(os.open(name, os.O_WRONLY | os.O_TRUNC | follow), "w",
                               encoding="utf-8", errors=names.ERRORS) as out:
            yield out
        return
    with named(name), _beside(name, mode) as (fresh, descriptor):
        with open(descriptor, "w", encoding="utf-8", errors=names.ERRORS) as out:
            yield out
        if anew:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(fresh, name)


def is_stream(name: str) -> bool:
    """Whether it is written to as it is: a pipe, a device, or what is open already."""
    if DESCRIPTOR.fullmatch(os.path.abspath(name)):
        return True
    try:
        kind = os.lstat(name).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISLNK(kind) or stat.S_ISDIR(kind))


@contextlib.contextmanager
def _beside(name: str, mode: int | None) -> Iterator[tuple[str, int]]:
    """A new file in the folder of this one, by its name and open, which is gone at the end if it
    still has that name."""
    fresh = os.path.join(os.path.dirname(name), f".zc-{os.urandom(8).hex()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error
    try:
        if mode is None and os.path.isfile(name) and not os.path.islink(name):
            mode = stat.S_IMODE(os.lstat(name).st_mode) & 0o777
        if mode is not None:
            os.fchmod(descriptor, mode)
        yield fresh, descriptor
    except OSError as error:
        if error.filename == fresh:
            raise OSError(error.errno, error.strerror, name) from error
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(fresh)


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
    """Discards the bytes still buffered for stdout, so that Python does not fail once more at
    its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
