# SPDX-License-Identifier: MIT
"""Parts of a bench: rows, the ways in which each is run, what is measured, and goals."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Way:
    """One way to run a row: a program, bare or under a policy."""

    label: str                 # "bare", "libzc", "hand" or another, once in a row
    program: str               # a program of kernels/, without the build's suffix
    policy: str | None = None  # preset of policy/presets; NAME:SIZE:NTH:BUDGET:LINKS gives its
                               # rules another least size and `nth`, those that spill a budget,
                               # and `links`;
                               # "off": watched, without a policy
    more: str = ""             # arguments behind the row's own
    library: str = ""          # preloaded instead of libzc
    settings: tuple[str, ...] = ()  # NAME=VALUE: environment that the library needs
    shows: str = ""            # of an application: what the policy must do, or the run fails:
                               # "moved": bytes go otherwise than watched; "placed": blocks do


@dataclass(frozen=True)
class Goal:
    """A figure that a way has to reach: value / that of `against` at most `most`."""

    against: str               # label of another way, or "" for the value itself
    most: float
    label: str = "libzc"       # the way


@dataclass(frozen=True)
class Metric:
    """A figure of a row: the sum of some fields of a run's results."""

    name: str
    fields: tuple[str, ...]    # of the program's line, or log.NAME of the log's summary
    unit: str = "ms"           # what the table shows: "ms", "us", "MiB"; fields are ms or bytes
    per: str = ""              # a field of the program's line that the sum is divided by
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Row:
    """A job that several ways do, with the same results."""

    group: str                 # heading of the table that it stands in
    name: str
    kernels: str               # library of tests/sim/kernels with the job's kernels; "": none
    arguments: str             # of the programs, on a real GPU
    small: str                 # the same for the simulated GPU
    ways: tuple[Way, ...]
    metrics: tuple[Metric, ...]
    most_rounds: int = 0       # where a round takes a minute or more: no more than so many, all of
                               # which count; 0: as many as the bench is asked for
    host_gib: int = 0          # memory that has to be available on the real machine
    process: tuple[Goal, ...] = ()  # goals of the time of the whole process
    note: str = ""         # what the tables say of its figures

    def measured(self) -> tuple[Metric, ...]:
        """The metrics, and the one that every row has."""
        return (*self.metrics, replace(PROCESS, goals=self.process))

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"

    def fields(self) -> set[str]:
        """The fields that the metrics need."""
        return {name for metric in self.measured()
                for name in (*metric.fields, metric.per) if name}


# The bound of any program's time under the preset for any program, of its bare time.
NEVER_HURTS = Goal("bare", 1.02, "everyday")

# In every row: from the start of the process to its end, CUDA's own start and the program's check
# of its results included.
PROCESS = Metric("process", ("process_ms",))

# The phases that programs name alike; a program that has not all of them is the sum of its own.
WHOLE = ("alloc_ms", "fill_ms", "first_ms", "copy_ms", "kernel_ms", "result_ms", "free_ms")


def versus(program: str, policy: str, hand: str | None = None) -> tuple[Way, ...]:
    """The three ways of most rows: unmodified, unmodified under libzc, and written by hand."""
    ways = (Way("bare", program), Way("libzc", program, policy))
    return ways + ((Way("hand", hand),) if hand else ())
