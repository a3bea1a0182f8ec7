# SPDX-License-Identifier: MIT
"""Readers of many logs: this process, others beside it, or an engine that the user has.

Each engine does the same: it maps parts of the list of logs to what they come to, and merges that
(zclib/merge.py).  Dask and Ray are found by their own settings; under MPI every rank runs zc.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import site
import sys
from typing import Any, Callable, Iterable, Sequence

from .. import install, logs, merge
from . import parallel
from .process import Watcher
from .totals import Options, Totals

# Totals that an engine merges at a time.
FAN_IN = 8

Progress = Callable[[int], None]


def read(paths: Sequence[str], options: Options, progress: Progress | None = None,
         watchers: Sequence[Watcher] = (), engine: str = "local") -> Totals | None:
    """The totals of logs; None on machines of an engine that another one reports for.  Only this
    process shows `watchers` what it reads."""
    if watchers:
        return _here(paths, options, progress, watchers)
    return ENGINES[engine](paths, options, progress)


def _here(paths: Sequence[str], options: Options, progress: Progress | None,
          watchers: Sequence[Watcher] = ()) -> Totals:
    totals = Totals(options)
    for path in paths:
        totals.read_log(path, progress, watchers)
    totals.settle()
    return totals


def _local(paths: Sequence[str], options: Options, progress: Progress | None) -> Totals:
    jobs = parallel.jobs(paths)
    if jobs == 1:
        return _here(paths, options, progress)
    totals = Totals(options)
    read_part = functools.partial(_sized, options)
    for part, size in parallel.read_all(parallel.parts(paths), read_part, jobs):
        totals.merge(part)
        if progress:
            progress(size)
    return totals


def _sized(options: Options, paths: list[str]) -> tuple[Totals, int]:
    return merge.map_logs(paths, options), sum(map(parallel.size_of, paths))


def _merged(*parts: Totals) -> Totals:
    return functools.reduce(merge.merge, parts)


def _tree(parts: Iterable[Any], merged: Callable[..., Any]) -> Any:
    """One of many, by merging a few at a time."""
    layer = list(parts)
    while len(layer) > 1:
        layer = [merged(*layer[at:at + FAN_IN]) for at in range(0, len(layer), FAN_IN)]
    return layer[0]


def _need(module: str, engine: str, package: str) -> Any:
    """A module of an engine.  Raises MissingPart."""
    # Engines start Python themselves; from 3.11 on it leaves the current folder out by this.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise install.MissingPart(f"--engine {engine} needs the Python package {package}, which "
                                  f"{sys.executable} lacks: pip install {package} ({error})") \
            from error


def _package_folder() -> str:
    """The path by which workers find zclib; on other machines, if they see the same files."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _absolute(paths: Sequence[str]) -> list[str]:
    """For workers that have another current folder."""
    return list(map(os.path.abspath, paths))


def _dask(paths: Sequence[str], options: Options, progress: Progress | None) -> Totals:
    dask = _need("dask", "dask", "dask")
    remote = bool(os.environ.get("DASK_SCHEDULER_ADDRESS"))
    parts = [dask.delayed(merge.map_logs, pure=False)(part, options)
             for part in parallel.parts(_absolute(paths) if remote else paths)]
    whole = _tree(parts, dask.delayed(_merged, pure=False))
    if not remote:
        return whole.compute(scheduler="processes")
    distributed = _need("distributed", "dask", "distributed")
    with distributed.Client() as client:
        client.run(site.addsitedir, _package_folder())
        return client.compute(whole).result()


def _ray(paths: Sequence[str], options: Options, progress: Progress | None) -> Totals:
    ray = _need("ray", "ray", "ray")
    python_path = filter(None, (_package_folder(), os.environ.get("PYTHONPATH")))
    ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR,
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(python_path)}})
    map_part, merged = ray.remote(merge.map_logs), ray.remote(_merged)
    parts = [map_part.remote(part, options) for part in parallel.parts(_absolute(paths))]
    return ray.get(_tree(parts, merged.remote))


def _mpi(paths: Sequence[str], options: Options, progress: Progress | None) -> Totals | None:
    mpi = _need("mpi4py.MPI", "mpi", "mpi4py")
    world = mpi.COMM_WORLD
    try:
        # Ranks may see a folder at different times.
        parts = world.bcast(list(parallel.parts(paths)) if world.rank == 0 else None)
        mine = Totals(options)
        for part in parts[world.rank::world.size]:
            mine.merge(merge.map_logs(part, options))
        return world.reduce(mine, op=merge.merge)
    except Exception as error:
        # The other ranks would wait for this one.
        print(f"zc: rank {world.rank}: {error}", file=sys.stderr, flush=True)
        world.Abort(1)
        raise


ENGINES: dict[str, Callable[[Sequence[str], Options, Progress | None], Totals | None]] = {
    "local": _local, "dask": _dask, "mpi": _mpi, "ray": _ray,
}
