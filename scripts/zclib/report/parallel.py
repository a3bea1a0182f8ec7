# SPDX-License-Identifier: MIT
"""Reading many logs by several processes; what they come to is returned in the logs' order."""

from __future__ import annotations

import collections
import concurrent.futures
import ctypes
import multiprocessing
import os
import signal
from typing import Callable, Iterable, Iterator, Sequence, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

# Each takes some 30 MiB, and a report stays below 500.
MOST_JOBS = 8
# Below both, one process has read all before the others are started.
LEAST_BYTES = 32 << 20
LEAST_FILES = 500
# Parts that are ready or under way, for each job; what they hold is bounded so.
AHEAD = 4
# A part's logs are summed up where they are read, which spares handing over the sums of each.
PART_BYTES = 8 << 20
PART_FILES = 100

PR_SET_PDEATHSIG = 1  # prctl(2).


def jobs(paths: Sequence[str]) -> int:
    """How many processes are worth while."""
    most = min(MOST_JOBS, len(paths), len(os.sched_getaffinity(0)))
    many = len(paths) >= LEAST_FILES or sum(map(size_of, paths)) >= LEAST_BYTES
    return most if most > 1 and many else 1


def size_of(path: str) -> int:
    """Bytes of a file; 0 where it can't be known."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def parts(paths: Sequence[str]) -> Iterator[list[str]]:
    """The paths in their order, divided into what one process reads at a time."""
    part: list[str] = []
    held = 0
    for path in paths:
        part.append(path)
        held += size_of(path)
        if held >= PART_BYTES or len(part) == PART_FILES:
            yield part
            part, held = [], 0
    if part:
        yield part


def _prepare(parent: int) -> None:
    """In a new process: it ends with its parent, which a signal may end without a word, and leaves
    the terminal's Ctrl-C to it.  By SIGTERM a pool that is broken ends its processes; if they
    took it as the end of a part, they would send the next to nobody, and wait for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def read_all(work: Iterable[Part], read: Callable[[Part], Result],
             workers: int) -> Iterator[Result]:
    """The results of `read`, a function of a module, for each part, in their order."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(workers, context, _prepare,
                                                (os.getpid(),)) as pool:
        waiting: collections.deque[concurrent.futures.Future[Result]] = collections.deque()
        try:
            for part in work:
                waiting.append(pool.submit(read, part))
                if len(waiting) >= AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
