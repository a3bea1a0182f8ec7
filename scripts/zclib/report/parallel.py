"""Reading many logs by several processes; their sums come back in the order of the paths."""

from __future__ import annotations

import collections
import concurrent.futures
import multiprocessing
import os
from typing import Iterator, NamedTuple, Sequence

from ..logs import Log, LogError, Problem
from .parts import Sums
from .process import ProcessLog

# Each takes some 50 MiB, and a report stays below 500.
MOST_JOBS = 4
# Below this one process has read all before the others are started.
LEAST_BYTES = 32 << 20
# Parts that are ready or under way, for each job; what they hold is bounded so.
AHEAD = 4


class Part(NamedTuple):
    """What one job read."""

    sums: Sums | None        # None where the file could not be read.
    error: str               # Why.
    problems: list[Problem]
    size: int                # Bytes of the file.


def jobs(paths: Sequence[str]) -> int:
    """How many processes are worth while."""
    most = min(MOST_JOBS, len(paths), len(os.sched_getaffinity(0)))
    return most if most > 1 and sum(map(_size, paths)) >= LEAST_BYTES else 1


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _read_one(path: str, most: int, key: str) -> Part:
    problems: list[Problem] = []
    try:
        sums = ProcessLog(Log(path, problems.append), (), most, key).read()
    except LogError as error:
        return Part(None, str(error), problems, _size(path))
    return Part(sums, "", problems, _size(path))


def read_all(paths: Sequence[str], most: int, key: str, workers: int) -> Iterator[Part]:
    """The parts of all paths, in their order."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(workers, context) as pool:
        waiting: collections.deque[concurrent.futures.Future[Part]] = collections.deque()
        try:
            for path in paths:
                waiting.append(pool.submit(_read_one, path, most, key))
                if len(waiting) >= AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
