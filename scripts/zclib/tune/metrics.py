# SPDX-License-Identifier: MIT
"""Numbers of each run that are to become less."""

from __future__ import annotations

import math
import subprocess
from typing import Callable, NamedTuple

from .. import race, units
from ..costs import Costs
from ..logs import Record, number, string
from ..trial import Run

COMMAND_SECONDS = 60


class MetricError(Exception):
    """A metric has no value; the text says why."""


class Metric(NamedTuple):
    """A way to judge runs."""

    words: str                      # `time`, for messages.
    of: Callable[[Run], float]
    show: Callable[[float], str]
    is_time: bool = True            # In nanoseconds.
    exact: bool = False             # Without noise, so that one run tells it.
    needs_libzc: bool = True        # Known of runs under libzc alone.
    by_rank: bool = True            # Known of each rank.
    is_wall: bool = False           # The time of the whole run, whatever takes it.
    of_copy: Callable[[Record], float] | None = None  # Known of a transfer of the log.


def _duration(value: float) -> str:
    return units.duration(round(value))


def _blocked_ns(transfer: Record) -> float:
    return number(transfer, "blocked_ns")


def driver_ns(run: Run) -> float | None:
    """The time that the driver took to start in a run, and to end: from the end of libzc's log
    to that of the run.  None where another process than the command's own used CUDA, because the
    command may have gone on after that, and where the log does not tell."""
    processes = run.totals.processes if run.ended.pid else []
    if len(processes) != 1 or processes[0].pid != run.ended.pid or not processes[0].end_ns:
        return None
    return processes[0].driver_start_ns + max(run.ended.end_ns - processes[0].end_ns, 0)


def wall() -> Metric:
    """The time of a run.  The driver's start and end scatter by more than many rules gain, and few
    rules change them.  So they count in all runs as they were in the first one."""
    first: list[float] = []

    def value(run: Run) -> float:
        driver = driver_ns(run)
        if driver is None:
            return race.wall(run)
        first[:] = first or [driver]
        return race.wall(run) - driver + first[0]

    return Metric("time", value, _duration, is_wall=True, of_copy=_blocked_ns)


def _slowest(value: Callable[[Run], float]) -> Callable[[Run], float]:
    """That of a run, or of its slowest rank, which the others of its job wait for."""
    return lambda run: max(map(value, run.ranks.values())) if run.ranks else value(run)


def blocked() -> Metric:
    return Metric("time blocked in copies",
                  _slowest(lambda run: run.totals.counts.blocked_ns), _duration,
                  of_copy=_blocked_ns)


def copied(costs: Costs) -> Metric:
    """The time of the copies at the machine's rates, from the bytes alone."""
    def value(run: Run) -> float:
        moved = sum(costs.copy_ns(flow.dir, flow.pageable, size)
                    for flow, (_, size) in run.totals.moved_by_kind.items())
        return moved + costs.cpu_ns(run.totals.counts.cpu_copied_bytes)

    def of_copy(transfer: Record) -> float:
        outcome, size = string(transfer, "outcome"), number(transfer, "bytes")
        if outcome != "moved":
            return costs.cpu_ns(size) if outcome == "cpu_copied" else 0
        kinds = string(transfer, "real_src_kind"), string(transfer, "real_dst_kind")
        return costs.copy_ns(string(transfer, "real_dir"), "Pageable" in kinds, size)

    return Metric("time of copies by their bytes", _slowest(value), _duration, exact=True,
                  of_copy=of_copy)


def memory() -> Metric:
    """The most device memory at one time."""
    return Metric("device memory",
                  lambda run: run.totals.peak("device") + run.totals.peak("vmm"),
                  lambda value: units.size(round(value)), is_time=False, exact=True)


def by_command(command: str) -> Metric:
    """A number that a command prints, which reads what the program printed.  Less is better."""
    def value(run: Run) -> float:
        with open(run.output, "rb") as printed:
            try:
                done = subprocess.run(["/bin/sh", "-c", command], stdin=printed, check=False,
                                      stdout=subprocess.PIPE, timeout=COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                raise MetricError(f"'{command}' took more than {COMMAND_SECONDS} s") from None
        text = done.stdout.decode("utf-8", "replace").strip()
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if done.returncode != 0 or not math.isfinite(number):
            raise MetricError(f"'{command}' ended with status {done.returncode} and printed "
                              f"'{text[:40]}', which is no number")
        if number < 0:
            raise MetricError(f"'{command}' printed {text[:40]}: less is better, from 0 on, so of "
                              "what is to grow it has to print the inverse")
        return number

    return Metric(f"`{command}`", value, lambda number: f"{number:.6g}", is_time=False,
                  needs_libzc=False, by_rank=False)
