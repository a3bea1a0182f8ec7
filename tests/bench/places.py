#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the places vmm and managed against their goals: places.py vmm|managed [ROUNDS [TEXT]].

Runs each program bare, under libzc and as written by hand in turn, and prints a Markdown table of
medians; with TEXT only of the rows that it is in.  Exits with 77 where no GPU runs them, and says
why where it measures nothing.  ZC_BUILD is the build folder (build).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

BUILD = Path(os.environ.get("ZC_BUILD", "build")).resolve()
PROGRAMS = BUILD / "tests" / "preload" / "programs"


@dataclass(frozen=True)
class Way:
    """One way to run a job."""

    program: str           # of tests/preload/programs
    arguments: str         # what to measure, without the size
    policy: str = ""       # keys of the one rule, separated by ";"; "": without libzc


@dataclass(frozen=True)
class Row:
    """A figure of two ways to do a job, and the ratio that it should keep."""

    what: str              # for people
    mib: str               # size
    field: str             # name of the figure in the programs' output
    ours: Way
    other: Way
    goal: float            # ours / other, at most; at least where `more` is set
    more: bool = False     # larger is better
    other_field: str = ""  # of the other way, where it differs


GROWN, MAPPED = "place = vmm; grow = yes", "place = vmm"
CLOSED = GROWN + "; rdma = no"
# GPUDirect RDMA, which cudaMalloc gives, costs a vector by hand as much as it costs ours.
VECTORS = (
    (GROWN, "by_hand", "grow / by hand"),
    (GROWN, "by_hand_open", "grow / by hand for RDMA and export"),
    (CLOSED, "by_hand", "rdma = no / by hand"),
)
COPIED, BARE_COPY = Way("managed_speed", "copy", "place = managed"), Way("managed_speed", "copy")
BY_HAND = Way("managed_speed", "by_hand")

VMM = [
    *(Row(f"array doubled to {mib} MiB, ms, grow / {name}", str(mib), "first",
          Way("vmm_speed", "doubling", GROWN), Way("vmm_speed", way), goal)
      for mib in (1024, 8192)
      for name, way, goal in (("bare", "doubling", 0.2), ("by hand", "by_hand", 1.05))),
    *(Row(f"the same to 8192 MiB, ms, {when}, {name}", "8192", field,
          Way("vmm_speed", "doubling", policy), Way("vmm_speed", way), 1.05)
      for field, when in (("first", "first time"), ("again", "second time"))
      for policy, way, name in VECTORS),
    Row("largest array, MiB, grow / free", "0", "reached", Way("vmm_speed", "reach", GROWN),
        Way("vmm_speed", "reach"), 0.9, True, "free"),
    *(Row(f"warm allocate and free of {mib} MiB, us, vmm / bare", str(mib), "pair",
          Way("vmm_speed", "churn", MAPPED), Way("vmm_speed", "churn"), 1.0)
      for mib in (2, 64, 1024)),
]
MANAGED = [
    *(Row(f"transfer and kernel, {name}, us, managed / {other}", mib, "pair", COPIED, way, goal)
      for mib, name in (("0.00390625", "4 KiB"), ("1", "1 MiB"), ("16", "16 MiB"),
                        ("256", "256 MiB"))
      for other, way, goal in (("by hand", BY_HAND, 1.02), ("device", BARE_COPY, 1.05))),
    Row("first transfer and kernel, 256 MiB, us, managed / without prefetch", "256", "first",
        COPIED, Way("managed_speed", "copy", "place = managed; prefetch = none"), 1.0),
    Row("kernel behind its first copy, 256 MiB, us, managed / without prefetch", "256", "cold",
        Way("managed_speed", "apart", "place = managed"),
        Way("managed_speed", "apart", "place = managed; prefetch = none"), 1.0),
    Row("first kernel on an untouched block, 256 MiB, us, managed / without prefetch", "256",
        "cold", Way("managed_speed", "fresh", "place = managed"),
        Way("managed_speed", "fresh", "place = managed; prefetch = none"), 1 / 3),
    Row("kernel alone, 256 MiB, us, device / device", "256", "kernel", BARE_COPY, BARE_COPY, 1.01),
    Row("kernel alone, 256 MiB, us, managed / device", "256", "kernel", COPIED, BARE_COPY, 1.01),
]


def give_up(status: int, why: str) -> NoReturn:
    """Ends with the reason where the table goes, too: whoever keeps only that finds it there."""
    print(f"places: {why}")
    print(f"places: {why}", file=sys.stderr)
    sys.exit(status)


def run(way: Way, mib: str, folder: Path) -> dict[str, float]:
    """The figures of one run."""
    env = dict(os.environ)
    if way.policy:
        policy = folder / "policy.conf"
        policy.write_text("[rule all]\n" + "\n".join(way.policy.split("; ")) + "\n")
        env |= {"LD_PRELOAD": str(BUILD / "libzc.so"), "ZC_POLICY": str(policy), "ZC_LOG": "off",
                "ZC_SUMMARY": "0"}
    command = [str(PROGRAMS / way.program), way.arguments, mib]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except OSError as error:
        give_up(2, f"{error}: run 'make all preload-programs'")
    if done.returncode:
        sys.stderr.write(done.stderr)
        give_up(done.returncode, f"{' '.join(command)}: exit status {done.returncode}" +
                (": no GPU that runs its kernels" if done.returncode == 77 else ""))
    return {name: float(value) for name, value in
            (line.split() for line in done.stdout.splitlines())}


def main() -> None:
    place, count, text = (sys.argv[1:] + ["", "7", ""][len(sys.argv) - 1:])[:3]
    rows = {"vmm": VMM, "managed": MANAGED}.get(place)
    if rows is None:
        sys.exit(__doc__)
    rounds = int(count) if count.isdecimal() else 0
    rows = [row for row in rows if text in row.what]
    if not rounds or not rows:
        give_up(2, f"no row contains '{text}'" if rounds else f"not a number of rounds: '{count}'")
    print("| what | ours | other | ratio | goal | met |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            ours, other = [], []
            for _ in range(rounds):
                other.append(run(row.other, row.mib, Path(folder))[row.other_field or row.field])
                ours.append(run(row.ours, row.mib, Path(folder))[row.field])
            a, b = statistics.median(ours), statistics.median(other)
            met = a / b >= row.goal if row.more else a / b <= row.goal
            print(f"| {row.what} | {a:.2f} | {b:.2f} | {a / b:.3f} "
                  f"| {'≥' if row.more else '≤'} {row.goal:.2f} "
                  f"| {'yes' if met else '**no**'} |", flush=True)


if __name__ == "__main__":
    main()
