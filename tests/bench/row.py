"""What a bench consists of: rows, the ways in which each is run, what is measured, and goals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """One way to run a row: a program, bare or under a policy."""

    label: str               # "bare", "libzc", "hand" or another, once in a row
    program: str             # a program of kernels/, without the build's suffix
    policy: str | None = None  # preset of policy/presets; "off": watched, without a policy
    own: bool = False        # a result of its own: its checksum is not compared with the others'


@dataclass(frozen=True)
class Goal:
    """A figure that libzc has to reach: value / that of `against` at most `most`."""

    against: str             # label of another way, or "" for the value itself
    most: float


@dataclass(frozen=True)
class Metric:
    """A figure of a row: the sum of some fields of a run's results."""

    name: str
    fields: tuple[str, ...]  # of the program's line, or log.NAME of the log's summary
    unit: str = "ms"         # what the table shows: "ms", "us", "MiB"; fields are in ms or bytes
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Row:
    """A job that several ways do, with the same results."""

    group: str                # heading of the table that it stands in
    name: str
    kernels: str              # library of tests/sim/kernels that holds the job's kernels
    arguments: str            # of the programs, on a real GPU
    small: str                # the same for the simulated GPU
    ways: tuple[Way, ...]
    metrics: tuple[Metric, ...]

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


PHASES = ("alloc_ms", "fill_ms", "first_ms", "copy_ms", "kernel_ms", "result_ms", "free_ms")
WHOLE = PHASES


def versus(program: str, policy: str, hand: str | None = None) -> tuple[Way, ...]:
    """The three ways of most rows: unmodified, unmodified under libzc, and written by hand."""
    ways = (Way("bare", program), Way("libzc", program, policy))
    return ways + ((Way("hand", hand),) if hand else ())
